"""The vectors of versions in the database, and what a process keeps of them between questions.

Which versions have none yet needs no list: versions are numbered in the order in which they are written, so one number
a model says how far it has come. Only one process at a time makes vectors, for as long as it says so again and again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memoranda.errors import StoreCorrupt
from memoranda.model.instant import Instant
from memoranda.retrieval.entry import EYES_BITS
from memoranda.storage.cipher import Cipher
from memoranda.storage.database import Connection, Database
from memoranda.storage.documents import Age
from memoranda.storage.embedded import ANY_NUMBER, Batch, NewVector, Progress, ToEmbed
from memoranda.storage.word_index import SegmentCache, WordIndex

if TYPE_CHECKING:
    from memoranda.retrieval.vectors import Matrix

# Of so many tenants and models vectors are kept in memory, and up to so many bytes; at least those asked for last.
_MATRICES: Final = 256
_MATRIX_BYTES: Final = 1 << 30
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
        with self._database.reading() as connection:
            row = _model(connection, model)
            return Progress(0 if row is None else row.upto, _last(connection))

    def waiting(self, model: str, most: int = ANY_NUMBER) -> int:
        """How many versions it has not come to yet, up to so many; numbers of versions have gaps, so it is counted."""
        with self._database.reading() as connection:
            row = _model(connection, model)
            after = 0 if row is None else row.upto
            ((count,),) = connection.rows("versions_waiting", {"after": after, "most": most})
            return int(count)

    def models(self) -> dict[str, int]:
        """Up to which version each model that was ever used has come."""
        with self._database.reading() as connection:
            return {name: upto for _, name, upto in connection.rows("embedding_models", {})}

    def claim(self, model: str, holder: str, now: Instant) -> bool:
        """Make vectors from here on, unless another process does."""

        def work(connection: Connection) -> bool:
            connection.run("embedding_model_add", {"name": model})
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
        """What comes next."""
        settled = self._database.settled()
        with self._database.reading() as connection:
            row = _model(connection, model)
            after = 0 if row is None else row.upto
            rows = connection.rows("versions_to_embed", {"after": after, "upto": settled, "limit": limit})
            upto = max(after, rows[-1][0]) if rows else after
            found: list[ToEmbed] = []
            by_tenant: dict[tuple[str, int], list[int]] = {}
            for version_id, tenant, tenant_id, _, live in rows:
                if live:
                    by_tenant.setdefault((tenant, tenant_id), []).append(version_id)
            for (tenant, tenant_id), version_ids in by_tenant.items():
                index = WordIndex(connection, tenant_id, self._segments)
                contexts = _before(index, version_ids)
                found += [ToEmbed(tenant, each, contexts.get(each, 0)) for each in version_ids]
            return Batch(after, upto, found)

    def put(self, model: str, holder: str, batch: Batch, vectors: Sequence[NewVector], now: Instant) -> bool:
        """Put down what was made of a batch; False if another process has done that meanwhile."""

        def work(connection: Connection) -> bool:
            row = _locked(connection, model)
            if row is None or row.holder != holder or row.upto != batch.after:
                return False
            self._add(connection, row.model_id, vectors)
            _put(connection, row, upto=batch.upto, holder=holder, until_ms=now + LEASE_MS)
            return True

        return self._database.write(work)

    def drop(self, model: str, limit: int) -> bool:
        """Delete some vectors of a model that is not used any more; whether there may be more."""

        def work(connection: Connection) -> bool:
            row = _locked(connection, model)
            if row is None:
                return False
            named = {"model_id": row.model_id}
            connection.run("vectors_blank", {**named, "limit": limit})
            connection.run("vectors_drop", {**named, "limit": limit})
            connection.run("embedding_model_drop", named)
            return _model(connection, model) is not None

        return self._database.write(work)

    def _add(self, connection: Connection, model_id: int, vectors: Sequence[NewVector]) -> None:
        sealer = self._cipher.sealer()
        for each in vectors:
            found = connection.row("version_key", {"tenant": each.tenant, "version_id": each.version_id})
            if found is None:
                continue
            tenant_id, key_id = found
            datas = [each.data, each.context_data]
            if key_id is not None:
                bound = bound_to(each.tenant, each.version_id)
                datas = [None if data is None else sealer.seal(key_id, data, bound) for data in datas]
            connection.run(
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
    row = connection.row("version_last", {})
    return 0 if row is None else int(row[0])


def _model(connection: Connection, name: str) -> _ModelRow | None:
    row = connection.row("embedding_model_get", {"name": name})
    return None if row is None else _ModelRow(*row)


def _locked(connection: Connection, name: str) -> _ModelRow | None:
    """The same for whoever changes it."""
    row = connection.row("embedding_model_lock", {"name": name})
    return None if row is None else _ModelRow(*row)


def _put(connection: Connection, row: _ModelRow, **changed: Any) -> None:
    connection.run("embedding_model_put", {"model_id": row.model_id, **changed})


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
            if place == len(facts) or int(facts.versions[place]) != version_id or not facts.sessions[place]:
                continue
            best = (-1, 0)
            for other in segments:
                others = other.facts
                fits = others.sessions == facts.sessions[place]
                for name in ("spaces", "users"):
                    fits &= getattr(others, name) == getattr(facts, name)[place]
                fits &= (others.marks ^ facts.marks[place]) & EYES_BITS == 0
                at = facts.times[place]
                fits &= (others.times < at) | ((others.times == at) & (others.versions < version_id))
                places = np.flatnonzero(fits)
                if len(places):
                    last = places[np.lexsort((others.versions[places], others.times[places]))[-1]]
                    best = max(best, (int(others.times[last]), int(others.versions[last])))
            if best[1]:
                found[version_id] = best[1]
    return found


class Matrices:
    """The vectors of tenants that were asked lately, as arrays; every process follows what the others write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, str], tuple[Age, Matrix]] = OrderedDict()

    def of(
        self, connection: Connection, tenant: str, tenant_id: int, model: str, dimensions: int, age: Age, cipher: Cipher
    ) -> Matrix | None:
        """What there is of a tenant by a model, as new as the snapshot; None if there is nothing."""
        from memoranda.retrieval.vectors import Matrix

        row = _model(connection, model)
        if row is None:
            return None
        key = tenant_id, model
        with self._lock:
            known = self._kept.get(key)
            if known is None or (known[1].was_encrypted and known[0].keys != age.keys):
                known = age, Matrix(dimensions)
            before, matrix = known
            self._follow(connection, tenant, tenant_id, row.model_id, matrix, cipher)
            if before.erasures != age.erasures:
                _forget(connection, tenant_id, row.model_id, matrix)
            self._kept[key] = age, matrix
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and (len(self._kept) > _MATRICES or self._size() > _MATRIX_BYTES):
                self._kept.popitem(last=False)
        return matrix if len(matrix) else None

    def _size(self) -> int:
        return sum(matrix.nbytes for _, matrix in self._kept.values())

    @staticmethod
    def _follow(
        connection: Connection, tenant: str, tenant_id: int, model_id: int, matrix: Matrix, cipher: Cipher
    ) -> None:
        from memoranda.retrieval.vectors import Stored

        params = {"tenant_id": tenant_id, "model_id": model_id, "after": matrix.last_place}
        rows = connection.rows("vectors_after", params)
        if not rows:
            return
        opener = cipher.opener() if any(row[3] is not None for row in rows) else None
        found = []
        for place, version_id, context_id, key_id, data, context_data in rows:
            if key_id is not None and version_id:
                assert opener is not None
                matrix.was_encrypted = True
                try:
                    data = opener(key_id, data, bound_to(tenant, version_id)) or b""
                    if context_data and context_id >= 0:
                        context_data = opener(key_id, context_data, bound_to(tenant, version_id))
                except StoreCorrupt:
                    # What was changed is not compared with anything; the words of the version still find it.
                    data = b""
            found.append(Stored(place, version_id, context_id, data if version_id else b"", context_data))
        matrix.append(found)


def _forget(connection: Connection, tenant_id: int, model_id: int, matrix: Matrix) -> None:
    import numpy as np

    params = {"tenant_id": tenant_id, "model_id": model_id}
    erased = connection.rows("vectors_erased", {"tenant_id": tenant_id})
    matrix.forget(np.array([place for (place,) in erased], np.int64))
    lost = connection.rows("vectors_lost_context", params)
    matrix.forget_context(np.array([place for (place,) in lost], np.int64))
