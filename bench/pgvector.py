"""The dense leg of a question on PostgreSQL: compared by the process, and by the database (vector_search = pgvector).

Of an owner of 1,000 memories among 100 such, and of one with 100,000. Vectors are sums of those of words, drawn by
chance: to make real ones of so many texts would take hours, and to compare them takes as long. The service is in this
process; `leg` is the part of a question that compares vectors.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.postgres import Server

from bench.corpus import Corpus
from bench.figures import Figures, percentile, say
from bench.served import processor_seconds
from bench.store import Store, add_weight
from memoranda.embedding.embedder import of_callable
from memoranda.opening import open_service
from memoranda.service.exchange.importing import number_items
from memoranda.service.service import Service
from memoranda.settings import load_settings
from memoranda.standards.ump.requests import RecallRequest
from memoranda.storage.index.search import Search

SIZE: Final = 256
OTHERS: Final = 99


@cache
def _word(word: str) -> Any:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).normal(size=SIZE)


def _vectors(texts: Sequence[str]) -> list[list[float]]:
    return [np.sum([_word(word) for word in text.split()] or [_word("")], axis=0).tolist() for text in texts]


EMBEDDER: Final = of_callable("bench", _vectors)


def measure_pgvector(cluster: Server, *, quick: bool) -> Figures:
    """Both owners, both ways."""
    figures: Figures = {}
    owners = {"owner_1k": (1_000, OTHERS), "owner_100k": (100_000, 0)}
    for label, (size, others) in ({"owner_200": (200, OTHERS), "owner_2k": (2_000, 0)} if quick else owners).items():
        say(f"pgvector: an owner of {size} memories")
        with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
            store = Store(cluster, Path(folder))
            cluster.add_pgvector(store.name)
            figures |= _measure_owner(store, label, size, others, 20 if quick else 200)
    return figures


def _measure_owner(store: Store, label: str, size: int, others: int, rounds: int) -> Figures:
    corpus = Corpus(size)
    with closing(_opened(store, "pgvector")) as service:
        me = service.gate.local()
        report = service.import_items(me, number_items("ump", corpus.drafts()))
        if report.created != size:
            raise SystemExit(f"only {report.created} of {size} were written: {report.refusals[:1]}")
        began = time.perf_counter()
        while service.embedding.step():
            pass
        figures: Figures = {f"postgres.meaning.{label}.vectors_s": round(time.perf_counter() - began, 1)}
    with store.admin() as raw:
        if others:
            add_weight(raw, others)
        raw.execute("VACUUM ANALYZE")
        raw.execute("CHECKPOINT")
    for way in ("process", "pgvector"):
        with closing(_opened(store, way)) as service:
            for name, each in _asked(store, service, corpus, rounds):
                figures[f"postgres.meaning.{label}.{way}.{name}"] = each
    return figures


def _opened(store: Store, way: str) -> Service:
    settings = load_settings({"MEMORANDA_VECTOR_SEARCH": way}, home=store.home, store=store.address)
    return open_service(settings, embedder=EMBEDDER)


def _asked(store: Store, service: Service, corpus: Corpus, rounds: int) -> Iterator[tuple[str, float]]:
    me = service.gate.local()
    questions = [query for query, _ in corpus.questions(rounds + 5)]
    latencies: list[float] = []
    with _legs() as legs:
        began = time.perf_counter()
        service.recall(me, RecallRequest.parse({"query": questions[0]}))
        yield "first_ms", round(1000 * (time.perf_counter() - began), 1)
        for query in questions[:5]:
            service.recall(me, RecallRequest.parse({"query": query}))
        legs.clear()
        used = time.process_time() + _database_seconds(store)
        for query in questions[5:]:
            began, before = time.perf_counter(), len(legs)
            service.recall(me, RecallRequest.parse({"query": query}))
            latencies.append(1000 * (time.perf_counter() - began))
            legs[before:] = [sum(legs[before:])]
        used = time.process_time() + _database_seconds(store) - used
    yield "p50_ms", percentile(latencies, 0.50)
    yield "p99_ms", percentile(latencies, 0.99)
    yield "leg_p50_ms", percentile(legs, 0.50)
    yield "leg_p99_ms", percentile(legs, 0.99)
    # Of this process and of the database.
    yield "cpu_us", round(used / rounds * 1e6)


@contextmanager
def _legs() -> Iterator[list[float]]:
    """How long each comparison of vectors takes, in milliseconds."""
    taken: list[float] = []
    compared = Search._compare

    def timed(search: Search, *given: Any) -> Any:
        began = time.perf_counter()
        try:
            return compared(search, *given)
        finally:
            taken.append(1000 * (time.perf_counter() - began))

    type.__setattr__(Search, "_compare", timed)
    try:
        yield taken
    finally:
        type.__setattr__(Search, "_compare", compared)


def _database_seconds(store: Store) -> float:
    with store.admin() as raw:
        asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return sum(processor_seconds(int(str(pid))) for (pid,) in raw.execute(asked).fetchall())
