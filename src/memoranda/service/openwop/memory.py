"""The MemoryAdapter of openwop over the one store: list and get for nodes, put and delete for hosts.

The tenant comes from the credential; a ref only chooses among the tenant's spaces (CTI-1). A ref that is malformed, or
has the form of another tenant's, answers as if it were empty.

A run sees the store as it was when the run began, with the run's own writes added. A listing for a run therefore merges
two streams, both ordered by their last update: the current versions that were there at the start of the run, and the
versions that were replaced or forgotten since. Changes of others show in the next run. An expiry counts at once.

Memories of every standard show as entries. Their id is that of their first version, whatever later versions are named.

An entry states little (id, content, tags, times), so memories with more are shown reduced, and are written back without
losing the rest: a replacement keeps the other fields of the memory (`_build_memory`). Secrets of a run are redacted in
everything that a run writes, at any depth.
"""

from __future__ import annotations

import heapq
import secrets
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from memoranda.encoding.bases import base32_encode
from memoranda.errors import Conflict, InvalidInput, WorkflowError
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import (
    DERIVED_FROM,
    AuditEntry,
    Document,
    Relation,
    Version,
    has_ended,
    is_over,
    is_true_at,
)
from memoranda.model.oms_names import ADDRESS_CHARS
from memoranda.model.selection import UPDATED, KeywordQuery, Selection, VisibleToRun
from memoranda.retrieval.analysis import keywords, query_terms
from memoranda.service.core import indexing
from memoranda.service.core.access import Access
from memoranda.service.core.authorship import refuse_peer_without_author
from memoranda.service.core.context import Context, audit_entry, describe_count
from memoranda.service.core.indexing import NewVersion
from memoranda.service.core.lineage import remove_derived_of
from memoranda.service.core.memory_line import forget_line
from memoranda.service.core.protection import check_supersession
from memoranda.service.core.views import find_first_version, is_intact, project, run_unless_damaged
from memoranda.service.oams import memories
from memoranda.service.oams.memories import stored_name
from memoranda.service.oams.views import Location, to_memory
from memoranda.service.oms.views import is_visible
from memoranda.service.openwop import runs
from memoranda.service.openwop.runs import Run
from memoranda.service.retrieve import (
    PAGE_BYTES,
    iterate_selected,
    restrict_selection,
    search_visible,
    with_phrase_reader,
)
from memoranda.standards.oams import mapping as oams
from memoranda.standards.oams.memory import TAGS_KEY, Memory, Unchecked, check_key
from memoranda.standards.oams.namespace import namespace_of
from memoranda.standards.oms import mapping as oms
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
# Hits searched per entry that is to be returned: some are not entries of this caller, or lack the tag.
_RANKED_FACTOR: Final = 2
# Versions per page of a scan in which most versions may be skipped.
_SCAN_LIMIT: Final = 200


def list_entries(
    context: Context,
    access: Access,
    ref: object,
    options: ListOptions | None = None,
    *,
    run_id: str | None = None,
) -> list[Entry]:
    """Return the entries of a ref, newest first or by relevance; none for a ref that is not the caller's.

    `run_id` shows the store as that run sees it. Raises WorkflowError `capability_required` for a ranking by relevance
    without an embedding model.
    """
    options = options or ListOptions()
    if options.rank == "relevance" and not context.has_semantic_search:
        # RFC 0113: a ranking by keywords is not the ranking that was requested.
        raise WorkflowError(
            "rank: this host has no semantic search (memory.search)",
            openwop_code=CAPABILITY_REQUIRED,
        )
    tenant, now = access.default_tenant, context.clock()
    space = space_of(access, ref, tenant)
    if space is None:
        return []
    if options.query is not None:
        context.semantic_search.settle(tenant)
    with context.engine.open_snapshot(tenant) as snapshot:
        run = None if run_id is None else runs.load(snapshot, run_id)
        entries = _collect(context, access, snapshot, space, options, run, now)[: options.limit]
    if options.token_budget is not None:
        entries = fit_budget(entries, options.token_budget, context.cal.counter.count)
    _audit(context, access, "list", space, now, describe_count(len(entries), "entry", "entries"))
    return entries


