"""The plan of a query, without running it: EXPLAIN, and the preview before a change (sections 8.5, 13, 18).

No memory is read. The numbers are bounds that follow from the query alone.

It must never promise less than a query may read: limits of the store rely on these bounds. A new clause of the language
therefore needs its bound here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from memoranda.standards.cal import limits
from memoranda.standards.cal.assembly import budget
from memoranda.standards.cal.language import check, times
from memoranda.standards.cal.language.assemble import label_of
from memoranda.standards.cal.language.canonical import canonical, statement_text
from memoranda.standards.cal.language.desugar import desugar, desugar_recall
from memoranda.standards.cal.language.syntax import (
    Add,
    Assemble,
    Assignment,
    BatchQuery,
    Coalesce,
    Count,
    DefineTemplate,
    Describe,
    Exists,
    Explain,
    GroupBy,
    Hash,
    History,
    Limit,
    Offset,
    OrderBy,
    Param,
    ParsedQuery,
    Recall,
    Reduce,
    Revert,
    SetOp,
    Statement,
    Subquery,
    Supersede,
    Value,
    WhereCondition,
    tier_of,
)
from memoranda.standards.cal.wire import writer

Json = dict[str, object]

# Section 8.4: versions that HISTORY returns at most.
HISTORY_VERSIONS: Final = 100
# Tokens that one grain is estimated to take (section 10.9.5).
TOKENS_PER_GRAIN: Final = 40
# Grains that GROUP BY returns of each group.
_GRAINS_PER_GROUP: Final = 5
# Sections 8.9, 8.10: least and most store operations, the reads before the change and the change itself.
_SUPERSEDE_OPS: Final = (2, 3)
_REVERT_OPS: Final = (3, 4)
# Fields on which `=` runs a search.
_SEARCHED: Final = frozenset(("query", "content", "plan", "steps", "premises"))
_DEFAULT_SORT: Final[tuple[Json, ...]] = (
    {"field": "score", "dir": "desc"},
    {"field": "hash", "dir": "asc"},
)


class _Workload(NamedTuple):
    """The store operations of a statement: in order, their least and greatest number, and the most grains returned."""

    steps: tuple[Json, ...]
    low: int
    high: int
    grains: int


class _Context(NamedTuple):
    """Input of every step: the current time, and the most grains that each LET returns."""

    now: int
    lets: Mapping[str, int]


def explain(query: ParsedQuery, *, now: int) -> dict[str, Any]:
    """Return the plan of a query, or of the query inside EXPLAIN. Time expressions are relative to `now`."""
    query = _unwrap_explain(query)
    statement = query.statement
    let_workloads = {
        let.name: _recall_workload(
            let.query, _Context(now, {}), is_inner=True, source=f"${let.name}"
        )
        for let in query.lets
    }
    context = _Context(now, {name: workload.grains for name, workload in let_workloads.items()})
    workload = _join_workloads([*let_workloads.values()], _plan_statement(statement, context))
    return {
        "statement": writer.statement_json(statement)["statement"],
        "tier": tier_of(statement),
        "canonical": canonical(query),
        "desugared": canonical(desugar(query.original or query)),
        "steps": list(workload.steps),
        "store_ops": {"min": workload.low, "max": workload.high},
        "bounds": _estimate_bounds(statement, workload.grains),
        "budget": _describe_budget(statement) if isinstance(statement, Assemble) else None,
        "side_effects": side_effects(statement),
        "warnings": [warning._asdict() for warning in check.find_warnings(query)],
    }


def side_effects(statement: Statement) -> list[Json]:
    """Return what a statement would append, for review beforehand; empty if it only reads."""
    if isinstance(statement, Explain):
        return side_effects(statement.query)
    if isinstance(statement, Add):
        grain = {"type": statement.grain_type, **_preview_assignments(statement.assignments)}
        return [{"operation": "add", "grain": grain, "reason": statement.reason}]
    if not isinstance(statement, Supersede | Revert):
        return []
    # The content that REVERT restores is known only to the store.
    is_supersede = isinstance(statement, Supersede)
    grain = _preview_assignments(statement.assignments) if isinstance(statement, Supersede) else {}
    return [
        {
            "operation": "supersede" if is_supersede else "revert",
            "target_hash": _value_json(statement.hash),
            "grain": grain,
            "reason": statement.reason,
        }
    ]


def _unwrap_explain(query: ParsedQuery) -> ParsedQuery:
    """Return the query inside EXPLAIN, or the query itself."""
    if not isinstance(query.statement, Explain):
        return query
    original = None if query.original is None else _unwrap_explain(query.original)
    return ParsedQuery(statement=query.statement.query, lets=query.lets, original=original)


def _preview_assignments(assignments: tuple[Assignment, ...]) -> Json:
    """Return the assigned fields and their values."""
    return {assignment.field: _value_json(assignment.value) for assignment in assignments}


def _value_json(value: Value) -> object:
    """Return a value as JSON, with hashes as plain strings."""
    return value.text if isinstance(value, Hash) else writer.value_json(value)


def _join_workloads(preparations: list[_Workload], last: _Workload) -> _Workload:
    """Join steps that prepare others with the last one, which alone returns grains."""
    workloads = (*preparations, last)
    steps = tuple(step for workload in workloads for step in workload.steps)
    low = sum(workload.low for workload in workloads)
    high = sum(workload.high for workload in workloads)
    return _Workload(steps, low, high, last.grains)


def _combine_workloads(workloads: list[_Workload]) -> _Workload:
    """Combine workloads whose results are all returned."""
    return _join_workloads(workloads, _NO_WORK)._replace(
        grains=sum(workload.grains for workload in workloads)
    )


_NO_WORK: Final = _Workload((), 0, 0, 0)


# --- RECALL ----------------------------------------------------------------------------------------------


def _recall_workload(
    recall: Recall, context: _Context, *, is_inner: bool = False, **extra_members: Any
) -> _Workload:
    """Return the workload of one RECALL; each of its steps gets the `extra_members`."""
    desugared = desugar_recall(recall)
    preparations = [
        _recall_workload(test.value.query, context, is_inner=True, feeds=test.field)
        for test in desugared.where
        if isinstance(test.value, Subquery)
    ]
    if desugared.thread is not None and desugared.thread.message is not None:
        # Adds nothing to the least number: without the message, this read replaces the query.
        get_message = {"op": "get", "hash": _value_json(desugared.thread.message), **extra_members}
        preparations.append(_Workload((get_message,), 0, 1, 0))
    has_search = any(condition.field in _SEARCHED for condition in desugared.where)
    limit = _max_results(desugared, is_inner=is_inner)
    offset = _total_offset(desugared)
    step: Json = {
        "op": "search" if has_search else "query",
        "filters": _build_filters(desugared, context.now),
        "sort": _sort_order(desugared),
        "limit": limit,
    }
    if offset is not None:
        step["offset"] = offset
    if any(option.name == "superseded" for option in desugared.options):
        step["superseded"] = True
    step |= extra_members
    steps = (step, *(_fallback_step(step, fallback) for fallback in _find_fallbacks(recall)))
    return _join_workloads(
        preparations, _Workload(steps, 1, len(steps), _max_grains(desugared, limit))
    )


class _Fallback(NamedTuple):
    """A search that runs if the first step finds nothing: the condition it replaces, and the field it searches."""

    field: str
    search_field: str
    reason: str


def _find_fallbacks(recall: Recall) -> list[_Fallback]:
    """Return the searches to which a RECALL may fall back."""
    fallbacks = []
    # A RECALL that searches already cannot search for a second text.
    if (
        recall.about is not None
        and recall.like is None
        and all(condition.field != "query" for condition in recall.where)
    ):
        fallbacks.append(_Fallback("subject", "query", "no grain has this subject"))
    # Section 6.3: "semantic or exact".
    if any(
        condition.field == "conclusion" and condition.operator == "=" for condition in recall.where
    ):
        fallbacks.append(
            _Fallback("conclusion", "conclusion", "no grain has exactly this conclusion")
        )
    return fallbacks


def _fallback_step(step: Json, fallback: _Fallback) -> Json:
    """Return the step with one of its filters turned into a search."""
    filters = list(cast("list[Json]", step["filters"]))
    tests = [(test["field"], test["op"]) for test in filters]
    index = tests.index((fallback.field, "="))
    filters[index] = {**filters[index], "field": fallback.search_field}
    return {**step, "op": "search", "filters": filters, "when": fallback.reason}


def _build_filters(recall: Recall, now: int) -> list[Json]:
    """Return the filters of a RECALL: its type, its thread, then its conditions."""
    filters: list[Json] = []
    if recall.grain_type is not None:
        filters.append({"field": "type", "op": "=", "value": recall.grain_type})
    if recall.thread is not None and recall.thread.message is not None:
        filters.append({"field": "thread", "op": "=", "value": _value_json(recall.thread.message)})
    return filters + [_build_filter(condition, now) for condition in recall.where]


def _build_filter(condition: WhereCondition, now: int) -> Json:
    """Return one condition as a filter."""
    value = condition.value
    if isinstance(value, Subquery):
        operand: object = {"subquery": statement_text(value.query)}
    else:
        operand = _value_json(value)
    return {"field": condition.field, "op": condition.operator, "value": operand} | _time_span(
        condition, now
    )


def _time_span(condition: WhereCondition, now: int) -> Json:
    """Return the instants of a condition on `time`, without those of unbound parameters."""
    value = condition.value
    if condition.field != "time" or isinstance(value, Subquery):
        return {}
    low, high = value if isinstance(value, tuple) else (value, None)
    ends = {
        "from": _instant_of(low, now, times.first_ms),
        "to": _instant_of(high, now, times.last_ms),
    }
    return {name: end for name, end in ends.items() if end is not None}


def _instant_of(
    value: Value | None, now: int, parse_time: Callable[[str, int], int | None]
) -> int | None:
    """Return the instant of a time expression or an epoch in milliseconds; None for other values."""
    if isinstance(value, str):
        return parse_time(value, now)
    return (
        times.epoch_ms(value)
        if isinstance(value, int | float) and not isinstance(value, bool)
        else None
    )


def _sort_order(recall: Recall) -> list[Json]:
    """Return the sort keys: the last ORDER BY, then the hash."""
    orders = [stage for stage in recall.stages if isinstance(stage, OrderBy)]
    if not orders and recall.thread is None:
        return list(_DEFAULT_SORT)
    # A thread is ordered from its beginning.
    order = orders[-1] if orders else OrderBy(field="time")
    return [{"field": order.field, "dir": "desc" if order.descending else "asc"}, _DEFAULT_SORT[-1]]


def _max_results(recall: Recall, *, is_inner: bool) -> object:
    """Return the most results that a RECALL can have; None for COUNT, which counts all matches."""
    counts = [stage.count for stage in recall.stages if isinstance(stage, Limit)]
    reducers = {stage.to for stage in recall.stages if isinstance(stage, Reduce)}
    if "first" in reducers:
        return 1
    if counts:
        return _smallest_count(counts)
    if "count" in reducers:
        return None
    # A subquery gets the greatest limit, because a truncated list would make IN miss members.
    return limits.LIMIT_MAX if is_inner and reducers else limits.LIMIT_DEFAULT


def _smallest_count(counts: list[Count]) -> object:
    """Return the smallest number; if all counts are parameters, the first of them as JSON."""
    numbers = [count for count in counts if not isinstance(count, Param)]
    return min(numbers) if numbers else writer.value_json(counts[0])


def _total_offset(recall: Recall) -> object:
    """Return the sum of all offsets, or None if there are none; if one is a parameter, that parameter as JSON."""
    counts = [stage.count for stage in recall.stages if isinstance(stage, Offset)]
    if any(isinstance(count, Param) for count in counts):
        return writer.value_json(next(count for count in counts if isinstance(count, Param)))
    return sum(count for count in counts if isinstance(count, int)) or None


def _max_grains(recall: Recall, limit: object) -> int:
    """Return the most grains that the answer to a RECALL can hold."""
    if any(isinstance(stage, Reduce) and stage.to == "count" for stage in recall.stages):
        return 0
    max_results = limit if isinstance(limit, int) else limits.LIMIT_MAX
    has_groups = any(isinstance(stage, GroupBy) for stage in recall.stages)
    return max_results * _GRAINS_PER_GROUP if has_groups else max_results


# --- the other statements --------------------------------------------------------------------------------


def _plan_statement(statement: Statement, context: _Context, **extra_members: Any) -> _Workload:
    """Return the workload of a statement."""
    if isinstance(statement, Recall):
        return _recall_workload(statement, context, **extra_members)
    return _PLANNERS[type(statement)](statement, context, **extra_members)


def _plan_assemble(statement: Assemble, context: _Context) -> _Workload:
    """Return the workload of an ASSEMBLE: one RECALL per source."""
    # Options of the ASSEMBLE apply to every source.
    reads_superseded = any(option.name == "superseded" for option in statement.options)
    extra_members = {"superseded": True} if reads_superseded else {}
    workloads = []
    for index, source in enumerate(statement.sources):
        if isinstance(source.query, Param):
            # The LET runs once, before the statement, and its steps are already in the plan.
            workloads.append(_NO_WORK._replace(grains=context.lets[source.query.name]))
        else:
            workloads.append(
                _recall_workload(
                    source.query, context, source=label_of(source, index), **extra_members
                )
            )
    return _combine_workloads(workloads)


def _plan_set(statement: SetOp, context: _Context) -> _Workload:
    """Return the workload of a set operation: that of both operands."""
    left_workload, right_workload = (
        _plan_statement(operand, context)
        for operand in (statement.left_operand, statement.right_operand)
    )
    grains = {
        "union": left_workload.grains + right_workload.grains,
        "intersect": min(left_workload.grains, right_workload.grains),
        "except": left_workload.grains,
    }
    return _combine_workloads([left_workload, right_workload])._replace(
        grains=grains[statement.operator]
    )


def _plan_coalesce(statement: Coalesce, context: _Context, **extra_members: Any) -> _Workload:
    """Return the workload of a COALESCE: at least its first branch, at most all of them."""
    workloads = [
        _recall_workload(branch, context, branch=index, **extra_members)
        for index, branch in enumerate(statement.branches)
    ]
    # The first branch may have results; then no other one runs.
    return _combine_workloads(workloads)._replace(
        low=workloads[0].low, grains=max(workload.grains for workload in workloads)
    )


def _plan_batch(statement: BatchQuery, context: _Context) -> _Workload:
    """Return the workload of a BATCH: that of all entries."""
    return _combine_workloads(
        [_plan_statement(entry.query, context, source=entry.label) for entry in statement.entries]
    )


def _plan_exists(statement: Exists, _: _Context, **extra_members: Any) -> _Workload:
    """Return the workload of an EXISTS."""
    return _Workload(
        ({"op": "exists", "hash": _value_json(statement.hash), **extra_members},), 1, 1, 0
    )


def _plan_history(statement: History, context: _Context, **extra_members: Any) -> _Workload:
    """Return the workload of a HISTORY: the versions of a grain, or one query for a subject and relation."""
    if statement.hash is not None:
        get_grain = {"op": "get", "hash": _value_json(statement.hash), **extra_members}
        if statement.diff is not None:
            return _Workload(
                (get_grain, {**get_grain, "hash": _value_json(statement.diff)}), 2, 2, 0
            )
        get_versions = {
            "op": "get",
            "chain": "versions before and after",
            "limit": HISTORY_VERSIONS,
            **extra_members,
        }
        return _Workload((get_grain, get_versions), 1, 1 + HISTORY_VERSIONS, HISTORY_VERSIONS)
    assert statement.subject is not None
    assert statement.relation is not None
    pairs = (("subject", statement.subject), ("relation", statement.relation))
    filters = [{"field": name, "op": "=", "value": _value_json(value)} for name, value in pairs]
    if statement.as_of is not None:
        instant = _instant_of(
            statement.as_of if isinstance(statement.as_of, str) else None,
            context.now,
            times.last_ms,
        )
        as_of = {"field": "as_of", "op": "=", "value": _value_json(statement.as_of)}
        filters.append(as_of if instant is None else as_of | {"to": instant})
    step = {
        "op": "query",
        "filters": filters,
        "sort": [{"field": "created_at", "dir": "desc"}],
        "limit": HISTORY_VERSIONS,
        "superseded": True,
        **extra_members,
    }
    return _Workload((step,), 1, 1, HISTORY_VERSIONS)


def _plan_add(_: Add, __: _Context) -> _Workload:
    """Return the workload of an ADD."""
    return _Workload(({"op": "put"},), 1, 1, 0)


def _plan_supersede(statement: Supersede, _: _Context) -> _Workload:
    """Return the workload of a SUPERSEDE."""
    target = _value_json(statement.hash)
    return _Workload(
        ({"op": "get", "hash": target}, {"op": "supersede", "hash": target}), *_SUPERSEDE_OPS, 0
    )


def _plan_revert(statement: Revert, _: _Context) -> _Workload:
    """Return the workload of a REVERT."""
    target = _value_json(statement.hash)
    steps: tuple[Json, ...] = (
        {"op": "get", "hash": target},
        {"op": "get", "chain": "the version before it"},
        {"op": "supersede", "chain": "the current version"},
    )
    return _Workload(steps, *_REVERT_OPS, 0)


def _plan_nothing(*_: Any, **__: Any) -> _Workload:
    """Return the workload of a statement that touches no grain."""
    return _NO_WORK


_PLANNERS: Final[Mapping[type[Statement], Callable[..., _Workload]]] = {
    Assemble: _plan_assemble,
    SetOp: _plan_set,
    Coalesce: _plan_coalesce,
    BatchQuery: _plan_batch,
    Exists: _plan_exists,
    History: _plan_history,
    # These two read and write no grain.
    Describe: _plan_nothing,
    DefineTemplate: _plan_nothing,
    Add: _plan_add,
    Supersede: _plan_supersede,
    Revert: _plan_revert,
}


# --- bounds and budget -----------------------------------------------------------------------------------


def _estimate_bounds(statement: Statement, grains: int) -> Json:
    """Return the most grains and tokens of the answer, and an estimate of its tokens."""
    max_tokens: int | None = None
    if isinstance(statement, Assemble):
        budget_clause = statement.budget
        if budget_clause is not None and budget_clause.unit == "grains":
            grains = min(grains, budget_clause.amount)
        else:
            max_tokens = budget.DEFAULT_TOKENS if budget_clause is None else budget_clause.amount
    estimate = grains * TOKENS_PER_GRAIN
    return {
        "max_grains": grains,
        "max_tokens": max_tokens,
        "estimated_tokens": estimate if max_tokens is None else min(estimate, max_tokens),
    }


def _describe_budget(statement: Assemble) -> Json:
    """Return the budget of an ASSEMBLE, and the weight of each source."""
    budget_clause = statement.budget
    labels = [label_of(source, index) for index, source in enumerate(statement.sources)]
    ranked = [*statement.priority, *(label for label in labels if label not in statement.priority)]
    shares = budget.weights(len(ranked))
    return {
        "amount": budget.DEFAULT_TOKENS if budget_clause is None else budget_clause.amount,
        "unit": "tokens" if budget_clause is None else budget_clause.unit,
        "weights": {
            label: round(float(share), 4) for label, share in zip(ranked, shares, strict=True)
        },
    }
