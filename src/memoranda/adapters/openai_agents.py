"""A session of the OpenAI Agents SDK over Memoranda: `Runner.run(agent, "…", session=MemorandaSession("42", m))`.

Each item of the conversation is stored as a memory of the session, so that other conversations and agents can find it.
The item as the SDK passed it is stored in the metadata, without a text that the memory has itself: if the memory is
revised or redacted, the session has the new text, and no copy of the earlier one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from memoranda.app import Memoranda
from memoranda.encoding.json_text import dump
from memoranda.errors import NotFound
from memoranda.standards.oams.memory import KIND_KEY, SESSION_KEY, Memory
from memoranda.standards.oams.requests import MAX_LIMIT

# The metadata keys for the item as the SDK passed it, and for the mark that the text of the memory is its content.
_ITEM: Final = "openai_agents"
_HAS_TEXT: Final = "openai_agents_text"
_ROLES: Final = ("user", "assistant", "system", "developer")


class MemorandaSession:
    """A conversation stored in an open `Memoranda`."""

    def __init__(self, session_id: str, memoranda: Memoranda, *, project: str = "sessions") -> None:
        self.session_id = session_id
        # Set by the SDK; its `limit` is the default of `get_items`.
        self.session_settings: Any = None
        self._memories = memoranda.oams
        self._namespace = str(memoranda.oams.namespace(project))
        self._tag = f"session:{session_id}"
        self._key_prefix = f"{quote(session_id, safe='')}/"
        self._last = 0

    async def get_items(self, limit: int | None = None) -> list[object]:
        """Return the latest `limit` items, oldest first; all of them by default."""
        count = getattr(self.session_settings, "limit", None) if limit is None else limit
        items = [_read_item(memory) for memory in await asyncio.to_thread(self._list_items)]
        return items if count is None else items[max(0, len(items) - count) :]

    async def add_items(self, items: Sequence[object]) -> None:
        """Append items to the conversation."""
        if items:
            await asyncio.to_thread(
                self._memories.batch_store, [self._memory(item) for item in items]
            )

    async def pop_item(self) -> object:
        """Remove the latest item and return it; None if there is none."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Forget all items of the conversation."""
        await asyncio.to_thread(lambda: [self._forget(memory) for memory in self._list_items()])

    def _pop(self) -> object:
        memories = self._list_items()
        while memories:
            last = memories.pop()
            # Another process may have removed it meanwhile.
            if self._forget(last):
                return _read_item(last)
        return None

    def _forget(self, memory: Memory) -> bool:
        try:
            self._memories.forget(memory["key"], namespace=self._namespace)
        except NotFound:
            return False
        return True

    def _list_items(self) -> list[Memory]:
        return sorted(self._pages(), key=lambda memory: memory["key"])

    def _pages(self) -> Iterator[Memory]:
        cursor: dict[str, str] = {}
        while True:
            try:
                page = self._memories.list(
                    namespace=self._namespace, tags=[self._tag], limit=MAX_LIMIT, **cursor
                )
            except NotFound:
                return
            # Tags ignore case, but session ids do not. A memory keeps its key, whichever standard revises it.
            yield from (
                {"metadata": {}, **memory}  # type: ignore[misc]
                for memory in page.memories
                if memory["key"].startswith(self._key_prefix)
            )
            if page.next_cursor is None:
                return
            cursor = {"cursor": page.next_cursor}

    def _memory(self, item: object) -> dict[str, object]:
        # Keys sort by time, also with several processes.
        self._last = max(self._last + 1, time.time_ns())
        metadata = {_ITEM: item, SESSION_KEY: self.session_id, KIND_KEY: "episodic"}
        if isinstance(item, Mapping) and isinstance(item.get("content"), str) and item["content"]:
            metadata |= {_ITEM: {**item, "content": None}, _HAS_TEXT: True}
        return {
            "key": f"{self._key_prefix}{self._last:020d}",
            "namespace": self._namespace,
            "value": _item_text(item),
            "tags": [self._tag],
            "metadata": metadata,
        }


def _read_item(memory: Memory) -> object:
    """Return the item of a memory, with the current text if the memory was revised or redacted."""
    text, metadata = memory["value"], memory["metadata"]
    item = metadata.get(_ITEM)
    role, separator, content = text.partition(": ")
    if isinstance(item, Mapping) and metadata.get(_HAS_TEXT):
        prefix = f"{_role_of(item)}: "
        return {**item, "content": text.removeprefix(prefix)}
    if item is not None and _item_text(item) == text:
        return item
    if separator and role in _ROLES:
        return {"role": role, "content": content}
    return {"role": "user", "content": text}


def _role_of(item: Mapping[str, object]) -> object:
    return item.get("role", item.get("type", "said"))


def _item_text(item: object) -> str:
    """Return the searchable text of an item."""
    if not isinstance(item, Mapping):
        return str(item)
    content = item.get("content")
    parts: list[Any] = []
    if isinstance(content, str):
        parts = [content]
    elif isinstance(content, list):
        parts = content
    texts = [part if isinstance(part, str) else str(part.get("text") or "") for part in parts]
    joined_text = "\n".join(text for text in texts if text)
    if joined_text:
        return f"{_role_of(item)}: {joined_text}"
    return dump(dict(item)).decode()
