"""The newest statement of a fact comes first, through every standard, with and without an embedding model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench.retrieval.table import load

from memoranda.embedding.catalogue import EMBEDDER, load_embedder
from memoranda.retrieval.newest import asks_for_now
from memoranda.service.core.semantic_search import SemanticSearch
from tests.service.test_same_order import OTHERS, through_ump
from tests.service.world import World

CHANGED = load().changed
DOORS = {"ump": through_ump, **OTHERS}
ORDERS = ("order A-17 was shipped to Porto on a pallet", "order A-18 was shipped to Porto on a pallet")


@pytest.fixture(scope="module", params=["model", "words"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    meaning = SemanticSearch(EMBEDDER.model, load_embedder) if request.param == "model" else None
    world = World(meaning=meaning) if meaning is not None else World()
    for column in (0, 1):
        for fact in CHANGED:
            world.advance(1)
            world.remember(fact[column])
    for text in ORDERS:
        world.advance(1)
        world.remember(text)
    while meaning is not None and world.service.embedding.step():
        pass
    yield world
    world.service.close()


def test_of_two_statements_of_a_fact_the_newer_comes_first(world: World) -> None:
    for column, floor in ((2, 22), (3, 22)):
        newest = [world.texts(fact[column])[:1] == [fact[1]] for fact in CHANGED]
        assert sum(newest) >= floor, [fact for fact, right in zip(CHANGED, newest, strict=True) if not right]


@pytest.mark.parametrize("door", DOORS)
def test_it_comes_first_through_every_standard(world: World, door: str) -> None:
    question = "Where does Petra live?"
    assert DOORS[door](world, question)[0] == "Petra lives in Nantes."


def test_a_statement_with_more_words_of_the_question_stays_first(world: World) -> None:
    assert world.texts("where is order A-17")[0] == ORDERS[0]
    assert world.texts("where is order A-18")[0] == ORDERS[1]


def test_the_newest_of_an_earlier_time_is_not_moved(world: World) -> None:
    ranked = world.recall("Where did Petra live on 3 March 2019?", limit=2)
    assert {result.record["body"]["text"] for result in ranked} == {"Petra lives in Lyon.", "Petra lives in Nantes."}


@pytest.mark.parametrize(
    ("question", "is_now"),
    [
        ("Where does Petra live now?", True),
        ("the latest release", True),
        ("How far do I run these days?", True),
        ("Wo wohnt Petra derzeit?", True),
        ("佩特拉现在住在哪里?", True),
        ("Where does Petra live?", False),
        ("Who knows the way?", False),
    ],
)
def test_words_for_the_present_are_recognised(question: str, is_now: bool) -> None:
    assert asks_for_now(question) == is_now
