"""RunEventDoc: every memory-related type, content-free by construction."""

from __future__ import annotations

import contextlib
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.openwop.logs import RECORDED_FACTS
from tests.standards.openwop.strategies import json_values

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant, parse_instant
from memoranda.standards.openwop import events
from memoranda.standards.openwop.events import Event, build_event, check_event, check_payload, copy_for_replay, encode

AT = parse_instant("2026-06-04T10:00:00.123Z")
REF = "mem://conformance/consolidation"
# Each type with everything it may say.
PAYLOADS: dict[str, dict[str, Any]] = {
    events.MEMORY_WRITTEN: {
        "memoryRef": REF,
        "memoryId": "mem_1",
        "nodeId": "n1",
        "agentId": "core.chat",
        "tags": ["source:session"],
    },
    events.MEMORY_COMPACTED: {
        "memoryRef": REF,
        "outputId": "mem_9",
        "sourceIds": ["mem_1", "mem_2"],
        "sourceCount": 2,
        "trigger": "host-managed",
        "byteSize": 0,
        "distillation": {"tokenBudget": 8000, "tokensUsed": 8000, "indexUpdated": True},
    },
    events.MEMORY_CONSOLIDATED: {
        "memoryRef": REF,
        "inputCount": 3,
        "outputCount": 3,
        "mergedIds": [],
        "trigger": "on-demand",
    },
    events.COMMITMENT_FIRED: {
        "commitmentId": "c1",
        "memoryRef": REF,
        "condition": "predicate",
        "memoryId": "mem_1",
        "enqueuedRunId": "run_2",
    },
    events.PROPOSAL_CREATED: {
        "proposalId": "p1",
        "kind": "automation",
        "sourceRunIds": ["run_1"],
        "duplicateOf": None,
    },
    events.PROPOSAL_ACTIVATED: {
        "proposalId": "p1",
        "kind": "agent-pack",
        "installedArtifactRef": "vendor.a.b@1.0.0",
        "approvalId": None,
    },
    events.WORKSPACE_UPDATED: {"path": "MEMORY-INDEX.json", "version": 1},
}
REQUIRED = {
    events.MEMORY_WRITTEN: {"memoryRef", "memoryId"},
    events.MEMORY_COMPACTED: {"memoryRef", "outputId", "sourceCount", "trigger", "byteSize"},
    events.MEMORY_CONSOLIDATED: {"memoryRef", "inputCount", "outputCount"},
    events.COMMITMENT_FIRED: {"commitmentId", "memoryRef", "condition"},
    events.PROPOSAL_CREATED: {"proposalId", "kind"},
    events.PROPOSAL_ACTIVATED: {"proposalId", "kind", "installedArtifactRef"},
    events.WORKSPACE_UPDATED: {"path", "version"},
}
CLOSED = {events.PROPOSAL_CREATED, events.PROPOSAL_ACTIVATED, events.WORKSPACE_UPDATED}
ANY_TYPE = pytest.mark.parametrize("kind", PAYLOADS)


def made(kind: str, payload: dict[str, Any] | None = None, sequence: int = 0) -> Event:
    return build_event(kind, PAYLOADS[kind] if payload is None else payload, "run_1", sequence, AT)


@pytest.mark.requirement("WOP-1.4-event")
@ANY_TYPE
def test_an_event_has_exactly_what_the_schema_asks_for(kind: str) -> None:
    assert made(kind) == {
        "eventId": "run_1:0",
        "runId": "run_1",
        "type": kind,
        "payload": PAYLOADS[kind],
        "timestamp": "2026-06-04T10:00:00.123Z",
        "sequence": 0,
    }
    assert set(PAYLOADS) == events.MEMORY_TYPES


@pytest.mark.requirement("WOP-1.5-payloads")
@ANY_TYPE
def test_required_fields_are_required_and_the_others_are_not(kind: str) -> None:
    for name in PAYLOADS[kind]:
        without = {key: value for key, value in PAYLOADS[kind].items() if key != name}
        if name in REQUIRED[kind]:
            with pytest.raises(InvalidInput, match=name):
                made(kind, without)
        else:
            assert made(kind, without)


