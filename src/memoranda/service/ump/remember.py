"""Remember: check, complete, sign, and either join what is known or write something new."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar, cast

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import dump
from memoranda.errors import Conflict, ConsentViolation, SignatureInvalid
from memoranda.model.instant import Instant
from memoranda.model.memory import Projection, Version
from memoranda.model.native import NATIVE_KEY
from memoranda.retrieval.entry import IndexedText
from memoranda.service.core import authorship, cascade, compliance
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.indexing import NewVersion, prepare
from memoranda.service.core.lifecycle import append_next, inherit_bounds
from memoranda.service.core.secret_screening import refuse_secrets, screen_fields
from memoranda.service.core.views import redact_record, scope_of, view_record
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping, rules, signature
from memoranda.standards.ump import record as records
from memoranda.standards.ump.canonical import encode_random_id
from memoranda.standards.ump.mapping import document_of
from memoranda.standards.ump.port import load_record, rules_of_record
from memoranda.standards.ump.record import Draft, Record
from memoranda.storage.engine.contract import Snapshot, Unit

Result = Literal["created", "merged"]
Said = TypeVar("Said", bound=Mapping[str, Any])
# The parts of a record in which there may be anything at all.
SAID: Final[tuple[str, ...]] = ("body", "provenance")


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a draft: written as a new memory, or merged into one that already said it."""

    id: str
    result: Result


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A draft that passed every check and is ready to be written."""

    draft: Draft
    record: Record
    new: NewVersion
    # A record with a name or a signature of its own is kept as it is, never merged into another.
    is_own: bool

    @property
    def projection(self) -> Projection:
        return self.new.projection


def with_defaults(
    _: Context, access: Access, draft: object, *, method: str, actor_kind: str | None = None
) -> object:
    """Fill in what a caller need not say, because its credential does: the owner and where it comes from."""
    if not isinstance(draft, dict):
        return draft
    filled: dict[str, Any] = dict(draft)
    scope = filled.get("scope", {})
    if isinstance(scope, dict):
        # A signed record says all it has to say.
        is_free = access.default_project is not None and "integrity" not in filled
        project = {"project": access.default_project} if is_free else {}
        filled["scope"] = {"owner": access.default_tenant, **project, **scope}
    said = filled.get("provenance", {})
    if isinstance(said, dict) and "actor" not in said and "integrity" not in filled:
        kind = actor_kind or access.actor_kind
        known = {"actor": access.actor, "actor_kind": kind, "method": method}
        # UMP §2.6: an import carries its provider. A record without provenance is known to be from a file only.
        filled["provenance"] = {
            **known,
            **({"source": {"provider": "file"}} if kind == "import" else {}),
            **said,
        }
    return filled


def accept(
    context: Context, access: Access, draft: object, now: Instant, *, is_from_file: bool = False
) -> Accepted:
    """Everything that can be decided without the store. UMP §3.3: reject, never silently store."""
    version = context.ump_version
    checked = records.check(draft, version=version)
    if access.is_narrowed and "integrity" not in checked:
        checked = cast("Draft", {**checked, "scope": access.narrow_scope(scope_of(checked))})
    scope = scope_of(checked)
    access.require_reach(scope["owner"])
    access.require_scope(scope)
    if "integrity" in checked:
        record = records.check_complete(checked, version=version)
        # Verified as it came: a default filled in now would break a signature that is good.
        if not signature.verify(record):
            raise SignatureInvalid("integrity: the signature does not match the record")
        authorship.refuse_forged_author(
            access, record.get("provenance", {}).get("actor"), record["integrity"]["signer"]
        )
        refuse_secrets(context, said(record))
    else:
        checked = authorship.attribute_draft(
            access, screened(context, checked), is_from_file=is_from_file
        )
        record = signature.seal(
            records.fill_defaults(checked, now=now, version=version), context.operator
        )
    _check_consent(record)
    if presets := context.presets_of(record["scope"]["owner"]):
        is_encrypted = context.encrypts_users and (
            context.encrypts_all or bool(record["scope"].get("user"))
        )
        compliance.check_write(presets, rules_of_record(record), is_encrypted=is_encrypted)
    # What a peer says does not become part of what the owner said.
    is_own = "id" in checked or "integrity" in checked or access.is_peer
    return Accepted(draft=checked, record=record, new=new_record(context, record), is_own=is_own)


def new_record(context: Context, record: Record, indexed: IndexedText | None = None) -> NewVersion:
    """A signed record as it is written; `indexed` is what its text is found by, where that is known."""
    projection = mapping.project(record)
    if is_view(record):
        projection = cascade.with_consent_links(projection, record)
    return prepare(context, document_of(record), projection, indexed=indexed)


def is_view(record: Record) -> bool:
    """Whether a record carries a document of another standard."""
    return NATIVE_KEY in (record["body"].get("structured") or {})


def screened(context: Context, fields: Said) -> Said:
    """A draft, or a patch, with what it says as the policy for secrets lets it pass."""
    return cast("Said", {**fields, **screen_fields(context, said(fields))})


def said(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Where a record, a draft or a patch may say anything at all."""
    return {name: fields[name] for name in SAID if name in fields}


