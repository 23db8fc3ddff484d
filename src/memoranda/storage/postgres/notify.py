"""Commits of any node made known to all: a notification wakes, and the tables say what happened.

A node notifies after its commits, not within them: PostgreSQL lets only one transaction that notifies commit at a time,
and every commit would wait for every other's disk. One notification stands for all commits of a few milliseconds, and
says nothing but that there were some. One that is lost, with the node that was to send it or with a connection, costs
time and nothing else: everybody looks by himself, too, now and then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Final

import psycopg

from memoranda.errors import StoreUnavailable
from memoranda.storage.postgres.server import PostgresConnection, translated

# Known within one database. Without a payload: whoever may connect to it may listen.
_CHANNEL: Final = "memoranda_commits"
_NOTIFY: Final = f"SELECT pg_notify('{_CHANNEL}', '')"
# So long commits are gathered after a notification, before there is another.
_GATHER_SECONDS: Final = 0.005
# Without a notification: look so often; and where nobody can be notified, on a standby, so often.
LOOK_SECONDS: Final = 2.0
_STANDBY_SECONDS: Final = 0.05
# How long a wait for one may keep whoever does not want to wait any more.
_WAIT_SECONDS: Final = 0.25


class Announcer:
    """Notifies all nodes of commits of this one."""

    def __init__(self, ask: Callable[[str], object]) -> None:
        """`ask` runs a statement in a transaction of its own."""
        self._ask = ask
        self._has_news, self._is_closed = threading.Event(), threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def committed(self) -> None:
        """Something was; whoever says so does not wait."""
        self._has_news.set()
        with self._starting:
            if self._thread is None and not self._is_closed.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="memoranda-notify", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._has_news.wait()
            is_last = self._is_closed.is_set()
            self._has_news.clear()
            with suppress(StoreUnavailable):
                self._ask(_NOTIFY)
            self._is_closed.wait(_GATHER_SECONDS)

    def close(self) -> None:
        """Notify once more, of what came last."""
        self._is_closed.set()
        if self._thread is not None:
            self._has_news.set()
            self._thread.join()


def tokens(connect: Callable[[], PostgresConnection], token: Callable[[], int]) -> Generator[int]:
    """The token again and again, every LOOK_SECONDS; and another at once when there is a notification."""
    with translated():
        connection = connect()
        try:
            connection.command(f"LISTEN {_CHANNEL}")
            # What was committed before that nobody notifies of again.
            found, looked = token(), time.monotonic()
            while True:
                yield found
                is_told = any(
                    True for _ in connection.raw.notifies(timeout=_WAIT_SECONDS, stop_after=1)
                )
                if time.monotonic() - looked >= LOOK_SECONDS:
                    found, looked = token(), time.monotonic()
                elif is_told:
                    # Somebody has committed: to ask would tell no more. No token is negative.
                    found = min(found, 0) - 1
        finally:
            # It must not stay: what nobody reads would fill the queue of all.
            with suppress(psycopg.Error):
                connection.close()


def polled(token: Callable[[], int]) -> Generator[int]:
    """The same of a standby, which cannot be notified."""
    while True:
        time.sleep(_STANDBY_SECONDS)
        yield token()
