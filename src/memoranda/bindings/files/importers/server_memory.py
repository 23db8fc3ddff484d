"""The knowledge graph of MCP's reference `server-memory`: one entity or relation on each line.

Every observation is a memory about its entity, and so is every relation. The file has no times: memories get the time
of its last change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    read_drafts,
    read_text,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.errors import InvalidInput

_TYPES: Final = ("entity", "relation")
# Types of the entities that our exports make of users and projects; their observations are the texts of memories.
OUR_USER: Final = "memoranda:user"
OUR_PROJECT: Final = "memoranda:project"


def _recognise(source: ImportSource) -> float:
    document = source.first
    if not isinstance(document, dict) or document.get("type") not in _TYPES:
        return 0.0
    return (
        0.95
        if "observations" in document or {"from", "to", "relationType"} <= document.keys()
        else 0.0
    )


def _read_server_memory(source: ImportSource) -> Iterator[DraftResult]:
    yield from read_drafts(
        _split_entities(source), lambda document, where: _build_draft(document, where, source)
    )


def _split_entities(source: ImportSource) -> Iterator[tuple[str, object]]:
    """Yield relations, and entities with one observation each: every one of them is a memory."""
    for location, document in source.read_documents():
        observations = document.get("observations") if isinstance(document, dict) else None
        if not isinstance(observations, list) or not observations:
            yield location, document
        else:
            yield from (
                (location, {**document, "observations": [observation]})
                for observation in observations
            )


def _build_draft(document: dict[str, object], location: str, source: ImportSource) -> ImportDraft:
    if document.get("type") not in _TYPES:
        raise InvalidInput("neither an entity nor a relation")
    return (_draft_relation if document["type"] == "relation" else _draft_entity)(
        document, location, source
    )


def _draft_entity(document: dict[str, object], location: str, source: ImportSource) -> ImportDraft:
    name, kind, observations = (
        read_text(document, "name"),
        read_text(document, "entityType"),
        document.get("observations"),
    )
    if not name or not isinstance(observations, list):
        raise InvalidInput("an entity needs a `name` and a list of `observations`")
    # An entity without observations is a memory, too.
    statement, metadata = f"{name} is a {kind}" if kind else name, {}
    if observations:
        (observation,) = observations
        if not isinstance(observation, str) or not observation.strip():
            raise InvalidInput(f"an observation of {name} is no text")
        statement, metadata = f"{name}: {observation}", {"entity": name}
    if observations and kind in (OUR_USER, OUR_PROJECT):
        user, scope = (name, "") if kind == OUR_USER else ("", name)
        return ImportDraft(
            where=location,
            id=statement,
            text=observation,
            original=document,
            user=user,
            scope=scope,
            created=source.modified,
        )
    return ImportDraft(
        where=location,
        id=statement if observations else name,
        text=statement,
        original=document,
        tags=(kind,) if kind else (),
        created=source.modified,
        metadata=metadata,
    )


def _draft_relation(
    document: dict[str, object], location: str, source: ImportSource
) -> ImportDraft:
    ends = (
        read_text(document, "from"),
        read_text(document, "relationType"),
        read_text(document, "to"),
    )
    if not all(ends):
        raise InvalidInput("a relation needs `from`, `to` and `relationType`")
    subject, relation, target = ends
    return ImportDraft(
        where=location,
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
    read_drafts=_read_server_memory,
    mapping=(
        FieldMapping("entity: each of `observations`", "a memory `name: observation`"),
        FieldMapping("entity: `name`", "`metadata.entity`"),
        FieldMapping("entity: `entityType`", "a tag"),
        FieldMapping(
            "entity of our exports: `memoranda:user`, `memoranda:project`",
            "the user or scope of its observations",
        ),
        FieldMapping("relation: `from`, `relationType`, `to`", "a memory of all three parts"),
        FieldMapping("(no times)", "the time of the file"),
    ),
)
