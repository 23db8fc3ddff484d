"""The two printers of an ASSEMBLE: one for formats, one for templates. Both implement `packing.Printer`.

`packing` chooses which grains fit into the budget and asks a printer two things: the line of one grain, to estimate its
size, and the text of the whole choice, to measure it. A text that states its own size changes its size by that, so it
is rendered again until the number is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from memoranda.standards.cal.assembly.packing import SourceSelection
from memoranda.standards.cal.language.syntax import Budget
from memoranda.standards.cal.printing.counter import TokenCounter
from memoranda.standards.cal.printing.elements import ContextFrame, Element
from memoranda.standards.cal.printing.formats import assembled_text, line_of
from memoranda.standards.cal.printing.projection import Level
from memoranda.standards.cal.printing.template_render import (
    SectionScope,
    SourcePart,
    TemplateRenderer,
)

# Formats whose text states how much of the budget it takes. toon does so as well, in a line of its own.
_FORMATS_WITH_USAGE: Final = frozenset(("json", "yaml"))
# Rounds of printing, counting and printing again, for a text that states its own size.
_MAX_GUESSES: Final = 3


class FormatPrinter(msgspec.Struct, frozen=True):
    """Prints an ASSEMBLE in one of the seven formats."""

    format: str
    name: str | None
    intent: str | None
    budget: Budget
    counter: TokenCounter
    now: int
    iso_times: bool

    def print_line(self, element: Element) -> str:
        """Return the line of one grain, with its line break."""
        return line_of(self.format, element, self.now, iso_times=self.iso_times)

    def print_text(self, selections: Sequence[SourceSelection]) -> str:
        """Return the text of all chosen grains, with headings and envelope."""
        elements = [grain.element for selection in selections for grain in selection.in_order()]
        if self.budget.unit == "grains":
            return self._print_with_usage(elements, len(elements))
        if self.format == "toon":
            return self._print_toon(elements)
        if self.format not in _FORMATS_WITH_USAGE:
            return self._print_with_usage(elements, 0)
        return _settle_usage(
            lambda used_units: self._print_with_usage(elements, used_units),
            self.counter.count,
            self.budget.amount,
        )

    def _print_with_usage(self, elements: Sequence[Element], used_units: int) -> str:
        """Return the text, which states that `used` units of the budget are used."""
        frame = ContextFrame(
            self.name, self.intent, used_units, self.budget.amount, self.budget.unit
        )
        return assembled_text(self.format, elements, frame, self.now, iso_times=self.iso_times)

    def _print_toon(self, elements: Sequence[Element]) -> str:
        """Return the text in toon, which states its size without the line that states it."""
        # The line is one of the first three (cal.md, *size line of toon*).
        lines = self._print_with_usage(elements, 0).split("\n", 3)
        line_index = lines.index(f"tokens: 0/{self.budget.amount}")
        used_units = self.counter.count("\n".join(lines[:line_index] + lines[line_index + 1 :]))
        lines[line_index] = f"tokens: {used_units}/{self.budget.amount}"
        return "\n".join(lines)


class TemplatePrinter(msgspec.Struct, frozen=True):
    """Prints an ASSEMBLE through a template."""

    renderer: TemplateRenderer
    level: Level
    # Label of each source → its index in FROM, from 0, and its rank of priority, from 1.
    positions: Mapping[str, tuple[int, int]]
    name: str | None
    intent: str | None
    budget: Budget
    counter: TokenCounter
    now: int
    iso_times: bool

    def print_line(self, element: Element) -> str:
        """Return the line of one grain, with its line break."""
        index, rank = self.positions[element.source]
        part = SourcePart(label=element.source, index=index, priority=rank, elements=(element,))
        scope = self._scope((part,), self.budget.amount)
        self.renderer.try_loops(scope)
        return self.renderer.render_line(scope.inside(part, element))

    def print_text(self, selections: Sequence[SourceSelection]) -> str:
        """Return the text of all chosen grains, with headings and envelope."""
        parts = [self._source_part(selection) for selection in selections]

        def render(used_units: int) -> str:
            return self.renderer.render_text(self._scope(parts, used_units))

        if self.budget.unit == "grains":
            return render(sum(len(selection.chosen) for selection in selections))
        if not self.renderer.shows_usage:
            return render(0)
        return _settle_usage(render, self.counter.count, self.budget.amount)

    def _scope(self, parts: Sequence[SourcePart], used_units: int) -> SectionScope:
        """Return the scope of the whole text."""
        frame = ContextFrame(
            self.name, self.intent, used_units, self.budget.amount, self.budget.unit
        )
        return SectionScope(
            frame=frame, level=self.level, now=self.now, iso_times=self.iso_times, parts=parts
        )

    def _source_part(self, selection: SourceSelection) -> SourcePart:
        """Return the chosen grains of one source, as the template sees them."""
        index, rank = self.positions[selection.label]
        return SourcePart(
            label=selection.label,
            index=index,
            priority=rank,
            elements=[grain.element for grain in selection.in_order()],
            tokens_used=sum(grain.tokens for grain in selection.chosen.values()),
            truncated=selection.truncated,
        )


def _settle_usage(render: Callable[[int], str], count: Callable[[str], int], guess: int) -> str:
    """Render a text that states its own size until the size is right, or `_MAX_GUESSES` rounds are over."""
    # The first guess has the most digits, so the text can only become shorter.
    text = render(guess)
    for _ in range(_MAX_GUESSES):
        used_units = count(text)
        if used_units == guess:
            break
        guess, text = used_units, render(used_units)
    return text
