"""Measure the writes of one owner alone, and beside another owner who writes with 64 clients."""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from bench.client import Client
from bench.figures import Figures, percentile
from bench.served import Served, server
from bench.writers import Door, draft
from memoranda import Memoranda

CLIENTS: Final = 64
_OTHER: Final = "did:example:other"


def measure_fairness(*, quick: bool) -> Figures:
    """Write as one owner alone, and then beside another one with many clients."""
    rounds = 20 if quick else 200
    with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
        home = Path(folder)
        with server(home) as served:
            with Memoranda.open(home) as m:
                owner = m.owner
                key = m.service.gate.add_key("other", tenant=_OTHER, scopes=("read", "write"))
            door = Door(*served[:3], owner)
            alone = _write(door, "alone", rounds)
            spawn = multiprocessing.get_context("spawn")
            is_full, may_end = spawn.Event(), spawn.Event()
            crowd = spawn.Process(target=_crowd, args=(_other_door(served, key), is_full, may_end))
            crowd.start()
            is_full.wait()
            beside = _write(door, "beside", rounds)
            may_end.set()
            crowd.join()
    return {
        "http.remember.fairness.alone_p50_ms": percentile(alone, 0.50),
        "http.remember.fairness.beside_64_clients_p50_ms": percentile(beside, 0.50),
        "http.remember.fairness.ratio": round(percentile(beside, 0.50) / percentile(alone, 0.50), 1),
    }


def _other_door(served: Served, key: str) -> Door:
    return Door(served.host, served.port, key, _OTHER)


def _write(door: Door, label: str, rounds: int) -> list[float]:
    """Return the milliseconds of each write of one client."""
    with Client(door.host, door.port, door.bearer) as client:
        return [_checked(client.post("/ump/remember", draft(door.owner, number, label))) for number in range(rounds)]


def _checked(answer: tuple[int, bytes, float]) -> float:
    status, body, milliseconds = answer
    assert status == 200, body
    return milliseconds


def _crowd(door: Door, is_full: Event, may_end: Event) -> None:
    """Write with many clients until told to end; `is_full` is set when each of them has written."""
    first_writes = threading.Barrier(CLIENTS + 1)

    def write(number: int) -> None:
        with Client(door.host, door.port, door.bearer) as client:
            count = 0
            while not may_end.is_set():
                client.post("/ump/remember", draft(door.owner, count, f"crowd-{number}"))
                if not count:
                    first_writes.wait()
                count += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    first_writes.wait()
    is_full.set()
    for thread in threads:
        thread.join()
