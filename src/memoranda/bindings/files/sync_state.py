"""What a folder and the store agreed on last: `.memoranda-sync.json` in the folder itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from memoranda.bindings.files.folder import read_whole, write_whole
from memoranda.encoding.json_text import dump_pretty, parse
from memoranda.errors import InvalidInput, MemorandaError, NotFound

STATE_FILE: Final = ".memoranda-sync.json"
# A quarter million files of 250 bytes each.
MAX_STATE_BYTES: Final = 64 * 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file as it was when both sides agreed. A file without an id says what another file says already."""

    id: str
    file: str
    record: str


@dataclass(slots=True, kw_only=True)
class SyncState:
    """Whose memories are in the folder, and what each file held."""

    owner: str
    project: str | None
    entries: dict[str, Entry] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path, *, owner: str, project: str | None) -> Self:
        """Read the state, or start a new one; refuses a folder that belongs to something else."""
        try:
            value = parse(read_whole(folder / STATE_FILE, max_bytes=MAX_STATE_BYTES), max_bytes=MAX_STATE_BYTES)
            entries = {name: Entry(**fields) for name, fields in value["files"].items()}
            state = cls(owner=value["owner"], project=value["project"], entries=entries)
        except NotFound:
            return cls(owner=owner, project=project)
        except (LookupError, TypeError, AttributeError, MemorandaError):
            raise InvalidInput(f"{folder / STATE_FILE}: not readable; delete it to start over") from None
        if (state.owner, state.project) != (owner, project):
            where = f"owner {state.owner}" + (f", project {state.project}" if state.project else ", every project")
            raise InvalidInput(f"{folder}: this folder is synchronised with {where}; use another folder")
        return state

    def save(self, folder: Path) -> None:
        files: dict[str, Any] = {
            name: {"id": entry.id, "file": entry.file, "record": entry.record}
            for name, entry in sorted(self.entries.items())
        }
        document = {"memoranda": 1, "owner": self.owner, "project": self.project, "files": files}
        write_whole(folder / STATE_FILE, (dump_pretty(document) + "\n").encode("utf-8"))


def digest(data: bytes) -> str:
    """A file's fingerprint."""
    return hashlib.sha256(data).hexdigest()
