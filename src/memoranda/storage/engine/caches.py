"""The caches of a process, for all tenants: decoded documents, and for searches segments, vectors and closed versions.

Documents and segments never change, and vectors are only appended. The state of a version and who may see it are never
cached with a document: they are read from every snapshot. Counters of the tenant in the database tell which entries are
outdated: erasures and key changes (`Age`), by whichever process, and closings. A document is cached decrypted, with the
result of checking its seal and with what the service computed from it. All classes are shared by threads.

Rule for every cache here: a cached value may only depend on rows that never change, or its key must contain the counter
that changes with them. A cache is never asked if a memory exists or may be seen. Each limit is in bytes or entries, and
the least recently used entry is dropped first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from memoranda.model.memory import OpenedDocument
from memoranda.storage.crypto.cipher import Cipher
from memoranda.storage.engine.database import Connection
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

# Bytes of memory that the decoded documents of a process may take.
DOCUMENT_BYTES: Final = 64 << 20
# Bytes of memory of one entry apart from its document, and of a decoded document for each of its bytes: an estimate.
_ENTRY_BYTES: Final = 1_024
_DECODED_SHARE: Final = 8
# Matrices: one per tenant and model. The least recently used one is dropped first.
_MATRICES_LIMIT: Final = 256
# Bytes of all matrices, 1 GiB; the most recently used one stays, whatever its size.
_MATRIX_BYTES_LIMIT: Final = 1 << 30
# Rows per query: a million vectors take twice as much memory as database rows than as arrays.
_READ_ROWS: Final = 16_384
# Tenants whose closed versions are cached; 16 bytes per closed version.
_TENANTS_LIMIT: Final = 1_024


class Age(NamedTuple):
    """Counts of the erasures and key changes of a tenant; documents cached at an earlier age are dropped."""

    erasures: int
    keys: int


class DocumentCache:
    """The documents used last, up to a limit of memory."""

    def __init__(self, limit: int = DOCUMENT_BYTES) -> None:
        self._limit, self._size = limit, 0
        self._lock = threading.Lock()
        self._ages: dict[int, Age] = {}
        # The documents by (tenant id, version id), the one used last at the end.
        self._entries: OrderedDict[tuple[int, int], OpenedDocument] = OrderedDict()

    def get(
        self, tenant_id: int, age: Age, version_ids: Sequence[int]
    ) -> dict[int, OpenedDocument]:
        """Return the cached documents of these versions; none to a snapshot from before the last erasure."""
        with self._lock:
            if not self._is_current(tenant_id, age):
                return {}
            cached = {
                version_id: document
                for version_id in version_ids
                if (document := self._entries.get((tenant_id, version_id))) is not None
            }
            for version_id in cached:
                self._entries.move_to_end((tenant_id, version_id))
            return cached

    def put(self, tenant_id: int, age: Age, documents: Mapping[int, OpenedDocument]) -> None:
        """Cache documents, and drop those used longest ago if there are too many."""
        with self._lock:
            if not self._is_current(tenant_id, age):
                return
            for version_id, document in documents.items():
                # A document that could not be decrypted is empty, and is read again next time.
                if document.native and (tenant_id, version_id) not in self._entries:
                    self._entries[tenant_id, version_id] = document
                    self._size += _document_size(document)
            while self._size > self._limit:
                self._size -= _document_size(self._entries.popitem(last=False)[1])

    def __len__(self) -> int:
        return len(self._entries)

    def _is_current(self, tenant_id: int, age: Age) -> bool:
        """Return True if no later age is known here. If this is a later one, drop what is cached of the tenant.

        A snapshot that began before an erasure has a lower age than the cache. It gets nothing and stores nothing, so
        it cannot bring back what was erased.
        """
        latest = self._ages.setdefault(tenant_id, age)
        if latest < age:
            self._ages[tenant_id] = age
            for key in [key for key in self._entries if key[0] == tenant_id]:
                self._size -= _document_size(self._entries.pop(key))
        return latest <= age


def _document_size(documents: OpenedDocument) -> int:
    return _ENTRY_BYTES + _DECODED_SHARE * len(documents.native)


class SearchCache:
    """All caches of a process for searches."""

    def __init__(self, clear: ClearVectors | None = None) -> None:
        """Create empty caches; `clear`: the unencrypted vectors of a database that compares them itself."""
        self.segments = SegmentCache()
        self.vectors = VectorCache(clear)
        self._lock = threading.Lock()
        # By tenant: the closing counter, and the versions closed by then.
        self._closed_by_tenant: dict[int, tuple[int, ClosedVersions]] = {}

    def closed_versions(
        self, connection: Connection, tenant_id: int, closing_seq: int
    ) -> ClosedVersions:
        """Return the versions that are not live, by id, with the end of their valid time.

        `closing_seq` counts the closings of the tenant: what the cache lacks is read from the database.

        The result is a sorted array of rows (version id, end of valid time in ms), shared by all searches; do not
        change it. If the cache is a little behind, only the closings since then are read.
        """
        from memoranda.retrieval.segment import apply_closings, closings_array

        with self._lock:
            cached = self._closed_by_tenant.get(tenant_id)
        if cached is not None and cached[0] == closing_seq:
            return cached[1]
        params = {"tenant_id": tenant_id, "forever_ms": FOREVER_MS}
        if cached is not None and cached[0] < closing_seq:
            changes = connection.query("closings_after", {**params, "after": cached[0]})
            closed_versions = apply_closings(cached[1], changes)
        else:
            closed_versions = closings_array(connection.query("closed_versions", params))
        with self._lock:
            if len(self._closed_by_tenant) > _TENANTS_LIMIT:
                self._closed_by_tenant.clear()
            self._closed_by_tenant[tenant_id] = closing_seq, closed_versions
        return closed_versions


class VectorCache:
    """The vectors of recently searched tenants as arrays. Other processes' writes are read before each use.

    A search uses the array of its tenant under the lock only while new vectors are added to it. Searches keep using the
    object that they got; vectors are appended behind the rows that they know.
    """

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