def get_entry(
    context: Context, access: Access, ref: object, entry_id: object, *, run_id: str | None = None
) -> Entry | None:
    """Return one entry of a ref, as it is or as a run sees it; None if there is none for this caller."""
    tenant, now = access.default_tenant, context.clock()
    space = space_of(access, ref, tenant)
    if space is None or not isinstance(entry_id, str) or not 0 < len(entry_id) <= MAX_ID_CHARS:
        return None
    with context.engine.open_snapshot(tenant) as snapshot:
        run = None if run_id is None else runs.load(snapshot, run_id)
        version = find(context, snapshot, space, entry_id)
        if version is not None and run is not None:
            version = _version_for_run(snapshot, version.memory_id, run)
        entry = None
        if version is not None and is_shown(version, run, now):
            entry = show_to(context, access, snapshot, version)
    _audit(context, access, "get", space, now, "ok" if entry else "none")
    return entry


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

    Without `entry_id` the store gives the entry a new id and its time; with one, the entry replaces the one under it.
    `run_id` writes on behalf of a run and logs the write there, with `node_id` and `agent_id` as its authors.

    With an `entry_id`, the entry is an OAMS memory under that key, because an id chosen by a host must be stable.
    """
    tenant, now = access.default_tenant, context.clock()
    space = _check_writable(access, ref, (draft,), now)
    run_key = None if run_id is None else (tenant, run_id)
    if run_key is not None and any(
        context.secrets.contains_secret(name, run_key) for name in (ref, entry_id or "")
    ):
        raise InvalidInput("memoryRef or id: holds a secret of the run")
    clean = context.secrets.redact_draft(draft, run_key)
    clean_node, clean_agent = (
        name and context.secrets.redact_text(name, run_key, "node") for name in (node_id, agent_id)
    )
    write = _prepare_write(context, access, space, clean, entry_id, now)

    def work(unit: Unit) -> Entry:
        entry, version = write(unit)
        if run_id is not None:
            runs.load_writing(context, unit, run_id)
            unit.add_run_write(run_id, version.version_id)
            _log_write(unit, run_id, ref, entry, now, node_id=clean_node, agent_id=clean_agent)
        unit.record_audit(_audit_entry(access, "put", space, now, (entry["id"],), "written"))
        return entry

    return context.engine.write(tenant, work)


def _check_writable(access: Access, ref: str, drafts: Sequence[Draft], now: Instant) -> str:
    """Return the space of a ref in which the caller may write these entries. Raises InvalidInput."""
    refuse_peer_without_author(access)
    space = space_of(access, ref, access.default_tenant)
    if space is None:
        raise InvalidInput("memoryRef: not one of this host")
    if any(draft.expires is not None and draft.expires <= now for draft in drafts):
        raise InvalidInput("entry.expiresAt is already past")
    return space


def _prepare_write(
    context: Context, access: Access, space: str, draft: Draft, entry_id: str | None, now: Instant
) -> Callable[[Unit], tuple[Entry, Version]]:
    """Return a function that writes an entry in a unit of work; all work that needs no writer is done before."""
    if entry_id is not None:
        return _prepare_replacement(context, access, space, draft, entry_id, now)
    new_entry = prepare(context, access.default_tenant, space, draft, now)
    return lambda unit: (new_entry.entry, append(unit, new_entry, now))


def _prepare_replacement(
    context: Context, access: Access, space: str, draft: Draft, entry_id: str, now: Instant
) -> Callable[[Unit], tuple[Entry, Version]]:
    """Return a function that writes an entry under an id chosen by the host, as the OAMS memory with that key.

    A memory that is there gets a new version. It keeps its creation time and its other fields, and it expires no later
    than before (RFC 0004 §E). The function raises Conflict if the memory changes before it is called.
    """
    location = Location(
        namespace=namespace_of(space, access.default_tenant),
        tenant=access.default_tenant,
        space=space,
    )
    key = check_key(entry_id)

    def find_prior(snapshot: Snapshot) -> Version | None:
        return memories.find_head(context, snapshot, location, key, or_retracted=True)

    with context.engine.open_snapshot(location.tenant) as snapshot:
        prior = find_prior(snapshot)
        prior_memory = None if prior is None else to_memory(context, snapshot, prior, location)
    # `accept` opens a snapshot of its own for the owner's rules; `write` notices a change in between.
    successor = _build_memory(location, key, draft, prior_memory)
    accepted = memories.accept(context, access, successor, now=now)
    with context.engine.open_snapshot(location.tenant) as snapshot:
        foreseen = memories.prepare_next(context, snapshot, accepted, prior, now)

    def write(unit: Unit) -> tuple[Entry, Version]:
        head = find_prior(unit)
        if head != prior:
            raise Conflict("the entry was changed meanwhile; try again")
        memories.write_next(context, unit, foreseen, head, now)
        version = find_prior(unit)
        assert version is not None
        return show(context, unit, version), version

    return write


def _build_memory(location: Location, key: str, draft: Draft, prior: Memory | None) -> Unchecked:
    """Return the OAMS memory of a draft: the prior one with another value, tags and expiry."""
    fields: Unchecked = {**prior} if prior is not None else {}
    # The vector belongs to the earlier text.
    fields.pop("embedding", None)
    fields.pop("embedding_model", None)
    if fields.get("source_id") == key:
        # The prior memory is the view of another standard's, which it names as its source.
        del fields["source_id"]
    metadata = dict(fields.get("metadata") or {})
    metadata.pop(TAGS_KEY, None)
    if draft.expires is not None:
        metadata[oams.EXPIRES_KEY] = format_instant(draft.expires)
    fields |= {
        "namespace": location.namespace,
        "key": key,
        "value": draft.content,
        "tags": list(draft.tags),
    }
    if metadata:
        fields["metadata"] = metadata
    return fields


def put_entries(context: Context, access: Access, ref: str, drafts: Sequence[Draft]) -> list[Entry]:
    """Write many new entries in one unit of work, so that all or none are written."""
    tenant, now = access.default_tenant, context.clock()
    space = _check_writable(access, ref, drafts, now)
    new_entries = [
        prepare(context, tenant, space, context.secrets.redact_draft(draft, None), now)
        for draft in drafts
    ]

    def work(unit: Unit) -> list[Entry]:
        for new_entry in new_entries:
            append(unit, new_entry, now)
        unit.record_audit(
            _audit_entry(access, "put", space, now, (), f"{len(new_entries)} written")
        )
        return [new_entry.entry for new_entry in new_entries]

    return context.engine.write(tenant, work)


class NewEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A prepared entry, to be written in a unit of work."""

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
) -> NewEntry:
    """Return a redacted draft as an entry with a new id, created `now`; `sources` are the names of its sources."""
    entry = build_entry(
        id=ID_PREFIX + base32_encode(secrets.token_bytes(15)),
        content=draft.content,
        tags=draft.tags,
        created=now,
        expires=draft.expires,
    )
    document = Document(
        standard=mapping.STANDARD,
        media_type=mapping.MEDIA_TYPE,
        name=entry["id"],
        native=mapping.encode(entry),
    )
    projection = mapping.project(entry, tenant, space)
    if sources:
        # Relations name all sources; the tags of an entry have room for some only.
        relations = tuple(Relation(type=DERIVED_FROM, target=name) for name in sources)
        projection = replace(projection, relations=relations)
    return NewEntry(entry=entry, version=indexing.prepare(context, document, projection))


