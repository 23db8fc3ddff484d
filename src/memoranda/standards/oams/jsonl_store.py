"""A JSONL file as a read-only store: "a single JSONL file on disk is a valid OAMS store" (section 1).

The file is read once to build an index of positions, times and tags; each memory is then read again on demand. If a
`(namespace, key)` occurs more than once, the last line wins, as if each line were a STORE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from memoranda.errors import InvalidInput, MemoryNotFound, NamespaceNotFound, StoreCorrupt
from memoranda.model.instant import Instant, parse_instant
from memoranda.standards.oams import lines
from memoranda.standards.oams.lines import Line, ReadableLines
from memoranda.standards.oams.memory import Memory, tags_of, to_response
from memoranda.standards.oams.namespace import Namespace
from memoranda.standards.oams.requests import ListRequest, RecallRequest

# Lines with errors or warnings that are kept; `refused` counts all errors.
MAX_PROBLEMS: Final = 100


class _Entry(msgspec.Struct, frozen=True):
    """The position of a memory in the file, and its filter fields."""

    offset: int
    size_bytes: int
    number: int
    updated: Instant
    tags: frozenset[str]


class JsonlPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of memories, newest first, and the cursor of the next one."""

    memories: list[Memory]
    next_cursor: str | None


class JsonlStore:
    """Memories in a file. The caller opens it, and keeps it open and unchanged while the store is in use."""

    def __init__(self, file: ReadableLines) -> None:
        self._file = file
        self._entries: dict[str, dict[str, _Entry]] = {}
        self.count = 0
        self.refused = 0
        self.problems: list[Line] = []
        file.seek(0)
        for line in lines.read_lines(file):
            self._index_line(line)

    def _index_line(self, line: Line) -> None:
        """Add a line to the index or to the problems."""
        if line.error is not None:
            self.refused += 1
        if (line.error is not None or line.warnings) and len(self.problems) < MAX_PROBLEMS:
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
        """Every namespace that has a memory, sorted."""
        return sorted(self._entries)

    def get(self, namespace: Namespace, key: str) -> Memory:
        """Return one memory. Raises NamespaceNotFound or MemoryNotFound."""
        entry = self._entries_of(namespace).get(key)
        if entry is None:
            raise MemoryNotFound
        return to_response(self._read_entry(entry))

    def list_page(self, request: ListRequest) -> JsonlPage:
        """Return a page of LIST: newest `updated_at` first. The cursor is the position in that order."""
        entries = [
            entry
            for entry in self._entries_of(request.namespace).values()
            if _matches(entry, request.tags, request.since, None)
        ]
        entries.sort(key=lambda entry: (-entry.updated, entry.number))
        start = _parse_cursor(request.cursor)
        page = entries[start : start + request.limit]
        end = start + len(page)
        return JsonlPage(
            memories=[to_response(self._read_entry(entry)) for entry in page],
            next_cursor=str(end) if end < len(entries) else None,
        )

    def find_candidates(self, request: RecallRequest) -> Iterator[Memory]:
        """Yield the memories for RECALL to rank: all that pass its filters, in its namespaces or in all."""
        namespaces = request.namespaces or None
        for name in self.namespaces if namespaces is None else map(str, namespaces):
            for entry in self._entries.get(name, {}).values():
                if _matches(entry, request.tags, request.since, request.until):
                    yield self._read_entry(entry)

    def _entries_of(self, namespace: Namespace) -> dict[str, _Entry]:
        """Return the entries of a namespace. Raises NamespaceNotFound."""
        keys = self._entries.get(str(namespace))
        if keys is None:
            raise NamespaceNotFound(f"the file has no namespace {str(namespace)!a}")
        return keys

    def _read_entry(self, entry: _Entry) -> Memory:
        """Read a memory again. Raises StoreCorrupt if the file has changed."""
        self._file.seek(entry.offset)
        # The first reading removed a byte order mark and the line end, so read a few bytes more.
        memory = lines.read_line(
            self._file.readline(entry.size_bytes + 8), number=entry.number
        ).memory
        if memory is None:
            raise StoreCorrupt(f"line {entry.number} of the file has changed while it was in use")
        return memory


def _matches(
    entry: _Entry, tags: tuple[str, ...], since: Instant | None, until: Instant | None
) -> bool:
    """Return True if the entry passes the filters."""
    return (
        entry.tags.issuperset(tags)
        and (since is None or entry.updated >= since)
        and (until is None or entry.updated < until)
    )


def _parse_cursor(cursor: str | None) -> int:
    """Parse a cursor. Raises InvalidInput."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 12):
        raise InvalidInput("cursor must be next_cursor of a previous page")
    return int(cursor)
