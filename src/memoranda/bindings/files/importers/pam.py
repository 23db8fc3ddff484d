"""Portable AI Memory (PAM) 1.0: a memory store, a conversation, or the folder of both.

What was superseded or retracted there is true no more, at the latest since it was last changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, Final

from memoranda.bindings.files.importers.importer import (
    Draft,
    Found,
    Importer,
    Mapped,
    drafts,
    first_of,
    moment_in,
    object_in,
    spoken,
    text_in,
    texts_in,
    turn,
)
from memoranda.bindings.files.importers.source import Source
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


def _recognise(source: Source) -> float:
    if source.is_folder:
        return 0.9 if _FILE in source.members and _recognise(Source(source.path / _FILE)) else 0.0
    if not source.starts(b"{") or f'"{_STORE}'.encode() not in source.head:
        return 0.0
    return 0.95 if source.value("schema") in (_STORE, _CONVERSATION) else 0.0


def _read(source: Source) -> Iterator[Found]:
    if source.is_folder:
        # Vectors lie beside them too, which are made anew.
        inside = (Source(source.path / each) for each in source.members)
        yield from chain.from_iterable(_read(each) for each in inside if _recognise(each))
        return
    owner = source.value("owner")
    user = text_in(owner, "id") if isinstance(owner, dict) else ""
    made_from: dict[str, list[str]] = {}
    for _, relation in source.listed("relations"):
        if isinstance(relation, dict) and relation.get("type") in (
            "derived_from",
            "supersedes",
            "extends",
        ):
            made_from.setdefault(text_in(relation, "from"), []).append(text_in(relation, "to"))
    yield from drafts(
        source.listed("memories"), partial(_memory, user=user, made_from=made_from, source=source)
    )
    about = {name: source.value(name) for name in ("id", "title")}
    said = ((where, each) for where, each in source.listed("messages") if not _is_unspoken(each))
    yield from drafts(said, partial(_turn, about=about, source=source))


def _memory(
    document: dict[str, Any],
    where: str,
    *,
    user: str,
    made_from: dict[str, list[str]],
    source: Source,
) -> Draft:
    name, text = text_in(document, "id"), text_in(document, "content")
    if not name or not text:
        raise InvalidInput("not a memory of PAM: it needs an `id` and a `content`")
    times, origin, sure = (
        object_in(document, each) for each in ("temporal", "provenance", "confidence")
    )
    created = first_of(moment_in(times, "created_at"), source.modified)
    updated = moment_in(times, "updated_at")
    is_over = document.get("status") in _ENDED
    kind = text_in(document, "custom_type") or text_in(document, "type")
    confidence = sure.get("current")
    return Draft(
        where=where,
        id=name,
        text=text,
        original=document,
        user=user,
        session=text_in(origin, "conversation_ref"),
        kind=_KINDS.get(kind, "semantic"),
        tags=(kind, *texts_in(document, "tags")),
        created=created,
        updated=updated,
        valid_from=moment_in(times, "valid_from"),
        valid_to=moment_in(times, "valid_until") or ((updated or created) if is_over else None),
        confidence=confidence if isinstance(confidence, int | float) else None,
        parent=next(iter(made_from.get(name, ())), ""),
        metadata={"pam_platform": platform} if (platform := text_in(origin, "platform")) else {},
    )


def _is_unspoken(message: Any) -> bool:
    """Whether a message is of tools and settings, or was only thought."""
    return isinstance(message, dict) and (
        message.get("role") in ("system", "tool") or message.get("is_thought") is True
    )


def _turn(message: dict[str, Any], where: str, *, about: dict[str, Any], source: Source) -> Draft:
    content = object_in(message, "content")
    text = text_in(content, "text") or spoken(content.get("parts"))
    speaker = _SPEAKERS.get(text_in(message, "role"))
    if speaker is None or not text or not text_in(message, "id"):
        raise InvalidInput(
            "not a message of PAM: it needs an `id`, a `role` and a `content` with a text"
        )
    return turn(
        message,
        where,
        name=text_in(message, "id"),
        speaker=speaker,
        text=text,
        session=text_in(about, "id"),
        created=first_of(moment_in(message, "created_at"), source.modified),
        chat_title=text_in(about, "title"),
    )


PAM: Final = Importer(
    name="pam",
    title="Portable AI Memory (PAM)",
    recognise=_recognise,
    read=_read,
    mapping=(
        Mapped("`content`", "`value`"),
        Mapped("`id`", "`key`"),
        Mapped("`owner.id`", "owner half of `namespace`"),
        Mapped(
            "`type` (or `custom_type`), `tags`",
            "`tags`; `instruction`, `skill` and `identity` are kinds here too",
        ),
        Mapped("`temporal.created_at`, `updated_at`", "the same, in UTC"),
        Mapped("`temporal.valid_from`, `valid_until`", "when it is true"),
        Mapped("`status`: `superseded`, `deprecated`, `retracted`", "true no more"),
        Mapped("`confidence.current`", "`metadata.confidence`"),
        Mapped("`provenance.conversation_ref`, `platform`", "session, `metadata.pam_platform`"),
        Mapped(
            "`relations`: `derived_from`, `supersedes`, `extends`", "`parent_id`: the first of them"
        ),
        Mapped(
            "conversation: a message of `user` or `assistant`",
            "an episodic memory `User: …` or `Assistant: …`",
        ),
        Mapped("conversation: `system`, `tool`, thoughts", "left out"),
    ),
)
