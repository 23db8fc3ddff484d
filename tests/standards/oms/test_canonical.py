"""Canonical MessagePack: one value, one spelling."""

from __future__ import annotations

import struct
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.oms.published import refused
from tests.standards.oms.strategies import NORMAL_VALUES, same

from memoranda.errors import GrainError
from memoranda.standards.oms import canonical
from memoranda.standards.oms.normal import MAX_DEPTH

# One value on each side of each boundary of section 4.2, with its bytes.
INTEGERS = {
    0: "00",
    127: "7f",
    128: "cc80",
    255: "ccff",
    256: "cd0100",
    65535: "cdffff",
    65536: "ce00010000",
    2**32 - 1: "ceffffffff",
    2**32: "cf0000000100000000",
    2**64 - 1: "cfffffffffffffffff",
    -1: "ff",
    -32: "e0",
    -33: "d0df",
    -128: "d080",
    -129: "d1ff7f",
    -32768: "d18000",
    -32769: "d2ffff7fff",
    -(2**31): "d280000000",
    -(2**31) - 1: "d3ffffffff7fffffff",
    -(2**63): "d38000000000000000",
}

# What must not be read, with a word of the reason.
REFUSED = {
    "cc7f": "more bytes",
    "cd00ff": "more bytes",
    "ce0000ffff": "more bytes",
    "cf00000000ffffffff": "more bytes",
    "d0e0": "more bytes",
    "d001": "more bytes",
    "d1ff80": "more bytes",
    "d2ffff8000": "more bytes",
    "d3ffffffff80000000": "more bytes",
    "d3000000019bc11901": "more bytes",
    "d90161": "more bytes",
    "da000161": "more bytes",
    "db0000000161": "more bytes",
    "dc000101": "more bytes",
    "dd0000000101": "more bytes",
    "de0001a16101": "more bytes",
    "df00000001a16101": "more bytes",
    "c5000161": "more bytes",
    "ca3f800000": "32 bits",
    "c1": "type 0xc1",
    "d4ff00": "type 0xd4",
    "c7010000": "type 0xc7",
    "82a16101a16102": "twice",
    "82a16201a16101": "out of order",
    "82a2616101a16101": "out of order",
    "8101a1": "not a string",
    "81c001": "not a string",
    "81900100": "map key",
    "81a161c0": "null",
    "a365cc81": "not NFC",
    "81a365cc8101": "not NFC",
    "a3efbbbf": "byte order mark",
    "a461efbbbf": "byte order mark",
    "a1ff": "not UTF-8",
    "a3eda080": "not UTF-8",
    "0000": "stray",
    "": "the end",
    "92": "beyond the end",
    "dfffffffff": "beyond the end",
    "ddffffffff": "beyond the end",
    "dbffffffff61": "the end",
    "cb3ff0": "the end",
    "81a161": "the end",
}


@pytest.mark.requirement("OMS-4.2-integers")
@pytest.mark.parametrize(("number", "data"), INTEGERS.items())
def test_integers_take_their_smallest_form(number: int, data: str) -> None:
    assert canonical.encode_value(number).hex() == data
    assert canonical.decode_value(bytes.fromhex(data)) == number


@pytest.mark.requirement("OMS-4.1-duplicate-keys", "OMS-4.2-integers", "OMS-4.4-bom", "OMS-4.4-nfc", "OMS-4.3-float64")
@pytest.mark.parametrize(("data", "words"), REFUSED.items())
def test_any_other_spelling_is_refused_with_its_reason(data: str, words: str) -> None:
    with refused("ERR_CORRUPT", words):
        canonical.decode_value(bytes.fromhex(data))


@pytest.mark.requirement("OMS-4.3-float64")
def test_floats_have_64_bits_and_stay_floats() -> None:
    for number in (1.0, 0.9, -0.0, 5e-324, 1.7976931348623157e308):
        assert canonical.encode_value(number) == b"\xcb" + struct.pack(">d", number)
        assert same(canonical.decode_value(canonical.encode_value(number)), number)
    assert canonical.encode_value(1.0) != canonical.encode_value(1)


@pytest.mark.requirement("OMS-4.3-not-finite")
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused_both_ways(number: float) -> None:
    for value in (number, [number], {"a": number}):
        with refused("ERR_FLOAT_INVALID"):
            canonical.encode_value(value)
        with refused("ERR_FLOAT_INVALID"):
            canonical.decode_value(ormsgpack.packb(value))


@pytest.mark.requirement("OMS-4.4-nfc", "OMS-4.1-duplicate-keys")
def test_texts_are_normalised_and_keys_stay_unique_through_it() -> None:
    assert canonical.encode_value({"e\u0301": ["e\u0301"]}) == canonical.encode_value({"\u00e9": ["\u00e9"]})
    with refused("ERR_CORRUPT", "twice"):
        canonical.encode_value({"e\u0301": 1, "\u00e9": 2})


