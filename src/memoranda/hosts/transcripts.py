"""Transcripts of sessions: what a person typed and what an agent answered, in the forms of several hosts.

A host writes far more than these two. As the person's turn it also writes its own context, files of rules, output of
hooks and commands, results of tools and summaries; as the agent's turn, errors. Each host marks them in its own way:

- Claude Code: a JSON object a line, with flags (`isMeta`, `isSidechain`, `isCompactSummary`, `isApiErrorMessage`); an
  answer that the host made up names the model `<synthetic>`.
- Codex: what was typed is an item of its own (`UserMessage`); any other user message may be the host's. An agent that
  another agent started has a file of its own, in which its orders stand as if a person had typed them.
- Gemini CLI: messages, and `$set` lines that repeat all of them, sometimes with new ids and without the first prompt:
  a turn counts the first time its text is seen. A session that was resumed has two files.
- Cline: one document; what was typed stands in `<user_input>`, and errors have a role for display.

What no flag marks is recognised by its tags: blocks before the typed text are taken off, and the text is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from memoranda.bindings.files.folder import read_whole
from memoranda.encoding.json_text import parse
from memoranda.errors import MemorandaError
from memoranda.hosts.marked_text import without_passage

TRANSCRIPT_BYTES_LIMIT: Final = 64 * 1_048_576
# Files of one session: a resumed session of Gemini CLI has two, resumed again one more.
FILES_LIMIT: Final = 16
Role = Literal["user", "assistant"]
Entry = Mapping[str, Any]

_ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "gemini": "assistant",
    "model": "assistant",
}
# Entries that are nobody's turn.
_FLAGS: Final = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
_DISPLAY_ROLES: Final = ("system", "error", "status")
_MADE_UP: Final = "<synthetic>"
# The name of a file of Gemini CLI ends with the first characters of the session's id.
_GEMINI_FILE: Final = re.compile(r"session-.+-([0-9a-f]{8})\.jsonl")

_SPACE: Final = re.compile(r"\s*")
_TAG: Final = re.compile(r"<([A-Za-z][\w:.-]*)(?:\s[^<>]*)?>")
# Tags of hosts have a mark in their names that those of web pages have not; the others are named here.
_HOST_TAG: Final = re.compile(r"INSTRUCTIONS|task|feedback|\w*[_:-][\w:.-]*")
# Blocks that are the host's even where their end is missing.
_SURE_TAG: Final = re.compile(
    r"(?:command|local-command|bash)-[\w-]+|system-reminder|(?:session|hook|environment|loaded|project)_context"
    r"|hook_prompt|environment_details|user_instructions|INSTRUCTIONS|state_snapshot|ump:memory"
)
# Blocks around what was typed.
_WRAPPERS: Final = frozenset(("user_input", "task", "feedback", "user_message", "user_query"))
_RULES_HEADING: Final = re.compile(r"# AGENTS\.md instructions[^\n]*\n\s*(?=<INSTRUCTIONS>)")


@dataclass(frozen=True, slots=True)
class Turn:
    """A text that one of the two wrote."""

    role: Role
    text: str


def read_turns(path: Path) -> list[Turn]:
    """Return the turns of a session in order; an empty list if there is no transcript. Raises MemorandaError."""
    entries = _session_entries(path)
    if any(entry.get("type") == "session_meta" for entry in entries):
        return list(_codex_turns(entries))
    turns = [turn for entry in entries if (turn := _turn(entry)) is not None]
    is_repeated = any("$set" in entry for entry in entries)
    return list(dict.fromkeys(turns)) if is_repeated else turns


def typed_text(text: str) -> str:
    """Return what a person typed of a text, without what a host and we ourselves put before it."""
    text, typed, at = without_passage(text), [], 0
    while True:
        at = _after_spaces(text, at)
        if heading := _RULES_HEADING.match(text, at):
            at = heading.end()
        tag = _TAG.match(text, at)
        if tag is None or not _HOST_TAG.fullmatch(tag[1]):
            break
        end = _closing(text, tag)
        if end is None:
            at = len(text) if _SURE_TAG.fullmatch(tag[1]) else at
            break
        if tag[1] in _WRAPPERS:
            typed.append(text[tag.end() : end.start()])
        at = end.end()
    return "\n".join(part.strip() for part in (*typed, text[at:]) if part.strip())


def _after_spaces(text: str, at: int) -> int:
    spaces = _SPACE.match(text, at)
    return at if spaces is None else spaces.end()


def _closing(text: str, tag: re.Match[str]) -> re.Match[str] | None:
    """Return the tag that closes a block, which may hold others of its name."""
    depth = 0
    for bracket in re.compile(rf"<(/?){re.escape(tag[1])}(?:\s[^<>]*)?>").finditer(
        text, tag.start()
    ):
        depth += -1 if bracket[1] else 1
        if depth == 0:
            return bracket
    return None


def _session_entries(path: Path) -> list[dict[str, Any]]:
    """Return the entries of all files of a session, the oldest first; nothing else than files is read."""
    name = _GEMINI_FILE.fullmatch(path.name)
    paths = (
        [path]
        if name is None
        else sorted(path.parent.glob(f"session-*-{name[1]}.jsonl"))[-FILES_LIMIT:]
    )
    files = {file: list(_entries(file)) for file in paths if file.is_file()}
    session = _session_id(files.get(path, []))
    return [
        entry for entries in files.values() if _session_id(entries) == session for entry in entries
    ]


def _session_id(entries: list[dict[str, Any]]) -> object:
    return entries[0].get("sessionId") if entries else None


def _entries(file: Path) -> Iterator[dict[str, Any]]:
    """Return the entries of a transcript: one a line, or all in one document."""
    data = read_whole(file, max_bytes=TRANSCRIPT_BYTES_LIMIT)
    document = _parsed(data)
    if isinstance(document, dict) and isinstance(document.get("messages"), list):
        yield from _mappings(document["messages"])
        return
    for line in data.splitlines():
        entry = _parsed(line)
        if isinstance(entry, dict):
            yield entry
            changed = entry.get("$set")
            if isinstance(changed, dict) and isinstance(changed.get("messages"), list):
                yield from _mappings(changed["messages"])


def _mappings(items: Iterable[Any]) -> Iterator[dict[str, Any]]:
    return (item for item in items if isinstance(item, dict))


def _parsed(data: bytes) -> Any:
    try:
        return parse(data, max_bytes=TRANSCRIPT_BYTES_LIMIT)
    except MemorandaError:
        return None


def _turn(entry: Entry) -> Turn | None:
    """Return the turn that an entry is, or that lies in it; None if it is nobody's."""
    if any(entry.get(flag) for flag in _FLAGS):
        return None
    for message in (entry, entry.get("message"), entry.get("payload")):
        if isinstance(message, dict) and (
            role := _ROLES.get(str(message.get("role") or message.get("type")))
        ):
            text = "" if _is_made_up(message) else _text_of(message, role)
            if text:
                return Turn(role, text)
    return None


