"""Lookup of everything that a batch of an import may meet in the store, before the writer's turn.

Most items of a batch are new, or are stored already. `BatchLookup.look_up` asks for all of them at once, on a snapshot.
When the turn comes and nothing was written since, the answers still hold (`refresh`), and an item that only repeats
what is stored costs the writer nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from memoranda.model.memory import Version
from memoranda.service.core.context import Context
from memoranda.service.core.memory_line import get_time_forgotten
from memoranda.service.exchange.ancestry import Name, find_versions, list_keys
from memoranda.service.exchange.prepared_item import PreparedItem
from memoranda.service.oams import memories
from memoranda.service.ump.remember import NewParts
from memoranda.storage.engine.contract import Snapshot, Unit


class BatchLookup(msgspec.Struct, frozen=True):
    """The names and facts of a batch that are stored, and the heads of its keys."""

    change_seq: int
    known_names: set[Name]
    # The stored memories that items of the batch supersede, by name.
    predecessors: dict[Name, Version]
    known_facts: set[str]
    heads: memories.HeadLookup

    @classmethod
    def look_up(
        cls, context: Context, snapshot: Snapshot, batch: Sequence[PreparedItem]
    ) -> BatchLookup:
        """Look up a batch in a snapshot."""
        accepted = [ready.accepted_memory for ready in batch if ready.accepted_memory is not None]
        names = [(ready.standard, ready.name) for ready in batch if ready.accepted_memory is None]
        names += [claim for ready in batch for claim in ready.claims]
        names += [name for ready in batch for name in ready.line_names]
        names += [key for ready in batch for key in list_keys_of(context, ready)]
        superseded = [name for ready in batch for name in ready.predecessors]
        facts = [fact for ready in batch if (fact := get_fact(ready))]
        return cls(
            snapshot.find_last_change(),
            snapshot.filter_known_names(names),
            find_versions(snapshot, superseded) if superseded else {},
            snapshot.filter_known_facts(facts) if facts else set(),
            memories.HeadLookup(context, snapshot, accepted),
        )

    def stays_superseded(self, item: PreparedItem) -> bool:
        """Return True if every stored memory that an item supersedes is closed already."""
        # An adopted document supersedes the document with its former name, which may be the stored copy of itself.
        return not any(
            version is not None
            and version.state.is_head
            and (version.document.standard, version.document.name) != (item.standard, item.name)
            for version in map(self.predecessors.get, item.predecessors)
        )

    def went_with_predecessor(self, item: PreparedItem) -> bool:
        """Return True if the predecessor of an item was forgotten here when the item existed already."""
        for version in map(self.predecessors.get, item.predecessors):
            if version is not None and version.state.is_forgotten:
                forgotten = get_time_forgotten(version)
                return forgotten is None or item.names.observed <= forgotten
        return False

    def may_affect(self, ready: PreparedItem) -> bool:
        """Return True if the store may contain something that an item follows, repeats or is merged into."""
        if ready.accepted_memory is not None:
            return True
        return (ready.standard, ready.name) in self.known_names or get_fact(
            ready
        ) in self.known_facts

    def refresh(self, context: Context, unit: Unit, batch: Sequence[PreparedItem]) -> BatchLookup:
        """Return the lookup for the writer's turn; the store is asked again only if something was written since."""
        if unit.find_last_change() != self.change_seq:
            return BatchLookup.look_up(context, unit, batch)
        return replace(
            self,
            known_names=set(self.known_names),
            known_facts=set(self.known_facts),
            heads=self.heads.for_unit(unit),
        )

    def mark_known(self, ready: PreparedItem) -> NewParts:
        """Return the parts of an item that are new to the store, and mark them as known."""
        name, fact = (ready.standard, ready.name), get_fact(ready)
        new_parts = NewParts(
            name not in self.known_names, bool(fact) and fact not in self.known_facts
        )
        self.known_names.add(name)
        self.known_facts.add(fact)
        return new_parts


def list_keys_of(context: Context, ready: PreparedItem) -> list[Name]:
    """Return the stored names of OAMS memories whose keys are the names of an item's predecessors."""
    return list_keys(context, ready.tenant, ready.names.space, ready.predecessors)


def get_fact(ready: PreparedItem) -> str:
    """Return the fact that a record states if it may be merged into another record; else an empty text."""
    return (
        ""
        if ready.accepted_record is None or ready.accepted_record.is_own
        else ready.accepted_record.projection.sameness
    )
