"""The vectors of versions in the database, and what a process keeps of them between questions.

Which versions have none yet needs no list: versions are numbered in the order in which they are written, so one number
a model says how far it has come. Only one process at a time makes vectors, for as long as it says so again and again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memoranda.encoding import json_text
from memoranda.errors import StoreCorrupt
from memoranda.model.instant import Instant
from memoranda.retrieval.entry import EYES_BITS
from memoranda.storage.crypto.cipher import Cipher
from memoranda.storage.engine.database import Connection, Database, Row
from memoranda.storage.engine.document_cache import Age
from memoranda.storage.index.embedding_work import (
    ANY_NUMBER,
    Batch,
    Failure,
    InClear,
    NewVector,
    Progress,
    ToEmbed,
)
from memoranda.storage.index.word_index import SegmentCache, WordIndex

if TYPE_CHECKING:
    from memoranda.retrieval.vectors import Matrix, Stored, VectorPlaces
    from memoranda.storage.postgres.pgvector import ClearMatrix, ClearVectors

# Of so many tenants and models vectors are kept in memory, and up to so many bytes; at least those asked for last.
_MATRICES: Final = 256
_MATRIX_BYTES: Final = 1 << 30
# So many are read at once: what a million takes as rows of a database is twice what it takes as arrays.
_READ_AT_ONCE: Final = 16_384
# Names in the table `meta`, before the name of a model: what keeps it from making vectors, and each version that it
# goes on without, with its number in so many digits.
_FAILURE: Final = "embedding failing "
_ASIDE: Final = "embedding aside "
_ID_DIGITS: Final = 19
# How long a process that makes vectors has until another may take over.
LEASE_MS: Final = 5_000


class _ModelRow(NamedTuple):
    model_id: int
    upto: int
    holder: str
    until_ms: int


class VectorQueue:
    """What is to have vectors by one model, in the order in which it was written, whoever's it is."""

    def __init__(self, database: Database, cipher: Cipher, segments: SegmentCache) -> None:
        self._database, self._cipher, self._segments = database, cipher, segments

    def progress(self, model: str) -> Progress:
        with self._database.open_snapshot() as connection:
            row = _model(connection, model)
            return Progress(0 if row is None else row.upto, _last(connection))

    def waiting(self, model: str, most: int = ANY_NUMBER) -> int:
        """How many versions it has not come to yet, up to so many; numbers of versions have gaps, so it is counted."""
        with self._database.open_snapshot() as connection:
            row = _model(connection, model)
            after = 0 if row is None else row.upto
            ((count,),) = connection.query("versions_waiting", {"after": after, "most": most})
            return int(count)

    def models(self) -> dict[str, int]:
        """Up to which version each model that was ever used has come."""
        with self._database.open_snapshot() as connection:
            return {name: upto for _, name, upto in connection.query("embedding_models", {})}

    def claim(self, model: str, holder: str, now: Instant) -> bool:
        """Make vectors from here on, unless another process does."""

        def work(connection: Connection) -> bool:
            connection.execute("embedding_model_add", {"name": model})
            row = _locked(connection, model)
            assert row is not None
            if row.holder not in ("", holder) and now < row.until_ms <= now + LEASE_MS:
                return False
            _put(connection, row, upto=row.upto, holder=holder, until_ms=now + LEASE_MS)
            return True

        return self._database.write(work)

    def release(self, model: str, holder: str) -> None:
        """Let another process go on at once."""

        def work(connection: Connection) -> None:
            row = _locked(connection, model)
            if row is not None and row.holder == holder:
                _put(connection, row, upto=row.upto, holder="", until_ms=0)

        self._database.write(work)

    def next(self, model: str, limit: int) -> Batch:
        """Return what comes next."""
        settled = self._database.find_settled_version()
        with self._database.open_snapshot() as connection:
            row = _model(connection, model)
            return self._batch(connection, 0 if row is None else row.upto, settled, limit)

    def next_alone(self, model: str) -> Batch:
        """Return a batch of the one version that comes next, without what was said before it."""
        settled = self._database.find_settled_version()
        with self._database.open_snapshot() as connection:
            row = _model(connection, model)
            return self._batch(
                connection, 0 if row is None else row.upto, settled, 1, has_contexts=False
            )

    def again(self, version_id: int) -> Batch:
        """Return a batch of one version that was set aside."""
        with self._database.open_snapshot() as connection:
            return self._batch(connection, version_id - 1, version_id, 1)

    def _batch(
        self,
        connection: Connection,
        after: int,
        upto: int,
        limit: int,
        *,
        has_contexts: bool = True,
    ) -> Batch:
        rows = connection.query("versions_to_embed", {"after": after, "upto": upto, "limit": limit})
        versions: list[ToEmbed] = []
        by_tenant: dict[tuple[str, int], list[int]] = {}
        for version_id, tenant, tenant_id, _, live in rows:
            if live:
                by_tenant.setdefault((tenant, tenant_id), []).append(version_id)
        for (tenant, tenant_id), version_ids in by_tenant.items():
            index = WordIndex(connection, tenant_id, self._segments)
            contexts = _before(index, version_ids) if has_contexts else {}
            versions += [ToEmbed(tenant, each, contexts.get(each, 0)) for each in version_ids]
        return Batch(after, max(after, rows[-1][0]) if rows else after, versions)

    def put(
        self, model: str, holder: str, batch: Batch, vectors: Sequence[NewVector], now: Instant
    ) -> bool:
        """Put down what was made of a batch; False if another process has done that meanwhile."""

        def work(connection: Connection) -> bool:
            row = _next_row(connection, model, holder, batch)
            if row is None:
                return False
            self._add(connection, row.model_id, vectors)
            _put(connection, row, upto=batch.upto, holder=holder, until_ms=now + LEASE_MS)
            self._copy(connection, row.model_id)
            connection.execute("meta_remove", {"name": _FAILURE + model})
            return True

        return self._database.write(work)

    # --- failures ----------------------------------------------------------------------------------------

    def failure(self, model: str) -> Failure | None:
        """Return what keeps a model from making vectors; None if it makes them, or was not tried yet."""
        with self._database.open_snapshot() as connection:
            return _failure(connection, model)

    def note_failure(self, model: str, error: str, now: Instant) -> None:
        """Remember for every process that no vectors are made, until some are put."""

        def work(connection: Connection) -> None:
            known = _failure(connection, model)
            noted = {"since": now if known is None else known.since, "tried": now, "error": error}
            connection.execute(
                "meta_put", {"name": _FAILURE + model, "value": json_text.dump(noted)}
            )

        self._database.write(work)

    def set_aside(self, model: str, holder: str, batch: Batch, now: Instant) -> bool:
        """Go on without the versions of a batch; False if another process has gone on meanwhile."""

        def work(connection: Connection) -> bool:
            row = _next_row(connection, model, holder, batch)
            if row is None:
                return False
            for each in batch.found:
                connection.execute(
                    "meta_put", {"name": _aside(model, each.version_id), "value": b""}
                )
            connection.execute("meta_remove", {"name": _FAILURE + model})
            _put(connection, row, upto=batch.upto, holder=holder, until_ms=now + LEASE_MS)
            return True

        return self._database.write(work)

    def aside(self, model: str, limit: int = ANY_NUMBER) -> list[int]:
        """Return the versions that were set aside, the first ones."""
        with self._database.open_snapshot() as connection:
            return _versions_aside(connection, model, limit)

    def put_aside(
        self, model: str, holder: str, version_id: int, vectors: Sequence[NewVector], now: Instant
    ) -> bool:
        """Put the vectors of a version that was set aside; False if another process makes vectors."""

        def work(connection: Connection) -> bool:
            row = _locked(connection, model)
            if row is None or row.holder != holder:
                return False
            self._add(connection, row.model_id, vectors)
            _put(connection, row, upto=row.upto, holder=holder, until_ms=now + LEASE_MS)
            self._copy(connection, row.model_id)
            connection.execute("meta_remove", {"name": _aside(model, version_id)})
            return True

        return self._database.write(work)

    # --- old models, and copies that a database compares itself ------------------------------------------

    def drop(self, model: str, limit: int) -> bool:
        """Delete some vectors of a model that is not used any more; whether there may be more."""

        def work(connection: Connection) -> bool:
            row = _locked(connection, model)
            if row is None:
                return False
            named = {"model_id": row.model_id}
            connection.execute("vectors_blank", {**named, "limit": limit})
            connection.execute("vectors_drop", {**named, "limit": limit})
            connection.execute("embedding_model_drop", named)
            is_there = _model(connection, model) is not None
            if not is_there:
                noted = [
                    _aside(model, each) for each in _versions_aside(connection, model, ANY_NUMBER)
                ]
                for name in (_FAILURE + model, *noted):
                    connection.execute("meta_remove", {"name": name})
            if self._database.clear_vectors is not None and not is_there:
                self._database.clear_vectors.drop(connection, row.model_id)
            return is_there

        return self._database.write(work)

    def copy(self, model: str) -> bool:
        """Copy some vectors for a database that compares them itself; False: there are none to copy."""
        clear = self._database.clear_vectors
        if clear is None or not clear.is_wanted:
            return False
        with self._database.open_snapshot() as connection:
            if not clear.is_behind(connection, model):
                return False

        def work(connection: Connection) -> bool:
            row = _locked(connection, model)
            return row is not None and self._copy(connection, row.model_id)

        return self._database.write(work)

    def _copy(self, connection: Connection, model_id: int) -> bool:
        clear = self._database.clear_vectors
        if clear is None or not clear.is_wanted:
            return False
        return clear.copy(connection, model_id, lambda rows: _opened(rows, self._cipher))

    def in_clear(self) -> InClear | None:
        """What the database has to compare itself, in clear; None: nothing."""
        clear = self._database.clear_vectors
        if clear is None:
            return None
        with self._database.open_snapshot() as connection:
            return clear.counts(connection)

    def _add(self, connection: Connection, model_id: int, vectors: Sequence[NewVector]) -> None:
        sealer = self._cipher.sealer()
        for each in vectors:
            found = connection.query_one(
                "version_key", {"tenant": each.tenant, "version_id": each.version_id}
            )
            if found is None:
                continue
            tenant_id, key_id = found
            datas = [each.data, each.context_data]
            if key_id is not None:
                bound = bound_to(each.tenant, each.version_id)
                datas = [
                    None if data is None else sealer.seal(key_id, data, bound) for data in datas
                ]
            connection.execute(
                "vector_add",
                {
                    "tenant_id": tenant_id,
                    "model_id": model_id,
                    "version_id": each.version_id,
                    "context_id": each.context_id,
                    "key_id": key_id,
                    "data": datas[0],
                    "context_data": datas[1],
                },
            )


