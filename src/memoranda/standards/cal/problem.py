"""Errors as documents (section 22): code, message and suggestion, the place, and what could have stood there.

Nothing here fails: an error that is hard to describe is described by less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from memoranda.errors import QueryError
from memoranda.standards.cal import fields
from memoranda.standards.cal.language import suggest, template, words

# The switch of the whole language. The registry begins at E001, so ours cannot collide with one of its codes.
DISABLED: Final = "CAL-E000"
DEFAULT_STATUS: Final = 400


def _full_codes(numbers: str) -> tuple[str, ...]:
    return tuple(f"CAL-E{number}" for number in numbers.split())


_STATUS: Final[Mapping[str, int]] = {
    code: status
    for status, numbers in {
        403: "044 045",
        404: "046 085",
        409: "040 041 042 088",
        410: "081",
        429: "043 052 089",
        499: "082",
        500: "080",
        501: "079",
        502: "076",
        503: "000",
        504: "031 075",
    }.items()
    for code in _full_codes(numbers)
}


def http_status(cal_code: str) -> int:
    """The HTTP status of a code; what the writer of a query can mend is 400, and so is a code nobody knows."""
    return _STATUS.get(cal_code, DEFAULT_STATUS)


def error_envelope(error: QueryError) -> dict[str, Any]:
    """The error as section 22 prints it; members that are not known are left out, but never the suggestion."""
    example = _find_example(error)
    document: dict[str, Any] = {
        "code": error.cal_code,
        "message": error.message,
        "position": {"start": error.start, "end": error.end, "line": error.line, "col": error.column},
        "suggestion": error.suggestion or _default_suggestion(error.cal_code, example),
    }
    expected = expected_of(error)
    optional = {
        "reason": error.reason,
        "oms_error": error.oms_error,
        "expected": list(expected),
        "example": example,
        "valid_values": list(_valid_values(error.cal_code, expected)),
    }
    return {"error": document | {name: value for name, value in optional.items() if value}}


# --- what was expected -----------------------------------------------------------------------------------

_UNEXPECTED: Final = "Unexpected "
_EXPECTED: Final = "; expected "
_ENDS_PREFIX: Final = "The query ends where "
_ENDS_TAIL: Final = " is expected."


def expected_of(error: QueryError) -> tuple[str, ...]:
    """What could have stood there, as `Cursor.unexpected` lists it in its message; empty if it does not."""
    message = error.message
    if error.cal_code != "CAL-E002":
        return ()
    if message.startswith(_UNEXPECTED) and _EXPECTED in message:
        # What was found comes first and may hold anything; the list after it is ours.
        alternatives = message.rpartition(_EXPECTED)[2].removesuffix(".")
    elif message.startswith(_ENDS_PREFIX) and message.endswith(_ENDS_TAIL):
        alternatives = message.removeprefix(_ENDS_PREFIX).removesuffix(_ENDS_TAIL)
    else:
        return ()
    most, _, last = alternatives.rpartition(" or ")
    return (*most.split(", "), last) if most else (last,)


# --- what is valid ---------------------------------------------------------------------------------------

_VALID_VALUES: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "CAL-E003": fields.SINGULARS,
        # Which others there are depends on the type; these can be asked of every one.
        "CAL-E004": tuple(fields.COMMON),
        # Which others depends on the statement; these can be set in every one.
        "CAL-E017": tuple(name for name in fields.SETTABLE if name in fields.EVOLVABLE),
        "CAL-E042": ("belief",),
        "CAL-E050": fields.ADD_REQUIRED,
        "CAL-E051": tuple(fields.ADDABLE),
        "CAL-E077": (*words.STREAM_OPTIONS, "chunk_size"),
        "CAL-E086": tuple(name for name in words.PRESETS if name != "data"),
        "CAL-E087": tuple(name for name in words.PRESETS if name != "data"),
        "CAL-E090": tuple(sorted(template.VARIABLES)),
        "CAL-E100": ("CAL/1",),
        **{
            field.code: field.words
            for grain_type in (None, "action", "goal", "consent")
            for field in fields.fields_of(grain_type).values()
            if field.code
        },
    }
)


def _valid_values(code: str, expected: tuple[str, ...]) -> Sequence[str]:
    if code in _VALID_VALUES:
        return _VALID_VALUES[code]
    # A description such as "a string in quotes" has endless values.
    is_closed = bool(expected) and all(" " not in word and word.strip("()[]{},:;|/=<>!") for word in expected)
    return expected if is_closed else ()


# --- examples --------------------------------------------------------------------------------------------

_HASH: Final = "sha256:a1b2c3d4"
_EXAMPLE_PREFIX: Final = "Example: "
# Shapes that are not one whole query.
_COMPLETE_EXAMPLES: Final = {
    "HISTORY": 'HISTORY WHERE subject = "alice" AND relation = "prefers"',
    "DESCRIBE": "DESCRIBE grain_types",
    "LET": f"{suggest.EXAMPLES['LET']} RECALL events WHERE subject IN ($people)",
}
_EXAMPLES_BY_HINT: Final[Mapping[str, str]] = {
    f"{_EXAMPLE_PREFIX}{shape}": _COMPLETE_EXAMPLES.get(word, shape.replace("sha256:…", _HASH))
    for word, shape in suggest.EXAMPLES.items()
}
_TEMPLATE: Final = suggest.EXAMPLES["DEFINE"]
_ASSEMBLE: Final = "ASSEMBLE FROM known: (RECALL beliefs), said: (RECALL events)"
_EXAMPLES_BY_CODE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "CAL-E003": 'RECALL beliefs WHERE subject = "alice"',
        "CAL-E004": 'RECALL beliefs WHERE subject = "alice" AND confidence >= 0.8',
        "CAL-E005": 'RECALL beliefs ABOUT "alice"',
        "CAL-E006": "RECALL beliefs WHERE confidence >= 0.75 | LIMIT 5",
        "CAL-E007": "RECALL events WHERE subject IN (RECALL beliefs | SUBJECTS)",
        "CAL-E008": "RECALL beliefs ABOUT $who",
        "CAL-E009": "RECALL MY beliefs",
        "CAL-E010": "RECALL beliefs | LIMIT 1000",
        "CAL-E011": "RECALL beliefs WHERE subject IN ($people)",
        "CAL-E012": "RECALL beliefs | ORDER BY time DESC | LIMIT 10 | SELECT subject, object",
        "CAL-E013": suggest.EXAMPLES["("],
        "CAL-E014": "RECALL beliefs",
        "CAL-E015": f"EXISTS {_HASH}",
        **dict.fromkeys(_full_codes("016 017 018 050 051"), suggest.EXAMPLES["ADD"]),
        "CAL-E019": _EXAMPLES_BY_HINT[f"{_EXAMPLE_PREFIX}{suggest.EXAMPLES['SUPERSEDE']}"],
        "CAL-E020": 'RECALL beliefs WHERE confidence >= 0.8 AND time = "last 7 days" AND tags INCLUDE ["work"]',
        "CAL-E021": "RECALL beliefs | ORDER BY confidence DESC | SELECT subject, object",
        "CAL-E022": "RECALL beliefs | SUBJECTS",
        "CAL-E030": f"{_ASSEMBLE} BUDGET 4000 tokens",
        "CAL-E060": 'RECALL events ABOUT "alice" RECENT 5',
        "CAL-E061": 'RECALL goals WHERE goal_state = "active"',
        "CAL-E062": 'RECALL actions WHERE action_phase = "result"',
        "CAL-E063": 'RECALL goals WHERE goal_state = "active"',
        "CAL-E064": 'RECALL consents WHERE consent_action = "grant"',
        "CAL-E065": 'RECALL WHERE recall_priority = "hot"',
        "CAL-E066": 'RECALL WHERE epistemic_status = "certain"',
        **dict.fromkeys(_full_codes("077 078"), f"{_ASSEMBLE} STREAM {{ progress, chunk_size = 100 }}"),
        **dict.fromkeys(_full_codes("085 086 087 088 090 091 092 093 094 095 096"), _TEMPLATE),
        "CAL-E100": "CAL/1 RECALL beliefs",
    }
)


def _find_example(error: QueryError) -> str | None:
    suggestion = error.suggestion or ""
    if suggestion in _EXAMPLES_BY_HINT:
        return _EXAMPLES_BY_HINT[suggestion]
    if suggestion.startswith(_EXAMPLE_PREFIX):
        return suggestion.removeprefix(_EXAMPLE_PREFIX)
    return _EXAMPLES_BY_CODE.get(error.cal_code)


def _default_suggestion(code: str, example: str | None) -> str:
    """For an error without a hint: section 22 wants one always."""
    if code == DISABLED:
        return "Ask the operator of this store."
    return f"{_EXAMPLE_PREFIX}{example}" if example else "See DESCRIBE grammar."
