"""Rows with names: what the queries that read whole versions and tenants answer with, column by column."""

from __future__ import annotations

from typing import NamedTuple

from memoranda.model.instant import Instant
from memoranda.model.memory import Status


class TenantRow(NamedTuple):
    """A tenant's counters: queries `tenant_get` and `tenant_add`."""

    tenant_id: int
    change_seq: int
    audit_seq: int
    audit_hash: str | None
    # For ranking.
    version_count: int
    term_count: int
    # For quotas.
    live_count: int
    byte_count: int
    # For whoever keeps what was read.
    erasure_seq: int
    segment_seq: int
    closing_seq: int


# An unknown tenant has no rows; -1 finds none.
NO_TENANT = TenantRow(-1, 0, 0, None, 0, 0, 0, 0, 0, 0, 0)


class UnindexedRow(NamedTuple):
    """An erased version whose words are still in the word index: query `unindexed_next`."""

    tenant_id: int
    version_id: int


class VersionRow(NamedTuple):
    """A version with its state: the fragment `version_columns`."""

    version_id: int
    memory_id: int
    standard: str
    media_type: str
    name: str
    # Of an erased version its tombstone.
    native: bytes
    cause: bytes | None
    bounds: bytes | None
    status: Status
    valid_from: Instant
    valid_to: Instant | None
    declared_to: Instant | None
    recorded: Instant
    closed: Instant | None
    retired: Instant | None
    tombstoned: Instant | None
    expires: Instant | None
    erased: int
    successor: str | None
    followed: int
    overridden: int
    ignored: int
    contradicted: int
    observed: Instant
    held: int
    review: int
    verification: str
    key_id: str | None
    # JSON: the names of the successor by standard.
    successor_names: str | None
    seal: bytes | None
    space: str
    updated: Instant
