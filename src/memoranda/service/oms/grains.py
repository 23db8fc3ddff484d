"""Grains: the store protocol of OMS §28.4 at Level 3, over the one store.

A grain is a version like any other. What the index knows about it (superseded, when, verified, held) is state and
never enters the blob. `put` adds, `supersede` replaces in one atomic step under the policy of what it replaces, and
`erase` is for compliance alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from memoranda.errors import (
    Conflict,
    ConsentViolation,
    ForbiddenScope,
    GrainError,
    InvalidInput,
    MemorandaError,
    NotFound,
)
from memoranda.model.instant import Instant
from memoranda.model.memory import Document, Projection, Version, is_over
from memoranda.model.selection import Selection
from memoranda.service.core import authorship, cascade, compliance, lineage
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.indexing import NewVersion, prepare
from memoranda.service.core.lifecycle import Tombstones, append_next, erase_version
from memoranda.service.core.lookup import find_own, find_visible, resolve_name
from memoranda.service.core.protection import check_supersession, read_policy_fields
from memoranda.service.core.views import scope_of
from memoranda.service.oms import authority
from memoranda.service.oms.views import Given, Opened, StoredGrain, open_given, shown, would_be_cut
from memoranda.service.retrieve import read_page
from memoranda.service.ump.revise import handover
from memoranda.standards.oms import grains as codec
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms import policy, signature
from memoranda.standards.oms.advice import warnings_for
from memoranda.standards.oms.fields import INDEX_FIELDS
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.port import project_grain
from memoranda.standards.oms.profile import EXTENDED, SIZE_PROFILES, SizeProfile
from memoranda.standards.oms.registry import DEFAULT_NAMESPACE
from memoranda.standards.port import port_of
from memoranda.standards.ump import rules
from memoranda.storage.engine.contract import Unit

LIST_LIMIT = 500
BATCH_LIMIT = 200
# OMS §28.4: these say "I replace something", so they belong to `supersede`.
SUPERSESSION_FIELDS = ("supersession_justification", "supersession_auth", "invalidation_type")
CONSENT_BYTE = 0x0A
VERIFICATIONS = ("unverified", "verified", "contested", "retracted")


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a grain, and what its author may want to know."""

    address: str
    result: Literal["created", "exists", "superseded"]
    warnings: tuple[str, ...] = ()
    needs_review: bool = False


