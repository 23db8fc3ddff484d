"""Remember: check a draft, complete and sign it, and write it as a new memory or merge it into an equal one.

The work is divided so that the single writer has little to do. `accept` does all that needs no store: checks, default
values, secrets, signature, index terms. A draft without a name of its own may equal a stored memory (by kind, scope and
normalised text, `Projection.sameness`). Such a merge is prepared and signed outside of the writer's turn too, and
`write` uses it if the stored memory is still the same.

A record with an id or a signature of its own is never merged. A second record with its id is a repetition, a later
edition by the same signer, or an error.

Three entry points: `remember` for one draft; `accept` and `put` for callers that write in a unit of their own (imports,
consolidation); `prepare_merge` and `find_repeated` for imports, which compute before the unit what the unit then only
checks. Everything that is computed before the unit is compared inside with what is stored then, and computed again if
it differs.

Secrets, consent, presets and authorship are applied in `accept`, before a signature is made: a signed record cannot be
changed any more.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import dump
from memoranda.errors import Conflict, ConsentViolation, SignatureInvalid
from memoranda.model.instant import Instant
from memoranda.model.memory import NATIVE_KEY, Projection, Version
from memoranda.service.core import authorship, cascade, compliance
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.indexing import NewVersion, prepare
from memoranda.service.core.lifecycle import append_next, follow, inherit_bounds
from memoranda.service.core.secret_screening import refuse_secrets, screen_fields
from memoranda.service.core.views import redact_record, scope_of, view_record
from memoranda.service.ump.similar import SimilarMemory, find_similar
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping, rules, signature
from memoranda.standards.ump import record as records
from memoranda.standards.ump.mapping import document_of
from memoranda.standards.ump.port import load_record, rules_of_record
from memoranda.standards.ump.record import Draft, Record
from memoranda.standards.ump.signature import encode_random_id
from memoranda.storage.engine.contract import Snapshot, Unit

Result = Literal["created", "merged"]
Parts = TypeVar("Parts", bound=Mapping[str, Any])
# The methods of agents and people, who write one memory at a time.
_SINGLE_WRITE_METHODS: Final = ("cli", "mcp")
# The parts of a record with free content, in which a secret may occur.
FREE_PARTS: Final[tuple[str, ...]] = ("body", "provenance")


class NewParts(NamedTuple):
    """The parts of a memory that are known not to be in the store: its name, and the fact that it states."""

    is_new_name: bool = False
    is_new_fact: bool = False
    # The caller's right to supersede its predecessor was checked already.
    may_follow: bool = False


NOTHING_KNOWN: Final = NewParts()


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a draft: written as a new memory, or merged into one with the same content."""

    id: str
    result: Result
    # Memories that state nearly the same as a new one, which the caller may want to revise instead.
    similar: tuple[SimilarMemory, ...] = ()

    def document(self) -> dict[str, object]:
        """Return the result as it appears in an answer."""
        document: dict[str, object] = {"id": self.id, "result": self.result}
        if self.similar:
            document["similar"] = [
                {"id": memory.id, "text": memory.text} for memory in self.similar
            ]
        return document


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A draft that passed every check and is ready to be written.

    Holds everything that writing needs, so it can wait, be written by another thread, or be written twice.
    """

    draft: Draft
    record: Record
    new: NewVersion
    # True for a record with an id or a signature of its own, which is stored as it is and never merged.
    is_own: bool

    @property
    def projection(self) -> Projection:
        """The standard-free reading of the record."""
        return self.new.projection


def with_defaults(
    _: Context, access: Access, draft: object, *, method: str, actor_kind: str | None = None
) -> object:
    """Return a draft with the defaults of the caller's credential: owner, project, agent, and provenance.

    A signed record gets the owner only. A draft that is no JSON object is returned as it is, for the checks to refuse.

    `method` says how the memory came (`cli`, `mcp`, `api`, `import`), and is stored in its provenance.
    """
    if not isinstance(draft, dict):
        return draft
    if "integrity" in draft:
        scope = draft.get("scope", {})
        owner = {"owner": access.default_tenant}
        return {**draft, "scope": {**owner, **scope}} if isinstance(scope, dict) else draft
    origin = {
        "actor": access.actor,
        "actor_kind": actor_kind or access.actor_kind,
        "method": method,
    }
    return records.complete_draft(
        draft,
        owner=access.default_tenant,
        project=access.default_project,
        agent=access.default_agent,
        origin=origin,
    )


def accept(
    context: Context, access: Access, draft: object, now: Instant, *, is_from_file: bool = False
) -> Accepted:
    """Check, complete and sign a draft, without the store. UMP §3.3: reject, never silently store.

    Raises an error for a malformed draft, a scope outside of the caller's, a bad signature, a secret in a signed
    record, and a violation of consent or of the owner's compliance presets.

    The result depends on the credential, so never share it between callers.
    """
    version = context.ump_version
    checked_draft = records.check(draft)
    if access.is_narrowed and "integrity" not in checked_draft:
        checked_draft = cast(
            "Draft", {**checked_draft, "scope": access.narrow_scope(scope_of(checked_draft))}
        )
    scope = scope_of(checked_draft)
    access.require_reach(scope["owner"])
    access.require_scope(scope)
    if "integrity" in checked_draft:
        record = records.check_complete(checked_draft)
        # Verified as received: a default that is filled in would break a valid signature.
        if not signature.verify(record):
            raise SignatureInvalid("integrity: the signature does not match the record")
        authorship.refuse_forged_author(
            access, record.get("provenance", {}).get("actor"), record["integrity"]["signer"]
        )
        refuse_secrets(context, free_parts(record))
    else:
        checked_draft = authorship.attribute_draft(
            access, screen_parts(context, checked_draft), is_from_file=is_from_file
        )
        record = signature.seal(
            records.fill_defaults(checked_draft, now=now, version=version), context.operator
        )
    _check_consent(record)
    if presets := context.presets_of(record["scope"]["owner"]):
        is_encrypted = context.encrypts_users and (
            context.encrypts_all or bool(record["scope"].get("user"))
        )
        compliance.check_write(presets, rules_of_record(record), is_encrypted=is_encrypted)
    # The statement of a peer is not merged into one of the owner.
    is_own = "id" in checked_draft or "integrity" in checked_draft or access.is_peer
    return Accepted(
        draft=checked_draft, record=record, new=new_record(context, record), is_own=is_own
    )


def new_record(context: Context, record: Record, like: NewVersion | None = None) -> NewVersion:
    """Return the version of a signed record. `like`: a version whose search words may be the same."""
    projection = mapping.project(record)
    if NATIVE_KEY in (record["body"].get("structured") or {}):
        # The record carries a document of another standard.
        projection = cascade.with_consent_links(projection, record)
    return prepare(context, document_of(record), projection, like=like)


def screen_parts(context: Context, fields: Parts) -> Parts:
    """Return a draft or a patch after the policy for likely secrets was applied to its free parts."""
    return cast("Parts", {**fields, **screen_fields(context, free_parts(fields))})


def free_parts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a record, draft or patch that have free content."""
    return {name: fields[name] for name in FREE_PARTS if name in fields}


