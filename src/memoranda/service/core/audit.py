"""The audit log: every operation on a tenant, reads included, in one hash chain.

Events have the form that UMP defines, since the other standards define none; their operations are further values of
`op`. An event holds names and counts, never content. The storage layer numbers the events of a tenant and calls
`create_sealer` for each: it adds the hash of the event before, and the event's own.

Events older than the retention period are pruned from the front of the chain. A head takes the place of the pruned
segment: the number and the hash of its last event, signed by the operator. So the rest still has a verifiable
beginning, and nobody but the operator can shorten the chain. The hash of the last event is also stored apart from the
events, so a cut tail is detected, too.

What may not change: the form of an event, because chains of years are verified with it. New facts go into `meta`.
Writing: `context.audit_read` for reads, `unit.record_audit` inside the unit of every change, so that a change and its
entry are durable together. Nothing here may put content, queries or names of people into an event; use
`engine.fingerprint` where a text must be recognisable.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
from msgspec.structs import replace

from memoranda.encoding.json_text import dump
from memoranda.errors import Conflict
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.model.memory import AuditEntry
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.standards.ump.requests import AuditRequest
from memoranda.standards.ump.signature import ChainReport, seal_event, verify_chain
from memoranda.storage.engine.contract import Seal, Snapshot, Unit

_log = logging.getLogger(__name__)

PAGE_LIMIT = 500
# Events pruned in one unit of work: few, so that other writers get their turn.
PRUNE_LIMIT: Final = 1_000
DAY_MS: Final = 86_400_000
_HEAD: Final = "audit head"


def create_sealer(version: str) -> Seal:
    """Return the function with which the store adds an entry to the chain. `version`: the UMP version of the events."""

    def seal(entry: AuditEntry, seq: int, prev: str | None) -> tuple[bytes, str]:
        event: dict[str, Any] = {
            "ump": version,
            "seq": seq,
            "ts": format_instant(entry.at),
            "op": entry.op,
        }
        if entry.actor:
            event["actor"] = {"did": entry.actor, "kind": entry.actor_kind}
        if entry.targets:
            event["targets"] = list(entry.targets)
        if entry.scope:
            event["scope"] = dict(entry.scope)
        if entry.result:
            event["result"] = entry.result
        if entry.meta:
            event["meta"] = entry.meta
        event["prev"] = prev
        sealed_event = seal_event(event)
        return dump(sealed_event), sealed_event["hash"]

    return seal


def query(context: Context, access: Access, request: object) -> list[dict[str, Any]]:
    """Return the last events that match a request, oldest first.

    The chain is read backwards until the limit is reached, so a rare condition reads all of it. Raises ForbiddenScope
    for a credential of a part of the owner's memory.
    """
    criteria = AuditRequest.parse(request)
    tenant = access.tenant_for(criteria.owner)
    access.require_reach(tenant)
    access.require_scope({"owner": tenant})
    context.engine.flush()
    events: list[dict[str, Any]] = []
    before: int | None = None
    with context.engine.open_snapshot(tenant) as snapshot:
        while len(events) < criteria.limit and (
            page := snapshot.list_audit_before(before, PAGE_LIMIT)
        ):
            page_events = (orjson.loads(entry) for _, entry in page)
            events += [event for event in page_events if _matches(event, criteria)]
            before = page[-1][0]
    return events[: criteria.limit][::-1]


def verify_chain_of_caller(
    context: Context, access: Access, owner: str | None = None
) -> ChainReport:
    """Verify the whole audit chain of the caller's tenant, or of `owner`."""
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    access.require_scope({"owner": tenant})
    context.engine.flush()
    return verify_tenant(context, tenant)


def verify_tenant(context: Context, tenant: str) -> ChainReport:
    """Verify a chain from its signed head to the end that is stored apart, so that a cut tail is detected.

    Reads the complete chain; a million entries take a while. `pruned` in the report counts what retention removed.
    """
    with context.engine.open_snapshot(tenant) as snapshot:
        count, end = snapshot.read_audit_head()
        head = _load_signed_head(snapshot)
    start, prev = head.get("seq", 0), head.get("prev")
    if head and not _is_signed_by_operator(head, context, tenant):
        return ChainReport(
            ok=False,
            count=0,
            broken_at=1,
            reason="the head of what was pruned is not the operator's",
        )
    last = {"hash": prev}

    def events() -> Iterator[Mapping[str, Any]]:
        after = start
        while after < count:
            with context.engine.open_snapshot(tenant) as snapshot:
                page = snapshot.list_audit_after(after, PAGE_LIMIT)
            if not page:
                return
            for seq, entry in page:
                if seq > count:
                    return
                event = _parse_event(entry)
                last["hash"] = event.get("hash")
                yield event
                after = seq

    report = verify_chain(events(), start_seq=start + 1, prev=prev)
    if report.ok and (start + report.count != count or last["hash"] != end):
        return replace(report, ok=False, broken_at=start + report.count + 1, reason="missing tail")
    return replace(report, pruned=start)


