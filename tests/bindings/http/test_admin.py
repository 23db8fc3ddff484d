"""The routes for the operator: who may use them, and what remains of an owner who was deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.bindings.http.running import Running, error_of, remember, running

ADA, BOB = "did:key:zAda", "did:key:zBob"
REQUESTS: dict[str, dict[str, Any]] = {
    "quota": {"owner": BOB, "memories": 3},
    "export": {"owner": BOB, "part": "documents"},
    "delete": {"owner": BOB, "reason": "left the team"},
}


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("admin")) as server:
        for owner in (ADA, BOB):
            with server.client(server.key(owner)) as client:
                remember(client, f"{owner} likes tea", owner=owner)
        yield server


def owners(client: httpx.Client) -> dict[str, Any]:
    answer = client.get("/admin/tenants")
    assert answer.status_code == 200, answer.text
    return {tenant["owner"]: tenant for tenant in answer.json()["tenants"]}


def test_the_operator_lists_limits_exports_and_deletes_an_owner(server: Running) -> None:
    with server.client() as operator:
        listed = owners(operator)
        assert {name: (listed[name]["memories"], listed[name]["keys"]) for name in (ADA, BOB)} == {
            ADA: (1, 1),
            BOB: (1, 1),
        }
        assert operator.post("/admin/tenants/quota", json=REQUESTS["quota"]).json()["quota"] == {"memories": 3}
        key = server.key(BOB)
        with server.client(key) as bob:
            remember(bob, "two", owner=BOB)
            remember(bob, "three", owner=BOB)
            refused = bob.post("/ump/remember", json={"kind": "semantic", "body": {"text": "four"}})
            assert error_of(refused) == (429, "rate_limited")
        page = operator.post("/admin/tenants/export", json=REQUESTS["export"]).json()
        assert [line["status"] for line in page["lines"]] == ["active"] * 3
        assert "likes tea" in page["lines"][0]["native"]
        rest = operator.post("/admin/tenants/export", json={**REQUESTS["export"], "after": page["next"]}).json()
        assert rest == {"lines": [], "next": None}
        deleted = operator.post("/admin/tenants/delete", json=REQUESTS["delete"])
        assert deleted.json() == {"owner": BOB, "memories": 3, "versions": 3}
        assert BOB not in owners(operator)
        for name in ("quota", "export", "delete"):
            assert operator.post(f"/admin/tenants/{name}", json=REQUESTS[name]).status_code == 404
    with server.client(key) as bob:
        assert bob.get("/ump/stats").status_code == 401


@pytest.mark.parametrize("verbs", [("read", "write", "derive", "export", "activate", "erase")])
def test_nobody_else_may_use_them(server: Running, verbs: tuple[str, ...]) -> None:
    gate = server.service.gate
    credentials = [
        server.key(ADA, *verbs),
        # The operator's own key without all scopes, a token for one owner, for a part of all, and for a peer.
        server.key(server.service.operator_did, "read", "write", "export"),
        gate.mint_token(verbs=("read", "write", "export"), scope={"owner": BOB}, ttl_ms=60_000),
        gate.mint_token(verbs=("read", "write", "export"), scope={"project": "p"}, ttl_ms=60_000),
        gate.mint_token(verbs=("read", "write", "export"), scope={}, ttl_ms=60_000, audience="did:key:zPeer"),
        gate.mint_token(verbs=("derive",), scope={}, ttl_ms=60_000),
    ]
    for credential in credentials:
        with server.client(credential) as client:
            assert client.get("/admin/tenants").status_code == 403
            for name, request in REQUESTS.items():
                assert client.post(f"/admin/tenants/{name}", json=request).status_code == 403
    with server.client("") as client:
        assert client.get("/admin/tenants").status_code == 401
    with server.client(server.key(server.service.operator_did, *verbs)) as client:
        assert set(owners(client)) >= {ADA, BOB}


def test_wrong_requests_change_nothing(server: Running) -> None:
    own = server.service.operator_did
    with server.client() as operator:
        for name, request in (
            ("delete", {"owner": BOB}),
            ("delete", {"owner": BOB, "reason": " "}),
            ("delete", {"owner": own, "reason": "oops"}),
            ("quota", {"owner": BOB, "memories": -1}),
            ("export", {"owner": BOB, "part": "keys"}),
            ("export", {"owner": BOB, "part": "audit", "after": "x"}),
        ):
            answer = operator.post(f"/admin/tenants/{name}", json=request)
            assert answer.status_code in (400, 404), (name, request, answer.text)
        assert set(owners(operator)) >= {ADA, BOB}
