"""Versions as OAMS memories: the native one, or the view of what another standard wrote."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec.structs import replace

from memoranda.model.instant import format_instant
from memoranda.model.memory import Document, Version
from memoranda.service.core import authorship
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.views import find_first_version, is_intact, project, run_unless_damaged
from memoranda.service.oms.views import is_listed
from memoranda.service.retrieve import sees_everything
from memoranda.standards.oams import mapping, memory
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.port import load_memory
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.grains import ADDRESS_CHARS
from memoranda.standards.openwop import mapping as openwop
from memoranda.standards.port import load
from memoranda.standards.ump import mapping as ump
from memoranda.storage.engine.contract import Snapshot


class Place(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A namespace, and where in the store it is."""

    namespace: str
    tenant: str
    space: str
    # Whom a claimed namespace belongs to.
    user: str = ""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A memory as the API answers, and the tag of this very version."""

    memory: Memory
    etag: str


def show(context: Context, snapshot: Snapshot, version: Version, place: Place) -> Shown:
    """A version as a memory of OAMS, as the API shows it."""
    return Shown(
        memory=memory.to_response(as_memory(context, snapshot, version, place)),
        etag=etag_of(version.document),
    )


def present(context: Context, snapshot: Snapshot, version: Version, place: Place) -> Shown:
    """The same for readers: whom the memory names as its author without proof is marked as a claim."""
    found = show(context, snapshot, version, place)
    if version.bounds is None or not version.bounds.writer:
        return found
    said = authorship.metadata_with_writer(
        version, memory.metadata_of(found.memory), mapping.ACTOR_KEY
    )
    return replace(found, memory={**found.memory, "metadata": said})


def as_memory(context: Context, snapshot: Snapshot, version: Version, place: Place) -> Memory:
    """A version as a memory of OAMS: itself, or the view of what another standard wrote."""
    if mapping.owns(version.document):
        return load_memory(version.document.native)
    made = mapping.from_projection(
        project(context, version), version.document, namespace=place.namespace
    )
    made |= {
        "key": key_in(snapshot, version, place),
        "updated_at": format_instant(version.state.updated),
    }
    return _rooted(context, snapshot, version, made)


def seen(
    context: Context, access: Access, snapshot: Snapshot, version: Version, place: Place
) -> Shown | None:
    """The same for lists: without what is damaged or not for this caller."""
    if (
        version.state.erased
        or not is_intact(version)
        or not may_see(context, access, snapshot, version)
    ):
        return None
    return run_unless_damaged(version, lambda: present(context, snapshot, version, place))


def _rooted(context: Context, snapshot: Snapshot, version: Version, made: Memory) -> Memory:
    """A memory keeps its creation, and the source and the metadata that were last told, whoever revises it."""
    root = _root(snapshot, version)
    if root is version:
        return made
    if mapping.owns(root.document):
        made["created_at"] = load_memory(root.document.native)["created_at"]
    else:
        made["created_at"] = format_instant(project(context, root).created)
    last = _last_told(snapshot, version)
    if last is not None:
        # Section 5: the source of a memory is preserved as it is.
        made.pop("source_id", None)
        if "source_id" in last:
            made["source_id"] = last["source_id"]
        told = {
            name: value
            for name, value in memory.metadata_of(last).items()
            if not name.startswith("memoranda:")
        }
        made["metadata"] = {**told, **memory.metadata_of(made)}
    return made


def _last_told(snapshot: Snapshot, version: Version) -> Memory | None:
    """What OAMS itself said last of a memory."""
    if version.version_id == version.memory_id:
        return None
    there = (
        each.document.native
        for each in snapshot.history(version.memory_id, newest_first=True)
        if mapping.owns(each.document) and not each.state.erased and is_intact(each)
    )
    return next(map(load_memory, there), None)


def may_see(context: Context, access: Access, snapshot: Snapshot, version: Version) -> bool:
    """Whether the caller may see it, and see it whole."""
    return sees_everything(access, version.tenant) or is_listed(context, access, snapshot, version)


def key_in(snapshot: Snapshot, version: Version, place: Place) -> str:
    """A memory keeps the key it had first, unless it came from another namespace: there it is another's."""
    root = _root(snapshot, version)
    if not mapping.owns(root.document) or root.state.erased:
        return mapping.key_of(root.document)
    return (
        str(load(root.document.native)["key"])
        if root.state.space == place.space
        else version.document.name
    )


def _root(snapshot: Snapshot, version: Version) -> Version:
    root = find_first_version(snapshot, version)
    return root if is_intact(root) else version


def etag_of(document: Document) -> str:
    """The tag of a very version: what it says, and as what."""
    return hashlib.sha256(
        f"{document.standard}\x00{document.name}\x00".encode() + document.native
    ).hexdigest()[:32]


def foreign_head(snapshot: Snapshot, place: Place, key: str) -> Version | None:
    """The head of a memory of another standard, by the key under which it is shown."""
    named = snapshot.named(foreign_standard(key), key)
    if named is None:
        return None
    head = snapshot.newest(named.memory_id)
    return head if key_in(snapshot, head, place) == key else None


def foreign_standard(key: str) -> str:
    """The one other standard that may have given a memory this name."""
    if key.startswith("urn:ump:"):
        return ump.STANDARD
    return oms.STANDARD if len(key) == ADDRESS_CHARS else openwop.STANDARD
