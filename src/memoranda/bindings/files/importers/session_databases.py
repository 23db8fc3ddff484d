"""Sessions that agent hosts keep in SQLite databases: opencode and Cursor.

The database belongs to a program that may be running, so it is opened for reading only. Only what a person typed and
what the agent answered becomes a turn: calls of tools, thoughts and texts that a program added are left out. These
forms are not documented by their makers and change without notice; a row that does not fit is skipped and never stops
the import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    Importer,
    Unreadable,
    first_moment,
    parse_moment,
    read_moment,
    read_object,
    read_text,
)
from memoranda.bindings.files.importers.session_turns import (
    COMMON_MAPPING,
    Session,
    draft_turns,
    folder_name,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.bindings.files.importers.transcripts import Role, TranscriptTurn, typed_text
from memoranda.encoding.json_text import parse
from memoranda.errors import InvalidInput, MemorandaError

_CURSOR_TABLE: Final = "cursorDiskKV"
_CURSOR_ROLES: Final[Mapping[object, Role]] = {1: "user", 2: "assistant"}
_OPENCODE_ROLES: Final[Mapping[object, Role]] = {"user": "user", "assistant": "assistant"}


def _parse_object(value: object) -> dict[str, Any]:
    """Return the JSON object in a column; an empty one for anything else."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    try:
        document = parse(data) if isinstance(data, bytes) else None
    except MemorandaError:
        return {}
    return document if isinstance(document, dict) else {}


# --- opencode --------------------------------------------------------------------------------------------------------


def _recognise_opencode(source: ImportSource) -> float:
    if not source.is_database:
        return 0.0
    tables = source.tables
    has_parts = {"message_id", "data"} <= set(tables.get("part", ()))
    has_messages = {"session_id", "data"} <= set(tables.get("message", ()))
    return 0.96 if has_parts and has_messages and "session" in tables else 0.0


def _read_opencode(source: ImportSource) -> Iterator[DraftResult]:
    sessions = {
        row["id"]: row
        for row in source.read_rows(
            "session", ("id", "parent_id", "directory", "title", "time_created"), "id"
        )
    }
    messages: dict[object, tuple[Role, object]] = {}
    for row in source.read_rows("message", ("id", "data"), "id"):
        fields = _parse_object(row["data"])
        role = _OPENCODE_ROLES.get(fields.get("role"))
        # A summary is written by the host when it compacts the session.
        if role is not None and not fields.get("summary"):
            messages[row["id"]] = role, read_object(fields, "time").get("created")
    parts = source.read_rows("part", ("id", "message_id", "session_id", "data"), "session_id")
    for session_id, rows in groupby(parts, key=lambda row: row.get("session_id")):
        session_row = sessions.get(session_id, {"parent_id": "missing"})
        # The session of a sub-agent has a parent.
        if session_row.get("parent_id") is not None:
            continue
        session = Session(
            where=f"{source.name}: session {session_id}",
            id=str(session_id),
            created=first_moment(parse_moment(session_row.get("time_created")), source.modified),
            project=folder_name(str(session_row.get("directory") or "")),
            title=str(session_row.get("title") or ""),
        )
        sorted_rows = sorted(rows, key=lambda row: str(row["id"]))
        turns = (
            turn for part in sorted_rows if (turn := _opencode_turn(part, messages)) is not None
        )
        yield from draft_turns("opencode", "opencode", session, turns)


def _opencode_turn(
    row: Mapping[str, Any], messages: Mapping[object, tuple[Role, object]]
) -> TranscriptTurn | None:
    """Return the turn of a part; None for tool calls, and for texts that the person did not type."""
    role, at = messages.get(row["message_id"], (None, None))
    fields = _parse_object(row["data"])
    text = read_text(fields, "text")
    if role is None or fields.get("type") != "text" or fields.get("synthetic") or not text:
        return None
    if role == "user":
        # `opencode run` stores its argument between quotation marks.
        is_quoted = len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]
        text = typed_text(text[1:-1] if is_quoted else text)
    return TranscriptTurn(role, text, id=str(row["id"]), at=at) if text.strip() else None


OPENCODE: Final = Importer(
    name="opencode",
    title="opencode",
    recognise=_recognise_opencode,
    read_drafts=_read_opencode,
    mapping=(
        *COMMON_MAPPING,
        FieldMapping("`session.id`", "session"),
        FieldMapping("the session and `part.id`", "`key`"),
        FieldMapping("`time.created` of a message", "`created_at`"),
        FieldMapping("`session.directory`", "scope"),
        FieldMapping("`session.title`", "`metadata.chat_title`"),
    ),
)


# --- Cursor ----------------------------------------------------------------------------------------------------------


def _recognise_cursor(source: ImportSource) -> float:
    if not source.is_database:
        return 0.0
    return 0.96 if {"key", "value"} <= set(source.tables.get(_CURSOR_TABLE, ())) else 0.0


def _read_cursor(source: ImportSource) -> Iterator[DraftResult]:
    for row in source.read_rows(
        _CURSOR_TABLE, ("key", "value"), "key", beginning=("key", "composerData:")
    ):
        composer = str(row["key"]).partition(":")[2]
        fields = _parse_object(row["value"])
        if not fields:
            if row["value"] is not None:
                where = f"{source.name}: chat {composer}"
                yield Unreadable(where, InvalidInput("the chat is not JSON"))
            continue
        session = Session(
            where=f"{source.name}: chat {composer}",
            id=composer,
            created=first_moment(read_moment(fields, "createdAt"), source.modified),
            title=read_text(fields, "name"),
        )
        turns = _read_cursor_turns(source, composer, fields)
        yield from draft_turns("cursor", "Cursor", session, turns)


def _read_cursor_turns(
    source: ImportSource, composer: str, fields: Mapping[str, Any]
) -> Iterator[TranscriptTurn]:
    """Yield the turns of a chat: they are in it, or in rows of their own that it lists in order."""
    conversation = fields.get("conversation")
    headers = fields.get("fullConversationHeadersOnly")
    bubbles: list[dict[str, Any]] = (
        [bubble for bubble in conversation if isinstance(bubble, dict)]
        if isinstance(conversation, list)
        else []
    )
    if not bubbles and isinstance(headers, list):
        beginning = f"bubbleId:{composer}:"
        rows = source.read_rows(
            _CURSOR_TABLE, ("key", "value"), "key", beginning=("key", beginning)
        )
        documents = {str(row["key"])[len(beginning) :]: _parse_object(row["value"]) for row in rows}
        names = [read_text(header, "bubbleId") for header in headers if isinstance(header, dict)]
        bubbles = [{"bubbleId": name, **documents[name]} for name in names if name in documents]
    for bubble in bubbles:
        role, text = _CURSOR_ROLES.get(bubble.get("type")), read_text(bubble, "text")
        if role == "user":
            text = typed_text(text)
        if role is not None and text.strip():
            yield TranscriptTurn(
                role, text, id=read_text(bubble, "bubbleId"), at=bubble.get("createdAt")
            )


CURSOR: Final = Importer(
    name="cursor",
    title="Cursor",
    recognise=_recognise_cursor,
    read_drafts=_read_cursor,
    mapping=(
        *COMMON_MAPPING,
        FieldMapping("the id of a chat", "session"),
        FieldMapping("the chat and `bubbleId`", "`key`"),
        FieldMapping("`createdAt` of a turn or of the chat", "`created_at`"),
        FieldMapping("`name`", "`metadata.chat_title`"),
    ),
)
