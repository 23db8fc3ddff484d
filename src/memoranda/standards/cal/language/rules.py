"""What a value may be where it stands (sections 6, 7, appendix E). The parser asks, and the binding of parameters.

Each rule answers with the Problem it found, or None.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from memoranda.standards.cal import codes, fields, limits
from memoranda.standards.cal.fields import Field, Kind
from memoranda.standards.cal.language import suggest, times
from memoranda.standards.cal.language.syntax import Count, Hash, Param, Recall, Value


class Problem(NamedTuple):
    """A broken rule: the code of CAL, a sentence, and what to do about it."""

    code: str
    message: str
    suggestion: str | None = None
    reason: str | None = None


_EXPECTED: Final = {
    Kind.STRING: 'a string in quotes, such as "alice"',
    Kind.ADDRESS: "a string or a hash",
    Kind.WORD: "a string in quotes",
    Kind.FRACTION: "a number from 0 to 1",
    Kind.NUMBER: "a number",
    Kind.BOOLEAN: "true or false",
    Kind.ARRAY: 'an array of strings, such as ["a", "b"]',
    Kind.TYPE: 'a grain type in quotes, such as "belief"',
    Kind.SINCE: 'a time in quotes, such as "last 7 days" or "2026-03-01"',
    Kind.INSTANT: 'a date or time in quotes, such as "2026-03-15", or an epoch',
    Kind.HASH: "a hash, such as sha256:a1b2c3d4",
}
_NUMBERS: Final = (Kind.NUMBER, Kind.INSTANT)


def value_problem(field: Field, operator: str, value: Value) -> Problem | None:
    """Whether the value fits the field under this operator; the operator itself is one of the field's."""
    if operator in ("INCLUDE", "EXCLUDE"):
        return _array_problem(field, value)
    if operator in ("IN", "BETWEEN"):
        assert isinstance(value, tuple)
        check = _end_problem if operator == "BETWEEN" else scalar_problem
        return next((problem for each in value if (problem := check(field, each))), None)
    return scalar_problem(field, value)


def scalar_problem(field: Field, value: Value) -> Problem | None:
    """Whether one value fits the field."""
    kind = field.kind
    if type(value) is str:
        return None if kind is Kind.ANY else _string_problem(field, value)
    if type(value) is float or type(value) is int:
        fits = 0 <= value <= 1 if kind is Kind.FRACTION else kind in _NUMBERS
    elif type(value) is bool:
        fits = kind is Kind.BOOLEAN
    elif type(value) is Hash:
        fits = kind is Kind.HASH or kind is Kind.ADDRESS
    else:
        fits = type(value) is Param
    return None if fits or kind is Kind.ANY else mismatch(field)


def _string_problem(field: Field, text: str) -> Problem | None:
    kind = field.kind
    if kind is Kind.STRING or kind is Kind.ADDRESS:
        return None
    if kind is Kind.WORD:
        return None if text in field.words else _unknown_word(field, text)
    if kind is Kind.TYPE:
        return None if text in fields.SINGULARS else unknown_type(text, plural=False)
    if kind is Kind.HASH:
        return Problem("CAL-E015", f'"{text[:80]}" is not a hash.', "Write the hash without quotes: sha256:a1b2c3d4…")
    if kind is Kind.SINCE:
        return time_problem(text)
    if kind is Kind.INSTANT and times.span_of(text) is not None:
        return None
    return mismatch(field)


def _end_problem(field: Field, value: Value) -> Problem | None:
    """One end of BETWEEN: any time expression, or an epoch."""
    if field.kind is Kind.ANY or type(value) is Param:
        return None
    if type(value) is str:
        return time_problem(value)
    return None if isinstance(value, int | float) and type(value) is not bool else mismatch(field)


def _array_problem(field: Field, value: Value) -> Problem | None:
    if type(value) is Param:
        return None
    if type(value) is not tuple:
        return mismatch(field, _EXPECTED[Kind.ARRAY])
    if field.kind is not Kind.ANY and any(type(each) not in (str, Param) for each in value):
        return mismatch(field)
    return None


