"""Instants and durations: UTC, whole milliseconds since 1970.

Native documents keep their time strings unchanged; the store compares these integers. Instants are clamped to the range
of RFC 3339, the years 0001 to 9999: a later or earlier instant becomes the last or the first millisecond of the range.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NewType

Instant = NewType("Instant", int)

# RFC 3339 section 5.6. The offset is required: a time without one names no instant.
_RFC3339 = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d{2}):(\d{2}))",
    re.ASCII,
)
# The most common form, which Python's own parser reads six times as fast.
_USUAL = re.compile(r"\d{4}-\d{2}-\d{2}T(?:[01]\d|2[0-3]):\d{2}:[0-5]\d(?:\.\d{1,9})?Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

DAY_MS = 86_400_000
# The first and the last millisecond that RFC 3339 can write.
EARLIEST = Instant(-62_135_596_800_000)
LATEST = Instant(253_402_300_799_999)
# ISO 8601 durations have no fixed length for years and months; UMP's reference counts 365 and 30 days.
_DURATION = re.compile(
    # At least one part, and one after the T.
    r"P(?=\d|T\d)(?:(\d{1,9})Y)?(?:(\d{1,9})M)?(?:(\d{1,9})W)?(?:(\d{1,9})D)?"
    r"(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)
_DURATION_UNITS_MS = (365 * DAY_MS, 30 * DAY_MS, 7 * DAY_MS, DAY_MS, 3_600_000, 60_000, 1_000)


def clamp(milliseconds: int) -> Instant:
    """Return the instant, clamped to the years 0001 to 9999."""
    return Instant(min(max(milliseconds, EARLIEST), LATEST))


def to_datetime(instant: int) -> datetime:
    """Return an instant as a datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=clamp(instant))


def from_datetime(moment: datetime) -> Instant:
    """Return the instant of a datetime that has a time zone; fractions of a millisecond are cut."""
    return clamp((moment - _EPOCH) // _MILLISECOND)


@lru_cache(maxsize=4096)  # most times of one record are equal
def parse_instant(text: str) -> Instant:
    """Return the instant of an RFC 3339 date-time; fractions of a millisecond are cut. Raises ValueError."""
    if _USUAL.fullmatch(text) is not None:
        since = datetime.fromisoformat(text) - _EPOCH
        return Instant((since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000)
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError("not an RFC 3339 date-time with an offset")
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    # RFC 3339 allows leap seconds, which a datetime cannot hold; they become the last millisecond before.
    is_leap = second == 60
    if match[8]:
        zone: timezone = UTC
    else:
        offset = timedelta(hours=int(match[10]), minutes=int(match[11]))
        zone = timezone(-offset if match[9] == "-" else offset)
    moment = datetime(year, month, day, hour, minute, 59 if is_leap else second, tzinfo=zone)
    fraction_ms = 999 if is_leap else int((match[7] or "").ljust(3, "0")[:3])
    # An offset can lead beyond the calendar: 9999-12-31T23:00:00-05:00.
    return clamp((moment - _EPOCH) // _MILLISECOND + fraction_ms)


if TYPE_CHECKING:
    Moment = Instant
else:

    class Moment(int):
        """An instant in a request, parsed from an RFC 3339 date-time."""

        EXPECTED: ClassVar[str] = "an RFC 3339 date-time with an offset"
        SCHEMA: ClassVar[dict[str, Any]] = {"type": "string", "format": "date-time"}

        @classmethod
        def from_json(cls, value: object) -> Instant:
            """Parse a JSON value. Raises ValueError unless it is a date-time with an offset."""
            try:
                if isinstance(value, str):
                    return cls(parse_instant(value))
            except ValueError:
                pass
            raise ValueError(f"must be {cls.EXPECTED}")

        def to_json(self) -> str:
            """Return the instant as an RFC 3339 date-time."""
            return format_instant(self)


@lru_cache(maxsize=4096)
def format_instant(instant: int) -> str:
    """Write an instant as `2026-06-04T10:00:00.000Z`: always milliseconds, always Z."""
    return to_datetime(instant).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def parse_duration_ms(text: str) -> int:
    """Return the milliseconds of an ISO 8601 duration, at most the length of the calendar. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("not an ISO 8601 duration")
    total = 0.0
    for amount, unit_ms in zip(match.groups(), _DURATION_UNITS_MS, strict=True):
        if amount:
            total += float(amount) * unit_ms
    return min(round(total), LATEST - EARLIEST)


def format_duration(milliseconds: int) -> str:
    """Format a duration in seconds; from 10^9 seconds on, which have too many digits, in days and seconds."""
    if milliseconds < 10**12:
        return f"PT{milliseconds / 1000:.3f}S"
    days, remainder = divmod(milliseconds, DAY_MS)
    return f"P{days}DT{remainder / 1000:.3f}S"