# --- pruning -------------------------------------------------------------------------------------------------


def prune(context: Context, access: Access, before: Instant, owner: str | None = None) -> int:
    """Remove the events before an instant from a chain; return their number. Raises Conflict if they were tampered
    with.

    Needs several units of work; other writers get their turn in between. Interrupting it leaves a shorter, valid chain.
    """
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    access.require_scope({"owner": tenant})
    context.engine.flush()
    # Pruning adds an event, which is later than the clock read here: the loop ends.
    end, count = min(before, context.clock()), 0
    while pruned := _prune_segment(context, access, tenant, end):
        count += pruned
    return count


def apply_retention(context: Context) -> int:
    """Prune every chain to the retention period, in whole days, because each pruning adds an event. Return the number
    of events.
    """
    if context.audit_retention_ms is None:
        return 0
    end = context.retention_now() - context.audit_retention_ms
    before, count = Instant(end - end % DAY_MS), 0
    for tenant in context.engine.system.list_tenants():
        access = Access(
            credential="retention", actor="memoranda", tenant=tenant, default_tenant=tenant
        )
        try:
            count += prune(context, access, before)
        except Conflict as error:
            _log.warning("audit log of %s: %s", tenant, error)
    return count


def _prune_segment(context: Context, access: Access, tenant: str, before: Instant) -> int:
    """Prune one segment and sign the new head; return the number of events, 0 if nothing is left to prune."""
    now = context.clock()
    with context.engine.open_snapshot(tenant) as snapshot:
        head = _load_signed_head(snapshot)
        page = snapshot.list_audit_after(head.get("seq", 0), PRUNE_LIMIT)
    if head and not _is_signed_by_operator(head, context, tenant):
        raise Conflict("the head of the pruned audit log is not the operator's; nothing was pruned")
    segment: list[dict[str, Any]] = []
    for _, entry in page:
        event = _parse_event(entry)
        if (at := _parse_event_time(event)) is not None and at >= before:
            break
        segment.append(event)
    if not segment:
        return 0
    # A segment that was tampered with is evidence and must stay.
    report = verify_chain(segment, start_seq=head.get("seq", 0) + 1, prev=head.get("prev"))
    if not report.ok:
        raise Conflict(
            f"the audit chain is broken at entry {report.broken_at}: {report.reason}; nothing was pruned"
        )
    last = segment[-1]
    next_head = seal_event(
        {
            "tenant": tenant,
            "seq": last["seq"],
            "prev": last["hash"],
            "until": last["ts"],
            "ts": format_instant(now),
        },
        context.operator,
    )

    def work(unit: Unit) -> int:
        if _load_signed_head(unit) != head:
            return 0  # another process was faster
        unit.prune_audit(last["seq"])
        unit.put_item(_HEAD, "", dump(next_head))
        unit.record_audit(
            audit_entry(access, "audit.prune", now=now, result=f"{len(segment)} pruned")
        )
        return len(segment)

    return context.engine.write(tenant, work)


def _load_signed_head(snapshot: Snapshot) -> dict[str, Any]:
    """Return the head of a pruned chain; empty if nothing was pruned yet."""
    item = snapshot.load_item(_HEAD, "")
    return {} if item is None else _parse_event(item)


def _is_signed_by_operator(head: Mapping[str, Any], context: Context, tenant: str) -> bool:
    """Return True if the operator signed a head for this tenant."""
    if head.get("tenant") != tenant or not isinstance(head.get("seq"), int):
        return False
    return verify_chain(
        [head], start_seq=head["seq"], prev=head.get("prev"), signer=context.operator.did
    ).ok


def _parse_event(entry: bytes) -> dict[str, Any]:
    """Return a stored event; empty if its bytes are damaged."""
    try:
        event = orjson.loads(entry)
    except orjson.JSONDecodeError:
        return {}
    return event if isinstance(event, dict) else {}


def _parse_event_time(event: Mapping[str, Any]) -> Instant | None:
    """Return the time of an event; None if it is damaged."""
    try:
        return parse_instant(event["ts"])
    except (KeyError, TypeError, ValueError):
        return None


def _matches(event: Mapping[str, Any], request: AuditRequest) -> bool:
    """Return True if an event meets every condition of a request."""
    at = parse_instant(event["ts"])
    return (
        (
            request.op is None
            or event["op"] in ([request.op] if isinstance(request.op, str) else request.op)
        )
        and request.actor in (None, event.get("actor", {}).get("did"))
        and (request.target is None or request.target in event.get("targets", ()))
        and request.project in (None, event.get("scope", {}).get("project"))
        and (request.since is None or at >= request.since)
        and (request.until is None or at <= request.until)
    )
