"""Lookup of everything that a batch of prepared items may meet in the store, before the writer's turn.

Most items of a batch are new, or are stored already. `BatchLookup.look_up` asks for all of them at once, on a snapshot.
When the turn comes and nothing was written since, the answers still hold (`refresh`), and an item that only repeats
what is stored costs the writer nothing.

A `PreparedItem` passed every check and can be written, whatever its form. `LineFinder` finds the stored versions that
it follows, and the one that supersedes it, by the names of `ancestry`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from memoranda.errors import MemorandaError
from memoranda.model.instant import Instant
from memoranda.model.memory import Version, is_over
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.memory_line import get_time_forgotten
from memoranda.service.exchange import ancestry
from memoranda.service.exchange.ancestry import (
    ItemNames,
    Name,
    WaitingVersion,
    find_versions,
    list_keys,
)
from memoranda.service.oams import memories
from memoranda.service.oms import authority
from memoranda.service.ump import remember
from memoranda.service.ump.remember import NewParts
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping as ump
from memoranda.storage.engine.contract import Snapshot, Unit

# The outcome of an item. "known": it, or something newer, was stored. "forgotten": it was deleted here, and stays so.
Outcome = Literal["created", "updated", "merged", "known", "forgotten"]


class PreparedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that passed every check and can be written.

    `write` takes the version that it follows, if that is known, and the parts that are new to the store.
    """

    tenant: str
    # Its standard and name in the store.
    standard: str
    name: str
    write: Callable[[Unit, Version | None, Instant, NewParts], Outcome]
    # An OAMS memory, whose key is looked up together with others of the batch.
    accepted_memory: memories.AcceptedMemory | None = None
    # A record, as it was accepted.
    accepted_record: remember.Accepted | None = None
    # The memory that it repeats, and the outcome, as long as that memory is unchanged: nothing is written then.
    settled: tuple[int, Outcome] | None = None
    warnings: tuple[str, ...] = ()
    # The bytes of a memory whose name stands for the head; they identify the version.
    native: bytes | None = None
    # The time at which that memory was written.
    written_at: Instant | None = None
    # The fields that policies check when it replaces a memory.
    fields: Mapping[str, Any] = msgspec.field(default_factory=dict)
    # The signer of a grain.
    signer: str | None = None
    # Its names here, and its name in the file, if that differs.
    names: ItemNames
    name_in_file: Name | None = None
    # The names of versions of the same memory that the key of an OAMS memory leads to.
    line_names: tuple[Name, ...] = ()
    # The memories that it supersedes, latest first.
    predecessors: tuple[Name, ...] = ()
    # Its name in its form. The fields below are what its form states: its index entry, its successor, and its end.
    name_in_form: str = ""
    # Another name that it has in its form.
    alias: str | None = None
    index: IndexState = DEFAULT
    successor: str | None = None
    valid_to: Instant | None = None

    @property
    def claims(self) -> list[Name]:
        """The names under which it may have been superseded before it arrived."""
        names = (
            self.names.names
            if self.name_in_file is None
            else (*self.names.names, self.name_in_file)
        )
        return [*ancestry.create_claims(names), *self.names.keys]

    @property
    def successor_names(self) -> dict[str, str]:
        """The names of its successor in each standard, as far as its form states them."""
        record = (
            self.successor
            if self.successor != self.index.superseded_by
            else self.index.successor_name
        )
        names = {ump.STANDARD: record, oms.STANDARD: self.index.superseded_by}
        return {standard: name for standard, name in names.items() if name is not None}


