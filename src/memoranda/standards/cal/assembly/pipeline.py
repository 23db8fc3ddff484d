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
from memoranda.standards.oms.mapping import is_text

# How many grains a group shows.
GROUP_SAMPLE: Final = 5
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


class Counted(msgspec.Struct, frozen=True):
    count: int


Outcome: TypeAlias = Grains | Rows | Values | Groups | Counted


class Slice(msgspec.Struct, frozen=True):
    """A LIMIT, an OFFSET, or both."""

    offset: int = 0
    limit: int | None = None


def paired(stages: Iterable[Stage | Slice]) -> list[Stage | Slice]:
    """The stages with every LIMIT and OFFSET side by side, in either order, as one: skip first, then take."""
    found: list[Stage | Slice] = []
    half: Limit | Offset | None = None
    for stage in stages:
        if not isinstance(stage, Limit | Offset):
            found.append(stage)
            half = None
        elif half is None or type(half) is type(stage):
            found.append(_slice(stage))
            half = stage
        else:
            skip, take = (half, stage) if isinstance(stage, Limit) else (stage, half)
            found[-1] = Slice(_slice(skip).offset, _slice(take).limit)
            half = None
    return found


def _slice(stage: Limit | Offset) -> Slice:
    assert isinstance(stage.count, int)
    return Slice(limit=stage.count) if isinstance(stage, Limit) else Slice(offset=stage.count)


def run(stages: Iterable[Stage | Slice], outcome: Outcome) -> Outcome:
    """Run stages in the order written."""
    for stage in paired(stages):
        outcome = _apply(stage, outcome)
    return outcome


def _apply(stage: Stage | Slice, outcome: Outcome) -> Outcome:
    if isinstance(stage, Slice):
        return _sliced(outcome, stage.offset, stage.limit)
    if isinstance(stage, OrderBy):
        return _ordered(stage, outcome)
    if isinstance(stage, Reduce):
        return _reduced(stage, outcome)
    if isinstance(stage, Select):
        assert isinstance(outcome, Grains)
        return Rows([Row({name: value_of(item, name) for name in stage.fields}, item) for item in outcome.items])
    if isinstance(stage, GroupBy):
        assert isinstance(outcome, Grains)
        return _grouped(stage.field, outcome.items)
    assert isinstance(stage, Project)
    return outcome


def _sliced(outcome: Outcome, offset: int, limit: int | None) -> Outcome:
    assert not isinstance(outcome, Counted)
    end = None if limit is None else offset + limit
    kept: Sequence[Any] = outcome.items[offset:end]
    return type(outcome)(kept)


def _ordered(stage: OrderBy, outcome: Outcome) -> Outcome:
    if isinstance(outcome, Rows):
        rows = _sorted(outcome.items, lambda row: row.fields.get(stage.field), lambda row: row.item, stage.descending)
        return Rows(rows)
    assert isinstance(outcome, Grains)
    return Grains(order(outcome.items, stage))


def order(items: Sequence[Item], by: OrderBy) -> list[Item]:
    """Sorted by a field: missing values last in both directions, ties by address."""
    return _sorted(items, lambda item: value_of(item, by.field), lambda item: item, by.descending)


def _sorted(
    items: Sequence[Any], value: Callable[[Any], Any], item: Callable[[Any], Item], descending: bool
) -> list[Any]:
    by_address = sorted(items, key=lambda each: item(each).address)
    present = [each for each in by_address if value(each) is not None]
    missing = [each for each in by_address if value(each) is None]
    # A stable sort keeps equal ones by address; reversed order must not reverse them.
    return [*sorted(present, key=lambda each: _rank(value(each)), reverse=descending), *missing]


def _rank(value: Any) -> tuple[int, Any]:
    """Something that can always be compared: numbers before texts, anything else by its spelling."""
    if isinstance(value, bool):
        return 0, int(value)
    if isinstance(value, int | float):
        return 1, value
    return 2, value if isinstance(value, str) else compact(value)


def compact(value: Any) -> str:
    """A value that is not text, spelt."""
    try:
        return canonical_json(value).decode("utf-8")
    except InvalidInput:
        return str(value)


