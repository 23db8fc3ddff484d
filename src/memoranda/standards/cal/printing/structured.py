"""Grains as JSON and YAML (cal.md, *JSON and YAML of grains*): the projection as members, no hashes, no namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from memoranda.encoding.untrusted import harmless
from memoranda.standards.cal.printing import yaml_text
from memoranda.standards.cal.printing.elements import Element, Frame, cached_on_element
from memoranda.standards.cal.printing.plain import plain_value
from memoranda.standards.cal.printing.projection import humanize, project

# `type` is the grain's; the attribute of that name gets the name of its field.
_MEMBER_NAMES: Final = {("reasoning", "type"): "reasoning_type"}


@cached_on_element
def grain_members(element: Element, now: int, iso: bool) -> dict[str, Any]:
    """One grain: type, attributes, the rest of its triple if it is one, content."""
    item = element.item
    projected = project(item, element.level, now, iso=iso, shape=element.shape)
    document: dict[str, Any] = {"type": item.grain_type}
    for name, value in projected.attributes:
        document[_MEMBER_NAMES.get((item.grain_type, name), name)] = plain_value(value, is_read=True)
    fields = item.fields
    # PROJECT drops what it does not list.
    is_triple = element.shape is None and not projected.is_sentence
    if is_triple and None not in (fields.get("subject"), fields.get("relation"), fields.get("object")):
        document["relation"] = harmless(humanize(fields["relation"]))
        document["object"] = plain_value(fields["object"], is_read=True)
    document["content"] = harmless(projected.text)
    return document


def framed_document(elements: Sequence[Element], frame: Frame, now: int, iso: bool) -> dict[str, Any]:
    """An assembled context."""
    spent: dict[str, Any] = {"used": frame.used, "total": frame.total}
    return {
        "context": frame.name,
        "intent": frame.intent,
        # `grains` is the list.
        **({"tokens": spent} if frame.unit == "tokens" else {"budget": {**spent, "unit": frame.unit}}),
        "grains": [grain_members(element, now, iso) for element in elements],
    }


def yaml_list(elements: Sequence[Element], now: int, iso: bool) -> str:
    """The list alone."""
    return "\n".join(["\n".join(_yaml_lines(element, now, iso)) for element in elements]) or yaml_text.yaml_text([])


def yaml_framed(elements: Sequence[Element], frame: Frame, now: int, iso: bool) -> str:
    """An assembled context."""
    head = yaml_text.yaml_text(framed_document((), frame, now, iso))
    if not elements:
        return head
    return (
        head.removesuffix(" []")
        + "\n"
        + "".join([yaml_item(element, now, iso) for element in elements]).removesuffix("\n")
    )


def yaml_item(element: Element, now: int, iso: bool) -> str:
    """What one grain adds to the YAML of a context."""
    return "".join([f"  {line}\n" for line in _yaml_lines(element, now, iso)])


@cached_on_element
def _yaml_lines(element: Element, now: int, iso: bool) -> list[str]:
    return yaml_text.yaml_lines([grain_members(element, now, iso)])
