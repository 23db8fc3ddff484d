"""Portable AI Memory (PAM) 1.0: a memory store, a conversation, or the folder of both.

The validity of a superseded or retracted memory ends, at the latest when it was last changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Final

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    draft_turn,
    first_moment,
    join_blocks,
    read_drafts,
    read_moment,
    read_object,
    read_text,
    read_texts,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.errors import InvalidInput
from memoranda.model.memory import Kind

_STORE: Final = "portable-ai-memory"
_CONVERSATION: Final = "portable-ai-memory-conversation"
_FILE: Final = "memory-store.json"
_ENDED: Final = ("superseded", "deprecated", "retracted")
_KINDS: Final[dict[str, Kind]] = {
    "instruction": "procedural",
    "skill": "procedural",
    "identity": "identity",
}
_SPEAKERS: Final = {"user": "User", "assistant": "Assistant"}


def _recognise(source: ImportSource) -> float:
    if source.is_folder:
        return (
            0.9
            if _FILE in source.members and _recognise(ImportSource(source.path / _FILE))
            else 0.0
        )
    if not source.starts_with(b"{") or f'"{_STORE}'.encode() not in source.head:
        return 0.0
    return 0.95 if source.value("schema") in (_STORE, _CONVERSATION) else 0.0


def _read_pam(source: ImportSource) -> Iterator[DraftResult]:
    if source.is_folder:
        # The folder also has vectors, which are ignored: they are computed again.
        sources = (ImportSource(source.path / item) for item in source.members)
        yield from chain.from_iterable(_read_pam(item) for item in sources if _recognise(item))
        return
    owner = source.value("owner")
    user = read_text(owner, "id") if isinstance(owner, dict) else ""
    made_from: dict[str, list[str]] = {}
    for _, relation in source.read_documents("relations"):
        if isinstance(relation, dict) and relation.get("type") in (
            "derived_from",
            "supersedes",
            "extends",
        ):
            made_from.setdefault(read_text(relation, "from"), []).append(read_text(relation, "to"))
    yield from read_drafts(
        source.read_documents("memories"),
        partial(_draft_memory, user=user, made_from=made_from, source=source),
    )
    conversation = {name: source.value(name) for name in ("id", "title")}
    spoken = (
        (location, item)
        for location, item in source.read_documents("messages")
        if not _is_not_spoken(item)
    )
    yield from read_drafts(spoken, partial(_draft_message, about=conversation, source=source))


def _draft_memory(
    document: dict[str, object],
    location: str,
    *,
    user: str,
    made_from: dict[str, list[str]],
    source: ImportSource,
) -> ImportDraft:
    name, text = read_text(document, "id"), read_text(document, "content")
    if not name or not text:
        raise InvalidInput("not a memory of PAM: it needs an `id` and a `content`")
    times, origin, certainty = (
        read_object(document, field) for field in ("temporal", "provenance", "confidence")
    )
    created = first_moment(read_moment(times, "created_at"), source.modified)
    updated = read_moment(times, "updated_at")
    is_over = document.get("status") in _ENDED
    kind = read_text(document, "custom_type") or read_text(document, "type")
    confidence = certainty.get("current")
    return ImportDraft(
        where=location,
        id=name,
        text=text,
        original=document,
        user=user,
        session=read_text(origin, "conversation_ref"),
        kind=_KINDS.get(kind, "semantic"),
        tags=(kind, *read_texts(document, "tags")),
        created=created,
        updated=updated,
        valid_from=read_moment(times, "valid_from"),
        valid_to=read_moment(times, "valid_until") or ((updated or created) if is_over else None),
        confidence=confidence if isinstance(confidence, int | float) else None,
        parent=next(iter(made_from.get(name, ())), ""),
        metadata={"pam_platform": platform} if (platform := read_text(origin, "platform")) else {},
    )


def _is_not_spoken(message: object) -> bool:
    """Return True for a message of tools and settings, and for a thought."""
    return isinstance(message, dict) and (
        message.get("role") in ("system", "tool") or message.get("is_thought") is True
    )


def _draft_message(
    message: dict[str, object], location: str, *, about: dict[str, object], source: ImportSource
) -> ImportDraft:
    content = read_object(message, "content")
    text = read_text(content, "text") or join_blocks(content.get("parts"))
    speaker = _SPEAKERS.get(read_text(message, "role"))
    if speaker is None or not text or not read_text(message, "id"):
        raise InvalidInput(
            "not a message of PAM: it needs an `id`, a `role` and a `content` with a text"
        )
    return draft_turn(
        message,
        location,
        name=read_text(message, "id"),
        speaker=speaker,
        text=text,
        session=read_text(about, "id"),
        created=first_moment(read_moment(message, "created_at"), source.modified),
        chat_title=read_text(about, "title"),
    )


PAM: Final = Importer(
    name="pam",
    title="Portable AI Memory (PAM)",
    recognise=_recognise,
    read_drafts=_read_pam,
    mapping=(
        FieldMapping("`content`", "`value`"),
        FieldMapping("`id`", "`key`"),
        FieldMapping("`owner.id`", "owner half of `namespace`"),
        FieldMapping(
            "`type` (or `custom_type`), `tags`",
            "`tags`; `instruction`, `skill` and `identity` are also kinds of memory",
        ),
        FieldMapping("`temporal.created_at`, `updated_at`", "`created_at`, `updated_at`, in UTC"),
        FieldMapping("`temporal.valid_from`, `valid_until`", "valid time"),
        FieldMapping("`status`: `superseded`, `deprecated`, `retracted`", "no longer true"),
        FieldMapping("`confidence.current`", "`metadata.confidence`"),
        FieldMapping(
            "`provenance.conversation_ref`, `platform`", "session, `metadata.pam_platform`"
        ),
        FieldMapping(
            "`relations`: `derived_from`, `supersedes`, `extends`", "`parent_id`: the first of them"
        ),
        FieldMapping(
            "conversation: a message of `user` or `assistant`",
            "an episodic memory `User: …` or `Assistant: …`",
        ),
        FieldMapping("conversation: `system`, `tool`, thoughts", "left out"),
    ),
)
