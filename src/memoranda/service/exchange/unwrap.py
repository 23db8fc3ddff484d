"""What a file brings, made ready for the store: itself, or the original that it is the view of.

Every form carries the native document of a memory that another standard wrote (`model.native`). What comes in is
compared with the view that this very document has in that form; if the two say the same, the document itself is taken
in, under its own names, and the view is not: so a memory is one memory whichever form it travelled in, and coming back
to where it is already it changes nothing. What says anything else is only what it says.

    form     the same, but for                                             told by the view beside the document
    ump      integrity, valid_to, status, superseded_by                    what superseded it, when, and any verdict
    oms      nothing (the address is compared)                             its index state
    oams     nothing                                                       –
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import parse
from memoranda.errors import GrainError, InvalidInput, MemorandaError, StoreCorrupt
from memoranda.model.bounds import UNBOUND, apply_bounds, bounds_of_view
from memoranda.model.instant import LATEST, Instant, parse_instant
from memoranda.model.memory import Bounds, Document, Version
from memoranda.model.native import NATIVE_KEY, STATE_KEY
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
    read_carried_state,
)
from memoranda.service.exchange import ancestry
from memoranda.service.exchange.adoption import MAX_NATIVE_BYTES, Adoption
from memoranda.service.exchange.ancestry import ItemNames, Name
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
from memoranda.standards.oams import mapping as oams
from memoranda.standards.oams.memory import metadata_of, same_content
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.manifest import DEFAULT, UNVERIFIED, IndexState
from memoranda.standards.oms.port import original_in
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump.port import load_record
from memoranda.standards.ump.shapes import Record
from memoranda.storage.engine.contract import Snapshot, Unit

# What became of a memory. "known": it was here, or something newer is. "forgotten": it was here, and stays forgotten.
Outcome = Literal["created", "updated", "merged", "known", "forgotten"]


class NewParts(NamedTuple):
    """What is known not to be in the store when a memory is written: its name, and the fact that it states."""

    is_new_name: bool = False
    is_new_fact: bool = False
    # And that what it follows may be superseded was asked already.
    may_follow: bool = False


class PreparedItem(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that passed every check and can be written.

    `write` is told what it follows, if that is known, and what about it is new to the store.
    """

    tenant: str
    # Under which it will be found in the store.
    standard: str
    name: str
    write: Callable[[Unit, Version | None, Instant, NewParts], Outcome]
    # An OAMS memory that is looked up by its key together with the others of its batch.
    accepted_memory: memories.AcceptedMemory | None = None
    # A record as it was accepted.
    accepted_record: remember.Accepted | None = None
    # What comes of it as long as this memory does not change: there is nothing to write.
    settled: tuple[int, Outcome] | None = None
    warnings: tuple[str, ...] = ()
    # Of a memory whose name stands for the head: which version it is, its bytes say.
    native: bytes | None = None
    # And when that was written.
    written_at: Instant | None = None
    # What its policy may look at, when it is to replace something.
    fields: Mapping[str, Any] = msgspec.field(default_factory=dict)
    # Who signed a grain.
    signer: str | None = None
    # Its names here, and its name in its file, where that is another.
    names: ItemNames
    name_in_file: Name | None = None
    # The memories that it supersedes, the latest first.
    predecessors: tuple[Name, ...] = ()
    # What its form calls it, what it says superseded it there, until when it was true, and when that was known.
    name_in_form: str = ""
    # Another name that its form has for it.
    alias: str | None = None
    index: IndexState = DEFAULT
    successor: str | None = None
    valid_to: Instant | None = None

    @property
    def claims(self) -> list[Name]:
        """The names under which it is known if it was superseded before it came."""
        names = (
            self.names.names
            if self.name_in_file is None
            else (*self.names.names, self.name_in_file)
        )
        return [*ancestry.create_claims(names), *self.names.keys]

    @property
    def successor_names(self) -> dict[str, str]:
        """What each standard calls its successor, as far as its form tells."""
        record = (
            self.successor
            if self.successor != self.index.superseded_by
            else self.index.successor_name
        )
        names = {ump.STANDARD: record, oms.STANDARD: self.index.superseded_by}
        return {standard: name for standard, name in names.items() if name is not None}


# --- UMP -------------------------------------------------------------------------------------------------------------


