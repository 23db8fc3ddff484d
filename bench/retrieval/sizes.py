"""Search in stores of a thousand to a million memories: whether it finds what plain BM25 finds, and how fast.

The memories come from a seeded generator: facts about subjects, and turns of sessions of users with agents. A
question is the rarest words of one of them, so there is one answer; with filters by what that one has.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.corpus import VOCABULARY_SIZE, Corpus
from bench.figures import Figures, say
from bench.homes import home_for
from bench.retrieval.bm25 import Bm25
from bench.retrieval.scores import Taken, Watch, times
from memoranda import Memoranda
from memoranda.model.instant import Instant, format_instant
from memoranda.model.selection import KeywordQuery, Selection
from memoranda.service.exchange.importing import number_items
from memoranda.standards.oms.requests import FindRequest

LIMIT: Final = 10
_START_MS: Final = 1_740_000_000_000
_STEP_MS: Final = 1_009
_SPACES: Final = 20
_AGENTS: Final = 7
_RELATIONS: Final = ("prefers", "works_at", "depends_on", "has_status", "located_in", "decided", "owns", "costs")
_LITTLE: Final = "the to of and a in that is for it on with as was at by this be are from or have".split()
# The most common words of the corpus.
_COMMON: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A memory of the corpus: its text, and what it can be filtered by."""

    number: int
    text: str
    subject: str
    space: str
    user: str = ""
    agent: str = ""
    session: str = ""

    @property
    def at(self) -> int:
        return _START_MS + self.number * _STEP_MS

    def draft(self) -> dict[str, Any]:
        at = format_instant(Instant(self.at))
        drafted = {"body": {"text": self.text}, "time": {"created": at, "observed": at, "valid_from": at}}
        if self.session:
            scope = {"project": self.space, "user": self.user, "agent": self.agent, "session": self.session}
            return {"kind": "episodic", "scope": scope, **drafted}
        about = [{"type": "about", "target": self.subject}]
        return {"kind": "semantic", "scope": {"project": self.space}, "relations": about, **drafted}


