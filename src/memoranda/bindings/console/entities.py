"""People, projects and things in memories, and what connects them, for the graph.

A sentence is never a node. A node is a name: the subject or object of a statement, a project, or a person of a scope.
It has at most 60 characters and six words. A connection has a verb: the relation of a statement, or the verb of a
sentence that the rules of consolidation read. Values such as numbers and dates are no nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from memoranda.consolidation.text.claims import name_key, read_claims
from memoranda.consolidation.text.corpus import Corpus
from memoranda.consolidation.text.note import MemoryNote
from memoranda.model.instant import parse_instant
from memoranda.standards.ump.shapes import Record

# Characters and words of a name, and words of a verb.
NAME_CHARS: Final = 60
NAME_WORDS: Final = 6
_VERB_WORDS: Final = 3
# Memories of a node whose ids are sent.
IDS_LIMIT: Final = 60
# Characters of a date such as 2026-05-31.
_DAY_CHARS: Final = 10
_VALUE: Final = re.compile(r"^[\W\d_]|\d{2,}|^(?:true|false|yes|no|none|null)$", re.IGNORECASE)
_ARTICLE: Final = re.compile(r"^(?:the|an?)\s+(?=\S)", re.IGNORECASE)
_PLACES: Final = frozenset(
    {"lives in", "is in", "located in", "lives", "moved to", "is located in"}
)
_ORGANISATIONS: Final = frozenset({"works at", "works for", "employed by"})
_OF_PEOPLE: Final = frozenset(
    {"lives in", "works at", "works for", "leads", "manages", "prefers", "likes", "dislikes", "owns", "knows",
     "speaks", "is married to", "reports to", "maintains", "wrote", "plays"}
)  # fmt: skip


class Entity(msgspec.Struct, kw_only=True):
    """A node: a person, project, thing, organisation, place or topic, with the memories that name it."""

    id: str
    label: str
    kind: str
    ids: dict[str, None] = msgspec.field(default_factory=dict)
    since: str = ""
    until: str | None = None


class Bond(msgspec.Struct, kw_only=True):
    """An edge: a verb between two nodes, with the memories that say so."""

    source: str
    target: str
    verb: str
    ids: dict[str, None] = msgspec.field(default_factory=dict)
    since: str = ""
    until: str | None = None


class EntityGraph:
    """The nodes and edges of some memories. The first node stands for the person."""

    def __init__(self, you: str) -> None:
        self.entities: dict[str, Entity] = {}
        self.bonds: dict[tuple[str, str, str], Bond] = {}
        # The nodes that each record names.
        self._nodes_of: dict[str, dict[str, None]] = {}
        self.you = self._add("\x00you", you, "person").id

    def read(
        self,
        records: Sequence[Record],
        verbs: tuple[str, str, str],
        statements: Mapping[str, tuple[str, str, str]],
    ) -> None:
        """Add the names and connections of records.

        `verbs`: how the person, a project and a record are connected. `statements`: subject, relation and object by the
        text of the record that shows them.
        """
        works_on, mentions, is_about = verbs
        notes: list[MemoryNote] = []
        by_id: dict[str, Any] = {record["id"]: record for record in records}
        for record in by_id.values():
            triple = statements.get(record["body"]["text"])
            if triple is not None:
                self._connect(record, *triple)
            else:
                at = parse_instant(record["time"]["created"])
                notes.append(MemoryNote(record["id"], record["body"]["text"], at))
        for claim in read_claims(Corpus(notes)) if notes else ():
            if not claim.is_denied:
                self._connect(
                    by_id[claim.note.name], claim.subject, claim.predicate.name, claim.value
                )
        for record in by_id.values():
            self._add_scope(record, works_on, mentions, is_about)

    def _add_scope(self, record: Any, works_on: str, mentions: str, is_about: str) -> None:
        """Connect the project and the person of a record's scope with the person and what the record names."""
        name, user = record["scope"].get("project"), record["scope"].get("user")
        neighbours = list(self._nodes_of.get(record["id"], ()))
        project = self._node(name, "project")
        if project is not None:
            self._note(project, record)
            self._bond(self.you, project.id, works_on, record)
            for other in neighbours:
                if other not in (project.id, self.you):
                    self._bond(project.id, other, mentions, record)
        person = self._node(user, "person")
        if person is not None:
            self._note(person, record)
            self._bond(person.id if project is None else project.id, person.id, is_about, record)

    def _connect(self, record: Any, subject: str, verb: str, value: str) -> None:
        """Add a statement. An object that is no name leaves its subject alone."""
        verb = verb.replace("_", " ").strip()
        # "X is Y" describes X, and labels such as "Fixed: the retry key" read the same.
        if verb == "is" and self._find(subject) is None:
            return
        source = self._node(subject, "person" if verb in _OF_PEOPLE else "thing")
        if source is None:
            return
        self._note(source, record)
        if _VALUE.search(value.strip()) or len(verb.split()) > _VERB_WORDS or verb == "is":
            return
        kind = "place" if verb in _PLACES else "org" if verb in _ORGANISATIONS else "thing"
        target = self._node(value, kind)
        if target is not None and target.id != source.id:
            self._note(target, record)
            self._bond(source.id, target.id, verb, record)

    def _node(self, name: object, kind: str) -> Entity | None:
        """Return the node of a name; None if the text is no name."""
        if not isinstance(name, str):
            return None
        label = _ARTICLE.sub("", " ".join(name.split()))
        if not label or len(label) > NAME_CHARS or len(label.split()) > NAME_WORDS:
            return None
        return self._add(name_key(label) or label.casefold(), label, kind)

    def _find(self, name: str) -> Entity | None:
        return self.entities.get(name_key(name) or name.casefold())

    def _add(self, key: str, label: str, kind: str) -> Entity:
        entity = self.entities.get(key)
        if entity is None:
            entity = Entity(id=f"e{len(self.entities)}", label=label, kind=kind)
            self.entities[key] = entity
        elif kind != "thing" and entity.kind == "thing":
            # A statement that knows more decides what a name stands for.
            entity.kind = kind
        return entity

    def _note(self, entity: Entity, record: Any) -> None:
        entity.ids[record["id"]] = None
        self._nodes_of.setdefault(record["id"], {})[entity.id] = None
        entity.since, entity.until = _extend(entity, record)

    def _bond(self, source: str, target: str, verb: str, record: Any) -> None:
        if source == target:
            return
        bond = self.bonds.setdefault(
            (source, target, verb), Bond(source=source, target=target, verb=verb)
        )
        bond.ids[record["id"]] = None
        bond.since, bond.until = _extend(bond, record)

    def document(self, limit: int) -> dict[str, Any]:
        """Return the nodes with the most memories, and the edges between them, as JSON."""
        degrees: dict[str, int] = {}
        for bond in self.bonds.values():
            for end in (bond.source, bond.target):
                degrees[end] = degrees.get(end, 0) + 1
        ranked = sorted(
            (entity for entity in self.entities.values() if degrees.get(entity.id)),
            key=lambda entity: (entity.id != self.you, -len(entity.ids), entity.id),
        )
        nodes = ranked[:limit]
        names = {entity.id for entity in nodes}
        bonds = [
            bond for bond in self.bonds.values() if bond.source in names and bond.target in names
        ]
        return {
            "you": self.you,
            "reach": len(ranked),
            "next": None,
            "nodes": [_describe_node(entity, degrees) for entity in nodes],
            "edges": [_describe_edge(bond) for bond in bonds],
        }


