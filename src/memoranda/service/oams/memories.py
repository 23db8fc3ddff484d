"""The operations STORE, BATCH_STORE, GET and FORGET of OAMS 0.1, with namespaces as access control.

A memory under a key is a memory of the store: each STORE with different content appends a version, and the key names
the head, also after a revision through another standard. Memories of other standards appear in the namespace of their
space, under the name of their first version.

A write has three steps, of which only the last needs the writer: `accept` checks a memory and builds its first version,
`prepare_next` compares it with the head and builds the next version, `write_next` appends what was prepared, or builds
it again if the head has changed meanwhile.

Which memory does a key mean? First the stored name of the key (a keyed fingerprint); if nothing current has it, a
memory of another standard that OAMS shows under this key (`find_foreign_head`). All writes go through `write_next`, so
that a condition (`If-Match`), the supersession policy, the expiry and the scope of a token are checked in the same unit
that writes.

Batches and imports read all heads at once (`HeadLookup`), because a query for each memory would be most of the work. A
head that was found before the unit is used only if nothing has changed since; everything else is built again inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import dump
from memoranda.errors import (
    CrossNamespace,
    ForbiddenScope,
    InvalidInput,
    MemorandaError,
    MemoryNotFound,
    StoreCorrupt,
    VersionMismatch,
)
from memoranda.model.instant import Instant
from memoranda.model.memory import NATIVE_KEY, Document, Projection, Version
from memoranda.service.core import authorship, cascade, compliance
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import NewVersion, prepare, with_bounds
from memoranda.service.core.lifecycle import follow, inherit_bounds
from memoranda.service.core.lineage import remove_derived_of
from memoranda.service.core.memory_line import forget_line, get_time_forgotten
from memoranda.service.core.protection import check_supersession
from memoranda.service.core.secret_screening import screen_fields
from memoranda.service.core.views import is_intact, project
from memoranda.service.oams.views import (
    Location,
    TaggedMemory,
    build_audit_entry,
    compute_etag,
    find_foreign_head,
    may_see,
    render,
    render_for_reader,
    require_namespace,
    standard_of_key,
)
from memoranda.service.retrieve import sees_everything
from memoranda.service.ump.revise import handover
from memoranda.standards.oams import mapping, memory
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.namespace import (
    Namespace,
    adapt_namespace,
    is_foreign_namespace,
    namespace_of,
    owner_hash,
    parse_namespace,
    read_namespace,
    space_of,
)
from memoranda.standards.oams.port import is_signed, original_of, project_memory, rules_of_memory
from memoranda.storage.engine.contract import Snapshot, Unit
from memoranda.storage.index.word_index import load_builder

# Fields with free text, which may hold a secret.
_SCREENED_FIELDS: Final[tuple[str, ...]] = ("value", "tags", "metadata", "source_id")
# Memories per BATCH_STORE, which is one transaction: more would hold the writer too long.
BATCH_LIMIT: Final = 10_000


class StoreResult(TaggedMemory, frozen=True, kw_only=True):
    """The outcome of a STORE: the memory, and `created`, `updated` or `unchanged`."""

    result: str
    warnings: tuple[str, ...] = ()


class AcceptedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that passed every check, with its location and the version to write.

    `prepared` holds the prior version, the version to write and the result, if they were computed before the unit.
    `bearer` is the caller, if a memory that is there already must be visible to him.
    """

    location: Location
    memory: Memory
    warnings: tuple[str, ...]
    # The first version, and its result: used if there is no memory under the key.
    new: NewVersion
    stored: StoreResult
    # The head that was compared, the version to append (None: no change), and the result.
    prepared: tuple[Version, NewVersion | None, StoreResult] | None = None
    # The caller, if it may not see all memories: it must not overwrite a memory that it cannot see.
    bearer: Access | None = None
    # True if the caller may erase. An earlier expiry erases a memory, with all of its versions.
    may_erase: bool = True


def locate_namespace(
    access: Access, namespace: Namespace, *, tenant: str | None = None
) -> Location:
    """Return the location of a namespace. Raises CrossNamespace if it is out of the caller's reach."""
    owner = tenant or access.default_tenant
    namespace = adapt_namespace(namespace, owner)
    space = space_of(namespace, owner)
    try:
        access.require_reach(owner)
        # Limits of a token on agents and visibility are checked per memory.
        access.require_scope({**access.limits, "owner": owner, "project": space or None})
    except ForbiddenScope as error:
        raise CrossNamespace(error.message) from None
    user = "" if namespace.owner == owner_hash(owner) else namespace.owner
    return Location(namespace=str(namespace), user=user, tenant=owner, space=space)


