"""Zep and Graphiti: sessions with their messages, summaries and facts as Zep's API answers them, and the edges,
episodes and nodes of a graph.

OAMS 7 maps it: a session is the scope, a message keeps its role as `metadata.zep_role`, and a summary is a memory that
was made by `compress`. A fact has four times: when it was true (`valid_at`, `invalid_at`), and when that was written
down and withdrawn (`created_at`, `expired_at`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    read_drafts,
    read_moment,
    read_text,
    read_texts,
)
from memoranda.bindings.files.importers.source import Source
from memoranda.errors import InvalidInput

# One session, however long.
_MAX_BYTES: Final = 128 * 1_048_576
_SESSIONS: Final = ("sessions", "threads")
# What an answer, a session or a graph may hold. Edges come before nodes, whose summaries are made from them.
_LISTS: Final = (
    "messages",
    "episodes",
    "facts",
    "relevant_facts",
    "edges",
    "summaries",
    "nodes",
    "entities",
    "communities",
)
# What says whose a session is, and what it is called.
_AROUND: Final = ("session_id", "thread_id", "user_id", "created_at")
_TELLING: Final = (
    {"uuid", "fact"},
    {"uuid", "role_type", "content"},
    {"uuid", "source_description", "content"},
    {"uuid", "group_id", "summary"},
    {"session_id", "messages"},
    {"thread_id", "messages"},
)


def _recognise(source: Source) -> float:
    told = source.first_documents(*_SESSIONS, *_LISTS)
    return 0.9 if any(each <= document.keys() for document in told for each in _TELLING) else 0.0


class _Known(NamedTuple):
    """What earlier documents of a file say of later ones."""

    source: Source
    # Whose each session is, and the first edge at each node.
    users: dict[str, str]
    edges: dict[str, str]


def _read(source: Source) -> Iterator[DraftResult]:
    known = _Known(source, {}, {})
    around: dict[str, Any] = {name: source.value(name) for name in _AROUND if name in source.fields}
    named = chain.from_iterable(
        source.read_documents(name, max_bytes=_MAX_BYTES) for name in (*_SESSIONS, *_LISTS)
    )
    alone = (
        [(f"{source.name}: summary", source.value("summary"))] if "summary" in source.fields else []
    )
    for where, document in (
        chain(named, alone) if source.fields else source.read_documents(max_bytes=_MAX_BYTES)
    ):
        if isinstance(document, dict) and _is_session(document):
            known.users[_session_of(document)] = read_text(document, "user_id")
            yield from read_drafts(
                _within(document, where), partial(_draft, session=document, known=known)
            )
        else:
            yield from read_drafts(
                [(where, _object(document))], partial(_draft, session=around, known=known)
            )


def _is_session(document: dict[str, Any]) -> bool:
    return bool(_session_of(document)) and not read_text(document, "content", "fact")


def _session_of(document: Mapping[str, Any]) -> str:
    return read_text(document, "session_id", "thread_id")


def _within(session: dict[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    for name in _LISTS:
        held = session.get(name)
        for number, each in enumerate(held if isinstance(held, list) else (), start=1):
            yield f"{where}: {name} {number}", _object(each)
    if session.get("summary"):
        yield f"{where}: summary", _object(session["summary"], "content")


def _object(document: Any, name: str = "fact") -> Any:
    """Facts, and in old answers summaries, may be bare texts."""
    return {name: document} if isinstance(document, str) else document


def _draft(
    document: dict[str, Any], where: str, *, session: Mapping[str, Any], known: _Known
) -> ImportDraft:
    name = _session_of(document) or _session_of(session)
    text, kind = _said(document)
    if not text:
        raise InvalidInput("neither a message, a fact, an episode, a summary nor a node of Zep")
    is_summary = kind == "summary" or bool(read_text(document, "summary"))
    called = read_text(document, "uuid", "id") or f"{kind} {name} {text}"
    if kind == "fact":
        for end in ("source_node_uuid", "target_node_uuid"):
            known.edges.setdefault(read_text(document, end), called)
    role = read_text(document, "role_type", "role")
    expired = read_moment(document, "expired_at")
    created = (
        read_moment(document, "created_at")
        or read_moment(session, "created_at")
        or known.source.modified
    )
    said_at = read_moment(document, "reference_time", "valid_at")
    is_turn = kind in ("message", "episode")
    labels = [each for each in read_texts(document, "labels") if each != "Entity"]
    return ImportDraft(
        where=where,
        id=called,
        text=text,
        original=document,
        user=read_text(document, "user_id")
        or known.users.get(name, "")
        or read_text(session, "user_id"),
        place=name or read_text(document, "group_id"),
        session=name,
        kind="episodic" if is_turn else "semantic",
        tags=labels
        or ([relation] if kind == "fact" and (relation := read_text(document, "name")) else []),
        created=said_at or created if is_turn else created,
        updated=read_moment(document, "updated_at") or expired,
        valid_from=None if is_turn else read_moment(document, "valid_at"),
        valid_to=None if is_turn else read_moment(document, "invalid_at") or expired,
        parent=_parent(document, kind, called, known),
        metadata={
            **({"zep_role": role} if role and is_turn else {}),
            **({"dream_strategy": "compress"} if is_summary else {}),
        },
    )


def _said(document: dict[str, Any]) -> tuple[str, str]:
    """What a document says, and what it is."""
    if fact := read_text(document, "fact"):
        return fact, "fact"
    if content := read_text(document, "content"):
        role_type = read_text(document, "role_type")
        speaker = (
            read_text(document, "role") if role_type else read_text(document, "name", "role_name")
        )
        if role_type or read_text(document, "role"):
            return f"{speaker}: {content}" if speaker not in ("", role_type) else content, "message"
        return content, "episode" if "source" in document else "summary"
    name, summary = read_text(document, "name"), read_text(document, "summary")
    return (f"{name}: {summary}" if summary else name), "node"


def _parent(document: dict[str, Any], kind: str, called: str, known: _Known) -> str:
    """What it was made from: a fact from an episode, a summary from messages or edges."""
    if kind == "node":
        return known.edges.get(called, "")
    made_from = {"fact": "episodes", "summary": "related_message_uuids"}.get(kind, "")
    return next(iter(read_texts(document, made_from)), "")


ZEP: Final = Importer(
    name="zep",
    title="Zep",
    recognise=_recognise,
    read=_read,
    mapping=(
        FieldMapping(
            "session (`session_id`), thread (`thread_id`)",
            "scope of `namespace` (OAMS §7), and session",
        ),
        FieldMapping("`user_id`", "owner half of `namespace`"),
        FieldMapping(
            "message: `content`",
            "an episodic memory; the sender's name before it, where there is one",
        ),
        FieldMapping("message: `role_type`, or `role`", "`metadata.zep_role` (OAMS §7)"),
        FieldMapping(
            "`summary`: `content`",
            '`value`, with `metadata.dream_strategy` = `"compress"` (OAMS §7)',
        ),
        FieldMapping("summary: `related_message_uuids`", "`parent_id`: the first of them"),
        FieldMapping("fact, edge: `fact`", "`value`; its `name` is a tag"),
        FieldMapping("fact, edge: `valid_at`, `invalid_at`", "when it is true"),
        FieldMapping(
            "fact, edge: `created_at`, `expired_at`",
            "`created_at`, `updated_at`; expired facts are true no more",
        ),
        FieldMapping("fact, edge: `episodes`", "`parent_id`: the first of them"),
        FieldMapping("episode: `content`", "an episodic memory"),
        FieldMapping(
            "node, community: `name`, `summary`",
            "`name: summary`, a summary too; its `labels` are tags",
        ),
        FieldMapping("`group_id`", "scope, where there is no session"),
        FieldMapping("`uuid`", "`key`"),
    ),
)
