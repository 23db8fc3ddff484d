"""Many clients at once and no faults: that there is no error, how long answers take, and that memory stays flat."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bench.writers import draft

from memoranda.app import Memoranda
from tests.bindings.http.process import Server, serving

PROCESSES: Final = 4
_Found = list[tuple[float, int]]
_WORDS: Final = ("deploy", "budget", "garden", "invoice", "holiday", "database", "meeting", "recipe")


def requests_of(rng: random.Random, owner: int) -> Iterator[tuple[str, str, Any]]:
    """What a client asks, without end: four reads for each write, through all standards."""
    number = 0
    # A namespace of OAMS is not there before something is.
    yield "PUT", "/v1/oams/memories/user%3Asoak/first", {"value": "first"}
    while True:
        number += 1
        word = rng.choice(_WORDS)
        text = f"{word} note {rng.randrange(10_000)} of client {owner}"
        writes = (
            ("POST", "/ump/remember", draft(f"did:example:{owner}", rng.randrange(10_000), word)),
            ("PUT", f"/v1/oams/memories/user%3Asoak/k{rng.randrange(200)}", {"value": text}),
            ("POST", "/v1/memory/soak", {"content": text}),
        )
        reads = (
            ("POST", "/ump/recall", {"query": word, "limit": 5}),
            ("GET", "/v1/memory/soak?limit=10", None),
            ("POST", "/oms/grains/search", {"text": word, "limit": 5}),
            ("POST", "/cal", {"query": f'RECALL LIKE "{word}" LIMIT 5', "namespace": "soak"}),
            ("GET", "/v1/oams/memories/user%3Asoak?limit=10", None),
        )
        yield rng.choice(reads) if number % 5 else rng.choice(writes)


def ask(url: str, key: str, owner: int, until: float, found: _Found) -> None:
    """One client: a connection that is kept, one request after the other."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    for method, path, body in requests_of(random.Random(owner), owner):
        if time.time() > until:
            break
        began = time.perf_counter()
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
        found.append(((time.perf_counter() - began) * 1000, answer.status))
    connection.close()


def crowd(url: str, keys: list[tuple[int, str]], until: float, results: Any) -> None:
    """The clients of one process."""
    found: list[_Found] = [[] for _ in keys]
    threads = [
        threading.Thread(target=ask, args=(url, key, owner, until, mine))
        for (owner, key), mine in zip(keys, found, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put([each for mine in found for each in mine])


def soak(server: Server, keys: list[tuple[int, str]], seconds: float) -> tuple[_Found, list[int]]:
    """Everybody asks for so long; what came of it, and the server's memory on the way."""
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    until = time.time() + seconds
    shares = [keys[at::PROCESSES] for at in range(PROCESSES)]
    workers = [spawn.Process(target=crowd, args=(server.url, share, until, results)) for share in shares if share]
    for worker in workers:
        worker.start()
    resident = []
    while time.time() < until:
        time.sleep(min(5.0, seconds / 10))
        resident.append(server.resident())
    found = [each for _ in workers for each in results.get(timeout=300)]
    for worker in workers:
        worker.join()
    return found, resident


def figures(found: _Found, resident: list[int], seconds: float) -> dict[str, object]:
    """What was measured, and whether it is as it must be."""
    times = sorted(each for each, _ in found)
    p50, p99 = statistics.median(times), times[int(len(times) * 0.99)]
    wrong = [status for _, status in found if status >= 300]
    half = resident[len(resident) // 2 :]
    return {
        "requests": len(found),
        "per_second": round(len(found) / seconds),
        "errors": dict(Counter(wrong)),
        "p50_ms": round(p50, 2),
        "p99_ms": round(p99, 2),
        "p99_over_p50": round(p99 / p50, 1),
        "resident_mib": [each // 1_048_576 for each in resident[:: max(1, len(resident) // 12)]],
        "growth_of_second_half_mib": (half[-1] - half[0]) // 1_048_576,
        "ok": not wrong and p99 <= 10 * p50,
    }


def main(folder: Path, *, clients: int, minutes: float, requests: int) -> int:
    home = folder / "home"
    with Memoranda.open(home) as memoranda:
        gate = memoranda.service.gate
        keys = [(n, gate.add_key("soak", tenant=f"did:example:{n}", scopes=("read", "write"))) for n in range(clients)]
    with serving(home, MEMORANDA_EMBEDDER="off") as server:
        first, resident = soak(server, keys, minutes * 60)
        print(json.dumps(figures(first, resident, minutes * 60), indent=2), flush=True)
        found, more = list(first), list(resident)
        while len(found) < requests:
            again, beyond = soak(server, keys, minutes * 60)
            found, more = found + again, more + beyond
        if len(found) > len(first):
            print(json.dumps(figures(found, more, minutes * 60 * len(found) / len(first)), indent=2))
    return 0 if figures(first, resident, 1)["ok"] else 1
