"""The `.mg` file: its layout and how to write one (OMS section 11). `container_reader` reads it.

    header     16   "MG" 0x01, flags, count u32, field map version, codec, six zeros
    index      4n   where each grain begins, u32
    grains          one after another, or one zstd frame of that
    manifest        index state by address, if flag bit 4 is set
    footer     32   SHA-256 of all bytes before it

All numbers are big-endian. What OMS leaves open, decided here:

- Offsets count from the start of the file, in a compressed file from the start of the unfolded grains (section 11.4).
- Grains lie without gaps. The last one ends where its value ends, the manifest follows, the footer is the last 32 B.
- The checksum covers the bytes of the file as they are, compressed if they are.
- A signed grain lies there in its COSE_Sign1 envelope, which begins 0xd2 where a bare grain begins 0x01; its address is
  still that of the grain inside.
- Grains lie in the order of their addresses unless asked otherwise. No reader can mind, for OMS prescribes no order,
  and an address is found by bisection: seventeen hashes among a hundred thousand grains, and no index of our own.

Nothing here opens a file. The count and the index stand in front of the grains, so the writer first collects the grains
in a spool, a scratch file that the caller provides, and holds 100 to 250 bytes of memory for each, more for one with
index state. Files are never changed in place: one grows by being packed anew.
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
HEADER_BYTES: Final = 16
OFFSET_BYTES: Final = 4
FOOTER_BYTES: Final = 32
MIN_FILE_BYTES: Final = HEADER_BYTES + FOOTER_BYTES
# Offsets are u32: grains beyond 4 GiB cannot be pointed at.
MAX_FILE_BYTES: Final = 2**32 - 1
# Large enough that the calls do not count, small enough to hold several.
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
# OMS gives the number no meaning; ours stands for the field map of 1.3 and is not looked at on reading.
FIELD_MAP_VERSION: Final = 1

Order = Literal["address", "created", "given"]

_HEADER = struct.Struct(">3sBIBB6x")


class Readable(Protocol):
    """A binary file that can be read anywhere."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a place and say where that is."""


class Writable(Protocol):
    """A binary file that takes all it is given; a buffered one, not a raw one."""

    def write(self, data: bytes, /) -> object:
        """Add to the end."""


class Spool(Readable, Writable, Protocol):
    """A scratch file, such as tempfile.TemporaryFile() gives."""


class FileHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first sixteen bytes."""

    flags: int
    count: int
    codec: int

    @classmethod
    def parse(cls, data: bytes) -> FileHeader:
        """Read a header and refuse what this reader cannot follow. Raises GrainError or Unsupported."""
        if len(data) != HEADER_BYTES or not data.startswith(MAGIC):
            raise GrainError("not an .mg file: it does not begin with MG and version 1", oms_code="ERR_CORRUPT")
        _, flags, count, _, codec = _HEADER.unpack(data)
        if flags & _RESERVED_FLAGS or codec > CODEC_LZ4:
            raise Unsupported("the .mg file uses flags or a codec of a later version")
        if flags & FIELD_MAP:
            # Section 11.3 bit 3; where such a map would stand is nowhere said.
            raise Unsupported("the .mg file brings a field map of its own")
        if codec == CODEC_LZ4:
            raise Unsupported("the .mg file is compressed with lz4; only zstd is supported")
        if bool(flags & COMPRESSED) != (codec == CODEC_ZSTD):
            raise GrainError("the .mg file contradicts itself on its compression", oms_code="ERR_CORRUPT")
        return cls(flags=flags, count=count, codec=codec)

    def pack(self) -> bytes:
        """The sixteen bytes."""
        return _HEADER.pack(MAGIC, self.flags, self.count, FIELD_MAP_VERSION, self.codec)

    @property
    def is_sorted(self) -> bool:
        """Whether grains lie in the order of their creation."""
        return bool(self.flags & SORTED)

    @property
    def is_deduplicated(self) -> bool:
        """Whether every grain lies there once."""
        return bool(self.flags & DEDUPLICATED)

    @property
    def is_compressed(self) -> bool:
        """Whether the grains are one zstd frame."""
        return bool(self.flags & COMPRESSED)

    @property
    def has_manifest(self) -> bool:
        """Whether index state follows the grains."""
        return bool(self.flags & MANIFEST)

    @property
    def grains_at(self) -> int:
        """Where the grains begin."""
        return HEADER_BYTES + OFFSET_BYTES * self.count


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the grains."""

    count: int
    duplicates: int
    size_bytes: int
    checksum: bytes


# One grain in the spool: address, place, size, created_at + 2^63. Sorting the bytes sorts by address.
_ENTRY = struct.Struct(">32sQIQ")
_ADDRESS_PART = slice(0, 32)
_CREATED_SHIFT = 2**63
# A spool of at most so many is held in memory while the file is written.
_AT_ONCE_BYTES = 32 * 1_048_576


class Checked(bytes):
    """The bytes of a grain that a store checked when they came in and vouches for now: its address is known."""

    address: str

    @classmethod
    def of(cls, delivery: bytes, address: str) -> Checked:
        made = cls(delivery)
        made.address = address
        return made