def append(unit: Unit, new_entry: NewEntry, now: Instant) -> Version:
    """Write a prepared entry and announce it in the change feed."""
    version = new_entry.version.append(unit, now=now)
    unit.announce("created", version, now=now)
    return version


def _log_write(
    unit: Unit,
    run_id: str,
    ref: str,
    entry: Entry,
    now: Instant,
    *,
    node_id: str | None,
    agent_id: str | None,
) -> None:
    """Append the event of a write to the log of its run."""
    payload: dict[str, object] = {"memoryRef": ref, "memoryId": entry["id"]}
    optional = {"nodeId": node_id, "agentId": agent_id}
    payload |= {name: value for name, value in optional.items() if value is not None}
    if entry["tags"]:
        payload["tags"] = list(entry["tags"])
    runs.emit(unit, run_id, events.MEMORY_WRITTEN, payload, now=now, node_id=node_id)


def delete_entry(context: Context, access: Access, ref: str, entry_id: str) -> bool:
    """Forget an entry. Return False if there is none for this caller."""
    tenant, now = access.default_tenant, context.clock()
    space = space_of(access, ref, tenant)
    if space is None:
        return False

    def work(unit: Unit) -> bool:
        version = find(context, unit, space, entry_id)
        if (
            version is None
            or not is_current(version, None, now)
            or not may_see(context, access, unit, version)
        ):
            return False
        forget_entry(access, unit, version=version, now=now)
        return True

    return context.engine.write(tenant, work)


