"""The database contract: the few things that the SQL logic needs of SQLite and of PostgreSQL.

Theory of operation. The modules of `storage/engine` and `storage/index` hold one SQL logic for all databases. They
use a `Connection`, which runs named queries in one snapshot (reads) or in one transaction (writes), and a `Database`,
which opens snapshots and runs transactions. The text of a named query is data: `load_queries` reads it from
`sql/<database>/queries.sql`. Only selections have too many shapes for that; `selection.py` builds their SQL from
clauses that every database understands and from the pieces of a `Dialect`.

To support another database, implement `Database` and `Connection`, write its `queries.sql` and a `Dialect`, and run
`tests/storage/contract*.py` on it. The names and parameters of the queries must be the same in all databases. Keep
logic out of these classes: what can be decided in `storage/engine` must not be written twice.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    from memoranda.storage.postgres.pgvector import ClearVectors

T = TypeVar("T")

Row = tuple[Any, ...]
# Parameters of a query: by name, or as a tuple in the order in which the query first mentions their names (inserts of
# many rows, where a mapping for each row costs more than the insert).
Params = Mapping[str, Any] | tuple[Any, ...]

# The tenant number under which the chain end of the credentials, which belong to no owner, is stored.
SYSTEM_SLOT: Final = 0


def without_nul(text: str) -> str:
    """Return a name unchanged; raise InvalidInput if it contains NUL, which PostgreSQL cannot store in a text."""
    if "\x00" in text:
        raise InvalidInput("a name may not contain the character NUL")
    return text


# --- the state of a store ----------------------------------------------------------------------------------


class ChainEnd(NamedTuple):
    """The ends of one owner's chains: units of work, versions ever written, audit entries, hash of the last entry."""

    units: int
    versions: int
    audit: int
    audit_hash: str | None


class Loss(NamedTuple):
    """The part of an owner's memory that is missing. The owner is None if its name is lost too, "" for credentials.

    The field names are those of the losses file (sqlite/heads.py).

    `units` are acknowledged units of work that are missing; if it is 0, the numbers agree but the last audit entry
    differs, which means that another history was restored. `since` and `until` are instants in ISO format.
    """

    noticed: str
    owner: str | None
    units: int
    versions: int
    audit: int
    # The last change that is still there, and the last that there was.
    since: str | None
    until: str

    @property
    def message(self) -> str:
        """The loss as a sentence for people."""
        if self.owner == "":
            return f"{self.units} changes of credentials are missing (noticed {self.noticed})"
        whose = f"the memory of {self.owner or 'an owner whose name is lost, too'}"
        if not self.units:
            return (
                f"{whose}: the audit log ends in another entry than it did (noticed {self.noticed})"
            )
        after = f"after {self.since}" if self.since else "from the beginning"
        return (
            f"{whose}: {self.versions} written versions and {self.audit} audit entries are missing, of "
            f"{self.units} acknowledged acts {after} up to {self.until} (noticed {self.noticed})"
        )


class StoreHealth(Protocol):
    """The state of a store: if it can be written, if reads can be audited, and if anything is missing."""

    @property
    def is_read_only(self) -> bool:
        """True if the store can be read but not written."""
        ...

    def check_recording(self) -> None:
        """Raise StoreUnavailable if reads must be refused because they cannot be recorded in the audit log."""
        ...

    def list_losses(self) -> list[Loss]:
        """Return what is missing although it was acknowledged; empty if nothing is."""
        ...


# --- the database ------------------------------------------------------------------------------------------


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """The pieces of SQL text that differ between databases. `{0}` is a parameter or a name, `{1}` a second one.

    Parameters are written `:name` everywhere; a connection translates them to the form its database expects.
    """

    # A JSON array as the right side of IN: of texts, of numbers, and of fingerprints in hexadecimal.
    values: str
    numbers: str
    keys: str
    # A JSON array of numbers as rows with a column `value`.
    rows: str
    # A table that must be read by index {1} and no other.
    hint: str
    # For each row of {0}, the rows of `state s` that match {1}.
    join: str


SQLITE: Final = Dialect(
    values="(SELECT value FROM json_each({0}))",
    numbers="(SELECT value FROM json_each({0}))",
    keys="(SELECT unhex(value) FROM json_each({0}))",
    rows="json_each({0}) {1}",
    # SQLite has no statistics of these tables and would guess the index.
    hint="{0} INDEXED BY {1}",
    join="{0} CROSS JOIN state s ON {1}",
)

POSTGRES: Final = Dialect(
    values="(SELECT value FROM listed({0}))",
    numbers="(SELECT value FROM listed_numbers({0}))",
    keys="(SELECT decode(value, 'hex') FROM listed({0}))",
    rows="listed_numbers({0}) {1}",
    # PostgreSQL has statistics, and no hints.
    hint="{0}",
    join="{0} CROSS JOIN LATERAL (SELECT * FROM state s WHERE {1} OFFSET 0) s",
)


class Connection(Protocol):
    """Named queries in one snapshot or one transaction.

    `memo` and `ends` belong to one transaction. Code that runs in it may leave rows in `memo` for later units of the
    same transaction, and must replace them when it changes them.
    """

    dialect: Dialect
    # Rows cached for the rest of this transaction; empty again in the next.
    memo: dict[str, Row]
    # The new chain ends of the tenants that this transaction changed, by tenant number. They are stored outside the
    # database once the transaction is committed.
    ends: dict[int, ChainEnd]

    def query(self, name: str, params: Params) -> list[Row]:
        """Run a named query and return all its rows."""
        ...

    def query_one(self, name: str, params: Params) -> Row | None:
        """Run a named query and return its first row, or None."""
        ...

    def next_version_id(self) -> int:
        """Return the number of the next version that is added."""
        ...

    def execute(self, name: str, params: Params) -> None:
        """Run a named statement that returns nothing."""
        ...

    def execute_many(self, name: str, params: Sequence[Params]) -> None:
        """Run one named statement once for each of many parameters."""
        ...

    def select(self, sql: str, params: Params) -> list[Row]:
        """Run a query whose text `selection.py` built, and return its rows."""
        ...


