"""A JSONL file as a read-only store: "a single JSONL file on disk is a valid OAMS store" (section 1).

The file is read once; then each memory is read again when it is asked for, so that what is held is where the memories
are, and what they are listed and filtered by. Where a `(namespace, key)` occurs more than once, the last line counts,
as if each line were a STORE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from memoranda.errors import InvalidInput, MemoryNotFound, NamespaceNotFound, StoreCorrupt
from memoranda.model.instant import Instant, parse_instant
from memoranda.standards.oams import lines
from memoranda.standards.oams.lines import Line, Readable
from memoranda.standards.oams.memory import Memory, shown, tags_of
from memoranda.standards.oams.namespace import Namespace
from memoranda.standards.oams.requests import ListRequest, RecallRequest

# The first complaints are listed; `refused` counts all.
MAX_LISTED: Final = 100


class _Entry(msgspec.Struct, frozen=True):
    offset: int
    size_bytes: int
    number: int
    updated: Instant
    tags: frozenset[str]


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Memories, newest first, and where the next page begins."""

    memories: list[Memory]
    next_cursor: str | None


class JsonlStore:
    """Memories in a file that someone else opened, and keeps open and unchanged while this is in use."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._entries: dict[str, dict[str, _Entry]] = {}
        self.count = 0
        self.refused = 0
        self.problems: list[Line] = []
        file.seek(0)
        for line in lines.read(file):
            self._take(line)

    def _take(self, line: Line) -> None:
        if line.error is not None:
            self.refused += 1
        if (line.error is not None or line.warnings) and len(self.problems) < MAX_LISTED:
            self.problems.append(line)
        memory = line.memory
        if memory is None:
            return
        keys = self._entries.setdefault(memory["namespace"], {})
        self.count += memory["key"] not in keys
        keys[memory["key"]] = _Entry(
            offset=line.offset,
            size_bytes=len(line.raw),
            number=line.number,
            updated=parse_instant(memory["updated_at"]),
            tags=frozenset(tags_of(memory)),
        )

    @property
    def namespaces(self) -> list[str]:
        """Every namespace that has a memory."""
        return sorted(self._entries)

    def get(self, namespace: Namespace, key: str) -> Memory:
        """One memory. Raises NamespaceNotFound or MemoryNotFound."""
        entry = self._of(namespace).get(key)
        if entry is None:
            raise MemoryNotFound
        return shown(self._read(entry))

    def page(self, request: ListRequest) -> Page:
        """LIST: newest `updated_at` first. The cursor is the place in that order."""
        found = [
            entry
            for entry in self._of(request.namespace).values()
            if _matches(entry, request.tags, request.since, None)
        ]
        found.sort(key=lambda entry: (-entry.updated, entry.number))
        start = _place(request.cursor)
        page = found[start : start + request.limit]
        end = start + len(page)
        return Page(
            memories=[shown(self._read(entry)) for entry in page], next_cursor=str(end) if end < len(found) else None
        )

    def candidates(self, request: RecallRequest) -> Iterator[Memory]:
        """What RECALL may rank: everything in its namespaces (all, if it names none) that passes its filters."""
        wanted = request.namespaces or None
        for name in self.namespaces if wanted is None else map(str, wanted):
            for entry in self._entries.get(name, {}).values():
                if _matches(entry, request.tags, request.since, request.until):
                    yield self._read(entry)

    def _of(self, namespace: Namespace) -> dict[str, _Entry]:
        keys = self._entries.get(str(namespace))
        if keys is None:
            raise NamespaceNotFound(f"the file has no namespace {str(namespace)!a}")
        return keys

    def _read(self, entry: _Entry) -> Memory:
        self._file.seek(entry.offset)
        # The mark and the line end that the first reading took off.
        memory = lines.read_line(self._file.readline(entry.size_bytes + 8), number=entry.number).memory
        if memory is None:
            raise StoreCorrupt(f"line {entry.number} of the file has changed while it was in use")
        return memory


def _matches(entry: _Entry, tags: tuple[str, ...], since: Instant | None, until: Instant | None) -> bool:
    return (
        entry.tags.issuperset(tags)
        and (since is None or entry.updated >= since)
        and (until is None or entry.updated < until)
    )


def _place(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 12):
        raise InvalidInput("cursor is not one that this list gave")
    return int(cursor)
