"""One export in progress: its pages, the versions that may be exported, and the report of the others.

An export shows one moment, although the store is not being read while the caller consumes a page: it ends with the last
version that was there when it began, and what later versions superseded or replaced counts as current.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput, StoreCorrupt, Unsupported
from memoranda.model.bounds import is_binding
from memoranda.model.instant import Instant
from memoranda.model.memory import Document, Version, is_over
from memoranda.model.selection import Selection
from memoranda.service.core import compliance
from memoranda.service.core.access import Access
from memoranda.service.core.compliance import may_read_personal
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lifecycle import with_remote_successor
from memoranda.service.core.memory_line import bind_to_line
from memoranda.service.core.views import (
    find_first_version,
    is_intact,
    outline_record,
    project,
    scope_of,
)
from memoranda.service.exchange.report import Report
from memoranda.service.oams import memories
from memoranda.service.oams import views as oams_views
from memoranda.service.retrieve import read_page, sees_everything
from memoranda.standards.oams import mapping as oams
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.manifest import MAX_SUPERSEDED, UNVERIFIED, IndexState
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump import rules
from memoranda.storage.engine.contract import Snapshot

# Versions read at a time.
PAGE_LIMIT: Final = 1_000
# Versions in one answer over a network.
SENT_LIMIT: Final = 50
_POSITION_PATTERN: Final = re.compile(r"[0-9]{1,18}\.[0-9]{1,18}")


class Position(NamedTuple):
    """A position in an export of several pages: the last version before it, and the last one when the export began."""

    after: int
    last_version: int

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parse a position. Raises InvalidInput."""
        if _POSITION_PATTERN.fullmatch(text) is None:
            raise InvalidInput(
                "cursor is not the next_cursor of an export; export again from the start"
            )
        after, _, last_version = text.partition(".")
        return cls(int(after), int(last_version))

    def __str__(self) -> str:
        return f"{self.after}.{self.last_version}"


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """One export: its caller, its options, and its report."""

    context: Context
    access: Access
    tenant: str
    now: Instant
    report: Report
    history: bool
    # True if the owner himself exports, and no preset is in force.
    is_owner: bool
    # The last version when the export began. What is written later is not exported, and what that replaced counts as
    # current: an export shows one moment, however many pages it takes.
    last_version: int
    # True if the form states the key that a memory has in OAMS, and when it was created.
    holds_keys: bool = False
    # Versions of the current page that need no further checks, which each of them would undergo twice.
    unrestricted: set[int] = msgspec.field(default_factory=set)
    # Names of the earlier versions of those on the current page, if the history is not exported.
    earlier: dict[int, list[tuple[str, str]]] = msgspec.field(default_factory=dict)

    def iterate_pages(self, space: str | None = None) -> Iterator[list[Version]]:
        """Yield the versions that may be exported, page by page; no snapshot is open while the caller has a page."""
        after: int | None = 0
        while after is not None:
            export, after = self.load_page(space, after, PAGE_LIMIT)
            yield export

    def load_sent_page(self, space: str | None, after: int) -> tuple[list[Version], str | None]:
        """Return a page as it is sent over a network, and the position of the next one; None at the end."""
        versions, next_position = self.load_page(space, after, SENT_LIMIT)
        return versions, None if next_position is None else str(
            Position(next_position, self.last_version)
        )

    def load_page(
        self, space: str | None, after: int, limit: int
    ) -> tuple[list[Version], int | None]:
        """Return the versions of a page that may be exported, and the number after which the next page begins; None at
        the end.
        """
        everything = Selection(status_filter="all", space=space, as_of=self.last_version)
        self.unrestricted.clear()
        self.earlier.clear()
        with self.context.engine.open_snapshot(self.tenant) as snapshot:
            page = snapshot.rewind(
                read_page(snapshot, everything, after=after, limit=limit, now=self.now),
                self.last_version,
            )
            exported = [
                with_remote_successor(snapshot, candidate)
                for candidate in (bind_to_line(self.context, snapshot, version) for version in page)
                if self.may_export(snapshot, candidate)
            ]
            if not self.history:
                self._load_earlier_names(snapshot, exported)
                exported = [self._as_keyed_memory(snapshot, version) for version in exported]
        return exported, page[-1].version_id if page else None

    def _load_earlier_names(self, snapshot: Snapshot, export: Sequence[Version]) -> None:
        """Remember the names of earlier versions, which an export without history has to state."""
        for version in export:
            if version.version_id != version.memory_id:
                self.earlier[version.version_id] = snapshot.list_earlier_names(
                    version, MAX_SUPERSEDED
                )

    def earlier_names(self, version: Version, *standards: str) -> list[str]:
        """Return the names, in some standards, of the earlier versions that are not exported."""
        return [
            name
            for standard, name in self.earlier.get(version.version_id, ())
            if standard in standards
        ]

    def complete_index(self, version: Version, index: IndexState) -> IndexState:
        """Return the index entry of a version in an `.mg` file, with its earlier versions and the start of its
        validity.
        """
        names = self.earlier_names(version, oms.STANDARD, ump.STANDARD)
        begins = find_unstated_start(self.context, version)
        if not names and begins is None:
            return index
        return replace(index, supersedes=tuple(names), valid_from=begins)

    def _as_keyed_memory(self, snapshot: Snapshot, version: Version) -> Version:
        """Return a head, exported without history, as the OAMS memory whose key it has, if any.

        Other standards, such as openwop, have no such form: a warning states that the id is not exported.
        """
        if version.version_id == version.memory_id or oams.owns(version.document):
            return version
        root = find_first_version(snapshot, version)
        if root.state.erased or not is_intact(root):
            return version
        port = port_of(root.document.standard)
        reference = port.reference(root.document) if port.names_line else None
        if reference is None or root.state.space != version.state.space:
            self._warn_of_line_names(snapshot, version, root)
            return version
        location = memories.locate_namespace(
            self.access, parse_namespace(reference[0]), tenant=self.tenant
        )
        memory = oams_views.to_memory(self.context, snapshot, version, location)
        name = memories.stored_name(self.context, location, memory["key"])
        document = Document(
            standard=oams.STANDARD, media_type=oams.MEDIA_TYPE, name=name, native=dump(memory)
        )
        return replace(version, document=document)

    def _warn_of_line_names(self, snapshot: Snapshot, version: Version, root: Version) -> None:
        """Warn of the names that a head has by its first version, if the form cannot hold them."""
        port, space = port_of(root.document.standard), version.state.space
        if port.names_line and port.reference(root.document) is None:
            name = f"{root.document.name}, its id in {port.name}"
        else:
            location = oams_views.Location(namespace="", tenant=self.tenant, space=space)
            # A record that was merged keeps its id, which is its key.
            if self.holds_keys or root.document.name == version.document.name:
                return
            key = oams_views.key_of_version(snapshot, version, location)
            name = f"{key}, its key in OAMS"
            if key == oams.key_of(version.document):
                name = "what OAMS states about its origin"
        self.report.warn(
            outline_record(self.context, version)["id"],
            f"{name}, is not exported; it belongs to the first version",
        )

    def may_export(self, snapshot: Snapshot, version: Version) -> bool:
        """Return True if a version is exported. Forgotten versions never are; superseded ones are, with the history."""
        state = version.state
        if is_over(state, self.now):
            return False
        if not self.history and (state.superseded_by or state.closed is not None):
            self.report.earlier_versions += 1
            return False
        if not is_intact(version):
            self.report.refuse(
                "", version.document.name, StoreCorrupt("damaged; run 'memoranda verify'")
            )
            return False
        if self._is_unrestricted(version):
            self.unrestricted.add(version.version_id)
            return True
        record = outline_record(self.context, version)
        scope = scope_of(record)
        if scope["visibility"] not in self.access.visibilities(
            self.tenant
        ) or not self.access.allows_scope(scope):
            return False
        if not may_read_personal(self.context, self.access, snapshot, version):
            return False
        why = compliance.find_export_refusal(self.context.presets_in(snapshot), version)
        if why is None and record.get("consent", {}).get("exportable") is False:
            why = "its consent forbids export"
        if why is not None:
            self.report.keep(record["id"], why)
        return why is None

    def _is_unrestricted(self, version: Version) -> bool:
        """Return True if nothing can forbid the export: the owner exports, no preset applies, and no consent can be
        stated.
        """
        document = version.document
        if not self.is_owner or port_of(document.standard).states_consent:
            return False
        return not (is_binding(version.bounds) or compliance.may_declare_domain(document.native))

    def check_unredacted(self, version: Version) -> bool:
        """Return True if a version may be exported unredacted (UMP §2.7); otherwise report it by name."""
        if (
            version.version_id in self.unrestricted
            or not rules.redact(outline_record(self.context, version))[1]
        ):
            return True
        error = Unsupported(
            "its consent redacts it, and this format cannot contain redacted memories"
        )
        self.report.refuse("", self._find_record_id(version), error)
        return False

    def check_bounds(self, version: Version, user: str | None = None) -> bool:
        """Return True if a form without history can state the restrictions from earlier versions; report it otherwise.

        `user` is the person that the namespace of an OAMS memory names; a view as a grain names its user itself.
        """
        bounds = version.bounds
        if bounds is None or self.history or not is_binding(bounds):
            return True
        is_expressible = not (bounds.agent or bounds.session or bounds.policy_fields)
        # Grains have no field for the end of a memory.
        is_expressible &= user is not None or bounds.expires is None
        names_user = not port_of(version.document.standard).has_own_fields
        is_expressible &= names_user if user is None else bounds.user in ("", user)
        if not is_expressible:
            name = self._find_record_id(version)
            self.report.refuse(
                "",
                name,
                Unsupported("this form cannot state the restrictions of earlier versions"),
            )
        return is_expressible

    def check_stated(self, version: Version) -> bool:
        """Return True unless a memory is retracted: OAMS cannot state verdicts, and must not state what is retracted
        here.
        """
        verdict = version.state.verification
        if verdict == UNVERIFIED:
            return True
        name = self._find_record_id(version)
        if verdict == "retracted":
            self.report.keep(name, "it is retracted, and this format has no field for that")
            return False
        self.report.warn(
            name, f"the verdict '{verdict}' is not exported; this form cannot state it"
        )
        return True

    def _find_record_id(self, version: Version) -> str:
        """Return the id of a version as a record, in whatever form it is exported."""
        with self.context.engine.open_snapshot(self.tenant) as snapshot:
            return (
                snapshot.load_names(version.version_id).get(ump.STANDARD)
                or outline_record(self.context, version)["id"]
            )

    def audit(self, op: str, unit_name: str, scope: dict[str, str]) -> None:
        """Record the export in the audit log."""
        count = self.report.exported
        result = f"{count} {unit_name}"
        entry = audit_entry(
            self.access, op, now=self.now, scope=scope, result=result, meta={"count": count}
        )
        self.context.audit_read(self.tenant, entry)


