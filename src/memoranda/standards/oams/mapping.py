"""OAMS memories to and from the neutral model.

Towards the model: what the store filters, ranks and links by. From the model: how a memory written through another
standard looks as an OAMS memory. Such a memory carries the original under `metadata["memoranda:native"]`, so that
taking it back restores the original byte for byte.

OAMS has no words for kind, visibility and expiry. They stand in metadata under `memoranda:kind`,
`memoranda:visibility` and `memoranda:expires_at`; without them a memory is semantic, private and kept. So do the
time in which it is true (`memoranda:valid_from`, `memoranda:valid_to`; else from its creation on), the conversation
that it was said in (`memoranda:session`) and the agent that it was told to (`memoranda:agent`). Who wrote it, if that
was somebody whom the owner let in, stands under `memoranda:actor`.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, cast

from msgspec.structs import replace

from memoranda.errors import InvalidInput
from memoranda.model import native
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.model.memory import (
    DERIVED_FROM,
    KINDS,
    VISIBILITIES,
    Document,
    Kind,
    Projection,
    Relation,
    Scope,
    Visibility,
)
from memoranda.model.native import NATIVE_KEY
from memoranda.model.standard import OAMS
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
    instant,
    metadata_of,
    pair_of,
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
# Whom a memory is about, where its namespace does not say it; in what leaves for other systems alone.
USER_KEY: Final = "memoranda:user"
# A consolidation of more than this says what it stands on in its metadata; the index needs no more to find it.
MAX_RELATIONS: Final = 256
# What a memory keeps through all its versions, and so may differ from the view of a single one.
_OWN: Final = ("key", "created_at", "updated_at", "source_id")
# Metadata for which other standards have words.
_MEANT: Final = ("confidence", "processing_basis", "dream_inputs")


def project(memory: Memory, tenant: str, space: str, *, user: str = "") -> Projection:
    """Read a complete, checked memory without OAMS's words. `user` is the owner of a claimed namespace."""
    metadata = metadata_of(memory)
    created = parse_instant(memory["created_at"])
    kind = metadata.get(KIND_KEY)
    shown_kind: Kind = next((known for known in KINDS if known == kind), "semantic")
    starts, ends = _moment(metadata, VALID_FROM_KEY) or created, _moment(metadata, VALID_TO_KEY)
    return Projection(
        kind=shown_kind,
        # What is shown through other standards must say something.
        text=memory["value"] or memory["key"],
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
        # What was over before it was written down began no later than it ended.
        valid_from=starts if ends is None else min(starts, ends),
        valid_to=ends,
        expires=_moment(metadata, EXPIRES_KEY),
        confidence=metadata.get("confidence"),
        tags=tuple(tag for tag in tags_of(memory) if tag),
        relations=tuple(Relation(type=DERIVED_FROM, target=target) for target in derived_from(memory)),
        source=memory.get("source_id") or "",
        actor=actor if isinstance(actor := metadata.get(ACTOR_KEY), str) else "",
        subject=user or tenant,
        basis=basis if isinstance(basis := metadata.get("processing_basis"), str) else "",
        may_protect=NATIVE_KEY in metadata,
    )


def visibility_of(memory: Memory) -> Visibility:
    """Who may see a memory."""
    said = metadata_of(memory).get(VISIBILITY_KEY)
    return next((known for known in VISIBILITIES if known == said), "private")


def _moment(metadata: dict[str, Any], name: str) -> Instant | None:
    try:
        return instant(metadata[name], name) if name in metadata else None
    except InvalidInput:
        # The key is ours, but anybody may have written it; what is no time begins and ends nothing.
        return None


def derived_from(memory: Memory) -> list[str]:
    """What a memory was consolidated from, strongest first, as references `namespace/key`."""
    namespace = memory["namespace"]
    parent = memory.get("parent_id")
    found = [reference_text(*reference(parent, namespace))] if parent else []
    inputs = metadata_of(memory).get("dream_inputs")
    for item in inputs if isinstance(inputs, list) else ():
        pair = reference(item, namespace) if isinstance(item, str) else pair_of(item)
        if pair is not None and all(pair):
            found.append(reference_text(*pair))
        if len(found) > MAX_RELATIONS:
            break
    return list(dict.fromkeys(found))[:MAX_RELATIONS]


def reference(text: str, namespace: str) -> tuple[str, str]:
    """The `(namespace, key)` that a `parent_id` names: `namespace/key`, or a key in the same namespace.

    Section 2 calls it a reference of both, section 5 the key of the input; a namespace has no slash, so the first
    one ends it.
    """
    before, slash, after = text.partition("/")
    if slash and after and ":" in before:
        try:
            return str(parse_namespace(before)), after
        except InvalidInput:
            pass
    return namespace, text


