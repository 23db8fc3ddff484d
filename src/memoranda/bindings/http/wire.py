"""Requests and answers as ASGI messages: bodies, queries, headers, and plain HTML pages.

Everything here runs before anyone is known, so each reading has a limit: the length of a body is checked before and
while it arrives, a slow body is cut off, and the number of fields in a query is bounded. A header or field that occurs
twice is refused, because a proxy might have checked the other one. Limits belong here and not in handlers.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Message, Receive, Scope, Send

from memoranda.errors import InvalidInput, MemorandaError, QueryError, RateLimited, TooLarge

Header = tuple[bytes, bytes]

JSON = "application/json"
HTML: Final = "text/html; charset=utf-8"
# RFC 9728: the document in which a protected resource names its authorization server.
PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")

# Seconds for a body: one of the largest size takes that long over a slow mobile line.
BODY_SECONDS_LIMIT = 30.0
# Bytes of a small body. Most are smaller, and one for each possible connection fits in memory.
SMALL_BODY_BYTES = 65_536
# Bytes of an answer that are sent at a time, so that a client that does not read is noticed.
CHUNK_BYTES = 65_536
# Fields of a query; no route has more.
QUERY_FIELDS_LIMIT = 32

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34em;margin:4em auto;padding:0 1em}"
    "pre{overflow-x:auto;padding:.6em;border:1px solid light-dark(#ccc,#555);border-radius:.3em}"
    "input{width:100%;box-sizing:border-box;font:inherit;padding:.4em}"
    "button{font:inherit;padding:.4em 1.2em;margin:1em 1em 0 0}.wrong{color:light-dark(#a00,#f77)}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


class ClientGone(Exception):
    """The client disconnected before its request was complete, so there is nobody to answer."""


async def send_bytes(
    send: Send, status: int, body: bytes, headers: Iterable[Header] = (), *, media_type: str = JSON
) -> None:
    """Send an answer with its complete body."""
    start = [
        (b"content-type", media_type.encode("ascii")),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def error_headers(error: MemorandaError, status: int, challenge: str = "") -> list[Header]:
    """Return the headers of an error. `challenge` adds parameters to the WWW-Authenticate header of a 401."""
    headers: list[Header] = []
    if error.code == "unauthorized":
        headers.append(
            (b"www-authenticate", f'Bearer realm="memoranda"{challenge}'.encode("latin-1"))
        )
    # Too many requests, or the store is unavailable for a moment.
    if status in (429, 503):
        seconds = error.retry_after_seconds if isinstance(error, RateLimited | QueryError) else 1.0
        headers.append((b"retry-after", str(math.ceil(seconds)).encode()))
    return headers


def read_header(scope: Scope, name: bytes) -> str | None:
    """Return the value of a header; None if it is absent. Raises InvalidInput if it occurs twice."""
    first: bytes | None = None
    for key, value in scope["headers"]:
        if key == name:
            if first is not None:
                # A proxy and this server could each use another of the two values.
                raise InvalidInput(f"the header {name.decode()} is given twice")
            first = value
    return None if first is None else first.decode("latin-1").strip()


def base_url(scope: Scope) -> str:
    """Return the URL by which the client reached the server, without a path. Raises InvalidInput for a bad Host."""
    host = read_header(scope, b"host") or ""
    if not _HOST.fullmatch(host):
        raise InvalidInput("the header host is invalid")
    return f"{scope['scheme']}://{host.lower()}"


def parse_query(scope: Scope) -> dict[str, str]:
    """Return the fields of the query. Raises InvalidInput if one occurs twice."""
    return {name: texts[0] for name, texts in parse_query_lists(scope).items()}


def parse_query_lists(scope: Scope, several: Collection[str] = ()) -> dict[str, list[str]]:
    """Return the fields of the query with their values. Only those in `several` may occur more than once.

    Raises InvalidInput for any other field that occurs twice.
    """
    fields: dict[str, list[str]] = {}
    for name, text in parse_query_pairs(scope):
        fields.setdefault(name, []).append(text)
    if any(len(texts) > 1 and name not in several for name, texts in fields.items()):
        raise InvalidInput("a field of the query is given twice")
    return fields


def parse_query_pairs(scope: Scope) -> list[tuple[str, str]]:
    """Return the fields of the query in their order, with repetitions.

    Raises InvalidInput if the query is not percent-encoded UTF-8, or has too many fields.
    """
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
    """Raise TooLarge for a body with a stated length over the limit, before any of it is read."""
    stated_bytes = stated_length(scope)
    if stated_bytes is not None and stated_bytes > max_bytes:
        raise TooLarge(f"the body is over the limit of {max_bytes} bytes")


def limit_body(receive: Receive, max_bytes: int) -> Receive:
    """Return `receive` with a limit: it raises TooLarge beyond that many bytes, whatever length was stated."""
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
    """Return the Content-Length of a request; None if there is none."""
    header = read_header(scope, b"content-length")
    return int(header[:20]) if header is not None and header.isdecimal() else None


def is_small(scope: Scope) -> bool:
    """Return True if the stated length of the body is small."""
    content_length = stated_length(scope)
    return content_length is not None and content_length <= SMALL_BODY_BYTES


def bare_media_type(media_type: str) -> str:
    """Return a media type without its parameters."""
    return media_type.partition(";")[0].strip().lower()


def parse_quality(part: str) -> float:
    """Return the weight of an entry of an Accept header (RFC 9110 12.4.2); 0 for a malformed one."""
    for parameter in part.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0


def prefer_media_type(accept: str, offered: Sequence[str]) -> str:
    """Return the offered media type that an Accept header prefers; the first if it has no preference."""
    best = dict.fromkeys(offered, (0.0, 0))
    for part in accept.split(","):
        name = bare_media_type(part)
        for media_type in offered:
            # An exact name counts before a wildcard.
            for rank, matching in enumerate(
                ("*/*", f"{media_type.partition('/')[0]}/*", media_type)
            ):
                if name == matching:
                    best[media_type] = max(best[media_type], (parse_quality(part), rank))
    return max(offered, key=best.__getitem__)


async def read_body(receive: Receive) -> bytes:
    """Return the complete body of a request. Raises ClientGone, and InvalidInput if it takes too long."""
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


def render_page(title: str, body: str) -> str:
    """Return an HTML page with one style and no script."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Memoranda: {html.escape(title)}</title><style>{_STYLE}</style>{body}"
    )


def page_headers(form_targets: str = "'none'") -> dict[str, str]:
    """Return headers that allow no script and no frame, and forms only to these targets."""
    policy = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'"
    return {
        "Content-Security-Policy": f"{policy}; form-action {form_targets}",
        "X-Frame-Options": "DENY",
        # With no-referrer, browsers would not send the origin of a form either.
        "Referrer-Policy": "same-origin",
    }
