"""Conversion of memories from one form to another, without a store.

Each item of a file is first read as a native document (`Conversion.read_item`). If the item is a view that contains
the document of another standard, and that document gives exactly this view, the contained document is used. Otherwise
the item itself is the document.

The document is then written in the target form (`to_record`, `to_grain`, `to_memory`). A target of another standard
contains the document, so that converting back restores it byte for byte.

The state of a memory that a form cannot express is preserved separately (`IndexState`): its successor, a verdict, and
the fields that a record adds to the document inside it, such as its signer. An `.mg` file stores this in its manifest.
Signatures are copied without verification; the import verifies them.

Used by `memoranda convert`, which needs no store, and by exports to forms of other systems. Nothing is signed here and
no clock is read. Loss is never silent: what a target cannot express is refused with its position, and what merely
changes its form is carried inside.

Converting there and back must give the same bytes; `tests/exports` tries random memories through random paths of forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import dump, parse
from memoranda.errors import ConsentViolation, GrainError, MemorandaError, TooLarge, Unsupported
from memoranda.model.instant import LATEST, Instant, format_instant
from memoranda.model.memory import (
    NATIVE_KEY,
    STATE_KEY,
    Document,
    Projection,
    unwrap_document,
    wrap_document,
)
from memoranda.service.core.views import (
    create_record,
    is_view,
    project_document,
    read_carried_bounds,
)
from memoranda.service.exchange.carried import read_index_state, read_or_none
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import Report
from memoranda.service.oms.grains import space_of as grain_space_of
from memoranda.standards.oams import mapping as oams
from memoranda.standards.oams.memory import Memory, check
from memoranda.standards.oams.namespace import (
    adapt_namespace,
    namespace_of,
    owner_hash,
    parse_namespace,
    read_namespace,
    space_of,
)
from memoranda.standards.oams.port import load_memory
from memoranda.standards.oms import grains, signature
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.container import CheckedGrain
from memoranda.standards.oms.manifest import DEFAULT, UNVERIFIED, IndexState
from memoranda.standards.oms.profile import EXTENDED
from memoranda.standards.oms.registry import DEFAULT_NAMESPACE
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump import record as records
from memoranda.standards.ump import rules
from memoranda.standards.ump.mapping import document_of
from memoranda.standards.ump.record import (
    Record,
    check_complete,
    sort_record_fields,
    strip_integrity,
)
from memoranda.standards.ump.shapes import Version as UmpVersion
from memoranda.standards.ump.signature import derive_id

T = TypeVar("T")
Target = Literal["ump", "oms", "oams"]
# The owner of memories whose form states none.
NOBODY: Final = "local"
_NATIVE: Final = NATIVE_KEY.encode()


class SourceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory between two forms: its document, owner, space and state."""

    document: Document
    tenant: str
    space: str
    index: IndexState = DEFAULT
    # The document parsed as a record and its projection, if the reader has computed them already.
    record: Record | None = None
    projection: Projection | None = None


