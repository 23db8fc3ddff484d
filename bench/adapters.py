"""What an adapter adds to the calls that it makes: processor time of both, taken in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import count

from bench.figures import Figures, say
from memoranda import Memoranda
from memoranda.adapters.anthropic import MemoryFiles
from memoranda.adapters.langgraph import MemorandaStore

Pairs = dict[str, tuple[Callable[[], object], Callable[[], object]]]
_CALLS = 20
_PLACE = ("users", "ada")
_NAMESPACE = "users.ada"


def _microseconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    for _ in range(_CALLS):
        call()
    return (time.process_time() - start) / _CALLS * 1e6


def measure_adapters(*, quick: bool) -> Figures:
    """LangGraph's store and Anthropic's memory tool beside the memory that they stand on."""
    say("adapters: LangGraph, Anthropic")
    figures: Figures = {}
    with Memoranda.open(":memory:") as m:
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
        figures |= _compared("langgraph", pairs, quick=quick)
        files = MemoryFiles(m)
        files.create("/memories/notes/tea.txt", "green\n" * 10)
        for number in range(300):
            memories.store(f"more/{number}", "tea", namespace="memories")
        pairs = {
            "view": (
                lambda: memories.get("notes/tea.txt", namespace="memories"),
                lambda: files.call({"command": "view", "path": "/memories/notes/tea.txt"}),
            ),
            # Asks first what others wrote, so that no file takes the name of a folder.
            "create": (
                lambda: memories.store(f"d/{next(numbers)}", "tea", namespace="elsewhere", if_absent=True),
                lambda: files.call({"command": "create", "path": f"/memories/a/{next(numbers)}", "file_text": "tea"}),
            ),
        }
        figures |= _compared("anthropic", pairs, quick=quick)
    return figures


def _compared(adapter: str, pairs: Pairs, *, quick: bool) -> Figures:
    """What each call takes, and how much more that is than the direct one."""
    figures: Figures = {}
    for name, (direct, adapted) in pairs.items():
        taken = [(_microseconds(direct), _microseconds(adapted)) for _ in range(5 if quick else 50)]
        first, second = (statistics.median(each) for each in zip(*taken, strict=True))
        figures[f"adapters.{adapter}.{name}.cpu_us"] = round(second)
        figures[f"adapters.{adapter}.{name}.overhead"] = round(second / first - 1, 3)
    return figures
