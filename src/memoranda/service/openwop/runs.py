"""Runs and their event logs (openwop): append-only, read as JSON or as a stream, and copied by forks and replays.

Memoranda executes no workflows. A host begins and ends its own runs. For each operation that Memoranda does in the
background (compaction, distillation, consolidation, commitments, proposals) it writes a run of its own, so that the
operation has a log.

A run records three positions when it begins: of the change feed, of the versions, and of the workspace. Together they
define its view of the store (`Run.view`), which later writes of others do not change.

A run is a document with a log of events; both are written in one unit, and the log only grows. Old runs are deleted
after the retention period (`keep_retention`), apart from the newest event, whose position must not be given out again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memoranda.encoding import json_text
from memoranda.encoding.bases import base32_encode
from memoranda.errors import Conflict, NotFound, Unsupported
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.standards.openwop import events
from memoranda.standards.openwop.events import Event
from memoranda.standards.openwop.runs import (
    ENGINE_VERSION,
    EVENT_LOG_SCHEMA_VERSION,
    ForkRequest,
    build_snapshot_error,
)
from memoranda.storage.engine.contract import RunPosition, RunView, Snapshot, Unit

# Events per page.
EVENTS_LIMIT: Final = 1_000
# Runs that one unit of work deletes: few, because all other writers wait.
PURGE_LIMIT: Final = 100
# Items of this kind: the record by which a compaction or a consolidation is undone, by the id of its run.
UNDO_RECORDS: Final = "openwop consolidation"
TERMINAL: Final = frozenset(("completed", "failed", "cancelled"))
# The prefix of the workflow ids of our own runs.
HOST_WORKFLOW: Final = "memoranda."
# The item that counts the changes of the workspace.
WORKSPACE_CHANGES: Final = "workspace changes"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run, with the positions in the store that define its view."""

    run_id: str
    workflow_id: str
    tenant: str
    started: Instant
    # The position of the change feed at the start: later changes are not in the view.
    change_seq: int
    # The last version at the start: of later versions, the run sees only its own.
    version_seq: int
    # The last change of the workspace at the start: the run sees no later one, not even its own (RFC 0059 §D).
    workspace_seq: int = 0
    status: str = "running"
    variables: Mapping[str, Any] = msgspec.field(default_factory=dict)
    agent: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
    source_run_id: str | None = None
    # Keyed digests of the secrets that the run resolved.
    secrets: tuple[str, ...] = ()
    # A replay repeats a log; nothing new can be written in it.
    is_replay: bool = False
    # An opaque id of the credential that started the run, and its kind; empty for runs that start by themselves.
    principal: str = ""
    principal_kind: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The key of the run's secrets in the vault."""
        return self.tenant, self.run_id

    @property
    def cursor(self) -> RunPosition:
        """The position of the run in a list of runs."""
        return self.started, self.run_id

    @property
    def view(self) -> RunView:
        """The part of the store that the run sees."""
        return RunView(
            run_id=self.run_id,
            started=self.started,
            change_seq=self.change_seq,
            version_seq=self.version_seq,
        )

    @property
    def owner(self) -> dict[str, str]:
        """The tenant of the run, and who started it (RFC 0048)."""
        if not self.principal:
            return {"tenant": self.tenant}
        return {
            "tenant": self.tenant,
            "principal": self.principal,
            "principalKind": self.principal_kind,
        }

    def snapshot(self) -> dict[str, Any]:
        """Return the public snapshot of the run (RunSnapshot)."""
        document: dict[str, Any] = {
            "runId": self.run_id,
            "workflowId": self.workflow_id,
            "status": self.status,
            "variables": dict(self.variables),
            "owner": self.owner,
            "startedAt": format_instant(self.started),
            "engineVersion": ENGINE_VERSION,
            "eventLogSchemaVersion": EVENT_LOG_SCHEMA_VERSION,
        }
        optional = {"agent": self.agent, "error": self.error, "sourceRunId": self.source_run_id}
        document |= {name: value for name, value in optional.items() if value is not None}
        if self.tags:
            document["tags"] = list(self.tags)
        return document

    def document(self) -> dict[str, Any]:
        """Return the run for its own host: the snapshot, its metadata, and whether it is a replay."""
        return {**self.snapshot(), "metadata": dict(self.metadata), "isReplay": self.is_replay}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Run:
        """Return the run of a document; the positions and the digests, which only the store has, are empty."""
        return cls(
            run_id=document["runId"],
            workflow_id=document["workflowId"],
            tenant=document["owner"]["tenant"],
            principal=document["owner"].get("principal", ""),
            principal_kind=document["owner"].get("principalKind", ""),
            started=parse_instant(document["startedAt"]),
            change_seq=0,
            version_seq=0,
            status=document["status"],
            variables=document["variables"],
            agent=document.get("agent"),
            error=document.get("error"),
            tags=tuple(document.get("tags", ())),
            metadata=document["metadata"],
            source_run_id=document.get("sourceRunId"),
            is_replay=document["isReplay"],
        )

    def encode(self) -> bytes:
        """Return the run as the store keeps it."""
        fields = {name: getattr(self, name) for name in Run.__struct_fields__}
        fields["variables"] = dict(self.variables)
        fields["metadata"] = dict(self.metadata)
        return json_text.dump(fields)


