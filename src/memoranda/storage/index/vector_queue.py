"""The queue of versions that need embeddings, and the stored vectors.

Version ids ascend in the order of writing, so the queue needs no table: per model one number (`upto`) says up to which
version vectors exist. Only one process at a time makes the vectors of a model. It holds a lease (`holder`, `until_ms`),
which it extends with every batch.

Vectors are encrypted with the key of their version. With pgvector, copies are also stored unencrypted, so that the
database can compare them.

Failures are recorded in the table `meta`: one row per failing model, and one per version that was skipped because it
could not be embedded.

Life of a vector: a version is written; `EmbeddingQueue` (`service/core/embedding_queue.py`) claims the model, takes a
batch, computes, and stores it with `put`, which also moves `upto`. So the newest versions of a busy store would wait
behind all older ones; `latest_batch` and `put_latest` embed them first, and the queue later passes over versions that
have vectors. If a batch fails, the worker halves it; a single version that fails alone is skipped (`skip_batch`) and
named in `meta`, so that one text cannot stop all others. `memoranda models` shows failures and retries skipped
versions. A method that stores checks in its transaction that it still holds the lease and that `upto` has not moved: a
process that slept through its lease writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from memoranda.encoding import json_text
from memoranda.errors import StoreCorrupt
from memoranda.model.instant import Instant
from memoranda.retrieval.entry import AUDIENCE_BITS, StoredVector, split_vectors
from memoranda.storage.crypto.cipher import Cipher
from memoranda.storage.engine.database import Connection, Database, Row
from memoranda.storage.index.word_index import SegmentCache, WordIndex

if TYPE_CHECKING:
    from memoranda.retrieval.segment import VersionColumns
    from memoranda.storage.index.segment_reader import ReadableSegment

# Greater than any version id and any count.
NO_LIMIT: Final = 1 << 62
# Prefixes of names in the table `meta`, before the name of a model: a failing model, and a skipped version, whose id
# follows with this many digits.
_FAILURE: Final = "embedding failing "
_SKIPPED: Final = "embedding aside "
_ID_DIGITS: Final = 19
# Milliseconds until another process may take over from one that has stopped.
LEASE_MS: Final = 5_000

# Time and version in place of a previous version.
_NO_PREVIOUS: Final = (-1, 0)


class ToEmbed(NamedTuple):
    """A version that needs a vector, and the previous version of its session; 0 if there is none."""

    tenant: str
    version_id: int
    context_id: int


class EmbeddingBatch(NamedTuple):
    """The next versions to embed. They are all that need vectors after `after` and up to `upto`.

    `upto` may be higher than the last of `versions`, because versions that are erased or not live need no vector.
    """

    after: int
    upto: int
    versions: list[ToEmbed]


class NewVector(NamedTuple):
    """The encoded vectors of a version: its own, one with context or by the second model."""

    tenant: str
    version_id: int
    context_id: int
    # Its own vector, and those of its passages behind it (`entry.join_vectors`).
    data: bytes
    context_data: bytes | None


class EmbeddingProgress(NamedTuple):
    """The version up to which a model has made vectors, and the last version. Ids between them may be unused."""

    done: int
    last: int

    @property
    def is_behind(self) -> bool:
        """True if there may be versions without vectors."""
        return self.done < self.last


class EmbeddingFailure(NamedTuple):
    """The failure of a model: its first and its last time, and the error of the last time."""

    since: Instant
    last_try: Instant
    error: str


class ClearCopies(NamedTuple):
    """Counts of the unencrypted vectors that a database compares itself."""

    copies: int
    # The vectors that need a copy, and copies whose vector was deleted.
    vectors: int
    orphans: int
    # The version of pgvector.
    version: str
    # True if the settings of this process ask for pgvector.
    is_wanted: bool


class _ModelRow(NamedTuple):
    """The row of an embedding model."""

    model_id: int
    upto: int
    holder: str
    until_ms: int


# A model that was never used; no row has its id.
_NEW_MODEL: Final = _ModelRow(0, 0, "", 0)


class VectorQueue:
    """The versions of all tenants that need vectors, in the order of writing."""

    def __init__(self, database: Database, cipher: Cipher, segments: SegmentCache) -> None:
        self._database, self._cipher, self._segments = database, cipher, segments

    def progress(self, model: str) -> EmbeddingProgress:
        """Return how far a model has come."""
        with self._database.open_snapshot() as connection:
            row = model_row(connection, model)
            last = connection.query_one("version_last", {})
            return EmbeddingProgress(
                0 if row is None else row.upto, 0 if last is None else int(last[0])
            )

    def waiting(self, model: str, limit: int = NO_LIMIT) -> int:
        """Count the versions that need vectors, up to `limit`. Ids have gaps, so they are counted, not subtracted."""
        with self._database.open_snapshot() as connection:
            row = model_row(connection, model) or _NEW_MODEL
            params = {"after": row.upto, "most": limit, "model_id": row.model_id}
            ((count,),) = connection.query("versions_waiting", params)
            return int(count)

    def models(self) -> dict[str, int]:
        """Return the last embedded version of every model that was ever used."""
        with self._database.open_snapshot() as connection:
            return {name: upto for _, name, upto in connection.query("embedding_models", {})}

    def claim(self, model: str, holder: str, now: Instant) -> bool:
        """Take or extend the lease of a model; return False if another process holds it.

        The lease lasts LEASE_MS and is extended by every stored batch, so a crashed holder delays the others by five
        seconds at most.
        """

        def work(connection: Connection) -> bool:
            connection.execute("embedding_model_add", {"name": model})
            row = _lock_model(connection, model)
            assert row is not None
            # A lease that ends too late was taken by a clock that was ahead; it does not count.
            if row.holder not in ("", holder) and now < row.until_ms <= now + LEASE_MS:
                return False
            _update_model(connection, row, upto=row.upto, holder=holder, until_ms=now + LEASE_MS)
            return True

        return self._database.write(work)

    def release(self, model: str, holder: str) -> None:
        """Give up the lease, so that another process can continue at once."""

        def work(connection: Connection) -> None:
            row = _lock_model(connection, model)
            if row is not None and row.holder == holder:
                _update_model(connection, row, upto=row.upto, holder="", until_ms=0)

        self._database.write(work)

    def next_batch(self, model: str, limit: int) -> EmbeddingBatch:
        """Return the next versions that need vectors; no versions if there are none.

        Versions of a transaction that is still open could get lower ids than committed ones. `find_settled_version`
        keeps the batch below them, so that none is passed over.
        """
        settled = self._database.find_settled_version()
        with self._database.open_snapshot() as connection:
            row = model_row(connection, model) or _NEW_MODEL
            return self._batch(connection, row, row.upto, settled, limit)

    def latest_batch(self, model: str, after: int, newest: int, limit: int) -> EmbeddingBatch:
        """Return versions without vectors among the newest ones, newest first; only versions after `after`.

        `newest`: how many of the newest versions are looked at.
        """
        with self._database.open_snapshot() as connection:
            row = model_row(connection, model) or _NEW_MODEL
            after = max(after, row.upto)
            params = {"after": after, "newest": newest, "limit": limit, "model_id": row.model_id}
            versions = self._add_contexts(connection, connection.query("versions_latest", params))
            versions.sort(key=lambda version: -version.version_id)
            return EmbeddingBatch(after, after, versions)

    def latest_waiting(self, model: str, tenant: str, limit: int) -> list[int]:
        """Return those of a tenant's `limit` newest versions that have no vectors yet."""
        with self._database.open_snapshot() as connection:
            row = model_row(connection, model) or _NEW_MODEL
            last = connection.query_one("version_last", {})
            if last is None or last[0] <= row.upto:
                return []
            params = {
                "tenant": tenant,
                "after": row.upto,
                "model_id": row.model_id,
                "limit": limit,
            }
            return [row[0] for row in connection.query("versions_latest_of", params)]

    def next_single(self, model: str) -> EmbeddingBatch:
        """Return a batch of only the next version, without the previous one of its session."""
        settled = self._database.find_settled_version()
        with self._database.open_snapshot() as connection:
            row = model_row(connection, model) or _NEW_MODEL
            return self._batch(connection, row, row.upto, settled, 1, has_contexts=False)

    def retry_batch(self, model: str, version_id: int) -> EmbeddingBatch:
        """Return a batch of one version that was skipped."""
        with self._database.open_snapshot() as connection:
            row = model_row(connection, model) or _NEW_MODEL
            return self._batch(connection, row, version_id - 1, version_id, 1)

    def _batch(
        self,
        connection: Connection,
        model: _ModelRow,
        after: int,
        upto: int,
        limit: int,
        *,
        has_contexts: bool = True,
    ) -> EmbeddingBatch:
        params = {"after": after, "upto": upto, "limit": limit, "model_id": model.model_id}
        rows = connection.query("versions_to_embed", params)
        last = max(after, rows[-1][0]) if rows else after
        return EmbeddingBatch(
            after, last, self._add_contexts(connection, rows, has_contexts=has_contexts)
        )

    def _add_contexts(
        self, connection: Connection, rows: Sequence[Row], *, has_contexts: bool = True
    ) -> list[ToEmbed]:
        """Return those of the versions that need vectors, each with the previous version of its session."""
        versions: list[ToEmbed] = []
        by_tenant: dict[tuple[str, int], list[int]] = {}
        for version_id, tenant, tenant_id, _, is_live in rows:
            if is_live:
                by_tenant.setdefault((tenant, tenant_id), []).append(version_id)
        for (tenant, tenant_id), version_ids in by_tenant.items():
            index = WordIndex(connection, tenant_id, self._segments)
            contexts = _previous_versions(index, version_ids) if has_contexts else {}
            versions += [
                ToEmbed(tenant, version_id, contexts.get(version_id, 0))
                for version_id in version_ids
            ]
        return versions

    def put(
        self,
        model: str,
        holder: str,
        batch: EmbeddingBatch,
        vectors: Sequence[NewVector],
        now: Instant,
    ) -> bool:
        """Store the vectors of a batch; return False, and store nothing, if another process was faster.

        All vectors of the batch and the new `upto` are one transaction. `vectors` may lack versions of the batch that
        have no text.
        """

        def work(connection: Connection) -> bool:
            row = _lock_for_batch(connection, model, holder, batch)
            if row is None:
                return False
            self._add(connection, row.model_id, vectors)
            _update_model(connection, row, upto=batch.upto, holder=holder, until_ms=now + LEASE_MS)
            self._copy(connection, row.model_id)
            connection.execute("meta_remove", {"name": _FAILURE + model})
            return True

        return self._database.write(work)

    def put_latest(
        self, model: str, holder: str, vectors: Sequence[NewVector], now: Instant
    ) -> bool:
        """Store the vectors of newest versions before older ones have theirs; return False without the lease."""
        return self._put_late(model, holder, vectors, now, note=_FAILURE + model)

    # --- failures ----------------------------------------------------------------------------------------

    def failure(self, model: str) -> EmbeddingFailure | None:
        """Return the current failure of a model; None if it works or was never tried."""
        with self._database.open_snapshot() as connection:
            return _read_failure(connection, model)

    def note_failure(self, model: str, error: str, now: Instant) -> None:
        """Record that a model fails. The record is removed as soon as it makes a vector."""

        def work(connection: Connection) -> None:
            failure = _read_failure(connection, model)
            since = now if failure is None else failure.since
            value = json_text.dump({"since": since, "tried": now, "error": error})
            connection.execute("meta_put", {"name": _FAILURE + model, "value": value})

        self._database.write(work)

    def skip_batch(self, model: str, holder: str, batch: EmbeddingBatch, now: Instant) -> bool:
        """Skip the versions of a batch, and record that; return False if another process was faster."""

        def work(connection: Connection) -> bool:
            row = _lock_for_batch(connection, model, holder, batch)
            if row is None:
                return False
            for version in batch.versions:
                name = _skipped_name(model, version.version_id)
                connection.execute("meta_put", {"name": name, "value": b""})
            connection.execute("meta_remove", {"name": _FAILURE + model})
            _update_model(connection, row, upto=batch.upto, holder=holder, until_ms=now + LEASE_MS)
            return True

        return self._database.write(work)

    def skipped(self, model: str, limit: int = NO_LIMIT) -> list[int]:
        """Return the first skipped versions."""
        with self._database.open_snapshot() as connection:
            return _skipped_versions(connection, model, limit)

    def put_skipped(
        self, model: str, holder: str, version_id: int, vectors: Sequence[NewVector], now: Instant
    ) -> bool:
        """Store the vectors of a skipped version; return False if another process holds the lease."""
        note = _skipped_name(model, version_id)
        return self._put_late(model, holder, vectors, now, note=note)

    def _put_late(
        self, model: str, holder: str, vectors: Sequence[NewVector], now: Instant, *, note: str
    ) -> bool:
        """Store vectors out of turn, and remove a note about them; return False without the lease."""

        def work(connection: Connection) -> bool:
            row = _lock_model(connection, model)
            if row is None or row.holder != holder:
                return False
            self._add(connection, row.model_id, vectors)
            _update_model(connection, row, upto=row.upto, holder=holder, until_ms=now + LEASE_MS)
            self._copy(connection, row.model_id)
            connection.execute("meta_remove", {"name": note})
            return True

        return self._database.write(work)

    # --- unused models, and unencrypted copies -----------------------------------------------------------

    def delete_model(self, model: str, limit: int) -> bool:
        """Delete up to `limit` vectors of a model, and the model with the last; return True while it exists.

        Call it until it returns False. The rows are first emptied and then deleted, in portions, so that other writers
        get their turn.
        """

        def work(connection: Connection) -> bool:
            row = _lock_model(connection, model)
            if row is None:
                return False
            params = {"model_id": row.model_id}
            connection.execute("vectors_blank", {**params, "limit": limit})
            connection.execute("vectors_drop", {**params, "limit": limit})
            connection.execute("embedding_model_drop", params)
            if model_row(connection, model) is not None:
                return True
            skipped = _skipped_versions(connection, model, NO_LIMIT)
            names = [_skipped_name(model, version_id) for version_id in skipped]
            for name in (_FAILURE + model, *names):
                connection.execute("meta_remove", {"name": name})
            if self._database.clear_vectors is not None:
                self._database.clear_vectors.drop(connection, row.model_id)
            return False

        return self._database.write(work)

    def copy_in_clear(self, model: str) -> bool:
        """Copy some vectors unencrypted for a database that compares them; return False if none are left to copy."""
        clear = self._database.clear_vectors
        if clear is None or not clear.is_wanted:
            return False
        with self._database.open_snapshot() as connection:
            if not clear.is_behind(connection, model):
                return False

        def work(connection: Connection) -> bool:
            row = _lock_model(connection, model)
            return row is not None and self._copy(connection, row.model_id)

        return self._database.write(work)

    def _copy(self, connection: Connection, model_id: int) -> bool:
        clear = self._database.clear_vectors
        if clear is None or not clear.is_wanted:
            return False
        return clear.copy(connection, model_id, lambda rows: open_vectors(rows, self._cipher))

    def clear_copies(self) -> ClearCopies | None:
        """Count the unencrypted copies; None if the database cannot compare vectors."""
        clear = self._database.clear_vectors
        if clear is None:
            return None
        with self._database.open_snapshot() as connection:
            return clear.counts(connection)

    def _add(self, connection: Connection, model_id: int, vectors: Sequence[NewVector]) -> None:
        """Encrypt and insert vectors. Versions that were erased meanwhile get none."""
        sealer = self._cipher.make_sealer()
        for vector in vectors:
            key_row = connection.query_one(
                "version_key", {"tenant": vector.tenant, "version_id": vector.version_id}
            )
            if key_row is None:
                continue
            tenant_id, key_id = key_row
            data, context_data = vector.data, vector.context_data
            if key_id is not None:
                associated = vector_associated_data(vector.tenant, vector.version_id)
                data = sealer.seal(key_id, data, associated)
                if context_data is not None:
                    context_data = sealer.seal(key_id, context_data, associated)
            params = {
                "tenant_id": tenant_id,
                "model_id": model_id,
                "version_id": vector.version_id,
                "context_id": vector.context_id,
                "key_id": key_id,
                "data": data,
                "context_data": context_data,
            }
            connection.execute("vector_add", params)


