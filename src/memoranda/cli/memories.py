"""get, forget, history and feedback: commands about one memory, named by its id."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.cli.options import MemoryId
from memoranda.cli.records import record_block
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import (
    is_confirmed,
    line,
    note,
    one_line,
    safe,
    when,
)

if TYPE_CHECKING:
    from memoranda.standards.ump.shapes import Record

Outcome = Literal["followed", "overridden", "ignored", "contradicted"]


def get(name: MemoryId, /, *, run: GivenRun) -> None:
    """Show one memory."""
    with run.open() as memoranda:
        record = memoranda.ump.get(name)
        short_ids = memoranda.ump.short_ids([record["id"]])
    run.answer({"record": record}, lambda: _show_record(record, short_ids))


def _show_record(record: Record, short_ids: Mapping[str, str]) -> None:
    record_block(record, short=short_ids)
    time, lifecycle = record["time"], record.get("lifecycle", {})
    valid_to = time.get("valid_to")
    end = f"until {when(valid_to)}" if valid_to else "no end"
    line(f"  valid since {when(time.get('valid_from', time['created']))}, {end}", "dim")
    line("  " + ", ".join(f"{name} {value}" for name, value in lifecycle.items()), "dim")
    for relation in record.get("relations", ()):
        line(f"  {relation['type']} {one_line(relation['target'])}", "dim")
    if record.get("superseded_by"):
        line(f"  superseded by {record['superseded_by'][0]}", "dim")


def forget(
    name: MemoryId,
    /,
    *,
    reason: Annotated[str, Parameter(help="The reason; kept in the audit log.")] = "",
    hard: Annotated[
        bool, Parameter(help="Erase it permanently, with its earlier versions.")
    ] = False,
    yes: Annotated[bool, Parameter(help="Do not ask for confirmation.")] = False,
    run: GivenRun,
) -> int:
    """Forget a memory: no search finds it any more, and undo restores it. With --hard its content is erased."""
    with run.open() as memoranda:
        record = memoranda.ump.get(name)
        if hard and not yes and sys.stdin.isatty() and not _is_erasure_confirmed(record):
            note("nothing was erased")
            return 1
        result = memoranda.forget(record["id"], reason=reason, hard=hard)
    run.answer({"result": result}, lambda: line(f"{name} {result}"))
    return 0


def _is_erasure_confirmed(record: Record) -> bool:
    """Show the text to the person at the terminal, and ask before it is erased."""
    print(f"{safe(record['body']['text'])}\n", file=sys.stderr)
    return is_confirmed("Erase this and its earlier versions permanently?")


def history(name: MemoryId, /, *, run: GivenRun) -> None:
    """Show all versions of a memory, oldest first."""
    with run.open() as memoranda:
        versions: list[dict[str, Any]] = memoranda.ump.history(name)
        short_ids = memoranda.ump.short_ids([version["record"]["id"] for version in versions])

    def show() -> None:
        for version in versions:
            replaced = f" to {when(version['replaced'])}" if version["replaced"] else ""
            doubt = "" if version["verified"] else "  SIGNATURE DOES NOT VERIFY"
            record_block(
                version["record"],
                head=f"{when(version['recorded'])}{replaced}{doubt}",
                short=short_ids,
            )

    run.answer({"versions": versions}, show)


def feedback(
    name: MemoryId,
    outcome: Annotated[Outcome, Parameter(help="How it was used.")],
    /,
    *,
    session: Annotated[str | None, Parameter(help="The session in which it was used.")] = None,
    run: GivenRun,
) -> None:
    """Report how a recalled memory was used; later rankings take it into account."""
    with run.open() as memoranda:
        memoranda.feedback(name, outcome, session=session)
    run.answer({"ok": True}, lambda: line(f"{name} {outcome}"))
