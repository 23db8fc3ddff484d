"""Looking around in a memory: statistics, projects, the origins of a memory, and one memory in every standard.

Each function here answers a question about the store rather than a recall. A caller who sees only a part of an owner's
memories gets counts and lists of that part; `sees_everything` decides which of the two ways a number is made.

`list_over_time` lists the memories that were true at some of several instants, whether they are still true or not.
`list_current` lists those of some memories that are still current.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec
from msgspec.structs import replace

from memoranda.encoding.lazy import LazyModule
from memoranda.model.instant import Instant
from memoranda.model.memory import DERIVED_FROM, OMS, OPENWOP, UMP, Version, has_ended, is_over
from memoranda.model.oms_names import ADDRESS_PREFIX
from memoranda.model.selection import MONTH_MS, UPDATED, Selection
from memoranda.service.core import lineage
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lookup import (
    ID_PREFIX,
    audit_listing,
    can_see,
    find_visible,
    resolve_name,
)
from memoranda.service.core.memory_line import bind_to_line
from memoranda.service.core.views import (
    is_intact,
    project,
    redact_for_caller,
    run_unless_damaged,
    scope_of,
    view_record,
)
from memoranda.service.retrieve import PAGE_BYTES, restrict_selection, sees_everything
from memoranda.service.ump.recall import recall
from memoranda.standards.ump.capability import MAX_RECALL
from memoranda.standards.ump.record import Record
from memoranda.standards.ump.requests import RecallRequest, ScopeFilter
from memoranda.standards.ump.shapes import Kind
from memoranda.storage.engine.contract import Snapshot

# The modules of OAMS, OMS and openwop are imported on first use: recall and remember do without them.
if TYPE_CHECKING:
    from memoranda.service.oams import memories as oams_memories
    from memoranda.service.oams import views as oams_views
    from memoranda.service.oms import views as oms_views
    from memoranda.service.openwop import memory as openwop
    from memoranda.standards.oams import mapping as oams
    from memoranda.standards.oams import namespace as namespaces
else:
    oams_memories = LazyModule("memoranda.service.oams.memories")
    oams_views = LazyModule("memoranda.service.oams.views")
    oms_views = LazyModule("memoranda.service.oms.views")
    openwop = LazyModule("memoranda.service.openwop.memory")
    oams = LazyModule("memoranda.standards.oams.mapping")
    namespaces = LazyModule("memoranda.standards.oams.namespace")


# Names of projects in the statistics, the largest projects first: more than a person reads.
PROJECTS_LIMIT: Final = 100
# Memories shown in each direction.
SHOWN_LIMIT: Final = 50
_KINDS: Final = get_args(Kind)


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The number of memories that a caller can see, by kind and by project ("" for none)."""

    memories: int
    kinds: Mapping[str, int]
    projects: Mapping[str, int]
    # Bytes of all documents; None for a caller who sees only a part of them.
    bytes: int | None


class Origins(msgspec.Struct, frozen=True, kw_only=True):
    """The memories on either side of one, as far as the caller may see them."""

    sources: list[Record]
    # Memories that name this one as their source.
    made: list[Record]
    # Number of memories that are erased with this one: results of consolidation runs, and originals that it replaced.
    going: int


def stats(context: Context, access: Access) -> Stats:
    """Count the memories that are current now, by kind and by project."""
    now, tenant = context.clock(), access.default_tenant
    with context.engine.open_snapshot(tenant) as snapshot:
        kinds, projects = dict.fromkeys(_KINDS, 0), dict[str, int]()
        if sees_everything(access, tenant):
            used_bytes = snapshot.measure_usage()[1]
            for (space, kind), count in snapshot.count_by_space_and_kind(now=now).items():
                kinds[kind] += count
                projects[space] = projects.get(space, 0) + count
        else:
            used_bytes = None
            reachable = restrict_selection(context, access, snapshot, Selection(at=now))
            spaces = snapshot.list_spaces() if reachable.space is None else [reachable.space]
            kinds = {
                kind: snapshot.count(replace(reachable, kinds=(kind,)), now=now) for kind in _KINDS
            }
            projects = {
                space: snapshot.count(replace(reachable, space=space), now=now) for space in spaces
            }
    largest = sorted(projects, key=lambda space: (-projects[space], space))[:PROJECTS_LIMIT]
    return Stats(
        memories=sum(kinds.values()),
        kinds={kind: count for kind, count in kinds.items() if count},
        projects={space: projects[space] for space in largest if projects[space]},
        bytes=used_bytes,
    )


def projects(context: Context, access: Access) -> list[str]:
    """Return the names of the projects that have, or once had, memories, sorted.

    A caller who sees only a part of the memories gets the project it is limited to, or nothing.
    """
    if "project" in access.limits:
        return [access.limits["project"]]
    if not sees_everything(access, access.default_tenant):
        return []
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        return [space for space in snapshot.list_spaces() if space]


