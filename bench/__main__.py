"""Run the measurements: `python -m bench [--quick] [--large] [--only PART]`; `--help` names the parts.

One JSON object on standard output, progress on the other.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from bench.adapters import measure_adapters
from bench.cal import measure_cal
from bench.client import Client
from bench.console import measure_console
from bench.corpus import Corpus
from bench.fairness import measure_fairness
from bench.figures import Figures, percentile, say
from bench.frames import measure_frames
from bench.learning import measure_learning
from bench.moving import measure_moving
from bench.oams import measure_oams
from bench.oms import measure_oms
from bench.openwop import measure_openwop
from bench.quality import measure_quality
from bench.secrets import measure_secrets
from bench.served import Served, server
from bench.writers import Door, draft, writers
from memoranda import Memoranda, __version__
from memoranda.opening import owner_credential
from memoranda.service.exchange.importing import number_items
from memoranda.settings import load_settings


def fill(home: Path, corpus: Corpus) -> float:
    """Write the corpus; records a second."""
    with Memoranda.open(home) as m:
        start = time.perf_counter()
        report = m.service.import_items(m.access, number_items("ump", corpus.drafts()))
        elapsed = time.perf_counter() - start
        if report.created != corpus.size:
            raise SystemExit(f"only {report.created} of {corpus.size} were written: {report.refusals[:1]}")
        owner_credential(m.service, load_settings(home=home))
    return corpus.size / elapsed


def measure_http(home: Path, corpus: Corpus, label: str, rounds: int) -> Figures:
    with server(home) as served, Client(served.host, served.port, served.bearer) as client:
        figures: Figures = {}
        latencies, found, ids = [], 0, []
        used = served.processor_seconds()
        for query, number in corpus.questions(rounds):
            status, body, milliseconds = client.post("/ump/recall", {"query": query})
            assert status == 200, body
            results = json.loads(body)["results"]
            latencies.append(milliseconds)
            found += any(f"unique{number}" in result["record"]["body"]["text"].split() for result in results)
            ids.append(results[0]["record"]["id"])
            owner = results[0]["record"]["scope"]["owner"]
        figures[f"http.recall.{label}.server_cpu_us"] = round((served.processor_seconds() - used) / rounds * 1e6)
        figures[f"http.recall.{label}.p50_ms"] = percentile(latencies, 0.50)
        figures[f"http.recall.{label}.p95_ms"] = percentile(latencies, 0.95)
        figures[f"http.recall.{label}.hit_at_8"] = round(found / rounds, 3)
        gets = [client.get(f"/ump/memory/{quote(name, safe='')}")[2] for name in ids]
        figures[f"http.get.{label}.p50_ms"] = percentile(gets, 0.50)
        figures[f"http.get.{label}.p95_ms"] = percentile(gets, 0.95)
        figures[f"client.get.{label}.more_ms"] = _more_than(client, served, ids)
        figures |= measure_console(served, corpus, label, rounds)
        writes = []
        used = served.processor_seconds()
        start = time.perf_counter()
        for number in range(rounds * 2):
            status, body, milliseconds = client.post("/ump/remember", draft(owner, number, f"single-{label}"))
            assert status == 200, body
            writes.append(milliseconds)
        figures[f"http.remember.{label}.one_client_per_s"] = round(rounds * 2 / (time.perf_counter() - start))
        figures[f"http.remember.{label}.one_client_p50_ms"] = percentile(writes, 0.50)
        one = served.processor_seconds() - used
        figures[f"http.remember.{label}.one_client_server_cpu_us"] = round(one / rounds / 2 * 1e6)
        figures |= _eight(served, owner, f"http.remember.{label}", rounds)
    with server(home, workers=2) as served:
        figures |= _eight(served, owner, f"http.remember.{label}.two_workers", rounds)
    return figures


def _eight(served: Served, owner: str, name: str, rounds: int) -> Figures:
    written = writers([Door(*served[:3], owner)] * 8, name, rounds, served.processor_seconds)
    return {f"{name}.eight_clients_{each}": figure for each, figure in written._asdict().items()}


def _more_than(client: Client, served: Served, ids: list[str]) -> float:
    """How much longer `Memoranda.open("http://…").get` takes than the request alone, asked in turns."""
    more = []
    with Memoranda.open(f"http://{served.host}:{served.port}", key=served.bearer) as m:
        for name in ids:
            bare = client.get(f"/ump/memory/{quote(name, safe='')}")[2]
            start = time.perf_counter()
            m.get(name)
            more.append((time.perf_counter() - start) * 1000 - bare)
    return round(statistics.median(more), 3)


def measure_library(home: Path, label: str, rounds: int) -> Figures:
    opens = []
    for _ in range(5):
        start = time.perf_counter()
        m = Memoranda.open(home)
        opens.append((time.perf_counter() - start) * 1000)
        m.close()
    with Memoranda.open(home) as m:
        writes = []
        for number in range(rounds):
            start = time.perf_counter()
            m.remember(f"library memory number {number} of {label}", project="bench")
            writes.append((time.perf_counter() - start) * 1000)
    return {
        f"library.open.{label}.ms": round(statistics.median(opens), 2),
        f"library.remember.{label}.p50_ms": percentile(writes, 0.50),
    }


def machine() -> Figures:
    return {
        "memoranda": __version__,
        "python": platform.python_version(),
        "machine.cores": os.cpu_count() or 0,
        "machine.system": f"{platform.system()} {platform.machine()}",
    }


STARTS = {
    "version": ("--version",),
    "help": ("--help",),
    "help_of_one": ("get", "--help"),
    "remember": ("remember", "use pnpm, never npm"),
    "recall": ("recall", "pnpm"),
    "recall_words": ("recall", "pnpm", "--words"),
    "get": ("get", "urn:ump:aa"),
    "forget": ("forget", "urn:ump:aa"),
    "list": ("list",),
    "cal": ("cal", "RECALL beliefs LIMIT 1"),
    "export": ("export", "-"),
    "import": ("import", "-"),
    "oams": ("oams", "list"),
    "oms": ("oms", "find", "--subject", "ada"),
    "openwop": ("openwop", "list", "mem://bench"),
    "connect": ("connect", "--dry-run"),
    "config": ("config",),
    "doctor": ("doctor",),
    "hook": ("hook", "session-start"),
    "mcp": ("mcp",),
}


def start_up() -> Figures:
    """Processor time of whole commands on a small store: the least of ten, which others disturbed least."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
        for name, tokens in STARTS.items():
            command = [sys.executable, "-m", "memoranda", *tokens]
            # As after the first start: compiled, whatever the environment says about that.
            home = {**os.environ, "MEMORANDA_HOME": folder, "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled")}
            home.pop("PYTHONDONTWRITEBYTECODE", None)
            times = []
            for _ in range(10):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run(command, env=home, check=False, capture_output=True, stdin=subprocess.DEVNULL)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            figures[f"start_ms.{name}"] = round(min(times) * 1000, 1)
    return figures


