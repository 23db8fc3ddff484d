"""Which times a question means, by the clock of whoever asks."""

from __future__ import annotations

from datetime import UTC, date
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.model.calendar import days_after, local_day, utc_day
from memoranda.model.instant import DAY_MS, EARLIEST, LATEST, clamp, parse_instant
from memoranda.time_words.spans import find_event, read_times
from memoranda.time_words.vocabulary import HOLIDAYS, MONTHS, PAST_DAYS, SEASONS, UNITS, WEEKDAYS, may_name_time

# A Tuesday.
NOW = parse_instant("2025-07-01T07:00:00Z")


def days(question: str, now: int = NOW, zone: str = "UTC") -> list[tuple[str, str]]:
    """Return the first and the last day of every span, by the asker's calendar; of those in all years the last two."""
    where = ZoneInfo(zone)
    spans = sorted(read_times(question, now, where).spans, key=lambda span: span.start)
    return [(local_day(span.start, where).isoformat(), local_day(span.end - 1, where).isoformat()) for span in spans][
        -2:
    ]


ONE_DAY = [
    ("What broke yesterday?", "2025-06-30"),
    ("Was ist gestern passiert?", "2025-06-30"),
    ("Que s'est-il passé hier ?", "2025-06-30"),
    ("昨天发生了什么？", "2025-06-30"),
    ("昨日は何をした？", "2025-06-30"),
    ("What did I do this morning?", "2025-07-01"),
    ("Was war heute?", "2025-07-01"),
    ("What did I do on New Year’s Day 2025?", "2025-01-01"),
    ("an Heiligabend 2024", "2024-12-24"),
    ("the day before yesterday", "2025-06-29"),
    ("vorgestern", "2025-06-29"),
    ("avant-hier", "2025-06-29"),
    ("three days ago", "2025-06-28"),
    ("vor drei Tagen", "2025-06-28"),
    ("il y a 3 jours", "2025-06-28"),
    ("hace tres días", "2025-06-28"),
    ("3天前", "2025-06-28"),
    ("on Monday", "2025-06-30"),
    ("last Tuesday", "2025-06-24"),
    ("on Tuesday", "2025-07-01"),
    ("am Sonntag", "2025-06-29"),
    ("letzten Freitag", "2025-06-27"),
    ("vendredi dernier", "2025-06-27"),
    ("on Sunday last week", "2025-06-29"),
    ("What happened on 8 May 2023?", "2023-05-08"),
    ("What happened on May 8th, 2023?", "2023-05-08"),
    ("Was geschah am 8. Mai 2023?", "2023-05-08"),
    ("le 1er mai 2023", "2023-05-01"),
    ("el 8 de mayo de 2023", "2023-05-08"),
    ("am 24.12.2024", "2024-12-24"),
    ("on 2023-05-08", "2023-05-08"),
    ("2025年4月5日", "2025-04-05"),
    # Not counted from today.
    ("What did she finish last Friday on 23 January, 2022?", "2022-01-23"),
]


