"""Names of formats for import, export, verify and convert."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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
