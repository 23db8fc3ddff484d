"""Views: every version as a UMP record, the form in which Memoranda shows and compares memories of all standards.

`view_record` builds it in three steps. The document is translated (`create_record`): a record is itself, a document
that is the complete view of another one is shown as that one, and any other is translated, with the document inside.
The restrictions inherited from earlier versions are applied. Then the state in the store is overlaid: superseded,
forgotten, expired. If nothing was changed, the record keeps its own signature; otherwise the operator signs it.
`redact_for_caller` finally removes what the caller may not see.

`is_intact` must be checked before a record is shown: a damaged document is not shown to anyone.

A record that carries the document it was made from is either that document's view or a statement of its own;
`find_viewed_document` tells which. Only a view shares the document's identity.

Modules of OMS are imported inside functions: a command that only reads records does not need them.

Rule for callers: never show a document directly. Take `view_record` (or a view of another standard in
`service/<standard>/views.py`), check `is_intact`, and redact. Views are computed at every read, because state and
restrictions change; the document underneath does not.

A view of a foreign document is signed by the operator, which says "this store shows it so", not "the author wrote it
so". A superseded or expired record is signed again for the same reason; the author's own record is then inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from memoranda.encoding.didkey import SigningKey
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput, MemorandaError, StoreCorrupt
from memoranda.model.bounds import apply_bounds, decode
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.model.memory import (
    CUT_KEY,
    NATIVE_KEY,
    STATE_KEY,
    UMP,
    Bounds,
    Document,
    Projection,
    State,
    Version,
    is_over,
    wrap_document,
)
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.standards.port import Original, port_of
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump import rules, signature
from memoranda.standards.ump.port import is_valid_record, load_record
from memoranda.standards.ump.record import (
    SCOPE_FIELDS,
    Record,
    is_later_minor,
    sort_record_fields,
)
from memoranda.standards.ump.shapes import Version as UmpVersion
from memoranda.storage.engine.contract import Snapshot

if TYPE_CHECKING:
    from memoranda.standards.oms.grains import Grain

T = TypeVar("T")
# Reason in the tombstone of an expired memory.
EXPIRY_REASON: Final = "its retention ended"
# Reason that others than the owner see in a memory that was forgotten softly.
FORGOTTEN_REASON: Final = "it was forgotten"


class UmpSpeaker(Protocol):
    """Anything that states a version of UMP in which to show documents."""

    @property
    def ump_version(self) -> UmpVersion: ...


def project(context: Context, version: Version) -> Projection:
    """Return the standard-free reading of a version, with its inherited restrictions.

    Use it for stored versions. For a document that is not stored yet there is `project_document`.
    """
    projection = project_document(context, version.document, version.tenant, version.state.space)
    return projection if version.bounds is None else apply_bounds(projection, version.bounds)


def project_document(
    context: UmpSpeaker, document: Document, tenant: str, space: str
) -> Projection:
    """Return the standard-free reading of a document. `space`: its space, which an openwop entry does not state."""
    return port_of(document.standard).project(
        document, tenant, space, ump_version=context.ump_version
    )


def scope_of(record: Mapping[str, object]) -> dict[str, str]:
    """Return the scope of a record, as tokens and audit entries compare it. Raises StoreCorrupt."""
    scope = record.get("scope")
    if not isinstance(scope, dict):
        raise StoreCorrupt("a stored document has lost its scope; run 'memoranda verify'")
    return {
        "visibility": "private",
        **{name: scope[name] for name in SCOPE_FIELDS if name in scope},
    }


def view_record(
    context: Context, version: Version, now: Instant, *, is_for_file: bool = False
) -> Record:
    """Return a version as a record. Check `is_intact` before showing it to anyone.

    `now` decides if the retention period is over. An erased version is shown as its tombstone. `is_for_file`: a record
    of a later version of UMP than the advertised one keeps its version, and so its signature. A file is no answer of a
    server, and its readers read both versions.
    """
    document = version.document
    if version.state.erased:
        return tombstone_record(context, version)
    own_record = port_of(document.standard).record(document) if version.bounds is None else None
    record = _translate_signed(context, version) if own_record is None else own_record
    ump_version = context.ump_version
    if is_for_file:
        ump_version = max(ump_version, record["ump"])
    overlaid = _overlay_state(record, version.state, ump_version, now)
    if overlaid is record:
        return record
    if own_record is not None and not is_over(version.state, now):
        overlaid = _attach_original(overlaid, version.document, record, context.operator.did)
    return signature.sign(overlaid, context.operator)


def _attach_original(
    closed_record: Record, document: Document, record: Record, operator: str
) -> Record:
    """Return a closed record with the record that its author signed inside, unless its redactions forbid it."""
    signer = record.get("integrity", {}).get("signer")
    if (
        signer in (None, operator)
        or record.get("consent", {}).get("redact")
        or ump.unwrap(record) is not None
    ):
        return closed_record
    structured = {
        **(closed_record["body"].get("structured") or {}),
        NATIVE_KEY: wrap_document(document),
    }
    return {**closed_record, "body": {**closed_record["body"], "structured": structured}}


def outline_record(
    context: Context, version: Version, grain_and_projection: tuple[Grain, Projection] | None = None
) -> Record:
    """Return the name, scope and consent of the view of a version, for internal use: it need not be signed.

    `grain_and_projection` is the version's grain and its reading, if the caller has them.

    Much cheaper than `view_record`, since nothing is signed. For decisions about access only.
    """
    if version.state.erased:
        return tombstone_record(context, version)
    return _translate(context, version, grain_and_projection)


def find_first_version(snapshot: Snapshot, version: Version) -> Version:
    """Return the first version of a memory, which names the memory in standards without new names for revisions.

    The first version may be erased. If its document contained the name, the next version that contains it is returned.
    """
    if version.version_id == version.memory_id:
        return version
    versions = snapshot.load_versions([version.memory_id])
    if not versions:
        return version
    first = versions[0]
    standard = first.document.standard
    if not first.state.erased or not port_of(standard).has_local_names:
        return first
    repeating = (
        candidate
        for candidate in snapshot.iterate_history(version.memory_id)
        if candidate.document.standard == standard and not candidate.state.erased
    )
    return next(repeating, version)


def _translate_signed(context: Context, version: Version) -> Record:
    """Return a version translated to a record, signed by the operator unless it keeps its own signature."""
    record = _translate(context, version)
    if "integrity" in record:
        return record
    if port_of(version.document.standard).record(version.document) is None:
        record = _overlay_position(record, version.state)
    # The operator signs a translation; the original document is inside.
    return signature.sign(record, context.operator)


def _overlay_position(record: Record, state: State) -> Record:
    """Return a translation with its position in its line: the version before it, and the start of its validity."""
    supersedes, time = record.get("supersedes", ()), record["time"]
    if state.predecessor and state.predecessor not in (record["id"], *supersedes):
        record = sort_record_fields({**record, "supersedes": [state.predecessor, *supersedes]})
    if parse_instant(time["valid_from"]) != state.valid_from:
        record = {**record, "time": {**time, "valid_from": format_instant(state.valid_from)}}
    return record


def _translate(
    context: Context, version: Version, grain_and_projection: tuple[Grain, Projection] | None = None
) -> Record:
    """Return a version translated to a record, with its inherited restrictions, unsigned."""
    record = create_record(
        context, version.document, version.tenant, version.state.space, grain_and_projection
    )
    return record if version.bounds is None else ump.with_bounds(record, version.bounds)


def create_record(
    context: UmpSpeaker,
    document: Document,
    tenant: str,
    space: str,
    grain_and_projection: tuple[Grain, Projection] | None = None,
) -> Record:
    """Return a document as a record: itself, the record it was made from, or a translation with the document inside.

    `grain_and_projection` saves decoding a grain a second time.
    """
    port = port_of(document.standard)
    own_record = port.record(document)
    if own_record is not None:
        return own_record
    original = port.original(document, tenant, ump_version=context.ump_version)
    if original is not None:
        return _create_record_of_original(context, original)
    grain = grain_and_projection[0] if grain_and_projection else port.grain(document)
    inner = None if grain is None else _record_in_grain(grain, tenant)
    if grain is not None and inner is not None and _is_view_of(grain, inner):
        return inner
    projection = (
        grain_and_projection[1]
        if grain_and_projection
        else project_document(context, document, tenant, space)
    )
    translated = ump.from_projection(
        projection, port.exported(document), version=context.ump_version
    )
    # A grain that differs from the record inside it is shown to no more people than that record.
    return translated if inner is None else ump.with_bounds(translated, _bounds_stated_by(inner))


def _create_record_of_original(context: UmpSpeaker, original: Original) -> Record:
    """Return the record of the document that another one is the complete view of."""
    record = port_of(original.document.standard).record(original.document)
    if record is None:
        return ump.from_projection(
            original.projection, original.document, version=context.ump_version
        )
    return record if original.bounds is None else ump.with_bounds(record, original.bounds)


def _record_in_grain(grain: Grain, tenant: str) -> Record | None:
    """Return the record of this owner that a grain carries; None if there is none, or it is not valid."""
    from memoranda.standards.oms import mapping as oms_mapping

    inner = oms_mapping.unwrap(grain)
    if inner is None:
        return None
    record = _valid_record(inner)
    if record is None:
        return None
    return record if record["scope"]["owner"] == tenant else None


def _valid_record(inner: Document) -> Record | None:
    """Return a record that somebody put into a grain, if it is complete and its signature is valid."""
    is_record = ump.owns(inner) and is_valid_record(inner.native)
    return load_record(inner.native) if is_record else None


def _is_view_of(grain: Grain, record: Record) -> bool:
    """Return True if a grain is exactly the view of a record, apart from its author."""
    from memoranda.standards.oms import mapping as oms_mapping

    inner = oms_mapping.unwrap(grain)
    if inner is None:
        return False
    view = oms_mapping.from_projection(ump.project(record), inner)
    return _unsigned(view) == _unsigned(grain)


def _unsigned(grain: Grain) -> dict[str, Any]:
    return {name: value for name, value in grain.fields.items() if name != "author_did"}


def _bounds_stated_by(record: Record) -> Bounds:
    """Return the restrictions that a record puts on any document that carries it."""
    projection, consent = ump.project(record), record.get("consent", {})
    scope, redacted = projection.scope, consent.get("redact", ())
    return Bounds(
        user=scope.user,
        agent=scope.agent,
        session=scope.session,
        visibility=scope.visibility,
        exportable=projection.exportable,
        expires=projection.expires,
        redact=tuple(redacted),
    )


def tombstone_record(context: Context, version: Version) -> Record:
    """Return the tombstone of an erased version; if it is unreadable, a record that states only the erasure."""
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


def is_intact(version: Version) -> bool:
    """Return True if the document is still the one that was accepted (UMP L3, OMS Level 1: integrity is verified on
    read).
    """
    if version.state.erased or version.is_sealed:
        # Its signature was verified when it was accepted, and the sealed bytes have not changed since.
        return True
    return verify_document(version)


def verify_document(version: Version) -> bool:
    """Return True if the document's own signature or address is valid, whatever the store states."""
    return port_of(version.document.standard).verifies(version.document)


