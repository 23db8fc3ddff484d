"""Tenants as the operator sees them: what each stores, its quota, its export, and its deletion.

Only the operator may call these functions: the person at the machine, a token for all owners, or a key of the
operator's own memory with all scopes. No answer contains a memory, but for the export.

An export has everything that the store holds of a tenant, as the store holds it: also documents that their consent
excludes from an ordinary export, the audit log, runs and small items. It is read page by page (`export_page`).

These functions back `memoranda tenant …` and the routes under `/v1/admin`. They deliberately show amounts and not
content, because an operator need not be allowed to read. The export is the exception; it is for the owner's right to a
copy of everything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, get_args

import msgspec

from memoranda.encoding.bases import base64_encode
from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, NotFound
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import Version
from memoranda.model.selection import Selection
from memoranda.service.core.access import ALL_VERBS, Access, Gate
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.limits import NO_GRANT, QuotaGrant, parse_grant, set_grant
from memoranda.service.retrieve import read_page
from memoranda.storage.engine.contract import Snapshot, TenantUsage

# The parts of an export. Everything is stored in one of them, but for keys, which `describe` lists, and indexes.
ExportPart = Literal["documents", "audit", "runs", "run_events", "items", "commitments"]
EXPORT_PARTS: Final = get_args(ExportPart)
# Lines in a page of an export.
_PAGE: Final = 500
_Page = tuple[list[dict[str, Any]], int | None]


class TenantSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant with the amounts that it stores, its open keys, and the quota that the operator gave it."""

    usage: TenantUsage
    # Stands for the owner in logs.
    fingerprint: str
    keys: int
    grant: QuotaGrant

    def document(self) -> dict[str, Any]:
        """Return the tenant as JSON."""
        return {
            "owner": self.usage.tenant,
            "memories": self.usage.memories,
            "versions": self.usage.versions,
            "bytes": self.usage.bytes,
            "keys": self.keys,
            "quota": msgspec.to_builtins(self.grant),
            "fingerprint": self.fingerprint,
        }


def require_operator(context: Context, access: Access, verb: str) -> None:
    """Raise ForbiddenScope unless the caller is the operator, with the right to a verb."""
    if access.credential == "local":
        return
    access.require(verb)
    is_own = access.tenant == context.operator.did and access.verbs >= ALL_VERBS
    if access.is_narrowed or access.is_peer or not (access.is_operator or is_own):
        raise ForbiddenScope("only the operator may manage tenants")


def list_tenants(context: Context, access: Access, gate: Gate) -> list[TenantSummary]:
    """Return all tenants, oldest first. Owners with keys and no memories come last."""
    require_operator(context, access, "read")
    now = context.clock()
    every_key = gate.keys()
    keys = Counter(key.tenant for key in every_key if key.is_open(now))
    usages = context.engine.system.measure_tenants()
    names = {usage.tenant for usage in usages}
    usages += [
        TenantUsage(tenant=name, memories=0, versions=0, bytes=0)
        for name in sorted(keys.keys() - names)
    ]
    return [
        TenantSummary(
            usage=usage,
            fingerprint=gate.fingerprint_owner(usage.tenant),
            keys=keys[usage.tenant],
            grant=_grant_of(context, usage.tenant),
        )
        for usage in usages
    ]


def describe_tenant(context: Context, access: Access, gate: Gate, owner: str) -> TenantSummary:
    """Return one tenant. Raises NotFound."""
    for summary in list_tenants(context, access, gate):
        if summary.usage.tenant == owner:
            return summary
    raise NotFound(f"this store has no owner {owner}")


def set_quota(context: Context, access: Access, owner: str, grant: QuotaGrant) -> None:
    """Give a tenant limits of its own in place of the server's. Memories that are stored already stay."""
    require_operator(context, access, "write")
    _require_tenant(context, owner)
    fields = {
        name: value for name, value in msgspec.structs.asdict(grant).items() if value is not None
    }
    entry = audit_entry(
        access, "quota", now=context.clock(), scope={"owner": owner}, result="ok", meta=fields
    )
    set_grant(context, owner, grant, entry)


