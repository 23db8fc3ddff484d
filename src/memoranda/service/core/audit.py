"""The audit log: every operation of a tenant, reads included, in one hash chain.

Events have UMP's audit form, the only one that any of the four standards defines; operations of the others
are further values of `op`. An event holds names and counts, never content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from memoranda.encoding.json_text import dump
from memoranda.model.change import AuditEntry
from memoranda.model.instant import format_instant, parse_instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.standards.ump.audit import ChainReport, seal_event, verify_chain
from memoranda.standards.ump.requests import AuditRequest
from memoranda.storage.engine import Engine, Seal

PAGE_LIMIT = 500


def sealer(version: str) -> Seal:
    """How the store puts an entry into the chain."""

    def seal(entry: AuditEntry, seq: int, prev: str | None) -> tuple[bytes, str]:
        event: dict[str, Any] = {"ump": version, "seq": seq, "ts": format_instant(entry.at), "op": entry.op}
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
        sealed = seal_event(event)
        return dump(sealed), sealed["hash"]

    return seal


def query(context: Context, access: Access, request: object) -> list[dict[str, Any]]:
    """The last events that match, oldest first."""
    asked = AuditRequest.parse(request)
    tenant = access.tenant_for(asked.owner)
    access.require_reach(tenant)
    access.require_scope({"owner": tenant})
    context.engine.flush()
    found: list[dict[str, Any]] = []
    before: int | None = None
    with context.engine.read(tenant) as snapshot:
        while len(found) < asked.limit and (page := snapshot.audit_before(before, PAGE_LIMIT)):
            events = (orjson.loads(entry) for _, entry in page)
            found += [event for event in events if _matches(event, asked)]
            before = page[-1][0]
    return found[: asked.limit][::-1]


def verify(context: Context, access: Access, owner: str | None = None) -> ChainReport:
    """Walk the whole chain of one tenant."""
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    access.require_scope({"owner": tenant})
    context.engine.flush()
    return verify_tenant(context.engine, tenant)


def verify_tenant(engine: Engine, tenant: str) -> ChainReport:
    """Walk a chain and compare its end with the head kept apart, so that a cut tail shows too."""
    with engine.read(tenant) as snapshot:
        count, head = snapshot.audit_head()
    last: dict[str, Any] = {}

    def events() -> Iterator[Mapping[str, Any]]:
        after = 0
        while after < count:
            with engine.read(tenant) as snapshot:
                page = snapshot.audit_after(after, PAGE_LIMIT)
            if not page:
                return
            for seq, entry in page:
                if seq > count:
                    return
                last.clear()
                last.update(_event(entry))
                yield dict(last)
                after = seq

    report = verify_chain(events())
    if report.ok and (report.count != count or last.get("hash") != head):
        return ChainReport(ok=False, count=report.count, broken_at=report.count + 1, reason="missing tail")
    return report


def _event(entry: bytes) -> dict[str, Any]:
    try:
        event = orjson.loads(entry)
    except orjson.JSONDecodeError:
        return {}
    return event if isinstance(event, dict) else {}


def _matches(event: Mapping[str, Any], asked: AuditRequest) -> bool:
    at = parse_instant(event["ts"])
    return (
        (asked.op is None or event["op"] in ([asked.op] if isinstance(asked.op, str) else asked.op))
        and asked.actor in (None, event.get("actor", {}).get("did"))
        and (asked.target is None or asked.target in event.get("targets", ()))
        and asked.project in (None, event.get("scope", {}).get("project"))
        and (asked.since is None or at >= asked.since)
        and (asked.until is None or at <= asked.until)
    )
