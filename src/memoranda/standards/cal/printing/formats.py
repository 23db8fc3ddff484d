"""The seven formats of results (sections 10 and 14): what a model, a person or a program is given.

All of them write the same projection. RECALL … AS writes the elements alone, ASSEMBLE puts a frame around them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from memoranda.errors import QueryError
from memoranda.standards.cal.language.words import FORMATS
from memoranda.standards.cal.printing import prose, structured, toon, yaml_text
from memoranda.standards.cal.printing.elements import Element, Frame, groups, once
from memoranda.standards.cal.printing.plain import dump, plain
from memoranda.standards.cal.printing.projection import project, words
from memoranda.standards.sml import render as sml

__all__ = ["Element", "Frame", "assembled_text", "canonical_format", "line_of", "recall_text", "values_text"]

_NAMES: Final = {
    **{name: name for name in FORMATS},
    "structured": "sml",
    "readable": "markdown",
    "compact": "text",
    "data": "json",
}


def canonical_format(name: str) -> str:
    """The format of a name, which may be that of a preset (section 10.1)."""
    found = _NAMES.get(name)
    if found is None:
        known = ", ".join(FORMATS)
        raise QueryError(f'Unknown format "{name[:80]}".', cal_code="CAL-E002", suggestion=f"Use {known}.")
    return found


def recall_text(format: str, elements: Sequence[Element], now: int, *, iso: bool = False) -> str:  # noqa: A002
    """What RECALL … AS prints: no envelope, no heading, no indentation."""
    return _RECALLED[canonical_format(format)](elements, now, iso)


def assembled_text(  # the elements in output order, by priority of their sources
    format: str,  # noqa: A002
    elements: Sequence[Element],
    frame: Frame,
    now: int,
    *,
    iso: bool = False,
) -> str:
    """What ASSEMBLE prints."""
    return _ASSEMBLED[canonical_format(format)](elements, frame, now, iso)


def line_of(format: str, element: Element, now: int, *, iso: bool = False) -> str:  # noqa: A002
    """What one element adds to a text: its line, with indentation and line break (cal.md, *cost of an element*)."""
    return _LINES[canonical_format(format)](element, now, iso)


def values_text(format: str, value: Any) -> str:  # noqa: A002
    """What RECALL … AS prints when its stages left no grains (cal.md, *what stages leave*).

    Takes `{"count": n}`, `{"values": [...]}`, `{"groups": [{"key": k, "count": n}, ...]}` or a list of rows.
    """
    name = canonical_format(format)
    value = plain(value, is_read=True)
    if isinstance(value, dict) and "groups" in value:
        # The grains of a group are for programs: they hold hashes and namespaces.
        value = {"groups": [{"key": each.get("key"), "count": each.get("count")} for each in value["groups"]]}
    if name == "json":
        return dump(value)
    if name == "yaml":
        return yaml_text.text(value)
    if name == "toon":
        return _values_table(value)
    return "\n".join(_written(name, each) for each in _value_lines(value))


# --- values -------------------------------------------------------------------------------------------------


def _value_lines(value: Any) -> list[str]:
    if isinstance(value, dict) and "groups" in value:
        return [f"{words(each['key'])}: {words(each['count'])}" for each in value["groups"]]
    if isinstance(value, dict) and "values" in value:
        return [words(each) for each in value["values"]]
    if isinstance(value, dict) and "count" in value:
        return [words(value["count"])]
    return [_row_line(each) for each in (value if isinstance(value, list) else [value])]


def _row_line(row: Any) -> str:
    if not isinstance(row, dict):
        return words(row)
    return ", ".join(f"{name}: {words(member)}" for name, member in row.items() if member is not None)


def _written(name: str, line: str) -> str:
    line = sml.format_line(line)
    return f"- {line}" if name == "markdown" else line


def _values_table(value: Any) -> str:
    if isinstance(value, dict) and "groups" in value:
        return toon.table("groups", ("key", "count"), value["groups"])
    if isinstance(value, dict) and "values" in value:
        return toon.table("values", ("value",), [{"value": each} for each in value["values"]])
    if isinstance(value, dict) and "count" in value:
        return f"count: {toon.cell(value['count'])}"
    rows = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]
    return toon.table("rows", list(dict.fromkeys(name for row in rows for name in row)), rows)


# --- sml ----------------------------------------------------------------------------------------------------


@once
def _sml(element: Element, now: int, iso: bool) -> str:
    projected = project(element.item, element.level, now, iso=iso, shape=element.shape)
    return sml.render_element(projected.grain_type, projected.attributes, projected.text)


def _sml_groups(elements: Sequence[Element], now: int, iso: bool) -> list[list[str]]:
    return [[_sml(each, now, iso) for each in group] for group in groups(elements)]


# --- tables -------------------------------------------------------------------------------------------------

_RECALLED: Final[Mapping[str, Callable[[Sequence[Element], int, bool], str]]] = {
    "sml": lambda elements, now, iso: sml.render_bare(_sml_groups(elements, now, iso)),
    "markdown": prose.markdown,
    "text": lambda elements, now, iso: prose.lines(prose.text_line, elements, now, iso),
    "triples": lambda elements, now, iso: prose.lines(prose.triple_line, elements, now, iso),
    "json": lambda elements, now, iso: dump([structured.members(each, now, iso) for each in elements]),
    "yaml": structured.yaml_list,
    "toon": toon.recall,
}
_ASSEMBLED: Final[Mapping[str, Callable[[Sequence[Element], Frame, int, bool], str]]] = {
    "sml": lambda elements, frame, now, iso: sml.render_context(frame.intent, _sml_groups(elements, now, iso)),
    "markdown": lambda elements, frame, now, iso: prose.markdown(elements, now, iso, frame),
    "text": lambda elements, _, now, iso: prose.lines(prose.text_line, elements, now, iso),
    "triples": lambda elements, _, now, iso: prose.lines(prose.triple_line, elements, now, iso),
    "json": lambda elements, frame, now, iso: dump(structured.framed(elements, frame, now, iso)),
    "yaml": structured.yaml_framed,
    "toon": toon.assembled,
}
_LINES: Final[Mapping[str, Callable[[Element, int, bool], str]]] = {
    "sml": lambda element, now, iso: sml.render_line(_sml(element, now, iso)),
    "markdown": lambda element, now, iso: prose.markdown_line(element, now, iso) + "\n",
    "text": lambda element, now, iso: prose.text_line(element, now, iso) + "\n",
    "triples": lambda element, now, iso: prose.triple_line(element, now, iso) + "\n",
    "json": lambda element, now, iso: dump(structured.members(element, now, iso)) + ",",
    "yaml": structured.yaml_share,
    "toon": lambda element, now, iso: f"{toon.INDENT}{toon.row_of(element, now, iso)}\n",
}
