"""What a person sees: plain lines in a pipe, colours, tables and progress bars on a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from memoranda.encoding.terminal import UNSAFE

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from memoranda.app import Memoranda
    from memoranda.service.report import Report
    from memoranda.standards.ump.audit import ChainReport

_SPACES = re.compile(r"\s+")
_BREAKS = frozenset("\r\n\u2028\u2029")


def safe(text: str) -> str:
    """The text with what a terminal would obey made visible; line feeds and tabs stay."""
    return UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The text on one line."""
    joined = _SPACES.sub(lambda found: found[0] if _BREAKS.isdisjoint(found[0]) else " ", text)
    return safe(joined.replace("\t", " ").strip())


def line(text: str, style: str = "") -> None:
    """One line for a person; the style shows only on a terminal."""
    if sys.stdout.isatty():
        from rich.text import Text

        _console().print(Text(safe(text), style=style), soft_wrap=True)
    else:
        print(safe(text))


def note(text: str, *, is_failure: bool = False) -> None:
    """Print something beside the answer on standard error; where the log is JSON, as a line of the log."""
    from memoranda.cli.logs import log_note

    if not log_note(text, "error" if is_failure else "warning"):
        print(f"memoranda: {safe(text)}", file=sys.stderr, flush=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, when_empty: str) -> None:
    """Rows under headings; in a pipe, fields separated by tabs and no headings."""
    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    if not cells:
        note(when_empty)
    elif sys.stdout.isatty():
        from rich.table import Table
        from rich.text import Text

        shown = Table(box=None, pad_edge=False, header_style="bold")
        for place, column in enumerate(columns):
            # What is named or dated is read in one piece; the text at the end takes what room there is.
            is_last = place == len(columns) - 1
            shown.add_column(column, overflow="fold" if is_last else "ignore", no_wrap=not is_last)
        for row in cells:
            shown.add_row(*map(Text, row))
        _console().print(shown)
    else:
        for row in cells:
            print("\t".join(row))


def record_block(record: Mapping[str, Any], *, head: str = "", short: Mapping[str, str] | None = None) -> None:
    """One record: a line about it, its text, its id, which on a terminal may be a short one."""
    scope, lifecycle = record["scope"], record.get("lifecycle", {})
    about = [head, record["kind"], scope.get("project", ""), scope.get("visibility", "private")]
    if sys.stdout.isatty():
        about.append(when(record["time"]["created"]))
    if lifecycle.get("status", "active") != "active":
        about.append(lifecycle["status"])
    line("  ".join(one_line(part) for part in about if part), "bold")
    for each in record["body"]["text"].split("\n"):
        line(f"  {each}")
    line(f"  {short[record['id']] if short and sys.stdout.isatty() else record['id']}", "dim")


def shown_id(memoranda: Memoranda, name: str) -> str:
    """An id for a person: short on a terminal, whole in a pipe."""
    return memoranda.ump.short_ids([name])[name] if sys.stdout.isatty() else name


_SPANS = (
    ("year", 31_556_952),
    ("month", 2_629_746),
    ("week", 604_800),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
)


def when(instant: str, *, exact: bool = False) -> str:
    """Return a moment for a person: how long ago it was or how long it is until then; exact in a pipe or on request."""
    if exact or not sys.stdout.isatty():
        return instant
    import time

    from memoranda.model.instant import parse_instant

    seconds = time.time() - parse_instant(instant) / 1_000
    for name, size in _SPANS:
        if abs(seconds) >= size:
            number = counted(int(abs(seconds) // size), name)
            return f"{number} ago" if seconds > 0 else f"in {number}"
    return "just now"


def nothing_found(project: str | None, elsewhere: Mapping[str, int]) -> str:
    """What is said when a question found nothing: also where else there is something."""
    if project is None:
        return "nothing found"
    others = ", ".join(f"{count} in {name or 'no project'}" for name, count in elsewhere.items())
    return f"nothing in {project}; {others}" if others else f"nothing found in {project}, or elsewhere"


def note_report(report: Report) -> None:
    """What an exchange refused, and what it found odd, each with its place."""
    for warning in report.warnings:
        note(f"warning: {warning}")
    if (more := report.warned - len(report.warnings)) > 0:
        note(f"and {more} more warnings")
    for each in report.refusals:
        note(f"{each.where or each.id}: {each.message}")
    if (more := report.refused - len(report.refusals)) > 0:
        note(f"and {more} more like these")


class Bar:
    """A bar of a step: called with how much is done; without a terminal nothing is shown."""

    def __init__(self, bars: Progress | None = None, task: TaskID | None = None) -> None:
        self._bars, self._task = bars, task

    def __call__(self, done: int) -> None:
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=done)

    def expect(self, total: int) -> None:
        """Say how much there is in all."""
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, total=total)


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Bar]:
    """A bar on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield Bar()
        return
    with _bars() as bars:
        yield Bar(bars, bars.add_task(title, total=total))


@contextmanager
def progress_steps(*titles: str) -> Iterator[tuple[Callable[[int], None], ...]]:
    """The same for steps that follow one another: a bar each, which appears when its step begins."""
    if not sys.stderr.isatty():
        yield tuple(lambda _: None for _ in titles)
        return
    with _bars() as bar:
        tasks = [bar.add_task(title, total=None, visible=False) for title in titles]
        yield tuple(partial(_advance, bar, task) for task in tasks)


def _advance(bar: Progress, task: TaskID, done: int) -> None:
    bar.update(task, completed=done, visible=True)


def _bars() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def counted(number: int, one: str, many: str | None = None) -> str:
    """ "1 record", "2 records"."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def audit_entries(report: ChainReport) -> str:
    """How many entries an audit log has, and how many it had before it was pruned."""
    pruned = f", {report.pruned} before them were pruned" if report.pruned else ""
    return counted(report.count, "audit entry", "audit entries") + pruned


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False)
