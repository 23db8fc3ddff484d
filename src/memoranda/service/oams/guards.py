"""What a write has to pass: the condition that its caller set, and the quotas."""

from __future__ import annotations

from typing import Final

from memoranda.errors import QuotaExceeded, VersionMismatch
from memoranda.model.instant import Instant
from memoranda.service.core.context import Context
from memoranda.storage.engine import Unit

WINDOW_MS: Final = 60_000


def check_condition(etag: str | None, if_match: str | None, if_absent: bool) -> None:
    """Raise VersionMismatch unless what is there is what the caller has seen."""
    if if_absent and etag is not None:
        raise VersionMismatch("there is a memory under this key already")
    if if_match is None:
        return
    if etag is None or (if_match != "*" and etag not in _tags(if_match)):
        raise VersionMismatch("the memory has changed since; read it again")


def _tags(if_match: str) -> list[str]:
    return [tag.strip().removeprefix("W/").strip('"') for tag in if_match.split(",")]


def spend(context: Context, unit: Unit, count: int, now: Instant) -> None:
    """Count writes against the quota. Raises QuotaExceeded."""
    limit = context.oams.writes_per_minute
    if not limit:
        return
    if not unit.take_rate("oams writes", now=now, window_ms=WINDOW_MS, limit=limit, count=count):
        raise QuotaExceeded(f"more than {limit} writes a minute; try again later")


def check_room(context: Context, unit: Unit, *, is_new: bool, size: int) -> None:
    """Raise QuotaExceeded if there is no room for one more."""
    quotas = context.oams
    if not quotas.memories and not quotas.bytes:
        return
    live, used = unit.usage()
    if is_new and quotas.memories and live >= quotas.memories:
        raise QuotaExceeded(f"there are {live} memories, and {quotas.memories} is the most")
    if quotas.bytes and used + size > quotas.bytes:
        raise QuotaExceeded(f"{quotas.bytes} bytes is the most, and {used} are used")
