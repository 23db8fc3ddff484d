"""Turns of agent sessions as drafts of memories, in the same way for all hosts.

A turn is an episodic memory in the project of its session. It begins with its speaker, and is marked with the session,
its number in it and the agent. Keys do not depend on the position of a turn, so a later import of a longer transcript
adds the new turns and changes nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Final

from memoranda.bindings.files.importers.importer import (
    FieldMapping,
    ImportDraft,
    first_moment,
    parse_moment,
)
from memoranda.bindings.files.importers.transcripts import Role, TranscriptTurn
from memoranda.model.instant import Instant

# Characters of the name of a project, of an id and of a title.
_NAME_CHARS: Final = 200
_WINDOWS_PATH: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")
# The rows of the documentation that hold for every host.
COMMON_MAPPING: Final = (
    FieldMapping("a text that a person typed", "an episodic memory `User: …`"),
    FieldMapping("a text of the agent", "an episodic memory that begins with the name of the host"),
    FieldMapping("tool calls, their results, texts of the host and of sub-agents", "left out"),
    FieldMapping("the position of a turn", "`metadata.turn`, from 1"),
    FieldMapping("the host", "agent"),
    FieldMapping("the folder of the session", "scope, by its name"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation of a person with an agent."""

    # The position in the source, for messages.
    where: str
    id: str
    # The time of turns without one.
    created: Instant
    # The name of the folder in which the agent worked; empty if the turns or nobody states it.
    project: str = ""
    title: str = ""
    # True if ids of turns are unique among all sessions; then a copied turn is one memory.
    has_global_ids: bool = False
    # True if a rewritten turn gets another id, so that only its text identifies it.
    has_changing_ids: bool = False


def draft_turns(
    system: str, title: str, session: Session, turns: Iterable[TranscriptTurn]
) -> Iterator[ImportDraft]:
    """Yield the turns of a session as drafts."""
    speakers: dict[Role, str] = {"user": "User", "assistant": title}
    created, project, keys = session.created, session.project, set[str]()
    for number, turn in enumerate(turns, start=1):
        project = project or folder_name(turn.folder)
        created = first_moment(parse_moment(turn.at), created)
        key = _turn_key(session, turn, number)
        if key in keys:
            continue
        keys.add(key)
        metadata: dict[str, Any] = {"turn": number}
        if session.title:
            metadata["chat_title"] = session.title[:_NAME_CHARS]
        yield ImportDraft(
            where=f"{session.where}: turn {number}",
            id=key,
            text=f"{speakers[turn.role]}: {turn.text}",
            original={"role": turn.role, "id": turn.id, "timestamp": turn.at, "cwd": turn.folder},
            scope=project,
            session=session.id[:_NAME_CHARS],
            agent=system,
            kind="episodic",
            created=created,
            metadata=metadata,
        )


def _turn_key(session: Session, turn: TranscriptTurn, number: int) -> str:
    """Return a key that the turn keeps when its transcript grows."""
    if session.has_changing_ids:
        text = f"{turn.role}\x00{turn.text}".encode("utf-8", "surrogatepass")
        return f"{session.id}:{hashlib.sha256(text).hexdigest()[:32]}"
    if turn.id and session.has_global_ids:
        return turn.id
    return f"{session.id}:{turn.id or number}"


def folder_name(folder: str) -> str:
    """Return the name of a folder of any system, by which its project is called; empty for a root or none."""
    path: PurePath = (
        PureWindowsPath(folder) if _WINDOWS_PATH.match(folder) else PurePosixPath(folder)
    )
    return path.name[:_NAME_CHARS]
