"""Unwrapping: an imported item is made ready for the store, as itself or as the document that it is the view of.

Every form can carry the native document of a memory that another standard wrote (`model.memory`). The item is compared
with the view that this very document has in its form. If they are equal, the document is stored under its own names,
and the view is not: so a memory remains one memory in whatever form it travels, and importing it into its own store
changes nothing. An item that differs from the view is stored as a statement of its own.

    form     ignored in the comparison                                     state that the view adds to the document
    ump      integrity, valid_to, status, superseded_by                    its successor, the time, and any verdict
    oms      nothing (the address is compared)                             its index entry
    oams     nothing                                                       –

The result is a `PreparedItem`: all checks are passed, and its `write` function runs in the writer's turn.

Why views are compared byte by byte: only a view that is exactly what its document gives can be replaced by the document
without losing anything. An edited view is a new statement, and its document is then ignored.

To support views of a further standard nothing is needed here, unless it has verbs that merge or supersede:
`_prepare_by_port` handles every standard with a port.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import parse
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.bounds import UNBOUND, apply_bounds, bounds_of_view
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import NATIVE_KEY, Bounds, Document, Version
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import NewVersion, prepare, with_bounds
from memoranda.service.core.lifecycle import append_next
from memoranda.service.core.protection import check_supersession
from memoranda.service.core.secret_screening import refuse_secrets
from memoranda.service.core.views import (
    is_view,
    project_document,
    read_carried_bounds,
)
from memoranda.service.exchange import ancestry
from memoranda.service.exchange.adoption import MAX_NATIVE_BYTES, Adoption
from memoranda.service.exchange.batch_lookup import Outcome, PreparedItem
from memoranda.service.exchange.carried import read_index_state, read_or_none
from memoranda.service.oams import memories
from memoranda.service.oams import views as oams_views
from memoranda.service.oms import grains
from memoranda.service.oms.grains import admit
from memoranda.service.oms.views import (
    GrainInput,
    OpenedGrain,
    find_embedding_address,
    open_grain_input,
)
from memoranda.service.ump import remember
from memoranda.service.ump.remember import NewParts
from memoranda.standards.oams import mapping as oams
from memoranda.standards.oams.memory import metadata_of, same_content
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.oms.port import original_in
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump.port import load_record
from memoranda.standards.ump.shapes import Record
from memoranda.storage.engine.contract import Snapshot, Unit

# --- UMP -------------------------------------------------------------------------------------------------------------


def prepare_record(
    context: Context, access: Access, draft: object, now: Instant, adoption: Adoption | None = None
) -> PreparedItem:
    """Return a record, or the document that it is the view of, ready to be written.

    `draft` may be incomplete, such as a note written by hand; `accept` completes it.
    """
    adopted = (
        adoption.adopt_record(draft) if adoption is not None and isinstance(draft, dict) else draft
    )
    accepted = remember.accept(context, access, adopted, now, is_from_file=True)
    # An adopted record is compared in its original form: a view is one of its former owner's document.
    record = accepted.record if adopted is draft else cast("Record", draft)
    inner, index = ump.unwrap(accepted.record), read_index_state(accepted.record)
    if inner is not None:
        original = read_or_none(
            lambda: _prepare_original_of_record(context, access, record, inner, now, adoption)
        )
        if original is not None:
            return original
    return _with_index(_create_record_item(context, accepted), index)


def _with_index(ready_item: PreparedItem, index: IndexState) -> PreparedItem:
    """Return an item with its index entry, and the memories that it supersedes according to that."""
    index_predecessors = (
        name
        for name in ancestry.with_standards(index.supersedes)
        if name not in ready_item.predecessors
    )
    return replace(
        ready_item, index=index, predecessors=(*ready_item.predecessors, *index_predecessors)
    )


def _create_record_item(
    context: Context,
    accepted: remember.Accepted,
    merge: remember.PreparedMerge | None = None,
) -> PreparedItem:
    """Return an accepted record as an item. `merge` is how to merge it, if that was computed already."""

    def write(unit: Unit, prior: Version | None, now: Instant, new: NewParts) -> Outcome:
        outcome = remember.put(
            context,
            unit,
            accepted,
            now,
            prior=prior,
            merge=merge,
            new_parts=new,
        )
        return outcome.result

    return PreparedItem(
        tenant=accepted.projection.scope.tenant,
        standard=ump.STANDARD,
        name=accepted.record["id"],
        names=ancestry.collect_names(context, accepted.new),
        predecessors=ancestry.list_predecessors_of_record(accepted.record),
        name_in_form=accepted.record["id"],
        write=write,
        accepted_record=accepted,
    )


def _prepare_original_of_record(
    context: Context,
    access: Access,
    record: Record,
    inner: Document,
    now: Instant,
    adoption: Adoption | None,
) -> PreparedItem | None:
    """Return the document that a record is the view of, ready to be written; None if it is no view."""
    if not is_view(context, record, inner):
        return None
    tenant = record["scope"]["owner"] if adoption is None else adoption.tenant
    carried = _CarriedDocument(
        document=inner,
        tenant=tenant,
        space=record["scope"].get("project", ""),
        bounds=read_carried_bounds(record),
        adoption=adoption,
        begins=read_index_state(record).begins,
    )
    ready_item = _prepare_document(context, access, carried, now)
    if ready_item.tenant != tenant:
        return None
    elsewhere = None if adoption is None else (ump.STANDARD, record["id"])
    return replace(_with_view_state(ready_item, record), name_in_file=elsewhere)


def _with_view_state(ready_item: PreparedItem, record: Record) -> PreparedItem:
    """Return an item with the state that its view states: its successor, and the end of its validity."""
    successors = record.get("superseded_by") or ()
    valid_to = record["time"].get("valid_to")
    return replace(
        _with_index(ready_item, read_index_state(record)),
        name_in_form=record["id"],
        successor=successors[-1] if successors else None,
        valid_to=None if valid_to is None or not successors else parse_instant(valid_to),
    )


# --- OMS -------------------------------------------------------------------------------------------------------------


def prepare_grain(
    context: Context,
    access: Access,
    delivery: bytes,
    index: IndexState,
    tenant: str,
    now: Instant,
    adoption: Adoption | None = None,
) -> PreparedItem:
    """Return a grain, or the document that it is the view of, ready to be written.

    `index` is the entry that the container states for the grain; DEFAULT if it states none.
    """
    opened_grain = open_grain_input(context, delivery)
    inner = oms.unwrap(opened_grain.grain)
    if inner is not None:
        ready_item = read_or_none(
            lambda: _prepare_original_of_grain(
                context,
                access,
                opened_grain,
                _CarriedDocument(
                    document=inner, tenant=tenant, adoption=adoption, begins=index.begins
                ),
                now,
            )
        )
        if ready_item is not None and index == DEFAULT:
            return replace(ready_item, name_in_form=opened_grain.grain.address)
        if ready_item is not None:
            ready_item = _with_index(ready_item, index)
            return replace(
                ready_item,
                name_in_form=opened_grain.grain.address,
                successor=index.superseded_by,
            )
    return _create_grain_item(context, access, opened_grain, tenant, index)


def put_grain(
    context: Context, access: Access, content: GrainInput, *, owner: str | None = None
) -> grains.GrainResult:
    """Add a grain, or the document that it is the view of, which is then known by this address, too.

    Adding a stored grain again changes nothing, unless it was forgotten: then it is restored. A grain that replaces
    another is refused (use `supersede`).
    """
    if _may_carry_document(content):
        tenant, now = grains.resolve_tenant(access, owner), context.clock()
        ready_item = prepare_grain(
            context, access, open_grain_input(context, content).delivery, DEFAULT, tenant, now
        )
        if not port_of(ready_item.standard).has_own_fields:
            return context.engine.write(
                tenant, lambda unit: _put_original(access, unit, ready_item, now)
            )
    return grains.put(context, access, content, owner=owner)


def _may_carry_document(value: object) -> bool:
    """Return True if a grain may carry a document."""
    if isinstance(value, bytes):
        return NATIVE_KEY.encode() in value
    return isinstance(value, Mapping) and NATIVE_KEY in str(value.get("context", ""))


def _put_original(
    access: Access, unit: Unit, ready_item: PreparedItem, now: Instant
) -> grains.GrainResult:
    """Write the document that a grain is the view of, and give it the grain's address as a name."""
    address = ready_item.name_in_form
    known_names = unit.filter_known_names([(ready_item.standard, ready_item.name)])
    outcome = ready_item.write(unit, None, now, NewParts(is_new_name=not known_names))
    version = find_written_version(unit, ready_item)
    if version is not None:
        unit.add_view_name(version, oms.STANDARD, address)
    result: Final = (
        "created" if outcome == "created" else "superseded" if outcome == "updated" else "exists"
    )
    unit.record_audit(
        grains.build_audit_entry(
            access, "put", now, grains.audit_scope(unit.tenant), (address,), result
        )
    )
    return grains.GrainResult(address=address, result=result)