def remember(context: Context, access: Access, draft: object) -> Remembered:
    """Write a draft as a new memory, or merge it into one with the same content.

    Agents and people are told which memories a new one may replace. Programs are not: they write many, and the search
    takes longer than the write.

    Raises, besides the errors of `accept`, Conflict for an id that names another record, and QuotaExceeded. With a
    duplicate the answer is "merged", and names the stored record.
    """
    now = context.clock()
    accepted = accept(context, access, draft, now)
    tenant = accepted.projection.scope.tenant
    if accepted.is_own and access.tenant is None:
        _refuse_foreign_name(context, accepted.record["id"], tenant)
    outcome = context.engine.write(
        tenant, lambda unit: _write_if_new(context, access, unit, accepted, now)
    )
    if isinstance(outcome, Version):
        # Most drafts are new. So the merge is prepared only now, and a second unit of work writes it.
        merge = PreparedMerge(outcome, _merge_records(context, outcome, accepted, now))
        outcome = context.engine.write(
            tenant, lambda unit: write(context, access, unit, accepted, now, merge)
        )
    if accepted.projection.withdraws:
        cascade.erase_withdrawn(context, tenant)
    method = accepted.record.get("provenance", {}).get("method")
    if outcome.result == "created" and method in _SINGLE_WRITE_METHODS:
        similar = find_similar(context, access, accepted.projection, outcome.id)
        return replace(outcome, similar=similar) if similar else outcome
    return outcome


def _write_if_new(
    context: Context, access: Access, unit: Unit, accepted: Accepted, now: Instant
) -> Remembered | Version:
    """Write an accepted draft; if there is a duplicate, write nothing and return the duplicate."""
    if accepted.is_own:
        return write(context, access, unit, accepted, now)
    name = mapping.STANDARD, accepted.record["id"]
    duplicate, namesake = unit.find_duplicate_or_named(accepted.projection.sameness, name, now)
    if duplicate is not None:
        return duplicate
    parts = NewParts(is_new_name=namesake is None, is_new_fact=True)
    return write(context, access, unit, accepted, now, new_parts=parts)


