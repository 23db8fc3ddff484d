"""The MemoryAdapter of openwop, over the one store: list and get for nodes, put and delete for hosts.

The tenant comes from the credential; a ref only chooses among its spaces (CTI-1). What is malformed or has another
tenant's shape answers as if it were empty. Inside a run, the store is as it was when the run began, with the run's own
writes: what others write, change or delete meanwhile is not seen until the next run.
"""

from __future__ import annotations

import heapq
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from memoranda.encoding.bases import base32_encode
from memoranda.errors import Conflict, InvalidInput, WorkflowError
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import (
    DERIVED_FROM,
    Document,
    Relation,
    Version,
    has_ended,
    is_over,
    is_true_at,
)
from memoranda.model.selection import UPDATED, KeywordQuery, Selection, VisibleToRun
from memoranda.retrieval.analysis import sought, words
from memoranda.service.core import indexing
from memoranda.service.core.access import Access
from memoranda.service.core.authorship import refuse_unnamed
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.indexing import NewVersion
from memoranda.service.core.lineage import forget_derived
from memoranda.service.core.protection import check_supersession
from memoranda.service.core.views import holds, project, root_of, unless_damaged
from memoranda.service.oams import memories
from memoranda.service.oams.memories import name_of
from memoranda.service.oams.views import Place, as_memory
from memoranda.service.oms.views import is_listed
from memoranda.service.openwop import runs
from memoranda.service.openwop.runs import Run
from memoranda.service.retrieve import PAGE_BYTES, asked_for, best, reach, walk
from memoranda.service.ump.revise import tombstone
from memoranda.standards.oams import mapping as oams
from memoranda.standards.oams.memory import TAGS_KEY, Memory, Unchecked, check_key
from memoranda.standards.oams.namespace import namespace_of
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.grains import ADDRESS_CHARS
from memoranda.standards.openwop import events, mapping, refs
from memoranda.standards.openwop.entry import (
    MAX_ID_CHARS,
    MAX_TAG_CHARS,
    Draft,
    Entry,
    ListOptions,
    build_entry,
    created_of,
    fit_budget,
)
from memoranda.standards.openwop.problem import CAPABILITY_REQUIRED
from memoranda.standards.port import load, port_of
from memoranda.standards.ump import mapping as ump
from memoranda.storage.engine.contract import Snapshot, Unit

ID_PREFIX: Final = "mem_"
_RANKED_FACTOR: Final = 2
# A page where most of it may be passed over.
_SCAN_LIMIT: Final = 200


def list_entries(
    context: Context,
    access: Access,
    ref: object,
    options: ListOptions | None = None,
    *,
    run_id: str | None = None,
) -> list[Entry]:
    """The entries of a ref, the newest first; nothing for a ref that is malformed, unknown or somebody else's."""
    wanted = options or ListOptions()
    if wanted.rank == "relevance" and not context.has_semantic_search:
        # RFC 0113: a ranking by words would be another one than what is asked for.
        raise WorkflowError(
            "rank: this host has no semantic search (memory.search)",
            openwop_code=CAPABILITY_REQUIRED,
        )
    tenant, now = access.default_tenant, context.clock()
    space = space_of(access, ref, tenant)
    if space is None:
        return []
    if wanted.query is not None:
        context.meaning.settle()
    with context.engine.read(tenant) as snapshot:
        run = None if run_id is None else runs.load(snapshot, run_id)
        found = _found(context, access, snapshot, space, wanted, run, now)
    shown = found[: wanted.limit]
    if wanted.token_budget is not None:
        shown = fit_budget(shown, wanted.token_budget, context.cal.counter.count)
    _audit(context, access, "list", space, now, f"{len(shown)} entries")
    return shown


