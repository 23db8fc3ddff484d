"""The closed and open vocabularies of OMS as data (sections 8, 13, 14.3, 19, 24 to 27).

Code asks these tables and never lists such words itself. A closed vocabulary refuses other words, an open one only
names the usual ones; the comment beside each says which it is, and where the specification says so. Two revisions of
OMS give some types different names, so readers accept all of them and writers use the first. A change here changes what
is accepted, so the published vectors must still pass (`tests/standards/oms`).
"""

from __future__ import annotations

from typing import Final

import msgspec


class GrainType(msgspec.Struct, frozen=True):
    """A standard type: its byte, its names in a payload, and its required fields."""

    byte: int
    # The name that writers use.
    name: str
    # All names. OMS 1.3 writes the first name; 1.4 and the published vectors write the others (section 21).
    names: tuple[str, ...]
    # Required fields beyond `type` and `created_at`, which every type requires.
    required: tuple[str, ...] = ()
    # The required fields that must not be empty.
    non_empty: frozenset[str] = frozenset()


def _grain_type(byte: int, names: str, required: str = "", may_be_empty: str = "") -> GrainType:
    """Build a type from lists of names separated by spaces."""
    all_names, fields = tuple(names.split()), tuple(required.split())
    non_empty = frozenset(fields) - frozenset(may_be_empty.split())
    return GrainType(byte, all_names[0], all_names, fields, non_empty)


ACTION_BYTE: Final = 0x05
# Event and Action have alternative requirements that a list cannot express; see schema.py.
TYPES: Final = (
    _grain_type(0x01, "belief fact", "subject relation object confidence", may_be_empty="object"),
    _grain_type(0x02, "event"),
    _grain_type(0x03, "state", "context", may_be_empty="context"),
    _grain_type(0x04, "workflow", "steps trigger"),
    _grain_type(ACTION_BYTE, "action tool"),
    _grain_type(0x06, "observation", "observer_id observer_type"),
    _grain_type(0x07, "goal", "description goal_state"),
    _grain_type(0x08, "reasoning"),
    _grain_type(
        0x09, "consensus", "participating_observers threshold agreement_count dissent_count"
    ),
    _grain_type(
        0x0A, "consent", "subject_did grantee_did scope is_withdrawal", may_be_empty="scope"
    ),
)
BY_BYTE: Final = {grain_type.byte: grain_type for grain_type in TYPES}
BY_NAME: Final = {name: grain_type for grain_type in TYPES for name in grain_type.names}

FIRST_DOMAIN_BYTE: Final = 0xF0
LAST_DOMAIN_BYTE: Final = 0xFF


def is_domain_byte(byte: int) -> bool:
    """Return True if the type byte belongs to applications and domain profiles."""
    return FIRST_DOMAIN_BYTE <= byte <= LAST_DOMAIN_BYTE


# Section 28: the namespace of grains without one.
DEFAULT_NAMESPACE: Final = "shared"

ERROR_CODES: Final = frozenset(
    """ERR_TOO_SHORT ERR_VERSION ERR_CORRUPT ERR_NOT_MAP ERR_NO_TYPE ERR_UNKNOWN_TYPE ERR_SCHEMA ERR_INTEGRITY
    ERR_HASH_FORMAT ERR_HASH_LENGTH ERR_RANGE ERR_EMPTY ERR_FLOAT_INVALID ERR_SIGNED_MISMATCH
    ERR_SENSITIVITY_MISMATCH ERR_INVALIDATION_DENIED ERR_EVIDENCE_REQUIRED""".split()
)

# Section 8: `mg:` is reserved for these; any other relation is free.
MG_RELATIONS: Final = frozenset(
    f"mg:{name}"
    for name in """perceives knows said did infers agrees_with state_at requires_steps intends permits revokes
    prohibits requires prefers avoids delegates_to owned_by has_capability handed_off_to depends_on
    assigned_to""".split()
)

# Section 14.3: closed, "to prevent PII leakage through relation names".
LINK_RELATIONS: Final = frozenset(
    """similar contradicts elaborates generalizes temporal_next temporal_prev causal supports refutes replaces
    depends_on""".split()
)

PHYSICAL_OBSERVERS: Final = frozenset(
    "lidar camera imu gps temperature pressure accelerometer magnetometer ultrasonic radar microphone".split()
)
MODEL_OBSERVERS: Final = frozenset("llm reflector classifier detector".split())
COGNITIVE_OBSERVERS: Final = MODEL_OBSERVERS | {"human", "hybrid"}
# Section 27.6: triggers are observations; their mode and scope may be outside the closed sets.
TRIGGER_PREFIX: Final = "trigger:"

TIMELESS_SOURCES: Final = frozenset(("established_knowledge", "axiomatic"))

# Fields with a closed set of values. Open enumerations are not checked (sections 6 and 24).
CLOSED: Final = {
    name: tuple(values.split())
    for name, values in {
        "temporal_type": "state observation",
        "identity_state": "anonymous pseudonymous authenticated",
        "invalidation_type": (
            "superseded retraction erratum corrigendum retraction_with_replacement expression_of_concern"
        ),
        "recall_priority": "hot warm cold",
        "inference_method": "deductive inductive abductive analogical",
        "action_phase": "definition call result",
        "execution_mode": "function_call code_exec computer_use",
        "tool_type": "client server builtin",
    }.items()
}
# Closed for goals only: the README of OMS gives workflows states of their own, such as "open".
GOAL_STATES: Final = ("active", "satisfied", "failed", "suspended")
OBSERVATION_MODES: Final = ("passive", "active", "reflective", "real_time")
OBSERVATION_SCOPES: Final = ("point", "interval", "session", "longitudinal")

# Section 10.2: fields that a disclosed view must show.
NOT_ELIDABLE: Final = frozenset(
    """type relation confidence created_at goal_state source_type priority observer_type observation_mode
    observation_scope compression_ratio""".split()
)

# Section 13: tag prefix → least sensitivity of the header.
TAG_SENSITIVITY: Final = {"phi:": 3, "pii:": 2, "sec:": 2, "legal:": 2, "reg:": 1}
