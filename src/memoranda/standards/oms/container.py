"""The `.mg` file: its layout and how to write one (OMS section 11). `container_reader` reads it.

    header     16   "MG" 0x01, flags, count u32, field map version, codec, six zeros
    index      4n   the offset of each grain, u32
    grains          one after another, or one zstd frame of them
    manifest        index state by address, if flag bit 4 is set
    footer     32   SHA-256 of all bytes before it

All numbers are big-endian. OMS leaves these points open; we decided:

- Offsets count from the start of the file, or in a compressed file from the start of the decompressed grains (section
  11.4).
- There are no gaps between grains. The last grain ends where its value ends, the manifest follows, the footer is the
  last 32 bytes.
- The checksum covers the bytes of the file as stored, so the compressed bytes of a compressed file.
- A signed grain is stored in its COSE_Sign1 envelope. An envelope begins with 0xd2, a bare grain with 0x01. The address
  of a signed grain is that of the grain inside.
- Grains are sorted by address unless the caller chooses another order. OMS prescribes no order, and a sorted file lets
  a reader find an address by bisection (17 hashes among 100,000 grains) without an index of our own.

Nothing here opens a file. The count and the index precede the grains, so the writer first collects the grains in a
spool: a scratch file that the caller provides. It holds 100 to 250 bytes of memory per grain, more for a grain with
index state. Files are never changed in place; to add grains to a file, write it again.

The file can be written to a pipe: nothing is read back from the output. What is written can always be read again,
therefore limits are checked when a grain is added.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby, islice
from operator import itemgetter
from typing import Final, Literal, Protocol

import msgspec

from memoranda.errors import GrainError, TooLarge, Unsupported
from memoranda.standards.oms import grains, manifest, zstd
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.header import CBOR
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.oms.scan import MAX_ITEM_BYTES
from memoranda.standards.oms.signature import SignedGrain, blob_of, delivery_of, is_envelope

MAGIC: Final = b"MG\x01"
# Bytes of the header, of an index entry, of the footer, and of the smallest file.
HEADER_BYTES: Final = 16
OFFSET_BYTES: Final = 4
FOOTER_BYTES: Final = 32
MIN_FILE_BYTES: Final = HEADER_BYTES + FOOTER_BYTES
# Bytes. Offsets are u32, so they cannot address grains beyond 4 GiB.
MAX_FILE_BYTES: Final = 2**32 - 1
# Bytes per read or write: large enough that the number of calls does not matter, small enough to hold several.
CHUNK_BYTES: Final = 256 * 1024

SORTED: Final = 0x01
DEDUPLICATED: Final = 0x02
COMPRESSED: Final = 0x04
FIELD_MAP: Final = 0x08
MANIFEST: Final = 0x10
_RESERVED_FLAGS = 0xE0
CODEC_NONE: Final = 0
CODEC_ZSTD: Final = 1
CODEC_LZ4: Final = 2
# OMS gives the number no meaning. Ours stands for the field map of OMS 1.3; readers ignore it.
FIELD_MAP_VERSION: Final = 1

Order = Literal["address", "created", "given"]

_HEADER = struct.Struct(">3sBIBB6x")


class Readable(Protocol):
    """A binary file with random access."""

    def read(self, size: int, /) -> bytes:
        """Read at most `size` bytes; return none at the end."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to a position and return it, counted from the start of the file."""


class Writable(Protocol):
    """A binary file whose `write` accepts all of its data: a buffered file, not a raw one."""

    def write(self, data: bytes, /) -> object:
        """Append the data."""


class Spool(Readable, Writable, Protocol):
    """A scratch file, such as the one tempfile.TemporaryFile() returns."""


class FileHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first sixteen bytes of an `.mg` file."""

    flags: int
    count: int
    codec: int

    @classmethod
    def parse(cls, data: bytes) -> FileHeader:
        """Parse a header. Raises GrainError for a malformed one, Unsupported for features that we cannot read."""
        if len(data) != HEADER_BYTES or not data.startswith(MAGIC):
            raise GrainError(
                "not an .mg file: it does not begin with MG and version 1", oms_code="ERR_CORRUPT"
            )
        _, flags, count, _, codec = _HEADER.unpack(data)
        if flags & _RESERVED_FLAGS or codec > CODEC_LZ4:
            raise Unsupported("the .mg file uses flags or a codec of a later version")
        if flags & FIELD_MAP:
            # Section 11.3 bit 3; OMS does not say where such a map would be.
            raise Unsupported("the .mg file has its own field map, which is not supported")
        if codec == CODEC_LZ4:
            raise Unsupported("the .mg file is compressed with lz4; only zstd is supported")
        if bool(flags & COMPRESSED) != (codec == CODEC_ZSTD):
            raise GrainError(
                "the flags and the codec of the .mg file contradict each other",
                oms_code="ERR_CORRUPT",
            )
        return cls(flags=flags, count=count, codec=codec)

    def pack(self) -> bytes:
        """Encode the header as sixteen bytes."""
        return _HEADER.pack(MAGIC, self.flags, self.count, FIELD_MAP_VERSION, self.codec)

    @property
    def is_sorted(self) -> bool:
        """True if the grains are sorted by creation time."""
        return bool(self.flags & SORTED)

    @property
    def is_deduplicated(self) -> bool:
        """True if no grain occurs twice."""
        return bool(self.flags & DEDUPLICATED)

    @property
    def is_compressed(self) -> bool:
        """True if the grains are one zstd frame."""
        return bool(self.flags & COMPRESSED)

    @property
    def has_manifest(self) -> bool:
        """True if index state follows the grains."""
        return bool(self.flags & MANIFEST)

    @property
    def grains_at(self) -> int:
        """The offset of the first grain in the file, in bytes."""
        return HEADER_BYTES + OFFSET_BYTES * self.count


class ContainerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The counts, size and checksum of a file that was written."""

    count: int
    duplicates: int
    size_bytes: int
    checksum: bytes


# One grain in the spool: address, offset in the spool, size, created_at + 2^63. Sorting these bytes sorts by address.
_ENTRY = struct.Struct(">32sQIQ")
_ADDRESS_PART = slice(0, 32)
_CREATED_SHIFT = 2**63
# Bytes. A spool up to this size is read at once while the file is written.
_SINGLE_READ_BYTES = 32 * 1_048_576


class CheckedGrain(bytes):
    """A grain's bytes that a store verified earlier, with the address computed then."""

    address: str

    @classmethod
    def of(cls, delivery: bytes, address: str) -> CheckedGrain:
        """Attach the address to the bytes."""
        grain = cls(delivery)
        grain.address = address
        return grain


