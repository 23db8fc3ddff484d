"""What became of questions, and figures of that: recall, reciprocal rank, intervals, and silence where it is right."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bench.figures import Figures, percentile
from memoranda import Memoranda

# As often questions are drawn anew for an interval.
_DRAWS: Final = 1_000
_SEED: Final = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question that was asked: what answers it, what was found, best first, and how long that took."""

    wanted: tuple[str, ...]
    found: tuple[str, ...]
    milliseconds: float
    # What it is counted under: a category, a language, a conversation.
    groups: tuple[str, ...] = ()

    @property
    def recall(self) -> float:
        """The share of its answers that was found."""
        return sum(each in self.found for each in self.wanted) / len(self.wanted)

    @property
    def reciprocal_rank(self) -> float:
        return next((1.0 / rank for rank, each in enumerate(self.found, 1) if each in self.wanted), 0.0)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Between what the mean lies, 95 times of a hundred, if the questions were others of their kind."""
    rng = random.Random(_SEED)
    means = sorted(mean(rng.choices(values, k=len(values))) for _ in range(_DRAWS))
    return means[_DRAWS // 40], means[-_DRAWS // 40]


def figures_of(head: str, asked: Sequence[Asked]) -> Figures:
    """Recall and reciprocal rank of all, with intervals, and of each group; latencies."""
    answerable = [each for each in asked if each.wanted]
    recalls, ranks = [each.recall for each in answerable], [each.reciprocal_rank for each in answerable]
    figures: Figures = {f"{head}.questions": len(answerable)}
    if not answerable:
        return figures
    for name, values in (("recall_at_10", recalls), ("mrr", ranks)):
        low, high = interval(values)
        figures[f"{head}.{name}"] = round(mean(values), 4)
        figures[f"{head}.{name}.low"] = round(low, 4)
        figures[f"{head}.{name}.high"] = round(high, 4)
    for group in sorted({name for each in answerable for name in each.groups}):
        of_group = [each for each in answerable if group in each.groups]
        figures[f"{head}.{group}.questions"] = len(of_group)
        figures[f"{head}.{group}.recall_at_10"] = round(mean([each.recall for each in of_group]), 4)
        figures[f"{head}.{group}.mrr"] = round(mean([each.reciprocal_rank for each in of_group]), 4)
    return figures | latencies(head, [each.milliseconds for each in asked])


def silence(head: str, asked: Iterable[Asked]) -> Figures:
    """Precision and recall of "nothing here answers it"."""
    everything = list(asked)
    silent = [each for each in everything if not each.found]
    unanswerable = [each for each in everything if not each.wanted]
    right = sum(not each.wanted for each in silent)
    return {
        f"{head}.nothing.questions": len(unanswerable),
        f"{head}.nothing.precision": round(right / len(silent), 4) if silent else 1.0,
        f"{head}.nothing.recall": round(right / len(unanswerable), 4) if unanswerable else 1.0,
    }


def finish(m: Memoranda) -> None:
    """Make the vectors of everything that was written, where there is a model: what is measured is what is found."""
    if m.service.context.semantic_search.is_enabled:
        while m.service.embedding.step():
            pass


class Taken(NamedTuple):
    """How long something took: by the clock, and of the processor, which a busy machine does not change."""

    clock_ms: float
    processor_ms: float


class Watch:
    """Starts when it is made."""

    def __init__(self) -> None:
        self._clock, self._processor = time.perf_counter(), time.thread_time()

    def stop(self) -> Taken:
        clock, processor = time.perf_counter() - self._clock, time.thread_time() - self._processor
        return Taken(clock * 1000, processor * 1000)


def times(head: str, taken: Sequence[Taken]) -> Figures:
    processor = [each.processor_ms for each in taken]
    return {
        **latencies(head, [each.clock_ms for each in taken]),
        f"{head}.cpu.p50_ms": percentile(processor, 0.50),
        f"{head}.cpu.p99_ms": percentile(processor, 0.99),
    }


def latencies(head: str, milliseconds: list[float]) -> Figures:
    return {f"{head}.p50_ms": percentile(milliseconds, 0.50), f"{head}.p99_ms": percentile(milliseconds, 0.99)}


def spread(head: str, names: Sequence[str], of: Callable[[str], Sequence[Asked]]) -> Figures:
    """The least and the most of recall when one group after the other is left out."""
    without = [mean([each.recall for other in names if other != name for each in of(other)]) for name in names]
    return {
        f"{head}.leave_one_out.least": round(min(without), 4),
        f"{head}.leave_one_out.most": round(max(without), 4),
    }
