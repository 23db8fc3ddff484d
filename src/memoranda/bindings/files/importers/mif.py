"""Two formats of the name Memory Interchange Format (MIF): documents with `mif_version` and `memories`, with their
knowledge graph, and memories as JSON-LD, one a file, as an array, one a line or as `@graph`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from memoranda.bindings.files.importers.importer import (
    Draft,
    Found,
    Importer,
    Mapped,
    drafts,
    first_of,
    moment_in,
    object_in,
    text_in,
    texts_in,
)
from memoranda.bindings.files.importers.source import Source
from memoranda.errors import InvalidInput
from memoranda.model.memory import Kind

_GRAPH: Final = "@graph"
_LINKED: Final = ("Memory", "Concept")
_KINDS: Final[dict[str, Kind]] = {
    "episodic": "episodic",
    "procedural": "procedural",
    "conversation": "episodic",
}


def _recognise(source: Source) -> float:
    if source.starts(b"{") and b'"mif_version"' in source.head:
        return 0.95 if {"mif_version", "memories"} <= source.fields.keys() else 0.0
    if b'"@id"' not in source.head:
        return 0.0
    told = [*source.firsts(_GRAPH), {name: source.value(name) for name in ("@type", "content")}]
    return (
        0.9
        if any(each.get("@type") in _LINKED and text_in(each, "content") for each in told)
        else 0.0
    )


def _read(source: Source) -> Iterator[Found]:
    if "mif_version" in source.fields:
        yield from drafts(source.listed("memories"), partial(_memory, source=source))
        graph = source.value("knowledge_graph")
        yield from _graph(graph, source) if isinstance(graph, dict) else ()
    elif _GRAPH in source.fields:
        yield from drafts(source.listed(_GRAPH), partial(_linked, source=source))
    elif source.fields:
        document = {name: source.value(name) for name in source.fields}
        yield from drafts([(source.name, document)], partial(_linked, source=source))
    else:
        yield from drafts(source.listed(), partial(_linked, source=source))


def _memory(document: dict[str, Any], where: str, *, source: Source) -> Draft:
    name, text = text_in(document, "id"), text_in(document, "content")
    if not name or not text:
        raise InvalidInput("not a memory of MIF: it needs an `id` and a `content`")
    kind, origin, theirs = (
        text_in(document, "memory_type"),
        object_in(document, "source"),
        document.get("metadata"),
    )
    return Draft(
        where=where,
        id=name,
        text=text,
        original={field: value for field, value in document.items() if field != "embeddings"},
        session=text_in(origin, "session_id"),
        kind=_KINDS.get(kind.lower(), "semantic"),
        tags=(kind.lower(), *texts_in(document, "tags")),
        created=first_of(moment_in(document, "created_at"), source.modified),
        updated=moment_in(document, "updated_at"),
        parent=text_in(document, "parent_id"),
        metadata={"mif_metadata": theirs} if isinstance(theirs, dict) and theirs else {},
    )


def _graph(graph: dict[str, Any], source: Source) -> Iterator[Found]:
    """Relations between entities, which they name."""
    listed = (graph.get(name) for name in ("entities", "relationships"))
    entities, relations = (each if isinstance(each, list) else [] for each in listed)
    names = {
        text_in(each, "id"): text_in(each, "name") for each in entities if isinstance(each, dict)
    }
    places = (
        (f"{source.name}: relationship {number}", each)
        for number, each in enumerate(relations, start=1)
    )
    yield from drafts(places, partial(_relation, names=names, source=source))


def _relation(
    document: dict[str, Any], where: str, *, names: dict[str, str], source: Source
) -> Draft:
    ends = [
        text_in(document, each)
        for each in ("source_entity_id", "relation_type", "target_entity_id")
    ]
    if not all(ends):
        raise InvalidInput("a relationship of MIF needs two entities and a `relation_type`")
    subject, relation, target = ends
    confidence = document.get("confidence")
    return Draft(
        where=where,
        id=text_in(document, "id") or " ".join(ends),
        text=f"{names.get(subject) or subject} {relation.replace('_', ' ').lower()} {names.get(target) or target}",
        original=document,
        tags=(relation,),
        created=first_of(moment_in(document, "created_at"), source.modified),
        valid_to=moment_in(document, "invalidated_at"),
        confidence=confidence if isinstance(confidence, int | float) else None,
    )


def _linked(document: dict[str, Any], where: str, *, source: Source) -> Draft:
    name, text = text_in(document, "@id", "id"), text_in(document, "content")
    if not name or not text:
        raise InvalidInput("not a memory of MIF: it needs an `@id` and a `content`")
    kind = text_in(document, "memoryType", "conceptType")
    times, origin = object_in(document, "temporal"), object_in(document, "provenance")
    confidence = origin.get("confidence")
    made_from = origin.get("wasDerivedFrom") or origin.get("prov:wasDerivedFrom")
    return Draft(
        where=where,
        id=name,
        text=text,
        original={field: value for field, value in document.items() if field != "embedding"},
        place=text_in(document, "namespace"),
        kind=_KINDS.get(kind.lower(), "semantic"),
        tags=(kind.lower(), *texts_in(document, "tags")),
        created=first_of(
            moment_in(document, "created"), moment_in(times, "recordedAt"), source.modified
        ),
        updated=moment_in(document, "modified"),
        valid_from=moment_in(times, "validFrom"),
        valid_to=moment_in(times, "validUntil"),
        confidence=confidence if isinstance(confidence, int | float) else None,
        source=text_in(made_from, "@id") if isinstance(made_from, dict) else "",
        metadata={"title": title} if (title := text_in(document, "title")) else {},
    )


MIF: Final = Importer(
    name="mif",
    title="Memory Interchange Format (MIF)",
    recognise=_recognise,
    read=_read,
    mapping=(
        Mapped("`content`", "`value`"),
        Mapped("`id`, or `@id`", "`key`"),
        Mapped(
            "`memory_type`, or `memoryType`; `tags`",
            "`tags`; `episodic` and `procedural` are kinds here too",
        ),
        Mapped(
            "`created_at`, `updated_at`, or `created`, `modified`", "`created_at`, `updated_at`"
        ),
        Mapped(
            "`source.session_id`, `parent_id`, `metadata`",
            "session, `parent_id`, `metadata.mif_metadata`",
        ),
        Mapped(
            "`knowledge_graph`: a relationship",
            "a memory that says all three; true until `invalidated_at`",
        ),
        Mapped("JSON-LD: `namespace`, `title`", "scope, `metadata.title`"),
        Mapped("JSON-LD: `temporal.validFrom`, `validUntil`", "when it is true"),
        Mapped(
            "JSON-LD: `provenance.confidence`, `wasDerivedFrom`",
            "`metadata.confidence`, `source_id`",
        ),
        Mapped("embeddings", "made anew"),
    ),
)
