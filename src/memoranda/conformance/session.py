"""The parts of a check of any server: the session with it, and the errors that tell how a check ended."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

State = Literal["passed", "failed", "not offered", "not run"]


class Failed(Exception):
    """An answer that breaks the standard."""


class NotOffered(Exception):
    """A part of the standard that the server does not have."""


class NotRun(Exception):
    """A check that needs what an earlier one did not get."""


class Reply(NamedTuple):
    """An answer: its status, its media type, and its JSON document, or the bytes of any other answer."""

    status: int
    media_type: str
    document: Any


class Send(Protocol):
    """A function that sends one request and returns any answer, also a refusal."""

    def __call__(
        self, method: str, path: str, body: object = None, *, is_anonymous: bool = False
    ) -> Reply:
        """Send a request, with the credential unless `is_anonymous`. Bytes are sent unchanged, other bodies as JSON."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    standard: str
    section: str
    requirement: str
    title: str
    state: State
    reason: str = ""


class Session(msgspec.Struct, kw_only=True):
    """The server under test, and the values that checks hand to later ones."""

    send: Send
    owner: str
    # A name that nothing else on the server uses.
    name: str = msgspec.field(default_factory=lambda: f"conformance-{secrets.token_hex(6)}")
    values: dict[str, Any] = msgspec.field(default_factory=dict)

    def expect(
        self, method: str, path: str, body: object = None, *, status: int | tuple[int, ...] = 200
    ) -> Any:
        """Send a request and return its document. Raises Failed for another status, NotOffered if there is no route."""
        reply = self.send(method, path, body)
        allowed = (status,) if isinstance(status, int) else status
        if reply.status not in allowed:
            if reply.status in (404, 405, 501) and "id" not in self.values:
                raise NotOffered(f"{method} {path}: HTTP {reply.status}")
            raise Failed(
                f"{method} {path}: HTTP {reply.status}, not {' or '.join(map(str, allowed))}"
            )
        return reply.document

    def use(self, name: str) -> Any:
        """Return a value of an earlier check. Raises NotRun if that check did not pass."""
        if name not in self.values:
            raise NotRun(f"an earlier check gave no {name}")
        return self.values[name]


class Check(NamedTuple):
    """One check, with the requirement that it covers."""

    standard: str
    section: str
    requirement: str
    title: str
    run: Callable[[Session], None]


def require(is_met: object, reason: str) -> None:
    """Raise Failed with the reason unless the condition holds."""
    if not is_met:
        raise Failed(reason)
