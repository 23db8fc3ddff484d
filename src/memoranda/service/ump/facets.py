"""Facets of a list: how many of its memories each agent, kind, project, person, tag and standard has, and each month.

The store keeps names of agents and persons as fingerprints, so the name of a group is read from one of its memories.
Counting reads the state of every memory of the list. Therefore the result is kept until the store changes, and a
result that took long to count is kept longer, so that counting never takes more than a part of the processor.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import Standard
from memoranda.model.selection import MONTH_MS, UPDATED, Selection
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.lookup import can_see
from memoranda.service.core.views import project, run_unless_damaged
from memoranda.service.retrieve import restrict_selection
from memoranda.standards.ump.mapping import TAG_PREFIX
from memoranda.standards.ump.record import Record
from memoranda.storage.engine.contract import Snapshot

# Values of a facet, the largest first.
VALUES_LIMIT: Final = 12
# The latest memories whose tags are counted.
_TAGGED: Final = 200
# Results that are kept, and the factor by which the time of counting is multiplied to tell how long.
_KEPT: Final = 64
_REST_FACTOR: Final = 20.0
# Seconds after which a result is counted again even if nothing was written, and seconds of a quick count.
_KEPT_SECONDS: Final = 60.0
_QUICK_SECONDS: Final = 0.05
_MONTHS: Final = 12
# Characters of a date such as 2026-05-31.
_DAY_CHARS: Final = 10
_STANDARDS: Final = get_args(Standard)


class FacetValue(NamedTuple):
    """A value of a facet, and its number of memories."""

    value: str
    amount: int


class Facets(msgspec.Struct, frozen=True, kw_only=True):
    """The number of memories in a list, and its facets by name. `months` ends with the current month."""

    total: int
    values: Mapping[str, Sequence[FacetValue]]
    months: Sequence[tuple[str, int]] = ()


class _Kept(NamedTuple):
    """A counted result: the position of the change feed, the time until which it is good anyway, and the facets."""

    position: int
    since: float
    until: float
    facets: Facets


class FacetCache:
    """The latest results, by the list and by what its caller may see."""

    def __init__(self) -> None:
        self._entries: OrderedDict[object, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: object, position: int) -> Facets | None:
        """Return a kept result that is still good."""
        with self._lock:
            entry = self._entries.get(key)
        if entry is None:
            return None
        now = time.monotonic()
        # Memories also begin and end to be true without a change.
        is_same = entry.position == position and now < entry.since + _KEPT_SECONDS
        return entry.facets if is_same or now < entry.until else None

    def keep(self, key: object, position: int, facets: Facets, seconds: float) -> None:
        """Keep a result that took so many seconds to count."""
        now = time.monotonic()
        until = now + _REST_FACTOR * seconds if seconds > _QUICK_SECONDS else now
        with self._lock:
            self._entries[key] = _Kept(position, now, until, facets)
            self._entries.move_to_end(key)
            while len(self._entries) > _KEPT:
                self._entries.popitem(last=False)


_cache: Final = FacetCache()


def count_facets(context: Context, access: Access, selection: Selection) -> Facets:
    """Return the facets of a list of the caller's own memories."""
    access.require("read")
    tenant = access.default_tenant
    rights = (access.credential, access.key_id, tuple(sorted(access.limits.items())))
    now = context.clock()
    key = (id(context), tenant, rights, selection)
    with context.engine.open_snapshot(tenant) as snapshot:
        position = snapshot.find_last_change()
        if (facets := _cache.find(key, position)) is not None:
            return facets
        began = time.monotonic()
        narrowed = replace(selection, at=selection.at or now)
        facets = _count(context, access, snapshot, narrowed, now)
    _cache.keep(key, position, facets, time.monotonic() - began)
    return facets


def count_in_records(records: Iterable[Record]) -> Facets:
    """Return the facets of some records, such as the results of a search."""
    items = list(records)
    counters: dict[str, Counter[str]] = {
        name: Counter() for name in ("agent", "kind", "project", "user", "tag")
    }
    for record in items:
        scope = record["scope"]
        counters["kind"][record["kind"]] += 1
        for name in ("agent", "project", "user"):
            if value := scope.get(name):
                counters[name][str(value)] += 1
        counters["tag"].update(tags_of(record))
    values = {
        name: tuple(FacetValue(*pair) for pair in counter.most_common(VALUES_LIMIT))
        for name, counter in counters.items()
    }
    return Facets(total=len(items), values=values)


