"""OAMS over JSON-RPC: its calls, batches and notifications; and the same answers as from REST, whatever is asked."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bindings.http.running import OWNER, Running, memory_path

from memoranda.bindings.http.oams import METHODS
from memoranda.encoding.didkey import SigningKey
from memoranda.standards.oams import codes
from memoranda.standards.oams.namespace import owner_hash
from memoranda.standards.ump.token import Claims, mint

RPC = "/v1/oams/rpc"
JSON_TYPE = {"content-type": "application/json"}
HOSTILE = settings(max_examples=60)


def request(method: str, params: object, number: object = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, "id": number}


def call(client: httpx.Client, method: str, **params: Any) -> dict[str, Any]:
    """The answer to a single call, without what every answer has."""
    answer = client.post(RPC, json=request(method, params))
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body.pop("jsonrpc"), body.pop("id")) == ("2.0", 1)
    assert set(body) in ({"result"}, {"error"})
    return dict(body)


@pytest.mark.requirement("OAMS-3-five-operations", "OAMS-3-more-operations")
def test_the_five_operations_and_get_are_methods(client: httpx.Client) -> None:
    memory = {"namespace": "user:rpc", "key": "a/b", "value": "Ada drinks tea"}
    stored = call(client, "oams.store", memory=memory)["result"]
    assert {name: stored[name] for name in memory} == memory
    assert call(client, "oams.get", namespace="user:rpc", key="a/b") == {"result": stored}
    assert call(client, "oams.list", namespace="user:rpc")["result"] == {"memories": [stored], "next_cursor": None}
    recalled = call(client, "oams.recall", namespace="user:rpc", query="tea")["result"]
    assert [each["key"] for each in recalled] == ["a/b"]
    many = call(client, "oams.batch_store", memories=[memory, {**memory, "key": "c"}])["result"]
    assert (many[0], many[1]["key"]) == (stored, "c")
    assert call(client, "oams.forget", namespace="user:rpc", key="a/b") == {"result": None}
    gone = call(client, "oams.forget", namespace="user:rpc", key="a/b")["error"]
    assert gone["code"] == codes.MEMORY_NOT_FOUND


def test_a_single_call_has_the_version_in_its_headers(client: httpx.Client) -> None:
    memory = {"namespace": "user:rpc", "key": "versions", "value": "one", "x": 1}
    answer = client.post(RPC, json=request("oams.store", {"memory": memory, "if_none_match": "*"}))
    assert answer.headers["etag"] == client.get(memory_path("user:rpc", "versions")).headers["etag"]
    assert "'x'" in answer.headers["x-oams-warning"]
    late = call(client, "oams.store", memory={**memory, "value": "two"}, if_match='"another"')
    assert late["error"]["data"]["reason"] == "version_conflict"
    there = call(client, "oams.store", memory=memory, if_none_match="*")
    assert there["error"]["data"]["reason"] == "version_conflict"
    odd = call(client, "oams.store", memory=memory, if_none_match=["x"])
    assert odd["error"]["code"] == codes.VALIDATION_FAILED
    assert "result" in call(client, "oams.store", memory={**memory, "value": "two"}, if_match=answer.headers["etag"])


def test_a_batch_is_answered_in_order_and_its_notifications_are_not(client: httpx.Client) -> None:
    def memory(key: str) -> dict[str, Any]:
        return {"memory": {"namespace": "user:calls", "key": key, "value": "x"}}

    silent = {"jsonrpc": "2.0", "method": "oams.store", "params": memory("silent")}
    calls = [
        request("oams.store", memory("a"), "first"),
        silent,
        7,
        request("oams.dream", {}, 2.5),
        request("oams.get", {"namespace": "user:calls", "key": "silent"}, None),
        {"jsonrpc": "2.0", "method": "oams.nothing"},
        request("oams.get", ["user:calls", "silent"], 4),
    ]
    answer = client.post(RPC, json=calls)
    assert answer.status_code == 200
    assert [(each["id"], each.get("error", {}).get("code")) for each in answer.json()] == [
        ("first", None),
        (None, codes.INVALID_REQUEST),
        (2.5, codes.METHOD_NOT_FOUND),
        (None, None),
        (4, codes.INVALID_PARAMS),
    ]
    for quiet in (silent, [silent, silent], [{"jsonrpc": "2.0", "method": "oams.nothing"}]):
        nothing = client.post(RPC, json=quiet)
        assert (nothing.status_code, nothing.content, "content-length" in nothing.headers) == (204, b"", False)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", codes.PARSE_ERROR),
        (b"{", codes.PARSE_ERROR),
        (b"\xff", codes.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","jsonrpc":"2.0"}', codes.PARSE_ERROR),
        (b"[" * 100_000 + b"]" * 100_000, codes.PARSE_ERROR),
        (b"[]", codes.INVALID_REQUEST),
        (b"1", codes.INVALID_REQUEST),
        (b"{}", codes.INVALID_REQUEST),
        (json.dumps([request("oams.list", {})] * 101).encode(), codes.INVALID_REQUEST),
        (json.dumps(request("oams.list", 7)).encode(), codes.INVALID_REQUEST),
        (json.dumps(request("oams.list", {}, {"id": 1})).encode(), codes.INVALID_REQUEST),
        (json.dumps(request("oams.list", {})).encode(), codes.VALIDATION_FAILED),
        (json.dumps(request("__init__", {})).encode(), codes.METHOD_NOT_FOUND),
    ],
)
def test_what_is_no_call_is_answered_as_json_rpc_says(client: httpx.Client, body: bytes, code: int) -> None:
    answer = client.post(RPC, content=body, headers=JSON_TYPE)
    assert (answer.status_code, answer.json()["jsonrpc"], answer.json()["error"]["code"]) == (200, "2.0", code)


def test_a_memory_may_be_as_deep_in_a_call_as_anywhere_and_no_deeper(client: httpx.Client) -> None:
    def memory(levels: int) -> dict[str, Any]:
        metadata: Any = "the bottom"
        for _ in range(levels - 1):
            metadata = {"down": metadata}
        return {"namespace": "user:deep", "key": f"k{levels}", "value": "x", "metadata": metadata}

    for levels, is_taken in ((64, True), (65, False)):
        deep = memory(levels)
        answers = [
            call(client, "oams.store", memory=deep),
            call(client, "oams.batch_store", memories=[deep]),
            client.post(RPC, json=[request("oams.batch_store", {"memories": [deep]})]).json(),
            client.post("/v1/oams/memories/batch", json={"memories": [deep]}).json(),
            client.put(memory_path("user:deep", f"k{levels}"), json=deep).json(),
        ]
        # A body that is too deep even for a batch is answered by one error, not by an array.
        assert ["error" not in answer for answer in answers] == [is_taken] * 5, levels


@pytest.mark.requirement("OAMS-4-cross-owner-refused")
def test_a_call_shows_the_consent_of_both_owners(server: Running) -> None:
    people = [SigningKey(bytes([number]) * 32) for number in (21, 22)]
    namespaces = [f"{owner_hash(key.did)}:personal" for key in people]
    for key, namespace in zip(people, namespaces, strict=True):
        with server.client(server.key(key.did)) as own:
            call(own, "oams.store", memory={"namespace": namespace, "key": "k", "value": "the secret recipe"})
    tokens = [
        mint(
            Claims(
                v="ump-cap/0.1",
                iss=key.did,
                verbs=("read",),
                scope={"owner": key.did},
                exp="2999-01-01T00:00:00Z",
                jti=f"consent of {key.did}",
            ),
            key,
        )
        for key in people
    ]
    asked = {"query": "recipe", "namespaces": namespaces}
    with server.client(server.key(people[0].did)) as client:
        for shown in ([], tokens[:1], tokens[1:]):
            assert call(client, "oams.recall", **asked, consents=shown)["error"]["code"] == codes.CROSS_NAMESPACE
        found = call(client, "oams.recall", **asked, consents=tokens)["result"]
        assert {memory["namespace"] for memory in found} == set(namespaces)
        headers = {"x-oams-consent": ",".join(tokens)}
        same = client.post(RPC, json=request("oams.recall", asked), headers=headers).json()["result"]
        assert [memory["namespace"] for memory in same] == [memory["namespace"] for memory in found]


# --- the same from REST and from JSON-RPC ----------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b/c", "..", "%2F", "é +?", "", "x\n"])
NAMESPACES = st.sampled_from(["user-x:one", "user-x:two", "bad", "user-x:a/b"])
TEXTS = st.sampled_from(["green tea", "black tea", "coffee", ""])
TAG_LISTS = st.lists(st.sampled_from(["Tea", "tea", "x"]), max_size=2)
MEMORIES = st.fixed_dictionaries(
    {"namespace": NAMESPACES, "key": KEYS},
    optional={
        "value": TEXTS | st.sampled_from([7, None]),
        "tags": TAG_LISTS | st.just("tea"),
        "metadata": st.sampled_from([{}, {"confidence": 0.5}, {"confidence": 2}, {"score": 1}]),
        "created_at": st.sampled_from(["2026-01-15T10:00:00Z", "yesterday"]),
        "source_id": st.none() | st.just("imap:msgid:<1>"),
        "embedding": st.just([0.5]),
        "x-unknown": st.just([1, {"a": None}]),
    },
)
CONDITIONS = st.sampled_from(
    [{}, {}, {"if_none_match": "*"}, {"if_match": "*"}, {"if_match": "last"}, {"if_match": "x"}]
)
STEPS = st.one_of(
    st.tuples(st.just("store"), st.tuples(MEMORIES, CONDITIONS).map(lambda pair: {"memory": pair[0], **pair[1]})),
    st.tuples(st.sampled_from(["get", "forget"]), st.fixed_dictionaries({"namespace": NAMESPACES, "key": KEYS})),
    st.tuples(
        st.just("list"),
        st.fixed_dictionaries(
            {"namespace": NAMESPACES},
            optional={
                "limit": st.integers(0, 3),
                "tags": TAG_LISTS,
                "cursor": st.sampled_from(["last", "x"]),
                "since": st.sampled_from(["2026-06-01T00:00:00Z", "never"]),
            },
        ),
    ),
    st.tuples(
        st.just("recall"),
        st.fixed_dictionaries(
            {"query": TEXTS},
            optional={
                "namespace": NAMESPACES,
                "namespaces": st.lists(NAMESPACES | st.just("user-y:one"), max_size=2),
                "k": st.integers(0, 3),
                "tags": TAG_LISTS,
                "until": st.just("2026-06-01T00:00:00Z"),
                "consents": st.just([]),
            },
        ),
    ),
    st.tuples(st.just("batch_store"), st.fixed_dictionaries({"memories": st.lists(MEMORIES | st.just(3), max_size=3)})),
)


FRESH = itertools.count()


class Way:
    """One of the two ways in, with what it was told before."""

    def __init__(self, client: httpx.Client, is_rpc: bool) -> None:
        self._client = client
        self._is_rpc = is_rpc
        self._etag = '"none"'
        self._cursor = "none"

    def take(self, step: tuple[str, dict[str, Any]]) -> object:
        name, params = step[0], dict(step[1])
        if params.get("if_match") == "last":
            params["if_match"] = self._etag
        if params.get("cursor") == "last":
            params["cursor"] = self._cursor
        answer = (
            self._client.post(RPC, json=request(f"oams.{name}", params)) if self._is_rpc else self._rest(name, params)
        )
        self._etag = answer.headers.get("etag", self._etag)
        beside = ("etag" in answer.headers, answer.headers.get("x-oams-warning"))
        body: Any = answer.json() if answer.content else None
        if self._is_rpc:
            body = {"error": body["error"]} if "error" in body else body["result"]
        elif isinstance(body, dict) and "error" in body:
            assert answer.status_code == codes.http_status(body["error"]["code"])
        else:
            assert answer.status_code in {"forget": (204,), "store": (200, 201)}.get(name, (200,))
        if name == "list" and isinstance(body, dict):
            self._cursor = body.get("next_cursor") or self._cursor
        if isinstance(body, dict) and "error" in body:
            # Of two things that are wrong, the one is named that comes first.
            del body["error"]["message"]
        if name == "recall" and isinstance(body, list):
            # A millisecond between two writes, or none, may decide between equals.
            body.sort(key=lambda memory: (-round(memory["metadata"]["score"], 4), memory["key"], memory["namespace"]))
        return plain(body), beside

    def _rest(self, name: str, params: dict[str, Any]) -> httpx.Response:
        client = self._client
        if name in ("recall", "batch_store"):
            return client.post(
                {"recall": "/v1/oams/recall", "batch_store": "/v1/oams/memories/batch"}[name], json=params
            )
        if name == "list":
            path = memory_path(params.pop("namespace"), "").removesuffix("/")
            return client.get(path, params=params)
        if name == "store":
            memory = params.pop("memory")
            headers = {header.replace("_", "-"): value for header, value in params.items()}
            body = {key: value for key, value in memory.items() if key not in ("namespace", "key")}
            return client.put(memory_path(memory["namespace"], memory["key"]), json=body, headers=headers)
        path = memory_path(params["namespace"], params["key"])
        return client.get(path) if name == "get" else client.delete(path)


def plain(value: Any) -> Any:
    """The same for both ways: instants, cursors, owners and the last digits of scores taken out."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in sorted(value.items())}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]{43}", value):
        return "a cursor"
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", value):
        return value if value == "2026-01-15T10:00:00Z" else "an instant"
    if isinstance(value, str):
        return re.sub(r"\bo-[a-z2-7]{20}:", "o-hash:", value)
    return round(value, 4) if isinstance(value, float) else value


