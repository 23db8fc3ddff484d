"""Measure recall: `python -m bench.retrieval [--conversations FILE] [--paragraphs FOLDER] [--only PART] [--quick] …`.

Writes one JSON object to standard output, and progress to standard error. MEMORANDA_BENCH_CONVERSATIONS and
MEMORANDA_BENCH_PARAGRAPHS also name the file of conversations and the folder of XQuAD; without them these parts are
left out.
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
from bench.retrieval.table import measure_paragraphs, measure_table
from memoranda import Memoranda

_SIZES: Final = {"1k": 1_000, "10k": 10_000, "100k": 100_000}
_LARGE: Final = {"1m": 1_000_000}
_PARTS: Final = ("table", "notes", "paragraphs", "conversations", "sizes")
# One question in so many of each paragraph, in the short form.
_QUICK_SHARE: Final = 5

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
    folder = os.environ.get("MEMORANDA_BENCH_PARAGRAPHS")
    parser.add_argument("--paragraphs", type=Path, default=Path(folder) if folder else None, metavar="FOLDER")
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
    if "table" in parts:
        figures |= measure_table(opened)
    if "paragraphs" in parts:
        if asked.paragraphs is None or not asked.paragraphs.is_dir():
            say("paragraphs: no folder, left out (--paragraphs FOLDER)")
        else:
            share = _QUICK_SHARE if asked.quick else 1
            figures |= measure_paragraphs(opened, asked.paragraphs, share=share)
    if "conversations" in parts:
        figures |= conversations(asked.conversations, opened)
    if "sizes" in parts:
        sizes = {"1k": 1_000} if asked.quick else {**_SIZES, **(_LARGE if asked.large else {})}
        figures |= measure_sizes(sizes, 40 if asked.quick else 400, opened)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
