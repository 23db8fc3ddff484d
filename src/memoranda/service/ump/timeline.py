"""Memories over time: those that were true at some of several instants, whether they are still true or not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.model.selection import MONTH_MS, UPDATED, Selection
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lookup import can_see
from memoranda.service.core.memory_line import bind_to_line
from memoranda.service.core.views import (
    is_intact,
    redact_for_caller,
    run_unless_damaged,
    view_record,
)
from memoranda.service.retrieve import PAGE_BYTES, restrict_selection
from memoranda.standards.ump.record import Record


def list_over_time(
    context: Context,
    access: Access,
    instants: Sequence[Instant],
    *,
    project: str | None = None,
    with_ended: bool = False,
    limit: int,
) -> list[Record]:
    """Return memories that were true at these instants: for each instant the last updated ones, at most `limit`.

    Old memories are found although much was written since, because an instant selects only what had begun by then.
    `with_ended` adds the last updated ones whether they were true at one of the instants or not.
    """
    access.require("read")
    now, tenant = context.clock(), access.default_tenant
    scope = {**access.limits, "owner": tenant, **({"project": project} if project else {})}
    access.require_scope(scope)
    version_ids: dict[int, None] = {}
    selections = [Selection(at=instant) for instant in instants]
    if with_ended:
        selections.insert(0, Selection(status_filter="unforgotten"))
    with context.engine.open_snapshot(tenant) as snapshot:
        for selection in selections:
            within = replace(selection, space=scope.get("project"))
            reachable = restrict_selection(context, access, snapshot, within)
            for hit in snapshot.load_page(reachable, UPDATED, limit=limit, now=now):
                version_ids[hit.version_id] = None
        fitting = snapshot.fit_into_bytes(list(version_ids), PAGE_BYTES)
        versions = [
            bind_to_line(context, snapshot, version)
            for version in snapshot.load_versions(fitting)
            if not version.state.erased and can_see(context, access, snapshot, version)
        ]
    views = (
        run_unless_damaged(version, partial(view_record, context, version, now))
        for version in versions
        if is_intact(version)
    )
    records = [redact_for_caller(context, access, record) for record in views if record is not None]
    targets = tuple(record["id"] for record in records)
    entry = audit_entry(
        access, "list", now=now, targets=targets, scope=scope, result=f"{len(records)} records"
    )
    context.audit_read(tenant, entry)
    return records


def count_by_month(
    context: Context, access: Access, *, project: str | None = None
) -> dict[Instant, int]:
    """Return the number of current memories that were last updated in each month, by the month's beginning."""
    access.require("read")
    now, tenant = context.clock(), access.default_tenant
    with context.engine.open_snapshot(tenant) as snapshot:
        selection = restrict_selection(context, access, snapshot, Selection(at=now, space=project))
        groups = snapshot.count_groups(selection, "month", now=now)
    return {
        Instant(int(group.key) * MONTH_MS): group.count for group in groups if group.key is not None
    }
