"""The rules that the fields of a grain must satisfy (sections 6, 7, 8, 12.5, 14, 19.3, 23.2 and 27).

`find_problems` returns every violation with its error code. `check` raises the first code with all messages. Fields
outside the tables are not checked. Values of open enumerations are never refused; recommendations (SHOULD) are in
advice.py.

A check is a function from a value to a fault, or to None if the value is right. `_CHECKS` has the check of each field;
`_TYPE_RULES` has the rules of each type that concern several fields.

The tables follow the sections of the standard; a comment at a rule names the section. A check returns a text and not an
exception, since all faults of a grain are reported together. Order matters where the vectors of the standard expect a
certain code first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from memoranda.errors import GrainError
from memoranda.standards.oms import registry
from memoranda.standards.oms.fields import full_name
from memoranda.standards.oms.header import MAX_CREATED_AT_SEC
from memoranda.standards.oms.registry import ACTION_BYTE, BY_BYTE, CLOSED

Fields = Mapping[str, object]


class SchemaViolation(NamedTuple):
    """A violation: its error code and a message."""

    oms_code: str
    message: str


# An error code and a phrase such that "<field> <phrase>" is a sentence; None if the value is right.
_Fault = tuple[str, str] | None
_Check = Callable[[object], _Fault]

_INT64_MIN: Final = -(2**63)
# Values of a signed integer of 64 bits.
_INT64_MAX: Final = 2**63 - 1


def _check_text(value: object) -> _Fault:
    return None if isinstance(value, str) else ("ERR_SCHEMA", "must be text")


def _check_flag(value: object) -> _Fault:
    return None if isinstance(value, bool) else ("ERR_SCHEMA", "must be true or false")


def _check_float(value: object) -> _Fault:
    # Section 4.3: an integer would be other bytes and so another address.
    return None if isinstance(value, float) else ("ERR_SCHEMA", "must be a float")


def _check_fraction(value: object) -> _Fault:
    if type(value) is float:
        return None if 0.0 <= value <= 1.0 else ("ERR_RANGE", "must be between 0.0 and 1.0")
    return "ERR_SCHEMA", "must be a float"


def _check_integer(value: object) -> _Fault:
    if type(value) is not int:
        return "ERR_SCHEMA", "must be an integer"
    return None if _INT64_MIN <= value <= _INT64_MAX else ("ERR_RANGE", "must fit in 64 bits")


def _check_count(value: object) -> _Fault:
    if type(value) is not int:
        return "ERR_SCHEMA", "must be an integer"
    return None if 0 <= value <= _INT64_MAX else ("ERR_RANGE", "must not be negative")


def _check_octet(value: object) -> _Fault:
    if type(value) is not int:
        return "ERR_SCHEMA", "must be an integer"
    return None if 0 <= value <= 0xFF else ("ERR_RANGE", "must be between 0 and 255")


def _check_created_at(value: object) -> _Fault:
    if type(value) is not int:
        return "ERR_SCHEMA", "must be milliseconds since 1970"
    # Section 3.1: the header holds it as 32 bits of seconds.
    return (
        None
        if 0 <= value // 1000 <= MAX_CREATED_AT_SEC
        else ("ERR_RANGE", "must be between 1970 and 2106")
    )


def _check_map(value: object) -> _Fault:
    return None if isinstance(value, dict) else ("ERR_SCHEMA", "must be a map")


def _check_text_or_map(value: object) -> _Fault:
    return None if isinstance(value, str | dict) else ("ERR_SCHEMA", "must be text or a map")


def _check_bytes(value: object) -> _Fault:
    return None if isinstance(value, bytes) else ("ERR_SCHEMA", "must be bytes")


def _check_not_null(value: object) -> _Fault:
    return None if value is not None else ("ERR_SCHEMA", "must not be null")


def _one_of(values: tuple[str, ...]) -> _Check:
    """Return a check for one of these values."""

    def check(value: object) -> _Fault:
        return None if value in values else ("ERR_SCHEMA", f"must be one of {'|'.join(values)}")

    return check


def _array_of(check_item: _Check) -> _Check:
    """Return a check for an array whose items all pass `check_item`."""

    def check(value: object) -> _Fault:
        if not isinstance(value, list):
            return "ERR_SCHEMA", "must be an array"
        for index, item in enumerate(value):
            if (fault := check_item(item)) is not None:
                return fault[0], f"entry {index} {fault[1]}"
        return None

    return check


def _record_of(required: Mapping[str, _Check], optional: Mapping[str, _Check]) -> _Check:
    """Return a check for a map with these required and optional fields; other fields are not checked."""
    checks = {**required, **optional}

    def check(value: object) -> _Fault:
        if not isinstance(value, dict):
            return "ERR_SCHEMA", "must be a map"
        for name in required:
            if name not in value:
                return "ERR_SCHEMA", f"must have {name}"
        for name, item in value.items():
            if name in checks and (fault := checks[name](item)) is not None:
                return fault[0], f"is wrong: {name} {fault[1]}"
        return None

    return check


def _check_reference(value: object) -> _Fault:
    """Check a content reference, or a citation among them."""
    # Section 27.5: content_refs may also hold citations, which have neither uri nor modality.
    return (
        _CITATION(value)
        if isinstance(value, dict) and "citation_type" in value
        else _CONTENT_REF(value)
    )


def _check_source(value: object) -> _Fault:
    """Check a source: an address or a citation."""
    # Section 27.5: derived_from SHOULD accept addresses and citations.
    return None if isinstance(value, str) else _CITATION(value)


_CITATION_TYPES: Final = ("doi", "arxiv", "pmid", "isbn", "rrid", "clinicaltrials", "url")
_CITATION_ROLES: Final = (
    "supports",
    "refutes",
    "extends",
    "replicates",
    "uses_data",
    "uses_software",
)
_CITATION = _record_of(
    {"citation_type": _one_of(_CITATION_TYPES), "identifier": _check_text},
    {
        "retrieved_at": _check_integer,
        "content_hash": _check_text,
        "citation_role": _one_of(_CITATION_ROLES),
    },
)
_CONTENT_REF = _record_of(
    {"uri": _check_text, "modality": _check_text},
    {
        "mime_type": _check_text,
        "size_bytes": _check_count,
        "checksum": _check_text,
        "metadata": _check_map,
    },
)
_EMBEDDING_REF = _record_of(
    {"vector_id": _check_text, "model": _check_text, "dimensions": _check_count},
    {
        "modality_source": _check_text,
        "distance_metric": _check_text,
        "chunk_index": _check_count,
        "chunk_text": _check_text,
        "chunk_strategy": _check_text,
        "chunk_overlap": _check_count,
    },
)
_LINK = _record_of(
    {"hash": _check_text, "relation_type": _one_of(tuple(sorted(registry.LINK_RELATIONS)))},
    {"weight": _check_float},
)
_POLICY = _record_of(
    {"mode": _check_text},
    {
        "authorized": _array_of(_check_text),
        "threshold": _check_count,
        "locked_until": _check_count,
        "fallback_mode": _check_text,
        "scope": _one_of(("grain", "subtree", "lineage")),
        "protection_reason": _check_text,
    },
)
_STATISTICS = _record_of(
    {},
    {
        "p_value": _check_float,
        "confidence_interval": _array_of(_check_float),
        "effect_size": _check_float,
        "sample_size": _check_count,
    },
)
_TOKENS = _record_of(
    {},
    dict.fromkeys(
        ("input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens"),
        _check_count,
    ),
)


def _map_fields(check: _Check, names: str) -> dict[str, _Check]:
    """Map each of the names to the same check."""
    return dict.fromkeys(names.split(), check)


_CHECKS: Final[Mapping[str, _Check]] = {
    **_map_fields(
        _check_text,
        """type subject relation source_type author_did namespace user_id origin_did origin_namespace
        supersession_justification run_id role observer_did subject_did session_id entity_id epistemic_status
        processing_basis license invalidation_reason invalidation_initiator _disclosure_of model_id stop_reason
        parent_message_id trigger tool_name tool_call_id call_batch_id tool_version code stdout stderr interpreter_id
        error error_type parent_task_id tool_description observer_id observer_type frame_id sync_group observation_mode
        observation_scope observer_model description state_reason delegate_to delegate_from expiry_policy recurrence
        assigned_agent expected_output output_grain grantee_did basis jurisdiction prior_consent conclusion
        thinking_content return_to""",
    ),
    **_map_fields(
        _check_flag,
        "requires_human_review consolidated is_error strict is_withdrawal thinking_redacted contradicted",
    ),
    **_map_fields(_check_fraction, "confidence importance"),
    **_map_fields(_check_float, "progress compression_ratio"),
    **_map_fields(
        _check_count,
        """consolidation_level success_count failure_count duration_ms evidence_required threshold agreement_count
        dissent_count delegation_depth""",
    ),
    **_map_fields(
        _check_integer,
        """valid_from valid_to system_valid_from timestamp_ms exit_code priority deadline random_seed
        delegation_expiry""",
    ),
    **_map_fields(
        _check_map,
        "context input input_schema output_schema software_environment parameter_set _elided",
    ),
    **_map_fields(
        _array_of(_check_text),
        """structural_tags plan steps criteria parent_goals satisfaction_evidence rollback_on_failure
        allowed_transitions depends_on scope witness_dids premises participating_observers dissent_grains
        authorized_namespaces authorized_tools context_grains""",
    ),
    **_map_fields(_array_of(_check_map), "history criteria_structured"),
    **_map_fields(_check_text_or_map, "object agreed_content"),
    **{name: _one_of(values) for name, values in CLOSED.items()},
    "goal_state": _check_text,
    "created_at": _check_created_at,
    "category": _check_octet,
    "authorized_types": _array_of(_check_octet),
    "derived_from": _array_of(_check_source),
    "provenance_chain": _array_of(
        _record_of(
            {}, {"source_hash": _check_text, "method": _check_text, "weight": _check_fraction}
        )
    ),
    "content_refs": _array_of(_check_reference),
    "embedding_refs": _array_of(_EMBEDDING_REF),
    "related_to": _array_of(_LINK),
    "invalidation_policy": _POLICY,
    "supersession_auth": _array_of(_check_not_null),
    "owner": _record_of({"type": _one_of(("human", "org")), "name": _check_text}, {}),
    "retention_policy": _record_of(
        {},
        {
            "minimum_retention_years": _check_count,
            "regulation": _check_text,
            "deletion_requires": _check_text,
        },
    ),
    "trusted_timestamp": _record_of({}, {"tsp_response": _check_bytes, "tsa_uri": _check_text}),
    "content_blocks": _array_of(_record_of({"type": _check_text}, {})),
    "token_usage": _TOKENS,
    "statistical_context": _STATISTICS,
    "alternatives_considered": _array_of(
        _record_of({}, {"hypothesis": _check_text, "rejection_reason": _check_text})
    ),
}


def check(fields: Fields, type_byte: int) -> None:
    """Raise GrainError with the first code and all messages if the fields violate a rule of the type."""
    if violations := find_problems(fields, type_byte):
        raise GrainError(
            "; ".join(problem.message for problem in violations), oms_code=violations[0].oms_code
        )


def find_problems(fields: Fields, type_byte: int) -> list[SchemaViolation]:
    """Return every violation of the fields, which are in normal form and under their full names.

    Fields must be in normal form (`normal.py`).
    """
    violations = [] if "created_at" in fields else [_missing_field("created_at")]
    checks = _CHECKS
    for name, value in fields.items():
        check_value = checks.get(name)
        if check_value is not None and (fault := check_value(value)) is not None:
            violations.append(SchemaViolation(fault[0], f"{name} {fault[1]}"))
    grain_type = BY_BYTE.get(type_byte)
    if grain_type is not None:
        elided = _elided_names(fields, type_byte) if "_elided" in fields else ()
        non_empty = grain_type.non_empty
        for name in grain_type.required:
            if name not in fields:
                if name not in elided:
                    violations.append(_missing_field(name))
            elif not fields[name] and name in non_empty and isinstance(fields[name], str | list):
                violations.append(_empty_field(name))
        if (check_type := _TYPE_RULES.get(type_byte)) is not None:
            violations.extend(check_type(fields, elided))
    return violations


def _missing_field(name: str) -> SchemaViolation:
    """Return the violation of a missing field."""
    return SchemaViolation("ERR_SCHEMA", f"{name} is required")


def _empty_field(name: str) -> SchemaViolation:
    """Return the violation of an empty field."""
    return SchemaViolation("ERR_EMPTY", f"{name} must not be empty")


def _elided_names(fields: Fields, type_byte: int) -> tuple[str, ...]:
    """Return the full names of the fields that a disclosed view has left out."""
    # Section 10: a disclosed view lists the fields it lacks here. OMS leaves open whether by full or short names.
    elided = fields["_elided"]
    if not isinstance(elided, dict) or "_disclosure_of" not in fields:
        return ()
    names = (full_name(key, type_byte) for key in elided)
    return tuple(name for name in names if name not in registry.NOT_ELIDABLE)


def _check_event(fields: Fields, elided: tuple[str, ...]) -> Iterator[SchemaViolation]:
    """Yield the violations of an Event: it needs content, content blocks or a triple."""
    if "content" in fields:
        if (fault := _check_text(fields["content"])) is not None:
            yield SchemaViolation(fault[0], f"content {fault[1]}")
        elif not fields["content"]:
            yield _empty_field("content")
    elif (
        "content" not in elided
        and not fields.get("content_blocks")
        and not _has_triple(fields, elided)
    ):
        # Sections 6.2 and 8.2: content MAY be omitted if content blocks, or a complete triple, say what happened.
        yield _missing_field("content")


def _has_triple(fields: Fields, elided: tuple[str, ...]) -> bool:
    """Return True if subject, relation and object are present or elided."""
    return all(name in fields or name in elided for name in ("subject", "relation", "object"))


# Section 27.1: phase → required fields; None is the absent phase, a complete synchronous call.
_PHASE_REQUIRES: Final[Mapping[str | None, tuple[str, ...]]] = {
    "definition": ("tool_name", "tool_description", "input_schema"),
    "call": ("tool_name", "input"),
    "result": ("tool_call_id", "content", "is_error", "derived_from"),
    None: ("tool_name", "input", "content", "is_error"),
}
_OUTCOME = ("content", "is_error", "stdout", "stderr", "exit_code", "duration_ms")
_PHASE_FORBIDS: Final[Mapping[str | None, tuple[str, ...]]] = {
    "definition": ("input", *_OUTCOME),
    "call": _OUTCOME,
}
# The specification's own example of running code has no tool, input or content.
_CODE_REQUIRES: Final = {None: ("code", "is_error"), "call": ("code",)}
_NEVER_EMPTY: Final = ("tool_name", "tool_description", "tool_call_id")


def _check_action(fields: Fields, elided: tuple[str, ...]) -> Iterator[SchemaViolation]:
    """Yield the violations of an Action: required and forbidden fields by phase."""
    phase = fields.get("action_phase")
    if not (phase is None or isinstance(phase, str)):
        return
    required = _PHASE_REQUIRES.get(phase, ())
    if fields.get("execution_mode") == "code_exec":
        required = _CODE_REQUIRES.get(phase, required)
    for name in required:
        if name not in fields:
            if name not in elided:
                yield _missing_field(name)
        elif name in _NEVER_EMPTY and fields[name] == "":
            yield _empty_field(name)
    for name in _PHASE_FORBIDS.get(phase, ()):
        if name in fields:
            yield SchemaViolation(
                "ERR_SCHEMA", f"{name} does not belong in an action of phase {phase}"
            )


def _check_observation(fields: Fields, _: tuple[str, ...]) -> Iterator[SchemaViolation]:
    """Yield the violations of an Observation: its observer, mode and scope."""
    observer = fields.get("observer_type")
    if observer == "human" and "observer_model" in fields:
        # Section 24.2.
        yield SchemaViolation(
            "ERR_SCHEMA", "observer_model must be absent when the observer is human"
        )
    if isinstance(observer, str) and observer.startswith(registry.TRIGGER_PREFIX):
        return
    for name, values in (
        ("observation_mode", registry.OBSERVATION_MODES),
        ("observation_scope", registry.OBSERVATION_SCOPES),
    ):
        if name in fields and fields[name] not in values:
            yield SchemaViolation("ERR_SCHEMA", f"{name} must be one of {'|'.join(values)}")


def _check_goal(fields: Fields, _: tuple[str, ...]) -> Iterator[SchemaViolation]:
    """Yield a violation if the goal's state is unknown."""
    if "goal_state" in fields and fields["goal_state"] not in registry.GOAL_STATES:
        yield SchemaViolation(
            "ERR_SCHEMA", f"goal_state must be one of {'|'.join(registry.GOAL_STATES)}"
        )


def _check_consent(fields: Fields, elided: tuple[str, ...]) -> Iterator[SchemaViolation]:
    """Yield a violation if a withdrawal does not name the consent that it withdraws."""
    if (
        fields.get("is_withdrawal") is True
        and "prior_consent" not in fields
        and "prior_consent" not in elided
    ):
        # Section 8.10: a withdrawal MUST name what it withdraws.
        yield SchemaViolation("ERR_SCHEMA", "prior_consent is required on a withdrawal")


_TYPE_RULES: Final[Mapping[int, Callable[[Fields, tuple[str, ...]], Iterator[SchemaViolation]]]] = {
    0x02: _check_event,
    ACTION_BYTE: _check_action,
    0x06: _check_observation,
    0x07: _check_goal,
    0x0A: _check_consent,
}
