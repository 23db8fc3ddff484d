"""The delivery of webhooks (openwop webhooks.md, RFC 0093), in threads of its own, so that no request waits for it.

One thread looks for due deliveries and several send them, a few per tenant at a time, so that a slow receiver delays
only its own events. The host of a URL is resolved for every delivery. Each of its addresses must be on the public
Internet, and the connection goes to exactly these addresses. Redirects are not followed.
"""

from __future__ import annotations

import http.client
import ipaddress
import logging
import queue
import secrets
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final
from urllib.parse import SplitResult, urlsplit

from memoranda import __version__
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.service.core.context import CLOSE_SECONDS
from memoranda.service.openwop import webhooks
from memoranda.service.openwop.webhooks import Delivery
from memoranda.service.service import Service

# Seconds (webhooks.md): slower subscribers fail the attempt.
ATTEMPT_SECONDS: Final = 5.0
MAX_URL_CHARS: Final = 2048
# Deliveries at a time, and those of one tenant.
SENDERS: Final = 32
PER_TENANT: Final = 4
# Seconds until the next look if nothing is due.
IDLE_SECONDS: Final = 5.0
# Seconds in which further events are gathered after an idle time, so that they are looked up together.
GATHER_SECONDS: Final = 0.02
# Addresses of one host that an attempt tries, each with its share of the time.
_ADDRESSES_TRIED: Final = 4
# Look-ups of host names at a time; one that its resolver never answers stays until the process ends.
_LOOKUPS: Final = threading.BoundedSemaphore(64)
# Networks whose addresses lead to others, inside (NAT64 of RFC 6052 and RFC 8215) or of one site (RFC 3879).
_TRANSLATED: Final = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "fec0::/10"))
)
_INTERNAL_HOSTS: Final = frozenset({"localhost", "metadata", "metadata.google.internal"})
_log = logging.getLogger(__name__)


class Unreachable(MemorandaError):
    """A host name that cannot be resolved now."""

    code = "unavailable"


def check_url(url: str, *, is_private_allowed: bool) -> SplitResult:
    """Return a URL that events may be sent to. Raises InvalidInput.

    Without this check a client could make the server send requests to other machines of its network.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput("url: cannot be read") from None
    schemes = ("https", "http") if is_private_allowed else ("https",)
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput(f"url: at most {MAX_URL_CHARS} visible characters of ASCII")
    if parts.scheme not in schemes or not parts.hostname:
        raise InvalidInput("url: must begin with https:// and name a host")
    if parts.username or parts.password or parts.fragment or port == 0:
        raise InvalidInput("url: no credentials, no fragment and no port 0")
    # A host that cannot be resolved now is checked by each delivery.
    with suppress(Unreachable):
        resolve_addresses(parts, is_private_allowed=is_private_allowed)
    return parts


def resolve_addresses(url: SplitResult, *, is_private_allowed: bool) -> list[str]:
    """Return the addresses of a URL's host. Raises Unreachable, and InvalidInput unless all of them are public."""
    host = (url.hostname or "").rstrip(".")
    if not is_private_allowed and (
        host in _INTERNAL_HOSTS or host.endswith((".localhost", ".internal", ".local"))
    ):
        raise InvalidInput("url: names a host of an internal network")
    addresses = _look_up(host, url_port(url))
    if not is_private_allowed and not all(map(_is_public, addresses)):
        raise InvalidInput("url: leads to an address that is not on the public Internet")
    return addresses


def url_port(url: SplitResult) -> int:
    """Return the port of a URL, or the default port of its scheme."""
    return url.port or (443 if url.scheme == "https" else 80)


