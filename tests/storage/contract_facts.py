"""What every store must do with questions field by field, words, documents, notes and allowances."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.model.memory import FieldIndex, Version
from memoranda.model.selection import (
    Compares,
    InGroup,
    IsAmong,
    IsNoneOf,
    IsOneOf,
    KeywordQuery,
    Lacks,
    Order,
    Selection,
    Test,
    VisibleToRun,
)
from memoranda.storage.engine.contract import Engine, Unit, VersionIndex
from memoranda.storage.engine.paging import Paging, PagingLimits
from tests.storage.contract import LATER, NOW, document, projection
from tests.storage.contract_lists import fresh_tenant, suffer

EACH = settings(
    max_examples=30,
)
WORDS = ("apple", "river", "stone", "night")
TEXTS = ("a", "b")
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip

EVERYTHING = Selection(has_fields=True)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "space": st.sampled_from(["", "p"]),
            "form": st.sampled_from(["belief", "event", ""]),
            "at": st.integers(0, 3),
            "subject": st.sampled_from(["", *TEXTS]),
            "user": st.sampled_from(["", *TEXTS]),
            "color": st.sets(st.sampled_from(TEXTS)),
            "size": st.none() | st.integers(0, 2),
            "confidence": st.none() | st.sampled_from([0.25, 0.5]),
            "importance": st.none() | st.sampled_from([0.25, 0.5]),
            "words": st.sets(st.sampled_from(WORDS), min_size=1),
            "fate": st.sampled_from(["live", "live", "closed", "tombstoned", "erased", "retracted", "unread"]),
        }
    ),
    max_size=10,
)
TEXT_TESTS = st.builds(
    lambda kind, name, texts, or_missing: kind(name=name, texts=texts, or_missing=or_missing),
    st.sampled_from([IsOneOf, IsNoneOf]),
    st.sampled_from(["subject", "user", "color"]),
    st.lists(st.sampled_from([*TEXTS, "c"]), min_size=1, max_size=2).map(tuple),
    st.booleans(),
)
NUMBER_TESTS = st.builds(
    lambda name, operator, number: Compares(name=name, operator=operator, number=number),
    st.sampled_from(["at", "size", "confidence"]),
    st.sampled_from(list(OPERATORS)),
    st.sampled_from([0, 0.25, 0.5, 1, 2]),
)
TESTS = st.lists(TEXT_TESTS | NUMBER_TESTS, max_size=3)
SELECTIONS = st.builds(
    lambda space, form, tests, standing: Selection(
        space=space, form=form, tests=tests, status_filter=standing, has_fields=True
    ),
    st.sampled_from([None, "", "p"]),
    st.sampled_from([None, "belief"]),
    TESTS,
    st.sampled_from(["live", "unforgotten"]),
)
# As it is, and as if a store of ten were one of millions.
GROUPINGS = st.sampled_from(["subject", "form", "verification"])
PAGING_LIMITS = st.just(PagingLimits()) | st.builds(
    lambda counted, *more: PagingLimits((1, counted), *more),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(0, 6),
)
ORDERS = st.builds(
    lambda by, descending: Order(by=by, descending=descending),
    st.sampled_from(["address", "at", "confidence", "importance"]),
    st.booleans(),
)


@contextmanager
def with_limits(limits: PagingLimits) -> Iterator[None]:
    """So much is looked at meanwhile before another way is tried."""
    usual, Paging.limits = Paging.limits, limits
    try:
        yield
    finally:
        Paging.limits = usual


def address(number: int) -> str:
    """Not in the order written, so that an order by address is another."""
    return f"{(number * 7) % 11:02}{number:02}"


def fill(engine: Engine, tenant: str, rows: list[dict[str, Any]]) -> list[Version]:
    def work(unit: Unit) -> list[Version]:
        written = []
        for number, row in enumerate(rows):
            text = " ".join(sorted(row["words"]))
            shown = projection(text, tenant=tenant, space=row["space"], user=row["user"])
            facts = FieldIndex(
                address=address(number),
                form=row["form"],
                at=Instant(row["at"]),
                confidence=row["confidence"],
                importance=row["importance"],
                subject=row["subject"],
                texts=tuple(("color", color) for color in sorted(row["color"])),
                numbers=() if row["size"] is None else (("size", float(row["size"])),),
            )
            is_read = row["fate"] != "unread"
            version = unit.append(
                document(str(number)), shown, now=NOW, index=VersionIndex(fields=facts if is_read else None)
            )
            suffer(unit, version, row["fate"])
            written.append(version)
        return written

    return engine.write(tenant, work)


def holds(row: dict[str, Any], test: Test) -> bool:
    """One test on one row, read naively."""
    assert not isinstance(test, IsAmong | VisibleToRun | Lacks | InGroup)
    held = row[test.name]
    if isinstance(test, Compares):
        return held is not None and OPERATORS[test.operator](held, test.number)
    values = {held} - {""} if isinstance(held, str) else held
    if isinstance(test, IsOneOf):
        return bool(values & set(test.texts)) or (test.or_missing and not values)
    return not values & set(test.texts) and (bool(values) or test.or_missing)


def chosen(rows: list[dict[str, Any]], selection: Selection) -> list[int]:
    """What a look at everything selects."""
    gone = {"tombstoned", "erased", "unread"} | (
        {"closed", "retracted"} if selection.status_filter == "live" else set()
    )
    return [
        number
        for number, row in enumerate(rows)
        if row["fate"] not in gone
        and selection.space in (None, row["space"])
        and (row["form"] != "" if selection.form is None else row["form"] == selection.form)
        and all(holds(row, test) for test in selection.tests)
    ]


def ordered(rows: list[dict[str, Any]], numbers: list[int], order: Order) -> list[int]:
    by_address = sorted(numbers, key=address)
    if order.by == "address":
        return by_address
    known = [number for number in by_address if rows[number][order.by] is not None]
    known.sort(key=lambda number: rows[number][order.by], reverse=order.descending)
    return known + [number for number in by_address if rows[number][order.by] is None]


class FactsContract:
    """Subclasses provide the `engine` fixture."""

    @given(rows=ROWS, selection=SELECTIONS, order=ORDERS, limit=st.integers(1, 4), limits=PAGING_LIMITS)
    @EACH
    def test_a_selection_is_what_a_look_at_everything_gives(
        self,
        engine: Engine,
        rows: list[dict[str, Any]],
        selection: Selection,
        order: Order,
        limit: int,
        limits: PagingLimits,
    ) -> None:
        tenant = fresh_tenant(engine)
        fill(engine, tenant, rows)
        expected = [address(number) for number in ordered(rows, chosen(rows, selection), order)]
        with with_limits(limits), engine.open_snapshot(tenant) as snapshot:
            found: list[str] = []
            while page := snapshot.load_page(selection, order, limit=limit, offset=len(found), now=NOW):
                found += [each.address for each in page]
            assert found == expected
            assert snapshot.count(selection, now=NOW) == len(expected)

    @given(
        rows=ROWS, selection=SELECTIONS, by=st.sampled_from(["subject", "form", "verification"]), limits=PAGING_LIMITS
    )
    @EACH
    def test_groups_are_what_a_look_at_everything_counts(
        self, engine: Engine, rows: list[dict[str, Any]], selection: Selection, by: str, limits: PagingLimits
    ) -> None:
        tenant = fresh_tenant(engine)
        fill(engine, tenant, rows)

        def said(number: int) -> str:
            is_retracted = rows[number]["fate"] == "retracted"
            return ("retracted" if is_retracted else "unverified") if by == "verification" else str(rows[number][by])

        expected: dict[str, list[str]] = {}
        for number in ordered(rows, chosen(rows, selection), Order(by="address")):
            expected.setdefault(said(number), []).append(address(number))
        with with_limits(limits), engine.open_snapshot(tenant) as snapshot:
            found = snapshot.count_groups(selection, by, now=NOW)
            held = []
            for group in found:
                within = replace(selection, tests=(*selection.tests, InGroup(name=by, key=group.key)))
                page = snapshot.load_page(within, Order(by="address"), limit=50, now=NOW)
                assert group.count == len(page)
                assert group.version_id in [each.version_id for each in page]
                held.append([each.address for each in page])
        assert sorted(held) == sorted(expected.values())

    @given(rows=ROWS, selection=SELECTIONS, order=ORDERS, limit=st.integers(1, 4), limits=PAGING_LIMITS)
    @EACH
    def test_a_page_tells_truly_how_many_there_are_and_whether_it_is_the_last(
        self,
        engine: Engine,
        rows: list[dict[str, Any]],
        selection: Selection,
        order: Order,
        limit: int,
        limits: PagingLimits,
    ) -> None:
        tenant = fresh_tenant(engine)
        fill(engine, tenant, rows)
        expected = [address(number) for number in ordered(rows, chosen(rows, selection), order)]
        with with_limits(limits), engine.open_snapshot(tenant) as snapshot:
            for offset in range(len(expected) + 2):
                page = snapshot.load_counted_page(selection, order, limit=limit, offset=offset, now=NOW)
                assert [each.address for each in page.hits] == expected[offset : offset + limit]
                assert page.is_last is (offset + limit >= len(expected))
                assert page.total in (None, len(expected))
                assert page.total is not None or not page.is_last
                if limits == PagingLimits():
                    assert page.total is not None

    @given(rows=ROWS, selection=SELECTIONS, words=st.sets(st.sampled_from([*WORDS, "absent"]), min_size=1))
    @EACH
    def test_words_are_matched_among_what_a_selection_gives(
        self, engine: Engine, rows: list[dict[str, Any]], selection: Selection, words: set[str]
    ) -> None:
        tenant = fresh_tenant(engine)
        fill(engine, tenant, rows)
        expected = {address(number) for number in chosen(rows, selection) if rows[number]["words"] & words}
        text = " ".join(sorted(words))
        with engine.open_snapshot(tenant) as snapshot:
            everything = snapshot.match(selection, (KeywordQuery(text=text),), limit=50, count_all=True, now=NOW)
            few = snapshot.match(selection, (KeywordQuery(text=text),), limit=2, count_all=True, now=NOW)
        assert {each.address for each in everything.hits} == expected
        assert everything.total == few.total == len(expected)
        assert few.hits == everything.hits[:2]
        scores = [each.lexical for each in everything.hits]
        assert scores == sorted(scores, reverse=True)

    @given(rows=ROWS, among=st.sets(st.integers(0, 9)), negated=st.booleans())
    @EACH
    def test_some_versions_can_be_asked_for_by_themselves(
        self, engine: Engine, rows: list[dict[str, Any]], among: set[int], negated: bool
    ) -> None:
        tenant = fresh_tenant(engine)
        written = fill(engine, tenant, rows)
        ids = tuple(written[number].version_id for number in among if number < len(rows))
        selection = Selection(tests=(IsAmong(version_ids=ids, negated=negated),), has_fields=True)
        expected = [number for number in chosen(rows, EVERYTHING) if (number in among) != negated]
        with engine.open_snapshot(tenant) as snapshot:
            found = snapshot.load_page(selection, limit=50, now=NOW)
            assert sorted(each.address for each in found) == sorted(map(address, expected))

    def test_without_field_indexes_labels_and_the_last_update_can_be_asked_for(self, engine: Engine) -> None:
        def work(unit: Unit) -> None:
            for number, tags in enumerate([("Red",), ("red", "blue"), ("blue",), ()]):
                shown = projection(f"apple {number}", tags=tags, observed=Instant(NOW + number))
                unit.append(document(str(number)), shown, now=NOW)

        engine.write("ada", work)

        def found(*tests: Test) -> list[str]:
            selection = Selection(space="", tests=tests)
            with engine.open_snapshot("ada") as snapshot:
                hits = snapshot.match(selection, (KeywordQuery(text="apple"),), limit=9, now=NOW).hits
                return sorted(v.document.name for v in snapshot.load_versions([hit.version_id for hit in hits]))

        assert found() == ["0", "1", "2", "3"]
        assert found(IsOneOf(name="label", texts=("red",))) == ["0", "1"]
        both = (IsOneOf(name="label", texts=("red",)), IsOneOf(name="label", texts=("blue",)))
        assert found(*both) == ["1"]
        assert found(Compares(name="updated", operator=">=", number=NOW + 2)) == ["2", "3"]
        assert found(Compares(name="updated", operator="<", number=NOW + 1)) == ["0"]

    def test_what_expires_is_selected_until_then(self, engine: Engine) -> None:
        shown = projection("apple", expires=LATER)
        facts = FieldIndex(address="00", form="belief", at=NOW)
        engine.write("ada", lambda unit: unit.append(document("x"), shown, now=NOW, index=VersionIndex(fields=facts)))
        with engine.open_snapshot("ada") as snapshot:
            for now, expected in ((NOW, 1), (LATER, 0)):
                assert snapshot.count(EVERYTHING, now=now) == expected
                found = snapshot.match(EVERYTHING, (KeywordQuery(text="apple"),), limit=9, count_all=True, now=now).hits
                assert len(found) == expected

    def test_what_has_no_field_index_cannot_be_asked_for_by_field(self, engine: Engine) -> None:
        engine.write("ada", lambda unit: unit.append(document("x"), projection("apple"), now=NOW))
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.count(EVERYTHING, now=NOW) == 0
            assert snapshot.count(Selection(), now=NOW) == 1

    def test_documents_come_in_the_order_asked_for_with_what_a_query_shows(self, engine: Engine) -> None:
        def work(unit: Unit) -> list[Version]:
            written = []
            for name in "abcd":
                facts = FieldIndex(address=f"address {name}", form="belief", at=NOW)
                made = document(name, f"native {name}".encode())
                written.append(unit.append(made, projection(name), now=NOW, index=VersionIndex(fields=facts)))
            unit.close_version(written[0], successor=written[1], valid_to=LATER, now=LATER)
            unit.set_verification(written[1], "contested", now=NOW)
            unit.erase(written[2], tombstone=b"tombstone_record", now=NOW)
            return written

        a, b, c, d = (version.version_id for version in engine.write("ada", work))
        with engine.open_snapshot("ada") as snapshot:
            kept = snapshot.load_documents([d, 10**9, a, c, b])
        assert [(each.document.name, each.document.native, each.address) for each in kept] == [
            (name, f"native {name}".encode(), f"address {name}") for name in "dab"
        ]
        assert [each.verification for each in kept] == ["unverified", "unverified", "contested"]
        assert [(each.is_superseded, each.closed) for each in kept] == [(False, None), (True, LATER), (False, None)]
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.load_documents([]) == []
        with engine.open_snapshot("bob") as snapshot:
            assert snapshot.load_documents([a, b]) == []
            assert snapshot.load_page(EVERYTHING, limit=9, now=NOW) == []
            assert snapshot.count(EVERYTHING, now=NOW) == 0
            assert (
                snapshot.match(EVERYTHING, (KeywordQuery(text="a b c d"),), limit=9, count_all=True, now=NOW).total == 0
            )

    @given(
        uses=st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["x", "y"]), st.integers(1, 3)), max_size=20),
        limit=st.integers(1, 4),
    )
    @EACH
    def test_an_allowance_is_of_a_sliding_window(
        self, engine: Engine, uses: list[tuple[int, str, int]], limit: int
    ) -> None:
        tenant = fresh_tenant(engine)
        now, window = NOW, 50
        spent: list[tuple[Instant, str]] = []
        for pause, name, count in uses:
            now = Instant(now + pause)
            within = sum(each == name and at > now - window for at, each in spent)
            expected = within + count <= limit

            def work(unit: Unit, name: str = name, now: Instant = now, count: int = count) -> bool:
                return unit.consume_rate(name, now=now, window_ms=window, limit=limit, count=count)

            assert engine.write(tenant, work) == expected
            spent += [(now, name)] * (count if expected else 0)

    def test_a_name_is_claimed_once_by_each_tenant(self, engine: Engine) -> None:
        def claim(tenant: str, name: str, now: Instant = NOW) -> bool:
            return engine.write(tenant, lambda unit: unit.claim_once(name, now=now))

        assert [claim("ada", "x"), claim("ada", "x"), claim("ada", "y"), claim("bob", "x")] == [True, False, True, True]
        assert not claim("ada", "x", Instant(NOW + 10**12))

        def fails(unit: Unit) -> None:
            unit.claim_once("z", now=NOW)
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            engine.write("ada", fails)
        assert claim("ada", "z")

    def test_notes_are_kept_by_kind_and_name(self, engine: Engine) -> None:
        def work(unit: Unit) -> None:
            unit.put_item("template", "b", b"1")
            unit.put_item("template", "a", bytes(range(256)))
            unit.put_item("schedule", "a", b"3")
            unit.put_item("template", "b", b"2")

        engine.write("ada", work)
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.load_items("template") == {"a": bytes(range(256)), "b": b"2"}
            assert snapshot.load_items("schedule") == {"a": b"3"}
            assert snapshot.load_items("other") == {}
        engine.write("ada", lambda unit: unit.delete_item("template", "b"))
        with engine.open_snapshot("ada") as snapshot:
            assert list(snapshot.load_items("template")) == ["a"]
        with engine.open_snapshot("bob") as snapshot:
            assert snapshot.load_items("template") == {}