def resolve_namespace(_: Context, access: Access, name: str | None = None) -> Namespace:
    """Return the namespace of a full name, or of a scope of the caller's own; without a name, the default one."""
    tenant = access.default_tenant
    if name is not None:
        namespace = read_namespace(name if ":" in name else f"{owner_hash(tenant)}:{name}")
        return adapt_namespace(namespace, tenant)
    return parse_namespace(
        namespace_of(access.limits.get("project") or access.default_project or "", tenant)
    )


class StoreCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on the current version under a key, without which nothing is written.

    `if_match` is the value of the header: one or more entity tags, or `*`.
    """

    # An `If-Match` header: the current version must have one of its entity tags, or exist at all for `*`.
    if_match: str | None = None
    # There must be no memory under the key.
    if_absent: bool = False

    def check(self, etag: str | None) -> None:
        """Raise VersionMismatch unless the condition holds. `etag` is the current version's; None if there is none."""
        if self.if_absent and etag is not None:
            raise VersionMismatch("a memory is stored under this key already")
        if self.if_match is None:
            return
        tags = [tag.strip().removeprefix("W/").strip('"') for tag in self.if_match.split(",")]
        if etag is None or (self.if_match != "*" and etag not in tags):
            raise VersionMismatch("the memory has changed since; read it again")


UNCONDITIONAL: Final = StoreCondition()


# --- store ---------------------------------------------------------------------------------------------------


def store(
    context: Context,
    access: Access,
    value: object,
    *,
    if_match: str | None = None,
    if_absent: bool = False,
) -> StoreResult:
    """Write a new memory, or the next version of one; nothing if the content is unchanged.

    Raises VersionMismatch if the condition fails, CrossNamespace outside of the caller's scope, and what `accept`
    raises. An unchanged memory writes nothing, not even a new time.
    """
    now, condition = context.clock(), StoreCondition(if_match=if_match, if_absent=if_absent)
    accepted = accept(context, access, value, now=now)
    location, key = accepted.location, accepted.memory["key"]

    def write(unit: Unit, accepted: AcceptedMemory, prior: Version | None) -> StoreResult:
        result = write_next(context, unit, accepted, prior, now, condition=condition)
        unit.record_audit(
            build_audit_entry(access, "store", now, location, (result.etag,), result.result)
        )
        return result

    def write_if_new(unit: Unit) -> StoreResult | None:
        has_head = find_head(context, unit, location, key, or_retracted=True) is not None
        return None if has_head else write(unit, accepted, None)

    result = context.engine.write(location.tenant, write_if_new)
    if result is None:
        # The next version is compared and built before the writer is needed.
        with context.engine.open_snapshot(location.tenant) as snapshot:
            prior = find_head(context, snapshot, location, key, or_retracted=True)
            prepared_next = prepare_next(context, snapshot, accepted, prior, now)
        result = context.engine.write(
            location.tenant,
            lambda unit: write(
                unit, prepared_next, find_head(context, unit, location, key, or_retracted=True)
            ),
        )
    finish_withdrawals(context, [accepted])
    return result


def finish_withdrawals(context: Context, batch: Sequence[AcceptedMemory]) -> None:
    """Erase what rested on a withdrawn consent, if a memory is the view of a grain that withdraws one."""
    if any(NATIVE_KEY in memory.metadata_of(accepted.memory) for accepted in batch):
        cascade.erase_withdrawn(context, batch[0].location.tenant)


