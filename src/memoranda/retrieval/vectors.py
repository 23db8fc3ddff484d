"""The vectors of one tenant and one model in memory, and their comparison with the vector of a query.

A vector is stored as one signed byte per dimension and a scale; compared with exact numbers this changes no measured
order. Each version has its own vector and may have a second one: with the end of the previous text of its session, or,
for a standalone text, by a second model.

Vectors are appended in the order of storing. Of many vectors, first only the signs are compared (one bit per dimension,
after the mean is subtracted), and then the nearest ones exactly.

Sizes: a vector of 384 dimensions takes 388 bytes here and 48 bytes as signs, so a million memories fit into half a
gigabyte. Comparing signs is exact enough to find the nearest thousand, and only these are compared with their numbers.

Threads: one thread appends or removes under the lock of `VectorCache`; searches read at the same time. So arrays are
replaced, never changed in place, with two exceptions: new rows behind the known ones, and zeros over erased ones.

Three kinds of vectors of a version: its own, one with context or by the second model, and those of its passages. Each
may be missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from memoranda.model.selection import VectorQuery
from memoranda.retrieval.entry import StoredVector
from memoranda.retrieval.retrievers import SearchedSegment, Similarities, answer_threshold
from memoranda.retrieval.segment import Flags, Floats, RowNumbers
from memoranda.retrieval.weights import SECOND_MODEL_BASELINE, SECOND_MODEL_WEIGHT

Bytes: TypeAlias = NDArray[np.int8]

# Vectors: up to this many are compared exactly, which takes a few milliseconds.
EXACT_LIMIT: Final = 8_192
# Vectors that are compared exactly after a comparison by signs.
NEAREST_BY_SIGNS: Final = 2_048
# Vectors from which the mean is computed. It is computed again when there are twice as many, up to this number.
_MEAN_SAMPLE: Final = 16_384
# Bytes of the scale, a 32-bit floating-point number in front of the dimensions.
_SCALE_BYTES: Final = 4
# In place of the row of a second vector, if there is none.
_NO_ROW: Final = -1
# Vectors per matrix product. NumPy distributes larger ones over threads, which take ten times as long under load.
_PRODUCT_ROWS: Final = 256
# Digits after the point. The last digits of a cosine depend on the order of summation.
_COSINE_DIGITS: Final = 6
# Lookups that are cached, at a few bytes per row; a query does one per segment (`VectorPositions.lookup`).
_LOOKUPS_LIMIT: Final = 4
# Vectors whose signs are compared together, so that intermediate results stay in the cache of the processor.
_SIGN_ROWS: Final = 32_768


def encode(vector: Floats) -> bytes:
    """Return a vector as it is stored: its scale, and one byte per dimension."""
    scale = np.array([np.abs(vector).max() / 127.0], "<f4")
    numbers: Bytes = np.round(vector / scale).astype(np.int8)
    return bytes(scale.tobytes() + numbers.tobytes())


def decode(data: bytes) -> tuple[float, Floats]:
    """Return the scale of a stored vector, and its numbers before scaling."""
    (scale,) = np.frombuffer(data[:_SCALE_BYTES], "<f4").tolist()
    return scale, np.frombuffer(data[_SCALE_BYTES:], np.int8).astype(np.float32)


class VectorRows(NamedTuple):
    """The rows of a segment that have vectors, in ascending order, and the rows of these vectors."""

    rows: NDArray[np.int64]
    vector_rows: RowNumbers
    # True if the vector rows are consecutive.
    is_contiguous: bool


class _VectorArray:
    """Vectors in arrays that grow.

    The scale is the largest absolute number of the vector divided by 127.
    """

    def __init__(self, dimensions: int) -> None:
        self.size = 0
        self.numbers: Bytes = np.empty((0, dimensions), np.int8)
        self.scales: Floats = np.empty(0, np.float32)

    def append(self, encoded: Sequence[bytes]) -> None:
        """Append encoded vectors."""
        row_bytes = _SCALE_BYTES + self.numbers.shape[1]
        all_bytes = np.frombuffer(b"".join(encoded), np.int8).reshape(len(encoded), row_bytes)
        size = self.size + len(encoded)
        self.numbers = grow_array(self.numbers, self.size, size)
        self.scales = grow_array(self.scales, self.size, size)
        self.numbers[self.size : size] = all_bytes[:, _SCALE_BYTES:]
        scales = np.ascontiguousarray(all_bytes[:, :_SCALE_BYTES]).view("<f4")
        self.scales[self.size : size] = scales[:, 0]
        self.size = size

    def cosines(self, queries: Floats, rows: RowNumbers) -> Floats:
        """Return one line per query with its cosine to each of the rows."""
        cosines = np.empty((len(rows), len(queries)), np.float32)
        columns = np.ascontiguousarray(queries.T)
        for start in range(0, len(rows), _PRODUCT_ROWS):
            part = slice(start, start + _PRODUCT_ROWS)
            numbers = self.numbers[rows[part]].astype(np.float32)
            np.dot(numbers, columns, out=cosines[part])
        cosines *= self.scales[rows][:, None]
        return cosines.T

    def products(self, rows: RowNumbers) -> Floats:
        """Return the cosines between some of these vectors."""
        vectors = self.numbers[rows].astype(np.float32) * self.scales[rows][:, None]
        return np.asarray(vectors @ vectors.T, np.float32)


def grow_array(array: NDArray[Any], used_count: int, size: int) -> NDArray[Any]:
    """Return the array, or a larger copy if it has less than `size` items; readers may keep the old one."""
    if size <= len(array):
        return array
    larger = np.empty((max(size, len(array) * 3 // 2, 64), *array.shape[1:]), array.dtype)
    larger[:used_count] = array[:used_count]
    return larger


class VectorPositions:
    """The rows of a tenant's vectors by one model, without their numbers.

    One thread at a time changes it. Others may read meanwhile: they see the state before the change.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.size = 0
        self.last_position = 0
        # True if any vector was encrypted: then the vectors are dropped when keys change.
        self.was_encrypted = False
        # By row: positions in the table of vectors, the previous versions, and the rows of the second vectors.
        self._positions: NDArray[np.int64] = np.empty(0, np.int64)
        self._contexts: NDArray[np.int64] = np.empty(0, np.int64)
        self._second_rows: RowNumbers = np.empty(0, np.int32)
        self._second_size = 0
        # Version ids in ascending order, and the row of each.
        self._sorted: tuple[NDArray[np.int64], RowNumbers] = (
            np.empty(0, np.int64),
            np.empty(0, np.int32),
        )
        # The arguments and results of the last lookups, with the versions known then.
        self._lookups: list[tuple[NDArray[np.int64], Flags, NDArray[np.int64], VectorRows]] = []

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        """The bytes that it takes in memory."""
        return self._positions.nbytes + self._contexts.nbytes + self._second_rows.nbytes

    def add(
        self,
        positions: NDArray[np.int64],
        versions: NDArray[np.int64],
        contexts: NDArray[np.int64],
        has_second: Flags,
    ) -> None:
        """Append vectors, given in the order of their positions.

        A version may be added again, for instance after its vector was made by another process; the last one counts.
        """
        start, size = self.size, self.size + len(positions)
        numbered = self._second_size + np.cumsum(has_second) - 1
        second_rows = np.where(has_second, numbered, _NO_ROW).astype(np.int32)
        self._positions = grow_array(self._positions, start, size)
        self._contexts = grow_array(self._contexts, start, size)
        self._second_rows = grow_array(self._second_rows, start, size)
        self._positions[start:size] = positions
        self._contexts[start:size] = contexts
        self._second_rows[start:size] = second_rows
        self.size = size
        self._second_size += int(np.count_nonzero(has_second))
        self.last_position = max(self.last_position, int(positions[-1]) if len(positions) else 0)
        self._sort(versions, np.arange(start, size, dtype=np.int32))

    def _sort(self, versions: NDArray[np.int64], rows: RowNumbers) -> None:
        """Add versions to the sorted ones. If a version has several vectors, the last one counts."""
        sorted_versions, known_rows = self._sorted
        all_versions, joined_rows = (
            np.concatenate((sorted_versions, versions)),
            np.concatenate((known_rows, rows)),
        )
        is_later = (
            bool(len(sorted_versions)) and bool(len(versions)) and versions[0] > sorted_versions[-1]
        )
        if is_later and bool(np.all(np.diff(versions) > 0)):
            self._sorted = all_versions, joined_rows
            return
        order = np.lexsort((joined_rows, all_versions))
        all_versions, joined_rows = all_versions[order], joined_rows[order]
        is_last = np.append(all_versions[1:] != all_versions[:-1], True)
        self._sorted = all_versions[is_last], joined_rows[is_last]

    def remove(self, positions: Sequence[int]) -> NDArray[np.int64]:
        """Remove the vectors of erased versions, given by their positions in ascending order; return the rows."""
        rows = self.rows_at(positions)
        versions, known_rows = self._sorted
        stays = ~np.isin(known_rows, rows)
        self._sorted = versions[stays], known_rows[stays]
        return rows

    def remove_context(self, positions: Sequence[int]) -> None:
        """Remove the second vectors at some positions, because the texts before them were erased."""
        self._second_rows[self.rows_at(positions)] = _NO_ROW

    def rows_at(self, positions: Sequence[int]) -> NDArray[np.int64]:
        """Return the rows of those positions, given in ascending order, that are known."""
        position_array, positions_by_row = (
            np.array(positions, np.int64),
            self._positions[: self.size],
        )
        rows = np.searchsorted(positions_by_row, position_array)
        rows = rows[rows < len(positions_by_row)]
        return rows[np.isin(positions_by_row[rows], position_array)]

    def positions_of(self, rows: RowNumbers) -> NDArray[np.int64]:
        """Return the positions of some rows in the table of vectors."""
        return self._positions[rows]

    def lookup(self, versions: NDArray[np.int64], mask: Flags) -> VectorRows:
        """Return the vectors of a segment's versions, of the rows with a flag in `mask`.

        The last results are cached by the identity of the arguments: segments and views do not change.

        `mask` must be a view that is cached with its segment, because results are cached by its identity.
        """
        sorted_versions, known_rows = self._sorted
        for cached_versions, cached_mask, known_then, cached in self._lookups:
            if (
                cached_versions is versions
                and cached_mask is mask
                and known_then is sorted_versions
            ):
                return cached
        rows = mask.nonzero()[0]
        if len(sorted_versions):
            wanted_versions = versions.take(rows)
            indexes = sorted_versions.searchsorted(wanted_versions)
            has_vector = (sorted_versions.take(indexes, mode="clip") == wanted_versions).nonzero()[
                0
            ]
            rows, vector_rows = rows.take(has_vector), known_rows.take(indexes.take(has_vector))
        else:
            rows, vector_rows = rows[:0], np.empty(0, np.int32)
        is_contiguous = bool(np.all(vector_rows[1:] == vector_rows[:-1] + 1))
        result = VectorRows(rows, vector_rows, is_contiguous)
        if not mask.flags.writeable:
            recent = self._lookups[-_LOOKUPS_LIMIT + 1 :]
            self._lookups = [*recent, (versions, mask, sorted_versions, result)]
        return result

    def context_versions(self, vector_rows: RowNumbers) -> NDArray[np.int64]:
        """Return the version whose text each second vector includes; 0 if there is none."""
        return np.where(self._second_rows[vector_rows] >= 0, self._contexts[vector_rows], 0)

    def standalone_share(self, by_segment: Sequence[VectorRows]) -> float:
        """Return the share of vectors whose second one is by the second model."""
        standalone = sum(
            int(np.count_nonzero(self.is_standalone(rows.vector_rows))) for rows in by_segment
        )
        return standalone / max(1, sum(len(rows.vector_rows) for rows in by_segment))

    def is_standalone(self, vector_rows: RowNumbers) -> Flags:
        """Return a flag for each vector: True if its second one is by the second model."""
        has_second = self._second_rows[vector_rows] >= 0
        flags: Flags = (self._contexts[vector_rows] == 0) & has_second
        return flags