def run_unless_damaged(version: Version, work: Callable[[], T]) -> T | None:
    """Return the result of `work` on a version; None if the document is damaged, so that others can still be read.

    An error of an intact document is a fault of the program and is raised; an error of a damaged one is expected.
    """
    try:
        return work()
    except (MemorandaError, LookupError, TypeError, ValueError, AttributeError):
        if is_intact(version):
            raise
        return None


def redact_for_caller(context: Context, access: Access, record: Record) -> Record:
    """Return a record as the caller may see it (UMP §2.7: redact before a visibility boundary is crossed)."""
    if access.sees_unredacted(record["scope"]["owner"]):
        return record
    return redact_record(record, context.operator)


def redact_record(record: Record, operator: SigningKey) -> Record:
    """Return a record without the fields that its consent strips, signed again if any were."""
    redacted, is_changed = rules.redact(record)
    return signature.sign(redacted, operator) if is_changed else record


def withhold_record(record: Record, operator: SigningKey) -> Record:
    """Return the record of a forgotten memory without its content, signed again, for others than its owner."""
    return signature.sign(rules.erase(record, reason=FORGOTTEN_REASON), operator)


def _overlay_state(record: Record, state: State, version: UmpVersion, now: Instant) -> Record:
    """Return a record with its state in the store; the same object if that adds nothing."""
    overlaid = record
    successor = state.successor_names.get(UMP, "")
    if successor and successor not in record.get("superseded_by", ()):
        overlaid = rules.close(
            overlaid, valid_to=_closing_time(record, state), successor_id=successor
        )
    has_ended = state.expires is not None and state.expires <= now
    if (state.tombstoned is not None or has_ended) and record.get("lifecycle", {}).get(
        "status"
    ) != "tombstoned":
        end = (
            state.valid_to
            if state.tombstoned is not None
            else _find_earlier(state.valid_to, state.expires)
        )
        overlaid = rules.tombstone(overlaid, at=format_instant(end if end is not None else now))
    if has_ended:
        # UMP §3.6: its retention period demands erasure; until then its content is not shown.
        overlaid = rules.erase(overlaid, reason=EXPIRY_REASON)
    if overlaid.get("ump") != version and not is_later_minor(overlaid.get("ump")):
        # UMP 1.0 §8: a server MUST emit the version it advertises. A later minor version may have fields of its own,
        # which no version that is spoken here describes.
        overlaid = {**overlaid, "ump": version}
    return overlaid


