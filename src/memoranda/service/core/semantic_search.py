"""Semantic search: turns the text of a query into a vector, and re-ranks results.

`SemanticSearch` holds the embedding model of a process. The model is loaded when it is first needed, because most
commands need none. The vectors of memories are made by `EmbeddingQueue` in the background; a search may wait a little
for those of recent memories (`settle`).

If the embedder fails, a search uses keywords only and logs a warning: an answer without semantic search is better than
none. Questions are cached by their text, since agents often repeat one; the cache holds vectors, not results. The model
is loaded under a lock, so that two threads do not load it twice.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from memoranda.embedding.texts import TEXT_LIMIT
from memoranda.errors import MemorandaError, describe_error
from memoranda.model.selection import KeywordQuery, RetrieverQuery, VectorQuery
from memoranda.retrieval.analysis import language_of
from memoranda.retrieval.languages import LANGUAGE_CODES, LANGUAGE_NUMBERS
from memoranda.retrieval.weights import RERANK_WEIGHT

if TYPE_CHECKING:
    from memoranda.embedding.embedder import Embedder, Reranker

# Questions whose vectors are cached.
_QUESTION_CACHE_LIMIT: Final = 512

_log = logging.getLogger(__name__)


class SettlingQueue(Protocol):
    """The queue of versions without vectors, as a search sees it."""

    def settle(self, seconds: float, /) -> None:
        """Wait up to `seconds` for the vectors of earlier writes."""
        ...

    def settle_latest(self, tenant: str, seconds: float, /) -> None:
        """Wait up to `seconds` for the vectors of a tenant's last writes."""
        ...


class SemanticSearch:
    """The embedding model of a process and its re-ranker, or their absence."""

    def __init__(
        self,
        model: str = "",
        load: Callable[[], Embedder] | None = None,
        *,
        patience_seconds: float = 0.0,
        own_writes_seconds: float = 0.0,
    ) -> None:
        self.model = model
        # Seconds for which a search waits for the vectors of its owner's last writes.
        self._own_writes_seconds = own_writes_seconds
        # Seconds for which a search waits for vectors of earlier writes; 0 means not at all.
        self._patience_seconds = patience_seconds
        self._load = load
        self._embedder: Embedder | None = None
        self._reranker: Reranker | None = None
        self._lock = threading.Lock()
        self._question_cache: OrderedDict[str, VectorQuery] = OrderedDict()
        self.queue: SettlingQueue | None = None

    @property
    def is_enabled(self) -> bool:
        """True if there is an embedding model."""
        return self._load is not None

    @property
    def embedder(self) -> Embedder:
        """The embedding model, loaded on first use."""
        with self._lock:
            if self._embedder is None:
                assert self._load is not None
                self._embedder = self._load()
            return self._embedder

    def settle(self, tenant: str) -> None:
        """Wait for the vectors of a tenant's earlier writes, if the settings allow it.

        Do not call it while a snapshot is open.

        Waiting is limited by the settings: a library waits seconds, a server fractions of a second.
        """
        if self.queue is None or not self.is_enabled:
            return
        if self._patience_seconds:
            self.queue.settle(self._patience_seconds)
        elif self._own_writes_seconds:
            self.queue.settle_latest(tenant, self._own_writes_seconds)

    def create_retriever_queries(self, query: KeywordQuery) -> tuple[RetrieverQuery, ...]:
        """Return the queries of the retrievers: by keywords, and by vector if the model works."""
        if not self.is_enabled or not query.text.strip():
            return (query,)
        try:
            vector_query = self._embed_question(query.text[:TEXT_LIMIT])
        except (MemorandaError, OSError) as error:
            _log.warning(
                "this search uses keywords only; the embedder failed: %s", describe_error(error)
            )
            return (query,)
        return query, vector_query

    def rerank(self, question: str, texts: Mapping[int, str]) -> dict[int, float]:
        """Return the re-ranker's adjustment for each text, read together with the question.

        The result is added to the scores of the candidates; its range is that of RERANK_WEIGHT. Slow: the model reads
        question and text together.
        """
        with self._lock:
            if self._reranker is None:
                from memoranda.embedding.catalogue import load_reranker

                self._reranker = load_reranker()
            reranker = self._reranker
        return {
            name: RERANK_WEIGHT * reranker.rate(question, text[:TEXT_LIMIT])
            for name, text in texts.items()
        }

    def _embed_question(self, text: str) -> VectorQuery:
        """Return the vector query for a text, from a cache of the last questions."""
        with self._lock:
            query = self._question_cache.get(text)
        if query is None:
            embedder = self.embedder
            second = (
                None if embedder.second is None else _create_vector_query(embedder.second, text)
            )
            query = replace(
                _create_vector_query(embedder, text),
                model=self.model,
                second=second,
                embed=lambda changed_text: self._embed_question(changed_text[:TEXT_LIMIT]),
                is_word=embedder.is_word,
            )
            with self._lock:
                self._question_cache[text] = query
                if len(self._question_cache) > _QUESTION_CACHE_LIMIT:
                    self._question_cache.popitem(last=False)
        return query


def _create_vector_query(embedder: Embedder, text: str) -> VectorQuery:
    by_language = embedder.languages
    trust: tuple[float, ...] = ()
    if by_language is not None:
        default_trust = by_language.get("*", 0.0)
        trust = tuple(by_language.get(code, default_trust) for code in LANGUAGE_CODES)
    return VectorQuery(
        trust=trust,
        question_trust=trust[LANGUAGE_NUMBERS[language_of(text)]] if trust else 1.0,
        model=embedder.model,
        vector=embedder.of_question(text),
        typical=embedder.typical_question,
        floor=embedder.floor,
        line=embedder.line,
        is_calibrated=embedder.line > 0,
    )
