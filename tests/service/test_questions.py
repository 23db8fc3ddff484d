"""Questions that say when, name a code, or have a typing error: through every standard, with and without a model."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
from bench.retrieval.table import load

from memoranda.embedding.catalogue import EMBEDDER, load_embedder
from memoranda.model.instant import format_instant
from memoranda.service.core.semantic_search import SemanticSearch
from tests.service.test_same_order import OTHERS, through_ump
from tests.service.world import World

TABLE = load()
DOORS = {"ump": through_ump, **OTHERS}
ASKED = {"asked_at": TABLE.asked, "zone": TABLE.zone}
CODES = (
    "Order ORD-481516 was shipped to Porto.",
    "Order ORD-481517 was cancelled by phone.",
    "The limiter is in src/gateway/limits.py, next to the router.",
    "Invoices go to billing@harbour.example, never to the office.",
    "billing questions go to the harbour office first",
    "She said that the cargo doors stay shut until noon.",
    "Until noon the doors of the cargo hall stay shut, she said.",
)


def fresh_world(*, has_model: bool) -> World:
    return World(meaning=SemanticSearch(EMBEDDER.model, load_embedder)) if has_model else World()


def embed_all(world: World) -> None:
    while world.service.context.semantic_search.is_enabled and world.service.embedding.step():
        pass


@pytest.fixture(scope="module", params=[True, False], ids=["model", "words"])
def diary(request: pytest.FixtureRequest) -> Iterator[World]:
    world = fresh_world(has_model=request.param)
    for at, text in TABLE.diary:
        when = format_instant(int(datetime.fromisoformat(at).timestamp() * 1000))
        world.remember(text, kind="episodic", time={"observed": when, "valid_from": when})
    embed_all(world)
    yield world
    world.service.close()


@pytest.fixture(scope="module", params=[True, False], ids=["model", "words"])
def codes(request: pytest.FixtureRequest) -> Iterator[World]:
    world = fresh_world(has_model=request.param)
    for text in CODES:
        world.remember(text)
    embed_all(world)
    yield world
    world.service.close()


def test_memories_of_the_time_come_first(diary: World) -> None:
    days = {text: at[:10] for at, text in TABLE.diary}
    for question, first, last in TABLE.when:
        found = [days[text] for text in diary.texts(question, limit=10, ranking_hints=ASKED)]
        assert found, question
        assert first <= found[0] <= last, question


def test_yesterday_does_not_include_today(diary: World) -> None:
    days = {text: at[:10] for at, text in TABLE.diary}
    found = diary.texts("What did I do yesterday?", limit=10, ranking_hints=ASKED)
    assert {days[text] for text in found} == {"2026-03-17"}


@pytest.mark.parametrize("door", OTHERS)
def test_a_question_of_a_time_has_one_order_through_every_door(diary: World, door: str) -> None:
    question = "What happened in March 2026?"
    expected = through_ump(diary, question)
    assert len(expected) > 5
    found = [text.partition(": ")[2] or text for text in OTHERS[door](diary, question)]
    # OAMS returns ten memories at most.
    assert found == [text.partition(": ")[2] or text for text in expected][: len(found)]
    assert len(found) > 5


def test_a_time_before_or_after_an_event_is_that_of_its_memory() -> None:
    world = fresh_world(has_model=True)
    for at, text in TABLE.events:
        when = format_instant(int(datetime.fromisoformat(at).timestamp() * 1000))
        world.remember(text, kind="episodic", time={"observed": when, "valid_from": when})
    embed_all(world)
    for question, answer in TABLE.before_events:
        assert world.texts(question, limit=3, ranking_hints=ASKED)[:1] == [answer], question
    world.service.close()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("What happened with order ORD-481516?", 0),
        ("Has ORD-481517 been shipped to Porto?", 1),
        ("What lies beside limits.py, the router or the gateway?", 2),
        ("which office has billing@harbour.example", 3),
    ],
)
def test_a_memory_with_the_exact_string_comes_first(codes: World, door: str, question: str, number: int) -> None:
    assert DOORS[door](codes, question)[0] == CODES[number]


def test_a_quoted_phrase_in_a_longer_question_comes_first(codes: World) -> None:
    assert codes.texts('until noon, who said "the cargo doors stay shut"?')[0] == CODES[5]


def test_a_typing_error_is_corrected_by_the_words_of_visible_memories(codes: World) -> None:
    for question in ("what was cancelld", "the limitter", "who gets invioces"):
        right = question.replace("cancelld", "cancelled").replace("limitter", "limiter").replace("invioces", "invoices")
        assert codes.texts(question)[:1] == codes.texts(right)[:1] != []
