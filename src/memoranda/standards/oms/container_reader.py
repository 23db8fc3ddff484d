"""Reading `.mg` files: one grain by its address, all of them, or what is left of them (OMS section 11).

Opening reads sixteen bytes and asks for the size; finding an address among n grains reads about log₂ n of them. What
is found by address proves itself. Everything else in the file is vouched for by the footer alone, so whatever goes
through the file checks that first, once.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Final

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
    Readable,
    Spool,
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
# Looks that trust addresses to be spread evenly, before halving takes over.
_GUESSES: Final = 8
_KEYS: Final = 2**64
_TOLD_EVERY: Final = 256


class ContainerReader:
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

    def verify(self, progress: Callable[[int], None] | None = None) -> None:
        """Verify the whole file: checksum, offsets, every grain and signature, the manifest, what the flags claim.

        `progress` is told now and then how many grains are done.
        """
        addresses = []
        newest = -1
        for done, item in enumerate(self):
            if progress and done % _TOLD_EVERY == 0:
                progress(done)
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
        """The index of an address in a file that lies in the order of addresses.

        Hashes are spread evenly, so the first looks go where the address should be: that takes fewer of them, and a
        compressed file is unfolded no further. A file made to mislead them costs a few looks more.
        """
        low, high, steps = 0, self.header.count, 0
        key, low_key, high_key = _key(wanted), 0, _KEYS
        while low < high:
            share = (key - low_key) * (high - low) // max(1, high_key - low_key)
            middle = min(low + share, high - 1) if steps < _GUESSES else (low + high) // 2
            found = _address(self._delivery(middle))
            if found == wanted:
                return middle
            if found < wanted:
                low, low_key = middle + 1, _key(found)
            else:
                high, high_key = middle, _key(found)
            steps += 1
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
        is_followed = self.header.has_manifest and not self.header.is_compressed
        if count == 0 and not is_followed and self._region.end != self._first:
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
        if not self._first <= offset < end or end - offset > MAX_ITEM_BYTES or not region.reaches(end):
            raise _corrupt("its offsets do not follow one another")
        return read_at(region, offset, end - offset)

    def _last(self, offset: int) -> bytes:
        """The last grain: to the end of the grains or, before a manifest, as far as its value goes."""
        region = self._region
        if not self._first <= offset < region.end:
            raise _corrupt("its offsets do not follow one another")
        if self.header.has_manifest and not self.header.is_compressed:
            return Scanner(_chunks(region, offset, region.end)).delivery()
        return self._cut(offset, region.end)

    def _manifest_at(self) -> int:
        """Where the grains end."""
        if self.header.is_compressed:
            return self.header.grains_at + self._unfolded.frame_bytes
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
    def _region(self) -> _Plain | _Unfolded:
        """What the offsets point into: the file itself, or the unfolded grains of a compressed one."""
        return self._unfolded if self.header.is_compressed else _Plain(self._file, self._end)

    @cached_property
    def _unfolded(self) -> _Unfolded:
        start = self.header.grains_at
        frame = Frame(_chunks(self._file, start, self._end), max_bytes=self._max_unfolded_bytes)
        return _Unfolded(frame, self._spool, None if self.header.has_manifest else self._end - start)


def recover(file: Readable) -> Iterator[bytes]:
    """Every whole grain of a damaged file up to the damage, as it was delivered, for `ContainerWriter.append`.

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


class _Plain:
    """A file up to its footer."""

    def __init__(self, file: Readable, end: int) -> None:
        self._file = file
        self.end = end

    def reaches(self, end: int) -> bool:
        return end <= self.end

    def read(self, size: int, /) -> bytes:
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)


class _Unfolded:
    """The grains of a compressed file as a file to read, unfolded only as far as somebody reads.

    Section 11.4 wants all of them decompressed before any is accessed, because offsets lead nowhere before that; the
    offsets lead into what is unfolded all the same when the rest is not, and an address proves what it finds.
    """

    def __init__(self, frame: Frame, spool: Spool | None, expected_bytes: int | None) -> None:
        self._frame = frame
        self._pieces = iter(frame)
        self._is_complete = False
        self._damage: MemorandaError | None = None
        self._expected_bytes = expected_bytes
        self._spool = spool
        self._base = 0 if spool is None else spool.seek(0, 2)
        self._data = bytearray()
        self._size = 0
        self._at = 0

    @property
    def end(self) -> int:
        """How many bytes there are, all unfolded."""
        while self._unfold():
            pass
        return self._size

    @property
    def frame_bytes(self) -> int:
        """How long the compressed form is."""
        return self._frame.size_bytes if self.end >= 0 else 0

    def reaches(self, end: int) -> bool:
        """Whether there are so many bytes; they are unfolded then."""
        while self._size < end:
            if not self._unfold():
                return False
        return True

    def read(self, size: int, /) -> bytes:
        self.reaches(self._at + size)
        start, self._at = self._at, self._at + size
        if self._spool is None:
            return bytes(self._data[start : self._at])
        return read_at(self._spool, self._base + start, min(size, self._size - start))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = offset + (self.end if whence == 2 else 0)
        return self._at

    def _unfold(self) -> bool:
        if self._is_complete:
            return False
        if self._damage is not None:
            raise self._damage
        try:
            piece = next(self._pieces, None)
        except MemorandaError as error:
            # A generator that has raised is at its end, which is not the end of the grains.
            self._damage = error
            raise
        if piece is None:
            self._is_complete = True
            if self._expected_bytes not in (None, self._frame.size_bytes):
                raise _corrupt("something lies between its grains and its footer")
            return False
        if self._spool is None:
            self._data += piece
        else:
            self._spool.seek(0, 2)
            self._spool.write(piece)
        self._size += len(piece)
        return True


def _chunks(file: Readable, start: int, end: int) -> Iterator[bytes]:
    """The bytes of a part of a file. Each read finds its own place, for others read the file in between."""
    while start < end and (chunk := read_at(file, start, min(CHUNK_BYTES, end - start))):
        yield chunk
        start += len(chunk)


def _key(address: bytes) -> int:
    return int.from_bytes(address[:8], "big")


def _address(delivery: bytes) -> bytes:
    return hashlib.sha256(blob_of(delivery)).digest()


def _corrupt(why: str) -> GrainError:
    return GrainError(f"the .mg file is damaged: {why}", oms_code="ERR_CORRUPT")