def find_written_version(unit: Snapshot, ready_item: PreparedItem) -> Version | None:
    """Return the version as which an item was written, or was stored before."""
    version = unit.find_by_name(ready_item.standard, ready_item.name)
    if version is None or ready_item.native is None or version.document.native == ready_item.native:
        return version
    return next(
        (
            candidate
            for candidate in unit.iterate_history(version.memory_id)
            if candidate.document.native == ready_item.native
        ),
        None,
    )


def _create_grain_item(
    context: Context,
    access: Access,
    opened_grain: OpenedGrain,
    tenant: str,
    index: IndexState = DEFAULT,
    bounds: Bounds | None = None,
) -> PreparedItem:
    """Return a grain as an item, with restrictions of a document around it."""
    grain, grain_version = (
        opened_grain.grain,
        admit(context, access, opened_grain, tenant, is_from_file=True),
    )
    grain_version = _begin_at(_tighten(context, grain_version, bounds), index.begins)

    def write(unit: Unit, prior: Version | None, now: Instant, new_here: NewParts) -> Outcome:
        stored_version = (
            None if new_here.is_new_name else unit.find_by_name(oms.STANDARD, grain.address)
        )
        if stored_version is not None and not stored_version.state.is_forgotten:
            return "known"
        version = grains.append_grain(context, unit, grain_version, now, prior=prior)
        unit.announce("created", version, now=now)
        return "created"

    return PreparedItem(
        tenant=tenant,
        standard=oms.STANDARD,
        name=grain.address,
        names=ancestry.collect_names(context, grain_version),
        predecessors=tuple(
            dict.fromkeys(
                (
                    *ancestry.list_predecessors_of_grain(grain.fields),
                    *ancestry.with_standards(index.supersedes),
                )
            )
        ),
        name_in_form=grain.address,
        write=write,
        fields=grain.fields,
        signer=opened_grain.signer,
        index=index,
        successor=index.superseded_by,
    )


