"""health: check a running server, for a container's health check, a supervisor or a script."""

from __future__ import annotations

import ssl
from typing import Annotated
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import line, note
from memoranda.errors import InvalidInput, words_of
from memoranda.settings import Settings, server_url


def health(
    *,
    url: Annotated[
        str | None,
        Parameter(help="The server's address (default: where `memoranda serve` listens)."),
    ] = None,
    seconds: Annotated[
        float, Parameter(help="Seconds to wait for an answer.", minimum=0, maximum=3_600)
    ] = 3.0,
    run: GivenRun,
) -> int:
    """Check that a running server and its store answer. Exit code 0 if they do, 1 if not."""
    settings = run.settings()
    base = (url or server_url(settings)).rstrip("/")
    reason = find_failure(settings, url, seconds=seconds)
    if run.json or not reason:
        run.answer(
            {"ready": not reason, "url": base, "reason": reason}, lambda: line(f"{base} is ready")
        )
    else:
        note(f"{base} is not ready: {reason}")
    return 1 if reason else 0


def find_failure(settings: Settings, url: str | None, *, seconds: float) -> str:
    """Return why a server and its store do not answer; empty if they do.

    Without `url`, the server is the one that these settings start.
    """
    base = (url or server_url(settings)).rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise InvalidInput("--url: must begin with http:// or https://")
    trust = _trust_own_certificate(settings) if url is None and settings.tls_cert else None
    # A proxy on the way to the Internet cannot reach a server on this machine.
    opener = build_opener(ProxyHandler({} if url is None else None), HTTPSHandler(context=trust))
    try:
        with opener.open(f"{base}/readyz", timeout=seconds):
            return ""
    except HTTPError as error:
        return f"HTTP {error.code}"
    except (OSError, ValueError) as error:
        # An error of the connection stands inside that of the request.
        reason = getattr(error, "reason", error)
        return words_of(reason) if isinstance(reason, OSError) else str(reason)


def _trust_own_certificate(settings: Settings) -> ssl.SSLContext:
    """Return a context that trusts the server's own certificate, for any host name: we connect to an address."""
    context = ssl.create_default_context(cafile=settings.tls_cert)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
