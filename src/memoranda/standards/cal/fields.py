"""Grain types and their fields: operators, kinds, uses in stages (sections 6, 7, appendix E)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

import msgspec

from memoranda.standards.oms import registry


class Kind(Enum):
    """What a field holds, as far as a literal can be checked against it."""

    STRING = "String"
    # A string that may also be written as a hash literal.
    ADDRESS = "Address"
    # A string with closed values; another value has an error code of its own.
    WORD = "Word"
    FRACTION = "Number 0..1"
    NUMBER = "Number"
    BOOLEAN = "Boolean"
    ARRAY = "Array"
    TYPE = "Type name"
    # A time expression: `time`.
    SINCE = "Temporal"
    # A day or an instant: `deadline`, `expires_at`.
    INSTANT = "Instant"
    HASH = "Hash"
    # Domain fields: whatever the profile puts there.
    ANY = "Any"


class Field(msgspec.Struct, frozen=True):
    """One row of the field tables."""

    name: str
    kind: Kind
    operators: frozenset[str]
    sortable: bool
    projectable: bool
    groupable: bool
    # For Kind.WORD: the words, and the code for any other.
    words: tuple[str, ...] = ()
    code: str = ""


SINGULARS: Final = tuple(each.name for each in registry.TYPES)
PLURALS: Final = MappingProxyType(
    {{"consensus": "consensuses"}.get(name, f"{name}s"): name for name in SINGULARS}  # plural → singular
)
PLURAL_OF: Final = MappingProxyType({singular: plural for plural, singular in PLURALS.items()})

# OMS and CAL name the states of a goal differently; both are understood.
GOAL_STATES: Final = ("active", "completed", "abandoned", "blocked", "satisfied", "failed", "suspended")


def _common(name: str, kind: Kind, operators: str, uses: str, words: str = "", code: str = "") -> Field:
    return Field(
        name, kind, frozenset(operators.split()), "S" in uses, "P" in uses, "G" in uses, tuple(words.split()), code
    )


_NUMERIC: Final = "= != >= <= > <"
COMMON: Final = MappingProxyType(
    {
        field.name: field
        for field in (
            _common("query", Kind.STRING, "=", ""),
            _common("subject", Kind.STRING, "= != IN", "SPG"),
            _common("relation", Kind.STRING, "= != IN IS", "SPG"),
            _common("object", Kind.STRING, "= != IN", "SPG"),
            _common("user_id", Kind.STRING, "= !=", "PG"),
            _common("namespace", Kind.STRING, "=", ""),
            _common("confidence", Kind.FRACTION, _NUMERIC, "SP"),
            _common("importance", Kind.FRACTION, _NUMERIC, "SP"),
            _common("score", Kind.FRACTION, ">= >", "SP"),
            _common("tags", Kind.ARRAY, "INCLUDE EXCLUDE", "P"),
            _common("type", Kind.TYPE, "=", "PG"),
            _common("time", Kind.SINCE, "= BETWEEN", "SP"),
            _common("hash", Kind.HASH, "=", "P"),
            _common("contradicted", Kind.BOOLEAN, "=", "P"),
            _common("verification_status", Kind.STRING, "=", "SPG"),
            _common("source_type", Kind.STRING, "=", "SPG"),
            _common("recall_priority", Kind.WORD, "=", "", "hot warm cold", "CAL-E065"),
            _common("epistemic_status", Kind.WORD, "=", "", "certain probable uncertain estimated derived", "CAL-E066"),
        )
    }
)


def _field(name: str, operators: str = "=", kind: Kind = Kind.STRING, words: str = "", code: str = "") -> Field:
    # Scalars can be sorted and projected, strings also grouped; arrays can only be projected.
    text = kind in (Kind.STRING, Kind.ADDRESS, Kind.WORD)
    array = kind is Kind.ARRAY
    return Field(name, kind, frozenset(operators.split()), not array, True, text, tuple(words.split()), code)


_OF_TYPE: Final[Mapping[str, tuple[Field, ...]]] = {
    "belief": (),
    "event": (
        _field("role", "= !="),
        _field("session_id"),
        _field("parent_message_id", kind=Kind.ADDRESS),
        _field("model_id", "= !="),
        _field("content"),
    ),
    "state": (_field("context", "= !="), _field("plan")),
    "workflow": (_field("trigger", "= !="), _field("steps"), _field("goal_state", "= !=")),
    "action": (
        _field("tool_name", "= != IN"),
        _field("action_phase", "=", Kind.WORD, "definition call result complete", "CAL-E062"),
        _field("is_error", "=", Kind.BOOLEAN),
        _field("tool_call_id"),
        _field("session_id"),
    ),
    "observation": (_field("observer_id", "= !="), _field("observer_type", "= !=")),
    "goal": (
        _field("goal_state", "= !=", Kind.WORD, " ".join(GOAL_STATES), "CAL-E063"),
        _field("assigned_agent", "= !="),
        _field("deadline", "= BETWEEN", Kind.INSTANT),
        _field("depends_on", "= IN", Kind.ADDRESS),
    ),
    "reasoning": (_field("reasoning_type"), _field("premises"), _field("conclusion", "= !=")),
    "consensus": (
        _field("threshold", "= >= <= > <", Kind.NUMBER),
        _field("agreement_count", "= >= <= > <", Kind.NUMBER),
        _field("participating_observers", "INCLUDE", Kind.ARRAY),
    ),
    "consent": (
        _field("consent_action", "=", Kind.WORD, "grant withdraw", "CAL-E064"),
        _field("purpose", "= !="),
        _field("grantor_did"),
        _field("grantee_did"),
        _field("scope"),
        _field("expires_at", "= BETWEEN", Kind.INSTANT),
    ),
}
# C11 and C12: the README asks for these; the letter of the specification does not have them.
_NOT_STRICT: Final = frozenset((("action", "session_id"), ("workflow", "goal_state")))


def _table(grain_type: str | None, *, strict: bool) -> Mapping[str, Field]:
    own = _OF_TYPE[grain_type] if grain_type else ()
    extra = {field.name: field for field in own if not (strict and (grain_type, field.name) in _NOT_STRICT)}
    return MappingProxyType({**COMMON, **extra})


_TABLES: Final = {
    (name, strict): _table(name, strict=strict) for name in (None, *SINGULARS) for strict in (False, True)
}
TYPES_WITH: Final = MappingProxyType(
    {
        field.name: tuple(name for name in SINGULARS if any(each.name == field.name for each in _OF_TYPE[name]))
        for fields in _OF_TYPE.values()
        for field in fields
    }
)

# Section 10.3.5: names that a projection gives to fields, by type, and those of every type.
PROJECTED: Final[Mapping[str, frozenset[str]]] = {
    "belief": frozenset(),
    "event": frozenset(),
    "state": frozenset(),
    "workflow": frozenset(("state",)),
    "action": frozenset(("tool", "phase")),
    "observation": frozenset(("observer",)),
    "goal": frozenset(("state",)),
    "reasoning": frozenset(),
    "consensus": frozenset(("count",)),
    "consent": frozenset(("action", "grantor", "grantee")),
}
PROJECTED_ALWAYS: Final = frozenset(("content", "source", "observed"))
PROJECTED_ANYWHERE: Final = frozenset().union(*PROJECTED.values())

# Domain prefix → profile (section 12.2). Other prefixes are accepted with a warning.
PROFILES: Final = MappingProxyType(
    {
        "hc": "healthcare",
        "legal": "legal",
        "fin": "finance",
        "rob": "robotics",
        "sci": "science",
        "con": "consumer",
        "int": "integration",
    }
)
DOMAIN: Final = Field(
    "domain field",
    Kind.ANY,
    frozenset((*_NUMERIC.split(), "IN", "BETWEEN", "INCLUDE", "EXCLUDE")),
    sortable=False,
    projectable=True,
    groupable=False,
)

# What ADD and SUPERSEDE may set, in canonical order (sections 8.8, 8.9).
SETTABLE: Final = MappingProxyType(
    {
        field.name: field
        for field in (
            COMMON["subject"],
            COMMON["relation"],
            COMMON["object"],
            _field("content"),
            COMMON["confidence"],
            COMMON["importance"],
            COMMON["tags"],
            _TABLES["goal", False]["goal_state"],
            _TABLES["goal", False]["assigned_agent"],
            _TABLES["goal", False]["deadline"],
            _TABLES["goal", False]["depends_on"],
            _TABLES["observation", False]["observer_id"],
            _TABLES["observation", False]["observer_type"],
        )
    }
)
_BASE: Final = ("subject", "relation", "object", "confidence", "importance", "tags")
ADDABLE: Final = MappingProxyType(
    {
        "belief": frozenset(_BASE),
        "observation": frozenset((*_BASE, "observer_id", "observer_type")),
        "goal": frozenset((*_BASE, "goal_state", "assigned_agent", "deadline", "depends_on")),
        # C13: the README adds one.
        "reasoning": frozenset((*_BASE, "content")),
    }
)
ADD_REQUIRED: Final = ("subject", "relation", "object")
EVOLVABLE: Final = frozenset(("object", "confidence", "importance", "tags"))


def fields_of(grain_type: str | None, *, strict: bool = False) -> Mapping[str, Field]:
    """The fields that can be asked when this type (singular) is declared, or none is."""
    return _TABLES[grain_type, strict]