def batch_store(context: Context, access: Access, values: Sequence[object]) -> list[StoreResult]:
    """Write many memories in one transaction: all or none.

    Raises InvalidInput for an empty or too large batch; the error of an invalid memory names its number.
    """
    if not 1 <= len(values) <= BATCH_LIMIT:
        raise InvalidInput(f"memories: a batch has from 1 to {BATCH_LIMIT} memories")
    now = context.clock()
    accepted: list[AcceptedMemory] = []
    for number, value in enumerate(values):
        try:
            accepted.append(accept(context, access, value, now=now))
        except InvalidInput as error:
            raise type(error)(f"memories[{number}]: {error.message}") from None

    with context.engine.open_snapshot(accepted[0].location.tenant) as snapshot:
        unchanged, seq = _find_unchanged(context, snapshot, accepted), snapshot.find_last_change()

    def work(unit: Unit) -> list[StoreResult]:
        heads, changed_memories = (
            HeadLookup(context, unit, accepted),
            unit.list_changed_memories(seq),
        )
        results = [
            unchanged[number][1]
            if number in unchanged and unchanged[number][0] not in changed_memories
            else write_next(context, unit, item, heads.head_of(item), now)
            for number, item in enumerate(accepted)
        ]
        written_count = sum(result.result != "unchanged" for result in results)
        unit.record_audit(
            build_audit_entry(
                access,
                "batch_store",
                now,
                accepted[0].location,
                (),
                f"{written_count} of {len(results)} written",
            )
        )
        return results

    load_builder(len(accepted))
    results = context.engine.write(accepted[0].location.tenant, work)
    finish_withdrawals(context, accepted)
    return results


def _find_unchanged(
    context: Context, snapshot: Snapshot, batch: Sequence[AcceptedMemory]
) -> dict[int, tuple[int, StoreResult]]:
    """Return the memory id and the result of each memory whose content is stored already, by position.

    It is read before the writer is needed, and holds as long as the memory is unchanged.
    """
    results: dict[int, tuple[int, StoreResult]] = {}
    heads, key_counts = (
        HeadLookup(context, snapshot, batch),
        Counter((accepted.location.space, accepted.memory["key"]) for accepted in batch),
    )
    for number, accepted in enumerate(batch):
        if (
            accepted.bearer is not None
            or key_counts[accepted.location.space, accepted.memory["key"]] > 1
        ):
            continue
        prior = heads.head_of(accepted)
        if prior is None or _is_retracted(prior):
            continue
        current = render(context, snapshot, prior, accepted.location)
        if _has_content(
            context, prior, current, accepted.memory, mapping.drop_original(accepted.memory)
        ):
            results[number] = prior.memory_id, _unchanged_result(current, accepted)
    return results


def accept(
    context: Context,
    access: Access,
    value: Any,
    *,
    now: Instant | None = None,
    raw: bytes | None = None,
    complete: bool = False,
    is_checked: bool = False,
) -> AcceptedMemory:
    """Check a memory, and build its first version, without reading the store.

    `raw`: its bytes in a file. `complete`: it has all fields, as in an export. `is_checked`: the rules of OAMS were
    applied already. Raises InvalidInput, CrossNamespace, and errors of the compliance rules.

    The result depends on the caller and the time, but not on the store.
    """
    valid, warnings = (value, ()) if is_checked else memory.check(value, complete=complete)
    checked_memory: Memory = memory.adapt_memory(valid, access.default_tenant)
    screened = {name: value for name, value in checked_memory.items() if name in _SCREENED_FIELDS}
    replaced = screen_fields(context, screened)
    if replaced is not screened:
        checked_memory = cast("Memory", {**checked_memory, **replaced})
    namespace = parse_namespace(checked_memory["namespace"])
    location = locate_namespace(access, namespace)
    if is_foreign_namespace(namespace, location.tenant):
        # Section 4: a namespace is an access envelope; a memory written into a foreign one would be unreadable.
        raise CrossNamespace("namespace: under the owner hash of another tenant")
    metadata = memory.metadata_of(checked_memory)
    # An owner's import keeps its bytes, which are compared with those in the store; its author is a claim.
    is_written = access.is_peer or not complete
    if (
        is_written
        and (rules := authorship.attribute_metadata(access, metadata, mapping.ACTOR_KEY))
        is not metadata
    ):
        checked_memory = {**checked_memory, "metadata": dict(rules)}
    is_limited = not sees_everything(access, location.tenant)
    if is_limited:
        _require_scope(access, location, checked_memory)
    if presets := context.presets_of(location.tenant):
        rules = rules_of_memory(checked_memory, user=location.user)
        is_encrypted = context.encrypts_users and (context.encrypts_all or bool(rules["user_id"]))
        compliance.check_write(presets, rules, is_encrypted=is_encrypted)
    fresh = memory.assign_times(checked_memory, context.clock() if now is None else now, None)
    # The original bytes are kept only if the fields are complete and unchanged.
    new_version = build_version(context, location, fresh, raw if fresh is value else None)
    if not is_written and not is_signed(fresh, location.tenant, ump_version=context.ump_version):
        new_version = authorship.with_writer(context, access, new_version, is_from_file=True)
    return AcceptedMemory(
        location=location,
        memory=checked_memory,
        warnings=tuple(warnings),
        new=new_version,
        stored=build_result(fresh, new_version, "created", tuple(warnings)),
        bearer=access if is_limited else None,
        may_erase=access.may_erase(location.tenant),
    )


