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
from memoranda.service.exchange.unwrap import index_of
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


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """A memory between two forms: its document, whose it is and where, and what was known of it beside."""

    document: Document
    tenant: str
    space: str
    index: IndexState = DEFAULT
    # What the document says, if it is a record, and its reading, where someone has it at hand.
    record: Record | None = None
    read: Projection | None = None


class Conversion(msgspec.Struct, kw_only=True):
    """One conversion on its way. `given` has what comes from a form that does not say whose it is."""

    given: str | None = None
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

    def take(self, item: Item) -> Carried:
        """What an item brings. Raises MemorandaError."""
        if item.error is not None:
            raise item.error
        carried = self._taken(item)
        self._first = self._first or carried.tenant
        return carried

    def _taken(self, item: Item) -> Carried:
        if item.form == "oms":
            return self._take_grain(item.value, item.index)
        if item.form == "oams":
            memory = item.value if item.is_checked else check(item.value, complete=True)[0]
            return self._take_memory(memory, item.raw)
        return self._take_record(item.value)

    def _take_record(self, value: object) -> Carried:
        record = check_complete(value, version=self.ump_version)
        tenant, space = record["scope"]["owner"], record["scope"].get("project", "")
        inner = ump.unwrap(record)
        found = (
            None
            if inner is None
            else _or_none(lambda: self._behind_record(record, inner, tenant, space))
        )
        return found or Carried(
            document=document_of(record), tenant=tenant, space=space, record=record
        )

    def _behind_record(
        self, record: Record, inner: Document, tenant: str, space: str
    ) -> Carried | None:
        if read_carried_bounds(record) is not None or not is_view(self, record, inner):
            return None
        successors, index = record.get("superseded_by") or (), index_of(record)
        if successors:
            index = replace(index, successor_name=successors[-1])
        found = replace(self._read_carried(inner, tenant, space), index=index)
        shown = self.record(found)
        if dump(shown) == dump(record):
            return found
        beside = dump(_difference(record, shown)).decode()
        found = replace(found, index=replace(index, record=beside))
        return found if dump(self.record(found)) == dump(record) else None

    def _take_grain(self, delivery: bytes, index: IndexState) -> Carried:
        is_signed = signature.is_envelope(delivery)
        found = (
            None
            if is_signed or _NATIVE not in delivery
            else _or_none(lambda: self._behind_grain(delivery))
        )
        if found is not None:
            # What makes the same bytes again was read rightly.
            return found if index is DEFAULT else replace(found, index=index)
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
        return Carried(
            document=document, tenant=self.owner, space=grain_space_of(grain.namespace), index=index
        )

    def _behind_grain(self, blob: bytes) -> Carried | None:
        _, fields = grains.read_accepted_fields(blob)
        inner = native.unwrap(fields.get("context"))
        if inner is None:
            return None
        space = grain_space_of(str(fields.get("namespace", DEFAULT_NAMESPACE)))
        # A record says whose it is; where nobody else is its subject, a grain says it, too.
        for tenant in dict.fromkeys((self.owner, str(fields.get("subject") or self.owner))):
            found = self._read_carried(inner, tenant, space)
            if found.read is not None and oms.from_projection(found.read, inner).blob == blob:
                return found
        return None

    def _read_carried(self, inner: Document, tenant: str, space: str) -> Carried:
        """Return what a document carries. Raises unless it is complete, in canonical form, and under its own name.

        Whether a record is right in everything is checked where it is imported.
        """
        port = port_of(inner.standard)
        port.check(inner)
        read = project_document(self, inner, tenant, space)
        return Carried(
            document=inner,
            tenant=read.scope.tenant,
            space=read.scope.space,
            record=port.record(inner),
            read=read,
        )

    def _take_memory(self, memory: Memory, raw: bytes | None) -> Carried:
        inner = oams.unwrap(memory)
        found = None if inner is None else _or_none(lambda: self._behind_memory(memory, inner))
        if found is not None:
            return found
        space = space_of(parse_namespace(memory["namespace"]), self.owner)
        name = oams.format_reference(memory["namespace"], memory["key"])
        document = Document(
            standard=oams.STANDARD,
            media_type=oams.MEDIA_TYPE,
            name=name,
            native=raw or dump(memory),
        )
        return Carried(document=document, tenant=self.owner, space=space)

    def _behind_memory(self, memory: Memory, inner: Document) -> Carried | None:
        namespace = parse_namespace(memory["namespace"])
        found = self._read_carried(inner, self.owner, space_of(namespace, self.owner))
        if found.read is None or found.space != space_of(namespace, found.tenant):
            return None
        view = oams.from_projection(found.read, inner, namespace=memory["namespace"])
        # When a store last touched it is not of the memory itself.
        return found if {**view, "updated_at": memory["updated_at"]} == memory else None

    def learn_names(self, items: Callable[[], Iterable[Item]]) -> None:
        """Find out what UMP calls the grains that others were superseded by: a record names its successor so."""
        wanted = {
            each.index.superseded_by for each in items() if each.index.successor_name is None
        } - {None}
        for item in items() if wanted else ():
            blob = (
                None if item.error is not None else _or_none(partial(signature.blob_of, item.value))
            )
            address = "" if blob is None else grains.address_of(blob)
            if address in wanted and (found := _or_none(partial(self.take, item))) is not None:
                self._names[address] = self._shown(found)["id"]

    # --- out ---------------------------------------------------------------------------------------------------------

    def converted(
        self, items: Iterable[Item], target: Target, show: Callable[[Carried], T]
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
                carried = self.take(item)
                if target != "ump":
                    _refuse_bound(carried)
                shown = show(carried)
            except MemorandaError as error:
                report.refuse(item.where, item.name, error, number=item.number)
                continue
            report.exported += 1
            is_unchanged = carried.document.standard == target
            self.unchanged += is_unchanged
            self.carried += not is_unchanged
            yield shown

    def record(self, carried: Carried) -> Record:
        """A memory as a record; what is a view is not signed, for nobody here vouches for it."""
        record, index = self._shown(carried), carried.index
        if index is DEFAULT or index == DEFAULT:
            return record
        if index.record is not None:
            beside = _or_none(lambda: self._said_beside(carried, index))
            if beside is not None:
                return beside
        successor = index.successor_name or self._names.get(index.superseded_by or "")
        if ump.owns(carried.document) and successor in record.get("superseded_by", ()):
            return record
        told = (
            {"verification": index.verification_status}
            if index.verification_status != UNVERIFIED
            else {}
        )
        known = {
            "successor": index.superseded_by,
            "closed": index.system_valid_to,
            "supersedes": list(index.supersedes) or None,
        }
        state: dict[str, object] = {
            **told,
            **{name: value for name, value in known.items() if value is not None},
        }
        shown = _closed(record, successor, index) if successor else strip_integrity(record)
        return _holding(
            shown,
            {NATIVE_KEY: native.wrap(carried.document), **({STATE_KEY: state} if state else {})},
        )

    def _shown(self, carried: Carried) -> Record:
        document = carried.document
        if carried.record is not None:
            return carried.record
        port = port_of(document.standard)
        if port.original(document, carried.tenant, ump_version=self.ump_version) is None:
            return ump.from_projection(self._read(carried), document, version=self.ump_version)
        # A memory that holds another document is shown as that is.
        shown = create_record(self, document, carried.tenant, carried.space)
        return (
            shown
            if ump.unwrap(shown) == document
            else _holding(strip_integrity(shown), {NATIVE_KEY: native.wrap(document)})
        )

    def _said_beside(self, carried: Carried, index: IndexState) -> Record:
        shown = self.record(replace(carried, index=replace(index, record=None)))
        return check_complete(_with(shown, parse(index.record or "")), version=self.ump_version)

    def grain(self, carried: Carried) -> tuple[bytes, IndexState]:
        """A memory as a grain, and what is known of it beside."""
        document = carried.document
        if oms.owns(document):
            return CheckedGrain.of(document.native, document.name), carried.index
        made = oms.from_projection(self._read(carried), document)
        if len(made.blob) > EXTENDED.max_bytes:
            raise TooLarge(
                f"too large for an .mg file, which holds grains of at most {EXTENDED.max_bytes} bytes"
            )
        if carried.record is not None:
            self._note_succession(carried.record, made.address)
        return CheckedGrain.of(made.blob, made.address), carried.index

    def _note_succession(self, record: Record, address: str) -> None:
        if record.get("supersedes"):
            self._addresses[record["id"]] = address
        if successors := record.get("superseded_by"):
            self._superseded[address] = successors[-1]

    def successions(self) -> Iterator[tuple[str, IndexState]]:
        """By which grains those were superseded that were records; known when all have passed."""
        for address, name in self._superseded.items():
            if (successor := self._addresses.get(name)) is not None:
                yield address, IndexState(superseded_by=successor, successor_name=name)

    def memory(self, carried: Carried) -> tuple[bytes, Memory]:
        """A memory as one of OAMS, with its bytes. That form says what is stated now, and no more."""
        _refuse_over(carried)
        document = carried.document
        if oams.owns(document):
            return document.native, load_memory(document.native)
        namespace = namespace_of(carried.space, carried.tenant)
        made = oams.from_projection(self._read(carried), document, namespace=namespace)
        return dump(made), made

    def with_projection(self, carried: Carried) -> Memory:
        """Return a memory with all that is said of it, for another system."""
        return oams.with_projection(self.memory(carried)[1], self._read(carried))

    def _read(self, carried: Carried) -> Projection:
        if carried.read is not None:
            return carried.read
        if carried.record is not None:
            return ump.project(carried.record)
        return project_document(self, carried.document, carried.tenant, carried.space)

    @property
    def owner(self) -> str:
        """Whose memories are that do not say it."""
        return self.given or self._first or NOBODY

    @property
    def own(self) -> str:
        """What OAMS calls the owner."""
        return owner_hash(self.owner)


def _or_none(make: Callable[[], T | None]) -> T | None:
    """What is inside may be anything; what cannot be read is only what it says itself."""
    try:
        return make()
    except (MemorandaError, LookupError, TypeError, ValueError, AttributeError):
        return None


def _holding(record: Record, more: dict[str, object]) -> Record:
    structured = {**(record["body"].get("structured") or {}), **more}
    return sort_record_fields({**record, "body": {**record["body"], "structured": structured}})


def _closed(record: Record, successor: str, index: IndexState) -> Record:
    """A record that says what superseded it, and when."""
    closed = strip_integrity(record)
    closed["superseded_by"] = [successor]
    if closed["time"].get("valid_to") is None and index.system_valid_to is not None:
        closed["time"] = {
            **closed["time"],
            "valid_to": format_instant(Instant(min(LATEST, index.system_valid_to))),
        }
    return closed


def _difference(record: Record, shown: Record) -> dict[str, Any]:
    """What a record says that the view of its document does not."""
    structured, bare = record["body"].get("structured") or {}, shown["body"].get("structured") or {}
    fields: dict[str, Any] = {**record}
    return {
        "fields": {
            name: value
            for name, value in fields.items()
            if name != "body" and shown.get(name) != value
        },
        "structured": {
            name: value for name, value in structured.items() if bare.get(name) != value
        },
    }


def _with(shown: Record, said: dict[str, Any]) -> Record:
    structured = {**(shown["body"].get("structured") or {}), **said["structured"]}
    body = {**shown["body"], "structured": structured} if structured else shown["body"]
    return sort_record_fields(cast("Record", {**shown, **said["fields"], "body": body}))


def _refuse_bound(carried: Carried) -> None:
    """UMP 2.7: what consent keeps, or cuts, goes into no form that cannot say so."""
    record = carried.record
    if record is None or "consent" not in record:
        return
    if record["consent"].get("exportable") is False:
        raise ConsentViolation("its consent keeps it where it is, and this form cannot say that")
    if rules.redact(record)[1]:
        raise Unsupported(
            "its consent cuts it when it leaves, and this form only holds what is whole"
        )


def _refuse_over(carried: Carried) -> None:
    """OAMS and other systems have no word for what is not stated any more."""
    index = carried.index
    is_over = bool(index.superseded_by or index.successor_name or index.system_valid_to is not None)
    if (record := carried.record) is not None:
        is_over |= (
            bool(record.get("superseded_by"))
            or record.get("lifecycle", {}).get("status") == "tombstoned"
        )
    if is_over:
        raise Unsupported("superseded or forgotten, and this form only says what is stated now")
    if index.verification_status == "retracted":
        raise Unsupported("retracted, which this form cannot say")
