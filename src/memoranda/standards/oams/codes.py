"""Error codes: five that OAMS reserves (section 3), those of JSON-RPC 2.0, and five of our own.

JSON-RPC and REST both use them; in REST they accompany an HTTP status.

The kind of error of this project is mapped to a code in one table, and a code back to an error in another, so that a
client raises the same error that the server raised. Codes are part of the interface and are never given another
meaning.
"""

from __future__ import annotations

from typing import Final

from memoranda import errors
from memoranda.errors import MemorandaError

NAMESPACE_NOT_FOUND: Final = -32001
MEMORY_NOT_FOUND: Final = -32002
VALIDATION_FAILED: Final = -32003
QUOTA_EXCEEDED: Final = -32004
CROSS_NAMESPACE: Final = -32005

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

# JSON-RPC 2.0 leaves -32000 to -32099 to servers. Ours are at the far end, away from codes that OAMS may reserve.
VERSION_MISMATCH: Final = -32095
UNAUTHORIZED: Final = -32096
CONFLICT: Final = -32097
UNAVAILABLE: Final = -32098
UNSUPPORTED: Final = -32099

MEANINGS: Final = {
    NAMESPACE_NOT_FOUND: "namespace not found",
    MEMORY_NOT_FOUND: "memory not found",
    VALIDATION_FAILED: "validation failed",
    QUOTA_EXCEEDED: "quota exceeded",
    CROSS_NAMESPACE: "cross-namespace access denied",
    PARSE_ERROR: "parse error",
    INVALID_REQUEST: "invalid request",
    METHOD_NOT_FOUND: "method not found",
    INVALID_PARAMS: "invalid params",
    INTERNAL_ERROR: "internal error",
    VERSION_MISMATCH: "version mismatch",
    UNAUTHORIZED: "unauthorized",
    CONFLICT: "conflict",
    UNAVAILABLE: "store unavailable",
    UNSUPPORTED: "not supported",
}

_STATUSES: Final = {
    NAMESPACE_NOT_FOUND: 404,
    MEMORY_NOT_FOUND: 404,
    VALIDATION_FAILED: 422,
    QUOTA_EXCEEDED: 429,
    CROSS_NAMESPACE: 403,
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    METHOD_NOT_FOUND: 404,
    INVALID_PARAMS: 400,
    INTERNAL_ERROR: 500,
    # The status for a failed If-Match (RFC 9110, 13.1.1).
    VERSION_MISMATCH: 412,
    UNAUTHORIZED: 401,
    CONFLICT: 409,
    UNAVAILABLE: 503,
    UNSUPPORTED: 501,
}

# The first match wins, so narrower classes come first.
_CODES: Final[tuple[tuple[type[MemorandaError], int], ...]] = (
    (errors.NamespaceNotFound, NAMESPACE_NOT_FOUND),
    (errors.NotFound, MEMORY_NOT_FOUND),
    (errors.RateLimited, QUOTA_EXCEEDED),
    (errors.ForbiddenScope, CROSS_NAMESPACE),
    (errors.ConsentViolation, CROSS_NAMESPACE),
    (errors.MalformedJson, PARSE_ERROR),
    (errors.InvalidInput, VALIDATION_FAILED),
    (errors.SignatureInvalid, VALIDATION_FAILED),
    (errors.Unauthorized, UNAUTHORIZED),
    (errors.VersionMismatch, VERSION_MISMATCH),
    (errors.Conflict, CONFLICT),
    (errors.StoreUnavailable, UNAVAILABLE),
    (errors.Unsupported, UNSUPPORTED),
)


def code_of(error: MemorandaError) -> int:
    """Return the code of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL_ERROR)


def error_of(code: int, message: str, data: object) -> MemorandaError:
    """Return the error for a code, as a client raises it."""
    reason = data.get("reason") if isinstance(data, dict) else None
    kinds: dict[int, type[MemorandaError]] = {number: kind for kind, number in reversed(_CODES)}
    kinds[MEMORY_NOT_FOUND] = errors.MemoryNotFound
    kinds[CROSS_NAMESPACE] = errors.CrossNamespace
    kind = kinds.get(code, errors.StoreUnavailable)
    if reason in (errors.ConsentViolation.code, errors.SignatureInvalid.code):
        kind = (
            errors.ConsentViolation
            if reason == errors.ConsentViolation.code
            else errors.SignatureInvalid
        )
    return kind(message.removeprefix(f"{MEANINGS.get(code, '')}: "))


def http_status(code: int) -> int:
    """Return the HTTP status of a code."""
    return _STATUSES.get(code, 500)
