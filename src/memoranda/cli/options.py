"""Options that several commands share: scopes, ids and formats; and readers of what people type or pipe in.

The readers raise InvalidInput, with the name of the option.

An option that two commands have is declared here once, with its help, so that it means the same in both. `MemoryScope`
and its like are groups of options: a command takes the whole group as one parameter, and `fields` returns only what was
typed, so that the defaults stay those of the library.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from memoranda.cli.run import Parameter, without_none
from memoranda.encoding.json_text import parse
from memoranda.errors import InvalidInput, TooLarge
from memoranda.model.instant import parse_duration_ms
from memoranda.standards.ump.record import MAX_TEXT_BYTES

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DURATION = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
Kind = Literal["semantic", "episodic", "procedural", "working", "identity"]
Visibility = Literal["private", "shared", "public"]
MemoryId = Annotated[str, Parameter(name="ID", help="The memory's id, or the beginning of it.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryScope:
    """The scope of a memory: project, user, agent, session and visibility."""

    project: Annotated[str | None, Parameter(help="The project it belongs to.")] = None
    user: Annotated[str | None, Parameter(help="The user it is about.")] = None
    agent: Annotated[str | None, Parameter(help="The agent it belongs to.")] = None
    session: Annotated[str | None, Parameter(help="The session of the memory.")] = None
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


def split_names(text: str) -> tuple[str, ...]:
    """Split a list separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def complete_date(text: str | None) -> str | None:
    """Return a date as RFC 3339, at its first moment in UTC; any other text as it is."""
    return f"{text}T00:00:00Z" if text is not None and _DATE.fullmatch(text) else text


def end_of_date(text: str | None) -> str | None:
    """Return a point in time in RFC 3339; a date means its last moment in UTC, so that it includes the day."""
    return f"{text}T23:59:59.999Z" if text is not None and _DATE.fullmatch(text) else text


# --- what people type or pipe in -------------------------------------------------------------------------------------


def read_text(text: str | None, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return a typed text, or standard input if the text is `-`, or is missing while input is piped in.

    The limit, by default that of a record's text, holds for standard input; the library checks typed texts.
    """
    if text is not None and text != "-":
        return text
    if text is None and sys.stdin.isatty():
        raise InvalidInput("no text given: write it after the command, or pipe it in")
    # One byte more than the limit and a final line feed shows that the input is too long.
    data = sys.stdin.buffer.read(max_bytes + 2)
    if len(data.removesuffix(b"\n")) > max_bytes:
        raise TooLarge(f"standard input: a text may have at most {max_bytes} bytes")
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"standard input: not UTF-8 at byte {error.start}") from None


def read_duration_ms(text: str, option: str) -> int:
    """Return a duration in milliseconds: 90s, 15m, 1h, 7d, 2w, or ISO 8601."""
    if match := _DURATION.fullmatch(text):
        return int(match[1]) * _UNIT_MS[match[2]]
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise InvalidInput(
            f"{option}: {text!r} is not a duration such as 90s, 15m, 1h, 7d or PT1H"
        ) from None


def read_json_object(text: str, option: str) -> dict[str, Any]:
    """Return a JSON object typed as the value of an option."""
    try:
        value = parse(text)
    except InvalidInput as error:
        raise InvalidInput(f"{option}: {error.message}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{option}: must be a JSON object")
    return value


# --- formats of import, export, verify and convert ------------------------------------------------------------------

RecordFormat = Literal["json", "ndjson", "markdown"]
FormatName = Literal[RecordFormat, "mg", "oams"]
# Other systems whose files can be imported; the names of their importers.
SystemName = Literal[
    "claude-code",
    "codex",
    "gemini",
    "cline",
    "continue",
    "vscode",
    "opencode",
    "cursor",
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