def elsewhere(context: Context, access: Access, request: RecallRequest) -> Mapping[str, int]:
    """Return the number of matches in each other project, for a recall that found nothing in its own.

    One recall over all projects finds them, so they are at most 50 matches in all.
    """
    if (
        request.scope_filter is None
        or request.scope_filter.project is None
        or "project" in access.limits
    ):
        return {}
    scope = {name: value for name, value in request.scope.items() if name != "project"}
    anywhere = request.replace_fields(
        scope_filter=ScopeFilter.parse(scope), requested_limit=MAX_RECALL
    )
    matches: dict[str, int] = {}
    for hit in recall(context, access, anywhere):
        name = hit.record["scope"].get("project", "")
        matches[name] = matches.get(name, 0) + 1
    return dict(sorted(matches.items(), key=lambda pair: (-pair[1], pair[0])))


# --- one memory in every standard ----------------------------------------------------------------------------


def seen_as(context: Context, access: Access, name: str) -> dict[str, Any]:
    """Return a memory in UMP, OMS, OAMS and openwop, as the caller would get it there; without those that lack it."""
    now, name = context.clock(), resolve_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    views: dict[str, Any] = {}
    if not is_over(version.state, now):
        # Only UMP shows a tombstone.
        with context.engine.open_snapshot(version.tenant) as snapshot:
            views = _views_elsewhere(context, access, snapshot, version)
    entry = audit_entry(
        access, "get", now=now, targets=(name,), scope=scope_of(record), result="ok"
    )
    context.audit_read(version.tenant, entry)
    return {
        "UMP": redact_for_caller(context, access, record),
        **{standard: view for standard, view in views.items() if view is not None},
    }


def _views_elsewhere(
    context: Context, access: Access, snapshot: Snapshot, version: Version
) -> dict[str, Any]:
    """Return a version as OMS, OAMS and openwop show it; None where the standard does not show it."""
    space = version.state.space
    reachable = oams_views.Location(
        namespace=namespaces.namespace_of(space, version.tenant),
        tenant=version.tenant,
        space=space,
    )
    memory = oams_views.render_visible(context, access, snapshot, version, reachable)
    is_grain = oms_views.is_visible(context, access, snapshot, version)
    return {
        "OMS": oms_views.to_stored_grain(context, version).document() if is_grain else None,
        "OAMS": None if memory is None else memory.memory,
        "openwop": openwop.show_to(context, access, snapshot, version),
    }


# --- origins -------------------------------------------------------------------------------------------------


def origins(context: Context, access: Access, name: str) -> Origins:
    """Return the sources of a memory and the memories made from it, whichever standard wrote them."""
    now, name = context.clock(), resolve_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    with context.engine.open_snapshot(version.tenant) as snapshot:
        # The document of an erased memory is a tombstone, which names no sources and cannot be read as its standard.
        sources: Iterable[Version] = ()
        if not has_ended(version.state, now):
            sources = _find_sources(context, snapshot, version, record)
        derived_ids = dict.fromkeys(
            derived.memory_id
            for derived in lineage.find_derived_versions(snapshot, version.memory_id)
        )
        heads = (snapshot.load_newest(memory_id) for memory_id in derived_ids)
        result = Origins(
            sources=_show_visible(context, access, snapshot, sources, now),
            made=_show_visible(context, access, snapshot, heads, now),
            going=len(lineage.find_memories_going_with(snapshot, version.memory_id)),
        )
    targets = tuple(item["id"] for item in (record, *result.sources, *result.made))
    entry = audit_entry(
        access, "get", now=now, targets=targets, scope=scope_of(record), result="ok"
    )
    context.audit_read(version.tenant, entry)
    return result


def _find_sources(
    context: Context, snapshot: Snapshot, version: Version, record: Record
) -> Iterator[Version]:
    """Yield the memories that a version names as its sources."""
    relations = (
        relation.target
        for relation in project(context, version).relations
        if relation.type == DERIVED_FROM
    )
    evidence = (item["ref"] for item in record.get("provenance", {}).get("evidence", ()))
    seen_ids = {version.memory_id}
    for reference in dict.fromkeys((*relations, *evidence)):
        source = _find_source(context, snapshot, version, reference)
        if source is not None and source.memory_id not in seen_ids:
            seen_ids.add(source.memory_id)
            yield source


