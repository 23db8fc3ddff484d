"""Data exports of ChatGPT and Claude: the archive as it is sent, its folder, or only `conversations.json`.

Every message is an episodic memory of its own, in the session of its conversation, and begins with its speaker. From
Claude the summaries of its own memory, and the instructions and documents of projects, are imported, too.

Conversations are imported turn by turn, because recall needs the words of a turn and its neighbours, not a transcript.
Turns without text (images, tool calls) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    Unreadable,
    draft_turn,
    first_moment,
    join_blocks,
    read_moment,
    read_text,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.errors import InvalidInput, MemorandaError

_CONVERSATIONS: Final = "conversations.json"
# Bytes of one conversation.
_MAX_BYTES: Final = 128 * 1_048_576
# Texts in the first bytes of each system's files.
_CHATGPT: Final = (b'"mapping"', b'"create_time"')
_CLAUDE: Final = (b'"chat_messages"', b'"uuid"')
# Roles whose messages are imported; those of tools and settings are left out.
_SPEAKERS: Final = {"user": "User", "assistant": "ChatGPT"}


def _find_member(source: ImportSource, name: str) -> str | None:
    """Return the path of a file in an export, whose files may be in a folder within it; None if it is missing."""
    return next((member for member in source.members if PurePosixPath(member).name == name), None)


def _recogniser(*marks: bytes) -> Callable[[ImportSource], float]:
    def recognise(source: ImportSource) -> float:
        if source.is_folder or source.is_archive:
            member = _find_member(source, _CONVERSATIONS)
            head = b"" if member is None else source.member_head(member)
        else:
            head = source.head if source.starts_with(b"[") else b""
        return 0.9 if all(mark in head for mark in marks) else 0.0

    return recognise


def _read_file(source: ImportSource, name: str = _CONVERSATIONS) -> Iterator[tuple[str, Any]]:
    """Yield the documents of one file of an export, with their positions."""
    is_single_file = not (source.is_folder or source.is_archive)
    member = None if is_single_file else _find_member(source, name)
    if member is None and (not is_single_file or name != _CONVERSATIONS):
        return
    for number, document in source.read_array(member=member, max_bytes=_MAX_BYTES) or ():
        yield f"{source.where(member)}:{number}", document


def _draft_message(
    location: str,
    message: dict[str, object],
    conversation: dict[str, object],
    speaker: str,
    text: str,
    source: ImportSource,
) -> ImportDraft:
    """Return the draft of a message; the message ids of both systems are globally unique."""
    created, conversation_created = (
        read_moment(document, "create_time", "created_at") for document in (message, conversation)
    )
    return draft_turn(
        message,
        location,
        name=read_text(message, "id", "uuid"),
        speaker=speaker,
        text=text,
        session=read_text(conversation, "conversation_id", "id", "uuid"),
        created=first_moment(created, conversation_created, source.modified),
        chat_title=read_text(conversation, "title", "name"),
    )


# --- ChatGPT ---------------------------------------------------------------------------------------------------------


def _read_chatgpt(source: ImportSource) -> Iterator[DraftResult]:
    for location, conversation in _read_file(source):
        nodes = conversation.get("mapping") if isinstance(conversation, dict) else None
        if isinstance(conversation, MemorandaError):
            yield Unreadable(location, conversation)
        elif not isinstance(nodes, dict):
            yield Unreadable(
                location, InvalidInput("not a conversation of ChatGPT: it has no `mapping`")
            )
        else:
            messages = [node.get("message") for node in nodes.values() if isinstance(node, dict)]
            yield from _draft_messages(
                location,
                conversation,
                [message for message in messages if isinstance(message, dict)],
                source,
            )


def _draft_messages(
    location: str,
    conversation: dict[str, object],
    messages: list[dict[str, object]],
    source: ImportSource,
) -> Iterator[DraftResult]:
    """Yield the messages of a conversation, including edited questions and other answers, in the order of time."""
    for message in sorted(messages, key=lambda entry: read_moment(entry, "create_time") or 0):
        author = message.get("author")
        speaker = _SPEAKERS.get(read_text(author, "role")) if isinstance(author, dict) else None
        text = _message_text(message.get("content"))
        if speaker is not None and text and read_text(message, "id"):
            yield _draft_message(location, message, conversation, speaker, text, source)


def _message_text(content: object) -> str:
    """Return the text of a message, without images and the like."""
    if not isinstance(content, dict):
        return ""
    parts = content.get("parts")
    return join_blocks(parts if isinstance(parts, list) else content.get("text"))


CHATGPT: Final = Importer(
    name="chatgpt",
    title="ChatGPT",
    recognise=_recogniser(*_CHATGPT),
    read_drafts=_read_chatgpt,
    mapping=(
        FieldMapping(
            "a message of `user` or `assistant`", "an episodic memory `User: …` or `ChatGPT: …`"
        ),
        FieldMapping("a message of `system` or `tool`, or without a text", "left out"),
        FieldMapping("`id` of a message", "`key`"),
        FieldMapping("`conversation_id`", "session"),
        FieldMapping("`title`", "`metadata.chat_title`"),
        FieldMapping("`create_time`", "`created_at`"),
        FieldMapping(
            "branches (edited questions, other answers)", "every message, in the order of time"
        ),
    ),
)


# --- Claude ----------------------------------------------------------------------------------------------------------


def _read_claude(source: ImportSource) -> Iterator[DraftResult]:
    people = {
        read_text(user, "uuid"): read_text(user, "full_name", "name")
        for _, user in _read_objects(source, "users.json")
    }
    for location, conversation in _read_file(source):
        messages = conversation.get("chat_messages") if isinstance(conversation, dict) else None
        if isinstance(conversation, MemorandaError):
            yield Unreadable(location, conversation)
            continue
        if not isinstance(messages, list):
            yield Unreadable(
                location, InvalidInput("not a conversation of Claude: it has no `chat_messages`")
            )
            continue
        account = conversation.get("account")
        person = (
            people.get(read_text(account, "uuid") if isinstance(account, dict) else "") or "User"
        )
        for message in messages:
            if (
                isinstance(message, dict)
                and (text := _claude_text(message))
                and read_text(message, "uuid")
            ):
                speaker = person if message.get("sender") == "human" else "Claude"
                yield _draft_message(location, message, conversation, speaker, text, source)
    for location, project in _read_objects(source, "projects.json"):
        yield from _draft_project(location, project)
    for location, memories in _read_objects(source, "memories.json"):
        yield from _draft_claude_memory(location, memories, source)


def _read_objects(source: ImportSource, name: str) -> Iterator[tuple[str, dict[str, object]]]:
    return (
        (location, document)
        for location, document in _read_file(source, name)
        if isinstance(document, dict)
    )


def _claude_text(message: dict[str, object]) -> str:
    return join_blocks(message.get("content")) or read_text(message, "text")


def _draft_project(location: str, project: dict[str, object]) -> Iterator[DraftResult]:
    """Yield the instructions and the documents of a project."""
    name = read_text(project, "name")
    created = read_moment(project, "created_at")
    documents = project.get("docs")
    if text := read_text(project, "prompt_template"):
        yield ImportDraft(
            where=location,
            id=f"{read_text(project, 'uuid')} instructions",
            text=text,
            original={**project, "docs": []},
            kind="procedural",
            created=created,
            updated=read_moment(project, "updated_at"),
            metadata={"project_name": name},
        )
    for document in documents if isinstance(documents, list) else ():
        if (
            isinstance(document, dict)
            and (text := read_text(document, "content"))
            and read_text(document, "uuid")
        ):
            yield ImportDraft(
                where=location,
                id=read_text(document, "uuid"),
                text=text,
                original=document,
                created=read_moment(document, "created_at") or created,
                metadata={"project_name": name, "file_name": read_text(document, "filename")},
            )


def _draft_claude_memory(
    location: str, summary: dict[str, object], source: ImportSource
) -> Iterator[DraftResult]:
    """Yield the summaries that Claude keeps about the user and about each project."""
    account = read_text(summary, "account_uuid")
    projects = summary.get("project_memories")
    texts = {
        "": summary.get("conversations_memory"),
        **(projects if isinstance(projects, dict) else {}),
    }
    for project, text in texts.items():
        if isinstance(text, str) and text.strip():
            yield ImportDraft(
                where=location,
                id=f"memory {account} {project}".strip(),
                text=text,
                original={"account_uuid": account, "project": project, "memory": text},
                created=source.modified,
            )


CLAUDE: Final = Importer(
    name="claude",
    title="Claude",
    recognise=_recogniser(*_CLAUDE),
    read_drafts=_read_claude,
    mapping=(
        FieldMapping(
            "a message of `human`",
            "an episodic memory that begins with the person's name, or `User:`",
        ),
        FieldMapping("a message of `assistant`", "an episodic memory `Claude: …`"),
        FieldMapping("a message without a text", "left out"),
        FieldMapping("`uuid` of a message", "`key`"),
        FieldMapping("`uuid` of the conversation", "session"),
        FieldMapping("`name` of the conversation", "`metadata.chat_title`"),
        FieldMapping("`created_at`", "`created_at`"),
        FieldMapping("projects: `prompt_template`", "a procedural memory"),
        FieldMapping(
            "projects: each of `docs`",
            "a memory with `metadata.project_name` and `metadata.file_name`",
        ),
        FieldMapping("memories: `conversations_memory`, `project_memories`", "a memory each"),
    ),
)