class Conversion(msgspec.Struct, kw_only=True):
    """A conversion in progress, with its counts.

    One instance converts one stream. Counts and the names of successors accumulate in it, so use a new one for each
    file.
    """

    # The owner of memories whose form states none, if the caller chose one.
    stated_owner: str | None = None
    ump_version: UmpVersion = "0.1"
    # Milliseconds since 1970: the creation of records that state none.
    now: int = 0
    report: Report = msgspec.field(default_factory=Report)
    # The owner of the first memory.
    _first_owner: str = ""
    # Memories that keep their form, and memories that become a view with their document inside.
    unchanged: int = 0
    carried: int = 0
    # Record ids of grains that supersede others, by address; filled before grains are converted to records.
    _record_ids: dict[str, str] = msgspec.field(default_factory=dict)
    # Addresses of grains made from records, by record id; and the record ids of their successors, by address.
    _addresses: dict[str, str] = msgspec.field(default_factory=dict)
    _successor_ids: dict[str, str] = msgspec.field(default_factory=dict)

    # --- reading -----------------------------------------------------------------------------------------------------

    def read_item(self, item: Item) -> SourceMemory:
        """Return the memory of an item. Raises MemorandaError if it is invalid: the caller reports that and goes on."""
        if item.error is not None:
            raise item.error
        source = self._read_by_form(item)
        self._first_owner = self._first_owner or source.tenant
        return source

    def _read_by_form(self, item: Item) -> SourceMemory:
        if item.form == "oms":
            return self._read_grain(item.value, item.index)
        if item.form == "oams":
            memory = item.value if item.is_checked else check(item.value, complete=True)[0]
            return self._read_memory(memory, item.raw)
        return self._read_record(item.value)

    def _read_record(self, value: object) -> SourceMemory:
        record = check_complete(self._complete_record(value))
        tenant, space = record["scope"]["owner"], record["scope"].get("project", "")
        inner = ump.unwrap(record)
        source = (
            None
            if inner is None
            else read_or_none(lambda: self._unwrap_record(record, inner, tenant, space))
        )
        return source or SourceMemory(
            document=document_of(record), tenant=tenant, space=space, record=record
        )

    def _complete_record(self, value: object) -> object:
        """Return a part of a record, such as a note written by hand, completed as an import completes it."""
        if not isinstance(value, dict) or "integrity" in value or not records.is_partial(value):
            return value
        origin = {"actor": self.owner, "actor_kind": "import", "method": "import"}
        draft = records.complete_draft(value, owner=self.owner, origin=origin)
        checked_draft = records.check(draft)
        record = records.fill_defaults(checked_draft, now=self.now, version=self.ump_version)
        return {**record, "id": record["id"] or derive_id(record)}

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
        difference = dump(_compute_difference(record, view)).decode()
        source = replace(source, index=replace(index, record=difference))
        return source if dump(self.to_record(source)) == dump(record) else None

    def _read_grain(self, delivery: bytes, index: IndexState) -> SourceMemory:
        is_signed = signature.is_envelope(delivery)
        source = (
            None
            if is_signed or _NATIVE not in delivery
            else read_or_none(lambda: self._unwrap_grain(delivery))
        )
        if source is not None:
            # No other check is needed: the document inside gives the same bytes.
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
        inner = unwrap_document(fields.get("context"))
        if inner is None:
            return None
        space = grain_space_of(str(fields.get("namespace", DEFAULT_NAMESPACE)))
        # A record states its owner. Other documents belong to the owner of this conversion, or to the grain's subject.
        for tenant in dict.fromkeys((self.owner, str(fields.get("subject") or self.owner))):
            source = self._read_document(inner, tenant, space)
            if (
                source.projection is not None
                and oms.from_projection(source.projection, inner).blob == blob
            ):
                return source
        return None

    def _read_document(self, inner: Document, tenant: str, space: str) -> SourceMemory:
        """Return the memory of a document that was inside a view.

        Raises MemorandaError unless the document is complete, in canonical form, and has its own name. The import
        checks the other rules of its standard.
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
        source = None if inner is None else read_or_none(lambda: self._unwrap_memory(memory, inner))
        if source is not None:
            return source
        namespace = adapt_namespace(read_namespace(memory["namespace"]), self.owner)
        space = space_of(namespace, self.owner)
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
        # `updated_at` is set by the store, so it may differ.
        return source if {**view, "updated_at": memory["updated_at"]} == memory else None

    def learn_names(self, items: Callable[[], Iterable[Item]]) -> None:
        """Find the record ids of grains that supersede others, because a record names its successor by id.

        Reads the items twice, so `items` is a function that starts from the first item each time it is called.
        """
        wanted_addresses = {
            item.index.superseded_by for item in items() if item.index.successor_name is None
        } - {None}
        for item in items() if wanted_addresses else ():
            blob = (
                None
                if item.error is not None
                else read_or_none(partial(signature.blob_of, item.value))
            )
            address = "" if blob is None else grains.address_of(blob)
            if (
                address in wanted_addresses
                and (source := read_or_none(partial(self.read_item, item))) is not None
            ):
                self._record_ids[address] = self._to_plain_record(source)["id"]

    # --- writing -----------------------------------------------------------------------------------------------------

    def convert_items(
        self, items: Iterable[Item], target: Target, convert: Callable[[SourceMemory], T]
    ) -> Iterator[T]:
        """Yield the items in the target form; report those that it cannot express, with their positions."""
        report = self.report
        for item in items:
            report.forms.add(item.form)
            for warning in item.warnings:
                report.warn(item.where, warning)
            if item.value is None and item.error is None:
                continue
            try:
                source = self.read_item(item)
                if target != "ump":
                    _refuse_consent_bound(source)
                converted = convert(source)
            except MemorandaError as error:
                report.refuse(item.where, item.name, error, number=item.number)
                continue
            report.exported += 1
            is_unchanged = source.document.standard == target
            self.unchanged += is_unchanged
            self.carried += not is_unchanged
            yield converted

    def to_record(self, source: SourceMemory) -> Record:
        """Convert a memory to a record. Views are unsigned, because a conversion has no operator who could sign."""
        record, index = self._to_plain_record(source), source.index
        if index is DEFAULT or index == DEFAULT:
            return record
        if index.record is not None:
            restored = read_or_none(lambda: self._restore_record(source, index))
            if restored is not None:
                return restored
        successor = index.successor_name or self._record_ids.get(index.superseded_by or "")
        if ump.owns(source.document) and successor in record.get("superseded_by", ()):
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
            "valid_from": None if index.begins is None else format_instant(index.begins),
        }
        state: dict[str, object] = {
            **verdict,
            **{name: value for name, value in succession.items() if value is not None},
        }
        closed_record = (
            _close_record(record, successor, index) if successor else strip_integrity(record)
        )
        return _with_structured(
            closed_record,
            {NATIVE_KEY: wrap_document(source.document), **({STATE_KEY: state} if state else {})},
        )

    def _to_plain_record(self, source: SourceMemory) -> Record:
        """Convert a memory to a record without its state, such as its successor."""
        document = source.document
        if source.record is not None:
            return source.record
        port = port_of(document.standard)
        if port.original(document, source.tenant, ump_version=self.ump_version) is None:
            return ump.from_projection(
                self._projection_of(source), document, version=self.ump_version
            )
        # The document contains the original of another standard, which gives the record.
        record = create_record(self, document, source.tenant, source.space)
        return (
            record
            if ump.unwrap(record) == document
            else _with_structured(strip_integrity(record), {NATIVE_KEY: wrap_document(document)})
        )

    def _restore_record(self, source: SourceMemory, index: IndexState) -> Record:
        view = self.to_record(replace(source, index=replace(index, record=None)))
        return check_complete(_apply_difference(view, parse(index.record or "")))

    def to_grain(self, source: SourceMemory) -> tuple[bytes, IndexState]:
        """Convert a memory to a grain and its index entry.

        Raises TooLarge if the grain would be too large for an `.mg` file.
        """
        document = source.document
        if oms.owns(document):
            return CheckedGrain.of(document.native, document.name), source.index
        grain = oms.from_projection(self._projection_of(source), document)
        if len(grain.blob) > EXTENDED.max_bytes:
            raise TooLarge(
                f"too large for an .mg file, which holds grains of at most {EXTENDED.max_bytes} bytes"
            )
        if source.record is not None:
            self._note_succession(source.record, grain.address)
        return CheckedGrain.of(grain.blob, grain.address), source.index

    def _note_succession(self, record: Record, address: str) -> None:
        if record.get("supersedes"):
            self._addresses[record["id"]] = address
        if successors := record.get("superseded_by"):
            self._successor_ids[address] = successors[-1]

    def list_successions(self) -> Iterator[tuple[str, IndexState]]:
        """Yield the index entries of grains that were made from superseded records.

        Call it after the last item: a successor may come later in the file.

        Needed because a grain cannot be changed after its successor was seen.
        """
        for address, record_id in self._successor_ids.items():
            if (successor := self._addresses.get(record_id)) is not None:
                yield address, IndexState(superseded_by=successor, successor_name=record_id)

    def to_memory(self, source: SourceMemory) -> tuple[bytes, Memory]:
        """Convert a memory to an OAMS memory and its bytes. Raises Unsupported if it is not current."""
        _refuse_superseded(source)
        document = source.document
        if oams.owns(document):
            return document.native, load_memory(document.native)
        namespace = namespace_of(source.space, source.tenant)
        memory = oams.from_projection(self._projection_of(source), document, namespace=namespace)
        return dump(memory), memory

    def with_projection(self, source: SourceMemory) -> Memory:
        """Convert a memory to an OAMS memory with all fields of its projection, for the file of another system."""
        return oams.with_projection(self.to_memory(source)[1], self._projection_of(source))

    def _projection_of(self, source: SourceMemory) -> Projection:
        if source.projection is not None:
            return source.projection
        if source.record is not None:
            return ump.project(source.record)
        return project_document(self, source.document, source.tenant, source.space)

    @property
    def owner(self) -> str:
        """The owner of memories whose form states none."""
        return self.stated_owner or self._first_owner or NOBODY

    @property
    def owner_hash(self) -> str:
        """The owner's name in OAMS namespaces."""
        return owner_hash(self.owner)


