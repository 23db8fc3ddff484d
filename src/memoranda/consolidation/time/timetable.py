"""Fitting a timetable to instants: every hour, every day, working days, days of the week or of the month. UTC.

The time of day is the middle of the 40-minute window with most instants. A timetable fits if at least 80 % of the
instants match it, and at least 80 % of its times between the first and the last instant occurred.
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
# Width of the window, in minutes, in which instants count as one time of day (or one minute of the hour).
WINDOW_MINUTES: Final = 40
_HOUR_WINDOW_MINUTES: Final = 10
# Share of the instants that must match the timetable, and share of its times that must have occurred.
_MATCH_SHARE: Final = 0.8
# Fewest days of a daily, and hours of an hourly timetable; fewer are only a busy week or day.
_LEAST_DAYS: Final = 5
_LEAST_HOURS: Final = 8
_WORKING_DAYS: Final = frozenset(range(5))
# Most days of the week in a timetable; more would be nearly daily.
_WEEKDAYS_LIMIT: Final = 3
# The last day that every month has.
_LAST_COMMON_DAY: Final = 28
_EPOCH: Final = date(1970, 1, 1)


def fit_timetable(instants: Iterable[int], *, least: int) -> str | None:
    """Return the cron expression that at least `least` instants match; None if there is none."""
    valid = sorted({at for at in instants if EARLIEST <= at <= LATEST})
    if len(valid) < least:
        return None
    return _fit_hourly(valid) or _fit_daily_time(valid, least)


def _fit_hourly(instants: Sequence[int]) -> str | None:
    """Return a cron expression for one minute of every hour; None if it does not fit."""
    minute, count = _find_busiest_window(
        [at // _MINUTE_MS % 60 for at in instants], 60, _HOUR_WINDOW_MINUTES
    )
    hours = sorted({(at - minute * _MINUTE_MS + _HOUR_MS // 2) // _HOUR_MS for at in instants})
    if len(hours) < _LEAST_HOURS or count < _MATCH_SHARE * len(instants):
        return None
    return f"{minute} * * * *" if len(hours) >= _MATCH_SHARE * (hours[-1] - hours[0] + 1) else None


def _fit_daily_time(instants: Sequence[int], least: int) -> str | None:
    """Return a cron expression for one time of day and a rule for days; None if none fits."""
    minute, _ = _find_busiest_window(
        [at // _MINUTE_MS % _DAY_MINUTES for at in instants], _DAY_MINUTES, WINDOW_MINUTES
    )
    days: list[date] = []
    for at in instants:
        # The day with the nearest such time; an instant just before midnight may belong to the next day.
        number, remainder = divmod(at - minute * _MINUTE_MS + DAY_MS // 2, DAY_MS)
        if abs(remainder - DAY_MS // 2) <= WINDOW_MINUTES * _MINUTE_MS // 2:
            days.append(days_after(_EPOCH, number))
    if len(days) < _MATCH_SHARE * len(instants):
        return None
    distinct_days = sorted(set(days))
    fields = (
        _fit_days(distinct_days)
        or _fit_weekdays(distinct_days, least)
        or _fit_month_day(distinct_days, least)
    )
    return None if fields is None else f"{minute % 60} {minute // 60} {fields}"


def _fit_days(days: Sequence[date]) -> str | None:
    """Return the day fields for every day or working days; None if neither fits."""
    if len(days) < _LEAST_DAYS:
        return None
    span = _days_between(days)
    working = [day for day in span if day.weekday() in _WORKING_DAYS]
    kept_working = [day for day in days if day.weekday() in _WORKING_DAYS]
    # Without a run on a weekend assume working days only, which is the weaker claim.
    if len(kept_working) == len(days) and len(days) >= _MATCH_SHARE * len(working):
        return "* * 1-5"
    return "* * *" if len(days) >= _MATCH_SHARE * len(span) else None


def _fit_weekdays(days: Sequence[date], least: int) -> str | None:
    """Return the day fields for up to three weekdays; None if they do not fit."""
    counts: dict[int, int] = defaultdict(int)
    for day in days:
        counts[day.weekday()] += 1
    offered: dict[int, int] = defaultdict(int)
    for day in _days_between(days):
        offered[day.weekday()] += 1
    usual = sorted(
        day
        for day, count in counts.items()
        if count >= least and count >= _MATCH_SHARE * offered[day]
    )
    if (
        not usual
        or len(usual) > _WEEKDAYS_LIMIT
        or not _is_most(days, sum(counts[day] for day in usual))
    ):
        return None
    return "* * " + ",".join(str(day + 1) for day in usual)


def _fit_month_day(days: Sequence[date], least: int) -> str | None:
    """Return the day fields for one day of the month; None if it does not fit."""
    counts: dict[int, set[int]] = defaultdict(set)
    for day in days:
        counts[day.day].add(day.year * 12 + day.month)
    number = min(counts, key=lambda number: (-len(counts[number]), number))
    months = counts[number]
    is_kept = len(months) >= least and len(months) >= _MATCH_SHARE * (max(months) - min(months) + 1)
    if number > _LAST_COMMON_DAY or not is_kept or not _is_most(days, len(months)):
        return None
    return f"{number} * *"


def _is_most(days: Collection[date], count: int) -> bool:
    return count >= _MATCH_SHARE * len(days)


def _days_between(days: Sequence[date]) -> list[date]:
    # At most 1500 days are checked, so that one early instant does not cost time.
    first = max(days[0], days_after(days[-1], -1_500))
    return [days_after(first, count) for count in range((days[-1] - first).days + 1)]


def _find_busiest_window(places: Sequence[int], circle: int, window: int) -> tuple[int, int]:
    """Return the middle of the window with most positions on a circle, rounded to 5 minutes, and their number."""
    around = sorted(places)
    around += [position + circle for position in around]
    best, best_count, end = 0, 0, 0
    for start in range(len(places)):
        while end < len(around) and around[end] - around[start] <= window:
            end += 1
        count = min(end - start, len(places))
        if count > best_count:
            best, best_count = start, count
    middle = around[best + (best_count - 1) // 2]
    return (middle + 2) // 5 * 5 % circle, best_count
