"""`/mcp` in a server that loads it at the first request.

The SDK takes as long to load as everything else that a server needs, and many servers get no request for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from anyio import TASK_STATUS_IGNORED, Event, Lock, create_task_group, to_thread
from anyio.abc import TaskGroup, TaskStatus
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

if TYPE_CHECKING:
    from memoranda.bindings.mcp.http import McpEndpoint

PATH: Final = "/mcp"


class LazyEndpoint:
    """The ASGI application at `/mcp`. Enter `running` in the lifespan of the application it is mounted in."""

    def __init__(self, make: Callable[[], McpEndpoint]) -> None:
        self._make = make
        self._endpoint: McpEndpoint | None = None
        # Created in `running`, because they belong to its event loop.
        self._starting: Lock
        self._stop_event: Event
        self._tasks: TaskGroup

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """The one route of the endpoint."""
        return [Route(PATH, endpoint=self)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the endpoint's tasks running. May be entered once in the life of this object."""
        self._starting, self._stop_event = Lock(), Event()
        async with create_task_group() as self._tasks:
            try:
                yield
            finally:
                self._stop_event.set()

    def stop_streams(self) -> None:
        """End streams that would never end. Call it on the event loop, before waiting for running requests."""
        if self._endpoint is not None:
            self._endpoint.stop_streams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._endpoint is None:
            async with self._starting:
                if self._endpoint is None:
                    self._endpoint = await self._tasks.start(self._run)
        await self._endpoint(scope, receive, send)

    async def _run(self, *, task_status: TaskStatus[McpEndpoint] = TASK_STATUS_IGNORED) -> None:
        """Load the endpoint and run it until the server ends. One task enters and leaves its task group."""
        endpoint = await to_thread.run_sync(self._make)
        async with endpoint.running():
            task_status.started(endpoint)
            await self._stop_event.wait()
