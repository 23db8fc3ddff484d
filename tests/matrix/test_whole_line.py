"""Forgetting, erasing and making private reach all versions of a memory, however its line was written.

The generator (tests/lines) covers the verbs of all standards; these are writers that it does not have: several worker
processes, processes with wrong clocks, and adapters of frameworks. An editor is in both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import httpx
import pytest

import memoranda.opening
from memoranda import Memoranda
from memoranda.adapters.anthropic import MemoryFiles
from memoranda.adapters.langgraph import MemorandaStore
from memoranda.cli import main
from memoranda.errors import MemorandaError
from memoranda.model.instant import DAY_MS, Instant
from memoranda.opening import system_clock
from memoranda.standards.oams.mapping import VISIBILITY_KEY
from tests.cli.test_workers import serving

FIRST, SECOND = "quokkafirst", "quokkasecond"
FORMATS: Final = ("json", "ndjson", "markdown", "mg", "oams", "mem0", "csv", "langgraph")
WITH_HISTORY: Final = ("json", "ndjson", "markdown", "mg")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STORE", "OWNER"):
        monkeypatch.delenv(f"MEMORANDA_{name}", raising=False)
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "off")
    return tmp_path / "home"


# --- the writers of a line --------------------------------------------------------------------------------------------


def by_editor(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memoranda.open(home) as m:
        name = m.remember(f"{FIRST} lives on Rottnest").id
    script = home.parent / "editor.py"
    script.write_text(
        f"import sys; p = sys.argv[1]; t = open(p).read(); open(p, 'w').write(t.replace({FIRST!r}, {SECOND!r}))"
    )
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
    assert main(["edit", name]) == 0


def by_jumping_clock(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Revised two days before it was written, by a process that was started with the clock set back."""
    monkeypatch.setattr(memoranda.opening, "system_clock", lambda: system_clock())
    with Memoranda.open(home) as m:
        name = m.remember(f"{FIRST} lives on Rottnest").id
        monkeypatch.setattr(memoranda.opening, "system_clock", lambda: Instant(system_clock() - 2 * DAY_MS))
        name = m.revise(name, f"{SECOND} lives on Rottnest").id
    with Memoranda.open(home) as m:
        m.revise(name, f"{SECOND} lives on an island")
    monkeypatch.setattr(memoranda.opening, "system_clock", lambda: Instant(system_clock() + 2 * DAY_MS))


def by_langgraph(home: Path, _: pytest.MonkeyPatch) -> None:
    with Memoranda.open(home) as m:
        store = MemorandaStore(m)
        store.put(("users", "ada"), "animal", {"text": f"{FIRST} lives on Rottnest"})
        store.put(("users", "ada"), "animal", {"text": f"{SECOND} lives on Rottnest"})


def by_memory_tool(home: Path, _: pytest.MonkeyPatch) -> None:
    with Memoranda.open(home) as m:
        files = MemoryFiles(m)
        files.create("/memories/animal.txt", f"{FIRST} lives on Rottnest")
        files.str_replace("/memories/animal.txt", FIRST, SECOND)


def by_workers(home: Path, _: pytest.MonkeyPatch) -> None:
    with serving(home) as server:
        name = server.remember(f"{FIRST} lives on Rottnest")
        with server.client() as client:
            revised = client.post(
                "/ump/revise", json={"id": name, "patch": {"body": {"text": f"{SECOND} lives on Rottnest"}}}
            )
            assert revised.status_code == 200, revised.text


WRITERS: Final[Mapping[str, Callable[[Path, pytest.MonkeyPatch], None]]] = {
    "editor": by_editor,
    "jumping clock": by_jumping_clock,
    "LangGraph": by_langgraph,
    "memory tool": by_memory_tool,
    "workers": by_workers,
}


# --- what is shown ----------------------------------------------------------------------------------------------------


def exports(home: Path, folder: str) -> Iterator[tuple[str, bytes]]:
    """Everything that each form of export writes, with and without history."""
    for form in FORMATS:
        for options in ((), ("--no-history",)) if form in WITH_HISTORY else ((),):
            target = home.parent / folder / "".join((form, *options))
            target.parent.mkdir(exist_ok=True)
            assert main(["export", str(target), "--format", form, *options]) == 0
            paths = [target] if target.is_file() else sorted(target.rglob("*"))
            yield " ".join((form, *options)), b"".join(path.read_bytes() for path in paths if path.is_file())


def searches(m: Memoranda) -> Iterator[tuple[str, str]]:
    """The answers of everything that looks for memories."""
    yield "recall", str([hit.record for hit in m.recall("Rottnest island", floor=False)])
    yield "prompt", m.for_prompt("Rottnest island", floor=False).text
    yield "list", str([memory.record for memory in m])
    yield "cal", str(m.cal("RECALL AS text"))
    yield "cal superseded", str(m.cal("RECALL WITH superseded AS text"))


