"""Standing commitments: found once, armed beyond a restart, fired at most once, put off, called off, and lapsed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memoranda.errors import InvalidInput, NotFound
from memoranda.model.instant import DAY_MS, Instant, format_instant, parse_instant
from memoranda.service.openwop import commitments
from memoranda.service.openwop.commitments import Commitment
from memoranda.standards.openwop.events import check_payload
from tests.service.oams_verbs import Oams, namespace
from tests.service.wop import REF, Wop
from tests.service.world import START
from tests.waiting import HANG_SECONDS

TOMORROW = "Remind me to call Ann tomorrow at 9:00."
NINE = parse_instant("2026-06-05T09:00:00.000Z")
DAILY = "Remind me every day at 8:00 to water the orchids."
GREEN = "When the build is green, deploy the orchids."
FAILS = "Whenever the build fails, tell Ann."


@pytest.fixture
def wop() -> Iterator[Wop]:
    wop = Wop()
    yield wop
    wop.close()


def infer(wop: Wop, *texts: str) -> list[Commitment]:
    for text in texts:
        wop.write(text)
    return wop.wop.infer_commitments(wop.owner, REF)


def fired(wop: Wop) -> int:
    return len(wop.facts("commitment.fired"))


def states(wop: Wop) -> list[tuple[str, int]]:
    return [(each.state, each.fired) for each in wop.wop.commitments(wop.owner)]


# --- found ---------------------------------------------------------------------------------------------------


def test_what_a_memory_states_is_found_once_however_often_one_looks(wop: Wop) -> None:
    found = infer(wop, TOMORROW, "Ann likes tea.", GREEN, DAILY)
    assert [(each.condition, each.due, each.repeats) for each in found] == [
        ("time", parse_instant("2026-06-05T08:00:00.000Z"), True),
        ("time", NINE, False),
        ("predicate", None, False),
    ]
    for _ in range(3):
        wop.advance(1_000)
        assert wop.wop.infer_commitments(wop.owner, REF) == found
    assert wop.wop.commitments(wop.owner) == wop.wop.commitments(wop.owner, REF) == found
    assert wop.wop.commitments(wop.owner, "other") == []
    assert len({each.commitment_id for each in found}) == 3


def test_a_named_time_zone_is_used_and_an_unknown_one_reported(wop: Wop) -> None:
    paris, unknown = infer(
        wop,
        "Remind me to call Ann tomorrow at 17:30 Europe/Paris.",
        "Remind me to call Bob tomorrow at 17:30 Europe/Pariss.",
    )
    assert (paris.due, paris.is_zone_unknown) == (parse_instant("2026-06-05T15:30:00.000Z"), False)
    assert (unknown.due, unknown.is_zone_unknown) == (parse_instant("2026-06-05T17:30:00.000Z"), True)
    assert "zoneUnknown" not in paris.document()
    assert unknown.document()["zoneUnknown"] is True
    assert wop.wop.commitments(wop.owner) == [paris, unknown]
    assert Commitment.of(unknown.document()).is_zone_unknown
    wop.now = Instant(parse_instant("2026-06-05T15:30:00.000Z"))
    assert (wop.wop.tick(), fired(wop)) == (1, 1)
    # A time that a person gives instead is in no unknown zone.
    snoozed = wop.wop.snooze_commitment(wop.owner, unknown.commitment_id, parse_instant("2026-06-06T08:00:00Z"))
    assert not snoozed.is_zone_unknown
    assert snoozed.due is not None
    wop.now = Instant(snoozed.due)
    assert (wop.wop.tick(), fired(wop)) == (1, 2)


def test_memories_of_every_standard_are_read(wop: Wop) -> None:
    wop.remember(TOMORROW, scope={"project": "support"})
    wop.put(namespace="support", subject="ada", relation="says", object="Remind me to call Bob tomorrow at 10:00.")
    oams = Oams(wop, namespace(wop.owner.default_tenant, "support"))
    oams.store("k", "Remind me to call Eve tomorrow at 11:00.")
    found = wop.wop.infer_commitments(wop.owner, "support")
    assert "k" in {each.memory_id for each in found}
    assert len(found) >= 2
    wop.advance(2 * DAY_MS)
    assert wop.wop.tick() == len(found)


def test_what_is_kept_of_a_commitment_is_no_word_of_it(wop: Wop) -> None:
    found = infer(
        wop, "Remind me to buy kumquats tomorrow at 9:00.", "When the kumquat audit is finished, send the kumquats."
    )
    assert len(found) == 2
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        kept = b"".join(snapshot.list_commitments())
    assert b"umquat" not in kept
    assert "umquat" not in str([each.document() for each in found])


def test_archives_and_compactions_repeat_and_promise_nothing(wop: Wop) -> None:
    (first,) = infer(wop, TOMORROW, "Ada likes tea.")
    wop.wop.distill(wop.owner, REF)
    assert wop.wop.infer_commitments(wop.owner, REF) == [first]
    wop.advance(1_000)
    wop.wop.compact(wop.owner, REF)
    assert wop.wop.infer_commitments(wop.owner, REF) == [first]
    wop.now = Instant(NINE)
    # It was not forgotten: the words are in the entry that a pass put in its place.
    assert (wop.wop.tick(), fired(wop), states(wop)) == (1, 1, [("fired", 1)])


def test_a_watched_ref_is_looked_at_by_itself(wop: Wop) -> None:
    wop.wop.watch_commitments(wop.owner, REF)
    wop.write(TOMORROW)
    assert wop.wop.tick() == 0
    assert [each.due for each in wop.wop.commitments(wop.owner)] == [NINE]
    wop.wop.watch_commitments(wop.owner, REF, is_watched=False)
    wop.write("Remind me to call Bob tomorrow at 10:00.")
    assert wop.wop.tick() == 0
    assert len(wop.wop.commitments(wop.owner)) == 1
    with pytest.raises(InvalidInput, match="memoryRef"):
        wop.wop.watch_commitments(wop.owner, "../x")


# --- fired ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-commitment-once")
@pytest.mark.requirement("WOP-3-commitment-event")
def test_a_time_commitment_fires_at_its_instant_and_never_again(wop: Wop) -> None:
    (found,) = infer(wop, TOMORROW)
    wop.now = Instant(NINE - 1)
    assert wop.wop.tick() == 0
    wop.advance(1)
    assert (wop.wop.tick(), wop.wop.tick()) == (1, 0)
    wop.advance(30 * DAY_MS)
    wop.wop.infer_commitments(wop.owner, REF)
    assert (wop.wop.tick(), states(wop)) == (0, [("fired", 1)])
    (payload,) = wop.facts("commitment.fired")
    assert payload == {
        "commitmentId": found.commitment_id,
        "memoryRef": REF,
        "memoryId": found.memory_id,
        "condition": "time",
    }
    assert check_payload("commitment.fired", payload, refuse_unknown=True)


@pytest.mark.requirement("WOP-3-commitment-event")
def test_an_enqueued_run_is_named_on_the_event_and_tells_nothing(wop: Wop) -> None:
    (found,) = infer(wop, TOMORROW)
    wop.advance(2 * DAY_MS)
    (event,) = commitments.fire_due(wop.context, wop.owner.default_tenant, workflow_id="acme.follow-up")
    run = wop.wop.run(wop.owner, event["payload"]["enqueuedRunId"])
    assert (run.workflow_id, run.status, run.tenant) == ("acme.follow-up", "running", wop.owner.default_tenant)
    assert run.metadata == {"commitmentId": found.commitment_id}
    assert "Ann" not in str([event, wop.all_logs(), wop.service.audit(wop.owner, {})])


@pytest.mark.requirement("WOP-3-commitment-once")
def test_a_recurring_one_fires_once_for_each_instant_and_makes_up_for_missed_ones_once(wop: Wop) -> None:
    infer(wop, DAILY)
    eight = parse_instant("2026-06-05T08:00:00.000Z")
    for day in range(3):
        wop.now = Instant(eight + day * DAY_MS)
        assert [wop.wop.tick() for _ in range(3)] == [1, 0, 0]
    wop.advance(10 * DAY_MS + 3_600_000)
    assert [wop.wop.tick() for _ in range(3)] == [1, 0, 0]
    assert states(wop) == [("open", 4)]
    assert wop.wop.commitments(wop.owner)[0].due == eight + 13 * DAY_MS


@pytest.mark.requirement("WOP-3-commitment-once")
def test_a_predicate_fires_once_when_a_later_memory_of_the_same_ref_says_so(wop: Wop) -> None:
    wop.write("The build is green.")
    wop.advance(1_000)
    (found,) = infer(wop, GREEN)
    assert wop.wop.tick() == 0
    wop.advance(1_000)
    wop.write("The build is green.", ref="other")
    wop.write("The build is red.")
    wop.wop.distill(wop.owner, REF)
    assert wop.wop.tick() == 0
    wop.advance(1_000)
    wop.write("The build is green again.")
    assert [wop.wop.tick() for _ in range(3)] == [1, 0, 0]
    wop.advance(1_000)
    wop.write("The build is green.")
    assert (wop.wop.tick(), states(wop)) == (0, [("fired", 1)])
    assert wop.facts("commitment.fired")[0]["condition"] == "predicate"
    assert wop.facts("commitment.fired")[0]["commitmentId"] == found.commitment_id


@pytest.mark.requirement("WOP-3-commitment-once")
def test_a_repeating_predicate_fires_once_for_each_time_it_is_said(wop: Wop) -> None:
    infer(wop, FAILS)
    for number in range(1, 4):
        wop.advance(1_000)
        wop.write("The build failed.")
        assert [wop.wop.tick() for _ in range(3)] == [1, 0, 0]
        assert states(wop) == [("open", number)]


def test_what_is_met_first_lets_a_commitment_lapse(wop: Wop) -> None:
    infer(wop, "If Ann does not reply by Friday, call her.")
    wop.advance(60_000)
    wop.write("Ann replied.")
    wop.advance(30 * DAY_MS)
    assert (wop.wop.tick(), states(wop), fired(wop)) == (0, [("lapsed", 0)], 0)


def test_firing_by_hand_counts_as_firing(wop: Wop) -> None:
    (found,) = infer(wop, TOMORROW)
    with pytest.raises(InvalidInput, match="condition"):
        wop.wop.fire_commitment(wop.owner, found.commitment_id, condition="predicate")
    event, after = wop.wop.fire_commitment(wop.owner, found.commitment_id, condition="time")
    assert event is not None
    assert after.state == "fired"
    assert wop.wop.fire_commitment(wop.owner, found.commitment_id)[0] is None
    wop.advance(2 * DAY_MS)
    assert (wop.wop.tick(), fired(wop)) == (0, 1)
    with pytest.raises(NotFound):
        wop.wop.fire_commitment(wop.owner, "com_unknown")


# --- put off, called off, lapsed -----------------------------------------------------------------------------


def test_what_is_cancelled_does_not_fire(wop: Wop) -> None:
    for found in infer(wop, TOMORROW, DAILY, GREEN):
        assert wop.wop.cancel_commitment(wop.owner, found.commitment_id).state == "cancelled"
        with pytest.raises(InvalidInput, match="cancelled"):
            wop.wop.snooze_commitment(wop.owner, found.commitment_id, Instant(wop.now + 1))
        assert wop.wop.fire_commitment(wop.owner, found.commitment_id)[0] is None
    wop.advance(2 * DAY_MS)
    wop.write("The build is green.")
    wop.wop.infer_commitments(wop.owner, REF)
    assert (wop.wop.tick(), fired(wop)) == (0, 0)
    with pytest.raises(NotFound):
        wop.wop.cancel_commitment(wop.owner, "com_unknown")


def test_what_is_snoozed_fires_later_also_when_it_had_fired(wop: Wop) -> None:
    (found,) = infer(wop, TOMORROW)
    later = Instant(NINE + 3_600_000)
    for past in (wop.now, wop.now - 1):
        with pytest.raises(InvalidInput, match="future"):
            wop.wop.snooze_commitment(wop.owner, found.commitment_id, Instant(past))
    assert wop.wop.snooze_commitment(wop.owner, found.commitment_id, later).document()["dueAt"] == format_instant(later)
    wop.now = Instant(later - 1)
    assert wop.wop.tick() == 0
    wop.advance(1)
    assert [wop.wop.tick(), wop.wop.tick()] == [1, 0]
    again = Instant(later + 60_000)
    wop.wop.snooze_commitment(wop.owner, found.commitment_id, again)
    assert wop.wop.tick() == 0
    wop.now = again
    assert [wop.wop.tick(), wop.wop.tick()] == [1, 0]
    assert states(wop) == [("fired", 2)]


def test_a_predicate_that_is_snoozed_waits_too(wop: Wop) -> None:
    (found,) = infer(wop, GREEN)
    later = Instant(wop.now + 3_600_000)
    wop.wop.snooze_commitment(wop.owner, found.commitment_id, later)
    wop.advance(1_000)
    wop.write("The build is green.")
    assert wop.wop.tick() == 0
    wop.now = later
    assert [wop.wop.tick(), wop.wop.tick()] == [1, 0]


def test_what_is_forgotten_takes_its_commitments_with_it(wop: Wop) -> None:
    deleted, expiring = wop.write(TOMORROW), wop.write("Remind me to call Bob tomorrow at 9:00.", expires=NINE - 1)
    name = wop.remember("Remind me to call Eve tomorrow at 9:00.", scope={"project": REF})
    revised = wop.remember("Remind me to call Zoe tomorrow at 9:00.", scope={"project": REF})
    assert len(wop.wop.infer_commitments(wop.owner, REF)) == 4
    wop.wop.delete_entry(wop.owner, REF, deleted["id"])
    wop.forget(name, hard=True)
    wop.revise(revised, body={"text": "Zoe was called."})
    wop.advance(2 * DAY_MS)
    assert (wop.wop.tick(), fired(wop)) == (0, 0)
    assert states(wop) == [("lapsed", 0)] * 4
    assert expiring["id"] not in str(wop.all_logs())


def test_what_was_compacted_and_then_forgotten_lapses(wop: Wop) -> None:
    infer(wop, TOMORROW)
    wop.advance(1)
    made = wop.wop.compact(wop.owner, REF)
    wop.wop.delete_entry(wop.owner, REF, made.entry["id"])
    wop.advance(2 * DAY_MS)
    assert (wop.wop.tick(), states(wop)) == (0, [("lapsed", 0)])


# --- restarts and several processes --------------------------------------------------------------------------


def test_arms_survive_a_restart(tmp_path: Path) -> None:
    wop = Wop(path=tmp_path / "m.db")
    infer(wop, TOMORROW, DAILY, GREEN, FAILS)
    before = wop.wop.commitments(wop.owner)
    wop.close()
    wop = Wop(path=tmp_path / "m.db")
    assert wop.wop.commitments(wop.owner) == before
    wop.now = Instant(NINE)
    wop.write("The build is green.")
    assert wop.wop.tick() == 3
    wop.close()
    wop = Wop(path=tmp_path / "m.db")
    wop.now = Instant(NINE + 1_000)
    assert wop.wop.tick() == 0
    wop.write("The build failed.")
    assert (wop.wop.tick(), fired(wop)) == (1, 4)
    wop.close()


@pytest.mark.requirement("WOP-3-commitment-once")
def test_two_services_on_one_file_fire_each_once(tmp_path: Path) -> None:
    one, two = Wop(path=tmp_path / "m.db"), Wop(path=tmp_path / "m.db")
    texts = [f"Remind me to call customer {n} tomorrow at 9:{n:02d}." for n in range(20)]
    infer(one, *texts, DAILY, GREEN, FAILS)
    one.advance(1_000)
    one.write("The build failed. The build is green.")
    one.now = two.now = Instant(parse_instant(START) + DAY_MS)
    start = threading.Barrier(2)

    def fire(wop: Wop) -> int:
        start.wait(HANG_SECONDS)
        return sum(wop.wop.tick() for _ in range(5))

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(fire, (one, two))) == 23
    counts = [each.fired for each in one.wop.commitments(one.owner)]
    assert counts == [1] * 23
    assert fired(one) == 23
    one.close()
    two.close()


@pytest.mark.requirement("WOP-3-commitment-once")
@pytest.mark.parametrize("text", [TOMORROW, DAILY, GREEN, FAILS])
def test_two_processes_that_both_saw_it_due_fire_it_once(tmp_path: Path, text: str) -> None:
    """The moment between looking and firing, made long."""
    one, two = Wop(path=tmp_path / "m.db"), Wop(path=tmp_path / "m.db")
    (seen,) = infer(one, text)
    one.advance(1_000)
    one.write("The build failed. The build is green.")
    tenant, now = one.owner.default_tenant, Instant(NINE)
    one.now = two.now = now
    with one.engine.open_snapshot(tenant) as snapshot:
        judged = commitments._judge(one.context, snapshot, seen, now, snapshot.find_last_change())
    fires = [wop.engine.write(tenant, lambda unit: commitments.fire(unit, [judged], None)) for wop in (one, two, one)]
    assert [len(events) for events in fires] == [1, 0, 0]
    assert fired(one) == 1
    one.close()
    two.close()