def tags_of(record: Record) -> list[str]:
    """Return the tags of a record."""
    relations = record.get("relations", ())
    about = (relation["target"] for relation in relations if relation["type"] == "about")
    return [target.removeprefix(TAG_PREFIX) for target in about if target.startswith(TAG_PREFIX)]


def _count(
    context: Context, access: Access, snapshot: Snapshot, selection: Selection, now: Instant
) -> Facets:
    """Count the facets of a selection."""
    reachable = restrict_selection(context, access, snapshot, selection)
    groups = {
        name: snapshot.count_groups(reachable, by, now=now)
        for name, by in (
            ("kind", "kind"),
            ("project", "space"),
            ("agent", "agent"),
            ("user", "user"),
        )
    }
    total = sum(group.count for group in groups["kind"])
    values: dict[str, Sequence[FacetValue]] = {}
    for name, versions_of_groups in groups.items():
        largest = sorted(versions_of_groups, key=lambda group: -group.count)
        if name in ("kind", "project"):
            labels = [FacetValue(str(group.key), group.count) for group in largest if group.key]
        else:
            versions = [group for group in largest if group.key is not None][:VALUES_LIMIT]
            labels = [
                FacetValue(value, group.count)
                for group in versions
                if (value := _name_group(context, access, snapshot, group.version_id, name))
            ]
        values[name] = tuple(labels[:VALUES_LIMIT])
    values["tag"] = _count_tags(context, snapshot, reachable, now)
    values["standard"] = _count_standards(snapshot, reachable, total, now)
    return Facets(total=total, values=values, months=_count_months(snapshot, reachable, now))


def _name_group(
    context: Context, access: Access, snapshot: Snapshot, version_id: int, field: str
) -> str:
    """Return the agent or person of a version; empty if the caller may not see it."""
    for version in snapshot.load_versions([version_id]):
        if version.state.erased or not can_see(context, access, snapshot, version):
            continue
        projection = run_unless_damaged(version, partial(project, context, version))
        if projection is not None:
            return str(getattr(projection.scope, field) or "")
    return ""


def _count_tags(
    context: Context, snapshot: Snapshot, selection: Selection, now: Instant
) -> tuple[FacetValue, ...]:
    """Count the tags that the latest memories have, each among all memories."""
    latest = snapshot.load_page(selection, UPDATED, limit=_TAGGED, now=now)
    tags: Counter[str] = Counter()
    for version in snapshot.load_versions([hit.version_id for hit in latest]):
        if not version.state.erased:
            projection = run_unless_damaged(version, partial(project, context, version))
            tags.update(tag.lower() for tag in (projection.tags if projection else ()))
    values = (
        FacetValue(tag, snapshot.count(replace(selection, tags=(*selection.tags, tag)), now=now))
        for tag, _ in tags.most_common(VALUES_LIMIT)
    )
    return tuple(sorted(values, key=lambda value: -value.amount))


def _count_standards(
    snapshot: Snapshot, selection: Selection, total: int, now: Instant
) -> tuple[FacetValue, ...]:
    """Count the memories of each standard. Those of the last one are the rest, which saves the largest count."""
    if selection.standard is not None:
        return (FacetValue(selection.standard, total),)
    values = [
        FacetValue(name, snapshot.count(replace(selection, standard=name), now=now))
        for name in _STANDARDS
        if name != "ump"
    ]
    remainder = FacetValue("ump", total - sum(value.amount for value in values))
    standards = [value for value in (remainder, *values) if value.amount > 0]
    return tuple(sorted(standards, key=lambda value: -value.amount))


def _count_months(
    snapshot: Snapshot, selection: Selection, now: Instant
) -> tuple[tuple[str, int], ...]:
    """Count the memories last updated in each of the latest months, the earliest first."""
    counts = {
        int(group.key): group.count
        for group in snapshot.count_groups(selection, "month", now=now)
        if group.key is not None
    }
    last = now // MONTH_MS
    return tuple(
        (format_instant(Instant(month * MONTH_MS))[:_DAY_CHARS], counts.get(month, 0))
        for month in range(last - _MONTHS + 1, last + 1)
    )
