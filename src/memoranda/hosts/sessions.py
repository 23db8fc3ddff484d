"""What a host tells of a session, and what the memory makes of it: shown when one begins, remembered when one ends.

Everything a host says is read with care: the transcript is whatever others wrote into it. No model is asked, so what is
remembered of a session is what was asked in it, and the last answer, each cut short.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memoranda.app import Memoranda
from memoranda.bindings.files.folder import read_whole
from memoranda.encoding.injection import find_instructions
from memoranda.encoding.json_text import parse
from memoranda.errors import MemorandaError
from memoranda.library.results import Memory
from memoranda.standards.oams.memory import KIND_KEY, SESSION_KEY
from memoranda.standards.oams.namespace import namespace_of
from memoranda.standards.ump.rehydrate import sanitise

# As many are shown of the project, and as many of what holds everywhere; and of the last sessions.
_SHOWN: Final = 8
_SESSIONS: Final = 2
_TAG: Final = "session"
_MAX_CHARS: Final = 400
_TRANSCRIPT_BYTES_LIMIT: Final = 64 * 1_048_576
_PROMPTS: Final = 12
_PROMPT_CHARS: Final = 300
_ANSWER_CHARS: Final = 1200
_NAME_CHARS: Final = 200
_SPACES: Final = re.compile(r"\s+")
_ROLES: Final = {"user": "user", "assistant": "assistant", "gemini": "assistant", "model": "assistant"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a host said: which session, and where."""

    host: str
    id: str
    folder: Path
    transcript: Path | None

    @classmethod
    def of(cls, host: str, said: object, *, folder: Path) -> Session:
        """What the JSON of a hook says; what is missing or odd is passed over."""
        told: Mapping[str, Any] = said if isinstance(said, dict) else {}
        path = told.get("transcript_path")
        place = told.get("cwd")
        return cls(
            host=host,
            id=str(told.get("session_id") or "")[:_NAME_CHARS],
            folder=Path(place) if isinstance(place, str) and place else folder,
            transcript=Path(path).expanduser() if isinstance(path, str) and path else None,
        )

    @property
    def project(self) -> str | None:
        """The name of the folder that is worked in: of the repository, if it is in one."""
        folders = (self.folder, *self.folder.parents)
        root = next((each for each in folders if (each / ".git").exists()), self.folder)
        return root.name[:_NAME_CHARS] or None


def context(m: Memoranda, session: Session) -> str:
    """What an agent is shown when a session begins; empty if nothing is known."""
    found = {each.id: each for each in _known(m, session.project)}
    # Nobody asked for these: what reads as an order is left to who asks.
    records = [each.record for each in found.values() if not find_instructions(each.text)]
    text = m.ump.framed(records, max_chars=_MAX_CHARS).text if records else ""
    if not text:
        return ""
    # A folder may be called anything, too.
    named = f" (project={sanitise(session.project, _NAME_CHARS)!r})" if session.project else ""
    return f"What is remembered here, latest first. Ask the memory for more: ump_recall{named}.\n{text}"


def _known(m: Memoranda, project: str | None) -> Iterator[Memory]:
    if project is not None:
        latest = m.list(project=project, limit=_SHOWN * 4)
        yield from [each for each in latest if _TAG not in each.tags][:_SHOWN]
        yield from [each for each in latest if _TAG in each.tags][:_SESSIONS]
    everywhere = m.list(kind=["identity", "procedural"], limit=_SHOWN * 4)
    yield from [each for each in everywhere if each.project is None][:_SHOWN]


def remember(m: Memoranda, session: Session) -> str | None:
    """Remember what was asked in a session, and the last answer; the same session again is its next version."""
    text = digest(session)
    if text is None or not session.id:
        return None
    m.oams.store(
        f"sessions/{session.host}/{session.id}",
        text,
        namespace=namespace_of(session.project or "", m.owner),
        tags=[_TAG],
        metadata={KIND_KEY: "episodic", SESSION_KEY: session.id},
    )
    return text


def digest(session: Session) -> str | None:
    """A session in a few lines; None if nobody asked anything."""
    said = list(_said(session.transcript)) if session.transcript is not None else []
    prompts = [_cut(text, _PROMPT_CHARS) for role, text in said if role == "user"]
    if not prompts:
        return None
    answers = [text for role, text in said if role == "assistant"]
    shown = prompts if len(prompts) <= _PROMPTS else [*prompts[:2], "…", *prompts[2 - _PROMPTS :]]
    lines = [f"A session with {session.host}{f' in {session.project}' if session.project else ''}. What was asked:"]
    lines += [f"- {each}" for each in shown]
    if answers:
        lines.append(f"The last answer: {_cut(answers[-1], _ANSWER_CHARS)}")
    return "\n".join(lines)


def _cut(text: str, limit: int) -> str:
    plain = _SPACES.sub(" ", text).strip()
    return plain if len(plain) <= limit else plain[: limit - 1].rstrip() + "…"


def _said(path: Path) -> Iterator[tuple[str, str]]:
    """Who said what, in order; whatever else stands in a transcript is passed over."""
    if not path.is_file():
        return
    data = read_whole(path, max_bytes=_TRANSCRIPT_BYTES_LIMIT)
    for line in _entries(data):
        for found in (line, line.get("message"), line.get("payload")):
            if isinstance(found, dict) and (turn := _turn(found, line)) is not None:
                yield turn
                break


def _entries(data: bytes) -> Iterator[dict[str, Any]]:
    """The entries of a transcript: one a line, or all in one document."""
    whole = _parsed(data)
    if isinstance(whole, dict) and isinstance(whole.get("messages"), list):
        yield from (each for each in whole["messages"] if isinstance(each, dict))
        return
    for line in data.splitlines():
        found = _parsed(line)
        if isinstance(found, dict):
            yield found


def _parsed(data: bytes) -> Any:
    try:
        return parse(data, max_bytes=_TRANSCRIPT_BYTES_LIMIT)
    except MemorandaError:
        return None


def _turn(found: Mapping[str, Any], line: Mapping[str, Any]) -> tuple[str, str] | None:
    role = _ROLES.get(str(found.get("role") or found.get("type")))
    if role is None or line.get("isMeta") or line.get("isSidechain"):
        return None
    content = found.get("content")
    parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    texts = [each if isinstance(each, str) else _text(each) for each in parts]
    said = "\n".join(text for text in texts if text.strip())
    # What a host itself puts there is in tags: reminders, commands, the environment.
    return (role, said) if said and not said.lstrip().startswith("<") else None


def _text(part: object) -> str:
    return part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else ""
