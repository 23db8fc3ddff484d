"""Connections to PostgreSQL: how they are opened, what a query looks like there, and its troubles in our words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, Final

import psycopg
from psycopg import errors, pq

from memoranda.errors import InvalidInput, StoreCorrupt, StoreUnavailable
from memoranda.storage.engine.database import (
    POSTGRES,
    ChainEnd,
    Params,
    Row,
    layout,
    load_migrations,
    load_queries,
)
from memoranda.storage.postgres.statements import Statements

# The oldest major version whose server is taken; `make test-postgres` runs on it.
OLDEST_VERSION: Final = 15
# How long a new connection is waited for.
CONNECT_SECONDS: Final = 5
# How long a statement may take, and how long a row is waited for that another has: as long as SQLite waits.
STATEMENT_SECONDS: Final = 60
LOCK_SECONDS: Final = 30
# Who holds a transaction open and says nothing is cut off: it may be a process that is gone.
IDLE_SECONDS: Final = 60
# A superuser is exchanged for this one, whom row-level security binds.
ROLE: Final = "memoranda_bound"

_PARAMETER: Final = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")
_SETTINGS: Final = (
    f"SET statement_timeout = '{STATEMENT_SECONDS}s'; SET lock_timeout = '{LOCK_SECONDS}s'; "
    f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'; SET jit = off; SET client_min_messages = error; "
    # Every question has its index (0001_store.sql), also of tables that have no statistics yet.
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
)
# Numbers of versions, for whoever holds the tenant's row: so those of one tenant are in order.
_NUMBERS: Final = "SELECT nextval('version_version_id_seq') FROM generate_series(1, :count)"
# What a unit of work takes more of than it was given comes by so many.
_NUMBERS_MORE: Final = 64
_KEEPALIVE: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


@cache
def _queries() -> dict[str, str]:
    """All that has a name here; those of pgvector are asked where its tables are."""
    return load_queries("postgres") | load_queries("pgvector")


@lru_cache(maxsize=4_096)
def native(sql: str) -> tuple[str, tuple[str, ...]]:
    """A query with the parameters that PostgreSQL knows, and their names in order."""
    names: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    return _PARAMETER.sub(numbered, sql), tuple(names)


class PostgresConnection:
    """Named queries on one connection."""

    dialect = POSTGRES

    def __init__(self, raw: psycopg.Connection[Row]) -> None:
        self.raw = raw
        self.memo: dict[str, Row] = {}
        self.ends: dict[int, ChainEnd] = {}
        self._queries = _queries()
        self._statements = Statements(raw)
        self._is_open = False
        # Numbers for versions of the tenant whose turn it is.
        self._numbers: list[int] = []

    # --- queries -----------------------------------------------------------------------------------------

    def query(self, name: str, params: Params) -> list[Row]:
        return self.select(self._queries[name], params)

    def query_one(self, name: str, params: Params) -> Row | None:
        found = self.query(name, params)
        return found[0] if found else None

    def execute(self, name: str, params: Params) -> None:
        self.execute_many(name, (params,))

    def execute_many(self, name: str, params: Sequence[Params]) -> None:
        for each in params:
            self._send(self._queries[name], each)
        if not self._is_open:
            self._answers()

    def select(self, sql: str, params: Params) -> list[Row]:
        self._send(sql, params, is_asked=True)
        return self._answers()[-1]

    def check_queries(self, *, has_vectors: bool) -> None:
        """Raise StoreUnavailable if the server refuses a named query; with `has_vectors`, those of pgvector, too."""
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
                number for (number,) in self.select(_NUMBERS, {"count": _NUMBERS_MORE})
            ]
        return self._numbers.pop(0)

    def _send(self, sql: str, params: Params, *, is_asked: bool = False) -> None:
        numbered, names = native(sql)
        self._statements.send(numbered, _in_order(names, params), is_asked=is_asked)

    def _answers(self) -> list[list[Row]]:
        try:
            return self._statements.answers()
        finally:
            if not self._is_open and not self.is_broken:
                self._statements.leave()

    # --- transactions ------------------------------------------------------------------------------------

    def begin(
        self, how: str, tenant: str | None, opening: str | None = None, *, numbers: int = 0
    ) -> None:
        """Begin a transaction for a tenant, or for the installation.

        `opening` is the query that finds the tenant's row, which is kept in the memo; so many numbers are had with it.
        """
        self.memo.clear()
        self.ends.clear()
        self._numbers.clear()
        self._is_open = True
        # Nobody has a name with NUL in it, and nobody's rows are there for whoever asks for them.
        owner = "" if tenant is None or "\x00" in tenant else tenant
        name, value = ("memoranda.system", "on") if tenant is None else ("memoranda.tenant", owner)
        self._statements.command(how)
        self._statements.send("SELECT set_config($1, $2, true)", (name, value))
        if tenant is None or opening is None:
            self.settle()
            return
        self._send(self._queries[opening], {"name": tenant}, is_asked=True)
        if numbers:
            self._send(_NUMBERS, {"count": numbers}, is_asked=True)
        rows, *given = self._answers()
        if rows:
            self.memo[tenant] = rows[0]
            # Only of a tenant that is locked: those of one tenant are in the order in which they are used.
            self._numbers = [number for some in given for (number,) in some]

    def end(self) -> None:
        """Commit."""
        self._statements.command("COMMIT")
        self._statements.answers()
        if self._statements.last_command != b"COMMIT":
            raise errors.InFailedSqlTransaction("something failed before, and nothing was written")
        self._left()

    def end_reading(self) -> None:
        """The same after reads, of which nothing is to be heard."""
        self._statements.command("COMMIT")
        self._statements.let_go()
        self._is_open = False

    def _left(self) -> None:
        self._is_open = False
        self._statements.leave()

    def settle(self) -> None:
        """Wait for what was sent. Raises what is wrong with it."""
        self._statements.answers()

    def give_up(self) -> None:
        """Roll back, or let go of a connection that cannot."""
        if self.is_broken:
            self.close()
            return
        try:
            with suppress(psycopg.Error):
                self._statements.answers()
            if self.raw.info.transaction_status != pq.TransactionStatus.IDLE:
                self._statements.command("ROLLBACK")
                self._statements.answers()
            self._left()
        except psycopg.Error:
            self.close()

    def command(self, sql: str) -> None:
        """Run statements that have no parameters: one in a transaction, any number outside."""
        if self._is_open:
            self._statements.command(sql)
            self._statements.answers()
        else:
            self.raw.execute(sql, prepare=False)

    def act_as(self, role: str | None) -> None:
        """Have no more rights than this role."""
        if role is not None:
            self.command(f"SET ROLE {role}")

    @property
    def is_broken(self) -> bool:
        return self._statements.is_lost or self.raw.closed or self.raw.broken

    def close(self) -> None:
        self.raw.close()


def _in_order(names: tuple[str, ...], params: Params) -> Sequence[Any]:
    return params if isinstance(params, tuple) else [params[name] for name in names]


def open_connection(address: str) -> PostgresConnection:
    """Connect. Raises psycopg's errors, and InvalidInput for an address that is none."""
    try:
        options = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        # Its message, and what a traceback shows of it, may quote the password.
        raise InvalidInput(
            "store: the address of the database cannot be read: look at its options, and in a password write % as %25, "
            "@ as %40, / as %2F, # as %23 and ? as %3F"
        ) from None
    # Of several servers that an address names, the one that can be written.
    wanted = {
        "connect_timeout": CONNECT_SECONDS,
        "target_session_attrs": "read-write",
        "client_encoding": "utf8",
    }
    named = {"application_name": "memoranda", **wanted, **_KEEPALIVE}
    more: dict[str, Any] = {name: value for name, value in named.items() if name not in options}
    raw = psycopg.connect(address, autocommit=True, **more)
    connection = PostgresConnection(raw)
    connection.command(_SETTINGS)
    return connection


