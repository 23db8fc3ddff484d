"""Pages of a RECALL: the part of its pipeline that the store runs, and the part that runs here (CAL section 8.1).

`split_pipeline` cuts a pipeline in two. The store does the first part: an order by an indexed number, then a page; or a
count; or a page of groups. The stages that remain run over the grains of this page. `page_through` is for a pipeline
that the store cannot start: it runs over all grains, and a cursor moves its last LIMIT.

GROUP BY runs in the store (`GroupPager`). The store counts groups by fingerprint. Only the grains that the page shows
are read, and one of each group for its value.

Correctness first: a page from the store must equal the page of the complete list, so the store is used only for stages
whose result it can compute exactly. `tests/service/test_cal_model.py` compares both with a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.model.selection import InGroup, Order, Selection, VersionGroup
from memoranda.retrieval.analysis import keywords
from memoranda.service.cal.recall_query import BY_ADDRESS
from memoranda.service.core.compliance import apply_minimum_necessary
from memoranda.service.oms.views import collect_text
from memoranda.standards.cal.assembly import pipeline
from memoranda.standards.cal.assembly.pipeline import (
    GROUP_SAMPLE_GRAINS,
    Contradiction,
    GrainList,
    GroupList,
    Outcome,
    Slice,
    Total,
)
from memoranda.standards.cal.item import INDEX_NAMES, ResultItem, value_of
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
from memoranda.storage.engine.contract import Snapshot

# Grains that WITH diversity compares; it compares each with every other.
DIVERSE_LIMIT: Final = 500
# Fields whose groups the store counts: the index column has the same value as the grain.
COUNTED_FIELDS: Final = frozenset(
    ("subject", "relation", "type", "session_id", "verification_status")
)
_SQL_ORDERS: Final = {"time": "at", "confidence": "confidence", "importance": "importance"}


class RecallResult(msgspec.Struct):
    """The result of a RECALL: one page."""

    outcome: Outcome
    # Matches before any LIMIT. None if they were not counted, because there are more than these.
    total: int | None
    # The offset of the next page, in items that pass the last LIMIT. None if this is the last page.
    next_offset: int | None = None
    contradictions: list[Contradiction] | None = None
    shape: Project | None = None

    @property
    def items(self) -> list[ResultItem]:
        """The grains; empty if the result has rows, values, groups or a count."""
        return list(self.outcome.items) if isinstance(self.outcome, GrainList) else []


class StorePage(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a pipeline that the store runs: an order and a page, and the stages that remain."""

    order: OrderBy | None = None
    offset: int = 0
    limit: int | None = None
    stages: tuple[Stage | Slice, ...] = ()
    # The store only counts the matches.
    is_count: bool = False
    # The field by which the store groups, if the page is one of groups.
    group_field: str | None = None


def add_default_limit(recall: Recall, stages: tuple[Stage, ...], default: int) -> tuple[Stage, ...]:
    """Add a LIMIT at the end of a pipeline that nothing else limits."""
    if any(isinstance(stage, Limit) for stage in stages) or recall.recent is not None:
        return stages
    if any(isinstance(stage, Reduce) and stage.to in ("count", "first") for stage in stages):
        return stages
    return (*stages, Limit(count=default))


