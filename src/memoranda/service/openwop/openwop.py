"""openwop for bindings and hosts: the adapter, runs and their logs, workspace, and what is done in the background."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from memoranda.errors import InvalidInput, NotFound
from memoranda.model.instant import Instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.verbs import Caller, PublicVerb, Verb, Verbs
from memoranda.service.openwop import commitments as promises
from memoranda.service.openwop import distill as digests
from memoranda.service.openwop import host, idempotency, memory, passes, webhooks, workspace
from memoranda.service.openwop import proposals as suggestions
from memoranda.service.openwop import runs as run_log
from memoranda.service.openwop import schedule as timetable
from memoranda.service.openwop.runs import Run
from memoranda.standards.openwop.entry import Entry, ListOptions
from memoranda.standards.openwop.events import MEMORY_TYPES, Event
from memoranda.storage.engine.contract import Unit

# What is in a log because it was done here, and cannot be claimed.
RECORDED: Final = MEMORY_TYPES | {"run.started", *(f"run.{status}" for status in run_log.TERMINAL)}


class RunMemory:
    """What a node of a run gets as `ctx.memory`: list and get, as the store was when the run began (read only)."""

    def __init__(self, context: Context, access: Access, run_id: str) -> None:
        self._context, self._access, self._run_id = context, access, run_id

    def list(self, memory_ref: str, options: object = None) -> list[Entry]:
        """The entries of a ref, the newest first; `options` as MemoryListOptions."""
        asked = options if isinstance(options, ListOptions) else ListOptions.parse(options)
        return memory.list_entries(
            self._context, self._access, memory_ref, asked, run_id=self._run_id
        )

    def get(self, memory_ref: str, memory_id: str) -> Entry | None:
        """One entry, or None."""
        return memory.get_entry(
            self._context, self._access, memory_ref, memory_id, run_id=self._run_id
        )


# --- runs ----------------------------------------------------------------------------------------------------


def begin_run(
    context: Context,
    access: Access,
    workflow_id: str,
    *,
    run_id: str | None = None,
    agent: Mapping[str, Any] | None = None,
    tags: tuple[str, ...] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Run:
    """Start a host's run; its view of the store is what is there now."""
    now = context.clock()

    def work(unit: Unit) -> Run:
        context.quotas_in(unit).spend_run(unit, now)
        made = run_log.begin(
            unit,
            workflow_id=workflow_id,
            now=now,
            run_id=run_id,
            agent=agent,
            tags=tags,
            metadata=metadata,
        )
        context.quotas_in(unit).check_kept(unit)
        return made

    return context.engine.write(access.default_tenant, work)


def memory_of(context: Context, access: Access, run_id: str) -> RunMemory:
    """`ctx.memory` for the nodes of a run."""
    run_log.get(context, access, run_id)
    return RunMemory(context, access, run_id)


def emit(
    context: Context,
    access: Access,
    run_id: str,
    type: str,  # noqa: A002
    payload: dict[str, Any],
    *,
    node_id: str | None = None,
) -> Event:
    """Append an event to a run's log: whatever a host has to say that is not the record of something done here."""
    if type in RECORDED:
        raise InvalidInput(f"type: {type} is written by what it reports")
    now, run = context.clock(), (access.default_tenant, run_id)
    clean, node = (context.secrets.redacted_value(value, run) for value in (payload, node_id))

    def work(unit: Unit) -> Event:
        run_log.load_writing(context, unit, run_id)
        context.quotas_in(unit).spend(unit, now)
        made = run_log.emit(unit, run_id, type, clean, now=now, node_id=node)
        context.quotas_in(unit).check_kept(unit)
        return made

    return context.engine.write(access.default_tenant, work)


