"""edit: change the text of a memory in an editor."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from memoranda.cli.options import MemoryId
from memoranda.cli.run import GivenRun
from memoranda.cli.show import displayed_id, line, note
from memoranda.errors import InvalidInput
from memoranda.standards.ump.rules import require_complete


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
