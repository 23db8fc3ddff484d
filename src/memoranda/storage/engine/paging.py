"""Pages and counts of a selection: which index is read for it.

Theory of operation. The narrowest test drives: its rows are read and the other tests are checked. If every test has
many rows, the index of the order is walked instead, because what is common is never far from its beginning. That walk
has a limit, after which the narrowest test drives after all. Without any test, the index of the order has the page at
its beginning. Addresses are in order only within a form, so all forms together are read form by form and merged. The
limits of all this are in `PagingLimits`; they change the speed of an answer, never the answer.

Decisions, in this order: (1) a single narrow condition in order of writing is read completely and sorted; (2) a driver
with fewer rows than the last cap is read and sorted; (3) a rare form is sorted; (4) without any driver the index of the
order is read from its beginning; (5) a common driver with a small page is tried as a walk; (6) otherwise the driver is
read after all. `tests/storage` runs every selection through all of these with lowered limits and compares the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, NamedTuple

from msgspec.structs import replace

from memoranda.model.selection import (
    Compares,
    Lacks,
    Order,
    PageCursor,
    Selected,
    Selection,
    SelectionPage,
    Test,
    VersionGroup,
)
from memoranda.storage.engine.database import Connection, Row
from memoranda.storage.engine.selection import SelectionSql

# Fields that not every version has. Versions without the field come last, by address.
_OPTIONAL_FIELDS: Final = ("confidence", "importance")
_BY_ADDRESS: Final = Order(by="address")


class PagingLimits(NamedTuple):
    """Numbers of rows that are counted or read before another way is tried."""

    # Caps for counting the rows of the drivers: the next one is tried only if every driver reaches the one before.
    # A driver that reaches the last cap is common.
    count_caps: tuple[int, ...] = (64, 256, 4_096)
    # Up to this many rows, where one index has all columns: reading and sorting all of them is then
    # as fast as finding one page in another way.
    covered_rows: int = 32_768
    # A form with fewer rows is sorted; of a larger one, a page is found sooner among all forms.
    form_rows: int = 1_000
    # Rows that a page may read in index order if many pass the filter: with 4 of 1,000 passing, they fill a page.
    walked_rows: int = 8_192
    # Rows of a page, with its offset, up to which a walk is worth it.
    walked_page: int = 128
    # Results up to which a page tells their total.
    total_rows: int = 128


class Paging:
    """Pages, counts and groups of one selection."""

    # Tests lower the limits, to see every way taken with few rows.
    limits: ClassVar[PagingLimits] = PagingLimits()

    def __init__(
        self,
        connection: Connection,
        to_sql: Callable[[Selection], SelectionSql],
        selection: Selection,
    ) -> None:
        """Bind a selection to a connection. `to_sql` translates a selection for the same tenant and instant."""
        self._connection = connection
        self._to_sql = to_sql
        self._selection = selection
        self._sql = to_sql(selection)

    def load_page(
        self, order: Order, *, limit: int, offset: int = 0, after: PageCursor | None = None
    ) -> list[Selected]:
        """Return a page of the selection in an order."""
        return self._load_page(order, limit, limit, offset, after)[0]

    def load_counted_page(self, order: Order, *, limit: int, offset: int) -> SelectionPage:
        """Return a page with the total, which is None if the results are many and the page is not the last."""
        row_limit = max(limit + 1, self.limits.total_rows)
        results, is_complete = self._load_page(order, limit + 1, row_limit, offset, None)
        if offset and not results:
            return SelectionPage([], self.count(), is_last=True)
        total = offset + len(results) if is_complete and len(results) < row_limit else None
        return SelectionPage(results[:limit], total, is_last=len(results) <= limit)

    def _load_page(
        self, order: Order, least: int, limit: int, offset: int, after: PageCursor | None
    ) -> tuple[list[Selected], bool]:
        """Return up to `limit` results and True, or only the first `least` of more results and False.

        `least` is the size of a page, `limit` how many results would allow a total. The second value of the result is
        True if the list is complete up to `limit`.
        """
        sql = self._sql
        if order.by == "written" and (few := self._load_few_written(after)) is not None:
            return few[offset : offset + limit], True
        narrowest, is_common = self._find_narrowest(order)
        if not is_common or not sql.has_order(order):
            return self._select(sql.build_page(order, narrowest, after), limit, offset), True
        if self._is_rare_form(order):
            return self._select(sql.build_form_page(order), limit, offset), True
        if narrowest is None:
            return self._load_ordered(order, limit, offset, after), True
        if least + offset <= self.limits.walked_page:
            walk = sql.build_walk(order, after, self.limits.walked_rows)
            results = self._select(walk, least, offset)
            if len(results) == least:
                return results, False
        return self._select(sql.build_page(order, narrowest, after), limit, offset), True

    def _load_few_written(self, after: PageCursor | None) -> list[Selected] | None:
        """Return all results in order of writing if one indexed condition leaves few rows; None otherwise.

        The rows are read to find that out, which costs no more than counting them.
        """
        query, cap = self._sql.build_unfiltered(), self.limits.count_caps[0]
        if query is None:
            return None
        rows = self._connection.select(query, {**self._sql.params, "cap": cap})
        if len(rows) >= cap:
            return None
        last = 0 if after is None else after[1]
        return sorted(
            Selected(version_id, address, 0.0, version_id)
            for version_id, address, passes in rows
            if passes and version_id > last
        )

    def load_few(self, limit: int) -> list[Selected] | None:
        """Return all results in any order if an index shows that there are fewer than `limit`; None otherwise.

        Used by search: if few versions pass the filters, ranking exactly these is faster than ranking everything and
        filtering.
        """
        counts = self._count_drivers((*self.limits.count_caps, self.limits.covered_rows))
        if counts is None or min(counts) >= self.limits.covered_rows:
            return None
        results = self._select(self._sql.build_unordered(counts.index(min(counts))), limit, 0)
        return results if len(results) < limit else None

    def count(self) -> int:
        """Return the number of results."""
        narrowest, _ = self._find_narrowest(None)
        ((count,),) = self._connection.select(self._sql.build_count(narrowest), self._sql.params)
        return int(count)

    def count_groups(self, by: str) -> list[VersionGroup]:
        """Return the number of results of each group, with the first version of each."""
        narrowest, _ = self._find_narrowest(None)
        return [
            VersionGroup(*row)
            for row in self._connection.select(
                self._sql.build_groups(by, narrowest), self._sql.params
            )
        ]

    def _load_ordered(
        self, order: Order, limit: int, offset: int, after: PageCursor | None
    ) -> list[Selected]:
        """Read a page from the beginning of the index of the order; versions without the field come last.

        The index of an order holds only rows with the field. When its rows are used up, versions without the field
        follow in order of address; `offset` is then counted from the first of them.
        """
        if order.by == "address" and self._selection.form is None:
            return self._load_form_by_form(limit, offset)
        results = self._select(self._sql.build_page(order, None, after), limit, offset)
        if order.by not in _OPTIONAL_FIELDS or len(results) == limit:
            return results
        has_field = Compares(name=order.by, operator=">=", number=float("-inf"))
        skipped = 0 if results else max(0, offset - self._with_test(has_field).count())
        lacking = self._with_test(Lacks(name=order.by)).load_page(
            _BY_ADDRESS, limit=limit - len(results), offset=skipped
        )
        return [*results, *lacking]

    def _with_test(self, test: Test) -> Paging:
        return self._for_selection(replace(self._selection, tests=(*self._selection.tests, test)))

    def _for_selection(self, selection: Selection) -> Paging:
        return Paging(self._connection, self._to_sql, selection)

    def _load_form_by_form(self, limit: int, offset: int) -> list[Selected]:
        """Read the page of every form, merge them by address and return the page of all."""
        forms = self._connection.select(self._sql.build_forms(), self._sql.params)
        pages = (
            self._for_selection(replace(self._selection, form=form)).load_page(
                _BY_ADDRESS, limit=offset + limit
            )
            for (form,) in forms
        )
        results = sorted((row for page in pages for row in page), key=lambda row: row.address)
        return results[offset : offset + limit]

    def _find_narrowest(self, order: Order | None) -> tuple[int | None, bool]:
        """Return the position of the driver with the fewest rows (None without drivers), and True if they are many.

        Counting stops at a cap. Most selections have a condition with fewer than 64 rows; larger caps follow only if
        every driver is that large.
        """
        sql = self._sql
        if sql.needs_no_counts(order):
            return 0, False
        counts = self._count_drivers(self.limits.count_caps)
        if counts is None:
            return None, True
        if min(counts) < self.limits.count_caps[-1]:
            return counts.index(min(counts)), False
        covering = sql.find_covering(order)
        if covering is not None:
            position, counting = covering
            ((count,),) = self._connection.select(
                counting, {**sql.params, "cap": self.limits.covered_rows}
            )
            return position, bool(count >= self.limits.covered_rows)
        return counts.index(min(counts)), True

    def _count_drivers(self, caps: Sequence[int]) -> Row | None:
        """Return the rows of each driver, counted up to the first cap that one stays below; None without drivers."""
        counting = self._sql.build_driver_counts()
        if counting is None:
            return None
        counts: Row = ()
        for cap in caps:
            (counts,) = self._connection.select(counting, {**self._sql.params, "cap": cap})
            if min(counts) < cap:
                break
        return counts

    def _is_rare_form(self, order: Order) -> bool:
        """Return True if few versions have the selected form (such as `grain`); it is fastest to sort these."""
        counting = self._sql.build_form_count(order)
        if counting is None:
            return False
        ((count,),) = self._connection.select(
            counting, {**self._sql.params, "cap": self.limits.form_rows}
        )
        return bool(count < self.limits.form_rows)

    def _select(self, query: str, limit: int, offset: int) -> list[Selected]:
        rows = self._connection.select(
            query, {**self._sql.params, "limit": limit, "offset": offset}
        )
        return [Selected(*row) for row in rows]