def remember(context: Context, access: Access, draft: object) -> Remembered:
    """Write one memory."""
    now = context.clock()
    accepted = accept(context, access, draft, now)
    tenant = accepted.projection.scope.tenant
    if accepted.is_own and access.tenant is None:
        _refuse_name_of_another(context, accepted.record["id"], tenant)
    remembered = context.engine.write(
        tenant, lambda unit: _write_if_new(context, access, unit, accepted, now)
    )
    if isinstance(remembered, Version):
        # Joined and signed outside the writer's turn; few facts are told twice.
        foreseen = Merged(remembered, _joined(context, remembered, accepted, now))
        remembered = context.engine.write(
            tenant, lambda unit: write(context, access, unit, accepted, now, foreseen)
        )
    if accepted.projection.withdraws:
        cascade.erase_withdrawn(context, tenant)
    return remembered


def _write_if_new(
    context: Context, access: Access, unit: Unit, accepted: Accepted, now: Instant
) -> Remembered | Version:
    """Write an accepted draft, unless the same fact is there: then nothing is written, and that is returned."""
    if accepted.is_own:
        return write(context, access, unit, accepted, now)
    name = mapping.STANDARD, accepted.record["id"]
    known, named = unit.find_duplicate_or_named(accepted.projection.sameness, name, now)
    if known is not None:
        return known
    return write(context, access, unit, accepted, now, is_new=True, is_free=named is None)


def write(
    context: Context,
    access: Access,
    unit: Unit,
    accepted: Accepted,
    now: Instant,
    foreseen: Merged | None = None,
    *,
    is_new: bool = False,
    is_free: bool = False,
) -> Remembered:
    """Write an accepted draft in a unit of work and put it on record; `foreseen` is what it may be merged to.

    `is_new` says that the same fact is known not to be there, `is_free` that its name is known to stand for nothing.
    """
    remembered = put(
        context, unit, accepted, now, foreseen=foreseen, is_new=is_new, is_free=is_free
    )
    scope, targets = scope_of(accepted.record), (remembered.id,)
    unit.record_audit(
        audit_entry(
            access, "remember", now=now, targets=targets, scope=scope, result=remembered.result
        )
    )
    return remembered


