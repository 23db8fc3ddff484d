"""Statements on one connection to PostgreSQL, prepared once and sent together.

Theory of operation. A round trip to the server costs two process switches, and much more time than most statements. So
statements are queued in a pipeline (libpq's pipeline mode) and sent when a result is needed. If one fails, the server
skips the others up to the next synchronisation point, and `receive`, which waits for that point, raises the error.

psycopg has a pipeline, too. Its work for every statement (cursors, adapters, checks for changes by others) took half
of the time of a write, and most of it is not needed here.
"""

from __future__ import annotations

import select
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import adapt, errors, pq

from memoranda.errors import InvalidInput
from memoranda.storage.engine.database import Row, without_nul

# Statements that stay prepared on every connection.
STATEMENTS_LIMIT: Final = 300
# Cached forms: combinations of a statement and the types of its values. Each optional value doubles their number.
FORMS_LIMIT: Final = 4_096

_OK: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
# The type number that lets the server infer the type of a parameter.
_UNKNOWN: Final = 0
_pack_integer: Final = struct.Struct("!q").pack


class WholeNumbers(bytes):
    """An array of bigint in PostgreSQL's binary form (clear_matrix.py)."""

    __slots__ = ()


class Reals(bytes):
    """An array of real in PostgreSQL's binary form (clear_matrix.py)."""

    __slots__ = ()


# A function that returns a value in PostgreSQL's binary form. Which type it takes depends on the key of _ENCODERS.
_Encoder: TypeAlias = Callable[[Any], bytes | None]
# The types of a statement's parameters, and the encoder of each.
_Form: TypeAlias = tuple[tuple[int, ...], tuple[_Encoder, ...]]


def _has_nul(value: object) -> bool:
    return isinstance(value, str) and "\x00" in value


def _type_number(name: str) -> int:
    return psycopg.postgres.types[name].oid


# The PostgreSQL type and the encoder of each Python type. Flags are integers, as on SQLite.
_ENCODERS: Final[dict[type, tuple[int, _Encoder]]] = {
    bool: (_type_number("int8"), _pack_integer),
    int: (_type_number("int8"), _pack_integer),
    float: (_type_number("float8"), struct.Struct("!d").pack),
    str: (_type_number("text"), lambda text: without_nul(text).encode()),
    bytes: (_type_number("bytea"), lambda data: data),
    memoryview: (_type_number("bytea"), bytes),
    WholeNumbers: (psycopg.postgres.types["int8"].array_oid, lambda data: data),
    Reals: (psycopg.postgres.types["float4"].array_oid, lambda data: data),
    # The type of the parameter's last value is used instead.
    type(None): (_UNKNOWN, lambda _: None),
}


def _find_encoder(kind: type) -> tuple[int, _Encoder]:
    """Return the PostgreSQL type and the encoder of a Python type or of its nearest base class."""
    return next(_ENCODERS[base] for base in kind.__mro__ if base in _ENCODERS)