def with_defaults(context: Context, access: Access, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with the present moment, and the project the agent was started for, where they name none."""
    filled = {"created_at": context.clock(), **fields}
    if access.default_project and "namespace" not in filled:
        filled["namespace"] = access.default_project
    return filled


def put(context: Context, access: Access, given: Given, *, owner: str | None = None) -> Stored:
    """Add a grain that is the view of nothing else (`originals.put_grain`)."""
    now, tenant = context.clock(), tenant_of(access, owner)
    opened = open_given(
        context, given if isinstance(given, bytes) else authorship.attribute_grain(access, given)
    )
    _refuse_index_fields(opened.grain)
    implied = [name for name in SUPERSESSION_FIELDS if name in opened.grain.fields]
    if implied:
        raise GrainError(
            f"{implied[0]}: a grain that replaces another is written by supersede",
            oms_code="ERR_SCHEMA",
        )
    new = admitted(context, access, opened, tenant)

    def work(unit: Unit) -> Stored:
        authority.check(unit, opened.grain.fields, opened.signer, now=now)
        return write(context, access, unit, opened.grain, new, now)

    return _followed(context, tenant, new.projection, context.engine.write(tenant, work))


def _followed(context: Context, tenant: str, written: Projection, stored: Stored) -> Stored:
    """What became of a grain, after what a withdrawal of consent takes with it is gone."""
    if not written.withdraws:
        return stored
    return replace(
        stored, warnings=(*stored.warnings, *cascade.erase_withdrawn(context, tenant).warnings)
    )


def write(
    context: Context, access: Access, unit: Unit, grain: Grain, new: NewVersion, now: Instant
) -> Stored:
    """Write an admitted grain in a unit of work."""
    known = unit.find_by_name(oms.STANDARD, grain.address)
    if known is not None and not known.state.is_forgotten:
        stored = Stored(address=grain.address, result="exists")
    else:
        version = append(context, unit, new, now)
        unit.announce("created", version, now=now)
        waits = (
            f"the goal is active, but {each} is not satisfied"
            for each in authority.unmet(unit, grain.fields, now)
        )
        stored = Stored(
            address=grain.address, result="created", warnings=(*warnings_for(grain.fields), *waits)
        )
    unit.record_audit(
        audited(access, "put", now, (grain.address,), unit.tenant, grain.namespace, stored.result)
    )
    return stored


def get(context: Context, access: Access, address: str) -> StoredGrain:
    """One grain by its address."""
    now, address = context.clock(), _address(context, access, address)
    version, record = find_visible(context, access, address, now, standard=oms.STANDARD)
    if is_over(version.state, now) or would_be_cut(access, record):
        raise NotFound(f"no grain {address}")
    found = shown(context, version)
    entry = audited(
        access, "get", now, (address,), version.tenant, scope_of(record).get("project", ""), "ok"
    )
    context.audit_read(version.tenant, entry)
    return found


def release(context: Context, access: Access, address: str) -> StoredGrain:
    """One grain that is about to leave the store, whole or in part. Raises ConsentViolation if it has to stay."""
    address = _address(context, access, address)
    found = get(context, access, address)
    version, record = find_visible(context, access, address, context.clock(), standard=oms.STANDARD)
    why = compliance.find_export_refusal(context.presets_of(version.tenant), version)
    if why is None and record.get("consent", {}).get("exportable") is False:
        why = "consent: the memory is not exportable"
    if why is not None:
        raise ConsentViolation(why)
    return found


def _address(context: Context, access: Access, given: str) -> str:
    """The address that this, or what it begins with, is. Raises GrainError for what is none."""
    return codec.check_address(resolve_name(context, access, given, standard=oms.STANDARD))


def exists(context: Context, access: Access, address: str) -> bool:
    """Whether there is such a grain that the caller may see."""
    try:
        get(context, access, address)
    except NotFound:
        return False
    return True


def supersede(
    context: Context,
    access: Access,
    old_address: str,
    given: Given,
    *,
    justification: str | None = None,
) -> Stored:
    """Replace a grain, or a memory of any standard by its address: policy, write and index in one step."""
    now, old_address = context.clock(), _address(context, access, old_address)
    tenant = find_own(context, access, old_address, now, standard=oms.STANDARD).tenant
    if justification is not None:
        if isinstance(given, bytes):
            raise InvalidInput(
                "justification: a finished grain says it in supersession_justification itself"
            )
        given = {**given, "supersession_justification": justification}
    opened = open_given(
        context, given if isinstance(given, bytes) else authorship.attribute_grain(access, given)
    )
    _refuse_index_fields(opened.grain)
    successor = Successor(context, access, opened, tenant)

    def work(unit: Unit) -> Stored:
        prior = unit.find_by_name(oms.STANDARD, old_address)
        if prior is None or prior.state.erased:
            raise NotFound(f"no grain {old_address}")
        if not prior.state.is_head:
            raise Conflict(f"{old_address} is already superseded; supersede its successor")
        if prior.state.tombstoned is not None:
            raise Conflict(f"{old_address} was forgotten; put the new grain as a memory of its own")
        grain, decision = successor.replace(unit, prior, now)
        targets = (grain.address, old_address)
        unit.record_audit(
            audited(access, "supersede", now, targets, tenant, grain.namespace, decision.reason)
        )
        warnings = warnings_for(grain.fields)
        return Stored(
            address=grain.address,
            result="superseded",
            warnings=warnings,
            needs_review=decision.needs_review,
        )

    return _followed(context, tenant, successor.new.projection, context.engine.write(tenant, work))


class Successor:
    """A grain that is to replace another; made before the writer's turn, but for a policy that it inherits there."""

    def __init__(self, context: Context, access: Access, opened: Opened, tenant: str) -> None:
        self._context, self._access, self._opened = context, access, opened
        self.new = admitted(context, access, opened, tenant)

    def replace(self, unit: Unit, prior: Version, now: Instant) -> tuple[Grain, policy.Decision]:
        """Write it after a head, if the policy of that lets it; the caller puts it on record."""
        context, opened, new = self._context, self._opened, self.new
        signers = _valid_signers(context, prior, opened.grain)
        decision = check_supersession(
            unit, prior, opened.grain.fields, signer=opened.signer, valid_signers=signers, now=now
        )
        authority.check(unit, opened.grain.fields, opened.signer, now=now, prior=prior)
        authority.check_activation(unit, read_policy_fields(prior), opened.grain.fields, now)
        fresh = _with_inherited_policy(opened, prior, decision)
        if unit.find_by_name(oms.STANDARD, fresh.grain.address) is not None:
            raise Conflict(
                f"{fresh.grain.address} is already in the store; it cannot be made a successor"
            )
        if fresh is not opened:
            new = admitted(context, self._access, fresh, unit.tenant)
        version = append(context, unit, new, now, prior=prior, by_owner=not self._access.is_peer)
        unit.close_version(
            prior, successor=version, valid_to=handover(prior, new.projection.valid_from), now=now
        )
        if decision.needs_review:
            unit.flag_for_review(version, needs_review=True)
        unit.announce("revised", version, now=now)
        return fresh.grain, decision


def set_verification(
    context: Context,
    access: Access,
    address: str,
    status: str,
    *,
    reason: str = "",
    by: str | None = None,
) -> str:
    """Say what is known of a grain's truth. Contesting or retracting asks its policy first (OMS §23, Bypass 1)."""
    if status not in VERIFICATIONS:
        raise InvalidInput(f"status must be one of {', '.join(VERIFICATIONS)}")
    now, address = context.clock(), _address(context, access, address)
    by = None if by is None else resolve_name(context, access, by, standard=oms.STANDARD)
    tenant = find_own(context, access, address, now, standard=oms.STANDARD).tenant

    def work(unit: Unit) -> str:
        version = unit.find_by_name(oms.STANDARD, address)
        if version is None or version.state.erased:
            raise NotFound(f"no grain {address}")
        if status in ("contested", "retracted"):
            contradicting = (
                read_policy_fields(named)
                if by and (named := unit.find_by_name(oms.STANDARD, by))
                else {}
            )
            said = (
                {"supersession_justification": reason, **contradicting} if reason else contradicting
            )
            if check_supersession(unit, version, said, now=now).needs_review:
                unit.flag_for_review(version, needs_review=True)
        unit.set_verification(version, status, now=now)
        unit.record_audit(
            audited(access, "verification", now, (address,), tenant, "", status, {"reason": reason})
        )
        return status

    return context.engine.write(tenant, work)


def set_hold(
    context: Context, access: Access, address: str, *, held: bool, reason: str = ""
) -> bool:
    """Put a legal hold on a grain, or lift it (in the index: the grain itself cannot change)."""
    if access.is_peer:
        raise ForbiddenScope("only the owner may hold or release")
    now, address = context.clock(), _address(context, access, address)
    tenant = find_own(context, access, address, now, standard=oms.STANDARD).tenant

    def work(unit: Unit) -> bool:
        version = unit.find_by_name(oms.STANDARD, address)
        if version is None or version.state.erased:
            raise NotFound(f"no grain {address}")
        unit.set_hold(version, on_hold=held)
        if not held:
            lineage.finish_held_removal(context, unit, version.memory_id, now)
        result = "held" if held else "released"
        unit.record_audit(
            audited(access, "hold", now, (address,), tenant, "", result, {"reason": reason})
        )
        return held

    is_held = context.engine.write(tenant, work)
    if not is_held:
        # What it kept from a withdrawal of consent goes now.
        cascade.erase_withdrawn(context, tenant)
    return is_held


def erase(context: Context, access: Access, address: str, *, reason: str) -> None:
    """Compliance erasure of one grain; no general way to delete (OMS §28.4). Holds are honoured."""
    if not reason.strip():
        raise InvalidInput("reason: an erasure needs one; it goes into the audit log")
    now, address = context.clock(), _address(context, access, address)
    found = find_own(context, access, address, now, standard=oms.STANDARD)
    tenant = found.tenant
    access.require_erase(tenant)
    gone = lineage.plan_erasure(context, found, reason, now)

    def work(unit: Unit) -> None:
        version = unit.find_by_name(oms.STANDARD, address)
        if version is None or version.state.erased:
            raise NotFound(f"no grain {address}")
        lineage.remove_derived_of(unit, version.memory_id, tombstones=gone.derived, now=now)
        erase_version(unit, version, gone.own)
        unit.announce("tombstoned", version, now=now)
        unit.record_audit(
            audited(access, "erase", now, (address,), tenant, "", "erased", {"reason": reason})
        )

    context.engine.write(tenant, work)
    context.engine.scrub()


class UserErasure(msgspec.Struct, frozen=True, kw_only=True):
    """What the erasure of a user did. A held version keeps the user's key alive."""

    erased: int
    held: int
    key_destroyed: bool


def erase_user(
    context: Context, access: Access, user: str, *, reason: str, owner: str | None = None
) -> UserErasure:
    """Erase everything of a user, and destroy the user's key so that every copy of the database is erased too.

    The owner may, and the operator, who answers for the store to the law; either is on record with the reason.
    """
    if access.is_narrowed:
        raise ForbiddenScope("this credential is limited to a part of its owner's memory")
    if not access.is_operator:
        access.require_erase(access.tenant_for(owner))
    if not user or not reason.strip():
        raise InvalidInput("user and reason: both are needed; the reason goes into the audit log")
    tenant, now = tenant_of(access, owner), context.clock()
    erased, held = _erase_all(context, tenant, user, reason, now)
    destroyed = held == 0 and context.engine.destroy_user_key(tenant, user)
    if destroyed:
        # What was written in between went with the key; its words and links go now.
        erased += _erase_all(context, tenant, user, reason, now)[0]
    meta = {"reason": reason, "user": context.engine.fingerprint(tenant, user), "held": held}
    result = f"{erased} erased"
    context.engine.write(
        tenant,
        lambda unit: unit.record_audit(
            audited(access, "erase_user", now, (), tenant, "", result, meta)
        ),
    )
    context.engine.scrub()
    return UserErasure(erased=erased, held=held, key_destroyed=destroyed)


def _erase_all(
    context: Context, tenant: str, user: str, reason: str, now: Instant
) -> tuple[int, int]:
    """How many versions of a user were erased, and how many are held."""
    erased = held = after = 0
    while True:
        with context.engine.read(tenant) as snapshot:
            everything = Selection(status_filter="unerased", user=user)
            page = read_page(snapshot, everything, after=after, limit=BATCH_LIMIT, now=now)
            made = lineage.find_derived_memories(
                snapshot, sorted({version.memory_id for version in page})
            )
            theirs = lineage.create_tombstones(context, snapshot, made, now)
        if not page:
            return erased, held
        after = page[-1].version_id
        going = lineage.ErasurePlan(Tombstones(context, reason, now, page), theirs)
        gone, kept = context.engine.write(
            tenant, partial(_erase_page, page=page, made=made, going=going, now=now)
        )
        erased, held = erased + gone, held + kept


def _erase_page(
    unit: Unit, *, page: list[Version], made: list[int], going: lineage.ErasurePlan, now: Instant
) -> tuple[int, int]:
    gone = kept = 0
    for version in _with_later(unit, page):
        try:
            erase_version(unit, version, going.own)
        except GrainError:
            kept += 1
            continue
        unit.announce("tombstoned", version, now=now)
        gone += 1
    over = {version.memory_id for version in page}
    return gone + lineage.remove_derived(
        unit, made, gone=over, tombstones=going.derived, now=now
    ), kept


def _with_later(unit: Unit, page: list[Version]) -> list[Version]:
    """These versions and those that followed them, whomever they name: what binds a memory binds them."""
    first: dict[int, int] = {}
    for each in page:
        first.setdefault(each.memory_id, each.version_id)
    histories = (unit.iterate_history(memory_id) for memory_id in first)
    found = [
        each
        for history in histories
        for each in history
        if each.version_id >= first[each.memory_id]
    ]
    # What is on the page is in the index still, also when its key is gone and nothing of it can be read.
    named = {each.version_id for each in page}
    return [each for each in found if each.version_id in named or not each.state.erased]


def tenant_of(access: Access, owner: str | None) -> str:
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    return tenant


def _refuse_index_fields(grain: Grain) -> None:
    # OMS §5.6: what the index knows never enters a blob. Readers tolerate it; a writer is told.
    if found := sorted(INDEX_FIELDS & grain.fields.keys()):
        raise GrainError(
            f"{found[0]}: belongs to the index and cannot be in a grain", oms_code="ERR_SCHEMA"
        )


def admitted(
    context: Context, access: Access, opened: Opened, tenant: str, *, is_from_file: bool = False
) -> NewVersion:
    """The grain as it is written, if the caller's scope and the store's presets let it in."""
    grain, delivery = opened.grain, opened.delivery
    if context.grain_profile != EXTENDED.name:
        _check_profile(SIZE_PROFILES[context.grain_profile], grain)
    authorship.refuse_forged_author(access, grain.fields.get("author_did"), opened.signer)
    read = project_grain(grain, delivery, tenant, ump_version=context.ump_version)
    projection = replace(read, redacted=read.redacted or _shows_less(grain, tenant))
    scope = {"owner": tenant, "visibility": projection.scope.visibility}
    if projection.scope.space:
        scope["project"] = projection.scope.space
    access.require_scope(scope)
    if grain.type_byte == CONSENT_BYTE and access.is_peer:
        raise ForbiddenScope("only the owner may write consent")
    is_encrypted = context.encrypts_users and (context.encrypts_all or bool(projection.scope.user))
    compliance.check_write(context.presets_of(tenant), grain.fields, is_encrypted=is_encrypted)
    media_type = oms.MEDIA_TYPE if delivery == grain.blob else oms.SIGNED_MEDIA_TYPE
    document = Document(
        standard=oms.STANDARD, media_type=media_type, name=grain.address, native=delivery
    )
    new = prepare(context, document, projection, grain=grain)
    return authorship.with_writer(
        context, access, new, signer=opened.signer, is_from_file=is_from_file
    )


def _check_profile(profile: SizeProfile, grain: Grain) -> None:
    """Raise TooLarge or GrainError if the devices that are to read a grain could not."""
    profile.check_fields(grain.fields)
    codec.decode(grain.blob, profile=profile)


def _shows_less(grain: Grain, tenant: str) -> bool:
    """Whether it carries a record of this owner that others may see only in part."""
    inner = oms.unwrap(grain)
    try:
        record = None if inner is None else port_of(inner.standard).record(inner)
        if record is None:
            return False
        return bool(record["scope"]["owner"] == tenant and rules.redact(record)[1])
    except (MemorandaError, LookupError, TypeError):
        # Anybody may have put it there; what is no record hides nothing.
        return False


def append(
    context: Context,
    unit: Unit,
    new: NewVersion,
    now: Instant,
    *,
    prior: Version | None = None,
    by_owner: bool = True,
) -> Version:
    """Append an admitted grain; the caller announces it and puts it on record."""
    cascade.check_basis(context, unit, new.document, new.projection, now)
    cascade.note_withdrawal(unit, new.projection)
    read = new.projection
    if read.valid_from > now and read.valid_from == read.created:
        # It does not say that it is true later, and a clock that is ahead does not keep it from being true now.
        new = replace(new, projection=replace(read, valid_from=now))
    if prior is None:
        return new.append(unit, now=now)
    return append_next(context, unit, prior, new, now=now, by_owner=by_owner)


def _valid_signers(context: Context, prior: Version, grain: Grain) -> frozenset[str]:
    """Whose endorsements of this replacement hold; they count only if the grain says what it replaces."""
    auth = grain.fields.get("supersession_auth")
    protecting = read_policy_fields(prior).get("invalidation_policy")
    if not auth or not isinstance(protecting, Mapping):
        return frozenset()
    if prior.document.name not in grain.fields.get("derived_from", ()):
        return frozenset()
    payload = signature.endorsement_payload(
        grain.fields, cbor=grain.header.is_cbor, type_byte=grain.type_byte
    )
    authorized = [did for did in protecting.get("authorized", ()) if isinstance(did, str)]
    return signature.quorum_signers(auth, payload, authorized, context.did_documents)


def _with_inherited_policy(opened: Opened, prior: Version, decision: policy.Decision) -> Opened:
    """OMS §23.5: what follows a protected goal stands under its policy."""
    inherited = read_policy_fields(prior).get("invalidation_policy")
    if not decision.inherits_policy or inherited is None:
        return opened
    if opened.grain.fields.get("invalidation_policy") == inherited:
        return opened
    if opened.delivery != opened.grain.blob:
        raise GrainError(
            "invalidation_policy: the new grain must carry the policy it inherits",
            oms_code="ERR_SCHEMA",
        )
    fields = {**opened.grain.fields, "invalidation_policy": inherited}
    grain = codec.encode(fields, cbor=opened.grain.header.is_cbor, default_namespace=None)
    return replace(opened, grain=grain, delivery=grain.blob)


def space_of(namespace: str) -> str:
    return "" if namespace == DEFAULT_NAMESPACE else namespace


def audited(
    access: Access,
    op: str,
    now: Instant,
    targets: tuple[str, ...],
    tenant: str,
    namespace: str,
    result: str,
    meta: Mapping[str, object] | None = None,
) -> Any:
    scope = {"owner": tenant, **({"project": namespace} if namespace else {})}
    return audit_entry(
        access, f"oms.{op}", now=now, targets=targets, scope=scope, result=result, meta=meta
    )
