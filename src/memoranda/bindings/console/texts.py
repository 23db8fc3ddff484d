"""The words of the pages: one file for each language, chosen by what the browser asks for.

What the service says of an error is not among them: every binding says that in the same words.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from markupsafe import Markup, escape

FIRST: Final = "en"
_FOLDER: Final = files("memoranda.bindings.console") / "texts"


class Texts:
    """All texts of one language, by their names: `memories.search`."""

    def __init__(
        self, language: str, entries: Mapping[str, Mapping[str, str | Mapping[str, str]]]
    ) -> None:
        self.language = language
        self._entries = {
            f"{part}.{name}": text
            for part, texts in entries.items()
            for name, text in texts.items()
        }

    def __call__(self, name: str, /, **values: object) -> str:
        """A text, with what is put in; where it has several forms, `n` decides."""
        entry = self._entries[name]
        if not isinstance(entry, str):
            entry = entry["one" if values["n"] == 1 else "other"]
        return entry.format_map(values) if values else entry

    def rich(self, name: str, /, **values: object) -> Markup:
        """The same, with what stands between backticks as code."""
        parts = self(name, **values).split("`")
        marked = (
            f"<code>{escape(part)}</code>" if place % 2 else escape(part)
            for place, part in enumerate(parts)
        )
        return Markup("").join(Markup(part) for part in marked)  # noqa: S704 - every part is escaped above

    def names(self) -> frozenset[str]:
        return frozenset(self._entries)


@cache
def languages() -> Mapping[str, Texts]:
    """The languages there are."""
    found = (each for each in _FOLDER.iterdir() if each.name.endswith(".toml"))
    return {
        (language := each.name.removesuffix(".toml")): Texts(
            language, tomllib.loads(each.read_text("utf-8"))
        )
        for each in found
    }


def texts_for(accepted: str) -> Texts:
    """The texts of the first language that a browser asks for (`Accept-Language`) and that there is."""
    there = languages()
    asked: list[tuple[float, int, str]] = []
    for place, part in enumerate(accepted[:1_000].split(",")):
        name, _, weight = part.strip().partition(";q=")
        try:
            asked.append((-float(weight or 1), place, name.partition("-")[0].lower()))
        except ValueError:
            continue
    return next((there[name] for _, _, name in sorted(asked) if name in there), there[FIRST])
