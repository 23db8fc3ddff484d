"""Workspace files of openwop: small, versioned, one tenant's. The last versions are kept.

A run sees the files as they were when it began, whoever writes meanwhile, itself included (RFC 0059 §D). What is
removed is gone with all its versions, from every run as well: nobody keeps what its owner took away.
"""

from __future__ import annotations

from typing import Final

from memoranda.encoding import json_text
from memoranda.errors import WorkflowError
from memoranda.model.instant import Instant
from memoranda.service.openwop import runs
from memoranda.service.openwop.runs import Run
from memoranda.standards.openwop import events
from memoranda.standards.openwop.problem import WORKSPACE_TOO_LARGE
from memoranda.standards.openwop.workspace import (
    DEFAULT_TYPE,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_VERSIONS,
    WorkspaceFile,
    build_file,
    check_content,
    check_path,
    next_version,
)
from memoranda.storage.engine.contract import Snapshot, Unit

__all__ = [
    "MAX_FILES",
    "MAX_FILE_BYTES",
    "MAX_VERSIONS",
    "File",
    "is_there",
    "listing",
    "read",
    "remove",
    "write",
]

File = WorkspaceFile

# What there is, without the contents: those are with the versions, each read by itself.
HEADS: Final = "workspace"
# The highest version that a removed file had: no two contents ever share a version.
_GONE: Final = "workspace versions that were"
_VERSIONS: Final = "workspace versions of "


def read(
    snapshot: Snapshot, path: str, version: int | None = None, *, run: Run | None = None
) -> File | None:
    """A file, as it is now, as it was in a version, or as a run sees it; None if there is none."""
    head = _version(snapshot, path) or 0
    wanted = range(head, max(0, head - MAX_VERSIONS), -1) if version is None else (version,)
    for number in wanted:
        kept = snapshot.item(_VERSIONS + path, _number(number))
        place, file = (0, None) if kept is None else _decoded(kept)
        if run is None or place <= run.workspace_seq:
            return file
    return None


def listing(snapshot: Snapshot, prefix: str = "", *, run: Run | None = None) -> list[File]:
    """All files that begin so, without their content, as they are now or as a run sees them."""
    found = []
    for path, kept in snapshot.items(HEADS).items():
        if path.startswith(prefix):
            place, file = _decoded(kept)
            seen = (
                file if run is None or place <= run.workspace_seq else read(snapshot, path, run=run)
            )
            found += [_brief(seen)] if seen is not None else []
    return found


def _decoded(value: bytes) -> tuple[int, File]:
    file = json_text.parse(value)
    return file.pop("place"), file


def _brief(file: File) -> File:
    return {name: value for name, value in file.items() if name != "content"}


def _changed(unit: Unit) -> int:
    place = int(unit.item(runs.WORKSPACE_CHANGES, "") or b"0") + 1
    unit.put_item(runs.WORKSPACE_CHANGES, "", b"%d" % place)
    return place


def is_there(snapshot: Snapshot, path: str) -> bool:
    """Whether there is such a file now."""
    return snapshot.item(HEADS, path) is not None


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
            f"there are {MAX_FILES} files already",
            openwop_code=WORKSPACE_TOO_LARGE,
            details={"maxFiles": MAX_FILES},
        )
    file = build_file(
        path=path, content=content, version=version, updated=now, content_type=content_type
    )
    place = {"place": _changed(unit)}
    unit.put_item(HEADS, path, json_text.dump(_brief(file) | place))
    unit.put_item(_VERSIONS + path, _number(version), json_text.dump(file | place))
    if version > MAX_VERSIONS:
        unit.delete_item(_VERSIONS + path, _number(version - MAX_VERSIONS))
    runs.emit(unit, run_id, events.WORKSPACE_UPDATED, {"path": path, "version": version}, now=now)
    return file


def remove(
    unit: Unit, path: str, *, now: Instant, run_id: str, if_match: str | None = None
) -> None:
    """Take a file that is there away, with all its versions, and say so in the log of a run.

    Its removal is a version, too, so that no event is told twice and no two contents ever share one.
    """
    version = _version(unit, path)
    gone = next_version(version, version or 0, if_match=if_match)
    version = gone - 1
    unit.delete_item(HEADS, path)
    for number in range(max(1, version - MAX_VERSIONS + 1), version + 1):
        unit.delete_item(_VERSIONS + path, _number(number))
    unit.put_item(_GONE, path, b"%d" % gone)
    _changed(unit)
    runs.emit(unit, run_id, events.WORKSPACE_UPDATED, {"path": path, "version": gone}, now=now)


def _number(version: int) -> str:
    return f"{version:08d}"
