"""Documents of openwop 2: ids with their tenant, renamed events, records of capabilities, codes of errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.openwop.samples import EVENT_TYPES_OF_BOTH

from memoranda.errors import Conflict, InvalidInput, MemorandaError, NotFound, WorkflowError
from memoranda.model.instant import Instant
from memoranda.standards.openwop import capabilities, events, problem
from memoranda.standards.openwop.version_two import (
    CreateRunRequest,
    ListRequest,
    add_versions,
    bind_id,
    event_type,
    first_event_type,
    path_segment,
    read_id,
    require_first_major,
    select_major,
    show_discovery,
    show_event,
    show_problem,
    show_run,
    slice_page,
    tenant_id,
)

BOUND = re.compile(r"[A-Za-z0-9._-]{1,128}/[A-Za-z0-9._-]{16,128}")
TYPE = re.compile(
    r"(?!openwop\.)[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9]*(-[a-z0-9]+)*(\.[a-z][a-z0-9]*(-[a-z0-9]+)*)?"
)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", fullmatch=True)
TENANTS = st.text(min_size=1, max_size=200) | st.just("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")


def refused(code: str, act: Any) -> None:
    with pytest.raises(WorkflowError) as raised:
        act()
    assert raised.value.openwop_code == code


@pytest.mark.requirement("WOP2-1.3-selection")
def test_the_major_version_alone_selects_and_others_are_refused_with_the_list() -> None:
    assert [select_major(text) for text in (None, "1", "1.7", "2", "2.0", " 2.9 ")] == [1, 1, 1, 2, 2, 2]
    for text in ("3", "0", "two", "", "02", "2.0.0", "²"):
        refused("protocol_version_unsupported", lambda text=text: select_major(text))
    for accepted in (None, "1", "1.1"):
        require_first_major(accepted)
    refused("protocol_version_mismatch", lambda: require_first_major("2.0"))


@pytest.mark.requirement("WOP2-5-ids")
@given(name=NAMES, tenant=TENANTS)
def test_an_id_with_its_tenant_is_read_back_in_every_spelling(name: str, tenant: str) -> None:
    bound = bind_id(name, tenant)
    assert BOUND.fullmatch(bound)
    segment = path_segment(bound)
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", segment)
    for spelling in (bound, segment, segment.replace("~", "%"), name):
        assert read_id(spelling, tenant) == name


@pytest.mark.requirement("WOP2-5-ids")
def test_an_id_of_another_tenant_is_refused_before_anything_is_looked_up() -> None:
    refused("id_tenant_mismatch", lambda: read_id(bind_id("run_1", "did:example:ada"), "did:example:bob"))
    refused("id_tenant_mismatch", lambda: read_id("/run_1", "ada"))
    with pytest.raises(NotFound):
        read_id("~FF~FE", "ada")
    assert tenant_id("did:example:ada") != tenant_id("did:example:bob")
    assert tenant_id("tenant-a") == "tenant-a"


@pytest.mark.requirement("WOP2-events-names")
@pytest.mark.parametrize(("first", "second"), EVENT_TYPES_OF_BOTH)
def test_a_type_has_the_name_of_the_code_map(first: str, second: str) -> None:
    assert event_type(first) == second
    assert first_event_type(second) == first


@pytest.mark.requirement("WOP2-events-names")
@given(st.from_regex(r"[a-z][A-Za-z0-9_-]{0,12}(\.[A-Za-z][A-Za-z0-9_-]{0,12}){1,4}", fullmatch=True))
def test_a_vendors_type_becomes_words_with_hyphens(name: str) -> None:
    shown = event_type(name)
    assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)*", shown), shown
    assert event_type(shown) == shown
    if TYPE.fullmatch(name):
        assert shown == name


@pytest.mark.requirement("WOP2-events-envelope")
def test_an_event_has_the_closed_envelope_and_its_ids_are_bound() -> None:
    started = events.build_event("run.started", {"workflowId": "w"}, "r1", 0, Instant(0))
    shown = show_event(started, "ada")
    assert set(shown) == {"eventId", "runId", "type", "payload", "timestamp", "sequence", "schemaVersion"}
    assert (shown["runId"], shown["schemaVersion"]) == ("ada/--------------r1", 1)
    assert shown["payload"]["owner"]["subject"]["issuer"] == "urn:openwop:legacy"
    assert re.fullmatch(r"[A-Za-z0-9._~-]{16,128}", shown["eventId"])
    ended = show_event(events.build_event("run.completed", {}, "r1", 1, Instant(0)), "ada")
    assert ended["payload"] == {"outputs": {}}
    fired = {"commitmentId": "c", "memoryRef": "m", "condition": "time", "enqueuedRunId": "r2"}
    payload = show_event(events.build_event("commitment.fired", fired, "r1", 2, Instant(0)), "ada")["payload"]
    assert payload["enqueuedRunId"] == "ada/--------------r2"
    # A vendor's own payload is carried as it is, whatever it is.
    strange = events.build_event("acme.thing", {"sourceRunIds": "none", "enqueuedRunId": 7}, "r1", 3, Instant(0))
    assert show_event(strange, "ada")["payload"] == {"sourceRunIds": "none", "enqueuedRunId": 7}


@pytest.mark.requirement("WOP2-runs-snapshot")
def test_a_snapshot_is_closed_and_names_its_owner() -> None:
    first = {"runId": "r1", "workflowId": "w", "status": "failed", "variables": {}, "owner": {"tenant": "ada"}}
    more = {
        "startedAt": "2026-01-01T00:00:00Z",
        "error": {"code": "c", "message": "m"},
        "workspace": [],
        "sourceRunId": "r0",
    }
    shown = show_run({**first, **more}, "ada")
    assert set(shown) == {*first, "startedAt", "error", "eventLogSchemaVersion"}
    assert (shown["owner"]["tenant"], shown["eventLogSchemaVersion"]) == ("ada", 2)


@pytest.mark.requirement("WOP2-capabilities-records")
def test_discovery_has_records_and_nothing_of_version_one() -> None:
    offer = capabilities.CapabilityOffer(
        memory=True,
        long_term=True,
        search_modes=("filter",),
        attribution=True,
        replay_modes=("replay",),
        webhooks=True,
        proposals=capabilities.Proposals(kinds=("automation",), activation="direct-rbac"),
        fixtures=("f",),
        extra={"implementation": {"name": "m"}},
    )
    document = capabilities.build_discovery(offer)
    root = show_discovery(document)
    metadata = {"protocolVersions", "preferredVersion", "eventLogSchemaVersion", "implementation", "fixtures"}
    assert set(root) - metadata == {"memory", "agents", "replay", "webhooks", "runList"}
    for name in set(root) - metadata:
        assert {"status", "since", "witness"} <= set(root[name])
        assert root[name]["since"] in root["protocolVersions"]
    assert "supported" not in str(root)
    assert root["memory"]["search"] == {"modes": ["filter"]}
    assert root["agents"]["proposals"]["clientDrafts"] is True
    assert root["preferredVersion"] == "1.1"
    assert add_versions(document) == {**document, "protocolVersions": ["1.1", "2.0"], "preferredVersion": "1.1"}


@pytest.mark.requirement("WOP2-errors")
@pytest.mark.parametrize(
    ("error", "path", "expected"),
    [
        (NotFound("x"), "/runs/x", (404, "not_found")),
        (WorkflowError("x", openwop_code=problem.SUBSCRIPTION_NOT_FOUND), "/webhooks/x", (404, "not_found")),
        (WorkflowError("x", openwop_code=problem.INVALID_FROM_SEQ), "/runs/x:fork", (422, "fork_point_invalid")),
        (
            WorkflowError("x", openwop_code=problem.SNAPSHOT_UNAVAILABLE),
            "/runs/x:fork",
            (409, "replay_memory_snapshot_unavailable"),
        ),
        (Conflict("x"), "/runs/x/cancel", (409, "run_state_conflict")),
        (Conflict("x"), "/proposals/x:apply", (409, "proposal_state_conflict")),
        (Conflict("x"), "/webhooks", (422, "storage_limit_exceeded")),
    ],
)
def test_an_error_has_its_code_of_version_two(error: MemorandaError, path: str, expected: tuple[int, str]) -> None:
    status, envelope = show_problem(*problem.problem_of(error), path)
    assert (status, envelope["error"]) == expected


@pytest.mark.requirement("WOP2-runs-create")
def test_options_of_a_run_are_closed_and_the_budget_reaches_the_distillation() -> None:
    def parse(**more: Any) -> CreateRunRequest:
        return CreateRunRequest.parse({"workflowId": "w", **more})

    options = {
        "version": 1,
        "distillation": {"tokenBudget": 500},
        "run": {"runTimeoutMs": 1},
        "ai": None,
        "budget": None,
    }
    assert parse(configurable=options).to_first().token_budget == 500
    assert parse().to_first().token_budget is None
    wrong: list[dict[str, Any]] = [
        {"mode": "eval"},
        {"callbackUrl": "https://x.example"},
        {"configurable": {}},
        {"configurable": {"version": 2}},
        {"configurable": {"version": 1, "distillation.tokenBudget": 5}},
        {"configurable": {"version": 1, "run": {"wombats": 1}}},
        {"configurable": {"version": 1, "ai": {"provider": "x"}}},
        {"tags": ["x" * 257]},
    ]
    for fields in wrong:
        with pytest.raises(InvalidInput):
            parse(**fields)


def test_a_page_begins_after_its_cursor_and_a_foreign_one_is_refused() -> None:
    items = [{"id": name} for name in "abcde"]
    page, cursor = slice_page(items, ListRequest.parse({"limit": 2}))
    assert ([item["id"] for item in page], cursor) == (["a", "b"], "b")
    page, cursor = slice_page(items, ListRequest.parse({"limit": 5, "cursor": "b"}))
    assert ([item["id"] for item in page], cursor) == (["c", "d", "e"], None)
    with pytest.raises(InvalidInput):
        slice_page(items, ListRequest.parse({"cursor": "z"}))
