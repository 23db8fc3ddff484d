"""The audit log: every operation of a tenant, reads included, in one hash chain.

Events have UMP's audit form, the only one that any of the four standards defines; operations of the others
are further values of `op`. An event holds names and counts, never content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput
from memoranda.model.change import AuditEntry
from memoranda.model.instant import format_instant, parse_instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.standards.ump.audit import ChainReport, seal_event, verify_chain
from memoranda.storage.engine import Engine, Seal

PAGE_LIMIT = 500
EVENTS_LIMIT = 1_000

_FILTERS = ("op", "actor", "target", "owner", "project", "since", "until", "limit")


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


def query(context: Context, access: Access, asked: object) -> list[dict[str, Any]]:
    """The last events that match, oldest first."""
    access.require("read")
    fields = _checked(asked)
    tenant = access.tenant_for(fields.get("owner"))
    access.require_reach(tenant)
    access.require_scope({"owner": tenant})
    context.engine.flush()
    limit = fields.get("limit", 100)
    found: list[dict[str, Any]] = []
    before: int | None = None
    with context.engine.read(tenant) as snapshot:
        while len(found) < limit and (page := snapshot.audit_before(before, PAGE_LIMIT)):
            events = (orjson.loads(entry) for _, entry in page)
            found += [event for event in events if _matches(event, fields)]
            before = page[-1][0]
    return found[:limit][::-1]


def verify(context: Context, access: Access, owner: str | None = None) -> ChainReport:
    """Walk the whole chain of one tenant."""
    access.require("read")
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


def _checked(asked: object) -> dict[str, Any]:
    if not isinstance(asked, dict):
        raise InvalidInput("an audit query must be an object")
    for name, value in asked.items():
        if name not in _FILTERS:
            raise InvalidInput(f"unknown field: {str(name)[:40]}; there are {', '.join(_FILTERS)}")
        if name == "limit":
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= EVENTS_LIMIT:
                raise InvalidInput(f"limit must be a whole number from 1 to {EVENTS_LIMIT}")
        elif name == "op" and isinstance(value, list) and all(isinstance(op, str) for op in value):
            continue
        elif not isinstance(value, str) or not value:
            raise InvalidInput(f"{name} must be a non-empty string")
    for name in ("since", "until"):
        if name in asked:
            try:
                parse_instant(asked[name])
            except ValueError as error:
                raise InvalidInput(f"{name} is {error}") from None
    return asked


def _matches(event: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    at = parse_instant(event["ts"])
    ops = fields.get("op")
    return (
        (ops is None or event["op"] in ([ops] if isinstance(ops, str) else ops))
        and fields.get("actor") in (None, event.get("actor", {}).get("did"))
        and (fields.get("target") is None or fields["target"] in event.get("targets", ()))
        and fields.get("project") in (None, event.get("scope", {}).get("project"))
        and (fields.get("since") is None or at >= parse_instant(fields["since"]))
        and (fields.get("until") is None or at <= parse_instant(fields["until"]))
    )
