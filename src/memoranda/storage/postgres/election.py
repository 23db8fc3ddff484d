"""Which of several nodes does what only one is to do: the one that holds an advisory lock.

A lock is a session's, and goes with it: at once if the process is killed, after IDLE_SECONDS if it is only silent, as
one that hangs, or whose machine has lost its power. So two may believe for a moment that they have it; what is done is
claimed in the unit of work that does it, and the second finds it done.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Final

import psycopg

from memoranda.storage.postgres.server import PostgresConnection

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