def _look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host. Raises Unreachable, also after the time limit, which the resolver has not."""
    slots = _LOOKUPS
    if not slots.acquire(blocking=False):
        raise Unreachable("too many look-ups of webhooks are waiting")
    result: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            result.put(list(dict.fromkeys(str(entry[4][0]) for entry in entries)))
        except (OSError, UnicodeError):
            result.put(None)
        finally:
            slots.release()

    # The resolver cannot be stopped, so its thread is abandoned at the limit.
    threading.Thread(target=look_up, name="memoranda-webhook-lookup", daemon=True).start()
    with suppress(queue.Empty):
        if (addresses := result.get(timeout=ATTEMPT_SECONDS)) is not None:
            return addresses
    raise Unreachable("the host of a webhook cannot be resolved")


def _is_public(text: str) -> bool:
    """Return True for an address on the public Internet, including the one inside an IPv6 address."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if any(address in network for network in _TRANSLATED):
        return False
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    return address.is_global and not address.is_multicast and (inner is None or inner.is_global)


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to one of the addresses that were checked, even if the name resolves to another one by now."""

    def __init__(self, url: SplitResult, addresses: list[str]) -> None:
        super().__init__(url.hostname or "", url_port(url), timeout=ATTEMPT_SECONDS)
        self._addresses = addresses
        self._is_secure = url.scheme == "https"

    def connect(self) -> None:
        """Connect to the first of the checked addresses that answers."""
        # All attempts share the time limit.
        share = ATTEMPT_SECONDS / len(self._addresses)
        for address in self._addresses:
            try:
                self.sock = socket.create_connection((address, self.port), share)
                break
            except OSError:
                if address == self._addresses[-1]:
                    raise
        self.sock.settimeout(self.timeout)
        if self._is_secure:
            self.sock = ssl.create_default_context().wrap_socket(
                self.sock, server_hostname=self.host
            )

    def abort(self) -> None:
        """End any read or write that is waiting."""
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


class Dispatcher:
    """Sends due events: those of one webhook in order, those of several webhooks at the same time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._holder = secrets.token_hex(8)
        self._wake = threading.Event()
        self._over = threading.Event()
        # Running deliveries of each tenant; changed under the lock.
        self._busy: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="memoranda-webhook")
        self._thread = threading.Thread(target=self._run, name="memoranda-webhooks", daemon=True)
        self._stop_listening: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start the thread that looks for due events."""
        self._stop_listening = self._service.notifier.listen(self._wake.set)
        self._thread.start()

    def close(self) -> None:
        """End the threads. Deliveries that run are finished."""
        self._over.set()
        self._wake.set()
        self._stop_listening()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)
        self._senders.shutdown()

    def _run(self) -> None:
        while not self._over.is_set():
            self._wake.clear()
            try:
                wait = self._send_due()
            except MemorandaError as error:
                _log.warning("webhooks: %s", error)
                wait = IDLE_SECONDS
            self._wake.wait(wait)
            if wait == IDLE_SECONDS and not self._busy:
                # Writes come in bursts, so a short wait lets one look find several events.
                self._over.wait(GATHER_SECONDS)

    def _send_due(self) -> float:
        """Start due deliveries as far as there are senders. Return the seconds until the next look."""
        context = self._service.context
        while not self._over.is_set():
            with self._lock:
                full = {tenant for tenant, count in self._busy.items() if count >= PER_TENANT}
                is_full = self._busy.total() >= SENDERS
            if is_full:
                # A delivery that ends wakes this thread.
                return IDLE_SECONDS
            delivery, due_at = webhooks.next_delivery(context, self._holder, passing_over=full)
            if delivery is None:
                if due_at is None:
                    return IDLE_SECONDS
                return min(IDLE_SECONDS, max(0.01, (due_at - context.clock()) / 1000))
            with self._lock:
                self._busy[delivery.tenant] += 1
            self._senders.submit(self._deliver, delivery)
        return 0.0

    def _deliver(self, delivery: Delivery) -> None:
        """Send one event and record the outcome."""
        try:
            webhooks.settle(self._service.context, delivery, is_delivered=self._send(delivery))
        except MemorandaError as error:
            # The delivery stays leased until its lease ends, and is then sent again.
            _log.warning("webhook %s: %s", delivery.subscription.webhook_id, error)
        finally:
            with self._lock:
                self._busy[delivery.tenant] -= 1
                self._busy += Counter()  # drops tenants with a count of 0
            self._wake.set()

    def _send(self, delivery: Delivery) -> bool:
        """Send one event. Return True if the receiver accepted it."""
        url, body = urlsplit(delivery.subscription.url), delivery.body()
        try:
            addresses = resolve_addresses(
                url, is_private_allowed=self._service.context.webhooks_anywhere
            )
            connection = _PinnedConnection(url, addresses[:_ADDRESSES_TRIED])
            # Each read has a timeout; the timer also ends a receiver that answers one byte at a time.
            timer = threading.Timer(ATTEMPT_SECONDS, connection.abort)
            timer.start()
            try:
                target = (url.path or "/") + (f"?{url.query}" if url.query else "")
                headers = delivery.headers(body, self._service.context.clock())
                headers["User-Agent"] = f"openwop-webhook-dispatcher/{__version__}"
                connection.request("POST", target, body, headers)
                status = connection.getresponse().status
            finally:
                timer.cancel()
                connection.close()
        except (OSError, http.client.HTTPException, MemorandaError) as error:
            _log.info("webhook %s: %s", delivery.subscription.webhook_id, type(error).__name__)
            return False
        # A redirect is a failure, too, because its target was not checked.
        return 200 <= status < 300
