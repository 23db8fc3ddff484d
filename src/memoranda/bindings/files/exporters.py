"""Exporters to files of other systems, which the importers of these systems read again.

A memory that was imported from a system and was not changed since is written as its original document. Any other memory
is written in the fields of the system; if the system allows additional fields, our fields for the rest are added, so
that an import restores them. `list_losses` names the parts that a system cannot hold. Only current versions are
written: none of these systems keeps history.
"""

from __future__ import annotations

import csv
import hashlib
import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from memoranda.bindings.files.importers.importer import (
    ORIGIN_KEY,
    PROJECT_KEY,
    ImportDraft,
    build_memory,
    parse_moment,
    unescape_name,
)
from memoranda.bindings.files.importers.langgraph import METADATA_KEY, TEXTS, item_draft, value_text
from memoranda.bindings.files.importers.mem0 import memory_draft
from memoranda.bindings.files.importers.server_memory import OUR_PROJECT, OUR_USER
from memoranda.encoding import json_text
from memoranda.errors import MemorandaError
from memoranda.model.instant import DAY_MS, Instant
from memoranda.model.memory import NATIVE_KEY, unwrap_document
from memoranda.standards.oams.mapping import USER_KEY
from memoranda.standards.oams.memory import (
    ACTOR_KEY,
    AGENT_KEY,
    EXPIRES_KEY,
    KIND_KEY,
    SESSION_KEY,
    VALID_FROM_KEY,
    VALID_TO_KEY,
    VISIBILITY_KEY,
    Memory,
    metadata_of,
)
from memoranda.standards.oams.namespace import DEFAULT_SCOPE, parse_namespace

# Namespace of the UUIDs that an export derives from our ids, for systems that identify memories by UUIDs.
_NAMES: Final = uuid.UUID("5d8b7a2e-0c63-5f2b-9a6d-3f1f0a4c9e11")
COLUMNS: Final = (
    *(
        "id",
        "text",
        "user",
        "project",
        "session",
        "kind",
        "tags",
        "created_at",
        "updated_at",
        "confidence",
    ),
    *("agent", "valid_from", "valid_to", "expires_at", "source"),
)


class OutgoingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory to be exported, with the parts that exporters ask for."""

    memory: Memory
    metadata: Mapping[str, object]
    user: str
    project: str

    @classmethod
    def of(cls, memory: Memory, own_hash: str) -> OutgoingMemory:
        """Read a memory; `own_hash` is the owner hash of the exporting owner."""
        metadata, namespace = metadata_of(memory), parse_namespace(memory["namespace"])
        user = _metadata_text(metadata, USER_KEY)
        if user in ("", namespace.owner):
            user = "" if namespace.owner == own_hash else unescape_name(namespace.owner)
        return cls(
            memory=memory, metadata=metadata, user=user, project=unescape_name(namespace.scope)
        )

    @property
    def text(self) -> str:
        """The text; the key if it is empty, because other systems have no empty memories."""
        return self.memory["value"] or self.memory["key"]

    @property
    def tags(self) -> list[str]:
        return self.memory.get("tags", [])

    @property
    def agent(self) -> str:
        return _metadata_text(self.metadata, AGENT_KEY) or _metadata_text(
            self.metadata, "mem0_agent"
        )

    @property
    def session(self) -> str:
        return _metadata_text(self.metadata, SESSION_KEY)

    @property
    def kind(self) -> str:
        return _metadata_text(self.metadata, KIND_KEY)

    @property
    def confidence(self) -> object:
        return self.metadata.get("confidence")

    @property
    def expires(self) -> str:
        return _metadata_text(self.metadata, EXPIRES_KEY)

    @property
    def source(self) -> str:
        """The source; empty for the view of a document, whose source is that document."""
        inner, source = unwrap_document(self.metadata), self.memory.get("source_id") or ""
        return "" if inner is not None and source == inner.name else source

    @property
    def fields(self) -> dict[str, object]:
        """The fields of OAMS metadata that no system has fields for."""
        names = (KIND_KEY, VALID_FROM_KEY, VALID_TO_KEY)
        return {
            **{name: self.metadata[name] for name in names if name in self.metadata},
            PROJECT_KEY: self.project,
        }

    @property
    def own_metadata(self) -> dict[str, object]:
        """The metadata of the memory, without our fields and without those that an importer added."""
        return {
            name: value
            for name, value in self.metadata.items()
            if name not in (ORIGIN_KEY, "confidence")
            and not name.startswith(("memoranda:", "mem0_", "langgraph_"))
        }

    def original_document(self, system: str) -> dict[str, Any] | None:
        """Return the document that the memory was imported from; None if it is not from this system."""
        origin = self.metadata.get(ORIGIN_KEY)
        is_from = isinstance(origin, dict) and origin.get("system") == system
        document = origin.get("document") if is_from and isinstance(origin, dict) else None
        return document if isinstance(document, dict) else None

    def name_in(self, system: str) -> str:
        """Return the name of the memory in a system: the one it had there, or a UUID made of its name here."""
        origin = self.metadata.get(ORIGIN_KEY)
        if (
            isinstance(origin, dict)
            and origin.get("system") == system
            and isinstance(origin.get("id"), str)
        ):
            return str(origin["id"])
        return str(uuid.uuid5(_NAMES, f"{self.memory['namespace']}/{self.memory['key']}"))

    def is_unchanged(
        self,
        system: str,
        own_hash: str,
        draft: Callable[[dict[str, object], str, Instant], ImportDraft],
    ) -> bool:
        """Return True if the memory was imported from a system and was not changed since."""
        document = self.original_document(system)
        if document is None:
            return False
        try:
            imported = OutgoingMemory.of(
                build_memory(draft(document, "", Instant(0)), system, own_hash), own_hash
            )
        except MemorandaError:
            return False
        return imported.content == self.content

    @property
    def content(self) -> tuple[object, ...]:
        """The parts that a system can hold, for comparison."""
        times = tuple(
            parse_moment(self.metadata.get(name))
            for name in (EXPIRES_KEY, VALID_FROM_KEY, VALID_TO_KEY)
        )
        tags = [tag.casefold() for tag in self.tags]
        about = (self.user, self.project, self.agent, self.session, self.kind, self.confidence)
        return (self.text, tags, *about, *times)


def _metadata_text(metadata: Mapping[str, object], name: str) -> str:
    return str(metadata.get(name) or "")


Exporter = Callable[[Iterable[Memory], str], Iterator[bytes]]


def _json_line(document: object) -> bytes:
    return json_text.dump(document) + b"\n"


def _outgoing(memories: Iterable[Memory], own_hash: str) -> Iterator[OutgoingMemory]:
    return (OutgoingMemory.of(memory, own_hash) for memory in memories)


# --- Mem0 ------------------------------------------------------------------------------------------------------------


def _write_mem0(memories: Iterable[Memory], own_hash: str) -> Iterator[bytes]:
    """Yield an answer of Mem0's `get_all`, memory by memory."""
    opening = b'{"results":[\n'
    for outgoing in _outgoing(memories, own_hash):
        yield opening + json_text.dump(_mem0_document(outgoing, own_hash))
        opening = b",\n"
    yield b'{"results":[]}\n' if opening.startswith(b"{") else b"\n]}\n"


def _mem0_document(outgoing: OutgoingMemory, own_hash: str) -> dict[str, object]:
    memory, original = outgoing.memory, outgoing.original_document("mem0") or {}
    if outgoing.is_unchanged("mem0", own_hash, memory_draft):
        return original
    # Mem0's own fingerprint of a text; nothing relies on it.
    digest = hashlib.md5(outgoing.text.encode(), usedforsecurity=False).hexdigest()
    their_metadata = original.get("metadata")
    confidence = {} if outgoing.confidence is None else {"confidence": outgoing.confidence}
    end = (
        {EXPIRES_KEY: outgoing.expires}
        if outgoing.expires and not _is_day(outgoing.expires)
        else {}
    )
    ours = {**outgoing.own_metadata, **confidence, **outgoing.fields, **end}
    document = {
        **{name: value for name, value in original.items() if name not in _MEM0_FIELDS},
        "id": outgoing.name_in("mem0"),
        "memory": outgoing.text,
        "hash": digest,
        "metadata": {**(their_metadata if isinstance(their_metadata, dict) else {}), **ours},
        "categories": outgoing.tags,
        "created_at": memory["created_at"],
        "updated_at": memory["updated_at"],
        "user_id": outgoing.user,
        "agent_id": outgoing.agent,
        "run_id": outgoing.session,
        "role": outgoing.metadata.get("mem0_role"),
        # Mem0 has days: an end during a day becomes the beginning of that day.
        "expiration_date": outgoing.expires[:10],
    }
    return {name: value for name, value in document.items() if value}


_MEM0_FIELDS: Final = frozenset(("memory", "data", "text", "categories", "expiration_date"))


def _is_day(time: str) -> bool:
    at = parse_moment(time)
    return at is not None and at % DAY_MS == 0