@pytest.mark.parametrize(("question", "day"), ONE_DAY)
def test_a_day(question: str, day: str) -> None:
    assert days(question) == [(day, day)]


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("last week", "2025-06-23", "2025-06-29"),
        ("letzte Woche", "2025-06-23", "2025-06-29"),
        ("la semaine dernière", "2025-06-23", "2025-06-29"),
        ("先週", "2025-06-23", "2025-06-29"),
        ("this week", "2025-06-30", "2025-07-06"),
        ("last month", "2025-06-01", "2025-06-30"),
        ("letzten Monat", "2025-06-01", "2025-06-30"),
        ("le mois dernier", "2025-06-01", "2025-06-30"),
        ("上个月", "2025-06-01", "2025-06-30"),
        ("last year", "2024-01-01", "2024-12-31"),
        ("letztes Jahr", "2024-01-01", "2024-12-31"),
        ("l'année dernière", "2024-01-01", "2024-12-31"),
        ("el año pasado", "2024-01-01", "2024-12-31"),
        ("last weekend", "2025-06-28", "2025-06-29"),
        ("last May", "2025-05-01", "2025-05-31"),
        ("last August", "2024-08-01", "2024-08-31"),
        ("letzten August", "2024-08-01", "2024-08-31"),
        ("in May 2022", "2022-05-01", "2022-05-31"),
        ("im Mai 2022", "2022-05-01", "2022-05-31"),
        ("en mai 2022", "2022-05-01", "2022-05-31"),
        ("in 2023-05", "2023-05-01", "2023-05-31"),
        ("2025年4月", "2025-04-01", "2025-04-30"),
        ("in spring 2024", "2024-03-01", "2024-05-31"),
        ("im Frühling 2024", "2024-03-01", "2024-05-31"),
        ("au printemps 2024", "2024-03-01", "2024-05-31"),
        ("last summer", "2024-06-01", "2024-08-31"),
        ("l'été dernier", "2024-06-01", "2024-08-31"),
        ("this summer", "2025-06-01", "2025-08-31"),
        ("three weeks ago", "2025-06-07", "2025-06-13"),
        ("a couple of weeks ago", "2025-06-14", "2025-06-20"),
        ("vor ein paar Wochen", "2025-06-07", "2025-06-13"),
        ("há duas semanas", "2025-06-14", "2025-06-20"),
        ("il y a quinze jours", "2025-06-14", "2025-06-18"),
        ("in the last two weeks", "2025-06-17", "2025-07-01"),
        ("the last week of August 2023", "2023-08-01", "2023-08-31"),
    ],
)
def test_a_longer_time(question: str, first: str, last: str) -> None:
    assert days(question) == [(first, last)]


@pytest.mark.parametrize(
    ("phrase", "days_ago"),
    [
        *(("a", 1), ("one", 1), ("a couple of", 2), ("couple of", 2), ("two", 2), ("a few", 3), ("few", 3)),
        *(("three", 3), ("five", 5), ("6", 6)),
    ],
)
def test_a_number_in_words_is_that_many(phrase: str, days_ago: int) -> None:
    day = days_after(local_day(NOW, UTC), -days_ago).isoformat()
    assert days(f"{phrase} days ago") == [(day, day)]


def test_what_has_no_year_is_meant_of_every_year() -> None:
    assert days("in July") == [("2024-07-01", "2024-07-31"), ("2025-07-01", "2025-07-31")]
    assert days("on the 3rd of June") == [("2024-06-03", "2024-06-03"), ("2025-06-03", "2025-06-03")]
    assert days("in winter") == [("2024-12-01", "2025-02-28"), ("2025-12-01", "2026-02-28")]
    assert len(read_times("in July", NOW, UTC).spans) == 21


@pytest.mark.parametrize(
    "question",
    [
        "May I come in?",
        "They march on",
        "a trip to Mars",
        "a flat in Rio de Janeiro",
        "no date at all",
        "before the move",
        "2023-19-99",
        "Was ist hier passiert?",
        "the weekly sum",
        "30 February 2023",
        "",
    ],
)
def test_what_says_nothing_of_time(question: str) -> None:
    assert read_times(question, NOW, UTC).spans == ()


def test_a_day_is_the_askers() -> None:
    late = parse_instant("2025-07-01T23:30:00Z")
    assert days("yesterday", late, "UTC") == [("2025-06-30", "2025-06-30")]
    assert days("yesterday", late, "Europe/Zurich") == [("2025-07-01", "2025-07-01")]
    assert days("yesterday", late, "America/Los_Angeles") == [("2025-06-30", "2025-06-30")]
    (span,) = read_times("yesterday", late, ZoneInfo("Europe/Zurich")).spans
    assert span.start == parse_instant("2025-06-30T22:00:00Z")
    # The day on which clocks go forward has 23 hours.
    (short,) = read_times("on 30 March 2025", late, ZoneInfo("Europe/Zurich")).spans
    assert short.end - short.start == 23 * 3_600_000


