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
from memoranda.service.exchange.ancestry import Name, Names
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


class News(NamedTuple):
    """What is known not to be in the store when a memory is written: its name, and the fact that it states."""

    name: bool = False
    fact: bool = False
    # And that what it follows may be superseded was asked already.
    may_follow: bool = False


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that passed every check and can be written.

    `write` is told what it follows, if that is known, and what about it is new to the store.
    """

    tenant: str
    # Under which it will be found in the store.
    standard: str
    name: str
    write: Callable[[Unit, Version | None, Instant, News], Outcome]
    # An OAMS memory that is looked up by its key together with the others of its batch.
    given: memories.AcceptedMemory | None = None
    # A record as it was accepted.
    accepted: remember.Accepted | None = None
    # What comes of it as long as this memory does not change: there is nothing to write.
    settled: tuple[int, Outcome] | None = None
    warnings: tuple[str, ...] = ()
    # Of a memory whose name stands for the head: which version it is, its bytes say.
    native: bytes | None = None
    # And when that was written.
    written: Instant | None = None
    # What its policy may look at, when it is to replace something.
    fields: Mapping[str, Any] = msgspec.field(default_factory=dict)
    # Who signed a grain.
    signer: str | None = None
    # Its names here, and its name in its file, where that is another.
    known: Names
    elsewhere: Name | None = None
    # The memories that it supersedes, the latest first.
    predecessors: tuple[Name, ...] = ()
    # What its form calls it, what it says superseded it there, until when it was true, and when that was known.
    known_as: str = ""
    # Another name that its form has for it.
    alias: str | None = None
    index: IndexState = DEFAULT
    successor: str | None = None
    valid_to: Instant | None = None

    @property
    def claims(self) -> list[Name]:
        """The names under which it is known if it was superseded before it came."""
        names = self.known.names if self.elsewhere is None else (*self.known.names, self.elsewhere)
        return [*ancestry.claims(names), *self.known.keys]

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


def ready_record(
    context: Context, access: Access, draft: object, now: Instant, adoption: Adoption | None = None
) -> Ready:
    """Return a record, or the document that it is the view of, ready to be written."""
    mine = adoption.record(draft) if adoption is not None and isinstance(draft, dict) else draft
    accepted = remember.accept(context, access, mine, now, is_from_file=True)
    # What is adopted is compared as it came: a view is one of its former owner's document.
    record = accepted.record if mine is draft else cast("Record", draft)
    inner, index = ump.unwrap(accepted.record), index_of(accepted.record)
    if inner is not None:
        original = _or_none(
            lambda: _original_of_record(context, access, record, inner, now, adoption)
        )
        if original is not None:
            return original
    return _with_index(_record(context, accepted), index)


def _with_index(ready: Ready, index: IndexState) -> Ready:
    """Return a memory with what its form tells beside it, and the memories that it supersedes by that."""
    named = (
        each for each in ancestry.with_standards(index.supersedes) if each not in ready.predecessors
    )
    return replace(ready, index=index, predecessors=(*ready.predecessors, *named))


def _record(
    context: Context, accepted: remember.Accepted, foreseen: remember.PreparedMerge | None = None
) -> Ready:
    def write(unit: Unit, prior: Version | None, now: Instant, new: News) -> Outcome:
        done = remember.put(
            context,
            unit,
            accepted,
            now,
            prior=prior,
            merge=foreseen,
            is_new=new.fact,
            is_free=new.name,
        )
        return done.result

    return Ready(
        tenant=accepted.projection.scope.tenant,
        standard=ump.STANDARD,
        name=accepted.record["id"],
        known=ancestry.known_of(context, accepted.new),
        predecessors=ancestry.superseded_by_record(accepted.record),
        known_as=accepted.record["id"],
        write=write,
        accepted=accepted,
    )


def _original_of_record(
    context: Context,
    access: Access,
    record: Record,
    inner: Document,
    now: Instant,
    adoption: Adoption | None,
) -> Ready | None:
    if not is_view(context, record, inner):
        return None
    tenant = record["scope"]["owner"] if adoption is None else adoption.tenant
    space, kept = record["scope"].get("project", ""), read_carried_bounds(record)
    ready = _ready_document(context, access, inner, tenant, space, now, kept, adoption)
    if ready.tenant != tenant:
        return None
    elsewhere = None if adoption is None else (ump.STANDARD, record["id"])
    return replace(_with_state_of(ready, record), elsewhere=elsewhere)


def index_of(record: Record) -> IndexState:
    """What another store knew of a record beside what it says. Raises InvalidInput for what none says."""
    known, where = read_carried_state(record), f"body.structured.{STATE_KEY}"
    verdict, closed = known.get("verification", UNVERIFIED), known.get("closed")
    if verdict not in grains.VERIFICATIONS:
        raise InvalidInput(f"{where}.verification must be one of {', '.join(grains.VERIFICATIONS)}")
    if closed is not None and (type(closed) is not int or not 0 <= closed <= LATEST):
        raise InvalidInput(f"{where}.closed must be an instant in milliseconds")
    try:
        read_carried_bounds(record)
    except StoreCorrupt:
        raise InvalidInput(f"{where}.bounds is not what binds a memory") from None
    try:
        found = IndexState(
            verification_status=verdict,
            system_valid_to=closed,
            superseded_by=known.get("successor"),
            supersedes=tuple(known.get("supersedes", ())),
        )
    except (GrainError, TypeError):
        message = f"{where}: successor must be the address of a grain, supersedes a list of addresses and ids"
        raise InvalidInput(message) from None
    return DEFAULT if found == DEFAULT else found


def _with_state_of(ready: Ready, record: Record) -> Ready:
    """What a view says beside its document: what superseded it, and until when it was true."""
    successors = record.get("superseded_by") or ()
    valid_to = record["time"].get("valid_to")
    return replace(
        _with_index(ready, index_of(record)),
        known_as=record["id"],
        successor=successors[-1] if successors else None,
        valid_to=None if valid_to is None or not successors else parse_instant(valid_to),
    )


# --- OMS -------------------------------------------------------------------------------------------------------------


def ready_grain(
    context: Context,
    access: Access,
    delivery: bytes,
    index: IndexState,
    tenant: str,
    now: Instant,
    adoption: Adoption | None = None,
) -> Ready:
    """Return a grain, or the document that it is the view of, ready to be written."""
    opened = open_grain_input(context, delivery)
    inner = oms.unwrap(opened.grain)
    if inner is not None:
        ready = _or_none(
            lambda: _original_of_grain(context, access, opened, inner, tenant, now, adoption)
        )
        if ready is not None and index == DEFAULT:
            return replace(ready, known_as=opened.grain.address)
        if ready is not None:
            ready = _with_index(ready, index)
            return replace(ready, known_as=opened.grain.address, successor=index.superseded_by)
    return _grain(context, access, opened, tenant, index)


def put_grain(
    context: Context, access: Access, given: GrainInput, *, owner: str | None = None
) -> grains.GrainResult:
    """Add a grain, or the document that it is the view of, which is then known by this address too.

    The same grain again is no news, unless it was forgotten: then it is there again. Refuses what would replace another
    (use `supersede`).
    """
    if _may_hold_another(given):
        tenant, now = grains.resolve_tenant(access, owner), context.clock()
        ready = ready_grain(
            context, access, open_grain_input(context, given).delivery, DEFAULT, tenant, now
        )
        if not port_of(ready.standard).has_own_fields:
            return context.engine.write(
                tenant, lambda unit: _put_original(access, unit, ready, now)
            )
    return grains.put(context, access, given, owner=owner)


def _may_hold_another(given: object) -> bool:
    if isinstance(given, bytes):
        return NATIVE_KEY.encode() in given
    return isinstance(given, Mapping) and NATIVE_KEY in str(given.get("context", ""))


def _put_original(access: Access, unit: Unit, ready: Ready, now: Instant) -> grains.GrainResult:
    address = ready.known_as
    known = unit.filter_known_names([(ready.standard, ready.name)])
    outcome = ready.write(unit, None, now, News(name=not known))
    version = version_of(unit, ready)
    if version is not None:
        unit.add_view_name(version, oms.STANDARD, address)
    result: Final = (
        "created" if outcome == "created" else "superseded" if outcome == "updated" else "exists"
    )
    unit.record_audit(
        grains.build_audit_entry(access, "put", now, (address,), unit.tenant, "", result)
    )
    return grains.GrainResult(address=address, result=result)


def version_of(unit: Unit, ready: Ready) -> Version | None:
    """The version that a memory was written as, or was there as."""
    version = unit.find_by_name(ready.standard, ready.name)
    if version is None or ready.native is None or version.document.native == ready.native:
        return version
    return next(
        (
            each
            for each in unit.iterate_history(version.memory_id)
            if each.document.native == ready.native
        ),
        None,
    )


def _grain(
    context: Context,
    access: Access,
    opened: OpenedGrain,
    tenant: str,
    index: IndexState = DEFAULT,
    kept: Bounds | None = None,
) -> Ready:
    grain, new = opened.grain, admit(context, access, opened, tenant, is_from_file=True)
    new = _tightened(context, new, kept)

    def write(unit: Unit, prior: Version | None, now: Instant, new_here: News) -> Outcome:
        known = None if new_here.name else unit.find_by_name(oms.STANDARD, grain.address)
        if known is not None and not known.state.is_forgotten:
            return "known"
        version = grains.append_grain(context, unit, new, now, prior=prior)
        unit.announce("created", version, now=now)
        return "created"

    return Ready(
        tenant=tenant,
        standard=oms.STANDARD,
        name=grain.address,
        known=ancestry.known_of(context, new),
        predecessors=tuple(
            dict.fromkeys(
                (
                    *ancestry.superseded_by_grain(grain.fields),
                    *ancestry.with_standards(index.supersedes),
                )
            )
        ),
        known_as=grain.address,
        write=write,
        fields=grain.fields,
        signer=opened.signer,
        index=index,
        successor=index.superseded_by,
    )


def _original_of_grain(
    context: Context,
    access: Access,
    opened: OpenedGrain,
    inner: Document,
    tenant: str,
    now: Instant,
    adoption: Adoption | None,
) -> Ready | None:
    grain = opened.grain
    # A record names its owner itself, and is compared as it came.
    mine = inner if adoption is None or ump.owns(inner) else adoption.document(inner)
    moved = None if adoption is None else mine
    original = original_in(
        grain, opened.delivery, inner, tenant, moved=moved, ump_version=context.ump_version
    )
    if original is None:
        return None
    space = grains.space_of(grain.namespace)
    ready = _ready_document(context, access, inner, tenant, space, now, original.bounds, adoption)
    if ready.tenant != tenant:
        return None
    ready = replace(ready, alias=find_embedding_address(context, mine, tenant))
    if adoption is None:
        return ready
    # The grain itself may be here, brought by somebody who did not adopt it.
    name = (oms.STANDARD, grain.address)
    return replace(ready, elsewhere=name, predecessors=(*ready.predecessors, name))


# --- OAMS ------------------------------------------------------------------------------------------------------------


def ready_memory(
    context: Context,
    access: Access,
    memory: dict[str, Any],
    raw: bytes | None,
    now: Instant,
    adoption: Adoption | None = None,
    *,
    is_checked: bool = False,
) -> Ready:
    """Return an OAMS memory that has its place, or the document that it is the view of, ready to be written.

    `is_checked` says that it was checked by the rules of OAMS already.
    """
    given = memories.accept(context, access, memory, raw=raw, complete=True, is_checked=is_checked)
    if NATIVE_KEY not in metadata_of(given.memory):
        return _memory(context, given)
    inner = oams.unwrap(given.memory)
    if inner is not None:
        original = _or_none(
            lambda: _original_of_memory(context, access, given, inner, now, adoption)
        )
        if original is not None:
            return original
    if adoption is not None:
        adopted = adoption.memory(memory)
        given = (
            given if adopted == memory else memories.accept(context, access, adopted, complete=True)
        )
    return _memory(context, given)


def _memory(context: Context, given: memories.AcceptedMemory) -> Ready:
    def write(unit: Unit, prior: Version | None, now: Instant, new: News) -> Outcome:
        if prior is not None and is_stale(prior, given):
            return "known"
        result = memories.write_next(
            context, unit, given, prior, now, is_allowed=new.may_follow
        ).result
        return "known" if result == "unchanged" else "created" if result == "created" else "updated"

    return Ready(
        tenant=given.location.tenant,
        standard=oams.STANDARD,
        name=given.new.document.name,
        known=ancestry.known_of(context, given.new),
        known_as=given.memory["key"],
        write=write,
        given=given,
        warnings=given.warnings,
    )


def foreseen(
    context: Context, snapshot: Snapshot, ready: Ready, heads: memories.HeadLookup, now: Instant
) -> Ready:
    """A memory with what it comes to if what is there now still is when the writer's turn comes."""
    if ready.accepted is not None:
        return _foreseen_record(context, snapshot, ready, ready.accepted, now)
    if ready.given is None and ready.native is None:
        known = snapshot.find_by_name(ready.standard, ready.name)
        return (
            ready
            if known is None or known.state.is_forgotten
            else replace(ready, settled=(known.memory_id, "known"))
        )
    given = ready.given
    prior = None if given is None else heads.head_of(given)
    if given is None or prior is None or is_stale(prior, given):
        return ready
    try:
        given = memories.prepare_next(context, snapshot, given, prior, now)
    except MemorandaError:
        # Refused when it is written, if it still is to be.
        return ready
    foreseen = _memory(context, given)
    is_settled = given.prepared is not None and given.prepared[1] is None and given.bearer is None
    return replace(foreseen, settled=(prior.memory_id, "known")) if is_settled else foreseen


