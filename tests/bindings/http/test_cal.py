"""CAL over HTTP: one query in three forms, its envelope, and a clear refusal with its code for everything else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bindings.http.running import OWNER, Running, error_of, running

from memoranda.encoding.didkey import SigningKey
from memoranda.service.cal.session import CalSettings, Switches
from memoranda.standards.cal.grammar import prompt_card

NAMESPACE = {"namespace": "kitchen"}
TEXT_TYPE = {"content-type": "text/cal"}
JSON_TYPE = {"content-type": "application/json"}
FORM_TYPE = {"content-type": "application/json+cal"}
QUERY = 'RECALL beliefs ABOUT "ada" | ORDER BY time ASC | LIMIT 2 AS markdown'
FORM = {
    "cal_version": 1,
    "statement": "recall",
    "grain_type": "beliefs",
    "about": "ada",
    "pipeline": [{"stage": "order_by", "field": "time", "dir": "asc"}, {"stage": "limit", "n": 2}],
    "as": "markdown",
}
ADD = 'ADD belief SET subject = "ada" SET relation = "prefers" SET object = $what REASON "she said so"'
DEFINE = "DEFINE TEMPLATE brief EXTENDS readable ELEMENT { {{grain.object}} }"


def seed(client: httpx.Client, count: int = 3) -> None:
    for number in range(count):
        grain = {
            "type": "belief",
            "subject": "ada",
            "relation": "prefers",
            "object": f"tea {number}",
            "confidence": 0.9,
            "created_at": 1768471200000 + number,
            "namespace": "kitchen",
        }
        assert client.post("/oms/grains", json=grain).status_code == 200


@pytest.fixture(scope="module")
def seeded(client: httpx.Client) -> httpx.Client:
    seed(client)
    return client


@pytest.fixture(scope="module")
def evolving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose host lets others than the person at the machine change memories through the language."""
    with running(tmp_path_factory.mktemp("evolving") / "home", cal=CalSettings(evolves_locally_only=False)) as started:
        yield started