def finish_run(
    context: Context,
    access: Access,
    run_id: str,
    *,
    status: str = "completed",
    variables: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
) -> Run:
    """End a run; its secrets are forgotten."""
    if status not in run_log.TERMINAL:
        raise InvalidInput(f"status must be one of {', '.join(sorted(run_log.TERMINAL))}")
    now, key, secrets = context.clock(), (access.default_tenant, run_id), context.secrets
    shown, failure = secrets.redacted_value(variables, key), secrets.redacted_value(error, key)

    def work(unit: Unit) -> Run:
        run = run_log.load_writing(context, unit, run_id)
        done = run_log.finish(unit, run, now=now, status=status, variables=shown, error=failure)
        if shown or failure:
            # Without anything to keep, a run can always be ended.
            context.quotas_in(unit).check_kept(unit)
        return done

    done = context.engine.write(access.default_tenant, work)
    secrets.end(key)
    return done


def agents(context: Context, access: Access) -> dict[str, Any]:
    """The agents that were installed, and which of them get less memory than they ask for."""
    return host.agents(context, suggestions.installed(context, access))


# --- workspace -----------------------------------------------------------------------------------------------


def file(
    context: Context,
    access: Access,
    path: str,
    version: int | None = None,
    *,
    run_id: str | None = None,
) -> dict[str, Any]:
    """A workspace file, as it is, as it was, or as a run sees it. Raises NotFound."""
    with context.engine.read(access.default_tenant) as snapshot:
        run = None if run_id is None else run_log.load(snapshot, run_id)
        found = workspace.read(snapshot, path, version, run=run)
    if found is None:
        raise NotFound("no such workspace file")
    return found


def files(
    context: Context, access: Access, prefix: str = "", *, run_id: str | None = None
) -> list[dict[str, Any]]:
    """All workspace files that begin so, as they are or as a run sees them."""
    with context.engine.read(access.default_tenant) as snapshot:
        run = None if run_id is None else run_log.load(snapshot, run_id)
        return workspace.listing(snapshot, prefix, run=run)


