"""Vectors of one tenant and one model in memory: appended as they come, compared with a question's.

A number takes one byte, with one scale a vector; that changes no order that anyone has measured. Of many vectors first
only the signs are compared, after the mean was taken away, and then the nearest ones exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.segment import Flags, Floats, RowNumbers
from memoranda.retrieval.weights import SECOND_MODEL_BASELINE, SECOND_MODEL_WEIGHT

Bytes: TypeAlias = NDArray[np.int8]

# So many are compared exactly; of more, those whose signs are nearest.
EXACT_LIMIT: Final = 8_192
NEAREST_BY_SIGNS: Final = 2_048
# Signs are counted from the mean of about half of what is there, or more.
_MEAN_OF: Final = 16_384
_SCALE_BYTES: Final = 4
_NONE: Final = -1
# More at once are shared out among threads that wait for one another: ten times as long where others work, too.
_AT_ONCE: Final = 256
# Of so many segments, as somebody sees them, it is kept where their vectors stand.
_LOOKED_UP: Final = 4
# Signs of so many are compared at once: what comes between stays near the processor.
_SIGNS_AT_ONCE: Final = 32_768


def encode(vector: Floats) -> bytes:
    """A vector as it is stored: a scale, and a byte a number."""
    scale = np.array([np.abs(vector).max() / 127.0], "<f4")
    numbers: Bytes = np.round(vector / scale).astype(np.int8)
    return bytes(scale.tobytes() + numbers.tobytes())


def decode(data: bytes) -> tuple[float, Floats]:
    """The scale of a stored vector, and its numbers without it."""
    (scale,) = np.frombuffer(data[:_SCALE_BYTES], "<f4").tolist()
    return scale, np.frombuffer(data[_SCALE_BYTES:], np.int8).astype(np.float32)


class StoredVector(NamedTuple):
    """A vector as it is read from the store."""

    position: int
    version_id: int
    context_id: int
    data: bytes
    context_data: bytes | None


class VectorRows(NamedTuple):
    """The versions of a segment that have vectors, by their places in it, and the rows of those."""

    rows: NDArray[np.int64]
    vector_rows: RowNumbers
    # Whether the rows are one behind the other.
    is_contiguous: bool


class _Rows:
    """Vectors one after another, in arrays that grow."""

    def __init__(self, dimensions: int) -> None:
        self.size = 0
        self.numbers: Bytes = np.empty((0, dimensions), np.int8)
        self.scales: Floats = np.empty(0, np.float32)

    def append(self, datas: Sequence[bytes]) -> None:
        dimensions = self.numbers.shape[1]
        joined = np.frombuffer(b"".join(datas), np.int8).reshape(
            len(datas), _SCALE_BYTES + dimensions
        )
        size = self.size + len(datas)
        self.numbers = grow_array(self.numbers, self.size, size)
        self.scales = grow_array(self.scales, self.size, size)
        self.numbers[self.size : size] = joined[:, _SCALE_BYTES:]
        self.scales[self.size : size] = np.ascontiguousarray(joined[:, :_SCALE_BYTES]).view("<f4")[
            :, 0
        ]
        self.size = size

    def cosines(self, questions: Floats, rows: RowNumbers) -> Floats:
        """Of some rows with each question."""
        found = np.empty((len(rows), len(questions)), np.float32)
        columns = np.ascontiguousarray(questions.T)
        for start in range(0, len(rows), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            np.dot(self.numbers[rows[part]].astype(np.float32), columns, out=found[part])
        found *= self.scales[rows][:, None]
        return found.T


def grow_array(array: NDArray[Any], used: int, size: int) -> NDArray[Any]:
    """The array with room for so many; whoever holds the one before goes on with that."""
    if size <= len(array):
        return array
    larger = np.empty((max(size, len(array) * 3 // 2, 64), *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger


class VectorPositions:
    """Where the vectors of a tenant by one model stand, whoever holds their numbers.

    Only ever one thread changes it; others read what was there before.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.size = 0
        self.last_position = 0
        # Whether any of them was encrypted: then they go when keys change.
        self.was_encrypted = False
        self._places: NDArray[np.int64] = np.empty(0, np.int64)
        # In the order of rows: behind the end of which version, and where the second vector stands; of a text that
        # stands alone that is another model's.
        self._contexts: NDArray[np.int64] = np.empty(0, np.int64)
        self._context_rows: RowNumbers = np.empty(0, np.int32)
        self._contexts_size = 0
        # Sorted by version: so a version is found.
        self._sorted: tuple[NDArray[np.int64], RowNumbers] = (
            np.empty(0, np.int64),
            np.empty(0, np.int32),
        )
        self._looked_up: list[tuple[NDArray[np.int64], Flags, NDArray[np.int64], VectorRows]] = []

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return self._places.nbytes + self._contexts.nbytes + self._context_rows.nbytes

    def add(
        self,
        places: NDArray[np.int64],
        versions: NDArray[np.int64],
        contexts: NDArray[np.int64],
        has_second: Flags,
    ) -> None:
        """Take up what came since, in the order of places."""
        start, size = self.size, self.size + len(places)
        rows = np.where(has_second, self._contexts_size + np.cumsum(has_second) - 1, _NONE).astype(
            np.int32
        )
        for name, values in (("_places", places), ("_contexts", contexts), ("_context_rows", rows)):
            array = grow_array(getattr(self, name), start, size)
            array[start:size] = values
            setattr(self, name, array)
        self.size, self._contexts_size = (
            size,
            self._contexts_size + int(np.count_nonzero(has_second)),
        )
        self.last_position = max(self.last_position, int(places[-1]) if len(places) else 0)
        self._sort(versions, np.arange(start, size, dtype=np.int32))

    def _sort(self, versions: NDArray[np.int64], rows: RowNumbers) -> None:
        known, at = self._sorted
        if (
            len(known)
            and len(versions)
            and versions[0] > known[-1]
            and bool(np.all(np.diff(versions) > 0))
        ):
            self._sorted = np.concatenate((known, versions)), np.concatenate((at, rows))
            return
        everything, places = np.concatenate((known, versions)), np.concatenate((at, rows))
        order = np.lexsort((places, everything))
        everything, places = everything[order], places[order]
        # Of one version the last one counts.
        is_last = np.append(everything[1:] != everything[:-1], True)
        self._sorted = everything[is_last], places[is_last]

    def remove(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave out those whose version was erased, at these places of the store; in which rows they are."""
        rows = self.rows_at(places)
        versions, at = self._sorted
        stays = ~np.isin(at, rows)
        self._sorted = versions[stays], at[stays]
        return rows

    def remove_context(self, places: NDArray[np.int64]) -> None:
        """Leave out the second ones of those of which what was said before was erased."""
        self._context_rows[self.rows_at(places)] = _NONE

    def rows_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of those of some places that are known, which are in order."""
        own = self._places[: self.size]
        found = np.searchsorted(own, places)
        found = found[found < len(own)]
        return found[np.isin(own[found], places)]

    def positions_of(self, rows: RowNumbers) -> NDArray[np.int64]:
        """At which places of the store rows stand."""
        return self._places[rows]

    def lookup(self, versions: NDArray[np.int64], mask: Flags) -> VectorRows:
        """Where the vectors stand of those of some versions that are marked.

        Segments stay what they are, and so does what somebody sees: so what was looked up last is kept.
        """
        known, at = self._sorted
        for asked, of, then, kept in self._looked_up:
            if asked is versions and of is mask and then is known:
                return kept
        places = mask.nonzero()[0]
        if len(known):
            sought = versions.take(places)
            found = known.searchsorted(sought)
            has_one = (known.take(found, mode="clip") == sought).nonzero()[0]
            places, rows = places.take(has_one), at.take(found.take(has_one))
        else:
            places, rows = places[:0], np.empty(0, np.int32)
        standing = VectorRows(places, rows, is_contiguous=bool(np.all(rows[1:] == rows[:-1] + 1)))
        if not mask.flags.writeable:
            self._looked_up = [
                *self._looked_up[-_LOOKED_UP + 1 :],
                (versions, mask, known, standing),
            ]
        return standing

    def context_versions(self, rows: RowNumbers) -> NDArray[np.int64]:
        """Of which version each second vector begins with the end; 0: of none."""
        return np.where(self._context_rows[rows] >= 0, self._contexts[rows], 0)

    def standalone_share(self, several: Sequence[VectorRows]) -> float:
        """How many of all stand alone, as a share: of those another model has an opinion."""
        alone = sum(int(np.count_nonzero(self.is_standalone(each.vector_rows))) for each in several)
        return alone / max(1, sum(len(each.vector_rows) for each in several))

    def is_standalone(self, rows: RowNumbers) -> Flags:
        """Of which another model has an opinion."""
        found: Flags = (self._contexts[rows] == 0) & (self._context_rows[rows] >= 0)
        return found


class VectorMatrix(VectorPositions):
    """All vectors of a tenant by one model, with their numbers."""

    def __init__(self, dimensions: int) -> None:
        super().__init__(dimensions)
        self._own, self._in_context = _Rows(dimensions), _Rows(dimensions)
        self._signs: _Signs | None = None

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return sum(
            each.nbytes
            for rows in (self._own, self._in_context)
            for each in (rows.numbers, rows.scales)
        ) + (0 if self._signs is None else self._signs.bits.nbytes)

    def append(self, vectors: Sequence[StoredVector]) -> None:
        """Take up what came since, in the order of places."""
        length = _SCALE_BYTES + self.dimensions
        fit = [each for each in vectors if len(each.data) == length and _fits(each, length)]
        self.last_position = vectors[-1].position if vectors else self.last_position
        if not fit:
            return
        beside = [
            each.context_data
            for each in fit
            if each.context_data is not None and each.context_id >= 0
        ]
        has_more = np.array(
            [each.context_data is not None and each.context_id >= 0 for each in fit], np.bool_
        )
        if beside:
            self._in_context.append(beside)
        self._own.append([each.data for each in fit])
        places, versions, contexts = np.array([each[:3] for each in fit], np.int64).T
        self.add(places, versions, contexts, has_more)

    def remove(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Blank them, too."""
        rows = super().remove(places)
        self._own.numbers[rows] = 0
        self._blank_context(rows)
        return rows

    def remove_context(self, places: NDArray[np.int64]) -> None:
        """Blank them, too."""
        self._blank_context(self.rows_at(places))
        super().remove_context(places)

    def _blank_context(self, rows: NDArray[np.int64]) -> None:
        contexts = self._context_rows[rows]
        self._in_context.numbers[contexts[contexts >= 0]] = 0

    def cosines(
        self,
        questions: Floats,
        rows: RowNumbers,
        in_context: Flags,
        second: Floats | None = None,
        share: float = 1.0,
    ) -> tuple[Floats, Floats]:
        """How near each is to each question by itself, and with what was said before it where that may be told.

        `second`: the same questions, as another model puts them; it is asked of what stands alone. `share`: how much
        of all does: an opinion of few would put those before or behind the many it says nothing of.
        """
        own = self._own.cosines(questions, rows)
        alone = self.is_standalone(rows).nonzero()[0]
        if second is not None and len(alone):
            opinion = self._in_context.cosines(second, self._context_rows[rows[alone]])
            own[:, alone] = blend_second_model(own[:, alone], opinion, share)
        beside = own.copy()
        places = np.flatnonzero(in_context)
        if len(places):
            beside[:, places] = self._in_context.cosines(
                questions, self._context_rows[rows[places]]
            )
        return own, beside

    def nearest(self, question: Floats, several: Sequence[VectorRows]) -> list[VectorRows]:
        """Of many those that are worth to be compared exactly: nearest by their signs."""
        signs = self._signs
        if signs is None or signs.size < self._own.size:
            signs = self._signs = _Signs.of(self._own, signs)
        distances, counts = signs.distances(question, several)
        # No two numbers of bits differ by more than there are bits: counted, not sorted.
        limit, left = int(counts.cumsum().searchsorted(NEAREST_BY_SIGNS)), 2 * NEAREST_BY_SIGNS
        found = []
        for each, standing in zip(distances, several, strict=True):
            near = (each <= limit).nonzero()[0][:left]
            left -= len(near)
            found.append(
                VectorRows(
                    standing.rows.take(near),
                    standing.vector_rows.take(near),
                    is_contiguous=False,
                )
            )
        return found


def blend_second_model(own: Floats, opinion: Floats, share: float) -> Floats:
    """How near texts that stand alone are, with what another model says of them."""
    return np.minimum(own + SECOND_MODEL_WEIGHT * share * (opinion - SECOND_MODEL_BASELINE), 1.0)


def _fits(stored: StoredVector, length: int) -> bool:
    """Whether the second one is as long as it must be, if it is there."""
    return (
        stored.context_id < 0 or stored.context_data is None or len(stored.context_data) == length
    )


class _Signs:
    """One bit a number: on which side of the mean it is; a word of 64 a row of the array."""

    def __init__(self, mean: Floats, bits: NDArray[np.uint64], size: int, mean_of: int) -> None:
        self.mean, self.bits, self.size, self.mean_of = mean, bits, size, mean_of

    @classmethod
    def of(cls, rows: _Rows, before: _Signs | None) -> _Signs:
        size = rows.size
        if before is not None and before.mean_of * 2 >= min(size, _MEAN_OF):
            mean, mean_of, start = before.mean, before.mean_of, before.size
            bits = grow_array(before.bits.T, start, size).T
        else:
            mean_of, start = min(size, _MEAN_OF), 0
            sample = np.linspace(0, size - 1, mean_of).astype(np.int64)
            mean = (rows.numbers[sample].astype(np.float32) * rows.scales[sample, None]).mean(
                axis=0
            )
            bits = np.empty((_words(len(mean)), size), np.uint64)
        for first in range(start, size, EXACT_LIMIT):
            last = min(size, first + EXACT_LIMIT)
            numbers = rows.numbers[first:last].astype(np.float32) * rows.scales[first:last, None]
            bits[:, first:last] = _packed(numbers - mean).T
        return cls(mean, bits, size, mean_of)

    def distances(
        self, question: Floats, several: Sequence[VectorRows]
    ) -> tuple[list[NDArray[np.uint16]], NDArray[np.int64]]:
        """How many signs differ, of each; and how many there are of each such number."""
        asked = _packed((question - self.mean)[None, :])[0]
        differing = np.empty(_SIGNS_AT_ONCE, np.uint64)
        counted = np.empty(_SIGNS_AT_ONCE, np.uint8)
        counts = np.zeros(64 * len(self.bits) + 1, np.int64)
        made = []
        for standing in several:
            found = np.zeros(len(standing.vector_rows), np.uint16)
            for start in range(0, len(found), _SIGNS_AT_ONCE):
                part, rows = (
                    found[start : start + _SIGNS_AT_ONCE],
                    standing.vector_rows[start : start + _SIGNS_AT_ONCE],
                )
                first, size = int(rows[0]), len(rows)
                for column, word in zip(self.bits, asked, strict=True):
                    signs = (
                        column[first : first + size]
                        if standing.is_contiguous
                        else column.take(rows)
                    )
                    np.bitwise_xor(signs, word, out=differing[:size])
                    part += np.bitwise_count(differing[:size], out=counted[:size])
                counts += np.bincount(part, minlength=len(counts))
            made.append(found)
        return made, counts


def _words(dimensions: int) -> int:
    return (dimensions + 63) // 64


def _packed(numbers: Floats) -> NDArray[np.uint64]:
    packed = np.packbits(numbers > 0, axis=1)
    whole = np.zeros((len(numbers), 8 * _words(numbers.shape[1])), np.uint8)
    whole[:, : packed.shape[1]] = packed
    return whole.view(np.uint64)
