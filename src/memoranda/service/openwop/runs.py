"""Runs and their logs (openwop): append-only facts, read as JSON or as a stream, replayed and never made anew.

Memoranda runs no workflows. A host's run is begun and ended by the host; what Memoranda does in the background
(compaction, distillation, consolidation, commitments, proposals) has a run of its own, so that it has a log.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memoranda.encoding import json_text
from memoranda.encoding.bases import base32_encode
from memoranda.errors import Conflict, NotFound
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.standards.openwop import events
from memoranda.standards.openwop.events import Event
from memoranda.standards.openwop.runs import ForkRequest, build_snapshot_error
from memoranda.storage.engine.contract import RunPosition, RunView, Snapshot, Unit

EVENTS_LIMIT: Final = 1_000
# What one unit of work deletes: few, so that others get their turn.
PURGE_LIMIT: Final = 100
# The items that tell how a pass is undone, by its run.
UNDO_RECORDS: Final = "openwop consolidation"
TERMINAL: Final = frozenset(("completed", "failed", "cancelled"))
HOST_WORKFLOW: Final = "memoranda."
# How often the workspace was changed: what a run sees of it is told by that.
WORKSPACE_CHANGES: Final = "workspace changes"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run: what its snapshot shows, and what it saw of the store when it began."""

    run_id: str
    workflow_id: str
    tenant: str
    started: Instant
    # The change feed's place when it began: what happened after it is not in its view.
    change_seq: int
    # The last version that was there when it began: of those written later it sees its own only.
    version_seq: int
    # The last change of the workspace before it began: it sees no later one, not even its own (RFC 0059 §D).
    workspace_seq: int = 0
    status: str = "running"
    variables: Mapping[str, Any] = msgspec.field(default_factory=dict)
    agent: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
    source_run_id: str | None = None
    # Keyed digests of the secrets that it resolved.
    secrets: tuple[str, ...] = ()
    # A replay repeats what is on record: nothing can be done in it.
    is_replay: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What its secrets are kept by."""
        return self.tenant, self.run_id

    @property
    def place(self) -> RunPosition:
        """Where it stands in a list of runs."""
        return self.started, self.run_id

    @property
    def view(self) -> RunView:
        """What it sees of the store."""
        return RunView(
            run_id=self.run_id,
            started=self.started,
            change_seq=self.change_seq,
            version_seq=self.version_seq,
        )

    def snapshot(self) -> dict[str, Any]:
        """The run as others see it."""
        shown: dict[str, Any] = {
            "runId": self.run_id,
            "workflowId": self.workflow_id,
            "status": self.status,
            "variables": dict(self.variables),
            "owner": {"tenant": self.tenant},
            "startedAt": format_instant(self.started),
        }
        optional = {"agent": self.agent, "error": self.error, "sourceRunId": self.source_run_id}
        shown |= {name: value for name, value in optional.items() if value is not None}
        if self.tags:
            shown["tags"] = list(self.tags)
        return shown

    def document(self) -> dict[str, Any]:
        """The run as its own host sees it: what was said of it when it began, its variables as they were given."""
        return {**self.snapshot(), "metadata": dict(self.metadata), "isReplay": self.is_replay}

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Run:
        """What such a document says. What the run saw of the store, and digests of its secrets, stay where that is."""
        return cls(
            run_id=said["runId"],
            workflow_id=said["workflowId"],
            tenant=said["owner"]["tenant"],
            started=parse_instant(said["startedAt"]),
            change_seq=0,
            version_seq=0,
            status=said["status"],
            variables=said["variables"],
            agent=said.get("agent"),
            error=said.get("error"),
            tags=tuple(said.get("tags", ())),
            metadata=said["metadata"],
            source_run_id=said.get("sourceRunId"),
            is_replay=said["isReplay"],
        )

    def encoded(self) -> bytes:
        kept = {name: getattr(self, name) for name in Run.__struct_fields__}
        return json_text.dump(
            {**kept, "variables": dict(self.variables), "metadata": dict(self.metadata)}
        )


def decode_run(data: bytes) -> Run:
    """A run as it was kept."""
    kept = json_text.parse(data)
    return Run(**{**kept, "tags": tuple(kept["tags"]), "secrets": tuple(kept["secrets"])})


def new_run_id() -> str:
    return f"run_{base32_encode(secrets.token_bytes(15))}"


def begin(
    unit: Unit,
    *,
    workflow_id: str,
    now: Instant,
    run_id: str | None = None,
    agent: Mapping[str, Any] | None = None,
    tags: tuple[str, ...] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Run:
    """Start a run in a unit of work: its view of the store is what is there now."""
    if run_id is not None and unit.load_run(run_id) is not None:
        raise Conflict("there is a run of this id already")
    run = _new(
        unit,
        run_id or new_run_id(),
        workflow_id,
        now,
        agent=agent,
        tags=tags,
        metadata=metadata or {},
    )
    unit.put_run(run.run_id, run.encoded(), started=now)
    emit(unit, run.run_id, "run.started", {"workflowId": workflow_id}, now=now)
    return run


def emit(
    unit: Unit,
    run_id: str,
    type: str,  # noqa: A002
    payload: dict[str, Any],
    *,
    now: Instant,
    node_id: str | None = None,
) -> Event:
    """Append an event to a run's log."""
    made = events.build_event(
        type, payload, run_id, unit.count_run_events(run_id), now, node_id=node_id
    )
    unit.add_run_events(run_id, made["sequence"], [events.encode(made)])
    return made


