"""The closed and open vocabularies of OMS as data (sections 8, 13, 14.3, 19, 24 to 27)."""

from __future__ import annotations

from typing import Final

import msgspec


class GrainType(msgspec.Struct, frozen=True):
    """A standard type: its byte, the strings that name it in a payload, and what it requires."""

    byte: int
    # The first is what 1.3 writes; the others are what 1.4 and the published vectors write (section 21).
    names: tuple[str, ...]
    # Beyond `type` and `created_at`, which every type requires.
    required: tuple[str, ...] = ()
    # Those of the required fields that must not be empty.
    filled: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name writers use."""
        return self.names[0]


def _type(byte: int, names: str, required: str = "", may_be_empty: str = "") -> GrainType:
    fields = tuple(required.split())
    return GrainType(byte, tuple(names.split()), fields, frozenset(fields) - frozenset(may_be_empty.split()))


ACTION_BYTE: Final = 0x05
# Event and Action have alternatives that a list cannot say: see schema.py.
TYPES: Final = (
    _type(0x01, "belief fact", "subject relation object confidence", may_be_empty="object"),
    _type(0x02, "event"),
    _type(0x03, "state", "context", may_be_empty="context"),
    _type(0x04, "workflow", "steps trigger"),
    _type(ACTION_BYTE, "action tool"),
    _type(0x06, "observation", "observer_id observer_type"),
    _type(0x07, "goal", "description goal_state"),
    _type(0x08, "reasoning"),
    _type(0x09, "consensus", "participating_observers threshold agreement_count dissent_count"),
    _type(0x0A, "consent", "subject_did grantee_did scope is_withdrawal", may_be_empty="scope"),
)
BY_BYTE: Final = {each.byte: each for each in TYPES}
BY_NAME: Final = {name: each for each in TYPES for name in each.names}

FIRST_DOMAIN_BYTE: Final = 0xF0
LAST_DOMAIN_BYTE: Final = 0xFF


def is_domain_byte(byte: int) -> bool:
    """Whether the type byte belongs to applications and domain profiles."""
    return FIRST_DOMAIN_BYTE <= byte <= LAST_DOMAIN_BYTE


# Section 28: the namespace of grains that name none.
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
# Section 27.6: triggers are observations whose mode and scope are outside the closed sets.
TRIGGER_PREFIX: Final = "trigger:"

TIMELESS_SOURCES: Final = frozenset(("established_knowledge", "axiomatic"))

# Fields whose values are a closed set. Open enumerations are not checked (sections 6 and 24).
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
# Closed for goals. The README of OMS gives workflows a state of their own, such as "open".
GOAL_STATES: Final = ("active", "satisfied", "failed", "suspended")
OBSERVATION_MODES: Final = ("passive", "active", "reflective", "real_time")
OBSERVATION_SCOPES: Final = ("point", "interval", "session", "longitudinal")

# Section 10.2: what a disclosed view cannot leave out.
NOT_ELIDABLE: Final = frozenset(
    """type relation confidence created_at goal_state source_type priority observer_type observation_mode
    observation_scope compression_ratio""".split()
)

# Section 13: tag prefix → least sensitivity of the header.
TAG_SENSITIVITY: Final = {"phi:": 3, "pii:": 2, "sec:": 2, "legal:": 2, "reg:": 1}
