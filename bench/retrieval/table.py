"""The rows of the table of recall: cases, facts that changed, times, titles, long notes, codes, typing errors.

All data is in `table.json`, written for this file, or generated from it by a seed. Each row opens its own store.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.figures import Figures
from bench.retrieval.notes import load as load_notes
from bench.retrieval.scores import finish, mean
from memoranda import Memoranda
from memoranda.library.results import Hit

PATH: Final = Path(__file__).parent / "table.json"
PROJECT: Final = "table"
LIMIT: Final = 10
_SEED: Final = 31
_CODES: Final = 150
# Numbers of notes beside which questions of foreign topics are asked.
_FOREIGN_SIZES: Final = (1, 5, 20, 100)
# Characters of filler text before the answer of a long note.
_LONG_NOTE_CHARS: Final = 1_800
# Letters of a word that gets a typing error.
_TYPO_LETTERS: Final = 5

# Paths, identifiers, addresses, versions and quoted phrases, which differ by a number only; of each form so many.
_STRINGS: Final = 10
_STRING_FORMS: Final[tuple[Callable[[int], str], ...]] = (
    lambda number: f"src/billing/ledger{number}.py",
    lambda number: f"load_ledger_{number}",
    lambda number: f"till{number}@harbour.example",
    lambda number: f"v2.{number}.1-rc",
    lambda number: f'"the {("red", "blue")[number % 2]} crane number {number} stands still"',
)
_STRING_ENDS: Final = ("waits for a review", "was replaced last week", "belongs to Yuki")

Opener = Callable[[str], Memoranda]


class Title(msgspec.Struct, frozen=True):
    """The names of a note."""

    title: str
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file. Questions of `when` have a first and a last day."""

    about: str
    asked: str
    zone: str
    # Old fact, new fact, question, question with "now".
    changed: tuple[tuple[str, str, str, str], ...]
    # Kind, text, question.
    cases: tuple[tuple[str, str, str], ...]
    chat: tuple[str, ...]
    # Time, text.
    diary: tuple[tuple[str, str], ...]
    # Question, first day, last day.
    when: tuple[tuple[str, str, str], ...]
    events: tuple[tuple[str, str], ...]
    before_events: tuple[tuple[str, str], ...]
    # Names, text, question.
    titles: tuple[tuple[Title, str, str], ...]
    after_write: tuple[tuple[str, str], ...]
    far: tuple[str, ...]
    paragraphs: tuple[str, ...]
    answers: tuple[tuple[str, str], ...]


@cache
def load() -> Table:
    """Return the data of the table."""
    return msgspec.json.decode(PATH.read_bytes(), type=Table)


@contextmanager
def filled(opened: Opener, texts: Sequence[str], **fields: Any) -> Iterator[Memoranda]:
    """Open a store in memory with these texts, all embedded."""
    with opened(":memory:") as m:
        for text in texts:
            m.remember(text, project=PROJECT, **fields)
        finish(m)
        yield m


def texts_found(m: Memoranda, question: str, **where: Any) -> list[str]:
    """Return the texts that a question finds, best first."""
    return [hit.text for hit in m.recall(question, project=PROJECT, limit=LIMIT, **where)]


def rank_of(answer: str, texts: Sequence[str]) -> int:
    """Return the rank of the answer, counted from 1; 0 if it is not among the texts."""
    return texts.index(answer) + 1 if answer in texts else 0


def first_and_mrr(head: str, ranks: Sequence[int]) -> Figures:
    """Return the share of questions whose first result is right, and the mean reciprocal rank."""
    return {
        f"{head}.questions": len(ranks),
        f"{head}.first": round(mean([float(rank == 1) for rank in ranks]), 4),
        f"{head}.mrr": round(mean([1 / rank if rank else 0.0 for rank in ranks]), 4),
    }


def measure_cases(opened: Opener) -> Figures:
    """Measure memories of an agent: alone, among turns of a chat, and with a typing error in each question."""
    table = load()
    figures: Figures = {}
    with opened(":memory:") as m:
        for kind, text, _ in table.cases:
            m.remember(text, kind=kind, project=PROJECT)  # type: ignore[arg-type]
        finish(m)
        rng = random.Random(_SEED)
        questions = [(text, question) for _, text, question in table.cases]
        figures |= first_and_mrr("cases", [rank_of(text, texts_found(m, question)) for text, question in questions])
        mistyped = [(text, mistype(question, rng)) for text, question in questions]
        changed = [
            (text, question, with_error)
            for (text, question), (_, with_error) in zip(questions, mistyped, strict=True)
            if with_error != question
        ]
        right = [rank_of(text, texts_found(m, question)) for text, question, _ in changed]
        wrong = [rank_of(text, texts_found(m, with_error)) for text, _, with_error in changed]
        figures |= first_and_mrr("typing.correct", right) | first_and_mrr("typing.error", wrong)
        for number, turn in enumerate(table.chat):
            m.remember(turn, kind="episodic", project=PROJECT, session=f"chat-{number // 10}")
        finish(m)
        figures |= first_and_mrr(
            "cases.in_chat", [rank_of(text, texts_found(m, question)) for text, question in questions]
        )
    return figures


