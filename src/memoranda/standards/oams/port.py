"""The port of OAMS: documents are memories under a key, whose name is a keyed fingerprint of this store.

A memory may be the complete view of a document of another standard. Then it is read, and shown through the others, as
that document; its key, times, source and metadata stay its own.

What is special about OAMS. A memory has no signature, so `verifies` can only say that it is well-formed. Its namespace
names an owner by a hash, so the same memory reads differently for another tenant (`_locate`), and moving it to another
owner rewrites the namespace. Keys are names of this store (`has_local_names`), so exports use a portable name. The
functions below the class are used by `service/oams` directly; they take a parsed memory, and the port's methods are
thin calls of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, Final, cast

from msgspec.structs import replace

from memoranda.encoding.json_text import dump, parse
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.bounds import UNBOUND, apply_bounds, bounds_of_view
from memoranda.model.memory import NATIVE_KEY, OAMS, Document, Projection
from memoranda.model.titles import title_in
from memoranda.standards.oams import mapping
from memoranda.standards.oams.consolidated import is_of_run
from memoranda.standards.oams.memory import (
    MAX_VALUE_BYTES,
    Memory,
    embedding_of,
    metadata_of,
    tags_of,
)
from memoranda.standards.oams.memory import check as check_memory
from memoranda.standards.oams.namespace import (
    Namespace,
    adapt_namespace,
    is_foreign_namespace,
    owner_hash,
    parse_namespace,
    read_namespace,
    space_of,
)
from memoranda.standards.port import (
    Embedding,
    Fields,
    Original,
    Port,
    combined_rules,
    load,
    policy_inside,
    port_of,
)

# Bytes of one memory: its value, each byte escaped at worst as six, and the fields beside it.
MAX_NATIVE_BYTES: Final = 8 * MAX_VALUE_BYTES
_NATIVE: Final = NATIVE_KEY.encode()


class OamsPort(Port):
    """Memories."""

    name: ClassVar[str] = OAMS
    has_local_names: ClassVar[bool] = True
    names_line: ClassVar[bool] = True

    def project(
        self, document: Document, tenant: str, space: str, *, ump_version: str
    ) -> Projection:
        return project_memory(load_memory(document.native), tenant, ump_version=ump_version)

    def check(self, document: Document) -> None:
        memory = check_memory(parse(document.native, max_bytes=MAX_NATIVE_BYTES), complete=True)[0]
        # Documents stand one to a line, as they do in files.
        is_line = document.media_type == mapping.MEDIA_TYPE and b"\n" not in document.native
        if not is_line or mapping.with_portable_name(document, memory) != document:
            raise InvalidInput("not the memory that it is named after")

    def verifies(self, document: Document) -> bool:
        # A memory is not signed; all that can be said is that it is one.
        try:
            check_memory(load(document.native), complete=True)
        except MemorandaError:
            return False
        return True

    def carried(self, document: Document) -> Document | None:
        return mapping.unwrap(load_memory(document.native))

    def original(self, document: Document, tenant: str, *, ump_version: str) -> Original | None:
        if not _may_carry(document.native):
            return None
        return original_of(load_memory(document.native), tenant, ump_version=ump_version)

    def moved(self, document: Document, tenant: str) -> Document:
        memory = load_memory(document.native)
        namespace = read_namespace(memory["namespace"])
        if not is_foreign_namespace(namespace, tenant):
            return document
        own_namespace = str(Namespace(owner_hash(tenant), namespace.scope))
        return replace(document, native=dump({**memory, "namespace": own_namespace}))

    def exported(self, document: Document) -> Document:
        return mapping.with_portable_name(document, load_memory(document.native))

    def reference(self, document: Document) -> tuple[str, str] | None:
        memory = load(document.native)
        return memory["namespace"], memory["key"]

    def title(self, document: Document) -> str:
        return title_in(metadata_of(load(document.native)))

    def written_tags(self, document: Document) -> tuple[str, ...] | None:
        return tuple(load(document.native).get("tags") or ())

    def source_names(self, native: bytes) -> list[str]:
        return (
            mapping.derived_from(cast("Memory", parse(native)))
            if b'"dream_inputs"' in native
            else []
        )

    def rule_fields(self, document: Document, tenant: str) -> Fields:
        memory = load_memory(document.native)
        user = user_of(memory["namespace"], tenant)
        return {**rules_of_memory(memory, user=user), **policy_inside(mapping.unwrap(memory))}

    def is_derived(self, document: Document) -> bool:
        return is_of_run(load_memory(document.native))

    def embedding(self, document: Document) -> Embedding | None:
        return (
            embedding_of(load(document.native)) if b'"embedding_model"' in document.native else None
        )


def _may_carry(native: bytes) -> bool:
    # A memory is kept as it was sent, so the key may be escaped.
    return _NATIVE in native or b"\\u" in native


def load_memory(native: bytes) -> Memory:
    """Return a stored memory. Raises StoreCorrupt."""
    return cast("Memory", load(native))


def project_memory(memory: Memory, tenant: str, *, ump_version: str) -> Projection:
    """Return the standard-free reading of a memory; the owner of a claimed namespace is its user.

    The complete view of another document is read as that document, so that a person it names can be found.
    """
    space, user = _locate(memory["namespace"], tenant)
    own_projection = mapping.project(memory, tenant, space, user=user)
    original = original_of(memory, tenant, ump_version=ump_version)
    if original is None:
        return own_projection
    return replace(
        original.projection,
        created=own_projection.created,
        observed=own_projection.observed,
        sameness="",
        may_protect=True,
    )


def original_of(memory: Memory, tenant: str, *, ump_version: str) -> Original | None:
    """Return the document that a memory is the complete view of; None if it says anything of its own.

    A memory that was exported as the view of a record or grain comes back as that document. If the exported head
    carries restrictions of earlier versions, the view is compared again with these restrictions applied, and they are
    returned as bounds.
    """
    inner = mapping.unwrap(memory)
    if inner is None:
        return None
    space, user = _locate(memory["namespace"], tenant)
    try:
        projection = port_of(inner.standard).project_inside(
            inner, tenant, space, ump_version=ump_version
        )
    except MemorandaError:
        # Nobody knows a standard of that name: anybody may have put it there.
        projection = None
    if projection is None:
        return None
    bounds = None
    if not mapping.is_view(memory, projection, inner):
        # A head that is exported without its history states the restrictions of earlier versions itself.
        bounds = bounds_of_view(mapping.project(memory, tenant, space, user=user), projection)
        if bounds == UNBOUND or not mapping.is_view(
            memory, apply_bounds(projection, bounds), inner
        ):
            return None
        projection = apply_bounds(projection, bounds)
    scope = replace(projection.scope, space=space, user=projection.scope.user or user)
    return Original(inner, replace(projection, scope=scope), bounds)


def is_signed(memory: Memory, tenant: str, *, ump_version: str) -> bool:
    """Return True if a memory is the complete view of a signed record, which states its author itself.

    Then the author is known from the record's signature, and must not be replaced by the caller.
    """
    if NATIVE_KEY not in metadata_of(memory):
        return False
    original = original_of(memory, tenant, ump_version=ump_version)
    inner = None if original is None else original.document
    return inner is not None and port_of(inner.standard).record(inner) is not None


# Many memories of few namespaces are read together.
@lru_cache(maxsize=256)
def _locate(text: str, tenant: str) -> tuple[str, str]:
    namespace = adapt_namespace(read_namespace(text), tenant)
    return space_of(namespace, tenant), user_of(str(namespace), tenant)


def user_of(namespace: str, tenant: str) -> str:
    """Return the owner of a claimed namespace, who is the user of its memories; empty for the tenant's own."""
    owner = parse_namespace(namespace).owner
    return "" if owner == owner_hash(tenant) else owner


def rules_of_memory(memory: Memory, *, user: str = "") -> Fields:
    """Return a memory's tags, its mark as personal and the basis it names, as rule fields."""
    metadata = metadata_of(memory)
    declared_tags = ["pii:declared"] if metadata.get("pii") is True else []
    return combined_rules(
        metadata, user, [*tags_of(memory), *declared_tags], mapping.unwrap(memory)
    )


PORT: Final = OamsPort()