MOMENTS = st.integers(10**11, 10**13)
ENDS = st.sampled_from((EARLIEST, LATEST)).flatmap(
    lambda end: st.integers(0, 40 * DAY_MS).map(lambda far: clamp(end + far if end == EARLIEST else end - far))
)
ZONES = st.sampled_from(["UTC", "Europe/Zurich", "America/St_Johns", "Asia/Kolkata", "Pacific/Kiritimati"])
FAR_QUESTIONS = (
    *(
        "9999-12-31",
        "9999-12",
        "9999年",
        "9999年12月31日",
        "0001-01-01",
        "0001-01",
        "0001年",
        "0001年1月1日",
        "0000-01-01",
    ),
    *("last winter", "last summer", "in winter", "last May", "in May", "on 31 December", "on the 1st of January"),
    *("999 years ago", "999 weeks ago", "999 days ago", "in the last 999 years", "999年前"),
    *("this week", "last week", "this weekend", "last weekend", "last month", "this year", "on Sunday last week"),
)
QUESTIONS = st.sampled_from((*(question for question, _ in ONE_DAY), *FAR_QUESTIONS)) | st.text(max_size=80)


@given(QUESTIONS, MOMENTS | ENDS, ZONES | st.none())
def test_every_span_has_a_length_and_weights_and_lies_within_time(question: str, now: int, zone: str | None) -> None:
    for span in read_times(question, now, None if zone is None else ZoneInfo(zone)).spans:
        assert EARLIEST <= span.start < span.end <= LATEST
        assert 1.0 >= span.inside >= span.after >= span.later >= 0.0
        assert span.inside > 0.0


def far_days() -> st.SearchStrategy[date]:
    return st.dates(date.min, date(1, 2, 1)) | st.dates(date(9999, 12, 1), date.max)


@given(far_days(), MOMENTS | ENDS)
def test_a_day_at_an_end_of_time_is_that_day_alone(day: date, now: int) -> None:
    (span,) = read_times(f"on {day.isoformat()}", now, UTC).spans
    assert utc_day(span.start) == day
    assert span.start % DAY_MS == 0
    assert span.end == min(span.start + DAY_MS, LATEST)


@given(MOMENTS, ZONES, st.integers(1, 400))
def test_what_is_counted_from_now_moves_with_it(now: int, zone: str, count: int) -> None:
    where = ZoneInfo(zone)
    today = local_day(now, where)
    assert days("yesterday", now, zone) == [(days_after(today, -1).isoformat(),) * 2]
    ((first, last),) = days(f"{count} days ago", now, zone)
    assert first <= days_after(today, -count).isoformat() <= last
    ((monday, sunday),) = days("last week", now, zone)
    assert monday < sunday < today.isoformat()


@given(MOMENTS, ZONES)
def test_nothing_that_is_past_lies_in_the_future(now: int, zone: str) -> None:
    for question in ("yesterday", "last week", "last month", "last year", "last May", "last Tuesday", "last winter"):
        for span in read_times(question, now, ZoneInfo(zone)).spans:
            assert span.start < now


TIME_WORDS = (
    *(
        *HOLIDAYS,
        *MONTHS,
        *PAST_DAYS,
        *SEASONS,
        *UNITS,
        *WEEKDAYS,
        "last",
        "this",
        "in",
        "l'",
        "l’",
        "of",
        "two",
        "ago",
    ),
    *(
        "before",
        "after",
        "since",
        "seit",
        "vor",
        "depuis que",
        "antes de",
        "apres l'",
        "the",
        "new year's day",
        "weekend",
    ),
    *("weekend", "lastsummer", "Été", "März", "move", "to Lyon", ", what", "did I", "passado", "dernier", "9", "?"),
)


@given(QUESTIONS | st.lists(st.sampled_from(TIME_WORDS), max_size=6).map(" ".join))
def test_no_text_that_is_said_to_name_no_time_names_one(question: str) -> None:
    if not may_name_time(question):
        assert read_times(question, NOW, UTC).spans == ()
        assert find_event(question) is None


def test_ordinary_questions_are_not_read_for_times() -> None:
    assert not any(map(may_name_time, ("Which package manager do we use?", "wer mag Kaffee", "the cat's name")))
