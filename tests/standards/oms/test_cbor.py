"""Deterministic CBOR: one value, one spelling."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.oms.published import refused
from tests.standards.oms.strategies import NORMAL_VALUES, same

from memoranda.errors import GrainError
from memoranda.standards.oms import cbor

# RFC 8949 appendix A, and the boundaries of the preferred forms.
VALUES: list[tuple[Any, str]] = [
    (0, "00"),
    (23, "17"),
    (24, "1818"),
    (256, "190100"),
    (65536, "1a00010000"),
    (2**32, "1b0000000100000000"),
    (2**64 - 1, "1bffffffffffffffff"),
    (-1, "20"),
    (-(2**63), "3b7fffffffffffffff"),
    (1.0, "f93c00"),
    (1.5, "f93e00"),
    (-0.0, "f98000"),
    (65504.0, "f97bff"),
    (65505.0, "fa477fe100"),
    (5.960464477539063e-8, "f90001"),
    (1.1, "fb3ff199999999999a"),
    (False, "f4"),
    (True, "f5"),
    (None, "f6"),
    ("", "60"),
    ("\u00fc", "62c3bc"),
    (b"\x01", "4101"),
    ([1, [2]], "82018102"),
    ({"b": 1, "aa": 2, "a": 3}, "a361610361620162616102"),
]

REFUSED = {
    "1817": "more bytes",
    "1900ff": "more bytes",
    "1a0000ffff": "more bytes",
    "1b00000000ffffffff": "more bytes",
    "780161": "more bytes",
    "fa3fc00000": "more bytes",
    "fb3ff8000000000000": "more bytes",
    "9f01ff": "indefinite",
    "bf616101ff": "indefinite",
    "7f6161ff": "indefinite",
    "c249010000000000000000": "tag",
    "c074323032362d30312d30315430303a30303a30305a": "tag",
    "f7": "simple value",
    "f820": "simple value",
    "a2616101616102": "twice",
    "a2616201616101": "out of order",
    "a262616101616101": "out of order",
    "a10102": "not a string",
    "a1616161": "the end",
    "a16161f6": "null",
    "6365cc81": "not NFC",
    "63efbbbf": "byte order mark",
    "61ff": "not UTF-8",
    "3bffffffffffffffff": "64 bits",
    "0000": "stray",
    "": "the end",
    "9bffffffffffffffff": "beyond the end",
    "bbffffffffffffffff": "beyond the end",
    "7bffffffffffffffff": "the end",
}


@pytest.mark.requirement("OMS-16.2-cbor")
@pytest.mark.parametrize(("value", "data"), VALUES, ids=str)
def test_values_have_their_preferred_form(value: Any, data: str) -> None:
    assert cbor.encode_value(value).hex() == data
    assert same(cbor.decode_value(bytes.fromhex(data)), value)


@pytest.mark.requirement("OMS-16.2-cbor")
@pytest.mark.parametrize(("data", "words"), REFUSED.items())
def test_any_other_spelling_is_refused_with_its_reason(data: str, words: str) -> None:
    with refused("ERR_CORRUPT", words):
        cbor.decode_value(bytes.fromhex(data))


@pytest.mark.requirement("OMS-4.3-not-finite")
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused_both_ways(number: float) -> None:
    with refused("ERR_FLOAT_INVALID"):
        cbor.encode_value({"a": number})
    with refused("ERR_FLOAT_INVALID"):
        cbor.decode_value(cbor2.dumps({"a": number}, canonical=True))


@pytest.mark.requirement("OMS-16.2-cbor")
@given(NORMAL_VALUES)
def test_a_value_reads_back_as_itself(value: Any) -> None:
    assert same(cbor.decode_value(cbor.encode_value(value)), value)


@given(st.binary(max_size=60))
def test_whatever_is_read_is_written_the_same(data: bytes) -> None:
    try:
        value = cbor.decode_value(data)
    except GrainError:
        return
    assert cbor.encode_value(value) == data


@pytest.mark.requirement("OMS-4.10-depth")
@pytest.mark.parametrize("lead", [b"\x81", b"\xa1\x61a", b"\xa1"])
def test_a_million_levels_do_no_harm(lead: bytes) -> None:
    with refused("ERR_CORRUPT"):
        cbor.decode_value(lead * 1_000_000)
