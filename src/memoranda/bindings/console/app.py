"""The application of the console: sessions, forms, pages and errors.

The guard has checked Host and Origin before. Each request takes these steps: load the session of the cookie, check the
token of a form, call the function of the page with a `Visit`, and render its answer. All of that runs in one thread
per request. A signed-out person gets the sign-in page.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, quote

import jinja2
import msgspec
from markupsafe import Markup
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from memoranda import __version__
from memoranda.bindings.console import looks, transfer
from memoranda.bindings.console.cookies import (
    COOKIE,
    NOTICE_COOKIE,
    PENDING_COOKIE,
    delete_cookie,
    read_cookie,
    read_notice,
    set_cookie,
    set_notice,
)
from memoranda.bindings.console.inbox import KINDS, Inboxes
from memoranda.bindings.console.live import LiveFeeds, LiveStream
from memoranda.bindings.console.markdown import render_line, render_markdown
from memoranda.bindings.console.pages import FORMS, PAGES, SCANS
from memoranda.bindings.console.resources import resource_folder
from memoranda.bindings.console.texts import (
    Texts,
    format_age,
    format_day,
    format_iso,
    texts_for,
)
from memoranda.bindings.console.uploads import FILE_BYTES, FILES_LIMIT
from memoranda.bindings.console.visit import (
    ROOT,
    UNDO_MARK,
    Answer,
    File,
    PageHandler,
    Redirect,
    TemplatePage,
    Upload,
    Visit,
)
from memoranda.bindings.http import wire
from memoranda.bindings.http.limits import SCAN_SLOTS, ScanSlot, TokenBuckets
from memoranda.bindings.http.threads import Threads
from memoranda.bindings.http.ump import refuse
from memoranda.errors import ForbiddenScope, InvalidInput, MemorandaError, RateLimited, Unauthorized
from memoranda.service.core.access import Access
from memoranda.service.core.people import ProviderSettings
from memoranda.service.core.sign_in import IDLE_MS, Session
from memoranda.service.service import Service

if TYPE_CHECKING:
    from memoranda.bindings.console.oidc import Accounts

SIGN_IN: Final = f"{ROOT}/sign-in"
ENTER: Final = f"{ROOT}/enter"
# Signing in with an account of a provider (OpenID Connect): the start, and the address to which the provider answers.
ACCOUNTS: Final = f"{ROOT}/oidc"
CALLBACK: Final = f"{ACCOUNTS}/callback"
# Seconds in which a person signs in at the provider.
PENDING_SECONDS: Final = 600
# Fields of a form; selecting many memories sends one field for each.
FIELDS_LIMIT: Final = 1_000
# The field of the address of the sign-in page for a person who has just signed out.
SIGNED_OUT: Final = "signed-out"
# Bytes of the body of a person who has not signed in, and of a form.
SMALL_BYTES: Final = 16_384
FORM_BYTES: Final = 2_097_152
# Bytes of a part of an uploaded file, with its form; the script sends four mebibytes at a time.
PART_BYTES: Final = 8_388_608
# Bytes of the body of some forms; uploaded files are stored on disk.
_BODY_BYTES: Final[Mapping[PageHandler, int]] = {
    transfer.import_file: FILE_BYTES,
    transfer.stage_part: PART_BYTES,
}
# Seconds that an upload may take; it occupies a scan slot meanwhile.
FILE_SECONDS: Final = 600.0
# Bytes of a file that are sent at a time.
CHUNK_BYTES: Final = 65_536
# Marks where a part of a page ends. No stored text can contain it.
_FLUSH: Final = Markup(f"<!--{secrets.token_hex(16)}-->")  # noqa: S704
# The header that marks requests which the script sends by itself.
LIVE_HEADER: Final = "x-memoranda-live"
# Wrong keys per second and address, and at once: a few, then one every ten seconds.
FAILURES_RATE: Final = 0.1
FAILURES_BURST: Final = 10

# Sign-ins with accounts per second and address, and at once. Each asks the provider: the address of an office may begin
# many, but not a program that asks for nothing else.
SIGN_INS_RATE: Final = 2.0
SIGN_INS_BURST: Final = 60

_log = logging.getLogger(__name__)

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    # With no-referrer, browsers would not send the origin of a form either.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATIC: Final = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "explore.css": "text/css",
    "graph.js": "text/javascript",
    "timeline.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "icons.svg": "image/svg+xml",
}


def _load_accounts(service: Service, provider: ProviderSettings) -> Accounts:
    # Loads PyJWT, which only servers with a provider need.
    from memoranda.bindings.console.oidc import Accounts

    return Accounts(service, provider)


class Console:
    """The routes of all pages, over an open service."""

    def __init__(
        self,
        service: Service,
        threads: Threads,
        clock: Callable[[], float] = time.monotonic,
        *,
        provider: ProviderSettings | None = None,
    ) -> None:
        self._service = service
        self._live = LiveFeeds()
        self._accounts = None if provider is None else _load_accounts(service, provider)
        self._threads = threads
        self._inboxes = Inboxes()
        self._failures = TokenBuckets(rate=FAILURES_RATE, burst=FAILURES_BURST, clock=clock)
        # Used on the event loop only.
        self._sign_ins = TokenBuckets(rate=SIGN_INS_RATE, burst=SIGN_INS_BURST, clock=clock)
        self.routes = [
            Route(ROOT, _redirect_to_start, methods=["GET"]),
            Route(SIGN_IN, self._sign_in, methods=["GET", "POST"]),
            Route(ENTER, self._enter, methods=["GET"]),
            Route(f"{ROOT}/sign-out", self._sign_out, methods=["POST"]),
            Route(f"{ROOT}/static/{{name}}", self._static, methods=["GET"]),
            Route(f"{ROOT}/events", self._stream_events, methods=["GET"]),
            *([] if self._accounts is None else self._account_routes()),
            *(
                Route(ROOT + path, self._handler(show), methods=["GET"])
                for path, show in PAGES.items()
            ),
            *(
                Route(ROOT + path, self._handler(handle), methods=["POST"])
                for path, handle in FORMS.items()
            ),
            Route(
                f"{ROOT}/{{path:path}}",
                _not_found,
                methods=["GET", "POST", "PUT", "DELETE", "PATCH"],
            ),
        ]

    def stop_streams(self) -> None:
        """End every stream of events, so that the server can stop."""
        self._live.close()

    def _handler(self, show: PageHandler) -> Callable[[Request], object]:
        """Return the endpoint that calls a function of a page or form."""

        async def handle(request: Request) -> Response:
            form: dict[str, list[str]] = {}
            uploads: list[Upload] = []
            if request.method == "POST":
                # The body of a signed-out person is not read.
                refusal = await self._threads.run(self._refuse_signed_out, request)
                if refusal is not None:
                    return refusal
            slot = ScanSlot(SCAN_SLOTS if show in SCANS else None)
            try:
                if request.method == "POST":
                    try:
                        # Taken before the body is read, because a file may be large.
                        slot.take(texts_of(request)("wrong.busy"))
                        form, uploads = await _parse_form(
                            request, _BODY_BYTES.get(show, FORM_BYTES)
                        )
                    except MemorandaError as error:
                        return _error_page(error, request)
                return await self._threads.run(self._handle, request, form, uploads, show, slot)
            finally:
                slot.finish()
                for upload in uploads:
                    upload.body.close()

        return handle

    def _load_session(self, request: Request, *, is_stream: bool = False) -> tuple[Session, Access]:
        """Return the session of a request and its access. Raises Unauthorized."""
        # Requests that the script sends by itself do not prolong a session, and neither do streams.
        is_used = LIVE_HEADER not in request.headers and not is_stream
        return self._service.sessions.authenticate(read_cookie(request, COOKIE), is_used=is_used)

    def _refuse_signed_out(self, request: Request) -> Response | None:
        """Return the error page for a person who has not signed in; None for the others."""
        try:
            self._load_session(request)
        except Unauthorized as error:
            return _error_page(error, request)
        return None

    def _handle(
        self,
        request: Request,
        form: Mapping[str, list[str]],
        uploads: Sequence[Upload],
        show: PageHandler,
        slot: ScanSlot,
    ) -> Response:
        """Check the session and the form, call the function of the page, and render its answer."""
        try:
            session, access = self._load_session(request)
        except Unauthorized as error:
            if request.method == "GET":
                return _redirect(f"{SIGN_IN}?next={quote(_own_path(request), safe='')}")
            return _error_page(error, request)
        try:
            slot.take(texts_of(request)("wrong.busy"))
            if request.method == "POST" and not _has_session_token(form, session):
                raise ForbiddenScope(texts_of(request)("wrong.not_ours"))
            visit = Visit(
                service=self._service,
                access=access,
                session=session,
                text=texts_of(request),
                path=request.url.path,
                names=request.path_params,
                query=_parse_fields(request.url.query.encode("latin-1", "replace")),
                form=form,
                uploads=uploads,
                inboxes=self._inboxes,
                on_finish=slot.release,
            )
            return self._respond(show(visit), request, session, access, visit, slot)
        except MemorandaError as error:
            return _error_page(error, request, session, access)
        # An outermost handler: unexpected errors are logged, and the person sees an error page.
        except Exception:  # noqa: BLE001
            _log.exception("unexpected failure in a page of the console")
            context = {"message": texts_of(request)("wrong.unexpected")}
            page = TemplatePage(template="wrong.html", context=context, status=500)
            return _render(page, request, session, access)

    def _respond(
        self,
        answer: Answer,
        request: Request,
        session: Session,
        access: Access,
        visit: Visit,
        slot: ScanSlot,
    ) -> Response:
        """Return the response for the answer of a page."""
        if isinstance(answer, Redirect):
            response = _redirect(answer.path)
            if answer.notice:
                set_notice(response, request, session, answer.notice)
            return response
        if isinstance(answer, File):
            return _send_file(answer)
        context = {**answer.context, "visit": visit, "now": self._service.context.clock()}
        if answer.is_slow:
            # The work behind the page releases the slot.
            slot.hand_over()
            context |= _page_context(request, session, access, "")
            return StreamingResponse(
                _templates().get_template(answer.template).generate(context),
                headers=_HEADERS,
                media_type=wire.HTML,
            )
        page = msgspec.structs.replace(answer, context=context)
        return _render(page, request, session, access)

    # --- signing in and out ---------------------------------------------------------------------------------

    async def _sign_in(self, request: Request) -> Response:
        """Show the sign-in page, or start a session with the key in its form."""
        target = _safe_target(request.query_params.get("next", ""))
        if request.method == "GET":
            has_left = SIGNED_OUT in request.query_params
            notice = texts_of(request)("sign_in.signed_out") if has_left else ""
            context = self._sign_in_context(target, wrong="")
            page = TemplatePage(template="sign_in.html", context=context)
            return _render(page, request, notice=notice)
        form = _parse_fields(await _read_small_body(request))
        key, target = (
            (form.get("key") or [""])[0].strip(),
            _safe_target((form.get("next") or [""])[0]),
        )
        return await self._threads.run(
            self._start_session,
            request,
            lambda: self._service.sessions.sign_in(key),
            target,
            "sign_in.unknown_key",
        )

    async def _enter(self, request: Request) -> Response:
        """Start a session with a sign-in link."""
        link = request.query_params.get("link", "")
        return await self._threads.run(
            self._start_session,
            request,
            lambda: self._service.sessions.follow_link(link),
            ROOT + "/",
            "sign_in.dead_link",
        )

    def _sign_in_context(self, target: str, *, wrong: str) -> dict[str, object]:
        """Return the context of the sign-in page."""
        provider = "" if self._accounts is None else self._accounts.name
        return {"target": target, "wrong": wrong, "provider": provider, "accounts": ACCOUNTS}

    def _start_session(
        self,
        request: Request,
        sign_in: Callable[[], str],
        target: str,
        wrong: str,
        *,
        is_foreign: bool = False,
    ) -> Response:
        """Set the cookie of a new session, or show why there is none. Wrong credentials are rate-limited.

        `is_foreign`: the browser comes from another site.
        """
        address = request.client.host if request.client else ""
        try:
            sealed_session = sign_in()
        except Unauthorized as error:
            if wait := self._failures.take(address):
                refused = RateLimited(retry_after_seconds=wait)
                page = TemplatePage(
                    template="wrong.html", context={"message": refused.message}, status=429
                )
                return _render(page, request)
            message = texts_of(request)(wrong, why=error.message)
            context = self._sign_in_context(target, wrong=message)
            page = TemplatePage(template="sign_in.html", context=context, status=401)
            return _render(page, request)
        response = self._go_on(request, target) if is_foreign else _redirect(target)
        set_cookie(response, request, COOKIE, sealed_session, seconds=IDLE_MS // 1_000 * 24)
        return response

    async def _sign_out(self, request: Request) -> Response:
        """End the session, and delete its cookie."""
        form = _parse_fields(await _read_small_body(request))

        def end() -> str:
            """End the session; return the address where it ends at the provider, if it has one."""
            session, access = self._load_session(request)
            if not _has_session_token(form, session):
                return ""
            self._service.sessions.end_session(access, session, session.grant_id)
            if self._accounts is None or session.person is None:
                return ""
            with suppress(MemorandaError):
                return self._accounts.end_session_url(f"{wire.base_url(request.scope)}{SIGN_IN}")
            return ""

        onward = ""
        with suppress(Unauthorized):
            onward = await self._threads.run(end)
        goodbye = f"{SIGN_IN}?{SIGNED_OUT}=1"
        response = self._go_on(request, onward) if onward else _redirect(goodbye)
        delete_cookie(response, request, COOKIE)
        return response

    # --- signing in with an account -------------------------------------------------------------------------

    def _account_routes(self) -> list[Route]:
        return [
            Route(ACCOUNTS, self._ask_provider, methods=["GET"]),
            Route(CALLBACK, self._come_back, methods=["GET"]),
            Route(f"{ACCOUNTS}/logout", self._log_out, methods=["POST"]),
        ]

    async def _ask_provider(self, request: Request) -> Response:
        """Send a person to the provider, and remember the sign-in in a cookie."""
        if (refusal := self._refuse_hasty(request)) is not None:
            return refusal
        target = _safe_target(request.query_params.get("next", ""))
        return_to = f"{wire.base_url(request.scope)}{CALLBACK}"

        def ask() -> Response:
            assert self._accounts is not None
            try:
                address, cookie = self._accounts.begin(target, return_to)
            except MemorandaError as error:
                return self._refuse_account(request, error, target)
            response = _redirect(address)
            # Sent when the browser comes back from the provider.
            set_cookie(
                response,
                request,
                PENDING_COOKIE,
                cookie,
                seconds=PENDING_SECONDS,
                path=ACCOUNTS,
                same_site="lax",
            )
            return response

        return await self._threads.run(ask)

    async def _come_back(self, request: Request) -> Response:
        """Start a session for a person who comes back from the provider."""
        if (refusal := self._refuse_hasty(request)) is not None:
            return refusal
        cookie, query = read_cookie(request, PENDING_COOKIE), dict(request.query_params)

        def come_back() -> Response:
            assert self._accounts is not None
            accounts = self._accounts
            target = accounts.target_of(cookie)
            try:
                response = self._start_session(
                    request,
                    lambda: accounts.finish(cookie, query),
                    target,
                    "sign_in.failed",
                    is_foreign=True,
                )
            except MemorandaError as error:
                response = self._refuse_account(request, error, target)
            delete_cookie(response, request, PENDING_COOKIE, path=ACCOUNTS)
            return response

        return await self._threads.run(come_back)

    def _refuse_hasty(self, request: Request) -> Response | None:
        """Return the error page for an address that begins too many sign-ins; None for the others."""
        wait = self._sign_ins.take(request.client.host if request.client else "")
        return _error_page(RateLimited(retry_after_seconds=wait), request) if wait else None

    def _refuse_account(self, request: Request, error: MemorandaError, target: str) -> Response:
        """Show on the sign-in page why the provider cannot be used."""
        _log.warning("signing in with an account: %s", error.message)
        message = texts_of(request)("sign_in.failed", why=error.message)
        context = self._sign_in_context(target, wrong=message)
        return _render(TemplatePage(template="sign_in.html", context=context, status=503), request)

    async def _log_out(self, request: Request) -> Response:
        """End the sessions of a person at the provider's request (back-channel logout)."""
        form = _parse_fields(await _read_small_body(request))
        token = (form.get("logout_token") or [""])[0]

        def end() -> Response:
            assert self._accounts is not None
            try:
                self._accounts.end_sessions(token)
            except MemorandaError as error:
                _log.warning("back-channel logout: %s", error.message)
                return Response(status_code=400, headers={"Cache-Control": "no-store"})
            return Response(status_code=200, headers={"Cache-Control": "no-store"})

        return await self._threads.run(end)

    def _go_on(self, request: Request, target: str) -> Response:
        """Return a page that leads on to another.

        A cookie that other sites must not send is not sent either when one of them redirects here, but this page is
        ours. And no form may lead to another site, but a page may.
        """
        context = {"target": target}
        return _render(TemplatePage(template="onward.html", context=context), request)

    async def _stream_events(self, request: Request) -> Response:
        """Return a stream of events for the open page: one whenever something is written."""

        def load_position() -> int:
            _, access = self._load_session(request, is_stream=True)
            return self._service.feed_position(access)

        try:
            await self._threads.run(load_position)
        except MemorandaError as error:
            return _error_page(error, request)
        return LiveStream(self._live, self._service, self._threads, load_position)

    async def _static(self, request: Request) -> Response:
        """Serve a style, script or icon, which browsers may cache forever."""
        name = request.path_params["name"]
        if name not in _STATIC:
            return await _not_found(request)
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(_static_file(name), headers=headers, media_type=_STATIC[name])


