"""OAMS: batches, bundles, and lists of a large namespace at any depth."""

from __future__ import annotations

import itertools
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.corpus import Corpus
from bench.figures import Figures, percentile, say
from memoranda import Memoranda
from memoranda.encoding.json_text import dump, parse
from memoranda.model.instant import format_instant
from memoranda.service.exchange.importing import Item
from memoranda.standards.oams.requests import ListRequest

_CREATED_MS = 1_777_291_200_000
_NAMESPACE = "user-x123ab:personal"


def measure_oams(*, quick: bool) -> Figures:
    """All of it; small sizes when quick."""
    exchanged, (label, listed) = (2_000, ("2k", 2_000)) if quick else (50_000, ("1m", 1_000_000))
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
        say(f"oams: {exchanged} memories in batches, in and out")
        with Memoranda.open(Path(folder) / "exchange") as m:
            figures |= measure_exchange(m, exchanged)
        say(f"oams: lists of {listed} memories")
        with Memoranda.open(Path(folder) / "list") as m:
            figures |= measure_lists(m, listed, label, rounds=20 if quick else 200)
    return figures


def memories(count: int, prefix: str) -> Iterator[dict[str, Any]]:
    """Such as vendors export them."""
    corpus = Corpus(count)
    for number in range(count):
        at = format_instant(_CREATED_MS + 1_000 * number)
        yield {
            "key": f"{prefix}{number}",
            "namespace": _NAMESPACE,
            "value": corpus.text(number),
            "tags": ["bench", f"topic-{number % 20}"],
            "metadata": {"confidence": 0.5 + (number % 50) / 100},
            "created_at": at,
            "updated_at": at,
            "source_id": f"https://example.com/{number}",
        }


def measure_exchange(m: Memoranda, count: int) -> Figures:
    """Durable: every batch is on the disk before the next."""
    batches = list(_chunks(memories(count // 5, "b"), 500))
    start = time.perf_counter()
    for batch in batches:
        m.service.oams.batch_store(m.access, batch)
    stored = time.perf_counter() - start
    raw = [dump(each) for each in memories(count, "i")]
    start = time.perf_counter()
    report = m.service.import_items(m.access, _lines(raw))
    taken = time.perf_counter() - start
    if report.created != count:
        raise SystemExit(f"only {report.created} of {count} were taken in: {report.refusals[:1]}")
    start = time.perf_counter()
    given = sum(1 for _ in m.service.oams.export(m.access))
    return {
        "oams.batch_store_500.per_s": round(count // 5 / stored),
        "oams.import.per_s": round(count / taken),
        "oams.export.per_s": round(given / (time.perf_counter() - start)),
    }


def _lines(raw: list[bytes]) -> Iterator[Item]:
    for number, line in enumerate(raw, start=1):
        yield Item(form="oams", number=number, raw=line, value=parse(line))


def _chunks(items: Iterator[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    while chunk := list(itertools.islice(items, size)):
        yield chunk


def measure_lists(m: Memoranda, count: int, label: str, rounds: int) -> Figures:
    """Pages of 50, at the beginning and anywhere."""
    lines = (Item(form="oams", raw=dump(each), value=each) for each in memories(count, "l"))
    start = time.perf_counter()
    m.service.import_items(m.access, lines)
    figures: Figures = {f"oams.import.{label}.per_s": round(count / (time.perf_counter() - start))}
    cursors = _cursors(m, count, rounds)
    taken = []
    for cursor in random.Random(3).sample(cursors, min(rounds, len(cursors))):
        begun = time.perf_counter()
        m.service.oams.list_memories(m.access, _request(cursor, 50))
        taken.append((time.perf_counter() - begun) * 1000)
    figures[f"oams.list.{label}.p50_ms"] = percentile(taken, 0.50)
    figures[f"oams.list.{label}.p95_ms"] = percentile(taken, 0.95)
    return figures


def _cursors(m: Memoranda, count: int, rounds: int) -> list[str | None]:
    """Cursors from all over the list, found by walking it in large pages."""
    found: list[str | None] = [None]
    step = max(1, count // 500 // max(1, rounds))
    cursor: str | None = None
    for number in itertools.count():
        cursor = m.service.oams.list_memories(m.access, _request(cursor, 500)).next_cursor
        if cursor is None:
            return found
        if number % step == 0:
            found.append(cursor)
    raise AssertionError


def _request(cursor: str | None, limit: int) -> ListRequest:
    return ListRequest.parse({"namespace": _NAMESPACE, "limit": limit, **({"cursor": cursor} if cursor else {})})
