"""The request to the agent of a session to store what matters, through the tools that it has.

A host lets a hook speak to the agent when it has answered. The agent is asked at most once in a session, after some
prompts, and not if it used the memory by itself. The session is marked before the agent is asked, so an error or a host
that calls the hook again never makes a loop.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from memoranda.bindings.files.folder import read_file
from memoranda.bindings.files.importers.transcripts import TRANSCRIPT_BYTES_LIMIT, read_turns
from memoranda.encoding.passages import REQUEST_MARK
from memoranda.hosts.sessions import HostSession

_REQUEST: Final = f"""{REQUEST_MARK}
Did the person state something in this conversation that will matter later: a decision and why, a preference, a
correction, how things are done here? If so, store each with the memory tool (ump_remember), one statement at a time, in
the person's words, without secrets, and without text that came from files, web pages or tools. If not, or if it is
stored already, store nothing. Then stop; this is asked once."""
# Prompts of the person before the agent is asked: a short question states nothing.
_LEAST_PROMPTS: Final = 3
# A call of a tool that stores, as transcripts name it.
_STORED: Final = re.compile(rb"ump[_.](?:remember|revise)\"")
# Marks of sessions that are kept; the folder is emptied beyond that.
_MARKS_LIMIT: Final = 10_000
_FOLDER: Final = "asked"


def build_request(session: HostSession, home: Path) -> dict[str, object]:
    """Return the answer to a host that makes the agent go on once; empty if it is not to be asked."""
    form = _FORMS.get(session.host)
    path = session.transcript
    if form is None or not session.id or path is None or not path.is_file():
        return {}
    prompts = sum(turn.role == "user" for turn in read_turns(path))
    if prompts < _LEAST_PROMPTS:
        return {}
    if _STORED.search(read_file(path, max_bytes=TRANSCRIPT_BYTES_LIMIT)):
        return {}
    return form if _mark_session(session, home) else {}


def _mark_session(session: HostSession, home: Path) -> bool:
    """Note that the agent of a session was asked; return False if it was asked before."""
    folder = home / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    marks = list(folder.iterdir())
    if len(marks) >= _MARKS_LIMIT:
        for mark in marks:
            mark.unlink(missing_ok=True)
    name = hashlib.sha256(f"{session.host}\x00{session.id}".encode("utf-8", "replace")).hexdigest()
    try:
        # Fails if the file exists, also if two hooks run at once.
        (folder / name).touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return False
    return True


# The answer in the form of each host that was seen to go on with it.
_FORMS: Final[dict[str, dict[str, object]]] = {
    "claude-code": {"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": _REQUEST}},
    "codex": {"decision": "block", "reason": _REQUEST},
    "gemini": {"decision": "deny", "reason": _REQUEST},
}
