"""What consolidation hands back, what it can be told, and who may reword it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final, Literal, Protocol

import msgspec

from memoranda.consolidation.text.note import Counter, Note, four_bytes, strongest_first
from memoranda.errors import InvalidInput
from memoranda.model.calendar import utc_day

Kind = Literal["new", "revise", "link"]

# Enough labels to find it by.
TAGS_LIMIT: Final = 16


class Dream(msgspec.Struct, frozen=True, kw_only=True):
    """One result of one strategy."""

    text: str
    # Names of the notes it rests on, the strongest first: the first is the parent. Of a revision, the revised note.
    inputs: tuple[str, ...]
    # Where the strongest input came from (OAMS source_id); empty when it rests on several sources or on none.
    source: str = ""
    tags: tuple[str, ...] = ()
    confidence: float | None = None
    # Why, with the figures behind it: JSON values only.
    detail: Mapping[str, Any] = msgspec.field(default_factory=dict)
    kind: Kind = "new"
    # Of a revision: the name of the note whose text it replaces.
    revises: str = ""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a run can be told."""

    # The most tokens a compressed or synthesized text may have, in the units of `count`.
    budget_tokens: int = 400
    count: Counter = four_bytes
    # How often something must occur to be called recurring.
    least: int = 3
    # How alike two notes must be to be linked, from 0 to 1.
    likeness: float = 0.25
    # The most results of one run; the best are kept.
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
    """An optional language model that words what was found; citations and everything else stay."""

    def rewrite(self, strategy: str, dream: Dream, notes: Sequence[Note]) -> str | None:
        """A better wording, or None. What comes back is untrusted text."""
        ...


def dream(
    text: str,
    notes: Iterable[Note],
    *,
    why: str,
    kind: Kind = "new",
    parent: Note | None = None,
    is_shared: bool = False,
    **figures: Any,
) -> Dream:
    """A dream that rests on notes.

    Several notes that each say the same are as sure as the surest of them (`is_shared`); a conclusion from several is
    as sure as the least sure.
    """
    inputs = strongest_first({note.name: note for note in notes}.values())
    if parent is not None:
        inputs = [parent, *(note for note in inputs if note.name != parent.name)]
    stated = [note.stated_confidence for note in inputs if note.stated_confidence is not None]
    # OAMS §5: a result in the words of one input keeps its source; one made of several sources has none.
    is_of_one_source = is_shared or kind == "revise" or len({note.source for note in inputs}) == 1
    return Dream(
        text=text,
        inputs=tuple(note.name for note in inputs),
        source=inputs[0].source if is_of_one_source else "",
        tags=common_tags(inputs),
        confidence=(max(stated) if is_shared else min(stated)) if stated else None,
        detail={"why": why, **figures},
        kind=kind,
        revises=parent.name if parent is not None and kind == "revise" else "",
    )


def common_tags(notes: Sequence[Note]) -> tuple[str, ...]:
    """The tags of the notes, the most frequent first."""
    counts: dict[str, int] = {}
    for note in notes:
        for tag in set(note.tags):
            counts[tag] = counts.get(tag, 0) + 1
    return tuple(sorted(counts, key=lambda tag: (-counts[tag], tag))[:TAGS_LIMIT])


def counted(count: int, one: str, many: str | None = None) -> str:
    """ "1 memory", "3 memories"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def memories(count: int) -> str:
    """ "1 memory", "3 memories"."""
    return counted(count, "memory", "memories")


def listed(parts: Sequence[str]) -> str:
    """ "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def day_text(at: int) -> str:
    """The UTC day of an instant, as 2026-03-01."""
    return utc_day(at).isoformat()


def span_text(notes: Sequence[Note]) -> str:
    """ "on 2026-03-01", or "from 2026-03-01 to 2026-04-02"."""
    first, last = (
        utc_day(at) for at in (min(note.at for note in notes), max(note.at for note in notes))
    )
    return between(first, last)


def between(first: date, last: date) -> str:
    """ "on 2026-03-01", or "from 2026-03-01 to 2026-04-02"."""
    return (
        f"on {first.isoformat()}"
        if first == last
        else f"from {first.isoformat()} to {last.isoformat()}"
    )


def number_text(number: float) -> str:
    """A number for people: no noise behind the third digit that matters."""
    if number == int(number) and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"
