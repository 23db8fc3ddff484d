"""OAMS 0.1 over the one store: five operations, namespaces as access control, and consent of both owners.

A memory under a key is a memory of the store: every STORE with other content is its next version, and its name stands
for whatever is its head, also when another standard revised it. Memories of other standards appear in the namespace
of their space, under the name of their first version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import dump
from memoranda.errors import (
    CrossNamespace,
    ForbiddenScope,
    InvalidInput,
    MemorandaError,
    MemoryNotFound,
    NamespaceNotFound,
    StoreCorrupt,
)
from memoranda.model.instant import Instant
from memoranda.model.memory import Document, Projection, Version
from memoranda.model.native import NATIVE_KEY
from memoranda.service.core import authorship, cascade, compliance
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.indexing import NewVersion, prepare, with_bounds
from memoranda.service.core.lifecycle import append_next, inherit_bounds
from memoranda.service.core.lineage import remove_derived_of
from memoranda.service.core.protection import check_supersession, refuse_on_hold
from memoranda.service.core.secret_screening import screen_fields
from memoranda.service.core.views import is_intact, project
from memoranda.service.oams.guards import check_condition
from memoranda.service.oams.views import (
    Place,
    Shown,
    etag_of,
    foreign_head,
    foreign_standard,
    may_see,
    present,
    show,
)
from memoranda.service.retrieve import sees_everything
from memoranda.service.ump.revise import handover, tombstone
from memoranda.standards.oams import mapping, memory
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.namespace import (
    Namespace,
    is_foreign_namespace,
    namespace_of,
    owner_hash,
    parse_namespace,
    space_of,
)
from memoranda.standards.oams.port import original_of, project_memory, rules_of_memory
from memoranda.storage.engine.contract import Snapshot, Unit

# Where a memory may say anything at all.
_SAID: Final[tuple[str, ...]] = ("value", "tags", "metadata", "source_id")
BATCH_LIMIT: Final = 10_000


class Stored(Shown, frozen=True, kw_only=True):
    """What became of a memory."""

    result: str
    warnings: tuple[str, ...] = ()


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that passed every check and knows its place."""

    place: Place
    memory: Memory
    warnings: tuple[str, ...]
    # Made before the writer's turn: what is written when nothing is there before it, and what is answered then.
    new: NewVersion
    stored: Stored
    # The same for when this version is there before it; None: that says the same already.
    after: tuple[Version, NewVersion | None, Stored] | None = None
    # The caller, if there is anything that it may not see; what it may not see it does not write over.
    bearer: Access | None = None
    # Whether the caller may erase: an end that comes sooner does so, with every earlier wording.
    may_erase: bool = True


def place_of(access: Access, namespace: Namespace, *, tenant: str | None = None) -> Place:
    """Where a namespace is, if the caller may go there. Raises CrossNamespace."""
    whose = tenant or access.default_tenant
    space = space_of(namespace, whose)
    try:
        access.require_reach(whose)
        # What a token says of agents and visibility is asked of each memory.
        access.require_scope({**access.limits, "owner": whose, "project": space or None})
    except ForbiddenScope as error:
        raise CrossNamespace(error.message) from None
    user = "" if namespace.owner == owner_hash(whose) else namespace.owner
    return Place(namespace=str(namespace), user=user, tenant=whose, space=space)


def namespace_named(_: Context, access: Access, name: str | None = None) -> Namespace:
    """The namespace that a name stands for: whole, or a scope of the caller's own; without one, where the caller is."""
    own = access.default_tenant
    if name is not None:
        return parse_namespace(name if ":" in name else f"{owner_hash(own)}:{name}")
    return parse_namespace(
        namespace_of(access.limits.get("project") or access.default_project or "", own)
    )


# --- store ---------------------------------------------------------------------------------------------------


