"""How long each unit of work holds the writer, in processor time: what others use of the machine does not count.

All tenants wait for the one writer, so a unit only writes; reading and thinking are done before, on a snapshot. While
tests run, every unit of every store is measured against what it writes: 20 ms for each 1,000 rows, as much for fewer.

A unit that took longer is undone and run again, up to three times, as the writer does when a unit fails. What only the
first time costs (statements that are prepared, modules that are loaded), or others took of the machine just then, does
not count: what is wrong with a unit is there every time.
"""

from __future__ import annotations

import gc
import inspect
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import apsw

from memoranda.storage.engine.database import Connection
from memoranda.storage.sqlite.database import SqliteConnection

ALLOWED_MS_PER_1000_ROWS: Final = 20.0
# On a machine that does `_reference` in this; one that is slower, or slowed down by others, gets as much more.
REFERENCE_MS: Final = 7.5
# What two measurements of one unit differ by on a machine that others use: cores that share a cache with strangers
# were seen to take half as long again. What thinks or makes vectors in the writer's turn takes ten times as long.
SPREAD: Final = 2.0
TRIES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One unit of work: whose it is, for how long it had the writer, and what it wrote."""

    work: Callable[[Connection], Any]
    milliseconds: float
    rows: int

    @property
    def name(self) -> str:
        return _name(self.work)

    def is_slow(self, machine: float = 1.0) -> bool:
        """Whether it took more than it may, on a machine that is so many times slower than ours."""
        return self.milliseconds > machine * SPREAD * ALLOWED_MS_PER_1000_ROWS * max(1.0, self.rows / 1000)

    def __str__(self) -> str:
        return (
            f"{self.name} held the writer for {self.milliseconds:.0f} ms of processor time and wrote {self.rows} rows"
        )


class RunAgainError(Exception):
    """Makes the writer undo a unit that was slow, and run it again."""


@dataclass(slots=True)
class Probe:
    """Measures units of work; `slow` are those that held the writer for longer than what they wrote allows."""

    slow: list[Held] = field(default_factory=list)
    longest: Held | None = None
    # Collecting garbage is nobody's work: it falls on whoever allocates next.
    _collecting_since: dict[int, float] = field(default_factory=dict)
    _collected: dict[int, float] = field(default_factory=dict)
    # The writers that run everything of a transaction once more.
    _second: set[int] = field(default_factory=set)

    def __call__(self, work: Callable[[Connection], Any], connection: SqliteConnection) -> Any:
        if threading.get_ident() in self._second:
            return self._again(work, connection)
        result, held = self._measured(work, connection)
        if self._is_slow(held):
            self._repeat(connection)
            raise RunAgainError
        return result

    def _again(self, work: Callable[[Connection], Any], connection: SqliteConnection) -> Any:
        """Run it until it is fast enough once; what is slow every time is noted."""
        raw, memo, ends = connection.raw, dict(connection.memo), dict(connection.ends)
        for tries_left in reversed(range(TRIES)):
            raw.execute("SAVEPOINT again")
            result, held = self._measured(work, connection)
            if not self._is_slow(held) or not tries_left:
                break
            raw.execute("ROLLBACK TO again; RELEASE again")
            connection.memo, connection.ends = dict(memo), dict(ends)
        raw.execute("RELEASE again")
        if self._is_slow(held):
            self.slow.append(held)
        return result

    def _measured(self, work: Callable[[Connection], Any], connection: SqliteConnection) -> tuple[Any, Held]:
        thread = threading.get_ident()
        self._collected[thread] = 0.0
        rows, start = connection.raw.total_changes(), time.thread_time()
        result = work(connection)
        taken = time.thread_time() - start - self._collected[thread]
        held = Held(work=work, milliseconds=taken * 1000, rows=connection.raw.total_changes() - rows)
        if self.longest is None or held.milliseconds > self.longest.milliseconds:
            self.longest = held
        return result, held

    def _is_slow(self, held: Held) -> bool:
        return held.is_slow() and held.is_slow(max(_reference() for _ in range(3)) / REFERENCE_MS)

    def _repeat(self, connection: SqliteConnection) -> None:
        """Remember that what follows until the next commit is the second time."""
        thread = threading.get_ident()

        def committed() -> bool:
            self._second.discard(thread)
            connection.raw.set_commit_hook(None)
            return False

        self._second.add(thread)
        connection.raw.set_commit_hook(committed)

    def collecting(self, phase: str, _: dict[str, int]) -> None:
        """What `gc.callbacks` calls."""
        thread = threading.get_ident()
        if phase == "start":
            self._collecting_since[thread] = time.thread_time()
        elif thread in self._collecting_since:
            taken = time.thread_time() - self._collecting_since.pop(thread)
            self._collected[thread] = self._collected.get(thread, 0.0) + taken

    def install(self) -> None:
        gc.callbacks.append(self.collecting)

    def remove(self) -> None:
        gc.callbacks.remove(self.collecting)


def _reference() -> float:
    """How long plain rows take here and now: milliseconds of processor time."""
    raw = apsw.Connection(":memory:")
    raw.execute("CREATE TABLE plain (a INTEGER PRIMARY KEY, b TEXT, c BLOB); CREATE INDEX by_b ON plain (b)")
    start = time.thread_time()
    for number in range(2_000):
        row = {"a": number, "b": str(number * 7919 % 2_000), "c": bytes(200)}
        raw.execute("INSERT INTO plain VALUES (:a, :b, :c)", row)
    taken = (time.thread_time() - start) * 1000
    raw.close()
    return taken


def _name(work: Callable[[Connection], Any]) -> str:
    """The function that does the work, under the one that opens the unit for it."""
    inner = inspect.getclosurevars(work).nonlocals.get("work", work) if inspect.isfunction(work) else work
    while isinstance(inner, partial):
        inner = inner.func
    return f"{inner.__module__}.{inner.__qualname__}"
