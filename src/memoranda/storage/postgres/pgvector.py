"""Vectors that PostgreSQL keeps in clear and compares itself (`vector_search = pgvector`, sql/pgvector).

They are a copy of those that are kept as their texts are: made from them in the order of their places, so that one
number a model says how far it has come. A process keeps where the vectors of a tenant stand, as it does of those that
it compares itself, but not their numbers. All of an owner's are compared: so what is found is the same as in process,
whatever a filter leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import errors

from memoranda.errors import StoreUnavailable
from memoranda.storage.engine.database import Connection, Row, load_migrations
from memoranda.storage.index.vector_queue import ClearCopies
from memoranda.storage.postgres.server import MIGRATING, open_connection, postgres_errors
from memoranda.storage.postgres.statements import (
    read_reals,
    read_whole_numbers,
    reals,
    whole_numbers,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memoranda.retrieval.entry import StoredVector
    from memoranda.retrieval.segment import Flags, Floats, RowNumbers
    from memoranda.retrieval.vectors import VectorPositions, VectorRows

# So many are copied in one unit of work.
COPIED_LIMIT: Final = 512


class ClearVectors:
    """The table of vectors in clear, of a database that has one; `is_wanted`: by this process."""

    def __init__(self, *, is_wanted: bool, path: str) -> None:
        """`path`: what a connection is told first, so that it finds pgvector's types and operators."""
        self.is_wanted, self.path = is_wanted, path

    def model(self, connection: Connection, name: str) -> tuple[int | None, bool]:
        """Which model it is, and whether all its vectors were copied once."""
        found = _rows(connection, "clear_model", name=name)
        return (found[0][0], bool(found[0][1])) if found else (None, False)

    def follow(
        self, connection: Connection, tenant_id: int, model_id: int, known: VectorPositions
    ) -> None:
        """Take up where vectors stand that came since."""
        import numpy as np

        whose = {"tenant_id": tenant_id, "model_id": model_id, "size": known.dimensions}
        ((*packed,),) = _rows(connection, "clear_after", **whose, after=known.last_position)
        places, versions, contexts, has_second = map(read_whole_numbers, packed)
        if len(places):
            # They go when keys change, whether these were encrypted or not: to look again takes one question.
            known.was_encrypted = True
            known.add(places, versions, contexts, has_second.astype(np.bool_))

    def counts(self, connection: Connection) -> ClearCopies:
        """What there is."""
        ((copies, vectors, orphans, version),) = _rows(connection, "clear_counts")
        return ClearCopies(copies, vectors, orphans, version or "", self.is_wanted)

    def is_behind(self, connection: Connection, name: str) -> bool:
        """Whether vectors of a model are to be copied."""
        return bool(_rows(connection, "clear_is_behind", name=name))

    def copy(
        self,
        connection: Connection,
        model_id: int,
        opened: Callable[[Sequence[Row]], list[StoredVector]],
    ) -> bool:
        """Copy the vectors of a model that come next; False: nobody wants them any more.

        Whoever calls has the model's row locked, so they are copied in the order of their places.
        """
        progress = _rows(connection, "clear_progress", model_id=model_id)
        if not progress:
            return False
        ((after, is_filled),) = progress
        rows = _rows(connection, "clear_next", model_id=model_id, after=after, limit=COPIED_LIMIT)
        for (tenant_id, _, _, _, _, key_id, *_), stored in zip(
            rows, opened([row[1:] for row in rows]), strict=True
        ):
            self._add(connection, model_id, tenant_id, key_id, stored)
        last = rows[-1][2] if rows else after
        is_filled = is_filled or len(rows) < COPIED_LIMIT
        _run(connection, "clear_progress_put", model_id=model_id, place=last, filled=int(is_filled))
        return True

    def _add(
        self,
        connection: Connection,
        model_id: int,
        tenant_id: int,
        key_id: str | None,
        stored: StoredVector,
    ) -> None:
        from memoranda.retrieval.vectors import decode

        second = stored.context_data if stored.context_id >= 0 else None
        if (
            not stored.version_id
            or not stored.data
            or (second is not None and len(second) != len(stored.data))
        ):
            return
        scale, own = decode(stored.data)
        second_scale, beside = (None, None) if second is None else decode(second)
        _run(
            connection,
            "clear_add",
            tenant_id=tenant_id,
            model_id=model_id,
            place=stored.position,
            version_id=stored.version_id,
            context_id=stored.context_id,
            key_id=key_id,
            size=len(own),
            scale=scale,
            own=reals(own),
            second_scale=second_scale,
            second=None if beside is None else reals(beside),
        )

    def drop(self, connection: Connection, model_id: int) -> None:
        """Forget how far a model came that is not used any more; its vectors went with those they were copies of."""
        _run(connection, "clear_progress_drop", model_id=model_id)

    def matrix(
        self, connection: Connection, tenant_id: int, model_id: int, known: VectorPositions
    ) -> ClearMatrix:
        """The vectors of a tenant, for one question."""
        whose = {"tenant_id": tenant_id, "model_id": model_id, "size": known.dimensions}
        return ClearMatrix(
            known, lambda query, params: connection.query(query, {**whose, **params})
        )


