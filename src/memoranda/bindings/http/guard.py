"""Everything a request passes before a route sees it, and every answer on its way out.

    Host, Origin     a web page that was led to our address (DNS rebinding, cross-site requests) gets no further
    credential       on everything but what the tables say is public; routes ask `scope["state"]["caller"]` what it may
                     do, in the thread they need anyway
    rate             per credential; and per address for credentials that do not hold, and for owners nobody knows
    length           of the body, as the standard of the path allows
    errors           in the words of the standard of the path

Plain ASGI, so that streams flow through. This is the HTTP rim: what nobody expected becomes a 500 here.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.limits import TokenBuckets
from memoranda.bindings.http.operation import Tables
from memoranda.bindings.http.passage import Passage
from memoranda.encoding.json_text import dump
from memoranda.errors import ForbiddenScope, InvalidInput, MemorandaError, RateLimited, Unauthorized
from memoranda.service.core.access import Access, Gate
from memoranda.service.core.limits import FairShares
from memoranda.service.core.sign_in import DEFAULT_VERBS
from memoranda.tracing import request_span

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

# A client may catch up after a pause of this length, so that short bursts are not punished.
BURST_SECONDS = 2.0
# A person who mistypes is never stopped, a program that guesses is; secrets have 256 bits besides.
FAILURES_RATE, FAILURES_BURST = 20.0, 40.0
# Where registration is open: what all owners together may ask from one address who have no other standing.
STRANGERS_RATE, STRANGERS_BURST = 20.0, 100.0
# Answers that were made and not yet read, of all callers together.
UNREAD_BYTES_LIMIT = 64 * 1_048_576
# The longest capability token with a margin; longer headers are not worth hashing.
BEARER_CHARS_LIMIT = 8192

SECURITY_HEADERS: tuple[wire.Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)
ALLOWED_HEADERS = (
    b"authorization, content-type, if-match, if-none-match, last-event-id, x-cal-token, x-oams-consent, x-request-id, "
    b"mcp-method, mcp-name, mcp-protocol-version, mcp-session-id"
)
PREFLIGHT_HEADERS: tuple[wire.Header, ...] = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", ALLOWED_HEADERS),
    (b"access-control-max-age", b"600"),
    # Browsers ask this before a public page may call an address of the own machine.
    (b"access-control-allow-private-network", b"true"),
)
EXPOSED_HEADERS = (
    b"etag, mcp-session-id, retry-after, www-authenticate, x-memoranda-warning, x-oams-warning, "
    b"x-request-id, x-oms-address, x-oms-superseded-by, x-oms-system-valid-to, x-oms-verification-status"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the guard lets through."""

    allowed_hosts: Collection[str]
    allowed_origins: Collection[str]
    # Requests a second of one credential.
    rate_limit: float
    max_body_bytes: int
    # Monotonic seconds.
    clock: Callable[[], float]
    # Where a caller without a credential is told how a program gets one, and what it should ask for (RFC 9728 5.1).
    protected: str | None = None

    def __post_init__(self) -> None:
        if self.rate_limit <= 0 or self.max_body_bytes <= 0:
            raise InvalidInput("rate_limit and max_body_bytes must be more than 0")


class Caller:
    """A credential, and what it turned out to give."""

    __slots__ = ("_admit_stranger", "_gate", "access", "address", "bearer", "digest")

    def __init__(
        self, gate: Gate, bearer: str, address: str, admit_stranger: Callable[[str], None]
    ) -> None:
        self._gate = gate
        self._admit_stranger = admit_stranger
        self.bearer = bearer
        self.address = address
        # Secrets are not kept as keys of a table.
        self.digest = hashlib.blake2b(bearer.encode("latin-1"), digest_size=16).digest()
        self.access: Access | None = None

    def authenticate(self) -> Access:
        """Look the credential up in the store; to be called in a thread. Raises Unauthorized."""
        if self.access is None:
            access = self._gate.authenticate(self.bearer)
            if access.is_stranger:
                self._admit_stranger(self.address)
            self.access = access
        return self.access


class UnreadAnswers:
    """Large answers on their way. When they get too many, whoever has most of them is let go, the oldest first."""

    def __init__(self) -> None:
        self._held: FairShares[Callable[[], None]] = FairShares()

    async def send(self, scope: Scope, send: Send, message: Message) -> None:
        """Send a large piece of a body in small ones, each when the one before is on its way."""
        body, is_more = message.get("body", b""), message.get("more_body", False)
        if len(body) <= wire.PIECE_BYTES:
            await send(message)
            return
        drop = scope["state"].get("drop", _keep)
        caller = scope["state"].get("caller")
        self._held.put(drop, caller.digest if caller else scope.get("client"), len(body))
        while self._held.total > UNREAD_BYTES_LIMIT and (
            other := self._held.evict(lambda each: each != drop)
        ):
            other()
        try:
            for at in range(0, len(body), wire.PIECE_BYTES):
                end = at + wire.PIECE_BYTES
                piece = {**message, "body": body[at:end], "more_body": is_more or end < len(body)}
                await send(piece)
        finally:
            self._held.remove(drop)


def _keep() -> None:
    """What stands for the end of a connection that only its server can end."""


