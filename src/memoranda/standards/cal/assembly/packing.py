"""Which grains an ASSEMBLE prints, so that the text as printed keeps to the budget (sections 8.2, 14.3).

The budget is shared by what each grain's line costs. Lines are not the text: counts round, groups have titles. So the
text is printed and measured, what is over is dropped from the end, and what is left is offered to the next grains
that fit; a few times at most. What is returned was measured, whatever printer and counter there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from memoranda.standards.cal.assembly import budget
from memoranda.standards.cal.printing.counter import TokenCounter
from memoranda.standards.cal.printing.elements import Element

# How often a text is printed to come close to its budget.
_PRINT_ROUNDS: Final = 5
# Not worth another print: less than one in fifty of the budget is left.
_CLOSE_ENOUGH_DIVISOR: Final = 50
# How many short forms are made: a text has room for few of them once the grains that fit are in.
_MAX_SHORTENED: Final = 500
# Section 10.6: the output of a template has at most two characters for each token, or this many for a budget in grains.
_TEMPLATE_CHARS_PER_TOKEN: Final = 2
_TEMPLATE_CHARS: Final = 32_000


class PricedGrain(NamedTuple):
    """A grain as it would be printed."""

    element: Element
    line: str
    # Of the budget, in its unit.
    cost: int
    tokens: int


class SourceSelection(msgspec.Struct, kw_only=True):
    """What one source offers, in order, and what is taken of it, by place."""

    label: str
    candidates: list[PricedGrain]
    chosen: dict[int, PricedGrain] = msgspec.field(default_factory=dict)

    @property
    def truncated(self) -> bool:
        """Whether the budget left something out."""
        return len(self.chosen) < len(self.candidates)

    def in_order(self) -> list[PricedGrain]:
        """What is printed, in the order of the results."""
        return [self.chosen[index] for index in sorted(self.chosen)]


class Printer(Protocol):
    """Makes the text."""

    def print_line(self, element: Element) -> str:
        """One grain, with its line break."""

    def print_text(self, lanes: Sequence[SourceSelection]) -> str:
        """All that is taken, with everything around it."""


class Meter(msgspec.Struct, frozen=True, kw_only=True):
    """The budget, and how a text is measured against it."""

    amount: int
    unit: str
    counter: TokenCounter
    is_template: bool = False

    @property
    def limit(self) -> int | None:
        """What `size` may not exceed; None: texts are not measured."""
        if self.unit == "tokens":
            return self.amount
        return _TEMPLATE_CHARS if self.is_template else None

    def measure(self, text: str) -> int:
        """A text in units of the limit."""
        if self.unit != "tokens":
            return len(text)
        tokens = self.counter.count(text)
        return max(tokens, -(-len(text) // _TEMPLATE_CHARS_PER_TOKEN)) if self.is_template else tokens

    def price(self, element: Element, line: str) -> PricedGrain:
        """A grain with what it costs."""
        tokens = self.counter.count(line)
        if self.unit != "tokens":
            return PricedGrain(element, line, 1, tokens)
        return PricedGrain(element, line, self.measure(line) if self.is_template else tokens, tokens)


class Packer:
    """Takes grains out of lanes, the lane of the highest priority first."""

    __slots__ = ("_dropped_ids", "_meter", "_printer", "_shorten", "_shortened", "allocations", "selections")

    def __init__(
        self,
        lanes: Sequence[SourceSelection],
        printer: Printer,
        meter: Meter,
        shorten: Callable[[PricedGrain], PricedGrain | None] | None = None,
    ) -> None:
        self.selections = lanes
        self.allocations: tuple[int, ...] = ()
        self._printer = printer
        self._meter = meter
        # Makes the short form of a grain that does not fit as it is.
        self._shorten = shorten
        self._shortened: dict[tuple[str, int], PricedGrain | None] = {}
        # What had to go once is not offered again as it was.
        self._dropped_ids: set[int] = set()

    def pack(self) -> str:
        """The text; the lanes then know what is in it."""
        if self._meter.unit != "tokens":
            self._fill(self._meter.amount)
            limit = self._meter.limit
            return (
                self._printer.print_text(self.selections) if limit is None else self._print_to_fit(limit, may_add=False)
            )
        limit = self._meter.amount
        around = self._measure_overhead()
        if around >= limit:
            around = min(limit, self._meter.measure(self._printer.print_text(self._empty_selections())))
        self._fill(limit - around)
        # Lines that stand together cost less than the sum of their costs, each rounded up.
        while (room := limit - around - self._measure_lines()) > 0 and self._add_fitting(room):
            pass
        return self._print_to_fit(limit, overhead=around)

    def may_fit_all(self) -> bool:
        """Whether everything may fit; a guess that is rarely wrong, and cheap."""
        if self._meter.unit != "tokens":
            return sum(len(lane.candidates) for lane in self.selections) <= self._meter.amount
        lines = self._meter.measure("".join(cut.line for lane in self.selections for cut in lane.candidates))
        return lines <= self._meter.amount and self._measure_overhead() + lines <= self._meter.amount

    def _fill(self, room: int) -> None:
        filling = budget.select(room, [[cut.cost for cut in lane.candidates] for lane in self.selections])
        self.allocations = filling.allocations
        for lane, indexes in zip(self.selections, filling.chosen, strict=True):
            lane.chosen = {index: lane.candidates[index] for index in indexes}

    def _empty_selections(self) -> list[SourceSelection]:
        return [SourceSelection(label=lane.label, candidates=[]) for lane in self.selections]

    def _measure_overhead(self) -> int:
        """What the text costs beside its lines: the envelope, and the title of each group."""
        heads = self._empty_selections()
        for head, lane in zip(heads, self.selections, strict=True):
            first = {cut.element.item.grain_type: cut for cut in reversed(lane.candidates)}
            head.candidates = list(first.values())
            head.chosen = dict(enumerate(head.candidates))
        lines = self._meter.measure("".join(cut.line for head in heads for cut in head.candidates))
        return max(0, self._meter.measure(self._printer.print_text(heads)) - lines)

    def _measure_lines(self) -> int:
        return self._meter.measure("".join(cut.line for lane in self.selections for cut in lane.chosen.values()))

    def _print_to_fit(self, limit: int, *, overhead: int = 0, may_add: bool = True) -> str:
        """Print and measure until it fits and little is left."""
        best: tuple[list[dict[int, PricedGrain]], str] | None = None
        may_share_again = may_add
        for _ in range(_PRINT_ROUNDS):
            text = self._printer.print_text(self.selections)
            over = self._meter.measure(text) - limit
            if over <= 0:
                best = [dict(lane.chosen) for lane in self.selections], text
                if not may_add or -over * _CLOSE_ENOUGH_DIVISOR < limit or not self._add_fitting(-over):
                    break
            elif may_share_again and over * _CLOSE_ENOUGH_DIVISOR > limit:
                # Far more stands around the lines than was thought: share what is really there for them.
                may_share_again = False
                self._fill(max(0, limit - max(overhead, limit + over - self._measure_lines())))
            elif not self._drop_last(over):
                break
        if best is None:
            return self._halve_until_fit(limit)
        for lane, chosen in zip(self.selections, best[0], strict=True):
            lane.chosen = chosen
        return best[1]

    def _add_fitting(self, room: int) -> bool:
        """Take what fits into the room, by priority, short if it must be; whether anything was taken."""
        has_added = False
        for lane in self.selections:
            if not lane.truncated:
                continue
            for index, cut in enumerate(lane.candidates):
                if index in lane.chosen:
                    continue
                fitting = cut if self._fits(cut, room) else self._shorten_candidate(lane, index)
                if fitting is not None and self._fits(fitting, room):
                    lane.chosen[index] = fitting
                    room -= fitting.cost
                    has_added = True
        return has_added

    def _fits(self, cut: PricedGrain, room: int) -> bool:
        return cut.cost <= room and id(cut) not in self._dropped_ids

    def _shorten_candidate(self, lane: SourceSelection, index: int) -> PricedGrain | None:
        if self._shorten is None:
            return None
        key = lane.label, index
        if key not in self._shortened and len(self._shortened) < _MAX_SHORTENED:
            self._shortened[key] = self._shorten(lane.candidates[index])
        return self._shortened.get(key)

    def _drop_last(self, excess: int) -> bool:
        """Give up the last of the lowest priority until as much is gained; whether anything was there to give."""
        has_dropped = False
        for lane in reversed(self.selections):
            for index in sorted(lane.chosen, reverse=True):
                cut = lane.chosen.pop(index)
                self._dropped_ids.add(id(cut))
                has_dropped = True
                # Its cost was rounded up.
                excess -= max(len(cut.line) if self._meter.unit != "tokens" else cut.cost - 1, 0)
                if excess <= 0:
                    return True
        return has_dropped

    def _halve_until_fit(self, limit: int) -> str:
        """Half as much until it fits; nothing at all if even the envelope does not."""
        while chosen_count := sum(len(lane.chosen) for lane in self.selections):
            excess = chosen_count - chosen_count // 2
            for lane in reversed(self.selections):
                for index in sorted(lane.chosen, reverse=True)[:excess]:
                    del lane.chosen[index]
                    excess -= 1
            text = self._printer.print_text(self.selections)
            if self._meter.measure(text) <= limit:
                return text
        text = self._printer.print_text(self.selections)
        return text if self._meter.measure(text) <= limit else ""
