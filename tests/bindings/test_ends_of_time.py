"""Dates at both ends of time, through every interface that reads a text as a time: an answer, never a 500."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.bindings.console.browsing import ALL, send, signed_in, with_console
from tests.bindings.http.running import OWNER, Running, draft, running
from tests.embedders import letters

from memoranda import Memoranda
from memoranda.service.openwop.commitments import Commitment
from memoranda.standards.oams.namespace import namespace_of

NAMESPACE: Final = namespace_of("", OWNER)
# The first and the last day there are, their neighbours, and months and years in every form that is read.
DAYS: Final = (
    *(
        "9999-12-31",
        "9999-12-30",
        "9999-12",
        "9999年",
        "9999年12月31日",
        "9999年12月",
        "31.12.2099",
        "December 31, 2099",
    ),
    *("0001-01-01", "0001-01-02", "0001-01", "0001年", "0001年1月1日", "0000-01-01", "999 years ago", "last 999 years"),
    *("last winter", "in winter", "last May", "this weekend", "on Sunday last week", "last week", "yesterday"),
)
MOMENTS: Final = (
    *("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:60Z", "9999-12-31T23:59:59-14:00", "9999-12-31T00:00:00Z"),
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "0001-01-02T00:00:00+23:59", "1970-01-01T00:00:00Z"),
)
ZONES: Final = ("UTC", "Pacific/Kiritimati", "America/Los_Angeles")
# What a memory may say of when something is to be done.
PLANS: Final = (
    *("remind me in 3 weeks to call Ann", "remind me tomorrow to call Ann", "remind me in 5 hours to call Ann"),
    *("every hour send the report", "every Monday send the report", "every other month send a report"),
    *("remind me on 9999-12-31 to call Ann", "remind me on 9999-12-31T23:59:59-08:00 to call Bob"),
    *(
        "remind me by December 31 at 11pm EST to call",
        "remind me in 999 years to call Ann",
        "remind me next month to call",
    ),
    *("book the flight by the end of the year, remind me", "remind me in 10 working days to pay"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("ends") / "home", extra=with_console, meaning=letters()) as server:
        yield server


@pytest.fixture(scope="module")
def key(server: Running) -> str:
    key = server.key(OWNER, *ALL)
    with server.client(key) as client:
        for text in ("the kettle boils", "the kettle is red"):
            record = draft(text, visibility="public")
            del record["scope"]["project"]
            assert client.post("/ump/remember", json=record).status_code == 200
    return key


@pytest.fixture(scope="module")
def client(server: Running, key: str) -> Iterator[httpx.Client]:
    with server.client(key) as client:
        yield client


@pytest.fixture(scope="module")
def browser(server: Running, key: str) -> Iterator[httpx.Client]:
    with signed_in(server, key) as client:
        yield client


# A question, and how many memories answered it.
Ask = Callable[[httpx.Client, httpx.Client, str], tuple[httpx.Response, int]]


def _counted(name: str, answer: httpx.Response) -> tuple[httpx.Response, int]:
    found = answer.json()
    return answer, len(found if isinstance(found, list) else found.get(name, ()))


QUESTIONS: Final[Mapping[str, Ask]] = {
    "recall": lambda client, browser, text: _counted("results", client.post("/ump/recall", json={"query": text})),
    "rehydrate": lambda client, browser, text: _counted(
        "injected", client.post("/ump/rehydrate", json={"query": text})
    ),
    "oms": lambda client, browser, text: _counted(
        "results", client.post("/oms/grains/search", json={"text": text, "namespace": "shared"})
    ),
    "cal": lambda client, browser, text: _counted(
        "results", client.post("/cal", json={"query": "RECALL LIKE $text", "params": {"text": text}})
    ),
    "oams": lambda client, browser, text: _counted(
        "memories", client.post("/v1/oams/recall", json={"namespace": NAMESPACE, "query": text})
    ),
    "openwop": lambda client, browser, text: _counted(
        "entries", client.get("/v1/memory/default", params={"query": text, "rank": "relevance"})
    ),
    "console": lambda client, browser, text: (
        (answer := browser.get("/console/", params={"q": text})),
        answer.text.count("the kettle "),
    ),
}


FAR_DAYS: Final = st.dates(date.min, date(1, 1, 20)) | st.dates(date(9999, 12, 10), date.max)
FORMS: Final[tuple[Callable[[date], str], ...]] = (
    date.isoformat,
    lambda day: day.isoformat()[:7],
    lambda day: f"{day.year:04}年{day.month}月{day.day}日",
    lambda day: f"{day.year:04}年",
)
FAR: Final = st.sampled_from(DAYS) | st.builds(lambda day, form: form(day), FAR_DAYS, st.sampled_from(FORMS))


@pytest.mark.parametrize("ask", QUESTIONS)
@settings(max_examples=30)
@given(FAR)
@example("9999-12-31")
@example("0001-01-01")
def test_a_question_that_names_an_end_of_time_is_answered(
    client: httpx.Client, browser: httpx.Client, ask: str, text: str
) -> None:
    answer, count = QUESTIONS[ask](client, browser, f"kettle {text}")
    assert answer.status_code == 200, answer.text
    assert count >= 2


@settings(max_examples=40)
@given(FAR, st.sampled_from(MOMENTS), st.sampled_from(ZONES))
def test_a_question_may_be_asked_at_an_end_of_time(client: httpx.Client, text: str, moment: str, zone: str) -> None:
    hints = {"asked_at": moment, "zone": zone}
    answer = client.post("/ump/recall", json={"query": f"kettle {text}", "ranking_hints": hints})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["results"]) == 2


def _cal(text: str) -> Iterator[str]:
    yield f'RECALL SINCE "{text}"'
    yield f'RECALL UNTIL "{text}"'
    yield f'RECALL BETWEEN "{text}" AND "{text}"'
    yield f'RECALL RECENT 5 WITH x_valid_at("{text}")'
    yield f'RECALL RECENT 5 WITH x_known_at("{text}")'
    yield f'RECALL LIKE "kettle" SINCE "{text}"'
    yield f'RECALL beliefs WHERE valid_from <= "{text}"'


@pytest.mark.parametrize("text", [*MOMENTS, *DAYS, "999999 years ago", "last 999999 weeks", "99999999999999"])
def test_a_time_in_a_filter_or_a_query_may_be_an_end_of_time(
    client: httpx.Client, browser: httpx.Client, text: str
) -> None:
    answers = [client.post("/cal", json={"query": query}) for query in _cal(text)]
    for name in ("valid_at", "known_at"):
        answers.append(client.post("/ump/recall", json={"query": "kettle", "filter": {name: text}}))
        answers.append(client.post("/ump/rehydrate", json={"query": "kettle", "filter": {name: text}}))
        answers.append(browser.get("/console/", params={name: text}))
        answers.append(browser.get("/console/", params={"q": "kettle", name: text}))
    answers.append(browser.get("/console/timeline", params={"until": text}))
    for answer in answers:
        assert answer.status_code < 500, (answer.url, answer.request.content, answer.text)


def test_what_is_written_with_times_at_the_ends_is_read_by_every_interface_and_its_commitments_are_inferred(
    client: httpx.Client, browser: httpx.Client
) -> None:
    for number, (plan, moment) in enumerate(itertools.product(PLANS, MOMENTS)):
        record = draft(f"{plan} about kettle {number}", visibility="public", project="far")
        record["time"] = {"created": moment, "observed": moment, "valid_from": moment}
        record["consent"] = {"retention": "P999999999Y"}
        assert client.post("/ump/remember", json=record).status_code == 200
    for moment in MOMENTS:
        # In UMP's own words the end of what holds may be any instant that is not before its beginning.
        record = draft(f"the kettle was here until {moment}", project="far")
        record["time"] = {"created": MOMENTS[5], "valid_from": MOMENTS[5], "valid_to": moment}
        assert client.post("/ump/remember", json=record).status_code == 200
        entry = {"content": f"an entry until {moment}", "expiresAt": moment}
        assert client.post("/v1/memory/far", json=entry).status_code in (201, 400)
        memory = {"value": f"a memory of {moment}", "created_at": moment, "updated_at": moment}
        answer = client.put(f"/v1/oams/memories/{namespace_of('far', OWNER)}/k{moment[:4]}", json=memory)
        assert answer.status_code in (201, 200, 409, 422), answer.text
    inferred = client.post("/v1/host/commitments/infer", json={"memoryRef": "far"})
    assert inferred.status_code == 200, inferred.text
    assert len(inferred.json()["commitments"]) > len(PLANS)
    for each in inferred.json()["commitments"][::20]:
        path = f"/v1/host/commitments/{each['commitmentId']}"
        assert client.post(f"{path}/snooze", json={"until": MOMENTS[2]}).status_code == 200
        assert client.post(f"{path}/fire", json={}).status_code == 200
    for path in ("/v1/host/commitments", "/v1/memory/far", f"/v1/oams/memories/{namespace_of('far', OWNER)}"):
        answer = client.get(path, params={"limit": 100} if "memor" in path else {})
        assert answer.status_code == 200, answer.text
    for body in ({"namespace": "far", "limit": 500}, {"namespace": "far", "text": "kettle"}):
        answer = client.post("/oms/grains/search", json=body)
        assert answer.status_code == 200, answer.text
    for query in ("RECALL RECENT 500", "RECALL beliefs LIMIT 100 AS markdown", "RECALL beliefs COUNT BY month"):
        assert client.post("/cal", json={"query": query, "namespace": "far"}).status_code < 500
    for path in ("/", "/?q=kettle", "/timeline", "/graph", "/review", "/overview", "/?project=far"):
        assert browser.get(f"/console{path}").status_code == 200
    for strategy in ("reflect", "forecast", "pattern", "contradiction"):
        asked = {"namespace": namespace_of("far", OWNER), "strategy": strategy, "dry_run": True}
        assert client.post("/v1/oams/dreams", json=asked).status_code < 500


@pytest.mark.parametrize("created", ["1965-05-01T12:00:00Z", "2107-01-01T00:00:00Z", *MOMENTS])
def test_a_memory_of_any_year_is_listed_as_a_grain(client: httpx.Client, created: str) -> None:
    record = draft(f"made at {created}", project="years")
    record["time"] = {"created": created, "observed": created, "valid_from": MOMENTS[4]}
    assert client.post("/ump/remember", json=record).status_code == 200
    listed = client.post("/oms/grains/search", json={"namespace": "years", "limit": 100})
    assert listed.status_code == 200, listed.text
    assert f"made at {created}" in listed.text
    told = client.post("/cal", json={"query": "RECALL workflows RECENT 100", "namespace": "years"})
    assert f"made at {created}" in told.text


def test_a_commitment_that_was_armed_beyond_the_calendar_is_still_listed() -> None:
    far = Commitment(
        commitment_id="com_1",
        ref="far",
        space="far",
        memory_id="m",
        key="k",
        condition="time",
        due=2**53,
        repeats=False,
    )
    assert far.document()["dueAt"] == "9999-12-31T23:59:59.999Z"


@pytest.mark.parametrize("days", ["1", "366", "999999999"])
def test_a_token_of_the_console_may_be_asked_for_any_number_of_days(browser: httpx.Client, days: str) -> None:
    assert send(browser, "/tokens", verb=["read"], days=days).status_code < 500


@pytest.mark.parametrize("moment", [*MOMENTS, *(each[:10] for each in MOMENTS)])
def test_an_audit_is_read_from_and_before_any_time(client: httpx.Client, moment: str) -> None:
    for name in ("since", "before"):
        assert client.post("/ump/audit", json={name: moment}).status_code < 500


ENDS: Final = tuple(
    end.replace(tzinfo=timezone(timedelta(hours=hours)))
    for end in (datetime.min, datetime.max)  # noqa: DTZ901 -- each gets its zone
    for hours in (-14, 0, 14)
)


@pytest.mark.parametrize("end", ENDS, ids=str)
def test_a_program_may_give_the_ends_of_its_own_times(tmp_path: Path, end: datetime) -> None:
    with Memoranda.open(tmp_path) as memory:
        begun = memory.remember("kettle one", created=end, observed=end, valid_from=datetime(2020, 1, 1, tzinfo=UTC))
        memory.remember("kettle two", retention=timedelta.max)
        if end.year > 2000:
            memory.remember("kettle three", valid_to=end, expires=end)
        assert memory.get(begun.id).created.year == end.year
        assert [each.created for each in memory.history(begun.id)] == [memory.get(begun.id).created]
        for name in ("asked_at", "valid_at", "known_at"):
            where: dict[str, Any] = {name: end}
            memory.recall("kettle 9999-12-31", **where)
        assert len(memory.recall("kettle")) == (3 if end.year > 2000 else 2)
        assert len(memory.list(since=end)) <= 3
