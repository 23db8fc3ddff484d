"""Output for people: plain lines in a pipe; styles, tables and progress bars on a terminal.

Two audiences: on a terminal, people want tables, relative times and short ids; in a pipe, programs want exact values,
one record per line, and nothing else. Every function here decides by `isatty`. Everything that comes from the store
passes `safe`, because a memory may contain control characters that would change the terminal. `--json` bypasses this
module (`run.answer`).
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from memoranda.cli.drawing import ProgressLine, apply_style, draw_table
from memoranda.cli.logs import log_note
from memoranda.encoding.terminal import UNSAFE
from memoranda.model.instant import parse_instant

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.service.exchange.report import Report
    from memoranda.standards.ump.signature import ChainReport

_SPACES = re.compile(r"\s+")
# Seconds that a command may take without a progress bar.
PATIENCE = 1.0
# Characters of a DID in a table; the last ones of a key differ, its first ones name the kind of key.
_ACTOR_CHARS = 8
_USUAL_COLUMNS = 80
# Characters that a cut column keeps at least: those of a short id.
_LEAST_CHARS = 8
_LINE_BREAKS = frozenset("\r\n\u2028\u2029")


def terminal_width() -> int:
    """Return the columns of the terminal: those in COLUMNS, those of standard output, or 80."""
    # As `shutil.get_terminal_size`, whose module takes a millisecond to import.
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(1).columns or _USUAL_COLUMNS
    except OSError:
        return _USUAL_COLUMNS


def safe(text: str) -> str:
    """Escape the characters that a terminal would obey; line feeds and tabs stay."""
    return UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Put a text on one line, safe for a terminal."""
    joined_text = _SPACES.sub(
        lambda match: match[0] if _LINE_BREAKS.isdisjoint(match[0]) else " ", text
    )
    return safe(joined_text.replace("\t", " ").strip())


def line(text: str, style: str = "") -> None:
    """Print a line for a person; the style shows only on a terminal."""
    print(apply_style(safe(text), style) if sys.stdout.isatty() else safe(text))


def note(text: str, *, is_failure: bool = False) -> None:
    """Print a remark or an error on standard error; if the log is JSON, write it as a line of the log."""
    if not log_note(text, "error" if is_failure else "warning"):
        print(f"memoranda: {safe(text)}", file=sys.stderr, flush=True)


