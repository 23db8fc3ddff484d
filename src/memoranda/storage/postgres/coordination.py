"""Coordination of the processes (nodes) that share a store on PostgreSQL: elections, and notifications of commits.

Elections. The node that holds an advisory lock does the jobs that only one node should do. A lock belongs to a session
and ends with it: at once if the process is killed, after SESSION_IDLE_SECONDS if it is only silent, because it hangs or
its machine lost power. So two nodes may believe for a moment that they hold the lock. That does no harm: work is
claimed in the unit of work that does it, and the second node finds it done.

Notifications. A notification wakes the other nodes, and the tables say what happened. A node notifies after its
commits, not within them: PostgreSQL commits only one notifying transaction at a time, so every commit would wait for
every other's disk. One notification stands for all commits of a few milliseconds and carries no payload. If one is
lost, with its node or with a connection, only time is lost: every node also reads the tables every LOOK_SECONDS.
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
from memoranda.storage.postgres.server import PostgresConnection, postgres_errors

# Seconds without a query after which the server ends the session of an election, and so frees its locks. The holder
# queries more often than that.
SESSION_IDLE_SECONDS: Final = 15
# Two stores may be in two schemas of one database, so the schema is part of the lock.
_TRY_LOCK: Final = "SELECT pg_try_advisory_lock(hashtext(current_schema()), :job::int)"
_UNLOCK: Final = "SELECT pg_advisory_unlock(hashtext(current_schema()), :job::int)"

# A channel is known within one database. No payload: everyone who may connect to the database may listen.
_CHANNEL: Final = "memoranda_commits"
_NOTIFY: Final = f"SELECT pg_notify('{_CHANNEL}', '')"
# Seconds between two notifications of a node: commits in between share the second one.
_GATHER_SECONDS: Final = 0.005
# Seconds between two reads of the change token without a notification: a notification may be lost.
LOOK_SECONDS: Final = 2.0
# Seconds between two reads of the change token on a standby, which cannot be notified.
_STANDBY_SECONDS: Final = 0.05
# Seconds that one wait for a notification may last: a caller that stops is delayed by up to this time.
_WAIT_SECONDS: Final = 0.25


class Election:
    """The advisory locks of this node, all held by one session.

    All locks of a node are in one session, so they are lost together. Jobs are named by text; the lock is a hash of it.
    A collision of two jobs would only make one node do both.
    """

    def __init__(self, connect: Callable[[], PostgresConnection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._session: PostgresConnection | None = None
        self._elected_jobs: set[str] = set()

    def is_elected(self, job: str) -> bool:
        """Return True if this node holds the lock of a job. Takes the lock if it is free, and checks the session."""
        with self._lock:
            had_session = self._session is not None
            is_elected = self._query("SELECT true" if job in self._elected_jobs else _TRY_LOCK, job)
            if had_session and self._session is None:
                # The server ended the session, perhaps because it was idle: try to take the lock in a new one.
                is_elected = self._query(_TRY_LOCK, job)
            if is_elected:
                self._elected_jobs.add(job)
            return is_elected

    def resign(self, job: str) -> None:
        """Release the lock of a job, so that another node can take it."""
        with self._lock:
            if job in self._elected_jobs:
                self._elected_jobs.discard(job)
                self._query(_UNLOCK, job)

    def _query(self, query: str, job: str) -> bool:
        """Run a query about a lock; return False if the session is lost, and with it all locks."""
        number = int.from_bytes(hashlib.blake2b(job.encode(), digest_size=4).digest(), signed=True)
        try:
            if self._session is None:
                self._session = self._connect()
                self._session.command(f"SET idle_session_timeout = '{SESSION_IDLE_SECONDS}s'")
            ((answer,),) = self._session.select(query, {"job": number})
        except psycopg.OperationalError:
            self._end_session()
            return False
        return bool(answer)

    def _end_session(self) -> None:
        self._elected_jobs.clear()
        if self._session is not None:
            self._session.close()
            self._session = None

    def close(self) -> None:
        """Release all locks."""
        with self._lock:
            self._end_session()


class Announcer:
    """A thread that notifies all nodes of this node's commits."""

    def __init__(self, execute: Callable[[str], object]) -> None:
        """Prepare the thread; `execute` runs a statement in a transaction of its own."""
        self._execute = execute
        self._has_commits, self._is_closed = threading.Event(), threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def announce_commit(self) -> None:
        """Notify the other nodes of a commit soon; return at once."""
        self._has_commits.set()
        with self._starting:
            if self._thread is None and not self._is_closed.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="memoranda-notify", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._has_commits.wait()
            is_last = self._is_closed.is_set()
            self._has_commits.clear()
            with suppress(StoreUnavailable):
                self._execute(_NOTIFY)
            self._is_closed.wait(_GATHER_SECONDS)

    def close(self) -> None:
        """Notify once more, of the last commits, and end the thread."""
        self._is_closed.set()
        if self._thread is not None:
            self._has_commits.set()
            self._thread.join()


def watch_notifications(
    connect: Callable[[], PostgresConnection], read_token: Callable[[], int]
) -> Generator[int]:
    """Yield the change token every LOOK_SECONDS, and a different number at once after each notification.

    The yielded numbers have no meaning but that they differ. The token itself is read every LOOK_SECONDS, which finds
    commits whose notification was lost.
    """
    with postgres_errors():
        connection = connect()
        try:
            connection.command(f"LISTEN {_CHANNEL}")
            # Read after LISTEN: no notification follows for earlier commits.
            token, looked_at = read_token(), time.monotonic()
            while True:
                yield token
                is_notified = any(
                    True for _ in connection.raw.notifies(timeout=_WAIT_SECONDS, stop_after=1)
                )
                if time.monotonic() - looked_at >= LOOK_SECONDS:
                    token, looked_at = read_token(), time.monotonic()
                elif is_notified:
                    # There was a commit, so no query is needed. A real token is never negative.
                    token = min(token, 0) - 1
        finally:
            # A listener that nobody reads would fill the server's notification queue.
            with suppress(psycopg.Error):
                connection.close()


def poll_token(read_token: Callable[[], int]) -> Generator[int]:
    """Yield the change token of a standby, which cannot be notified, every _STANDBY_SECONDS."""
    while True:
        time.sleep(_STANDBY_SECONDS)
        yield read_token()
