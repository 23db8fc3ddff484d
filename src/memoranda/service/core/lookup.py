"""Finding a memory by its name, or by the beginning of its name, within what the caller may see."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from memoranda.errors import ForbiddenScope, InvalidInput, NotFound, SignatureInvalid
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import Kind, Version
from memoranda.model.selection import UPDATED, Selection
from memoranda.model.standard import OMS, Standard
from memoranda.service.core.access import Access
from memoranda.service.core.consent import may_read_personal, visibilities
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.views import holds, scope_of, show, unless_damaged, view
from memoranda.service.retrieve import PAGE_BYTES, reach, sees_everything
from memoranda.standards.ump import mapping
from memoranda.standards.ump.record import Record
from memoranda.storage.engine.contract import SLICE_VERSIONS, Snapshot

ID_PREFIX: Final = "urn:ump:"
# Of a beginning that is shown: 40 bits, which hardly ever two memories of one owner share; then more is shown.
SHORT_CHARS: Final = 8
# By standard: what its names begin with, and the rest of a name that may be the beginning of a longer one.
_BEGINNINGS: Final[Mapping[str, tuple[str, re.Pattern[str]]]] = {
    mapping.STANDARD: (ID_PREFIX, re.compile(r"[a-z2-7]{4,51}", re.ASCII)),
    OMS: ("", re.compile(r"[0-9a-f]{4,63}", re.ASCII)),
}
# As many are counted when a beginning is too short.
_SHARING_LIMIT: Final = 100


def whole_name(
    context: Context, access: Access, name: str, *, standard: str = mapping.STANDARD
) -> str:
    """The name that its beginning stands for, as git has it; what is no beginning of any is given back as it is.

    Only the caller's own memories are looked at, and of these only what it may see: a name of another owner's takes the
    same way as one that nobody has. Raises InvalidInput where several begin so.
    """
    prefix, beginning = _BEGINNINGS[standard]
    rest = name.removeprefix(prefix)
    if beginning.fullmatch(rest) is None:
        return name
    with context.engine.read(access.tenant or access.default_tenant) as snapshot:
        named = dict(snapshot.find_names_by_prefix(standard, prefix + rest, _SHARING_LIMIT))
        if prefix + rest in named:
            return prefix + rest
        if not sees_everything(access, snapshot.tenant):
            versions = snapshot.load_versions(list(named.values()))
            seen = {each.version_id for each in versions if sees(context, access, snapshot, each)}
            named = {each: version_id for each, version_id in named.items() if version_id in seen}
    if len(named) > 1:
        many = f"{len(named)}{' or more' if len(named) == _SHARING_LIMIT else ''}"
        raise InvalidInput(f"{many} memories begin with {rest}; give more of the id")
    return next(iter(named), name)


def short_ids(context: Context, access: Access, names: Sequence[str]) -> dict[str, str]:
    """The beginnings by which the caller can name these memories; of those that are not its own the whole names."""
    short: dict[str, str] = {}
    with context.engine.read(access.tenant or access.default_tenant) as snapshot:
        for name in names:
            short[name] = _short(snapshot, name)
    return short


def _short(snapshot: Snapshot, name: str) -> str:
    rest = name.removeprefix(ID_PREFIX)
    for size in range(SHORT_CHARS, len(rest), 4):
        sharing = len(snapshot.find_names_by_prefix(mapping.STANDARD, ID_PREFIX + rest[:size], 2))
        if sharing == 0:
            return name
        if sharing == 1:
            return rest[:size]
    return name


def sees(context: Context, access: Access, snapshot: Snapshot, version: Version) -> bool:
    """Whether a memory may be shown to the caller, whole or in part."""
    scope = unless_damaged(version, lambda: scope_of(view(context, version, context.clock())))
    if (
        scope is None
        or scope["visibility"] not in visibilities(context, access, snapshot)
        or not access.within(scope)
    ):
        return False
    return may_read_personal(context, access, snapshot, version)


def find_own(
    context: Context, access: Access, name: str, now: Instant, *, standard: str = mapping.STANDARD
) -> Version:
    """A memory the caller's credential reaches and its token allows. For changing it."""
    version = _locate(context, access, name, standard, reachable_only=True)
    scope = scope_of(view(context, version, now))
    if scope["visibility"] not in access.visibilities(version.tenant):
        raise NotFound(f"no memory {name}")
    access.require_scope(scope)
    return version


def find_visible(
    context: Context, access: Access, name: str, now: Instant, *, standard: str = mapping.STANDARD
) -> tuple[Version, Record]:
    """A memory the caller may see, as a verified record, not yet redacted."""
    version = _locate(context, access, name, standard, reachable_only=False)
    record = view(context, version, now)
    with context.engine.read(version.tenant) as snapshot:
        is_seen = scope_of(record)["visibility"] in visibilities(context, access, snapshot)
        is_allowed = may_read_personal(context, access, snapshot, version)
    if not is_seen:
        raise NotFound(f"no memory {name}")
    access.require_scope(scope_of(record))
    if not holds(version):
        # UMP L3: integrity is verified on read.
        raise SignatureInvalid(
            "the stored record does not match its signature; run 'memoranda verify'"
        )
    if not is_allowed:
        raise NotFound(f"no memory {name}")
    return version, record


def get(context: Context, access: Access, name: str) -> Record:
    """One record by its id (UMP §3.4)."""
    now, name = context.clock(), whole_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    entry = audit_entry(
        access, "get", now=now, targets=(name,), scope=scope_of(record), result="ok"
    )
    context.audit_read(version.tenant, entry)
    return show(context, access, record)