def decode_run(data: bytes) -> Run:
    """Return the run that `Run.encode` encoded."""
    fields = json_text.parse(data)
    fields["tags"], fields["secrets"] = tuple(fields["tags"]), tuple(fields["secrets"])
    return Run(**fields)


def new_run_id() -> str:
    """Return a random run id."""
    return f"run_{base32_encode(secrets.token_bytes(15))}"


def begin(
    unit: Unit,
    *,
    workflow_id: str,
    now: Instant,
    run_id: str | None = None,
    agent: Mapping[str, object] | None = None,
    tags: tuple[str, ...] = (),
    metadata: Mapping[str, object] | None = None,
    access: Access | None = None,
) -> Run:
    """Start a run in a unit of work; its view is the store as it is now. Raises Conflict if the id is in use.

    `access` is the caller that started it.
    """
    if run_id is not None and unit.load_run(run_id) is not None:
        raise Conflict("there is a run of this id already")
    run = _build_run(
        unit,
        run_id or new_run_id(),
        workflow_id,
        now,
        agent=agent,
        tags=tags,
        metadata=metadata or {},
        **_principal_fields(access),
    )
    unit.put_run(run.run_id, run.encode(), started=now)
    emit(unit, run.run_id, "run.started", _started_payload(run), now=now)
    return run


def emit(
    unit: Unit,
    run_id: str,
    type: str,  # noqa: A002
    payload: Mapping[str, object],
    *,
    now: Instant,
    node_id: str | None = None,
) -> Event:
    """Append an event to a run's log and return it."""
    event = events.build_event(
        type, payload, run_id, unit.count_run_events(run_id), now, node_id=node_id
    )
    unit.add_run_events(run_id, event["sequence"], [events.encode(event)])
    return event


def finish(
    unit: Unit,
    run: Run,
    *,
    now: Instant,
    status: str = "completed",
    variables: Mapping[str, object] | None = None,
    error: Mapping[str, object] | None = None,
) -> Run:
    """End a run in a unit of work: log its status, store its variables and error, and forget its digests."""
    ended_run = replace(
        run,
        status=status,
        secrets=(),
        variables=run.variables if variables is None else variables,
        error=error,
    )
    emit(
        unit,
        run.run_id,
        f"run.{status}",
        {} if error is None else {"code": str(error.get("code", ""))},
        now=now,
    )
    unit.put_run(run.run_id, ended_run.encode(), started=run.started)
    return ended_run


def host_run(
    unit: Unit,
    act: str,
    now: Instant,
    *facts: tuple[str, Mapping[str, object]],
    run_id: str | None = None,
    access: Access | None = None,
) -> tuple[Run, list[Event]]:
    """Write a complete run of our own: its start, the given facts, and its end. Return it with the events of the facts.

    A fact is the type and the payload of an event.
    """
    workflow_id = HOST_WORKFLOW + act
    principal = _principal_fields(access)
    run = _build_run(
        unit, run_id or new_run_id(), workflow_id, now, status="completed", **principal
    )
    entries: list[tuple[str, Mapping[str, object]]] = [
        ("run.started", _started_payload(run)),
        *facts,
        ("run.completed", {}),
    ]
    logged = [
        events.build_event(event_type, payload, run.run_id, sequence, now)
        for sequence, (event_type, payload) in enumerate(entries)
    ]
    unit.put_run(run.run_id, run.encode(), started=now)
    unit.add_run_events(run.run_id, 0, [events.encode(event) for event in logged])
    return run, logged[1:-1]


