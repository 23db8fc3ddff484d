"""associate: notes that belong together, and why, without rewriting either."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict

from memoranda.consolidation.strategies.dream import Dream, Options, dream, listed
from memoranda.consolidation.text.note import Note, quote
from memoranda.consolidation.text.reading import Reading, content_words, topic_words
from memoranda.consolidation.text.similar import Pair, Vectors, same_statement_groups
from memoranda.consolidation.text.summary import overtaken

_LINKS_OF_ONE = 3
_WORDS_SHOWN = 3
_TAGS_SHOWN = 3
_EXCERPT_CHARS = 100
_SEARCHED_CHARS = 20_000
# A single common word is a coincidence.
_SHARED_WORDS = 2
# A word that so many notes have, or such a share of them, is no reason to link two.
_RARE_NOTES = 3
_RARE_SHARE = 0.02
# Nor is it what everything is counted in.
_MEASURES = frozenset(
    content_words(
        "second minute hour day night week month year morning evening time times euro dollar pound cent percent times"
        " monday tuesday wednesday thursday friday saturday sunday january february march april june july august"
        " september october november december"
    )
)
_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")


def associate(reading: Reading, now: int, options: Options) -> list[Dream]:
    """Links between notes about the same, the most alike first, at most three a note.

    The reason is what they share and hardly another note has: words that many notes have are no reason. Of notes that
    say the same only the first is linked, and what a later note has overtaken is not linked at all.
    """
    del now
    topics = [topic_words(note.text) for note in reading.notes]
    vectors = Vectors(topics)
    repeating = _repeating(reading)
    old = {name for name, _ in overtaken(reading)}
    often = max(_RARE_NOTES, len(reading.notes) * _RARE_SHARE)
    links: dict[int, int] = defaultdict(int)
    found = []
    for pair in vectors.pairs(options.likeness):
        first, second = reading.notes[pair.first], reading.notes[pair.second]
        if (
            first.name in repeating
            or second.name in repeating
            or topics[pair.first] == topics[pair.second]
        ):
            continue
        if first.name in old or second.name in old:
            continue
        shared = [
            word
            for word in vectors.shared(pair.first, pair.second)
            if vectors.frequency[word] <= often and word not in _MEASURES
        ]
        if (
            len(shared) < _SHARED_WORDS
            or max(links[pair.first], links[pair.second]) >= _LINKS_OF_ONE
        ):
            continue
        links[pair.first] += 1
        links[pair.second] += 1
        found.append(_link(first, second, pair, shared))
        if len(found) >= options.limit:
            break
    return found


def _repeating(reading: Reading) -> set[str]:
    return {note.name for group in same_statement_groups(reading) for note in group[1:]}


def _link(first: Note, second: Note, pair: Pair, shared: list[str]) -> Dream:
    words = [quote(as_written(word, first.text), 40) for word in shared[:_WORDS_SHOWN]]
    tags = [quote(tag, 40) for tag in sorted(set(first.tags) & set(second.tags))[:_TAGS_SHOWN]]
    reasons = [f"both speak of {listed(words)}"]
    if tags:
        reasons.append(f"both are tagged {listed(tags)}")
    if first.source and first.source == second.source:
        reasons.append("both come from the same source")
    text = f"Related: {quote(first.text, _EXCERPT_CHARS)} and {quote(second.text, _EXCERPT_CHARS)}: {listed(reasons)}."
    return dream(
        text,
        (first, second),
        why=listed(reasons),
        kind="link",
        score=pair.score,
        words=words,
        tags=tags,
    )


def as_written(word: str, text: str) -> str:
    """A search word as the text writes it."""
    for match in _WORD.finditer(text, 0, _SEARCHED_CHARS):
        if word in content_words(match[0]):
            return match[0]
    return unicodedata.normalize("NFC", word)