def history(context: Context, access: Access, name: str) -> list[dict[str, object]]:
    """All versions of the memory this id belongs to, oldest first."""
    found, after = history_page(context, access, name)
    while after is not None:
        page, after = history_page(context, access, name, after=after)
        found += page
    return found


def history_page(
    context: Context, access: Access, name: str, *, after: int = 0
) -> tuple[list[dict[str, object]], int | None]:
    """The versions of the memory this id belongs to, oldest first, as many as fit into an answer.

    `after` is how many were passed over before.
    """
    now, name = context.clock(), whole_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    with context.engine.read(version.tenant) as snapshot:
        visible = visibilities(context, access, snapshot)
        left = snapshot.list_history_ids(version.memory_id)[after:]
        fitting = snapshot.fit_into_bytes(left[:SLICE_VERSIONS], PAGE_BYTES)
        versions = [
            each
            for each in snapshot.load_versions(fitting)
            if may_read_personal(context, access, snapshot, each)
        ]
    entry = audit_entry(
        access, "history", now=now, targets=(name,), scope=scope_of(record), result="ok"
    )
    context.audit_read(version.tenant, entry)
    shown: list[dict[str, object]] = []
    for each in versions:
        one = unless_damaged(each, lambda each=each: view(context, each, now))  # type: ignore[misc]
        if (
            one is not None
            and scope_of(one)["visibility"] in visible
            and access.within(scope_of(one))
        ):
            shown.append(
                {
                    "record": show(context, access, one),
                    "recorded": format_instant(each.state.recorded),
                    "replaced": None
                    if each.state.retired is None
                    else format_instant(each.state.retired),
                    "verified": holds(each),
                }
            )
    return shown, (after + len(fitting) if len(left) > len(fitting) else None)


def list_records(
    context: Context,
    access: Access,
    *,
    project: str | None = None,
    user: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    kinds: tuple[Kind, ...] | None = None,
    tags: Sequence[str] = (),
    standard: Standard | None = None,
    since: Instant | None = None,
    valid_at: Instant | None = None,
    known_at: Instant | None = None,
    after: int = 0,
    limit: int = 50,
) -> tuple[list[Record], int | None]:
    """What is current, last updated first, a page at a time; `after` is how many were passed over before.

    `valid_at`: what was true then instead; `known_at`: what this store knew then.
    """
    now = context.clock()
    tenant = access.default_tenant
    named = {"project": project, "agent": agent}
    scope = {
        **access.limits,
        "owner": tenant,
        **{name: value for name, value in named.items() if value is not None},
    }
    access.require_scope(scope)
    asked = Selection(
        at=now if valid_at is None else valid_at,
        known_at=known_at,
        space=scope.get("project"),
        user=user,
        agent=scope.get("agent"),
        session=session,
        kinds=kinds,
        tags=tuple(tag.lower() for tag in tags),
        standard=standard,
        since=since,
    )
    with context.engine.read(tenant) as snapshot:
        where = reach(context, access, snapshot, asked)
        if where.space is None and where.agent is None and asked == Selection(at=now):
            # Nothing is asked for that a record might hide, so what is shown in part is listed, too.
            where = replace(where, redacted=None)
        found = snapshot.load_page(where, UPDATED, limit=limit + 1, offset=after, now=now)
        fitting = snapshot.fit_into_bytes([each.version_id for each in found[:limit]], PAGE_BYTES)
        versions = snapshot.load_versions(fitting)
    # UMP L3: integrity is verified on read.
    readable = [version for version in versions if not version.state.erased and holds(version)]
    records = [show(context, access, view(context, version, now)) for version in readable]
    targets = tuple(record["id"] for record in records)
    entry = audit_entry(
        access, "list", now=now, targets=targets, scope=scope, result=f"{len(records)} records"
    )
    context.audit_read(tenant, entry)
    return records, (after + len(fitting) if len(found) > len(fitting) else None)


def _locate(
    context: Context, access: Access, name: str, standard: str, *, reachable_only: bool
) -> Version:
    """The caller's own memory of that name, else one that is public. Another's private one does not exist."""
    if access.tenant is not None:
        version = _named(context, access.tenant, standard, name)
        if version is not None:
            return version
        if not reachable_only:
            # What others have that is not public is not even looked for: the time it takes would tell that it is there.
            for tenant in context.engine.system.find_tenants_with_public_name(standard, name):
                version = _named(context, tenant, standard, name)
                if version is not None and _is_visible(context, access, version):
                    return version
    else:
        holders = context.engine.system.find_tenants_with_name(standard, name)
        if len(holders) > 1:
            raise ForbiddenScope(f"several owners hold {name}; use a credential of one of them")
        for tenant in holders:
            if (version := _named(context, tenant, standard, name)) is not None:
                return version
    raise NotFound(f"no memory {name}")


def _named(context: Context, tenant: str, standard: str, name: str) -> Version | None:
    with context.engine.read(tenant) as snapshot:
        return snapshot.find_by_name(standard, name)


def _is_visible(context: Context, access: Access, version: Version) -> bool:
    scope = unless_damaged(version, lambda: scope_of(view(context, version, context.clock())))
    with context.engine.read(version.tenant) as snapshot:
        seen = visibilities(context, access, snapshot)
    return scope is not None and scope["visibility"] in seen and version.state.tombstoned is None
