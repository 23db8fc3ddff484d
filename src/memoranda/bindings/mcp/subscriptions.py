"""Change notifications (UMP section 3.8 subscribe), for both eras of the protocol.

Up to 2025-11-25, each session follows the change feed from its handshake on. It is notified when the list of resources
changed, and of each resource that it subscribed to (`notifications/resources/updated`).
Since 2026-07-28, a `subscriptions/listen` request is answered by a stream of the changes that it lists.

The feed is the store's, so changes of any process arrive. A follower reads it with its own access and hears only of
memories it may see. Before each read it checks that its credential is still valid.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import anyio
import mcp_types as types
from anyio import to_thread
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)

from memoranda.bindings.mcp.requests import AccessOf, RequestContext, protocol_error, run_in_thread
from memoranda.bindings.mcp.resources import ResourceName, parse_uri
from memoranda.errors import MemorandaError, RateLimited, StoreUnavailable
from memoranda.service.core.access import Access
from memoranda.service.core.feed import ChangeEvent
from memoranda.service.service import Service

# Resources of one session or stream; each change is compared with all of them.
URIS_LIMIT: Final = 1_000
# Streams of all clients; each reads the feed when something changes.
STREAMS_LIMIT: Final = 512

# The key of our session in the state of a connection.
_SESSION_KEY: Final = "memoranda.session"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChanges:
    """The changes since the last read: watched resources that changed, and True if the list of memories did."""

    names: frozenset[ResourceName]
    is_list_changed: bool


# Returns the subscriber's current access. Raises an error if its credential is no longer valid.
RenewAccess = Callable[[], Access]
# Returns the resources that the subscriber watches at the moment.
WatchedNames = Callable[[], Set[ResourceName]]
Deliver = Callable[[ResourceChanges], Awaitable[None]]


def feed_start(service: Service, access: Access) -> int:
    """Return the position of the feed from which a new subscriber reads. Raises MemorandaError if it may not."""
    return service.feed_end(access, access.limits)


async def follow_feed(
    service: Service, renew: RenewAccess, after: int, watched: WatchedNames, deliver: Deliver
) -> None:
    """Deliver every change after a position, until cancelled or until the credential is refused."""
    is_written = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake() -> None:
        # Called from the notifier's thread, which may be in the middle of a round when the loop is closed.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(is_written.set)

    stop = service.notifier.listen(wake)
    try:
        while True:
            is_written.clear()
            try:
                changes, after = await to_thread.run_sync(
                    _read_changes, service, renew, after, frozenset(watched())
                )
            except StoreUnavailable as error:
                # The service is closing, so another attempt would fail, too.
                if service.notifier.is_closed:
                    return
                _log.warning("the change feed could not be read; trying again: %s", error)
            else:
                if changes.names or changes.is_list_changed:
                    await deliver(changes)
            await is_written.wait()
    except MemorandaError as error:
        _log.info("a subscription ended: %s", error)
    finally:
        stop()


def _read_changes(
    service: Service, renew: RenewAccess, after: int, watched: frozenset[ResourceName]
) -> tuple[ResourceChanges, int]:
    """Read the feed to its end. Return the changes, and the position for the next read."""
    access = renew()
    names: set[ResourceName] = set()
    is_list_changed = False
    while True:
        page = service.changes(access, access.limits, after)
        for event in page.events:
            # A merge confirms a memory that is listed already; every other change alters the list.
            is_list_changed = is_list_changed or event.type != "merged"
            names.update(name for name in _changed_names(event) if name in watched)
        after = page.next
        if page.is_last:
            return ResourceChanges(names=frozenset(names), is_list_changed=is_list_changed), after


def _changed_names(event: ChangeEvent) -> Iterator[ResourceName]:
    """Yield the resources that a change alters: the project, the memory, and versions that it closed or erased."""
    project = event.record["scope"].get("project", "")
    earlier_names = event.record.get("supersedes", ())
    # A new version closes only the last one; erasing removes all of them.
    for name in (
        "",
        event.id,
        *(earlier_names if event.type == "tombstoned" else earlier_names[:1]),
    ):
        yield ResourceName(project=project, id=name)


class _SubscribedSession:
    """The resources that one connection of the handshake era subscribed to."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.watched: dict[str, ResourceName] = {}
        # Set when the session follows the feed, or failed to.
        self.is_listening = anyio.Event()

    async def deliver(self, changes: ResourceChanges) -> None:
        """Notify the client of the changes that it subscribed to."""
        for uri, name in list(self.watched.items()):
            if name in changes.names:
                await self.connection.send_resource_updated(uri)
        if changes.is_list_changed:
            await self.connection.send_resource_list_changed()