def _prepare_original_of_grain(
    context: Context,
    access: Access,
    opened_grain: OpenedGrain,
    inside: _CarriedDocument,
    now: Instant,
) -> PreparedItem | None:
    """Return the document that a grain is the view of, ready to be written; None if it is no view."""
    inner, tenant, adoption = inside.document, inside.tenant, inside.adoption
    # A record names its owner itself, and is compared in its original form.
    adopted = inner if adoption is None or ump.owns(inner) else adoption.adopt_document(inner)
    moved = None if adoption is None else adopted
    original = original_in(
        opened_grain.grain,
        opened_grain.delivery,
        inner,
        tenant,
        moved=moved,
        ump_version=context.ump_version,
    )
    if original is None:
        return None
    space = grains.space_of(opened_grain.grain.namespace)
    ready_item = _prepare_document(
        context, access, replace(inside, space=space, bounds=original.bounds), now
    )
    if ready_item.tenant != tenant:
        return None
    ready_item = replace(ready_item, alias=find_embedding_address(context, adopted, tenant))
    if adoption is None:
        return ready_item
    # The grain itself may be stored, if somebody imported it without adopting it.
    name = (oms.STANDARD, opened_grain.grain.address)
    return replace(ready_item, name_in_file=name, predecessors=(*ready_item.predecessors, name))


# --- OAMS ------------------------------------------------------------------------------------------------------------