def get_entry(
    context: Context, access: Access, ref: object, entry_id: object, *, run_id: str | None = None
) -> Entry | None:
    """One entry of a ref, or None."""
    tenant, now = access.default_tenant, context.clock()
    space = space_of(access, ref, tenant)
    if space is None or not isinstance(entry_id, str) or not 0 < len(entry_id) <= MAX_ID_CHARS:
        return None
    with context.engine.read(tenant) as snapshot:
        run = None if run_id is None else runs.load(snapshot, run_id)
        version = find(context, snapshot, space, entry_id)
        if version is not None:
            version = version if run is None else _as_of(snapshot, version.memory_id, run)
        shown = None
        if version is not None and is_stated(version, run, now):
            shown = seen(context, access, snapshot, version)
    _audit(context, access, "get", space, now, "ok" if shown else "none")
    return shown


def put_entry(
    context: Context,
    access: Access,
    ref: str,
    draft: Draft,
    *,
    entry_id: str | None = None,
    run_id: str | None = None,
    node_id: str | None = None,
    agent_id: str | None = None,
) -> Entry:
    """Write an entry. Secrets of the run never reach the store (SR-1).

    Id and time are ours to give, unless the host chooses an id: then it is the entry under that id from now on.
    """
    tenant, now = access.default_tenant, context.clock()
    space = _writable(access, ref, (draft,), now)
    run_key = None if run_id is None else (tenant, run_id)
    if run_key is not None and any(
        context.secrets.holds(name, run_key) for name in (ref, entry_id or "")
    ):
        raise InvalidInput("memoryRef or id: holds a secret of the run")
    clean = context.secrets.redacted(draft, run_key)
    node, agent = (
        each and context.secrets.redacted_text(each, run_key, "node")
        for each in (node_id, agent_id)
    )
    write = _writing(context, access, space, clean, entry_id, now)

    def work(unit: Unit) -> Entry:
        made, version = write(unit)
        if run_id is not None:
            runs.load_writing(context, unit, run_id)
            unit.add_run_write(run_id, version.version_id)
            _attribute(unit, run_id, ref, made, now, node_id=node, agent_id=agent)
        unit.record_audit(_entry(access, "put", space, now, (made["id"],), "written"))
        return made

    return context.engine.write(tenant, work)


def _writable(access: Access, ref: str, drafts: Sequence[Draft], now: Instant) -> str:
    """The space of a ref in which the caller may write entries. Raises InvalidInput."""
    refuse_unnamed(access)
    space = space_of(access, ref, access.default_tenant)
    if space is None:
        raise InvalidInput("memoryRef: not one of this host")
    if any(draft.expires is not None and draft.expires <= now for draft in drafts):
        raise InvalidInput("entry.expiresAt is already past")
    return space


def _writing(
    context: Context, access: Access, space: str, draft: Draft, entry_id: str | None, now: Instant
) -> Callable[[Unit], tuple[Entry, Version]]:
    """What writes an entry in a unit of work; whatever needs no writer is done before."""
    if entry_id is not None:
        return _writing_under(context, access, space, draft, entry_id, now)
    new = prepare(context, access.default_tenant, space, draft, now)
    return lambda unit: (new.entry, append(unit, new, now))


def _writing_under(
    context: Context, access: Access, space: str, draft: Draft, entry_id: str, now: Instant
) -> Callable[[Unit], tuple[Entry, Version]]:
    """An entry under an id that the host chose is a memory under a key, as OAMS has it: one that follows what is there.

    What is there keeps its time and whatever else it says; its end comes no later than it would have (RFC 0004 §E).
    """
    place = Place(
        namespace=namespace_of(space, access.default_tenant),
        tenant=access.default_tenant,
        space=space,
    )
    key = check_key(entry_id)

    def there(snapshot: Snapshot) -> Version | None:
        return memories.find(context, snapshot, place, key, or_retracted=True)

    with context.engine.read(place.tenant) as snapshot:
        prior = there(snapshot)
        known = None if prior is None else as_memory(context, snapshot, prior, place)
    # Reads the owner's rules by itself; that nothing changed meanwhile is seen when it is written.
    given = memories.accept(context, access, _as_memory(place, key, draft, known), now=now)
    with context.engine.read(place.tenant) as snapshot:
        foreseen = memories.foresee(context, snapshot, given, prior, now)

    def write(unit: Unit) -> tuple[Entry, Version]:
        head = there(unit)
        if head != prior:
            raise Conflict("the entry was changed meanwhile; try again")
        memories.follow(context, unit, foreseen, head, now)
        version = there(unit)
        assert version is not None
        return show(context, unit, version), version

    return write


