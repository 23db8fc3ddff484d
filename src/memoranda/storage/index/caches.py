"""The caches of a process for searches: segments of the word index, vectors, and the versions that are not live.

They follow the store: segments never change, vectors are appended, and the counters of the tenant (erasures, closings)
tell which entries are outdated. All classes are shared by threads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

from memoranda.storage.crypto.cipher import Cipher
from memoranda.storage.engine.database import Connection
from memoranda.storage.engine.document_cache import Age
from memoranda.storage.engine.selection import FOREVER_MS
from memoranda.storage.index.vector_queue import model_row, open_vectors
from memoranda.storage.index.word_index import SegmentCache

# NumPy is imported inside functions: most commands open a store and search nothing.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memoranda.retrieval.vectors import VectorMatrix, VectorPositions
    from memoranda.storage.postgres.clear_matrix import ClearMatrix
    from memoranda.storage.postgres.pgvector import ClearVectors

    # Rows of version_id and the end of its valid time in Unix milliseconds; 0 if it is valid at no time.
    ClosedVersions: TypeAlias = NDArray[np.int64]

# Matrices: one per tenant and model. The least recently used one is dropped first.
_MATRICES_LIMIT: Final = 256
# Bytes of all matrices, 1 GiB; the most recently used one stays, whatever its size.
_MATRIX_BYTES_LIMIT: Final = 1 << 30
# Rows per query: a million vectors take twice as much memory as database rows than as arrays.
_READ_ROWS: Final = 16_384
# Tenants whose closed versions are cached; 16 bytes per closed version.
_TENANTS_LIMIT: Final = 1_024


class SearchCache:
    """All caches of a process for searches."""

    def __init__(self, clear: ClearVectors | None = None) -> None:
        """Create empty caches; `clear`: the unencrypted vectors of a database that compares them itself."""
        self.segments = SegmentCache()
        self.vectors = VectorCache(clear)
        self._lock = threading.Lock()
        # By tenant: the closing counter, and the versions closed by then.
        self._closed: dict[int, tuple[int, ClosedVersions]] = {}

    def closed_versions(
        self, connection: Connection, tenant_id: int, closing_seq: int
    ) -> ClosedVersions:
        """Return the versions that are not live, by id, with the end of their valid time.

        `closing_seq` counts the closings of the tenant: what the cache lacks is read from the database.
        """
        from memoranda.retrieval.segment import apply_closings, closings_array

        with self._lock:
            cached = self._closed.get(tenant_id)
        if cached is not None and cached[0] == closing_seq:
            return cached[1]
        params = {"tenant_id": tenant_id, "forever_ms": FOREVER_MS}
        if cached is not None and cached[0] < closing_seq:
            changes = connection.query("closings_after", {**params, "after": cached[0]})
            closed = apply_closings(cached[1], changes)
        else:
            closed = closings_array(connection.query("closed_versions", params))
        with self._lock:
            if len(self._closed) > _TENANTS_LIMIT:
                self._closed.clear()
            self._closed[tenant_id] = closing_seq, closed
        return closed


class VectorCache:
    """The vectors of recently searched tenants as arrays. Other processes' writes are read before each use."""

    def __init__(self, clear: ClearVectors | None) -> None:
        self._lock = threading.Lock()
        self._clear = clear if clear is not None and clear.is_wanted else None
        # By tenant, model, and True if only the positions are here and the database compares the vectors.
        self._entries: OrderedDict[tuple[int, str, bool], tuple[Age, VectorPositions]] = (
            OrderedDict()
        )

    def matrix(
        self,
        connection: Connection,
        tenant: str,
        tenant_id: int,
        model: str,
        dimensions: int,
        age: Age,
        cipher: Cipher,
    ) -> VectorMatrix | ClearMatrix | None:
        """Return a tenant's vectors by a model, as of the connection's snapshot; None if there are none.

        `age` tells whether versions were erased or keys changed since the vectors were read.
        """
        from memoranda.retrieval.vectors import VectorMatrix, VectorPositions

        model_id, is_clear = self._model(connection, model)
        if model_id is None:
            return None
        key = tenant_id, model, is_clear
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or (entry[1].was_encrypted and entry[0].keys != age.keys):
                entry = age, VectorPositions(dimensions) if is_clear else VectorMatrix(dimensions)
            read_at, vectors = entry
            if isinstance(vectors, VectorMatrix):
                _read_new_vectors(connection, tenant, tenant_id, model_id, vectors, cipher)
            else:
                assert self._clear is not None
                self._clear.follow(connection, tenant_id, model_id, vectors)
            if read_at.erasures != age.erasures:
                _remove_erased(connection, tenant_id, model_id, vectors)
            self._entries[key] = age, vectors
            self._entries.move_to_end(key)
            while len(self._entries) > 1 and (
                len(self._entries) > _MATRICES_LIMIT or self._size() > _MATRIX_BYTES_LIMIT
            ):
                self._entries.popitem(last=False)
        if not len(vectors):
            return None
        if isinstance(vectors, VectorMatrix):
            return vectors
        assert self._clear is not None
        return self._clear.matrix(connection, tenant_id, model_id, vectors)

    def _model(self, connection: Connection, name: str) -> tuple[int | None, bool]:
        """Return the id of a model, and True if the database compares its vectors, once all are copied."""
        if self._clear is not None:
            return self._clear.model(connection, name)
        row = model_row(connection, name)
        return None if row is None else row.model_id, False

    def _size(self) -> int:
        return sum(vectors.nbytes for _, vectors in self._entries.values())


def _read_new_vectors(
    connection: Connection,
    tenant: str,
    tenant_id: int,
    model_id: int,
    matrix: VectorMatrix,
    cipher: Cipher,
) -> None:
    """Append the vectors that were stored since the last read."""
    params = {"tenant_id": tenant_id, "model_id": model_id, "limit": _READ_ROWS}
    while rows := connection.query("vectors_after", {**params, "after": matrix.last_position}):
        matrix.was_encrypted |= any(row[3] is not None and row[1] for row in rows)
        matrix.append(open_vectors([(tenant, *row) for row in rows], cipher))
        if len(rows) < _READ_ROWS:
            return


def _remove_erased(
    connection: Connection, tenant_id: int, model_id: int, vectors: VectorPositions
) -> None:
    """Remove the vectors of erased versions, and the context vectors whose previous text was erased."""
    erased = connection.query("vectors_erased", {"tenant_id": tenant_id})
    vectors.remove([position for (position,) in erased])
    lost = connection.query("vectors_lost_context", {"tenant_id": tenant_id, "model_id": model_id})
    vectors.remove_context([position for (position,) in lost])
