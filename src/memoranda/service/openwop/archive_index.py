"""MEMORY-INDEX.json, the workspace file that says where the archives of distillations are (RFC 0004).

An archive that is forgotten, whichever standard asks for it, goes out of the file in the same unit of work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.service.openwop import runs, workspace
from memoranda.standards.openwop.entry import ARCHIVE_TAG, Entry
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Unit

INDEX_PATH: Final = "MEMORY-INDEX.json"


def put(
    unit: Unit, run_id: str, ref: str, archives: Sequence[Entry], now: Instant
) -> dict[str, Any]:
    """Say which archives of a ref there are."""
    known = _known(workspace.read(unit, INDEX_PATH))
    known["refs"][ref] = [
        {
            "id": entry["id"],
            "checksum": next(tag for tag in entry["tags"] if tag.startswith(ARCHIVE_TAG))[8:],
            "createdAt": entry["createdAt"],
            "expiresAt": entry.get("expiresAt"),
        }
        for entry in archives
    ]
    return _write(unit, run_id, known, now)


def unlist(unit: Unit, version: Version, now: Instant, *, is_hard: bool) -> None:
    """Take an archive that goes out of the file; if it goes for good, out of every version of it."""
    if not port_of(version.document.standard).may_be_archive(version.document):
        return
    file = workspace.read(unit, INDEX_PATH)
    known, name = _known(file), version.document.name
    left = {
        ref: [each for each in listed if not _names(each, name)]
        for ref, listed in known["refs"].items()
    }
    if file is None or left == known["refs"]:
        return
    run = runs.begin(unit, workflow_id=f"{runs.HOST_WORKFLOW}workspace", now=now)
    if is_hard:
        workspace.remove(unit, INDEX_PATH, now=now, run_id=run.run_id)
    _write(
        unit,
        run.run_id,
        {**known, "refs": {ref: listed for ref, listed in left.items() if listed}},
        now,
    )
    runs.finish(unit, run, now=now)


def _names(listed: object, name: str) -> bool:
    return isinstance(listed, dict) and listed.get("id") == name


def _write(unit: Unit, run_id: str, known: dict[str, Any], now: Instant) -> dict[str, Any]:
    content = json_text.dump_pretty(known) + "\n"
    return workspace.write(
        unit, INDEX_PATH, content, now=now, run_id=run_id, content_type="application/json"
    )


def _known(kept: dict[str, Any] | None) -> dict[str, Any]:
    """What the file says so far; anybody may write it, and what is no index is made anew."""
    try:
        known = json_text.parse(kept["content"]) if kept is not None else None
    except InvalidInput:
        known = None
    if isinstance(known, dict) and isinstance(known.get("refs"), dict):
        refs = {ref: listed for ref, listed in known["refs"].items() if isinstance(listed, list)}
        return {**known, "refs": refs}
    return {"refs": {}}