def delete_tenant(
    context: Context, access: Access, gate: Gate, owner: str, *, reason: str
) -> TenantUsage:
    """Delete a tenant with everything it stored, and return what that was.

    The operator's audit log records it with the reason and the owner's fingerprint, not with the name. Raises Conflict
    if memories are on legal hold.

    Cannot be undone. Rows are deleted in small transactions; if the process dies, upkeep continues. Backups still have
    the data.
    """
    require_operator(context, access, "write")
    if not reason.strip():
        raise InvalidInput("reason: give a reason; it goes into the audit log")
    if owner == context.operator.did:
        raise InvalidInput("the operator's own memory cannot be deleted; delete the data directory")
    usage = describe_tenant(context, access, gate, owner).usage
    on_hold = context.engine.system.count_holds(owner)
    if on_hold:
        raise Conflict(f"{on_hold} versions are on legal hold; release them first")
    context.engine.delete_tenant(owner)
    context.drop_cached_rules(owner)
    gate.forget_cached_keys()
    entry = audit_entry(
        access,
        "delete_tenant",
        now=context.clock(),
        result="deleted",
        meta={
            "reason": reason,
            "owner_fingerprint": gate.fingerprint_owner(owner),
            "versions": usage.versions,
        },
    )
    context.engine.write(context.operator.did, lambda unit: unit.record_audit(entry))
    context.engine.scrub()
    return usage


def export_page(
    context: Context, access: Access, owner: str, part: ExportPart, after: int = 0
) -> _Page:
    """Return a page of one part of a tenant, as JSON objects, and the number after which the next page begins.

    Raises NotFound.

    `after` is 0 at first, then the number that the previous page returned; None ends a part. Its meaning depends on the
    part.
    """
    require_operator(context, access, "export")
    _require_tenant(context, owner)
    with context.engine.open_snapshot(owner) as snapshot:
        return _READERS[part](context, snapshot, after)


def iterate_part(
    context: Context, access: Access, owner: str, part: ExportPart
) -> Iterator[dict[str, Any]]:
    """Yield all lines of one part of a tenant."""
    after: int | None = 0
    while after is not None:
        lines, after = export_page(context, access, owner, part, after)
        yield from lines


def _require_tenant(context: Context, owner: str) -> None:
    if owner not in context.engine.system.list_tenants() and not context.engine.system.has_key(
        owner, Instant(0)
    ):
        raise NotFound(f"this store has no owner {owner}")


def _grant_of(context: Context, owner: str) -> QuotaGrant:
    with context.engine.open_snapshot(owner) as snapshot:
        return parse_grant(snapshot.rules) if snapshot.rules else NO_GRANT


def _read_documents(context: Context, snapshot: Snapshot, after: int) -> _Page:
    everything = Selection(status_filter="recorded")
    versions = read_page(snapshot, everything, after=after, limit=_PAGE, now=context.clock())
    following = versions[-1].version_id if versions else None
    return [_describe_version(version) for version in versions], following


def _describe_version(version: Version) -> dict[str, Any]:
    document, state = version.document, version.state
    return {
        "standard": document.standard,
        "media_type": document.media_type,
        "name": document.name,
        "memory": version.memory_id,
        "version": version.version_id,
        "space": state.space,
        "status": state.status,
        "recorded": format_instant(state.recorded),
        "erased": state.erased,
        **_as_text("native", document.native),
    }


def _read_audit(_context: Context, snapshot: Snapshot, after: int) -> _Page:
    rows = snapshot.list_audit_after(after, _PAGE)
    return [_as_json(entry) for _, entry in rows], rows[-1][0] if rows else None


def _read_runs(context: Context, snapshot: Snapshot, after: int) -> _Page:
    del after
    positions = snapshot.list_runs_after((Instant(0), ""), before=context.clock(), limit=1 << 30)
    runs = (snapshot.load_run(run_id) for _, run_id in positions)
    return [_as_json(run) for run in runs if run is not None], None


def _read_run_events(_context: Context, snapshot: Snapshot, after: int) -> _Page:
    rows = snapshot.list_run_events_after(after, _PAGE)
    return [_as_json(event) for _, event in rows], rows[-1][0] if rows else None


def _read_items(_context: Context, snapshot: Snapshot, after: int) -> _Page:
    rows = snapshot.list_items(offset=after, limit=_PAGE)
    lines = [{"kind": kind, "name": name, **_as_text("value", value)} for kind, name, value in rows]
    return lines, after + len(rows) if rows else None


def _read_commitments(_context: Context, snapshot: Snapshot, _after: int) -> _Page:
    return [_as_json(commitment) for commitment in snapshot.list_commitments()], None


_READERS: Final[dict[str, Callable[[Context, Snapshot, int], _Page]]] = {
    "documents": _read_documents,
    "audit": _read_audit,
    "runs": _read_runs,
    "run_events": _read_run_events,
    "items": _read_items,
    "commitments": _read_commitments,
}


def _as_json(data: bytes) -> dict[str, Any]:
    """Return a stored document as JSON; one that is no JSON object as text."""
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else _as_text("value", data)


def _as_text(name: str, data: bytes) -> dict[str, str]:
    """Return bytes as text, or as base64 if they are no UTF-8."""
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64_encode(data)}
