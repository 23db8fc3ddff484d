"""A request as the functions of all standards get it, and an answer with its status and headers.

Names in a path arrive undecoded: routes match the raw path, so that an encoded slash belongs to its name.

A function of a standard gets an HttpCall with everything that HTTP adds to its request and returns either a plain
result or an HttpAnswer, if it needs another status or headers. The body is parsed at most once, by the code that knows
its form; a function that has a request struct in its row does not parse it at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from memoranda.bindings.http import wire
from memoranda.encoding.json_text import MAX_DEPTH, parse
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.service import Service

_STRAY_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A request with its received, unparsed body."""

    scope: Scope
    raw: bytes
    max_body_bytes: int

    @property
    def access(self) -> Access:
        """The access of the caller, who is authenticated."""
        access: Access = self.scope["state"]["access"]
        return access

    @property
    def media_type(self) -> str:
        """The media type of the body; JSON if the request names none."""
        return wire.bare_media_type(self.header(b"content-type") or wire.JSON)

    def header(self, name: bytes) -> str | None:
        """Return the value of a header; None if it is absent. Raises InvalidInput if it occurs twice."""
        return wire.read_header(self.scope, name)

    def path_name(self, name: str) -> str:
        """Return a name in the path. Raises InvalidInput for bad percent-encoding."""
        value = self.readable_path_name(name)
        if value is None:
            raise InvalidInput(f"the {name} in the path is not percent-encoded UTF-8")
        return value

    def readable_path_name(self, name: str) -> str | None:
        """Return a name in the path; None if it cannot be decoded."""
        raw: bytes = self.scope["path_params"][name]
        if b"%" in raw and _STRAY_PERCENT.search(raw) is not None:
            return None
        try:
            return unquote_to_bytes(raw).decode("utf-8")
        except UnicodeDecodeError:
            return None

    def parse_json(self, *, max_depth: int = MAX_DEPTH) -> object:
        """Return the body as JSON; an empty one is {}. Raises InvalidInput."""
        if self.media_type != wire.JSON:
            # A web page can send other types without a preflight request (CORS "simple" requests).
            raise InvalidInput("content-type must be application/json")
        return (
            parse(self.raw, max_bytes=self.max_body_bytes, max_depth=max_depth) if self.raw else {}
        )

    def parse_object(self) -> dict[str, object]:
        """Return the body as an object. Raises InvalidInput."""
        body = self.parse_json()
        if not isinstance(body, dict):
            raise InvalidInput("the request must be an object")
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """The result of a function, with a status and headers."""

    result: object = None
    # None: the usual status of the operation.
    status: int | None = None
    headers: tuple[wire.Header, ...] = ()
    # The body instead of a result, and its media type.
    body: bytes | None = None
    media_type: str = wire.JSON


# Takes the service, the call, and the parsed request: the shape of the operation, or the value of its own parser.
Serve = Callable[[Service, HttpCall, Any], object]


def format_cursor(next_position: int | None) -> str | None:
    """Return the cursor of the page that begins after a position; None if there is none."""
    return None if next_position is None else str(next_position)
