"""Three nodes on one store, each with its background work: what falls due is done once, by whoever is left."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from memoranda.embedding.embedder import of_callable
from memoranda.model.instant import Instant, parse_instant
from memoranda.service.core.semantic_search import SemanticSearch
from tests.embedders import by_letters
from tests.service.wop import REF, Wop
from tests.service.world import START
from tests.stores import ON_POSTGRES
from tests.waiting import HANG_SECONDS, until

NIGHTLY = "0 3 * * *"
DAY_MS = 86_400_000


class Node(Wop):
    """One of several that share a file, or a database, and a clock; `embedded` is what it made vectors of."""

    def __init__(self, path: Path, clock: list[Instant]) -> None:
        self._clock = clock
        self.embedded: list[str] = []
        # Of one that cannot: set when it has tried.
        self.has_failed: threading.Event | None = None
        embedder = of_callable("letters", self._embed)
        super().__init__(path=path, meaning=SemanticSearch(embedder.model, lambda: embedder))

    @property
    def now(self) -> Instant:
        return self._clock[0]

    @now.setter
    def now(self, instant: Instant) -> None:
        self._clock[0] = instant

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.has_failed is not None:
            self.has_failed.set()
            raise RuntimeError("the endpoint of this node does not answer")
        self.embedded += texts
        return by_letters(texts)

    def done(self) -> tuple[int, int, int]:
        """How many distillations, commitments and expiries there were."""
        expired = self.service.audit(self.owner, {"op": "expire"})
        return len(self.facts("memory.compacted")), len(self.facts("commitment.fired")), len(expired)

    def do_more(self) -> int:
        """Look for something that is left to do; how much there was."""
        return self.wop.tick() + self.service.purge() + int(self.service.embedding.step())


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    clock = [parse_instant(START)]
    made = [Node(tmp_path / "store.db", clock) for _ in range(3)]
    yield made
    for node in made:
        node.service.close()


def _one_day(nodes: Sequence[Node], day: int) -> None:
    """What is written on a day, and due in the next night."""
    for number, node in enumerate(nodes):
        node.remember(f"note{day}x{number} of the day", consent={"retention": "PT1H"})
    nodes[0].write(f"On day {day} the orchids were watered and the tea was fine.")
    nodes[0].advance(DAY_MS)


def _check(nodes: Sequence[Node], embedded: Sequence[str], *, days: int, notes: int) -> None:
    until(lambda: nodes[0].done() == (days, days, notes), "everything is done")
    until(lambda: not nodes[0].service.embedding.count_waiting(), "everything has vectors")
    assert [node.do_more() for node in nodes] == [0] * len(nodes)
    assert nodes[0].done() == (days, days, notes)
    made = Counter(word for text in embedded for word in text.split() if word.startswith("note"))
    assert set(made.values()) <= {1}


def test_what_falls_due_is_done_once_and_by_another_when_one_is_gone(nodes: list[Node]) -> None:
    first = nodes[0]
    first.wop.schedule(first.owner, REF, NIGHTLY)
    first.write("Remind me to call Ann every day at 08:00.")
    first.wop.infer_commitments(first.owner, REF)
    embedded = [node.embedded for node in nodes]
    for node in nodes:
        node.service.start_background()
    left = list(nodes)
    for day in range(1, 4):
        _one_day(left, day)
        notes = sum(range(4 - day, 4))
        _check(left, [text for each in embedded for text in each], days=day, notes=notes)
        if ON_POSTGRES:
            (leading,) = [node for node in left if node.engine.is_elected("upkeep")]
        else:
            leading = left[0]
        if day < 3:
            left.remove(leading)
            leading.service.close()


def test_vectors_that_one_node_cannot_make_are_made_by_another(nodes: list[Node]) -> None:
    failing, other, _ = nodes
    failing.has_failed = threading.Event()
    failing.remember("note of the day")
    failing.service.embedding.start()
    assert failing.has_failed.wait(HANG_SECONDS)
    other.service.embedding.start()
    until(lambda: not other.service.embedding.count_waiting(), "it has its vector")
    assert [text for text in other.embedded if "note" in text]