def prepare_memory(
    context: Context,
    access: Access,
    memory: dict[str, Any],
    raw: bytes | None,
    now: Instant,
    adoption: Adoption | None = None,
    *,
    is_checked: bool = False,
) -> PreparedItem:
    """Return an OAMS memory, or the document that it is the view of, ready to be written.

    The memory is in its target namespace. `is_checked`: it was checked by the rules of OAMS already.

    `raw` is the line as it was in the file, kept so that the stored bytes are the same.
    """
    accepted = memories.accept(
        context, access, memory, raw=raw, complete=True, is_checked=is_checked
    )
    if NATIVE_KEY not in metadata_of(accepted.memory):
        return _create_memory_item(context, accepted)
    inner = oams.unwrap(accepted.memory)
    if inner is not None:
        original = read_or_none(
            lambda: _prepare_original_of_memory(context, access, accepted, inner, now, adoption)
        )
        if original is not None:
            return original
    if adoption is not None:
        adopted = adoption.adopt_memory(memory)
        accepted = (
            accepted
            if adopted == memory
            else memories.accept(context, access, adopted, complete=True)
        )
    return _create_memory_item(context, accepted)


def _create_memory_item(context: Context, accepted: memories.AcceptedMemory) -> PreparedItem:
    """Return an accepted OAMS memory as an item."""

    def write(unit: Unit, prior: Version | None, now: Instant, new: NewParts) -> Outcome:
        if prior is not None and is_stale(prior, accepted):
            return "known"
        result = memories.write_next(
            context, unit, accepted, prior, now, is_allowed=new.may_follow
        ).result
        return "known" if result == "unchanged" else "created" if result == "created" else "updated"

    inner = oams.unwrap(accepted.memory)
    return PreparedItem(
        tenant=accepted.location.tenant,
        standard=oams.STANDARD,
        name=accepted.new.document.name,
        names=ancestry.collect_names(context, accepted.new),
        name_in_form=accepted.memory["key"],
        write=write,
        accepted_memory=accepted,
        line_names=ancestry.list_line_names(accepted.memory["key"], inner),
        predecessors=() if inner is None else ancestry.list_predecessors(inner),
        warnings=accepted.warnings,
    )


def precompute(
    context: Context,
    snapshot: Snapshot,
    prepared_item: PreparedItem,
    heads: memories.HeadLookup,
    now: Instant,
) -> PreparedItem:
    """Return an item with what can be computed before the writer's turn; valid while the stored memory is unchanged.

    Runs on a snapshot before the unit. Errors are ignored here, because the write repeats every check.
    """
    if prepared_item.accepted_record is not None:
        return _precompute_record(
            context, snapshot, prepared_item, prepared_item.accepted_record, now
        )
    if prepared_item.accepted_memory is None:
        version = find_written_version(snapshot, prepared_item)
        return (
            prepared_item
            if version is None or version.state.is_forgotten
            else replace(prepared_item, settled=(version.memory_id, "known"))
        )
    accepted = prepared_item.accepted_memory
    prior = heads.head_of(accepted)
    if prior is None or is_stale(prior, accepted):
        return prepared_item
    try:
        accepted = memories.prepare_next(context, snapshot, accepted, prior, now)
    except MemorandaError:
        # The write repeats this check and reports the error.
        return prepared_item
    ready_item = _create_memory_item(context, accepted)
    is_settled = (
        accepted.prepared is not None and accepted.prepared[1] is None and accepted.bearer is None
    )
    return replace(ready_item, settled=(prior.memory_id, "known")) if is_settled else ready_item


def _precompute_record(
    context: Context,
    snapshot: Snapshot,
    ready_item: PreparedItem,
    accepted: remember.Accepted,
    now: Instant,
) -> PreparedItem:
    """Return a record with the result of merging it into the stored one."""
    try:
        if accepted.is_own:
            stored_version = remember.find_repeated(context, snapshot, accepted, now)
            if stored_version is None:
                return ready_item
            return replace(ready_item, settled=(stored_version.memory_id, "merged"))
        merge = remember.prepare_merge(context, snapshot, accepted, now)
    except MemorandaError:
        # The write repeats this check and reports the error.
        return ready_item
    return (
        ready_item
        if merge is None
        else replace(ready_item, write=_create_record_item(context, accepted, merge).write)
    )


