"""The scenarios of every standard through every binding, on SQLite and on PostgreSQL: the same answers, in order.

A store is what `memoranda.toml` says in the data directory, so every process that is started has it. Clocks run here,
and what is new weighs more by the moment: scores may differ by SCORES_APART. With clocks that stand still they do not
(tests/service/side_by_side.py). What is found by meaning is asked once everything has its vectors, of an endpoint that
every process is told of; on PostgreSQL it is compared by the process and by pgvector. Run by `make test-postgres`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import httpx
import pytest
from tests.bindings import test_parity as ump
from tests.bindings import test_parity_standards as standards
from tests.bindings.http.test_subscribe import subscribed
from tests.bindings.test_parity_standards import Call, Way
from tests.commands import command
from tests.embedders import endpoint
from tests.postgres import server
from tests.waiting import HANG_SECONDS

from memoranda import Memoranda

# A recall comes a minute later at most; half of what newness weighs is lost after weeks.
SCORES_APART: Final = 0.001
_QUERIES: Final[dict[str, Callable[[Path], Awaitable[list[dict[str, Any]]]]]] = {
    "HTTP": ump.answers_by_http,
    "MCP": ump.answers_by_mcp,
}
_STANDARDS: Final[dict[str, tuple[Any, Callable[[Path], dict[str, Way]]]]] = {
    "OMS": (standards.grains, lambda _: standards.GRAIN_WAYS),
    "OAMS": (standards.memories, lambda home: standards.memory_ways(standards.namespace_in(home))),
    "consolidation": (standards.dreams, lambda home: standards.dream_ways(standards.namespace_in(home))),
    "openwop": (standards.entries, lambda _: standards.ENTRY_WAYS),
}


class Homes:
    """Data directories in pairs: one has its store in a file, the other on PostgreSQL."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def pair(self, vector_search: str = "process") -> tuple[Path, Path]:
        """Return the directory of a SQLite store and one of a PostgreSQL store with this setting."""
        self._count += 1
        name, home = server().scratch(), self._folder / f"postgres{self._count}"
        if vector_search == "pgvector":
            server().add_pgvector(name)
        home.mkdir()
        settings = f'store = "{server().address(name)}"\nvector_search = "{vector_search}"\n'
        (home / "memoranda.toml").write_text(settings)
        return self._folder / f"sqlite{self._count}", home


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path)


def scores(answer: Any) -> Iterator[float]:
    """Every score in an answer, in order."""
    if isinstance(answer, dict):
        if isinstance(answer.get("score"), float):
            yield answer["score"]
        answer = list(answer.values())
    if isinstance(answer, list | tuple):
        for each in answer:
            yield from scores(each)


@asynccontextmanager
async def heard(way: Way, home: Path, found: list[float]) -> AsyncIterator[Call]:
    """The same way, with the scores of all its answers."""
    async with way(home) as ask:

        async def call(operation: str, body: dict[str, Any]) -> Any:
            answer = await ask(operation, body)
            found.extend(scores(answer))
            return answer

        yield call


def same(act: Callable[[Path, list[float]], list[Any]], homes: Homes) -> list[float]:
    """Do the same with both, and compare what is answered; the scores."""
    here, there = homes.pair()
    of_file: list[float] = []
    of_database: list[float] = []
    assert act(there, of_database) == act(here, of_file)
    assert (there / "memoranda.db").exists() is False
    assert of_database == pytest.approx(of_file, abs=SCORES_APART)
    return of_file


@pytest.mark.parametrize("name", ["library", *ump.WAYS])
def test_records_are_answered_the_same(homes: Homes, name: str) -> None:
    way = {"library": ump.by_library, **ump.WAYS}[name]
    found = same(
        lambda home, into: anyio.run(ump.transcript, lambda home: heard(way, home, into), home),
        homes,
    )
    assert len(found) >= 3


@pytest.mark.parametrize("standard", _STANDARDS)
def test_every_standard_answers_the_same_over_every_binding(homes: Homes, standard: str, tmp_path: Path) -> None:
    scenario, made = _STANDARDS[standard]
    for way in made(tmp_path / "any").values():

        def act(home: Path, into: list[float], way: Way = way) -> list[Any]:
            return anyio.run(standards.transcript, scenario, lambda home: heard(way, home, into), home)

        same(act, homes)


