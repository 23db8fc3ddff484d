"""Events of all runs reach someone: one stream over them, and signed webhooks that survive whatever happens between."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.bindings.http.running import OWNER, Running, openwop_error_of, running
from tests.bindings.http.test_openwop import begin, finish, put, tell
from tests.service.wop import Wop
from tests.waiting import HANG_SECONDS, until

from memoranda.bindings.http import webhook_sender
from memoranda.bindings.http.webhook_sender import PER_TENANT, check_url, resolve_addresses
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import ForbiddenScope, InvalidInput
from memoranda.service.openwop import webhooks

ANYWHERE = {"webhook_addresses": "any"}


class Receiver:
    """A server on loopback that keeps what it is sent, and answers as it is told."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.status = 204
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.asked_for: list[tuple[str, str]] = []
        # Nothing is answered while this is not set.
        self.answers = threading.Event()
        self.answers.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                receiver.asked_for.append(("GET", self.path))
                self.send_response(204)
                self.end_headers()

            def do_POST(self) -> None:
                receiver.asked_for.append(("POST", self.path))
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                receiver.answers.wait(HANG_SECONDS)
                self.send_response(receiver.status)
                if receiver.status == 302:
                    self.send_header("location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?a=b"
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
            self.url = f"https://localhost:{self.server.server_port}/hook?a=b"

    def types(self) -> list[str]:
        return [json.loads(body)["event"]["type"] for _, body in self.got]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    found = Receiver(tls)
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        found.answers.set()
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
        made = register(client, receiver, "run.completed", "memory.written", tenantId=OWNER)
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
        assert client.delete(f"/v1/webhooks/{made['webhookId']}?tenantId={OWNER}").status_code == 204
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
    assert set(receiver.asked_for) == {("POST", "/hook?a=b")}


def _places(server: Running) -> list[int]:
    access = server.service.gate.local(OWNER)
    return [each.position for each in server.service.openwop.webhooks(access)]


def _last(server: Running) -> int:
    with server.service.context.engine.open_snapshot(OWNER) as snapshot:
        return snapshot.find_last_run_event()


def test_a_subscription_of_an_earlier_version_is_read_and_written_under_its_stored_names() -> None:
    world = Wop()
    try:
        registered = world.wop.register_webhook(world.owner, "https://example.org/hook", ["run.started"], ["nightly"])
        name, tenant = registered["webhookId"], world.owner.default_tenant
        with world.service.context.engine.open_snapshot(tenant) as snapshot:
            fields = json.loads(snapshot.load_item(webhooks.KIND, name) or b"")
        assert "place" in fields
        assert "position" not in fields
        changed = json.dumps({**fields, "place": 7}).encode()
        world.service.context.engine.write(tenant, lambda unit: unit.put_item(webhooks.KIND, name, changed))
        (subscription,) = world.wop.webhooks(world.owner)
        assert (subscription.position, subscription.events, subscription.tags) == (7, ("run.started",), ("nightly",))
    finally:
        world.close()


def test_attempts_come_later_and_later_and_what_nobody_takes_is_given_up() -> None:
    world = Wop()
    try:
        _check_attempts(world)
    finally:
        world.service.close()


def _check_attempts(world: Wop) -> None:
    world.wop.register_webhook(world.owner, "https://hooks.example/", ["run.completed"])
    runs = [world.finish(world.begin()).run_id for _ in range(20)]
    waits: list[float] = []
    tried: list[str] = []
    while True:
        delivery, due = webhooks.next_delivery(world.context, "sender")
        if delivery is not None:
            # Whoever else looks gets nothing of it meanwhile.
            assert webhooks.next_delivery(world.context, "another")[0] is None
            tried.append(delivery.event["runId"])
            webhooks.settle(world.context, delivery, is_delivered=False)
        elif due is not None:
            waits.append((due - world.now) / 1000)
            world.advance(due - world.now)
        else:
            break
    (kept,) = world.wop.webhooks(world.owner)
    assert (kept.state, kept.failures) == ("failed", webhooks.FAILURES_LIMIT)
    assert waits[:10] == [1, 2, 4, 8, 16, 32, 64, 128, 1, 2]
    # Each is tried so often, then given up for the next one.
    assert tried[:9] == [*[runs[0]] * webhooks.ATTEMPTS_LIMIT, runs[1]]
    assert kept.dropped == webhooks.FAILURES_LIMIT // webhooks.ATTEMPTS_LIMIT


# --- TLS, and who is slow ------------------------------------------------------------------------------------


def certificates(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """An authority made for this test, as a file, and a server that it vouches for as `localhost`."""
    now = datetime.now(UTC)

    def made(
        name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey, *, is_ca: bool
    ) -> x509.Certificate:
        subject, issued_by = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, issuer))
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        begun = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issued_by)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .add_extension(names, critical=False)
        )
        usage = x509.KeyUsage(
            digital_signature=not is_ca,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=is_ca,
            crl_sign=is_ca,
            encipher_only=False,
            decipher_only=False,
        )
        return begun.add_extension(usage, critical=True).sign(signer, hashes.SHA256())

    root, leaf = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    folder.mkdir()
    authority, chain = folder / "authority.pem", folder / "server.pem"
    pem = serialization.Encoding.PEM
    authority.write_bytes(made("authority", root, "authority", root, is_ca=True).public_bytes(pem))
    private = leaf.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain.write_bytes(private + made("localhost", leaf, "authority", root, is_ca=False).public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return authority, context


def test_an_event_goes_over_tls_to_who_is_vouched_for_and_to_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, tls = certificates(tmp_path / "known")
    _, unknown = certificates(tmp_path / "unknown")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with (
        receiving(tls) as trusted,
        receiving(unknown) as stranger,
        running(tmp_path / "home", settings=ANYWHERE) as server,
        server.client(server.key()) as client,
    ):
        made = register(client, trusted, "run.completed")
        register(client, stranger, "run.completed")
        finish(client, begin(client))
        until(lambda: trusted.got)
        assert verified(made, *trusted.got[0])["event"]["type"] == "run.completed"

        def failures() -> dict[str, int]:
            return {each["url"]: each["failures"] for each in client.get("/v1/webhooks").json()["webhooks"]}

        until(lambda: failures()[stranger.url] >= 1)
        assert failures()[trusted.url] == 0
        assert stranger.got == []


def test_a_receiver_that_is_slow_holds_up_neither_other_tenants_nor_other_webhooks(tmp_path: Path) -> None:
    with (
        receiving() as slow,
        receiving() as quick,
        running(tmp_path / "home", settings=ANYWHERE) as server,
        server.client(server.key("did:example:slow")) as one,
        server.client(server.key()) as other,
    ):
        slow.answers.clear()
        for _ in range(PER_TENANT + 2):
            register(one, slow, "run.completed")
        register(other, quick, "run.completed")
        finish(one, begin(one))
        until(lambda: len(slow.got) >= PER_TENANT)
        # As many of one tenant are on their way as may be, and nobody answers.
        for count in range(1, 4):
            finish(other, begin(other))
            until(lambda count=count: len(quick.got) >= count)  # type: ignore[misc]
        assert len(slow.got) == PER_TENANT
        slow.answers.set()
        until(lambda: len(slow.got) >= PER_TENANT + 2)


def test_discovery_says_how_deliveries_are_signed(tmp_path: Path) -> None:
    with running(tmp_path / "home") as server, server.client(server.key()) as client:
        told = client.get("/.well-known/openwop").json()["webhooks"]
        assert told == {"supported": True, "signatureAlgorithms": ["v1"]}


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
        "https://[64:ff9b::7f00:1]/",
        "https://[64:ff9b::8.8.8.8]/",
        "https://[64:ff9b:1::a00:1]/",
        "https://[fec0::1]/",
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
        resolve_addresses(parts, is_private_allowed=False)


def test_a_host_is_reached_at_any_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # Nothing listens at the first address.
        connection = webhook_sender._PinnedConnection(
            urlsplit(f"http://hooks.example:{port}/"), ["127.0.0.2", "127.0.0.1"]
        )
        connection.connect()
        assert connection.sock.getpeername() == ("127.0.0.1", port)
        connection.close()
        with pytest.raises(OSError):
            webhook_sender._PinnedConnection(urlsplit(f"http://hooks.example:{port}/"), ["127.0.0.2"]).connect()


def test_a_look_up_that_never_ends_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(webhook_sender, "ATTEMPT_SECONDS", 0.01)
    monkeypatch.setattr(webhook_sender, "_LOOKUPS", threading.BoundedSemaphore(2))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait() and [])
    url = urlsplit("https://hooks.example/")
    try:
        for _ in range(3):
            with pytest.raises(webhook_sender.Unreachable):
                resolve_addresses(url, is_private_allowed=False)
        # The third found no free place; no more threads than places wait.
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("memoranda-webhook-lookup") == 2
    finally:
        over.set()


