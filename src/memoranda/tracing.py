"""What a process is doing, for logs and traces: which request is worked on, and spans around what takes time.

Unless somebody wants traces, a span is nothing and costs next to nothing. Who does (`telemetry.py`) puts a tracer here.
Spans carry names of our own (standards, operations, verbs, status), never an owner, and nothing that was stored or
asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final, Protocol

# The id of the request, as its caller named it or we did; empty where no request is.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("memoranda_request_id", default="")

Headers = Iterable[tuple[bytes, bytes]]


class RequestSpan(Protocol):
    """The span of a whole request, of which at first only the headers are known."""

    def answered(self, method: str, standard: str, operation: str, status: int) -> None:
        """Say what it turned out to be."""
        ...


class Tracer(Protocol):
    """Who keeps spans."""

    def span(self, name: str, *, may_begin: bool) -> AbstractContextManager[object]: ...

    def request(self, headers: Headers) -> AbstractContextManager[RequestSpan]: ...


class _Untold:
    def answered(self, method: str, standard: str, operation: str, status: int) -> None:
        """Nobody wants to know."""


_NOTHING: Final = nullcontext()
_UNTOLD: Final = nullcontext(_Untold())
_tracer: Tracer | None = None


def trace_with(tracer: Tracer | None) -> None:
    """Hand all spans of this process to a tracer, or to nobody."""
    global _tracer
    _tracer = tracer


def span(name: str, *, may_begin: bool = False) -> AbstractContextManager[object]:
    """What runs within took its time under this name: as a part of what is traced, or as its beginning."""
    return _NOTHING if _tracer is None else _tracer.span(name, may_begin=may_begin)


def request_span(headers: Headers) -> AbstractContextManager[RequestSpan]:
    """What runs within is one request, and part of the trace that its headers name (W3C Trace Context)."""
    return _UNTOLD if _tracer is None else _tracer.request(headers)