def ids_of_line(m: Memoranda) -> list[str]:
    """The ids of all versions, the first one in front."""
    (head,) = [memory for memory in m if SECOND in memory.text]
    return [version.id for version in m.history(head.id)]


def data_of(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.glob("memoranda.db*")))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_forgotten_line_is_found_and_exported_nowhere(
    home: Path, writer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    WRITERS[writer](home, monkeypatch)
    before = dict(exports(home, "before"))
    assert all(SECOND.encode() in data for data in before.values())
    assert all(FIRST.encode() in before[form] for form in ("json", "ndjson"))
    with Memoranda.open(home) as m:
        m.forget(ids_of_line(m)[-1], reason="asked")
        for name, text in searches(m):
            assert FIRST not in text, name
            assert SECOND not in text, name
    for name, data in exports(home, "after"):
        assert FIRST.encode() not in data, name
        assert SECOND.encode() not in data, name


@pytest.mark.parametrize("writer", WRITERS)
def test_an_erased_line_leaves_no_byte(home: Path, writer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WRITERS[writer](home, monkeypatch)
    assert FIRST.encode() in data_of(home)
    with Memoranda.open(home) as m:
        line = ids_of_line(m)
        assert len(line) >= 2
        m.forget(line[-1], reason="asked", hard=True)
        for name, text in searches(m):
            assert FIRST not in text, name
            assert SECOND not in text, name
        for name in line:
            try:
                shown = str((m.get(name).record, [version.text for version in m.history(name)]))
            except MemorandaError:
                continue
            assert FIRST not in shown
            assert SECOND not in shown
    assert FIRST.encode() not in data_of(home)
    assert SECOND.encode() not in data_of(home)


@pytest.mark.parametrize("jump", [0, -2 * DAY_MS, 2 * DAY_MS])
def test_a_line_made_private_is_open_to_no_peer(home: Path, jump: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memoranda.open(home) as m:
        public = {VISIBILITY_KEY: "public"}
        m.oams.store("animal", f"{FIRST} lives on Rottnest", metadata=public)
        m.oams.store("animal", f"{SECOND} lives on Rottnest", metadata=public)
        peer = Memoranda(m.service, m.service.gate.local("did:example:peer"))
        names = ids_of_line(m)
        assert FIRST in peer.get(names[0]).text
    monkeypatch.setattr(memoranda.opening, "system_clock", lambda: Instant(system_clock() + jump))
    with Memoranda.open(home) as m:
        m.oams.store("animal", f"{SECOND} lives on Rottnest", metadata={})
        names = ids_of_line(m)
        assert len(names) == 3
        peer = Memoranda(m.service, m.service.gate.local("did:example:peer"))
        for name in names:
            for verb in (peer.get, peer.history):
                with pytest.raises(MemorandaError):
                    verb(name)


def test_every_worker_forgets_a_line(home: Path) -> None:
    """Each of them has documents of its own in memory; a new connection goes to whichever the system chooses."""

    def told(client: httpx.Client, names: list[str]) -> str:
        answers = [client.post("/ump/recall", json={"query": "Rottnest", "limit": 8})]
        answers.append(client.post("/cal", json={"query": "RECALL WITH superseded AS text"}))
        answers += [client.get(f"/ump/get/{name}") for name in names]
        return "".join(answer.text for answer in answers)

    with serving(home) as server:
        first = server.remember(f"{FIRST} lives on Rottnest")
        with server.client() as client:
            patch = {"body": {"text": f"{SECOND} lives on Rottnest"}}
            second = client.post("/ump/revise", json={"id": first, "patch": patch}).json()["id"]
        for _ in range(8):
            with server.client() as client:
                assert SECOND in told(client, [first, second])
        with server.client() as client:
            erased = client.post("/ump/forget", json={"id": second, "reason": "asked", "hard": True})
            assert erased.status_code == 200
        for _ in range(8):
            with server.client() as client:
                text = told(client, [first, second])
                assert FIRST not in text
                assert SECOND not in text
    assert FIRST.encode() not in data_of(home)


def test_a_clock_that_jumps_keeps_what_was_forgotten_and_the_order_of_a_line(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset = [0]
    monkeypatch.setattr(memoranda.opening, "system_clock", lambda: Instant(system_clock() + offset[0]))
    names: list[str] = []
    for number, jump in enumerate((0, -3 * DAY_MS, 5 * DAY_MS, -DAY_MS)):
        offset[0] += jump
        with Memoranda.open(home) as m:
            text = f"version {number} of {FIRST}"
            names.append(m.remember(text).id if not names else m.revise(names[-1], text).id)
    with Memoranda.open(home) as m:
        assert [version.text for version in m.history(names[0])] == [f"version {n} of {FIRST}" for n in range(4)]
        m.forget(names[-1])
    for jump in (-10 * DAY_MS, 20 * DAY_MS):
        offset[0] += jump
        with Memoranda.open(home) as m:
            assert [hit.text for hit in m.recall(FIRST, floor=False)] == []
            assert list(m) == []
            assert m.verify().audit.ok
