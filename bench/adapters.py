"""What an adapter adds to the calls that it makes: processor time of both, taken in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from bench.figures import Figures, say
from memoranda import Memoranda
from memoranda.adapters.anthropic import MemoryFiles
from memoranda.adapters.langgraph import MemorandaStore
from memoranda.opening import open_service
from memoranda.settings import load_settings

Pairs = dict[str, tuple[Callable[[], object], Callable[[], object]]]
_CALLS = 20
# The frameworks' own environment, which make test-adapters makes.
FRAMEWORKS = Path(sys.prefix) / "adapters" / "bin" / "python"
_PLACE = ("users", "ada")
_NAMESPACE = "users.ada"


def _microseconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    for _ in range(_CALLS):
        call()
    return (time.process_time() - start) / _CALLS * 1e6


def measure_adapters(*, quick: bool) -> Figures:
    """Every adapter beside the memory that it stands on."""
    say("adapters: LangGraph, Anthropic")
    figures = {**_langgraph(quick=quick), **_anthropic(quick=quick)}
    if not FRAMEWORKS.exists():
        say("adapters: the other frameworks are not here; make bench-adapters brings them")
        return figures
    say("adapters: OpenAI Agents, AutoGen, ADK, LlamaIndex, Pydantic AI")
    asked = [str(FRAMEWORKS), "-W", "ignore", "-m", "bench.frameworks", *(["--quick"] if quick else [])]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    ran = subprocess.run(asked, cwd=Path(__file__).parents[1], env=environment, check=True, capture_output=True)
    return {**figures, **json.loads(ran.stdout.splitlines()[-1])}


def opened() -> Memoranda:
    """A memory without a model for meaning: its work in the background would be counted to whoever happens to wait."""
    service = open_service(load_settings(store="sqlite:///:memory:", embedder="off"))
    return Memoranda(service, service.gate.local())


def _langgraph(*, quick: bool) -> Figures:
    with opened() as m:
        store, memories, numbers = MemorandaStore(m), m.oams, count()
        for number in range(100):
            store.put(_PLACE, f"k{number}", {"text": f"Ada takes tea number {number}"})

        def direct_put() -> object:
            value = {"text": "Ada takes tea"}
            return memories.store(
                f"d{next(numbers)}", "Ada takes tea", namespace=_NAMESPACE, metadata={"langgraph": value}
            )

        pairs: Pairs = {
            "get": (lambda: memories.get("k1", namespace=_NAMESPACE), lambda: store.get(_PLACE, "k1")),
            "search": (
                lambda: memories.recall("tea 7", namespace=_NAMESPACE, k=5),
                lambda: store.search(_PLACE, query="tea 7", limit=5),
            ),
            "put": (direct_put, lambda: store.put(_PLACE, f"a{next(numbers)}", {"text": "Ada takes tea"})),
        }
        return compared("langgraph", pairs, quick=quick)


def _anthropic(*, quick: bool) -> Figures:
    # Two stores alike: what is written directly is not news to the tool.
    with opened() as direct, opened() as m:
        files, numbers = MemoryFiles(m), count()
        for each in (direct, m):
            each.oams.store("notes/tea.txt", "green\n" * 10, namespace="memories")
            for number in range(300):
                each.oams.store(f"more/{number}", "tea", namespace="memories")
        pairs: Pairs = {
            "view": (
                lambda: direct.oams.get("notes/tea.txt", namespace="memories"),
                lambda: files.call({"command": "view", "path": "/memories/notes/tea.txt"}),
            ),
            "create": (
                lambda: direct.oams.store(f"a/{next(numbers)}", "tea", namespace="memories", if_absent=True),
                lambda: files.call({"command": "create", "path": f"/memories/a/{next(numbers)}", "file_text": "tea"}),
            ),
        }
        return compared("anthropic", pairs, quick=quick)


def compared(adapter: str, pairs: Pairs, *, quick: bool) -> Figures:
    """What each call takes, and how much more that is than the direct one: the median of the better half of many turns,
    for the other half shows what else ran."""
    figures: Figures = {}
    for name, (direct, adapted) in pairs.items():
        taken = [(_microseconds(direct), _microseconds(adapted)) for _ in range(10 if quick else 50)]
        first, second = (statistics.median(sorted(each)[: len(each) // 2]) for each in zip(*taken, strict=True))
        figures[f"adapters.{adapter}.{name}.cpu_us"] = round(second)
        figures[f"adapters.{adapter}.{name}.overhead"] = round(second / first - 1, 3)
    return figures