def test_webhooks_are_the_owners_to_set(tmp_path: Path) -> None:
    with running(tmp_path / "home") as server, server.client(server.key()) as client:
        inside = client.post("/v1/webhooks", json={"url": "https://10.0.0.1/", "events": ["run.completed"]})
        assert openwop_error_of(inside) == (400, "webhook_url_rejected")
        nothing = client.post("/v1/webhooks", json={"url": "https://hooks.example/", "events": []})
        assert openwop_error_of(nothing) == (400, "validation_error")
        with server.client(server.key(OWNER, "read")) as reader:
            asked = reader.post("/v1/webhooks", json={"url": "https://hooks.example/", "events": ["run.completed"]})
            assert openwop_error_of(asked) == (403, "forbidden")
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


@pytest.mark.requirement("WOP-webhooks-tenant", "WOP-webhooks-codes")
def test_a_webhook_of_another_tenant_is_refused_and_refusals_have_their_codes(
    server: Running, client: httpx.Client
) -> None:
    draft = {"url": "https://hooks.example/openwop", "events": ["run.completed"]}
    foreign = client.post("/v1/webhooks", json={**draft, "tenantId": "did:example:other"})
    assert (foreign.status_code, foreign.json()["error"]) == (403, "forbidden")
    assert client.get("/v1/webhooks").json() == {"webhooks": []}
    for url in ("http://hooks.example/x", "https://127.0.0.1/x", "https://169.254.169.254/x", "https://localhost/x"):
        refused = client.post("/v1/webhooks", json={**draft, "url": url})
        assert (refused.status_code, refused.json()["error"]) == (400, "webhook_url_rejected"), url
    unknown = client.delete("/v1/webhooks/wh_unknown")
    assert (unknown.status_code, unknown.json()["error"]) == (404, "subscription_not_found")
    assert client.delete("/v1/webhooks/wh_unknown?tenantId=did:example:other").status_code == 403


