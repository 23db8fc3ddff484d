"""Backup and restore: whole while others write, private, checked; and nothing lost when something is wrong."""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest
from tests.cli.conftest import Command

from memoranda import backup
from memoranda.app import Memoranda
from memoranda.bindings.files import archive
from memoranda.keys import OPERATOR_KEY_FILE
from memoranda.stores import KEY_RING_FILE

PASSPHRASE = "correct horse"


@pytest.fixture(autouse=True)
def cheap_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "SCRYPT_COST", 10)


@pytest.fixture
def filled(home: Path) -> Path:
    with Memoranda.open(home) as memoranda:
        for number in range(3):
            memoranda.remember(f"note {number} about gardening")
        memoranda.remember("alice likes tea", user="alice")
        memoranda.import_records([{"kind": "semantic", "body": {"text": f"{n} {'x' * 500}"}} for n in range(100)])
    return home


def texts(home: Path) -> set[str]:
    with Memoranda.open(home) as memoranda:
        return {record["body"]["text"] for record in memoranda.export()}


def everything(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}


def test_a_backup_of_a_store_in_use_holds_all_that_was_acknowledged(run: Command, filled: Path, tmp_path: Path) -> None:
    target, other = tmp_path / "store.backup", tmp_path / "other"
    stop = threading.Event()
    with Memoranda.open(filled) as memoranda:

        def write() -> None:
            number = 0
            while not stop.wait(0.001):
                memoranda.remember(f"meanwhile {number}", user=f"user {number % 3}")
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        acknowledged = {record["body"]["text"] for record in memoranda.export()}
        done = run("--json", "backup", target)
        stop.set()
        writer.join()
        operator = memoranda.service.operator_did
    assert done.code == 0
    assert (done.json["operator"], done.json["encrypted"]) == (operator, False)
    assert target.stat().st_mode & 0o777 == 0o600
    # Nothing of the work is left lying about.
    assert not [path for path in filled.iterdir() if path.name.startswith(".")]
    restored = run("--data", other, "--json", "restore", target)
    assert restored.code == 0
    assert restored.json["operator"] == operator
    assert acknowledged <= texts(other)
    checked = run("--data", other, "--json", "verify")
    assert checked.code == 0, checked.out
    assert checked.json["losses"] == []
    assert {path.stat().st_mode & 0o777 for path in other.iterdir() if path.is_file()} == {0o600}


