"""get, edit, forget, history and feedback: commands about one memory, named by its id."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.cli.options import MemoryId
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import (
    displayed_id,
    is_confirmed,
    line,
    note,
    one_line,
    record_block,
    safe,
    when,
)
from memoranda.errors import InvalidInput
from memoranda.standards.ump.rules import require_complete

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


def edit(name: MemoryId, /, *, run: GivenRun) -> int:
    """Change the text of a memory in your editor ($VISUAL or $EDITOR); the old version stays in its history."""
    with run.open() as memoranda:
        memory = memoranda.get(name)
        require_complete(memory.record, ("body",))
        text = _edit_text(memory.text)
        if text == memory.text or not text.strip():
            note("nothing was changed")
            return 1
        revised = memoranda.revise(memory.id, text)
        new_name = displayed_id(memoranda, revised.id)
    run.answer(
        {"id": revised.id, "supersedes": list(revised.supersedes)},
        lambda: line(f"{new_name} revised"),
    )
    return 0


def _edit_text(text: str) -> str:
    """Return the text after the person edited it. Raises InvalidInput if the editor does not start, or fails."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    # Only its owner can read the folder.
    with TemporaryDirectory(prefix="memoranda-") as folder:
        file = Path(folder) / "memory.txt"
        file.write_text(text + "\n", encoding="utf-8", newline="")
        try:
            # The person chose this program for their own machine.
            code = subprocess.run([*shlex.split(command), str(file)], check=False).returncode  # noqa: S603
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"the editor {command!r} cannot be started: {error}; set EDITOR"
            ) from None
        if code:
            raise InvalidInput(f"the editor {command!r} ended with {code}; nothing was changed")
        try:
            with file.open(encoding="utf-8", newline="") as edited:
                return edited.read().removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"the edited text cannot be read: {error}") from None
