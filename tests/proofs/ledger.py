"""What a store acknowledged, and whether it kept its word.

A writer notes each acknowledgement after the call returned. Whatever happens to the writer, its machine or its disk
afterwards, everything noted must be there: exactly, verified, and in the audit chain.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import orjson

from memoranda.service.core.audit import verify_tenant
from memoranda.standards.ump import signature
from tests.proofs.store import Store

Op = Literal["remember", "revise", "forget", "erase", "feedback"]
# The audit chain calls both kinds of forgetting by one name.
_AUDIT_NAMES = {"erase": "forget"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """One acknowledged write: what was done, to which record, and the digest of the text it must show."""

    op: Op
    tenant: str
    id: str
    digest: str
    # For a revision, the record it replaced.
    prior: str = ""

    def line(self) -> bytes:
        return orjson.dumps(asdict(self)) + b"\n"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read_acks(lines: bytes) -> list[Ack]:
    """The acknowledgements in a writer's notes; a line cut off by a kill was never acknowledged."""
    whole, _, _ = lines.rpartition(b"\n")
    return [Ack(**orjson.loads(line)) for line in whole.splitlines()]


def check_kept(store: Store, acks: Iterable[Ack]) -> None:
    """Every acknowledged write is there with the acknowledged content."""
    for ack in acks:
        record = store.service.get(store.access(ack.tenant), ack.id)
        assert digest(record["body"]["text"]) == ack.digest, f"{ack.op} of {ack.id} shows another text"
        assert signature.verify(record)
        if ack.op in ("forget", "erase"):
            assert record["lifecycle"]["status"] == "tombstoned", f"{ack.id} came back"
        if ack.op == "revise":
            assert record["supersedes"][0] == ack.prior
            prior = store.service.get(store.access(ack.tenant), ack.prior)
            assert prior["superseded_by"] == [ack.id]


def check_whole(store: Store, acks: Iterable[Ack]) -> None:
    """No record is torn, no audit entry missing, no number of the feed left out, no page of the file damaged."""
    wanted: dict[str, Counter[tuple[str, str]]] = {}
    for ack in acks:
        name = _AUDIT_NAMES.get(ack.op, ack.op)
        wanted.setdefault(ack.tenant, Counter())[name, ack.id] += 1
    for tenant in store.engine.system.list_tenants():
        report = store.service.verify(store.access(tenant))
        assert report.ok, report
        _check_feed(store, tenant)
        missing = wanted.pop(tenant, Counter()) - Counter(_audited(store, tenant))
        assert not missing, f"not in the audit chain: {missing}"
    assert not wanted, f"tenants are gone: {wanted}"


def check_chains(store: Store) -> None:
    """The audit chain and the feed of every tenant are whole, and so is the file."""
    assert store.engine.find_damage() == []
    for tenant in store.engine.system.list_tenants():
        report = verify_tenant(store.context, tenant)
        assert report.ok, report
        _check_feed(store, tenant)


def _check_feed(store: Store, tenant: str) -> None:
    seen, page_after = 0, 0
    while True:
        page = store.service.changes(store.access(tenant), {}, page_after)
        for event in page.events:
            assert event.seq == seen + 1, f"the feed leaves out {seen + 1}"
            seen = event.seq
        page_after = page.next
        if page.is_last:
            break
    with store.engine.open_snapshot(tenant) as snapshot:
        assert snapshot.find_last_change() >= seen


def _audited(store: Store, tenant: str) -> Iterator[tuple[str, str]]:
    after = 0
    while True:
        with store.engine.open_snapshot(tenant) as snapshot:
            page = snapshot.list_audit_after(after, 1000)
        if not page:
            return
        for seq, entry in page:
            event: dict[str, Any] = orjson.loads(entry)
            yield from ((event["op"], target) for target in event.get("targets", ())[:1])
            after = seq
