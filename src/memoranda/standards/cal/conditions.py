"""Conditions as tests on the field index.

`field_index_of` writes the index and `build_index_query` reads it, so both must agree on names and normal forms. A
condition that becomes tests is decided by the index alone. Conditions that the index cannot decide (order of texts,
lists of mixed values) are checked on each grain by `matches`.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from memoranda.model.instant import EARLIEST, LATEST
from memoranda.model.selection import Compares, IsNoneOf, IsOneOf, Test
from memoranda.standards.cal import fields as table
from memoranda.standards.cal.fields import Field, FieldKind
from memoranda.standards.cal.item import (
    BOOLEAN_SUFFIX,
    DEFAULTS,
    DOMAIN_FIELD_NAMES,
    INDEX_NAMES,
    LIST_SUFFIX,
    SEMANTIC,
    ResultItem,
    index_texts,
    is_number,
    non_empty_texts,
    value_of,
)
from memoranda.standards.cal.language import times
from memoranda.standards.cal.language.syntax import Hash, Param, Subquery, Value, WhereCondition

# The value of a bound condition, or a member of its list, with a hash as its text.
PlainValue: TypeAlias = str | bool | int | float
# The operators of a test on a number.
Comparison: TypeAlias = Literal["=", "!=", ">=", "<=", ">", "<"]
# Fields of conditions that need a search.
SEARCH: Final = frozenset(("query", *SEMANTIC))
# Fields that the field index does not answer: the executor searches, looks up the grain, or checks after retrieval.
_NOT_INDEXED: Final = SEARCH | {"hash", "contradicted", "namespace", "score"}


class IndexQuery(msgspec.Struct, frozen=True):
    """The tests of a condition, and a flag if the grains they find must still be checked by `matches`."""

    tests: tuple[Test, ...] = ()
    needs_check: bool = False


def build_index_query(condition: WhereCondition, grain_type: str | None, now: int) -> IndexQuery:
    """Return the tests of the field index that a condition stands for.

    Conditions on query, semantic fields, hash, contradicted, namespace and score have none: the executor answers
    them.
    """
    name, operator, value = condition.field, condition.operator, condition.value
    assert not isinstance(value, Subquery | Param)
    if name in _NOT_INDEXED:
        return IndexQuery()
    field = table.fields_of(grain_type).get(name, table.DOMAIN_FIELD)
    if field.kind is FieldKind.ANY:
        return _domain_query(name, operator, value)
    if name == "time":
        return IndexQuery(tuple(_range_tests("at", _time_span(operator, value, now))))
    if field.kind is FieldKind.INSTANT:
        return IndexQuery(tuple(_range_tests(name, _instant_span(operator, value, now))))
    if field.kind in (FieldKind.FRACTION, FieldKind.NUMBER):
        return IndexQuery((_comparison(name, operator, float(cast("float", value))),))
    if operator in ("INCLUDE", "EXCLUDE"):
        index_name = "tag" if name == "tags" else name
        return IndexQuery(_membership_tests(index_name, operator, value))
    return IndexQuery((_equality_test(field, operator, value),))


def _equality_test(field: Field, operator: str, value: Value) -> Test:
    """Return the test of `=`, `!=` or IN on a text field, with its default value for missing ones."""
    values = value if isinstance(value, tuple) else (value,)
    texts = tuple(text for item in values for text in index_texts(field, _plain_value(item)))
    default = DEFAULTS.get(field.name)
    index_name = INDEX_NAMES.get(field.name, field.name)
    if operator == "!=":
        return IsNoneOf(
            name=index_name, texts=texts, or_missing=default is not None and default not in texts
        )
    return IsOneOf(name=index_name, texts=texts, or_missing=default in texts)


def _membership_tests(name: str, operator: str, value: Value) -> tuple[Test, ...]:
    """Return the tests of INCLUDE or EXCLUDE on a list."""
    values = value if isinstance(value, tuple) else (value,)
    if operator == "EXCLUDE":
        # A missing list has no members, so it passes.
        texts = tuple(text for item in values for text in non_empty_texts(_plain_value(item)))
        return (IsNoneOf(name=name, texts=texts, or_missing=True),)
    return tuple(
        IsOneOf(name=name, texts=tuple(non_empty_texts(_plain_value(item)))) for item in values
    )


def _plain_value(value: Value) -> PlainValue:
    """Return the text of a hash, and any other value unchanged."""
    return value.text if isinstance(value, Hash) else cast("PlainValue", value)


def _time_span(operator: str, value: Value, now: int) -> tuple[float, float]:
    """Return first and last millisecond of a condition on `time`; without an end, infinity."""
    if operator == "BETWEEN":
        low, high = cast("tuple[Value, Value]", value)
        return _range_end(low, now, is_last=False), _range_end(high, now, is_last=True)
    start = times.first_ms(cast(str, value), now)
    return (float("inf") if start is None else start), float("inf")


def _instant_span(operator: str, value: Value, now: int) -> tuple[float, float]:
    """Return first and last millisecond of a condition on a date field."""
    if operator == "BETWEEN":
        return _time_span(operator, value, now)
    if isinstance(value, str):
        span = times.parse_span(value)
        return span if span is not None else (float("inf"), float("-inf"))
    exact = times.epoch_ms(cast(float, value))
    return exact, exact


def _range_end(value: Value, now: int, *, is_last: bool) -> float:
    """Return one end of BETWEEN in milliseconds; NaN if the text is no time expression."""
    if isinstance(value, str):
        instant = times.last_ms(value, now) if is_last else times.first_ms(value, now)
        return float("nan") if instant is None else instant
    return times.epoch_ms(cast(float, value))


def _range_tests(name: str, span: tuple[float, float]) -> Iterator[Test]:
    """Yield the tests that a number lies in the span."""
    low, high = span
    if not low <= high:
        # An empty span, or NaN: no number passes both tests.
        low, high = LATEST + 1, EARLIEST - 1
    yield Compares(name=name, operator=">=", number=low)
    if high != float("inf"):
        yield Compares(name=name, operator="<=", number=high)


def _domain_query(name: str, operator: str, value: Value) -> IndexQuery:
    """Return the tests of a condition on a domain field, whose values may have any type."""
    present = IsOneOf(name=DOMAIN_FIELD_NAMES, texts=(name,))
    operands = value if isinstance(value, tuple) else (value,)
    values = [_plain_value(operand) for operand in operands]
    if operator in ("=", "!=") and len(values) == 1 and not isinstance(value, tuple):
        return IndexQuery((_domain_equality_test(name, operator, values[0]),))
    texts = [text for text in values if isinstance(text, str)]
    numbers = [float(number) for number in values if is_number(number)]
    if operator == "IN" and len(texts) == len(values):
        return IndexQuery((IsOneOf(name=name, texts=tuple(texts)),))
    if operator == "INCLUDE" and values and len(texts) == len(values) and all(texts):
        return IndexQuery(tuple(IsOneOf(name=name + LIST_SUFFIX, texts=(text,)) for text in texts))
    if operator == "BETWEEN" and len(numbers) == len(values):
        return IndexQuery(tuple(_range_tests(name, (numbers[0], numbers[1]))))
    if operator in (">=", "<=", ">", "<") and is_number(values[0]):
        return IndexQuery((_comparison(name, operator, float(values[0])),))
    return IndexQuery((present,), needs_check=True)


def _comparison(name: str, operator: str, number: float) -> Test:
    """Return the test that compares a number of the index."""
    return Compares(name=name, operator=cast(Comparison, operator), number=number)


def _domain_equality_test(name: str, operator: str, value: PlainValue) -> Test:
    """Return the test of `=` or `!=` on a domain field."""
    # A value of another type is neither equal nor unequal, so it never matches.
    if is_number(value):
        return _comparison(name, operator, float(value))
    text = cast("str", value)
    if isinstance(value, bool):
        name, text = name + BOOLEAN_SUFFIX, "true" if value else "false"
    if operator == "!=":
        return IsNoneOf(name=name, texts=(text,))
    return IsOneOf(name=name, texts=(text,))


def matches(condition: WhereCondition, item: ResultItem) -> bool:
    """Return True if a grain meets a condition that the index could not decide.

    These are conditions on the score and some on domain fields.
    """
    assert not isinstance(condition.value, Subquery | Param)
    if condition.field == "score":
        return _compare(condition.operator, item.score, condition.value)
    actual = value_of(item, condition.field)
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    expected_values = [_plain_value(expected) for expected in values]
    if condition.operator == "INCLUDE":
        return isinstance(actual, list) and all(
            _contains(actual, expected) for expected in expected_values
        )
    if condition.operator == "EXCLUDE":
        return isinstance(actual, list) and not any(
            _contains(actual, expected) for expected in expected_values
        )
    if condition.operator == "IN":
        return any(_compare("=", actual, expected) for expected in expected_values)
    if condition.operator == "BETWEEN":
        return _compare(">=", actual, expected_values[0]) and _compare(
            "<=", actual, expected_values[1]
        )
    return not isinstance(condition.value, tuple) and _compare(
        condition.operator, actual, expected_values[0]
    )


def _contains(members: list[object], expected: object) -> bool:
    """Return True if a member of the list equals the value."""
    return any(_compare("=", member, expected) for member in members)


def _compare(operator: str, actual: object, expected: object) -> bool:
    """Compare two texts, two numbers or two booleans; values of different types never match."""
    are_texts = isinstance(actual, str) and isinstance(expected, str)
    if not are_texts and not (is_number(actual) and is_number(expected)):
        are_booleans = isinstance(actual, bool) and isinstance(expected, bool)
        return (
            are_booleans and operator in ("=", "!=") and (actual == expected) == (operator == "=")
        )
    return bool(_COMPARISONS[operator](actual, expected))


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], object]]] = {
    "=": operators.eq,
    "!=": operators.ne,
    ">=": operators.ge,
    "<=": operators.le,
    ">": operators.gt,
    "<": operators.lt,
}
