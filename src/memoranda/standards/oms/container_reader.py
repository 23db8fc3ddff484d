"""Reading `.mg` files: one grain by its address, all of them, or what is left of them (OMS section 11).

Opening reads sixteen bytes and asks for the size; finding an address among n grains reads about log₂ n of them. What
is found by address proves itself. Everything else in the file is vouched for by the footer alone, so whatever goes
through the file checks that first, once.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from memoranda.errors import GrainError, MemorandaError, NotFound
from memoranda.standards.oms import manifest
from memoranda.standards.oms.container import (
    CHUNK_BYTES,
    FOOTER_BYTES,
    HEADER_BYTES,
    MAX_FILE_BYTES,
    MIN_FILE_BYTES,
    OFFSET_BYTES,
    FileHeader,
    Order,
    Readable,
    Spool,
    Writable,
    Writer,
    Written,
    read_at,
)
from memoranda.standards.oms.did import NO_DOCUMENTS, Documents
from memoranda.standards.oms.grains import Grain, check_address, decode
from memoranda.standards.oms.header import MIN_BLOB_BYTES
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.oms.scan import MAX_ITEM_BYTES, Scanner
from memoranda.standards.oms.signature import SignedGrain, blob_of, open_delivery
from memoranda.standards.oms.zstd import Frame

# What a compressed file may unfold to, unless the caller says otherwise: a million grains or so.
MAX_UNFOLDED_BYTES: Final = 256 * 1024 * 1024
# Offsets read at a time while going through a file.
_INDEX_BATCH: Final = 16384


class Reader:
    """An `.mg` file that someone else opened, and keeps open and unchanged while this is in use.

    `documents` are the DID documents against which signatures are verified. `spool` is a scratch file for the grains
    of a compressed file; without one they unfold in memory. `max_unfolded_bytes` bounds both. Raises GrainError for
    what is no `.mg` file, Unsupported for one that needs more than we offer.
    """

    def __init__(
        self,
        file: Readable,
        *,
        documents: Documents = NO_DOCUMENTS,
        spool: Spool | None = None,
        max_unfolded_bytes: int = MAX_UNFOLDED_BYTES,
    ) -> None:
        self._file = file
        self._documents = documents
        self._spool = spool
        self._max_unfolded_bytes = max_unfolded_bytes
        size_bytes = file.seek(0, 2)
        self.header = FileHeader.parse(read_at(file, 0, HEADER_BYTES))
        self._end = size_bytes - FOOTER_BYTES
        least = 0 if self.header.is_compressed else MIN_BLOB_BYTES * self.header.count
        if size_bytes < MIN_FILE_BYTES or self.header.grains_at + least > self._end:
            raise _corrupt("it is too short for the grains it announces")
        self._is_checked = False
        self._by_address: dict[bytes, int] | None = None

    def __len__(self) -> int:
        return self.header.count

    def __iter__(self) -> Iterator[Grain | SignedGrain]:
        """Every grain in the order of the file, each verified. Raises GrainError or SignatureInvalid."""
        for delivery in self.deliveries():
            yield open_delivery(delivery, self._documents)

    def deliveries(self) -> Iterator[bytes]:
        """Every grain as it was delivered, bare or in its envelope, unverified but for the footer."""
        self.check_footer()
        return self._deliveries()

    def find(self, address: str) -> Grain | SignedGrain:
        """The grain with this address. Raises NotFound, or SignatureInvalid for a signature that does not hold."""
        wanted = bytes.fromhex(check_address(address))
        index = self._bisected(wanted)
        if index is None:
            # Not there, or a file in another order: one look at all of it settles that for good.
            index = self._addresses().get(wanted)
        if index is None:
            raise NotFound("the .mg file has no grain with this address")
        return open_delivery(self._delivery(index), self._documents)

    def states(self) -> Iterator[tuple[str, IndexState]]:
        """What the exporter's index knew: address and state, for grains of which there is something to know.

        Section 11.7: importers MUST merge the portable fields (`manifest.merge`) and MUST NOT put any into a grain.
        """
        if self.header.has_manifest:
            self.check_footer()
            yield from manifest.read(Scanner(_chunks(self._file, self._manifest_at(), self._end)))

    def check_footer(self) -> None:
        """Compare the checksum with the file, once. Raises GrainError with ERR_INTEGRITY."""
        if self._is_checked:
            return
        digest = hashlib.sha256()
        for chunk in _chunks(self._file, 0, self._end):
            digest.update(chunk)
        if not hmac.compare_digest(digest.digest(), read_at(self._file, self._end, FOOTER_BYTES)):
            raise GrainError("the .mg file is damaged: its checksum does not match", oms_code="ERR_INTEGRITY")
        self._is_checked = True

    def verify(self) -> None:
        """Verify the whole file: checksum, offsets, every grain and signature, the manifest, what the flags claim."""
        addresses = []
        newest = -1
        for item in self:
            grain = item.grain if isinstance(item, SignedGrain) else item
            addresses.append(bytes.fromhex(grain.address))
            if self.header.is_sorted and grain.fields["created_at"] < newest:
                raise _corrupt("it says that its grains are sorted by creation, and they are not")
            newest = grain.fields["created_at"]
        if self.header.is_deduplicated and len(set(addresses)) != len(addresses):
            raise _corrupt("it says that no grain is there twice, and one is")
        for _ in self.states():
            pass

    def _bisected(self, wanted: bytes) -> int | None:
        """The index of an address in a file that lies in the order of addresses."""
        low, high = 0, self.header.count
        while low < high:
            middle = (low + high) // 2
            found = _address(self._delivery(middle))
            if found == wanted:
                return middle
            if found < wanted:
                low = middle + 1
            else:
                high = middle
        return None

    def _addresses(self) -> dict[bytes, int]:
        """The index of every address, for files in another order; empty for ours, where bisection says it all."""
        if self._by_address is None:
            addresses = [_address(delivery) for delivery in self._deliveries()]
            is_ascending = all(map(bytes.__lt__, addresses, addresses[1:]))
            self._by_address = {} if is_ascending else {each: index for index, each in enumerate(addresses)}
        return self._by_address

    def _deliveries(self) -> Iterator[bytes]:
        count = self.header.count
        if count == 0 and not self._region.has_more and self._region.end != self._first:
            raise _corrupt("it says that it has no grains, and something is there")
        for start in range(0, count, _INDEX_BATCH):
            # One more than the batch, for where its last grain ends.
            offsets = self._offsets(start, min(_INDEX_BATCH + 1, count - start))
            if start == 0 and offsets[0] != self._first:
                raise _corrupt("its first grain is not where the grains begin")
            for offset, end in pairwise(offsets):
                yield self._cut(offset, end)
            if start + _INDEX_BATCH >= count:
                yield self._last(offsets[-1])

    def _delivery(self, index: int) -> bytes:
        offsets = self._offsets(index, min(2, self.header.count - index))
        return self._cut(*offsets) if len(offsets) == 2 else self._last(offsets[0])

    def _cut(self, offset: int, end: int) -> bytes:
        region = self._region
        if not self._first <= offset < end <= region.end or end - offset > MAX_ITEM_BYTES:
            raise _corrupt("its offsets do not follow one another")
        return read_at(region.file, region.base + offset, end - offset)

    def _last(self, offset: int) -> bytes:
        """The last grain: to the end of the grains or, before a manifest, as far as its value goes."""
        region = self._region
        if not self._first <= offset < region.end:
            raise _corrupt("its offsets do not follow one another")
        if region.has_more:
            return Scanner(_chunks(region.file, region.base + offset, region.base + region.end)).delivery()
        return self._cut(offset, region.end)

    def _manifest_at(self) -> int:
        """Where the grains end."""
        if self.header.is_compressed:
            return self._region.frame_end
        if self.header.count == 0:
            return self.header.grains_at
        offset = self._offsets(self.header.count - 1, 1)[0]
        return offset + len(self._last(offset))

    def _offsets(self, start: int, count: int) -> list[int]:
        data = read_at(self._file, HEADER_BYTES + OFFSET_BYTES * start, OFFSET_BYTES * count)
        return [int.from_bytes(data[at : at + OFFSET_BYTES], "big") for at in range(0, len(data), OFFSET_BYTES)]

    @property
    def _first(self) -> int:
        return 0 if self.header.is_compressed else self.header.grains_at

    @cached_property
    def _region(self) -> _Region:
        if not self.header.is_compressed:
            return _Region(self._file, base=0, end=self._end, has_more=self.header.has_manifest, frame_end=0)
        start = self.header.grains_at
        frame = Frame(_chunks(self._file, start, self._end), max_bytes=self._max_unfolded_bytes)
        region = _unfolded(frame, start, self._spool)
        if not self.header.has_manifest and region.frame_end != self._end:
            raise _corrupt("something lies between its grains and its footer")
        return region


class _Region(NamedTuple):
    """What the offsets point into: the file itself, or the unfolded grains of a compressed one."""

    file: Readable
    base: int  # where in `file` offset 0 is
    end: int  # the offset after the last grain, or after the manifest
    has_more: bool  # whether a manifest follows the last grain before `end`
    frame_end: int  # where in a compressed .mg file the grains end


def append(
    old: Readable,
    additions: Iterable[tuple[Grain | SignedGrain | bytes, IndexState]],
    out: Writable,
    spool: Spool,
    *,
    unfolded: Spool | None = None,
    max_unfolded_bytes: int = MAX_UNFOLDED_BYTES,
) -> Written:
    """Write to `out` what is in an `.mg` file and more; the old one is only read, and proven undamaged first.

    Section 11 gives files no way to grow in place. To replace one: let `out` be a new file beside it, sync it, and
    rename it over the old name; whatever fails before that leaves the old file as it is.
    """
    reader = Reader(old, spool=unfolded, max_unfolded_bytes=max_unfolded_bytes)
    order: Order = "created" if reader.header.is_sorted else "address"
    writer = Writer(out, spool, order=order, compress=reader.header.is_compressed)
    for delivery in reader.deliveries():
        writer.append(delivery)
    for address, state in reader.states():
        writer.note(address, state)
    for grain, state in additions:
        writer.append(grain, state)
    return writer.finish()


def recover(file: Readable) -> Iterator[bytes]:
    """Every whole grain of a damaged file up to the damage, as it was delivered and as `Writer.append` takes it.

    It goes by the grains alone and needs neither offsets nor footer. Without the footer nothing vouches for a grain
    that is well-formed but not what it was: compare its address, or its signature, with what you know.
    """
    size_bytes = file.seek(0, 2)
    header = FileHeader.parse(read_at(file, 0, HEADER_BYTES))
    chunks = _chunks(file, header.grains_at, size_bytes)
    scanner = Scanner(Frame(chunks, max_bytes=MAX_FILE_BYTES) if header.is_compressed else chunks)
    for _ in range(header.count):
        try:
            delivery = scanner.delivery()
            decode(blob_of(delivery))
        except MemorandaError:
            return
        yield delivery


class _Bytes:
    """Bytes in memory as a file to read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int, /) -> bytes:
        start, self._at = self._at, self._at + size
        return self._data[start : self._at]

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = offset + (len(self._data) if whence == 2 else 0)
        return self._at


def _unfolded(frame: Frame, start: int, spool: Spool | None) -> _Region:
    """Section 11.4: the entire grain region MUST be decompressed before any grain can be accessed."""
    if spool is None:
        data = b"".join(frame)
        return _Region(_Bytes(data), base=0, end=len(data), has_more=False, frame_end=start + frame.size_bytes)
    base = spool.seek(0, 2)
    size = 0
    for piece in frame:
        spool.write(piece)
        size += len(piece)
    return _Region(spool, base=base, end=size, has_more=False, frame_end=start + frame.size_bytes)


def _chunks(file: Readable, start: int, end: int) -> Iterator[bytes]:
    """The bytes of a part of a file. Each read finds its own place, for others read the file in between."""
    while start < end and (chunk := read_at(file, start, min(CHUNK_BYTES, end - start))):
        yield chunk
        start += len(chunk)


def _address(delivery: bytes) -> bytes:
    return hashlib.sha256(blob_of(delivery)).digest()


def _corrupt(why: str) -> GrainError:
    return GrainError(f"the .mg file is damaged: {why}", oms_code="ERR_CORRUPT")
