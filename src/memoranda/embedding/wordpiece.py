"""WordPiece tokenization for uncased BERT models: a text as the ids of word pieces.

The text is cleaned, case and accents are folded, and it is split at spaces, at punctuation and around every ideograph.
Each word is then split greedily into the longest pieces in the vocabulary.

It must give the same ids as the reference tokenizer for every text, or vectors change silently; `tests/embedding`
compares them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

# Characters. Longer words become the unknown token.
_WORD_LIMIT: Final = 100
_UNKNOWN, _START, _END = "[UNK]", "[CLS]", "[SEP]"
# Each ideograph is a word.
_IDEOGRAPHS: Final = re.compile(
    "([\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f])"
)
_KEPT_CONTROLS: Final = "\t\n\r"
_CONTROLS: Final = frozenset(("Cc", "Cf", "Co", "Cs"))


class WordPiece:
    """A tokenizer for one vocabulary, which has one piece per line; the line number is the id."""

    def __init__(self, vocabulary: str) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary.splitlines())}
        self._unknown = self._numbers[_UNKNOWN]
        self._start, self._end = self._numbers[_START], self._numbers[_END]
        self._cached_pieces = lru_cache(maxsize=16_384)(self._split_word)

    def is_word(self, word: str) -> bool:
        """Return True if a folded word is in the vocabulary as a whole."""
        return word in self._numbers

    def encode(self, text: str, *, limit: int) -> list[int]:
        """Return the token ids of one text, with start and end tokens, at most `limit`."""
        return [self._start, *self._encode_body(text, limit - 2), self._end]

    def encode_pair(self, first: str, second: str, *, limit: int) -> tuple[list[int], list[int]]:
        """Return the token ids of two texts and the text (0 or 1) of each; the second is cut first."""
        first_ids = self._encode_body(first, limit // 2)
        second_ids = self._encode_body(second, limit - 3 - len(first_ids))
        ids = [self._start, *first_ids, self._end, *second_ids, self._end]
        first_length, second_length = len(first_ids) + 2, len(second_ids) + 1
        return ids, [0] * first_length + [1] * second_length

    def _encode_body(self, text: str, limit: int) -> list[int]:
        """Return at most `limit` token ids of a text, without start and end."""
        ids: list[int] = []
        for word in _split_words(text):
            ids += self._cached_pieces(word)
            if len(ids) >= limit:
                return ids[:limit]
        return ids

    def _split_word(self, word: str) -> Sequence[int]:
        """Split a word into the ids of the longest pieces."""
        if len(word) > _WORD_LIMIT:
            return (self._unknown,)
        numbers, ids, start = self._numbers, list[int](), 0
        while start < len(word):
            end = len(word)
            while start < end:
                number = numbers.get(("##" if start else "") + word[start:end])
                if number is not None:
                    ids.append(number)
                    break
                end -= 1
            else:
                return (self._unknown,)
            start = end
        return ids


def _split_words(text: str) -> Iterator[str]:
    """Yield the words of a text, in lower case and without accents."""
    for chunk in _IDEOGRAPHS.sub(r" \1 ", _clean(text)).split():
        yield from _split_punctuation(chunk.lower() if chunk.isascii() else _fold(chunk))


def _clean(text: str) -> str:
    """Return the text without control characters, with plain spaces."""
    if text.isascii() and text.isprintable():
        return text
    chars = (char for char in text if not _is_dropped(char))
    return "".join(" " if _is_space(char) else char for char in chars)


def _is_space(char: str) -> bool:
    """Return True for characters that separate words."""
    return char in _KEPT_CONTROLS or unicodedata.category(char) == "Zs"


def _is_dropped(char: str) -> bool:
    """Return True for characters that are removed before tokenization."""
    # Characters that Unicode has not assigned yet are kept, so the tokens do not depend on the Unicode version.
    return char == "\ufffd" or (
        char not in _KEPT_CONTROLS and unicodedata.category(char) in _CONTROLS
    )


def _fold(word: str) -> str:
    """Return the word without accents, in lower case."""
    # Lower each letter separately: str.lower() of a word depends on the position of a letter.
    return "".join(map(str.lower, _strip_accents(word)))


def _strip_accents(word: str) -> str:
    """Return the word without accents."""
    return "".join(
        char for char in unicodedata.normalize("NFD", word) if unicodedata.category(char) != "Mn"
    )


def _split_punctuation(word: str) -> Iterator[str]:
    """Yield the parts of a word; each punctuation mark is a part."""
    if word.isalnum():
        yield word
        return
    start = 0
    for position, char in enumerate(word):
        if _is_punctuation(char):
            if start < position:
                yield word[start:position]
            yield char
            start = position + 1
    if start < len(word):
        yield word[start:]


@lru_cache(maxsize=4_096)
def _is_punctuation(char: str) -> bool:
    """Return True for characters that are words of their own."""
    # All ASCII symbols count as punctuation, whatever their Unicode category.
    return (char.isascii() and not char.isalnum()) or unicodedata.category(char)[0] == "P"
