"""openwop for bindings and hosts: discovery, runs of a host, their variables and secrets, and the table of all verbs.

The variables of a run hold no memory. Where a variable is to show a memory, it names it, and the memory is read
whenever the run is read: a memory that has expired, was forgotten or belongs to another owner is not shown.

    {"$memory": {"memoryRef": ref, "id": id}}               the entry, or null
    {"$memory": {"memoryRef": ref, "id": id, "field": f}}   one field of it
    {"$memory": {"memoryRef": ref, "options": {…}}}         the entries, as `list` gives them

Resolving a reference to a memory happens when a run is read, not when it is written, so an erased memory leaves no copy
in a run. A host's nodes get `RunMemory`, which can only read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from memoranda import __version__
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant
from memoranda.model.selection import Selection
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.verbs import Caller, PublicVerb, Verb, Verbs
from memoranda.service.core.views import project
from memoranda.service.openwop import commitments as commitment_verbs
from memoranda.service.openwop import distill as distillation
from memoranda.service.openwop import idempotency, memory, ref_entries, webhooks, workspace
from memoranda.service.openwop import proposals as proposal_verbs
from memoranda.service.openwop import runs as run_log
from memoranda.service.openwop import schedule as schedule_verbs
from memoranda.service.openwop.runs import Run
from memoranda.service.retrieve import iterate_selected, restrict_selection
from memoranda.standards.openwop import capabilities, inventory
from memoranda.standards.openwop.entry import MAX_CONTENT_BYTES, MAX_TAG_CHARS, Entry, ListOptions
from memoranda.standards.openwop.events import MEMORY_TYPES, PROPOSAL_KINDS, Event
from memoranda.standards.openwop.runs import ENGINE_VERSION, EVENT_LOG_SCHEMA_VERSION
from memoranda.standards.openwop.workspace import MAX_FILE_BYTES, MAX_FILES, MAX_VERSIONS
from memoranda.storage.engine.contract import RunPosition, Unit

# The only key of a variable that shows a memory.
MEMORY_KEY: Final = "$memory"
# The tag of an entry about a person is this prefix and the person's name; `forget` deletes all entries with it.
SUBJECT_PREFIX: Final = "subject:"
# Runs per page: a page is rendered in memory.
MAX_RUNS: Final = 100
# Events that Memoranda writes when it does something; a host cannot emit them.
RECORDED: Final = MEMORY_TYPES | {"run.started", *(f"run.{status}" for status in run_log.TERMINAL)}


class RunMemory:
    """The `ctx.memory` of a run's nodes: read-only, and as the store was when the run began."""

    def __init__(self, context: Context, access: Access, run_id: str) -> None:
        self._context, self._access, self._run_id = context, access, run_id

    def list(self, memory_ref: str, options: object = None) -> list[Entry]:
        """Return the entries of a ref, newest first. `options` are MemoryListOptions, parsed or as JSON."""
        if not isinstance(options, ListOptions):
            options = ListOptions.parse(options)
        return memory.list_entries(
            self._context, self._access, memory_ref, options, run_id=self._run_id
        )

    def get(self, memory_ref: str, memory_id: str) -> Entry | None:
        """Return one entry of a ref, or None."""
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
    agent: Mapping[str, object] | None = None,
    tags: tuple[str, ...] = (),
    metadata: Mapping[str, object] | None = None,
) -> Run:
    """Start a run of the host, which sees the store as it is now. Raises Conflict if the id is in use."""
    now = context.clock()

    def work(unit: Unit) -> Run:
        context.quotas_of(unit).count_run(unit, now)
        run = run_log.begin(
            unit,
            workflow_id=workflow_id,
            now=now,
            run_id=run_id,
            agent=agent,
            tags=tags,
            metadata=metadata,
            access=access,
        )
        context.quotas_of(unit).check_bytes(unit)
        return run

    return context.engine.write(access.default_tenant, work)


def memory_of(context: Context, access: Access, run_id: str) -> RunMemory:
    """Return `ctx.memory` for the nodes of a run. Raises NotFound if there is no such run."""
    run_log.get(context, access, run_id)
    return RunMemory(context, access, run_id)


def emit(
    context: Context,
    access: Access,
    run_id: str,
    type: str,  # noqa: A002
    payload: Mapping[str, object],
    *,
    node_id: str | None = None,
) -> Event:
    """Append an event of the host's to a run's log, without the secrets of the run.

    Raises InvalidInput for the types of RECORDED, which only Memoranda writes.
    """
    if type in RECORDED:
        raise InvalidInput(f"type: only Memoranda itself writes {type} events; choose another type")
    now, key = context.clock(), (access.default_tenant, run_id)
    clean_payload = context.secrets.redact_value(payload, key)
    clean_node_id = context.secrets.redact_value(node_id, key)

    def work(unit: Unit) -> Event:
        run_log.load_writing(context, unit, run_id)
        context.quotas_of(unit).count_write(unit, now)
        event = run_log.emit(unit, run_id, type, clean_payload, now=now, node_id=clean_node_id)
        context.quotas_of(unit).check_bytes(unit)
        return event

    return context.engine.write(access.default_tenant, work)