def _find_source(
    context: Context, snapshot: Snapshot, version: Version, reference: str
) -> Version | None:
    """Return the memory that a version refers to by a record's id, an address, an entry's id, or a namespace's key."""
    if reference.startswith(ID_PREFIX):
        return snapshot.find_by_name(UMP, reference)
    if reference.startswith(ADDRESS_PREFIX):
        return snapshot.find_by_name(OMS, reference.removeprefix(ADDRESS_PREFIX))
    space = version.state.space
    own_namespace = namespaces.namespace_of(space, version.tenant)
    namespace, key = oams.parse_reference(reference, own_namespace)
    reachable = oams_views.Location(namespace=namespace, tenant=version.tenant, space=space)
    is_same_namespace = namespace == own_namespace
    memory = (
        oams_memories.find_head(context, snapshot, reachable, key) if is_same_namespace else None
    )
    return memory or snapshot.find_by_name(OPENWOP, reference)


def _show_visible(
    context: Context, access: Access, snapshot: Snapshot, versions: Iterable[Version], now: Instant
) -> list[Record]:
    """Return the records of the versions that are intact and that the caller may see, at most SHOWN_LIMIT."""
    visible = (
        version
        for version in versions
        if not version.state.is_forgotten
        and is_intact(version)
        and can_see(context, access, snapshot, version)
    )
    views = (
        run_unless_damaged(version, partial(view_record, context, version, now))
        for version in visible
    )
    return [
        redact_for_caller(context, access, record)
        for record in islice(views, SHOWN_LIMIT)
        if record is not None
    ]


def list_over_time(
    context: Context,
    access: Access,
    instants: Sequence[Instant],
    *,
    project: str | None = None,
    with_ended: bool = False,
    limit: int,
) -> list[Record]:
    """Return memories that were true at these instants: for each instant the last updated ones, at most `limit`.

    Old memories are found although much was written since, because an instant selects only what had begun by then.
    `with_ended` adds the last updated ones whether they were true at one of the instants or not.
    """
    access.require("read")
    now, tenant = context.clock(), access.default_tenant
    scope = {**access.limits, "owner": tenant, **({"project": project} if project else {})}
    access.require_scope(scope)
    version_ids: dict[int, None] = {}
    selections = [Selection(at=instant) for instant in instants]
    if with_ended:
        selections.insert(0, Selection(status_filter="unforgotten"))
    with context.engine.open_snapshot(tenant) as snapshot:
        for selection in selections:
            within = replace(selection, space=scope.get("project"))
            reachable = restrict_selection(context, access, snapshot, within)
            for hit in snapshot.load_page(reachable, UPDATED, limit=limit, now=now):
                version_ids[hit.version_id] = None
        versions = _load_visible(context, access, snapshot, list(version_ids))
    return _view_versions(context, access, versions, scope, now)


def list_current(context: Context, access: Access, names: Sequence[str]) -> list[Record]:
    """Return those of the caller's memories with these ids that are still current, in the given order."""
    access.require("read")
    now, tenant = context.clock(), access.default_tenant
    scope = {**access.limits, "owner": tenant}
    with context.engine.open_snapshot(tenant) as snapshot:
        named_versions = (snapshot.find_by_name(UMP, name) for name in names)
        current = [
            version.version_id
            for version in named_versions
            if version is not None
            and version.state.is_head
            and not version.state.is_forgotten
            and not has_ended(version.state, now)
        ]
        versions = _load_visible(context, access, snapshot, current)
    return _view_versions(context, access, versions, scope, now)


def _load_visible(
    context: Context, access: Access, snapshot: Snapshot, version_ids: Sequence[int]
) -> list[Version]:
    """Return the versions that the caller may see, as far as they fit into an answer."""
    return [
        bind_to_line(context, snapshot, version)
        for version in snapshot.load_versions(snapshot.fit_into_bytes(version_ids, PAGE_BYTES))
        if not version.state.erased and can_see(context, access, snapshot, version)
    ]


def _view_versions(
    context: Context,
    access: Access,
    versions: Sequence[Version],
    scope: dict[str, str],
    now: Instant,
) -> list[Record]:
    """Return intact versions as records, and audit that they were listed."""
    views = (
        run_unless_damaged(version, partial(view_record, context, version, now))
        for version in versions
        if is_intact(version)
    )
    records = [redact_for_caller(context, access, record) for record in views if record is not None]
    audit_listing(context, access, records, scope, now)
    return records


def count_by_month(
    context: Context, access: Access, *, project: str | None = None
) -> dict[Instant, int]:
    """Return the number of current memories that were last updated in each month, by the month's beginning."""
    access.require("read")
    now, tenant = context.clock(), access.default_tenant
    with context.engine.open_snapshot(tenant) as snapshot:
        selection = restrict_selection(context, access, snapshot, Selection(at=now, space=project))
        groups = snapshot.count_groups(selection, "month", now=now)
    return {
        Instant(int(group.key) * MONTH_MS): group.count for group in groups if group.key is not None
    }
