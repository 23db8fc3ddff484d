"""What the fields of each type must be."""

from __future__ import annotations

from typing import Any

import pytest
from tests.standards.oms.published import ADDRESS, CREATED_AT, DID, TYPE_NAMES, belief, of_type, refused

from memoranda.standards.oms import canonical, grains, registry
from memoranda.standards.oms.fields import compact
from memoranda.standards.oms.header import Header, namespace_hash

REQUIRED = {
    "belief": ["subject", "relation", "object", "confidence"],
    "event": ["content"],
    "state": ["context"],
    "workflow": ["steps", "trigger"],
    "action": ["tool_name", "input", "content", "is_error"],
    "observation": ["observer_id", "observer_type"],
    "goal": ["description", "goal_state"],
    "reasoning": [],
    "consensus": ["participating_observers", "threshold", "agreement_count", "dissent_count"],
    "consent": ["subject_did", "grantee_did", "scope", "is_withdrawal"],
}
FILLED = [
    ("belief", "subject"),
    ("belief", "relation"),
    ("event", "content"),
    ("workflow", "trigger"),
    ("action", "tool_name"),
    ("observation", "observer_id"),
    ("observation", "observer_type"),
    ("goal", "description"),
    ("consent", "subject_did"),
    ("consent", "grantee_did"),
]


def blob_of(fields: dict[str, Any], type_byte: int = 1) -> bytes:
    """The bytes that a careless writer would make: canonical, but not validated."""
    seconds = fields.get("created_at", CREATED_AT)
    header = Header(1, 0, type_byte, namespace_hash(fields.get("namespace", "shared")), seconds // 1000)
    return header.pack() + canonical.encode_value(compact(fields, type_byte))


@pytest.mark.requirement("OMS-8-ten-types")
@pytest.mark.parametrize("name", TYPE_NAMES)
def test_every_standard_type_is_written_and_read(name: str) -> None:
    grain = grains.encode(of_type(name))
    assert (grain.type_name, grain.type_byte) == (name, TYPE_NAMES.index(name) + 1)
    assert grain.header.type_byte == grain.type_byte
    for cbor in (False, True):
        grain = grains.encode(of_type(name), cbor=cbor)
        assert grains.decode(grain.blob, address=grain.address) == grain


@pytest.mark.requirement("OMS-8-required", "OMS-4.9-validate-first")
@pytest.mark.parametrize("name", TYPE_NAMES)
def test_every_required_field_is_required_both_ways(name: str) -> None:
    for field in [*REQUIRED[name], "created_at"]:
        fields = of_type(name, **{field: None})
        with refused("ERR_SCHEMA", f"{field} is required"):
            grains.encode(fields)
        with refused("ERR_SCHEMA", f"{field} is required"):
            grains.decode(blob_of(fields, registry.BY_NAME[name].byte))


@pytest.mark.requirement("OMS-19.3-empty")
@pytest.mark.parametrize(("name", "field"), FILLED)
def test_required_texts_are_not_empty(name: str, field: str) -> None:
    fields = of_type(name, **{field: ""})
    with refused("ERR_EMPTY", field):
        grains.encode(fields)
    with refused("ERR_EMPTY", field):
        grains.decode(blob_of(fields, registry.BY_NAME[name].byte))


@pytest.mark.requirement("OMS-19.3-empty")
def test_a_workflow_has_a_step() -> None:
    with refused("ERR_EMPTY", "steps"):
        grains.encode(of_type("workflow", steps=[]))


@pytest.mark.requirement("OMS-19.3-range")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("confidence", -0.1),
        ("confidence", 1.1),
        ("importance", 1.0000001),
        ("success_count", -1),
        ("failure_count", -1),
        ("consolidation_level", -1),
        ("category", 256),
        ("created_at", -1),
        ("created_at", 2**32 * 1000),
        ("valid_from", 2**63),
        ("provenance_chain", [{"source_hash": "x", "method": "m", "weight": 1.5}]),
        ("embedding_refs", [{"vector_id": "v", "model": "m", "dimensions": -3}]),
    ],
)
def test_numbers_out_of_range_are_refused(field: str, value: Any) -> None:
    with refused("ERR_RANGE", field):
        grains.encode(belief(**{field: value}))


