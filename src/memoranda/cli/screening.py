"""redact and suspicious: find memories that hold secrets or prompt injections, and mend or dismiss them.

Both commands have two forms: without an id they list what was found, with ids they act. Redacting reaches earlier
versions and cannot be undone, so it asks first. A false alarm is dismissed with `--allow` and is not listed again.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import line, one_line, progress, table
from memoranda.errors import InvalidInput

# Characters of a text in a row of the table.
_TEXT_CHARS = 80


def redact(
    names: Annotated[
        tuple[str, ...], Parameter(name="ID", help="A memory's id; without one, lists secrets.")
    ] = (),
    /,
    *,
    all_current: Annotated[
        bool, Parameter(name="--all", help="Redact every memory in the list.")
    ] = False,
    run: GivenRun,
) -> None:
    """List likely secrets, or redact them permanently, earlier versions included."""
    with run.open() as memoranda:
        suspects = []
        if not names:
            with progress(
                "checking", partial(memoranda.service.count_versions, memoranda.owner)
            ) as bar:
                suspects = list(memoranda.ump.suspects(progress=bar))
        # Places outside memories, such as files and run logs, cannot be redacted: they are deleted or replaced.
        outside = [] if names or all_current else list(memoranda.ump.suspects_beside())
        if all_current:
            names = tuple(suspect.id for suspect in suspects)
        redacted = [{"id": memoranda.ump.redact(name), "was": name} for name in names]

    def show_redacted() -> None:
        for memory in redacted:
            line(f"{memory['id']} redacted")

    if names:
        run.answer({"redacted": redacted}, show_redacted)
        return
    documents = [
        {
            "id": suspect.id,
            "kinds": list(suspect.kinds),
            "text": suspect.text,
            "current": suspect.is_current,
        }
        for suspect in suspects
    ]
    rows = [
        (suspect.id, ", ".join(suspect.kinds), suspect.text[:_TEXT_CHARS]) for suspect in suspects
    ]
    rows += [(suspect.where, ", ".join(suspect.kinds), "") for suspect in outside]
    run.answer(
        {
            "suspects": documents,
            "beside": [
                {"where": suspect.where, "kinds": list(suspect.kinds)} for suspect in outside
            ],
        },
        lambda: table(("id", "kind", "text"), rows, when_empty="no likely secrets found"),
    )


def suspicious(
    names: Annotated[
        tuple[str, ...], Parameter(name="ID", help="With --allow: the id of a memory.")
    ] = (),
    /,
    *,
    allow: Annotated[bool, Parameter(help="Dismiss these memories as false alarms.")] = False,
    run: GivenRun,
) -> None:
    """List memories that look like prompt injection: text an agent has read may have placed them there.

    Delete what you did not write; --allow dismisses false alarms.
    """
    if allow != bool(names):
        raise InvalidInput("--allow and ids need each other: memoranda suspicious ID --allow")
    with run.open() as memoranda:
        for name in names:
            memoranda.ump.allow_orders(name)
        if names:
            run.answer({"allowed": list(names)}, lambda: line(f"{len(names)} allowed"))
            return
        with progress(
            "checking", partial(memoranda.service.count_versions, memoranda.owner)
        ) as bar:
            suspects = list(memoranda.ump.orders(progress=bar))
        short_ids = memoranda.ump.short_ids([suspect.id for suspect in suspects])
    documents = [
        {"id": suspect.id, "kinds": list(suspect.kinds), "text": suspect.text}
        for suspect in suspects
    ]
    rows = [
        (short_ids[suspect.id], ", ".join(suspect.kinds), one_line(suspect.text)[:_TEXT_CHARS])
        for suspect in suspects
    ]
    run.answer(
        {"suspicious": documents},
        lambda: table(
            ("id", "kind", "text"), rows, when_empty="nothing looks like prompt injection"
        ),
    )
