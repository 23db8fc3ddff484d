"""openwop: lists of a large ref, the passes over many entries, and how long others wait for the writer meanwhile."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from bench.corpus import Corpus
from bench.figures import Figures, percentile, say
from bench.writers import draft
from memoranda import Memoranda
from memoranda.model.instant import DAY_MS, Instant
from memoranda.service.core.access import ALL_VERBS
from memoranda.service.openwop import commitments
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
    return figures | measure_waiting(quick=quick)


def measure_waiting(*, quick: bool) -> Figures:
    """How long another tenant waits for the writer while much is done, and what a run's own view costs."""
    size, label = (1_000, "1k") if quick else (10_000, "10k")
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
        for name in ("consolidate", "compact"):
            say(f"openwop: another tenant writes while {size} entries are {name}d")
            with Memoranda.open(Path(folder) / name) as m:
                fill(m, "mem://bench/pass", size)
                act = getattr(m.service.openwop, name)
                figures |= _waiting(m, f"{name}_{label}", lambda act=act, m=m: act(m.access, "mem://bench/pass"))  # type: ignore[misc]
        say("openwop: another tenant writes while 1,000 commitments fire")
        with Memoranda.open(Path(folder) / "fire") as m:
            drafts = [Draft(content=f"Remind me to call customer {n} in 1 minute.") for n in range(1_000)]
            m.service.openwop.put_entries(m.access, "bench", drafts)
            m.service.openwop.infer_commitments(m.access, "bench")
            context = replace(m.service.context, clock=lambda: Instant(m.service.context.clock() + DAY_MS))
            tenant = m.access.default_tenant
            figures |= _waiting(m, "fire_1k", lambda: commitments.fire_due(context, tenant))
        with Memoranda.open(Path(folder) / "run") as m:
            figures |= _measure_run(m)
    return figures


def _waiting(m: Memoranda, name: str, act: Callable[[], object]) -> Figures:
    """Remember as another tenant until it is done; how long each took."""
    gate = m.service.gate
    other = gate.authenticate(gate.add_key("bench", tenant="did:example:other", scopes=tuple(ALL_VERBS)))
    taken: list[float] = []
    worker = threading.Thread(target=act)
    worker.start()
    while worker.is_alive():
        start = time.perf_counter()
        m.service.remember(other, draft(other.default_tenant, len(taken), name))
        taken.append((time.perf_counter() - start) * 1000)
    worker.join()
    return {
        f"openwop.writer.{name}.wait_p99_ms": percentile(taken, 0.99),
        f"openwop.writer.{name}.wait_max_ms": round(max(taken), 1),
    }


def _measure_run(m: Memoranda) -> Figures:
    """A list inside a run with writes of its own, and after others wrote; a small file beside large ones."""
    verbs, figures = m.service.openwop, Figures()
    run = verbs.begin_run(m.access, "bench")
    for number in range(2_000):
        verbs.put_entry(m.access, "bench", Draft(content=f"entry {number}"), run_id=run.run_id)

    def list_ms() -> float:
        taken = []
        for _ in range(20):
            start = time.perf_counter()
            verbs.list_entries(m.access, "bench", ListOptions(limit=100), run_id=run.run_id)
            taken.append((time.perf_counter() - start) * 1000)
        return percentile(taken, 0.50)

    figures["openwop.run.list_2k_own.p50_ms"] = list_ms()
    verbs.put_entries(m.access, "bench", [Draft(content=f"other {number}") for number in range(5_000)])
    figures["openwop.run.list_5k_changes.p50_ms"] = list_ms()
    for number in range(100):
        verbs.write_file(m.access, f"large-{number}.md", "x" * 900_000)
    verbs.write_file(m.access, "small.md", "four")
    start = time.perf_counter()
    verbs.file(m.access, "small.md")
    figures["openwop.file.ms"] = round((time.perf_counter() - start) * 1000, 2)
    return figures


def fill(m: Memoranda, ref: str, count: int) -> None:
    """Entries, every tenth of which says what one before it said."""
    corpus = Corpus(count)
    for first in range(0, count, 1_000):
        numbers = range(first, min(first + 1_000, count))
        drafts = [Draft(content=corpus.text(number - 5 if number % 10 == 9 else number)) for number in numbers]
        m.service.openwop.put_entries(m.access, ref, drafts)
