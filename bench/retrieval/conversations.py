"""Conversations in a file of somebody else's, turn by turn, and questions whose answers stand in some of the turns.

The file is named by whoever runs this and is never part of the project: most such sets may be measured with, not passed
on. Its shape: `[{space, memories: [{id, text, at}], questions: [{id, text, evidence, category}]}]`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from bench.figures import Figures, say
from bench.retrieval.calendar import moved_dates
from bench.retrieval.scores import Asked, figures_of, finish, latencies, mean, silence, spread
from memoranda import Memoranda

LIMIT: Final = 10
# The wrong person is named in these on purpose, so they are counted by themselves.
_APART: Final = "adversarial"


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody said: "Name: what was said"."""

    id: str
    text: str
    at: datetime

    @property
    def session(self) -> str:
        return self.id.partition(":")[0]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, and the turns with the answer."""

    id: str
    text: str
    evidence: tuple[str, ...]
    category: str


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation of several sessions, with its questions."""

    space: str
    memories: tuple[Turn, ...]
    questions: tuple[Question, ...]


def load(path: Path) -> list[Conversation]:
    return msgspec.json.decode(path.read_bytes(), type=list[Conversation])


def move(conversation: Conversation, last: datetime | None) -> timedelta:
    """By how much it is moved so that its last turn is then."""
    return last - max(turn.at for turn in conversation.memories) if last else timedelta()


def in_its_days(conversation: Conversation, moved: timedelta) -> Conversation:
    """The same with the days that its questions name as much later as what they ask about."""
    said = {turn.id: turn.at for turn in conversation.memories}
    questions = (
        msgspec.structs.replace(
            each, text=moved_dates(each.text, moved, [said[turn] for turn in each.evidence if turn in said])
        )
        for each in conversation.questions
    )
    return msgspec.structs.replace(conversation, questions=tuple(questions))


def feed(m: Memoranda, conversation: Conversation, *, last: datetime | None = None) -> dict[str, str]:
    """One memory a turn, as any user would; `last`: all moved so that the last turn is then."""
    moved = move(conversation, last)
    names = {}
    for turn in conversation.memories:
        at = (turn.at + moved).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        kept = m.remember(
            turn.text,
            kind="episodic",
            project=conversation.space,
            session=turn.session,
            created=at,
            observed=at,
            valid_from=at,
        )
        names[kept.id] = turn.id
    return names


def ask(m: Memoranda, conversation: Conversation, names: dict[str, str]) -> list[Asked]:
    asked = []
    for question in conversation.questions:
        if not question.evidence:
            continue
        start = time.perf_counter()
        found = m.recall(question.text, project=conversation.space, limit=LIMIT)
        elapsed = (time.perf_counter() - start) * 1000
        ids = tuple(names[each.record["id"]] for each in found)
        groups = (question.category, conversation.space)
        asked.append(Asked(wanted=question.evidence, found=ids, milliseconds=elapsed, groups=groups))
    return asked


def ask_strangers(m: Memoranda, conversations: Sequence[Conversation]) -> list[Asked]:
    """The questions of each conversation, asked of the one before it: nothing there answers them."""
    asked = []
    for here, other in zip(conversations, (*conversations[1:], conversations[0]), strict=True):
        for question in other.questions:
            if question.category != _APART:
                found = m.recall(question.text, project=here.space, limit=LIMIT)
                asked.append(Asked(wanted=(), found=tuple(each.record["id"] for each in found), milliseconds=0.0))
    return asked


def measure_conversations(m: Memoranda, path: Path, head: str = "conversations", *, recent: bool = False) -> Figures:
    """All of a file; `recent`: as if every conversation had ended yesterday. Then its questions are asked twice: as
    they are, and with the days that they name moved, too.
    """
    conversations = load(path)
    last = datetime.now(UTC) - timedelta(days=1) if recent else None
    say(f"{head}: {sum(len(each.memories) for each in conversations)} turns")
    start = time.perf_counter()
    fed = [feed(m, each, last=last) for each in conversations]
    count = sum(map(len, fed))
    rate = count / (time.perf_counter() - start)
    finish(m)
    by_space = {c.space: ask(m, c, names) for c, names in zip(conversations, fed, strict=True)}
    everything = [each for asked in by_space.values() for each in asked]
    counted = [each for each in everything if _APART not in each.groups]
    apart = [each for each in everything if _APART in each.groups]
    figures: Figures = {f"{head}.memories": count, f"{head}.remember.per_s": round(rate)}
    figures |= figures_of(head, _renamed(counted, list(by_space)))
    if recent:
        later = [in_its_days(each, move(each, last)) for each in conversations]
        again = [each for c, names in zip(later, fed, strict=True) for each in ask(m, c, names)]
        figures |= figures_of(
            f"{head}.dates_moved", _renamed([a for a in again if _APART not in a.groups], list(by_space))
        )
    figures |= spread(head, list(by_space), lambda name: [a for a in by_space[name] if _APART not in a.groups])
    figures |= silence(head, [*counted, *ask_strangers(m, conversations)])
    if apart:
        figures[f"{head}.{_APART}.questions"] = len(apart)
        figures[f"{head}.{_APART}.recall_at_10"] = round(mean([each.recall for each in apart]), 4)
    return figures | latencies(head, [each.milliseconds for each in everything])


def _renamed(asked: list[Asked], spaces: list[str]) -> list[Asked]:
    """The same under names that do not tell which conversations they are."""
    numbers = {space: f"conversation.{number}" for number, space in enumerate(spaces)}
    return [
        Asked(
            wanted=each.wanted,
            found=each.found,
            milliseconds=each.milliseconds,
            groups=tuple(numbers.get(group, f"category.{group}") for group in each.groups),
        )
        for each in asked
    ]