# --- LangGraph -------------------------------------------------------------------------------------------------------


def _write_langgraph(memories: Iterable[Memory], own_hash: str) -> Iterator[bytes]:
    """Yield the items of a store, one on each line."""
    for outgoing in _outgoing(memories, own_hash):
        if outgoing.is_unchanged("langgraph", own_hash, item_draft):
            yield _json_line(outgoing.original_document("langgraph"))
            continue
        memory, original = outgoing.memory, outgoing.original_document("langgraph") or {}
        path = outgoing.metadata.get("langgraph_namespace")
        is_path = isinstance(path, list)
        users = ("users", outgoing.user) if outgoing.user else ()
        value = _langgraph_value(outgoing, original.get("value"))
        item = {
            **{
                name: field
                for name, field in original.items()
                if name not in ("expires_at", "ttl_minutes")
            },
            "namespace": path if is_path else [*users, outgoing.project],
            "key": outgoing.name_in("langgraph"),
            # The original path of an item tells its project; a path made here needs the field as well.
            "value": value
            if not is_path
            else {name: field for name, field in value.items() if name != PROJECT_KEY},
            "created_at": memory["created_at"],
            "updated_at": memory["updated_at"],
            **({"expires_at": outgoing.expires} if outgoing.expires else {}),
        }
        yield _json_line(item)


def _langgraph_value(outgoing: OutgoingMemory, original: object) -> dict[str, object]:
    """Return the value of an item: the fields of the original document, updated with those of the memory."""
    value = original if isinstance(original, dict) else {}
    text_field = next(
        (name for name in TEXTS if value and value.get(name) == value_text(value)), None
    )
    # Without a text field, the fields themselves were the text, which has changed since.
    base = value if text_field is not None else {}
    ours: dict[str, object] = {
        **outgoing.fields,
        SESSION_KEY: outgoing.session,
        AGENT_KEY: outgoing.agent,
        "confidence": outgoing.confidence,
        METADATA_KEY: outgoing.own_metadata,
    }
    stated_fields = {name: field for name, field in ours.items() if field not in ("", None, {})}
    tags = {"tags": outgoing.tags} if outgoing.tags else {}
    return {**base, text_field or "text": outgoing.text, **tags, **stated_fields}


# --- server-memory ---------------------------------------------------------------------------------------------------


def _write_server_memory(memories: Iterable[Memory], own_hash: str) -> Iterator[bytes]:
    """Yield entities with their observations, then relations. All are held: a graph has each entity once."""
    entities: dict[str, dict[str, Any]] = {}
    relations: list[object] = []
    for outgoing in _outgoing(memories, own_hash):
        text, original = outgoing.text, outgoing.original_document("server-memory") or {}
        is_relation = original.get("type") == "relation"
        if is_relation:
            relation = original["relationType"].replace("_", " ")
            if text == f"{original['from']} {relation} {original['to']}":
                relations.append(original)
                continue
        original_entity = original if original.get("type") == "entity" else {}
        name = _metadata_text(outgoing.metadata, "entity") or _metadata_text(
            original_entity, "name"
        )
        ours = (outgoing.user, OUR_USER) if outgoing.user else (outgoing.project, OUR_PROJECT)
        observation = text.removeprefix(f"{name}: ") if name else text
        name, kind = (
            (name, _metadata_text(original_entity, "entityType") or "memory") if name else ours
        )
        entity = entities.setdefault(
            name, {"type": "entity", "name": name, "entityType": kind, "observations": []}
        )
        if original_entity.get("observations") != [] and observation not in entity["observations"]:
            entity["observations"].append(observation)
    yield from map(_json_line, entities.values())
    yield from map(_json_line, relations)


# --- CSV -------------------------------------------------------------------------------------------------------------


def _write_csv(memories: Iterable[Memory], own_hash: str) -> Iterator[bytes]:
    """Yield a table with a header line."""
    yield _csv_row(COLUMNS)
    for outgoing in _outgoing(memories, own_hash):
        memory, metadata = outgoing.memory, outgoing.metadata
        row = {
            "id": memory["key"],
            "text": outgoing.text,
            "user": outgoing.user,
            "project": outgoing.project,
            "session": outgoing.session,
            "kind": outgoing.kind or "semantic",
            "tags": _join_tags(outgoing.tags),
            "created_at": memory["created_at"],
            "updated_at": memory["updated_at"],
            "confidence": "" if outgoing.confidence is None else outgoing.confidence,
            "agent": outgoing.agent,
            "valid_from": metadata.get(VALID_FROM_KEY, ""),
            "valid_to": metadata.get(VALID_TO_KEY, ""),
            "expires_at": outgoing.expires,
            "source": outgoing.source,
        }
        yield _csv_row(row[column] for column in COLUMNS)