class ContainerWriter:
    """Collects grains one by one; `finish` writes the file. Grains with the same address are written once."""

    def __init__(
        self,
        out: Writable,
        spool: Spool,
        *,
        order: Order = "address",
        compress: bool = False,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self._out = _Hashed(out)
        self._spool = spool
        self._order: Order = order
        self._compress = compress
        self._max_file_bytes = min(max_file_bytes, MAX_FILE_BYTES)
        self._entries: list[bytes] = []
        self._states: dict[str, IndexState] = {}
        self._place = spool.seek(0, 2)
        self._grain_bytes = 0
        self._is_cbor = True

    def append(self, grain: Grain | SignedGrain | bytes, state: IndexState = DEFAULT) -> None:
        """Add a grain, or the bytes in which one was delivered, with what the index knows of it.

        Of bytes, everything is verified but the signature, unless they are checked. Raises GrainError or TooLarge.
        """
        if isinstance(grain, Checked) and self._order != "created":
            is_cbor = bool(blob_of(grain)[1] & CBOR)
            self._add(grain, grain.address, 0, is_cbor, state)
            return
        delivery, inner = _delivered(grain) if isinstance(grain, bytes) else (delivery_of(grain), _bare(grain))
        self._add(delivery, inner.address, inner.fields["created_at"], inner.header.is_cbor, state)

    def _add(self, delivery: bytes, address: str, created: int, is_cbor: bool, state: IndexState) -> None:
        size = len(delivery)
        self._check_room(size)
        self._spool.write(delivery)
        self._entries.append(_ENTRY.pack(bytes.fromhex(address), self._place, size, created + _CREATED_SHIFT))
        self._place += size
        self._grain_bytes += size
        self._is_cbor = self._is_cbor and is_cbor
        if state is not DEFAULT:
            self.note(address, state)

    def note(self, address: str, state: IndexState) -> None:
        """Add what the index knows of a grain to what it said of it before."""
        if state != DEFAULT:
            self._states[address] = manifest.merge(state, self._states.get(address, DEFAULT))

    def finish(self) -> Written:
        """Write the file: header, index, grains, manifest, footer. The writer is spent then."""
        entries = self._ordered()
        duplicates = len(self._entries) - len(entries)
        header = FileHeader(
            flags=DEDUPLICATED
            | (SORTED if self._order == "created" else 0)
            | (COMPRESSED if self._compress else 0)
            | (MANIFEST if self._states else 0),
            count=len(entries),
            codec=CODEC_ZSTD if self._compress else CODEC_NONE,
        )
        self._out.write(header.pack())
        sizes = [_ENTRY.unpack(entry)[2] for entry in entries]
        offsets = accumulate(sizes, initial=0 if self._compress else header.grains_at)
        self._write(offset.to_bytes(OFFSET_BYTES, "big") for offset in islice(offsets, len(sizes)))
        deliveries = self._deliveries(entries)
        self._write(zstd.compressed(_chunked(deliveries), sum(sizes)) if self._compress else deliveries)
        self._write(self._manifest())
        checksum = self._out.digest()
        self._out.write(checksum)
        return Written(count=len(entries), duplicates=duplicates, size_bytes=self._out.size_bytes, checksum=checksum)

    def _check_room(self, size: int) -> None:
        if size > MAX_ITEM_BYTES:
            raise TooLarge(f"a grain in an .mg file has at most {MAX_ITEM_BYTES} bytes")
        grains_at = HEADER_BYTES + OFFSET_BYTES * (len(self._entries) + 1)
        if grains_at + self._grain_bytes + size > self._max_file_bytes:
            raise TooLarge(f"an .mg file holds at most {self._max_file_bytes} bytes; write the rest to another one")

    def _ordered(self) -> list[bytes]:
        """The entries in the order of the file, the first of each address."""
        entries = [next(same) for _, same in groupby(sorted(self._entries), key=itemgetter(_ADDRESS_PART))]
        if self._order == "created":
            entries.sort(key=lambda entry: (_ENTRY.unpack(entry)[3], entry))
        elif self._order == "given":
            entries.sort(key=lambda entry: _ENTRY.unpack(entry)[1])
        return entries

    def _deliveries(self, entries: Iterable[bytes]) -> Iterator[bytes | memoryview]:
        spool = self._spool
        # In any order, so a small spool is read once: one place after the other takes as long as all the rest.
        whole = memoryview(read_at(spool, 0, self._place)) if self._place <= _AT_ONCE_BYTES else None
        for entry in entries:
            _, place, size, _ = _ENTRY.unpack(entry)
            yield read_at(spool, place, size) if whole is None else whole[place : place + size]

    def _manifest(self) -> Iterator[bytes]:
        """Section 11.7: a map in the grains' encoding, which is MessagePack unless all of them are CBOR."""
        if self._states:
            yield manifest.head(len(self._states), is_cbor=self._is_cbor)
        for address in sorted(self._states):
            yield manifest.entry(address, self._states[address], is_cbor=self._is_cbor)

    def _write(self, pieces: Iterable[bytes | memoryview]) -> None:
        for chunk in _chunked(pieces):
            self._out.write(chunk)


def read_at(file: Readable, place: int, size: int) -> bytes:
    """`size` bytes from a place, fewer only where the file ends."""
    file.seek(place)
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


class _Hashed:
    """A file that remembers the SHA-256 and the number of all that went into it."""

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


def _delivered(delivery: bytes) -> tuple[bytes, Grain]:
    inner = grains.decode(blob_of(delivery))
    if inner.header.is_signed != is_envelope(delivery):
        raise GrainError("a grain is in an envelope if and only if it is signed", oms_code="ERR_SIGNED_MISMATCH")
    return delivery, inner


def _bare(grain: Grain | SignedGrain) -> Grain:
    return grain.grain if isinstance(grain, SignedGrain) else grain


def _chunked(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """The same bytes in pieces of a convenient size."""
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
