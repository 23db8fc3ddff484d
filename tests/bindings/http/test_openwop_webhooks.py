"""Events of all runs reach someone: one stream over them, and signed webhooks that survive whatever happens between."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.bindings.http.running import OWNER, Running, running, wop_error_of
from tests.bindings.http.test_openwop import begin, finish, put, tell
from tests.waiting import until

from memoranda.bindings.http.deliver import addresses, check_url
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import ForbiddenScope, InvalidInput
from memoranda.service.openwop import webhooks

ANYWHERE = {"webhook_addresses": "any"}


class Receiver:
    """A server on loopback that keeps what it is sent, and answers as it is told."""

    def __init__(self) -> None:
        self.status = 204
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(receiver.status)
                if receiver.status == 302:
                    self.send_header("location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?a=b"

    def types(self) -> list[str]:
        return [json.loads(body)["event"]["type"] for _, body in self.got]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with _receiving() as found:
        yield found


@contextmanager
def _receiving() -> Iterator[Receiver]:
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        thread.join()
        found.server.server_close()


def register(client: httpx.Client, receiver: Receiver, *events: str, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/webhooks", json={"url": receiver.url, "events": list(events), **more})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def verified(made: dict[str, Any], headers: dict[str, str], body: bytes) -> dict[str, Any]:
    """The recipe of webhooks.md."""
    stamp, algorithm = headers["x-openwop-timestamp"], headers["x-openwop-signature-algorithm"]
    expected = hmac.new(made["secret"].encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert (headers["x-openwop-signature"], algorithm) == (f"sha256={expected}", "v1")
    assert headers["x-openwop-webhook-id"] == made["webhookId"]
    found: dict[str, Any] = json.loads(body)
    assert headers["x-openwop-event-type"] == found["event"]["type"]
    return found


# --- one stream ----------------------------------------------------------------------------------------------


def test_one_stream_shows_what_happens_in_every_run_and_goes_on_where_it_was(tmp_path: Path) -> None:
    with running(tmp_path / "home") as server, server.client(server.key()) as client:
        first = begin(client)
        page = client.get("/v1/host/events", headers={"accept": "application/json"}).json()
        assert [event["type"] for event in page["events"]] == ["run.started"]
        seen: list[tuple[int, str, str]] = []
        with client.stream("GET", "/v1/host/events", headers={"accept": "text/event-stream"}) as stream:
            lines = stream.iter_lines()
            next(lines)
            second = begin(client)
            put(client, "agents/research", "Ann likes tea.", second, nodeId="n1")
            tell(client, first)
            finish(client, first)
            while len(seen) < 4:
                line = next(lines)
                if line.startswith("id:"):
                    place = int(line.partition(":")[2])
                elif line.startswith("data:"):
                    event = json.loads(line.partition(":")[2])
                    seen.append((place, event["runId"], event["type"]))
        expected = [
            (second, "run.started"),
            (second, "memory.written"),
            (first, "node.completed"),
            (first, "run.completed"),
        ]
        assert [each[1:] for each in seen] == expected
        again = client.get(
            "/v1/host/events", headers={"accept": "application/json", "last-event-id": str(seen[1][0])}
        ).json()
        assert [event["type"] for event in again["events"]] == ["node.completed", "run.completed"]
        assert again["lastSequence"] == seen[-1][0]
        with server.client(server.key("did:example:other")) as other:
            assert other.get("/v1/host/events", headers={"accept": "application/json"}).json()["events"] == []


# --- webhooks ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-webhooks-signature", "WOP-webhooks-tenant")
def test_an_event_is_posted_once_signed_as_the_standard_says_and_to_its_own_tenant(
    tmp_path: Path, receiver: Receiver
) -> None:
    with running(tmp_path / "home", settings=ANYWHERE) as server, server.client(server.key()) as client:
        made = register(client, receiver, "run.completed", "memory.written", tenantId="acme")
        assert made["secretFingerprint"] == hashlib.sha256(made["secret"].encode()).hexdigest()[:8]
        with server.client(server.key("did:example:other")) as other:
            finish(other, begin(other))
            assert other.delete(f"/v1/webhooks/{made['webhookId']}").status_code == 404
        run_id = begin(client)
        put(client, "agents/research", "Ann likes tea.", run_id)
        finish(client, run_id)
        until(lambda: len(receiver.got) >= 2)
        found = [verified(made, *each) for each in receiver.got]
        assert [each["event"]["type"] for each in found] == ["memory.written", "run.completed"]
        assert {(each["runId"], each["workspaceId"]) for each in found} == {(run_id, OWNER)}
        log = client.get(f"/v1/runs/{run_id}/events", headers={"accept": "application/json"}).json()["events"]
        assert [each["event"] for each in found] == [log[1], log[2]]
        assert all("Ann" not in body.decode() for _, body in receiver.got)
        # A replay repeats what was told already; the run itself is not over again.
        client.post(f"/v1/runs/{run_id}:fork", json={"mode": "replay"})
        assert client.delete(f"/v1/webhooks/{made['webhookId']}?tenantId=acme").status_code == 204
        finish(client, begin(client))
        assert client.get("/v1/webhooks").json() == {"webhooks": []}
        assert len(receiver.got) == 2


def test_a_fired_commitment_reaches_a_webhook(tmp_path: Path, receiver: Receiver) -> None:
    with running(tmp_path / "home", settings=ANYWHERE) as server, server.client(server.key()) as client:
        made = register(client, receiver, "commitment.fired")
        put(client, "agents/research", "Remind me on 2020-01-01 at 9:00 to send the invoices.")
        put(client, "agents/research", "When the audit starts, tell Bob.")
        client.post("/v1/host/commitments/infer", json={"memoryRef": "agents/research"})
        access = server.service.gate.local(OWNER)
        known = server.service.openwop.commitments(access, "agents/research")
        assert known
        server.service.openwop.fire_commitment(access, known[0].commitment_id)
        until(lambda: receiver.got)
        assert verified(made, *receiver.got[0])["event"]["payload"]["commitmentId"] == known[0].commitment_id
        assert b"invoices" not in receiver.got[0][1]


@pytest.mark.requirement("WOP-webhooks-redirect")
def test_what_fails_or_redirects_is_sent_again_and_a_restart_neither_loses_nor_repeats(
    tmp_path: Path, receiver: Receiver
) -> None:
    with running(tmp_path / "home", settings=ANYWHERE) as server, server.client(server.key()) as client:
        key = client.headers["authorization"].removeprefix("Bearer ")
        register(client, receiver, "run.completed")
        finish(client, begin(client))
        until(lambda: len(receiver.got) == 1)
        until(lambda: _places(server) == [_last(server)])
        receiver.status = 302
        finish(client, begin(client))
        until(lambda: len(receiver.got) >= 2)
        until(lambda: client.get("/v1/webhooks").json()["webhooks"][0]["failures"] >= 1)
    # Nobody sends; what happens now is told later.
    receiver.status = 204
    before = len(receiver.got)
    with running(tmp_path / "home", settings=ANYWHERE) as server, server.client(key) as client:
        finish(client, begin(client))
        until(lambda: len(receiver.got) >= before + 2)
        until(lambda: client.get("/v1/webhooks").json()["webhooks"][0]["failures"] == 0)
    delivered = [json.loads(body) for _, body in receiver.got]
    runs = [each["runId"] for each in delivered]
    # The first once, the second until it was taken, the third once.
    assert runs.count(runs[0]) == 1
    assert runs[-1] not in runs[:-1]
    assert len(set(runs)) == 3
    assert not any(headers.get("host", "").endswith("/elsewhere") for headers, _ in receiver.got)


def _places(server: Running) -> list[int]:
    access = server.service.gate.local(OWNER)
    return [each.place for each in server.service.openwop.webhooks(access)]


def _last(server: Running) -> int:
    with server.service.context.engine.read(OWNER) as snapshot:
        return snapshot.last_run_event()


def test_attempts_come_later_and_later_and_what_nobody_takes_is_given_up(tmp_path: Path, receiver: Receiver) -> None:
    with running(tmp_path / "home", settings=ANYWHERE) as server:
        context = server.service.context
        kept = webhooks.Subscription(webhook_id="wh", url=receiver.url, events=("run.completed",))
        waits = []
        for _ in range(webhooks.ATTEMPTS_LIMIT):
            kept = webhooks._failed(kept, 7, context.clock())
            waits.append(round((kept.retry_ms - context.clock()) / 1000))
        assert waits == [1, 2, 4, 8, 16, 32, 64, 128]
        assert (kept.place, kept.attempts, kept.dropped, kept.state) == (7, 0, 1, "active")
        while kept.state == "active":
            kept = webhooks._failed(kept, 7, context.clock())
        assert kept.failures == webhooks.FAILURES_LIMIT


@pytest.mark.requirement("WOP-webhooks-ssrf")
@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https://",
        "https://user:secret@example.com/",
        "https://127.0.0.1/",
        "https://localhost/",
        "https://localhost./",
        "https://app.localhost/",
        "https://10.0.0.1/",
        "https://172.16.5.4:8443/",
        "https://192.168.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://metadata.google.internal/",
        "https://0.0.0.0/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://[::1]/",
        "https://[::]/",
        "https://[fe80::1]/",
        "https://[fc00::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[2002:7f00:1::]/",
        "https://224.0.0.1/",
        "https://example.com/ x",
        "https://example.com:0/",
        "https://[",
        "https://exämple.com/",
        "https://example.com/" + "x" * 2048,
    ],
)
def test_nothing_is_sent_to_addresses_inside(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidInput):
        check_url(url, is_private_allowed=False)
    parts = urlsplit("https://127.0.0.1/")
    # What a name leads to is asked again when something is sent.
    with pytest.raises(InvalidInput):
        addresses(parts, is_private_allowed=False)


def test_webhooks_are_the_owners_to_set(tmp_path: Path) -> None:
    with running(tmp_path / "home") as server, server.client(server.key()) as client:
        inside = client.post("/v1/webhooks", json={"url": "https://10.0.0.1/", "events": ["run.completed"]})
        assert wop_error_of(inside) == (400, "validation_error")
        nothing = client.post("/v1/webhooks", json={"url": "https://hooks.example/", "events": []})
        assert wop_error_of(nothing) == (400, "validation_error")
        with server.client(server.key(OWNER, "read")) as reader:
            asked = reader.post("/v1/webhooks", json={"url": "https://hooks.example/", "events": ["run.completed"]})
            assert wop_error_of(asked) == (403, "forbidden")
        gate = server.service.gate
        peer = SigningKey(b"p" * 32).did
        granted = gate.mint_token(verbs=("read", "write"), scope={"owner": OWNER}, ttl_ms=60_000, audience=peer)
        with pytest.raises(ForbiddenScope):
            server.service.openwop.register_webhook(gate.authenticate(granted), "https://hooks.example/", ["x"])
        # A repeated request is told the same secret, which is kept nowhere.
        asked_for = {"url": "https://hooks.example/", "events": ["run.completed"]}
        answers = [
            client.post("/v1/webhooks", json=asked_for, headers={"idempotency-key": "k"}).json() for _ in range(2)
        ]
        assert answers[0] == answers[1]
        assert len(client.get("/v1/webhooks").json()["webhooks"]) == 1
        secret = answers[0]["secret"].encode()
        server.service.context.engine.flush()
        assert not any(secret in path.read_bytes() for path in (tmp_path / "home").iterdir() if path.is_file())