def _last(connection: Connection) -> int:
    row = connection.query_one("version_last", {})
    return 0 if row is None else int(row[0])


def _model(connection: Connection, name: str) -> _ModelRow | None:
    row = connection.query_one("embedding_model_get", {"name": name})
    return None if row is None else _ModelRow(*row)


def _locked(connection: Connection, name: str) -> _ModelRow | None:
    """The same for whoever changes it."""
    row = connection.query_one("embedding_model_lock", {"name": name})
    return None if row is None else _ModelRow(*row)


def _next_row(connection: Connection, model: str, holder: str, batch: Batch) -> _ModelRow | None:
    """Return the row of a model, locked, if its holder may go on from where a batch began."""
    row = _locked(connection, model)
    return None if row is None or row.holder != holder or row.upto != batch.after else row


def _failure(connection: Connection, model: str) -> Failure | None:
    row = connection.query_one("meta_get", {"name": _FAILURE + model})
    if row is None:
        return None
    noted = json_text.parse(bytes(row[0]))
    return Failure(Instant(noted["since"]), Instant(noted["tried"]), noted["error"])


def _aside(model: str, version_id: int) -> str:
    return f"{_ASIDE}{model} {version_id:0{_ID_DIGITS}}"


def _versions_aside(connection: Connection, model: str, limit: int) -> list[int]:
    # A colon follows the digits: no name of another model, or of anything else, lies between.
    between = {"after": f"{_ASIDE}{model} ", "before": f"{_ASIDE}{model} :", "limit": limit}
    return [int(name[-_ID_DIGITS:]) for name, _ in connection.query("meta_between", between)]