def build_result(
    fresh: Memory, new_version: NewVersion, result: str, warnings: tuple[str, ...] = ()
) -> StoreResult:
    """Return the result of writing a version."""
    return StoreResult(
        memory=memory.to_response(fresh),
        etag=compute_etag(new_version.document),
        result=result,
        warnings=warnings,
    )


def build_version(
    context: Context,
    location: Location,
    fresh: Memory,
    raw: bytes | None = None,
    like: NewVersion | None = None,
) -> NewVersion:
    """Return the version of a complete memory.

    `raw`: its bytes, if it came as bytes. `like`: a version whose search words may be the same.
    """
    name, native = stored_name(context, location, fresh["key"]), dump(fresh) if raw is None else raw
    document = Document(
        standard=mapping.STANDARD, media_type=mapping.MEDIA_TYPE, name=name, native=native
    )
    projection = project_memory(fresh, location.tenant, ump_version=context.ump_version)
    return prepare(context, document, projection, like=like)


def _build_next(
    context: Context,
    accepted: AcceptedMemory,
    accepted_memory: Memory,
    prior: Version | None,
    current: Memory | None,
    now: Instant,
) -> tuple[NewVersion, StoreResult]:
    """Return the version that follows the prior one, and its result. Raises InvalidInput."""
    if prior is not None and current is not None and not mapping.owns(prior.document):
        mapping.require_complete(project(context, prior), current, accepted_memory)
    fresh = memory.assign_times(accepted_memory, now, current)
    new_version = build_version(context, accepted.location, fresh, like=accepted.new)
    if (bounds := accepted.new.projection.bounds) is not None:
        new_version = with_bounds(context, new_version, bounds)
    return new_version, build_result(
        fresh, new_version, "created" if current is None else "updated", accepted.warnings
    )


def _require_scope(access: Access, location: Location, accepted: Memory) -> None:
    """Raise CrossNamespace unless the scope of a memory lies within the limits of a token."""
    scope = {
        "owner": location.tenant,
        "project": location.space or None,
        "visibility": mapping.visibility_of(accepted),
    }
    try:
        access.require_scope(scope)
    except ForbiddenScope as error:
        raise CrossNamespace(error.message) from None


def prepare_next(
    context: Context,
    snapshot: Snapshot,
    accepted: AcceptedMemory,
    prior: Version | None,
    now: Instant,
) -> AcceptedMemory:
    """Return the memory with the version to write, if the prior version is still the head at the time of writing."""
    if prior is None:
        return accepted
    current = render(context, snapshot, prior, accepted.location)
    successor = _with_kind_of(context, prior, mapping.drop_original(accepted.memory))
    if not _is_retracted(prior) and _has_content(
        context, prior, current, accepted.memory, successor
    ):
        return replace(accepted, prepared=(prior, None, _unchanged_result(current, accepted)))
    new_version, result = _build_next(context, accepted, successor, prior, current.memory, now)
    new_version = inherit_bounds(
        context,
        prior,
        _adjust_times(new_version, prior, now),
        by_owner=_is_written_by_owner(accepted),
    )
    return replace(accepted, prepared=(prior, new_version, result))


def _with_kind_of(context: Context, prior: Version, successor: Memory) -> Memory:
    """Return the next version of a memory with the kind of the prior one, unless it states a kind itself."""
    metadata, kind = memory.metadata_of(successor), project(context, prior).kind
    if kind == "semantic" or mapping.KIND_KEY in metadata:
        return successor
    return {**successor, "metadata": {**metadata, mapping.KIND_KEY: kind}}


def _has_content(
    context: Context, prior: Version, current: TaggedMemory, *candidates: Memory
) -> bool:
    """Return True if the current version has the content of any of these.

    An export states the restrictions of earlier versions in the metadata, and its import changes nothing.
    """
    if any(memory.same_content(current.memory, candidate) for candidate in candidates):
        return True
    limited = mapping.with_limits(current.memory, project(context, prior))
    return limited is not current.memory and any(
        memory.same_content(limited, candidate) for candidate in candidates
    )


