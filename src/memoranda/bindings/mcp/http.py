"""MCP over streamable HTTP, as a route of the HTTP application, at `/mcp`.

The application authenticates every request, checks Host and Origin, and puts the caller's `Access` into
`scope["state"]["access"]`. Sessions (protocol versions up to 2025-11-25) are stateful, because notifications need
a stream; a session answers only to the credential that opened it. Since 2026-07-28 there are no sessions. There are
none either if several processes serve, because the next request may reach another process.

The SDK does the protocol; this module adds what the SDK does not have: a limit of sessions for each owner, the caller's
rights in every request of a session, and an end for streams at shutdown. A session never keeps rights: `_renew_access`
reads the credential again, so a revoked key ends a subscription.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from anyio import CancelScope
from anyio.abc import TaskGroup
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from memoranda.bindings.mcp.lazy import PATH
from memoranda.bindings.mcp.offer import ToolOffer
from memoranda.bindings.mcp.requests import RequestContext
from memoranda.bindings.mcp.server import create_server
from memoranda.errors import InvalidInput, MemorandaError, Unauthorized
from memoranda.measures import REQUEST_RECORD
from memoranda.service.core.access import Access
from memoranda.service.core.limits import FairShares
from memoranda.service.service import Service

# Sessions of all owners; each holds a task and reads the feed when something changes.
SESSIONS_LIMIT: Final = 512
# Sessions of one owner, over all of its credentials, so that no owner uses up the limit of all.
OWN_SESSIONS_LIMIT: Final = 64
# Seconds: an agent left open over lunch keeps its session; one that disappeared does not hold it for long.
IDLE_SECONDS: Final = 30 * 60
# Bytes of a request, as for the other routes by default.
MAX_BODY_BYTES: Final = 2_097_152


class _BoundedSessions(StreamableHTTPSessionManager):
    """A session manager with a limit for each owner. A new session beyond it ends the owner's oldest one."""

    def _admit_session(
        self, requestor: AuthorizationContext | None
    ) -> StreamableHTTPServerTransport | None:
        sessions: FairShares[str] = FairShares()
        for session_id, context in self._session_owners.items():
            sessions.put(session_id, context["subject"])
        owner = requestor["subject"] if requestor is not None else None
        if sessions.weight_of(owner) >= OWN_SESSIONS_LIMIT:
            self._end(sessions.oldest_of(owner))
        elif len(sessions) >= SESSIONS_LIMIT:
            self._end(sessions.evict())
        return super()._admit_session(requestor)

    def _end(self, session_id: str | None) -> None:
        assert session_id is not None
        transport = self._server_instances.pop(session_id)
        self._session_owners.pop(session_id)
        # The SDK's task group, which it starts before it accepts requests.
        group: TaskGroup = self._task_group  # type: ignore[assignment]
        group.start_soon(self._discard_session, session_id, transport)


class McpEndpoint:
    """The ASGI application at `/mcp`. Enter `running` in the lifespan of the application it is mounted in."""

    def __init__(
        self,
        service: Service,
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
        has_sessions: bool = True,
        offer: ToolOffer | None = None,
    ) -> None:
        self._service = service
        self._offer = offer or ToolOffer()
        # One for each stream on which a session waits for notifications.
        self._stream_scopes: set[CancelScope] = set()
        self._server = create_server(
            service, _access_of, renew_access=self._renew_access, offer_of=_offer_of
        )
        self._manager = _BoundedSessions(
            app=self._server,
            # None: the outer application checks Host and Origin.
            security_settings=None,
            stateless=not has_sessions,
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=max_body_bytes,
            max_sessions=SESSIONS_LIMIT,
        )

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """The one route of the endpoint."""
        return [Route(PATH, endpoint=self)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the sessions' tasks running. May be entered once in the life of this object."""
        async with self._manager.run():
            yield

    def stop_streams(self) -> None:
        """End streams that would never end. Call it on the event loop, before waiting for running requests."""
        self._server.subscriptions.close()
        for stream_scope in tuple(self._stream_scopes):
            stream_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        access = scope.get("state", {}).get("access")
        if not isinstance(access, Access):
            await _refuse(Unauthorized(), 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        try:
            scope["state"]["offer"] = self._offer.with_query(Request(scope).query_params)
        except InvalidInput as error:
            await _refuse(error, 400)(scope, receive, send)
            return
        # The SDK compares this user with the one that opened the session.
        token = AccessToken(
            token="", client_id=_caller_key(access), scopes=[], subject=access.default_tenant
        )
        await self._serve({**scope, "user": AuthenticatedUser(token)}, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the SDK handle a request. A stream can be ended by `stop_streams` meanwhile."""
        is_open = False

        async def send_and_note(message: Message) -> None:
            nonlocal is_open
            is_open = message.get("more_body", message["type"] == "http.response.start")
            await send(message)

        with CancelScope() as stream_scope:
            if scope["method"] == "GET":
                self._stream_scopes.add(stream_scope)
            try:
                await self._manager.handle_request(scope, receive, send_and_note)
            finally:
                self._stream_scopes.discard(stream_scope)
        if is_open:
            # The SDK leaves the body of a cancelled stream unfinished; the client must see its end.
            await send({"type": "http.response.body", "body": b""})

    def _renew_access(self, ctx: RequestContext) -> Access:
        """Return the subscriber's access again. Raises Unauthorized if its credential is no longer valid."""
        access = _access_of(ctx)
        request = ctx.request
        assert isinstance(request, Request)
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._service.gate.authenticate(bearer.strip())
        # Without a bearer token, the outer application authenticated the caller by other means.
        return access


def _refuse(
    error: MemorandaError, status: int, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(
        {"error": {"code": error.code, "message": f"{error.code}: {error.message}"}},
        status,
        headers,
    )


def _offer_of(ctx: RequestContext) -> ToolOffer:
    request = ctx.request
    assert isinstance(request, Request)
    offer = request.state.offer
    assert isinstance(offer, ToolOffer)
    return offer


def _access_of(ctx: RequestContext) -> Access:
    request = ctx.request
    assert isinstance(request, Request)
    # The task of a session has the context of the request that opened it; verbs are noted for this request.
    REQUEST_RECORD.set(getattr(request.state, "record", None))
    access = request.state.access
    assert isinstance(access, Access)
    return access


def _caller_key(access: Access) -> str:
    """Return a text that differs for any two callers with different rights.

    The name in a token alone would not do: its issuer chooses it, and may choose that of someone else.
    """
    return repr(
        (
            access.credential,
            access.actor,
            access.tenant,
            access.default_tenant,
            sorted(access.verbs),
            sorted(access.limits.items()),
            access.is_peer,
        )
    )