def prepare_record(
    context: Context, access: Access, draft: object, now: Instant, adoption: Adoption | None = None
) -> PreparedItem:
    """Return a record, or the document that it is the view of, ready to be written."""
    mine = (
        adoption.adopt_record(draft) if adoption is not None and isinstance(draft, dict) else draft
    )
    accepted = remember.accept(context, access, mine, now, is_from_file=True)
    # What is adopted is compared as it came: a view is one of its former owner's document.
    record = accepted.record if mine is draft else cast("Record", draft)
    inner, index = ump.unwrap(accepted.record), read_index_state(accepted.record)
    if inner is not None:
        original = _try_or_none(
            lambda: _prepare_original_of_record(context, access, record, inner, now, adoption)
        )
        if original is not None:
            return original
    return _with_index(_create_record_item(context, accepted), index)


def _with_index(ready: PreparedItem, index: IndexState) -> PreparedItem:
    """Return a memory with what its form tells beside it, and the memories that it supersedes by that."""
    index_predecessors = (
        name for name in ancestry.with_standards(index.supersedes) if name not in ready.predecessors
    )
    return replace(ready, index=index, predecessors=(*ready.predecessors, *index_predecessors))


def _create_record_item(
    context: Context, accepted: remember.Accepted, merged: remember.PreparedMerge | None = None
) -> PreparedItem:
    def write(unit: Unit, prior: Version | None, now: Instant, new: NewParts) -> Outcome:
        done = remember.put(
            context,
            unit,
            accepted,
            now,
            prior=prior,
            merge=merged,
            is_new=new.is_new_fact,
            is_free=new.is_new_name,
        )
        return done.result

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
    if not is_view(context, record, inner):
        return None
    tenant = record["scope"]["owner"] if adoption is None else adoption.tenant
    space, bounds = record["scope"].get("project", ""), read_carried_bounds(record)
    ready = _prepare_document(context, access, inner, tenant, space, now, bounds, adoption)
    if ready.tenant != tenant:
        return None
    elsewhere = None if adoption is None else (ump.STANDARD, record["id"])
    return replace(_with_view_state(ready, record), name_in_file=elsewhere)


def read_index_state(record: Record) -> IndexState:
    """What another store knew of a record beside what it says. Raises InvalidInput for what none says."""
    state, where = read_carried_state(record), f"body.structured.{STATE_KEY}"
    verdict, closed = state.get("verification", UNVERIFIED), state.get("closed")
    if verdict not in grains.VERIFICATIONS:
        raise InvalidInput(f"{where}.verification must be one of {', '.join(grains.VERIFICATIONS)}")
    if closed is not None and (type(closed) is not int or not 0 <= closed <= LATEST):
        raise InvalidInput(f"{where}.closed must be an instant in milliseconds")
    try:
        read_carried_bounds(record)
    except StoreCorrupt:
        raise InvalidInput(f"{where}.bounds is not what binds a memory") from None
    try:
        index = IndexState(
            verification_status=verdict,
            system_valid_to=closed,
            superseded_by=state.get("successor"),
            supersedes=tuple(state.get("supersedes", ())),
        )
    except (GrainError, TypeError):
        message = f"{where}: successor must be the address of a grain, supersedes a list of addresses and ids"
        raise InvalidInput(message) from None
    return DEFAULT if index == DEFAULT else index


