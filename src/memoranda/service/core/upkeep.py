"""Upkeep: a background thread that does what falls due, and the erasure of what is past its retention period.

The thread erases expired memories on time whether or not anyone reads (UMP §2.7, §3.6; openwop RFC 0004), finishes
pending erasures (cascade.py), runs schedules, and once a day prunes the audit log and old runs. If several machines
share a store, one of them is elected to do this; another takes over when it is gone. Of several processes on one file,
every long-running one looks, and finds done what another did. Commands purge when they run.

No read shows a text from the instant at which it expires (views.py, and every selection). `purge` then removes it from
the disk, with every earlier version. A version on legal hold is only tombstoned.

To add a task: put it into `_do_what_is_due` (every second) or behind `_is_new_day` (daily). It must be safe to run
twice, must do little per unit of work, and must not raise anything but MemorandaError, which is logged and tried again.
Long work belongs into portions, like `_repeat`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from memoranda.encoding.lazy import LazyModule
from memoranda.errors import MemorandaError
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.service.core import audit, cascade, lineage
from memoranda.service.core.access import Access, Gate
from memoranda.service.core.context import CLOSE_SECONDS, Context, audit_entry
from memoranda.service.core.lifecycle import (
    Tombstones,
    erase_version,
    may_erase_version,
    tombstone_version,
)
from memoranda.service.core.views import EXPIRY_REASON
from memoranda.storage.engine.contract import Snapshot, Unit

if TYPE_CHECKING:
    from memoranda.service import verify
else:
    verify = LazyModule("memoranda.service.verify")

# Seconds between two looks, because another process may have written something that falls due sooner.
IDLE_SECONDS = 1.0
# Seconds of an upgrade between two looks at everything else.
UPGRADE_SECONDS = 1.0
_JOB = "upkeep"

_log = logging.getLogger(__name__)


class Upkeep:
    """The thread that does what falls due."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate
        self._stop = threading.Event()
        self._last_day: int | None = None
        self._thread = threading.Thread(target=self._run, name="memoranda-upkeep", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """True if the thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        wait, trouble = 0.0, ""
        while not self._stop.wait(wait):
            try:
                self._context.engine.reload_keys()
                # Work left by writes of this process.
                self._context.engine.merge_large_segments()
                self._gate.key_uses.record()
                wait = IDLE_SECONDS
                # The node that is elected for the upkeep may be of an older version, without these steps.
                self._repeat(self._context.engine.continue_upgrade)
                if self._context.engine.is_elected(_JOB):
                    self._repeat(self._context.engine.seal_names)
                    self._do_what_is_due()
                    wait = self._seconds_until_next()
                trouble = ""
            except MemorandaError as error:
                # Logged once: a full or read-only disk stays so for a while.
                if error.message != trouble:
                    _log.warning("upkeep: %s", error)
                wait, trouble = IDLE_SECONDS, error.message

    def _do_what_is_due(self) -> None:
        # Imported here: a command ends before anything falls due.
        from memoranda.service.openwop import runs, schedule

        purge(self._context)
        if self._is_new_day():
            self._warn_of_expiring_keys()
            # Deletions that a crash interrupted.
            self._context.engine.finish_deletions()
            audit.apply_retention(self._context)
            runs.keep_retention(self._context)
            # Indexes written by an older version of Memoranda.
            verify.reindex(self._context, outdated=True)
        cascade.erase_all_withdrawn(self._context)
        schedule.tick(self._context)
        # Pages that a reader kept from being scrubbed.
        self._context.engine.scrub(patient=False)

    def _repeat(self, advance: Callable[[], bool]) -> None:
        """Run the steps of an upgrade for a while, until `advance` returns False."""
        end = time.monotonic() + UPGRADE_SECONDS
        while advance() and time.monotonic() < end:
            pass

    def _warn_of_expiring_keys(self) -> None:
        now = self._context.clock()
        for expiring in self._gate.expiring_keys():
            _log.warning(
                "API key %s: replace it with `memoranda key rotate %s`",
                expiring.describe(now),
                expiring.key.key_id,
            )

    def _is_new_day(self) -> bool:
        """Return True once a day, and at the first call."""
        today = self._context.clock() // audit.DAY_MS
        before, self._last_day = self._last_day, today
        return today != before

    def _seconds_until_next(self) -> float:
        """Return the seconds until something falls due, at most IDLE_SECONDS."""
        system = self._context.engine.system
        ends = [
            (system.find_next_expiry(), self._context.retention_now()),
            (system.find_next_due(), self._context.clock()),
        ]
        waits = [max(0.001, (end - now) / 1000) for end, now in ends if end is not None]
        return min([IDLE_SECONDS, *waits])


# Versions erased in one unit of work: few, so that other writers get their turn.
BATCH_LIMIT: Final = 50


def purge(context: Context) -> int:
    """Erase everything that has expired; return the number of versions.

    Called by the thread, and by commands when they run. A store that is read-only erases nothing.
    """
    count = 0
    if context.engine.is_read_only:
        return 0  # Reads hide expired memories, so a read-only store may keep them.
    while expired := context.engine.system.list_expired(context.retention_now(), BATCH_LIMIT):
        by_tenant: dict[str, list[int]] = defaultdict(list)
        for tenant, version_id in expired:
            by_tenant[tenant].append(version_id)
        for tenant, version_ids in by_tenant.items():
            _expire_memories(context, tenant, version_ids)
        count += len(expired)
    if count:
        context.engine.scrub()
    return count


def _expire_memories(context: Context, tenant: str, version_ids: Sequence[int]) -> None:
    """Erase memories up to the versions that are due, and what was derived from them."""
    now = context.clock()
    with context.engine.open_snapshot(tenant) as snapshot:
        expired_versions = snapshot.load_versions(version_ids)
        # By memory, the newest version that is due.
        last: dict[int, int] = {}
        for version in expired_versions:
            last[version.memory_id] = max(version.version_id, last.get(version.memory_id, 0))
        tombstones = Tombstones(context, EXPIRY_REASON, now, _iterate_expiring(snapshot, last))
        derived = lineage.find_derived_memories(snapshot, last)
        derived_tombstones = lineage.create_tombstones(context, snapshot, derived, now)
    due_ids = frozenset(version_ids)

    def work(unit: Unit) -> None:
        for memory_id, version_id in last.items():
            line = partial(_iterate_expiring, unit, {memory_id: version_id})
            # A memory stays complete while a rule or a hold keeps any of its versions.
            is_kept = not all(may_erase_version(unit, version, now) for version in line())
            for version in line():
                _expire_version(unit, version, tombstones, due_ids, is_kept=is_kept)
        lineage.remove_derived(unit, derived, gone=last, tombstones=derived_tombstones, now=now)

    context.engine.write(tenant, work)


def _iterate_expiring(snapshot: Snapshot, last: Mapping[int, int]) -> Iterator[Version]:
    """Yield the versions of memories up to the newest one that is due."""
    for memory_id, version_id in last.items():
        for version in snapshot.iterate_history(memory_id):
            if version.version_id <= version_id and not version.state.erased:
                yield version


def _expire_version(
    unit: Unit,
    version: Version,
    tombstones: Tombstones,
    due_ids: frozenset[int],
    *,
    is_kept: bool,
) -> None:
    """Erase an expired version, or tombstone it if it must be kept; announce and record that once."""
    state, now = version.state, tombstones.now
    if is_kept:
        # It appears in no answer.
        tombstone_version(
            unit, version, valid_to=_find_earlier(state.valid_to, state.expires or now), now=now
        )
        result = "kept by a hold"
    else:
        erase_version(unit, version, tombstones)
        result = "erased"
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


def _find_earlier(one: Instant | None, other: Instant) -> Instant:
    """Return the earlier of two instants, of which one may be missing."""
    return other if one is None else min(one, other)