def finish(
    unit: Unit,
    run: Run,
    *,
    now: Instant,
    status: str = "completed",
    variables: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
) -> Run:
    """End a run."""
    done = replace(
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
    unit.put_run(run.run_id, done.encoded(), started=run.started)
    return done


def host_run(
    unit: Unit,
    act: str,
    now: Instant,
    *facts: tuple[str, dict[str, Any]],
    run_id: str | None = None,
) -> tuple[Run, list[Event]]:
    """A run of the host's own for something done in the background, whole: begun, its facts, ended."""
    workflow_id = HOST_WORKFLOW + act
    run = _new(unit, run_id or new_run_id(), workflow_id, now, status="completed")
    logged = [("run.started", {"workflowId": workflow_id}), *facts, ("run.completed", {})]
    made = [
        events.build_event(type_, payload, run.run_id, place, now)
        for place, (type_, payload) in enumerate(logged)
    ]
    unit.put_run(run.run_id, run.encoded(), started=now)
    unit.add_run_events(run.run_id, 0, [events.encode(each) for each in made])
    return run, made[1:-1]


def _new(unit: Unit, run_id: str, workflow_id: str, now: Instant, **about: Any) -> Run:
    """A run that sees what is there now."""
    return Run(
        run_id=run_id,
        workflow_id=workflow_id,
        tenant=unit.tenant,
        started=now,
        change_seq=unit.find_last_change(),
        version_seq=unit.find_last_version(),
        workspace_seq=int(unit.load_item(WORKSPACE_CHANGES, "") or b"0"),
        **about,
    )


def load(snapshot: Snapshot, run_id: str) -> Run:
    """A run of this tenant. Raises NotFound."""
    kept = snapshot.load_run(run_id)
    if kept is None:
        raise NotFound(f"no run {run_id[:128]!a}")
    return decode_run(kept)


def load_open(snapshot: Snapshot, run_id: str) -> Run:
    """A run that is not over yet. Raises Conflict: a log ends with the run."""
    run = load(snapshot, run_id)
    if run.is_replay:
        raise Conflict("the run is a replay: it repeats what is on record and does nothing anew")
    if run.status in TERMINAL:
        raise Conflict(f"the run is {run.status}")
    return run


def load_writing(context: Context, unit: Unit, run_id: str) -> Run:
    """A run that writes: open, and every secret that it resolved is known here (SR-1). Raises Conflict."""
    run = load_open(unit, run_id)
    context.secrets.require(run.key, run.secrets)
    return run


def add_secret(unit: Unit, run_id: str, digest: str) -> None:
    """Keep of a secret that a run resolved what tells it from others, and no more."""
    run = load_open(unit, run_id)
    if digest not in run.secrets:
        unit.put_run(
            run_id, replace(run, secrets=(*run.secrets, digest)).encoded(), started=run.started
        )


def get(context: Context, access: Access, run_id: str) -> Run:
    """One run of the caller's tenant."""
    with context.engine.read(access.default_tenant) as snapshot:
        return load(snapshot, run_id)


def read_events(
    context: Context, access: Access, run_id: str, *, after: int = -1
) -> tuple[list[Event], bool]:
    """The events of a run after a sequence, and whether there will be no more."""
    with context.engine.read(access.default_tenant) as snapshot:
        run = load(snapshot, run_id)
        found = [
            json_text.parse(event)
            for event in snapshot.list_run_events(run_id, after=after, limit=EVENTS_LIMIT)
        ]
    return found, run.status in TERMINAL and len(found) < EVENTS_LIMIT


def read_all_events(
    context: Context, access: Access, *, after: int | None = None
) -> tuple[list[tuple[int, Event]], int]:
    """The events of all runs of the tenant after a place among them, and where they end; None: from now on."""
    with context.engine.read(access.default_tenant) as snapshot:
        end = snapshot.find_last_run_event()
        page = snapshot.list_run_events_after(end if after is None else after, EVENTS_LIMIT)
    return [(place, json_text.parse(event)) for place, event in page], end


def keep_retention(context: Context) -> int:
    """Delete the runs of every tenant that began before the retention of runs, with their logs; how many."""
    if context.run_retention_ms is None:
        return 0
    before, count = Instant(context.clock() - context.run_retention_ms), 0
    for tenant in context.engine.system.list_tenants():
        place: RunPosition = (Instant(0), "")
        while page := _runs_over(context, tenant, place, before):
            place = page[-1]
            ids = [run_id for _, run_id in page]
            context.engine.write(tenant, partial(_delete, ids))
            count += len(ids)
    return count


def _runs_over(
    context: Context, tenant: str, place: RunPosition, before: Instant
) -> list[RunPosition]:
    with context.engine.read(tenant) as snapshot:
        return snapshot.list_runs_after(place, before=before, limit=PURGE_LIMIT)


def _delete(run_ids: Sequence[str], unit: Unit) -> None:
    unit.delete_runs(run_ids)
    for run_id in run_ids:
        # Without its run, nothing can be undone by its name.
        unit.delete_item(UNDO_RECORDS, run_id)


def fork(context: Context, access: Access, run_id: str, *, mode: str, from_seq: int) -> Run:
    """Another run with the facts of this one. A replay repeats what is on record from there on, and makes nothing new.

    A branch keeps what was before and goes on by itself.
    """
    now = context.clock()
    with context.engine.read(access.default_tenant) as snapshot:
        source = load(snapshot, run_id)
        _check_forkable(snapshot, source, mode, from_seq)
        run = replace(source, run_id=new_run_id(), source_run_id=run_id, is_replay=mode == "replay")
        logged = [
            events.encode(events.copy_for_replay(event, run.run_id, sequence))
            for sequence, event in enumerate(_taken(snapshot, run_id, mode, from_seq))
        ]

    def work(unit: Unit) -> Run:
        # A log is only ever added to; what a run wrote may have been erased meanwhile.
        _check_forkable(unit, source, mode, from_seq)
        unit.add_run_events(run.run_id, 0, logged)
        made = run
        if mode == "branch":
            # It sees the store as it is now; it is the host's to go on with it.
            begun = _new(unit, run.run_id, run.workflow_id, now)
            made = replace(run, **{name: getattr(begun, name) for name in _OF_ITS_OWN})
        else:
            unit.copy_run_writes(run_id, run.run_id)
        unit.put_run(made.run_id, made.encoded(), started=now)
        context.quotas_of(unit).check_bytes(unit)
        return made

    return context.engine.write(access.default_tenant, work)


# What a branch does not take over from the run that it branches from.
_OF_ITS_OWN: Final = (
    "status",
    "started",
    "change_seq",
    "version_seq",
    "workspace_seq",
    "variables",
    "error",
)


def _check_forkable(snapshot: Snapshot, source: Run, mode: str, from_seq: int) -> None:
    """First whether the log reaches so far, then whether memory as of there can still be served (MAE-3)."""
    count = snapshot.count_run_events(source.run_id)
    ForkRequest.parse({"mode": mode, "fromSeq": from_seq}).check_bounds(count)
    if count == 0:
        raise build_snapshot_error(source.run_id, from_seq, "event_log_unavailable")
    if snapshot.has_lost_writes(source.run_id):
        raise build_snapshot_error(source.run_id, from_seq, "retention_expired")


def _taken(snapshot: Snapshot, run_id: str, mode: str, from_seq: int) -> list[Event]:
    found: list[Event] = []
    after = from_seq - 1 if mode == "replay" else -1
    while page := snapshot.list_run_events(run_id, after=after, limit=EVENTS_LIMIT):
        parsed = [json_text.parse(event) for event in page]
        found += parsed
        after = parsed[-1]["sequence"]
    return found if mode == "replay" else [event for event in found if event["sequence"] < from_seq]
