"""Mem0: what `get_all` and `search` answer, exports of its platform with `memories` and `messages`, and the history
database of its open-source library.

OAMS 7 maps it: a user is the owner of a namespace, and the role is kept as `metadata.mem0_role`. The database has only
the texts, each memory's last one being what it says; what was deleted there is not taken in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from memoranda.bindings.files.importers.importer import (
    Draft,
    Found,
    Importer,
    Mapped,
    Unreadable,
    moment,
    moment_in,
    text_in,
)
from memoranda.bindings.files.importers.source import Source
from memoranda.errors import InvalidInput, MemorandaError

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
_TELLING: Final = ({"id", "memory", "hash"}, {"id", "memory", "user_id"}, {"id", "memory", "created_at"})


def _recognise(source: Source) -> float:
    if source.is_database:
        return 0.95 if {"memory_id", "old_memory", "new_memory"} <= set(source.tables.get("history", ())) else 0.0
    told = source.firsts(*_MEMORIES)
    return 0.9 if any(each <= document.keys() for document in told for each in _TELLING) else 0.0


def _read(source: Source) -> Iterator[Found]:
    if source.is_database:
        yield from _history(source)
        return
    for number, document in source.array(*_MEMORIES) or ():
        yield _memory(document, f"{source.name}:{number}", source)
    for number, document in source.array(*_RELATIONS) or () if source.starts(b"{") else ():
        yield _relation(document, f"{source.name}: relation {number}", source)
    for number, document in source.array(*_MESSAGES) or () if source.starts(b"{") else ():
        yield _message(document, f"{source.name}: message {number}", number, source)


def _memory(document: Any, where: str, source: Source) -> Found:
    if isinstance(document, MemorandaError):
        return Unreadable(where, document)
    if not isinstance(document, dict) or not (text := text_in(document, "memory", "data", "text")):
        return Unreadable(where, InvalidInput("not a memory of Mem0: it says nothing under `memory`"))
    name = text_in(document, "id") or text_in(document, "hash")
    if not name:
        return Unreadable(where, InvalidInput("not a memory of Mem0: it has no `id`"))
    theirs = document.get("metadata")
    categories = document.get("categories")
    created = moment_in(document, "created_at") or source.modified
    return Draft(
        where=where,
        id=name,
        text=text,
        original=document,
        user=text_in(document, "user_id"),
        session=text_in(document, "run_id"),
        tags=categories if isinstance(categories, list) else (),
        created=created,
        updated=moment_in(document, "updated_at"),
        expires=moment_in(document, "expiration_date"),
        metadata={
            **({"mem0_role": role} if (role := text_in(document, "role")) else {}),
            **({"mem0_agent": agent} if (agent := text_in(document, "agent_id")) else {}),
            **({"mem0_metadata": theirs} if isinstance(theirs, dict) and theirs else {}),
        },
    )


def _relation(document: Any, where: str, source: Source) -> Found:
    """An edge of its graph: who, how, and to whom."""
    if isinstance(document, MemorandaError):
        return Unreadable(where, document)
    subject = text_in(document, "source") if isinstance(document, dict) else ""
    relation = text_in(document, "relationship", "relation") if subject else ""
    target = text_in(document, "target", "destination") if relation else ""
    if not target:
        return Unreadable(where, InvalidInput("not a relation of Mem0: it needs `source`, `relationship` and `target`"))
    return Draft(
        where=where,
        id=text_in(document, "id") or f"{subject} {relation} {target}",
        text=f"{subject} {relation.replace('_', ' ')} {target}",
        original=document,
        user=text_in(document, "user_id"),
        created=moment_in(document, "created_at") or source.modified,
        updated=moment_in(document, "updated_at"),
    )


def _message(document: Any, where: str, number: int, source: Source) -> Found:
    if isinstance(document, MemorandaError):
        return Unreadable(where, document)
    if not isinstance(document, dict) or not (text := text_in(document, "content")):
        return Unreadable(where, InvalidInput("not a message of Mem0: it says nothing under `content`"))
    role, session = text_in(document, "role"), text_in(document, "run_id", "session_id")
    return Draft(
        where=where,
        id=text_in(document, "id") or f"message {session} {number}".replace("  ", " "),
        text=f"{name}: {text}" if (name := text_in(document, "name")) else text,
        original=document,
        user=text_in(document, "user_id"),
        session=session,
        kind="episodic",
        created=moment_in(document, "created_at", "timestamp") or source.modified,
        metadata={"mem0_role": role} if role else {},
    )


def _history(source: Source) -> Iterator[Found]:
    """The last text of every memory that is still there; when it was first said, the first row tells."""
    last: dict[str, dict[str, Any]] = {}
    begun: dict[str, Any] = {}
    for row in source.rows("history", _HISTORY, "created_at"):
        name = row.get("memory_id")
        if isinstance(name, str):
            begun.setdefault(name, row.get("created_at"))
            last[name] = row
    for name, row in last.items():
        where = f"{source.name}: {name}"
        if row.get("is_deleted") or row.get("event") == "DELETE":
            continue
        text = row.get("new_memory")
        if not isinstance(text, str) or not text.strip():
            yield Unreadable(where, InvalidInput("its last row in the history says nothing"))
            continue
        role = row.get("role")
        yield Draft(
            where=where,
            id=name,
            text=text,
            original={column: value for column, value in row.items() if value is not None},
            created=moment(begun[name]) or source.modified,
            updated=moment(row.get("updated_at")) or moment(row.get("created_at")),
            metadata={"mem0_role": role} if isinstance(role, str) and role else {},
        )


MEM0: Final = Importer(
    name="mem0",
    title="Mem0",
    recognise=_recognise,
    read=_read,
    mapping=(
        Mapped("`memory`", "`value`"),
        Mapped("`id` (or `hash`)", "`key`"),
        Mapped("`user_id`", "owner half of `namespace` (OAMS §7); scope `mem0`"),
        Mapped("`run_id`", "session"),
        Mapped("`role`", "`metadata.mem0_role` (OAMS §7)"),
        Mapped("`agent_id`", "`metadata.mem0_agent`"),
        Mapped("`metadata`", "`metadata.mem0_metadata`"),
        Mapped("`categories`", "`tags`"),
        Mapped("`created_at`, `updated_at`", "the same, in UTC"),
        Mapped("`expiration_date`", "when it expires"),
        Mapped("`relations`: `source`, `relationship`, `target`", "a memory that says all three"),
        Mapped("`messages`: `content`", "an episodic memory each"),
        Mapped("history database", "the last text of each memory; deleted ones stay out"),
    ),
)