def store(
    context: Context,
    access: Access,
    value: object,
    *,
    if_match: str | None = None,
    if_absent: bool = False,
) -> Stored:
    """Write one memory: a new one, the next version of one, or nothing when it says what is there already."""
    now = context.clock()
    given = accept(context, access, value, now=now)
    place, key = given.place, given.memory["key"]

    def write(unit: Unit, given: Given, prior: Version | None) -> Stored:
        stored = follow(context, unit, given, prior, now, if_match=if_match, if_absent=if_absent)
        unit.record(audited(access, "store", now, place, (stored.etag,), stored.result))
        return stored

    def write_if_new(unit: Unit) -> Stored | None:
        is_there = find(context, unit, place, key, or_retracted=True) is not None
        return None if is_there else write(unit, given, None)

    stored = context.engine.write(place.tenant, write_if_new)
    if stored is None:
        # What follows a version is compared and made outside the writer's turn.
        with context.engine.read(place.tenant) as snapshot:
            prior = find(context, snapshot, place, key, or_retracted=True)
            foreseen = foresee(context, snapshot, given, prior, now)
        stored = context.engine.write(
            place.tenant,
            lambda unit: write(unit, foreseen, find(context, unit, place, key, or_retracted=True)),
        )
    finish_withdrawals(context, [given])
    return stored


def finish_withdrawals(context: Context, given: Sequence[Given]) -> None:
    """Let go what rested on consents that were withdrawn: a memory may be the view of a grain that withdraws one."""
    if any(NATIVE_KEY in memory.metadata_of(each.memory) for each in given):
        cascade.erase_withdrawn(context, given[0].place.tenant)


def batch_store(context: Context, access: Access, values: Sequence[object]) -> list[Stored]:
    """Write many memories, all or none."""
    if not 1 <= len(values) <= BATCH_LIMIT:
        raise InvalidInput(f"memories: a batch has from 1 to {BATCH_LIMIT} memories")
    now = context.clock()
    given: list[Given] = []
    for number, value in enumerate(values):
        try:
            given.append(accept(context, access, value, now=now))
        except InvalidInput as error:
            raise type(error)(f"memories[{number}]: {error.message}") from None

    with context.engine.read(given[0].place.tenant) as snapshot:
        there, seq = _all_unchanged(context, snapshot, given), snapshot.change_seq()

    def work(unit: Unit) -> list[Stored]:
        heads, moved = Heads(context, unit, given), unit.changed_memories(seq)
        stored = [
            there[number][1]
            if number in there and there[number][0] not in moved
            else follow(context, unit, each, heads.of(each), now)
            for number, each in enumerate(given)
        ]
        changed = sum(each.result != "unchanged" for each in stored)
        unit.record(
            audited(
                access,
                "batch_store",
                now,
                given[0].place,
                (),
                f"{changed} of {len(stored)} written",
            )
        )
        return stored

    stored = context.engine.write(given[0].place.tenant, work)
    finish_withdrawals(context, given)
    return stored


def _all_unchanged(
    context: Context, snapshot: Snapshot, given: Sequence[Given]
) -> dict[int, tuple[int, Stored]]:
    """Which of many say what is there already, each with its memory_id: read before the writer's turn."""
    found: dict[int, tuple[int, Stored]] = {}
    heads, times = (
        Heads(context, snapshot, given),
        Counter((each.place.space, each.memory["key"]) for each in given),
    )
    for number, each in enumerate(given):
        if each.bearer is not None or times[each.place.space, each.memory["key"]] > 1:
            continue
        prior = heads.of(each)
        if prior is None or _is_retracted(prior):
            continue
        current = show(context, snapshot, prior, each.place)
        if _says(current, each.memory, mapping.drop_original(each.memory)):
            found[number] = prior.memory_id, _unchanged(current, each)
    return found


