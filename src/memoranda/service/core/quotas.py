"""How much a tenant may keep and do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Through OAMS, the one standard that has a code for it; 0 means as much as it likes."""

    memories: int = 0
    bytes: int = 0
    writes_per_minute: int = 0
