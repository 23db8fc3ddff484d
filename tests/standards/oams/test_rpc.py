"""JSON-RPC 2.0, and the codes that both bindings answer with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.oams.strategies import JSON

from memoranda import errors
from memoranda.encoding import json_text
from memoranda.standards.oams import codes, rpc
from memoranda.standards.oams.rpc import Envelope, RpcCall


def read(value: Any) -> Envelope:
    return rpc.parse_body(json.dumps(value).encode())


def call(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "oams.list", "id": 1, **members}


@pytest.mark.requirement("OAMS-3-rpc")
def test_a_call_is_read_and_answered() -> None:
    envelope = read(call(params={"namespace": "a:b"}))
    assert envelope == Envelope(calls=(RpcCall(method="oams.list", params={"namespace": "a:b"}, id=1),))
    answered = rpc.build_response(envelope, [rpc.build_result(envelope.calls[0], [])])
    assert answered == {"jsonrpc": "2.0", "result": [], "id": 1}


@pytest.mark.requirement("OAMS-3-rpc")
@pytest.mark.parametrize("identity", ["x", "", 0, -1, 1.5, None, 2**63 - 1])
def test_an_answer_repeats_the_id(identity: Any) -> None:
    found = read(call(id=identity)).calls[0]
    assert not found.is_notification
    assert rpc.build_result(found, 1)["id"] == identity


@pytest.mark.requirement("OAMS-3-rpc")
def test_a_notification_is_known_and_gets_no_answer() -> None:
    envelope = read({"jsonrpc": "2.0", "method": "oams.forget", "params": {}})
    assert envelope.calls[0].is_notification
    assert rpc.build_response(envelope, []) is None


@pytest.mark.requirement("OAMS-3-rpc")
def test_a_batch_keeps_its_order_and_its_bad_members() -> None:
    envelope = read([call(id="a"), 7, {"jsonrpc": "2.0", "method": "m"}, {"id": "b", "method": "m"}])
    assert envelope.is_batch
    assert [each.id for each in envelope.calls] == ["a", None, None, "b"]
    assert [each.problem is not None for each in envelope.calls] == [False, True, False, True]
    assert [each.is_notification for each in envelope.calls] == [False, False, True, False]
    refused = rpc.build_refusal(envelope.calls[3])
    assert refused == {
        "jsonrpc": "2.0",
        "error": {"code": -32600, "message": 'jsonrpc must be "2.0"'},
        "id": "b",
    }
    assert rpc.build_response(envelope, [refused]) == [refused]


@pytest.mark.requirement("OAMS-3-rpc")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b'{"jsonrpc":"2.0","jsonrpc":"2.0"}', -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (json.dumps([call()] * 101).encode(), -32600),
        (json.dumps(call(jsonrpc="1.0")).encode(), -32600),
        (json.dumps(call(method=7)).encode(), -32600),
        (json.dumps(call(method="")).encode(), -32600),
        (json.dumps(call(method="m" * 200)).encode(), -32600),
        (json.dumps(call(id=[])).encode(), -32600),
        (json.dumps(call(id=True)).encode(), -32600),
        (json.dumps(call(id=2**64)).encode(), -32600),
        (json.dumps(call(id="x" * 300)).encode(), -32600),
        (json.dumps(call(params=None)).encode(), -32600),
        (json.dumps(call(params="x")).encode(), -32600),
        (json.dumps(call(extra=1)).encode(), -32600),
        (json.dumps(call(params=[{"namespace": "a:b"}])).encode(), -32602),
    ],
)
def test_what_is_no_call_is_answered_by_one_error(body: bytes, code: int) -> None:
    envelope = rpc.parse_body(body)
    assert not envelope.is_batch
    assert len(envelope.calls) == 1
    problem = envelope.calls[0].problem
    assert problem is not None
    assert problem.code == code


def test_wrong_parameters_of_a_notification_are_not_answered() -> None:
    assert read({"jsonrpc": "2.0", "method": "m", "params": [1]}).calls[0].is_notification
    assert read(call(params=[])).calls[0].params == {}


def test_a_body_that_is_too_large_is_not_parsed() -> None:
    assert rpc.parse_body(b"[1,2,3]", max_bytes=5).calls[0].problem is not None


@given(JSON | st.lists(st.dictionaries(st.sampled_from(["jsonrpc", "method", "id", "params"]), JSON), max_size=3))
def test_any_json_becomes_calls_that_can_be_answered(value: Any) -> None:
    envelope = rpc.parse_body(json_text.dump(value))
    assert envelope.calls
    for each in envelope.calls:
        json_text.dump(rpc.build_failure(each, -32603, "x", {"a": 1}))


@given(st.binary(max_size=60))
def test_any_bytes_become_calls(body: bytes) -> None:
    assert rpc.parse_body(body).calls


# --- codes -------------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-3-error-codes")
@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (errors.NamespaceNotFound(), -32001, 404),
        (errors.MemoryNotFound(), -32002, 404),
        (errors.NotFound(), -32002, 404),
        (errors.InvalidInput(), -32003, 422),
        (errors.TooLarge(), -32003, 422),
        (errors.SignatureInvalid(), -32003, 422),
        (errors.QuotaExceeded(), -32004, 429),
        (errors.RateLimited(), -32004, 429),
        (errors.CrossNamespace(), -32005, 403),
        (errors.ForbiddenScope(), -32005, 403),
        (errors.ConsentViolation(), -32005, 403),
        (errors.MalformedJson(), -32700, 400),
        (errors.Unauthorized(), -32096, 401),
        (errors.VersionMismatch(), -32095, 412),
        (errors.Conflict(), -32097, 409),
        (errors.StoreUnavailable(), -32098, 503),
        (errors.Unsupported(), -32099, 501),
        (errors.StoreCorrupt(), -32603, 500),
    ],
)
def test_every_error_has_its_code_and_status(error: errors.MemorandaError, code: int, status: int) -> None:
    assert codes.code_of(error) == code
    assert codes.http_status(code) == status
    assert code in codes.MEANINGS


@pytest.mark.requirement("OAMS-3-error-shape")
def test_errors_have_the_shape_of_json_rpc() -> None:
    assert rpc.build_error(-32001, "namespace not found", {"namespace": "a:b"}) == {
        "code": -32001,
        "message": "namespace not found",
        "data": {"namespace": "a:b"},
    }
    assert codes.MEANINGS[-32001] == "namespace not found"
    assert codes.http_status(-1) == 500