def _join_tags(tags: Sequence[str]) -> str:
    """Return tags joined by semicolons.

    The importer splits at semicolons, or at commas if there is no semicolon: a single tag with a comma gets one.
    """
    parts = list(filter(None, (part.strip() for tag in tags for part in tag.split(";"))))
    joined_tags = ";".join(parts)
    return f"{joined_tags};" if "," in joined_tags and len(parts) == 1 else joined_tags


def _csv_row(values: Iterable[object]) -> bytes:
    line, escaped_values = io.StringIO(), [_escape_formula(value) for value in values]
    # Readers take a carriage return for the end of a line unless it is quoted.
    has_return = any("\r" in str(value) for value in escaped_values)
    csv.writer(
        line, lineterminator="\n", quoting=csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL
    ).writerow(escaped_values)
    return line.getvalue().encode("utf-8")


def _escape_formula(value: object) -> object:
    """Return a value for a cell; a text that a spreadsheet would run as a formula gets a quote before it."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value


EXPORTERS: Final[dict[str, Exporter]] = {
    "mem0": _write_mem0,
    "langgraph": _write_langgraph,
    "server-memory": _write_server_memory,
    "csv": _write_csv,
}


# --- losses ----------------------------------------------------------------------------------------------------------

_DRAFTS: Final[dict[str, Callable[[dict[str, object], str, Instant], ImportDraft]]] = {
    "mem0": memory_draft,
    "langgraph": item_draft,
}
# Parts of a memory besides its text: the name for messages, and a function that is true if a memory has the part.
_PARTS: Final[dict[str, Callable[[OutgoingMemory], object]]] = {
    "user": lambda outgoing: outgoing.user,
    "agent": lambda outgoing: outgoing.agent,
    "session": lambda outgoing: outgoing.session,
    "project": lambda outgoing: outgoing.project != DEFAULT_SCOPE,
    "kind": lambda outgoing: outgoing.kind,
    "visibility": lambda outgoing: outgoing.metadata.get(VISIBILITY_KEY),
    "end of retention": lambda outgoing: outgoing.expires,
    "time in which it is true": lambda outgoing: (
        outgoing.metadata.keys() & {VALID_FROM_KEY, VALID_TO_KEY}
    ),
    "confidence": lambda outgoing: outgoing.confidence is not None,
    "author": lambda outgoing: outgoing.metadata.get(ACTOR_KEY),
    "original document and its signature": lambda outgoing: outgoing.metadata.get(NATIVE_KEY),
    "tags": lambda outgoing: outgoing.tags,
    "metadata": lambda outgoing: outgoing.own_metadata.keys() - {"entity"},
    "times": lambda outgoing: outgoing.memory["created_at"],
    "source": lambda outgoing: outgoing.source,
    "what it was made from": lambda outgoing: outgoing.memory.get("parent_id"),
}
_ABOUT: Final = (
    "user",
    "agent",
    "session",
    "project",
    "kind",
    "time in which it is true",
    "confidence",
)
_SUPPORTED_PARTS: Final[dict[str, frozenset[str]]] = {
    "mem0": frozenset((*_ABOUT, "end of retention", "tags", "metadata", "times")),
    "langgraph": frozenset((*_ABOUT, "end of retention", "tags", "metadata", "times")),
    # An entity is a user or a project.
    "server-memory": frozenset(("user",)),
    "csv": frozenset((*_ABOUT, "end of retention", "tags", "times", "source")),
}


def list_losses(memory: Memory, system: str, own_hash: str = "") -> list[str]:
    """Return the parts of a memory that the file of a system cannot hold; none if its original is written."""
    outgoing, supported = OutgoingMemory.of(memory, own_hash), _SUPPORTED_PARTS[system]
    draft = _DRAFTS.get(system)
    original = outgoing.original_document(system)
    if original is not None and (draft is None or outgoing.is_unchanged(system, own_hash, draft)):
        return []
    lost = [part for part, has in _PARTS.items() if part not in supported and has(outgoing)]
    if system == "server-memory":
        # The entity of an import stays the entity; else the user becomes one, else the project.
        entity = _metadata_text(outgoing.metadata, "entity")
        lost += ["user"] * bool(entity and outgoing.user)
        if "project" in lost and not (entity or outgoing.user):
            lost.remove("project")
    if original is None and ORIGIN_KEY in outgoing.metadata:
        lost.append("original document of another system")
    return lost
