"""Moving in and out, by the commands that a person runs: what another system left, and files in another form."""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.corpus import Corpus
from bench.figures import Figures, say
from memoranda.encoding.didkey import SigningKey
from memoranda.encoding.json_text import dump
from memoranda.model.instant import format_instant
from memoranda.standards.ump import signature
from memoranda.standards.ump.record import fill_defaults
from memoranda.standards.ump.signature import encode_random_id

_CREATED_MS = 1_777_291_200_000
_KIB = 1_024


def measure_moving(*, quick: bool, large: bool = False) -> Figures:
    """All of it; a hundred thousand memories when large."""
    label, size = ("1k", 1_000) if quick else ("100k", 100_000) if large else ("10k", 10_000)
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
        say(f"moving: {size} memories of Mem0")
        export = Path(folder, "mem0.json")
        with export.open("wb") as file:
            # Not all at once: what this process holds when a command starts would count as that command's.
            file.write(b'{"results":[')
            file.writelines((b"," if number else b"") + dump(each) for number, each in enumerate(mem0_memories(size)))
            file.write(b"]}")
        seconds, peak = run("--data", f"{folder}/home", "import", str(export))
        figures[f"moving.mem0.import.{label}.s"] = seconds
        figures[f"moving.mem0.import.{label}.peak_mb"] = peak
        say(f"moving: {size} records to grains and back")
        records, grains, again = (Path(folder, name) for name in ("in.ndjson", "out.mg", "again.ndjson"))
        with records.open("wb") as file:
            file.writelines(dump(each) + b"\n" for each in signed_records(size))
        there, there_peak = run("convert", str(records), str(grains))
        back, back_peak = run("convert", str(grains), str(again))
        if not filecmp.cmp(again, records, shallow=False):
            raise SystemExit("what came back is not what was given")
        figures[f"moving.convert.ump_to_mg.{label}.s"] = there
        figures[f"moving.convert.mg_to_ump.{label}.s"] = back
        figures[f"moving.convert.both.{label}.s"] = round(there + back, 2)
        figures[f"moving.convert.{label}.peak_mb"] = max(there_peak, back_peak)
    return figures


def run(*tokens: str) -> tuple[float, int]:
    """How long a command takes, in seconds, and the most memory it held, in MB."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "memoranda", *tokens], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    # It was waited for here.
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"memoranda {' '.join(tokens)} failed")
    return round(time.perf_counter() - start, 2), used.ru_maxrss // _KIB


def mem0_memories(count: int) -> Iterator[dict[str, Any]]:
    """Such as `get_all` answers."""
    corpus = Corpus(count)
    for number in range(count):
        at = format_instant(_CREATED_MS + 1_000 * number)
        yield {
            "id": f"{number:08x}-0000-4000-8000-000000000000",
            "memory": corpus.text(number),
            "hash": f"{number:032x}",
            "metadata": {"category": f"topic-{number % 20}"},
            "categories": [f"topic-{number % 20}"],
            "created_at": at,
            "updated_at": at,
            "user_id": f"user-{number % 50}",
        }


def signed_records(count: int) -> Iterator[object]:
    """Such as `memoranda export` writes."""
    key = SigningKey(bytes(32))
    for number, draft in enumerate(Corpus(count).drafts()):
        said: Any = {
            **draft,
            "scope": {**draft["scope"], "owner": key.did},
            "provenance": {"actor": key.did, "actor_kind": "user", "method": "asserted"},
        }
        record = fill_defaults(said, now=_CREATED_MS + number, version="0.1")
        record["id"] = encode_random_id(number.to_bytes(16, "big"))
        yield signature.sign(record, key)
