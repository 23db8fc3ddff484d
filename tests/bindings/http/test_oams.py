"""OAMS over REST: every name survives its way through a URL, versions are guarded, and refusals have their codes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.bindings.http.running import OWNER, Running, memory_path, oams_error_of, raw_request, running

from memoranda.encoding.didkey import SigningKey
from memoranda.model.instant import format_instant
from memoranda.service.core.limits import Quotas
from memoranda.standards.oams.namespace import owner_hash
from memoranda.standards.ump.token import Claims, mint

JSON_TYPE = {"content-type": "application/json"}
HOSTILE = settings(max_examples=40)

NOT_CONTROL = st.characters(exclude_categories=("Cs", "Cc"))
KEYS = st.text(NOT_CONTROL, min_size=1, max_size=40)
SCOPES = st.text(NOT_CONTROL, min_size=1, max_size=20).filter(lambda text: not set(text) & set("/:"))
OWNERS = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=20).filter(
    lambda text: not set(text) & set("/:")
)


def put(client: httpx.Client, namespace: str, key: str, value: str = "x", /, **fields: Any) -> httpx.Response:
    return client.put(memory_path(namespace, key), json={"value": value, **fields})


def listed(client: httpx.Client, namespace: str, **query: Any) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        path = memory_path(namespace, "").removesuffix("/")
        page = client.get(path, params={**query, "cursor": cursor}).json()
        found += [memory["key"] for memory in page["memories"]]
        cursor = page["next_cursor"]
        if not cursor:
            return found


# --- names in a path -------------------------------------------------------------------------------------


@HOSTILE
@example(owner="user-x123ab", scope="personal", key="a%2Fb")
@example(owner="%41", scope="%2F %", key="/")
@example(owner="u", scope="..", key="..")
@example(owner="u", scope=".", key=".")
@example(owner="u", scope="s", key="batch")
@example(owner="u", scope="s", key="a/../b//c/")
@example(owner="u", scope="+ ?#", key="a b+c%20&?x=1#y;z")
@example(owner="ü", scope="日本", key="😀\u200b\u202e")
@given(owner=OWNERS, scope=SCOPES, key=KEYS)
@pytest.mark.requirement("OAMS-OURS-url-encoding")
def test_every_legal_name_survives_its_url(client: httpx.Client, owner: str, scope: str, key: str) -> None:
    namespace = f"{owner}:{scope}"
    stored = put(client, namespace, key, "what is kept")
    assert stored.status_code in (200, 201), stored.text
    assert (stored.json()["namespace"], stored.json()["key"]) == (namespace, key)
    assert client.get(memory_path(namespace, key)).json() == stored.json()
    assert key in listed(client, namespace)
    assert client.delete(memory_path(namespace, key)).status_code == 204
    assert oams_error_of(client.get(memory_path(namespace, key))) == (404, -32002)


@pytest.mark.parametrize(
    ("target", "key"),
    [
        ("a%2fb", "a/b"),
        ("a/b", "a/b"),
        ("..", ".."),
        ("../../v1/oams/recall", "../../v1/oams/recall"),
        ("%2e%2e%2F%2e", "../."),
        ("a+b", "a+b"),
        ("a%2Bb", "a+b"),
        ("%25", "%"),
        ("%252F", "%2F"),
        ("batch", "batch"),
        ("/", "/"),
        (":", ":"),
        ("%E2%82%AC", "€"),
        ("~!$&'()*,;=@", "~!$&'()*,;=@"),
    ],
)
@pytest.mark.requirement("OAMS-OURS-url-encoding")
def test_the_path_is_split_before_it_is_decoded(server: Running, client: httpx.Client, target: str, key: str) -> None:
    put(client, "user:raw", key, f"the value of {key}")
    credential = client.headers["authorization"]
    head = f"GET /v1/oams/memories/user:raw/{target} HTTP/1.1\r\nAuthorization: {credential}\r\n"
    status, body = raw_request(server, head.encode("ascii"))
    assert (status, json.loads(body)["key"]) == (200, key)


@pytest.mark.parametrize(
    "target",
    [
        *("user:raw/%", "user:raw/%zz", "user:raw/%2", "user:raw/%ff", "user:raw/%ED%A0%80", "user:raw/%00"),
        *("user:raw/%0A", "user:raw/", "user:raw/" + "k" * 1025, "user:" + "s" * 7000),
        *("%ff:x/k", "a:b:c/k", "a:b%2Fc/k", "a:%0A", ":x/k", "/k", "%20:x/k"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_bad_name_in_the_path_is_a_validation_error(
    server: Running, client: httpx.Client, method: str, target: str
) -> None:
    credential = client.headers["authorization"]
    head = f"{method} /v1/oams/memories/{target} HTTP/1.1\r\nAuthorization: {credential}\r\n"
    status, body = raw_request(server, head.encode("ascii"))
    has_key = "/" in target
    expected = (422, -32003) if method == "GET" or has_key else (405, -32601)
    assert (status, json.loads(body)["error"]["code"]) == expected


# --- STORE -----------------------------------------------------------------------------------------------


def test_a_client_learns_its_own_namespace(server: Running, client: httpx.Client) -> None:
    own = client.get("/v1/oams/namespaces").json()
    assert put(client, own["default"], "k", "tea with milk").status_code == 201
    assert own["default"] in client.get("/v1/oams/namespaces").json()["namespaces"]
    (found,) = client.post("/v1/oams/recall", json={"namespace": own["default"], "query": "milk", "k": 1}).json()
    assert found["namespace"] == own["default"]
    asked = {"jsonrpc": "2.0", "id": 1, "method": "oams.namespaces", "params": {}}
    assert client.post("/v1/oams/rpc", json=asked).json()["result"]["default"] == own["default"]
    with server.client("") as stranger:
        assert stranger.get("/v1/oams/namespaces").status_code == 401


@pytest.mark.requirement("OAMS-OURS-if-match")
def test_a_version_is_replaced_only_by_who_has_seen_it(client: httpx.Client) -> None:
    path = memory_path("user:versions", "k")
    fresh = client.put(path, json={"value": "one"}, headers={"if-none-match": "*"})
    assert (fresh.status_code, fresh.headers["etag"]) == (201, client.get(path).headers["etag"])
    second = client.put(path, json={"value": "two"}, headers={"if-match": fresh.headers["etag"]})
    assert (second.status_code, second.json()["value"]) == (200, "two")
    assert second.headers["etag"] != fresh.headers["etag"]
    assert second.json()["created_at"] == fresh.json()["created_at"] < second.json()["updated_at"]
    late = client.put(path, json={"value": "three"}, headers={"if-match": fresh.headers["etag"]})
    assert oams_error_of(late)[0] == 412
    assert late.json()["error"]["data"]["reason"] == "version_conflict"
    assert oams_error_of(client.put(path, json={"value": "x"}, headers={"if-none-match": "*"}))[0] == 412
    assert oams_error_of(client.delete(path, headers={"if-match": fresh.headers["etag"]}))[0] == 412
    assert client.get(path).json() == second.json()
    assert client.delete(path, headers={"if-match": second.headers["etag"]}).status_code == 204
    assert oams_error_of(client.put(path, json={"value": "x"}, headers={"if-match": "*"}))[0] == 412


@pytest.mark.parametrize("header", [{"if-none-match": '"x"'}, {"if-match": ""}, {"if-match": "x" * 300}])
def test_a_condition_that_cannot_be_kept_is_refused(client: httpx.Client, header: dict[str, str]) -> None:
    answer = client.put(memory_path("user:versions", "odd"), json={"value": "x"}, headers=header)
    assert oams_error_of(answer) == (422, -32003)


def test_of_two_who_store_at_once_with_the_same_version_one_wins(server: Running, client: httpx.Client) -> None:
    path = memory_path("user:race", "k")
    etag = client.put(path, json={"value": "start"}).headers["etag"]
    barrier = threading.Barrier(4)

    def attempt(number: int) -> int:
        with server.client(client.headers["authorization"].removeprefix("Bearer ")) as own:
            barrier.wait()
            return own.put(path, json={"value": f"by {number}"}, headers={"if-match": etag}).status_code

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(attempt, range(4))) == [200, 412, 412, 412]


@pytest.mark.requirement("OAMS-3-five-operations", "OAMS-3-store-returns", "OAMS-3-store-idempotent")
def test_a_memory_is_stored_once_however_often_it_is_sent(client: httpx.Client) -> None:
    sent: dict[str, Any] = {"tags": ["Tea", "HABITS"], "x-ours": {"deep": [1, None]}, "source_id": None}
    first = put(client, "user:store", "tea", "Ada drinks tea", **sent)
    again = put(client, "user:store", "tea", "Ada drinks tea", **sent)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.headers["etag"] == again.headers["etag"]
    assert first.json()["tags"] == ["tea", "habits"]
    assert first.json()["metadata"] == {"memoranda:tags": ["Tea", "HABITS"]}
    assert first.headers["x-oams-warning"] == "the field 'x-ours' is not in OAMS 0.1; it is stored unchanged"
    whole = client.put(memory_path("user:store", "tea"), json=first.json())
    assert (whole.status_code, whole.json()) == (200, first.json())


def test_warnings_stay_short_and_printable(client: httpx.Client) -> None:
    fields: dict[str, Any] = {f"é\n{number}" * 50: number for number in range(100)}
    answer = put(client, "user:store", "odd", **fields)
    warnings = answer.headers.get_list("x-oams-warning")
    assert answer.status_code == 201
    assert (len(warnings), warnings[-1]) == (9, "and 92 more")
    assert all(len(warning) < 1000 and warning.isascii() for warning in warnings)


def test_the_body_may_not_contradict_the_path(client: httpx.Client) -> None:
    for fields in ({"key": "other"}, {"namespace": "user:other"}, {"key": None}):
        answer = client.put(memory_path("user:store", "k"), json={"value": "x", **fields})
        assert oams_error_of(answer) == (422, -32003)


@pytest.mark.requirement("OAMS-3-five-operations", "OAMS-3-forget-204", "OAMS-3-forget-gone")
def test_what_is_forgotten_is_gone_and_cannot_be_forgotten_again(client: httpx.Client) -> None:
    put(client, "user:forget", "k", "a thing to be forgotten")
    path = memory_path("user:forget", "k")
    answer = client.delete(path)
    assert (answer.status_code, answer.content, "content-length" in answer.headers) == (204, b"", False)
    assert oams_error_of(client.delete(path)) == (404, -32002)
    assert listed(client, "user:forget") == []
    assert client.post("/v1/oams/recall", json={"namespace": "user:forget", "query": "forgotten"}).json() == []
    assert put(client, "user:forget", "k", "once more").status_code == 201


# --- LIST, RECALL, BATCH_STORE -------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-3-five-operations", "OAMS-3-list-pages")
def test_a_list_is_paged_filtered_and_newest_first(client: httpx.Client) -> None:
    for number in range(7):
        time = f"2026-01-0{number + 1}T00:00:00Z"
        put(client, "user:list", f"k{number}", tags=["odd" if number % 2 else "even", "a,b"], updated_at=time)
    assert listed(client, "user:list", limit=2) == [f"k{number}" for number in (6, 5, 4, 3, 2, 1, 0)]
    assert listed(client, "user:list", tags="odd") == ["k5", "k3", "k1"]
    assert listed(client, "user:list", tags=["odd", '["a,b"]']) == ["k5", "k3", "k1"]
    assert listed(client, "user:list", since="2026-01-06T00:00:00Z") == ["k6", "k5"]
    assert listed(client, "user:list", limit="", since="", tags="") == [
        f"k{number}" for number in (6, 5, 4, 3, 2, 1, 0)
    ]


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=-1", "limit=x", "limit=1&limit=2", "since=yesterday", "colour=red", "namespace=a:b"),
        *("cursor=x", "cursor=" + "A" * 43, "cursor=" + "A" * 2000),
        *("tags=%ff", "tags=[1]", "tags=[", "%zz", "&".join(["tags=x"] * 99)),
    ],
)
def test_a_bad_query_is_refused(client: httpx.Client, query: str) -> None:
    put(client, "user:list", "there")
    answer = client.get(f"/v1/oams/memories/user:list?{query}")
    assert oams_error_of(answer) in ((422, -32003), (400, -32700))


def test_a_cursor_is_of_one_namespace(client: httpx.Client) -> None:
    for namespace in ("user:cursor-a", "user:cursor-b"):
        put(client, namespace, "k1")
        put(client, namespace, "k2")
    page = client.get("/v1/oams/memories/user:cursor-a?limit=1").json()
    there = {"cursor": page["next_cursor"]}
    assert client.get("/v1/oams/memories/user:cursor-a", params=there).status_code == 200
    assert oams_error_of(client.get("/v1/oams/memories/user:cursor-b", params=there)) == (422, -32003)


@pytest.mark.requirement("OAMS-3-five-operations", "OAMS-3-recall-order")
def test_a_recall_is_an_ordered_array_with_scores_that_are_never_stored(client: httpx.Client) -> None:
    put(client, "user:recall", "green", "Ada drinks green tea", tags=["tea"])
    put(client, "user:recall", "black", "Ada drinks black coffee")
    found = client.post("/v1/oams/recall", json={"namespace": "user:recall", "query": "green tea for Ada"}).json()
    assert [memory["key"] for memory in found] == ["green", "black"]
    scores = [memory["metadata"]["score"] for memory in found]
    assert scores == sorted(scores, reverse=True)
    assert client.put(memory_path("user:recall", "green"), json=found[0]).status_code == 200
    assert "metadata" not in client.get(memory_path("user:recall", "green")).json()
    tagged = {"namespaces": ["user:recall"], "query": "Ada", "tags": ["TEA"], "k": 1}
    assert [memory["key"] for memory in client.post("/v1/oams/recall", json=tagged).json()] == ["green"]


@pytest.mark.requirement("OAMS-3-five-operations", "OAMS-3-batch-returns", "OAMS-3-errors-occur")
def test_a_batch_is_stored_whole_or_not_at_all(client: httpx.Client) -> None:
    good = [{"namespace": "user:batch", "key": f"k{number}", "value": f"value {number}"} for number in range(3)]
    path = "/v1/oams/memories/batch"
    for wrong in ({"key": "k9"}, {**good[0], "value": 7}, good[0], {**good[0], "namespace": "user:"}, 7):
        assert oams_error_of(client.post(path, json={"memories": [*good, wrong]})) == (422, -32003)
    assert oams_error_of(client.get("/v1/oams/memories/user:batch")) == (404, -32001)
    answer = client.post(path, json={"memories": good})
    assert answer.status_code == 200
    assert [(each["key"], each["value"]) for each in answer.json()] == [(m["key"], m["value"]) for m in good]
    assert sorted(listed(client, "user:batch")) == ["k0", "k1", "k2"]


def test_a_batch_of_thousands_fits_into_one_request(client: httpx.Client) -> None:
    memories = [{"namespace": "user:many", "key": f"k{number}", "value": "x" * 1500} for number in range(2_000)]
    answer = client.post("/v1/oams/memories/batch", json={"memories": memories})
    assert (answer.status_code, len(answer.json())) == (200, 2_000)


@pytest.mark.parametrize("is_stated", [True, False])
def test_a_body_over_the_limit_is_refused_in_the_shape_of_oams(client: httpx.Client, is_stated: bool) -> None:
    big = b'{"memories":[' + b" " * 17_000_000 + b"]}"
    for path in ("/v1/oams/memories/batch", "/v1/oams/rpc"):
        chunks = (big[start : start + 65_536] for start in range(0, len(big), 65_536))
        answer = client.post(path, content=big if is_stated else chunks, headers=JSON_TYPE)
        assert oams_error_of(answer) == (413, -32003)


def test_more_large_bodies_than_fit_at_once_wait_for_each_other(server: Running) -> None:
    key = server.key()

    def send(number: int) -> int:
        memories = [{"namespace": f"user:large-{number}", "key": f"k{n}", "value": "x" * 900_000} for n in range(3)]
        with server.client(key) as own:
            return own.post("/v1/oams/memories/batch", json={"memories": memories}).status_code

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(send, range(8))) == [200] * 8


# --- who may ------------------------------------------------------------------------------------------------


def token_of(key: SigningKey, server: Running, verbs: tuple[str, ...] = ("read",), **claims: Any) -> str:
    """A capability token by which an owner lets its bearer do something."""
    claims = {"scope": {"owner": key.did}, "exp": "2999-01-01T00:00:00Z", "jti": f"{key.did}{claims}", **claims}
    return mint(Claims(v="ump-cap/0.1", iss=key.did, verbs=verbs, **claims), key)


@pytest.fixture
def owners(server: Running) -> Iterator[list[tuple[SigningKey, httpx.Client, str]]]:
    """Ada and Bob: their keys, their clients, and a namespace of each with one memory."""
    people = [SigningKey(bytes([number]) * 32) for number in (7, 8)]
    found = [(key, server.client(server.key(key.did)), f"{owner_hash(key.did)}:personal") for key in people]
    for key, client, namespace in found:
        put(client, namespace, f"secret of {key.did}", "the secret recipe")
    yield found
    for _, client, _ in found:
        client.close()


def recalls(client: httpx.Client) -> int:
    """How often recalls are in the audit log of a client's tenant."""
    return len(client.post("/ump/audit", json={"op": "oams.recall", "limit": 1000}).json()["events"])


