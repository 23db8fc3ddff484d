"""What moves or looks through a whole memory over HTTP: nobody brings, sees or takes back what is not theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.bindings.http.running import ALL, OWNER, Running

from memoranda.encoding.didkey import SigningKey
from memoranda.standards.ump.token import Claims, mint

STRANGER = "did:web:stranger.example"
# What belongs to an owner as a whole.
WHOLE: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("GET", "/ump/imports", None),
    ("POST", "/ump/imports/undo", {}),
    ("GET", "/ump/suspects", None),
    ("GET", "/ump/suspects/beside", None),
    ("GET", "/ump/orders", None),
    ("GET", "/ump/changes/position", None),
    ("GET", "/ump/rules", None),
    ("PUT", "/ump/rules", {"memories": 5}),
    ("POST", "/ump/undo", None),
    ("GET", "/ump/verify", None),
    ("POST", "/ump/audit/prune", {"before": "2020-01-01T00:00:00Z"}),
)


def record(text: str, **scope: str) -> dict[str, Any]:
    return {"kind": "semantic", "body": {"text": text}, "scope": {"visibility": "private", **scope}}


def brought(client: httpx.Client, *records: dict[str, Any], **more: Any) -> httpx.Response:
    items = [{"form": "ump", "value": each, "number": number} for number, each in enumerate(records, 1)]
    return client.post("/ump/imports", json={"items": items, "what": "notes.csv", **more})


@pytest.fixture
def ada(server: Running) -> SigningKey:
    """An owner, known here."""
    key = SigningKey(bytes([9]) * 32)
    server.key(key.did)
    return key


@pytest.fixture
def narrow(server: Running, ada: SigningKey) -> Iterator[httpx.Client]:
    """What may do anything in one project of hers."""
    scope = {"owner": ada.did, "project": "work"}
    claims = Claims(
        v="ump-cap/0.1", iss=ada.did, verbs=ALL, scope=scope, exp="2999-01-01T00:00:00Z", jti="work and no more"
    )
    with server.client(mint(claims, ada)) as client:
        yield client


def test_a_part_of_a_memory_brings_nothing_into_the_rest(
    server: Running, ada: SigningKey, narrow: httpx.Client
) -> None:
    own = record("in the project", owner=ada.did, project="work")
    others = [
        record("in another project", owner=ada.did, project="home"),
        record("in no project", owner=ada.did),
        record("another's", owner=STRANGER, project="work"),
    ]
    said = brought(narrow, own, *others).json()
    assert (said["report"]["created"], said["report"]["refused"]) == (2, 2)
    with server.client(server.key(ada.did)) as whole, server.client(server.key(STRANGER)) as stranger:
        left = whole.get("/ump/export").json()["records"]
        # What names no project is meant for the one that its bearer has.
        assert [(each["body"]["text"], each["scope"]["project"]) for each in left] == [
            ("in the project", "work"),
            ("in no project", "work"),
        ]
        assert stranger.get("/ump/export").json()["records"] == []


@pytest.mark.parametrize(("method", "path", "body"), WHOLE)
def test_what_is_of_all_is_not_for_who_may_see_a_part(
    narrow: httpx.Client, method: str, path: str, body: dict[str, Any] | None
) -> None:
    answer = narrow.request(method, path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden_scope")


def test_an_import_is_gone_on_with_and_taken_back_by_its_owner_alone(server: Running, client: httpx.Client) -> None:
    begun = brought(client, record("first part", owner=OWNER)).json()["import"]
    with server.client(server.key(STRANGER)) as stranger:
        assert brought(stranger, record("theirs", owner=STRANGER), id=begun).status_code == 404
        assert stranger.post("/ump/imports/undo", json={"id": begun}).status_code == 404
        assert [each["id"] for each in stranger.get("/ump/imports").json()["imports"]] == []
    assert brought(client, record("second part", owner=OWNER), id=begun).json()["import"] == begun
    undone = client.post("/ump/imports/undo", json={"id": begun}).json()
    assert undone["forgotten"] == 2


@pytest.mark.parametrize(
    "item",
    [
        {"form": "oms", "value": "not base64 !"},
        {"form": "oms", "value": "AAAA", "index": {"verification_status": "verified", "superseded_by": "x"}},
        {"form": "oams", "line": "{"},
        {"form": "oams", "line": '{"a":1}' * 2},
        {"form": "ump", "value": [[[]]]},
        {"form": "ump"},
    ],
)
def test_what_cannot_be_read_is_refused_in_its_place_and_the_rest_is_taken(
    client: httpx.Client, item: dict[str, Any]
) -> None:
    text = f"beside {item}"
    good = {"form": "ump", "value": record(text, owner=OWNER), "number": 2}
    answer = client.post("/ump/imports", json={"items": [{**item, "where": "line 1", "number": 1}, good]})
    assert answer.status_code == 200, answer.text
    report = answer.json()["report"]
    assert (report["created"], report["refused"]) == (1, 1)
    assert [each["where"] for each in report["refusals"]] == ["line 1"]
