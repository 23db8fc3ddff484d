"""Versions as OAMS memories: the stored memory itself, or the view of a document of another standard.

A view keeps what the memory has through all its versions: the key and the creation time of its first version, and the
source and the metadata that OAMS stated last (`_keep_origin_fields`).

A view must be stable: the same version gives the same memory in every answer and export, or clients would see changes
that nobody made. Entity tags are hashes of the stored version, so they change with every version and with nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from memoranda.errors import NamespaceNotFound
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import AuditEntry, Document, Version
from memoranda.model.oms_names import ADDRESS_CHARS
from memoranda.service.core import authorship
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.views import find_first_version, is_intact, project, run_unless_damaged
from memoranda.service.oms.views import is_visible
from memoranda.service.retrieve import sees_everything
from memoranda.standards.oams import mapping, memory
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.port import load_memory
from memoranda.standards.oms import mapping as oms
from memoranda.standards.openwop import mapping as openwop
from memoranda.standards.port import load
from memoranda.standards.ump import mapping as ump
from memoranda.storage.engine.contract import Snapshot


class Location(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A namespace, and its position in the store: a tenant and a space."""

    namespace: str
    tenant: str
    space: str
    # The owner hash in the name of a claimed namespace; empty in the tenant's own.
    user: str = ""


class TaggedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory as the API answers, and the entity tag of this version."""

    memory: Memory
    etag: str


def render(
    context: Context, snapshot: Snapshot, version: Version, location: Location
) -> TaggedMemory:
    """Return a version as the API shows it."""
    return TaggedMemory(
        memory=memory.to_response(to_memory(context, snapshot, version, location)),
        etag=compute_etag(version.document),
    )


def render_for_reader(
    context: Context, snapshot: Snapshot, version: Version, location: Location
) -> TaggedMemory:
    """Return a version as the API shows it; an author who was not verified is marked as claimed."""
    answer = render(context, snapshot, version, location)
    if version.bounds is None or not version.bounds.writer:
        return answer
    metadata = authorship.metadata_with_writer(
        version, memory.metadata_of(answer.memory), mapping.ACTOR_KEY
    )
    return replace(answer, memory={**answer.memory, "metadata": metadata})


def to_memory(context: Context, snapshot: Snapshot, version: Version, location: Location) -> Memory:
    """Return a version as an OAMS memory: itself, or the view of a document of another standard.

    The result is complete; check `may_see` before it is shown.
    """
    if mapping.owns(version.document):
        return load_memory(version.document.native)
    view = mapping.from_projection(
        project(context, version), version.document, namespace=location.namespace
    )
    view |= {
        "key": key_of_version(snapshot, version, location),
        "updated_at": format_instant(version.state.updated),
    }
    return _keep_origin_fields(context, snapshot, version, view)


def render_visible(
    context: Context, access: Access, snapshot: Snapshot, version: Version, location: Location
) -> TaggedMemory | None:
    """Return a version as a list shows it; None if it is damaged, erased, or hidden from this caller."""
    if (
        version.state.erased
        or not is_intact(version)
        or not may_see(context, access, snapshot, version)
    ):
        return None
    return run_unless_damaged(
        version, lambda: render_for_reader(context, snapshot, version, location)
    )


def _keep_origin_fields(
    context: Context, snapshot: Snapshot, version: Version, view: Memory
) -> Memory:
    """Add creation, source and metadata of the earlier versions, which a revision through another standard omits."""
    root = _root(snapshot, version)
    if root is version or root.state.erased:
        return view
    if mapping.owns(root.document):
        view["created_at"] = load_memory(root.document.native)["created_at"]
    else:
        view["created_at"] = format_instant(project(context, root).created)
    native = _last_native_memory(snapshot, version)
    if native is not None:
        # Section 5: the source of a memory is preserved unchanged.
        view.pop("source_id", None)
        if "source_id" in native:
            view["source_id"] = native["source_id"]
        own_metadata = {
            name: value
            for name, value in memory.metadata_of(native).items()
            if not name.startswith("memoranda:")
        }
        view["metadata"] = {**own_metadata, **memory.metadata_of(view)}
    return view


def _last_native_memory(snapshot: Snapshot, version: Version) -> Memory | None:
    """Return the newest version of a memory that OAMS wrote; None if there is no earlier one.

    A version that was forgotten by itself states nothing about the memory any more.
    """
    if version.version_id == version.memory_id:
        return None
    is_hidden = version.state.is_forgotten
    documents = (
        earlier_version.document.native
        for earlier_version in snapshot.iterate_history(version.memory_id, newest_first=True)
        if mapping.owns(earlier_version.document)
        and not earlier_version.state.erased
        and (is_hidden or not earlier_version.state.is_forgotten)
        and is_intact(earlier_version)
    )
    return next(map(load_memory, documents), None)


def may_see(context: Context, access: Access, snapshot: Snapshot, version: Version) -> bool:
    """Return True if the caller may see a version, with all of its fields."""
    return sees_everything(access, version.tenant) or is_visible(context, access, snapshot, version)


def key_of_version(snapshot: Snapshot, version: Version, location: Location) -> str:
    """Return the key of a memory: the key of its first version, unless that belongs to another namespace."""
    root = _root(snapshot, version)
    if not mapping.owns(root.document) or root.state.erased:
        return mapping.key_of(root.document)
    return (
        str(load(root.document.native)["key"])
        if root.state.space == location.space
        else version.document.name
    )


def _root(snapshot: Snapshot, version: Version) -> Version:
    """Return the first version of a memory, or the given one if the first is damaged."""
    root = find_first_version(snapshot, version)
    return root if is_intact(root) else version


def compute_etag(document: Document) -> str:
    """Return the entity tag of a version, a hash of its standard, name and bytes.

    32 hexadecimal digits; a client must treat them as opaque.
    """
    return hashlib.sha256(
        f"{document.standard}\x00{document.name}\x00".encode() + document.native
    ).hexdigest()[:32]


def find_foreign_head(snapshot: Snapshot, location: Location, key: str) -> Version | None:
    """Return the head of a memory of another standard, by the key under which OAMS shows it."""
    version = snapshot.find_by_name(standard_of_key(key), key)
    if version is None:
        return None
    head = snapshot.load_newest(version.memory_id)
    return head if key_of_version(snapshot, head, location) == key else None


def standard_of_key(key: str) -> str:
    """Return the other standard whose names have the form of a key."""
    if key.startswith("urn:ump:"):
        return ump.STANDARD
    return oms.STANDARD if len(key) == ADDRESS_CHARS else openwop.STANDARD


def require_namespace(snapshot: Snapshot, location: Location) -> None:
    """Raise NamespaceNotFound if nothing was ever stored in a namespace."""
    if not snapshot.has_space(location.space):
        raise NamespaceNotFound(f"nothing was ever stored in {location.namespace}")


def build_audit_entry(
    access: Access,
    op: str,
    now: Instant,
    location: Location,
    targets: tuple[str, ...],
    result: str,
    meta: Mapping[str, object] | None = None,
) -> AuditEntry:
    """Return the audit entry of an operation on memories."""
    scope = {"owner": location.tenant, **({"project": location.space} if location.space else {})}
    return audit_entry(
        access, f"oams.{op}", now=now, targets=targets, scope=scope, result=result, meta=meta
    )