@pytest.mark.requirement("OAMS-4-cross-owner-refused")
def test_a_recall_that_spans_owners_needs_the_consent_of_both_and_is_audited_by_both(
    server: Running, owners: list[tuple[SigningKey, httpx.Client, str]]
) -> None:
    (ada, client, of_ada), (bob, other, of_bob) = owners
    tokens = [token_of(ada, server), token_of(bob, server)]
    asked: dict[str, Any] = {"query": "secret recipe", "namespaces": [of_ada, of_bob]}
    for shown in ([], tokens[:1], tokens[1:], [tokens[0], tokens[0]]):
        refused = (
            client.post("/v1/oams/recall", json={**asked, "consents": shown}),
            client.post("/v1/oams/recall", json=asked, headers={"x-oams-consent": ", ".join(shown)}),
        )
        assert [oams_error_of(answer) for answer in refused] == [(403, -32005)] * 2
    before = recalls(client), recalls(other)
    answers = (
        client.post("/v1/oams/recall", json={**asked, "consents": tokens}),
        client.post("/v1/oams/recall", json=asked, headers={"x-oams-consent": ",".join(tokens)}),
        client.post("/v1/oams/recall", json={**asked, "consents": tokens[:1]}, headers={"x-oams-consent": tokens[1]}),
    )
    for answer in answers:
        assert {memory["namespace"] for memory in answer.json()} == {of_ada, of_bob}
    assert recalls(client) > before[0]
    assert recalls(other) == before[1] + 3
    assert client.get("/ump/audit/verify").json()["ok"]
    assert other.get("/ump/audit/verify").json()["ok"]


