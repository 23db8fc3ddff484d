"""What is written: the elements of a result in output order, and what stands around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, TypeVar

import msgspec

from memoranda.standards.cal.item import Item
from memoranda.standards.cal.language.syntax import Project
from memoranda.standards.cal.printing.projection import Level

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Element:
    """One grain as it is to be written."""

    item: Item
    level: Level = "standard"
    # The label of its source; empty in RECALL.
    source: str = ""
    shape: Project | None = None
    # What `once` wrote of it.
    cache: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


class Frame(msgspec.Struct, frozen=True):
    """An assembled context: its name, what it is for, and its budget."""

    name: str | None
    intent: str | None
    used: int
    total: int
    unit: Literal["tokens", "grains"] = "tokens"


def cached_on_element(write: Callable[[Element, int, bool], T]) -> Callable[[Element, int, bool], T]:
    """Keep what was written with the element: its text is needed for its cost, and each time the whole is printed."""

    @wraps(write)
    def written(element: Element, now: int, iso: bool) -> T:
        key = (write, now, iso)
        found: T | None = element.cache.get(key)
        if found is None:
            found = element.cache[key] = write(element, now, iso)
        return found

    return written


def group_elements(elements: Sequence[Element]) -> Iterator[list[Element]]:
    """A new group starts when the source or the grain type changes (cal.md, *groups*)."""
    group: list[Element] = []
    for element in elements:
        if group and (element.item.grain_type != group[0].item.grain_type or element.source != group[0].source):
            yield group
            group = []
        group.append(element)
    if group:
        yield group