class Memories(Corpus):
    """`size` memories: every third in a session of twelve turns, the others facts."""

    def make(self, number: int) -> Made:
        rng = random.Random(self._seed * 7_919 + number)
        # Few subjects are spoken of often, many rarely.
        subject = (
            f"person:{'ada ben cleo dan eve fay gus hal'.split()[number % 8]}-{int(self._subjects ** rng.random())}"
        )
        place = f"space-{(number // 36) % _SPACES}"
        if number % 3:
            text = f"{subject} {_RELATIONS[number % len(_RELATIONS)]} {self._phrase(rng, 2, 7, 0.2)}"
            return Made(number=number, text=text, subject=subject, space=place)
        # Twelve turns in a row are of one session, user and space.
        group = number // 36
        user = f"user-{group % self._subjects}"
        text = self._phrase(rng, 6, 24, 0.4)
        agent = f"agent-{group % _AGENTS}"
        return Made(
            number=number, text=text, subject=user, space=place, user=user, agent=agent, session=f"session-{group}"
        )

    @property
    def _subjects(self) -> int:
        return max(50, self.size // 10)

    def _phrase(self, rng: random.Random, least: int, most: int, little: float) -> str:
        count = rng.randint(least, most)
        return " ".join(rng.choice(_LITTLE) if rng.random() < little else self._word(rng) for _ in range(count))

    def rarest(self, made: Made) -> list[str]:
        words = made.text.split()[0 if made.session else 2 :]
        ranks = {word: self._rank(word) for word in words if word not in _LITTLE}
        return sorted(ranks, key=lambda word: (-ranks[word], word))[:3]

    def _rank(self, word: str) -> int:
        if not self._ranks:
            self._ranks.update({each: rank for rank, each in enumerate(self._words)})
        return self._ranks.get(word, VOCABULARY_SIZE)

    def __init__(self, size: int, seed: int = 7) -> None:
        super().__init__(size, seed)
        self._ranks: dict[str, int] = {}

    def asked(self, count: int, *, talks: bool = False) -> Iterator[tuple[str, Made]]:
        """Questions of up to three rare words of a memory; `talks`: of one in a session."""
        rng = random.Random(self._seed + 2)
        while count:
            made = self.make(rng.randrange(self.size))
            words = self.rarest(made)
            if len(words) < 2 or (talks and not made.session):
                continue
            rng.shuffle(words)
            count -= 1
            yield " ".join(words), made

    def common(self, count: int) -> list[str]:
        rng = random.Random(self._seed + 3)
        return [" ".join(rng.sample(self._words[:_COMMON], 2)) for _ in range(count)]


# A filter by what a memory has: as a selection of the store, and as a column to compare in BM25.
_FILTERS: Final[dict[str, tuple[Callable[[Made], Selection], Callable[[Made], object]]]] = {
    "space": (lambda made: Selection(space=made.space), lambda made: made.space),
    "user": (lambda made: Selection(user=made.user), lambda made: made.user),
    "agent": (lambda made: Selection(agent=made.agent), lambda made: made.agent),
    "session": (lambda made: Selection(session=made.session), lambda made: made.session),
    "subject": (lambda made: Selection(subject=made.subject), lambda made: made.subject),
    "time": (
        lambda made: Selection(since=Instant(made.at - made.at % 10_000_000), until=_end(made)),
        lambda made: made.at // 10_000_000,
    ),
}


def _end(made: Made) -> Instant:
    return Instant(made.at - made.at % 10_000_000 + 10_000_000)


class Measured:
    """A store of so many memories, and the same texts in plain BM25."""

    def __init__(self, m: Memoranda, size: int, label: str) -> None:
        self._m, self._label, self.corpus = m, label, Memories(size)
        self._made = [self.corpus.make(number) for number in range(size)]
        self._bm25 = Bm25([made.text for made in self._made])

    def fill(self) -> Figures:
        start = time.perf_counter()
        report = self._m.service.import_items(
            self._m.access, number_items("ump", (each.draft() for each in self._made))
        )
        if report.created != self.corpus.size:
            raise SystemExit(f"only {report.created} of {self.corpus.size} were written: {report.refusals[:1]}")
        return {f"sizes.{self._label}.import.per_s": round(self.corpus.size / (time.perf_counter() - start))}

    def found(self, question: str, selection: Selection) -> tuple[list[int], Taken]:
        """The times of what the store finds, and how long it took."""
        context = self._m.service.context
        watch = Watch()
        with context.engine.open_snapshot(self._m.owner) as snapshot:
            legs = (KeywordQuery(text=question),)
            matches = snapshot.match(selection, legs, limit=LIMIT, now=context.clock(), count_if_cheap=False)
            taken = watch.stop()
            versions = snapshot.load_versions([each.version_id for each in matches.hits])
        return [each.state.observed for each in versions], taken

    def hits(self, rounds: int) -> Figures:
        """How often the memory whose words are asked is among the ten best, here and in BM25."""
        figures = self._hits("all", list(self.corpus.asked(rounds)), lambda _: Selection(), None)
        for name, (select, column) in _FILTERS.items():
            talks = name in ("user", "agent", "session")
            columns = np.array([hash(column(made)) for made in self._made])
            asked = list(self.corpus.asked(rounds // 4, talks=talks))
            figures |= self._hits(name, asked, select, (columns, column))
        return figures

    def _hits(
        self,
        name: str,
        asked: list[tuple[str, Made]],
        select: Callable[[Made], Selection],
        column: tuple[NDArray[np.int64], Callable[[Made], object]] | None,
    ) -> Figures:
        ours = theirs = 0
        taken: list[Taken] = []
        for question, made in asked:
            mask = None if column is None else column[0] == hash(column[1](made))
            found, elapsed = self.found(question, select(made))
            taken.append(elapsed)
            ours += made.at in found
            theirs += made.number in self._bm25.best(question, LIMIT, mask)
        head = f"sizes.{self._label}.filter.{name}" if column is not None else f"sizes.{self._label}.words"
        return {
            f"{head}.hit_at_10": round(ours / len(asked), 3),
            f"{head}.bm25.hit_at_10": round(theirs / len(asked), 3),
            **times(head, taken),
        }

    def speed(self, rounds: int) -> Figures:
        """Common words, and listings by subject and by session."""
        rng = random.Random(5)
        figures = times(
            f"sizes.{self._label}.common", [self.found(each, Selection())[1] for each in self.corpus.common(rounds)]
        )
        picked = [rng.choice(self._made) for _ in range(2 * rounds)]
        talks = [made for made in picked if made.session]
        finds: dict[str, list[dict[str, Any]]] = {
            "subject": [{"subject": made.subject, "limit": LIMIT} for made in picked],
            "session": [{"session_id": made.session, "limit": LIMIT} for made in talks],
        }
        for name, requests in finds.items():
            taken: list[Taken] = []
            for request in map(FindRequest.parse, requests):
                watch = Watch()
                self._m.grains.find(request)
                taken.append(watch.stop())
            figures |= times(f"sizes.{self._label}.by_{name}", taken)
        return figures


def measure_sizes(sizes: dict[str, int], rounds: int, opened: Callable[[Path], Memoranda]) -> Figures:
    figures: Figures = {}
    for label, size in sizes.items():
        with home_for(f"sizes-{label}") as home, opened(home.path) as m:
            say(f"sizes: {label}")
            measured = Measured(m, size, label)
            if not home.is_filled:
                figures |= measured.fill()
                home.set_filled()
            measured.hits(20)
            figures |= measured.hits(rounds) | measured.speed(rounds)
    return figures
