"""synthesize and compress: fewer words, all of them from the notes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memoranda.consolidation.strategies.dream import Dream, Options, counted, dream, memories
from memoranda.consolidation.text.claims import conflicts
from memoranda.consolidation.text.note import Note, quote
from memoranda.consolidation.text.reading import Reading, Sentence
from memoranda.consolidation.text.sentences import as_text
from memoranda.consolidation.text.similar import fold
from memoranda.consolidation.text.summary import summarize

# A summary that keeps more than half of the text has not compressed it.
_COMPRESSED_SHARE: Final = 2
_COMMON_PHRASE: Final = 50
# A text with more statements is no memory any more; and chains of notes that each share half with the next would run
# through the whole store.
_MERGED_STATEMENTS_LIMIT: Final = 24
_SHARE: Final = 0.5
_TELLING_WORDS: Final = 3


def synthesize(reading: Reading, now: int, options: Options) -> list[Dream]:
    """Notes that say the same become one text with every different statement once.

    Nothing is lost: a statement is left out only when another one in the text says the same. So notes are merged when
    they share at least half of the statements of one of them, and not for a topic or a phrase they have in common.
    """
    del now, options
    stands_for = fold(reading.sentences)
    said: dict[str, set[int]] = {note.name: set() for note in reading.notes}
    for sentence, root in zip(reading.sentences, stands_for, strict=True):
        said[sentence.note.name].add(root)
    alike: dict[frozenset[int], list[Note]] = defaultdict(list)
    for note in reading.notes:
        if said[note.name]:
            alike[frozenset(said[note.name])].append(note)
    found = []
    telling = frozenset(
        root for root in stands_for if len(reading.sentences[root].bag) >= _TELLING_WORDS
    )
    for group in _groups(list(alike), telling):
        notes = [note for roots in group for note in alike[roots]]
        if len(notes) > 1:
            kept = [reading.sentences[root] for root in sorted(frozenset().union(*group))]
            found.append(_merged(notes, kept))
    return found


def _groups(
    statements: Sequence[frozenset[int]], telling: frozenset[int]
) -> list[list[frozenset[int]]]:
    """What is to be merged, pair by pair until no pair shares enough: merging the results again changes nothing."""
    groups = {place: [roots] for place, roots in enumerate(statements)}
    wholes = dict(enumerate(statements))
    joined = True
    while joined:
        joined = False
        touched: set[int] = set()
        for first, second in _sharing(wholes, telling):
            if first in touched or second in touched:
                continue
            whole = wholes[first] | wholes[second]
            if len(whole) > _MERGED_STATEMENTS_LIMIT:
                continue
            touched |= {first, second}
            wholes[first] = whole
            groups[first] += groups.pop(second)
            del wholes[second]
            joined = True
    return list(groups.values())


def _sharing(
    wholes: Mapping[int, frozenset[int]], telling: frozenset[int]
) -> list[tuple[int, int]]:
    """Pairs of which one shares at least half of its statements with the other; those that share most first.

    Scraps that many notes carry ("required", "see above") are shared by chance and do not count.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for place, roots in wholes.items():
        for root in sorted(roots & telling):
            members[root].append(place)
    shares: dict[tuple[int, int], float] = {}
    for places in members.values():
        # What very many notes say besides their own is a phrase; there it is enough to look at neighbours.
        reach = len(places) if len(places) <= _COMMON_PHRASE else 1
        for index, first in enumerate(places):
            for second in places[index + 1 : index + 1 + reach]:
                ours, theirs = wholes[first], wholes[second]
                shares[(first, second)] = len(ours & theirs & telling) / min(len(ours), len(theirs))
    return sorted(
        (pair for pair, share in shares.items() if share >= _SHARE),
        key=lambda pair: (-shares[pair], pair),
    )


def _merged(notes: Sequence[Note], kept: Sequence[Sentence]) -> Dream:
    own = Reading(notes)
    total = len(own.sentences)
    sources = len({note.source for note in notes if note.source})
    open_conflicts = [
        [quote(each.earlier.sentence), quote(each.later.sentence)] for each in conflicts(own)
    ]
    why = (
        f"{counted(total, 'statement')} in {memories(len(notes))}, {len(kept)} without repetitions"
    )
    figures: dict[str, Any] = {
        "memories": len(notes),
        "statements": total,
        "kept": len(kept),
        "sources": sources,
    }
    if open_conflicts:
        figures["conflicts"] = open_conflicts
    text = as_text([sentence.text for sentence in kept])
    return dream(text, notes, why=why, is_shared=True, **figures)


def compress(reading: Reading, now: int, options: Options) -> list[Dream]:
    """The most telling sentences of all notes, unchanged and in order, within the budget and half of their length."""
    whole = options.count("\n".join(sentence.text for sentence in reading.sentences))
    budget = min(options.budget_tokens, whole // _COMPRESSED_SHARE)
    summary = summarize(reading, budget_tokens=budget, now=now, count=options.count)
    if not summary.text:
        return []
    why = (
        f"{counted(len(summary.sentences), 'sentence')} of {len(reading.sentences)} kept from "
        f"{memories(len(reading.notes))}: {summary.tokens} tokens instead of {whole}"
    )
    figures: dict[str, Any] = {
        "memories": len(reading.notes),
        "tokens": summary.tokens,
        "tokens_before": whole,
        "budget_tokens": budget,
        "left_out": summary.left_out,
    }
    return [dream(summary.text, summary.notes, why=why, **figures)]
