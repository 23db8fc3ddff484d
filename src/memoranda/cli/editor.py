"""A text in the person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from memoranda.errors import InvalidInput


def edited(text: str) -> str:
    """What the person made of a text. Raises InvalidInput when the editor cannot be started or says that it failed."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    # Only its owner can look into the folder.
    with TemporaryDirectory(prefix="memoranda-") as folder:
        file = Path(folder) / "memory.txt"
        file.write_text(text + "\n", encoding="utf-8", newline="")
        try:
            # The person's own choice, on the person's own machine.
            code = subprocess.run([*shlex.split(command), str(file)], check=False).returncode  # noqa: S603
        except (OSError, ValueError) as error:
            raise InvalidInput(f"the editor {command!r} cannot be started: {error}; set EDITOR") from None
        if code:
            raise InvalidInput(f"the editor {command!r} ended with {code}; nothing was changed")
        try:
            with file.open(encoding="utf-8", newline="") as changed:
                return changed.read().removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"what the editor wrote cannot be read: {error}") from None
