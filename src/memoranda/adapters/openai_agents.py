"""A session of the OpenAI Agents SDK, kept in Memoranda: `Runner.run(agent, "…", session=MemorandaSession("42", m))`.

Each item of the conversation is a memory, said in this session: what was said in one conversation is found from any
other, by this agent or another. The item itself goes along as the SDK gave it.
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

# Under which a memory's metadata has the item as the SDK gave it.
_ITEM: Final = "openai_agents"


class MemorandaSession:
    """One conversation, over an open memory."""

    def __init__(self, session_id: str, memoranda: Memoranda, *, project: str = "sessions") -> None:
        self.session_id = session_id
        # The SDK's own; of these, its limit is the default of `get_items`.
        self.session_settings: Any = None
        self._memories = memoranda.oams
        self._place = str(memoranda.oams.namespace(project))
        self._tag = f"session:{session_id}"
        self._last = 0

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """What was said, oldest first; the latest `limit` of it."""
        asked = getattr(self.session_settings, "limit", None) if limit is None else limit
        items = [each["metadata"][_ITEM] for each in await asyncio.to_thread(self._said)]
        return items if asked is None else items[max(0, len(items) - asked) :]

    async def add_items(self, items: Sequence[Any]) -> None:
        """Go on with these."""
        if items:
            await asyncio.to_thread(
                self._memories.batch_store, [self._memory(each) for each in items]
            )

    async def pop_item(self) -> Any | None:
        """Take the latest back."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Forget all of it."""
        await asyncio.to_thread(lambda: [self._forget(each) for each in self._said()])

    def _pop(self) -> Any | None:
        said = self._said()
        while said:
            last = said.pop()
            # Another process may have taken it meanwhile.
            if self._forget(last):
                return last["metadata"][_ITEM]
        return None

    def _forget(self, memory: Memory) -> bool:
        try:
            self._memories.forget(memory["key"], namespace=self._place)
        except NotFound:
            return False
        return True

    def _said(self) -> list[Memory]:
        return sorted(self._pages(), key=lambda memory: memory["key"])

    def _pages(self) -> Iterator[Memory]:
        cursor: dict[str, str] = {}
        while True:
            try:
                page = self._memories.list(
                    namespace=self._place, tags=[self._tag], limit=MAX_LIMIT, **cursor
                )
            except NotFound:
                return
            # Tags do not tell upper from lower case; names of sessions do.
            yield from (
                each
                for each in page.memories
                if each["metadata"].get(SESSION_KEY) == self.session_id
            )
            if page.next_cursor is None:
                return
            cursor = {"cursor": page.next_cursor}

    def _memory(self, item: Any) -> dict[str, Any]:
        # Keys are in the order in which things were said, also where several processes say something.
        self._last = max(self._last + 1, time.time_ns())
        return {
            "key": f"{quote(self.session_id, safe='')}/{self._last:020d}",
            "namespace": self._place,
            "value": _text(item),
            "tags": [self._tag],
            "metadata": {_ITEM: item, SESSION_KEY: self.session_id, KIND_KEY: "episodic"},
        }


def _text(item: Any) -> str:
    """What an item says, for who looks for it later."""
    if not isinstance(item, Mapping):
        return str(item)
    content = item.get("content")
    parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    texts = [each if isinstance(each, str) else str(each.get("text") or "") for each in parts]
    said = "\n".join(text for text in texts if text)
    if said:
        return f"{item.get('role', item.get('type', 'said'))}: {said}"
    return dump(dict(item)).decode()