def model_row(connection: Connection, name: str) -> _ModelRow | None:
    """Return the row of a model; None if it was never used."""
    row = connection.query_one("embedding_model_get", {"name": name})
    return None if row is None else _ModelRow(*row)


def _lock_model(connection: Connection, name: str) -> _ModelRow | None:
    """Return the row of a model, locked until the end of the transaction."""
    row = connection.query_one("embedding_model_lock", {"name": name})
    return None if row is None else _ModelRow(*row)


def _lock_for_batch(
    connection: Connection, model: str, holder: str, batch: EmbeddingBatch
) -> _ModelRow | None:
    """Return the locked row of a model if the holder may still store this batch, else None."""
    row = _lock_model(connection, model)
    return None if row is None or row.holder != holder or row.upto != batch.after else row


def _update_model(connection: Connection, row: _ModelRow, **columns: int | str) -> None:
    connection.execute("embedding_model_put", {"model_id": row.model_id, **columns})


def _read_failure(connection: Connection, model: str) -> EmbeddingFailure | None:
    row = connection.query_one("meta_get", {"name": _FAILURE + model})
    if row is None:
        return None
    failure = json_text.parse(bytes(row[0]))
    return EmbeddingFailure(Instant(failure["since"]), Instant(failure["tried"]), failure["error"])


