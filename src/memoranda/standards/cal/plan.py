"""What a query would do, without doing it: EXPLAIN, and what a caller is shown before a change (sections 8.5, 13, 18).

Nothing is read: the numbers are bounds that follow from the query alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

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
    Batch,
    Coalesce,
    Condition,
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
    Query,
    Recall,
    Reduce,
    Revert,
    SetOp,
    Statement,
    Subquery,
    Supersede,
    Value,
    tier_of,
)
from memoranda.standards.cal.wire import writer

Json = dict[str, Any]

# Section 8.4: HISTORY answers with at most so many versions.
HISTORY_VERSIONS: Final = 100
# What one grain is taken to cost before anything is read (section 10.9.5).
TOKENS_PER_GRAIN: Final = 40
# Of each group, so many grains are shown.
_GRAINS_PER_GROUP: Final = 5
# Sections 8.9, 8.10: what there is to read before a change, and the change.
_SUPERSEDE_OPS: Final = (2, 3)
_REVERT_OPS: Final = (3, 4)
# Fields whose `=` searches rather than compares.
_SEARCHED: Final = frozenset(("query", "content", "plan", "steps", "premises"))
_DEFAULT_SORT: Final = ({"field": "score", "dir": "desc"}, {"field": "hash", "dir": "asc"})


class _Workload(NamedTuple):
    """What a statement makes the store do: in order, how often at least and at most, and for how many grains."""

    steps: tuple[Json, ...]
    low: int
    high: int
    grains: int


class _Context(NamedTuple):
    """What every step depends on: the time, and the most grains that each LET yields."""

    now: int
    lets: Mapping[str, int]


def explain(query: Query, *, now: int) -> Json:
    """The plan of a query, or of the query inside EXPLAIN; `now` is what its time expressions are relative to."""
    query = _unwrap_explain(query)
    statement = query.statement
    let_work = {let.name: _let_workload(let.name, let.query, now) for let in query.lets}
    context = _Context(now, {name: work.grains for name, work in let_work.items()})
    work = _join_workloads([*let_work.values()], _plan_statement(statement, context))
    return {
        "statement": writer.statement_json(statement)["statement"],
        "tier": tier_of(statement),
        "canonical": canonical(query),
        "desugared": canonical(desugar(query.original or query)),
        "steps": list(work.steps),
        "store_ops": {"min": work.low, "max": work.high},
        "bounds": _estimate_bounds(statement, work.grains),
        "budget": _describe_budget(statement) if isinstance(statement, Assemble) else None,
        "side_effects": side_effects(statement),
        "warnings": [warning._asdict() for warning in check.find_warnings(query)],
    }


def side_effects(statement: Statement) -> list[Json]:
    """What a statement would append, for review before it does; empty for one that reads."""
    if isinstance(statement, Explain):
        return side_effects(statement.query)
    if isinstance(statement, Add):
        grain = {"type": statement.grain_type, **_preview_assignments(statement.assignments)}
        return [{"operation": "add", "grain": grain, "reason": statement.reason}]
    if not isinstance(statement, Supersede | Revert):
        return []
    # What REVERT brings back is in the store.
    is_new = isinstance(statement, Supersede)
    return [
        {
            "operation": "supersede" if is_new else "revert",
            "target_hash": _value_json(statement.hash),
            "grain": _preview_assignments(statement.assignments) if isinstance(statement, Supersede) else {},
            "reason": statement.reason,
        }
    ]


def _unwrap_explain(query: Query) -> Query:
    if not isinstance(query.statement, Explain):
        return query
    written = None if query.original is None else _unwrap_explain(query.original)
    return Query(statement=query.statement.query, lets=query.lets, original=written)


def _preview_assignments(assignments: tuple[Assignment, ...]) -> Json:
    return {assignment.field: _value_json(assignment.value) for assignment in assignments}


def _value_json(value: Value) -> Any:
    return value.text if isinstance(value, Hash) else writer.value_json(value)


def _join_workloads(before: list[_Workload], last: _Workload) -> _Workload:
    """One piece of work after others that only prepare it."""
    every = (*before, last)
    steps = tuple(step for work in every for step in work.steps)
    return _Workload(steps, sum(work.low for work in every), sum(work.high for work in every), last.grains)


def _combine_workloads(works: list[_Workload]) -> _Workload:
    """Pieces of work whose results stand side by side."""
    return _join_workloads(works, _NO_WORK)._replace(grains=sum(work.grains for work in works))


_NO_WORK: Final = _Workload((), 0, 0, 0)


# --- RECALL ----------------------------------------------------------------------------------------------


def _recall_workload(recall: Recall, context: _Context, *, is_inner: bool = False, **more: Any) -> _Workload:
    """One RECALL; `more` says in each of its steps what it is for."""
    plain = desugar_recall(recall)
    before = [
        _recall_workload(condition.value.query, context, is_inner=True, feeds=condition.field)
        for condition in plain.where
        if isinstance(condition.value, Subquery)
    ]
    if plain.thread is not None and plain.thread.message is not None:
        # Of a message that is not there, there is no thread to ask for.
        before.append(_Workload(({"op": "get", "hash": _value_json(plain.thread.message), **more},), 0, 1, 0))
    has_search = any(each.field in _SEARCHED for each in plain.where)
    limit = _max_results(plain, is_inner=is_inner)
    step = {
        "op": "search" if has_search else "query",
        "filters": _build_filters(plain, context.now),
        "sort": _sort_order(plain),
        "limit": limit,
        **({"offset": offset} if (offset := _total_offset(plain)) is not None else {}),
        **({"superseded": True} if any(each.name == "superseded" for each in plain.options) else {}),
        **more,
    }
    steps = (step, *(_fallback_step(step, fallback) for fallback in _find_fallbacks(recall)))
    return _join_workloads(before, _Workload(steps, 1, len(steps), _max_grains(plain, limit)))


class _Fallback(NamedTuple):
    """A search, for when the first call finds nothing: which condition becomes one, on which field."""

    field: str
    search_field: str
    reason: str


def _find_fallbacks(recall: Recall) -> list[_Fallback]:
    fallbacks = []
    # Two search texts would contradict one another.
    if (
        recall.about is not None
        and recall.like is None
        and all(condition.field != "query" for condition in recall.where)
    ):
        fallbacks.append(_Fallback("subject", "query", "no grain has this subject"))
    # Section 6.3: "semantic or exact".
    if any(condition.field == "conclusion" and condition.operator == "=" for condition in recall.where):
        fallbacks.append(_Fallback("conclusion", "conclusion", "no grain has exactly this conclusion"))
    return fallbacks


def _fallback_step(step: Json, fallback: _Fallback) -> Json:
    filters = list(step["filters"])
    index = next(number for number, test in enumerate(filters) if (test["field"], test["op"]) == (fallback.field, "="))
    filters[index] = {**filters[index], "field": fallback.search_field}
    return {**step, "op": "search", "filters": filters, "when": fallback.reason}


def _build_filters(recall: Recall, now: int) -> list[Json]:
    filters = [] if recall.grain_type is None else [{"field": "type", "op": "=", "value": recall.grain_type}]
    if recall.thread is not None and recall.thread.message is not None:
        filters.append({"field": "thread", "op": "=", "value": _value_json(recall.thread.message)})
    return filters + [_build_filter(condition, now) for condition in recall.where]


def _build_filter(condition: Condition, now: int) -> Json:
    value = condition.value
    if isinstance(value, Subquery):
        operand: Any = {"subquery": statement_text(value.query)}
    else:
        operand = _value_json(value)
    return {"field": condition.field, "op": condition.operator, "value": operand} | _time_span(condition, now)


def _time_span(condition: Condition, now: int) -> Json:
    """The instants that a condition on `time` stands for; those of unbound parameters are not known."""
    value = condition.value
    if condition.field != "time" or isinstance(value, Subquery):
        return {}
    low, high = value if isinstance(value, tuple) else (value, None)
    ends = {"from": _instant_of(low, now, times.first_ms), "to": _instant_of(high, now, times.last_ms)}
    return {name: end for name, end in ends.items() if end is not None}


def _instant_of(value: Value | None, now: int, parse_time: Callable[[str, int], int | None]) -> int | None:
    if isinstance(value, str):
        return parse_time(value, now)
    return times.epoch_ms(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _sort_order(recall: Recall) -> list[Json]:
    """What decides the order: the last ORDER BY, then the hash."""
    ordered = [stage for stage in recall.stages if isinstance(stage, OrderBy)]
    if not ordered and recall.thread is None:
        return list(_DEFAULT_SORT)
    # A thread is told from its beginning.
    last = ordered[-1] if ordered else OrderBy(field="time")
    return [{"field": last.field, "dir": "desc" if last.descending else "asc"}, _DEFAULT_SORT[-1]]


def _max_results(recall: Recall, *, is_inner: bool) -> Any:
    """How many results there can be; None for COUNT, which counts them all."""
    counts = [stage.count for stage in recall.stages if isinstance(stage, Limit)]
    reduced = {stage.to for stage in recall.stages if isinstance(stage, Reduce)}
    if "first" in reduced:
        return 1
    if counts:
        return _smallest_count(counts)
    if "count" in reduced:
        return None
    # What a membership is tested against is not cut short unasked.
    return limits.LIMIT_MAX if is_inner and reduced else limits.LIMIT_DEFAULT


def _smallest_count(counts: list[Count]) -> Any:
    numbers = [count for count in counts if not isinstance(count, Param)]
    return min(numbers) if numbers else writer.value_json(counts[0])


def _total_offset(recall: Recall) -> Any:
    counts = [stage.count for stage in recall.stages if isinstance(stage, Offset)]
    if any(isinstance(count, Param) for count in counts):
        return writer.value_json(next(count for count in counts if isinstance(count, Param)))
    return sum(count for count in counts if isinstance(count, int)) or None


def _max_grains(recall: Recall, limit: Any) -> int:
    """The most grains that its answer can hold."""
    if any(isinstance(stage, Reduce) and stage.to == "count" for stage in recall.stages):
        return 0
    most = limit if isinstance(limit, int) else limits.LIMIT_MAX
    return most * _GRAINS_PER_GROUP if any(isinstance(stage, GroupBy) for stage in recall.stages) else most


def _let_workload(name: str, recall: Recall, now: int) -> _Workload:
    return _recall_workload(recall, _Context(now, {}), is_inner=True, source=f"${name}")


# --- the other statements --------------------------------------------------------------------------------


def _plan_statement(statement: Statement, context: _Context, **more: Any) -> _Workload:
    if isinstance(statement, Recall):
        return _recall_workload(statement, context, **more)
    return _PLANNERS[type(statement)](statement, context, **more)


def _plan_assemble(statement: Assemble, context: _Context) -> _Workload:
    # Options of the whole hold for every source.
    more = {"superseded": True} if any(option.name == "superseded" for option in statement.options) else {}
    works = []
    for index, source in enumerate(statement.sources):
        if isinstance(source.query, Param):
            # It ran with the LETs; each of them is evaluated once.
            works.append(_NO_WORK._replace(grains=context.lets[source.query.name]))
        else:
            works.append(_recall_workload(source.query, context, source=label_of(source, index), **more))
    return _combine_workloads(works)


def _plan_set(statement: SetOp, context: _Context) -> _Workload:
    left_work, right_work = (
        _plan_statement(operand, context) for operand in (statement.left_operand, statement.right_operand)
    )
    grains = {
        "union": left_work.grains + right_work.grains,
        "intersect": min(left_work.grains, right_work.grains),
        "except": left_work.grains,
    }
    return _combine_workloads([left_work, right_work])._replace(grains=grains[statement.operator])


def _plan_coalesce(statement: Coalesce, context: _Context, **more: Any) -> _Workload:
    works = [_recall_workload(branch, context, branch=index, **more) for index, branch in enumerate(statement.branches)]
    # The first branch may already answer.
    return _combine_workloads(works)._replace(low=works[0].low, grains=max(work.grains for work in works))


def _plan_batch(statement: Batch, context: _Context) -> _Workload:
    return _combine_workloads(
        [_plan_statement(entry.query, context, source=entry.label) for entry in statement.entries]
    )


def _plan_exists(statement: Exists, _: _Context, **more: Any) -> _Workload:
    return _Workload(({"op": "exists", "hash": _value_json(statement.hash), **more},), 1, 1, 0)


def _plan_history(statement: History, context: _Context, **more: Any) -> _Workload:
    if statement.hash is not None:
        first = {"op": "get", "hash": _value_json(statement.hash), **more}
        if statement.diff is not None:
            return _Workload((first, {**first, "hash": _value_json(statement.diff)}), 2, 2, 0)
        walk = {"op": "get", "chain": "versions before and after", "limit": HISTORY_VERSIONS, **more}
        return _Workload((first, walk), 1, 1 + HISTORY_VERSIONS, HISTORY_VERSIONS)
    assert statement.subject is not None
    assert statement.relation is not None
    pairs = (("subject", statement.subject), ("relation", statement.relation))
    filters = [{"field": name, "op": "=", "value": _value_json(value)} for name, value in pairs]
    if statement.as_of is not None:
        instant = _instant_of(statement.as_of if isinstance(statement.as_of, str) else None, context.now, times.last_ms)
        as_of = {"field": "as_of", "op": "=", "value": _value_json(statement.as_of)}
        filters.append(as_of if instant is None else as_of | {"to": instant})
    step = {
        "op": "query",
        "filters": filters,
        "sort": [{"field": "created_at", "dir": "desc"}],
        "limit": HISTORY_VERSIONS,
        "superseded": True,
        **more,
    }
    return _Workload((step,), 1, 1, HISTORY_VERSIONS)


def _plan_add(_: Add, __: _Context) -> _Workload:
    return _Workload(({"op": "put"},), 1, 1, 0)


def _plan_supersede(statement: Supersede, _: _Context) -> _Workload:
    target = _value_json(statement.hash)
    return _Workload(({"op": "get", "hash": target}, {"op": "supersede", "hash": target}), *_SUPERSEDE_OPS, 0)


def _plan_revert(statement: Revert, _: _Context) -> _Workload:
    target = _value_json(statement.hash)
    steps = (
        {"op": "get", "hash": target},
        {"op": "get", "chain": "the version before it"},
        {"op": "supersede", "chain": "the current version"},
    )
    return _Workload(steps, *_REVERT_OPS, 0)


def _plan_nothing(*_: Any, **__: Any) -> _Workload:
    return _NO_WORK


_PLANNERS: Final[Mapping[type[Statement], Callable[..., _Workload]]] = {
    Assemble: _plan_assemble,
    SetOp: _plan_set,
    Coalesce: _plan_coalesce,
    Batch: _plan_batch,
    Exists: _plan_exists,
    History: _plan_history,
    # Neither touches a grain.
    Describe: _plan_nothing,
    DefineTemplate: _plan_nothing,
    Add: _plan_add,
    Supersede: _plan_supersede,
    Revert: _plan_revert,
}


# --- bounds and budget -----------------------------------------------------------------------------------


def _estimate_bounds(statement: Statement, grains: int) -> Json:
    most_tokens: int | None = None
    if isinstance(statement, Assemble):
        budget_clause = statement.budget
        if budget_clause is not None and budget_clause.unit == "grains":
            grains = min(grains, budget_clause.amount)
        else:
            most_tokens = budget.DEFAULT_TOKENS if budget_clause is None else budget_clause.amount
    estimate = grains * TOKENS_PER_GRAIN
    return {
        "max_grains": grains,
        "max_tokens": most_tokens,
        "estimated_tokens": estimate if most_tokens is None else min(estimate, most_tokens),
    }


def _describe_budget(statement: Assemble) -> Json:
    budget_clause = statement.budget
    labels = [label_of(source, index) for index, source in enumerate(statement.sources)]
    ranked = [*statement.priority, *(label for label in labels if label not in statement.priority)]
    shares = budget.weights(len(ranked))
    return {
        "amount": budget.DEFAULT_TOKENS if budget_clause is None else budget_clause.amount,
        "unit": "tokens" if budget_clause is None else budget_clause.unit,
        "weights": {label: round(float(share), 4) for label, share in zip(ranked, shares, strict=True)},
    }
