"""Memories in another form, without a store.

What a file brings is read as the document that is behind it (`take`), and shown as a form shows that document. Whatever
has another standard carries the document along, so that the way back ends where it began, byte for byte:

    behind a record, a grain or a memory    the document that it carries, if its view of that is this very one
    behind everything else                  itself

Of a view only what a form has no word for is left to tell: what superseded it, a verdict, and what a record says beside
the document that it shows, such as who signed that. A `.mg` file keeps all of it in its manifest. Signatures are
carried along, and not verified: whoever takes the memories in does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import dump, parse
from memoranda.errors import ConsentViolation, GrainError, MemorandaError, TooLarge, Unsupported
from memoranda.model import native
from memoranda.model.instant import LATEST, Instant, format_instant
from memoranda.model.memory import Document, Projection
from memoranda.model.native import NATIVE_KEY, STATE_KEY
from memoranda.service.core.views import (
    create_record,
    is_view,
    project_document,
    read_carried_bounds,
)
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import Report
from memoranda.service.exchange.unwrap import read_index_state
from memoranda.service.oms.grains import space_of as grain_space_of
from memoranda.standards.oams import mapping as oams
from memoranda.standards.oams.memory import Memory, check
from memoranda.standards.oams.namespace import namespace_of, owner_hash, parse_namespace, space_of
from memoranda.standards.oams.port import load_memory
from memoranda.standards.oms import grains, signature
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.container import CheckedGrain
from memoranda.standards.oms.manifest import DEFAULT, UNVERIFIED, IndexState
from memoranda.standards.oms.profile import EXTENDED
from memoranda.standards.oms.registry import DEFAULT_NAMESPACE
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump import rules
from memoranda.standards.ump.mapping import document_of
from memoranda.standards.ump.record import (
    Record,
    check_complete,
    sort_record_fields,
    strip_integrity,
)
from memoranda.standards.ump.shapes import Version as UmpVersion

T = TypeVar("T")
Target = Literal["ump", "oms", "oams"]
# Whose memories are that come from a form that does not say it.
NOBODY: Final = "local"
_NATIVE: Final = NATIVE_KEY.encode()


class SourceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory between two forms: its document, whose it is and where, and what was known of it beside."""

    document: Document
    tenant: str
    space: str
    index: IndexState = DEFAULT
    # What the document says, if it is a record, and its reading, where someone has it at hand.
    record: Record | None = None
    projection: Projection | None = None


