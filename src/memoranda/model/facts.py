"""What a version can be asked for field by field, without any standard's words.

The field index of a version is read from the one form in which every memory can be shown, and written with the
version. Texts are compared for equality alone, numbers also by order.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from memoranda.model.instant import Instant
from memoranda.model.memory import Opened, Projection


class FieldIndex(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one version says, field by field. A version that cannot be asked for has no form."""

    address: str = ""
    form: str = ""
    at: Instant
    confidence: float | None = None
    importance: float | None = None
    subject: str = ""
    relation: str = ""
    object: str = ""
    # Further fields by name; a name may stand several times.
    texts: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, float], ...] = ()


class Said(NamedTuple):
    """What a document says, as it was when it was written: how it is read, its fields, and its names."""

    projection: Projection
    field_index: FieldIndex
    # (standard, name)
    names: tuple[tuple[str, str], ...]


class Kept(NamedTuple):
    """A document with the little of its state that a query shows: what there is to a version when many are read."""

    version_id: int
    document: Opened
    address: str
    verification: str
    is_superseded: bool
    closed: Instant | None
