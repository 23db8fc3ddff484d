"""A write-ahead log that is damaged after a crash loses its end, and that is noticed: how much, and since when."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memoranda.app import Memoranda
from memoranda.cli import main
from memoranda.opening import open_service
from memoranda.settings import load_settings
from memoranda.storage.sqlite.database import SqliteDatabase
from memoranda.storage.sqlite.heads import heads_path, losses_path
from tests.embedders import WORDS_ALONE
from tests.proofs.store import DATABASE_FILE
from tests.waiting import HANG_SECONDS

OWNERS = ("did:example:one", "did:example:two")
WRITTEN = 40
_WRITER = """
import sys
from memoranda.opening import open_service
from memoranda.settings import load_settings
home, owners, count = sys.argv[1], sys.argv[2].split(), int(sys.argv[3])
service = open_service(load_settings({}, home=__import__("pathlib").Path(home), embedder="off"))
for number in range(count):
    owner = owners[number % len(owners)]
    service.remember(service.gate.local(owner), {"kind": "semantic", "body": {"text": f"note {number}"},
        "scope": {"owner": owner}, "provenance": {"actor": owner, "actor_kind": "user", "method": "m"}})
    print(number, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a process leaves that was killed after it had acknowledged all its writes."""
    home = tmp_path_factory.mktemp("crashed") / "home"
    tokens = [sys.executable, "-c", _WRITER, str(home), " ".join(OWNERS), str(WRITTEN)]
    with subprocess.Popen(tokens, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(WRITTEN):
            assert process.stdout.readline()
        process.kill()
        process.wait(HANG_SECONDS)
    return home


def copies(crashed: Path, folder: Path, count: int, seed: int) -> Iterator[tuple[str, Path]]:
    """The same crash again and again, each time with another bit of the log flipped, or another end cut off."""
    chance = random.Random(seed)
    size = (crashed / f"{DATABASE_FILE}-wal").stat().st_size
    for number in range(count):
        home = folder / str(number)
        shutil.copytree(crashed, home)
        log = home / f"{DATABASE_FILE}-wal"
        at = chance.randrange(size)
        if number % 2:
            what = f"cut at {at}"
            log.write_bytes(log.read_bytes()[:at])
        else:
            what = f"a bit flipped at {at}"
            data = bytearray(log.read_bytes())
            data[at] ^= 1 << chance.randrange(8)
            log.write_bytes(data)
        yield what, home
        shutil.rmtree(home)


def survivors(database: SqliteDatabase) -> int:
    with database.open_snapshot() as connection:
        ((count,),) = connection.select("SELECT count(*) FROM version", {})
    return int(count)


def check(home: Path) -> int:
    """How many versions are missing, and that this is what is said of it."""
    with closing(SqliteDatabase(home / DATABASE_FILE)) as database:
        losses = database.list_losses()
        missing = WRITTEN - survivors(database)
        assert sum(each.versions for each in losses) == missing
        assert sum(each.audit for each in losses) == missing
    # The next start says the same: it is on record until somebody has looked after it.
    with closing(SqliteDatabase(home / DATABASE_FILE)) as database:
        assert database.list_losses() == losses
    return missing


def test_every_loss_is_reported_exactly(crashed: Path, tmp_path: Path) -> None:
    found = [check(home) for _, home in copies(crashed, tmp_path, 20, seed=14)]
    # The experiment does something: some of these lose much, and some lose nothing.
    assert max(found) > WRITTEN // 2
    assert sum(map(bool, found)) > 0


def test_a_crash_without_damage_loses_nothing_and_says_nothing(crashed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(crashed, home)
    assert check(home) == 0
    assert not losses_path(home / DATABASE_FILE).exists()


def test_people_are_told_what_is_missing_and_what_to_do(
    crashed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    shutil.copytree(crashed, home)
    log = home / f"{DATABASE_FILE}-wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size * 3 // 4])
    with closing(open_service(load_settings(WORDS_ALONE, home=home))) as service:
        report = service.verify_store()
        assert not report.ok
        assert report.audit.ok  # It agrees, because its own end was in the same log.
        missing = sum(each.versions for each in report.losses)
        assert missing == WRITTEN - report.records
        assert {each.owner for each in report.losses} <= set(OWNERS)
        assert all(each.since and each.since < each.until for each in report.losses)
    assert f"{report.losses[0].versions} written versions" in caplog.text
    assert main(["--data", str(home), "verify"]) == 1
    assert "are missing" in capsys.readouterr().err
    assert main(["--data", str(home), "doctor"]) == 1
    said = capsys.readouterr().out
    assert str(losses_path(home / DATABASE_FILE)) in said
    # Who has looked after it says so, and what is written from then on is watched over again.
    losses_path(home / DATABASE_FILE).unlink()
    with Memoranda.open(home) as memoranda:
        memoranda.remember("afterwards")
    assert main(["--data", str(home), "doctor"]) == 0


def test_a_database_that_is_gone_is_not_taken_for_a_new_one(crashed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(crashed, home)
    for path in home.glob(f"{DATABASE_FILE}*"):
        if path != heads_path(home / DATABASE_FILE):
            path.unlink()
    with closing(SqliteDatabase(home / DATABASE_FILE)) as database:
        assert sum(each.versions for each in database.list_losses()) == WRITTEN


def test_credentials_are_watched_over_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Memoranda.open(home) as memoranda:
        key = memoranda.service.gate.add_key("k", tenant="t", scopes=("read",))
        assert key
    before = (home / DATABASE_FILE).read_bytes()
    with Memoranda.open(home) as memoranda:
        memoranda.service.gate.revoke_key("k")
    (home / DATABASE_FILE).write_bytes(before)
    with closing(SqliteDatabase(home / DATABASE_FILE)) as database:
        (loss,) = database.list_losses()
    assert "credentials" in loss.message