def _foreseen_record(
    context: Context, snapshot: Snapshot, ready: Ready, accepted: remember.Accepted, now: Instant
) -> Ready:
    try:
        if accepted.is_own:
            known = remember.find_repeated(context, snapshot, accepted, now)
            return ready if known is None else replace(ready, settled=(known.memory_id, "merged"))
        merged = remember.prepare_merge(context, snapshot, accepted, now)
    except MemorandaError:
        # Refused when it is written, if it still is to be.
        return ready
    return (
        ready if merged is None else replace(ready, write=_record(context, accepted, merged).write)
    )


def is_stale(prior: Version, given: memories.AcceptedMemory) -> bool:
    """Bringing an old bundle in again must not undo what happened since, whichever standard did it."""
    return parse_instant(given.memory["updated_at"]) < prior.state.updated


def _original_of_memory(
    context: Context,
    access: Access,
    given: memories.AcceptedMemory,
    inner: Document,
    now: Instant,
    adoption: Adoption | None,
) -> Ready | None:
    place, memory = given.location, given.memory
    own = project_document(context, inner, place.tenant, place.space)
    # A memory that has a key, a creation or a source of its own keeps them, with the document inside.
    for kept in (
        None,
        bounds_of_view(oams.project(memory, place.tenant, place.space, user=place.user), own),
    ):
        if (
            oams.from_projection(
                own if kept is None else apply_bounds(own, kept), inner, namespace=place.namespace
            )
            == memory
        ):
            ready = _ready_document(
                context, access, inner, place.tenant, place.space, now, kept, adoption
            )
            is_here = (ready.tenant, own.scope.space) == (place.tenant, place.space)
            return replace(ready, known_as=memory["key"]) if is_here else None
    return None


