"""Rows of queries as named tuples.

Queries that read complete versions and tenants return their columns in the order of these fields. Queries that add many
rows take these tuples as parameters; the fields are in the order in which the query first mentions them.

The order of the fields is the contract with the SQL files: a field that is added here must be added at the same
position in `queries.sql` of both databases. Tuples are used instead of mappings because thousands of them are made per
request.
"""

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
    # Versions in the word index, and their terms: for ranking.
    version_count: int
    term_count: int
    # Live versions, and bytes of documents, items, runs and logs: for quotas.
    live_count: int
    byte_count: int
    # Generations by which caches notice erasures, new index segments, and changes of what is live.
    erasure_seq: int
    segment_seq: int
    closing_seq: int
    # Units of work and versions ever written: the chain ends by which a loss is noticed.
    unit_seq: int
    append_seq: int
    # The rules set by the owner, encoded.
    rules: bytes
    # Number of changes of the key ring, if it is in the same database.
    ring_changes: int | None = None


# The row of an unknown tenant: it has no rows, and no row has the number -1.
NO_TENANT = TenantRow(-1, 0, 0, None, 0, 0, 0, 0, 0, 0, 0, 0, 0, b"")


class NewVersionRow(NamedTuple):
    """A document: query `version_add`."""

    version_id: int
    tenant_id: int
    standard: str
    media_type: str
    name: str
    recorded_ms: Instant
    key_id: str | None
    seal: bytes | None
    native: bytes
    cause: bytes | None
    bounds: bytes | None


class NewStateRow(NamedTuple):
    """The state of a version when it is written: query `state_add`."""

    tenant_id: int
    version_id: int
    memory_id: int
    space: str
    kind: str
    visibility: str
    status: Status
    user_key: bytes | None
    agent_key: bytes | None
    session_key: bytes | None
    sameness_key: bytes | None
    subject_key: bytes | None
    relation_key: bytes | None
    object_key: bytes | None
    observed_ms: Instant
    updated_ms: Instant
    valid_from_ms: Instant
    valid_to_ms: Instant | None
    recorded_ms: Instant
    expires_ms: Instant | None
    exportable: bool
    redacted: bool
    term_count: int
    address: str | None
    form: str | None
    at_ms: Instant | None
    confidence: float | None
    importance: float | None
    closing: int


class NewFacetRow(NamedTuple):
    """A facet, a value that a version is found by: query `facet_add`."""

    tenant_id: int
    name: str
    value_key: bytes
    version_id: int


class NewMeasureRow(NamedTuple):
    """A number that a version is found by: query `measure_add`."""

    tenant_id: int
    name: str
    number: float
    version_id: int


class NewNameRow(NamedTuple):
    """A name of a version or of a memory: queries `alias_put` and `view_name_put`."""

    tenant_id: int
    standard: str
    name: str
    memory_id: int
    version_id: int | None
    public: bool


class NewChangeRow(NamedTuple):
    """An entry of the change feed: query `change_add`."""

    tenant_id: int
    seq: int
    type: str
    version_id: int
    at_ms: Instant


class UnindexedRow(NamedTuple):
    """An erased version that the word index still has: query `unindexed_next`."""

    tenant_id: int
    version_id: int


class HeadRow(NamedTuple):
    """The state of the head of an earlier version's memory: query `line_heads`."""

    version_id: int
    head_id: int
    tombstoned: Instant | None
    expires: Instant | None


class VersionRow(NamedTuple):
    """A version with its state: the fragment `version_columns`."""

    version_id: int
    memory_id: int
    standard: str
    media_type: str
    name: str
    # The document as stored; the tombstone if the version is erased.
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
    on_hold: int
    review: int
    verification: str
    key_id: str | None
    # JSON: the names of the successor by standard.
    successor_names: str | None
    seal: bytes | None
    space: str
    updated: Instant
    # The name of the version before it as a record.
    predecessor: str | None
