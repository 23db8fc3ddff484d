"""Workspace files of openwop, and the one among them that Memoranda writes itself: MEMORY-INDEX.json (RFC 0004).

A workspace belongs to a tenant. Its files are small text files in numbered versions, of which the last MAX_VERSIONS
stay in the store. They are kept as items of three kinds: the head of each file without its content, each version with
its content, and for a removed file the last version number, so that no number is used for two contents.

Every change has a number in a sequence of the tenant (`place` in the stored value). A run sees a file as of the change
that was the last when the run began: it sees no later write, not even its own (RFC 0059 §D). A removed file is gone
with all its versions, for every run as well: nothing keeps what its owner removed.

Files are documents with versions, limited in number and size. A write may name the version that it expects, so that two
writers cannot overwrite each other unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, NotFound, WorkflowError
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.openwop import runs
from memoranda.service.openwop.runs import Run
from memoranda.standards.openwop import events
from memoranda.standards.openwop.entry import ARCHIVE_TAG, Entry
from memoranda.standards.openwop.problem import WORKSPACE_TOO_LARGE
from memoranda.standards.openwop.workspace import (
    DEFAULT_TYPE,
    MAX_FILES,
    MAX_VERSIONS,
    UNCONDITIONAL,
    WorkspaceFile,
    WriteCondition,
    build_file,
    check_content,
    check_path,
    next_version,
)
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot, Unit

# The workspace file that lists the archives of distillations.
INDEX_PATH: Final = "MEMORY-INDEX.json"
# Items of this kind: the current version of each file, without its content.
HEADS: Final = "workspace"
_VERSIONS: Final = "workspace versions of "
_REMOVED: Final = "workspace versions that were"


# --- files in a unit of work ---------------------------------------------------------------------------------


def read_version(
    snapshot: Snapshot, path: str, version: int | None = None, *, run: Run | None = None
) -> WorkspaceFile | None:
    """Return a file as it is now, in a given version, or as a run sees it; None if there is none."""
    head = _current_version(snapshot, path) or 0
    numbers = stored_numbers(head) if version is None else (version,)
    for number in numbers:
        item = snapshot.load_item(_VERSIONS + path, _version_key(number))
        changed_at, file = (0, None) if item is None else _decode(item)
        if run is None or changed_at <= run.workspace_seq:
            return file
    return None


def stored_numbers(last: int) -> range:
    """Return the numbers of the versions that are in the store if `last` is the current one, newest first."""
    return range(last, max(0, last - MAX_VERSIONS), -1)


def list_heads(
    snapshot: Snapshot, prefix: str = "", *, run: Run | None = None
) -> list[WorkspaceFile]:
    """Return all files whose path starts with a prefix, without content, as they are or as a run sees them."""
    heads = []
    for path, item in snapshot.load_items(HEADS).items():
        if not path.startswith(prefix):
            continue
        changed_at, head = _decode(item)
        if run is None or changed_at <= run.workspace_seq:
            heads.append(_without_content(head))
        else:
            earlier_version = read_version(snapshot, path, run=run)
            if earlier_version is not None:
                heads.append(_without_content(earlier_version))
    return heads


def write(
    unit: Unit,
    path: str,
    content: str,
    *,
    now: Instant,
    run_id: str,
    content_type: str = DEFAULT_TYPE,
    condition: WriteCondition = UNCONDITIONAL,
) -> WorkspaceFile:
    """Write the next version of a file and log the change in a run. Raises WorkflowError if there are too many."""
    check_path(path)
    check_content(content)
    current = _current_version(unit, path)
    last = current or int(unit.load_item(_REMOVED, path) or b"0")
    version = next_version(current, last, condition)
    if current is None and len(unit.load_items(HEADS)) >= MAX_FILES:
        raise WorkflowError(
            f"the workspace holds {MAX_FILES} files already; remove one first",
            openwop_code=WORKSPACE_TOO_LARGE,
            details={"maxFiles": MAX_FILES},
        )
    file = build_file(
        path=path, content=content, version=version, updated=now, content_type=content_type
    )
    position = {"place": _next_change(unit)}
    unit.put_item(HEADS, path, json_text.dump(_without_content(file) | position))
    unit.put_item(_VERSIONS + path, _version_key(version), json_text.dump(file | position))
    if version > MAX_VERSIONS:
        unit.delete_item(_VERSIONS + path, _version_key(version - MAX_VERSIONS))
    runs.emit(unit, run_id, events.WORKSPACE_UPDATED, {"path": path, "version": version}, now=now)
    return file


def remove(
    unit: Unit, path: str, *, now: Instant, run_id: str, if_match: str | None = None
) -> None:
    """Delete an existing file with all its versions and log the removal in a run.

    The removal takes a version number of its own, so that its event differs from the one of the last write and the
    number is never used for another content.
    """
    current = _current_version(unit, path)
    removal = next_version(current, current or 0, WriteCondition(if_match=if_match))
    unit.delete_item(HEADS, path)
    for number in range(max(1, removal - MAX_VERSIONS), removal):
        unit.delete_item(_VERSIONS + path, _version_key(number))
    unit.put_item(_REMOVED, path, b"%d" % removal)
    _next_change(unit)
    runs.emit(unit, run_id, events.WORKSPACE_UPDATED, {"path": path, "version": removal}, now=now)


def _decode(item: bytes) -> tuple[int, WorkspaceFile]:
    """Return the number of the change that wrote a stored version, and the file."""
    file = json_text.parse(item)
    return file.pop("place"), file


def _without_content(file: WorkspaceFile) -> WorkspaceFile:
    return {name: value for name, value in file.items() if name != "content"}


def _next_change(unit: Unit) -> int:
    """Count a change of the workspace and return its number."""
    number = int(unit.load_item(runs.WORKSPACE_CHANGES, "") or b"0") + 1
    unit.put_item(runs.WORKSPACE_CHANGES, "", b"%d" % number)
    return number


def _current_version(snapshot: Snapshot, path: str) -> int | None:
    item = snapshot.load_item(HEADS, path)
    return None if item is None else int(json_text.parse(item)["version"])


def _version_key(version: int) -> str:
    # Padded, so that keys sort as numbers do.
    return f"{version:08d}"


# --- verbs ---------------------------------------------------------------------------------------------------


def file(
    context: Context,
    access: Access,
    path: str,
    version: int | None = None,
    *,
    run_id: str | None = None,
) -> WorkspaceFile:
    """Return a workspace file as it is, in a given version, or as a run sees it. Raises NotFound."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        run = None if run_id is None else runs.load(snapshot, run_id)
        result = read_version(snapshot, path, version, run=run)
    if result is None:
        raise NotFound("no such workspace file")
    return result


