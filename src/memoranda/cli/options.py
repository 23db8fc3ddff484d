"""Options that several commands share: scopes, ids and formats, and conversions of typed values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from memoranda.cli.run import Parameter

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
Kind = Literal["semantic", "episodic", "procedural", "working", "identity"]
Visibility = Literal["private", "shared", "public"]
MemoryId = Annotated[str, Parameter(name="ID", help="The memory's id, or the beginning of it.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryScope:
    """The scope of a memory: project, user, agent, session and visibility."""

    project: Annotated[str | None, Parameter(help="The project it belongs to.")] = None
    user: Annotated[str | None, Parameter(help="The user it is about.")] = None
    agent: Annotated[str | None, Parameter(help="The agent it belongs to.")] = None
    session: Annotated[str | None, Parameter(help="The session it comes from.")] = None
    visibility: Annotated[
        Visibility | None, Parameter(help="Who may see it (default: private).")
    ] = None

    def fields(self) -> dict[str, Any]:
        """Return the options that were typed, by their names in the library."""
        return without_none(
            project=self.project,
            user=self.user,
            agent=self.agent,
            session=self.session,
            visibility=self.visibility,
        )


# Neither a project nor any other part of a scope.
ANY_SCOPE = MemoryScope()


def without_none(**fields: object) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def split_names(text: str) -> tuple[str, ...]:
    """Split a list separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def complete_date(text: str | None) -> str | None:
    """Return a date as RFC 3339, at its first moment in UTC; any other text as it is."""
    return f"{text}T00:00:00Z" if text is not None and _DATE.fullmatch(text) else text


def end_of_date(text: str | None) -> str | None:
    """Return a point in time in RFC 3339; a date means its last moment in UTC, so that it includes the day."""
    return f"{text}T23:59:59.999Z" if text is not None and _DATE.fullmatch(text) else text


# --- formats of import, export, verify and convert ------------------------------------------------------------------

RecordFormat = Literal["json", "ndjson", "markdown"]
FormatName = Literal[RecordFormat, "mg", "oams"]
# Other systems whose files can be imported; the names of their importers.
SystemName = Literal[
    "mem0",
    "server-memory",
    "langgraph",
    "chatgpt",
    "claude",
    "basic-memory",
    "memory-tool",
    "agent-rules",
    "notes",
    "zep",
    "mempalace",
    "rem",
    "areev",
    "letta",
    "langchain",
    "pam",
    "mif",
    "table",
]
# Other systems to which memories can be exported.
TargetName = Literal["mem0", "langgraph", "server-memory", "csv"]


def is_folder(target: str) -> bool:
    """Return True if a target is a folder, or ends in `/`."""
    return target.endswith("/") or (target != "-" and Path(target).is_dir())