def accept(
    context: Context,
    access: Access,
    value: Any,
    *,
    now: Instant | None = None,
    raw: bytes | None = None,
    complete: bool = False,
    is_checked: bool = False,
) -> Given:
    """Everything that can be decided without the store; `is_checked` if the rules of OAMS were asked already."""
    checked, warnings = (value, ()) if is_checked else memory.check(value, complete=complete)
    spoken = {name: said for name, said in checked.items() if name in _SAID}
    passed = screen_fields(context, spoken)
    if passed is not spoken:
        checked = {**checked, **passed}
    namespace = parse_namespace(checked["namespace"])
    place = place_of(access, namespace)
    if is_foreign_namespace(namespace, place.tenant):
        # Section 4: a namespace is an access envelope; what is written into another's would be read by nobody.
        raise CrossNamespace("namespace: under the owner hash of another tenant")
    metadata = memory.metadata_of(checked)
    # What an owner brings from a file is what it was: its bytes are compared with those here, its author is a claim.
    is_written = access.is_peer or not complete
    if (
        is_written
        and (said := authorship.attribute_metadata(access, metadata, mapping.ACTOR_KEY))
        is not metadata
    ):
        checked = {**checked, "metadata": said}
    is_limited = not sees_everything(access, place.tenant)
    if is_limited:
        _require_scope(access, place, checked)
    if presets := context.presets_of(place.tenant):
        said = rules_of_memory(checked, user=place.user)
        is_encrypted = context.encrypts_users and (context.encrypts_all or bool(said["user_id"]))
        compliance.check_write(presets, said, is_encrypted=is_encrypted)
    fresh = memory.assign_times(checked, context.clock() if now is None else now, None)
    # Bytes that say more than what is kept are not kept.
    new = new_version(context, place, fresh, raw if fresh is value else None)
    new = new if is_written else authorship.with_writer(context, access, new, is_from_file=True)
    return Given(
        place=place,
        memory=checked,
        warnings=tuple(warnings),
        new=new,
        stored=as_stored(fresh, new, "created", tuple(warnings)),
        bearer=access if is_limited else None,
        may_erase=access.may_erase(place.tenant),
    )


def as_stored(
    fresh: Memory, new: NewVersion, result: str, warnings: tuple[str, ...] = ()
) -> Stored:
    """What is answered when a memory is written."""
    return Stored(
        memory=memory.to_response(fresh),
        etag=etag_of(new.document),
        result=result,
        warnings=warnings,
    )


def _reads_as(projection: Projection) -> tuple[str, str]:
    """What its words are made from."""
    return projection.text, projection.language


def new_version(
    context: Context,
    place: Place,
    fresh: Memory,
    raw: bytes | None = None,
    like: NewVersion | None = None,
) -> NewVersion:
    """A complete memory as it is written: `raw`, if it came in that form; `like` may have the words of its text."""
    name, native = name_of(context, place, fresh["key"]), dump(fresh) if raw is None else raw
    document = Document(
        standard=mapping.STANDARD, media_type=mapping.MEDIA_TYPE, name=name, native=native
    )
    projection = project_memory(fresh, place.tenant, ump_version=context.ump_version)
    is_like = like is not None and _reads_as(like.projection) == _reads_as(projection)
    indexed = like.indexed if like is not None and is_like else None
    return prepare(context, document, projection, indexed=indexed)


def _following(
    context: Context,
    given: Given,
    wanted: Memory,
    prior: Version | None,
    current: Memory | None,
    now: Instant,
) -> tuple[NewVersion, Stored]:
    """Return the version that follows the prior one, if there is one, and the answer. Raises InvalidInput."""
    if prior is not None and current is not None and not mapping.owns(prior.document):
        mapping.require_complete(project(context, prior), current, wanted)
    fresh = memory.assign_times(wanted, now, current)
    new = new_version(context, given.place, fresh, like=given.new)
    if (told := given.new.projection.bounds) is not None:
        new = with_bounds(context, new, told)
    return new, as_stored(fresh, new, "created" if current is None else "updated", given.warnings)


def _require_scope(access: Access, place: Place, given: Memory) -> None:
    """A narrowed token writes only what it reaches itself."""
    scope = {
        "owner": place.tenant,
        "project": place.space or None,
        "visibility": mapping.visibility_of(given),
    }
    try:
        access.require_scope(scope)
    except ForbiddenScope as error:
        raise CrossNamespace(error.message) from None


