"""The context of every verb: the store, the operator's key, the clock, the settings, and the helpers for the audit log.

`opening.py` builds one `Context` for each open store, and every verb takes it first. It is immutable but for a short
cache of the owners' rules.

What belongs here: settings and helpers that more than one standard needs and that are fixed for an open store. What
does not: anything about the caller (`Access`) or a request. Tests build a `Context` with a fixed clock; production code
must take the time from `clock`, never from `time`.
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
from memoranda.service.core.limits import KeyQuotas, Quotas, parse_rules, tighten_quotas
from memoranda.service.core.people import People
from memoranda.service.core.retention_clock import RetentionClock
from memoranda.service.core.semantic_search import SemanticSearch
from memoranda.service.openwop.secrets import Vault
from memoranda.standards.ump.shapes import Version as UmpVersion
from memoranda.storage.engine.contract import Engine, Snapshot

# "deferred": a read is answered before its audit entry is on disk. "durable": after.
AuditReads = Literal["deferred", "durable"]
# Seconds for which closing waits for background threads; longer than a writer waits for its turn.
CLOSE_SECONDS = 60.0
_ATTEMPTS = 3
# Seconds for which the rules of an owner are not read again, and the owners in that cache.
RULES_SECONDS = 1.0
RULES_LIMIT = 10_000
T = TypeVar("T")
# An audit entry outlives its memory, so it names the space but no person, agent or session.
_AUDITED_SCOPE = ("owner", "project", "visibility")


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that verbs share, built once when a store is opened.

    The defaults are those of a small local store; `opening.py` sets everything else from the settings.
    """

    engine: Engine
    operator: SigningKey
    clock: Callable[[], Instant]
    # The clock of erasures, which does not follow a sudden jump; None: `clock`.
    retention_clock: RetentionClock | None = None
    ump_version: UmpVersion = "0.1"
    audit_reads: AuditReads = "deferred"
    # Retention periods in milliseconds of the audit log, and of runs with their logs; None means for ever.
    audit_retention_ms: int | None = None
    run_retention_ms: int | None = None

    # DID documents (did:web) for checking the signatures of grains; none is ever fetched.
    did_documents: Mapping[str, object] = msgspec.field(default_factory=dict)

    # The OMS profile that grains must fit (§18).
    grain_profile: str = "extended"

    # Compliance presets for all owners (compliance.py), and whether documents that name a user, or all, are encrypted.
    presets: frozenset[str] = frozenset()
    encrypts_users: bool = False
    encrypts_all: bool = False

    # The embedding model, if there is one.
    semantic_search: SemanticSearch = msgspec.field(default_factory=SemanticSearch)

    # The host's settings for CAL.
    cal: CalSettings = msgspec.field(default_factory=CalSettings)

    # The server's limits for each tenant.
    quotas: Quotas = msgspec.field(default_factory=Quotas)
    # True if anybody who signs a token becomes an owner. If not, the owners who may sign besides those with API keys.
    open_registration: bool = False
    allowed_owners: tuple[str, ...] = ()

    # True if webhooks may call private addresses.
    webhooks_anywhere: bool = False

    # The rules for people who sign in to the console with an account, if there are any.
    people: People | None = None

    # Secrets of runs, in memory only, and the policy for texts that look like secrets (openwop SR-1).
    secrets: Vault = msgspec.field(default_factory=Vault)

    # Rules of owners as stored, each with the monotonic second at which it was read.
    _rules_cache: dict[str, tuple[bytes, float]] = msgspec.field(default_factory=dict)

    def retention_now(self) -> Instant:
        """Return the time by which erasures are due."""
        return self.clock() if self.retention_clock is None else self.retention_clock()

    @property
    def has_semantic_search(self) -> bool:
        """True if a model finds memories by meaning, and not only by their words."""
        return self.semantic_search.is_enabled

    def for_caller(self, access: Access) -> Context:
        """Return the context with the limits of the caller's API key, if it has any.

        Only a limit of writes per day needs it, because requests per minute are counted by the gate.
        """
        if not access.writes_per_day:
            return self
        quotas = KeyQuotas(
            **msgspec.structs.asdict(self.quotas),
            key_id=access.key_id,
            writes_per_day=access.writes_per_day,
        )
        return msgspec.structs.replace(self, quotas=quotas)

    def presets_in(self, snapshot: Snapshot) -> frozenset[str]:
        """Return the presets in force for a tenant: the server's and its owner's."""
        return self.presets.union(parse_rules(snapshot.rules).presets)

    def presets_of(self, tenant: str) -> frozenset[str]:
        """Return the presets in force for a tenant, without a snapshot: up to a second old.

        Use `presets_in` where a snapshot is open: it is exact.
        """
        stored_rules, read_at = self._rules_cache.get(tenant, (b"", -RULES_SECONDS))
        if time.monotonic() - read_at >= RULES_SECONDS:
            with self.engine.open_snapshot(tenant) as snapshot:
                stored_rules = snapshot.rules
            if len(self._rules_cache) >= RULES_LIMIT:
                self._rules_cache.clear()
            self._rules_cache[tenant] = stored_rules, time.monotonic()
        return self.presets.union(parse_rules(stored_rules).presets)

    def drop_cached_rules(self, tenant: str) -> None:
        """Drop the cached rules of a tenant, which this process has changed."""
        self._rules_cache.pop(tenant, None)

    def quotas_of(self, snapshot: Snapshot) -> Quotas:
        """Return the limits of a tenant: the server's, tightened by its owner's."""
        return tighten_quotas(self.quotas, snapshot.rules) if snapshot.rules else self.quotas

    def audit_read(self, tenant: str, entry: AuditEntry) -> None:
        """Record a read in the audit log."""
        if self.audit_reads == "durable":
            self.engine.write(tenant, lambda unit: unit.record_audit(entry))
        else:
            self.engine.record_audit_later(tenant, entry)


def retry_on_conflict(attempt: Callable[[], T]) -> T:
    """Run an attempt that reads before it writes; run it again if another writer changed what it had read.

    Raises the Conflict of the last of three attempts: a busy writer must not block it for ever.

    For verbs that read, compute, and then write under the condition that nothing changed. Other errors are raised at
    once.
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
) -> AuditEntry:
    """Return an audit entry for an action of the caller.

    `targets` are names of memories, `scope` their scope; of it only owner, project and visibility are recorded. `meta`
    must not contain content: audit entries are never erased.
    """
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
        meta={"credential": access.credential, **(meta or {})},
    )


def describe_count(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun for the result of an audit entry, such as "1 hit" or "2 hits"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def describe_claim(access: Access, claimed: tuple[str, str] | None) -> dict[str, object]:
    """Return the actor that a request states, for the audit log; nothing if it is the caller."""
    if claimed is None or claimed[0] == access.actor:
        return {}
    return {"claimed": {"did": claimed[0], "kind": claimed[1]}}


_log = logging.getLogger(__name__)


class SteadyClock:
    """A clock that never runs backwards, nor behind the newest write in the store: later writes are listed later.

    If the system's clock is set back by more than a day, it was wrong before and is followed: otherwise retention
    periods would end days too early.

    It is used for everything that is ordered by time; `RetentionClock` decides about erasures.
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
