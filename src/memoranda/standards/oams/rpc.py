"""JSON-RPC 2.0: parsing of calls and building of responses (section 3). The methods themselves are elsewhere.

    single      one object, one response; a notification (no id) has none
    batch       an array of calls, an array of responses in the same order; nothing if all were notifications

A malformed call becomes a call with a problem, so that the other calls of a batch still run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from memoranda.encoding import json_text
from memoranda.errors import MalformedJson, MemorandaError
from memoranda.standards.oams import codes

VERSION: Final = "2.0"
# Calls per batch. Each is a transaction of its own; use BATCH_STORE to write many memories.
MAX_BATCH: Final = 100
# Characters of a method's name.
MAX_METHOD_CHARS: Final = 128
# Characters of an id, which is repeated in the response.
MAX_ID_CHARS: Final = 256
# Bytes of a request's body.
MAX_BODY_BYTES: Final = 64 * 1_048_576

Id = str | int | float | None
_FIELDS: Final = ("jsonrpc", "method", "params", "id")


class RpcProblem(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a malformed call."""

    code: int
    message: str


class RpcCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call. If it has a problem, the response is that error."""

    method: str = ""
    params: dict[str, object] = msgspec.field(default_factory=dict)
    id: Id = None
    is_notification: bool = False
    problem: RpcProblem | None = None


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of a body; `is_batch` if they came as a batch."""

    calls: tuple[RpcCall, ...]
    is_batch: bool = False


def parse_body(body: bytes, *, max_bytes: int = MAX_BODY_BYTES) -> Envelope:
    """Parse the calls of a body. Never raises: errors are problems of the calls."""
    try:
        # Four levels more than in a memory: the batch, the call, its parameters, and the array of BATCH_STORE.
        value = json_text.parse(body, max_bytes=max_bytes, max_depth=json_text.MAX_DEPTH + 4)
    except MemorandaError as error:
        code = codes.PARSE_ERROR if isinstance(error, MalformedJson) else codes.INVALID_REQUEST
        return Envelope(calls=(_problem_call(code, error.message),))
    return parse_envelope(value)


def parse_envelope(value: object) -> Envelope:
    """Parse the calls in a JSON value."""
    if not isinstance(value, list):
        return Envelope(calls=(_parse_call(value),))
    if not 0 < len(value) <= MAX_BATCH:
        # JSON-RPC 2.0, section 6: an empty batch is answered by one error, not by an array.
        return Envelope(
            calls=(
                _problem_call(codes.INVALID_REQUEST, f"a batch must have 1 to {MAX_BATCH} calls"),
            )
        )
    return Envelope(calls=tuple(map(_parse_call, value)), is_batch=True)


def _parse_call(value: object) -> RpcCall:
    """Parse one call."""
    if not isinstance(value, dict):
        return _problem_call(codes.INVALID_REQUEST, "a call must be an object")
    call_id = value.get("id")
    if not _is_id(call_id):
        expected = f"null, a number or a string of at most {MAX_ID_CHARS} characters"
        return _problem_call(codes.INVALID_REQUEST, f"id must be {expected}")
    is_notification = "id" not in value
    problem = _find_problem(value)
    if problem is not None:
        # Section 5: the id is repeated if it could be detected; an invalid call is not a notification either.
        return RpcCall(
            id=call_id,
            problem=problem,
            is_notification=is_notification and problem.code == codes.INVALID_PARAMS,
        )
    # An empty array is the same as no parameters.
    return RpcCall(
        method=value["method"],
        params=value.get("params") or {},
        id=call_id,
        is_notification=is_notification,
    )


def _find_problem(value: Mapping[str, object]) -> RpcProblem | None:
    """Return the problem of a call, or None."""
    if value.get("jsonrpc") != VERSION:
        return RpcProblem(code=codes.INVALID_REQUEST, message='jsonrpc must be "2.0"')
    method = value.get("method")
    if not isinstance(method, str) or not 0 < len(method) <= MAX_METHOD_CHARS:
        message = f"method must be a string of 1 to {MAX_METHOD_CHARS} characters"
        return RpcProblem(code=codes.INVALID_REQUEST, message=message)
    unknown = [name for name in value if name not in _FIELDS]
    if unknown:
        return RpcProblem(
            code=codes.INVALID_REQUEST, message=f"a call has no member {unknown[0][:40]!a}"
        )
    params = value.get("params")
    if "params" in value and not isinstance(params, dict | list):
        return RpcProblem(code=codes.INVALID_REQUEST, message="params must be an object")
    if isinstance(params, list) and params:
        # OAMS writes all parameters by name.
        return RpcProblem(
            code=codes.INVALID_PARAMS, message="params must be an object, with parameters by name"
        )
    return None


def _is_id(value: object) -> bool:
    """Return True if the value is a valid id of a call."""
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS
    # Many readers would change an integer of more than 64 bits.
    if isinstance(value, bool) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        return False
    return value is None or isinstance(value, int | float)


def _problem_call(code: int, message: str) -> RpcCall:
    """Return a call that consists of a problem."""
    return RpcCall(problem=RpcProblem(code=code, message=message))


def build_result(call: RpcCall, result: object) -> dict[str, object]:
    """Build the response to a successful call."""
    return {"jsonrpc": VERSION, "result": result, "id": call.id}


def build_failure(call: RpcCall, code: int, message: str, data: object = None) -> dict[str, object]:
    """Build the response to a failed call."""
    return {"jsonrpc": VERSION, "error": build_error(code, message, data), "id": call.id}


def build_error(code: int, message: str, data: object = None) -> dict[str, object]:
    """Build the error object of section 3, which REST uses too (as `{"error": …}`)."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return error


def build_refusal(call: RpcCall) -> dict[str, object]:
    """Build the response to a call that has a problem."""
    assert call.problem is not None
    return build_failure(call, call.problem.code, call.problem.message)


def build_response(envelope: Envelope, answers: Iterable[Mapping[str, object]]) -> object:
    """Return the response to a body: one response, an array of them, or None if nothing must be sent."""
    responses = list(answers)
    if not responses:
        return None
    return responses if envelope.is_batch else responses[0]