@settings(max_examples=40)
@given(steps=st.lists(STEPS, min_size=1, max_size=12))
@pytest.mark.requirement("OAMS-3-errors-occur", "OAMS-OURS-parity")
def test_rest_and_json_rpc_give_the_same_answers(server: Running, steps: list[tuple[str, dict[str, Any]]]) -> None:
    # Two owners who have nothing yet, so that both ways start from the same.
    keys = [server.key(f"did:example:{next(FRESH)}") for _ in range(2)]
    with server.client(keys[0]) as by_rest, server.client(keys[1]) as by_rpc:
        rest, rpc = Way(by_rest, is_rpc=False), Way(by_rpc, is_rpc=True)
        for step in steps:
            assert rest.take(step) == rpc.take(step), step


# --- hostile ------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    "namespace",
    "key",
    "memory",
    "memories",
    "query",
    "k",
    "tags",
    "since",
    "cursor",
    "limit",
    "consents",
    "if_match",
)
CALLS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from([*METHODS, "oams.x"])},
    optional={"id": JSON, "params": st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4) | JSON},
)


@HOSTILE
@given(body=(CALLS | st.lists(CALLS, max_size=3) | JSON).map(json.dumps) | st.binary(max_size=60))
@pytest.mark.requirement("OAMS-OURS-hostile")
def test_no_call_makes_the_server_fail(client: httpx.Client, body: str | bytes) -> None:
    answer = client.post(RPC, content=body, headers=JSON_TYPE)
    assert answer.status_code in (200, 204), answer.text
    replies = answer.json() if answer.content else []
    for reply in replies if isinstance(replies, list) else [replies]:
        assert reply["jsonrpc"] == "2.0"
        assert ("result" in reply) != ("error" in reply)
        assert reply.get("error", {}).get("code") != codes.INTERNAL_ERROR


def test_the_credential_decides_before_the_call_is_read(server: Running) -> None:
    with server.client("") as nobody:
        answer = nobody.post(RPC, content=b"{")
    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["id"]) == (401, codes.UNAUTHORIZED, None)


def test_a_call_of_a_reader_may_not_write(server: Running) -> None:
    with server.client(server.key(OWNER, "read")) as reader:
        memory = {"namespace": "user:x", "key": "k", "value": "x"}
        assert call(reader, "oams.store", memory=memory)["error"]["code"] == codes.CROSS_NAMESPACE
