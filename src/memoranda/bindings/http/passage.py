"""One request on its way through the guard: its id, what its answer is given, and what is counted and logged of it."""

from __future__ import annotations

import logging
import random
import re
from time import perf_counter
from typing import Final

from starlette.types import Message, Scope, Send

from memoranda.bindings.http import wire
from memoranda.measures import HTTP_REQUESTS, HTTP_SECONDS
from memoranda.tracing import REQUEST_ID, RequestSpan

# What another system may have named a request; anything else is not repeated to anybody.
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
# What is no operation of a standard, by the first part of its path.
_PARTS: Final = frozenset(("mcp", "console", "oauth"))
# One line for each request, if somebody wants them.
_log = logging.getLogger("memoranda.requests")


class Passage:
    """Everything that goes out for one request goes out here."""

    def __init__(
        self, scope: Scope, send: Send, extra: tuple[wire.Header, ...], span: RequestSpan
    ) -> None:
        self.is_started = False
        self.extra = extra
        self._scope, self._send, self._span = scope, send, span
        self._began = perf_counter()
        # No secret, and the system is not asked: while it answers, another thread takes the interpreter.
        self.request_id = _named(scope) or f"{random.getrandbits(64):016x}"
        REQUEST_ID.set(self.request_id)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.is_started = True
            self._count(message["status"])
            headers = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            headers += [item for item in self.extra if item[0] not in present]
            headers.append((b"x-request-id", self.request_id.encode("ascii")))
            message = {**message, "headers": headers}
        await self._send(message)

    @property
    def operation(self) -> tuple[str, str]:
        """The standard and the operation that it turned out to be."""
        found: tuple[str, str] | None = self._scope.get("state", {}).get("operation")
        if found is not None:
            return found
        part = self._scope["path"].split("/", 2)[1]
        return (part, part) if part in _PARTS else ("none", "none")

    def _count(self, status: int) -> None:
        seconds = perf_counter() - self._began
        standard, operation = self.operation
        HTTP_REQUESTS.add(standard, operation, str(status))
        HTTP_SECONDS.observe(seconds, standard, operation)
        self._span.finish(self._scope["method"], standard, operation, status)
        if _log.isEnabledFor(logging.INFO):
            told = {
                "standard": standard,
                "operation": operation,
                "status": status,
                "ms": round(seconds * 1000, 3),
            }
            _log.info("%s %s %d", standard, operation, status, extra={"told": told})


def _named(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            return text if _REQUEST_ID.fullmatch(text) else None
    return None