def test_a_consent_counts_only_as_far_as_it_goes(
    server: Running, owners: list[tuple[SigningKey, httpx.Client, str]]
) -> None:
    (ada, client, of_ada), (bob, _, of_bob) = owners
    good, mallory = token_of(ada, server), SigningKey(bytes(range(32)))
    now = server.service._context.clock()
    revoked = token_of(bob, server, jti="to be revoked")
    server.service.gate.revoke_token(revoked)
    bad = [
        token_of(bob, server, ("write",)),
        token_of(bob, server, scope={"owner": bob.did, "project": "other"}),
        token_of(bob, server, exp=format_instant(now - 1000)),
        token_of(mallory, server),
        token_of(mallory, server, scope={"owner": bob.did}),
        token_of(bob, server)[:-4] + "AAAA",
        server.key(bob.did),
        revoked,
        "umpcap.",
        "umpcap.é.ü",
        "",
    ]
    for token in bad:
        body = {"query": "secret", "namespaces": [of_ada, of_bob], "consents": [good, token]}
        assert oams_error_of(client.post("/v1/oams/recall", json=body)) == (403, -32005), token
    malformed: tuple[Any, ...] = ("umpcap.x", [7], [None], {}, ["umpcap.x"] * 65)
    for consents in malformed:
        answer = client.post("/v1/oams/recall", json={**body, "consents": consents})
        assert oams_error_of(answer) == (422, -32003), consents


