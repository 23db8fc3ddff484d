"""How large a text is for a model. Approximate by design (section 8.2), so the host may count in another way."""

from __future__ import annotations

from typing import Final, Protocol


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
