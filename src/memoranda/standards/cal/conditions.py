"""Conditions as questions to the field index.

`field_index_of` and `questions` are two sides of one agreement: a condition that becomes tests is answered by the index
alone, and what the index cannot answer (order of texts, mixed lists) is left over for `passes`.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from memoranda.model.instant import EARLIEST, LATEST
from memoranda.model.selection import Compares, IsNoneOf, IsOneOf, Test
from memoranda.standards.cal import fields as table
from memoranda.standards.cal.field_index import LIST, PLACES, PRESENT, SEMANTIC, TRUTH, is_number, listed, normal
from memoranda.standards.cal.fields import Field, Kind
from memoranda.standards.cal.item import DEFAULTS, Item, value_of
from memoranda.standards.cal.language import times
from memoranda.standards.cal.language.syntax import Condition, Hash, Param, Subquery, Value

# Answered elsewhere: by the search, the index of names, or after retrieval.
SEARCH: Final = frozenset(("query", *SEMANTIC))
_ELSEWHERE: Final = SEARCH | {"hash", "contradicted", "namespace", "score"}


class Questions(msgspec.Struct, frozen=True):
    """A condition for the index, and whether what it finds must still be looked at."""

    tests: tuple[Test, ...] = ()
    is_left_over: bool = False


def questions(condition: Condition, grain_type: str | None, now: int) -> Questions:
    """What to ask the index. Conditions on query, semantic fields, hash, contradicted and score are the executor's."""
    name, operator, value = condition.field, condition.operator, condition.value
    assert not isinstance(value, Subquery | Param)
    if name in _ELSEWHERE:
        return Questions()
    field = table.fields_of(grain_type).get(name, table.DOMAIN)
    if field.kind is Kind.ANY:
        return _of_domain(name, operator, value)
    if name == "time":
        return Questions(tuple(_between("at", _span(operator, value, now))))
    if field.kind is Kind.INSTANT:
        return Questions(tuple(_between(name, _instants(operator, value, now))))
    if field.kind in (Kind.FRACTION, Kind.NUMBER):
        return Questions((Compares(name=name, operator=cast(Any, operator), number=float(cast(Any, value))),))
    if operator in ("INCLUDE", "EXCLUDE"):
        kept = "tag" if name == "tags" else name
        return Questions(_membership(kept, operator, value))
    return Questions((_equality(field, operator, value),))


def _equality(field: Field, operator: str, value: Value) -> Test:
    values = value if isinstance(value, tuple) else (value,)
    texts = tuple(text for each in values for text in normal(field, _plain(each)))
    default = DEFAULTS.get(field.name)
    place = PLACES.get(field.name, field.name)
    if operator == "!=":
        return IsNoneOf(name=place, texts=texts, or_missing=default is not None and default not in texts)
    return IsOneOf(name=place, texts=texts, or_missing=default in texts)


def _membership(name: str, operator: str, value: Value) -> tuple[Test, ...]:
    values = value if isinstance(value, tuple) else (value,)
    if operator == "EXCLUDE":
        # Nothing is in a list that is missing.
        texts = tuple(text for each in values for text in listed(_plain(each)))
        return (IsNoneOf(name=name, texts=texts, or_missing=True),)
    return tuple(IsOneOf(name=name, texts=tuple(listed(_plain(each)))) for each in values)


def _plain(value: Value) -> Any:
    return value.text if isinstance(value, Hash) else value


def _span(operator: str, value: Value, now: int) -> tuple[float, float]:
    if operator == "BETWEEN":
        low, high = cast("tuple[Value, Value]", value)
        return _edge(low, now, last=False), _edge(high, now, last=True)
    start = times.start_of(cast(str, value), now)
    return (float("inf") if start is None else start), float("inf")


def _instants(operator: str, value: Value, now: int) -> tuple[float, float]:
    if operator == "BETWEEN":
        return _span(operator, value, now)
    if isinstance(value, str):
        span = times.span_of(value)
        return span if span is not None else (float("inf"), float("-inf"))
    exact = times.epoch_ms(cast(float, value))
    return exact, exact


