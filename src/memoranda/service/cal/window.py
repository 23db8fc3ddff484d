"""The part of a pipeline that the store does, and pages of what comes out at its end (CAL section 8.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from memoranda.model.selection import Order
from memoranda.retrieval.analysis import keywords
from memoranda.service.core.compliance import apply_minimum_necessary
from memoranda.service.oms.views import collect_text
from memoranda.standards.cal.assembly import pipeline
from memoranda.standards.cal.assembly.pipeline import GrainList, GroupList, Outcome, Slice, Total
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language.syntax import (
    GroupBy,
    Limit,
    Option,
    OrderBy,
    Project,
    Recall,
    Reduce,
    Select,
    Stage,
)
from memoranda.standards.cal.printing.projection import text_of
from memoranda.standards.oms.mapping import is_text

# Diversity compares each with each.
DIVERSE_LIMIT: Final = 500
_SQL_ORDERS: Final = {"time": "at", "confidence": "confidence", "importance": "importance"}


class Found(msgspec.Struct):
    """What a RECALL found."""

    outcome: Outcome
    # Matches before any LIMIT; None: more than these, and not counted.
    total: int | None
    # Where the next page starts, counted in what the last LIMIT lets through; None: nothing is left.
    next_offset: int | None = None
    contradictions: list[dict[str, Any]] | None = None
    shape: Project | None = None

    @property
    def items(self) -> list[ResultItem]:
        """The grains, when it yields grains."""
        return list(self.outcome.items) if isinstance(self.outcome, GrainList) else []


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a pipeline that the store does: an order, a page, and the stages that remain."""

    order: OrderBy | None = None
    offset: int = 0
    limit: int | None = None
    rest: tuple[Stage | Slice, ...] = ()
    counts: bool = False
    # Groups of which the page is, if the store counts them.
    groups: str | None = None


def with_limit(written: Recall, stages: tuple[Stage, ...], default: int) -> tuple[Stage, ...]:
    """An implicit LIMIT at the end, where nothing else bounds what comes out."""
    if any(isinstance(stage, Limit) for stage in stages) or written.recent is not None:
        return stages
    if any(isinstance(stage, Reduce) and stage.to in ("count", "first") for stage in stages):
        return stages
    return (*stages, Limit(count=default))


def window_of(stages: tuple[Stage, ...], *, pushes: bool) -> Window:
    """What of a pipeline the store can do: an order by a number, then a page, before anything that needs the whole."""
    rest = pipeline.merge_slices(stages)
    order: OrderBy | None = None
    while rest and isinstance(rest[0], OrderBy) and rest[0].field in _SQL_ORDERS:
        order = rest.pop(0)  # type: ignore[assignment]
    if not pushes:
        return Window(order=order, rest=tuple(rest))
    if rest and isinstance(rest[0], Reduce) and rest[0].to == "count":
        return Window(counts=True)
    if len(rest) == 2 and isinstance(rest[0], GroupBy) and order is None:
        cut = rest[1]
        if isinstance(cut, Slice) and cut.limit is not None:
            return Window(
                groups=rest[0].field, offset=cut.offset, limit=cut.limit, rest=tuple(rest)
            )
    kept: list[Stage | Slice] = []
    for place, stage in enumerate(rest):
        if isinstance(stage, Reduce) and stage.to == "first":
            return Window(order=order, limit=1, rest=(*kept, *rest[place:]))
        if isinstance(stage, Slice) and stage.limit is not None:
            return Window(
                order=order,
                offset=stage.offset,
                limit=stage.limit,
                rest=(*kept, *rest[place + 1 :]),
            )
        if not (
            isinstance(stage, Select | Project)
            or (isinstance(stage, Reduce) and stage.to == "hashes")
        ):
            break
        kept.append(stage)
    return Window(order=order, rest=tuple(rest))


def order_of(order: OrderBy | None) -> Order:
    if order is None:
        return Order(by="address")
    return Order(by=_SQL_ORDERS[order.field], descending=order.descending)  # type: ignore[arg-type]