def is_stale(prior: Version, accepted: memories.AcceptedMemory) -> bool:
    """Return True if an imported memory is older than the stored one: an old bundle must not undo later changes."""
    return parse_instant(accepted.memory["updated_at"]) < prior.state.updated


def _prepare_original_of_memory(
    context: Context,
    access: Access,
    accepted: memories.AcceptedMemory,
    inner: Document,
    now: Instant,
    adoption: Adoption | None,
) -> PreparedItem | None:
    """Return the document that an OAMS memory is the view of, ready to be written; None if it is no view."""
    location, memory = accepted.location, accepted.memory
    inner_projection = project_document(context, inner, location.tenant, location.space)
    # A memory with a key, a creation time or a source of its own keeps them, with the document inside.
    for bounds in (
        None,
        bounds_of_view(
            oams.project(memory, location.tenant, location.space, user=location.user),
            inner_projection,
        ),
    ):
        if (
            oams.from_projection(
                inner_projection if bounds is None else apply_bounds(inner_projection, bounds),
                inner,
                namespace=location.namespace,
            )
            == memory
        ):
            carried = _CarriedDocument(
                document=inner,
                tenant=location.tenant,
                space=location.space,
                bounds=bounds,
                adoption=adoption,
            )
            ready_item = _prepare_document(context, access, carried, now)
            is_here = (ready_item.tenant, inner_projection.scope.space) == (
                location.tenant,
                location.space,
            )
            return replace(ready_item, name_in_form=memory["key"]) if is_here else None
    return None


# --- originals of any standard ---------------------------------------------------------------------------------------


def _tighten(context: Context, version: NewVersion, bounds: Bounds | None) -> NewVersion:
    """Return a new version with further restrictions."""
    if bounds is None or bounds == UNBOUND:
        return version
    # The writer is the importer, not the writer that the other store verified.
    own_bounds = version.projection.bounds or UNBOUND
    return with_bounds(context, version, replace(bounds, writer=own_bounds.writer))


def _begin_at(version: NewVersion, begins: Instant | None) -> NewVersion:
    """Return a new version that is valid from the start which its former store had for it."""
    if begins is None:
        return version
    return replace(version, projection=replace(version.projection, valid_from=begins))


def _prepare_document(
    context: Context, access: Access, carried: _CarriedDocument, now: Instant
) -> PreparedItem:
    """Return a document that travelled inside another one as an item of its own. Raises MemorandaError."""
    prepare_inside = _PREPARERS.get(carried.document.standard, _prepare_by_port)
    return prepare_inside(context, access, carried, now)


class _CarriedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document that travelled inside another one, with the tenant and space where it belongs."""

    document: Document
    tenant: str
    space: str = ""
    # Restrictions that the outer document states beyond those of this one.
    bounds: Bounds | None = None
    adoption: Adoption | None
    # The start of the validity in the store that exported it, if the document states another one.
    begins: Instant | None = None

    @property
    def adopted(self) -> Document:
        """The document as the importer's own, if it is adopted."""
        return (
            self.document if self.adoption is None else self.adoption.adopt_document(self.document)
        )

    def restrict(self, context: Context, version: NewVersion) -> NewVersion:
        """Return the new version of the document with what the outer one states beyond it."""
        return _begin_at(_tighten(context, version, self.bounds), self.begins)


def _prepare_carried_record(
    context: Context, access: Access, inside: _CarriedDocument, now: Instant
) -> PreparedItem:
    """Return a carried record as an item."""
    adopted = inside.adopted
    accepted = remember.accept(context, access, parse(adopted.native), now)
    if ump.document_of(accepted.record) != adopted:
        raise InvalidInput("the carried record does not match its name")
    # A record that exceeds a grain travels complete, and may itself be the view of a document.
    record = load_record(inside.document.native)
    within = ump.unwrap(record)
    if within is not None and read_carried_bounds(record) is not None:
        original = read_or_none(
            lambda: _prepare_original_of_record(
                context, access, record, within, now, inside.adoption
            )
        )
        if original is not None:
            return original
    return _create_record_item(
        context, replace(accepted, new=_tighten(context, accepted.new, inside.bounds))
    )


