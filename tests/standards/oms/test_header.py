"""The nine bytes of the header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.oms.published import BY_ID, belief, refused

from memoranda.standards.oms import grains
from memoranda.standards.oms.header import (
    HEADER_BYTES,
    SENSITIVITIES,
    Header,
    namespace_hash,
    read_type_byte,
)

V1 = bytes.fromhex(BY_ID["V1"]["expected"]["blob_hex"])


@pytest.mark.requirement("OMS-3.1-header")
def test_the_header_of_vector_1_reads_as_the_specification_explains_it() -> None:
    header = Header.parse(V1)
    assert header == Header(version=1, flags=0, type_byte=1, ns_hash=0xA4D2, created_at_sec=1768471200)
    assert header.pack() == V1[:HEADER_BYTES]
    assert read_type_byte(V1) == 1


@pytest.mark.requirement("OMS-3.1-header")
@given(st.binary(min_size=8, max_size=8), st.binary(min_size=1, max_size=4))
def test_any_nine_bytes_of_version_1_read_and_write_back(rest: bytes, payload: bytes) -> None:
    blob = b"\x01" + rest + payload
    assert Header.parse(blob).pack() == blob[:HEADER_BYTES]


@pytest.mark.requirement("OMS-3.3-minimum-size")
@pytest.mark.parametrize("length", range(10))
def test_fewer_than_ten_bytes_are_no_grain(length: int) -> None:
    for read in (Header.parse, read_type_byte, grains.decode):
        with refused("ERR_TOO_SHORT", str(length)):
            read(V1[:length])


@pytest.mark.requirement("OMS-3.1-version")
@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_version_is_refused_and_named(version: int) -> None:
    for read in (Header.parse, read_type_byte, grains.decode):
        with refused("ERR_VERSION", str(version)):
            read(bytes([version]) + V1[1:])


@pytest.mark.requirement("OMS-3.1-flags")
def test_each_flag_has_its_bit() -> None:
    def header(flags: int) -> Header:
        return Header(1, flags, 1, 0, 0)

    assert header(0x01).is_signed
    assert header(0x02).is_encrypted
    assert header(0x04).is_compressed
    assert header(0x20).is_cbor
    assert [header(bits << 6).sensitivity_name for bits in range(4)] == list(SENSITIVITIES)
    plain = header(0)
    assert not any((plain.is_signed, plain.is_encrypted, plain.is_compressed, plain.is_cbor))


@pytest.mark.requirement("OMS-3.1-flags")
def test_the_writer_sets_the_flags_that_the_grain_calls_for() -> None:
    reference = {"uri": "https://example.com/a.png", "modality": "image"}
    vector = {"vector_id": "v", "model": "m", "dimensions": 3}
    grain = grains.encode(belief(content_refs=[reference], embedding_refs=[vector]), signed=True, cbor=True)
    assert grain.header.flags == 0x01 | 0x08 | 0x10 | 0x20
    assert grains.decode(grain.blob).header == grain.header


@pytest.mark.requirement("OMS-3.1-header-agrees")
def test_a_header_that_contradicts_its_payload_is_refused() -> None:
    blob = grains.encode(belief()).blob
    for at, words in ((1, "reference flags"), (3, "namespace"), (8, "creation time")):
        wrong = bytearray(blob)
        wrong[at] ^= 0x08
        with refused("ERR_CORRUPT", words):
            grains.decode(bytes(wrong))


@pytest.mark.requirement("OMS-20.2-encryption")
@pytest.mark.parametrize("flag", [0x02, 0x04])
def test_encrypted_and_compressed_payloads_are_refused_because_they_have_no_layout(flag: int) -> None:
    with refused("ERR_CORRUPT", "no defined layout"):
        grains.decode(V1[:1] + bytes([flag]) + V1[2:])


def test_the_namespace_is_hashed_in_its_normal_form() -> None:
    decomposed = grains.encode(belief(namespace="cafe\u0301"))
    assert decomposed.header.ns_hash == namespace_hash("caf\u00e9")
    assert grains.decode(decomposed.blob).namespace == "caf\u00e9"
