"""health: whether a running server answers, for what watches it: a container's health check, a supervisor, a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import line, note
from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    import ssl

    from memoranda.settings import Settings

# Wildcard addresses, mapped to loopback.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 -- compared with, not listened on


def health(
    *,
    url: Annotated[
        str | None, Parameter(help="Where the server is; by default where `memoranda serve` listens.")
    ] = None,
    seconds: Annotated[float, Parameter(help="How long it may take to answer.")] = 3.0,
    run: GivenRun,
) -> int:
    """Ask a running server whether it and its store answer; exit code 0 if they do, 1 if not."""
    from urllib.error import HTTPError
    from urllib.request import HTTPSHandler, ProxyHandler, build_opener

    settings = run.settings()
    place = (url or server_url(settings)).rstrip("/")
    if not place.startswith(("http://", "https://")):
        raise InvalidInput("url: must begin with http:// or https://")
    trust = _own_certificate(settings) if url is None and settings.tls_cert else None
    # What lies before the way out of a network does not know this machine.
    opener = build_opener(ProxyHandler({} if url is None else None), HTTPSHandler(context=trust))
    try:
        with opener.open(f"{place}/readyz", timeout=seconds):
            reason = ""
    except HTTPError as error:
        reason = f"HTTP {error.code}"
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error))
    if run.json or not reason:
        run.answer({"ready": not reason, "url": place, "reason": reason}, lambda: line(f"{place} is ready"))
    else:
        note(f"{place} is not ready: {reason}")
    return 1 if reason else 0


def server_url(settings: Settings) -> str:
    """Return where this machine reaches a server with these settings."""
    host = _EVERYWHERE.get(settings.host, settings.host)
    return f"http{'s' if settings.tls_cert else ''}://{f'[{host}]' if ':' in host else host}:{settings.port}"


def _own_certificate(settings: Settings) -> ssl.SSLContext:
    """Trust in what this very server is set up with, under whatever name: it is asked at an address."""
    import ssl

    found = ssl.create_default_context(cafile=settings.tls_cert)
    found.check_hostname = False
    found.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return found
