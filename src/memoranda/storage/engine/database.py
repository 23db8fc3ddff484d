"""The seam under the one SQL logic: what a database must offer, and nothing more.

A database runs named queries inside a snapshot (reads) or inside a transaction (writes). Which SQL a name
stands for is data, in `sql/<database>/queries.sql`; the logic above never sees a dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from memoranda.errors import InvalidInput
from memoranda.storage.engine.dialect import Dialect
from memoranda.storage.engine.heads import End, Soundness
from memoranda.storage.engine.pending_write import Begun

if TYPE_CHECKING:
    from memoranda.storage.postgres.clear_vectors import ClearVectors

T = TypeVar("T")

Row = tuple[Any, ...]
# By name; or, where many are added, in the order in which the query first says their names.
Params = Mapping[str, Any] | tuple[Any, ...]


def without_nul(text: str) -> str:
    """A name that every database can keep: for PostgreSQL a text ends with NUL, so no store takes one with it."""
    if "\x00" in text:
        raise InvalidInput("a name may not contain the character NUL")
    return text


class Connection(Protocol):
    """Runs named queries in one snapshot or one transaction."""

    dialect: Dialect
    # Scratch space for what was read in this transaction; empty again in the next.
    memo: dict[str, Row]
    # How far this transaction brought each tenant, by its number; kept apart from the database when it is committed.
    ends: dict[int, End]

    def rows(self, name: str, params: Params) -> list[Row]: ...

    def row(self, name: str, params: Params) -> Row | None: ...

    def number(self) -> int:
        """The number of the next version that is added."""
        ...

    def run(self, name: str, params: Params) -> None: ...

    def run_many(self, name: str, params: Sequence[Params]) -> None:
        """Run one query for each of many parameters."""
        ...

    def select(self, sql: str, params: Params) -> list[Row]:
        """Run a query that was put together from our own pieces (selection.py)."""
        ...


class Database(Soundness, Protocol):
    """A place that keeps rows durably."""

    @property
    def clear(self) -> ClearVectors | None:
        """Vectors that it compares itself; None: it has none."""
        ...

    def reading(self, tenant: str | None = None) -> AbstractContextManager[Connection]:
        """A consistent snapshot for a tenant; without one, of what belongs to the installation and of all tenants."""
        ...

    def write(self, work: Callable[[Connection], T], tenant: str | None = None) -> T:
        """Run `work` in a transaction; return only when it is durable. An exception undoes it alone.

        Whose work it is a database may need to know: it shows that transaction nothing else, or runs the work of others
        beside it.
        """
        ...

    def begin(self, work: Callable[[Connection], T], tenant: str | None = None) -> Begun[T]:
        """The same, and whoever hands it in waits later."""
        ...

    def write_later(self, work: Callable[[Connection], None], tenant: str) -> None:
        """Run `work` in a transaction soon; do not wait for it."""
        ...

    def flush(self) -> None:
        """Wait until everything handed to `write_later` is durable."""
        ...

    def scrub(self, patience_seconds: float) -> bool:
        """Make erased bytes unreadable in every file of the store; False if others are still reading."""
        ...

    def settled(self) -> int:
        """Every version up to this number is there, or will never be: no transaction has one that is still to come."""
        ...

    def token(self) -> int:
        """A number that changes when any process has committed."""
        ...

    def tokens(self) -> Generator[int]:
        """The token again and again: soon after it has become another, and in between now and then.

        Raises StoreUnavailable, after which it is to be asked for anew. Close it when nobody waits for it any more.
        """
        ...

    def is_elected(self, job: str) -> bool:
        """Whether this process is the one of all to do some work, now; if it cannot be known, it is not.

        It spares the others the work. That nothing is done twice is for the unit of work to see to.
        """
        ...

    def let_go(self, job: str) -> None:
        """Let another process do some work that this one was to do, and cannot."""
        ...

    def check(self) -> list[str]:
        """What the database itself finds wrong with its files; empty when all is well."""
        ...

    def check_queries(self) -> None:
        """Raise StoreUnavailable if the database refuses a named query; without this, the first use of it would."""
        ...

    def close(self) -> None: ...