@pytest.mark.requirement("OMS-4.4-bom")
@pytest.mark.parametrize("text", ["\ufeff", "\ufeffa", "a\ufeff"])
def test_a_byte_order_mark_is_not_written(text: str) -> None:
    for value in (text, [text], {"a": text}, {text: "a"}):
        with refused("ERR_CORRUPT", "byte order mark"):
            canonical.encode_value(value)


@pytest.mark.requirement("OMS-4.5-nulls")
def test_null_entries_are_left_out_of_maps_at_every_depth_and_kept_in_arrays() -> None:
    assert canonical.encode_value({"a": None, "b": {"c": None, "d": 1}}) == canonical.encode_value({"b": {"d": 1}})
    assert canonical.decode_value(canonical.encode_value([None, {"a": None}])) == [None, {}]


@pytest.mark.requirement("OMS-4.1-key-order")
def test_keys_are_sorted_by_their_utf8_bytes_at_every_depth() -> None:
    scrambled = {"b": 1, "aa": 2, "a": 3, "\U0001f600": 4, "\uff5e": 5, "Z": {"y": 1, "x": 2}}
    data = canonical.encode_value(scrambled)
    assert list(canonical.decode_value(data)) == ["Z", "a", "aa", "b", "\uff5e", "\U0001f600"]
    assert list(canonical.decode_value(data)["Z"]) == ["x", "y"]


@pytest.mark.requirement("OMS-4.6-arrays")
def test_arrays_keep_their_order() -> None:
    assert canonical.decode_value(canonical.encode_value(["b", "a", "c"])) == ["b", "a", "c"]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.requirement("OMS-4.10-depth")
@pytest.mark.parametrize("depth", [8, 16, 32])
def test_nesting_has_a_limit_both_ways(depth: int) -> None:
    data = canonical.encode_value(nested(depth), max_depth=depth)
    assert canonical.decode_value(data, max_depth=depth) == nested(depth)
    with refused("ERR_CORRUPT", "too deeply"):
        canonical.encode_value(nested(depth + 1), max_depth=depth)
    with refused("ERR_CORRUPT", "too deeply"):
        canonical.decode_value(ormsgpack.packb(nested(depth + 1)), max_depth=depth)


@pytest.mark.requirement("OMS-4.10-depth")
@pytest.mark.parametrize("lead", [b"\x91", b"\x81\xa1a", b"\x81"])
def test_a_million_levels_do_no_harm(lead: bytes) -> None:
    with refused("ERR_CORRUPT"):
        canonical.decode_value(lead * 1_000_000)


def test_what_is_no_value_of_a_grain_is_refused() -> None:
    for value, code in (
        (object(), "ERR_SCHEMA"),
        ({1: 2}, "ERR_CORRUPT"),
        (2**64, "ERR_RANGE"),
        ("\ud800", "ERR_CORRUPT"),
    ):
        with refused(code):
            canonical.encode_value([value])


def test_tuples_and_mappings_of_other_classes_are_arrays_and_maps() -> None:
    class Name(str):
        __slots__ = ()

    assert canonical.encode_value((Name("a"), {"b": ()})) == canonical.encode_value(["a", {"b": []}])


def test_bytes_are_binary_in_its_smallest_form() -> None:
    for length, lead in ((0, "c400"), (255, "c4ff"), (256, "c50100"), (65536, "c600010000")):
        data = canonical.encode_value(bytes(length))
        assert data.hex().startswith(lead)
        assert canonical.decode_value(data) == bytes(length)


@pytest.mark.requirement("OMS-4-deterministic")
@given(NORMAL_VALUES)
def test_a_value_reads_back_as_itself(value: Any) -> None:
    data = canonical.encode_value(value)
    assert same(canonical.decode_value(data), value)
    assert canonical._MsgpackReader(data, MAX_DEPTH).read_all() == canonical.decode_value(data)


@pytest.mark.requirement("OMS-4-deterministic")
@given(st.binary(max_size=60))
def test_whatever_is_read_is_written_the_same(data: bytes) -> None:
    try:
        value = canonical.decode_value(data)
    except GrainError:
        return
    assert canonical.encode_value(value) == data


@given(st.data())
def test_the_precise_reader_and_the_fast_one_agree(data: st.DataObject) -> None:
    whole = bytearray(canonical.encode_value(data.draw(NORMAL_VALUES)))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    try:
        precise = canonical._MsgpackReader(bytes(whole), MAX_DEPTH).read_all()
    except GrainError:
        with pytest.raises(GrainError):
            canonical.decode_value(bytes(whole))
    else:
        assert same(canonical.decode_value(bytes(whole)), precise)
