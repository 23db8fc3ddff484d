"""Typing errors: the words that differ from a word by one error.

An error is two letters swapped, a letter too many, one left out, or a wrong one. The first letter is mostly right, so
it stays. The word index holds only fingerprints of words, so possible words are generated and looked up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

# Letters: shorter words have too many neighbours, most of them words of another meaning; so do those of words with a
# wrong letter.
LEAST_LETTERS: Final = 5
_LEAST_LETTERS_OF_WRONG: Final = 7
_MOST_LETTERS: Final = 24
_ALPHABETS: Final = (
    "abcdefghijklmnopqrstuvwxyz",
    "абвгдежзийклмнопрстуфхцчшщъыьэюяіїєґ",
    "αβγδεζηθικλμνξοπρσςτυφχψω",
)


def can_have_error(word: str) -> bool:
    """Return True if a word, folded, is long enough and has letters of a known alphabet only."""
    return LEAST_LETTERS <= len(word) <= _MOST_LETTERS and _alphabet_of(word) is not None


def near_words(word: str, *, is_sure: bool = False) -> Iterator[str]:
    """Yield the words that differ by one error, each once, the most frequent errors first.

    `is_sure`: only errors that hardly make a word of another one: letters swapped or doubled, or one left out inside,
    since a letter more at the end is mostly another form of the word.

    A word of ten letters has a few hundred neighbours; the caller looks up which of them exist.
    """
    alphabet = _alphabet_of(word) or ""
    yielded = {word}
    for candidate in _edits(word, alphabet, is_sure=is_sure):
        if candidate not in yielded:
            yielded.add(candidate)
            yield candidate


def doubled_or_swapped(word: str) -> Iterator[str]:
    """Yield the words of which this one has two letters swapped, or one letter twice."""
    for index in range(1, len(word) - 1):
        if word[index] != word[index + 1]:
            yield word[:index] + word[index + 1] + word[index] + word[index + 2 :]
    for index in range(1, len(word)):
        if word[index] == word[index - 1]:
            yield word[:index] + word[index + 1 :]


def _alphabet_of(word: str) -> str | None:
    """Return the alphabet that has all letters of a word; None if there is none."""
    return next((alphabet for alphabet in _ALPHABETS if set(alphabet).issuperset(word)), None)


def _edits(word: str, alphabet: str, *, is_sure: bool) -> Iterator[str]:
    """Yield the words with one error, the most frequent kinds of errors first."""
    yield from doubled_or_swapped(word)
    if not is_sure:
        for index in range(1, len(word)):
            yield word[:index] + word[index + 1 :]
    for index in range(1, len(word) if is_sure else len(word) + 1):
        for letter in alphabet:
            yield word[:index] + letter + word[index:]
    if not is_sure and len(word) >= _LEAST_LETTERS_OF_WRONG:
        for index in range(1, len(word)):
            for letter in alphabet:
                yield word[:index] + letter + word[index + 1 :]
