"""The rows by which versions are found, compared with what their documents say: state, fields, names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from memoranda.model.memory import DocumentReading, Version
from memoranda.storage.engine.database import Connection, Database
from memoranda.storage.engine.snapshot import SqlSnapshot, as_json
from memoranda.storage.engine.unit import facets_of

_CHUNK: Final = 500
_END: Final = 1 << 62


class Checking(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one tenant, against its documents."""

    database: Database
    tenant: str
    # A snapshot of the tenant on a connection.
    snapshot: Callable[[Connection], SqlSnapshot]
    # None of what cannot be read any more.
    tells: Callable[[Version], DocumentReading | None]

    def problems(self) -> list[str]:
        """What is not as the documents say; nothing if all is well."""
        wrong: dict[str, int] = defaultdict(int)
        after = 0
        while True:
            with self.database.open_snapshot(self.tenant) as connection:
                snapshot = self.snapshot(connection)
                asked = {"tenant_id": snapshot.tenant_id, "first": after + 1, "end": _END}
                ids = [
                    row[0]
                    for row in connection.query("index_rows_some", {**asked, "limit": _CHUNK})
                ]
                if not ids:
                    wrong["rows of erased versions"] += self._orphans(
                        connection, snapshot.tenant_id
                    )
                    return [
                        f"{count} {what} are not what the documents say"
                        for what, count in wrong.items()
                        if count
                    ]
                for what in self._differing(connection, snapshot, ids):
                    wrong[what] += 1
            after = ids[-1]

    def _orphans(self, connection: Connection, tenant_id: int) -> int:
        ((count,),) = connection.query("index_orphans", {"tenant_id": tenant_id})
        return int(count)

    def _differing(
        self, connection: Connection, snapshot: SqlSnapshot, ids: Sequence[int]
    ) -> Iterator[str]:
        said = {
            each.version_id: found
            for each in snapshot.load_versions(ids)
            if (found := self.tells(each)) is not None
        }
        asked = {"tenant_id": snapshot.tenant_id, "version_ids": as_json(list(said))}
        states = {row[0]: row[1:] for row in connection.query("index_state", asked)}
        facets = _grouped(connection.query("index_facets", asked))
        measures = _grouped(connection.query("index_measures", asked))
        names = {(standard, name) for each in said.values() for standard, name in each.names}
        known = set(connection.query("index_names", {**asked, "names": as_json(sorted(names))}))
        for version_id, each in said.items():
            if self._columns(snapshot, each) != states[version_id]:
                yield "state rows"
            if set(self._facets(snapshot, each)) != facets[version_id]:
                yield "field texts"
            if {
                (snapshot.field_name(name), number) for name, number in each.field_index.numbers
            } != measures[version_id]:
                yield "field numbers"
            if not set(each.names) <= known:
                yield "names"

    def _columns(self, snapshot: SqlSnapshot, said: DocumentReading) -> tuple[object, ...]:
        """Of the state row, what the query `index_state` asks for."""
        projection, fields, key = said.projection, said.field_index, snapshot.value_key
        scope = projection.scope
        return (
            *(
                scope.space,
                projection.kind,
                scope.visibility,
                key(scope.user),
                key(scope.agent),
                key(scope.session),
            ),
            *(key(projection.sameness), int(projection.exportable), int(projection.redacted)),
            *(fields.address, fields.form, fields.at, fields.confidence, fields.importance),
            *(key(fields.subject), key(fields.relation), key(fields.object)),
        )

    def _facets(self, snapshot: SqlSnapshot, said: DocumentReading) -> Iterator[tuple[str, bytes]]:
        for name, text in (*facets_of(said.projection), *said.field_index.texts):
            if (key := snapshot.value_key(text)) is not None:
                yield snapshot.field_name(name), key


def _grouped(rows: list[tuple[Any, ...]]) -> dict[int, set[tuple[Any, ...]]]:
    found: dict[int, set[tuple[Any, ...]]] = defaultdict(set)
    for version_id, *rest in rows:
        found[version_id].add(tuple(rest))
    return found