@pytest.mark.requirement("OAMS-4-envelope")
def test_nobody_sees_what_another_owner_keeps_under_the_same_name(
    owners: list[tuple[SigningKey, httpx.Client, str]],
) -> None:
    (_, client, _), (_, other, _) = owners
    put(client, "user-x:same", "k", "of Ada")
    assert oams_error_of(other.get(memory_path("user-x:same", "k"))) == (404, -32001)
    assert put(other, "user-x:same", "k", "of Bob").status_code == 201
    assert client.get(memory_path("user-x:same", "k")).json()["value"] == "of Ada"


@pytest.mark.requirement("OAMS-3-errors-occur", "OAMS-4-envelope")
def test_a_narrow_credential_is_denied_other_namespaces(server: Running) -> None:
    ada = SigningKey(bytes([7]) * 32)
    scope = {"owner": ada.did, "project": "work"}
    with server.client(token_of(ada, server, ("read", "write"), scope=scope)) as narrow:
        assert put(narrow, f"{owner_hash(ada.did)}:work", "k").status_code in (200, 201)
        assert oams_error_of(put(narrow, f"{owner_hash(ada.did)}:personal", "k")) == (403, -32005)
        assert oams_error_of(narrow.get(f"/v1/oams/memories/{owner_hash(ada.did)}:personal")) == (403, -32005)
    with server.client(server.key(OWNER, "read")) as reader:
        assert oams_error_of(put(reader, "user:x", "k")) == (403, -32005)