class VectorMatrix(VectorPositions):
    """All vectors of a tenant by one model, with their numbers."""

    def __init__(self, dimensions: int) -> None:
        super().__init__(dimensions)
        self._own_vectors, self._second = _VectorArray(dimensions), _VectorArray(dimensions)
        self._passages = PassageVectors(dimensions)
        self._signs: _Signs | None = None

    @property
    def nbytes(self) -> int:
        """The bytes that it takes in memory."""
        arrays = (
            self._own_vectors.numbers,
            self._own_vectors.scales,
            self._second.numbers,
            self._second.scales,
        )
        sign_bytes = 0 if self._signs is None else self._signs.bits.nbytes
        return sum(array.nbytes for array in arrays) + sign_bytes + self._passages.nbytes

    def append(self, vectors: Sequence[StoredVector]) -> None:
        """Append vectors, given in the order of their positions. Those of another length are left out."""
        length = _SCALE_BYTES + self.dimensions
        self.last_position = vectors[-1].position if vectors else self.last_position
        fitting = [
            vector for vector in vectors if len(vector.data) == length and _fits(vector, length)
        ]
        if not fitting:
            return
        second = [vector.context_data if vector.context_id >= 0 else None for vector in fitting]
        present = [data for data in second if data is not None]
        if present:
            self._second.append(present)
        self._passages.append(
            self._own_vectors.size, [vector.passages for vector in fitting], length
        )
        self._own_vectors.append([vector.data for vector in fitting])
        numbers = [(vector.position, vector.version_id, vector.context_id) for vector in fitting]
        positions, versions, contexts = np.array(numbers, np.int64).T
        has_second = np.array([data is not None for data in second], np.bool_)
        self.add(positions, versions, contexts, has_second)

    def remove(self, positions: Sequence[int]) -> NDArray[np.int64]:
        """Remove vectors, and overwrite their numbers with zeros.

        Zeros, so that the numbers of an erased text are gone from memory at once.
        """
        rows = super().remove(positions)
        self._own_vectors.numbers[rows] = 0
        self._passages.remove(rows)
        self._blank_second(rows)
        return rows

    def remove_context(self, positions: Sequence[int]) -> None:
        """Remove the vectors that include context, and overwrite their numbers with zeros."""
        self._blank_second(self.rows_at(positions))
        super().remove_context(positions)

    def _blank_second(self, rows: NDArray[np.int64]) -> None:
        second_rows = self._second_rows[rows]
        self._second.numbers[second_rows[second_rows >= 0]] = 0

    def cosines(
        self,
        queries: Floats,
        vector_rows: RowNumbers,
        in_context: Flags,
        second: Floats | None = None,
        share: float = 1.0,
    ) -> tuple[Floats, Floats]:
        """Return two matrices of cosines, one row per query: with the vectors of texts alone, and of texts in context.

        `in_context`: the rows whose context the caller may see; the others get their own cosine twice. `second`: the
        queries by the second model, for standalone texts; `share`: their share of all texts.

        `queries` has one row for the query and one for the typical query.
        """
        own_cosines = self._own_vectors.cosines(queries, vector_rows)
        standalone = self.is_standalone(vector_rows).nonzero()[0]
        if second is not None and len(standalone):
            second_rows = self._second_rows[vector_rows[standalone]]
            opinion = self._second.cosines(second, second_rows)
            own_cosines[:, standalone] = blend_second_model(
                own_cosines[:, standalone], opinion, share
            )
        self._passages.raise_cosines(own_cosines, queries, vector_rows)
        with_context = own_cosines.copy()
        indexes = np.flatnonzero(in_context)
        if len(indexes):
            second_rows = self._second_rows[vector_rows[indexes]]
            with_context[:, indexes] = self._second.cosines(queries, second_rows)
        return own_cosines, with_context

    def passage_cosines(self, query: Floats, versions: NDArray[np.int64]) -> dict[int, list[float]]:
        """Return the cosines of a query to the passages of those versions that have any, in the order of the text."""
        sorted_versions, known_rows = self._sorted
        if not self._passages.size or not len(sorted_versions):
            return {}
        positions = sorted_versions.searchsorted(versions)
        is_known = sorted_versions.take(positions, mode="clip") == versions
        rows = known_rows.take(positions[is_known])
        by_row = self._passages.cosines_of(query, rows)
        pairs = zip(versions[is_known].tolist(), by_row, strict=True)
        return {version_id: cosines for version_id, cosines in pairs if cosines}

    def similarities_among(self, versions: NDArray[np.int64]) -> Floats:
        """Return the similarity of each two versions: the cosine of the first model twice plus that of the second.

        NaN for a version without both vectors.
        """
        sorted_versions, known_rows = self._sorted
        positions = sorted_versions.searchsorted(versions)
        is_known = sorted_versions.take(positions, mode="clip") == versions
        vector_rows = known_rows.take(positions, mode="clip")
        is_known &= self.is_standalone(vector_rows)
        sums = np.full((len(versions), len(versions)), np.nan, np.float32)
        indexes = is_known.nonzero()[0]
        if len(indexes) > 1:
            rows = vector_rows[indexes]
            total = 2 * self._own_vectors.products(rows) + self._second.products(
                self._second_rows[rows]
            )
            sums[np.ix_(indexes, indexes)] = np.round(total, _COSINE_DIGITS)
        return sums

    def nearest(self, query: Floats, by_segment: Sequence[VectorRows]) -> list[VectorRows]:
        """Return the vectors whose signs are nearest to those of the query, at least NEAREST_BY_SIGNS if there are.

        May return up to twice NEAREST_BY_SIGNS, because all vectors at the last distance are equally near.
        """
        signs = self._signs
        if signs is None or signs.size < self._own_vectors.size:
            signs = self._signs = _Signs.of(self._own_vectors, signs)
        distances, counts = signs.distances(query, by_segment)
        if self._passages.size:
            nearest_passages = self._passages.distances(query, self._own_vectors.size)
            distances = [
                np.minimum(of_segment, nearest_passages[rows.vector_rows])
                for of_segment, rows in zip(distances, by_segment, strict=True)
            ]
            counts = np.bincount(np.concatenate(distances), minlength=len(counts))
        # Distances are small integers, so the limit is found by counting instead of sorting.
        limit = int(counts.cumsum().searchsorted(NEAREST_BY_SIGNS))
        remaining = 2 * NEAREST_BY_SIGNS
        nearest = []
        for of_segment, rows in zip(distances, by_segment, strict=True):
            indexes = (of_segment <= limit).nonzero()[0][:remaining]
            remaining -= len(indexes)
            nearest.append(
                VectorRows(
                    rows.rows.take(indexes), rows.vector_rows.take(indexes), is_contiguous=False
                )
            )
        return nearest


