"""Mem0: answers of `get_all` and `search`, exports of its platform with `memories` and `messages`, and the databases of
its open-source library: the vectors that Qdrant or Chroma store in a folder, and the history.

OAMS 7 maps it: a user is the owner of a namespace, and the role is kept as `metadata.mem0_role`. The history has only
texts, of which the last one of each memory is imported; deleted memories are left out.

Its documents exist in several forms of several years; `_TELLING` lists combinations of fields that no other system has.
Vectors are never imported, since they are of another model.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from memoranda.bindings.files.importers.importer import (
    PROJECT_KEY,
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    first_moment,
    parse_moment,
    read_drafts,
    read_kind,
    read_moment,
    read_object,
    read_share,
    read_text,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.bindings.files.importers.vector_databases import (
    CHROMA_FILE,
    QDRANT_FILE,
    chroma_collections,
    chroma_documents,
    is_qdrant,
    qdrant_documents,
)
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant
from memoranda.standards.oams.memory import EXPIRES_KEY, KIND_KEY, VALID_FROM_KEY, VALID_TO_KEY

# The names under which answers and exports hold memories, relations of the graph and messages.
_MEMORIES: Final = ("results", "memories")
_RELATIONS: Final = ("relations", "graph_memories")
_MESSAGES: Final = ("messages",)
_HISTORY: Final = (
    "id",
    "memory_id",
    "old_memory",
    "new_memory",
    "event",
    "created_at",
    "updated_at",
    "is_deleted",
    "role",
)
_TELLING: Final = (
    {"id", "memory", "hash"},
    {"id", "memory", "user_id"},
    {"id", "memory", "created_at"},
)


# Fields of an answer of `get_all`, besides those that a person put into `metadata`.
_CORE: Final = (
    *(
        "id",
        "memory",
        "hash",
        "created_at",
        "updated_at",
        "user_id",
        "agent_id",
        "run_id",
        "actor_id",
        "role",
    ),
    "expiration_date",
)
# Fields of a vector that only the library uses.
_INTERNAL: Final = ("data", "document", "text_lemmatized", "attributed_to")


def _recognise(source: ImportSource) -> float:
    if source.is_database and {"memory_id", "old_memory", "new_memory"} <= set(
        source.tables.get("history", ())
    ):
        return 0.95
    if source.is_database or source.is_folder:
        return 0.9 if next(_read_vectors(source), None) is not None else 0.0
    documents = source.first_documents(*_MEMORIES)
    return (
        0.9
        if any(names <= document.keys() for document in documents for names in _TELLING)
        else 0.0
    )


def _read_mem0(source: ImportSource) -> Iterator[DraftResult]:
    if source.is_database and "history" in source.tables:
        yield from _read_history(source)
        return
    if source.is_database or source.is_folder:
        yield from read_drafts(
            _read_vectors(source),
            lambda document, where: memory_draft(document, where, source.modified),
        )
        return
    memories = (
        (f"{source.name}:{number}", item) for number, item in source.read_array(*_MEMORIES) or ()
    )
    yield from read_drafts(
        memories, lambda document, where: memory_draft(document, where, source.modified)
    )
    if source.starts_with(b"{"):
        relations = (
            (f"{source.name}: relation {number}", item)
            for number, item in source.read_array(*_RELATIONS) or ()
        )
        yield from read_drafts(
            relations, lambda document, where: _draft_relation(document, where, source)
        )
        messages = (
            (f"{source.name}: message {number}", item)
            for number, item in source.read_array(*_MESSAGES) or ()
        )
        yield from read_drafts(
            messages, lambda document, where: _draft_message(document, where, source)
        )


def _read_vectors(source: ImportSource) -> Iterator[tuple[str, object]]:
    """Yield the memories stored with vectors, in the form of `get_all`; other vectors, as of entities, are left out."""
    for database in _find_databases(source):
        collections = chroma_collections(database)
        documents = (
            chroma_documents(database, set(collections.values())) if collections else iter(())
        )
        for location, document in qdrant_documents(database) if is_qdrant(database) else documents:
            if not isinstance(document, dict):
                yield location, document
            elif isinstance(document.get("data"), str) and isinstance(document.get("hash"), str):
                yield location, _flatten_vector(document)


def _find_databases(source: ImportSource) -> Iterator[ImportSource]:
    if source.is_database:
        yield source
        return
    for member in source.members:
        # The paths that Chroma and Qdrant use; other databases in the folder are ignored.
        if member == CHROMA_FILE or fnmatchcase(member, f"collection/*/{QDRANT_FILE}"):
            yield ImportSource(source.path / member)


def _flatten_vector(document: dict[str, object]) -> dict[str, object]:
    fields = {"memory": document["data"], **document}
    metadata = {name: value for name, value in fields.items() if name not in (*_CORE, *_INTERNAL)}
    return {
        **{name: fields[name] for name in _CORE if fields.get(name) is not None},
        "metadata": metadata or None,
    }


def memory_draft(document: dict[str, object], location: str, modified: Instant) -> ImportDraft:
    """Read a memory of Mem0; `modified` is its time if it has none. Raises InvalidInput.

    Our own exports keep parts that Mem0 has no field for in `metadata`.
    """
    text = read_text(document, "memory", "data", "text")
    if not text:
        raise InvalidInput("not a memory of Mem0: `memory` is empty")
    name = read_text(document, "id") or read_text(document, "hash")
    if not name:
        raise InvalidInput("not a memory of Mem0: it has no `id`")
    fields = read_object(document, "metadata")
    their_fields = {
        name: value for name, value in fields.items() if not name.startswith("memoranda:")
    }
    categories = document.get("categories")
    created = first_moment(read_moment(document, "created_at"), modified)
    return ImportDraft(
        where=location,
        id=name,
        text=text,
        original=document,
        user=read_text(document, "user_id"),
        scope=read_text(fields, PROJECT_KEY),
        session=read_text(document, "run_id"),
        agent=read_text(document, "agent_id"),
        kind=read_kind(fields, KIND_KEY),
        confidence=read_share(fields, "confidence"),
        valid_from=read_moment(fields, VALID_FROM_KEY),
        valid_to=read_moment(fields, VALID_TO_KEY),
        tags=categories if isinstance(categories, list) else (),
        created=created,
        updated=read_moment(document, "updated_at"),
        # Mem0 has a day; our own exports add the instant.
        expires=read_moment(fields, EXPIRES_KEY) or read_moment(document, "expiration_date"),
        metadata={
            **({"mem0_role": role} if (role := read_text(document, "role")) else {}),
            **({"mem0_agent": agent} if (agent := read_text(document, "agent_id")) else {}),
            **({"mem0_metadata": their_fields} if their_fields else {}),
        },
    )


def _draft_relation(
    document: dict[str, object], location: str, source: ImportSource
) -> ImportDraft:
    """Return the draft of an edge of Mem0's graph."""
    subject, relation = (
        read_text(document, "source"),
        read_text(document, "relationship", "relation"),
    )
    target = read_text(document, "target", "destination")
    if not (subject and relation and target):
        raise InvalidInput("not a relation of Mem0: it needs `source`, `relationship` and `target`")
    return ImportDraft(
        where=location,
        id=read_text(document, "id") or f"{subject} {relation} {target}",
        text=f"{subject} {relation.replace('_', ' ')} {target}",
        original=document,
        user=read_text(document, "user_id"),
        created=first_moment(read_moment(document, "created_at"), source.modified),
        updated=read_moment(document, "updated_at"),
    )


