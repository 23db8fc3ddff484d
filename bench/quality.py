"""How good consolidation is: labelled notes, and what every strategy makes of them.

The labelled sets lie in tests/consolidation/quality, one folder each: `tuned` is what the rules were made with,
`held_out` was written before and looked at only for figures. tests/consolidation/test_quality.py holds the figures to
their bars.

    notes.txt      name | day | marks | text.  Notes with one mark `!x` contradict one another, those with `=x` say the
                   same, and whether `?x` contradicts the `!x` of that name nobody could say for sure
    alike.txt      pairs of statements that look alike and are not the same
    compatible.txt pairs of statements that may both hold
    questions.txt  a question, and the note that answers it
    outputs.txt    what the strategies say of the notes, as somebody read it: `+` worth keeping, `-` not
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from bench.figures import Figures, say
from memoranda import Memoranda
from memoranda.consolidation.strategies.catalogue import STRATEGIES, run_strategy
from memoranda.consolidation.strategies.dream import Dream
from memoranda.consolidation.text.claims import find_conflicts
from memoranda.consolidation.text.corpus import Corpus
from memoranda.consolidation.text.note import MemoryNote
from memoranda.consolidation.text.similar import group_duplicates
from memoranda.model.instant import DAY_MS, Instant, format_instant, parse_instant
from memoranda.service.service import Service
from memoranda.standards.oams.requests import ConsentedRecall
from memoranda.standards.ump.requests import RecallRequest

FOLDER: Final = Path(__file__).parent.parent / "tests" / "consolidation" / "quality"
SETS: Final = ("tuned", "held_out")
SCOPE: Final = "quality"

Pair = frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody asks, and which note answers it."""

    text: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How many were found, how many of them are right, and how many there are."""

    found: int
    right: int
    labelled: int

    @property
    def precision(self) -> float:
        return round(self.right / self.found, 3) if self.found else 1.0

    @property
    def recall(self) -> float:
        return round(self.right / self.labelled, 3) if self.labelled else 1.0


class LabelledSet:
    """Notes with what is true of them."""

    def __init__(self, name: str) -> None:
        self.folder = FOLDER / name
        self.notes: dict[str, MemoryNote] = {}
        self.marks: dict[str, str] = {}
        for place, (known, day, mark, text) in enumerate(self._rows("notes", 4)):
            # Notes of one day in the order in which they stand.
            at = parse_instant(f"{day}T09:00:00Z") + place
            self.notes[known] = MemoryNote(known, text.replace("\\n", "\n"), at, tags=(), source=f"notes:{known}")
            self.marks[known] = mark
        self.alike = [(first, second) for first, second in self._rows("alike", 2)]
        self.compatible = [(first, second) for first, second in self._rows("compatible", 2)]
        self.questions = [Question(answer=answer, text=text) for answer, text in self._rows("questions", 2)]

    def _rows(self, file: str, width: int) -> Iterator[list[str]]:
        for line in (self.folder / f"{file}.txt").read_text(encoding="utf-8").splitlines():
            yield [part.strip() for part in line.split("|", width - 1)]

    @property
    def now(self) -> int:
        """The day after the last note."""
        return max(note.at for note in self.notes.values()) + DAY_MS

    def pairs(self, sign: str, *, other: str = "") -> set[Pair]:
        """Pairs of notes with one mark."""
        named: dict[str, list[str]] = {}
        for known, mark in self.marks.items():
            if mark and mark[0] in (sign, other):
                named.setdefault(mark[1:], []).append(known)
        return {frozenset(pair) for group in named.values() for pair in combinations(group, 2)}

    @cached_property
    def corpus(self) -> Corpus:
        return Corpus(self.notes.values())

    def contradictions(self) -> tuple[Score, set[Pair], set[Pair]]:
        """The score, what was found and is wrong, and what was missed."""
        found = {frozenset((c.earlier.note.name, c.later.note.name)) for c in find_conflicts(self.corpus)}
        labelled = self.pairs("!")
        # What nobody can decide is neither right nor wrong.
        found -= self.pairs("?", other="!") - labelled
        wrong = len(self.wrong_contradictions())
        score = Score(found=len(found) + wrong, right=len(found & labelled), labelled=len(labelled))
        return score, found - labelled, labelled - found

    def merges(self) -> tuple[Score, set[Pair]]:
        """Notes that are taken for one another; and which of them say something else."""
        groups = group_duplicates(self.corpus)
        found = {frozenset(pair) for group in groups for pair in combinations([note.name for note in group], 2)}
        labelled = self.pairs("=")
        return Score(found=len(found), right=len(found & labelled), labelled=len(labelled)), found - labelled

    def wrong_merges(self) -> list[tuple[str, str]]:
        """Pairs of look-alikes of which one would stand for both."""
        return [pair for pair in self.alike if _is_merged(*pair)]

    def wrong_contradictions(self) -> list[tuple[str, str]]:
        """Pairs that may both hold, and are said to contradict each other."""
        return [pair for pair in self.compatible if find_conflicts(Corpus(_as_notes(*pair)))]

    def outputs(self) -> list[tuple[str, Dream]]:
        """What every strategy says of the notes."""
        notes = list(self.notes.values())
        return [(strategy, dream) for strategy in STRATEGIES for dream in run_strategy(strategy, notes, now=self.now)]

    def readings(self) -> Mapping[tuple[str, str], bool]:
        """Which outputs are worth keeping, by strategy and text."""
        rows = self._rows("outputs", 3)
        return {(strategy, text.replace("\\n", "\n")): worth == "+" for worth, strategy, text in rows}


def _as_notes(first: str, second: str) -> list[MemoryNote]:
    return [
        MemoryNote("first", first, parse_instant("2026-02-01T09:00:00Z")),
        MemoryNote("second", second, parse_instant("2026-02-02T09:00:00Z")),
    ]


def _is_merged(first: str, second: str) -> bool:
    notes = _as_notes(first, second)
    said = " ".join(dream.text for dream in run_strategy("synthesize", notes, now=notes[1].at))
    return bool(group_duplicates(Corpus(notes))) or bool(said)


class Asked:
    """The notes of a set in a store of their own, asked before and after consolidation."""

    def __init__(self, labelled: LabelledSet) -> None:
        self.labelled = labelled
        self._opened = Memoranda.open(":memory:")
        now = Instant(labelled.now)
        self.service = Service(replace(self._opened.service.context, clock=lambda: now))
        self.access = self.service.gate.local()
        self.index = self.service.oams.namespace(self.access, SCOPE)
        for note in labelled.notes.values():
            when = format_instant(Instant(note.at))
            sent = {"key": note.name, "namespace": str(self.index), "value": note.text, "created_at": when}
            self.service.oams.store(self.access, sent)

    def consolidate(self) -> int:
        """Run every strategy; how many memories that made."""
        return sum(self.service.oams.consolidate(self.access, self.index, each).written_count for each in STRATEGIES)

    def first_by_ump(self, question: str) -> str:
        request = RecallRequest.parse({"query": question, "limit": 1})
        found = self.service.recall(self.access, request)
        # A result of consolidation may well have the same words; it is not the note.
        is_note = found and not found[0].record.get("relations")
        return found[0].record["body"]["text"] if is_note else ""

    def first_by_oams(self, question: str) -> str:
        asked = ConsentedRecall.parse({"namespace": str(self.index), "query": question, "k": 1})
        found = self.service.oams.recall(self.access, asked)
        return str(found[0]["key"]) if found else ""

    def recall_at_1(self) -> dict[str, float]:
        """The share of questions whose first answer is the right note."""
        right = {"ump": 0, "oams": 0}
        for each in self.labelled.questions:
            right["ump"] += self.first_by_ump(each.text) == self.labelled.notes[each.answer].text
            right["oams"] += self.first_by_oams(each.text) == each.answer
        return {name: round(count / len(self.labelled.questions), 3) for name, count in right.items()}

    def close(self) -> None:
        self._opened.close()


def measure_quality(*, quick: bool) -> Figures:
    """Precision and recall of what consolidation finds, what it merges wrongly, and what it does to answers."""
    del quick
    figures: Figures = {}
    for name in SETS:
        say(f"quality: {name}")
        labelled = LabelledSet(name)
        head = f"quality.{name}"
        disputes, (merges, _) = labelled.contradictions()[0], labelled.merges()
        figures[f"{head}.notes"] = len(labelled.notes)
        figures[f"{head}.contradictions.precision"] = disputes.precision
        figures[f"{head}.contradictions.recall"] = disputes.recall
        figures[f"{head}.same.precision"] = merges.precision
        figures[f"{head}.same.recall"] = merges.recall
        figures[f"{head}.wrong_merges"] = len(labelled.wrong_merges())
        figures |= _kept(labelled, head)
        asked = Asked(labelled)
        before = asked.recall_at_1()
        asked.consolidate()
        after = asked.recall_at_1()
        asked.close()
        for standard in before:
            figures[f"{head}.recall_at_1.{standard}.before"] = before[standard]
            figures[f"{head}.recall_at_1.{standard}.after"] = after[standard]
    return figures


def _kept(labelled: LabelledSet, head: str) -> Figures:
    """The share of outputs that somebody found worth keeping, in all and of each strategy."""
    worth: dict[str, list[bool]] = {"all": []}
    read = labelled.readings()
    for strategy, dream in labelled.outputs():
        is_kept = read.get((strategy, dream.text), False)
        worth.setdefault(strategy, []).append(is_kept)
        worth["all"].append(is_kept)
    shares = {f"{head}.kept.{name}": round(sum(found) / len(found), 3) for name, found in worth.items()}
    return {**shares, f"{head}.outputs": len(worth["all"])}
