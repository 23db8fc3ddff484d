"""Pipeline stages over retrieved grains (section 8.1.1), set operations, and the options of WITH that change results.

Pure functions from lists to lists. The same input always gives the same order; ties are broken by content address.

Stages are pure functions on lists. What the store has done already (order, page, count) is not in the stages that
arrive here (`service/cal/paging.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import canonical as canonical_json
from memoranda.errors import InvalidInput
from memoranda.standards.cal.item import ResultItem, time_of, value_of
from memoranda.standards.cal.language.syntax import (
    GroupBy,
    Limit,
    Offset,
    OrderBy,
    Project,
    Reduce,
    Select,
    Stage,
)
from memoranda.standards.cal.printing.values import compact_json
from memoranda.standards.oms.mapping import is_text

Entry = TypeVar("Entry")

# Grains that each group returns as a sample.
GROUP_SAMPLE_GRAINS: Final = 5
# Weight of relevance against diversity in `diversify`, from 0 to 1.
DEFAULT_LAMBDA: Final = 0.7


class GrainList(msgspec.Struct, frozen=True):
    """A result of grains."""

    items: Sequence[ResultItem]


class ProjectedRow(msgspec.Struct, frozen=True):
    """The selected fields of one grain, and the grain itself."""

    fields: dict[str, object]
    item: ResultItem


class RowList(msgspec.Struct, frozen=True):
    """A result of SELECT."""

    items: Sequence[ProjectedRow]


class Values(msgspec.Struct, frozen=True):
    """A result of SUBJECTS, OBJECTS or HASHES."""

    items: Sequence[str]


class GrainGroup(msgspec.Struct, frozen=True):
    """A value of the grouped field, the number of its grains, and a sample of them."""

    key: object
    count: int
    sample: Sequence[ResultItem]


class GroupList(msgspec.Struct, frozen=True):
    """A result of GROUP BY."""

    items: Sequence[GrainGroup]


class Total(msgspec.Struct, frozen=True):
    """A result of COUNT."""

    count: int


class Contradiction(TypedDict):
    """Beliefs with one subject and relation, but different objects; the grains by their hashes."""

    subject: object
    relation: object
    grains: list[str]


Outcome: TypeAlias = GrainList | RowList | Values | GroupList | Total


class Slice(msgspec.Struct, frozen=True):
    """A LIMIT, an OFFSET, or both, where the offset is applied first."""

    offset: int = 0
    limit: int | None = None


def merge_slices(stages: Iterable[Stage | Slice]) -> list[Stage | Slice]:
    """Merge each LIMIT with an adjacent OFFSET, in either order, into one slice that skips first."""
    merged_stages: list[Stage | Slice] = []
    unpaired: Limit | Offset | None = None
    for stage in stages:
        if not isinstance(stage, Limit | Offset):
            merged_stages.append(stage)
            unpaired = None
        elif unpaired is None or type(unpaired) is type(stage):
            merged_stages.append(_to_slice(stage))
            unpaired = stage
        else:
            skip, take = (unpaired, stage) if isinstance(stage, Limit) else (stage, unpaired)
            merged_stages[-1] = Slice(_to_slice(skip).offset, _to_slice(take).limit)
            unpaired = None
    return merged_stages


def _to_slice(stage: Limit | Offset) -> Slice:
    """Return a LIMIT or an OFFSET as a slice."""
    assert isinstance(stage.count, int)
    return Slice(limit=stage.count) if isinstance(stage, Limit) else Slice(offset=stage.count)


def run_stages(stages: Iterable[Stage | Slice], outcome: Outcome) -> Outcome:
    """Run the stages in order."""
    for stage in merge_slices(stages):
        outcome = _apply_stage(stage, outcome)
    return outcome


def _apply_stage(stage: Stage | Slice, outcome: Outcome) -> Outcome:
    """Run one stage."""
    if isinstance(stage, Slice):
        return _apply_slice(outcome, stage.offset, stage.limit)
    if isinstance(stage, OrderBy):
        return _apply_order(stage, outcome)
    if isinstance(stage, Reduce):
        return _apply_reduce(stage, outcome)
    if isinstance(stage, Select):
        assert isinstance(outcome, GrainList)
        return RowList(
            [
                ProjectedRow({name: value_of(item, name) for name in stage.fields}, item)
                for item in outcome.items
            ]
        )
    if isinstance(stage, GroupBy):
        assert isinstance(outcome, GrainList)
        return _group_by(stage.field, outcome.items)
    assert isinstance(stage, Project)
    return outcome


def _apply_slice(outcome: Outcome, offset: int, limit: int | None) -> Outcome:
    """Return the part of a result that a slice selects."""
    assert not isinstance(outcome, Total)
    end = None if limit is None else offset + limit
    items: Sequence[Any] = outcome.items[offset:end]
    return type(outcome)(items)


def _apply_order(stage: OrderBy, outcome: Outcome) -> Outcome:
    """Return the grains or rows of a result in the order of a field."""
    if isinstance(outcome, RowList):
        rows = _sort_by(
            outcome.items,
            lambda row: row.fields.get(stage.field),
            lambda row: row.item,
            stage.descending,
        )
        return RowList(rows)
    assert isinstance(outcome, GrainList)
    return GrainList(sort_items(outcome.items, stage))


def sort_items(items: Sequence[ResultItem], by: OrderBy) -> list[ResultItem]:
    """Return the items ordered by a field: missing values last in both directions, ties by address."""
    return _sort_by(items, lambda item: value_of(item, by.field), lambda item: item, by.descending)


def _sort_by(
    items: Sequence[Entry],
    value: Callable[[Entry], object],
    item: Callable[[Entry], ResultItem],
    descending: bool,
) -> list[Entry]:
    """Return the entries ordered by a value; `item` returns the grain of an entry."""
    by_address = sorted(items, key=lambda entry: item(entry).address)
    with_value = [entry for entry in by_address if value(entry) is not None]
    without_value = [entry for entry in by_address if value(entry) is None]
    # The sort is stable, also with reverse=True, so ties stay ordered by address.
    return [
        *sorted(with_value, key=lambda entry: _sort_key(value(entry)), reverse=descending),
        *without_value,
    ]


def _sort_key(value: object) -> tuple[int, object]:
    """Return a key that is comparable for all values: booleans, numbers, then texts and other values as text."""
    if isinstance(value, bool):
        return 0, int(value)
    if isinstance(value, int | float):
        return 1, value
    return 2, value if isinstance(value, str) else value_text(value)


def value_text(value: object) -> str:
    """Return a value that is no text as canonical JSON."""
    try:
        return canonical_json(value).decode("utf-8")
    except InvalidInput:
        return str(value)


def _apply_reduce(stage: Reduce, outcome: Outcome) -> Outcome:
    """Return the result of COUNT, FIRST, SUBJECTS, OBJECTS or HASHES. Values are listed once each."""
    assert not isinstance(outcome, Total)
    if stage.to == "count":
        return Total(len(outcome.items))
    if stage.to == "first":
        return _apply_slice(outcome, 0, 1)
    assert isinstance(outcome, GrainList)
    if stage.to == "hashes":
        return Values([item.hash for item in outcome.items])
    name = "subject" if stage.to == "subjects" else "object"
    values = (value_of(item, name) for item in outcome.items)
    texts: dict[str, None] = {}
    for value in values:
        if value is not None:
            texts[value if isinstance(value, str) else value_text(value)] = None
    return Values(list(texts))


def _group_by(field: str, items: Sequence[ResultItem]) -> GroupList:
    """Return the grains grouped by a field: the largest groups first, then by value."""
    members: dict[tuple[int, object], list[ResultItem]] = {}
    keys: dict[tuple[int, object], object] = {}
    for item in items:
        value = value_of(item, field)
        rank = group_rank(value)
        members.setdefault(rank, []).append(item)
        keys.setdefault(rank, value)
    ranked = sorted(members.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return GroupList(
        [
            GrainGroup(keys[rank], len(group_items), group_items[:GROUP_SAMPLE_GRAINS])
            for rank, group_items in ranked
        ]
    )


def group_rank(value: object) -> tuple[int, object]:
    """Return the key that orders groups of equal size; None comes last."""
    return (3, "") if value is None else _sort_key(value)


# --- options of WITH -------------------------------------------------------------------------------------


def deduplicate(items: Sequence[ResultItem], field: str) -> list[ResultItem]:
    """Keep the first grain for each value of a field, and all grains without the field."""
    seen_keys: set[tuple[int, object]] = set()
    unique = []
    for item in items:
        value = value_of(item, field)
        if value is None:
            key: tuple[int, object] = (3, item.address)
        else:
            key = _sort_key(value_text(value) if isinstance(value, list) else value)
        if key not in seen_keys:
            seen_keys.add(key)
            unique.append(item)
    return unique


def remove_duplicates(
    by_rank: Sequence[Sequence[ResultItem]], field: str | None = None
) -> list[Sequence[ResultItem]]:
    """Remove duplicates between sources; the source with the highest priority keeps its own (cal.md, *duplicates*).

    Without a field, only the same grain is a duplicate.
    """
    # Key of a grain → rank of the first source that returned it.
    owners: dict[Hashable, int] = {}
    unique: list[Sequence[ResultItem]] = []
    for rank, items in enumerate(by_rank):
        own_items = [
            item for item in items if owners.setdefault(_duplicate_key(item, field), rank) == rank
        ]
        unique.append(own_items)
    return unique


def _duplicate_key(item: ResultItem, field: str | None) -> Hashable:
    """Return a key that is equal for duplicates: grains of one type with the same value of the field.

    Grains without a value, or without a field to compare, are duplicates only if they are the same grain.
    """
    if field is None:
        return item.address
    try:
        value = value_of(item, field)
    except (LookupError, TypeError, ValueError, OverflowError):
        # Malformed times and similar values count as missing.
        value = None
    if value is None:
        return item.address
    return item.grain_type, value if type(value) is str else (compact_json(value),)


# The role of a user's message.
USER_ROLE: Final = "user"
Similarity: TypeAlias = Callable[[ResultItem, ResultItem], float]


def diversify(
    items: Sequence[ResultItem],
    similarity: Similarity,
    *,
    weight: float = DEFAULT_LAMBDA,
    limit: int | None = None,
) -> list[ResultItem]:
    """Order items by maximal marginal relevance: each next one is relevant, and unlike those before it.

    `weight` is the weight of relevance, and 1 - `weight` that of diversity. Stops after `limit` items.
    """
    candidates = list(items)
    greatest_similarities = [0.0] * len(candidates)
    chosen_items: list[ResultItem] = []
    while candidates:
        gains = [
            weight * item.score - (1.0 - weight) * greatest_similarity
            for item, greatest_similarity in zip(candidates, greatest_similarities, strict=True)
        ]
        best = max(range(len(candidates)), key=lambda index: (gains[index], -index))
        best_item = candidates.pop(best)
        greatest_similarities.pop(best)
        chosen_items.append(best_item)
        if len(chosen_items) == limit:
            break
        greatest_similarities = [
            max(greatest_similarity, similarity(item, best_item))
            for item, greatest_similarity in zip(candidates, greatest_similarities, strict=True)
        ]
    return chosen_items


def drop_similar(
    items: Sequence[ResultItem],
    similarity: Similarity,
    threshold: float,
    *,
    limit: int | None = None,
) -> list[ResultItem]:
    """Drop items whose similarity to an earlier one reaches the threshold. Stops after `limit` items."""
    kept_items: list[ResultItem] = []
    for item in items:
        if len(kept_items) == limit:
            break
        if all(similarity(item, other) < threshold for other in kept_items):
            kept_items.append(item)
    return kept_items


def order_exchanges(items: Sequence[ResultItem]) -> list[ResultItem]:
    """Return events by exchange: the newest exchange first, its messages in the order of time.

    A message of a user, or an event without a role, begins an exchange, and so does the first event of a session.
    The actions of a session are one exchange.
    """
    exchanges: list[list[ResultItem]] = []
    session: object = None
    for event in sorted(items, key=lambda item: (time_of(item.fields), item.address)):
        is_message = event.grain_type == "event"
        begins = is_message and event.fields.get("role", USER_ROLE) == USER_ROLE
        if begins or not exchanges or event.fields.get("session_id") != session:
            exchanges.append([])
        exchanges[-1].append(event)
        session = event.fields.get("session_id")
    return [event for exchange in reversed(exchanges) for event in exchange]


def find_contradictions(items: Sequence[ResultItem]) -> list[Contradiction]:
    """Return groups of current beliefs that have one subject and relation, but different objects.

    A text without a triple has no relation of its own.
    """
    by_relation: dict[tuple[object, object], list[ResultItem]] = {}
    for item in items:
        subject, relation = value_of(item, "subject"), value_of(item, "relation")
        is_current = item.superseded_by is None and item.verification != "retracted"
        is_triple = bool(subject and relation) and not is_text(item.grain_type, item.fields)
        if item.grain_type == "belief" and is_current and is_triple:
            by_relation.setdefault((subject, relation), []).append(item)
    contradictions: list[Contradiction] = []
    for (subject, relation), beliefs in by_relation.items():
        objects = {value_text(value_of(item, "object")) for item in beliefs}
        if len(objects) > 1:
            hashes = [item.hash for item in beliefs]
            contradictions.append({"subject": subject, "relation": relation, "grains": hashes})
    return contradictions


# --- sets ------------------------------------------------------------------------------------------------


def combine_sets(
    operator: str, left_grains: Sequence[ResultItem], right_grains: Sequence[ResultItem]
) -> list[ResultItem]:
    """Combine two lists of grains by UNION, INTERSECT or EXCEPT: best score first, then by address."""
    left_items = {item.address: item for item in left_grains}
    right_items = {item.address: item for item in right_grains}
    if operator == "union":
        combined = {**right_items, **left_items}
        both = left_items.keys() & right_items.keys()
        scores = {
            address: max(left_items[address].score, right_items[address].score) for address in both
        }
    elif operator == "intersect":
        combined = {address: item for address, item in left_items.items() if address in right_items}
        scores = {
            address: min(item.score, right_items[address].score)
            for address, item in combined.items()
        }
    else:
        combined = {
            address: item for address, item in left_items.items() if address not in right_items
        }
        scores = {}
    scored = [
        replace(item, score=scores.get(address, item.score)) for address, item in combined.items()
    ]
    return sorted(scored, key=lambda item: (-item.score, item.address))