async def _redirect_to_start(_request: Request) -> Response:
    return _redirect(ROOT + "/")


async def _not_found(request: Request) -> Response:
    """Show the page for an unknown path."""
    text = texts_of(request)
    context = {"title": text("wrong.no_page"), "message": text("wrong.nowhere")}
    return _render(TemplatePage(template="wrong.html", context=context, status=404), request)


async def _read_small_body(request: Request) -> bytes:
    """Return the body of a person who may not have signed in."""
    wire.check_length(request.scope, SMALL_BYTES)
    return await wire.read_body(wire.limit_body(request.receive, SMALL_BYTES))


def _has_session_token(form: Mapping[str, list[str]], session: Session) -> bool:
    """Return True if a form has the token of the session."""
    return hmac.compare_digest((form.get("token") or [""])[0].encode(), session.token.encode())


async def _parse_form(
    request: Request, max_bytes: int
) -> tuple[dict[str, list[str]], list[Upload]]:
    """Return the fields of a form, and its files. Raises InvalidInput and TooLarge."""
    wire.check_length(request.scope, max_bytes)
    receive = wire.limit_body(request.receive, max_bytes)
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        return _parse_fields(await wire.read_body(receive)), []
    try:
        async with asyncio.timeout(FILE_SECONDS):
            # Not closed here, because the function of the page reads the files.
            form = await Request(request.scope, receive).form(
                max_files=FILES_LIMIT, max_fields=FIELDS_LIMIT
            )
    except HTTPException:
        raise InvalidInput("the form cannot be read") from None
    except TimeoutError:
        raise InvalidInput(f"the file took longer than {FILE_SECONDS:.0f} s") from None
    fields: dict[str, list[str]] = {name: [] for name in form}
    uploads = []
    for name, value in form.multi_items():
        if isinstance(value, str):
            fields[name].append(value)
        else:
            uploads.append(Upload(value.filename or "", value.file, value.size or 0))
    return fields, uploads