def write(
    context: Context,
    access: Access,
    unit: Unit,
    accepted: Accepted,
    now: Instant,
    merge: PreparedMerge | None = None,
    new_parts: NewParts = NOTHING_KNOWN,
) -> Remembered:
    """Write an accepted draft as `put` does, and record it in the audit log."""
    remembered = put(context, unit, accepted, now, merge=merge, new_parts=new_parts)
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
    merge: PreparedMerge | None = None,
    new_parts: NewParts = NOTHING_KNOWN,
) -> Remembered:
    """Write an accepted draft as a new memory, as the next version of `prior`, or by merging it into a duplicate.

    Announces the change; auditing is up to the caller. `prior` is for imports that found the predecessor themselves.
    """
    cascade.note_withdrawal(unit, accepted.projection)
    cascade.check_basis(context, unit, accepted.new.document, accepted.projection, now)
    if accepted.is_own:
        is_free = new_parts.is_new_name
        remembered = None if is_free else _repeat(context, unit, accepted, now)
    else:
        is_new = new_parts.is_new_fact
        remembered = None if is_new else _merge(context, unit, accepted, now, merge)
    if remembered is None:
        if not accepted.is_own and not new_parts.is_new_name:
            accepted = _with_free_name(context, unit, accepted, now)
        version = _append(context, unit, accepted, now, prior)
        unit.announce("created", version, now=now)
        remembered = Remembered(id=version.document.name, result="created")
    return remembered


def _repeat(context: Context, unit: Unit, accepted: Accepted, now: Instant) -> Remembered | None:
    """Handle a record whose id names a stored record: write a later edition, or nothing for a repetition.

    Return None if the id names nothing, or only a forgotten record. Raises Conflict if it names another record.
    """
    record = accepted.record
    stored_version = unit.find_by_name(mapping.STANDARD, record["id"])
    if stored_version is None or stored_version.state.is_forgotten:
        return None
    if not _is_same_record(context, stored_version, record, now):
        if not _is_later_edition(stored_version, accepted):
            raise Conflict(
                f"id: {record['id']} already names another record; revise it, or leave the id out"
            )
        version = append_next(context, unit, stored_version, accepted.new, now=now)
        unit.retire(stored_version, now=now)
        unit.announce("merged", version, now=now)
    return Remembered(id=record["id"], result="merged")


def _is_same_record(
    context: Context, stored_version: Version, record: Record, now: Instant
) -> bool:
    """Return True if a record is the stored document, or the view of it that this store exports, even redacted."""
    content_hash, document = record["integrity"]["content_hash"], stored_version.document
    if mapping.owns(document):
        original = load_record(document.native)
        if original["integrity"]["content_hash"] == content_hash:
            return True
    exported = view_record(context, stored_version, now)
    return content_hash in (
        exported["integrity"]["content_hash"],
        redact_record(exported, context.operator)["integrity"]["content_hash"],
    )


def find_repeated(
    context: Context, snapshot: Snapshot, accepted: Accepted, now: Instant
) -> Version | None:
    """Return the stored version that a record with its own id repeats; while it is unchanged, nothing is to write."""
    if not accepted.is_own or accepted.projection.basis or accepted.projection.withdraws:
        return None
    stored_version = snapshot.find_by_name(mapping.STANDARD, accepted.record["id"])
    if stored_version is None or stored_version.state.is_forgotten:
        return None
    return (
        stored_version if _is_same_record(context, stored_version, accepted.record, now) else None
    )


def prepare_merge(
    context: Context, snapshot: Snapshot, accepted: Accepted, now: Instant
) -> PreparedMerge | None:
    """Merge a draft with its duplicate, outside of the writer's turn; None if there is no duplicate now."""
    if accepted.is_own:
        return None
    duplicate = snapshot.find_duplicate(accepted.projection.sameness, now)
    if duplicate is None:
        return None
    return PreparedMerge(duplicate, _merge_records(context, duplicate, accepted, now))


def _is_later_edition(stored_version: Version, accepted: Accepted) -> bool:
    """Return True if the signer of a stored record sends the same record with a later state.

    UMP keeps the id of a record that is closed, forgotten or confirmed. This is how a memory that another server owns
    is brought up to date. A record that was closed here is no head any more, and stays closed.
    """
    record = accepted.record
    if not mapping.owns(stored_version.document) or "integrity" not in accepted.draft:
        return False
    stored_record = load_record(stored_version.document.native)
    return (
        stored_version.state.is_head
        and record["integrity"]["signer"] == stored_record["integrity"]["signer"]
        and all(
            record.get(name) == stored_record.get(name) for name in ("kind", "scope", "supersedes")
        )
        and record["body"]["text"] == stored_record["body"]["text"]
        and record["time"]["created"] == stored_record["time"]["created"]
        and accepted.projection.observed >= stored_version.state.observed
    )


