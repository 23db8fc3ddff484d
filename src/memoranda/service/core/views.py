"""Versions as UMP records: the native document, what the store knows about it laid over, verified, redacted.

A version that nothing happened to is shown as it is, with its own signature. When the store knows more than
the document (it was superseded, forgotten, has expired), the record says so and the operator signs that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, cast

import orjson
from msgspec.structs import replace

from memoranda.encoding.didkey import SigningKey
from memoranda.encoding.json_text import dump
from memoranda.encoding.short_cache import short_cache
from memoranda.errors import InvalidInput, MemorandaError, StoreCorrupt, Unsupported
from memoranda.model.bounds import FREE, bound, bounds_of_view
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import Bounds, Document, Projection, State, Version, is_over
from memoranda.model.native import NATIVE_KEY, wrap
from memoranda.model.standard import OAMS, OMS, OPENWOP, UMP
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.standards.ump import mapping, rules, signature
from memoranda.standards.ump.record import SCOPE_FIELDS, Record, check_complete
from memoranda.standards.ump.shapes import Version as UmpVersion
from memoranda.storage.engine import Snapshot

if TYPE_CHECKING:
    from memoranda.standards.oams.memory import Memory
    from memoranda.standards.oms.grains import Grain
    from memoranda.standards.openwop.entry import Entry

T = TypeVar("T")
# What stands in the place of a text whose retention ended.
EXPIRED: Final = "its retention ended"


class Speaking(Protocol):
    """Whoever shows documents through UMP: which version of it."""

    @property
    def ump_version(self) -> UmpVersion: ...


def ump_document(record: Record) -> Document:
    """A signed record as a native document."""
    return Document(standard=mapping.STANDARD, media_type=mapping.MEDIA_TYPE, name=record["id"], native=dump(record))


def project(context: Context, version: Version) -> Projection:
    """A version read without its standard, as tightly as those before it bind it."""
    read = project_document(context, version.document, version.tenant, version.state.space)
    return read if version.bounds is None else bound(read, version.bounds)


def project_document(context: Speaking, document: Document, tenant: str, space: str) -> Projection:
    """A document read without its standard. `space` is where it is kept: an openwop entry does not say so itself."""
    if document.standard == UMP:
        return mapping.project(load_record(document.native))
    if document.standard == OMS:
        return project_grain(context, grain_of(document), document.native, tenant)
    if document.standard == OAMS:
        return project_memory(context, load_memory(document.native), tenant)
    if document.standard == OPENWOP:
        from memoranda.standards.openwop import mapping as openwop_mapping

        return openwop_mapping.project(cast("Entry", load(document.native)), tenant, space)
    raise Unsupported(f"this Memoranda has no reader for documents of {document.standard!r}")


def project_memory(context: Speaking, memory: Memory, tenant: str) -> Projection:
    """An OAMS memory without its words; whoever a claimed namespace belongs to is its user.

    What is the whole view of another document is read as that document: a person it names, say, is to be found.
    """
    from memoranda.standards.oams import mapping as oams_mapping

    space, user = _place(memory["namespace"], tenant)
    own = oams_mapping.project(memory, tenant, space, user=user)
    original = original_of(context, memory, tenant)
    if original is None:
        return own
    return replace(original.read, created=own.created, observed=own.observed, sameness="", may_protect=True)


def project_grain(context: Speaking, grain: Grain, delivery: bytes, tenant: str) -> Projection:
    """Read a grain without OMS's words; `delivery` is the bytes in which it travels.

    The view of another owner's document, brought here as the grain that it is, is read as that document.
    """
    from memoranda.standards.oms import mapping as oms_mapping

    read, inner = oms_mapping.project(grain, tenant), oms_mapping.unwrap(grain)
    if inner is None or not _is_valid(context, inner):
        return read
    try:
        original = original_in(context, grain, delivery, inner, tenant, mine=_moved(inner, tenant))
    except (MemorandaError, LookupError, TypeError, ValueError, AttributeError):
        return read
    if original is None:
        return read
    scope = replace(original.read.scope, tenant=tenant, space=read.scope.space)
    return replace(original.read, scope=scope, actor=read.actor, sameness="", may_protect=True)


def _moved(inner: Document, tenant: str) -> Document:
    """Return a document; an OAMS memory of another owner in the same scope of this one."""
    if inner.standard != OAMS:
        return inner
    from memoranda.standards.oams.namespace import Namespace, is_of_another, owner_hash, parse_namespace

    memory = load_memory(inner.native)
    namespace = parse_namespace(memory["namespace"])
    if not is_of_another(namespace, tenant):
        return inner
    return replace(inner, native=dump({**memory, "namespace": str(Namespace(owner_hash(tenant), namespace.scope))}))


def _is_valid(context: Speaking, inner: Document) -> bool:
    """Return True if somebody put a whole document of another standard than OMS into a grain."""
    if inner.standard == UMP:
        return _is_record(inner.native, context.ump_version)
    return inner.standard == OPENWOP or (inner.standard == OAMS and _is_memory(inner.native))


# Many memories of few namespaces are read together.
@lru_cache(maxsize=256)
def _place(text: str, tenant: str) -> tuple[str, str]:
    from memoranda.standards.oams.namespace import owner_hash, parse_namespace, space_of

    namespace = parse_namespace(text)
    return space_of(namespace, tenant), "" if namespace.owner == owner_hash(tenant) else namespace.owner


class Original(NamedTuple):
    """The document that an OAMS memory is the whole view of, its reading, and what the view binds it to beyond that."""

    document: Document
    read: Projection
    kept: Bounds | None


def original_of(context: Speaking, memory: Memory, tenant: str) -> Original | None:
    """What an OAMS memory is the whole view of. What says anything else has none."""
    from memoranda.standards.oams import mapping as oams_mapping

    inner = oams_mapping.unwrap(memory)
    if inner is None:
        return None
    space, user = _place(memory["namespace"], tenant)
    read = _read_original(context, inner, tenant, space)
    if read is None:
        return None
    kept = None
    if not oams_mapping.is_view(memory, read, inner):
        # A head that leaves without its history says itself what earlier versions bind it to.
        kept = bounds_of_view(oams_mapping.project(memory, tenant, space, user=user), read)
        if kept == FREE or not oams_mapping.is_view(memory, bound(read, kept), inner):
            return None
        read = bound(read, kept)
    return Original(inner, replace(read, scope=replace(read.scope, space=space, user=read.scope.user or user)), kept)


def original_in(
    context: Speaking, grain: Grain, delivery: bytes, inner: Document, tenant: str, mine: Document | None = None
) -> Original | None:
    """Return the document inside a grain, if the grain is its view and nothing else.

    A view that a store of another owner made is compared with how `mine` is read, the same document as this owner's:
    whose memory it was may be all that differs.
    """
    from memoranda.standards.oms import mapping as oms_mapping

    shown = oms_mapping.project(grain, tenant)
    own = project_document(context, inner if mine is None else mine, tenant, shown.scope.space)
    if mine is not None:
        own = replace(own, actor=shown.actor, subject=shown.subject if own.subject == tenant else own.subject)
    for kept in (None, bounds_of_view(shown, own)):
        read = own if kept is None else bound(own, kept)
        # A grain that says anything else, or is signed, is more than a view.
        if oms_mapping.from_projection(read, inner).blob == delivery:
            return Original(inner, read, kept)
    return None


def _read_original(context: Speaking, inner: Document, tenant: str, space: str) -> Projection | None:
    """A document that somebody put into a memory, if it holds; a record only of this owner and in this space."""
    if inner.standard == UMP:
        if not _is_record(inner.native, context.ump_version):
            return None
        record = load_record(inner.native)
        read = mapping.project(record)
        is_here = (read.scope.tenant, read.scope.space) == (tenant, space)
        return read if is_here and record["id"] == inner.name else None
    if inner.standard == OMS:
        from memoranda.standards.oms import mapping as oms_mapping

        try:
            return oms_mapping.project(_decoded(inner.name, inner.native), tenant)
        except MemorandaError:
            return None
    return None


def grain_of(document: Document, *, is_sealed: bool = False) -> Grain:
    """A stored grain, its address checked unless its seal was. Raises StoreCorrupt."""
    try:
        if is_sealed:
            from memoranda.standards.oms.grains import accepted_grain
            from memoranda.standards.oms.signature import blob_of

            return accepted_grain(blob_of(document.native), document.name)
        return _decoded(document.name, document.native)
    except MemorandaError as error:
        raise StoreCorrupt("a stored grain is not what its address says any more; run 'memoranda verify'") from error


# One request looks at a grain several times. The key is the bytes themselves, so what changed on disk is read anew;
# a grain may have a mebibyte, so few are kept.
@lru_cache(maxsize=16)
def _decoded(address: str, native: bytes) -> Grain:
    from memoranda.standards.oms import mapping as oms_mapping
    from memoranda.standards.oms.grains import decode
    from memoranda.standards.oms.signature import blob_of

    return decode(blob_of(native), address=address, profile=oms_mapping.VIEWS)


def load_record(native: bytes) -> Record:
    """A stored record."""
    return cast("Record", load(native))


def load_memory(native: bytes) -> Memory:
    """A stored OAMS memory."""
    return cast("Memory", load(native))


def load(native: bytes) -> dict[str, Any]:
    """A stored document of any standard in JSON. It was checked when it came in, so the fast reader will do."""
    try:
        record = orjson.loads(native)
    except orjson.JSONDecodeError as error:
        raise StoreCorrupt("a stored document cannot be read any more; run 'memoranda verify'") from error
    if not isinstance(record, dict):
        raise StoreCorrupt("a stored document is no record any more; run 'memoranda verify'")
    return record


def scope_of(record: Mapping[str, object]) -> dict[str, str]:
    """A record's scope, as tokens and audit entries compare it."""
    scope = record.get("scope")
    if not isinstance(scope, dict):
        raise StoreCorrupt("a stored document has lost its scope; run 'memoranda verify'")
    return {"visibility": "private", **{name: scope[name] for name in SCOPE_FIELDS if name in scope}}