def assignment_problem(field: Field, value: Value) -> Problem | None:
    """Whether SET may give the field this value."""
    if field.kind is Kind.ARRAY:
        return _array_problem(field, value)
    if field.name == "depends_on" and type(value) is tuple:
        return next((problem for each in value if (problem := scalar_problem(field, each))), None)
    return scalar_problem(field, value)


def time_problem(text: str) -> Problem | None:
    """Whether the text is a time expression."""
    if times.is_expression(text):
        return None
    return Problem(
        "CAL-E020",
        f'"{text[:80]}" is not a time.',
        'Write "last 7 days", "3 hours ago", "yesterday", "this week", "2026-03-01" or an RFC 3339 instant.',
    )


def mismatch(field: Field, expected: str | None = None) -> Problem:
    """The value is of another kind than the field."""
    return Problem(
        "CAL-E020",
        f"{field.name} cannot be compared with this value.",
        f"It takes {expected or _EXPECTED[field.kind]}.",
    )


def operator_problem(field: Field, name: str, operator: str) -> Problem:
    """The field does not have this operator."""
    known = [each for each in "= != >= <= > < IN BETWEEN INCLUDE EXCLUDE IS".split() if each in field.operators]
    return Problem("CAL-E020", f"{name} does not take {operator}.", f"It takes {', '.join(known)}.")


def _unknown_word(field: Field, text: str) -> Problem:
    near = suggest.did_you_mean(text, field.words)
    return Problem(field.code, f'"{text[:80]}" is not a {field.name}.', near or f"Use {', '.join(field.words)}.")


def unknown_type(word: str, *, plural: bool) -> Problem:
    """Not a grain type."""
    return Problem("CAL-E003", f'Unknown grain type "{word[:80]}".', suggest.grain_type(word, plural=plural))


def unknown_field(name: str, grain_type: str | None, *, strict: bool, extra: frozenset[str] = frozenset()) -> Problem:
    """A name that is no field here: of another type, or of none."""
    owners = fields.TYPES_WITH.get(name, ())
    if not owners and extra and name in fields.PROJECTED_ANYWHERE:
        owners = tuple(each for each, names in fields.PROJECTED.items() if name in names)
    known = fields.fields_of(grain_type, strict=strict)
    if not owners:
        return Problem("CAL-E004", f'Unknown field "{name[:80]}".', suggest.field_name(name, (*known, *sorted(extra))))
    plurals = " or ".join(fields.PLURAL_OF[owner] for owner in owners)
    if grain_type is None:
        return Problem(
            "CAL-E061", f"{name} can be asked only of {plurals}.", f"Declare the type: RECALL {plurals.split()[0]}."
        )
    return Problem(
        "CAL-E060",
        f"{fields.PLURAL_OF[grain_type].capitalize()} have no {name}; it is a field of {plurals}.",
        f"The fields here are {', '.join(known)}.",
        codes.FIELD_NOT_ON_TYPE,
    )


def count_problem(count: Count, word: str) -> Problem | None:
    """Whether LIMIT or RECENT stays under the maximum."""
    if type(count) is int and count > limits.LIMIT_MAX:
        return Problem(
            "CAL-E010",
            f"{word} is at most {limits.LIMIT_MAX}.",
            "Page through with OFFSET or a cursor.",
        )
    return None


def extractor_problem(recall_type: str | None, type_asked: Value | None) -> Problem | None:
    """SUBJECTS and OBJECTS need beliefs."""
    if recall_type == "belief" or type_asked == "belief" or type(type_asked) is Param:
        return None
    return Problem(
        "CAL-E022", "SUBJECTS and OBJECTS work on beliefs only.", 'Write RECALL beliefs, or WHERE type = "belief".'
    )


def type_asked(recall: Recall) -> Value | None:
    """The value of `type = …` in WHERE, if any; a parameter only if no name is given."""
    asked = [each.value for each in recall.where if each.field == "type"]
    found = next((value for value in asked if type(value) is str), asked[0] if asked else None)
    assert isinstance(found, str | Param | None)
    return found