class BatchLookup(msgspec.Struct, frozen=True):
    """Answers of the store about the items of one batch: which names and facts it has, and the heads of their keys."""

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
        accepted = [
            prepared_item.accepted_memory
            for prepared_item in batch
            if prepared_item.accepted_memory is not None
        ]
        names = [
            (prepared_item.standard, prepared_item.name)
            for prepared_item in batch
            if prepared_item.accepted_memory is None
        ]
        names += [claim for prepared_item in batch for claim in prepared_item.claims]
        names += [name for prepared_item in batch for name in prepared_item.line_names]
        names += [key for prepared_item in batch for key in list_keys_of(context, prepared_item)]
        superseded = [name for prepared_item in batch for name in prepared_item.predecessors]
        facts = [fact for prepared_item in batch if (fact := get_fact(prepared_item))]
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

    def may_affect(self, prepared_item: PreparedItem) -> bool:
        """Return True if the store may contain something that an item follows, repeats or is merged into."""
        if prepared_item.accepted_memory is not None:
            return True
        return (prepared_item.standard, prepared_item.name) in self.known_names or get_fact(
            prepared_item
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

    def mark_known(self, prepared_item: PreparedItem) -> NewParts:
        """Return the parts of an item that are new to the store, and mark them as known."""
        name, fact = (prepared_item.standard, prepared_item.name), get_fact(prepared_item)
        new_parts = NewParts(
            name not in self.known_names, bool(fact) and fact not in self.known_facts
        )
        self.known_names.add(name)
        self.known_facts.add(fact)
        return new_parts


def list_keys_of(context: Context, prepared_item: PreparedItem) -> list[Name]:
    """Return the stored names of OAMS memories whose keys are the names of an item's predecessors."""
    return list_keys(
        context, prepared_item.tenant, prepared_item.names.space, prepared_item.predecessors
    )


def get_fact(prepared_item: PreparedItem) -> str:
    """Return the fact that a record states if it may be merged into another record; else an empty text."""
    return (
        ""
        if prepared_item.accepted_record is None or prepared_item.accepted_record.is_own
        else prepared_item.accepted_record.projection.sameness
    )


class LineFinder(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a store, for the items of one batch."""

    context: Context
    access: Access
    unit: Unit
    lookup: BatchLookup
    now: Instant
    # True if an import also brings back what was deleted here.
    restores: bool

    def find_priors(
        self, item: PreparedItem, waiting: WaitingVersion | None, keyed: Version | None
    ) -> tuple[list[Version], list[Name], list[MemorandaError]]:
        """Return the open versions that an item supersedes, the names of those that are not stored, and refusals.

        `waiting` waits for the item, and `keyed` is the OAMS memory that it is a version of. The item becomes the next
        version of the first one.
        """
        unit = self.unit
        waiting_version = None if waiting is None else ancestry.load_open_version(unit, waiting)
        versions, missing = [] if waiting_version is None else [waiting_version], list[Name]()
        for name in item.predecessors:
            version = ancestry.find_version(unit, name)
            if version is None:
                missing.append(name)
            elif ancestry.can_precede(version, item.standard, item.name):
                versions.append(version)
        if (
            not versions
            and keyed is not None
            and keyed.state.observed < item.names.observed
            and ancestry.can_precede(keyed, item.standard, item.name)
        ):
            versions.append(keyed)
        priors: dict[int, Version] = {}
        refusals: list[MemorandaError] = []
        for version in versions:
            try:
                if version is not waiting_version or (waiting is not None and not waiting.is_fresh):
                    # A stored memory is protected by its policy, from files as well.
                    ancestry.require_supersession(unit, version, item.fields, self.now)
            except MemorandaError as error:
                refusals.append(error)
                continue
            if version is waiting_version or ancestry.may_supersede(
                self.context, self.access, version
            ):
                priors.setdefault(version.version_id, version)
        return list(priors.values()), missing, refusals

    def find_later(self, item: PreparedItem, keyed: Version | None = None) -> Version | None:
        """Return the stored version that supersedes an item and arrived before it.

        `keyed` is the OAMS memory that the item is a version of.
        """
        for version in self._find_claimants(item):
            # A restored memory comes back as it was.
            if not (self.restores and version.state.is_forgotten):
                return version
        if keyed is None or keyed.state.observed < item.names.observed:
            return None
        return None if self.restores and keyed.state.is_forgotten else keyed

    def _find_claimants(self, item: PreparedItem) -> list[Version]:
        """Return the stored versions that claim to supersede an item."""
        versions = (
            self.unit.find_by_name(*name)
            for name in item.claims
            if name in self.lookup.known_names and name != (item.standard, item.name)
        )
        return [version for version in versions if version is not None]

    def find_keyed(self, item: PreparedItem, closed_id: int | None = None) -> Version | None:
        """Return the OAMS memory that an item is a version of, by the versions before it.

        `closed_id` is the number of a version that names the item as its successor, and has another one here.
        """
        unit, lookup = self.unit, self.lookup
        versions = [
            unit.find_by_name(*key)
            for key in list_keys_of(self.context, item)
            if key in lookup.known_names
        ]
        versions += [
            ancestry.find_version(unit, name)
            for name in item.predecessors
            if name in lookup.predecessors
        ]
        versions += [] if closed_id is None else unit.load_versions([closed_id])
        for version in versions:
            if version is None:
                continue
            last = ancestry.find_last_version(unit, version)
            if port_of(last.document.standard).has_local_names:
                return last
        return None

    def find_line_end(self, item: PreparedItem) -> Version | None:
        """Return the last version of the memory that an OAMS memory belongs to, by other names than its key."""
        for name in item.line_names:
            version = self.unit.find_by_name(*name) if name in self.lookup.known_names else None
            if version is not None:
                return ancestry.find_last_version(self.unit, version)
        return None

    def may_follow(self, item: PreparedItem, last: Version) -> bool:
        """Return True if an item may supersede the last version of the memory that it belongs to."""
        state = last.state
        return (
            state.is_head
            and not is_over(state, self.now)
            and state.closed is None
            and state.space == item.names.space
            and ancestry.may_supersede(self.context, self.access, last)
        )

    def join(self, item: PreparedItem) -> None:
        """Let the newest of several lines supersede the others, if an item is the first version of all of them.

        That is known only if one of them has the key of the item: memories with one key are one memory.
        """
        last_versions = [
            ancestry.find_last_version(self.unit, version) for version in self._find_claimants(item)
        ]
        ends = {version.version_id: version for version in last_versions}
        if not any(port_of(end.document.standard).has_local_names for end in ends.values()):
            return
        newest = max(ends.values(), key=lambda version: version.state.observed)
        for end in ends.values():
            if end.version_id == newest.version_id or not self.may_follow(item, end):
                continue
            try:
                ancestry.require_supersession(self.unit, end, item.fields, self.now)
            except MemorandaError:
                # Its policy protects it, so both stay.
                continue
            ancestry.close_version(self.unit, end, newest, self.now)


def add_view_names(unit: Unit, version: Version, prepared_item: PreparedItem) -> None:
    """Store the names that a view has for the document inside."""
    if prepared_item.name_in_file is None:
        unit.add_view_name(version, oms.STANDARD, prepared_item.name_in_form)
    elif prepared_item.name_in_file not in prepared_item.names.names:
        ancestry.add_file_name(unit, version, prepared_item.name_in_file)


def check_authority(
    unit: Unit,
    prepared_item: PreparedItem,
    prior: Version | None,
    now: Instant,
    ends: authority.DelegationEnds,
) -> None:
    """Raise GrainError if the author of a grain lacks the authority for it."""
    imported = authority.ImportedGrain(
        written_at=Instant(int(prepared_item.fields["created_at"])),
        is_superseded=prepared_item.successor is not None
        or prepared_item.index.system_valid_to is not None,
        known_ends=ends,
    )
    authority.check(
        unit, prepared_item.fields, prepared_item.signer, now=now, prior=prior, imported=imported
    )
