"""Parsing of session transcripts of several hosts: the texts that a person typed, and the answers of the agent.

Hosts write much more. In the turns of the person they also put their own context, rule files, output of hooks and
commands, tool results and summaries; in the turns of the agent, errors. Each host marks these in its own way:

- Claude Code: one JSON object per line, with flags (`isMeta`, `isSidechain`, `isCompactSummary`,
  `isApiErrorMessage`); answers written by the host have the model `<synthetic>`.
- Codex: typed text is a separate item (`UserMessage`); other user messages may be written by the host. A sub-agent has
  a file of its own, in which its orders look like typed text.
- Gemini CLI: messages, and `$set` lines that repeat all messages, sometimes with new ids and without the first prompt;
  so only the first occurrence of a text counts. A resumed session has two files.
- Cline: one document; typed text is inside `<user_input>`, and errors have a display role.

Text without a flag is recognised by its tags: blocks before the typed text are removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from memoranda.bindings.files.folder import read_file
from memoranda.encoding.json_text import parse
from memoranda.encoding.passages import REQUEST_MARK, remove_passages
from memoranda.errors import MemorandaError

# Bytes of a transcript; long sessions with tool results reach tens of megabytes.
TRANSCRIPT_BYTES_LIMIT: Final = 64 * 1_048_576
# Files of one session: Gemini CLI writes one more each time that a session is resumed.
GEMINI_FILES_LIMIT: Final = 16
Role = Literal["user", "assistant"]
Entry = Mapping[str, object]

_ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "gemini": "assistant",
    "model": "assistant",
}
# Flags of entries that are no turn of the person or the agent.
_FLAGS: Final = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
_DISPLAY_ROLES: Final = ("system", "error", "status")
_MADE_UP: Final = "<synthetic>"
# The name of a file of Gemini CLI ends with the first characters of the session's id.
GEMINI_FILE: Final = re.compile(r"session-.+-([0-9a-f]{8})\.jsonl")

_SPACE: Final = re.compile(r"\s*")
_TAG: Final = re.compile(r"<([A-Za-z][\w:.-]*)(?:\s[^<>]*)?>")
# Tags of hosts: those with a separator in their name, unlike HTML tags, and the exceptions listed here.
_HOST_TAG: Final = re.compile(r"INSTRUCTIONS|task|feedback|[^\W_]*[_:-][\w:.-]*")
# Tags of blocks that belong to the host even if the closing tag is missing.
_SURE_TAG: Final = re.compile(
    r"(?:command|local-command|bash)-[\w-]+|system-reminder|(?:session|hook|environment|loaded|project)_context"
    r"|hook_prompt|environment_details|user_instructions|INSTRUCTIONS|state_snapshot|ump:memory"
)
# Tags of blocks that contain typed text.
_WRAPPERS: Final = frozenset(("user_input", "task", "feedback", "user_message", "user_query"))
_RULES_HEADING: Final = re.compile(r"# AGENTS\.md instructions[^\n]*\n\s*(?=<INSTRUCTIONS>)")


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """A text written by the person or the agent; equal to another with the same role and text."""

    role: Role
    text: str
    # The id and the time in the file, and the folder in which the agent worked, if the host states them.
    id: str = field(default="", compare=False)
    at: object = field(default=None, compare=False)
    folder: str = field(default="", compare=False)


def read_turns(path: Path) -> list[TranscriptTurn]:
    """Return the turns of a session in order; an empty list if there is no transcript. Raises MemorandaError."""
    entries = _session_entries(path)
    if any(entry.get("type") == "session_meta" for entry in entries):
        return list(read_codex_turns(entries))
    turns = [turn for entry in entries if (turn := read_turn(entry)) is not None]
    is_repeated = any("$set" in entry for entry in entries)
    return list(dict.fromkeys(turns)) if is_repeated else turns


def typed_text(text: str) -> str:
    """Return the typed part of a text, without the blocks that the host or we added before it."""
    if text.lstrip().startswith(REQUEST_MARK):
        return ""
    text, typed, at = remove_passages(text), [], 0
    while True:
        at = _skip_spaces(text, at)
        if heading := _RULES_HEADING.match(text, at):
            at = heading.end()
        tag = _TAG.match(text, at)
        if tag is None or not _HOST_TAG.fullmatch(tag[1]):
            break
        end = _find_closing_tag(text, tag)
        if end is None:
            at = len(text) if _SURE_TAG.fullmatch(tag[1]) else at
            break
        if tag[1] in _WRAPPERS:
            typed.append(text[tag.end() : end.start()])
        at = end.end()
    return "\n".join(part.strip() for part in (*typed, text[at:]) if part.strip())


def _skip_spaces(text: str, at: int) -> int:
    spaces = _SPACE.match(text, at)
    return at if spaces is None else spaces.end()


def _find_closing_tag(text: str, tag: re.Match[str]) -> re.Match[str] | None:
    """Return the closing tag of a block, which may contain blocks with the same name."""
    depth = 0
    for bracket in re.compile(rf"<(/?){re.escape(tag[1])}(?:\s[^<>]*)?>").finditer(
        text, tag.start()
    ):
        depth += -1 if bracket[1] else 1
        if depth == 0:
            return bracket
    return None


def _session_entries(path: Path) -> list[dict[str, object]]:
    """Return the entries of all files of a session, the oldest first; paths that are no files are skipped."""
    name = GEMINI_FILE.fullmatch(path.name)
    paths = (
        [path]
        if name is None
        else sorted(path.parent.glob(f"session-*-{name[1]}.jsonl"))[-GEMINI_FILES_LIMIT:]
    )
    files = {file: list(_read_entries(file)) for file in paths if file.is_file()}
    session = _session_id(files.get(path, []))
    return [
        entry for entries in files.values() if _session_id(entries) == session for entry in entries
    ]


def _session_id(entries: list[dict[str, object]]) -> object:
    return entries[0].get("sessionId") if entries else None


def _read_entries(file: Path) -> Iterator[dict[str, object]]:
    """Return the entries of a transcript: one a line, or all in one document."""
    data = read_file(file, max_bytes=TRANSCRIPT_BYTES_LIMIT)
    document = _parse_or_none(data)
    if isinstance(document, dict) and isinstance(document.get("messages"), list):
        yield from _mappings(document["messages"])
        return
    for line in data.splitlines():
        entry = _parse_or_none(line)
        if isinstance(entry, dict):
            yield entry
            changes = entry.get("$set")
            if isinstance(changes, dict) and isinstance(changes.get("messages"), list):
                yield from _mappings(changes["messages"])


def _mappings(items: Iterable[object]) -> Iterator[dict[str, object]]:
    return (item for item in items if isinstance(item, dict))


def _parse_or_none(data: bytes) -> object:
    try:
        return parse(data, max_bytes=TRANSCRIPT_BYTES_LIMIT)
    except MemorandaError:
        return None


def read_turn(entry: Entry) -> TranscriptTurn | None:
    """Return the turn that an entry is or contains; None if there is none."""
    if any(entry.get(flag) for flag in _FLAGS):
        return None
    for message in (entry, entry.get("message"), entry.get("payload")):
        if isinstance(message, dict) and (
            role := _ROLES.get(str(message.get("role") or message.get("type")))
        ):
            text = "" if _is_written_by_host(message) else _message_text(message, role)
            if text:
                return TranscriptTurn(
                    role,
                    text,
                    id=_text_in(entry, "uuid", "id"),
                    at=entry.get("timestamp", entry.get("ts")),
                    folder=_text_in(entry, "cwd"),
                )
    return None


def _text_in(entry: Entry, *names: str) -> str:
    """Return the first of some fields that is a text; else an empty text."""
    return next((value for name in names if isinstance(value := entry.get(name), str)), "")


def _is_written_by_host(message: Entry) -> bool:
    """Return True for a message that the host wrote in the agent's or the person's place."""
    metadata = message.get("metadata")
    shown_as = metadata.get("displayRole") if isinstance(metadata, dict) else None
    return message.get("model") == _MADE_UP or shown_as in _DISPLAY_ROLES


def _message_text(message: Entry, role: Role) -> str:
    """Return the text of a message; of the person only the typed text."""
    # Gemini CLI stores the typed prompt separately from the prompt that a hook extended.
    content = message.get("displayContent") if role == "user" else None
    texts = list(_content_texts(content or message.get("content")))
    if role == "user":
        texts = [typed_text(text) for text in texts]
    return "\n".join(text for text in texts if text.strip())


def _content_texts(content: object) -> Iterator[str]:
    """Yield the texts of a content: the content itself, or its parts."""
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text


def read_codex_turns(entries: list[dict[str, object]]) -> Iterator[TranscriptTurn]:
    """Yield the turns of a Codex file; none for a sub-agent."""
    items = [
        (entry, payload) for entry in entries if isinstance(payload := entry.get("payload"), dict)
    ]
    headers = [payload for entry, payload in items if entry.get("type") == "session_meta"]
    if any(header.get("thread_source", "user") != "user" for header in headers):
        return
    is_typed_marked = any(
        entry.get("type") == "event_msg" and _typed_text_of_event(payload) is not None
        for entry, payload in items
    )
    folder = "" if not headers else _text_in(headers[0], "cwd")
    for entry, payload in items:
        turn = _read_codex_turn(entry.get("type"), payload, is_typed_marked=is_typed_marked)
        if turn is not None:
            yield replace(turn, at=entry.get("timestamp"), folder=folder)


def _read_codex_turn(
    kind: object, payload: Entry, *, is_typed_marked: bool
) -> TranscriptTurn | None:
    """Return the turn of an item; None if it has none. `is_typed_marked`: typed text has items of its own."""
    if kind == "event_msg" and (typed := _typed_text_of_event(payload)):
        item = payload.get("item")
        return TranscriptTurn(
            "user", typed, id=_text_in(item, "id") if isinstance(item, dict) else ""
        )
    if kind == "response_item" and not (payload.get("role") == "user" and is_typed_marked):
        return read_turn(_without_host_parts(payload))
    return None


def _typed_text_of_event(payload: Entry) -> str | None:
    """Return the typed text of an event; None for other events. Older releases write only the text."""
    if payload.get("type") == "user_message":
        return _message_text({"content": payload.get("message")}, "user")
    item = payload.get("item")
    if (
        payload.get("type") == "item_completed"
        and isinstance(item, dict)
        and item.get("type") == "UserMessage"
    ):
        return _message_text(item, "user")
    return None


def _without_host_parts(payload: Entry) -> Entry:
    """Return a message without the parts that its metadata attributes to the host."""
    metadata = payload.get("internal_chat_message_metadata_passthrough")
    marks = metadata.get("content_item_metadata") if isinstance(metadata, dict) else None
    content = payload.get("content")
    if payload.get("role") != "user" or not (isinstance(marks, list) and isinstance(content, list)):
        return payload
    return {
        **payload,
        "content": [
            part for part, mark in zip(content, marks, strict=False) if _is_from_person(mark)
        ],
    }


def _is_from_person(mark: object) -> bool:
    origin = mark.get("provenance") if isinstance(mark, dict) else None
    return not isinstance(origin, dict) or origin.get("type") == "user"
