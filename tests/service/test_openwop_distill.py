"""Compaction, distillation and consolidation: byte-stable, within their budget, on record, and to be undone."""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoranda.encoding import json_text
from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, NotFound, WorkflowError
from memoranda.model.instant import DAY_MS, Instant, format_instant, parse_instant
from memoranda.service.exchange.importing import number_items
from memoranda.service.openwop import schedule
from memoranda.service.openwop.distill import ARCHIVE_RETENTION_DAYS, MAX_TOKEN_BUDGET
from memoranda.service.openwop.workspace import INDEX_PATH
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.standards.openwop.entry import Draft
from tests.service.wop import REF, Wop
from tests.service.world import START
from tests.storage.contract import everything as all_versions

NIGHTLY = "0 3 * * *"
NOTES = (
    "The staging database runs on port 5432.",
    "Billing uses PostgreSQL and Redis.",
    "Deployments go out on Tuesdays after the review.",
    "Ann prefers short answers with examples.",
    "The release train leaves every second Thursday.",
    "Search latency must stay below 200 milliseconds.",
)


@pytest.fixture
def wop() -> Iterator[Wop]:
    wop = Wop()
    yield wop
    wop.close()


def fill(wop: Wop, *texts: str, ref: str = REF) -> list[str]:
    made = []
    for text in texts or NOTES:
        wop.advance(1_000)
        made.append(wop.write(text, ref=ref)["id"])
    return made


def everything(wop: Wop) -> tuple[Any, ...]:
    """All that a write could have changed; reads are put on record too, so not the audit log."""
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        counters = (snapshot.measure_usage()[0], snapshot.find_last_change(), snapshot.find_last_version())
    return (*counters, wop.entries(limit=1000), wop.wop.runs(wop.owner), wop.wop.files(wop.owner))


def refused_minimum(wop: Wop, budget: int) -> int:
    """What a refusal says is needed; the budget itself when it is enough."""
    try:
        wop.wop.distill(wop.owner, REF, token_budget=budget)
    except WorkflowError as error:
        return int(str(error.details["minimumRequired"]))
    return budget


# --- distillation --------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-distillation-archive")
def test_the_same_sources_and_budget_give_the_same_bytes_whenever_and_wherever(wop: Wop) -> None:
    fill(wop)
    first = wop.wop.distill(wop.owner, REF, token_budget=400)
    content = first.entry["content"]
    assert first.checksum == hashlib.sha256(content.encode()).hexdigest()
    assert first.event["payload"]["byteSize"] == len(content.encode())
    wop.advance(12_345_678)
    again = wop.wop.distill(wop.owner, REF, token_budget=400)
    assert (again.entry, again.checksum) == (first.entry, first.checksum)
    assert again.run.run_id != first.run.run_id
    assert wop.wop.distill(wop.owner, REF, token_budget=300).checksum != first.checksum
    wop.write("One thing more.")
    assert wop.wop.distill(wop.owner, REF, token_budget=400).checksum != first.checksum
    given = [wop.wop.distill(wop.owner, REF, given=NOTES, token_budget=400).checksum for _ in range(2)]
    other = Wop()
    assert {*given, other.wop.distill(other.owner, REF, given=NOTES, token_budget=400).checksum} == {given[0]}
    other.close()


def test_what_other_standards_wrote_is_distilled_too_and_takes_the_archive_along_when_it_goes(wop: Wop) -> None:
    space = {"project": "shop"}
    record = wop.remember("Ada keeps the spare key with the neighbours.", scope=space)
    grain = wop.put(subject="billing", relation="runs on", object="PostgreSQL", namespace="shop")
    namespace = str(wop.service.oams.namespace(wop.owner, "shop"))
    wop.service.oams.store(wop.owner, {"namespace": namespace, "key": "tea", "value": "Green tea, without sugar."})
    wop.write("Deployments go out on Tuesdays.", ref="shop")
    made = wop.wop.distill(wop.owner, "shop")
    assert made.event["payload"]["sourceCount"] == 4
    for said in ("spare key", "PostgreSQL", "Green tea", "Tuesdays"):
        assert said in made.entry["content"]
    assert {f"derived-from:{record}", f"derived-from:{grain}"} <= {*made.entry["tags"]}
    assert sum(tag.startswith("derived-from:") for tag in made.entry["tags"]) == 4
    assert wop.wop.distill(wop.owner, "shop").checksum == made.checksum
    goes: list[Any] = [
        lambda: wop.forget(record, hard=True),
        lambda: wop.service.grains.erase(wop.owner, grain, reason="asked"),
        lambda: wop.service.oams.forget(wop.owner, parse_namespace(namespace), "tea"),
    ]
    for go in goes:
        archive = wop.wop.distill(wop.owner, "shop").entry["id"]
        assert wop.wop.get_entry(wop.owner, "shop", archive) is not None
        go()
        assert wop.wop.get_entry(wop.owner, "shop", archive) is None
    assert "Tuesdays" in wop.wop.distill(wop.owner, "shop").entry["content"]


