"""Following the change feed for a subscriber: which resources changed, and whether the list did.

Changes of any process arrive, because the feed is the store's. A follower reads with its own access, so it
hears only of what it may see; and it asks before each reading whether its credential still holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass

from anyio import to_thread

from memoranda.bindings.mcp.resources import Place
from memoranda.errors import MemorandaError, StoreUnavailable
from memoranda.service.core.access import Access
from memoranda.service.core.feed import ChangeEvent
from memoranda.service.service import Service

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What changed since last time: which of the wanted places, and whether the list of memories is another."""

    places: frozenset[Place]
    listing: bool


# Gives the subscriber's access as it is now; raises when the credential does not hold any more.
Renew = Callable[[], Access]
# What the subscriber wants to hear of now.
Wanted = Callable[[], Set[Place]]
Deliver = Callable[[Changed], Awaitable[None]]


def start(service: Service, access: Access) -> int:
    """Check that the caller may listen, and say where its feed starts. Raises MemorandaError."""
    return service.feed_end(access, access.limits)


async def follow(
    service: Service, renew: Renew, after: int, wanted: Wanted, deliver: Deliver
) -> None:
    """Deliver every change from `after` on, until cancelled or until the credential is refused."""
    rung = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ring() -> None:
        # The notifier may be halfway through its round when the loop ends.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(rung.set)

    stop = service.notifier.listen(ring)
    try:
        while True:
            rung.clear()
            try:
                changed, after = await to_thread.run_sync(
                    _read, service, renew, after, frozenset(wanted())
                )
            except StoreUnavailable as error:
                # At the end there is nothing to try again.
                if service.notifier.is_over:
                    return
                _log.warning("the change feed could not be read; trying again: %s", error)
            else:
                if changed.places or changed.listing:
                    await deliver(changed)
            await rung.wait()
    except MemorandaError as error:
        _log.info("a subscription ended: %s", error)
    finally:
        stop()


def _read(
    service: Service, renew: Renew, after: int, wanted: frozenset[Place]
) -> tuple[Changed, int]:
    access = renew()
    places: set[Place] = set()
    listing = False
    while True:
        page = service.changes(access, access.limits, after)
        for event in page.events:
            # A merge confirms a memory that is listed already; every other change alters the list.
            listing = listing or event.type != "merged"
            places.update(place for place in _places(event) if place in wanted)
        after = page.next
        if page.is_last:
            return Changed(places=frozenset(places), listing=listing), after


def _places(event: ChangeEvent) -> Iterator[Place]:
    """Where a change can be seen: the project, the memory, and earlier versions that it may have closed or erased."""
    project = event.record["scope"].get("project", "")
    earlier = event.record.get("supersedes", ())
    # A new version closes the last one; erasing takes all of them.
    for name in ("", event.id, *(earlier if event.type == "tombstoned" else earlier[:1])):
        yield Place(project=project, id=name)
