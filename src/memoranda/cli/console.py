"""console: print a link that signs a browser in to a running server."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

from memoranda.bindings.console.visit import ROOT
from memoranda.cli.health import find_failure
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import note
from memoranda.opening import owner_credential
from memoranda.service.service import Service
from memoranda.settings import server_url

# Seconds to wait for the server; one on this machine answers in milliseconds.
ANSWER_SECONDS = 2.0


def console_link(service: Service, credential: Path) -> str:
    """Return a path that signs a browser in, once, with the rights of the API key in a file."""
    key = credential.read_text(encoding="utf-8").strip()
    return f"{ROOT}/enter?link={service.sessions.create_link(key)}"


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
    reason = find_failure(settings, url, seconds=ANSWER_SECONDS)
    run.answer({"console": address, "is_running": not reason}, lambda: print(address))
    if reason:
        base = address.removesuffix(path)
        note(
            f"no server answers at {base} ({reason}): start one with 'memoranda serve', then open the link"
        )
    elif browser:
        webbrowser.open(address)
