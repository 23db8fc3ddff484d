"""Another kind, project, person or visibility of a memory: whatever standard it was written in, and with an undo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from memoranda.errors import Conflict, ConsentViolation, ForbiddenScope, InvalidInput
from memoranda.service.ump.revise import refile
from memoranda.standards.ump.rules import Filing
from tests.matrix.doors import SPACE, WRITES, House


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.service.close()


def refiled(house: House, name: str, *, patch: Any = None, **filing: Any) -> dict[str, Any]:
    house.advance(1000)
    result = refile(house.service.context, house.owner, name, Filing(**filing), patch or {})
    record: Any = house.service.get(house.owner, result.id)
    return {"kind": record["kind"], **record["scope"]}


def filed(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["kind"], record.get("project"), record.get("user"), record["visibility"]


@pytest.mark.parametrize("way", WRITES)
def test_each_of_the_four_changes_and_one_undo_brings_it_back(house: House, way: str) -> None:
    WRITES[way](house, "the boiler is serviced in May")
    name = house.names(house.head("the boiler is serviced in May"))["ump"]
    record: Any = house.service.get(house.owner, name)
    before = filed({"kind": record["kind"], **record["scope"]})
    after = refiled(house, name, kind="procedural", project="cellar", user="ada", visibility="shared")
    assert filed(after) == ("procedural", "cellar", "ada", "shared")
    listed, _ = house.service.list_records(house.owner, project="cellar", kinds=("procedural",))
    assert [each["scope"].get("user") for each in listed] == ["ada"]
    house.advance(1000)
    house.service.undo_last(house.owner)
    assert house.service.list_records(house.owner, project="cellar")[0] == []
    (record,) = house.service.list_records(house.owner)[0]
    assert filed({"kind": record["kind"], **record["scope"]}) == before
    house.advance(1000)
    house.service.redo_last(house.owner)
    (record,) = house.service.list_records(house.owner)[0]
    assert filed({"kind": record["kind"], **record["scope"]}) == ("procedural", "cellar", "ada", "shared")
    assert house.service.verify(house.owner).ok


def test_a_person_and_a_project_are_removed_and_an_undo_after_another_change_still_knows_them(house: House) -> None:
    draft = house.draft("likes the window seat", scope={"project": SPACE, "user": "ada"})
    name = house.service.remember(house.owner, draft).id
    assert filed(refiled(house, name, user="", project=""))[1:3] == (None, None)
    (record,) = house.service.list_records(house.owner)[0]
    house.advance(1000)
    house.service.change(house.owner, record["id"], "likes the aisle seat")
    for _ in range(2):
        house.advance(1000)
        house.service.undo_last(house.owner)
    (record,) = house.service.list_records(house.owner)[0]
    assert (record["scope"].get("project"), record["scope"].get("user")) == (SPACE, "ada")


def test_what_may_not_leave_is_not_made_public_and_a_bad_value_writes_nothing(house: House) -> None:
    WRITES["ump remember"](house, "the safe is behind the mirror")
    name = house.names(house.head("the safe is behind the mirror"))["ump"]
    changed = house.service.change(house.owner, name, patch={"consent": {"exportable": False}})
    with pytest.raises(ConsentViolation):
        refiled(house, changed.id, visibility="public")
    for filing in ({"kind": "gossip"}, {"visibility": "everybody"}, {"project": "a\nb"}, {"user": "x" * 2000}):
        with pytest.raises(InvalidInput):
            refiled(house, changed.id, **filing)
    with pytest.raises(Conflict):
        refiled(house, name, project="elsewhere")
    narrowed = replace(house.owner, limits={"project": SPACE})
    with pytest.raises(ForbiddenScope):
        refile(house.service.context, narrowed, changed.id, Filing(project="elsewhere"), {})
    assert len(house.service.history(house.owner, changed.id)) == 2
