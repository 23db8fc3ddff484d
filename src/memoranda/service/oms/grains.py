"""Grains: the store protocol of OMS §28.4 at Level 3.

A grain is a version like any other. The state of its index entry (superseded, verified, on hold) never enters the blob.
`put_grain` adds a grain, `supersede` replaces one in a single transaction under its invalidation policy, and `erase` is
for compliance alone.

A grain is checked and encoded before the writer is needed (`admit`); the unit of work checks only what depends on
the state of the store (`authority.check`, `check_supersession`).

Signed grains cannot be changed, so everything that the store adds (verdicts, holds, supersession) is state beside them.
Rights of authors (delegations) are checked in `authority.py`, policies in `core/protection.py`; both need the store and
therefore run inside the unit.

Erasing has three widths: one grain, a memory with its history, and a person. All three leave signed tombstones, remove
what was derived, and end with `engine.scrub`.
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
from memoranda.model.memory import AuditEntry, Document, Projection, Version, has_ended, is_over
from memoranda.model.oms_names import check_address
from memoranda.model.selection import Selection
from memoranda.service.core import authorship, cascade, compliance, lineage
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.indexing import NewVersion, prepare
from memoranda.service.core.lifecycle import Tombstones, append_next, erase_version
from memoranda.service.core.lookup import find_own, find_visible, resolve_name
from memoranda.service.core.memory_line import erase_line
from memoranda.service.core.protection import check_supersession, read_policy_fields
from memoranda.service.core.views import scope_of
from memoranda.service.oms import authority
from memoranda.service.oms.views import (
    GrainInput,
    OpenedGrain,
    StoredGrain,
    needs_redaction,
    open_grain_input,
    to_stored_grain,
)
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
from memoranda.standards.oms.requests import ErasureScope
from memoranda.standards.port import port_of
from memoranda.standards.ump import rules
from memoranda.storage.engine.contract import Unit

# Grains per page of a list.
LIST_LIMIT = 500
# Versions erased per transaction: more would hold the writer too long.
BATCH_LIMIT = 200
# OMS §28.4: fields of a grain that replaces another one, which only `supersede` may write.
SUPERSESSION_FIELDS = ("supersession_justification", "supersession_auth", "invalidation_type")
CONSENT_BYTE = 0x0A
VERIFICATIONS = ("unverified", "verified", "contested", "retracted")


class GrainResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a write, with warnings for its author."""

    address: str
    result: Literal["created", "exists", "superseded"]
    warnings: tuple[str, ...] = ()
    needs_review: bool = False


