"""Stages of a pipeline over grains already retrieved (section 8.1.1), set operations, and what WITH does to results.

Pure: lists in, lists out. The same input always gives the same order; ties are broken by content address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import canonical as canonical_json
from memoranda.errors import InvalidInput
from memoranda.standards.cal.item import Item, value_of
from memoranda.standards.cal.language.syntax import GroupBy, Limit, Offset, OrderBy, Project, Reduce, Select, Stage

# How many grains a group shows.
GROUP_SAMPLE_GRAINS: Final = 5
DEFAULT_LAMBDA: Final = 0.7


class Grains(msgspec.Struct, frozen=True):
    items: Sequence[Item]


class Row(msgspec.Struct, frozen=True):
    """The selected fields of one grain."""

    fields: dict[str, Any]
    item: Item


class Rows(msgspec.Struct, frozen=True):
    items: Sequence[Row]


class Values(msgspec.Struct, frozen=True):
    items: Sequence[Any]


class Group(msgspec.Struct, frozen=True):
    key: Any
    count: int
    sample: Sequence[Item]


class Groups(msgspec.Struct, frozen=True):
    items: Sequence[Group]


class Total(msgspec.Struct, frozen=True):
    count: int


Outcome: TypeAlias = Grains | Rows | Values | Groups | Total


class Slice(msgspec.Struct, frozen=True):
    """A LIMIT, an OFFSET, or both."""

    offset: int = 0
    limit: int | None = None


def merge_slices(stages: Iterable[Stage | Slice]) -> list[Stage | Slice]:
    """The stages with every LIMIT and OFFSET side by side, in either order, as one: skip first, then take."""
    merged: list[Stage | Slice] = []
    unpaired: Limit | Offset | None = None
    for stage in stages:
        if not isinstance(stage, Limit | Offset):
            merged.append(stage)
            unpaired = None
        elif unpaired is None or type(unpaired) is type(stage):
            merged.append(_to_slice(stage))
            unpaired = stage
        else:
            skip, take = (unpaired, stage) if isinstance(stage, Limit) else (stage, unpaired)
            merged[-1] = Slice(_to_slice(skip).offset, _to_slice(take).limit)
            unpaired = None
    return merged


def _to_slice(stage: Limit | Offset) -> Slice:
    assert isinstance(stage.count, int)
    return Slice(limit=stage.count) if isinstance(stage, Limit) else Slice(offset=stage.count)


def run_stages(stages: Iterable[Stage | Slice], outcome: Outcome) -> Outcome:
    """Run stages in the order written."""
    for stage in merge_slices(stages):
        outcome = _apply_stage(stage, outcome)
    return outcome


def _apply_stage(stage: Stage | Slice, outcome: Outcome) -> Outcome:
    if isinstance(stage, Slice):
        return _apply_slice(outcome, stage.offset, stage.limit)
    if isinstance(stage, OrderBy):
        return _apply_order(stage, outcome)
    if isinstance(stage, Reduce):
        return _apply_reduce(stage, outcome)
    if isinstance(stage, Select):
        assert isinstance(outcome, Grains)
        return Rows([Row({name: value_of(item, name) for name in stage.fields}, item) for item in outcome.items])
    if isinstance(stage, GroupBy):
        assert isinstance(outcome, Grains)
        return _group_by(stage.field, outcome.items)
    assert isinstance(stage, Project)
    return outcome


def _apply_slice(outcome: Outcome, offset: int, limit: int | None) -> Outcome:
    assert not isinstance(outcome, Total)
    end = None if limit is None else offset + limit
    items: Sequence[Any] = outcome.items[offset:end]
    return type(outcome)(items)


def _apply_order(stage: OrderBy, outcome: Outcome) -> Outcome:
    if isinstance(outcome, Rows):
        rows = _sort_by(outcome.items, lambda row: row.fields.get(stage.field), lambda row: row.item, stage.descending)
        return Rows(rows)
    assert isinstance(outcome, Grains)
    return Grains(sort_items(outcome.items, stage))


def sort_items(items: Sequence[Item], by: OrderBy) -> list[Item]:
    """Sorted by a field: missing values last in both directions, ties by address."""
    return _sort_by(items, lambda item: value_of(item, by.field), lambda item: item, by.descending)


def _sort_by(
    items: Sequence[Any], value: Callable[[Any], Any], item: Callable[[Any], Item], descending: bool
) -> list[Any]:
    by_address = sorted(items, key=lambda entry: item(entry).address)
    present = [entry for entry in by_address if value(entry) is not None]
    missing = [entry for entry in by_address if value(entry) is None]
    # A stable sort keeps equal ones by address; reversed order must not reverse them.
    return [*sorted(present, key=lambda entry: _sort_key(value(entry)), reverse=descending), *missing]


def _sort_key(value: Any) -> tuple[int, Any]:
    """Something that can always be compared: numbers before texts, anything else by its spelling."""
    if isinstance(value, bool):
        return 0, int(value)
    if isinstance(value, int | float):
        return 1, value
    return 2, value if isinstance(value, str) else value_text(value)


def value_text(value: Any) -> str:
    """A value that is not text, spelt."""
    try:
        return canonical_json(value).decode("utf-8")
    except InvalidInput:
        return str(value)


def _apply_reduce(stage: Reduce, outcome: Outcome) -> Outcome:
    assert not isinstance(outcome, Total)
    if stage.to == "count":
        return Total(len(outcome.items))
    if stage.to == "first":
        return _apply_slice(outcome, 0, 1)
    assert isinstance(outcome, Grains)
    if stage.to == "hashes":
        return Values([item.hash for item in outcome.items])
    name = "subject" if stage.to == "subjects" else "object"
    values = (value_of(item, name) for item in outcome.items)
    texts = (value if isinstance(value, str) else value_text(value) for value in values if value is not None)
    return Values(list(dict.fromkeys(texts)))


def _group_by(field: str, items: Sequence[Item]) -> Groups:
    members: dict[tuple[int, Any], list[Item]] = {}
    keys: dict[tuple[int, Any], Any] = {}
    for item in items:
        value = value_of(item, field)
        rank = group_rank(value)
        members.setdefault(rank, []).append(item)
        keys.setdefault(rank, value)
    ranked = sorted(members.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return Groups(
        [Group(keys[rank], len(group_items), group_items[:GROUP_SAMPLE_GRAINS]) for rank, group_items in ranked]
    )


def group_rank(value: Any) -> tuple[int, Any]:
    """Where the group of a value stands among groups as large."""
    return (3, "") if value is None else _sort_key(value)


# --- what WITH does --------------------------------------------------------------------------------------


def deduplicate(items: Sequence[Item], field: str) -> list[Item]:
    """The first grain of each value of a field; one without the field stands for itself."""
    seen: set[tuple[int, Any]] = set()
    unique = []
    for item in items:
        value = value_of(item, field)
        key = (
            (3, item.address)
            if value is None
            else _sort_key(value if not isinstance(value, list) else value_text(value))
        )
        if key not in seen:
            seen.add(key)
            unique.append(item)
    return unique


Similarity: TypeAlias = Callable[[Item, Item], float]


def diversify(
    items: Sequence[Item], similarity: Similarity, *, weight: float = DEFAULT_LAMBDA, limit: int | None = None
) -> list[Item]:
    """Maximal marginal relevance: each next grain is good, and unlike those before it. `weight` is relevance's.

    All of them, or the first that are enough.
    """
    candidates = list(items)
    nearest = [0.0] * len(candidates)
    chosen: list[Item] = []
    while candidates:
        gains = [weight * item.score - (1.0 - weight) * near for item, near in zip(candidates, nearest, strict=True)]
        best = max(range(len(candidates)), key=lambda index: (gains[index], -index))
        selected = candidates.pop(best)
        nearest.pop(best)
        chosen.append(selected)
        if len(chosen) == limit:
            break
        nearest = [max(near, similarity(item, selected)) for item, near in zip(candidates, nearest, strict=True)]
    return chosen


def drop_similar(
    items: Sequence[Item], similarity: Similarity, threshold: float, *, limit: int | None = None
) -> list[Item]:
    """Without those that are as similar as the threshold to one before them: all the others, or enough of them."""
    selected: list[Item] = []
    for item in items:
        if len(selected) == limit:
            break
        if all(similarity(item, other) < threshold for other in selected):
            selected.append(item)
    return selected


def find_contradictions(items: Sequence[Item]) -> list[dict[str, Any]]:
    """Current beliefs of one subject and relation that do not say the same."""
    by_relation: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        subject, relation = value_of(item, "subject"), value_of(item, "relation")
        is_current = item.superseded_by is None and item.verification != "retracted"
        if item.grain_type == "belief" and is_current and subject and relation:
            by_relation.setdefault((subject, relation), []).append(item)
    return [
        {"subject": subject, "relation": relation, "grains": [item.hash for item in beliefs]}
        for (subject, relation), beliefs in by_relation.items()
        if len({value_text(value_of(item, "object")) for item in beliefs}) > 1
    ]


# --- sets ------------------------------------------------------------------------------------------------


def combine_sets(operator: str, left_grains: Sequence[Item], right_grains: Sequence[Item]) -> list[Item]:
    """Two lists of grains as one: best first, then by address."""
    left_items, right_items = (
        {item.address: item for item in left_grains},
        {item.address: item for item in right_grains},
    )
    if operator == "union":
        combined = {**right_items, **left_items}
        both = left_items.keys() & right_items.keys()
        scores = {address: max(left_items[address].score, right_items[address].score) for address in both}
    elif operator == "intersect":
        combined = {address: item for address, item in left_items.items() if address in right_items}
        scores = {address: min(item.score, right_items[address].score) for address, item in combined.items()}
    else:
        combined, scores = {address: item for address, item in left_items.items() if address not in right_items}, {}
    scored = [replace(item, score=scores.get(address, item.score)) for address, item in combined.items()]
    return sorted(scored, key=lambda item: (-item.score, item.address))