@pytest.mark.parametrize("standard", ["ump", "oms", "oams"])
def test_in_another_store_an_archive_goes_with_its_sources_too(wop: Wop, standard: str) -> None:
    names: dict[str, Any] = {
        "ump": wop.remember("Ada keeps the spare key with the neighbours.", scope={"project": "shop"}),
        "oms": wop.put(subject="billing", relation="runs on", object="PostgreSQL", namespace="shop"),
        "oams": parse_namespace(str(wop.service.oams.namespace(wop.owner, "shop"))),
    }
    tea = {"namespace": str(names["oams"]), "key": "green tea", "value": "Without sugar."}
    wop.service.oams.store(wop.owner, tea)
    made = wop.wop.distill(wop.owner, "shop").entry
    other = Wop()
    report = other.service.import_items(other.owner, number_items("ump", list(wop.service.export(wop.owner))))
    assert (report.created, report.refused) == (4, 0)
    assert other.wop.get_entry(other.owner, "shop", made["id"]) == made
    goes: dict[str, Any] = {
        "ump": lambda: other.forget(names["ump"]),
        "oms": lambda: other.service.grains.erase(other.owner, names["oms"], reason="asked"),
        "oams": lambda: other.service.oams.forget(other.owner, names["oams"], "green tea"),
    }
    goes[standard]()
    assert other.wop.get_entry(other.owner, "shop", made["id"]) is None
    other.close()


def test_an_archive_repeats_nothing_whose_rules_it_could_not_keep(wop: Wop) -> None:
    space = {"project": "shop"}
    wop.remember("Bo is allergic to nuts.", scope={**space, "user": "bo"})
    wop.remember("The salary is 90,000.", scope=space, consent={"exportable": False})
    wop.remember("The code is 4711.", scope=space, consent={"redact": ["body.text"]})
    wop.remember("This ends tomorrow.", scope=space, consent={"retention": "P1D"})
    wop.put(subject="cy", relation="has", object="asthma", namespace="shop", structural_tags=["phi:diagnosis"])
    opted = {"text": "Dee shops on Mondays.", "structured": {"con:ccpa_opted_out": True}}
    wop.remember("", body=opted, scope=space)
    wop.remember("Deployments go out on Tuesdays.", scope=space)
    made = wop.wop.distill(wop.owner, "shop")
    assert (made.event["payload"]["sourceCount"], "Tuesdays" in made.entry["content"]) == (1, True)


@pytest.mark.requirement("OURS-a-part-tells-nothing-of-the-rest")
@pytest.mark.parametrize("verb", ["distill", "compact", "consolidate", "infer_commitments"])
def test_a_pass_is_for_who_may_read_and_sees_the_whole_ref(wop: Wop, verb: str) -> None:
    wop.write("The vault code is in the blue book. Remind me every day at 8:00 to change it.")
    run = getattr(wop.wop, verb)
    for narrow in (wop.token("read", "write", agent="a1"), wop.token("write"), wop.token("read")):
        before = everything(wop)
        with pytest.raises(ForbiddenScope):
            run(narrow, REF)
        assert everything(wop) == before
    run(wop.token("read", "write", project=REF), REF)


@pytest.mark.requirement("WOP-3-distillation-archive")
def test_how_often_a_source_was_of_use_does_not_change_the_archive(wop: Wop) -> None:
    ids = fill(wop)
    count = wop.context.cal.counter.count
    # So little room that one statement more or less decides.
    budget = 2 * sum(count(text) for text in NOTES)
    first = wop.wop.distill(wop.owner, REF, token_budget=budget)
    assert sum(text in first.entry["content"] for text in NOTES) < len(NOTES)
    for name in ids:
        version = wop.named("openwop", name)
        for session in range(20):
            wop.engine.write(
                wop.owner.default_tenant,
                lambda unit, v=version, s=session: unit.add_feedback(v, "followed", f"s{s}", now=wop.now),  # type: ignore[misc]
            )
        assert wop.wop.distill(wop.owner, REF, token_budget=budget).checksum == first.checksum