def split_pipeline(stages: tuple[Stage, ...], *, store_pages: bool) -> StorePage:
    """Split a pipeline after the part that the store can run. If `store_pages` is false, the store only orders.

    `store_pages` is False if the conditions need a check of each grain.
    """
    remaining = pipeline.merge_slices(stages)
    order: OrderBy | None = None
    while remaining and isinstance(first := remaining[0], OrderBy) and first.field in _SQL_ORDERS:
        order = first
        remaining.pop(0)
    if not store_pages:
        return StorePage(order=order, stages=tuple(remaining))
    if remaining and isinstance(remaining[0], Reduce) and remaining[0].to == "count":
        return StorePage(is_count=True)
    if len(remaining) == 2 and isinstance(remaining[0], GroupBy) and order is None:
        cut_index = remaining[1]
        if isinstance(cut_index, Slice) and cut_index.limit is not None:
            return StorePage(
                group_field=remaining[0].field,
                offset=cut_index.offset,
                limit=cut_index.limit,
                stages=tuple(remaining),
            )
    # Stages that keep one entry per grain can run after the page is cut.
    deferred: list[Stage | Slice] = []
    for index, stage in enumerate(remaining):
        if isinstance(stage, Reduce) and stage.to == "first":
            return StorePage(order=order, limit=1, stages=(*deferred, *remaining[index:]))
        if isinstance(stage, Slice) and stage.limit is not None:
            return StorePage(
                order=order,
                offset=stage.offset,
                limit=stage.limit,
                stages=(*deferred, *remaining[index + 1 :]),
            )
        if not keeps_entries((stage,)):
            break
        deferred.append(stage)
    return StorePage(order=order, stages=tuple(remaining))


def keeps_entries(stages: Sequence[Stage | Slice]) -> bool:
    """Return True if every stage keeps one entry per grain, in the same order."""
    return all(
        isinstance(stage, Select | Project) or stage == Reduce(to="hashes") for stage in stages
    )


def order_of(order: OrderBy | None, tie_order: Order = BY_ADDRESS) -> Order:
    """Return the order of the store for an ORDER BY; without one, the order of grains of equal score."""
    if order is None:
        return tie_order
    return Order(by=_SQL_ORDERS[order.field], descending=order.descending)  # type: ignore[arg-type]


def limit_of(stage: Stage | Slice) -> int | None:
    """Return the limit of a slice, or None."""
    return stage.limit if isinstance(stage, Slice) else None


def _cursor_index(stages: Sequence[Stage | Slice]) -> int | None:
    """Return the index of the LIMIT that a cursor moves: the last, if the stages behind it keep one entry per grain."""
    limits = [index for index, stage in enumerate(stages) if limit_of(stage) is not None]
    return limits[-1] if limits and keeps_entries(stages[limits[-1] + 1 :]) else None


def page_through(
    stages: Sequence[Stage | Slice], items: list[ResultItem], offset: int
) -> RecallResult:
    """Run a pipeline over all grains, with its last LIMIT moved by the offset of a cursor."""
    index = _cursor_index(stages)
    if index is None:
        return RecallResult(pipeline.run_stages(stages, GrainList(items)), len(items))
    cut_stage = stages[index]
    assert isinstance(cut_stage, Slice)
    assert cut_stage.limit is not None
    # One more than the limit, to see whether there is a next page.
    head = pipeline.run_stages(
        (*stages[:index], Slice(cut_stage.offset + offset, cut_stage.limit + 1)), GrainList(items)
    )
    assert not isinstance(head, Total)
    has_next = len(head.items) > cut_stage.limit
    outcome = pipeline.run_stages((Slice(limit=cut_stage.limit), *stages[index + 1 :]), head)
    return RecallResult(outcome, len(items), offset + cut_stage.limit if has_next else None)


# --- groups ----------------------------------------------------------------------------------------------


