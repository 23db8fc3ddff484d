"""Moving grains in and out with what the index knows about them, many at a time and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from memoranda.encoding.json_text import parse
from memoranda.errors import Conflict, ConsentViolation, GrainError, MemorandaError
from memoranda.model.instant import LATEST, Instant
from memoranda.model.memory import Projection, Version
from memoranda.model.selection import Selection
from memoranda.service.core import cascade, compliance
from memoranda.service.core.access import Access
from memoranda.service.core.consent import may_read_personal
from memoranda.service.core.context import Context
from memoranda.service.core.protection import check_supersession, policy_fields
from memoranda.service.core.views import holds, outline, scope_of, ump_document
from memoranda.service.exchange import ImportReport
from memoranda.service.oms.grains import (
    Opened,
    admitted,
    audited,
    ensure_names,
    open_given,
    shown,
    space_of,
    tenant_of,
    write,
)
from memoranda.service.retrieve import read_page
from memoranda.service.ump import remember
from memoranda.service.ump.remember import Accepted
from memoranda.service.ump.revise import handover
from memoranda.standards.oms import manifest
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump import rules
from memoranda.storage.engine import Unit

PAGE_LIMIT = 500
BATCH_LIMIT = 200

# The number of a grain in the input, and why it, or what was known of it, was not taken in.
_Refused = tuple[int, MemorandaError]


def export(
    context: Context, access: Access, *, owner: str | None = None, namespace: str | None = None
) -> Iterator[tuple[bytes, IndexState]]:
    """Every grain that may leave, as it travels, with what the index knows; other memories as their views."""
    tenant, now = tenant_of(access, owner), context.clock()
    space = None if namespace is None else space_of(namespace)
    access.require_scope({**access.limits, "owner": tenant, **({"project": space} if space else {})})
    count = after = 0
    while True:
        with context.engine.read(tenant) as snapshot:
            page = read_page(snapshot, Selection(standing="all", space=space), after=after, limit=PAGE_LIMIT, now=now)
        if not page:
            break
        after = page[-1].version_id
        there = [each for each in page if not each.state.erased and each.state.tombstoned is None and holds(each)]
        ensure_names(context, tenant, there)
        for version in there:
            record = outline(context, version)
            scope = scope_of(record)
            if scope["visibility"] not in access.visibilities(tenant) or not access.within(scope):
                continue
            if record.get("consent", {}).get("exportable") is False or rules.redact(record)[1]:
                # What its own consent forbids or would cut cannot leave as a whole.
                continue
            if not compliance.may_leave(context.presets, version) or not may_read_personal(context, access, version):
                continue
            found = shown(context, version)
            count += 1
            yield found.delivery, found.index
    context.audit_read(tenant, audited(access, "export", now, (), tenant, space or "", f"{count} grains"))


def import_grains(
    context: Context,
    access: Access,
    items: Iterable[tuple[bytes, IndexState]],
    *,
    owner: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Take grains in, with their index; a bad one is reported and left out. Batches are all or nothing.

    The view of a UMP record of this owner comes back as that record.
    """
    taking = _Import(context, access, tenant_of(access, owner))
    for number, (delivery, index) in enumerate(items, start=1):
        taking.add(number, delivery, index)
        if progress and number % BATCH_LIMIT == 0:
            progress(number)
    return taking.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """A grain that may come in, and the record to write in its place if it is only the view of one."""

    number: int
    opened: Opened
    projection: Projection
    original: Accepted | None

    @property
    def address(self) -> str:
        return self.opened.grain.address


