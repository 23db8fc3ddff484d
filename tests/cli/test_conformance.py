"""`memoranda conformance URL`: on our own server, on one that offers nothing, and on one whose answers are wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.bindings.http.running import running
from tests.cli.conftest import Command
from tests.test_requirements import requirements

from memoranda.conformance.checks import CHECKS
from memoranda.conformance.openwop import SEAMS


@contextmanager
def serving(status: int, body: bytes) -> Iterator[str]:
    """A server that gives every request the same answer."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 (names of the standard library)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.requirement("OURS-conformance-command")
def test_our_own_server_passes_every_check_and_keeps_nothing(run: Command, tmp_path: Path) -> None:
    with running(tmp_path / "home", seams=SEAMS) as server:
        done = run("conformance", server.url, "--key", server.token, "--json")
        assert [each for each in done.json["checks"] if each["state"] != "passed"] == []
        assert (done.code, done.json["counts"]["passed"]) == (0, len(CHECKS))
        with server.client() as client:
            listed = client.get("/v1/oams/namespaces").json()["namespaces"]
            used = [name for name in listed if name.startswith("user-x123ab:conformance")]
            kept = [name for name in used if client.get(f"/v1/oams/memories/{name}").json()["memories"]]
        # The first version of a revised record stays as its history.
        assert kept == []
        shown = run("conformance", server.url, "--key", server.token, "--standard", "oams")
        assert "9 passed, 0 failed" in shown.out
        refused = run("conformance", server.url, "--key", "mk_none_none")
        assert refused.code == 1


@pytest.mark.requirement("OURS-conformance-command")
def test_a_server_that_offers_nothing_or_answers_wrongly_is_told_as_such(run: Command) -> None:
    with serving(404, b"{}") as url:
        nothing = run("conformance", url, "--json")
    states = {each["state"] for each in nothing.json["checks"]}
    assert states <= {"not offered", "not run", "failed"}
    assert nothing.json["counts"]["passed"] == 0
    for body in (b"{}", b"[]", b'"x"', b'{"ump": "0.1", "kinds": [], "id": 7, "result": "created"}'):
        with serving(200, body) as url:
            wrong = run("conformance", url, "--json")
        assert (wrong.code, wrong.json["counts"]["passed"]) == (1, 0), body
    gone = run("conformance", "http://127.0.0.1:9")
    assert (gone.code, "does not answer" in gone.err) == (1, True)


def test_every_check_names_a_requirement_that_is_there() -> None:
    ids = {requirement["id"] for requirement in requirements()}
    assert [check.requirement for check in CHECKS if check.requirement not in ids] == []
    assert {check.standard for check in CHECKS} == {"ump", "oams", "openwop", "oms"}
