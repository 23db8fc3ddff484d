"""Sessions announced by the hooks of a host: a context for the agent at the start, one memory at the end.

Transcripts contain untrusted text. No model is used: the memory of a session consists of the prompts of the person and
the last answer, each shortened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from memoranda.app import Memoranda
from memoranda.bindings.files.folder import read_file
from memoranda.bindings.files.importers.transcripts import TRANSCRIPT_BYTES_LIMIT, read_turns
from memoranda.encoding.injection import find_instructions
from memoranda.hosts.source_turns import SourceTurn
from memoranda.library.results import Memory
from memoranda.standards.oams.memory import AGENT_KEY, KIND_KEY, SESSION_KEY
from memoranda.standards.oams.namespace import namespace_of
from memoranda.standards.ump.rehydrate import sanitise

# Memories in the context: of the project, and again of no project; and memories of the last sessions.
_SHOWN: Final = 8
_SESSIONS: Final = 2
_TAG: Final = "session"
# Characters of one memory in the context.
_MAX_CHARS: Final = 400
# In the memory of a session: prompts, characters of each prompt and of the answer; characters of a name.
_PROMPTS: Final = 12
_PROMPT_CHARS: Final = 300
_ANSWER_CHARS: Final = 1200
_NAME_CHARS: Final = 200
_SPACES: Final = re.compile(r"\s+")
# The beginning of the context, by which it is recognised in a transcript.
_CONTEXT_HEAD: Final = "What is remembered here, latest first."


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSession:
    """A session as described by the input of a hook: its host, id, folder and transcript."""

    host: str
    id: str
    folder: Path
    transcript: Path | None

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
        )

    @property
    def project(self) -> str | None:
        """The name of the session's folder, or of the repository that holds it."""
        folders = (self.folder, *self.folder.parents)
        root = next((folder for folder in folders if (folder / ".git").exists()), self.folder)
        return root.name[:_NAME_CHARS] or None


def build_context(m: Memoranda, session: HostSession) -> str:
    """Return the text that is shown to an agent when a session begins; empty without memories."""
    memories = {memory.id: memory for memory in _select_memories(m, session.project)}
    # The agent did not request these memories, so those that look like instructions are left out.
    records = [memory.record for memory in memories.values() if not find_instructions(memory.text)]
    text = m.ump.framed(records, max_chars=_MAX_CHARS).text if records else ""
    if not text:
        return ""
    # The name of a folder is untrusted too.
    project = f" (project={sanitise(session.project, _NAME_CHARS)!r})" if session.project else ""
    return f"{_CONTEXT_HEAD} Ask the memory for more: ump_recall{project}.\n{text}"


def has_context(session: HostSession) -> bool:
    """Return True if the transcript shows that the agent was given the context already."""
    path = session.transcript
    if path is None or not path.is_file():
        return False
    return _CONTEXT_HEAD.encode() in read_file(path, max_bytes=TRANSCRIPT_BYTES_LIMIT)


def _select_memories(m: Memoranda, project: str | None) -> Iterator[Memory]:
    """Yield the latest memories of the project and its sessions, then identity and procedures without project."""
    if project is not None:
        latest = m.list(project=project, limit=_SHOWN * 4)
        # Imported turns of sessions are many, and each says little.
        yield from [memory for memory in latest if _is_statement(memory)][:_SHOWN]
        yield from m.list(project=project, tags=[_TAG], limit=_SESSIONS)
    everywhere = m.list(kind=["identity", "procedural"], limit=_SHOWN * 4)
    general_memories = (
        memory for memory in everywhere if memory.project is None and _is_statement(memory)
    )
    yield from islice(general_memories, _SHOWN)


def _is_statement(memory: Memory) -> bool:
    """Return True for a confirmed memory that is neither a session nor a turn of one."""
    is_turn = memory.kind == "episodic" and bool(memory.record["scope"].get("session"))
    is_candidate = memory.record.get("lifecycle", {}).get("status") == "candidate"
    return not (is_turn or is_candidate or _TAG in memory.tags)


def remember_session(m: Memoranda, session: HostSession) -> str | None:
    """Remember the prompts of a session and its last answer; the same session again is its next version."""
    text = summarize_session(session)
    if text is None or not session.id:
        return None
    m.oams.store(
        f"sessions/{session.host}/{session.id}",
        text,
        namespace=namespace_of(session.project or "", m.owner),
        tags=[_TAG],
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
