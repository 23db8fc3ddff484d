"""TOON: one table for each grain type, as few tokens as can be (section 10.9).

The form of RECALL, an array with a name and rows that are not indented, is CAL's own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from memoranda.encoding.untrusted import neutralize_tags
from memoranda.standards.cal.fields import PLURAL_OF
from memoranda.standards.cal.printing.elements import Element, Frame, once
from memoranda.standards.cal.printing.projection import Level, columns_of, project, words
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
# A column of goals when a row has one (cal.md, *deadlines in toon*).
_DEADLINE: Final = "deadline"


def _columns(level: Level, grain_type: str) -> tuple[str, ...]:
    columns = _STANDARD[grain_type]
    if level == "summary":
        return tuple(name for name in columns if name not in _NOT_IN_SUMMARY)
    if level == "standard":
        return columns
    # An event has its time already (cal.md, *worth saying*).
    return (*columns, "source") if grain_type == "event" else (*columns, "source", "observed")


_LEVELS: Final[Mapping[Level, int]] = {"summary": 0, "standard": 1, "full": 2}
_COLUMNS: Final = {(level, each): _columns(level, each) for level in _LEVELS for each in _STANDARD}
_CELLS: Final = {
    key: (*columns, _DEADLINE) if key[1] == "goal" and key[0] != "summary" else columns
    for key, columns in _COLUMNS.items()
}


def recall(elements: Sequence[Element], now: int, iso: bool) -> str:
    """One table for each type in the order of first occurrence (cal.md, *tables of toon*), rows not indented."""
    return "\n".join(_tables(elements, now, iso, ""))


def assembled(elements: Sequence[Element], frame: Frame, now: int, iso: bool) -> str:
    """The budget and what it is for, then the tables."""
    lines = []
    if frame.name is not None:
        lines.append(f"context: {cell(frame.name)}")
    if frame.intent is not None:
        lines.append(f"intent: {cell(frame.intent)}")
    lines.append(f"{frame.unit}: {frame.used}/{frame.total}")
    return "\n".join([*lines, *_tables(elements, now, iso, INDENT)])


def row_of(element: Element, now: int, iso: bool) -> str:
    """The row of one grain as if it were alone in its table."""
    cells = _cells(element, now, iso)
    return _row(cells, _columns_of([element], [cells]))


def table(name: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Any rows under any columns."""
    written = [_row({column: cell(each.get(column)) for column in columns}, columns) for each in rows]
    return "\n".join([_head(name, columns, len(written)), *written])


def cell(value: Any) -> str:
    """A value as a cell: quoted only where it could be read as something else."""
    if value is None:
        return MISSING
    if isinstance(value, int | float):
        return number(value)
    text = neutralize_tags(value if type(value) is str else words(value))
    if _PLAIN.fullmatch(text) and text not in _LITERALS:
        return text
    # No escape spells the other line breaks.
    return f'"{_OTHER_BREAKS.sub(" ", text).translate(_ESCAPES)}"'


def number(value: float) -> str:
    """No exponent, no zeros that say nothing; what is not finite is null."""
    if isinstance(value, int):
        return format_number(value)
    if not math.isfinite(value):
        return "null"
    return format_number(value).removesuffix(".0") if value else "0"


# Not plain: empty, white space at an edge, a hyphen first, digits alone, or any of  , : " \ [ ] { }  and controls.
_SPECIAL: Final = r',:"\\\[\]{}\x00-\x1f\x7f-\x9f\u2028\u2029'
_PLAIN: Final = re.compile(
    rf"(?!-|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z)(?!\s)[^{_SPECIAL}]+(?<!\s)",
)
_LITERALS: Final = frozenset(("true", "false", "null"))
_OTHER_BREAKS: Final = re.compile("[\v\f\x1c-\x1e\x85\u2028\u2029]+")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _tables(elements: Sequence[Element], now: int, iso: bool, indent: str) -> list[str]:
    by_type: dict[str, list[Element]] = {}
    for element in elements:
        by_type.setdefault(element.item.grain_type, []).append(element)
    lines = []
    for grain_type, group in by_type.items():
        rows = [_cells(each, now, iso) for each in group]
        columns = _columns_of(group, rows)
        lines.append(_head(PLURAL_OF[grain_type], columns, len(rows)))
        lines += [indent + _row(each, columns) for each in rows]
    return lines


def _head(name: str, columns: Sequence[str], count: int) -> str:
    return f"{name}[{count}]{{{','.join(columns)}}}:"


def _row(cells: Mapping[str, str], columns: Sequence[str]) -> str:
    # What is missing is a bare hyphen; one that is there is quoted (cal.md, *missing cells of toon*).
    return ",".join([cells.get(name, MISSING) for name in columns])


@once
def _cells(element: Element, now: int, iso: bool) -> Mapping[str, str]:
    shape = element.shape
    # The summary of this format leaves out four columns, not all that the projection does.
    level = "standard" if element.level == "summary" else element.level
    projected = project(element.item, level, now, iso=iso, shape=shape)
    wanted = _CELLS[element.level, element.item.grain_type] if shape is None else columns_of(shape)
    cells = {name: cell(value) for name, value in projected.attributes if name in wanted}
    cells["content"] = cell(projected.text)
    return cells


def _columns_of(group: Sequence[Element], rows: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """Those of the fullest level in the group, then those that PROJECT names."""
    grain_type = group[0].item.grain_type
    levels = {each.level for each in group if each.shape is None}
    columns = _COLUMNS[max(levels, key=_LEVELS.__getitem__), grain_type] if levels else ("content",)
    if grain_type == "goal" and "state" in columns and any(_DEADLINE in cells for cells in rows):
        # Right after the state, whatever a full table has behind it.
        columns = (*_STANDARD["goal"], _DEADLINE, *columns[len(_STANDARD["goal"]) :])
    asked = [name for each in group if each.shape is not None for name in columns_of(each.shape)]
    return tuple(dict.fromkeys((*columns, *asked))) if asked else columns