def _skipped_name(model: str, version_id: int) -> str:
    return f"{_SKIPPED}{model} {version_id:0{_ID_DIGITS}}"


def _skipped_versions(connection: Connection, model: str, limit: int) -> list[int]:
    # ":" sorts directly after the digits, so the range holds only names of this model.
    params = {"after": f"{_SKIPPED}{model} ", "before": f"{_SKIPPED}{model} :", "limit": limit}
    return [int(name[-_ID_DIGITS:]) for name, _ in connection.query("meta_between", params)]


def vector_associated_data(tenant: str, version_id: int) -> bytes:
    """Return the associated data of an encrypted vector: with those of another version it does not decrypt."""
    return f"{tenant}\x00vector\x00{version_id}".encode()


def open_vectors(rows: Sequence[Row], cipher: Cipher) -> list[StoredVector]:
    """Decrypt vectors. Each row begins with its tenant, then has the columns of a query for vectors.

    A vector that does not decrypt has no data: the version is still found by its words.
    """
    opener = cipher.make_opener() if any(row[4] is not None for row in rows) else None
    vectors = []
    for tenant, position, version_id, context_id, key_id, data, context_data in rows:
        own_data, context = data, context_data
        if key_id is not None and version_id:
            assert opener is not None
            associated = vector_associated_data(tenant, version_id)
            try:
                own_data = opener(key_id, data, associated) or b""
                if context_data and context_id >= 0:
                    context = opener(key_id, context_data, associated)
            except StoreCorrupt:
                own_data = b""
        own_data, passages = split_vectors(own_data) if version_id else (b"", ())
        vectors.append(StoredVector(position, version_id, context_id, own_data, context, passages))
    return vectors


