"""The facets of a list: what each agent, kind, project, person, tag, standard and month has, on each database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from memoranda.model.selection import Selection
from memoranda.service.ump import facets as facets_of_lists
from memoranda.service.ump.browse import list_current
from memoranda.service.ump.facets import Facets, count_facets
from tests.matrix.doors import SPACE, WRITES, House

DAY = 86_400_000


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.service.close()


def write(house: House, text: str, *, kind: str = "semantic", tag: str = "", **scope: str) -> str:
    house.advance(1000)
    relations = [{"type": "about", "target": f"tag:{tag}"}] if tag else []
    draft = house.draft(text, kind=kind, scope=scope, relations=relations)
    return str(house.service.remember(house.owner, draft).id)


def count(house: House, selection: Selection | None = None) -> Facets:
    return count_facets(house.service.context, house.owner, selection or Selection())


def values(facets: Facets, name: str) -> dict[str, int]:
    return {entry.value: entry.amount for entry in facets.values[name]}


@pytest.fixture
def furnished(house: House) -> House:
    write(house, "a note of January", project="shop", agent="codex", user="ada", tag="Release")
    house.advance(40 * DAY)
    write(house, "a rule of February", kind="procedural", project="shop", agent="codex", user="ben")
    write(house, "a second rule", kind="procedural", project="team", agent="cursor", user="ada", tag="release")
    write(house, "about nobody", kind="identity")
    WRITES["oams store"](house, "written in OAMS")
    WRITES["oms put"](house, "written in OMS")
    house.forget(write(house, "a thought that was forgotten", project="shop"))
    return house


def test_each_facet_has_the_current_memories_of_each_value(furnished: House) -> None:
    facets = count(furnished)
    assert facets.total == 6
    assert values(facets, "project") == {"shop": 2, "team": 1, SPACE: 2}
    assert values(facets, "kind")["procedural"] == 2
    assert sum(values(facets, "kind").values()) == 6
    assert values(facets, "agent") == {"codex": 2, "cursor": 1}
    assert values(facets, "user") == {"ada": 2, "ben": 1}
    assert values(facets, "tag") == {"release": 2}
    assert values(facets, "standard") == {"ump": 4, "oams": 1, "oms": 1}
    assert sum(amount for _, amount in facets.months) == 6
    assert len({month for month, amount in facets.months if amount}) == 2


def test_the_facets_of_a_part_have_only_that_part(furnished: House) -> None:
    facets = count(furnished, Selection(space="shop"))
    assert facets.total == 2
    assert values(facets, "agent") == {"codex": 2}
    assert values(facets, "user") == {"ada": 1, "ben": 1}
    assert values(count(furnished, Selection(kinds=("procedural",))), "project") == {"shop": 1, "team": 1}
    assert values(count(furnished, Selection(tags=("release",))), "kind") == {"semantic": 1, "procedural": 1}
    assert values(count(furnished, Selection(standard="oms")), "standard") == {"oms": 1}
    # A key for one project gets the facets of that project.
    narrowed = replace(furnished.owner, limits={"project": "team"})
    facets = count_facets(furnished.service.context, narrowed, Selection())
    assert (facets.total, values(facets, "user")) == (1, {"ada": 1})


def test_a_write_is_counted_at_once(furnished: House, monkeypatch: pytest.MonkeyPatch) -> None:
    # A count that took long is kept for a while; here none does, however busy the machine is.
    monkeypatch.setattr(facets_of_lists, "_QUICK_SECONDS", float("inf"))
    assert count(furnished).total == 6
    write(furnished, "one more", project="shop")
    assert values(count(furnished), "project")["shop"] == 3


def test_only_current_memories_of_a_list_are_loaded_again_in_its_order(house: House) -> None:
    names = [write(house, f"note {number}", project="shop") for number in range(4)]
    house.forget(names[1])
    house.service.change(house.owner, names[2], "note 2, corrected")
    records = list_current(house.service.context, house.owner, [*names[::-1], "urn:ump:unknown"])
    assert [record["body"]["text"] for record in records] == ["note 3", "note 0"]
    narrowed = replace(house.owner, limits={"project": "other"})
    assert list_current(house.service.context, narrowed, names) == []
