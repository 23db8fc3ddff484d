"""Undoing a pass: exactly what was there before, and never what somebody else wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.errors import Conflict, GrainError, NotFound
from memoranda.service.consolidation.runs import RUNS_LIMIT
from memoranda.standards.oams.memory import STRATEGIES
from tests.service.dreaming import Dreams, outcome
from tests.service.world import World

DAY = 86_400_000


@pytest.fixture
def dreams(world: World) -> Dreams:
    dreams = Dreams(world)
    dreams.fill()
    return dreams


def change(dreams: Dreams) -> None:
    """Other inputs: some results follow no more, some say something else, some are new."""
    dreams.world.advance(DAY)
    dreams.store("billing", "Billing uses MySQL.")
    dreams.store("port now", "The staging database runs on port 5434.")
    dreams.store("tea", "Ada prefers green tea in the morning. She bought a pot.")
    dreams.store("sync 01", "Met with the design team.", created_at="2026-06-01T09:00:00Z", tags=["weekly"])
    dreams.store("mail", "Mail uses PostgreSQL. The review is on 2026-09-01.")


@pytest.mark.requirement("OAMS-OURS-dream-undo")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_undo_restores_exactly_the_results_there_were(dreams: Dreams, strategy: str) -> None:
    first = dreams.run(strategy)
    one = dreams.results()
    change(dreams)
    dreams.world.advance(DAY)
    second = dreams.run(strategy)
    assert dreams.results() != one
    undone = dreams.undo(second)
    assert undone.left == ()
    assert dreams.results() == one
    assert dreams.undo(first).left == ()
    assert dreams.results() == {}
    assert dreams.runs() == []


@pytest.mark.requirement("OAMS-OURS-dream-undo")
def test_a_pass_can_be_undone_after_a_restart_and_only_once(tmp_path: Path) -> None:
    world = World(path=tmp_path / "memoranda.db")
    dreams = Dreams(world)
    dreams.fill()
    before = dreams.listed()
    run = dreams.run()
    world.service.close()
    world = World(path=tmp_path / "memoranda.db")
    dreams = Dreams(world)
    try:
        undone = dreams.undo(run.run_id)
        assert set(undone.taken_back) == set(outcome(run))
        assert dreams.listed() == before
        for name in (run.run_id, "", "00000000-0000-0000-0000-000000000000", "\x00"):
            with pytest.raises(NotFound):
                dreams.undo(name)
    finally:
        world.service.close()


def test_an_undone_pass_can_be_run_again(dreams: Dreams) -> None:
    first = dreams.run()
    for _ in range(3):
        results = dreams.results()
        dreams.undo(first)
        again = dreams.run()
        assert again.run_id == first.run_id
        assert outcome(again) == dict.fromkeys(results, "created")
        assert dreams.results().keys() == results.keys()


def test_passes_of_one_strategy_are_undone_from_the_last(dreams: Dreams) -> None:
    first, other = dreams.run(), dreams.run("reflect")
    change(dreams)
    second = dreams.run()
    with pytest.raises(Conflict, match=second.run_id):
        dreams.undo(first)
    assert [(each["run_id"], each["can_be_undone"]) for each in dreams.runs()] == [
        (second.run_id, True), (other.run_id, True), (first.run_id, False),
    ]  # fmt: skip
    # Other strategies are another matter.
    dreams.undo(other)
    dreams.undo(second)
    dreams.undo(first)
    assert dreams.results() == {}


def test_the_same_pass_may_come_twice_and_each_can_be_undone(dreams: Dreams) -> None:
    first = dreams.run()
    one = dreams.results()
    dreams.store("tea 3", "Ada prefers green tea in the morning. She bought a pot.")
    second = dreams.run()
    two = dreams.results()
    dreams.forget("tea 3")
    # What rested on it went with it, at once, and is not brought again.
    assert not dreams.results().keys() & (two.keys() - one.keys())
    third = dreams.run()
    assert third.run_id == first.run_id != second.run_id
    assert dreams.results().keys() == one.keys()
    assert dreams.undo(third).left == ()
    dreams.undo(second)
    assert dreams.results() == one
    dreams.undo(first)
    assert dreams.results() == {}


def test_what_somebody_forgot_meanwhile_stays_forgotten_through_all_earlier_passes(dreams: Dreams) -> None:
    key = next(each.memory["key"] for each in dreams.run().outputs if each.memory["parent_id"] == "tea again")
    dreams.store("tea 3", "Ada prefers green tea in the morning. She bought a pot.")
    dreams.run()
    dreams.forget("tea 3")
    dreams.run()
    dreams.forget(key)
    for run in dreams.runs():
        dreams.undo(run["run_id"])
        assert key not in dreams.results()
    assert dreams.results() == {}


# --- what others did -----------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-OURS-dream-undo-theirs")
def test_a_result_that_somebody_changed_stays_when_the_pass_is_undone(dreams: Dreams) -> None:
    run = dreams.run("insight_generate")
    key = run.outputs[0].memory["key"]
    edited = dreams.put({**run.outputs[0].memory, "tags": ["mine"]}).memory
    undone = dreams.undo(run)
    assert undone.left == (key,)
    assert len(undone.taken_back) == len(run.outputs) - 1
    assert dreams.get(key) == edited


@pytest.mark.requirement("OAMS-OURS-dream-undo-theirs")
def test_a_result_that_somebody_forgot_is_not_brought_again(dreams: Dreams) -> None:
    (made,) = dreams.run("reflect").outputs
    change(dreams)
    run = dreams.run("reflect")
    dreams.forget(made.memory["key"])
    assert dreams.undo(run).left == (made.memory["key"],)
    assert dreams.results() == {}


@pytest.mark.requirement("OAMS-OURS-dream-undo-theirs")
def test_what_somebody_wrote_under_the_key_of_a_result_is_theirs(dreams: Dreams) -> None:
    first = dreams.run("insight_generate")
    key = next(each.memory["key"] for each in first.outputs if each.memory["value"].startswith("Billing"))
    change(dreams)
    second = dreams.run("insight_generate")
    assert key in second.taken_back
    theirs = dreams.store(key, "Mine.").memory
    assert dreams.undo(second).left == (key,)
    assert dreams.get(key) == theirs
    # And when they forgot it again, it stays forgotten.
    dreams.run("insight_generate")
    dreams.forget(key)
    dreams.undo(dreams.runs()[0]["run_id"])
    assert key not in dreams.listed_keys()


@pytest.mark.requirement("OAMS-OURS-dream-undo-theirs")
def test_memories_that_were_written_since_are_not_touched(dreams: Dreams) -> None:
    runs = [dreams.run(strategy) for strategy in STRATEGIES]
    change(dreams)
    dreams.world.remember("Written through UMP meanwhile.")
    inputs = {each["key"]: each for each in dreams.listed() if each["key"] not in dreams.results()}
    for run in runs:
        dreams.undo(run)
    assert {each["key"]: each for each in dreams.listed()} == inputs


def test_a_result_on_hold_is_neither_changed_nor_taken_back(dreams: Dreams) -> None:
    (made,) = dreams.run("reflect").outputs
    key, world = made.memory["key"], dreams.world
    name = next(
        r["id"] for r in world.service.list_records(world.owner)[0] if r["body"]["text"] == made.memory["value"]
    )
    address = world.as_grain(name).address
    world.service.grains.set_hold(world.owner, address, held=True)
    with pytest.raises(GrainError, match="hold"):
        dreams.forget(key)
    run_id = dreams.runs()[0]["run_id"]
    change(dreams)
    for dry in (True, False):
        assert outcome(dreams.run("reflect", dry=dry)) == {key: "kept"}
    assert dreams.undo(run_id).left == (key,)
    assert dreams.get(key) == made.memory
    world.service.grains.set_hold(world.owner, address, held=False)
    assert outcome(dreams.run("reflect")) == {key: "updated"}


def test_only_the_last_passes_are_kept(dreams: Dreams) -> None:
    dreams.run("validate")
    ids = []
    for number in range(RUNS_LIMIT + 3):
        dreams.store(f"cup {number}", "Tea.")
        ids.append(dreams.run("reflect").run_id)
    kept = [each["run_id"] for each in dreams.runs() if each["strategy"] == "reflect"]
    assert kept == ids[::-1][:RUNS_LIMIT]
    assert [each["strategy"] for each in dreams.runs()].count("validate") == 1
    for run_id in kept:
        assert dreams.undo(run_id).left == ()
    assert len(dreams.results()) == 1 + sum(
        each["metadata"]["dream_strategy"] == "validate" for each in dreams.results().values()
    )


def test_runs_say_what_they_did_and_no_numbers_of_the_store(dreams: Dreams) -> None:
    run = dreams.run("reflect")
    (kept,) = dreams.runs()
    assert kept == {
        "run_id": run.run_id,
        "namespace": dreams.namespace,
        "strategy": "reflect",
        "at": "2026-06-04T10:00:00.000Z",
        "created": [run.outputs[0].memory["key"]],
        "updated": [],
        "taken_back": [],
        "can_be_undone": True,
    }