@pytest.mark.requirement("OAMS-3-errors-occur")
def test_quotas_are_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("quota") / "home"
    with running(home, quotas=Quotas(memories=2, writes_per_minute=5)) as started, started.client() as client:
        assert [put(client, "user:q", f"k{number}").status_code for number in range(2)] == [201, 201]
        full = put(client, "user:q", "k2")
        assert oams_error_of(full) == (429, -32004)
        assert put(client, "user:q", "k1", "another value").status_code == 200
        batch = [{"namespace": "user:q", "key": f"k{number}", "value": "y"} for number in range(9)]
        fast = client.post("/v1/oams/memories/batch", json={"memories": batch})
        assert oams_error_of(fast) == (429, -32004)
        assert int(fast.headers["retry-after"]) >= 1
        assert client.get(memory_path("user:q", "k0")).json()["value"] == "x"


# --- one memory -----------------------------------------------------------------------------------------------


def test_a_memory_of_oams_is_recalled_over_ump_and_the_other_way_round(client: httpx.Client) -> None:
    namespace = f"{owner_hash(OWNER)}:shared-work"
    put(client, namespace, "deploy", "deploy only on Tuesdays")
    over_ump = client.post("/ump/recall", json={"query": "deploy Tuesdays", "scope": {"project": "shared-work"}}).json()
    assert [each["record"]["body"]["text"] for each in over_ump["results"]] == ["deploy only on Tuesdays"]
    scope = {"owner": OWNER, "project": "shared-work", "visibility": "private"}
    provenance = {"actor": OWNER, "actor_kind": "user", "method": "said"}
    draft = {"kind": "semantic", "body": {"text": "lunch is at noon"}, "scope": scope, "provenance": provenance}
    name = client.post("/ump/remember", json=draft).json()["id"]
    assert set(listed(client, namespace)) == {"deploy", name}
    assert client.get(memory_path(namespace, name)).json()["value"] == "lunch is at noon"


