"""Which memory follows which, when memories come from a file: in whatever order, and also without their history.

    a record          says what it supersedes, and what superseded it
    a grain           what it was derived from, if it says why it replaces that
    a file            beside them the names of all earlier versions (`memoranda:state`, the index of an `.mg` file)

What is here already and is superseded by what comes is closed, and what comes is its next version. A superseded name
that is not here is kept as a claim: what comes under it later is closed at once. An adopted document has other names
here than in its file; those are kept, too, apart from the names of the store.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from memoranda.model.instant import LATEST, Instant
from memoranda.model.memory import OAMS, OMS, UMP, Version
from memoranda.model.oms_names import ADDRESS_CHARS
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import NewVersion
from memoranda.service.core.protection import check_supersession, refuse_rewriting_archive
from memoranda.service.core.views import outline_record, scope_of
from memoranda.service.exchange.report import Form
from memoranda.service.oams import memories
from memoranda.service.oams.views import Location
from memoranda.service.oms.grains import SUPERSESSION_FIELDS
from memoranda.service.retrieve import sees_everything
from memoranda.service.ump.revise import handover
from memoranda.standards.oams import mapping as oams
from memoranda.standards.port import port_of
from memoranda.standards.ump.shapes import Record
from memoranda.storage.engine.contract import Snapshot, Unit

# A name, and the standard that gives it.
Name: TypeAlias = tuple[str, str]

_SUPERSEDED: Final = " superseded"
_ELSEWHERE: Final = " elsewhere"


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The names of a memory from a file in this store, and when it was last observed."""

    # In every standard that names it, as a document or as its view.
    names: tuple[Name, ...]
    # The name in the store of the key that a document of another standard has as an OAMS memory.
    keys: tuple[Name, ...]
    observed: Instant


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A version whose successor was named and did not come yet."""

    version_id: int
    # It came with this import.
    is_fresh: bool
    valid_to: Instant | None
    closed: int | None
    # Its position in the file.
    where: str
    # The successor's name in each standard.
    names: Mapping[str, str]


# --- names -----------------------------------------------------------------------------------------------------------


def with_standards(names: Iterable[str]) -> tuple[Name, ...]:
    """Return names with their standards: the address of a grain, or the id of a record."""
    return tuple((OMS if len(name) == ADDRESS_CHARS else UMP, name) for name in names)


def superseded_by_record(record: Record) -> tuple[Name, ...]:
    """Return the names of the memories that a record says it supersedes."""
    return with_standards(record.get("supersedes", ()))


def superseded_by_grain(fields: Mapping[str, Any]) -> tuple[Name, ...]:
    """Return the name of the grain that a grain says it replaced; of several sources it does not say which."""
    sources = fields.get("derived_from", ())
    is_replacing = len(sources) == 1 and any(name in fields for name in SUPERSESSION_FIELDS)
    return with_standards(sources) if is_replacing else ()


def claims(names: Iterable[Name]) -> Iterator[Name]:
    """Yield the names under which it is kept that memories of these names are superseded."""
    for standard, name in names:
        if port_of(standard).names_superseded:
            yield standard + _SUPERSEDED, name


def find(snapshot: Snapshot, name: Name) -> Version | None:
    """Return the version that a name in a file stands for; what was adopted may have another name here."""
    standard, text = name
    return snapshot.find_by_name(standard, text) or snapshot.find_by_name(
        standard + _ELSEWHERE, text
    )


def keep_name(unit: Unit, version: Version, name: Name) -> None:
    """Keep the name that an adopted document has in its file."""
    standard, text = name
    unit.add_view_name(version, standard + _ELSEWHERE, text)


def keep_claims(
    unit: Unit, version: Version, names: Iterable[Name], known: Container[Name]
) -> list[Name]:
    """Keep that memories which are not here are superseded by a version, unless it is known; under which names."""
    kept = [claim for claim in claims(names) if claim not in known]
    for claim in kept:
        unit.add_view_name(version, *claim)
    return kept


def known_of(context: Context, new: NewVersion) -> Names:
    """Return the names under which a memory that is about to be written is known."""
    scope, document = new.projection.scope, new.document
    keys: tuple[Name, ...] = ()
    if not port_of(document.standard).has_local_names:
        place = Location(namespace="", tenant=scope.tenant, space=scope.space)
        keys = ((OAMS, memories.stored_name(context, place, oams.key_of(document))),)
    names = ((document.standard, document.name), *new.view_names)
    return Names(names=names, keys=keys, observed=new.projection.observed)


# --- versions --------------------------------------------------------------------------------------------------------


def find_all(snapshot: Snapshot, names: Sequence[Name]) -> dict[Name, Version]:
    """Return the versions that many names in a file stand for."""
    wanted: dict[str, list[tuple[str, Name]]] = {}
    for standard, text in dict.fromkeys(names):
        for place in (standard + _ELSEWHERE, standard):
            wanted.setdefault(place, []).append((text, (standard, text)))
    ids: dict[Name, int] = {}
    for place, listed in wanted.items():
        found = snapshot.find_version_ids(place, [text for text, _ in listed])
        ids |= {name: found[text] for text, name in listed if text in found}
    versions = {each.version_id: each for each in snapshot.load_versions(sorted(set(ids.values())))}
    return {
        name: versions[version_id] for name, version_id in ids.items() if version_id in versions
    }


def may_supersede(context: Context, access: Access, version: Version) -> bool:
    """Return True if the caller may revise a version that a file says is superseded."""
    if sees_everything(access, version.tenant):
        return True
    scope = scope_of(outline_record(context, version))
    return scope["visibility"] in access.visibilities(version.tenant) and access.allows_scope(scope)


def require_supersession(
    unit: Unit, prior: Version, fields: Mapping[str, Any], now: Instant
) -> None:
    """Raise MemorandaError unless a file may supersede what was here before: that stands under its policy."""
    refuse_rewriting_archive(prior)
    check_supersession(unit, prior, fields, now=now)


def still_head(unit: Unit, waiting: Waiting) -> Version | None:
    """Return the version that waits for its successor, unless something followed it meanwhile."""
    found = unit.load_versions([waiting.version_id])
    return found[0] if found and found[0].state.is_head and not found[0].state.erased else None


def is_open_before(version: Version, standard: str, name: str) -> bool:
    """Return True if nothing follows a version and it is not this document, nor a record that names it itself.

    UMP links a record to the one that it is named in (`remember.put`).
    """
    state, document = version.state, version.document
    if (
        not state.is_head
        or state.is_forgotten
        or (document.standard, document.name) == (standard, name)
    ):
        return False
    return not port_of(document.standard).names_successor(document, standard, name)


def close(
    unit: Unit, prior: Version, successor: Version | None, now: Instant, told: Waiting | None = None
) -> None:
    """Close a version: it is true until its successor is, or until when its file says."""
    known = now if told is None or told.closed is None else min(LATEST, Instant(told.closed))
    ends = None if told is None else told.valid_to
    if ends is None:
        ends = handover(prior, known if successor is None else successor.state.valid_from)
    unit.close_version(prior, successor=successor, valid_to=ends, now=known)


def leads_to(unit: Unit, form: Form, start: Version, goal: Version) -> bool:
    """Return True if one version is, or was superseded in the end by, another: a file must not close a circle."""
    seen: set[int] = set()
    at: Version | None = start
    while at is not None and at.version_id not in seen:
        if at.version_id == goal.version_id:
            return True
        seen.add(at.version_id)
        following = at.state.successor_names.get(form)
        at = unit.find_by_name(form, following) if following else None
    return False


def missing_successor(name: str) -> str:
    """Return the warning about a memory whose successor did not come with it."""
    return f"superseded by {name}, which is not here: out of use until that comes"