def _draft_message(document: dict[str, object], location: str, source: ImportSource) -> ImportDraft:
    text, number = read_text(document, "content"), location.rpartition(" ")[2]
    if not text:
        raise InvalidInput("not a message of Mem0: `content` is empty")
    role, session = read_text(document, "role"), read_text(document, "run_id", "session_id")
    return ImportDraft(
        where=location,
        id=read_text(document, "id") or f"message {session} {number}".replace("  ", " "),
        text=f"{name}: {text}" if (name := read_text(document, "name")) else text,
        original=document,
        user=read_text(document, "user_id"),
        session=session,
        kind="episodic",
        created=first_moment(read_moment(document, "created_at", "timestamp"), source.modified),
        metadata={"mem0_role": role} if role else {},
    )


def _read_history(source: ImportSource) -> Iterator[DraftResult]:
    """Yield the last text of every memory that was not deleted; its first row has the time of creation."""
    last: dict[str, dict[str, object]] = {}
    created: dict[str, object] = {}
    for row in source.read_rows("history", _HISTORY, "created_at"):
        name = row.get("memory_id")
        if isinstance(name, str):
            created.setdefault(name, row.get("created_at"))
            last[name] = row
    current = (
        (f"{source.name}: {name}", row)
        for name, row in last.items()
        if not row.get("is_deleted") and row.get("event") != "DELETE"
    )
    yield from read_drafts(
        current,
        lambda row, where: _draft_history_row(
            row, where, first_moment(parse_moment(created[row["memory_id"]]), source.modified)
        ),
    )


def _draft_history_row(row: dict[str, Any], location: str, created: Instant) -> ImportDraft:
    text, role = read_text(row, "new_memory"), read_text(row, "role")
    if not text:
        raise InvalidInput("its last row in the history is empty")
    return ImportDraft(
        where=location,
        id=row["memory_id"],
        text=text,
        original={column: value for column, value in row.items() if value is not None},
        created=created,
        updated=parse_moment(row.get("updated_at")) or parse_moment(row.get("created_at")),
        metadata={"mem0_role": role} if role else {},
    )


MEM0: Final = Importer(
    name="mem0",
    title="Mem0",
    recognise=_recognise,
    read_drafts=_read_mem0,
    mapping=(
        FieldMapping("`memory`", "`value`"),
        FieldMapping("`id` (or `hash`)", "`key`"),
        FieldMapping("`user_id`", "owner half of `namespace` (OAMS §7); scope `mem0`"),
        FieldMapping("`run_id`", "session"),
        FieldMapping("`role`", "`metadata.mem0_role` (OAMS §7)"),
        FieldMapping("`agent_id`", "agent, and `metadata.mem0_agent`"),
        FieldMapping(
            "`metadata`",
            "`metadata.mem0_metadata`; `confidence`, and the fields of our exports, restored",
        ),
        FieldMapping("`categories`", "`tags`"),
        FieldMapping("`created_at`, `updated_at`", "`created_at`, `updated_at`, in UTC"),
        FieldMapping("`expiration_date`", "the expiry"),
        FieldMapping(
            "`relations`: `source`, `relationship`, `target`", "a memory of all three parts"
        ),
        FieldMapping("`messages`: `content`", "an episodic memory each"),
        FieldMapping(
            "folder of Qdrant or Chroma",
            "each of its memories, as `get_all` answers it; entities stay out",
        ),
        FieldMapping("history database", "the last text of each memory; deleted ones stay out"),
    ),
)
