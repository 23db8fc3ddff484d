"""serve: the HTTP server, with MCP at /mcp and the console at /console/.

One server process runs in this one. With several workers, this process binds the port and forks them; each inherits the
socket. MCP and the console are loaded at the first request for them.
"""

from __future__ import annotations

import ctypes
import gc
import ipaddress
import logging
import os
import shlex
import socket
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Literal, cast

from memoranda.bindings.console.lazy import LazyConsole
from memoranda.bindings.console.visit import ROOT as CONSOLE
from memoranda.bindings.http.app import Extensions, create_app
from memoranda.bindings.http.guard import Rules
from memoranda.bindings.http.server import base_url, create_server, listen
from memoranda.bindings.http.workers import Workers, check_workers
from memoranda.bindings.mcp.lazy import PATH as MCP_PATH
from memoranda.bindings.mcp.lazy import LazyEndpoint
from memoranda.cli.console import console_link
from memoranda.cli.logs import set_up
from memoranda.cli.run import GivenRun, Parameter, print_json
from memoranda.cli.show import note
from memoranda.errors import InvalidInput, Unsupported
from memoranda.keys import OWNER_CREDENTIAL_FILE
from memoranda.opening import open_service, owner_credential
from memoranda.service.core.people import ProviderSettings
from memoranda.settings import server_url
from memoranda.stores import settle_vectors
from memoranda.telemetry import start

if TYPE_CHECKING:
    from pathlib import Path

    from memoranda.bindings.http.app import Seams
    from memoranda.bindings.http.metrics import Readers
    from memoranda.bindings.http.oauth import OAuth
    from memoranda.bindings.mcp.http import McpEndpoint
    from memoranda.bindings.mcp.offer import ToolOffer
    from memoranda.service.core.sign_in import Registration
    from memoranda.service.service import Service
    from memoranda.settings import Settings

_log = logging.getLogger(__name__)
# Bytes from which an allocation is mapped on its own; smaller ones are too many to ask the system for each.
LARGE_ALLOCATION_BYTES = 262_144

LogLevel = Literal["debug", "info", "warning", "error"]