def foresee(
    context: Context, snapshot: Snapshot, given: Given, prior: Version | None, now: Instant
) -> Given:
    """The same with the version that is written if what is there now still is when the writer's turn comes."""
    if prior is None:
        return given
    current, wanted = (
        show(context, snapshot, prior, given.place),
        mapping.drop_original(given.memory),
    )
    if not _is_retracted(prior) and _says(current, given.memory, wanted):
        return replace(given, after=(prior, None, _unchanged(current, given)))
    new, stored = _following(context, given, wanted, prior, current.memory, now)
    new = inherit_bounds(context, prior, _timed(new, prior, now), by_owner=_is_owners(given))
    return replace(given, after=(prior, new, stored))


def _says(current: Shown, *said: Memory) -> bool:
    return any(memory.same_content(current.memory, each) for each in said)


def _unchanged(current: Shown, given: Given) -> Stored:
    return Stored(
        memory=current.memory, etag=current.etag, result="unchanged", warnings=given.warnings
    )


def _timed(new: NewVersion, prior: Version | None, now: Instant) -> NewVersion:
    timed = _in_time(new.projection, prior, now)
    return new if timed is new.projection else replace(new, projection=timed)


def _is_owners(given: Given) -> bool:
    return given.bearer is None or not given.bearer.is_peer


class Heads:
    """The heads of many memories, most of which are not there yet: that is asked for all at once."""

    def __init__(self, context: Context, unit: Snapshot, given: Sequence[Given]) -> None:
        self._context, self._unit = context, unit
        keys = {(each.place.space, each.memory["key"]): each for each in given}
        asked = [(name, pair) for name, each in keys.items() for pair in _names(each)]
        known = unit.known_names([pair for _, pair in asked])
        self._known = {name for name, pair in asked if pair in known}
        self._there = set(self._known)
        self._found: dict[tuple[str, str], tuple[Version, bool]] = {}
        self._used: set[int] = set()

    def in_unit(self, unit: Snapshot) -> Heads:
        """The same in a unit of work before which nothing was written since."""
        heads = copy(self)
        heads._unit, heads._there = unit, set(self._known)
        heads._found, heads._used = {}, set()
        return heads

    def look_up(self, given: Sequence[Given], now: Instant) -> None:
        """Find those that are there, and ask whether they may be superseded, before anything is written.

        A query in between would send what waits to be written row by row.
        """
        for each in given:
            name = (each.place.space, each.memory["key"])
            if name not in self._known or name in self._found or each.after is None:
                continue
            prior = find(
                self._context, self._unit, each.place, each.memory["key"], or_retracted=True
            )
            if prior is not None and prior == each.after[0]:
                self._found[name] = prior, _may_be_superseded(self._unit, prior, now)

    def of(self, given: Given) -> Version | None:
        """The head of one of them; from then on it is there."""
        return self.with_leave(given)[0]

    def with_leave(self, given: Given) -> tuple[Version | None, bool]:
        """The same, with whether it is known that it may be superseded."""
        name = (given.place.space, given.memory["key"])
        if name not in self._there:
            self._there.add(name)
            return None, False
        found = self._found.pop(name, None)
        if found is None or found[0].memory_id in self._used:
            # It may have been written meanwhile.
            return find(
                self._context, self._unit, given.place, given.memory["key"], or_retracted=True
            ), False
        self._used.add(found[0].memory_id)
        return found

    def forgotten(self, given: Given) -> Instant | None:
        """When what this names was forgotten, if it was and nothing has taken its place."""
        if (given.place.space, given.memory["key"]) not in self._known:
            return None
        for standard, name in _names(given):
            version = self._unit.named(standard, name)
            if version is not None and version.state.space == given.place.space:
                head = self._unit.newest(version.memory_id)
                if head.state.is_forgotten:
                    return head.state.tombstoned
        return None


def _may_be_superseded(unit: Snapshot, prior: Version, now: Instant) -> bool:
    try:
        check_supersession(unit, prior, {}, now=now)
    except MemorandaError:
        return False
    return True


def _names(given: Given) -> list[tuple[str, str]]:
    """What the key of a memory may be the name of."""
    key = given.memory["key"]
    return [(mapping.STANDARD, given.new.document.name), (foreign_standard(key), key)]


