"""Selections as SQL.

Every test becomes a clause. One of them also drives: the rows are read from its index, and the other tests are
looked up row by row. Which one has the fewest rows is counted first, up to a cap; SQLite's own planner has no
statistics here and would guess. Nothing from outside ever becomes SQL text: values are bound, names are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from memoranda.model.facts import Compares, IsAmong, IsNoneOf, IsOneOf, Order, Selection, Test
from memoranda.model.memory import VISIBILITIES

# Rows are counted up to the first; only when every index has as many, up to the next.
COUNT_CAPS: Final = (64, 256, 4_096)

# Texts with a column of their own (fingerprints), and the index that begins with it.
_KEYS: Final = {
    "subject": ("subject_key", "triple_sro"),
    "relation": ("relation_key", "triple_ros"),
    "object": ("object_key", "triple_osr"),
    "user": ("user_key", "state_user"),
    "session": ("session_key", "state_session_recent"),
}
_PLAIN: Final = {"verification": "verification", "form": "form"}
_NUMBERS: Final = {"at": "at_ms", "updated": "updated_ms", "confidence": "confidence", "importance": "importance"}
_OPERATORS: Final = {"=": "=", "!=": "<>", ">=": ">=", "<=": "<=", ">": ">", "<": "<"}
_ORDERS: Final = {
    "at": "s.at_ms",
    "confidence": "s.confidence IS NULL, s.confidence",
    "importance": "s.importance IS NULL, s.importance",
}
_NOT_FORGOTTEN: Final = "s.retired_ms IS NULL AND s.status <> 'tombstoned'"


@dataclass(frozen=True, slots=True)
class _Driver:
    """Where rows come from: FROM and the clauses that its index needs."""

    source: str
    clause: str
    # The test that it answers by itself.
    own: str = ""


class SelectionSql:
    """The SQL of one selection, with its parameters."""

    def __init__(
        self,
        selection: Selection,
        key: Callable[[str], bytes | None],
        name: Callable[[str], str],
        params: dict[str, Any],
    ) -> None:
        """`key` gives the fingerprint of a text, `name` the stored name of a field."""
        self._key, self._name = key, name
        self.params = params
        self._selection = selection
        self._drivers: list[_Driver] = []
        self.clauses = [*self._liveness(), *(self._test(each) for each in selection.tests)]

    def count_drivers(self) -> str | None:
        """A query for how many rows each driver has, up to :cap; None when there is nothing to choose."""
        if len(self._drivers) < 2:
            return None
        counted = (
            f"(SELECT count(*) FROM (SELECT 1 FROM {each.source} WHERE {each.clause} LIMIT :cap))"
            for each in self._drivers
        )
        return f"SELECT {', '.join(counted)}"

    def page(self, order: Order, chosen: int) -> str:
        """The query for a page: version_id and address."""
        driver = self._driver(chosen, order)
        return (
            f"SELECT s.version_id, s.address FROM {driver.source} WHERE {self._where(driver)} "
            f"ORDER BY {_order(order)} LIMIT :limit OFFSET :offset"
        )

    def count(self, chosen: int) -> str:
        """The query for how many there are."""
        driver = self._driver(chosen, Order(by="at"))
        return f"SELECT count(*) FROM {driver.source} WHERE {self._where(driver)}"

    def scored(self) -> str:
        """The query for the best of what holds one of some weighted words (BM25 without repetitions)."""
        score = "c.weight / (1.0 + :k1 * (1.0 - :b + :b * s.term_count / :mean_terms))"
        terms = "SELECT value ->> 0 AS expression, value ->> 1 AS weight FROM json_each(:terms)"
        holding = "term CROSS JOIN search f ON f.search MATCH term.expression"
        candidates = f"SELECT f.rowid AS version_id, sum(term.weight) AS weight FROM {holding} GROUP BY f.rowid"
        joined = "state s ON s.tenant_id = :tenant_id AND s.version_id = c.version_id"
        return (
            f"WITH term AS MATERIALIZED ({terms}) "
            f"SELECT s.version_id, s.address, {score} AS lexical FROM ({candidates}) c CROSS JOIN {joined} "
            f"WHERE {' AND '.join(self.clauses)} ORDER BY lexical DESC, s.address LIMIT :limit"
        )

    def searched(self, columns: str, tail: str) -> str:
        """The query for all that match an expression of words."""
        joined = "search c CROSS JOIN state s ON s.tenant_id = :tenant_id AND s.version_id = c.rowid"
        clauses = ["c.search MATCH :expression", *self.clauses]
        return f"SELECT {columns} FROM {joined} WHERE {' AND '.join(clauses)} {tail}"

    def _where(self, driver: _Driver) -> str:
        return " AND ".join([driver.clause, *(each for each in self.clauses if each != driver.own)])

    def _driver(self, chosen: int, order: Order) -> _Driver:
        if self._drivers:
            return self._drivers[chosen]
        selection = self._selection
        if selection.space is None or not selection.current:
            return _Driver("state s", "s.tenant_id = :tenant_id")
        typed = "field_time" if order.by == "at" else "field_address"
        index = "field_recent" if selection.form is None else typed
        return _Driver(f"state s INDEXED BY {index}", "s.tenant_id = :tenant_id")

    def _liveness(self) -> list[str]:
        selection = self._selection
        found = ["ifnull(s.expires_ms, :forever_ms) > :now_ms"]
        if selection.field_indexes:
            found.append("s.address IS NOT NULL")
            found.append("s.form > ''" if selection.form is None else f"s.form = {self._bind(selection.form)}")
        found.append("s.live = 1" if selection.current else f"s.erased = 0 AND {_NOT_FORGOTTEN}")
        if selection.space is not None:
            found.append(f"s.space = {self._bind(selection.space)}")
        if selection.visibilities is not None and set(selection.visibilities) != set(VISIBILITIES):
            found.append(f"s.visibility IN (SELECT value FROM json_each({self._json(list(selection.visibilities))}))")
        return found

    def _bind(self, value: Any) -> str:
        name = f"p{len(self.params)}"
        self.params[name] = value
        return f":{name}"

    def _json(self, value: Any) -> str:
        return self._bind(orjson.dumps(value).decode())

    def _test(self, test: Test) -> str:
        if isinstance(test, IsAmong):
            return self._among(test)
        if isinstance(test, Compares):
            return self._compares(test)
        if test.name in _KEYS:
            return self._keyed(test)
        return self._plain(test) if test.name in _PLAIN else self._facet(test)

    def _keyed(self, test: IsOneOf | IsNoneOf) -> str:
        column, index = _KEYS[test.name]
        listed = self._keys(test.texts)
        if isinstance(test, IsNoneOf):
            differs = f"s.{column} NOT IN {listed}"
            return f"(s.{column} IS NULL OR {differs})" if test.or_missing else f"s.{column} IS NOT NULL AND {differs}"
        equals = f"s.{column} IN {listed}"
        if test.or_missing:
            return f"(s.{column} IS NULL OR {equals})"
        clause = f"s.tenant_id = :tenant_id AND {equals}"
        if test.name == "session":
            clause += f" AND {_NOT_FORGOTTEN}"
        self._drivers.append(_Driver(f"state s INDEXED BY {index}", clause, equals))
        return equals

    def _plain(self, test: IsOneOf | IsNoneOf) -> str:
        negation = "NOT " if isinstance(test, IsNoneOf) else ""
        return f"s.{_PLAIN[test.name]} {negation}IN (SELECT value FROM json_each({self._json(list(test.texts))}))"

    def _facet(self, test: IsOneOf | IsNoneOf) -> str:
        name, listed = self._bind(self._name(test.name)), self._keys(test.texts)
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
            joined = "facet d CROSS JOIN state s ON s.tenant_id = d.tenant_id AND s.version_id = d.version_id"
            clause = f"d.tenant_id = :tenant_id AND d.name = {name} AND d.value_key IN {listed}"
            self._drivers.append(_Driver(joined, clause, equals))
        return equals

    def _compares(self, test: Compares) -> str:
        operator, number = _OPERATORS[test.operator], self._bind(test.number)
        if test.name in _NUMBERS:
            clause = f"s.{_NUMBERS[test.name]} {operator} {number}"
            selection = self._selection
            if test.name == "at" and selection.current and selection.space is not None and test.operator != "!=":
                index = "field_recent" if selection.form is None else "field_time"
                whole = " AND ".join(["s.tenant_id = :tenant_id", *self._liveness_of_index(), clause])
                self._drivers.append(_Driver(f"state s INDEXED BY {index}", whole))
            return clause
        name = self._bind(self._name(test.name))
        if test.operator != "!=":
            joined = "measure d CROSS JOIN state s ON s.tenant_id = d.tenant_id AND s.version_id = d.version_id"
            clause = f"d.tenant_id = :tenant_id AND d.name = {name} AND d.number {operator} {number}"
            self._drivers.append(_Driver(joined, clause))
        return (
            "EXISTS (SELECT 1 FROM measure m WHERE m.tenant_id = s.tenant_id AND m.version_id = s.version_id "
            f"AND m.name = {name} AND m.number {operator} {number})"
        )

    def _liveness_of_index(self) -> list[str]:
        selection = self._selection
        found = ["s.live = 1", "s.address IS NOT NULL", f"s.space = {self._bind(selection.space)}"]
        return found if selection.form is None else [*found, f"s.form = {self._bind(selection.form)}"]

    def _among(self, test: IsAmong) -> str:
        listed = self._json(list(test.version_ids))
        within = f"s.version_id IN (SELECT value FROM json_each({listed}))"
        if test.or_verification is not None:
            within = f"({within} OR s.verification = {self._bind(test.or_verification)})"
        elif not test.negated:
            joined = f"json_each({listed}) d CROSS JOIN state s ON s.tenant_id = :tenant_id AND s.version_id = d.value"
            self._drivers.append(_Driver(joined, "s.tenant_id = :tenant_id"))
        return f"NOT {within}" if test.negated else within

    def _keys(self, texts: tuple[str, ...]) -> str:
        keys = [key for key in map(self._key, texts) if key is not None]
        if len(keys) == 1:
            return f"({self._bind(keys[0])})"
        return f"(SELECT unhex(value) FROM json_each({self._json([key.hex() for key in keys])}))"


def _order(order: Order) -> str:
    if order.by == "address":
        return "s.address"
    return f"{_ORDERS[order.by]}{' DESC' if order.descending else ''}, s.address"
