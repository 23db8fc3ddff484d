"""What every store must do with what services keep beside memories: items, runs, commitments; part of the contract."""

from __future__ import annotations

from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.storage.engine.contract import Engine, RunView, Unit
from tests.storage.contract import NOW, document, projection

DAY = 86_400_000


def at(days: int) -> Instant:
    return Instant(NOW + days * DAY)


def write(
    engine: Engine, name: str, *, space: str = "p", tenant: str = "ada", follows: Version | None = None
) -> Version:
    """A version that is announced, as every verb does."""

    def work(unit: Unit) -> Version:
        shown = projection(name, tenant=tenant, space=space)
        version = unit.append(document(name), shown, now=NOW, follows=follows)
        unit.announce("created", version, now=NOW)
        return version

    return engine.write(tenant, work)


def commit(
    engine: Engine,
    name: str,
    *,
    tenant: str = "ada",
    space: str = "p",
    due: Instant | None = None,
    is_waiting: bool = False,
    is_fresh: bool = False,
    over: Instant | None = None,
    document: bytes | None = None,
) -> None:
    engine.write(
        tenant,
        lambda unit: unit.put_commitment(
            name,
            name.encode() if document is None else document,
            space=space,
            due=due,
            is_waiting=is_waiting,
            is_fresh=is_fresh,
            over=over,
        ),
    )


