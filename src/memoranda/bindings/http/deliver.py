"""Webhooks on their way (openwop webhooks.md, RFC 0093): threads of their own send, so that no request waits for it.

One thread looks for what is due, several send, a few of one tenant at a time: a receiver that is slow holds up itself.
Wherever a name leads is looked up again for every delivery; each address must be one of the open Internet, and the
connection goes to that very address. Redirects are not followed.
"""

from __future__ import annotations

import http.client
import ipaddress
import logging
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

# webhooks.md: slower subscribers fail the attempt.
ATTEMPT_SECONDS: Final = 5.0
MAX_URL_CHARS: Final = 2048
# How many are on their way at a time, and how many of them for one tenant.
SENDERS: Final = 32
PER_TENANT: Final = 4
# Nothing waits for a time: look again this soon.
IDLE_SECONDS: Final = 5.0
# So long what comes after nothing is gathered.
GATHER_SECONDS: Final = 0.02
_NAMES_INSIDE: Final = frozenset({"localhost", "metadata", "metadata.google.internal"})
_log = logging.getLogger(__name__)


class Unreachable(MemorandaError):
    """A name that leads nowhere now."""

    code = "unavailable"


def check_url(url: str, *, is_private_allowed: bool) -> SplitResult:
    """A URL that events may be sent to. Raises InvalidInput: nobody makes this host knock on its neighbours' doors."""
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError:
        raise InvalidInput("url: cannot be read") from None
    schemes = ("https", "http") if is_private_allowed else ("https",)
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput(f"url: at most {MAX_URL_CHARS} visible characters of ASCII")
    if found.scheme not in schemes or not found.hostname:
        raise InvalidInput("url: must begin with https:// and name a host")
    if found.username or found.password or found.fragment or port == 0:
        raise InvalidInput("url: no credentials, no fragment and no port 0")
    # It is looked up again for every delivery, and checked again.
    with suppress(Unreachable):
        resolve_addresses(found, is_private_allowed=is_private_allowed)
    return found


def resolve_addresses(url: SplitResult, *, is_private_allowed: bool) -> list[str]:
    """Where a URL leads now. Raises Unreachable, and InvalidInput if any of that is not on the open Internet."""
    host = (url.hostname or "").rstrip(".")
    if not is_private_allowed and (
        host in _NAMES_INSIDE or host.endswith((".localhost", ".internal", ".local"))
    ):
        raise InvalidInput("url: names a host inside")
    try:
        found = socket.getaddrinfo(host, url_port(url), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Unreachable("the host of a webhook is not known") from None
    listed = list(dict.fromkeys(str(each[4][0]) for each in found))
    if not is_private_allowed and not all(map(_is_open, listed)):
        raise InvalidInput("url: leads to an address that is not on the open Internet")
    return listed


def url_port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _is_open(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    return address.is_global and not address.is_multicast and (inner is None or inner.is_global)


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to an address that was checked, whatever its name leads to by now."""

    def __init__(self, url: SplitResult, address: str) -> None:
        super().__init__(url.hostname or "", url_port(url), timeout=ATTEMPT_SECONDS)
        self._address = address
        self._is_secure = url.scheme == "https"

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._is_secure:
            self.sock = ssl.create_default_context().wrap_socket(
                self.sock, server_hostname=self.host
            )

    def give_up(self) -> None:
        """End whatever is being waited for."""
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


class Dispatcher:
    """Sends what is due: of one webhook one event after the other, of several at once."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._holder = secrets.token_hex(8)
        self._wake = threading.Event()
        self._over = threading.Event()
        # Tenants, each as often as something of theirs is on its way; changed under the lock.
        self._busy: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="memoranda-webhook")
        self._thread = threading.Thread(target=self._run, name="memoranda-webhooks", daemon=True)
        self._stop_listening: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._stop_listening = self._service.notifier.listen(self._wake.set)
        self._thread.start()

    def close(self) -> None:
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
                # Who writes writes more, mostly, and nothing waits: it is looked for once.
                self._over.wait(GATHER_SECONDS)

    def _send_due(self) -> float:
        """Hand out what is due, as far as there are senders; how long until something is."""
        context = self._service.context
        while not self._over.is_set():
            with self._lock:
                full = {tenant for tenant, count in self._busy.items() if count >= PER_TENANT}
                is_full = self._busy.total() >= SENDERS
            if is_full:
                # Whoever is done wakes this thread.
                return IDLE_SECONDS
            delivery, due = webhooks.next_delivery(context, self._holder, passing_over=full)
            if delivery is None:
                return (
                    IDLE_SECONDS
                    if due is None
                    else min(IDLE_SECONDS, max(0.01, (due - context.clock()) / 1000))
                )
            with self._lock:
                self._busy[delivery.tenant] += 1
            self._senders.submit(self._deliver, delivery)
        return 0.0

    def _deliver(self, delivery: Delivery) -> None:
        try:
            webhooks.settle(self._service.context, delivery, is_delivered=self._send(delivery))
        except MemorandaError as error:
            # It is held until its lease ends, and then sent again.
            _log.warning("webhook %s: %s", delivery.subscription.webhook_id, error)
        finally:
            with self._lock:
                self._busy[delivery.tenant] -= 1
                self._busy += Counter()  # without those of which nothing is on its way
            self._wake.set()

    def _send(self, delivery: Delivery) -> bool:
        url, body = urlsplit(delivery.subscription.url), delivery.body()
        try:
            found = resolve_addresses(
                url, is_private_allowed=self._service.context.webhooks_anywhere
            )
            connection = _PinnedConnection(url, found[0])
            # Each read has a time; a receiver that answers a byte at a time has no more than all others.
            late = threading.Timer(ATTEMPT_SECONDS, connection.give_up)
            late.start()
            try:
                target = (url.path or "/") + (f"?{url.query}" if url.query else "")
                headers = delivery.headers(body, self._service.context.clock())
                headers["User-Agent"] = f"openwop-webhook-dispatcher/{__version__}"
                connection.request("POST", target, body, headers)
                status = connection.getresponse().status
            finally:
                late.cancel()
                connection.close()
        except (OSError, http.client.HTTPException, MemorandaError) as error:
            _log.info("webhook %s: %s", delivery.subscription.webhook_id, type(error).__name__)
            return False
        # A redirect is a failure, too: where it leads was not checked.
        return 200 <= status < 300
