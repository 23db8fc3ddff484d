"""Imports: the one loop for every form, many memories at a time and in bounded memory (out: `exporting`).

Items pass four stages. A reader yields them (`Item`). Each is checked and prepared (`unwrap`): the item itself, or the
document that it is the view of. A batch of prepared items is compared with the store on a snapshot (`BatchLookup`), so
that as much as possible is done before the writer's turn. The batch is then written in one unit of work, all or
nothing; while it goes to the disk, the next one is prepared.

An item that is stored already is recognised by its own name. So importing a file again, after an interrupt or as a
precaution, changes nothing and continues where the first run stopped. A memory and its successor find each other by the
names in their form, whichever comes first (`ancestry`): a version whose successor has not arrived waits in `_links`,
and is closed at the end if it does not arrive.

A refused item is reported and skipped. A dry run does everything and rolls back at the end of each batch.

Guide to the pieces: `Item` (what a reader yields) → `unwrap.prepare_…` (`PreparedItem`, checked) → `BatchLookup` (what
the store has) → `_write_batch` in a unit → `ancestry` and `LineFinder` (which version follows which) → `Report`. A
change in how versions are linked belongs into `ancestry` or `batch_lookup`, and needs the random tests `tests/exports`
(`--orders`, `--paths`).

Rules: the order of items must not matter for the result; a batch may run twice; nothing may be written for a refused
item; and a second import of the same file must change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from memoranda.encoding.garbage import collect_seldom
from memoranda.errors import GrainError, MemorandaError
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.service.core import cascade
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lifecycle import note_remote_successor
from memoranda.service.core.memory_line import get_time_forgotten
from memoranda.service.core.protection import check_supersession, read_policy_fields
from memoranda.service.exchange import adoption, ancestry, unwrap
from memoranda.service.exchange.adoption import Adoption, NamespaceMapping
from memoranda.service.exchange.ancestry import WaitingVersion
from memoranda.service.exchange.batch_lookup import (
    BatchLookup,
    LineFinder,
    Outcome,
    PreparedItem,
    add_view_names,
    check_authority,
    get_fact,
)
from memoranda.service.exchange.import_records import ImportRecord, resume_import
from memoranda.service.exchange.report import Form, Report
from memoranda.service.exchange.unwrap import find_written_version
from memoranda.service.oms import authority
from memoranda.service.ump.remember import NewParts, with_defaults
from memoranda.standards.oams.namespace import Namespace
from memoranda.standards.oms import manifest
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot, Unit
from memoranda.storage.engine.database import PendingWrite
from memoranda.storage.index.word_index import load_builder

# Items in one unit of work: large enough to be fast, small enough that other writers get their turn.
BATCH_LIMIT: Final = 300
_OPS: Final[dict[Form, str]] = {"ump": "import", "oams": "oams.import", "oms": "oms.import"}
# Outcomes after which a memory has another version.
_CHANGED: Final = ("created", "updated")
Progress = Callable[[int], None]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One memory as a file contains it, or the error that prevents reading it, with its position.

    Made by the readers of `bindings/files`. `error` is set if a line could not be read, so that it is reported with its
    position.
    """

    form: Form
    # A record, an OAMS memory, or the bytes of a grain.
    value: Any = None
    where: str = ""
    number: int = 0
    # The bytes of an OAMS memory, if they are to be stored unchanged.
    raw: bytes | None = None
    # The index entry of a grain in its container.
    index: IndexState = DEFAULT
    error: MemorandaError | None = None
    warnings: tuple[str, ...] = ()
    # True if the reader has checked it by the rules of its standard.
    is_checked: bool = False
    # Another address under which the grain is known, in the file and to those who have it.
    alias: str = ""
    # True if it is from another system, where the owner of a namespace is the person who imports it.
    is_foreign: bool = False

    @property
    def name(self) -> object:
        """The name in its form, for a report."""
        value = self.value
        return (
            value.get("key" if self.form == "oams" else "id") if isinstance(value, dict) else None
        )


