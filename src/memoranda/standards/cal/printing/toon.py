"""TOON: one table per grain type, with as few tokens as possible (section 10.9).

The form of RECALL, an array with a name and rows that are not indented, is CAL's own.

The head of a table states the number of rows and the columns, so each row needs only its values. A cell is quoted only
if it could be read as something else; the rules for that are in `format_cell` and must match what readers of TOON
expect.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from memoranda.encoding.untrusted import neutralize_tags
from memoranda.standards.cal.fields import PLURAL_OF
from memoranda.standards.cal.printing.elements import ContextFrame, Element, cached_on_element
from memoranda.standards.cal.printing.projection import Level, columns_of, project, to_text
from memoranda.standards.sml.render import format_number

MISSING: Final = "-"
INDENT: Final = "  "
_STANDARD: Final[Mapping[str, tuple[str, ...]]] = {
    "belief": ("subject", "content", "confidence"),
    "event": ("role", "time", "content"),
    "goal": ("subject", "content", "state"),
    "action": ("tool", "phase", "content"),
    "observation": ("observer", "content"),
    "reasoning": ("type", "content"),
    "state": ("context", "content"),
    "workflow": ("trigger", "content"),
    "consensus": ("threshold", "count", "content"),
    "consent": ("grantor", "grantee", "action", "content"),
}
_NOT_IN_SUMMARY: Final = frozenset(("confidence", "state", "phase", "type"))
# A column that tables of goals have if any row has a deadline (cal.md, *due dates in toon*).
_DEADLINE: Final = "deadline"


def _level_columns(level: Level, grain_type: str) -> tuple[str, ...]:
    """Return the columns of a type at a level of detail."""
    columns = _STANDARD[grain_type]
    if level == "summary":
        return tuple(name for name in columns if name not in _NOT_IN_SUMMARY)
    if level == "standard":
        return columns
    # The standard columns of an event have its time already (cal.md, *repeated attributes*).
    return (*columns, "source") if grain_type == "event" else (*columns, "source", "observed")


_LEVELS: Final[Mapping[Level, int]] = {"summary": 0, "standard": 1, "full": 2}
_COLUMNS: Final = {
    (level, grain_type): _level_columns(level, grain_type)
    for level in _LEVELS
    for grain_type in _STANDARD
}
# The cells that are computed for a row: its columns, and the deadline of a goal.
_CELL_NAMES: Final = {
    **_COLUMNS,
    ("standard", "goal"): (*_COLUMNS["standard", "goal"], _DEADLINE),
    ("full", "goal"): (*_COLUMNS["full", "goal"], _DEADLINE),
}


def recall_tables(elements: Sequence[Element], now: int, iso_times: bool) -> str:
    """Return one table per type, in the order of first occurrence (cal.md, *tables of toon*), not indented."""
    return "\n".join(_write_tables(elements, now, iso_times, ""))


def assembled_tables(
    elements: Sequence[Element], frame: ContextFrame, now: int, iso_times: bool
) -> str:
    """Return name, intent and budget of a context, then its tables."""
    lines = []
    if frame.name is not None:
        lines.append(f"context: {format_cell(frame.name)}")
    if frame.intent is not None:
        lines.append(f"intent: {format_cell(frame.intent)}")
    lines.append(f"{frame.unit}: {frame.used}/{frame.total}")
    return "\n".join([*lines, *_write_tables(elements, now, iso_times, INDENT)])


def row_text(element: Element, now: int, iso_times: bool) -> str:
    """Return the row of one grain as if it were alone in its table."""
    cells = _element_cells(element, now, iso_times)
    return _join_row(cells, _group_columns([element], [cells]))


def write_table(name: str, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return a table of arbitrary rows and columns."""
    lines = []
    for row in rows:
        cells = {column: format_cell(row.get(column)) for column in columns}
        lines.append(_join_row(cells, columns))
    return "\n".join([_table_head(name, columns, len(lines)), *lines])