def view(context: Context, version: Version, now: Instant) -> Record:
    """The record a version shows. Ask `holds` before letting anyone see it."""
    document = version.document
    if version.state.erased:
        return tombstone_record(context, version)
    is_record = document.standard == UMP and version.bounds is None
    record = load_record(document.native) if is_record else _signed(context, version)
    shown = _overlay(record, version.state, context.ump_version, now)
    if shown is record:
        return record
    if is_record and not is_over(version.state, now):
        shown = _with_original(shown, version.document, record, context.operator.did)
    return signature.sign(shown, context.operator)


def _with_original(shown: Record, document: Document, record: Record, operator: str) -> Record:
    """A record that its author signed and that was closed since, with what he signed inside, unless others see less."""
    signer = record.get("integrity", {}).get("signer")
    if signer in (None, operator) or record.get("consent", {}).get("redact") or mapping.unwrap(record) is not None:
        return shown
    structured = {**(shown["body"].get("structured") or {}), NATIVE_KEY: wrap(document)}
    return {**shown, "body": {**shown["body"], "structured": structured}}


def outline(context: Context, version: Version, read: tuple[Grain, Projection] | None = None) -> Record:
    """The name, the scope and the consent that `view` shows, for our own use: it need not be signed.

    `read` is the version's grain and its projection, where someone has them at hand.
    """
    if version.state.erased:
        return tombstone_record(context, version)
    return _translated(context, version, read)


