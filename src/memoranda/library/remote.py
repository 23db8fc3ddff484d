"""A server as the backend of `Memoranda`: its tables of verbs, and the HTTP connections that they share.

`Remote` has one table of verbs for each standard, with the verbs, results and errors of a store of this process. A
table turns a call into one or more requests (`remote_verbs.py` and the modules after it) and sends them through
`ServerConnection`, which reads the answer and raises its errors as exceptions of this library. Tables other than UMP's
are imported when they are first used, because they load the services of their standard.
"""

from __future__ import annotations

import select
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlencode, urlsplit

from memoranda import __version__, errors
from memoranda.encoding.json_text import dump, parse
from memoranda.errors import InvalidInput, MemorandaError, RateLimited, StoreUnavailable
from memoranda.library.remote_ump import RemoteUmp
from memoranda.model.instant import Instant
from memoranda.service.core.verbs import load_table
from memoranda.standards.oams import codes as oams_codes
from memoranda.standards.openwop import problem as openwop_problem

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.core.access import Access
    from memoranda.service.oams.oams import Oams
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.ump.ump import Ump

# Seconds for one request: a server queues it for at most 30, and answers within as many again.
_REQUEST_TIMEOUT_SECONDS: Final = 90.0
# Idle connections kept open: the threads of one program that send requests at the same time.
_IDLE_LIMIT: Final = 16
# Bytes of one answer: the largest are pages of a few mebibytes.
_ANSWER_BYTES_LIMIT: Final = 64 * 1_048_576
# Nested arrays and objects in one answer, so that parsing cannot exhaust the stack.
_DEPTH_LIMIT: Final = 200


