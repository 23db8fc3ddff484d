"""Session transcripts that agent hosts write as JSON: Claude Code, Codex, Gemini CLI, Cline, Continue and VS Code.

A source is one transcript, or a folder with those of a host. They are read one after the other, and of each only the
turns are held. Lines of a transcript that are too long are no turns, and an unfinished last line belongs to a session
that goes on: both are passed over. A malformed line elsewhere is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    Importer,
    Unreadable,
    first_moment,
    parse_moment,
    read_moment,
    read_text,
)
from memoranda.bindings.files.importers.session_turns import (
    COMMON_MAPPING,
    Session,
    draft_turns,
    folder_name,
)
from memoranda.bindings.files.importers.source import MAX_DOCUMENT_BYTES, ImportSource
from memoranda.bindings.files.importers.transcripts import (
    GEMINI_FILE,
    GEMINI_FILES_LIMIT,
    TRANSCRIPT_BYTES_LIMIT,
    TranscriptTurn,
    read_codex_turns,
    read_turn,
)
from memoranda.bindings.files.importers.vscode_chats import read_chat, read_chat_turns
from memoranda.encoding.json_text import parse
from memoranda.errors import InvalidInput, MemorandaError

# Transcripts of a folder that are examined to recognise its host.
_EXAMINED: Final = 3
# Digits of the hash that Gemini CLI names a folder by if the project has no name.
_HASHED: Final = re.compile(r"[0-9a-f]{64}")
Entry = dict[str, Any]
SessionTurns = tuple[Session, Iterable[TranscriptTurn]]


class _Host(NamedTuple):
    """The transcripts of one host."""

    name: str
    title: str
    # The names of its transcripts within a folder.
    files: re.Pattern[str]
    # Texts that the first bytes of a transcript contain.
    marks: tuple[bytes, ...]
    # Yields the sessions of some files; of a file that cannot be read its error.
    read_turns: Callable[[ImportSource, list[str | None]], Iterator[SessionTurns | Unreadable]]
    mapping: tuple[FieldMapping, ...]

    def importer(self) -> Importer:
        """Return the importer of this host."""
        return Importer(
            name=self.name,
            title=self.title,
            recognise=self.recognise,
            read_drafts=self.read_drafts,
            mapping=(*COMMON_MAPPING, *self.mapping),
        )

    def recognise(self, source: ImportSource) -> float:
        """Return the probability that a source has transcripts of this host."""
        if source.is_folder or source.is_archive:
            names = islice(self._members(source), _EXAMINED)
            heads = [source.member_head(name) for name in names]
        else:
            heads = [source.head] if self.files.search(str(_path_of(source, None))) else []
        return 0.96 if any(all(mark in head for mark in self.marks) for head in heads) else 0.0

    def _members(self, source: ImportSource) -> Iterator[str]:
        return (name for name in source.members if self.files.search(str(_path_of(source, name))))

    def read_drafts(self, source: ImportSource) -> Iterator[DraftResult]:
        """Yield the turns of all sessions; a turn that a host copied into another session only once."""
        is_single = not (source.is_folder or source.is_archive)
        members: list[str | None] = [None] if is_single else [*self._members(source)]
        seen_ids: set[int] = set()
        for result in self.read_turns(source, members):
            if isinstance(result, Unreadable):
                yield result
                continue
            session, turns = result
            try:
                for draft in draft_turns(self.name, self.title, session, turns):
                    if hash(draft.id) not in seen_ids:
                        seen_ids.add(hash(draft.id))
                        yield draft
            except MemorandaError as error:
                yield Unreadable(session.where, error)


# --- lines and documents ---------------------------------------------------------------------------------------------


def _read_entries(source: ImportSource, member: str | None) -> Iterator[Entry]:
    """Yield the objects on the lines of a transcript. Raises InvalidInput for a malformed line within it."""
    malformed = 0
    with source.open_member(member) as file:
        number = 0
        while line := file.readline(MAX_DOCUMENT_BYTES + 1):
            number += 1
            if malformed:
                raise InvalidInput(f"line {malformed} is not JSON")
            if len(line) > MAX_DOCUMENT_BYTES:
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_DOCUMENT_BYTES + 1)
                continue
            try:
                entry = parse(line, max_bytes=MAX_DOCUMENT_BYTES) if line.strip() else None
            except MemorandaError:
                malformed = number
                continue
            if isinstance(entry, dict):
                yield entry


def _read_document(source: ImportSource, member: str | None) -> Any:
    """Return a transcript that is one document. Raises TooLarge, InvalidInput."""
    data = source.read_bytes(member, max_bytes=TRANSCRIPT_BYTES_LIMIT)
    return parse(data.removeprefix(b"\xef\xbb\xbf"), max_bytes=TRANSCRIPT_BYTES_LIMIT)


def _read_beside(source: ImportSource, member: str | None, name: str) -> Entry:
    """Return the document beside a transcript; an empty one if it is missing or cannot be read."""
    try:
        if member is None:
            neighbour = ImportSource(source.path.with_name(name))
            document = _read_document(neighbour, None)
        else:
            document = _read_document(source, str(PurePosixPath(member).with_name(name)))
    except (MemorandaError, OSError, KeyError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _path_of(source: ImportSource, member: str | None) -> PurePosixPath:
    return PurePosixPath((source.path / (member or "")).absolute().as_posix())


def _read_each(
    source: ImportSource,
    members: list[str | None],
    read_session: Callable[[ImportSource, str | None], SessionTurns | None],
) -> Iterator[SessionTurns | Unreadable]:
    """Yield the session of each file, or the error of the file."""
    for member in members:
        try:
            session = read_session(source, member)
        except MemorandaError as error:
            yield Unreadable(source.where(member), error)
            continue
        if session is not None:
            yield session


# --- Claude Code -----------------------------------------------------------------------------------------------------


def _read_claude(
    source: ImportSource, members: list[str | None]
) -> Iterator[SessionTurns | Unreadable]:
    return _read_each(source, members, _read_claude_file)


def _read_claude_file(source: ImportSource, member: str | None) -> SessionTurns:
    session = Session(
        where=source.where(member),
        id=_path_of(source, member).stem,
        created=source.modified_at(member),
        has_global_ids=True,
    )
    return session, _turns_of(_read_entries(source, member))


def _turns_of(entries: Iterable[Entry]) -> Iterator[TranscriptTurn]:
    return (turn for entry in entries if (turn := read_turn(entry)) is not None)


# --- Codex -----------------------------------------------------------------------------------------------------------


def _read_codex(
    source: ImportSource, members: list[str | None]
) -> Iterator[SessionTurns | Unreadable]:
    return _read_each(source, members, _read_codex_file)


def _read_codex_file(source: ImportSource, member: str | None) -> SessionTurns:
    entries = [entry for entry in _read_entries(source, member) if _may_be_codex_turn(entry)]
    headers = (entry["payload"] for entry in entries if entry.get("type") == "session_meta")
    header: Entry = next(headers, {})
    session = Session(
        where=source.where(member),
        id=read_text(header, "id") or _path_of(source, member).stem,
        created=first_moment(read_moment(header, "timestamp"), source.modified_at(member)),
        project=folder_name(read_text(header, "cwd")),
    )
    return session, read_codex_turns(entries)


def _may_be_codex_turn(entry: Entry) -> bool:
    """Return True for the items that turns are read from; tool calls and their results are most of a file."""
    payload = entry.get("payload")
    if not isinstance(payload, dict):
        return False
    item = payload.get("item")
    is_typed = isinstance(item, dict) and item.get("type") == "UserMessage"
    return (
        entry.get("type") == "session_meta"
        or payload.get("type") in ("message", "user_message")
        or is_typed
    )


# --- Gemini CLI ------------------------------------------------------------------------------------------------------


def _read_gemini(
    source: ImportSource, members: list[str | None]
) -> Iterator[SessionTurns | Unreadable]:
    """Yield the sessions, each of all its files: a text that a later file repeats is one turn."""
    groups: dict[tuple[str, str], list[str | None]] = {}
    if members == [None] and (name := GEMINI_FILE.fullmatch(source.path.name)):
        # A single file stands for its session.
        folder = source.path.parent
        paths = sorted(folder.glob(f"session-*-{name[1]}.jsonl"))[-GEMINI_FILES_LIMIT:]
        source, members = ImportSource(folder), [path.name for path in paths]
    for member in members:
        try:
            header = next(_read_gemini_entries(source, member), {})
        except MemorandaError as error:
            yield Unreadable(source.where(member), error)
            continue
        key = (str(_path_of(source, member).parent), read_text(header, "sessionId"))
        groups.setdefault(key, []).append(member)
    for (_, session_id), paths_of_session in groups.items():
        files = paths_of_session[:GEMINI_FILES_LIMIT]
        path = _path_of(source, files[0])
        project = path.parent.parent.name if path.parent.name == "chats" else ""
        session = Session(
            where=source.where(files[0]),
            id=session_id or path.stem,
            created=source.modified_at(files[0]),
            project="" if _HASHED.fullmatch(project) else project,
            has_changing_ids=True,
        )
        entries = (entry for file in files for entry in _read_gemini_entries(source, file))
        yield session, _turns_of(entries)


def _read_gemini_entries(source: ImportSource, member: str | None) -> Iterator[Entry]:
    """Yield the header and the messages of a file: lines, some of which set all messages, or one document."""
    if _path_of(source, member).suffix == ".json":
        document = _read_document(source, member)
        yield from _messages_of(document)
        return
    for entry in _read_entries(source, member):
        yield entry
        changes = entry.get("$set")
        if isinstance(changes, dict):
            yield from list(_messages_of(changes))[1:]


def _messages_of(document: object) -> Iterator[Entry]:
    """Yield a document without its messages, and then its messages."""
    fields = document if isinstance(document, dict) else {}
    yield {name: value for name, value in fields.items() if name != "messages"}
    messages = fields.get("messages")
    yield from (
        message
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, dict)
    )


# --- Cline -----------------------------------------------------------------------------------------------------------


def _read_cline(
    source: ImportSource, members: list[str | None]
) -> Iterator[SessionTurns | Unreadable]:
    return _read_each(source, members, _read_cline_file)


def _read_cline_file(source: ImportSource, member: str | None) -> SessionTurns:
    document, path = _read_document(source, member), _path_of(source, member)
    if isinstance(document, list):
        # The extension for VS Code: the folder is named by the time at which the task began.
        task = path.parent.name
        fields: Entry = {"sessionId": task, "messages": document}
        header: Entry = {"started_at": int(task) if task.isdecimal() and len(task) < 16 else None}
    else:
        fields = document if isinstance(document, dict) else {}
        header = _read_beside(source, member, path.name.removesuffix(".messages.json") + ".json")
    _, *messages = _messages_of(fields)
    session = Session(
        where=source.where(member),
        id=read_text(fields, "sessionId") or path.stem,
        created=first_moment(parse_moment(header.get("started_at")), source.modified_at(member)),
        project=folder_name(read_text(header, "cwd", "workspace_root")),
    )
    return session, _turns_of(messages)


# --- Continue --------------------------------------------------------------------------------------------------------


def _read_continue(
    source: ImportSource, members: list[str | None]
) -> Iterator[SessionTurns | Unreadable]:
    return _read_each(source, members, _read_continue_file)


def _read_continue_file(source: ImportSource, member: str | None) -> SessionTurns | None:
    document = _read_document(source, member)
    if not isinstance(document, dict) or not isinstance(document.get("history"), list):
        return None
    index = _read_beside_list(source, member, "sessions.json")
    session_id = read_text(document, "sessionId") or _path_of(source, member).stem
    header = next((entry for entry in index if entry.get("sessionId") == session_id), {})
    dated = header.get("dateCreated")
    created = parse_moment(int(dated) if isinstance(dated, str) and dated.isdecimal() else dated)
    session = Session(
        where=source.where(member),
        id=session_id,
        created=first_moment(created, source.modified_at(member)),
        project=folder_name(_path_of_uri(read_text(document, "workspaceDirectory"))),
        title=read_text(document, "title"),
    )
    return session, _turns_of(item for item in document["history"] if isinstance(item, dict))


def _read_beside_list(source: ImportSource, member: str | None, name: str) -> list[Entry]:
    """Return the objects of the list beside a transcript; none if it is missing or cannot be read."""
    try:
        if member is None:
            items = _read_document(ImportSource(source.path.with_name(name)), None)
        else:
            items = _read_document(source, str(PurePosixPath(member).with_name(name)))
    except (MemorandaError, OSError, KeyError, ValueError):
        return []
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _path_of_uri(uri: str) -> str:
    """Return the path that a `file:` URI names, or the text itself."""
    if not uri.startswith("file:"):
        return uri
    try:
        return unquote(urlsplit(uri).path)
    except ValueError:
        return ""


# --- VS Code ---------------------------------------------------------------------------------------------------------


def _read_vscode(
    source: ImportSource, members: list[str | None]
) -> Iterator[SessionTurns | Unreadable]:
    return _read_each(source, members, _read_vscode_file)


def _read_vscode_file(source: ImportSource, member: str | None) -> SessionTurns | None:
    path = _path_of(source, member)
    is_journal = path.suffix == ".jsonl"
    document = (
        read_chat(_read_entries(source, member)) if is_journal else _read_document(source, member)
    )
    if not isinstance(document, dict):
        return None
    session = Session(
        where=source.where(member),
        id=read_text(document, "sessionId") or path.stem,
        created=first_moment(read_moment(document, "creationDate"), source.modified_at(member)),
        project=_vscode_project(source, member),
        title=read_text(document, "customTitle"),
    )
    return session, read_chat_turns(document)


def _vscode_project(source: ImportSource, member: str | None) -> str:
    """Return the project of the workspace in whose folder a chat lies; empty if it states none."""
    chats = _path_of(source, member).parent
    if chats.name != "chatSessions":
        return ""
    if source.is_archive:
        workspace = _read_beside(source, str(PurePosixPath(member or "").parent), "workspace.json")
    else:
        workspace = _read_beside(ImportSource(Path(chats)), None, "workspace.json")
    return folder_name(_path_of_uri(read_text(workspace, "folder")))


CLAUDE_CODE: Final = _Host(
    "claude-code",
    "Claude Code",
    re.compile(r"^(?!.*/subagents/).*\.jsonl$"),
    (b'"sessionId"', b'"parentUuid"'),
    _read_claude,
    (
        FieldMapping("`uuid`", "`key`"),
        FieldMapping("the name of the file", "session"),
        FieldMapping("`timestamp`", "`created_at`"),
        FieldMapping("`cwd`", "scope"),
    ),
).importer()
CODEX: Final = _Host(
    "codex",
    "Codex CLI",
    re.compile(r"\.jsonl$"),
    (b'"session_meta"', b'"payload"'),
    _read_codex,
    (
        FieldMapping("`id` of `session_meta`", "session"),
        FieldMapping("the session and `id` of an item, or its position", "`key`"),
        FieldMapping("`timestamp`", "`created_at`"),
    ),
).importer()
GEMINI: Final = _Host(
    "gemini",
    "Gemini CLI",
    re.compile(r"/session-[^/]*\.jsonl?$"),
    (b'"projectHash"', b'"sessionId"'),
    _read_gemini,
    (
        FieldMapping("`sessionId`", "session"),
        FieldMapping("the session and a digest of the text", "`key`: the host changes ids"),
        FieldMapping("`timestamp`", "`created_at`"),
        FieldMapping("the folder above `chats`", "scope"),
    ),
).importer()
CLINE: Final = _Host(
    "cline",
    "Cline",
    re.compile(r"\.messages\.json$|/api_conversation_history\.json$"),
    (b'"role"', b'"content"'),
    _read_cline,
    (
        FieldMapping("`sessionId`, or the folder of the task", "session"),
        FieldMapping("the session and `id`, or the position", "`key`"),
        FieldMapping("`ts`", "`created_at`"),
    ),
).importer()
CONTINUE: Final = _Host(
    "continue",
    "Continue",
    re.compile(r"/(?!sessions\.json$)[^/]+\.json$"),
    (b'"history"', b'"sessionId"', b'"workspaceDirectory"'),
    _read_continue,
    (
        FieldMapping("`sessionId`", "session"),
        FieldMapping("the session and the position", "`key`"),
        FieldMapping("`dateCreated` in `sessions.json`", "`created_at`"),
        FieldMapping("`title`", "`metadata.chat_title`"),
    ),
).importer()
VSCODE: Final = _Host(
    "vscode",
    "VS Code",
    re.compile(r"/(?:chatSessions|emptyWindowChatSessions)/[^/]+\.jsonl?$"),
    (b'"requests"', b'"sessionId"', b'"creationDate"'),
    _read_vscode,
    (
        FieldMapping("`sessionId`", "session"),
        FieldMapping("the session and `requestId`", "`key`"),
        FieldMapping("`timestamp` of a request", "`created_at`"),
        FieldMapping("`folder` in `workspace.json`", "scope"),
        FieldMapping("`customTitle`", "`metadata.chat_title`"),
    ),
).importer()
