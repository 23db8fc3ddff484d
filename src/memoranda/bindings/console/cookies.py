"""The cookies of the console: their names, and the notice that is bound to a session.

Cookies do not know ports: a program at another port of the same host can set ours and receives them. Over TLS the names
begin with `__Host-`, so that browsers accept them only from this host itself, over TLS and for all paths; a cookie with
the plain name is then not read. A notice carries a keyed hash under the session's token, so that nobody else can have
one shown.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, Literal
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from memoranda.bindings.console.visit import ROOT
from memoranda.service.core.sign_in import Session

COOKIE: Final = "memoranda_session"
# The cookie with a notice for the next page. It holds no content of memories.
NOTICE_COOKIE: Final = "memoranda_said"
# The cookie of a sign-in that is being completed at a provider.
PENDING_COOKIE: Final = "memoranda_signing_in"
# Characters of a notice; cookies hold little more.
NOTICE_CHARS_LIMIT: Final = 300
# Seconds in which the next page must be opened.
_NOTICE_SECONDS: Final = 60
_SECURE_PREFIX: Final = "__Host-"
# Bytes of the keyed hash of a notice.
_MAC_BYTES: Final = 16


def cookie_name(request: Request, name: str) -> str:
    """Return the name of a cookie as it is sent for a request."""
    return f"{_SECURE_PREFIX}{name}" if _is_secure(request) else name


def read_cookie(request: Request, name: str) -> str:
    """Return the value of a cookie; empty if there is none."""
    return request.cookies.get(cookie_name(request, name), "")


def set_cookie(
    response: Response,
    request: Request,
    name: str,
    value: str,
    *,
    seconds: int,
    path: str = ROOT,
    same_site: Literal["strict", "lax"] = "strict",
) -> None:
    """Set a cookie that scripts cannot read and other sites do not send."""
    is_secure = _is_secure(request)
    response.set_cookie(
        cookie_name(request, name),
        value,
        max_age=seconds,
        path=_path(request, path),
        httponly=True,
        samesite=same_site,
        secure=is_secure,
    )


def delete_cookie(response: Response, request: Request, name: str, *, path: str = ROOT) -> None:
    """Delete a cookie."""
    response.delete_cookie(
        cookie_name(request, name),
        path=_path(request, path),
        secure=_is_secure(request),
        httponly=True,
    )


def set_notice(response: Response, request: Request, session: Session, notice: str) -> None:
    """Send a notice to the next page of a session."""
    text = notice[:NOTICE_CHARS_LIMIT]
    value = f"{_seal_of(text, session)}.{quote(text)}"
    set_cookie(response, request, NOTICE_COOKIE, value, seconds=_NOTICE_SECONDS)


def read_notice(request: Request, session: Session | None) -> str:
    """Return the notice for a page; empty without a session, and if another program wrote it."""
    if session is None:
        return ""
    seal, _, quoted_text = read_cookie(request, NOTICE_COOKIE).partition(".")
    text = unquote(quoted_text)
    is_ours = hmac.compare_digest(seal.encode(), _seal_of(text, session).encode())
    return text if is_ours else ""


def _seal_of(text: str, session: Session) -> str:
    key = hashlib.blake2b(session.token.encode()).digest()
    return hashlib.blake2b(text.encode(), digest_size=_MAC_BYTES, key=key).hexdigest()


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"


def _path(request: Request, path: str) -> str:
    # The prefix of the name requires the path of the whole host.
    return "/" if _is_secure(request) else path