def _put(connection: Connection, row: _ModelRow, **changed: Any) -> None:
    connection.execute("embedding_model_put", {"model_id": row.model_id, **changed})


def bound_to(tenant: str, version_id: int) -> bytes:
    """What an encrypted vector belongs to: in another place it does not open."""
    return f"{tenant}\x00vector\x00{version_id}".encode()


def _before(index: WordIndex, version_ids: Sequence[int]) -> dict[int, int]:
    """Of some versions the one before each in its session: of the same user, and for the same eyes."""
    import numpy as np

    found: dict[int, int] = {}
    segments = index.segments()
    for segment in segments:
        facts = segment.facts
        for version_id in version_ids:
            place = int(np.searchsorted(facts.versions, version_id))
            if (
                place == len(facts)
                or int(facts.versions[place]) != version_id
                or not facts.sessions[place]
            ):
                continue
            best = (-1, 0)
            for other in segments:
                others = other.facts
                places, _ = others.in_sessions(facts.sessions[place : place + 1])
                fits = (others.marks[places] ^ facts.marks[place]) & EYES_BITS == 0
                for name in ("spaces", "users"):
                    fits &= getattr(others, name)[places] == getattr(facts, name)[place]
                at, times = facts.times[place], others.times[places]
                places = places[
                    fits & ((times < at) | ((times == at) & (others.versions[places] < version_id)))
                ]
                if len(places):
                    last = places[np.lexsort((others.versions[places], others.times[places]))[-1]]
                    best = max(best, (int(others.times[last]), int(others.versions[last])))
            if best[1]:
                found[version_id] = best[1]
    return found


