"""The notes of one consolidation run, split into sentences, with the words, numbers and markers of each.

Two sentences can share all search words and still contradict each other. So equality is decided by `Sentence.key`, and
numbers and markers such as "not", "will" or "was" are kept apart from the words.

The key (`statement_key`) contains all words in their order: "Plan A" differs from "Plan B", "from X to Y" from "from Y
to X", "C#" from "C", "she" from "he", and "runs" from "ran". Differences without meaning are removed: case at the
beginning, the article "the", "please", punctuation, contractions, and a label ("Port: 8080") for "is". The meaning of
some sentences depends on their context ("He agreed", "yesterday", "paid the rent"). Their keys also contain the
sentences before them and the day.

A corpus is built once for a run, and caches what several strategies need (`cached_per_corpus`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, lru_cache, wraps
from typing import Any, Final, TypeVar

import msgspec

from memoranda.consolidation.text.note import MemoryNote, order_notes
from memoranda.consolidation.text.sentences import split_sentences
from memoranda.model.calendar import utc_day
from memoranda.retrieval.analysis import english_keywords

T = TypeVar("T")

# Sentences before one that its key may include: enough to resolve a pronoun, and a bound for the keys of a long text.
_CONTEXT_SENTENCES: Final = 3

# Verbs and adverbs without meaning for the topic.
_PLAIN_VERBS: Final = (
    "uses prefers requires needs lives works runs has likes wants makes made gets got goes went happens keeps says "
    "said told takes took gives sets put adds added changed moved new also still always every today yesterday tomorrow "
    "please sure yes okay"
)
# Words that change the meaning of a statement. The search analyzer drops most of them.
_MARKERS: Final = frozenset(
    "not no never nor none neither cannot without will would should could can might may must shall was were had did "
    "been if unless when until before after while only than less more most least former formerly previously "
    "planned maybe perhaps probably almost except instead against above below under over off out up down "
    "nicht kein keine keinen keiner nie niemals ohne war wird pas jamais sans aucun aucune nunca jamás sin non mai "
    "senza não sem niet geen nooit zonder не нет без никогда ikke aldri aldrig inte nie bez değil yok لا ليس لم لن "
    "नहीं".split()
)
_NAMES_TOO: Final = frozenset(("may", "will"))
_CONTRACTED = re.compile(r"n['’]t\b")
_MARKER_CHARACTERS = re.compile("[不没沒未非无無別别]|ない|ません|않|못|아니|없")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
# A sign counts only at the beginning of a number; a currency or per cent sign belongs to the number.
NUMBER = re.compile(r"(?:(?<![\w.,])[-−+])?[$€£¥₹]?\d+(?:[.,:/-]\d+)*\s?[%‰°$€£¥₹]?")


class Sentence(msgspec.Struct, frozen=True, eq=False):
    """One sentence of a note, with the features by which it is compared."""

    note: MemoryNote
    # The position among the sentences of the note, from 0.
    index: int
    text: str
    words: tuple[str, ...]
    numbers: frozenset[str]
    markers: frozenset[str]
    word_set: frozenset[str]
    # Equal in sentences that make the same statement.
    key: Hashable


class Corpus:
    """Notes in order, with their sentences, and a cache of results computed from them."""

    def __init__(self, notes: Iterable[MemoryNote]) -> None:
        self.notes = order_notes(notes)
        # Results by the function that computed them (see `cached_per_corpus`).
        self.cache: dict[Callable[..., Any], Any] = {}

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The sentences of all notes, in order."""
        return [sentence for note in self.notes for sentence in _split_note(note)]


def cached_per_corpus(find: Callable[[Corpus], T]) -> Callable[[Corpus], T]:
    """Cache the result of a function of a corpus in the corpus (a decorator)."""

    @wraps(find)
    def cached(corpus: Corpus) -> T:
        if find not in corpus.cache:
            corpus.cache[find] = find(corpus)
        result: T = corpus.cache[find]
        return result

    return cached


def _split_note(note: MemoryNote) -> list[Sentence]:
    """Return the sentences of a note with their features."""
    texts = split_sentences(note.text)
    return [
        read_sentence(note, index, text, texts[max(0, index - _CONTEXT_SENTENCES) : index])
        for index, text in enumerate(texts)
    ]


def read_sentence(note: MemoryNote, index: int, text: str, before: Sequence[str] = ()) -> Sentence:
    """Return a sentence with the features by which it is compared. `before`: the sentences before it in its note."""
    words = content_words(text)
    key = statement_key(text, before, utc_day(note.at))
    return Sentence(note, index, text, words, numbers(text), markers(text), frozenset(words), key)


def content_words(text: str) -> tuple[str, ...]:
    """Return the search words of a text."""
    return tuple(english_keywords(text))


def topic_words(text: str) -> list[str]:
    """Return the words that state the topic of a text, without numbers and common verbs."""
    plain_verbs = _plain_verbs()
    return [
        word for word in content_words(text) if word not in plain_verbs and not word.isdecimal()
    ]


@lru_cache(maxsize=1)
def _plain_verbs() -> frozenset[str]:
    return frozenset(english_keywords(_PLAIN_VERBS))


def numbers(text: str) -> frozenset[str]:
    """Return the numbers in a text in ASCII digits, with sign, currency and per cent sign."""
    if not any(map(str.isdecimal, text)):
        return frozenset()
    return frozenset(_plain_digits(match[0]) for match in NUMBER.finditer(text))