class PassageVectors:
    """The vectors of the passages of long texts, in the order of the vectors of these texts.

    A long text is as similar to a query as its best passage, if that is more than the text as a whole.
    """

    def __init__(self, dimensions: int) -> None:
        self._vectors = _VectorArray(dimensions)
        # For each passage the row of its text's vector, in ascending order.
        self._owners: RowNumbers = np.empty(0, np.int32)
        self._signs: _Signs | None = None

    @property
    def size(self) -> int:
        """The number of passages."""
        return self._vectors.size

    @property
    def nbytes(self) -> int:
        """The bytes that they take in memory."""
        sign_bytes = 0 if self._signs is None else self._signs.bits.nbytes
        return self._vectors.numbers.nbytes + self._owners.nbytes + sign_bytes

    def append(self, first_row: int, by_text: Sequence[Sequence[bytes]], length: int) -> None:
        """Append the passages of consecutive texts, the first of which has the row `first_row`."""
        if not any(by_text):
            return
        fitting = [
            (row, data)
            for row, passages in enumerate(by_text, start=first_row)
            for data in passages
            if len(data) == length
        ]
        if fitting:
            start = self.size
            self._vectors.append([data for _, data in fitting])
            self._owners = grow_array(self._owners, start, self.size)
            self._owners[start : self.size] = [row for row, _ in fitting]

    def remove(self, rows: NDArray[np.int64]) -> None:
        """Remove the passages of some texts: their numbers become zeros."""
        self._vectors.numbers[np.isin(self._owners[: self.size], rows).nonzero()[0]] = 0

    def distances(self, query: Floats, text_count: int) -> NDArray[np.uint16]:
        """Return for each text the least Hamming distance of its passages to the query; the greatest number if none."""
        signs = self._signs
        if signs is None or signs.size < self.size:
            signs = self._signs = _Signs.of(self._vectors, signs)
        rows = np.arange(self.size, dtype=np.int32)
        everything = VectorRows(rows.astype(np.int64), rows, is_contiguous=True)
        (distances,), _ = signs.distances(query, [everything])
        nearest = np.full(text_count, np.iinfo(np.uint16).max, np.uint16)
        starts = self._starts()
        nearest[self._owners[starts]] = np.minimum.reduceat(distances, starts)
        return nearest

    def raise_cosines(self, text_cosines: Floats, queries: Floats, vector_rows: RowNumbers) -> None:
        """Replace the cosines of texts, in place, by those of their nearest passage where these are greater."""
        if not self.size:
            return
        passages, indexes = self._passages_of(vector_rows)
        if not len(passages):
            return
        cosines = self._vectors.cosines(queries, passages)
        # The first line is that of the query: the nearest passage by it also sets the other lines.
        order = np.lexsort((-cosines[0], indexes))
        is_first = np.append(True, np.diff(indexes[order]) > 0)
        best = order[is_first]
        best = best[cosines[0, best] > text_cosines[0, indexes[best]]]
        text_cosines[:, indexes[best]] = cosines[:, best]

    def cosines_of(self, query: Floats, rows: RowNumbers) -> list[list[float]]:
        """Return for each text the cosines of its passages to the query."""
        passages, indexes = self._passages_of(rows)
        cosines: Floats = self._vectors.cosines(query[None, :], passages)[0]
        cosines = np.round(cosines, _COSINE_DIGITS)
        return [cosines[indexes == index].tolist() for index in range(len(rows))]

    def _starts(self) -> NDArray[np.int64]:
        """Return the first passage of each text that has any."""
        owners = self._owners[: self.size]
        return np.append(True, owners[1:] != owners[:-1]).nonzero()[0]

    def _passages_of(self, rows: RowNumbers) -> tuple[RowNumbers, NDArray[np.int64]]:
        """Return the passages of some texts, and for each the index of its text in `rows`."""
        owners = self._owners[: self.size]
        starts, ends = owners.searchsorted(rows), owners.searchsorted(rows, "right")
        counts = ends - starts
        indexes = np.repeat(np.arange(len(rows)), counts)
        # The number of each passage in its text.
        numbers = np.arange(len(indexes)) - np.repeat(np.cumsum(counts) - counts, counts)
        return (starts[indexes] + numbers).astype(np.int32), indexes


