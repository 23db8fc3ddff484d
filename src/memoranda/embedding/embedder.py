"""What turns a text into a vector. Anyone may bring their own: a callable is enough (`of_callable`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]

# Texts in, as many lists of numbers out.
EmbedTexts: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[float]]]


class Embedder(Protocol):
    """Turns texts into vectors of length one; those of one model alone can be compared."""

    @property
    def model(self) -> str:
        """Its name, kept with every vector."""
        ...

    @property
    def other_names(self) -> Sequence[str]:
        """By which others call the same model: a vector that came with a memory under one of them is used."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has; 0: not known before there is one."""
        ...

    @property
    def typical_question(self) -> Vector | None:
        """What a question is like that asks for nothing in particular, where that is known."""
        ...

    @property
    def floor(self) -> float:
        """How near a text must be at least to answer a question, though they share no word."""
        ...

    @property
    def line(self) -> float:
        """How near the nearest of many must be, with what words add, for anything to be an answer; 0: not known."""
        ...

    @property
    def second(self) -> Embedder | None:
        """Another model, of as many numbers, whose opinion counts beside its own where a text stands alone."""
        ...

    def of_question(self, text: str, /) -> Vector: ...

    def of_memory(self, text: str, /) -> Vector: ...


class Reranker(Protocol):
    """Reads a question and a text together and says how well one answers the other."""

    def rate(self, question: str, text: str, /) -> float: ...


def unit(numbers: Any) -> Vector:
    """A vector of length one."""
    import numpy as np

    found: Vector = np.asarray(numbers, np.float32).ravel()
    length = float(np.linalg.norm(found))
    if not len(found) or not np.isfinite(length) or length == 0.0:
        raise InvalidInput("an embedder must give finite numbers that are not all zero")
    return found / np.float32(length)


class of_callable(msgspec.Struct, frozen=True):  # noqa: N801 - reads as a function where it is used
    """An embedder of the caller's own."""

    model: str
    embed: EmbedTexts
    question_prefix: str = ""
    floor: float = 0.0
    line: float = 0.0
    dimensions: int = 0
    other_names: Sequence[str] = ()

    second: Embedder | None = None

    @property
    def typical_question(self) -> Vector | None:
        return None

    def of_question(self, text: str, /) -> Vector:
        return self.of_memory(self.question_prefix + text)

    def of_memory(self, text: str, /) -> Vector:
        return unit(self.embed([text])[0])
