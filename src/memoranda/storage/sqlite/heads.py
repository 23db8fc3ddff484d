"""Chain ends: the last state of each owner's memory in a file of its own, so that a log that lost its end is noticed.

Theory of operation. SQLite recovers a damaged write-ahead log up to the first flaw and reports nothing; the audit chain
agrees, because its own end is in the same log. So after each commit, before it is acknowledged, the ends of the chains
that it moved (`ChainEnd`) are written to a small file: one slot of 64 bytes for each owner. The write does not wait for
the disk (a killed process loses nothing of it); it is made durable within SYNC_SECONDS, so after a power cut the ends
are at most that old. When a database is opened, `compare` finds the owners whose memory is behind its end, and records
how much is missing and since when in a second file, which `memoranda doctor` shows.

The locks that decide which process writes next are on the same file (`write_turn`).

A slot holds: tenant number, units, versions and audit entries ever written, the time, a digest of the last audit hash,
and a checksum. It is overwritten in place at `tenant number × 64`. If writing it fails, the commit still counts; only
the detection of a loss is a little older. Limits of the method: a file that was deleted together with the database's
end is not noticed, and a restored backup must bring its own ends (`write_heads_of`), or it would look like a loss.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import struct
import time
import zlib
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from memoranda.model.instant import Instant, format_instant
from memoranda.storage.engine.database import ChainEnd, Loss, Row
from memoranda.storage.sqlite.file import open_existing

if TYPE_CHECKING:
    import apsw

_log = logging.getLogger(__name__)

# Seconds by which the ends on the disk may be old after a power cut.
SYNC_SECONDS: Final = 1.0
# Bytes of one slot: `_SLOT_FORMAT` with its checksum, and small enough to be written in one step.
SLOT_BYTES: Final = 64
_SLOT_FORMAT: Final = struct.Struct("<qqqqq16s8x")
# Two bytes behind all slots, which are locked but never written: the entrance of the queue, and the turn to write.
_ENTRANCE: Final = 1 << 60
_TURN: Final = _ENTRANCE + 1
# Tries to lock the file. A holder is done in microseconds; if it is not, the end is written without the lock.
_ATTEMPTS: Final = 20
_ENDS: Final = """
SELECT tenant_id, name, unit_seq, append_seq, audit_seq, audit_hash FROM tenant UNION ALL
SELECT 0, '', ifnull((SELECT value FROM meta WHERE name = 'system_seq'), 0), 0, 0, NULL
"""
_LAST_CHANGE: Final = "SELECT at_ms FROM change WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"

_sync = getattr(os, "fdatasync", os.fsync)


class _StoredEnd(NamedTuple):
    """An owner's name and chain end as the database has them."""

    name: str | None
    end: ChainEnd


_NOTHING: Final = _StoredEnd(None, ChainEnd(0, 0, 0, None))


class _Slot(NamedTuple):
    """A slot of the file: a chain end, and when it was written."""

    tenant_id: int
    units: int
    versions: int
    audit: int
    at_ms: int
    digest: bytes


def heads_path(database: Path) -> Path:
    """Return the path of the file with the chain ends of a database."""
    return database.with_name(f"{database.name}-heads")


def losses_path(database: Path) -> Path:
    """Return the path of the file with the recorded losses of a database."""
    return database.with_name(f"{database.name}-losses")


def losses_of(database: Path) -> list[Loss]:
    """Return the recorded losses of a database. A person deletes the file once they are dealt with.

    Raises no error without a file; a line that is not JSON raises, because nobody but this module writes the file.
    """
    try:
        lines = losses_path(database).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    return [Loss(**orjson.loads(line)) for line in lines]


