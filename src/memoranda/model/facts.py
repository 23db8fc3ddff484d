"""The field index of a version: its fields in a form independent of the standard, for structured queries.

The index is computed from the grain of a version (the form into which every document can be translated), and stored
with the version. Texts are compared only for equality, numbers also by order.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from memoranda.model.instant import Instant
from memoranda.model.memory import OpenedDocument, Projection


class FieldIndex(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of one version. `form` is empty if the version cannot be queried by fields."""

    address: str = ""
    form: str = ""
    at: Instant
    confidence: float | None = None
    importance: float | None = None
    subject: str = ""
    relation: str = ""
    object: str = ""
    # Further fields as (name, value); a name may occur several times.
    texts: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, float], ...] = ()


class DocumentReading(NamedTuple):
    """All that is computed from a document when it is written: projection, field index and names."""

    projection: Projection
    field_index: FieldIndex
    # (standard, name)
    names: tuple[tuple[str, str], ...]


class QueriedDocument(NamedTuple):
    """A document with the part of its state that queries need; cheaper than `Version` when many are read."""

    version_id: int
    document: OpenedDocument
    address: str
    verification: str
    is_superseded: bool
    closed: Instant | None
