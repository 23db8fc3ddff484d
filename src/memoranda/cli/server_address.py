"""The address at which commands on this machine reach the server."""

from __future__ import annotations

from memoranda.settings import Settings

# Wildcard addresses, mapped to loopback.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 -- compared with, not listened on


def server_url(settings: Settings) -> str:
    """Return the URL of the server with these settings, for clients on this machine."""
    host = _EVERYWHERE.get(settings.host, settings.host)
    return f"http{'s' if settings.tls_cert else ''}://{f'[{host}]' if ':' in host else host}:{settings.port}"
