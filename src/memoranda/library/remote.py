"""A server as the backend of `Memoranda`: its tables of verbs, and the HTTP connections that they share.

`Remote` has one table of verbs for each standard, with the verbs, results and errors of a store of this process. A
table turns a call into one or more requests (`remote_verbs.py` and the modules after it) and sends them through
`ServerConnection`, which reads the answer and raises its errors as exceptions of this library. Tables other than UMP's
are imported when they are first used, because they load the services of their standard.

Promise: a program cannot tell a server from a store of its own process, apart from speed. So every verb, keyword,
result and error must be the same, and `tests/test_library_parity.py` compares both. If a verb gets a parameter, its row
carries it over HTTP, and nothing has to be written here.

Errors are rebuilt from their code (`_error`), in the form of their standard; an unknown code becomes a general error
with the server's message. Requests are never repeated: a write whose answer was lost may have happened.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlencode, urlsplit

import httpx2

from memoranda import __version__, errors
from memoranda.encoding.json_text import dump, parse
from memoranda.errors import InvalidInput, MemorandaError, RateLimited, StoreUnavailable
from memoranda.library import bridge
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
# Idle connections kept open: the threads or tasks of one program that send requests at the same time.
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
    headers: httpx2.Headers
    document: Any
    raw: bytes = b""


class ServerConnection:
    """A server's address, the key for it, and the connections that its requests share.

    A call from a thread waits for its answer. A call inside `bridge.run` lets other tasks of the loop run instead.

    Proxies of the environment are not used for addresses of this machine. An answer of more than _ANSWER_BYTES_LIMIT is
    refused.
    """

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
        self._headers = {"Accept": "application/json", "User-Agent": f"memoranda/{__version__}"}
        if key is not None:
            if not key.isascii() or not key.isprintable() or " " in key:
                raise InvalidInput("key must be an API key or a capability token")
            self._headers["Authorization"] = f"Bearer {key}"
        # Proxies are read from the environment; none of them reaches this machine's own addresses.
        self._options: dict[str, Any] = {
            "timeout": _REQUEST_TIMEOUT_SECONDS,
            "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=_IDLE_LIMIT),
            "trust_env": not _is_loopback(parts.hostname),
            "http2": find_spec("h2") is not None,
        }
        self._client = httpx2.Client(**self._options)
        # The client for the event loop that uses it first.
        self._async_client: httpx2.AsyncClient | None = None
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

        `query` may contain lists; None values are left out. Raises StoreUnavailable if there is no answer in time.
        """
        target = self.url + path + _query_string(query or {})
        data = body if body is None or isinstance(body, bytes) else dump(body)
        content_type = {} if data is None else {"Content-Type": "application/json"}
        request = httpx2.Request(
            method,
            target,
            content=data,
            headers={**self._headers, **content_type, **(headers or {})},
        )
        status, answer_headers, raw = self._exchange(request)
        if status < 400 and _media_type(answer_headers) != "application/json":
            return Answer(status=status, headers=answer_headers, document=None, raw=raw)
        document = self._parse(raw)
        if status >= 400:
            raise self._error(status, answer_headers, document)
        return Answer(status=status, headers=answer_headers, document=document)

    def try_request(
        self, method: str, path: str, body: object = None, *, is_anonymous: bool = False
    ) -> tuple[int, str, Any]:
        """Send a request and return any answer, also a refusal: status, media type, and document or bytes.

        For conformance checks, which need refusals as they are.
        """
        data = body if body is None or isinstance(body, bytes) else dump(body)
        media_type = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        headers = {} if data is None else {"Content-Type": media_type}
        own_headers = {
            name: value
            for name, value in self._headers.items()
            if not (is_anonymous and name == "Authorization")
        }
        request = httpx2.Request(
            method, self.url + path, content=data, headers={**own_headers, **headers}
        )
        status, answer_headers, raw = self._exchange(request)
        answer_type = _media_type(answer_headers)
        try:
            document = self._parse(raw) if answer_type.endswith("json") else raw
        except StoreUnavailable:
            document = raw
        return status, answer_type, document

    def close(self) -> None:
        """Close the connections, and refuse further requests."""
        self._is_closed = True
        self._client.close()
        if self._async_client is not None and bridge.is_active():
            bridge.wait(self._async_client.aclose())

    def _exchange(self, request: httpx2.Request) -> tuple[int, httpx2.Headers, bytes]:
        """Send one request, and return the status, the headers and the body of the answer."""
        if self._is_closed:
            raise StoreUnavailable("this memory was closed")
        try:
            if bridge.is_active():
                return bridge.wait(self._exchange_async(request))
            response = self._client.send(request, stream=True)
            try:
                body = bytearray()
                for chunk in response.iter_bytes():
                    self._append(body, chunk)
            finally:
                response.close()
        except httpx2.HTTPError as error:
            raise StoreUnavailable(f"{self.url} does not answer: {_reason_of(error)}") from None
        return response.status_code, response.headers, bytes(body)

    async def _exchange_async(self, request: httpx2.Request) -> tuple[int, httpx2.Headers, bytes]:
        """Send one request, and let other tasks run until its answer is there."""
        if self._async_client is None:
            self._async_client = httpx2.AsyncClient(**self._options)
        response = await self._async_client.send(request, stream=True)
        try:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                self._append(body, chunk)
        finally:
            await response.aclose()
        return response.status_code, response.headers, bytes(body)

    def _append(self, body: bytearray, chunk: bytes) -> None:
        """Append a part of an answer. Raises StoreUnavailable if the answer is too large."""
        body += chunk
        if len(body) > _ANSWER_BYTES_LIMIT:
            raise StoreUnavailable(
                f"{self.url}: the answer is over the limit of {_ANSWER_BYTES_LIMIT} bytes"
            )

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

    def _error(self, status: int, headers: httpx2.Headers, document: Any) -> MemorandaError:
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


def _is_loopback(host: str) -> bool:
    """Return True for the addresses of this machine that no proxy can reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reason_of(error: httpx2.HTTPError) -> str:
    """Return why a request got no answer."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return errors.words_of(cause)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.TimeoutException):
        return "it timed out"
    return "it ended without an answer"


def _media_type(headers: httpx2.Headers) -> str:
    """Return the media type of an answer without its parameters; that of plain text if it has none."""
    return str(headers.get("Content-Type", "text/plain")).partition(";")[0].strip().lower()


def _query_string(query: Mapping[str, object]) -> str:
    """Return the query of an address with its question mark; parameters that are None are left out."""
    parameters = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(parameters, doseq=True)}" if parameters else ""


def _retry_after_seconds(headers: httpx2.Headers) -> float:
    """Return the seconds in the header `Retry-After`; 1 without it, or if it is a date."""
    text = headers.get("Retry-After")
    return float(text) if text is not None and text.isdigit() else 1.0
