"""Semantic search finds a new memory at once: the newest memories get vectors first, and a search waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
from msgspec.structs import replace

from memoranda.embedding.embedder import of_callable
from memoranda.service.core.embedding_queue import EmbeddingQueue
from memoranda.service.core.semantic_search import SemanticSearch
from tests.embedders import LETTERS, by_letters, letters
from tests.service.test_meaning import rows, waiting, worked_off
from tests.service.world import World


@pytest.fixture
def world() -> Iterator[World]:
    opened = World(meaning=letters())
    yield opened
    opened.service.close()


class Ticking:
    """A clock that advances by a tenth of a second whenever it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self) -> float:
        self.reads += 1
        return self.reads / 10


def queue_of(world: World, embed: Callable[[Sequence[str]], list[list[float]]], clock: Ticking) -> EmbeddingQueue:
    embedder = of_callable(LETTERS.model.removeprefix("function:"), embed)
    meaning = SemanticSearch(world.service.context.semantic_search.model, lambda: embedder)
    return EmbeddingQueue(replace(world.service.context, semantic_search=meaning), seconds=clock)


def with_vectors(world: World) -> set[int]:
    return {version for (version,) in rows(world, "SELECT version_id FROM vector")}


def test_the_newest_have_their_vectors_first_and_each_has_them_once(world: World) -> None:
    queue = world.service.embedding
    world.remember("the first note")
    assert queue.step()
    for number in range(40):
        world.remember(f"note {number}")
    last = queue.progress().last
    assert queue.step()
    assert {last - 1, last} <= with_vectors(world)
    assert last - 10 not in with_vectors(world)
    world.remember("written meanwhile")
    assert queue.step()
    assert last + 1 in with_vectors(world)
    worked_off(world)
    assert rows(world, "SELECT count(*), count(DISTINCT version_id) FROM vector") == [(42, 42)]
    assert waiting(world) == 0


def test_a_batch_of_older_versions_ends_when_a_newer_one_is_written(world: World) -> None:
    written: list[str] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        if not written:
            written.append(world.remember("written meanwhile"))
        return by_letters(texts)

    queue = queue_of(world, embed, Ticking())
    for number in range(9):
        world.remember(f"note {number}")
    before = queue.progress()
    assert queue.step()
    assert before.done < queue.progress().done < before.last
    while queue.step():
        pass
    assert rows(world, "SELECT count(*), count(DISTINCT version_id) FROM vector") == [(10, 10)]


def test_a_search_waits_for_the_last_writes_of_its_own_owner() -> None:
    # As long as it takes on a machine that has much else to do.
    meaning = SemanticSearch(LETTERS.model, lambda: LETTERS, own_writes_seconds=60.0)
    world = World(meaning=meaning)
    try:
        for text in ("zebra crossing", "marmalade", "a bicycle"):
            world.remember(text)
            assert world.texts(f"{text[:-1]}qq")[:1] == [text]
    finally:
        world.service.close()


def test_the_wait_is_bounded_while_the_embedder_hangs(world: World) -> None:
    released = threading.Event()

    def embed(texts: Sequence[str]) -> list[list[float]]:
        released.wait()
        return by_letters(texts)

    clock = Ticking()
    queue = queue_of(world, embed, clock)
    world.remember("the kettle is blue")
    try:
        queue.settle_latest(world.owner.default_tenant, 0.5)
        assert waiting(world) == 1
    finally:
        released.set()
        queue.close()


def test_nobody_waits_for_the_writes_of_another_owner(world: World) -> None:
    queue = queue_of(world, by_letters, Ticking())
    world.remember("the kettle is blue")
    queue.settle_latest("did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp", 60.0)
    assert waiting(world) == 1


def test_a_version_that_fails_among_the_newest_keeps_no_other_from_its_vector(world: World) -> None:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        if "unreadable" in texts[0]:
            raise ValueError(texts[0])
        return by_letters(texts)

    queue = queue_of(world, embed, Ticking())
    world.remember("the first note")
    queue.step()
    for number in range(10):
        world.remember("unreadable" if number == 8 else f"note {number}")
    while queue.step():
        pass
    assert queue.count_set_aside() == 1
    assert len(with_vectors(world)) == 10
