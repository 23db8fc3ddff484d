"""WITH dedup(field): what several sources found is said once (section 8.2)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from memoranda.standards.cal.item import Item, value_of
from memoranda.standards.cal.printing.plain import compact_json


def remove_duplicates(by_rank: Sequence[Sequence[Item]], field: str) -> list[Sequence[Item]]:
    """Of copies in several sources, all those of the source with the highest priority stay (cal.md, *copies*)."""
    owners: dict[Hashable, int] = {}
    return [
        [item for item in items if owners.setdefault(_duplicate_key(item, field), rank) == rank]
        for rank, items in enumerate(by_rank)
    ]


def _duplicate_key(item: Item, field: str) -> Hashable:
    """Copies have the same type and the same value; without a value, only the same grain is a copy."""
    try:
        value = value_of(item, field)
    except (LookupError, TypeError, ValueError, OverflowError):
        # A grain with broken times has none.
        value = None
    if value is None:
        return item.address
    return item.grain_type, value if type(value) is str else (compact_json(value),)
