"""A memory service for Google's Agent Development Kit: `Runner(…, memory_service=MemorandaMemoryService(m))`.

An app maps to a project, a user to a user, a session to a session. Each event is stored as an episodic memory. A search
finds these, and memories of other agents: those of the app or without project, about the user or about no user.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from memoranda.adapters import limit_question, require_extra
from memoranda.app import Memoranda
from memoranda.encoding.bases import base32_encode
from memoranda.encoding.json_text import dump
from memoranda.encoding.untrusted import neutralize_tags
from memoranda.errors import InvalidInput, NotFound
from memoranda.library.results import Hit
from memoranda.model.instant import format_instant
from memoranda.service.core.lookup import ID_PREFIX

with require_extra("google-adk"):
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types

# The key in `structured` of a memory for the author, the id and the metadata of the event.
_EVENT: Final = "google_adk"
_METHOD: Final = "google-adk"
# Results of a search, as many as fit into a prompt.
_LIMIT: Final = 10
_PAGE: Final = 100


class MemorandaMemoryService(BaseMemoryService):  # type: ignore[misc]  # the type checker does not read the kit
    """A memory service over an open `Memoranda`, which the caller opens and closes."""

    def __init__(self, memoranda: Memoranda, *, limit: int = _LIMIT) -> None:
        self._memoranda = memoranda
        self._limit = limit

    async def add_session_to_memory(self, session: Any) -> None:
        """Remember the events of a session; events that are stored already stay unchanged."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[object],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember some events of a session."""
        scope = {"project": app_name, "user": user_id, "session": session_id}
        await asyncio.to_thread(self._add, scope, list(events), dict(custom_metadata or {}))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember memories that the caller composed."""
        for entry in memories:
            metadata = {**dict(custom_metadata or {}), **entry.custom_metadata}
            await asyncio.to_thread(
                self._memoranda.remember,
                _content_text(entry.content),
                project=app_name,
                user=user_id,
                structured={_EVENT: _without_none(author=entry.author, metadata=metadata or None)},
                **_without_none(observed=entry.timestamp),
            )

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the memories that answer a query, best first."""
        limited_query = limit_question(query)
        if not limited_query:
            return SearchMemoryResponse()
        hits = await asyncio.to_thread(
            self._memoranda.recall, limited_query, limit=self._limit, project=app_name, user=user_id
        )
        return SearchMemoryResponse(memories=[_memory_entry(hit) for hit in hits])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget one memory of this user, by the id from a search."""
        if memory_id:
            await asyncio.to_thread(self._delete, app_name, user_id, memory_id)

    def _delete(self, app_name: str, user_id: str, memory_id: str) -> None:
        try:
            memory = self._memoranda.get(memory_id)
        except NotFound:
            return
        # Memories of other users, and of no user, are not deleted.
        if (memory.project, memory.user) != (app_name, user_id):
            return
        self._memoranda.forget(memory.id, reason="deleted")

    def _add(
        self, scope: Mapping[str, object], events: Sequence[Any], metadata: dict[str, object]
    ) -> None:
        """Remember events, each under a name derived from its id.

        A memory that was forgotten meanwhile is recognised by its name, and is not stored again with its session.
        """
        stored_events = set(self._remembered_events(scope))
        scope = _without_none(**scope)
        drafts = [
            {
                "id": _memory_name(scope, event.id),
                "kind": "episodic",
                "body": {
                    "text": f"{event.author}: {text}",
                    "structured": {_EVENT: _event_fields(event, metadata)},
                },
                "scope": scope,
                "time": {"observed": format_instant(round(event.timestamp * 1_000))},
                "provenance": {"method": _METHOD, "source": {"provider": _METHOD}},
            }
            for event in events
            if event.id not in stored_events and (text := _content_text(event.content))
        ]
        report = self._memoranda.import_records(drafts) if drafts else None
        for refusal in report.refusals if report is not None else ():
            # Another process may have stored the same event meanwhile.
            if not self._exists(refusal.id):
                raise InvalidInput(refusal.message)

    def _exists(self, name: str) -> bool:
        try:
            return bool(name) and self._memoranda.get(name) is not None
        except NotFound:
            return False

    def _remembered_events(self, scope: Mapping[str, Any]) -> Iterator[str]:
        """Yield the ids of the events of a session that are stored."""
        after = 0
        while page := self._memoranda.list(limit=_PAGE, after=after, **scope):
            yield from (
                fields["event"]
                for memory in page
                if "event" in (fields := _stored_event_fields(memory.structured))
            )
            after += len(page)


def _memory_entry(hit: Hit) -> MemoryEntry:
    fields = _stored_event_fields(hit.structured)
    author = fields.get("author")
    text = hit.text.removeprefix(f"{author}: ")
    # The kit puts the text into a frame of its own, so tags that could close the frame are neutralised.
    part = types.Part(text=neutralize_tags(text, replacement="‹"))
    return MemoryEntry(
        id=hit.id,
        content=types.Content(role="user" if author in (None, "user") else "model", parts=[part]),
        author=author,
        timestamp=hit.record["time"].get("observed", hit.record["time"]["created"]),
        custom_metadata={**fields.get("metadata", {}), "score": hit.score},
    )


def _event_fields(event: Any, metadata: Mapping[str, object]) -> dict[str, object]:
    return _without_none(author=event.author, event=event.id, metadata=dict(metadata) or None)


def _memory_name(scope: Mapping[str, object], event_id: str) -> str:
    """Return the name of the memory of an event."""
    parts = [
        _METHOD,
        *(str(scope[name] or "") for name in ("project", "user", "session")),
        event_id,
    ]
    return ID_PREFIX + base32_encode(hashlib.sha256(dump(parts)).digest())


def _stored_event_fields(structured: Mapping[str, object]) -> dict[str, Any]:
    fields = structured.get(_EVENT)
    return fields if isinstance(fields, dict) else {}


def _content_text(content: Any) -> str:
    return "\n".join(part.text for part in (content.parts if content else None) or () if part.text)


def _without_none(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