# --- tables ----------------------------------------------------------------------------------------------

# No other program would choose it: who makes the tables holds this lock.
MIGRATING: Final = 0x4D656D6F
_STATE: Final = """
SELECT current_setting('server_encoding'),
  pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on',
  (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user),
  to_regclass('meta') IS NOT NULL,
  (SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()), current_schema()
"""
_ROLE_MADE: Final = """
DO $$ BEGIN
  CREATE ROLE {role} NOLOGIN NOSUPERUSER NOBYPASSRLS;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role};
"""


# Every table is a type, too.
_TYPE_TAKEN: Final = (
    "this schema has a type that is named as one of our tables, of pgvector perhaps: make the store in a schema of its "
    "own, or move that (ALTER EXTENSION vector SET SCHEMA …)"
)


def migrate(connection: PostgresConnection, *, may_be_moving: bool = False) -> bool:
    """Make the tables, once, whichever process comes first; whether nothing can be written."""
    raw = connection.raw
    if raw.info.server_version < OLDEST_VERSION * 10_000:
        raise StoreUnavailable(
            f"this server is PostgreSQL {server_version(raw)}, which is too old for a store: "
            f"upgrade it to PostgreSQL {OLDEST_VERSION} or later"
        )
    encoding, is_read_only, _, has_store, tables, schema = _only(raw.execute(_STATE))
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"the encoding of this database is {encoding}; make one with ENCODING 'UTF8'"
        )
    if not has_store:
        if schema is None or is_read_only:
            raise StoreUnavailable("there is no store in this database, and none can be made in it")
        with raw.transaction():
            raw.execute(f"SELECT pg_advisory_xact_lock({MIGRATING})")
            *_, has_store, tables, _ = _only(raw.execute(_STATE))
            if tables and not has_store:
                raise StoreCorrupt("this database has tables, but they are not Memoranda's")
            if not has_store:
                try:
                    _make_tables(raw)
                except errors.DuplicateObject as error:
                    raise StoreUnavailable(_TYPE_TAKEN) from error
    _refuse_other_layout(raw, may_be_moving=may_be_moving)
    return bool(is_read_only)


