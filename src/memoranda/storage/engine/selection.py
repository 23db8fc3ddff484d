"""Selections as SQL.

Theory of operation. Every part of a selection becomes a clause of WHERE. A clause that an index answers is also a
*driver*: the rows are read from its index, and the other clauses are checked row by row. `paging.py` chooses the
driver: it counts the rows of each, up to a cap, and takes the one with the fewest. Where every driver has many rows, a
page is sooner found by walking the index of its order (`build_walk`), because what is common is never far. Tests that
no index of `state` answers are answered by facets; space, user, agent and session are facets of a version, too.

No text from outside ever becomes SQL: values are bound, names are ours, and the pieces that differ between databases
come from the `Dialect`. All methods named `build_…` return the text of a query for the bound `params`.

A selection becomes SQL in two steps. The constructor translates every condition once: into the list `clauses`, and into
a `_Driver` if an index answers it. The `build_…` methods then combine one driver with the remaining clauses for a page,
a count or groups. So a new kind of test needs a case in `_test_clause`, and a driver only if it may be the narrowest
condition of a large store. Rules for changes: a clause may only read columns of `s` (the table `state`) and correlated
subqueries, because it is used with every driver. A clause must also be correct for versions that are not live, since
lists of history and `as_of` queries use the same clauses. `make test-postgres` checks that each statement uses the
index that its driver names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import orjson

from memoranda.model.instant import Instant
from memoranda.model.memory import VISIBILITIES
from memoranda.model.selection import (
    MONTH_MS,
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
from memoranda.storage.crypto.fingerprints import scope_facet, space_facet
from memoranda.storage.engine.database import Dialect

# Milliseconds after every instant that can occur: stands for "never ends".
FOREVER_MS: Final = 1 << 62
_NOW_KNOWN_MS: Final = FOREVER_MS - 1

# Fields whose fingerprint has a column of its own, and the index that begins with that column.
_TRIPLE_COLUMNS: Final = {
    "subject": ("subject_key", "triple_sro"),
    "relation": ("relation_key", "triple_ros"),
    "object": ("object_key", "triple_osr"),
}
# For each index of triples, the one that begins with its second column.
_NEXT_TRIPLE_INDEX: Final = {
    "triple_sro": "triple_ros",
    "triple_ros": "triple_osr",
    "triple_osr": "triple_sro",
}
# Columns with the fingerprints of scope fields. They have no index; searches use the facet of the same name.
_SCOPE_COLUMNS: Final = {"user": "user_key", "agent": "agent_key", "session": "session_key"}
_PLAIN_COLUMNS: Final = {"verification": "verification", "form": "form"}
_GROUP_COLUMNS: Final = {
    "space": "space",
    "kind": "kind",
    "user": "user_key",
    "agent": "agent_key",
    "subject": "subject_key",
    "relation": "relation_key",
    "session": "session_key",
    # The number of the month in which a memory was updated last.
    "month": f"updated_ms / {MONTH_MS}",
    **_PLAIN_COLUMNS,
}
_NUMBER_COLUMNS: Final = {
    "at": "at_ms",
    "updated": "updated_ms",
    "confidence": "confidence",
    "importance": "importance",
}
_OPERATORS: Final = {"=": "=", "!=": "<>", ">=": ">=", "<=": "<=", ">": ">", "<": "<"}
_ORDER_COLUMNS: Final = {
    "written": ("s.version_id", ""),
    "updated": ("s.updated_ms", "s.version_id"),
    "address": ("s.address", ""),
    "at": ("s.at_ms", "s.address"),
    "confidence": ("s.confidence", "s.address"),
    "importance": ("s.importance", "s.address"),
}
# The index that has the rows in this order. It holds only rows with the field.
_ORDER_INDEXES: Final = {
    "address": "field_address",
    "at": "field_recent",
    "confidence": "field_confidence",
    "importance": "field_importance",
}
# Fields without which a version is only in the index of addresses.
_OPTIONAL_FIELDS: Final = ("confidence", "importance")
# The SQL text that sorts after every address.
_LAST_ADDRESS: Final = "'~'"
_IS_HEAD: Final = (
    "s.superseded_by IS NULL AND s.erased = 0 AND s.retired_ms IS NULL AND s.status <> 'tombstoned'"
)
_STATUS_CLAUSES: Final[dict[StatusFilter, str]] = {
    "live": "s.live = 1",
    "current": _IS_HEAD,
    "unforgotten": "s.erased = 0 AND s.retired_ms IS NULL AND s.status <> 'tombstoned'",
    "recorded": "s.erased = 0 AND s.retired_ms IS NULL",
    "unerased": "s.erased = 0",
    "all": "s.retired_ms IS NULL",
}
_IS_OPEN: Final = "s.superseded_by IS NULL"
_IS_UNRETIRED: Final = "s.retired_ms IS NULL"
_INCLUDES_EXPIRED: Final = ("unerased", "all")
# Status filters that select no version that was superseded.
_HEADS_ONLY: Final = ("live", "current")
_STATE_TABLE: Final = "state s"
_OF_TENANT: Final = "s.tenant_id = :tenant_id"


class _Driver(msgspec.Struct, frozen=True):
    """A source of rows: the text for FROM, and the clause that its index answers.

    `clause` selects rows by the index. `own_test` is the clause in `SelectionSql.clauses` that is true for all these
    rows, so that it is not checked a second time; it is empty if the driver implies no single clause.
    """

    source: str
    clause: str
    # The clause of the selection that need not be checked for its rows.
    own_test: str = ""
    # The column with the version id, in the order in which the rows are read.
    version_column: str = "s.version_id"
    index: str = ""
    # A table and clause by which its rows are counted without reading `state`.
    count_source: tuple[str, str] | None = None


class TextKeys(msgspec.Struct, frozen=True):
    """The functions that turn a text into its fingerprint, a field into its stored name, and a space into the values
    that stand for it, for one tenant.
    """

    value_key: Callable[[str], bytes | None]
    field_name: Callable[[str], str]
    space_spellings: Callable[[str], tuple[str, ...]]


class SelectionSql:
    """The SQL of one selection, with its parameters.

    `params` grows with each bound value, so the methods may be called in any order, but the texts of one instance must
    be run with its own `params`. Build a new instance for each statement that is run with other values of `:limit`,
    `:offset` or `:cap`, or copy the params, as `Paging` does.
    """

    def __init__(
        self,
        selection: Selection,
        text_keys: TextKeys,
        dialect: Dialect,
        *,
        tenant_id: int,
        now: Instant,
    ) -> None:
        self.params: dict[str, object] = {"tenant_id": tenant_id}
        self.selection = selection
        self._text_keys, self._dialect = text_keys, dialect
        self._drivers: list[_Driver] = []
        tests = [self._test_clause(test) for test in selection.all_tests()]
        status, line = self._status_clauses(now), self._line_clauses(now)
        self.clauses = [*status, *self._scope_clauses(), *tests, *line]

    def build_driver_counts(self) -> str | None:
        """Count the rows of each driver, up to :cap; None if there is no driver."""
        if not self._drivers:
            return None
        counts = [self._build_driver_count(driver) for driver in self._drivers]
        return f"SELECT {', '.join(counts)}"

    def find_covering(self, order: Order | None) -> tuple[int, str] | None:
        """Return the position of the driver whose index alone answers the usual queries, and a query that counts its
        rows.

        Only the index of subject, relation and object holds every column that such a query reads. A driver with it is
        worth reading even if it has many rows, because no row of `state` has to be fetched.
        """
        if order is None or order.by not in ("address", "at") or not self._is_indexed_by_field():
            return None
        for position, driver in enumerate(self._drivers):
            if driver.index == "triple_sro":
                return position, f"SELECT {self._build_driver_count(driver)}"
        return None

    def _build_driver_count(self, driver: _Driver) -> str:
        """Count the rows of a driver, up to :cap."""
        source, clause = driver.count_source or (driver.source, self._index_clause(driver))
        return f"(SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {clause} LIMIT :cap) counted)"

    def _index_clause(self, driver: _Driver) -> str:
        """Return the clause that a driver's index answers. An index of triples also answers its next columns.

        Example: with tests of subject and relation, the driver of the subject index gets both clauses, because
        `triple_sro` begins with subject and relation. A test of the relation alone would use `triple_ros`.
        """
        triple_tests = {
            other.index: other.own_test
            for other in self._drivers
            if other.index in _NEXT_TRIPLE_INDEX
        }
        clause, next_index = driver.clause, _NEXT_TRIPLE_INDEX.get(driver.index)
        while next_index in triple_tests and next_index != driver.index:
            clause = f"{clause} AND {triple_tests[next_index]}"
            next_index = _NEXT_TRIPLE_INDEX[next_index]
        return clause

    def needs_no_counts(self, order: Order | None) -> bool:
        """Return True if there is one driver and its rows need not be counted: it has the order, or none is needed."""
        if len(self._drivers) != 1:
            return False
        return (
            order is None
            or self.find_covering(order) is not None
            or self._drivers[0].index == _ORDER_INDEXES.get(order.by)
        )

    def build_page(self, order: Order, driver_index: int | None, after: PageCursor | None) -> str:
        """Build a page from a driver, or from the index of the order: version_id, address, score, position."""
        driver = self._order_driver(order) if driver_index is None else self._drivers[driver_index]
        clauses = self._cursor_clauses(order, driver, after)
        if order.by == "written" and driver.index:
            # The index has another order: its version ids are sorted alone, and only the rows of the page are read.
            within = " AND ".join([self._index_clause(driver), *clauses])
            version_ids = f"SELECT s.version_id FROM {driver.source} WHERE {within}"
            clause = f"{_OF_TENANT} AND s.version_id IN ({version_ids})"
            driver, clauses = _Driver(_STATE_TABLE, clause, driver.own_test), []
        return self._build_page(driver, order, clauses)

    def build_unfiltered(self) -> str | None:
        """Build a query for up to :cap rows of the only driver; None if there is not exactly one.

        Its columns are version_id, address, and if the row passes the other tests.
        """
        if len(self._drivers) != 1:
            return None
        driver = self._drivers[0]
        passes = " AND ".join(clause for clause in self.clauses if clause != driver.own_test)
        columns = f"{driver.version_column}, {self._address_column()}, {passes}"
        return f"SELECT {columns} FROM {driver.source} WHERE {driver.clause} LIMIT :cap"

    def build_unordered(self, driver_index: int) -> str:
        """Build a page from a driver, in the order that its index happens to have."""
        driver = self._drivers[driver_index]
        columns = f"s.version_id, {self._address_column()}, 0.0, 0"
        return f"SELECT {columns} FROM {driver.source} WHERE {self._where(driver)} LIMIT :limit OFFSET :offset"

    def build_form_page(self, order: Order) -> str:
        """Build a page by sorting all rows of a form."""
        return self._build_page(
            _Driver(self._hint("field_address"), self._field_prefix()), order, []
        )

    def build_walk(self, order: Order, after: PageCursor | None, rows: int) -> str:
        """Build a page from the first `rows` rows of the index of the order, or fewer results than a page has.

        The inner query finds the value of the last of these rows, and the outer one reads up to this value. Without
        this limit, a page of a rare condition would read the complete index. If fewer results than a page are returned,
        the caller does not know if there are more, and reads the page from a driver instead.
        """
        driver = self._order_driver(order)
        clauses = self._cursor_clauses(order, driver, after)
        _, order_by = _order_columns(order, driver)
        column = driver.version_column if order.by == "written" else _ORDER_COLUMNS[order.by][0]
        is_by_form = order.by not in ("at", *_OPTIONAL_FIELDS)
        of_index = (
            driver.clause
            if is_by_form
            else self._field_prefix(of_form=False) + _not_null_clause(order)
        )
        within = " AND ".join([of_index, *clauses])
        last_row = f"ORDER BY {order_by} LIMIT 1 OFFSET {self._bind(rows)}"
        last = f"SELECT {column} FROM {driver.source} WHERE {within} {last_row}"
        if order.by == "address":
            bound = f"{column} <= coalesce(({last}), {_LAST_ADDRESS})"
        elif order.by == "updated" or order.descending:
            bound = f"{column} >= coalesce(({last}), {-FOREVER_MS})"
        else:
            bound = f"{column} <= coalesce(({last}), {FOREVER_MS})"
        return self._build_page(driver, order, [*clauses, bound])

    def build_count(self, driver_index: int | None) -> str:
        """Count the selected versions."""
        driver = (
            self._order_driver(Order(by="address"))
            if driver_index is None
            else self._drivers[driver_index]
        )
        return f"SELECT count(*) FROM {driver.source} WHERE {self._where(driver)}"

    def build_groups(self, by: str, driver_index: int | None) -> str:
        """Count the selected versions of each group, with the first version of each."""
        index = {"form": "field_address", "subject": "triple_sro", "relation": "triple_sro"}.get(by)
        column = f"s.{_GROUP_COLUMNS[by]}"
        if driver_index is not None:
            driver = self._drivers[driver_index]
        elif index is None or not self._is_indexed_by_field():
            driver = _Driver(_STATE_TABLE, _OF_TENANT)
        else:
            driver = _Driver(self._hint(index), _OF_TENANT)
        count_query = f"SELECT {column}, count(*), min(s.version_id) FROM {driver.source}"
        return f"{count_query} WHERE {self._where(driver)} GROUP BY {column}"

    def _build_page(self, driver: _Driver, order: Order, clauses: list[str]) -> str:
        position, order_by = _order_columns(order, driver)
        return (
            f"SELECT s.version_id, {self._address_column()}, 0.0, {position} FROM {driver.source} "
            f"WHERE {' AND '.join([self._where(driver), *clauses])} ORDER BY {order_by} LIMIT :limit OFFSET :offset"
        )

    def build_filter(self, version_ids: Sequence[int]) -> str:
        """Build a query for those of some versions that pass: version_id, address."""
        rows = self._dialect.rows.format(self._json(list(version_ids)), "sought")
        joined_rows = self._dialect.join.format(
            rows, f"{_OF_TENANT} AND s.version_id = sought.value"
        )
        return f"SELECT s.version_id, {self._address_column()} FROM {joined_rows} WHERE {' AND '.join(self.clauses)}"

    def _address_column(self) -> str:
        return "s.address" if self.selection.has_fields else "''"

    def _where(self, driver: _Driver) -> str:
        other_clauses = [clause for clause in self.clauses if clause != driver.own_test]
        return " AND ".join([driver.clause, *other_clauses])

    def _cursor_clauses(self, order: Order, driver: _Driver, after: PageCursor | None) -> list[str]:
        if after is None:
            return []
        at, version_id = self._bind(after[0]), self._bind(after[1])
        if order.by == "written":
            return [f"{driver.version_column} > {version_id}"]
        return [f"s.updated_ms <= {at} AND (s.updated_ms < {at} OR s.version_id < {version_id})"]

    def has_order(self, order: Order) -> bool:
        """Return True if an index has the selection in this order. The index of addresses has it within each form."""
        if order.by in ("written", "updated"):
            return True
        is_one_run = order.by != "address" or self.selection.form is not None or not self._drivers
        return is_one_run and self._is_indexed_by_field()

    def _order_driver(self, order: Order) -> _Driver:
        """Return the driver that reads the index of an order from its beginning."""
        selection = self.selection
        if order.by == "updated":
            one = None if len(self._space_values()) > 1 else selection.space
            index = "state_recent" if one is None else "state_listed"
            space = "" if one is None else f" AND s.space = {self._bind(one)}"
            return _Driver(self._hint(index), _OF_TENANT + space)
        if order.by == "written":
            # The tombstones of erased versions have no facets; every other version has the facet of its space.
            if selection.space is None or selection.or_no_space or selection.status_filter == "all":
                return _Driver(_STATE_TABLE, _OF_TENANT)
            return self._facet_driver(*space_facet(selection.space))
        if not self._is_indexed_by_field():
            return _Driver(_STATE_TABLE, _OF_TENANT)
        index = _ORDER_INDEXES[order.by]
        return _Driver(
            self._hint(index), self._field_prefix() + _not_null_clause(order), index=index
        )

    def _field_prefix(self, *, of_form: bool = True) -> str:
        """Return the SQL conditions on the leading columns of the field indexes; `of_form` adds the form."""
        space, form = self.selection.space, self.selection.form
        only = f" AND s.form = {self._bind(form)}" if of_form and form is not None else ""
        return f"{_OF_TENANT} AND s.live = 1 AND s.address IS NOT NULL AND s.space = {self._bind(space)}{only}"

    def build_form_count(self, order: Order) -> str | None:
        """Count the versions of the form, up to :cap; None where that does not decide which index is read."""
        if order.by not in _ORDER_INDEXES or order.by == "address" or self.selection.form is None:
            return None
        rows = f"{self._hint('field_address')} WHERE {self._field_prefix()}"
        return f"SELECT count(*) FROM (SELECT 1 FROM {rows} LIMIT :cap) counted"

    def build_forms(self) -> str:
        """Build a query for the distinct forms, which finds each by one look into the index."""
        least = f"SELECT min(s.form) FROM {self._hint('field_address')} WHERE {self._field_prefix()} AND s.form > "
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

    def _facet_driver(self, name: str, *texts: str, own_test: str = "") -> _Driver:
        field_name = self._bind(self._text_keys.field_name(name))
        clause = f"d.tenant_id = :tenant_id AND d.name = {field_name} AND d.value_key IN {self._in_keys(texts)}"
        return _Driver(
            self._join_state("facet"),
            clause,
            own_test,
            version_column="d.version_id",
            count_source=("facet d", clause),
        )

    def _hint(self, name: str) -> str:
        return self._dialect.hint.format(_STATE_TABLE, name)

    # --- clauses -----------------------------------------------------------------------------------------

    def _status_clauses(self, now: Instant) -> list[str]:
        selection = self.selection
        if selection.at is not None:
            return self._validity_clauses(selection.at, now)
        clauses = self._clauses_as_of(_STATUS_CLAUSES[selection.status_filter])
        if selection.status_filter not in _INCLUDES_EXPIRED:
            clauses.append(self._unexpired_clause(now))
        if selection.in_force:
            clauses.append(self._in_force_clause(now))
        return clauses

    def _clauses_as_of(self, clause: str) -> list[str]:
        """Return a clause about the status of versions as it was when the last version of the selection was written.

        `as_of` names a version id. A version that was superseded or retired by a later version id was still current
        then. `live` is a stored flag of today, so the clause adds the versions that have lost it only because of later
        versions.
        """
        if self.selection.as_of is None:
            return [clause]
        last = self._bind(self.selection.as_of)
        following = (
            "SELECT min(n.version_id) FROM state n WHERE n.tenant_id = s.tenant_id AND n.memory_id = s.memory_id "
            "AND n.version_id > s.version_id AND n.version_id <> n.memory_id"
        )
        was_replaced = (
            f"(s.superseded_by > {last} OR (s.retired_ms IS NOT NULL AND ({following}) > {last}))"
        )
        if clause == _STATUS_CLAUSES["live"]:
            clause = (
                f"({clause} OR ({_IS_HEAD} AND s.verification <> 'retracted' AND {was_replaced}))"
            )
        clause = clause.replace(_IS_OPEN, f"({_IS_OPEN} OR s.superseded_by > {last})")
        clause = clause.replace(_IS_UNRETIRED, f"({_IS_UNRETIRED} OR ({following}) > {last})")
        return [clause, f"s.version_id <= {last}"]

    def _line_clauses(self, now: Instant) -> list[str]:
        """Return the clause by which the head of a memory restricts what is selected of its earlier versions.

        A memory that was forgotten, has expired or became private must not show its earlier versions either. The head
        (newest version) decides for all versions of its memory. The version whose id equals the memory id is the first
        one, and it is the head only if no other exists.
        """
        selection = self.selection
        selects_heads = selection.at is None and selection.status_filter in _HEADS_ONLY
        if selects_heads and selection.as_of is None:
            return []
        conditions = []
        if selection.at is not None or selects_heads or selection.status_filter == "unforgotten":
            conditions.append("h.status <> 'tombstoned'")
        if selection.at is not None or selection.status_filter not in _INCLUDES_EXPIRED:
            conditions.append(self._unexpired_clause(now, "h"))
        if selection.visibilities is not None and set(selection.visibilities) != set(VISIBILITIES):
            conditions.append(f"h.visibility IN {self._in_values(selection.visibilities)}")
        if selection.exportable:
            conditions.append("h.exportable = 1")
        if selection.redacted is False:
            conditions.append("h.redacted = 0")
        for test in selection.tests:
            if isinstance(test, IsOneOf) and test.name == "user" and test.or_missing:
                users = self._in_keys(test.texts)
                conditions.append(f"(h.user_key IS NULL OR h.user_key IN {users})")
        if not conditions:
            return []
        newest = (
            "SELECT max(n.version_id) FROM state n "
            "WHERE n.tenant_id = s.tenant_id AND n.memory_id = s.memory_id AND n.version_id <> n.memory_id"
        )
        head = f"h.tenant_id = s.tenant_id AND h.version_id = coalesce(({newest}), s.memory_id)"
        within = " AND ".join([head, *conditions])
        # A live version is the head of its memory, so it need not be looked up.
        return [f"(s.live = 1 OR EXISTS (SELECT 1 FROM state h WHERE {within}))"]

    def _in_force_clause(self, now: Instant) -> str:
        """Return the clause that excludes live versions outside their valid time.

        There are few of them. They are looked up apart, so that other indexes answer without reading the rows.
        """
        moment = self._bind(now)
        outside = {
            "state_ends": f"valid_to_ms <= {moment}",
            "state_begins": f"valid_from_ms > recorded_ms AND valid_from_ms > {moment}",
        }
        version_ids = (
            f"SELECT version_id FROM {self._dialect.hint.format('state', index)} "
            f"WHERE tenant_id = :tenant_id AND live = 1 AND {clause}"
            for index, clause in outside.items()
        )
        return f"s.version_id NOT IN ({' UNION ALL '.join(version_ids)})"

    def _unexpired_clause(self, now: Instant, table: str = "s") -> str:
        return f"coalesce({table}.expires_ms, {FOREVER_MS}) > {self._bind(now)}"

    def _validity_clauses(self, at: Instant, now: Instant) -> list[str]:
        """Return the clauses of both timelines: true at one instant, as far as it was known at another.

        `at` is the instant at which the statement must be true, `known_at` the instant up to which the store's
        knowledge counts; without it, everything known now counts. A version that was closed after `known_at` still has
        the end that it stated itself (`declared_to_ms`).
        """
        known_at = self.selection.known_at
        moment, known_until = (
            self._bind(at),
            self._bind(_NOW_KNOWN_MS if known_at is None else known_at),
        )
        closed_later = f"s.closed_ms > {known_until}"
        if self.selection.as_of is not None:
            closed_later = (
                f"({closed_later} OR s.superseded_by > {self._bind(self.selection.as_of)})"
            )
        ends = f"CASE WHEN {closed_later} THEN s.declared_to_ms ELSE s.valid_to_ms END"
        unretired = f"coalesce(s.retired_ms, {FOREVER_MS}) > {known_until}"
        if self.selection.as_of is not None:
            unretired = f"({_IS_UNRETIRED} OR s.retired_ms > {known_until})"
        # A retracted version never was true. The time of its retraction is not stored, so it counts as known only now.
        not_retracted = [] if known_at is not None else ["s.verification <> 'retracted'"]
        return [
            "s.erased = 0 AND s.status <> 'tombstoned'",
            *not_retracted,
            f"s.valid_from_ms <= {moment}",
            f"coalesce({ends}, {FOREVER_MS}) > {moment}",
            f"s.recorded_ms <= {known_until}",
            *self._clauses_as_of(unretired),
            self._unexpired_clause(now if known_at is None else max(now, known_at)),
        ]

    def _scope_clauses(self) -> list[str]:
        selection = self.selection
        clauses = self._space_clauses()
        for name, column in _SCOPE_COLUMNS.items():
            value = getattr(selection, name)
            if value is not None:
                clauses.append(self._add_scope_clause(name, column, (value,)))
        if selection.visibilities is not None and set(selection.visibilities) != set(VISIBILITIES):
            clauses.append(f"s.visibility IN {self._in_values(selection.visibilities)}")
        for column, values in (("kind", selection.kinds), ("status", selection.statuses)):
            if values is not None:
                clauses.append(f"s.{column} IN {self._in_values(values)}")
        if selection.has_fields:
            clauses.append("s.address IS NOT NULL")
            clauses.append(
                "s.form > ''"
                if selection.form is None
                else f"s.form = {self._bind(selection.form)}"
            )
        if selection.standard is not None:
            clauses.append(
                "EXISTS (SELECT 1 FROM version v WHERE v.tenant_id = s.tenant_id AND v.version_id = s.version_id "
                f"AND v.standard = {self._bind(selection.standard)})"
            )
        if selection.exportable:
            clauses.append("s.exportable = 1")
        if selection.redacted is not None:
            clauses.append(f"s.redacted = {int(selection.redacted)}")
        if selection.redacted:
            self._drivers.append(
                _Driver(self._hint("state_redacted"), f"{_OF_TENANT} AND s.redacted = 1")
            )
        return clauses

    def _space_clauses(self) -> list[str]:
        spaces = self._space_values()
        if len(spaces) == 1:
            return [f"s.space = {self._bind(spaces[0])}"]
        return [f"s.space IN {self._in_values(spaces)}"] if spaces else []

    def _space_values(self) -> tuple[str, ...]:
        """Return the values that the column `space` of a selected version may have; none for any.

        Erased rows may have the encrypted name of their space (`crypto/names.py`), so a selection that includes them
        accepts both spellings. The pair ("", "") makes a condition with two values: a single one would be taken for the
        space of the selection.
        """
        space = self.selection.space
        if space is None:
            return ("", "") if self.selection.or_no_space else ()
        is_erased_selected = self.selection.at is None and self.selection.status_filter == "all"
        spaces = self._text_keys.space_spellings(space) if is_erased_selected else (space,)
        return (*spaces, "") if self.selection.or_no_space else spaces

    def _add_scope_clause(self, name: str, column: str, texts: tuple[str, ...]) -> str:
        """Return the clause of a scope field with one of these values, and add the driver by its facet."""
        equals = f"s.{column} IN {self._in_keys(texts)}"
        self._drivers.append(self._facet_driver(scope_facet(name), *texts, own_test=equals))
        return equals

    def _bind(self, value: object) -> str:
        name = f"p{len(self.params)}"
        self.params[name] = value
        return f":{name}"

    def _json(self, value: object) -> str:
        return self._bind(orjson.dumps(value).decode())

    def _in_values(self, values: tuple[str, ...]) -> str:
        return (
            f"({self._bind(values[0])})"
            if len(values) == 1
            else self._dialect.values.format(self._json(values))
        )

    def _test_clause(self, test: Test) -> str:
        if isinstance(test, IsAmong):
            return self._membership_clause(test)
        if isinstance(test, Compares):
            return self._comparison_clause(test)
        if isinstance(test, InGroup):
            return self._group_clause(test)
        if isinstance(test, Lacks):
            return f"s.{_NUMBER_COLUMNS[test.name]} IS NULL"
        if isinstance(test, VisibleToRun):
            run_id = self._bind(test.run_id)
            own_rows = (
                f"w.tenant_id = s.tenant_id AND w.run_id = {run_id} AND w.version_id = s.version_id"
            )
            there = f"s.version_id <= {self._bind(test.version_seq)}"
            return f"({there} OR EXISTS (SELECT 1 FROM run_write w WHERE {own_rows}))"
        if test.name in _TRIPLE_COLUMNS or test.name in _SCOPE_COLUMNS:
            return self._key_clause(test)
        return self._plain_clause(test) if test.name in _PLAIN_COLUMNS else self._facet_clause(test)

    def _key_clause(self, test: IsOneOf | IsNoneOf) -> str:
        column, index = _TRIPLE_COLUMNS.get(test.name) or (_SCOPE_COLUMNS[test.name], "")
        if isinstance(test, IsNoneOf):
            differs = f"s.{column} NOT IN {self._in_keys(test.texts)}"
            return (
                f"(s.{column} IS NULL OR {differs})"
                if test.or_missing
                else f"s.{column} IS NOT NULL AND {differs}"
            )
        if test.or_missing:
            return f"(s.{column} IS NULL OR s.{column} IN {self._in_keys(test.texts)})"
        if not index:
            return self._add_scope_clause(test.name, column, test.texts)
        return self._add_triple_driver(test.name, f"s.{column} IN {self._in_keys(test.texts)}")

    def _add_triple_driver(self, name: str, equals: str) -> str:
        index = _TRIPLE_COLUMNS[name][1]
        self._drivers.append(
            _Driver(self._hint(index), f"{_OF_TENANT} AND {equals}", equals, index=index)
        )
        return equals

    def _group_clause(self, test: InGroup) -> str:
        column, key = f"s.{_GROUP_COLUMNS[test.name]}", self._bind(test.key)
        if test.key is None:
            return f"{column} IS NULL"
        if test.name in _TRIPLE_COLUMNS:
            return self._add_triple_driver(test.name, f"{column} = {key}")
        return f"{column} = {key}"

    def _plain_clause(self, test: IsOneOf | IsNoneOf) -> str:
        negation = "NOT " if isinstance(test, IsNoneOf) else ""
        return f"s.{_PLAIN_COLUMNS[test.name]} {negation}IN {self._dialect.values.format(self._json(test.texts))}"

    def _facet_clause(self, test: IsOneOf | IsNoneOf) -> str:
        name, keys = self._bind(self._text_keys.field_name(test.name)), self._in_keys(test.texts)
        present = (
            "EXISTS (SELECT 1 FROM facet f WHERE f.tenant_id = s.tenant_id AND f.version_id = s.version_id "
            f"AND f.name = {name})"
        )
        equals = (
            f"EXISTS (SELECT 1 FROM facet f WHERE f.tenant_id = s.tenant_id AND f.name = {name} "
            f"AND f.value_key IN {keys} AND f.version_id = s.version_id)"
        )
        if isinstance(test, IsNoneOf):
            return f"NOT {equals}" if test.or_missing else f"{present} AND NOT {equals}"
        if test.or_missing:
            return f"({equals} OR NOT {present})"
        if len(test.texts) == 1:
            self._drivers.append(self._facet_driver(test.name, *test.texts, own_test=equals))
        return equals

    def _join_state(self, table: str) -> str:
        return self._dialect.join.format(
            f"{table} d", "s.tenant_id = d.tenant_id AND s.version_id = d.version_id"
        )

    def _comparison_clause(self, test: Compares) -> str:
        """Return the clause of a comparison with a number.

        Fields with a column of their own are compared in `state`, all others in the table `measure`. A version without
        the field passes no comparison, not even `!=`.
        """
        operator, number = _OPERATORS[test.operator], self._bind(test.number)
        if test.name in _NUMBER_COLUMNS:
            clause, index = (
                f"s.{_NUMBER_COLUMNS[test.name]} {operator} {number}",
                _ORDER_INDEXES.get(test.name),
            )
            if index is not None and self._is_indexed_by_field() and test.operator != "!=":
                self._drivers.append(
                    _Driver(self._hint(index), f"{self._field_prefix()} AND {clause}", index=index)
                )
            return clause
        name = self._bind(self._text_keys.field_name(test.name))
        if test.operator != "!=":
            clause = (
                f"d.tenant_id = :tenant_id AND d.name = {name} AND d.number {operator} {number}"
            )
            self._drivers.append(
                _Driver(self._join_state("measure"), clause, count_source=("measure d", clause))
            )
        return (
            "EXISTS (SELECT 1 FROM measure m WHERE m.tenant_id = s.tenant_id AND m.version_id = s.version_id "
            f"AND m.name = {name} AND m.number {operator} {number})"
        )

    def _membership_clause(self, test: IsAmong) -> str:
        version_ids = self._json(test.version_ids)
        within = f"s.version_id IN {self._dialect.numbers.format(version_ids)}"
        if test.or_verification is not None:
            within = f"({within} OR s.verification = {self._bind(test.or_verification)})"
        elif not test.negated:
            rows = self._dialect.rows.format(version_ids, "d")
            joined_rows = self._dialect.join.format(
                rows, f"{_OF_TENANT} AND s.version_id = d.value"
            )
            self._drivers.append(_Driver(joined_rows, _OF_TENANT))
        return f"NOT {within}" if test.negated else within

    def _in_keys(self, texts: tuple[str, ...]) -> str:
        """Return the right side of IN with the fingerprints of texts.

        Empty texts have no fingerprint and are left out. If nothing is left, the list is empty and no row matches.
        """
        keys = [key for key in map(self._text_keys.value_key, texts) if key is not None]
        if len(keys) == 1:
            return f"({self._bind(keys[0])})"
        return self._dialect.keys.format(self._json([key.hex() for key in keys]))


def _order_columns(order: Order, driver: _Driver) -> tuple[str, str]:
    """Return the column with a row's position, and the text for ORDER BY."""
    by, then = _ORDER_COLUMNS[order.by]
    if order.by == "written":
        return driver.version_column, driver.version_column
    if order.by == "updated":
        return by, f"{by} DESC, {then} DESC"
    if not then:
        return "0", by
    # Rows without the field come last; the index of the order has none of them.
    last = (
        f"{by} IS NULL, "
        if order.by in _OPTIONAL_FIELDS and driver.index != _ORDER_INDEXES[order.by]
        else ""
    )
    return "0", f"{last}{by}{' DESC' if order.descending else ''}, {then}"


def _not_null_clause(order: Order) -> str:
    """Return the clause that lets the database use an index of only the rows with a field."""
    return f" AND {_ORDER_COLUMNS[order.by][0]} IS NOT NULL" if order.by in _OPTIONAL_FIELDS else ""
