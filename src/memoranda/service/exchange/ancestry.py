"""Ancestry: which memory follows which, when memories come from a file in any order, and perhaps without their history.

    a record          names the records that it supersedes, and the one that superseded it; and if it revises a memory
                      that has one name through all its versions, this name
    an OAMS memory    has the key of its first version, which may be the name of a document of another standard
    a grain           names the grain it was derived from, if it states why it replaces that
    a file            may also list the names of all earlier versions (`memoranda:state`, the index of an `.mg` file)

A stored memory that an imported one supersedes is closed, and the imported one becomes its next version. If the
superseded memory is not stored, its name is kept as a claim: a memory that arrives later under this name is closed at
once. An adopted document has another name here than in its file; the name in the file is kept, too. Claims and file
names are stored as view names whose standard has a suffix, so they never mix with real names.

Whatever has an OAMS key is one memory, and the last write is current. So a version that belongs to the line of an OAMS
memory follows that memory, or is superseded by it, depending on which was observed first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from memoranda.errors import MemorandaError
from memoranda.model.instant import LATEST, Instant
from memoranda.model.memory import OAMS, OMS, UMP, Document, Version
from memoranda.model.oms_names import ADDRESS_CHARS
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import NewVersion
from memoranda.service.core.protection import check_supersession, refuse_rewriting_archive
from memoranda.service.core.views import outline_record, scope_of
from memoranda.service.exchange.report import Form
from memoranda.service.oams import memories
from memoranda.service.oams.views import Location, standard_of_key
from memoranda.service.oms.grains import SUPERSESSION_FIELDS
from memoranda.service.retrieve import sees_everything
from memoranda.service.ump.revise import handover
from memoranda.standards.oams import mapping as oams
from memoranda.standards.port import is_known_standard, port_of
from memoranda.standards.ump.shapes import Record
from memoranda.storage.engine.contract import Snapshot, Unit

# A name, and the standard that gives it.
Name: TypeAlias = tuple[str, str]

_CLAIM_SUFFIX: Final = " superseded"
_FILE_NAME_SUFFIX: Final = " elsewhere"


class ItemNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names of a memory from a file in this store, and the time at which it was last observed."""

    # Its names in every standard, of the document and its views.
    names: tuple[Name, ...]
    # The stored name of the key that a document of another standard has as an OAMS memory.
    keys: tuple[Name, ...]
    observed: Instant
    space: str


class WaitingVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version whose successor was named and did not arrive yet."""

    version_id: int
    # True if it came with this import.
    is_fresh: bool
    valid_to: Instant | None
    closed: int | None
    # The position in the file, for messages.
    where: str
    # The successor's name in each standard.
    names: Mapping[str, str]


# --- names -----------------------------------------------------------------------------------------------------------


def with_standards(names: Iterable[str]) -> tuple[Name, ...]:
    """Return names with their standards: the address of a grain, or the id of a record."""
    return tuple((OMS if len(name) == ADDRESS_CHARS else UMP, name) for name in names)


def list_predecessors_of_record(record: Record) -> tuple[Name, ...]:
    """Return the names of the memories that a record supersedes."""
    return (*with_standards(record.get("supersedes", ())), *_list_origins(record))


def _list_origins(record: Record) -> Iterator[Name]:
    """Yield the name of the memory that a record revises, if the memory has it through all its versions."""
    provenance = record.get("provenance", {})
    source = provenance.get("source", {})
    provider, name = source.get("provider", ""), source.get("ref", "")
    is_revision = provenance.get("method") == f"memoranda:{provider}" and "supersedes" in record
    if is_revision and name and is_known_standard(provider):
        port = port_of(provider)
        if port.names_line and not port.has_local_names:
            yield provider, name


def list_predecessors_of_grain(fields: Mapping[str, Any]) -> tuple[Name, ...]:
    """Return the name of the grain that a grain replaced; empty for several sources, as it does not state which."""
    sources = fields.get("derived_from", ())
    is_replacing = len(sources) == 1 and any(name in fields for name in SUPERSESSION_FIELDS)
    return with_standards(sources) if is_replacing else ()


def create_claims(names: Iterable[Name]) -> Iterator[Name]:
    """Yield the claims that memories of these names are superseded."""
    for standard, name in names:
        port = port_of(standard)
        if port.names_superseded or (port.names_line and not port.has_local_names):
            yield standard + _CLAIM_SUFFIX, name


def find_version(snapshot: Snapshot, name: Name) -> Version | None:
    """Return the version that a name in a file stands for, also if it was adopted under another name."""
    standard, text = name
    return snapshot.find_by_name(standard, text) or snapshot.find_by_name(
        standard + _FILE_NAME_SUFFIX, text
    )


def list_line_names(key: str, inner: Document | None) -> tuple[Name, ...]:
    """Return the stored names of versions that belong to the memory with a key of OAMS.

    `inner` is the document that the memory carries, with the names of its predecessors.
    """
    names: list[Name] = [(standard_of_key(key), key)]
    if inner is not None:
        names += [(inner.standard, inner.name), *list_predecessors(inner)]
    in_files = [(standard + _FILE_NAME_SUFFIX, name) for standard, name in names]
    return tuple(dict.fromkeys((*names, *in_files, *create_claims(names))))


def list_predecessors(document: Document) -> tuple[Name, ...]:
    """Return the names of the memories that a document of another standard supersedes; none if it is malformed."""
    if not is_known_standard(document.standard):
        return ()
    port = port_of(document.standard)
    try:
        if (record := port.record(document)) is not None:
            return list_predecessors_of_record(record)
        grain = port.grain(document)
    except (MemorandaError, LookupError, TypeError, ValueError, AttributeError):
        return ()
    return () if grain is None else list_predecessors_of_grain(grain.fields)


def list_keys(
    context: Context, tenant: str, space: str, predecessors: Iterable[Name]
) -> list[Name]:
    """Return the stored names of the OAMS memories whose keys are the names of an item's predecessors."""
    location = Location(namespace="", tenant=tenant, space=space)
    return [(OAMS, memories.stored_name(context, location, name)) for _, name in predecessors]


def add_file_name(unit: Unit, version: Version, name: Name) -> None:
    """Store the name that an adopted document has in its file."""
    standard, text = name
    unit.add_view_name(version, standard + _FILE_NAME_SUFFIX, text)


def add_claims(
    unit: Unit, version: Version, names: Iterable[Name], existing: Container[Name]
) -> list[Name]:
    """Store the claims of a version on predecessors that are not here, and return the new ones."""
    new_claims = [claim for claim in create_claims(names) if claim not in existing]
    for claim in new_claims:
        unit.add_view_name(version, *claim)
    return new_claims


def collect_names(context: Context, new_version: NewVersion) -> ItemNames:
    """Return all names of a memory that is about to be written."""
    scope, document = new_version.projection.scope, new_version.document
    keys: tuple[Name, ...] = ()
    if not port_of(document.standard).has_local_names:
        location = Location(namespace="", tenant=scope.tenant, space=scope.space)
        keys = ((OAMS, memories.stored_name(context, location, oams.key_of(document))),)
    names = ((document.standard, document.name), *new_version.view_names)
    return ItemNames(
        names=names, keys=keys, observed=new_version.projection.observed, space=scope.space
    )


# --- versions --------------------------------------------------------------------------------------------------------


def find_versions(snapshot: Snapshot, names: Sequence[Name]) -> dict[Name, Version]:
    """Return the versions that many names in a file stand for."""
    names_by_standard: dict[str, list[tuple[str, Name]]] = {}
    for standard, text in dict.fromkeys(names):
        for index_name in (standard + _FILE_NAME_SUFFIX, standard):
            names_by_standard.setdefault(index_name, []).append((text, (standard, text)))
    ids: dict[Name, int] = {}
    for index_name, entries in names_by_standard.items():
        ids_by_text = snapshot.find_version_ids(index_name, [text for text, _ in entries])
        ids |= {name: ids_by_text[text] for text, name in entries if text in ids_by_text}
    versions = {
        version.version_id: version for version in snapshot.load_versions(sorted(set(ids.values())))
    }
    return {
        name: versions[version_id] for name, version_id in ids.items() if version_id in versions
    }


