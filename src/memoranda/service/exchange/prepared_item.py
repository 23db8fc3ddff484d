"""Items of an import that passed every check and can be written, whatever their form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.service.exchange import ancestry
from memoranda.service.exchange.ancestry import ItemNames, Name
from memoranda.service.oams import memories
from memoranda.service.ump import remember
from memoranda.service.ump.remember import NewParts
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.ump import mapping as ump
from memoranda.storage.engine.contract import Unit

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
