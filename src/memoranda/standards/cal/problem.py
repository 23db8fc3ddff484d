"""Errors as documents (section 22): code, message, suggestion, position, and what was expected there.

No function here raises: an error that lacks details gets a document with fewer members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NotRequired, TypedDict, cast

from memoranda.errors import QueryError
from memoranda.standards.cal import fields
from memoranda.standards.cal.language import suggest, template, words

# Our code for "CAL is switched off". The codes of the specification begin at E001, so none can collide with it.
DISABLED: Final = "CAL-E000"
DEFAULT_STATUS: Final = 400


def _full_codes(numbers: str) -> tuple[str, ...]:
    """Return the codes of space-separated numbers."""
    return tuple(f"CAL-E{number}" for number in numbers.split())


_HTTP_STATUS_BY_CODE: Final[Mapping[str, int]] = {
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
    """Return the HTTP status of a code; 400 for mistakes in the query, and for unknown codes."""
    return _HTTP_STATUS_BY_CODE.get(cal_code, DEFAULT_STATUS)


class ErrorPosition(TypedDict):
    """The part of a query that an error is about: offsets in characters, line and column from 1."""

    start: int
    end: int
    line: int
    col: int


class ErrorMembers(TypedDict):
    """The members of an error document."""

    code: str
    message: str
    position: ErrorPosition
    suggestion: str
    reason: NotRequired[str]
    oms_error: NotRequired[str]
    expected: NotRequired[list[str]]
    example: NotRequired[str]
    valid_values: NotRequired[list[str]]


class ErrorEnvelope(TypedDict):
    """An error document."""

    error: ErrorMembers


def error_envelope(error: QueryError) -> ErrorEnvelope:
    """Return the error document of section 22, always with a suggestion; unknown members are left out."""
    example = _find_example(error)
    document: ErrorMembers = {
        "code": error.cal_code,
        "message": error.message,
        "position": {
            "start": error.start,
            "end": error.end,
            "line": error.line,
            "col": error.column,
        },
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
    present = {name: value for name, value in optional.items() if value}
    return {"error": cast("ErrorMembers", {**document, **present})}


# --- expected tokens -------------------------------------------------------------------------------------

_UNEXPECTED_PREFIX: Final = "Unexpected "
_EXPECTED_MARKER: Final = "; expected "
_ENDS_PREFIX: Final = "The query ends where "
_ENDS_SUFFIX: Final = " is expected."


def expected_of(error: QueryError) -> tuple[str, ...]:
    """Return what the parser expected, read from the message of `Cursor.raise_unexpected`; empty for other errors."""
    message = error.message
    if error.cal_code != "CAL-E002":
        return ()
    if message.startswith(_UNEXPECTED_PREFIX) and _EXPECTED_MARKER in message:
        # The quoted token of the user comes first and may contain the marker, too; so split at the last marker.
        alternatives = message.rpartition(_EXPECTED_MARKER)[2].removesuffix(".")
    elif message.startswith(_ENDS_PREFIX) and message.endswith(_ENDS_SUFFIX):
        alternatives = message.removeprefix(_ENDS_PREFIX).removesuffix(_ENDS_SUFFIX)
    else:
        return ()
    all_but_last, _, last = alternatives.rpartition(" or ")
    return (*all_but_last.split(", "), last) if all_but_last else (last,)


# --- valid values ----------------------------------------------------------------------------------------

_VALID_VALUES: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "CAL-E003": fields.SINGULARS,
        # The fields of every type; further ones depend on the type.
        "CAL-E004": tuple(fields.COMMON_FIELDS),
        # The fields that every statement can set; further ones depend on the statement.
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
    """Return the closed list of values for an error, or nothing if there is none."""
    if code in _VALID_VALUES:
        return _VALID_VALUES[code]
    # A description such as "a string in quotes" is no closed list.
    is_closed = bool(expected) and all(
        " " not in word and word.strip("()[]{},:;|/=<>!") for word in expected
    )
    return expected if is_closed else ()


# --- examples --------------------------------------------------------------------------------------------

_EXAMPLE_HASH: Final = "sha256:a1b2c3d4"
_EXAMPLE_PREFIX: Final = "Example: "
# Complete queries for the examples in `suggest` that are none.
_COMPLETE_EXAMPLES: Final = {
    "HISTORY": 'HISTORY WHERE subject = "alice" AND relation = "prefers"',
    "DESCRIBE": "DESCRIBE grain_types",
    "LET": f"{suggest.EXAMPLES['LET']} RECALL events WHERE subject IN ($people)",
}
_EXAMPLES_BY_HINT: Final[Mapping[str, str]] = {
    f"{_EXAMPLE_PREFIX}{shape}": _COMPLETE_EXAMPLES.get(
        word, shape.replace("sha256:…", _EXAMPLE_HASH)
    )
    for word, shape in suggest.EXAMPLES.items()
}
_TEMPLATE_EXAMPLE: Final = suggest.EXAMPLES["DEFINE"]
_ASSEMBLE_EXAMPLE: Final = "ASSEMBLE FROM known: (RECALL beliefs), said: (RECALL events)"
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
        "CAL-E015": f"EXISTS {_EXAMPLE_HASH}",
        **dict.fromkeys(_full_codes("016 017 018 050 051"), suggest.EXAMPLES["ADD"]),
        "CAL-E019": _EXAMPLES_BY_HINT[f"{_EXAMPLE_PREFIX}{suggest.EXAMPLES['SUPERSEDE']}"],
        "CAL-E020": 'RECALL beliefs WHERE confidence >= 0.8 AND time = "last 7 days" AND tags INCLUDE ["work"]',
        "CAL-E021": "RECALL beliefs | ORDER BY confidence DESC | SELECT subject, object",
        "CAL-E022": "RECALL beliefs | SUBJECTS",
        "CAL-E030": f"{_ASSEMBLE_EXAMPLE} BUDGET 4000 tokens",
        "CAL-E060": 'RECALL events ABOUT "alice" RECENT 5',
        "CAL-E061": 'RECALL goals WHERE goal_state = "active"',
        "CAL-E062": 'RECALL actions WHERE action_phase = "result"',
        "CAL-E063": 'RECALL goals WHERE goal_state = "active"',
        "CAL-E064": 'RECALL consents WHERE consent_action = "grant"',
        "CAL-E065": 'RECALL WHERE recall_priority = "hot"',
        "CAL-E066": 'RECALL WHERE epistemic_status = "certain"',
        **dict.fromkeys(
            _full_codes("077 078"), f"{_ASSEMBLE_EXAMPLE} STREAM {{ progress, chunk_size = 100 }}"
        ),
        **dict.fromkeys(
            _full_codes("085 086 087 088 090 091 092 093 094 095 096"), _TEMPLATE_EXAMPLE
        ),
        "CAL-E100": "CAL/1 RECALL beliefs",
    }
)


def _find_example(error: QueryError) -> str | None:
    """Return an example query without the mistake that the error reports, or None."""
    suggestion = error.suggestion or ""
    if suggestion in _EXAMPLES_BY_HINT:
        return _EXAMPLES_BY_HINT[suggestion]
    if suggestion.startswith(_EXAMPLE_PREFIX):
        return suggestion.removeprefix(_EXAMPLE_PREFIX)
    return _EXAMPLES_BY_CODE.get(error.cal_code)


def _default_suggestion(code: str, example: str | None) -> str:
    """Return the suggestion for an error without one; section 22 always requires one."""
    if code == DISABLED:
        return "Ask the operator of this store."
    return f"{_EXAMPLE_PREFIX}{example}" if example else "See DESCRIBE grammar."
