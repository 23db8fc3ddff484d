"""The guard: checks that every request passes before a route sees it, and the last step of every answer.

    Host, Origin     refuses requests of a web page that was led to our address (DNS rebinding, cross-site requests)
    credential       required except on public paths; routes authenticate `scope["state"]["caller"]` in the thread
                     they need anyway
    rate             per credential; per address for invalid credentials, and for owners that nobody registered
    length           of the body, up to the limit of the path's standard
    errors           written in the form of the path's standard; unexpected errors become a 500
    answer           gets security headers and a request id, is counted and logged

Plain ASGI, so that streams flow through.

Why one guard and not checks in routes: whatever a route forgets, the guard has done. It knows paths, headers and
limits, and nothing about memories. The order is on purpose: cheap checks that need no store come first, so that a flood
of bad requests costs little. The credential itself is verified in the thread that serves the request, because that
reads the store.

When you add a header that a browser may send, add it to ALLOWED_HEADERS; one that it may read, to EXPOSED_HEADERS. An
error that is raised before the answer has begun is answered in the form of the path's standard; after that, the
connection is closed.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.limits import TokenBuckets
from memoranda.bindings.http.operation import OperationTables
from memoranda.bindings.http.threads import CALLER_KEY
from memoranda.encoding.json_text import dump
from memoranda.errors import ForbiddenScope, InvalidInput, MemorandaError, RateLimited, Unauthorized
from memoranda.measures import (
    HTTP_REQUESTS,
    HTTP_SECONDS,
    REQUEST_ID,
    REQUEST_RECORD,
    RequestRecord,
    RequestSpan,
    request_span,
)
from memoranda.service.core.access import Access, Gate
from memoranda.service.core.limits import FairShares
from memoranda.service.core.sign_in import DEFAULT_VERBS

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

# Seconds of the rate that a client may use at once after a pause, so that short bursts pass.
BURST_SECONDS = 2.0
# Invalid credentials per second and address: stops a program that guesses, not a person who mistypes.
FAILURES_RATE, FAILURES_BURST = 20.0, 40.0
# Requests per second and address of all owners that only open registration admits.
STRANGERS_RATE, STRANGERS_BURST = 20.0, 100.0
# Bytes of answers that clients have not read yet, of all callers.
UNREAD_BYTES_LIMIT = 64 * 1_048_576
# Characters of a credential: the longest capability token with a margin. Longer ones are refused before hashing.
BEARER_CHARS_LIMIT = 8192

SECURITY_HEADERS: tuple[wire.Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)
ALLOWED_HEADERS = (
    b"authorization, content-type, if-match, if-none-match, last-event-id, x-cal-token, x-oams-consent, x-request-id, "
    b"idempotency-key, openwop-client-version, openwop-dedup, openwop-version, "
    b"mcp-method, mcp-name, mcp-protocol-version, mcp-session-id"
)
PREFLIGHT_HEADERS: tuple[wire.Header, ...] = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", ALLOWED_HEADERS),
    (b"access-control-max-age", b"600"),
    # Browsers ask for this before a public page may call an address of the local machine.
    (b"access-control-allow-private-network", b"true"),
)
EXPOSED_HEADERS = (
    b"etag, mcp-session-id, openwop-idempotent-replay, openwop-version, "
    b"retry-after, www-authenticate, x-memoranda-warning, x-oams-warning, "
    b"x-request-id, x-oms-address, x-oms-superseded-by, x-oms-system-valid-to, x-oms-verification-status"
)

_log = logging.getLogger(__name__)
# Ids that another system may have given a request; anything else is replaced by an id of ours.
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
# Credentials as the access log names them: a kind and an id, never a secret.
_CREDENTIAL: Final = re.compile(r"[a-z]{1,16}(:[A-Za-z0-9._-]{1,80})?", re.ASCII)
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")
# First parts of paths that are no operations of a standard; they are counted under this name.
_PARTS: Final = frozenset(("mcp", "console", "oauth"))
# One line per request, if the log level asks for them.
_request_log = logging.getLogger("memoranda.requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of the guard.

    `rate_limit` is in requests per second for each credential, `max_body_bytes` in bytes. `clock` is monotonic.
    """

    # The names under which requests may address the server, with the address that it listens on.
    allowed_hosts: Collection[str] = ("127.0.0.1",)
    allowed_origins: Collection[str] = ()
    # Requests per second of one credential.
    rate_limit: float = 5_000
    max_body_bytes: int = 2_097_152
    # Returns monotonic seconds.
    clock: Callable[[], float] = time.monotonic
    # The path on which 401 says how a program gets a credential, and with which scopes (RFC 9728 5.1).
    protected: str | None = None

    def __post_init__(self) -> None:
        if self.rate_limit <= 0 or self.max_body_bytes <= 0:
            raise InvalidInput("rate_limit and max_body_bytes must be more than 0")


