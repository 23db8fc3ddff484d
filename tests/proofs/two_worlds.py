"""Two worlds that differ in one thing: in the second, another tenant is there too.

Whatever the watcher does, it is done in both worlds at the same instant, and every answer is compared: results, error
codes and messages, scores, numbers and hashes. If all are equal, then nothing the watcher can see depends on the
other tenant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import msgspec

from memoranda.encoding.didkey import SigningKey
from memoranda.errors import MemorandaError
from memoranda.model.instant import Instant, format_instant
from memoranda.service.core.access import KEY_PREFIX, Access
from memoranda.service.exchange.importing import number_items
from memoranda.service.service import Service
from memoranda.standards.oams.namespace import namespace_of, parse_namespace
from memoranda.standards.oams.requests import ListRequest, RecallRequest
from memoranda.standards.ump import token
from memoranda.storage.engine.contract import ApiKey
from memoranda.storage.sqlite.database import SqliteDatabase
from tests.proofs.store import Store, build

OPERATOR = SigningKey(bytes([7]) * 32)
WATCHER = SigningKey(bytes([8]) * 32)
OTHER = SigningKey(bytes([9]) * 32)
START = Instant(1_780_000_000_000)
VERBS = token.VERBS
_INDEX_KEY = bytes(range(32))


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> Instant:
        return self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A store in memory, its clock, and the watcher's credentials."""

    store: Store
    clock: Clock
    bearers: dict[str, str]

    def access(self, kind: str) -> Access:
        gate = self.store.service.gate
        return gate.local(WATCHER.did) if kind == "local" else gate.authenticate(self.bearers[kind])


def new_world() -> World:
    """An empty world. All keys are fixed, so that equal histories give equal bytes."""
    database = SqliteDatabase(None)
    database.write(lambda connection: connection.execute("meta_claim", {"name": "index_key", "value": _INDEX_KEY}))
    clock = Clock()
    store = build(database, OPERATOR, clock)
    scopes = VERBS
    store.engine.system.add_key(
        ApiKey(
            key_id="watcher",
            key_hash=hashlib.sha256(b"secret").digest(),
            name="watcher",
            tenant=WATCHER.did,
            scopes=scopes,
            created=START,
        )
    )
    bearers = {
        "key": f"{KEY_PREFIX}watcher_secret",
        "token": signed_token(WATCHER),
        "narrow token": signed_token(WATCHER, scope={"owner": WATCHER.did}),
        "operator's token": signed_token(OPERATOR, scope={"owner": WATCHER.did}),
    }
    return World(store=store, clock=clock, bearers=bearers)


def signed_token(key: SigningKey, *, scope: dict[str, str] | None = None, **changes: Any) -> str:
    claims: dict[str, Any] = {
        "v": "ump-cap/0.1",
        "iss": key.did,
        "verbs": VERBS,
        "scope": scope or {},
        "exp": format_instant(START + 86_400_000),
        "jti": "t1",
        **changes,
    }
    return token.mint(token.Claims(**claims), key)


def oams_call(op: str, step: dict[str, Any], owners: dict[str, str]) -> Callable[[Service, Access], object]:
    """The call of an OAMS operation that a step stands for."""
    if op == "namespaces":
        return lambda service, access: service.oams.namespaces(access)
    if op == "export":
        return lambda service, access: service.oams.export(access)
    if op == "recall":
        names = [_namespace(place, owners) for place in step["places"]]
        asked = {"query": step["text"], **({"namespaces": names} if names else {})}
        return lambda service, access: service.oams.recall(access, RecallRequest.parse(asked))
    name = _namespace(step["place"], owners)
    if op == "list":
        return lambda service, access: pages(service, access, {"namespace": name, "limit": step["limit"]})
    if op in ("get", "forget"):
        return lambda service, access: getattr(service.oams, op)(access, parse_namespace(name), step["key"])
    metadata = {"memoranda:visibility": step["visibility"]} if "visibility" in step else {}
    memory = {
        "key": step["key"],
        "namespace": name,
        "value": step["text"],
        "tags": step.get("tags", []),
        "metadata": metadata,
    }
    if op == "store":
        return lambda service, access: service.oams.store(access, memory, if_match=step.get("if_match"))
    if op == "batch":
        return lambda service, access: service.oams.batch_store(access, [memory, {**memory, "key": "batched"}])
    whole = {**memory, "created_at": format_instant(START), "updated_at": format_instant(START)}
    return lambda service, access: service.import_items(access, number_items("oams", [whole]))


def _namespace(place: tuple[str, str], owners: dict[str, str]) -> str:
    whose, space = place
    return namespace_of(space, owners[whose]) if whose in owners else f"user-x123ab:{space}"


def pages(service: Service, access: Access, asked: dict[str, Any]) -> list[object]:
    """All pages of a list. Cursors hold numbers of the whole store, encrypted: they differ, and tell nothing."""
    pages: list[object] = []
    cursor: str | None = None
    while True:
        page = service.oams.list_memories(access, ListRequest.parse({**asked, "cursor": cursor}))
        pages.append((page.memories, len(page.next_cursor or "")))
        cursor = page.next_cursor
        if cursor is None:
            return pages


def answer(call: Callable[[], object]) -> object:
    """What a call gives, as plain data: its result, or the error's class, code and message."""
    try:
        return plain(call())
    except MemorandaError as error:
        return (type(error).__name__, error.code, error.message)


def plain(value: object) -> object:
    """A value as something that can be compared and printed."""
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, plain(asdict(value)))
    if isinstance(value, msgspec.Struct):
        return (type(value).__name__, plain(msgspec.structs.asdict(value)))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, str | int | float | bytes | None):
        return value
    assert hasattr(value, "__iter__"), value
    return [plain(item) for item in value]
