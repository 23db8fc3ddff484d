"""Moving grains in and out with what the index knows about them, many at a time and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from memoranda.errors import MemorandaError
from memoranda.model.instant import Instant
from memoranda.model.memory import Projection
from memoranda.service import compliance
from memoranda.service.access import Access
from memoranda.service.context import Context
from memoranda.service.exchange import ImportReport
from memoranda.service.grains import Opened, admitted, audited, open_given, shown, space_of, tenant_of, write
from memoranda.service.views import holds, scope_of, view
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.ump import rules
from memoranda.storage.engine import Unit

PAGE_LIMIT = 500
BATCH_LIMIT = 200


def export(
    context: Context, access: Access, *, owner: str | None = None, namespace: str | None = None
) -> Iterator[tuple[bytes, IndexState]]:
    """Every grain that may leave, as it travels, with what the index knows; other memories as their views."""
    access.require("export")
    tenant, now = tenant_of(access, owner), context.clock()
    space = None if namespace is None else space_of(namespace)
    access.require_scope({**access.limits, "owner": tenant, **({"project": space} if space else {})})
    count = after = 0
    while True:
        with context.engine.read(tenant) as snapshot:
            page = snapshot.page(after, PAGE_LIMIT, space)
        if not page:
            break
        after = page[-1].version_id
        for version in page:
            if version.state.erased or version.state.tombstoned is not None or not holds(version):
                continue
            record = view(context, version, now)
            scope = scope_of(record)
            if scope["visibility"] not in access.visibilities(tenant) or not access.within(scope):
                continue
            if record.get("consent", {}).get("exportable") is False or rules.redact(record)[1]:
                # What its own consent forbids or would cut cannot leave as a whole.
                continue
            found = shown(context, version)
            if not compliance.may_export(context.presets, found.grain.fields):
                continue
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
    """Take grains in, with their index; a bad one is reported and left out. Batches are all or nothing."""
    access.require("write")
    tenant = tenant_of(access, owner)
    report = ImportReport()
    batch: list[tuple[Opened, Projection]] = []
    known: list[tuple[str, IndexState]] = []
    for number, (delivery, index) in enumerate(items, start=1):
        try:
            opened = open_given(context, delivery)
            batch.append((opened, admitted(context, access, opened.grain, tenant)))
            if index != IndexState():
                known.append((opened.grain.address, index))
        except MemorandaError as error:
            report.refuse(number, None, error)
        if len(batch) >= BATCH_LIMIT:
            _write_batch(context, access, tenant, batch, report)
            if progress:
                progress(number)
    _write_batch(context, access, tenant, batch, report)
    # After all grains are there: a grain may lie in the file before its successor does.
    for start in range(0, len(known), BATCH_LIMIT):
        some = known[start : start + BATCH_LIMIT]
        context.engine.write(tenant, lambda unit, some=some: _adopt_index(context, unit, some))  # type: ignore[misc]
    return report


def _write_batch(
    context: Context, access: Access, tenant: str, batch: list[tuple[Opened, Projection]], report: ImportReport
) -> None:
    if not batch:
        return
    now = context.clock()

    def work(unit: Unit) -> list[str]:
        return [
            write(context, access, unit, opened.grain, opened.delivery, projection, now).result
            for opened, projection in batch
        ]

    results = context.engine.write(tenant, work)
    report.created += results.count("created")
    report.merged += results.count("exists")
    batch.clear()


def _adopt_index(context: Context, unit: Unit, known: list[tuple[str, IndexState]]) -> None:
    """Put what another store's index knew beside the grains, never into them (OMS §11)."""
    now = context.clock()
    for address, index in known:
        version = unit.named(oms.STANDARD, address)
        if version is None or version.state.erased:
            continue
        if index.verification_status != version.state.verification:
            unit.set_verification(version, index.verification_status)
        successor = unit.named(oms.STANDARD, index.superseded_by) if index.superseded_by else None
        if successor is not None and version.state.is_head:
            ended = Instant(index.system_valid_to or now)
            unit.close(version, successor=successor, valid_to=version.state.valid_to or ended, now=ended)