def bound_role(connection: PostgresConnection, *, is_read_only: bool) -> str | None:
    """Whom to act as, whoever has connected, with rights to all tables there are; None: as that one."""
    _, _, is_above, _, _, schema = _only(connection.raw.execute(_STATE))
    if not is_above:
        return None
    if not is_read_only:
        connection.raw.execute(
            _ROLE_MADE.format(role=ROLE, schema=psycopg.sql.quote(schema).replace("'", '"'))
        )
    return ROLE


def _make_tables(raw: psycopg.Connection[Row]) -> None:
    for _, sql in load_migrations("postgres"):
        raw.execute(sql)
    raw.execute("SELECT set_config('memoranda.system', 'on', true)")
    made = load_migrations("postgres")[-1][0]
    for name, value in (("schema", str(made).encode()), ("layout", layout("postgres"))):
        raw.execute("INSERT INTO meta (name, value) VALUES (%s, %s)", (name, value))


def _refuse_other_layout(raw: psycopg.Connection[Row], *, may_be_moving: bool) -> None:
    with raw.transaction():
        raw.execute("SELECT set_config('memoranda.system', 'on', true)")
        rows = raw.execute(
            "SELECT name, value FROM meta WHERE name IN ('schema', 'layout', 'moving')"
        ).fetchall()
    found: dict[str, bytes] = dict(rows)
    newest = load_migrations("postgres")[-1][0]
    if "moving" in found and not may_be_moving:
        raise StoreUnavailable(
            "this store is not whole yet: call `memoranda migrate-store` again, and it goes on"
        )
    present = int(found.get("schema", b"0"))
    if present > newest:
        raise StoreUnavailable(
            f"this store was written by a newer Memoranda (schema {present}, ours is {newest})"
        )
    if found.get("layout") != layout("postgres"):
        raise StoreUnavailable(
            "this store was made by another build of Memoranda, whose tables are different: "
            "export it with that build (`memoranda export all.mg`) and import it here into a new database"
        )


def server_version(raw: psycopg.Connection[Row]) -> str:
    """Return the version that the server reports, without the words of its packager."""
    return (raw.info.parameter_status("server_version") or "?").split()[0]


def _only(cursor: psycopg.Cursor[Row]) -> Row:
    found = cursor.fetchone()
    assert found is not None
    return found


# --- troubles --------------------------------------------------------------------------------------------


class postgres_errors:  # noqa: N801 -- used like the function that it would be if every read did not pay for that
    """Say PostgreSQL's troubles in our words; the original stays as the cause."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, psycopg.Error) and (said := translate_error(error)) is not error:
            raise said from error


def is_gone(error: BaseException) -> bool:
    """Whether the database has given up the whole transaction, or is away."""
    return isinstance(error, errors.SerializationFailure | errors.DeadlockDetected) or (
        isinstance(error, psycopg.OperationalError) and not isinstance(error, _OURS)
    )


# Operational for psycopg, but of this statement alone.
_OURS: Final = (
    errors.DiskFull,
    errors.QueryCanceled,
    errors.LockNotAvailable,
    errors.ProgramLimitExceeded,
)


def translate_error(error: BaseException) -> BaseException:
    """A trouble of PostgreSQL's in our words; anything else as it is."""
    if not isinstance(error, psycopg.Error):
        return error
    return next((made() for kind, made in _WORDS if isinstance(error, kind)), error)


_WORDS: Final[
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
    (psycopg.DataError, lambda: InvalidInput("a name may not contain the character NUL")),
)
