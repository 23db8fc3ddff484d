"""What all routes of openwop share: its error envelope, names in paths, and the endpoint around a verb.

A ref is an opaque string that may hold slashes; it stands percent-encoded in the path, which is therefore split before
anything of it is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import oams_wire, wire
from memoranda.bindings.http.request import Answer, Request
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.json_text import dump
from memoranda.errors import ForbiddenScope, InvalidInput, MemorandaError
from memoranda.service.service import Service
from memoranda.standards.openwop.fields import an_object, check_text, closed_object
from memoranda.standards.openwop.problem import NOT_FOUND, problem, problem_of
from memoranda.standards.openwop.refs import MAX_REF_CHARS

PREFIX: Final = "/v1/"
DISCOVERY: Final = "/.well-known/openwop"
METHOD_NOT_ALLOWED: Final = "method_not_allowed"

_PARAMETER: Final = re.compile(r"\{(\w+)\}")
# These take the slashes that are left: an id of another standard, and a path.
_REST: Final = frozenset({"id", "path"})
_MAX_DIGITS: Final = 9


def is_openwop(scope: Scope) -> bool:
    path: str = scope["path"]
    return path == DISCOVERY or (path.startswith(PREFIX) and not oams_wire.is_oams(scope))


# --- errors ----------------------------------------------------------------------------------------------


async def send_error(send: Send, error: MemorandaError) -> None:
    """Answer with openwop's envelope; entry data is never in it (CTI-1)."""
    # auth.md shows scopeRequired at the top level, which the closed envelope does not allow.
    scope = error.scope if isinstance(error, ForbiddenScope) else None
    status, body = problem_of(error, details=None if scope is None else {"scopeRequired": scope})
    await wire.send_bytes(send, status, dump(body), wire.error_headers(error))


def no_route(status: int) -> bytes:
    """The envelope for a path or a method that is not there."""
    if status == 405:
        return dump(problem(METHOD_NOT_ALLOWED, "this path is not for that method"))
    return dump(problem(NOT_FOUND, "no route"))


# --- paths -----------------------------------------------------------------------------------------------


class NamedRoute(Route):
    """A route whose names are matched as they were sent, before anything is decoded."""

    def __init__(self, path: str, endpoint: Callable[..., Any], *, methods: list[str]) -> None:
        super().__init__(path, endpoint, methods=methods)
        pattern = re.escape(path).replace(r"\{", "{").replace(r"\}", "}")
        expression = _PARAMETER.sub(lambda match: f"(?P<{match[1]}>{'.+' if match[1] in _REST else '[^/]+'})", pattern)
        self._raw = re.compile(expression.encode("ascii"))

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found = self._raw.fullmatch(scope["raw_path"]) if scope["type"] == "http" else None
        if found is None:
            return Match.NONE, {}
        is_whole = self.methods is None or scope["method"] in self.methods
        more = {"endpoint": self.endpoint, "path_params": found.groupdict()}
        return Match.FULL if is_whole else Match.PARTIAL, more


# --- requests --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Request):
    """A request for a verb of openwop."""

    def ref(self) -> str:
        """The memoryRef in the path; one that cannot be read is as malformed as any other, which is no error."""
        return self.readable_name("ref") or ""

    def query(self, *known: str) -> dict[str, str]:
        """The query's fields, all of them known."""
        fields = wire.query(self.scope)
        for name in fields:
            if name not in known:
                there = f"there are {', '.join(known)}" if known else "there are none"
                raise InvalidInput(f"unknown field {name[:40]!a} in the query; {there}")
        return fields

    def only(self, *known: str) -> dict[str, Any]:
        """The body as an object with no other fields than these."""
        return closed_object(self.json(), known, "the request")

    def object(self) -> dict[str, Any]:
        """The body as an object."""
        return an_object(self.json(), "the request")


def memory_ref(fields: Mapping[str, Any]) -> str:
    """The memoryRef of a request that is to change something: here it has to be one."""
    return check_text(fields.get("memoryRef"), "memoryRef", MAX_REF_CHARS)


def whole_number(fields: Mapping[str, str], name: str, *, least: int = 0) -> int | None:
    """A number in a query."""
    text = fields.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS) or int(text) < least:
        raise InvalidInput(f"{name} must be a whole number of at least {least}")
    return int(text)


# --- endpoints -------------------------------------------------------------------------------------------


Verb = Callable[[Service, Asked], Answer]
Paths = Mapping[str, Mapping[str, Verb]]


class WopRoute:
    """ASGI endpoint: read the request, and in one thread parse, call and render."""

    def __init__(self, verbs: Mapping[str, Verb], *, service: Service, threads: Threads, max_body_bytes: int) -> None:
        self._verbs = verbs
        self._service = service
        self._threads = threads
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = await wire.read_body(receive) if scope["method"] in ("POST", "PUT", "PATCH") else b""
        status, body, headers = await self._threads.run(self._work, scope, raw)
        if status == 204:
            # RFC 9110 8.6: no Content-Length where there can be no content.
            await send({"type": "http.response.start", "status": status, "headers": list(headers)})
            await send({"type": "http.response.body", "body": b""})
        else:
            await wire.send_bytes(send, status, body, headers)

    def _work(self, scope: Scope, raw: bytes) -> tuple[int, bytes, tuple[wire.Header, ...]]:
        verb = self._verbs.get(scope["method"]) or self._verbs["GET"]
        answer = verb(self._service, Asked(scope=scope, raw=raw, max_body_bytes=self._max_body_bytes))
        return answer.status, b"" if answer.status == 204 else dump(answer.result), answer.headers