def _parse_fields(body: bytes) -> dict[str, list[str]]:
    """Return the fields of a form or query. Raises InvalidInput."""
    try:
        return parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=FIELDS_LIMIT)
    except ValueError:
        raise InvalidInput("the form cannot be read") from None


def texts_of(request: Request) -> Texts:
    """Return the texts in the language that the browser prefers."""
    return texts_for(request.headers.get("accept-language", ""))


def _own_path(request: Request) -> str:
    """Return the path and query of a request."""
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path


def _safe_target(path: str) -> str:
    """Return the page to open after signing in: the given one if it is ours, else the first."""
    # It begins with our own path, so it can name no other host; browsers read a backslash as a slash.
    is_ours = path.startswith(f"{ROOT}/") and path.isprintable() and "\\" not in path
    return path if is_ours else ROOT + "/"


def _redirect(path: str) -> Response:
    """Return a redirect."""
    return RedirectResponse(path, 303, _HEADERS)


def _send_file(file: File) -> Response:
    """Return a file as a download; one without a name is shown or read by the script."""
    headers = dict(_HEADERS)
    if file.name:
        headers["Content-Disposition"] = f'attachment; filename="{file.name}"'
    if isinstance(file.body, bytes):
        return Response(file.body, headers=headers, media_type=file.media_type)
    chunks = iter(partial(file.body.read, CHUNK_BYTES), b"")
    return StreamingResponse(
        chunks,
        headers=headers,
        media_type=file.media_type,
        background=BackgroundTask(file.body.close),
    )


