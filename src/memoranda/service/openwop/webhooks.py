"""Webhooks of openwop (webhooks.md, RFC 0093): subscriptions, and the queue of their deliveries.

The event log is the queue: a subscription holds its position. A sender (`bindings/http/webhook_sender.py`) calls
`next_delivery`, which puts a subscription on lease, posts the signed event, and calls `settle`, which moves the
position or plans a retry with exponential back-off. The position is stored before the next event is sent, so that a
restart continues where it stopped.

The secret of a subscription is derived from the operator's key and the subscription's id. It is shown once, when the
webhook is registered, and never stored.

A subscription stores how far its events were delivered, so a receiver that was away gets them later, in order, at least
once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict

import msgspec
from msgspec.structs import replace

from memoranda.encoding import json_text
from memoranda.encoding.bases import base32_encode
from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, NotFound
from memoranda.model.instant import Instant, format_instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.openwop.runs import EVENTS_LIMIT, decode_run
from memoranda.standards.openwop.capabilities import SIGNATURE_ALGORITHM
from memoranda.standards.openwop.events import Event
from memoranda.standards.openwop.version_two import bind_id, event_type, show_event
from memoranda.storage.engine.contract import Snapshot, Unit

# The kind of the stored items, by webhook id.
KIND: Final = "openwop webhook"
# Subscriptions per tenant: each is checked whenever a delivery is looked for.
SUBSCRIPTIONS_LIMIT: Final = 20
# Milliseconds for which a sender has a subscription to itself: longer than an attempt may take.
LEASE_MS: Final = 30_000
# Attempts to deliver one event before it is dropped.
ATTEMPTS_LIMIT: Final = 8
# Failed attempts in a row after which the subscription fails: the owner must register again (webhooks.md, circuit
# breaker).
FAILURES_LIMIT: Final = 100
# The longest wait between two attempts, in milliseconds.
LONGEST_WAIT_MS: Final = 3_600_000
# Events that a subscription may lag behind; older ones are skipped, and the receiver can read them from the log.
BEHIND_LIMIT: Final = 10_000


State = Literal["active", "failed"]


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook and its position in the event log. The store keeps the fields by name."""

    webhook_id: str
    url: str
    events: tuple[str, ...]
    tags: tuple[str, ...] = ()
    # The major version of openwop in which the events are sent.
    major: int = 1
    # The instant of the registration; 0 for one by an earlier build.
    created_ms: int = 0
    # The position of the last event that was delivered, dropped or not subscribed to.
    position: int = msgspec.field(default=0, name="place")
    # Failed attempts at the next event.
    attempts: int = 0
    # Failed attempts since the last delivery.
    failures: int = 0
    # Events that were dropped.
    dropped: int = 0
    # The instant of the next attempt.
    retry_ms: int = 0
    state: State = "active"
    # The sender that has the subscription on lease, and the end of the lease.
    holder: str = ""
    lease_ms: int = 0

    def document(self) -> dict[str, Any]:
        """Return the subscription as JSON for its owner."""
        return {
            "webhookId": self.webhook_id,
            "url": self.url,
            "events": list(self.events),
            "tags": list(self.tags),
            "state": self.state,
            "failures": self.failures,
            "dropped": self.dropped,
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Subscription:
        """Return the subscription of a document; the fields that only the store has are empty."""
        return cls(
            webhook_id=document["webhookId"],
            url=document["url"],
            events=tuple(document["events"]),
            tags=tuple(document["tags"]),
            state=document["state"],
            failures=document["failures"],
            dropped=document["dropped"],
        )


class Registration(TypedDict):
    """The answer to a registration. The secret is shown nowhere else."""

    webhookId: str
    # Equal to webhookId; clients of openwop read this name.
    subscriptionId: str
    url: str
    eventTypes: list[str]
    createdAt: str
    secret: str
    secretFingerprint: str
    signatureAlgorithm: str


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One event to send, with its subscription on lease."""

    tenant: str
    subscription: Subscription
    # The position of the event in the log.
    position: int
    event: Event
    secret: str

    def body(self) -> bytes:
        """Return the request body: the event as it is in the log, its run and its tenant."""
        if self.subscription.major == 2:
            event = show_event(self.event, self.tenant)
            # webhooks.md: a tenant never stands for a workspace that is absent.
            return json_text.dump({"runId": event["runId"], "event": event})
        return json_text.dump(
            {"runId": self.event["runId"], "workspaceId": self.tenant, "event": self.event}
        )

    def headers(self, body: bytes, now: Instant) -> dict[str, str]:
        """Return the request headers, among them the signature of time and body, under the names of both versions."""
        stamp, is_second = str(now // 1000), self.subscription.major == 2
        webhook_id, type_name = self.subscription.webhook_id, self.event["type"]
        values = {
            "Webhook-Id": bind_id(webhook_id, self.tenant) if is_second else webhook_id,
            "Event-Type": event_type(type_name) if is_second else type_name,
            "Timestamp": stamp,
            "Signature": f"sha256={signature(self.secret, stamp, body)}",
            "Signature-Algorithm": SIGNATURE_ALGORITHM,
        }
        families = ("X-openwop", "OpenWOP")
        headers = {
            f"{family}-{name}": value for family in families for name, value in values.items()
        }
        return {"Content-Type": "application/json", **headers}


def signature(secret: str, stamp: str, body: bytes) -> str:
    """Return the HMAC-SHA256 of `{timestamp}.{body}`, in hexadecimal."""
    return hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()


# --- verbs of the owner --------------------------------------------------------------------------------------


def register(
    context: Context,
    access: Access,
    url: str,
    events: Sequence[str],
    tags: Sequence[str] = (),
    *,
    major: int = 1,
) -> Registration:
    """Register a URL for events from now on, and return the id and the secret, which is never shown again.

    `major`: the version of openwop in which the events are sent; their types are those of version 1.
    The binding has checked the URL. Raises Conflict if there are too many subscriptions.
    """
    _require_owner(access)
    if not events:
        raise InvalidInput("events: name at least one type of event")
    webhook_id = f"wh_{base32_encode(secrets.token_bytes(10))}"

    def work(unit: Unit) -> None:
        if len(unit.load_items(KIND)) >= SUBSCRIPTIONS_LIMIT:
            raise Conflict(f"there are {SUBSCRIPTIONS_LIMIT} webhooks already; unregister one")
        subscription = Subscription(
            webhook_id=webhook_id,
            url=url,
            events=tuple(events),
            tags=tuple(tags),
            major=major,
            created_ms=context.clock(),
            position=unit.find_last_run_event(),
        )
        _store(unit, subscription)
        _audit(unit, access, context.clock(), "register", webhook_id)
        context.quotas_of(unit).check_bytes(unit)

    context.engine.write(access.default_tenant, work)
    return registered(context, access, webhook_id)


def registered(context: Context, access: Access, webhook_id: str) -> Registration:
    """Return the answer to a registration, to the request itself or to its idempotent repetition. Raises NotFound."""
    _require_owner(access)
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        data = snapshot.load_item(KIND, webhook_id)
    if data is None:
        raise NotFound("no such webhook")
    subscription = _decode(data)
    secret = _derive_secret(context, access.default_tenant, webhook_id)
    return {
        "webhookId": webhook_id,
        "subscriptionId": webhook_id,
        "url": subscription.url,
        "eventTypes": list(subscription.events),
        "createdAt": format_instant(Instant(subscription.created_ms)),
        "secret": secret,
        "secretFingerprint": hashlib.sha256(secret.encode()).hexdigest()[:8],
        "signatureAlgorithm": SIGNATURE_ALGORITHM,
    }


def unregister(context: Context, access: Access, webhook_id: str) -> bool:
    """End a subscription. Return False if there is none."""
    _require_owner(access)

    def work(unit: Unit) -> bool:
        if unit.load_item(KIND, webhook_id) is None:
            return False
        unit.delete_item(KIND, webhook_id)
        _audit(unit, access, context.clock(), "unregister", webhook_id)
        return True

    return context.engine.write(access.default_tenant, work)


def subscriptions(context: Context, access: Access) -> list[Subscription]:
    """Return all subscriptions of the caller's tenant, without their secrets."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        return [_decode(data) for data in snapshot.load_items(KIND).values()]


def _require_owner(access: Access) -> None:
    if access.is_peer:
        raise ForbiddenScope("only the owner may subscribe webhooks to events")


# --- sending -------------------------------------------------------------------------------------------------


def next_delivery(
    context: Context, holder: str, *, passing_over: Collection[str] = ()
) -> tuple[Delivery | None, Instant | None]:
    """Return the next event to send, with its subscription on lease for `holder`; None if there is nothing to send now.

    Then the instant at which a retry or a lease ends is returned, if there is one. Tenants in `passing_over` are
    skipped: enough of their deliveries are in flight.
    """
    wake_times: list[int] = []
    for tenant in context.engine.system.list_tenants_with_items((KIND,)):
        if tenant in passing_over:
            continue
        with context.engine.open_snapshot(tenant) as snapshot:
            tenant_subscriptions = [_decode(data) for data in snapshot.load_items(KIND).values()]
        for subscription in tenant_subscriptions:
            now = context.clock()
            waits_until = max(subscription.retry_ms, subscription.lease_ms)
            if subscription.state != "active":
                continue
            if waits_until > now:
                wake_times.append(waits_until)
                continue
            delivery = _claim_next(context, tenant, subscription, holder)
            if delivery is not None:
                return delivery, None
    return None, Instant(min(wake_times)) if wake_times else None


def _claim_next(
    context: Context, tenant: str, subscription: Subscription, holder: str
) -> Delivery | None:
    """Put a subscription on lease and return its next event; None if there is none, or another process was faster."""
    with context.engine.open_snapshot(tenant) as snapshot:
        end = snapshot.find_last_run_event()
        position, event = _find_next(snapshot, subscription, end)
    if position == subscription.position:
        return None
    now = context.clock()

    def work(unit: Unit) -> Delivery | None:
        data = unit.load_item(KIND, subscription.webhook_id)
        if data is None or _decode(data) != subscription:
            return None
        if event is None:
            _store(unit, replace(subscription, position=position))
            return None
        leased = replace(subscription, holder=holder, lease_ms=now + LEASE_MS)
        _store(unit, leased)
        return Delivery(
            tenant=tenant,
            subscription=leased,
            position=position,
            event=event,
            secret=_derive_secret(context, tenant, subscription.webhook_id),
        )

    return context.engine.write(tenant, work)


def _find_next(
    snapshot: Snapshot, subscription: Subscription, end: int
) -> tuple[int, Event | None]:
    """Return the position of the next event to send, and the event; else the last position searched, and None."""
    after = max(subscription.position, end - BEHIND_LIMIT)
    page = snapshot.list_run_events_after(after, EVENTS_LIMIT)
    for position, data in page:
        event: Event = json_text.parse(data)
        is_subscribed = event["type"] in subscription.events
        if is_subscribed and _concerns_run(snapshot, subscription, event["runId"]):
            return position, event
    return (page[-1][0] if page else after), None


def _concerns_run(snapshot: Snapshot, subscription: Subscription, run_id: str) -> bool:
    """Return True if a run exists, is no replay, and has one of the subscription's tags if there are any."""
    data = snapshot.load_run(run_id)
    if data is None:
        return False
    run = decode_run(data)
    if run.is_replay:
        # The events of a replay were sent when they first happened (RFC 0068).
        return False
    return not subscription.tags or not set(subscription.tags).isdisjoint(run.tags)


def settle(context: Context, delivery: Delivery, *, is_delivered: bool) -> None:
    """Store the result of an attempt: the next event comes next, or the same event again after a wait."""
    now = context.clock()

    def work(unit: Unit) -> None:
        data = unit.load_item(KIND, delivery.subscription.webhook_id)
        if data is None:
            return
        current = _decode(data)
        if current.holder != delivery.subscription.holder:
            # The lease ended, and another sender has the subscription.
            return
        free = replace(current, holder="", lease_ms=0)
        if is_delivered:
            _store(
                unit, replace(free, position=delivery.position, attempts=0, failures=0, retry_ms=0)
            )
        else:
            _store(unit, _count_failure(free, delivery.position, now))

    context.engine.write(delivery.tenant, work)


def _count_failure(subscription: Subscription, position: int, now: Instant) -> Subscription:
    """Return a subscription after a failed attempt: with a later retry, without the event, or failed altogether."""
    failures, attempts = subscription.failures + 1, subscription.attempts + 1
    # One second, doubled with each attempt.
    retry = now + min(1000 * 2**subscription.attempts, LONGEST_WAIT_MS)
    failed = replace(subscription, failures=failures, attempts=attempts, retry_ms=retry)
    if attempts >= ATTEMPTS_LIMIT:
        failed = replace(failed, position=position, attempts=0, dropped=subscription.dropped + 1)
    return replace(failed, state="failed") if failures >= FAILURES_LIMIT else failed


# --- storing -------------------------------------------------------------------------------------------------


def _derive_secret(context: Context, tenant: str, webhook_id: str) -> str:
    # With the length of the tenant's name, so that no two pairs give the same text.
    name = f"{len(tenant)} {tenant} {webhook_id}".encode()
    return hmac.new(context.operator.derive(b"openwop webhook"), name, hashlib.sha256).hexdigest()


def _store(unit: Unit, subscription: Subscription) -> None:
    unit.put_item(KIND, subscription.webhook_id, json_text.dump(msgspec.to_builtins(subscription)))


def _decode(data: bytes) -> Subscription:
    return msgspec.convert(json_text.parse(data), Subscription)


def _audit(unit: Unit, access: Access, now: Instant, op: str, webhook_id: str) -> None:
    unit.record_audit(audit_entry(access, f"openwop.webhook.{op}", now=now, targets=(webhook_id,)))
