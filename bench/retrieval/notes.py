"""Our own set: notes as people write them, in seven languages, and questions about them (`notes.json`).

Everything lies in one project, so whatever is about the same subject is in the way of the answer. The questions are
halved by a hash of their ids: `tune` is for choosing, `test` for looking at what was chosen.
"""

from __future__ import annotations

import hashlib
import time
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from bench.figures import Figures
from bench.retrieval.scores import Asked, figures_of, finish, silence
from memoranda import Memoranda

PATH: Final = Path(__file__).parent / "notes.json"
PROJECT: Final = "notes"
LIMIT: Final = 10
# When the notes without a day of their own were written, one after the other.
_UNDATED: Final = datetime.fromisoformat("2024-01-03T08:00:00+00:00")

Half = Literal["tune", "test"]
HALVES: Final[tuple[Half, ...]] = ("tune", "test")


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory of the set; `day` where it tells of one."""

    id: str
    language: str
    category: str
    kind: Literal["semantic", "episodic", "procedural"]
    text: str
    day: str | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question of the set, and the notes that answer it; of some there are none."""

    id: str
    language: str
    category: str
    style: Literal["direct", "paraphrase", "inflected", "time", "code", "near", "far"]
    answers: tuple[str, ...]
    text: str
    half: Half


class Notes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    about: str
    asked: str
    zone: str
    split: str
    styles: dict[str, str]
    memories: tuple[Note, ...]
    questions: tuple[Question, ...]


@cache
def load() -> Notes:
    return msgspec.json.decode(PATH.read_bytes(), type=Notes)


def half_of(question_id: str) -> Half:
    """The half that a question belongs to, whoever wrote it."""
    return "test" if hashlib.sha256(question_id.encode()).digest()[0] % 2 else "tune"


def feed(m: Memoranda, notes: Notes) -> dict[str, str]:
    """Remember all of them; their ids by the names the store gave them."""
    names = {}
    for place, note in enumerate(notes.memories):
        day = note.day and datetime.fromisoformat(f"{note.day}T19:00:00+00:00")
        at = (day or _UNDATED + timedelta(minutes=20 * place)).strftime("%Y-%m-%dT%H:%M:%SZ")
        kept = m.remember(note.text, kind=note.kind, project=PROJECT, created=at, observed=at, valid_from=at)
        names[kept.id] = note.id
    return names


def ask(m: Memoranda, notes: Notes, names: dict[str, str], **where: Any) -> dict[Half, list[Asked]]:
    asked: dict[Half, list[Asked]] = {half: [] for half in HALVES}
    for question in notes.questions:
        start = time.perf_counter()
        found = m.recall(question.text, project=PROJECT, limit=LIMIT, asked_at=notes.asked, zone=notes.zone, **where)
        elapsed = (time.perf_counter() - start) * 1000
        groups = (f"style.{question.style}", f"language.{question.language}", f"category.{question.category}")
        ids = tuple(names[each.record["id"]] for each in found)
        asked[question.half].append(Asked(wanted=question.answers, found=ids, milliseconds=elapsed, groups=groups))
    return asked


def measure_notes(m: Memoranda) -> Figures:
    """Of each half by style, language and category, and how well it is known that nothing answers."""
    notes = load()
    names = feed(m, notes)
    finish(m)
    asked = ask(m, notes, names)
    figures: Figures = {"notes.memories": len(notes.memories)}
    for half in HALVES:
        figures |= figures_of(f"notes.{half}", asked[half]) | silence(f"notes.{half}", asked[half])
    return figures
