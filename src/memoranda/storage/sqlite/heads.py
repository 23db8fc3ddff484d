"""How far each owner's memory had come, kept apart from the database: so a log that lost its end is noticed.

SQLite takes from a damaged write-ahead log what is whole, up to the first flaw, and says nothing of the rest; the
audit chain agrees, because its own end is in the same log. So after each commit, before anyone is told of it, the
ends of the chains that it moved are written to a small file of their own: one slot of 64 bytes for each owner. That
write is not waited for to reach the disk (a killed process loses nothing of it); it is made durable within
SYNC_SECONDS, so that a power cut leaves ends that are at most that old. A database that is behind its ends has lost
something: how much, and since when.
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
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from memoranda.model.instant import Instant, format_instant
from memoranda.storage.engine.database import ChainEnd, Loss
from memoranda.storage.sqlite.file import open_existing

if TYPE_CHECKING:
    import apsw

_log = logging.getLogger(__name__)

# How old the ends on the disk may be after a power cut.
SYNC_SECONDS: Final = 1.0
# Bytes of one slot: `_SLOT` with its checksum, and small enough to be written in one step.
SLOT_BYTES: Final = 64
_SLOT: Final = struct.Struct("<qqqqq16s8x")
# Two bytes behind all slots that stand for whose turn it is to write; there is nothing in them.
_DOOR: Final = 1 << 60
_TURN: Final = _DOOR + 1
# Whoever holds the file is done in microseconds; if it is not let go, the end is written all the same.
_ATTEMPTS: Final = 20
_ENDS: Final = """
SELECT tenant_id, name, unit_seq, append_seq, audit_seq, audit_hash FROM tenant UNION ALL
SELECT 0, '', ifnull((SELECT value FROM meta WHERE name = 'system_seq'), 0), 0, 0, NULL
"""
_LAST_CHANGE: Final = "SELECT at_ms FROM change WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"

_sync = getattr(os, "fdatasync", os.fsync)


class _There(NamedTuple):
    """Whose end it is, and how far it is in the database."""

    name: str | None
    end: ChainEnd


_NOTHING: Final = _There(None, ChainEnd(0, 0, 0, None))


class _Kept(NamedTuple):
    """One slot as it is in the file."""

    tenant_id: int
    units: int
    versions: int
    audit: int
    at_ms: int
    digest: bytes


def heads_path(database: Path) -> Path:
    """Where the ends of a database are kept."""
    return database.with_name(f"{database.name}-heads")


def losses_path(database: Path) -> Path:
    """Where it is put on record that something is missing."""
    return database.with_name(f"{database.name}-losses")


def losses_of(database: Path) -> list[Loss]:
    """What was found missing, and nobody has looked after yet."""
    try:
        lines = losses_path(database).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    return [Loss(**orjson.loads(line)) for line in lines]


class Heads:
    """The ends of one database."""

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
    def turn(self) -> Iterator[None]:
        """Wait until it is this process's turn to write, and have it: each in the order in which it came.

        SQLite's own lock can only be asked for again and again, and whoever has just let go of it is the first to ask:
        another process would wait for many commits. Here the system wakes who waits. Whoever comes waits at the door,
        and the one in the door for the turn, so that nobody has two turns while another waits. These locks are the
        process's own, and end with it; they say who is next, and SQLite's lock that there is only one.
        """
        if self._descriptor is None or self._is_read_only:
            yield
            return
        with contextlib.suppress(OSError):
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, _DOOR)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, _TURN)
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _DOOR)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 2, _DOOR)

    def note(self, ends: Mapping[int, ChainEnd]) -> None:
        """Write down how far some have come; an end that is further already stays."""
        if self._descriptor is None or not ends:
            return
        now = time.time_ns() // 1_000_000
        # What was committed is committed, whatever becomes of this: the next commit writes a later end.
        with contextlib.suppress(OSError), _locked(self._descriptor):
            for tenant_id, end in ends.items():
                kept = self._slot(tenant_id)
                if kept is None or kept.units <= end.units:
                    self._put(tenant_id, end, now)
        self.is_dirty = True

    def sync(self, *, only_if_due: bool = False) -> None:
        """Let what was written down be on the disk."""
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
        """Look whether the database is behind its ends; put what is missing on record, and go on from what is there."""
        # Read before the database, which goes on meanwhile.
        kept = self._all()
        rows: list[Any] = raw.execute(_ENDS).fetchall()
        there = {int(tenant_id): _There(name, ChainEnd(*end)) for tenant_id, name, *end in rows}
        behind = {each: _is_behind(kept[each], there.get(each, _NOTHING).end) for each in kept}
        lost = {
            each: _loss(raw, kept[each], there.get(each, _NOTHING)) for each in kept if behind[each]
        }
        if not self._is_read_only:
            if lost:
                self._record(list(lost.values()))
            ends = {each: found.end for each, found in there.items() if found.end.units}
            self._go_on(
                {each: ends[each] for each in ends if behind.get(each, True)},
                lost.keys() - ends.keys(),
            )
        for each in lost.values():
            _log.error("%s; `memoranda doctor` says what to do", each.message)
        return list(lost.values())

    def close(self) -> None:
        self.sync()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _go_on(self, ends: Mapping[int, ChainEnd], gone: Set[int]) -> None:
        if self._descriptor is None or not (ends or gone):
            return
        now = time.time_ns() // 1_000_000
        with contextlib.suppress(OSError), _locked(self._descriptor):
            for tenant_id, end in ends.items():
                self._put(tenant_id, end, now)
            for tenant_id in gone:
                os.pwrite(self._descriptor, bytes(SLOT_BYTES), tenant_id * SLOT_BYTES)
            self.is_dirty = True
        self.sync()

    def _record(self, losses: list[Loss]) -> None:
        lines = b"".join(orjson.dumps(each._asdict()) + b"\n" for each in losses)
        descriptor = os.open(
            losses_path(self._database), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        try:
            os.write(descriptor, lines)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _put(self, tenant_id: int, end: ChainEnd, now: int) -> None:
        assert self._descriptor is not None
        filled = _SLOT.pack(
            tenant_id, end.units, end.versions, end.audit, now, _digest(end.audit_hash)
        )[:-4]
        os.pwrite(
            self._descriptor,
            filled + zlib.crc32(filled).to_bytes(4, "little"),
            tenant_id * SLOT_BYTES,
        )

    def _slot(self, tenant_id: int) -> _Kept | None:
        assert self._descriptor is not None
        return _read(os.pread(self._descriptor, SLOT_BYTES, tenant_id * SLOT_BYTES))

    def _all(self) -> dict[int, _Kept]:
        if self._descriptor is None:
            return {}
        data = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        slots = (_read(data[at : at + SLOT_BYTES]) for at in range(0, len(data), SLOT_BYTES))
        return {each.tenant_id: each for each in slots if each is not None}


def write_heads_of(database: Path) -> None:
    """Write the ends of a database that nobody uses, as they are, to a file of their own."""
    with contextlib.closing(open_existing(database)) as raw:
        heads = Heads(database)
        heads.compare(raw)
        heads.close()


def _read(data: bytes) -> _Kept | None:
    """A slot; None if there is none, or it is not whole."""
    if len(data) < SLOT_BYTES or zlib.crc32(data[:-4]).to_bytes(4, "little") != data[-4:]:
        return None
    found = _Kept(*_SLOT.unpack(data))
    return found if found.units else None


def _digest(audit_hash: str | None) -> bytes:
    return hashlib.sha256((audit_hash or "").encode()).digest()[:16]


def _is_behind(kept: _Kept, end: ChainEnd) -> bool:
    return end.units < kept.units or (
        end.units == kept.units and _digest(end.audit_hash) != kept.digest
    )


def _loss(raw: apsw.Connection, kept: _Kept, there: _There) -> Loss:
    found = raw.execute(_LAST_CHANGE, (kept.tenant_id,)).fetchone()
    return Loss(
        noticed=format_instant(Instant(time.time_ns() // 1_000_000)),
        owner=there.name,
        units=kept.units - there.end.units,
        versions=kept.versions - there.end.versions,
        audit=kept.audit - there.end.audit,
        since=None if found is None else format_instant(Instant(int(found[0]))),
        until=format_instant(Instant(kept.at_ms)),
    )


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """One process at a time, so that no earlier end takes the place of a later one."""
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
