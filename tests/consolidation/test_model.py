"""A writer behind a real HTTP endpoint on loopback."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.consolidation.notes import NOW, note

from memoranda.consolidation.strategies.catalogue import run_strategy
from memoranda.consolidation.writer import ModelWriter
from memoranda.errors import InvalidInput

NOTES = [note("The port is 8080.", "2026-01-01"), note("Port: 9090", "2026-02-01")]
(FOUND,) = run_strategy("validate", NOTES, now=NOW)


class Endpoint:
    """An OpenAI-compatible endpoint that answers what a test tells it."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body: bytes = b""
        self.asked: list[tuple[str, str | None, Any]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def say(self, text: str) -> None:
        self.body = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.asked.append((self.path, self.headers.get("Authorization"), body))
                self.send_response(endpoint.status)
                for name, value in endpoint.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(endpoint.body)))
                self.end_headers()
                self.wfile.write(endpoint.body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Endpoint()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def writer(endpoint: Endpoint, **rest: Any) -> ModelWriter:
    return ModelWriter(url=endpoint.url, model="tiny", **rest)


def test_a_better_wording_replaces_the_text_and_nothing_else(endpoint: Endpoint) -> None:
    endpoint.say("  The port was said to be 8080 and later 9090.\u202e ")
    (worded,) = run_strategy("validate", NOTES, now=NOW, writer=writer(endpoint, api_key="k"))
    assert worded.text == "The port was said to be 8080 and later 9090."
    assert (worded.inputs, worded.kind, worded.tags) == (FOUND.inputs, FOUND.kind, FOUND.tags)
    assert worded.detail == {**FOUND.detail, "worded_by": "model", "found_text": FOUND.text}
    ((path, authorization, body),) = endpoint.asked
    assert path == "/v1/chat/completions"
    assert authorization == "Bearer k"
    assert body["model"] == "tiny"
    data = json.loads(body["messages"][1]["content"])
    assert data["strategy"] == "validate"
    assert set(data["memories"]) == {each.text for each in NOTES}


@pytest.mark.parametrize(
    "answer",
    ["The port is 7070.", "Said by Alice, the port is 9090.", "The port is not 8080.", "x " * 1_000, " \n", "\x00"],
)
def test_an_answer_that_invents_or_denies_or_is_no_wording_is_not_used(endpoint: Endpoint, answer: str) -> None:
    endpoint.say(answer)
    assert run_strategy("validate", NOTES, now=NOW, writer=writer(endpoint)) == [FOUND]


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (500, b"", "the model's endpoint answered 500"),
        (200, b"not json", "not JSON"),
        (200, b"[]", "the model's answer has no text"),
        (200, b'{"choices": []}', "the model's answer has no text"),
        (200, b'{"choices": [{"message": {"content": 7}}]}', "the model's answer has no text"),
        (200, b'{"choices":"' + b"x" * 300_000 + b'"}', "the model's answer is too large"),
    ],
)
def test_an_endpoint_that_fails_costs_only_the_wording(
    endpoint: Endpoint, status: int, body: bytes, problem: str
) -> None:
    endpoint.status, endpoint.body = status, body
    used = writer(endpoint)
    assert run_strategy("validate", NOTES, now=NOW, writer=used) == [FOUND]
    assert problem in used.problem


def test_a_redirect_is_not_followed_so_that_the_key_stays(endpoint: Endpoint) -> None:
    endpoint.status, endpoint.headers = 302, {"Location": f"{endpoint.url}/elsewhere"}
    used = writer(endpoint, api_key="secret")
    assert used.rewrite("validate", FOUND, NOTES) is None
    assert used.problem == "the model's endpoint answered 302"
    assert [path for path, _, _ in endpoint.asked] == ["/v1/chat/completions"]
    assert "secret" not in repr(used)


def test_after_three_failures_in_a_row_it_is_not_asked_again(endpoint: Endpoint) -> None:
    endpoint.status = 503
    used = writer(endpoint)
    assert [used.rewrite("validate", FOUND, NOTES) for _ in range(5)] == [None] * 5
    assert len(endpoint.asked) == 3


def test_a_silent_or_absent_endpoint_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        used = ModelWriter(url=url, model="m", timeout_seconds=0.1)
        assert used.rewrite("validate", FOUND, NOTES) is None
        assert used.problem == "the model's endpoint did not answer in time"
    assert used.rewrite("validate", FOUND, NOTES) is None
    assert used.problem == "the model's endpoint cannot be reached"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x", "http://", "x", "http://a/v1?k=1", ""])
def test_only_web_addresses_are_accepted(url: str) -> None:
    with pytest.raises(InvalidInput, match="http or https"):
        ModelWriter(url=url, model="m")