class PendingWrite(Generic[T]):
    """A write that was handed to the writer and is not waited for yet.

    The caller prepares its next write while this one is performed and committed. It must still wait until this one
    is performed: two threads that compute at the same time interrupt one another every few milliseconds, and each row
    written would have to wait for the other thread. The commit is one call that waits for the disk, so it overlaps.
    """

    def __init__(
        self, wait: Callable[[float], T], performed: threading.Event, seconds: float
    ) -> None:
        self._wait, self._performed, self._seconds = wait, performed, seconds

    def wait_until_performed(self) -> None:
        """Wait until only the commit is left, or the write has failed."""
        self._performed.wait(self._seconds)

    def result(self) -> T:
        """Wait until the write is durable and return its result. Raises what it raised, and StoreUnavailable.

        Waits at most the seconds given at the start. After a timeout the write may still be performed; the error says
        which case applies.
        """
        return self._wait(self._seconds)


class Database(StoreHealth, Protocol):
    """A database that keeps rows durably."""

    @property
    def clear_vectors(self) -> ClearVectors | None:
        """The table of unencrypted vectors that the database compares itself; None if it has none."""
        ...

    def open_snapshot(self, tenant: str | None = None) -> AbstractContextManager[Connection]:
        """Open a consistent snapshot of a tenant; without one, of the installation's own rows and of all tenants."""
        ...

    def write(self, work: Callable[[Connection], T], tenant: str | None = None) -> T:
        """Run `work` in a transaction; return its result when it is durable. An exception undoes this work alone.

        A database may need the tenant: PostgreSQL shows the transaction no other tenant's rows, and runs the work of
        different tenants in parallel.

        `work` may run twice: if another unit of the same transaction fails, the transaction is repeated without it. So
        `work` must have no effect outside of the connection, and must compute the same from the same rows.
        """
        ...

    def start_write(
        self, work: Callable[[Connection], T], tenant: str | None = None
    ) -> PendingWrite[T]:
        """Begin a write as `write` does, without waiting for it."""
        ...

    def write_later(self, work: Callable[[Connection], None], tenant: str) -> None:
        """Run `work` in a transaction soon; do not wait for it.

        Used for audit entries of reads. Errors are logged, not raised. If the disk is full, the work stays queued and
        `check_recording` raises as soon as too much waits.
        """
        ...

    def flush(self) -> None:
        """Wait until all work handed to `write_later` is durable."""
        ...

    def scrub(self, patience_seconds: float) -> bool:
        """Make erased bytes unreadable in every file of the store; return False if open readers prevent that."""
        ...

    def find_settled_version(self) -> int:
        """Return a version number at or below which no transaction that is still open will add a version."""
        ...

    def read_change_token(self) -> int:
        """Return a number that changes when any process has committed."""
        ...

    def watch_changes(self) -> Generator[int]:
        """Yield the change token: soon after every change, and now and then in between.

        Raises StoreUnavailable; the caller then starts a new generator. Close it when nobody waits for it any more.
        """
        ...

    def is_elected(self, job: str) -> bool:
        """Return True if this process is the one of all that does a job now; False if that cannot be known.

        An election only spares the others the work; the unit of work itself must make sure that nothing is done twice.

        Nobody is told when an election changes. Ask before each round of a job.
        """
        ...

    def resign(self, job: str) -> None:
        """Let another process be elected for a job that this one cannot do."""
        ...

    def continue_upgrade(self) -> bool:
        """Run one step of an upgrade that is left for the background; return True if another can follow now."""
        ...

    def find_damage(self) -> list[str]:
        """Return the problems that the database finds in its own files; empty if there are none."""
        ...

    def check_queries(self) -> None:
        """Raise StoreUnavailable if the database refuses a named query, which otherwise only its first use would."""
        ...

    def close(self) -> None:
        """Finish what waits and close all connections."""
        ...


# --- named queries -----------------------------------------------------------------------------------------

_SQL = Path(__file__).parent.with_name("sql")
_HEADING = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_FRAGMENT = re.compile(r"\{\{(\w+)\}\}")


@cache
def load_queries(database: str) -> dict[str, str]:
    """Return the text of every named query of a database, with its fragments filled in.

    The file has one section per query, headed by `-- name: query`, and sections `-- fragment: name` for text that
    several queries share. Comments are removed, because some databases compare statements by their text to find
    prepared ones.
    """
    text = (_SQL / database / "queries.sql").read_text(encoding="utf-8")
    bodies: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    headings = list(_HEADING.finditer(text))
    for heading, next_heading in zip(headings, [*headings[1:], None], strict=True):
        body = text[heading.end() : next_heading.start() if next_heading else len(text)]
        # The comment above a query is part of the text that ends the query before it.
        bodies[heading[1]][heading[2]] = _COMMENT.sub("", body).strip()
    return {name: _fill(body, bodies["fragment"]) for name, body in bodies["name"].items()}


def _fill(body: str, fragments: dict[str, str]) -> str:
    """Replace `{{name}}` by fragments until none is left: a fragment may contain others."""
    while _FRAGMENT.search(body):
        body = _FRAGMENT.sub(lambda match: fragments[match[1]], body)
    return body
