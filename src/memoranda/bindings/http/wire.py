"""Requests and answers as ASGI messages: bodies, queries, JSON and errors."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Collection, Iterable, Sequence
from urllib.parse import parse_qsl

from starlette.types import Message, Receive, Scope, Send

from memoranda.errors import InvalidInput, MemorandaError, QueryError, RateLimited, TooLarge

Header = tuple[bytes, bytes]

JSON = "application/json"
# RFC 9728: where a protected resource says who gives out tokens for it.
PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")

# A body of the largest size over a slow mobile line; a slower sender holds a connection for nothing.
BODY_SECONDS_LIMIT = 30.0
# Most requests are smaller; as many as there may be connections fit in memory.
SMALL_BODY_BYTES = 65_536
# An answer goes out in pieces of this size, so that what is not read is noticed.
PIECE_BYTES = 65_536
# More than any route knows.
QUERY_FIELDS_LIMIT = 32


class ClientGone(Exception):
    """The client went away before its request was complete; there is nobody to answer."""


async def send_bytes(
    send: Send, status: int, body: bytes, headers: Iterable[Header] = (), *, media_type: str = JSON
) -> None:
    """Answer with a whole body: a JSON text, unless another type is named."""
    start = [
        (b"content-type", media_type.encode("ascii")),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def error_headers(error: MemorandaError, status: int, challenge: str = "") -> list[Header]:
    """What HTTP says beside an error, in whichever form that is; `challenge` is said to who has no good credential."""
    headers: list[Header] = []
    if error.code == "unauthorized":
        headers.append(
            (b"www-authenticate", f'Bearer realm="memoranda"{challenge}'.encode("latin-1"))
        )
    # Too much was asked, or the store is away for a moment.
    if status in (429, 503):
        seconds = error.retry_after_seconds if isinstance(error, RateLimited | QueryError) else 1.0
        headers.append((b"retry-after", str(math.ceil(seconds)).encode()))
    return headers


def header(scope: Scope, name: bytes) -> str | None:
    """The only value of a header; None if it is absent. One that is given twice is refused."""
    found: bytes | None = None
    for key, value in scope["headers"]:
        if key == name:
            if found is not None:
                # Two programs on the way could each believe another one.
                raise InvalidInput(f"the header {name.decode()} is given twice")
            found = value
    return None if found is None else found.decode("latin-1").strip()


def base_url(scope: Scope) -> str:
    """The address under which the server was reached, without a path."""
    host = header(scope, b"host") or ""
    if not _HOST.fullmatch(host):
        raise InvalidInput("the header host is no host")
    return f"{scope['scheme']}://{host.lower()}"


def query(scope: Scope) -> dict[str, str]:
    """The query's fields. One that is given twice is refused."""
    return {name: texts[0] for name, texts in query_lists(scope).items()}


def query_lists(scope: Scope, several: Collection[str] = ()) -> dict[str, list[str]]:
    """The query's fields, each with its texts. One that is given twice is refused, unless it takes several."""
    fields: dict[str, list[str]] = {}
    for name, text in query_pairs(scope):
        fields.setdefault(name, []).append(text)
    if any(len(texts) > 1 and name not in several for name, texts in fields.items()):
        raise InvalidInput("a field of the query is given twice")
    return fields


def query_pairs(scope: Scope) -> list[tuple[str, str]]:
    """The query's fields in their order, where some may be given more than once."""
    raw: bytes = scope["query_string"]
    if not raw:
        return []
    try:
        return parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=QUERY_FIELDS_LIMIT,
        )
    except ValueError:
        raise InvalidInput(
            "the query is not percent-encoded UTF-8, or has too many fields"
        ) from None


def check_length(scope: Scope, max_bytes: int) -> None:
    """Refuse a body that says it is too large, before any of it is read."""
    stated = stated_length(scope)
    if stated is not None and stated > max_bytes:
        raise TooLarge(f"the body is over the limit of {max_bytes} bytes")


def bounded(receive: Receive, max_bytes: int) -> Receive:
    """Stop receiving where the limit is passed, whatever length was stated."""
    total = 0

    async def receive_within_limit() -> Message:
        nonlocal total
        message = await receive()
        if message["type"] == "http.request":
            total += len(message.get("body", b""))
            if total > max_bytes:
                raise TooLarge(f"the body is over the limit of {max_bytes} bytes")
        return message

    return receive_within_limit


def stated_length(scope: Scope) -> int | None:
    """What the body says of its length."""
    stated = header(scope, b"content-length")
    return int(stated[:20]) if stated is not None and stated.isdecimal() else None


def is_small(scope: Scope) -> bool:
    """Whether the body says that it is small."""
    stated = stated_length(scope)
    return stated is not None and stated <= SMALL_BODY_BYTES


def bare(media_type: str) -> str:
    """A media type without its parameters."""
    return media_type.partition(";")[0].strip().lower()


def quality(part: str) -> float:
    """The weight of one entry of an Accept header (RFC 9110 12.4.2); what cannot be read as one weighs nothing."""
    for parameter in part.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0


def preferred(accept: str, offered: Sequence[str]) -> str:
    """Which of the offered media types an Accept header prefers; the first where it leaves that open."""
    best = dict.fromkeys(offered, (0.0, 0))
    for part in accept.split(","):
        name = bare(part)
        for media_type in offered:
            # What is named counts before what is only allowed.
            for rank, matching in enumerate(
                ("*/*", f"{media_type.partition('/')[0]}/*", media_type)
            ):
                if name == matching:
                    best[media_type] = max(best[media_type], (quality(part), rank))
    return max(offered, key=best.__getitem__)


async def read_body(receive: Receive) -> bytes:
    """The whole body of a request."""
    parts: list[bytes] = []
    is_more = True
    try:
        async with asyncio.timeout(BODY_SECONDS_LIMIT):
            while is_more:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGone
                parts.append(message.get("body", b""))
                is_more = message.get("more_body", False)
    except TimeoutError:
        raise InvalidInput(f"the body took longer than {BODY_SECONDS_LIMIT:.0f} s") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)
