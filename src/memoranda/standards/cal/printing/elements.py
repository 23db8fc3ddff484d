"""The grains of a text in output order, and the frame around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, TypeVar

import msgspec

from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language.syntax import Project
from memoranda.standards.cal.printing.projection import Level

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Element:
    """A grain to be printed: its level of detail, its source, and its PROJECT clause."""

    item: ResultItem
    level: Level = "standard"
    # The label of its source; empty in RECALL.
    source: str = ""
    shape: Project | None = None
    # Texts of this element, kept by `cached_on_element`.
    cache: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


class ContextFrame(msgspec.Struct, frozen=True):
    """The frame of an assembled context: its name, its intent, and its budget."""

    name: str | None
    intent: str | None
    used: int
    total: int
    unit: Literal["tokens", "grains"] = "tokens"


def cached_on_element(
    write: Callable[[Element, int, bool], T],
) -> Callable[[Element, int, bool], T]:
    """Cache the result of a function with its element.

    The line of a grain is needed for its cost, and again each time that the text is printed.
    """

    @wraps(write)
    def write_once(element: Element, now: int, iso_times: bool) -> T:
        key = (write, now, iso_times)
        result: T | None = element.cache.get(key)
        if result is None:
            result = element.cache[key] = write(element, now, iso_times)
        return result

    return write_once


def group_elements(elements: Sequence[Element]) -> Iterator[list[Element]]:
    """Yield the elements in groups; a new one starts when source or grain type changes (cal.md, *groups*)."""
    group: list[Element] = []
    for element in elements:
        if group and (
            element.item.grain_type != group[0].item.grain_type or element.source != group[0].source
        ):
            yield group
            group = []
        group.append(element)
    if group:
        yield group
