"""WITH dedup(field): removes duplicates that several sources returned (section 8.2)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from memoranda.standards.cal.item import ResultItem, value_of
from memoranda.standards.cal.printing.plain import compact_json


def remove_duplicates(
    by_rank: Sequence[Sequence[ResultItem]], field: str
) -> list[Sequence[ResultItem]]:
    """Remove duplicates between sources; the source with the highest priority keeps its own (cal.md, *duplicates*)."""
    # Key of a grain → rank of the first source that returned it.
    owners: dict[Hashable, int] = {}
    unique: list[Sequence[ResultItem]] = []
    for rank, items in enumerate(by_rank):
        own = [
            item for item in items if owners.setdefault(_duplicate_key(item, field), rank) == rank
        ]
        unique.append(own)
    return unique


def _duplicate_key(item: ResultItem, field: str) -> Hashable:
    """Return a key that is equal for duplicates: grains of one type with the same value of the field.

    Grains without a value are duplicates only if they are the same grain.
    """
    try:
        value = value_of(item, field)
    except (LookupError, TypeError, ValueError, OverflowError):
        # Malformed times and similar values count as missing.
        value = None
    if value is None:
        return item.address
    return item.grain_type, value if type(value) is str else (compact_json(value),)