def _rows(connection: Connection, query: str, **params: Any) -> list[Row]:
    return connection.query(query, params)


def _run(connection: Connection, query: str, **params: Any) -> None:
    connection.execute(query, params)


class ClearMatrix:
    """As a `Matrix`, but that the database compares."""

    def __init__(
        self, known: VectorPositions, ask: Callable[[str, dict[str, Any]], list[Row]]
    ) -> None:
        self._known, self._ask = known, ask
        self.lookup, self.context_versions, self.standalone_share = (
            known.lookup,
            known.context_versions,
            known.standalone_share,
        )

    def nearest(self, question: Floats, several: Sequence[VectorRows]) -> list[VectorRows]:
        """Of many those that are worth to be looked at: the nearest, by themselves."""
        import numpy as np

        from memoranda.retrieval.vectors import NEAREST_BY_SIGNS, VectorRows

        is_asked = np.zeros(len(self._known), np.bool_)
        for each in several:
            is_asked[each.vector_rows] = True
        # So many that enough are left without those that are not to be seen.
        limit = NEAREST_BY_SIGNS + len(is_asked) - int(np.count_nonzero(is_asked))
        ((packed,),) = self._ask(
            "clear_nearest", {**_in_parts("question", question), "limit": limit}
        )
        rows, _ = self._rows_of(read_whole_numbers(packed), len(is_asked))
        is_near = np.zeros(len(is_asked), np.bool_)
        is_near[rows[is_asked[rows]][:NEAREST_BY_SIGNS]] = True
        found = []
        for each in several:
            near = is_near[each.vector_rows].nonzero()[0]
            found.append(
                VectorRows(each.rows.take(near), each.vector_rows.take(near), is_contiguous=False)
            )
        return found

    def cosines(
        self,
        questions: Floats,
        rows: RowNumbers,
        in_context: Flags,
        second: Floats | None = None,
        share: float = 1.0,
    ) -> tuple[Floats, Floats]:
        """As of a `Matrix`."""
        import numpy as np

        from memoranda.retrieval.vectors import blend_second_model

        size = len(self._known)
        other = questions if second is None or second.shape != questions.shape else second
        asked: dict[str, Any] = {}
        for name, each in zip(
            ("question", "typical", "other", "other_typical"), (*questions, *other), strict=True
        ):
            asked |= _in_parts(name, each)
        if len(rows) * 2 < size:
            places = whole_numbers(np.sort(self._known.positions_of(rows)))
            ((packed, *columns),) = self._ask("clear_cosines_of", {**asked, "places": places})
        else:
            ((packed, *columns),) = self._ask("clear_cosines", asked)
        at, is_known = self._rows_of(read_whole_numbers(packed), size)
        # What another process has erased meanwhile is near to nothing.
        found = np.zeros((len(columns), size), np.float32)
        for column, values in zip(found, columns, strict=True):
            column[at] = read_reals(values)[is_known]
        own, beside = found[:2, rows], found[2:, rows]
        if second is not None:
            alone = self._known.is_standalone(rows).nonzero()[0]
            own[:, alone] = blend_second_model(own[:, alone], beside[:, alone], share)
        return own, np.where(in_context, beside, own)

    def _rows_of(self, places: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], Flags]:
        """The rows of what is at some places, and which of these are known: a snapshot may be newer than they are."""
        import numpy as np

        known = self._known.positions_of(np.arange(size, dtype=np.int32))
        at = known.searchsorted(places)
        is_known: Flags = known.take(at, mode="clip") == places
        return at[is_known], is_known


def _in_parts(name: str, question: Floats) -> dict[str, Any]:
    """A question as two vectors of half floats, which are it when they are added."""
    import numpy as np

    half = question.astype(np.float16).astype(np.float32)
    return {name: reals(half), f"{name}_rest": reals(question - half)}