def number_items(form: Form, values: Iterable[Any], *, first: int = 1) -> Iterator[Item]:
    """Yield values that come from no file as items whose position is their number."""
    for number, value in enumerate(values, start=first):
        yield Item(form=form, value=value, where=f"line {number}", number=number)


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Choices of how an import treats its items."""

    # Makes all memories the caller's own.
    adopt: bool = False
    # Puts memories of OAMS into another namespace.
    into: Namespace | None = None
    # Also imports memories that were deleted here, which an old file must not do by default.
    restore: bool = False
    # Reports what would happen, and writes nothing.
    is_dry: bool = False
    # Records the import under this label, so that it can be undone.
    label: str | None = None


DEFAULT_OPTIONS: Final = ImportOptions()


def import_items(
    context: Context,
    access: Access,
    items: Iterable[Item],
    options: ImportOptions,
    *,
    owner: str | None = None,
    progress: Progress | None = None,
    report: Report | None = None,
) -> Report:
    """Import memories. Invalid ones are reported and skipped; batches are all or nothing.

    `owner` is for operators, who may import for somebody else. `progress` gets the number of items handled so far.
    Raises ForbiddenScope; errors of items are in the report.
    """
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    report = report if report is not None else Report()
    run = _Import(context, access, tenant, options, report, progress)
    run.run(items)
    return run.report


class ImportPart(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one part of an import: its report, the name to continue with, and what waits for a successor."""

    report: Report
    name: str | None
    waiting: Sequence[tuple[str, str]]

    def document(self) -> dict[str, Any]:
        """Return the result as JSON."""
        waiting = [
            {"where": location, "successor": successor} for location, successor in self.waiting
        ]
        return {"report": self.report.document(), "import": self.name, "waiting": waiting}


def import_part(
    context: Context,
    access: Access,
    items: Iterable[Item],
    options: ImportOptions,
    *,
    name: str | None = None,
) -> ImportPart:
    """Import one part of a larger import; `name` is the name under which the part before was recorded.

    A memory whose successor is not here is hidden until that arrives, with a later part or never. The caller knows
    which parts follow, and warns at the end.

    Used over HTTP, where a file arrives in several requests.
    """
    run = _Import(context, access, access.default_tenant, options, Report())
    if name is not None:
        run.record = resume_import(context, access, name)
    waiting: list[tuple[str, str]] = []
    run.waiting = waiting
    run.run(items)
    name_on_record = None if run.record is None else run.record.id or None
    return ImportPart(report=run.report, name=name_on_record, waiting=waiting)


_Batch = list[tuple[Item, PreparedItem]]
_Links = dict[tuple[Form, str], WaitingVersion]


class _DryRunEnd(Exception):
    """Raised at the end of a dry run's unit of work, so that it is rolled back."""

    def __init__(self, result: _BatchResult) -> None:
        self.result = result


class _BatchResult(msgspec.Struct):
    """The outcomes of a batch, and the versions that wait for a successor after it."""

    links: _Links
    # Versions that are superseded already, by the name of the successor that their file states.
    closed_links: dict[tuple[Form, str], int]
    outcomes: list[Outcome | MemorandaError] = msgspec.field(default_factory=list)
    # The ends of delegations to the authors of its grains.
    ends: authority.DelegationEnds = msgspec.field(default_factory=dict)
    # Items that were written but may not supersede what they name.
    unlinked: list[tuple[Item, MemorandaError]] = msgspec.field(default_factory=list)


class _WrittenItem(NamedTuple):
    """An item with its stored version, before what its file knows about the version is adopted."""

    item: Item
    prepared_item: PreparedItem
    version: Version
    # True if this import created it.
    is_fresh: bool
    # The stored version that supersedes it.
    later_version: Version | None


def _changes_nothing(
    item: Item, prepared_item: PreparedItem, result: _BatchResult, lookup: BatchLookup
) -> bool:
    """Return True if an item that is stored already changes nothing, neither itself nor its neighbours."""
    waits = (item.form, prepared_item.name_in_form) in result.links or (
        item.form,
        prepared_item.alias or "",
    ) in result.links
    states_succession = prepared_item.successor is not None or prepared_item.index is not DEFAULT
    return not (states_succession or waits) and lookup.stays_superseded(prepared_item)


