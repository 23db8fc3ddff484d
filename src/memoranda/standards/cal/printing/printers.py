"""The two ways to print an ASSEMBLE: as a format, or through a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from memoranda.standards.cal.assembly.packing import Lane
from memoranda.standards.cal.language.syntax import Budget
from memoranda.standards.cal.printing.counter import TokenCounter
from memoranda.standards.cal.printing.elements import Element, Frame
from memoranda.standards.cal.printing.formats import assembled_text, line_of
from memoranda.standards.cal.printing.projection import Level
from memoranda.standards.cal.printing.template_render import Part, Rendering, Scope

# They print how much of the budget the text takes, and so does toon, in a line of its own.
_NAMING_USE: Final = frozenset(("json", "yaml"))
# A text that names its own size: printed with a guess, counted, printed again.
_GUESSES: Final = 3


class FormatPrinter(msgspec.Struct, frozen=True):
    """One of the seven formats."""

    format: str
    name: str | None
    intent: str | None
    budget: Budget
    counter: TokenCounter
    now: int
    iso: bool

    def line(self, element: Element) -> str:
        """One grain, with its line break."""
        return line_of(self.format, element, self.now, iso=self.iso)

    def text(self, lanes: Sequence[Lane]) -> str:
        """All that is taken, with everything around it."""
        elements = [cut.element for lane in lanes for cut in lane.shown()]
        if self.budget.unit == "grains":
            return self._printed(elements, len(elements))
        if self.format == "toon":
            return self._toon(elements)
        if self.format not in _NAMING_USE:
            return self._printed(elements, 0)
        return _settled(lambda used: self._printed(elements, used), self.counter.count, self.budget.amount)

    def _printed(self, elements: Sequence[Element], used: int) -> str:
        frame = Frame(self.name, self.intent, used, self.budget.amount, self.budget.unit)
        return assembled_text(self.format, elements, frame, self.now, iso=self.iso)

    def _toon(self, elements: Sequence[Element]) -> str:
        # The size of the text without the line that says it, one of the first three (cal.md, *size line of toon*).
        lines = self._printed(elements, 0).split("\n", 3)
        place = lines.index(f"tokens: 0/{self.budget.amount}")
        used = self.counter.count("\n".join(lines[:place] + lines[place + 1 :]))
        lines[place] = f"tokens: {used}/{self.budget.amount}"
        return "\n".join(lines)


class TemplatePrinter(msgspec.Struct, frozen=True):
    """A template."""

    rendering: Rendering
    level: Level
    # Of each source: its place in FROM, from 0, and its rank, from 1.
    places: Mapping[str, tuple[int, int]]
    name: str | None
    intent: str | None
    budget: Budget
    counter: TokenCounter
    now: int
    iso: bool

    def line(self, element: Element) -> str:
        """One grain, with its line break."""
        index, rank = self.places[element.source]
        part = Part(label=element.source, index=index, priority=rank, elements=(element,))
        scope = self._scope((part,), self.budget.amount)
        self.rendering.try_loops(scope)
        return self.rendering.line(scope.of(part, element))

    def text(self, lanes: Sequence[Lane]) -> str:
        """All that is taken, with everything around it."""
        parts = [self._part(lane) for lane in lanes]

        def printed(used: int) -> str:
            return self.rendering.text(self._scope(parts, used))

        if self.budget.unit == "grains":
            return printed(sum(len(lane.taken) for lane in lanes))
        if not self.rendering.names_use:
            return printed(0)
        return _settled(printed, self.counter.count, self.budget.amount)

    def _scope(self, parts: Sequence[Part], used: int) -> Scope:
        frame = Frame(self.name, self.intent, used, self.budget.amount, self.budget.unit)
        return Scope(frame=frame, level=self.level, now=self.now, iso=self.iso, parts=parts)

    def _part(self, lane: Lane) -> Part:
        index, rank = self.places[lane.label]
        return Part(
            label=lane.label,
            index=index,
            priority=rank,
            elements=[cut.element for cut in lane.shown()],
            tokens_used=sum(cut.tokens for cut in lane.taken.values()),
            truncated=lane.truncated,
        )


def _settled(printed: Callable[[int], str], counted: Callable[[str], int], guess: int) -> str:
    # The first guess has as many digits as there can be, so that the text only gets shorter.
    text = printed(guess)
    for _ in range(_GUESSES):
        used = counted(text)
        if used == guess:
            break
        guess, text = used, printed(used)
    return text