def cancel_run(context: Context, access: Access, run_id: str) -> Run:
    """Cancel a run; one that is cancelled already is returned as it is. Raises Conflict if it has ended otherwise."""
    run = run_log.get(context, access, run_id)
    return (
        run
        if run.status == "cancelled"
        else finish_run(context, access, run_id, status="cancelled")
    )


def finish_run(
    context: Context,
    access: Access,
    run_id: str,
    *,
    status: str = "completed",
    variables: Mapping[str, object] | None = None,
    error: Mapping[str, object] | None = None,
) -> Run:
    """End a run with a terminal status, store its final variables or error, and forget its secrets.

    Raises InvalidInput for a status that does not end a run.
    """
    if status not in run_log.TERMINAL:
        raise InvalidInput(f"status must be one of {', '.join(sorted(run_log.TERMINAL))}")
    now, key, secrets = context.clock(), (access.default_tenant, run_id), context.secrets
    clean_variables = secrets.redact_value(variables, key)
    clean_error = secrets.redact_value(error, key)

    def work(unit: Unit) -> Run:
        run = run_log.load_writing(context, unit, run_id)
        ended_run = run_log.finish(
            unit, run, now=now, status=status, variables=clean_variables, error=clean_error
        )
        if clean_variables or clean_error:
            # A run that stores nothing more can end even when the quota is used up.
            context.quotas_of(unit).check_bytes(unit)
        return ended_run

    ended_run = context.engine.write(access.default_tenant, work)
    secrets.end(key)
    return ended_run


def snapshot(context: Context, access: Access, run_id: str) -> dict[str, Any]:
    """Return the public snapshot of a run, with the memories that its variables name.

    `workspace` lists the files that the run sees, with their versions (RFC 0059 §D).
    """
    run = run_log.get(context, access, run_id)
    variables = {
        name: _resolve_variable(context, access, run, value)
        for name, value in run.variables.items()
    }
    document = {**run.snapshot(), "variables": variables}
    if files := workspace.files(context, access, run_id=run_id):
        document["workspace"] = [
            {"path": file["path"], "version": file["version"]} for file in files
        ]
    return document


def runs(
    context: Context,
    access: Access,
    *,
    before: Instant | RunPosition | None = None,
    limit: int = MAX_RUNS,
) -> list[Run]:
    """Return the runs of the caller's tenant, latest start first, that began before an instant or a listed run."""
    # Many runs may begin in one millisecond, so the next page starts after a run (RunPosition), not after an instant.
    position = (before, "") if isinstance(before, int) else before
    with context.engine.open_snapshot(access.default_tenant) as reading:
        stored_runs = reading.list_runs(before=position, limit=min(limit, MAX_RUNS))
        return [run_log.decode_run(data) for data in stored_runs]


def register_secret(
    context: Context, access: Access, run_id: str, secret_id: str, value: str
) -> bool:
    """Register a secret that a run must never store. Return False if it is too short to be recognised in a text."""
    tenant = access.default_tenant
    with context.engine.open_snapshot(tenant) as reading:
        run_log.load_open(reading, run_id)
    digest = context.engine.fingerprint(tenant, f"secret of a run\x00{value.strip()}")
    is_registered = context.secrets.register((tenant, run_id), secret_id, value, digest)
    if is_registered:
        # The digest is stored before the host gets its answer, so that every other process, and one started later,
        # refuses to write for the run until it knows the secret too.
        context.engine.write(tenant, lambda unit: run_log.add_secret(unit, run_id, digest))
    return is_registered


def resolve_secret(context: Context, access: Access, run_id: str, secret_id: str) -> str:
    """Return a secret for an open run, from the host's resolvers, and register it unless the platform owns it."""
    with context.engine.open_snapshot(access.default_tenant) as reading:
        # A run that has ended forgot its secrets, and would never forget this one.
        run_log.load_open(reading, run_id)
    secret = context.secrets.resolve(secret_id)
    if secret.scope != "platform":
        register_secret(context, access, run_id, secret_id, secret.value)
    return secret.value


