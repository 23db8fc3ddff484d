"""What is there of a batch that is about to be written: looked up before the writer's turn, and trusted in it.

Most of a batch is new, or was there already. Which is which is asked for all of it at once, on a snapshot; when the
turn comes and nothing was written since, it is not asked again, and what only repeats what is there costs the writer
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from memoranda.model.memory import Version
from memoranda.service.core.context import Context
from memoranda.service.exchange.ancestry import Name, find_all
from memoranda.service.exchange.unwrap import News, Ready
from memoranda.service.oams import memories
from memoranda.storage.engine.contract import Snapshot, Unit


class Before(msgspec.Struct, frozen=True):
    """What was there: the names and the facts that are known, and the heads of the keys."""

    seq: int
    names: set[Name]
    # The memories that those of the batch supersede, by name, as they were.
    predecessors: dict[Name, Version]
    facts: set[str]
    heads: memories.Heads

    @classmethod
    def of(cls, context: Context, snapshot: Snapshot, batch: Sequence[Ready]) -> Before:
        given = [ready.given for ready in batch if ready.given is not None]
        names = [(ready.standard, ready.name) for ready in batch if ready.given is None]
        names += [claim for ready in batch for claim in ready.claims]
        superseded = [name for ready in batch for name in ready.predecessors]
        facts = [fact for ready in batch if (fact := fact_of(ready))]
        return cls(
            snapshot.change_seq(),
            snapshot.known_names(names),
            find_all(snapshot, superseded) if superseded else {},
            snapshot.known_facts(facts) if facts else set(),
            memories.Heads(context, snapshot, given),
        )

    def stays_superseded(self, ready: Ready) -> bool:
        """Return True if nothing that a memory supersedes is still open here."""
        there = map(self.predecessors.get, ready.predecessors)
        return not any(each is not None and each.state.is_head for each in there)

    def went_with_predecessor(self, ready: Ready) -> bool:
        """Return True if what a memory supersedes was forgotten here when the memory was there already."""
        for each in map(self.predecessors.get, ready.predecessors):
            if each is not None and each.state.is_forgotten:
                return (
                    each.state.tombstoned is None or ready.known.observed <= each.state.tombstoned
                )
        return False

    def knows(self, ready: Ready) -> bool:
        """Whether anything may be there that a memory follows, repeats or is merged to."""
        if ready.given is not None:
            return True
        return (ready.standard, ready.name) in self.names or fact_of(ready) in self.facts

    def again(self, context: Context, unit: Unit, batch: Sequence[Ready]) -> Before:
        """The same when the writer's turn has come: looked up anew only if anything was written since."""
        if unit.change_seq() != self.seq:
            return Before.of(context, unit, batch)
        return replace(
            self, names=set(self.names), facts=set(self.facts), heads=self.heads.in_unit(unit)
        )

    def news(self, ready: Ready) -> News:
        """What is new about a memory; from then on it is known."""
        name, fact = (ready.standard, ready.name), fact_of(ready)
        found = News(name not in self.names, bool(fact) and fact not in self.facts)
        self.names.add(name)
        self.facts.add(fact)
        return found


def fact_of(ready: Ready) -> str:
    """What a record states that may be merged into another; nothing else is."""
    return (
        ""
        if ready.accepted is None or ready.accepted.is_own
        else ready.accepted.projection.sameness
    )
