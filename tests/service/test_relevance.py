"""Relevance: an estimate that is comparable between questions, and results that are marked as weak."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench.retrieval.table import load

from memoranda.embedding.catalogue import EMBEDDER, load_embedder
from memoranda.service.core.ranking import RankedRecord
from memoranda.service.core.semantic_search import SemanticSearch
from memoranda.standards.ump.requests import RehydrateRequest
from tests.service.test_retrieve import token
from tests.service.world import OPERATOR, PEER, World

TABLE = load()
# English cases: a model reads them.
CASES = TABLE.cases[:40]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    world = World(meaning=SemanticSearch(EMBEDDER.model, load_embedder))
    for kind, text, _ in CASES:
        world.remember(text, kind=kind)
    while world.service.embedding.step():
        pass
    yield world
    world.service.close()


def best(world: World, question: str, **hints: object) -> RankedRecord | None:
    return next(iter(world.recall(question, limit=8, ranking_hints=hints)), None)


def relevance_of(world: World, question: str) -> float:
    found = best(world, question)
    return 0.0 if found is None or found.relevance is None else found.relevance


def test_questions_with_an_answer_are_told_from_those_without(world: World) -> None:
    answered = [relevance_of(world, question) for _, _, question in CASES]
    foreign = [relevance_of(world, question) for question in TABLE.far]
    pairs = [(high > low) + (high == low) / 2 for high in answered for low in foreign]
    # The figure of 2026-11 is 0.97.
    assert sum(pairs) / len(pairs) >= 0.93


def test_no_answer_is_weak_and_many_foreign_results_are(world: World) -> None:
    for _, text, question in CASES:
        found = [hit for hit in world.recall(question, limit=8) if hit.record["body"]["text"] == text]
        assert not found[0].is_weak, question
    foreign = [best(world, question) for question in TABLE.far]
    weak = [found is None or found.is_weak for found in foreign]
    # The figure of 2026-11 is 0.53.
    assert sum(weak) >= 0.5 * len(weak)


def test_relevance_does_not_depend_on_other_results(world: World) -> None:
    question = "Which currency should amounts be shown in?"
    before = best(world, question)
    assert before is not None
    world.remember("The fountain pen has green ink.")
    world.service.embedding.step()
    after = best(world, question)
    assert after is not None
    assert after.relevance == pytest.approx(before.relevance, abs=0.02)


def test_a_document_says_its_relevance_and_if_it_is_weak(world: World) -> None:
    strong = best(world, "Which currency should amounts be shown in?")
    weak = best(world, "How deep is the Mariana Trench?", floor=False)
    assert strong is not None
    assert weak is not None
    assert 0.5 < float(str(strong.document()["relevance"])) <= 1.0
    assert "weak" not in strong.document()
    assert weak.document()["weak"] is True


def test_a_block_of_weak_results_has_three_and_says_so(world: World) -> None:
    request = {"query": "How deep is the Mariana Trench?", "limit": 8, "max_visibility": "public"}
    block = world.service.for_prompt(
        world.owner, RehydrateRequest.parse({**request, "ranking_hints": {"floor": False}})
    )
    assert (block.weak, len(block.injected)) == (True, 3)
    answered = {**request, "query": "Which currency should amounts be shown in?"}
    assert not world.service.for_prompt(world.owner, RehydrateRequest.parse(answered)).weak


def test_what_a_caller_may_not_see_changes_no_relevance() -> None:
    figures = []
    for hidden in ((), ("the harbour master keeps the harbour books",) * 3):
        world = World()
        world.remember("the harbour opens at nine", scope={"visibility": "shared"})
        for number, text in enumerate(hidden):
            world.remember(f"{text} {number}")
        peer = token(world, {}, PEER.did)
        (found,) = world.recall("when does the harbour open", access=peer, scope={"owner": OPERATOR.did})
        figures.append(found.relevance)
        world.service.close()
    assert figures[0] == figures[1]
