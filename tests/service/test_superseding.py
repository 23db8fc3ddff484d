"""What a file supersedes is superseded in the store that takes it in: its rules, one by one.

That it holds in every form and order: tests/bindings/files/test_superseding.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from memoranda.service.core.access import Access
from memoranda.service.core.lifecycle import tombstone_version
from memoranda.service.exchange.importing import Item, number_items
from memoranda.service.exchange.report import Report
from memoranda.standards.ump.record import Record
from memoranda.storage.engine.contract import Unit
from tests.service.oams_verbs import Oams
from tests.service.world import World


@pytest.fixture
def other() -> Iterator[World]:
    """Another store of the same owner."""
    opened = World()
    yield opened
    opened.service.close()


def exported(world: World, *, history: bool = False) -> list[Record]:
    return list(world.service.export(world.owner, history=history))


def take(world: World, records: Iterable[Any], access: Access | None = None, **options: Any) -> Report:
    return world.service.import_items(access or world.owner, number_items("ump", records), **options)


def stated(world: World) -> list[str]:
    return sorted(record["body"]["text"] for record in exported(world))


def revised(world: World, name: str, text: str) -> str:
    world.advance(1000)
    return world.revise(name, body={"text": text})


def test_both_versions_that_an_earlier_import_left_stated_become_one(world: World, other: World) -> None:
    first = world.remember("lives in Rome")
    before = exported(world)
    revised(world, first, "lives in Oslo")
    after = exported(world)
    take(other, before)
    # A record that is remembered, and not imported, supersedes nothing by itself.
    other.service.remember(other.owner, after[0])
    assert stated(other) == ["lives in Oslo", "lives in Rome"]
    assert take(other, after).merged == 1
    assert stated(other) == ["lives in Oslo"]
    assert other.get(first)["superseded_by"] == [after[0]["id"]]


def test_what_comes_after_its_successor_was_forgotten_stays_forgotten(world: World, other: World) -> None:
    first = world.remember("lives in Rome")
    before = exported(world)
    second = revised(world, first, "lives in Oslo")
    other.advance(2000)
    take(other, exported(world))
    other.forget(second, hard=True)
    assert take(other, before).forgotten == 1
    assert stated(other) == []
    assert take(other, before, restore=True).created == 1
    assert stated(other) == ["lives in Rome"]


def test_a_successor_of_what_was_forgotten_comes_only_if_it_is_newer(world: World, other: World) -> None:
    first = world.remember("lives in Rome")
    take(other, exported(world))
    second = revised(world, first, "lives in Oslo")
    early = exported(world)
    other.advance(2000)
    other.forget(first)
    assert take(other, early).forgotten == 1
    world.advance(5000)
    revised(world, second, "lives in Riga")
    other.advance(20_000)
    assert take(other, exported(world)).created == 1
    assert stated(other) == ["lives in Riga"]


def test_what_is_held_is_not_superseded_by_a_file_and_that_is_told(world: World, other: World) -> None:
    first = world.remember("lives in Rome")
    take(other, exported(world))
    revised(world, first, "lives in Oslo")
    other.service.grains.set_hold(other.owner, other.as_grain(first).address, held=True, reason="a case")
    report = take(other, exported(world))
    assert (report.created, report.refused) == (1, 1)
    assert "legal hold" in report.refusals[0].message
    assert stated(other) == ["lives in Oslo", "lives in Rome"]


def test_a_token_of_one_project_supersedes_nothing_of_another(world: World, other: World) -> None:
    first = world.remember("lives in Rome", scope={"project": "p"})
    take(other, exported(world))
    scope = {"owner": world.owner.default_tenant, "project": "q"}
    record = world.draft("lives in Oslo", scope=scope, supersedes=[first])
    limited = other.token("read", "write", project="q")
    assert take(other, [record], limited).created == 1
    assert stated(other) == ["lives in Oslo", "lives in Rome"]
    assert take(other, [{**record, "body": {"text": "lives in Riga"}}]).created == 1
    assert stated(other) == ["lives in Oslo", "lives in Riga"]


def test_an_import_that_superseded_something_is_taken_back(world: World, other: World) -> None:
    first = world.remember("lives in Rome")
    take(other, exported(world))
    revised(world, first, "lives in Oslo")
    other.advance(2000)
    take(other, exported(world), label="later.ndjson")
    other.advance(10)
    assert other.service.undo_import(other.owner).restored == 1
    assert stated(other) == ["lives in Rome"]


def test_what_a_file_says_was_superseded_by_something_missing_is_out_of_use_here_too(
    world: World, other: World
) -> None:
    first = world.remember("lives in Rome")
    take(other, exported(world))
    second = revised(world, first, "lives in Oslo")
    (closed,) = [record for record in exported(world, history=True) if record["id"] == first]
    report = take(other, [closed])
    assert second in report.warnings[0] or report.merged == 1
    assert stated(other) == []
    assert take(other, exported(world)).created == 1
    assert stated(other) == ["lives in Oslo"]


def test_what_was_opened_again_here_is_not_closed_by_an_older_file(world: World) -> None:
    """A summary that was taken back is forgotten, and what it superseded is stated again."""
    first = world.remember("lives in Rome")
    second = revised(world, first, "lives in Oslo")
    grains = list(world.service.grains.export(world.owner))
    before, after = world.named("ump", first), world.named("ump", second)

    def take_back(unit: Unit) -> None:
        tombstone_version(unit, after, valid_to=world.now, now=world.now)
        unit.reopen_superseded([(before.version_id, after.version_id)], now=world.now)

    world.engine.write(world.owner.default_tenant, take_back)
    items = [Item(form="oms", value=delivery, index=index) for delivery, index in grains]
    assert world.service.import_items(world.owner, items).forgotten == 1
    assert stated(world) == ["lives in Rome"]


def test_what_was_forgotten_while_the_clock_was_set_back_stays_forgotten(world: World) -> None:
    oams = Oams(world)
    oams.store("k", "lives in Rome")
    name = world.remember("lives in Oslo")
    before = exported(world)
    world.advance(-3 * 86_400_000)
    oams.forget("k")
    world.forget(name)
    assert take(world, before).forgotten == 2
    assert stated(world) == []