def root_of(snapshot: Snapshot, version: Version) -> Version:
    """The first version of a memory, whose name it keeps in standards that do not rename what is revised."""
    if version.version_id == version.memory_id:
        return version
    found = snapshot.versions([version.memory_id])
    return found[0] if found and not found[0].state.erased else version


def _signed(context: Context, version: Version) -> Record:
    record = _translated(context, version)
    # The operator vouches for a translation; the original is inside.
    return record if "integrity" in record else signature.sign(record, context.operator)


def _translated(context: Context, version: Version, read: tuple[Grain, Projection] | None = None) -> Record:
    record = record_of(context, version.document, version.tenant, version.state.space, read)
    return record if version.bounds is None else mapping.with_bounds(record, version.bounds)


def record_of(
    context: Speaking, document: Document, tenant: str, space: str, read: tuple[Grain, Projection] | None = None
) -> Record:
    """A document as a record: itself, the record it was made from, or one with the document inside."""
    if document.standard == UMP:
        return load_record(document.native)
    if document.standard == OAMS:
        return _record_of_memory(context, document, tenant)
    grain = (read[0] if read else grain_of(document)) if document.standard == OMS else None
    inner = None if grain is None else _inside_grain(context, grain, tenant)
    if inner is not None and grain is not None and _is_view_of(grain, inner):
        return inner
    projection = read[1] if read else project_document(context, document, tenant, space)
    shown = mapping.from_projection(projection, document, version=context.ump_version)
    # It says something else than the record inside it, and is shown to nobody to whom that is not.
    return shown if inner is None else mapping.with_bounds(shown, _bounds_of(inner))


