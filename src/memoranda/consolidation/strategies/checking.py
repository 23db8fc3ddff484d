"""validate and evolve: claims against claims."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from memoranda.consolidation.strategies.dream import (
    Dream,
    Options,
    counted,
    day_text,
    dream,
    memories,
)
from memoranda.consolidation.text.claims import Claim, Conflict, agreements, conflicts, read_claims
from memoranda.consolidation.text.note import Note, clean, quote
from memoranda.consolidation.text.reading import Reading

_ENDS = (".", "!", "?", "…", "。", "！", "？")
_REASONS = {"values": "different values", "denial": "one denies the other"}


def validate(reading: Reading, now: int, options: Options) -> list[Dream]:
    """Contradictions with both sides, then statements that several notes make."""
    del now, options
    claims = read_claims(reading)
    found = conflicts(reading)
    disputed = {
        (claim.note.name, claim.place) for each in found for claim in (each.earlier, each.later)
    }
    supported = sorted(
        agreements(claims), key=lambda group: (-len(group), group[0].note.at, group[0].note.name)
    )
    return [
        *(_contradiction(each) for each in found),
        *(_support(group, disputed) for group in supported),
    ]


def _contradiction(conflict: Conflict) -> Dream:
    earlier, later = conflict.earlier, conflict.later
    text = (
        f"Contradiction: {quote(earlier.sentence)} ({day_text(earlier.note.at)}) and {quote(later.sentence)} "
        f"({day_text(later.note.at)}): {_REASONS[conflict.reason]}; "
        + ("neither is later." if earlier.note.at == later.note.at else "the second is later.")
    )
    return dream(
        text,
        (earlier.note, later.note),
        why="two present claims about the same that cannot both hold",
        finding="contradiction",
        reason=conflict.reason,
        subject=quote(later.subject),
        sides=[quote(earlier.sentence), quote(later.sentence)],
    )


def _support(group: Sequence[Claim], disputed: set[tuple[str, int]]) -> Dream:
    latest = max(group, key=lambda claim: (claim.note.at, claim.note.name))
    sources = len({claim.note.source for claim in group if claim.note.source})
    told = memories(len(group)) + (f" from {sources} sources" if sources > 1 else "")
    is_disputed = any((claim.note.name, claim.place) in disputed for claim in group)
    text = (
        f"Corroborated: {quote(latest.sentence)} is what {told} say, last on {day_text(latest.note.at)}"
        + (", but another memory contradicts it." if is_disputed else ".")
    )
    return dream(
        text,
        [claim.note for claim in group],
        why=f"{counted(len(group), 'claim')} with the same subject, verb and value",
        is_shared=True,
        finding="corroboration",
        memories=len(group),
        sources=sources,
        is_disputed=is_disputed,
    )


def evolve(reading: Reading, now: int, options: Options) -> list[Dream]:
    """Notes with a statement that a later note has overtaken: the later sentence stands in its place.

    A sentence that makes several claims is left alone: the later one speaks of one of them, and the others would go.
    So is a note that says nothing else: with the later sentence in its place it would only repeat the later note.
    """
    del now, options
    claims = read_claims(reading)
    claimed = Counter((claim.note.name, claim.place) for claim in claims)
    overtaken: dict[str, dict[int, Conflict]] = defaultdict(dict)
    for conflict in conflicts(reading):
        is_single = claimed[(conflict.earlier.note.name, conflict.earlier.place)] == 1
        if is_single and conflict.later.note.at > conflict.earlier.note.at:
            known = overtaken[conflict.earlier.note.name].get(conflict.earlier.place)
            if known is None or known.later.note.at < conflict.later.note.at:
                overtaken[conflict.earlier.note.name][conflict.earlier.place] = conflict
    sentences: dict[str, list[str]] = defaultdict(list)
    for sentence in reading.sentences:
        sentences[sentence.note.name].append(sentence.text)
    found = (
        _revision(note, sentences[note.name], changes)
        for note in reading.notes
        if len(changes := overtaken.get(note.name, {})) < len(sentences[note.name]) and changes
    )
    return [each for each in found if each is not None]


def _revision(note: Note, sentences: Sequence[str], changes: dict[int, Conflict]) -> Dream | None:
    after = {place: change.later.sentence for place, change in changes.items()}
    text = _in_place(note.text, sentences, after)
    if text is None:
        return None
    return dream(
        text,
        (note, *(change.later.note for change in changes.values())),
        why=f"{counted(len(changes), 'statement')} overtaken by later ones",
        kind="revise",
        parent=note,
        changes=[
            {
                "before": quote(change.earlier.sentence),
                "after": quote(change.later.sentence),
                "on": day_text(change.later.note.at),
                "reason": change.reason,
            }
            for _, change in sorted(changes.items())
        ],
    )


def _in_place(text: str, sentences: Sequence[str], after: dict[int, str]) -> str | None:
    """The text with some of its sentences replaced and all else as it was; None when they cannot be found in it."""
    body = clean(text)
    made, cursor = [], 0
    for place, sentence in enumerate(sentences[: max(after) + 1]):
        found = re.compile(r"\s+".join(map(re.escape, sentence.split()))).search(body, cursor)
        if found is None:
            return None
        made += [
            body[cursor : found.start()],
            _ended(after[place], found[0]) if place in after else found[0],
        ]
        cursor = found.end()
    return "".join(made) + body[cursor:]


def _ended(text: str, before: str) -> str:
    """A sentence with the mark at its end that the one in its place had: else it would run into the next."""
    return text if text.endswith(_ENDS) or not before.endswith(_ENDS) else text + before[-1]
