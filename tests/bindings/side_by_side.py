"""The scenarios of every standard through every binding, on SQLite and on PostgreSQL: the same answers, in order.

A store is what `memoranda.toml` says in the data directory, so every process that is started has it. Clocks run here,
and what is new weighs more by the moment: scores may differ by SCORES_APART. With clocks that stand still they do not
(tests/service/side_by_side.py). Run by `make test-postgres`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from tests.bindings import test_parity as ump
from tests.bindings import test_parity_standards as standards
from tests.bindings.test_parity_standards import Call, Way
from tests.postgres import server

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

    def pair(self) -> tuple[Path, Path]:
        self._count += 1
        here, there = self._folder / f"sqlite{self._count}", self._folder / f"postgres{self._count}"
        there.mkdir()
        (there / "memoranda.toml").write_text(f'store = "{server().address(server().scratch())}"\n')
        return here, there


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
