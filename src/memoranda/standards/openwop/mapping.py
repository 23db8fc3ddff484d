"""openwop entries to and from the neutral model.

`project` maps an entry to the fields that the store filters, ranks and links by. `from_projection` shows a memory of
another standard as an entry. An entry cannot contain the original, so such a view is read-only.

An entry has no fields for its origin, so tags express it: `source:<source>` its provenance, `derived-from:<id>` an
entry it was derived from, and `compacted-from:<run>` the run that created it (RFC 0012).
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput
from memoranda.model.memory import DERIVED_FROM, OPENWOP, Document, Projection, Relation, Scope
from memoranda.model.titles import collect_titles
from memoranda.standards.openwop.entry import (
    MAX_CONTENT_BYTES,
    MAX_TAG_CHARS,
    MAX_TAGS,
    Entry,
    build_entry,
    check_entry,
    check_id,
    created_of,
    expires_of,
)

STANDARD: Final = OPENWOP
MEDIA_TYPE: Final = "application/vnd.openwop.memory-entry+json"
SOURCE_PREFIX: Final = "source:"
DERIVED_PREFIX: Final = "derived-from:"
COMPACTED_PREFIX: Final = "compacted-from:"

_DERIVED: Final = re.compile(r"derived-from:[^\s:]\S*")
# Bytes of the largest entry: its content with six bytes per escaped byte, and its tags.
_MAX_NATIVE_BYTES: Final = 8 * MAX_CONTENT_BYTES


def owns(document: Document) -> bool:
    """Return True if a document is an entry."""
    return document.standard == STANDARD


def project(entry: Entry, tenant: str, space: str) -> Projection:
    """Map a checked entry to the neutral model."""
    created = created_of(entry)
    tags = tuple(tag for tag in entry["tags"] if tag)
    return Projection(
        kind="semantic",
        # The text must not be empty in other standards.
        text=entry["content"] or entry["id"],
        titles=collect_titles({}, tags, (entry["id"],)),
        scope=Scope(tenant=tenant, space=space),
        created=created,
        observed=created,
        valid_from=created,
        expires=expires_of(entry),
        tags=tags,
        relations=tuple(
            Relation(type=DERIVED_FROM, target=tag.removeprefix(DERIVED_PREFIX))
            for tag in tags
            if _DERIVED.fullmatch(tag)
        ),
        source=next(
            (tag.removeprefix(SOURCE_PREFIX) for tag in tags if tag.startswith(SOURCE_PREFIX)), ""
        ),
        subject=tenant,
    )


def from_projection(projection: Projection, name: str) -> Entry:
    """Return a memory of another standard as an entry; its id is its name in its own standard."""
    tags = [tag[:MAX_TAG_CHARS] for tag in projection.tags]
    if projection.source:
        # MemoryEntry.tags: a `source:` prefix SHOULD name provenance.
        tags.append(f"{SOURCE_PREFIX}{projection.source}"[:MAX_TAG_CHARS])
    derived = (
        f"{DERIVED_PREFIX}{link.target}"
        for link in projection.relations
        if link.type == DERIVED_FROM
    )
    tags.extend(tag for tag in derived if len(tag) <= MAX_TAG_CHARS and _DERIVED.fullmatch(tag))
    return build_entry(
        id=_entry_id(name),
        content=_cut_text(projection.text),
        tags=list(dict.fromkeys(map(_replace_surrogates, tags)))[:MAX_TAGS],
        created=projection.created,
        expires=projection.expires,
    )


def encode(entry: Entry) -> bytes:
    """Encode an entry as its native document: compact JSON in the order of its fields."""
    return json_text.dump(entry)


def decode(native: bytes) -> Entry:
    """Decode the entry of a native document. Raises InvalidInput."""
    return check_entry(json_text.parse(native, max_bytes=_MAX_NATIVE_BYTES))


def _entry_id(name: str) -> str:
    """Return the name as an id, or its digest if it is not a valid id."""
    try:
        return check_id(name, "id")
    except InvalidInput:
        return "sha256:" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _cut_text(text: str) -> str:
    """Cut a text to the maximum length of an entry; its own standard shows the rest."""
    if len(text) * 4 <= MAX_CONTENT_BYTES and json_text.is_unicode(text):
        return text
    return text.encode("utf-8", "replace")[:MAX_CONTENT_BYTES].decode("utf-8", "ignore")
