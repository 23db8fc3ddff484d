"""`.mg` files: layout, order, access by address, compression, and growing without changing in place."""

from __future__ import annotations

import hashlib
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.standards.oms.files import VERIFIED, reader, signed_grain, some_grains, written
from tests.standards.oms.published import BY_ID, CREATED_AT, MICRO, belief, refused
from tests.standards.oms.strategies import grain_fields

from memoranda.errors import MemorandaError, NotFound, SignatureInvalid, TooLarge
from memoranda.standards.oms import grains
from memoranda.standards.oms.container import CHUNK_BYTES, ContainerWriter, Order
from memoranda.standards.oms.container_reader import ContainerReader
from memoranda.standards.oms.signature import SignedGrain, blob_of

V1 = bytes.fromhex(BY_ID["V1"]["expected"]["blob_hex"])


@pytest.mark.requirement("OMS-11.2-layout")
def test_a_file_with_one_grain_byte_for_byte() -> None:
    body = bytes.fromhex(MICRO[".mg magic"]["expected"]) + b"\x02\x00\x00\x00\x01\x01\x00" + bytes(6)
    body += (20).to_bytes(4, "big") + V1
    assert written([grains.decode(V1)]) == body + hashlib.sha256(body).digest()


@pytest.mark.requirement("OMS-11.2-layout")
def test_an_empty_file_is_a_header_and_a_footer() -> None:
    data = written([])
    assert len(data) == 48
    empty = reader(data)
    empty.verify()
    assert list(empty) == []
    assert len(empty) == 0


@pytest.mark.requirement("OMS-11.4-random-access")
def test_the_published_snippet_for_random_access_reads_our_files() -> None:
    data = written(some_grains(50))
    for n in range(49):
        at = 16 + n * 4
        offset, next_offset = int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big")
        assert grains.decode(data[offset:next_offset]) in some_grains(50)


@pytest.mark.requirement("OMS-11.5-footer")
def test_the_footer_is_the_hash_of_everything_before_it() -> None:
    for data in (written(some_grains()), written(some_grains(), [VERIFIED]), written(some_grains(), compress=True)):
        assert hashlib.sha256(data[:-32]).digest() == data[-32:]