def with_defaults(context: Context, access: Access, fields: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields with the current time, and the project that the agent was started for, as defaults."""
    filled = {"created_at": context.clock(), **fields}
    if access.default_project and "namespace" not in filled:
        filled["namespace"] = access.default_project
    return filled


def put(
    context: Context, access: Access, grain_input: GrainInput, *, owner: str | None = None
) -> GrainResult:
    """Add a grain that is no view of another document; `unwrap.put_grain` handles views.

    Adding the same grain again answers "exists". A grain that names what it supersedes must use `supersede`.
    """
    now, tenant = context.clock(), resolve_tenant(access, owner)
    if not isinstance(grain_input, bytes):
        grain_input = authorship.attribute_grain(access, grain_input)
    opened_grain = open_grain_input(context, grain_input)
    _refuse_index_fields(opened_grain.grain)
    implied = [name for name in SUPERSESSION_FIELDS if name in opened_grain.grain.fields]
    if implied:
        raise GrainError(
            f"{implied[0]}: a grain that replaces another one is written by supersede",
            oms_code="ERR_SCHEMA",
        )
    new_version = admit(context, access, opened_grain, tenant)

    def work(unit: Unit) -> GrainResult:
        authority.check(unit, opened_grain.grain.fields, opened_grain.signer, now=now)
        return write_grain(context, access, unit, opened_grain.grain, new_version, now)

    return _finish_withdrawal(
        context, tenant, new_version.projection, context.engine.write(tenant, work)
    )


def _finish_withdrawal(
    context: Context, tenant: str, projection: Projection, result: GrainResult
) -> GrainResult:
    """Erase what rests on a consent that the written grain withdraws, and return the result with the warnings."""
    if not projection.withdraws:
        return result
    return replace(
        result, warnings=(*result.warnings, *cascade.erase_withdrawn(context, tenant).warnings)
    )


def write_grain(
    context: Context,
    access: Access,
    unit: Unit,
    grain: Grain,
    new_version: NewVersion,
    now: Instant,
) -> GrainResult:
    """Write an admitted grain in a unit of work."""
    existing = unit.find_by_name(oms.STANDARD, grain.address)
    if existing is not None and not existing.state.is_forgotten:
        result = GrainResult(address=grain.address, result="exists")
    else:
        version = append_grain(context, unit, new_version, now)
        unit.announce("created", version, now=now)
        unmet_warnings = (
            f"the goal is active, but {goal} is not satisfied"
            for goal in authority.find_unmet_goals(unit, grain.fields, now)
        )
        result = GrainResult(
            address=grain.address,
            result="created",
            warnings=(*warnings_for(grain.fields), *unmet_warnings),
        )
    unit.record_audit(
        build_audit_entry(
            access,
            "put",
            now,
            audit_scope(unit.tenant, grain.namespace),
            (grain.address,),
            result.result,
        )
    )
    return result


def get(context: Context, access: Access, address: str) -> StoredGrain:
    """Return the grain with an address, or with a unique beginning of one. Raises NotFound."""
    now, address = context.clock(), _resolve_address(context, access, address)
    version, record = find_visible(context, access, address, now, standard=oms.STANDARD)
    if is_over(version.state, now) or needs_redaction(access, record):
        raise NotFound(f"no grain {address}")
    stored_grain = to_stored_grain(context, version)
    entry = build_audit_entry(
        access,
        "get",
        now,
        audit_scope(version.tenant, scope_of(record).get("project", "")),
        (address,),
        "ok",
    )
    context.audit_read(version.tenant, entry)
    return stored_grain


def release(context: Context, access: Access, address: str) -> StoredGrain:
    """Return a grain that is about to leave the store. Raises ConsentViolation if it may not."""
    address = _resolve_address(context, access, address)
    stored_grain = get(context, access, address)
    version, record = find_visible(context, access, address, context.clock(), standard=oms.STANDARD)
    refusal = compliance.find_export_refusal(context.presets_of(version.tenant), version)
    if refusal is None and record.get("consent", {}).get("exportable") is False:
        refusal = "consent: the memory is not exportable"
    if refusal is not None:
        raise ConsentViolation(refusal)
    return stored_grain


def _resolve_address(context: Context, access: Access, grain_input: str) -> str:
    """Return the complete address for a beginning of one. Raises GrainError for a malformed address."""
    return check_address(resolve_name(context, access, grain_input, standard=oms.STANDARD))


def exists(context: Context, access: Access, address: str) -> bool:
    """Return True if there is such a grain and the caller may see it."""
    try:
        get(context, access, address)
    except NotFound:
        return False
    return True


def supersede(
    context: Context,
    access: Access,
    old_address: str,
    grain_input: GrainInput,
    *,
    justification: str | None = None,
) -> GrainResult:
    """Replace a grain, or a memory of any standard by its address, under its policy and in one transaction.

    `old_address` may be abbreviated. `justification` goes into the new grain, which therefore cannot be encoded
    already. Raises GrainError if the policy or a hold forbids it, and Conflict if the grain was superseded already.
    """
    now, old_address = context.clock(), _resolve_address(context, access, old_address)
    tenant = find_own(context, access, old_address, now, standard=oms.STANDARD).tenant
    if justification is not None:
        if isinstance(grain_input, bytes):
            raise InvalidInput(
                "justification: an encoded grain states it in its own field supersession_justification"
            )
        grain_input = {**grain_input, "supersession_justification": justification}
    if not isinstance(grain_input, bytes):
        grain_input = authorship.attribute_grain(access, grain_input)
    opened_grain = open_grain_input(context, grain_input)
    _refuse_index_fields(opened_grain.grain)
    successor = Successor(context, access, opened_grain, tenant)

    def work(unit: Unit) -> GrainResult:
        prior = unit.find_by_name(oms.STANDARD, old_address)
        if prior is None or has_ended(prior.state, now):
            raise NotFound(f"no grain {old_address}")
        if not prior.state.is_head:
            raise Conflict(f"{old_address} is already superseded; supersede its successor")
        if prior.state.tombstoned is not None:
            raise Conflict(f"{old_address} was forgotten; put the new grain as a new memory")
        grain, decision = successor.replace(unit, prior, now)
        targets = (grain.address, old_address)
        unit.record_audit(
            build_audit_entry(
                access,
                "supersede",
                now,
                audit_scope(tenant, grain.namespace),
                targets,
                decision.reason,
            )
        )
        warnings = warnings_for(grain.fields)
        return GrainResult(
            address=grain.address,
            result="superseded",
            warnings=warnings,
            needs_review=decision.needs_review,
        )

    return _finish_withdrawal(
        context, tenant, successor.new.projection, context.engine.write(tenant, work)
    )


class Successor:
    """A grain that replaces another one. It is encoded before the writer is needed, unless it inherits a policy."""

    def __init__(
        self,
        context: Context,
        access: Access,
        opened_grain: OpenedGrain,
        tenant: str,
        *,
        may_widen: bool = True,
    ) -> None:
        """Check and encode the grain. `may_widen`: an owner may show it to more people than the grain it replaces."""
        self._context, self._access, self._opened_grain = context, access, opened_grain
        self._may_widen = may_widen and not access.is_peer
        self.new = admit(context, access, opened_grain, tenant)

    def replace(self, unit: Unit, prior: Version, now: Instant) -> tuple[Grain, policy.Decision]:
        """Append the grain to a head, if the head's policy allows it; the caller records it in the audit log.

        Raises Conflict if the new grain is in the store already: a grain cannot be the successor of two.
        """
        context, opened_grain, new_version = self._context, self._opened_grain, self.new
        signers = _valid_signers(context, prior, opened_grain.grain)
        decision = check_supersession(
            unit,
            prior,
            opened_grain.grain.fields,
            signer=opened_grain.signer,
            valid_signers=signers,
            now=now,
        )
        authority.check(unit, opened_grain.grain.fields, opened_grain.signer, now=now, prior=prior)
        authority.check_activation(unit, read_policy_fields(prior), opened_grain.grain.fields, now)
        fresh = _with_inherited_policy(opened_grain, prior, decision)
        if unit.find_by_name(oms.STANDARD, fresh.grain.address) is not None:
            raise Conflict(
                f"{fresh.grain.address} is already in the store; it cannot become the successor"
            )
        if fresh is not opened_grain:
            new_version = admit(context, self._access, fresh, unit.tenant)
        version = append_grain(
            context, unit, new_version, now, prior=prior, by_owner=self._may_widen
        )
        unit.close_version(
            prior,
            successor=version,
            valid_to=handover(prior, new_version.projection.valid_from),
            now=now,
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
    """Set the verification status of a grain.

    Its invalidation policy decides whether it may be contested or retracted (OMS §23, Bypass 1). `by`: the grain that
    contradicts it.
    """
    if status not in VERIFICATIONS:
        raise InvalidInput(f"status must be one of {', '.join(VERIFICATIONS)}")
    now, address = context.clock(), _resolve_address(context, access, address)
    by = None if by is None else resolve_name(context, access, by, standard=oms.STANDARD)
    tenant = find_own(context, access, address, now, standard=oms.STANDARD).tenant

    def work(unit: Unit) -> str:
        version = unit.find_by_name(oms.STANDARD, address)
        if version is None or version.state.erased:
            raise NotFound(f"no grain {address}")
        if status in ("contested", "retracted"):
            contradicting = (
                read_policy_fields(contradicting_version)
                if by and (contradicting_version := unit.find_by_name(oms.STANDARD, by))
                else {}
            )
            fields = (
                {"supersession_justification": reason, **contradicting} if reason else contradicting
            )
            if check_supersession(unit, version, fields, now=now).needs_review:
                unit.flag_for_review(version, needs_review=True)
        unit.set_verification(version, status, now=now)
        unit.record_audit(
            build_audit_entry(
                access,
                "verification",
                now,
                audit_scope(tenant),
                (address,),
                status,
                {"reason": reason},
            )
        )
        return status

    return context.engine.write(tenant, work)


def set_hold(
    context: Context, access: Access, address: str, *, held: bool, reason: str = ""
) -> bool:
    """Set or lift a legal hold on a grain. The hold is state of the index; the grain itself never changes.

    Raises ForbiddenScope for anyone but the owner, and NotFound for an unknown or erased grain.
    """
    if access.is_peer:
        raise ForbiddenScope("only the owner may hold or release")
    now, address = context.clock(), _resolve_address(context, access, address)
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
            build_audit_entry(
                access, "hold", now, audit_scope(tenant), (address,), result, {"reason": reason}
            )
        )
        return held

    is_held = context.engine.write(tenant, work)
    if not is_held:
        # The hold may have postponed the erasure after a withdrawn consent.
        cascade.erase_withdrawn(context, tenant)
    return is_held


def erase(
    context: Context,
    access: Access,
    address: str,
    *,
    reason: str,
    scope: ErasureScope = "memory",
) -> None:
    """Erase a memory, or one grain alone, for compliance; OMS §28.4 has no general deletion. A hold forbids it.

    `scope` is `memory` for the grain with all the versions before it, and `grain` for this one version.
    """
    if not reason.strip():
        raise InvalidInput("reason: an erasure needs a reason, which goes into the audit log")
    now, address = context.clock(), _resolve_address(context, access, address)
    target = find_own(context, access, address, now, standard=oms.STANDARD)
    tenant = target.tenant
    access.require_erase(tenant)
    plan = lineage.plan_erasure(context, target, reason, now)

    def work(unit: Unit) -> None:
        version = unit.find_by_name(oms.STANDARD, address)
        if version is None or version.state.erased:
            raise NotFound(f"no grain {address}")
        lineage.remove_derived_of(unit, version.memory_id, tombstones=plan.derived, now=now)
        if scope == "grain":
            erase_version(unit, version, plan.own)
        else:
            erase_line(unit, version, plan.own)
        unit.announce("tombstoned", version, now=now)
        unit.record_audit(
            build_audit_entry(
                access,
                "erase",
                now,
                audit_scope(tenant),
                (address,),
                "erased",
                {"reason": reason},
            )
        )

    context.engine.write(tenant, work)
    context.engine.scrub()


class UserErasure(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the erasure of a user. A version on hold keeps the user's key alive."""

    erased: int
    held: int
    key_destroyed: bool


def erase_user(
    context: Context, access: Access, user: str, *, reason: str, owner: str | None = None
) -> UserErasure:
    """Erase all memories of a user, and destroy the user's key, which makes every copy of the database unreadable.

    The owner may do this, and the operator, who is responsible for the store by law. The audit log has the reason.

    Works in pages, so other writers get their turn. If a version is on hold, the key stays, because destroying it would
    erase that version as well.
    """
    if access.is_narrowed:
        raise ForbiddenScope("this credential is limited to a part of its owner's memory")
    if not access.is_operator:
        access.require_erase(access.tenant_for(owner))
    if not user or not reason.strip():
        raise InvalidInput("user and reason: both are needed; the reason goes into the audit log")
    tenant, now = resolve_tenant(access, owner), context.clock()
    erased, on_hold = _erase_versions(context, tenant, user, reason, now)
    destroyed = on_hold == 0 and context.engine.destroy_user_key(tenant, user)
    if destroyed:
        # Memories written meanwhile lost their key; this erases their index entries and links.
        erased += _erase_versions(context, tenant, user, reason, now)[0]
    meta = {"reason": reason, "user": context.engine.fingerprint(tenant, user), "held": on_hold}
    result = f"{erased} erased"
    context.engine.write(
        tenant,
        lambda unit: unit.record_audit(
            build_audit_entry(access, "erase_user", now, audit_scope(tenant), (), result, meta)
        ),
    )
    context.engine.scrub()
    return UserErasure(erased=erased, held=on_hold, key_destroyed=destroyed)


def _erase_versions(
    context: Context, tenant: str, user: str, reason: str, now: Instant
) -> tuple[int, int]:
    """Erase the versions of a user page by page, and return the numbers of erased and of held ones."""
    erased = on_hold = after = 0
    while True:
        with context.engine.open_snapshot(tenant) as snapshot:
            everything = Selection(status_filter="unerased", user=user)
            page = read_page(snapshot, everything, after=after, limit=BATCH_LIMIT, now=now)
            derived_ids = lineage.find_derived_memories(
                snapshot, sorted({version.memory_id for version in page})
            )
            derived_tombstones = lineage.create_tombstones(context, snapshot, derived_ids, now)
        if not page:
            return erased, on_hold
        after = page[-1].version_id
        plan = lineage.ErasurePlan(Tombstones(context, reason, now, page), derived_tombstones)
        page_erased, page_on_hold = context.engine.write(
            tenant, partial(_erase_page, page=page, derived_ids=derived_ids, plan=plan, now=now)
        )
        erased, on_hold = erased + page_erased, on_hold + page_on_hold


def _erase_page(
    unit: Unit,
    *,
    page: list[Version],
    derived_ids: list[int],
    plan: lineage.ErasurePlan,
    now: Instant,
) -> tuple[int, int]:
    """Erase the versions of a page, and return the numbers of erased and of held ones."""
    erased = on_hold = 0
    for version in _include_lines(unit, page):
        try:
            erase_version(unit, version, plan.own)
        except GrainError:
            on_hold += 1
            continue
        unit.announce("tombstoned", version, now=now)
        erased += 1
    memory_ids = {version.memory_id for version in page}
    return erased + lineage.remove_derived(
        unit, derived_ids, gone=memory_ids, tombstones=plan.derived, now=now
    ), on_hold


def _include_lines(unit: Unit, page: list[Version]) -> list[Version]:
    """Return all versions of the memories of a page: a memory belongs to a user if one of its versions does."""
    memory_ids = dict.fromkeys(version.memory_id for version in page)
    versions = [version for memory_id in memory_ids for version in unit.iterate_history(memory_id)]
    # The versions of the page are in the index even if their key is gone and they are unreadable.
    page_ids = {version.version_id for version in page}
    return [
        version
        for version in versions
        if version.version_id in page_ids or not version.state.erased
    ]


def resolve_tenant(access: Access, owner: str | None) -> str:
    """Return the tenant of an owner, by default the caller's own. Raises ForbiddenScope if it is out of reach."""
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    return tenant


def _refuse_index_fields(grain: Grain) -> None:
    """Raise GrainError for fields that belong to the index (OMS §5.6). Readers tolerate them."""
    if index_fields := sorted(INDEX_FIELDS & grain.fields.keys()):
        raise GrainError(
            f"{index_fields[0]}: belongs to the index and cannot be a field of a grain",
            oms_code="ERR_SCHEMA",
        )


def admit(
    context: Context,
    access: Access,
    opened_grain: OpenedGrain,
    tenant: str,
    *,
    is_from_file: bool = False,
) -> NewVersion:
    """Return the version of a grain, if the caller's scope and the store's compliance presets allow it.

    Raises ForbiddenScope, TooLarge, GrainError and the errors of the presets.

    Pure but for settings: no store is read.
    """
    grain, delivery = opened_grain.grain, opened_grain.delivery
    if context.grain_profile != EXTENDED.name:
        _check_profile(SIZE_PROFILES[context.grain_profile], grain)
    authorship.refuse_forged_author(access, grain.fields.get("author_did"), opened_grain.signer)
    projected = project_grain(grain, delivery, tenant, ump_version=context.ump_version)
    projection = replace(
        projected, redacted=projected.redacted or _hides_part_of_record(grain, tenant)
    )
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
    new_version = prepare(context, document, projection, grain=grain)
    return authorship.with_writer(
        context, access, new_version, signer=opened_grain.signer, is_from_file=is_from_file
    )


def _check_profile(profile: SizeProfile, grain: Grain) -> None:
    """Raise TooLarge or GrainError if a grain exceeds the size profile of the devices that will read it."""
    profile.check_fields(grain.fields)
    codec.decode(grain.blob, profile=profile)


def _hides_part_of_record(grain: Grain, tenant: str) -> bool:
    """Return True if a grain carries a record of this owner that is partly hidden from others."""
    inner = oms.unwrap(grain)
    try:
        record = None if inner is None else port_of(inner.standard).record(inner)
        if record is None:
            return False
        return bool(record["scope"]["owner"] == tenant and rules.redact(record)[1])
    except (MemorandaError, LookupError, TypeError):
        # The embedded document is untrusted; a malformed record hides nothing.
        return False


def append_grain(
    context: Context,
    unit: Unit,
    new_version: NewVersion,
    now: Instant,
    *,
    prior: Version | None = None,
    by_owner: bool = True,
) -> Version:
    """Append an admitted grain; the caller announces it and records it in the audit log."""
    cascade.check_basis(context, unit, new_version.document, new_version.projection, now)
    cascade.note_withdrawal(unit, new_version.projection)
    projection = new_version.projection
    if projection.valid_from > now and projection.valid_from == projection.created:
        # Its start is its creation time, and the client's clock is ahead: it is valid from now.
        new_version = replace(new_version, projection=replace(projection, valid_from=now))
    if prior is None:
        return new_version.append(unit, now=now)
    return append_next(context, unit, prior, new_version, now=now, by_owner=by_owner)


def _valid_signers(context: Context, prior: Version, grain: Grain) -> frozenset[str]:
    """Return the signers whose endorsements of a replacement are valid; the grain must name what it replaces."""
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


def _with_inherited_policy(
    opened_grain: OpenedGrain, prior: Version, decision: policy.Decision
) -> OpenedGrain:
    """Return the grain with the policy of the protected goal that it follows (OMS §23.5). Raises GrainError."""
    inherited = read_policy_fields(prior).get("invalidation_policy")
    if not decision.inherits_policy or inherited is None:
        return opened_grain
    if opened_grain.grain.fields.get("invalidation_policy") == inherited:
        return opened_grain
    if opened_grain.delivery != opened_grain.grain.blob:
        raise GrainError(
            "invalidation_policy: the new grain must carry the policy it inherits",
            oms_code="ERR_SCHEMA",
        )
    fields = {**opened_grain.grain.fields, "invalidation_policy": inherited}
    grain = codec.encode(fields, cbor=opened_grain.grain.header.is_cbor, default_namespace=None)
    return replace(opened_grain, grain=grain, delivery=grain.blob)


def space_of(namespace: str) -> str:
    """Return the space of a namespace; the default namespace is the empty space."""
    return "" if namespace == DEFAULT_NAMESPACE else namespace


def audit_scope(tenant: str, namespace: str = "") -> dict[str, str]:
    """Return the scope of an audit entry: the owner, and the namespace as the project if there is one."""
    return {"owner": tenant, **({"project": namespace} if namespace else {})}


def build_audit_entry(
    access: Access,
    op: str,
    now: Instant,
    scope: dict[str, str],
    targets: tuple[str, ...],
    result: str,
    meta: Mapping[str, object] | None = None,
) -> AuditEntry:
    """Return the audit entry of an operation on grains."""
    return audit_entry(
        access, f"oms.{op}", now=now, targets=targets, scope=scope, result=result, meta=meta
    )