class Guard:
    """ASGI middleware around all routes."""

    def __init__(self, app: ASGIApp, *, gate: Gate, tables: Tables, rules: Rules) -> None:
        self._app = app
        self._gate = gate
        self._tables = tables
        self._rules = rules
        self._hosts = LOOPBACK_NAMES | {_host_name(host) for host in rules.allowed_hosts}
        self._origins = frozenset(origin.rstrip("/").lower() for origin in rules.allowed_origins)
        self._requests = TokenBuckets(
            rate=rules.rate_limit, burst=rules.rate_limit * BURST_SECONDS, clock=rules.clock
        )
        self._unread = UnreadAnswers()
        self._strangers = TokenBuckets(
            rate=STRANGERS_RATE, burst=STRANGERS_BURST, clock=rules.clock
        )
        self._strangers_lock = threading.Lock()
        self._failures = TokenBuckets(rate=FAILURES_RATE, burst=FAILURES_BURST, clock=rules.clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            # 1008: policy violation. No route speaks WebSocket.
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        with request_span(scope["headers"]) as told:
            passage = Passage(
                scope, partial(self._unread.send, scope, send), SECURITY_HEADERS, told
            )
            await self._pass_on(passage, scope, receive)

    async def _pass_on(self, passage: Passage, scope: Scope, receive: Receive) -> None:
        try:
            self._check_host(scope)
            origin = self._check_origin(scope)
            if origin is not None:
                passage.extra = (*passage.extra, *_cors_headers(origin))
            if origin is not None and scope["method"] == "OPTIONS":
                await _send_preflight(passage.send)
                return
            receive = self._bounded(scope, receive)
            if self._tables.is_public(scope["path"]):
                await self._app(scope, receive, passage.send)
            else:
                await self._pass(scope, receive, passage.send)
        except wire.ClientGone:
            return
        except MemorandaError as error:
            if passage.is_started:
                raise
            if error.code in ("unavailable", "corrupt"):
                _log.error("%s: %s", error.code, error)
            await self._refuse(passage.send, scope, error)
        except Exception:
            if passage.is_started:
                raise
            _log.exception("unexpected failure in %s of %s", *reversed(passage.operation))
            unknown = MemorandaError("something went wrong; the server's log has the details")
            await self._refuse(passage.send, scope, unknown)

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        if self._tables.is_folder(scope["path"]):
            return receive
        return wire.bounded(
            receive,
            self._tables.standard_of(scope["path"]).body_factor * self._rules.max_body_bytes,
        )

    async def _refuse(self, send: Send, scope: Scope, error: MemorandaError) -> None:
        status, body = self._tables.standard_of(scope["path"]).refuse(error, scope["path"])
        challenge = ""
        if error.code == "unauthorized" and scope["path"] == self._rules.protected:
            where = f"{wire.base_url(scope)}{wire.PROTECTED_RESOURCE}{scope['path']}"
            challenge = f', resource_metadata="{where}", scope="{" ".join(DEFAULT_VERBS)}"'
        await wire.send_bytes(
            send, status, dump(body), wire.error_headers(error, status, challenge)
        )

    def _check_host(self, scope: Scope) -> None:
        """Against DNS rebinding: a name we do not go by means that a page's own domain was pointed at us."""
        if "*" in self._hosts:
            return
        name = _host_name(wire.header(scope, b"host") or "")
        if name in self._hosts:
            return
        # The address of this very connection cannot be rebound. It matters when listening on all addresses.
        server = scope.get("server")
        if server is not None and name == _host_name(str(server[0])) and _is_address(name):
            return
        raise ForbiddenScope(
            "this server does not answer to that Host; add its name to allowed_hosts"
        )

    def _check_origin(self, scope: Scope) -> str | None:
        """The origin if it is another one that was allowed; None for no browser and for our own pages."""
        origin = wire.header(scope, b"origin")
        if origin is None:
            return None
        if origin.lower() in self._origins:
            return origin
        if origin.lower() == f"{scope['scheme']}://{wire.header(scope, b'host') or ''}".lower():
            return None
        raise ForbiddenScope(
            "requests from that web origin are not allowed; add it to allowed_origins"
        )

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through to what needs a credential, and remember whether it held."""
        caller = self._admit(scope)
        scope.setdefault("state", {})["caller"] = caller
        try:
            await self._app(scope, receive, send)
        except Unauthorized:
            self._requests.forget(caller.digest)
            # Only who guesses waits: a good credential from the same address is let in, known before or not.
            if wait := self._failures.take(caller.address):
                raise RateLimited(retry_after_seconds=wait) from None
            raise
        if caller.access is not None and caller.digest not in self._requests:
            self._requests.take(caller.digest)

    def _admit(self, scope: Scope) -> Caller:
        client = scope.get("client")
        caller = Caller(
            self._gate, _bearer(scope), client[0] if client else "", self._admit_stranger
        )
        if caller.digest in self._requests and (wait := self._requests.take(caller.digest)):
            raise RateLimited(retry_after_seconds=wait)
        return caller

    def _admit_stranger(self, address: str) -> None:
        """Owners whom only an open door let in share what one address may do: new names are free. In any thread."""
        with self._strangers_lock:
            wait = self._strangers.take(address)
        if wait:
            raise RateLimited(retry_after_seconds=wait)


def _bearer(scope: Scope) -> str:
    scheme, _, bearer = (wire.header(scope, b"authorization") or "").partition(" ")
    bearer = bearer.strip()
    # RFC 9110 11.1: the scheme is case-insensitive.
    if scheme.lower() != "bearer" or not bearer:
        raise Unauthorized("send a credential: Authorization: Bearer <API key or capability token>")
    if len(bearer) > BEARER_CHARS_LIMIT:
        raise Unauthorized("the credential is longer than any we give out")
    return bearer


def _host_name(host: str) -> str:
    """A Host value without its port, in lower case; an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    if host.count(":") > 1:
        return host.lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _cors_headers(origin: str) -> tuple[wire.Header, ...]:
    return (
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", EXPOSED_HEADERS),
        (b"vary", b"Origin"),
    )


async def _send_preflight(send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": list(PREFLIGHT_HEADERS)})
    await send({"type": "http.response.body", "body": b""})