@pytest.mark.requirement("WOP-5-cancel")
def test_a_run_is_cancelled_once_and_a_completed_one_is_not(client: httpx.Client) -> None:
    run_id = begin(client)
    for _ in range(2):
        answer = client.post(f"/v1/runs/{run_id}/cancel", json={"reason": "not needed"})
        assert (answer.status_code, answer.json()) == (200, {"runId": run_id, "status": "cancelled"})
    log = client.get(f"/v1/runs/{run_id}/events", headers={"accept": "application/json"}).json()["events"]
    assert [event["type"] for event in log] == ["run.started", "run.cancelled"]
    completed = begin(client)
    finish(client, completed)
    assert client.post(f"/v1/runs/{completed}/cancel").status_code == 409
    assert client.post("/v1/runs/run_unknown/cancel").status_code == 404


@pytest.mark.requirement("WOP-5-discovery-etag")
def test_discovery_has_an_etag_and_declares_only_what_goes_on(server: Running) -> None:
    with server.client("") as stranger:
        first = stranger.get("/.well-known/openwop")
        again = stranger.get("/.well-known/openwop", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert first.json()["replay"]["modes"] == ["replay"]
    assert first.json()["x-host-memoranda-memory-query"] == {"supported": True, "path": "/v1/memory/{ref}"}
