"""Statements on one connection to PostgreSQL: prepared once, sent together, answered together.

Theory of operation. To ask and to wait for the answer costs two processes their turn on the machine, and much more than
the statement itself. So statements are put in a line (libpq's pipeline mode), and go to the server when an answer is
needed. What fails there makes the server skip the rest up to the place where we wait, and is raised there.

psycopg has a pipeline, too; of what it does for every statement (cursors, adapters, what may have been changed by
others) we need little, and it took half of the time of a write.
"""

from __future__ import annotations

import select
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import adapt, errors, pq

from memoranda.errors import InvalidInput
from memoranda.storage.engine.database import Row, without_nul

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memoranda.retrieval.segment import Floats


# So many statements stay prepared on every connection.
STATEMENTS_LIMIT: Final = 300
# What is known of their values, which may be missing in many ways.
FORMS_LIMIT: Final = 4_096

_OK: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_UNKNOWN: Final = 0
_number: Final = struct.Struct("!q").pack


# One dimension, nothing missing, the type of the elements; then how many there are, counted from 1.
_HEAD: Final = struct.Struct("!iiIii")
_INT8: Final = 20
_FLOAT4: Final = 700


class WholeNumbers(bytes):
    """An array of bigint."""

    __slots__ = ()


class Reals(bytes):
    """An array of real."""

    __slots__ = ()


def whole_numbers(numbers: NDArray[np.int64]) -> WholeNumbers:
    """Numbers as a parameter."""
    return WholeNumbers(_packed(numbers, ">i8", _INT8))


def reals(numbers: Floats) -> Reals:
    """Numbers as a parameter."""
    return Reals(_packed(numbers, ">f4", _FLOAT4))


def _packed(numbers: NDArray[np.int64] | Floats, kind: str, element: int) -> bytes:
    import numpy as np

    made = np.empty(len(numbers), [("length", ">i4"), ("value", kind)])
    made["length"], made["value"] = np.dtype(kind).itemsize, numbers
    return _HEAD.pack(1, 0, element, len(numbers), 1) + made.tobytes()


def read_whole_numbers(data: bytes | None) -> NDArray[np.int64]:
    """Numbers that came; of nothing there are none."""
    import numpy as np

    return _values(data, ">i8").astype(np.int64)


def read_reals(data: bytes | None) -> Floats:
    """Numbers that came; of nothing there are none."""
    import numpy as np

    return _values(data, ">f4").astype(np.float32)


def _values(data: bytes | None, kind: str) -> NDArray[np.generic]:
    import numpy as np

    element = np.dtype([("length", ">i4"), ("value", kind)])
    # An array of nothing has no dimension, and its head ends before that.
    rest = b"" if data is None else memoryview(data)[_HEAD.size :]
    values: NDArray[np.generic] = np.frombuffer(rest, element)["value"]
    return values


# The types of a statement's parameters, and what makes their bytes.
_Form = tuple[tuple[int, ...], tuple[Callable[[Any], bytes | None], ...]]


def _has_nul(value: object) -> bool:
    return isinstance(value, str) and "\x00" in value


def _type(name: str) -> int:
    return psycopg.postgres.types[name].oid


# What a value is to PostgreSQL, and its bytes there. Flags are numbers, as on SQLite.
_ENCODED: Final[dict[type, tuple[int, Callable[[Any], bytes | None]]]] = {
    bool: (_type("int8"), _number),
    int: (_type("int8"), _number),
    float: (_type("float8"), struct.Struct("!d").pack),
    str: (_type("text"), lambda text: without_nul(text).encode()),
    bytes: (_type("bytea"), lambda data: data),
    memoryview: (_type("bytea"), bytes),
    WholeNumbers: (psycopg.postgres.types["int8"].array_oid, lambda data: data),
    Reals: (psycopg.postgres.types["float4"].array_oid, lambda data: data),
    # It has the type that the parameter had before.
    type(None): (_UNKNOWN, lambda _: None),
}


def _encoding(kind: type) -> tuple[int, Callable[[Any], bytes | None]]:
    """The same of a type that may be derived from one of those."""
    return next(_ENCODED[each] for each in kind.__mro__ if each in _ENCODED)