def find_last_version(snapshot: Snapshot, version: Version) -> Version:
    """Return the version that finally superseded a version, or the version itself."""
    visited_ids: set[int] = set()
    last = snapshot.load_newest(version.memory_id)
    while not last.state.is_head and last.memory_id not in visited_ids:
        visited_ids.add(last.memory_id)
        names = last.state.successor_names.items()
        successors = (snapshot.find_by_name(standard, name) for standard, name in names)
        successor = next((version for version in successors if version is not None), None)
        if successor is None:
            return last
        last = snapshot.load_newest(successor.memory_id)
    return last


def may_supersede(context: Context, access: Access, version: Version) -> bool:
    """Return True if the caller may revise a version that a file supersedes."""
    if sees_everything(access, version.tenant):
        return True
    scope = scope_of(outline_record(context, version))
    return scope["visibility"] in access.visibilities(version.tenant) and access.allows_scope(scope)


def require_supersession(
    unit: Unit, prior: Version, fields: Mapping[str, Any], now: Instant
) -> None:
    """Raise MemorandaError if the policy of a stored version forbids a file to supersede it."""
    refuse_rewriting_archive(prior)
    check_supersession(unit, prior, fields, now=now)


def load_open_version(unit: Unit, waiting: WaitingVersion) -> Version | None:
    """Return a version that waits for its successor; None if it was superseded or erased meanwhile."""
    versions = unit.load_versions([waiting.version_id])
    return (
        versions[0]
        if versions and versions[0].state.is_head and not versions[0].state.erased
        else None
    )


def can_precede(version: Version, standard: str, name: str) -> bool:
    """Return True if a version is open and may be superseded by this document.

    False for the document itself, and for a record that names it as its successor: UMP links these (`remember.put`).
    """
    state, document = version.state, version.document
    if (
        not state.is_head
        or state.is_forgotten
        or (document.standard, document.name) == (standard, name)
    ):
        return False
    return not port_of(document.standard).names_successor(document, standard, name)


def close_version(
    unit: Unit,
    prior: Version,
    successor: Version | None,
    now: Instant,
    waiting: WaitingVersion | None = None,
) -> None:
    """Close a version: its validity ends where its successor's begins, or where its file states."""
    known_at = (
        now if waiting is None or waiting.closed is None else min(LATEST, Instant(waiting.closed))
    )
    ends = None if waiting is None else waiting.valid_to
    if ends is None:
        ends = handover(prior, known_at if successor is None else successor.state.valid_from)
    unit.close_version(prior, successor=successor, valid_to=ends, now=known_at)


def leads_to(unit: Unit, form: Form, start: Version, goal: Version) -> bool:
    """Return True if a version is another one, or was finally superseded by it: a file must not close a circle."""
    seen_ids: set[int] = set()
    at: Version | None = start
    while at is not None and at.version_id not in seen_ids:
        if at.version_id == goal.version_id:
            return True
        seen_ids.add(at.version_id)
        successor_name = at.state.successor_names.get(form)
        at = unit.find_by_name(form, successor_name) if successor_name else None
    return False


def missing_successor_warning(name: str) -> str:
    """Return the warning about a memory whose successor was not imported."""
    return f"superseded by {name}, which is not here; hidden until that is imported"


def close_priors(
    unit: Unit,
    form: Form,
    version: Version,
    priors: Sequence[Version],
    waiting: WaitingVersion | None,
    now: Instant,
) -> None:
    """Close the versions that a written one supersedes; the first may be one that waited for it."""
    for number, prior in enumerate(priors):
        if not leads_to(unit, form, version, prior):
            close_version(unit, prior, version, now, None if number else waiting)
