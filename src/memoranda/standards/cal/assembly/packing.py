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
_ROUNDS: Final = 5
# Not worth another print: less than one in fifty of the budget is left.
_CLOSE: Final = 50
# How many short forms are made: a text has room for few of them once the grains that fit are in.
_SHORTENED: Final = 500
# Section 10.6: the output of a template has at most two characters for each token, or this many for a budget in grains.
_TEMPLATE_CHARS_PER_TOKEN: Final = 2
_TEMPLATE_CHARS: Final = 32_000


class Cut(NamedTuple):
    """A grain as it would be printed."""

    element: Element
    line: str
    # Of the budget, in its unit.
    cost: int
    tokens: int


class Lane(msgspec.Struct, kw_only=True):
    """What one source offers, in order, and what is taken of it, by place."""

    label: str
    cuts: list[Cut]
    taken: dict[int, Cut] = msgspec.field(default_factory=dict)

    @property
    def truncated(self) -> bool:
        """Whether the budget left something out."""
        return len(self.taken) < len(self.cuts)

    def shown(self) -> list[Cut]:
        """What is printed, in the order of the results."""
        return [self.taken[place] for place in sorted(self.taken)]


class Printer(Protocol):
    """Makes the text."""

    def line(self, element: Element) -> str:
        """One grain, with its line break."""

    def text(self, lanes: Sequence[Lane]) -> str:
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

    def size(self, text: str) -> int:
        """A text in units of the limit."""
        if self.unit != "tokens":
            return len(text)
        tokens = self.counter.count(text)
        return max(tokens, -(-len(text) // _TEMPLATE_CHARS_PER_TOKEN)) if self.is_template else tokens

    def cut(self, element: Element, line: str) -> Cut:
        """A grain with what it costs."""
        tokens = self.counter.count(line)
        if self.unit != "tokens":
            return Cut(element, line, 1, tokens)
        return Cut(element, line, self.size(line) if self.is_template else tokens, tokens)


class Packer:
    """Takes grains out of lanes, the lane of the highest priority first."""

    __slots__ = ("_dropped", "_meter", "_printer", "_shorten", "_shortened", "allocations", "lanes")

    def __init__(
        self, lanes: Sequence[Lane], printer: Printer, meter: Meter, shorten: Callable[[Cut], Cut | None] | None = None
    ) -> None:
        self.lanes = lanes
        self.allocations: tuple[int, ...] = ()
        self._printer = printer
        self._meter = meter
        # Makes the short form of a grain that does not fit as it is.
        self._shorten = shorten
        self._shortened: dict[tuple[str, int], Cut | None] = {}
        # What had to go once is not offered again as it was.
        self._dropped: set[int] = set()

    def pack(self) -> str:
        """The text; the lanes then know what is in it."""
        if self._meter.unit != "tokens":
            self._fill(self._meter.amount)
            limit = self._meter.limit
            return self._printer.text(self.lanes) if limit is None else self._settle(limit, may_offer=False)
        limit = self._meter.amount
        around = self._around()
        if around >= limit:
            around = min(limit, self._meter.size(self._printer.text(self._empty())))
        self._fill(limit - around)
        # Lines that stand together cost less than the sum of their costs, each rounded up.
        while (room := limit - around - self._lines()) > 0 and self._offer(room):
            pass
        return self._settle(limit, around=around)

    def may_hold_all(self) -> bool:
        """Whether everything may fit; a guess that is rarely wrong, and cheap."""
        if self._meter.unit != "tokens":
            return sum(len(lane.cuts) for lane in self.lanes) <= self._meter.amount
        lines = self._meter.size("".join(cut.line for lane in self.lanes for cut in lane.cuts))
        return lines <= self._meter.amount and self._around() + lines <= self._meter.amount

    def _fill(self, room: int) -> None:
        filling = budget.fill(room, [[cut.cost for cut in lane.cuts] for lane in self.lanes])
        self.allocations = filling.allocations
        for lane, places in zip(self.lanes, filling.chosen, strict=True):
            lane.taken = {place: lane.cuts[place] for place in places}

    def _empty(self) -> list[Lane]:
        return [Lane(label=lane.label, cuts=[]) for lane in self.lanes]

    def _around(self) -> int:
        """What the text costs beside its lines: the envelope, and the title of each group."""
        heads = self._empty()
        for head, lane in zip(heads, self.lanes, strict=True):
            first = {cut.element.item.grain_type: cut for cut in reversed(lane.cuts)}
            head.cuts = list(first.values())
            head.taken = dict(enumerate(head.cuts))
        lines = self._meter.size("".join(cut.line for head in heads for cut in head.cuts))
        return max(0, self._meter.size(self._printer.text(heads)) - lines)

    def _lines(self) -> int:
        return self._meter.size("".join(cut.line for lane in self.lanes for cut in lane.taken.values()))

    def _settle(self, limit: int, *, around: int = 0, may_offer: bool = True) -> str:
        """Print and measure until it fits and little is left."""
        best: tuple[list[dict[int, Cut]], str] | None = None
        may_share_again = may_offer
        for _ in range(_ROUNDS):
            text = self._printer.text(self.lanes)
            over = self._meter.size(text) - limit
            if over <= 0:
                best = [dict(lane.taken) for lane in self.lanes], text
                if not may_offer or -over * _CLOSE < limit or not self._offer(-over):
                    break
            elif may_share_again and over * _CLOSE > limit:
                # Far more stands around the lines than was thought: share what is really there for them.
                may_share_again = False
                self._fill(max(0, limit - max(around, limit + over - self._lines())))
            elif not self._drop(over):
                break
        if best is None:
            return self._last_resort(limit)
        for lane, taken in zip(self.lanes, best[0], strict=True):
            lane.taken = taken
        return best[1]

    def _offer(self, room: int) -> bool:
        """Take what fits into the room, by priority, short if it must be; whether anything was taken."""
        found = False
        for lane in self.lanes:
            if not lane.truncated:
                continue
            for place, cut in enumerate(lane.cuts):
                if place in lane.taken:
                    continue
                fitting = cut if self._fits(cut, room) else self._short(lane, place)
                if fitting is not None and self._fits(fitting, room):
                    lane.taken[place] = fitting
                    room -= fitting.cost
                    found = True
        return found

    def _fits(self, cut: Cut, room: int) -> bool:
        return cut.cost <= room and id(cut) not in self._dropped

    def _short(self, lane: Lane, place: int) -> Cut | None:
        if self._shorten is None:
            return None
        key = lane.label, place
        if key not in self._shortened and len(self._shortened) < _SHORTENED:
            self._shortened[key] = self._shorten(lane.cuts[place])
        return self._shortened.get(key)

    def _drop(self, over: int) -> bool:
        """Give up the last of the lowest priority until as much is gained; whether anything was there to give."""
        found = False
        for lane in reversed(self.lanes):
            for place in sorted(lane.taken, reverse=True):
                cut = lane.taken.pop(place)
                self._dropped.add(id(cut))
                found = True
                # Its cost was rounded up.
                over -= max(len(cut.line) if self._meter.unit != "tokens" else cut.cost - 1, 0)
                if over <= 0:
                    return True
        return found

    def _last_resort(self, limit: int) -> str:
        """Half as much until it fits; nothing at all if even the envelope does not."""
        while left := sum(len(lane.taken) for lane in self.lanes):
            excess = left - left // 2
            for lane in reversed(self.lanes):
                for place in sorted(lane.taken, reverse=True)[:excess]:
                    del lane.taken[place]
                    excess -= 1
            text = self._printer.text(self.lanes)
            if self._meter.size(text) <= limit:
                return text
        text = self._printer.text(self.lanes)
        return text if self._meter.size(text) <= limit else ""
