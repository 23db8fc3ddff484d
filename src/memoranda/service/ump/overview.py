"""How much there is, and where: for who looks around, and for who found nothing where he looked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

import msgspec
from msgspec.structs import replace

from memoranda.model.selection import Selection
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.retrieve import reach, sees_everything
from memoranda.service.ump.recall import recall
from memoranda.standards.ump.capability import MAX_RECALL
from memoranda.standards.ump.requests import RecallRequest, ScopeFilter
from memoranda.standards.ump.shapes import Kind

# More projects than a person can take in; those with the most are named.
PROJECTS_LIMIT: Final = 100
_KINDS: Final = get_args(Kind)


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller can see of a memory: how many memories, by kind and by project ("" for none)."""

    memories: int
    kinds: Mapping[str, int]
    projects: Mapping[str, int]
    # Of all documents; None for who sees a part of them.
    bytes: int | None


def stats(context: Context, access: Access) -> Stats:
    """How much is remembered now, of what kind and where."""
    now, tenant = context.clock(), access.default_tenant
    with context.engine.read(tenant) as snapshot:
        kinds, projects = dict.fromkeys(_KINDS, 0), dict[str, int]()
        if sees_everything(access, tenant):
            used = snapshot.usage()[1]
            for (space, kind), count in snapshot.tally(now=now).items():
                kinds[kind] += count
                projects[space] = projects.get(space, 0) + count
        else:
            used = None
            where = reach(context, access, snapshot, Selection(at=now))
            spaces = snapshot.spaces() if where.space is None else [where.space]
            kinds = {
                kind: snapshot.count(replace(where, kinds=(kind,)), now=now) for kind in _KINDS
            }
            projects = {
                space: snapshot.count(replace(where, space=space), now=now) for space in spaces
            }
    largest = sorted(projects, key=lambda space: (-projects[space], space))[:PROJECTS_LIMIT]
    return Stats(
        memories=sum(kinds.values()),
        kinds={kind: count for kind, count in kinds.items() if count},
        projects={space: projects[space] for space in largest if projects[space]},
        bytes=used,
    )


def projects(context: Context, access: Access) -> list[str]:
    """The projects in which there is or was anything, by name; of who sees a part, only the one it is limited to."""
    if "project" in access.limits:
        return [access.limits["project"]]
    if not sees_everything(access, access.default_tenant):
        return []
    with context.engine.read(access.default_tenant) as snapshot:
        return [space for space in snapshot.spaces() if space]


def elsewhere(context: Context, access: Access, request: RecallRequest) -> Mapping[str, int]:
    """In which other projects a question that found nothing in one has answers, and how many, up to 50 in all."""
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
    found: dict[str, int] = {}
    for each in recall(context, access, anywhere):
        project = each.record["scope"].get("project", "")
        found[project] = found.get(project, 0) + 1
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))
