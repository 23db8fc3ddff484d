"""Lookup of memories by name, by the beginning of a name, or as a list, within what the caller may see.

`find_own` is for changing a memory: it must belong to the caller's own tenant. `find_visible` is for reading: public
memories of other owners are found, too. A memory that exists but may not be seen is "not found", after the same work as
one that does not exist. Names may be abbreviated like commit ids in git (`resolve_name`).

The verbs `get_record`, `read_history_page` and `list_records` verify each record on reading (UMP L3), redact it, and
put the read into the audit log.

Equal work for "not there" and "not yours" matters: a caller who measures time must not learn which ids exist. So the
checks come after the lookup, and other owners' private memories are not looked up at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from memoranda.encoding.json_text import is_unicode
from memoranda.errors import ForbiddenScope, InvalidInput, NotFound, SignatureInvalid
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import OMS, UMP, Kind, Standard, Version
from memoranda.model.selection import UPDATED, Selection
from memoranda.service.core.access import Access
from memoranda.service.core.compliance import may_read_personal, readable_visibilities
from memoranda.service.core.context import Context, audit_entry, describe_count
from memoranda.service.core.memory_line import bind_to_line, may_see_forgotten
from memoranda.service.core.views import (
    is_intact,
    redact_for_caller,
    run_unless_damaged,
    scope_of,
    view_record,
)
from memoranda.service.retrieve import PAGE_BYTES, restrict_selection, sees_everything
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
    """Return the full name that an abbreviation stands for; a text that is no abbreviation is returned as it is.

    Only memories that the caller may see, in its own tenant, are considered: an unknown name and another owner's are
    treated alike. Raises InvalidInput if several names begin so.

    `standard` decides what an abbreviation looks like. At least four characters are needed, because shorter ones are
    rarely unique.
    """
    prefix, beginning = _PREFIX_PATTERNS[standard]
    if not is_unicode(name):
        raise InvalidInput("the name of a memory has no lone surrogate")
    start = name.removeprefix(prefix)
    if beginning.fullmatch(start) is None:
        return name
    with context.engine.open_snapshot(access.tenant or access.default_tenant) as snapshot:
        candidates = dict(
            snapshot.find_names_by_prefix(standard, prefix + start, _SHARED_PREFIX_LIMIT)
        )
        if prefix + start in candidates:
            return prefix + start
        if not sees_everything(access, snapshot.tenant):
            versions = snapshot.load_versions(list(candidates.values()))
            seen_ids = {
                candidate.version_id
                for candidate in versions
                if can_see(context, access, snapshot, candidate)
            }
            candidates = {
                candidate: version_id
                for candidate, version_id in candidates.items()
                if version_id in seen_ids
            }
    if len(candidates) > 1:
        many = f"{len(candidates)}{' or more' if len(candidates) == _SHARED_PREFIX_LIMIT else ''}"
        raise InvalidInput(f"{many} memories begin with {start}; give more of the id")
    return next(iter(candidates), name)


def shorten_ids(context: Context, access: Access, names: Sequence[str]) -> dict[str, str]:
    """Return the shortest ids by which the caller can name memories; full names for memories of others."""
    short_ids: dict[str, str] = {}
    with context.engine.open_snapshot(access.tenant or access.default_tenant) as snapshot:
        for name in names:
            short_ids[name] = _shorten_id(snapshot, name)
    return short_ids


def _shorten_id(snapshot: Snapshot, name: str) -> str:
    """Return the shortest unambiguous beginning of an id, at least eight characters; foreign names stay as they are."""
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
    """Return True if a memory may be shown to the caller, complete or in part.

    For listing. It does not check the signature and records nothing in the audit log.
    """
    now = context.clock()
    version = bind_to_line(context, snapshot, version)
    scope = run_unless_damaged(version, lambda: scope_of(view_record(context, version, now)))
    if (
        scope is None
        or scope["visibility"] not in readable_visibilities(context, access, snapshot)
        or not access.allows_scope(scope)
        or not may_see_forgotten(access, version, now)
    ):
        return False
    return may_read_personal(context, access, snapshot, version)


def find_own(
    context: Context, access: Access, name: str, now: Instant, *, standard: str = mapping.STANDARD
) -> Version:
    """Return a memory of the caller's own tenant that its credential may change. Raises NotFound or ForbiddenScope.

    The result may be forgotten or superseded; the verb decides what that means. It checks the scope of a token against
    the stored record, not against the request.
    """
    version = _locate_version(context, access, name, standard, reachable_only=True)
    with context.engine.open_snapshot(version.tenant) as snapshot:
        bound = bind_to_line(context, snapshot, version)
    scope = scope_of(view_record(context, bound, now))
    if scope["visibility"] not in access.visibilities(version.tenant):
        raise NotFound(f"no memory {name}")
    access.require_scope(scope)
    return version


def find_visible(
    context: Context, access: Access, name: str, now: Instant, *, standard: str = mapping.STANDARD
) -> tuple[Version, Record]:
    """Return a memory that the caller may see, and its verified record, which is not redacted yet. Raises NotFound.

    The record is complete. Redact it with `redact_for_caller` before it leaves.
    """
    version = _locate_version(context, access, name, standard, reachable_only=False)
    with context.engine.open_snapshot(version.tenant) as snapshot:
        version = bind_to_line(context, snapshot, version)
        record = view_record(context, version, now)
        is_seen = scope_of(record)["visibility"] in readable_visibilities(context, access, snapshot)
        is_allowed = may_read_personal(context, access, snapshot, version)
    if not is_seen or not may_see_forgotten(access, version, now):
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
    """Return a record by its id (UMP §3.4). Raises NotFound."""
    now, name = context.clock(), resolve_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    entry = audit_entry(
        access, "get", now=now, targets=(name,), scope=scope_of(record), result="ok"
    )
    context.audit_read(version.tenant, entry)
    return redact_for_caller(context, access, record)


def read_history(context: Context, access: Access, name: str) -> list[dict[str, object]]:
    """Return all versions of the memory that has this id, oldest first."""
    entries, after = read_history_page(context, access, name)
    while after is not None:
        page, after = read_history_page(context, access, name, after=after)
        entries += page
    return entries


def read_history_page(
    context: Context, access: Access, name: str, *, after: int = 0
) -> tuple[list[dict[str, object]], int | None]:
    """Return a page of the versions of the memory that has this id, oldest first, and where the next page begins.

    `after` is the number of versions that earlier pages covered. The second value is None on the last page.

    Pages are limited in bytes as well as in number (PAGE_BYTES), so a page may be shorter than expected and still have
    a successor.
    """
    now, name = context.clock(), resolve_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    with context.engine.open_snapshot(version.tenant) as snapshot:
        visible = readable_visibilities(context, access, snapshot)
        version_ids = snapshot.list_history_ids(version.memory_id)[after:]
        fitting = snapshot.fit_into_bytes(version_ids[:SLICE_VERSIONS], PAGE_BYTES)
        line_versions = (
            bind_to_line(context, snapshot, entry_version)
            for entry_version in snapshot.load_versions(fitting)
        )
        versions = [
            entry_version
            for entry_version in line_versions
            if may_see_forgotten(access, entry_version, now)
            and may_read_personal(context, access, snapshot, entry_version)
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
        if entry_record is None:
            continue
        scope, state = scope_of(entry_record), entry_version.state
        if scope["visibility"] not in visible or not access.allows_scope(scope):
            continue
        entries.append(
            {
                "record": redact_for_caller(context, access, entry_record),
                "recorded": format_instant(state.recorded),
                "replaced": None if state.retired is None else format_instant(state.retired),
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
    """Return a page of current records, last updated first, and where the next page begins; None on the last page.

    `after` is the number of records that earlier pages covered. `valid_at` selects what was true at that time instead,
    `known_at` what this store knew at that time.

    `since` selects what was updated at or after an instant. Times are instants in milliseconds. The page is cut to
    PAGE_BYTES.
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
    with context.engine.open_snapshot(tenant) as snapshot:
        reachable = restrict_selection(context, access, snapshot, selection)
        if reachable.space is None and reachable.agent is None and selection == Selection(at=now):
            # No filter can reveal a redacted value, so partly hidden records are listed, too.
            reachable = replace(reachable, redacted=None)
        selected_page = snapshot.load_page(
            reachable, UPDATED, limit=limit + 1, offset=after, now=now
        )
        version_ids = [hit.version_id for hit in selected_page[:limit]]
        fitting = snapshot.fit_into_bytes(version_ids, PAGE_BYTES)
        versions = [
            bind_to_line(context, snapshot, version) for version in snapshot.load_versions(fitting)
        ]
    # UMP L3: integrity is verified on read.
    readable = [version for version in versions if not version.state.erased and is_intact(version)]
    records = [
        redact_for_caller(context, access, view_record(context, version, now))
        for version in readable
    ]
    audit_listing(context, access, records, scope, now)
    return records, (after + len(fitting) if len(selected_page) > len(fitting) else None)