# --- originals of any standard ---------------------------------------------------------------------------------------


def _or_none(make: Callable[[], Ready | None]) -> Ready | None:
    """What cannot be taken in as an original is only what it says itself."""
    try:
        return make()
    except (MemorandaError, LookupError, TypeError, ValueError, AttributeError):
        return None


def _tightened(context: Context, new: NewVersion, kept: Bounds | None) -> NewVersion:
    if kept is None or kept == UNBOUND:
        return new
    # Who wrote it is who brings it here, whomever the store it comes from had verified.
    told = new.projection.bounds or UNBOUND
    return with_bounds(context, new, replace(kept, writer=told.writer))


def _ready_document(
    context: Context,
    access: Access,
    inner: Document,
    tenant: str,
    space: str,
    now: Instant,
    kept: Bounds | None,
    adoption: Adoption | None,
) -> Ready:
    """Return a document that travelled inside another, as if it had come by itself, bound to `kept`.

    Raises MemorandaError.
    """
    prepare_inside = _PREPARED_BY.get(inner.standard, _ready_by_port)
    place = _Inside(document=inner, tenant=tenant, space=space, bounds=kept, adoption=adoption)
    return prepare_inside(context, access, place, now)


class _Inside(msgspec.Struct, frozen=True, kw_only=True):
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
        return self.document if self.adoption is None else self.adoption.document(self.document)


