"""One memory that was said anew many times: whoever reads it, changes it or forgets it holds a few versions at once."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from memoranda.errors import QueryError
from memoranda.service.cal import recall as cal_recall
from memoranda.service.retrieve import PAGE_BYTES
from memoranda.service.ump import recall
from memoranda.standards.ump.requests import RecallRequest
from memoranda.storage.engine.snapshot import SqlSnapshot
from memoranda.storage.engine.unit import SqlUnit
from tests.bindings.http.running import running
from tests.matrix.doors import REVISES, SPACE, WRITES, House
from tests.service.world import PEER

COUNT = 16
PAD = "x" * 900_000
FIT = PAGE_BYTES // len(PAD) + 1
# A slice of what is read, a document that is looked at, decoded, signed and written, and what is kept of it.
MOST = 30_000_000


def revised(house: House, name: str, number: int) -> str:
    return house.revise(name, body={"text": f"zanzibar number {number}", "structured": {"pad": PAD}})


def _long(house: House) -> str:
    name = house.remember("zanzibar", scope={"project": SPACE})
    for number in range(COUNT):
        name = revised(house, name, number)
    return name


ACTS: Mapping[str, Callable[[House, str], object]] = {
    "ump history": lambda house, name: house.service.history_page(house.owner, name),
    "ump revise": lambda house, name: revised(house, name, COUNT),
    "openwop get": lambda house, name: house.service.openwop.get_entry(house.owner, SPACE, name),
    "ump undo": lambda house, _: house.service.undo_last(house.owner),
    "ump forget": lambda house, _: house.forget(
        house.names(house.head(f"number {COUNT - 1}"))["ump"], hard=True, reason="x"
    ),
}


@pytest.mark.requirement("OURS-answers-have-a-size")
def test_however_often_a_memory_was_revised_few_versions_are_held() -> None:
    house = House()
    name = _long(house)
    most: dict[str, int] = {}
    for way, act in ACTS.items():
        tracemalloc.start()
        try:
            act(house, name)
            most[way] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    house.service.close()
    assert {way: size for way, size in most.items() if size > MOST} == {}, most


@pytest.mark.requirement("OURS-answers-have-a-size")
def test_a_history_has_pages_that_lead_to_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    name = _long(house)
    found: list[object] = []
    after: int | None = 0
    while after is not None:
        page, after = house.service.history_page(house.owner, name, after=after)
        assert len(page) <= FIT + 1
        found += page
    assert found == house.service.history(house.owner, name)
    assert len(found) == COUNT + 1
    # A query of CAL that would have to look at too much of it is refused.
    asked = f"HISTORY sha256:{house.names(house.head(f'number {COUNT - 1}'))['oms']}"
    monkeypatch.setattr(cal_recall, "READ_BYTES", 5 * COUNT * len(PAD))
    assert len(house.cal(asked)["versions"]) == COUNT + 1
    monkeypatch.setattr(cal_recall, "READ_BYTES", 4 * len(PAD))
    with pytest.raises(QueryError, match="would have to read more than") as refused:
        house.cal(asked)
    assert refused.value.cal_code == "CAL-E030"
    house.service.close()


@pytest.mark.requirement("OURS-answers-have-a-size")
def test_over_http_a_history_goes_on_where_it_ended(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client(server.key()) as client:
        draft = {"kind": "semantic", "body": {"text": "zanzibar", "structured": {"pad": PAD}}}
        name = client.post("/ump/remember", json=draft).json()["id"]
        for number in range(4):
            patch = {"body": {"text": f"number {number}", "structured": {"pad": PAD}}}
            name = client.post("/ump/revise", json={"id": name, "patch": patch}).json()["id"]
        found: list[str] = []
        answer = client.get(f"/ump/memory/{name}/history").json()
        while "next_cursor" in answer:
            assert len(answer["versions"]) <= FIT
            found += [each["record"]["body"]["text"] for each in answer["versions"]]
            answer = client.get(f"/ump/memory/{name}/history", params={"cursor": answer["next_cursor"]}).json()
        found += [each["record"]["body"]["text"] for each in answer["versions"]]
        assert found == ["zanzibar", "number 0", "number 1", "number 2", "number 3"]
        assert client.get(f"/ump/memory/{name}/history", params={"cursor": "x"}).status_code == 400


@pytest.mark.requirement("OURS-answers-have-a-size")
def test_of_what_a_peer_sees_in_part_so_much_is_read_and_the_best_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    peer = house.token("read", audience=PEER.did)
    shared = {"project": SPACE, "visibility": "public"}
    for number in range(60):
        body = {"text": f"zanzibar {'tea ' * (number == 7)}{number}", "structured": {"code": "secret"}}
        house.remember("zanzibar", body=body, scope=shared, consent={"redact": ["body.structured.code"]})
        house.advance(1_000)

    def found() -> list[str]:
        asked = {"query": "zanzibar tea", "limit": 5, "scope": {"owner": house.tenant}}
        answers = house.service.recall(peer, RecallRequest.parse(asked))
        assert "secret" not in str(answers)
        return [each.record["body"]["text"] for each in answers]

    assert found()[0] == "zanzibar tea 7"
    monkeypatch.setattr(recall, "_REDACTED_BYTES_LIMIT", 20_000)
    assert "zanzibar tea 7" not in found()
    assert len(found()) == 5
    house.service.close()


@pytest.mark.requirement("OURS-answers-have-a-size")
@pytest.mark.parametrize("way", REVISES)
def test_a_change_reads_no_more_in_the_writers_turn_the_longer_a_history_is(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House()
    if way == "oams":
        house.oams.store("tea", "zanzibar 0")
    else:
        WRITES["oms put"](house, "zanzibar 0")
    read, plain = Counter[int](), SqlSnapshot._version

    def counted(self: SqlSnapshot, row: Any, opener: Any = None) -> Any:
        read[number] += isinstance(self, SqlUnit)
        return plain(self, row, opener)

    monkeypatch.setattr(SqlSnapshot, "_version", counted)
    for number in range(1, 21):
        house.advance(10_000)
        names = {**house.names(house.head(f"zanzibar {number - 1}")), **({"oams": "tea"} if way == "oams" else {})}
        read[number] = 0
        REVISES[way](house, names, f"zanzibar {number}")
    # CAL names what it was made from, which is looked through for sixteen steps.
    assert read[20] == read[17], read
    house.service.close()
