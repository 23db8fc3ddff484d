"""One store, several processes: what one has written the others read, and two never write the same thing twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memoranda.app import Memoranda
from memoranda.storage.sqlite.database import WATCH_SECONDS
from tests.proofs.store import processes
from tests.proofs.writers import TENANTS, answer_questions, remember_at_once, revise_at_once
from tests.waiting import HANG_SECONDS

PROCESSES = 8


def _at_once(target: Any, arguments: list[tuple[Any, ...]]) -> list[tuple[str, str]]:
    """What several processes give back that do something at the same moment."""
    context = processes()
    start = context.Barrier(len(arguments))
    results = context.Queue()
    running = [context.Process(target=target, args=(*each, start, results)) for each in arguments]
    for process in running:
        process.start()
    answers = [results.get(timeout=HANG_SECONDS) for _ in running]
    for process in running:
        process.join(HANG_SECONDS)
        assert process.exitcode == 0
        process.close()
    results.close()
    results.join_thread()
    return answers


def test_the_same_text_from_many_processes_is_one_memory(tmp_path: Path) -> None:
    answers = _at_once(remember_at_once, [(tmp_path, "the river is wide")] * PROCESSES)
    assert len({name for name, _ in answers}) == 1
    assert Counter(result for _, result in answers) == {"created": 1, "merged": PROCESSES - 1}
    with Memoranda.open(tmp_path, owner=TENANTS[0]) as memory:
        (found,) = memory.recall("river")
        assert found.record["lifecycle"]["confidence"] == 1
        assert len(memory.history(found.record["id"])) == PROCESSES
        assert memory.verify().ok


def test_of_many_revisions_of_one_memory_exactly_one_wins(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path, owner=TENANTS[0]) as memory:
        name = memory.remember("the first wording").id
    answers = dict(_at_once(revise_at_once, [(tmp_path, name, f"wording {n}") for n in range(PROCESSES)]))
    ((text, winner),) = [each for each in answers.items() if not each[1].startswith("conflict")]
    lost = {answer for answer in answers.values() if answer != winner}
    assert lost == {f"conflict: id: already superseded by {winner}; revise that one"}
    with Memoranda.open(tmp_path, owner=TENANTS[0]) as memory:
        assert memory.get(winner).text == text
        assert memory.get(name).record["superseded_by"] == [winner]
        assert [found.record["id"] for found in memory.recall("wording")] == [winner]
        assert len(memory.history(name)) == 2
        assert memory.verify().ok


class Peer:
    """Another process with the same store open."""

    def __init__(self, home: Path) -> None:
        context = processes()
        self._questions: Any = context.Queue()
        self._answers: Any = context.Queue()
        self._process = context.Process(target=answer_questions, args=(home, self._questions, self._answers))
        self._process.start()

    def ask(self, verb: str, text: str) -> list[str]:
        self._questions.put((verb, text))
        answer: list[str] = self._answers.get(timeout=HANG_SECONDS)
        return answer

    def close(self) -> None:
        self._questions.put(("", ""))
        self._process.join(HANG_SECONDS)
        assert self._process.exitcode == 0
        self._process.close()
        for channel in (self._questions, self._answers):
            channel.close()
            channel.join_thread()


@contextmanager
def peers(home: Path, count: int) -> Iterator[list[Peer]]:
    found = [Peer(home) for _ in range(count)]
    try:
        yield found
    finally:
        for peer in found:
            peer.close()


def test_what_one_has_written_every_other_reads_at_once(tmp_path: Path) -> None:
    with (
        Memoranda.open(tmp_path, owner=TENANTS[0]) as memory,
        # A second service of this process, used by another thread.
        Memoranda.open(tmp_path, owner=TENANTS[0]) as beside,
        peers(tmp_path, 2) as (one, two),
    ):
        for number in range(10):
            said = [f"apple{number}{who}" for who in "abcd"]
            one.ask("remember", said[0])
            two.ask("remember", said[1])
            memory.remember(said[2])
            thread = threading.Thread(target=beside.remember, args=(said[3],))
            thread.start()
            thread.join()
            for text in said:
                found = [local.recall(text)[0].record["body"]["text"] for local in (memory, beside)]
                assert [one.ask("recall", text)[0], two.ask("recall", text)[0], *found] == [text] * 4


def test_a_write_in_another_process_is_noticed(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path, owner=TENANTS[0]) as memory, peers(tmp_path, 1) as (peer,):
        peer.ask("recall", "anything")
        memory.service.audit(memory.access, {})
        for number in range(5):
            rung = threading.Event()
            # Registered, and at once written: nothing after `listen` may be missed.
            stop = memory.service.notifier.listen(rung.set)
            end = memory.service.feed_end(memory.access, {})
            (name,) = peer.ask("remember", f"news {number}")
            seen: list[str] = []
            while name not in seen and rung.wait(HANG_SECONDS):
                rung.clear()
                seen = [event.id for event in memory.service.changes(memory.access, {}, end).events]
            stop()
            assert seen == [name]
        # How soon: it looks this often, whatever else the machine does.
        assert WATCH_SECONDS <= 1
