"""The loop: feed inputs, keep those that lead somewhere new, collect what must not happen."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

from memoranda.errors import GrainError, MemorandaError, QueryError
from tests.fuzz import corpus
from tests.fuzz.targets import Target, targets

# Inputs kept beside the seeds, for each target.
_MAX_KEPT: Final = 400
_VARIABLE = re.compile(r"0x[0-9a-f]+|\d+|'.*'|\".*\"", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that must not have done what it did."""

    target: str
    what: str
    data: bytes


@dataclass(slots=True)
class Campaign:
    """All targets in turn, or one of them, from one seed."""

    seed: int
    # Names of targets; none: all.
    only: tuple[str, ...] = ()
    executions: int = 0
    accepted: int = 0
    findings: list[Finding] = field(default_factory=list)
    slowest_seconds: float = 0.0
    slowest: bytes = b""
    _corpora: dict[str, _Corpus] = field(default_factory=dict)

    def run(self, *, executions: int | None = None, seconds: float | None = None) -> None:
        """Go on until either is used up, round the targets."""
        rng = random.Random(self.seed + self.executions)
        every_corpus = [self._corpora.setdefault(target.name, _Corpus(target)) for target in self._targets()]
        last = None if executions is None else self.executions + executions
        deadline = None if seconds is None else time.monotonic() + seconds
        while (last is None or self.executions < last) and (deadline is None or time.monotonic() < deadline):
            for known in every_corpus:
                self._one(known, known.next_input(rng))
                self.executions += 1

    def replay(self) -> None:
        """Feed the inputs of the corpus, as they are."""
        for target in self._targets():
            known = self._corpora.setdefault(target.name, _Corpus(target))
            for data in corpus.load(target.name):
                self._one(known, data)
                self.executions += 1

    def grow(self) -> None:
        """Save the shortest input for each outcome seen so far."""
        for name, known in self._corpora.items():
            corpus.save(name, known.seen.values())

    def _targets(self) -> list[Target]:
        return [target for target in targets() if not self.only or target.name in self.only]

    def outcomes(self) -> dict[str, int]:
        """How many different outcomes each target has shown."""
        return {name: len(known.seen) for name, known in self._corpora.items()}

    def _one(self, known: _Corpus, data: bytes) -> None:
        start = time.process_time()
        try:
            with _limit(known.target.max_seconds):
                known.target.run(data)
            outcome = "accepted"
            self.accepted += 1
        except MemorandaError as error:
            outcome = _outcome(error)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            outcome = f"{type(error).__name__}: {error}"
            self.findings.append(Finding(known.target.name, outcome, data))
        seconds = time.process_time() - start
        if seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest = seconds, data
        known.learn(outcome, data)


class _Corpus:
    """The inputs of a target: its seeds, and one for each outcome never seen before."""

    def __init__(self, target: Target) -> None:
        self.target = target
        # The shortest input for each outcome.
        self.seen: dict[str, bytes] = {}
        self._inputs = [*target.seeds, *corpus.load(target.name)]

    def next_input(self, rng: random.Random) -> bytes:
        return self.target.bend(rng, rng.choice(self._inputs), rng.choice(self._inputs))

    def learn(self, outcome: str, data: bytes) -> None:
        if outcome not in self.seen and len(self.seen) < _MAX_KEPT:
            self.seen[outcome] = data
            self._inputs.append(data)
        elif len(data) < len(self.seen.get(outcome, b"")):
            self.seen[outcome] = data


class TookTooLong(Exception):
    """An input was not done with in time."""


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Break off what takes longer, in processor time: a busy machine finds nothing. Not in threads."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLong(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _outcome(error: MemorandaError) -> str:
    """What was said, without the numbers and names in it: inputs with another one got further or elsewhere."""
    code = error.code
    if isinstance(error, GrainError):
        code = error.oms_code
    elif isinstance(error, QueryError):
        code = error.cal_code
    return f"{code} {_VARIABLE.sub('*', error.message)[:120]}"
