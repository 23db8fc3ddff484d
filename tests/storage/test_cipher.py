"""Encryption at rest: what it hides, what it notices, and what a destroyed key takes with it."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import apsw
import pytest

from memoranda.errors import MemorandaError, StoreCorrupt, StoreUnavailable
from memoranda.keys import MasterKeyFile
from memoranda.model.selection import Selection
from memoranda.storage.crypto.cipher import Coverage, NoCipher, RingCipher
from memoranda.storage.engine.contract import Engine
from memoranda.storage.engine.sql_engine import SqlEngine
from memoranda.storage.sqlite.database import SqliteDatabase
from memoranda.storage.sqlite.keys import SqliteKeyRing
from tests.proofs.store import processes
from tests.proofs.test_erasure import found_in_files
from tests.storage.contract import NOW, document, everything, matches, projection, seal
from tests.waiting import HANG_SECONDS

KEYS_EACH = 5
DATABASE, RING, MASTER = "memoranda.db", "memoranda.keys", "master.key"


def ring_in(home: Path, coverage: Coverage | None = "users") -> RingCipher:
    return RingCipher(SqliteKeyRing(home / RING), MasterKeyFile(home / MASTER), coverage)


@contextmanager
def engine_in(home: Path, coverage: Coverage | None = "users") -> Iterator[Engine]:
    engine = SqlEngine(SqliteDatabase(home / DATABASE), seal, ring_in(home, coverage))
    try:
        yield engine
    finally:
        engine.close()


def add(engine: Engine, name: str, *, user: str = "", native: bytes = b"", cause: bytes | None = None) -> None:
    shown = projection(f"{name} words", user=user)
    engine.write("ada", lambda unit: unit.append(document(name, native or name.encode()), shown, now=NOW, cause=cause))


def read(engine: Engine, name: str) -> tuple[bytes, bool]:
    """The document, and whether it is taken for erased."""
    with engine.open_snapshot("ada") as snapshot:
        version = snapshot.find_by_name("note", name)
    assert version is not None
    return version.document.native, version.state.erased


@contextmanager
def raw(home: Path, file: str = DATABASE) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(home / file))
    try:
        yield connection
    finally:
        connection.close()


def rows(home: Path, sql: str, file: str = DATABASE) -> list[tuple[Any, ...]]:
    with raw(home, file) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.requirement("OMS-17.3-encryption")
@pytest.mark.parametrize("coverage", ["users", "all"])
def test_no_file_holds_a_word_of_what_is_encrypted(tmp_path: Path, coverage: Coverage) -> None:
    with engine_in(tmp_path, coverage) as engine:
        for number, text in enumerate(("quetzalcoatlus", "hippocampusses", "rhododendronic")):
            native = f"{text} {'filler ' * 400 * number}{text}".encode()
            add(engine, f"n{number}", user="thaumaturgical", native=native, cause=b"kaleidoscopic")
        add(engine, "free", native=b"chrysanthemums")
        engine.flush()
        secret = ["quetzalcoatlus", "hippocampusses", "rhododendronic", "thaumaturgical", "kaleidoscopic"]
        hidden = found_in_files(tmp_path, [*secret, "chrysanthemums"])
    # Closed, so that the log is in the file too.
    assert hidden | found_in_files(tmp_path, [*secret, "chrysanthemums"]) == (
        {"chrysanthemums"} if coverage == "users" else set()
    )


@pytest.mark.requirement("OMS-17.3-blind-index")
def test_users_words_and_links_are_in_the_tables_as_fingerprints_only(tmp_path: Path) -> None:
    with engine_in(tmp_path) as engine:
        shown = projection("kaleidoscope", user="thaumaturge", session="quetzalcoatl", subject="hippocampus")
        engine.write("ada", lambda unit: unit.append(document("n"), shown, now=NOW))
        with engine.open_snapshot("ada") as snapshot:
            assert len(matches(snapshot, "kaleidoscope", Selection(at=NOW, user="thaumaturge")).hits) == 1
    words = ["kaleidoscope", "thaumaturge", "quetzalcoatl", "hippocampus"]
    assert found_in_files(tmp_path, words) == set()
    (keys,) = rows(tmp_path, "SELECT user_key, session_key FROM state")
    (stored,) = rows(tmp_path, "SELECT value FROM meta WHERE name = 'index_key'")
    assert [len(bytes(key)) for key in keys] == [8, 8]
    # The key of the fingerprints is not in the database, or words could be guessed from a copy of it.
    assert bytes(stored[0]).startswith(b"kept in the key ring as: ")


@pytest.mark.requirement("OMS-17.3-encryption")
def test_the_same_text_never_looks_the_same(tmp_path: Path) -> None:
    with engine_in(tmp_path) as engine:
        for name in ("a", "b"):
            add(engine, name, user="u", native=b"same")
    sealed = [bytes(native) for (native,) in rows(tmp_path, "SELECT native FROM version")]
    assert len({each[1:13] for each in sealed}) == 2
    assert sealed[0][13:] != sealed[1][13:]


@pytest.mark.requirement("OMS-17.3-encryption")
def test_every_changed_byte_is_noticed_and_disturbs_nobody_else(tmp_path: Path) -> None:
    with engine_in(tmp_path) as engine:
        add(engine, "hurt", user="u", native=b"precious")
        add(engine, "whole", user="u")
    ((sealed,),) = rows(tmp_path, "SELECT native FROM version WHERE name = 'hurt'")
    # The format, the nonce, the text and the tag.
    for place in range(0, len(sealed), 3):
        changed = bytearray(sealed)
        changed[place] ^= 0x10
        with raw(tmp_path) as database:
            database.execute("UPDATE version SET native = ? WHERE name = 'hurt'", (bytes(changed),))
        with engine_in(tmp_path) as engine:
            assert read(engine, "hurt") == (b"", False)
            assert read(engine, "whole") == (b"whole", False)
    for short in (b"", b"\x01", b"\x01" + bytes(12), b"\x01" + bytes(20)):
        with raw(tmp_path) as database:
            database.execute("UPDATE version SET native = ? WHERE name = 'hurt'", (short,))
        with engine_in(tmp_path) as engine:
            assert read(engine, "hurt") == (b"", False)


@pytest.mark.requirement("OMS-17.3-encryption")
def test_a_document_in_the_place_of_another_does_not_open(tmp_path: Path) -> None:
    with engine_in(tmp_path) as engine:
        for name in ("a", "b"):
            add(engine, name, user="u")
        # Two editions of one name: the older must not pass for the newer.
        engine.write("ada", lambda unit: unit.append(document("b", b"new"), projection("b", user="u"), now=NOW + 1))  # type: ignore[arg-type]
        add(engine, "c", user="u", native=b"text", cause=b"why")
    natives = {row[0]: row[1] for row in rows(tmp_path, "SELECT version_id, native FROM version")}
    with raw(tmp_path) as database:
        for target, source in ((1, 2), (3, 2)):
            database.execute("UPDATE version SET native = ? WHERE version_id = ?", (natives[source], target))
        database.execute("UPDATE version SET native = cause, cause = native WHERE name = 'c'")
    with engine_in(tmp_path) as engine, engine.open_snapshot("ada") as snapshot:
        assert [version.document.native for version in everything(snapshot)] == [b"", b"b", b"", b""]


@pytest.mark.requirement("OMS-17.3-encryption")
def test_a_store_without_its_key_ring_says_so(tmp_path: Path) -> None:
    with engine_in(tmp_path) as engine:
        add(engine, "n", user="u")
    with pytest.raises(StoreUnavailable, match="key ring is missing"):
        SqlEngine(SqliteDatabase(tmp_path / DATABASE), seal, NoCipher())
    (tmp_path / RING).rename(tmp_path / "away")
    # A new ring in its place does not make the documents look erased.
    with pytest.raises(StoreUnavailable, match="key ring lacks"), engine_in(tmp_path):
        pass
    for file in tmp_path.glob(f"{RING}*"):
        file.unlink()
    (tmp_path / "away").rename(tmp_path / RING)
    with engine_in(tmp_path) as engine:
        assert read(engine, "n") == (b"n", False)


@pytest.mark.requirement("OMS-17.3-encryption")
def test_a_lost_master_key_is_reported_and_never_replaced(tmp_path: Path) -> None:
    with engine_in(tmp_path) as engine:
        add(engine, "n", user="u")
    kept = (tmp_path / MASTER).read_bytes()
    (tmp_path / MASTER).unlink()
    ring = ring_in(tmp_path)
    try:
        with pytest.raises(StoreUnavailable, match="master key"):
            ring.ensure_key("ada", "somebody new")
    finally:
        ring.close()
    assert not (tmp_path / MASTER).exists()
    (tmp_path / MASTER).write_bytes(kept)
    (tmp_path / MASTER).chmod(0o600)
    with engine_in(tmp_path) as engine:
        assert read(engine, "n") == (b"n", False)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"keys": {"1": 5}}', b'{"keys": {"x": "AA=="}}', b"\xff"])
def test_a_broken_master_key_file_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MASTER).write_bytes(content)
    (tmp_path / MASTER).chmod(0o600)
    ring = ring_in(tmp_path)
    try:
        with pytest.raises(StoreUnavailable, match="is damaged"):
            ring.ensure_key("ada", "u")
    finally:
        ring.close()


def test_a_master_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with engine_in(tmp_path) as engine:
        add(engine, "n", user="u")
    (tmp_path / MASTER).chmod(0o644)
    with pytest.raises(StoreUnavailable, match="chmod 600"), engine_in(tmp_path):
        pass


def test_another_master_key_opens_nothing(tmp_path: Path) -> None:
    ring = ring_in(tmp_path)
    key_id = ring.ensure_key("ada", "u")
    assert key_id is not None
    ring.close()
    (tmp_path / MASTER).unlink()
    MasterKeyFile(tmp_path / MASTER).current()
    ring = ring_in(tmp_path)
    try:
        with pytest.raises(StoreCorrupt, match="master key is another one"):
            ring.load_key(key_id)
    finally:
        ring.close()


def test_all_files_belong_to_their_owner_alone(tmp_path: Path) -> None:
    with engine_in(tmp_path) as engine:
        add(engine, "n", user="u")
        engine.rotate_master_key()
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert {DATABASE, RING, MASTER} <= modes.keys()
    assert set(modes.values()) == {0o600}


@pytest.mark.requirement("OMS-17.3-rotation")
def test_rotation_leaves_the_old_master_key_behind_and_everything_readable(tmp_path: Path) -> None:
    masters = MasterKeyFile(tmp_path / MASTER)
    with engine_in(tmp_path, "all") as engine:
        for number in range(5):
            add(engine, f"n{number}", user=f"u{number % 3}")
        old = masters.current()
        before = rows(tmp_path, "SELECT native FROM version")
        # Three users and the key of the fingerprints.
        assert engine.rotate_master_key() == 4
        assert rows(tmp_path, "SELECT native FROM version") == before
        assert masters.current()[0] == old[0] + 1
        with pytest.raises(StoreUnavailable, match="missing"):
            masters.get(old[0])
        add(engine, "later", user="u9")
    with engine_in(tmp_path, "all") as engine:
        assert [read(engine, f"n{number}")[0] for number in range(5)] == [b"n0", b"n1", b"n2", b"n3", b"n4"]
        assert read(engine, "later") == (b"later", False)


class _Interrupted(MasterKeyFile):
    """Master keys whose keeper dies at a chosen moment."""

    def __init__(self, path: Path, moment: str) -> None:
        super().__init__(path)
        self._moment = moment

    def add(self) -> tuple[int, bytes]:
        if self._moment == "before":
            raise KeyboardInterrupt
        return super().add()

    def get(self, version: int) -> bytes:
        if self._moment == "during" and len(self._load()) > 1:
            raise KeyboardInterrupt
        return super().get(version)

    def retire_before(self, version: int) -> None:
        if self._moment == "after":
            raise KeyboardInterrupt
        super().retire_before(version)


@pytest.mark.requirement("OMS-17.3-rotation")
@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_an_interrupted_rotation_loses_nothing(tmp_path: Path, moment: str) -> None:
    with engine_in(tmp_path) as engine:
        for number in range(3):
            add(engine, f"n{number}", user=f"u{number}")
    ring = RingCipher(SqliteKeyRing(tmp_path / RING), _Interrupted(tmp_path / MASTER, moment), "users")
    with pytest.raises(KeyboardInterrupt):
        ring.rotate()
    ring.close()
    with engine_in(tmp_path) as engine:
        add(engine, "between", user="u7")
        for name in ("n0", "n1", "n2", "between"):
            assert read(engine, name) == (name.encode(), False)
        assert engine.rotate_master_key() == 5
    with engine_in(tmp_path) as engine:
        for name in ("n0", "n1", "n2", "between"):
            assert read(engine, name) == (name.encode(), False)
    assert len(MasterKeyFile(tmp_path / MASTER)._load()) == 1


def make_keys(home: Path, number: int, start: Barrier) -> None:
    """Make keys, or rotate, at the same moment as others do."""
    ring = ring_in(home)
    start.wait(HANG_SECONDS)
    for step in range(KEYS_EACH):
        if number < 2:
            ring.rotate()
        else:
            ring.ensure_key("ada", f"user {number} {step}")
    ring.close()


@pytest.mark.requirement("OMS-17.3-rotation")
def test_processes_that_rotate_and_make_keys_at_once_lose_none(tmp_path: Path) -> None:
    ring_in(tmp_path).close()
    context = processes()
    start = context.Barrier(4)
    workers = [context.Process(target=make_keys, args=(tmp_path, number, start)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(HANG_SECONDS)
        assert worker.exitcode == 0
        worker.close()
    ring = ring_in(tmp_path)
    try:
        ids = [ring.ensure_key("ada", f"user {number} {step}") for number in (2, 3) for step in range(KEYS_EACH)]
        assert len({ring.load_key(key_id) for key_id in ids if key_id}) == 2 * KEYS_EACH
        assert rows(tmp_path, "SELECT count(*) FROM data_key", RING) == [(2 * KEYS_EACH,)]
    finally:
        ring.close()


@pytest.mark.requirement("OMS-20.3-crypto-erasure")
def test_a_destroyed_key_takes_every_copy_of_the_database_with_it(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    copy.mkdir()
    with engine_in(home) as engine:
        add(engine, "hers", user="u")
        add(engine, "his", user="v")
    shutil.copy(home / DATABASE, copy / DATABASE)
    wrapped = [bytes(row[0]) for row in rows(home, "SELECT wrapped FROM data_key", RING)]
    with engine_in(home) as engine:
        assert engine.destroy_user_key("ada", "u")
        assert not engine.destroy_user_key("ada", "u")
        assert not engine.destroy_user_key("ada", "nobody")
        assert read(engine, "hers") == (b"", True)
        assert read(engine, "his") == (b"his", False)
        # Nothing of the key is left in the ring, its log or its free pages.
        left = b"".join(file.read_bytes() for file in home.glob(f"{RING}*"))
        assert sum(each in left for each in wrapped) == len(wrapped) - 1
    for name in (RING, MASTER):
        shutil.copy(home / name, copy / name)
    with engine_in(copy) as engine:
        assert read(engine, "hers") == (b"", True)
        assert read(engine, "his") == (b"his", False)


@pytest.mark.requirement("OMS-20.3-crypto-erasure", "OMS-17.3-rotation")
def test_an_old_key_ring_opens_nothing_once_the_master_key_has_changed(tmp_path: Path) -> None:
    with engine_in(tmp_path) as engine:
        add(engine, "hers", user="u")
    old = (tmp_path / RING).read_bytes()
    with engine_in(tmp_path) as engine:
        engine.destroy_user_key("ada", "u")
        engine.rotate_master_key()
    (tmp_path / RING).write_bytes(old)
    with pytest.raises(StoreUnavailable, match="master key that wraps a data key is missing"), engine_in(tmp_path):
        pass


@pytest.mark.requirement("OMS-20.3-crypto-erasure")
def test_no_page_of_the_ring_keeps_a_destroyed_key(tmp_path: Path) -> None:
    # Enough keys that SQLite has split and merged pages.
    ring = ring_in(tmp_path)
    for number in range(150):
        ring.ensure_key("ada", f"u{number}")
    before = [bytes(row[0]) for row in rows(tmp_path, "SELECT wrapped FROM data_key", RING)]
    for number in range(0, 150, 50):
        assert ring.destroy("ada", f"u{number}")
    content = b"".join(file.read_bytes() for file in tmp_path.glob(f"{RING}*"))
    ring.close()
    assert sum(content.count(each) for each in before) == 147


@pytest.mark.requirement("OMS-20.3-crypto-erasure")
def test_a_key_in_the_memory_of_another_process_stops_working(tmp_path: Path) -> None:
    ours, theirs = ring_in(tmp_path), ring_in(tmp_path)
    try:
        key_id = ours.ensure_key("ada", "u")
        assert key_id is not None
        assert theirs.ensure_key("ada", "u") == key_id
        sealed = theirs.seal(key_id, b"text", b"place")
        assert ours.open(key_id, sealed, b"place") == b"text"
        assert ours.destroy("ada", "u")
        assert theirs.open(key_id, sealed, b"place") is None
        with pytest.raises(StoreUnavailable, match="erased while"):
            theirs.seal(key_id, b"text", b"place")
        # Whoever comes back is someone new.
        assert theirs.ensure_key("ada", "u") not in (None, key_id)
    finally:
        ours.close()
        theirs.close()


@pytest.mark.requirement("OMS-20.3-user-keys")
def test_users_and_tenants_have_keys_of_their_own(tmp_path: Path) -> None:
    ring = ring_in(tmp_path, "all")
    try:
        holders = [("ada", "u"), ("ada", "v"), ("bob", "u"), ("ada", ""), ("bob", "")]
        ids = [ring.ensure_key(*holder) for holder in holders]
        assert len({ring.load_key(key_id) for key_id in ids if key_id}) == len(holders)
        assert [ring.ensure_key(*holder) for holder in holders] == ids
    finally:
        ring.close()
    users_only = ring_in(tmp_path, "users")
    try:
        assert users_only.ensure_key("ada", "") is None
    finally:
        users_only.close()


@pytest.mark.requirement("OMS-17.3-encryption")
def test_encryption_can_be_turned_on_and_off_and_what_is_there_stays_readable(tmp_path: Path) -> None:
    plain = SqlEngine(SqliteDatabase(tmp_path / DATABASE), seal)
    add(plain, "first", user="u")
    plain.close()
    with engine_in(tmp_path, "all") as engine:
        add(engine, "second", user="u")
    with engine_in(tmp_path, None) as engine:
        add(engine, "third", user="u")
        for name in ("first", "second", "third"):
            assert read(engine, name) == (name.encode(), False)
    stored = [(name, key is None) for name, key in rows(tmp_path, "SELECT name, key_id FROM version")]
    assert stored == [("first", True), ("second", False), ("third", True)]


def test_a_key_ring_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / RING).write_bytes(b"certainly no database at all\n" * 40)
    with pytest.raises(MemorandaError, match="not a database"):
        ring_in(tmp_path)