def _percent_encode(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match.group()[0]


class Caller:
    """A credential, and the access that it turned out to give.

    `digest` stands for the credential in limits and counts, so that the text of a key is in no table.
    """

    __slots__ = ("_admit_stranger", "_gate", "access", "address", "bearer", "digest")

    def __init__(
        self, gate: Gate, bearer: str, address: str, admit_stranger: Callable[[str], None]
    ) -> None:
        self._gate = gate
        self._admit_stranger = admit_stranger
        self.bearer = bearer
        self.address = address
        # Secrets must not be keys of a table.
        self.digest = hashlib.blake2b(bearer.encode("latin-1"), digest_size=16).digest()
        self.access: Access | None = None

    def authenticate(self) -> Access:
        """Return the access of the credential, read from the store once. Call it in a thread. Raises Unauthorized."""
        if self.access is None:
            access = self._gate.authenticate(self.bearer, is_request=True)
            if access.is_stranger:
                self._admit_stranger(self.address)
            self.access = access
        return self.access


def _caller_key(scope: Scope) -> bytes:
    """Return a digest of what tells callers apart: the credential, else the cookies, else the address."""
    credential = wire.read_header(scope, b"authorization") or wire.read_header(scope, b"cookie")
    client = scope.get("client")
    text = credential or (client[0] if client else "")
    return hashlib.blake2b(text.encode("latin-1", "replace"), digest_size=16).digest()


class UnreadAnswers:
    """Large answers that are being sent. If they use too much memory, the caller who uses most loses its oldest one."""

    def __init__(self) -> None:
        self._answers: FairShares[Callable[[], None]] = FairShares()

    async def send(self, scope: Scope, send: Send, message: Message) -> None:
        """Send a large part of a body in chunks, each when the connection accepted the one before."""
        body, is_more = message.get("body", b""), message.get("more_body", False)
        if len(body) <= wire.CHUNK_BYTES:
            await send(message)
            return
        drop = scope["state"].get("drop", _do_not_drop)
        caller = scope["state"].get("caller")
        self._answers.put(drop, caller.digest if caller else scope.get("client"), len(body))
        while self._answers.total > UNREAD_BYTES_LIMIT:
            drop_other = self._answers.evict(lambda candidate: candidate != drop)
            if drop_other is None:
                break
            drop_other()
        try:
            for at in range(0, len(body), wire.CHUNK_BYTES):
                end = at + wire.CHUNK_BYTES
                has_more = is_more or end < len(body)
                await send({**message, "body": body[at:end], "more_body": has_more})
        finally:
            self._answers.remove(drop)


def _do_not_drop() -> None:
    """Do nothing: stands for dropping a connection that only its server can end."""


class ResponseSender:
    """Sends the answer of one request: adds headers, counts and logs it.

    The id of a request is the client's, if it is harmless, or a new one; it is in the answer and in the log.
    """

    def __init__(self, scope: Scope, send: Send, span: RequestSpan, gate: Gate) -> None:
        self.is_started = False
        self.extra = SECURITY_HEADERS
        self._scope, self._send, self._span, self._gate = scope, send, span, gate
        self._status = 0
        self._record = RequestRecord() if _request_log.isEnabledFor(logging.INFO) else None
        self._began = perf_counter()
        # Not secret, so the system's generator is not needed: a call of it lets another thread take the interpreter.
        self.request_id = _request_id(scope) or f"{random.getrandbits(64):016x}"
        REQUEST_ID.set(self.request_id)
        REQUEST_RECORD.set(self._record)
        # Handlers that run outside of this context, such as those of MCP's sessions, find it here.
        scope.setdefault("state", {})["record"] = self._record

    async def send(self, message: Message) -> None:
        """Send a message of the application, with the headers of every answer."""
        if message["type"] == "http.response.start":
            self.is_started = True
            self._status = message["status"]
            self._count(self._status)
            headers = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            extra = (*self.extra, *self._scope["state"].get("answer_headers", ()))
            headers += [item for item in extra if item[0] not in present]
            headers.append((b"x-request-id", self.request_id.encode("ascii")))
            message = {**message, "headers": headers}
        await self._send(message)

    @property
    def operation(self) -> tuple[str, str]:
        """The standard and the name of the operation, as far as the request got."""
        operation: tuple[str, str] | None = self._scope.get("state", {}).get("operation")
        if operation is not None:
            return operation
        # The path of "OPTIONS *" has no slash.
        part = self._scope["path"].partition("/")[2].partition("/")[0]
        return (part, part) if part in _PARTS else ("none", "none")

    def _count(self, status: int) -> None:
        """Count and trace the request."""
        seconds = perf_counter() - self._began
        standard, operation = self.operation
        HTTP_REQUESTS.add(standard, operation, str(status))
        HTTP_SECONDS.observe(seconds, standard, operation)
        self._span.finish(self._scope["method"], standard, operation, status)

    def log(self) -> None:
        """Write the line of the access log, once the answer is complete: the caller and the verbs, and no content."""
        record = self._record
        if record is None:
            return
        standard, operation = self.operation
        fields: dict[str, Any] = {
            "standard": standard,
            "operation": operation,
            "status": self._status,
            "ms": round((perf_counter() - self._began) * 1000, 3),
        }
        caller: Caller | None = self._scope.get("state", {}).get("caller")
        access = caller.access if caller is not None else None
        credential = record.credential or (access.credential if access else "")
        tenant = record.tenant or (access.default_tenant if access else "")
        fields |= {
            # The id of a token is chosen by its signer.
            "caller": credential if _CREDENTIAL.fullmatch(credential) else "",
            "owner": self._gate.fingerprint_owner(tenant) if tenant else "",
            "verbs": record.verbs,
        }
        _request_log.info(
            "%s %s %d %.3f ms caller=%s owner=%s verbs=%s",
            *(fields[name] for name in ("standard", "operation", "status", "ms")),
            fields["caller"] or "-",
            fields["owner"] or "-",
            ",".join(record.verbs) or "-",
            extra={"told": fields},
        )


def _request_id(scope: Scope) -> str | None:
    """Return the id that the client gave the request; None if there is none, or it is not acceptable."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            return text if _REQUEST_ID.fullmatch(text) else None
    return None


class Guard:
    """ASGI middleware around all routes."""

    def __init__(self, app: ASGIApp, *, gate: Gate, tables: OperationTables, rules: Rules) -> None:
        self._app = app
        self._gate = gate
        self._tables = tables
        self._rules = rules
        self._hosts = LOOPBACK_NAMES | {_strip_port(host) for host in rules.allowed_hosts}
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
            if not scope["query_string"].isascii():
                # Some clients send such bytes unencoded, and libraries behind the guard read only ASCII.
                encoded_query = _NOT_ASCII.sub(_percent_encode, scope["query_string"])
                scope = {**scope, "query_string": encoded_query}
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            # 1008: policy violation. No route speaks WebSocket.
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within its span."""
        with request_span(scope["headers"]) as span:
            sender = ResponseSender(
                scope, partial(self._unread.send, scope, send), span, self._gate
            )
            try:
                await self._check_and_serve(sender, scope, receive)
            finally:
                sender.log()

    async def _check_and_serve(
        self, sender: ResponseSender, scope: Scope, receive: Receive
    ) -> None:
        """Check a request and serve it. Errors before the start of the answer are answered here."""
        try:
            self._check_host(scope)
            origin = self._check_origin(scope)
            if origin is not None:
                sender.extra = (*sender.extra, *_cors_headers(origin))
            if origin is not None and scope["method"] == "OPTIONS":
                await _send_preflight(sender.send)
                return
            negotiate = self._tables.standard_for(scope).negotiate
            if negotiate is not None:
                negotiate(scope)
            receive = self._limit_body(scope, receive)
            CALLER_KEY.set(_caller_key(scope))
            if self._tables.is_public(scope["path"]):
                await self._app(scope, receive, sender.send)
            else:
                await self._serve_authenticated(scope, receive, sender.send)
        except wire.ClientGone:
            return
        except MemorandaError as error:
            if sender.is_started:
                raise
            if error.code in ("unavailable", "corrupt"):
                _log.error("%s: %s", error.code, error)
            await self._refuse(sender.send, scope, error)
        except Exception:
            if sender.is_started:
                raise
            _log.exception("unexpected failure in %s of %s", *reversed(sender.operation))
            unknown = MemorandaError("something went wrong; the server's log has the details")
            await self._refuse(sender.send, scope, unknown)

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        """Return `receive` with the limit of the path's standard. Routes in open folders limit bodies themselves."""
        if self._tables.is_folder(scope["path"]):
            return receive
        return wire.limit_body(
            receive,
            self._tables.standard_of(scope["path"]).body_factor * self._rules.max_body_bytes,
        )

    async def _refuse(self, send: Send, scope: Scope, error: MemorandaError) -> None:
        status, body = self._tables.standard_for(scope).refuse(error, scope["path"])
        challenge = ""
        if error.code == "unauthorized" and scope["path"] == self._rules.protected:
            metadata = f"{wire.base_url(scope)}{wire.PROTECTED_RESOURCE}{scope['path']}"
            challenge = f', resource_metadata="{metadata}", scope="{" ".join(DEFAULT_VERBS)}"'
        await wire.send_bytes(
            send, status, dump(body), wire.error_headers(error, status, challenge)
        )

    def _check_host(self, scope: Scope) -> None:
        """Raise ForbiddenScope for a Host that is not ours: a page may have led its domain to us (DNS rebinding)."""
        if "*" in self._hosts:
            return
        name = _strip_port(wire.read_header(scope, b"host") or "")
        if name in self._hosts:
            return
        # The address of this very connection cannot be rebound. It matters when listening on all addresses.
        server = scope.get("server")
        if server is not None and name == _strip_port(str(server[0])) and _is_address(name):
            return
        raise ForbiddenScope(
            "this server does not answer to that Host; add its name to allowed_hosts"
        )

    def _check_origin(self, scope: Scope) -> str | None:
        """Return the origin of an allowed foreign page; None without a browser and for our own pages.

        Requests of our own pages and of programs have no foreign origin.
        """
        origin = wire.read_header(scope, b"origin")
        if origin is None:
            return None
        if origin.lower() in self._origins:
            return origin
        if (
            origin.lower()
            == f"{scope['scheme']}://{wire.read_header(scope, b'host') or ''}".lower()
        ):
            return None
        raise ForbiddenScope(
            "requests from that web origin are not allowed; add it to allowed_origins"
        )

    async def _serve_authenticated(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a path that needs a credential, and count the request for the credential or for the address."""
        caller = self._admit(scope)
        scope.setdefault("state", {})["caller"] = caller
        try:
            await self._app(scope, receive, send)
        except Unauthorized:
            self._requests.forget(caller.digest)
            # Only invalid credentials wait: a valid one from the same address is admitted, even if it is new.
            wait = self._failures.take(caller.address)
            if wait:
                raise RateLimited(retry_after_seconds=wait) from None
            raise
        if caller.access is not None and caller.digest not in self._requests:
            self._requests.take(caller.digest)

    def _admit(self, scope: Scope) -> Caller:
        """Return the caller of a request. Raises RateLimited if the credential makes too many.

        A credential that was valid a moment ago has its own bucket; others share that of their address, so that
        guessing keys is slow.
        """
        client = scope.get("client")
        caller = Caller(
            self._gate, _read_bearer(scope), client[0] if client else "", self._admit_stranger
        )
        if caller.digest in self._requests:
            wait = self._requests.take(caller.digest)
            if wait:
                raise RateLimited(retry_after_seconds=wait)
        return caller

    def _admit_stranger(self, address: str) -> None:
        """Count a request of an owner that only open registration admits. Raises RateLimited. May run in any thread.

        Such owners share the limit of their address, because a new name costs nothing.
        """
        with self._strangers_lock:
            wait = self._strangers.take(address)
        if wait:
            raise RateLimited(retry_after_seconds=wait)


def _read_bearer(scope: Scope) -> str:
    """Return the credential of a request. Raises Unauthorized."""
    scheme, _, bearer = (wire.read_header(scope, b"authorization") or "").partition(" ")
    bearer = bearer.strip()
    # RFC 9110 11.1: the scheme is case-insensitive.
    if scheme.lower() != "bearer" or not bearer:
        raise Unauthorized("send a credential: Authorization: Bearer <API key or capability token>")
    if len(bearer) > BEARER_CHARS_LIMIT:
        raise Unauthorized("the credential is longer than any we give out")
    return bearer


def _strip_port(host: str) -> str:
    """Return a Host value without its port, in lower case; an IPv6 address without its brackets."""
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
