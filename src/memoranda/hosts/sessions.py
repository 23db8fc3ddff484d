"""Sessions announced by the hooks of a host: a context for the agent at the start, one memory at the end.

Transcripts contain untrusted text. No model is used: the memory of a session consists of the prompts of the person and
the last answer, each shortened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memoranda.app import Memoranda
from memoranda.bindings.files.folder import read_file
from memoranda.bindings.files.importers.transcripts import TRANSCRIPT_BYTES_LIMIT, read_turns
from memoranda.hosts.source_turns import SourceTurn
from memoranda.service.ump.session_start import (
    CANDIDATES,
    CONTEXT_HEAD,
    GENERAL_KINDS,
    MEMORY_CHARS,
    SESSION_TAG,
    SESSIONS,
    choose_for_session,
    context_text,
)
from memoranda.standards.oams.memory import AGENT_KEY, KIND_KEY, SESSION_KEY
from memoranda.standards.oams.namespace import namespace_of

# In the memory of a session: prompts, characters of each prompt and of the answer; characters of a name.
_PROMPTS: Final = 12
_PROMPT_CHARS: Final = 300
_ANSWER_CHARS: Final = 1200
_NAME_CHARS: Final = 200
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSession:
    """A session as described by the input of a hook: its host, id, folder and transcript."""

    host: str
    id: str
    folder: Path
    transcript: Path | None
    # True if the agent works because of a hook that ran before.
    is_continued: bool = False

    @classmethod
    def from_hook_input(cls, host: str, document: object, *, folder: Path) -> HostSession:
        """Parse the JSON input of a hook; missing or invalid fields are ignored."""
        fields: Mapping[str, object] = document if isinstance(document, dict) else {}
        # VS Code also runs the hooks of Claude Code; it is recognised by the spelling of this field.
        is_vscode = host == "claude-code" and "hookEventName" in fields
        path, folder_name = fields.get("transcript_path"), fields.get("cwd")
        return cls(
            host="vscode" if is_vscode else host,
            id=str(fields.get("session_id") or fields.get("sessionId") or "")[:_NAME_CHARS],
            folder=Path(folder_name) if isinstance(folder_name, str) and folder_name else folder,
            transcript=Path(path).expanduser() if isinstance(path, str) and path else None,
            is_continued=bool(fields.get("stop_hook_active")),
        )

    @property
    def project(self) -> str | None:
        """The name of the session's folder, or of the repository that holds it."""
        folders = (self.folder, *self.folder.parents)
        root = next((folder for folder in folders if (folder / ".git").exists()), self.folder)
        return root.name[:_NAME_CHARS] or None


def build_context(m: Memoranda, session: HostSession) -> str:
    """Return the text that is shown to an agent when a session begins; empty without memories."""
    project = session.project
    latest = m.list(project=project, limit=CANDIDATES) if project is not None else ()
    sessions = m.list(project=project, tags=[SESSION_TAG], limit=SESSIONS) if latest else ()
    general = m.list(kind=list(GENERAL_KINDS), limit=CANDIDATES)
    candidates = choose_for_session(
        [memory.record for memory in latest],
        [memory.record for memory in sessions],
        [memory.record for memory in general],
    )
    records = [candidate.record for candidate in candidates if not candidate.objection]
    block = m.ump.framed(records, max_chars=MEMORY_CHARS).text if records else ""
    return context_text(block, project)


def has_context(session: HostSession) -> bool:
    """Return True if the transcript shows that the agent was given the context already."""
    path = session.transcript
    if path is None or not path.is_file():
        return False
    return CONTEXT_HEAD.encode() in read_file(path, max_bytes=TRANSCRIPT_BYTES_LIMIT)


def remember_session(m: Memoranda, session: HostSession) -> str | None:
    """Remember the prompts of a session and its last answer; the same session again is its next version."""
    text = summarize_session(session)
    if text is None or not session.id:
        return None
    m.oams.store(
        f"sessions/{session.host}/{session.id}",
        text,
        namespace=namespace_of(session.project or "", m.owner),
        tags=[SESSION_TAG],
        metadata={KIND_KEY: "episodic", AGENT_KEY: session.host, SESSION_KEY: session.id},
    )
    return text


def source_turns(session: HostSession) -> list[SourceTurn]:
    """Return the turns of the person in a session, with their positions."""
    turns = read_turns(session.transcript) if session.transcript is not None else []
    return [
        SourceTurn(
            text=turn.text,
            agent=session.host,
            session=session.id,
            id=turn.id or str(number),
            project=session.project or "",
        )
        for number, turn in enumerate(turns, start=1)
        if turn.role == "user"
    ]


def summarize_session(session: HostSession) -> str | None:
    """Return a session in a few lines; None if it has no prompt."""
    turns = read_turns(session.transcript) if session.transcript is not None else []
    prompts = [_shorten(turn.text, _PROMPT_CHARS) for turn in turns if turn.role == "user"]
    if not prompts:
        return None
    answers = [turn.text for turn in turns if turn.role == "assistant"]
    selected_lines = (
        prompts if len(prompts) <= _PROMPTS else [*prompts[:2], "…", *prompts[2 - _PROMPTS :]]
    )
    project = f" in {session.project}" if session.project else ""
    lines = [
        f"A session with {session.host}{project}. What was asked:",
        *(f"- {prompt}" for prompt in selected_lines),
    ]
    if answers:
        lines.append(f"The last answer: {_shorten(answers[-1], _ANSWER_CHARS)}")
    return "\n".join(lines)


def _shorten(text: str, limit: int) -> str:
    plain_text = _SPACES.sub(" ", text).strip()
    return plain_text if len(plain_text) <= limit else plain_text[: limit - 1].rstrip() + "…"