def _unchanged_result(current: TaggedMemory, accepted: AcceptedMemory) -> StoreResult:
    return StoreResult(
        memory=current.memory, etag=current.etag, result="unchanged", warnings=accepted.warnings
    )


def _adjust_times(new_version: NewVersion, prior: Version | None, now: Instant) -> NewVersion:
    timed = _adjust_projection_times(new_version.projection, prior, now)
    return (
        new_version if timed is new_version.projection else replace(new_version, projection=timed)
    )


def _is_written_by_owner(accepted: AcceptedMemory) -> bool:
    return accepted.bearer is None or not accepted.bearer.is_peer


class HeadLookup:
    """The heads of many memories. One query finds which keys exist; most of a batch do not.

    For the first memory of a batch with a new key it answers without a query; afterwards the key counts as existing.
    """

    def __init__(self, context: Context, unit: Snapshot, batch: Sequence[AcceptedMemory]) -> None:
        self._context, self._unit = context, unit
        keys = {(accepted.location.space, accepted.memory["key"]): accepted for accepted in batch}
        candidates = [
            (name, pair) for name, accepted in keys.items() for pair in _possible_names(accepted)
        ]
        existing = unit.filter_known_names([pair for _, pair in candidates])
        self._existing = {name for name, pair in candidates if pair in existing}
        self._there = set(self._existing)
        self._prefetched: dict[tuple[str, str], tuple[Version, bool]] = {}
        self._used_ids: set[int] = set()

    def for_unit(self, unit: Snapshot) -> HeadLookup:
        """Return a copy for a unit of work, valid if nothing was written since the look-up."""
        heads = copy(self)
        heads._unit, heads._there = unit, set(self._existing)
        heads._prefetched, heads._used_ids = {}, set()
        return heads

    def prefetch(self, batch: Sequence[AcceptedMemory], now: Instant) -> None:
        """Find the existing heads, and whether they may be superseded, before anything is written.

        A query between two writes would flush the insert buffer and lose the batching.
        """
        for accepted in batch:
            name = (accepted.location.space, accepted.memory["key"])
            if name not in self._existing or name in self._prefetched or accepted.prepared is None:
                continue
            prior = find_head(
                self._context,
                self._unit,
                accepted.location,
                accepted.memory["key"],
                or_retracted=True,
            )
            if prior is not None and prior == accepted.prepared[0]:
                self._prefetched[name] = prior, _is_superseding_allowed(self._unit, prior, now)

    def head_of(self, accepted: AcceptedMemory) -> Version | None:
        """Return the head of a memory; the key counts as existing from then on."""
        return self.head_and_permission(accepted)[0]

    def head_and_permission(self, accepted: AcceptedMemory) -> tuple[Version | None, bool]:
        """Return the head of a memory, and True if it is known that it may be superseded."""
        name = (accepted.location.space, accepted.memory["key"])
        if name not in self._there:
            self._there.add(name)
            return None, False
        prefetched = self._prefetched.pop(name, None)
        if prefetched is None or prefetched[0].memory_id in self._used_ids:
            # This batch may have written it meanwhile.
            return find_head(
                self._context,
                self._unit,
                accepted.location,
                accepted.memory["key"],
                or_retracted=True,
            ), False
        self._used_ids.add(prefetched[0].memory_id)
        return prefetched

    def time_forgotten(self, accepted: AcceptedMemory) -> Instant | None:
        """Return the time at which the memory under this key was forgotten; None unless its head is a tombstone."""
        if (accepted.location.space, accepted.memory["key"]) not in self._existing:
            return None
        for standard, name in _possible_names(accepted):
            version = self._unit.find_by_name(standard, name)
            if version is not None and version.state.space == accepted.location.space:
                head = self._unit.load_newest(version.memory_id)
                if head.state.is_forgotten:
                    return get_time_forgotten(head)
        return None


def _is_superseding_allowed(unit: Snapshot, prior: Version, now: Instant) -> bool:
    try:
        check_supersession(unit, prior, {}, now=now)
    except MemorandaError:
        return False
    return True


def _possible_names(accepted: AcceptedMemory) -> list[tuple[str, str]]:
    """Return the names, with their standards, that a key may stand for."""
    key = accepted.memory["key"]
    return [(mapping.STANDARD, accepted.new.document.name), (standard_of_key(key), key)]


