"""Two formats of the name Memory Interchange Format (MIF): documents with `mif_version` and `memories`, with their
knowledge graph, and memories as JSON-LD, one a file, as an array, one a line or as `@graph`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    first_moment,
    read_drafts,
    read_moment,
    read_object,
    read_text,
    read_texts,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.errors import InvalidInput
from memoranda.model.memory import Kind

_GRAPH: Final = "@graph"
_LINKED: Final = ("Memory", "Concept")
_KINDS: Final[dict[str, Kind]] = {
    "episodic": "episodic",
    "procedural": "procedural",
    "conversation": "episodic",
}


def _recognise(source: ImportSource) -> float:
    if source.starts_with(b"{") and b'"mif_version"' in source.head:
        return 0.95 if {"mif_version", "memories"} <= source.fields.keys() else 0.0
    if b'"@id"' not in source.head:
        return 0.0
    documents = [
        *source.first_documents(_GRAPH),
        {name: source.value(name) for name in ("@type", "content")},
    ]
    return (
        0.9
        if any(
            document.get("@type") in _LINKED and read_text(document, "content")
            for document in documents
        )
        else 0.0
    )


def _read_mif(source: ImportSource) -> Iterator[DraftResult]:
    if "mif_version" in source.fields:
        yield from read_drafts(
            source.read_documents("memories"), partial(_draft_memory, source=source)
        )
        graph = source.value("knowledge_graph")
        yield from _read_graph(graph, source) if isinstance(graph, dict) else ()
    elif _GRAPH in source.fields:
        yield from read_drafts(source.read_documents(_GRAPH), partial(_draft_linked, source=source))
    elif source.fields:
        document = {name: source.value(name) for name in source.fields}
        yield from read_drafts([(source.name, document)], partial(_draft_linked, source=source))
    else:
        yield from read_drafts(source.read_documents(), partial(_draft_linked, source=source))


def _draft_memory(
    document: dict[str, object], location: str, *, source: ImportSource
) -> ImportDraft:
    name, text = read_text(document, "id"), read_text(document, "content")
    if not name or not text:
        raise InvalidInput("not a memory of MIF: it needs an `id` and a `content`")
    kind, origin, their_fields = (
        read_text(document, "memory_type"),
        read_object(document, "source"),
        document.get("metadata"),
    )
    return ImportDraft(
        where=location,
        id=name,
        text=text,
        original={field: value for field, value in document.items() if field != "embeddings"},
        session=read_text(origin, "session_id"),
        kind=_KINDS.get(kind.lower(), "semantic"),
        tags=(kind.lower(), *read_texts(document, "tags")),
        created=first_moment(read_moment(document, "created_at"), source.modified),
        updated=read_moment(document, "updated_at"),
        parent=read_text(document, "parent_id"),
        metadata={"mif_metadata": their_fields}
        if isinstance(their_fields, dict) and their_fields
        else {},
    )


def _read_graph(graph: dict[str, object], source: ImportSource) -> Iterator[DraftResult]:
    """Yield the relations between entities, which refer to entities by id."""
    lists = (graph.get(name) for name in ("entities", "relationships"))
    entities, relations = (item if isinstance(item, list) else [] for item in lists)
    names = {
        read_text(item, "id"): read_text(item, "name")
        for item in entities
        if isinstance(item, dict)
    }
    numbered = (
        (f"{source.name}: relationship {number}", item)
        for number, item in enumerate(relations, start=1)
    )
    yield from read_drafts(numbered, partial(_draft_relation, names=names, source=source))


def _draft_relation(
    document: dict[str, object], location: str, *, names: dict[str, str], source: ImportSource
) -> ImportDraft:
    ends = [
        read_text(document, field)
        for field in ("source_entity_id", "relation_type", "target_entity_id")
    ]
    if not all(ends):
        raise InvalidInput("a relationship of MIF needs two entities and a `relation_type`")
    subject, relation, target = ends
    confidence = document.get("confidence")
    return ImportDraft(
        where=location,
        id=read_text(document, "id") or " ".join(ends),
        text=f"{names.get(subject) or subject} {relation.replace('_', ' ').lower()} {names.get(target) or target}",
        original=document,
        tags=(relation,),
        created=first_moment(read_moment(document, "created_at"), source.modified),
        valid_to=read_moment(document, "invalidated_at"),
        confidence=confidence if isinstance(confidence, int | float) else None,
    )


def _draft_linked(
    document: dict[str, object], location: str, *, source: ImportSource
) -> ImportDraft:
    name, text = read_text(document, "@id", "id"), read_text(document, "content")
    if not name or not text:
        raise InvalidInput("not a memory of MIF: it needs an `@id` and a `content`")
    kind = read_text(document, "memoryType", "conceptType")
    times, origin = read_object(document, "temporal"), read_object(document, "provenance")
    confidence = origin.get("confidence")
    made_from = origin.get("wasDerivedFrom") or origin.get("prov:wasDerivedFrom")
    return ImportDraft(
        where=location,
        id=name,
        text=text,
        original={field: value for field, value in document.items() if field != "embedding"},
        scope=read_text(document, "namespace"),
        kind=_KINDS.get(kind.lower(), "semantic"),
        tags=(kind.lower(), *read_texts(document, "tags")),
        created=first_moment(
            read_moment(document, "created"), read_moment(times, "recordedAt"), source.modified
        ),
        updated=read_moment(document, "modified"),
        valid_from=read_moment(times, "validFrom"),
        valid_to=read_moment(times, "validUntil"),
        confidence=confidence if isinstance(confidence, int | float) else None,
        source=read_text(made_from, "@id") if isinstance(made_from, dict) else "",
        metadata={"title": title} if (title := read_text(document, "title")) else {},
    )


MIF: Final = Importer(
    name="mif",
    title="Memory Interchange Format (MIF)",
    recognise=_recognise,
    read_drafts=_read_mif,
    mapping=(
        FieldMapping("`content`", "`value`"),
        FieldMapping("`id`, or `@id`", "`key`"),
        FieldMapping(
            "`memory_type`, or `memoryType`; `tags`",
            "`tags`; `episodic` and `procedural` are also kinds of memory",
        ),
        FieldMapping(
            "`created_at`, `updated_at`, or `created`, `modified`", "`created_at`, `updated_at`"
        ),
        FieldMapping(
            "`source.session_id`, `parent_id`, `metadata`",
            "session, `parent_id`, `metadata.mif_metadata`",
        ),
        FieldMapping(
            "`knowledge_graph`: a relationship",
            "a memory of all three parts; true until `invalidated_at`",
        ),
        FieldMapping("JSON-LD: `namespace`, `title`", "scope, `metadata.title`"),
        FieldMapping("JSON-LD: `temporal.validFrom`, `validUntil`", "valid time"),
        FieldMapping(
            "JSON-LD: `provenance.confidence`, `wasDerivedFrom`",
            "`metadata.confidence`, `source_id`",
        ),
        FieldMapping("embeddings", "computed again"),
    ),
)