# --- pages -------------------------------------------------------------------------------------------------------


def _error_page(
    error: MemorandaError,
    request: Request,
    session: Session | None = None,
    access: Access | None = None,
) -> Response:
    """Return the page that shows an error, with the status that UMP has for it."""
    status, _ = refuse(error)
    page = TemplatePage(template="wrong.html", context={"message": error.message}, status=status)
    return _render(page, request, session, access)


def _page_context(
    request: Request, session: Session | None, access: Access | None, notice: str
) -> dict[str, object]:
    """Return the part of the context that every template gets."""
    text = texts_of(request)
    area, page = looks.area_of(request.url.path)
    return {
        "session": session,
        "access": access,
        "owner": None if access is None else access.default_tenant,
        "said": notice.removeprefix(UNDO_MARK),
        "is_undoable": notice.startswith(UNDO_MARK),
        "area": area,
        "here": page,
        "t": text,
        "rich": text.rich,
    }


def _render(
    page: TemplatePage,
    request: Request,
    session: Session | None = None,
    access: Access | None = None,
    *,
    notice: str = "",
) -> Response:
    """Return a page as HTML, with a notice, or that of the last form, which is then deleted."""
    notice = notice or read_notice(request, session)
    context = {**page.context, **_page_context(request, session, access, notice)}
    template = _templates().get_template(page.template)
    response: Response
    if page.is_streamed:
        parts = _join_parts(template.generate(context))
        response = StreamingResponse(chain((next(parts),), parts), page.status, _HEADERS, wire.HTML)
    else:
        response = Response(template.render(context), page.status, _HEADERS, wire.HTML)
    if read_cookie(request, NOTICE_COOKIE):
        delete_cookie(response, request, NOTICE_COOKIE)
    return response


