"""openwop entries to and from the neutral model.

Towards the model: what the store filters, ranks and links by. From the model: how a memory written through another
standard looks as an entry. An entry has no room for the original, so such a view is for reading only.

An entry has no words for where it came from; tags stand for them: `source:<what>` names its provenance,
`derived-from:<id>` an entry it was made from, `compacted-from:<run>` the run of the pass that made it (RFC 0012).
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput
from memoranda.model.memory import DERIVED_FROM, Projection, Relation, Scope
from memoranda.model.standard import OPENWOP
from memoranda.standards.openwop.entry import (
    MAX_CONTENT_BYTES,
    MAX_TAG_CHARS,
    MAX_TAGS,
    Entry,
    check_entry,
    check_id,
    created_of,
    expires_of,
)
from memoranda.standards.openwop.entry import entry as make_entry

STANDARD: Final = OPENWOP
MEDIA_TYPE: Final = "application/vnd.openwop.memory-entry+json"
SOURCE_PREFIX: Final = "source:"
DERIVED_PREFIX: Final = "derived-from:"
COMPACTED_PREFIX: Final = "compacted-from:"

_DERIVED: Final = re.compile(r"derived-from:[^\s:]\S*")
# The largest entry: its content, each byte escaped at worst as six, and its tags.
_MAX_NATIVE_BYTES: Final = 8 * MAX_CONTENT_BYTES


def project(entry: Entry, tenant: str, space: str) -> Projection:
    """Read a checked entry without openwop's words."""
    created = created_of(entry)
    tags = tuple(tag for tag in entry["tags"] if tag)
    return Projection(
        kind="semantic",
        # What is shown through other standards must say something.
        text=entry["content"] or entry["id"],
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
        source=next((tag.removeprefix(SOURCE_PREFIX) for tag in tags if tag.startswith(SOURCE_PREFIX)), ""),
        subject=tenant,
    )


def from_projection(projection: Projection, name: str) -> Entry:
    """A memory of another standard as an entry; its id is the name that its own standard gives it."""
    tags = [tag[:MAX_TAG_CHARS] for tag in projection.tags]
    if projection.source:
        # MemoryEntry.tags: a `source:` prefix SHOULD name provenance.
        tags.append(f"{SOURCE_PREFIX}{projection.source}"[:MAX_TAG_CHARS])
    derived = (f"{DERIVED_PREFIX}{each.target}" for each in projection.relations if each.type == DERIVED_FROM)
    tags.extend(tag for tag in derived if len(tag) <= MAX_TAG_CHARS and _DERIVED.fullmatch(tag))
    return make_entry(
        id=_id(name),
        content=_bearable(projection.text),
        tags=list(dict.fromkeys(map(_unicode, tags)))[:MAX_TAGS],
        created=projection.created,
        expires=projection.expires,
    )


def encode(entry: Entry) -> bytes:
    """The native document of an entry: compact JSON, fields as they came."""
    return json_text.dump(entry)


def decode(native: bytes) -> Entry:
    """The entry of a native document. Raises InvalidInput."""
    return check_entry(json_text.parse(native, max_bytes=_MAX_NATIVE_BYTES))


def _id(name: str) -> str:
    try:
        return check_id(name, "id")
    except InvalidInput:
        return "sha256:" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _bearable(text: str) -> str:
    """As much of a text as an entry may say; its own standard shows the rest."""
    if len(text) * 4 <= MAX_CONTENT_BYTES and json_text.is_unicode(text):
        return text
    return text.encode("utf-8", "replace")[:MAX_CONTENT_BYTES].decode("utf-8", "ignore")
