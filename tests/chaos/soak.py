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
# How often the server's memory is looked at.
PARTS: Final = 100
# By so much it may grow in the second half of the requests, when every cache that has a bound is full or nearly.
FLAT_MIB: Final = 32
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


class Goal:
    """When it is enough: so long, and so many requests of everybody together."""

    def __init__(self, spawn: Any, seconds: float, requests: int) -> None:
        self.seconds, self.requests = seconds, requests
        self.until, self._done = time.time() + seconds, spawn.Value("q", 0)

    def count(self) -> None:
        with self._done.get_lock():
            self._done.value += 1

    @property
    def done(self) -> int:
        return int(self._done.value)

    @property
    def is_reached(self) -> bool:
        return time.time() > self.until and self.done >= self.requests


def ask(url: str, key: str, owner: int, goal: Goal, found: _Found) -> None:
    """One client: a connection that is kept, one request after the other."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    for method, path, body in requests_of(random.Random(owner), owner):
        if goal.is_reached:
            break
        began = time.perf_counter()
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
        found.append(((time.perf_counter() - began) * 1000, answer.status))
        goal.count()
    connection.close()


def crowd(url: str, keys: list[tuple[int, str]], goal: Goal, results: Any) -> None:
    """The clients of one process."""
    found: list[_Found] = [[] for _ in keys]
    threads = [
        threading.Thread(target=ask, args=(url, key, owner, goal, mine))
        for (owner, key), mine in zip(keys, found, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put([each for mine in found for each in mine])


def soak(server: Server, keys: list[tuple[int, str]], *, seconds: float, requests: int) -> tuple[_Found, list[int]]:
    """Everybody asks for so long and so often; what came of it, and the server's memory on the way."""
    spawn = multiprocessing.get_context("spawn")
    results, goal = spawn.Queue(), Goal(spawn, seconds, requests)
    shares = [keys[at::PROCESSES] for at in range(PROCESSES)]
    workers = [spawn.Process(target=crowd, args=(server.url, share, goal, results)) for share in shares if share]
    for worker in workers:
        worker.start()
    resident = [server.resident()]
    while not goal.is_reached:
        time.sleep(0.2)
        if goal.done >= len(resident) * requests / PARTS:
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
    quarters = [resident[len(resident) * part // 4 - (part > 0)] // 1_048_576 for part in range(5)]
    growth = quarters[4] - quarters[2]
    return {
        "requests": len(found),
        "per_second": round(len(found) / seconds),
        "errors": dict(Counter(wrong)),
        "p50_ms": round(p50, 2),
        "p99_ms": round(p99, 2),
        "p99_over_p50": round(p99 / p50, 1),
        # At the start, and after each quarter of the requests.
        "resident_mib": quarters,
        "growth_of_second_half_mib": growth,
        "ok": not wrong and p99 <= 10 * p50 and growth <= FLAT_MIB,
    }


def main(folder: Path, *, clients: int, minutes: float, requests: int) -> int:
    home = folder / "home"
    with Memoranda.open(home) as memoranda:
        gate = memoranda.service.gate
        keys = [(n, gate.add_key("soak", tenant=f"did:example:{n}", scopes=("read", "write"))) for n in range(clients)]
    with serving(home, MEMORANDA_EMBEDDER="off") as server:
        began = time.time()
        found, resident = soak(server, keys, seconds=minutes * 60, requests=requests)
        told = figures(found, resident, time.time() - began)
        log = home / "memoranda.db-wal"
        print(json.dumps({**told, "log_mib": log.stat().st_size // 1_048_576}, indent=2))
    return 0 if told["ok"] else 1
