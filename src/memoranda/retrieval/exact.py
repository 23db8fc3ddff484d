"""What a question asks for letter by letter: `"database is locked"`, words side by side, and `pnp*`, how one begins.

A question of nothing else finds only what holds all of it. In a longer one, what holds it comes before what does not.
The index has no places of words, so it tells who may hold a phrase, and the text itself tells who does.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from memoranda.retrieval.languages import fold, language_of, little_words
from memoranda.retrieval.words import STARRED, WORD, unspaced

_QUOTES: Final = '"“”„«»「」『』'
_PHRASE: Final = re.compile(f"[{_QUOTES}]([^{_QUOTES}]{{1,200}})[{_QUOTES}]")
# More than these are words like any other.
_LIMIT: Final = 8


class Exact(NamedTuple):
    """The phrases and the beginnings of words in a question, as `plain` writes them."""

    phrases: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()
    # Whether the question asks for nothing else.
    is_all: bool = False

    def __bool__(self) -> bool:
        return bool(self.phrases or self.beginnings)

    def holds(self, text: str) -> bool:
        """Whether a text holds all of it."""
        written = plain(text)
        return all(has_phrase(written, each) for each in self.phrases) and all(
            has_beginning(written, each) for each in self.beginnings
        )

    def refuses(self, text: str) -> bool:
        """Whether a text cannot answer a question of nothing else."""
        return self.is_all and not self.holds(text)


def exact_in(question: str) -> Exact:
    """What a question asks for letter by letter."""
    phrases = [phrase for match in _PHRASE.finditer(question) if (phrase := plain(match[1]))]
    rest = _PHRASE.sub(" ", question)
    beginnings = [fold(match[1]) for match in STARRED.finditer(rest)]
    others = [fold(word) for word in WORD.findall(STARRED.sub(" ", rest))]
    is_all = all(word in little_words(language_of(others, rest, least=1)) for word in others)
    return Exact(
        tuple(dict.fromkeys(phrases))[:_LIMIT],
        tuple(dict.fromkeys(beginnings))[:_LIMIT],
        is_all and bool(phrases or beginnings),
    )


def plain(text: str) -> str:
    """A text as its words, folded, with a space between two; every sign of a script without spaces is one."""
    spaced = unspaced().sub(
        lambda run: f" {' '.join(run[0])} ", unicodedata.normalize("NFKC", text)
    )
    return " ".join(fold(word) for word in WORD.findall(spaced))


def has_phrase(written: str, phrase: str) -> bool:
    return f" {phrase} " in f" {written} "


def has_beginning(written: str, beginning: str) -> bool:
    return f" {beginning}" in f" {written}"
