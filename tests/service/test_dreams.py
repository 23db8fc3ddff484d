"""Consolidation: what a pass makes of a namespace, and that the same store always gives the same pass."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.consolidation.strategies.dream import Dream, Options
from memoranda.consolidation.text.note import MemoryNote
from memoranda.encoding.json_text import dump, parse
from memoranda.errors import Conflict, InvalidInput, NamespaceNotFound, QuotaExceeded
from memoranda.model.instant import format_instant, parse_instant
from memoranda.service.consolidation.results import CITED_LIMIT, DETAILS_KEY, Input, ResultBuilder
from memoranda.service.core.limits import Quotas
from memoranda.service.oams.views import Location
from memoranda.standards.oams.mapping import derived_from
from memoranda.standards.oams.memory import MAX_MEMORY_BYTES, MAX_VALUE_BYTES, STRATEGIES, check, is_strategy
from tests.service.dreaming import KEYS, Dreams, outcome
from tests.service.oams_verbs import Memory, namespace
from tests.service.world import World
from tests.standards.oams.strategies import KEYS as ANY_KEYS
from tests.standards.oams.strategies import TEXTS

DAY = 86_400_000
MORE = CITED_LIMIT + 100


@pytest.fixture
def dreams(world: World) -> Dreams:
    dreams = Dreams(world)
    dreams.fill()
    return dreams


# --- results -------------------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "OAMS-5-consolidated-parent", "OAMS-5-consolidated-source", "OAMS-6-dream-output", "OAMS-6-strategies"
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_makes_memories_that_say_where_they_come_from(dreams: Dreams, strategy: str) -> None:
    run = dreams.run(strategy)
    assert run.outputs
    assert set(outcome(run).values()) == {"created"}
    assert (run.written_count, run.inputs, run.taken_back, run.left_out) == (len(run.outputs), len(KEYS), (), ())
    assert str(uuid.UUID(run.run_id)) == run.run_id
    for each in run.outputs:
        result = dreams.get(each.memory["key"])
        assert result == each.memory
        metadata = result["metadata"]
        assert (metadata["dream_strategy"], metadata["dream_run_id"]) == (strategy, run.run_id)
        cited = [key for name, key in metadata["dream_inputs"] if name == dreams.namespace]
        assert len(cited) == len(metadata["dream_inputs"]) == len(set(cited)) > 0
        assert set(cited) <= KEYS
        assert result["parent_id"] == cited[0]
        assert result["source_id"] in (f"dream:{strategy}:{run.run_id}", dreams.get(cited[0]).get("source_id"))
        assert metadata[DETAILS_KEY]["why"]
        assert each.inputs == tuple((key, dreams.get(key)["value"]) for key in cited)
        # Another vendor reads it without a warning.
        assert check(result, complete=True)[1] == ()


def test_no_input_is_ever_rewritten(dreams: Dreams) -> None:
    before = {each["key"]: dreams.shown(each["key"]) for each in dreams.listed()}
    for strategy in STRATEGIES:
        dreams.run(strategy)
    assert {key: dreams.shown(key) for key in KEYS} == before


@pytest.mark.requirement("OAMS-5-consolidated-source")
def test_the_source_of_the_strongest_input_stays_and_several_sources_have_a_synthetic_one(dreams: Dreams) -> None:
    assert [each.memory["source_id"] for each in dreams.run("evolve").outputs] == ["https://wiki.example/db"]
    run = dreams.run("synthesize")
    sources = {each.memory["parent_id"]: each.memory["source_id"] for each in run.outputs}
    assert sources == {"tea again": "slack:C1:1700000000.1"}
    checked = dreams.run("validate")
    assert f"dream:validate:{checked.run_id}" in {each.memory["source_id"] for each in checked.outputs}
    for each in dreams.run("reflect").outputs:
        assert str(each.memory["source_id"]).startswith("dream:reflect:")


def test_a_result_is_as_old_as_its_newest_input_and_stands_behind_what_it_was_made_from(dreams: Dreams) -> None:
    made = dreams.run("validate").outputs[0].memory
    assert made["updated_at"] == made["created_at"] == "2026-05-11T09:00:00.000Z"
    question = "Contradiction: the staging database runs on port"
    keys = dreams.keys(question)
    assert keys.index(made["key"]) > max(keys.index("port then"), keys.index("port now"))
    texts = dreams.world.texts(question)
    then, now = (
        "The staging database runs on port 5432. It is backed up every night.",
        "The staging database runs on port 5433.",
    )
    assert texts.index(made["value"]) > max(texts.index(then), texts.index(now))
    asked = 'RECALL LIKE "contradiction: different values, the second is later: staging port"'
    found = dreams.world.service.cal.run(dreams.world.owner, asked)
    objects = [each["grain"]["object"] for each in found["results"]]
    assert objects.index(made["value"]) > max(objects.index(then), objects.index(now))


def test_results_are_found_by_recall_and_readable_through_the_other_standards(dreams: Dreams) -> None:
    made = dreams.run("insight_generate").outputs[0].memory
    assert made["key"] in dreams.keys("OpenSSL through PostgreSQL")
    assert made["value"] in dreams.world.texts("OpenSSL through PostgreSQL")
    assert derived_from(made)[0] == f"{dreams.namespace}/{made['parent_id']}"


def test_two_findings_about_the_same_memories_are_two_memories(dreams: Dreams) -> None:
    dreams.store(
        "one", "The office is in Oslo. Rent costs 100 EUR. Bob lives in Rome.", created_at="2026-05-01T00:00:00Z"
    )
    dreams.store(
        "two", "The office is in Bergen. Rent costs 120 EUR. Bob lives in Rome.", created_at="2026-05-02T00:00:00Z"
    )
    dreams.store(
        "plans", "The audit is due on 2026-08-01. The party is on 2026-09-01.", created_at="2026-05-03T00:00:00Z"
    )
    for strategy in ("validate", "forecast"):
        run = dreams.run(strategy)
        assert len(outcome(run)) == len(run.outputs) == len(set(dreams.values()))
        assert dreams.run(strategy).written_count == 0
        dreams.undo(run)


@pytest.mark.requirement("OAMS-5-source-carried", "OAMS-OURS-dream-any-standard")
def test_memories_of_ump_and_oms_are_inputs_too(world: World) -> None:
    dreams = Dreams(world)
    record = world.remember("Billing uses PostgreSQL.")
    address = world.put(subject="PostgreSQL", relation="requires", object="OpenSSL", namespace=None)
    (made,) = dreams.run("insight_generate").outputs
    assert {key for key, _ in made.inputs} == {record, address}
    assert made.memory["parent_id"] in (record, address)
    assert all(dreams.get(key)["source_id"] for key, _ in made.inputs)
    assert made.memory["source_id"]
    world.revise(record, body={"text": "Billing uses MySQL."})
    assert dreams.run("insight_generate").taken_back == (made.memory["key"],)


@pytest.mark.requirement("OAMS-6-vendor-strategies")
def test_consolidations_of_other_vendors_pass_through_untouched_and_are_read(dreams: Dreams) -> None:
    pairs = [[dreams.namespace, "tea"]]
    theirs = [
        dreams.complete(
            "theirs",
            "Ada prefers green tea in the morning.",
            parent_id="tea",
            metadata={"dream_strategy": "vendor:moonwalk", "dream_inputs": pairs, "dream_run_id": str(uuid.uuid4())},
        ),
        # Under a key like ours, with a strategy like ours; still theirs.
        dreams.complete(
            "dream-synthesize-0123456789abcdef01234567",
            "A summary.",
            parent_id="tea",
            metadata={"dream_strategy": "synthesize", "dream_inputs": pairs, "dream_run_id": str(uuid.uuid4())},
        ),
    ]
    lines = [dump(each) for each in theirs]
    assert dreams.take_in([(line, parse(line)) for line in lines]).created == 2
    for strategy in STRATEGIES:
        dreams.run(strategy)
    merged = next(each for each in dreams.results().values() if each["parent_id"] == "tea again")
    assert [dreams.namespace, "theirs"] in merged["metadata"]["dream_inputs"]
    assert set(lines) <= set(dreams.exported())
    for run in dreams.runs():
        dreams.undo(run["run_id"])
    assert set(lines) <= set(dreams.exported())


def test_only_the_nine_strategies_can_be_run(dreams: Dreams) -> None:
    for strategy in ("vendor:moonwalk", "Synthesize", "", "all"):
        with pytest.raises(InvalidInput, match="strategy"):
            dreams.run(strategy)
    assert is_strategy("vendor:moonwalk")


@pytest.mark.parametrize("options", [{"limit": 1_001}, {"budget_tokens": 100_001}, {"likeness": 0.01}], ids=str)
def test_what_it_is_told_has_limits(dreams: Dreams, options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(InvalidInput, match=name.removesuffix("_tokens")):
        dreams.run(options=Options(**options))


def test_what_it_is_told_counts(dreams: Dreams) -> None:
    assert len(dreams.run("insight_generate", options=Options(limit=1)).outputs) == 1
    short = dreams.run("compress", options=Options(budget_tokens=20)).outputs[0].memory
    assert len(short["value"].encode()) <= 4 * 20
    # The one summary of a namespace is one memory: another budget is its next version.
    assert outcome(dreams.run("compress", options=Options(budget_tokens=60))) == {short["key"]: "updated"}


def test_a_namespace_in_which_nothing_was_ever_written_is_not_found(dreams: Dreams) -> None:
    elsewhere = Dreams(dreams.world, namespace(dreams.world.owner.default_tenant, "nowhere"))
    for dry in (True, False):
        with pytest.raises(NamespaceNotFound):
            elsewhere.run(dry=dry)


def test_a_pass_that_finds_nothing_writes_nothing(world: World) -> None:
    dreams = Dreams(world)
    dreams.store("alone", "A single memory.")
    for strategy in STRATEGIES:
        run = dreams.run(strategy)
        assert (run.outputs, run.taken_back, run.inputs) == ((), (), 1)
    assert dreams.runs() == []


# --- dry, and again ------------------------------------------------------------------------------------------


def written(dreams: Dreams) -> tuple[object, ...]:
    """All that a write leaves behind, but for the audit."""
    world = dreams.world
    with world.engine.open_snapshot(dreams.access.default_tenant) as snapshot:
        return (
            snapshot.find_last_change(),
            snapshot.measure_usage(),
            snapshot.load_items("oams dream"),
            dreams.exported(),
        )


@pytest.mark.requirement("OAMS-OURS-dream-dry")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_dry_run_shows_what_a_pass_writes_and_writes_nothing(dreams: Dreams, strategy: str) -> None:
    before, head = written(dreams), audit_head(dreams)
    dry = dreams.run(strategy, dry=True)
    assert written(dreams) == before
    # It is on record as what it is: somebody read the namespace.
    assert audit_head(dreams) == head + 1 + 1  # and the export with which we looked
    real = dreams.run(strategy)
    assert (dry.is_dry, real.is_dry) == (True, False)
    assert (dry.run_id, outcome(dry), dry.written_count) == (real.run_id, outcome(real), real.written_count)
    assert [timeless(each.memory) for each in dry.outputs] == [timeless(each.memory) for each in real.outputs]


def audit_head(dreams: Dreams) -> int:
    dreams.world.engine.flush()
    with dreams.world.engine.open_snapshot(dreams.access.default_tenant) as snapshot:
        return snapshot.read_audit_head()[0]


def timeless(memory: Memory) -> Memory:
    return {name: member for name, member in memory.items() if name not in ("created_at", "updated_at")}


@pytest.mark.requirement("OAMS-OURS-dream-idempotent")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_second_pass_over_an_unchanged_store_writes_nothing(dreams: Dreams, strategy: str) -> None:
    first = dreams.run(strategy)
    before = written(dreams)
    # Waiting alone changes nothing either.
    dreams.world.advance(400 * DAY)
    again = dreams.run(strategy)
    assert set(outcome(again).values()) == {"unchanged"}
    assert (again.run_id, again.written_count, again.taken_back) == (first.run_id, 0, ())
    assert [each.memory for each in again.outputs] == [each.memory for each in first.outputs]
    assert written(dreams) == before


@pytest.mark.requirement("OAMS-OURS-dream-idempotent")
def test_what_one_strategy_made_is_no_input_of_another(dreams: Dreams) -> None:
    alone = {strategy: dreams.run(strategy, dry=True).run_id for strategy in STRATEGIES}
    assert {strategy: dreams.run(strategy).run_id for strategy in STRATEGIES} == alone
    before = written(dreams)
    assert [dreams.run(strategy).written_count for strategy in STRATEGIES] == [0] * len(STRATEGIES)
    assert written(dreams) == before


@pytest.mark.requirement("OAMS-OURS-dream-idempotent")
@pytest.mark.sqlite
def test_another_process_comes_to_the_same_and_so_does_this_one_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "memoranda.db"
    world = World(path=path)
    dreams = Dreams(world)
    dreams.fill()
    dry = [dreams.run(strategy, dry=True).document() for strategy in STRATEGIES]
    world.service.close()
    # Sets have another order in every process.
    assert [elsewhere(path, seed) for seed in ("1", "2")] == [dry, dry]
    world = World(path=path)
    dreams = Dreams(world)
    real = [dreams.run(strategy) for strategy in STRATEGIES]
    assert [run.run_id for run in real] == [each["run_id"] for each in dry]
    world.service.close()
    after = elsewhere(path, "3")
    assert [each["run_id"] for each in after] == [run.run_id for run in real]
    assert {output["result"] for each in after for output in each["outputs"]} == {"unchanged"}


def elsewhere(path: Path, seed: str) -> Any:
    command = [sys.executable, "-m", "tests.service.dreaming", str(path)]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    root = Path(__file__).parents[2]
    return parse(subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True).stdout)


@pytest.mark.requirement("OAMS-OURS-dream-idempotent")
def test_results_that_travelled_in_a_bundle_are_known_again(dreams: Dreams) -> None:
    runs = [dreams.run(strategy) for strategy in STRATEGIES]
    lines = [(raw, memory) for raw, memory in dreams.verbs.export(dreams.access)]
    world = World()
    try:
        there = Dreams(world)
        assert there.take_in(list(lines)).created == len(lines)
        again = [there.run(strategy) for strategy in STRATEGIES]
        assert [each.run_id for each in again] == [each.run_id for each in runs]
        assert {result for each in again for result in outcome(each).values()} == {"unchanged"}
    finally:
        world.service.close()


@pytest.mark.requirement("OAMS-OURS-dream-idempotent")
def test_several_who_consolidate_at_once_write_it_once(dreams: Dreams) -> None:
    with ThreadPoolExecutor(max_workers=4) as pool:
        runs = list(pool.map(lambda _: dreams.run("insight_generate"), range(8)))
    assert sum(each.written_count for each in runs) == len(runs[0].outputs) == len(dreams.results())
    assert [each["run_id"] for each in dreams.runs()] == [runs[0].run_id]
    dreams.undo(runs[0])
    assert dreams.results() == {}


# --- changed inputs ------------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-OURS-dream-follows")
def test_when_inputs_change_results_follow_and_stale_ones_are_taken_back(dreams: Dreams) -> None:
    dreams.world.advance(DAY)
    first = dreams.run("insight_generate")
    chains = {each.memory["value"].split()[0]: each.memory["key"] for each in first.outputs}
    untouched = dreams.shown(chains["Search"])
    dreams.world.advance(DAY)
    # One claim is gone, one input is worded anew, one is new.
    dreams.store("billing", "Billing uses MySQL.")
    dreams.store("reports", "Reporting really uses PostgreSQL. Reporting uses PostgreSQL.")
    dreams.store("mail", "Mail uses PostgreSQL.")
    second = dreams.run("insight_generate")
    assert second.run_id != first.run_id
    assert chains["Billing"] in second.taken_back
    assert chains["Billing"] not in dreams.results()
    assert any(each.memory["value"].startswith("Mail depends on OpenSSL") for each in second.outputs)
    # What still follows from the same memories stays as it is, with the pass that found it.
    assert outcome(second)[chains["Search"]] == "unchanged"
    assert dreams.shown(chains["Search"]) == untouched
    groups = {each["metadata"]["dream_run_id"] for each in dreams.results().values()}
    assert groups == {first.run_id, second.run_id}
    assert {each["key"] for each in dreams.results().values()} == set(outcome(second))


@pytest.mark.requirement("OAMS-OURS-dream-follows")
def test_a_result_that_says_something_else_now_is_the_next_version_of_the_same_memory(dreams: Dreams) -> None:
    (first,) = dreams.run("reflect").outputs
    dreams.world.advance(DAY)
    dreams.store("more", "Something else altogether.")
    run = dreams.run("reflect")
    (second,) = run.outputs
    assert outcome(run) == {first.memory["key"]: "updated"}
    assert second.memory["created_at"] == first.memory["created_at"] < second.memory["updated_at"]
    assert second.memory["metadata"]["dream_run_id"] == run.run_id
    assert second.memory["value"] != first.memory["value"]


def test_everything_that_followed_goes_when_nothing_follows_any_more(dreams: Dreams) -> None:
    assert all(dreams.run(strategy).written_count for strategy in STRATEGIES)
    for key in KEYS:
        dreams.forget(key)
    assert dreams.listed() == []
    assert not any(dreams.run(strategy).taken_back for strategy in STRATEGIES)


def test_a_memory_from_the_future_does_not_end_the_plans_of_today(dreams: Dreams) -> None:
    plan = next(each for each in dreams.run("forecast").outputs if each.memory["parent_id"] == "release")
    dreams.store("ahead", "A clock that is wrong.", created_at="2040-01-01T00:00:00Z")
    assert outcome(dreams.run("forecast"))[plan.memory["key"]] == "unchanged"
    before = written(dreams)
    dreams.world.advance(DAY)
    assert dreams.run("forecast").written_count == 0
    assert written(dreams) == before


@pytest.mark.requirement("OAMS-OURS-dream-theirs")
def test_a_result_that_somebody_changed_is_theirs(dreams: Dreams) -> None:
    run = dreams.run("insight_generate")
    edited = dreams.put({**run.outputs[0].memory, "value": "Nobody knows any more why."}).memory
    again = dreams.run("insight_generate")
    assert again.inputs == run.inputs + 1
    assert outcome(again)[edited["key"]] == "kept"
    assert dreams.get(edited["key"]) == edited
    # Nor is it taken back when what it came from is gone.
    dreams.store("billing", "Billing is closed.")
    assert edited["key"] not in dreams.run("insight_generate").taken_back
    assert dreams.get(edited["key"]) == edited


def test_a_result_revised_through_another_standard_is_theirs_too(dreams: Dreams) -> None:
    (made,) = dreams.run("reflect").outputs
    world = dreams.world
    name = next(
        r["id"] for r in world.service.list_records(world.owner)[0] if r["body"]["text"] == made.memory["value"]
    )
    world.revise(name, body={"text": "I know better."})
    run = dreams.run("reflect")
    assert outcome(run) == {made.memory["key"]: "kept"}
    assert dreams.get(made.memory["key"])["value"] == "I know better."
    assert dreams.run("reflect").written_count == 0


def test_a_result_that_somebody_forgot_comes_again_only_if_it_still_follows(dreams: Dreams) -> None:
    (made,) = dreams.run("reflect").outputs
    dreams.forget(made.memory["key"])
    assert outcome(dreams.run("reflect")) == {made.memory["key"]: "created"}


# --- while others write --------------------------------------------------------------------------------------


@dataclass
class Meddler:
    """A writer that changes nothing itself but lets something happen between reading and writing."""

    acts: list[Any]
    asked: int = 0

    def rewrite(self, strategy: str, dream: Dream, notes: Sequence[MemoryNote]) -> str | None:
        self.asked += 1
        if self.acts:
            self.acts.pop(0)()
        return None


@pytest.mark.requirement("OAMS-OURS-dream-unmoved")
def test_what_is_forgotten_while_a_pass_is_under_way_is_in_no_result(dreams: Dreams) -> None:
    run = dreams.run(writer=Meddler([lambda: dreams.forget("tea again")]))
    assert all("tea again" not in dict(each.inputs) for each in run.outputs)
    assert not any("coffee" in value for value in dreams.values())


def test_a_pass_does_not_mind_what_it_does_not_rest_on(dreams: Dreams) -> None:
    meddler = Meddler([lambda: dreams.store("aside", "Nothing that matters here.")])
    run = dreams.run(writer=meddler)
    assert meddler.asked == len(run.outputs)


@pytest.mark.requirement("OAMS-OURS-dream-unmoved")
def test_a_namespace_that_never_stands_still_is_refused_at_last(dreams: Dreams) -> None:
    acts = [
        lambda number=number: dreams.store("tea", f"Ada prefers green tea in the morning. {number}")
        for number in range(9)
    ]
    before = dreams.results()
    with pytest.raises(Conflict, match="try again"):
        dreams.run(writer=Meddler(list(acts)))
    assert dreams.results() == before == {}


# --- a language model ----------------------------------------------------------------------------------------


@dataclass
class Poet:
    """A writer as a language model would be one."""

    line: str = "In verse: {0}"
    seen: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def rewrite(self, strategy: str, dream: Dream, notes: Sequence[MemoryNote]) -> str | None:
        self.seen.append((strategy, tuple(note.name for note in notes)))
        return self.line.format(dream.text)


@pytest.mark.requirement("OAMS-OURS-dream-model")
def test_a_language_model_only_words_what_was_found(dreams: Dreams) -> None:
    plain = dreams.run(dry=True)
    poet = Poet()
    run = dreams.run(writer=poet)
    assert poet.seen == [("synthesize", tuple(key for key, _ in each.inputs)) for each in run.outputs]
    for worded, found in zip(run.outputs, plain.outputs, strict=True):
        assert worded.memory["value"] == f"In verse: {found.memory['value']}"
        for name in ("key", "parent_id", "tags"):
            assert worded.memory[name] == found.memory[name]
        assert worded.memory["metadata"]["dream_inputs"] == found.memory["metadata"]["dream_inputs"]
        mark = worded.memory["metadata"][DETAILS_KEY]
        assert (mark["worded_by"], mark["found_text"]) == ("model", found.memory["value"])


@pytest.mark.requirement("OAMS-OURS-dream-model")
def test_a_model_is_not_asked_twice_and_need_not_say_the_same_twice(dreams: Dreams) -> None:
    first = dreams.run(writer=Poet())
    before = written(dreams)
    other = Poet(line="Quite differently: {0}")
    again = dreams.run(writer=other)
    assert other.seen == []
    assert [each.memory for each in again.outputs] == [each.memory for each in first.outputs]
    assert written(dreams) == before
    # What changed is asked about, and nothing else.
    dreams.store("tea", "Ada prefers green tea in the morning. She bought a pot.")
    dreams.run(writer=other)
    assert len(other.seen) == 1
    # And without a model it is as it was found.
    assert not any("verse" in each or "differently" in each for each in _plain(dreams))


def _plain(dreams: Dreams) -> set[str]:
    dreams.run()
    return dreams.values()


@pytest.mark.parametrize("line", ["", "   ", "There are 99 teas.", "x" * 100_000])
def test_what_a_model_makes_up_is_not_used(dreams: Dreams, line: str) -> None:
    plain = [timeless(each.memory)["value"] for each in dreams.run(dry=True).outputs]
    assert [each.memory["value"] for each in dreams.run(writer=Poet(line=line)).outputs] == plain


# --- sizes and hostile memories ------------------------------------------------------------------------------


def test_more_memories_than_a_result_names_are_consolidated(world: World) -> None:
    dreams = Dreams(world)
    start = parse_instant("2020-01-01T00:00:00Z")
    names = ("Ada", "Bob", "Cyd", "Dan", "Eve")
    for first, last in ((0, 500), (500, 1_000), (1_000, MORE)):
        dreams.batch(
            [
                dreams.memory(
                    f"m{number}",
                    f"{names[number % 5]} reviewed module {number % 700} of project {number % 13}. "
                    f"Build took {number % 90} s.",
                    created_at=format_instant(start + number * 3_600_000),
                    tags=[f"project-{number % 13}"],
                )
                for number in range(first, last)
            ]
        )
    for strategy in STRATEGIES:
        run = dreams.run(strategy)
        assert run.inputs == MORE
        assert len(run.outputs) <= 50
    assert max(len(dump(each)) for each in dreams.results().values()) < MAX_MEMORY_BYTES
    again = dreams.run("reflect")
    assert again.written_count == 0
    (about_all,) = again.outputs
    assert len(about_all.memory["metadata"]["dream_inputs"]) == CITED_LIMIT
    assert about_all.memory["metadata"][DETAILS_KEY]["inputs"] == MORE


@pytest.mark.requirement("OAMS-OURS-dream-cited")
@pytest.mark.parametrize("name_chars", [8, 1_000])
@pytest.mark.parametrize("scope_chars", [8, 6_000])
def test_a_result_of_a_hundred_thousand_memories_still_fits_into_one(name_chars: int, scope_chars: int) -> None:
    names = [f"{number:0{name_chars}d}" for number in range(100_000)]
    inputs = {name: Input(note=MemoryNote(name, "", 0), memory_id=0) for name in names}
    place = Location(namespace="user-x123ab:" + "s" * scope_chars, tenant="t", space="s")
    builder = ResultBuilder(place, "reflect", str(uuid.uuid4()), inputs)
    detail = {"why": "w", "fillers": ["“" + "f" * 40 + "”"] * 100_000, "days": ["2026-01-01"] * 100_000}
    made = builder.build_memory(Dream(text="x" * 500_000, inputs=tuple(names), detail=detail), "k", "")
    check(made, complete=False)
    cited = made["metadata"]["dream_inputs"]
    assert 0 < len(cited) <= CITED_LIMIT
    assert [key for _, key in cited] == names[: len(cited)]
    mark = made["metadata"][DETAILS_KEY]
    assert (mark["inputs"], mark["fillers_count"], mark["days_count"], len(mark["days"])) == (
        100_000,
        100_000,
        100_000,
        100,
    )


def test_what_cannot_be_a_memory_is_left_out_and_the_rest_is_written(dreams: Dreams) -> None:
    # A book as long as a memory can be, of which one page is overtaken by something longer.
    page = "The archive runs on port 1. "
    filler = "Nothing else happened on that day at the archive, as far as anybody remembers. "
    book = page + filler * ((MAX_VALUE_BYTES - len(page)) // len(filler))
    dreams.store("book", book.ljust(MAX_VALUE_BYTES, "."), created_at="2026-01-01T00:00:00Z")
    dreams.store("note", "The archive runs on port 1000.", created_at="2026-02-01T00:00:00Z")
    run = dreams.run("evolve")
    assert len(run.left_out) == 1
    assert "value has" in run.left_out[0]
    assert {each.memory["parent_id"] for each in run.outputs} == {"port then"}


def test_a_namespace_that_is_too_large_is_refused_by_name(dreams: Dreams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoranda.service.consolidation.dreams.INPUTS_LIMIT", len(KEYS))
    assert dreams.run("reflect", dry=True).inputs == len(KEYS)
    dreams.store("one more", "too much")
    with pytest.raises(InvalidInput, match=f"{dreams.namespace} is too large for one run"):
        dreams.run("reflect", dry=True)
    monkeypatch.setattr("memoranda.service.consolidation.dreams.INPUTS_LIMIT", 1_000)
    monkeypatch.setattr("memoranda.service.consolidation.dreams.WRITTEN_LIMIT", 2)
    with pytest.raises(InvalidInput, match="smaller limit"):
        dreams.run("insight_generate")
    assert len(dreams.run("insight_generate", options=Options(limit=2)).outputs) == 2


def test_keys_and_tags_of_any_form_are_cited_as_they_are(world: World) -> None:
    dreams = Dreams(world)
    keys = ("user-x123ab:personal/x", "a/b", "é: ?", "k" * 1024)
    for key in keys:
        dreams.store(key, "The same is said here. Again and again.", tags=["İ" * 256, "Dream", "ß"])
    (made,) = dreams.run().outputs
    assert {key for _, key in made.memory["metadata"]["dream_inputs"]} == set(keys)
    assert {target.removeprefix(f"{dreams.namespace}/") for target in derived_from(made.memory)} == set(keys)
    assert made.memory["tags"].count("dream") == 1
    assert dreams.run().written_count == 0


def test_quotas_hold_for_results_too() -> None:
    for quotas in (Quotas(memories=14), Quotas(writes_per_minute=14)):
        world = World(quotas=quotas)
        try:
            dreams = Dreams(world)
            dreams.fill()
            with pytest.raises(QuotaExceeded):
                dreams.run("insight_generate")
            assert (dreams.results(), dreams.runs()) == ({}, [])
        finally:
            world.service.close()


CLAIMS = st.sampled_from(
    [
        "Ada prefers tea.", "Ada prefers coffee.", "Billing uses PostgreSQL.", "PostgreSQL requires OpenSSL.",
        "The office is in Oslo.", "The office is in Rome.", "Latency is 10 ms.", "Latency is 20 ms.",
        "The review is on 2027-01-01.", "Met the team.", "不再使用。", "",
    ]
)  # fmt: skip
ANY_MEMORIES = st.dictionaries(
    ANY_KEYS, st.tuples(st.lists(CLAIMS | TEXTS, max_size=3).map(" ".join), st.lists(TEXTS, max_size=2)), max_size=6
)


@pytest.mark.requirement("OAMS-OURS-dream-idempotent", "OAMS-OURS-dream-undo")
@given(memories=ANY_MEMORIES, more=ANY_MEMORIES)
@settings(max_examples=12)
def test_any_store_is_consolidated_once_and_comes_back_as_it_was(memories: Any, more: Any) -> None:
    world = World()
    dreams = Dreams(world)
    try:
        dreams.store("first", "Ada prefers tea. The office is in Oslo.")
        states = []
        for part in (memories, more):
            for key, (value, tags) in part.items():
                world.advance(DAY)
                dreams.store(key, value, tags=tags)
            states.append(dreams.results())
            for strategy in STRATEGIES:
                dreams.run(strategy)
            before = written(dreams)
            assert [dreams.run(strategy).written_count for strategy in STRATEGIES] == [0] * len(STRATEGIES)
            assert written(dreams) == before
        inputs = {each["key"]: each for each in dreams.listed() if each["key"] not in dreams.results()}
        while runs := dreams.runs():
            dreams.undo(runs[0]["run_id"])
        assert dreams.results() == states[0] == {}
        assert {each["key"]: each for each in dreams.listed()} == inputs
    finally:
        world.service.close()