def _record_of_memory(context: Speaking, document: Document, tenant: str) -> Record:
    """An OAMS memory as a record. What is the view of another document is shown as that document is."""
    memory = load_memory(document.native)
    original = original_of(context, memory, tenant)
    if original is None:
        from memoranda.standards.oams import mapping as oams_mapping

        projection = project_memory(context, memory, tenant)
        return mapping.from_projection(projection, oams_mapping.outside(document, memory), version=context.ump_version)
    if original.document.standard == UMP:
        record = load_record(original.document.native)
        return record if original.kept is None else mapping.with_bounds(record, original.kept)
    return mapping.from_projection(original.read, original.document, version=context.ump_version)


def _inside_grain(context: Speaking, grain: Grain, tenant: str) -> Record | None:
    """A record of this owner that a grain carries."""
    from memoranda.standards.oms import mapping as oms_mapping

    inner = oms_mapping.unwrap(grain)
    if inner is None or inner.standard != UMP or not _is_record(inner.native, context.ump_version):
        return None
    record = load_record(inner.native)
    return record if record["scope"]["owner"] == tenant else None


def _is_view_of(grain: Grain, record: Record) -> bool:
    """Whether a grain says just what the view of a record says, but for who signed it."""
    from memoranda.standards.oms import mapping as oms_mapping

    inner = oms_mapping.unwrap(grain)
    if inner is None:
        return False
    view = oms_mapping.from_projection(mapping.project(record), inner)
    return _unsigned(view) == _unsigned(grain)


def _unsigned(grain: Grain) -> dict[str, Any]:
    return {name: value for name, value in grain.fields.items() if name != "author_did"}


def _bounds_of(record: Record) -> Bounds:
    """What a record binds whatever carries it to."""
    read, consent = mapping.project(record), record.get("consent", {})
    at, cut = read.scope, consent.get("redact", ())
    return Bounds(
        user=at.user,
        agent=at.agent,
        session=at.session,
        visibility=at.visibility,
        exportable=read.exportable,
        expires=read.expires,
        redact=tuple(cut),
    )


def tombstone_record(context: Context, version: Version) -> Record:
    """What an erased version still says: its tombstone, or, when it cannot be read, only that it was."""
    if version.state.erased and version.document.native:
        return load_record(version.document.native)
    created = format_instant(version.state.recorded)
    name = version.document.name
    tombstone_record: Record = {
        "ump": context.ump_version,
        "id": name if name.startswith("urn:ump:") else "urn:ump:erased",
        "kind": "semantic",
        "body": {"text": "[erased: key destroyed]"},
        "scope": {"owner": version.tenant, "visibility": "private"},
        "time": {"created": created, "observed": created, "valid_from": created, "valid_to": None},
        "lifecycle": {"status": "tombstoned"},
        "superseded_by": [],
    }
    return signature.sign(tombstone_record, context.operator)


