"""serve: the HTTP server, with MCP at /mcp."""

from __future__ import annotations

import gc
import ipaddress
import shlex
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from memoranda.cli.commands import Parameter
from memoranda.cli.health import server_url
from memoranda.cli.logs import set_up
from memoranda.cli.run import GivenRun, print_json
from memoranda.cli.show import note

if TYPE_CHECKING:
    from pathlib import Path

    from memoranda.bindings.http.app import Seams
    from memoranda.bindings.http.metrics import Readers
    from memoranda.bindings.mcp.http import McpEndpoint
    from memoranda.bindings.mcp.offer import Offer
    from memoranda.service.core.grants import Registration
    from memoranda.service.service import Service
    from memoranda.settings import Settings

# Below this the pieces are many, and asking the system for each would cost.
LARGE_PIECE_BYTES = 262_144

LogLevel = Literal["debug", "info", "warning", "error"]


def serve(
    *,
    host: Annotated[str | None, Parameter(help="The address to listen on; 127.0.0.1 unless said.")] = None,
    port: Annotated[int | None, Parameter(help="The port; 8420 unless said, and 0 takes a free one.")] = None,
    ump_version: Annotated[Literal["0.1", "1.0"] | None, Parameter(help="The UMP version to advertise.")] = None,
    allow_host: Annotated[tuple[str, ...], Parameter(help="A further Host name to answer to; repeatable.")] = (),
    allow_origin: Annotated[tuple[str, ...], Parameter(help="A web origin that may call; repeatable.")] = (),
    trusted_proxy: Annotated[
        tuple[str, ...], Parameter(help="The address of a proxy that is believed when it says who calls; repeatable.")
    ] = (),
    tls_cert: Annotated[str | None, Parameter(help="Serve https with the certificate in this file.")] = None,
    tls_key: Annotated[str | None, Parameter(help="The file with the certificate's key.")] = None,
    allow_owner: Annotated[
        tuple[str, ...], Parameter(help="The DID of an owner whose own tokens are taken; repeatable.")
    ] = (),
    open_registration: Annotated[
        bool, Parameter(help="Let in anyone who signs a token for himself, as a new owner.")
    ] = False,
    oauth: Annotated[bool, Parameter(help="Let a person with a key let programs in at /mcp (OAuth 2.1).")] = False,
    seams: Annotated[bool, Parameter(help="Also serve what conformance suites of openwop ask for.")] = False,
    log_level: Annotated[LogLevel | None, Parameter(help="How much is logged to standard error.")] = None,
    workers: Annotated[int | None, Parameter(help="Server processes that share the port; 1 unless said.")] = None,
    run: GivenRun,
) -> None:
    """Serve the memories over HTTP, with MCP at /mcp, until interrupted."""
    from memoranda.stores import settle_vectors

    settings = run.settings(
        host=host,
        port=port,
        ump_version=ump_version,
        allowed_hosts=allow_host or None,
        allowed_origins=allow_origin or None,
        trusted_proxies=trusted_proxy or None,
        tls_cert=tls_cert,
        tls_key=tls_key,
        allowed_owners=allow_owner or None,
        open_registration="on" if open_registration else None,
        oauth="on" if oauth else None,
        log_level=log_level,
        workers=workers,
    )
    set_up(settings.log_level, form=settings.log_format, requests=settings.log_requests == "on")
    if not _is_loopback(settings.host) and not settings.tls_cert:
        _warn(settings.host)
    if settings.open_registration == "on" and not (settings.max_bytes and settings.writes_per_minute):
        note("anyone can become an owner, and may keep and write without limit: set MEMORANDA_MAX_BYTES and the like")
    if settle_vectors(settings):
        note("the vectors that this database had in clear, for pgvector, are removed: vector_search is process")
    if settings.workers == 1:
        _serve(settings, seams=seams, on_ready=lambda url, link: _announce(url, settings, link, as_json=run.json))
    else:
        _serve_together(settings, seams=seams, as_json=run.json)


