"""What a configuration says, whatever it is written in: where its entries are, and what it says with or without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memoranda.errors import InvalidInput, Unsupported

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one entry: under which keys, and its name there; in a list, entries have their names inside.

    In a list of hooks they have none: there the one is meant whose command says `mark`.
    """

    path: tuple[str, ...]
    name: str
    is_listed: bool = False
    mark: str = ""

    def is_ours(self, item: Any) -> bool:
        """Whether an item of the list is the entry."""
        if not self.mark:
            return isinstance(item, dict) and item.get("name") == self.name
        hooks = item.get("hooks") if isinstance(item, dict) else None
        return isinstance(hooks, list) and any(
            isinstance(each, dict) and self.mark in str(each.get("command")) for each in hooks
        )

    def within(self, document: Any) -> Any:
        """What the entries are in; None if there is nothing. Raises InvalidInput where something else is."""
        found = document
        for key in self.path:
            if found is None:
                return None
            found = _mapping(found, key).get(key)
        if found is not None and not isinstance(found, list if self.is_listed else dict):
            raise InvalidInput(
                f"{'.'.join(self.path)} is not {'a list' if self.is_listed else 'a table'} there"
            )
        return found

    def entry(self, document: Any) -> Any:
        """The entry itself; None if there is none."""
        container = self.within(document)
        if not self.is_listed:
            return None if container is None else container.get(self.name)
        return next((each for each in container or () if self.is_ours(each)), None)

    def put(self, document: Any, value: Entry) -> Any:
        """The document with this entry, in place of one of the same name."""
        container = self.within(document)
        if self.is_listed:
            return self._rebuilt(document, [*self._others(container), dict(value)])
        return self._rebuilt(document, {**(container or {}), self.name: dict(value)})

    def take(self, document: Any) -> Any:
        """The document without the entry."""
        container = self.within(document)
        if container is None:
            return document
        others = self._others(container)
        return self._rebuilt(document, others if self.is_listed else dict(others))

    def without_empty(self, document: Any) -> Any:
        """The document without what the entries are in, where there are none: not every form can say that."""
        if self.within(document) or not self.path:
            return document
        *outer, last = self.path
        here = Slot(tuple(outer), last)
        return here.take(document)

    def _others(self, container: Any) -> list[Any]:
        if self.is_listed:
            return [each for each in container or () if not self.is_ours(each)]
        return [each for each in container.items() if each[0] != self.name]

    def _rebuilt(self, document: Any, container: Any, depth: int = 0) -> Any:
        if depth == len(self.path):
            return container
        here = document or {}
        return {
            **here,
            self.path[depth]: self._rebuilt(here.get(self.path[depth]), container, depth + 1),
        }


class Format(Protocol):
    """A way of writing configurations, and how an entry is edited in it."""

    def parse(self, text: str) -> Any:
        """What the text says. Raises InvalidInput, with the line, if it is broken."""

    def put(self, text: str, slot: Slot, value: Entry) -> str:
        """The text with the entry; the text may be empty."""

    def take(self, text: str, slot: Slot) -> str:
        """The text without the entry."""


def put(form: Format, text: str, slot: Slot, value: Entry) -> str:
    """The text with the entry, checked by reading it."""
    document = form.parse(text)
    if slot.entry(document) == dict(value):
        return text
    edited = form.put(text, slot, value)
    _check(form, edited, slot, slot.put(document, value))
    return edited


def take(form: Format, text: str, slot: Slot) -> str:
    """The text without the entry, checked by reading it."""
    document = form.parse(text)
    if slot.entry(document) is None:
        return text
    edited = form.take(text, slot)
    _check(form, edited, slot, slot.take(document))
    return edited


def newline_of(text: str) -> str:
    """How lines end in it."""
    return "\r\n" if "\r\n" in text else "\n"


def _check(form: Format, edited: str, slot: Slot, expected: Any) -> None:
    try:
        is_right = slot.without_empty(form.parse(edited)) == slot.without_empty(expected)
    except InvalidInput:
        is_right = False
    if not is_right:
        raise Unsupported(
            "it is written in a way that cannot be edited safely; edit it by hand (--print shows the text)"
        )


def _mapping(found: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise InvalidInput(f"there is no place for {key} in it: it is not a table")
    return found


def lines_of(text: str) -> Sequence[str]:
    """Its lines with their ends, divided at line feeds alone."""
    return [each for each in text.replace("\n", "\n\0").split("\0") if each]
