"""The interface of embedding models. Users can provide their own; a callable is enough (`of_callable`).

Everything else in the project uses embedders through this protocol. Methods may be slow and may raise; the queue and
the search handle both (`service/core/embedding_queue.py`, `semantic_search.py`). Vectors have length one, so that a
product is a cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Vector: TypeAlias = NDArray[np.float32]

# A function from texts to a list of numbers for each.
EmbedTexts: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[float]]]


class Embedder(Protocol):
    """A model that turns texts into vectors of length one. Only vectors of the same model can be compared.

    Questions and texts may need different prefixes, therefore two methods.
    """

    @property
    def model(self) -> str:
        """The model's name, stored with every vector."""
        ...

    @property
    def other_names(self) -> Sequence[str]:
        """Names of the same model elsewhere: vectors that a memory brought under one of them are used."""
        ...

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a vector; 0 if unknown until the first one."""
        ...

    @property
    def typical_question(self) -> Vector | None:
        """The vector of an average question, if known."""
        ...

    @property
    def floor(self) -> float:
        """The relevance threshold: the minimum similarity of a text that shares no word with the question."""
        ...

    @property
    def line(self) -> float:
        """The minimum similarity of the best text, including its keyword score, for any answer at all; 0 if unknown."""
        ...

    @property
    def languages(self) -> Mapping[str, float] | None:
        """The trust in the model for each language, from 0 to 1, by code; "*" for others. None: 1 for all."""
        ...

    @property
    def is_word(self) -> Callable[[str], bool] | None:
        """A test if a folded word is in the vocabulary, so that it has no typing error; None if unknown."""
        ...

    @property
    def second(self) -> Embedder | None:
        """A second model with the same dimensions, which also rates texts without a context."""
        ...

    def of_question(self, text: str, /) -> Vector:
        """Return the vector of a question."""
        ...

    def of_memory(self, text: str, /) -> Vector:
        """Return the vector of a memory's text."""
        ...


class Reranker(Protocol):
    """A model that reads a question and a text together and rates the text as an answer."""

    def rate(self, question: str, text: str, /) -> float:
        """Return the relevance of the text, from 0 to 1."""
        ...


def normalize_vector(numbers: ArrayLike) -> Vector:
    """Return the numbers as a vector of length one. Raises InvalidInput."""
    import numpy as np

    vector: Vector = np.asarray(numbers, np.float32).ravel()
    length = float(np.linalg.norm(vector))
    if not len(vector) or not np.isfinite(length) or length == 0.0:
        raise InvalidInput("an embedder must return finite numbers that are not all zero")
    return vector / np.float32(length)


class of_callable(msgspec.Struct, frozen=True):  # noqa: N801 - reads as a function where it is used
    """An embedder that calls a function of the user."""

    model: str
    embed: EmbedTexts
    question_prefix: str = ""
    floor: float = 0.0
    line: float = 0.0
    dimensions: int = 0
    other_names: Sequence[str] = ()
    languages: Mapping[str, float] | None = None
    is_word: Callable[[str], bool] | None = None

    second: Embedder | None = None

    @property
    def typical_question(self) -> Vector | None:
        """Always None: unknown for a user's model."""
        return None

    def of_question(self, text: str, /) -> Vector:
        """Return the vector of a question, with its prefix."""
        return self.of_memory(self.question_prefix + text)

    def of_memory(self, text: str, /) -> Vector:
        """Return the vector of a memory's text."""
        return normalize_vector(self.embed([text])[0])
