"""Connections to a PostgreSQL server, the creation of the tables, and the translation of errors.

`open_connection` connects and applies the settings. A `PostgresConnection` runs named queries: it translates parameters
`:name` to PostgreSQL's `$1` and queues statements in a pipeline (statements.py). `migrate` creates the tables in an
empty database, or upgrades them (migrating.py). `postgres_errors` translates psycopg's errors into ours.

Named parameters keep the queries of both databases alike; `native` translates each text once. Limits of time are set on
the server (`_SETTINGS`), so that a hanging process cannot hold locks for ever. Sequential scans are switched off
because every query is meant to use its index; `make test-postgres` fails if one does not. An error of psycopg never
reaches a caller of the store: `translate_error` gives it words without addresses, passwords or SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Final

import psycopg
from psycopg import errors, pq

from memoranda.errors import InvalidInput, StoreCorrupt, StoreUnavailable
from memoranda.storage.engine.database import (
    POSTGRES,
    ChainEnd,
    Params,
    Row,
    load_queries,
)
from memoranda.storage.postgres import migrating
from memoranda.storage.postgres.statements import Statements

# The oldest supported major version of the server; `make test-postgres` runs on it.
OLDEST_VERSION: Final = 15
# Seconds to wait for a new connection.
CONNECT_SECONDS: Final = 5
# Seconds that a statement may take, and that it waits for a row locked by another transaction: as long as on SQLite.
STATEMENT_SECONDS: Final = 60
LOCK_SECONDS: Final = 30
# Seconds without a statement after which the server ends an open transaction: its process may have died.
IDLE_SECONDS: Final = 60
# The role that replaces a superuser: row-level security applies to it.
ROLE: Final = "memoranda_bound"

_PARAMETER: Final = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")
_SETTINGS: Final = (
    f"SET statement_timeout = '{STATEMENT_SECONDS}s'; SET lock_timeout = '{LOCK_SECONDS}s'; "
    f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'; SET jit = off; SET client_min_messages = error; "
    # Every query has its index (0001_store.sql). Without these settings, tables without statistics would be scanned.
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
)
# Version ids, taken while the row of the tenant is locked, so that those of one tenant ascend.
_NUMBERS: Final = "SELECT nextval('version_version_id_seq') FROM generate_series(1, :count)"
# Version ids that a unit of work takes at a time when it has used those it began with.
_MORE_NUMBERS: Final = 64
_KEEPALIVE: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


@cache
def _queries() -> dict[str, str]:
    """Return all named queries; those of pgvector are used only if its tables exist."""
    return load_queries("postgres") | load_queries("pgvector")


@lru_cache(maxsize=4_096)
def native(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return a query with PostgreSQL's numbered parameters, and the names of these in order."""
    names: list[str] = []

    def number_parameter(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    return _PARAMETER.sub(number_parameter, sql), tuple(names)


class PostgresConnection:
    """Named queries on one connection.

    A connection is used by one thread at a time. Statements are queued by `_send` and answered by `_receive`; an error
    may therefore surface at a later call than the one that caused it, but always before the commit.
    """

    dialect = POSTGRES

    def __init__(self, raw: psycopg.Connection[Row]) -> None:
        self.raw = raw
        self.memo: dict[str, Row] = {}
        self.ends: dict[int, ChainEnd] = {}
        self._queries = _queries()
        self._statements = Statements(raw)
        self._is_open = False
        # Unused version ids, for the tenant of the transaction.
        self._numbers: list[int] = []

    # --- queries -----------------------------------------------------------------------------------------

    def query(self, name: str, params: Params) -> list[Row]:
        return self.select(self._queries[name], params)

    def query_one(self, name: str, params: Params) -> Row | None:
        rows = self.query(name, params)
        return rows[0] if rows else None

    def execute(self, name: str, params: Params) -> None:
        self.execute_many(name, (params,))

    def execute_many(self, name: str, params: Sequence[Params]) -> None:
        for row in params:
            self._send(self._queries[name], row)
        if not self._is_open:
            self._receive()

    def select(self, sql: str, params: Params) -> list[Row]:
        self._send(sql, params, returns_rows=True)
        return self._receive()[-1]

    def check_queries(self, *, has_vectors: bool) -> None:
        """Raise StoreUnavailable if the server refuses a named query; `has_vectors` includes those of pgvector."""
        queries = self._queries if has_vectors else load_queries("postgres")
        refused = self._statements.find_refused([native(sql)[0] for sql in queries.values()])
        if refused is not None:
            position, error = refused
            raise StoreUnavailable(
                f"PostgreSQL {server_version(self.raw)} refuses the query {list(queries)[position]!r} "
                f"({error.diag.message_primary}), so this store cannot be served with it: use a version of PostgreSQL "
                "that docs/howto/postgresql.md lists as tested, and report this if yours is one of them"
            ) from error

    def next_version_id(self) -> int:
        if not self._numbers:
            self._numbers = [
                number for (number,) in self.select(_NUMBERS, {"count": _MORE_NUMBERS})
            ]
        return self._numbers.pop(0)

    def _send(self, sql: str, params: Params, *, returns_rows: bool = False) -> None:
        native_sql, names = native(sql)
        self._statements.send(native_sql, _in_order(names, params), returns_rows=returns_rows)

    def _receive(self) -> list[list[Row]]:
        try:
            return self._statements.receive()
        finally:
            if not self._is_open and not self.is_broken:
                self._statements.leave()

    # --- transactions ------------------------------------------------------------------------------------

    def begin(
        self,
        begin_sql: str,
        tenant: str | None,
        tenant_query: str = "tenant_get",
        *,
        number_count: int = 0,
    ) -> None:
        """Begin a transaction for a tenant, or with None for the installation.

        `tenant_query` is the named query that finds the tenant's row, which is cached in the memo. `number_count`
        version ids are taken in the same round trip.

        One round trip: BEGIN, the tenant's name for row-level security, its row, and version ids for the writes to
        come. For a write, `tenant_query` locks the row.
        """
        self.memo.clear()
        self.ends.clear()
        self._numbers.clear()
        self._is_open = True
        # No tenant has a name with NUL. The empty name, which no tenant has either, selects no rows.
        owner = "" if tenant is None or "\x00" in tenant else tenant
        name, value = ("memoranda.system", "on") if tenant is None else ("memoranda.tenant", owner)
        self._statements.command(begin_sql)
        self._statements.send("SELECT set_config($1, $2, true)", (name, value))
        if tenant is None:
            self.settle()
            return
        self._send(self._queries[tenant_query], {"name": tenant}, returns_rows=True)
        if number_count:
            self._send(_NUMBERS, {"count": number_count}, returns_rows=True)
        tenant_rows, *number_rows = self._receive()
        if tenant_rows:
            self.memo[tenant] = tenant_rows[0]
            # Ids are used only if the tenant's row was there to be locked: they must ascend in the order of writing.
            self._numbers = [number for rows in number_rows for (number,) in rows]

    def end(self) -> None:
        """Commit, and raise an error if that failed."""
        self._statements.command("COMMIT")
        self._statements.receive()
        if self._statements.last_command != b"COMMIT":
            raise errors.InFailedSqlTransaction("something failed before, and nothing was written")
        self._close_transaction()

    def end_reading(self) -> None:
        """Commit after reads, without waiting for the result."""
        self._statements.command("COMMIT")
        self._statements.send_all()
        self._is_open = False

    def _close_transaction(self) -> None:
        self._is_open = False
        self._statements.leave()

    def settle(self) -> None:
        """Wait for the statements sent, and raise the error of the first that failed."""
        self._statements.receive()

    def give_up(self) -> None:
        """Roll back; close the connection if that is impossible.

        Never raises: it is called while another error is on its way.
        """
        if self.is_broken:
            self.close()
            return
        try:
            with suppress(psycopg.Error):
                self._statements.receive()
            if self.raw.info.transaction_status != pq.TransactionStatus.IDLE:
                self._statements.command("ROLLBACK")
                self._statements.receive()
            self._close_transaction()
        except psycopg.Error:
            self.close()

    def command(self, sql: str) -> None:
        """Run statements without parameters: one in a transaction, any number outside."""
        if self._is_open:
            self._statements.command(sql)
            self._statements.receive()
        else:
            self.raw.execute(sql, prepare=False)

    def act_as(self, role: str | None) -> None:
        """Reduce the rights of the connection to those of a role; None changes nothing."""
        if role is not None:
            self.command(f"SET ROLE {role}")

    @property
    def is_broken(self) -> bool:
        return self._statements.is_lost or self.raw.closed or self.raw.broken

    def close(self) -> None:
        self.raw.close()


def _in_order(names: tuple[str, ...], params: Params) -> Sequence[object]:
    """Return the values of parameters in the order of their numbers."""
    return params if isinstance(params, tuple) else [params[name] for name in names]


def open_connection(address: str) -> PostgresConnection:
    """Connect to a database. Raises psycopg's errors, and InvalidInput for an invalid address.

    Options in the address win over our defaults. The application name gets the layout number, which `migrating.py`
    reads to find older nodes.
    """
    try:
        options = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        # The message and the traceback of the original error may quote the password.
        raise InvalidInput(
            "store: the address of the database cannot be read: look at its options, and in a password write % as %25, "
            "@ as %40, / as %2F, # as %23 and ? as %3F"
        ) from None
    defaults: dict[str, str | int] = {
        "connect_timeout": CONNECT_SECONDS,
        # If an address names several servers, connect to the one that can be written.
        "target_session_attrs": "read-write",
        "client_encoding": "utf8",
        **_KEEPALIVE,
    }
    missing = {name: value for name, value in defaults.items() if name not in options}
    missing["application_name"] = migrating.application_name(
        str(options.get("application_name", "memoranda"))
    )
    raw = psycopg.connect(psycopg.conninfo.make_conninfo(address, **missing), autocommit=True)
    connection = PostgresConnection(raw)
    connection.command(_SETTINGS)
    return connection


# --- tables ----------------------------------------------------------------------------------------------

_RIGHTS: Final = """
SELECT (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user), current_schema()
"""
_CREATE_ROLE: Final = """
DO $$ BEGIN
  CREATE ROLE {role} NOLOGIN NOSUPERUSER NOBYPASSRLS;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role};
"""


def migrate(connection: PostgresConnection, *, may_be_moving: bool = False) -> bool:
    """Create or upgrade the tables; return True if the database is read-only.

    Raises StoreUnavailable for a PostgreSQL that is too old for a store.
    """
    raw = connection.raw
    if raw.info.server_version < OLDEST_VERSION * 10_000:
        raise StoreUnavailable(
            f"this server is PostgreSQL {server_version(raw)}, which is too old for a store: "
            f"upgrade it to PostgreSQL {OLDEST_VERSION} or later"
        )
    return migrating.migrate(raw, may_be_moving=may_be_moving)


def bound_role(connection: PostgresConnection, *, is_read_only: bool) -> str | None:
    """Return the role that replaces a superuser, with rights to all tables; None if no other role is needed."""
    is_superuser, schema = connection.raw.execute(_RIGHTS).fetchone() or (False, None)
    if not is_superuser:
        return None
    if not is_read_only:
        connection.raw.execute(
            _CREATE_ROLE.format(role=ROLE, schema=psycopg.sql.quote(schema).replace("'", '"'))
        )
    return ROLE


def server_version(raw: psycopg.Connection[Row]) -> str:
    """Return the version that the server reports, without the words of its packager."""
    return (raw.info.parameter_status("server_version") or "?").split()[0]


# --- errors --------------------------------------------------------------------------------------------


class postgres_errors:  # noqa: N801 -- used like a function; a generator would slow down every read
    """A context that translates psycopg's errors into ours; the original error is the cause."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, psycopg.Error) and (ours := translate_error(error)) is not error:
            raise ours from error


def is_gone(error: BaseException) -> bool:
    """Return True if the database aborted the whole transaction, or the connection is lost.

    Such an error is handled by running the transaction again, not by failing one work item.
    """
    return isinstance(error, errors.SerializationFailure | errors.DeadlockDetected) or (
        isinstance(error, psycopg.OperationalError) and not isinstance(error, _STATEMENT_ERRORS)
    )


# OperationalError in psycopg, but only the statement failed, not the connection.
_STATEMENT_ERRORS: Final = (
    errors.DiskFull,
    errors.QueryCanceled,
    errors.LockNotAvailable,
    errors.ProgramLimitExceeded,
)


def translate_error(error: BaseException) -> BaseException:
    """Return our error for an error of psycopg; any other error unchanged."""
    if not isinstance(error, psycopg.Error):
        return error
    return next((build() for kind, build in _TRANSLATIONS if isinstance(error, kind)), error)


# Our errors by the classes of psycopg's errors; the first match counts.
_TRANSLATIONS: Final[
    tuple[
        tuple[type[psycopg.Error] | tuple[type[psycopg.Error], ...], Callable[[], Exception]], ...
    ]
] = (
    (errors.DiskFull, lambda: StoreUnavailable("the disk of the database is full")),
    (
        errors.ReadOnlySqlTransaction,
        lambda: StoreUnavailable("the database is read-only: a standby, perhaps"),
    ),
    (
        errors.LockNotAvailable,
        lambda: StoreUnavailable(f"another process kept the store locked for {LOCK_SECONDS} s"),
    ),
    (
        errors.QueryCanceled,
        lambda: StoreUnavailable(f"the database did not answer within {STATEMENT_SECONDS} s"),
    ),
    (
        (errors.SerializationFailure, errors.DeadlockDetected),
        lambda: StoreUnavailable("too much is written at once; try again"),
    ),
    (
        errors.ProgramLimitExceeded,
        lambda: InvalidInput("a name is too long for the index of a store on PostgreSQL"),
    ),
    (errors.InsufficientPrivilege, lambda: StoreUnavailable("the database is not yours to use")),
    (
        (errors.DataCorrupted, errors.IndexCorrupted),
        lambda: StoreCorrupt("the database is damaged"),
    ),
    (
        (psycopg.OperationalError, psycopg.InterfaceError),
        lambda: StoreUnavailable("the database is away; try again in a moment"),
    ),
    (errors.NumericValueOutOfRange, lambda: InvalidInput("a number is out of range")),
    (psycopg.DataError, lambda: InvalidInput("a name may not contain the character NUL")),
)