@pytest.mark.requirement("WOP-3-distillation-archive")
@pytest.mark.requirement("WOP-3-distillation-retention")
def test_an_archive_is_an_entry_that_is_kept_as_long_as_is_advertised(wop: Wop) -> None:
    fill(wop)
    made = wop.wop.distill(wop.owner, REF).entry
    assert wop.read(made["id"]) == made
    assert made in wop.entries()
    assert wop.wop.discovery(is_attended=True)["memory"]["distillation"]["archiveRetention"] == (
        f"P{ARCHIVE_RETENTION_DAYS}D"
    )
    end = parse_instant(made["createdAt"]) + ARCHIVE_RETENTION_DAYS * DAY_MS
    assert made["expiresAt"] == format_instant(end)
    wop.now = Instant(end - 1)
    wop.service.purge()
    assert wop.read(made["id"]) == made
    wop.advance(1)
    assert wop.read(made["id"]) is None


@pytest.mark.requirement("WOP-3-distillation-archive", "WOP-RFC12-provenance")
def test_sources_stay_and_no_other_pass_touches_an_archive(wop: Wop) -> None:
    ids = fill(wop)
    done = wop.wop.distill(wop.owner, REF)
    made = done.entry
    assert {entry["id"] for entry in wop.entries()} == {*ids, made["id"]}
    assert made["tags"][1:] == [f"compacted-from:{done.run.run_id}", *(f"derived-from:{id_}" for id_ in ids)]
    wop.wop.consolidate(wop.owner, REF)
    wop.wop.compact(wop.owner, REF)
    assert wop.read(made["id"]) == made
    later = wop.wop.distill(wop.owner, REF)
    assert later.entry["id"] != made["id"]
    assert wop.read(made["id"]) == made


def test_the_budget_is_the_advertised_one_by_default_and_at_most(wop: Wop) -> None:
    fill(wop)
    advertised = wop.wop.discovery(is_attended=True)["memory"]["distillation"]["maxTokenBudget"]
    budgets = [
        wop.wop.distill(wop.owner, REF, token_budget=asked).event["payload"]["distillation"]["tokenBudget"]
        for asked in (None, 10**9, MAX_TOKEN_BUDGET, 500)
    ]
    assert budgets == [advertised, advertised, advertised, 500]
    for bad in (0, -1):
        with pytest.raises(InvalidInput, match="tokenBudget"):
            wop.wop.distill(wop.owner, REF, token_budget=bad)
        with pytest.raises(InvalidInput, match="tokenBudget"):
            wop.wop.schedule(wop.owner, REF, NIGHTLY, token_budget=bad)


@pytest.mark.requirement("WOP-3-distillation-tokens")
@pytest.mark.parametrize("budget", [120, 200, 500, 2_000, 16_000])
@pytest.mark.parametrize("sources", [0, 1, 6, 300])
def test_what_is_said_to_be_used_is_what_was_read_and_written(wop: Wop, budget: int, sources: int) -> None:
    count = wop.context.cal.counter.count
    texts = [f"Customer {n} asked about order {n * 7} on day {n}." for n in range(sources)]
    made = wop.wop.distill(wop.owner, REF, given=texts, token_budget=budget)
    told = made.event["payload"]["distillation"]
    read = sum(count(text) for text in texts)
    if made.event["payload"]["sourceCount"] < sources:
        read = sum(count(text) for text in texts[: made.event["payload"]["sourceCount"]])
    real = read + count(made.entry["content"])
    assert told["tokensUsed"] <= told["tokenBudget"]
    assert abs(told["tokensUsed"] - real) <= 0.1 * real


@pytest.mark.requirement("WOP-3-distillation-atomic")
def test_a_budget_that_cannot_be_met_writes_nothing(wop: Wop) -> None:
    fill(wop, "A single statement that is far too long for such a small budget of tokens. " * 3)
    before = everything(wop)
    asked: list[dict[str, Any]] = [{"token_budget": 1}, {"token_budget": 30}, {"token_budget": 1, "given": []}]
    for how in (*asked, {"given": ["x" * 70_000]}):
        with pytest.raises(WorkflowError) as refused:
            wop.wop.distill(wop.owner, REF, **how)
        assert refused.value.openwop_code == "token_budget_exceeded"
        budget, needed = (int(str(refused.value.details[name])) for name in ("budget", "minimumRequired"))
        assert needed > budget
    assert everything(wop) == before
    needed = refused_minimum(wop, 30)
    while needed < (more := refused_minimum(wop, needed)):
        needed = more
    assert needed < 200