def _extend(item: Entity | Bond, record: Any) -> tuple[str, str | None]:
    """Return the valid time of a node or edge, extended by a record's."""
    times = record["time"]
    since = str(times.get("valid_from") or times["created"])[:_DAY_CHARS]
    until = str(times["valid_to"])[:_DAY_CHARS] if times.get("valid_to") else None
    if not item.since:
        return since, until
    ends = None if until is None or item.until is None else max(until, item.until)
    return min(since, item.since), ends


def _describe_node(entity: Entity, degrees: dict[str, int]) -> dict[str, Any]:
    return {
        "id": entity.id,
        "label": entity.label,
        "kind": entity.kind,
        "memories": len(entity.ids),
        "degree": degrees.get(entity.id, 0),
        "ids": list(entity.ids)[:IDS_LIMIT],
        "from": entity.since,
        "to": entity.until,
    }


def _describe_edge(bond: Bond) -> dict[str, Any]:
    return {
        "source": bond.source,
        "target": bond.target,
        "verb": bond.verb,
        "memories": len(bond.ids),
        "from": bond.since,
        "to": bond.until,
    }


def count_kinds(nodes: Iterable[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield the kinds of nodes with their numbers, in the order of the page."""
    all_kinds = [node["kind"] for node in nodes]
    for kind in ("person", "project", "thing", "org", "place", "topic"):
        if count := all_kinds.count(kind):
            yield kind, count