def _with_free_name(context: Context, unit: Unit, accepted: Accepted, now: Instant) -> Accepted:
    """Return a draft under a name that no record has.

    The name is derived from content and time. It is in use only if the same content was written in this millisecond
    and closed again.
    """
    record = accepted.record
    if unit.find_by_name(mapping.STANDARD, record["id"]) is None:
        return accepted
    while unit.find_by_name(mapping.STANDARD, record["id"]) is not None:
        now = Instant(now + 1)
        completed = records.fill_defaults(accepted.draft, now=now, version=context.ump_version)
        if completed["time"] == record["time"]:
            # The draft states every time itself, so a later clock changes nothing.
            completed["id"] = encode_random_id(secrets.token_bytes(16))
        record = signature.seal(completed, context.operator)
    return replace(accepted, record=record, new=new_record(context, record, accepted.new))


def _append(
    context: Context, unit: Unit, accepted: Accepted, now: Instant, follows: Version | None
) -> Version:
    """Write the version after the one that names this record as its successor, after `follows`, or of a new memory."""
    record, new_version = accepted.record, accepted.new
    for predecessor_id in record.get("supersedes", ())[:1]:
        prior = unit.find_by_name(mapping.STANDARD, predecessor_id)
        if prior is not None and prior.state.is_head and _names_successor(prior, record["id"]):
            version = append_next(context, unit, prior, new_version, now=now)
            unit.close_version(prior, successor=version, valid_to=prior.state.valid_to, now=now)
            return version
    if follows is None:
        return new_version.append(unit, now=now)
    return append_next(context, unit, follows, new_version, now=now)


def _names_successor(prior: Version, successor_id: str) -> bool:
    """Return True if a document states that this record superseded it."""
    port = port_of(prior.document.standard)
    return port.names_successor(prior.document, mapping.STANDARD, successor_id)


class PreparedMerge(msgspec.Struct, frozen=True):
    """A draft merged with a stored duplicate, valid as long as the duplicate is unchanged.

    `new` is None if merging would lose something; then the draft is written as a memory of its own.
    """

    duplicate: Version
    # None if the merge would lose a part of the draft; then the draft becomes a memory of its own.
    new: NewVersion | None


def _merge_records(
    context: Context, duplicate: Version, accepted: Accepted, now: Instant
) -> NewVersion | None:
    """Return the next version of a duplicate, with the draft merged in and signed; None if that would lose anything."""
    if not mapping.owns(duplicate.document):
        return None
    record = load_record(duplicate.document.native)
    if record["integrity"]["signer"] != context.operator.did:
        # The merged record would lose the signature of somebody else.
        return None
    merged_record = rules.merge(record, accepted.draft, now=now)
    if merged_record is None:
        return None
    new_version = new_record(context, signature.sign(merged_record, context.operator), accepted.new)
    return inherit_bounds(context, duplicate, new_version)


def _merge(
    context: Context, unit: Unit, accepted: Accepted, now: Instant, merge: PreparedMerge | None
) -> Remembered | None:
    """Write a draft merged with its duplicate, and store the draft as the cause; None if there is no merge."""
    duplicate = unit.find_duplicate(accepted.projection.sameness, now)
    if duplicate is None:
        return None
    if merge is not None and merge.duplicate == duplicate:
        merged_version = merge.new
    else:
        # The duplicate changed meanwhile, or was written in this unit of work.
        merged_version = _merge_records(context, duplicate, accepted, now)
    if merged_version is None:
        return None
    version = follow(context, duplicate, merged_version).append(
        unit, now=now, cause=dump(accepted.draft)
    )
    unit.retire(duplicate, now=now)
    unit.announce("merged", version, now=now)
    return Remembered(id=version.document.name, result="merged")


def _refuse_foreign_name(context: Context, name: str, tenant: str) -> None:
    """Raise Conflict if a record of another owner has a name.

    Only for a credential that reaches all owners: to others, the error would disclose which names are in use.
    """
    tenants = context.engine.system.find_tenants_with_name(mapping.STANDARD, name)
    if any(other != tenant for other in tenants):
        raise Conflict(f"id: {name} already names a record of another owner")


def _check_consent(record: Record) -> None:
    """Raise ConsentViolation for a public record that must not be exported."""
    if (
        record["scope"].get("visibility") == "public"
        and record.get("consent", {}).get("exportable") is False
    ):
        raise ConsentViolation("consent: a public memory cannot be exportable: false")