def format_cell(value: object) -> str:
    """Return a value as a cell, in quotes only if it could be read as something else."""
    if value is None:
        return MISSING
    if isinstance(value, int | float):
        return format_toon_number(value)
    text = neutralize_tags(value if type(value) is str else to_text(value))
    if _NEEDS_NO_QUOTES.fullmatch(text) and text not in _LITERALS:
        return text
    # TOON has no escapes for the other line breaks, so they become spaces.
    return f'"{_OTHER_BREAKS.sub(" ", text).translate(_ESCAPES)}"'


def format_toon_number(value: float) -> str:
    """Return a number without exponent and without trailing zeros; null if it is not finite."""
    if isinstance(value, int):
        return format_number(value)
    if not math.isfinite(value):
        return "null"
    return format_number(value).removesuffix(".0") if value else "0"


# Cells that need quotes: empty ones, with space at an end, with a hyphen first, numbers, or with special characters.
_SPECIAL_CHARACTERS: Final = r',:"\\\[\]{}\x00-\x1f\x7f-\x9f\u2028\u2029'
_NEEDS_NO_QUOTES: Final = re.compile(
    rf"(?!-|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z)(?!\s)[^{_SPECIAL_CHARACTERS}]+(?<!\s)",
)
_LITERALS: Final = frozenset(("true", "false", "null"))
_OTHER_BREAKS: Final = re.compile("[\v\f\x1c-\x1e\x85\u2028\u2029]+")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _write_tables(elements: Sequence[Element], now: int, iso_times: bool, indent: str) -> list[str]:
    """Return the lines of one table per grain type."""
    by_type: dict[str, list[Element]] = {}
    for element in elements:
        by_type.setdefault(element.item.grain_type, []).append(element)
    lines = []
    for grain_type, group in by_type.items():
        rows = [_element_cells(element, now, iso_times) for element in group]
        columns = _group_columns(group, rows)
        lines.append(_table_head(PLURAL_OF[grain_type], columns, len(rows)))
        lines += [indent + _join_row(cells, columns) for cells in rows]
    return lines


def _table_head(name: str, columns: Sequence[str], count: int) -> str:
    """Return the first line of a table: its name, number of rows and columns."""
    return f"{name}[{count}]{{{','.join(columns)}}}:"


def _join_row(cells: Mapping[str, str], columns: Sequence[str]) -> str:
    """Return the cells of a row in the order of the columns."""
    # A missing cell is a bare hyphen; a hyphen as a value is quoted (cal.md, *missing cells of toon*).
    return ",".join([cells.get(name, MISSING) for name in columns])


@cached_on_element
def _element_cells(element: Element, now: int, iso_times: bool) -> Mapping[str, str]:
    """Return the cells of a grain by the names of their columns."""
    shape = element.shape
    # At the level "summary" this format omits four columns only, fewer than the projection does.
    level = "standard" if element.level == "summary" else element.level
    projected = project(element.item, level, now, iso_times=iso_times, shape=shape)
    columns = (
        _CELL_NAMES[element.level, element.item.grain_type] if shape is None else columns_of(shape)
    )
    cells = {name: format_cell(value) for name, value in projected.attributes if name in columns}
    cells["content"] = format_cell(projected.text)
    return cells


def _group_columns(group: Sequence[Element], rows: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """Return the columns of the most detailed level in a group, then those that PROJECT names."""
    grain_type = group[0].item.grain_type
    levels = {element.level for element in group if element.shape is None}
    columns = _COLUMNS[max(levels, key=_LEVELS.__getitem__), grain_type] if levels else ("content",)
    if grain_type == "goal" and "state" in columns and any(_DEADLINE in cells for cells in rows):
        # The deadline comes right after the state, before the columns of the level "full".
        columns = (*_STANDARD["goal"], _DEADLINE, *columns[len(_STANDARD["goal"]) :])
    projected_names = [
        name for element in group if element.shape is not None for name in columns_of(element.shape)
    ]
    return tuple(dict.fromkeys((*columns, *projected_names))) if projected_names else columns