@given(
    st.lists(grain_fields(), max_size=6, unique_by=repr),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["address", "created", "given"]),
)
@settings(max_examples=60)
def test_what_is_written_is_read(fields: list[dict[str, Any]], cbor: bool, compress: bool, order: Order) -> None:
    items = [grains.encode(each, cbor=cbor) for each in fields]
    file = reader(written(items, [VERIFIED] * (len(items) // 2), compress=compress, order=order))
    file.verify()
    found = [each for each in file if not isinstance(each, SignedGrain)]
    unique = list(dict.fromkeys(each.address for each in items))
    if order == "created":
        assert file.header.is_sorted
        assert [each.fields["created_at"] for each in found] == sorted(each.fields["created_at"] for each in found)
    assert sorted(each.address for each in found) == sorted(unique)
    if order == "given":
        assert [each.address for each in found] == unique
    if order == "address":
        assert [each.address for each in found] == sorted(unique)
    for item in items:
        assert file.find(item.address) == item


@pytest.mark.requirement("OMS-11.3-flags")
def test_a_grain_given_twice_is_written_once() -> None:
    out = io.BytesIO()
    writer = ContainerWriter(out, io.BytesIO())
    for grain in [*some_grains(), *some_grains()]:
        writer.append(grain)
    outcome = writer.finish()
    assert (outcome.count, outcome.duplicates, outcome.size_bytes) == (3, 3, len(out.getvalue()))
    assert outcome.checksum == out.getvalue()[-32:]
    assert reader(out.getvalue()).header.is_deduplicated


def test_an_address_is_found_in_files_of_any_order() -> None:
    items = some_grains(40)
    for order in ("address", "created", "given"):
        file = reader(written(items, order=order))
        assert [file.find(item.address) for item in items] == items
        for missing in ("0" * 64, "f" * 64, "7" * 64):
            with pytest.raises(NotFound):
                file.find(missing)
    with refused("ERR_HASH_LENGTH"):
        file.find("abc")


def test_a_signed_grain_lies_in_its_envelope() -> None:
    signed = signed_grain()
    data = written([signed, *some_grains()])
    assert signed.envelope in data
    file = reader(data)
    file.verify()
    assert file.find(signed.grain.address) == signed
    assert signed in list(file)
    assert sorted(hashlib.sha256(blob_of(each)).hexdigest() for each in file.deliveries()) == sorted(
        [signed.grain.address, *(each.address for each in some_grains())]
    )


def test_a_signed_grain_without_its_envelope_is_not_written() -> None:
    for naked in (signed_grain().grain, signed_grain().grain.blob):
        with refused("ERR_SIGNED_MISMATCH"):
            written([naked])


def test_a_file_with_a_forged_signature_does_not_verify() -> None:
    forged = signed_grain().envelope[:-1] + b"\x00"
    file = reader(written([forged]))
    with pytest.raises(SignatureInvalid):
        file.verify()
    with pytest.raises(SignatureInvalid):
        file.find(signed_grain().grain.address)
    assert list(file.deliveries()) == [forged]


def test_deliveries_are_checked_before_they_are_written() -> None:
    for junk in (b"", b"junk", some_grains()[0].blob + b"\x00", b"\xd2\x84\x40\xa0\xf6\x40"):
        with pytest.raises(MemorandaError):
            written([junk])


@pytest.mark.requirement("OMS-11.3-compression")
def test_a_compressed_file_is_one_zstd_frame_between_index_and_manifest() -> None:
    from backports import zstd

    items = some_grains(200)
    data = written(items, [VERIFIED], compress=True, order="given")
    file = reader(data)
    assert (data[3] & 0x04, data[9]) == (0x04, 1)
    region = b"".join(item.blob for item in items)
    assert zstd.ZstdDecompressor().decompress(data[16 + 800 : -32]) == region
    assert int.from_bytes(data[16:20], "big") == 0
    assert len(data) < len(region)
    file.verify()
    assert dict(file.states()) == {items[0].address: VERIFIED}


def test_a_compressed_file_unfolds_into_a_spool_if_there_is_one() -> None:
    items = some_grains(20)
    with tempfile.TemporaryFile() as spool:
        spool.write(b"something else")
        file = reader(written(items, compress=True), spool=spool)
        file.verify()
        assert file.find(items[7].address) == items[7]


def test_four_gibibytes_are_the_end() -> None:
    items = some_grains(4)
    fitting = 16 + sum(4 + len(item.blob) for item in items[:3])
    for limit in (fitting, fitting + len(items[3].blob) + 3):
        out = io.BytesIO()
        writer = ContainerWriter(out, io.BytesIO(), max_file_bytes=limit)
        for item in items[:3]:
            writer.append(item)
        with pytest.raises(TooLarge, match=f"{limit} bytes"):
            writer.append(items[3])
        # What fitted is a valid file.
        writer.finish()
        reader(out.getvalue()).verify()


class Grudging(io.BytesIO):
    """A file that reads less than it is asked for, as raw ones may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size if size is None or size < 0 else min(size, 7))


def test_short_reads_are_no_damage() -> None:
    items = some_grains(5)
    file = ContainerReader(Grudging(written(items, [VERIFIED] * 5)))
    file.verify()
    assert file.find(items[3].address) == items[3]


def test_several_passes_over_one_file_do_not_disturb_one_another() -> None:
    file = reader(written(some_grains(20)))
    pairs = list(zip(file, file, strict=True))
    assert all(one == other for one, other in pairs)
    assert [file.find(one.address) for one, _ in pairs if not isinstance(one, SignedGrain)] == [one for one, _ in pairs]


def test_files_larger_than_a_chunk() -> None:
    items = [grains.encode(belief(object="x" * 100_000, created_at=CREATED_AT + n)) for n in range(20)]
    assert sum(len(item.blob) for item in items) > 4 * CHUNK_BYTES
    for compress in (False, True):
        file = reader(written(items, [VERIFIED] * 20, compress=compress))
        file.verify()
        assert file.find(items[-1].address) == items[-1]


class CountingFile(io.FileIO):
    """A file that counts what is read from it."""

    bytes_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size) or b""
        self.bytes_read += len(data)
        return data


@pytest.mark.requirement("OMS-11-random-access")
def test_one_grain_of_many_is_found_without_reading_the_others(tmp_path: Path) -> None:
    items = some_grains(20_000)
    path = tmp_path / "many.mg"
    with path.open("wb") as out, tempfile.TemporaryFile() as spool:
        writer = ContainerWriter(out, spool)
        for item in items:
            writer.append(item)
        writer.finish()
    with path.open("rb") as file:
        many = ContainerReader(file)
        many.verify()
        assert sum(1 for _ in many.deliveries()) == len(items)
    with CountingFile(path) as counted:
        assert ContainerReader(counted).find(items[4321].address) == items[4321]
        assert counted.bytes_read < 20_000
