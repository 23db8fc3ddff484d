"""Verify: every signature of a tenant's memory, or of all tenants', the audit chains, and the database itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from memoranda.model.memory import DocumentReading, Projection, Version
from memoranda.model.selection import Selection
from memoranda.service.core.access import Access
from memoranda.service.core.audit import verify_tenant
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import derive_facts
from memoranda.service.core.views import project, run_unless_damaged, verify_document
from memoranda.service.retrieve import read_page
from memoranda.standards.ump.audit import ChainReport
from memoranda.storage.engine.database import Loss

PAGE_LIMIT: Final = 500


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of the whole memory of one owner, or of every owner, found."""

    owners: int
    records: int
    unverified: tuple[str, ...]
    audit: ChainReport
    database: tuple[str, ...]
    # Where an index is not what the documents say.
    index: tuple[str, ...] = ()
    # What was acknowledged once and is missing.
    losses: tuple[Loss, ...] = ()

    @property
    def ok(self) -> bool:
        sound = not self.unverified and not self.database and not self.index and not self.losses
        return sound and self.audit.ok

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        return {
            "ok": self.ok,
            **fields,
            "audit": asdict(self.audit),
            "losses": [loss._asdict() for loss in self.losses],
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> VerifyReport:
        """What such a document says."""
        return cls(
            owners=document["owners"],
            records=document["records"],
            unverified=tuple(document["unverified"]),
            audit=ChainReport(**document["audit"]),
            database=tuple(document["database"]),
            index=tuple(document["index"]),
            losses=tuple(Loss(**loss) for loss in document["losses"]),
        )


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
    return _verify_tenants(context, [tenant], progress)


def verify_store(
    context: Context, *, progress: Callable[[int], None] | None = None
) -> VerifyReport:
    """The same for every owner of the store: for whoever has its files before him."""
    return _verify_tenants(context, context.engine.system.list_tenants(), progress)


def _verify_tenants(
    context: Context, tenants: Sequence[str], progress: Callable[[int], None] | None
) -> VerifyReport:
    context.engine.flush()
    unverified: list[str] = []
    count = 0
    for tenant in tenants:
        for version in iterate_versions(context, tenant):
            count += 1
            if not (version.state.erased or verify_document(version)):
                unverified.append(version.document.name)
            if progress and count % PAGE_LIMIT == 0:
                progress(count)
    if progress:
        progress(count)
    chains = [verify_tenant(context, tenant) for tenant in tenants]
    broken = next((item for item in chains if not item.ok), None)
    return VerifyReport(
        owners=len(tenants),
        records=count,
        unverified=tuple(unverified),
        audit=broken
        or ChainReport(
            ok=True,
            count=sum(item.count for item in chains),
            pruned=sum(item.pruned for item in chains),
        ),
        database=tuple(context.engine.find_damage(tenants)),
        losses=tuple(
            item for item in context.engine.list_losses() if not item.owner or item.owner in tenants
        ),
        index=tuple(
            dict.fromkeys(item for tenant in tenants for item in _index_problems(context, tenant))
        ),
    )


def reindex(
    context: Context, *, progress: Callable[[int], None] | None = None, outdated: bool = False
) -> int:
    """Make the word index of every owner anew from the documents, or what of it is outdated; how many versions."""
    count = 0
    for tenant in context.engine.system.list_tenants():
        before = count

        def done(made: int, before: int = before) -> None:
            if progress:
                progress(before + made)

        count += context.engine.reindex(
            tenant, partial(_project_or_none, context), progress=done, outdated=outdated
        )
    return count


def _index_problems(context: Context, tenant: str) -> list[str]:
    return context.engine.find_index_problems(
        tenant, partial(_project_or_none, context), partial(_derive_facts_or_none, context)
    )


def _project_or_none(context: Context, version: Version) -> Projection | None:
    return (
        None
        if version.state.erased
        else run_unless_damaged(version, lambda: project(context, version))
    )


def _derive_facts_or_none(context: Context, version: Version) -> DocumentReading | None:
    return (
        None
        if version.state.erased
        else run_unless_damaged(version, lambda: derive_facts(context, version))
    )


def iterate_versions(context: Context, tenant: str, *, after: int = 0) -> Iterator[Version]:
    """Every version of an owner, also those that were forgotten or erased; or those after one."""
    while True:
        with context.engine.read(tenant) as snapshot:
            everything = Selection(status_filter="all")
            page = read_page(
                snapshot, everything, after=after, limit=PAGE_LIMIT, now=context.clock()
            )
        if not page:
            return
        yield from page
        after = page[-1].version_id
