"""Verify: every signature of a tenant's memory, the audit chain, and the database itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from memoranda.model.selection import Selection
from memoranda.service.core.access import Access
from memoranda.service.core.audit import verify_tenant
from memoranda.service.core.context import Context
from memoranda.service.core.views import verifies
from memoranda.service.retrieve import read_page
from memoranda.standards.ump.audit import ChainReport

PAGE_LIMIT: Final = 500


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


def verify_all(
    context: Context, access: Access, *, owner: str | None = None, progress: Callable[[int], None] | None = None
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