def follow(
    context: Context,
    unit: Unit,
    given: Given,
    prior: Version | None,
    now: Instant,
    *,
    if_match: str | None = None,
    if_absent: bool = False,
    is_allowed: bool = False,
) -> Stored:
    """Write what follows the head that was found, or is the first of its memory; `is_allowed`: that was asked."""
    place, wanted = given.place, given.memory
    if (
        prior is not None
        and given.bearer is not None
        and not may_see(context, given.bearer, unit, prior)
    ):
        raise CrossNamespace("what is kept under this key is not for this credential")
    is_free = if_match is None and not if_absent
    if is_free and prior is not None and given.after is not None and given.after[0] == prior:
        # Compared and made before the writer's turn.
        _, foreseen, stored = given.after
        if foreseen is not None:
            if not is_allowed:
                check_supersession(unit, prior, {}, now=now)
            _write(context, unit, given, foreseen, prior, now)
        return stored
    current = None if prior is None else show(context, unit, prior, place)
    is_there = prior is not None and not _is_retracted(prior)
    check_condition(current.etag if current is not None and is_there else None, if_match, if_absent)
    if prior is not None and current is not None:
        wanted = mapping.drop_original(wanted)
        if is_there and _says(current, given.memory, wanted):
            return _unchanged(current, given)
        check_supersession(unit, prior, {}, now=now)
    elif _is_taken(context, unit, given):
        wanted = mapping.drop_original(wanted)
    new, stored = given.new, given.stored
    if current is not None or wanted is not given.memory:
        new, stored = _following(
            context, given, wanted, prior, None if current is None else current.memory, now
        )
    _write(context, unit, given, new, prior, now)
    return stored


def _write(
    context: Context, unit: Unit, given: Given, new: NewVersion, prior: Version | None, now: Instant
) -> None:
    refuse_sooner_end(given, prior)
    append(context, unit, new, prior, now, by_owner=_is_owners(given))


def refuse_sooner_end(given: Given, prior: Version | None) -> None:
    """Raise CrossNamespace if what is kept would be erased by an end that only its owner may set (UMP §3.6)."""
    ends = given.new.projection.expires
    if given.may_erase or prior is None or ends is None:
        return
    if prior.state.expires is None or ends < prior.state.expires:
        raise CrossNamespace(
            "an end would erase what is kept here; this credential does not grant 'erase'"
        )


def append(
    context: Context,
    unit: Unit,
    new: NewVersion,
    prior: Version | None,
    now: Instant,
    *,
    by_owner: bool = True,
    closes: bool = True,
) -> Version:
    """Write a version that is new or follows the prior one; `closes` says that this is what ends the prior one."""
    new = _timed(new, prior, now)
    projection = new.projection
    cascade.check_basis(context, unit, new.document, projection, now)
    cascade.note_withdrawal(unit, projection)
    if prior is None:
        version = new.append(unit, now=now, follow_head=True)
    else:
        version = append_next(
            context, unit, prior, new, now=now, by_owner=by_owner, follow_head=True
        )
    if prior is not None and closes:
        unit.close(
            prior, successor=version, valid_to=handover(prior, projection.valid_from), now=now
        )
    unit.announce("created" if prior is None else "revised", version, now=now)
    return version


def _in_time(projection: Projection, prior: Version | None, now: Instant) -> Projection:
    """A new version is true from when it was written; what it was made from, until then.

    A clock that is ahead does not keep it from being true now. Lists go by the last update, also if that is said to be
    before the creation.
    """
    starts = (
        projection.valid_from if prior is None else max(projection.valid_from, projection.observed)
    )
    starts, created = min(starts, now), min(projection.created, projection.observed)
    if (starts, created) == (projection.valid_from, projection.created):
        return projection
    return replace(projection, valid_from=starts, created=created)