def _is_made_up(message: Entry) -> bool:
    """Return True for a message that the host wrote in the agent's or the person's place."""
    metadata = message.get("metadata")
    shown_as = metadata.get("displayRole") if isinstance(metadata, dict) else None
    return message.get("model") == _MADE_UP or shown_as in _DISPLAY_ROLES


def _text_of(message: Entry, role: Role) -> str:
    # Gemini CLI keeps a prompt itself beside the one to which a hook added a part.
    content = message.get("displayContent") if role == "user" else None
    texts = list(_texts(content or message.get("content")))
    if role == "user":
        texts = [typed_text(text) for text in texts]
    return "\n".join(text for text in texts if text.strip())


def _texts(content: object) -> Iterator[str]:
    """Return the texts of a content: itself, or those of its parts."""
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text


def _codex_turns(entries: list[dict[str, Any]]) -> Iterator[Turn]:
    """Return the turns of a file of Codex; nothing of an agent that another agent started."""
    payloads = [
        (entry.get("type"), entry["payload"])
        for entry in entries
        if isinstance(entry.get("payload"), dict)
    ]
    if any(
        kind == "session_meta" and payload.get("thread_source", "user") != "user"
        for kind, payload in payloads
    ):
        return
    is_typed_marked = any(
        kind == "event_msg" and _typed_item(payload) is not None for kind, payload in payloads
    )
    for kind, payload in payloads:
        if kind == "event_msg" and (typed := _typed_item(payload)):
            yield Turn("user", typed)
        elif kind == "response_item" and not (payload.get("role") == "user" and is_typed_marked):
            turn = _turn(_without_host_parts(payload))
            if turn is not None:
                yield turn


def _typed_item(payload: Entry) -> str | None:
    """Return what was typed, if an event is that; older releases have the text alone."""
    if payload.get("type") == "user_message":
        return _text_of({"content": payload.get("message")}, "user")
    item = payload.get("item")
    if (
        payload.get("type") == "item_completed"
        and isinstance(item, dict)
        and item.get("type") == "UserMessage"
    ):
        return _text_of(item, "user")
    return None


def _without_host_parts(payload: Entry) -> Entry:
    """Return a message without the parts of which it says that the person did not write them."""
    metadata = payload.get("internal_chat_message_metadata_passthrough")
    marks = metadata.get("content_item_metadata") if isinstance(metadata, dict) else None
    content = payload.get("content")
    if payload.get("role") != "user" or not (isinstance(marks, list) and isinstance(content, list)):
        return payload
    return {
        **payload,
        "content": [part for part, mark in zip(content, marks, strict=False) if _is_persons(mark)],
    }


def _is_persons(mark: object) -> bool:
    origin = mark.get("provenance") if isinstance(mark, dict) else None
    return not isinstance(origin, dict) or origin.get("type") == "user"
