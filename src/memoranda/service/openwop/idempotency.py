"""`Idempotency-Key` of openwop (idempotency.md, layer 1): what was done under a key is answered again, not done again.

A record is found by the tenant, the operation, the key and what the caller may do, all in one keyed fingerprint: a key
says nothing to whoever reads the store, and who may do less learns nothing by it. While something is being done its
record is on lease; if whoever did it died, somebody else may try after a while. Records are filed by the hour in which
they were made, so that those of a day ago are found and taken away together.
"""

from __future__ import annotations

import secrets
from typing import Final

import msgspec
from msgspec.structs import asdict, replace

from memoranda.encoding import json_text
from memoranda.errors import WorkflowError
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.standards.openwop.problem import IDEMPOTENCY_IN_FLIGHT, IDEMPOTENCY_KEY_MISMATCH
from memoranda.storage.engine.contract import Snapshot, Unit

# "At least 24 hours", by whole hours.
KEPT_HOURS: Final = 25
HOUR_MS: Final = 3_600_000
# Longer than any request takes.
LEASE_MS: Final = 120_000
# What one unit of work takes away.
SWEEP_LIMIT: Final = 500
_HOURS: Final = "idempotency hours"
_RECORDS: Final = "idempotency "


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a key: that it is being worked on (`status` 0), or how it was answered."""

    name: str
    hour: int
    digest: str
    lease_ms: int
    # Who works on it: somebody else may have taken over meanwhile.
    holder: str
    status: int = 0
    body: str = ""


def claim(context: Context, access: Access, operation: str, key: str, digest: str) -> Record:
    """The record of a key: with a status, how it was answered; without, the caller's to do and to settle.

    Raises WorkflowError (409) if the key was used for something else, or is being worked on.
    """
    now, tenant = context.clock(), access.default_tenant
    rights = f"{access.is_peer} {sorted(access.verbs)} {sorted(access.limits.items())}"
    name = context.engine.fingerprint(tenant, f"idempotency: {operation} {rights} {key}")
    hour = now // HOUR_MS
    # Keyed, too: a request may hold a secret that could be guessed.
    asked = context.engine.fingerprint(tenant, f"request: {digest}")
    fresh = Record(
        name=name, hour=hour, digest=asked, lease_ms=now + LEASE_MS, holder=secrets.token_hex(8)
    )

    def work(unit: Unit) -> Record:
        hours = _hours(unit)
        _sweep(unit, hours, hour)
        known = _known(unit, hours, name, hour)
        if known is not None and known.digest != asked:
            raise WorkflowError(
                "this Idempotency-Key was used for another request",
                openwop_code=IDEMPOTENCY_KEY_MISMATCH,
            )
        if known is not None and known.status:
            return known
        if known is not None and known.lease_ms > now:
            raise WorkflowError(
                "the first request with this Idempotency-Key is not done yet",
                openwop_code=IDEMPOTENCY_IN_FLIGHT,
                details={"retryAfter": 1},
            )
        taken = fresh if known is None else replace(fresh, hour=known.hour)
        if taken.hour not in hours:
            unit.put_item(_HOURS, "", json_text.dump([*hours, taken.hour]))
        unit.put_item(f"{_RECORDS}{taken.hour}", name, json_text.dump(asdict(taken)))
        if not operation.startswith("DELETE "):
            # Whoever has no room left can always make some.
            context.quotas_of(unit).check_bytes(unit)
        return taken

    return context.engine.write(tenant, work)


def settle(
    context: Context, access: Access, record: Record, *, status: int, body: str = ""
) -> None:
    """Say how a claimed key was answered; 0 for not at all, so that the next request tries again."""

    def work(unit: Unit) -> None:
        kind = f"{_RECORDS}{record.hour}"
        kept = unit.load_item(kind, record.name)
        if kept is None or Record(**json_text.parse(kept)).holder != record.holder:
            return
        if status:
            unit.put_item(
                kind, record.name, json_text.dump(asdict(replace(record, status=status, body=body)))
            )
        else:
            unit.delete_item(kind, record.name)

    context.engine.write(access.default_tenant, work)


def _hours(snapshot: Snapshot) -> list[int]:
    kept = snapshot.load_item(_HOURS, "")
    return [] if kept is None else list(json_text.parse(kept))


def _known(snapshot: Snapshot, hours: list[int], name: str, now_hour: int) -> Record | None:
    for hour in reversed(hours):
        kept = (
            snapshot.load_item(f"{_RECORDS}{hour}", name) if hour > now_hour - KEPT_HOURS else None
        )
        if kept is not None:
            return Record(**json_text.parse(kept))
    return None


def _sweep(unit: Unit, hours: list[int], now_hour: int) -> None:
    """Take away some of what is over."""
    over = [hour for hour in hours if hour <= now_hour - KEPT_HOURS]
    if not over:
        return
    names = list(unit.load_items(f"{_RECORDS}{over[0]}"))
    for name in names[:SWEEP_LIMIT]:
        unit.delete_item(f"{_RECORDS}{over[0]}", name)
    if len(names) <= SWEEP_LIMIT:
        hours.remove(over[0])
        unit.put_item(_HOURS, "", json_text.dump(hours))