def write_next(
    context: Context,
    unit: Unit,
    accepted: AcceptedMemory,
    prior: Version | None,
    now: Instant,
    *,
    condition: StoreCondition = UNCONDITIONAL,
    is_allowed: bool = False,
) -> StoreResult:
    """Append the next version to the head, or the first version of a memory.

    `is_allowed`: superseding the head was checked already. Raises VersionMismatch, CrossNamespace, and the errors of
    the supersession policy.
    """
    location, successor = accepted.location, accepted.memory
    if (
        prior is not None
        and accepted.bearer is not None
        and not may_see(context, accepted.bearer, unit, prior)
    ):
        raise CrossNamespace("this credential may not see the memory under this key")
    if (
        condition == UNCONDITIONAL
        and prior is not None
        and accepted.prepared is not None
        and accepted.prepared[0] == prior
    ):
        # The prepared version is still valid.
        _, prepared_version, result = accepted.prepared
        if prepared_version is not None:
            if not is_allowed:
                check_supersession(unit, prior, {}, now=now)
            _append_accepted(context, unit, accepted, prepared_version, prior, now)
        return result
    current = None if prior is None else render(context, unit, prior, location)
    has_current = prior is not None and not _is_retracted(prior)
    condition.check(current.etag if current is not None and has_current else None)
    if prior is not None and current is not None:
        successor = _with_kind_of(context, prior, mapping.drop_original(successor))
        if has_current and _has_content(context, prior, current, accepted.memory, successor):
            return _unchanged_result(current, accepted)
        check_supersession(unit, prior, {}, now=now)
    elif _is_original_known(context, unit, accepted):
        successor = mapping.drop_original(successor)
    new_version, result = accepted.new, accepted.stored
    if current is not None or successor is not accepted.memory:
        new_version, result = _build_next(
            context, accepted, successor, prior, None if current is None else current.memory, now
        )
    _append_accepted(context, unit, accepted, new_version, prior, now)
    return result


def _append_accepted(
    context: Context,
    unit: Unit,
    accepted: AcceptedMemory,
    new_version: NewVersion,
    prior: Version | None,
    now: Instant,
) -> None:
    refuse_earlier_expiry(accepted, prior)
    append_memory(context, unit, new_version, prior, now, by_owner=_is_written_by_owner(accepted))


def refuse_earlier_expiry(accepted: AcceptedMemory, prior: Version | None) -> None:
    """Raise CrossNamespace if the memory would expire earlier, and so be erased, without the grant to (UMP §3.6)."""
    expires = accepted.new.projection.expires
    if accepted.may_erase or prior is None or expires is None:
        return
    if prior.state.expires is None or expires < prior.state.expires:
        raise CrossNamespace(
            "an earlier expiry would erase the stored memory; this credential does not grant 'erase'"
        )


def append_memory(
    context: Context,
    unit: Unit,
    adjusted: NewVersion,
    prior: Version | None,
    now: Instant,
    *,
    by_owner: bool = True,
    closes: bool = True,
) -> Version:
    """Append a version, as the first or after the prior one; `closes`: it ends the validity of the prior one."""
    adjusted = _adjust_times(adjusted, prior, now)
    projection = adjusted.projection
    cascade.check_basis(context, unit, adjusted.document, projection, now)
    cascade.note_withdrawal(unit, projection)
    new_version = adjusted if prior is None else follow(context, prior, adjusted, by_owner=by_owner)
    version = new_version.append(unit, now=now, follow_head=True)
    if prior is not None and closes:
        unit.close_version(
            prior, successor=version, valid_to=handover(prior, projection.valid_from), now=now
        )
    unit.announce("created" if prior is None else "revised", version, now=now)
    return version


def _adjust_projection_times(
    projection: Projection, prior: Version | None, now: Instant
) -> Projection:
    """Return the projection with a validity that starts now at the latest, and a creation before its update.

    The version is valid from its own time, and the prior one until then. If the client's clock is ahead, it is valid
    from now.
    """
    # Without its history, a memory that was updated is valid from its last update, unless it states its validity.
    states_validity = projection.valid_from != projection.created or projection.valid_to is not None
    is_stated = prior is None and states_validity
    starts = projection.valid_from if is_stated else max(projection.valid_from, projection.observed)
    starts, created = min(starts, now), min(projection.created, projection.observed)
    if (starts, created) == (projection.valid_from, projection.created):
        return projection
    return replace(projection, valid_from=starts, created=created)


