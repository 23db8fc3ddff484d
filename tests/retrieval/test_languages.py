"""An embedding model counts only in languages that it reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memoranda.embedding.catalogue import EMBEDDER, load_embedder
from memoranda.service.core.semantic_search import SemanticSearch
from tests.service.world import World

GREEK = (
    "Το κλειδί της αποθήκης είναι κάτω από τη γλάστρα.",
    "Ο γιατρός συνέστησε περισσότερο ύπνο.",
    "Η συνάντηση της ομάδας μεταφέρθηκε στην Πέμπτη.",
    "Ο Νίκος προτιμά τσάι αντί για καφέ.",
    "Το αυτοκίνητο χρειάζεται καινούργια λάστιχα.",
    "Η βιβλιοθήκη κλείνει νωρίς το καλοκαίρι.",
)
QUESTIONS = {
    "Πού είναι το κλειδί;": GREEK[0],
    "Τι είπε ο γιατρός για τον ύπνο;": GREEK[1],
    "Πότε είναι η συνάντηση;": GREEK[2],
    "Τι προτιμά ο Νίκος;": GREEK[3],
    "Τι χρειάζεται το αυτοκίνητο;": GREEK[4],
}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    world = World(meaning=SemanticSearch(EMBEDDER.model, load_embedder))
    for text in (*GREEK, "The office plants are watered on Fridays.", "Use pnpm in this repository."):
        world.remember(text)
    while world.service.embedding.step():
        pass
    yield world
    world.service.close()


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_script_that_the_model_cannot_read_is_ranked_by_words_alone(world: World, question: str) -> None:
    by_words = world.texts(question, ranking_hints={"words_only": True})
    assert world.texts(question)[: len(by_words)] == by_words
    assert by_words[0] == QUESTIONS[question]


def test_a_question_in_a_language_that_the_model_reads_is_answered_by_meaning(world: World) -> None:
    assert world.texts("Which package manager do we install dependencies with?")[0] == "Use pnpm in this repository."
    assert not set(world.texts("When do the flowers at work get something to drink?")) & set(GREEK)