class Matrices:
    """The vectors of tenants that were asked lately, as arrays; every process follows what the others write."""

    def __init__(self, clear: ClearVectors | None) -> None:
        self._lock = threading.Lock()
        self._clear = clear if clear is not None and clear.is_wanted else None
        # Of a tenant and a model; and whether the numbers are here, or the database has them.
        self._kept: OrderedDict[tuple[int, str, bool], tuple[Age, VectorPlaces]] = OrderedDict()

    def of(
        self,
        connection: Connection,
        tenant: str,
        tenant_id: int,
        model: str,
        dimensions: int,
        age: Age,
        cipher: Cipher,
    ) -> Matrix | ClearMatrix | None:
        """What there is of a tenant by a model, as new as the snapshot; None if there is nothing."""
        from memoranda.retrieval.vectors import Matrix, VectorPlaces

        model_id, is_clear = self._model(connection, model)
        if model_id is None:
            return None
        key = tenant_id, model, is_clear
        with self._lock:
            known = self._kept.get(key)
            if known is None or (known[1].was_encrypted and known[0].keys != age.keys):
                known = age, VectorPlaces(dimensions) if is_clear else Matrix(dimensions)
            before, matrix = known
            if isinstance(matrix, Matrix):
                self._follow(connection, tenant, tenant_id, model_id, matrix, cipher)
            else:
                assert self._clear is not None
                self._clear.follow(connection, tenant_id, model_id, matrix)
            if before.erasures != age.erasures:
                _forget(connection, tenant_id, model_id, matrix)
            self._kept[key] = age, matrix
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and (
                len(self._kept) > _MATRICES or self._size() > _MATRIX_BYTES
            ):
                self._kept.popitem(last=False)
        if not len(matrix) or isinstance(matrix, Matrix):
            return matrix if isinstance(matrix, Matrix) and len(matrix) else None
        assert self._clear is not None
        return self._clear.matrix(connection, tenant_id, model_id, matrix)

    def _model(self, connection: Connection, name: str) -> tuple[int | None, bool]:
        """Which model it is, and whether the database compares its vectors: not before it has all there were."""
        if self._clear is not None:
            return self._clear.model(connection, name)
        row = _model(connection, name)
        return None if row is None else row.model_id, False

    def _size(self) -> int:
        return sum(matrix.nbytes for _, matrix in self._kept.values())

    @staticmethod
    def _follow(
        connection: Connection,
        tenant: str,
        tenant_id: int,
        model_id: int,
        matrix: Matrix,
        cipher: Cipher,
    ) -> None:
        params = {"tenant_id": tenant_id, "model_id": model_id, "limit": _READ_AT_ONCE}
        while rows := connection.query("vectors_after", {**params, "after": matrix.last_place}):
            matrix.was_encrypted |= any(row[3] is not None and row[1] for row in rows)
            matrix.append(_opened([(tenant, *row) for row in rows], cipher))
            if len(rows) < _READ_AT_ONCE:
                return


def _opened(rows: Sequence[Row], cipher: Cipher) -> list[Stored]:
    """Vectors as they were made: each of a tenant, with what the query `vectors_after` tells of it."""
    from memoranda.retrieval.vectors import Stored

    opener = cipher.opener() if any(row[4] is not None for row in rows) else None
    found = []
    for tenant, place, version_id, context_id, key_id, data, context_data in rows:
        if key_id is not None and version_id:
            assert opener is not None
            try:
                data = opener(key_id, data, bound_to(tenant, version_id)) or b""
                if context_data and context_id >= 0:
                    context_data = opener(key_id, context_data, bound_to(tenant, version_id))
            except StoreCorrupt:
                # What was changed is not compared with anything; the words of the version still find it.
                data = b""
        found.append(
            Stored(place, version_id, context_id, data if version_id else b"", context_data)
        )
    return found


def _forget(connection: Connection, tenant_id: int, model_id: int, matrix: VectorPlaces) -> None:
    import numpy as np

    params = {"tenant_id": tenant_id, "model_id": model_id}
    erased = connection.query("vectors_erased", {"tenant_id": tenant_id})
    matrix.forget(np.array([place for (place,) in erased], np.int64))
    lost = connection.query("vectors_lost_context", params)
    matrix.forget_context(np.array([place for (place,) in lost], np.int64))
