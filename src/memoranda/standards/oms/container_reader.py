"""A reader of `.mg` files: one grain by its address, all grains, or what survives damage (OMS section 11).

Opening reads sixteen bytes and the size of the file. Finding an address among n grains reads about log₂ n of them. A
grain found by address is verified by that address. Only the footer protects all other bytes, so every method that goes
through the file verifies the footer first, once.

Reading must be safe for files of strangers: offsets, counts and sizes are checked against the file before memory is
used for them, and decompression stops at a limit.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import pairwise
from typing import Final

from memoranda.errors import GrainError, MemorandaError, NotFound
from memoranda.model.oms_names import check_address
from memoranda.standards.oms import manifest
from memoranda.standards.oms.container import (
    CHUNK_BYTES,
    FOOTER_BYTES,
    HEADER_BYTES,
    MAX_FILE_BYTES,
    MIN_FILE_BYTES,
    OFFSET_BYTES,
    FileHeader,
    Readable,
    Spool,
    read_at,
)
from memoranda.standards.oms.did import NO_DOCUMENTS, Documents
from memoranda.standards.oms.grains import Grain, decode
from memoranda.standards.oms.header import MIN_BLOB_BYTES
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.oms.scan import MAX_ITEM_BYTES, Scanner
from memoranda.standards.oms.signature import SignedGrain, blob_of, open_delivery
from memoranda.standards.oms.zstd import FrameDecompressor

# Default limit of the decompressed size in bytes; about a million grains.
MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024
# Offsets (not bytes) per read while going through a file.
_INDEX_BATCH: Final = 16384
# Interpolation steps, which assume evenly distributed addresses, before the search falls back to halving.
_INTERPOLATION_STEPS: Final = 8
_KEY_COUNT: Final = 2**64
# Grains between two calls of `progress`.
_PROGRESS_EVERY: Final = 256


class ContainerReader:
    """An `.mg` file. The caller opens it, and keeps it open and unchanged while the reader is in use.

    `documents` are the DID documents for verifying signatures. `spool` is a scratch file for the grains of a compressed
    file; without one they are decompressed in memory. `max_decompressed_bytes` limits the decompressed size. Raises
    GrainError if the file is not an `.mg` file, Unsupported if it needs features that we lack.
    """

    def __init__(
        self,
        file: Readable,
        *,
        documents: Documents = NO_DOCUMENTS,
        spool: Spool | None = None,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> None:
        self._file = file
        self._documents = documents
        self._spool = spool
        self._max_decompressed_bytes = max_decompressed_bytes
        size_bytes = file.seek(0, 2)
        self.header = FileHeader.parse(read_at(file, 0, HEADER_BYTES))
        self._end = size_bytes - FOOTER_BYTES
        minimum_bytes = 0 if self.header.is_compressed else MIN_BLOB_BYTES * self.header.count
        if size_bytes < MIN_FILE_BYTES or self.header.grains_at + minimum_bytes > self._end:
            raise _corrupt_error("it is too short for the grains it announces")
        self._is_checked = False
        self._by_address: dict[bytes, int] | None = None

    def __len__(self) -> int:
        return self.header.count

    def __iter__(self) -> Iterator[Grain | SignedGrain]:
        """Yield every grain in file order, verified. Raises GrainError or SignatureInvalid."""
        for delivery in self.deliveries():
            yield open_delivery(delivery, self._documents)

    def deliveries(self) -> Iterator[bytes]:
        """Return every grain as it was delivered, bare or in its envelope; only the footer is verified."""
        self.check_footer()
        return self._read_deliveries()

    def find(self, address: str) -> Grain | SignedGrain:
        """Return the grain with this address. Raises NotFound, or SignatureInvalid for a bad signature."""
        target = bytes.fromhex(check_address(address))
        index = self._bisect(target)
        if index is None:
            # The file lacks it or has another order; one scan of the whole file decides.
            index = self._scan_addresses().get(target)
        if index is None:
            raise NotFound("the .mg file has no grain with this address")
        return open_delivery(self._read_delivery(index), self._documents)

    def states(self) -> Iterator[tuple[str, IndexState]]:
        """Yield address and index state of each grain that has any.

        Section 11.7: importers MUST merge the portable fields (`manifest.merge`) and MUST NOT put any into a grain.
        """
        if self.header.has_manifest:
            self.check_footer()
            yield from manifest.read_entries(
                Scanner(_read_chunks(self._read_at, self._find_manifest(), self._end))
            )

    def check_footer(self) -> None:
        """Compare the checksum with the file, once. Raises GrainError with ERR_INTEGRITY."""
        if self._is_checked:
            return
        digest = hashlib.sha256()
        for chunk in _read_chunks(self._read_at, 0, self._end):
            digest.update(chunk)
        if not hmac.compare_digest(digest.digest(), self._read_at(self._end, FOOTER_BYTES)):
            raise GrainError(
                "the .mg file is damaged: its checksum does not match", oms_code="ERR_INTEGRITY"
            )
        self._is_checked = True

    def verify(self, progress: Callable[[int], None] | None = None) -> None:
        """Verify the whole file: checksum, offsets, grains, signatures, manifest, and the claims of its flags.

        `progress` is called now and then with the number of grains verified so far.

        Raises at the first fault. Use `recover` for a damaged file.
        """
        addresses = []
        newest = -1
        for count, item in enumerate(self):
            if progress and count % _PROGRESS_EVERY == 0:
                progress(count)
            grain = item.grain if isinstance(item, SignedGrain) else item
            addresses.append(bytes.fromhex(grain.address))
            if self.header.is_sorted and grain.fields["created_at"] < newest:
                raise _corrupt_error(
                    "its header says that the grains are sorted by creation time, but they are not"
                )
            newest = grain.fields["created_at"]
        if self.header.is_deduplicated and len(set(addresses)) != len(addresses):
            raise _corrupt_error("its header says that no grain occurs twice, but one does")
        for _ in self.states():
            pass

    def _bisect(self, target: bytes) -> int | None:
        """Return the index of an address in a file sorted by address, or None.

        Hashes are evenly distributed, so the first steps interpolate: that reads fewer grains and decompresses less of
        the file. A file crafted to mislead the interpolation costs a few more steps.
        """
        low, high, steps = 0, self.header.count, 0
        key, low_key, high_key = _sort_key(target), 0, _KEY_COUNT
        while low < high:
            share = (key - low_key) * (high - low) // max(1, high_key - low_key)
            middle = (
                min(low + share, high - 1) if steps < _INTERPOLATION_STEPS else (low + high) // 2
            )
            candidate = _hash_delivery(self._read_delivery(middle))
            if candidate == target:
                return middle
            if candidate < target:
                low, low_key = middle + 1, _sort_key(candidate)
            else:
                high, high_key = middle, _sort_key(candidate)
            steps += 1
        return None

    def _scan_addresses(self) -> dict[bytes, int]:
        """Return the index of every address in an unsorted file; empty for a sorted one, which needs bisection only."""
        if self._by_address is None:
            addresses = [_hash_delivery(delivery) for delivery in self._read_deliveries()]
            is_ascending = all(map(bytes.__lt__, addresses, addresses[1:]))
            if is_ascending:
                self._by_address = {}
            else:
                self._by_address = {address: index for index, address in enumerate(addresses)}
        return self._by_address

    def _read_deliveries(self) -> Iterator[bytes]:
        """Yield the bytes of every grain in file order. Raises GrainError for wrong offsets."""
        count = self.header.count
        is_followed = self.header.has_manifest and not self.header.is_compressed
        if count == 0 and not is_followed and self._region.end != self._first_offset:
            raise _corrupt_error("its header says that it has no grains, but data follows")
        for start in range(0, count, _INDEX_BATCH):
            # One offset more than the batch: the end of the batch's last grain.
            offsets = self._read_offsets(start, min(_INDEX_BATCH + 1, count - start))
            if start == 0 and offsets[0] != self._first_offset:
                raise _corrupt_error("the offset of its first grain is wrong")
            for offset, end in pairwise(offsets):
                yield self._read_range(offset, end)
            if start + _INDEX_BATCH >= count:
                yield self._read_last(offsets[-1])

    def _read_delivery(self, index: int) -> bytes:
        """Return the bytes of the grain at an index."""
        offsets = self._read_offsets(index, min(2, self.header.count - index))
        return self._read_range(*offsets) if len(offsets) == 2 else self._read_last(offsets[0])

    def _read_range(self, offset: int, end: int) -> bytes:
        """Return the bytes between two offsets. Raises GrainError for offsets out of order or range."""
        region = self._region
        if (
            not self._first_offset <= offset < end
            or end - offset > MAX_ITEM_BYTES
            or not region.reaches(end)
        ):
            raise _corrupt_error("its offsets do not follow one another")
        return region.read_at(offset, end - offset)

    def _read_last(self, offset: int) -> bytes:
        """Return the last grain: up to the end of the grains, or before a manifest to the end of its value."""
        region = self._region
        if not self._first_offset <= offset < region.end:
            raise _corrupt_error("its offsets do not follow one another")
        if self.header.has_manifest and not self.header.is_compressed:
            return Scanner(_read_chunks(region.read_at, offset, region.end)).read_delivery()
        return self._read_range(offset, region.end)

    def _find_manifest(self) -> int:
        """Return the offset of the manifest, which is the end of the grains."""
        if self.header.is_compressed:
            return self.header.grains_at + self._decompressed.frame_bytes
        if self.header.count == 0:
            return self.header.grains_at
        offset = self._read_offsets(self.header.count - 1, 1)[0]
        return offset + len(self._read_last(offset))

    def _read_at(self, offset: int, size: int) -> bytes:
        """Return `size` bytes of the file at an offset; fewer only at its end."""
        return read_at(self._file, offset, size)

    def _read_offsets(self, start: int, count: int) -> list[int]:
        """Read `count` entries of the index, from entry `start` on."""
        data = self._read_at(HEADER_BYTES + OFFSET_BYTES * start, OFFSET_BYTES * count)
        starts = range(0, len(data), OFFSET_BYTES)
        return [int.from_bytes(data[index : index + OFFSET_BYTES], "big") for index in starts]

    @property
    def _first_offset(self) -> int:
        """The offset of the first grain, in the units of the index."""
        return 0 if self.header.is_compressed else self.header.grains_at

    @cached_property
    def _region(self) -> _PlainGrains | _DecompressedGrains:
        """The bytes that the offsets point into: the file, or the decompressed grains of a compressed one."""
        return (
            self._decompressed if self.header.is_compressed else _PlainGrains(self._file, self._end)
        )

    @cached_property
    def _decompressed(self) -> _DecompressedGrains:
        """The decompressed grains; only valid for a compressed file."""
        start = self.header.grains_at
        frame = FrameDecompressor(
            _read_chunks(self._read_at, start, self._end), max_bytes=self._max_decompressed_bytes
        )
        return _DecompressedGrains(
            frame, self._spool, None if self.header.has_manifest else self._end - start
        )


def recover(file: Readable) -> Iterator[bytes]:
    """Yield every intact grain of a damaged file up to the damage, as delivered, for `ContainerWriter.append`.

    This reads only the grains, and needs neither offsets nor footer. Without the footer nothing proves that a
    well-formed grain is unchanged: compare its address or verify its signature.
    """
    size_bytes = file.seek(0, 2)
    header = FileHeader.parse(read_at(file, 0, HEADER_BYTES))
    chunks = _read_chunks(partial(read_at, file), header.grains_at, size_bytes)
    scanner = Scanner(
        FrameDecompressor(chunks, max_bytes=MAX_FILE_BYTES) if header.is_compressed else chunks
    )
    for _ in range(header.count):
        try:
            delivery = scanner.read_delivery()
            decode(blob_of(delivery))
        except MemorandaError:
            return
        yield delivery


class _PlainGrains:
    """The bytes of an uncompressed file up to its footer."""

    def __init__(self, file: Readable, end: int) -> None:
        self._file = file
        self.end = end

    def reaches(self, end: int) -> bool:
        """Return True if the file has this many bytes before its footer."""
        return end <= self.end

    def read_at(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at an offset; fewer only at the end of the file."""
        return read_at(self._file, offset, size)


