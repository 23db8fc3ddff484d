"""What an adapter adds to the calls that it makes: processor time of both, taken in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import count

from bench.figures import Figures, say
from memoranda import Memoranda
from memoranda.adapters.langgraph import MemorandaStore

_CALLS = 20
_PLACE = ("users", "ada")
_NAMESPACE = "users.ada"


def _microseconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    for _ in range(_CALLS):
        call()
    return (time.process_time() - start) / _CALLS * 1e6


def measure_adapters(*, quick: bool) -> Figures:
    """LangGraph's store beside the memory that it stands on."""
    say("adapters: LangGraph")
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

        pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "get": (lambda: memories.get("k1", namespace=_NAMESPACE), lambda: store.get(_PLACE, "k1")),
            "search": (
                lambda: memories.recall("tea 7", namespace=_NAMESPACE, k=5),
                lambda: store.search(_PLACE, query="tea 7", limit=5),
            ),
            "put": (direct_put, lambda: store.put(_PLACE, f"a{next(numbers)}", {"text": "Ada takes tea"})),
        }
        for name, (direct, adapted) in pairs.items():
            taken = [(_microseconds(direct), _microseconds(adapted)) for _ in range(5 if quick else 50)]
            first, second = (statistics.median(each) for each in zip(*taken, strict=True))
            figures[f"adapters.langgraph.{name}.cpu_us"] = round(second)
            figures[f"adapters.langgraph.{name}.overhead"] = round(second / first - 1, 3)
    return figures