def measure_ump(*, quick: bool) -> Figures:
    sizes = {"200": 200, "1k": 1_000} if quick else {"1k": 1_000, "10k": 10_000, "100k": 100_000}
    rounds = 50 if quick else 500
    figures: Figures = {}
    for label, size in sizes.items():
        with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
            home, corpus = Path(folder) / "home", Corpus(size)
            say(f"{label}: writing {size} memories")
            figures[f"import.{label}.per_s"] = round(fill(home, corpus))
            figures |= measure_library(home, label, rounds)
            say(f"{label}: measuring over HTTP")
            figures |= measure_http(home, corpus, label, rounds)
            if label == next(iter(sizes)):
                with server(home) as served:
                    figures |= measure_frames(*served[:3])
            figures[f"store.{label}.bytes_per_memory"] = round((home / "memoranda.db").stat().st_size / size)
    return figures


# Parts that have a larger size.
_LARGE = ("cal", "moving")
PARTS = {
    "ump": measure_ump,
    "oms": measure_oms,
    "cal": measure_cal,
    "oams": measure_oams,
    "openwop": measure_openwop,
    "moving": measure_moving,
    "adapters": measure_adapters,
    "quality": measure_quality,
    "secrets": measure_secrets,
    "learning": measure_learning,
    "fairness": measure_fairness,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument(
        "--large", action="store_true", help="CAL over a million grains, moving of 100,000 memories; with --only"
    )
    parser.add_argument("--only", choices=tuple(PARTS), help="one part of the measurements")
    arguments = parser.parse_args()
    figures = machine() | start_up()
    for name, measure in PARTS.items():
        if arguments.only in (None, name):
            large = {"large": True} if arguments.large and name in _LARGE else {}
            figures |= measure(quick=arguments.quick, **large)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
