"""One memory as each standard shows it, side by side."""

from __future__ import annotations

from typing import Any

from memoranda.model.memory import Version
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lookup import find_visible, whole_name
from memoranda.service.core.views import scope_of, show
from memoranda.storage.engine.contract import Snapshot


def seen_as(context: Context, access: Access, name: str) -> dict[str, Any]:
    """The memory in UMP, OMS, OAMS and openwop, as the caller would get it there; without those that do not show it."""
    now, name = context.clock(), whole_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    with context.engine.read(version.tenant) as snapshot:
        others = _others(context, access, snapshot, version)
    entry = audit_entry(
        access, "get", now=now, targets=(name,), scope=scope_of(record), result="ok"
    )
    context.audit_read(version.tenant, entry)
    return {
        "UMP": show(context, access, record),
        **{each: shown for each, shown in others.items() if shown is not None},
    }


def _others(
    context: Context, access: Access, snapshot: Snapshot, version: Version
) -> dict[str, Any]:
    # Loaded for whoever asks for all of them.
    from memoranda.service.oams import views as oams_views
    from memoranda.service.oms import views as oms_views
    from memoranda.service.openwop import memory as openwop
    from memoranda.standards.oams.namespace import namespace_of

    space = version.state.space
    place = oams_views.Place(
        namespace=namespace_of(space, version.tenant), tenant=version.tenant, space=space
    )
    memory = oams_views.seen(context, access, snapshot, version, place)
    return {
        "OMS": oms_views.shown(context, version).document()
        if oms_views.is_listed(context, access, snapshot, version)
        else None,
        "OAMS": None if memory is None else memory.memory,
        "openwop": openwop.seen(context, access, snapshot, version),
    }
