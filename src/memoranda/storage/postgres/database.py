"""The database contract on PostgreSQL: any number of processes, on any number of machines, share one store.

Theory of operation. A read is one REPEATABLE READ transaction. A write is one READ COMMITTED transaction of one tenant
that begins by locking the tenant's row (`tenant_lock`). So units of one tenant run one after the other, on whichever
node, and units of different tenants run in parallel. Each process has a few writers. All waiting work of a tenant goes
into one transaction. A work item that fails is undone alone: the others are run a second time, each in a savepoint. A
transaction that the database aborts (a deadlock, or a connection lost before the commit was sent) is run again.

Every transaction names its tenant, and sees no rows of others (row-level security, 0001_store.sql). A superuser would
bypass this, so the connection takes a role without that right.

Connections are opened when they are needed, and opened again when they break, so that the process need not be restarted
with the database. While the database cannot be reached, calls fail at once, or after CONNECT_SECONDS.

Differences from SQLite that a change must respect. Version ids are taken before the commit, so a lower id may appear
after a higher one: readers that follow ids use `find_settled_version`. Several writers run at the same time, but never
two for one tenant of this process (`TenantQueue`). A lost connection during COMMIT leaves the outcome unknown; it is
reported as such and never repeated. Everything that a node needs to know about others is in the database, so a node can
be killed at any time. Rights: `bound_role` gives up the rights of a superuser, because row-level security does not
apply to one. Upgrades and pgvector's tables need those rights, so they open a connection of their own.
"""

from __future__ import annotations

import atexit
import hashlib
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final, TypeVar

import psycopg
from psycopg import errors

from memoranda.errors import StoreUnavailable
from memoranda.storage.engine.database import Connection, Loss, PendingWrite, Row
from memoranda.storage.engine.migrations import newest_number
from memoranda.storage.engine.write_queue import (
    Outcome,
    TenantQueue,
    WorkItem,
    WorkItemFailedError,
    fail_all,
)
from memoranda.storage.postgres.coordination import (
    Announcer,
    Election,
    poll_token,
    watch_notifications,
)
from memoranda.storage.postgres.migrating import continue_upgrade, is_upgraded
from memoranda.storage.postgres.pgvector import open_clear_vectors
from memoranda.storage.postgres.server import (
    PostgresConnection,
    bound_role,
    is_gone,
    migrate,
    open_connection,
    postgres_errors,
    translate_error,
)

T = TypeVar("T")

# Connections that read, and threads that write, per process.
READERS_LIMIT: Final = 8
WRITERS_LIMIT: Final = 4
# Seconds that a read waits for a free connection, and a write for its transaction: as on SQLite.
READER_SECONDS: Final = 10.0
WRITER_SECONDS: Final = 40.0
# Seconds that `close` waits for open reads.
CLOSE_SECONDS: Final = 2.0
# Attempts to run a transaction that the database aborts, and the seconds between them.
TRIES: Final = 5
RETRY_SECONDS: Final = 0.02

_READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# A query of a unit of work needs the same plan for all owners, and planning takes longer than running it.
_GENERIC: Final = "SET plan_cache_mode = force_generic_plan"
_SNAPSHOT: Final = "SELECT pg_current_snapshot()::text"
# `last_value` of a new sequence is the first number, although no version has taken it yet.
_LAST_VERSION: Final = (
    "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM version_version_id_seq"
)
# The number of the oldest transaction that still runs.
_OLDEST: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
# The number of a new transaction, which ends with this query. All transactions that began earlier have lower numbers.
_HORIZON: Final = "SELECT pg_current_xact_id()::text::bigint"
_INVALID: Final = "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
# Triggers, rules, views and functions that none of our migrations makes: they run inside our statements.
_PROGRAMS: Final = """
SELECT 'trigger', t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal
  AND t.tgname NOT IN ('clear_vector_erase', 'clear_vector_lock')
UNION ALL
SELECT CASE c.relkind WHEN 'r' THEN 'rule' ELSE 'view' END, c.relname FROM pg_rewrite r
JOIN pg_class c ON c.oid = r.ev_class WHERE c.relnamespace = current_schema()::regnamespace
UNION ALL
SELECT 'function', p.proname FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace
  AND p.proname NOT IN ('listed', 'listed_numbers', 'clear_vector_erase', 'clear_vector_lock')
  AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
"""
_DAMAGED: Final = (
    "SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database()"
)