@pytest.mark.requirement("WOP-3-distillation-index")
def test_the_index_is_a_workspace_file_that_leads_to_every_archive(wop: Wop) -> None:
    fill(wop)
    fill(wop, ref="other")
    first = wop.wop.distill(wop.owner, REF)
    assert [event["type"] for event in wop.log(first.run)] == [
        "run.started",
        "workspace.updated",
        "memory.compacted",
        "run.completed",
    ]
    wop.write("more")
    second, other = wop.wop.distill(wop.owner, REF), wop.wop.distill(wop.owner, "other")
    file = wop.wop.file(wop.owner, INDEX_PATH)
    assert (file["version"], file["contentType"]) == (3, "application/json")
    index = json_text.parse(file["content"].encode())["refs"]
    assert {each["id"] for each in index[REF]} == {first.entry["id"], second.entry["id"]}
    assert index["other"] == [
        {
            "id": other.entry["id"],
            "checksum": f"sha256:{other.checksum}",
            "createdAt": other.entry["createdAt"],
            "expiresAt": other.entry["expiresAt"],
        }
    ]
    for each in index[REF]:
        found = wop.read(each["id"])
        assert found is not None
        assert each["checksum"] == f"sha256:{hashlib.sha256(found['content'].encode()).hexdigest()}"
    assert {fact["version"] for fact in wop.facts("workspace.updated")} == {1, 2, 3}
    bare = wop.wop.distill(wop.owner, REF, is_indexed=False)
    assert bare.index is None
    assert bare.event["payload"]["distillation"]["indexUpdated"] is False
    assert wop.wop.file(wop.owner, INDEX_PATH) == file


@pytest.mark.requirement("WOP-3-distillation-index")
@pytest.mark.parametrize("how", ["openwop", "ump", "ump hard", "its source", "its source hard", "its end"])
def test_the_index_names_no_archive_that_is_gone(wop: Wop, how: str) -> None:
    source = wop.write("The first note says something of the garden.")
    first = wop.wop.distill(wop.owner, REF)
    wop.write("Another note", ref="other")
    other = wop.wop.distill(wop.owner, "other")
    if how == "openwop":
        assert wop.wop.delete_entry(wop.owner, REF, first.entry["id"])
    elif how == "its end":
        wop.advance((ARCHIVE_RETENTION_DAYS + 1) * 86_400_000)
        wop.service.purge()
    else:
        goes = source if how.startswith("its") else first.entry
        with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
            version = snapshot.find_by_name("openwop", goes["id"])
            assert version is not None
            name = snapshot.load_names(version.version_id)["ump"]
        wop.forget(name, hard=how.endswith("hard"), reason="asked")
    assert wop.read(first.entry["id"]) is None
    file = wop.wop.file(wop.owner, INDEX_PATH)
    refs = json_text.parse(file["content"].encode())["refs"]
    assert REF not in refs
    if how != "its end":
        assert [each["id"] for each in refs["other"]] == [other.entry["id"]]
    assert file["version"] > 2
    told = [fact["version"] for fact in wop.facts("workspace.updated")]
    assert sorted(told) == list(range(1, file["version"] + 1))
    if how.endswith("hard") or how == "its end":
        with pytest.raises(NotFound):
            wop.wop.file(wop.owner, INDEX_PATH, version=1)


@pytest.mark.parametrize("content", ["no JSON", "[]", '{"refs": []}', '{"refs": {"mem://support/agent-1": 3}}', "{}"])
def test_an_index_that_somebody_spoilt_is_made_anew(wop: Wop, content: str) -> None:
    fill(wop)
    wop.wop.write_file(wop.owner, INDEX_PATH, content)
    made = wop.wop.distill(wop.owner, REF)
    index = json_text.parse(wop.wop.file(wop.owner, INDEX_PATH)["content"].encode())["refs"]
    assert [each["id"] for each in index[REF]] == [made.entry["id"]]


def test_a_ref_of_another_shape_is_refused_by_every_pass(wop: Wop) -> None:
    for ref in ("../x", "a\x00b", "x" * 257, "memoranda://t-aaaaaaaaaaaaaaaaaaaa/x"):
        for act in (wop.wop.compact, wop.wop.distill, wop.wop.consolidate, wop.wop.infer_commitments):
            with pytest.raises(InvalidInput, match="memoryRef"):
                act(wop.owner, ref)
        with pytest.raises(InvalidInput, match="memoryRef"):
            wop.wop.schedule(wop.owner, ref, NIGHTLY)


# --- on a schedule -------------------------------------------------------------------------------------------


def distilled(wop: Wop) -> int:
    return len(wop.facts("memory.compacted"))