@pytest.mark.parametrize("binding", _QUERIES)
def test_cal_answers_the_same(homes: Homes, binding: str) -> None:
    def act(home: Path, _: list[float]) -> list[Any]:
        with Memoranda.open(home, owner=ump.OWNER) as m:
            m.service.grains.put(m.access, ump.BELIEF)
        answers = anyio.run(_QUERIES[binding], home)
        for answer in answers:
            answer.get("_cal", {}).pop("duration_ms", None)
        return answers

    same(act, homes)


NOTES: Final = tuple(
    f"{who} {what}"
    for who in ("Ada", "the harbour office", "our build")
    for what in ("likes green tea", "opens at nine", "broke on Thursday", "needs two keys")
)
MEANT: Final = ("who drinks tee", "when does it opn", "wat is broken", "a kei")


@pytest.mark.parametrize("vector_search", ["process", pytest.param("pgvector", marks=pytest.mark.pgvector)])
def test_what_is_found_by_meaning_is_the_same_over_every_binding(
    homes: Homes, vector_search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint() as address:
        told = {"MEMORANDA_EMBEDDER": address, "MEMORANDA_EMBEDDER_MODEL": "tiny", "MEMORANDA_EMBEDDER_KEY": "key"}
        for name, value in told.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(ump, "WORDS_ALONE", told)
        pair = homes.pair(vector_search)
        for home in pair:
            with Memoranda.open(home, owner=ump.OWNER) as m:
                for text in NOTES:
                    m.remember(text)
            embedded = command("--data", str(home), "--owner", ump.OWNER, "--json", "models", "embed")
            assert json.loads(embedded.out)["pending"] == 0
        for way in (ump.by_library, *ump.WAYS.values()):
            here, there = (anyio.run(_asked, way, home) for home in pair)
            assert all(len(found) > 1 for found in here), "not by words alone"
            for found, expected in zip(there, here, strict=True):
                assert [text for text, _ in found] == [text for text, _ in expected]
                assert [score for _, score in found] == pytest.approx(
                    [score for _, score in expected], abs=SCORES_APART
                )


async def _asked(way: Way, home: Path) -> list[list[tuple[str, float]]]:
    found = []
    async with way(home) as call:
        for query in MEANT:
            answer = await call("recall", {"query": query, "limit": 8})
            found.append([(each["record"]["body"]["text"], each["score"]) for each in answer["results"]])
    return found


def test_changes_are_streamed_the_same(homes: Homes) -> None:
    """To one who listens while they happen, and to one who comes back behind the second of them."""

    def act(home: Path, _: list[float]) -> list[Any]:
        return anyio.run(_streamed, home)

    same(act, homes)


async def _streamed(home: Path) -> list[Any]:
    async with ump.served(home) as (url, bearer):
        return await anyio.to_thread.run_sync(_listened, url, bearer)


def _listened(url: str, bearer: str) -> list[Any]:
    headers = {"Authorization": f"Bearer {bearer}"}
    with httpx.Client(base_url=url, headers=headers, timeout=HANG_SECONDS) as client:
        with subscribed(client) as stream:
            # Each is read at once: a record is shown as it is when its event is sent.
            first = client.post("/ump/remember", json=ump.draft("use pnpm, never npm")).json()["id"]
            events = [stream.event()]
            client.post("/ump/remember", json=ump.draft("Use PNPM, never npm"))
            events.append(stream.event())
            second = client.post("/ump/revise", json={"id": first, "patch": {"body": {"text": "use bun"}}}).json()["id"]
            events.append(stream.event())
            client.post("/ump/forget", json={"id": second, "reason": "over"})
            events.append(stream.event())
        with subscribed(client, **{"Last-Event-ID": str(events[1].seq)}) as stream:
            events += [stream.event() for _ in range(2)]
    assert [each.name for each in events] == ["created", "merged", "revised", "tombstoned", "revised", "tombstoned"]
    names: dict[str, str] = {}
    return [(each.seq, each.name, ump.plain(each.data, names)) for each in events]
