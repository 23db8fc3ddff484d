"""A small set of invented conversations and notes, with a floor for how well questions about them are answered.

The weights of `retrieval.weights` were fitted by hand to larger sets (`bench/retrieval`), which are not run with the
tests. The figures here are exact for the present weights, so each floor stands just below its figure: a weight that is
changed, dropped or applied to the wrong part fails here. Whoever improves the ranking raises the floors.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from memoranda.embedding.catalogue import EMBEDDER, load_embedder
from memoranda.retrieval import ranking
from memoranda.retrieval.weights import WITH_MEANING, WORDS_ONLY
from memoranda.service.core.semantic_search import SemanticSearch
from tests.service.world import World

PROJECT = "talk"
_FILE = Path(__file__).parent / "conversations.json"


class Session(msgspec.Struct, frozen=True):
    """A session: its name, its beginning, and its turns, a minute apart."""

    id: str
    begins: datetime
    turns: list[tuple[str, str]]


class Conversations(msgspec.Struct, frozen=True):
    """The whole file. A question is its text, and a part of the text that answers it."""

    about: str
    asked_at: str
    sessions: list[Session]
    notes: list[str]
    questions: list[tuple[str, str]]


class Figures(NamedTuple):
    """The share of questions answered by the first hit and by the first three, and the mean reciprocal rank."""

    first: float
    first_three: float
    mrr: float


# The figures of 2026-11: 0.531, 0.906, 0.7083 and 0.656, 1.0, 0.8229. One answer that moves from the second to the
# third hit costs 0.0052 of the reciprocal rank.
WORDS_FLOORS = Figures(first=0.53, first_three=0.90, mrr=0.708)
MEANING_FLOORS = Figures(first=0.65, first_three=0.99, mrr=0.820)
# Changes of single weights, as a factor, that the floors notice.
WORDS_FAULTS = {"person": 0.5, "first_named": 0.0, "session": 0.0, "date": 0.0, "window": 2.0, "length": 2.0}
MEANING_FAULTS = {"meaning": 0.5, "context": 0.5, "before": 0.5, "after": 1.5, "date": 0.5}

SET = msgspec.json.decode(_FILE.read_bytes(), type=Conversations)


def fill(world: World) -> None:
    """Remember every turn and note, and make their vectors."""
    begins = datetime.fromisoformat("2026-01-10T08:00:00+00:00")
    texts: list[tuple[str, datetime, dict[str, str]]] = [
        (note, begins + timedelta(hours=number), {}) for number, note in enumerate(SET.notes)
    ]
    for session in SET.sessions:
        for number, (speaker, text) in enumerate(session.turns):
            at = session.begins + timedelta(minutes=number)
            texts.append((f"{speaker}: {text}", at, {"session": session.id}))
    for text, at, scope in texts:
        written = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        times = {"created": written, "observed": written, "valid_from": written}
        kind = "episodic" if scope else "semantic"
        world.remember(text, kind=kind, scope={"project": PROJECT, **scope}, time=times)
    if world.service.context.semantic_search.is_enabled:
        while world.service.embedding.step():
            pass


def measure(world: World) -> Figures:
    """Ask every question and compare the hits with its answer."""
    ranks = []
    for question, answer in SET.questions:
        texts = world.texts(question, limit=10, scope={"project": PROJECT})
        ranks.append(next((rank for rank, text in enumerate(texts, 1) if answer in text), 0))
    count = len(ranks)
    return Figures(
        first=sum(rank == 1 for rank in ranks) / count,
        first_three=sum(0 < rank <= 3 for rank in ranks) / count,
        mrr=sum(1 / rank for rank in ranks if rank) / count,
    )


def falls_below(figures: Figures, floors: Figures) -> bool:
    return any(figure < floor for figure, floor in zip(figures, floors, strict=True))


@pytest.fixture(scope="module")
def by_words() -> Iterator[World]:
    world = World()
    fill(world)
    yield world
    world.service.close()


@pytest.fixture(scope="module")
def by_meaning() -> Iterator[World]:
    world = World(meaning=SemanticSearch(EMBEDDER.model, load_embedder))
    fill(world)
    yield world
    world.service.close()


def test_questions_are_answered_by_keywords_as_well_as_before(by_words: World) -> None:
    figures = measure(by_words)
    assert not falls_below(figures, WORDS_FLOORS), figures


def test_questions_are_answered_with_embeddings_as_well_as_before(by_meaning: World) -> None:
    figures = measure(by_meaning)
    assert not falls_below(figures, MEANING_FLOORS), figures


@pytest.mark.parametrize(("weight", "factor"), WORDS_FAULTS.items(), ids=str)
def test_the_floor_notices_a_changed_weight_of_keywords(
    by_words: World, monkeypatch: pytest.MonkeyPatch, weight: str, factor: float
) -> None:
    changed = msgspec.structs.replace(WORDS_ONLY, **{weight: factor * getattr(WORDS_ONLY, weight)})
    monkeypatch.setattr(ranking, "WORDS_ONLY", changed)
    assert falls_below(measure(by_words), WORDS_FLOORS)


@pytest.mark.parametrize(("weight", "factor"), MEANING_FAULTS.items(), ids=str)
def test_the_floor_notices_a_changed_weight_of_embeddings(
    by_meaning: World, monkeypatch: pytest.MonkeyPatch, weight: str, factor: float
) -> None:
    changed = msgspec.structs.replace(WITH_MEANING, **{weight: factor * getattr(WITH_MEANING, weight)})
    monkeypatch.setattr(ranking, "WITH_MEANING", changed)
    assert falls_below(measure(by_meaning), MEANING_FLOORS)
