"""The console behind the server: who has signed in, forms that are our own, pages, and what goes wrong in words.

The guard has checked host, origin and size before. A page is made in one thread, like every answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote

import jinja2
from starlette.background import BackgroundTask
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from memoranda import __version__
from memoranda.bindings.console import ask, govern, graph, memories, moving, review, words
from memoranda.bindings.console.texts import Texts, texts_for
from memoranda.bindings.console.visit import ROOT, Answer, File, Page, Redirect, Show, Upload, Visit
from memoranda.bindings.http import wire
from memoranda.bindings.http.limits import SCAN_SLOTS, ScanSlot, TokenBuckets
from memoranda.bindings.http.threads import Threads
from memoranda.bindings.http.ump import refuse
from memoranda.errors import ForbiddenScope, InvalidInput, MemorandaError, RateLimited, Unauthorized
from memoranda.service.core.access import Access
from memoranda.service.core.sign_in import IDLE_MS, Session
from memoranda.service.service import Service

COOKIE: Final = "memoranda_session"
# Said once, on the next page; nothing of a memory is in it.
SAID: Final = "memoranda_said"
SIGN_IN: Final = f"{ROOT}/sign-in"
ENTER: Final = f"{ROOT}/enter"
FIELDS_LIMIT: Final = 1_000
SAID_CHARS_LIMIT: Final = 300
SMALL_BYTES: Final = 16_384
FORM_BYTES: Final = 2_097_152
# A file that is taken in lies on the disk meanwhile.
FILE_BYTES: Final = 1_073_741_824
# So long one may have the turn of others without anything being done.
FILE_SECONDS: Final = 600.0
PIECE_BYTES: Final = 65_536
# What the script says with whatever it asks by itself.
LIVE: Final = "x-memoranda-live"
# Wrong keys from one address: a few at once, then one every ten seconds.
FAILURES_RATE: Final = 0.1
FAILURES_BURST: Final = 10

_log = logging.getLogger(__name__)

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    # To us alone; with no-referrer browsers would not say where a form comes from.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HTML: Final = "text/html; charset=utf-8"
_STATIC: Final = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}

# What is shown where, and what a form does.
PAGES: Final[Mapping[str, Show]] = {
    "/": memories.listed,
    "/latest": memories.latest,
    "/memory/{id}": memories.shown,
    "/memory/{id}/views": memories.views,
    "/memory/{id}/readers": memories.readers,
    "/memory/{id}/export": memories.export,
    "/ask": ask.asked,
    "/ask/check": ask.checked,
    "/graph": graph.drawn,
    "/review": review.waiting,
    "/keys": govern.keys,
    "/audit": govern.audit,
    "/overview": govern.overview,
    "/rules": govern.rules,
    "/moving": moving.moving,
    "/timeline": memories.timeline,
}
FORMS: Final[Mapping[str, Show]] = {
    "/remember": memories.remember,
    "/forget": memories.forget,
    "/undo": memories.undo,
    "/memory/{id}/revise": memories.revise,
    "/memory/{id}/forget": memories.forget,
    "/memory/{id}/hold": memories.hold,
    "/review/{id}/approve": review.approve,
    "/review/{id}/reject": review.reject,
    "/review/{id}/revise": review.revise,
    "/review/refuse": review.refuse,
    "/review/right": review.keep_right,
    "/review/redact": review.take_out,
    "/review/allow": review.allow,
    "/review/undo": review.undo,
    "/review": review.conclude,
    "/export": moving.export,
    "/import": moving.import_file,
    "/import/undo": moving.undo,
    "/rules": govern.set_rules,
    "/keys": govern.add_key,
    "/keys/{id}/revoke": govern.revoke_key,
    "/tokens": govern.mint_token,
    "/tokens/revoke": govern.revoke_token,
    "/sessions/{id}/end": govern.end_session,
}

# What has everything read: few at once.
LONG: Final = frozenset(
    (
        moving.export,
        moving.import_file,
        moving.undo,
        review.waiting,
        review.conclude,
        review.refuse,
        govern.overview,
    )
)


class Console:
    """All pages, over an open service."""

    def __init__(
        self, service: Service, threads: Threads, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service = service
        self._threads = threads
        self._failures = TokenBuckets(rate=FAILURES_RATE, burst=FAILURES_BURST, clock=clock)
        self.routes = [
            Route(ROOT, _to_first, methods=["GET"]),
            Route(SIGN_IN, self._sign_in, methods=["GET", "POST"]),
            Route(ENTER, self._enter, methods=["GET"]),
            Route(f"{ROOT}/sign-out", self._sign_out, methods=["POST"]),
            Route(f"{ROOT}/static/{{name}}", self._static, methods=["GET"]),
            *(
                Route(ROOT + path, self._handler(show), methods=["GET"])
                for path, show in PAGES.items()
            ),
            *(
                Route(ROOT + path, self._handler(do), methods=["POST"])
                for path, do in FORMS.items()
            ),
            Route(
                f"{ROOT}/{{path:path}}", _nowhere, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]
            ),
        ]

    def _handler(self, show: Show) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            form: dict[str, list[str]] = {}
            upload = None
            # Who has not signed in is not listened to.
            if (
                request.method == "POST"
                and (refused := await self._threads.run(self._refused, request)) is not None
            ):
                return refused
            turn = ScanSlot(SCAN_SLOTS if show in LONG else None)
            try:
                if request.method == "POST":
                    try:
                        # Before a file is: it may be large.
                        turn.take(texts_of(request)("wrong.busy"))
                        form, upload = await _form(
                            request, FILE_BYTES if show is moving.import_file else FORM_BYTES
                        )
                    except MemorandaError as error:
                        return _wrong(error, request)
                return await self._threads.run(self._answer, request, form, upload, show, turn)
            finally:
                if turn.finish() and upload is not None:
                    upload.body.close()

        return handle

    def _known(self, request: Request) -> tuple[Session, Access]:
        # What a page asks by itself is not somebody who is there.
        is_used = LIVE not in request.headers
        return self._service.sessions.authenticate(request.cookies.get(COOKIE, ""), is_used=is_used)

    def _refused(self, request: Request) -> Response | None:
        try:
            self._known(request)
        except Unauthorized as error:
            return _wrong(error, request)
        return None

    def _answer(
        self,
        request: Request,
        form: Mapping[str, list[str]],
        upload: Upload | None,
        show: Show,
        turn: ScanSlot,
    ) -> Response:
        try:
            session, access = self._known(request)
        except Unauthorized as error:
            if request.method == "GET":
                return _go(f"{SIGN_IN}?next={quote(_own_path(request), safe='')}")
            return _wrong(error, request)
        try:
            turn.take(texts_of(request)("wrong.busy"))
            if request.method == "POST" and not _is_ours(form, session):
                raise ForbiddenScope(texts_of(request)("wrong.not_ours"))
            visit = Visit(
                service=self._service,
                access=access,
                session=session,
                text=texts_of(request),
                path=request.url.path,
                names=request.path_params,
                query=_fields(request.url.query.encode("latin-1", "replace")),
                form=form,
                upload=upload,
                over=turn.release,
            )
            return self._shown(show(visit), request, session, access, visit, turn)
        except MemorandaError as error:
            return _wrong(error, request, session, access)
        # A person sees a page, whatever happens.
        except Exception:  # noqa: BLE001
            _log.exception("unexpected failure in a page of the console")
            told = {"message": texts_of(request)("wrong.unexpected")}
            return _render(
                Page(template="wrong.html", told=told, status=500), request, session, access
            )

    def _shown(
        self,
        answer: Answer,
        request: Request,
        session: Session,
        access: Access,
        visit: Visit,
        turn: ScanSlot,
    ) -> Response:
        if isinstance(answer, Redirect):
            return _go(answer.path, said=answer.said)
        if isinstance(answer, File):
            kept = (
                {"Content-Disposition": f'attachment; filename="{answer.name}"'}
                if answer.name
                else {}
            )
            headers = {**_HEADERS, **kept}
            if isinstance(answer.body, bytes):
                return Response(answer.body, headers=headers, media_type=answer.media_type)
            pieces = iter(partial(answer.body.read, PIECE_BYTES), b"")
            end = BackgroundTask(answer.body.close)
            return StreamingResponse(
                pieces, headers=headers, media_type=answer.media_type, background=end
            )
        told = {**answer.told, "visit": visit, "now": self._service.context.clock()}
        if answer.is_slow:
            turn.hand_over()
            told |= _told(request, session, access, "")
            return StreamingResponse(
                _templates().get_template(answer.template).generate(told),
                headers=_HEADERS,
                media_type=_HTML,
            )
        page = Page(template=answer.template, told=told, status=answer.status)
        return _render(page, request, session, access)

    # --- coming in and going ---------------------------------------------------------------------------------

    async def _sign_in(self, request: Request) -> Response:
        target = _target(request.query_params.get("next", ""))
        if request.method == "GET":
            return _render(
                Page(template="sign_in.html", told={"target": target, "wrong": ""}), request
            )
        form = _fields(await _small_body(request))
        key, target = (form.get("key") or [""])[0].strip(), _target((form.get("next") or [""])[0])
        return await self._threads.run(
            self._come_in,
            request,
            lambda: self._service.sessions.sign_in(key),
            target,
            "sign_in.unknown_key",
        )

    async def _enter(self, request: Request) -> Response:
        link = request.query_params.get("link", "")
        return await self._threads.run(
            self._come_in,
            request,
            lambda: self._service.sessions.follow_link(link),
            ROOT + "/",
            "sign_in.dead_link",
        )

    def _come_in(
        self, request: Request, sign_in: Callable[[], str], target: str, wrong: str
    ) -> Response:
        address = request.client.host if request.client else ""
        try:
            sealed = sign_in()
        except Unauthorized as error:
            if wait := self._failures.take(address):
                refused = RateLimited(retry_after_seconds=wait)
                page = Page(template="wrong.html", told={"message": refused.message}, status=429)
                return _render(page, request)
            told = {"target": target, "wrong": texts_of(request)(wrong, why=error.message)}
            return _render(Page(template="sign_in.html", told=told, status=401), request)
        response = _go(target)
        _keep(response, request, COOKIE, sealed, IDLE_MS // 1_000 * 24)
        return response

    async def _sign_out(self, request: Request) -> Response:
        form = _fields(await _small_body(request))

        def end() -> None:
            session, access = self._known(request)
            if _is_ours(form, session):
                self._service.sessions.end_session(access, session, session.grant_id)

        with suppress(Unauthorized):
            await self._threads.run(end)
        response = _go(SIGN_IN, said=texts_of(request)("sign_in.signed_out"))
        response.delete_cookie(COOKIE, path=ROOT)
        return response

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            return await _nowhere(request)
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(_file(name), headers=headers, media_type=_STATIC[name])


async def _to_first(_request: Request) -> Response:
    return _go(ROOT + "/")


async def _nowhere(request: Request) -> Response:
    told = {"message": texts_of(request)("wrong.nowhere")}
    return _render(Page(template="wrong.html", told=told, status=404), request)


async def _small_body(request: Request) -> bytes:
    """What somebody sends who has not signed in."""
    wire.check_length(request.scope, SMALL_BYTES)
    return await wire.read_body(wire.limit_body(request.receive, SMALL_BYTES))


def _is_ours(form: Mapping[str, list[str]], session: Session) -> bool:
    """Whether a form has the token of the session."""
    return hmac.compare_digest((form.get("token") or [""])[0].encode(), session.token.encode())


async def _form(request: Request, max_bytes: int) -> tuple[dict[str, list[str]], Upload | None]:
    """What a form says, and the file that it brings. Raises InvalidInput and TooLarge."""
    wire.check_length(request.scope, max_bytes)
    receive = wire.limit_body(request.receive, max_bytes)
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        return _fields(await wire.read_body(receive)), None
    try:
        async with asyncio.timeout(FILE_SECONDS):
            # Not closed here: the file is read by whoever answers.
            given = await Request(request.scope, receive).form(max_files=1, max_fields=FIELDS_LIMIT)
    except HTTPException:
        raise InvalidInput("the form cannot be read") from None
    except TimeoutError:
        raise InvalidInput(f"the file took longer than {FILE_SECONDS:.0f} s") from None
    fields = {
        name: [each for each in given.getlist(name) if isinstance(each, str)] for name in given
    }
    file = next((each for _, each in given.multi_items() if isinstance(each, UploadFile)), None)
    upload = None if file is None else Upload(file.filename or "", file.file, file.size or 0)
    return fields, upload


def _fields(body: bytes) -> dict[str, list[str]]:
    """What a form or a query says. Raises InvalidInput."""
    try:
        return parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=FIELDS_LIMIT)
    except ValueError:
        raise InvalidInput("the form cannot be read") from None


def texts_of(request: Request) -> Texts:
    """The words of the language that the browser asks for."""
    return texts_for(request.headers.get("accept-language", ""))


def _own_path(request: Request) -> str:
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path


def _target(path: str) -> str:
    """Return the page to open after signing in: the given one if it is ours, else the first."""
    # It begins with our own path, so it can name no other host; browsers read a backslash as a slash.
    is_ours = path.startswith(f"{ROOT}/") and path.isprintable() and "\\" not in path
    return path if is_ours else ROOT + "/"


def _go(path: str, *, said: str = "") -> Response:
    response = RedirectResponse(path, 303, _HEADERS)
    if said:
        response.set_cookie(
            SAID,
            quote(said[:SAID_CHARS_LIMIT]),
            max_age=60,
            path=ROOT,
            httponly=True,
            samesite="strict",
        )
    return response


def _keep(response: Response, request: Request, name: str, value: str, seconds: int) -> None:
    is_secure = request.url.scheme == "https"
    response.set_cookie(
        name, value, max_age=seconds, path=ROOT, httponly=True, samesite="strict", secure=is_secure
    )


# --- pages -------------------------------------------------------------------------------------------------------


def _wrong(
    error: MemorandaError,
    request: Request,
    session: Session | None = None,
    access: Access | None = None,
) -> Response:
    status, _ = refuse(error)
    return _render(
        Page(template="wrong.html", told={"message": error.message}, status=status),
        request,
        session,
        access,
    )


def _told(
    request: Request, session: Session | None, access: Access | None, said: str
) -> dict[str, Any]:
    """What every page is told."""
    text = texts_of(request)
    told = {"session": session, "access": access, "said": said, "here": request.url.path}
    return {**told, "t": text, "rich": text.rich}


def _render(
    page: Page, request: Request, session: Session | None = None, access: Access | None = None
) -> Response:
    said = unquote(request.cookies.get(SAID, ""))[:SAID_CHARS_LIMIT]
    told = {**page.told, **_told(request, session, access, said)}
    response = Response(
        _templates().get_template(page.template).render(told), page.status, _HEADERS, _HTML
    )
    if said:
        response.delete_cookie(SAID, path=ROOT)
    return response


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.PackageLoader("memoranda.bindings.console")
    made = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    # Records have what they have: most of what can be said of a memory is not said of every one.
    made.undefined = jinja2.ChainableUndefined
    made.filters |= {
        "ago": words.ago,
        "iso": words.iso,
        "day": words.day,
        "path": lambda text: quote(text, safe=""),
    }
    made.globals |= {"root": ROOT, "version": __version__, "static": _static_path}
    return made


@cache
def _file(name: str) -> bytes:
    return (files("memoranda.bindings.console") / "static" / name).read_bytes()


@cache
def _static_path(name: str) -> str:
    """With its hash in the address, so that it can be kept for good."""
    return f"{ROOT}/static/{name}?{hashlib.sha256(_file(name)).hexdigest()[:12]}"
