"""The error envelope, and the HTTP status of each code."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from tests.standards.openwop.strategies import json_values

from memoranda import errors
from memoranda.errors import InvalidInput, MemorandaError, WorkflowError
from memoranda.standards.openwop.problem import STATUSES, build_problem, check_problem, code_of, problem_of, status_of


@pytest.mark.requirement("WOP-6-codes")
@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (errors.InvalidInput(), "validation_error", 400),
        (errors.MalformedJson(), "validation_error", 400),
        (errors.TooLarge(), "validation_error", 400),
        (errors.Unauthorized(), "unauthenticated", 401),
        (errors.ForbiddenScope(), "forbidden", 403),
        (errors.CrossNamespace(), "forbidden", 403),
        (errors.ConsentViolation(), "forbidden", 403),
        (errors.NotFound(), "not_found", 404),
        (errors.Conflict(), "conflict", 409),
        (errors.RateLimited(), "rate_limited", 429),
        (errors.Unsupported(), "capability_not_provided", 501),
        (errors.StoreUnavailable(), "unavailable", 503),
        (errors.StoreCorrupt(), "internal_error", 500),
        (errors.MemorandaError(), "internal_error", 500),
        (WorkflowError("x", openwop_code="token_budget_exceeded"), "token_budget_exceeded", 422),
    ],
)
def test_every_error_has_its_code_and_status(error: MemorandaError, code: str, status: int) -> None:
    assert code_of(error) == code
    assert problem_of(error) == (status, {"error": code, "message": error.message})


@pytest.mark.requirement("WOP-6-codes")
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("token_budget_exceeded", 422),
        ("replay_memory_snapshot_unavailable", 422),
        ("invalid_from_seq", 422),
        ("workspace_conflict", 409),
        ("workspace_too_large", 413),
        ("capability_not_provided", 501),
        ("rate_limited", 429),
        ("run_forbidden", 403),
        ("never_heard_of", 500),
    ],
)
def test_a_code_has_the_status_of_the_digest(code: str, status: int) -> None:
    assert status_of(code) == status


@pytest.mark.requirement("WOP-1.9-envelope")
def test_the_envelope_is_closed_and_everything_else_is_in_its_details() -> None:
    error = WorkflowError(
        "too small", openwop_code="token_budget_exceeded", details={"budget": 1, "minimumRequired": 9}
    )
    assert problem_of(error, details={"correlationId": "c"})[1] == {
        "error": "token_budget_exceeded",
        "message": "too small",
        "details": {"budget": 1, "minimumRequired": 9, "correlationId": "c"},
    }
    good = build_problem("not_found", "nothing there")
    wrong = (
        {**good, "correlationId": "c"},
        {**good, "scopeRequired": "x"},
        {"error": "not_found"},
        {"message": "x"},
        {**good, "error": "NotFound"},
        {**good, "message": ""},
        {**good, "details": []},
    )
    for bad in wrong:
        with pytest.raises(InvalidInput, match="envelope"):
            check_problem(bad)


def test_every_code_is_in_snake_case_and_a_message_is_bounded() -> None:
    for code in STATUSES:
        assert len(build_problem(code, "x" * 9999)["message"]) == 2000
    assert build_problem("not_found", "")["message"] == "not_found"


@given(json_values)
def test_no_json_makes_a_check_fall_over(value: object) -> None:
    with contextlib.suppress(InvalidInput):
        check_problem(value)
