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
    tier,
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


class _Work(NamedTuple):
    """What a statement makes the store do: in order, how often at least and at most, and for how many grains."""

    steps: tuple[Json, ...]
    low: int
    high: int
    grains: int


class _Given(NamedTuple):
    """What every step depends on: the time, and the most grains that each LET yields."""

    now: int
    lets: Mapping[str, int]


def explain(query: Query, *, now: int) -> Json:
    """The plan of a query, or of the query inside EXPLAIN; `now` is what its time expressions are relative to."""
    query = _explained(query)
    statement = query.statement
    first = {each.name: _let(each.name, each.query, now) for each in query.lets}
    given = _Given(now, {name: work.grains for name, work in first.items()})
    work = _joined([*first.values()], _work(statement, given))
    return {
        "statement": writer.statement_json(statement)["statement"],
        "tier": tier(statement),
        "canonical": canonical(query),
        "desugared": canonical(desugar(query.written or query)),
        "steps": list(work.steps),
        "store_ops": {"min": work.low, "max": work.high},
        "bounds": _bounds(statement, work.grains),
        "budget": _budget(statement) if isinstance(statement, Assemble) else None,
        "side_effects": side_effects(statement),
        "warnings": [warning._asdict() for warning in check.warnings(query)],
    }


def side_effects(statement: Statement) -> list[Json]:
    """What a statement would append, for review before it does; empty for one that reads."""
    if isinstance(statement, Explain):
        return side_effects(statement.query)
    if isinstance(statement, Add):
        grain = {"type": statement.grain_type, **_preview(statement.assignments)}
        return [{"operation": "add", "grain": grain, "reason": statement.reason}]
    if not isinstance(statement, Supersede | Revert):
        return []
    # What REVERT brings back is in the store.
    is_new = isinstance(statement, Supersede)
    return [
        {
            "operation": "supersede" if is_new else "revert",
            "target_hash": _value(statement.hash),
            "grain": _preview(statement.assignments) if isinstance(statement, Supersede) else {},
            "reason": statement.reason,
        }
    ]


def _explained(query: Query) -> Query:
    if not isinstance(query.statement, Explain):
        return query
    written = None if query.written is None else _explained(query.written)
    return Query(statement=query.statement.query, lets=query.lets, written=written)


def _preview(assignments: tuple[Assignment, ...]) -> Json:
    return {each.field: _value(each.value) for each in assignments}


def _value(value: Value) -> Any:
    return value.text if isinstance(value, Hash) else writer.value_json(value)


def _joined(before: list[_Work], last: _Work) -> _Work:
    """One piece of work after others that only prepare it."""
    every = (*before, last)
    steps = tuple(step for work in every for step in work.steps)
    return _Work(steps, sum(work.low for work in every), sum(work.high for work in every), last.grains)


def _all(works: list[_Work]) -> _Work:
    """Pieces of work whose results stand side by side."""
    return _joined(works, _NOTHING)._replace(grains=sum(work.grains for work in works))


_NOTHING: Final = _Work((), 0, 0, 0)


# --- RECALL ----------------------------------------------------------------------------------------------


def _recall(recall: Recall, given: _Given, *, is_inner: bool = False, **more: Any) -> _Work:
    """One RECALL; `more` says in each of its steps what it is for."""
    plain = desugar_recall(recall)
    before = [
        _recall(condition.value.query, given, is_inner=True, feeds=condition.field)
        for condition in plain.where
        if isinstance(condition.value, Subquery)
    ]
    if plain.thread is not None and plain.thread.message is not None:
        # Of a message that is not there, there is no thread to ask for.
        before.append(_Work(({"op": "get", "hash": _value(plain.thread.message), **more},), 0, 1, 0))
    has_search = any(each.field in _SEARCHED for each in plain.where)
    limit = _limit(plain, is_inner=is_inner)
    step = {
        "op": "search" if has_search else "query",
        "filters": _filters(plain, given.now),
        "sort": _sort(plain),
        "limit": limit,
        **({"offset": offset} if (offset := _offset(plain)) is not None else {}),
        **({"superseded": True} if any(each.name == "superseded" for each in plain.options) else {}),
        **more,
    }
    steps = (step, *(_instead(step, fallback) for fallback in _fallbacks(recall)))
    return _joined(before, _Work(steps, 1, len(steps), _grains(plain, limit)))


class _Fallback(NamedTuple):
    """A search, for when the first call finds nothing: which condition becomes one, on which field."""

    field: str
    searched: str
    when: str


