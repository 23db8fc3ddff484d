"""What the parts of the measurements share."""

from __future__ import annotations

import sys

Figures = dict[str, float | str | int]


def say(text: str) -> None:
    """Progress, beside the one JSON object on standard output."""
    print(text, file=sys.stderr, flush=True)


def percentile(values: list[float], share: float) -> float:
    return round(sorted(values)[min(len(values) - 1, int(len(values) * share))], 3)
