"""However large the memories are, an answer holds a stated number of bytes of them, and pages lead to all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from memoranda.encoding.shapes import parse_value
from memoranda.errors import QueryError
from memoranda.model.selection import Selection
from memoranda.service.cal import recall
from memoranda.service.retrieve import PAGE_BYTES
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.openwop.entry import ListOptions
from memoranda.standards.ump.requests import RecallRequest
from tests.matrix.doors import SPACE, House

COUNT = 6
PAD = "x" * 900_000
FIT = PAGE_BYTES // len(PAD) + 1


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """One space with a few memories that are nearly as large as they may be."""
    house = House()
    for number in range(COUNT):
        body = {"text": f"zanzibar number {number}", "structured": {"pad": PAD}}
        house.remember("zanzibar", body=body, scope={"project": SPACE})
    yield house
    house.service.close()


ANSWERS: Mapping[str, Callable[[House], int]] = {
    "ump recall": lambda house: len(
        house.service.recall(house.owner, RecallRequest.parse({"query": "zanzibar", "limit": 50}))
    ),
    "oams recall": lambda house: len(house.oams.recall("zanzibar", k=50)),
    "oms search": lambda house: len(
        house.service.grains.search(house.owner, "zanzibar", where=Selection(space=SPACE), limit=50)
    ),
    "oms find": lambda house: len(
        house.service.grains.find(
            house.owner, parse_value({"text": "zanzibar", "namespace": SPACE, "limit": 50}, FindRequest)
        ).results
    ),
    "openwop list": lambda house: len(
        house.service.openwop.list_entries(house.owner, SPACE, ListOptions.parse({"limit": 50}))
    ),
}


@pytest.mark.requirement("OURS-answers-have-a-size")
@pytest.mark.parametrize("way", ANSWERS)
def test_an_answer_is_shorter_where_memories_are_large(house: House, way: str) -> None:
    assert 1 <= ANSWERS[way](house) <= FIT


def _ump(house: House) -> Iterator[list[str]]:
    after: int | None = 0
    while after is not None:
        records, after = house.service.list_records(house.owner, after=after, limit=50)
        yield [each["id"] for each in records]


def _feed(house: House) -> Iterator[list[str]]:
    after, is_last = 0, False
    while not is_last:
        page = house.service.changes(house.owner, {}, after)
        after, is_last = page.next, page.is_last
        yield [each.id for each in page.events]


def _oms(house: House) -> Iterator[list[str]]:
    cursor: str | None = ""
    while cursor is not None:
        asked = {"namespace": SPACE, "limit": 50, **({"cursor": cursor} if cursor else {})}
        page = house.service.grains.find(house.owner, parse_value(asked, FindRequest))
        yield [each.stored.address for each in page.results]
        cursor = page.next_cursor


def _cal(query: str) -> Callable[[House], Iterator[list[str]]]:
    def pages(house: House) -> Iterator[list[str]]:
        cursor: str | None = ""
        while cursor is not None:
            answer = house.service.cal.run(house.owner, query, namespace=SPACE, cursor=cursor or None)
            assert isinstance(answer, dict)
            yield [each["content_address"] for each in answer["results"]]
            cursor = answer["next_cursor"]

    return pages


PAGES: Mapping[str, Callable[[House], Iterator[list[str]]]] = {
    "ump list": _ump,
    "ump feed": _feed,
    "oms find": _oms,
    "cal recall": _cal("RECALL LIMIT 50"),
    "cal recent": _cal("RECALL ORDER BY time DESC LIMIT 50"),
    "cal like": _cal('RECALL LIKE "zanzibar" LIMIT 50'),
}


@pytest.mark.requirement("OURS-answers-have-a-size")
@pytest.mark.parametrize("way", PAGES)
def test_a_page_ends_early_and_the_next_goes_on_from_it(house: House, way: str) -> None:
    pages = list(PAGES[way](house))
    assert all(len(page) <= FIT for page in pages)
    found = [name for page in pages for name in page]
    assert len(found) == len(set(found)) == COUNT


def test_a_query_that_has_to_look_at_too_much_is_refused(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = "RECALL ORDER BY subject LIMIT 50"
    monkeypatch.setattr(recall, "READ_BYTES", (COUNT + 1) * len(PAD) * 4)
    assert len(house.cal(wide)["results"]) == COUNT
    monkeypatch.setattr(recall, "READ_BYTES", 4 * len(PAD))
    with pytest.raises(QueryError, match="would have to read more than") as refused:
        house.cal(wide)
    assert refused.value.cal_code == "CAL-E030"
