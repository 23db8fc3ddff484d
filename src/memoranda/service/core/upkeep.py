"""Upkeep: retention is kept on time, whether or not anyone reads (UMP §2.7), erasures are finished, and what was put
off or scheduled is done (openwop).

Of several machines that share a store one does it, and another when that is gone; of several processes on one file
every long-running one looks, and what one of them has done, the others find done.

Retention and TTL end in erasure (UMP §2.7 and §3.6, openwop RFC 0004): on time, once, and a little at a time.

No read shows a text from the instant at which it ends (`views`, and every selection); this takes it from the disk, with
every earlier wording of it. Who stays does it when something falls due, the command line with every command. A hold
keeps what it holds, out of every answer.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from memoranda.errors import GrainError, MemorandaError
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.service.core import audit, cascade, lineage
from memoranda.service.core.access import Access
from memoranda.service.core.context import CLOSE_SECONDS, Context, audit_entry
from memoranda.service.core.lifecycle import Tombstones, erase_version, tombstone_version
from memoranda.service.core.views import EXPIRY_REASON
from memoranda.storage.engine.contract import Snapshot, Unit

# Nothing due: look again this soon, because another process may have written something shorter-lived.
IDLE_SECONDS = 1.0
_JOB = "upkeep"

_log = logging.getLogger(__name__)


class Upkeep:
    """Does what falls due."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stop = threading.Event()
        self._last_day: int | None = None
        self._thread = threading.Thread(target=self._run, name="memoranda-upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether what falls due is done."""
        return self._thread.is_alive()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        wait, trouble = 0.0, ""
        while not self._stop.wait(wait):
            try:
                self._context.engine.reload_keys()
                # Of what was written here.
                self._context.engine.merge_large_segments()
                wait = IDLE_SECONDS
                if self._context.engine.is_elected(_JOB):
                    self._do_what_is_due()
                    wait = self._seconds_until_next()
                trouble = ""
            except MemorandaError as error:
                # Once: a disk that is full, or read-only, stays so for a while.
                if error.message != trouble:
                    _log.warning("upkeep: %s", error)
                wait, trouble = IDLE_SECONDS, error.message

    def _do_what_is_due(self) -> None:
        # Only who stays needs it: a command is over before anything falls due.
        from memoranda.service.openwop import runs, schedule
        from memoranda.service.verify import reindex

        purge(self._context)
        if self._is_new_day():
            audit.apply_retention(self._context)
            runs.keep_retention(self._context)
            # What an older Memoranda wrote.
            reindex(self._context, outdated=True)
        cascade.erase_all_withdrawn(self._context)
        schedule.tick(self._context)
        # What a reader kept from being scrubbed when it was erased.
        self._context.engine.scrub(patient=False)

    def _is_new_day(self) -> bool:
        """Once a day, and at the start."""
        today = self._context.clock() // audit.DAY_MS
        before, self._last_day = self._last_day, today
        return today != before

    def _seconds_until_next(self) -> float:
        system, now = self._context.engine.system, self._context.clock()
        ends = system.find_next_expiry(), system.find_next_due()
        return min(
            [IDLE_SECONDS, *(max(0.001, (end - now) / 1000) for end in ends if end is not None)]
        )


# What one unit of work erases: few, so that others get their turn.
BATCH_LIMIT: Final = 50


def purge(context: Context) -> int:
    """Erase everything that is past its end; how many versions came to theirs."""
    count = 0
    if context.engine.is_read_only:
        return 0  # No read shows it either way.
    while due := context.engine.system.list_expired(context.clock(), BATCH_LIMIT):
        by_tenant: dict[str, list[int]] = defaultdict(list)
        for tenant, version_id in due:
            by_tenant[tenant].append(version_id)
        for tenant, version_ids in by_tenant.items():
            _expire_memories(context, tenant, version_ids)
        count += len(due)
    if count:
        context.engine.scrub()
    return count


def _expire_memories(context: Context, tenant: str, version_ids: Sequence[int]) -> None:
    now = context.clock()
    with context.engine.read(tenant) as snapshot:
        due = snapshot.load_versions(version_ids)
        last = {
            each.memory_id: each.version_id
            for each in sorted(due, key=lambda each: each.version_id)
        }
        tombstones = Tombstones(context, EXPIRY_REASON, now, _iterate_expiring(snapshot, last))
        derived = lineage.find_derived_memories(snapshot, last)
        derived_tombstones = lineage.create_tombstones(context, snapshot, derived, now)
    due_ids = frozenset(version_ids)

    def work(unit: Unit) -> None:
        for version in _iterate_expiring(unit, last):
            _expire_version(unit, version, tombstones, due_ids)
        lineage.remove_derived(unit, derived, gone=last, tombstones=derived_tombstones, now=now)

    context.engine.write(tenant, work)


def _iterate_expiring(snapshot: Snapshot, last: Mapping[int, int]) -> Iterator[Version]:
    """The versions of memories up to the last one that is over."""
    for memory_id, version_id in last.items():
        for version in snapshot.iterate_history(memory_id):
            if version.version_id <= version_id and not version.state.erased:
                yield version


def _expire_version(
    unit: Unit, version: Version, tombstones: Tombstones, due_ids: frozenset[int]
) -> None:
    state, now = version.state, tombstones.now
    try:
        erase_version(unit, version, tombstones)
        result = "erased"
    except GrainError:
        # A hold beats the end: it is kept, and out of every answer.
        tombstone_version(
            unit, version, valid_to=_earlier(state.valid_to, state.expires or now), now=now
        )
        result = "kept by a hold"
    if (
        version.version_id not in due_ids
        or state.tombstoned is not None
        or state.retired is not None
    ):
        return  # told before, or an earlier document of a memory that is announced once
    unit.announce("tombstoned", version, now=now)
    access = Access(
        credential="retention",
        actor="memoranda",
        tenant=version.tenant,
        default_tenant=version.tenant,
    )
    unit.record_audit(
        audit_entry(access, "expire", now=now, targets=(version.document.name,), result=result)
    )


def _earlier(one: Instant | None, other: Instant) -> Instant:
    return other if one is None else min(one, other)
