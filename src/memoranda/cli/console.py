"""console: print a link that signs a browser in to a running server."""

from __future__ import annotations

from typing import Annotated

from memoranda.cli.commands import Parameter
from memoranda.cli.console_link import console_link
from memoranda.cli.run import GivenRun
from memoranda.cli.server_address import server_url
from memoranda.cli.show import note
from memoranda.opening import owner_credential


def console(
    *,
    url: Annotated[
        str | None,
        Parameter(help="The server's address (default: where `memoranda serve` listens)."),
    ] = None,
    browser: Annotated[
        bool, Parameter(name="--open", help="Open the link in the browser.")
    ] = False,
    run: GivenRun,
) -> None:
    """Print a link that signs a browser in to the console of a running server; it works once."""
    settings = run.settings()
    with run.open() as memoranda:
        path = console_link(memoranda.service, owner_credential(memoranda.service, settings, note))
    address = f"{(url or server_url(settings)).rstrip('/')}{path}"
    run.answer({"console": address}, lambda: print(address))
    if browser:
        import webbrowser

        webbrowser.open(address)
