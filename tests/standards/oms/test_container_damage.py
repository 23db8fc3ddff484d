"""Damaged and hostile `.mg` files: noticed, survived, and never costly."""

from __future__ import annotations

import contextlib
import hashlib
import io
import tracemalloc
from collections.abc import Sequence

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.standards.oms.files import VERIFIED, reader, signed_grain, some_grains, written
from tests.standards.oms.published import refused

from memoranda.errors import GrainError, MemorandaError, NotFound, TooLarge, Unsupported
from memoranda.standards.oms.container import FileHeader
from memoranda.standards.oms.container_reader import recover
from memoranda.standards.oms.scan import Scanner

ITEMS = some_grains(3)
PLAIN = written(ITEMS, order="given")
FULL = written([*ITEMS, signed_grain()], [VERIFIED] * 2, order="given")
PACKED = written(ITEMS, [VERIFIED], compress=True, order="given")


def sealed(body: bytes) -> bytes:
    """A file with a right footer, whatever is in it."""
    return body + hashlib.sha256(body).digest()


def file_of(
    blobs: Sequence[bytes],
    *,
    flags: int = 0,
    count: int | None = None,
    offsets: Sequence[int] | None = None,
    codec: int = 0,
    tail: bytes = b"",
) -> bytes:
    """A file as another, perhaps wicked, implementation might write it."""
    total = len(blobs) if count is None else count
    at = 16 + 4 * len(blobs)
    places = [at + sum(map(len, blobs[:n])) for n in range(len(blobs))] if offsets is None else offsets
    head = b"MG\x01" + bytes((flags,)) + total.to_bytes(4, "big") + bytes((1, codec)) + bytes(6)
    return sealed(head + b"".join(place.to_bytes(4, "big") for place in places) + b"".join(blobs) + tail)


def recovered(data: bytes) -> list[bytes]:
    return list(recover(io.BytesIO(data)))


@pytest.mark.requirement("OMS-11.5-footer")
@pytest.mark.parametrize("data", [PLAIN, FULL, PACKED], ids=["plain", "full", "packed"])
def test_any_flipped_bit_of_a_file_is_noticed(data: bytes) -> None:
    reader(data).verify()
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(MemorandaError):
                reader(bytes(flipped)).verify()


def test_a_flipped_bit_in_a_grain_is_never_found_under_its_address() -> None:
    start = PLAIN.index(ITEMS[1].blob)
    for position in range(start, start + len(ITEMS[1].blob)):
        flipped = bytearray(PLAIN)
        flipped[position] ^= 0x04
        with pytest.raises(MemorandaError):
            reader(bytes(flipped)).find(ITEMS[1].address)


