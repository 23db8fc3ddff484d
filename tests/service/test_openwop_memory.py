"""The MemoryAdapter over the one store: order, options, refs, what a run sees, ends, and whose memory it is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, MemorandaError, NotFound, TooLarge
from memoranda.model.instant import Instant, format_instant
from memoranda.service.openwop.runs import Run
from memoranda.standards.openwop import refs
from memoranda.standards.openwop.entry import MAX_CONTENT_BYTES, Draft, check_entry
from memoranda.standards.openwop.events import check_event
from memoranda.standards.openwop.problem import problem_of
from tests.embedders import letters
from tests.service.oams_verbs import Oams, namespace
from tests.service.wop import REF, Wop
from tests.standards.openwop.samples import ARTIFACTS

ANN, BOB = "did:example:ann", "did:example:bob"


@pytest.fixture
def wop() -> Iterator[Wop]:
    # As on a host that finds by meaning: what ranks by relevance is proved here, that others refuse it elsewhere.
    wop = Wop(meaning=letters())
    yield wop
    wop.close()


# --- list and get --------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-2-newest-first")
def test_the_newest_comes_first_and_of_one_instant_what_was_written_last(wop: Wop) -> None:
    wop.write("one")
    wop.advance(1)
    for text in ("two", "three", "four"):
        wop.write(text)
    wop.wop.put_entries(wop.owner, REF, [Draft(content=f"batch {n}") for n in range(5)])
    wop.advance(1)
    wop.write("last")
    batch = [f"batch {n}" for n in reversed(range(5))]
    assert wop.contents() == ["last", *batch, "four", "three", "two", "one"]
    assert wop.contents(limit=3) == ["last", "batch 4", "batch 3"]


@pytest.mark.requirement("WOP-2-get")
def test_get_answers_the_very_entry_that_list_shows_or_none(wop: Wop) -> None:
    made = wop.write("The gate must be green.", "release", "source:chat")
    assert check_entry(made) == made
    assert wop.entries() == [made]
    assert wop.read(made["id"]) == made
    for name in ("", "mem_unknown", "x" * 1501, made["id"].upper(), made["id"] + "\x00", None, 7, ["x"]):
        assert wop.read(name) is None
    assert wop.read(made["id"], ref="another") is None


@pytest.mark.requirement("WOP-1.1-created")
def test_ids_are_unique_and_an_entry_of_another_standard_keeps_its_id_and_its_creation(wop: Wop) -> None:
    made = [wop.write("the same words") for _ in range(50)]
    assert len({entry["id"] for entry in made}) == 50
    name = wop.remember("Ada likes tea", scope={"project": REF})
    first = next(entry for entry in wop.entries() if entry["id"] == name)
    wop.advance(5_000)
    wop.revise(name, body={"text": "Ada likes green tea"})
    later = next(entry for entry in wop.entries() if entry["id"] == name)
    assert later["content"] == "Ada likes green tea"
    assert later["createdAt"] == first["createdAt"]
    assert wop.read(name) == later
    assert len(wop.entries()) == 51


def test_what_was_revised_since_is_still_as_old_as_it_is(wop: Wop) -> None:
    oldest = wop.remember("Ada likes tea", scope={"project": REF})
    for n in range(4):
        wop.advance(1_000)
        wop.write(f"entry {n}")
    wop.advance(1_000)
    wop.revise(oldest, body={"text": "Ada likes green tea"})
    assert wop.contents(limit=2) == ["entry 3", "entry 2"]
    assert wop.contents() == ["entry 3", "entry 2", "entry 1", "entry 0", "Ada likes green tea"]


@pytest.mark.requirement("WOP-1.2-tag")
def test_a_tag_keeps_what_has_exactly_it(wop: Wop) -> None:
    wop.write("a", "red", "blue")
    wop.advance(1)
    wop.write("b", "Red")
    wop.advance(1)
    wop.write("c", "reddish")
    wop.advance(1)
    wop.write("d", "red", "source:chat")
    assert wop.contents(tag="red") == ["d", "a"]
    assert wop.contents(tag="Red") == ["b"]
    assert wop.contents(tag="red", limit=1) == ["d"]
    assert wop.contents(tag="source:chat") == ["d"]
    assert wop.contents(tag="green") == []


def test_a_rare_tag_is_found_behind_many_others(wop: Wop) -> None:
    wop.write("rare", "rare", "source:rare")
    wop.advance(1)
    wop.wop.put_entries(wop.owner, REF, [Draft(content=f"common {n}", tags=("common",)) for n in range(450)])
    assert wop.contents(tag="rare", limit=1) == ["rare"]
    assert wop.contents(tag="source:rare", limit=1) == ["rare"]
    assert len(wop.entries()) == 100
    assert len(wop.entries(limit=1000)) == 451


def test_a_budget_takes_whole_entries_and_omits_what_alone_is_over_it(wop: Wop) -> None:
    count = wop.context.cal.counter.count
    for text in ("oldest " * 4, "far over the budget " * 50, "newest"):
        wop.write(text)
        wop.advance(1)
    budget = count("newest") + count("oldest " * 4)
    assert wop.contents(tokenBudget=budget) == ["newest", "oldest " * 4]
    assert wop.contents(tokenBudget=budget - 1) == ["newest"]


def test_relevance_ranks_by_the_words_of_the_query(wop: Wop) -> None:
    wop.write("Deployments go out on Tuesdays after lunch.", "ops")
    wop.advance(1)
    wop.write("Lunch is at noon.")
    wop.advance(1)
    wop.write("Ann likes tea.")
    found = wop.contents(rank="relevance", query="when do deployments go out?")
    assert found[0] == "Deployments go out on Tuesdays after lunch."
    assert "Ann likes tea." not in found
    assert wop.contents(rank="relevance", query="lunch", tag="ops") == ["Deployments go out on Tuesdays after lunch."]
    assert wop.contents(rank="relevance", query="nothing of this") == []


@pytest.mark.requirement("WOP-2-unknown-ref")
@pytest.mark.parametrize(
    "ref",
    [
        "unknown",
        "",
        "x" * 257,
        "../" + REF,
        "a/../b",
        "..",
        "a\x00b",
        "a\nb",
        "a\\b",
        "\ud800",
        "%2E",
        None,
        7,
        [REF],
        {"$ref": REF},
    ],
)
def test_a_ref_that_is_unknown_or_malformed_answers_nothing_and_no_error(wop: Wop, ref: object) -> None:
    made = wop.write("something")
    run = wop.begin()
    for within in (None, run):
        assert wop.entries(ref=ref, run=within) == []
        assert wop.read(made["id"], ref=ref, run=within) is None
    assert wop.wop.delete_entry(wop.owner, ref, made["id"]) is False  # type: ignore[arg-type]


def test_a_ref_with_the_mark_of_another_tenant_leads_nowhere(wop: Wop) -> None:
    made = wop.write("mine")
    own, other = (refs.qualify_ref(REF, tenant) for tenant in (wop.owner.default_tenant, ANN))
    assert wop.entries(ref=own) == [made]
    assert wop.entries(ref=other) == []
    assert wop.read(made["id"], ref=other) is None
    with pytest.raises(InvalidInput, match="memoryRef"):
        wop.write("not mine", ref=other)


@pytest.mark.requirement("WOP-2-read-only")
def test_nodes_see_only_list_and_get(wop: Wop) -> None:
    made = wop.write("a", "x")
    memory = wop.wop.memory_of(wop.owner, wop.begin().run_id)
    assert {name for name in dir(memory) if not name.startswith("_")} == {"list", "get"}
    assert memory.list(REF) == memory.list(REF, {"tag": "x"}) == [memory.get(REF, made["id"])] == [made]
    assert memory.list(REF, {"tag": "y"}) == []
    with pytest.raises(InvalidInput):
        memory.list(REF, {"limits": 3})
    with pytest.raises(NotFound):
        wop.wop.memory_of(wop.owner, "run_unknown")


# --- put and delete ------------------------------------------------------------------------------------------


def test_a_past_end_is_refused_and_nothing_is_written(wop: Wop) -> None:
    fine = Draft(content="fine")
    for expires in (wop.now, wop.now - 1):
        with pytest.raises(InvalidInput, match="expiresAt"):
            wop.write("over", expires=expires)
        with pytest.raises(InvalidInput, match="expiresAt"):
            wop.wop.put_entries(wop.owner, REF, [fine, Draft(content="over", expires=Instant(expires))])
    assert wop.entries() == []
    assert wop.write("not yet", expires=wop.now + 1)["expiresAt"] == format_instant(wop.now + 1)


def test_an_entry_may_be_as_large_as_is_advertised_and_no_larger(wop: Wop) -> None:
    limit = wop.wop.discovery(is_attended=False)["memory"]["maxEntrySizeBytes"]
    assert limit == MAX_CONTENT_BYTES
    assert wop.write("é" * (limit // 2))["content"] == "é" * (limit // 2)
    with pytest.raises(TooLarge) as refused:
        wop.write("é" * (limit // 2) + "x")
    assert problem_of(refused.value)[1]["error"] == "validation_error"
    with pytest.raises(InvalidInput, match="tags"):
        wop.write("x", "t" * 257)
    assert len(wop.entries()) == 1


@pytest.mark.requirement("WOP-3-cti-errors")
def test_errors_carry_no_entry_data(wop: Wop) -> None:
    wop.write("Kumquat marmalade", "kumquat")
    run = wop.begin()
    attempts: list[Callable[[], object]] = [
        lambda: wop.write("Kumquat marmalade", expires=wop.now - 1),
        lambda: wop.write("Kumquat marmalade", ref="../x"),
        lambda: wop.write("Kumquat marmalade", run=wop.finish(run)),
        lambda: wop.write("Kumquat marmalade\ud800"),
        lambda: wop.write("x", "kumquat" * 60),
        lambda: wop.entries(rank="relevance"),
        lambda: wop.wop.memory_of(wop.owner, "run_none"),
        lambda: wop.wop.fork(wop.owner, run.run_id, mode="replay", from_seq=99),
        lambda: wop.wop.distill(wop.owner, REF, token_budget=1),
        lambda: wop.wop.undo_consolidation(wop.owner, "run_x"),
    ]
    for attempt in attempts:
        with pytest.raises(MemorandaError) as raised:
            attempt()
        told = f"{raised.value.message} {getattr(raised.value, 'details', '')} {problem_of(raised.value)}"
        assert "umquat" not in told


@pytest.mark.requirement("WOP-2-delete")
def test_delete_says_whether_there_was_one_and_leaves_running_runs_alone(wop: Wop) -> None:
    made, other = wop.write("goes"), wop.write("stays")
    run = wop.begin()
    assert wop.wop.delete_entry(wop.owner, REF, made["id"]) is True
    assert wop.wop.delete_entry(wop.owner, REF, made["id"]) is False
    assert wop.wop.delete_entry(wop.owner, REF, "mem_unknown") is False
    assert wop.wop.delete_entry(wop.owner, "another", other["id"]) is False
    assert wop.entries() == [other]
    assert wop.read(made["id"]) is None
    assert wop.entries(run=run) == [other, made]
    assert wop.read(made["id"], run=run) == made
    assert wop.contents(run=wop.begin()) == ["stays"]


@pytest.mark.requirement("WOP-3-forget")
def test_forget_takes_out_all_that_names_a_subject_here_and_leaves_the_logs_alone(wop: Wop) -> None:
    ann, bob = wop.key(ANN), wop.key(BOB)
    run = wop.begin(access=ann)
    for n in range(3):
        wop.write(f"about the customer {n}", "subject:c1", access=ann, run_id=run.run_id)
    wop.write("about another", "subject:c2", access=ann)
    wop.write("elsewhere", "subject:c1", access=ann, ref="other")
    wop.write("another's", "subject:c1", access=bob)
    before = wop.log(run, access=ann)
    assert wop.wop.forget(ann, REF, "c1") == 3
    assert wop.wop.forget(ann, REF, "c1") == 0
    assert wop.contents(access=ann) == ["about another"]
    assert wop.contents(access=ann, ref="other") == ["elsewhere"]
    assert wop.contents(access=bob) == ["another's"]
    assert wop.log(run, access=ann) == before


# --- what a run sees -----------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-2-snapshot")
@pytest.mark.requirement("WOP-2-snapshot-read")
@pytest.mark.parametrize("milliseconds", [0, 1])
def test_inside_a_run_the_store_is_as_it_was_when_it_began_and_what_the_run_wrote(wop: Wop, milliseconds: int) -> None:
    """Also in the millisecond in which it began."""
    kept, deleted = wop.write("kept"), wop.write("deleted")
    revised = wop.remember("first words", scope={"project": REF})
    wop.advance(milliseconds)
    run, other = wop.begin(), wop.begin()
    wop.advance(milliseconds)
    wop.revise(revised, body={"text": "second words"})
    wop.wop.delete_entry(wop.owner, REF, deleted["id"])
    wop.forget(wop.remember("came and went", scope={"project": REF}))
    others = wop.write("of another run", run=other)
    admins = wop.write("of an admin")
    own = wop.write("own", run=run)
    expected = {"kept", "first words", "deleted", "own"}
    assert set(wop.contents(run=run)) == expected
    assert wop.contents(run=run)[0] == "own"
    assert wop.contents(run=run, limit=1) == ["own"]
    assert set(wop.contents(run=other)) == (expected - {"own"}) | {"of another run"}
    assert set(wop.contents()) == {"kept", "second words", "of another run", "of an admin", "own"}
    for entry in (others, admins):
        assert wop.read(entry["id"], run=run) is None
    seen = [wop.read(name, run=run) for name in (kept["id"], revised, deleted["id"], own["id"])]
    assert [entry and entry["content"] for entry in seen] == ["kept", "first words", "deleted", "own"]
    wop.finish(run)
    assert set(wop.contents(run=wop.begin())) == set(wop.contents())


@pytest.mark.requirement("WOP-2-snapshot-read")
def test_what_was_forgotten_in_the_millisecond_before_a_run_began_is_not_seen_by_it(wop: Wop) -> None:
    gone = wop.write("gone")
    wop.wop.delete_entry(wop.owner, REF, gone["id"])
    replaced = wop.remember("first words", scope={"project": REF})
    wop.revise(replaced, body={"text": "second words"})
    run = wop.begin()
    assert wop.contents(run=run) == ["second words"]
    assert wop.read(gone["id"], run=run) is None


@pytest.mark.requirement("WOP-2-snapshot-read")
def test_ranking_by_relevance_sees_what_the_run_sees(wop: Wop) -> None:
    deleted = wop.write("Deployments go out on Tuesdays.")
    wop.write("Deployments are frozen in December.")
    run = wop.begin()
    wop.wop.delete_entry(wop.owner, REF, deleted["id"])
    wop.write("Deployments go out on Fridays.")
    wop.write("Deployments are mine.", run=run)
    found = wop.contents(run=run, rank="relevance", query="deployments go out")
    assert found[0] == "Deployments go out on Tuesdays."
    assert set(found[1:]) == {"Deployments are frozen in December.", "Deployments are mine."}


@pytest.mark.requirement("WOP-3-consolidation-replay")
def test_no_pass_changes_what_a_running_run_sees(wop: Wop) -> None:
    for text in ("The deploy day is Tuesday.", "The deploy day is Tuesday.", "Ada likes tea."):
        wop.write(text)
        wop.advance(1)
    run = wop.begin()
    before = wop.entries(run=run)
    assert wop.wop.consolidate(wop.owner, REF).taken
    assert wop.entries(run=run) == before
    wop.wop.compact(wop.owner, REF)
    assert wop.entries(run=run) == before
    assert [wop.read(entry["id"], run=run) for entry in before] == before
    assert len(wop.entries()) == 1


@pytest.mark.requirement("WOP-2-snapshot-read")
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_done_a_run_sees_what_a_copy_made_at_its_start_would_show(wop: Wop, seed: int) -> None:
    chance = random.Random(seed)
    copies: list[tuple[Run, list[str]]] = []
    names: list[str] = []
    for number in range(120):
        wop.advance(chance.choice((0, 0, 1)))
        act = chance.choice(("write", "write", "remember", "revise", "delete", "begin", "compact"))
        if act == "write":
            names.append(wop.write(f"entry {number}")["id"])
        elif act == "remember":
            names.append(wop.remember(f"record {number}", scope={"project": REF}))
        elif act == "revise" and names:
            records = [entry["id"] for entry in wop.entries() if entry["id"].startswith("urn:ump:")]
            if records:
                head = wop.service.history(wop.owner, chance.choice(records))[-1]["record"]["id"]  # type: ignore[index]
                wop.revise(head, body={"text": f"revised {number}"})
        elif act == "delete" and names:
            wop.wop.delete_entry(wop.owner, REF, chance.choice(names))
        elif act == "compact" and chance.random() < 0.2 and any(n.startswith("mem_") for n in names):
            if any(entry["id"].startswith("mem_") for entry in wop.entries()):
                wop.wop.compact(wop.owner, REF)
        elif act == "begin":
            copies.append((wop.begin(), wop.contents(limit=1000)))
    assert copies
    for run, copy in copies:
        assert sorted(wop.contents(run=run, limit=1000)) == sorted(copy)


def test_a_run_that_is_over_or_another_tenants_can_neither_write_nor_read(wop: Wop) -> None:
    run = wop.begin()
    wop.finish(run)
    with pytest.raises(Conflict):
        wop.write("too late", run=run)
    ann = wop.key(ANN)
    foreign = wop.begin(access=ann)
    with pytest.raises(NotFound):
        wop.write("not there", run=foreign)
    with pytest.raises(NotFound):
        wop.entries(run=foreign)
    assert wop.entries() == []


# --- ends ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-2-ttl")
@pytest.mark.requirement("WOP-2-ttl-read")
def test_an_end_counts_to_the_millisecond_on_every_path_of_every_standard(wop: Wop) -> None:
    made = wop.write("Kumquats end soon", "fruit", expires=wop.now + 1_000)
    run = wop.begin()
    wop.advance(999)
    assert wop.entries() == wop.entries(run=run) == wop.entries(tag="fruit") == [made]
    assert wop.contents(rank="relevance", query="kumquats") == ["Kumquats end soon"]
    assert wop.texts("kumquats") == ["Kumquats end soon"]
    wop.advance(1)
    for within in (None, run):
        assert wop.entries(run=within) == wop.entries(run=within, tag="fruit") == []
        assert wop.contents(run=within, rank="relevance", query="kumquats") == []
        assert wop.read(made["id"], run=within) is None
    assert wop.texts("kumquats") == []
    assert wop.grains(space=REF) == []
    oams = Oams(wop, namespace(wop.owner.default_tenant, REF))
    assert [memory["key"] for memory in oams.listed()] == []
    assert wop.wop.delete_entry(wop.owner, REF, made["id"]) is False
    with pytest.raises(InvalidInput, match="nothing to compact"):
        wop.wop.compact(wop.owner, REF)
    assert wop.service.purge() == 1
    assert wop.entries(run=run) == []


@pytest.mark.requirement("WOP-2-ttl-read")
def test_ends_of_other_standards_count_here(wop: Wop) -> None:
    run = wop.begin()
    wop.remember("a record that ends", scope={"project": REF}, consent={"retention": "PT1.5S"})
    within = wop.begin()
    wop.advance(1_499)
    (shown,) = wop.entries()
    assert shown["expiresAt"] == format_instant(wop.now + 1)
    assert wop.entries(run=within) == [shown]
    wop.advance(1)
    assert wop.entries() == wop.entries(run=within) == wop.entries(run=run) == []
    assert wop.read(shown["id"]) is None


@pytest.mark.requirement("WOP-2-ttl-read")
def test_no_pass_lets_anything_outlive_its_end(wop: Wop) -> None:
    wop.write("Quinces are ripe.", expires=wop.now + 10_000)
    wop.write("Quinces are ripe.")
    wop.advance(1)
    wop.write("Medlars are ripe too.", expires=wop.now + 10_000)
    wop.wop.consolidate(wop.owner, REF)
    wop.wop.compact(wop.owner, REF)
    archive = wop.wop.distill(wop.owner, REF)
    assert "Medlars" not in archive.entry["content"]
    wop.advance(10_001)
    told = " ".join(wop.contents())
    assert "Quinces" in told
    assert "Medlars" not in told


# --- one memory ----------------------------------------------------------------------------------------------


def test_what_was_written_through_any_standard_shows_under_the_ref_of_its_space(wop: Wop) -> None:
    oams = Oams(wop, namespace(wop.owner.default_tenant, "support"))
    wop.remember("A UMP record.", scope={"project": "support"})
    wop.advance(1)
    wop.put(namespace="support", subject="a grain", relation="is", object="a belief")
    wop.advance(1)
    oams.store("an oams key", "An OAMS memory.", tags=["colour"])
    wop.advance(1)
    wop.write("An entry.", ref="support")
    found = wop.entries(ref="support")
    assert len(found) == 4
    assert [check_entry(entry) for entry in found] == found
    assert found[0]["content"] == "An entry."
    assert found[1]["content"] == "An OAMS memory."
    assert (found[1]["id"], "colour" in found[1]["tags"]) == ("an oams key", True)
    assert found[3]["content"] == "A UMP record."
    assert [wop.read(entry["id"], ref="support") for entry in found] == found
    assert wop.entries() == wop.entries(ref="default") == []
    run = wop.begin()
    for entry in found[1:]:
        assert wop.wop.delete_entry(wop.owner, "support", entry["id"]) is True
    assert wop.contents(ref="support") == ["An entry."]
    assert wop.entries(ref="support", run=run) == found
    assert [memory["value"] for memory in oams.listed()] == ["An entry."]


def test_an_entry_shows_through_every_other_standard_and_is_forgotten_there(wop: Wop) -> None:
    oams = Oams(wop, namespace(wop.owner.default_tenant, "support"))
    made = wop.write("Ada is allergic to peanuts.", "health", ref="support")
    assert wop.texts("peanuts") == ["Ada is allergic to peanuts."]
    assert [memory["value"] for memory in oams.listed()] == ["Ada is allergic to peanuts."]
    assert oams.listed()[0]["tags"] == ["health"]
    (shown,) = wop.grains(space="support")
    assert "peanuts" in str(shown.grain.fields)
    assert [record["body"]["text"] for record in wop.service.export(wop.owner)] == ["Ada is allergic to peanuts."]
    (record,) = [found.record for found in wop.recall("peanuts")]
    wop.forget(record["id"])
    assert wop.entries(ref="support") == []
    assert wop.read(made["id"], ref="support") is None


def test_the_default_ref_is_the_space_without_a_name(wop: Wop) -> None:
    wop.remember("without a project")
    assert wop.contents(ref="default") == ["without a project"]
    wop.write("with none either", ref="default")
    assert set(wop.texts("without with none either project")) == {"without a project", "with none either"}


def test_two_memories_of_different_standards_never_share_an_id(wop: Wop) -> None:
    made = wop.write("the entry", ref="support")
    oams = Oams(wop, namespace(wop.owner.default_tenant, "support"))
    with suppress(MemorandaError):
        oams.store(made["id"], "an impostor")
    found = wop.entries(ref="support")
    assert len({entry["id"] for entry in found}) == len(found)
    assert [wop.read(entry["id"], ref="support") for entry in found] == found


# --- CTI-1 ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-cti")
@pytest.mark.requirement("WOP-3-workspace-tenant")
@pytest.mark.requirement("WOP-3-commitment-tenant")
@pytest.mark.requirement("WOP-5-tenant")
def test_two_tenants_with_the_same_ref_have_nothing_in_common_on_any_path(wop: Wop) -> None:
    ann, bob = wop.key(ANN), wop.key(BOB)
    own = wop.write("Remind me to water the orchids tomorrow at 9:00.", "orchids", access=ann)
    wop.write("The orchids are white.", access=ann)
    run = wop.begin(access=ann, run_id="the-same-id")
    mine = wop.begin(access=bob, run_id="the-same-id")
    wop.write("The orchids were moved.", access=ann, run_id=run.run_id)
    wop.wop.emit(ann, run.run_id, "acme.noted", {"what": "orchids"})
    wop.wop.infer_commitments(ann, REF)
    wop.wop.watch_commitments(ann, REF)
    wop.wop.schedule(ann, REF, "0 3 * * *")
    archive = wop.wop.distill(ann, REF)
    wop.wop.write_file(ann, "ORCHIDS.md", "orchids")
    commitment = wop.wop.commitments(ann)[0]
    proposal = wop.wop.propose(ann, "prompt-template", ARTIFACTS["prompt-template"], title="orchids")
    consolidated = wop.wop.consolidate(ann, REF)

    def told() -> str:
        seen = [
            wop.entries(access=bob),
            wop.entries(access=bob, run=mine),
            wop.entries(access=bob, rank="relevance", query="orchids"),
            wop.entries(access=bob, tag="orchids"),
            wop.wop.runs(bob),
            wop.all_logs(access=bob),
            wop.wop.files(bob),
            [each.document() for each in wop.wop.commitments(bob)],
            wop.wop.schedules(bob),
            wop.wop.proposals(bob),
            wop.wop.installed(bob),
            wop.wop.agents(bob),
            list(wop.service.export(bob)),
            wop.service.audit(bob, {}),
        ]
        return str(seen)

    assert "orchid" not in told()
    refusals: list[Callable[[], object]] = [
        lambda: wop.wop.file(bob, "ORCHIDS.md"),
        lambda: wop.wop.cancel_commitment(bob, commitment.commitment_id),
        lambda: wop.wop.fire_commitment(bob, commitment.commitment_id),
        lambda: wop.wop.proposal(bob, proposal["id"]),
        lambda: wop.wop.reject_proposal(bob, proposal["id"]),
        lambda: wop.wop.run(bob, archive.run.run_id),
        lambda: wop.wop.events(bob, archive.run.run_id),
        lambda: wop.wop.fork(bob, archive.run.run_id, mode="replay", from_seq=0),
        lambda: wop.wop.snapshot(bob, archive.run.run_id),
        lambda: wop.wop.undo_consolidation(bob, consolidated.run.run_id),
    ]
    for refusal in refusals:
        with pytest.raises(NotFound) as refused:
            refusal()
        assert "orchid" not in refused.value.message.lower()
    for name in (own["id"], archive.entry["id"]):
        assert wop.read(name, access=bob) is None
        assert wop.wop.delete_entry(bob, REF, name) is False
    assert wop.wop.unschedule(bob, REF) is False
    assert wop.wop.remove_file(bob, "ORCHIDS.md") is False
    assert wop.wop.infer_commitments(bob, REF) == []
    assert wop.wop.consolidate(bob, REF).event["payload"]["inputCount"] == 0
    with pytest.raises(InvalidInput, match="nothing to compact"):
        wop.wop.compact(bob, REF)
    wop.advance(2 * 86_400_000)
    assert wop.wop.tick() == 2
    assert wop.facts("commitment.fired", access=bob) == []
    (fired,) = wop.facts("commitment.fired", access=ann)
    assert fired["memoryId"] == own["id"]
    assert all(check_event(event) for event in wop.all_logs(access=ann))
    assert "orchid" not in told()


def test_a_peer_and_a_narrowed_credential_get_no_runs_and_only_their_part_of_memory(wop: Wop) -> None:
    wop.write("private words")
    gate = wop.service.gate
    scope = {"owner": wop.owner.default_tenant, "project": "other"}
    narrowed = gate.authenticate(gate.mint_token(verbs=("read", "write"), scope=scope, ttl_ms=60_000))
    assert wop.entries(access=narrowed) == []
    with pytest.raises(ForbiddenScope):
        wop.wop.runs(narrowed)
    with pytest.raises((ForbiddenScope, InvalidInput)):
        wop.write("x", access=narrowed)
    assert wop.write("in their part", access=narrowed, ref="other")["content"] == "in their part"