class Remote:
    """One person's memory on a server; the key decides whose.

    Each table of verbs is typed as the one of a store, so that callers are checked against the verbs' own signatures.
    `tests/test_library_parity.py` compares the two.
    """

    def __init__(self, url: str, key: str | None) -> None:
        self._server = ServerConnection(url, key)

    @cached_property
    def owner(self) -> str:
        """The owner of the memory."""
        return str(self._server.get("/ump/stats")["owner"])

    @cached_property
    def ump(self) -> Ump[Access]:
        """The verbs of UMP."""
        return cast("Ump[Access]", RemoteUmp(self._server))

    @cached_property
    def oams(self) -> Oams[Access]:
        """The verbs of OAMS on the same memory."""
        table: Oams[Access] = load_table("memoranda.library.remote_oams:RemoteOams")(self._server)
        return table

    @cached_property
    def cal(self) -> Cal[Access]:
        """The verbs of CAL on the same memory."""
        table: Cal[Access] = load_table("memoranda.library.remote_cal:RemoteCal")(self._server)
        return table

    @cached_property
    def grains(self) -> Grains[Access]:
        """The verbs of OMS on the same memory."""
        table: Grains[Access] = load_table("memoranda.library.remote_grains:RemoteGrains")(
            self._server
        )
        return table

    @cached_property
    def openwop(self) -> Openwop[Access]:
        """The verbs of openwop on the same memory."""
        table: Openwop[Access] = load_table("memoranda.library.remote_openwop:RemoteOpenwop")(
            self._server
        )
        return table

    def now(self) -> Instant:
        """Return the time of this machine's clock."""
        return Instant(time.time_ns() // 1_000_000)

    def close(self) -> None:
        """Close all connections."""
        self._server.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A server's answer: status, headers, and either its JSON document or, for another media type, the bytes."""

    status: int
    headers: Message
    document: Any
    raw: bytes = b""


class ServerConnection:
    """A server's address, the key for it, and idle connections that any thread may use."""

    def __init__(self, url: str, key: str | None) -> None:
        parts = urlsplit(url)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.username
            or parts.query
        ):
            raise InvalidInput(
                f"{url!r} is not the address of a server, such as http://127.0.0.1:8420"
            )
        self.url = url.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json", "User-Agent": f"memoranda/{__version__}"}
        if key is not None:
            if not key.isascii() or not key.isprintable() or " " in key:
                raise InvalidInput("key must be an API key or a capability token")
            self._headers["Authorization"] = f"Bearer {key}"
        self._connect = _connection_factory(parts.scheme, parts.hostname, parts.port)
        # Any thread pops from the list and appends to it: each is one atomic step.
        self._idle: list[HTTPConnection] = []
        self._is_closed = False

    def get(self, path: str, **query: object) -> Any:
        """Return the document at a path."""
        return self.ask("GET", path, query=query).document

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and return the answer. Raises the error that the server answers with.

        A body of bytes is sent as it is, any other value as JSON.
        """
        target = self._prefix + path + _query_string(query or {})
        data = body if body is None or isinstance(body, bytes) else dump(body)
        content_type = {} if data is None else {"Content-Type": "application/json"}
        status, answer_headers, raw = self._exchange(
            method, target, data, {**self._headers, **content_type, **(headers or {})}
        )
        if status < 400 and answer_headers.get_content_type() != "application/json":
            return Answer(status=status, headers=answer_headers, document=None, raw=raw)
        document = self._parse(raw)
        if status >= 400:
            raise self._error(status, answer_headers, document)
        return Answer(status=status, headers=answer_headers, document=document)

    def try_request(
        self, method: str, path: str, body: object = None, *, is_anonymous: bool = False
    ) -> tuple[int, str, Any]:
        """Send a request and return any answer, also a refusal: status, media type, and document or bytes."""
        data = body if body is None or isinstance(body, bytes) else dump(body)
        media_type = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        headers = {} if data is None else {"Content-Type": media_type}
        own_headers = {
            name: value
            for name, value in self._headers.items()
            if not (is_anonymous and name == "Authorization")
        }
        status, answer_headers, raw = self._exchange(
            method, self._prefix + path, data, {**own_headers, **headers}
        )
        answer_type = answer_headers.get_content_type()
        try:
            document = self._parse(raw) if answer_type.endswith("json") else raw
        except StoreUnavailable:
            document = raw
        return status, answer_type, document

    def close(self) -> None:
        """Close the idle connections, and refuse further requests."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def _exchange(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, Message, bytes]:
        """Send one request, and return the status, the headers and the body of the answer."""
        if self._is_closed:
            raise StoreUnavailable("this memory was closed")
        connection = self._open_connection()
        try:
            connection.request(method, target, data, dict(headers))
            response = connection.getresponse()
            raw = response.read(_ANSWER_BYTES_LIMIT + 1)
        except (OSError, HTTPException) as error:
            connection.close()
            reason = "it ended without an answer"
            if isinstance(error, OSError):
                reason = errors.words_of(error)
            raise StoreUnavailable(f"{self.url} does not answer: {reason}") from None
        if len(raw) > _ANSWER_BYTES_LIMIT:
            connection.close()
            raise StoreUnavailable(
                f"{self.url}: the answer is over the limit of {_ANSWER_BYTES_LIMIT} bytes"
            )
        if response.will_close or len(self._idle) >= _IDLE_LIMIT:
            connection.close()
        else:
            self._idle.append(connection)
        return response.status, response.headers, raw

    def _open_connection(self) -> HTTPConnection:
        """Return an idle connection that is still open, or a new one.

        A connection that the server closed while it was idle is readable. It is dropped before a request is sent,
        because sending a request twice might write a memory twice.
        """
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()

    def _parse(self, raw: bytes) -> object:
        """Parse the JSON of an answer; None if it is empty."""
        if not raw:
            return None
        try:
            return parse(raw, max_bytes=_ANSWER_BYTES_LIMIT, max_depth=_DEPTH_LIMIT)
        except MemorandaError:
            raise StoreUnavailable(
                f"{self.url} does not answer as a Memoranda server does"
            ) from None

    def _error(self, status: int, headers: Message, document: Any) -> MemorandaError:
        """Return the exception for an answer that is an error; each standard writes its errors in its own form."""
        problem = document.get("error") if isinstance(document, dict) else None
        retry_after = _retry_after_seconds(headers)
        if isinstance(problem, str):
            return openwop_problem.error_of(document, retry_after_seconds=retry_after)
        if not isinstance(problem, dict):
            return StoreUnavailable(
                f"{self.url} does not answer as a Memoranda server does: status {status}"
            )
        code, message = problem.get("code"), str(problem.get("message", ""))
        if isinstance(code, int):
            return oams_codes.error_of(code, message, problem.get("data"))
        if str(code).startswith("CAL-"):
            return _query_error(problem, retry_after)
        message = message.removeprefix(f"{code}: ")
        if "oms_code" in problem:
            return errors.GrainError(message, oms_code=problem["oms_code"])
        kind = errors.BY_CODE.get(str(code), StoreUnavailable)
        if kind is RateLimited:
            return RateLimited(message, retry_after_seconds=retry_after)
        return kind(message)


def _query_error(problem: Mapping[str, Any], retry_after_seconds: float) -> MemorandaError:
    """Return the exception for an error in a CAL query, with its position in the query."""
    position = problem.get("position") or {}
    return errors.QueryError(
        str(problem.get("message", "")),
        cal_code=problem["code"],
        line=position.get("line", 1),
        column=position.get("col", 1),
        start=position.get("start", 0),
        end=position.get("end", 0),
        suggestion=problem.get("suggestion"),
        reason=problem.get("reason"),
        oms_error=problem.get("oms_error"),
        retry_after_seconds=retry_after_seconds,
    )


def _connection_factory(scheme: str, host: str, port: int | None) -> Callable[[], HTTPConnection]:
    """Return a function that opens a connection; those over TLS share one context."""
    if scheme == "http":
        return lambda: HTTPConnection(host, port, timeout=_REQUEST_TIMEOUT_SECONDS)
    context = ssl.create_default_context()
    return lambda: HTTPSConnection(host, port, timeout=_REQUEST_TIMEOUT_SECONDS, context=context)


def _query_string(query: Mapping[str, object]) -> str:
    """Return the query of an address with its question mark; parameters that are None are left out."""
    parameters = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(parameters, doseq=True)}" if parameters else ""


def _retry_after_seconds(headers: Message) -> float:
    """Return the seconds in the header `Retry-After`; 1 without it, or if it is a date."""
    text = headers.get("Retry-After")
    return float(text) if text is not None and text.isdigit() else 1.0
