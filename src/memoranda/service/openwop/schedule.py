"""Background work of openwop: distillations on a schedule, and commitments of watched refs.

Every process with an upkeep thread calls `tick`. The process that claims a due instant in the store
(`unit.claim_once`) does its work, and the others find it claimed.

A schedule is a stored item with the cron expression, its time zone, and `since`, the instant after which it is due
again. A watched ref is an item with the position of the change feed up to which its memories were read.

`tick` is called by upkeep about once a second. A schedule is claimed in the unit that runs it, so a second node finds
it done. Missed times are not made up for: only the latest one runs.
"""

from __future__ import annotations

import logging
from typing import Final, NotRequired, TypedDict

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError, WorkflowError
from memoranda.model.cron import check_cron, next_after
from memoranda.model.instant import Instant, format_instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry, retry_on_conflict
from memoranda.service.openwop import commitments, distill
from memoranda.standards.openwop import refs
from memoranda.storage.engine.contract import Unit

# The kinds of the stored items, by ref.
KIND: Final = "openwop schedule"
WATCHED: Final = "openwop watch"
_log = logging.getLogger(__name__)


class ScheduleDocument(TypedDict):
    """A schedule as JSON for its owner."""

    memoryRef: str
    cron: str
    timezone: str
    tokenBudget: NotRequired[int]
    nextAt: str


class ScheduleItem(TypedDict):
    """A schedule as the store keeps it."""

    memoryRef: str
    cron: str
    timezone: str
    tokenBudget: int | None
    # The instant after which the schedule is due again.
    since: Instant


def schedule(
    context: Context,
    access: Access,
    ref: str,
    cron: str,
    *,
    timezone: str = "UTC",
    token_budget: int | None = None,
) -> ScheduleDocument:
    """Schedule the distillation of a ref by a cron expression, in the local time of a time zone.

    A schedule that the ref has is replaced. Raises InvalidInput for a bad expression, time zone or ref.
    """
    check_cron(cron, timezone)
    if refs.resolve_ref(ref, access.default_tenant) is None:
        raise InvalidInput("memoryRef: not one of this host")
    now = context.clock()
    item: ScheduleItem = {
        "memoryRef": ref,
        "cron": cron,
        "timezone": timezone,
        "tokenBudget": token_budget,
        "since": now,
    }
    if token_budget is not None and token_budget < 1:
        raise InvalidInput("tokenBudget must be at least 1")

    def work(unit: Unit) -> None:
        context.quotas_of(unit).check_schedules(unit.load_items(KIND), ref)
        unit.put_item(KIND, ref, json_text.dump(item))
        context.quotas_of(unit).check_bytes(unit)
        scope = {"owner": access.default_tenant}
        unit.record_audit(
            audit_entry(access, "openwop.schedule", now=now, scope=scope, result=cron)
        )

    context.engine.write(access.default_tenant, work)
    return _describe(item)


def unschedule(context: Context, access: Access, ref: str) -> bool:
    """Remove the schedule of a ref. Return False if there is none."""

    def work(unit: Unit) -> bool:
        has_schedule = unit.load_item(KIND, ref) is not None
        unit.delete_item(KIND, ref)
        return has_schedule

    return context.engine.write(access.default_tenant, work)


