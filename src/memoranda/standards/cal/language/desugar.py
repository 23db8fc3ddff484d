"""Shortcuts written out: the same query in conditions, options and stages alone (section 9).

Two have no other spelling and stay: `THREAD FROM hash`, and that ABOUT falls back to a search.
"""

from __future__ import annotations

from msgspec.structs import replace

from memoranda.standards.cal.language import words
from memoranda.standards.cal.language.syntax import (
    Assemble,
    Batch,
    Coalesce,
    Condition,
    Entry,
    Explain,
    Limit,
    Option,
    OrderBy,
    Param,
    Query,
    Recall,
    SetOp,
    Stage,
    Statement,
    Subquery,
)

_DETECTION = Option(name="contradiction_detection")


def desugar(query: Query) -> Query:
    """The whole query without shortcuts."""
    lets = tuple(replace(each, query=desugar_recall(each.query)) for each in query.lets)
    return Query(statement=_statement(query.statement), lets=lets)


def desugar_recall(recall: Recall) -> Recall:
    """One RECALL without shortcuts: MY, ABOUT, LIKE, SINCE, BETWEEN, THREAD, WHERE, CONTRADICTIONS in this order."""
    keep_thread = recall.thread is not None and recall.thread.message is not None
    return replace(
        recall,
        my=False,
        about=None,
        like=None,
        since=None,
        between=None,
        thread=recall.thread if keep_thread else None,
        where=(*_conditions(recall), *map(_condition, recall.where), *_contradicted(recall)),
        options=_options(recall),
        stages=(*_stages(recall), *recall.stages),
        recent=None,
        contradictions=False,
    )


def _conditions(recall: Recall) -> list[Condition]:
    found = []
    if recall.my:
        found.append(Condition(field="user_id", operator="=", value=Param(name=words.CURRENT_USER)))
    for name, text in (("subject", recall.about), ("query", recall.like), ("time", recall.since)):
        if text is not None:
            found.append(Condition(field=name, operator="=", value=text))
    if recall.between is not None:
        ends = (recall.between.low, recall.between.high)
        found.append(Condition(field="time", operator="BETWEEN", value=ends))
    if recall.thread is not None and recall.thread.session is not None:
        found.append(Condition(field="session_id", operator="=", value=recall.thread.session))
    return found


def _contradicted(recall: Recall) -> tuple[Condition, ...]:
    return (Condition(field="contradicted", operator="=", value=True),) if recall.contradictions else ()


def _condition(condition: Condition) -> Condition:
    if condition.operator == "IS":
        assert isinstance(condition.value, str)
        return replace(condition, operator="IN", value=words.CATEGORIES[condition.value])
    if isinstance(condition.value, Subquery):
        return replace(condition, value=Subquery(query=desugar_recall(condition.value.query)))
    return condition


def _options(recall: Recall) -> tuple[Option, ...]:
    if recall.contradictions and _DETECTION not in recall.options:
        return (*recall.options, _DETECTION)
    return recall.options


def _stages(recall: Recall) -> list[Stage]:
    """THREAD sorts by time, RECENT takes the newest; both before what was written."""
    found: list[Stage] = []
    if recall.thread is not None and recall.thread.session is not None:
        found.append(OrderBy(field="time"))
    if recall.recent is not None:
        found += (OrderBy(field="time", descending=True), Limit(count=recall.recent))
    return found


def _statement(statement: Statement) -> Statement:
    if isinstance(statement, Recall):
        return desugar_recall(statement)
    if isinstance(statement, Explain):
        inner = _statement(statement.query)
        assert not isinstance(inner, Explain)
        return Explain(query=inner)
    if isinstance(statement, SetOp | Coalesce):
        return _grains(statement)
    if isinstance(statement, Batch):
        return Batch(entries=tuple(_entry(each) for each in statement.entries))
    if isinstance(statement, Assemble):
        sources = tuple(
            each if isinstance(each.query, Param) else replace(each, query=desugar_recall(each.query))
            for each in statement.sources
        )
        return replace(statement, sources=sources)
    return statement


def _grains(statement: Recall | Coalesce | SetOp) -> Recall | Coalesce | SetOp:
    if isinstance(statement, Recall):
        return desugar_recall(statement)
    if isinstance(statement, Coalesce):
        return Coalesce(branches=tuple(map(desugar_recall, statement.branches)))
    return replace(statement, left=_grains(statement.left), right=_grains(statement.right))


def _entry(entry: Entry) -> Entry:
    if isinstance(entry.query, Recall):
        return replace(entry, query=desugar_recall(entry.query))
    if isinstance(entry.query, Coalesce):
        return replace(entry, query=Coalesce(branches=tuple(map(desugar_recall, entry.query.branches))))
    return entry