def _previous_versions(index: WordIndex, version_ids: Sequence[int]) -> dict[int, int]:
    """Return the previous version in the session of each version that has one: of the same user and audience.

    A message like "yes, the second one" has no meaning alone, so a second vector is computed from it together with the
    previous text of its session. That text must be visible to exactly the same people.
    """
    segments = index.segments()
    contexts: dict[int, int] = {}
    for segment in segments:
        columns = segment.columns
        for version_id in version_ids:
            row = columns.row_of(version_id)
            if row is None or not columns.sessions[row]:
                continue
            candidates = (_last_before(columns, row, other) for other in segments)
            _, previous = max(_NO_PREVIOUS, *candidates)
            if previous:
                contexts[version_id] = previous
    return contexts


def _last_before(columns: VersionColumns, row: int, segment: ReadableSegment) -> tuple[int, int]:
    """Return time and version of the last row in a segment before a row of its session; (-1, 0) if there is none."""
    columns_there = segment.columns
    rows, _ = columns_there.rows_of_sessions(columns.sessions[row : row + 1])
    is_before = (columns_there.flags[rows] ^ columns.flags[row]) & AUDIENCE_BITS == 0
    is_before &= columns_there.spaces[rows] == columns.spaces[row]
    is_before &= columns_there.users[rows] == columns.users[row]
    time, times = columns.times[row], columns_there.times[rows]
    is_same_time = (times == time) & (columns_there.versions[rows] < columns.versions[row])
    rows = rows[is_before & ((times < time) | is_same_time)]
    if not len(rows):
        return _NO_PREVIOUS
    last_time = columns_there.times[rows].max()
    return int(last_time), int(
        columns_there.versions[rows[columns_there.times[rows] == last_time]].max()
    )
