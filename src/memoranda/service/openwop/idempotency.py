"""`Idempotency-Key` of openwop (idempotency.md, layer 1): a repeated request gets the first answer again.

`claim` reserves a key before a request is executed, and `settle` stores the answer. In between, the record is on lease:
if the process dies, another request may take over when the lease ends.

The name of a record is a keyed fingerprint of the tenant, the operation, the key, and the rights of the caller. So the
store does not reveal keys, and a caller with fewer rights never gets the answer to one with more. Records are stored
by the hour of their creation, so that old ones are found and deleted together.
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

# Hours for which an answer is stored: "at least 24 hours", counted in whole hours.
RETENTION_HOURS: Final = 25
HOUR_MS: Final = 3_600_000
# Milliseconds of a lease: longer than any request takes.
LEASE_MS: Final = 120_000
# Records that one unit of work deletes.
SWEEP_LIMIT: Final = 500
# The item that lists the hours that have records.
_HOURS: Final = "idempotency hours"
# Kind of the items that hold the records of an hour, by name; the hour is appended.
_RECORDS: Final = "idempotency "


class IdempotencyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a key: a request in flight (`status` 0), or the answer to a settled one."""

    name: str
    hour: int
    # Keyed digest of the request, because one key must not be used for two requests.
    digest: str
    # The end of the lease.
    lease_ms: int
    # A random id of the request in flight; it changes when another request takes over.
    holder: str
    status: int = 0
    body: str = ""


def claim(
    context: Context, access: Access, operation: str, key: str, digest: str
) -> IdempotencyRecord:
    """Return the record of a key: with a status, it holds the answer; without, the caller must execute and settle it.

    Raises WorkflowError (409) if the key was used for another request, or its first request is still in flight.

    `digest` is a hash of the request's content; the same key with another content is an error.
    """
    now, tenant = context.clock(), access.default_tenant
    rights = f"{access.is_peer} {sorted(access.verbs)} {sorted(access.limits.items())}"
    name = context.engine.fingerprint(tenant, f"idempotency: {operation} {rights} {key}")
    hour = now // HOUR_MS
    # Keyed as well: a request may contain a secret that could be guessed from a plain digest.
    request_digest = context.engine.fingerprint(tenant, f"request: {digest}")
    fresh = IdempotencyRecord(
        name=name,
        hour=hour,
        digest=request_digest,
        lease_ms=now + LEASE_MS,
        holder=secrets.token_hex(8),
    )

    def work(unit: Unit) -> IdempotencyRecord:
        hours = _load_hours(unit)
        _delete_expired(unit, hours, hour)
        earlier_record = _find_record(unit, hours, name, hour)
        if earlier_record is not None and earlier_record.digest != request_digest:
            raise WorkflowError(
                "this Idempotency-Key was used for another request",
                openwop_code=IDEMPOTENCY_KEY_MISMATCH,
            )
        if earlier_record is not None and earlier_record.status:
            return earlier_record
        if earlier_record is not None and earlier_record.lease_ms > now:
            raise WorkflowError(
                "the first request with this Idempotency-Key is not done yet",
                openwop_code=IDEMPOTENCY_IN_FLIGHT,
                details={"retryAfter": 1},
            )
        record = fresh if earlier_record is None else replace(fresh, hour=earlier_record.hour)
        if record.hour not in hours:
            unit.put_item(_HOURS, "", json_text.dump([*hours, record.hour]))
        unit.put_item(f"{_RECORDS}{record.hour}", name, json_text.dump(asdict(record)))
        if not operation.startswith("DELETE "):
            # Deleting must work when the quota is used up.
            context.quotas_of(unit).check_bytes(unit)
        return record

    return context.engine.write(tenant, work)


def settle(
    context: Context, access: Access, record: IdempotencyRecord, *, status: int, body: str = ""
) -> None:
    """Store the answer to a claimed request. `status` 0: there is none, so that the next request tries again.

    Nothing is stored if another request has taken over the key.
    """

    def work(unit: Unit) -> None:
        kind = f"{_RECORDS}{record.hour}"
        data = unit.load_item(kind, record.name)
        if data is None or _decode(data).holder != record.holder:
            return
        if status:
            settled = replace(record, status=status, body=body)
            unit.put_item(kind, record.name, json_text.dump(asdict(settled)))
        else:
            unit.delete_item(kind, record.name)

    context.engine.write(access.default_tenant, work)


def _decode(data: bytes) -> IdempotencyRecord:
    return IdempotencyRecord(**json_text.parse(data))


def _load_hours(snapshot: Snapshot) -> list[int]:
    """Return the hours that have records, oldest first."""
    data = snapshot.load_item(_HOURS, "")
    return [] if data is None else list(json_text.parse(data))


def _find_record(
    snapshot: Snapshot, hours: list[int], name: str, now_hour: int
) -> IdempotencyRecord | None:
    """Return the latest record of a name that is within the retention period."""
    for hour in reversed(hours):
        if hour > now_hour - RETENTION_HOURS:
            data = snapshot.load_item(f"{_RECORDS}{hour}", name)
            if data is not None:
                return _decode(data)
    return None


def _delete_expired(unit: Unit, hours: list[int], now_hour: int) -> None:
    """Delete up to SWEEP_LIMIT records of the oldest expired hour; remove it from `hours` when it is empty."""
    expired = [hour for hour in hours if hour <= now_hour - RETENTION_HOURS]
    if not expired:
        return
    names = list(unit.load_items(f"{_RECORDS}{expired[0]}"))
    for name in names[:SWEEP_LIMIT]:
        unit.delete_item(f"{_RECORDS}{expired[0]}", name)
    if len(names) <= SWEEP_LIMIT:
        hours.remove(expired[0])
        unit.put_item(_HOURS, "", json_text.dump(hours))