def _started_payload(run: Run) -> dict[str, object]:
    """Return the payload of `run.started`, which repeats the owner of the snapshot (RFC 0048 §C)."""
    owner = {"owner": run.owner} if run.principal else {}
    return {"workflowId": run.workflow_id, **owner}


def _principal_fields(access: Access | None) -> dict[str, str]:
    """Return who started a run: an opaque id of the credential, never a name or a DID."""
    if access is None:
        return {}
    kind = "user" if access.actor_kind == "user" else "agent"
    if access.key_id:
        return {"principal": f"key-{access.key_id}", "principal_kind": kind}
    if access.credential == "local":
        return {"principal": "local", "principal_kind": kind}
    if not access.credential.startswith("token:"):
        # Background work of this host.
        return {}
    digest = hashlib.sha256(access.actor.encode("utf-8", "surrogatepass")).digest()
    return {"principal": f"token-{base32_encode(digest)[:26]}", "principal_kind": kind}


def _build_run(unit: Unit, run_id: str, workflow_id: str, now: Instant, **fields: Any) -> Run:
    """Return a run whose view is the store as it is now."""
    return Run(
        run_id=run_id,
        workflow_id=workflow_id,
        tenant=unit.tenant,
        started=now,
        change_seq=unit.find_last_change(),
        version_seq=unit.find_last_version(),
        workspace_seq=int(unit.load_item(WORKSPACE_CHANGES, "") or b"0"),
        **fields,
    )


def load(snapshot: Snapshot, run_id: str) -> Run:
    """Return a run of the snapshot's tenant. Raises NotFound."""
    data = snapshot.load_run(run_id)
    if data is None:
        raise NotFound(f"no run {run_id[:128]!a}")
    return decode_run(data)


def load_open(snapshot: Snapshot, run_id: str) -> Run:
    """Return a run that has not ended. Raises NotFound, or Conflict for a replay and for a run that has ended."""
    run = load(snapshot, run_id)
    if run.is_replay:
        raise Conflict(
            "the run is a replay: it repeats a log, and nothing new can be written in it"
        )
    if run.status in TERMINAL:
        raise Conflict(f"the run is {run.status}")
    return run


def load_writing(context: Context, unit: Unit, run_id: str) -> Run:
    """Return an open run of which this process knows every secret (SR-1), so that it may write. Raises Conflict."""
    run = load_open(unit, run_id)
    context.secrets.require(run.key, run.secrets)
    return run


def add_secret(unit: Unit, run_id: str, digest: str) -> None:
    """Add the keyed digest of a secret to the run that resolved it; the secret itself is never stored."""
    run = load_open(unit, run_id)
    if digest not in run.secrets:
        changed_run = replace(run, secrets=(*run.secrets, digest))
        unit.put_run(run_id, changed_run.encode(), started=run.started)


def get(context: Context, access: Access, run_id: str) -> Run:
    """Return one run of the caller's tenant. Raises NotFound."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        return load(snapshot, run_id)


def read_events(
    context: Context, access: Access, run_id: str, *, after: int = -1
) -> tuple[list[Event], bool]:
    """Return a page of a run's events after a sequence number, and True if these are its last events."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        run = load(snapshot, run_id)
        page = [
            json_text.parse(event)
            for event in snapshot.list_run_events(run_id, after=after, limit=EVENTS_LIMIT)
        ]
    return page, run.status in TERMINAL and len(page) < EVENTS_LIMIT


def read_all_events(
    context: Context, access: Access, *, after: int | None = None
) -> tuple[list[tuple[int, Event]], int]:
    """Return a page of the events of all runs after a position, each with its own, and the position of the last event.

    Without `after` the page is empty: the caller follows the log from now on.
    """
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        end = snapshot.find_last_run_event()
        page = snapshot.list_run_events_after(end if after is None else after, EVENTS_LIMIT)
    return [(position, json_text.parse(event)) for position, event in page], end