def is_confirmed(question: str) -> bool:
    """Ask the person at the terminal, on standard error; anything but y or yes means no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    when_empty: str,
    clipped: Collection[str] = (),
) -> None:
    """Print rows under headings; in a pipe, fields separated by tabs and no headings.

    On a terminal that is too narrow, the columns in `clipped` are cut until a row fits on one line.

    `clipped` names the columns that may be cut.
    """
    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    if not cells:
        note(when_empty)
    elif sys.stdout.isatty():
        width = terminal_width()
        print("\n".join(draw_table(columns, _fit_cells(columns, cells, clipped), width)))
    else:
        for row in cells:
            print("\t".join(row))


def _fit_cells(
    columns: Sequence[str], cells: list[list[str]], clipped: Collection[str]
) -> list[list[str]]:
    """Cut the widest of some columns until the rows fit on the terminal, or all of them have their least width."""
    widths = [
        max(len(cell) for cell in column) for column in zip(list(columns), *cells, strict=True)
    ]
    # Between two columns stand two blanks.
    excess = sum(widths) + 2 * (len(columns) - 1) - terminal_width()
    while excess > 0:
        position = max(
            (position for position, name in enumerate(columns) if name in clipped),
            key=widths.__getitem__,
            default=None,
        )
        if position is None or widths[position] <= _LEAST_CHARS:
            break
        widths[position] -= 1
        excess -= 1
    return [
        [
            cell if len(cell) <= width else f"{cell[: width - 1]}…"
            for cell, width in zip(row, widths, strict=True)
        ]
        for row in cells
    ]


def displayed_id(memoranda: Memoranda, name: str) -> str:
    """Return an id as people see it: short on a terminal, complete in a pipe."""
    return memoranda.ump.short_ids([name])[name] if sys.stdout.isatty() else name


def displayed_actor(did: str) -> str:
    """Return a DID as people see it: its method and its last characters on a terminal, complete in a pipe."""
    method, _, name = did.rpartition(":")
    if not sys.stdout.isatty() or len(name) <= _ACTOR_CHARS:
        return did
    return f"{method}:…{name[-_ACTOR_CHARS:]}"


# Units of time with their seconds, the largest first. A year and a month have their Gregorian average.
_TIME_UNITS = (
    ("year", 31_556_952),
    ("month", 2_629_746),
    ("week", 604_800),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
)


def when(instant: str, *, exact: bool = False) -> str:
    """Return a moment as people see it: "3 days ago" on a terminal, exact in a pipe or on request.

    Relative times are for reading; use `exact` where somebody may copy the value.
    """
    if exact or not sys.stdout.isatty():
        return instant
    seconds = time.time() - parse_instant(instant) / 1_000
    for name, size in _TIME_UNITS:
        if abs(seconds) >= size:
            number = count_phrase(int(abs(seconds) // size), name)
            return f"{number} ago" if seconds > 0 else f"in {number}"
    return "just now"


def no_matches(project: str | None, elsewhere: Mapping[str, int]) -> str:
    """Return the message for a search without results; `elsewhere` counts matches in other projects."""
    if project is None:
        return "no matches"
    counts = ", ".join(f"{count} in {name or 'no project'}" for name, count in elsewhere.items())
    return (
        f"no matches in {project}; {counts}" if counts else f"no matches in {project}, or elsewhere"
    )


def note_report(report: Report) -> None:
    """Print the warnings of an import or export, and what it refused, each with its file and line."""
    for warning in report.warnings:
        note(f"warning: {warning}")
    if (rest_count := report.warned - len(report.warnings)) > 0:
        note(f"and {rest_count} more warnings")
    for refusal in report.refusals:
        note(f"{refusal.where or refusal.id}: {refusal.message}")
    if (rest_count := report.refused - len(report.refusals)) > 0:
        note(f"and {rest_count} more like these")


# The number of items in all, or a function that counts them.
Total = int | Callable[[], int] | None


class _Display:
    """The progress line of one command, on standard error if that is a terminal.

    It appears only after `PATIENCE`, so that a command that ends sooner shows none.
    """

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._line: ProgressLine | None = None

    def progress_line(self) -> ProgressLine | None:
        """Return the line; None if it is too early, or without a terminal."""
        is_due = time.monotonic() - self._begin >= PATIENCE
        if self._line is None and is_due and sys.stderr.isatty():
            self._line = ProgressLine(sys.stderr)
        return self._line

    def close(self) -> None:
        """Remove the line from the terminal."""
        if self._line is not None:
            self._line.erase()


class Bar:
    """A progress bar: call it with the number of items done. It appears with the first call after a second.

    A total that takes a query to know is given as a function, which is called only if the bar appears. Without a total,
    there is no bar but the number alone.
    """

    def __init__(self, display: _Display, title: str, total: Total = None) -> None:
        self._display, self._title, self._total = display, title, total

    def __call__(self, count: int) -> None:
        if (line := self._display.progress_line()) is None:
            return
        if callable(self._total):
            self._total = self._total()
        line.draw(self._title, count, self._total)

    def expect(self, total: int) -> None:
        """Set the number of items in all."""
        self._total = total


@contextmanager
def progress(title: str, total: Total = None) -> Iterator[Bar]:
    """Show a progress bar on standard error, if that is a terminal and the work takes more than a second.

    `total` may be a function, which is called only if the bar is shown.
    """
    with closing(_Display()) as display:
        yield Bar(display, title, total)


@contextmanager
def progress_steps(*titles: str) -> Iterator[tuple[Callable[[int], None], ...]]:
    """Show a progress bar for each of several steps; a bar appears when its step begins."""
    with closing(_Display()) as display:
        yield tuple(Bar(display, title) for title in titles)


def count_phrase(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, such as "1 record" or "2 records"."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def audit_entries(report: ChainReport) -> str:
    """Return the number of audit entries, and of those that were pruned before them."""
    pruned = f", {report.pruned} before them were pruned" if report.pruned else ""
    return count_phrase(report.count, "audit entry", "audit entries") + pruned
