"""What was made from a memory forgets with it: summaries, archives, dreams.

A derived memory names what it was made from, whichever standard made it. When a source is forgotten, what a pass made
from it goes in the same unit of work, softly or for good as the source does, and what that had taken the place of comes
back, without the source: nothing else is lost, and the next pass makes it anew. What a person wrote and says to be
derived from it is theirs and stays, unless a consent is withdrawn (`cascade`).

What a memory stands for since a pass (what says the same, what it overtook) is hidden behind it, as an earlier wording
is: when it is forgotten itself, so is that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from memoranda.encoding.json_text import dump, parse
from memoranda.model.instant import Instant
from memoranda.model.memory import OMS, UMP, LinkReason, Version
from memoranda.service.core.context import Context
from memoranda.service.core.lifecycle import Tombstones, erase_version, tombstone_version
from memoranda.service.core.views import is_intact
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot, Unit

# Kept beside the memories: which versions an entry took the place of, by its id.
_REPLACED_VERSIONS: Final = "openwop compaction"
# And which derived memories only a hold keeps, by their number, and whether they are to go for good.
_DERIVED_ON_HOLD: Final = "derived, held"
_ERASE: Final = b"hard"
# What stands for everything in a space as a source, where a pass read more than it can name.
EVERYTHING: Final = "*"
PAGE_LIMIT: Final = 500
_REASON: Final = "what it was made from was erased"


def note_replaced(unit: Unit, entry_id: str, version_ids: Iterable[int]) -> None:
    """Note what an entry takes the place of, so that it can come back, or go with it."""
    unit.put_item(
        _REPLACED_VERSIONS,
        entry_id,
        dump(list(dict.fromkeys((*_load_replaced(unit, entry_id), *version_ids)))),
    )


def note_restored(unit: Unit, entry_id: str, version_ids: Collection[int]) -> None:
    """Note that an entry does not stand for these any more."""
    remaining = [number for number in _load_replaced(unit, entry_id) if number not in version_ids]
    unit.delete_item(_REPLACED_VERSIONS, entry_id)
    if remaining:
        note_replaced(unit, entry_id, remaining)


def _load_replaced(snapshot: Snapshot, entry_id: str) -> list[int]:
    stored = snapshot.load_item(_REPLACED_VERSIONS, entry_id)
    return [] if stored is None else parse(stored)


def find_hidden_memories(snapshot: Snapshot, memory_id: int) -> list[int]:
    """The memories that a memory stands for since a pass, and what those stood for."""
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
    """The versions that name any version of a memory as what they were made from, in any standard's words."""
    names: dict[str, None] = {}
    successors: list[tuple[str, str]] = []
    for version in snapshot.iterate_history(memory_id):
        names.update(dict.fromkeys(_iterate_names(snapshot, version)))
        standard = version.document.standard
        if version.state.superseded_by and port_of(standard).replaces_others:
            successors.append((standard, version.state.superseded_by))
    for name in names:
        for version in iterate_linked(snapshot, "source", name):
            # Whoever read everything did not read what was written later.
            is_later = version.version_id > memory_id
            if version.memory_id != memory_id and (is_later or not name.endswith(f"/{EVERYTHING}")):
                yield version
    for standard, successor in successors:
        successor_version = snapshot.find_by_name(standard, successor)
        if successor_version is not None and successor_version.memory_id != memory_id:
            yield successor_version


def _iterate_names(snapshot: Snapshot, version: Version) -> Iterator[str]:
    from memoranda.standards.oams import mapping as oams
    from memoranda.standards.oams.namespace import namespace_of
    from memoranda.standards.oms import mapping as oms

    names = snapshot.load_names(version.version_id)
    yield version.document.name
    yield from names.values()
    if OMS in names:
        yield oms.ADDRESS_PREFIX + names[OMS]
    document, namespace = version.document, namespace_of(version.state.space, version.tenant)
    yield oams.format_reference(namespace, EVERYTHING)
    port = port_of(document.standard)
    if not port.has_local_names:
        yield oams.format_reference(namespace, oams.key_of(document))
    elif not version.state.erased and (reference := port.reference(document)) is not None:
        yield oams.format_reference(*reference)


def get_source_name(snapshot: Snapshot, version: Version) -> str:
    """What a version is called by what is made from it, in this store and in any other that both are brought to.

    The name of an OAMS memory is this store's own, and its key may hold spaces: it is called as its record is.
    """
    name = version.document.name
    has_local_name = port_of(version.document.standard).has_local_names
    return snapshot.load_names(version.version_id).get(UMP, name) if has_local_name else name


