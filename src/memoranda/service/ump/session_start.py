"""The text that an agent gets when a session begins: which memories it has, which it leaves out and why.

An agent did not request these memories, so those that look like instructions are left out. The functions are pure, so
that the hooks of hosts and the console, which shows the same text, cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec

from memoranda.encoding.injection import find_instructions
from memoranda.standards.ump.mapping import TAG_PREFIX
from memoranda.standards.ump.rehydrate import sanitise
from memoranda.standards.ump.shapes import Kind, Record

# Memories of the project, and again of no project; and memories of the last sessions.
_PROJECT_MEMORIES: Final = 8
_GENERAL_MEMORIES: Final = 8
SESSIONS: Final = 2
# The tag of a memory that tells a whole session.
SESSION_TAG: Final = "session"
# The latest memories among which those of the text are chosen: of the project, and of these kinds without a project.
CANDIDATES: Final = 32
GENERAL_KINDS: Final[tuple[Kind, ...]] = ("identity", "procedural")
# Characters of one memory, and of the name of a project.
MEMORY_CHARS: Final = 400
_PROJECT_CHARS: Final = 200
# The beginning of the text, by which it is recognised in a transcript.
CONTEXT_HEAD: Final = "What is remembered here, latest first."

# Why a memory is left out; empty if it is not.
Objection = Literal["", "limit", "instructions", "candidate"]


class SessionCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A memory for the text, and why it is left out, if it is."""

    record: Record
    objection: Objection = ""


def choose_for_session(
    of_project: Sequence[Record], sessions: Sequence[Record], of_general_kinds: Sequence[Record]
) -> list[SessionCandidate]:
    """Return the memories for the text in its order, with those that are left out.

    `of_project` are the latest memories of the project, if there is one, and `sessions` those that tell its latest
    sessions. Of the others, those without a project count.
    """
    facts = [record for record in of_project if not _belongs_to_session(record)]
    general = [
        record
        for record in of_general_kinds
        if not record["scope"].get("project") and not _belongs_to_session(record)
    ]
    candidates = {
        candidate.record["id"]: candidate
        for records, limit in (
            (general, _GENERAL_MEMORIES),
            (sessions, SESSIONS),
            (facts, _PROJECT_MEMORIES),
        )
        for candidate in _judge(records, limit)
    }
    order = (*facts, *sessions, *general)
    return [candidates[name] for name in dict.fromkeys(record["id"] for record in order)]


def _belongs_to_session(record: Record) -> bool:
    """Return True for a memory that tells a session, and for a turn of one: turns are many, and each says little."""
    is_turn = record["kind"] == "episodic" and bool(record["scope"].get("session"))
    return is_turn or any(
        relation["type"] == "about" and relation["target"] == f"{TAG_PREFIX}{SESSION_TAG}"
        for relation in record.get("relations", ())
    )


def _judge(records: Iterable[Record], limit: int) -> Iterator[SessionCandidate]:
    """Yield memories with the reason why they are left out; the first confirmed ones up to the limit are not."""
    count = 0
    for record in records:
        objection: Objection = ""
        if record.get("lifecycle", {}).get("status") == "candidate":
            objection = "candidate"
        elif count >= limit:
            objection = "limit"
        elif find_instructions(record["body"]["text"]):
            objection = "instructions"
        count += objection != "candidate"
        yield SessionCandidate(record=record, objection=objection)


def context_text(block: str, project: str | None) -> str:
    """Return the text with the framed block of its memories; empty if there are none."""
    if not block:
        return ""
    # The name of a folder is untrusted too.
    argument = f" (project={sanitise(project, _PROJECT_CHARS)!r})" if project else ""
    return f"{CONTEXT_HEAD} Ask the memory for more: ump_recall{argument}.\n{block}"
