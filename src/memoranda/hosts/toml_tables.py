"""Edits of TOML as text: an entry is a table at the end of the file."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from memoranda.errors import InvalidInput
from memoranda.hosts.document import Entry, EntrySlot, detect_newline, split_lines

_HEADER = re.compile(r"[ \t]*\[")


class TomlTables:
    """The format of TOML files."""

    def parse(self, text: str) -> Any:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidInput(f"it is not TOML: {error}") from None

    def add_entry(self, text: str, slot: EntrySlot, value: Entry) -> str:
        newline, text = detect_newline(text), self.remove_entry(text, slot)
        header = ".".join((*slot.path, slot.name))
        lines = [
            f"[{header}]",
            *(f"{key} = {json.dumps(item, ensure_ascii=False)}" for key, item in value.items()),
        ]
        before = text if not text or text.endswith("\n") else text + newline
        return (before + newline if before else "") + newline.join(lines) + newline

    def remove_entry(self, text: str, slot: EntrySlot) -> str:
        names = r"[ \t]*\.[ \t]*".join(f'"?{re.escape(key)}"?' for key in (*slot.path, slot.name))
        ours = re.compile(rf"[ \t]*\[[ \t]*{names}[ \t]*[.\]]")
        remaining: list[str] = []
        pending: list[str] = []
        is_ours = False
        for line in split_lines(text):
            if _HEADER.match(line):
                # Blank lines and comments before a header belong to the next table.
                remaining += pending
                is_ours, pending = ours.match(line) is not None, []
                if is_ours and remaining and not remaining[-1].strip():
                    remaining.pop()
            if not is_ours:
                remaining.append(line)
            elif not line.strip() or line.lstrip().startswith("#"):
                pending.append(line)
            else:
                pending = []
        return "".join(remaining + pending)
