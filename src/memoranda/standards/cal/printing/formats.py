"""The seven formats of results (sections 10 and 14).

All of them print the projection of each grain. RECALL … AS prints the elements alone, ASSEMBLE puts a frame around
them.

JSON and YAML (cal.md, *JSON and YAML of grains*) have the projection as members, without hashes and namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from memoranda.encoding.untrusted import neutralize_tags
from memoranda.errors import QueryError
from memoranda.standards.cal.language.words import FORMATS
from memoranda.standards.cal.printing import prose, toon
from memoranda.standards.cal.printing.elements import (
    ContextFrame,
    Element,
    cached_on_element,
    group_elements,
)
from memoranda.standards.cal.printing.projection import humanize, project, to_text
from memoranda.standards.cal.printing.values import dump_json, plain_value, yaml_lines, yaml_text
from memoranda.standards.sml import render as sml

# The member `type` is the grain type, so an attribute of that name gets the name of its field.
_MEMBER_NAMES: Final = {("reasoning", "type"): "reasoning_type"}


@cached_on_element
def grain_members(element: Element, now: int, iso_times: bool) -> dict[str, object]:
    """Return one grain as members: type, attributes, relation and object of a triple, content."""
    item = element.item
    projected = project(item, element.level, now, iso_times=iso_times, shape=element.shape)
    document: dict[str, object] = {"type": item.grain_type}
    for name, value in projected.attributes:
        document[_MEMBER_NAMES.get((item.grain_type, name), name)] = plain_value(
            value, is_read=True
        )
    fields = item.fields
    # PROJECT omits all fields that it does not list.
    is_triple = element.shape is None and not projected.is_sentence
    if is_triple and None not in (
        fields.get("subject"),
        fields.get("relation"),
        fields.get("object"),
    ):
        document["relation"] = neutralize_tags(humanize(fields["relation"]))
        document["object"] = plain_value(fields["object"], is_read=True)
    document["content"] = neutralize_tags(projected.text)
    return document


def json_list(elements: Sequence[Element], now: int, iso_times: bool) -> str:
    """Return the grains as a JSON array."""
    return dump_json([grain_members(element, now, iso_times) for element in elements])


def framed_document(
    elements: Sequence[Element], frame: ContextFrame, now: int, iso_times: bool
) -> dict[str, object]:
    """Return an assembled context as a document."""
    usage: dict[str, object] = {"used": frame.used, "total": frame.total}
    document: dict[str, object] = {"context": frame.name, "intent": frame.intent}
    if frame.unit == "tokens":
        document["tokens"] = usage
    else:
        # A budget in grains cannot be named after its unit: `grains` is the list below.
        document["budget"] = {**usage, "unit": frame.unit}
    document["grains"] = [grain_members(element, now, iso_times) for element in elements]
    return document


def yaml_list(elements: Sequence[Element], now: int, iso_times: bool) -> str:
    """Return the grains as a YAML list."""
    items = ["\n".join(_yaml_lines(element, now, iso_times)) for element in elements]
    return "\n".join(items) or yaml_text([])


def yaml_framed(elements: Sequence[Element], frame: ContextFrame, now: int, iso_times: bool) -> str:
    """Return an assembled context as YAML."""
    head = yaml_text(framed_document((), frame, now, iso_times))
    if not elements:
        return head
    items = "".join([yaml_item(element, now, iso_times) for element in elements])
    return head.removesuffix(" []") + "\n" + items.removesuffix("\n")


def yaml_item(element: Element, now: int, iso_times: bool) -> str:
    """Return the lines of one grain in the YAML of a context."""
    return "".join([f"  {line}\n" for line in _yaml_lines(element, now, iso_times)])


@cached_on_element
def _yaml_lines(element: Element, now: int, iso_times: bool) -> list[str]:
    """Return one grain as the lines of a YAML list item."""
    return yaml_lines([grain_members(element, now, iso_times)])


__all__ = [
    "ContextFrame",
    "Element",
    "assembled_text",
    "canonical_format",
    "line_of",
    "recall_text",
    "values_text",
]

_CANONICAL_NAMES: Final = {
    **{name: name for name in FORMATS},
    "structured": "sml",
    "readable": "markdown",
    "compact": "text",
    "data": "json",
}


def canonical_format(name: str) -> str:
    """Return the name of a format for its name or that of a preset (section 10.1). Raise QueryError for others."""
    format_name = _CANONICAL_NAMES.get(name)
    if format_name is None:
        names = ", ".join(FORMATS)
        raise QueryError(
            f'Unknown format "{name[:80]}".', cal_code="CAL-E002", suggestion=f"Use {names}."
        )
    return format_name


def recall_text(
    format: str,  # noqa: A002
    elements: Sequence[Element],
    now: int,
    *,
    iso_times: bool = False,
) -> str:
    """Return the text of RECALL … AS: no envelope, no heading, no indentation."""
    return _RECALL_WRITERS[canonical_format(format)](elements, now, iso_times)


def assembled_text(
    format: str,  # noqa: A002
    elements: Sequence[Element],
    frame: ContextFrame,
    now: int,
    *,
    iso_times: bool = False,
) -> str:
    """Return the text of ASSEMBLE. The elements are in output order, by priority of their sources."""
    return _ASSEMBLE_WRITERS[canonical_format(format)](elements, frame, now, iso_times)


def line_of(format: str, element: Element, now: int, *, iso_times: bool = False) -> str:  # noqa: A002
    """Return the line of one element, with indentation and line break (cal.md, *cost of an element*)."""
    return _LINE_WRITERS[canonical_format(format)](element, now, iso_times)


def values_text(format: str, value: object) -> str:  # noqa: A002
    """Return the text of RECALL … AS if its stages left no grains (cal.md, *results of stages*).

    Takes `{"count": n}`, `{"values": [...]}`, `{"groups": [{"key": k, "count": n}, ...]}` or a list of rows.
    """
    name = canonical_format(format)
    value = plain_value(value, is_read=True)
    if isinstance(value, dict) and "groups" in value:
        # Omit the grains of a group: they contain hashes and namespaces, which are for programs.
        value = {
            "groups": [
                {"key": group.get("key"), "count": group.get("count")} for group in value["groups"]
            ]
        }
    if name == "json":
        return dump_json(value)
    if name == "yaml":
        return yaml_text(value)
    if name == "toon":
        return _values_table(value)
    return "\n".join(_format_line(name, line) for line in _value_lines(value))


# --- values -------------------------------------------------------------------------------------------------


def _value_lines(value: object) -> list[str]:
    """Return the values as lines, one for each."""
    if isinstance(value, dict) and "groups" in value:
        return [f"{to_text(group['key'])}: {to_text(group['count'])}" for group in value["groups"]]
    if isinstance(value, dict) and "values" in value:
        return [to_text(member) for member in value["values"]]
    if isinstance(value, dict) and "count" in value:
        return [to_text(value["count"])]
    rows = value if isinstance(value, list) else [value]
    return [_row_line(row) for row in rows]


def _row_line(row: object) -> str:
    """Return the fields of a row on one line."""
    if not isinstance(row, dict):
        return to_text(row)
    return ", ".join(
        f"{name}: {to_text(member)}" for name, member in row.items() if member is not None
    )


def _format_line(name: str, line: str) -> str:
    """Return a line, as a list item in markdown."""
    line = sml.format_line(line)
    return f"- {line}" if name == "markdown" else line


def _values_table(value: object) -> str:
    """Return the values as a table of toon."""
    if isinstance(value, dict) and "groups" in value:
        return toon.write_table("groups", ("key", "count"), value["groups"])
    if isinstance(value, dict) and "values" in value:
        return toon.write_table(
            "values", ("value",), [{"value": member} for member in value["values"]]
        )
    if isinstance(value, dict) and "count" in value:
        return f"count: {toon.format_cell(value['count'])}"
    candidates = value if isinstance(value, list) else [value]
    rows = [row for row in candidates if isinstance(row, dict)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return toon.write_table("rows", columns, rows)


# --- sml ----------------------------------------------------------------------------------------------------


@cached_on_element
def _sml_element(element: Element, now: int, iso_times: bool) -> str:
    """Return one element in SML."""
    projected = project(element.item, element.level, now, iso_times=iso_times, shape=element.shape)
    return sml.render_element(projected.grain_type, projected.attributes, projected.text)


def _sml_groups(elements: Sequence[Element], now: int, iso_times: bool) -> list[list[str]]:
    """Return the elements of each group in SML."""
    return [
        [_sml_element(element, now, iso_times) for element in group]
        for group in group_elements(elements)
    ]


# --- tables -------------------------------------------------------------------------------------------------

_RECALL_WRITERS: Final[Mapping[str, Callable[[Sequence[Element], int, bool], str]]] = {
    "sml": lambda elements, now, iso_times: sml.render_bare(_sml_groups(elements, now, iso_times)),
    "markdown": prose.markdown,
    "text": lambda elements, now, iso_times: prose.join_lines(
        prose.text_line, elements, now, iso_times
    ),
    "triples": lambda elements, now, iso_times: prose.join_lines(
        prose.triple_line, elements, now, iso_times
    ),
    "json": json_list,
    "yaml": yaml_list,
    "toon": toon.recall_tables,
}
_ASSEMBLE_WRITERS: Final[
    Mapping[str, Callable[[Sequence[Element], ContextFrame, int, bool], str]]
] = {
    "sml": lambda elements, frame, now, iso_times: sml.render_context(
        frame.intent, _sml_groups(elements, now, iso_times)
    ),
    "markdown": lambda elements, frame, now, iso_times: prose.markdown(
        elements, now, iso_times, frame
    ),
    "text": lambda elements, _, now, iso_times: prose.join_lines(
        prose.text_line, elements, now, iso_times
    ),
    "triples": lambda elements, _, now, iso_times: prose.join_lines(
        prose.triple_line, elements, now, iso_times
    ),
    "json": lambda elements, frame, now, iso_times: dump_json(
        framed_document(elements, frame, now, iso_times)
    ),
    "yaml": yaml_framed,
    "toon": toon.assembled_tables,
}
_LINE_WRITERS: Final[Mapping[str, Callable[[Element, int, bool], str]]] = {
    "sml": lambda element, now, iso_times: sml.render_line(_sml_element(element, now, iso_times)),
    "markdown": lambda element, now, iso_times: prose.markdown_line(element, now, iso_times) + "\n",
    "text": lambda element, now, iso_times: prose.text_line(element, now, iso_times) + "\n",
    "triples": lambda element, now, iso_times: prose.triple_line(element, now, iso_times) + "\n",
    "json": lambda element, now, iso_times: dump_json(grain_members(element, now, iso_times)) + ",",
    "yaml": yaml_item,
    "toon": lambda element, now, iso_times: (
        f"{toon.INDENT}{toon.row_text(element, now, iso_times)}\n"
    ),
}
