"""What holds for every grain: one spelling, one address, no surprise from any bytes."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.oms.published import BY_ID, TYPE_NAMES, VECTORS, of_type
from tests.standards.oms.strategies import ROUGH_VALUES, TEXTS, grain_fields, same

from memoranda.errors import GrainError, MemorandaError
from memoranda.standards.oms import grains
from memoranda.standards.oms.normal import normalise
from memoranda.standards.oms.registry import ERROR_CODES

ENCODINGS = st.booleans()


def rewritten(grain: grains.Grain) -> grains.Grain:
    header = grain.header
    return grains.encode(
        grain.fields,
        cbor=header.is_cbor,
        signed=header.is_signed,
        sensitivity=header.sensitivity,
        type_byte=grain.type_byte,
        default_namespace=None,
    )


@pytest.mark.requirement("OMS-22.6-round-trip", "OMS-4-deterministic")
@given(grain_fields(), ENCODINGS, st.booleans(), st.none() | st.integers(0, 3))
def test_what_is_written_is_read_and_written_again(
    fields: dict[str, Any], cbor: bool, signed: bool, sensitivity: int | None
) -> None:
    grain = grains.encode(fields, cbor=cbor, signed=signed, sensitivity=sensitivity)
    read = grains.decode(grain.blob, address=grain.address)
    assert same(dict(read.fields), {"namespace": "shared", **fields})
    assert read == grain
    assert rewritten(read).blob == grain.blob


@pytest.mark.requirement("OMS-4.5-nulls", "OMS-4.4-nfc")
@given(st.dictionaries(TEXTS.map("x-{}".format), ROUGH_VALUES, max_size=4), ENCODINGS)
def test_rough_values_are_read_back_in_their_normal_form(extra: dict[str, Any], cbor: bool) -> None:
    fields = {**of_type("belief"), **extra}
    assert same(dict(grains.decode(grains.encode(fields, cbor=cbor).blob).fields), normalise(fields))


@pytest.mark.requirement("OMS-4-deterministic")
@given(grain_fields(), st.randoms(use_true_random=False))
def test_the_order_in_which_fields_are_given_does_not_matter(fields: dict[str, Any], chance: random.Random) -> None:
    names = list(fields)
    chance.shuffle(names)
    assert grains.encode({name: fields[name] for name in names}).blob == grains.encode(fields).blob


@pytest.mark.requirement("OMS-17.1-verify")
@given(grain_fields(), ENCODINGS, st.data())
def test_any_flipped_bit_is_noticed(fields: dict[str, Any], cbor: bool, data: st.DataObject) -> None:
    grain = grains.encode(fields, cbor=cbor)
    flipped = bytearray(grain.blob)
    bit = data.draw(st.integers(0, 8 * len(flipped) - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    with pytest.raises(GrainError):
        grains.decode(bytes(flipped), address=grain.address)
    try:
        other = grains.decode(bytes(flipped))
    except GrainError:
        return
    assert other.address != grain.address
    assert rewritten(other).blob == bytes(flipped) or "namespace" not in other.fields


@pytest.mark.requirement("OMS-17.1-verify")
@pytest.mark.parametrize("name", ["V1", "V6"])
def test_every_single_bit_of_a_published_grain_counts(name: str) -> None:
    grain = grains.encode(BY_ID[name]["input"])
    for bit in range(8 * len(grain.blob)):
        flipped = bytearray(grain.blob)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(GrainError):
            grains.decode(bytes(flipped), address=grain.address)


@given(st.binary(max_size=80), st.integers(0, 255), st.integers(0, 255), st.booleans())
def test_arbitrary_bytes_are_read_or_refused_in_good_order(
    payload: bytes, flags: int, type_byte: int, strict: bool
) -> None:
    for blob in (payload, bytes([1, flags, type_byte, 0xA4, 0xD2, 0, 0, 0, 0]) + payload):
        try:
            grain = grains.decode(blob, strict=strict)
        except MemorandaError:
            continue
        assert grain.blob == blob


@given(ROUGH_VALUES | st.dictionaries(st.sampled_from(["type", "subject", "confidence", "created_at"]), ROUGH_VALUES))
def test_arbitrary_values_are_written_or_refused_in_good_order(value: Any) -> None:
    assert refusal_of(value) is None or refusal_of(value) in ERROR_CODES


def refusal_of(value: Any) -> str | None:
    try:
        grains.encode(value)
    except GrainError as error:
        return error.oms_code
    except MemorandaError:
        return None
    return None


SEEDS: Final = [grains.encode(of_type(name), cbor=cbor).blob for name in TYPE_NAMES for cbor in (False, True)] + [
    bytes.fromhex(value["blob_hex"]) for value in VECTORS["derived_not_in_spec"].values() if "blob_hex" in value
]


def mutated(blob: bytes, chance: random.Random) -> bytes:
    """The bytes after a few of the accidents that befall bytes."""
    data = bytearray(blob)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                data.insert(at, chance.choice((0x80, 0x90, 0xC0, 0xCA, 0xDF, 0xFF, 0xA1, 0x00)))
            case 2 if len(data) > 1:
                del data[at]
            case 3:
                data[at:at] = chance.choice(SEEDS)[9 : 9 + chance.randrange(40)]
            case _:
                data[at] ^= 1 << chance.randrange(8)
    return bytes(data)


def test_twenty_thousand_mutated_grains_are_read_or_refused_in_good_order() -> None:
    chance = random.Random(13)
    accepted = 0
    for _ in range(20_000):
        blob = mutated(chance.choice(SEEDS), chance)
        try:
            grain = grains.decode(blob, strict=chance.random() < 0.5)
        except MemorandaError:
            continue
        accepted += 1
        if "namespace" in grain.fields and grain.type_byte <= 0x0A and not grains.warnings_for(grain.fields):
            assert rewritten(grain).blob == blob
    # Texts survive many accidents; if nothing did, the test would prove little.
    assert accepted > 100
