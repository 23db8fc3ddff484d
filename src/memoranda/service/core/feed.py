"""The change feed (UMP §3.8 subscribe): the changes in a scope, and a notifier that tells when there are new ones.

`read_changes` is a plain call that returns a page of changes after a sequence number. Waiting is up to the binding: it
registers a callback with `ChangeNotifier`. The notifier polls the store in one thread, so that it notices the writes of
every process, and sleeps while nobody listens.

Positions are per owner and only grow; a subscriber that stores its last position misses nothing, as entries are never
removed. A forgotten memory is announced with its id only. Filtering happens after redaction, so a subscriber cannot
find out hidden values by filtering for them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial

import msgspec

from memoranda.errors import StoreUnavailable
from memoranda.model.memory import ChangeType
from memoranda.service.core.access import Access
from memoranda.service.core.compliance import may_read_personal
from memoranda.service.core.context import CLOSE_SECONDS, Context, audit_entry
from memoranda.service.core.memory_line import bind_to_line, may_see_forgotten
from memoranda.service.core.views import (
    is_intact,
    redact_for_caller,
    run_unless_damaged,
    scope_of,
    view_record,
    withhold_record,
)
from memoranda.service.retrieve import PAGE_BYTES
from memoranda.standards.ump.record import Record
from memoranda.storage.engine.contract import Engine

PAGE_LIMIT = 200
# Seconds until a store that could not be watched is tried again.
RETRY_SECONDS = 0.5

_log = logging.getLogger(__name__)


class ChangeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One change as a subscriber sees it. `seq` is the position from which the feed resumes."""

    seq: int
    type: ChangeType
    id: str
    record: Record


class FeedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of events. `next` is the position after it, past events that the subscriber may not see."""

    events: tuple[ChangeEvent, ...]
    next: int
    is_last: bool


def _authorize_subscription(access: Access, scope: Mapping[str, str]) -> str:
    """Return the tenant of a subscription. Raises ForbiddenScope if the caller may not listen there."""
    tenant = access.tenant_for(scope.get("owner"))
    # The positions of another owner's feed would reveal how much happens there.
    access.require_reach(tenant)
    access.require_scope({**access.narrow_scope(scope), "owner": tenant})
    return tenant


def read_position(context: Context, access: Access) -> int:
    """Return the newest position of the caller's own feed. It reveals no memory, so it is not audited."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        return snapshot.find_last_change()


def begin_subscription(context: Context, access: Access, scope: Mapping[str, str]) -> int:
    """Return the newest position of the feed, where a new subscriber starts."""
    tenant = _authorize_subscription(access, scope)
    with context.engine.open_snapshot(tenant) as snapshot:
        end, has_audit_log = snapshot.find_last_change(), snapshot.read_audit_head()[0] > 0
    entry = audit_entry(access, "subscribe", now=context.clock(), scope=dict(scope), result="ok")
    context.audit_read(tenant if has_audit_log else access.default_tenant, entry)
    return end


def read_changes(
    context: Context, access: Access, scope: Mapping[str, str], after: int
) -> FeedPage:
    """Return the next changes in a scope, redacted as everything that leaves is.

    The page may be empty although more follow: `next` then skips what the subscriber may not see. Go on until
    `is_last`.
    """
    tenant = _authorize_subscription(access, scope)
    now = context.clock()
    with context.engine.open_snapshot(tenant) as snapshot:
        page = snapshot.list_changes(after, PAGE_LIMIT, PAGE_BYTES)
        is_last = not page or page[-1].seq >= snapshot.find_last_change()
        versions = {
            change_seen.seq: bind_to_line(context, snapshot, change_seen.version)
            for change_seen in page
        }
        allowed = {
            seq
            for seq, version in versions.items()
            if may_read_personal(context, access, snapshot, version)
        }
    visible = access.visibilities(tenant)
    events = []
    for change in page:
        version = versions[change.seq]
        record = run_unless_damaged(version, partial(view_record, context, version, now))
        if record is None or not is_intact(version) or change.seq not in allowed:
            continue
        scope_stated = scope_of(record)
        if scope_stated["visibility"] not in visible or not access.allows_scope(scope_stated):
            continue
        if not may_see_forgotten(access, version, now):
            # The subscriber learns that the memory is gone, and nothing of what it said.
            record = withhold_record(record, context.operator)
        visible_record = redact_for_caller(context, access, record)
        # The filter applies to the redacted record: otherwise the redacted values could be guessed.
        visible_scope = scope_stated if visible_record is record else scope_of(visible_record)
        if all(visible_scope.get(name) == value for name, value in scope.items()):
            events.append(
                ChangeEvent(
                    seq=change.seq, type=change.type, id=record["id"], record=visible_record
                )
            )
    return FeedPage(events=tuple(events), next=page[-1].seq if page else after, is_last=is_last)


class ChangeNotifier:
    """A thread that calls every listener when any process has written to the store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._listeners: set[Callable[[], None]] = set()
        self._condition = threading.Condition()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a callback, which must be quick, and return the function that removes it.

        The callback runs in the notifier's thread, without arguments; it must not call the store.
        """
        with self._condition:
            self._listeners.add(callback)
            if self._thread is None:
                # Read before the thread starts, so that what is written meanwhile is noticed.
                token = self._engine.read_change_token()
                self._thread = threading.Thread(
                    target=self._run, args=(token,), name="memoranda-changes", daemon=True
                )
                self._thread.start()
            self._condition.notify_all()

        def stop() -> None:
            with self._condition:
                self._listeners.discard(callback)

        return stop

    @property
    def is_closed(self) -> bool:
        """True if the store is being closed: there are no more notifications."""
        return self._stopped

    def close(self) -> None:
        """Stop the thread and wait for it."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self, last_token: int) -> None:
        is_away = False
        while self._wait_for_listener():
            try:
                with closing(self._engine.watch_changes()) as tokens:
                    for token in tokens:
                        is_away = False
                        if token != last_token:
                            last_token = token
                            self._notify()
                        if self._stopped or not self._listeners:
                            break
            except StoreUnavailable as error:
                # Logged once: the store may be away for a while.
                if not is_away:
                    _log.warning("%s: the store is not watched until then", error)
                is_away = True
                with self._condition:
                    self._condition.wait_for(lambda: self._stopped, RETRY_SECONDS)

    def _notify(self) -> None:
        with self._condition:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()

    def _wait_for_listener(self) -> bool:
        """Wait until somebody listens; return False once the notifier is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._listeners or self._stopped)
            return not self._stopped
