"""Finding a memory by its name, or by the beginning of its name, within what the caller may see."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from memoranda.errors import ForbiddenScope, InvalidInput, NotFound, SignatureInvalid
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import OMS, Kind, Standard, Version
from memoranda.model.selection import UPDATED, Selection
from memoranda.service.core.access import Access
from memoranda.service.core.consent import may_read_personal, readable_visibilities
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.views import (
    is_intact,
    redact_for_caller,
    run_unless_damaged,
    scope_of,
    view_record,
)
from memoranda.service.retrieve import PAGE_BYTES, reach, sees_everything
from memoranda.standards.ump import mapping
from memoranda.standards.ump.record import Record
from memoranda.storage.engine.contract import SLICE_VERSIONS, Snapshot

ID_PREFIX: Final = "urn:ump:"
# Characters of a short id: 40 bits, which two memories of one owner hardly ever share. If they do, more are shown.
SHORT_CHARS: Final = 8
# By standard: the prefix of its names, and the pattern of what may follow it in an abbreviated name.
_PREFIX_PATTERNS: Final[Mapping[str, tuple[str, re.Pattern[str]]]] = {
    mapping.STANDARD: (ID_PREFIX, re.compile(r"[a-z2-7]{4,51}", re.ASCII)),
    OMS: ("", re.compile(r"[0-9a-f]{4,63}", re.ASCII)),
}
# Memories counted when a prefix is ambiguous.
_SHARED_PREFIX_LIMIT: Final = 100


def resolve_name(
    context: Context, access: Access, name: str, *, standard: str = mapping.STANDARD
) -> str:
    """The name that its beginning stands for, as git has it; what is no beginning of any is given back as it is.

    Only the caller's own memories are looked at, and of these only what it may see: a name of another owner's takes the
    same way as one that nobody has. Raises InvalidInput where several begin so.
    """
    prefix, beginning = _PREFIX_PATTERNS[standard]
    start = name.removeprefix(prefix)
    if beginning.fullmatch(start) is None:
        return name
    with context.engine.read(access.tenant or access.default_tenant) as snapshot:
        candidates = dict(
            snapshot.find_names_by_prefix(standard, prefix + start, _SHARED_PREFIX_LIMIT)
        )
        if prefix + start in candidates:
            return prefix + start
        if not sees_everything(access, snapshot.tenant):
            versions = snapshot.load_versions(list(candidates.values()))
            seen = {
                candidate.version_id
                for candidate in versions
                if can_see(context, access, snapshot, candidate)
            }
            candidates = {
                candidate: version_id
                for candidate, version_id in candidates.items()
                if version_id in seen
            }
    if len(candidates) > 1:
        many = f"{len(candidates)}{' or more' if len(candidates) == _SHARED_PREFIX_LIMIT else ''}"
        raise InvalidInput(f"{many} memories begin with {start}; give more of the id")
    return next(iter(candidates), name)


def shorten_ids(context: Context, access: Access, names: Sequence[str]) -> dict[str, str]:
    """The beginnings by which the caller can name these memories; of those that are not its own the whole names."""
    short: dict[str, str] = {}
    with context.engine.read(access.tenant or access.default_tenant) as snapshot:
        for name in names:
            short[name] = _shorten_id(snapshot, name)
    return short


def _shorten_id(snapshot: Snapshot, name: str) -> str:
    id_part = name.removeprefix(ID_PREFIX)
    for size in range(SHORT_CHARS, len(id_part), 4):
        sharing = len(
            snapshot.find_names_by_prefix(mapping.STANDARD, ID_PREFIX + id_part[:size], 2)
        )
        if sharing == 0:
            return name
        if sharing == 1:
            return id_part[:size]
    return name


def can_see(context: Context, access: Access, snapshot: Snapshot, version: Version) -> bool:
    """Whether a memory may be shown to the caller, whole or in part."""
    scope = run_unless_damaged(
        version, lambda: scope_of(view_record(context, version, context.clock()))
    )
    if (
        scope is None
        or scope["visibility"] not in readable_visibilities(context, access, snapshot)
        or not access.allows_scope(scope)
    ):
        return False
    return may_read_personal(context, access, snapshot, version)


def find_own(
    context: Context, access: Access, name: str, now: Instant, *, standard: str = mapping.STANDARD
) -> Version:
    """A memory the caller's credential reaches and its token allows. For changing it."""
    version = _locate_version(context, access, name, standard, reachable_only=True)
    scope = scope_of(view_record(context, version, now))
    if scope["visibility"] not in access.visibilities(version.tenant):
        raise NotFound(f"no memory {name}")
    access.require_scope(scope)
    return version


def find_visible(
    context: Context, access: Access, name: str, now: Instant, *, standard: str = mapping.STANDARD
) -> tuple[Version, Record]:
    """A memory the caller may see, as a verified record, not yet redacted."""
    version = _locate_version(context, access, name, standard, reachable_only=False)
    record = view_record(context, version, now)
    with context.engine.read(version.tenant) as snapshot:
        is_seen = scope_of(record)["visibility"] in readable_visibilities(context, access, snapshot)
        is_allowed = may_read_personal(context, access, snapshot, version)
    if not is_seen:
        raise NotFound(f"no memory {name}")
    access.require_scope(scope_of(record))
    if not is_intact(version):
        # UMP L3: integrity is verified on read.
        raise SignatureInvalid(
            "the stored record does not match its signature; run 'memoranda verify'"
        )
    if not is_allowed:
        raise NotFound(f"no memory {name}")
    return version, record


