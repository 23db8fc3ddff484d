"""Grains for small devices, and how sensitive a grain says it is: through every door that takes one in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from memoranda.errors import InvalidInput, MemorandaError
from memoranda.service.exchange.importing import number_items
from memoranda.standards.oms import grains as codec
from tests.service.test_cal_evolve import run
from tests.service.world import World, grain
from tests.standards.oms.test_grains import PHI


def imported(world: World, fields: dict[str, Any]) -> object:
    report = world.service.import_items(world.owner, number_items("oms", [codec.encode(fields).blob]))
    if report.refusals:
        raise InvalidInput(report.refusals[0].message)
    return report


def superseded(world: World, fields: dict[str, Any]) -> object:
    old = world.put(object=f"before {fields['object'][:9]}")
    return world.service.grains.supersede(world.owner, old, fields)


DOORS: Final[Mapping[str, Callable[[World, dict[str, Any]], object]]] = {
    "put": lambda world, fields: world.service.grains.put(world.owner, fields),
    "put bytes": lambda world, fields: world.service.grains.put(world.owner, codec.encode(fields).blob),
    "supersede": superseded,
    "file": imported,
}


def nested(levels: int) -> Any:
    return {"a": nested(levels - 1)} if levels else "x"


@pytest.mark.requirement("OMS-18-profiles", "OMS-4.10-depth")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("profile", "fits", "too_much"),
    [
        ("lightweight", {"object": "x" * 300}, {"object": "x" * 500}),
        ("lightweight", {}, {"context": {}}),
        ("lightweight", {}, {"importance": 0.5}),
        ("standard", {"object": "x" * 32_000}, {"object": "x" * 33_000}),
        ("standard", {"context": nested(15)}, {"context": nested(16)}),
        ("extended", {"context": nested(31), "object": "x" * 33_000}, None),
    ],
)
def test_a_store_for_a_class_of_devices_takes_in_what_they_can_read(
    door: str, profile: str, fits: dict[str, Any], too_much: dict[str, Any] | None
) -> None:
    world = World(grain_profile=profile)
    DOORS[door](world, grain(world.now, **fits))
    if too_much is not None:
        with pytest.raises(MemorandaError, match=r"profile|fewer|levels|deep|limit"):
            DOORS[door](world, grain(world.now, **too_much))
        assert not [each for each in world.grains(current=False) if too_much.items() <= each.grain.fields.items()]
    world.service.close()


@pytest.mark.requirement("OMS-18-profiles")
def test_other_standards_are_not_bound_by_the_profile_of_grains_and_cal_is() -> None:
    world = World(grain_profile="lightweight")
    world.remember("hedgehog " * 200)
    with pytest.raises(MemorandaError, match="lightweight"):
        run(world, f'ADD belief SET subject = "a" SET relation = "b" SET object = "{"x" * 500}" REASON "x"')
    world.service.close()


@pytest.mark.requirement("OMS-13-tags")
@pytest.mark.parametrize("door", DOORS)
def test_a_grain_says_how_sensitive_its_tags_make_it_whichever_door_it_took(door: str) -> None:
    world = World()
    for number, (tag, least) in enumerate([*((f"phi:{name}", 3) for name in PHI), ("pii:x", 2), ("reg:x", 1)]):
        DOORS[door](world, grain(world.now, object=str(number), structural_tags=[tag]))
        (found,) = [each for each in world.grains() if each.grain.fields["object"] == str(number)]
        assert codec.decode(found.delivery).header.sensitivity == least
    world.service.close()