def _serve(
    settings: Settings, *, seams: bool, on_ready: Callable[[str, str], None], lifeline: int | None = None
) -> None:
    """One server process."""
    from memoranda.bindings.console.late import LateConsole
    from memoranda.bindings.console.visit import ROOT as CONSOLE
    from memoranda.bindings.http.app import create_app
    from memoranda.bindings.http.server import create_server
    from memoranda.bindings.mcp.late import LateEndpoint
    from memoranda.opening import open_service, owner_credential
    from memoranda.telemetry import start

    is_alone = settings.workers == 1
    service = open_service(settings, checks_queries=True)
    stop_tracing = start(is_one_line=settings.log_format == "json")
    try:
        credential = owner_credential(service, settings, note)
        link = _link_for_terminal(service, credential) if is_alone else ""
        mcp = LateEndpoint(lambda: _mcp(service, settings))
        if settings.mcp_tools:
            # What is wrong with these is said at once.
            _offer(settings)
        app = create_app(
            service,
            host=settings.host,
            allowed_hosts=settings.allowed_hosts,
            allowed_origins=settings.allowed_origins,
            rate_limit=settings.rate_limit,
            max_body_bytes=settings.max_body_bytes,
            seams=_seams() if seams else None,
            extra_routes=mcp.routes,
            on_stop=[mcp.stop_streams],
            folders={CONSOLE: lambda threads: LateConsole(service, threads).routes},
            metrics_readers=cast("Readers", settings.metrics),
            **_oauth(service, settings, mcp.running),
        )
        server = create_server(
            app,
            settings.host,
            settings.port,
            on_ready=lambda url: on_ready(url, link),
            log_level=settings.log_level,
            is_shared=not is_alone,
            lifeline=lifeline,
            trusted_proxies=settings.trusted_proxies,
            tls=(settings.tls_cert, settings.tls_key) if settings.tls_cert else None,
        )
        service.start_background()
        _settle_memory()
        server.run()
    finally:
        service.close()
        stop_tracing()


def _mcp(service: Service, settings: Settings) -> McpEndpoint:
    from memoranda.bindings.mcp.http import McpEndpoint

    return McpEndpoint(
        service,
        max_body_bytes=settings.max_body_bytes,
        has_sessions=settings.workers == 1,
        offer=_offer(settings),
    )


def _offer(settings: Settings) -> Offer:
    from memoranda.bindings.mcp.offer import Offer

    return Offer().with_query(settings.mcp_offer)


def _oauth(service: Service, settings: Settings, running: Callable[[], Any]) -> dict[str, Any]:
    """What the application is told about programs that can be let in, and everything that runs with it."""
    if settings.oauth == "off":
        return {"lifespans": [running]}
    from memoranda.bindings.http.oauth import OAuth
    from memoranda.bindings.mcp.late import PATH

    oauth = OAuth(service, cast("Registration", settings.oauth))
    return {"public_routes": oauth.routes, "protected": PATH, "lifespans": [running, oauth.running]}


def _settle_memory() -> None:
    """Look no more at what was made to start, which stays, and give back to the system what is free.

    By itself glibc keeps pieces as large as the largest that was freed, in as many heaps as there are threads: after a
    few large answers that is several times what is used. Elsewhere that is not ours to say.
    """
    import ctypes

    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):
        # M_MMAP_THRESHOLD: from this size on, each piece is the system's own.
        ctypes.CDLL("libc.so.6").mallopt(-3, LARGE_PIECE_BYTES)


