"""The error envelope `{error, message, details?}`, and the HTTP status of each code.

The envelope is closed. Further data for programs (a missing scope, a correlation id) is in `details`. It never contains
entry data (CTI-1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from memoranda import errors
from memoranda.errors import InvalidInput, MemorandaError, WorkflowError
from memoranda.standards.openwop.fields import (
    check_closed_object,
    check_object,
    check_text,
    require_fields,
)

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
IDEMPOTENCY_KEY_INVALID: Final = "idempotency_key_invalid"
UNSUPPORTED_STREAM_MODE: Final = "unsupported_stream_mode"
WEBHOOK_URL_REJECTED: Final = "webhook_url_rejected"
SUBSCRIPTION_NOT_FOUND: Final = "subscription_not_found"
# Codes of version 2.
PROPOSAL_STALE: Final = "proposal_stale"
ID_TENANT_MISMATCH: Final = "id_tenant_mismatch"
VERSION_UNSUPPORTED: Final = "protocol_version_unsupported"
VERSION_MISMATCH: Final = "protocol_version_mismatch"
RUN_TERMINAL: Final = "run_terminal"

# If upstream defines no status or several, docs/standards/openwop.md gives our choice.
STATUSES: Final[Mapping[str, int]] = {
    VALIDATION_ERROR: 400,
    UNSUPPORTED_STREAM_MODE: 400,
    WEBHOOK_URL_REJECTED: 400,
    UNAUTHENTICATED: 401,
    FORBIDDEN: 403,
    RUN_FORBIDDEN: 403,
    NOT_FOUND: 404,
    SUBSCRIPTION_NOT_FOUND: 404,
    CONFLICT: 409,
    WORKSPACE_CONFLICT: 409,
    IDEMPOTENCY_KEY_MISMATCH: 409,
    IDEMPOTENCY_IN_FLIGHT: 409,
    WORKSPACE_TOO_LARGE: 413,
    TOKEN_BUDGET_EXCEEDED: 422,
    SECRET_LEAKAGE: 422,
    INVALID_FROM_SEQ: 422,
    # 422 in v1; v2 changed it to 409.
    SNAPSHOT_UNAVAILABLE: 422,
    CAPABILITY_REQUIRED: 422,
    MALFORMED_ARTIFACT: 422,
    VERSION_MISMATCH: 400,
    IDEMPOTENCY_KEY_INVALID: 400,
    ID_TENANT_MISMATCH: 403,
    VERSION_UNSUPPORTED: 406,
    PROPOSAL_STALE: 409,
    RUN_TERMINAL: 409,
    RATE_LIMITED: 429,
    INTERNAL_ERROR: 500,
    CAPABILITY_NOT_PROVIDED: 501,
    UNAVAILABLE: 503,
}
# Characters of a message.
MAX_MESSAGE_CHARS: Final = 2000
_CODE: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*", re.ASCII)

# The first match wins, so narrower classes come first.
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


def build_problem(code: str, message: str, details: Mapping[str, object] | None = None) -> Problem:
    """Build an envelope; `details` is absent if empty."""
    envelope: Problem = {"error": code, "message": message[:MAX_MESSAGE_CHARS] or code}
    if details:
        envelope["details"] = dict(details)
    return check_problem(envelope)


def problem_of(
    error: MemorandaError, *, details: Mapping[str, object] | None = None
) -> tuple[int, Problem]:
    """Return the HTTP status and the envelope of an error. `details` are added to the error's own."""
    code = code_of(error)
    own_details = error.details if isinstance(error, WorkflowError) else {}
    return status_of(code), build_problem(code, error.message, {**own_details, **(details or {})})


def code_of(error: MemorandaError) -> str:
    """Return openwop's code for an error."""
    if isinstance(error, WorkflowError):
        return error.openwop_code
    return next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL_ERROR)


def error_of(envelope: Mapping[str, object], *, retry_after_seconds: float) -> MemorandaError:
    """Return the error that an envelope stands for."""
    code, message = str(envelope["error"]), str(envelope.get("message", ""))
    details = envelope.get("details")
    if code == SUBSCRIPTION_NOT_FOUND:
        return errors.NotFound(message)
    if code == RATE_LIMITED:
        return errors.RateLimited(message, retry_after_seconds=retry_after_seconds)
    # Several classes can have the same code; take the widest.
    kind = next((kind for kind, kind_code in reversed(_CODES) if kind_code == code), None)
    if kind is None:
        return WorkflowError(
            message, openwop_code=code, details=details if isinstance(details, Mapping) else None
        )
    return errors.ForbiddenScope(message) if code == FORBIDDEN else kind(message)


def status_of(code: str) -> int:
    """Return the HTTP status of a code."""
    return STATUSES.get(code, 500)


def check_problem(value: object) -> Problem:
    """Check an envelope from untrusted JSON and return it. Raises InvalidInput."""
    envelope = check_closed_object(value, ("error", "message", "details"), "the error envelope")
    require_fields(envelope, ("error", "message"), "the error envelope")
    if not isinstance(envelope["error"], str) or not _CODE.fullmatch(envelope["error"]):
        raise InvalidInput("the error envelope's error must be a code in snake_case")
    check_text(envelope["message"], "the error envelope's message", MAX_MESSAGE_CHARS)
    if "details" in envelope:
        check_object(envelope["details"], "the error envelope's details")
    return envelope
