"""Written dates in all languages, read alike in questions and in notes."""

from __future__ import annotations

from datetime import UTC, date

import pytest

from memoranda.model.calendar import utc_day
from memoranda.model.instant import parse_instant
from memoranda.time_words.dates import find_dates, find_days
from memoranda.time_words.spans import read_times

# A Tuesday.
NOW = parse_instant("2026-03-03T10:00:00Z")
DATES = [
    ("on 2026-05-08", date(2026, 5, 8)),
    ("on 2026/05/08", date(2026, 5, 8)),
    ("am 8.5.2026", date(2026, 5, 8)),
    ("am 8. Mai 2026", date(2026, 5, 8)),
    ("am 8. März 2026", date(2026, 3, 8)),
    ("le 1er août 2026", date(2026, 8, 1)),
    ("el 8 de mayo de 2026", date(2026, 5, 8)),
    ("8 de março de 2026", date(2026, 3, 8)),
    ("May 8th, 2026", date(2026, 5, 8)),
    ("2026年5月8日", date(2026, 5, 8)),
    # "ß" folds to two letters, which must not move the indices.
    ("Großer Tag: 8. Mai 2026", date(2026, 5, 8)),
]


@pytest.mark.parametrize(("text", "day"), DATES)
def test_questions_and_notes_read_the_same_dates(text: str, day: date) -> None:
    (named,) = find_days(text, NOW)
    assert (named.day, named.grain) == (day, "day")
    assert text[named.start : named.end].strip("."), text
    (span,) = read_times(text, NOW, UTC).spans
    assert utc_day(span.start) == day


@pytest.mark.parametrize("text", ["in May 2026", "im Mai 2026", "en août 2026", "2026-05", "2026年5月"])
def test_a_month_is_named_in_every_language(text: str) -> None:
    (named,) = find_days(text, NOW)
    assert named.grain == "month"
    assert named.day.day == 1


@pytest.mark.parametrize("text", ["Marco 10 points", "rio de janeiro 2026", "version 2026-05-08-beta", "2026年"])
def test_names_and_parts_of_words_are_no_dates_of_a_note(text: str) -> None:
    assert find_days(text, NOW) == []


def test_a_month_before_another_date_takes_no_part_of_it() -> None:
    assert [written[:3] for written in find_dates("may 2026-05-08")] == [(2026, 5, 8)]
    assert [written[:3] for written in find_dates("march 8.5.2026")] == [(2026, 5, 8)]
