"""Which times a question means, by the clock of whoever asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.time_words import spans_in

# A Tuesday.
NOW = datetime(2025, 7, 1, 7, 0, tzinfo=UTC)


def days(question: str, now: datetime = NOW, zone: str = "UTC") -> list[tuple[str, str]]:
    """The first and the last day of every span, by the asker's calendar; of those in all years the last two."""
    where = ZoneInfo(zone)

    def day(milliseconds: int) -> str:
        return datetime.fromtimestamp(milliseconds / 1000, where).date().isoformat()

    found = sorted(spans_in(question, now, where), key=lambda span: span.start)
    return [(day(span.start), day(span.end - 1)) for span in found][-2:]


ONE_DAY = [
    ("What broke yesterday?", "2025-06-30"),
    ("Was ist gestern passiert?", "2025-06-30"),
    ("Que s'est-il passé hier ?", "2025-06-30"),
    ("昨天发生了什么？", "2025-06-30"),
    ("昨日は何をした？", "2025-06-30"),
    ("What did I do this morning?", "2025-07-01"),
    ("Was war heute?", "2025-07-01"),
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
        ("in the last two weeks", "2025-06-17", "2025-07-01"),
        ("the last week of August 2023", "2023-08-01", "2023-08-31"),
    ],
)
def test_a_longer_time(question: str, first: str, last: str) -> None:
    assert days(question) == [(first, last)]


def test_what_has_no_year_is_meant_of_every_year() -> None:
    assert days("in July") == [("2024-07-01", "2024-07-31"), ("2025-07-01", "2025-07-31")]
    assert days("on the 3rd of June") == [("2024-06-03", "2024-06-03"), ("2025-06-03", "2025-06-03")]
    assert days("in winter") == [("2024-12-01", "2025-02-28"), ("2025-12-01", "2026-02-28")]
    assert len(spans_in("in July", NOW, UTC)) == 21


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
    assert spans_in(question, NOW, UTC) == ()


def test_a_day_is_the_askers() -> None:
    late = datetime(2025, 7, 1, 23, 30, tzinfo=UTC)
    assert days("yesterday", late, "UTC") == [("2025-06-30", "2025-06-30")]
    assert days("yesterday", late, "Europe/Zurich") == [("2025-07-01", "2025-07-01")]
    assert days("yesterday", late, "America/Los_Angeles") == [("2025-06-30", "2025-06-30")]
    (span,) = spans_in("yesterday", late, ZoneInfo("Europe/Zurich"))
    assert span.start == int(datetime(2025, 6, 30, 22, tzinfo=UTC).timestamp() * 1000)
    # The day on which clocks go forward has 23 hours.
    (short,) = spans_in("on 30 March 2025", late, ZoneInfo("Europe/Zurich"))
    assert short.end - short.start == 23 * 3_600_000


MOMENTS = st.integers(10**8, 10**10).map(lambda second: datetime.fromtimestamp(second, UTC))
ZONES = st.sampled_from(["UTC", "Europe/Zurich", "America/St_Johns", "Asia/Kolkata", "Pacific/Kiritimati"])


@given(st.text(max_size=80) | st.sampled_from([question for question, _ in ONE_DAY]), MOMENTS, ZONES)
def test_every_span_has_a_length_and_weights(question: str, now: datetime, zone: str) -> None:
    for span in spans_in(question, now, ZoneInfo(zone)):
        assert span.start < span.end
        assert 1.0 >= span.inside >= span.after >= span.later > 0.0


@given(MOMENTS, ZONES, st.integers(1, 400))
def test_what_is_counted_from_now_moves_with_it(now: datetime, zone: str, count: int) -> None:
    where = ZoneInfo(zone)
    today = now.astimezone(where).date()
    assert days("yesterday", now, zone) == [((today - timedelta(days=1)).isoformat(),) * 2]
    ((first, last),) = days(f"{count} days ago", now, zone)
    assert first <= (today - timedelta(days=count)).isoformat() <= last
    ((monday, sunday),) = days("last week", now, zone)
    assert monday < sunday < today.isoformat()


@given(MOMENTS, ZONES)
def test_nothing_that_is_past_lies_in_the_future(now: datetime, zone: str) -> None:
    for question in ("yesterday", "last week", "last month", "last year", "last May", "last Tuesday", "last winter"):
        for span in spans_in(question, now, ZoneInfo(zone)):
            assert span.start < now.timestamp() * 1000