def _resolve_variable(context: Context, access: Access, run: Run, value: object) -> Any:
    """Return the value of a variable; for `{"$memory": {…}}`, the memory that it names as the run sees it."""
    target = value.get(MEMORY_KEY) if isinstance(value, Mapping) and len(value) == 1 else None
    if not isinstance(target, Mapping):
        return value
    ref, run_id = target.get("memoryRef"), run.run_id
    if "id" not in target:
        try:
            options = ListOptions.parse(target.get("options"))
        except InvalidInput:
            return None
        return memory.list_entries(context, access, ref, options, run_id=run_id)
    entry = memory.get_entry(context, access, ref, target["id"], run_id=run_id)
    if entry is None or "field" not in target:
        return entry
    return entry.get(str(target["field"]))


# --- the host -------------------------------------------------------------------------------------------------


def discovery(
    context: Context, *, is_attended: bool, fixtures: tuple[str, ...] = ()
) -> capabilities.Discovery:
    """Return the capabilities that this host claims.

    `is_attended`: an upkeep thread runs, so that schedules and commitments are carried out. `fixtures`: workflows for
    conformance suites, which an agent of this host runs. Without them it dispatches no agents, and claims none.
    """
    counter = context.cal.counter.name
    return capabilities.build_discovery(
        capabilities.CapabilityOffer(
            memory=True,
            max_entry_size_bytes=MAX_CONTENT_BYTES,
            ttl=True,
            forget=True,
            search_modes=("semantic", "filter") if context.has_semantic_search else ("filter",),
            compaction=True,
            distillation=capabilities.DistillationCapability(
                max_token_budget=distillation.MAX_TOKEN_BUDGET,
                tokenizer=counter,
                archive_retention=f"P{distillation.ARCHIVE_RETENTION_DAYS}D",
                scheduled=is_attended,
                index_emitted=True,
            ),
            attribution=True,
            injection_counter=counter,
            long_term=True,
            consolidation="on-demand",
            commitments=("time", "predicate") if is_attended else (),
            proposals=capabilities.Proposals(
                kinds=PROPOSAL_KINDS, activation="direct-rbac", detects_duplicates=True
            ),
            workspace=capabilities.Workspace(
                max_file_bytes=MAX_FILE_BYTES,
                max_files=MAX_FILES,
                max_versions=MAX_VERSIONS,
            ),
            # A branch goes on by itself only if its host runs it; our own workflows are over when they are answered.
            replay_modes=("replay",),
            webhooks=True,
            fixtures=fixtures,
            manifest_runtime=bool(fixtures),
            execution_model_version=capabilities.SNAPSHOT_MODEL_VERSION if fixtures else None,
            # All writes of a run go through one writer, and each run reads its own snapshot.
            child_concurrency="strict" if fixtures else None,
            extra={
                "implementation": {"name": "memoranda", "version": __version__},
                # version-negotiation.md, Capability handshake.
                "engineVersion": ENGINE_VERSION,
                "eventLogSchemaVersion": EVENT_LOG_SCHEMA_VERSION,
                "minClientVersion": "1.0",
                # RFC 0080 §B: a host exposes a query API under a host-extension scope.
                "x-host-memoranda-memory-query": {"supported": True, "path": "/v1/memory/{ref}"},
            },
        )
    )


def agents(context: Context, access: Access) -> dict[str, Any]:
    """Return the agents of the packs that were applied, and which of them get less memory than they ask for."""
    available = capabilities.find_dimensions(discovery(context, is_attended=True))
    entries = {
        manifest["agentId"]: inventory.build_agent_entry(
            manifest, pack_name=pack["name"], pack_version=pack["version"], available=available
        )
        for ref, pack in proposal_verbs.installed(context, access).items()
        if ref.startswith("agent-pack:")
        for manifest in pack["agents"]
    }
    return inventory.build_inventory(entries.values())


# --- forgetting ----------------------------------------------------------------------------------------------


def forget(context: Context, access: Access, ref: str, subject: str) -> int:
    """Delete all entries of a ref about a subject (`memory.retention.forget`). Return their number.

    The logs of runs need no change, as they hold no content. The entries become tombstones; a hard forget of UMP erases
    them permanently.
    """
    tag = SUBJECT_PREFIX + subject
    if len(tag) > MAX_TAG_CHARS:
        raise InvalidInput(
            f"subject must have at most {MAX_TAG_CHARS - len(SUBJECT_PREFIX)} characters"
        )
    tenant, now = access.default_tenant, context.clock()
    space = memory.space_of(access, ref, tenant)
    if space is None:
        return 0
    # Entries that a consolidation run replaced are included: the entry that replaced them repeats them.
    selection = Selection(status_filter="unforgotten", space=space, tags=(tag.lower(),))
    with context.engine.open_snapshot(tenant) as snapshot:
        matches = [
            version
            for version, _ in iterate_selected(
                snapshot, restrict_selection(context, access, snapshot, selection), now=now
            )
            if tag in project(context, version).tags
            and memory.may_see(context, access, snapshot, version)
        ]
    # The oldest first: forgetting a source also forgets the entry that was made from it, which then counts no more.
    heads = {version.memory_id: version.version_id for version in matches}.values()
    results = [
        context.engine.write(tenant, partial(memory.forget_version, access, version_id, now))
        for version_id in heads
    ]
    return sum(results)


