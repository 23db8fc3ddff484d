"""The knowledge graph of MCP's reference `server-memory`: one entity or relation a line.

Every observation is a memory about its entity; so is every relation. The file keeps no times: its own is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    read_drafts,
    read_text,
)
from memoranda.bindings.files.importers.source import Source
from memoranda.errors import InvalidInput

_TYPES: Final = ("entity", "relation")
# What our exports call a user and a project as an entity: an observation about one is the text of a memory.
OUR_USER: Final = "memoranda:user"
OUR_PROJECT: Final = "memoranda:project"


def _recognise(source: Source) -> float:
    document = source.first
    if not isinstance(document, dict) or document.get("type") not in _TYPES:
        return 0.0
    return (
        0.95
        if "observations" in document or {"from", "to", "relationType"} <= document.keys()
        else 0.0
    )


def _read(source: Source) -> Iterator[DraftResult]:
    yield from read_drafts(_parts(source), lambda document, where: _draft(document, where, source))


def _parts(source: Source) -> Iterator[tuple[str, Any]]:
    """Relations, and entities with one observation at a time: each of them is a memory."""
    for where, document in source.read_documents():
        several = document.get("observations") if isinstance(document, dict) else None
        if not isinstance(several, list) or not several:
            yield where, document
        else:
            yield from ((where, {**document, "observations": [each]}) for each in several)


def _draft(document: dict[str, Any], where: str, source: Source) -> ImportDraft:
    if document.get("type") not in _TYPES:
        raise InvalidInput("neither an entity nor a relation")
    return (_relation if document["type"] == "relation" else _entity)(document, where, source)


def _entity(document: dict[str, Any], where: str, source: Source) -> ImportDraft:
    name, kind, observations = (
        read_text(document, "name"),
        read_text(document, "entityType"),
        document.get("observations"),
    )
    if not name or not isinstance(observations, list):
        raise InvalidInput("an entity needs a `name` and a list of `observations`")
    # Known, though nothing is known of it, if there is none.
    said, more = f"{name} is a {kind}" if kind else name, {}
    if observations:
        (observation,) = observations
        if not isinstance(observation, str) or not observation.strip():
            raise InvalidInput(f"an observation of {name} is no text")
        said, more = f"{name}: {observation}", {"entity": name}
    if observations and kind in (OUR_USER, OUR_PROJECT):
        user, place = (name, "") if kind == OUR_USER else ("", name)
        return ImportDraft(
            where=where,
            id=said,
            text=observation,
            original=document,
            user=user,
            place=place,
            created=source.modified,
        )
    return ImportDraft(
        where=where,
        id=said if observations else name,
        text=said,
        original=document,
        tags=(kind,) if kind else (),
        created=source.modified,
        metadata=more,
    )


def _relation(document: dict[str, Any], where: str, source: Source) -> ImportDraft:
    ends = (
        read_text(document, "from"),
        read_text(document, "relationType"),
        read_text(document, "to"),
    )
    if not all(ends):
        raise InvalidInput("a relation needs `from`, `to` and `relationType`")
    subject, relation, target = ends
    return ImportDraft(
        where=where,
        id=" → ".join(ends),
        text=f"{subject} {relation.replace('_', ' ')} {target}",
        original=document,
        created=source.modified,
        metadata={"entity": subject},
    )


SERVER_MEMORY: Final = Importer(
    name="server-memory",
    title="MCP server-memory",
    recognise=_recognise,
    read=_read,
    mapping=(
        FieldMapping("entity: each of `observations`", "a memory `name: observation`"),
        FieldMapping("entity: `name`", "`metadata.entity`"),
        FieldMapping("entity: `entityType`", "a tag"),
        FieldMapping(
            "entity of our exports: `memoranda:user`, `memoranda:project`",
            "the user or scope of its observations",
        ),
        FieldMapping("relation: `from`, `relationType`, `to`", "a memory that says all three"),
        FieldMapping("(no times)", "when the file was last written"),
    ),
)
