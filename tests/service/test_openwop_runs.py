"""Runs, their logs, forks of them, and workspace files: facts in order, repeated as they were, never made anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from memoranda.errors import Conflict, InvalidInput, NotFound, WorkflowError
from memoranda.service.openwop import runs as run_log
from memoranda.service.openwop.runs import EVENTS_LIMIT, TERMINAL, Run
from memoranda.standards.openwop.events import CONTENT_KEYS, MEMORY_TYPES, Event, check_payload
from memoranda.standards.openwop.runs import check_snapshot
from memoranda.standards.openwop.workspace import MAX_FILE_BYTES, MAX_FILES, MAX_VERSIONS, check_file
from tests.service.wop import REF, Wop
from tests.standards.openwop.logs import RECORDED_FACTS


@pytest.fixture
def wop() -> Iterator[Wop]:
    wop = Wop()
    yield wop
    wop.close()


def kinds(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


def facts(events: list[Event]) -> list[tuple[str, Any, str]]:
    return [
        (event["type"], event["payload"], event["timestamp"]) for event in events if event["type"] in RECORDED_FACTS
    ]


@pytest.mark.requirement("WOP-5-runs-paging")
@pytest.mark.parametrize("size", [1, 7, 100])
def test_pages_of_runs_lose_none_of_those_that_began_in_one_millisecond(wop: Wop, size: int) -> None:
    begun = []
    for number in range(150):
        begun.append(wop.begin().run_id)
        wop.advance(number % 40 == 0)
    found: list[Run] = []
    while page := wop.wop.runs(wop.owner, before=found[-1].cursor if found else None, limit=size):
        found += page
    assert sorted(run.run_id for run in found) == sorted(begun)
    assert [run.cursor for run in found] == sorted((run.cursor for run in found), reverse=True)


# --- logs ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-1.4-sequence")
def test_a_log_is_in_order_from_zero_and_ends_with_the_run(wop: Wop) -> None:
    run = wop.begin(tags=("nightly",), agent={"agentId": "acme.agent", "memoryRef": REF})
    wop.wop.emit(wop.owner, run.run_id, "node.started", {"step": 1}, node_id="n1")
    wop.advance(5)
    wop.write("something", run=run, node_id="n1")
    events, is_over = wop.wop.events(wop.owner, run.run_id)
    assert not is_over
    assert wop.wop.events(wop.owner, run.run_id, after=1)[0] == events[2:]
    done = wop.finish(run, variables={"answer": 42})
    log = wop.log(run)
    assert kinds(log) == ["run.started", "node.started", "memory.written", "run.completed"]
    assert [event["sequence"] for event in log] == [0, 1, 2, 3]
    assert log[:3] == events
    assert wop.wop.events(wop.owner, run.run_id)[1] is True
    snapshot = wop.wop.snapshot(wop.owner, run.run_id)
    assert check_snapshot(snapshot)["status"] == done.status == "completed"
    assert snapshot["variables"] == {"answer": 42}
    for late in (
        lambda: wop.wop.emit(wop.owner, run.run_id, "node.started", {}),
        lambda: wop.finish(run),
        lambda: wop.write("x", run=run),
        lambda: wop.wop.write_file(wop.owner, "A.md", "x", run_id=run.run_id),
        lambda: wop.wop.register_secret(wop.owner, run.run_id, "id", "a long secret"),
    ):
        with pytest.raises(Conflict):
            late()
    assert wop.log(run) == log


def test_a_run_ends_in_one_of_three_ways_only(wop: Wop) -> None:
    for status in ("running", "paused", "waiting-input", "dead_lettered", ""):
        run = wop.begin()
        with pytest.raises(InvalidInput, match="status"):
            wop.finish(run, status=status)
        assert wop.wop.run(wop.owner, run.run_id).status == "running"
    for status in TERMINAL:
        error = {"code": "boom", "message": "it broke"} if status == "failed" else None
        run = wop.begin()
        wop.finish(run, status=status, error=error)
        assert check_snapshot(wop.wop.snapshot(wop.owner, run.run_id))["status"] == status
        assert kinds(wop.log(run))[-1] == f"run.{status}"


def test_an_id_names_one_run_and_an_unknown_one_is_not_found(wop: Wop) -> None:
    run = wop.begin(run_id="host-run-1")
    with pytest.raises(Conflict):
        wop.begin(run_id="host-run-1")
    for ask in (wop.wop.run, wop.wop.snapshot, wop.wop.events):
        with pytest.raises(NotFound):
            ask(wop.owner, "run_unknown")
    wop.advance(1)
    later = wop.begin()
    assert [each.run_id for each in wop.wop.runs(wop.owner)] == [later.run_id, run.run_id]
    assert [each.run_id for each in wop.wop.runs(wop.owner, before=later.started)] == [run.run_id]


def test_what_reports_something_done_cannot_be_claimed(wop: Wop) -> None:
    run = wop.begin()
    for kind in (*MEMORY_TYPES, "run.started", "run.completed", "run.failed", "run.cancelled"):
        with pytest.raises(InvalidInput):
            wop.wop.emit(wop.owner, run.run_id, kind, {"memoryRef": REF, "memoryId": "mem_x"})
    for kind in ("core.thing", "openwop.thing", "memory.thing", "thing", ""):
        with pytest.raises(InvalidInput):
            wop.wop.emit(wop.owner, run.run_id, kind, {})
    with pytest.raises(InvalidInput, match="at most"):
        wop.wop.emit(wop.owner, run.run_id, "acme.thing", {"much": "x" * 70_000})
    assert kinds(wop.log(run)) == ["run.started"]


@pytest.mark.requirement("WOP-3-attribution")
def test_every_write_of_a_run_is_one_event_on_its_own_log(wop: Wop) -> None:
    run, other = wop.begin(), wop.begin()
    by_node = wop.write("Kumquats", "fruit", run=run, node_id="n1", agent_id="acme.agent")
    by_host = wop.write("A summary")
    at_end = wop.write("At the end", run=run)
    theirs = wop.write("Of the other", run=other)
    assert [event["payload"] for event in wop.log(run) if event["type"] == "memory.written"] == [
        {
            "memoryRef": REF,
            "memoryId": by_node["id"],
            "nodeId": "n1",
            "agentId": "acme.agent",
            "tags": ["fruit"],
        },
        {"memoryRef": REF, "memoryId": at_end["id"]},
    ]
    assert [event["payload"]["memoryId"] for event in wop.log(other) if event["type"] == "memory.written"] == [
        theirs["id"]
    ]
    assert wop.log(run)[1]["nodeId"] == "n1"
    assert by_host["id"] not in str(wop.all_logs())
    with pytest.raises(InvalidInput):
        wop.write("refused", "t" * 257, run=run)
    assert len(wop.log(run)) == 3


def test_every_event_obeys_its_rule_and_carries_no_content(wop: Wop) -> None:
    word = "kumquat"
    run = wop.begin()
    for text in (f"The {word} day is Monday.", f"The {word} day is Monday.", f"Remind me of {word} tomorrow at 9:00."):
        wop.write(text, run=run)
        wop.advance(1)
    wop.wop.infer_commitments(wop.owner, REF)
    wop.wop.consolidate(wop.owner, REF)
    wop.wop.distill(wop.owner, REF)
    wop.wop.compact(wop.owner, REF)
    wop.wop.write_file(wop.owner, "NOTES.md", f"about {word}")
    wop.wop.propose(
        wop.owner, "automation", {"workflowId": "core.report", "schedule": {"cron": "0 9 * * 1"}}, title=word
    )
    wop.advance(2 * 86_400_000)
    wop.wop.tick()
    events = wop.all_logs()
    seen = set(kinds(events))
    assert seen >= MEMORY_TYPES - {"proposal.activated"}
    for event in events:
        if event["type"] in MEMORY_TYPES:
            check_payload(event["type"], event["payload"], refuse_unknown=True)
        assert not CONTENT_KEYS.intersection(event["payload"])
    assert word not in str(events)


def test_a_long_log_is_read_page_by_page(wop: Wop) -> None:
    run = wop.begin()
    for n in range(EVENTS_LIMIT + 10):
        wop.wop.emit(wop.owner, run.run_id, "acme.step", {"n": n})
    wop.finish(run)
    first, is_over = wop.wop.events(wop.owner, run.run_id)
    assert (len(first), is_over) == (EVENTS_LIMIT, False)
    rest, is_over = wop.wop.events(wop.owner, run.run_id, after=first[-1]["sequence"])
    assert ([event["sequence"] for event in rest], is_over) == (list(range(EVENTS_LIMIT, EVENTS_LIMIT + 12)), True)
    fork = wop.wop.fork(wop.owner, run.run_id, mode="replay", from_seq=5)
    again, _ = wop.wop.events(wop.owner, fork.run_id)
    assert [event["payload"] for event in again[:-1]] == [event["payload"] for event in first[5:]] + [
        event["payload"] for event in rest[: len(again) - 1 - len(first[5:])]
    ]


# --- forks ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-replay-never-new")
@pytest.mark.requirement("WOP-3-consolidation-replay")
def test_a_replay_repeats_the_facts_with_their_ids_and_times_and_makes_nothing_new(wop: Wop) -> None:
    run = wop.begin()
    wop.write("one", run=run)
    wop.advance(10)
    wop.write("two", run=run)
    wop.finish(run, variables={"x": 1})
    source, entries = wop.log(run), wop.entries()
    wop.advance(10_000)
    usage, feed = _state(wop)
    fork = wop.wop.fork(wop.owner, run.run_id, mode="replay", from_seq=0)
    log = wop.log(fork)
    assert facts(log) == facts(source)
    assert [(event["type"], event["payload"], event["timestamp"]) for event in log] == [
        (event["type"], event["payload"], event["timestamp"]) for event in source
    ]
    assert {event["eventId"] for event in log}.isdisjoint(event["eventId"] for event in source)
    assert [event["causationId"] for event in log] == [event["eventId"] for event in source]
    assert wop.entries() == entries
    assert _state(wop) == (usage, feed)
    assert wop.entries(run=fork) == entries
    part = wop.wop.fork(wop.owner, run.run_id, mode="replay", from_seq=2)
    assert facts(wop.log(part)) == facts(source[2:])
    assert [event["sequence"] for event in wop.log(part)] == [0, 1]
    twice = wop.wop.fork(wop.owner, fork.run_id, mode="replay", from_seq=0)
    assert facts(wop.log(twice)) == facts(source)


@pytest.mark.requirement("WOP-3-replay-never-new")
def test_nothing_can_be_done_in_a_replay_even_of_a_run_that_goes_on(wop: Wop) -> None:
    run = wop.begin()
    wop.write("one", run=run)
    fork = wop.wop.fork(wop.owner, run.run_id, mode="replay", from_seq=0)
    for attempt in (
        lambda: wop.write("new", run=fork),
        lambda: wop.wop.emit(wop.owner, fork.run_id, "acme.thing", {}),
        lambda: wop.finish(fork),
        lambda: wop.wop.register_secret(wop.owner, fork.run_id, "id", "a long secret"),
    ):
        with pytest.raises(Conflict, match="replay"):
            attempt()
    wop.write("two", run=run)
    assert [fact[1]["memoryId"] for fact in facts(wop.log(fork))] == [
        fact[1]["memoryId"] for fact in facts(wop.log(run))
    ][:1]
    assert wop.contents() == ["two", "one"]


@pytest.mark.requirement("WOP-3-commitment-once")
def test_a_replay_of_what_fired_consolidated_or_distilled_does_none_of_it_again(wop: Wop) -> None:
    wop.write("Remind me to call Ann tomorrow at 9:00.")
    wop.write("Ada likes tea.")
    wop.write("Ada likes tea.")
    wop.wop.infer_commitments(wop.owner, REF)
    wop.wop.consolidate(wop.owner, REF)
    wop.wop.distill(wop.owner, REF)
    wop.advance(2 * 86_400_000)
    assert wop.wop.tick() == 1
    before, entries, files = wop.wop.runs(wop.owner), wop.entries(), wop.wop.files(wop.owner)
    commitments = wop.wop.commitments(wop.owner)
    usage, feed = _state(wop)
    for run in before:
        fork = wop.wop.fork(wop.owner, run.run_id, mode="replay", from_seq=0)
        assert facts(wop.log(fork)) == facts(wop.log(run))
    assert wop.wop.tick() == 0
    assert (wop.entries(), wop.wop.files(wop.owner), wop.wop.commitments(wop.owner)) == (entries, files, commitments)
    assert _state(wop) == (usage, feed)


def test_a_branch_keeps_what_was_before_and_goes_on_by_itself(wop: Wop) -> None:
    run = wop.begin()
    one = wop.write("one", run=run)
    wop.write("two", run=run)
    wop.finish(run, status="failed", error={"code": "boom", "message": "it broke"})
    source = wop.log(run)
    wop.advance(1)
    fork = wop.wop.fork(wop.owner, run.run_id, mode="branch", from_seq=2)
    assert fork.source_run_id == run.run_id
    assert facts(wop.log(fork)) == facts(source[:2])
    assert check_snapshot(wop.wop.snapshot(wop.owner, fork.run_id))["status"] == "running"
    mine = wop.write("of the branch", run=fork)
    wop.write("of others")
    assert set(wop.contents(run=fork)) == {"one", "two", "of the branch"}
    assert [fact[1]["memoryId"] for fact in facts(wop.log(fork))] == [one["id"], mine["id"]]
    wop.finish(fork)
    assert wop.log(run) == source


def test_a_fork_from_past_the_end_or_of_nothing_is_refused_in_this_order(wop: Wop) -> None:
    run = wop.begin()
    made = wop.write("one", run=run)
    wop.finish(run)
    count = len(wop.log(run))
    for bad in (
        {"mode": "rewind", "from_seq": 0},
        {"mode": "replay", "from_seq": -1},
        {"mode": "branch", "from_seq": True},
    ):
        with pytest.raises(InvalidInput):
            wop.wop.fork(wop.owner, run.run_id, **bad)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        wop.wop.fork(wop.owner, "run_unknown", mode="replay", from_seq=0)
    assert kinds(wop.log(wop.wop.fork(wop.owner, run.run_id, mode="replay", from_seq=count))) == []
    record = wop.recall("one")[0].record["id"]
    wop.forget(record, hard=True)
    assert wop.read(made["id"]) is None
    for mode, from_seq, code in (
        ("replay", count + 1, "invalid_from_seq"),
        ("replay", 0, "replay_memory_snapshot_unavailable"),
        ("branch", 1, "replay_memory_snapshot_unavailable"),
    ):
        with pytest.raises(WorkflowError) as refused:
            wop.wop.fork(wop.owner, run.run_id, mode=mode, from_seq=from_seq)
        assert refused.value.openwop_code == code
    assert refused.value.details["sourceRunId"] == run.run_id
    assert refused.value.details["reason"] == "retention_expired"


# --- workspace -----------------------------------------------------------------------------------------------


def test_every_write_of_a_file_is_a_version_that_can_be_read_and_is_logged(wop: Wop) -> None:
    first = wop.wop.write_file(wop.owner, "docs/A.md", "one")
    wop.advance(1)
    second = wop.wop.write_file(wop.owner, "docs/A.md", "two", if_match=first["etag"])
    assert [check_file(file) for file in (first, second)] == [first, second]
    assert (first["version"], second["version"]) == (1, 2)
    assert wop.wop.file(wop.owner, "docs/A.md") == second
    assert wop.wop.file(wop.owner, "docs/A.md", 1) == first
    wop.wop.write_file(wop.owner, "B.md", "x", content_type="text/plain")
    assert [file["path"] for file in wop.wop.files(wop.owner)] == ["B.md", "docs/A.md"]
    assert [file["path"] for file in wop.wop.files(wop.owner, "docs/")] == ["docs/A.md"]
    assert all("content" not in file for file in wop.wop.files(wop.owner))
    assert sorted((fact["path"], fact["version"]) for fact in wop.facts("workspace.updated")) == [
        ("B.md", 1),
        ("docs/A.md", 1),
        ("docs/A.md", 2),
    ]
    run = wop.begin()
    wop.wop.write_file(wop.owner, "B.md", "y", run_id=run.run_id)
    assert kinds(wop.log(run)) == ["run.started", "workspace.updated"]


def test_a_file_that_changed_meanwhile_is_a_conflict_and_removal_never_reuses_a_version(wop: Wop) -> None:
    first = wop.wop.write_file(wop.owner, "A.md", "one", if_none_match="*")
    for guards in ({"if_none_match": "*"}, {"if_match": '"9"'}):
        with pytest.raises(WorkflowError) as refused:
            wop.wop.write_file(wop.owner, "A.md", "other", **guards)
        assert refused.value.openwop_code == "workspace_conflict"
    with pytest.raises(WorkflowError):
        wop.wop.remove_file(wop.owner, "A.md", if_match='"9"')
    assert wop.wop.file(wop.owner, "A.md") == first
    assert len(wop.facts("workspace.updated")) == 1
    assert wop.wop.remove_file(wop.owner, "A.md", if_match=first["etag"]) is True
    assert wop.wop.remove_file(wop.owner, "A.md") is False
    for version in (None, 1):
        with pytest.raises(NotFound):
            wop.wop.file(wop.owner, "A.md", version)
    # The removal is a version of its own, and on record.
    assert {"path": "A.md", "version": 2} in wop.facts("workspace.updated")
    assert wop.wop.write_file(wop.owner, "A.md", "again")["version"] == 3


@pytest.mark.requirement("WOP-3-workspace-snapshot")
def test_a_run_sees_the_workspace_as_it_was_when_it_began(wop: Wop) -> None:
    first = wop.wop.write_file(wop.owner, "A.md", "one")
    run = wop.begin()
    # All in the millisecond in which it began.
    wop.wop.write_file(wop.owner, "A.md", "two")
    wop.wop.write_file(wop.owner, "A.md", "three", run_id=run.run_id)
    wop.wop.write_file(wop.owner, "B.md", "later")
    assert wop.wop.file(wop.owner, "A.md", run_id=run.run_id) == first
    assert [file["version"] for file in wop.wop.files(wop.owner, run_id=run.run_id)] == [1]
    for path, version in (("B.md", None), ("A.md", 2), ("A.md", 3)):
        with pytest.raises(NotFound):
            wop.wop.file(wop.owner, path, version, run_id=run.run_id)
    fork = wop.wop.fork(wop.owner, run.run_id, mode="replay", from_seq=0)
    assert wop.wop.file(wop.owner, "A.md", run_id=fork.run_id) == first
    following = wop.begin()
    assert wop.wop.file(wop.owner, "A.md", run_id=following.run_id)["content"] == "three"
    assert [file["path"] for file in wop.wop.files(wop.owner, run_id=following.run_id)] == ["A.md", "B.md"]


@pytest.mark.requirement("WOP-5-workspace-delete")
def test_removing_a_file_is_on_record(wop: Wop) -> None:
    wop.wop.write_file(wop.owner, "A.md", "one")
    run = wop.begin()
    wop.wop.remove_file(wop.owner, "A.md", run_id=run.run_id)
    assert kinds(wop.log(run)) == ["run.started", "workspace.updated"]
    wop.wop.write_file(wop.owner, "A.md", "two")
    wop.wop.remove_file(wop.owner, "A.md")
    found = sorted(fact["version"] for fact in wop.facts("workspace.updated"))
    assert found == [1, 2, 3, 4]


def test_files_have_limits(wop: Wop) -> None:
    for path in ("", "/a", "../a", "a/../b", "a//b", "a b", "x" * 257, "é"):
        with pytest.raises(InvalidInput, match="path"):
            wop.wop.write_file(wop.owner, path, "x")
        with pytest.raises(NotFound):
            wop.wop.file(wop.owner, path)
    with pytest.raises(WorkflowError) as refused:
        wop.wop.write_file(wop.owner, "A.md", "x" * (MAX_FILE_BYTES + 1))
    assert refused.value.openwop_code == "workspace_too_large"
    for n in range(MAX_VERSIONS + 3):
        wop.wop.write_file(wop.owner, "A.md", str(n))
    assert wop.wop.file(wop.owner, "A.md", 4)["content"] == "3"
    with pytest.raises(NotFound):
        wop.wop.file(wop.owner, "A.md", 3)
    assert wop.wop.discovery(is_attended=True)["workspace"]["maxFiles"] == MAX_FILES


def _state(wop: Wop) -> tuple[int, int]:
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        return snapshot.measure_usage()[0], snapshot.find_last_change()


def test_runs_and_their_logs_are_kept_as_long_as_the_setting_says(wop: Wop) -> None:
    day = 86_400_000
    old = [wop.begin() for _ in range(250)]
    for run in old[:200]:
        wop.finish(run)
    wop.write("Ann likes tea.", run=old[-1])
    wop.advance(10 * day)
    recent = wop.begin()
    assert run_log.keep_retention(wop.context) == 0
    assert run_log.keep_retention(replace(wop.context, run_retention_ms=5 * day)) == 250
    assert [each.run_id for each in wop.wop.runs(wop.owner)] == [recent.run_id]
    for gone in (old[0], old[-1]):
        with pytest.raises(NotFound):
            wop.log(gone)
    # The memory stays, and places are counted on.
    assert wop.contents() == ["Ann likes tea."]
    ((place, _),), end = wop.wop.all_events(wop.owner, after=0)
    assert place == end > 250
    wop.advance(10 * day)
    run_log.keep_retention(replace(wop.context, run_retention_ms=5 * day))
    assert wop.wop.all_events(wop.owner)[1] == end
    wop.begin()
    assert wop.wop.all_events(wop.owner)[1] == end + 1
