"""Which of several nodes does what only one is to do: the one that holds an advisory lock.

A lock is a session's, and goes with it: at once if the process is killed, after IDLE_SECONDS if it is only silent, as
one that hangs, or whose machine has lost its power. So two may believe for a moment that they have it; what is done is
claimed in the unit of work that does it, and the second finds it done.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Final

import psycopg

from memoranda.errors import StoreUnavailable
from memoranda.storage.postgres.server import PostgresConnection, translated

IDLE_SECONDS: Final = 15
# Two stores may be in two schemas of one database.
_TRY: Final = "SELECT pg_try_advisory_lock(hashtext(current_schema()), :job::int)"
_LET_GO: Final = "SELECT pg_advisory_unlock(hashtext(current_schema()), :job::int)"


class Election:
    """The locks of this node, all of one session."""

    def __init__(self, connect: Callable[[], PostgresConnection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._session: PostgresConnection | None = None
        self._held: set[str] = set()

    def holds(self, job: str) -> bool:
        """Whether this node has the lock: it takes it if nobody has, and asks the server if the session is there."""
        with self._lock:
            had_session = self._session is not None
            found = self._ask("SELECT true" if job in self._held else _TRY, job)
            if had_session and self._session is None:
                # Cut off, perhaps because nothing was asked for a while: a new one tells who has the lock now.
                found = self._ask(_TRY, job)
            if found:
                self._held.add(job)
            return found

    def let_go(self, job: str) -> None:
        """Let another node have it."""
        with self._lock:
            if job in self._held:
                self._held.discard(job)
                self._ask(_LET_GO, job)

    def _ask(self, query: str, job: str) -> bool:
        """What the server answers; False if the session is lost, and all locks with it."""
        number = int.from_bytes(hashlib.blake2b(job.encode(), digest_size=4).digest(), signed=True)
        try:
            if self._session is None:
                self._session = self._connect()
                self._session.command(f"SET idle_session_timeout = '{IDLE_SECONDS}s'")
            ((found,),) = self._session.select(query, {"job": number})
        except psycopg.OperationalError:
            self._leave()
            return False
        return bool(found)

    def _leave(self) -> None:
        self._held.clear()
        if self._session is not None:
            self._session.close()
            self._session = None

    def close(self) -> None:
        """Let others do everything."""
        with self._lock:
            self._leave()


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
