"""conformance: check any server against the published probes, vectors and scenarios of the standards."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec

from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import line, table
from memoranda.conformance import checks
from memoranda.conformance.session import Reply
from memoranda.library.remote import ServerConnection

StandardName = Literal["ump", "oams", "openwop", "oms"]


def conformance(
    url: Annotated[str, Parameter(name="URL", help="The server: Memoranda, or any other.")],
    /,
    *,
    key: Annotated[
        str | None,
        Parameter(
            help="An API key or a capability token for it (default: the variable CONFORMANCE_KEY)."
        ),
    ] = None,
    owner: Annotated[
        str | None,
        Parameter(help="The owner that UMP memories are written for (default: the credential's)."),
    ] = None,
    standard: Annotated[
        tuple[StandardName, ...],
        Parameter(help="Only this standard; can be repeated (default: all)."),
    ] = (),
    run: GivenRun,
) -> int:
    """Check a server against the standards, and print the table. Exit code 1 if a check failed.

    The checks write a few memories under names of their own, and forget them.
    """
    # A key on the command line is visible to other users of the machine.
    connection = ServerConnection(url, key or os.environ.get("CONFORMANCE_KEY"))

    def send(method: str, path: str, body: object = None, *, is_anonymous: bool = False) -> Reply:
        return Reply(*connection.try_request(method, path, body, is_anonymous=is_anonymous))

    try:
        results = list(
            checks.run_checks(send, owner=owner or checks.find_owner(send), standards=standard)
        )
    finally:
        connection.close()
    counts = checks.summarize(results)
    rows = [
        (result.standard, result.section, result.title, result.state, result.reason)
        for result in results
    ]

    def show() -> None:
        table(("standard", "section", "check", "state", "reason"), rows, when_empty="no checks")
        line(", ".join(f"{count} {state}" for state, count in counts.items()))

    run.answer(
        {
            "url": url,
            "counts": counts,
            "checks": [msgspec.structs.asdict(result) for result in results],
        },
        show,
    )
    return 1 if counts["failed"] else 0
