"""Background work of openwop: distillation on a schedule, and commitments that fall due. Any process may do it.

Every process with an upkeep thread looks; who claims an instant does its work, and the others find it claimed.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError, WorkflowError
from memoranda.model.cron import check_cron, next_after
from memoranda.model.instant import Instant, format_instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry, retry_on_conflict
from memoranda.service.openwop import commitments, distill
from memoranda.standards.openwop import refs
from memoranda.storage.engine.contract import Unit

KIND: Final = "openwop schedule"
WATCHED: Final = "openwop watch"
_log = logging.getLogger(__name__)


def schedule(
    context: Context,
    access: Access,
    ref: str,
    cron: str,
    *,
    timezone: str = "UTC",
    token_budget: int | None = None,
) -> dict[str, Any]:
    """Distil a ref whenever the expression says, by the clocks of a time zone."""
    check_cron(cron, timezone)
    if refs.resolve_ref(ref, access.default_tenant) is None:
        raise InvalidInput("memoryRef: not one of this host")
    now = context.clock()
    made = {
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
        unit.put_item(KIND, ref, json_text.dump(made))
        context.quotas_of(unit).check_bytes(unit)
        scope = {"owner": access.default_tenant}
        unit.record_audit(
            audit_entry(access, "openwop.schedule", now=now, scope=scope, result=cron)
        )

    context.engine.write(access.default_tenant, work)
    return shown(made)


def unschedule(context: Context, access: Access, ref: str) -> bool:
    """Distil it no longer by itself; whether there was a schedule."""

    def work(unit: Unit) -> bool:
        is_there = unit.load_item(KIND, ref) is not None
        unit.delete_item(KIND, ref)
        return is_there

    return context.engine.write(access.default_tenant, work)


def schedules(context: Context, access: Access) -> list[dict[str, Any]]:
    """What is distilled by itself, and when next."""
    with context.engine.read(access.default_tenant) as snapshot:
        return [shown(json_text.parse(value)) for value in snapshot.load_items(KIND).values()]


def shown(kept: dict[str, Any]) -> dict[str, Any]:
    """A schedule as others see it."""
    told = {name: value for name, value in kept.items() if name != "since" and value is not None}
    return {
        **told,
        "nextAt": format_instant(next_after(kept["cron"], kept["since"], kept["timezone"])),
    }


def watch(context: Context, access: Access, ref: str, *, is_watched: bool = True) -> None:
    """Look for commitments in what is written to a ref from now on, or no longer."""
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
    """Do what is due in every tenant; how much was done."""
    done = 0
    system = context.engine.system
    for tenant in dict.fromkeys(
        (
            *system.list_tenants_with_items((KIND, WATCHED)),
            *system.list_tenants_with_commitments(context.clock()),
        )
    ):
        try:
            _look(context, tenant)
            done += len(commitments.fire_due(context, tenant))
            done += _distil_due(context, tenant)
            commitments.prune(context, tenant)
        except MemorandaError as error:
            # What one tenant has must not keep the others waiting.
            _log.warning("openwop upkeep: %s", error)
    return done


def _look(context: Context, tenant: str) -> None:
    """Read what changed in watched refs since they were last looked at: all of it, the first time."""
    with context.engine.read(tenant) as snapshot:
        seq, watched = snapshot.find_last_change(), snapshot.load_items(WATCHED)
    behind = {ref: int(seen) for ref, seen in watched.items() if int(seen) < seq}
    for ref, seen in behind.items():
        if seen:
            commitments.infer_changed(context, _ourselves(tenant), ref, seen)
        else:
            commitments.infer(context, _ourselves(tenant), ref)

    def work(unit: Unit) -> None:
        for ref in behind:
            kept = unit.load_item(WATCHED, ref)
            if kept is not None and int(kept) < seq:
                unit.put_item(WATCHED, ref, b"%d" % seq)

    if behind:
        context.engine.write(tenant, work)


def _ourselves(tenant: str) -> Access:
    return Access(credential="schedule", actor="memoranda", tenant=tenant, default_tenant=tenant)


def _distil_due(context: Context, tenant: str) -> int:
    now, done = context.clock(), 0
    with context.engine.read(tenant) as snapshot:
        kept = [json_text.parse(value) for value in snapshot.load_items(KIND).values()]
    for each in kept:
        due = next_after(each["cron"], each["since"], each["timezone"])
        if due <= now:
            done += int(_distil(context, tenant, each, due, now))
    return done


def _distil(context: Context, tenant: str, each: dict[str, Any], due: int, now: Instant) -> bool:
    """Distil for an instant, unless another process did: the claim and what it is for commit together."""
    access, ref = _ourselves(tenant), each["memoryRef"]

    def attempt() -> bool:
        made = distill.prepare_scheduled(context, access, ref, each["tokenBudget"])

        def work(unit: Unit) -> bool:
            is_ours = _claimed(unit, each, due, now)
            if is_ours:
                made.write(unit)
            return is_ours

        return context.engine.write(tenant, work)

    try:
        return retry_on_conflict(attempt)
    except (WorkflowError, InvalidInput) as error:
        # It would fail again every second; the next instant comes.
        _log.warning("openwop distillation on schedule: %s", error)
        context.engine.write(tenant, lambda unit: _claimed(unit, each, due, now))
        return False


def _claimed(unit: Unit, each: dict[str, Any], due: int, now: Instant) -> bool:
    """Whether this process is the one to do it; several instants that were missed are made up for once."""
    kept = unit.load_item(KIND, each["memoryRef"])
    if kept is None or json_text.parse(kept) != each:
        # Done by another process, called off, or to be done at another time by now.
        return False
    if not unit.claim_once(f"distil {each['memoryRef']} {due}", now=now):
        return False
    unit.put_item(KIND, each["memoryRef"], json_text.dump({**each, "since": now}))
    return True
