"""What a grain's fields must be (sections 6, 7, 8, 12.5, 14, 19.3, 23.2 and 27).

`problems` finds everything wrong at once, each with its code; `check` raises the first code with all messages. Fields
that are not in the tables are free. Open enumerations are never refused; what SHOULD be otherwise is in advice.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from memoranda.errors import GrainError
from memoranda.standards.oms import registry
from memoranda.standards.oms.fields import full_name
from memoranda.standards.oms.header import MAX_CREATED_AT_SEC
from memoranda.standards.oms.registry import ACTION_BYTE, BY_BYTE, CLOSED

Fields = Mapping[str, Any]


class Problem(NamedTuple):
    """One thing that is wrong with a grain."""

    oms_code: str
    message: str


# What is wrong with a value, said so that "<field> <phrase>" is a sentence; None when nothing is.
_Fault = tuple[str, str] | None
_Check = Callable[[Any], _Fault]

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


def _text(value: Any) -> _Fault:
    return None if isinstance(value, str) else ("ERR_SCHEMA", "must be text")


def _flag(value: Any) -> _Fault:
    return None if isinstance(value, bool) else ("ERR_SCHEMA", "must be true or false")


def _number(value: Any) -> _Fault:
    # Section 4.3: an integer would be other bytes and so another address.
    return None if isinstance(value, float) else ("ERR_SCHEMA", "must be a float")


def _unit(value: Any) -> _Fault:
    if type(value) is float:
        return None if 0.0 <= value <= 1.0 else ("ERR_RANGE", "must be between 0.0 and 1.0")
    return "ERR_SCHEMA", "must be a float"


def _integer(value: Any) -> _Fault:
    if type(value) is not int:
        return "ERR_SCHEMA", "must be an integer"
    return None if _INT64_MIN <= value <= _INT64_MAX else ("ERR_RANGE", "must fit in 64 bits")


def _count(value: Any) -> _Fault:
    if type(value) is not int:
        return "ERR_SCHEMA", "must be an integer"
    return None if 0 <= value <= _INT64_MAX else ("ERR_RANGE", "must not be negative")


def _octet(value: Any) -> _Fault:
    if type(value) is not int:
        return "ERR_SCHEMA", "must be an integer"
    return None if 0 <= value <= 0xFF else ("ERR_RANGE", "must be between 0 and 255")


def _created_at(value: Any) -> _Fault:
    if type(value) is not int:
        return "ERR_SCHEMA", "must be milliseconds since 1970"
    # Section 3.1: the header holds it as 32 bits of seconds.
    return None if 0 <= value // 1000 <= MAX_CREATED_AT_SEC else ("ERR_RANGE", "must be between 1970 and 2106")


def _map(value: Any) -> _Fault:
    return None if isinstance(value, dict) else ("ERR_SCHEMA", "must be a map")


def _text_or_map(value: Any) -> _Fault:
    return None if isinstance(value, str | dict) else ("ERR_SCHEMA", "must be text or a map")


def _binary(value: Any) -> _Fault:
    return None if isinstance(value, bytes) else ("ERR_SCHEMA", "must be bytes")


def _anything(value: Any) -> _Fault:
    return None if value is not None else ("ERR_SCHEMA", "must not be null")


def _one_of(values: tuple[str, ...]) -> _Check:
    def check(value: Any) -> _Fault:
        return None if value in values else ("ERR_SCHEMA", f"must be one of {'|'.join(values)}")

    return check


def _array(each: _Check) -> _Check:
    def check(value: Any) -> _Fault:
        if not isinstance(value, list):
            return "ERR_SCHEMA", "must be an array"
        for index, item in enumerate(value):
            if (fault := each(item)) is not None:
                return fault[0], f"entry {index} {fault[1]}"
        return None

    return check


def _record(required: Mapping[str, _Check], optional: Mapping[str, _Check]) -> _Check:
    checks = {**required, **optional}

    def check(value: Any) -> _Fault:
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


def _reference(value: Any) -> _Fault:
    # Section 27.5: citations may stand among the references; they have neither uri nor modality.
    return _CITATION(value) if isinstance(value, dict) and "citation_type" in value else _CONTENT_REF(value)


def _source(value: Any) -> _Fault:
    # Section 27.5: derived_from SHOULD accept addresses and citations.
    return None if isinstance(value, str) else _CITATION(value)


_CITATION_TYPES: Final = ("doi", "arxiv", "pmid", "isbn", "rrid", "clinicaltrials", "url")
_CITATION_ROLES: Final = ("supports", "refutes", "extends", "replicates", "uses_data", "uses_software")
_CITATION = _record(
    {"citation_type": _one_of(_CITATION_TYPES), "identifier": _text},
    {"retrieved_at": _integer, "content_hash": _text, "citation_role": _one_of(_CITATION_ROLES)},
)
_CONTENT_REF = _record(
    {"uri": _text, "modality": _text},
    {"mime_type": _text, "size_bytes": _count, "checksum": _text, "metadata": _map},
)
_EMBEDDING_REF = _record(
    {"vector_id": _text, "model": _text, "dimensions": _count},
    {
        "modality_source": _text,
        "distance_metric": _text,
        "chunk_index": _count,
        "chunk_text": _text,
        "chunk_strategy": _text,
        "chunk_overlap": _count,
    },
)
_LINK = _record(
    {"hash": _text, "relation_type": _one_of(tuple(sorted(registry.LINK_RELATIONS)))},
    {"weight": _number},
)
_POLICY = _record(
    {"mode": _text},
    {
        "authorized": _array(_text),
        "threshold": _count,
        "locked_until": _count,
        "fallback_mode": _text,
        "scope": _one_of(("grain", "subtree", "lineage")),
        "protection_reason": _text,
    },
)
_STATISTICS = _record(
    {},
    {"p_value": _number, "confidence_interval": _array(_number), "effect_size": _number, "sample_size": _count},
)
_TOKENS = _record(
    {},
    dict.fromkeys(("input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens"), _count),
)


def _fields(check: _Check, names: str) -> dict[str, _Check]:
    return dict.fromkeys(names.split(), check)


_CHECKS: Final[Mapping[str, _Check]] = {
    **_fields(
        _text,
        """type subject relation source_type author_did namespace user_id origin_did origin_namespace
        supersession_justification run_id role observer_did subject_did session_id entity_id epistemic_status
        processing_basis license invalidation_reason invalidation_initiator _disclosure_of model_id stop_reason
        parent_message_id trigger tool_name tool_call_id call_batch_id tool_version code stdout stderr interpreter_id
        error error_type parent_task_id tool_description observer_id observer_type frame_id sync_group observation_mode
        observation_scope observer_model description state_reason delegate_to delegate_from expiry_policy recurrence
        assigned_agent expected_output output_grain grantee_did basis jurisdiction prior_consent conclusion
        thinking_content return_to""",
    ),
    **_fields(
        _flag,
        "requires_human_review consolidated is_error strict is_withdrawal thinking_redacted contradicted",
    ),
    **_fields(_unit, "confidence importance"),
    **_fields(_number, "progress compression_ratio"),
    **_fields(
        _count,
        """consolidation_level success_count failure_count duration_ms evidence_required threshold agreement_count
        dissent_count delegation_depth""",
    ),
    **_fields(
        _integer,
        """valid_from valid_to system_valid_from timestamp_ms exit_code priority deadline random_seed
        delegation_expiry""",
    ),
    **_fields(_map, "context input input_schema output_schema software_environment parameter_set _elided"),
    **_fields(
        _array(_text),
        """structural_tags plan steps criteria parent_goals satisfaction_evidence rollback_on_failure
        allowed_transitions depends_on scope witness_dids premises participating_observers dissent_grains
        authorized_namespaces authorized_tools context_grains""",
    ),
    **_fields(_array(_map), "history criteria_structured"),
    **_fields(_text_or_map, "object agreed_content"),
    **{name: _one_of(values) for name, values in CLOSED.items()},
    "goal_state": _text,
    "created_at": _created_at,
    "category": _octet,
    "authorized_types": _array(_octet),
    "derived_from": _array(_source),
    "provenance_chain": _array(_record({}, {"source_hash": _text, "method": _text, "weight": _unit})),
    "content_refs": _array(_reference),
    "embedding_refs": _array(_EMBEDDING_REF),
    "related_to": _array(_LINK),
    "invalidation_policy": _POLICY,
    "supersession_auth": _array(_anything),
    "owner": _record({"type": _one_of(("human", "org")), "name": _text}, {}),
    "retention_policy": _record(
        {}, {"minimum_retention_years": _count, "regulation": _text, "deletion_requires": _text}
    ),
    "trusted_timestamp": _record({}, {"tsp_response": _binary, "tsa_uri": _text}),
    "content_blocks": _array(_record({"type": _text}, {})),
    "token_usage": _TOKENS,
    "statistical_context": _STATISTICS,
    "alternatives_considered": _array(_record({}, {"hypothesis": _text, "rejection_reason": _text})),
}


def check(fields: Fields, type_byte: int) -> None:
    """Raise GrainError with the first code and every message if the fields are not those of the type."""
    if found := problems(fields, type_byte):
        raise GrainError("; ".join(problem.message for problem in found), oms_code=found[0].oms_code)


def problems(fields: Fields, type_byte: int) -> list[Problem]:
    """Everything wrong with fields in normal form, under their full names."""
    found = [] if "created_at" in fields else [_missing("created_at")]
    checks = _CHECKS
    for name, value in fields.items():
        checker = checks.get(name)
        if checker is not None and (fault := checker(value)) is not None:
            found.append(Problem(fault[0], f"{name} {fault[1]}"))
    kind = BY_BYTE.get(type_byte)
    if kind is not None:
        elided = _elided(fields, type_byte) if "_elided" in fields else ()
        filled = kind.filled
        for name in kind.required:
            if name not in fields:
                if name not in elided:
                    found.append(_missing(name))
            elif not fields[name] and name in filled and isinstance(fields[name], str | list):
                found.append(_empty(name))
        if (more := _MORE.get(type_byte)) is not None:
            found.extend(more(fields, elided))
    return found


def _missing(name: str) -> Problem:
    return Problem("ERR_SCHEMA", f"{name} is required")


def _empty(name: str) -> Problem:
    return Problem("ERR_EMPTY", f"{name} must not be empty")


def _elided(fields: Fields, type_byte: int) -> tuple[str, ...]:
    # Section 10: a disclosed view lacks what it lists here; whether under full or short names is left open.
    elided = fields["_elided"]
    if not isinstance(elided, dict) or "_disclosure_of" not in fields:
        return ()
    names = (full_name(key, type_byte) for key in elided)
    return tuple(name for name in names if name not in registry.NOT_ELIDABLE)


def _event(fields: Fields, elided: tuple[str, ...]) -> Iterator[Problem]:
    if "content" in fields:
        if (fault := _text(fields["content"])) is not None:
            yield Problem(fault[0], f"content {fault[1]}")
        elif not fields["content"]:
            yield _empty("content")
    elif "content" not in elided and not fields.get("content_blocks") and not _has_triple(fields, elided):
        # Sections 6.2 and 8.2: content MAY be omitted if blocks, or a whole triple, say what happened.
        yield _missing("content")


def _has_triple(fields: Fields, elided: tuple[str, ...]) -> bool:
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
_NAMES_OF_TOOLS: Final = ("tool_name", "tool_description", "tool_call_id")


def _action(fields: Fields, elided: tuple[str, ...]) -> Iterator[Problem]:
    phase = fields.get("action_phase")
    if not (phase is None or isinstance(phase, str)):
        return
    required = _PHASE_REQUIRES.get(phase, ())
    if fields.get("execution_mode") == "code_exec":
        required = _CODE_REQUIRES.get(phase, required)
    for name in required:
        if name not in fields:
            if name not in elided:
                yield _missing(name)
        elif name in _NAMES_OF_TOOLS and fields[name] == "":
            yield _empty(name)
    for name in _PHASE_FORBIDS.get(phase, ()):
        if name in fields:
            yield Problem("ERR_SCHEMA", f"{name} does not belong in an action of phase {phase}")


def _observation(fields: Fields, _: tuple[str, ...]) -> Iterator[Problem]:
    observer = fields.get("observer_type")
    if observer == "human" and "observer_model" in fields:
        # Section 24.2.
        yield Problem("ERR_SCHEMA", "observer_model must be absent when the observer is human")
    if isinstance(observer, str) and observer.startswith(registry.TRIGGER_PREFIX):
        return
    for name, values in (
        ("observation_mode", registry.OBSERVATION_MODES),
        ("observation_scope", registry.OBSERVATION_SCOPES),
    ):
        if name in fields and fields[name] not in values:
            yield Problem("ERR_SCHEMA", f"{name} must be one of {'|'.join(values)}")


def _goal(fields: Fields, _: tuple[str, ...]) -> Iterator[Problem]:
    if "goal_state" in fields and fields["goal_state"] not in registry.GOAL_STATES:
        yield Problem("ERR_SCHEMA", f"goal_state must be one of {'|'.join(registry.GOAL_STATES)}")


def _consent(fields: Fields, elided: tuple[str, ...]) -> Iterator[Problem]:
    if fields.get("is_withdrawal") is True and "prior_consent" not in fields and "prior_consent" not in elided:
        # Section 8.10: a withdrawal MUST name what it withdraws.
        yield Problem("ERR_SCHEMA", "prior_consent is required on a withdrawal")


_MORE: Final[Mapping[int, Callable[[Fields, tuple[str, ...]], Iterator[Problem]]]] = {
    0x02: _event,
    ACTION_BYTE: _action,
    0x06: _observation,
    0x07: _goal,
    0x0A: _consent,
}