class Conversion(msgspec.Struct, kw_only=True):
    """One conversion on its way. `given` has what comes from a form that does not say whose it is."""

    stated_owner: str | None = None
    ump_version: UmpVersion = "0.1"
    report: Report = msgspec.field(default_factory=Report)
    # Whom the first that says it belongs to.
    _first: str = ""
    # How many are in the other form what they were, and how many a view that carries what they were.
    unchanged: int = 0
    carried: int = 0
    # The records of grains that others were superseded by, and the other way about.
    _names: dict[str, str] = msgspec.field(default_factory=dict)
    _addresses: dict[str, str] = msgspec.field(default_factory=dict)
    _superseded: dict[str, str] = msgspec.field(default_factory=dict)

    # --- in ----------------------------------------------------------------------------------------------------------

    def read_item(self, item: Item) -> SourceMemory:
        """What an item brings. Raises MemorandaError."""
        if item.error is not None:
            raise item.error
        carried = self._read_by_form(item)
        self._first = self._first or carried.tenant
        return carried

    def _read_by_form(self, item: Item) -> SourceMemory:
        if item.form == "oms":
            return self._read_grain(item.value, item.index)
        if item.form == "oams":
            memory = item.value if item.is_checked else check(item.value, complete=True)[0]
            return self._read_memory(memory, item.raw)
        return self._read_record(item.value)

    def _read_record(self, value: object) -> SourceMemory:
        record = check_complete(value, version=self.ump_version)
        tenant, space = record["scope"]["owner"], record["scope"].get("project", "")
        inner = ump.unwrap(record)
        source = (
            None
            if inner is None
            else _try_or_none(lambda: self._unwrap_record(record, inner, tenant, space))
        )
        return source or SourceMemory(
            document=document_of(record), tenant=tenant, space=space, record=record
        )

    def _unwrap_record(
        self, record: Record, inner: Document, tenant: str, space: str
    ) -> SourceMemory | None:
        if read_carried_bounds(record) is not None or not is_view(self, record, inner):
            return None
        successors, index = record.get("superseded_by") or (), read_index_state(record)
        if successors:
            index = replace(index, successor_name=successors[-1])
        source = replace(self._read_document(inner, tenant, space), index=index)
        view = self.to_record(source)
        if dump(view) == dump(record):
            return source
        difference = dump(_difference(record, view)).decode()
        source = replace(source, index=replace(index, record=difference))
        return source if dump(self.to_record(source)) == dump(record) else None

    def _read_grain(self, delivery: bytes, index: IndexState) -> SourceMemory:
        is_signed = signature.is_envelope(delivery)
        source = (
            None
            if is_signed or _NATIVE not in delivery
            else _try_or_none(lambda: self._unwrap_grain(delivery))
        )
        if source is not None:
            # What makes the same bytes again was read rightly.
            return source if index is DEFAULT else replace(source, index=index)
        grain = grains.decode(signature.blob_of(delivery))
        if grain.header.is_signed != is_signed:
            raise GrainError(
                "a grain is in an envelope if and only if it is signed",
                oms_code="ERR_SIGNED_MISMATCH",
            )
        kind = oms.SIGNED_MEDIA_TYPE if is_signed else oms.MEDIA_TYPE
        document = Document(
            standard=oms.STANDARD, media_type=kind, name=grain.address, native=delivery
        )
        return SourceMemory(
            document=document, tenant=self.owner, space=grain_space_of(grain.namespace), index=index
        )

    def _unwrap_grain(self, blob: bytes) -> SourceMemory | None:
        _, fields = grains.read_accepted_fields(blob)
        inner = native.unwrap(fields.get("context"))
        if inner is None:
            return None
        space = grain_space_of(str(fields.get("namespace", DEFAULT_NAMESPACE)))
        # A record says whose it is; where nobody else is its subject, a grain says it, too.
        for tenant in dict.fromkeys((self.owner, str(fields.get("subject") or self.owner))):
            source = self._read_document(inner, tenant, space)
            if (
                source.projection is not None
                and oms.from_projection(source.projection, inner).blob == blob
            ):
                return source
        return None

    def _read_document(self, inner: Document, tenant: str, space: str) -> SourceMemory:
        """Return what a document carries. Raises unless it is complete, in canonical form, and under its own name.

        Whether a record is right in everything is checked where it is imported.
        """
        port = port_of(inner.standard)
        port.check(inner)
        projection = project_document(self, inner, tenant, space)
        return SourceMemory(
            document=inner,
            tenant=projection.scope.tenant,
            space=projection.scope.space,
            record=port.record(inner),
            projection=projection,
        )

    def _read_memory(self, memory: Memory, raw: bytes | None) -> SourceMemory:
        inner = oams.unwrap(memory)
        source = None if inner is None else _try_or_none(lambda: self._unwrap_memory(memory, inner))
        if source is not None:
            return source
        space = space_of(parse_namespace(memory["namespace"]), self.owner)
        name = oams.format_reference(memory["namespace"], memory["key"])
        document = Document(
            standard=oams.STANDARD,
            media_type=oams.MEDIA_TYPE,
            name=name,
            native=raw or dump(memory),
        )
        return SourceMemory(document=document, tenant=self.owner, space=space)

    def _unwrap_memory(self, memory: Memory, inner: Document) -> SourceMemory | None:
        namespace = parse_namespace(memory["namespace"])
        source = self._read_document(inner, self.owner, space_of(namespace, self.owner))
        if source.projection is None or source.space != space_of(namespace, source.tenant):
            return None
        view = oams.from_projection(source.projection, inner, namespace=memory["namespace"])
        # When a store last touched it is not of the memory itself.
        return source if {**view, "updated_at": memory["updated_at"]} == memory else None

    def learn_names(self, items: Callable[[], Iterable[Item]]) -> None:
        """Find out what UMP calls the grains that others were superseded by: a record names its successor so."""
        wanted = {
            each.index.superseded_by for each in items() if each.index.successor_name is None
        } - {None}
        for item in items() if wanted else ():
            blob = (
                None
                if item.error is not None
                else _try_or_none(partial(signature.blob_of, item.value))
            )
            address = "" if blob is None else grains.address_of(blob)
            if (
                address in wanted
                and (source := _try_or_none(partial(self.read_item, item))) is not None
            ):
                self._names[address] = self._to_plain_record(source)["id"]

    # --- out ---------------------------------------------------------------------------------------------------------

    def convert_items(
        self, items: Iterable[Item], target: Target, show: Callable[[SourceMemory], T]
    ) -> Iterator[T]:
        """Everything that can be shown in the other form; what cannot is reported with its place."""
        report = self.report
        for item in items:
            report.forms.add(item.form)
            for warning in item.warnings:
                report.warn(item.where, warning)
            if item.value is None and item.error is None:
                continue
            try:
                carried = self.read_item(item)
                if target != "ump":
                    _refuse_consent_bound(carried)
                converted = show(carried)
            except MemorandaError as error:
                report.refuse(item.where, item.name, error, number=item.number)
                continue
            report.exported += 1
            is_unchanged = carried.document.standard == target
            self.unchanged += is_unchanged
            self.carried += not is_unchanged
            yield converted

    def to_record(self, carried: SourceMemory) -> Record:
        """A memory as a record; what is a view is not signed, for nobody here vouches for it."""
        record, index = self._to_plain_record(carried), carried.index
        if index is DEFAULT or index == DEFAULT:
            return record
        if index.record is not None:
            restored = _try_or_none(lambda: self._restore_record(carried, index))
            if restored is not None:
                return restored
        successor = index.successor_name or self._names.get(index.superseded_by or "")
        if ump.owns(carried.document) and successor in record.get("superseded_by", ()):
            return record
        verdict = (
            {"verification": index.verification_status}
            if index.verification_status != UNVERIFIED
            else {}
        )
        succession = {
            "successor": index.superseded_by,
            "closed": index.system_valid_to,
            "supersedes": list(index.supersedes) or None,
        }
        state: dict[str, object] = {
            **verdict,
            **{name: value for name, value in succession.items() if value is not None},
        }
        closed = _close_record(record, successor, index) if successor else strip_integrity(record)
        return _with_structured(
            closed,
            {NATIVE_KEY: native.wrap(carried.document), **({STATE_KEY: state} if state else {})},
        )

    def _to_plain_record(self, carried: SourceMemory) -> Record:
        document = carried.document
        if carried.record is not None:
            return carried.record
        port = port_of(document.standard)
        if port.original(document, carried.tenant, ump_version=self.ump_version) is None:
            return ump.from_projection(
                self._projection_of(carried), document, version=self.ump_version
            )
        # A memory that holds another document is shown as that is.
        record = create_record(self, document, carried.tenant, carried.space)
        return (
            record
            if ump.unwrap(record) == document
            else _with_structured(strip_integrity(record), {NATIVE_KEY: native.wrap(document)})
        )

    def _restore_record(self, carried: SourceMemory, index: IndexState) -> Record:
        view = self.to_record(replace(carried, index=replace(index, record=None)))
        return check_complete(
            _apply_difference(view, parse(index.record or "")), version=self.ump_version
        )

    def to_grain(self, carried: SourceMemory) -> tuple[bytes, IndexState]:
        """A memory as a grain, and what is known of it beside."""
        document = carried.document
        if oms.owns(document):
            return CheckedGrain.of(document.native, document.name), carried.index
        grain = oms.from_projection(self._projection_of(carried), document)
        if len(grain.blob) > EXTENDED.max_bytes:
            raise TooLarge(
                f"too large for an .mg file, which holds grains of at most {EXTENDED.max_bytes} bytes"
            )
        if carried.record is not None:
            self._note_succession(carried.record, grain.address)
        return CheckedGrain.of(grain.blob, grain.address), carried.index

    def _note_succession(self, record: Record, address: str) -> None:
        if record.get("supersedes"):
            self._addresses[record["id"]] = address
        if successors := record.get("superseded_by"):
            self._superseded[address] = successors[-1]

    def list_successions(self) -> Iterator[tuple[str, IndexState]]:
        """By which grains those were superseded that were records; known when all have passed."""
        for address, name in self._superseded.items():
            if (successor := self._addresses.get(name)) is not None:
                yield address, IndexState(superseded_by=successor, successor_name=name)

    def to_memory(self, carried: SourceMemory) -> tuple[bytes, Memory]:
        """A memory as one of OAMS, with its bytes. That form says what is stated now, and no more."""
        _refuse_superseded(carried)
        document = carried.document
        if oams.owns(document):
            return document.native, load_memory(document.native)
        namespace = namespace_of(carried.space, carried.tenant)
        memory = oams.from_projection(self._projection_of(carried), document, namespace=namespace)
        return dump(memory), memory

    def with_projection(self, carried: SourceMemory) -> Memory:
        """Return a memory with all that is said of it, for another system."""
        return oams.with_projection(self.to_memory(carried)[1], self._projection_of(carried))

    def _projection_of(self, carried: SourceMemory) -> Projection:
        if carried.projection is not None:
            return carried.projection
        if carried.record is not None:
            return ump.project(carried.record)
        return project_document(self, carried.document, carried.tenant, carried.space)

    @property
    def owner(self) -> str:
        """Whose memories are that do not say it."""
        return self.stated_owner or self._first or NOBODY

    @property
    def owner_hash(self) -> str:
        """What OAMS calls the owner."""
        return owner_hash(self.owner)