@pytest.mark.requirement("WOP-1.5-content-free")
@ANY_TYPE
def test_nothing_but_the_table_can_be_said(kind: str) -> None:
    for extra in ({"note": "x"}, {"content": "x"}, {"text": "x"}, {"intention": "x"}, {"rationale": "x"}):
        with pytest.raises(InvalidInput, match=next(iter(extra))):
            made(kind, {**PAYLOADS[kind], **extra})


@pytest.mark.requirement("WOP-1.5-content-free")
@ANY_TYPE
def test_content_is_refused_at_any_depth_also_when_reading(kind: str) -> None:
    for extra in ({"content": ""}, {"x": [{"content": "x"}]}, {"x": {"y": {"content": None}}}):
        with pytest.raises(InvalidInput, match="content"):
            check_payload(kind, {**PAYLOADS[kind], **extra})


@pytest.mark.requirement("WOP-1.5-extra-keys")
@ANY_TYPE
def test_a_reader_tolerates_other_keys_where_the_schema_does(kind: str) -> None:
    payload = {**PAYLOADS[kind], "vendorField": 1}
    if kind in CLOSED:
        with pytest.raises(InvalidInput, match="vendorField"):
            check_payload(kind, payload)
    else:
        assert check_payload(kind, payload) is payload


@pytest.mark.requirement("WOP-1.5-payloads")
@ANY_TYPE
def test_no_string_is_empty_and_no_value_has_another_type(kind: str) -> None:
    for name, value in PAYLOADS[kind].items():
        wrong: list[object] = ["", {"x": 1}, [1], [""], -1, 1.5, True]
        if value is not None and not isinstance(value, list):
            wrong.append(None)
        for bad in wrong:
            if type(bad) is type(value) and bad not in ("", [""], [1], -1):
                continue
            if name == "distillation" and bad == {"x": 1}:
                bad = {"tokenBudget": 1, "tokensUsed": 0, "x": 1}
            with pytest.raises(InvalidInput):
                made(kind, {**PAYLOADS[kind], name: bad})


@pytest.mark.requirement("WOP-1.5-payloads")
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (events.MEMORY_COMPACTED, {"sourceCount": 0}),
        (events.MEMORY_COMPACTED, {"sourceCount": 3}),
        (events.MEMORY_COMPACTED, {"trigger": "scheduled"}),
        (events.MEMORY_COMPACTED, {"distillation": {"tokenBudget": 8000, "tokensUsed": 8001}}),
        (events.MEMORY_COMPACTED, {"distillation": {"tokenBudget": 0, "tokensUsed": 0}}),
        (events.MEMORY_COMPACTED, {"distillation": {"tokenBudget": 8000}}),
        (events.MEMORY_COMPACTED, {"distillation": {"tokenBudget": 9, "tokensUsed": 1, "archive": "x"}}),
        (events.MEMORY_CONSOLIDATED, {"outputCount": 4}),
        (events.MEMORY_CONSOLIDATED, {"trigger": "client-requested"}),
        (events.COMMITMENT_FIRED, {"condition": "mood"}),
        (events.PROPOSAL_CREATED, {"kind": "rule"}),
        (events.PROPOSAL_ACTIVATED, {"kind": "rule"}),
        (events.WORKSPACE_UPDATED, {"version": 0}),
        (events.MEMORY_WRITTEN, {"memoryRef": "x" * 257}),
    ],
)
def test_a_payload_that_breaks_the_table_is_refused(kind: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"event\.payload"):
        made(kind, {**PAYLOADS[kind], **changes})


@pytest.mark.requirement("WOP-1.5-source-ids")
def test_the_sources_are_all_named_or_not_at_all() -> None:
    many = {**PAYLOADS[events.MEMORY_COMPACTED], "sourceCount": 5000}
    del many["sourceIds"]
    assert made(events.MEMORY_COMPACTED, many)