@pytest.mark.requirement("OMS-8-field-types")
@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("belief", "subject", 5),
        ("belief", "object", 5),
        ("belief", "object", ["a"]),
        ("belief", "confidence", "high"),
        ("belief", "confidence", True),
        ("belief", "created_at", 1.5),
        ("belief", "created_at", "yesterday"),
        ("belief", "created_at", "2026-01-15T10:00:00"),
        ("belief", "structural_tags", "tag"),
        ("belief", "structural_tags", [1]),
        ("belief", "temporal_type", "sometimes"),
        ("belief", "recall_priority", "tepid"),
        ("belief", "identity_state", "guessed"),
        ("belief", "invalidation_type", "oops"),
        ("belief", "context", "text"),
        ("belief", "requires_human_review", 1),
        ("belief", "related_to", [{"hash": ADDRESS, "relation_type": "dislikes"}]),
        ("belief", "related_to", [{"relation_type": "similar"}]),
        ("belief", "related_to", [{"hash": ADDRESS, "relation_type": "similar", "weight": "much"}]),
        ("belief", "content_refs", [{"uri": "u"}]),
        ("belief", "content_refs", ["u"]),
        ("belief", "content_refs", [{"citation_type": "rumour", "identifier": "x"}]),
        ("belief", "embedding_refs", [{"vector_id": "v", "model": "m"}]),
        ("belief", "derived_from", [7]),
        ("belief", "invalidation_policy", {"authorized": [DID]}),
        ("belief", "invalidation_policy", {"mode": "locked", "authorized": DID}),
        ("belief", "invalidation_policy", {"mode": "locked", "scope": "galaxy"}),
        ("belief", "owner", {"name": "Acme"}),
        ("belief", "owner", {"type": "cat", "name": "Tom"}),
        ("event", "content", 5),
        ("event", "content_blocks", [{"text": "no type"}]),
        ("event", "token_usage", {"input_tokens": "many"}),
        ("state", "plan", [1]),
        ("goal", "goal_state", "done"),
        ("goal", "allowed_transitions", "satisfied"),
        ("observation", "observation_mode", "sleepy"),
        ("observation", "observation_scope", "galaxy"),
        ("reasoning", "inference_method", "guess"),
        ("reasoning", "statistical_context", {"p_value": "small"}),
        ("consensus", "threshold", 1.5),
        ("consent", "is_withdrawal", "no"),
        ("action", "tool_type", "odd"),
        ("action", "execution_mode", "odd"),
        ("action", "action_phase", "odd"),
    ],
)
def test_values_of_the_wrong_kind_are_refused(name: str, field: str, value: Any) -> None:
    with refused("ERR_SCHEMA", field):
        grains.encode(of_type(name, **{field: value}))


@pytest.mark.requirement("OMS-8.2-event-content")
def test_an_event_needs_content_or_blocks_or_a_triple() -> None:
    triple = {"subject": "user", "relation": "mg:said", "object": "hello"}
    grains.encode(of_type("event", content=None, content_blocks=[{"type": "text", "text": "hello"}]))
    grains.encode(of_type("event", content=None, **triple))
    with refused("ERR_SCHEMA", "content"):
        grains.encode(of_type("event", content=None, subject="user"))
    with refused("ERR_SCHEMA", "content"):
        grains.encode(of_type("event", content=None, content_blocks=[]))


DEFINITION = {"tool_description": "boils", "input_schema": {"type": "object"}, "input": None, "content": None}
RESULT = {"tool_call_id": "c1", "derived_from": [ADDRESS], "tool_name": None, "input": None}
PHASES: dict[str, dict[str, Any]] = {
    "definition": {**DEFINITION, "is_error": None},
    "call": {"content": None, "is_error": None},
    "result": RESULT,
}


@pytest.mark.requirement("OMS-27.1-phases")
@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_of_an_action_has_its_fields(phase: str) -> None:
    grain = grains.encode(of_type("action", action_phase=phase, **PHASES[phase]))
    assert grains.decode(grain.blob).fields["action_phase"] == phase


@pytest.mark.requirement("OMS-27.1-phases")
@pytest.mark.parametrize(
    ("phase", "field"),
    [
        ("definition", "tool_name"),
        ("definition", "tool_description"),
        ("definition", "input_schema"),
        ("call", "tool_name"),
        ("call", "input"),
        ("result", "tool_call_id"),
        ("result", "content"),
        ("result", "is_error"),
        ("result", "derived_from"),
    ],
)
def test_a_phase_without_its_field_is_refused(phase: str, field: str) -> None:
    with refused("ERR_SCHEMA", f"{field} is required"):
        grains.encode(of_type("action", action_phase=phase, **{**PHASES[phase], field: None}))


