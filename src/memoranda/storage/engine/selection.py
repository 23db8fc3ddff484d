"""Selections as SQL.

Every part of a selection becomes a clause. One of them also drives: the rows are read from its index, and the other
clauses are looked up row by row. Which one has the fewest rows is counted first, up to a cap. Where every one has more,
a page is sooner found in the index of its order: what is common is never far (`walk`). What no index of `state`
answers, facets do: space, user, agent and session are facets of a version, too. Nothing from outside ever becomes SQL
text: values are bound, names are ours, and what differs between databases is in `dialect.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import orjson

from memoranda.model.instant import Instant
from memoranda.model.memory import VISIBILITIES
from memoranda.model.selection import (
    Compares,
    InGroup,
    IsAmong,
    IsNoneOf,
    IsOneOf,
    Lacks,
    Order,
    PageCursor,
    Selection,
    StatusFilter,
    Test,
    VisibleToRun,
)
from memoranda.storage.engine.database import Dialect

# After every instant that can occur: stands for "never ends".
FOREVER_MS: Final = 1 << 62
_NOW_KNOWN_MS: Final = FOREVER_MS - 1

# Texts with a column of their own (fingerprints), and the index that begins with it.
_TRIPLE: Final = {
    "subject": ("subject_key", "triple_sro"),
    "relation": ("relation_key", "triple_ros"),
    "object": ("object_key", "triple_osr"),
}
# Each holds what the next begins with, after its own.
_FOLLOWS: Final = {
    "triple_sro": "triple_ros",
    "triple_ros": "triple_osr",
    "triple_osr": "triple_sro",
}
# The same, found by a facet of the version.
_SCOPE: Final = {"user": "user_key", "agent": "agent_key", "session": "session_key"}
_PLAIN: Final = {"verification": "verification", "form": "form"}
_GROUPED: Final = {
    "subject": "subject_key",
    "relation": "relation_key",
    "session": "session_key",
    **_PLAIN,
}
_NUMBERS: Final = {
    "at": "at_ms",
    "updated": "updated_ms",
    "confidence": "confidence",
    "importance": "importance",
}
_OPERATORS: Final = {"=": "=", "!=": "<>", ">=": ">=", "<=": "<=", ">": ">", "<": "<"}
_ORDERS: Final = {
    "written": ("s.version_id", ""),
    "updated": ("s.updated_ms", "s.version_id"),
    "address": ("s.address", ""),
    "at": ("s.at_ms", "s.address"),
    "confidence": ("s.confidence", "s.address"),
    "importance": ("s.importance", "s.address"),
}
# The index that has them in this order: those that have the field.
_ORDERED: Final = {
    "address": "field_address",
    "at": "field_recent",
    "confidence": "field_confidence",
    "importance": "field_importance",
}
# Without which a version is in none of these indexes but that of addresses.
_OPTIONAL: Final = ("confidence", "importance")
# After every address.
_LAST_ADDRESS: Final = "'~'"
_HEAD: Final = (
    "s.superseded_by IS NULL AND s.erased = 0 AND s.retired_ms IS NULL AND s.status <> 'tombstoned'"
)
_STANDINGS: Final[dict[StatusFilter, str]] = {
    "live": "s.live = 1",
    "current": _HEAD,
    "unforgotten": "s.erased = 0 AND s.retired_ms IS NULL AND s.status <> 'tombstoned'",
    "recorded": "s.erased = 0 AND s.retired_ms IS NULL",
    "unerased": "s.erased = 0",
    "all": "s.retired_ms IS NULL",
}
_EXPIRED_TOO: Final = ("unerased", "all")
_STATE: Final = "state s"
_OF_TENANT: Final = "s.tenant_id = :tenant_id"


class _Driver(msgspec.Struct, frozen=True):
    """Where rows come from: FROM and the clauses that its index needs."""

    source: str
    clause: str
    # The test that it answers by itself.
    own: str = ""
    # What it reads in its own order.
    version: str = "s.version_id"
    index: str = ""
    # Where its rows can be counted without those of `state`.
    counted: tuple[str, str] | None = None


class Naming(msgspec.Struct, frozen=True):
    """How texts are named in the store of one tenant."""

    # The fingerprint of a text, and the stored name of a field.
    key: Callable[[str], bytes | None]
    field: Callable[[str], str]


class SelectionSql:
    """The SQL of one selection, with its parameters."""

    def __init__(
        self,
        selection: Selection,
        naming: Naming,
        dialect: Dialect,
        *,
        tenant_id: int,
        now: Instant,
    ) -> None:
        self.params: dict[str, Any] = {"tenant_id": tenant_id}
        self.selection = selection
        self._naming, self._dialect = naming, dialect
        self._drivers: list[_Driver] = []
        tests = [self._test(each) for each in selection.all_tests()]
        self.clauses = [*self._standing(now), *self._scope(), *tests]

    def count_drivers(self) -> str | None:
        """A query for how many rows each driver has, up to :cap; None when there is none."""
        if not self._drivers:
            return None
        return f"SELECT {', '.join(self._counting(each) for each in self._drivers)}"

    def covering(self, order: Order | None) -> tuple[int, str] | None:
        """The driver that has all that is mostly asked for in its own index, and a query for how many rows it has."""
        if order is None or order.by not in ("address", "at") or not self._is_indexed_by_field():
            return None
        for place, each in enumerate(self._drivers):
            if each.index == "triple_sro":
                return place, f"SELECT {self._counting(each)}"
        return None

    def _counting(self, driver: _Driver) -> str:
        """How many rows it has."""
        source, clause = driver.counted or (driver.source, self._by_itself(driver))
        return f"(SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {clause} LIMIT :cap) counted)"

    def _by_itself(self, driver: _Driver) -> str:
        """What its index answers: where that is one of triples, their further parts, too."""
        asked = {each.index: each.own for each in self._drivers if each.index in _FOLLOWS}
        clause, following = driver.clause, _FOLLOWS.get(driver.index)
        while following in asked and following != driver.index:
            clause, following = f"{clause} AND {asked[following]}", _FOLLOWS[following]
        return clause

    def is_soon_read(self, order: Order | None) -> bool:
        """Whether there is one driver, and it need not be counted: nothing is chosen, or it has the order itself."""
        if len(self._drivers) != 1:
            return False
        return (
            order is None
            or self.covering(order) is not None
            or self._drivers[0].index == _ORDERED.get(order.by)
        )

    def page(self, order: Order, chosen: int | None, after: PageCursor | None) -> str:
        """The query for a page by a driver, or from the index of the order: version_id, address, place."""
        driver = self._of_order(order) if chosen is None else self._drivers[chosen]
        more = self._after(order, driver, after)
        if order.by == "written" and driver.index:
            # The index has another order: its numbers are sorted by themselves, and only rows of the page are read.
            listed = f"SELECT s.version_id FROM {driver.source} WHERE {' AND '.join([self._by_itself(driver), *more])}"
            driver, more = (
                _Driver(_STATE, f"{_OF_TENANT} AND s.version_id IN ({listed})", driver.own),
                [],
            )
        return self._page(driver, order, more)

    def every(self) -> str | None:
        """A query for up to :cap rows of the only driver, with their addresses and whether they pass; None if there are
        several.
        """
        if len(self._drivers) != 1:
            return None
        driver = self._drivers[0]
        passes = " AND ".join(each for each in self.clauses if each != driver.own)
        columns = f"{driver.version}, {self._address()}, {passes}"
        return f"SELECT {columns} FROM {driver.source} WHERE {driver.clause} LIMIT :cap"

    def some(self, chosen: int) -> str:
        """The same by a driver in whatever order it has."""
        driver = self._drivers[chosen]
        columns = f"s.version_id, {self._address()}, 0.0, 0"
        return f"SELECT {columns} FROM {driver.source} WHERE {self._where(driver)} LIMIT :limit OFFSET :offset"

    def page_of_form(self, order: Order) -> str:
        """The same from what there is of a form."""
        return self._page(_Driver(self._by_index("field_address"), self._within()), order, [])

    def walk(self, order: Order, after: PageCursor | None, rows: int) -> str:
        """The same from the first rows of the index of the order."""
        driver = self._of_order(order)
        clauses = self._after(order, driver, after)
        _, ordered = _ordered(order, driver)
        column = driver.version if order.by == "written" else _ORDERS[order.by][0]
        is_by_form = order.by not in ("at", *_OPTIONAL)
        of_index = driver.clause if is_by_form else self._within(of_form=False) + _has_it(order)
        within, first = (
            " AND ".join([of_index, *clauses]),
            f"ORDER BY {ordered} LIMIT 1 OFFSET {self._bind(rows)}",
        )
        last = f"SELECT {column} FROM {driver.source} WHERE {within} {first}"
        if order.by == "address":
            bound = f"{column} <= coalesce(({last}), {_LAST_ADDRESS})"
        elif order.by == "updated" or order.descending:
            bound = f"{column} >= coalesce(({last}), {-FOREVER_MS})"
        else:
            bound = f"{column} <= coalesce(({last}), {FOREVER_MS})"
        return self._page(driver, order, [*clauses, bound])

    def count(self, chosen: int | None) -> str:
        """The query for how many there are."""
        driver = self._of_order(Order(by="address")) if chosen is None else self._drivers[chosen]
        return f"SELECT count(*) FROM {driver.source} WHERE {self._where(driver)}"

    def groups(self, by: str, chosen: int | None) -> str:
        """The query for how many there are of each, with one of them."""
        index = {"form": "field_address", "subject": "triple_sro", "relation": "triple_sro"}.get(by)
        whole = _Driver(
            _STATE if index is None or not self._is_indexed_by_field() else self._by_index(index),
            _OF_TENANT,
        )
        driver, column = whole if chosen is None else self._drivers[chosen], f"s.{_GROUPED[by]}"
        counted = f"SELECT {column}, count(*), min(s.version_id) FROM {driver.source}"
        return f"{counted} WHERE {self._where(driver)} GROUP BY {column}"

    def _page(self, driver: _Driver, order: Order, more: list[str]) -> str:
        place, ordered = _ordered(order, driver)
        return (
            f"SELECT s.version_id, {self._address()}, 0.0, {place} FROM {driver.source} "
            f"WHERE {' AND '.join([self._where(driver), *more])} ORDER BY {ordered} LIMIT :limit OFFSET :offset"
        )

    def passing(self, version_ids: Sequence[int]) -> str:
        """The query for which of some versions pass, with their addresses."""
        rows = self._dialect.rows.format(self._json(list(version_ids)), "sought")
        joined = self._dialect.join.format(rows, f"{_OF_TENANT} AND s.version_id = sought.value")
        return f"SELECT s.version_id, {self._address()} FROM {joined} WHERE {' AND '.join(self.clauses)}"

    def _address(self) -> str:
        return "s.address" if self.selection.has_fields else "''"

    def _where(self, driver: _Driver) -> str:
        return " AND ".join([driver.clause, *(each for each in self.clauses if each != driver.own)])

    def _after(self, order: Order, driver: _Driver, after: PageCursor | None) -> list[str]:
        if after is None:
            return []
        at, version_id = self._bind(after[0]), self._bind(after[1])
        if order.by == "written":
            return [f"{driver.version} > {version_id}"]
        return [f"s.updated_ms <= {at} AND (s.updated_ms < {at} OR s.version_id < {version_id})"]

    def has_order(self, order: Order) -> bool:
        """Whether an index has what is selected in this order; that of addresses has it form by form."""
        if order.by in ("written", "updated"):
            return True
        is_whole = order.by != "address" or self.selection.form is not None or not self._drivers
        return is_whole and self._is_indexed_by_field()

    def _of_order(self, order: Order) -> _Driver:
        selection = self.selection
        if order.by == "updated":
            one = None if selection.or_no_space else selection.space
            index = "state_recent" if one is None else "state_listed"
            space = "" if one is None else f" AND s.space = {self._bind(one)}"
            return _Driver(self._by_index(index), _OF_TENANT + space)
        if order.by == "written":
            # The tombstones of what was erased have no facets; everything else has that of its space.
            if selection.space is None or selection.or_no_space or selection.status_filter == "all":
                return _Driver(_STATE, _OF_TENANT)
            return self._facet_driver(*space_facet(selection.space))
        if not self._is_indexed_by_field():
            return _Driver(_STATE, _OF_TENANT)
        index = _ORDERED[order.by]
        return _Driver(self._by_index(index), self._within() + _has_it(order), index=index)

    def _within(self, *, of_form: bool = True) -> str:
        """What the indexes of fields begin with, and the form, if one is asked for."""
        space, form = self.selection.space, self.selection.form
        only = f" AND s.form = {self._bind(form)}" if of_form and form is not None else ""
        return f"{_OF_TENANT} AND s.live = 1 AND s.address IS NOT NULL AND s.space = {self._bind(space)}{only}"

    def count_form(self, order: Order) -> str | None:
        """A query for how many of the form there are, up to :cap, where that decides which index is read."""
        if order.by not in _ORDERED or order.by == "address" or self.selection.form is None:
            return None
        rows = f"{self._by_index('field_address')} WHERE {self._within()}"
        return f"SELECT count(*) FROM (SELECT 1 FROM {rows} LIMIT :cap) counted"

    def forms(self) -> str:
        """A query for the forms that there are, each found by one look into the index."""
        least = f"SELECT min(s.form) FROM {self._by_index('field_address')} WHERE {self._within()} AND s.form > "
        return (
            f"WITH RECURSIVE found (form) AS ({least}'' UNION ALL SELECT ({least}found.form) FROM found "
            "WHERE found.form IS NOT NULL) SELECT form FROM found WHERE form IS NOT NULL"
        )

    def _is_indexed_by_field(self) -> bool:
        selection = self.selection
        is_live = selection.at is None and selection.status_filter == "live"
        return (
            selection.has_fields
            and is_live
            and selection.space is not None
            and not selection.or_no_space
        )

    def _facet_driver(self, name: str, *texts: str, own: str = "") -> _Driver:
        named = self._bind(self._naming.field(name))
        clause = (
            f"d.tenant_id = :tenant_id AND d.name = {named} AND d.value_key IN {self._keys(texts)}"
        )
        return _Driver(
            self._beside("facet"), clause, own, version="d.version_id", counted=("facet d", clause)
        )

    def _by_index(self, name: str) -> str:
        return self._dialect.hint.format(_STATE, name)

    # --- clauses -----------------------------------------------------------------------------------------

    def _standing(self, now: Instant) -> list[str]:
        selection = self.selection
        if selection.at is not None:
            return self._valid(selection.at, now)
        found = [_STANDINGS[selection.status_filter]]
        if selection.status_filter not in _EXPIRED_TOO:
            found.append(self._unexpired(now))
        if selection.in_force:
            found.append(self._in_force(now))
        return found

    def _in_force(self, now: Instant) -> str:
        """What is live and out of its valid time is little: it is looked up, so that other indexes answer alone."""
        moment = self._bind(now)
        outside = {
            "state_ends": f"valid_to_ms <= {moment}",
            "state_begins": f"valid_from_ms > recorded_ms AND valid_from_ms > {moment}",
        }
        listed = (
            f"SELECT version_id FROM {self._dialect.hint.format('state', index)} "
            f"WHERE tenant_id = :tenant_id AND live = 1 AND {clause}"
            for index, clause in outside.items()
        )
        return f"s.version_id NOT IN ({' UNION ALL '.join(listed)})"

    def _unexpired(self, now: Instant) -> str:
        return f"coalesce(s.expires_ms, {FOREVER_MS}) > {self._bind(now)}"

    def _valid(self, at: Instant, now: Instant) -> list[str]:
        """Both timelines: what was true at an instant, as far as it was known at another."""
        known_at = self.selection.known_at
        moment, known = self._bind(at), self._bind(_NOW_KNOWN_MS if known_at is None else known_at)
        ends = f"CASE WHEN s.closed_ms > {known} THEN s.declared_to_ms ELSE s.valid_to_ms END"
        # What was retracted never was true; since when that is known, nobody noted.
        stated = [] if known_at is not None else ["s.verification <> 'retracted'"]
        return [
            "s.erased = 0 AND s.status <> 'tombstoned'",
            *stated,
            f"s.valid_from_ms <= {moment}",
            f"coalesce({ends}, {FOREVER_MS}) > {moment}",
            f"s.recorded_ms <= {known}",
            f"coalesce(s.retired_ms, {FOREVER_MS}) > {known}",
            self._unexpired(now if known_at is None else max(now, known_at)),
        ]

    def _scope(self) -> list[str]:
        selection = self.selection
        found = [f"s.space = {self._bind(selection.space)}"] if selection.space is not None else []
        if selection.or_no_space:
            found = [f"s.space IN {self._values((selection.space or '', ''))}"]
        for name, column in _SCOPE.items():
            value = getattr(selection, name)
            if value is not None:
                found.append(self._scoped(name, column, (value,)))
        if selection.visibilities is not None and set(selection.visibilities) != set(VISIBILITIES):
            found.append(f"s.visibility IN {self._values(selection.visibilities)}")
        for column, values in (("kind", selection.kinds), ("status", selection.statuses)):
            if values is not None:
                found.append(f"s.{column} IN {self._values(values)}")
        if selection.has_fields:
            found.append("s.address IS NOT NULL")
            found.append(
                "s.form > ''"
                if selection.form is None
                else f"s.form = {self._bind(selection.form)}"
            )
        if selection.standard is not None:
            found.append(
                "EXISTS (SELECT 1 FROM version v WHERE v.tenant_id = s.tenant_id AND v.version_id = s.version_id "
                f"AND v.standard = {self._bind(selection.standard)})"
            )
        if selection.exportable:
            found.append("s.exportable = 1")
        if selection.redacted is not None:
            found.append(f"s.redacted = {int(selection.redacted)}")
        if selection.redacted:
            self._drivers.append(
                _Driver(self._by_index("state_redacted"), f"{_OF_TENANT} AND s.redacted = 1")
            )
        return found

    def _scoped(self, name: str, column: str, texts: tuple[str, ...]) -> str:
        """A dimension that has one of these values, which are facets of the version, too."""
        equals = f"s.{column} IN {self._keys(texts)}"
        self._drivers.append(self._facet_driver(scope_facet(name), *texts, own=equals))
        return equals

    def _bind(self, value: Any) -> str:
        name = f"p{len(self.params)}"
        self.params[name] = value
        return f":{name}"

    def _json(self, value: Any) -> str:
        return self._bind(orjson.dumps(value).decode())

    def _values(self, values: tuple[str, ...]) -> str:
        return (
            f"({self._bind(values[0])})"
            if len(values) == 1
            else self._dialect.values.format(self._json(values))
        )

    def _test(self, test: Test) -> str:
        if isinstance(test, IsAmong):
            return self._among(test)
        if isinstance(test, Compares):
            return self._compares(test)
        if isinstance(test, InGroup):
            return self._in_group(test)
        if isinstance(test, Lacks):
            return f"s.{_NUMBERS[test.name]} IS NULL"
        if isinstance(test, VisibleToRun):
            own = f"w.tenant_id = s.tenant_id AND w.run_id = {self._bind(test.run_id)} AND w.version_id = s.version_id"
            there = f"s.version_id <= {self._bind(test.version_seq)}"
            return f"({there} OR EXISTS (SELECT 1 FROM run_write w WHERE {own}))"
        if test.name in _TRIPLE or test.name in _SCOPE:
            return self._keyed(test)
        return self._plain(test) if test.name in _PLAIN else self._facet(test)

    def _keyed(self, test: IsOneOf | IsNoneOf) -> str:
        column, index = _TRIPLE.get(test.name) or (_SCOPE[test.name], "")
        if isinstance(test, IsNoneOf):
            differs = f"s.{column} NOT IN {self._keys(test.texts)}"
            return (
                f"(s.{column} IS NULL OR {differs})"
                if test.or_missing
                else f"s.{column} IS NOT NULL AND {differs}"
            )
        if test.or_missing:
            return f"(s.{column} IS NULL OR s.{column} IN {self._keys(test.texts)})"
        if not index:
            return self._scoped(test.name, column, test.texts)
        return self._by_triple(test.name, f"s.{column} IN {self._keys(test.texts)}")

    def _by_triple(self, name: str, equals: str) -> str:
        index = _TRIPLE[name][1]
        self._drivers.append(
            _Driver(self._by_index(index), f"{_OF_TENANT} AND {equals}", equals, index=index)
        )
        return equals

    def _in_group(self, test: InGroup) -> str:
        column, key = f"s.{_GROUPED[test.name]}", self._bind(test.key)
        if test.key is None:
            return f"{column} IS NULL"
        if test.name in _TRIPLE:
            return self._by_triple(test.name, f"{column} = {key}")
        return f"{column} = {key}"

    def _plain(self, test: IsOneOf | IsNoneOf) -> str:
        negation = "NOT " if isinstance(test, IsNoneOf) else ""
        return f"s.{_PLAIN[test.name]} {negation}IN {self._dialect.values.format(self._json(test.texts))}"

    def _facet(self, test: IsOneOf | IsNoneOf) -> str:
        name, listed = self._bind(self._naming.field(test.name)), self._keys(test.texts)
        present = (
            "EXISTS (SELECT 1 FROM facet f WHERE f.tenant_id = s.tenant_id AND f.version_id = s.version_id "
            f"AND f.name = {name})"
        )
        equals = (
            f"EXISTS (SELECT 1 FROM facet f WHERE f.tenant_id = s.tenant_id AND f.name = {name} "
            f"AND f.value_key IN {listed} AND f.version_id = s.version_id)"
        )
        if isinstance(test, IsNoneOf):
            return f"NOT {equals}" if test.or_missing else f"{present} AND NOT {equals}"
        if test.or_missing:
            return f"({equals} OR NOT {present})"
        if len(test.texts) == 1:
            self._drivers.append(self._facet_driver(test.name, *test.texts, own=equals))
        return equals

    def _beside(self, table: str) -> str:
        return self._dialect.join.format(
            f"{table} d", "s.tenant_id = d.tenant_id AND s.version_id = d.version_id"
        )

    def _compares(self, test: Compares) -> str:
        operator, number = _OPERATORS[test.operator], self._bind(test.number)
        if test.name in _NUMBERS:
            clause, index = f"s.{_NUMBERS[test.name]} {operator} {number}", _ORDERED.get(test.name)
            if index is not None and self._is_indexed_by_field() and test.operator != "!=":
                self._drivers.append(
                    _Driver(self._by_index(index), f"{self._within()} AND {clause}", index=index)
                )
            return clause
        name = self._bind(self._naming.field(test.name))
        if test.operator != "!=":
            clause = (
                f"d.tenant_id = :tenant_id AND d.name = {name} AND d.number {operator} {number}"
            )
            self._drivers.append(
                _Driver(self._beside("measure"), clause, counted=("measure d", clause))
            )
        return (
            "EXISTS (SELECT 1 FROM measure m WHERE m.tenant_id = s.tenant_id AND m.version_id = s.version_id "
            f"AND m.name = {name} AND m.number {operator} {number})"
        )

    def _among(self, test: IsAmong) -> str:
        listed = self._json(test.version_ids)
        within = f"s.version_id IN {self._dialect.numbers.format(listed)}"
        if test.or_verification is not None:
            within = f"({within} OR s.verification = {self._bind(test.or_verification)})"
        elif not test.negated:
            rows = self._dialect.rows.format(listed, "d")
            joined = self._dialect.join.format(rows, f"{_OF_TENANT} AND s.version_id = d.value")
            self._drivers.append(_Driver(joined, _OF_TENANT))
        return f"NOT {within}" if test.negated else within

    def _keys(self, texts: tuple[str, ...]) -> str:
        keys = [key for key in map(self._naming.key, texts) if key is not None]
        if len(keys) == 1:
            return f"({self._bind(keys[0])})"
        return self._dialect.keys.format(self._json([key.hex() for key in keys]))


def scope_facet(dimension: str) -> str:
    """The facet of a user, an agent or a session: no field of any standard has a space in its name."""
    return f"scope {dimension}"


def space_facet(space: str) -> tuple[str, str]:
    """The facet of a space and its value, which is never empty: what is in no space is found by that."""
    return "scope space", f" {space}"


def _ordered(order: Order, driver: _Driver) -> tuple[str, str]:
    """The place of a row, and the ORDER BY."""
    by, then = _ORDERS[order.by]
    if order.by == "written":
        return driver.version, driver.version
    if order.by == "updated":
        return by, f"{by} DESC, {then} DESC"
    if not then:
        return "0", by
    # Its own index has none without the field, which come last.
    last = f"{by} IS NULL, " if order.by in _OPTIONAL and driver.index != _ORDERED[order.by] else ""
    return "0", f"{last}{by}{' DESC' if order.descending else ''}, {then}"


def _has_it(order: Order) -> str:
    """What an index that not everything is in asks for."""
    return f" AND {_ORDERS[order.by][0]} IS NOT NULL" if order.by in _OPTIONAL else ""
