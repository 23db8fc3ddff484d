"""Turns of what has everything read: few at once, whichever door asks, so that other threads serve who asks less."""

from __future__ import annotations

import threading
from typing import Any, Final

from memoranda.bindings.http.call import Call, Serve
from memoranda.errors import RateLimited
from memoranda.service.service import Service

LONG_LIMIT: Final = 2
# Of this process: the routes and the console share it.
ROOM: Final = threading.BoundedSemaphore(LONG_LIMIT)
BUSY: Final = "others are having everything read just now; try again"
BUSY_SECONDS: Final = 5.0


class Turn:
    """The right to have everything read, which few have at once; without a room everybody has it.

    It is given back when the answer is made, or when what it began is over.
    """

    def __init__(self, room: threading.BoundedSemaphore | None) -> None:
        self._room, self._held, self._is_passed_on = room, room, False
        self._is_taken = room is None
        self._lock = threading.Lock()

    def take(self, busy: str = BUSY) -> None:
        """Raises RateLimited, in these words, where others have it."""
        if self._is_taken:
            return
        if self._room is not None and not self._room.acquire(blocking=False):
            raise RateLimited(busy, retry_after_seconds=BUSY_SECONDS)
        self._is_taken = True

    def pass_on(self) -> None:
        """What was begun gives it back itself."""
        self._is_passed_on = True

    def leave(self) -> bool:
        """The answer is made; whether that is all."""
        if not self._is_passed_on:
            self.release()
        return not self._is_passed_on

    def release(self) -> None:
        with self._lock:
            held, self._held = (self._held, None) if self._is_taken else (None, self._held)
        if held is not None:
            held.release()


def in_turn(serve: Serve) -> Serve:
    """Return a function that serves a few calls at once. It raises RateLimited when others have all turns."""

    def serve_in_turn(service: Service, call: Call, request: Any) -> object:
        turn = Turn(ROOM)
        turn.take()
        try:
            return serve(service, call, request)
        finally:
            turn.leave()

    return serve_in_turn