def _try_or_none(make: Callable[[], T | None]) -> T | None:
    """What is inside may be anything; what cannot be read is only what it says itself."""
    try:
        return make()
    except (MemorandaError, LookupError, TypeError, ValueError, AttributeError):
        return None


def _with_structured(record: Record, more: dict[str, object]) -> Record:
    structured = {**(record["body"].get("structured") or {}), **more}
    return sort_record_fields({**record, "body": {**record["body"], "structured": structured}})


def _close_record(record: Record, successor: str, index: IndexState) -> Record:
    """A record that says what superseded it, and when."""
    closed = strip_integrity(record)
    closed["superseded_by"] = [successor]
    if closed["time"].get("valid_to") is None and index.system_valid_to is not None:
        closed["time"] = {
            **closed["time"],
            "valid_to": format_instant(Instant(min(LATEST, index.system_valid_to))),
        }
    return closed


def _difference(record: Record, view: Record) -> dict[str, Any]:
    """What a record says that the view of its document does not."""
    structured, bare = record["body"].get("structured") or {}, view["body"].get("structured") or {}
    fields: dict[str, Any] = {**record}
    return {
        "fields": {
            name: value
            for name, value in fields.items()
            if name != "body" and view.get(name) != value
        },
        "structured": {
            name: value for name, value in structured.items() if bare.get(name) != value
        },
    }