def reference_text(namespace: str, key: str) -> str:
    """A `(namespace, key)` pair as one string."""
    return f"{namespace}/{key}"


def from_projection(projection: Projection, original: Document, *, namespace: str) -> Memory:
    """A memory of another standard as an OAMS memory; its key is the name that its own standard gives it."""
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
    # OAMS has no words for when something is true, and a list shows it before and after.
    if projection.valid_from > projection.created:
        metadata[VALID_FROM_KEY] = format_instant(projection.valid_from)
    if projection.valid_to is not None:
        metadata[VALID_TO_KEY] = format_instant(projection.valid_to)
    metadata[NATIVE_KEY] = native.wrap(original)
    parents = [each.target for each in projection.relations if each.type == DERIVED_FROM]
    memory: Memory = {
        "key": key_of(original),
        "namespace": namespace,
        "value": _bearable(projection.text),
        "tags": [tag[:MAX_TAG_CHARS] for tag in projection.tags[:MAX_TAGS]],
        "metadata": metadata,
        "created_at": format_instant(projection.created),
        "updated_at": format_instant(max(projection.created, projection.observed)),
        "parent_id": _reference(parents[0]) if parents else None,
        # Section 5: a memory SHOULD point to what it came from; this one came from its original.
        "source_id": _reference(projection.source or original.name),
    }
    return cast("Memory", {name: member for name, member in memory.items() if member not in (None, [])})


def stated(memory: Memory, read: Projection) -> Memory:
    """Return a memory with everything that its document says and its namespace and metadata do not.

    For systems that have words for that: a user, an agent and a session, an end, and tags that bind it.
    """
    scope, times = read.scope, {EXPIRES_KEY: read.expires, VALID_TO_KEY: read.valid_to}
    if read.valid_from != read.created:
        times[VALID_FROM_KEY] = read.valid_from
    names = {USER_KEY: scope.user, AGENT_KEY: scope.agent, SESSION_KEY: scope.session}
    metadata = {
        **metadata_of(memory),
        **({} if read.kind == "semantic" else {KIND_KEY: read.kind}),
        **{name: text for name, text in names.items() if text},
        **{name: format_instant(at) for name, at in times.items() if at is not None},
    }
    told = {tag.casefold() for tag in memory.get("tags", ())}
    tags = [*memory.get("tags", ()), *(tag for tag in read.tags if tag.casefold() not in told)]
    return cast("Memory", {**memory, "metadata": metadata, **({"tags": tags} if tags else {})})


def outside(document: Document, memory: Memory) -> Document:
    """The document under the name it has in every store: a store's own name of a key is a keyed fingerprint."""
    return replace(document, name=reference_text(memory["namespace"], memory["key"]))


def unwrap(memory: Memory) -> Document | None:
    """The original document that a foreign view carries, if the memory is one."""
    return native.unwrap(memory.get("metadata"))


def is_view(memory: Memory, projection: Projection, original: Document) -> bool:
    """Whether a memory says just what the view of this original says, but for its own key, times, source and marks."""
    view = from_projection(projection, original, namespace=memory["namespace"])
    shown = metadata_of(view)
    said = {name: value for name, value in metadata_of(memory).items() if name in shown or _is_meant(name)}
    return same_content({**memory, "metadata": said}, view, but_for=_OWN)


def _is_meant(name: str) -> bool:
    return name in _MEANT or name.startswith("memoranda:")


def without_original(memory: Memory) -> Memory:
    """A memory without the document it was the view of: what says something else is not that document any more."""
    metadata = metadata_of(memory)
    if NATIVE_KEY not in metadata:
        return memory
    kept = {name: member for name, member in metadata.items() if name != NATIVE_KEY}
    bare = cast("Memory", {name: member for name, member in memory.items() if name != "metadata"})
    return {**bare, "metadata": kept} if kept else bare


def key_of(original: Document) -> str:
    """The key of a memory of another standard."""
    try:
        return check_key(original.name)
    except InvalidInput:
        return "sha256:" + hashlib.sha256(original.name.encode("utf-8", "surrogatepass")).hexdigest()


def _reference(text: str) -> str:
    return text[:MAX_REFERENCE_CHARS]


def _bearable(text: str) -> str:
    """As much of a text as a memory may say; the original is inside."""
    if len(text) * 4 <= MAX_VALUE_BYTES:
        return text
    return text.encode("utf-8")[:MAX_VALUE_BYTES].decode("utf-8", "ignore")