class GroupPager(msgspec.Struct, frozen=True, kw_only=True):
    """Reads pages of groups that the store counts."""

    snapshot: Snapshot
    selection: Selection
    field: str
    now: Instant
    load_items: Callable[[Sequence[int]], list[ResultItem]]
    # Raises QueryError if that many grains would have to be read.
    check_count: Callable[[int], None]

    def load_page(self, start: int, limit: int, next_offset: int) -> RecallResult | None:
        """Load a page of groups, the largest first. Returns None if the value of a group cannot be read.

        Groups of equal size are ordered by value, so every group is read that is as large as the last of the page.
        """
        groups = self.snapshot.count_groups(self.selection, self._index_name(), now=self.now)
        total = sum(group.count for group in groups)
        groups.sort(key=lambda group: -group.count)
        end = start + limit
        has_next = len(groups) > end
        if has_next:
            groups = [group for group in groups if group.count >= groups[end - 1].count]
        ranked = self._rank_by_value(groups)
        if ranked is None:
            return None
        page = [self._load_group(value, group) for value, group in ranked[start:end]]
        return RecallResult(GroupList(page), total, next_offset if has_next else None)

    def _rank_by_value(
        self, groups: list[VersionGroup]
    ) -> list[tuple[object, VersionGroup]] | None:
        """Return the groups with their values, by size and then by value; None if a value cannot be read."""
        self.check_count(len(groups))
        items = self.load_items([group.version_id for group in groups])
        if len(items) < len(groups):
            return None
        pairs = [
            (value_of(item, self.field), group) for item, group in zip(items, groups, strict=True)
        ]
        return sorted(pairs, key=lambda pair: (-pair[1].count, pipeline.group_rank(pair[0])))

    def _load_group(self, value: object, group: VersionGroup) -> pipeline.GrainGroup:
        """Return a group with its sample of grains."""
        member = InGroup(name=self._index_name(), key=group.key)
        in_group = replace(self.selection, tests=(*self.selection.tests, member))
        page = self.snapshot.load_page(
            in_group, BY_ADDRESS, limit=GROUP_SAMPLE_GRAINS, now=self.now
        )
        sample = self.load_items([hit.version_id for hit in page])
        return pipeline.GrainGroup(value, group.count, sample)

    def _index_name(self) -> str:
        return INDEX_NAMES.get(self.field, self.field)


# --- options of WITH, and health information ----------------------------------------------------------------


def reorder(items: list[ResultItem], options: Sequence[Option]) -> list[ResultItem]:
    """Apply WITH dedup and WITH diversity, in their order.

    Works on at most DIVERSE_LIMIT items, because every pair is compared.
    """
    for option in options:
        if option.name == "diversity":
            items = diversify(items, option)
        elif option.name == "dedup":
            items = pipeline.deduplicate(items, str(option.word))
    return items


def diversify(
    items: list[ResultItem], option: Option, *, limit: int | None = None
) -> list[ResultItem]:
    """Return the items in the order of WITH diversity: all of them, or the first `limit` that it selects."""
    compared, uncompared = items[:DIVERSE_LIMIT], items[DIVERSE_LIMIT:]
    words: dict[str, frozenset[str]] = {}

    def words_of(item: ResultItem) -> frozenset[str]:
        if item.address not in words:
            words[item.address] = frozenset(keywords(_compared_text(item)))
        return words[item.address]

    def similarity(first: ResultItem, second: ResultItem) -> float:
        first_words, second_words = words_of(first), words_of(second)
        shared = len(first_words & second_words)
        union = len(first_words) + len(second_words) - shared
        return shared / union if union else 1.0

    if option.word == "mmr":
        weight = (
            pipeline.DEFAULT_LAMBDA if option.value is None else float(cast("float", option.value))
        )
        selected_items = pipeline.diversify(compared, similarity, weight=weight, limit=limit)
    else:
        threshold = float(cast("float", option.value or 0.0))
        selected_items = pipeline.drop_similar(compared, similarity, threshold, limit=limit)
    return selected_items if len(selected_items) == limit else [*selected_items, *uncompared]


def _compared_text(item: ResultItem) -> str:
    """Return the words by which diversity compares; two texts without a triple have neither subject nor relation."""
    if is_text(item.grain_type, item.fields):
        return text_of(item)
    return " ".join(
        collect_text(item.fields.get(name))
        for name in ("subject", "relation", "object", "content", "description")
    )


def keep_necessary_fields(outcome: Outcome) -> Outcome:
    """Return a result with only the necessary fields of its grains, as HIPAA demands for health information."""
    if isinstance(outcome, GrainList):
        return GrainList(_keep_necessary(outcome.items))
    if isinstance(outcome, GroupList):
        return GroupList(
            [replace(group, sample=_keep_necessary(group.sample)) for group in outcome.items]
        )
    return outcome


def _keep_necessary(items: Sequence[ResultItem]) -> list[ResultItem]:
    return [replace(item, fields=apply_minimum_necessary(item.fields)) for item in items]