def blend_second_model(own_cosines: Floats, opinion: Floats, share: float) -> Floats:
    """Return the cosines of standalone texts, corrected by those of the second model.

    `share`: the share of standalone texts. If they are few, a correction would move them unfairly past all others.
    """
    correction = SECOND_MODEL_WEIGHT * share * (opinion - SECOND_MODEL_BASELINE)
    return np.minimum(own_cosines + correction, 1.0)


def _fits(vector: StoredVector, length: int) -> bool:
    """Return True if the second vector is missing, unusable, or as long as it must be."""
    return (
        vector.context_id < 0 or vector.context_data is None or len(vector.context_data) == length
    )


class _Signs:
    """One bit per dimension of each vector: 1 above the mean. Line i of `bits` holds dimensions 64 i to 64 i + 63.

    Subtracting the mean first makes the signs tell more: without it most vectors agree in many dimensions.
    """

    def __init__(self, mean: Floats, bits: NDArray[np.uint64], size: int, sample: int) -> None:
        """Hold the bits of `size` vectors, from whose mean, of `sample` vectors, they were computed."""
        self.mean, self.bits, self.size, self.sample = mean, bits, size, sample

    @classmethod
    def of(cls, vectors: _VectorArray, previous: _Signs | None) -> _Signs:
        """Compute the signs of vectors, continuing the previous ones unless their mean is outdated."""
        size = vectors.size
        if previous is not None and previous.sample * 2 >= min(size, _MEAN_SAMPLE):
            mean, sample, start = previous.mean, previous.sample, previous.size
            bits = grow_array(previous.bits.T, start, size).T
        else:
            sample, start = min(size, _MEAN_SAMPLE), 0
            rows = np.linspace(0, size - 1, sample).astype(np.int64)
            numbers = vectors.numbers[rows].astype(np.float32)
            mean = (numbers * vectors.scales[rows, None]).mean(axis=0)
            bits = np.empty((_words_for(len(mean)), size), np.uint64)
        for first in range(start, size, EXACT_LIMIT):
            last = min(size, first + EXACT_LIMIT)
            numbers = vectors.numbers[first:last].astype(np.float32)
            scaled = numbers * vectors.scales[first:last, None]
            bits[:, first:last] = _pack_signs(scaled - mean).T
        return cls(mean, bits, size, sample)

    def distances(
        self, query: Floats, by_segment: Sequence[VectorRows]
    ) -> tuple[list[NDArray[np.uint16]], NDArray[np.int64]]:
        """Return the Hamming distance of each vector to the query, and the number of vectors at each distance."""
        query_bits = _pack_signs((query - self.mean)[None, :])[0]
        differing = np.empty(_SIGN_ROWS, np.uint64)
        bit_counts = np.empty(_SIGN_ROWS, np.uint8)
        counts = np.zeros(64 * len(self.bits) + 1, np.int64)
        distances_by_segment = []
        for of_segment in by_segment:
            distances = np.zeros(len(of_segment.vector_rows), np.uint16)
            for start in range(0, len(distances), _SIGN_ROWS):
                part = distances[start : start + _SIGN_ROWS]
                rows = of_segment.vector_rows[start : start + _SIGN_ROWS]
                first, size = int(rows[0]), len(rows)
                for line, word in zip(self.bits, query_bits, strict=True):
                    is_contiguous = of_segment.is_contiguous
                    signs = line[first : first + size] if is_contiguous else line.take(rows)
                    np.bitwise_xor(signs, word, out=differing[:size])
                    part += np.bitwise_count(differing[:size], out=bit_counts[:size])
                counts += np.bincount(part, minlength=len(counts))
            distances_by_segment.append(distances)
        return distances_by_segment, counts