def _edge(value: Value, now: int, *, last: bool) -> float:
    if isinstance(value, str):
        found = times.end_of(value, now) if last else times.start_of(value, now)
        return float("nan") if found is None else found
    return times.epoch_ms(cast(float, value))


def _between(name: str, span: tuple[float, float]) -> Iterator[Test]:
    low, high = span
    if not low <= high:
        # Nothing lies between: no number is both.
        low, high = LATEST + 1, EARLIEST - 1
    yield Compares(name=name, operator=">=", number=low)
    if high != float("inf"):
        yield Compares(name=name, operator="<=", number=high)


def _of_domain(name: str, operator: str, value: Value) -> Questions:
    present = IsOneOf(name=PRESENT, texts=(name,))
    values = [_plain(each) for each in (value if isinstance(value, tuple) else (value,))]
    if operator in ("=", "!=") and len(values) == 1 and not isinstance(value, tuple):
        return Questions((_domain_equality(name, operator, values[0]),))
    if operator == "IN" and all(isinstance(each, str) for each in values):
        return Questions((IsOneOf(name=name, texts=tuple(values)),))
    if operator == "INCLUDE" and values and all(isinstance(each, str) and each for each in values):
        return Questions(tuple(IsOneOf(name=name + LIST, texts=(each,)) for each in values))
    if operator == "BETWEEN" and all(map(is_number, values)):
        return Questions(tuple(_between(name, (float(values[0]), float(values[1])))))
    if operator in (">=", "<=", ">", "<") and is_number(values[0]):
        return Questions((Compares(name=name, operator=cast(Any, operator), number=float(values[0])),))
    return Questions((present,), is_left_over=True)


def _domain_equality(name: str, operator: str, value: Any) -> Test:
    # A value of another kind is neither equal nor unequal: it does not match.
    if is_number(value):
        return Compares(name=name, operator=cast(Any, operator), number=float(value))
    if isinstance(value, bool):
        name, value = name + TRUTH, "true" if value else "false"
    if operator == "!=":
        return IsNoneOf(name=name, texts=(value,))
    return IsOneOf(name=name, texts=(value,))


def passes(condition: Condition, item: Item) -> bool:
    """Whether a grain meets a condition that the index could not answer: on a domain field, or on the score."""
    assert not isinstance(condition.value, Subquery | Param)
    if condition.field == "score":
        return _compare(condition.operator, item.score, condition.value)
    held = value_of(item, condition.field)
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    wanted = [_plain(each) for each in values]
    if condition.operator == "INCLUDE":
        return isinstance(held, list) and all(_holds(held, each) for each in wanted)
    if condition.operator == "EXCLUDE":
        return isinstance(held, list) and not any(_holds(held, each) for each in wanted)
    if condition.operator == "IN":
        return any(_compare("=", held, each) for each in wanted)
    if condition.operator == "BETWEEN":
        return _compare(">=", held, wanted[0]) and _compare("<=", held, wanted[1])
    return not isinstance(condition.value, tuple) and _compare(condition.operator, held, wanted[0])


def _holds(held: list[Any], wanted: Any) -> bool:
    return any(_compare("=", each, wanted) for each in held)


def _compare(operator: str, held: Any, wanted: Any) -> bool:
    if not (isinstance(held, str) and isinstance(wanted, str)) and not (is_number(held) and is_number(wanted)):
        is_truth = isinstance(held, bool) and isinstance(wanted, bool)
        return is_truth and operator in ("=", "!=") and (held == wanted) == (operator == "=")
    return bool(_COMPARISONS[operator](held, wanted))


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": operators.eq,
    "!=": operators.ne,
    ">=": operators.ge,
    "<=": operators.le,
    ">": operators.gt,
    "<": operators.lt,
}
