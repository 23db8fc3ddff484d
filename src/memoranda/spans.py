"""Spans of OpenTelemetry, for `telemetry.py`, which imports this module only where the environment asks for traces."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SimpleSpanProcessor,
    SpanExporter,
)
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from memoranda import __version__
from memoranda.errors import MemorandaError
from memoranda.measures import Headers, trace_with


def trace_to(exporter: SpanExporter, *, at_once: bool = False) -> Callable[[], None]:
    """Send spans to an exporter, in the background, or with `at_once` when each ends; return a function to stop."""
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


def exporter_named(name: str, *, is_one_line: bool) -> SpanExporter:
    """Return the exporter of a name in `OTEL_TRACES_EXPORTER`. Raises ValueError, and ImportError if it is missing."""
    if name == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    if name == "console":
        indent = None if is_one_line else 4
        return ConsoleSpanExporter(
            out=sys.stderr, formatter=lambda span: span.to_json(indent=indent) + "\n"
        )
    raise ValueError(f"OTEL_TRACES_EXPORTER: {name[:40]!a} is none of otlp, console, none")


class _RequestSpan:
    """The span of one request."""

    def __init__(self, span: Span) -> None:
        self._span = span

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
            self._span.set_status(Status(StatusCode.ERROR))


class _OpenTelemetry:
    """A tracer that makes spans of OpenTelemetry."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("memoranda", __version__)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, *, may_begin: bool) -> Iterator[None]:
        """Trace a step; with `may_begin` also outside a request."""
        if may_begin or get_current_span().is_recording():
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
        with self._start_span("request", kind=SpanKind.SERVER, context=parent) as span:
            yield _RequestSpan(span)

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
                span.set_status(Status(StatusCode.ERROR))
                raise