def _reduced(stage: Reduce, outcome: Outcome) -> Outcome:
    assert not isinstance(outcome, Counted)
    if stage.to == "count":
        return Counted(len(outcome.items))
    if stage.to == "first":
        return _sliced(outcome, 0, 1)
    assert isinstance(outcome, Grains)
    if stage.to == "hashes":
        return Values([item.hash for item in outcome.items])
    name = "subject" if stage.to == "subjects" else "object"
    found = (value_of(item, name) for item in outcome.items)
    texts = (value if isinstance(value, str) else compact(value) for value in found if value is not None)
    return Values(list(dict.fromkeys(texts)))


def _grouped(field: str, items: Sequence[Item]) -> Groups:
    members: dict[tuple[int, Any], list[Item]] = {}
    keys: dict[tuple[int, Any], Any] = {}
    for item in items:
        value = value_of(item, field)
        place = place_of(value)
        members.setdefault(place, []).append(item)
        keys.setdefault(place, value)
    found = sorted(members.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return Groups([Group(keys[place], len(held), held[:GROUP_SAMPLE]) for place, held in found])


def place_of(value: Any) -> tuple[int, Any]:
    """Where the group of a value stands among groups as large."""
    return (3, "") if value is None else _rank(value)


# --- what WITH does --------------------------------------------------------------------------------------


def deduplicated(items: Sequence[Item], field: str) -> list[Item]:
    """The first grain of each value of a field; one without the field stands for itself."""
    seen: set[tuple[int, Any]] = set()
    kept = []
    for item in items:
        value = value_of(item, field)
        place = (3, item.address) if value is None else _rank(value if not isinstance(value, list) else compact(value))
        if place not in seen:
            seen.add(place)
            kept.append(item)
    return kept


Similarity: TypeAlias = Callable[[Item, Item], float]


def diverse(
    items: Sequence[Item], similarity: Similarity, *, weight: float = DEFAULT_LAMBDA, enough: int | None = None
) -> list[Item]:
    """Maximal marginal relevance: each next grain is good, and unlike those before it. `weight` is relevance's.

    All of them, or the first that are enough.
    """
    rest = list(items)
    nearest = [0.0] * len(rest)
    chosen: list[Item] = []
    while rest:
        gains = [weight * item.score - (1.0 - weight) * near for item, near in zip(rest, nearest, strict=True)]
        best = max(range(len(rest)), key=lambda place: (gains[place], -place))
        taken = rest.pop(best)
        nearest.pop(best)
        chosen.append(taken)
        if len(chosen) == enough:
            break
        nearest = [max(near, similarity(item, taken)) for item, near in zip(rest, nearest, strict=True)]
    return chosen


def unlike(items: Sequence[Item], similarity: Similarity, threshold: float, *, enough: int | None = None) -> list[Item]:
    """Without those that are as similar as the threshold to one before them: all the others, or enough of them."""
    kept: list[Item] = []
    for item in items:
        if len(kept) == enough:
            break
        if all(similarity(item, other) < threshold for other in kept):
            kept.append(item)
    return kept


def contradictions(items: Sequence[Item]) -> list[dict[str, Any]]:
    """Return current beliefs of one subject and relation with different objects; a text has no relation of its own."""
    said: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        subject, relation = value_of(item, "subject"), value_of(item, "relation")
        is_current = item.superseded_by is None and item.verification != "retracted"
        is_triple = bool(subject and relation) and not is_text(item.grain_type, item.fields)
        if item.grain_type == "belief" and is_current and is_triple:
            said.setdefault((subject, relation), []).append(item)
    return [
        {"subject": subject, "relation": relation, "grains": [item.hash for item in held]}
        for (subject, relation), held in said.items()
        if len({compact(value_of(item, "object")) for item in held}) > 1
    ]


# --- sets ------------------------------------------------------------------------------------------------


def combine(operator: str, left: Sequence[Item], right: Sequence[Item]) -> list[Item]:
    """Two lists of grains as one: best first, then by address."""
    ours, theirs = {item.address: item for item in left}, {item.address: item for item in right}
    if operator == "union":
        found = {**theirs, **ours}
        both = ours.keys() & theirs.keys()
        scores = {address: max(ours[address].score, theirs[address].score) for address in both}
    elif operator == "intersect":
        found = {address: item for address, item in ours.items() if address in theirs}
        scores = {address: min(item.score, theirs[address].score) for address, item in found.items()}
    else:
        found, scores = {address: item for address, item in ours.items() if address not in theirs}, {}
    scored = [replace(item, score=scores.get(address, item.score)) for address, item in found.items()]
    return sorted(scored, key=lambda item: (-item.score, item.address))
