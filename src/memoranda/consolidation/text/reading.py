"""Notes read once: their sentences, and of each the words, the numbers and the words that turn its meaning.

Two sentences can share every search word and still say the opposite: what is the same statement is told by its key
(`text.statement`), and numbers and markers such as "not", "will" or "was" are kept beside the words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, lru_cache, wraps
from typing import Any, Final, TypeVar

import msgspec

from memoranda.consolidation.text.note import Note, ordered
from memoranda.consolidation.text.sentences import sentences
from memoranda.consolidation.text.statement import statement_key
from memoranda.model.calendar import utc_day
from memoranda.retrieval.analysis import plain_words

T = TypeVar("T")

# What a pronoun can mean stands shortly before it; all that came before would make the keys of a book endless.
_CONTEXT_SENTENCES: Final = 3

# Verbs (and adverbs) that say nothing about a topic.
_PLAIN_VERBS: Final = (
    "uses prefers requires needs lives works runs has likes wants makes made gets got goes went happens keeps says "
    "said told takes took gives sets put adds added changed moved new also still always every today yesterday tomorrow "
    "please sure yes okay"
)
# Words that turn a statement; the analyzer drops most of them because a search does not need them.
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
# A sign only where a number begins; a currency or a per cent sign is part of what is said.
NUMBER = re.compile(r"(?:(?<![\w.,])[-−+])?[$€£¥₹]?\d+(?:[.,:/-]\d+)*\s?[%‰°$€£¥₹]?")


class Sentence(msgspec.Struct, frozen=True, eq=False):
    """One sentence of a note and what it is compared by."""

    note: Note
    # Which of the note's sentences, from 0.
    place: int
    text: str
    words: tuple[str, ...]
    numbers: frozenset[str]
    markers: frozenset[str]
    bag: frozenset[str]
    # Equal in sentences that make the same statement.
    key: Hashable


class Reading:
    """Notes in order, with their sentences."""

    def __init__(self, notes: Iterable[Note]) -> None:
        self.notes = ordered(notes)
        # What was found in them, by the function that found it.
        self.found: dict[Callable[..., Any], Any] = {}

    @cached_property
    def sentences(self) -> list[Sentence]:
        return [sentence for note in self.notes for sentence in _read_note(note)]


def once(find: Callable[[Reading], T]) -> Callable[[Reading], T]:
    """A function of a reading that is asked once of each, however many strategies or parts of one need it."""

    @wraps(find)
    def found(reading: Reading) -> T:
        if find not in reading.found:
            reading.found[find] = find(reading)
        result: T = reading.found[find]
        return result

    return found


def _read_note(note: Note) -> list[Sentence]:
    said = sentences(note.text)
    return [
        read_sentence(note, place, text, said[max(0, place - _CONTEXT_SENTENCES) : place])
        for place, text in enumerate(said)
    ]


def read_sentence(note: Note, place: int, text: str, before: Sequence[str] = ()) -> Sentence:
    """One sentence with what it is compared by."""
    found = content_words(text)
    key = statement_key(text, before, utc_day(note.at))
    return Sentence(note, place, text, found, numbers(text), markers(text), frozenset(found), key)


def content_words(text: str) -> tuple[str, ...]:
    """The search words of a text."""
    return tuple(plain_words(text))


def topic_words(text: str) -> list[str]:
    """The words of a text that say what it is about: no numbers, no verbs that everything is said with."""
    plain = _plain_verbs()
    return [word for word in content_words(text) if word not in plain and not word.isdecimal()]


@lru_cache(maxsize=1)
def _plain_verbs() -> frozenset[str]:
    return frozenset(plain_words(_PLAIN_VERBS))


def numbers(text: str) -> frozenset[str]:
    """The numbers in a text, with sign, currency and per cent, in ASCII digits."""
    if not any(map(str.isdecimal, text)):
        return frozenset()
    return frozenset(_plain_digits(match[0]) for match in NUMBER.finditer(text))


def _plain_digits(text: str) -> str:
    kept = "".join(text.split()).replace("−", "-")
    if kept.isascii():
        return kept
    return "".join(str(unicodedata.decimal(character, character)) for character in kept)


def markers(text: str) -> frozenset[str]:
    """The words in a text that turn its meaning: negation, time, mood, direction."""
    folded = text.casefold()
    found = {word for word in _WORD.findall(folded) if word in _MARKERS}
    # May is a month and Will a name, unless they are written small.
    found -= {word for word in _NAMES_TOO & found if word not in _WORD.findall(text)}
    if _CONTRACTED.search(folded):
        found.add("not")
    if not folded.isascii():
        found.update(_MARKER_CHARACTERS.findall(folded))
    return frozenset(found)