def holds(version: Version) -> bool:
    """Whether the document is still what was accepted (UMP L3, OMS Level 1: integrity is verified on read)."""
    if version.state.erased or version.is_sealed:
        # Its signature held when it was accepted, and not a byte has changed since.
        return True
    return verifies(version)


def verifies(version: Version) -> bool:
    """Whether the document's own signature or address holds, whatever the store says."""
    document = version.document
    if document.standard == UMP:
        return _verifies(document.native)
    if document.standard == OMS:
        return _is_grain(document.name, document.native)
    # An OAMS memory is not signed; all that can be said is that it is one.
    return document.standard != OAMS or _is_memory(document.native)


def unless_damaged(version: Version, work: Callable[[], T]) -> T | None:
    """What `work` makes of a version, or None: a damaged document must not keep anyone from the others."""
    try:
        return work()
    except (MemorandaError, LookupError, TypeError, ValueError, AttributeError):
        if holds(version):
            raise
        return None


def show(context: Context, access: Access, record: Record) -> Record:
    """The record as this caller may see it (UMP §2.7: redact before a visibility boundary is crossed)."""
    if access.sees_unredacted(record["scope"]["owner"]):
        return record
    return redacted(record, context.operator)


def redacted(record: Record, operator: SigningKey) -> Record:
    """A copy without what its consent says to strip; signed anew, because the old signature covers the whole."""
    shown, changed = rules.redact(record)
    return signature.sign(shown, operator) if changed else record


@short_cache(4_096, length=4_096)
def _verifies(native: bytes) -> bool:
    # The key is the bytes themselves, so a document changed on disk is verified anew.
    try:
        return signature.verify(load(native))
    except StoreCorrupt:
        return False


def _is_record(native: bytes, version: UmpVersion) -> bool:
    """Whether bytes that somebody put into a grain are a whole record that holds."""
    try:
        check_complete(load(native), version=version)
    except (StoreCorrupt, InvalidInput):
        return False
    return _verifies(native)


def _is_memory(native: bytes) -> bool:
    from memoranda.standards.oams.memory import check

    try:
        check(load(native), complete=True)
    except MemorandaError:
        return False
    return True


@short_cache(4_096, length=4_096)
def _is_grain(address: str, native: bytes) -> bool:
    from memoranda.standards.oms import signature as oms_signature

    try:
        _decoded(address, native)
        # A did:web signer was checked on the way in, with documents that may be gone.
        if oms_signature.is_envelope(native) and oms_signature.signer_of(native).startswith("did:key:"):
            return oms_signature.verify(native)
    except MemorandaError:
        return False
    return True


def _overlay(record: Record, state: State, version: UmpVersion, now: Instant) -> Record:
    shown = record
    successor = state.successor_names.get(UMP, "")
    if successor and successor not in record.get("superseded_by", ()):
        shown = rules.close(shown, valid_to=_closing(record, state), successor_id=successor)
    has_ended = state.expires is not None and state.expires <= now
    if (state.tombstoned is not None or has_ended) and record.get("lifecycle", {}).get("status") != "tombstoned":
        end = state.valid_to if state.tombstoned is not None else _earlier(state.valid_to, state.expires)
        shown = rules.tombstone(shown, at=format_instant(end if end is not None else now))
    if has_ended:
        # UMP §3.6: its retention demands erasure; what is not erased yet is not shown either.
        shown = rules.erase(shown, reason=EXPIRED)
    if shown.get("ump") != version:
        # UMP 1.0 §8: a server MUST emit the version it advertises.
        shown = {**shown, "ump": version}
    return shown


def _closing(record: Record, state: State) -> str:
    written = record["time"].get("valid_to")
    if written is not None and state.valid_to == state.declared_valid_to:
        return str(written)
    return format_instant(state.valid_to) if state.valid_to is not None else format_instant(state.recorded)


def _earlier(one: Instant | None, other: Instant | None) -> Instant | None:
    known = [instant for instant in (one, other) if instant is not None]
    return min(known) if known else None