class BackgroundContract:
    """Nobody sees another tenant's, and each question has its own answer."""

    def test_one_item_is_read_without_the_others(self, engine: Engine) -> None:
        engine.write("ada", lambda unit: unit.put_item("template", "a", b"1"))
        engine.write("bob", lambda unit: unit.put_item("schedule", "a", b"2"))
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.load_item("template", "a") == b"1"
            assert (snapshot.load_item("template", "b"), snapshot.load_item("schedule", "a")) == (None, None)
        assert engine.system.list_tenants_with_items(["template", "schedule"]) == ["ada", "bob"]
        assert engine.system.list_tenants_with_items(["schedule"]) == ["bob"]
        assert engine.system.list_tenants_with_items([]) == []

    def test_runs_are_listed_last_started_first_and_rewritten_in_place(self, engine: Engine) -> None:
        for number in range(4):
            run, started = f"r{number}", at(number)
            engine.write("ada", lambda unit, run=run, started=started: unit.put_run(run, b"begun", started=started))  # type: ignore[misc]
        engine.write("ada", lambda unit: unit.put_run("r1", b"ended", started=at(9)))
        with engine.open_snapshot("ada") as snapshot:
            assert (snapshot.load_run("r1"), snapshot.load_run("r2"), snapshot.load_run("other")) == (
                b"ended",
                b"begun",
                None,
            )
            # When it began is a fact that does not change.
            assert snapshot.list_runs(before=None, limit=9) == [b"begun", b"begun", b"ended", b"begun"]
            assert snapshot.list_runs(before=(at(2), ""), limit=9) == [b"ended", b"begun"]
            assert len(snapshot.list_runs(before=None, limit=2)) == 2
        with engine.open_snapshot("bob") as snapshot:
            assert (snapshot.load_run("r1"), snapshot.list_runs(before=None, limit=9)) == (None, [])

    def test_events_of_a_run_are_numbered_and_read_in_order(self, engine: Engine) -> None:
        engine.write("ada", lambda unit: unit.add_run_events("r", 0, [b"a", b"b"]))
        engine.write("ada", lambda unit: unit.add_run_events("r", 2, [b"c"]))
        engine.write("ada", lambda unit: unit.add_run_events("other", 0, [b"x"]))
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.count_run_events("r") == 3
            assert snapshot.count_run_events("none") == 0
            assert snapshot.list_run_events("r", after=-1, limit=9) == [b"a", b"b", b"c"]
            assert snapshot.list_run_events("r", after=0, limit=1) == [b"b"]
            assert snapshot.list_run_events("r", after=2, limit=9) == []
        with engine.open_snapshot("bob") as snapshot:
            assert (snapshot.count_run_events("r"), snapshot.list_run_events("r", after=-1, limit=9)) == (0, [])

    def test_what_a_run_wrote_is_its_own_until_it_is_erased(self, engine: Engine) -> None:
        first, second = write(engine, "first"), write(engine, "second")

        def work(unit: Unit) -> None:
            for version in (first, second, first):
                unit.add_run_write("r", version.version_id)
            unit.copy_run_writes("r", "fork")

        engine.write("ada", work)
        both = frozenset((first.version_id, second.version_id))
        with engine.open_snapshot("ada") as snapshot:
            assert (snapshot.list_run_writes("r"), snapshot.list_run_writes("fork")) == (both, both)
            assert snapshot.list_run_writes("other") == frozenset()
            assert not snapshot.has_lost_writes("r")
        engine.write("ada", lambda unit: unit.erase(second, tombstone=b"gone", now=NOW))
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.has_lost_writes("r")
            assert snapshot.has_lost_writes("fork")
            assert not snapshot.has_lost_writes("other")
        with engine.open_snapshot("bob") as snapshot:
            assert (snapshot.list_run_writes("r"), snapshot.has_lost_writes("r")) == (frozenset(), False)

    def test_what_changed_is_found_from_a_place_in_the_feed(self, engine: Engine) -> None:
        old = write(engine, "old")
        with engine.open_snapshot("ada") as snapshot:
            place = snapshot.find_last_change()
        here, there = write(engine, "here"), write(engine, "there", space="q")
        write(engine, "bob's", tenant="bob")
        next_one = write(engine, "next", follows=old)
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.list_changed_memories(place) == {here.memory_id, there.memory_id, old.memory_id}
            assert snapshot.list_changed_memories(snapshot.find_last_change()) == frozenset()
            assert snapshot.list_changed_in_space("p", place) == [here.version_id, next_one.version_id]
            assert snapshot.list_changed_in_space("q", place) == [there.version_id]

    def test_what_a_run_saw_is_found_after_it_ended(self, engine: Engine) -> None:
        revised, forgotten, untouched = (write(engine, name) for name in ("revised", "forgotten", "untouched"))
        elsewhere = write(engine, "elsewhere", space="q")
        with engine.open_snapshot("ada") as snapshot:
            seq, last = snapshot.find_last_change(), snapshot.find_last_version()
        view = RunView(run_id="r", started=Instant(NOW + 1), change_seq=seq, version_seq=last)
        later = write(engine, "later")

        def work(unit: Unit) -> None:
            now = at(1)
            successor = unit.append(document("new"), projection("new", space="p"), now=now, follows=revised)
            unit.close_version(revised, successor=successor, valid_to=now, now=now)
            unit.announce("revised", successor, now=now)
            for version in (forgotten, elsewhere, later):
                unit.tombstone(version, valid_to=now, now=now)
                unit.announce("tombstoned", version, now=now)

        engine.write("ada", work)
        with engine.open_snapshot("ada") as snapshot:
            ended = {version_id for version_id, _ in snapshot.list_ended_since(view, "p")}
            assert ended == {revised.version_id, forgotten.version_id}
            assert {version_id for version_id, _ in snapshot.list_ended_since(view, "q")} == {elsewhere.version_id}
        engine.write("ada", lambda unit: unit.add_run_write("r", later.version_id))
        engine.write("ada", lambda unit: unit.erase(forgotten, tombstone=b"gone", now=at(2)))
        with engine.open_snapshot("ada") as snapshot:
            ended = {version_id for version_id, _ in snapshot.list_ended_since(view, "p")}
            # Its own write counts though it came later; what was erased is gone for runs, too.
            assert ended == {revised.version_id, later.version_id}
            assert untouched.version_id not in ended

    def test_commitments_are_found_by_name_and_by_space(self, engine: Engine) -> None:
        commit(engine, "b", due=at(1))
        commit(engine, "a", space="q", due=at(2))
        commit(engine, "b", due=at(3), document=b"anew")
        commit(engine, "c", tenant="bob", due=at(0))
        with engine.open_snapshot("ada") as snapshot:
            assert (snapshot.load_commitment("b"), snapshot.load_commitment("c")) == (b"anew", None)
            assert snapshot.list_commitments() == [b"a", b"anew"]
            assert snapshot.list_commitments("p") == [b"anew"]
            assert snapshot.list_commitments("none") == []

    def test_what_is_due_comes_first_due_first_and_until_it_is_over(self, engine: Engine) -> None:
        commit(engine, "late", due=at(2))
        commit(engine, "soon", due=at(1))
        commit(engine, "never", due=at(9))
        commit(engine, "over", due=at(0), over=at(0))
        commit(engine, "waits", due=at(0), is_waiting=True)
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.list_due_commitments(at(2), 9) == [b"soon", b"late"]
            assert snapshot.list_due_commitments(at(2), 1) == [b"soon"]
            assert snapshot.list_due_commitments(at(0), 9) == []
        assert engine.system.find_next_due() == at(0)
        commit(engine, "waits", due=at(0), is_waiting=True, over=at(0))
        assert engine.system.find_next_due() == at(1)

    def test_what_waits_is_looked_at_once_unless_it_changed_meanwhile(self, engine: Engine) -> None:
        commit(engine, "fresh", is_waiting=True, is_fresh=True)
        commit(engine, "changing", is_waiting=True, is_fresh=True)
        commit(engine, "known", space="q", is_waiting=True)
        commit(engine, "not yet", is_waiting=True, due=at(1))
        commit(engine, "over", is_waiting=True, is_fresh=True, over=at(0))
        with engine.open_snapshot("ada") as snapshot:
            found = {
                each.document: (each.space, each.is_fresh)
                for each in snapshot.list_waiting_commitments(NOW, fresh_only=False)
            }
            assert found == {b"fresh": ("p", True), b"changing": ("p", True), b"known": ("q", False)}
            fresh = {each.document for each in snapshot.list_waiting_commitments(NOW, fresh_only=True)}
            assert fresh == {b"fresh", b"changing"}
            assert len(snapshot.list_waiting_commitments(at(1), fresh_only=False)) == 4
        commit(engine, "changing", is_waiting=True, is_fresh=True, document=b"anew")
        looked = [("fresh", b"fresh"), ("changing", b"changing")]
        engine.write("ada", lambda unit: unit.mark_commitments_checked(looked))
        with engine.open_snapshot("ada") as snapshot:
            assert [each.document for each in snapshot.list_waiting_commitments(NOW, fresh_only=True)] == [b"anew"]

    def test_what_was_over_long_ago_is_deleted_some_at_a_time(self, engine: Engine) -> None:
        for number in range(3):
            commit(engine, f"old {number}", over=at(0))
        commit(engine, "recent", over=at(5))
        commit(engine, "open", due=at(0))
        commit(engine, "bob's", tenant="bob", over=at(0))
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.has_closed_commitments(at(1))
            assert not snapshot.has_closed_commitments(at(0))
        engine.write("ada", lambda unit: unit.prune_commitments(at(1), 2))
        with engine.open_snapshot("ada") as snapshot:
            assert len(snapshot.list_commitments()) == 3
        engine.write("ada", lambda unit: unit.prune_commitments(at(1), 9))
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.list_commitments() == [b"open", b"recent"]
            assert not snapshot.has_closed_commitments(at(1))
        with engine.open_snapshot("bob") as snapshot:
            assert snapshot.list_commitments() == [b"bob's"]

    def test_whose_commitments_are_to_be_looked_at(self, engine: Engine) -> None:
        assert engine.system.find_next_due() is None
        commit(engine, "a", tenant="ada", due=at(1))
        commit(engine, "b", tenant="bob", is_waiting=True)
        commit(engine, "c", tenant="cy", due=at(0), over=at(0))
        assert engine.system.list_tenants_with_commitments(at(0)) == ["bob"]
        assert engine.system.list_tenants_with_commitments(at(1)) == ["ada", "bob"]
