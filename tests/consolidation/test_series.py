"""Days, figures and events in time."""

from __future__ import annotations

from datetime import date

import pytest
from tests.consolidation.notes import at, note

from memoranda.consolidation.strategies.series import find_events, find_rhythm, find_series, fit_trend, group_by_frame
from memoranda.consolidation.text.corpus import Corpus
from memoranda.consolidation.text.note import MemoryNote
from memoranda.model.calendar import utc_day
from memoranda.time_words.dates import find_days

WEDNESDAY = at("2026-03-04")


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("due 2026-09-01", "2026-09-01"), ("at 2026-09-01T10:00:00Z sharp", "2026-09-01"),
        ("on 1 June 2026", "2026-06-01"),
        ("June 1st, 2026", "2026-06-01"), ("the 3rd of May 2026", "2026-05-03"), ("am 3.5.2026", "2026-05-03"),
        ("2026年5月3日", "2026-05-03"), ("in Sept 2026", "2026-09-01"), ("tomorrow", "2026-03-05"),
        ("in 2 weeks", "2026-03-18"),
        ("in 3 months", "2026-06-04"), ("next Monday", "2026-03-09"), ("on Wednesday", "2026-03-11"),
        ("on 14 November", "2026-11-14"), ("March 12 at 9", "2026-03-12"), ("on 20 February", "2026-02-20"),
        ("on 2 January", "2027-01-02"), ("the 29th of February", "2028-02-29"),
        ("last Friday", "2026-02-27"), ("next week", "2026-03-09"), ("next month", "2026-04-01"),
    ],
)  # fmt: skip
def test_a_day_is_read_from_a_text_and_the_day_it_was_written(text: str, day: str) -> None:
    (named,) = find_days(text, WEDNESDAY)
    assert named.day == date.fromisoformat(day)


@pytest.mark.parametrize(
    "text",
    [
        "03/04/2026",
        "31 February 2026",
        "2026-13-01",
        "version 3.11.2026x",
        "9999999",
        "may",
        "form 12 may be used",
        "31 February",
    ],
)
def test_what_is_no_day_or_could_be_two_is_not_read(text: str) -> None:
    assert find_days(text, WEDNESDAY) == []


def test_instants_beyond_the_calendar_are_held_to_it() -> None:
    assert utc_day(10**30) == date(9999, 12, 31)
    assert utc_day(-(10**30)) == date(1, 1, 1)
    last = [named.day for named in find_days("tomorrow, next month, in 999 months", 10**30)]
    assert last == [date(9999, 12, 31)] * 3


def readings(numbers: list[float], unit: str = "%") -> list[MemoryNote]:
    return [
        note(f"Disk usage of alpha was {n:g}{unit}.", f"2026-01-{5 + 7 * week:02}") for week, n in enumerate(numbers)
    ]


@pytest.mark.parametrize(
    ("numbers", "direction"),
    [([61, 64, 66, 70], "rising"), ([9, 7, 4, 2], "falling"), ([1, 90, 3, 80], "mixed")],
)
def test_a_figure_said_again_and_again_is_a_series_with_a_trend(numbers: list[float], direction: str) -> None:
    (found,) = find_series(group_by_frame(Corpus(readings(numbers))), least=3)
    assert [point.number for point in found.points] == numbers
    assert found.frame == "Disk usage of alpha was …%"
    assert fit_trend(found).direction == direction


def test_figures_of_other_things_or_units_are_no_series() -> None:
    mixed = [*readings([1, 2]), *readings([3, 4], " GB")]
    two_numbers = [note(f"{n} of 9 disks are full on {day}") for n, day in enumerate(("2026-01-05", "2026-01-06"))]
    assert find_series(group_by_frame(Corpus([*mixed, *two_numbers])), least=3) == []


def test_a_date_in_the_sentence_counts_and_not_the_utc_day_writing() -> None:
    notes = [note(f"CPU load was {n}% on 2026-01-0{n}.", "2026-03-01") for n in (1, 2, 3)]
    (found,) = find_series(group_by_frame(Corpus(notes)), least=3)
    assert [point.day.day for point in found.points] == [1, 2, 3]


@pytest.mark.parametrize(
    ("days", "period"),
    [
        (["2026-01-05", "2026-01-12", "2026-01-19", "2026-01-26"], (7, False, 0)),
        (["2026-01-05", "2026-01-06", "2026-01-07", "2026-01-08"], (1, False, None)),
        (["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30"], (30, False, None)),
        (["2026-01-15", "2026-02-15", "2026-03-15", "2026-04-16"], (0, True, None)),
        (["2026-01-01", "2026-01-02", "2026-02-20", "2026-03-01"], None),
    ],
)
def test_an_event_has_a_rhythm_only_when_it_is_regular(
    days: list[str], period: tuple[int, bool, int | None] | None
) -> None:
    notes = [note("Weekly report sent.", day, name=day) for day in days]
    (event,) = find_events(Corpus(notes), group_by_frame(Corpus(notes)), least=3)
    found = find_rhythm(event)
    assert (found and (found.period_days, found.is_monthly, found.weekday)) == period