class Statements:
    """The pipeline of statements to one server."""

    def __init__(self, raw: psycopg.Connection[Row]) -> None:
        self._server = raw.pgconn
        self._rows = adapt.Transformer(raw)
        # Names of prepared statements by text and parameter types, the least recently used first.
        self._names: OrderedDict[tuple[str, tuple[int, ...]], bytes] = OrderedDict()
        self._count = 0
        # The last known parameter types of a statement: a missing value gets the type of the value before it.
        self._types: dict[str, list[int]] = {}
        # Forms by statement and the Python types of its values.
        self._forms: dict[tuple[str, tuple[type, ...]], _Form] = {}
        # For each statement sent: True if its rows are wanted.
        self._sent_flags: list[bool] = []
        # Statements sent to be prepared, but not confirmed yet.
        self._unconfirmed: list[tuple[str, tuple[int, ...]]] = []
        self._has_unread_results = False
        # True if a result was not read to its end: the connection cannot be used any more.
        self.is_lost = False
        self._socket_poll = select.poll()
        self._socket_poll.register(self._server.socket, select.POLLIN)

    def send(self, sql: str, values: Sequence[object], *, returns_rows: bool = False) -> None:
        """Queue a statement. With `returns_rows`, `receive` returns its rows."""
        self._enter_pipeline()
        try:
            types, data = self._encode(sql, values)
        except InvalidInput:
            if not returns_rows:
                raise
            # PostgreSQL text cannot hold NUL, so a lookup with one finds nothing.
            types, data = self._encode(
                sql, [None if _has_nul(value) else value for value in values]
            )
        self._server.send_query_prepared(self._prepare(sql, types), data, [1] * len(data), 1)
        self._sent_flags.append(returns_rows)

    def _encode(
        self, sql: str, values: Sequence[object]
    ) -> tuple[tuple[int, ...], list[bytes | None]]:
        kinds = tuple(map(type, values))
        types, encoders = self._forms.get((sql, kinds)) or self._add_form(sql, kinds)
        return types, [encode(value) for encode, value in zip(encoders, values, strict=True)]

    def command(self, sql: str) -> None:
        """Queue a statement without parameters and rows."""
        self.send(sql, ())

    def receive(self) -> list[list[Row]]:
        """Wait for the results of all statements sent, and return the rows of those that return rows.

        Raises the error of the first statement that failed.
        """
        if not self._has_unread_results:
            self._server.pipeline_sync()
        sent_flags, self._sent_flags, self._has_unread_results = self._sent_flags, [], False
        try:
            results, failure = self._read_results(sent_flags)
        except BaseException:
            # The remaining results would be taken for the results of later statements.
            self.is_lost = True
            raise
        self._confirm_prepared(failure)
        return results

    def _read_results(self, sent_flags: list[bool]) -> tuple[list[list[Row]], psycopg.Error | None]:
        """Return the rows of each statement that returns rows, and the first error."""
        row_lists: list[list[Row]] = []
        failure: psycopg.Error | None = None
        results = list(iter(self._next_before_sync, None))
        for returns_rows, result in zip(sent_flags, results, strict=True):
            if result.status in _OK:
                if returns_rows:
                    row_lists.append(self._load_rows(result))
            elif result.status != pq.ExecStatus.PIPELINE_ABORTED and failure is None:
                failure = errors.error_from_result(result)
            self._last = result
        return row_lists, failure

    def _next_before_sync(self) -> pq.abc.PGresult | None:
        """Return the next result, or None at the synchronisation point."""
        result = self._next_result()
        return None if result.status == pq.ExecStatus.PIPELINE_SYNC else result

    def send_all(self) -> None:
        """Send the queued statements without waiting; their results are read before the next statement."""
        self._server.pipeline_sync()
        self._has_unread_results = True
        while self._server.flush():
            self._wait_for_socket()

    def find_refused(self, texts: Sequence[str]) -> tuple[int, psycopg.Error] | None:
        """Let the server parse statements; return the position of the first that it refuses, and its error, or None."""
        self._enter_pipeline()
        assert not self._sent_flags, "earlier results would be taken for these"
        for sql in texts:
            # Statements without a name replace one another.
            self._server.send_prepare(b"", sql.encode())
        self._server.pipeline_sync()
        try:
            results = list(iter(self._next_before_sync, None))
        except BaseException:
            self.is_lost = True
            raise
        for position, result in enumerate(results):
            if result.status not in _OK:
                return position, errors.error_from_result(result)
        return None

    @property
    def last_command(self) -> bytes:
        """The server's command tag of the last statement, such as COMMIT."""
        return self._last.command_status or b""

    def leave(self) -> None:
        """Leave the pipeline mode, so that psycopg can use the connection."""
        if self._server.pipeline_status:
            self._server.exit_pipeline_mode()

    def _enter_pipeline(self) -> None:
        if self._has_unread_results:
            self.receive()
        if not self._server.pipeline_status:
            self._server.enter_pipeline_mode()

    def _add_form(self, sql: str, kinds: tuple[type, ...]) -> _Form:
        """Return the form of a statement for values of these Python types, and cache it."""
        last_types = self._types.setdefault(sql, [_UNKNOWN] * len(kinds))
        types, encoders = zip(*map(_find_encoder, kinds), strict=True) if kinds else ((), ())
        pairs = list(zip(types, last_types, strict=True))
        resolved_types = tuple(value_type or last for value_type, last in pairs)
        self._types[sql] = [last or value_type for value_type, last in pairs]
        if len(self._forms) >= FORMS_LIMIT:
            self._forms.clear()
        self._forms[sql, kinds] = resolved_types, encoders
        return resolved_types, encoders

    def _prepare(self, sql: str, types: tuple[int, ...]) -> bytes:
        """Return the name of the prepared statement; have it prepared first if it is new."""
        key = sql, types
        name = self._names.get(key)
        if name is not None:
            self._names.move_to_end(key)
            return name
        self._count += 1
        name = self._names[key] = b"m%d" % self._count
        self._server.send_prepare(name, sql.encode(), list(types))
        self._sent_flags.append(False)
        self._unconfirmed.append(key)
        if len(self._names) > STATEMENTS_LIMIT:
            (dropped_sql, _), oldest = self._names.popitem(last=False)
            self._types.pop(dropped_sql, None)
            self._forms = {key: form for key, form in self._forms.items() if key[0] != dropped_sql}
            self._server.send_query_params(b"DEALLOCATE " + oldest, None)
            self._sent_flags.append(False)
        return name

    def _confirm_prepared(self, failure: psycopg.Error | None) -> None:
        """Raise the error, if there is one, and forget the names of statements prepared in the failed pipeline."""
        new_forms, self._unconfirmed = self._unconfirmed, []
        if failure is not None:
            for key in new_forms:
                # The server may have skipped it.
                self._names.pop(key, None)
            raise failure

    def _load_rows(self, result: pq.abc.PGresult) -> list[Row]:
        self._rows.set_pgresult(result, set_loaders=True, format=pq.Format.BINARY)
        return self._rows.load_rows(0, result.ntuples, tuple)

    def _next_result(self) -> pq.abc.PGresult:
        server = self._server
        while True:
            while server.flush():
                self._wait_for_socket()
            while server.is_busy():
                self._socket_poll.poll()
                server.consume_input()
            result = server.get_result()
            if result is not None:
                return result
            # None ends the results of one statement. A lost connection returns it forever.
            if server.status == pq.ConnStatus.BAD:
                raise psycopg.OperationalError("the connection to the server is lost")

    def _wait_for_socket(self) -> None:
        """Wait until the socket can be read or written: the server may read on only after we have read."""
        waiting = select.poll()
        waiting.register(self._server.socket, select.POLLIN | select.POLLOUT)
        if any(event & select.POLLIN for _, event in waiting.poll()):
            self._server.consume_input()
