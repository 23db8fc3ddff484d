"""Schedules as cron expressions of five fields (minute, hour, day of month, month, day of week) in a named time zone.

They are evaluated by cronsim, which follows Debian's cron(8). If neither day field begins with `*`, a day that matches
either of them is enough; otherwise it must match both. A fixed hour that is skipped in spring runs right after the gap,
and one that occurs twice in autumn runs once; fields with `*` follow real time. `L`, `LW` and `5#2` (the second Friday)
are supported. A schedule that never occurs, such as 30 February, is refused.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from cronsim import CronSim, CronSimError

from memoranda.errors import InvalidInput
from memoranda.model.calendar import load_zone
from memoranda.model.instant import from_datetime, to_datetime

# Characters of an expression: the longest useful one lists sixty minutes.
EXPRESSION_CHARS_LIMIT: Final = 256
FIELDS: Final = 5

_EPOCH: Final = to_datetime(0)
# Sunday at the end of a range, as in FRI-SUN; and a range of one value with a step, which cronsim would extend.
_TO_SUNDAY: Final = re.compile(r"(?<![^,])(?!(?:SUN|0)-)([0-9A-Z]+)-(?:SUN|0)(?![0-9])")
_ONE_STEPPED: Final = re.compile(r"(?<![^, ])([0-9A-Z]+)-\1/0*[1-9][0-9]*(?![^, ])")


def next_after(expression: str, at: int, timezone: str = "UTC") -> int:
    """Return the next instant of a schedule after `at`, in milliseconds since 1970.

    Raises InvalidInput for an invalid expression, and if the schedule does not occur again before the calendar ends.
    """
    try:
        start = to_datetime(at).astimezone(load_zone(timezone))
        return from_datetime(next(_parse(expression, start)))
    except (StopIteration, OverflowError, ValueError):
        raise InvalidInput(
            f"the schedule “{' '.join(expression.split())}” does not come again"
        ) from None


def check_cron(expression: str, timezone: str = "UTC") -> None:
    """Raise InvalidInput unless a text is a valid schedule in a known time zone."""
    _parse(expression, _EPOCH)
    load_zone(timezone)


def normal_form(expression: str) -> list[object]:
    """Return a value that is equal for all spellings of a schedule: the values of its fields, and how days combine."""
    schedule = _parse(expression, _EPOCH)
    weekdays = {
        day % 7 if isinstance(day, int) else (day[0] % 7, day[1]) for day in schedule.weekdays
    }
    fields = (schedule.minutes, schedule.hours, schedule.days, schedule.months)
    return [*map(sorted, fields), sorted(map(str, weekdays)), not schedule.day_and]


def _parse(expression: str, start: datetime) -> CronSim:
    if len(expression) > EXPRESSION_CHARS_LIMIT:
        raise InvalidInput(
            f"a cron expression has at most {EXPRESSION_CHARS_LIMIT} characters, not {len(expression)}"
        )
    fields = expression.upper().split()
    if len(fields) != FIELDS:
        raise InvalidInput(
            "a cron expression has five fields (minute, hour, day of month, month, day of week), "
            f"and this one has {len(fields)}"
        )
    try:
        normalized = " ".join((*fields[:4], _TO_SUNDAY.sub(r"\1-7", fields[4])))
        return CronSim(_ONE_STEPPED.sub(r"\1", normalized), start)
    except CronSimError as error:
        raise InvalidInput(f"cron expression: {str(error).lower()}") from None
