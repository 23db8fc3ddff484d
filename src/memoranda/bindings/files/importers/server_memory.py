"""The knowledge graph of MCP's reference `server-memory`: one entity or relation a line.

Every observation is a memory about its entity; so is every relation. The file keeps no times: its own is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from memoranda.bindings.files.importers.importer import Draft, Found, Importer, Mapped, Unreadable, text_in
from memoranda.bindings.files.importers.source import Source
from memoranda.errors import InvalidInput, MemorandaError

_TYPES: Final = ("entity", "relation")


def _recognise(source: Source) -> float:
    document = source.first
    if not isinstance(document, dict) or document.get("type") not in _TYPES:
        return 0.0
    return 0.95 if "observations" in document or {"from", "to", "relationType"} <= document.keys() else 0.0


def _read(source: Source) -> Iterator[Found]:
    for number, document in source.lines():
        where = f"{source.name}:{number}"
        if isinstance(document, MemorandaError):
            yield Unreadable(where, document)
        elif not isinstance(document, dict) or document.get("type") not in _TYPES:
            yield Unreadable(where, InvalidInput("neither an entity nor a relation"))
        elif document["type"] == "relation":
            yield _relation(document, where, source)
        else:
            yield from _entity(document, where, source)


def _entity(document: dict[str, Any], where: str, source: Source) -> Iterator[Found]:
    name, kind, observations = text_in(document, "name"), text_in(document, "entityType"), document.get("observations")
    if not name or not isinstance(observations, list):
        yield Unreadable(where, InvalidInput("an entity needs a `name` and a list of `observations`"))
        return
    tags = (kind,) if kind else ()
    entity = {**document, "observations": []}
    if not observations:
        # Known, though nothing is known of it.
        yield Draft(
            where=where,
            id=name,
            text=f"{name} is a {kind}" if kind else name,
            original=document,
            tags=tags,
            created=source.modified,
        )
    for observation in observations:
        if not isinstance(observation, str) or not observation.strip():
            yield Unreadable(where, InvalidInput(f"an observation of {name} is no text"))
            continue
        yield Draft(
            where=where,
            id=f"{name}: {observation}",
            text=f"{name}: {observation}",
            original={**entity, "observations": [observation]},
            tags=tags,
            created=source.modified,
            metadata={"entity": name},
        )


def _relation(document: dict[str, Any], where: str, source: Source) -> Found:
    ends = text_in(document, "from"), text_in(document, "relationType"), text_in(document, "to")
    if not all(ends):
        return Unreadable(where, InvalidInput("a relation needs `from`, `to` and `relationType`"))
    subject, relation, target = ends
    return Draft(
        where=where,
        id=" → ".join(ends),
        text=f"{subject} {relation.replace('_', ' ')} {target}",
        original=document,
        created=source.modified,
        metadata={"entity": subject},
    )


SERVER_MEMORY: Final = Importer(
    name="server-memory",
    title="MCP server-memory",
    recognise=_recognise,
    read=_read,
    mapping=(
        Mapped("entity: each of `observations`", "a memory `name: observation`"),
        Mapped("entity: `name`", "`metadata.entity`"),
        Mapped("entity: `entityType`", "a tag"),
        Mapped("relation: `from`, `relationType`, `to`", "a memory that says all three"),
        Mapped("(no times)", "when the file was last written"),
    ),
)
