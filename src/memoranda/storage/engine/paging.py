"""Pages of what a selection lets through, and how many there are: which index is read for it.

The narrowest test drives, unless every one of them is common: then the index of the order is read, where what is common
is never far. That reading has a limit, and after it the narrowest drives after all. Without any test the index of the
order has the page at its beginning; addresses are in order within a form, so all forms together are read form by form.
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

# What not everything has; what lacks it comes last, by address.
_OPTIONAL: Final = ("confidence", "importance")
_BY_ADDRESS: Final = Order(by="address")


class Reading(NamedTuple):
    """How much is looked at before something else is tried."""

    # Rows are counted up to the first; only when every index has as many, up to the next. More than the last is common.
    counted: tuple[int, ...] = (64, 256, 4_096)
    # So many are read and sorted as soon, where one index has all that is asked for.
    covered: int = 32_768
    # Fewer of a form are sorted; of more a page is soon found among all that there is.
    of_form: int = 1_000
    # How far the index of an order is read for what is common, and how long a page may be for that to be worth it: of
    # what 4,000 in a million are, so many hold the usual page.
    walked: int = 8_192
    page: int = 128
    # Of so many it is told how many there are.
    told: int = 128


class Paging:
    """Reads one selection."""

    # For whoever wants to see every way taken over a few rows.
    reading: ClassVar[Reading] = Reading()

    def __init__(
        self,
        connection: Connection,
        selected: Callable[[Selection], SelectionSql],
        selection: Selection,
    ) -> None:
        self._connection = connection
        self._selected = selected
        self._selection = selection
        self._sql = selected(selection)

    def page(
        self, order: Order, *, limit: int, offset: int = 0, after: PageCursor | None = None
    ) -> list[Selected]:
        """A page in an order."""
        return self._page(order, limit, limit, offset, after)[0]

    def counted_page(self, order: Order, *, limit: int, offset: int) -> SelectionPage:
        """The same with how many there are, if they are few or the page is the last."""
        asked = max(limit + 1, self.reading.told)
        found, is_whole = self._page(order, limit + 1, asked, offset, None)
        if offset and not found:
            return SelectionPage([], self.count(), is_last=True)
        total = offset + len(found) if is_whole and len(found) < asked else None
        return SelectionPage(found[:limit], total, is_last=len(found) <= limit)

    def _page(
        self, order: Order, least: int, limit: int, offset: int, after: PageCursor | None
    ) -> tuple[list[Selected], bool]:
        """Up to `limit`, or only `least` of more: which is False."""
        sql = self._sql
        if order.by == "written" and (few := self._few_written(after)) is not None:
            return few[offset : offset + limit], True
        narrowest, is_common = self._narrowest(order)
        if not is_common or not sql.has_order(order):
            return self._read(sql.page(order, narrowest, after), limit, offset), True
        if self._is_rare_form(order):
            return self._read(sql.page_of_form(order), limit, offset), True
        if narrowest is None:
            return self._ordered(order, limit, offset, after), True
        if least + offset <= self.reading.page:
            found = self._read(sql.walk(order, after, self.reading.walked), least, offset)
            if len(found) == least:
                return found, False
        return self._read(sql.page(order, narrowest, after), limit, offset), True

    def _few_written(self, after: PageCursor | None) -> list[Selected] | None:
        """All of it as it was written, where there is one driver with few rows: that is told by reading them."""
        every, cap = self._sql.every(), self.reading.counted[0]
        if every is None:
            return None
        rows = self._connection.select(every, {**self._sql.params, "cap": cap})
        if len(rows) >= cap:
            return None
        last = 0 if after is None else after[1]
        return sorted(
            Selected(each, address, 0.0, each)
            for each, address, passes in rows
            if passes and each > last
        )

    def few(self, most: int) -> list[Selected] | None:
        """All of it in any order, if an index tells that there are fewer than so many; None: more, or nothing tells."""
        counts = self._counts((*self.reading.counted, self.reading.covered))
        if counts is None or min(counts) >= self.reading.covered:
            return None
        found = self._read(self._sql.some(counts.index(min(counts))), most, 0)
        return found if len(found) < most else None

    def count(self) -> int:
        """How many there are."""
        narrowest, _ = self._narrowest(None)
        ((found,),) = self._connection.select(self._sql.count(narrowest), self._sql.params)
        return int(found)

    def groups(self, by: str) -> list[VersionGroup]:
        """How many there are of each, and one of them."""
        narrowest, _ = self._narrowest(None)
        return [
            VersionGroup(*row)
            for row in self._connection.select(self._sql.groups(by, narrowest), self._sql.params)
        ]

    def _ordered(
        self, order: Order, limit: int, offset: int, after: PageCursor | None
    ) -> list[Selected]:
        """From the beginning of the index of the order."""
        if order.by == "address" and self._selection.form is None:
            return self._form_by_form(limit, offset)
        found = self._read(self._sql.page(order, None, after), limit, offset)
        if order.by not in _OPTIONAL or len(found) == limit:
            return found
        has_it = Compares(name=order.by, operator=">=", number=float("-inf"))
        skipped = 0 if found else max(0, offset - self._with(has_it).count())
        lacking = self._with(Lacks(name=order.by)).page(
            _BY_ADDRESS, limit=limit - len(found), offset=skipped
        )
        return [*found, *lacking]

    def _with(self, test: Test) -> Paging:
        return self._for(replace(self._selection, tests=(*self._selection.tests, test)))

    def _for(self, selection: Selection) -> Paging:
        return Paging(self._connection, self._selected, selection)

    def _form_by_form(self, limit: int, offset: int) -> list[Selected]:
        forms = self._connection.select(self._sql.forms(), self._sql.params)
        pages = (
            self._for(replace(self._selection, form=form)).page(_BY_ADDRESS, limit=offset + limit)
            for (form,) in forms
        )
        found = sorted((each for page in pages for each in page), key=lambda each: each.address)
        return found[offset : offset + limit]

    def _narrowest(self, order: Order | None) -> tuple[int | None, bool]:
        """Which driver has the fewest rows, if there is any, and whether those are many."""
        sql = self._sql
        if sql.is_soon_read(order):
            return 0, False
        counts = self._counts(self.reading.counted)
        if counts is None:
            return None, True
        if min(counts) < self.reading.counted[-1]:
            return counts.index(min(counts)), False
        covering = sql.covering(order)
        if covering is not None:
            place, counting = covering
            ((count,),) = self._connection.select(
                counting, {**sql.params, "cap": self.reading.covered}
            )
            return place, bool(count >= self.reading.covered)
        return counts.index(min(counts)), True

    def _counts(self, caps: Sequence[int]) -> Row | None:
        """How many rows each driver has, up to the first cap that one has fewer than; None when there is none."""
        counting = self._sql.count_drivers()
        if counting is None:
            return None
        counts: Row = ()
        for cap in caps:
            (counts,) = self._connection.select(counting, {**self._sql.params, "cap": cap})
            if min(counts) < cap:
                break
        return counts

    def _is_rare_form(self, order: Order) -> bool:
        counting = self._sql.count_form(order)
        if counting is None:
            return False
        ((count,),) = self._connection.select(
            counting, {**self._sql.params, "cap": self.reading.of_form}
        )
        return bool(count < self.reading.of_form)

    def _read(self, query: str, limit: int, offset: int) -> list[Selected]:
        found = self._connection.select(
            query, {**self._sql.params, "limit": limit, "offset": offset}
        )
        return [Selected(*row) for row in found]
