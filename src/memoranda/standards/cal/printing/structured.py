"""Grains as JSON and YAML (cal.md, *JSON and YAML of grains*): the projection as members, no hashes, no namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoranda.encoding.untrusted import neutralize_tags
from memoranda.standards.cal.printing.elements import ContextFrame, Element, cached_on_element
from memoranda.standards.cal.printing.projection import humanize, project
from memoranda.standards.cal.printing.values import dump_json, plain_value, yaml_lines, yaml_text

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
