"""Withdrawn consents: memories that rest on a consent are erased when it is withdrawn, with all that derives from them
(OMS §23.2).

The unit of work that writes a withdrawal also puts an item into `PENDING` (`note_withdrawal`). The erasure follows at
once, in small units, before the writer is answered (`erase_withdrawn`). If the process dies in between, the item
remains, and the upkeep thread of any process finishes the work (`erase_all_withdrawn`). A legal hold outranks a
withdrawal: memories on hold stay, are counted, and keep the item pending until the hold is lifted.

Why in small units instead of one: a consent may be the basis of many thousand memories, and one transaction would block
all writers. Why pending items: an acknowledged withdrawal must be carried out even if the process dies. An erasure here
is announced and audited like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from memoranda.errors import ConsentViolation, GrainError, StoreCorrupt
from memoranda.model.instant import Instant
from memoranda.model.memory import OMS, Document, Projection, Version, is_over
from memoranda.model.oms_names import ADDRESS_PREFIX, check_address
from memoranda.service.core import compliance
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lifecycle import Tombstones, erase_version
from memoranda.service.core.lineage import find_derived_versions, iterate_linked, restore_replaced
from memoranda.service.core.protection import check_erasure, read_policy_fields
from memoranda.standards.port import rules_inside
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump.record import Record
from memoranda.storage.engine.contract import Snapshot, Unit

# Items of this kind name withdrawn consents; each stays until everything that rested on its consent is erased.
PENDING: Final = "withdrawn consent"
# Memories erased in one unit of work: few, so that other writers get their turn.
BATCH_LIMIT: Final = 50
_REASON: Final = "the consent that it rested on was withdrawn"


class CascadeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The number of memories that were erased with a consent, and of those that a legal hold kept."""

    erased: int = 0
    on_hold: int = 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """The messages for the caller who withdrew the consent."""
        parts = (
            (self.erased, "erased with the consent"),
            (self.on_hold, "kept by a legal hold, though the consent is withdrawn"),
        )
        return tuple(
            f"{count} {'memory' if count == 1 else 'memories'} {outcome}"
            for count, outcome in parts
            if count
        )


def check_basis(
    context: Context, unit: Snapshot, document: Document, projection: Projection, now: Instant
) -> None:
    """Raise ConsentViolation if a document rests on a consent that was withdrawn: it would have to be erased at once.

    Where a preset demands a basis, a consent that is not stored here is refused, too. A basis that is a word
    ("contract") names no consent.

    Called in the unit that writes the document, so that no withdrawal can come in between.
    """
    if not projection.basis:
        return
    basis = _strip_address_prefix(projection.basis)
    if (
        compliance.needs_consent_to_read(context.presets_in(unit))
        and _is_address(basis)
        and not _is_granted(unit, basis, now)
    ):
        raise ConsentViolation(f"this is based on the consent {basis}, which is not in this store")
    if not unit.list_linked("withdraws", basis, after=0, limit=1):
        return
    if compliance.rests_on_consent(
        context.presets_in(unit), compliance.fields_of(document, unit.tenant), basis, now=now
    ):
        raise ConsentViolation(f"this is based on the consent {basis}, which was withdrawn")


def _is_address(text: str) -> bool:
    """Return True if a text is the content address of a grain."""
    try:
        return bool(check_address(text))
    except GrainError:
        return False


def _is_granted(snapshot: Snapshot, address: str, now: Instant) -> bool:
    """Return True if a consent of this address is stored and current."""
    grant = snapshot.find_by_name(OMS, address)
    return (
        grant is not None
        and not is_over(grant.state, now)
        and read_policy_fields(grant).get("type") == "consent"
    )


def _strip_address_prefix(name: str) -> str:
    """Return the bare content address of a grain's name."""
    return name.removeprefix(ADDRESS_PREFIX)


def with_consent_links(projection: Projection, record: Record) -> Projection:
    """Return the reading of a record with the consent that its grain rests on, and the one that it withdraws."""
    inner = rules_inside(ump.unwrap(record))
    basis, prior = inner.get("processing_basis"), inner.get("prior_consent")
    return replace(
        projection,
        basis=projection.basis or (basis if isinstance(basis, str) else ""),
        withdraws=prior if isinstance(prior, str) and inner.get("is_withdrawal") is True else "",
    )


def note_withdrawal(unit: Unit, projection: Projection) -> None:
    """Note in the unit of work that writes a withdrawal that its erasures are pending."""
    if projection.withdraws:
        unit.put_item(PENDING, _strip_address_prefix(projection.withdraws), b"")