def serve(
    *,
    host: Annotated[
        str | None, Parameter(help="The address to listen on (default: 127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None,
        Parameter(help="The port (default: 8420); 0 picks a free one.", minimum=0, maximum=65_535),
    ] = None,
    ump_version: Annotated[
        Literal["0.1", "1.0"] | None, Parameter(help="The UMP version to advertise.")
    ] = None,
    allow_host: Annotated[
        tuple[str, ...], Parameter(help="Another Host name to answer to; can be repeated.")
    ] = (),
    allow_origin: Annotated[
        tuple[str, ...], Parameter(help="A web origin whose pages may call; can be repeated.")
    ] = (),
    trusted_proxy: Annotated[
        tuple[str, ...],
        Parameter(help="The address of a proxy whose X-Forwarded-For is trusted; can be repeated."),
    ] = (),
    tls_cert: Annotated[
        str | None, Parameter(help="Serve https with this certificate chain (PEM).")
    ] = None,
    tls_key: Annotated[
        str | None, Parameter(help="The private key of the certificate (PEM).")
    ] = None,
    allow_owner: Annotated[
        tuple[str, ...],
        Parameter(
            help="The DID of an owner whose self-signed tokens are accepted; can be repeated."
        ),
    ] = (),
    open_registration: Annotated[
        bool,
        Parameter(
            help="Allow self-registration: anyone with a self-signed token becomes an owner."
        ),
    ] = False,
    oauth: Annotated[
        bool, Parameter(help="Let people with a key grant programs access to /mcp (OAuth 2.1).")
    ] = False,
    seams: Annotated[
        bool, Parameter(help="Also serve the test routes of openwop's conformance suites.")
    ] = False,
    log_level: Annotated[
        LogLevel | None, Parameter(help="The log level on standard error.")
    ] = None,
    workers: Annotated[
        int | None,
        Parameter(help="Server processes that share the port (default: 1).", minimum=1),
    ] = None,
    run: GivenRun,
) -> None:
    """Serve memories over HTTP, with MCP at /mcp, until interrupted."""
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
        _warn_unencrypted(settings.host)
    if settings.open_registration == "on" and not (
        settings.max_bytes and settings.writes_per_minute
    ):
        note(
            "anyone can become an owner and write without limit: set MEMORANDA_MAX_BYTES and "
            "MEMORANDA_WRITES_PER_MINUTE"
        )
    if settle_vectors(settings):
        note(
            "vector_search is process, so the unencrypted vectors for pgvector were removed from the database"
        )
    if settings.workers == 1:
        _serve(
            settings,
            seams=seams,
            on_ready=lambda url, link: _announce(url, settings, link, as_json=run.json),
        )
    else:
        _serve_together(settings, seams=seams, as_json=run.json)


def _serve(
    settings: Settings,
    *,
    seams: bool,
    on_ready: Callable[[str, str], None],
    lifeline: int | None = None,
) -> None:
    """Run one server process. `lifeline` is a pipe that closes when the parent of this worker ends."""
    is_alone = settings.workers == 1
    service = open_service(settings, checks_queries=True)
    stop_tracing = start(is_one_line=settings.log_format == "json")
    try:
        credential = owner_credential(service, settings, note)
        link = _link_for_terminal(service, credential) if is_alone else ""
        mcp = LazyEndpoint(lambda: _mcp_endpoint(service, settings))
        if settings.mcp_tools:
            # Raises InvalidInput for unknown tools now, not at the first request.
            _mcp_offer(settings)
        oauth, provider = _oauth(service, settings), _provider(settings)
        on_stop = [mcp.stop_streams]
        app = create_app(
            service,
            Rules(
                allowed_hosts=(settings.host, *settings.allowed_hosts),
                allowed_origins=settings.allowed_origins,
                rate_limit=settings.rate_limit,
                max_body_bytes=settings.max_body_bytes,
                protected=None if oauth is None else MCP_PATH,
            ),
            extensions=Extensions(
                seams=_conformance_seams() if seams else None,
                extra_routes=mcp.routes,
                public_routes=() if oauth is None else oauth.routes,
                folders={
                    CONSOLE: lambda threads: LazyConsole(service, threads, provider, on_stop).routes
                },
                lifespans=[mcp.running] if oauth is None else [mcp.running, oauth.running],
                on_stop=on_stop,
            ),
            metrics_readers=cast("Readers", settings.metrics),
        )
        server = create_server(
            app,
            listen(settings.host, settings.port, is_shared=not is_alone),
            on_ready=lambda url: on_ready(url, link),
            log_level=settings.log_level,
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


def _mcp_endpoint(service: Service, settings: Settings) -> McpEndpoint:
    from memoranda.bindings.mcp.http import McpEndpoint

    return McpEndpoint(
        service,
        max_body_bytes=settings.max_body_bytes,
        has_sessions=settings.workers == 1,
        offer=_mcp_offer(settings),
    )


def _mcp_offer(settings: Settings) -> ToolOffer:
    from memoranda.bindings.mcp.offer import ToolOffer

    return ToolOffer().with_query(settings.mcp_offer)


def _provider(settings: Settings) -> ProviderSettings | None:
    """Return the provider with whose accounts people sign in. Raises Unsupported if its library is missing."""
    if not settings.oidc_issuer:
        return None
    if find_spec("jwt") is None:
        raise Unsupported("signing in with accounts needs PyJWT: pip install 'memoranda[oidc]'")
    return ProviderSettings(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        scopes=settings.oidc_scopes,
        groups_claim=settings.oidc_groups_claim,
    )


def _oauth(service: Service, settings: Settings) -> OAuth | None:
    """Return the endpoints of OAuth, if the settings turn it on."""
    if settings.oauth == "off":
        return None
    from memoranda.bindings.http.oauth import OAuth

    return OAuth(service, cast("Registration", settings.oauth))


def _settle_memory() -> None:
    """Let the garbage collector skip the objects made at the start, and glibc return large free blocks to the system.

    By default glibc raises the size from which it maps blocks to the largest block that was freed, and keeps smaller
    ones in a heap for each thread. After a few large answers, the process would hold several times what it uses.
    """
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):
        # -3 is M_MMAP_THRESHOLD.
        ctypes.CDLL("libc.so.6").mallopt(-3, LARGE_ALLOCATION_BYTES)


def _serve_together(settings: Settings, *, seams: bool, as_json: bool) -> None:
    """Run several server processes; this one binds the port, and starts and stops the others."""
    # Loaded before the workers are forked, so that they share its memory.
    from memoranda.bindings.mcp import http  # noqa: F401

    check_workers(settings.workers)
    if settings.database_path is None and settings.address is None:
        raise InvalidInput(
            "workers: a store in memory cannot be shared by several processes; use one worker or a file"
        )
    # Creates missing keys and tables once, before several workers would.
    with closing(open_service(settings, checks_queries=True)) as service:
        link = _link_for_terminal(service, owner_credential(service, settings, note))
    with listen(settings.host, settings.port, is_shared=True) as listener:
        shared = replace(settings, port=listener.getsockname()[1])

        def work(lifeline: int, report_ready: Callable[[], None]) -> None:
            _serve(shared, seams=seams, on_ready=lambda *_: report_ready(), lifeline=lifeline)

        Workers(
            shared.workers,
            work,
            lambda: _announce(
                base_url(listener, is_tls=bool(shared.tls_cert)), shared, link, as_json=as_json
            ),
        ).run()


def _announce(url: str, settings: Settings, link: str, *, as_json: bool) -> None:
    """Print where the server is and how to sign in. `link` signs a browser in; it is empty unless a person sees it."""
    notify_supervisor(f"READY=1\nSTATUS=Serving at {url}")
    credential = settings.home / OWNER_CREDENTIAL_FILE
    if as_json or settings.log_format == "json":
        addresses = {"url": url, "mcp": f"{url}/mcp", "credential": str(credential)}
        print_json({**addresses, "console": f"{url}{link or CONSOLE + '/'}"})
        return
    bearer = f'"Authorization: Bearer $(cat {shlex.quote(str(credential))})"'
    print(f"Memoranda serves at {url} (MCP at {url}/mcp). Stop it with Ctrl-C.")
    if link:
        print(f"Open it in a browser (the link works once, within ten minutes): {url}{link}")
    else:
        local_url = server_url(replace(settings, port=int(url.rpartition(":")[2])))
        print(
            f"Open it in a browser: {local_url}{CONSOLE}/ (to sign in: memoranda console --url {local_url})"
        )
    print(f"Sign in with the key in {credential}, which only you can read. For example:")
    print(f"  curl -H {bearer} \\")
    print(f"    -H 'Content-Type: application/json' -d '{{\"query\": \"hello\"}}' {url}/ump/recall")
    sys.stdout.flush()


def _link_for_terminal(service: Service, credential: Path) -> str:
    """Return a path that signs a browser in if standard output is a terminal; a log must not contain it."""
    return console_link(service, credential) if sys.stdout.isatty() else ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _warn_unencrypted(host: str) -> None:
    note(
        f"listening on {host}, which other machines can reach: anyone there with a key or token can use the memories, "
        "and the connection is not encrypted; set tls_cert and tls_key, or put a TLS proxy in front"
    )


def _conformance_seams() -> Seams:
    from memoranda.conformance.openwop import SEAMS

    return SEAMS


def notify_supervisor(state: str) -> None:
    """Send a state such as `READY=1` to the service manager, if it set $NOTIFY_SOCKET.

    One datagram has one state: the `sd_notify` protocol of systemd.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            # @ stands for the NUL byte of an abstract socket, which has no file.
            channel.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            channel.send(state.encode())
    except OSError as error:
        _log.warning("the service manager did not receive %r: %s", state.partition("\n")[0], error)
