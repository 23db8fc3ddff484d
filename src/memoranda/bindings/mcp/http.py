"""MCP over streamable HTTP, as a route of the HTTP application, at `/mcp`.

The application authenticates every request, checks Host and Origin, and puts the caller's `Access` into
`scope["state"]["access"]`. Sessions (protocol versions up to 2025-11-25) are stateful, because notifications need
a stream; a session answers only to the credential that opened it. Since 2026-07-28 there are no sessions. Nor are
there any where several processes serve, because the next request may come to another of them.
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

from memoranda.bindings.mcp.late import PATH
from memoranda.bindings.mcp.offer import Offer
from memoranda.bindings.mcp.server import create_server
from memoranda.bindings.mcp.subscriptions import RequestContext
from memoranda.errors import InvalidInput, MemorandaError, Unauthorized
from memoranda.service.core.access import Access
from memoranda.service.core.limits import Shares
from memoranda.service.service import Service

# Each session holds a task and reads the feed when something changes.
SESSIONS_LIMIT: Final = 512
# Of one owner, whichever of its credentials opened them: nobody keeps the others out.
OWN_SESSIONS_LIMIT: Final = 64
# An agent left open over lunch keeps its session; one that went away without a word does not hold it for long.
IDLE_SECONDS: Final = 30 * 60
MAX_BODY_BYTES: Final = 2_097_152


class _Sessions(StreamableHTTPSessionManager):
    """Sessions of which each owner has a few. Who opens one more loses the oldest, and can open another any time."""

    def _admit_session(
        self, requestor: AuthorizationContext | None
    ) -> StreamableHTTPServerTransport | None:
        held: Shares[str] = Shares()
        for session_id, owner in self._session_owners.items():
            held.put(session_id, owner["subject"])
        mine = requestor["subject"] if requestor is not None else None
        if held.of(mine) >= OWN_SESSIONS_LIMIT:
            self._end(held.oldest_of(mine))
        elif len(held) >= SESSIONS_LIMIT:
            self._end(held.take())
        return super()._admit_session(requestor)

    def _end(self, session_id: str | None) -> None:
        assert session_id is not None
        transport = self._server_instances.pop(session_id)
        self._session_owners.pop(session_id)
        # The SDK's own, which it starts before it takes requests.
        running: TaskGroup = self._task_group  # type: ignore[assignment]
        running.start_soon(self._discard_session, session_id, transport)


class McpEndpoint:
    """The ASGI application at `/mcp`. Enter `running` in the lifespan of the application it is mounted in."""

    def __init__(
        self,
        service: Service,
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
        has_sessions: bool = True,
        offer: Offer | None = None,
    ) -> None:
        self._service = service
        self._offer = offer or Offer()
        # The streams on which sessions wait for notifications.
        self._standing: set[CancelScope] = set()
        self._server = create_server(service, _access_of, renewed=self._renewed, offer_of=_offer_of)
        self._manager = _Sessions(
            app=self._server,
            # None: Host and Origin are the outer application's business.
            security_settings=None,
            stateless=not has_sessions,
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=max_body_bytes,
            max_sessions=SESSIONS_LIMIT,
        )

    @property
    def routes(self) -> Sequence[BaseRoute]:
        return [Route(PATH, endpoint=self)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Once in the life of this object."""
        async with self._manager.run():
            yield

    def stop_streams(self) -> None:
        """End what would never end by itself. Call it, on the event loop, before waiting for running requests."""
        self._server.subscriptions.close()
        for leaving in tuple(self._standing):
            leaving.cancel()

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
            token="", client_id=_principal(access), scopes=[], subject=access.default_tenant
        )
        await self._serve({**scope, "user": AuthenticatedUser(token)}, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = False

        async def send_noting(message: Message) -> None:
            nonlocal is_open
            is_open = message.get("more_body", message["type"] == "http.response.start")
            await send(message)

        with CancelScope() as leaving:
            if scope["method"] == "GET":
                self._standing.add(leaving)
            try:
                await self._manager.handle_request(scope, receive, send_noting)
            finally:
                self._standing.discard(leaving)
        if is_open:
            # A session's stream that the server ends is broken off by the SDK; this ends it properly.
            await send({"type": "http.response.body", "body": b""})

    def _renewed(self, ctx: RequestContext) -> Access:
        """The access again, if the credential of the request that subscribed still holds. Raises Unauthorized."""
        access = _access_of(ctx)
        request = ctx.request
        assert isinstance(request, Request)
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        # Without a bearer the outer application knew the caller by other means, and vouches for it.
        return (
            self._service.gate.authenticate(bearer.strip())
            if scheme.lower() == "bearer"
            else access
        )


def _refuse(
    error: MemorandaError, status: int, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(
        {"error": {"code": error.code, "message": f"{error.code}: {error.message}"}},
        status,
        headers,
    )


def _offer_of(ctx: RequestContext) -> Offer:
    request = ctx.request
    assert isinstance(request, Request)
    offer = request.state.offer
    assert isinstance(offer, Offer)
    return offer


def _access_of(ctx: RequestContext) -> Access:
    request = ctx.request
    assert isinstance(request, Request)
    access = request.state.access
    assert isinstance(access, Access)
    return access


def _principal(access: Access) -> str:
    """Everything a credential stands for: a token's own name is chosen by its issuer, and may be someone else's."""
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
