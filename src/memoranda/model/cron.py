"""Schedules as cron expressions of five fields (minute, hour, day of month, month, day of week) in a named time zone.

They are read and counted by cronsim, which does as Debian's cron(8): when neither day field begins with `*`, a day that
fits either of them is meant; otherwise it has to fit both. A fixed hour that the clocks skip in spring comes right
after the gap, and one that they strike twice in autumn comes once; what is said with `*` goes on by real time. `L`,
`LW` and `5#2` (the second Friday) are understood. A schedule that can never come, such as 30 February, is refused.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from memoranda.errors import InvalidInput
from memoranda.model.instant import from_datetime, to_datetime

# The longest useful list is sixty minutes; more is a mistake or an attack.
EXPRESSION_CHARS_LIMIT: Final = 256
FIELDS: Final = 5

_EPOCH: Final = to_datetime(0)
# Sunday at the end of a range, as in FRI-SUN; and a range of one value, whose step cronsim would take to the end.
_TO_SUNDAY: Final = re.compile(r"(?<![^,])(?!(?:SUN|0)-)([0-9A-Z]+)-(?:SUN|0)(?![0-9])")
_ONE_STEPPED: Final = re.compile(r"(?<![^, ])([0-9A-Z]+)-\1/0*[1-9][0-9]*(?![^, ])")
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z0-9_+-]{1,32}){0,2}", re.ASCII)


def next_after(expression: str, at: int, timezone: str = "UTC") -> int:
    """Return when an expression comes next after an instant. Raises InvalidInput, also at the end of the calendar."""
    try:
        return from_datetime(next(_read(expression, to_datetime(at).astimezone(zone(timezone)))))
    except (StopIteration, OverflowError, ValueError):
        raise InvalidInput(
            f"the schedule “{' '.join(expression.split())}” does not come again"
        ) from None


def check_cron(expression: str, timezone: str = "UTC") -> None:
    """Refuse what is no schedule. Raises InvalidInput."""
    _read(expression, _EPOCH)
    zone(timezone)


def meaning(expression: str) -> list[object]:
    """The same for every spelling of a schedule: the values of its fields, and whether either day is enough."""
    read = _read(expression, _EPOCH)
    weekdays = {day % 7 if isinstance(day, int) else (day[0] % 7, day[1]) for day in read.weekdays}
    fields = (read.minutes, read.hours, read.days, read.months)
    return [*map(sorted, fields), sorted(map(str, weekdays)), not read.day_and]


def zone(name: str) -> tzinfo:
    """A time zone by its name in the tz database. Raises InvalidInput."""
    try:
        if _ZONE.fullmatch(name):
            return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        pass
    raise InvalidInput("timezone: not the name of a time zone, such as Europe/Berlin")


def _read(expression: str, start: datetime) -> CronSim:
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
        whole = " ".join((*fields[:4], _TO_SUNDAY.sub(r"\1-7", fields[4])))
        return CronSim(_ONE_STEPPED.sub(r"\1", whole), start)
    except CronSimError as error:
        raise InvalidInput(f"cron expression: {str(error).lower()}") from None
