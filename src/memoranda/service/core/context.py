"""What every verb needs: the store, the operator's key, the clock, and the version of UMP we advertise.

A clock that keeps the order in which things happen, whatever the system's clock does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

import msgspec

from memoranda.encoding.didkey import SigningKey
from memoranda.errors import Conflict
from memoranda.model.instant import DAY_MS, Instant
from memoranda.model.memory import AuditEntry
from memoranda.service.cal.session import CalSettings
from memoranda.service.core.access import Access
from memoranda.service.core.limits import Quotas, parse_rules, tighten_quotas
from memoranda.service.core.semantic_search import SemanticSearch
from memoranda.service.openwop.secrets import Vault
from memoranda.standards.ump.shapes import Version as UmpVersion
from memoranda.storage.engine.contract import Engine, Snapshot

# Reading must not wait for the disk by default; who needs every read on record before it is answered says so.
AuditReads = Literal["deferred", "durable"]
# How long an end waits for what runs in the background; longer than a writer waits for its turn.
CLOSE_SECONDS = 60.0
_ATTEMPTS = 3
# For how long what an owner asks for need not be read again, and of how many owners it is kept.
RULES_SECONDS = 1.0
RULES_LIMIT = 10_000
T = TypeVar("T")
# An entry outlives the memory it is about, so it names the place but never the person, agent or session.
_AUDITED_SCOPE = ("owner", "project", "visibility")


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Injected once, at the rim."""

    engine: Engine
    operator: SigningKey
    clock: Callable[[], Instant]
    ump_version: UmpVersion = "0.1"
    audit_reads: AuditReads = "deferred"
    # How long the audit log is kept, and runs with their logs; None for ever.
    audit_retention_ms: int | None = None
    run_retention_ms: int | None = None

    # DID documents (did:web) that signatures of grains are checked against; nothing is ever fetched.
    did_documents: Mapping[str, object] = msgspec.field(default_factory=dict)

    # The profile of OMS that grains must fit (§18).
    grain_profile: str = "extended"

    # Compliance presets in force for everybody (compliance.py), and whether documents that name a user are encrypted.
    presets: frozenset[str] = frozenset()
    encrypts_users: bool = False
    encrypts_all: bool = False

    # What tells the meaning of texts, where something does.
    semantic_search: SemanticSearch = msgspec.field(default_factory=SemanticSearch)

    # What the host decides about CAL.
    cal: CalSettings = msgspec.field(default_factory=CalSettings)

    # What any tenant may keep and do.
    quotas: Quotas = msgspec.field(default_factory=Quotas)
    # Whether whoever signs a token for himself is an owner from then on; if not, who may sign beside holders of keys.
    open_registration: bool = False
    allowed_owners: tuple[str, ...] = ()

    # Whether events may be sent to any address, or only to the open Internet.
    webhooks_anywhere: bool = False

    # Secrets of runs, in memory only, and the policy for what looks like one (openwop SR-1).
    secrets: Vault = msgspec.field(default_factory=Vault)

    # What owners ask for, and when it was read.
    _rules_cache: dict[str, tuple[bytes, float]] = msgspec.field(default_factory=dict)

    @property
    def has_semantic_search(self) -> bool:
        """Whether what means the same is found, and not only what says the same words."""
        return self.semantic_search.is_enabled

    def presets_in(self, snapshot: Snapshot) -> frozenset[str]:
        """The presets in force for a tenant: the server's, and its owner's own."""
        return self.presets.union(parse_rules(snapshot.rules).presets)

    def presets_of(self, tenant: str) -> frozenset[str]:
        """The same before anything is read: as they were at most a moment ago."""
        stored, read_at = self._rules_cache.get(tenant, (b"", -RULES_SECONDS))
        if time.monotonic() - read_at >= RULES_SECONDS:
            with self.engine.read(tenant) as snapshot:
                stored = snapshot.rules
            if len(self._rules_cache) >= RULES_LIMIT:
                self._rules_cache.clear()
            self._rules_cache[tenant] = stored, time.monotonic()
        return self.presets.union(parse_rules(stored).presets)

    def drop_cached_rules(self, tenant: str) -> None:
        """They were changed in this process."""
        self._rules_cache.pop(tenant, None)

    def quotas_of(self, snapshot: Snapshot) -> Quotas:
        """What a tenant may keep and do."""
        return tighten_quotas(self.quotas, snapshot.rules) if snapshot.rules else self.quotas

    def audit_read(self, tenant: str, entry: AuditEntry) -> None:
        """Put a read on record."""
        if self.audit_reads == "durable":
            self.engine.write(tenant, lambda unit: unit.record_audit(entry))
        else:
            self.engine.record_audit_later(tenant, entry)


def retry_on_conflict(attempt: Callable[[], T]) -> T:
    """Do what reads first and writes after; once more, if what it read was changed in between.

    Whoever writes all the time must not keep it for ever: the last Conflict is raised.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except Conflict:
            continue
    return attempt()


def audit_entry(
    access: Access,
    op: str,
    *,
    now: Instant,
    targets: tuple[str, ...] = (),
    scope: dict[str, str] | None = None,
    result: str = "",
    meta: Mapping[str, object] | None = None,
    claimed: tuple[str, str] | None = None,
) -> AuditEntry:
    """An audit entry for what this caller did; `claimed` is who the caller says it was, by name and kind."""
    claim = (
        {}
        if claimed is None or claimed[0] == access.actor
        else {"claimed": {"did": claimed[0], "kind": claimed[1]}}
    )
    return AuditEntry(
        at=now,
        op=op,
        actor=access.actor,
        actor_kind=access.actor_kind,
        targets=targets,
        scope=tuple(
            (name, value) for name, value in (scope or {}).items() if name in _AUDITED_SCOPE
        ),
        result=result,
        meta={"credential": access.credential, **(meta or {}), **claim},
    )


_log = logging.getLogger(__name__)


class SteadyClock:
    """Now, and never before what it said last, or what the store holds: so what is written later is listed later.

    A clock that is set back by more than a day was wrong before, and is believed: nothing must end days too early.
    """

    def __init__(self, system: Callable[[], Instant], last: Instant) -> None:
        self._system, self._last = system, last

    def __call__(self) -> Instant:
        now, last = self._system(), self._last
        if now < last:
            if last - now <= DAY_MS:
                return last
            _log.warning("the clock was set back by %.1f days", (last - now) / DAY_MS)
        self._last = now
        return now