def test_a_schedule_distils_at_its_instants_and_makes_up_for_missed_ones_once(wop: Wop) -> None:
    fill(wop)
    told = wop.wop.schedule(wop.owner, REF, NIGHTLY, token_budget=500)
    assert told == {
        "memoryRef": REF,
        "cron": NIGHTLY,
        "timezone": "UTC",
        "tokenBudget": 500,
        "nextAt": "2026-06-05T03:00:00.000Z",
    }
    assert wop.wop.schedules(wop.owner) == [told]
    wop.now = Instant(parse_instant("2026-06-05T03:00:00.000Z") - 1)
    assert wop.wop.tick() == 0
    wop.advance(1)
    assert (wop.wop.tick(), wop.wop.tick(), distilled(wop)) == (1, 0, 1)
    assert wop.facts("memory.compacted")[0]["distillation"]["tokenBudget"] == 500
    wop.advance(5 * DAY_MS + 60_000)
    assert (wop.wop.tick(), wop.wop.tick(), distilled(wop)) == (1, 0, 2)
    assert wop.wop.schedules(wop.owner)[0]["nextAt"] == "2026-06-11T03:00:00.000Z"
    assert wop.wop.unschedule(wop.owner, REF) is True
    assert wop.wop.unschedule(wop.owner, REF) is False
    wop.advance(10 * DAY_MS)
    assert (wop.wop.tick(), distilled(wop)) == (0, 2)
    for cron in ("", "x", "* * * *", "61 * * * *", "0 3 * * * *"):
        with pytest.raises(InvalidInput):
            wop.wop.schedule(wop.owner, REF, cron)


def test_of_two_engines_on_one_file_one_distils(tmp_path: Path) -> None:
    one, two = Wop(path=tmp_path / "m.db"), Wop(path=tmp_path / "m.db")
    fill(one)
    one.wop.schedule(one.owner, REF, NIGHTLY)
    for day in range(1, 4):
        for wop in (one, two):
            wop.now = Instant(parse_instant(START) + day * DAY_MS)
        assert sorted((one.wop.tick(), two.wop.tick(), one.wop.tick(), two.wop.tick())) == [0, 0, 0, 1]
        assert distilled(one) == distilled(two) == day
    one.close()
    two.close()


def test_a_claim_that_another_process_made_in_between_is_respected(tmp_path: Path) -> None:
    """Both saw that it is due; then one after the other tries."""
    one, two = Wop(path=tmp_path / "m.db"), Wop(path=tmp_path / "m.db")
    fill(one)
    one.wop.schedule(one.owner, REF, NIGHTLY)
    tenant, now = one.owner.default_tenant, Instant(parse_instant(START) + DAY_MS)
    one.now = two.now = now
    with one.engine.open_snapshot(tenant) as snapshot:
        each = json_text.parse(snapshot.load_items(schedule.KIND)[REF])
    due = parse_instant("2026-06-05T03:00:00.000Z")
    done = [schedule._distil(wop.context, tenant, each, due, now) for wop in (one, two, one)]
    assert (done, distilled(one)) == ([True, False, False], 1)
    one.close()
    two.close()


def test_a_schedule_that_fails_waits_for_its_next_instant_and_keeps_nobody_waiting(
    wop: Wop, caplog: pytest.LogCaptureFixture
) -> None:
    fill(wop)
    fill(wop, ref="other")
    wop.wop.schedule(wop.owner, REF, NIGHTLY, token_budget=3)
    wop.wop.schedule(wop.owner, "other", NIGHTLY)
    wop.advance(DAY_MS)
    with caplog.at_level(logging.WARNING):
        assert [wop.wop.tick() for _ in range(3)] == [1, 0, 0]
    assert caplog.text.count("too small") == 1
    assert [fact["memoryRef"] for fact in wop.facts("memory.compacted")] == ["other"]
    assert wop.wop.schedules(wop.owner)[0]["nextAt"] > format_instant(wop.now)