def _prepare_carried_grain(
    context: Context, access: Access, inside: _CarriedDocument, _: Instant
) -> PreparedItem:
    """Return a carried grain as an item."""
    inner = inside.document
    opened_grain = open_grain_input(context, inner.native)
    if (opened_grain.grain.address, opened_grain.delivery) != (inner.name, inner.native):
        raise InvalidInput("the carried grain does not match its name")
    index = IndexState(valid_from=inside.begins)
    item = _create_grain_item(context, access, opened_grain, inside.tenant, index, inside.bounds)
    return replace(item, index=DEFAULT)


def _prepare_carried_memory(
    context: Context, access: Access, inside: _CarriedDocument, _: Instant
) -> PreparedItem:
    """Return a carried OAMS memory as an item; its bytes tell which version of the key it is."""
    inner = inside.adopted
    memory = parse(inner.native, max_bytes=MAX_NATIVE_BYTES)
    accepted = memories.accept(context, access, memory, raw=inner.native, complete=True)
    if (
        accepted.new.document.native != inner.native
        or oams.with_portable_name(inner, accepted.memory) != inner
    ):
        raise InvalidInput("the carried memory does not match its name")
    accepted = replace(accepted, new=inside.restrict(context, accepted.new))
    location, key = accepted.location, accepted.memory["key"]
    name = memories.stored_name(context, location, key)

    def write(unit: Unit, prior: Version | None, now: Instant, _: NewParts) -> Outcome:
        stored_version = unit.find_by_name(oams.STANDARD, name) or memories.find_head(
            context, unit, location, key, or_retracted=True
        )
        if stored_version is not None and stored_version.state.is_forgotten:
            stored_version = None
        if stored_version is not None:
            if any(
                version.document.native == inner.native
                for version in unit.iterate_history(stored_version.memory_id)
            ):
                return "known"
            if same_content(
                oams_views.render(context, unit, stored_version, location).memory, accepted.memory
            ):
                # It is the head, as it is exported without its history.
                return "known"
            if prior is None and is_stale(stored_version, accepted):
                return "known"
        head = stored_version or prior
        if head is not None and prior is None:
            check_supersession(unit, head, {}, now=now)
        memories.refuse_earlier_expiry(accepted, head)
        memories.append_memory(context, unit, accepted.new, head, now, closes=prior is None)
        return "created" if head is None or prior is not None else "updated"

    return PreparedItem(
        tenant=location.tenant,
        standard=oams.STANDARD,
        name=name,
        names=ancestry.collect_names(context, accepted.new),
        write=write,
        native=inner.native,
        written_at=parse_instant(accepted.memory["updated_at"]),
    )


def _prepare_by_port(
    context: Context, access: Access, inside: _CarriedDocument, _: Instant
) -> PreparedItem:
    """Return a carried document as an item, checked by the port of its standard alone."""
    inner, tenant, space = inside.document, inside.tenant, inside.space
    port_of(inner.standard).check(inner)
    projection = project_document(context, inner, tenant, space)
    access.require_scope(
        {"owner": tenant, "visibility": projection.scope.visibility, "project": space or None}
    )
    refuse_secrets(context, {"content": projection.text, "tags": list(projection.tags)})
    carried_version = inside.restrict(context, prepare(context, inner, projection))

    def write(unit: Unit, prior: Version | None, now: Instant, new_here: NewParts) -> Outcome:
        stored_version = (
            None if new_here.is_new_name else unit.find_by_name(inner.standard, inner.name)
        )
        if stored_version is not None and not stored_version.state.is_forgotten:
            return "known"
        version = (
            carried_version.append(unit, now=now)
            if prior is None
            else append_next(context, unit, prior, carried_version, now=now)
        )
        unit.announce("created", version, now=now)
        return "created"

    return PreparedItem(
        tenant=tenant,
        standard=inner.standard,
        name=inner.name,
        names=ancestry.collect_names(context, carried_version),
        write=write,
    )


# Standards whose verbs merge, supersede or check; their rules hold for an import, too.
_PREPARERS: Final[
    Mapping[str, Callable[[Context, Access, _CarriedDocument, Instant], PreparedItem]]
] = {
    ump.STANDARD: _prepare_carried_record,
    oms.STANDARD: _prepare_carried_grain,
    oams.STANDARD: _prepare_carried_memory,
}
