"""Selection of the grains that an ASSEMBLE prints, so that the printed text fits the budget (sections 8.2, 14.3).

Theory of operation. The budget is shared by the cost of each grain's line. The text is not just the sum of its lines:
counts are rounded, and groups have titles. So the text is printed and measured; grains beyond the budget are dropped
from the end, and free room is offered to the next grains that fit, in at most `_PRINT_ROUNDS` rounds. Only a text that
was measured is returned, so the budget holds for any printer and counter.

To change how grains are chosen, keep three promises: the measured text never exceeds the budget, the same input gives
the same choice, and the number of rounds is limited, because printing and counting are slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from memoranda.standards.cal.assembly import budget
from memoranda.standards.cal.printing.counter import TokenCounter
from memoranda.standards.cal.printing.elements import Element

# Rounds of printing and measuring until the text is close to its budget.
_PRINT_ROUNDS: Final = 5
# With less than one fiftieth of the budget free, another round is not worth its time.
_CLOSE_ENOUGH_DIVISOR: Final = 50
# Grains that are printed in short form at most: the room that remains holds few of them.
_MAX_SHORTENED: Final = 500
# Section 10.6: the output of a template has at most two characters for each token, or this many for a budget in grains.
_TEMPLATE_CHARS_PER_TOKEN: Final = 2
_TEMPLATE_CHARS: Final = 32_000


class PricedGrain(NamedTuple):
    """A grain with its printed line and its cost."""

    element: Element
    line: str
    # In the unit of the budget.
    cost: int
    tokens: int


class SourceSelection(msgspec.Struct, kw_only=True):
    """The candidates of one source in order, and the chosen ones by index."""

    label: str
    candidates: list[PricedGrain]
    chosen: dict[int, PricedGrain] = msgspec.field(default_factory=dict)

    @property
    def truncated(self) -> bool:
        """True if some candidates were not chosen."""
        return len(self.chosen) < len(self.candidates)

    def in_order(self) -> list[PricedGrain]:
        """Return the chosen grains in the order of the results."""
        return [self.chosen[index] for index in sorted(self.chosen)]


class Printer(Protocol):
    """Prints lines and whole texts in one format."""

    def print_line(self, element: Element) -> str:
        """Return the line of one grain, with its line break."""

    def print_text(self, selections: Sequence[SourceSelection]) -> str:
        """Return the text of all chosen grains, with headings and envelope."""


class Meter(msgspec.Struct, frozen=True, kw_only=True):
    """The budget, and the measure of a text against it."""

    amount: int
    unit: str
    counter: TokenCounter
    is_template: bool = False

    @property
    def limit(self) -> int | None:
        """The greatest allowed result of `measure`, or None if texts are not measured."""
        if self.unit == "tokens":
            return self.amount
        return _TEMPLATE_CHARS if self.is_template else None

    def measure(self, text: str) -> int:
        """Return the size of a text in the unit of the limit."""
        if self.unit != "tokens":
            return len(text)
        tokens = self.counter.count(text)
        if not self.is_template:
            return tokens
        # Rounded up.
        tokens_by_length = -(-len(text) // _TEMPLATE_CHARS_PER_TOKEN)
        return max(tokens, tokens_by_length)

    def price(self, element: Element, line: str) -> PricedGrain:
        """Return a grain with its cost: its size in tokens, or 1 for a budget in grains."""
        tokens = self.counter.count(line)
        if self.unit != "tokens":
            return PricedGrain(element, line, 1, tokens)
        cost = self.measure(line) if self.is_template else tokens
        return PricedGrain(element, line, cost, tokens)


class Packer:
    """Selects grains from the candidates of all sources, highest priority first."""

    __slots__ = (
        "_dropped_ids",
        "_meter",
        "_printer",
        "_shorten",
        "_shortened",
        "allocations",
        "selections",
    )

    def __init__(
        self,
        selections: Sequence[SourceSelection],
        printer: Printer,
        meter: Meter,
        shorten: Callable[[PricedGrain], PricedGrain | None] | None = None,
    ) -> None:
        self.selections = selections
        self.allocations: tuple[int, ...] = ()
        self._printer = printer
        self._meter = meter
        # Returns the short form of a grain that does not fit.
        self._shorten = shorten
        self._shortened: dict[tuple[str, int], PricedGrain | None] = {}
        # Identities of the grains that were dropped; they are not offered again in the same form.
        self._dropped_ids: set[int] = set()

    def pack(self) -> str:
        """Select grains and return the text; `selections` then hold the grains that it contains."""
        if self._meter.unit != "tokens":
            self._fill(self._meter.amount)
            limit = self._meter.limit
            if limit is None:
                return self._printer.print_text(self.selections)
            return self._print_to_fit(limit, may_add=False)
        limit = self._meter.amount
        overhead = self._measure_overhead()
        if overhead >= limit:
            empty_text = self._printer.print_text(self._empty_selections())
            overhead = min(limit, self._meter.measure(empty_text))
        self._fill(limit - overhead)
        # Joined lines cost less than the sum of their costs, each of which is rounded up, so more grains may fit.
        while (room := limit - overhead - self._measure_lines()) > 0 and self._add_fitting(room):
            pass
        return self._print_to_fit(limit, overhead=overhead)

    def may_fit_all(self) -> bool:
        """Return True if all candidates probably fit; a cheap estimate."""
        if self._meter.unit != "tokens":
            return (
                sum(len(selection.candidates) for selection in self.selections)
                <= self._meter.amount
            )
        line_size = self._meter.measure(
            "".join(grain.line for selection in self.selections for grain in selection.candidates)
        )
        return (
            line_size <= self._meter.amount
            and self._measure_overhead() + line_size <= self._meter.amount
        )

    def _fill(self, room: int) -> None:
        """Select grains whose costs fit into the room."""
        costs = [[grain.cost for grain in selection.candidates] for selection in self.selections]
        selected_costs = budget.select(room, costs)
        self.allocations = selected_costs.allocations
        for selection, indexes in zip(self.selections, selected_costs.chosen, strict=True):
            selection.chosen = {index: selection.candidates[index] for index in indexes}

    def _empty_selections(self) -> list[SourceSelection]:
        """Return a selection without candidates for each source."""
        return [
            SourceSelection(label=selection.label, candidates=[]) for selection in self.selections
        ]

    def _measure_overhead(self) -> int:
        """Return the size of the text without its lines: the envelope, and the title of each group."""
        headings = self._empty_selections()
        for heading, selection in zip(headings, self.selections, strict=True):
            first_by_type = {
                grain.element.item.grain_type: grain for grain in reversed(selection.candidates)
            }
            heading.candidates = list(first_by_type.values())
            heading.chosen = dict(enumerate(heading.candidates))
        line_size = self._meter.measure(
            "".join(grain.line for heading in headings for grain in heading.candidates)
        )
        return max(0, self._meter.measure(self._printer.print_text(headings)) - line_size)

    def _measure_lines(self) -> int:
        """Return the size of the lines of all chosen grains."""
        return self._meter.measure(
            "".join(
                grain.line for selection in self.selections for grain in selection.chosen.values()
            )
        )

    def _print_to_fit(self, limit: int, *, overhead: int = 0, may_add: bool = True) -> str:
        """Print, measure and adjust the selection until the text fits and little room is free."""
        best: tuple[list[dict[int, PricedGrain]], str] | None = None
        may_share_again = may_add
        for _ in range(_PRINT_ROUNDS):
            text = self._printer.print_text(self.selections)
            excess = self._meter.measure(text) - limit
            if excess <= 0:
                best = [dict(selection.chosen) for selection in self.selections], text
                if (
                    not may_add
                    or -excess * _CLOSE_ENOUGH_DIVISOR < limit
                    or not self._add_fitting(-excess)
                ):
                    break
            elif may_share_again and excess * _CLOSE_ENOUGH_DIVISOR > limit:
                # The overhead is much greater than estimated: select again, with the room that really remains.
                may_share_again = False
                self._fill(max(0, limit - max(overhead, limit + excess - self._measure_lines())))
            elif not self._drop_last(excess):
                break
        if best is None:
            return self._halve_until_fit(limit)
        for selection, chosen_grains in zip(self.selections, best[0], strict=True):
            selection.chosen = chosen_grains
        return best[1]

    def _add_fitting(self, room: int) -> bool:
        """Choose further candidates that fit, in short form if necessary. Return True if any was added."""
        has_added = False
        for selection in self.selections:
            if not selection.truncated:
                continue
            for index, grain in enumerate(selection.candidates):
                if index in selection.chosen:
                    continue
                fitting = (
                    grain if self._fits(grain, room) else self._shorten_candidate(selection, index)
                )
                if fitting is not None and self._fits(fitting, room):
                    selection.chosen[index] = fitting
                    room -= fitting.cost
                    has_added = True
        return has_added

    def _fits(self, grain: PricedGrain, room: int) -> bool:
        """Return True if a grain fits and was not dropped before."""
        return grain.cost <= room and id(grain) not in self._dropped_ids

    def _shorten_candidate(self, selection: SourceSelection, index: int) -> PricedGrain | None:
        """Return a candidate in short form, or None if there is none."""
        if self._shorten is None:
            return None
        key = selection.label, index
        if key not in self._shortened and len(self._shortened) < _MAX_SHORTENED:
            self._shortened[key] = self._shorten(selection.candidates[index])
        return self._shortened.get(key)

    def _drop_last(self, excess: int) -> bool:
        """Drop the last grains of the lowest priority until the excess is gone. Return True if any was dropped."""
        has_dropped = False
        for selection in reversed(self.selections):
            for index in sorted(selection.chosen, reverse=True):
                grain = selection.chosen.pop(index)
                self._dropped_ids.add(id(grain))
                has_dropped = True
                # Its cost was rounded up, so it frees at least one unit less.
                excess -= max(
                    len(grain.line) if self._meter.unit != "tokens" else grain.cost - 1, 0
                )
                if excess <= 0:
                    return True
        return has_dropped

    def _halve_until_fit(self, limit: int) -> str:
        """Drop half of the selection until the text fits; return an empty text if not even the envelope fits."""
        while chosen_count := sum(len(selection.chosen) for selection in self.selections):
            excess = chosen_count - chosen_count // 2
            for selection in reversed(self.selections):
                for index in sorted(selection.chosen, reverse=True)[:excess]:
                    del selection.chosen[index]
                    excess -= 1
            text = self._printer.print_text(self.selections)
            if self._meter.measure(text) <= limit:
                return text
        text = self._printer.print_text(self.selections)
        return text if self._meter.measure(text) <= limit else ""
