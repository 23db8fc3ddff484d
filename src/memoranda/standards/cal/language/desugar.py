"""Desugaring: a query with its shortcuts rewritten as conditions, options and stages (section 9).

Two shortcuts have no other form and stay: `THREAD FROM hash`, and the fall-back of ABOUT to a search.

The code that runs queries sees only desugared ones, so a new shortcut needs no change there: write here what it stands
for. The result must be a query that could have been typed, and desugaring it again must change nothing.
"""

from __future__ import annotations

from msgspec.structs import replace

from memoranda.standards.cal.language import words
from memoranda.standards.cal.language.syntax import (
    Assemble,
    AssembleSource,
    BatchEntry,
    BatchQuery,
    Coalesce,
    Explain,
    Limit,
    Option,
    OrderBy,
    Param,
    ParsedQuery,
    Recall,
    SetOp,
    Stage,
    Statement,
    Subquery,
    WhereCondition,
)

_CONTRADICTION_DETECTION = Option(name="contradiction_detection")


def desugar(query: ParsedQuery) -> ParsedQuery:
    """Return the query without shortcuts."""
    lets = tuple(replace(let, query=desugar_recall(let.query)) for let in query.lets)
    return ParsedQuery(statement=_desugar_statement(query.statement), lets=lets)


def desugar_recall(recall: Recall) -> Recall:
    """Return one RECALL without shortcuts.

    Conditions come in this order: MY, ABOUT, LIKE, SINCE, BETWEEN, THREAD, WHERE, CONTRADICTIONS.
    """
    keep_thread = recall.thread is not None and recall.thread.message is not None
    return replace(
        recall,
        my=False,
        about=None,
        like=None,
        since=None,
        between=None,
        thread=recall.thread if keep_thread else None,
        where=(
            *_shortcut_conditions(recall),
            *map(_desugar_condition, recall.where),
            *_contradiction_condition(recall),
        ),
        options=_desugar_options(recall),
        stages=(*_shortcut_stages(recall), *recall.stages),
        recent=None,
        contradictions=False,
    )


def _shortcut_conditions(recall: Recall) -> list[WhereCondition]:
    """Return the conditions that the shortcuts before WHERE stand for."""
    conditions = []
    if recall.my:
        conditions.append(
            WhereCondition(field="user_id", operator="=", value=Param(name=words.CURRENT_USER))
        )
    for name, text in (("subject", recall.about), ("query", recall.like), ("time", recall.since)):
        if text is not None:
            conditions.append(WhereCondition(field=name, operator="=", value=text))
    if recall.between is not None:
        ends = (recall.between.low, recall.between.high)
        conditions.append(WhereCondition(field="time", operator="BETWEEN", value=ends))
    if recall.thread is not None and recall.thread.session is not None:
        conditions.append(
            WhereCondition(field="session_id", operator="=", value=recall.thread.session)
        )
    return conditions


def _contradiction_condition(recall: Recall) -> tuple[WhereCondition, ...]:
    """Return the condition that CONTRADICTIONS stands for, if the RECALL has it."""
    return (
        (WhereCondition(field="contradicted", operator="=", value=True),)
        if recall.contradictions
        else ()
    )


def _desugar_condition(condition: WhereCondition) -> WhereCondition:
    """Return a condition with IS replaced by IN, and its subquery without shortcuts."""
    if condition.operator == "IS":
        assert isinstance(condition.value, str)
        return replace(condition, operator="IN", value=words.CATEGORIES[condition.value])
    if isinstance(condition.value, Subquery):
        return replace(condition, value=Subquery(query=desugar_recall(condition.value.query)))
    return condition


def _desugar_options(recall: Recall) -> tuple[Option, ...]:
    """Return the options, with contradiction detection if the RECALL has CONTRADICTIONS."""
    if recall.contradictions and _CONTRADICTION_DETECTION not in recall.options:
        return (*recall.options, _CONTRADICTION_DETECTION)
    return recall.options


def _shortcut_stages(recall: Recall) -> list[Stage]:
    """Return the stages that THREAD (order by time) and RECENT (the newest) stand for; they run first."""
    stages: list[Stage] = []
    if recall.thread is not None and recall.thread.session is not None:
        stages.append(OrderBy(field="time"))
    if recall.recent is not None:
        stages += (OrderBy(field="time", descending=True), Limit(count=recall.recent))
    return stages


def _desugar_statement(statement: Statement) -> Statement:
    """Return a statement without shortcuts."""
    if isinstance(statement, Recall):
        return desugar_recall(statement)
    if isinstance(statement, Explain):
        query = _desugar_statement(statement.query)
        assert not isinstance(query, Explain)
        return Explain(query=query)
    if isinstance(statement, SetOp | Coalesce):
        return _desugar_operand(statement)
    if isinstance(statement, BatchQuery):
        return BatchQuery(entries=tuple(_desugar_entry(entry) for entry in statement.entries))
    if isinstance(statement, Assemble):
        return replace(statement, sources=tuple(map(_desugar_source, statement.sources)))
    return statement


def _desugar_operand(statement: Recall | Coalesce | SetOp) -> Recall | Coalesce | SetOp:
    """Return an operand of a set operation without shortcuts."""
    if isinstance(statement, Recall):
        return desugar_recall(statement)
    if isinstance(statement, Coalesce):
        return Coalesce(branches=tuple(map(desugar_recall, statement.branches)))
    return replace(
        statement,
        left_operand=_desugar_operand(statement.left_operand),
        right_operand=_desugar_operand(statement.right_operand),
    )


def _desugar_source(source: AssembleSource) -> AssembleSource:
    """Return a source of ASSEMBLE without shortcuts. The name of a LET stays: the LET is desugared on its own."""
    if isinstance(source.query, Param):
        return source
    return replace(source, query=desugar_recall(source.query))


def _desugar_entry(entry: BatchEntry) -> BatchEntry:
    """Return an entry of BATCH without shortcuts."""
    if isinstance(entry.query, Recall):
        return replace(entry, query=desugar_recall(entry.query))
    if isinstance(entry.query, Coalesce):
        return replace(
            entry, query=Coalesce(branches=tuple(map(desugar_recall, entry.query.branches)))
        )
    return entry
