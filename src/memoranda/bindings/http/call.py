"""A request as the verbs of all standards get it, and an answer with what HTTP says beside it.

Names in a path come here as they were sent: routes match before anything is decoded, so that an encoded slash belongs
to its name.
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
    """A request whose body was received and not yet read."""

    scope: Scope
    raw: bytes
    max_body_bytes: int

    @property
    def access(self) -> Access:
        access: Access = self.scope["state"]["access"]
        return access

    @property
    def media_type(self) -> str:
        """Of the body; JSON if it is not said."""
        return wire.bare_media_type(self.header(b"content-type") or wire.JSON)

    def header(self, name: bytes) -> str | None:
        return wire.read_header(self.scope, name)

    def path_name(self, name: str) -> str:
        """A name in the path. Raises InvalidInput for bad percent-encoding."""
        found = self.readable_path_name(name)
        if found is None:
            raise InvalidInput(f"the {name} in the path is not percent-encoded UTF-8")
        return found

    def readable_path_name(self, name: str) -> str | None:
        """A name in the path; None if it cannot be read."""
        raw: bytes = self.scope["path_params"][name]
        if b"%" in raw and _STRAY_PERCENT.search(raw) is not None:
            return None
        try:
            return unquote_to_bytes(raw).decode("utf-8")
        except UnicodeDecodeError:
            return None

    def parse_json(self, *, max_depth: int = MAX_DEPTH) -> Any:
        """The body; an empty one is {}."""
        if self.media_type != wire.JSON:
            # A web page can send other types to us without asking first (CORS "simple" requests).
            raise InvalidInput("content-type must be application/json")
        return (
            parse(self.raw, max_bytes=self.max_body_bytes, max_depth=max_depth) if self.raw else {}
        )

    def parse_object(self) -> dict[str, Any]:
        """The body as an object."""
        body = self.parse_json()
        if not isinstance(body, dict):
            raise InvalidInput("the request must be an object")
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What a verb gives, and what HTTP says beside it."""

    result: object = None
    # None: the operation's usual one.
    status: int | None = None
    headers: tuple[wire.Header, ...] = ()
    # Instead of a result: bytes, and what they are.
    body: bytes | None = None
    media_type: str = wire.JSON


# The service, the call, and its request: the shape of the operation, or the value that its own reader made.
Serve = Callable[[Service, HttpCall, Any], object]


def format_cursor(following: int | None) -> str | None:
    """Return the cursor of the page that begins after a position; None if there is none."""
    return None if following is None else str(following)
