"""Records that carry the document they were made from: whether one is that document's view, or says something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.bounds import decode
from memoranda.model.memory import Bounds, Document
from memoranda.model.native import CUT_KEY, NATIVE_KEY, STATE_KEY
from memoranda.service.core.views import Speaking, record_of
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump.shapes import Record

_STATE_FIELDS: Final = ("ump", "integrity", "superseded_by")


def viewed(context: Speaking, record: Record) -> Document | None:
    """The document that a record is the view of. One that says anything else is only what it says."""
    inner = ump.unwrap(record)
    try:
        return inner if inner is not None and is_view(context, record, inner) else None
    except (MemorandaError, LookupError, TypeError, AttributeError, ValueError):
        # Anybody may have put it there.
        return None


def is_view(context: Speaking, record: Record, inner: Document) -> bool:
    """Whether a record says just what its view of a document says, but for what a store may say about it later."""
    tenant, space = record["scope"]["owner"], record["scope"].get("project", "")
    shown = record_of(context, inner, tenant, space)
    kept = bounds_of(record)
    return _without_state(
        shown if kept is None else ump.with_bounds(shown, kept)
    ) == _without_state(record)


def bounds_of(record: Record) -> Bounds | None:
    """What earlier versions bind a document to, as the record around it tells. Raises StoreCorrupt."""
    kept = state_of(record).get("bounds")
    return None if kept is None else decode(dump(kept))


def state_of(record: Record) -> Mapping[str, Any]:
    """What another store knew of a record beside what it says. Raises InvalidInput."""
    known = (record["body"].get("structured") or {}).get(STATE_KEY, {})
    if not isinstance(known, dict):
        raise InvalidInput(f"body.structured.{STATE_KEY} must be an object")
    return known


def _without_state(record: Record) -> dict[str, Any]:
    """A record without what a store may say about it later, and without the original inside."""
    fields: Mapping[str, Any] = record
    kept = {name: value for name, value in fields.items() if name not in _STATE_FIELDS}
    body, lifecycle = kept["body"], dict(kept.get("lifecycle", {}))
    lifecycle.pop("status", None)
    carried = (NATIVE_KEY, STATE_KEY, CUT_KEY)
    structured = {
        name: value for name, value in (body.get("structured") or {}).items() if name not in carried
    }
    time = {name: value for name, value in kept["time"].items() if name != "valid_to"}
    bare = {name: value for name, value in body.items() if name != "structured"}
    return {
        **kept,
        "body": {**bare, "structured": structured},
        "time": time,
        "lifecycle": lifecycle,
    }