def files(
    context: Context, access: Access, prefix: str = "", *, run_id: str | None = None
) -> list[WorkspaceFile]:
    """Return the heads of all workspace files under a prefix, as they are or as a run sees them."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        run = None if run_id is None else runs.load(snapshot, run_id)
        return list_heads(snapshot, prefix, run=run)


def write_file(
    context: Context,
    access: Access,
    path: str,
    content: str,
    *,
    content_type: str = "text/markdown",
    if_match: str | None = None,
    if_none_match: str | None = None,
    run_id: str | None = None,
) -> WorkspaceFile:
    """Write the next version of a workspace file; for a run, on its log and without its secrets (WSR-1).

    Raises InvalidInput if the path contains a secret of the run: a path cannot be redacted.
    """
    now, secrets = context.clock(), context.secrets
    condition = WriteCondition(if_match=if_match, if_none_match=if_none_match)
    key = None if run_id is None else (access.default_tenant, run_id)
    if key is not None and secrets.contains_secret(path, key):
        raise InvalidInput("path: holds a secret of the run")
    clean = secrets.redact_text(content, key, "file")

    def work(unit: Unit) -> WorkspaceFile:
        context.quotas_of(unit).count_write(unit, now)
        with _logging_run(context, unit, run_id, now) as log_id:
            result = write(
                unit,
                path,
                clean,
                now=now,
                run_id=log_id,
                content_type=content_type,
                condition=condition,
            )
        context.quotas_of(unit).check_bytes(unit)
        return result

    return context.engine.write(access.default_tenant, work)


def remove_file(
    context: Context,
    access: Access,
    path: str,
    *,
    if_match: str | None = None,
    run_id: str | None = None,
) -> bool:
    """Remove a workspace file, on the log of a run. Return False if there is none."""
    now = context.clock()

    def work(unit: Unit) -> bool:
        if unit.load_item(HEADS, path) is None:
            return False
        with _logging_run(context, unit, run_id, now) as log_id:
            remove(unit, path, now=now, run_id=log_id, if_match=if_match)
        return True

    return context.engine.write(access.default_tenant, work)


@contextmanager
def _logging_run(context: Context, unit: Unit, run_id: str | None, now: Instant) -> Iterator[str]:
    """Yield the id of the run that logs a change: the given one if it is open, else one begun and ended for it."""
    if run_id is not None:
        runs.load_writing(context, unit, run_id)
        yield run_id
        return
    run = runs.begin(unit, workflow_id=f"{runs.HOST_WORKFLOW}workspace", now=now)
    yield run.run_id
    runs.finish(unit, run, now=now)


# --- the index of archives -----------------------------------------------------------------------------------


def list_archives(
    unit: Unit, run_id: str, ref: str, archives: Sequence[Entry], now: Instant
) -> WorkspaceFile:
    """Write the current archives of a ref into the index; the lists of other refs stay."""
    index = _parse_index(read_version(unit, INDEX_PATH))
    index["refs"][ref] = [
        {
            "id": entry["id"],
            "checksum": next(tag for tag in entry["tags"] if tag.startswith(ARCHIVE_TAG))[8:],
            "createdAt": entry["createdAt"],
            "expiresAt": entry.get("expiresAt"),
        }
        for entry in archives
    ]
    return _write_index(unit, run_id, index, now)


def unlist_archive(unit: Unit, version: Version, now: Instant, *, is_hard: bool) -> None:
    """Remove a forgotten archive from the index; one that is erased (`is_hard`), from every version of the index.

    Versions that are no archive, or are not listed, change nothing.
    """
    if not port_of(version.document.standard).may_be_archive(version.document):
        return
    file = read_version(unit, INDEX_PATH)
    index, name = _parse_index(file), version.document.name
    remaining = {
        ref: [archive for archive in archives if not _has_id(archive, name)]
        for ref, archives in index["refs"].items()
    }
    if file is None or remaining == index["refs"]:
        return
    run = runs.begin(unit, workflow_id=f"{runs.HOST_WORKFLOW}workspace", now=now)
    if is_hard:
        remove(unit, INDEX_PATH, now=now, run_id=run.run_id)
    index["refs"] = {ref: archives for ref, archives in remaining.items() if archives}
    _write_index(unit, run.run_id, index, now)
    runs.finish(unit, run, now=now)


def _has_id(archive: object, name: str) -> bool:
    return isinstance(archive, dict) and archive.get("id") == name


def _write_index(
    unit: Unit, run_id: str, index: Mapping[str, object], now: Instant
) -> WorkspaceFile:
    content = json_text.dump_pretty(index) + "\n"
    return write(unit, INDEX_PATH, content, now=now, run_id=run_id, content_type="application/json")


def _parse_index(file: WorkspaceFile | None) -> dict[str, Any]:
    """Return the index that a file holds; an empty one if there is none, or if someone wrote something else there."""
    try:
        index = json_text.parse(file["content"]) if file is not None else None
    except InvalidInput:
        index = None
    if isinstance(index, dict) and isinstance(index.get("refs"), dict):
        refs = {
            ref: archives for ref, archives in index["refs"].items() if isinstance(archives, list)
        }
        return {**index, "refs": refs}
    return {"refs": {}}
