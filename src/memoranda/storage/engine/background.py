"""The service's own documents of a tenant: items, runs with their logs and writes, and commitments.

The store does not read these documents. Only what they are searched by has a column of its own.

An *item* is a small document of the service that is found by kind and name: rules, schedules, proposals, actions. A
*run* is an execution of an openwop agent with its log of events and the versions that it wrote. A *commitment* is an
openwop promise to do something at a time or on an event. `BackgroundReads` is a base of the snapshot and
`BackgroundWrites` of the unit of work, which keeps both files at a readable size. Contracts of the public methods are
in `contract.py`. The sizes of items, runs and events count for the quota of bytes, those of commitments do not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from memoranda.model.instant import Instant
from memoranda.storage.crypto.fingerprints import Fingerprints
from memoranda.storage.engine.contract import RunPosition, RunView, WaitingCommitment
from memoranda.storage.engine.database import Connection, Row
from memoranda.storage.engine.selection import FOREVER_MS


class BackgroundReads:
    """Reads of items, runs and commitments, and of the change feed from a position on. A base of `SqlSnapshot`."""

    _connection: Connection
    _tenant_id: int
    _fingerprints: Fingerprints

    def _rows(self, query: str, /, **params: object) -> list[Row]:
        params["tenant_id"] = self._tenant_id
        return self._connection.query(query, params)

    def load_items(self, kind: str) -> dict[str, bytes]:
        return dict(self._rows("items_get", kind=kind))

    def list_items(self, *, offset: int, limit: int) -> list[tuple[str, str, bytes]]:
        rows = self._rows("items_page", offset=offset, limit=limit)
        return [(kind, name, bytes(value)) for kind, name, value in rows]

    def load_item(self, kind: str, name: str) -> bytes | None:
        return _only_value(self._rows("item_get", kind=kind, name=name))

    def load_run(self, run_id: str) -> bytes | None:
        return _only_value(self._rows("run_get", run_id=run_id))

    def list_runs(self, *, before: RunPosition | None, limit: int) -> list[bytes]:
        at, run_id = before or (FOREVER_MS, "")
        return [
            document
            for (document,) in self._rows(
                "runs_before", before_ms=at, before_run=run_id, limit=limit
            )
        ]

    def list_run_events(self, run_id: str, *, after: int, limit: int) -> list[bytes]:
        return [
            event for (event,) in self._rows("run_events", run_id=run_id, after=after, limit=limit)
        ]

    def list_runs_after(
        self, after: RunPosition, *, before: Instant, limit: int
    ) -> list[RunPosition]:
        after_ms, after_run = after
        rows = self._rows(
            "runs_after", after_ms=after_ms, after_run=after_run, before_ms=before, limit=limit
        )
        return [(Instant(started_at), run_id) for started_at, run_id in rows]

    def list_run_events_after(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return [
            (number, event)
            for number, event in self._rows("run_events_after", after=after, limit=limit)
        ]

    def find_last_run_event(self) -> int:
        rows = self._rows("run_event_last")
        return int(rows[0][0]) if rows else 0

    def count_run_events(self, run_id: str) -> int:
        ((count,),) = self._rows("run_event_count", run_id=run_id)
        return int(count)

    def list_run_writes(self, run_id: str) -> frozenset[int]:
        return frozenset(version_id for (version_id,) in self._rows("run_writes", run_id=run_id))

    def has_lost_writes(self, run_id: str) -> bool:
        return bool(self._rows("run_lost_writes", run_id=run_id))

    def list_ended_since(self, view: RunView, space: str) -> list[tuple[int, Instant]]:
        """Return the memories of a space that ended while a run sees them.

        A run reads the store as of its start. Memories that ended after that (`after`: the last change that it knew)
        are still visible to it; `version_seq` is the last version that it may see.
        """
        rows = self._rows(
            "ended_since",
            run_id=view.run_id,
            after=view.change_seq,
            version_seq=view.version_seq,
            at_ms=view.started,
            **self._space_params(space),
            forever_ms=FOREVER_MS,
        )
        return [(version_id, Instant(updated)) for version_id, updated in rows]

    def list_changed_memories(self, after: int) -> frozenset[int]:
        return frozenset(memory_id for (memory_id,) in self._rows("changed_memories", after=after))

    def list_changed_in_space(self, space: str, after: int) -> list[int]:
        rows = self._rows("changed_in_space", after=after, **self._space_params(space))
        return [version_id for (version_id,) in rows]

    def _space_params(self, space: str) -> dict[str, str]:
        """Return the name of a space as it is, and as erased versions have it."""
        sealed_space = self._fingerprints.names.seal_space(self._tenant_id, space)
        return {"space": space, "sealed_space": sealed_space}

    def load_commitment(self, commitment_id: str) -> bytes | None:
        return _only_value(self._rows("commitment_get", commitment_id=commitment_id))

    def list_commitments(self, space: str | None = None) -> list[bytes]:
        if space is None:
            return [document for (document,) in self._rows("commitments")]
        return [document for (document,) in self._rows("commitments_in_space", space=space)]

    def list_due_commitments(self, now: Instant, limit: int) -> list[bytes]:
        return [document for (document,) in self._rows("commitments_due", now_ms=now, limit=limit)]

    def list_waiting_commitments(
        self, now: Instant, *, fresh_only: bool
    ) -> list[WaitingCommitment]:
        rows = self._rows("commitments_waiting", now_ms=now, fresh_only=int(fresh_only))
        return [WaitingCommitment(document, space, bool(fresh)) for document, space, fresh in rows]

    def has_closed_commitments(self, before: Instant) -> bool:
        return bool(self._rows("commitments_over", before_ms=before))


class BackgroundWrites(BackgroundReads):
    """Writes of items, runs and commitments, whose bytes count for the tenant's quota. A base of `SqlUnit`."""

    _byte_count: int

    def _run(self, query: str, /, **params: object) -> None:
        params["tenant_id"] = self._tenant_id
        self._connection.execute(query, params)

    def _run_many(self, query: str, params: Sequence[Mapping[str, object]]) -> None:
        self._connection.execute_many(
            query, [{**row, "tenant_id": self._tenant_id} for row in params]
        )

    def _count_bytes(self, sign: int, query: str, /, **params: object) -> None:
        """Add (sign 1) or subtract (-1) the sizes that a query returns to or from the bytes of the tenant."""
        self._byte_count += sign * sum(size for (size,) in self._rows(query, **params))

    def delete_item(self, kind: str, name: str) -> None:
        self._count_bytes(-1, "item_delete", kind=kind, name=name)

    def put_item(self, kind: str, name: str, value: bytes) -> None:
        self._count_bytes(-1, "item_size", kind=kind, name=name)
        self._byte_count += len(value)
        self._run("item_put", kind=kind, name=name, value=value)

    def put_run(self, run_id: str, document: bytes, *, started: Instant) -> None:
        self._count_bytes(-1, "run_size", run_id=run_id)
        self._byte_count += len(document)
        self._run("run_put", run_id=run_id, document=document, started_ms=started)

    def add_run_events(self, run_id: str, first: int, events: Sequence[bytes]) -> None:
        self._byte_count += sum(map(len, events))
        numbered = enumerate(events, first)
        self._run_many(
            "run_event_add",
            [{"run_id": run_id, "sequence": n, "event": event} for n, event in numbered],
        )

    def delete_runs(self, run_ids: Collection[str]) -> None:
        """Delete runs with their events and the list of their writes.

        The next event gets the position after the last stored one, so the run with the newest event is kept, even if it
        is due for deletion.
        """
        # The run of the last event stays: the positions of later events continue from it.
        last = {run_id for _, run_id in self._rows("run_event_last")}
        deleted = [run_id for run_id in run_ids if run_id not in last]
        self._run_many("run_writes_delete", [{"run_id": run_id} for run_id in deleted])
        for run_id in deleted:
            self._count_bytes(-1, "run_events_delete", run_id=run_id)
            self._count_bytes(-1, "run_delete", run_id=run_id)

    def add_run_write(self, run_id: str, version_id: int) -> None:
        self._run("run_write_add", run_id=run_id, version_id=version_id)

    def copy_run_writes(self, run_id: str, to_run: str) -> None:
        self._run("run_writes_copy", run_id=run_id, to_run=to_run)

    def put_commitment(
        self,
        commitment_id: str,
        document: bytes,
        *,
        space: str,
        due: Instant | None,
        is_waiting: bool,
        is_fresh: bool,
        over: Instant | None,
    ) -> None:
        self._run(
            "commitment_put",
            commitment_id=commitment_id,
            document=document,
            space=space,
            due_ms=due,
            waiting=int(is_waiting),
            fresh=int(is_fresh),
            over_ms=over,
        )

    def mark_commitments_checked(self, commitments: Sequence[tuple[str, bytes]]) -> None:
        rows = [{"commitment_id": name, "document": document} for name, document in commitments]
        self._run_many("commitment_looked_at", rows)

    def prune_commitments(self, before: Instant, limit: int) -> None:
        self._run("commitments_prune", before_ms=before, limit=limit)


def _only_value(rows: list[Row]) -> bytes | None:
    """Return the one value of a query with at most one row."""
    return bytes(rows[0][0]) if rows else None
