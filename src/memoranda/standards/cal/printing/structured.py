"""Grains as JSON and YAML (cal.md, *JSON and YAML of grains*): the projection as members, no hashes, no namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from memoranda.encoding.untrusted import neutralize_tags
from memoranda.standards.cal.printing import yaml_text
from memoranda.standards.cal.printing.elements import Element, Frame, once
from memoranda.standards.cal.printing.plain import plain
from memoranda.standards.cal.printing.projection import humanize, project

# `type` is the grain's; the attribute of that name gets the name of its field.
_RENAMED: Final = {("reasoning", "type"): "reasoning_type"}


@once
def members(element: Element, now: int, iso: bool) -> dict[str, Any]:
    """One grain: type, attributes, the rest of its triple if it is one, content."""
    item = element.item
    projected = project(item, element.level, now, iso=iso, shape=element.shape)
    found: dict[str, Any] = {"type": item.grain_type}
    for name, value in projected.attributes:
        found[_RENAMED.get((item.grain_type, name), name)] = plain(value, is_read=True)
    fields = item.fields
    # PROJECT drops what it does not list.
    is_triple = element.shape is None and not projected.is_sentence
    if is_triple and None not in (fields.get("subject"), fields.get("relation"), fields.get("object")):
        found["relation"] = neutralize_tags(humanize(fields["relation"]))
        found["object"] = plain(fields["object"], is_read=True)
    found["content"] = neutralize_tags(projected.text)
    return found


def framed(elements: Sequence[Element], frame: Frame, now: int, iso: bool) -> dict[str, Any]:
    """An assembled context."""
    spent: dict[str, Any] = {"used": frame.used, "total": frame.total}
    return {
        "context": frame.name,
        "intent": frame.intent,
        # `grains` is the list.
        **({"tokens": spent} if frame.unit == "tokens" else {"budget": {**spent, "unit": frame.unit}}),
        "grains": [members(each, now, iso) for each in elements],
    }


def yaml_list(elements: Sequence[Element], now: int, iso: bool) -> str:
    """The list alone."""
    return "\n".join(["\n".join(_yaml(each, now, iso)) for each in elements]) or yaml_text.text([])


def yaml_framed(elements: Sequence[Element], frame: Frame, now: int, iso: bool) -> str:
    """An assembled context."""
    head = yaml_text.text(framed((), frame, now, iso))
    if not elements:
        return head
    return (
        head.removesuffix(" []") + "\n" + "".join([yaml_share(each, now, iso) for each in elements]).removesuffix("\n")
    )


def yaml_share(element: Element, now: int, iso: bool) -> str:
    """What one grain adds to the YAML of a context."""
    return "".join([f"  {line}\n" for line in _yaml(element, now, iso)])


@once
def _yaml(element: Element, now: int, iso: bool) -> list[str]:
    return yaml_text.lines([members(element, now, iso)])
