"""The error envelope: `{error, message, details?}` and nothing else, and the HTTP status of each code.

What a program may want beyond code and message (the scope that was missing, a correlation id) stands in `details`;
the envelope is closed. It never carries entry data (CTI-1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from memoranda import errors
from memoranda.errors import InvalidInput, MemorandaError, WorkflowError
from memoranda.standards.openwop.fields import an_object, check_text, closed_object, require

Problem = dict[str, Any]

VALIDATION_ERROR: Final = "validation_error"
UNAUTHENTICATED: Final = "unauthenticated"
FORBIDDEN: Final = "forbidden"
RUN_FORBIDDEN: Final = "run_forbidden"
NOT_FOUND: Final = "not_found"
CONFLICT: Final = "conflict"
RATE_LIMITED: Final = "rate_limited"
INTERNAL_ERROR: Final = "internal_error"
UNAVAILABLE: Final = "unavailable"
TOKEN_BUDGET_EXCEEDED: Final = "token_budget_exceeded"  # noqa: S105 (a code, not a secret)
SECRET_LEAKAGE: Final = "secret_leakage"  # noqa: S105 (a code, not a secret)
INVALID_FROM_SEQ: Final = "invalid_from_seq"
SNAPSHOT_UNAVAILABLE: Final = "replay_memory_snapshot_unavailable"
CAPABILITY_NOT_PROVIDED: Final = "capability_not_provided"
CAPABILITY_REQUIRED: Final = "capability_required"
WORKSPACE_CONFLICT: Final = "workspace_conflict"
WORKSPACE_TOO_LARGE: Final = "workspace_too_large"
MALFORMED_ARTIFACT: Final = "malformed_artifact"
IDEMPOTENCY_KEY_MISMATCH: Final = "idempotency_key_mismatch"
IDEMPOTENCY_IN_FLIGHT: Final = "idempotency_in_flight"
UNSUPPORTED_STREAM_MODE: Final = "unsupported_stream_mode"

# Where upstream pins no status or several, docs/standards/openwop.md says what we chose.
STATUSES: Final[Mapping[str, int]] = {
    VALIDATION_ERROR: 400,
    UNSUPPORTED_STREAM_MODE: 400,
    UNAUTHENTICATED: 401,
    FORBIDDEN: 403,
    RUN_FORBIDDEN: 403,
    NOT_FOUND: 404,
    CONFLICT: 409,
    WORKSPACE_CONFLICT: 409,
    IDEMPOTENCY_KEY_MISMATCH: 409,
    IDEMPOTENCY_IN_FLIGHT: 409,
    WORKSPACE_TOO_LARGE: 413,
    TOKEN_BUDGET_EXCEEDED: 422,
    SECRET_LEAKAGE: 422,
    INVALID_FROM_SEQ: 422,
    # v1; v2 moved it to 409.
    SNAPSHOT_UNAVAILABLE: 422,
    CAPABILITY_REQUIRED: 422,
    MALFORMED_ARTIFACT: 422,
    RATE_LIMITED: 429,
    INTERNAL_ERROR: 500,
    CAPABILITY_NOT_PROVIDED: 501,
    UNAVAILABLE: 503,
}
MAX_MESSAGE_CHARS: Final = 2000
_CODE: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*", re.ASCII)

# The first that matches counts, so the narrower ones stand first.
_CODES: Final[tuple[tuple[type[MemorandaError], str], ...]] = (
    (errors.Unauthorized, UNAUTHENTICATED),
    (errors.ForbiddenScope, FORBIDDEN),
    (errors.ConsentViolation, FORBIDDEN),
    (errors.NotFound, NOT_FOUND),
    (errors.RateLimited, RATE_LIMITED),
    (errors.Conflict, CONFLICT),
    (errors.Unsupported, CAPABILITY_NOT_PROVIDED),
    (errors.StoreUnavailable, UNAVAILABLE),
    (errors.SignatureInvalid, VALIDATION_ERROR),
    (errors.InvalidInput, VALIDATION_ERROR),
)


def problem(code: str, message: str, details: Mapping[str, object] | None = None) -> Problem:
    """An envelope. `details` only if there are any."""
    made: Problem = {"error": code, "message": message[:MAX_MESSAGE_CHARS] or code}
    if details:
        made["details"] = dict(details)
    return check_problem(made)


def problem_of(error: MemorandaError, *, details: Mapping[str, object] | None = None) -> tuple[int, Problem]:
    """The HTTP status and the envelope of an error; further details, such as a correlation id, join its own."""
    code = code_of(error)
    own = error.details if isinstance(error, WorkflowError) else {}
    return status_of(code), problem(code, error.message, {**own, **(details or {})})


def code_of(error: MemorandaError) -> str:
    """openwop's code for an error."""
    if isinstance(error, WorkflowError):
        return error.openwop_code
    return next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL_ERROR)


def error_of(said: Mapping[str, Any], *, retry_after_seconds: float) -> MemorandaError:
    """The error that an envelope tells of."""
    code, message, details = str(said["error"]), str(said.get("message", "")), said.get("details")
    if code == RATE_LIMITED:
        return errors.RateLimited(message, retry_after_seconds=retry_after_seconds)
    # Of several with one code the widest: what it was told of is one of these.
    kind = next((kind for kind, each in reversed(_CODES) if each == code), None)
    if kind is None:
        return WorkflowError(message, openwop_code=code, details=details if isinstance(details, Mapping) else None)
    return errors.ForbiddenScope(message) if code == FORBIDDEN else kind(message)


def status_of(code: str) -> int:
    """The HTTP status that goes with a code."""
    return STATUSES.get(code, 500)


def check_problem(value: object) -> Problem:
    """An envelope from untrusted JSON. Raises InvalidInput."""
    found = closed_object(value, ("error", "message", "details"), "the error envelope")
    require(found, ("error", "message"), "the error envelope")
    if not isinstance(found["error"], str) or not _CODE.fullmatch(found["error"]):
        raise InvalidInput("the error envelope's error must be a code in snake_case")
    check_text(found["message"], "the error envelope's message", MAX_MESSAGE_CHARS)
    if "details" in found:
        an_object(found["details"], "the error envelope's details")
    return found