def mistype(question: str, rng: random.Random) -> str:
    """Return a question with one error in its longest plain word: two letters swapped, one left out, or doubled."""
    words = re.findall(rf"[A-Za-z]{{{_TYPO_LETTERS},}}", question)
    if not words:
        return question
    word = max(words, key=len)
    at = rng.randrange(1, len(word) - 2)
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    wrong = rng.choice((swapped, word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:]))
    return question.replace(word, wrong, 1)


def measure_changed(opened: Opener) -> Figures:
    """Measure whether the newer of two contradicting facts is first, asked plainly and with words for the present."""
    changed = load().changed
    texts = [fact[0] for fact in changed] + [fact[1] for fact in changed]
    figures: Figures = {"changed.questions": len(changed)}
    with filled(opened, texts) as m:
        for name, column in (("plain", 2), ("now", 3)):
            first = [texts_found(m, fact[column])[:1] == [fact[1]] for fact in changed]
            figures[f"changed.{name}"] = sum(first)
    return figures


def measure_when(opened: Opener) -> Figures:
    """Measure questions that only say when: is one of the first three results of that time."""
    table = load()
    with opened(":memory:") as m:
        days = {}
        for at, text in table.diary:
            days[m.remember(text, kind="episodic", project=PROJECT, **_written(at)).id] = at[:10]
        finish(m)
        right = 0
        for question, first, last in table.when:
            hits = m.recall(question, project=PROJECT, limit=3, asked_at=table.asked, zone=table.zone)
            right += any(first <= days[hit.id] <= last for hit in hits)
    with opened(":memory:") as m:
        for at, text in table.events:
            m.remember(text, kind="episodic", project=PROJECT, **_written(at))
        finish(m)
        where = {"asked_at": table.asked, "zone": table.zone}
        events = [texts_found(m, question, **where)[:1] == [answer] for question, answer in table.before_events]
    return {
        "when.questions": len(table.when),
        "when.right": right,
        "when.events.questions": len(events),
        "when.events.right": sum(events),
    }


def _written(at: str) -> dict[str, Any]:
    moment = datetime.fromisoformat(at)
    return {"created": moment, "observed": moment, "valid_from": moment}


def measure_titles(opened: Opener) -> Figures:
    """Measure notes that are asked for by their title, alias or tag, which their text does not contain."""
    titles = load().titles
    with opened(":memory:") as m:
        for names, text, _ in titles:
            structured = {"title": names.title, **({"aliases": list(names.aliases)} if names.aliases else {})}
            m.remember(text, project=PROJECT, structured=structured, tags=names.tags)
        finish(m)
        right = sum(texts_found(m, question)[:1] == [text] for _, text, question in titles)
    return {"titles.questions": len(titles), "titles.right": right}


def measure_passages(opened: Opener) -> Figures:
    """Measure whether the answer at the end of a long note is in the text for a model."""
    table = load()
    notes = []
    rng = random.Random(_SEED)
    for answer, _ in table.answers:
        paragraphs: list[str] = []
        while sum(map(len, paragraphs)) < _LONG_NOTE_CHARS:
            paragraphs.append(" ".join(rng.sample(table.paragraphs, 2)))
        notes.append("\n\n".join([*paragraphs, answer]))
    with filled(opened, notes) as m:
        found = [
            texts_found(m, question)[:1] == [note] for note, (_, question) in zip(notes, table.answers, strict=True)
        ]
        shown = [
            answer.split(". ")[0] in m.for_prompt(question, project=PROJECT, limit=3).text
            for answer, question in table.answers
        ]
    return {
        "passages.questions": len(notes),
        "passages.found": sum(found),
        "passages.for_prompt": sum(shown),
    }


def measure_after_write(opened: Opener) -> Figures:
    """Measure questions in other words right after each write, through the library."""
    pairs = load().after_write
    with opened(":memory:") as m:
        right = 0
        for text, question in pairs:
            m.remember(text, project=PROJECT)
            right += text in texts_found(m, question)[:1]
    return {"after_write.questions": len(pairs), "after_write.library": right}


