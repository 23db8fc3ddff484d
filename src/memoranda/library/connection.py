"""Requests to a server, over connections that stay open, from any thread; and its errors as this library's own."""

from __future__ import annotations

import select
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

from memoranda import __version__, errors
from memoranda.encoding.json_text import dump, parse
from memoranda.errors import InvalidInput, MemorandaError, RateLimited, StoreUnavailable

# A server lets a request wait for half a minute, and answers within as much again.
_PATIENCE_SECONDS: Final = 90.0
# As many as are asked at once by the threads of one program; more are closed after use.
_IDLE_LIMIT: Final = 16
# The largest answers are pages of a few mebibytes.
_ANSWER_BYTES_LIMIT: Final = 64 * 1_048_576
_DEPTH_LIMIT: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said: its status, its headers, and its JSON, if it has any, or the bytes of something else."""

    status: int
    headers: Message
    document: Any
    raw: bytes = b""


class Connection:
    """A server, and the key for it."""

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
        self._new = _opener(parts.scheme, parts.hostname, parts.port)
        # Taken from and put back to by any thread; a list does each in one step.
        self._idle: list[HTTPConnection] = []
        self._is_closed = False

    def get(self, path: str, **query: Any) -> Any:
        """What is at a path."""
        return self.ask("GET", path, query=query).document

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """What a server answers. Raises what it refuses with."""
        target = self._prefix + path + _encoded(query or {})
        data = body if body is None or isinstance(body, bytes) else dump(body)
        kind = {} if data is None else {"Content-Type": "application/json"}
        status, said, raw = self._exchange(
            method, target, data, {**self._headers, **kind, **(headers or {})}
        )
        if status < 400 and said.get_content_type() != "application/json":
            return Answer(status=status, headers=said, document=None, raw=raw)
        document = self._read(raw)
        if status >= 400:
            raise self._error(status, said, document)
        return Answer(status=status, headers=said, document=document)

    def close(self) -> None:
        """Close what is open."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def _exchange(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, Message, bytes]:
        if self._is_closed:
            raise StoreUnavailable("this memory was closed")
        connection = self._take()
        try:
            connection.request(method, target, data, dict(headers))
            response = connection.getresponse()
            raw = response.read(_ANSWER_BYTES_LIMIT + 1)
        except (OSError, HTTPException) as error:
            connection.close()
            why = (
                errors.words_of(error)
                if isinstance(error, OSError)
                else "it ended without an answer"
            )
            raise StoreUnavailable(f"{self.url} does not answer: {why}") from None
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

    def _take(self) -> HTTPConnection:
        """A connection that is open, or a new one. What a server closed while it was idle is noticed before it is
        used: to send a request a second time might write a memory twice."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._new()
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()

    def _read(self, raw: bytes) -> Any:
        if not raw:
            return None
        try:
            return parse(raw, max_bytes=_ANSWER_BYTES_LIMIT, max_depth=_DEPTH_LIMIT)
        except MemorandaError:
            raise StoreUnavailable(
                f"{self.url} does not answer as a Memoranda server does"
            ) from None

    def _error(self, status: int, headers: Message, document: Any) -> MemorandaError:
        said = document.get("error") if isinstance(document, dict) else None
        if isinstance(said, str):
            from memoranda.standards.openwop.problem import error_of as openwop_error

            return openwop_error(document, retry_after_seconds=_seconds(headers.get("Retry-After")))
        if not isinstance(said, dict):
            return StoreUnavailable(
                f"{self.url} does not answer as a Memoranda server does: status {status}"
            )
        code, message = said.get("code"), str(said.get("message", ""))
        if isinstance(code, int):
            from memoranda.standards.oams.codes import error_of

            return error_of(code, message, said.get("data"))
        if str(code).startswith("CAL-"):
            return _query_error(said, headers)
        if "oms_code" in said:
            return errors.GrainError(message.removeprefix(f"{code}: "), oms_code=said["oms_code"])
        kind = errors.BY_CODE.get(str(code), StoreUnavailable)
        message = message.removeprefix(f"{code}: ")
        if kind is RateLimited:
            return RateLimited(message, retry_after_seconds=_seconds(headers.get("Retry-After")))
        return kind(message)


def _query_error(said: Mapping[str, Any], headers: Message) -> MemorandaError:
    """What was wrong with a query, and where."""
    place = said.get("position") or {}
    return errors.QueryError(
        str(said.get("message", "")),
        cal_code=said["code"],
        line=place.get("line", 1),
        column=place.get("col", 1),
        start=place.get("start", 0),
        end=place.get("end", 0),
        suggestion=said.get("suggestion"),
        reason=said.get("reason"),
        oms_error=said.get("oms_error"),
        retry_after_seconds=_seconds(headers.get("Retry-After")),
    )


def _opener(scheme: str, host: str, port: int | None) -> Callable[[], HTTPConnection]:
    if scheme == "http":
        return lambda: HTTPConnection(host, port, timeout=_PATIENCE_SECONDS)
    context = ssl.create_default_context()
    return lambda: HTTPSConnection(host, port, timeout=_PATIENCE_SECONDS, context=context)


def _encoded(query: Mapping[str, Any]) -> str:
    from urllib.parse import urlencode

    given = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(given, doseq=True)}" if given else ""


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdigit() else 1.0