# --- compaction ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-RFC12-provenance")
def test_a_compaction_puts_one_entry_in_the_place_of_its_sources_and_names_them(wop: Wop) -> None:
    ids = fill(wop)
    wop.write("held", ref="other")
    done = wop.wop.compact(wop.owner, REF)
    assert wop.entries() == [done.entry]
    assert wop.read(done.entry["id"]) == done.entry
    assert [wop.read(name) for name in ids] == [None] * len(ids)
    named = [tag for tag in done.entry["tags"] if tag.startswith(("compacted-from:", "derived-from:"))]
    assert named == [f"compacted-from:{done.run.run_id}", *(f"derived-from:{name}" for name in ids)]
    payload = done.event["payload"]
    assert payload == {
        "memoryRef": REF,
        "outputId": done.entry["id"],
        "sourceCount": len(ids),
        "sourceIds": ids,
        "trigger": "host-managed",
        "byteSize": len(done.entry["content"].encode()),
    }
    assert done.event in wop.log(done.run)
    assert wop.contents(ref="other") == ["held"]
    assert [event for event, _ in wop.events()].count("revised") == len(ids)
    again = wop.wop.compact(wop.owner, REF)
    assert again.event["payload"]["sourceIds"] == [done.entry["id"]]
    with pytest.raises(InvalidInput, match="nothing to compact"):
        wop.wop.compact(wop.owner, "nothing there")


def test_many_sources_are_counted_and_no_longer_listed(wop: Wop) -> None:
    fill(wop, *(f"Fact number {n} is about topic {n}." for n in range(120)))
    done = wop.wop.compact(wop.owner, REF)
    assert done.event["payload"]["sourceCount"] == 120
    assert "sourceIds" not in done.event["payload"]
    assert wop.entries(limit=1000) == [done.entry]


def test_a_compaction_keeps_every_statement_and_the_time_of_the_newest(wop: Wop) -> None:
    facts = [f"Customer {n} is served by branch {n % 7} in town {n}." for n in range(3_000)]
    wop.wop.put_entries(wop.owner, REF, [Draft(content=text) for text in facts])
    repeated = wop.write(facts[5])
    wop.advance(DAY_MS)
    made = wop.wop.compact(wop.owner, REF).entry
    assert made["content"].split("\n") == [f"- {text}" for text in (*facts[:5], *facts[6:], facts[5])]
    assert made["createdAt"] == repeated["createdAt"]


def test_a_compaction_can_be_undone(wop: Wop) -> None:
    fill(wop, *NOTES, "A list:\n1. one\n2. two", "12345")
    before = wop.entries()
    done = wop.wop.compact(wop.owner, REF)
    again = wop.wop.compact(wop.owner, REF)
    with pytest.raises(Conflict):
        wop.wop.undo_consolidation(wop.owner, done.run.run_id)
    assert wop.wop.undo_consolidation(wop.owner, again.run.run_id) == 1
    assert wop.entries() == [done.entry]
    assert wop.wop.undo_consolidation(wop.owner, done.run.run_id) == len(before)
    assert wop.entries() == before
    assert wop.read(done.entry["id"]) is None
    with pytest.raises(NotFound):
        wop.wop.undo_consolidation(wop.owner, done.run.run_id)


def test_what_is_on_legal_hold_is_replaced_by_no_pass(wop: Wop) -> None:
    kept = fill(wop, *NOTES, NOTES[0])
    address = wop.named("openwop", kept[0])
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        names = snapshot.load_names(address.version_id)
    wop.engine.write(wop.owner.default_tenant, lambda unit: unit.set_hold(address, on_hold=True))
    assert names
    wop.wop.consolidate(wop.owner, REF)
    wop.wop.compact(wop.owner, REF)
    assert wop.read(kept[0]) is not None
    assert len(wop.entries()) == 2


# --- consolidation -------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-consolidation")
def test_a_second_pass_over_an_unchanged_corpus_changes_nothing(wop: Wop) -> None:
    fill(wop, *NOTES, *NOTES, "The staging database runs on port 5433.", "Ann prefers short answers with examples!")
    first = wop.wop.consolidate(wop.owner, REF)
    counts = first.event["payload"]
    assert counts["inputCount"] == 14
    assert counts["outputCount"] == len(wop.entries()) < 14
    assert len(counts["mergedIds"]) == len(first.taken) == counts["inputCount"] - counts["outputCount"]
    before = everything(wop)
    second = wop.wop.consolidate(wop.owner, REF, trigger="scheduled")
    assert second.event["payload"] == {
        "memoryRef": REF,
        "inputCount": counts["outputCount"],
        "outputCount": counts["outputCount"],
        "trigger": "scheduled",
    }
    after = everything(wop)
    assert after[:4] == before[:4]
    assert second.taken == ()
    assert second.strengthened == {}
    assert [event["type"] for event in wop.log(second.run)] == [
        "run.started",
        "agent.memory.consolidated",
        "run.completed",
    ]