def put(
    context: Context,
    unit: Unit,
    accepted: Accepted,
    now: Instant,
    *,
    prior: Version | None = None,
    foreseen: Merged | None = None,
    is_new: bool = False,
    is_free: bool = False,
) -> Remembered:
    """Write an accepted draft: as a new memory, or as the next version of one.

    `is_new` says that the same fact is known not to be there, `is_free` that its name is known to stand for nothing.
    """
    cascade.note_withdrawal(unit, accepted.projection)
    cascade.check_basis(context, unit, accepted.new.document, accepted.projection, now)
    if accepted.is_own:
        remembered = None if is_free else _repeat(context, unit, accepted, now)
    else:
        remembered = None if is_new else _merge(context, unit, accepted, now, foreseen)
    if remembered is None:
        fresh = (
            accepted
            if accepted.is_own or is_free
            else _with_free_name(context, unit, accepted, now)
        )
        version = _append(context, unit, fresh, now, prior)
        unit.announce("created", version, now=now)
        remembered = Remembered(id=version.document.name, result="created")
    return remembered


def _repeat(context: Context, unit: Unit, accepted: Accepted, now: Instant) -> Remembered | None:
    """A name stands for one record only; the same record again is no news, unless it was forgotten."""
    record = accepted.record
    known = unit.find_by_name(mapping.STANDARD, record["id"])
    if known is None or known.state.is_forgotten:
        return None
    if not _is_same(context, known, record, now):
        if not _is_later_edition(known, accepted):
            raise Conflict(
                f"id: {record['id']} already names another record; revise it, or leave the id out"
            )
        version = append_next(context, unit, known, accepted.new, now=now)
        unit.retire(known, now=now)
        unit.announce("merged", version, now=now)
    return Remembered(id=record["id"], result="merged")


def _is_same(context: Context, known: Version, record: Record, now: Instant) -> bool:
    """Whether a record is the version that is here; also as this store gave it away, closed since or redacted."""
    stated, document = record["integrity"]["content_hash"], known.document
    if (
        mapping.owns(document)
        and load_record(document.native)["integrity"]["content_hash"] == stated
    ):
        return True
    shown = view_record(context, known, now)
    return stated in (
        shown["integrity"]["content_hash"],
        redact_record(shown, context.operator)["integrity"]["content_hash"],
    )


def is_repeated(
    context: Context, snapshot: Snapshot, accepted: Accepted, now: Instant
) -> Version | None:
    """The version that a record with a name of its own only repeats: nothing is to be written while it is unchanged."""
    if not accepted.is_own or accepted.projection.basis or accepted.projection.withdraws:
        return None
    known = snapshot.find_by_name(mapping.STANDARD, accepted.record["id"])
    if (
        known is None
        or known.state.is_forgotten
        or not _is_same(context, known, accepted.record, now)
    ):
        return None
    return known


def foresee(
    context: Context, snapshot: Snapshot, accepted: Accepted, now: Instant
) -> Merged | None:
    """What a draft and the same fact come to, if that is there now: joined and signed outside the writer's turn."""
    known = None if accepted.is_own else snapshot.find_duplicate(accepted.projection.sameness, now)
    return None if known is None else Merged(known, _joined(context, known, accepted, now))


def _is_later_edition(known: Version, accepted: Accepted) -> bool:
    """Whether its own signer says more about the same record: closed, forgotten or confirmed since.

    UMP keeps a record's id through all that, so this is how a memory that lives elsewhere too is brought up to date.
    What was closed here stays so.
    """
    record = accepted.record
    if not mapping.owns(known.document) or "integrity" not in accepted.draft:
        return False
    ours = load_record(known.document.native)
    return (
        known.state.is_head
        and record["integrity"]["signer"] == ours["integrity"]["signer"]
        and all(record.get(name) == ours.get(name) for name in ("kind", "scope", "supersedes"))
        and record["body"]["text"] == ours["body"]["text"]
        and record["time"]["created"] == ours["time"]["created"]
        and accepted.projection.observed >= known.state.observed
    )


