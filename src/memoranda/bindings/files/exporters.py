"""Memories in the files of other systems, from which `importers` takes them in again.

What was imported from a system and still says the same leaves as it came. Everything else is written in the system's
own words, as far as it has them. Of any memory only what is stated now leaves: none of these systems keeps history.
"""

from __future__ import annotations

import csv
import hashlib
import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from memoranda.bindings.files.importers.importer import ORIGIN_KEY, unfit
from memoranda.encoding import json_text
from memoranda.model import native
from memoranda.model.native import NATIVE_KEY
from memoranda.standards.oams.memory import (
    ACTOR_KEY,
    EXPIRES_KEY,
    KIND_KEY,
    SESSION_KEY,
    VALID_FROM_KEY,
    VALID_TO_KEY,
    VISIBILITY_KEY,
    Memory,
    metadata_of,
)
from memoranda.standards.oams.namespace import parse_namespace

# Names of what has none of its own there are made of what it is called here.
_NAMES: Final = uuid.UUID("5d8b7a2e-0c63-5f2b-9a6d-3f1f0a4c9e11")
COLUMNS: Final = ("id", "text", "user", "project", "session", "kind", "tags", "created_at", "updated_at", "confidence")


class _Leaving:
    """A memory, and what a system is told of it."""

    def __init__(self, memory: Memory, own: str) -> None:
        self.memory = memory
        self.metadata = metadata_of(memory)
        namespace = parse_namespace(memory["namespace"])
        self.user = "" if namespace.owner == own else unfit(namespace.owner)
        self.place = unfit(namespace.scope)
        self.session = str(self.metadata.get(SESSION_KEY) or "")

    def original(self, system: str) -> Any:
        """The document that it came as from a system; None if it is from elsewhere."""
        origin = self.metadata.get(ORIGIN_KEY)
        is_from = isinstance(origin, dict) and origin.get("system") == system
        return origin.get("document") if is_from and isinstance(origin, dict) else None

    def name(self, system: str) -> str:
        """What the system calls it."""
        origin = self.metadata.get(ORIGIN_KEY)
        if isinstance(origin, dict) and origin.get("system") == system and isinstance(origin.get("id"), str):
            return str(origin["id"])
        return str(uuid.uuid5(_NAMES, f"{self.memory['namespace']}/{self.memory['key']}"))

    @property
    def said(self) -> dict[str, Any]:
        """Its metadata but for what is ours."""
        return {
            name: value
            for name, value in self.metadata.items()
            if name != ORIGIN_KEY and not name.startswith(("memoranda:", "mem0_"))
        }


Exporter = Callable[[Iterable[Memory], str], Iterator[bytes]]


def _line(document: Any) -> bytes:
    return json_text.dump(document) + b"\n"


def _mem0(memories: Iterable[Memory], own: str) -> Iterator[bytes]:
    """What `get_all` answers."""
    opening = b'{"results":[\n'
    for each in (_Leaving(memory, own) for memory in memories):
        yield opening + json_text.dump(_as_mem0(each))
        opening = b",\n"
    yield b'{"results":[]}\n' if opening.startswith(b"{") else b"\n]}\n"


def _as_mem0(each: _Leaving) -> dict[str, Any]:
    memory, original = each.memory, each.original("mem0")
    if isinstance(original, dict) and original.get("memory") == memory["value"]:
        return original
    told = {"category": memory["tags"][0]} if memory.get("tags") else {}
    role = each.metadata.get("mem0_role")
    # As Mem0 itself tells two texts apart; nothing rests on it.
    digest = hashlib.md5(memory["value"].encode(), usedforsecurity=False).hexdigest()
    found = {
        "id": each.name("mem0"),
        "memory": memory["value"],
        "hash": digest,
        "metadata": {**told, **each.said} or None,
        "created_at": memory["created_at"],
        "updated_at": memory["updated_at"],
        "user_id": each.user,
        "run_id": each.session,
        "role": role,
    }
    return {name: value for name, value in found.items() if value or name == "metadata"}


def _langgraph(memories: Iterable[Memory], own: str) -> Iterator[bytes]:
    """Items of a store, one a line."""
    for each in (_Leaving(memory, own) for memory in memories):
        memory, original = each.memory, each.original("langgraph")
        value = original.get("value") if isinstance(original, dict) else None
        if isinstance(value, dict) and memory["value"] in (*value.values(), "\n".join(_fields(value))):
            yield _line(original)
            continue
        path = each.metadata.get("langgraph_namespace")
        told = {"tags": memory["tags"]} if memory.get("tags") else {}
        item = {
            "namespace": path if isinstance(path, list) else [*(("users", each.user) if each.user else ()), each.place],
            "key": each.name("langgraph"),
            "value": {"text": memory["value"], **told},
            "created_at": memory["created_at"],
            "updated_at": memory["updated_at"],
        }
        yield _line(item)


