"""A store that is moved goes on after its mover was killed, and is the same afterwards, byte for byte of its export.

Run by `make test-postgres`: a mover is a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from memoranda import Memoranda
from memoranda.errors import StoreUnavailable
from memoranda.opening import open_service
from memoranda.service.exchange.importing import number_items
from memoranda.service.service import Service
from memoranda.settings import Settings, load_settings
from memoranda.standards.oms.grains import encode
from memoranda.storage.postgres.moving import PostgresTables
from tests.commands import command
from tests.postgres import server
from tests.service.world import grain
from tests.waiting import until

NOW = 1_780_000_000_000
# Whoever waits for a lock in this database.
WAITING = (
    "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = %s)"
)


def settings(home: Path, store: str) -> Settings:
    return load_settings({"MEMORANDA_EMBEDDER": "off"}, home=home, store=store)


def fill(service: Service) -> None:
    """Memories of three standards, some of them changed, forgotten and erased."""
    me = service.gate.local()
    drafts = [{"kind": "semantic", "body": {"text": f"the crane lifts {number} tons"}} for number in range(60)]
    blobs = [encode(grain(NOW + number, object=f"tea {number}")).blob for number in range(30)]
    assert service.import_items(me, number_items("ump", drafts)).created == 60
    assert service.import_items(me, number_items("oms", blobs)).created == 30
    m = Memoranda(service, me)
    assert len(m.oams.batch_store([{"key": f"k{number}", "value": f"cup {number}"} for number in range(30)])) == 30
    changed, forgotten, erased = (each.id for each in m.recall("crane lifts", limit=3))
    m.revise(changed, "the crane was sold")
    m.forget(forgotten)
    m.forget(erased, hard=True)


def export(home: Path, store: str, file: Path) -> bytes:
    done = command("--data", str(home), "--store", store, "export", str(file))
    assert done.code == 0, done
    return file.read_bytes()


def start(home: Path, source: str, target: str) -> subprocess.Popen[bytes]:
    tokens = ["--data", str(home), "migrate-store", source, target]
    return subprocess.Popen([sys.executable, "-m", "memoranda", *tokens], stdout=subprocess.DEVNULL)


def kill_in_the_middle(address: str, home: Path, source: str, target: str) -> None:
    """Let a mover come as far as one of the tables, and kill it there."""
    name = str(psycopg.conninfo.conninfo_to_dict(address)["dbname"])
    with psycopg.connect(server().address(name, None)) as raw, psycopg.connect(address, autocommit=True) as watcher:
        raw.execute("LOCK TABLE change IN ACCESS EXCLUSIVE MODE")
        mover = start(home, source, target)
        until(lambda: watcher.execute(WAITING, (name,)).fetchone() == (1,), "the mover has come as far as that")
        mover.kill()
        mover.wait()


@pytest.mark.parametrize("path", ["there", "and back"])
def test_who_is_killed_goes_on_and_everything_is_as_it_was(tmp_path: Path, path: str) -> None:
    first, last = f"sqlite:///{tmp_path}/memoranda.db", f"sqlite:///{tmp_path}/back/memoranda.db"
    (tmp_path / "back").mkdir()
    service = open_service(settings(tmp_path, first))
    fill(service)
    service.close()
    before = export(tmp_path, first, tmp_path / "before.ndjson")
    address = server().address(server().scratch())
    if path == "there":
        # Its tables are made, so that one of them can be locked before the mover comes.
        PostgresTables(address).close()
        kill_in_the_middle(address, tmp_path, first, address)
        with pytest.raises(StoreUnavailable, match="store is incomplete"):
            open_service(settings(tmp_path, address))
        source, target = first, address
    else:
        assert start(tmp_path, first, address).wait() == 0
        kill_in_the_middle(address, tmp_path, address, last)
        assert not (tmp_path / "back" / "memoranda.db").exists()
        source, target = address, last
    done = command("--data", str(tmp_path), "--json", "migrate-store", source, target)
    assert done.code == 0, done
    assert export(tmp_path, target, tmp_path / "after.ndjson") == before
    assert before.count(b"\n") == 119
    service = open_service(settings(tmp_path, target))
    assert service.verify_store().ok
    service.close()