def _with_structured(record: Record, added: dict[str, object]) -> Record:
    structured = {**(record["body"].get("structured") or {}), **added}
    return sort_record_fields({**record, "body": {**record["body"], "structured": structured}})


def _close_record(record: Record, successor: str, index: IndexState) -> Record:
    """Return an unsigned copy of a record with its successor and the end of its validity."""
    closed_record = strip_integrity(record)
    closed_record["superseded_by"] = [successor]
    if closed_record["time"].get("valid_to") is None and index.system_valid_to is not None:
        closed_record["time"] = {
            **closed_record["time"],
            "valid_to": format_instant(Instant(min(LATEST, index.system_valid_to))),
        }
    return closed_record


def _compute_difference(record: Record, view: Record) -> dict[str, Any]:
    """Return the fields of a record that the view of its document lacks or states differently."""
    structured = record["body"].get("structured") or {}
    view_structured = view["body"].get("structured") or {}
    fields: dict[str, Any] = {**record}
    return {
        "fields": {
            name: value
            for name, value in fields.items()
            if name != "body" and view.get(name) != value
        },
        "structured": {
            name: value for name, value in structured.items() if view_structured.get(name) != value
        },
    }


def _apply_difference(view: Record, difference: dict[str, Any]) -> Record:
    structured = {**(view["body"].get("structured") or {}), **difference["structured"]}
    body = {**view["body"], "structured": structured} if structured else view["body"]
    return sort_record_fields(cast("Record", {**view, **difference["fields"], "body": body}))


def _refuse_consent_bound(source: SourceMemory) -> None:
    """Refuse a record whose consent forbids export or redacts fields (UMP 2.7): other forms cannot state this."""
    record = source.record
    if record is None or "consent" not in record:
        return
    if record["consent"].get("exportable") is False:
        raise ConsentViolation("its consent forbids export, and this format has no field for that")
    if rules.redact(record)[1]:
        raise Unsupported(
            "its consent redacts it, and this format cannot contain redacted memories"
        )


def _refuse_superseded(source: SourceMemory) -> None:
    """Refuse a memory that is not current: OAMS and other systems cannot state that."""
    index = source.index
    is_over = bool(index.superseded_by or index.successor_name or index.system_valid_to is not None)
    if (record := source.record) is not None:
        is_over |= (
            bool(record.get("superseded_by"))
            or record.get("lifecycle", {}).get("status") == "tombstoned"
        )
    if is_over:
        raise Unsupported("superseded or forgotten, and this format contains current memories only")
    if index.verification_status == "retracted":
        raise Unsupported("retracted, and this format has no field for that")
