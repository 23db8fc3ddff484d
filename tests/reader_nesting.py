"""That nobody who reads asks for a second snapshot meanwhile.

There are few readers' places. If all of them are held by those who wait for one more, nobody gets on; and two snapshots
of one request can differ. While tests run, every snapshot that the product opens is watched.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from memoranda.storage.engine.database import Connection
from memoranda.storage.sqlite.database import SqliteDatabase

_BETWEEN: Final = ("contextlib.py", "sql_engine.py", "reader_nesting.py")


@dataclass(slots=True)
class Watch:
    """Sees who opens a snapshot while another of the same store is open in the same thread."""

    nested: list[str] = field(default_factory=list)
    _open: threading.local = field(default_factory=threading.local)
    _reading: Any = None

    def install(self) -> None:
        self._reading = SqliteDatabase.open_snapshot
        watch = self

        def reading(database: SqliteDatabase, tenant: str | None = None) -> AbstractContextManager[Connection]:
            return watch.watched(database, tenant)

        SqliteDatabase.open_snapshot = reading  # type: ignore[assignment,method-assign]

    def remove(self) -> None:
        SqliteDatabase.open_snapshot = self._reading  # type: ignore[method-assign]

    @contextmanager
    def watched(self, database: SqliteDatabase, tenant: str | None) -> Iterator[Connection]:
        opened: list[tuple[SqliteDatabase, str]] = self._open.__dict__.setdefault("opened", [])
        here = (database, _who(sys._getframe()))
        outer = [who for each, who in opened if each is database and who]
        if here[1] and outer:
            self.nested.append(f"{here[1]} reads while {outer[-1]} does")
        opened.append(here)
        try:
            with self._reading(database, tenant) as connection:
                yield connection
        finally:
            opened.remove(here)


def _who(frame: FrameType | None) -> str:
    """The function of the product that asks for a snapshot; nothing if a test does."""
    while frame is not None and frame.f_code.co_filename.endswith(_BETWEEN):
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return f"{name}.{frame.f_code.co_qualname}" if frame is not None and name.startswith("memoranda.") else ""