class PostgresDatabase:
    """One database of a PostgreSQL server.

    `queue` is shared by up to WRITERS_LIMIT writer threads, which are started when they are needed. `_watcher` is one
    connection for short queries outside of transactions.
    """

    def __init__(
        self,
        address: str,
        *,
        reader_seconds: float = READER_SECONDS,
        writer_seconds: float = WRITER_SECONDS,
        refuses_unrecorded: bool = False,
        has_clear_vectors: bool = False,
    ) -> None:
        """Open the database at an address, and create its tables if it has none."""
        self.queue = TenantQueue(refuses_unrecorded=refuses_unrecorded)
        self._address = address
        self._reader_seconds, self._writer_seconds = reader_seconds, writer_seconds
        # Idle connections, the last used one first. A list needs no lock, which an interrupted thread would keep.
        self._readers: list[PostgresConnection] = []
        self._reader_slots = threading.BoundedSemaphore(READERS_LIMIT)
        self._watching = threading.Lock()
        self._watcher: PostgresConnection | None = None
        self._announcer = Announcer(self._select_alone)
        self._election = Election(self._connect)
        # The last settled version. And a later version, with the transaction number (horizon) below which all
        # transactions must have ended before that version is settled.
        self._settled, self._settling = 0, (0, 0)
        with postgres_errors():
            first = open_connection(address)
            try:
                self.is_read_only = migrate(first)
                self.clear_vectors = open_clear_vectors(
                    first.raw, is_wanted=has_clear_vectors, is_read_only=self.is_read_only
                )
                self._role = bound_role(first, is_read_only=self.is_read_only)
            except BaseException:
                first.close()
                raise
            first.act_as(self._role)
        self._readers.append(first)
        if self.is_read_only:
            self.queue.behind = "the database cannot be written"
        # True once no migration of this version is left.
        self._is_upgraded = False
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        atexit.register(self.close)

    # --- reading -----------------------------------------------------------------------------------------

    @contextmanager
    def open_snapshot(self, tenant: str | None = None) -> Iterator[PostgresConnection]:
        self.queue.refuse_when_closed()
        if not self._reader_slots.acquire(timeout=self._reader_seconds):
            raise StoreUnavailable(
                f"too many reads at once: no connection was free for {self._reader_seconds:g} s"
            )
        try:
            with postgres_errors():
                connection = self._begin_reading(tenant)
                try:
                    yield connection
                    connection.end_reading()
                except BaseException:
                    connection.give_up()
                    raise
                finally:
                    self._put_back(connection)
        finally:
            self._reader_slots.release()

    def _begin_reading(self, tenant: str | None) -> PostgresConnection:
        """Return a connection in a new snapshot: an idle one that still works, or a new one."""
        with suppress(IndexError):
            while True:
                connection = self._readers.pop()
                try:
                    connection.begin(_READ, tenant, "tenant_get")
                except psycopg.Error:
                    # The server was restarted, or the connection was lost; the next ones are probably broken, too.
                    connection.close()
                else:
                    return connection
        connection = self._connect()
        connection.begin(_READ, tenant, "tenant_get")
        return connection

    def _connect(self) -> PostgresConnection:
        connection = open_connection(self._address)
        if self.clear_vectors is not None and self.clear_vectors.is_wanted:
            connection.command(self.clear_vectors.path)
        connection.act_as(self._role)
        return connection

    def _connect_to_write(self) -> PostgresConnection:
        connection = self._connect()
        connection.command(_GENERIC)
        return connection

    def _put_back(self, connection: PostgresConnection) -> None:
        if self.queue.is_closed or connection.is_broken:
            connection.close()
        else:
            self._readers.append(connection)

    # --- writing -----------------------------------------------------------------------------------------

    def write(self, work: Callable[[Connection], T], tenant: str | None = None) -> T:
        self._refuse_when_read_only()
        self._start()
        return self.queue.write(work, tenant, self._writer_seconds)

    def start_write(
        self, work: Callable[[Connection], T], tenant: str | None = None
    ) -> PendingWrite[T]:
        self._refuse_when_read_only()
        self._start()
        return self.queue.start_write(work, tenant, self._writer_seconds)

    def _refuse_when_read_only(self) -> None:
        if self.is_read_only:
            raise StoreUnavailable("the database is read-only: a standby, or one that others write")

    def write_later(self, work: Callable[[Connection], None], tenant: str) -> None:
        if self.is_read_only:
            self.queue.refuse_when_closed()
            self.check_recording()
            return
        self._start()
        self.queue.write_later(work, tenant)

    def check_recording(self) -> None:
        self.queue.check_recording()

    def flush(self) -> None:
        self.queue.refuse_when_closed()
        if self._threads:
            self.queue.flush(self._writer_seconds)

    def _start(self) -> None:
        """Start another writer if all are busy and the limit allows it."""
        if len(self._threads) == WRITERS_LIMIT or (self._threads and self.queue.has_idle_writer):
            return
        with self._starting:
            if len(self._threads) < WRITERS_LIMIT and not self.queue.is_closed:
                thread = threading.Thread(target=self._run, name="memoranda-writer", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _run(self) -> None:
        connection: PostgresConnection | None = None
        while (batch := self.queue.take()) is not None:
            if not batch:
                continue
            try:
                connection, outcomes = self._commit(batch, connection)
            except BaseException as error:  # noqa: BLE001 -- any error must reach the waiting callers
                outcomes = fail_all(batch, translate_error(error))
                connection = _close_if_broken(connection)
            self.queue.settle(outcomes)
            # Other nodes need no notification of audit entries of reads, or of work without an owner.
            if any(
                item.is_waited_for and item.tenant is not None
                for item, _, failure in outcomes
                if not failure
            ):
                self._announcer.announce_commit()
        if connection is not None:
            connection.close()

    def _commit(
        self, batch: list[WorkItem], connection: PostgresConnection | None
    ) -> tuple[PostgresConnection, list[Outcome]]:
        """Run work items in one transaction, again if the database aborts it.

        Returns the connection for the next batch, and the outcome of each item.

        Three kinds of failure: an error of one item (the batch runs again item by item), an abort by the database (the
        batch runs again), and a lost connection before the commit was sent (it runs again on a new connection).
        """
        for tries_left in reversed(range(TRIES)):
            try:
                connection = self._connect_to_write() if connection is None else connection
                try:
                    return connection, self._run_together(batch, connection)
                except (WorkItemFailedError, psycopg.Error) as error:
                    if is_gone(error):
                        raise
                    if len(batch) == 1:
                        return connection, fail_all(
                            batch, translate_error(error.__cause__ or error)
                        )
                    return connection, self._run_one_by_one(batch, connection)
            except (
                errors.SerializationFailure,
                errors.DeadlockDetected,
                psycopg.OperationalError,
            ) as error:
                connection = _close_if_broken(connection)
                if not tries_left or isinstance(
                    error, errors.QueryCanceled | errors.LockNotAvailable
                ):
                    raise
                time.sleep(RETRY_SECONDS)
        raise AssertionError("the last try returns or raises")

    def _run_together(self, batch: list[WorkItem], connection: PostgresConnection) -> list[Outcome]:
        with _transaction(connection, batch):
            outcomes: list[Outcome] = []
            for item in batch:
                try:
                    outcomes.append((item, item.perform(connection), None))
                except BaseException as error:
                    if is_gone(error):
                        raise
                    raise WorkItemFailedError from error
            return outcomes

    def _run_one_by_one(
        self, batch: list[WorkItem], connection: PostgresConnection
    ) -> list[Outcome]:
        with _transaction(connection, batch):
            return [(item, *_attempt(item, connection)) for item in batch]

    # --- changes and jobs --------------------------------------------------------------------------------

    def read_change_token(self) -> int:
        # The description of a snapshot changes with every commit, of whichever node.
        self.queue.refuse_when_closed()
        ((snapshot,),) = self._select_alone(_SNAPSHOT)
        return int.from_bytes(hashlib.blake2b(snapshot.encode(), digest_size=7).digest())

    def watch_changes(self) -> Generator[int]:
        return (
            poll_token(self.read_change_token)
            if self.is_read_only
            else watch_notifications(self._connect, self.read_change_token)
        )

    def is_elected(self, job: str) -> bool:
        self.queue.refuse_when_closed()
        return self._election.is_elected(job)

    def resign(self, job: str) -> None:
        self._election.resign(job)

    def find_settled_version(self) -> int:
        """Return a version below which no open transaction will add another.

        First the last id and the number of a new transaction (the horizon) are noted. Once all transactions older than
        the horizon have ended, that id is settled. Until then the previous answer is returned, so a long transaction
        delays embeddings, but loses none.
        """
        # A transaction takes version ids before it commits, so a lower id may become visible after a higher one.
        self.queue.refuse_when_closed()
        if self.is_read_only:
            # A read-only database has no transaction numbers to take. It also needs none: it writes no vectors.
            return self._settled
        ((last,),) = self._select_alone(_LAST_VERSION)
        if self._reach_horizon() and last > self._settled:
            ((horizon,),) = self._select_alone(_HORIZON)
            self._settling = (last, horizon)
            self._reach_horizon()
        return self._settled

    def _reach_horizon(self) -> bool:
        """Return True if all transactions before the horizon have ended, and settle their versions.

        `_settling` has the version and the horizon that are waited for.
        """
        number, horizon = self._settling
        ((oldest,),) = self._select_alone(_OLDEST)
        if oldest < horizon:
            return False
        self._settled = max(self._settled, number)
        return True

    def _select_alone(self, query: str) -> list[Row]:
        """Run a query outside any transaction, and once more if the connection is lost."""
        with self._watching, postgres_errors():
            for is_last in (self._watcher is None, True):
                try:
                    if self._watcher is None:
                        self._watcher = self._connect()
                    return self._watcher.select(query, ())
                except psycopg.OperationalError:
                    self._watcher = _close_if_broken(self._watcher)
                    if is_last:
                        raise
        raise AssertionError("the last try returns or raises")

    def scrub(self, patience_seconds: float) -> bool:  # noqa: ARG002 -- part of the contract
        # Pages, replicas and archived logs keep only data encrypted under a destroyed key (ADR 0015).
        return True

    def continue_upgrade(self) -> bool:
        self.queue.refuse_when_closed()
        # Nodes of one version elect one of them.
        job = f"upgrade to layout {newest_number('postgres')}"
        if self.is_read_only or self._is_upgraded or not self.is_elected(job):
            return False
        # A connection without the bound role, which may not change tables.
        with postgres_errors(), closing(open_connection(self._address)) as connection:
            can_go_on = continue_upgrade(connection.raw)
            self._is_upgraded = not can_go_on and is_upgraded(connection.raw)
            return can_go_on

    def find_damage(self) -> list[str]:
        self.queue.refuse_when_closed()
        problems = [
            f"the index {name} is not valid: REINDEX INDEX {name}"
            for (name,) in self._select_alone(_INVALID)
        ]
        damaged = sum(count for (count,) in self._select_alone(_DAMAGED))
        if damaged:
            problems.append(f"{damaged} pages of the database do not have their checksum")
        for kind, name in self._select_alone(_PROGRAMS):
            problems.append(f"{kind} {name!a} is not Memoranda's")
        return problems

    def check_queries(self) -> None:
        has_vectors = self.clear_vectors is not None and self.clear_vectors.is_wanted
        with self.open_snapshot() as connection:
            connection.check_queries(has_vectors=has_vectors)

    def list_losses(self) -> list[Loss]:
        # PostgreSQL itself protects its log, and Memoranda never promotes a standby that is behind.
        return []

    def close(self) -> None:
        if not self.queue.close():
            return
        atexit.unregister(self.close)
        for thread in self._threads:
            thread.join(self._writer_seconds)
        self._announcer.close()
        self._election.close()
        until = time.monotonic() + CLOSE_SECONDS
        for _ in range(READERS_LIMIT):
            if not self._reader_slots.acquire(timeout=max(0.0, until - time.monotonic())):
                break
        while self._readers:
            self._readers.pop().close()
        with self._watching:
            if self._watcher is not None:
                self._watcher.close()


@contextmanager
def _transaction(connection: PostgresConnection, batch: list[WorkItem]) -> Iterator[None]:
    """Run the body in a transaction of the batch's tenant."""
    is_ending = False
    try:
        # Most work items that a caller waits for write one version.
        count = sum(item.is_waited_for for item in batch)
        connection.begin(_WRITE, batch[0].tenant, "tenant_lock", number_count=count)
        yield
        is_ending = True
        connection.end()
    except BaseException as error:
        if is_ending and connection.is_broken:
            # The commit may have happened, and running the batch again could write it twice.
            message = (
                "the connection was lost during the commit; the write may or may not be stored"
            )
            raise StoreUnavailable(message) from error
        connection.give_up()
        raise


def _close_if_broken(connection: PostgresConnection | None) -> PostgresConnection | None:
    """Return the connection, or None after closing a broken one."""
    if connection is not None and connection.is_broken:
        connection.close()
        return None
    return connection


def _attempt(item: WorkItem, connection: PostgresConnection) -> tuple[object, BaseException | None]:
    """Run a work item in a savepoint; return its result and its error, if it failed."""
    memo, ends = dict(connection.memo), dict(connection.ends)
    connection.command("SAVEPOINT item")
    try:
        result = item.perform(connection)
        connection.settle()
    except BaseException as error:
        if is_gone(error):
            raise
        with suppress(psycopg.Error):
            connection.settle()
        connection.command("ROLLBACK TO SAVEPOINT item")
        # The rows cached by earlier items of the batch are still valid.
        connection.memo, connection.ends = memo, ends
        return None, translate_error(error)
    connection.command("RELEASE SAVEPOINT item")
    return result, None
