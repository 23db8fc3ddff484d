"""An import or an export that is ended in its middle: nothing half-written, and the next one goes on from there."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.forking import Forked

from memoranda.app import Memoranda
from memoranda.bindings.files import exchange
from memoranda.service.exchange.importing import BATCH_LIMIT

COUNT = 3 * BATCH_LIMIT
ENDS = pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])


def lines() -> list[bytes]:
    at = "2026-01-02T03:04:05Z"
    told = {"namespace": "user-x123ab:personal", "created_at": at, "updated_at": at}
    return [json.dumps({"key": f"k{number}", "value": f"fact {number}", **told}).encode() for number in range(COUNT)]


def started(home: Path, *words: str) -> Forked:
    command = [sys.executable, "-m", "memoranda", "--data", str(home), *words]
    return Forked(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def count(m: Memoranda) -> int:
    return sum(1 for _ in m.export())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Memoranda.open(tmp_path / "home"):
        return tmp_path / "home"


@ENDS
def test_an_import_goes_on_where_it_was_ended(home: Path, tmp_path: Path, end: signal.Signals) -> None:
    given = lines()
    (tmp_path / "all.jsonl").write_bytes(b"\n".join(given) + b"\n")
    with Memoranda.open(home) as m:
        woken = threading.Event()
        silence = m.service.notifier.listen(woken.set)
        importing = started(home, "import", "-", "--format", "oams")
        assert importing.stdin is not None
        # One batch and a half, and then nothing for ever.
        importing.stdin.write(b"\n".join(given[: BATCH_LIMIT + BATCH_LIMIT // 2]) + b"\n")
        importing.stdin.flush()
        while count(m) < BATCH_LIMIT and importing.poll() is None:
            woken.wait(1)
            woken.clear()
        importing.send_signal(end)
        importing.communicate()
        silence()
        assert importing.returncode != 0
        assert count(m) == BATCH_LIMIT
        assert m.verify().ok
        again = started(home, "import", str(tmp_path / "all.jsonl"), "--json")
        report = json.loads(again.communicate()[0])
        assert (report["created"], report["unchanged"], report["refused"]) == (COUNT - BATCH_LIMIT, BATCH_LIMIT, 0)


NAMES = ("all.ndjson", "all.mg", "all.oams")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store from which one memory was exported in every form, and which has many more since."""
    folder = tmp_path_factory.mktemp("exported")
    with Memoranda.open(folder / "home") as m:
        m.remember("the first")
        for name in NAMES:
            (folder / name).mkdir()
            ended = started(folder / "home", "export", str(folder / name / name))
            ended.communicate()
            assert ended.returncode == 0
        (folder / "all.jsonl").write_bytes(b"\n".join(lines()) + b"\n")
        exchange.import_files(m.ump.import_items, m.owner, [str(folder / "all.jsonl")])
    return folder


@ENDS
@pytest.mark.parametrize("name", NAMES)
def test_an_export_that_is_ended_leaves_the_old_one_as_it_was(
    exported: Path, tmp_path: Path, name: str, end: signal.Signals
) -> None:
    home, target = tmp_path / "home", tmp_path / "out" / name
    shutil.copytree(exported / "home", home)
    overwrite = ("--overwrite",) if name == "all.oams" else ()
    ended = 0
    while ended == 0:
        # Once more where it was faster than the signal.
        shutil.rmtree(target.parent, ignore_errors=True)
        shutil.copytree(exported / name, target.parent)
        before = _contents(target)
        exporting = started(home, "export", str(target), *overwrite)
        # A draft beside it tells that it has begun; a file without a name, that of grains, has none to wait for.
        while not _ends_soon(exporting) and len(list(target.parent.iterdir())) == 1 and not _has_scratch(exporting.pid):
            pass
        exporting.send_signal(end)
        exporting.communicate()
        ended = exporting.wait()
    assert _contents(target) == before
    if end == signal.SIGINT:
        assert [each.name for each in target.parent.iterdir()] == [name]
    again = started(home, "export", str(target), *overwrite)
    again.communicate()
    assert again.returncode == 0
    assert _contents(target) != before


def _ends_soon(process: Forked) -> bool:
    try:
        process.wait(timeout=0.002)
    except subprocess.TimeoutExpired:
        return False
    return True


def _has_scratch(pid: int) -> bool:
    """Whether a process has a nameless file open in the folder."""
    try:
        links = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
        return any("/out/" in link and "deleted" in link for link in links)
    except OSError:
        return False


def _contents(path: Path) -> dict[str, bytes]:
    found = sorted(path.iterdir()) if path.is_dir() else [path]
    return {each.name: each.read_bytes() for each in found}