class _Import:
    """One import on its way. Of a grain without index state it remembers nothing."""

    def __init__(self, context: Context, access: Access, tenant: str) -> None:
        self._context = context
        self._access = access
        self._tenant = tenant
        self._report = ImportReport()
        self._batch: list[_Item] = []
        self._known: dict[str, tuple[int, IndexState]] = {}
        # Those of the known that were not here before.
        self._fresh: set[str] = set()
        # Successor to predecessor, so that what was one memory there becomes one memory here.
        self._priors: dict[str, str] = {}

    def add(self, number: int, delivery: bytes, index: IndexState) -> None:
        try:
            opened = open_given(self._context, delivery)
            projection = admitted(self._context, self._access, opened.grain, self._tenant)
        except MemorandaError as error:
            self._report.refuse(number, None, error)
            return
        address = opened.grain.address
        if index != IndexState():
            self._known[address] = (number, index)
            if index.superseded_by is not None:
                self._priors.setdefault(index.superseded_by, address)
        original = _original(self._context, self._access, opened, self._tenant)
        self._batch.append(_Item(number=number, opened=opened, projection=projection, original=original))
        if len(self._batch) >= BATCH_LIMIT:
            self._write()

    def finish(self) -> ImportReport:
        """Write what is left and then the index: a grain may lie in the file before its successor does."""
        self._write()
        known = list(self._known.items())
        for start in range(0, len(known), BATCH_LIMIT):
            some = known[start : start + BATCH_LIMIT]
            refused = self._context.engine.write(self._tenant, lambda unit, some=some: self._adopt(unit, some))  # type: ignore[misc]
            self._refuse(refused)
        cascade.finish(self._context, self._tenant)
        return self._report

    def _write(self) -> None:
        if not self._batch:
            return
        created, refused = self._context.engine.write(self._tenant, self._write_batch)
        self._report.created += len(created)
        self._report.merged += len(self._batch) - len(created) - len(refused)
        self._fresh |= created & self._known.keys()
        self._refuse(refused)
        self._batch.clear()

    def _write_batch(self, unit: Unit) -> tuple[set[str], list[_Refused]]:
        now = self._context.clock()
        created: set[str] = set()
        refused: list[_Refused] = []
        for item in self._batch:
            prior = self._priors.get(item.address)
            # A memory that was here before is joined only by who asks its policy.
            known = unit.named(oms.STANDARD, prior) if prior in self._fresh or prior in created else None
            try:
                if self._write_item(unit, item, None if known is None else known.memory_id, now):
                    created.add(item.address)
            except (Conflict, ConsentViolation) as error:  # raised before anything of this grain was written
                refused.append((item.number, error))
        return created, refused

    def _write_item(self, unit: Unit, item: _Item, memory_id: int | None, now: Instant) -> bool:
        """Whether it was new."""
        context, access, grain = self._context, self._access, item.opened.grain
        known = unit.named(oms.STANDARD, item.address)
        if item.original is None or (known is not None and not known.state.erased):
            delivery = item.opened.delivery
            stored = write(context, access, unit, grain, delivery, item.projection, now, memory_id=memory_id)
            return stored.result == "created"
        remembered = remember.write(context, access, unit, item.original, now, memory_id=memory_id)
        version = unit.named(ump.STANDARD, remembered.id)
        if version is not None:
            unit.add_name(version, oms.STANDARD, item.address)
        return remembered.result == "created"

    def _adopt(self, unit: Unit, some: list[tuple[str, tuple[int, IndexState]]]) -> list[_Refused]:
        refused: list[_Refused] = []
        for address, (number, index) in some:
            version = unit.named(oms.STANDARD, address)
            if version is None or version.state.erased:
                continue
            try:
                _adopt_index(unit, version, index, self._context.clock(), is_fresh=address in self._fresh)
            except GrainError as error:
                refused.append((number, error))
        return refused

    def _refuse(self, refused: list[_Refused]) -> None:
        for number, error in refused:
            self._report.refuse(number, None, error)


def _original(context: Context, access: Access, opened: Opened, tenant: str) -> Accepted | None:
    """The UMP record a grain is the view of, if the two fit exactly and the record holds and is this owner's."""
    inner = oms.unwrap(opened.grain)
    if inner is None or inner.standard != ump.STANDARD:
        return None
    try:
        accepted = remember.accept(context, access, parse(inner.native), context.clock())
        is_whole = ump_document(accepted.record) == inner and accepted.projection.scope.tenant == tenant
        # A grain that says anything else, or is signed, is more than a view.
        if is_whole and oms.from_projection(accepted.projection, inner).blob == opened.delivery:
            return accepted
    except MemorandaError:
        pass
    return None


def _adopt_index(unit: Unit, version: Version, index: IndexState, now: Instant, *, is_fresh: bool) -> None:
    """Put what another store's index knew beside a grain, never into it (OMS §11.7).

    What was here before stands under its policy also against a file. Raises GrainError.
    """
    state = version.state
    verdict = manifest.merge(IndexState(verification_status=state.verification), index).verification_status
    successor = unit.named(oms.STANDARD, index.superseded_by) if index.superseded_by and state.is_head else None
    if successor is not None and _leads_to(unit, successor, version):
        successor = None
    contests = verdict != state.verification and verdict in ("contested", "retracted")
    if not is_fresh and (successor is not None or contests):
        check_supersession(unit, version, {} if successor is None else policy_fields(successor), now=now)
    if verdict != state.verification:
        unit.set_verification(version, verdict)
    if successor is not None:
        closed = min(LATEST, Instant(index.system_valid_to or now))
        unit.close(version, successor=successor, valid_to=handover(version, successor.state.valid_from), now=closed)


def _leads_to(unit: Unit, start: Version, goal: Version) -> bool:
    """Whether one version is, or was superseded in the end by, another: a file must not close a circle."""
    seen: set[int] = set()
    at: Version | None = start
    while at is not None and at.version_id not in seen:
        if at.version_id == goal.version_id:
            return True
        seen.add(at.version_id)
        following = at.state.successor_names.get(oms.STANDARD)
        at = unit.named(oms.STANDARD, following) if following else None
    return False
