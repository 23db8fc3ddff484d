"""Carried parts: the document inside an item of a file, and the state that another store attached to it.

Anybody may have written the file, so if a carried document is malformed, the item itself is still read.

A file may contain one memory in several standards: the item itself, the original that it was translated from, and what
a store knew about it. `read_or_none` turns a malformed original into None, while a malformed state is refused with its
place. The caller decides which part is the memory; what is returned here is not verified yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from memoranda.errors import GrainError, InvalidInput, MemorandaError, StoreCorrupt
from memoranda.model.instant import LATEST, parse_instant
from memoranda.model.memory import STATE_KEY
from memoranda.service.core.views import read_carried_bounds, read_carried_state
from memoranda.service.oms.grains import VERIFICATIONS
from memoranda.standards.oms.manifest import DEFAULT, UNVERIFIED, IndexState
from memoranda.standards.ump.shapes import Record

T = TypeVar("T")


def read_or_none(action: Callable[[], T | None]) -> T | None:
    """Return the result of reading a carried document; None if the document is malformed."""
    try:
        return action()
    except (MemorandaError, LookupError, TypeError, ValueError, AttributeError):
        return None


def read_index_state(record: Record) -> IndexState:
    """Return the state that another store attached to a record, as an index entry. Raises InvalidInput."""
    state, location = read_carried_state(record), f"body.structured.{STATE_KEY}"
    verdict, closed_at = state.get("verification", UNVERIFIED), state.get("closed")
    begins = state.get("valid_from")
    if verdict not in VERIFICATIONS:
        raise InvalidInput(f"{location}.verification must be one of {', '.join(VERIFICATIONS)}")
    if closed_at is not None and (type(closed_at) is not int or not 0 <= closed_at <= LATEST):
        raise InvalidInput(f"{location}.closed must be an instant in milliseconds")
    try:
        valid_from = None if begins is None else parse_instant(begins)
    except (InvalidInput, TypeError, ValueError):
        raise InvalidInput(f"{location}.valid_from must be a date and time") from None
    try:
        read_carried_bounds(record)
    except StoreCorrupt:
        raise InvalidInput(
            f"{location}.bounds does not state the restrictions of a memory"
        ) from None
    try:
        index = IndexState(
            verification_status=verdict,
            system_valid_to=closed_at,
            superseded_by=state.get("successor"),
            supersedes=tuple(state.get("supersedes", ())),
            valid_from=valid_from,
        )
    except (GrainError, TypeError):
        message = f"{location}: successor must be the address of a grain, supersedes a list of addresses and ids"
        raise InvalidInput(message) from None
    return DEFAULT if index == DEFAULT else index