def test_an_encrypted_backup_tells_nothing_and_comes_back_with_its_passphrase(
    run: Command, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, other = tmp_path / "store.backup", tmp_path / "other"
    assert run("backup", target, "--passphrase", piped=PASSPHRASE.encode() + b"\n").code == 0
    held = target.read_bytes()
    for secret in (b"gardening", b"SQLite format", (filled / OPERATOR_KEY_FILE).read_bytes()[:40]):
        assert secret not in held
    wrong = run("--data", other, "restore", target, piped=b"correct house\n")
    assert (wrong.code, "wrong passphrase" in wrong.err) == (1, True)
    assert not [path for path in other.rglob("*") if path.is_file()]
    monkeypatch.setenv("MEMORANDA_PASSPHRASE", PASSPHRASE)
    assert run("--data", other, "restore", target).code == 0
    assert texts(other) == texts(filled)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_cut_or_damaged_backup_changes_nothing_and_says_so(
    run: Command, filled: Path, tmp_path: Path, encrypted: bool
) -> None:
    target, other = tmp_path / "store.backup", tmp_path / "other"
    secret = PASSPHRASE if encrypted else None
    said = PASSPHRASE.encode() + b"\n"
    assert run("backup", target, *(["--passphrase"] if encrypted else []), piped=said).code == 0
    whole = target.read_bytes()
    places = [0, 10, 100, 700, *(len(whole) * part // 8 for part in range(1, 8))]
    damaged = [whole[:place] for place in places]
    damaged += [whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :] for place in places[3:]]
    for number, data in enumerate(damaged):
        target.write_bytes(data)
        ran = run("--data", other, "restore", target, piped=said)
        assert ran.code == 1, (number, secret)
        assert "damaged" in ran.err or "passphrase" in ran.err
        assert "Error" not in ran.err
        assert not [path for path in other.rglob("*") if path.is_file()]


def test_a_store_that_is_there_is_kept(run: Command, filled: Path, tmp_path: Path) -> None:
    target, other = tmp_path / "store.backup", tmp_path / "other"
    assert run("backup", target).code == 0
    with Memoranda.open(other) as memoranda:
        memoranda.remember("of the other store")
        used = run("--data", other, "restore", target, "--force")
        assert (used.code, "stop the server" in used.err) == (1, True)
    before = everything(other)
    refused = run("--data", other, "restore", target)
    assert (refused.code, "--force" in refused.err) == (1, True)
    assert everything(other) == before
    forced = run("--data", other, "--json", "restore", target, "--force")
    assert forced.code == 0
    aside = Path(forced.json["aside"])
    assert texts(other) == texts(filled)
    # It is whole where it is now.
    assert texts(aside) == {"of the other store"}


def test_a_disk_without_room_leaves_no_half_backup(run: Command, filled: Path, tmp_path: Path) -> None:
    target = tmp_path / "store.backup"
    assert run("backup", target).code == 0
    before = target.read_bytes()
    with largest_file(len(before) - 1_024):
        ran = run("backup", target)
    assert (ran.code, "larger than is allowed" in ran.err) == (1, True)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["home", "store.backup"] or {
        path.name for path in tmp_path.iterdir()
    } == {"home", "store.backup"}
    assert not [path for path in filled.iterdir() if path.name.startswith(".")]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_no_new_identity_is_made_beside_a_store_that_another_signed(run: Command, filled: Path, tmp_path: Path) -> None:
    key = filled / OPERATOR_KEY_FILE
    kept = key.rename(tmp_path / "kept.key")
    for command in (["recall", "gardening"], ["verify"], ["doctor"], ["backup", tmp_path / "x"], ["key", "add", "k"]):
        ran = run(*command)
        assert (ran.code, key.exists()) == (1, False), command
        assert "operator.key" in ran.err + ran.out
    # Another store's key does not open it either.
    Memoranda.open(tmp_path / "other").service.close()
    (tmp_path / "other" / OPERATOR_KEY_FILE).rename(key)
    ran = run("recall", "gardening")
    assert (ran.code, "another operator" in ran.err) == (1, True)
    kept.rename(key)
    assert run("recall", "gardening").code == 0


def test_what_is_no_backup_is_refused(run: Command, home: Path, tmp_path: Path) -> None:
    for name, data in (("empty", b""), ("text", b"hello " * 1_000), ("tar", tar_with("../../escape"))):
        (tmp_path / name).write_bytes(data)
        ran = run("restore", tmp_path / name)
        assert (ran.code, "nothing was changed" in ran.err) == (1, True)
    assert run("restore", tmp_path / "missing").code == 1
    assert not [path for path in home.rglob("*") if path.is_file()]
    assert not list(tmp_path.parent.rglob("escape"))


def tar_with(name: str) -> bytes:
    import io
    import tarfile

    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    return made.getvalue()


def test_keys_and_settings_come_along(run: Command, filled: Path, tmp_path: Path) -> None:
    target, other = tmp_path / "store.backup", tmp_path / "other"
    (filled / "memoranda.toml").write_text('port = 9000\nstore = "sqlite:///elsewhere.db"\n')
    (filled / "dids").mkdir()
    (filled / "dids" / "a.json").write_text('{"id": "did:web:a"}')
    stored = f"sqlite:///{filled / 'memoranda.db'}"
    assert run("--store", stored, "backup", target).code == 0
    ran = run("--data", other, "--json", "restore", target)
    assert ran.code == 0
    # Settings that name another place for the store would make it look empty.
    assert Path(ran.json["settings"]).read_bytes() == (filled / "memoranda.toml").read_bytes()
    assert not (other / "memoranda.toml").exists()
    for name in (OPERATOR_KEY_FILE, "master.key", "dids/a.json"):
        assert (other / name).read_bytes() == (filled / name).read_bytes()
    assert (other / KEY_RING_FILE).exists()
    with Memoranda.open(other) as memoranda:
        assert memoranda.recall("alice tea")[0].record["body"]["text"] == "alice likes tea"


def test_what_a_killed_backup_left_is_removed_by_the_next_and_one_at_work_is_left_alone(
    run: Command, filled: Path, tmp_path: Path
) -> None:
    left, in_use = filled / ".backup-left", filled / ".backup-in-use"
    for folder in (left, in_use):
        folder.mkdir()
        (folder / "memoranda.db").write_bytes(b"a copy")
    with backup._locked(in_use):
        assert run("backup", tmp_path / "store.backup").code == 0
        assert [path.name for path in filled.glob(".backup-*")] == [in_use.name]
    assert run("backup", tmp_path / "again.backup").code == 0
    assert list(filled.glob(".backup-*")) == []


def test_what_a_killed_backup_left_is_removed_when_a_memory_is_erased(run: Command, filled: Path) -> None:
    with Memoranda.open(filled) as m:
        left, in_use = filled / ".backup-left", filled / ".backup-in-use"
        for folder in (left, in_use):
            folder.mkdir()
            (folder / "memoranda.db").write_bytes(b"a copy")
        draft = filled / ".memoranda.db.killed.restoring"
        (filled / ".restore-killed").mkdir()
        draft.write_bytes(b"a copy")
        name = m.remember("to be erased").id
        with backup._locked(in_use):
            m.forget(name, hard=True)
        assert (left.exists(), in_use.exists(), draft.exists()) == (False, True, False)
    # Opening the store does so, too.
    assert run("list").code == 0
    assert not in_use.exists()


# Is killed when all files are unpacked and none has its name.
KILLED = """
import os, signal, sys
from memoranda import backup
from memoranda.cli import main
backup._Staged.check_layout = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(["--data", sys.argv[1], "restore", sys.argv[2]])
"""


def test_what_a_killed_restore_left_is_removed_by_the_next_restore_or_backup(
    run: Command, filled: Path, tmp_path: Path
) -> None:
    source, home = tmp_path / "store.backup", tmp_path / "to"
    assert run("backup", source).code == 0

    def kill_restore() -> None:
        command = [sys.executable, "-c", KILLED, str(home), str(source)]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        assert any(path.name.startswith(".memoranda.db.") for path in home.iterdir())

    kill_restore()
    # One at work is left alone.
    in_use = home / ".restore-in-use"
    in_use.mkdir()
    draft = home / ".memoranda.db.in-use.restoring"
    draft.write_bytes(b"a copy")
    with backup._locked(in_use):
        assert run("--data", home, "restore", source).code == 0
    assert {path.name for path in home.glob(".*")} == {in_use.name, draft.name}
    assert run("--data", home, "backup", tmp_path / "again.backup").code == 0
    assert list(home.glob(".*")) == []
    assert texts(home) == texts(filled)


def test_a_store_whose_key_is_lost_is_saved_into_another_as_the_page_says(
    run: Command, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "backup.md"
    (sql,) = re.findall(r"SELECT v\.native .*?'ump'.*?version_id", page.read_text(encoding="utf-8"), re.DOTALL)
    with Memoranda.open(filled) as memoranda:
        memoranda.remember("what alice said", project="shop")
        owner = memoranda.access.default_tenant
    (filled / OPERATOR_KEY_FILE).unlink()
    assert run("recall", "gardening").code == 1
    with closing(apsw.Connection(str(filled / "memoranda.db"))) as database:
        saved = b"".join(bytes(native) + b"\n" for (native,) in database.execute(sql))
    (tmp_path / "saved.jsonl").write_bytes(saved)
    monkeypatch.setenv("MEMORANDA_OWNER", owner)
    assert run("--data", tmp_path / "other", "import", tmp_path / "saved.jsonl").code == 0
    assert {"note 1 about gardening", "what alice said"} <= texts(tmp_path / "other")
    assert run("--data", tmp_path / "other", "verify").code == 0
