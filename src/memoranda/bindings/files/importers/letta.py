"""Agent files of Letta (`.af`): the blocks of an agent's memory, and what was said.

Both forms: `agents` and `blocks`, and the older one of a single agent with `core_memory`. Tools, prompts and settings
of the agent are no memories, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from memoranda.bindings.files.importers.importer import (
    Draft,
    Found,
    Importer,
    Mapped,
    drafts,
    first_of,
    moment_in,
    spoken,
    text_in,
    turn,
)
from memoranda.bindings.files.importers.source import Source
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError

# One agent with its messages, however long.
_MAX_BYTES: Final = 128 * 1_048_576
_SPEAKERS: Final = {"user": "User", "assistant": "Assistant"}
_FORMS: Final = ({"agents", "blocks"}, {"core_memory", "messages"})


def _recognise(source: Source) -> float:
    if not source.starts(b"{") or not any(
        mark in source.head for mark in (b'"agents"', b'"core_memory"')
    ):
        return 0.0
    return 0.9 if any(each <= source.fields.keys() for each in _FORMS) else 0.0


def _read(source: Source) -> Iterator[Found]:
    for name in ("blocks", "core_memory"):
        yield from drafts(source.listed(name), partial(_block, source=source))
    for where, agent in source.listed("agents", max_bytes=_MAX_BYTES):
        if isinstance(agent, dict):
            messages = agent.get("messages")
            listed = enumerate(messages if isinstance(messages, list) else (), start=1)
            yield from _turns(
                ((f"{where}: message {number}", each) for number, each in listed), agent, source
            )
        else:
            yield from drafts([(where, agent)], partial(_block, source=source))
    alone: dict[str, Any] = {
        name: source.value(name) for name in ("id", "name") if name in source.fields
    }
    yield from _turns(source.listed("messages"), alone, source)


def _block(document: dict[str, Any], where: str, *, source: Source) -> Draft:
    label, text = text_in(document, "label"), text_in(document, "value")
    if not label or not text:
        raise InvalidInput("not a block of Letta: it needs a `label` and a `value`")
    return Draft(
        where=where,
        id=text_in(document, "id") or label,
        text=text,
        original=document,
        kind="identity" if label == "persona" else "semantic",
        tags=(label,),
        created=first_of(moment_in(document, "created_at"), source.modified),
        updated=moment_in(document, "updated_at"),
        metadata={"letta_block": label},
    )


def _turns(
    messages: Iterator[tuple[str, Any]], agent: dict[str, Any], source: Source
) -> Iterator[Found]:
    for number, (where, message) in enumerate(messages, start=1):
        text = _said(message) if isinstance(message, dict) else ""
        if text or not isinstance(message, dict):
            yield from drafts(
                [(where, message)],
                partial(_turn, text=text, agent=agent, number=number, source=source),
            )


def _said(message: dict[str, Any]) -> str:
    """What a person or the agent said; empty for what tools answered, for events, and for what was only thought."""
    role = message.get("role")
    text = spoken(message.get("content")) or text_in(message, "text")
    if role == "user":
        event = _object(text)
        return (
            text
            if not event
            else text_in(event, "message")
            if event.get("type") == "user_message"
            else ""
        )
    calls = message.get("tool_calls")
    for call in calls if role == "assistant" and isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and function.get("name") == "send_message":
            return text_in(_object(function.get("arguments")), "message")
    return text if role == "assistant" and not calls else ""


def _object(text: Any) -> dict[str, Any]:
    try:
        found = json_text.parse(text) if isinstance(text, str) and text.startswith("{") else None
    except MemorandaError:
        return {}
    return found if isinstance(found, dict) else {}


def _turn(
    message: dict[str, Any],
    where: str,
    *,
    text: str,
    agent: dict[str, Any],
    number: int,
    source: Source,
) -> Draft:
    called = text_in(agent, "id", "name") or source.path.stem
    name = text_in(agent, "name")
    speaker = name if name and message.get("role") == "assistant" else _SPEAKERS[message["role"]]
    return turn(
        message,
        where,
        name=text_in(message, "id") or f"{called} {number}",
        speaker=speaker,
        text=text,
        session=called,
        created=first_of(moment_in(message, "created_at"), source.modified),
        letta_agent=name,
    )


LETTA: Final = Importer(
    name="letta",
    title="Letta",
    recognise=_recognise,
    read=_read,
    mapping=(
        Mapped("block: `value`", "`value`; of the block `persona` a memory of identity"),
        Mapped("block: `label`", "a tag, and `metadata.letta_block`"),
        Mapped(
            "message of `user`, and what the agent sent", "an episodic memory that says who speaks"
        ),
        Mapped("thoughts, events, answers of tools", "left out"),
        Mapped("`id`", "`key`"),
        Mapped("agent: `id`, `name`", "session; `metadata.letta_agent`"),
        Mapped(
            "`created_at`, `updated_at`", "the same, in UTC; else when the file was last written"
        ),
        Mapped("tools, prompts, files, settings", "left out"),
    ),
)
