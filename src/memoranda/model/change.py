"""What happened: entries of the change feed and of the audit log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from memoranda.model.instant import Instant
from memoranda.model.memory import Version

ChangeType = Literal["created", "merged", "revised", "tombstoned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entry of a tenant's change feed. `seq` counts within the tenant, so it tells nothing of others."""

    seq: int
    type: ChangeType
    at: Instant
    version: Version


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One operation, as it will be sealed into the tenant's audit chain. Never holds content."""

    at: Instant
    op: str
    actor: str = ""
    actor_kind: str = ""
    targets: tuple[str, ...] = ()
    scope: tuple[tuple[str, str], ...] = ()
    result: str = ""
    meta: dict[str, Any] = field(default_factory=dict)
