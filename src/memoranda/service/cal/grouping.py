"""GROUP BY in the store (CAL section 8.1.1): groups are counted there, and only what is shown of them is read.

The store counts by fingerprint. The text of a group comes from one of its grains; where groups are equally large it
decides which comes first, so all of those are read, and none that are smaller than the last group of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.model.selection import InGroup, Order, Selection, VersionGroup
from memoranda.service.cal.window import Found
from memoranda.standards.cal.assembly import pipeline
from memoranda.standards.cal.assembly.pipeline import GROUP_SAMPLE_GRAINS, GroupList
from memoranda.standards.cal.field_index import INDEX_NAMES
from memoranda.standards.cal.item import ResultItem, value_of
from memoranda.storage.engine.contract import Snapshot

# Fields with a column of their own that says what the grain itself says.
COUNTED: Final = frozenset(("subject", "relation", "type", "session_id", "verification_status"))
_BY_ADDRESS: Final = Order(by="address")


class Grouping(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of what is selected, counted in the store."""

    snapshot: Snapshot
    selection: Selection
    field: str
    now: Instant
    items_of: Callable[[Sequence[int]], list[ResultItem]]
    refuse_wide: Callable[[int], None]

    def page(self, start: int, limit: int, following: int) -> Found | None:
        """Some groups, the largest first, and where the next page begins; None: one of them cannot be read."""
        counted = self.snapshot.count_groups(
            self.selection, INDEX_NAMES.get(self.field, self.field), now=self.now
        )
        total = sum(each.count for each in counted)
        counted.sort(key=lambda each: -each.count)
        end = start + limit
        is_more = len(counted) > end
        if is_more:
            counted = [each for each in counted if each.count >= counted[end - 1].count]
        named = self._named(counted)
        if named is None:
            return None
        shown = [self._shown(key, group) for key, group in named[start:end]]
        return Found(GroupList(shown), total, following if is_more else None)

    def _named(self, counted: list[VersionGroup]) -> list[tuple[Any, VersionGroup]] | None:
        """Each with its value, in their order."""
        self.refuse_wide(len(counted))
        items = self.items_of([each.version_id for each in counted])
        if len(items) < len(counted):
            return None
        named = [
            (value_of(item, self.field), group) for item, group in zip(items, counted, strict=True)
        ]
        return sorted(named, key=lambda each: (-each[1].count, pipeline.group_rank(each[0])))

    def _shown(self, key: Any, group: VersionGroup) -> pipeline.GrainGroup:
        member = InGroup(name=INDEX_NAMES.get(self.field, self.field), key=group.key)
        within = replace(self.selection, tests=(*self.selection.tests, member))
        found = self.snapshot.load_page(
            within, _BY_ADDRESS, limit=GROUP_SAMPLE_GRAINS, now=self.now
        )
        return pipeline.GrainGroup(
            key, group.count, self.items_of([each.version_id for each in found])
        )