def iterate_linked(snapshot: Snapshot, link: LinkReason, name: str) -> Iterator[Version]:
    """Everything that names something, page by page."""
    after: int | None = 0
    while after is not None:
        page = snapshot.list_linked(link, name, after=after, limit=PAGE_LIMIT)
        yield from page
        after = page[-1].version_id if len(page) == PAGE_LIMIT else None


def find_derived_memories(snapshot: Snapshot, memory_ids: Iterable[int]) -> list[int]:
    """The memories that passes made from these, and from what they made."""
    waiting = list(memory_ids)
    seen, derived = set(waiting), list[int]()
    while waiting:
        for version in find_derived_versions(snapshot, waiting.pop()):
            if version.memory_id not in seen and is_written_by_run(
                snapshot.load_newest(version.memory_id)
            ):
                seen.add(version.memory_id)
                derived.append(version.memory_id)
                waiting.append(version.memory_id)
    return derived


def is_written_by_run(version: Version) -> bool:
    """Return True if a consolidation run wrote a version; one that somebody changed since is theirs."""
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
    """Let derived memories go with those that are gone, and what they took the place of come back; how many went.

    For good, and then these are left of them; or softly.
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
            # A hold beats it: it goes when that is lifted, and meanwhile nothing of it does.
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
    """Let a derived memory go that only a hold kept when what it was made from went; how many went."""
    mode = unit.load_item(_DERIVED_ON_HOLD, str(memory_id))
    if mode is None:
        return 0
    unit.delete_item(_DERIVED_ON_HOLD, str(memory_id))
    tombstones = Tombstones(context, _REASON, now) if mode == _ERASE else None
    return remove_derived(unit, (memory_id,), gone=(), tombstones=tombstones, now=now)


def _remove_version(
    unit: Unit, version: Version, tombstones: Tombstones | None, now: Instant
) -> None:
    if tombstones is not None:
        erase_version(unit, version, tombstones)
    elif version.state.tombstoned is None:
        ends = version.state.valid_to
        tombstone_version(unit, version, valid_to=now if ends is None else min(ends, now), now=now)


def restore_replaced(unit: Unit, version: Version, over: Collection[int], now: Instant) -> int:
    """Let what an entry took the place of be there again, but for what is over; how much came back."""
    entry_id = version.document.name
    numbers = (
        _load_replaced(unit, entry_id) if port_of(version.document.standard).replaces_others else []
    )
    if not numbers:
        return 0
    unit.delete_item(_REPLACED_VERSIONS, entry_id)
    pairs = [(number, version.version_id) for number in numbers if number not in over]
    return unit.reopen_superseded(pairs, now=now)


def remove_derived_of(
    unit: Unit, memory_id: int, *, tombstones: Tombstones | None = None, now: Instant
) -> int:
    """Let what passes made from one memory, and what it stands for, go with it: before it goes itself."""
    memory_ids = find_memories_going_with(unit, memory_id)
    return (
        remove_derived(unit, memory_ids, gone=(memory_id,), tombstones=tombstones, now=now)
        if memory_ids
        else 0
    )


def find_memories_going_with(snapshot: Snapshot, memory_id: int) -> list[int]:
    """The memories that go when one does: those it stands for, and what passes made from any of these."""
    hidden = find_hidden_memories(snapshot, memory_id)
    return list(dict.fromkeys((*hidden, *find_derived_memories(snapshot, (memory_id, *hidden)))))


def create_tombstones(
    context: Context, snapshot: Snapshot, memory_ids: Iterable[int], now: Instant
) -> Tombstones:
    """What will be left of derived memories."""
    histories = (snapshot.iterate_history(memory_id) for memory_id in memory_ids)
    return Tombstones(
        context, _REASON, now, (version for history in histories for version in history)
    )


class ErasurePlan(NamedTuple):
    """What will be left of a memory that is erased, and of what goes with it."""

    own: Tombstones
    derived: Tombstones


def plan_erasure(context: Context, version: Version, reason: str, now: Instant) -> ErasurePlan:
    """Everything that can be made before the writer's turn to erase a memory up to a version."""
    memory_id = version.memory_id
    with context.engine.read(version.tenant) as snapshot:
        own = Tombstones(context, reason, now, snapshot.iterate_history(memory_id))
        return ErasurePlan(
            own,
            create_tombstones(
                context, snapshot, find_memories_going_with(snapshot, memory_id), now
            ),
        )