class Statements:
    """A line of statements to one server."""

    def __init__(self, raw: psycopg.Connection[Row]) -> None:
        self._server = raw.pgconn
        self._rows = adapt.Transformer(raw)
        self._names: OrderedDict[tuple[str, tuple[int, ...]], bytes] = OrderedDict()
        self._count = 0
        # What is known of the types of a statement's parameters: one that is missing has the type that it had before.
        self._types: dict[str, list[int]] = {}
        # Of a statement with values of such types: the types there, and what makes the bytes of each.
        self._forms: dict[tuple[str, tuple[type, ...]], _Form] = {}
        # Of each that was sent, whether it was a question; and which were prepared among them.
        self._sent: list[bool] = []
        self._new: list[tuple[str, tuple[int, ...]]] = []
        self._has_left = False
        # Something was not heard to its end: the connection is of no use any more.
        self.is_lost = False
        self._ready = select.poll()
        self._ready.register(self._server.socket, select.POLLIN)

    def send(self, sql: str, values: Sequence[Any], *, is_asked: bool = False) -> None:
        """Put a statement in the line; whoever asks gets its rows from `answers`."""
        self._enter()
        try:
            types, data = self._encoded(sql, values)
        except InvalidInput:
            if not is_asked:
                raise
            # No text here has NUL in it, so none equals one that has: what is looked up by it is not found.
            types, data = self._encoded(sql, [None if _has_nul(each) else each for each in values])
        self._server.send_query_prepared(self._name(sql, types), data, [1] * len(data), 1)
        self._sent.append(is_asked)

    def _encoded(
        self, sql: str, values: Sequence[Any]
    ) -> tuple[tuple[int, ...], list[bytes | None]]:
        kinds = tuple(map(type, values))
        types, encoders = self._forms.get((sql, kinds)) or self._form(sql, kinds)
        return types, [encode(value) for encode, value in zip(encoders, values, strict=True)]

    def command(self, sql: str) -> None:
        """Put a statement in the line that has no parameters and tells nothing."""
        self.send(sql, ())

    def answers(self) -> list[list[Row]]:
        """Wait for all that was sent; the rows of each question. Raises what was wrong with the first that failed."""
        if not self._has_left:
            self._server.pipeline_sync()
        sent, self._sent, self._has_left = self._sent, [], False
        try:
            found, failure = self._received(sent)
        except BaseException:
            # What is still to come would be taken for the answer to something else.
            self.is_lost = True
            raise
        self._settle(failure)
        return found

    def _received(self, sent: list[bool]) -> tuple[list[list[Row]], psycopg.Error | None]:
        found: list[list[Row]] = []
        failure: psycopg.Error | None = None
        results = list(iter(self._next_of_line, None))
        for is_asked, result in zip(sent, results, strict=True):
            if result.status in _OK:
                if is_asked:
                    found.append(self._loaded(result))
            elif result.status != pq.ExecStatus.PIPELINE_ABORTED and failure is None:
                failure = errors.error_from_result(result)
            self._last = result
        return found, failure

    def _next_of_line(self) -> pq.abc.PGresult | None:
        result = self._next()
        return None if result.status == pq.ExecStatus.PIPELINE_SYNC else result

    def let_go(self) -> None:
        """Send all; what comes of it is looked at before the next statement."""
        self._server.pipeline_sync()
        self._has_left = True
        while self._server.flush():
            self._wait()

    def find_refused(self, texts: Sequence[str]) -> tuple[int, psycopg.Error] | None:
        """Have the server parse statements and keep none; return the position of the first that it refuses, and why."""
        self._enter()
        assert not self._sent, "what was sent before would be taken for the answer"
        for sql in texts:
            # Without a name each replaces the one before it.
            self._server.send_prepare(b"", sql.encode())
        self._server.pipeline_sync()
        try:
            results = list(iter(self._next_of_line, None))
        except BaseException:
            self.is_lost = True
            raise
        for position, result in enumerate(results):
            if result.status not in _OK:
                return position, errors.error_from_result(result)
        return None

    @property
    def last_command(self) -> bytes:
        """What the last statement came to, in the server's words."""
        return self._last.command_status or b""

    def leave(self) -> None:
        """Let psycopg use the connection."""
        if self._server.pipeline_status:
            self._server.exit_pipeline_mode()

    def _enter(self) -> None:
        if self._has_left:
            self.answers()
        if not self._server.pipeline_status:
            self._server.enter_pipeline_mode()

    def _form(self, sql: str, kinds: tuple[type, ...]) -> _Form:
        known = self._types.setdefault(sql, [_UNKNOWN] * len(kinds))
        types, encoders = zip(*map(_encoding, kinds), strict=True) if kinds else ((), ())
        made = tuple(given or before for given, before in zip(types, known, strict=True))
        self._types[sql] = [before or given for given, before in zip(types, known, strict=True)]
        if len(self._forms) >= FORMS_LIMIT:
            self._forms.clear()
        self._forms[sql, kinds] = made, encoders
        return made, encoders

    def _name(self, sql: str, types: tuple[int, ...]) -> bytes:
        """What a statement is called, which is prepared first if need be."""
        key = sql, types
        name = self._names.get(key)
        if name is not None:
            self._names.move_to_end(key)
            return name
        self._count += 1
        name = self._names[key] = b"m%d" % self._count
        self._server.send_prepare(name, sql.encode(), list(types))
        self._sent.append(False)
        self._new.append(key)
        if len(self._names) > STATEMENTS_LIMIT:
            (left, _), oldest = self._names.popitem(last=False)
            self._types.pop(left, None)
            self._forms = {form: made for form, made in self._forms.items() if form[0] != left}
            self._server.send_query_params(b"DEALLOCATE " + oldest, None)
            self._sent.append(False)
        return name

    def _settle(self, failure: psycopg.Error | None) -> None:
        new, self._new = self._new, []
        if failure is not None:
            for key in new:
                # The server may have skipped it.
                self._names.pop(key, None)
            raise failure

    def _loaded(self, result: pq.abc.PGresult) -> list[Row]:
        self._rows.set_pgresult(result, set_loaders=True, format=pq.Format.BINARY)
        return self._rows.load_rows(0, result.ntuples, tuple)

    def _next(self) -> pq.abc.PGresult:
        server = self._server
        while True:
            while server.flush():
                self._wait()
            while server.is_busy():
                self._ready.poll()
                server.consume_input()
            result = server.get_result()
            if result is not None:
                return result
            # That was the end of one statement, or of everything.
            if server.status == pq.ConnStatus.BAD:
                raise psycopg.OperationalError("the connection to the server is lost")

    def _wait(self) -> None:
        """Until something can be sent or received: the server may wait for us to read before it does."""
        waiting = select.poll()
        waiting.register(self._server.socket, select.POLLIN | select.POLLOUT)
        if any(event & select.POLLIN for _, event in waiting.poll()):
            self._server.consume_input()