@pytest.mark.requirement("OMS-11.5-footer")
@pytest.mark.parametrize("data", [PLAIN, FULL, PACKED], ids=["plain", "full", "packed"])
def test_a_file_cut_anywhere_is_noticed(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(MemorandaError):
            reader(data[:size]).verify()


@pytest.mark.requirement("OMS-11-recover")
def test_exactly_the_whole_grains_of_a_cut_file_are_recovered() -> None:
    deliveries = [*(item.blob for item in ITEMS), signed_grain().envelope]
    ends = [16 + 16 + sum(map(len, deliveries[: n + 1])) for n in range(4)]
    for size in range(16, len(FULL) + 1):
        assert recovered(FULL[:size]) == deliveries[: sum(end <= size for end in ends)]


@pytest.mark.requirement("OMS-11-recover")
def test_a_cut_compressed_file_gives_up_what_unfolds() -> None:
    blobs = [item.blob for item in ITEMS]
    for size in range(16, len(PACKED) + 1):
        found = recovered(PACKED[:size])
        assert found == blobs[: len(found)]
    assert recovered(PACKED) == blobs


def test_recovery_needs_neither_offsets_nor_footer() -> None:
    broken = bytearray(PLAIN)
    broken[16:28] = b"\xff" * 12
    broken[-32:] = bytes(32)
    assert recovered(bytes(broken)) == [item.blob for item in ITEMS]
    broken[PLAIN.index(ITEMS[1].blob)] = 0x02
    assert recovered(bytes(broken)) == [ITEMS[0].blob]


def test_recovered_grains_make_a_new_file() -> None:
    again = reader(written(recover(io.BytesIO(FULL[:-40]))))
    again.verify()
    assert len(again) == 4


def test_what_is_no_mg_file_is_refused() -> None:
    for data in (b"", b"MG", b"PK\x03\x04" + bytes(60), b"MG\x02" + bytes(60)):
        with refused("ERR_CORRUPT", "not an .mg file"):
            reader(data)
        with refused("ERR_CORRUPT"):
            recovered(data)


@pytest.mark.requirement("OMS-11.3-flags")
@pytest.mark.parametrize(
    ("flags", "codec"), [(0x20, 0), (0x40, 0), (0x80, 0), (0x08, 0), (0x04, 2), (0x00, 2), (0x04, 3), (0x00, 255)]
)
def test_what_we_cannot_follow_is_refused_as_unsupported(flags: int, codec: int) -> None:
    with pytest.raises(Unsupported):
        reader(file_of([], flags=flags, codec=codec))


@pytest.mark.parametrize(("flags", "codec"), [(0x04, 0), (0x00, 1)])
def test_the_compression_flag_and_the_codec_must_agree(flags: int, codec: int) -> None:
    with refused("ERR_CORRUPT", "contradict each other"):
        reader(file_of([], flags=flags, codec=codec))


BLOBS = [item.blob for item in ITEMS]
AT = 16 + 12
SIZE = len(BLOBS[0])


@pytest.mark.parametrize(
    "data",
    [
        file_of(BLOBS, offsets=[AT, AT + SIZE, AT + SIZE]),
        file_of(BLOBS, offsets=[AT, AT + 2 * SIZE, AT + SIZE]),
        file_of(BLOBS, offsets=[AT, AT + SIZE, AT + SIZE + 1]),
        file_of(BLOBS, offsets=[AT, AT + SIZE, 2**32 - 1]),
        file_of(BLOBS, offsets=[AT + SIZE, AT + SIZE, AT + 2 * SIZE]),
        file_of(BLOBS, offsets=[0, SIZE, 2 * SIZE]),
        file_of(BLOBS, offsets=[16, AT + SIZE, AT + 2 * SIZE]),
        file_of(BLOBS, offsets=[AT, AT + 1, AT + 2 * SIZE]),
        file_of(BLOBS, tail=b"\x00"),
        file_of(BLOBS, tail=BLOBS[0]),
        file_of([], tail=b"\x00"),
        file_of(BLOBS, flags=0x10),
        file_of(BLOBS, flags=0x10, tail=b"\x80\x00"),
        file_of(BLOBS, count=2),
        file_of(BLOBS, count=4),
        file_of([signed_grain().grain.blob]),
        file_of([BLOBS[0], BLOBS[0]], flags=0x02),
        file_of(BLOBS[::-1], flags=0x01),
        file_of([], flags=0x10, tail=b"\x81\xa1a\x80"),
        file_of([], flags=0x04, codec=1, tail=b"not zstd"),
        file_of([], flags=0x04, codec=1, tail=zstd.compress(b"more than nothing")),
        file_of([], flags=0x04, codec=1, tail=zstd.compress(b"") + b"x"),
        file_of([], flags=0x04, codec=1),
    ],
)
def test_a_sealed_file_that_contradicts_itself_is_refused(data: bytes) -> None:
    with pytest.raises(GrainError):
        reader(data).verify()


def test_an_announced_number_of_grains_costs_nothing() -> None:
    tracemalloc.start()
    try:
        for count in (100, 2**16, 2**32 - 1):
            for flags, codec in ((0, 0), (0x04, 1)):
                data = file_of(BLOBS, count=count, flags=flags, codec=codec)
                with refused("ERR_CORRUPT", "too short"):
                    reader(data)
                assert recovered(data) == []
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_file_without_the_promise_may_hold_a_grain_twice() -> None:
    twice = reader(file_of([BLOBS[0], BLOBS[1], BLOBS[0]]))
    twice.verify()
    assert twice.find(ITEMS[0].address) == ITEMS[0]
    assert len(list(twice)) == 3


def test_a_compressed_bomb_is_refused_before_it_unfolds() -> None:
    bomb = zstd.compress(bytes(2**27), level=19)
    data = sealed(b"MG\x01\x04" + (1).to_bytes(4, "big") + b"\x01\x01" + bytes(6) + bytes(4) + bomb)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            reader(data, max_decompressed_bytes=2**20).verify()
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()


def test_a_grain_that_claims_to_be_huge_costs_nothing() -> None:
    header = BLOBS[0][:9]
    for claim in (b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"):
        with pytest.raises(MemorandaError):
            Scanner([header + claim]).read_delivery()
    for claim in (b"\x5b", b"\x9b", b"\xbb", b"\x7b", b"\xdb"):
        with pytest.raises(MemorandaError):
            Scanner([claim + b"\xff" * 8]).read_delivery()
    with pytest.raises(TooLarge):
        Scanner([header + b"\xc6\x7f\xff\xff\xff"] + [bytes(2**20)] * 3).read_delivery()


@given(st.binary(max_size=120))
@settings(max_examples=150)
def test_arbitrary_bytes_raise_only_our_errors(data: bytes) -> None:
    for start in (b"", b"MG\x01", PLAIN[:16], PLAIN[:40], FULL[:-80], PACKED[:60]):
        for candidate in (start + data, sealed(start + data)):
            with contextlib.suppress(MemorandaError):
                reader(candidate).verify()
            with contextlib.suppress(MemorandaError):
                recovered(candidate)


@pytest.mark.parametrize("data", [PLAIN, FULL, PACKED], ids=["plain", "full", "packed"])
def test_a_wicked_byte_under_a_right_footer_raises_only_our_errors(data: bytes) -> None:
    addresses = [item.address for item in ITEMS]
    for position in range(3, len(data) - 32):
        for value in (0x00, 0x7F, 0x80, 0xC1, 0xDF, 0xFF):
            body = bytearray(data[:-32])
            body[position] = value
            wicked = sealed(bytes(body))
            with contextlib.suppress(MemorandaError):
                file = reader(wicked)
                with contextlib.suppress(MemorandaError):
                    list(file.states())
                for address in addresses:
                    with contextlib.suppress(MemorandaError):
                        assert file.find(address) in ITEMS
                file.verify()
            with contextlib.suppress(MemorandaError):
                recovered(wicked)


@given(st.binary(min_size=16, max_size=16))
def test_a_header_that_is_read_is_written_back(data: bytes) -> None:
    try:
        header = FileHeader.parse(b"MG\x01" + data[3:])
    except MemorandaError:
        return
    assert FileHeader.parse(header.pack()) == header


def test_a_grain_before_the_damage_of_a_compressed_file_is_found_and_one_behind_it_is_not() -> None:
    items = sorted(some_grains(4000), key=lambda grain: grain.address)
    data = bytearray(written(items, [VERIFIED], compress=True))
    # The checksum of the frame lies before the manifest (one entry) and the footer.
    manifest_bytes = len(written(items, [VERIFIED])) - len(written(items))
    at = len(data) - 32 - manifest_bytes - 1
    data[at] ^= 1
    opened = reader(bytes(data))
    assert opened.find(items[10].address) == items[10]
    for _ in range(2):
        with pytest.raises(GrainError):
            opened.find(items[-1].address)
    assert opened.find(items[10].address) == items[10]
    with pytest.raises(GrainError):
        opened.verify()


@pytest.mark.parametrize("count", [1, 2, 3, 17, 1000])
@pytest.mark.parametrize("compress", [False, True])
def test_every_grain_of_a_file_is_found_and_no_other(count: int, compress: bool) -> None:
    items = some_grains(count)
    opened = reader(written(items, compress=compress))
    assert all(opened.find(grain.address) == grain for grain in items)
    for address in ("00" * 32, "ff" * 32, "80" * 32):
        with pytest.raises(NotFound):
            opened.find(address)
