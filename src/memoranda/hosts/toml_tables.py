"""TOML, edited as text: an entry is a table of its own at the end."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from memoranda.errors import InvalidInput
from memoranda.hosts.document import Entry, Slot, lines_of, newline_of

_HEADER = re.compile(r"[ \t]*\[")


class TomlTables:
    """TOML."""

    def parse(self, text: str) -> Any:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidInput(f"it is not TOML: {error}") from None

    def put(self, text: str, slot: Slot, value: Entry) -> str:
        newline, text = newline_of(text), self.take(text, slot)
        header = ".".join((*slot.path, slot.name))
        lines = [
            f"[{header}]",
            *(f"{key} = {json.dumps(each, ensure_ascii=False)}" for key, each in value.items()),
        ]
        before = text if not text or text.endswith("\n") else text + newline
        return (before + newline if before else "") + newline.join(lines) + newline

    def take(self, text: str, slot: Slot) -> str:
        names = r"[ \t]*\.[ \t]*".join(f'"?{re.escape(each)}"?' for each in (*slot.path, slot.name))
        ours = re.compile(rf"[ \t]*\[[ \t]*{names}[ \t]*[.\]]")
        left: list[str] = []
        held: list[str] = []
        is_ours = False
        for line in lines_of(text):
            if _HEADER.match(line):
                # Blank lines and comments before a header are about what follows.
                left += held
                is_ours, held = ours.match(line) is not None, []
                if is_ours and left and not left[-1].strip():
                    left.pop()
            if not is_ours:
                left.append(line)
            elif not line.strip() or line.lstrip().startswith("#"):
                held.append(line)
            else:
                held = []
        return "".join(left + held)
