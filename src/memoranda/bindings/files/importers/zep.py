"""Zep and Graphiti: sessions with messages, summaries and facts in the form of Zep's API, and the edges, episodes and
nodes of a graph.

OAMS 7 maps it: a session is the scope, a message keeps its role as `metadata.zep_role`, and a summary is a memory with
the strategy `compress`. A fact has four times: its validity (`valid_at`, `invalid_at`), and when it was written down
and withdrawn (`created_at`, `expired_at`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

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
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.errors import InvalidInput

# Bytes of one session.
_MAX_BYTES: Final = 128 * 1_048_576
_SESSIONS: Final = ("sessions", "threads")
# Lists of an answer, a session or a graph. Edges come before nodes, whose summaries are made from edges.
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
# Fields of a file that name the session and the user of all its documents.
_AROUND: Final = ("session_id", "thread_id", "user_id", "created_at")
_TELLING: Final = (
    {"uuid", "fact"},
    {"uuid", "role_type", "content"},
    {"uuid", "source_description", "content"},
    {"uuid", "group_id", "summary"},
    {"session_id", "messages"},
    {"thread_id", "messages"},
)


def _recognise(source: ImportSource) -> float:
    documents = source.first_documents(*_SESSIONS, *_LISTS)
    return (
        0.9
        if any(names <= document.keys() for document in documents for names in _TELLING)
        else 0.0
    )


class _FileContext(NamedTuple):
    """Facts of earlier documents in a file that later ones need."""

    source: ImportSource
    # The user of each session, and the first edge at each node.
    users: dict[str, str]
    edges: dict[str, str]


def _read_zep(source: ImportSource) -> Iterator[DraftResult]:
    context = _FileContext(source, {}, {})
    file_fields: dict[str, object] = {
        name: source.value(name) for name in _AROUND if name in source.fields
    }
    lists = chain.from_iterable(
        source.read_documents(name, max_bytes=_MAX_BYTES) for name in (*_SESSIONS, *_LISTS)
    )
    summary = (
        [(f"{source.name}: summary", source.value("summary"))] if "summary" in source.fields else []
    )
    for location, document in (
        chain(lists, summary) if source.fields else source.read_documents(max_bytes=_MAX_BYTES)
    ):
        if isinstance(document, dict) and _is_session(document):
            context.users[_session_id(document)] = read_text(document, "user_id")
            yield from read_drafts(
                _session_documents(document, location),
                partial(_draft_document, session=document, context=context),
            )
        else:
            yield from read_drafts(
                [(location, _wrap_text(document))],
                partial(_draft_document, session=file_fields, context=context),
            )


def _is_session(document: dict[str, object]) -> bool:
    return bool(_session_id(document)) and not read_text(document, "content", "fact")


def _session_id(document: Mapping[str, object]) -> str:
    return read_text(document, "session_id", "thread_id")


def _session_documents(session: dict[str, object], location: str) -> Iterator[tuple[str, object]]:
    for name in _LISTS:
        documents = session.get(name)
        for number, document in enumerate(
            documents if isinstance(documents, list) else (), start=1
        ):
            yield f"{location}: {name} {number}", _wrap_text(document)
    if session.get("summary"):
        yield f"{location}: summary", _wrap_text(session["summary"], "content")


def _wrap_text(document: object, name: str = "fact") -> object:
    """Return a fact or a summary as an object; in old answers they are bare texts."""
    return {name: document} if isinstance(document, str) else document


def _draft_document(
    document: dict[str, object],
    location: str,
    *,
    session: Mapping[str, object],
    context: _FileContext,
) -> ImportDraft:
    name = _session_id(document) or _session_id(session)
    text, kind = _document_text(document)
    if not text:
        raise InvalidInput("neither a message, a fact, an episode, a summary nor a node of Zep")
    is_summary = kind == "summary" or bool(read_text(document, "summary"))
    uuid = read_text(document, "uuid", "id") or f"{kind} {name} {text}"
    if kind == "fact":
        for end in ("source_node_uuid", "target_node_uuid"):
            context.edges.setdefault(read_text(document, end), uuid)
    role = read_text(document, "role_type", "role")
    expired = read_moment(document, "expired_at")
    created = (
        read_moment(document, "created_at")
        or read_moment(session, "created_at")
        or context.source.modified
    )
    stated_at = read_moment(document, "reference_time", "valid_at")
    is_turn = kind in ("message", "episode")
    labels = [label for label in read_texts(document, "labels") if label != "Entity"]
    return ImportDraft(
        where=location,
        id=uuid,
        text=text,
        original=document,
        user=read_text(document, "user_id")
        or context.users.get(name, "")
        or read_text(session, "user_id"),
        scope=name or read_text(document, "group_id"),
        session=name,
        kind="episodic" if is_turn else "semantic",
        tags=labels
        or ([relation] if kind == "fact" and (relation := read_text(document, "name")) else []),
        created=stated_at or created if is_turn else created,
        updated=read_moment(document, "updated_at") or expired,
        valid_from=None if is_turn else read_moment(document, "valid_at"),
        valid_to=None if is_turn else read_moment(document, "invalid_at") or expired,
        parent=_parent_of(document, kind, uuid, context),
        metadata={
            **({"zep_role": role} if role and is_turn else {}),
            **({"dream_strategy": "compress"} if is_summary else {}),
        },
    )


def _document_text(document: dict[str, object]) -> tuple[str, str]:
    """Return the text of a document and its kind."""
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


def _parent_of(document: dict[str, object], kind: str, uuid: str, context: _FileContext) -> str:
    """Return the id of the document that one was made from: an episode for a fact, a message or edge for a summary."""
    if kind == "node":
        return context.edges.get(uuid, "")
    made_from = {"fact": "episodes", "summary": "related_message_uuids"}.get(kind, "")
    return next(iter(read_texts(document, made_from)), "")


ZEP: Final = Importer(
    name="zep",
    title="Zep",
    recognise=_recognise,
    read_drafts=_read_zep,
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
        FieldMapping("fact, edge: `valid_at`, `invalid_at`", "valid time"),
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