def _fields(value: dict[str, Any]) -> Iterator[str]:
    for name, each in value.items():
        yield f"{name}: {each if isinstance(each, str) else json_text.dump(each).decode()}"


def _server_memory(memories: Iterable[Memory], own: str) -> Iterator[bytes]:
    """Entities with all their observations, then relations. A graph has each entity once, so all are held."""
    entities: dict[str, dict[str, Any]] = {}
    relations: list[Any] = []
    for each in (_Leaving(memory, own) for memory in memories):
        text, original = each.memory["value"], each.original("server-memory")
        is_relation = isinstance(original, dict) and original.get("type") == "relation"
        if is_relation and text == f"{original['from']} {original['relationType'].replace('_', ' ')} {original['to']}":
            relations.append(original)
            continue
        known = original if isinstance(original, dict) and original.get("type") == "entity" else {}
        name = str(each.metadata.get("entity") or known.get("name") or each.user or each.place)
        kind = str(known.get("entityType") or ("person" if each.user else "memory"))
        entity = entities.setdefault(name, {"type": "entity", "name": name, "entityType": kind, "observations": []})
        observation = text.removeprefix(f"{name}: ")
        if known.get("observations") != [] and observation not in entity["observations"]:
            entity["observations"].append(observation)
    yield from map(_line, entities.values())
    yield from map(_line, relations)


def _csv(memories: Iterable[Memory], own: str) -> Iterator[bytes]:
    """A table for people and their programs, with a line of names."""
    yield _row(COLUMNS)
    for each in (_Leaving(memory, own) for memory in memories):
        memory, kind = each.memory, each.metadata.get(KIND_KEY) or "semantic"
        where = (each.user, each.place, each.session, kind, _listed(memory.get("tags", ())))
        times = (memory["created_at"], memory["updated_at"], each.metadata.get("confidence", ""))
        yield _row((memory["key"], memory["value"], *where, *times))


def _listed(tags: Sequence[str]) -> str:
    """Tags between semicolons; a comma in one is no separator where there is a semicolon, and a semicolon always is."""
    parts = list(filter(None, (part.strip() for tag in tags for part in tag.split(";"))))
    joined = ";".join(parts)
    return f"{joined};" if "," in joined and len(parts) == 1 else joined


def _row(values: Iterable[object]) -> bytes:
    line, inert = io.StringIO(), [_inert(each) for each in values]
    # A carriage return ends a line, too, for whoever reads it.
    is_cut = any("\r" in str(each) for each in inert)
    csv.writer(line, lineterminator="\n", quoting=csv.QUOTE_ALL if is_cut else csv.QUOTE_MINIMAL).writerow(inert)
    return line.getvalue().encode("utf-8")


def _inert(value: object) -> object:
    """A text that a spreadsheet would take for a formula, so that it does not."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


EXPORTERS: Final[dict[str, Exporter]] = {
    "mem0": _mem0,
    "langgraph": _langgraph,
    "server-memory": _server_memory,
    "csv": _csv,
}


# What a memory may say that a system has no place for: what people call it, and what it is said in.
_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "kind": (KIND_KEY,),
    "visibility": (VISIBILITY_KEY,),
    "end of retention": (EXPIRES_KEY,),
    "time in which it is true": (VALID_FROM_KEY, VALID_TO_KEY),
    "session": (SESSION_KEY,),
    "confidence": ("confidence",),
    "author": (ACTOR_KEY,),
    "original document and its signature": (NATIVE_KEY,),
}
_SAID: Final[dict[str, frozenset[str]]] = {
    "mem0": frozenset(("session", "confidence", "metadata", "times")),
    "langgraph": frozenset(("tags", "times")),
    "server-memory": frozenset(),
    "csv": frozenset(("kind", "session", "confidence", "tags", "times")),
}


def unsaid(memory: Memory, system: str) -> list[str]:
    """What a memory says and the file of a system will not; none of what leaves as it came from there."""
    each, said = _Leaving(memory, ""), _SAID[system]
    if each.original(system) is not None:
        return []
    found = [part for part, names in _PARTS.items() if part not in said and any(each.metadata.get(n) for n in names)]
    if "tags" not in said and len(memory.get("tags", ())) > (system == "mem0"):
        found.append("tags")
    if "metadata" not in said and each.said.keys() - {"confidence", "entity", "langgraph_namespace"}:
        found.append("metadata")
    if "times" not in said:
        found.append("times")
    # The view of a document names that as its source.
    inner = native.unwrap(each.metadata)
    has_source = memory.get("source_id") not in (None, "" if inner is None else inner.name)
    return found + ["what it was made from"] * bool(memory.get("parent_id") or has_source)