def get_record(context: Context, access: Access, name: str) -> Record:
    """One record by its id (UMP §3.4)."""
    now, name = context.clock(), resolve_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    entry = audit_entry(
        access, "get", now=now, targets=(name,), scope=scope_of(record), result="ok"
    )
    context.audit_read(version.tenant, entry)
    return redact_for_caller(context, access, record)


def read_history(context: Context, access: Access, name: str) -> list[dict[str, object]]:
    """All versions of the memory this id belongs to, oldest first."""
    entries, after = read_history_page(context, access, name)
    while after is not None:
        page, after = read_history_page(context, access, name, after=after)
        entries += page
    return entries


def read_history_page(
    context: Context, access: Access, name: str, *, after: int = 0
) -> tuple[list[dict[str, object]], int | None]:
    """The versions of the memory this id belongs to, oldest first, as many as fit into an answer.

    `after` is how many were passed over before.
    """
    now, name = context.clock(), resolve_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    with context.engine.read(version.tenant) as snapshot:
        visible = readable_visibilities(context, access, snapshot)
        version_ids = snapshot.list_history_ids(version.memory_id)[after:]
        fitting = snapshot.fit_into_bytes(version_ids[:SLICE_VERSIONS], PAGE_BYTES)
        versions = [
            entry_version
            for entry_version in snapshot.load_versions(fitting)
            if may_read_personal(context, access, snapshot, entry_version)
        ]
    entry = audit_entry(
        access, "history", now=now, targets=(name,), scope=scope_of(record), result="ok"
    )
    context.audit_read(version.tenant, entry)
    entries: list[dict[str, object]] = []
    for entry_version in versions:
        entry_record = run_unless_damaged(
            entry_version,
            partial(view_record, context, entry_version, now),
        )
        if (
            entry_record is not None
            and scope_of(entry_record)["visibility"] in visible
            and access.allows_scope(scope_of(entry_record))
        ):
            entries.append(
                {
                    "record": redact_for_caller(context, access, entry_record),
                    "recorded": format_instant(entry_version.state.recorded),
                    "replaced": None
                    if entry_version.state.retired is None
                    else format_instant(entry_version.state.retired),
                    "verified": is_intact(entry_version),
                }
            )
    return entries, (after + len(fitting) if len(version_ids) > len(fitting) else None)


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
    requested = {"project": project, "agent": agent}
    scope = {
        **access.limits,
        "owner": tenant,
        **{name: value for name, value in requested.items() if value is not None},
    }
    access.require_scope(scope)
    selection = Selection(
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
        where = reach(context, access, snapshot, selection)
        if where.space is None and where.agent is None and selection == Selection(at=now):
            # Nothing is asked for that a record might hide, so what is shown in part is listed, too.
            where = replace(where, redacted=None)
        selected = snapshot.load_page(where, UPDATED, limit=limit + 1, offset=after, now=now)
        fitting = snapshot.fit_into_bytes(
            [each.version_id for each in selected[:limit]], PAGE_BYTES
        )
        versions = snapshot.load_versions(fitting)
    # UMP L3: integrity is verified on read.
    readable = [version for version in versions if not version.state.erased and is_intact(version)]
    records = [
        redact_for_caller(context, access, view_record(context, version, now))
        for version in readable
    ]
    targets = tuple(record["id"] for record in records)
    entry = audit_entry(
        access, "list", now=now, targets=targets, scope=scope, result=f"{len(records)} records"
    )
    context.audit_read(tenant, entry)
    return records, (after + len(fitting) if len(selected) > len(fitting) else None)


def _locate_version(
    context: Context, access: Access, name: str, standard: str, *, reachable_only: bool
) -> Version:
    """The caller's own memory of that name, else one that is public. Another's private one does not exist."""
    if access.tenant is not None:
        version = _load_named(context, access.tenant, standard, name)
        if version is not None:
            return version
        if not reachable_only:
            # What others have that is not public is not even looked for: the time it takes would tell that it is there.
            for tenant in context.engine.system.find_tenants_with_public_name(standard, name):
                version = _load_named(context, tenant, standard, name)
                if version is not None and _is_publicly_visible(context, access, version):
                    return version
    else:
        holders = context.engine.system.find_tenants_with_name(standard, name)
        if len(holders) > 1:
            raise ForbiddenScope(f"several owners hold {name}; use a credential of one of them")
        for tenant in holders:
            if (version := _load_named(context, tenant, standard, name)) is not None:
                return version
    raise NotFound(f"no memory {name}")


def _load_named(context: Context, tenant: str, standard: str, name: str) -> Version | None:
    with context.engine.read(tenant) as snapshot:
        return snapshot.find_by_name(standard, name)


def _is_publicly_visible(context: Context, access: Access, version: Version) -> bool:
    scope = run_unless_damaged(
        version, lambda: scope_of(view_record(context, version, context.clock()))
    )
    with context.engine.read(version.tenant) as snapshot:
        seen = readable_visibilities(context, access, snapshot)
    return scope is not None and scope["visibility"] in seen and version.state.tombstoned is None
