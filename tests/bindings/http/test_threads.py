"""The hop from the event loop into a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.waiting import HANG_SECONDS

from memoranda.bindings.http.threads import CALLER_KEY, Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(2, "test-hop")
    yield threads
    threads.close()


def test_work_runs_in_a_thread_of_its_own_and_answers(threads: Threads) -> None:
    async def ask() -> tuple[str, int]:
        return await threads.run(lambda a, b: (threading.current_thread().name, a + b), 2, 3)

    assert asyncio.run(ask()) == ("test-hop_0", 5)


@pytest.mark.parametrize(("raised", "seen"), [(ValueError("no"), ValueError), (StopIteration(), RuntimeError)])
def test_whoever_waits_learns_of_a_failure(threads: Threads, raised: Exception, seen: type[Exception]) -> None:
    def fail() -> None:
        raise raised

    async def ask() -> None:
        await threads.run(fail)

    with pytest.raises(seen):
        asyncio.run(ask())


def test_there_are_as_many_threads_as_are_needed_at_once_and_no_more_than_allowed(threads: Threads) -> None:
    async def ask() -> tuple[set[str], set[str]]:
        one_by_one = {await threads.run(lambda: threading.current_thread().name) for _ in range(5)}
        both = threading.Barrier(2)

        def meet() -> str:
            both.wait(HANG_SECONDS)
            return threading.current_thread().name

        return one_by_one, set(await asyncio.gather(*(threads.run(meet) for _ in range(6))))

    assert asyncio.run(ask()) == ({"test-hop_0"}, {"test-hop_0", "test-hop_1"})


def test_who_no_longer_waits_disturbs_nobody(threads: Threads) -> None:
    async def ask() -> str:
        begun, may_end = threading.Event(), threading.Event()

        def slow() -> None:
            begun.set()
            may_end.wait(HANG_SECONDS)

        left = asyncio.ensure_future(threads.run(slow))
        await threads.run(begun.wait, HANG_SECONDS)
        left.cancel()
        may_end.set()
        return await threads.run(lambda: "served")

    assert asyncio.run(ask()) == "served"


def test_callers_take_turns_however_many_requests_one_of_them_has() -> None:
    threads = Threads(1, "test-hop")

    async def ask() -> list[str]:
        begun, may_end = threading.Event(), threading.Event()
        served: list[str] = []

        def slow() -> None:
            begun.set()
            may_end.wait(HANG_SECONDS)

        async def request(caller: str, name: str) -> None:
            CALLER_KEY.set(caller.encode())
            await threads.run(served.append, name)

        first = asyncio.ensure_future(threads.run(slow))
        await asyncio.to_thread(begun.wait, HANG_SECONDS)
        names = ["a1", "a2", "a3", "a4", "b1", "b2", "c1"]
        requests = [asyncio.ensure_future(request(name[0], name)) for name in names]
        # Every request is in its line before the thread is free.
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.gather(first, *requests)
        return served

    try:
        # The first request was handed over before the other callers came, so its caller is still ahead of them.
        assert asyncio.run(ask()) == ["a1", "b1", "a2", "c1", "b2", "a3", "a4"]
    finally:
        threads.close()


def test_one_caller_never_has_all_threads() -> None:
    threads = Threads(4, "test-hop")

    async def ask() -> str:
        begun, may_end = threading.Semaphore(0), threading.Event()

        def slow() -> None:
            begun.release()
            may_end.wait(HANG_SECONDS)

        async def request(caller: bytes, work: Callable[[], object]) -> object:
            CALLER_KEY.set(caller)
            return await threads.run(work)

        many = [asyncio.ensure_future(request(b"many", slow)) for _ in range(20)]
        for _ in range(3):
            await asyncio.to_thread(begun.acquire, timeout=HANG_SECONDS)
        other = await request(b"other", lambda: "served while the other caller's requests run")
        is_full = begun.acquire(blocking=False)
        may_end.set()
        await asyncio.gather(*many)
        return f"{other}: {is_full}"

    try:
        assert asyncio.run(ask()) == "served while the other caller's requests run: False"
    finally:
        threads.close()


def test_closing_waits_for_what_runs_and_cancels_what_nobody_began() -> None:
    threads = Threads(1, "test-hop")

    async def ask() -> bool:
        begun, may_end = threading.Event(), threading.Event()
        ended: list[bool] = []

        def slow() -> None:
            begun.set()
            may_end.wait(HANG_SECONDS)
            ended.append(True)

        running, waiting = asyncio.ensure_future(threads.run(slow)), asyncio.ensure_future(threads.run(slow))
        while not begun.is_set():
            await asyncio.sleep(0)
        threads.cancel_waiting()
        may_end.set()
        threads.close()
        assert ended == [True]
        await running
        await asyncio.wait([waiting])
        return waiting.cancelled()

    assert asyncio.run(ask())