# --- routes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("POST", "/v1/oams/memories/a:b/k", 405, "DELETE, GET, HEAD, PUT"),
        ("DELETE", "/v1/oams/memories/a:b", 405, "GET, HEAD"),
        ("GET", "/v1/oams/recall", 405, "POST"),
        ("PATCH", "/v1/oams/rpc", 405, "POST"),
        ("GET", "/v1/oams/", 404, ""),
        ("GET", "/v1/oams/memories", 404, ""),
        ("GET", "/v1/oams/memories/", 404, ""),
        ("POST", "/v1/oams/recall/", 404, ""),
    ],
)
def test_what_is_no_route_is_said_in_the_shape_of_oams(
    client: httpx.Client, method: str, path: str, status: int, allowed: str
) -> None:
    answer = client.request(method, path)
    assert oams_error_of(answer) == (status, -32601)
    assert set(answer.headers.get("allow", "").split(", ")) == set(allowed.split(", "))


def test_head_asks_whether_there_is_such_a_memory(client: httpx.Client) -> None:
    put(client, "user:head", "k")
    there = client.head(memory_path("user:head", "k"))
    assert (there.status_code, there.content, "etag" in there.headers) == (200, b"", True)
    assert client.head(memory_path("user:head", "nothing")).status_code == 404