def measure_codes(opened: Opener) -> Figures:
    """Measure questions with an exact code, among notes that differ by their codes."""
    rng = random.Random(_SEED)
    states = ("was shipped to Porto", "waits for payment", "came back damaged", "was cancelled by phone")
    codes = rng.sample(range(100_000, 999_999), _CODES)
    texts = [f"Order ORD-{code} {states[number % 4]}." for number, code in enumerate(codes)]
    forms = ("What happened with order ORD-{}?", "Status of ORD-{}", "Has ORD-{} been shipped or cancelled?")
    with filled(opened, texts) as m:
        first = [
            texts_found(m, forms[number % 3].format(code))[:1] == [text]
            for number, (code, text) in enumerate(zip(codes, texts, strict=True))
        ]
    figures: Figures = {"codes.questions": len(first), "codes.first": sum(first)}
    strings = [string(number) for number in range(_STRINGS) for string in _STRING_FORMS]
    texts = [f"{string} {_STRING_ENDS[number % 3]}." for number, string in enumerate(strings)]
    with filled(opened, texts) as m:
        first = [
            texts_found(m, f"Which of them {_STRING_ENDS[(number + 1) % 3]}, was it {string}?")[:1] == [text]
            for number, (string, text) in enumerate(zip(strings, texts, strict=True))
        ]
    return figures | {"strings.questions": len(first), "strings.first": sum(first)}


def measure_foreign(opened: Opener) -> Figures:
    """Measure the share of questions of foreign topics that find nothing, beside few and many notes."""
    figures: Figures = {}
    notes = [note.text for note in load_notes().memories if note.language == "en"]
    random.Random(_SEED).shuffle(notes)
    for size in _FOREIGN_SIZES:
        with filled(opened, notes[:size]) as m:
            hits = [m.recall(question, project=PROJECT, limit=3) for question in load().far]
            figures[f"foreign.{size}.nothing"] = round(mean([float(not found) for found in hits]), 4)
            weak = [float(not found or _is_weak(found[0])) for found in hits]
            figures[f"foreign.{size}.nothing_or_weak"] = round(mean(weak), 4)
    return figures


def _is_weak(hit: Hit) -> bool:
    return hit.weak


def measure_relevance(opened: Opener) -> Figures:
    """Measure how well the relevance of the best result tells questions with an answer from those without.

    The area under the ROC curve, the expected calibration error in ten bins, and the share of questions of which all
    results are weak.
    """
    table = load()
    with opened(":memory:") as m:
        for kind, text, _ in table.cases:
            m.remember(text, kind=kind, project=PROJECT)  # type: ignore[arg-type]
        finish(m)
        asked = [(question, text) for _, text, question in table.cases] + [(question, "") for question in table.far]
        hits = [m.recall(question, project=PROJECT, limit=LIMIT) for question, _ in asked]
    relevance = [found[0].relevance or 0.0 if found else 0.0 for found in hits]
    is_right = [bool(found) and found[0].text == text for found, (_, text) in zip(hits, asked, strict=True)]
    is_weak = [float(all(map(_is_weak, found))) for found in hits]
    answered, foreign = relevance[: len(table.cases)], relevance[len(table.cases) :]
    wins = [float(high > low) + float(high == low) / 2 for high in answered for low in foreign]
    return {
        "relevance.questions": len(asked),
        "relevance.auc": round(mean(wins), 4),
        "relevance.calibration_error": round(calibration_error(relevance, is_right), 4),
        "relevance.answered.weak": round(mean(is_weak[: len(table.cases)]), 4),
        "relevance.foreign.weak": round(mean(is_weak[len(table.cases) :]), 4),
    }


def calibration_error(estimates: Sequence[float], is_right: Sequence[bool]) -> float:
    """Return the mean difference between estimate and share of right ones, in ten bins of estimates."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for estimate, right in zip(estimates, is_right, strict=True):
        bins.setdefault(min(9, int(10 * estimate)), []).append((estimate, right))
    gaps = [
        len(pairs) * abs(mean([estimate for estimate, _ in pairs]) - mean([float(right) for _, right in pairs]))
        for pairs in bins.values()
    ]
    return sum(gaps) / len(estimates)


ROWS: Final[dict[str, Callable[[Opener], Figures]]] = {
    "cases": measure_cases,
    "changed": measure_changed,
    "when": measure_when,
    "titles": measure_titles,
    "passages": measure_passages,
    "after_write": measure_after_write,
    "codes": measure_codes,
    "foreign": measure_foreign,
    "relevance": measure_relevance,
}


def measure_table(opened: Opener) -> Figures:
    """Measure every row."""
    figures: Figures = {}
    for measure in ROWS.values():
        figures |= measure(opened)
    return figures


# --- paragraphs and questions in one language -----------------------------------------------------------------


def measure_paragraphs(opened: Opener, folder: Path, *, share: int = 1) -> Figures:
    """Measure XQuAD, the files `xquad.<language>.json` of a folder: every n-th question of each paragraph (`share`)."""
    figures: Figures = {}
    for path in sorted(folder.glob("xquad.*.json")):
        language = path.name.split(".")[1]
        paragraphs = [
            paragraph
            for article in msgspec.json.decode(path.read_bytes())["data"]
            for paragraph in article["paragraphs"]
        ]
        with filled(opened, [paragraph["context"] for paragraph in paragraphs]) as m:
            ranks = [
                rank_of(paragraph["context"], texts_found(m, question["question"]))
                for paragraph in paragraphs
                for question in paragraph["qas"][::share]
            ]
        figures |= first_and_mrr(f"paragraphs.{language}", ranks)
    return figures
