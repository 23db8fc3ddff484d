"""Which stored versions an imported item follows, and which one supersedes it.

The names that connect them are those of `ancestry`.
"""

from __future__ import annotations

import msgspec

from memoranda.errors import MemorandaError
from memoranda.model.instant import Instant
from memoranda.model.memory import Version, is_over
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.exchange import ancestry
from memoranda.service.exchange.ancestry import Name, WaitingVersion
from memoranda.service.exchange.batch_lookup import BatchLookup, list_keys_of
from memoranda.service.exchange.prepared_item import PreparedItem
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Unit


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
