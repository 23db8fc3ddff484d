"""Several nodes on one PostgreSQL: how they hear of one another, and who does what is to be done once."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from memoranda.errors import StoreCorrupt, StoreUnavailable
from memoranda.keys import MasterKeyFile
from memoranda.service.core.feed import ChangeNotifier
from memoranda.storage.crypto.cipher import RingCipher
from memoranda.storage.engine.sql_engine import SqlEngine
from memoranda.storage.postgres import coordination
from memoranda.storage.postgres.database import PostgresDatabase
from memoranda.storage.postgres.keys import PostgresKeyRing
from tests.embedders import letters
from tests.postgres import server
from tests.service.world import World
from tests.storage.contract import NOW, document, projection, seal
from tests.waiting import HANG_SECONDS, until

MASTER = "master.key"
# Longer than any test waits: what happens then, a notification did.
NEVER_SECONDS = 10 * HANG_SECONDS


@pytest.fixture
def address() -> Iterator[str]:
    with server().database() as found:
        yield found


def _node(address: str, home: Path | None = None, secret: bytes = b"the operator's") -> SqlEngine:
    """One of several machines; with its data directory, one that encrypts everything."""
    if home is None:
        return SqlEngine(PostgresDatabase(address), seal)
    cipher = RingCipher(PostgresKeyRing(address), MasterKeyFile(home / MASTER), "all", lambda: secret)
    return SqlEngine(PostgresDatabase(address), seal, cipher)


def _write(engine: SqlEngine, value: bytes) -> None:
    engine.write("ada", lambda unit: unit.put_item("k", "n", value))


def test_a_commit_of_one_node_wakes_another(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordination, "LOOK_SECONDS", NEVER_SECONDS)
    with closing(_node(address)) as here, closing(_node(address)) as there:
        for engine in (here, there):
            with closing(engine.watch_changes()) as tokens:
                before = next(tokens)
                _write(here, b"1")
                until(lambda tokens=tokens, before=before: next(tokens) != before, "it is noticed")  # type: ignore[misc]
            # Nobody listens any more: what is not read would fill the queue of all.
            until(lambda: _listening(address) == 0, "it listens no more")


def test_a_notification_that_is_lost_loses_nothing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordination, "LOOK_SECONDS", 0.1)
    # As of a node that was killed between its commit and that.
    monkeypatch.setattr(coordination, "_NOTIFY", "SELECT 1")
    with closing(_node(address)) as here, closing(_node(address)) as there, closing(there.watch_changes()) as tokens:
        before = next(tokens)
        _write(here, b"1")
        until(lambda: next(tokens) != before, "it is noticed")


def test_whoever_listens_goes_on_when_the_database_is_back(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordination, "LOOK_SECONDS", NEVER_SECONDS)
    woken = threading.Event()
    with closing(_node(address)) as here, closing(_node(address)) as there, closing(ChangeNotifier(there)) as notifier:
        notifier.listen(woken.set)
        until(lambda: _listening(address) == 1, "it listens")
        with server().away(address):
            pass
        until(lambda: _listening(address) == 1, "it listens again")
        # Of what happened meanwhile it has heard by itself.
        woken.clear()
        _write(here, b"1")
        assert woken.wait(HANG_SECONDS)


def test_a_notification_says_nothing_and_the_last_is_sent_when_a_store_is_closed(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as anybody:
        anybody.execute("LISTEN memoranda_commits")
        with closing(_node(address)) as here:
            _write(here, b"secret")
        heard = list(anybody.notifies(timeout=HANG_SECONDS, stop_after=1))
    assert heard
    assert {each.payload for each in heard} == {""}


def test_one_node_is_elected_for_a_job_until_its_session_is_gone(address: str) -> None:
    with closing(_node(address)) as here, closing(_node(address)) as there:
        assert [here.is_elected("upkeep"), here.is_elected("upkeep"), there.is_elected("upkeep")] == [True, True, False]
        # Other work may be another's.
        assert [there.is_elected("vectors"), here.is_elected("vectors")] == [True, False]
        here.resign("upkeep")
        assert [there.is_elected("upkeep"), here.is_elected("upkeep")] == [True, False]
        there.close()
        until(lambda: here.is_elected("upkeep"), "it is taken over")
        # Cut off, as one that was silent for long, nobody has it: whoever asks first does, and hears so at once.
        server().drop_connections()
        assert here.is_elected("upkeep")
        with server().away(address):
            assert not here.is_elected("upkeep")
        with closing(_node(address)) as third:
            assert [third.is_elected("upkeep"), here.is_elected("upkeep")] == [True, False]


# --- master keys ---------------------------------------------------------------------------------------------


@pytest.fixture
def machines(address: str, tmp_path: Path) -> Iterator[list[tuple[Path, SqlEngine]]]:
    """Three, each with a copy of the master key that the first has made."""
    homes = [tmp_path / name for name in "abc"]
    made: list[tuple[Path, SqlEngine]] = []
    for home in homes:
        home.mkdir()
        if made:
            shutil.copy2(homes[0] / MASTER, home)
        made.append((home, _node(address, home)))
    yield made
    for _, engine in made:
        engine.close()


def _add(engine: SqlEngine, name: str) -> None:
    shown = projection(name, user=name)
    engine.write("ada", lambda unit: unit.append(document(name, name.encode()), shown, now=NOW))


def _read(engine: SqlEngine, *names: str) -> list[bytes]:
    with engine.open_snapshot("ada") as snapshot:
        found = [snapshot.find_by_name("note", name) for name in names]
    return [each.document.native for each in found if each is not None]


def test_a_master_key_that_one_machine_makes_is_taken_over_by_all(machines: list[tuple[Path, SqlEngine]]) -> None:
    engines = [engine for _, engine in machines]
    for number, engine in enumerate(engines):
        _add(engine, f"before{number}")
    names = [f"before{number}" for number in range(3)]
    for rotating in engines:
        assert rotating.rotate_master_key() == len(names) + 1
        # One makes a key at once, one has only looked.
        names.append(f"after{len(names)}")
        _add(engines[1], names[-1])
        for engine in engines:
            engine.reload_keys()
            assert _read(engine, *names) == [name.encode() for name in names]
        kept = [MasterKeyFile(home / MASTER)._load() for home, _ in machines]
        assert len(kept[0]) == 1
        assert kept == [kept[0]] * 3


def test_a_rotation_that_died_leaves_no_key_that_only_its_machine_can_use(
    machines: list[tuple[Path, SqlEngine]],
) -> None:
    (home, here), (_, there), _ = machines
    _add(here, "before")
    MasterKeyFile(home / MASTER).add()
    _add(here, "between")
    assert _read(there, "before", "between") == [b"before", b"between"]
    here.rotate_master_key()
    there.reload_keys()
    assert _read(there, "before", "between") == [b"before", b"between"]


def test_a_key_left_of_a_dead_rotation_gives_way_to_one_of_the_same_number(
    machines: list[tuple[Path, SqlEngine]],
) -> None:
    (home, here), (_, there), _ = machines
    _add(here, "before")
    MasterKeyFile(home / MASTER).add()
    there.rotate_master_key()
    _add(here, "after")
    assert _read(here, "before", "after") == [b"before", b"after"]
    assert _read(there, "before", "after") == [b"before", b"after"]
    assert MasterKeyFile(home / MASTER)._load() == MasterKeyFile(machines[1][0] / MASTER)._load()


def test_a_machine_that_was_off_for_two_rotations_is_told_what_it_lacks(
    address: str, machines: list[tuple[Path, SqlEngine]]
) -> None:
    (home, here), _, (off, there) = machines
    _add(here, "hers")
    there.close()
    here.rotate_master_key()
    here.rotate_master_key()
    with pytest.raises(StoreUnavailable, match=r"copy it from a machine"):
        _node(address, off)
    shutil.copy2(home / MASTER, off)
    with closing(_node(address, off)) as back:
        assert _read(back, "hers") == [b"hers"]


def test_the_old_master_key_alone_opens_no_new_one(address: str, machines: list[tuple[Path, SqlEngine]]) -> None:
    (_, here), _, (home, there) = machines
    there.close()
    here.rotate_master_key()
    with pytest.raises(StoreCorrupt):
        _node(address, home, b"another's")


def _listening(address: str) -> int:
    name = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND query LIKE 'LISTEN %%'"
    with psycopg.connect(server().address(str(name), None)) as admin:
        ((found,),) = admin.execute(asked, (name,)).fetchall()
    return int(found)


def test_a_question_waits_for_vectors_though_numbers_of_versions_have_a_gap(address: str) -> None:
    """Numbers are given out before anything is written, and what is left over is never used."""
    # As long as it takes on a machine that has much else to do.
    world = World(database=PostgresDatabase(address), meaning=letters(patience_seconds=HANG_SECONDS))
    world.remember("the kettle is blue")
    moved = "SELECT setval('version_version_id_seq', 1000000)"
    world.engine._database.write(lambda connection: connection.select(moved, {}))
    world.remember("the harbour office opens at nine")
    assert world.service.embedding.count_waiting() == 2
    world.recall("kettle")
    assert world.service.embedding.count_waiting() == 0
    world.service.close()