def forget_version(access: Access, version_id: int, now: Instant, unit: Unit) -> bool:
    """Forget a version that was read before this unit of work. Return False if it has ended since."""
    (version,) = unit.load_versions([version_id])
    if is_over(version.state, now):
        return False
    forget_entry(access, unit, version=version, now=now)
    return True


def forget_entry(access: Access, unit: Unit, *, version: Version, now: Instant) -> None:
    """Forget an entry in a unit of work, and with it the results that consolidation runs derived from it."""
    check_supersession(unit, version, {}, now=now)
    forget_line(unit, version, now)
    unit.announce("tombstoned", version, now=now)
    remove_derived_of(unit, version.memory_id, now=now)
    name = id_of(unit, version)
    unit.record_audit(
        _audit_entry(access, "delete", version.state.space, now, (name,), "tombstoned")
    )


# --- listing, for everyone and for a run ---------------------------------------------------------------------


def _collect(
    context: Context,
    access: Access,
    snapshot: Snapshot,
    space: str,
    options: ListOptions,
    run: Run | None,
    now: Instant,
) -> list[Entry]:
    """Return the entries for a list request in their order: at least `options.limit`, if there are so many.

    The scan runs by time of update, but entries are ordered by time of creation. It stops as soon as no later version
    can be among the newest `options.limit` entries, or after PAGE_BYTES of documents.
    """

    def entry_of(version: Version) -> Entry | None:
        if not is_shown(version, run, now):
            return None
        entry = show_to(context, access, snapshot, version)
        if entry is not None and options.tag is not None and options.tag not in entry["tags"]:
            return None
        return entry

    if options.rank == "relevance" and options.query is not None:
        ranked = map(entry_of, _rank(context, access, snapshot, space, options, run, now))
        return [entry for entry in ranked if entry is not None]
    results: list[tuple[Instant, int, Entry]] = []
    # A heap of the newest creation times so far; its first is the oldest that would be returned.
    newest: list[Instant] = []
    total_bytes = 0
    ended_entries = () if run is None else _ended_since(snapshot, space, run)
    current = _current_versions(context, snapshot, access, space, options, run, now)
    for version, updated in heapq.merge(current, ended_entries, key=itemgetter(1), reverse=True):
        entry = entry_of(version)
        if entry is not None:
            created = created_of(entry)
            results.append((created, version.memory_id, entry))
            if len(newest) < options.limit:
                heapq.heappush(newest, created)
            else:
                heapq.heappushpop(newest, created)
            total_bytes += len(version.document.native)
        # Nothing is created after its last update, so what follows is older than all entries in the heap.
        is_complete = len(newest) >= options.limit and updated <= newest[0]
        if is_complete or total_bytes > PAGE_BYTES:
            break
    # Entries of one instant are ordered by when they were written, the last first.
    results.sort(key=itemgetter(0, 1), reverse=True)
    return [entry for _, _, entry in results]


def _current_versions(
    context: Context,
    snapshot: Snapshot,
    access: Access,
    space: str,
    options: ListOptions,
    run: Run | None,
    now: Instant,
) -> Iterator[tuple[Version, Instant]]:
    """Yield the current versions that the run sees, if there is one, with their last update, latest first."""
    selection = _selection(context, access, snapshot, space, options, run)
    page_size = options.limit
    if options.tag is not None and not selection.tags:
        # The index does not know the tag, so most of a page may be skipped.
        page_size = max(page_size, _SCAN_LIMIT)
    for version, (updated, _) in iterate_selected(
        snapshot, selection, UPDATED, now=now, size=page_size
    ):
        yield version, Instant(updated)


