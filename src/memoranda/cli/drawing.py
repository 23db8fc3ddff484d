"""Drawing on a terminal: the width of characters, styles, tables and a progress bar.

A library for this would be larger than all of Memoranda.

Widths are columns and not characters: Chinese characters take two and combining ones none, so use `cell_width` and
never `len` for what is printed. A progress line is drawn on standard error, at most a few times each second, and is
removed before anything else is printed.
"""

from __future__ import annotations

import os
import time
import unicodedata
from collections.abc import Sequence
from typing import Final, TextIO

# Select Graphic Rendition (ECMA-48).
_STYLES: Final = {"bold": "1", "dim": "2"}
# Blanks between two columns.
_GAP: Final = 2
# Cells of the narrowest last column.
_LEAST_CELLS: Final = 10
_BAR_CELLS: Final = 40
# Seconds between two drawings of a bar.
_REDRAW_SECONDS: Final = 0.1
_ERASE_LINE: Final = "\r\x1b[K"


def cell_width(text: str) -> int:
    """Return the columns of a terminal that a text takes."""
    return len(text) if text.isascii() else sum(map(_width_of, text))


def _width_of(char: str) -> int:
    """Return the columns of a character: none for combining ones, two for wide ones such as Chinese ones."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def apply_style(text: str, style: str) -> str:
    """Return the text in a style, `bold` or `dim`, if the terminal has styles."""
    if not style or os.environ.get("TERM") == "dumb" or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def draw_table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the lines of a table. Its last column is wrapped into what is left of the width; the others are not."""
    widths = [
        max(map(cell_width, cells))
        for cells in zip(columns[:-1], *(row[:-1] for row in rows), strict=True)
    ]
    before_last = sum(widths) + _GAP * len(widths)
    room = max(_LEAST_CELLS, width - before_last)
    heading = "".join(map(_pad, columns[:-1], widths)) + columns[-1]
    lines = [apply_style(heading.rstrip(), "bold")]
    for row in rows:
        first, *further = wrap(row[-1], room)
        lines.append(("".join(map(_pad, row[:-1], widths)) + first).rstrip())
        lines += [" " * before_last + part for part in further]
    return lines


def _pad(cell: str, width: int) -> str:
    """Return a cell with the blanks up to the next column."""
    return cell + " " * (width - cell_width(cell) + _GAP)


def wrap(text: str, width: int) -> list[str]:
    """Split a text at blanks into lines of at most `width` columns; longer words are split anywhere."""
    lines, current, length = [], "", 0
    for word in text.split(" "):
        needed = cell_width(word)
        if current and length + 1 + needed <= width:
            current, length = f"{current} {word}", length + 1 + needed
            continue
        if current:
            lines.append(current)
        current, length = "", 0
        for char in word:
            if length + (cells := _width_of(char)) > width:
                lines.append(current)
                current, length = "", 0
            current, length = current + char, length + cells
    return [*lines, current]


class ProgressLine:
    """A line of a terminal that shows how far the current step is; it is erased at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begin = time.monotonic()
        self._drawn_at = 0.0
        self._title = self._text = ""
        self._is_current = True

    def draw(self, title: str, count: int, total: int | None) -> None:
        """Show the state of a step, unless one was shown a moment ago."""
        now = time.monotonic()
        minutes, seconds = divmod(int(now - self._begin), 60)
        bar, numbers = "", str(count)
        if total is not None:
            cells = round(_BAR_CELLS * min(1.0, count / max(1, total)))
            bar, numbers = f"{'━' * cells:─<{_BAR_CELLS}} ", f"{count}/{total}"
        if title != self._title:
            self._show_end()
            self._title = title
        self._text = f"{title} {bar}{numbers} {minutes}:{seconds:02d}"
        self._is_current = now - self._drawn_at >= _REDRAW_SECONDS
        if self._is_current:
            self._drawn_at = now
            self._write(self._text)

    def erase(self) -> None:
        """Show the end of the last step, and remove the line."""
        self._show_end()
        self._write("")

    def _show_end(self) -> None:
        """Show the last state if it was left out because it came too soon."""
        if not self._is_current:
            self._write(self._text)

    def _write(self, text: str) -> None:
        """Replace the line."""
        self._stream.write(f"{_ERASE_LINE}{text}")
        self._stream.flush()
