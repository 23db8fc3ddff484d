"""Measure recall: `python -m bench.retrieval [--conversations FILE] [--only PART] [--large] [--quick] [--words]`.

One JSON object on standard output, progress on the other. The file of conversations may also be named by
MEMORANDA_BENCH_CONVERSATIONS; without one that part is left out.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.__main__ import machine
from bench.figures import Figures, say
from bench.retrieval.conversations import measure_conversations
from bench.retrieval.notes import measure_notes
from bench.retrieval.sizes import measure_sizes
from memoranda import Memoranda

_SIZES: Final = {"1k": 1_000, "10k": 10_000, "100k": 100_000}
_LARGE: Final = {"1m": 1_000_000}
_PARTS: Final = ("notes", "conversations", "sizes")

Opened = Callable[[Path | str], Memoranda]


def opener(*, words: bool) -> Opened:
    """How a store is opened for measuring; `words`: without an embedder, even if there is one."""
    if words:
        os.environ["MEMORANDA_EMBEDDER"] = "off"
    return Memoranda.open


def legs(opened: Opened) -> str:
    """By what a store is searched that is opened so."""
    with opened(":memory:") as m:
        meaning = m.service.context.semantic_search
        return f"words and meaning ({meaning.model})" if meaning.is_enabled else "words"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.retrieval", description=__doc__)
    named = os.environ.get("MEMORANDA_BENCH_CONVERSATIONS")
    parser.add_argument("--conversations", type=Path, default=Path(named) if named else None, metavar="FILE")
    parser.add_argument("--only", choices=_PARTS, help="one part of the measurements")
    parser.add_argument("--words", action="store_true", help="without an embedder")
    parser.add_argument("--large", action="store_true", help="also a million memories")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    return parser.parse_args()


def conversations(path: Path | None, opened: Opened) -> Figures:
    if path is None or not path.is_file():
        say("conversations: no file, left out (--conversations FILE)")
        return {"conversations.left_out": "no file was named" if path is None else "the file is not there"}
    figures: Figures = {}
    for head, recent in (("conversations", False), ("conversations.ended_yesterday", True)):
        with opened(":memory:") as m:
            figures |= measure_conversations(m, path, head, recent=recent)
    return figures


def main() -> None:
    asked = arguments()
    opened = opener(words=asked.words)
    parts = _PARTS if asked.only is None else (asked.only,)
    figures = machine() | {"legs": legs(opened)}
    if "notes" in parts:
        with opened(":memory:") as m:
            figures |= measure_notes(m)
    if "conversations" in parts:
        figures |= conversations(asked.conversations, opened)
    if "sizes" in parts:
        sizes = {"1k": 1_000} if asked.quick else {**_SIZES, **(_LARGE if asked.large else {})}
        figures |= measure_sizes(sizes, 40 if asked.quick else 400, opened)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