# --- hostile --------------------------------------------------------------------------------------------------------

NESTED = b"[" * 100_000 + b"]" * 100_000
MALFORMED = {
    "null": b"null",
    "a list": b"[]",
    "a number": b"1",
    "not JSON": b"{",
    "two values": b"{} {}",
    "deep nesting": NESTED,
    "nesting inside a field": b'{"value":"x","metadata":' + NESTED + b"}",
    "bad UTF-8": b'{"value":"\xff"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a duplicate key": b'{"value":"a","value":"b"}',
    "NaN": b'{"value":"x","embedding_model":"m","embedding":[NaN]}',
    "a huge number": b'{"value":"x","embedding_model":"m","embedding":[1e999]}',
    "more than float32": b'{"value":"x","embedding_model":"m","embedding":[1e300]}',
    "an integer of many digits": b'{"value":"x","metadata":{"a":' + b"9" * 5000 + b"}}",
    "a lone surrogate": b'{"value":"\\ud800"}',
    "an empty body": b"",
    "only spaces": b"   ",
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.requirement("OAMS-OURS-hostile")
def test_a_malformed_body_is_refused(client: httpx.Client, body: bytes) -> None:
    for method, path in (
        ("PUT", memory_path("user:x", "k")),
        ("POST", "/v1/oams/recall"),
        ("POST", "/v1/oams/memories/batch"),
    ):
        answer = client.request(method, path, content=body, headers=JSON_TYPE)
        assert oams_error_of(answer) in ((400, -32700), (422, -32003)), (path, answer.text)


def test_a_body_of_another_type_is_refused(client: httpx.Client) -> None:
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {"content-type": media_type}
        answer = client.put(memory_path("user:x", "k"), content=b'{"value": "x"}', headers=headers)
        assert oams_error_of(answer) == (422, -32003)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    *("key", "namespace", "value", "tags", "metadata", "created_at", "updated_at", "embedding_model", "embedding"),
    *(
        "parent_id",
        "source_id",
        "query",
        "namespaces",
        "k",
        "since",
        "until",
        "consents",
        "memories",
        "limit",
        "cursor",
    ),
)
NEARLY = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5)
BODIES = (
    JSON
    | NEARLY
    | NEARLY.map(lambda fields: {"value": "x", **fields})
    | NEARLY.map(lambda fields: {"query": "x", "namespace": "user:x", **fields})
    | st.lists(NEARLY.map(lambda fields: {"key": "k", "namespace": "user:x", "value": "x", **fields}), max_size=3).map(
        lambda memories: {"memories": memories}
    )
)


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", memory_path("user:x", "k")), ("POST", "/v1/oams/recall"), ("POST", "/v1/oams/memories/batch")],
)
@HOSTILE
@given(body=BODIES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
@pytest.mark.requirement("OAMS-OURS-hostile")
def test_nothing_that_is_sent_makes_the_server_fail(client: httpx.Client, method: str, path: str, body: bytes) -> None:
    answer = client.request(method, path, content=body, headers=JSON_TYPE)
    if answer.status_code not in (200, 201):
        assert oams_error_of(answer)[0] in (400, 403, 404, 422)


@HOSTILE
@given(target=st.binary(max_size=40), method=st.sampled_from(["GET", "PUT", "DELETE"]))
@pytest.mark.requirement("OAMS-OURS-hostile")
def test_no_path_makes_the_server_fail(server: Running, client: httpx.Client, target: bytes, method: str) -> None:
    # What would end the request line is not part of a path.
    shown = bytes(byte for byte in target if byte > 32 and byte not in b"\x7f?#")
    credential = client.headers["authorization"]
    head = method.encode() + b" /v1/oams/memories/user:x/" + shown + b" HTTP/1.1\r\n"
    status, _ = raw_request(server, head + f"Authorization: {credential}\r\n".encode())
    assert status in (200, 400, 404, 422)


@pytest.mark.requirement("OAMS-2-value-limit", "OAMS-4-other-names")
def test_a_value_over_the_limit_is_refused_with_its_code_and_other_names_are_stored(client: httpx.Client) -> None:
    over = client.put("/v1/oams/memories/user:large/k", json={"value": "x" * 3_000_000})
    assert oams_error_of(over) == (413, -32003)
    assert "1048576" in over.json()["error"]["message"]
    assert client.get("/v1/oams/memories/user:large/k").status_code == 404
    memory = {"key": "string", "namespace": "string", "value": "string"}
    assert client.put("/v1/oams/memories/string/string", json=memory).status_code == 201
    shown = client.get("/v1/oams/memories/string/string").json()
    assert (shown["value"], shown["metadata"]) == ("string", {"memoranda:namespace": "string"})
    assert shown["namespace"].endswith(":string")
    answer = client.post("/v1/oams/recall", json={"namespace": "string", "query": "string"})
    assert [each["key"] for each in answer.json()] == ["string"]
    assert client.delete("/v1/oams/memories/string/string").status_code == 204


@pytest.mark.requirement("OAMS-4-shared-names")
def test_one_owner_name_in_two_tenants_is_two_spaces_and_a_hash_belongs_to_its_tenant(server: Running) -> None:
    path = "/v1/oams/memories/user-shared:own/k"
    with server.client(server.key("did:example:first")) as one, server.client(server.key("did:example:second")) as two:
        assert one.put(path, json={"value": "of the first"}).status_code == 201
        assert two.get(path).status_code == 404
        assert two.put(path, json={"value": "of the second"}).status_code == 201
        assert one.get(path).json()["value"] == "of the first"
        assert two.delete(path).status_code == 204
        assert one.get(path).status_code == 200
        # Only the hash is bound to a tenant, whether it exists or not.
        for tenant in ("did:example:first", "did:example:nobody"):
            refused = put(two, f"{owner_hash(tenant)}:default", "k")
            assert oams_error_of(refused) == (403, -32005)
