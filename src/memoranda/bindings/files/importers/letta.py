"""Agent files of Letta (`.af`): the blocks of an agent's memory, and the messages.

Both forms: `agents` and `blocks`, and the older one of a single agent with `core_memory`. Tools, prompts and settings
of the agent are no memories, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

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
    read_text,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError

# Bytes of one agent with its messages.
_MAX_BYTES: Final = 128 * 1_048_576
_SPEAKERS: Final = {"user": "User", "assistant": "Assistant"}
_FORMS: Final = ({"agents", "blocks"}, {"core_memory", "messages"})


def _recognise(source: ImportSource) -> float:
    if not source.starts_with(b"{") or not any(
        mark in source.head for mark in (b'"agents"', b'"core_memory"')
    ):
        return 0.0
    return 0.9 if any(form <= source.fields.keys() for form in _FORMS) else 0.0


def _read_letta(source: ImportSource) -> Iterator[DraftResult]:
    for name in ("blocks", "core_memory"):
        yield from read_drafts(source.read_documents(name), partial(_draft_block, source=source))
    for location, agent in source.read_documents("agents", max_bytes=_MAX_BYTES):
        if isinstance(agent, dict):
            messages = agent.get("messages")
            numbered = enumerate(messages if isinstance(messages, list) else (), start=1)
            yield from _draft_turns(
                ((f"{location}: message {number}", message) for number, message in numbered),
                agent,
                source,
            )
        else:
            yield from read_drafts([(location, agent)], partial(_draft_block, source=source))
    fields: dict[str, object] = {
        name: source.value(name) for name in ("id", "name") if name in source.fields
    }
    yield from _draft_turns(source.read_documents("messages"), fields, source)


def _draft_block(
    document: dict[str, object], location: str, *, source: ImportSource
) -> ImportDraft:
    label, text = read_text(document, "label"), read_text(document, "value")
    if not label or not text:
        raise InvalidInput("not a block of Letta: it needs a `label` and a `value`")
    return ImportDraft(
        where=location,
        id=read_text(document, "id") or label,
        text=text,
        original=document,
        kind="identity" if label == "persona" else "semantic",
        tags=(label,),
        created=first_moment(read_moment(document, "created_at"), source.modified),
        updated=read_moment(document, "updated_at"),
        metadata={"letta_block": label},
    )


def _draft_turns(
    messages: Iterator[tuple[str, object]], agent: dict[str, object], source: ImportSource
) -> Iterator[DraftResult]:
    for number, (location, message) in enumerate(messages, start=1):
        text = _spoken_text(message) if isinstance(message, dict) else ""
        if text or not isinstance(message, dict):
            yield from read_drafts(
                [(location, message)],
                partial(_draft_turn, text=text, agent=agent, number=number, source=source),
            )


def _spoken_text(message: dict[str, object]) -> str:
    """Return the text that a person or the agent wrote; empty for results of tools, events and thoughts."""
    role = message.get("role")
    text = join_blocks(message.get("content")) or read_text(message, "text")
    if role == "user":
        event = _parse_object(text)
        return (
            text
            if not event
            else read_text(event, "message")
            if event.get("type") == "user_message"
            else ""
        )
    calls = message.get("tool_calls")
    for call in calls if role == "assistant" and isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and function.get("name") == "send_message":
            return read_text(_parse_object(function.get("arguments")), "message")
    return text if role == "assistant" and not calls else ""


def _parse_object(text: object) -> dict[str, object]:
    try:
        value = json_text.parse(text) if isinstance(text, str) and text.startswith("{") else None
    except MemorandaError:
        return {}
    return value if isinstance(value, dict) else {}


def _draft_turn(
    message: dict[str, Any],
    location: str,
    *,
    text: str,
    agent: dict[str, object],
    number: int,
    source: ImportSource,
) -> ImportDraft:
    agent_id = read_text(agent, "id", "name") or source.path.stem
    name = read_text(agent, "name")
    speaker = name if name and message.get("role") == "assistant" else _SPEAKERS[message["role"]]
    return draft_turn(
        message,
        location,
        name=read_text(message, "id") or f"{agent_id} {number}",
        speaker=speaker,
        text=text,
        session=agent_id,
        created=first_moment(read_moment(message, "created_at"), source.modified),
        letta_agent=name,
    )


LETTA: Final = Importer(
    name="letta",
    title="Letta",
    recognise=_recognise,
    read_drafts=_read_letta,
    mapping=(
        FieldMapping("block: `value`", "`value`; of the block `persona` a memory of identity"),
        FieldMapping("block: `label`", "a tag, and `metadata.letta_block`"),
        FieldMapping(
            "message of `user`, and messages of the agent", "an episodic memory with its speaker"
        ),
        FieldMapping("thoughts, events, answers of tools", "left out"),
        FieldMapping("`id`", "`key`"),
        FieldMapping("agent: `id`, `name`", "session; `metadata.letta_agent`"),
        FieldMapping(
            "`created_at`, `updated_at`",
            "`created_at`, `updated_at`, in UTC; by default the time of the file",
        ),
        FieldMapping("tools, prompts, files, settings", "left out"),
    ),
)
