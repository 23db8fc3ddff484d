"""Streamable HTTP: credentials, tenants and sessions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from tests.bindings.mcp.peers import HttpPeer, http_client, run
from tests.waiting import HANG_SECONDS

from memoranda.bindings.mcp.http import MAX_BODY_BYTES

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "resources/list"}


@contextmanager
def raw(bearer: str | None = None, **headers: str) -> Iterator[httpx.Client]:
    given = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}
    if bearer is not None:
        given["authorization"] = f"Bearer {bearer}"
    with httpx.Client(headers=given, timeout=HANG_SECONDS) as http:
        yield http


def result_of(response: httpx.Response) -> dict[str, Any]:
    """The JSON-RPC answer in a stream of one event."""
    (line,) = [line for line in response.text.splitlines() if line.startswith("data: {")]
    return dict(json.loads(line.removeprefix("data: ")))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_two_owners_do_not_see_each_other(peer: HttpPeer, new_owner: Callable[[], str], mode: str) -> None:
    async def scenario() -> None:
        async with (
            http_client(peer.url, peer.key(new_owner()), mode) as alice,
            http_client(peer.url, peer.key(new_owner()), mode) as bob,
        ):
            draft = {"kind": "semantic", "body": {"text": "the safe opens with 1234"}, "scope": {"project": "p"}}
            remembered = (await alice.call_tool("ump.remember", draft)).structured_content
            assert isinstance(remembered, dict)
            assert (await bob.call_tool("ump.recall", {"query": "safe"})).structured_content == {"results": []}
            assert (await bob.list_resources()).resources == []
            for tool, more in (("get", {}), ("forget", {}), ("revise", {"patch": {"body": {"text": "x"}}})):
                refused = await bob.call_tool(f"ump.{tool}", {"id": remembered["id"], **more})
                assert isinstance(refused.structured_content, dict)
                assert refused.structured_content["error"]["code"] == "not_found"
            with pytest.raises(MCPError, match="not_found"):
                await bob.read_resource(f"ump://p/{remembered['id']}")
            (message,) = (await bob.get_prompt("ump.rehydrate", {"query": "safe"})).messages
            assert "1234" not in message.model_dump_json()
            found = (await alice.call_tool("ump.recall", {"query": "safe"})).structured_content
            assert isinstance(found, dict)
            assert [hit["record"]["id"] for hit in found["results"]] == [remembered["id"]]

    run(scenario)


def test_a_session_answers_only_to_the_credential_that_opened_it(peer: HttpPeer, new_owner: Callable[[], str]) -> None:
    alice, bob = new_owner(), new_owner()
    with raw(peer.key(alice)) as http:
        opened = http.post(peer.url, json=INITIALIZE)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        http.post(peer.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        assert result_of(http.post(peer.url, json=LIST, headers=session))["result"]["resources"] == []
        # Another owner's key, and another key of the same owner.
        for thief in (peer.key(bob), peer.key(alice)):
            with raw(thief, **session) as other:
                assert other.post(peer.url, json=LIST).status_code == 404
                assert other.get(peer.url).status_code == 404
                assert other.delete(peer.url).status_code == 404
        assert result_of(http.post(peer.url, json=LIST, headers=session))["result"]["resources"] == []
        assert http.delete(peer.url, headers=session).status_code == 200
        assert http.post(peer.url, json=LIST, headers=session).status_code == 404


def test_a_token_that_borrows_anothers_name_does_not_open_its_session(
    peer: HttpPeer, new_owner: Callable[[], str]
) -> None:
    def token(owner: str) -> str:
        return peer.service.gate.mint_token(verbs=("read",), scope={"owner": owner}, ttl_ms=60_000, jti="same")

    with raw(token(new_owner())) as http:
        session = http.post(peer.url, json=INITIALIZE).headers["mcp-session-id"]
    with raw(token(new_owner()), **{"mcp-session-id": session}) as thief:
        assert thief.post(peer.url, json=LIST).status_code == 404


def test_a_revoked_key_ends_its_session_at_once(peer: HttpPeer, owner: str) -> None:
    key = peer.key(owner)
    with raw(key) as http:
        session = {"mcp-session-id": http.post(peer.url, json=INITIALIZE).headers["mcp-session-id"]}
        peer.service.gate.revoke_key(key.removeprefix("mk_").partition("_")[0], is_confirmed=True)
        assert http.post(peer.url, json=LIST, headers=session).status_code == 401


def test_nothing_is_said_without_a_credential(peer: HttpPeer) -> None:
    for bearer in (None, "mk_unknown_key"):
        with raw(bearer) as http:
            assert http.post(peer.url, json=INITIALIZE).status_code == 401


def test_a_body_over_the_limit_is_refused_before_it_is_read(peer: HttpPeer, owner: str) -> None:
    with raw(peer.key(owner)) as http:
        assert http.post(peer.url, content=b" " * (MAX_BODY_BYTES + 1)).status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b'{"jsonrpc":"2.0","id":1}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_not_json_rpc_is_a_client_error(peer: HttpPeer, owner: str, body: bytes) -> None:
    for version in ("2025-11-25", "2026-07-28"):
        with raw(peer.key(owner), **{"mcp-protocol-version": version}) as http:
            response = http.post(peer.url, content=body)
            assert 400 <= response.status_code < 500
            assert "Traceback" not in response.text
