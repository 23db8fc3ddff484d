"""Many writers of one key, and a process that dies in the middle of a batch."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from memoranda.app import Memoranda
from memoranda.errors import MemoryNotFound, VersionMismatch
from memoranda.model.memory import Version
from memoranda.service.service import Service
from memoranda.standards.oams import mapping
from memoranda.standards.oams.namespace import namespace_of, parse_namespace
from memoranda.standards.oams.requests import ListRequest
from memoranda.standards.port import load
from tests.proofs.store import opened, processes
from tests.service.oams_verbs import Oams
from tests.service.world import World
from tests.storage.contract import everything
from tests.waiting import HANG_SECONDS, until

OWNER = "did:example:ada"
NAMESPACE = namespace_of("", OWNER)
THREADS, PROCESSES, ROUNDS = 8, 4, 6
BATCH, KILLS = 800, 4


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What several threads give back that do something at the same moment."""
    start = threading.Barrier(count)
    results: list[Any] = [None] * count

    def run(number: int) -> None:
        start.wait(HANG_SECONDS)
        results[number] = work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    return results


def versions(service: Service, tenant: str) -> list[Version]:
    """Everything that was ever written, oldest first."""
    with service._context.engine.open_snapshot(tenant) as snapshot:
        return everything(snapshot)


def check_history(service: Service, tenant: str, count: int) -> list[str]:
    """One memory of so many versions, each closed by the next, their times in order; what they said."""
    found = versions(service, tenant)
    assert len(found) == count
    assert len({version.memory_id for version in found}) == 1
    told = [load(version.document.native) for version in found]
    assert len({memory["created_at"] for memory in told}) == 1
    times = [memory["updated_at"] for memory in told]
    assert times == sorted(set(times))
    assert [version.state.is_head for version in found] == [False] * (count - 1) + [True]
    assert all(version.document.standard == mapping.STANDARD for version in found)
    return [memory["value"] for memory in told]


@pytest.mark.requirement("OAMS-2-key-unique")
def test_of_many_threads_every_version_is_kept_and_none_twice(world: World) -> None:
    oams = Oams(world)
    results = at_once(THREADS, lambda number: [oams.store("k", f"{number} {n}").result for n in range(ROUNDS)])
    counted = Counter(result for each in results for result in each)
    assert counted == {"created": 1, "updated": THREADS * ROUNDS - 1}
    said = check_history(world.service, world.owner.default_tenant, THREADS * ROUNDS)
    for number in range(THREADS):
        mine = [text for text in said if text.startswith(f"{number} ")]
        assert mine == [f"{number} {n}" for n in range(ROUNDS)]
    assert [memory["value"] for memory in oams.listed()] == said[-1:]


@pytest.mark.requirement("OAMS-OURS-concurrent")
def test_with_if_match_no_update_of_any_thread_is_lost(world: World) -> None:
    oams = Oams(world)
    oams.store("k", "0")

    def count(_: int) -> int:
        return add(world.service, world.owner, oams.namespace, ROUNDS)

    at_once(THREADS, count)
    assert oams.get("k")["value"] == str(THREADS * ROUNDS)
    said = check_history(world.service, world.owner.default_tenant, THREADS * ROUNDS + 1)
    assert said == [str(number) for number in range(THREADS * ROUNDS + 1)]


def add(service: Service, access: Any, namespace: str, times: int) -> int:
    """Read, add one, write what was read and nothing else; how often someone else was first."""
    lost = 0
    for _ in range(times):
        while True:
            seen = service.oams.get(access, parse_namespace(namespace), "k")
            memory = {"key": "k", "namespace": namespace, "value": str(int(seen.memory["value"]) + 1)}
            try:
                service.oams.store(access, memory, if_match=f'"{seen.etag}"')
                break
            except VersionMismatch:
                lost += 1
    return lost


@pytest.mark.requirement("OAMS-OURS-concurrent")
def test_of_many_who_want_to_be_first_one_is(world: World) -> None:
    oams = Oams(world)

    def store(number: int) -> str:
        try:
            return oams.store("k", str(number), if_absent=True).result
        except VersionMismatch:
            return "refused"

    assert Counter(at_once(THREADS, store)) == {"created": 1, "refused": THREADS - 1}
    check_history(world.service, world.owner.default_tenant, 1)


