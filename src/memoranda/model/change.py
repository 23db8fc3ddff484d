"""Entries of the change feed and of the audit log."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from memoranda.model.instant import Instant
from memoranda.model.memory import Version

ChangeType = Literal["created", "merged", "revised", "tombstoned"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a tenant's change feed. `seq` counts per tenant, so that it reveals nothing about others."""

    seq: int
    type: ChangeType
    at: Instant
    version: Version


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One operation for the tenant's audit chain. It never contains content of memories."""

    at: Instant
    op: str
    actor: str = ""
    actor_kind: str = ""
    targets: tuple[str, ...] = ()
    scope: tuple[tuple[str, str], ...] = ()
    result: str = ""
    meta: dict[str, Any] = msgspec.field(default_factory=dict)
