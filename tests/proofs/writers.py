"""Processes that write until they are killed, and note every acknowledgement they got."""

from __future__ import annotations

import os
import random
import threading
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from memoranda.app import Memoranda
from memoranda.errors import Conflict
from memoranda.storage.sqlite.database import SqliteDatabase
from tests.proofs.ledger import Ack, Op, digest
from tests.proofs.store import DATABASE_FILE
from tests.waiting import HANG_SECONDS

TENANTS = ("did:example:ada", "did:example:bob")
THREADS = 3
# Some facts are told by everyone, so that merges of several processes meet.
COMMON_FACTS = 7


def write_for_ever(home: Path, notes: Path, seed: int) -> None:
    """The whole life of a writer process."""
    with Memoranda.open(home, owner=TENANTS[0]) as memory:
        threads = [
            threading.Thread(target=_write, args=(memory, notes / f"{seed}-{number}.acks", seed * 10 + number))
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _write(memory: Memoranda, notes: Path, seed: int) -> None:
    # Not buffered: what was acknowledged is with the kernel, which survives us.
    descriptor = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        writer = _Writer(memory, random.Random(seed), f"writer{seed}")
        while True:
            os.write(descriptor, writer.step().line())
    except BaseException as error:
        os.write(descriptor, f"failed: {error!r}\n".encode())
        raise


class _Writer:
    """Random writes of one thread, to records that are its own except for the common facts."""

    def __init__(self, memory: Memoranda, chance: random.Random, name: str) -> None:
        self._handles = [Memoranda(memory.service, memory.service.gate.local(tenant)) for tenant in TENANTS]
        self._chance = chance
        self._name = name
        self._count = 0
        self._open: list[tuple[Memoranda, str, str]] = []

    def step(self) -> Ack:
        op = self._chance.choices(("remember", "common", "revise", "forget", "feedback"), (6, 1, 2, 1, 1))[0]
        if op in ("remember", "common") or not self._open:
            return self._remember(is_common=op == "common")
        memory, name, text = self._open.pop(self._chance.randrange(len(self._open)))
        if op == "revise":
            return self._revise(memory, name)
        if op == "forget":
            memory.forget(name, reason="proof")
            return _ack("forget", memory, name, text)
        memory.feedback(name, "followed", session=self._name)
        return _ack("feedback", memory, name, text)

    def _text(self) -> str:
        self._count += 1
        filler = "".join(self._chance.choices("abcdefgh ", k=self._chance.choice((20, 200, 2_000, 20_000))))
        return f"{self._name} fact {self._count} {filler}"

    def _remember(self, *, is_common: bool) -> Ack:
        memory = self._chance.choice(self._handles)
        text = f"common fact {self._chance.randrange(COMMON_FACTS)}" if is_common else self._text()
        name = memory.remember(text, project="proof").id
        if not is_common:
            self._open.append((memory, name, text))
        return _ack("remember", memory, name, text)

    def _revise(self, memory: Memoranda, prior: str) -> Ack:
        text = self._text()
        name = memory.revise(prior, text).id
        self._open.append((memory, name, text))
        return _ack("revise", memory, name, text, prior)


def _ack(op: Op, memory: Memoranda, name: str, text: str, prior: str = "") -> Ack:
    return Ack(op=op, tenant=memory.owner, id=name, digest=digest(text), prior=prior)


def hold_a_snapshot(home: Path, held: Event, release: Event) -> None:
    """Another process in the middle of reading."""
    database = SqliteDatabase(home / DATABASE_FILE)
    with database.open_snapshot() as connection:
        connection.query("tenant_list", {})
        held.set()
        assert release.wait(HANG_SECONDS)
    database.close()


def erase_and_hang(home: Path, tenant: str, name: str, erased: Event) -> None:
    """Erase, say so, and never come to tidy up."""
    with Memoranda.open(home, owner=tenant) as memory:
        memory.forget(name, reason="asked to", hard=True)
        erased.set()
        threading.Event().wait()


def keep_up(home: Path, ready: Event, release: Event) -> None:
    """A process that does nothing but upkeep."""
    with Memoranda.open(home, owner=TENANTS[0]) as memory:
        memory.service.upkeep.start()
        ready.set()
        release.wait(HANG_SECONDS)


def remember_at_once(home: Path, text: str, start: Barrier, results: Queue[tuple[str, str]]) -> None:
    """Remember a text at the same moment as others do."""
    with Memoranda.open(home, owner=TENANTS[0]) as memory:
        start.wait(HANG_SECONDS)
        remembered = memory.remember(text)
        results.put((remembered.id, remembered.result))


def revise_at_once(home: Path, name: str, text: str, start: Barrier, results: Queue[tuple[str, str]]) -> None:
    """Revise a memory at the same moment as others do."""
    with Memoranda.open(home, owner=TENANTS[0]) as memory:
        start.wait(HANG_SECONDS)
        try:
            results.put((text, memory.revise(name, text).id))
        except Conflict as error:
            results.put((text, f"conflict: {error.message}"))


def answer_questions(home: Path, questions: Queue[tuple[str, str]], answers: Queue[list[str]]) -> None:
    """Remember or recall what is asked for, until an empty question comes."""
    with Memoranda.open(home, owner=TENANTS[0]) as memory:
        while (question := questions.get(timeout=HANG_SECONDS)) != ("", ""):
            verb, text = question
            if verb == "remember":
                answers.put([memory.remember(text).id])
            else:
                answers.put([found.record["body"]["text"] for found in memory.recall(text)])
