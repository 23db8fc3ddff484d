"""MemPalace: the folder of a palace, either of its databases alone, its Markdown export, or its graph as JSON with
`nodes` and `edges`.

OAMS 7 maps it: every node is a memory, and an edge makes the node that it starts from the parent of the one it leads
to, with its type as `metadata.mempalace_edge_type`. In the knowledge graph an edge is a statement with times of its
own, and so a memory itself, whose parent is its subject. A drawer, which holds a filed text, is a node, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    first_moment,
    parse_moment,
    read_drafts,
    read_moment,
    read_text,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.bindings.files.importers.vector_databases import (
    CHROMA_FILE,
    chroma_collections,
    chroma_documents,
)
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError

_DRAWERS: Final = "mempalace_drawers"
_FILES: Final = (CHROMA_FILE, "knowledge_graph.sqlite3")
# An export has one file for each room, and one section for each drawer, with its text as a quotation.
_INDEX: Final = "index.md"
_INDEX_START: Final = b"# Palace Export"
_ROOM: Final = re.compile(r"# ([^\n]*?) / ([^\n]*)\n")
_SECTION: Final = re.compile(r"^## ", re.MULTILINE)
_DRAWER: Final = re.compile(
    r"([^\n]+)\n\n((?:>[^\n]*\n)+)\n\| Field \| Value \|\n\|[-|]+\|\n"
    r"\| Source \| ([^\n]*) \|\n\| Filed \| ([^\n]*) \|\n\| Added by \| ([^\n]*) \|\n"
)
_TRIPLES: Final = (
    "id",
    "subject",
    "predicate",
    "object",
    "valid_from",
    "valid_to",
    "confidence",
    "source_closet",
    "source_file",
    "source_drawer_id",
    "adapter_name",
    "extracted_at",
)
_ENTITIES: Final = ("id", "name", "type", "properties", "created_at")
# Names that exports of graphs use for the two ends of an edge, and for its type.
_FROM: Final = ("source", "from", "source_id")
_TO: Final = ("target", "to", "target_id")
_TYPE: Final = ("type", "edge_type", "relation", "label")
_TEXT: Final = ("content", "text", "value", "summary", "name")


def _recognise(source: ImportSource) -> float:
    if _is_export(source):
        return 0.95
    if source.is_folder or source.is_database:
        return (
            0.95
            if any(
                _has_graph(database) or _has_drawers(database)
                for database in _find_databases(source)
            )
            else 0.0
        )
    if not source.starts_with(b"{") or b'"nodes"' not in source.head:
        return 0.0
    (node, edge) = (next(source.read_documents(name), ("", None))[1] for name in ("nodes", "edges"))
    if not isinstance(node, dict) or not (read_text(node, "id") and read_text(node, *_TEXT)):
        return 0.0
    return (
        0.8 if isinstance(edge, dict) and read_text(edge, *_FROM) and read_text(edge, *_TO) else 0.0
    )


def _is_export(source: ImportSource) -> bool:
    if not source.is_folder and not source.is_archive:
        return False
    return _INDEX in source.members and source.member_head(_INDEX).startswith(_INDEX_START)


def _find_databases(source: ImportSource) -> Iterator[ImportSource]:
    if source.is_database:
        yield source
    elif source.is_folder:
        yield from (
            ImportSource(source.path / name) for name in _FILES if (source.path / name).is_file()
        )


def _has_graph(source: ImportSource) -> bool:
    return {"subject", "predicate", "object"} <= set(
        source.tables.get("triples", ())
    ) and "entities" in source.tables


def _has_drawers(source: ImportSource) -> bool:
    return _DRAWERS in chroma_collections(source)


def _read_mempalace(source: ImportSource) -> Iterator[DraftResult]:
    if not source.is_folder and not source.is_archive and not source.is_database:
        edges_into: dict[str, list[dict[str, object]]] = {}
        for _, edge in source.read_documents("edges"):
            if isinstance(edge, dict):
                edges_into.setdefault(read_text(edge, *_TO), []).append(edge)
        yield from read_drafts(
            source.read_documents("nodes"), partial(_draft_node, into=edges_into, source=source)
        )
        return
    if _is_export(source):
        yield from read_drafts(_read_export(source), partial(_draft_drawer, source=source))
    for database in _find_databases(source):
        if _has_drawers(database):
            yield from read_drafts(_read_drawers(database), partial(_draft_drawer, source=database))
        if _has_graph(database):
            yield from _read_graph(database)


def _draft_node(
    document: dict[str, object],
    location: str,
    *,
    into: dict[str, list[dict[str, object]]],
    source: ImportSource,
) -> ImportDraft:
    name, text = read_text(document, "id"), read_text(document, *_TEXT)
    if not name or not text:
        raise InvalidInput("not a node of MemPalace: `id` or text is missing")
    edges = into.get(name, [])
    kind = read_text(edges[0], *_TYPE) if edges else ""
    return ImportDraft(
        where=location,
        id=name,
        text=text,
        original=document,
        scope=read_text(document, "wing"),
        tags=[read_text(document, field) for field in ("room", "type")],
        created=first_moment(read_moment(document, "created_at", "filed_at"), source.modified),
        updated=read_moment(document, "updated_at"),
        parent=read_text(edges[0], *_FROM) if edges else "",
        metadata={
            **({"mempalace_edge_type": kind} if kind else {}),
            # A memory has one parent.
            **({"mempalace_edges": edges} if len(edges) > 1 else {}),
        },
    )


# --- drawers ---------------------------------------------------------------------------------------------------------


def _read_drawers(source: ImportSource) -> Iterator[tuple[str, object]]:
    """Yield the drawers in the database of a palace, without the collection that indexes them."""
    return chroma_documents(source, {chroma_collections(source)[_DRAWERS]})


def _read_export(source: ImportSource) -> Iterator[tuple[str, object]]:
    """Yield the drawers of a Markdown export, with the field names of the database."""
    for member in source.members:
        if member == _INDEX or not member.endswith(".md"):
            continue
        text = source.read_bytes(member).decode("utf-8", "replace").replace("\r\n", "\n")
        room = _ROOM.match(text)
        for number, section in enumerate(_SECTION.split(text)[1:], start=1):
            location, match = f"{source.where(member)}: section {number}", _DRAWER.match(section)
            if match is None or room is None:
                yield location, InvalidInput("not a drawer as MemPalace exports it")
                continue
            name, quoted, origin, filed, author = match.groups()
            words = "\n".join(
                line.removeprefix(">").removeprefix(" ") for line in quoted.splitlines()
            )
            fields = {"source_file": origin, "filed_at": filed, "added_by": author}
            stated_fields = {field: value for field, value in fields.items() if value != "unknown"}
            yield (
                location,
                {"id": name, "document": words, "wing": room[1], "room": room[2], **stated_fields},
            )


def _draft_drawer(
    document: dict[str, object], location: str, *, source: ImportSource
) -> ImportDraft:
    name, text = read_text(document, "id"), read_text(document, "document")
    if not name or not text:
        raise InvalidInput("a drawer without words")
    wing, room = read_text(document, "wing"), read_text(document, "room")
    return ImportDraft(
        where=location,
        id=name,
        text=text,
        original=document,
        scope=wing,
        tags=(room,),
        created=first_moment(read_moment(document, "filed_at", "created_at"), source.modified),
        updated=read_moment(document, "last_modified"),
        source=read_text(document, "source_file"),
        metadata={"mempalace_wing": wing, "mempalace_room": room} if wing or room else {},
    )


# --- the knowledge graph ---------------------------------------------------------------------------------------------


def _read_graph(source: ImportSource) -> Iterator[DraftResult]:
    names: dict[object, str] = {}
    for row in source.read_rows("entities", _ENTITIES, "id"):
        names[row.get("id")] = read_text(row, "name")
        yield from read_drafts(
            [(f"{source.name}: {row.get('id')}", row)], partial(_draft_entity, source=source)
        )
    for row in source.read_rows("triples", _TRIPLES, "id"):
        yield from read_drafts(
            [(f"{source.name}: {row.get('id')}", row)],
            partial(_draft_triple, names=names, source=source),
        )


def _draft_entity(row: dict[str, Any], location: str, *, source: ImportSource) -> ImportDraft:
    entity_id, name, kind = read_text(row, "id"), read_text(row, "name"), read_text(row, "type")
    if not entity_id or not name:
        raise InvalidInput("an entity without a name")
    kind = "" if kind == "unknown" else kind
    try:
        properties = json_text.parse(row.get("properties") or "{}")
    except MemorandaError:
        properties = None
    items = properties.items() if isinstance(properties, dict) else ()
    return ImportDraft(
        where=location,
        id=entity_id,
        text="\n".join(
            [
                f"{name} is a {kind}" if kind else name,
                *(f"{field}: {value}" for field, value in items),
            ]
        ),
        original=row,
        tags=(kind,) if kind else (),
        created=first_moment(read_moment(row, "created_at"), source.modified),
    )


def _draft_triple(
    row: dict[str, object], location: str, *, names: dict[object, str], source: ImportSource
) -> ImportDraft:
    subject, relation, target = (
        read_text(row, column) for column in ("subject", "predicate", "object")
    )
    if not (subject and relation and target and read_text(row, "id")):
        raise InvalidInput("a statement needs `id`, `subject`, `predicate` and `object`")
    confidence = row.get("confidence")
    return ImportDraft(
        where=location,
        id=read_text(row, "id"),
        text=f"{names.get(subject) or subject} {relation.replace('_', ' ')} {names.get(target) or target}",
        original={name: value for name, value in row.items() if value is not None},
        tags=(relation,),
        created=first_moment(parse_moment(row.get("extracted_at")), source.modified),
        valid_from=read_moment(row, "valid_from"),
        valid_to=read_moment(row, "valid_to"),
        confidence=confidence if isinstance(confidence, float) else None,
        parent=subject,
        source=read_text(row, "source_file", "source_drawer_id"),
        metadata={"mempalace_edge_type": relation},
    )


MEMPALACE: Final = Importer(
    name="mempalace",
    title="MemPalace",
    recognise=_recognise,
    read_drafts=_read_mempalace,
    mapping=(
        FieldMapping("`nodes`, each", "a memory (OAMS §7)"),
        FieldMapping(
            "`edges`: where an edge starts", "`parent_id` of the node that it leads to (OAMS §7)"
        ),
        FieldMapping(
            "`edges`: type",
            "`metadata.mempalace_edge_type` (OAMS §7); of several edges all in `mempalace_edges`",
        ),
        FieldMapping("drawer: its text", "`value`"),
        FieldMapping(
            "drawer: `wing`, `room`",
            "scope and a tag, `metadata.mempalace_wing` and `mempalace_room`",
        ),
        FieldMapping(
            "drawer: `filed_at`, `last_modified`, `source_file`",
            "`created_at`, `updated_at`, `source_id`",
        ),
        FieldMapping("entity of the knowledge graph", "a memory of its name, type and properties"),
        FieldMapping(
            "triple: `subject`, `predicate`, `object`",
            "a memory of all three parts; its parent is the subject, the predicate is `mempalace_edge_type`",
        ),
        FieldMapping(
            "triple: `valid_from`, `valid_to`, `confidence`",
            "valid time, and `metadata.confidence`",
        ),
        FieldMapping("export as Markdown: a section", "a drawer"),
        FieldMapping("closets (an index of drawers)", "left out"),
    ),
)