def _as_memory(place: Place, key: str, draft: Draft, before: Memory | None) -> Unchecked:
    known: Unchecked = {**before} if before is not None else {}
    # A vector was of the words that were there; a view names what it shows as its source.
    dropped = {
        "embedding",
        "embedding_model",
        *(("source_id",) if known.get("source_id") == key else ()),
    }
    kept = {name: value for name, value in known.items() if name not in dropped}
    metadata = {
        name: value for name, value in (known.get("metadata") or {}).items() if name != TAGS_KEY
    }
    if draft.expires is not None:
        metadata[oams.EXPIRES_KEY] = format_instant(draft.expires)
    said = {
        "namespace": place.namespace,
        "key": key,
        "value": draft.content,
        "tags": list(draft.tags),
    }
    return {**kept, **said, **({"metadata": metadata} if metadata else {})}


def put_entries(context: Context, access: Access, ref: str, drafts: Sequence[Draft]) -> list[Entry]:
    """Write many entries, all or none: what a host brings along when it starts."""
    tenant, now = access.default_tenant, context.clock()
    space = _writable(access, ref, drafts, now)
    prepared = [
        prepare(context, tenant, space, context.secrets.redacted(draft, None), now)
        for draft in drafts
    ]

    def work(unit: Unit) -> list[Entry]:
        for new in prepared:
            append(unit, new, now)
        unit.record_audit(_entry(access, "put", space, now, (), f"{len(prepared)} written"))
        return [new.entry for new in prepared]

    return context.engine.write(tenant, work)


