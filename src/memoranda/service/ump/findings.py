"""Memories that a person should look at, because they say the same as another or because their day has passed.

Both follow from the current memories in one pass. Nothing is changed: a person keeps one of several duplicates, ends
what is over, or dismisses the finding. Only dismissals are stored, by a name that changes with the memories.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from memoranda.consolidation.text.corpus import Corpus
from memoranda.consolidation.text.note import MemoryNote
from memoranda.consolidation.text.similar import group_duplicates
from memoranda.model.calendar import utc_day
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import has_ended
from memoranda.retrieval.analysis import searchable_text
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.views import run_unless_damaged, view_record
from memoranda.service.verify import iterate_versions
from memoranda.standards.ump.record import Record
from memoranda.storage.engine.contract import Unit
from memoranda.time_words.dates import NamedDay, find_days

# Items of this kind: the keys of findings that their owner dismissed.
_DISMISSED: Final = "finding dismissed"
# Characters: a longer text is no single fact, so neither its duplicates nor its dates say that it is superfluous.
_FACT_CHARS: Final = 400
# Findings of each kind; more than a person decides in a sitting.
_REVIEWED: Final = 100
# Memories of one group of duplicates that are shown.
_GROUP_LIMIT: Final = 6
# Versions between two questions whether to go on.
_STOP_VERSIONS: Final = 200
# Days that a named month or year lasts.
_GRAIN_DAYS: Final = {"day": 1, "month": 31, "year": 366}
# Words without which two texts still say the same. The exact comparison follows.
_EMPTY_WORDS: Final = frozenset("the please a an is are".split())


class CurrentMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory of a finding: its id, its text, and when it was written."""

    id: str
    text: str
    created: str


class DuplicateGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Memories of one project and person that say the same, the newest first."""

    key: str
    project: str
    memories: tuple[CurrentMemory, ...]


class StaleFact(msgspec.Struct, frozen=True, kw_only=True):
    """A memory about a day that lay ahead when it was written and is past now; `day` is the day after it."""

    key: str
    memory: CurrentMemory
    project: str
    day: str


class CurrentFindings(msgspec.Struct, frozen=True, kw_only=True):
    """The findings in the current memories, the newest first."""

    duplicates: list[DuplicateGroup]
    stale: list[StaleFact]


def find_in_current(
    context: Context, access: Access, *, should_stop: Callable[[], bool] = lambda: False
) -> CurrentFindings:
    """Return the duplicates and the stale facts among the caller's current memories, without those dismissed."""
    access.require("read")
    access.require_whole_owner()
    tenant = access.default_tenant
    with context.engine.open_snapshot(tenant) as snapshot:
        dismissed = snapshot.load_items(_DISMISSED)
    today = utc_day(context.clock())
    stale: list[StaleFact] = []
    # The ids of memories by what they say, roughly, in which project and about whom. Texts are read again later.
    names: dict[bytes, list[str]] = defaultdict(list)
    for record in _iterate_facts(context, tenant, should_stop):
        names[_digest_of(record)].append(record["id"])
        fact = _read_stale(record, today)
        if fact is not None and fact.key not in dismissed:
            stale.append(fact)
    candidates = [group for group in names.values() if len(group) > 1]
    groups = _confirm_groups(context, tenant, candidates[-4 * _REVIEWED :])
    return CurrentFindings(
        duplicates=[group for group in reversed(groups) if group.key not in dismissed][:_REVIEWED],
        stale=stale[::-1][:_REVIEWED],
    )


def _iterate_facts(
    context: Context, tenant: str, should_stop: Callable[[], bool]
) -> Iterator[Record]:
    """Yield the current memories that may be single facts."""
    now = context.clock()
    for count, version in enumerate(iterate_versions(context, tenant), 1):
        if count % _STOP_VERSIONS == 0 and should_stop():
            return
        state = version.state
        if not state.is_head or state.is_forgotten or state.erased or has_ended(state, now):
            continue
        record = run_unless_damaged(version, partial(view_record, context, version, now))
        if record is not None and 0 < len(record["body"]["text"]) <= _FACT_CHARS:
            yield record


def _digest_of(record: Record) -> bytes:
    """Return a digest that is equal for memories that may be duplicates."""
    words = sorted(set(searchable_text(record["body"]["text"]).split()) - _EMPTY_WORDS)
    scope = record["scope"]
    parts = (scope.get("project", ""), scope.get("user", ""), *words)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).digest()


def _confirm_groups(
    context: Context, tenant: str, candidates: list[list[str]]
) -> list[DuplicateGroup]:
    """Return the groups whose memories make the same statements, by the exact comparison of consolidation."""
    groups = []
    now = context.clock()
    for names in candidates:
        records: dict[str, Record] = {}
        with context.engine.open_snapshot(tenant) as snapshot:
            for name in names[-_GROUP_LIMIT:]:
                version = snapshot.find_by_name("ump", name)
                if version is not None and not version.state.erased:
                    records[name] = view_record(context, version, now)
        notes = [
            MemoryNote(name, record["body"]["text"], parse_instant(record["time"]["created"]))
            for name, record in records.items()
        ]
        groups += [
            _build_group([records[note.name] for note in group])
            for group in group_duplicates(Corpus(notes))
        ]
    return groups


def _build_group(records: list[Record]) -> DuplicateGroup:
    """Return a group of duplicates, the newest first."""
    memories = sorted(map(_outline, records), key=lambda memory: memory.created, reverse=True)
    names = "\0".join(sorted(memory.id for memory in memories))
    return DuplicateGroup(
        key=f"duplicate:{hashlib.blake2b(names.encode(), digest_size=16).hexdigest()}",
        project=records[0]["scope"].get("project", ""),
        memories=tuple(memories),
    )


def _outline(record: Any) -> CurrentMemory:
    return CurrentMemory(
        id=record["id"], text=record["body"]["text"], created=record["time"]["created"]
    )


def _read_stale(record: Record, today: date) -> StaleFact | None:
    """Return a finding if a memory is about a day to come that has passed.

    Events are about the past anyway, and a date in a rule is mostly an example.
    """
    if record["kind"] in ("episodic", "procedural") or record["time"].get("valid_to"):
        return None
    memory = _outline(record)
    written_at = parse_instant(memory.created)
    days = find_days(memory.text, written_at)
    if not days or not any(_is_to_come(day, memory.text, written_at) for day in days):
        return None
    end = max(day.day + timedelta(days=_GRAIN_DAYS[day.grain]) for day in days)
    if end > today:
        return None
    return StaleFact(
        key=f"stale:{memory.id}",
        memory=memory,
        project=record["scope"].get("project", ""),
        day=end.isoformat(),
    )


def _is_to_come(day: NamedDay, text: str, written_at: Instant) -> bool:
    """Return True if a text names a single day after its own; "on Fridays" and "on Friday" may be every week."""
    is_weekly = day.is_relative and text[day.start : day.start + 3].lower() == "on "
    return day.day > utc_day(written_at) and not is_weekly


def dismiss_finding(context: Context, access: Access, key: str) -> None:
    """Let a finding not be reported again, until one of its memories changes."""
    access.require("write")
    access.require_whole_owner()
    entry = audit_entry(access, "dismiss", now=context.clock(), result=key.partition(":")[0])

    def work(unit: Unit) -> None:
        unit.put_item(_DISMISSED, key, b"")
        unit.record_audit(entry)

    context.engine.write(access.default_tenant, work)
