"""What a folder and the store agreed on last, kept in the data directory.

Others may write to the folder, so nothing in it says what is to be forgotten or where to write: it only holds a marker,
which tells whether it is still the folder that was synchronised. One that took its place (a drive that is not mounted,
a fresh clone) has another marker or none, and then the two sides are compared as on the first day.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from msgspec.structs import asdict

from memoranda.bindings.files.folder import AS_THE_PERSON_CHOSE, Folder, read_whole, write_whole
from memoranda.encoding.json_text import dump_pretty, parse
from memoranda.errors import InvalidInput, MemorandaError, NotFound

MARKER_FILE: Final = ".memoranda-sync.json"
MAX_MARKER_BYTES: Final = 65_536
# A quarter million files of 250 bytes each.
MAX_STATE_BYTES: Final = 64 * 1_048_576


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One file as it was when both sides agreed. A file without an id says what another file says already.

    `root` is the id that its memory had first: what other notes link to, whatever becomes of either.
    """

    id: str
    file: str
    record: str
    root: str = ""


class SyncState(msgspec.Struct, kw_only=True):
    """What each file held that this machine wrote to the folder."""

    path: Path
    marker: dict[str, Any]
    entries: dict[str, Entry] = msgspec.field(default_factory=dict)

    @classmethod
    def load(
        cls, states: Path, folder: Folder, *, owner: str, project: str | None, form: str
    ) -> Self:
        """Read the state, or start a new one; refuses a folder that belongs to something else."""
        mine = {"memoranda": 1, "owner": owner, "project": project, "form": form}
        marker = _marker(folder) or {**mine, "folder": secrets.token_hex(16)}
        if (
            marker
            == {**mine, "folder": marker["folder"], "form": marker.get("form")}
            != {**mine, "folder": marker["folder"]}
        ):
            raise InvalidInput(
                f"{folder.path}: this folder holds {marker['form']}; say --form {marker['form']}"
            )
        if marker != {**mine, "folder": marker["folder"]}:
            where = f"owner {marker.get('owner')}" + (
                f", project {marker['project']}" if marker.get("project") else ""
            )
            raise InvalidInput(
                f"{folder.path}: this folder is synchronised with {where}; use another folder"
            )
        path = states / f"{digest(str(folder.path).encode('utf-8', 'surrogateescape'))[:32]}.json"
        try:
            value = parse(read_whole(path, max_bytes=MAX_STATE_BYTES), max_bytes=MAX_STATE_BYTES)
            is_same = value["marker"] == marker
            entries = (
                {name: Entry(**fields) for name, fields in value["files"].items()}
                if is_same
                else {}
            )
        except NotFound:
            entries = {}
        except (LookupError, TypeError, AttributeError, MemorandaError):
            raise InvalidInput(f"{path}: not readable; delete it to start over") from None
        return cls(path=path, marker=marker, entries=entries)

    def save(self, folder: Folder) -> None:
        """Write it, and the folder's marker if it has none yet."""
        files: dict[str, Any] = {
            name: asdict(entry) for name, entry in sorted(self.entries.items())
        }
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        document = {
            "memoranda": 1,
            "folder": str(folder.path),
            "marker": self.marker,
            "files": files,
        }
        write_whole(self.path, _line(document))
        if _marker(folder) != self.marker:
            folder.write(MARKER_FILE, _line(self.marker), mode=AS_THE_PERSON_CHOSE)


def _marker(folder: Folder) -> dict[str, Any] | None:
    """What the folder says that it is; None if it says nothing that can be read."""
    try:
        found = parse(folder.read(MARKER_FILE, max_bytes=MAX_MARKER_BYTES))
        return found if isinstance(found, dict) and isinstance(found.get("folder"), str) else None
    except MemorandaError:
        return None


def _line(document: dict[str, Any]) -> bytes:
    return (dump_pretty(document) + "\n").encode("utf-8")


def digest(data: bytes) -> str:
    """A file's fingerprint."""
    return hashlib.sha256(data).hexdigest()