def _selection(
    context: Context,
    access: Access,
    snapshot: Snapshot,
    space: str,
    options: ListOptions,
    run: Run | None,
) -> Selection:
    """Return the current memories of a space that the caller and the run may see, with the tag if it is indexed."""
    tags: tuple[str, ...] = ()
    if options.tag is not None and _is_indexed(options.tag):
        tags = (options.tag.lower(),)
    tests = () if run is None else (VisibleToRun(run_id=run.run_id, version_seq=run.version_seq),)
    return restrict_selection(
        context, access, snapshot, Selection(space=space, tags=tags, tests=tests, in_force=True)
    )


def _is_indexed(tag: str) -> bool:
    """Return True if the index knows a tag. It does not know those that `show` adds to tell the origin of a memory."""
    return (
        not tag.startswith((mapping.SOURCE_PREFIX, mapping.DERIVED_PREFIX))
        and len(tag) < MAX_TAG_CHARS
    )


def _rank(
    context: Context,
    access: Access,
    snapshot: Snapshot,
    space: str,
    options: ListOptions,
    run: Run | None,
    now: Instant,
) -> list[Version]:
    """Return the versions that match the query, best first."""
    assert options.query is not None
    retrievers = context.semantic_search.create_retriever_queries(
        with_phrase_reader(context, KeywordQuery(text=options.query))
    )
    selection = _selection(context, access, snapshot, space, options, run)
    limit = _RANKED_FACTOR * options.limit
    ranking = search_visible(
        snapshot, selection, retrievers, lambda version: version, limit=limit, now=now
    )
    versions = [hit.version for hit in ranking.hits]
    if run is None:
        return versions
    return _merge_ended(context, snapshot, space, options.query, versions, run)


def _merge_ended(
    context: Context, snapshot: Snapshot, space: str, query: str, ranked: list[Version], run: Run
) -> list[Version]:
    """Insert the versions that the run still sees, and no index holds, by the number of query words that they share."""
    query_words = query_terms(query)

    def count_shared(version: Version) -> int:
        projection = run_unless_damaged(version, lambda: project(context, version))
        return 0 if projection is None else len(query_words.intersection(keywords(projection.text)))

    counted_entries = (
        (count_shared(version), version) for version, _ in _ended_since(snapshot, space, run)
    )
    counted_ended = [(count, version) for count, version in counted_entries if count]
    if not counted_ended:
        return ranked
    counted_all = [(count_shared(version), version) for version in ranked]
    for count, version in counted_ended:
        smaller = (index for index, (other, _) in enumerate(counted_all) if other < count)
        counted_all.insert(next(smaller, len(counted_all)), (count, version))
    return [version for _, version in counted_all]


def _ended_since(snapshot: Snapshot, space: str, run: Run) -> Iterator[tuple[Version, Instant]]:
    """Yield the versions that were replaced or forgotten after the run began, with their last update, latest first."""
    ended_versions = snapshot.list_ended_since(run.view, space)
    for first in range(0, len(ended_versions), _SCAN_LIMIT):
        updates = dict(ended_versions[first : first + _SCAN_LIMIT])
        for version in snapshot.iterate_versions(list(updates)):
            yield version, updates[version.version_id]


def _version_for_run(snapshot: Snapshot, memory_id: int, run: Run) -> Version | None:
    """Return the version of a memory that a run sees: its own write, else the one that was current when it began."""
    own_ids = snapshot.list_run_writes(run.run_id)
    for version in snapshot.iterate_history(memory_id, newest_first=True):
        if version.version_id in own_ids:
            return version
        is_earlier = version.version_id <= run.version_seq
        if is_earlier and not _ended_before(snapshot, version, run):
            return version
    return None


def _ended_before(snapshot: Snapshot, version: Version, run: Run) -> bool:
    """Return True if a version was replaced or forgotten before the run began."""
    state = version.state
    ends = [end for end in (state.closed, state.tombstoned, state.retired) if end is not None]
    if not ends:
        return False
    if min(ends) != run.started:
        return min(ends) < run.started
    # Both happened in one millisecond; the change feed tells their order.
    return version.memory_id not in snapshot.list_changed_memories(run.change_seq)


def is_current(version: Version, run: Run | None, now: Instant) -> bool:
    """Return True if a version has not ended, and is the head of its memory or was chosen for a run."""
    if has_ended(version.state, now):
        return False
    return run is not None or (version.state.is_head and version.state.tombstoned is None)


