"""Lineage: which memories were derived from which, and what happens to them when a source is forgotten.

A derived memory (a summary, an archive, a dream) names its sources, whichever standard wrote it. When a source is
forgotten, the memories that a consolidation run derived from it are removed in the same unit of work: tombstoned or
erased, as the source is. The memories that a derived one had replaced are restored, except the source, so nothing else
is lost and the next run can derive it again. A derived memory that a person wrote belongs to that person and stays,
unless a consent is withdrawn (cascade.py).

A run may also let one memory stand for others: duplicates, or statements that it overtook. These are hidden behind it
as earlier versions are, and go with it when it is forgotten.

Modules of OAMS and OMS are imported inside functions: a command that only reads does not need them.

Terms: a memory is *derived* if it names sources; *hidden* if it was put behind another one by a run; it *goes with*
another one if it is derived from it or hidden by it. Items of the store hold what documents cannot: which versions an
entry replaced (an entry of openwop may not list them all), and which derived memory only waits for a hold to end.

Invariant: after any forget, erase, restore or undo, no readable memory may state what only a forgotten source stated,
and nothing that the derived memory had replaced may stay hidden. `tests/lines` checks it with random sequences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from memoranda.encoding.json_text import dump, parse
from memoranda.model.instant import Instant
from memoranda.model.memory import OMS, UMP, LinkReason, Version
from memoranda.model.oms_names import ADDRESS_PREFIX
from memoranda.service.core.context import Context
from memoranda.service.core.lifecycle import Tombstones, erase_version, tombstone_version
from memoranda.service.core.views import is_intact
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot, Unit

# Items of this kind list the versions that an entry replaced, by the entry's id.
_REPLACED_VERSIONS: Final = "openwop compaction"
# Items of this kind list the versions that were reopened when their entry was forgotten, by the entry's id.
_REOPENED_VERSIONS: Final = "reopened"
# Items of this kind name derived memories, by memory number, that should be deleted but are on legal hold. The value
# says if they are erased or tombstoned when the hold is lifted.
_DERIVED_ON_HOLD: Final = "derived, held"
_ERASE: Final = b"hard"
# Source name for everything in a space, used when a run read more memories than it can name.
EVERYTHING: Final = "*"
# Versions read at a time.
PAGE_LIMIT: Final = 500
DERIVED_REASON: Final = "what it was made from was erased"


def note_replaced(unit: Unit, entry_id: str, version_ids: Iterable[int]) -> None:
    """Note the versions that an entry replaces, so that they can be restored, or go with it."""
    unit.put_item(
        _REPLACED_VERSIONS,
        entry_id,
        dump(list(dict.fromkeys((*_load_replaced(unit, entry_id), *version_ids)))),
    )


def note_restored(unit: Unit, entry_id: str, version_ids: Collection[int]) -> None:
    """Note that an entry no longer stands for these versions."""
    remaining = [number for number in _load_replaced(unit, entry_id) if number not in version_ids]
    unit.delete_item(_REPLACED_VERSIONS, entry_id)
    if remaining:
        note_replaced(unit, entry_id, remaining)


def _load_replaced(snapshot: Snapshot, entry_id: str) -> list[int]:
    """Return the numbers of the versions that an entry replaced."""
    item = snapshot.load_item(_REPLACED_VERSIONS, entry_id)
    return [] if item is None else parse(item)


def find_hidden_memories(snapshot: Snapshot, memory_id: int) -> list[int]:
    """Return the memories that a consolidation run replaced by this one, and those replaced by them in turn."""
    waiting, hidden = [memory_id], list[int]()
    while waiting:
        history = snapshot.iterate_history(waiting.pop())
        names = dict.fromkeys(
            version_seen.document.name
            for version_seen in history
            if port_of(version_seen.document.standard).replaces_others
        )
        numbers = [number for name in names for number in _load_replaced(snapshot, name)]
        for version in snapshot.load_versions(numbers) if numbers else ():
            if version.state.superseded_by in names and version.memory_id not in (
                memory_id,
                *hidden,
            ):
                hidden.append(version.memory_id)
                waiting.append(version.memory_id)
    return hidden


def find_derived_versions(snapshot: Snapshot, memory_id: int) -> Iterator[Version]:
    """Yield the versions that name any version of a memory as their source, in any standard.

    Names are searched in every spelling by which a document may refer to the memory. May yield a version several times.
    """
    names: dict[str, None] = {}
    successors: list[tuple[str, str]] = []
    for version in snapshot.iterate_history(memory_id):
        names.update(dict.fromkeys(_iterate_names(snapshot, version)))
        standard = version.document.standard
        if version.state.superseded_by and port_of(standard).replaces_others:
            successors.append((standard, version.state.superseded_by))
    for name in names:
        for version in iterate_linked(snapshot, "source", name):
            # A run that names everything in a space as its source did not read later memories.
            is_later = version.version_id > memory_id
            if version.memory_id != memory_id and (is_later or not name.endswith(f"/{EVERYTHING}")):
                yield version
    for standard, successor in successors:
        successor_version = snapshot.find_by_name(standard, successor)
        if successor_version is not None and successor_version.memory_id != memory_id:
            yield successor_version


def _iterate_names(snapshot: Snapshot, version: Version) -> Iterator[str]:
    """Yield every name by which the sources of another document may refer to a version."""
    from memoranda.standards.oams import mapping as oams
    from memoranda.standards.oams.namespace import namespace_of

    names = snapshot.load_names(version.version_id)
    yield version.document.name
    yield from names.values()
    if OMS in names:
        yield ADDRESS_PREFIX + names[OMS]
    document, namespace = version.document, namespace_of(version.state.space, version.tenant)
    yield oams.format_reference(namespace, EVERYTHING)
    port = port_of(document.standard)
    if not port.has_local_names:
        yield oams.format_reference(namespace, oams.key_of(document))
    elif not version.state.erased and (reference := port.reference(document)) is not None:
        yield oams.format_reference(*reference)


def get_source_name(snapshot: Snapshot, version: Version) -> str:
    """Return the name of a version for use as a source, valid in this store and in others.

    An OAMS memory is named by its record: its own name is local, and its key may contain spaces.
    """
    name = version.document.name
    has_local_name = port_of(version.document.standard).has_local_names
    return snapshot.load_names(version.version_id).get(UMP, name) if has_local_name else name


def iterate_linked(snapshot: Snapshot, link: LinkReason, name: str) -> Iterator[Version]:
    """Yield every version that refers to a name by a link, page by page."""
    after: int | None = 0
    while after is not None:
        page = snapshot.list_linked(link, name, after=after, limit=PAGE_LIMIT)
        yield from page
        after = page[-1].version_id if len(page) == PAGE_LIMIT else None


def find_derived_memories(snapshot: Snapshot, memory_ids: Iterable[int]) -> list[int]:
    """Return the memories that runs derived from these, and from the derived ones in turn."""
    waiting = list(memory_ids)
    seen_ids, derived = set(waiting), list[int]()
    while waiting:
        for version in find_derived_versions(snapshot, waiting.pop()):
            if version.memory_id not in seen_ids and is_written_by_run(
                snapshot.load_newest(version.memory_id)
            ):
                seen_ids.add(version.memory_id)
                derived.append(version.memory_id)
                waiting.append(version.memory_id)
    return derived


def is_written_by_run(version: Version) -> bool:
    """Return True if a consolidation run wrote a version, and nobody changed it since.

    A damaged document counts as not written by a run, so that nothing is removed because of broken bytes.
    """
    if version.state.erased or not is_intact(version):
        return False
    return port_of(version.document.standard).is_derived(version.document)


def remove_derived(
    unit: Unit,
    memory_ids: Sequence[int],
    *,
    gone: Collection[int],
    tombstones: Tombstones | None,
    now: Instant,
) -> int:
    """Remove derived memories whose sources are going, and restore what they replaced; return the number removed.

    With `tombstones`, content is erased and these remain; without, the memories are only tombstoned. `gone` are the
    sources, which are not restored.

    Call it in the unit that removes the sources. `tombstones` were made before the unit by `create_tombstones`.
    """
    over = {
        version_id
        for memory_id in (*gone, *memory_ids)
        for version_id in unit.list_history_ids(memory_id)
    }
    count = 0
    for memory_id in memory_ids:
        if any(
            version_seen.state.has_legal_hold and not version_seen.state.erased
            for version_seen in unit.iterate_history(memory_id)
        ):
            # A legal hold comes first: the memory stays complete until the hold is lifted.
            unit.put_item(_DERIVED_ON_HOLD, str(memory_id), b"" if tombstones is None else _ERASE)
            continue
        last: Version | None = None
        for version in unit.iterate_history(memory_id):
            if not version.state.erased:
                _remove_version(unit, version, tombstones, now)
                last = version
        if last is not None:
            unit.announce("tombstoned", last, now=now)
            restore_replaced(unit, last, over, now)
            count += 1
    return count


def finish_held_removal(context: Context, unit: Unit, memory_id: int, now: Instant) -> int:
    """Remove a derived memory that only a legal hold kept, now that the hold is lifted; return the number removed."""
    mode = unit.load_item(_DERIVED_ON_HOLD, str(memory_id))
    if mode is None:
        return 0
    unit.delete_item(_DERIVED_ON_HOLD, str(memory_id))
    tombstones = Tombstones(context, DERIVED_REASON, now) if mode == _ERASE else None
    return remove_derived(unit, (memory_id,), gone=(), tombstones=tombstones, now=now)


def _remove_version(
    unit: Unit, version: Version, tombstones: Tombstones | None, now: Instant
) -> None:
    """Erase a version if tombstones are given, else tombstone it."""
    if tombstones is not None:
        erase_version(unit, version, tombstones)
    elif version.state.tombstoned is None:
        ends = version.state.valid_to
        tombstone_version(unit, version, valid_to=now if ends is None else min(ends, now), now=now)


def restore_replaced(unit: Unit, version: Version, over: Collection[int], now: Instant) -> int:
    """Reopen the versions that an entry replaced, except those in `over`; return their number.

    Note what was reopened, so that restoring the entry can hide it again (`replace_again`).
    """
    entry_id = version.document.name
    numbers = (
        _load_replaced(unit, entry_id) if port_of(version.document.standard).replaces_others else []
    )
    if not numbers:
        return 0
    unit.delete_item(_REPLACED_VERSIONS, entry_id)
    pairs = [(number, version.version_id) for number in numbers if number not in over]
    # For an undo, which lets the entry stand for them again.
    unit.put_item(_REOPENED_VERSIONS, entry_id, dump([number for number, _ in pairs]))
    return unit.reopen_superseded(pairs, now=now)


def replace_again(unit: Unit, memory_id: int, now: Instant) -> None:
    """Let a memory that was forgotten and is restored stand again for the versions that were reopened meanwhile."""
    for version in unit.iterate_history(memory_id):
        entry_id = version.document.name
        item = unit.load_item(_REOPENED_VERSIONS, entry_id)
        if item is None or not port_of(version.document.standard).replaces_others:
            continue
        unit.delete_item(_REOPENED_VERSIONS, entry_id)
        reopened = [
            candidate.version_id
            for candidate in unit.load_versions(parse(item))
            if candidate.state.is_head and not candidate.state.is_forgotten
        ]
        unit.supersede([(number, version.version_id) for number in reopened], now=now)
        note_replaced(unit, entry_id, reopened)


def reopen(unit: Unit, version: Version, now: Instant) -> bool:
    """Open a version again that a run put behind another memory; return False if its own memory superseded it."""
    for standard, name in version.state.successor_names.items():
        successor = unit.find_by_name(standard, name)
        if successor is not None and successor.memory_id != version.memory_id:
            note_restored(unit, successor.document.name, {version.version_id})
            pair = (version.version_id, successor.version_id)
            return bool(unit.reopen_superseded([pair], now=now))
    return False


def remove_derived_of(
    unit: Unit, memory_id: int, *, tombstones: Tombstones | None = None, now: Instant
) -> int:
    """Remove what was derived from a memory, and what it hides, before the memory itself goes; return the number."""
    memory_ids = find_memories_going_with(unit, memory_id)
    return (
        remove_derived(unit, memory_ids, gone=(memory_id,), tombstones=tombstones, now=now)
        if memory_ids
        else 0
    )


def find_memories_going_with(snapshot: Snapshot, memory_id: int) -> list[int]:
    """Return the memories that go with one: those it hides, and those that runs derived from any of them.

    Read it before the unit to prepare tombstones, and again inside, because somebody may have derived more meanwhile.
    """
    hidden = find_hidden_memories(snapshot, memory_id)
    return list(dict.fromkeys((*hidden, *find_derived_memories(snapshot, (memory_id, *hidden)))))


def create_tombstones(
    context: Context, snapshot: Snapshot, memory_ids: Iterable[int], now: Instant
) -> Tombstones:
    """Return the tombstones of derived memories."""
    histories = (snapshot.iterate_history(memory_id) for memory_id in memory_ids)
    return Tombstones(
        context, DERIVED_REASON, now, (version for history in histories for version in history)
    )


class ErasurePlan(NamedTuple):
    """The tombstones of a memory that is to be erased, and of the derived memories that go with it."""

    own: Tombstones
    derived: Tombstones


def plan_erasure(context: Context, version: Version, reason: str, now: Instant) -> ErasurePlan:
    """Prepare the erasure of a memory up to a version, before the writer's turn."""
    memory_id = version.memory_id
    with context.engine.open_snapshot(version.tenant) as snapshot:
        tombstones = Tombstones(context, reason, now, snapshot.iterate_history(memory_id))
        return ErasurePlan(
            tombstones,
            create_tombstones(
                context, snapshot, find_memories_going_with(snapshot, memory_id), now
            ),
        )