# --- other types -------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-1.4-vendor-types")
def test_a_vendor_may_have_types_of_its_own_but_not_the_standards_words() -> None:
    for kind in ("run.started", "run.completed", "node.started", "acme.memory.pruned"):
        assert build_event(kind, {}, "r", 0, AT)["type"] == kind
    for kind in ("core.x", "openwop.x", "vendor.x", "private.x", "local.x", "community.x", "memory.read", "run.eaten"):
        with pytest.raises(InvalidInput, match="standard"):
            build_event(kind, {}, "r", 0, AT)
    for kind in ("written", "", "a..b", "Ä.b", "a.b " * 40):
        with pytest.raises(InvalidInput, match="type"):
            build_event(kind, {}, "r", 0, AT)


@pytest.mark.requirement("WOP-1.4-unknown-types")
def test_a_reader_does_not_fall_over_a_type_it_does_not_know() -> None:
    unknown = {**made(events.MEMORY_WRITTEN), "type": "core.workflowChain.event", "payload": ["anything"], "extra": 1}
    assert check_event(unknown) is unknown


def test_a_payload_that_says_how_a_run_went_has_a_limit() -> None:
    with pytest.raises(InvalidInput, match="bytes"):
        build_event("run.failed", {"message": "x" * 70_000}, "r", 0, AT)


# --- documents ---------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-1.4-event")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("eventId", ""),
        ("eventId", "x" * 129),
        ("runId", ""),
        ("runId", None),
        ("sequence", -1),
        ("sequence", "0"),
        ("timestamp", "now"),
        ("nodeId", ""),
        ("causationId", 1),
        ("schemaVersion", -1),
        ("payload", "x"),
    ],
)
def test_a_document_that_breaks_the_schema_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=field):
        check_event({**made(events.MEMORY_WRITTEN), field: value})


def test_what_is_optional_stands_there_only_if_it_is_given() -> None:
    assert build_event("run.started", {}, "r", 3, AT, node_id="n")["nodeId"] == "n"
    assert "nodeId" not in build_event("run.started", {}, "r", 3, AT)


@given(st.text(min_size=1, max_size=128), st.integers(0, 10**9))
def test_every_event_of_every_run_has_an_id_that_fits(run_id: str, sequence: int) -> None:
    name = events.default_event_id(run_id, sequence)
    assert 0 < len(name) <= 128
    assert name != events.default_event_id(run_id, sequence + 1)


@ANY_TYPE
def test_a_document_is_the_same_bytes_whatever_its_order(kind: str) -> None:
    document = made(kind)
    turned = cast(Event, dict(reversed(document.items())))
    assert encode(document) == encode(turned)
    assert json_text.parse(encode(document)) == document


@pytest.mark.requirement("WOP-3-replay")
@pytest.mark.parametrize("kind", sorted(RECORDED_FACTS))
def test_a_replay_repeats_a_fact_with_its_ids_and_its_time(kind: str) -> None:
    source = made(kind, sequence=4)
    copy = copy_for_replay(source, "fork_1", 2)
    assert {name: copy[name] for name in ("type", "payload", "timestamp")} == {
        name: source[name] for name in ("type", "payload", "timestamp")
    }
    assert (copy["runId"], copy["sequence"], copy["causationId"]) == ("fork_1", 2, source["eventId"])
    assert copy["eventId"] != source["eventId"]


@given(json_values, json_values)
def test_no_json_at_all_makes_a_check_fall_over(value: object, payload: object) -> None:
    for kind in PAYLOADS:
        with contextlib.suppress(InvalidInput):
            check_payload(kind, payload, refuse_unknown=True)
        with contextlib.suppress(InvalidInput):
            check_event({**made(kind), "payload": payload, "nodeId": value})
    with contextlib.suppress(InvalidInput):
        check_event(value)


def test_an_event_is_stamped_to_the_millisecond() -> None:
    assert build_event("run.started", {}, "r", 0, Instant(1))["timestamp"] == "1970-01-01T00:00:00.001Z"