def is_shown(version: Version, run: Run | None, now: Instant) -> bool:
    """Return True if a version is current and true now: an entry cannot state a time in which it is true."""
    return is_current(version, run, now) and is_true_at(version.state, now)


# --- finding and showing -------------------------------------------------------------------------------------


def find(context: Context, snapshot: Snapshot, space: str, entry_id: str) -> Version | None:
    """Return the head of the memory with an entry id in a space, whichever standard wrote it; None if there is none.

    Any id under which some standard shows the memory is accepted.
    """
    if entry_id.startswith("urn:ump:"):
        version = snapshot.find_by_name(ump.STANDARD, entry_id)
    elif entry_id.startswith(ID_PREFIX):
        version = snapshot.find_by_name(mapping.STANDARD, entry_id)
    elif len(entry_id) == ADDRESS_CHARS:
        version = snapshot.find_by_name(oms.STANDARD, entry_id)
    else:
        version = None
    if version is None:
        location = Location(namespace="", tenant=snapshot.tenant, space=space)
        version = snapshot.find_by_name(oams.STANDARD, stored_name(context, location, entry_id))
    if version is None or version.state.space != space:
        return None
    head = snapshot.load_newest(version.memory_id)
    # The name of a later version names that version only: the id of an entry is the name of its first.
    return head if _id_of_root(find_first_version(snapshot, head)) == entry_id else None


def id_of(snapshot: Snapshot, version: Version) -> str:
    """Return the id of the entry that a version is shown as."""
    return _id_of_root(find_first_version(snapshot, version))


def _id_of_root(root: Version) -> str:
    """Return the id of a memory by its first version: the key of an OAMS memory, else the document's name."""
    if root.state.erased:
        return root.document.name
    reference = port_of(root.document.standard).reference(root.document)
    return root.document.name if reference is None else reference[1]


def show_to(context: Context, access: Access, snapshot: Snapshot, version: Version) -> Entry | None:
    """Return a version as an entry; None if it is erased, damaged, or not visible to this caller."""
    if (
        version.state.erased
        or not is_intact(version)
        or not may_see(context, access, snapshot, version)
    ):
        return None
    return run_unless_damaged(version, lambda: show(context, snapshot, version))


def load_entry(version: Version) -> Entry:
    """Return the entry of a version that was written through openwop."""
    return cast(Entry, load(version.document.native))


def show(context: Context, snapshot: Snapshot, version: Version) -> Entry:
    """Return a version as an entry: its own document, or the projection of another standard's memory."""
    root = find_first_version(snapshot, version)
    if mapping.owns(version.document) and root is version:
        return load_entry(version)
    projection = project(context, version)
    # Projections have tags in lower case, as OAMS compares them. Openwop compares case, so the written tags are shown.
    tags = port_of(version.document.standard).written_tags(version.document)
    if tags is not None:
        projection = replace(projection, tags=tags)
    if root is not version and not root.state.erased and is_intact(root):
        # MemoryEntry: createdAt never changes, and neither does the id, which is the first version's.
        projection = replace(projection, created=project(context, root).created)
    return mapping.from_projection(projection, _id_of_root(root))


def may_see(context: Context, access: Access, snapshot: Snapshot, version: Version) -> bool:
    """Return True if the caller may see a version completely; an entry cannot be shown in part."""
    is_unrestricted = access.sees_unredacted(version.tenant) and not access.is_narrowed
    return is_unrestricted or is_visible(context, access, snapshot, version)


def space_of(access: Access, ref: object, tenant: str) -> str | None:
    """Return the space of a ref; None if the ref is malformed, another tenant's, or outside of the caller's limits."""
    space = refs.resolve_ref(ref, tenant)
    if space is None or not access.allows_scope(
        {**access.limits, "owner": tenant, "project": space or None}
    ):
        return None
    return space


def _audit_entry(
    access: Access, op: str, space: str, now: Instant, targets: tuple[str, ...], result: str
) -> AuditEntry:
    scope = {"owner": access.default_tenant, **({"project": space} if space else {})}
    return audit_entry(
        access, f"openwop.{op}", now=now, targets=targets, scope=scope, result=result
    )


def _audit(
    context: Context, access: Access, op: str, space: str, now: Instant, result: str
) -> None:
    context.audit_read(access.default_tenant, _audit_entry(access, op, space, now, (), result))