def _closing_time(record: Record, state: State) -> str:
    """Return the end of validity of a superseded record, as its author wrote it if it is unchanged."""
    stated_end = record["time"].get("valid_to")
    if stated_end is not None and state.valid_to == state.declared_valid_to:
        return str(stated_end)
    return (
        format_instant(state.valid_to)
        if state.valid_to is not None
        else format_instant(state.recorded)
    )


def _find_earlier(one: Instant | None, other: Instant | None) -> Instant | None:
    """Return the earlier of two instants, of which either may be missing."""
    instants = [instant for instant in (one, other) if instant is not None]
    return min(instants) if instants else None


_STATE_FIELDS: Final = ("ump", "integrity", "supersedes", "superseded_by")


def find_viewed_document(context: UmpSpeaker, record: Record) -> Document | None:
    """Return the document that a record is the view of; None for a record that states anything else."""
    inner = ump.unwrap(record)
    try:
        return inner if inner is not None and is_view(context, record, inner) else None
    except (MemorandaError, LookupError, TypeError, AttributeError, ValueError):
        # Anybody may have put the document there.
        return None


def is_view(context: UmpSpeaker, record: Record, inner: Document) -> bool:
    """Return True if a record equals its view of a document, apart from what a store may add later.

    Fields that a store may add later are ignored: successor, status, end of validity, and our own notes in the
    structured body.
    """
    tenant, space = record["scope"]["owner"], record["scope"].get("project", "")
    view = create_record(context, inner, tenant, space)
    bounds = read_carried_bounds(record)
    expected = _without_state(view if bounds is None else ump.with_bounds(view, bounds))
    content = _without_state(record)
    begins = content["time"].get("valid_from")
    if begins in (expected["time"]["observed"], read_carried_state(record).get("valid_from")):
        # A later version is valid from its last update, or from when the store got it.
        expected["time"]["valid_from"] = begins
    return expected == content