def _plain_digits(text: str) -> str:
    compact = "".join(text.split()).replace("−", "-")
    if compact.isascii():
        return compact
    return "".join(str(unicodedata.decimal(character, character)) for character in compact)


def markers(text: str) -> frozenset[str]:
    """Return the words in a text that change its meaning: negation, time, mood, direction."""
    folded = text.casefold()
    words = {word for word in _WORD.findall(folded) if word in _MARKERS}
    # "May" is a month and "Will" a name; in lower case they are markers.
    words -= {word for word in _NAMES_TOO & words if word not in _WORD.findall(text)}
    if _CONTRACTED.search(folded):
        words.add("not")
    if not folded.isascii():
        words.update(_MARKER_CHARACTERS.findall(folded))
    return frozenset(words)


# Punctuation around a word. Characters that belong to a word stay: "C#", "C++", ".NET", "-4", "5 %".
_EDGES: Final = "\"'“”‘’«»()[]{}.,;:!?*_`~…。、，！？；：–—"
_LEAD = re.compile(
    r"^(?:(?:note|reminder|remember|fyi|btw|please note)\s*:\s*|(?:please|fyi|btw|remember that|note that)[\s,]+)+",
    re.IGNORECASE,
)
_LABEL = re.compile(r"^([^:.!?]{1,60}?)\s*:\s+(?=[^:]+$)")
# Words of a label; a longer text before a colon is a clause.
_LABEL_WORDS_LIMIT: Final = 5
_MAY_BE_SHORT = re.compile(r"['’]|\bcannot\b", re.IGNORECASE)
_SHORT_FORMS: Final = (
    (re.compile(r"\bcan(?:['’]t|not)\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon['’]t\b", re.IGNORECASE), "will not"),
    (re.compile(r"n['’]t\b", re.IGNORECASE), " not"),
    (re.compile(r"['’]re\b", re.IGNORECASE), " are"),
    (re.compile(r"['’]ll\b", re.IGNORECASE), " will"),
    (re.compile(r"['’]ve\b", re.IGNORECASE), " have"),
)
# Words that refer to something outside the sentence.
_POINTING = re.compile(
    r"\b(?:he|she|it|they|him|her|them|his|hers|its|their|theirs|this|these|those|there|such|same|former"
    r"|latter|another|others?|then|today|tonight|tomorrow|yesterday|now|currently|next|last|ago|recently|just|already"
    r"|again|still|yet)\b|^that\b|\bthat(?=\W*$|\s(?:is|was|one|day|way|time)\b)",
    re.IGNORECASE,
)
# Verbs in the past tense. A past event belongs to its day: "paid the rent" in two months means two payments.
_HAPPENED = re.compile(
    r"(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bam )(?<!\bnot )(?<!\bnever )(?<!\bget )(?<!\bgets )"
    r"\b(?:was|were|did|had|paid|ran|went|met|sent|got|bought|took|made|said|saw|came|left|found|broke|fell|won|lost|wrote"
    r"|told|gave|became|began|brought|built|caught|chose|drank|drove|ate|felt|flew|forgot|grew|heard|held|knew|sold|sang"
    r"|sat|slept|spoke|spent|stood|swam|taught|thought|threw|woke|wore|[a-z]{2,}[^e\W\d]ed)\b",
    re.IGNORECASE,
)


def statement_key(text: str, before: Sequence[str] = (), day: object = None) -> Hashable:
    """Return a key that is equal in two sentences with the same statement.

    `before` are the sentences before it in its note, `day` the day of writing.
    """
    words = _normalize_words(text)
    if _POINTING.search(text) or is_past_event(text):
        return (words, *map(_normalize_words, before), day)
    return words


def is_past_event(text: str) -> bool:
    """Return True if a sentence reports a past event."""
    return _HAPPENED.search(text) is not None


def _normalize_words(text: str) -> tuple[str, ...]:
    """Return the words of a text, without the differences that carry no meaning."""
    plain_text = unicodedata.normalize("NFC", text).strip()
    plain_text = _LEAD.sub("", plain_text)
    label = _LABEL.match(plain_text)
    if label is not None and len(label[1].split()) <= _LABEL_WORDS_LIMIT:
        plain_text = f"{label[1]} is {plain_text[label.end() :]}"
    if _MAY_BE_SHORT.search(plain_text):
        for short, long in _SHORT_FORMS:
            plain_text = short.sub(long, plain_text)
    words: list[str] = []
    for index, raw in enumerate(plain_text.split()):
        word = _strip_marks(raw)
        if word and word.lower() != "the":
            words.append(_fold_case(word, is_first=index == 0))
    # A question differs from its answer.
    if plain_text.rstrip("\"'”’)").endswith(("?", "？")):
        words.append("?")
    return tuple(words) or (plain_text,)


def _strip_marks(raw: str) -> str:
    """Return a word without the punctuation around it."""
    word = raw.strip(_EDGES).replace("−", "-").replace("’", "'")
    if word and raw.startswith(".") and word[0].isalpha() and not raw.startswith(".."):
        return "." + word
    return word


def _fold_case(word: str, *, is_first: bool) -> str:
    """Return the word in lower case, with a "^" before a name: "Polish" differs from "polish", "US" from "us"."""
    is_name = (len(word) > 1 and word.isupper()) if is_first else any(map(str.isupper, word))
    return ("^" if is_name else "") + word.lower()
