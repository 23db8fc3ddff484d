"""Traces by OpenTelemetry (`memoranda[otel]`), where the environment asks for them with its usual names.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318      to this collector, over HTTP
    OTEL_TRACES_EXPORTER=console                           to standard error, to look at
    OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS …   as everywhere

Without the first two nothing of OpenTelemetry is loaded. Callers that send `traceparent` have our spans in theirs.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from memoranda import __version__
from memoranda.errors import MemorandaError
from memoranda.tracing import Headers, trace_with

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Status

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_log = logging.getLogger(__name__)


def wanted(environ: Mapping[str, str]) -> str | None:
    """Return the name of the exporter that the environment asks for; None for no traces."""
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or exporter == "none":
        return None
    return exporter or ("otlp" if any(environ.get(name) for name in _ENDPOINTS) else None)


def start(
    environ: Mapping[str, str] | None = None, *, is_one_line: bool = False
) -> Callable[[], None]:
    """Trace this process if its environment asks for it; return a function that sends the last spans and ends tracing.

    `is_one_line`: the console exporter writes each span on one line.
    """
    exporter = wanted(os.environ if environ is None else environ)
    if exporter is None:
        return _nothing
    try:
        return trace_to(_exporter(exporter, is_one_line=is_one_line))
    except ImportError:
        _log.warning(
            "traces are asked for (OTEL_…), and OpenTelemetry is missing: pip install 'memoranda[otel]'"
        )
    except ValueError as error:
        _log.warning("no traces: %s", error)
    return _nothing


def trace_to(exporter: SpanExporter, *, at_once: bool = False) -> Callable[[], None]:
    """Send spans to an exporter, in the background, or with `at_once` when each ends; return a function to stop."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

    attributes = {"service.version": __version__}
    if "OTEL_SERVICE_NAME" not in os.environ:
        attributes["service.name"] = "memoranda"
    provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    provider.add_span_processor(
        SimpleSpanProcessor(exporter) if at_once else BatchSpanProcessor(exporter)
    )
    trace_with(_OpenTelemetry(provider))

    def end() -> None:
        trace_with(None)
        provider.shutdown()

    return end


def _nothing() -> None:
    """Do nothing: tracing was not started."""


def _exporter(name: str, *, is_one_line: bool) -> SpanExporter:
    if name == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        indent = None if is_one_line else 4
        return ConsoleSpanExporter(
            out=sys.stderr, formatter=lambda span: span.to_json(indent=indent) + "\n"
        )
    raise ValueError(f"OTEL_TRACES_EXPORTER: {name[:40]!a} is none of otlp, console, none")


class _RequestSpan:
    """The span of one request."""

    def __init__(self, span: Span, failed: Status) -> None:
        self._span = span
        self._failed = failed

    def finish(self, method: str, standard: str, operation: str, status: int) -> None:
        """Name the span by the operation, and add the method and the status code."""
        self._span.update_name(f"{standard} {operation}")
        self._span.set_attributes(
            {
                "http.request.method": method,
                "http.response.status_code": status,
                "memoranda.standard": standard,
                "memoranda.operation": operation,
            }
        )
        if status >= 500:
            self._span.set_status(self._failed)


class _OpenTelemetry:
    """A tracer that makes spans of OpenTelemetry."""

    def __init__(self, provider: TracerProvider) -> None:
        # OpenTelemetry is optional, and loaded with the first tracer.
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._api = trace
        self._failed = trace.Status(trace.StatusCode.ERROR)
        self._tracer = provider.get_tracer("memoranda", __version__)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, *, may_begin: bool) -> Iterator[None]:
        """Trace a step; with `may_begin` also outside a request."""
        if may_begin or self._api.get_current_span().is_recording():
            with self._start_span(name):
                yield
        else:
            yield

    @contextmanager
    def request(self, headers: Headers) -> Iterator[_RequestSpan]:
        """Trace a request, as a part of the caller's trace if its headers name one."""
        # The propagator ignores headers that do not follow the W3C recommendation.
        trace_headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in (b"traceparent", b"tracestate")
        }
        # From a fresh context: a connection may have been opened while another request was worked on.
        parent = self._propagator.extract(trace_headers, context={}) if trace_headers else None  # type: ignore[arg-type]
        kind = self._api.SpanKind.SERVER
        with self._start_span("request", kind=kind, context=parent) as span:
            yield _RequestSpan(span, self._failed)

    @contextmanager
    def _start_span(self, name: str, **options: Any) -> Iterator[Span]:
        # The message of an error may quote a memory, so only its code or type is recorded.
        with self._tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False, **options
        ) as span:
            try:
                yield span
            except MemorandaError as error:
                span.set_attribute("error.type", error.code)
                raise
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(self._failed)
                raise
