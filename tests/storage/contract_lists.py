"""What every store must do with lists, spaces, late names and counters; part of the contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.model.instant import Instant
from memoranda.model.memory import VISIBILITIES, Version
from memoranda.model.selection import UPDATED, PageCursor, Selection
from memoranda.storage.engine.contract import ACTION, Engine, Snapshot, Unit, VersionIndex
from memoranda.storage.engine.sql_engine import SqlEngine
from tests.storage.contract import LATER, NOW, document, names, projection

FATES = ("live", "live", "live", "closed", "retired", "tombstoned", "erased", "retracted", "restored", "expired")
TAGS = ("Red", "green", "BLUE")
# One engine for all examples, and one suite for all engines: both on purpose.
EACH = settings(
    max_examples=25,
)

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "age": st.integers(0, 4),
            "space": st.sampled_from(["", "p"]),
            "visibility": st.sampled_from(VISIBILITIES),
            "tags": st.sets(st.sampled_from(TAGS)).map(lambda tags: tuple(sorted(tags))),
            "fate": st.sampled_from(FATES),
            "exportable": st.booleans(),
        }
    ),
    max_size=12,
)
ASKED = st.fixed_dictionaries(
    {"space": st.sampled_from(["", "p", "q"])},
    optional={
        "visibilities": st.sets(st.sampled_from(VISIBILITIES)).map(lambda found: tuple(sorted(found))),
        "tags": st.sets(st.sampled_from([*(tag.lower() for tag in TAGS), "none"])).map(tuple),
        "since": st.integers(0, 5).map(lambda age: Instant(NOW - 2 + age)),
    },
)


def suffer(unit: Unit, version: Version, fate: str) -> None:
    """Let something happen to a version."""
    if fate == "closed":
        shown = projection("next", tenant=unit.tenant, space="elsewhere")
        successor = unit.append(document(f"next {version.version_id}"), shown, now=NOW, follows=version)
        unit.close_version(version, successor=successor, valid_to=NOW, now=NOW)
    elif fate == "retired":
        unit.retire(version, now=NOW)
    elif fate == "tombstoned":
        unit.tombstone(version, valid_to=NOW, now=NOW)
    elif fate == "erased":
        unit.erase(version, tombstone=b"tombstone_record", now=NOW)
    elif fate in ("retracted", "restored"):
        unit.set_verification(version, "retracted", now=NOW)
    if fate == "restored":
        unit.set_verification(version, "verified", now=NOW)


def fresh_tenant(engine: Engine) -> str:
    """Each example in a tenant of its own: the store is one."""
    return f"t{engine.read_change_token()}"


def fill(engine: Engine, tenant: str, rows: list[dict[str, Any]]) -> list[Version]:
    def work(unit: Unit) -> list[Version]:
        written = []
        for number, row in enumerate(rows):
            shown = projection(
                f"row {number}",
                tenant=tenant,
                space=row["space"],
                visibility=row["visibility"],
                tags=row["tags"],
                exportable=row["exportable"],
                observed=Instant(NOW + row["age"]),
                created=Instant(NOW - 9),
                expires=LATER if row["fate"] == "expired" else None,
            )
            version = unit.append(document(str(number)), shown, now=NOW)
            suffer(unit, version, row["fate"])
            written.append(version)
        return written

    return engine.write(tenant, work)


def pages(snapshot: Snapshot, selection: Selection, limit: int, now: Instant = LATER) -> list[str]:
    """All of a list, a page at a time."""
    found: list[str] = []
    before: PageCursor | None = None
    while True:
        page = snapshot.load_page(selection, UPDATED, limit=limit, now=now, after=before)
        found += names(snapshot, page)
        if len(page) < limit:
            return found
        before = page[-1].cursor


def leaving(snapshot: Snapshot, space: str, limit: int, now: Instant) -> list[str]:
    """What may leave, in the order written, a page at a time."""
    found: list[str] = []
    after: PageCursor | None = None
    while page := snapshot.load_page(Selection(space=space, exportable=True), limit=limit, now=now, after=after):
        found += names(snapshot, page)
        after = page[-1].cursor
    return found


def counted(engine: Engine, tenant: str) -> tuple[int, int]:
    """Return how many versions and how many words of theirs the store has counted for a tenant."""
    assert isinstance(engine, SqlEngine)
    with engine._database.open_snapshot() as connection:
        sql = "SELECT version_count, term_count FROM tenant WHERE name = :name"
        ((versions, words),) = connection.select(sql, {"name": tenant})
    return versions, words


class ListsContract:
    """Subclasses provide the `engine` fixture."""

    @given(rows=ROWS, asked=ASKED, limit=st.integers(1, 5))
    @EACH
    def test_a_list_is_what_a_look_at_everything_gives(
        self, engine: Engine, rows: list[dict[str, Any]], asked: dict[str, Any], limit: int
    ) -> None:
        tenant = fresh_tenant(engine)
        fill(engine, tenant, rows)
        listing = Selection(**asked)
        fit = [
            (row["age"], number)
            for number, row in enumerate(rows)
            if row["fate"] in ("live", "restored")
            and row["space"] == listing.space
            and (listing.visibilities is None or row["visibility"] in listing.visibilities)
            and set(listing.tags) <= {tag.lower() for tag in row["tags"]}
            and (listing.since is None or NOW + row["age"] >= listing.since)
        ]
        expected = [str(number) for _, number in sorted(fit, reverse=True)]
        with engine.open_snapshot(tenant) as snapshot:
            assert pages(snapshot, listing, limit) == expected
            assert pages(snapshot, listing, 50) == expected

    @given(rows=ROWS)
    @EACH
    def test_what_may_leave_is_listed_in_the_order_written(self, engine: Engine, rows: list[dict[str, Any]]) -> None:
        tenant = fresh_tenant(engine)
        fill(engine, tenant, rows)
        for space in ("", "p", "q"):
            expected = [
                str(number)
                for number, row in enumerate(rows)
                if row["fate"] in ("live", "restored") and row["space"] == space and row["exportable"]
            ]
            with engine.open_snapshot(tenant) as snapshot:
                assert leaving(snapshot, space, 2, LATER) == expected

    def test_what_expires_is_listed_until_then(self, engine: Engine) -> None:
        row = {"age": 0, "space": "", "visibility": "private", "tags": ("red",), "fate": "expired", "exportable": True}
        fill(engine, "ada", [row])
        for now, expected in ((Instant(LATER - 1), ["0"]), (LATER, [])):
            with engine.open_snapshot("ada") as snapshot:
                assert pages(snapshot, Selection(space=""), 9, now) == expected
                assert pages(snapshot, Selection(space="", tags=("red",)), 9, now) == expected
                assert leaving(snapshot, "", 9, now) == expected

    @given(ages=st.lists(st.integers(0, 3), min_size=1, max_size=9), news=st.lists(st.integers(0, 3), max_size=9))
    @EACH
    def test_paging_while_others_write_repeats_nothing_and_misses_nothing(
        self, engine: Engine, ages: list[int], news: list[int]
    ) -> None:
        tenant = fresh_tenant(engine)
        row = {"space": "", "visibility": "private", "tags": (), "fate": "live", "exportable": True}
        old = fill(engine, tenant, [{**row, "age": age} for age in ages])
        later = list(news)
        found: list[int] = []
        before: PageCursor | None = None
        while True:
            with engine.open_snapshot(tenant) as snapshot:
                page = snapshot.load_page(Selection(space=""), UPDATED, limit=2, now=NOW, after=before)
            found += [each.version_id for each in page]
            if len(page) < 2:
                break
            before = page[-1].cursor
            if later:
                fill(engine, tenant, [{**row, "age": later.pop()}])
        assert len(found) == len(set(found))
        assert {version.version_id for version in old} <= set(found)

    @given(observed=st.lists(st.integers(0, 3), min_size=1, max_size=6))
    @EACH
    def test_a_later_version_is_never_updated_earlier(self, engine: Engine, observed: list[int]) -> None:
        tenant = fresh_tenant(engine)

        def work(unit: Unit) -> None:
            prior: Version | None = None
            for number, offset in enumerate(observed):
                shown = projection("x", tenant=tenant, observed=Instant(NOW + offset), created=Instant(NOW - offset))
                version = unit.append(document(str(number)), shown, now=NOW, follows=prior)
                if prior is not None:
                    unit.close_version(prior, successor=version, valid_to=NOW, now=NOW)
                prior = version

        engine.write(tenant, work)
        with engine.open_snapshot(tenant) as snapshot:
            (only,) = snapshot.load_page(Selection(space=""), UPDATED, limit=9, now=NOW)
            (head,) = snapshot.load_versions([only.version_id])
            history = [version.state.updated for version in snapshot.iterate_history(head.memory_id)]
        assert head.state.updated == only.at
        assert history == sorted(set(history))
        assert history[0] == NOW + observed[0]
        assert all(updated >= NOW + offset for updated, offset in zip(history, observed, strict=True))

    def test_what_was_created_after_it_was_observed_was_updated_when_it_was_created(self, engine: Engine) -> None:
        shown = projection("x", observed=Instant(NOW - 5), created=NOW)
        version = engine.write("ada", lambda unit: unit.append(document("x"), shown, now=NOW))
        with engine.open_snapshot("ada") as snapshot:
            (kept,) = snapshot.load_versions([version.version_id])
        assert version.state.updated == kept.state.updated == NOW

    def test_spaces_are_where_anything_was_ever_written(self, engine: Engine) -> None:
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.list_spaces() == []
        row = {"age": 0, "visibility": "private", "tags": (), "fate": "live", "exportable": True}
        names = ["b", "", "a", "user:x", "ä", "b"]
        written = fill(engine, "ada", [{**row, "space": name} for name in names])
        fill(engine, "bob", [{**row, "space": "of bob"}])

        def work(unit: Unit) -> None:
            for version in written[:3]:
                unit.erase(version, tombstone=b"tombstone_record", now=NOW)

        engine.write("ada", work)
        with engine.open_snapshot("ada") as snapshot:
            assert sorted(snapshot.list_spaces()) == sorted(set(names))
            assert [snapshot.has_space(name) for name in (*names, "c", "of bob")] == [True] * 6 + [False] * 2

    def test_the_name_of_a_view_stays_with_what_it_stands_for_until_that_is_gone(self, engine: Engine) -> None:
        def stands_for() -> str:
            with engine.open_snapshot("ada") as snapshot:
                found = snapshot.find_by_name("other", "view")
                return "" if found is None else found.document.name

        def write(name: str, native: bytes = b"x") -> Version:
            made, views = document(name, native), [("other", "view")]
            return engine.write(
                "ada", lambda unit: unit.append(made, projection("x"), now=NOW, index=VersionIndex(view_names=views))
            )

        first = write("first")
        second = write("second")
        assert stands_for() == "first"
        engine.write("ada", lambda unit: unit.add_view_name(second, "other", "view"))
        engine.write("ada", lambda unit: unit.tombstone(first, valid_to=None, now=NOW))
        write("third")
        assert stands_for() == "first"
        engine.write("ada", lambda unit: unit.erase(first, tombstone=b"gone", now=NOW))
        write("fourth")
        assert stands_for() == "fourth"

    def test_what_is_forgotten_and_brought_again_has_its_views_name_again(self, engine: Engine) -> None:
        def write(native: bytes) -> Version:
            made, views = document("n", native), [("other", "view")]
            return engine.write(
                "ada", lambda unit: unit.append(made, projection("x"), now=NOW, index=VersionIndex(view_names=views))
            )

        def stands_for() -> int:
            with engine.open_snapshot("ada") as snapshot:
                found = snapshot.find_by_name("other", "view")
                assert found is not None
                return found.version_id

        first = write(b"the same")
        engine.write("ada", lambda unit: unit.tombstone(first, valid_to=None, now=NOW))
        write(b"something else")
        assert stands_for() == first.version_id
        again = write(b"the same")
        assert stands_for() == again.version_id

    def test_a_document_may_be_named_after_whatever_is_the_head(self, engine: Engine) -> None:
        def work(unit: Unit) -> None:
            first = unit.append(document("k", b"1"), projection("x"), now=NOW, follow_head=True)
            second = unit.append(document("k", b"2"), projection("x"), now=NOW, follows=first, follow_head=True)
            unit.close_version(first, successor=second, valid_to=NOW, now=NOW)
            third = unit.append(document("other", b"3"), projection("x"), now=NOW, follows=first)
            unit.close_version(second, successor=third, valid_to=NOW, now=NOW)

        engine.write("ada", work)
        with engine.open_snapshot("ada") as snapshot:
            head = snapshot.find_by_name("note", "k")
            assert head is not None
            assert head.document.native == b"3"
            # A name that follows belongs to no single version.
            assert snapshot.load_names(head.version_id) == {"note": "other"}
            assert next(snapshot.iterate_history(head.memory_id)).state.superseded_by == "k"

    def test_lists_and_counters_are_of_one_tenant(self, engine: Engine) -> None:
        row = {"age": 0, "space": "p", "visibility": "public", "tags": ("red",), "fate": "live", "exportable": True}
        fill(engine, "ada", [row])
        with engine.open_snapshot("bob") as snapshot:
            for tags in ((), ("red",)):
                assert snapshot.load_page(Selection(space="p", tags=tags), UPDATED, limit=9, now=NOW) == []
            assert leaving(snapshot, "p", 9, NOW) == []
            assert (snapshot.list_spaces(), snapshot.has_space("p")) == ([], False)
            assert snapshot.measure_usage() == (0, 0)

    @given(moves=st.lists(st.tuples(st.sampled_from([*FATES, "append", "succeed"]), st.integers(0, 9)), max_size=20))
    @EACH
    def test_usage_is_what_a_recount_gives(self, engine: Engine, moves: list[tuple[str, int]]) -> None:
        tenant = fresh_tenant(engine)
        kept = _Ledger()
        for move, which in moves:
            engine.write(tenant, lambda unit, move=move, which=which: kept.apply(unit, move, which))  # type: ignore[misc]
            with engine.open_snapshot(tenant) as snapshot:
                assert snapshot.measure_usage() == kept.recount(snapshot)

    @given(moves=st.lists(st.tuples(st.sampled_from([*FATES, "append", "succeed"]), st.integers(0, 9)), max_size=20))
    @EACH
    def test_versions_and_words_are_counted_as_long_as_they_are_not_erased(
        self, engine: Engine, moves: list[tuple[str, int]]
    ) -> None:
        tenant = fresh_tenant(engine)
        kept = _Ledger()
        for move, which in [("append", 1), ("succeed", 0), *moves, ("erased", 0)]:
            engine.write(tenant, lambda unit, move=move, which=which: kept.apply(unit, move, which))  # type: ignore[misc]
        with engine.open_snapshot(tenant) as snapshot:
            versions = snapshot.load_versions([version.version_id for version in kept.written])
        present = sum(not version.state.erased for version in versions)
        assert present < len(versions)
        # Each of them says one word.
        assert counted(engine, tenant) == (present, present)

    def test_a_failing_unit_counts_nothing(self, engine: Engine) -> None:
        version = engine.write("ada", lambda unit: unit.append(document("x", b"12345"), projection("x"), now=NOW))

        def work(unit: Unit) -> None:
            unit.append(document("y"), projection("y"), now=NOW)
            unit.erase(version, tombstone=b"tombstone_record", now=NOW)
            assert unit.measure_usage() == (1, 2)
            raise ArithmeticError

        try:
            engine.write("ada", work)
        except ArithmeticError:
            with engine.open_snapshot("ada") as snapshot:
                assert snapshot.measure_usage() == (1, 5)
        else:
            raise AssertionError("the unit was to fail")

    def test_what_comes_in_forgotten_is_not_there(self, engine: Engine) -> None:
        shown = projection("x", status="tombstoned")
        engine.write("ada", lambda unit: unit.append(document("x"), shown, now=NOW))
        with engine.open_snapshot("ada") as snapshot:
            assert pages(snapshot, Selection(space=""), 9) == []
            assert leaving(snapshot, "", 9, NOW) == []
            assert snapshot.measure_usage() == (0, 2)


@dataclass(slots=True)
class _Ledger:
    """Versions as they were when they were written: whoever changes one twice need not read it in between."""

    written: list[Version] = field(default_factory=list)

    def apply(self, unit: Unit, move: str, which: int) -> None:
        prior = self.written[which % len(self.written)] if self.written else None
        if move == "append" or prior is None:
            size = b"x" * (which * 7)
            self.written.append(unit.append(document(f"n{len(self.written)}", size), self._shown(unit), now=NOW))
        elif move == "succeed":
            made = document(f"n{len(self.written)}", b"y" * which)
            version = unit.append(made, self._shown(unit), now=NOW, follows=prior)
            unit.close_version(prior, successor=version, valid_to=NOW, now=NOW)
            self.written.append(version)
        elif move not in ("live", "expired", "closed"):
            suffer(unit, prior, move)

    @staticmethod
    def _shown(unit: Unit) -> Any:
        return projection("x", tenant=unit.tenant, tags=("t",))

    def recount(self, snapshot: Snapshot) -> tuple[int, int]:
        versions = snapshot.load_versions([version.version_id for version in self.written])
        live = len(snapshot.load_page(Selection(space=""), UPDATED, limit=99, now=NOW))
        for version in versions:
            state = version.state
            live -= int(
                state.is_head and state.tombstoned is None and not state.erased and state.verification != "retracted"
            )
        assert live == 0
        bytes_ = sum(len(version.document.native) for version in versions if not version.state.erased)
        bytes_ += sum(map(len, snapshot.load_items(ACTION).values()))
        return len(snapshot.load_page(Selection(space=""), UPDATED, limit=99, now=NOW)), bytes_