def test_readers_and_forgetters_between_writers_see_whole_memories(world: World) -> None:
    oams = Oams(world)
    oams.store("other")

    def work(number: int) -> int:
        seen = 0
        for n in range(ROUNDS):
            if number % 4 == 0:
                seen += sum(memory["value"] == memory["metadata"]["same"] for memory in oams.listed(tags=["t"]))
            elif number % 4 == 1:
                with suppress(MemoryNotFound):
                    oams.forget("k")
            else:
                value = f"{number} {n}"
                oams.store("k", value, tags=["t"], metadata={"same": value})
        return seen

    at_once(THREADS, work)
    assert oams.listed_keys() in (["k", "other"], ["other"])
    with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
        assert snapshot.measure_usage()[0] == len(oams.listed())
    assert world.service.verify(world.owner).ok


def add_at_once(home: Path, start: Barrier, results: Queue[int]) -> None:
    """Count together with other processes."""
    with Memoranda.open(home, owner=OWNER) as memory:
        start.wait(HANG_SECONDS)
        results.put(add(memory.service, memory.access, NAMESPACE, ROUNDS))


@pytest.mark.requirement("OAMS-OURS-concurrent")
@pytest.mark.sqlite
def test_with_if_match_no_update_of_any_process_is_lost(tmp_path: Path) -> None:
    context = processes()
    with Memoranda.open(tmp_path, owner=OWNER) as memory:
        memory.service.oams.store(memory.access, {"key": "k", "namespace": NAMESPACE, "value": "0"})
        start, results = context.Barrier(PROCESSES), context.Queue()
        running = [context.Process(target=add_at_once, args=(tmp_path, start, results)) for _ in range(PROCESSES)]
        for process in running:
            process.start()
        for process in running:
            process.join(HANG_SECONDS)
            assert process.exitcode == 0
            process.close()
        results.close()
        results.join_thread()
        said = check_history(memory.service, OWNER, PROCESSES * ROUNDS + 1)
        assert said == [str(number) for number in range(PROCESSES * ROUNDS + 1)]
        assert memory.verify().ok


# --- dying in the middle -----------------------------------------------------------------------------------


def store_batches_for_ever(home: Path, notes: Path, seed: int) -> None:
    """Batch after batch, over the same keys, and a note of each that was acknowledged."""
    # Not buffered: what was acknowledged is with the kernel, which survives us.
    descriptor = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with Memoranda.open(home, owner=OWNER) as memory:
        number = 0
        while True:
            number += 1
            value = f"{seed:03} {number:06}"
            batch = [{"key": f"k{n}", "namespace": NAMESPACE, "value": value} for n in range(BATCH)]
            os.write(descriptor, b"?")
            memory.service.oams.batch_store(memory.access, batch)
            os.write(descriptor, f"{value}\n".encode())


@pytest.mark.requirement("OAMS-3-batch-atomic")
def test_a_batch_is_all_there_or_not_at_all_when_the_process_dies(tmp_path: Path) -> None:
    home, chance = tmp_path / "home", random.Random(7)
    home.mkdir(mode=0o700)
    for seed in range(KILLS):
        notes = tmp_path / f"{seed}.acks"
        process = processes().Process(target=store_batches_for_ever, args=(home, notes, seed))
        process.start()
        # The first one of all is killed before anything was acknowledged.
        mark = b"?" if seed == 0 else b"\n"
        until(lambda notes=notes, mark=mark: notes.exists() and mark in notes.read_bytes(), "a batch is under way")  # type: ignore[misc]
        # The random moment is the experiment itself, not a way to wait for something.
        time.sleep(chance.uniform(0.0, 0.2))
        process.kill()
        process.join()
        process.close()
        acknowledged = [line.strip("?") for line in notes.read_text().splitlines()]
        with opened(home) as store:
            _check_whole(store.service, [value for value in acknowledged if value])


def _check_whole(service: Service, acknowledged: list[str]) -> None:
    """Every key has the same value, which is the last that was acknowledged or the one under way."""
    access = service.gate.local(OWNER)
    if not versions(service, OWNER):
        assert not acknowledged
        return
    found: Counter[str] = Counter()
    cursor: str | None = None
    while True:
        asked = ListRequest(namespace=parse_namespace(NAMESPACE), cursor=cursor, requested_limit=500)
        page = service.oams.list_memories(access, asked)
        found.update(memory["value"] for memory in page.memories)
        cursor = page.next_cursor
        if cursor is None:
            break
    ((value, count),) = found.items()
    assert count == BATCH
    assert not acknowledged or value >= acknowledged[-1]
    report = service.verify(access)
    assert report.ok, report
