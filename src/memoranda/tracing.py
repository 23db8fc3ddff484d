"""The id of the current request, its line in the access log, and tracing spans around slow operations.

Without a tracer, spans are empty context managers that cost almost nothing. `telemetry.py` installs a tracer with
`trace_with`. Spans contain only names of this project (standards, operations, verbs, status codes), never an owner,
stored content or a query.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final, Protocol

# The id of the current request, chosen by its caller or by us; empty outside a request.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("memoranda_request_id", default="")

# Verbs that one line of the access log names; a request that uses more has used them many times.
_LOGGED_VERBS_LIMIT: Final = 8


class RequestRecord:
    """The caller and the verbs of a request, noted where they are authorised, whatever the request came through."""

    __slots__ = ("credential", "tenant", "verbs")

    def __init__(self) -> None:
        self.credential = ""
        self.tenant = ""
        self.verbs: list[str] = []

    def add_verb(self, credential: str, tenant: str, verb: str) -> None:
        """Note a verb with its caller; repeated verbs are noted once."""
        self.credential, self.tenant = credential, tenant
        if verb not in self.verbs and len(self.verbs) < _LOGGED_VERBS_LIMIT:
            self.verbs.append(verb)


# The record of the current request; None if requests are not logged.
REQUEST_RECORD: Final[ContextVar[RequestRecord | None]] = ContextVar(
    "memoranda_request_record", default=None
)

Headers = Iterable[tuple[bytes, bytes]]


class RequestSpan(Protocol):
    """The span of a request. It starts when only the headers are known."""

    def finish(self, method: str, standard: str, operation: str, status: int) -> None:
        """Record the operation and the status, which are known only at the end."""
        ...


class Tracer(Protocol):
    """A receiver of spans."""

    def span(self, name: str, *, may_begin: bool) -> AbstractContextManager[object]: ...

    def request(self, headers: Headers) -> AbstractContextManager[RequestSpan]: ...


class _IgnoredRequestSpan:
    def finish(self, method: str, standard: str, operation: str, status: int) -> None:
        """Ignore the result of a request."""


_IGNORED_SPAN: Final = nullcontext()
_IGNORED_REQUEST: Final = nullcontext(_IgnoredRequestSpan())
_tracer: Tracer | None = None


def trace_with(tracer: Tracer | None) -> None:
    """Send all spans of this process to a tracer; None turns tracing off."""
    global _tracer
    _tracer = tracer


def span(name: str, *, may_begin: bool = False) -> AbstractContextManager[object]:
    """Return a context manager that measures its body as a span. `may_begin`: it may be the root of a trace."""
    return _IGNORED_SPAN if _tracer is None else _tracer.span(name, may_begin=may_begin)


def request_span(headers: Headers) -> AbstractContextManager[RequestSpan]:
    """Return a context manager for a request, as part of the trace in its headers (W3C Trace Context)."""
    return _IGNORED_REQUEST if _tracer is None else _tracer.request(headers)
