"""What a memory was made from, what was made from it, and what goes with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from memoranda.model.instant import Instant
from memoranda.model.memory import DERIVED_FROM, Version
from memoranda.model.standard import OMS, OPENWOP, UMP
from memoranda.service.core import lineage
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.find import ID_PREFIX, find_visible, sees, whole_name
from memoranda.service.core.views import holds, project, scope_of, show, unless_damaged, view
from memoranda.standards.ump.record import Record
from memoranda.storage.engine import Snapshot

# As many are shown, each way.
SHOWN_LIMIT: Final = 50


class Origins(msgspec.Struct, frozen=True, kw_only=True):
    """The memories on either side of one, as far as the caller sees them."""

    sources: list[Record]
    made: list[Record]
    # Memories that go with it when it is erased: what passes made from it, and what it stands for.
    going: int


def origins(context: Context, access: Access, name: str) -> Origins:
    """What a memory was made from, and what was made from it, in any standard's words."""
    now, name = context.clock(), whole_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    with context.engine.read(version.tenant) as snapshot:
        made = dict.fromkeys(each.memory_id for each in lineage.made_from(snapshot, version.memory_id))
        heads = (snapshot.newest(each) for each in made)
        found = Origins(
            sources=_shown(context, access, snapshot, _sources(context, snapshot, version, record), now),
            made=_shown(context, access, snapshot, heads, now),
            going=len(lineage.going_with(snapshot, version.memory_id)),
        )
    targets = tuple(each["id"] for each in (record, *found.sources, *found.made))
    entry = audit_entry(access, "get", now=now, targets=targets, scope=scope_of(record), result="ok")
    context.audit_read(version.tenant, entry)
    return found


def _sources(context: Context, snapshot: Snapshot, version: Version, record: Record) -> Iterator[Version]:
    related = (each.target for each in project(context, version).relations if each.type == DERIVED_FROM)
    named = (each["ref"] for each in record["provenance"].get("evidence", ()))
    seen = {version.memory_id}
    for target in dict.fromkeys((*related, *named)):
        found = _named(context, snapshot, version, target)
        if found is not None and found.memory_id not in seen:
            seen.add(found.memory_id)
            yield found


def _named(context: Context, snapshot: Snapshot, version: Version, target: str) -> Version | None:
    """What a document names as its source: by the id of a record, an address, an entry, or a key of a namespace."""
    from memoranda.service.oams import memories, views
    from memoranda.standards.oams import mapping as oams
    from memoranda.standards.oams.namespace import namespace_of
    from memoranda.standards.oms.mapping import ADDRESS_PREFIX

    if target.startswith(ID_PREFIX):
        return snapshot.named(UMP, target)
    if target.startswith(ADDRESS_PREFIX):
        return snapshot.named(OMS, target.removeprefix(ADDRESS_PREFIX))
    space = version.state.space
    namespace, key = oams.parse_reference(target, namespace_of(space, version.tenant))
    place = views.Place(namespace=namespace, tenant=version.tenant, space=space)
    is_here = namespace == namespace_of(space, version.tenant)
    return (memories.find(context, snapshot, place, key) if is_here else None) or snapshot.named(OPENWOP, target)


def _shown(
    context: Context, access: Access, snapshot: Snapshot, versions: Iterable[Version], now: Instant
) -> list[Record]:
    fit = (
        each
        for each in versions
        if not each.state.is_forgotten and holds(each) and sees(context, access, snapshot, each)
    )
    views = (unless_damaged(each, lambda each=each: view(context, each, now)) for each in fit)  # type: ignore[misc]
    return [show(context, access, each) for each in islice(views, SHOWN_LIMIT) if each is not None]
