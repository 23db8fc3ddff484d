"""Moving memories in and out as records, many at a time and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from memoranda.errors import MemorandaError
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.model.selection import Selection
from memoranda.service.core import cascade, compliance
from memoranda.service.core.access import Access
from memoranda.service.core.audit import verify_tenant
from memoranda.service.core.consent import may_read_personal
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.find import find_visible
from memoranda.service.core.views import holds, redacted, scope_of, verifies, view
from memoranda.service.retrieve import read_page
from memoranda.service.ump.remember import Accepted, accept, with_defaults, write
from memoranda.standards.ump.audit import ChainReport
from memoranda.standards.ump.record import Record
from memoranda.storage.engine import Unit

PAGE_LIMIT = 500
# Records written in one unit of an import: large enough to be fast, small enough that others get their turn.
BATCH_LIMIT = 200
REFUSALS_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A record that was not taken in, by its place in the input (from 1), and why."""

    index: int
    id: str
    code: str
    message: str


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """What an import did. The first refusals are listed; `refused` counts all."""

    created: int = 0
    merged: int = 0
    refused: int = 0
    refusals: list[Refusal] = field(default_factory=list)

    def refuse(self, index: int, draft: object, error: MemorandaError) -> None:
        self.refused += 1
        if len(self.refusals) < REFUSALS_LIMIT:
            name = draft.get("id", "") if isinstance(draft, dict) else ""
            shown = name if isinstance(name, str) else ""
            self.refusals.append(Refusal(index=index, id=shown, code=error.code, message=error.message))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What a check of a tenant's whole memory found."""

    records: int
    unverified: tuple[str, ...]
    audit: ChainReport
    database: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.unverified and self.audit.ok and not self.database


def export_records(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    project: str | None = None,
    history: bool = True,
    names: Sequence[str] | None = None,
) -> Iterator[Record]:
    """Everything that may leave, in the order it was written (UMP §2.7: `exportable`, and `redact` always).

    With `names`, only the records of these ids, in this order.
    """
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    asked = {"owner": tenant, **({"project": project} if project else {})}
    access.require_scope({"visibility": access.limits.get("visibility"), **asked})
    count = 0
    now = context.clock()
    found = _records(context, access, tenant, project, now) if names is None else _named(context, access, names, now)
    for record in found:
        scope = scope_of(record)
        if scope["owner"] != tenant or project not in (None, scope.get("project")):
            continue
        if scope["visibility"] not in access.visibilities(tenant) or not access.within(scope):
            continue
        if record.get("consent", {}).get("exportable") is False or _is_over(record, history):
            continue
        count += 1
        yield redacted(record, context.operator)
    entry = audit_entry(access, "export", now=now, scope=asked, result=f"{count} records", meta={"count": count})
    context.audit_read(tenant, entry)


def _is_over(record: Record, history: bool) -> bool:
    # What was forgotten does not leave. What was superseded does, unless only the present is wanted.
    if record.get("lifecycle", {}).get("status") == "tombstoned":
        return True
    return not history and bool(record.get("superseded_by"))


def _may_leave(context: Context, access: Access, version: Version) -> bool:
    return compliance.may_leave(context.presets, version) and may_read_personal(context, access, version)


def _records(context: Context, access: Access, tenant: str, project: str | None, now: Instant) -> Iterator[Record]:
    after = 0
    while True:
        with context.engine.read(tenant) as snapshot:
            everything = Selection(standing="all", space=project)
            page = read_page(snapshot, everything, after=after, limit=PAGE_LIMIT, now=now)
        if not page:
            return
        for version in page:
            if holds(version) and _may_leave(context, access, version):
                yield view(context, version, now)
        after = page[-1].version_id


def _named(context: Context, access: Access, names: Sequence[str], now: Instant) -> Iterator[Record]:
    for name in names:
        version, record = find_visible(context, access, name, now)
        if _may_leave(context, access, version):
            yield record


def import_records(
    context: Context,
    access: Access,
    drafts: Iterable[object],
    *,
    owner: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Take records in. A bad one is reported and left out; the rest go on. Batches are all or nothing."""
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    report = ImportReport()
    batch: list[tuple[int, Accepted]] = []
    now = context.clock()
    for index, draft in enumerate(drafts, start=1):
        filled = with_defaults(context, access, draft, method="import", actor_kind="import")
        try:
            accepted = accept(context, access, filled, now)
            if accepted.projection.scope.tenant != tenant:
                tenant = _switch(context, access, batch, tenant, accepted, report)
            batch.append((index, accepted))
        except MemorandaError as error:
            report.refuse(index, draft, error)
        if len(batch) >= BATCH_LIMIT:
            _write_batch(context, access, tenant, batch, report)
            if progress:
                progress(index)
    _write_batch(context, access, tenant, batch, report)
    return report


def _switch(
    context: Context,
    access: Access,
    batch: list[tuple[int, Accepted]],
    tenant: str,
    accepted: Accepted,
    report: ImportReport,
) -> str:
    """Another owner's record follows: finish what belongs to the last one."""
    _write_batch(context, access, tenant, batch, report)
    return accepted.projection.scope.tenant


def _write_batch(
    context: Context, access: Access, tenant: str, batch: list[tuple[int, Accepted]], report: ImportReport
) -> None:
    if not batch:
        return
    now = context.clock()

    def work(unit: Unit) -> tuple[list[str], list[tuple[int, Accepted, MemorandaError]]]:
        results: list[str] = []
        refused: list[tuple[int, Accepted, MemorandaError]] = []
        for index, accepted in batch:
            try:
                results.append(write(context, access, unit, accepted, now).result)
            except MemorandaError as error:  # raised before anything of this record was written
                refused.append((index, accepted, error))
        return results, refused

    results, refused = context.engine.write(tenant, work)
    report.created += results.count("created")
    report.merged += results.count("merged")
    for index, accepted, error in refused:
        report.refuse(index, accepted.draft, error)
    if any(accepted.projection.withdraws for _, accepted in batch):
        cascade.finish(context, tenant)
    batch.clear()


def verify_all(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> VerifyReport:
    """Check every record's signature, the audit chain, and the database itself."""
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    context.engine.flush()
    unverified: list[str] = []
    count, after = 0, 0
    while True:
        with context.engine.read(tenant) as snapshot:
            everything = Selection(standing="all")
            page = read_page(snapshot, everything, after=after, limit=PAGE_LIMIT, now=context.clock())
        if not page:
            break
        for version in page:
            count += 1
            if not (version.state.erased or verifies(version)):
                unverified.append(version.document.name)
        after = page[-1].version_id
        if progress:
            progress(count)
    return VerifyReport(
        records=count,
        unverified=tuple(unverified),
        audit=verify_tenant(context.engine, tenant),
        database=tuple(context.engine.check()),
    )
