"""Results and options of the strategies, the protocol of a writer, and helpers for the texts of results.

A strategy is a function `(corpus, now, options) -> list[Dream]`. A dream is one result: its text, the notes that it
rests on, and the figures behind it. Strategies build dreams with `make_dream`, which derives source, tags and
confidence from the notes. `service/consolidation` turns dreams into memories.

The texts of results are read by people and models, so they state figures and days exactly and quote notes in quotation
marks. `detail` holds the same figures for programs. Times in texts are days in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final, Literal, Protocol

import msgspec

from memoranda.consolidation.text.note import (
    MemoryNote,
    TokenCounter,
    estimate_tokens,
    sort_by_strength,
)
from memoranda.errors import InvalidInput
from memoranda.model.calendar import utc_day

Kind = Literal["new", "revise", "link"]

# Tags of a result, the most frequent of its inputs: enough to find it.
TAGS_LIMIT: Final = 16


class Dream(msgspec.Struct, frozen=True, kw_only=True):
    """One result of one strategy."""

    text: str
    # Names of the notes that it rests on, the strongest first; the first is the parent. In a revision, the first is the
    # revised note.
    inputs: tuple[str, ...]
    # The source of the strongest input (OAMS source_id); empty with several sources or none.
    source: str = ""
    tags: tuple[str, ...] = ()
    confidence: float | None = None
    # The reason and the figures behind it; JSON values only.
    detail: Mapping[str, Any] = msgspec.field(default_factory=dict)
    kind: Kind = "new"
    # In a revision: the name of the note whose text is replaced.
    revises: str = ""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a strategy.

    `least` is the number of notes that make a pattern, `likeness` the similarity from 0 to 1 that counts as related,
    `budget_tokens` the size of a summary, `count` how tokens are counted.
    """

    # Most tokens of a compressed text, as counted by `count`.
    budget_tokens: int = 400
    count: TokenCounter = estimate_tokens
    # The number of occurrences that makes something recurring.
    least: int = 3
    # Least similarity of two linked notes, from 0 to 1.
    likeness: float = 0.25
    # Results of one run; the best are kept.
    limit: int = 50

    def __post_init__(self) -> None:
        if self.budget_tokens < 1 or self.limit < 1:
            raise InvalidInput("the budget and the limit of a dream must be at least 1")
        if self.least < 2:
            raise InvalidInput("something recurs only when it occurs at least twice")
        if not 0.0 < self.likeness <= 1.0:
            raise InvalidInput("the likeness of linked memories must be above 0 and at most 1")


DEFAULT_OPTIONS: Final = Options()


class Writer(Protocol):
    """An optional language model that rewords results. It cannot change anything else in them."""

    def rewrite(self, strategy: str, dream: Dream, notes: Sequence[MemoryNote]) -> str | None:
        """Return a better wording as untrusted text, or None."""
        ...


def make_dream(
    text: str,
    notes: Iterable[MemoryNote],
    *,
    why: str,
    kind: Kind = "new",
    parent: MemoryNote | None = None,
    is_shared: bool = False,
    **figures: object,
) -> Dream:
    """Build a dream from the notes that it rests on; `figures` are added to its `detail`.

    With `is_shared`, each note makes the statement itself, and the highest confidence counts. Otherwise the dream is a
    conclusion from all notes, and the lowest confidence counts.

    The inputs are sorted by strength; with `parent`, that note comes first. `why` is one sentence for the reader.
    """
    inputs = sort_by_strength({note.name: note for note in notes}.values())
    if parent is not None:
        inputs = [parent, *(note for note in inputs if note.name != parent.name)]
    stated_values = [
        note.stated_confidence for note in inputs if note.stated_confidence is not None
    ]
    # OAMS §5: a result in the words of one input keeps its source; one made of several sources has none.
    is_of_one_source = is_shared or kind == "revise" or len({note.source for note in inputs}) == 1
    return Dream(
        text=text,
        inputs=tuple(note.name for note in inputs),
        source=inputs[0].source if is_of_one_source else "",
        tags=common_tags(inputs),
        confidence=(max(stated_values) if is_shared else min(stated_values))
        if stated_values
        else None,
        detail={"why": why, **figures},
        kind=kind,
        revises=parent.name if parent is not None and kind == "revise" else "",
    )


def common_tags(notes: Sequence[MemoryNote]) -> tuple[str, ...]:
    """Return the tags of the notes, the most frequent first, at most `TAGS_LIMIT`."""
    counts: dict[str, int] = {}
    for note in notes:
        for tag in set(note.tags):
            counts[tag] = counts.get(tag, 0) + 1
    return tuple(sorted(counts, key=lambda tag: (-counts[tag], tag))[:TAGS_LIMIT])


def count_text(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun, such as "1 memory" or "3 memories"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def memories_text(count: int) -> str:
    """Return a number of memories, such as "1 memory" or "3 memories"."""
    return count_text(count, "memory", "memories")


def join_phrases(parts: Sequence[str]) -> str:
    """Join phrases as "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def day_text(at: int) -> str:
    """Return the UTC day of an instant, such as 2026-03-01."""
    return utc_day(at).isoformat()


def span_text(notes: Sequence[MemoryNote]) -> str:
    """Return the days of writing of the notes as "on 2026-03-01" or "from 2026-03-01 to 2026-04-02"."""
    first, last = (
        utc_day(at) for at in (min(note.at for note in notes), max(note.at for note in notes))
    )
    return range_text(first, last)


def range_text(first: date, last: date) -> str:
    """Return a range of days as "on 2026-03-01" or "from 2026-03-01 to 2026-04-02"."""
    return (
        f"on {first.isoformat()}"
        if first == last
        else f"from {first.isoformat()} to {last.isoformat()}"
    )


def number_text(number: float) -> str:
    """Return a number with three significant digits, or as an integer."""
    if number == int(number) and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"