def write_file(
    context: Context,
    access: Access,
    path: str,
    content: str,
    *,
    content_type: str = "text/markdown",
    if_match: str | None = None,
    if_none_match: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """Write the next version of a workspace file: for a run, without its secrets and on its log (WSR-1)."""
    now, secrets = context.clock(), context.secrets
    key = None if run_id is None else (access.default_tenant, run_id)
    if key is not None and secrets.holds(path, key):
        raise InvalidInput("path: holds a secret of the run")
    clean = secrets.redacted_text(content, key, "file")
    how: dict[str, Any] = {
        "content_type": content_type,
        "if_match": if_match,
        "if_none_match": if_none_match,
    }

    def work(unit: Unit) -> dict[str, Any]:
        context.quotas_in(unit).spend(unit, now)
        with _logged(context, unit, run_id, now) as log:
            made = workspace.write(unit, path, clean, now=now, run_id=log, **how)
        context.quotas_in(unit).check_kept(unit)
        return made

    return context.engine.write(access.default_tenant, work)


def remove_file(
    context: Context,
    access: Access,
    path: str,
    *,
    if_match: str | None = None,
    run_id: str | None = None,
) -> bool:
    """Take a workspace file away, on the log of a run; whether there was one."""
    now = context.clock()

    def work(unit: Unit) -> bool:
        if not workspace.is_there(unit, path):
            return False
        with _logged(context, unit, run_id, now) as log:
            workspace.remove(unit, path, now=now, run_id=log, if_match=if_match)
        return True

    return context.engine.write(access.default_tenant, work)


@contextmanager
def _logged(context: Context, unit: Unit, run_id: str | None, now: Instant) -> Iterator[str]:
    """The run that something is done in: one that is open, or one of our own for this alone."""
    if run_id is not None:
        run_log.load_writing(context, unit, run_id)
        yield run_id
        return
    run = run_log.begin(unit, workflow_id=f"{run_log.HOST_WORKFLOW}workspace", now=now)
    yield run.run_id
    run_log.finish(unit, run, now=now)


# --- the tables ----------------------------------------------------------------------------------------------


def discovery(
    context: Context, *, is_attended: bool, fixtures: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the claims of this host. `is_attended`: an upkeep thread does what falls due."""
    return host.discovery(context, is_attended=is_attended, fixtures=fixtures)


class Openwop(Verbs[Caller]):
    """One tenant's side of openwop."""

    # They only tell what the caller did himself, and what he does is asked of its own verb.
    claim = Verb(idempotency.claim)
    settle = Verb(idempotency.settle)

    agents = Verb(agents, "read", whole=True)

    list_entries = Verb(memory.list_entries, "read")
    get_entry = Verb(memory.get_entry, "read")
    put_entry = Verb(memory.put_entry, "write")
    put_entries = Verb(memory.put_entries, "write")
    delete_entry = Verb(memory.delete_entry, "write")
    forget = Verb(host.forget, "read", "write")

    begin_run = Verb(begin_run, "write", whole=True)
    memory_of = Verb(memory_of, "read")
    emit = Verb(emit, "write", whole=True)
    finish_run = Verb(finish_run, "write", whole=True)
    fork = Verb(run_log.fork, "write", whole=True)
    run = Verb(run_log.get, "read", whole=True)
    runs = Verb(host.runs, "read", whole=True)
    snapshot = Verb(host.snapshot, "read", whole=True)
    events = Verb(run_log.read_events, "read", whole=True)
    all_events = Verb(run_log.read_all_events, "read", whole=True)
    register_webhook = Verb(webhooks.register, "read", "write", whole=True)
    registered_webhook = Verb(webhooks.registered, "read", "write", whole=True)
    unregister_webhook = Verb(webhooks.unregister, "write", whole=True)
    webhooks = Verb(webhooks.subscriptions, "read", whole=True)
    resolve_secret = Verb(host.resolve_secret, "write", whole=True)
    register_secret = Verb(host.register_secret, "write", whole=True)

    compact = Verb(digests.compact, "read", "write")
    distill = Verb(digests.distill, "read", "write")
    consolidate = Verb(digests.consolidate, "read", "write")
    undo_consolidation = Verb(passes.undo, "write", whole=True)
    schedules = Verb(timetable.schedules, "read", whole=True)
    unschedule = Verb(timetable.unschedule, "write", whole=True)

    watch_commitments = Verb(timetable.watch, "write", whole=True)
    infer_commitments = Verb(promises.infer, "read", "write")
    commitments = Verb(promises.listing, "read", whole=True)
    cancel_commitment = Verb(promises.cancel, "write", whole=True)
    snooze_commitment = Verb(promises.snooze, "write", whole=True)
    fire_commitment = Verb(promises.fire_now, "write", whole=True)
    schedule = Verb(timetable.schedule, "write", whole=True)

    synthesise_proposals = Verb(suggestions.synthesise_proposals, "read", "derive", whole=True)
    propose = Verb(suggestions.propose, "derive", whole=True)
    proposals = Verb(suggestions.listing, "read", whole=True)
    proposal = Verb(suggestions.get, "read", whole=True)
    revise_proposal = Verb(suggestions.revise, "read", "derive", whole=True)
    reject_proposal = Verb(suggestions.reject, "read", "derive", whole=True)
    archive_proposal = Verb(suggestions.archive, "read", "derive", whole=True)
    # Applying asks for the right to activate, or for an approval of someone who has it.
    approve_proposal = Verb(suggestions.approve, suggestions.ACTIVATION, whole=True)
    apply_proposal = Verb(suggestions.apply, whole=True)
    installed = Verb(suggestions.installed, "read", whole=True)

    file = Verb(file, "read", whole=True)
    files = Verb(files, "read", whole=True)
    write_file = Verb(write_file, "write", whole=True)
    remove_file = Verb(remove_file, "write", whole=True)

    discovery = PublicVerb(discovery)
    tick = PublicVerb(timetable.tick)
