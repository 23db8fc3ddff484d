"""Change notifications (UMP section 3.8 subscribe), for both eras of the protocol.

Up to 2025-11-25: each session follows the feed from its handshake on. It is told when the list of resources
changed, and, for what it subscribed to, `notifications/resources/updated`.
Since 2026-07-28: a `subscriptions/listen` request is answered by a stream of what it asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)

from memoranda.bindings.mcp.answers import answered, protocol_error
from memoranda.bindings.mcp.resources import Place, place_of
from memoranda.bindings.mcp.watch import Changed, Deliver, follow, start
from memoranda.errors import MemorandaError, RateLimited
from memoranda.service.core.access import Access
from memoranda.service.service import Service

RequestContext = ServerRequestContext[TaskGroup, Any]
AccessOf = Callable[[RequestContext], Access]

# Each one is compared with each change.
URIS_LIMIT: Final = 1_000
# Each one reads the feed when something changes.
STREAMS_LIMIT: Final = 512

_SESSION: Final = "memoranda.session"


class _Session:
    """What one handshake-era connection wants to hear of."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.wanted: dict[str, Place] = {}
        # Set once it follows the feed, or cannot.
        self.ready = anyio.Event()

    async def deliver(self, changed: Changed) -> None:
        for uri, place in list(self.wanted.items()):
            if place in changed.places:
                await self.connection.send_resource_updated(uri)
        if changed.listing:
            await self.connection.send_resource_list_changed()


class Subscriptions:
    """Serves subscribe, unsubscribe and listen."""

    def __init__(self, service: Service, access_of: AccessOf, renewed: AccessOf) -> None:
        self._service = service
        self._access_of = access_of
        self._renewed = renewed
        self._streams: set[ListenHandler] = set()
        self._is_over = False

    async def session_started(self, ctx: RequestContext, _params: types.NotificationParams) -> None:
        """The handshake is over: from now on the session hears when the list changes, if it may read at all."""
        if "read" in self._access_of(ctx).verbs:
            await self._session(ctx)

    async def subscribe(
        self, ctx: RequestContext, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        place = _place(params.uri)
        session = await self._session(ctx)
        if len(session.wanted) >= URIS_LIMIT and params.uri not in session.wanted:
            raise protocol_error(RateLimited(f"a session may subscribe to {URIS_LIMIT} resources"))
        session.wanted[params.uri] = place
        return types.EmptyResult()

    async def unsubscribe(
        self, ctx: RequestContext, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        session = await self._session(ctx)
        session.wanted.pop(params.uri, None)
        return types.EmptyResult()

    async def _session(self, ctx: RequestContext) -> _Session:
        """The connection's session, following the feed from the first time on."""
        # The SDK keeps a place for a connection's state and its end, but offers no public way to them yet.
        connection = ctx.session._connection
        while True:
            known: _Session | None = connection.state.get(_SESSION)
            if known is None:
                break
            if known.ready.is_set():
                return known
            await known.ready.wait()
        session = _Session(connection)
        connection.state[_SESSION] = session
        try:
            after = await answered(start, self._service, self._access_of(ctx))
        except BaseException:
            del connection.state[_SESSION]
            raise
        finally:
            session.ready.set()
        ended = anyio.CancelScope()
        connection.exit_stack.callback(ended.cancel)

        async def run() -> None:
            with ended:
                await follow(
                    self._service,
                    lambda: self._renewed(ctx),
                    after,
                    lambda: set(session.wanted.values()),
                    session.deliver,
                )

        ctx.lifespan_context.start_soon(run)
        return session

    async def listen(
        self, ctx: RequestContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """One stream: acknowledged first, then every change it asked for, until the client leaves."""
        asked = params.notifications.resource_subscriptions or []
        if len(asked) > URIS_LIMIT or len(self._streams) >= STREAMS_LIMIT or self._is_over:
            raise protocol_error(
                RateLimited(f"at most {URIS_LIMIT} resources, on at most {STREAMS_LIMIT} streams")
            )
        wanted = {uri: _place(uri) for uri in asked}
        # The SDK's handler does the framing and filtering; the bus is this caller's own, so that nothing which
        # another one may see can reach it.
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus, max_subscriptions=1)
        self._streams.add(handler)

        async def deliver(changed: Changed) -> None:
            for uri, place in wanted.items():
                if place in changed.places:
                    await bus.publish(ResourceUpdated(uri=uri))
            if changed.listing:
                await bus.publish(ResourcesListChanged())

        try:
            after = await answered(start, self._service, self._access_of(ctx))
            async with anyio.create_task_group() as group:
                group.start_soon(self._feed, ctx, handler, after, set(wanted.values()), deliver)
                result = await handler(ctx, params)
                group.cancel_scope.cancel()
        finally:
            self._streams.discard(handler)
        return result

    async def _feed(
        self,
        ctx: RequestContext,
        handler: ListenHandler,
        after: int,
        places: set[Place],
        deliver: Deliver,
    ) -> None:
        await follow(self._service, lambda: self._renewed(ctx), after, lambda: places, deliver)
        # The credential does not hold any more.
        handler.close()

    def close(self) -> None:
        """End every stream in good order, and begin none."""
        self._is_over = True
        for handler in tuple(self._streams):
            handler.close()


def _place(uri: str) -> Place:
    try:
        return place_of(uri)
    except MemorandaError as error:
        raise protocol_error(error) from None
