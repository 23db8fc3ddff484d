"""OAMS memories to and from the neutral model.

`project` maps a memory to the fields that the store filters, ranks and links by. `from_projection` shows a memory of
another standard as an OAMS memory. Such a view contains the original under `metadata["memoranda:native"]`, so that
importing it restores the original byte for byte.

OAMS has no fields for kind, visibility and expiry. They are in metadata under `memoranda:kind`, `memoranda:visibility`
and `memoranda:expires_at`; the defaults are semantic, private and no expiry. Other keys of ours are the period of
validity (`memoranda:valid_from`, `memoranda:valid_to`; by default from the creation on), the conversation
(`memoranda:session`), the agent (`memoranda:agent`), and the writer, if it is not the owner (`memoranda:actor`).

A namespace `user-abc:shop` names an owner and a scope. `space_of` and `user_of` (`namespace.py`, `port.py`) turn it
into the store's space and user. Sources of a consolidated memory (`parent_id`, `dream_inputs`) become relations of type
`derived_from`, by which erasing a source finds its results. `is_view` decides if a memory is only the view of another
document: all fields must agree except those of `_PER_MEMORY_FIELDS`, which belong to the memory and not to one version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec.structs import replace

from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.model.memory import (
    DERIVED_FROM,
    KINDS,
    NATIVE_KEY,
    OAMS,
    VISIBILITIES,
    Document,
    Kind,
    Projection,
    Relation,
    Scope,
    Visibility,
    unwrap_document,
    wrap_document,
)
from memoranda.model.titles import collect_titles
from memoranda.standards.oams.memory import (
    ACTOR_KEY as ACTOR_KEY,
)
from memoranda.standards.oams.memory import (
    AGENT_KEY,
    MAX_REFERENCE_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
    MAX_VALUE_BYTES,
    SESSION_KEY,
    VALID_FROM_KEY,
    VALID_TO_KEY,
    Memory,
    check_key,
    metadata_of,
    parse_pair,
    parse_time,
    same_content,
    tags_of,
)
from memoranda.standards.oams.memory import (
    EXPIRES_KEY as EXPIRES_KEY,
)
from memoranda.standards.oams.memory import (
    KIND_KEY as KIND_KEY,
)
from memoranda.standards.oams.memory import (
    VISIBILITY_KEY as VISIBILITY_KEY,
)
from memoranda.standards.oams.namespace import parse_namespace

STANDARD: Final = OAMS
MEDIA_TYPE: Final = "application/vnd.oams+json"
# The user whom a memory is about, where its namespace does not say it; only in exports to other systems.
USER_KEY: Final = "memoranda:user"
# Relations per memory. Sources of a consolidation beyond this limit are in its metadata only.
MAX_RELATIONS: Final = 256
# Fields that stay the same in all versions of a memory, so they may differ from the view of one version.
_PER_MEMORY_FIELDS: Final = ("key", "created_at", "updated_at", "source_id")
# Metadata that other standards can express.
_SHARED_METADATA: Final = ("confidence", "processing_basis", "dream_inputs")


def owns(document: Document) -> bool:
    """Return True if a document is a memory of OAMS."""
    return document.standard == STANDARD


def project(memory: Memory, tenant: str, space: str, *, user: str = "") -> Projection:
    """Map a complete, checked memory to the neutral model. `user` is the owner of a claimed namespace.

    `memory` must be checked and complete. An empty value is allowed in OAMS; the key then stands in for the text.
    """
    metadata = metadata_of(memory)
    created = parse_instant(memory["created_at"])
    kind_text = metadata.get(KIND_KEY)
    kind: Kind = next((known_kind for known_kind in KINDS if known_kind == kind_text), "semantic")
    actor = metadata.get(ACTOR_KEY)
    basis = metadata.get("processing_basis")
    starts, ends = (
        _read_time(metadata, VALID_FROM_KEY) or created,
        _read_time(metadata, VALID_TO_KEY),
    )
    return Projection(
        kind=kind,
        # The text must not be empty in other standards.
        text=memory["value"] or memory["key"],
        titles=titles_of(memory),
        language=str(metadata.get("language", "")),
        scope=Scope(
            tenant=tenant,
            space=space,
            user=user,
            agent=str(metadata.get(AGENT_KEY) or ""),
            session=str(metadata.get(SESSION_KEY) or ""),
            visibility=visibility_of(memory),
        ),
        created=created,
        observed=parse_instant(memory["updated_at"]),
        # If the validity ended before the memory was written, it also began by then.
        valid_from=starts if ends is None else min(starts, ends),
        valid_to=ends,
        expires=_read_time(metadata, EXPIRES_KEY),
        confidence=metadata.get("confidence"),
        tags=tuple(tag for tag in tags_of(memory) if tag),
        relations=tuple(
            Relation(type=DERIVED_FROM, target=target) for target in derived_from(memory)
        ),
        source=memory.get("source_id") or "",
        actor=actor if isinstance(actor, str) else "",
        subject=user or tenant,
        basis=basis if isinstance(basis, str) else "",
        may_protect=NATIVE_KEY in metadata,
    )


def titles_of(memory: Memory) -> tuple[str, ...]:
    """Return the names of a memory beside its value, the title first."""
    source = memory.get("source_id") or ""
    return collect_titles(metadata_of(memory), tags_of(memory), (memory["key"], source))


def visibility_of(memory: Memory) -> Visibility:
    """Return the visibility of a memory; private by default."""
    text = metadata_of(memory).get(VISIBILITY_KEY)
    return next((visibility for visibility in VISIBILITIES if visibility == text), "private")


def _read_time(metadata: Mapping[str, object], name: str) -> Instant | None:
    """Return the time under one of our keys, or None if it is missing or malformed."""
    try:
        return parse_time(metadata[name], name) if name in metadata else None
    except InvalidInput:
        # Clients can write our keys too; ignore a malformed time.
        return None


def derived_from(memory: Memory) -> list[str]:
    """Return the sources of a consolidated memory, strongest first, as references `namespace/key`."""
    namespace = memory["namespace"]
    parent = memory.get("parent_id")
    references = [format_reference(*parse_reference(parent, namespace))] if parent else []
    inputs = metadata_of(memory).get("dream_inputs")
    for item in inputs if isinstance(inputs, list) else ():
        pair = parse_reference(item, namespace) if isinstance(item, str) else parse_pair(item)
        if pair is not None and all(pair):
            references.append(format_reference(*pair))
        if len(references) > MAX_RELATIONS:
            break
    return list(dict.fromkeys(references))[:MAX_RELATIONS]


def parse_reference(text: str, namespace: str) -> tuple[str, str]:
    """Parse a `parent_id`: `namespace/key`, or a key in the same namespace. Return `(namespace, key)`.

    Section 2 calls it a reference of both, section 5 the key of the input. A namespace has no slash, so the first slash
    ends it.

    Never raises: a text that is no reference is a key in the same namespace.
    """
    before, slash, after = text.partition("/")
    if slash and after and ":" in before:
        try:
            return str(parse_namespace(before)), after
        except InvalidInput:
            pass
    return namespace, text


def format_reference(namespace: str, key: str) -> str:
    """Return a `(namespace, key)` pair as one string."""
    return f"{namespace}/{key}"


def from_projection(projection: Projection, original: Document, *, namespace: str) -> Memory:
    """Return a memory of another standard as an OAMS memory; its key is its name in its own standard."""
    scope = projection.scope
    metadata: dict[str, Any] = {}
    if projection.confidence is not None:
        metadata["confidence"] = projection.confidence
    if projection.kind != "semantic":
        metadata[KIND_KEY] = projection.kind
    if scope.visibility != "private":
        metadata[VISIBILITY_KEY] = scope.visibility
    if projection.expires is not None:
        metadata[EXPIRES_KEY] = format_instant(projection.expires)
    # OAMS has no fields for validity, and lists a memory before and after it.
    if projection.valid_from > projection.created:
        metadata[VALID_FROM_KEY] = format_instant(projection.valid_from)
    if projection.valid_to is not None:
        metadata[VALID_TO_KEY] = format_instant(projection.valid_to)
    metadata[NATIVE_KEY] = wrap_document(original)
    parents = [
        relation.target for relation in projection.relations if relation.type == DERIVED_FROM
    ]
    memory: Memory = {
        "key": key_of(original),
        "namespace": namespace,
        "value": _cut_text(projection.text),
        "tags": [tag[:MAX_TAG_CHARS] for tag in projection.tags[:MAX_TAGS]],
        "metadata": metadata,
        "created_at": format_instant(projection.created),
        "updated_at": format_instant(max(projection.created, projection.observed)),
        "parent_id": _cut_reference(parents[0]) if parents else None,
        # Section 5: a memory SHOULD point to its source; the source of a view is its original.
        "source_id": _cut_reference(projection.source or original.name),
    }
    return cast(
        "Memory", {name: member for name, member in memory.items() if member not in (None, [])}
    )


def with_projection(memory: Memory, projection: Projection) -> Memory:
    """Return a memory with user, agent, session, times, kind and tags that only its projection states.

    For exports to systems that have fields for these.
    """
    scope, times = (
        projection.scope,
        {EXPIRES_KEY: projection.expires, VALID_TO_KEY: projection.valid_to},
    )
    if projection.valid_from != projection.created:
        times[VALID_FROM_KEY] = projection.valid_from
    names = {USER_KEY: scope.user, AGENT_KEY: scope.agent, SESSION_KEY: scope.session}
    metadata = {
        **metadata_of(memory),
        **({} if projection.kind == "semantic" else {KIND_KEY: projection.kind}),
        **{name: text for name, text in names.items() if text},
        **{name: format_instant(at) for name, at in times.items() if at is not None},
    }
    known_tags = {tag.casefold() for tag in memory.get("tags", ())}
    tags = [
        *memory.get("tags", ()),
        *(tag for tag in projection.tags if tag.casefold() not in known_tags),
    ]
    return cast("Memory", {**memory, "metadata": metadata, **({"tags": tags} if tags else {})})


def with_limits(memory: Memory, projection: Projection) -> Memory:
    """Return a memory that states its end and its visibility, if earlier versions restrict them further than it does;
    else the same object.
    """
    metadata = dict(metadata_of(memory))
    if projection.expires is not None and projection.expires != _read_time(metadata, EXPIRES_KEY):
        metadata[EXPIRES_KEY] = format_instant(projection.expires)
    if projection.scope.visibility != visibility_of(memory):
        metadata[VISIBILITY_KEY] = projection.scope.visibility
    return memory if metadata == metadata_of(memory) else {**memory, "metadata": metadata}


def with_portable_name(document: Document, memory: Memory) -> Document:
    """Return the document under its portable name; the store's own name of a key is a keyed fingerprint."""
    return replace(document, name=format_reference(memory["namespace"], memory["key"]))