class _DecompressedGrains:
    """The grains of a compressed file, decompressed only as far as they are read.

    Section 11.4 demands decompression of all grains before any access, because the offsets are useless before that.
    Decompressing only the part before an offset gives the same bytes, and an address verifies the grain that is found.
    """

    def __init__(
        self, frame: FrameDecompressor, spool: Spool | None, expected_bytes: int | None
    ) -> None:
        self._frame = frame
        self._pieces = iter(frame)
        self._is_complete = False
        self._error: MemorandaError | None = None
        self._expected_bytes = expected_bytes
        self._spool = spool
        self._base = 0 if spool is None else spool.seek(0, 2)
        self._data = bytearray()
        self._size = 0

    @property
    def end(self) -> int:
        """The number of decompressed bytes. Reading it decompresses everything."""
        while self._decompress_next():
            pass
        return self._size

    @property
    def frame_bytes(self) -> int:
        """The size of the compressed frame in bytes. Reading it decompresses everything."""
        return self._frame.size_bytes if self.end >= 0 else 0

    def reaches(self, end: int) -> bool:
        """Decompress up to `end` and return True if there are that many bytes."""
        while self._size < end:
            if not self._decompress_next():
                return False
        return True

    def read_at(self, offset: int, size: int) -> bytes:
        """Return `size` decompressed bytes at an offset; fewer only at the end of the grains."""
        self.reaches(offset + size)
        if self._spool is None:
            return bytes(self._data[offset : offset + size])
        return read_at(self._spool, self._base + offset, min(size, self._size - offset))

    def _decompress_next(self) -> bool:
        """Decompress the next piece; return False at the end. Raises the same error again after damage."""
        if self._is_complete:
            return False
        if self._error is not None:
            raise self._error
        try:
            piece = next(self._pieces, None)
        except MemorandaError as error:
            # After an exception the generator would look exhausted, although grains are missing. Remember the error.
            self._error = error
            raise
        if piece is None:
            self._is_complete = True
            if self._expected_bytes not in (None, self._frame.size_bytes):
                raise _corrupt_error("there is extra data between its grains and its footer")
            return False
        if self._spool is None:
            self._data += piece
        else:
            self._spool.seek(0, 2)
            self._spool.write(piece)
        self._size += len(piece)
        return True


def _read_chunks(read_part: Callable[[int, int], bytes], start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes from `start` to `end`. `read_part` returns the bytes at an offset, at most as many as given."""
    while start < end and (chunk := read_part(start, min(CHUNK_BYTES, end - start))):
        yield chunk
        start += len(chunk)


def _sort_key(address: bytes) -> int:
    """Return the first 64 bits of an address as a number."""
    return int.from_bytes(address[:8], "big")


def _hash_delivery(delivery: bytes) -> bytes:
    """Return the raw SHA-256 address of a delivered grain."""
    return hashlib.sha256(blob_of(delivery)).digest()


def _corrupt_error(why: str) -> GrainError:
    """Return the error of a damaged file."""
    return GrainError(f"the .mg file is damaged: {why}", oms_code="ERR_CORRUPT")
