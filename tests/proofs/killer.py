"""Kill -9: several processes write to one store and are killed at random moments, over and over.

python -m tests.proofs.killer --rounds 200
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.proofs.ledger import Ack, check_chains, check_kept, check_whole, read_acks
from tests.proofs.store import opened, processes
from tests.proofs.writers import write_for_ever
from tests.waiting import until

WRITERS = 3
KILL_AFTER_SECONDS = (0.005, 0.150)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run did."""

    rounds: int = 0
    kills: int = 0
    acks: int = 0
    seconds: float = 0.0


class Killer:
    """One store, its writers, and everything they were promised."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._home = folder / "home"
        self._notes = folder / "notes"
        self._home.mkdir(mode=0o700)
        self._notes.mkdir()
        self._chance = random.Random(seed)
        self._context = processes()
        self._started = 0
        self._writers: dict[Path, BaseProcess] = {}
        self._read: dict[Path, int] = {}
        self.acks: list[Ack] = []
        self.kills = 0

    def round(self) -> None:
        """Let the writers write, kill one or all of them, and see that every promise is kept."""
        while len(self._writers) < WRITERS:
            self._start()
        # The random moment is the experiment itself, not a way to wait for something.
        time.sleep(self._chance.uniform(*KILL_AFTER_SECONDS))
        doomed = list(self._writers) if self._chance.random() < 0.5 else [self._chance.choice(list(self._writers))]
        self._kill(doomed)
        # Read before the store is opened: survivors go on writing.
        fresh = self._read_notes()
        with opened(self._home) as store:
            check_kept(store, fresh)

    def finish(self) -> None:
        """Kill everyone and look at everything."""
        self._kill(list(self._writers))
        self._read_notes()
        with opened(self._home) as store:
            check_kept(store, self.acks)
            check_whole(store, self.acks)

    def check_chains(self) -> None:
        with opened(self._home) as store:
            check_chains(store)

    def stop(self) -> None:
        self._kill(list(self._writers))

    def _start(self) -> None:
        self._started += 1
        seed = self._started
        process = self._context.Process(target=write_for_ever, args=(self._home, self._notes, seed))
        process.start()
        first = self._notes / f"{seed}-0.acks"
        self._writers[first] = process
        until(lambda: first.exists() and first.stat().st_size > 0, f"writer {seed} acknowledges something")

    def _kill(self, doomed: list[Path]) -> None:
        leaving = [self._writers.pop(key) for key in doomed]
        for process in leaving:
            process.kill()
        for process in leaving:
            process.join()
            process.close()
        self.kills += len(leaving)

    def _read_notes(self) -> list[Ack]:
        fresh: list[Ack] = []
        for path in sorted(self._notes.iterdir()):
            lines = path.read_bytes()[self._read.get(path, 0) :]
            assert b"failed" not in lines, lines[-500:]
            fresh += read_acks(lines)
            self._read[path] = self._read.get(path, 0) + lines.rfind(b"\n") + 1
        self.acks += fresh
        return fresh


def run(folder: Path, *, rounds: int, seed: int, chains_every: int = 20) -> Outcome:
    """The whole experiment; raises AssertionError as soon as a promise is broken."""
    started = time.monotonic()
    killer = Killer(folder, seed)
    try:
        for number in range(1, rounds + 1):
            killer.round()
            if number % chains_every == 0:
                killer.check_chains()
        killer.finish()
    finally:
        killer.stop()
    return Outcome(rounds=rounds, kills=killer.kills, acks=len(killer.acks), seconds=time.monotonic() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(run(Path(folder), rounds=arguments.rounds, seed=arguments.seed))


if __name__ == "__main__":
    main()
