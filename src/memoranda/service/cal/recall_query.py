"""The form of a RECALL that runs: without shorthand, with its selection, and with the checks after the search.

`recall.py` turns the conditions of a RECALL into a `RecallQuery`. The functions here are its parts that read nothing:
they rewrite the statement, and check grains against the conditions that the index cannot answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from memoranda.errors import QueryError
from memoranda.model.instant import Instant
from memoranda.model.selection import IsAmong, Order, Selection, StatusFilter, Test
from memoranda.retrieval.analysis import keywords
from memoranda.service.oms.views import collect_text, matching_fields
from memoranda.standards.cal.conditions import matches
from memoranda.standards.cal.item import ResultItem, value_of
from memoranda.standards.cal.language import times
from memoranda.standards.cal.language.desugar import desugar_recall
from memoranda.standards.cal.language.syntax import (
    OrderBy,
    Project,
    Recall,
    Select,
    Subquery,
    WhereCondition,
)

# Grains that one RECALL may read (CAL-E030); the specification sets no number.
SCAN_LIMIT: Final = 100_000
# Fields that a keyword search never reports as matched: names of spaces and people, kinds, times.
_UNREPORTED_FIELDS: Final = frozenset(
    ("type", "namespace", "user_id", "session_id", "author_did", "source_type", "role")
)
# Section 17.4: grains of equal score are ordered by their hash.
BY_ADDRESS: Final = Order(by="address")
# Type → the order of grains of equal score in a source of ASSEMBLE. Its first grains matter most to a model: the newest
# part of a conversation or a run, and the surest facts.
_SOURCE_ORDERS: Final = {
    "event": Order(by="at", descending=True),
    "action": Order(by="at", descending=True),
    "belief": Order(by="confidence", descending=True),
}


class RecallQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A RECALL as a query to the index."""

    selection: Selection
    # The searched text.
    text: str | None = None
    # Words that must occur in one field: (field, words).
    field_words: tuple[tuple[str, frozenset[str]], ...] = ()
    # Conditions that the index cannot answer; each grain is checked.
    unindexed: tuple[WhereCondition, ...] = ()
    # The fields of the conditions, for `matched_fields`.
    fields: tuple[str, ...] = ()
    # The order of grains of equal score.
    tie_order: Order = BY_ADDRESS


def source_order(recall: Recall) -> Order:
    """Return the order of grains of equal score in an expanded RECALL that is a source of ASSEMBLE."""
    has_order = any(isinstance(stage, OrderBy) for stage in recall.stages)
    has_choice = any(option.name in ("dedup", "diversity") for option in recall.options)
    if has_order or has_choice or recall.grain_type is None:
        return BY_ADDRESS
    return _SOURCE_ORDERS.get(recall.grain_type, BY_ADDRESS)


# --- rewriting -------------------------------------------------------------------------------------------


def expand_recall(recall: Recall) -> Recall:
    """Replace the shorthand of a RECALL, but not that of its subqueries, which are expanded when they run.

    ABOUT in a subquery may still have to become a search.
    """
    expanded = desugar_recall(recall)
    subqueries = (condition for condition in recall.where if isinstance(condition.value, Subquery))
    conditions = tuple(
        next(subqueries) if isinstance(condition.value, Subquery) else condition
        for condition in expanded.where
    )
    # THREAD FROM has no longer form. A thread is listed from its beginning.
    first_order = (OrderBy(field="time"),) if expanded.thread is not None else ()
    return replace(expanded, where=conditions, stages=(*first_order, *expanded.stages))


def search_about(recall: Recall, searched: Sequence[WhereCondition]) -> Recall:
    """Replace the condition of ABOUT with a search for its text, if it is among the `searched` conditions."""
    about = next((condition for condition in searched if condition.field == "subject"), None)
    if about is None:
        return recall
    index = recall.where.index(about)
    query = WhereCondition(field="query", operator="=", value=about.value)
    return replace(recall, where=(*recall.where[:index], query, *recall.where[index + 1 :]))