class _Import:
    """One import in progress.

    Its fields are changed only between units of work, by `_finish_batch`, so that a unit that runs twice starts from
    the same state.
    """

    def __init__(
        self,
        context: Context,
        access: Access,
        tenant: str,
        options: ImportOptions,
        report: Report,
        progress: Progress | None = None,
    ) -> None:
        self._context, self._access, self._tenant = context, access, tenant
        self.report = report
        self._is_dry = options.is_dry
        self._progress = progress
        self._links: _Links = {}
        self._closed_links: dict[tuple[Form, str], int] = {}
        self._count_before = report.imported_count + report.refused
        # The namespaces and the owner of the items, if they change.
        self.renaming: NamespaceMapping | None = None
        self.adoption: Adoption | None = None
        if options.adopt or options.into is not None:
            self.renaming = NamespaceMapping(into=options.into, tenant=access.default_tenant)
            if options.adopt:
                self.adoption = Adoption(context=context, access=access, namespaces=self.renaming)
        self.restores = options.restore
        self.record = None if options.label is None else ImportRecord(options.label)
        # Collects what waits for a successor, if more parts follow; None: it is warned of.
        self.waiting: list[tuple[str, str]] | None = None
        # The batch that is being committed.
        self._pending: tuple[_Batch, PendingWrite[_BatchResult]] | None = None

    def run(self, items: Iterable[Item]) -> None:
        """Import all items, then close what waits for a successor."""
        with collect_seldom():
            try:
                self._write_all(items)
            finally:
                # Also after a failure of the reader: a batch that was begun is stored, and is counted.
                self._finish_batch()
            self._close_waiting()
            if not self._is_dry:
                cascade.erase_withdrawn(self._context, self._tenant)

    def _write_all(self, items: Iterable[Item]) -> None:
        """Write batch after batch: each is committed while the next is prepared."""
        batch: _Batch = []
        # A record that merges into another one of the same batch starts a new batch: otherwise the merged record would
        # be signed in the writer's turn.
        facts: set[str] = set()
        for item in items:
            prepared_item = self._prepare_item(item)
            if prepared_item is None:
                continue
            fact = get_fact(prepared_item)
            if batch and (
                len(batch) == BATCH_LIMIT
                or fact in facts
                or (batch[-1][1].tenant, batch[-1][0].form) != (prepared_item.tenant, item.form)
            ):
                self._begin_batch(batch)
                batch, facts = [], set()
            batch.append((item, prepared_item))
            if fact:
                facts.add(fact)
        if batch:
            self._begin_batch(batch)

    def _prepare_item(self, item: Item) -> PreparedItem | None:
        """Return an item ready to be written; None if it is refused, which is reported."""
        self.report.forms.add(item.form)
        for warning in item.warnings:
            self.report.warn(item.where, warning)
        if item.value is None and item.error is None and item.warnings:
            return None
        try:
            if item.error is not None:
                raise item.error
            prepared_item = self._check_item(item)
        except MemorandaError as error:
            if self.renaming is None and (
                why := adoption.explain_foreign_owner(self._access, item.form, item.value)
            ):
                error.message = why
                error.args = (error.message,)
            self.report.refuse(item.where, item.name, error, number=item.number)
            return None
        for warning in prepared_item.warnings:
            self.report.warn(item.where, warning)
        return prepared_item

    def _check_item(self, item: Item) -> PreparedItem:
        """Return an item checked by the rules of its form. Raises MemorandaError."""
        context, access, adopts, now = (
            self._context,
            self._access,
            self.adoption,
            self._context.clock(),
        )
        if item.form == "oms":
            grain_item = unwrap.prepare_grain(
                context, access, item.value, item.index, self._tenant, now, adopts
            )
            return replace(grain_item, name_in_form=item.alias) if item.alias else grain_item
        if item.form == "oams":
            memory = item.value
            if self.renaming is not None and isinstance(memory, dict):
                memory = self.renaming.apply(memory, is_foreign=item.is_foreign)
            raw = item.raw if memory is item.value else None
            return unwrap.prepare_memory(
                context, access, memory, raw, now, adopts, is_checked=item.is_checked
            )
        draft = with_defaults(context, access, item.value, method="import", actor_kind="import")
        return unwrap.prepare_record(context, access, draft, now, adopts)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _prepare_batch(self, batch: _Batch) -> tuple[_Batch, BatchLookup]:
        """Return a batch with all that can be computed before the writer's turn, and the lookup it is based on."""
        context = self._context
        with context.engine.open_snapshot(batch[0][1].tenant) as snapshot:
            before = BatchLookup.look_up(
                context, snapshot, [prepared_item for _, prepared_item in batch]
            )
            now, prepared_batch = context.clock(), []
            for item, prepared_item in batch:
                settled_item = (
                    unwrap.precompute(context, snapshot, prepared_item, before.heads, now)
                    if before.may_affect(prepared_item)
                    else prepared_item
                )
                if settled_item.settled is not None and not _is_named(
                    snapshot, item, prepared_item
                ):
                    # A view may add a name to the document.
                    settled_item = replace(settled_item, settled=None)
                prepared_batch.append((item, settled_item))
            return prepared_batch, before

    def _begin_batch(self, batch: _Batch) -> None:
        """Write a batch after the one before it, without waiting for its commit."""
        self._finish_batch()
        prepared_batch, before = self._prepare_batch(batch)
        load_builder(len(batch))
        pending = self._context.engine.start_write(
            batch[0][1].tenant, lambda unit: self._write_batch(unit, prepared_batch, before)
        )
        # Set before the wait, so that the batch is counted even if the wait is interrupted.
        self._pending = prepared_batch, pending
        pending.wait_until_performed()

    def _finish_batch(self) -> None:
        """Wait for the batch that is being committed, and count its outcomes."""
        if self._pending is None:
            return
        (batch, pending), self._pending = self._pending, None
        try:
            result = pending.result()
            self._context.engine.merge_large_segments()
        except _DryRunEnd as end:
            result = end.result
        self._links, self._closed_links = result.links, result.closed_links
        for (item, prepared_item), outcome in zip(batch, result.outcomes, strict=True):
            if isinstance(outcome, MemorandaError):
                self.report.refuse(
                    item.where, prepared_item.name_in_form or item.name, outcome, number=item.number
                )
            else:
                self._count(item, prepared_item, outcome)
        for item, error in result.unlinked:
            self.report.refuse(item.where, item.name, error, number=item.number)
        if self._progress is not None:
            self._progress(self.report.imported_count + self.report.refused - self._count_before)

    def _count(self, item: Item, prepared_item: PreparedItem, outcome: Outcome) -> None:
        """Count the outcome of an item in the report."""
        name: str = outcome
        if outcome == "forgotten":
            self.report.skip_forgotten(f"{item.where}: {prepared_item.name_in_form or item.name}")
            return
        if outcome in ("known", "merged"):
            name = "unchanged" if item.form == "oams" else "merged"
        setattr(self.report, name, getattr(self.report, name) + 1)

    def _write_batch(self, unit: Unit, batch: _Batch, lookup: BatchLookup) -> _BatchResult:
        """Write a batch in a unit of work. It may run twice, so it changes nothing in this object.

        Returns the outcome of each item in order. Errors raised by an item must come before it has written anything.
        """
        now, first = self._context.clock(), unit.find_last_version()
        result = _BatchResult(dict(self._links), dict(self._closed_links))
        moved = unit.list_changed_memories(lookup.change_seq)
        lookup_now = lookup.refresh(
            self._context, unit, [prepared_item for _, prepared_item in batch]
        )
        lookup_now.heads.prefetch(
            [
                prepared_item.accepted_memory
                for _, prepared_item in batch
                if prepared_item.accepted_memory is not None and not prepared_item.settled
            ],
            now,
        )
        created: list[str] = []
        for item, prepared_item in batch:
            try:
                if (
                    prepared_item.settled is not None
                    and prepared_item.settled[0] not in moved
                    and _changes_nothing(item, prepared_item, result, lookup_now)
                ):
                    outcome = prepared_item.settled[1]
                elif prepared_item.accepted_memory is not None:
                    outcome = self._write_memory(unit, prepared_item, lookup_now, now)
                elif self._is_forgotten(unit, prepared_item, lookup_now):
                    outcome = "forgotten"
                else:
                    outcome = self._write_version(
                        unit, item, prepared_item, result, now, lookup_now
                    )
            except MemorandaError as error:  # raised before anything of this memory was written
                result.outcomes.append(error)
                continue
            result.outcomes.append(outcome)
            if outcome == "created":
                created.append(prepared_item.name)
        self._audit_batch(unit, batch[0], result, created, now)
        if self._is_dry:
            raise _DryRunEnd(result)
        if self.record is not None:
            self.record.add_batch(unit, first, now)
        return result

    def _audit_batch(
        self,
        unit: Unit,
        first: tuple[Item, PreparedItem],
        result: _BatchResult,
        created: list[str],
        now: Instant,
    ) -> None:
        """Record a batch in the audit log; all its items have the form and the tenant of the first."""
        item, prepared_item = first
        count = sum(not isinstance(outcome, MemorandaError) for outcome in result.outcomes)
        entry = audit_entry(
            self._access,
            _OPS[item.form],
            now=now,
            targets=tuple(created),
            scope={"owner": prepared_item.tenant},
            result=f"{count} imported, {len(created)} created",
        )
        unit.record_audit(entry)

    def _write_memory(
        self, unit: Unit, prepared_item: PreparedItem, lookup: BatchLookup, now: Instant
    ) -> Outcome:
        """Write an OAMS memory after the head of its key, if there is one."""
        assert prepared_item.accepted_memory is not None
        prior, may_follow = lookup.heads.head_and_permission(prepared_item.accepted_memory)
        if prior is None and not self.restores:
            forgotten = lookup.heads.time_forgotten(prepared_item.accepted_memory)
            if forgotten is not None and prepared_item.names.observed <= forgotten:
                return "forgotten"
        lines = self._lines(unit, lookup, now)
        if prior is None and (last := lines.find_line_end(prepared_item)) is not None:
            forgotten = get_time_forgotten(last) if last.state.is_forgotten else None
            if (
                forgotten is not None
                and not self.restores
                and prepared_item.names.observed <= forgotten
            ):
                return "forgotten"
            prior, may_follow = (last if lines.may_follow(prepared_item, last) else None), False
        outcome = prepared_item.write(unit, prior, now, NewParts(may_follow=may_follow))
        successor = lines.find_later(prepared_item) if outcome == "created" else None
        if outcome == "known" or not (prepared_item.predecessors or successor):
            return outcome
        version = unit.find_by_name(prepared_item.standard, prepared_item.name)
        if version is None or not version.state.is_head:
            return outcome
        ancestry.add_claims(unit, version, prepared_item.predecessors, lookup.known_names)
        if successor is not None and version.memory_id != successor.memory_id:
            ancestry.close_version(unit, version, successor, now)
        return outcome

    def _lines(self, unit: Unit, lookup: BatchLookup, now: Instant) -> LineFinder:
        return LineFinder(
            context=self._context,
            access=self._access,
            unit=unit,
            lookup=lookup,
            now=now,
            restores=self.restores,
        )

    def _is_forgotten(self, unit: Unit, prepared_item: PreparedItem, lookup: BatchLookup) -> bool:
        """Return True if a memory was deleted here, itself or with its predecessor or successor.

        An old file does not bring it back; only `restore` does.
        """
        if self.restores:
            return False
        lines = self._lines(unit, lookup, self._context.clock())
        later_version = lines.find_later(prepared_item, lines.find_keyed(prepared_item))
        if later_version is not None and later_version.state.is_forgotten:
            return True
        if (prepared_item.standard, prepared_item.name) not in lookup.known_names:
            return lookup.went_with_predecessor(prepared_item)
        version = unit.find_by_name(prepared_item.standard, prepared_item.name)
        if version is None or not version.state.is_forgotten:
            return False
        # Another store may have written a memory again after it was forgotten here, but only one with a key.
        forgotten = get_time_forgotten(version)
        return (
            prepared_item.written_at is None
            or forgotten is None
            or prepared_item.written_at <= forgotten
        )

    # --- what follows what -------------------------------------------------------------------------------------------

    def _write_version(
        self,
        unit: Unit,
        item: Item,
        prepared_item: PreparedItem,
        result: _BatchResult,
        now: Instant,
        lookup: BatchLookup,
    ) -> Outcome:
        """Write an item as the next version of the memory that it supersedes, if that is stored."""
        waiting = _take_waiting(item, prepared_item, result)
        closed_id = result.closed_links.pop((item.form, prepared_item.name_in_form), None)
        lines = self._lines(unit, lookup, now)
        keyed = lines.find_keyed(prepared_item, closed_id)
        priors, missing, refusals = lines.find_priors(prepared_item, waiting, keyed)
        result.unlinked += [(item, error) for error in refusals]
        prior = priors[0] if priors else None
        if (
            port_of(prepared_item.standard).has_own_fields
            and (prepared_item.standard, prepared_item.name) not in lookup.known_names
        ):
            check_authority(unit, prepared_item, prior, now, result.ends)
        outcome = prepared_item.write(unit, prior, now, lookup.mark_known(prepared_item))
        if prepared_item.fields.get("relation") == authority.DELEGATES_TO:
            result.ends.clear()
        is_view = _is_view(item, prepared_item)
        later_version = lines.find_later(prepared_item, keyed) if outcome in _CHANGED else None
        if later_version is not None:
            lines.join(prepared_item)
        states_succession = (
            prepared_item.successor is not None or prepared_item.index is not DEFAULT
        )
        if not (priors or missing or later_version or states_succession or is_view):
            return outcome
        # A delegation may be closed below.
        result.ends.clear()
        version = find_written_version(unit, prepared_item)
        if version is None:
            _note_later_version(unit, item, prepared_item, result)
        if version is None or version.state.erased:
            return outcome
        if is_view:
            add_view_names(unit, version, prepared_item)
        ancestry.close_priors(unit, item.form, version, priors, waiting, now)
        lookup.known_names.update(ancestry.add_claims(unit, version, missing, lookup.known_names))
        try:
            written_item = _WrittenItem(
                item, prepared_item, version, outcome == "created", later_version
            )
            waiting = self._adopt_index(unit, written_item, result, now)
        except GrainError as error:
            result.unlinked.append((item, error))
        else:
            if waiting is not None and prepared_item.successor is not None:
                result.links[item.form, prepared_item.successor] = waiting
        return outcome

    def _adopt_index(
        self, unit: Unit, written_item: _WrittenItem, result: _BatchResult, now: Instant
    ) -> WaitingVersion | None:
        """Store what another store knew about a version: beside it, never in it (OMS §11.7). Raises GrainError.

        Return the version if it waits for its successor.

        A store may know more about a version than its document says: a verdict, the time at which it was closed, its
        successor.
        """
        item, prepared_item, version, is_fresh, later_version = written_item
        own_index = IndexState(verification_status=version.state.verification)
        verdict = manifest.merge(own_index, prepared_item.index).verification_status
        if verdict != version.state.verification:
            if not is_fresh and verdict in ("contested", "retracted"):
                check_supersession(unit, version, {}, now=now)
            unit.set_verification(version, verdict, now=now)
        closed_at = prepared_item.index.system_valid_to
        if not version.state.is_head:
            if prepared_item.successor is not None:
                result.closed_links[item.form, prepared_item.successor] = version.version_id
            return None
        waiting = WaitingVersion(
            version_id=version.version_id,
            is_fresh=is_fresh,
            valid_to=prepared_item.valid_to,
            closed=closed_at,
            where=item.where,
            names=prepared_item.successor_names,
        )
        if later_version is not None and later_version.version_id != version.version_id:
            ancestry.close_version(unit, version, later_version, now, waiting)
            if prepared_item.successor is not None:
                result.closed_links[item.form, prepared_item.successor] = version.version_id
            return None
        if prepared_item.successor is None:
            if closed_at is not None and version.state.closed is None and is_fresh:
                # It was superseded there by a memory that was not exported.
                ancestry.close_version(unit, version, None, now, waiting)
            return None
        is_closed = self._close_if_present(unit, item.form, prepared_item.successor, waiting, now)
        return None if is_closed else waiting

    def _close_if_present(
        self, unit: Unit, form: Form, successor_name: str, waiting: WaitingVersion, now: Instant
    ) -> bool:
        """Close a version if its successor is stored; return True if it is."""
        successor = ancestry.find_version(unit, (form, successor_name))
        if successor is None:
            return False
        prior = ancestry.load_open_version(unit, waiting)
        # A forgotten successor stays forgotten, and does not close a memory that is current here.
        is_settled = prior is None or (successor.state.is_forgotten and not waiting.is_fresh)
        if (
            prior is not None
            and not is_settled
            and not ancestry.leads_to(unit, form, successor, prior)
        ):
            if not waiting.is_fresh:
                check_supersession(unit, prior, read_policy_fields(successor), now=now)
            ancestry.close_version(unit, prior, successor, now, waiting)
        return True

    def _close_waiting(self) -> None:
        """Close the versions whose successors came another way, or did not come at all."""
        if not self._links or self._is_dry:
            return
        waiting = list(self._links.items())
        for start in range(0, len(waiting), BATCH_LIMIT):
            batch = waiting[start : start + BATCH_LIMIT]
            end = partial(self._close_batch, batch=batch)
            refused, missing = self._context.engine.write(self._tenant, end)
            for location, error in refused:
                self.report.refuse(location, None, error)
            if self.waiting is not None:
                self.waiting += missing
                continue
            for location, name in missing:
                self.report.warn(location, ancestry.missing_successor_warning(name))

    def _close_batch(
        self, unit: Unit, batch: list[tuple[tuple[Form, str], WaitingVersion]]
    ) -> tuple[list[tuple[str, MemorandaError]], list[tuple[str, str]]]:
        """Mark waiting versions as superseded; return those that are refused, and those whose successor is missing.

        A version without its successor is closed, too: a file must not revive it.
        """
        now = self._context.clock()
        refused: list[tuple[str, MemorandaError]] = []
        missing: list[tuple[str, str]] = []
        for (form, name), waiting in batch:
            try:
                if self._close_if_present(unit, form, name, waiting, now):
                    continue
            except GrainError as error:
                refused.append((waiting.where, error))
                continue
            missing.append((waiting.where, name))
            prior = ancestry.load_open_version(unit, waiting)
            if prior is None or prior.state.closed is not None:
                continue
            try:
                if not waiting.is_fresh:
                    ancestry.require_supersession(unit, prior, {}, now)
            except GrainError as error:
                refused.append((waiting.where, error))
                continue
            ancestry.close_version(unit, prior, None, now, waiting)
            note_remote_successor(unit, prior, waiting.names)
        return refused, missing