@pytest.mark.requirement("OMS-27.1-phases")
@pytest.mark.parametrize(
    ("phase", "field", "value"),
    [
        ("definition", "input", {}),
        *[("definition", field, 1) for field in ("exit_code", "duration_ms")],
        *[("definition", field, "x") for field in ("content", "stdout", "stderr")],
        ("definition", "is_error", False),
        *[("call", field, 1) for field in ("exit_code", "duration_ms")],
        *[("call", field, "x") for field in ("content", "stdout", "stderr")],
        ("call", "is_error", False),
    ],
)
def test_a_phase_with_what_it_must_not_have_is_refused(phase: str, field: str, value: Any) -> None:
    with refused("ERR_SCHEMA", f"{field} does not belong"):
        grains.encode(of_type("action", action_phase=phase, **{**PHASES[phase], field: value}))


def test_running_code_needs_the_code_but_no_tool() -> None:
    """The specification's own example, which its own table would refuse."""
    example = {
        "type": "action",
        "execution_mode": "code_exec",
        "code": "print(1)",
        "interpreter_id": "session-abc123",
        "stdout": "1",
        "exit_code": 0,
        "is_error": False,
        "created_at": 1737000000000,
    }
    assert grains.encode(example).type_byte == registry.ACTION_BYTE
    with refused("ERR_SCHEMA", "code is required"):
        grains.encode({name: value for name, value in example.items() if name != "code"})


@pytest.mark.requirement("OMS-17.2-observer")
@pytest.mark.parametrize("observer", ["lidar", "llm", "acme:thermal-v2", "never heard of", "human"])
def test_any_observer_type_is_accepted_and_written_under_its_key(observer: str) -> None:
    blob = grains.encode(of_type("observation", observer_type=observer)).blob
    payload = canonical.decode_value(blob[9:])
    assert (payload["oid"], payload["otype"]) == ("t-1", observer)


@pytest.mark.requirement("OMS-24.2-human")
def test_a_human_has_no_model() -> None:
    with refused("ERR_SCHEMA", "observer_model"):
        grains.encode(of_type("observation", observer_type="human", observer_model="gpt"))


def test_a_trigger_is_an_observation_with_modes_of_its_own() -> None:
    grains.encode(
        of_type(
            "observation", observer_type="trigger:polling", observation_mode="periodic", observation_scope="repos/x"
        )
    )


@pytest.mark.requirement("OMS-8.10-withdrawal")
def test_a_withdrawal_names_what_it_withdraws() -> None:
    grains.encode(of_type("consent", is_withdrawal=True, prior_consent=ADDRESS))
    with refused("ERR_SCHEMA", "prior_consent"):
        grains.encode(of_type("consent", is_withdrawal=True))


@pytest.mark.requirement("OMS-27.5-citations")
def test_citations_may_stand_among_references_and_sources() -> None:
    citation = {
        "citation_type": "doi",
        "identifier": "10.1038/x",
        "retrieved_at": CREATED_AT,
        "citation_role": "supports",
    }
    grain = grains.encode(belief(content_refs=[citation], derived_from=[ADDRESS, citation]))
    assert grains.decode(grain.blob).fields["content_refs"] == [citation]
    with refused("ERR_SCHEMA", "derived_from"):
        grains.encode(belief(derived_from=[{"identifier": "x"}]))


@pytest.mark.requirement("OMS-10-views")
@pytest.mark.parametrize("key", ["subject", "s"])
def test_a_disclosed_view_may_lack_what_it_says_it_elided(key: str) -> None:
    view = belief(
        subject=None, namespace=None, _elided={key: "sha256:00", "namespace": "sha256:00"}, _disclosure_of=ADDRESS
    )
    grain = grains.encode(view)
    assert grains.decode(grain.blob).fields == view


@pytest.mark.requirement("OMS-10-views")
def test_a_claim_of_elision_does_not_excuse_everything() -> None:
    with refused("ERR_SCHEMA", "subject is required"):
        grains.encode(belief(subject=None, _elided={"subject": "sha256:00"}))
    with refused("ERR_SCHEMA", "confidence is required"):
        grains.encode(belief(confidence=None, _elided={"confidence": "sha256:00"}, _disclosure_of=ADDRESS))


def test_all_problems_are_told_at_once() -> None:
    wrong = {"type": "belief", "confidence": 2, "subject": "", "superseded_by": ADDRESS}
    with refused("ERR_SCHEMA") as told:
        grains.encode(wrong)
    for name in ("confidence", "subject", "superseded_by", "relation", "object"):
        assert name in str(told.value)


def test_problems_have_codes_of_the_standard() -> None:
    assert len(registry.ERROR_CODES) == 17
    assert len(registry.MG_RELATIONS) == 21
    assert len(registry.LINK_RELATIONS) == 11