def unwrap(memory: Memory) -> Document | None:
    """Return the original document in a view of another standard, or None."""
    return unwrap_document(memory.get("metadata"))


def is_view(memory: Memory, projection: Projection, original: Document) -> bool:
    """Return True if a memory equals the view of this original, except for key, times, source and other metadata."""
    view = from_projection(projection, original, namespace=memory["namespace"])
    view_metadata = metadata_of(view)
    comparable = {
        name: value
        for name, value in metadata_of(memory).items()
        if name in view_metadata or _is_shared_metadata(name)
    }
    return same_content({**memory, "metadata": comparable}, view, ignored_fields=_PER_MEMORY_FIELDS)


def _is_shared_metadata(name: str) -> bool:
    """Return True if other standards or our keys give this metadata a meaning."""
    return name in _SHARED_METADATA or name.startswith("memoranda:")


def drop_original(memory: Memory) -> Memory:
    """Return a memory without the original document, which an edited view no longer matches."""
    metadata = metadata_of(memory)
    if NATIVE_KEY not in metadata:
        return memory
    own_metadata = {name: member for name, member in metadata.items() if name != NATIVE_KEY}
    remaining = cast(
        "Memory", {name: member for name, member in memory.items() if name != "metadata"}
    )
    return {**remaining, "metadata": own_metadata} if own_metadata else remaining


