"""`Idempotency-Key`: what was done under a key is answered again and not done again, whatever happens between."""

from __future__ import annotations

import threading
import uuid

import httpx
import pytest
from msgspec.structs import replace
from tests.bindings.http.running import ALL, OWNER, Running, openwop_error_of
from tests.waiting import HANG_SECONDS

from memoranda.errors import WorkflowError
from memoranda.service.openwop import idempotency

REPLAY = "openwop-idempotent-replay"


@pytest.fixture
def entries() -> str:
    return f"/v1/memory/{uuid.uuid4().hex}"


@pytest.fixture
def key() -> str:
    return uuid.uuid4().hex


def put(client: httpx.Client, path: str, key: str, content: str = "once") -> httpx.Response:
    return client.post(path, json={"content": content}, headers={"idempotency-key": key})


def contents(client: httpx.Client, path: str) -> list[str]:
    return [entry["content"] for entry in client.get(path).json()["entries"]]


@pytest.mark.requirement("WOP-5-idempotency")
def test_the_same_request_with_the_same_key_is_done_once_and_answered_alike(
    client: httpx.Client, entries: str, key: str
) -> None:
    first, second = put(client, entries, key), put(client, entries, key)
    assert (first.status_code, REPLAY in first.headers) == (201, False)
    assert (second.status_code, second.headers[REPLAY]) == (201, "true")
    assert second.json() == first.json()
    assert contents(client, entries) == ["once"]
    # However the body is spelled.
    spelled = client.post(
        entries,
        content=b'{ "content" : "once" }',
        headers={"idempotency-key": key, "content-type": "application/json"},
    )
    assert spelled.json() == first.json()
    put(client, entries, key + "2")
    assert contents(client, entries) == ["once", "once"]
    # The same key for another operation is another key.
    file = f"/v1/host/workspace/files/{key}.md"
    for _ in range(2):
        answer = client.put(file, json={"content": "x"}, headers={"idempotency-key": key})
        assert (answer.status_code, answer.json()["version"], answer.headers["etag"]) == (200, 1, '"v1"')
    runs = [client.post("/v1/host/runs", json={"workflowId": "w"}, headers={"idempotency-key": key}) for _ in "ab"]
    assert runs[0].json() == runs[1].json()


@pytest.mark.requirement("WOP-5-idempotency")
def test_another_request_under_a_key_is_a_mismatch_and_is_not_done(
    client: httpx.Client, entries: str, key: str
) -> None:
    put(client, entries, key, "one")
    assert openwop_error_of(put(client, entries, key, "two")) == (409, "idempotency_key_mismatch")
    other = f"{entries}-other"
    assert openwop_error_of(put(client, other, key, "one")) == (409, "idempotency_key_mismatch")
    assert contents(client, entries) == ["one"]


@pytest.mark.parametrize("wrong", [b"", b"x" * 256, b"a b", "é".encode()])
def test_a_key_that_is_none_is_refused(client: httpx.Client, entries: str, wrong: bytes) -> None:
    answer = client.post(entries, json={"content": "x"}, headers=[(b"idempotency-key", wrong)])
    assert openwop_error_of(answer) == (400, "validation_error")
    assert contents(client, entries) == []


def test_what_a_correction_could_mend_is_tried_again_and_what_is_final_is_not(
    client: httpx.Client, entries: str, key: str
) -> None:
    past = {"content": "x", "expiresAt": "2001-01-01T00:00:00Z"}
    for _ in range(2):
        refused = client.post(entries, json=past, headers={"idempotency-key": key})
        assert (refused.status_code, REPLAY in refused.headers) == (400, False)
    gone = [client.delete(f"{entries}/nothing", headers={"idempotency-key": key}) for _ in "ab"]
    assert [(each.status_code, REPLAY in each.headers) for each in gone] == [(404, False), (404, True)]
    assert gone[0].json() == gone[1].json()


def test_what_was_forgotten_is_not_told_by_its_key(
    client: httpx.Client, server: Running, entries: str, key: str
) -> None:
    made = put(client, entries, key, "a secret to be forgotten").json()
    assert client.delete(f"{entries}/{made['id']}").status_code == 204
    again = put(client, entries, key, "a secret to be forgotten")
    assert openwop_error_of(again) == (404, "not_found")
    assert "forgotten" not in again.json().get("content", "")
    assert contents(client, entries) == []


def test_another_tenant_and_who_may_do_less_have_keys_of_their_own(
    client: httpx.Client, server: Running, entries: str, key: str
) -> None:
    first = put(client, entries, key).json()
    with server.client(server.key("did:example:other", *ALL)) as other:
        theirs = put(other, entries, key)
        assert (theirs.status_code, REPLAY in theirs.headers) == (201, False)
        assert theirs.json()["id"] != first["id"]
    with server.client(server.key(OWNER, "read")) as reader:
        assert openwop_error_of(put(reader, entries, key)) == (403, "forbidden")


def test_of_many_at_once_one_is_done(server: Running, entries: str, key: str) -> None:
    answers: list[httpx.Response] = []
    bearer = server.key(OWNER, *ALL)

    def ask() -> None:
        with server.client(bearer) as client:
            answers.append(put(client, entries, key))

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    done = [answer for answer in answers if answer.status_code == 201]
    assert len({answer.json()["id"] for answer in done}) == 1
    assert {openwop_error_of(each) for each in answers if each not in done} <= {(409, "idempotency_in_flight")}
    with server.client(bearer) as client:
        assert contents(client, entries) == ["once"]


def test_a_claim_whose_holder_died_can_be_taken_over_and_records_end(server: Running) -> None:
    access = server.service.gate.local(OWNER)
    context = server.service.openwop._context
    now = context.clock()
    first = idempotency.claim(context, access, "POST /x", "k", "d")
    with pytest.raises(WorkflowError, match="not done yet"):
        idempotency.claim(context, access, "POST /x", "k", "d")
    later = replace(context, clock=lambda: type(now)(now + idempotency.LEASE_MS + 1))
    second = idempotency.claim(later, access, "POST /x", "k", "d")
    assert second.holder != first.holder
    # Who was too slow settles nothing.
    idempotency.settle(context, access, first, status=201, body="first")
    idempotency.settle(context, access, second, status=201, body="second")
    assert idempotency.claim(later, access, "POST /x", "k", "d").body == "second"
    next_day = replace(context, clock=lambda: type(now)(now + 24 * idempotency.HOUR_MS - 1))
    assert idempotency.claim(next_day, access, "POST /x", "k", "d").body == "second"
    over = replace(context, clock=lambda: type(now)(now + 26 * idempotency.HOUR_MS))
    assert idempotency.claim(over, access, "POST /x", "k", "d").status == 0
    with context.engine.open_snapshot(OWNER) as snapshot:
        assert snapshot.load_items(f"idempotency {now // idempotency.HOUR_MS}") == {}