def _words_for(dimensions: int) -> int:
    """Return the number of 64-bit words that hold one bit per dimension."""
    return (dimensions + 63) // 64


def _pack_signs(numbers: Floats) -> NDArray[np.uint64]:
    """Pack the signs of each row into 64-bit words; missing dimensions are 0."""
    packed = np.packbits(numbers > 0, axis=1)
    padded = np.zeros((len(numbers), 8 * _words_for(numbers.shape[1])), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


# --- similarities of a query -----------------------------------------------------------------------------


class ComparableVectors(Protocol):
    """The vectors of a tenant by one model: compared here (`VectorMatrix`), or by the database with pgvector."""

    def lookup(self, versions: NDArray[np.int64], mask: Flags, /) -> VectorRows:
        """Return the vectors of a segment's versions, of the rows with a flag in `mask`."""
        ...

    def nearest(self, query: Floats, by_segment: Sequence[VectorRows], /) -> list[VectorRows]:
        """Return the vectors that are probably nearest to a query."""
        ...

    def context_versions(self, vector_rows: RowNumbers, /) -> NDArray[np.int64]:
        """Return the version whose text each second vector includes; 0 if there is none."""
        ...

    def standalone_share(self, by_segment: Sequence[VectorRows], /) -> float:
        """Return the share of vectors whose second one is by the second model."""
        ...

    def passage_cosines(
        self, query: Floats, versions: NDArray[np.int64], /
    ) -> dict[int, list[float]]:
        """Return the cosines of a query to the passages of versions that have any; none if they are not here."""
        ...

    def similarities_among(self, versions: NDArray[np.int64], /) -> Floats | None:
        """Return the sums of the cosines between some versions, of the first model twice; None if they are not here."""
        ...

    def cosines(
        self,
        queries: Floats,
        vector_rows: RowNumbers,
        in_context: Flags,
        second: Floats | None,
        share: float,
        /,
    ) -> tuple[Floats, Floats]:
        """Return two matrices of cosines, one row per query: for texts alone, and for texts in context."""
        ...


def add_similarities(
    segments: list[SearchedSegment], vectors: ComparableVectors, query: VectorQuery
) -> list[SearchedSegment]:
    """Add the cosines of all visible rows with vectors; of many, only of the nearest allowed ones.

    Rows without a vector, of new memories for example, stay without similarity and compete by keywords.
    """
    by_segment = [vectors.lookup(segment.columns.versions, segment.visible) for segment in segments]
    visible_count = sum(segment.statistics.count for segment in segments)
    is_all = _count_rows(by_segment) == visible_count
    if _count_rows(by_segment) > EXACT_LIMIT:
        by_segment = [
            vectors.lookup(segment.columns.versions, segment.allowed) for segment in segments
        ]
    if _count_rows(by_segment) > EXACT_LIMIT:
        by_segment = vectors.nearest(query.vector, by_segment)
    standalone_share = vectors.standalone_share(by_segment)
    threshold = 0.0
    # A row without a vector may be the answer, so then there is no threshold.
    if is_all and query.line and query.question_trust:
        threshold = answer_threshold(visible_count, query.floor, query.line, standalone_share)
    vector_rows = np.concatenate([segment_rows.vector_rows for segment_rows in by_segment])
    is_context_visible = np.concatenate(
        [
            _visible_contexts(segment, segment_rows, vectors)
            for segment, segment_rows in zip(segments, by_segment, strict=True)
        ]
    )
    second = None if query.second is None else _with_typical(query.second)
    own_cosines, context_cosines = vectors.cosines(
        _with_typical(query), vector_rows, is_context_visible, second, standalone_share
    )
    own_cosines = np.round(own_cosines, _COSINE_DIGITS)
    context_cosines = np.round(context_cosines, _COSINE_DIGITS)
    compared, start = [], 0
    for segment, segment_rows in zip(segments, by_segment, strict=True):
        part = slice(start, start + len(segment_rows.vector_rows))
        start = part.stop
        similarities = Similarities(
            rows=segment_rows.rows,
            own=own_cosines[0, part],
            context=context_cosines[0, part],
            typical_own=own_cosines[1, part],
            typical_context=context_cosines[1, part],
            threshold=query.floor,
            answer_threshold=threshold,
            trust=_trust_of(segment, segment_rows.rows, query),
        )
        compared.append(replace(segment, similarities=similarities))
    return compared


def _trust_of(
    segment: SearchedSegment, rows: NDArray[np.int64], query: VectorQuery
) -> Floats | None:
    """Return the trust in the model for the languages of the query and of each row; None if it is 1 for all."""
    if not query.trust:
        return None
    by_language = np.minimum(np.array(query.trust, np.float32), np.float32(query.question_trust))
    trust: Floats = by_language.take(segment.columns.languages.take(rows), mode="clip")
    return None if bool(np.all(trust == 1)) else trust


def _count_rows(by_segment: list[VectorRows]) -> int:
    return sum(len(segment_rows.rows) for segment_rows in by_segment)


def _visible_contexts(
    segment: SearchedSegment, rows: VectorRows, vectors: ComparableVectors
) -> Flags:
    """Return a flag for each row with a vector: True if the caller may see the previous text in it."""
    columns, contexts = segment.columns, vectors.context_versions(rows.vector_rows)
    context_rows = np.minimum(np.searchsorted(columns.versions, contexts), len(columns) - 1)
    exists = (columns.versions[context_rows] == contexts) & (contexts != 0)
    visible: Flags = exists & segment.visible[context_rows]
    return visible


def _with_typical(query: VectorQuery) -> Floats:
    """Return the embedding of a query, and that of a typical query or zeros, as two rows."""
    typical = query.vector * 0 if query.typical is None else query.typical
    return np.stack((query.vector, typical))
