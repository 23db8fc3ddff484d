"""Traces by OpenTelemetry: which spans there are, whose children, what they never say, and that they arrive."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memoranda.bindings.mcp.http import McpEndpoint
from memoranda.measures import span
from memoranda.service.service import Service
from memoranda.spans import trace_to
from memoranda.telemetry import find_exporter, start
from tests.bindings.http.running import Running, draft, remember, running
from tests.waiting import HANG_SECONDS, until

SECRET = "zebra-in-a-text"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("traced")) as found:
        yield found


@pytest.fixture
def kept() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    end = trace_to(exporter, at_once=True)
    yield exporter
    end()


def named(kept: InMemorySpanExporter, name: str) -> ReadableSpan:
    """The one of that name; the span of a request ends after its answer was sent."""
    until(lambda: any(each.name == name for each in kept.get_finished_spans()), f"no span {name}")
    (found,) = [each for each in kept.get_finished_spans() if each.name == name]
    return found


def test_a_request_has_its_verb_and_that_its_storage(server: Running, kept: InMemorySpanExporter) -> None:
    with server.client() as client:
        client.post("/ump/remember", json=draft(SECRET))
    request = named(kept, "ump remember")
    verb, write = named(kept, "verb ump.remember"), named(kept, "storage write")
    assert request.parent is None
    assert verb.parent is not None
    assert write.parent is not None
    assert verb.parent.span_id == request.context.span_id
    assert write.parent.span_id == verb.context.span_id
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "memoranda.standard": "ump",
        "memoranda.operation": "remember",
    }
    assert dict(request.resource.attributes)["service.name"] == "memoranda"


def test_a_caller_that_traces_has_our_spans_in_its_own(server: Running, kept: InMemorySpanExporter) -> None:
    with server.client() as client:
        client.get("/healthz", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
        found = named(kept, "ump alive")
        assert f"{found.context.trace_id:032x}" == TRACE
        assert found.parent is not None
        assert f"{found.parent.span_id:016x}" == PARENT
        kept.clear()
        for bad in ("nonsense", f"00-{'0' * 32}-{PARENT}-01", "00-" + "é" * 32):
            kept.clear()
            client.get("/healthz", headers={b"traceparent": bad.encode("latin-1")})
            assert named(kept, "ump alive").parent is None


def test_an_error_is_told_by_its_code_and_not_by_its_words(server: Running, kept: InMemorySpanExporter) -> None:
    with server.client() as client:
        assert client.get(f"/ump/memory/urn:ump:{SECRET}").status_code == 404
    verb = named(kept, "verb ump.get")
    assert dict(verb.attributes or {}) == {"error.type": "not_found"}
    assert not verb.events
    assert named(kept, "ump get").status.is_unset
    with pytest.raises(RuntimeError), span("ours", may_begin=True):
        raise RuntimeError(SECRET)
    ours = named(kept, "ours")
    assert (dict(ours.attributes or {}), ours.status.description, ours.events) == (
        {"error.type": "RuntimeError"},
        None,
        (),
    )


def test_no_owner_and_nothing_stored_or_asked_is_in_a_span(server: Running, kept: InMemorySpanExporter) -> None:
    with server.client() as client:
        remember(client, SECRET, project="zebra-in-a-project", owner="did:example:zebra")
        client.post("/ump/recall", json={"query": SECRET, "scope": {"owner": "did:example:zebra"}})
        client.get("/zebra-in-a-path", params={"zebra": SECRET})
        client.post("/cal", json={"query": f'RECALL LIKE "{SECRET}"'})
    named(kept, "cal cal")
    assert "zebra" not in "".join(each.to_json() for each in kept.get_finished_spans())


def test_what_nobody_asked_for_begins_no_trace(kept: InMemorySpanExporter, server: Running) -> None:
    with server.service.context.engine.open_snapshot("did:example:nobody"):
        pass
    with span("a part of nothing"):
        pass
    assert not kept.get_finished_spans()


def with_mcp(service: Service) -> dict[str, Any]:
    endpoint = McpEndpoint(service)
    return {"extra_routes": endpoint.routes, "lifespans": [endpoint.running], "on_stop": [endpoint.stop_streams]}


def test_a_tool_is_traced_under_the_request_that_called_it(tmp_path: Path, kept: InMemorySpanExporter) -> None:
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    calls = {"name": "ump_recall", "arguments": {"query": SECRET}}
    accept = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    with running(tmp_path, extra=with_mcp) as server, server.client(server.key()) as client:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        opened = client.post("/mcp", json=hello, headers=accept)
        session = {**accept, "mcp-session-id": opened.headers["mcp-session-id"]}
        client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": calls}
        traced = {**session, "traceparent": f"00-{TRACE}-{PARENT}-01"}
        assert client.post("/mcp", json=asked, headers=traced).status_code == 200
        assert f"{named(kept, 'verb ump.for_prompt').context.trace_id:032x}" == TRACE


# --- switched on and off ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"OTEL_SERVICE_NAME": "x"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, None),
    ],
)
def test_the_environment_says_whether_and_whereto(environ: dict[str, str], expected: str | None) -> None:
    assert find_exporter(environ) == expected


def test_an_exporter_that_there_is_not_is_said(caplog: pytest.LogCaptureFixture) -> None:
    start({"OTEL_TRACES_EXPORTER": "zipkin"})()
    assert "'zipkin' is none of otlp, console, none" in caplog.text


def test_nothing_of_it_is_loaded_unless_it_is_switched_on() -> None:
    script = (
        "import sys; from memoranda.app import Memoranda; from memoranda.telemetry import start; start()\n"
        "with Memoranda.open(':memory:') as m: m.remember('x')\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert ran.stdout == "[]\n", ran.stderr


def test_a_missing_library_is_said_and_nothing_else_happens(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    start({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})()
    assert "pip install 'memoranda[otel]'" in caplog.text


# --- over the wire ------------------------------------------------------------------------------------


class Collector(HTTPServer):
    """What a collector does: takes what is posted to /v1/traces, and reads it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receive)
        self.took: list[tuple[str, ExportTraceServiceRequest]] = []

    @property
    def spans(self) -> list[Any]:
        return [
            each
            for _, request in self.took
            for some in request.resource_spans
            for scope in some.scope_spans
            for each in scope.spans
        ]


class _Receive(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.took.append((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is said."""


def test_spans_arrive_at_a_collector(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "the-memory")
        end = start()
        with server.client() as client:
            client.get("/readyz", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
            client.get("/healthz")
        # What is left is sent at the end.
        end()
        collector.shutdown()
    assert {path for path, _ in collector.took} == {"/v1/traces"}
    ready = next(each for each in collector.spans if each.name == "ump ready")
    assert (ready.trace_id.hex(), ready.parent_span_id.hex()) == (TRACE, PARENT)
    resource = collector.took[0][1].resource_spans[0].resource
    assert {each.key: each.value.string_value for each in resource.attributes}["service.name"] == "the-memory"


def test_a_collector_that_is_away_stops_nobody(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    end = start()
    with server.client() as client:
        assert client.get("/readyz").status_code == 200
    end()
