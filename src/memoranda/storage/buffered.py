"""A connection that keeps rows back and adds them together: one statement for a batch instead of one for each row.

Only a unit of work uses it, and only for rows that nothing reads before the next query: every query that is not such an
addition first sends what waits. The unit's last statement is a query, so nothing is left behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoranda.storage.database import Connection, Params, Row


class Buffered:
    """A connection with rows that wait."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: dict[str, list[Params]] = {}
        self.dialect = connection.dialect
        self.memo = connection.memo

    def add_later(self, name: str, params: Params) -> None:
        """Add a row before the next query."""
        self._waiting.setdefault(name, []).append(params)

    def add_now(self, name: str, params: Params) -> Row:
        """Add a row whose key is needed; what waits does not matter to it."""
        (row,) = self._connection.rows(name, params)
        return row

    def _send(self) -> Connection:
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for name, rows in waiting.items():
                self._connection.run_many(name, rows)
        return self._connection

    def rows(self, name: str, params: Params) -> list[Row]:
        return self._send().rows(name, params)

    def row(self, name: str, params: Params) -> Row | None:
        return self._send().row(name, params)

    def run(self, name: str, params: Params) -> None:
        self._send().run(name, params)

    def run_many(self, name: str, params: Sequence[Params]) -> None:
        self._send().run_many(name, params)

    def select(self, sql: str, params: Params) -> list[Row]:
        return self._send().select(sql, params)
