"""How things are written on a page: moments, names, differences. Nothing here is markup; templates escape it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from memoranda.bindings.console.texts import Texts
from memoranda.model.instant import Instant, format_instant, parse_instant

_STEPS: Final = (
    (60, "second"),
    (60, "minute"),
    (24, "hour"),
    (30, "day"),
    (12, "month"),
)
_WORD: Final = re.compile(r"\s+|[^\s]+")
# Longer texts are compared by lines: by words it would take the square of their length.
_COMPARED_WORDS: Final = 2_000
_DAY_CHARS: Final = 10


class Piece(NamedTuple):
    """A part of a text that stayed, came or went."""

    text: str
    change: str


def ago(moment: str | Instant, now: Instant, text: Texts) -> str:
    """How long ago, in one number: 3 days ago."""
    then = parse_instant(moment) if isinstance(moment, str) else moment
    left = (now - then) // 1_000
    is_past, left = left >= 0, abs(left)
    if left < 1:
        return text("time.now")
    unit = "year"
    for size, name in _STEPS:
        unit = name
        if left < size:
            break
        left //= size
    else:
        unit = "year"
    return text("time.ago" if is_past else "time.ahead", time=text(f"time.{unit}", n=left))


def day(moment: str | Instant) -> str:
    """The day of a moment, as forms of browsers write it."""
    return iso(moment)[:_DAY_CHARS]


def iso(moment: str | Instant) -> str:
    """Return a moment as machines read it; a script shows it in the reader's time zone."""
    if isinstance(moment, str):
        return moment
    return format_instant(moment)


def difference(before: str, after: str) -> list[Piece]:
    """What of a text went and what came, by words."""
    is_long = len(before) + len(after) > 8 * _COMPARED_WORDS
    old, new = (
        text.splitlines(keepends=True) if is_long else _WORD.findall(text)
        for text in (before, after)
    )
    return list(_pieces(old, new))


def _pieces(old: list[str], new: list[str]) -> Iterator[Piece]:
    compared = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in compared.get_opcodes():
        if tag == "equal":
            yield Piece("".join(old[old_start:old_end]), "")
            continue
        if old_end > old_start:
            yield Piece("".join(old[old_start:old_end]), "gone")
        if new_end > new_start:
            yield Piece("".join(new[new_start:new_end]), "new")
