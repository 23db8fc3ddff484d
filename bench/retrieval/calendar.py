"""Days, months and years that a question names, moved with the conversation it is asked about.

Whoever lives through a conversation later names other days: a question that keeps the old ones asks for what was never
said then. A month is that of the answer, if that was said in it, because a conversation is not moved by whole months.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

_MONTHS: Final = tuple(calendar.month_name[1:])
_MONTH: Final = "|".join(_MONTHS)
_NAMED: Final = re.compile(
    rf"\b(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)? )?(?P<month>{_MONTH})\b(?: (?P<after>\d{{1,2}})(?:st|nd|rd|th)?\b)?"
    r"(?:,? (?P<year>\d{4})\b)?|\b(?P<alone>(?:19|20)\d\d)\b"
)


def moved_dates(text: str, moved: timedelta, about: Sequence[datetime]) -> str:
    """A question with the dates that it names so much later; `about`: when its answers were said, before they moved."""
    said = sorted(about)

    def later(found: re.Match[str]) -> str:
        year = found["year"] or found["alone"]
        if found["alone"]:
            return str(((_said_in(said, None, int(year)) or datetime(int(year), 7, 1, tzinfo=UTC)) + moved).year)
        month = _MONTHS.index(found["month"]) + 1
        day = found["day"] or found["after"]
        near = _said_in(said, month, int(year) if year else None)
        at = datetime(int(year) if year else (near or said[0]).year, month, int(day or 15), tzinfo=UTC) + moved
        if day is None and near is not None:
            at = near + moved
        named = _MONTHS[at.month - 1]
        named = f"{at.day} {named}" if found["day"] else f"{named} {at.day}" if found["after"] else named
        return f"{named}{', ' if day and year else ' ' if year else ''}{at.year if year else ''}"

    return _NAMED.sub(later, text) if said else text


def _said_in(said: Sequence[datetime], month: int | None, year: int | None) -> datetime | None:
    """The first that was said in a month, or in a year, or both."""
    fits = (each for each in said if month in (None, each.month) and year in (None, each.year))
    return next(fits, None)