def schedules(context: Context, access: Access) -> list[ScheduleDocument]:
    """Return the schedules of the caller's tenant, each with the instant at which it is due next."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        return [_describe(json_text.parse(data)) for data in snapshot.load_items(KIND).values()]


def _describe(item: ScheduleItem) -> ScheduleDocument:
    """Return a stored schedule as JSON for its owner."""
    due_at = next_after(item["cron"], item["since"], item["timezone"])
    document: ScheduleDocument = {
        "memoryRef": item["memoryRef"],
        "cron": item["cron"],
        "timezone": item["timezone"],
        "nextAt": format_instant(due_at),
    }
    if item["tokenBudget"] is not None:
        document["tokenBudget"] = item["tokenBudget"]
    return document


def watch(context: Context, access: Access, ref: str, *, is_watched: bool = True) -> None:
    """Start to look for commitments in the memories of a ref, or stop it if `is_watched` is false.

    Raises InvalidInput for a ref of another host.
    """
    if refs.resolve_ref(ref, access.default_tenant) is None:
        raise InvalidInput("memoryRef: not one of this host")

    def work(unit: Unit) -> None:
        if is_watched:
            context.quotas_of(unit).check_schedules(unit.load_items(WATCHED), ref)
            unit.put_item(WATCHED, ref, b"0")
            context.quotas_of(unit).check_bytes(unit)
        else:
            unit.delete_item(WATCHED, ref)

    context.engine.write(access.default_tenant, work)


def tick(context: Context) -> int:
    """Do all due work of every tenant. Return the number of distillations and fired commitments."""
    count = 0
    system = context.engine.system
    tenants = (
        *system.list_tenants_with_items((KIND, WATCHED)),
        *system.list_tenants_with_commitments(context.clock()),
    )
    for tenant in dict.fromkeys(tenants):
        try:
            _read_watched(context, tenant)
            count += len(commitments.fire_due(context, tenant))
            count += _distil_due(context, tenant)
            commitments.prune(context, tenant)
        except MemorandaError as error:
            # An error of one tenant must not stop the work for the others.
            _log.warning("openwop upkeep: %s", error)
    return count


def _read_watched(context: Context, tenant: str) -> None:
    """Infer commitments from the changes of watched refs; from all memories of a ref when it is read first."""
    with context.engine.open_snapshot(tenant) as snapshot:
        seq, watched = snapshot.find_last_change(), snapshot.load_items(WATCHED)
    behind = {ref: int(position) for ref, position in watched.items() if int(position) < seq}
    for ref, position in behind.items():
        if position:
            commitments.infer_changed(context, _system_access(tenant), ref, position)
        else:
            commitments.infer(context, _system_access(tenant), ref)

    def work(unit: Unit) -> None:
        for ref in behind:
            position = unit.load_item(WATCHED, ref)
            if position is not None and int(position) < seq:
                unit.put_item(WATCHED, ref, b"%d" % seq)

    if behind:
        context.engine.write(tenant, work)


def _system_access(tenant: str) -> Access:
    """Return the access under which background work is done and audited."""
    return Access(credential="schedule", actor="memoranda", tenant=tenant, default_tenant=tenant)


def _distil_due(context: Context, tenant: str) -> int:
    """Carry out the schedules of a tenant that are due. Return the number of distillations."""
    now, count = context.clock(), 0
    with context.engine.open_snapshot(tenant) as snapshot:
        items: list[ScheduleItem] = [
            json_text.parse(data) for data in snapshot.load_items(KIND).values()
        ]
    for item in items:
        due_at = next_after(item["cron"], item["since"], item["timezone"])
        if due_at <= now:
            count += int(_distil(context, tenant, item, due_at, now))
    return count


def _distil(context: Context, tenant: str, item: ScheduleItem, due_at: int, now: Instant) -> bool:
    """Run the distillation of a due instant. Return False if another process claimed it, or the distillation fails.

    The claim and the distillation commit together.
    """
    access, ref = _system_access(tenant), item["memoryRef"]

    def attempt() -> bool:
        distillation = distill.prepare_scheduled(context, access, ref, item["tokenBudget"])

        def work(unit: Unit) -> bool:
            is_claimed = _claim(unit, item, due_at, now)
            if is_claimed:
                distillation.write(unit)
            return is_claimed

        return context.engine.write(tenant, work)

    try:
        return retry_on_conflict(attempt)
    except (WorkflowError, InvalidInput) as error:
        # The instant counts as done: every tick would fail in the same way until the next one.
        _log.warning("openwop distillation on schedule: %s", error)
        context.engine.write(tenant, lambda unit: _claim(unit, item, due_at, now))
        return False


def _claim(unit: Unit, item: ScheduleItem, due_at: int, now: Instant) -> bool:
    """Claim a due instant for this process, with all instants missed before it. Return False if it may not act."""
    ref = item["memoryRef"]
    data = unit.load_item(KIND, ref)
    if data is None or json_text.parse(data) != item:
        # Another process was faster, or the schedule was removed or changed.
        return False
    if not unit.claim_once(f"distil {ref} {due_at}", now=now):
        return False
    unit.put_item(KIND, ref, json_text.dump({**item, "since": now}))
    return True
