"""Verbs of all standards, one after the other in one store: written here, erased there, read everywhere.

The long run: `python -m tests.fuzz.verbs [--steps 1000000] [--seed 1]`. Exit status 1 if anything was found: an error
that is not one of ours (it would be a 500), or a text that somebody is told after it was erased.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from memoranda.errors import MemorandaError
from memoranda.model.selection import Selection
from memoranda.service.core.access import Access
from memoranda.standards.openwop.entry import Draft, ListOptions
from memoranda.standards.ump.requests import FeedbackRequest, RecallRequest
from tests.fuzz.mutate import any_value
from tests.matrix.doors import EXPORTS, READS, REVISES, SPACE, WRITES, House, left, told
from tests.service.oams_verbs import Oams
from tests.service.world import PEER

# A store of its own for so many steps: what many verbs do to one memory is sought, not a large store.
_STEPS_PER_STORE: Final = 250
_QUERIES: Final = (
    "RECALL LIKE $word LIMIT 5",
    "RECALL RECENT 3 WITH superseded",
    "RECALL WHERE subject = $word",
    "RECALL ABOUT $word ORDER BY confidence",
    "HISTORY $old",
    "EXISTS $old",
    "RECALL RECENT 9 | GROUP BY relation",
    'ASSEMBLE FOR "x" FROM (RECALL LIKE $word) BUDGET 200 tokens FORMAT sml',
    'REVERT $old REASON "fuzz"',
    'SUPERSEDE $old SET object = $word REASON "fuzz"',
)


@dataclass(slots=True)
class Memory:
    """One that was written: its word, which stands in all its texts, and its names."""

    word: str
    names: Mapping[str, str]
    memory_id: int
    is_erased: bool = False
    # OAMS writes a new memory under a key whose memory is gone: then two of them said the word.
    is_twice: bool = False


@dataclass(slots=True)
class Walk:
    """A random walk from one seed; `findings` must stay empty."""

    seed: int
    steps: int = 0
    findings: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def run(self, steps: int) -> None:
        """Take so many steps more."""
        end = self.steps + steps
        while self.steps < end:
            rng = random.Random(f"{self.seed} {self.steps}")
            house = House(coverage=rng.choice((None, "users", "all")), presets=rng.choice(((), (), ("gdpr",))))
            try:
                room = _Room(rng, house)
                for _ in range(min(_STEPS_PER_STORE, end - self.steps)):
                    self.steps += 1
                    self._step(room)
            finally:
                house.service.close()

    def _step(self, room: _Room) -> None:
        name, act = room.next()
        try:
            act()
            outcome = "done"
        except MemorandaError as error:
            outcome = error.code
        except AssertionError as error:
            # Helpers of the tests say so when nothing is there; a text that should be gone says so, too.
            outcome = "nothing"
            if "erased" in str(error):
                self.findings.append(f"seed {self.seed} step {self.steps}: {name}: {error}")
        except Exception:  # noqa: BLE001 -- whatever it is, it is a finding
            outcome = "failed"
            self.findings.append(f"seed {self.seed} step {self.steps}: {name}\n{traceback.format_exc(limit=-6)}")
        self.done[f"{name.split(':')[0]} {outcome}"] += 1


class _Room:
    """One store with those who come to it, and what they may do next."""

    def __init__(self, rng: random.Random, house: House) -> None:
        self._rng, self._house = rng, house
        self._memories: list[Memory] = []
        self._callers = [
            house.owner,
            house.owner,
            house.key(house.tenant, "read", "write", "export", "derive"),
            house.token("read", "write", "export", audience=PEER.did),
            house.token("read", "write", "export", project=SPACE),
            house.token("read", "write", "export", owner=""),
            house.key("did:example:stranger"),
        ]

    def next(self) -> tuple[str, Callable[[], object]]:
        """What to do next: its name, and the doing."""
        rng, house, who = self._rng, self._house, self._rng.choice(self._callers)
        if not self._memories or rng.random() < 0.25:
            way = rng.choice(list(WRITES))
            return f"write {way}", lambda: self._write(way)
        memory = rng.choice(self._memories)
        acts: dict[str, Callable[[], object]] = {
            f"revise {(by := rng.choice(list(REVISES)))}": lambda: self._revise(memory, by),
            "forget": partial(house.forget, memory.names["ump"], access=who, reason="fuzz"),
            "erase ump": lambda: self._erased(memory, partial(self._hard, memory, who)),
            "erase oms": lambda: self._erased(
                memory, lambda: house.service.grains.erase(who, memory.names["oms"], reason="fuzz")
            ),
            "forget oams": partial(Oams(house, house.oams.namespace, who).forget, memory.names["oams"]),
            "delete openwop": partial(house.service.openwop.delete_entry, who, SPACE, memory.names["openwop"]),
            "hold": partial(house.service.grains.set_hold, who, memory.names["oms"], held=rng.random() < 0.3),
            "feedback": lambda: house.service.feedback(
                who, FeedbackRequest.parse({"id": memory.names["ump"], "outcome": self._value("followed")})
            ),
            "time": lambda: (house.advance(rng.choice((1, 1000, 86_400_000))), house.service.purge()),
            f"read: {(read := rng.choice(list(READS)))}": lambda: self._read(memory, read, who),
            f"export: {(form := rng.choice(list(EXPORTS)))}": lambda: self._export(form, who),
            "recall": lambda: house.service.recall(who, RecallRequest.parse(self._question(memory.word))),
            "list": lambda: house.service.openwop.list_entries(who, SPACE, ListOptions.parse(self._options(memory))),
            "search": lambda: house.service.grains.search(who, memory.word, where=self._selection()),
            "namespaces": lambda: [Oams(house, name, who).listed() for name in house.service.oams.namespaces(who)],
            "query": lambda: house.cal(
                rng.choice(_QUERIES), access=who, word=memory.word, old=f"sha256:{memory.names['oms']}"
            ),
            "entry": lambda: house.service.openwop.put_entry(who, SPACE, Draft(content="more", tags=("a",))),
        }
        weights = [6 if name.startswith("read") else 1 for name in acts]
        name = rng.choices(list(acts), weights)[0]
        return name, acts[name]

    def _write(self, way: str) -> None:
        word = f"word{self._rng.getrandbits(48):012x}"
        WRITES[way](self._house, word)
        head = self._house.head(word)
        self._memories.append(Memory(word, self._house.names(head), head.memory_id))

    def _revise(self, memory: Memory, by: str) -> None:
        fresh = f"{memory.word} again {self._rng.getrandbits(32):x}"
        REVISES[by](self._house, memory.names, fresh)
        head = self._house.head(fresh)
        memory.is_twice, memory.is_erased = memory.is_twice or head.memory_id != memory.memory_id, False
        memory.names = {**memory.names, **self._house.names(head)}

    def _hard(self, memory: Memory, who: Access) -> None:
        self._house.forget(memory.names["ump"], access=who, hard=True, reason="fuzz")

    def _erased(self, memory: Memory, act: Callable[[], object]) -> None:
        """Of what a name stood for when it was erased whole, with nothing after it, nobody is told any more."""
        version = self._house.named("oms", memory.names["oms"])
        act()
        with self._house.engine.open_snapshot(self._house.tenant) as snapshot:
            is_gone = all(each.state.erased for each in snapshot.iterate_history(version.memory_id))
        memory.is_erased = is_gone and not memory.is_twice

    def _read(self, memory: Memory, read: str, who: Access) -> None:
        said = told(self._house, read, memory.names, memory.word, who)
        others = any(each is not memory and each.word == memory.word for each in self._memories)
        assert not memory.is_erased or others or memory.word not in said, f"{read} tells what was erased"

    def _export(self, form: str, who: Access) -> None:
        said = left(self._house, form, who)
        gone = [each.word for each in self._memories if each.is_erased and each.word in said]
        assert not gone, f"{form} tells what was erased"

    def _value(self, usual: Any) -> Any:
        return usual if self._rng.random() < 0.7 else any_value(self._rng)

    def _some(self, **usual: Any) -> dict[str, Any]:
        return {name: self._value(value) for name, value in usual.items() if self._rng.random() < 0.5}

    def _question(self, word: str) -> dict[str, Any]:
        moment = "2026-06-05T00:00:00Z"
        prefer = self._rng.choice(("recency", "salience", "nonsense"))
        return {
            "query": self._value(word),
            **self._some(
                scope=self._some(project=SPACE, owner=self._house.tenant, user="ada", visibility="shared", agent="a"),
                filter=self._some(kind="semantic", status=["active"], valid_at=moment, known_at=moment),
                ranking_hints=self._some(prefer=[prefer]),
                limit=self._rng.randrange(60),
            ),
        }

    def _options(self, memory: Memory) -> dict[str, Any]:
        return self._some(limit=3, tag="a", query=memory.word, rank="relevance", tokenBudget=50)

    def _selection(self) -> Selection:
        rng = self._rng
        return Selection(
            space=rng.choice((None, SPACE, "other")),
            user=rng.choice((None, "ada")),
            tags=rng.choice(((), ("a",))),
            status_filter=rng.choice(("live", "current", "recorded", "unforgotten", "all")),
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.verbs", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed takes the same steps")
    parser.add_argument("--seconds", type=float, help="stop after so much processor time instead")
    arguments = parser.parse_args()
    walk = Walk(arguments.seed)
    while walk.steps < arguments.steps and (arguments.seconds is None or time.process_time() < arguments.seconds):
        walk.run(min(5_000, arguments.steps - walk.steps))
        print(f"{walk.steps} steps, {len(walk.findings)} findings, {time.process_time():.0f} s", flush=True)
    for name, count in sorted(walk.done.items()):
        print(f"{count:8} {name}")
    print("\n".join(dict.fromkeys(walk.findings)))
    return 1 if walk.findings else 0


if __name__ == "__main__":
    sys.exit(main())
