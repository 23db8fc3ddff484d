"""Configurations independent of their format: the slot of an entry, and checked edits.

A parsed configuration consists of dicts, lists and scalars. `EntrySlot` finds an entry in it and computes the
configuration with or without the entry. `add_entry` and `remove_entry` edit the text through a `ConfigFormat`, and
check that parsing the edited text gives exactly the computed configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memoranda.errors import InvalidInput, Unsupported

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EntrySlot:
    """The position of an entry: the path of keys to its container, and its name in it.

    In a list (`is_listed`), an entry has its name as a field. Hooks have no names; the one whose command contains
    `mark` is ours.
    """

    path: tuple[str, ...]
    name: str
    is_listed: bool = False
    mark: str = ""

    def is_ours(self, item: Any) -> bool:
        """Return True if an item of the list is the entry."""
        if not self.mark:
            return isinstance(item, dict) and item.get("name") == self.name
        hooks = item.get("hooks") if isinstance(item, dict) else None
        return isinstance(hooks, list) and any(
            isinstance(hook, dict) and self.mark in str(hook.get("command")) for hook in hooks
        )

    def find_container(self, document: Any) -> Any:
        """Return the container of the entries; None if it is missing. Raises InvalidInput if it has another type."""
        value = document
        for key in self.path:
            if value is None:
                return None
            value = _require_table(value, key).get(key)
        if value is not None and not isinstance(value, list if self.is_listed else dict):
            raise InvalidInput(
                f"{'.'.join(self.path)} is not {'a list' if self.is_listed else 'a table'} there"
            )
        return value

    def find_entry(self, document: Any) -> Any:
        """Return the entry; None if it is missing."""
        container = self.find_container(document)
        if not self.is_listed:
            return None if container is None else container.get(self.name)
        return next((item for item in container or () if self.is_ours(item)), None)

    def with_entry(self, document: Any, value: Entry) -> Any:
        """Return the document with this entry, which replaces one of the same name."""
        container = self.find_container(document)
        if self.is_listed:
            return self._rebuild(document, [*self._other_entries(container), dict(value)])
        return self._rebuild(document, {**(container or {}), self.name: dict(value)})

    def without_entry(self, document: Any) -> Any:
        """Return the document without the entry."""
        container = self.find_container(document)
        if container is None:
            return document
        remaining = self._other_entries(container)
        return self._rebuild(document, remaining if self.is_listed else dict(remaining))

    def without_empty_container(self, document: Any) -> Any:
        """Return the document without an empty container, because some formats cannot express one."""
        if self.find_container(document) or not self.path:
            return document
        *outer, last = self.path
        here = EntrySlot(tuple(outer), last)
        return here.without_entry(document)

    def _other_entries(self, container: Any) -> list[Any]:
        if self.is_listed:
            return [item for item in container or () if not self.is_ours(item)]
        return [item for item in container.items() if item[0] != self.name]

    def _rebuild(self, document: Any, container: Any, depth: int = 0) -> Any:
        if depth == len(self.path):
            return container
        here = document or {}
        return {
            **here,
            self.path[depth]: self._rebuild(here.get(self.path[depth]), container, depth + 1),
        }


class ConfigFormat(Protocol):
    """A format of configuration files, and its edits."""

    def parse(self, text: str) -> Any:
        """Parse a text. Raises InvalidInput with the line if it is malformed."""

    def add_entry(self, text: str, slot: EntrySlot, value: Entry) -> str:
        """Return the text with the entry; the text may be empty."""

    def remove_entry(self, text: str, slot: EntrySlot) -> str:
        """Return the text without the entry."""


def add_entry(form: ConfigFormat, text: str, slot: EntrySlot, value: Entry) -> str:
    """Return the text with the entry. Raises Unsupported if parsing the result gives anything else."""
    document = form.parse(text)
    if slot.find_entry(document) == dict(value):
        return text
    edited = form.add_entry(text, slot, value)
    _check_edit(form, edited, slot, slot.with_entry(document, value))
    return edited


def remove_entry(form: ConfigFormat, text: str, slot: EntrySlot) -> str:
    """Return the text without the entry. Raises Unsupported if parsing the result gives anything else."""
    document = form.parse(text)
    if slot.find_entry(document) is None:
        return text
    edited = form.remove_entry(text, slot)
    _check_edit(form, edited, slot, slot.without_entry(document))
    return edited


def detect_newline(text: str) -> str:
    """Return the line end of a text."""
    return "\r\n" if "\r\n" in text else "\n"


def _check_edit(form: ConfigFormat, edited: str, slot: EntrySlot, expected: Any) -> None:
    try:
        is_right = slot.without_empty_container(form.parse(edited)) == slot.without_empty_container(
            expected
        )
    except InvalidInput:
        is_right = False
    if not is_right:
        raise Unsupported(
            "the file cannot be edited safely, so nothing was changed; add the text yourself (--print shows it)"
        )


def _require_table(value: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"there is no place for {key} in it: it is not a table")
    return value


def split_lines(text: str) -> Sequence[str]:
    """Return the lines of a text with their ends, split only at line feeds."""
    return [line for line in text.replace("\n", "\n\0").split("\0") if line]