def read_carried_bounds(record: Record) -> Bounds | None:
    """Return the inherited restrictions that a record brings from another store. Raises StoreCorrupt."""
    bounds = read_carried_state(record).get("bounds")
    return None if bounds is None else decode(dump(bounds))


def read_carried_state(record: Record) -> Mapping[str, Any]:
    """Return the state that another store attached to a record. Raises InvalidInput."""
    state = (record["body"].get("structured") or {}).get(STATE_KEY, {})
    if not isinstance(state, dict):
        raise InvalidInput(f"body.structured.{STATE_KEY} must be an object")
    return state


def _without_state(record: Record) -> dict[str, Any]:
    """Return a record without the fields that a store may add later, and without the document inside."""
    fields: Mapping[str, Any] = record
    remaining = {name: value for name, value in fields.items() if name not in _STATE_FIELDS}
    body, lifecycle = remaining["body"], dict(remaining.get("lifecycle", {}))
    lifecycle.pop("status", None)
    carried = (NATIVE_KEY, STATE_KEY, CUT_KEY)
    structured = {
        name: value for name, value in (body.get("structured") or {}).items() if name not in carried
    }
    time = {name: value for name, value in remaining["time"].items() if name != "valid_to"}
    bare_body = {name: value for name, value in body.items() if name != "structured"}
    return {
        **remaining,
        "body": {**bare_body, "structured": structured},
        "time": time,
        "lifecycle": lifecycle,
    }