def _record_inside(context: Context, access: Access, inside: _Inside, now: Instant) -> Ready:
    mine = inside.adopted
    accepted = remember.accept(context, access, parse(mine.native), now)
    if ump.document_of(accepted.record) != mine:
        raise InvalidInput("not the record that it is named after")
    # A record that says more than a grain can travels whole, and may itself be the view of a document.
    record = load_record(inside.document.native)
    within = ump.unwrap(record)
    if within is not None and read_carried_bounds(record) is not None:
        original = _or_none(
            lambda: _original_of_record(context, access, record, within, now, inside.adoption)
        )
        if original is not None:
            return original
    return _record(context, replace(accepted, new=_tightened(context, accepted.new, inside.bounds)))


def _grain_inside(context: Context, access: Access, inside: _Inside, _: Instant) -> Ready:
    inner = inside.document
    opened = open_grain_input(context, inner.native)
    if (opened.grain.address, opened.delivery) != (inner.name, inner.native):
        raise InvalidInput("not the grain that it is named after")
    return _grain(context, access, opened, inside.tenant, kept=inside.bounds)


def _memory_inside(context: Context, access: Access, inside: _Inside, _: Instant) -> Ready:
    inner = inside.adopted
    memory = parse(inner.native, max_bytes=MAX_NATIVE_BYTES)
    given = memories.accept(context, access, memory, raw=inner.native, complete=True)
    if (
        given.new.document.native != inner.native
        or oams.with_portable_name(inner, given.memory) != inner
    ):
        raise InvalidInput("not the memory that it is named after")
    given = replace(given, new=_tightened(context, given.new, inside.bounds))
    place, key = given.location, given.memory["key"]
    name = memories.stored_name(context, place, key)

    def write(unit: Unit, prior: Version | None, now: Instant, _: News) -> Outcome:
        known = unit.find_by_name(oams.STANDARD, name) or memories.find_head(
            context, unit, place, key, or_retracted=True
        )
        if known is not None and known.state.is_forgotten:
            known = None
        if known is not None:
            if any(
                each.document.native == inner.native
                for each in unit.iterate_history(known.memory_id)
            ):
                return "known"
            if same_content(oams_views.render(context, unit, known, place).memory, given.memory):
                # The head, as it leaves without its history.
                return "known"
            if prior is None and is_stale(known, given):
                return "known"
        head = known or prior
        if head is not None and prior is None:
            check_supersession(unit, head, {}, now=now)
        memories.refuse_earlier_expiry(given, head)
        memories.append_memory(context, unit, given.new, head, now, closes=prior is None)
        return "created" if head is None or prior is not None else "updated"

    return Ready(
        tenant=place.tenant,
        standard=oams.STANDARD,
        name=name,
        known=ancestry.known_of(context, given.new),
        write=write,
        native=inner.native,
        written=parse_instant(given.memory["updated_at"]),
    )