def test_what_was_taken_out_is_explained_and_stands_under_something_that_stays(wop: Wop) -> None:
    fill(wop, "Ada lives in Paris.", "Ada lives in Paris.", "Ada lives in Berlin.", "Ada lives in Rome.")
    done = wop.wop.consolidate(wop.owner, REF)
    assert wop.contents() == ["Ada lives in Rome."]
    left = {entry["id"] for entry in wop.entries()}
    assert {each["by"] for each in done.taken} == left
    assert {each["why"] for each in done.taken} == {"says the same", "overtaken by a later statement"}
    assert all(each["id"] not in left for each in done.taken)


def test_what_was_said_again_last_is_what_stays(wop: Wop) -> None:
    fill(wop, "Ada lives in Berlin.", "Ada lives in Paris.", "Ada lives in Berlin.")
    wop.wop.consolidate(wop.owner, REF)
    assert wop.contents() == ["Ada lives in Berlin."]


def test_what_is_listed_by_its_tags_is_not_hidden_behind_something_with_others(wop: Wop) -> None:
    texts = ("Ada lives in Paris.", "Ada lives in Paris.", "Ada lives in Rome.")
    for text, tag in zip(texts, ("work", "home", "friends"), strict=True):
        wop.write(text, tag, "urgent:no")
        wop.advance(1_000)
    assert wop.wop.consolidate(wop.owner, REF).taken == ()
    wop.write("Ada lives in Paris.", "work", "home", "urgent:no")
    taken = wop.wop.consolidate(wop.owner, REF).taken
    assert [each["why"] for each in taken] == ["says the same", "says the same"]
    for tag in ("work", "home", "friends", "urgent:no"):
        assert wop.contents(tag=tag) != [], tag
    wop.wop.compact(wop.owner, REF)
    for tag in ("work", "home", "friends"):
        assert wop.contents(tag=tag) != [], tag


@pytest.mark.parametrize("how", ["soft", "hard", "openwop", "oms"])
@pytest.mark.parametrize("act", ["consolidate", "compact", "consolidate twice"])
def test_what_stands_for_others_takes_them_along_when_it_is_forgotten(wop: Wop, act: str, how: str) -> None:
    fill(wop, "Ada lives in Paris.", "Ada lives in Paris.", "Ada lives in Rome.")
    for _ in act.split():
        (wop.wop.compact if act == "compact" else wop.wop.consolidate)(wop.owner, REF)
        if act.endswith("twice"):
            fill(wop, "Ada lives in Rome.")
    if act.endswith("twice"):
        wop.wop.consolidate(wop.owner, REF)
    (kept,) = wop.entries()
    version = wop.named("openwop", kept["id"])
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        names = snapshot.load_names(version.version_id)
    if how == "openwop":
        assert wop.wop.delete_entry(wop.owner, REF, kept["id"])
    elif how == "oms":
        wop.service.grains.erase(wop.owner, names["oms"], reason="asked")
    else:
        wop.forget(names["ump"], hard=how == "hard", reason="asked")
    assert wop.entries() == []
    assert wop.texts("Ada lives") == []
    assert list(wop.service.export(wop.owner)) == []
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        kept_still = [each for each in all_versions(snapshot) if not each.state.erased]
    natives = b"".join(each.document.native for each in kept_still)
    assert (b"Ada" in natives) == (how in ("soft", "openwop"))


def test_what_came_back_is_nobodys_any_more(wop: Wop) -> None:
    fill(wop, "Ada lives in Paris.", "Ada lives in Paris.")
    done = wop.wop.consolidate(wop.owner, REF)
    (kept,) = wop.entries()
    assert wop.wop.undo_consolidation(wop.owner, done.run.run_id) == 1
    assert wop.wop.delete_entry(wop.owner, REF, kept["id"])
    assert wop.contents() == ["Ada lives in Paris."]


def test_the_newer_of_two_is_never_taken_out_for_an_older(wop: Wop) -> None:
    _, newer = fill(wop, "Ann prefers short answers, always!", "Ann prefers short answers always")
    wop.wop.consolidate(wop.owner, REF)
    assert [entry["id"] for entry in wop.entries()] == [newer]
    for first, second in (
        ("Plan A is cheaper.", "Plan B is cheaper."),
        ("It goes from X to Y.", "It goes from Y to X."),
        ("Use C# there.", "Use C there."),
        ("He agreed.", "She agreed."),
    ):
        fill(wop, first, second, ref=first)
        assert wop.wop.consolidate(wop.owner, first).taken == ()


