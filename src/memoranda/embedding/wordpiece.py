"""WordPiece as uncased BERT models read it: a text as the numbers of pieces of its words.

Clean, fold case and accents, split at spaces and punctuation and around every Chinese character, then take the longest
piece that the vocabulary has, again and again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

# A word longer than this is not looked up.
_WORD_LIMIT: Final = 100
_UNKNOWN, _START, _END = "[UNK]", "[CLS]", "[SEP]"
# Ideographs stand alone.
_IDEOGRAPHS: Final = re.compile(
    "([\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f])"
)
_KEPT_CONTROLS: Final = "\t\n\r"
_CONTROLS: Final = frozenset(("Cc", "Cf", "Co", "Cs"))


class WordPiece:
    """Reads texts with one vocabulary: a piece a line, its number the line's."""

    def __init__(self, vocabulary: str) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary.splitlines())}
        self._unknown = self._numbers[_UNKNOWN]
        self._start, self._end = self._numbers[_START], self._numbers[_END]
        self._of_word = lru_cache(maxsize=16_384)(self._pieces)

    def read(self, text: str, *, limit: int) -> list[int]:
        """The numbers of one text between the marks of start and end, at most so many."""
        return [self._start, *self._body(text, limit - 2), self._end]

    def read_pair(self, first: str, second: str, *, limit: int) -> tuple[list[int], list[int]]:
        """The numbers of two texts, and to which of them each belongs; the second is cut first."""
        one = self._body(first, limit // 2)
        two = self._body(second, limit - 3 - len(one))
        return [self._start, *one, self._end, *two, self._end], [0] * (len(one) + 2) + [1] * (len(two) + 1)

    def _body(self, text: str, limit: int) -> list[int]:
        found: list[int] = []
        for word in _words(text):
            found += self._of_word(word)
            if len(found) >= limit:
                return found[:limit]
        return found

    def _pieces(self, word: str) -> Sequence[int]:
        if len(word) > _WORD_LIMIT:
            return (self._unknown,)
        numbers, found, start = self._numbers, list[int](), 0
        while start < len(word):
            end = len(word)
            while start < end:
                number = numbers.get(("##" if start else "") + word[start:end])
                if number is not None:
                    found.append(number)
                    break
                end -= 1
            else:
                return (self._unknown,)
            start = end
        return found


def _words(text: str) -> Iterator[str]:
    for each in _IDEOGRAPHS.sub(r" \1 ", _clean(text)).split():
        # Letter by letter: no letter changes for standing last.
        yield from _split(each.lower() if each.isascii() else "".join(map(str.lower, _without_accents(each))))


def _clean(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if _is_space(each) else each for each in text if not _is_dropped(each))


def _is_space(char: str) -> bool:
    return char in _KEPT_CONTROLS or unicodedata.category(char) == "Zs"


def _is_dropped(char: str) -> bool:
    # What Unicode has not assigned yet stays: a vocabulary does not depend on the year.
    return char == "\ufffd" or (char not in _KEPT_CONTROLS and unicodedata.category(char) in _CONTROLS)


def _without_accents(word: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFD", word) if unicodedata.category(char) != "Mn")


def _split(word: str) -> Iterator[str]:
    """A word, with every mark of punctuation by itself."""
    if word.isalnum():
        yield word
        return
    start = 0
    for place, char in enumerate(word):
        if _is_punctuation(char):
            if start < place:
                yield word[start:place]
            yield char
            start = place + 1
    if start < len(word):
        yield word[start:]


@lru_cache(maxsize=4_096)
def _is_punctuation(char: str) -> bool:
    # Every printable ASCII sign that is no letter and no digit counts, whatever Unicode calls it.
    return (char.isascii() and not char.isalnum()) or unicodedata.category(char)[0] == "P"