def _serve_together(settings: Settings, *, seams: bool, as_json: bool) -> None:
    """Several server processes; this one binds the port, and starts and ends the others."""
    from memoranda.bindings.http import app  # noqa: F401 -- what the workers need is loaded once, before they part
    from memoranda.bindings.http.server import base_url, listen
    from memoranda.bindings.http.workers import Workers, check_workers
    from memoranda.bindings.mcp import http  # noqa: F401
    from memoranda.errors import InvalidInput
    from memoranda.opening import open_service, owner_credential

    check_workers(settings.workers)
    if settings.database_path is None and settings.address is None:
        raise InvalidInput("workers: a store in memory is one process's own")
    # Made before there are several who would make them.
    with closing(open_service(settings, checks_queries=True)) as service:
        link = _link_for_terminal(service, owner_credential(service, settings, note))
    with listen(settings.host, settings.port, is_shared=True) as listener:
        shared = replace(settings, port=listener.getsockname()[1])

        def work(lifeline: int, tell: Callable[[], None]) -> None:
            _serve(shared, seams=seams, on_ready=lambda *_: tell(), lifeline=lifeline)

        Workers(
            shared.workers,
            work,
            lambda: _announce(base_url(listener, is_tls=bool(shared.tls_cert)), shared, link, as_json=as_json),
        ).run()


def _announce(url: str, settings: Settings, link: str, *, as_json: bool) -> None:
    """Say where the server is and how to sign in. `link` signs a browser in; it is empty unless a person sees this."""
    from memoranda.bindings.console.visit import ROOT
    from memoranda.cli.supervisor import tell
    from memoranda.opening import OWNER_CREDENTIAL_FILE

    tell(f"READY=1\nSTATUS=Serving at {url}")
    credential = settings.home / OWNER_CREDENTIAL_FILE
    if as_json or settings.log_format == "json":
        places = {"url": url, "mcp": f"{url}/mcp", "credential": str(credential)}
        print_json({**places, "console": f"{url}{link or ROOT + '/'}"})
        return
    bearer = f'"Authorization: Bearer $(cat {shlex.quote(str(credential))})"'
    print(f"Memoranda serves at {url} (MCP at {url}/mcp). Stop it with Ctrl-C.")
    if link:
        print(f"See it in a browser (this link is good once, for ten minutes): {url}{link}")
    else:
        reached = server_url(replace(settings, port=int(url.rpartition(":")[2])))
        print(f"See it in a browser: {reached}{ROOT}/ (a link that signs you in: memoranda console --url {reached})")
    print(f"Sign in with the key in {credential}, which only you can read. For example:")
    print(f"  curl -H {bearer} \\")
    print(f"    -H 'Content-Type: application/json' -d '{{\"query\": \"hello\"}}' {url}/ump/recall")
    sys.stdout.flush()


def _link_for_terminal(service: Service, credential: Path) -> str:
    """Return a path that signs a browser in, if standard output is a terminal; logs are kept, so they get none."""
    return console_link(service, credential) if sys.stdout.isatty() else ""


def console_link(service: Service, credential: Path) -> str:
    """Return a path that signs a browser in, once, with the rights of the key in a file."""
    from memoranda.bindings.console.visit import ROOT

    key = credential.read_text(encoding="utf-8").strip()
    return f"{ROOT}/enter?link={service.sessions.link(key)}"


def console(
    *,
    url: Annotated[
        str | None, Parameter(help="Where the server is; by default where `memoranda serve` listens.")
    ] = None,
    browser: Annotated[bool, Parameter(name="--open", help="Open it in the browser.")] = False,
    run: GivenRun,
) -> None:
    """Print a link to the console of a running server that signs a browser in, once."""
    from memoranda.opening import owner_credential

    settings = run.settings()
    with run.open() as memoranda:
        link = console_link(memoranda.service, owner_credential(memoranda.service, settings, note))
    address = f"{(url or server_url(settings)).rstrip('/')}{link}"
    run.answer({"console": address}, lambda: print(address))
    if browser:
        import webbrowser

        webbrowser.open(address)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _warn(host: str) -> None:
    note(
        f"listening on {host}, not only on this machine: whoever reaches that address over the network and holds a "
        "key or token can use the memories, and nothing is encrypted; put TLS in front of it"
    )


def _seams() -> Seams:
    from memoranda.conformance.openwop import SEAMS

    return SEAMS
