"""Search by meaning, as far as questions go: a text becomes a vector when it is asked.

What tells the meaning of texts is loaded when it is first needed, because most commands need nothing of it.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from memoranda.embedding.texts import TEXT_LIMIT
from memoranda.errors import MemorandaError
from memoranda.model.selection import KeywordQuery, RetrieverQuery
from memoranda.model.selection import VectorQuery as MeaningLeg
from memoranda.retrieval.weights import RERANK

if TYPE_CHECKING:
    from memoranda.embedding.embedder import Embedder, Reranker

_QUESTION_CACHE_LIMIT: Final = 512

_log = logging.getLogger(__name__)


class SettlingQueue(Protocol):
    """What was written and has no vectors yet."""

    def settle(self, seconds: float, /) -> None:
        """Wait so long for what was written before."""
        ...


class SemanticSearch:
    """The embedder of a process."""

    def __init__(
        self,
        model: str = "",
        load: Callable[[], Embedder] | None = None,
        *,
        patience_seconds: float = 0.0,
    ) -> None:
        self.model = model
        # How long a question waits for what was written before it.
        self._patience_seconds = patience_seconds
        self._load = load
        self._embedder: Embedder | None = None
        self._reranker: Reranker | None = None
        self._lock = threading.Lock()
        self._question_cache: OrderedDict[str, MeaningLeg] = OrderedDict()
        self.queue: SettlingQueue | None = None

    @property
    def is_enabled(self) -> bool:
        """Whether there is a model to tell what texts mean."""
        return self._load is not None

    @property
    def embedder(self) -> Embedder:
        with self._lock:
            if self._embedder is None:
                assert self._load is not None
                self._embedder = self._load()
            return self._embedder

    def settle(self) -> None:
        """Wait for what was written before to have its vectors, with some patience. Never while anything is read."""
        if self.queue is not None and self.is_enabled and self._patience_seconds:
            self.queue.settle(self._patience_seconds)

    def create_retriever_queries(self, query: KeywordQuery) -> tuple[RetrieverQuery, ...]:
        """How a question is asked of the store: by its words, and by what it means where something can tell."""
        if not self.is_enabled or not query.text.strip():
            return (query,)
        try:
            leg = self._embed_question(query.text[:TEXT_LIMIT])
        except (MemorandaError, OSError) as error:
            _log.warning("a question was asked by its words alone: %s", error)
            return (query,)
        return query, leg

    def rerank(self, question: str, texts: Mapping[int, str]) -> dict[int, float]:
        """How much better or worse each answers, read together with the question. Slow: about 12 ms each."""
        with self._lock:
            if self._reranker is None:
                from memoranda.embedding.catalogue import load_reranker

                self._reranker = load_reranker()
            reranker = self._reranker
        return {
            name: RERANK * reranker.rate(question, text[:TEXT_LIMIT])
            for name, text in texts.items()
        }

    def _embed_question(self, text: str) -> MeaningLeg:
        with self._lock:
            query = self._question_cache.get(text)
        if query is None:
            embedder = self.embedder
            second = (
                None if embedder.second is None else _create_vector_query(embedder.second, text)
            )
            query = replace(_create_vector_query(embedder, text), model=self.model, second=second)
            with self._lock:
                self._question_cache[text] = query
                if len(self._question_cache) > _QUESTION_CACHE_LIMIT:
                    self._question_cache.popitem(last=False)
        return query


def _create_vector_query(embedder: Embedder, text: str) -> MeaningLeg:
    return MeaningLeg(
        model=embedder.model,
        vector=embedder.of_question(text),
        typical=embedder.typical_question,
        floor=embedder.floor,
        line=embedder.line,
    )