# --- the table ------------------------------------------------------------------------------------------------


class Openwop(Verbs[Caller]):
    """The verbs of openwop: entries, runs, webhooks, background work, proposals and the workspace."""

    # No grant is needed: a key answers only to the caller who used it, and the operation under it is authorised itself.
    claim = Verb(idempotency.claim)
    settle = Verb(idempotency.settle)

    agents = Verb(agents, "read", owner_wide=True)

    list_entries = Verb(memory.list_entries, "read")
    get_entry = Verb(memory.get_entry, "read")
    put_entry = Verb(memory.put_entry, "write")
    put_entries = Verb(memory.put_entries, "write")
    delete_entry = Verb(memory.delete_entry, "write")
    forget = Verb(forget, "read", "write")

    begin_run = Verb(begin_run, "write", owner_wide=True)
    memory_of = Verb(memory_of, "read")
    emit = Verb(emit, "write", owner_wide=True)
    cancel_run = Verb(cancel_run, "write", owner_wide=True)
    finish_run = Verb(finish_run, "write", owner_wide=True)
    fork = Verb(run_log.fork, "write", owner_wide=True)
    run = Verb(run_log.get, "read", owner_wide=True)
    runs = Verb(runs, "read", owner_wide=True)
    snapshot = Verb(snapshot, "read", owner_wide=True)
    events = Verb(run_log.read_events, "read", owner_wide=True)
    all_events = Verb(run_log.read_all_events, "read", owner_wide=True)
    register_webhook = Verb(webhooks.register, "read", "write", owner_wide=True)
    registered_webhook = Verb(webhooks.registered, "read", "write", owner_wide=True)
    unregister_webhook = Verb(webhooks.unregister, "write", owner_wide=True)
    webhooks = Verb(webhooks.subscriptions, "read", owner_wide=True)
    resolve_secret = Verb(resolve_secret, "write", owner_wide=True)
    register_secret = Verb(register_secret, "write", owner_wide=True)

    compact = Verb(distillation.compact, "read", "write")
    distill = Verb(distillation.distill, "read", "write")
    consolidate = Verb(distillation.consolidate, "read", "write")
    undo_consolidation = Verb(ref_entries.undo, "write", owner_wide=True)
    schedules = Verb(schedule_verbs.schedules, "read", owner_wide=True)
    unschedule = Verb(schedule_verbs.unschedule, "write", owner_wide=True)

    watch_commitments = Verb(schedule_verbs.watch, "write", owner_wide=True)
    infer_commitments = Verb(commitment_verbs.infer, "read", "write")
    commitments = Verb(commitment_verbs.list_commitments, "read", owner_wide=True)
    cancel_commitment = Verb(commitment_verbs.cancel, "write", owner_wide=True)
    snooze_commitment = Verb(commitment_verbs.snooze, "write", owner_wide=True)
    fire_commitment = Verb(commitment_verbs.fire_now, "write", owner_wide=True)
    schedule = Verb(schedule_verbs.schedule, "write", owner_wide=True)

    synthesise_proposals = Verb(
        proposal_verbs.synthesise_proposals, "read", "derive", owner_wide=True
    )
    propose = Verb(proposal_verbs.propose, "derive", owner_wide=True)
    proposals = Verb(proposal_verbs.list_proposals, "read", owner_wide=True)
    proposal = Verb(proposal_verbs.get, "read", owner_wide=True)
    revise_proposal = Verb(proposal_verbs.revise, "read", "derive", owner_wide=True)
    reject_proposal = Verb(proposal_verbs.reject, "read", "derive", owner_wide=True)
    archive_proposal = Verb(proposal_verbs.archive, "read", "derive", owner_wide=True)
    # `apply` itself requires the right to activate, or an approval by someone who has it.
    approve_proposal = Verb(proposal_verbs.approve, proposal_verbs.ACTIVATION, owner_wide=True)
    apply_proposal = Verb(proposal_verbs.apply, owner_wide=True)
    installed = Verb(proposal_verbs.installed, "read", owner_wide=True)

    file = Verb(workspace.file, "read", owner_wide=True)
    files = Verb(workspace.files, "read", owner_wide=True)
    write_file = Verb(workspace.write_file, "write", owner_wide=True)
    remove_file = Verb(workspace.remove_file, "write", owner_wide=True)

    discovery = PublicVerb(discovery)
    tick = PublicVerb(schedule_verbs.tick)
