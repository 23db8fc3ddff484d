"""Runs: snapshots, requests to start and to fork one, and the codes of what is refused."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.openwop.strategies import json_values

from memoranda.errors import InvalidInput
from memoranda.standards.openwop.problem import problem_of
from memoranda.standards.openwop.runs import (
    STATUSES,
    ForkRequest,
    RunRequest,
    build_snapshot_error,
    check_snapshot,
    effective_budget,
)


@pytest.mark.requirement("WOP-1.10-snapshot")
def test_there_are_ten_statuses() -> None:
    assert len(STATUSES) == 10
    for status in STATUSES:
        assert check_snapshot({"runId": "r", "workflowId": "w", "status": status})["status"] == status


@pytest.mark.requirement("WOP-1.10-snapshot")
@pytest.mark.parametrize(
    "changes",
    [
        {"runId": ""},
        {"runId": "x" * 129},
        {"workflowId": None},
        {"status": "done"},
        {"variables": []},
        {"agent": {"agentId": "x"}},
        {"agent": {}},
        {"agent": {"agentId": "core.chat", "memoryRef": "x" * 257}},
        {"owner": {"workspace": "w"}},
        {"owner": {"tenant": "a", "email": "x"}},
        {"error": {"code": "x", "message": "y"}},
        {"status": "failed", "error": {"code": "x"}},
        {"status": "failed", "error": {"code": "x", "message": "y", "stack": "z"}},
        {"startedAt": "yesterday"},
        {"tags": ["x"] * 101},
    ],
)
def test_a_snapshot_that_breaks_the_schema_is_refused(changes: dict[str, Any]) -> None:
    good = {"runId": "r", "workflowId": "w", "status": "running"}
    assert check_snapshot({**good, "someFutureField": 1})
    with pytest.raises(InvalidInput, match="run"):
        check_snapshot({**good, **changes})


# --- starting ----------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-5-runs-create")
def test_a_request_to_start_a_run_is_read() -> None:
    request = RunRequest.parse(
        {
            "workflowId": "memoranda.distill",
            "inputs": {"memoryRef": "a"},
            "tenantId": "alice",
            "configurable": {"distillation.tokenBudget": 8000},
            "tags": ["t"],
            "metadata": {"k": 1},
            "futureOption": True,
        }
    )
    assert (request.workflow_id, request.tenant_id, request.token_budget) == ("memoranda.distill", "alice", 8000)
    assert RunRequest.parse({"workflowId": "w"}).token_budget is None


@pytest.mark.requirement("WOP-5-runs-create")
@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"workflowId": ""},
        {"workflowId": "w", "inputs": []},
        {"workflowId": "w", "tags": "x"},
        {"workflowId": "w", "tenantId": ""},
        {"workflowId": "w", "configurable": {"distillation.tokenBudget": 0}},
        {"workflowId": "w", "configurable": {"distillation.tokenBudget": "8000"}},
    ],
)
def test_a_request_that_makes_no_sense_is_a_validation_error(value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        RunRequest.parse(value)
    assert problem_of(refused.value)[0] == 400


@pytest.mark.requirement("WOP-3-distillation-budget")
@given(st.none() | st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_budget_is_clamped_and_its_absence_means_all_of_it(requested: int | None, most: int) -> None:
    assert effective_budget(requested, most) == (most if requested is None else min(requested, most))


# --- forking -----------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-5-fork")
def test_a_replay_begins_at_zero_unless_it_says_so() -> None:
    assert ForkRequest.parse({"mode": "replay"}) == ForkRequest(mode="replay")
    assert ForkRequest.parse({"mode": "replay", "fromSeq": 3}).from_seq == 3
    asked = {"mode": "branch", "fromSeq": 2, "runOptionsOverlay": {"tags": ["x"]}}
    assert ForkRequest.parse(asked).overlay == {"tags": ["x"]}


@pytest.mark.requirement("WOP-5-fork")
@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"mode": "rewind"},
        {"mode": "branch"},
        {"mode": "replay", "fromSeq": -1},
        {"mode": "replay", "fromSeq": "0"},
        {"mode": "replay", "fromSeq": True},
        {"mode": "replay", "runOptionsOverlay": {}},
        {"mode": "branch", "fromSeq": 0, "runOptionsOverlay": []},
    ],
)
def test_a_bad_mode_or_place_is_400(value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        ForkRequest.parse(value)
    status, problem = problem_of(refused.value)
    assert (status, problem["error"]) == (400, "validation_error")


@pytest.mark.requirement("WOP-5-fork")
@given(st.integers(0, 20), st.integers(0, 20))
def test_a_place_past_the_end_is_422(from_seq: int, event_count: int) -> None:
    request = ForkRequest(mode="replay", requested_seq=from_seq)
    if from_seq <= event_count:
        request.check_bounds(event_count)
        return
    with pytest.raises(InvalidInput) as refused:
        request.check_bounds(event_count)
    status, problem = problem_of(refused.value)
    assert (status, problem["error"]) == (422, "invalid_from_seq")


@pytest.mark.requirement("WOP-3-mae3")
@pytest.mark.parametrize("reason", ["retention_expired", "event_log_unavailable"])
def test_memory_that_is_gone_is_refused_and_never_replaced(reason: Any) -> None:
    status, problem = problem_of(build_snapshot_error("run_1", 0, reason))
    assert (status, problem["error"]) == (422, "replay_memory_snapshot_unavailable")
    assert problem["details"] == {"fromSeq": 0, "sourceRunId": "run_1", "reason": reason}


@given(json_values)
def test_no_json_makes_a_request_fall_over(value: object) -> None:
    for parse in (RunRequest.parse, ForkRequest.parse, check_snapshot):
        with contextlib.suppress(InvalidInput):
            parse(value)
        with contextlib.suppress(InvalidInput):
            parse({"workflowId": value, "mode": "branch", "fromSeq": value, "runId": "r", "status": value})
