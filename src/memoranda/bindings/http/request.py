"""A request that is read as it is asked for, and an answer with what HTTP says beside it: what OAMS and openwop share.

Names in a path come here as they were sent: their routes match before anything is decoded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from memoranda.bindings.http import wire
from memoranda.encoding.json_text import MAX_DEPTH, parse
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access

_STRAY_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request whose body was received and not yet read."""

    scope: Scope
    raw: bytes
    max_body_bytes: int

    @property
    def access(self) -> Access:
        access: Access = self.scope["state"]["access"]
        return access

    def header(self, name: bytes) -> str | None:
        return wire.header(self.scope, name)

    def name(self, name: str) -> str:
        """A name in the path. Raises InvalidInput for bad percent-encoding."""
        found = self.readable_name(name)
        if found is None:
            raise InvalidInput(f"the {name} in the path is not percent-encoded UTF-8")
        return found

    def readable_name(self, name: str) -> str | None:
        """A name in the path; None if it cannot be read."""
        raw: bytes = self.scope["path_params"][name]
        if _STRAY_PERCENT.search(raw) is not None:
            return None
        try:
            return unquote_to_bytes(raw).decode("utf-8")
        except UnicodeDecodeError:
            return None

    def json(self, *, max_depth: int = MAX_DEPTH) -> Any:
        """The body; an empty one is {}."""
        wire.check_media_type(self.scope)
        return parse(self.raw, max_bytes=self.max_body_bytes, max_depth=max_depth) if self.raw else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a verb gives, and what HTTP says beside it."""

    result: object = None
    status: int = 200
    headers: tuple[wire.Header, ...] = ()
