"""A memory service for Google's Agent Development Kit: `Runner(…, memory_service=MemorandaMemoryService(m))`.

An app is a project, a user is a user, a session is a session. Each thing said in it is an episodic memory; a search
finds these, and what any other agent remembered of the app or in no project, about the user or about nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from memoranda.adapters import needs
from memoranda.adapters.questions import question
from memoranda.app import Memoranda
from memoranda.encoding.bases import base32_encode
from memoranda.encoding.json_text import dump
from memoranda.encoding.untrusted import neutralize_tags
from memoranda.errors import InvalidInput, NotFound
from memoranda.library.results import Hit
from memoranda.model.instant import format_instant
from memoranda.service.core.lookup import ID_PREFIX

with needs("google-adk"):
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types

# Under which a memory has who said it, and the event in which.
_EVENT: Final = "google_adk"
_METHOD: Final = "google-adk"
_LIMIT: Final = 10
_PAGE: Final = 100


class MemorandaMemoryService(BaseMemoryService):  # type: ignore[misc]  # the type checker does not read the kit
    """A memory service over an open memory; what it takes to open and close it is the caller's."""

    def __init__(self, memoranda: Memoranda, *, limit: int = _LIMIT) -> None:
        self._memoranda = memoranda
        self._limit = limit

    async def add_session_to_memory(self, session: Any) -> None:
        """Remember what was said in a session; what is remembered already stays as it is."""
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
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember some of what was said."""
        place = {"project": app_name, "user": user_id, "session": session_id}
        await asyncio.to_thread(self._add, place, list(events), dict(custom_metadata or {}))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember these."""
        for entry in memories:
            more = {**dict(custom_metadata or {}), **entry.custom_metadata}
            await asyncio.to_thread(
                self._memoranda.remember,
                _text(entry.content),
                project=app_name,
                user=user_id,
                structured={_EVENT: _given(author=entry.author, metadata=more or None)},
                **_given(observed=entry.timestamp),
            )

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """What is known about it, best first."""
        asked = question(query)
        if not asked:
            return SearchMemoryResponse()
        hits = await asyncio.to_thread(
            self._memoranda.recall, asked, limit=self._limit, project=app_name, user=user_id
        )
        return SearchMemoryResponse(memories=[_entry(hit) for hit in hits])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget one memory of this user, by the id that a search gave."""
        if memory_id:
            await asyncio.to_thread(self._delete, app_name, user_id, memory_id)

    def _delete(self, app_name: str, user_id: str, memory_id: str) -> None:
        try:
            found = self._memoranda.get(memory_id)
        except NotFound:
            return
        # Nobody deletes what belongs to another user, or to all of them.
        if (found.project, found.user) != (app_name, user_id):
            return
        self._memoranda.forget(found.id, reason="deleted")

    def _add(
        self, place: Mapping[str, Any], events: Sequence[Any], metadata: dict[str, object]
    ) -> None:
        """Remember what was said, each under a name that its event has for ever.

        So what was forgotten since, here or by anybody else, is known by its name, and does not come again with the
        rest of its session.
        """
        known = set(self._events(place))
        scope = _given(**place)
        drafts = [
            {
                "id": _name(place, event.id),
                "kind": "episodic",
                "body": {
                    "text": f"{event.author}: {text}",
                    "structured": {_EVENT: _said(event, metadata)},
                },
                "scope": scope,
                "time": {"observed": format_instant(round(event.timestamp * 1_000))},
                "provenance": {"method": _METHOD, "source": {"provider": _METHOD}},
            }
            for event in events
            if event.id not in known and (text := _text(event.content))
        ]
        report = self._memoranda.import_records(drafts) if drafts else None
        for refusal in report.refusals if report is not None else ():
            # Another process may have remembered the same meanwhile.
            if not self._is_there(refusal.id):
                raise InvalidInput(refusal.message)

    def _is_there(self, name: str) -> bool:
        try:
            return bool(name) and self._memoranda.get(name) is not None
        except NotFound:
            return False

    def _events(self, place: Mapping[str, Any]) -> Iterator[str]:
        """The events of a session that are remembered."""
        after = 0
        while found := self._memoranda.list(limit=_PAGE, after=after, **place):
            yield from (
                said["event"] for each in found if "event" in (said := _event(each.structured))
            )
            after += len(found)


def _entry(hit: Hit) -> MemoryEntry:
    said = _event(hit.structured)
    author = said.get("author")
    text = hit.text.removeprefix(f"{author}: ")
    # The kit puts it before a model in a frame of its own, which no memory may end.
    part = types.Part(text=neutralize_tags(text, replacement="‹"))
    return MemoryEntry(
        id=hit.id,
        content=types.Content(role="user" if author in (None, "user") else "model", parts=[part]),
        author=author,
        timestamp=hit.record["time"].get("observed", hit.record["time"]["created"]),
        custom_metadata={**said.get("metadata", {}), "score": hit.score},
    )


def _said(event: Any, metadata: Mapping[str, object]) -> dict[str, Any]:
    return _given(author=event.author, event=event.id, metadata=dict(metadata) or None)


def _name(place: Mapping[str, Any], event_id: str) -> str:
    """What a memory of an event is called."""
    parts = [
        _METHOD,
        *(str(place[each] or "") for each in ("project", "user", "session")),
        event_id,
    ]
    return ID_PREFIX + base32_encode(hashlib.sha256(dump(parts)).digest())


def _event(structured: Mapping[str, Any]) -> dict[str, Any]:
    said = structured.get(_EVENT)
    return said if isinstance(said, dict) else {}


def _text(content: Any) -> str:
    return "\n".join(part.text for part in (content.parts if content else None) or () if part.text)


def _given(**named: Any) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value is not None}
