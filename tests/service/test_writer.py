"""The writer is never held: what passes over much, and much that is due, cost it for what they write.

Every test is measured (tests/conftest.py); these are those whose units were long when they read and thought inside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from memoranda.encoding.json_text import dump
from memoranda.errors import NotFound
from memoranda.model.instant import DAY_MS, format_instant
from memoranda.model.selection import Selection
from memoranda.service.exchange.importing import Item, number_items
from memoranda.service.exchange.report import Form
from memoranda.service.openwop import commitments
from memoranda.service.openwop.commitments import OVER_MS
from memoranda.standards.oms.grains import encode
from memoranda.standards.openwop.entry import Draft
from memoranda.storage.engine.contract import Unit
from tests.service.oams_verbs import Oams, namespace
from tests.service.wop import REF, Wop
from tests.writer_time import ALLOWED_MS_PER_1000_ROWS, SPREAD, Held, Probe

MANY = 2_000


@pytest.fixture
def wop() -> Iterator[Wop]:
    wop = Wop()
    yield wop
    wop.close()


def fill(wop: Wop, count: int = MANY, ref: str = REF) -> None:
    """Entries, every tenth of which says what one before it said."""
    numbers = [number - 5 if number % 10 == 9 else number for number in range(count)]
    drafts = [Draft(content=f"Server {number} of rack {number % 97} listens on port {number}.") for number in numbers]
    wop.wop.put_entries(wop.owner, ref, drafts)
    wop.advance(1)


def test_a_unit_that_holds_the_writer_for_longer_than_it_writes_is_told_of() -> None:
    assert Held(work=print, milliseconds=SPREAD * ALLOWED_MS_PER_1000_ROWS + 1, rows=0).is_slow()
    assert not Held(work=print, milliseconds=ALLOWED_MS_PER_1000_ROWS, rows=1_000).is_slow()
    assert Held(work=print, milliseconds=2 * SPREAD * ALLOWED_MS_PER_1000_ROWS + 1, rows=2_000).is_slow()
    assert not Held(work=print, milliseconds=2 * ALLOWED_MS_PER_1000_ROWS, rows=2_000).is_slow()


def test_what_is_slow_only_the_first_time_is_run_again_and_not_told_of(probe: Probe) -> None:
    wop, times = Wop(), [0]

    def work(unit: Unit) -> int:
        times[0] += 1
        unit.put_item("kind", str(times[0]), b"")
        return sum(len(unit.load_items(str(n))) for n in range(40_000 if times[0] == 1 else 1))

    wop.engine.write(wop.owner.default_tenant, work)
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        assert (times, snapshot.load_items("kind"), probe.slow) == ([2], {"2": b""}, [])
    wop.close()


def test_whoever_thinks_in_the_writer_is_found_out(probe: Probe) -> None:
    wop = Wop()
    wop.engine.write(wop.owner.default_tenant, lambda unit: sum(len(unit.load_items(str(n))) for n in range(40_000)))
    wop.close()
    assert [held.rows for held in probe.slow] == [2]
    probe.slow.clear()


def test_many_entries_are_consolidated_brought_back_and_compacted(wop: Wop) -> None:
    fill(wop)
    done = wop.wop.consolidate(wop.owner, REF)
    assert len(done.taken) >= MANY // 10
    assert wop.wop.undo_consolidation(wop.owner, done.run.run_id) == len(done.taken)
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        assert snapshot.measure_usage()[0] == MANY
    wop.wop.distill(wop.owner, REF)
    made = wop.wop.compact(wop.owner, REF)
    assert made.event["payload"]["sourceCount"] == MANY
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        assert snapshot.measure_usage()[0] == 2


def test_a_thousand_commitments_are_armed_and_fire(wop: Wop) -> None:
    said = [Draft(content=f"Remind me to call customer {number} tomorrow at 9:00.") for number in range(1_000)]
    wop.wop.put_entries(wop.owner, REF, said)
    assert len(wop.wop.infer_commitments(wop.owner, REF)) == 1_000
    wop.advance(2 * DAY_MS)
    assert (wop.wop.tick(), wop.wop.tick()) == (1_000, 0)
    assert {each.state for each in wop.wop.commitments(wop.owner)} == {"fired"}


def test_a_watched_ref_is_read_once_and_then_only_where_it_changed(wop: Wop) -> None:
    fill(wop)
    wop.wop.watch_commitments(wop.owner, REF)
    wop.wop.tick()
    wop.write("When the audit is finished, send the invoice.")
    wop.wop.tick()
    (waiting,) = wop.wop.commitments(wop.owner)
    wop.advance(1_000)
    wop.write("The audit is finished.", ref="other")
    assert wop.wop.tick() == 0
    wop.write("The audit is finished.")
    assert (wop.wop.tick(), wop.wop.tick()) == (1, 0)
    assert wop.facts("commitment.fired")[0]["commitmentId"] == waiting.commitment_id


def test_what_is_over_is_deleted_after_a_while_and_never_armed_again(wop: Wop) -> None:
    wop.write("Remind me to call Ann tomorrow at 9:00.")
    wop.write("When the build is green, deploy the orchids.")
    timed, waiting = wop.wop.infer_commitments(wop.owner, REF)
    wop.wop.cancel_commitment(wop.owner, waiting.commitment_id)
    wop.advance(2 * DAY_MS)
    assert wop.wop.tick() == 1
    wop.advance(OVER_MS)
    commitments.prune(wop.context, wop.owner.default_tenant)
    assert [each.commitment_id for each in wop.wop.commitments(wop.owner)] == [timed.commitment_id]
    wop.advance(3 * DAY_MS)
    commitments.prune(wop.context, wop.owner.default_tenant)
    assert wop.wop.infer_commitments(wop.owner, REF) == []
    wop.write("The build is green.")
    assert wop.wop.tick() == 0
    with pytest.raises(NotFound):
        wop.wop.cancel_commitment(wop.owner, timed.commitment_id)


def test_what_changed_between_reading_and_writing_is_read_again(wop: Wop) -> None:
    """Somebody else forgets an entry at the very moment before the pass writes."""
    fill(wop, 40)
    engine, victim = wop.engine, wop.entries(limit=1)[0]["id"]
    real = engine.write
    others: list[threading.Thread] = []

    def write(tenant, work):  # type: ignore[no-untyped-def]
        if not others and "compact" in work.__qualname__:
            others.append(threading.current_thread())
            wop.wop.delete_entry(wop.owner, REF, victim)
        return real(tenant, work)

    engine.write = write  # type: ignore[method-assign]
    done = wop.wop.compact(wop.owner, REF)
    assert others
    assert done.event["payload"]["sourceCount"] == 39
    assert victim not in done.event["payload"]["sourceIds"]


def test_what_is_put_on_hold_meanwhile_is_never_replaced(wop: Wop) -> None:
    fill(wop, 20)
    version = wop.named("openwop", wop.entries(limit=1)[0]["id"])
    real = wop.engine.write

    def write(tenant, work):  # type: ignore[no-untyped-def]
        if "compact" in work.__qualname__:
            real(tenant, lambda unit: unit.set_hold(version, on_hold=True))
        return real(tenant, work)

    wop.engine.write = write  # type: ignore[method-assign]
    done = wop.wop.compact(wop.owner, REF)
    assert done.event["payload"]["sourceCount"] == 19
    assert wop.read(version.document.name) is not None


def test_a_run_sees_its_own_writes_and_none_of_many_by_others(wop: Wop) -> None:
    before = wop.write("before")
    wop.advance(1)
    run = wop.begin()
    wop.advance(1)
    for number in range(200):
        wop.write(f"own {number}", run=run)
    fill(wop, 1_000)
    wop.wop.delete_entry(wop.owner, REF, before["id"])
    seen = wop.contents(run=run, limit=1000)
    assert seen == [*(f"own {number}" for number in reversed(range(200))), "before"]
    replay = wop.wop.fork(wop.owner, run.run_id, mode="replay", from_seq=0)
    assert wop.contents(run=replay, limit=1000) == seen


def test_a_file_is_read_without_the_others(wop: Wop) -> None:
    for number in range(20):
        wop.wop.write_file(wop.owner, f"large-{number}.md", "x" * 500_000)
    wop.wop.write_file(wop.owner, "small.md", "four")
    assert wop.wop.file(wop.owner, "small.md")["content"] == "four"
    assert len(wop.wop.files(wop.owner)) == 21
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        assert max(len(head) for head in snapshot.load_items("workspace").values()) < 1_000
    assert wop.wop.remove_file(wop.owner, "large-0.md")
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        assert snapshot.load_items("workspace versions of large-0.md") == {}


def test_large_memories_and_large_batches_are_read_before_they_are_written(wop: Wop) -> None:
    text = " ".join(f"word{number}" for number in range(5_000))
    oams = Oams(wop, namespace(wop.owner.default_tenant, "large"))
    oams.store("k", text)
    wop.remember(text)
    wop.write(text[:50_000])
    wop.put(object=text)
    batch = [oams.memory(f"key {number}") for number in range(2_000)]
    assert {stored.result for stored in oams.batch(batch)} == {"created"}
    assert {stored.result for stored in oams.batch(batch)} == {"unchanged"}
    wop.forget(wop.recall("word4999 word7")[0].record["id"], hard=True)


def test_what_is_written_can_be_asked_for_at_once_and_no_reader_writes(wop: Wop) -> None:
    fill(wop, 50)
    wop.remember("Ada likes tea.")
    wop.put(object="green")
    Oams(wop, namespace(wop.owner.default_tenant, "here")).store("k", "A memory.")
    written: list[str] = []
    real = wop.engine.write

    def write(tenant, work):  # type: ignore[no-untyped-def]
        written.append(work.__qualname__)
        return real(tenant, work)

    wop.engine.write = write  # type: ignore[method-assign]
    found = wop.service.cal.run(wop.owner, "RECALL beliefs LIMIT 100", namespace=REF)
    assert len(found["results"]) == 50
    for name in {each["content_address"] for each in found["results"]}:
        assert wop.service.grains.get(wop.owner, name.removeprefix("sha256:")).address
    assert len(list(wop.service.grains.export(wop.owner))) == 53
    for record in wop.service.export(wop.owner):
        wop.service.get(wop.owner, record["id"])
    assert written == []


def test_ten_thousand_memories_are_imported_revised_and_erased(wop: Wop) -> None:
    oams = Oams(wop, namespace(wop.owner.default_tenant, "many"))
    many = [oams.complete(f"key {number}", f"Server {number} uses port {number}.") for number in range(10_000)]
    items = [Item(form="oams", number=number, raw=dump(each), value=each) for number, each in enumerate(many)]
    assert wop.service.import_items(wop.owner, items).created == 10_000
    wop.advance(1)
    again = [{**each, "value": f"{each['value']} It moved.", "updated_at": format_instant(wop.now)} for each in many]
    items = [Item(form="oams", number=number, raw=dump(each), value=each) for number, each in enumerate(again[:3_000])]
    assert wop.service.import_items(wop.owner, items).updated == 3_000
    person = [oams.memory(f"of anna {number}", f"Anna said {number}.") for number in range(1_000)]
    hers = Oams(wop, "user-abc123:many")
    oams.batch([{**each, "namespace": hers.namespace} for each in person])
    assert wop.service.grains.erase_user(wop.owner, "user-abc123", reason="asked").erased == 1_000
    oams.forget("key 1")


def test_what_a_file_repeats_or_tells_once_more_is_compared_before_it_is_written(wop: Wop, probe: Probe) -> None:
    drafts = [{"kind": "semantic", "body": {"text": f"Server {n} uses port {n}."}} for n in range(1_000)]
    assert wop.service.import_items(wop.owner, number_items("ump", drafts)).created == 1_000
    said = {
        "type": "belief",
        "subject": "server",
        "relation": "uses",
        "confidence": 0.5,
        "created_at": 1_768_471_200_000,
    }
    grains = [encode({**said, "object": f"port {n}"}).blob for n in range(1_000)]
    assert wop.service.import_items(wop.owner, number_items("oms", grains)).created == 1_000
    wop.advance(1)
    assert wop.service.import_items(wop.owner, number_items("ump", drafts)).merged == 1_000
    forms: tuple[tuple[Form, list[object]], ...] = (
        ("ump", list(wop.service.export(wop.owner))),
        ("oms", [grain for grain, _ in wop.service.grains.export(wop.owner)]),
        ("oams", [memory for _, memory in wop.service.oams.export(wop.owner)]),
    )
    for form, given in forms:
        # Nothing is written but that it was tried: so the writer may be held for next to nothing.
        assert wop.service.import_items(wop.owner, number_items(form, given)).created == 0
        assert (form, probe.slow) == (form, [])


def test_a_fact_that_a_file_tells_again_and_again_is_one_memory(wop: Wop) -> None:
    draft = {"kind": "semantic", "body": {"text": "Server 1 uses port 1."}}
    report = wop.service.import_items(wop.owner, number_items("ump", [draft] * 20))
    assert (report.created, report.merged) == (1, 19)
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        assert snapshot.measure_usage()[0] == 1


def test_a_key_that_a_file_brings_twice_is_revised_twice(wop: Wop) -> None:
    oams = Oams(wop, namespace(wop.owner.default_tenant, "many"))
    memory = oams.complete("key", "As it was.")
    wop.service.import_items(wop.owner, [Item(form="oams", value=memory)])
    wop.advance(1_000)
    later = [{**memory, "value": f"It moved {n}.", "updated_at": format_instant(wop.now + n)} for n in range(3)]
    assert wop.service.import_items(wop.owner, number_items("oams", later)).updated == 3
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        (found,) = snapshot.load_page(Selection(), limit=9, now=wop.now)
        history = list(snapshot.iterate_history(snapshot.load_versions([found.version_id])[0].memory_id))
        assert (len(history), snapshot.measure_usage()[0]) == (4, 1)
        assert [version.state.is_head for version in history] == [False, False, False, True]


def test_what_was_written_between_comparing_and_writing_is_compared_again(wop: Wop) -> None:
    """Whoever comes between changes what a batch repeats, is merged to and follows: nothing of it is written over."""
    draft = {"kind": "semantic", "body": {"text": "Server 1 uses port 1."}}
    told = wop.remember("Server 1 uses port 1.")
    oams = Oams(wop, namespace(wop.owner.default_tenant, "many"))
    memory = oams.complete("key", "As it was.")
    wop.service.import_items(wop.owner, [Item(form="oams", value=memory)])
    wop.advance(1)
    begun = wop.engine.start_write

    def between(tenant: str, work: Callable[[Unit], object]) -> object:
        wop.engine.start_write = begun  # type: ignore[method-assign]
        wop.forget(told)
        oams.forget("key")
        return begun(tenant, work)

    wop.engine.start_write = between  # type: ignore[method-assign, assignment]
    report = wop.service.import_items(wop.owner, number_items("ump", [draft]))
    assert (report.created, report.merged) == (1, 0)
    report = wop.service.import_items(wop.owner, [Item(form="oams", value=memory)])
    assert (report.unchanged, report.forgotten) == (0, 1)


def test_one_large_memory_is_written_revised_merged_superseded_and_erased(wop: Wop) -> None:
    """What is computed from a text of 20,000 different words is computed before the writer's turn."""
    text = " ".join(f"word{number}" for number in range(20_000))
    name = wop.remember(text)
    assert wop.remember(text) == name
    revised = wop.revise(name, body={"text": f"{text} more"})
    oams = Oams(wop, namespace(wop.owner.default_tenant, "large"))
    oams.store("k", text)
    oams.store("k", f"{text} more")
    address = wop.put(object=text)
    later = wop.supersede(address, object=f"{text} more")
    wop.service.grains.erase(wop.owner, later, reason="asked")
    wop.forget(revised, hard=True)
    oams.forget("k")


def test_a_memory_of_many_versions_is_erased_with_what_was_made_before_the_writers_turn(wop: Wop) -> None:
    name = wop.remember("Server 1 uses port 1.")
    for number in range(250):
        wop.advance(1)
        name = wop.revise(name, body={"text": f"Server 1 uses port {number} now."})
    wop.forget(name, hard=True)
    with wop.engine.open_snapshot(wop.owner.default_tenant) as snapshot:
        history = list(snapshot.iterate_history(snapshot.load_versions([1])[0].memory_id))
    assert len(history) == 251
    assert all(version.state.erased for version in history)