def _apply_difference(view: Record, difference: dict[str, Any]) -> Record:
    structured = {**(view["body"].get("structured") or {}), **difference["structured"]}
    body = {**view["body"], "structured": structured} if structured else view["body"]
    return sort_record_fields(cast("Record", {**view, **difference["fields"], "body": body}))


def _refuse_consent_bound(carried: SourceMemory) -> None:
    """UMP 2.7: what consent keeps, or cuts, goes into no form that cannot say so."""
    record = carried.record
    if record is None or "consent" not in record:
        return
    if record["consent"].get("exportable") is False:
        raise ConsentViolation("its consent forbids export, and this form cannot state that")
    if rules.redact(record)[1]:
        raise Unsupported("its consent redacts it, and this form cannot hold a redacted memory")


def _refuse_superseded(carried: SourceMemory) -> None:
    """OAMS and other systems have no word for what is not stated any more."""
    index = carried.index
    is_over = bool(index.superseded_by or index.successor_name or index.system_valid_to is not None)
    if (record := carried.record) is not None:
        is_over |= (
            bool(record.get("superseded_by"))
            or record.get("lifecycle", {}).get("status") == "tombstoned"
        )
    if is_over:
        raise Unsupported("superseded or forgotten, and this form holds current memories only")
    if index.verification_status == "retracted":
        raise Unsupported("retracted, and this form cannot state that")
