"""Comparison of vectors inside PostgreSQL, and the arrays of numbers that are sent and returned for it.

`ClearMatrix` has the methods of a `VectorMatrix` (retrieval/vectors.py), but each comparison is a query on the table of
unencrypted vectors (pgvector.py). An array is one value in PostgreSQL's binary form, which NumPy reads and writes
without a Python object per number. This module imports NumPy, so it is imported only when vectors are used.

Queries are sent as the sum of two half-precision vectors, because pgvector's small type (`halfvec`) is used on the
stored side and one half-precision number alone would lose accuracy. The copies are compared exactly, so results agree
with those in the process up to rounding (`tests/storage/postgres_vectors.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval import vectors
from memoranda.retrieval.segment import Flags, Floats, RowNumbers
from memoranda.retrieval.vectors import VectorPositions, VectorRows
from memoranda.storage.engine.database import Connection, Row
from memoranda.storage.postgres.statements import Reals, WholeNumbers

# The head of an array: dimensions (1), flag for nulls (0), type of the elements, number of elements, first index (1).
_HEAD: Final = struct.Struct("!iiIii")
# Numbers of PostgreSQL's types.
_INT8: Final = 20
_FLOAT4: Final = 700


class VectorSet(NamedTuple):
    """The vectors of a tenant by one model, of one size: the parameters that all queries have."""

    tenant_id: int
    model_id: int
    size: int


def encode_whole_numbers(numbers: NDArray[np.int64]) -> WholeNumbers:
    """Return integers as the value of a parameter."""
    return WholeNumbers(_encode_array(numbers, ">i8", _INT8))


def encode_reals(numbers: Floats) -> Reals:
    """Return floating-point numbers as the value of a parameter."""
    return Reals(_encode_array(numbers, ">f4", _FLOAT4))


def _encode_array(numbers: NDArray[np.int64] | Floats, kind: str, element_type: int) -> bytes:
    elements = np.empty(len(numbers), [("length", ">i4"), ("value", kind)])
    elements["length"], elements["value"] = np.dtype(kind).itemsize, numbers
    return _HEAD.pack(1, 0, element_type, len(numbers), 1) + elements.tobytes()


def decode_whole_numbers(data: bytes | None) -> NDArray[np.int64]:
    """Return the integers of an array; none for NULL."""
    return _decode_array(data, ">i8").astype(np.int64)


def decode_reals(data: bytes | None) -> Floats:
    """Return the floating-point numbers of an array; none for NULL."""
    return _decode_array(data, ">f4").astype(np.float32)


def _decode_array(data: bytes | None, kind: str) -> NDArray[np.generic]:
    element = np.dtype([("length", ">i4"), ("value", kind)])
    # An empty array has no dimension and a shorter head, so the slice is empty, too.
    elements = b"" if data is None else memoryview(data)[_HEAD.size :]
    values: NDArray[np.generic] = np.frombuffer(elements, element)["value"]
    return values


def encode_stored_vector(data: bytes) -> tuple[float, int, Reals]:
    """Return the scale of a stored vector, its size, and its numbers before scaling as the value of a parameter."""
    scale, numbers = vectors.decode(data)
    return scale, len(numbers), encode_reals(numbers)


def read_new_positions(
    connection: Connection, vector_set: VectorSet, positions: VectorPositions
) -> None:
    """Append the positions of vectors that were copied since the last read."""
    params = {**vector_set._asdict(), "after": positions.last_position}
    ((*columns,),) = connection.query("clear_after", params)
    places, versions, contexts, has_second = map(decode_whole_numbers, columns)
    if len(places):
        # Positions are always read again when keys change, encrypted or not: that takes one query.
        positions.was_encrypted = True
        positions.add(places, versions, contexts, has_second.astype(np.bool_))


class ClearMatrix:
    """The vectors of a tenant for one search, compared by the database.

    It lives for one search, on the snapshot's connection. `positions` are shared by all searches of the process.
    """

    def __init__(
        self, connection: Connection, vector_set: VectorSet, positions: VectorPositions
    ) -> None:
        self._connection, self._params = connection, vector_set._asdict()
        self._positions = positions
        self.lookup = positions.lookup
        self.context_versions = positions.context_versions
        self.standalone_share = positions.standalone_share

    def _query(self, name: str, params: dict[str, object]) -> Row:
        (row,) = self._connection.query(name, {**self._params, **params})
        return row

    def similarities_among(self, versions: NDArray[np.int64]) -> None:
        """Return None: the vectors are in the database, so results are compared by their words only."""

    def passage_cosines(
        self, _query: Floats, _versions: NDArray[np.int64]
    ) -> dict[int, list[float]]:
        """Return none: the database has no copies of the vectors of passages."""
        return {}

    def nearest(self, query: Floats, by_segment: Sequence[VectorRows]) -> list[VectorRows]:
        """Return the vectors of the segments that are nearest to the query, at most NEAREST_BY_SIGNS.

        The database does not know which rows the caller may see, so it is asked for more than needed, and the rows that
        are not wanted are removed here.
        """
        is_wanted = np.zeros(len(self._positions), np.bool_)
        for segment_rows in by_segment:
            is_wanted[segment_rows.vector_rows] = True
        # Unwanted vectors may be nearer, so as many more are requested.
        unwanted_count = len(is_wanted) - int(np.count_nonzero(is_wanted))
        limit = vectors.NEAREST_BY_SIGNS + unwanted_count
        (data,) = self._query("clear_nearest", {**_split_query("question", query), "limit": limit})
        rows, _ = self._find_rows(decode_whole_numbers(data), len(is_wanted))
        is_near = np.zeros(len(is_wanted), np.bool_)
        is_near[rows[is_wanted[rows]][: vectors.NEAREST_BY_SIGNS]] = True
        nearest = []
        for segment_rows in by_segment:
            indexes = is_near[segment_rows.vector_rows].nonzero()[0]
            nearest.append(
                VectorRows(
                    segment_rows.rows.take(indexes),
                    segment_rows.vector_rows.take(indexes),
                    is_contiguous=False,
                )
            )
        return nearest

    def cosines(
        self,
        queries: Floats,
        vector_rows: RowNumbers,
        in_context: Flags,
        second: Floats | None = None,
        share: float = 1.0,
    ) -> tuple[Floats, Floats]:
        """Return the cosines of own vectors, and of those with context, one line per query.

        The arguments are those of `VectorMatrix.cosines`.
        """
        size = len(self._positions)
        other = queries if second is None or second.shape != queries.shape else second
        params: dict[str, object] = {}
        names = ("question", "typical", "other", "other_typical")
        for name, query in zip(names, (*queries, *other), strict=True):
            params |= _split_query(name, query)
        # Fewer than half of the vectors are named by their positions.
        if len(vector_rows) * 2 < size:
            places = np.sort(self._positions.positions_of(vector_rows))
            params["places"] = encode_whole_numbers(places)
            places_data, *columns = self._query("clear_cosines_of", params)
        else:
            places_data, *columns = self._query("clear_cosines", params)
        row_numbers, is_known = self._find_rows(decode_whole_numbers(places_data), size)
        # A vector that another process erased meanwhile has the cosine 0.
        cosines = np.zeros((len(columns), size), np.float32)
        for line, column in zip(cosines, columns, strict=True):
            line[row_numbers] = decode_reals(column)[is_known]
        text_cosines, context_cosines = cosines[:2, vector_rows], cosines[2:, vector_rows]
        if second is not None:
            standalone = self._positions.is_standalone(vector_rows).nonzero()[0]
            text_cosines[:, standalone] = vectors.blend_second_model(
                text_cosines[:, standalone], context_cosines[:, standalone], share
            )
        return text_cosines, np.where(in_context, context_cosines, text_cosines)

    def _find_rows(
        self, positions: NDArray[np.int64], size: int
    ) -> tuple[NDArray[np.int64], Flags]:
        """Return the rows of those positions that are known, and a flag for each position: True if it is known.

        The snapshot may be newer than the positions that this process has read.
        """
        known_positions = self._positions.positions_of(np.arange(size, dtype=np.int32))
        row_numbers = known_positions.searchsorted(positions)
        is_known: Flags = known_positions.take(row_numbers, mode="clip") == positions
        return row_numbers[is_known], is_known


def _split_query(name: str, query: Floats) -> dict[str, object]:
    """Return the parameters of a query: two half-precision vectors whose sum is the vector."""
    half = query.astype(np.float16).astype(np.float32)
    return {name: encode_reals(half), f"{name}_rest": encode_reals(query - half)}
