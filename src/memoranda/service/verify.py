"""Verification of one tenant or all: every signature, the audit chains, the indexes, and the database itself.

Every version is read, those that are forgotten or superseded included, and its own signature or address is checked. The
indexes are compared with what the documents yield when they are read again (`derive_facts`). Nothing is repaired here;
`reindex` rebuilds the search index.

Cost: every document is read and its signature verified, which takes minutes for a million memories; `progress` gets the
number so far. The store can be used meanwhile. A finding never changes anything; what to do is in docs/howto (backup,
reindex).
"""

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
from memoranda.standards.ump.signature import ChainReport
from memoranda.storage.engine.contract import OUTDATED_INDEX
from memoranda.storage.engine.database import Loss

# Versions read at a time.
PAGE_LIMIT: Final = 500


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification."""

    owners: int
    records: int
    unverified: tuple[str, ...]
    audit: ChainReport
    database: tuple[str, ...]
    # Differences between an index and the documents.
    index: tuple[str, ...] = ()
    # Indexes that an older version built; they work, and are rebuilt in the background.
    outdated: tuple[str, ...] = ()
    # Writes that were acknowledged and are missing.
    losses: tuple[Loss, ...] = ()

    @property
    def ok(self) -> bool:
        """True if nothing is wrong. An outdated index is not."""
        sound = not self.unverified and not self.database and not self.index and not self.losses
        return sound and self.audit.ok

    def document(self) -> dict[str, Any]:
        """Return the report as JSON."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        return {
            "ok": self.ok,
            **fields,
            "audit": asdict(self.audit),
            "losses": [loss._asdict() for loss in self.losses],
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> VerifyReport:
        """Return the report that a JSON document states."""
        return cls(
            owners=document["owners"],
            records=document["records"],
            unverified=tuple(document["unverified"]),
            audit=ChainReport(**document["audit"]),
            database=tuple(document["database"]),
            index=tuple(document["index"]),
            outdated=tuple(document.get("outdated", ())),
            losses=tuple(Loss(**loss) for loss in document["losses"]),
        )


def verify_all(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> VerifyReport:
    """Verify the caller's tenant, or the tenant of `owner`. Raises ForbiddenScope."""
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    return _verify_tenants(context, [tenant], progress)


def verify_store(
    context: Context, *, progress: Callable[[int], None] | None = None
) -> VerifyReport:
    """Verify every tenant of the store, for the owner of its files.

    For the person at the machine; it checks no rights.
    """
    return _verify_tenants(context, context.engine.system.list_tenants(), progress)


def _verify_tenants(
    context: Context, tenants: Sequence[str], progress: Callable[[int], None] | None
) -> VerifyReport:
    """Verify some tenants and the database. `progress` gets the number of versions so far."""
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
    audit = next((chain for chain in chains if not chain.ok), None)
    if audit is None:
        events = sum(chain.count for chain in chains)
        audit = ChainReport(ok=True, count=events, pruned=sum(chain.pruned for chain in chains))
    losses = context.engine.list_losses()
    problems = dict.fromkeys(
        problem for tenant in tenants for problem in _index_problems(context, tenant)
    )
    return VerifyReport(
        owners=len(tenants),
        records=count,
        unverified=tuple(unverified),
        audit=audit,
        database=tuple(context.engine.find_damage(tenants)),
        losses=tuple(loss for loss in losses if not loss.owner or loss.owner in tenants),
        index=tuple(problem for problem in problems if problem != OUTDATED_INDEX),
        outdated=tuple(problem for problem in problems if problem == OUTDATED_INDEX),
    )


def reindex(
    context: Context, *, progress: Callable[[int], None] | None = None, outdated: bool = False
) -> int:
    """Rebuild the search index of every tenant, or only its outdated parts; return the number of versions."""
    count = 0
    for tenant in context.engine.system.list_tenants():
        before = count

        def report_progress(count_here: int, before: int = before) -> None:
            if progress:
                progress(before + count_here)

        count += context.engine.reindex(
            tenant, partial(_project_or_none, context), progress=report_progress, outdated=outdated
        )
    return count


def _index_problems(context: Context, tenant: str) -> list[str]:
    """Return the differences between the indexes of a tenant and its documents."""
    return context.engine.find_index_problems(
        tenant, partial(_project_or_none, context), partial(_derive_facts_or_none, context)
    )


def _project_or_none(context: Context, version: Version) -> Projection | None:
    """Return the reading of a version; None if it is erased or damaged."""
    return (
        None
        if version.state.erased
        else run_unless_damaged(version, lambda: project(context, version))
    )


def _derive_facts_or_none(context: Context, version: Version) -> DocumentReading | None:
    """Return the facts that an index should have of a version; None if it is erased or damaged."""
    return (
        None
        if version.state.erased
        else run_unless_damaged(version, lambda: derive_facts(context, version))
    )


def iterate_versions(context: Context, tenant: str, *, after: int = 0) -> Iterator[Version]:
    """Yield every version of a tenant after a number, in the order written, forgotten and erased ones included."""
    while True:
        with context.engine.open_snapshot(tenant) as snapshot:
            everything = Selection(status_filter="all")
            page = read_page(
                snapshot, everything, after=after, limit=PAGE_LIMIT, now=context.clock()
            )
        if not page:
            return
        yield from page
        after = page[-1].version_id
