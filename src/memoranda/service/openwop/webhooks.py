"""Webhooks of openwop (webhooks.md, RFC 0093): who is told of which events, how far, and what is to be sent next.

The log of events is the queue: a subscription is a place in it. Each delivery is signed, and the place moves on in the
store before the next one is sent, so that a restart goes on where it was; whatever fails is tried again, later and
later, and given up at last. Nothing is sent from here: the network is a binding's.

A secret is made from the operator's key and the subscription's name. It is told once, and kept nowhere.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import asdict, replace

from memoranda.encoding import json_text
from memoranda.encoding.bases import base32_encode
from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, NotFound
from memoranda.model.instant import Instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.openwop.runs import EVENTS_LIMIT, decode_run
from memoranda.standards.openwop.capabilities import SIGNATURE_ALGORITHM
from memoranda.standards.openwop.events import Event
from memoranda.storage.engine.contract import Snapshot, Unit

KIND: Final = "openwop webhook"
SUBSCRIPTIONS_LIMIT: Final = 20
# Longer than an attempt may take: who sends holds the subscription so long.
LEASE_MS: Final = 30_000
ATTEMPTS_LIMIT: Final = 8
# So many failures in a row, and nobody is there any more: the owner registers again (webhooks.md, circuit breaker).
FAILURES_LIMIT: Final = 100
LONGEST_WAIT_MS: Final = 3_600_000
# What is further behind than this is passed over: a receiver that was away for so long reads the log.
BEHIND_LIMIT: Final = 10_000


State = Literal["active", "failed"]


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told what, and how far it was told."""

    webhook_id: str
    url: str
    events: tuple[str, ...]
    tags: tuple[str, ...] = ()
    # The place of the last event that was delivered, given up or not asked for.
    place: int = 0
    attempts: int = 0
    failures: int = 0
    dropped: int = 0
    retry_ms: int = 0
    state: State = "active"
    # Who is sending, and until when it is believed to.
    holder: str = ""
    lease_ms: int = 0

    def document(self) -> dict[str, Any]:
        """As its owner sees it."""
        shown: dict[str, Any] = {
            "webhookId": self.webhook_id,
            "url": self.url,
            "events": list(self.events),
        }
        return shown | {
            "tags": list(self.tags),
            "state": self.state,
            "failures": self.failures,
            "dropped": self.dropped,
        }

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Subscription:
        """What such a document says; how far it was told stays with whoever tells."""
        told: dict[str, Any] = {
            name: said[name] for name in ("url", "state", "failures", "dropped")
        }
        return cls(
            webhook_id=said["webhookId"],
            events=tuple(said["events"]),
            tags=tuple(said["tags"]),
            **told,
        )


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One event on its way, held by whoever sends it."""

    tenant: str
    subscription: Subscription
    place: int
    event: Event
    secret: str

    def body(self) -> bytes:
        """What is sent: the event as it stands in the log, and whose it is."""
        return json_text.dump(
            {"runId": self.event["runId"], "workspaceId": self.tenant, "event": self.event}
        )

    def headers(self, body: bytes, now: Instant) -> dict[str, str]:
        """What is sent beside it, with the signature over the time and the body."""
        stamp = str(now // 1000)
        return {
            "Content-Type": "application/json",
            "X-openwop-Webhook-Id": self.subscription.webhook_id,
            "X-openwop-Event-Type": self.event["type"],
            "X-openwop-Timestamp": stamp,
            "X-openwop-Signature": f"sha256={signature(self.secret, stamp, body)}",
            "X-openwop-Signature-Algorithm": SIGNATURE_ALGORITHM,
        }


def signature(secret: str, stamp: str, body: bytes) -> str:
    """HMAC-SHA256 over `{timestamp}.{body}`."""
    return hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()


# --- the owner's side ----------------------------------------------------------------------------------------


def register(
    context: Context, access: Access, url: str, events: Sequence[str], tags: Sequence[str] = ()
) -> dict[str, Any]:
    """Tell a URL of events from now on; the secret is told here and never again. The URL was checked by the binding."""
    _require_owner(access)
    if not events:
        raise InvalidInput("events: which?")
    webhook_id = f"wh_{base32_encode(secrets.token_bytes(10))}"

    def work(unit: Unit) -> None:
        if len(unit.load_items(KIND)) >= SUBSCRIPTIONS_LIMIT:
            raise Conflict(f"there are {SUBSCRIPTIONS_LIMIT} webhooks already; unregister one")
        made = Subscription(
            webhook_id=webhook_id,
            url=url,
            events=tuple(events),
            tags=tuple(tags),
            place=unit.find_last_run_event(),
        )
        _put(unit, made)
        _record(unit, access, context.clock(), "register", webhook_id)
        context.quotas_of(unit).check_bytes(unit)

    context.engine.write(access.default_tenant, work)
    return registered(context, access, webhook_id)


def registered(context: Context, access: Access, webhook_id: str) -> dict[str, Any]:
    """What registering answers; once more only to who repeats that very request. Raises NotFound."""
    _require_owner(access)
    with context.engine.read(access.default_tenant) as snapshot:
        if snapshot.load_item(KIND, webhook_id) is None:
            raise NotFound("no such webhook")
    secret = _secret(context, access.default_tenant, webhook_id)
    return {
        "webhookId": webhook_id,
        "secret": secret,
        "secretFingerprint": hashlib.sha256(secret.encode()).hexdigest()[:8],
        "signatureAlgorithm": SIGNATURE_ALGORITHM,
    }


def unregister(context: Context, access: Access, webhook_id: str) -> bool:
    """Send nothing more; whether there was such a subscription."""
    _require_owner(access)

    def work(unit: Unit) -> bool:
        if unit.load_item(KIND, webhook_id) is None:
            return False
        unit.delete_item(KIND, webhook_id)
        _record(unit, access, context.clock(), "unregister", webhook_id)
        return True

    return context.engine.write(access.default_tenant, work)


def subscriptions(context: Context, access: Access) -> list[Subscription]:
    """Who is told what; no secret of any."""
    with context.engine.read(access.default_tenant) as snapshot:
        return [_loaded(value) for value in snapshot.load_items(KIND).values()]


def _require_owner(access: Access) -> None:
    if access.is_peer:
        raise ForbiddenScope("whom events are sent to is the owner's to say")


# --- the sender's side ---------------------------------------------------------------------------------------


def next_delivery(
    context: Context, holder: str, *, passing_over: Collection[str] = ()
) -> tuple[Delivery | None, Instant | None]:
    """What is to be sent now, held for whoever asks; else when to look again, if anything waits for a time.

    Tenants that have enough on its way are passed over.
    """
    wakes: list[int] = []
    for tenant in context.engine.system.list_tenants_with_items((KIND,)):
        if tenant in passing_over:
            continue
        with context.engine.read(tenant) as snapshot:
            found = [_loaded(value) for value in snapshot.load_items(KIND).values()]
        for each in found:
            now = context.clock()
            waits = max(each.retry_ms, each.lease_ms)
            if each.state != "active":
                continue
            if waits > now:
                wakes.append(waits)
                continue
            delivery = _claim(context, tenant, each, holder)
            if delivery is not None:
                return delivery, None
    return None, Instant(min(wakes)) if wakes else None


def _claim(context: Context, tenant: str, seen: Subscription, holder: str) -> Delivery | None:
    with context.engine.read(tenant) as snapshot:
        end = snapshot.find_last_run_event()
        place, event = _next(snapshot, seen, end)
    if place == seen.place:
        return None
    now = context.clock()

    def work(unit: Unit) -> Delivery | None:
        kept = unit.load_item(KIND, seen.webhook_id)
        if kept is None or _loaded(kept) != seen:
            return None  # another process was faster
        if event is None:
            _put(unit, replace(seen, place=place))
            return None
        held = replace(seen, holder=holder, lease_ms=now + LEASE_MS)
        _put(unit, held)
        secret = _secret(context, tenant, seen.webhook_id)
        return Delivery(tenant=tenant, subscription=held, place=place, event=event, secret=secret)

    return context.engine.write(tenant, work)


def _next(snapshot: Snapshot, seen: Subscription, end: int) -> tuple[int, Event | None]:
    """The next event that is asked for, with its place; without one, how far there is none."""
    after = max(seen.place, end - BEHIND_LIMIT)
    page = snapshot.list_run_events_after(after, EVENTS_LIMIT)
    for place, data in page:
        event: Event = json_text.parse(data)
        if event["type"] in seen.events and _is_asked(snapshot, seen, event["runId"]):
            return place, event
    return (page[-1][0] if page else after), None


def _is_asked(snapshot: Snapshot, seen: Subscription, run_id: str) -> bool:
    kept = snapshot.load_run(run_id)
    if kept is None:
        return False
    run = decode_run(kept)
    # What a replay repeats was told already, and happens only once (RFC 0068).
    return not run.is_replay and (not seen.tags or not set(seen.tags).isdisjoint(run.tags))


def settle(context: Context, delivery: Delivery, *, is_delivered: bool) -> None:
    """Say what became of a delivery: the next one is another, or the same again after a while."""
    now = context.clock()

    def work(unit: Unit) -> None:
        kept = unit.load_item(KIND, delivery.subscription.webhook_id)
        if kept is None or _loaded(kept).holder != delivery.subscription.holder:
            return
        free = replace(_loaded(kept), holder="", lease_ms=0)
        if is_delivered:
            _put(unit, replace(free, place=delivery.place, attempts=0, failures=0, retry_ms=0))
        else:
            _put(unit, _failed(free, delivery.place, now))

    context.engine.write(delivery.tenant, work)


def _failed(kept: Subscription, place: int, now: Instant) -> Subscription:
    failures, attempts = kept.failures + 1, kept.attempts + 1
    retry = now + min(1000 * 2**kept.attempts, LONGEST_WAIT_MS)
    failed = replace(kept, failures=failures, attempts=attempts, retry_ms=retry)
    if attempts >= ATTEMPTS_LIMIT:
        failed = replace(failed, place=place, attempts=0, dropped=kept.dropped + 1)
    return replace(failed, state="failed") if failures >= FAILURES_LIMIT else failed


# --- inside --------------------------------------------------------------------------------------------------


def _secret(context: Context, tenant: str, webhook_id: str) -> str:
    named = f"{len(tenant)} {tenant} {webhook_id}".encode()
    return hmac.new(context.operator.derive(b"openwop webhook"), named, hashlib.sha256).hexdigest()


def _put(unit: Unit, made: Subscription) -> None:
    unit.put_item(KIND, made.webhook_id, json_text.dump(asdict(made)))


def _loaded(data: bytes) -> Subscription:
    kept = json_text.parse(data)
    return Subscription(**{**kept, "events": tuple(kept["events"]), "tags": tuple(kept["tags"])})


def _record(unit: Unit, access: Access, now: Instant, op: str, webhook_id: str) -> None:
    unit.record_audit(audit_entry(access, f"openwop.webhook.{op}", now=now, targets=(webhook_id,)))