def _join_parts(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the parts of a page that end with the mark of `flush`, and the rest.

    The first part is rendered before the response begins, so that an error in it becomes an error page.
    """
    part: list[str] = []
    for piece in pieces:
        if piece.endswith(_FLUSH):
            yield "".join((*part, piece[: -len(_FLUSH)]))
            part = []
        else:
            part.append(piece)
    yield "".join(part)


@cache
def _templates() -> jinja2.Environment:
    """Return the environment of the templates, which escapes every value."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read_template),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Most fields of a record are optional, so a missing one is empty instead of an error.
    environment.undefined = jinja2.ChainableUndefined
    environment.filters |= {
        "ago": format_age,
        "iso": format_iso,
        "day": format_day,
        "path": lambda text: quote(text, safe=""),
        "line": render_line,
        "markdown": render_markdown,
    }
    environment.globals |= {
        "root": ROOT,
        "version": __version__,
        "static": _static_path,
        "flush": _FLUSH,
        "areas": looks.AREAS,
        "kind_icons": looks.KIND_ICONS,
        "finding_icons": KINDS,
        "agent_look": lambda name: looks.agent_source(name).look,
        "source_of": looks.source_of,
        "actor_source": looks.actor_source,
    }
    return environment


def _read_template(name: str) -> str:
    return (resource_folder() / "templates" / name).read_text("utf-8")


@cache
def _static_file(name: str) -> bytes:
    """Return the bytes of a style, script or icon."""
    return (resource_folder() / "static" / name).read_bytes()


@cache
def _static_path(name: str) -> str:
    """Return the path of a static file with its hash, so that browsers may cache it forever."""
    return f"{ROOT}/static/{name}?{hashlib.sha256(_static_file(name)).hexdigest()[:12]}"
