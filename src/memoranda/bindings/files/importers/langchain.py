"""Message histories of LangChain: the JSON of its file history, and the `message_store` table of its SQL history.

Every message of a person or a model is an episodic memory, in its session. Neither keeps times.

Messages are recognised by the two members `type` and `data`, in which LangChain nests them in every version. Messages
of the system and of tools are no statements of a person, and are left out. A history has no times, so the order in the
file is the order of the turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    draft_turn,
    join_blocks,
    read_drafts,
    read_text,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError

# Types of messages that are imported; those of tools and settings are left out.
_SPEAKERS: Final = {"human": "User", "ai": "Assistant"}
_COLUMNS: Final = ("id", "session_id", "message")


def _recognise(source: ImportSource) -> float:
    if source.is_database:
        return (
            0.95
            if {"session_id", "message"} <= set(source.tables.get("message_store", ()))
            else 0.0
        )
    first = source.first
    data = first.get("data") if isinstance(first, dict) and "type" in first else None
    return 0.9 if isinstance(data, dict) and "content" in data else 0.0


def _read_langchain(source: ImportSource) -> Iterator[DraftResult]:
    for number, (location, session, document) in enumerate(_read_messages(source), start=1):
        if not isinstance(document, dict) or document.get("type") in (*_SPEAKERS, None):
            yield from read_drafts(
                [(location, document)],
                partial(_draft_message, session=session, number=number, source=source),
            )


def _read_messages(source: ImportSource) -> Iterator[tuple[str, str, object]]:
    """Yield every message as (position, session, document)."""
    if not source.is_database:
        yield from (
            (location, source.path.stem, document) for location, document in source.read_documents()
        )
        return
    for row in source.read_rows("message_store", _COLUMNS, "id"):
        message = row.get("message")
        try:
            document = json_text.parse(message) if isinstance(message, str | bytes) else message
        except MemorandaError as error:
            document = error
        yield f"{source.name}: {row.get('id')}", str(row.get("session_id") or ""), document


def _draft_message(
    document: dict[str, object], location: str, *, session: str, number: int, source: ImportSource
) -> ImportDraft:
    data = document.get("data")
    text = join_blocks(data.get("content")) if isinstance(data, dict) else ""
    if not isinstance(data, dict) or not text:
        raise InvalidInput("not a message of LangChain: `data.content` is empty")
    speaker = read_text(data, "name") or _SPEAKERS.get(read_text(document, "type"), "User")
    return draft_turn(
        document,
        location,
        name=read_text(data, "id") or f"{session} {number}",
        speaker=speaker,
        text=text,
        session=session,
        created=source.modified,
    )


LANGCHAIN: Final = Importer(
    name="langchain",
    title="LangChain",
    recognise=_recognise,
    read_drafts=_read_langchain,
    mapping=(
        FieldMapping(
            "a message of `human` or `ai`: `data.content`",
            "an episodic memory `User: …` or `Assistant: …`",
        ),
        FieldMapping("`data.name`", "the speaker, instead"),
        FieldMapping("a message of `system`, `tool` or `function`", "left out"),
        FieldMapping("`data.id`", "`key`; without one, the session and the number of the message"),
        FieldMapping("`session_id`, or the name of the file", "session"),
        FieldMapping("(no times)", "the time of the file"),
    ),
)