class Subscriptions:
    """The handlers of subscribe, unsubscribe and listen."""

    def __init__(self, service: Service, access_of: AccessOf, renew_access: AccessOf) -> None:
        self._service = service
        self._access_of = access_of
        self._renew_access = renew_access
        self._streams: set[ListenHandler] = set()
        self._is_over = False

    async def session_started(self, ctx: RequestContext, _params: types.NotificationParams) -> None:
        """Handle the end of the handshake: a session that may read now hears of changes of the list."""
        if "read" in self._access_of(ctx).verbs:
            await self._session(ctx)

    async def subscribe(
        self, ctx: RequestContext, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Handle `resources/subscribe`."""
        name = _parse_request_uri(params.uri)
        session = await self._session(ctx)
        if len(session.watched) >= URIS_LIMIT and params.uri not in session.watched:
            raise protocol_error(RateLimited(f"a session may subscribe to {URIS_LIMIT} resources"))
        session.watched[params.uri] = name
        return types.EmptyResult()

    async def unsubscribe(
        self, ctx: RequestContext, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Handle `resources/unsubscribe`."""
        session = await self._session(ctx)
        session.watched.pop(params.uri, None)
        return types.EmptyResult()

    async def _session(self, ctx: RequestContext) -> _SubscribedSession:
        """Return the connection's session. The first call makes it follow the feed."""
        # The SDK has a dictionary for a connection's state and a stack for its end, but no public way to them yet.
        connection = ctx.session._connection
        while True:
            existing: _SubscribedSession | None = connection.state.get(_SESSION_KEY)
            if existing is None:
                break
            if existing.is_listening.is_set():
                return existing
            await existing.is_listening.wait()
        session = _SubscribedSession(connection)
        connection.state[_SESSION_KEY] = session
        try:
            after = await run_in_thread(feed_start, self._service, self._access_of(ctx))
        except BaseException:
            del connection.state[_SESSION_KEY]
            raise
        finally:
            session.is_listening.set()
        connection_scope = anyio.CancelScope()
        connection.exit_stack.callback(connection_scope.cancel)

        async def follow_until_closed() -> None:
            with connection_scope:
                await follow_feed(
                    self._service,
                    lambda: self._renew_access(ctx),
                    after,
                    lambda: set(session.watched.values()),
                    session.deliver,
                )

        ctx.lifespan_context.start_soon(follow_until_closed)
        return session

    async def listen(
        self, ctx: RequestContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Handle `subscriptions/listen`: acknowledge, then stream the requested changes until the client leaves."""
        uris = params.notifications.resource_subscriptions or []
        if len(uris) > URIS_LIMIT or len(self._streams) >= STREAMS_LIMIT or self._is_over:
            raise protocol_error(
                RateLimited(f"at most {URIS_LIMIT} resources, on at most {STREAMS_LIMIT} streams")
            )
        watched = {uri: _parse_request_uri(uri) for uri in uris}
        # The SDK's handler frames and filters. Each caller has a bus of its own, so that no change that only another
        # caller may see can reach it.
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus, max_subscriptions=1)
        self._streams.add(handler)

        async def deliver(changes: ResourceChanges) -> None:
            for uri, name in watched.items():
                if name in changes.names:
                    await bus.publish(ResourceUpdated(uri=uri))
            if changes.is_list_changed:
                await bus.publish(ResourcesListChanged())

        try:
            after = await run_in_thread(feed_start, self._service, self._access_of(ctx))
            async with anyio.create_task_group() as group:
                group.start_soon(
                    self._feed_stream, ctx, handler, after, set(watched.values()), deliver
                )
                result = await handler(ctx, params)
                group.cancel_scope.cancel()
        finally:
            self._streams.discard(handler)
        return result

    async def _feed_stream(
        self,
        ctx: RequestContext,
        handler: ListenHandler,
        after: int,
        names: set[ResourceName],
        deliver: Deliver,
    ) -> None:
        """Follow the feed for a stream, and close the stream when the credential is no longer valid."""
        await follow_feed(
            self._service, lambda: self._renew_access(ctx), after, lambda: names, deliver
        )
        handler.close()

    def close(self) -> None:
        """End every stream in good order, and refuse new ones."""
        self._is_over = True
        for handler in tuple(self._streams):
            handler.close()


def _parse_request_uri(uri: str) -> ResourceName:
    try:
        return parse_uri(uri)
    except MemorandaError as error:
        raise protocol_error(error) from None
