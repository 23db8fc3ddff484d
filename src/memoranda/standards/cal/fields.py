"""Grain types and their fields: operators, kinds, and stages that may use them (sections 6, 7, appendix E).

The tables are those of the specification, one row for each field, and everything else is derived from them: what the
parser accepts, what DESCRIBE shows, and which suggestions errors make. With `strict` the additions of this
implementation are left out. To support a field in a condition it needs a row here and a comparison in the code that
runs queries (`service/cal`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

import msgspec

from memoranda.standards.oms import registry


class FieldKind(Enum):
    """Kinds of field values, as far as a literal can be checked against them."""

    STRING = "String"
    # A string that may also be written as a hash literal.
    ADDRESS = "Address"
    # A string from a closed list; other values have an error code of their own.
    WORD = "Word"
    FRACTION = "Number 0..1"
    NUMBER = "Number"
    BOOLEAN = "Boolean"
    ARRAY = "Array"
    TYPE = "Type name"
    # A time expression: `time`.
    SINCE = "Temporal"
    # A date or an instant: `deadline`, `expires_at`.
    INSTANT = "Instant"
    HASH = "Hash"
    # Domain fields, whose values have any type.
    ANY = "Any"


class Field(msgspec.Struct, frozen=True):
    """A row of the field tables."""

    name: str
    kind: FieldKind
    operators: frozenset[str]
    sortable: bool
    projectable: bool
    groupable: bool
    # For FieldKind.WORD: the closed list of values, and the error code for other values.
    words: tuple[str, ...] = ()
    code: str = ""


SINGULARS: Final = tuple(grain_type.name for grain_type in registry.TYPES)
PLURALS: Final = MappingProxyType(
    {
        {"consensus": "consensuses"}.get(name, f"{name}s"): name for name in SINGULARS
    }  # plural → singular
)
PLURAL_OF: Final = MappingProxyType({singular: plural for plural, singular in PLURALS.items()})

# OMS and CAL have different names for the states of a goal; both are accepted.
GOAL_STATES: Final = (
    "active",
    "completed",
    "abandoned",
    "blocked",
    "satisfied",
    "failed",
    "suspended",
)


def _common_field(
    name: str, kind: FieldKind, operators: str, uses: str, words: str = "", code: str = ""
) -> Field:
    """Build a row; in `uses`, S stands for sortable, P for projectable and G for groupable."""
    return Field(
        name=name,
        kind=kind,
        operators=frozenset(operators.split()),
        sortable="S" in uses,
        projectable="P" in uses,
        groupable="G" in uses,
        words=tuple(words.split()),
        code=code,
    )


_NUMERIC: Final = "= != >= <= > <"
COMMON_FIELDS: Final = MappingProxyType(
    {
        field.name: field
        for field in (
            _common_field("query", FieldKind.STRING, "=", ""),
            _common_field("subject", FieldKind.STRING, "= != IN", "SPG"),
            _common_field("relation", FieldKind.STRING, "= != IN IS", "SPG"),
            _common_field("object", FieldKind.STRING, "= != IN", "SPG"),
            _common_field("user_id", FieldKind.STRING, "= !=", "PG"),
            _common_field("namespace", FieldKind.STRING, "=", ""),
            _common_field("confidence", FieldKind.FRACTION, _NUMERIC, "SP"),
            _common_field("importance", FieldKind.FRACTION, _NUMERIC, "SP"),
            _common_field("score", FieldKind.FRACTION, ">= >", "SP"),
            _common_field("tags", FieldKind.ARRAY, "INCLUDE EXCLUDE", "P"),
            _common_field("type", FieldKind.TYPE, "=", "PG"),
            _common_field("time", FieldKind.SINCE, "= BETWEEN", "SP"),
            _common_field("hash", FieldKind.HASH, "=", "P"),
            _common_field("contradicted", FieldKind.BOOLEAN, "=", "P"),
            _common_field("verification_status", FieldKind.STRING, "=", "SPG"),
            _common_field("source_type", FieldKind.STRING, "=", "SPG"),
            _common_field("recall_priority", FieldKind.WORD, "=", "", "hot warm cold", "CAL-E065"),
            _common_field(
                "epistemic_status",
                FieldKind.WORD,
                "=",
                "",
                "certain probable uncertain estimated derived",
                "CAL-E066",
            ),
        )
    }
)


def _type_field(
    name: str,
    operators: str = "=",
    kind: FieldKind = FieldKind.STRING,
    words: str = "",
    code: str = "",
) -> Field:
    """Build a row of a field that only some types have."""
    # Scalars can be sorted and projected, strings also grouped; arrays can only be projected.
    return Field(
        name=name,
        kind=kind,
        operators=frozenset(operators.split()),
        sortable=kind is not FieldKind.ARRAY,
        projectable=True,
        groupable=kind in (FieldKind.STRING, FieldKind.ADDRESS, FieldKind.WORD),
        words=tuple(words.split()),
        code=code,
    )


_TYPE_FIELDS: Final[Mapping[str, tuple[Field, ...]]] = {
    "belief": (),
    "event": (
        _type_field("role", "= !="),
        _type_field("session_id"),
        _type_field("parent_message_id", kind=FieldKind.ADDRESS),
        _type_field("model_id", "= !="),
        _type_field("content"),
    ),
    "state": (_type_field("context", "= !="), _type_field("plan")),
    "workflow": (
        _type_field("trigger", "= !="),
        _type_field("steps"),
        _type_field("goal_state", "= !="),
    ),
    "action": (
        _type_field("tool_name", "= != IN"),
        _type_field(
            "action_phase", "=", FieldKind.WORD, "definition call result complete", "CAL-E062"
        ),
        _type_field("is_error", "=", FieldKind.BOOLEAN),
        _type_field("tool_call_id"),
        _type_field("session_id"),
    ),
    "observation": (_type_field("observer_id", "= !="), _type_field("observer_type", "= !=")),
    "goal": (
        _type_field("goal_state", "= !=", FieldKind.WORD, " ".join(GOAL_STATES), "CAL-E063"),
        _type_field("assigned_agent", "= !="),
        _type_field("deadline", "= BETWEEN", FieldKind.INSTANT),
        _type_field("depends_on", "= IN", FieldKind.ADDRESS),
    ),
    "reasoning": (
        _type_field("reasoning_type"),
        _type_field("premises"),
        _type_field("conclusion", "= !="),
    ),
    "consensus": (
        _type_field("threshold", "= >= <= > <", FieldKind.NUMBER),
        _type_field("agreement_count", "= >= <= > <", FieldKind.NUMBER),
        _type_field("participating_observers", "INCLUDE", FieldKind.ARRAY),
    ),
    "consent": (
        _type_field("consent_action", "=", FieldKind.WORD, "grant withdraw", "CAL-E064"),
        _type_field("purpose", "= !="),
        _type_field("grantor_did"),
        _type_field("grantee_did"),
        _type_field("scope"),
        _type_field("expires_at", "= BETWEEN", FieldKind.INSTANT),
    ),
}
# C11 and C12: examples in the README need these fields; the printed specification does not have them.
_LENIENT_FIELDS: Final = frozenset((("action", "session_id"), ("workflow", "goal_state")))


def _build_table(grain_type: str | None, *, strict: bool) -> Mapping[str, Field]:
    """Return the fields of a grain type, or the common ones for None, by name."""
    own_fields = _TYPE_FIELDS[grain_type] if grain_type else ()
    extra = {
        field.name: field
        for field in own_fields
        if not (strict and (grain_type, field.name) in _LENIENT_FIELDS)
    }
    return MappingProxyType({**COMMON_FIELDS, **extra})


_TABLES: Final = {
    (name, strict): _build_table(name, strict=strict)
    for name in (None, *SINGULARS)
    for strict in (False, True)
}


def _types_by_field() -> Mapping[str, tuple[str, ...]]:
    """Return the grain types that have a field, by the name of the field."""
    types: dict[str, tuple[str, ...]] = {}
    for grain_type in SINGULARS:
        for field in _TYPE_FIELDS[grain_type]:
            types[field.name] = (*types.get(field.name, ()), grain_type)
    return MappingProxyType(types)


# Name of a field that not every type has → the types that have it.
TYPES_WITH: Final = _types_by_field()

# Attributes of a result that are no field of the stored grain (section 10.3.5): by grain type, of every type, and all.
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
DOMAIN_FIELD: Final = Field(
    "domain field",
    FieldKind.ANY,
    frozenset((*_NUMERIC.split(), "IN", "BETWEEN", "INCLUDE", "EXCLUDE")),
    sortable=False,
    projectable=True,
    groupable=False,
)

# Fields that ADD and SUPERSEDE may set, in canonical order (sections 8.8, 8.9).
SETTABLE: Final = MappingProxyType(
    {
        field.name: field
        for field in (
            COMMON_FIELDS["subject"],
            COMMON_FIELDS["relation"],
            COMMON_FIELDS["object"],
            _type_field("content"),
            COMMON_FIELDS["confidence"],
            COMMON_FIELDS["importance"],
            COMMON_FIELDS["tags"],
            _TABLES["goal", False]["goal_state"],
            _TABLES["goal", False]["assigned_agent"],
            _TABLES["goal", False]["deadline"],
            _TABLES["goal", False]["depends_on"],
            _TABLES["observation", False]["observer_id"],
            _TABLES["observation", False]["observer_type"],
        )
    }
)
_TRIPLE_FIELDS: Final = ("subject", "relation", "object", "confidence", "importance", "tags")
ADDABLE: Final = MappingProxyType(
    {
        "belief": frozenset(_TRIPLE_FIELDS),
        "observation": frozenset((*_TRIPLE_FIELDS, "observer_id", "observer_type")),
        "goal": frozenset(
            (*_TRIPLE_FIELDS, "goal_state", "assigned_agent", "deadline", "depends_on")
        ),
        # C13: the README of the specification adds one.
        "reasoning": frozenset((*_TRIPLE_FIELDS, "content")),
    }
)
ADD_REQUIRED: Final = ("subject", "relation", "object")
EVOLVABLE: Final = frozenset(("object", "confidence", "importance", "tags"))


def fields_of(grain_type: str | None, *, strict: bool = False) -> Mapping[str, Field]:
    """Return the fields that conditions may name if this type (singular) is declared, or no type for None."""
    return _TABLES[grain_type, strict]
