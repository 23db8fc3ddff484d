"""Commitments fire exactly once: processes that fire what is due are killed at random moments, over and over.

python -m tests.proofs.commitments --rounds 200
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from memoranda.encoding import json_text
from memoranda.keys import operator_key
from memoranda.model.instant import DAY_MS, Instant
from memoranda.opening import system_clock
from memoranda.service.openwop import commitments as openwop_commitments
from memoranda.service.openwop import runs as openwop_runs
from memoranda.standards.openwop.entry import Draft
from memoranda.standards.openwop.events import COMMITMENT_FIRED, check_event
from memoranda.storage.sqlite.database import SqliteDatabase
from tests.proofs.store import DATABASE_FILE, Store, build, processes
from tests.waiting import until

REF = "mem://proof/commitments"
WORKFLOW = "proof.follow-up"
PROCESSES = 2
# Of each round: those with a time, and those that wait for something to be said.
TIMED, WAITING = 6, 4
KILL_AFTER_SECONDS = (0.0, 0.030)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run did."""

    rounds: int = 0
    kills: int = 0
    commitments: int = 0
    # Rounds in which the processes were killed when some had fired and others had not.
    torn: int = 0
    seconds: float = 0.0


def later() -> Instant:
    """Two days from now: whatever was said for tomorrow is due."""
    return Instant(system_clock() + 2 * DAY_MS)


@contextmanager
def opened(home: Path, *, is_later: bool) -> Iterator[Store]:
    """The store in a folder, now or when everything is due."""
    clock = later if is_later else system_clock
    store = build(SqliteDatabase(home / DATABASE_FILE), operator_key(home), clock)
    try:
        yield store
    finally:
        store.service.close()


def fire_for_ever(home: Path, tenant: str, ready: Path) -> None:
    """The whole life of a process that fires what is due."""
    with opened(home, is_later=True) as store:
        fire(store, tenant)
        ready.touch()
        while True:
            fire(store, tenant)


def fire(store: Store, tenant: str) -> None:
    openwop_commitments.fire_due(store.context, tenant, workflow_id=WORKFLOW)


class Killer:
    """One store, and the processes that fire what is due in it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._home, self._notes = folder / "home", folder / "notes"
        self._home.mkdir(mode=0o700)
        self._notes.mkdir()
        self._chance = random.Random(seed)
        self._context = processes()
        self._alive: list[BaseProcess] = []
        # Of each round's tenant, what is known.
        self._known: dict[str, set[str]] = {}
        self.kills = 0
        self.torn = 0

    def round(self, number: int) -> None:
        """Let commitments fall due, kill whoever fires them, start again, and see that each has fired once."""
        tenant = f"did:example:round{number}"
        for process in range(PROCESSES):
            self._start(tenant, self._notes / f"{number}-{process}.ready")
        with opened(self._home, is_later=False) as store:
            fresh = self._known[tenant] = _armed(store, tenant)
            # The random moment is the experiment itself, not a way to wait for something.
            time.sleep(self._chance.uniform(*KILL_AFTER_SECONDS))
            self._kill()
        with opened(self._home, is_later=True) as store:
            fired = _fired(store, tenant)
            assert all(count == 1 for count in fired.values()), "a commitment fired twice"
            self.torn += int(0 < len(fired) < len(fresh))
            # What a process does that starts after the crash.
            fire(store, tenant)
            fire(store, tenant)
            self._check(store, tenant)

    def finish(self) -> None:
        """Look at everything once more."""
        with opened(self._home, is_later=True) as store:
            for tenant in self._known:
                fire(store, tenant)
                self._check(store, tenant)

    def _check(self, store: Store, tenant: str) -> None:
        assert _fired(store, tenant) == Counter(self._known[tenant]), "exactly one event for each"
        for each in store.service.openwop.commitments(store.access(tenant)):
            assert (each.state, each.fired) == ("fired", 1)

    def _start(self, tenant: str, ready: Path) -> None:
        process = self._context.Process(target=fire_for_ever, args=(self._home, tenant, ready))
        process.start()
        self._alive.append(process)
        until(ready.exists, "a process looks for what is due")

    def _kill(self) -> None:
        leaving, self._alive = self._alive, []
        for process in leaving:
            assert process.exitcode is None, "it failed by itself"
            process.kill()
        for process in leaving:
            process.join()
            process.close()
        self.kills += len(leaving)

    def stop(self) -> None:
        self._kill()

    @property
    def commitments(self) -> int:
        return sum(map(len, self._known.values()))


def _armed(store: Store, tenant: str) -> set[str]:
    """Commitments that are due two days from now, of both conditions; their ids."""
    access, verbs = store.access(tenant), store.service.openwop
    said = [f"Remind me to call customer {n} tomorrow at 9:{n:02d}." for n in range(TIMED)]
    said += [f"When the audit of plant {n} is finished, send the invoice." for n in range(WAITING)]
    verbs.put_entries(access, REF, [Draft(content=text) for text in said])
    before = system_clock()
    until(lambda: system_clock() > before, "the next millisecond")
    done = [Draft(content=f"The audit of plant {n} is finished.") for n in range(WAITING)]
    verbs.put_entries(access, REF, done)
    known = {each.commitment_id for each in verbs.infer_commitments(access, REF)}
    assert len(known) == TIMED + WAITING
    return known


def _fired(store: Store, tenant: str) -> Counter[str]:
    """How often each commitment fired, by the logs; each with a run of its own, and each event as the rules say."""
    fired: Counter[str] = Counter()
    enqueued: list[str] = []
    with store.engine.open_snapshot(tenant) as snapshot:
        runs = [openwop_runs.decode_run(kept) for kept in snapshot.list_runs(before=None, limit=1_000)]
        for run in runs:
            for event in map(json_text.parse, snapshot.list_run_events(run.run_id, after=-1, limit=100)):
                if event["type"] == COMMITMENT_FIRED:
                    check_event(event)
                    fired[event["payload"]["commitmentId"]] += 1
                    enqueued.append(event["payload"]["enqueuedRunId"])
    started = [run.run_id for run in runs if run.workflow_id == WORKFLOW]
    assert sorted(enqueued) == sorted(started), "a run without its event, or the other way round"
    return fired


def run(folder: Path, *, rounds: int, seed: int) -> Outcome:
    """The whole experiment; raises AssertionError as soon as something fires twice or never."""
    started = time.monotonic()
    killer = Killer(folder, seed)
    try:
        for number in range(rounds):
            killer.round(number)
        killer.finish()
    finally:
        killer.stop()
    return Outcome(
        rounds=rounds,
        kills=killer.kills,
        commitments=killer.commitments,
        torn=killer.torn,
        seconds=time.monotonic() - started,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(run(Path(folder), rounds=arguments.rounds, seed=arguments.seed))


if __name__ == "__main__":
    main()
