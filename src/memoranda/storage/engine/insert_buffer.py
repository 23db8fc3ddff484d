"""A connection that keeps rows back and adds them together: one statement for a batch instead of one for each row.

Only a unit of work uses it, and only for rows that nothing reads before the next query: every query that is not such an
addition first sends what waits. The unit's last statement is a query, so nothing is left behind. Changes of rows wait
too; they come after the additions, and whoever counts what they change is asked before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memoranda.storage.engine.database import Connection, Params, Row


class Buffered:
    """A connection with rows that wait."""

    def __init__(
        self,
        connection: Connection,
        counting: Callable[[Connection, list[Mapping[str, Any]]], None],
    ) -> None:
        """`counting` is shown each batch of changes before it is made."""
        self._connection = connection
        self._counting = counting
        self._waiting: dict[str, list[Params]] = {}
        self._changes: dict[str, list[Mapping[str, Any]]] = {}
        self.dialect = connection.dialect
        self.memo, self.ends = connection.memo, connection.ends

    def add_later(self, name: str, params: Params) -> None:
        """Add a row before the next query."""
        self._waiting.setdefault(name, []).append(params)

    def change_later(self, name: str, params: Mapping[str, Any]) -> None:
        """Change a row before the next query; no other kind of change may wait with it."""
        self._changes.setdefault(name, []).append(params)

    def ask_now(self, name: str, params: Params) -> Row:
        """The one row of a question to which what waits does not matter."""
        (row,) = self._connection.rows(name, params)
        return row

    def send(self) -> Connection:
        """Send what waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for name, rows in waiting.items():
                self._connection.run_many(name, rows)
        if self._changes:
            changes, self._changes = self._changes, {}
            for name, changed in changes.items():
                self._counting(self._connection, changed)
                self._connection.run_many(name, changed)
        return self._connection

    def rows(self, name: str, params: Params) -> list[Row]:
        return self.send().rows(name, params)

    def row(self, name: str, params: Params) -> Row | None:
        return self.send().row(name, params)

    def number(self) -> int:
        return self._connection.number()

    def run(self, name: str, params: Params) -> None:
        self.send().run(name, params)

    def run_many(self, name: str, params: Sequence[Params]) -> None:
        self.send().run_many(name, params)

    def select(self, sql: str, params: Params) -> list[Row]:
        return self.send().select(sql, params)
