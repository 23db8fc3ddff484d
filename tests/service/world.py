"""A service on a private store with a clock that stands still until it is moved."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from memoranda.encoding.didkey import SigningKey
from memoranda.keys import MasterKeyFile
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import Version
from memoranda.model.selection import Selection
from memoranda.service.core.access import ALL_VERBS, Access
from memoranda.service.core.audit import create_sealer
from memoranda.service.core.context import AuditReads, Context
from memoranda.service.core.limits import Quotas
from memoranda.service.core.ranking import RankedRecord
from memoranda.service.core.semantic_search import SemanticSearch
from memoranda.service.oms.views import StoredGrain, to_stored_grain
from memoranda.service.service import Service
from memoranda.standards.ump.record import Record
from memoranda.standards.ump.requests import FeedbackRequest, ForgetRequest, RecallRequest, ReviseRequest
from memoranda.standards.ump.shapes import Version as UmpVersion
from memoranda.storage.crypto.cipher import Cipher, Coverage, RingCipher
from memoranda.storage.engine.database import Database
from memoranda.storage.engine.sql_engine import SqlEngine
from memoranda.storage.sqlite.keys import SqliteKeyRing
from tests.stores import open_store

OPERATOR = SigningKey(bytes([7]) * 32)
PEER = SigningKey(bytes([11]) * 32)
START = "2026-06-04T10:00:00.000Z"


def grain(now: int, **fields: Any) -> dict[str, Any]:
    """The fields of a belief, or of what `type` says, made now; those given as None are left out."""
    base: dict[str, Any] = {"type": "belief", "subject": "ada", "relation": "likes", "object": "tea", "confidence": 0.9}
    chosen = base if fields.get("type", "belief") == "belief" else {}
    whole = {**chosen, "created_at": now, "namespace": "shared", **fields}
    return {name: value for name, value in whole.items() if value is not None}


class World:
    """The verbs with short names, as one owner; other callers are given by `access`."""

    def __init__(
        self,
        *,
        version: UmpVersion = "0.1",
        audit_reads: AuditReads = "deferred",
        cipher: Cipher | None = None,
        coverage: Coverage | None = None,
        presets: Collection[str] = (),
        path: Path | None = None,
        document_key: bytes | None = None,
        quotas: Quotas | None = None,
        grain_profile: str = "extended",
        meaning: SemanticSearch | None = None,
        database: Database | None = None,
    ) -> None:
        """`coverage` makes a key ring in memory; `cipher` brings one; `database` is there instead of that of a path."""
        if coverage is not None:
            cipher = RingCipher(SqliteKeyRing(None), MasterKeyFile(None), coverage)
        self.now = parse_instant(START)
        self.engine = SqlEngine(database or open_store(path), create_sealer(version), cipher, document_key=document_key)
        self.context = Context(
            engine=self.engine,
            operator=OPERATOR,
            clock=lambda: self.now,
            ump_version=version,
            audit_reads=audit_reads,
            presets=frozenset(presets),
            encrypts_users=cipher is not None,
            encrypts_all=coverage == "all",
            quotas=quotas or Quotas(),
            grain_profile=grain_profile,
            semantic_search=meaning or SemanticSearch(),
            # Tests sign for owners of their own.
            open_registration=True,
        )
        self.service = Service(self.context)
        self.owner = self.service.gate.local()

    def put(self, *, access: Access | None = None, **fields: Any) -> str:
        return self.service.grains.put(access or self.owner, grain(self.now, **fields)).address

    def supersede(self, old: str, *, access: Access | None = None, **fields: Any) -> str:
        return self.service.grains.supersede(access or self.owner, old, grain(self.now, **fields)).address

    def grain(self, address: str, *, access: Access | None = None) -> StoredGrain:
        return self.service.grains.get(access or self.owner, address)

    def grains(self, *, access: Access | None = None, current: bool = True, **where: Any) -> list[StoredGrain]:
        selection = Selection(status_filter="current" if current else "recorded", **where)
        return self.service.grains.listing(access or self.owner, selection, limit=500)[0]

    def as_record(self, address: str) -> Record:
        """The UMP view of a grain, through the verbs of UMP."""
        version = self.named("oms", address)
        with self.engine.open_snapshot(version.tenant) as snapshot:
            name = snapshot.load_names(version.version_id)["ump"]
        return self.get(name)

    def as_grain(self, record_id: str) -> StoredGrain:
        """The grain view of a UMP record."""
        return to_stored_grain(self.context, self.named("ump", record_id))

    def named(self, standard: str, name: str) -> Version:
        with self.engine.open_snapshot(self.owner.default_tenant) as snapshot:
            version = snapshot.find_by_name(standard, name)
        assert version is not None
        return version

    def advance(self, milliseconds: int) -> Instant:
        self.now = Instant(self.now + milliseconds)
        return self.now

    def key(self, tenant: str, *scopes: str) -> Access:
        gate = self.service.gate
        return gate.authenticate(gate.add_key("k", tenant=tenant, scopes=scopes or tuple(ALL_VERBS)))

    def token(self, *verbs: str, audience: str | None = None, **scope: str) -> Access:
        """What a token of the operator gives; of this owner, unless it says otherwise."""
        whose = {"owner": self.owner.default_tenant, **scope}
        scope = {name: value for name, value in whose.items() if value}
        gate = self.service.gate
        return gate.authenticate(gate.mint_token(verbs=verbs, scope=scope, ttl_ms=60_000, audience=audience))

    def remember(self, text: str, *, access: Access | None = None, **fields: Any) -> str:
        return self.service.remember(access or self.owner, self.draft(text, access=access, **fields)).id

    def draft(self, text: str, *, access: Access | None = None, **fields: Any) -> Any:
        who = access or self.owner
        scope = {"owner": who.default_tenant, **fields.pop("scope", {})}
        provenance = {"actor": who.default_tenant, "actor_kind": "user", "method": "user_correction"}
        return {"kind": "semantic", "body": {"text": text}, "scope": scope, "provenance": provenance, **fields}

    def recall(self, query: str, *, access: Access | None = None, **fields: Any) -> list[RankedRecord]:
        return self.service.recall(access or self.owner, RecallRequest.parse({"query": query, **fields}))

    def texts(self, query: str, *, access: Access | None = None, **fields: Any) -> list[str]:
        return [found.record["body"]["text"] for found in self.recall(query, access=access, **fields)]

    def get(self, name: str, *, access: Access | None = None) -> Record:
        return self.service.get(access or self.owner, name)

    def revise(self, name: str, *, access: Access | None = None, **patch: Any) -> str:
        return self.service.revise(access or self.owner, ReviseRequest.parse({"id": name, "patch": patch})).id

    def forget(self, name: str, *, access: Access | None = None, **fields: Any) -> str:
        return self.service.forget(access or self.owner, ForgetRequest.parse({"id": name, **fields}))

    def feedback(self, name: str, outcome: str) -> None:
        self.service.feedback(self.owner, FeedbackRequest.parse({"id": name, "outcome": outcome}))

    def events(self, *, access: Access | None = None, after: int = 0, **scope: str) -> list[tuple[str, str]]:
        page = self.service.changes(access or self.owner, scope, after)
        return [(event.type, event.id) for event in page.events]
