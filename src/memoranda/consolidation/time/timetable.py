"""Instants that keep to a timetable: every hour, every day, on working days, on days of the week or of the month. UTC.

The time of day is the twenty minutes around which most instants lie. A timetable holds when nearly all instants keep to
it, and nearly all its times between the first and the last were kept; a few may be missed, and a few may be extra.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import Final

from memoranda.model.calendar import days_after
from memoranda.model.instant import DAY_MS, EARLIEST, LATEST

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_DAY_MINUTES: Final = 24 * 60
# Instants this far apart are the same time of day.
WINDOW_MINUTES: Final = 40
_HOUR_WINDOW_MINUTES: Final = 10
# Of the instants so many must keep to the timetable, and of its times so many must have been kept.
_KEPT_SHARE: Final = 0.8
# Fewer days in a row are a busy week, and fewer hours a busy day.
_LEAST_DAYS: Final = 5
_LEAST_HOURS: Final = 8
_WORKING_DAYS: Final = frozenset(range(5))
_WEEKDAYS_LIMIT: Final = 3
# Every month has it.
_LAST_COMMON_DAY: Final = 28
_EPOCH: Final = date(1970, 1, 1)


def timetable(instants: Iterable[int], *, least: int) -> str | None:
    """The cron expression that instants keep to, at least so many of them; None when there is none."""
    known = sorted({at for at in instants if EARLIEST <= at <= LATEST})
    if len(known) < least:
        return None
    return _hourly(known) or _by_day(known, least)


def _hourly(known: Sequence[int]) -> str | None:
    minute, kept = _usual([at // _MINUTE_MS % 60 for at in known], 60, _HOUR_WINDOW_MINUTES)
    hours = sorted({(at - minute * _MINUTE_MS + _HOUR_MS // 2) // _HOUR_MS for at in known})
    if len(hours) < _LEAST_HOURS or kept < _KEPT_SHARE * len(known):
        return None
    return f"{minute} * * * *" if len(hours) >= _KEPT_SHARE * (hours[-1] - hours[0] + 1) else None


def _by_day(known: Sequence[int], least: int) -> str | None:
    minute, _ = _usual(
        [at // _MINUTE_MS % _DAY_MINUTES for at in known], _DAY_MINUTES, WINDOW_MINUTES
    )
    days: list[date] = []
    for at in known:
        # The day whose time of day is nearest: just before midnight may belong to the next day.
        number, rest = divmod(at - minute * _MINUTE_MS + DAY_MS // 2, DAY_MS)
        if abs(rest - DAY_MS // 2) <= WINDOW_MINUTES * _MINUTE_MS // 2:
            days.append(days_after(_EPOCH, number))
    if len(days) < _KEPT_SHARE * len(known):
        return None
    kept = sorted(set(days))
    fields = _daily(kept) or _weekly(kept, least) or _monthly(kept, least)
    return None if fields is None else f"{minute % 60} {minute // 60} {fields}"


def _daily(kept: Sequence[date]) -> str | None:
    if len(kept) < _LEAST_DAYS:
        return None
    span = _days_between(kept)
    working = [day for day in span if day.weekday() in _WORKING_DAYS]
    kept_working = [day for day in kept if day.weekday() in _WORKING_DAYS]
    # Weekends are free: without one in the span there is no telling, and working days promise less.
    if len(kept_working) == len(kept) and len(kept) >= _KEPT_SHARE * len(working):
        return "* * 1-5"
    return "* * *" if len(kept) >= _KEPT_SHARE * len(span) else None


def _weekly(kept: Sequence[date], least: int) -> str | None:
    counts: dict[int, int] = defaultdict(int)
    for day in kept:
        counts[day.weekday()] += 1
    offered: dict[int, int] = defaultdict(int)
    for day in _days_between(kept):
        offered[day.weekday()] += 1
    usual = sorted(
        day
        for day, count in counts.items()
        if count >= least and count >= _KEPT_SHARE * offered[day]
    )
    if (
        not usual
        or len(usual) > _WEEKDAYS_LIMIT
        or not _most(kept, sum(counts[day] for day in usual))
    ):
        return None
    return "* * " + ",".join(str(day + 1) for day in usual)


def _monthly(kept: Sequence[date], least: int) -> str | None:
    counts: dict[int, set[int]] = defaultdict(set)
    for day in kept:
        counts[day.day].add(day.year * 12 + day.month)
    number = min(counts, key=lambda number: (-len(counts[number]), number))
    months = counts[number]
    is_kept = len(months) >= least and len(months) >= _KEPT_SHARE * (max(months) - min(months) + 1)
    if number > _LAST_COMMON_DAY or not is_kept or not _most(kept, len(months)):
        return None
    return f"{number} * *"


def _most(kept: Collection[date], count: int) -> bool:
    return count >= _KEPT_SHARE * len(kept)


def _days_between(kept: Sequence[date]) -> list[date]:
    # A few years are enough to tell; a stray early instant must not cost time.
    first = max(kept[0], days_after(kept[-1], -1_500))
    return [days_after(first, count) for count in range((kept[-1] - first).days + 1)]


def _usual(places: Sequence[int], circle: int, window: int) -> tuple[int, int]:
    """The middle of the window on a circle that holds most places, to five minutes, and how many it holds."""
    around = sorted(places)
    around += [place + circle for place in around]
    best, best_count, end = 0, 0, 0
    for start in range(len(places)):
        while end < len(around) and around[end] - around[start] <= window:
            end += 1
        count = min(end - start, len(places))
        if count > best_count:
            best, best_count = start, count
    middle = around[best + (best_count - 1) // 2]
    return (middle + 2) // 5 * 5 % circle, best_count