def _is_view(item: Item, prepared_item: PreparedItem) -> bool:
    """Return True if an item gives its document other names than the document has itself."""
    return (
        item.form == oms.STANDARD != prepared_item.standard
        or prepared_item.name_in_file is not None
        or bool(item.alias)
    )


def _is_named(snapshot: Snapshot, item: Item, prepared_item: PreparedItem) -> bool:
    """Return True if the names that an item gives to its document are stored."""
    if prepared_item.name_in_file is not None:
        return ancestry.find_version(snapshot, prepared_item.name_in_file) is not None
    return (
        item.form != oms.STANDARD
        or snapshot.find_by_name(oms.STANDARD, prepared_item.name_in_form) is not None
    )


def _take_waiting(
    item: Item, prepared_item: PreparedItem, result: _BatchResult
) -> WaitingVersion | None:
    """Return the version that waits for an item, which no longer waits."""
    waiting = result.links.pop((item.form, prepared_item.name_in_form), None)
    if waiting is None and prepared_item.alias is not None:
        waiting = result.links.pop((item.form, prepared_item.alias), None)
    return waiting


def _note_later_version(
    unit: Unit, item: Item, prepared_item: PreparedItem, result: _BatchResult
) -> None:
    """Note the stored version of a key for the successor that an older version of it names."""
    keyed = unit.find_by_name(prepared_item.standard, prepared_item.name)
    if keyed is not None and prepared_item.successor is not None:
        result.closed_links[item.form, prepared_item.successor] = keyed.version_id
