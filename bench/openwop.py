"""openwop: lists of a large ref, and the passes over many entries."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.corpus import Corpus
from bench.figures import Figures, percentile, say
from memoranda import Memoranda
from memoranda.standards.openwop.entry import Draft, ListOptions


def measure_openwop(*, quick: bool) -> Figures:
    """All of it; small sizes when quick."""
    label, listed = ("1k", 1_000) if quick else ("100k", 100_000)
    sizes = {"300": 300} if quick else {"1k": 1_000, "3k": 3_000, "10k": 10_000}
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
        say(f"openwop: a ref of {listed} entries")
        with Memoranda.open(Path(folder) / "list") as m:
            fill(m, "mem://bench/list", listed)
            taken = []
            for _ in range(50 if quick else 200):
                start = time.perf_counter()
                found = m.service.openwop.list_entries(m.access, "mem://bench/list", ListOptions(limit=100))
                taken.append((time.perf_counter() - start) * 1000)
            assert len(found) == 100
            figures[f"openwop.list_100.{label}.p50_ms"] = percentile(taken, 0.50)
        for name, size in sizes.items():
            say(f"openwop: passes over {size} entries")
            with Memoranda.open(Path(folder) / name) as m:
                fill(m, "mem://bench/pass", size)
                start = time.perf_counter()
                m.service.openwop.distill(m.access, "mem://bench/pass")
                figures[f"openwop.distill.{name}.s"] = round(time.perf_counter() - start, 2)
                start = time.perf_counter()
                m.service.openwop.consolidate(m.access, "mem://bench/pass")
                figures[f"openwop.consolidate.{name}.s"] = round(time.perf_counter() - start, 2)
    return figures


def fill(m: Memoranda, ref: str, count: int) -> None:
    """Entries, every tenth of which says what one before it said."""
    corpus = Corpus(count)
    for first in range(0, count, 1_000):
        numbers = range(first, min(first + 1_000, count))
        drafts = [Draft(content=corpus.text(number - 5 if number % 10 == 9 else number)) for number in numbers]
        m.service.openwop.put_entries(m.access, ref, drafts)