def keep_retention(context: Context) -> int:
    """Delete the runs of every tenant that are past their retention period, with their logs. Return their number."""
    if context.run_retention_ms is None:
        return 0
    before, count = Instant(context.retention_now() - context.run_retention_ms), 0
    for tenant in context.engine.system.list_tenants():
        cursor: RunPosition = (Instant(0), "")
        while page := _expired_runs(context, tenant, cursor, before):
            cursor = page[-1]
            ids = [run_id for _, run_id in page]
            context.engine.write(tenant, partial(_delete_runs, ids))
            count += len(ids)
    return count


def _expired_runs(
    context: Context, tenant: str, cursor: RunPosition, before: Instant
) -> list[RunPosition]:
    """Return the next page of runs that began before an instant."""
    with context.engine.open_snapshot(tenant) as snapshot:
        return snapshot.list_runs_after(cursor, before=before, limit=PURGE_LIMIT)


def _delete_runs(run_ids: Sequence[str], unit: Unit) -> None:
    unit.delete_runs(run_ids)
    for run_id in run_ids:
        # An undo names its run, so nothing could use the record without it.
        unit.delete_item(UNDO_RECORDS, run_id)


def fork(context: Context, access: Access, run_id: str, *, mode: str, from_seq: int) -> Run:
    """Copy a run with its log: "replay" from a sequence number on, "branch" up to it.

    A replay repeats the log and can write nothing new. A branch is a running run that sees the store as it is now.
    """
    now = context.clock()
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        source = load(snapshot, run_id)
        _check_forkable(snapshot, source, mode, from_seq)
        if mode == "branch" and source.workflow_id.startswith(HOST_WORKFLOW):
            raise Unsupported(
                "a branch of this run would never end: it was over when it was answered; use the mode replay"
            )
        run = replace(source, run_id=new_run_id(), source_run_id=run_id, is_replay=mode == "replay")
        logged = [
            events.encode(events.copy_for_replay(event, run.run_id, sequence))
            for sequence, event in enumerate(_read_log(snapshot, run_id, mode, from_seq))
        ]

    def work(unit: Unit) -> Run:
        # The log read above is still valid, as logs only grow; but writes of the run may have been erased meanwhile.
        _check_forkable(unit, source, mode, from_seq)
        unit.add_run_events(run.run_id, 0, logged)
        copy = run
        if mode == "branch":
            fresh = _build_run(unit, run.run_id, run.workflow_id, now)
            copy = replace(run, **{name: getattr(fresh, name) for name in _OWN_FIELDS})
        else:
            unit.copy_run_writes(run_id, run.run_id)
        unit.put_run(copy.run_id, copy.encode(), started=now)
        context.quotas_of(unit).check_bytes(unit)
        return copy

    return context.engine.write(access.default_tenant, work)


# Fields that a branch does not copy from its source.
_OWN_FIELDS: Final = (
    "status",
    "started",
    "change_seq",
    "version_seq",
    "workspace_seq",
    "variables",
    "error",
)


def _check_forkable(snapshot: Snapshot, source: Run, mode: str, from_seq: int) -> None:
    """Raise an error if the log does not reach the sequence number, or if writes of the run were erased (MAE-3)."""
    count = snapshot.count_run_events(source.run_id)
    ForkRequest.parse({"mode": mode, "fromSeq": from_seq}).check_bounds(count)
    if count == 0:
        raise build_snapshot_error(source.run_id, from_seq, "event_log_unavailable")
    if snapshot.has_lost_writes(source.run_id):
        raise build_snapshot_error(source.run_id, from_seq, "retention_expired")


def _read_log(snapshot: Snapshot, run_id: str, mode: str, from_seq: int) -> list[Event]:
    """Return the events that a fork copies."""
    log: list[Event] = []
    after = from_seq - 1 if mode == "replay" else -1
    while page := snapshot.list_run_events(run_id, after=after, limit=EVENTS_LIMIT):
        parsed_events = [json_text.parse(event) for event in page]
        log += parsed_events
        after = parsed_events[-1]["sequence"]
    if mode == "replay":
        return log
    return [event for event in log if event["sequence"] < from_seq]
