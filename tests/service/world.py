"""A service on a private store with a clock that stands still until it is moved."""

from __future__ import annotations

from typing import Any

from memoranda.encoding.didkey import SigningKey
from memoranda.model.instant import Instant, parse_instant
from memoranda.service.access import ALL_VERBS, Access
from memoranda.service.audit import sealer
from memoranda.service.context import AuditReads, Context
from memoranda.service.ranking import Ranked
from memoranda.service.service import Service
from memoranda.standards.ump.record import Record
from memoranda.standards.ump.requests import FeedbackRequest, ForgetRequest, RecallRequest, ReviseRequest
from memoranda.storage.sql_engine import SqlEngine
from memoranda.storage.sqlite import SqliteDatabase

OPERATOR = SigningKey(bytes([7]) * 32)
PEER = SigningKey(bytes([11]) * 32)
START = "2026-06-04T10:00:00.000Z"


class World:
    """The verbs with short names, as one owner; other callers are given by `access`."""

    def __init__(
        self, *, version: str = "0.1", audit_reads: AuditReads = "deferred", readers: dict[str, Any] | None = None
    ) -> None:
        self.now = parse_instant(START)
        self.engine = SqlEngine(SqliteDatabase(None), sealer(version))
        self.context = Context(
            engine=self.engine,
            operator=OPERATOR,
            clock=lambda: self.now,
            ump_version=version,
            audit_reads=audit_reads,
            readers=readers or {},
        )
        self.service = Service(self.context)
        self.owner = self.service.gate.local()

    def advance(self, milliseconds: int) -> Instant:
        self.now = Instant(self.now + milliseconds)
        return self.now

    def key(self, tenant: str, *scopes: str) -> Access:
        gate = self.service.gate
        return gate.authenticate(gate.add_key("k", tenant=tenant, scopes=scopes or tuple(ALL_VERBS)))

    def remember(self, text: str, *, access: Access | None = None, **fields: Any) -> str:
        return self.service.remember(access or self.owner, self.draft(text, access=access, **fields)).id

    def draft(self, text: str, *, access: Access | None = None, **fields: Any) -> Record:
        who = access or self.owner
        scope = {"owner": who.default_tenant, **fields.pop("scope", {})}
        provenance = {"actor": who.default_tenant, "actor_kind": "user", "method": "user_correction"}
        return {"kind": "semantic", "body": {"text": text}, "scope": scope, "provenance": provenance, **fields}

    def recall(self, query: str, *, access: Access | None = None, **fields: Any) -> list[Ranked]:
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