def _ready_by_port(context: Context, access: Access, inside: _Inside, _: Instant) -> Ready:
    """Return a document of a standard whose verbs have no rules of their own for an import, as its port checks it."""
    inner, tenant, space = inside.document, inside.tenant, inside.space
    port_of(inner.standard).check(inner)
    projection = project_document(context, inner, tenant, space)
    access.require_scope(
        {"owner": tenant, "visibility": projection.scope.visibility, "project": space or None}
    )
    refuse_secrets(context, {"content": projection.text, "tags": list(projection.tags)})
    new = _tightened(context, prepare(context, inner, projection), inside.bounds)

    def write(unit: Unit, prior: Version | None, now: Instant, new_here: News) -> Outcome:
        known = None if new_here.name else unit.find_by_name(inner.standard, inner.name)
        if known is not None and not known.state.is_forgotten:
            return "known"
        version = (
            new.append(unit, now=now)
            if prior is None
            else append_next(context, unit, prior, new, now=now)
        )
        unit.announce("created", version, now=now)
        return "created"

    return Ready(
        tenant=tenant,
        standard=inner.standard,
        name=inner.name,
        known=ancestry.known_of(context, new),
        write=write,
    )


# Standards whose verbs merge, supersede or check what is imported; their rules hold for an import too.
_PREPARED_BY: Final[Mapping[str, Callable[[Context, Access, _Inside, Instant], Ready]]] = {
    ump.STANDARD: _record_inside,
    oms.STANDARD: _grain_inside,
    oams.STANDARD: _memory_inside,
}