def _is_taken(context: Context, unit: Unit, given: Given) -> bool:
    """Whether a new memory is the view of a document that is here itself, or was: that one keeps its name.

    But the very same memory, forgotten and then brought again, is what it was.
    """
    if NATIVE_KEY not in memory.metadata_of(given.memory):
        return False
    original = original_of(given.memory, given.place.tenant, ump_version=context.ump_version)
    known = (
        None if original is None else unit.named(original.document.standard, original.document.name)
    )
    if known is None or known.state.erased:
        return False
    return not (known.state.is_forgotten and known.document.native == given.new.document.native)


# --- read ----------------------------------------------------------------------------------------------------


def get(context: Context, access: Access, namespace: Namespace, key: str) -> Shown:
    """One memory by its key."""
    now, place = context.clock(), place_of(access, namespace)
    with context.engine.read(place.tenant) as snapshot:
        require_namespace(snapshot, place)
        version = find(context, snapshot, place, key)
        if version is None or not may_see(context, access, snapshot, version):
            raise MemoryNotFound(f"no memory {key!r} in {namespace}")
        if not is_intact(version):
            raise StoreCorrupt(
                "the stored memory is not what was accepted any more; run 'memoranda verify'"
            )
        found = present(context, snapshot, version, place)
    context.audit_read(place.tenant, audited(access, "get", now, place, (found.etag,), "ok"))
    return found


# --- forget --------------------------------------------------------------------------------------------------


def forget(
    context: Context, access: Access, namespace: Namespace, key: str, *, if_match: str | None = None
) -> None:
    """Take a memory out of every answer; it stays on record (FORGET)."""
    now, place = context.clock(), place_of(access, namespace)

    def work(unit: Unit) -> None:
        require_namespace(unit, place)
        version = find(context, unit, place, key)
        if version is None or not may_see(context, access, unit, version):
            raise MemoryNotFound(f"no memory {key!r} in {namespace}")
        check_condition(show(context, unit, version, place).etag, if_match, if_absent=False)
        check_supersession(unit, version, {}, now=now)
        for each in unit.protecting(version.memory_id):
            refuse_on_hold(each)
        tombstone(unit, version, now, whole=True)
        unit.announce("tombstoned", version, now=now)
        remove_derived_of(unit, version.memory_id, now=now)
        unit.record(
            audited(access, "forget", now, place, (etag_of(version.document),), "tombstoned")
        )

    context.engine.write(place.tenant, work)


# --- finding and showing -------------------------------------------------------------------------------------


def find(
    context: Context, snapshot: Snapshot, place: Place, key: str, *, or_retracted: bool = False
) -> Version | None:
    """The head of the memory under a key, unless it was forgotten or retracted, has expired or never was."""
    now = context.clock()
    version = snapshot.named(mapping.STANDARD, name_of(context, place, key))
    if version is None or not _is_there(version, place, now):
        version = foreign_head(snapshot, place, key)
    if version is None or not _is_there(version, place, now):
        return None
    return version if or_retracted or not _is_retracted(version) else None


def _is_there(version: Version, place: Place, now: Instant) -> bool:
    state = version.state
    if (
        not state.is_head
        or state.is_forgotten
        or state.closed is not None
        or state.space != place.space
    ):
        return False
    return state.expires is None or state.expires > now


def _is_retracted(version: Version) -> bool:
    return version.state.verification == "retracted"


def require_namespace(snapshot: Snapshot, place: Place) -> None:
    if not snapshot.has_space(place.space):
        raise NamespaceNotFound(f"nothing was ever stored in {place.namespace}")


def name_of(context: Context, place: Place, key: str) -> str:
    """The name of a memory in the store: keys may say as much as values, so only a fingerprint is kept."""
    return context.engine.fingerprint(place.tenant, f"oams\x00{place.space}\x00{key}")


def audited(
    access: Access,
    op: str,
    now: Instant,
    place: Place,
    targets: tuple[str, ...],
    result: str,
    meta: Mapping[str, object] | None = None,
) -> Any:
    scope = {"owner": place.tenant, **({"project": place.space} if place.space else {})}
    return audit_entry(
        access, f"oams.{op}", now=now, targets=targets, scope=scope, result=result, meta=meta
    )
