"""What a host says about itself and its runs (openwop): discovery, agents, snapshots, secrets of runs, forgetting.

The variables of a run hold no memory. Where one is to show, they name it, and it is read when the run is: so what
has expired, was forgotten or belongs to somebody else does not show, whatever the run saw.

    {"$memory": {"memoryRef": ref, "id": id}}               the entry, or null
    {"$memory": {"memoryRef": ref, "id": id, "field": f}}   one field of it
    {"$memory": {"memoryRef": ref, "options": {…}}}         the entries, as `list` gives them
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
from memoranda.service.core.views import project
from memoranda.service.openwop import distill, memory, workspace
from memoranda.service.openwop import runs as run_log
from memoranda.service.openwop.runs import Run
from memoranda.service.retrieve import reach, walk
from memoranda.standards.openwop import capabilities, inventory
from memoranda.standards.openwop.entry import MAX_CONTENT_BYTES, MAX_TAG_CHARS, ListOptions
from memoranda.standards.openwop.events import PROPOSAL_KINDS
from memoranda.storage.engine.contract import RunPlace

NAMED: Final = "$memory"
# An entry names whom it is about by a tag; `forget` takes out all that name them.
SUBJECT_PREFIX: Final = "subject:"
# A page of runs that is rendered in memory.
MAX_RUNS: Final = 100


def discovery(
    context: Context, *, is_attended: bool, fixtures: tuple[str, ...] = ()
) -> capabilities.Discovery:
    """What is really on. `is_attended`: somebody does what falls due, so that schedules and commitments are kept."""
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
                max_token_budget=distill.MAX_TOKEN_BUDGET,
                tokenizer=counter,
                archive_retention=f"P{distill.ARCHIVE_RETENTION_DAYS}D",
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
                max_file_bytes=workspace.MAX_FILE_BYTES,
                max_files=workspace.MAX_FILES,
                max_versions=workspace.MAX_VERSIONS,
            ),
            replay_modes=("replay", "branch"),
            # Every server sends them.
            webhooks=True,
            fixtures=fixtures,
            extra={"implementation": {"name": "memoranda", "version": __version__}},
        )
    )


def agents(context: Context, installed: Mapping[str, Any]) -> dict[str, Any]:
    """The agents of the packs that were applied, and which of them get less memory than they ask for."""
    available = capabilities.find_dimensions(discovery(context, is_attended=True))
    found = {
        manifest["agentId"]: inventory.build_agent_entry(
            manifest, pack_name=pack["name"], pack_version=pack["version"], available=available
        )
        for ref, pack in installed.items()
        if ref.startswith("agent-pack:")
        for manifest in pack["agents"]
    }
    return inventory.build_inventory(found.values())


# --- runs ----------------------------------------------------------------------------------------------------


def snapshot(context: Context, access: Access, run_id: str) -> dict[str, Any]:
    """A run as others see it, with the memories that its variables name."""
    run = run_log.get(context, access, run_id)
    variables = {
        name: _resolved(context, access, run, value) for name, value in run.variables.items()
    }
    return {**run.snapshot(), "variables": variables}


def runs(
    context: Context,
    access: Access,
    *,
    before: Instant | RunPlace | None = None,
    limit: int = MAX_RUNS,
) -> list[Run]:
    """The runs of the caller's tenant, the last started first: before an instant, or after a place in the list."""
    # Many runs may begin in one millisecond: an instant alone is no place to go on from.
    place = (before, "") if isinstance(before, int) else before
    with context.engine.read(access.default_tenant) as reading:
        return [
            run_log.decoded(kept) for kept in reading.runs(before=place, limit=min(limit, MAX_RUNS))
        ]


def register_secret(
    context: Context, access: Access, run_id: str, secret_id: str, value: str
) -> bool:
    """Let a value that the host resolved for a run never be stored by it; False if it is too short to be told."""
    tenant = access.default_tenant
    with context.engine.read(tenant) as reading:
        run_log.load_open(reading, run_id)
    digest = context.engine.fingerprint(tenant, f"secret of a run\x00{value.strip()}")
    is_known = context.secrets.register((tenant, run_id), secret_id, value, digest)
    if is_known:
        # Told to the host only when the run keeps it: then no other process, and none started later, forgets it.
        context.engine.write(tenant, lambda unit: run_log.add_secret(unit, run_id, digest))
    return is_known


def resolve_secret(context: Context, access: Access, run_id: str, secret_id: str) -> str:
    """A secret for a run that is not over, from the host's resolvers; only then is it forgotten when the run ends."""
    with context.engine.read(access.default_tenant) as reading:
        run_log.load_open(reading, run_id)
    found = context.secrets.resolve(secret_id)
    if found.scope != "platform":
        register_secret(context, access, run_id, secret_id, found.value)
    return found.value


def _resolved(context: Context, access: Access, run: Run, value: Any) -> Any:
    asked = value.get(NAMED) if isinstance(value, Mapping) and len(value) == 1 else None
    if not isinstance(asked, Mapping):
        return value
    ref, run_id = asked.get("memoryRef"), run.run_id
    if "id" not in asked:
        try:
            options = ListOptions.parse(asked.get("options"))
        except InvalidInput:
            return None
        return memory.list_entries(context, access, ref, options, run_id=run_id)
    entry = memory.get_entry(context, access, ref, asked["id"], run_id=run_id)
    return entry if entry is None or "field" not in asked else entry.get(str(asked["field"]))


# --- forgetting ----------------------------------------------------------------------------------------------


def forget(context: Context, access: Access, ref: str, subject: str) -> int:
    """Take out of a ref all entries about a subject (`memory.retention.forget`); how many there were.

    From live memory only: logs of runs hold no content, and erasing for good is UMP's hard forget.
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
    # Also what a pass has put another entry in the place of: that says what these said.
    asked = Selection(status_filter="unforgotten", space=space, tags=(tag.lower(),))
    with context.engine.read(tenant) as snapshot:
        about = [
            each
            for each, _ in walk(snapshot, reach(context, access, snapshot, asked), now=now)
            if tag in project(context, each).tags
            and memory.may_see(context, access, snapshot, each)
        ]
    heads = {each.memory_id: each.version_id for each in about}.values()
    # The first written first: what a pass made from others is gone with them.
    gone = [
        context.engine.write(tenant, partial(memory.forget_found, access, each, now))
        for each in heads
    ]
    return sum(gone)