class New(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that is to be written."""

    entry: Entry
    version: NewVersion


def prepare(
    context: Context,
    tenant: str,
    space: str,
    draft: Draft,
    now: Instant,
    *,
    sources: Sequence[str] = (),
) -> New:
    """A redacted draft as an entry, which has its id and its time from now on; `sources` are what it was made from."""
    made = build_entry(
        id=new_id(), content=draft.content, tags=draft.tags, created=now, expires=draft.expires
    )
    document = Document(
        standard=mapping.STANDARD,
        media_type=mapping.MEDIA_TYPE,
        name=made["id"],
        native=mapping.encode(made),
    )
    read = mapping.project(made, tenant, space)
    if sources:
        # More than its tags have room for.
        read = replace(
            read, relations=tuple(Relation(type=DERIVED_FROM, target=name) for name in sources)
        )
    return New(entry=made, version=indexing.prepare(context, document, read))


def append(unit: Unit, new: New, now: Instant) -> Version:
    """Write an entry in a unit of work."""
    version = new.version.append(unit, now=now)
    unit.announce("created", version, now=now)
    return version


def new_id() -> str:
    return ID_PREFIX + base32_encode(secrets.token_bytes(15))


def _attribute(
    unit: Unit,
    run_id: str,
    ref: str,
    made: Entry,
    now: Instant,
    *,
    node_id: str | None,
    agent_id: str | None,
) -> None:
    payload: dict[str, Any] = {"memoryRef": ref, "memoryId": made["id"]}
    optional = {"nodeId": node_id, "agentId": agent_id}
    payload |= {name: value for name, value in optional.items() if value is not None}
    if made["tags"]:
        payload["tags"] = list(made["tags"])
    runs.emit(unit, run_id, events.MEMORY_WRITTEN, payload, now=now, node_id=node_id)


def delete_entry(context: Context, access: Access, ref: str, entry_id: str) -> bool:
    """Take an entry out of every later answer; whether there was one."""
    tenant, now = access.default_tenant, context.clock()
    space = space_of(access, ref, tenant)
    if space is None:
        return False

    def work(unit: Unit) -> bool:
        version = find(context, unit, space, entry_id)
        if (
            version is None
            or not is_open(version, None, now)
            or not may_see(context, access, unit, version)
        ):
            return False
        forget_entry(access, unit, version=version, now=now)
        return True

    return context.engine.write(tenant, work)


def forget_found(access: Access, version_id: int, now: Instant, unit: Unit) -> bool:
    """Forget a version that was found before the unit of work; whether it was still there."""
    (version,) = unit.load_versions([version_id])
    if is_over(version.state, now):
        return False
    forget_entry(access, unit, version=version, now=now)
    return True


def forget_entry(access: Access, unit: Unit, *, version: Version, now: Instant) -> None:
    """Take an entry out of every later answer in a unit of work, and what passes made from it."""
    check_supersession(unit, version, {}, now=now)
    tombstone(unit, version, now, whole=True)
    unit.announce("tombstoned", version, now=now)
    forget_derived(unit, version.memory_id, now=now)
    name = id_of(unit, version)
    unit.record_audit(_entry(access, "delete", version.state.space, now, (name,), "tombstoned"))


# --- what a run sees -----------------------------------------------------------------------------------------


def _found(
    context: Context,
    access: Access,
    snapshot: Snapshot,
    space: str,
    wanted: ListOptions,
    run: Run | None,
    now: Instant,
) -> list[Entry]:
    """At least as many entries as are wanted, if there are so many, in their order."""

    def shown(version: Version) -> Entry | None:
        made = seen(context, access, snapshot, version) if is_stated(version, run, now) else None
        return made if made is None or wanted.tag is None or wanted.tag in made["tags"] else None

    if wanted.rank == "relevance" and wanted.query is not None:
        ranked = _ranked(context, access, snapshot, space, wanted, run, now)
        return [made for version in ranked if (made := shown(version)) is not None]
    found: list[tuple[Instant, int, Entry]] = []
    newest: list[Instant] = []
    size = 0
    ended = () if run is None else _ended(snapshot, space, run)
    current = _current(context, snapshot, access, space, wanted, run, now)
    for version, updated in heapq.merge(current, ended, key=itemgetter(1), reverse=True):
        if (made := shown(version)) is not None:
            found.append((created_of(made), version.memory_id, made))
            add = heapq.heappush if len(newest) < wanted.limit else heapq.heappushpop
            add(newest, created_of(made))
            size += len(version.document.native)
        # Nothing is created after it was updated: what comes now is no newer than all that are wanted.
        if (len(newest) >= wanted.limit and updated <= newest[0]) or size > PAGE_BYTES:
            break
    # Of one instant, what was written last is the newest.
    return [made for _, _, made in sorted(found, key=lambda each: each[:2], reverse=True)]


def _current(
    context: Context,
    snapshot: Snapshot,
    access: Access,
    space: str,
    wanted: ListOptions,
    run: Run | None,
    now: Instant,
) -> Iterator[tuple[Version, Instant]]:
    """What is there now and was when the run began, with when it was last updated, the latest first."""
    selection = _selection(context, access, snapshot, space, wanted, run)
    size = wanted.limit if wanted.tag is None or selection.tags else max(wanted.limit, _SCAN_LIMIT)
    for version, (updated, _) in walk(snapshot, selection, UPDATED, now=now, size=size):
        yield version, Instant(updated)


def _selection(
    context: Context,
    access: Access,
    snapshot: Snapshot,
    space: str,
    wanted: ListOptions,
    run: Run | None,
) -> Selection:
    labels = (wanted.tag.lower(),) if wanted.tag is not None and _is_label(wanted.tag) else ()
    there = () if run is None else (VisibleToRun(run_id=run.run_id, version_seq=run.version_seq),)
    return reach(
        context, access, snapshot, Selection(space=space, tags=labels, tests=there, in_force=True)
    )


def _is_label(tag: str) -> bool:
    """Whether a tag is looked up as such. Those that tell where a memory of another standard came from are not."""
    return (
        not tag.startswith((mapping.SOURCE_PREFIX, mapping.DERIVED_PREFIX))
        and len(tag) < MAX_TAG_CHARS
    )


def _ranked(
    context: Context,
    access: Access,
    snapshot: Snapshot,
    space: str,
    wanted: ListOptions,
    run: Run | None,
    now: Instant,
) -> list[Version]:
    """What answers the query, the best first."""
    assert wanted.query is not None
    legs = context.meaning.legs(asked_for(context, KeywordQuery(text=wanted.query)))
    selection = _selection(context, access, snapshot, space, wanted, run)
    limit = _RANKED_FACTOR * wanted.limit
    found = best(snapshot, selection, legs, lambda version: version, limit=limit, now=now)
    versions = [hit.version for hit in found.hits]
    return (
        versions
        if run is None
        else _with_changed(context, snapshot, space, wanted.query, versions, run)
    )


def _with_changed(
    context: Context, snapshot: Snapshot, space: str, query: str, ranked: list[Version], run: Run
) -> list[Version]:
    """What the run still sees and no search finds any more, put among what is found by how many words it shares."""
    asked = sought(query)

    def shared(version: Version) -> int:
        read = unless_damaged(version, lambda: project(context, version))
        return 0 if read is None else len(asked.intersection(words(read.text)))

    changed = [
        (count, version)
        for version, _ in _ended(snapshot, space, run)
        if (count := shared(version))
    ]
    if not changed:
        return ranked
    merged = [(shared(version), version) for version in ranked]
    for count, version in changed:
        place = next((at for at, (other, _) in enumerate(merged) if other < count), len(merged))
        merged.insert(place, (count, version))
    return [version for _, version in merged]


def _was_there(version: Version, run: Run, own: Collection[int]) -> bool:
    """Whether a version was written before the run began, or by it."""
    return version.version_id <= run.version_seq or version.version_id in own


def _ended(snapshot: Snapshot, space: str, run: Run) -> Iterator[tuple[Version, Instant]]:
    """What was there when the run began and was replaced or forgotten since, the last updated first."""
    ended = snapshot.list_ended_since(run.view, space)
    for first in range(0, len(ended), _SCAN_LIMIT):
        updated = dict(ended[first : first + _SCAN_LIMIT])
        yield from (
            (version, updated[version.version_id])
            for version in snapshot.iterate_versions(list(updated))
        )


def _as_of(snapshot: Snapshot, memory_id: int, run: Run) -> Version | None:
    """The version of a memory that a run sees: its own, else what was there when it began."""
    own = snapshot.list_run_writes(run.run_id)
    for version in snapshot.iterate_history(memory_id, newest_first=True):
        if version.version_id in own or (
            _was_there(version, run, own) and not _had_ended(snapshot, version, run)
        ):
            return version
    return None


def _had_ended(snapshot: Snapshot, version: Version, run: Run) -> bool:
    """Whether a version was replaced or forgotten before the run began."""
    state = version.state
    ends = [end for end in (state.closed, state.tombstoned, state.retired) if end is not None]
    if not ends or min(ends) != run.started:
        return bool(ends) and min(ends) < run.started
    # In the very millisecond: the feed has an order where the clock has none.
    return version.memory_id not in snapshot.list_changed_memories(run.change_seq)


def _is_current(version: Version) -> bool:
    return version.state.is_head and version.state.tombstoned is None


def is_open(version: Version, run: Run | None, now: Instant) -> bool:
    """Return True if a version may still surface: an end counts to the millisecond, whatever a run saw at its start."""
    return not has_ended(version.state, now) and (run is not None or _is_current(version))


def is_stated(version: Version, run: Run | None, now: Instant) -> bool:
    """Return True if a version is shown: an entry cannot say when it is true, so it is shown only while it is."""
    return is_open(version, run, now) and is_true_at(version.state, now)


# --- finding and showing -------------------------------------------------------------------------------------


def find(context: Context, snapshot: Snapshot, space: str, entry_id: str) -> Version | None:
    """The head of the memory that an id names in a space, whichever standard wrote it."""
    if entry_id.startswith("urn:ump:"):
        version = snapshot.find_by_name(ump.STANDARD, entry_id)
    elif entry_id.startswith(ID_PREFIX):
        version = snapshot.find_by_name(mapping.STANDARD, entry_id)
    elif len(entry_id) == ADDRESS_CHARS:
        version = snapshot.find_by_name(oms.STANDARD, entry_id)
    else:
        version = None
    if version is None:
        place = Place(namespace="", tenant=snapshot.tenant, space=space)
        version = snapshot.find_by_name(oams.STANDARD, name_of(context, place, entry_id))
    if version is None or version.state.space != space:
        return None
    head = snapshot.load_newest(version.memory_id)
    # A name of a later version names that version, not the memory: an entry has the name of its first.
    return head if _id(root_of(snapshot, head)) == entry_id else None


def id_of(snapshot: Snapshot, version: Version) -> str:
    """The id of the entry that a version shows as."""
    return _id(root_of(snapshot, version))


def _id(root: Version) -> str:
    reference = (
        None if root.state.erased else port_of(root.document.standard).reference(root.document)
    )
    return root.document.name if reference is None else reference[1]


def seen(context: Context, access: Access, snapshot: Snapshot, version: Version) -> Entry | None:
    """A version as an entry, if it is whole and for this caller."""
    if (
        version.state.erased
        or not holds(version)
        or not may_see(context, access, snapshot, version)
    ):
        return None
    return unless_damaged(version, lambda: show(context, snapshot, version))


def load_entry(version: Version) -> Entry:
    """A version that was written as an entry."""
    return cast(Entry, load(version.document.native))


def show(context: Context, snapshot: Snapshot, version: Version) -> Entry:
    """A version as an entry: itself, or the projection of another standard's memory."""
    root = root_of(snapshot, version)
    if mapping.owns(version.document) and root is version:
        return load_entry(version)
    read = project(context, version)
    # OAMS compares tags without regard to case, openwop does not: they are shown as they were written.
    tags = port_of(version.document.standard).written_tags(version.document)
    if tags is not None:
        read = replace(read, tags=tags)
    if root is not version and holds(root):
        # MemoryEntry: createdAt never changes, and neither does the id, which is the first version's.
        read = replace(read, created=project(context, root).created)
    return mapping.from_projection(read, _id(root))


def may_see(context: Context, access: Access, snapshot: Snapshot, version: Version) -> bool:
    """Whether a version is for this caller, whole."""
    is_free = access.sees_unredacted(version.tenant) and not access.is_narrowed
    return is_free or is_listed(context, access, snapshot, version)


def space_of(access: Access, ref: object, tenant: str) -> str | None:
    """The space of a ref that the caller may go to; None for what is malformed or another tenant's."""
    space = refs.resolve_ref(ref, tenant)
    if space is None or not access.within(
        {**access.limits, "owner": tenant, "project": space or None}
    ):
        return None
    return space


def _entry(
    access: Access, op: str, space: str, now: Instant, targets: tuple[str, ...], result: str
) -> Any:
    scope = {"owner": access.default_tenant, **({"project": space} if space else {})}
    return audit_entry(
        access, f"openwop.{op}", now=now, targets=targets, scope=scope, result=result
    )


def _audit(
    context: Context, access: Access, op: str, space: str, now: Instant, result: str
) -> None:
    context.audit_read(access.default_tenant, _entry(access, op, space, now, (), result))
