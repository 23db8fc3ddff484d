"""A client that waits for the store: no thread is held meanwhile, and every send has a limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from starlette.types import Receive, Send

from memoranda.errors import MemorandaError
from memoranda.measures import FEED_LAG, STREAMS
from memoranda.service.service import Service

# A client that does not read for so long is not listening any more.
SEND_SECONDS_LIMIT: Final = 30.0


class Listener:
    """Woken by what any process writes; over when its client goes away or the server stops."""

    def __init__(self, service: Service) -> None:
        self.is_over = False
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        # When the first change was noticed that was not looked at, and of those that are being looked at; 0: none.
        self._rung = self._behind = 0.0

    def stop(self) -> None:
        """End it."""
        self.is_over = True
        self._wake.set()

    def listen(self) -> Callable[[], None]:
        """Begin to be woken; returns the function that ends it."""
        stop = self._service.notifier.listen(self._ring)
        STREAMS.add()

        def end() -> None:
            stop()
            STREAMS.add(amount=-1)

        return end

    def _ring(self) -> None:
        # Called from the notifier's thread; at the very end the loop may be closed already.
        self._rung = self._rung or time.perf_counter()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake.set)

    async def watch(self, receive: Receive) -> None:
        """Stop when the client goes away. One that sends a body over the limit is none we go on talking to."""
        with suppress(MemorandaError):
            while (await receive())["type"] != "http.disconnect":
                pass
        self.stop()

    def look(self) -> None:
        """What is read from now on covers what has rung so far."""
        self._behind, self._rung = self._behind or self._rung, 0.0
        self._wake.clear()

    async def is_woken(self, deadline: float) -> bool:
        """Wait for news; False at a moment of the loop's clock, which others' changes must not put off."""
        # Whoever waits for more was sent all that was looked at.
        if self._behind:
            FEED_LAG.observe(time.perf_counter() - self._behind)
            self._behind = 0.0
        try:
            async with asyncio.timeout_at(deadline):
                await self._wake.wait()
        except TimeoutError:
            return False
        return self._loop.time() < deadline

    async def send(self, send: Send, data: bytes) -> None:
        """Send some of the body. Raises TimeoutError when the client does not read."""
        async with asyncio.timeout(SEND_SECONDS_LIMIT):
            await send({"type": "http.response.body", "body": data, "more_body": True})
