"""The strategy `associate`: links between related notes, with the reason.

A link must help a reader, so its reason is shown: rare words that both notes have, common tags or a common source.
Words of time and measure are no topic. Each note gets at most _LINKS_OF_ONE links.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict

from memoranda.consolidation.strategies.dream import Dream, Options, join_phrases, make_dream
from memoranda.consolidation.text.corpus import Corpus, content_words, topic_words
from memoranda.consolidation.text.note import MemoryNote, quote
from memoranda.consolidation.text.similar import SimilarPair, TfidfVectors, group_duplicates
from memoranda.consolidation.text.summary import find_overtaken

_LINKS_OF_ONE = 3
# Shared words and tags in the text of a link, and characters of the excerpts.
_WORDS_SHOWN = 3
_TAGS_SHOWN = 3
_EXCERPT_CHARS = 100
# Characters of a text in which the spelling of a word is looked up.
_SEARCHED_CHARS = 20_000
# Rare words that two linked notes must share; a single one is a coincidence.
_SHARED_WORDS = 2
# A shared word is rare if at most three notes have it, or at most 2 % of all notes.
_RARE_NOTES = 3
_RARE_SHARE = 0.02
# Units of time and money, which are no reason for a link either.
_MEASURES = frozenset(
    content_words(
        "second minute hour day night week month year morning evening time times euro dollar pound cent percent times"
        " monday tuesday wednesday thursday friday saturday sunday january february march april june july august"
        " september october november december"
    )
)
_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")


def associate(corpus: Corpus, now: int, options: Options) -> list[Dream]:
    """Return links between notes about the same topic, the most similar first, at most three per note.

    The reason for a link are the rare words that both notes have. Of duplicate notes only the first is linked. Notes
    with an overtaken statement are not linked.
    """
    del now
    topics = [topic_words(note.text) for note in corpus.notes]
    vectors = TfidfVectors(topics)
    # The notes that repeat an earlier note.
    repeating = {note.name for group in group_duplicates(corpus) for note in group[1:]}
    overtaken_names = {name for name, _ in find_overtaken(corpus)}
    rare_limit = max(_RARE_NOTES, len(corpus.notes) * _RARE_SHARE)
    links: dict[int, int] = defaultdict(int)
    dreams = []
    for pair in vectors.similar_pairs(options.likeness):
        first, second = corpus.notes[pair.first], corpus.notes[pair.second]
        if (
            first.name in repeating
            or second.name in repeating
            or topics[pair.first] == topics[pair.second]
        ):
            continue
        if first.name in overtaken_names or second.name in overtaken_names:
            continue
        shared = [
            word
            for word in vectors.shared_words(pair.first, pair.second)
            if vectors.frequency[word] <= rare_limit and word not in _MEASURES
        ]
        if (
            len(shared) < _SHARED_WORDS
            or max(links[pair.first], links[pair.second]) >= _LINKS_OF_ONE
        ):
            continue
        links[pair.first] += 1
        links[pair.second] += 1
        dreams.append(_make_link(first, second, pair, shared))
        if len(dreams) >= options.limit:
            break
    return dreams


def _make_link(
    first: MemoryNote, second: MemoryNote, pair: SimilarPair, shared: list[str]
) -> Dream:
    """Return the dream of a link, with the shared words, tags and source as its reason."""
    words = [quote(as_written(word, first.text), 40) for word in shared[:_WORDS_SHOWN]]
    tags = [quote(tag, 40) for tag in sorted(set(first.tags) & set(second.tags))[:_TAGS_SHOWN]]
    reasons = [f"both speak of {join_phrases(words)}"]
    if tags:
        reasons.append(f"both are tagged {join_phrases(tags)}")
    if first.source and first.source == second.source:
        reasons.append("both come from the same source")
    reason = join_phrases(reasons)
    text = f"Related: {quote(first.text, _EXCERPT_CHARS)} and {quote(second.text, _EXCERPT_CHARS)}: {reason}."
    return make_dream(
        text, (first, second), why=reason, kind="link", score=pair.score, words=words, tags=tags
    )


def as_written(word: str, text: str) -> str:
    """Return a search word as it is spelled in the text."""
    for match in _WORD.finditer(text, 0, _SEARCHED_CHARS):
        if word in content_words(match[0]):
            return match[0]
    return unicodedata.normalize("NFC", word)