def test_corroboration_counts_and_a_contradiction_is_shown_to_somebody(wop: Wop) -> None:
    fill(wop, "Ann prefers tea.", "Ann prefers tea.", "Ann prefers tea.")
    done = wop.wop.consolidate(wop.owner, REF)
    (kept,) = wop.entries()
    assert done.strengthened == {kept["id"]: 2}
    assert wop.named("openwop", kept["id"]).state.followed == 2
    # Of one instant, neither is later.
    one, two = (wop.write(f"Ada lives in {city}.", ref="other")["id"] for city in ("Paris", "Rome"))
    disputed = wop.wop.consolidate(wop.owner, "other")
    assert {frozenset(pair) for pair in disputed.contradictions} == {frozenset((one, two))}
    assert all(wop.named("openwop", name).state.needs_review for name in (one, two))
    assert len(wop.entries(ref="other")) == 2


def test_undoing_a_pass_brings_back_exactly_what_it_took_out(wop: Wop) -> None:
    fill(wop, *NOTES, *NOTES)
    before = wop.entries()
    done = wop.wop.consolidate(wop.owner, REF)
    assert wop.wop.undo_consolidation(wop.owner, done.run.run_id) == len(done.taken) == 6
    assert wop.entries() == before
    assert wop.texts("staging database")[:2] == [NOTES[0], NOTES[0]]
    with pytest.raises(NotFound):
        wop.wop.undo_consolidation(wop.owner, done.run.run_id)
    again = wop.wop.consolidate(wop.owner, REF)
    forgotten = wop.named("openwop", again.taken[0]["id"])
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        name = snapshot.load_names(forgotten.version_id)["ump"]
    wop.forget(name, hard=True)
    # What was erased meanwhile does not come back.
    assert wop.wop.undo_consolidation(wop.owner, again.run.run_id) == 5
    assert [entry["id"] for entry in before if entry not in wop.entries()] == [again.taken[0]["id"]]


def test_a_pass_stays_within_its_ref(wop: Wop) -> None:
    fill(wop, NOTES[0])
    fill(wop, NOTES[0], ref="other")
    done = wop.wop.consolidate(wop.owner, REF)
    assert done.taken == ()
    assert wop.contents() == wop.contents(ref="other") == [NOTES[0]]


@pytest.mark.requirement("WOP-3-consolidation")
@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_there_a_second_pass_counts_the_same_and_undoing_restores_it(wop: Wop, seed: int) -> None:
    chance = random.Random(seed)
    people, cities, tools = ("Ann", "Bob", "Ada"), ("Paris", "Berlin", "Rome"), ("Redis", "Kafka", "Postgres")
    for _ in range(60):
        sentences = [
            chance.choice(
                (
                    f"{chance.choice(people)} lives in {chance.choice(cities)}.",
                    f"{chance.choice(people)} does not like {chance.choice(tools)}.",
                    f"{chance.choice(people)} likes {chance.choice(tools)}.",
                    f"The queue uses {chance.choice(tools)} in {chance.choice(cities)} for the team today.",
                    f"The queue uses {chance.choice(tools)} in {chance.choice(cities)} for the team.",
                    f"The {chance.choice(tools)} port is {chance.randrange(5)}.",
                )
            )
            for _ in range(chance.choice((1, 1, 1, 2)))
        ]
        wop.advance(chance.choice((0, 1_000)))
        wop.write(" ".join(sentences))
    before = wop.entries(limit=1000)
    first = wop.wop.consolidate(wop.owner, REF)
    left = wop.entries(limit=1000)
    second = wop.wop.consolidate(wop.owner, REF)
    assert first.event["payload"]["inputCount"] == 60
    assert first.event["payload"]["outputCount"] == len(left)
    assert second.event["payload"]["inputCount"] == second.event["payload"]["outputCount"] == len(left)
    assert wop.entries(limit=1000) == left
    assert wop.wop.undo_consolidation(wop.owner, first.run.run_id) == len(first.taken)
    assert wop.entries(limit=1000) == before


def test_archives_can_be_distilled_again_and_the_result_ends_with_the_first_of_them(wop: Wop) -> None:
    fill(wop)
    first = wop.wop.distill(wop.owner, REF).entry
    wop.advance(DAY_MS)
    wop.wop.put_entry(wop.owner, REF, Draft(content="The office moves to Lyon in May."))
    second = wop.wop.distill(wop.owner, REF).entry
    again = wop.wop.distill(wop.owner, REF, of_archives=True).entry
    assert {tag for tag in again["tags"] if tag.startswith("derived-from:")} == {
        f"derived-from:{each['id']}" for each in (first, second)
    }
    assert "Lyon" in again["content"]
    assert "port 5432" in again["content"]
    assert again["content"].count("# Distilled from") == 1
    assert again["expiresAt"] == first["expiresAt"]
