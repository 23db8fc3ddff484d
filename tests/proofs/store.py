"""A store opened part by part, so that a proof can look below the verbs and set the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from memoranda.encoding.didkey import SigningKey
from memoranda.keys import MasterKeyFile, operator_key
from memoranda.model.instant import Instant
from memoranda.opening import system_clock
from memoranda.service.core.access import Access
from memoranda.service.core.audit import create_sealer
from memoranda.service.core.context import Context
from memoranda.service.service import Service
from memoranda.storage.crypto.cipher import Cipher, RingCipher
from memoranda.storage.engine.contract import Engine
from memoranda.storage.engine.sql_engine import SqlEngine
from memoranda.storage.sqlite.database import SqliteDatabase
from memoranda.storage.sqlite.keys import SqliteKeyRing
from memoranda.stores import KEY_RING_FILE, MASTER_KEY_FILE

DATABASE_FILE = "memoranda.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The parts of one open store."""

    service: Service
    engine: Engine
    context: Context

    def access(self, tenant: str) -> Access:
        return self.service.gate.local(tenant)


def build(
    database: SqliteDatabase, operator: SigningKey, clock: Callable[[], Instant], cipher: Cipher | None = None
) -> Store:
    """Wire a store as `app.open_service` does, with its doors open."""
    engine = SqlEngine(database, create_sealer("0.1"), cipher)
    # Owners of the proofs sign for themselves.
    context = Context(engine=engine, operator=operator, clock=clock, open_registration=True)
    return Store(service=Service(context), engine=engine, context=context)


@contextmanager
def opened(home: Path) -> Iterator[Store]:
    """The store in a data directory."""
    ring = home / KEY_RING_FILE
    cipher = RingCipher(SqliteKeyRing(ring), MasterKeyFile(home / MASTER_KEY_FILE), "users") if ring.exists() else None
    store = build(SqliteDatabase(home / DATABASE_FILE), operator_key(home), system_clock, cipher)
    try:
        yield store
    finally:
        store.service.close()


def draft(tenant: str, text: str, **fields: Any) -> dict[str, Any]:
    """A draft record; `scope` and `body` are joined with what every record needs."""
    return {
        "kind": "semantic",
        "provenance": {"actor": tenant, "actor_kind": "user", "method": "proof"},
        **fields,
        "body": {"text": text, **fields.get("body", {})},
        "scope": {"owner": tenant, "visibility": "private", **fields.get("scope", {})},
    }


def processes() -> ForkServerContext:
    """New processes, forked from one that has the imports done and nothing open."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["memoranda.app", "tests.proofs.writers"])
    return context
