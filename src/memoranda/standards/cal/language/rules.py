"""Rules about values: which value fits which field and operator (sections 6, 7, appendix E).

The parser and the binding of parameters both apply them. Each `check_…` function returns the RuleViolation, or None.

A check returns a RuleViolation instead of raising, because only the caller knows the position of the value: the parser
has a token, the binding of parameters has a name. Codes and wordings are those of the specification. Values that are
still parameters pass every check here and are checked again when they are bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from memoranda.standards.cal import codes, fields, limits
from memoranda.standards.cal.fields import Field, FieldKind
from memoranda.standards.cal.language import suggest, times
from memoranda.standards.cal.language.syntax import Count, Hash, Param, Recall, Value


class RuleViolation(NamedTuple):
    """A broken rule: the CAL error code, a message, and a suggestion for the author of the query."""

    code: str
    message: str
    suggestion: str | None = None
    reason: str | None = None


_EXPECTED: Final = {
    FieldKind.STRING: 'a string in quotes, such as "alice"',
    FieldKind.ADDRESS: "a string or a hash",
    FieldKind.WORD: "a string in quotes",
    FieldKind.FRACTION: "a number from 0 to 1",
    FieldKind.NUMBER: "a number",
    FieldKind.BOOLEAN: "true or false",
    FieldKind.ARRAY: 'an array of strings, such as ["a", "b"]',
    FieldKind.TYPE: 'a grain type in quotes, such as "belief"',
    FieldKind.SINCE: 'a time in quotes, such as "last 7 days" or "2026-03-01"',
    FieldKind.INSTANT: 'a date or time in quotes, such as "2026-03-15", or an epoch',
    FieldKind.HASH: "a hash, such as sha256:a1b2c3d4",
}
_NUMBERS: Final = (FieldKind.NUMBER, FieldKind.INSTANT)
# In the order in which messages list them.
_OPERATORS: Final = "= != >= <= > < IN BETWEEN INCLUDE EXCLUDE IS".split()


def check_value(field: Field, operator: str, value: Value) -> RuleViolation | None:
    """Return the problem of a value under an operator, or None. The field is known to allow the operator."""
    if operator in ("INCLUDE", "EXCLUDE"):
        return _check_array(field, value)
    if operator in ("IN", "BETWEEN"):
        assert isinstance(value, tuple)
        return _first_problem(
            _check_range_end if operator == "BETWEEN" else check_scalar, field, value
        )
    return check_scalar(field, value)


def _first_problem(
    check: Callable[[Field, Value], RuleViolation | None], field: Field, values: tuple[Value, ...]
) -> RuleViolation | None:
    """Return the problem of the first value that has one, or None."""
    for value in values:
        problem = check(field, value)
        if problem is not None:
            return problem
    return None


def check_scalar(field: Field, value: Value) -> RuleViolation | None:
    """Return the problem of a single value, or None if it fits the field."""
    kind = field.kind
    if type(value) is str:
        return None if kind is FieldKind.ANY else _check_string(field, value)
    if type(value) is float or type(value) is int:
        fits = 0 <= value <= 1 if kind is FieldKind.FRACTION else kind in _NUMBERS
    elif type(value) is bool:
        fits = kind is FieldKind.BOOLEAN
    elif type(value) is Hash:
        fits = kind is FieldKind.HASH or kind is FieldKind.ADDRESS
    else:
        fits = type(value) is Param
    return None if fits or kind is FieldKind.ANY else mismatch_problem(field)


def _check_string(field: Field, text: str) -> RuleViolation | None:
    """Return the problem of a string, or None if it fits the field."""
    kind = field.kind
    if kind is FieldKind.STRING or kind is FieldKind.ADDRESS:
        return None
    if kind is FieldKind.WORD:
        return None if text in field.words else _unknown_word_problem(field, text)
    if kind is FieldKind.TYPE:
        return None if text in fields.SINGULARS else unknown_type_problem(text, plural=False)
    if kind is FieldKind.HASH:
        return RuleViolation(
            "CAL-E015",
            f'"{text[:80]}" is not a hash.',
            "Write the hash without quotes: sha256:a1b2c3d4…",
        )
    if kind is FieldKind.SINCE:
        return check_time(text)
    if kind is FieldKind.INSTANT and times.parse_span(text) is not None:
        return None
    return mismatch_problem(field)


def _check_range_end(field: Field, value: Value) -> RuleViolation | None:
    """Return the problem of one operand of BETWEEN: any time expression, an epoch or a number fits."""
    if field.kind is FieldKind.ANY or type(value) is Param:
        return None
    if type(value) is str:
        return check_time(value)
    return (
        None
        if isinstance(value, int | float) and type(value) is not bool
        else mismatch_problem(field)
    )


def _check_array(field: Field, value: Value) -> RuleViolation | None:
    """Return the problem of an array of strings, or None."""
    if type(value) is Param:
        return None
    if type(value) is not tuple:
        return mismatch_problem(field, _EXPECTED[FieldKind.ARRAY])
    if field.kind is not FieldKind.ANY and any(
        type(member) not in (str, Param) for member in value
    ):
        return mismatch_problem(field)
    return None


def check_assignment(field: Field, value: Value) -> RuleViolation | None:
    """Return the problem of a value that SET assigns to the field, or None."""
    if field.kind is FieldKind.ARRAY:
        return _check_array(field, value)
    if field.name == "depends_on" and type(value) is tuple:
        return _first_problem(check_scalar, field, value)
    return check_scalar(field, value)


def check_time(text: str) -> RuleViolation | None:
    """Return the problem of a text that is no time expression, or None."""
    if times.is_time_expression(text):
        return None
    return RuleViolation(
        "CAL-E020",
        f'"{text[:80]}" is not a time.',
        'Write "last 7 days", "3 hours ago", "yesterday", "this week", "2026-03-01" or an RFC 3339 instant.',
    )


def mismatch_problem(field: Field, expected: str | None = None) -> RuleViolation:
    """Return the problem that the value has another kind than the field."""
    return RuleViolation(
        "CAL-E020",
        f"{field.name} cannot be compared with this value.",
        f"It takes {expected or _EXPECTED[field.kind]}.",
    )


def operator_problem(field: Field, name: str, operator: str) -> RuleViolation:
    """Return the problem that the field does not have this operator."""
    operators = [candidate for candidate in _OPERATORS if candidate in field.operators]
    return RuleViolation(
        "CAL-E020", f"{name} does not take {operator}.", f"It takes {', '.join(operators)}."
    )


def _unknown_word_problem(field: Field, text: str) -> RuleViolation:
    """Return the problem that the text is not among the closed values of the field."""
    hint = suggest.did_you_mean(text, field.words)
    return RuleViolation(
        field.code,
        f'"{text[:80]}" is not a {field.name}.',
        hint or f"Use {', '.join(field.words)}.",
    )


def unknown_type_problem(word: str, *, plural: bool) -> RuleViolation:
    """Return the problem that a word is no grain type."""
    return RuleViolation(
        "CAL-E003",
        f'Unknown grain type "{word[:80]}".',
        suggest.suggest_grain_type(word, plural=plural),
    )


def unknown_field_problem(
    name: str, grain_type: str | None, *, strict: bool, extra: frozenset[str] = frozenset()
) -> RuleViolation:
    """Return the problem that a name is no field of the type, or of any type."""
    owners = fields.TYPES_WITH.get(name, ())
    if not owners and extra and name in fields.PROJECTED_ANYWHERE:
        owners = tuple(
            owner_type for owner_type, names in fields.PROJECTED.items() if name in names
        )
    known_fields = fields.fields_of(grain_type, strict=strict)
    if not owners:
        return RuleViolation(
            "CAL-E004",
            f'Unknown field "{name[:80]}".',
            suggest.suggest_field(name, (*known_fields, *sorted(extra))),
        )
    plurals = " or ".join(fields.PLURAL_OF[owner] for owner in owners)
    if grain_type is None:
        return RuleViolation(
            "CAL-E061",
            f"{name} is a field of {plurals} only.",
            f"Declare the type: RECALL {plurals.split()[0]}.",
        )
    return RuleViolation(
        "CAL-E060",
        f"{fields.PLURAL_OF[grain_type].capitalize()} have no {name}; it is a field of {plurals}.",
        f"The fields here are {', '.join(known_fields)}.",
        codes.FIELD_NOT_ON_TYPE,
    )


def check_count(count: Count, word: str) -> RuleViolation | None:
    """Return the problem of a count of LIMIT or RECENT above the maximum, or None."""
    if type(count) is int and count > limits.LIMIT_MAX:
        return RuleViolation(
            "CAL-E010",
            f"{word} is at most {limits.LIMIT_MAX}.",
            "Page through with OFFSET or a cursor.",
        )
    return None


def check_extractor(recall_type: str | None, declared_type: Value | None) -> RuleViolation | None:
    """Return a problem if SUBJECTS or OBJECTS is used on grains other than beliefs; else None."""
    if recall_type == "belief" or declared_type == "belief" or type(declared_type) is Param:
        return None
    return RuleViolation(
        "CAL-E022",
        "SUBJECTS and OBJECTS work on beliefs only.",
        'Write RECALL beliefs, or WHERE type = "belief".',
    )


def type_in_where(recall: Recall) -> Value | None:
    """Return the value of `type = …` in WHERE, or None; a parameter only if there is no literal."""
    values = [condition.value for condition in recall.where if condition.field == "type"]
    literals = [value for value in values if type(value) is str]
    candidates = literals or values
    declared_type = candidates[0] if candidates else None
    assert isinstance(declared_type, str | Param | None)
    return declared_type