class ChainEnds:
    """The file of chain ends of one database.

    If the file cannot be opened or locked, all methods do nothing: detecting losses must never prevent a write.
    """

    def __init__(self, database: Path, *, read_only: bool = False) -> None:
        self._database = database
        self._descriptor: int | None = None
        self._synced_at = 0.0
        self.is_dirty = False
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        with contextlib.suppress(OSError):
            self._descriptor = os.open(heads_path(database), flags | os.O_CLOEXEC, 0o600)
        self._is_read_only = read_only

    @contextmanager
    def write_turn(self) -> Iterator[None]:
        """Wait for this process's turn to write, and hold it: processes get it in the order in which they asked.

        SQLite's own lock can only be polled, and the process that has just released it is the first to poll again, so
        another one would wait for many commits. Here the operating system wakes the waiting process. Processes wait for
        the lock of the entrance; the one that has it waits for the turn. So none gets two turns while another waits.
        The locks end with the process. They only decide who is next; SQLite's lock makes sure that one writes at a
        time.
        """
        if self._descriptor is None or self._is_read_only:
            yield
            return
        with contextlib.suppress(OSError):
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, _ENTRANCE)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, _TURN)
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _ENTRANCE)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 2, _ENTRANCE)

    def note(self, ends: Mapping[int, ChainEnd]) -> None:
        """Write the chain ends of a commit; an end that is already further stays.

        Called after each commit, and before its callers are woken.
        """
        if self._descriptor is None or not ends:
            return
        now = time.time_ns() // 1_000_000
        # Errors are ignored: the commit is durable, and the next one writes a later end.
        with contextlib.suppress(OSError), _locked(self._descriptor):
            for tenant_id, end in ends.items():
                slot = self._read_slot(tenant_id)
                if slot is None or slot.units <= end.units:
                    self._write_slot(tenant_id, end, now)
        self.is_dirty = True

    def sync(self, *, only_if_due: bool = False) -> None:
        """Make the written ends durable; `only_if_due`: unless that was done in the last SYNC_SECONDS."""
        now = time.monotonic()
        if (
            not self.is_dirty
            or self._descriptor is None
            or (only_if_due and now < self._synced_at + SYNC_SECONDS)
        ):
            return
        self.is_dirty, self._synced_at = False, now
        with contextlib.suppress(OSError):
            _sync(self._descriptor)

    def compare(self, raw: apsw.Connection) -> list[Loss]:
        """Return and record the losses of a database that is behind its ends, and continue from the state it has.

        Run once when a database is opened. A loss is reported once: afterwards the slots have the state that is really
        there.
        """
        # Read before the database, which other processes go on writing.
        slots = self._read_slots()
        rows: list[Row] = raw.execute(_ENDS).fetchall()
        stored_ends = {
            int(tenant_id): _StoredEnd(name, ChainEnd(*end)) for tenant_id, name, *end in rows
        }
        behind = {
            tenant_id: _is_behind(slot, stored_ends.get(tenant_id, _NOTHING).end)
            for tenant_id, slot in slots.items()
        }
        losses = {
            tenant_id: _loss(raw, slot, stored_ends.get(tenant_id, _NOTHING))
            for tenant_id, slot in slots.items()
            if behind[tenant_id]
        }
        if not self._is_read_only:
            if losses:
                self._record(list(losses.values()))
            ends = {tenant_id: row.end for tenant_id, row in stored_ends.items() if row.end.units}
            # Ends of tenants that are behind, and of those without a slot.
            changed_ends = {
                tenant_id: end for tenant_id, end in ends.items() if behind.get(tenant_id, True)
            }
            self._replace_slots(changed_ends, losses.keys() - ends.keys())
        for loss in losses.values():
            _log.error("%s; `memoranda doctor` says what to do", loss.message)
        return list(losses.values())

    def close(self) -> None:
        self.sync()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _replace_slots(self, ends: Mapping[int, ChainEnd], gone: Set[int]) -> None:
        """Write the slots of some tenants and clear those of others, durably."""
        if self._descriptor is None or not (ends or gone):
            return
        now = time.time_ns() // 1_000_000
        with contextlib.suppress(OSError), _locked(self._descriptor):
            for tenant_id, end in ends.items():
                self._write_slot(tenant_id, end, now)
            for tenant_id in gone:
                os.pwrite(self._descriptor, bytes(SLOT_BYTES), tenant_id * SLOT_BYTES)
            self.is_dirty = True
        self.sync()

    def _record(self, losses: list[Loss]) -> None:
        lines = b"".join(orjson.dumps(loss._asdict()) + b"\n" for loss in losses)
        descriptor = os.open(
            losses_path(self._database), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        try:
            os.write(descriptor, lines)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _write_slot(self, tenant_id: int, end: ChainEnd, now: int) -> None:
        assert self._descriptor is not None
        filled = _SLOT_FORMAT.pack(
            tenant_id, end.units, end.versions, end.audit, now, _digest(end.audit_hash)
        )[:-4]
        os.pwrite(
            self._descriptor,
            filled + zlib.crc32(filled).to_bytes(4, "little"),
            tenant_id * SLOT_BYTES,
        )

    def _read_slot(self, tenant_id: int) -> _Slot | None:
        assert self._descriptor is not None
        return _parse_slot(os.pread(self._descriptor, SLOT_BYTES, tenant_id * SLOT_BYTES))

    def _read_slots(self) -> dict[int, _Slot]:
        if self._descriptor is None:
            return {}
        data = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        slots = (_parse_slot(data[at : at + SLOT_BYTES]) for at in range(0, len(data), SLOT_BYTES))
        return {slot.tenant_id: slot for slot in slots if slot is not None}


def write_heads_of(database: Path) -> None:
    """Create the file of chain ends for a database that nobody uses."""
    with contextlib.closing(open_existing(database)) as raw:
        columns = {str(row[1]) for row in raw.execute("PRAGMA table_info(tenant)")}
        if not {"unit_seq", "append_seq"} <= columns:
            return  # A build that kept no ends; an upgrade adds them.
        heads = ChainEnds(database)
        heads.compare(raw)
        heads.close()


def _parse_slot(data: bytes) -> _Slot | None:
    """Return a slot, or None if it is empty or damaged."""
    if len(data) < SLOT_BYTES or zlib.crc32(data[:-4]).to_bytes(4, "little") != data[-4:]:
        return None
    slot = _Slot(*_SLOT_FORMAT.unpack(data))
    return slot if slot.units else None


def _digest(audit_hash: str | None) -> bytes:
    return hashlib.sha256((audit_hash or "").encode()).digest()[:16]


def _is_behind(slot: _Slot, end: ChainEnd) -> bool:
    """Return True if the database has fewer units than the slot, or another last audit entry."""
    return end.units < slot.units or (
        end.units == slot.units and _digest(end.audit_hash) != slot.digest
    )


def _loss(raw: apsw.Connection, slot: _Slot, stored_end: _StoredEnd) -> Loss:
    row = raw.execute(_LAST_CHANGE, (slot.tenant_id,)).fetchone()
    return Loss(
        noticed=format_instant(Instant(time.time_ns() // 1_000_000)),
        owner=stored_end.name,
        units=slot.units - stored_end.end.units,
        versions=slot.versions - stored_end.end.versions,
        audit=slot.audit - stored_end.end.audit,
        since=None if row is None else format_instant(Instant(int(row[0]))),
        until=format_instant(Instant(slot.at_ms)),
    )


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Lock the file against other processes, so that no earlier end replaces a later one."""
    is_held = False
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.0005)
        else:
            is_held = True
            break
    try:
        yield
    finally:
        if is_held:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
