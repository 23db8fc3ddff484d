"""The change feed, the audit chain, and moving memories in and out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from memoranda.errors import Conflict, ForbiddenScope, InvalidInput
from memoranda.model.instant import Instant
from memoranda.service.core.audit import apply_retention
from memoranda.service.exchange.importing import BATCH_LIMIT, number_items
from memoranda.service.exchange.report import Report
from memoranda.standards.ump import signature
from memoranda.standards.ump.shapes import Record
from memoranda.standards.ump.signature import verify_chain
from tests.service.world import OPERATOR, PEER, World
from tests.waiting import HANG_SECONDS


@pytest.mark.requirement("UMP-3.8-subscribe")
def test_the_feed_tells_what_happened_in_order_and_resumes(world: World) -> None:
    first = world.remember("one")
    world.advance(1)
    second = world.revise(first, body={"text": "two"})
    world.forget(second)
    assert world.events() == [("created", first), ("revised", second), ("tombstoned", second)]
    assert world.events(after=2) == [("tombstoned", second)]
    assert world.service.feed_end(world.owner, {}) == 3


def test_the_feed_can_be_narrowed(world: World) -> None:
    world.remember("one", scope={"project": "p"})
    name = world.remember("two", scope={"project": "q"})
    assert world.events(project="q") == [("created", name)]
    assert world.service.changes(world.owner, {"project": "q"}, 0).next == 2


def test_another_owners_feed_is_closed(world: World) -> None:
    with pytest.raises(ForbiddenScope):
        world.events(access=world.key("ada"), owner=OPERATOR.did)


def test_the_bell_rings_when_something_was_written(world: World) -> None:
    rung = threading.Event()
    stop = world.service.notifier.listen(rung.set)
    world.remember("x")
    assert rung.wait(HANG_SECONDS)
    stop()


def test_every_operation_is_audited_reads_included(world: World) -> None:
    name = world.remember("apple")
    world.advance(1)
    world.recall("apple")
    world.get(name)
    second = world.revise(name, body={"text": "pear"})
    world.service.history(world.owner, name)
    world.feedback(second, "followed")
    world.service.feed_end(world.owner, {})
    list(world.service.export(world.owner))
    world.forget(second, reason="done")
    events = world.service.audit(world.owner, {})
    assert [event["op"] for event in events] == [
        "remember",
        "recall",
        "get",
        "revise",
        "history",
        "feedback",
        "subscribe",
        "export",
        "forget",
    ]
    assert [event["seq"] for event in events] == list(range(1, 10))
    assert verify_chain(events).ok
    report = world.service.audit_verify(world.owner)
    assert (report.ok, report.count) == (True, 9)


def test_the_audit_holds_no_content(world: World) -> None:
    world.remember("zanzibar", body={"text": "zanzibar", "structured": {"k": "quixotic"}})
    world.recall("zanzibar spice")
    text = orjson.dumps(world.service.audit(world.owner, {})).decode()
    assert not any(word in text for word in ("zanzibar", "quixotic", "spice"))


def test_audit_questions_filter(world: World) -> None:
    name = world.remember("apple", scope={"project": "p"})
    world.advance(1_000)
    world.get(name)

    def ask(**fields: object) -> list[str]:
        return [event["op"] for event in world.service.audit(world.owner, fields)]

    assert ask(op="get") == ["get"]
    assert ask(op=["get", "remember"]) == ["remember", "get"]
    assert ask(project="p", limit=1) == ["get"]
    assert ask(since="2026-06-04T10:00:01Z") == ["get"]
    assert ask(until="2026-06-04T10:00:00Z") == ["remember"]
    assert ask(target="urn:ump:none") == []
    assert ask(actor=OPERATOR.did) == ["remember", "get"]


@pytest.mark.parametrize("bad", [[], {"limit": 0}, {"limit": True}, {"since": "noon"}, {"who": "me"}, {"op": 3}])
def test_a_malformed_audit_question_is_refused(world: World, bad: Any) -> None:
    with pytest.raises(InvalidInput):
        world.service.audit(world.owner, bad)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            "UPDATE audit SET entry = CAST(replace(entry, 'remember', 'forgot??') AS BLOB) WHERE seq = 2",
            "hash mismatch",
        ),
        ("DELETE FROM audit WHERE seq = 2", "seq gap"),
        ("DELETE FROM audit WHERE seq = 3", "missing tail"),
        ("UPDATE audit SET entry = X'00' WHERE seq = 1", ""),
    ],
)
@pytest.mark.sqlite
def test_a_touched_audit_chain_is_noticed(world: World, change: str, reason: str) -> None:
    for number in range(3):
        world.remember(f"apple {number}")
    world.engine._database.write(lambda connection: connection.raw.execute(change))  # type: ignore[attr-defined]
    report = world.service.audit_verify(world.owner)
    assert not report.ok
    assert reason in (report.reason or "")
    assert not world.service.verify(world.owner).ok


def _pruned_world(world: World) -> None:
    for number in range(5):
        world.remember(f"apple {number}")
        world.advance(1)
    assert world.service.audit_prune(world.owner, Instant(world.now - 2)) == 3


@pytest.mark.requirement("OURS-audit-segments")
def test_a_pruned_audit_chain_still_verifies_and_takes_less_room(world: World) -> None:
    _pruned_world(world)
    events = world.service.audit(world.owner, {})
    assert [(event["seq"], event["op"]) for event in events] == [
        (4, "remember"),
        (5, "remember"),
        (6, "audit.prune"),
    ]
    report = world.service.audit_verify(world.owner)
    assert (report.ok, report.count, report.pruned) == (True, 3, 3)
    # Again, and everything; and it goes on as if nothing had been.
    assert world.service.audit_prune(world.owner, Instant(world.now + 10**9)) == 2
    world.remember("pear")
    report = world.service.audit_verify(world.owner)
    assert (report.ok, report.pruned) == (True, 5)
    assert world.service.verify(world.owner).ok


@pytest.mark.requirement("OURS-audit-segments")
@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM item WHERE kind = 'audit head'",
        "UPDATE item SET value = CAST(replace(value, '\"seq\":3', '\"seq\":4') AS BLOB) WHERE kind = 'audit head'",
        "DELETE FROM audit WHERE seq = 4",
        "DELETE FROM audit",
    ],
)
@pytest.mark.sqlite
def test_a_chain_that_somebody_else_cut_is_noticed_and_not_pruned_over(world: World, change: str) -> None:
    _pruned_world(world)
    world.engine._database.write(lambda connection: connection.raw.execute(change))  # type: ignore[attr-defined]
    assert not world.service.audit_verify(world.owner).ok
    if change != "DELETE FROM audit":
        with pytest.raises(Conflict):
            world.service.audit_prune(world.owner, Instant(world.now + 1))
    assert not world.service.audit_verify(world.owner).ok


@pytest.mark.requirement("OURS-audit-retention")
def test_the_audit_log_is_kept_as_long_as_the_setting_says() -> None:
    day = 86_400_000
    world = World()
    try:
        for _ in range(6):
            world.remember("apple")
            world.recall("apple")
            world.advance(day)
        context = replace(world.context, audit_retention_ms=2 * day)
        assert apply_retention(world.context) == 0
        assert apply_retention(context) == 8
        assert apply_retention(context) == 0
        with world.engine.open_snapshot(OPERATOR.did) as snapshot:
            kept = snapshot.list_audit_after(0, 100)
        # Two days, and that the others were pruned.
        assert len(kept) == 5
        assert world.service.audit_verify(world.owner).ok
    finally:
        world.service.close()


@pytest.mark.requirement("OURS-audit-segments")
def test_only_who_may_erase_prunes_the_audit_log(world: World) -> None:
    world.remember("apple")
    with pytest.raises(ForbiddenScope):
        world.service.audit_prune(world.key("ada"), Instant(world.now), OPERATOR.did)


def test_a_durable_audit_of_reads_is_there_at_once() -> None:
    world = World(audit_reads="durable")
    try:
        world.remember("apple")
        world.recall("apple")
        with world.engine.open_snapshot(OPERATOR.did) as snapshot:
            assert snapshot.read_audit_head()[0] == 2
    finally:
        world.service.close()


def test_reading_an_unknown_owner_makes_no_owner(world: World) -> None:
    world.recall("x", access=world.key("ada"), scope={"owner": "nobody"})
    world.engine.flush()
    assert "nobody" not in world.engine.system.list_tenants()


def test_what_is_exported_can_be_imported_elsewhere_unchanged(world: World) -> None:
    first = world.remember("apple one", scope={"project": "p"}, relations=[{"type": "about", "target": "entity:x"}])
    world.advance(1)
    world.revise(first, body={"text": "apple two"})
    world.remember("pear", consent={"retention": "P1D"})
    exported = list(world.service.export(world.owner))
    other = World()
    try:
        report = other.service.import_items(other.owner, number_items("ump", exported))
        assert (report.created, report.refused) == (3, 0)
        assert list(other.service.export(other.owner)) == exported
        assert all(signature.verify(record) for record in exported)
        other.advance(2)
        assert other.texts("apple")[0] == "apple two"
        assert len(other.service.history(other.owner, first)) == 2
        again = other.service.import_items(other.owner, number_items("ump", exported))
        assert (again.created, again.merged) == (0, 3)
    finally:
        other.service.close()


def test_a_later_export_brings_another_store_up_to_date(world: World) -> None:
    first = world.remember("lives in Rome")
    other = World()
    try:
        other.service.import_items(other.owner, number_items("ump", list(world.service.export(world.owner))))
        world.advance(10)
        world.remember("Lives in Rome")
        world.advance(10)
        second = world.revise(first, body={"text": "lives in Oslo"})
        exported = list(world.service.export(world.owner))
        other.advance(30)
        report = other.service.import_items(other.owner, number_items("ump", exported))
        assert (report.created, report.merged, report.refused) == (1, 1, 0)
        assert other.texts("lives") == ["lives in Oslo"]
        assert list(other.service.export(other.owner)) == exported
        assert other.get(first)["superseded_by"] == [second]
    finally:
        other.service.close()


def test_an_older_edition_does_not_reopen_what_was_closed(world: World) -> None:
    first = world.remember("lives in Rome")
    before = list(world.service.export(world.owner))
    world.advance(10)
    world.forget(first)
    report = world.service.import_items(world.owner, number_items("ump", before))
    assert (report.created, report.merged, report.forgotten) == (0, 0, 1)
    assert world.texts("Rome") == []


def test_nobody_else_can_change_a_record_by_signing_it_anew(world: World) -> None:
    name = world.remember("lives in Rome")
    forged: Record = {**world.get(name), "lifecycle": {"status": "tombstoned"}}
    report = world.service.import_items(world.owner, number_items("ump", [signature.sign(forged, PEER)]))
    assert [refusal.code for refusal in report.refusals] == ["invalid_record"]
    assert world.texts("Rome") == ["lives in Rome"]


def test_export_can_leave_history_and_other_projects_out(world: World) -> None:
    first = world.remember("old", scope={"project": "p"})
    world.advance(1)
    world.revise(first, body={"text": "new"})
    world.remember("other", scope={"project": "q"})
    texts = [r["body"]["text"] for r in world.service.export(world.owner, project="p", history=False)]
    assert texts == ["new"]


def test_what_was_forgotten_does_not_leave(world: World) -> None:
    world.forget(world.remember("gone"))
    assert list(world.service.export(world.owner)) == []


def test_an_import_goes_on_after_a_bad_record(world: World) -> None:
    drafts: list[object] = [{"kind": "semantic", "body": {"text": "good"}}, {"kind": "odd"}, 7, None]
    drafts += [{"kind": "semantic", "body": {"text": f"more {n}"}} for n in range(450)]
    seen: list[int] = []
    report = world.service.import_items(world.owner, number_items("ump", drafts), progress=seen.append)
    assert (report.created, report.refused) == (451, 3)
    assert [refusal.number for refusal in report.refusals] == [2, 3, 4]
    assert seen
    assert world.service.verify(world.owner).ok


def test_a_file_that_breaks_off_leaves_what_was_begun_and_that_is_counted(world: World) -> None:
    def breaking() -> Iterator[dict[str, Any]]:
        for number in range(2 * BATCH_LIMIT + 1):
            yield {"kind": "semantic", "body": {"text": f"note {number}"}}
        raise OSError("the disk is gone")

    report = Report()
    with pytest.raises(OSError, match="gone"):
        world.service.import_items(world.owner, number_items("ump", breaking()), report=report)
    assert report.created == 2 * BATCH_LIMIT
    assert len(list(world.service.export(world.owner))) == 2 * BATCH_LIMIT


def test_an_import_cannot_bring_records_of_another_owner(world: World) -> None:
    record = world.draft("theirs", scope={"owner": "bob"})
    report = world.service.import_items(world.key("ada"), number_items("ump", [record]))
    assert [(r.code, report.created) for r in report.refusals] == [("forbidden_scope", 0)]


@pytest.mark.requirement("UMP-2.6-import-provider")
def test_an_import_says_where_it_came_from(world: World) -> None:
    world.service.import_items(world.owner, number_items("ump", [{"kind": "semantic", "body": {"text": "apple"}}]))
    provenance = world.recall("apple")[0].record["provenance"]
    assert provenance["actor_kind"] == "import"
    assert provenance["source"] == {"provider": "file"}


@pytest.mark.requirement("UMP-3.1-capabilities")
def test_capabilities_touch_no_memory(world: World) -> None:
    before = world.engine.read_change_token()
    assert world.service.capabilities()["conformance"] == "L3"
    assert world.engine.read_change_token() == before