def require_complete(projection: Projection, view: Memory, edited_view: Memory) -> None:
    """Raise InvalidInput if a memory takes over a part that the view of another document shows cut."""
    size = len(projection.text.encode("utf-8"))
    if size > MAX_VALUE_BYTES and edited_view["value"] == view["value"]:
        raise _too_large("value", f"at most {MAX_VALUE_BYTES} bytes, and the original has {size}")
    if tags_of(edited_view) == tags_of(view):
        if len(projection.tags) > MAX_TAGS:
            raise _too_large(
                "tags", f"at most {MAX_TAGS} tags, and the original has {len(projection.tags)}"
            )
        if any(len(tag) > MAX_TAG_CHARS for tag in projection.tags):
            raise _too_large("tags", f"tags of at most {MAX_TAG_CHARS} characters")


def _too_large(part: str, limit: str) -> InvalidInput:
    return InvalidInput(
        f"{part}: a memory of OAMS holds {limit}. To store what is shown of it would lose the rest; change it through "
        f"the standard it was written in, or give other {part}"
    )


def key_of(original: Document) -> str:
    """Return the key of a memory of another standard."""
    try:
        return check_key(original.name)
    except InvalidInput:
        return (
            "sha256:" + hashlib.sha256(original.name.encode("utf-8", "surrogatepass")).hexdigest()
        )


def _cut_reference(text: str) -> str:
    """Cut a reference to its maximum length."""
    return text[:MAX_REFERENCE_CHARS]


def _cut_text(text: str) -> str:
    """Cut a text to its maximum length; the original is complete."""
    if len(text) * 4 <= MAX_VALUE_BYTES:
        return text
    return text.encode("utf-8")[:MAX_VALUE_BYTES].decode("utf-8", "ignore")