def _fallbacks(recall: Recall) -> list[_Fallback]:
    found = []
    # Two search texts would contradict one another.
    if recall.about is not None and recall.like is None and all(each.field != "query" for each in recall.where):
        found.append(_Fallback("subject", "query", "no grain has this subject"))
    # Section 6.3: "semantic or exact".
    if any(each.field == "conclusion" and each.operator == "=" for each in recall.where):
        found.append(_Fallback("conclusion", "conclusion", "no grain has exactly this conclusion"))
    return found


def _instead(step: Json, fallback: _Fallback) -> Json:
    filters = list(step["filters"])
    place = next(at for at, each in enumerate(filters) if (each["field"], each["op"]) == (fallback.field, "="))
    filters[place] = {**filters[place], "field": fallback.searched}
    return {**step, "op": "search", "filters": filters, "when": fallback.when}


def _filters(recall: Recall, now: int) -> list[Json]:
    found = [] if recall.grain_type is None else [{"field": "type", "op": "=", "value": recall.grain_type}]
    if recall.thread is not None and recall.thread.message is not None:
        found.append({"field": "thread", "op": "=", "value": _value(recall.thread.message)})
    return found + [_filter(each, now) for each in recall.where]


def _filter(condition: Condition, now: int) -> Json:
    value = condition.value
    if isinstance(value, Subquery):
        shown: Any = {"subquery": statement_text(value.query)}
    else:
        shown = _value(value)
    return {"field": condition.field, "op": condition.operator, "value": shown} | _span(condition, now)


def _span(condition: Condition, now: int) -> Json:
    """The instants that a condition on `time` stands for; those of unbound parameters are not known."""
    value = condition.value
    if condition.field != "time" or isinstance(value, Subquery):
        return {}
    low, high = value if isinstance(value, tuple) else (value, None)
    ends = {"from": _instant(low, now, times.start_of), "to": _instant(high, now, times.end_of)}
    return {name: end for name, end in ends.items() if end is not None}