def is_erased(context: Context, access: Access, name: str) -> bool:
    """Return True if the caller's own version of that name was erased."""
    version = _load_named(context, access.default_tenant, UMP, name)
    return version is not None and version.state.erased


def _locate_version(
    context: Context, access: Access, name: str, standard: str, *, reachable_only: bool
) -> Version:
    """Return the caller's own memory of that name, else a public one of another owner. Raises NotFound."""
    if access.tenant is not None:
        version = _load_named(context, access.tenant, standard, name)
        if version is not None:
            return version
        if not reachable_only:
            # Memories of others that are not public are not looked for: the time it takes would reveal them.
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
    with context.engine.open_snapshot(tenant) as snapshot:
        return snapshot.find_by_name(standard, name)


def _is_publicly_visible(context: Context, access: Access, version: Version) -> bool:
    """Return True if a memory of another owner is current and visible to the caller."""
    with context.engine.open_snapshot(version.tenant) as snapshot:
        version = bind_to_line(context, snapshot, version)
        visibilities = readable_visibilities(context, access, snapshot)
    scope = run_unless_damaged(
        version, lambda: scope_of(view_record(context, version, context.clock()))
    )
    return (
        scope is not None
        and scope["visibility"] in visibilities
        and version.state.tombstoned is None
    )


def audit_listing(
    context: Context,
    access: Access,
    records: Sequence[Record],
    scope: dict[str, str],
    now: Instant,
) -> None:
    """Put into the audit log that records were listed."""
    entry = audit_entry(
        access,
        "list",
        now=now,
        targets=tuple(record["id"] for record in records),
        scope=scope,
        result=describe_count(len(records), "record"),
    )
    context.audit_read(access.default_tenant, entry)
