"""OMS: the codec on one core, `.mg` files, and grains in the store."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.corpus import Corpus
from bench.figures import Figures, percentile, say
from memoranda import Memoranda
from memoranda.service.exchange.importing import number_items
from memoranda.standards.oms.container import ContainerWriter
from memoranda.standards.oms.container_reader import ContainerReader
from memoranda.standards.oms.grains import Grain, decode, encode

_CREATED_AT = 1768471200000
_AUTHOR = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"


def measure_oms(*, quick: bool) -> Figures:
    """All of it; small sizes when quick."""
    beliefs = typical_beliefs(2_000 if quick else 20_000)
    file_label, file_size = ("2k", 2_000) if quick else ("100k", 100_000)
    say("oms: codec")
    figures = measure_codec(beliefs)
    say(f"oms: .mg files of {file_size} grains")
    grains = [encode(fields) for fields in typical_beliefs(file_size)]
    with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
        figures |= measure_file(Path(folder), grains, file_label, compress=False)
        figures |= measure_file(Path(folder), grains, file_label, compress=True)
        say("oms: grains in the store")
        figures |= measure_store(Path(folder), beliefs[: 500 if quick else 5_000])
        figures |= measure_exchange(Path(folder), grains[: 1_000 if quick else 20_000])
    return figures


def typical_beliefs(count: int) -> list[dict[str, Any]]:
    """Beliefs such as agents write them: a sentence as object, eleven fields, about 300 bytes, of twenty users."""
    corpus = Corpus(count)
    return [
        {
            "type": "belief",
            "subject": f"user-{number % 997}",
            "relation": "prefers" if number % 3 else "works_on",
            "object": corpus.text(number),
            "confidence": 0.5 + (number % 50) / 100,
            "source_type": "user_explicit",
            "created_at": _CREATED_AT + 1000 * number,
            "namespace": "bench",
            "user_id": f"user-{number % 20}",
            "author_did": _AUTHOR,
            "structural_tags": ["bench", f"topic-{number % 20}"],
        }
        for number in range(count)
    ]


def measure_codec(beliefs: list[dict[str, Any]]) -> Figures:
    """CPU time on one core, best of five rounds: the machine may be doing other things too."""
    grains = [encode(fields) for fields in beliefs]
    encoding, decoding = [], []
    for _ in range(5):
        start = time.process_time()
        for fields in beliefs:
            encode(fields)
        encoding.append(time.process_time() - start)
        start = time.process_time()
        for grain in grains:
            decode(grain.blob, address=grain.address)
        decoding.append(time.process_time() - start)
    return {
        "oms.encode_hash.per_s": round(len(beliefs) / min(encoding)),
        "oms.decode_verify.per_s": round(len(beliefs) / min(decoding)),
        "oms.grain.bytes": round(statistics.mean(len(grain.blob) for grain in grains)),
    }


def measure_file(folder: Path, grains: list[Grain], label: str, *, compress: bool) -> Figures:
    """Write a file, verify it, and find single grains in it, each time from a closed file."""
    name = f"oms.mg.{label}.compressed" if compress else f"oms.mg.{label}"
    path = folder / "bench.mg"
    start = time.perf_counter()
    with path.open("wb") as out, tempfile.TemporaryFile() as spool:
        writer = ContainerWriter(out, spool, compress=compress)
        for grain in grains:
            writer.append(grain)
        writer.finish()
    write_s = time.perf_counter() - start
    start = time.perf_counter()
    with path.open("rb") as file:
        ContainerReader(file).verify()
    verify_s = time.perf_counter() - start
    finds = []
    for grain in random.Random(5).sample(grains, 50):
        start = time.perf_counter()
        with path.open("rb") as file:
            found = ContainerReader(file).find(grain.address)
        finds.append((time.perf_counter() - start) * 1000)
        assert found == grain
    return {
        f"{name}.write_s": round(write_s, 3),
        f"{name}.verify_s": round(verify_s, 3),
        f"{name}.open_find_ms": percentile(finds, 0.50),
        # In a compressed file it depends on where the grain lies: all before it must be unfolded.
        f"{name}.open_find_p95_ms": percentile(finds, 0.95),
        f"{name}.bytes_per_grain": round(path.stat().st_size / len(grains)),
    }


def measure_store(folder: Path, beliefs: list[dict[str, Any]]) -> Figures:
    """One client in process; every put is durable when it returns."""
    with Memoranda.open(folder / "home") as m:
        start = time.perf_counter()
        addresses = [m.service.grains.put(m.access, fields).address for fields in beliefs]
        put_s = time.perf_counter() - start
        gets = []
        for address in random.Random(5).choices(addresses, k=500):
            start = time.perf_counter()
            m.service.grains.get(m.access, address)
            gets.append((time.perf_counter() - start) * 1000)
    return {
        "oms.put.per_s": round(len(beliefs) / put_s),
        "oms.get.p50_ms": percentile(gets, 0.50),
        "oms.get.p95_ms": percentile(gets, 0.95),
    }


def measure_exchange(folder: Path, grains: Iterable[Grain]) -> Figures:
    """From an `.mg` file into a store, and from the store into another file."""
    source, copy = folder / "in.mg", folder / "out.mg"
    with source.open("wb") as out, tempfile.TemporaryFile() as spool:
        writer = ContainerWriter(out, spool)
        for grain in grains:
            writer.append(grain)
        count = writer.finish().count
    with Memoranda.open(folder / "exchange") as m:
        with source.open("rb") as file:
            reader = ContainerReader(file)
            start = time.perf_counter()
            report = m.service.import_items(m.access, number_items("oms", reader.deliveries()))
            import_s = time.perf_counter() - start
        assert report.created == count, report.refusals[:1]
        start = time.perf_counter()
        with copy.open("wb") as out, tempfile.TemporaryFile() as spool:
            writer = ContainerWriter(out, spool)
            for delivery, state in m.service.grains.export(m.access):
                writer.append(delivery, state)
            written = writer.finish()
        export_s = time.perf_counter() - start
    assert written.count == count
    return {"oms.import_mg.per_s": round(count / import_s), "oms.export_mg.per_s": round(count / export_s)}