def _with_free_name(context: Context, unit: Unit, accepted: Accepted, now: Instant) -> Accepted:
    """Said again in the same millisecond after it was closed: the same content would get the same name."""
    record = accepted.record
    if unit.find_by_name(mapping.STANDARD, record["id"]) is None:
        return accepted
    while unit.find_by_name(mapping.STANDARD, record["id"]) is not None:
        now = Instant(now + 1)
        completed = records.fill_defaults(accepted.draft, now=now, version=context.ump_version)
        if completed["time"] == record["time"]:  # the draft fixes every time itself
            completed["id"] = encode_random_id(secrets.token_bytes(16))
        record = signature.seal(completed, context.operator)
    return replace(accepted, record=record, new=new_record(context, record, accepted.new.indexed))


def _append(
    context: Context, unit: Unit, accepted: Accepted, now: Instant, follows: Version | None
) -> Version:
    """Write a new memory, or the next version of one whose last version names this record as its successor."""
    record, new = accepted.record, accepted.new
    for predecessor_id in record.get("supersedes", ())[:1]:
        prior = unit.find_by_name(mapping.STANDARD, predecessor_id)
        if prior is not None and prior.state.is_head and _names_successor(prior, record["id"]):
            version = append_next(context, unit, prior, new, now=now)
            unit.close_version(prior, successor=version, valid_to=prior.state.valid_to, now=now)
            return version
    return (
        new.append(unit, now=now)
        if follows is None
        else append_next(context, unit, follows, new, now=now)
    )


def _names_successor(prior: Version, successor_id: str) -> bool:
    """Return True if a document says itself that it was superseded by this record."""
    port = port_of(prior.document.standard)
    return port.names_successor(prior.document, mapping.STANDARD, successor_id)


class Merged(msgspec.Struct, frozen=True):
    """What a newcomer and the same fact, as it was found, come to."""

    known: Version
    # None when something of the newcomer would be lost by it.
    new: NewVersion | None


def _joined(
    context: Context, known: Version, accepted: Accepted, now: Instant
) -> NewVersion | None:
    if not mapping.owns(known.document):
        return None
    record = load_record(known.document.native)
    # Someone else's signature is worth more than one record less.
    if record["integrity"]["signer"] != context.operator.did:
        return None
    merged = rules.merge(record, accepted.draft, now=now)
    if merged is None:
        return None
    # The same fact in other capitals may have other words: `parseInstant` has parts, `PARSEINSTANT` has none.
    is_same_text = merged["body"]["text"] == accepted.record["body"]["text"]
    indexed = accepted.new.indexed if is_same_text else None
    return inherit_bounds(
        context, known, new_record(context, signature.sign(merged, context.operator), indexed)
    )


def _merge(
    context: Context, unit: Unit, accepted: Accepted, now: Instant, foreseen: Merged | None
) -> Remembered | None:
    """Join the same fact if nothing of the newcomer is lost by it; the draft itself is kept as the cause."""
    known = unit.find_duplicate(accepted.projection.sameness, now)
    if known is None:
        return None
    # Made before the writer's turn, unless it changed since or was written in this very unit.
    is_foreseen = foreseen is not None and foreseen.known == known
    new = (
        foreseen.new
        if foreseen is not None and is_foreseen
        else _joined(context, known, accepted, now)
    )
    if new is None:
        return None
    version = append_next(context, unit, known, new, now=now, cause=dump(accepted.draft))
    unit.retire(known, now=now)
    unit.announce("merged", version, now=now)
    return Remembered(id=version.document.name, result="merged")


def _refuse_name_of_another(context: Context, name: str, tenant: str) -> None:
    # Only for a credential that reaches all owners, who may know; others cannot tell whether a name is taken.
    if any(
        other != tenant
        for other in context.engine.system.find_tenants_with_name(mapping.STANDARD, name)
    ):
        raise Conflict(f"id: {name} already names a record of another owner")


def _check_consent(record: Record) -> None:
    # What may not leave cannot be for everyone.
    if (
        record["scope"].get("visibility") == "public"
        and record.get("consent", {}).get("exportable") is False
    ):
        raise ConsentViolation("consent: a public memory cannot be exportable: false")