def _is_original_known(context: Context, unit: Unit, accepted: AcceptedMemory) -> bool:
    """Return True if a new memory is the view of a document that is stored under its own name already.

    A document that was forgotten and comes back with the same bytes is no such case.
    """
    if NATIVE_KEY not in memory.metadata_of(accepted.memory):
        return False
    original = original_of(
        accepted.memory, accepted.location.tenant, ump_version=context.ump_version
    )
    stored_version = (
        None
        if original is None
        else unit.find_by_name(original.document.standard, original.document.name)
    )
    if stored_version is None or stored_version.state.erased:
        return False
    return not (
        stored_version.state.is_forgotten
        and stored_version.document.native == accepted.new.document.native
    )


# --- read ----------------------------------------------------------------------------------------------------


def get(context: Context, access: Access, namespace: Namespace, key: str) -> TaggedMemory:
    """Return the memory under a key. Raises MemoryNotFound, NamespaceNotFound and StoreCorrupt."""
    now, location = context.clock(), locate_namespace(access, namespace)
    with context.engine.open_snapshot(location.tenant) as snapshot:
        require_namespace(snapshot, location)
        version = find_head(context, snapshot, location, key)
        if version is None or not may_see(context, access, snapshot, version):
            raise MemoryNotFound(f"no memory {key!r} in {namespace}")
        if not is_intact(version):
            raise StoreCorrupt(
                "the stored memory was changed outside of Memoranda; run 'memoranda verify'"
            )
        answer = render_for_reader(context, snapshot, version, location)
    context.audit_read(
        location.tenant, build_audit_entry(access, "get", now, location, (answer.etag,), "ok")
    )
    return answer


# --- forget --------------------------------------------------------------------------------------------------


def forget(
    context: Context, access: Access, namespace: Namespace, key: str, *, if_match: str | None = None
) -> None:
    """Forget a memory softly: it is hidden from everyone, and can be restored (FORGET).

    Raises MemoryNotFound if the caller may not see the memory, and VersionMismatch if `if_match` names another version.
    """
    now, location = context.clock(), locate_namespace(access, namespace)

    def work(unit: Unit) -> None:
        require_namespace(unit, location)
        version = find_head(context, unit, location, key)
        if version is None or not may_see(context, access, unit, version):
            raise MemoryNotFound(f"no memory {key!r} in {namespace}")
        StoreCondition(if_match=if_match).check(render(context, unit, version, location).etag)
        check_supersession(unit, version, {}, now=now)
        forget_line(unit, version, now)
        unit.announce("tombstoned", version, now=now)
        remove_derived_of(unit, version.memory_id, now=now)
        unit.record_audit(
            build_audit_entry(
                access, "forget", now, location, (compute_etag(version.document),), "tombstoned"
            )
        )

    context.engine.write(location.tenant, work)


# --- finding and showing -------------------------------------------------------------------------------------


def find_head(
    context: Context,
    snapshot: Snapshot,
    location: Location,
    key: str,
    *,
    or_retracted: bool = False,
) -> Version | None:
    """Return the head of the memory under a key; None if it is missing, forgotten, expired or retracted.

    `or_retracted`: return a retracted one, too.

    A retracted memory is hidden from readers, but a STORE under its key continues it.
    """
    now = context.clock()
    version = snapshot.find_by_name(mapping.STANDARD, stored_name(context, location, key))
    if version is None or not _is_in_use(version, location, now):
        version = find_foreign_head(snapshot, location, key)
    if version is None or not _is_in_use(version, location, now):
        return None
    return version if or_retracted or not _is_retracted(version) else None


def _is_in_use(version: Version, location: Location, now: Instant) -> bool:
    state = version.state
    if (
        not state.is_head
        or state.is_forgotten
        or state.closed is not None
        or state.space != location.space
    ):
        return False
    return state.expires is None or state.expires > now


def _is_retracted(version: Version) -> bool:
    return version.state.verification == "retracted"


def stored_name(context: Context, location: Location, key: str) -> str:
    """Return the stored name of a key: a keyed fingerprint, because a key may be as private as a value."""
    return context.engine.fingerprint(location.tenant, f"oams\x00{location.space}\x00{key}")
