"""The sources of a memory, the memories that were made from it, and those that go with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from memoranda.model.instant import Instant
from memoranda.model.memory import DERIVED_FROM, Version, has_ended
from memoranda.model.standard import OMS, OPENWOP, UMP
from memoranda.service.core import lineage
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lookup import ID_PREFIX, find_visible, sees, whole_name
from memoranda.service.core.views import holds, project, scope_of, show, unless_damaged, view
from memoranda.standards.ump.record import Record
from memoranda.storage.engine.contract import Snapshot

# Memories shown in each direction.
SHOWN_LIMIT: Final = 50


class Origins(msgspec.Struct, frozen=True, kw_only=True):
    """The memories on either side of one, as far as the caller may see them."""

    sources: list[Record]
    made: list[Record]
    # Memories that go when this one is erased: results of passes, and those that it stands for.
    going: int


def origins(context: Context, access: Access, name: str) -> Origins:
    """Return the sources of a memory and the memories made from it, whichever standard wrote them."""
    now, name = context.clock(), whole_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    with context.engine.read(version.tenant) as snapshot:
        # The document of an erased memory is a tombstone, which names no sources and cannot be read as its standard.
        sources = (
            () if has_ended(version.state, now) else _sources(context, snapshot, version, record)
        )
        made = dict.fromkeys(
            derived.memory_id for derived in lineage.made_from(snapshot, version.memory_id)
        )
        heads = (snapshot.newest(memory_id) for memory_id in made)
        result = Origins(
            sources=_show_visible(context, access, snapshot, sources, now),
            made=_show_visible(context, access, snapshot, heads, now),
            going=len(lineage.going_with(snapshot, version.memory_id)),
        )
    targets = tuple(shown["id"] for shown in (record, *result.sources, *result.made))
    entry = audit_entry(
        access, "get", now=now, targets=targets, scope=scope_of(record), result="ok"
    )
    context.audit_read(version.tenant, entry)
    return result


def _sources(
    context: Context, snapshot: Snapshot, version: Version, record: Record
) -> Iterator[Version]:
    """Yield the memories that a version names as its sources."""
    relations = (
        relation.target
        for relation in project(context, version).relations
        if relation.type == DERIVED_FROM
    )
    evidence = (item["ref"] for item in record.get("provenance", {}).get("evidence", ()))
    seen = {version.memory_id}
    for reference in dict.fromkeys((*relations, *evidence)):
        source = _find_source(context, snapshot, version, reference)
        if source is not None and source.memory_id not in seen:
            seen.add(source.memory_id)
            yield source


def _find_source(
    context: Context, snapshot: Snapshot, version: Version, reference: str
) -> Version | None:
    """Return the memory that a version refers to by a record's id, an address, an entry's id, or a namespace's key."""
    from memoranda.service.oams import memories, views
    from memoranda.standards.oams import mapping as oams
    from memoranda.standards.oams.namespace import namespace_of
    from memoranda.standards.oms.mapping import ADDRESS_PREFIX

    if reference.startswith(ID_PREFIX):
        return snapshot.named(UMP, reference)
    if reference.startswith(ADDRESS_PREFIX):
        return snapshot.named(OMS, reference.removeprefix(ADDRESS_PREFIX))
    space = version.state.space
    namespace, key = oams.parse_reference(reference, namespace_of(space, version.tenant))
    place = views.Place(namespace=namespace, tenant=version.tenant, space=space)
    is_same_namespace = namespace == namespace_of(space, version.tenant)
    memory = memories.find(context, snapshot, place, key) if is_same_namespace else None
    return memory or snapshot.named(OPENWOP, reference)


def _show_visible(
    context: Context, access: Access, snapshot: Snapshot, versions: Iterable[Version], now: Instant
) -> list[Record]:
    """Return the records of the versions that are intact and that the caller may see, at most SHOWN_LIMIT."""
    visible = (
        version
        for version in versions
        if not version.state.is_forgotten
        and holds(version)
        and sees(context, access, snapshot, version)
    )
    views = (unless_damaged(version, partial(view, context, version, now)) for version in visible)
    return [
        show(context, access, record) for record in islice(views, SHOWN_LIMIT) if record is not None
    ]