_BEGIN: Final = (
    f"SELECT set_config('memoranda.system', 'on', true), pg_advisory_xact_lock({MIGRATING})"
)
_IS_MADE: Final = "SELECT to_regclass('clear_progress') IS NOT NULL"
_IS_READ_ONLY: Final = "SELECT current_setting('transaction_read_only') = 'on'"
_OFFERED: Final = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
# Not where our tables are: one of them has the name of its type.
_MADE: Final = (
    "CREATE SCHEMA IF NOT EXISTS pgvector; CREATE EXTENSION IF NOT EXISTS vector SCHEMA pgvector; "
    "GRANT USAGE ON SCHEMA pgvector TO PUBLIC"
)
_WHERE: Final = """
SELECT n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""
# The first version that has it is 0.7.
_HAS_HALVES: Final = "SELECT to_regtype('halfvec') IS NOT NULL"
_WANTED: Final = (
    "INSERT INTO clear_progress (model_id, place, filled) VALUES (0, 0, 1) ON CONFLICT DO NOTHING"
)
# The first is the one that readers ask first: whoever has read it is waited for.
_EMPTY: Final = "TRUNCATE clear_progress, clear_vector"

_OR_NOT: Final = "or set vector_search to process"
_MISSING: Final = (
    "vector_search is pgvector, but this PostgreSQL has no pgvector: install 0.7 or later on its server "
    f"(on Debian, postgresql-NN-pgvector), {_OR_NOT}"
)
_FORBIDDEN: Final = (
    "vector_search is pgvector, and only a superuser may add that to this database: "
    f"let one call `{_MADE}`, {_OR_NOT}"
)
_OLD: Final = f"vector_search is pgvector, but the one in this database is older than 0.7: update it, {_OR_NOT}"


def clear_vectors(
    raw: psycopg.Connection[Row], *, is_wanted: bool, is_read_only: bool
) -> ClearVectors | None:
    """The vectors in clear of a database; made if they are wanted and nothing forbids it. None: there are none."""
    if is_wanted and not is_read_only:
        _add_extension(raw)
    where = raw.execute(_WHERE).fetchone()
    path = "" if where is None else _path(raw, where[0])
    if is_wanted and path:
        raw.execute(path)
    if is_wanted and not is_read_only:
        _make_tables(raw)
    if raw.execute(_IS_MADE).fetchone() != (True,):
        return None
    return ClearVectors(is_wanted=is_wanted, path=path)


def _path(raw: psycopg.Connection[Row], schema: str) -> str:
    """What lets a connection find the types and operators behind everything that it finds already."""
    (found,) = raw.execute("SELECT current_setting('search_path')").fetchone() or ("",)
    quoted = schema.replace('"', '""')
    return f'SET search_path = {found}, "{quoted}"'


def _add_extension(raw: psycopg.Connection[Row]) -> None:
    if raw.execute(_WHERE).fetchone() is not None:
        return
    if raw.execute(_OFFERED).fetchone() is None:
        raise StoreUnavailable(_MISSING)
    try:
        with raw.transaction():
            raw.execute(_BEGIN)
            raw.execute(_MADE)
    except errors.InsufficientPrivilege as error:
        raise StoreUnavailable(_FORBIDDEN) from error


def _make_tables(raw: psycopg.Connection[Row]) -> None:
    if raw.execute(_HAS_HALVES).fetchone() != (True,):
        raise StoreUnavailable(_OLD)
    with raw.transaction():
        raw.execute(_BEGIN)
        if raw.execute(_IS_MADE).fetchone() != (True,):
            for _, sql in load_migrations("pgvector"):
                raw.execute(sql)
        raw.execute(_WANTED)


def switch_off(address: str) -> bool:
    """Remove the vectors in clear of a store, if it has any and can be written; whether it had."""
    with postgres_errors(), closing(open_connection(address).raw) as raw:
        if raw.execute(_IS_MADE).fetchone() != (True,) or raw.execute(_IS_READ_ONLY).fetchone() == (
            True,
        ):
            return False
        with raw.transaction():
            raw.execute(_BEGIN)
            (is_wanted,) = raw.execute("SELECT count(*) > 0 FROM clear_progress").fetchone() or (
                False,
            )
            if is_wanted:
                raw.execute(_EMPTY)
        return bool(is_wanted)
