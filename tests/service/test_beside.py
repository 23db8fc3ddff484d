"""What travels beside a record: a verdict, also when the record is cut; and what nobody can have known is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memoranda.service.exchange.importing import number_items
from tests.service.world import World


@pytest.fixture
def other() -> Iterator[World]:
    other = World()
    yield other
    other.service.close()


@pytest.mark.requirement("OAMS-OURS-one-identity")
@pytest.mark.parametrize("verdict", ["retracted", "contested"])
def test_a_verdict_leaves_with_a_record_that_is_cut(world: World, other: World, verdict: str) -> None:
    said = {"text": "the code is 1234", "structured": {"code": "1234", "kind": "door"}}
    name = world.service.remember(
        world.owner, {**world.draft("x", consent={"redact": ["body.structured.code"]}), "body": said}
    ).id
    world.service.grains.set_verification(world.owner, world.as_grain(name).address, verdict, reason="wrong")
    leaving = list(world.service.export(world.owner))
    assert "code" not in (leaving[0]["body"].get("structured") or {})
    report = other.service.import_items(other.owner, number_items("ump", leaving))
    assert (report.created, report.refusals) == (1, [])
    assert other.named("ump", name).state.verification == verdict
    assert len(other.recall("code door")) == len(world.recall("code door")) == (verdict == "contested")


@pytest.mark.requirement("UMP-OURS-state-is-checked")
@pytest.mark.parametrize(
    "state",
    [
        3,
        {"verification": "nonsense"},
        {"verification": 3},
        {"closed": "yesterday"},
        {"closed": True},
        {"closed": -1},
        {"closed": 10**30},
        {"bounds": 3},
        {"bounds": {"expires": "x"}},
        {"bounds": {"visibility": "everybody"}},
    ],
)
def test_a_file_that_says_of_a_record_what_no_store_knows_is_refused_by_name(world: World, state: Any) -> None:
    draft = {**world.draft("x"), "body": {"text": "tea", "structured": {"memoranda:state": state}}}
    report = world.service.import_items(world.owner, number_items("ump", [draft]))
    assert (report.created, report.refused) == (0, 1)
    assert "memoranda:state" in report.refusals[0].message
