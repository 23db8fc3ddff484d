"""Writers in processes of their own. A module apart, because a spawned process must be able to import it."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Barrier

from bench.client import Client

# A process that has not started by then has failed, and the others must not wait for it for ever.
START_SECONDS = 60.0


def draft(owner: str, number: int, label: str) -> dict[str, object]:
    return {
        "kind": "semantic",
        "body": {"text": f"measured {label} memory number {number} about deploys and budgets"},
        "scope": {"owner": owner, "project": "bench", "visibility": "private"},
        "provenance": {"actor": owner, "actor_kind": "agent", "method": "bench"},
    }


def eight_writers(host: str, port: int, bearer: str, owner: str, label: str, rounds: int) -> int:
    """Eight client processes at once: threads of one process would wait for each other, not for the server."""
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(9)
    arguments = (host, port, bearer, owner, rounds, start)
    workers = [spawn.Process(target=_writer, args=(f"worker-{number}-{label}", *arguments)) for number in range(8)]
    for worker in workers:
        worker.start()
    start.wait(START_SECONDS)
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    elapsed = time.perf_counter() - began
    if any(worker.exitcode for worker in workers):
        raise SystemExit("a writer failed")
    return round(8 * rounds / elapsed)


def _writer(label: str, host: str, port: int, bearer: str, owner: str, rounds: int, start: Barrier) -> None:
    with Client(host, port, bearer) as client:
        start.wait(START_SECONDS)
        for number in range(rounds):
            status, body, _ = client.post("/ump/remember", draft(owner, number, label))
            assert status == 200, body