class ContainerWriter:
    """A writer that collects grains one by one. `finish` writes the file, each address once."""

    def __init__(
        self,
        out: Writable,
        spool: Spool,
        *,
        order: Order = "address",
        compress: bool = False,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self._out = _HashingFile(out)
        self._spool = spool
        self._order: Order = order
        self._compress = compress
        self._max_file_bytes = min(max_file_bytes, MAX_FILE_BYTES)
        self._entries: list[bytes] = []
        self._states: dict[str, IndexState] = {}
        self._spool_size = spool.seek(0, 2)
        self._grain_bytes = 0
        self._is_cbor = True

    def append(self, grain: Grain | SignedGrain | bytes, state: IndexState = DEFAULT) -> None:
        """Add a grain, or the bytes in which it was delivered, and its index state.

        Bytes are verified except for their signature; bytes of type CheckedGrain are trusted. Raises GrainError or
        TooLarge.

        The order of calls does not matter for a sorted file.
        """
        if isinstance(grain, CheckedGrain) and self._order != "created":
            is_cbor = bool(blob_of(grain)[1] & CBOR)
            self._add(grain, grain.address, 0, is_cbor, state)
            return
        if isinstance(grain, bytes):
            delivery, inner = grain, _open_unverified(grain)
        else:
            delivery, inner = delivery_of(grain), _inner_grain(grain)
        self._add(delivery, inner.address, inner.fields["created_at"], inner.header.is_cbor, state)

    def _add(
        self, delivery: bytes, address: str, created: int, is_cbor: bool, state: IndexState
    ) -> None:
        """Write one delivery to the spool and remember its entry."""
        size = len(delivery)
        self._check_space(size)
        self._spool.write(delivery)
        entry = _ENTRY.pack(
            bytes.fromhex(address), self._spool_size, size, created + _CREATED_SHIFT
        )
        self._entries.append(entry)
        self._spool_size += size
        self._grain_bytes += size
        self._is_cbor = self._is_cbor and is_cbor
        if state is not DEFAULT:
            self.add_state(address, state)

    def add_state(self, address: str, state: IndexState) -> None:
        """Merge index state into the state already noted for this address."""
        if state != DEFAULT:
            self._states[address] = manifest.merge(state, self._states.get(address, DEFAULT))

    def finish(self) -> ContainerSummary:
        """Write the file: header, index, grains, manifest, footer. The writer cannot be used afterwards."""
        entries = self._sort_entries()
        duplicates = len(self._entries) - len(entries)
        flags = DEDUPLICATED
        if self._order == "created":
            flags |= SORTED
        if self._compress:
            flags |= COMPRESSED
        if self._states:
            flags |= MANIFEST
        codec = CODEC_ZSTD if self._compress else CODEC_NONE
        header = FileHeader(flags=flags, count=len(entries), codec=codec)
        self._out.write(header.pack())
        sizes = [_ENTRY.unpack(entry)[2] for entry in entries]
        offsets = accumulate(sizes, initial=0 if self._compress else header.grains_at)
        index = (offset.to_bytes(OFFSET_BYTES, "big") for offset in islice(offsets, len(sizes)))
        self._write(index)
        deliveries = self._read_deliveries(entries)
        if self._compress:
            self._write(zstd.compress(_join_chunks(deliveries), sum(sizes)))
        else:
            self._write(deliveries)
        self._write(self._encode_manifest())
        checksum = self._out.digest()
        self._out.write(checksum)
        return ContainerSummary(
            count=len(entries),
            duplicates=duplicates,
            size_bytes=self._out.size_bytes,
            checksum=checksum,
        )

    def _check_space(self, size: int) -> None:
        """Raise TooLarge if a grain of this size is too large for the format or for this file."""
        if size > MAX_ITEM_BYTES:
            raise TooLarge(f"a grain in an .mg file has at most {MAX_ITEM_BYTES} bytes")
        grains_at = HEADER_BYTES + OFFSET_BYTES * (len(self._entries) + 1)
        if grains_at + self._grain_bytes + size > self._max_file_bytes:
            raise TooLarge(
                f"an .mg file holds at most {self._max_file_bytes} bytes; write the remaining grains to another file"
            )

    def _sort_entries(self) -> list[bytes]:
        """Return the entries in file order, without duplicates of an address."""
        by_address = groupby(sorted(self._entries), key=itemgetter(_ADDRESS_PART))
        entries = [next(duplicates) for _, duplicates in by_address]
        if self._order == "created":
            entries.sort(key=lambda entry: (_ENTRY.unpack(entry)[3], entry))
        elif self._order == "given":
            entries.sort(key=lambda entry: _ENTRY.unpack(entry)[1])
        return entries

    def _read_deliveries(self, entries: Iterable[bytes]) -> Iterator[bytes | memoryview]:
        """Yield the bytes of each entry's grain from the spool."""
        spool = self._spool
        # The order is arbitrary, and one read per grain is slow, so a small spool is read at once.
        if self._spool_size <= _SINGLE_READ_BYTES:
            contents = memoryview(read_at(spool, 0, self._spool_size))
            for entry in entries:
                _, offset, size, _ = _ENTRY.unpack(entry)
                yield contents[offset : offset + size]
            return
        for entry in entries:
            _, offset, size, _ = _ENTRY.unpack(entry)
            yield read_at(spool, offset, size)

    def _encode_manifest(self) -> Iterator[bytes]:
        """Yield the manifest of section 11.7: a map in the grains' encoding.

        It is MessagePack unless all grains are CBOR.
        """
        if self._states:
            yield manifest.encode_head(len(self._states), is_cbor=self._is_cbor)
        for address in sorted(self._states):
            yield manifest.encode_entry(address, self._states[address], is_cbor=self._is_cbor)

    def _write(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Write the pieces in chunks of a convenient size."""
        for chunk in _join_chunks(pieces):
            self._out.write(chunk)


def read_at(file: Readable, offset: int, size: int) -> bytes:
    """Read `size` bytes at an offset; return fewer only at the end of the file."""
    file.seek(offset)
    data = file.read(size)
    while len(data) < size and (chunk := file.read(size - len(data))):
        data += chunk
    return data


class _HashingFile:
    """A file that tracks the SHA-256 and the number of the bytes written to it."""

    def __init__(self, out: Writable) -> None:
        self._out = out
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes) -> None:
        self._out.write(data)
        self._hash.update(data)
        self.size_bytes += len(data)

    def digest(self) -> bytes:
        return self._hash.digest()


def _open_unverified(delivery: bytes) -> Grain:
    """Decode the grain in a delivery without verifying its signature. Raises GrainError."""
    inner = grains.decode(blob_of(delivery))
    if inner.header.is_signed != is_envelope(delivery):
        raise GrainError(
            "a grain is in an envelope if and only if it is signed", oms_code="ERR_SIGNED_MISMATCH"
        )
    return inner


def _inner_grain(grain: Grain | SignedGrain) -> Grain:
    """Return the grain itself, without its signature."""
    return grain.grain if isinstance(grain, SignedGrain) else grain


def _join_chunks(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Join the pieces into chunks of about CHUNK_BYTES."""
    batch: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece)
        if size >= CHUNK_BYTES:
            yield b"".join(batch)
            batch, size = [], 0
    if batch:
        yield b"".join(batch)