def erase_withdrawn(context: Context, tenant: str) -> CascadeResult:
    """Erase the memories of a tenant that rest on withdrawn consents, and those derived from them.

    Safe to call at any time and by several processes: what is erased already is skipped.
    """
    with context.engine.open_snapshot(tenant) as snapshot:
        pending = list(snapshot.load_items(PENDING))
    erased = on_hold = 0
    for consent in pending:
        result = _erase_dependents(context, tenant, consent)
        erased, on_hold = erased + result.erased, on_hold + result.on_hold
    if erased:
        context.engine.scrub()
    return CascadeResult(erased=erased, on_hold=on_hold)


def erase_all_withdrawn(context: Context) -> None:
    """Finish the erasures that a dead process left pending, for every tenant."""
    for tenant in context.engine.system.list_tenants_with_items((PENDING,)):
        erase_withdrawn(context, tenant)


def _erase_dependents(context: Context, tenant: str, consent: str) -> CascadeResult:
    """Erase what rests on one consent, generation by generation: each batch adds the memories derived from it."""
    now = context.clock()
    waiting = list(_find_dependent_memories(context, tenant, consent, now))
    seen_ids = set(waiting)
    erased = on_hold = 0
    while waiting:
        batch, waiting = waiting[:BATCH_LIMIT], waiting[BATCH_LIMIT:]
        with context.engine.open_snapshot(tenant) as snapshot:
            derived = {
                version.memory_id
                for memory_id in batch
                for version in find_derived_versions(snapshot, memory_id)
            }
            versions = (
                version for memory_id in batch for version in snapshot.iterate_history(memory_id)
            )
            tombstones = Tombstones(context, _REASON, now, versions)
        gone = context.engine.write(
            tenant, partial(_erase_batch, memory_ids=batch, tombstones=tombstones)
        )
        erased, on_hold = erased + gone, on_hold + len(batch) - gone
        waiting += sorted(derived - seen_ids)
        seen_ids |= derived

    def work(unit: Unit) -> None:
        if not on_hold:
            unit.delete_item(PENDING, consent)
        if erased:
            access = Access(
                credential="consent", actor="memoranda", tenant=tenant, default_tenant=tenant
            )
            result, meta = f"{erased} erased", {"held": on_hold}
            unit.record_audit(
                audit_entry(
                    access, "oms.withdrawal", now=now, targets=(consent,), result=result, meta=meta
                )
            )

    if erased or not on_hold:
        context.engine.write(tenant, work)
    return CascadeResult(erased=erased, on_hold=on_hold)


def _find_dependent_memories(
    context: Context, tenant: str, consent: str, now: Instant
) -> Iterator[int]:
    """Yield the memories with any version that depends on a consent: later versions inherit its restrictions."""
    memory_ids: dict[int, None] = {}
    with context.engine.open_snapshot(tenant) as snapshot:
        for name in (consent, ADDRESS_PREFIX + consent):
            for version in iterate_linked(snapshot, "basis", name):
                if _depends_on(context, snapshot, version, consent, now):
                    memory_ids[version.memory_id] = None
    yield from memory_ids


def _depends_on(
    context: Context, snapshot: Snapshot, version: Version, consent: str, now: Instant
) -> bool:
    """Return True if a version that is indexed under a consent must go with it."""
    try:
        fields = compliance.fields_of_version(version)
    except StoreCorrupt:
        # The index still lists it under this consent. Its consent mode cannot be read any more.
        return True
    return compliance.rests_on_consent(context.presets_in(snapshot), fields, consent, now=now)


def _erase_batch(unit: Unit, *, memory_ids: Sequence[int], tombstones: Tombstones) -> int:
    """Erase memories with all their versions and return their number; a memory on hold stays complete."""
    erased, now = 0, tombstones.now
    over = {
        version_id for memory_id in memory_ids for version_id in unit.list_history_ids(memory_id)
    }
    for memory_id in memory_ids:
        last: Version | None = None
        if not any(_is_held(version, now) for version in _unerased(unit, memory_id)):
            for last in _unerased(unit, memory_id):
                erase_version(unit, last, tombstones)
        if last is not None:
            restore_replaced(unit, last, over, now)
            unit.announce("tombstoned", last, now=now)
            erased += 1
    return erased


def _unerased(snapshot: Snapshot, memory_id: int) -> Iterator[Version]:
    return (version for version in snapshot.iterate_history(memory_id) if not version.state.erased)


def _is_held(version: Version, now: Instant) -> bool:
    """Return True if a version may not be erased."""
    try:
        check_erasure(version, now)
    except GrainError:
        return True
    except StoreCorrupt:
        return version.state.has_legal_hold
    return False