def ask(client: httpx.Client, query: object, path: str = "/cal", **beside: Any) -> httpx.Response:
    return client.post(path, json={"query": query, **NAMESPACE, **beside})


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an error of CAL, whose form is checked on the way."""
    error = answer.json()["error"]
    assert {"code", "message", "position", "suggestion"} <= set(error), error
    assert set(error["position"]) == {"start", "end", "line", "col"}
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, error["code"]


def plain(answer: httpx.Response) -> dict[str, Any]:
    """An envelope without what differs from run to run."""
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    del body["_cal"]["duration_ms"]
    return body


# --- asking ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-26-http")
def test_a_query_gives_the_same_answer_in_each_of_its_forms(seeded: httpx.Client) -> None:
    expected = plain(ask(seeded, QUERY))
    assert expected["_cal"]["statement_type"] == "recall"
    assert (expected["format"], expected["total"]) == ("markdown", 3)
    assert "ada prefers tea 0" in expected["formatted"]
    ways = [
        ask(seeded, FORM),
        seeded.post("/cal", params=NAMESPACE, content=QUERY, headers=TEXT_TYPE),
        seeded.post("/cal", params=NAMESPACE, content=QUERY, headers={"content-type": "Text/CAL; charset=utf-8"}),
        seeded.post("/cal", params=NAMESPACE, content=json.dumps(FORM), headers=FORM_TYPE),
        seeded.post("/cal", content=json.dumps({"query": QUERY, **NAMESPACE}), headers=FORM_TYPE),
        seeded.post("/cal", content=json.dumps({"query": FORM, **NAMESPACE}), headers=FORM_TYPE),
        seeded.post("/cal", content=json.dumps({"query": QUERY, **NAMESPACE}), headers={"content-type": ""}),
    ]
    assert [plain(answer) for answer in ways] == [expected] * len(ways)


@pytest.mark.parametrize(
    ("content_type", "accept", "expected"),
    [
        ("application/json", None, "application/json"),
        ("application/json", "*/*", "application/json"),
        ("application/json", "application/json+cal", "application/json+cal"),
        ("application/json+cal", None, "application/json+cal"),
        ("application/json+cal", "*/*", "application/json+cal"),
        ("application/json+cal", "application/*;q=0.5", "application/json+cal"),
        ("application/json+cal", "application/json, text/event-stream", "application/json"),
        ("application/json+cal", "text/html, ;;q=", "application/json+cal"),
        ("application/json", "text/event-stream;q=0.1, */*;q=0.5", "application/json"),
    ],
)
@pytest.mark.requirement("CAL-15-negotiation")
def test_the_answer_has_the_form_of_the_request_unless_another_is_asked_for(
    server: Running, content_type: str, accept: str | None, expected: str
) -> None:
    with server.client(server.key(OWNER)) as client:
        del client.headers["accept"]
        headers = {"content-type": content_type, **({"accept": accept} if accept else {})}
        answer = client.post("/cal", content=json.dumps({"query": "RECALL beliefs"}), headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, expected)
        assert answer.headers["vary"] == "accept"


def test_parameters_are_values_and_never_words(seeded: httpx.Client) -> None:
    hostile = 'ada" RECENT 1000 --'
    assert plain(ask(seeded, "RECALL beliefs WHERE subject = $who", params={"who": hostile}))["results"] == []
    found = plain(
        ask(seeded, "RECALL beliefs WHERE subject = $who AND confidence >= $c", params={"who": "ada", "c": 0.5})
    )
    assert found["total"] == 3
    assert refusal(ask(seeded, "RECALL beliefs WHERE subject = $who")) == (400, "CAL-E008")
    assert refusal(ask(seeded, "RECALL beliefs ABOUT $who", params={"who": {"a": 1}})) == (400, "CAL-E020")


def test_a_cursor_leads_to_the_next_page_of_the_same_query_in_the_body_and_in_the_url(seeded: httpx.Client) -> None:
    query = "RECALL beliefs | ORDER BY time ASC | LIMIT 2"
    first = plain(ask(seeded, query))
    second = plain(ask(seeded, query, cursor=first["next_cursor"]))
    assert [each["grain"]["object"] for each in (*first["results"], *second["results"])] == ["tea 0", "tea 1", "tea 2"]
    assert second["next_cursor"] is None
    params = {**NAMESPACE, "cursor": first["next_cursor"]}
    assert plain(seeded.post("/cal", params=params, content=query, headers=TEXT_TYPE)) == second
    assert refusal(ask(seeded, "RECALL beliefs", cursor=first["next_cursor"])) == (400, "CAL-E002")


def test_the_namespace_and_the_user_are_those_of_the_request(seeded: httpx.Client) -> None:
    assert plain(seeded.post("/cal", json={"query": "RECALL beliefs"}))["results"] == []
    assert plain(ask(seeded, "RECALL MY beliefs", user="user-7"))["results"] == []


def test_another_owner_sees_nothing_and_may_not_ask_for_this_one(server: Running, seeded: httpx.Client) -> None:
    with server.client(server.key("did:key:zNeighbour")) as neighbour:
        assert plain(ask(neighbour, "RECALL beliefs"))["results"] == []
        assert error_of(ask(neighbour, "RECALL beliefs", owner=OWNER)) == (403, "forbidden_scope")
    with server.client() as operator:
        assert plain(ask(operator, "RECALL beliefs", owner=OWNER))["total"] == 3


def test_who_may_not_read_may_not_ask(server: Running) -> None:
    with server.client("") as nobody:
        for path in ("/cal", "/cal/check", "/cal/prepare", "/cal/execute", "/cal/stream"):
            assert error_of(nobody.post(path, json={"query": "RECALL beliefs"})) == (401, "unauthorized")
        for path in ("/cal/card", "/cal/capabilities"):
            assert error_of(nobody.get(path)) == (401, "unauthorized")
        assert error_of(nobody.delete("/cal/stream/asm_1")) == (401, "unauthorized")
    with server.client(server.key(OWNER, "write")) as writer:
        for path in ("/cal", "/cal/prepare", "/cal/stream"):
            assert error_of(ask(writer, "RECALL beliefs", path)) == (403, "forbidden_scope")


# --- checking, the card, capabilities --------------------------------------------------------------------


@pytest.mark.requirement("CAL-26-http")
def test_checking_gives_a_verdict_and_runs_nothing(seeded: httpx.Client) -> None:
    assert ask(seeded, "RECALL beliefs ABOUT $who", "/cal/check").json() == {"valid": True, "error": None}
    wrong: list[tuple[object, dict[str, Any], str]] = [
        ("RECALL fact", {}, "CAL-E003"),
        ("RECALL beliefs ABOUT $who", {"params": {}}, "CAL-E008"),
        ("", {}, "CAL-E014"),
        ({"statement": "forget"}, {}, "CAL-E002"),
    ]
    for query, beside, code in wrong:
        answer = ask(seeded, query, "/cal/check", **beside)
        assert (answer.status_code, answer.json()["valid"]) == (200, False)
        assert answer.json()["error"]["code"] == code
    text = seeded.post("/cal/check", content="RECALL beliefs RECENT", headers=TEXT_TYPE).json()["error"]
    assert (text["code"], text["line"]) == ("CAL-E002", 1)


def test_the_card_and_the_capabilities_can_be_read(client: httpx.Client) -> None:
    card = client.get("/cal/card")
    assert (card.text, card.headers["content-type"]) == (prompt_card(), "text/plain; charset=utf-8")
    declared = client.get("/cal/capabilities").json()
    described = client.post("/cal", json={"query": "DESCRIBE capabilities"}).json()["description"]
    assert declared == described
    assert (declared["streaming"], declared["tier1_enabled"]) == (True, False)
    assert refusal(client.get("/cal/card?name=x")) == (400, "CAL-E002")


# --- changing --------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-26-two-phases")
def test_a_change_is_off_unless_the_host_enables_it(seeded: httpx.Client) -> None:
    for path in ("/cal", "/cal/prepare"):
        answer = ask(seeded, ADD, path, params={"what": "milk"})
        assert refusal(answer) == (403, "CAL-E044")
        assert answer.json()["error"]["reason"] == "tier1_disabled"


@pytest.mark.requirement("CAL-26-two-phases")
def test_a_change_is_prepared_looked_at_and_executed_once(evolving: Running) -> None:
    with evolving.client(evolving.key()) as client:
        direct = ask(client, ADD, params={"what": "milk"})
        assert (refusal(direct), direct.json()["error"]["reason"]) == ((403, "CAL-E044"), "not_prepared")
        prepared = ask(client, ADD, "/cal/prepare", params={"what": "milk"}).json()
        assert (prepared["tier"], len(prepared["side_effects"])) == (1, 1)
        assert plain(ask(client, "RECALL beliefs"))["total"] == 0
        done = plain(client.post("/cal/execute", json={"token": prepared["token"]}))
        assert (done["operation"], done["_cal"]["tier"]) == ("add", 1)
        (found,) = plain(ask(client, "RECALL beliefs"))["results"]
        assert found["grain"]["object"] == "milk"
        assert done["new_hash"] == f"sha256:{found['content_address']}"
        again = client.post("/cal/execute", json={"token": prepared["token"]})
        assert (refusal(again), again.json()["error"]["reason"]) == ((403, "CAL-E044"), "replayed")
        supersede = f'SUPERSEDE {done["new_hash"]} SET object = "oat milk" REASON "changed her mind"'
        token = ask(client, supersede, "/cal/prepare").json()["token"]
        assert plain(client.post("/cal/execute", json={"token": token}))["operation"] == "supersede"
        assert refusal(ask(client, supersede, "/cal/prepare")) == (409, "CAL-E040")


@pytest.mark.requirement("CAL-26-two-phases")
def test_a_reader_cannot_change_and_a_token_of_another_credential_is_none(evolving: Running) -> None:
    with evolving.client(evolving.key(OWNER, "read")) as reader, evolving.client(evolving.key()) as writer:
        assert refusal(ask(reader, ADD, "/cal/prepare", params={"what": "x"})) == (403, "CAL-E044")
        token = ask(writer, ADD, "/cal/prepare", params={"what": "x"}).json()["token"]
        assert refusal(reader.post("/cal/execute", json={"token": token})) == (403, "CAL-E044")
        assert error_of(ask(reader, DEFINE)) == (403, "forbidden_scope")


def test_a_capability_token_narrows_the_credential(server: Running, seeded: httpx.Client) -> None:
    key = server.key(OWNER)
    access = server.service.gate.authenticate(key)
    token = server.service.cal.issue(access, namespace="kitchen", operations=("Recall",), uses=1)
    with server.client(key) as client:
        client.headers["x-cal-token"] = token
        assert refusal(client.post("/cal", json={"query": "DESCRIBE server"})) == (403, "CAL-E044")
        # The namespace is the token's, whatever the request says.
        assert plain(client.post("/cal", json={"query": "RECALL beliefs", "namespace": "elsewhere"}))["total"] == 3
        used = client.post("/cal", json={"query": "RECALL beliefs"})
        assert (refusal(used), used.json()["error"]["reason"]) == ((403, "CAL-E044"), "replayed")
        client.headers["x-cal-token"] = "calcap.nonsense"
        for path in ("/cal", "/cal/prepare", "/cal/stream"):
            wrong = client.post(path, json={"query": "RECALL beliefs"})
            assert (refusal(wrong), wrong.json()["error"]["reason"]) == ((403, "CAL-E044"), "bad_signature")


def test_a_capability_token_is_used_up_by_a_stream_too(server: Running, seeded: httpx.Client) -> None:
    key = server.key(OWNER)
    token = server.service.cal.issue(server.service.gate.authenticate(key), namespace="kitchen", uses=1)
    with server.client(key) as client:
        client.headers["x-cal-token"] = token
        body = {"query": "ASSEMBLE FROM (RECALL beliefs)"}
        assert client.post("/cal/stream", json=body).status_code == 200
        assert refusal(client.post("/cal/stream", json=body)) == (403, "CAL-E044")


@pytest.mark.requirement("CAL-20-master-switch")
def test_the_master_switch_turns_every_query_away(tmp_path: Path) -> None:
    with (
        running(tmp_path / "home", cal=CalSettings(switches=Switches(master=False))) as off,
        off.client(off.key()) as client,
    ):
        for path in ("/cal", "/cal/prepare", "/cal/stream"):
            assert refusal(ask(client, "RECALL beliefs", path)) == (503, "CAL-E000")
        assert refusal(client.post("/cal/execute", json={"token": "x"})) == (503, "CAL-E000")
        assert refusal(client.get("/cal/capabilities")) == (503, "CAL-E000")


# --- refusals --------------------------------------------------------------------------------------------

BODIES: list[tuple[dict[str, str], bytes, tuple[int, str]]] = [
    (TEXT_TYPE, b"", (400, "CAL-E014")),
    (TEXT_TYPE, b"RECALL beliefs " + b"x" * 8192, (400, "CAL-E001")),
    (TEXT_TYPE, b'RECALL beliefs ABOUT "\xff"', (400, "CAL-E070")),
    (TEXT_TYPE, 'RECALL beliefs ABOUT "\u202e"'.encode(), (400, "CAL-E071")),
    (TEXT_TYPE, b"CAL/2 RECALL beliefs", (400, "CAL-E100")),
    (TEXT_TYPE, b"x" * 3_000_000, (400, "CAL-E001")),
    (JSON_TYPE, b"", (400, "CAL-E002")),
    (JSON_TYPE, b"{", (400, "CAL-E002")),
    (JSON_TYPE, b"[]", (400, "CAL-E002")),
    (JSON_TYPE, b"null", (400, "CAL-E002")),
    (JSON_TYPE, b"\xff{}", (400, "CAL-E070")),
    (JSON_TYPE, b"\xef\xbb\xbf{}", (400, "CAL-E002")),
    (JSON_TYPE, b"[" * 100_000, (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": ' + b'{"query":' * 60 + b"1" + b"}" * 61, (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": "RECALL beliefs", "query": "RECALL goals"}', (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": 7}', (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": null}', (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": "RECALL beliefs", "colour": "red"}', (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": "RECALL beliefs", "params": []}', (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": "RECALL beliefs", "params": null}', (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": "RECALL beliefs", "cursor": 7}', (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": "RECALL beliefs", "cursor": "cursor:AAAA"}', (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": "RECALL beliefs ABOUT $x", "params": {"x": 1e999}}', (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": {"statement": "recall", "grain_type": "facts"}}', (400, "CAL-E003")),
    (JSON_TYPE, b'{"statement": "recall"}', (400, "CAL-E002")),
    (JSON_TYPE, b'{"query": "' + b"x" * 3_000_000 + b'"}', (400, "CAL-E001")),
    (FORM_TYPE, b"", (400, "CAL-E002")),
    (FORM_TYPE, b'{"statement": "recall", "colour": "red"}', (400, "CAL-E002")),
    (FORM_TYPE, b'{"cal_version": 2, "statement": "recall"}', (400, "CAL-E100")),
]


@pytest.mark.requirement("CAL-26-http-refusals")
def test_what_is_no_query_is_refused_with_its_code(client: httpx.Client) -> None:
    for headers, body, expected in BODIES:
        for path in ("/cal", "/cal/prepare"):
            if path == "/cal/prepare" and b"cursor" in body:
                continue
            answer = client.post(path, content=body, headers=headers)
            assert refusal(answer) == expected, (body[:60], answer.text)


@pytest.mark.requirement("CAL-26-http-refusals")
def test_a_body_without_a_stated_length_is_measured_too(client: httpx.Client) -> None:
    answer = client.post("/cal", content=(b"x" * 65_536 for _ in range(64)), headers=TEXT_TYPE)
    assert refusal(answer) == (400, "CAL-E001")


def test_what_stands_around_a_query_is_refused_in_the_same_words(client: httpx.Client) -> None:
    for headers in ({"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}):
        assert refusal(client.post("/cal", content=b"RECALL beliefs", headers=headers)) == (400, "CAL-E002")
    assert refusal(client.post("/cal?namespace=%ff", json={})) == (400, "CAL-E002")
    assert refusal(client.post("/cal", json={"query": "RECALL beliefs", "namespace": 7})) == (400, "CAL-E002")
    assert refusal(client.post("/cal", json={"query": "RECALL beliefs", "user": "a\x00"})) == (400, "CAL-E002")
    assert error_of(client.get("/cal")) == (404, "not_found")
    assert error_of(client.post("/cal/")) == (404, "not_found")


def test_what_is_said_twice_or_where_it_does_not_belong_is_refused(client: httpx.Client) -> None:
    body = {"query": "RECALL beliefs", "namespace": "kitchen"}
    assert refusal(client.post("/cal?namespace=garden", json=body)) == (400, "CAL-E002")
    assert refusal(client.post("/cal?params=x", json=body)) == (400, "CAL-E002")
    assert refusal(client.post("/cal?param.x=1", content="RECALL beliefs", headers=TEXT_TYPE)) == (400, "CAL-E002")
    assert refusal(client.post("/cal/check?cursor=x", json=body)) == (400, "CAL-E002")
    for unread in ({}, {"token": 7}, {"token": "x", "namespace": "y"}):
        assert refusal(client.post("/cal/execute", json=unread)) == (400, "CAL-E002")
    for token in ("x", "calprep.", "calprep.AAAA", "calprep." + "A" * 10_000, "\u2028"):
        assert refusal(client.post("/cal/execute", json={"token": token})) == (403, "CAL-E044")


def test_statuses_follow_the_codes(seeded: httpx.Client) -> None:
    gone = f"sha256:{'0' * 64}"
    assert refusal(ask(seeded, f"HISTORY {gone} DIFF {gone}")) == (404, "CAL-E046")
    assert refusal(ask(seeded, "ASSEMBLE FROM (RECALL beliefs) FORMAT TEMPLATE nothing")) == (404, "CAL-E085")
    assert plain(ask(seeded, DEFINE))["defined"] == "brief"
    assert refusal(ask(seeded, DEFINE)) == (409, "CAL-E088")
    shown = plain(ask(seeded, "ASSEMBLE FROM (RECALL beliefs | LIMIT 1) FORMAT TEMPLATE brief"))
    assert shown["formatted_context"] == {"format": "brief", "text": "tea 0\n"}


def test_a_template_is_removed_by_its_owner_and_by_nobody_else(server: Running, seeded: httpx.Client) -> None:
    path, define = "/cal/templates/short", DEFINE.replace("brief", "short")
    # Where the queries of `seeded` are asked.
    place = {"namespace": "kitchen"}
    assert seeded.delete(path, params=place).status_code == 404
    assert plain(ask(seeded, define))["defined"] == "short"
    peer = SigningKey(b"p" * 32).did
    gate = server.service.gate
    granted = gate.mint_token(verbs=("read", "write"), scope={"owner": OWNER}, ttl_ms=60_000, audience=peer)
    with server.client(granted) as other, server.client(server.key(OWNER, "read")) as reader:
        for client in (other, reader):
            assert client.delete(path, params=place).status_code == 403
        assert error_of(ask(other, define.replace("short", "theirs"))) == (403, "forbidden_scope")
    assert refusal(ask(seeded, define)) == (409, "CAL-E088")
    assert seeded.delete(path, params=place).status_code == 204
    assert refusal(ask(seeded, "ASSEMBLE FROM (RECALL beliefs) FORMAT TEMPLATE short")) == (404, "CAL-E085")
    assert plain(ask(seeded, define))["defined"] == "short"


FUZZ = settings(max_examples=60)
PATHS = st.sampled_from(("/cal", "/cal/check", "/cal/prepare", "/cal/execute", "/cal/stream"))
TYPES = st.sampled_from((TEXT_TYPE, JSON_TYPE, FORM_TYPE, {"content-type": "text/plain"}))
ACCEPTS = st.sampled_from(("*/*", "text/event-stream", "application/x-ndjson", "q=;,"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from((QUERY, ADD, "recall", FORM)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("query", "params", "cursor", "statement", "token", "where", "from", "x")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@FUZZ
@given(path=PATHS, headers=TYPES, accept=ACCEPTS, body=st.binary(max_size=200))
@pytest.mark.requirement("CAL-26-http-refusals")
def test_random_bytes_are_never_our_fault(
    client: httpx.Client, path: str, headers: dict[str, str], accept: str, body: bytes
) -> None:
    answer = client.post(path, content=body, headers={**headers, "accept": accept})
    # 501: what happens to be a query may not be one that can be streamed.
    assert answer.status_code < 500 or answer.json()["error"]["code"] == "CAL-E079", answer.text


@FUZZ
@given(path=PATHS, headers=st.sampled_from((JSON_TYPE, FORM_TYPE)), accept=ACCEPTS, value=VALUES)
def test_random_json_is_never_our_fault(
    client: httpx.Client, path: str, headers: dict[str, str], accept: str, value: Any
) -> None:
    body = json.dumps(value).encode("utf-8", "surrogatepass")
    answer = client.post(path, content=body, headers={**headers, "accept": accept})
    assert answer.status_code < 500 or answer.json()["error"]["code"] == "CAL-E079", answer.text
