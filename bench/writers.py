"""Writers in processes of their own. A module apart, because a spawned process must be able to import it."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

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


class Door(NamedTuple):
    """Where a client writes, and as whom."""

    host: str
    port: int
    bearer: str
    owner: str


class Written(NamedTuple):
    """What clients write together in a second, and what of a processor their servers use for each."""

    per_s: int
    server_cpu_us: int


def writers(doors: Sequence[Door], label: str, rounds: int, used: Callable[[], float] = lambda: 0.0) -> Written:
    """So many client processes at once: threads of one process would wait for each other, not for the server.

    `used` tells the processor seconds of the servers, which is asked when all begin and when all have ended.
    """
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(len(doors) + 1)
    workers = [
        spawn.Process(target=_writer, args=(f"worker-{number}-{label}", door, rounds, start))
        for number, door in enumerate(doors)
    ]
    for worker in workers:
        worker.start()
    start.wait(START_SECONDS)
    began, used_before = time.perf_counter(), used()
    for worker in workers:
        worker.join()
    elapsed, used_meanwhile = time.perf_counter() - began, used() - used_before
    if any(worker.exitcode for worker in workers):
        raise SystemExit("a writer failed")
    count = len(doors) * rounds
    return Written(round(count / elapsed), round(used_meanwhile / count * 1e6))


def _writer(label: str, door: Door, rounds: int, start: Barrier) -> None:
    with Client(door.host, door.port, door.bearer) as client:
        start.wait(START_SECONDS)
        for number in range(rounds):
            status, body, _ = client.post("/ump/remember", draft(door.owner, number, label))
            assert status == 200, body