def status_filter_of(recall: Recall) -> StatusFilter:
    """Return the status filter of a RECALL: WITH superseded includes closed versions."""
    with_superseded = any(option.name == "superseded" for option in recall.options)
    return "unforgotten" if with_superseded else "live"


def select_time(selection: Selection, recall: Recall, now: Instant) -> Selection:
    """Restrict a selection to memories that are valid now, or valid or known at the instant that the query names.

    With superseded versions, or with a condition on the end of validity, memories of the past and future count too.
    """
    at, known_at = (
        times.time_option(recall.options, name, now) for name in (times.VALID_AT, times.KNOWN_AT)
    )
    if at is not None or known_at is not None:
        return replace(
            selection,
            at=now if at is None else Instant(at),
            known_at=None if known_at is None else Instant(known_at),
        )
    has_end_condition = any(condition.field == "expires_at" for condition in recall.where)
    return replace(selection, in_force=selection.status_filter == "live" and not has_end_condition)


def uses_field(name: str, recall: Recall) -> bool:
    """Return True if an option or a stage of a RECALL uses a field; its conditions do not count."""
    return any(option.word == name for option in recall.options) or any(
        (isinstance(stage, Select) and name in stage.fields)
        or (
            isinstance(stage, Project)
            and name in (*(stage.content or ()), *(stage.attributes or ()))
        )
        for stage in recall.stages
    )


def drop_score_conditions(
    conditions: list[WhereCondition], tests: list[Test]
) -> list[WhereCondition]:
    """Drop the conditions on the score of a RECALL without a search.

    Without a search every score is 1, so such a condition holds for all grains or for none. If one holds for none, a
    test that nothing passes is added.
    """
    unscored = ResultItem(address="", grain_type="", fields={})
    scores = [condition for condition in conditions if condition.field == "score"]
    if not all(matches(condition, unscored) for condition in scores):
        tests.append(IsAmong(version_ids=()))
    return [condition for condition in conditions if condition.field != "score"]


# --- checking grains -------------------------------------------------------------------------------------


def has_field_words(query: RecallQuery, item: ResultItem) -> bool:
    """Return True if each field has one of the words that are searched in it."""
    return all(
        not words.isdisjoint(keywords(collect_text(value_of(item, name))))
        for name, words in query.field_words
    )


def passes_conditions(query: RecallQuery, item: ResultItem, *, on_score: bool) -> bool:
    """Check a grain against the unindexed conditions: those on the score, or all others."""
    return all(
        matches(condition, item)
        for condition in query.unindexed
        if (condition.field == "score") is on_score
    )


def rescale_scores(items: list[ResultItem]) -> list[ResultItem]:
    """Normalize the scores so that the best is 1. Otherwise they would reveal grains that the caller may not see."""
    best = max((item.score for item in items), default=1.0)
    if best == 1.0:
        return items
    return [
        replace(
            item,
            score=item.score / best,
            breakdown={name: part / best for name, part in item.breakdown.items()},
        )
        for item in items
    ]


def check_count(count: int | None) -> None:
    """Raise CAL-E030 if more grains would have to be read than one RECALL may read."""
    if count is not None and count > SCAN_LIMIT:
        raise QueryError(
            f"The query would have to read more than {SCAN_LIMIT} grains.",
            cal_code="CAL-E030",
            suggestion="Narrow the query: by type, subject or time.",
        )


def passes_unscored(query: RecallQuery, item: ResultItem) -> bool:
    """Check a grain against the words in fields, and the unindexed conditions that need no score."""
    return has_field_words(query, item) and passes_conditions(query, item, on_score=False)


def matched_fields(
    fields: Mapping[str, object],
    condition_fields: tuple[str, ...],
    terms: frozenset[str],
    known_words: dict[str, frozenset[str]],
) -> tuple[str, ...]:
    """Return the fields of the conditions, and the fields that have a searched word."""
    if not terms:
        return condition_fields
    excluded = (*condition_fields, *_UNREPORTED_FIELDS)
    return (*condition_fields, *matching_fields(fields, terms, excluded, known_words))
