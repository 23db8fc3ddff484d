"""Workspace files of openwop: small, versioned, one tenant's. The last versions are kept."""

from __future__ import annotations

from typing import Final

from memoranda.encoding import json_text
from memoranda.errors import WorkflowError
from memoranda.model.instant import Instant
from memoranda.service.openwop import runs
from memoranda.standards.openwop import events
from memoranda.standards.openwop.problem import WORKSPACE_TOO_LARGE
from memoranda.standards.openwop.workspace import (
    DEFAULT_TYPE,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_VERSIONS,
    WorkspaceFile,
    check_content,
    check_path,
    next_version,
    workspace_file,
)
from memoranda.storage.engine import Snapshot, Unit

__all__ = ["MAX_FILES", "MAX_FILE_BYTES", "MAX_VERSIONS", "File", "listing", "read", "remove", "write"]

File = WorkspaceFile

# What there is, without the contents: those are with the versions, each read by itself.
HEADS: Final = "workspace"
# The highest version that a removed file had: no two contents ever share a version.
_GONE: Final = "workspace versions that were"
_VERSIONS: Final = "workspace versions of "


def read(snapshot: Snapshot, path: str, version: int | None = None) -> File | None:
    """A file, as it is now or as it was in a version; None if there is none."""
    wanted = _version(snapshot, path) if version is None else version
    kept = None if wanted is None else snapshot.item(_VERSIONS + path, _number(wanted))
    return None if kept is None else json_text.parse(kept)


def listing(snapshot: Snapshot, prefix: str = "") -> list[File]:
    """All files that begin so, without their content."""
    return [json_text.parse(kept) for path, kept in snapshot.items(HEADS).items() if path.startswith(prefix)]


def _version(snapshot: Snapshot, path: str) -> int | None:
    kept = snapshot.item(HEADS, path)
    return None if kept is None else int(json_text.parse(kept)["version"])


def write(
    unit: Unit,
    path: str,
    content: str,
    *,
    now: Instant,
    run_id: str,
    content_type: str = DEFAULT_TYPE,
    if_match: str | None = None,
    if_none_match: str | None = None,
) -> File:
    """Write the next version of a file and say so in the log of a run."""
    check_path(path)
    check_content(content)
    current = _version(unit, path)
    last = current or int(unit.item(_GONE, path) or b"0")
    version = next_version(current, last, if_match=if_match, if_none_match=if_none_match)
    if current is None and len(unit.items(HEADS)) >= MAX_FILES:
        raise WorkflowError(
            f"there are {MAX_FILES} files already", wop_code=WORKSPACE_TOO_LARGE, details={"maxFiles": MAX_FILES}
        )
    file = workspace_file(path=path, content=content, version=version, updated=now, content_type=content_type)
    unit.put_item(HEADS, path, json_text.dump({name: value for name, value in file.items() if name != "content"}))
    unit.put_item(_VERSIONS + path, _number(version), json_text.dump(file))
    if version > MAX_VERSIONS:
        unit.delete_item(_VERSIONS + path, _number(version - MAX_VERSIONS))
    runs.emit(unit, run_id, events.WORKSPACE_UPDATED, {"path": path, "version": version}, now=now)
    return file


def remove(unit: Unit, path: str, *, if_match: str | None = None) -> bool:
    """Take a file away, with all its versions; whether there was one."""
    version = _version(unit, path)
    if version is None:
        return False
    next_version(version, version, if_match=if_match)
    unit.delete_item(HEADS, path)
    for number in range(max(1, version - MAX_VERSIONS + 1), version + 1):
        unit.delete_item(_VERSIONS + path, _number(number))
    unit.put_item(_GONE, path, b"%d" % version)
    return True


def _number(version: int) -> str:
    return f"{version:08d}"