def _instant(value: Value | None, now: int, read: Callable[[str, int], int | None]) -> int | None:
    if isinstance(value, str):
        return read(value, now)
    return times.epoch_ms(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _sort(recall: Recall) -> list[Json]:
    """What decides the order: the last ORDER BY, then the hash."""
    ordered = [each for each in recall.stages if isinstance(each, OrderBy)]
    if not ordered and recall.thread is None:
        return list(_DEFAULT_SORT)
    # A thread is told from its beginning.
    last = ordered[-1] if ordered else OrderBy(field="time")
    return [{"field": last.field, "dir": "desc" if last.descending else "asc"}, _DEFAULT_SORT[-1]]


def _limit(recall: Recall, *, is_inner: bool) -> Any:
    """How many results there can be; None for COUNT, which counts them all."""
    counts = [each.count for each in recall.stages if isinstance(each, Limit)]
    reduced = {each.to for each in recall.stages if isinstance(each, Reduce)}
    if "first" in reduced:
        return 1
    if counts:
        return _smallest(counts)
    if "count" in reduced:
        return None
    # What a membership is tested against is not cut short unasked.
    return limits.LIMIT_MAX if is_inner and reduced else limits.LIMIT_DEFAULT


def _smallest(counts: list[Count]) -> Any:
    known = [count for count in counts if not isinstance(count, Param)]
    return min(known) if known else writer.value_json(counts[0])


def _offset(recall: Recall) -> Any:
    counts = [each.count for each in recall.stages if isinstance(each, Offset)]
    if any(isinstance(count, Param) for count in counts):
        return writer.value_json(next(count for count in counts if isinstance(count, Param)))
    return sum(count for count in counts if isinstance(count, int)) or None


def _grains(recall: Recall, limit: Any) -> int:
    """The most grains that its answer can hold."""
    if any(isinstance(each, Reduce) and each.to == "count" for each in recall.stages):
        return 0
    most = limit if isinstance(limit, int) else limits.LIMIT_MAX
    return most * _GRAINS_PER_GROUP if any(isinstance(each, GroupBy) for each in recall.stages) else most


def _let(name: str, recall: Recall, now: int) -> _Work:
    return _recall(recall, _Given(now, {}), is_inner=True, source=f"${name}")


# --- the other statements --------------------------------------------------------------------------------


def _work(statement: Statement, given: _Given, **more: Any) -> _Work:
    if isinstance(statement, Recall):
        return _recall(statement, given, **more)
    return _WORK[type(statement)](statement, given, **more)


def _assemble(statement: Assemble, given: _Given) -> _Work:
    # Options of the whole hold for every source.
    more = {"superseded": True} if any(each.name == "superseded" for each in statement.options) else {}
    works = []
    for index, source in enumerate(statement.sources):
        if isinstance(source.query, Param):
            # It ran with the LETs; each of them is evaluated once.
            works.append(_NOTHING._replace(grains=given.lets[source.query.name]))
        else:
            works.append(_recall(source.query, given, source=label_of(source, index), **more))
    return _all(works)


def _set(statement: SetOp, given: _Given) -> _Work:
    left, right = (_work(each, given) for each in (statement.left, statement.right))
    grains = {"union": left.grains + right.grains, "intersect": min(left.grains, right.grains), "except": left.grains}
    return _all([left, right])._replace(grains=grains[statement.operator])


def _coalesce(statement: Coalesce, given: _Given, **more: Any) -> _Work:
    works = [_recall(each, given, branch=index, **more) for index, each in enumerate(statement.branches)]
    # The first branch may already answer.
    return _all(works)._replace(low=works[0].low, grains=max(work.grains for work in works))


def _batch(statement: Batch, given: _Given) -> _Work:
    return _all([_work(entry.query, given, source=entry.label) for entry in statement.entries])


def _exists(statement: Exists, _: _Given, **more: Any) -> _Work:
    return _Work(({"op": "exists", "hash": _value(statement.hash), **more},), 1, 1, 0)


def _history(statement: History, given: _Given, **more: Any) -> _Work:
    if statement.hash is not None:
        first = {"op": "get", "hash": _value(statement.hash), **more}
        if statement.diff is not None:
            return _Work((first, {**first, "hash": _value(statement.diff)}), 2, 2, 0)
        walk = {"op": "get", "chain": "versions before and after", "limit": HISTORY_VERSIONS, **more}
        return _Work((first, walk), 1, 1 + HISTORY_VERSIONS, HISTORY_VERSIONS)
    assert statement.subject is not None
    assert statement.relation is not None
    asked = (("subject", statement.subject), ("relation", statement.relation))
    filters = [{"field": name, "op": "=", "value": _value(value)} for name, value in asked]
    if statement.as_of is not None:
        instant = _instant(statement.as_of if isinstance(statement.as_of, str) else None, given.now, times.end_of)
        as_of = {"field": "as_of", "op": "=", "value": _value(statement.as_of)}
        filters.append(as_of if instant is None else as_of | {"to": instant})
    step = {
        "op": "query",
        "filters": filters,
        "sort": [{"field": "created_at", "dir": "desc"}],
        "limit": HISTORY_VERSIONS,
        "superseded": True,
        **more,
    }
    return _Work((step,), 1, 1, HISTORY_VERSIONS)


def _add(_: Add, __: _Given) -> _Work:
    return _Work(({"op": "put"},), 1, 1, 0)


def _supersede(statement: Supersede, _: _Given) -> _Work:
    target = _value(statement.hash)
    return _Work(({"op": "get", "hash": target}, {"op": "supersede", "hash": target}), *_SUPERSEDE_OPS, 0)


def _revert(statement: Revert, _: _Given) -> _Work:
    target = _value(statement.hash)
    steps = (
        {"op": "get", "hash": target},
        {"op": "get", "chain": "the version before it"},
        {"op": "supersede", "chain": "the current version"},
    )
    return _Work(steps, *_REVERT_OPS, 0)


def _nothing(*_: Any, **__: Any) -> _Work:
    return _NOTHING


_WORK: Final[Mapping[type[Statement], Callable[..., _Work]]] = {
    Assemble: _assemble,
    SetOp: _set,
    Coalesce: _coalesce,
    Batch: _batch,
    Exists: _exists,
    History: _history,
    # Neither touches a grain.
    Describe: _nothing,
    DefineTemplate: _nothing,
    Add: _add,
    Supersede: _supersede,
    Revert: _revert,
}


# --- bounds and budget -----------------------------------------------------------------------------------


def _bounds(statement: Statement, grains: int) -> Json:
    most_tokens: int | None = None
    if isinstance(statement, Assemble):
        given = statement.budget
        if given is not None and given.unit == "grains":
            grains = min(grains, given.amount)
        else:
            most_tokens = budget.DEFAULT_TOKENS if given is None else given.amount
    estimate = grains * TOKENS_PER_GRAIN
    return {
        "max_grains": grains,
        "max_tokens": most_tokens,
        "estimated_tokens": estimate if most_tokens is None else min(estimate, most_tokens),
    }


def _budget(statement: Assemble) -> Json:
    given = statement.budget
    labels = [label_of(source, index) for index, source in enumerate(statement.sources)]
    ranked = [*statement.priority, *(label for label in labels if label not in statement.priority)]
    shares = budget.weights(len(ranked))
    return {
        "amount": budget.DEFAULT_TOKENS if given is None else given.amount,
        "unit": "tokens" if given is None else given.unit,
        "weights": {label: round(float(share), 4) for label, share in zip(ranked, shares, strict=True)},
    }