def _page_at(stages: Sequence[Stage | Slice]) -> int | None:
    """Where the LIMIT stands that a cursor moves on: the last, if what follows leaves one item for each."""
    place = next(
        (p for p in range(len(stages) - 1, -1, -1) if limit_of(stages[p]) is not None), None
    )
    return place if place is not None and is_list(stages[place + 1 :]) else None


def limit_of(stage: Stage | Slice) -> int | None:
    return stage.limit if isinstance(stage, Slice) else None


def paged(stages: Sequence[Stage | Slice], items: list[ResultItem], offset: int) -> Found:
    """Run a pipeline over all grains, the last LIMIT moved on by a cursor's offset, and see whether more is left."""
    place = _page_at(stages)
    if place is None:
        return Found(pipeline.run_stages(stages, GrainList(items)), len(items))
    cut = stages[place]
    assert isinstance(cut, Slice)
    assert cut.limit is not None
    # One more than asked for tells whether there is one.
    seen = pipeline.run_stages(
        (*stages[:place], Slice(cut.offset + offset, cut.limit + 1)), GrainList(items)
    )
    assert not isinstance(seen, Total)
    is_more = len(seen.items) > cut.limit
    outcome = pipeline.run_stages((Slice(limit=cut.limit), *stages[place + 1 :]), seen)
    return Found(outcome, len(items), offset + cut.limit if is_more else None)


def is_list(stages: Sequence[Stage | Slice]) -> bool:
    """Whether what comes after a LIMIT leaves one item for each."""
    return all(isinstance(each, Select | Project) or each == Reduce(to="hashes") for each in stages)


def reordered(items: list[ResultItem], options: Sequence[Option]) -> list[ResultItem]:
    for option in options:
        is_dedup = option.name == "dedup"
        items = (
            pipeline.deduplicate(items, str(option.word))
            if is_dedup
            else diversified(items, option)
        )
    return items


def diversified(
    items: list[ResultItem], option: Option, *, enough: int | None = None
) -> list[ResultItem]:
    """In the order that WITH diversity asks for: all, or the first that are enough."""
    compared, rest = items[:DIVERSE_LIMIT], items[DIVERSE_LIMIT:]
    bags: dict[str, frozenset[str]] = {}

    def bag(item: ResultItem) -> frozenset[str]:
        if item.address not in bags:
            bags[item.address] = frozenset(keywords(_compared_text(item)))
        return bags[item.address]

    def similarity(one: ResultItem, other: ResultItem) -> float:
        ours, theirs = bag(one), bag(other)
        shared = len(ours & theirs)
        return shared / (len(ours) + len(theirs) - shared) if ours or theirs else 1.0

    if option.word == "mmr":
        weight = pipeline.DEFAULT_LAMBDA if option.value is None else float(option.value)  # type: ignore[arg-type]
        found = pipeline.diversify(compared, similarity, weight=weight, limit=enough)
    else:
        threshold = float(cast("float", option.value or 0.0))
        found = pipeline.drop_similar(compared, similarity, threshold, limit=enough)
    return found if len(found) == enough else [*found, *rest]


def _compared_text(item: ResultItem) -> str:
    """Return the words by which diversity compares; two texts without a triple have neither subject nor relation."""
    if is_text(item.grain_type, item.fields):
        return text_of(item)
    return " ".join(
        collect_text(item.fields.get(name))
        for name in ("subject", "relation", "object", "content", "description")
    )


def minimal(outcome: Outcome) -> Outcome:
    """With the fields alone that are necessary, where health information is shown."""
    if isinstance(outcome, GrainList):
        return GrainList(_redacted(outcome.items))
    if isinstance(outcome, GroupList):
        return GroupList(
            [replace(group, sample=_redacted(group.sample)) for group in outcome.items]
        )
    return outcome


def _redacted(items: Sequence[ResultItem]) -> list[ResultItem]:
    return [replace(item, fields=apply_minimum_necessary(item.fields)) for item in items]