def _with_view_state(ready: PreparedItem, record: Record) -> PreparedItem:
    """What a view says beside its document: what superseded it, and until when it was true."""
    successors = record.get("superseded_by") or ()
    valid_to = record["time"].get("valid_to")
    return replace(
        _with_index(ready, read_index_state(record)),
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
    """Return a grain, or the document that it is the view of, ready to be written."""
    opened = open_grain_input(context, delivery)
    inner = oms.unwrap(opened.grain)
    if inner is not None:
        ready = _try_or_none(
            lambda: _prepare_original_of_grain(
                context, access, opened, inner, tenant, now, adoption
            )
        )
        if ready is not None and index == DEFAULT:
            return replace(ready, name_in_form=opened.grain.address)
        if ready is not None:
            ready = _with_index(ready, index)
            return replace(ready, name_in_form=opened.grain.address, successor=index.superseded_by)
    return _create_grain_item(context, access, opened, tenant, index)


def put_grain(
    context: Context, access: Access, content: GrainInput, *, owner: str | None = None
) -> grains.GrainResult:
    """Add a grain, or the document that it is the view of, which is then known by this address too.

    The same grain again is no news, unless it was forgotten: then it is there again. Refuses what would replace another
    (use `supersede`).
    """
    if _may_carry_document(content):
        tenant, now = grains.resolve_tenant(access, owner), context.clock()
        ready = prepare_grain(
            context, access, open_grain_input(context, content).delivery, DEFAULT, tenant, now
        )
        if not port_of(ready.standard).has_own_fields:
            return context.engine.write(
                tenant, lambda unit: _put_original(access, unit, ready, now)
            )
    return grains.put(context, access, content, owner=owner)


def _may_carry_document(value: object) -> bool:
    if isinstance(value, bytes):
        return NATIVE_KEY.encode() in value
    return isinstance(value, Mapping) and NATIVE_KEY in str(value.get("context", ""))


def _put_original(
    access: Access, unit: Unit, ready: PreparedItem, now: Instant
) -> grains.GrainResult:
    address = ready.name_in_form
    known_names = unit.filter_known_names([(ready.standard, ready.name)])
    outcome = ready.write(unit, None, now, NewParts(is_new_name=not known_names))
    version = find_written_version(unit, ready)
    if version is not None:
        unit.add_view_name(version, oms.STANDARD, address)
    result: Final = (
        "created" if outcome == "created" else "superseded" if outcome == "updated" else "exists"
    )
    unit.record_audit(
        grains.build_audit_entry(access, "put", now, (address,), unit.tenant, "", result)
    )
    return grains.GrainResult(address=address, result=result)


def find_written_version(unit: Unit, ready: PreparedItem) -> Version | None:
    """The version that a memory was written as, or was there as."""
    version = unit.find_by_name(ready.standard, ready.name)
    if version is None or ready.native is None or version.document.native == ready.native:
        return version
    return next(
        (
            earlier
            for earlier in unit.iterate_history(version.memory_id)
            if earlier.document.native == ready.native
        ),
        None,
    )


def _create_grain_item(
    context: Context,
    access: Access,
    opened: OpenedGrain,
    tenant: str,
    index: IndexState = DEFAULT,
    bounds: Bounds | None = None,
) -> PreparedItem:
    grain, new = opened.grain, admit(context, access, opened, tenant, is_from_file=True)
    new = _tighten(context, new, bounds)

    def write(unit: Unit, prior: Version | None, now: Instant, new_here: NewParts) -> Outcome:
        stored = None if new_here.is_new_name else unit.find_by_name(oms.STANDARD, grain.address)
        if stored is not None and not stored.state.is_forgotten:
            return "known"
        version = grains.append_grain(context, unit, new, now, prior=prior)
        unit.announce("created", version, now=now)
        return "created"

    return PreparedItem(
        tenant=tenant,
        standard=oms.STANDARD,
        name=grain.address,
        names=ancestry.collect_names(context, new),
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
        signer=opened.signer,
        index=index,
        successor=index.superseded_by,
    )


def _prepare_original_of_grain(
    context: Context,
    access: Access,
    opened: OpenedGrain,
    inner: Document,
    tenant: str,
    now: Instant,
    adoption: Adoption | None,
) -> PreparedItem | None:
    grain = opened.grain
    # A record names its owner itself, and is compared as it came.
    mine = inner if adoption is None or ump.owns(inner) else adoption.adopt_document(inner)
    moved = None if adoption is None else mine
    original = original_in(
        grain, opened.delivery, inner, tenant, moved=moved, ump_version=context.ump_version
    )
    if original is None:
        return None
    space = grains.space_of(grain.namespace)
    ready = _prepare_document(context, access, inner, tenant, space, now, original.bounds, adoption)
    if ready.tenant != tenant:
        return None
    ready = replace(ready, alias=find_embedding_address(context, mine, tenant))
    if adoption is None:
        return ready
    # The grain itself may be here, brought by somebody who did not adopt it.
    name = (oms.STANDARD, grain.address)
    return replace(ready, name_in_file=name, predecessors=(*ready.predecessors, name))


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
    """Return an OAMS memory that has its place, or the document that it is the view of, ready to be written.

    `is_checked` says that it was checked by the rules of OAMS already.
    """
    accepted = memories.accept(
        context, access, memory, raw=raw, complete=True, is_checked=is_checked
    )
    if NATIVE_KEY not in metadata_of(accepted.memory):
        return _create_memory_item(context, accepted)
    inner = oams.unwrap(accepted.memory)
    if inner is not None:
        original = _try_or_none(
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
    def write(unit: Unit, prior: Version | None, now: Instant, new: NewParts) -> Outcome:
        if prior is not None and is_stale(prior, accepted):
            return "known"
        result = memories.write_next(
            context, unit, accepted, prior, now, is_allowed=new.may_follow
        ).result
        return "known" if result == "unchanged" else "created" if result == "created" else "updated"

    return PreparedItem(
        tenant=accepted.location.tenant,
        standard=oams.STANDARD,
        name=accepted.new.document.name,
        names=ancestry.collect_names(context, accepted.new),
        name_in_form=accepted.memory["key"],
        write=write,
        accepted_memory=accepted,
        warnings=accepted.warnings,
    )


def precompute(
    context: Context,
    snapshot: Snapshot,
    ready: PreparedItem,
    heads: memories.HeadLookup,
    now: Instant,
) -> PreparedItem:
    """A memory with what it comes to if what is there now still is when the writer's turn comes."""
    if ready.accepted_record is not None:
        return _precompute_record(context, snapshot, ready, ready.accepted_record, now)
    if ready.accepted_memory is None and ready.native is None:
        stored = snapshot.find_by_name(ready.standard, ready.name)
        return (
            ready
            if stored is None or stored.state.is_forgotten
            else replace(ready, settled=(stored.memory_id, "known"))
        )
    accepted = ready.accepted_memory
    prior = None if accepted is None else heads.head_of(accepted)
    if accepted is None or prior is None or is_stale(prior, accepted):
        return ready
    try:
        accepted = memories.prepare_next(context, snapshot, accepted, prior, now)
    except MemorandaError:
        # Refused when it is written, if it still is to be.
        return ready
    foreseen = _create_memory_item(context, accepted)
    is_settled = (
        accepted.prepared is not None and accepted.prepared[1] is None and accepted.bearer is None
    )
    return replace(foreseen, settled=(prior.memory_id, "known")) if is_settled else foreseen


def _precompute_record(
    context: Context,
    snapshot: Snapshot,
    ready: PreparedItem,
    accepted: remember.Accepted,
    now: Instant,
) -> PreparedItem:
    try:
        if accepted.is_own:
            stored = remember.find_repeated(context, snapshot, accepted, now)
            return ready if stored is None else replace(ready, settled=(stored.memory_id, "merged"))
        merged = remember.prepare_merge(context, snapshot, accepted, now)
    except MemorandaError:
        # Refused when it is written, if it still is to be.
        return ready
    return (
        ready
        if merged is None
        else replace(ready, write=_create_record_item(context, accepted, merged).write)
    )


def is_stale(prior: Version, accepted: memories.AcceptedMemory) -> bool:
    """Bringing an old bundle in again must not undo what happened since, whichever standard did it."""
    return parse_instant(accepted.memory["updated_at"]) < prior.state.updated


def _prepare_original_of_memory(
    context: Context,
    access: Access,
    accepted: memories.AcceptedMemory,
    inner: Document,
    now: Instant,
    adoption: Adoption | None,
) -> PreparedItem | None:
    location, memory = accepted.location, accepted.memory
    own = project_document(context, inner, location.tenant, location.space)
    # A memory that has a key, a creation or a source of its own keeps them, with the document inside.
    for bounds in (
        None,
        bounds_of_view(
            oams.project(memory, location.tenant, location.space, user=location.user), own
        ),
    ):
        if (
            oams.from_projection(
                own if bounds is None else apply_bounds(own, bounds),
                inner,
                namespace=location.namespace,
            )
            == memory
        ):
            ready = _prepare_document(
                context, access, inner, location.tenant, location.space, now, bounds, adoption
            )
            is_here = (ready.tenant, own.scope.space) == (location.tenant, location.space)
            return replace(ready, name_in_form=memory["key"]) if is_here else None
    return None


# --- originals of any standard ---------------------------------------------------------------------------------------


def _try_or_none(make: Callable[[], PreparedItem | None]) -> PreparedItem | None:
    """What cannot be taken in as an original is only what it says itself."""
    try:
        return make()
    except (MemorandaError, LookupError, TypeError, ValueError, AttributeError):
        return None


def _tighten(context: Context, new: NewVersion, bounds: Bounds | None) -> NewVersion:
    if bounds is None or bounds == UNBOUND:
        return new
    # Who wrote it is who brings it here, whomever the store it comes from had verified.
    stated = new.projection.bounds or UNBOUND
    return with_bounds(context, new, replace(bounds, writer=stated.writer))


def _prepare_document(
    context: Context,
    access: Access,
    inner: Document,
    tenant: str,
    space: str,
    now: Instant,
    bounds: Bounds | None,
    adoption: Adoption | None,
) -> PreparedItem:
    """Return a document that travelled inside another, as if it had come by itself, bound to `kept`.

    Raises MemorandaError.
    """
    prepare_inside = _PREPARERS.get(inner.standard, _prepare_by_port)
    carried = _CarriedDocument(
        document=inner, tenant=tenant, space=space, bounds=bounds, adoption=adoption
    )
    return prepare_inside(context, access, carried, now)


class _CarriedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document that travelled inside another, and where it belongs."""

    document: Document
    tenant: str
    space: str
    # Restrictions that the outer document states beyond those of this one.
    bounds: Bounds | None
    adoption: Adoption | None

    @property
    def adopted(self) -> Document:
        """The document as the importer's own, if that is wanted."""
        return (
            self.document if self.adoption is None else self.adoption.adopt_document(self.document)
        )


def _prepare_carried_record(
    context: Context, access: Access, inside: _CarriedDocument, now: Instant
) -> PreparedItem:
    mine = inside.adopted
    accepted = remember.accept(context, access, parse(mine.native), now)
    if ump.document_of(accepted.record) != mine:
        raise InvalidInput("not the record that it is named after")
    # A record that says more than a grain can travels whole, and may itself be the view of a document.
    record = load_record(inside.document.native)
    within = ump.unwrap(record)
    if within is not None and read_carried_bounds(record) is not None:
        original = _try_or_none(
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
    inner = inside.document
    opened = open_grain_input(context, inner.native)
    if (opened.grain.address, opened.delivery) != (inner.name, inner.native):
        raise InvalidInput("not the grain that it is named after")
    return _create_grain_item(context, access, opened, inside.tenant, bounds=inside.bounds)


def _prepare_carried_memory(
    context: Context, access: Access, inside: _CarriedDocument, _: Instant
) -> PreparedItem:
    inner = inside.adopted
    memory = parse(inner.native, max_bytes=MAX_NATIVE_BYTES)
    accepted = memories.accept(context, access, memory, raw=inner.native, complete=True)
    if (
        accepted.new.document.native != inner.native
        or oams.with_portable_name(inner, accepted.memory) != inner
    ):
        raise InvalidInput("not the memory that it is named after")
    accepted = replace(accepted, new=_tighten(context, accepted.new, inside.bounds))
    location, key = accepted.location, accepted.memory["key"]
    name = memories.stored_name(context, location, key)

    def write(unit: Unit, prior: Version | None, now: Instant, _: NewParts) -> Outcome:
        stored = unit.find_by_name(oams.STANDARD, name) or memories.find_head(
            context, unit, location, key, or_retracted=True
        )
        if stored is not None and stored.state.is_forgotten:
            stored = None
        if stored is not None:
            if any(
                version.document.native == inner.native
                for version in unit.iterate_history(stored.memory_id)
            ):
                return "known"
            if same_content(
                oams_views.render(context, unit, stored, location).memory, accepted.memory
            ):
                # The head, as it leaves without its history.
                return "known"
            if prior is None and is_stale(stored, accepted):
                return "known"
        head = stored or prior
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
    """Return a document of a standard whose verbs have no rules of their own for an import, as its port checks it."""
    inner, tenant, space = inside.document, inside.tenant, inside.space
    port_of(inner.standard).check(inner)
    projection = project_document(context, inner, tenant, space)
    access.require_scope(
        {"owner": tenant, "visibility": projection.scope.visibility, "project": space or None}
    )
    refuse_secrets(context, {"content": projection.text, "tags": list(projection.tags)})
    new = _tighten(context, prepare(context, inner, projection), inside.bounds)

    def write(unit: Unit, prior: Version | None, now: Instant, new_here: NewParts) -> Outcome:
        stored = None if new_here.is_new_name else unit.find_by_name(inner.standard, inner.name)
        if stored is not None and not stored.state.is_forgotten:
            return "known"
        version = (
            new.append(unit, now=now)
            if prior is None
            else append_next(context, unit, prior, new, now=now)
        )
        unit.announce("created", version, now=now)
        return "created"

    return PreparedItem(
        tenant=tenant,
        standard=inner.standard,
        name=inner.name,
        names=ancestry.collect_names(context, new),
        write=write,
    )


# Standards whose verbs merge, supersede or check what is imported; their rules hold for an import too.
_PREPARERS: Final[
    Mapping[str, Callable[[Context, Access, _CarriedDocument, Instant], PreparedItem]]
] = {
    ump.STANDARD: _prepare_carried_record,
    oms.STANDARD: _prepare_carried_grain,
    oams.STANDARD: _prepare_carried_memory,
}
