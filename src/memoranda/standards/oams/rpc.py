"""JSON-RPC 2.0: calls in, answers out (section 3). Which methods there are is not known here.

    single      one object, one answer; a notification (no id) has none
    batch       an array of them, answered by an array in the same order; nothing at all if all were notifications

What cannot be read as a call becomes a call with a problem, so that in a batch the others still count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from memoranda.encoding import json_text
from memoranda.errors import MalformedJson, MemorandaError
from memoranda.standards.oams import codes

VERSION: Final = "2.0"
# Each call is a transaction of its own; BATCH_STORE is the way to write many.
MAX_BATCH: Final = 100
MAX_METHOD_CHARS: Final = 128
# Identifiers are repeated in the answer.
MAX_ID_CHARS: Final = 256
MAX_BODY_BYTES: Final = 64 * 1_048_576

Id = str | int | float | None
_FIELDS: Final = ("jsonrpc", "method", "params", "id")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why something is no call."""

    code: int
    message: str


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call; if it has a problem, that is its answer."""

    method: str = ""
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    id: Id = None
    is_notification: bool = False
    problem: Problem | None = None


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """A body that was read: its calls, and whether they came as a batch."""

    calls: tuple[Call, ...]
    is_batch: bool = False


def read(body: bytes, *, max_bytes: int = MAX_BODY_BYTES) -> Envelope:
    """The calls of a body. Never raises: what is wrong stands in the calls."""
    try:
        # Four levels more than a memory: the batch, the call, its parameters, and the array of BATCH_STORE.
        value = json_text.parse(body, max_bytes=max_bytes, max_depth=json_text.MAX_DEPTH + 4)
    except MemorandaError as error:
        code = codes.PARSE_ERROR if isinstance(error, MalformedJson) else codes.INVALID_REQUEST
        return Envelope(calls=(_refused(code, error.message),))
    return envelope_of(value)


def envelope_of(value: object) -> Envelope:
    """The calls in a JSON value."""
    if not isinstance(value, list):
        return Envelope(calls=(_call(value),))
    if not 0 < len(value) <= MAX_BATCH:
        # JSON-RPC 2.0, section 6: an empty batch is answered by one error, not by an array.
        return Envelope(calls=(_refused(codes.INVALID_REQUEST, f"a batch must have 1 to {MAX_BATCH} calls"),))
    return Envelope(calls=tuple(map(_call, value)), is_batch=True)


def _call(value: object) -> Call:
    if not isinstance(value, dict):
        return _refused(codes.INVALID_REQUEST, "a call must be an object")
    given = value.get("id")
    if not _is_id(given):
        expected = f"null, a number or a string of at most {MAX_ID_CHARS} characters"
        return _refused(codes.INVALID_REQUEST, f"id must be {expected}")
    is_notification = "id" not in value
    problem = _problem(value)
    if problem is not None:
        # Section 5: the id is repeated if it could be detected; what is no valid call is no notification either.
        return Call(id=given, problem=problem, is_notification=is_notification and problem.code == codes.INVALID_PARAMS)
    # An empty array gives as many parameters as an empty object.
    return Call(method=value["method"], params=value.get("params") or {}, id=given, is_notification=is_notification)


def _problem(value: dict[str, Any]) -> Problem | None:
    if value.get("jsonrpc") != VERSION:
        return Problem(code=codes.INVALID_REQUEST, message='jsonrpc must be "2.0"')
    method = value.get("method")
    if not isinstance(method, str) or not 0 < len(method) <= MAX_METHOD_CHARS:
        message = f"method must be a string of 1 to {MAX_METHOD_CHARS} characters"
        return Problem(code=codes.INVALID_REQUEST, message=message)
    unknown = [name for name in value if name not in _FIELDS]
    if unknown:
        return Problem(code=codes.INVALID_REQUEST, message=f"a call has no member {unknown[0][:40]!a}")
    params = value.get("params")
    if "params" in value and not isinstance(params, dict | list):
        return Problem(code=codes.INVALID_REQUEST, message="params must be an object")
    if isinstance(params, list) and params:
        # OAMS writes all parameters by name.
        return Problem(code=codes.INVALID_PARAMS, message="params must be an object, with parameters by name")
    return None


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS
    # An integer of more than 64 bits would come back as another number from many readers.
    if isinstance(value, bool) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        return False
    return value is None or isinstance(value, int | float)


def _refused(code: int, message: str) -> Call:
    return Call(problem=Problem(code=code, message=message))


def answer(call: Call, result: object) -> dict[str, Any]:
    """The answer to a call that went well."""
    return {"jsonrpc": VERSION, "result": result, "id": call.id}


def failure(call: Call, code: int, message: str, data: object = None) -> dict[str, Any]:
    """The answer to a call that did not."""
    return {"jsonrpc": VERSION, "error": error_object(code, message, data), "id": call.id}


def error_object(code: int, message: str, data: object = None) -> dict[str, Any]:
    """The error shape of section 3, which REST uses too (as `{"error": …}`)."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return error


def refusal(call: Call) -> dict[str, Any]:
    """The answer to a call that has a problem."""
    assert call.problem is not None
    return failure(call, call.problem.code, call.problem.message)


def closed(envelope: Envelope, answers: Iterable[dict[str, Any]]) -> object:
    """What goes back for a body: one answer, an array of them, or None if nothing may be answered."""
    found = list(answers)
    if not found:
        return None
    return found if envelope.is_batch else found[0]