def begin_export(
    context: Context,
    access: Access,
    owner: str | None,
    report: Report | None,
    history: bool,
    last_version: int | None = None,
) -> Export:
    """Return a new export, or a part of one that began earlier. Raises ForbiddenScope if the caller may not read the
    tenant.
    """
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    if last_version is None:
        with context.engine.open_snapshot(tenant) as snapshot:
            last_version = snapshot.find_last_version()
    return Export(
        context=context,
        access=access,
        tenant=tenant,
        now=context.clock(),
        report=report if report is not None else Report(),
        history=history,
        is_owner=not context.presets_of(tenant) and sees_everything(access, tenant),
        last_version=last_version,
    )


def continue_export(
    context: Context, access: Access, owner: str | None, history: bool, after: str | None
) -> tuple[Export, int]:
    """Return an export from a position on, and the number of the last version before that. Raises InvalidInput."""
    if after is None:
        return begin_export(context, access, owner, None, history), 0
    position = Position.parse(after)
    export = begin_export(context, access, owner, None, history, position.last_version)
    return export, position.after


def find_unstated_start(context: Context, version: Version) -> Instant | None:
    """Return the start of a version's validity if its document states another one, or none.

    The store chose it: a later version is valid from its last update, and none from a time after its arrival.
    """
    begins = version.state.valid_from
    if port_of(version.document.standard).record(version.document) is not None:
        return None
    return None if begins == project(context, version).valid_from else begins
