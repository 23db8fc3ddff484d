"""ASSEMBLE, after its sources have run (section 8.2).

The steps: remove duplicates, choose format and level of detail, price each grain by its printed line, select grains
within the budget (`packing`), print. All of it is pure: the same statement, results and `now` give the same text. The
text never has more tokens than the budget, counted as printed.

Every choice is deterministic, because hosts cache and compare contexts. If a source fails, the others are still
assembled, and the answer names the failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import msgspec

from memoranda.errors import InvalidInput, QueryError
from memoranda.standards.cal import limits
from memoranda.standards.cal.assembly import budget
from memoranda.standards.cal.assembly.packing import (
    Meter,
    Packer,
    PricedGrain,
    Printer,
    SourceSelection,
)
from memoranda.standards.cal.assembly.pipeline import remove_duplicates
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language import suggest
from memoranda.standards.cal.language.syntax import (
    Assemble,
    Budget,
    DefineTemplate,
    Limit,
    Option,
    Project,
    Recall,
    Reduce,
    TemplateFormat,
)
from memoranda.standards.cal.printing.counter import BYTES_OVER_FOUR
from memoranda.standards.cal.printing.counter import BytesOverFour as BytesOverFour
from memoranda.standards.cal.printing.counter import TokenCounter as TokenCounter
from memoranda.standards.cal.printing.elements import Element
from memoranda.standards.cal.printing.formats import canonical_format
from memoranda.standards.cal.printing.printers import FormatPrinter, TemplatePrinter
from memoranda.standards.cal.printing.projection import Level
from memoranda.standards.cal.printing.template_render import TemplateRenderer, utilization

_WITHOUT_TEMPLATES: Final[Mapping[str, DefineTemplate]] = MappingProxyType({})
_DEFAULT_FORMAT: Final = "sml"
# Words of the grammar → our levels (cal.md, *headlines*).
_LEVEL_BY_WORD: Final[Mapping[str | None, Level]] = {
    "summary": "summary",
    "headlines": "standard",
    "standard": "standard",
    "full": "full",
}
# Section 14.3: with fewer tokens than this, summaries of more grains are worth more than details of fewer.
_TIGHT_TOKENS: Final = 1000
# Tokens that a grain is estimated to take before it is printed (cal.md, *automatic toon*).
_TOKENS_PER_GRAIN: Final = 40
_PRESSURE_PERCENT: Final = 85
_AUTO_TOON: Final = (
    "FORMAT auto-selected as toon due to budget pressure (>85% utilization estimate). "
    "Specify FORMAT explicitly to suppress this warning."
)
# Errors that printing can raise if a grain's fields hold values that its type does not allow.
_UNPRINTABLE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    InvalidInput,
)


class SourceResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one source. Results are passed in the order of FROM."""

    label: str
    items: tuple[ResultItem, ...]
    # Matches before LIMIT; None means that there are more than `items`, and that they were not counted.
    total: int | None
    shape: Project | None = None
    error: QueryError | None = None
    # The text of the source's own AS clause.
    formatted: str | None = None
    duration_ms: int = 0


class PrintedGrain(msgspec.Struct, frozen=True, kw_only=True):
    """A grain in the assembled text."""

    item: ResultItem
    source: str
    level: Level
    # The printed line, with its line break.
    line: str


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The part that one source has in the assembled text."""

    result: SourceResult
    # Rank of priority, from 1.
    priority: int
    weight: float
    allocated: int
    tokens_used: int
    # Tokens that all grains of the source would have taken, without duplicates.
    demand: int
    grain_count: int
    truncated: bool

    @property
    def label(self) -> str:
        """The label of the source."""
        return self.result.label

    def document(self) -> dict[str, object]:
        """Return the report as a member of the answer."""
        document: dict[str, object] = {
            "label": self.label,
            "priority": self.priority,
            "weight": self.weight,
            "allocated": self.allocated,
            "tokens_used": self.tokens_used,
            "grain_count": self.grain_count,
            "total": self.result.total,
            "truncated": self.truncated,
        }
        if self.result.formatted is not None:
            document["formatted"] = self.result.formatted
        if (error := self.result.error) is not None:
            document["error"] = {"code": error.cal_code, "message": error.message}
        return document


class Assembly(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an ASSEMBLE."""

    statement: Assemble
    text: str
    # The name of a format or a template, or "template" for one without a name.
    format: str
    # In the order of the text.
    items: tuple[PrintedGrain, ...]
    # In the order of FROM.
    sources: tuple[SourceReport, ...]
    budget: Budget
    counter: TokenCounter
    tokens_used: int
    level: Level
    # Number of grains that did not fit, duplicates not counted.
    omitted: int
    # Number of duplicates.
    removed: int
    warnings: tuple[dict[str, str], ...] = ()

    @property
    def used(self) -> int:
        """The used amount of the budget, in its unit."""
        return self.tokens_used if self.budget.unit == "tokens" else len(self.items)

    @property
    def failed(self) -> tuple[str, ...]:
        """The labels of the sources that failed."""
        return tuple(source.label for source in self.sources if source.result.error is not None)

    def disclosure(self) -> dict[str, object]:
        """Return the number of grains per level of detail (cal.md, *disclosure report*)."""
        counts = Counter(grain.level for grain in self.items)
        return {
            "level": self.level,
            "full": counts["full"],
            "standard": counts["standard"],
            "summary": counts["summary"],
            "omitted": self.omitted,
        }

    def document(self) -> dict[str, Any]:
        """Return the members of the answer next to its results (cal.md, *answer of ASSEMBLE*)."""
        total, used_units = self.budget.amount, self.used
        return {
            "formatted_context": {"format": self.format, "text": self.text},
            "assembly": {
                "name": self.statement.name,
                "intent": self.statement.intent,
                "source_count": len(self.sources),
                "grain_count": len(self.items),
                "budget": {
                    "total": total,
                    "unit": self.budget.unit,
                    "used": used_units,
                    "remaining": total - used_units,
                    "utilization": utilization(used_units, total),
                    "counter": self.counter.name,
                },
                "disclosure": self.disclosure(),
                "sources": [source.document() for source in self.sources],
            },
        }


def assemble(
    statement: Assemble,
    sources: Sequence[SourceResult],
    *,
    now: int,
    counter: TokenCounter = BYTES_OVER_FOUR,
    templates: Mapping[str, DefineTemplate] = _WITHOUT_TEMPLATES,
    auto_toon: bool = False,
) -> Assembly:
    """Return the text assembled from the results of the sources, with a report. Raise QueryError if all failed.

    `now` is the instant of the request; `templates` returns a template by its name.
    """
    if sources and all(source.error is not None for source in sources):
        reason = sources[0].error.message if sources[0].error else ""
        raise QueryError(
            f"Every source failed; the first: {reason}",
            cal_code="CAL-E076",
            suggestion="Try again.",
        )
    return _Assembler(statement, sources, now, counter, templates, auto_toon).run()


def rank_sources(statement: Assemble, labels: Sequence[str]) -> list[int]:
    """Return the indexes of the sources, highest priority first. Sources that PRIORITY omits follow in their order."""
    ranks = {label: rank for rank, label in enumerate(statement.priority)}

    def sort_key(index: int) -> tuple[int, int]:
        return ranks.get(labels[index], len(ranks)), index

    return sorted(range(len(labels)), key=sort_key)


def budget_of(statement: Assemble) -> Budget:
    """Return the budget of a statement, 4,000 tokens by default."""
    return statement.budget or Budget(amount=budget.DEFAULT_TOKENS, unit="tokens")


@cache
def weights(count: int) -> tuple[float, ...]:
    """Return the shares of a number of sources, rounded for the answer."""
    return tuple(round(float(share), 4) for share in budget.weights(count))


@dataclass(slots=True)
class _Assembler:
    """The state of one running ASSEMBLE. `order` holds indexes of sources by rank of priority."""

    statement: Assemble
    sources: Sequence[SourceResult]
    now: int
    counter: TokenCounter
    templates: Mapping[str, DefineTemplate]
    auto_toon: bool
    options: Mapping[str, Option] = field(init=False)
    budget: Budget = field(init=False)
    order: list[int] = field(init=False)
    warnings: list[dict[str, str]] = field(init=False, default_factory=list)
    unprintable: dict[str, dict[str, str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.options = {option.name: option for option in self.statement.options}
        self.budget = budget_of(self.statement)
        self.order = rank_sources(self.statement, [source.label for source in self.sources])

    def run(self) -> Assembly:
        """Run all steps and return the assembly."""
        by_rank = self._deduplicated_by_rank()
        format_name, renderer = self._choose_format()
        meter = Meter(
            amount=self.budget.amount,
            unit=self.budget.unit,
            counter=self.counter,
            is_template=renderer is not None,
        )
        level, packer, text = self._pack(by_rank, format_name, renderer, meter)
        remaining = sum(map(len, by_rank))
        return Assembly(
            statement=self.statement,
            text=text,
            format=format_name,
            items=_in_output_order(packer.selections, format_name),
            sources=self._build_reports(packer),
            budget=self.budget,
            counter=self.counter,
            tokens_used=self.counter.count(text),
            level=level,
            omitted=remaining - sum(len(selection.chosen) for selection in packer.selections),
            removed=sum(len(source.items) for source in self.sources if source.error is None)
            - remaining,
            warnings=(*self.warnings, *self.unprintable.values()),
        )

    def _deduplicated_by_rank(self) -> list[Sequence[ResultItem]]:
        """Return the grains of each source by rank, without duplicates: equal grains, and those of `WITH dedup`."""
        by_rank: list[Sequence[ResultItem]] = []
        for index in self.order:
            source = self.sources[index]
            by_rank.append(source.items if source.error is None else ())
        # A memory is printed once, also without `WITH dedup`: its tokens are worth more to other memories.
        by_rank = remove_duplicates(by_rank)
        dedup = self.options.get("dedup")
        return (
            by_rank
            if dedup is None or dedup.word is None
            else remove_duplicates(by_rank, dedup.word)
        )

    def _choose_format(self) -> tuple[str, TemplateRenderer | None]:
        """Return the name of the format, and the renderer if it is a template."""
        requested = self.statement.format
        if isinstance(requested, TemplateFormat):
            return self._find_template(requested)
        if requested is None and self.auto_toon and should_use_toon(self.statement):
            self.warnings.append({"code": "CAL-W005", "message": _AUTO_TOON})
            return "toon", None
        return canonical_format(requested or _DEFAULT_FORMAT), None

    def _find_template(self, requested: TemplateFormat) -> tuple[str, TemplateRenderer]:
        """Return name and renderer of a template. Raise QueryError if none has this name."""
        if requested.sections is not None:
            return "template", TemplateRenderer(requested.sections)
        name = requested.name or ""
        definition = self.templates.get(name)
        if definition is None:
            hint = (
                suggest.did_you_mean(name, sorted(self.templates))
                or "Define it first: DEFINE TEMPLATE …"
            )
            raise QueryError(
                f'There is no template "{name[:80]}".', cal_code="CAL-E085", suggestion=hint
            )
        return name, TemplateRenderer(definition.sections, definition.extends)

    def _pack(
        self,
        by_rank: Sequence[Sequence[ResultItem]],
        format_name: str,
        renderer: TemplateRenderer | None,
        meter: Meter,
    ) -> tuple[Level, Packer, str]:
        """Choose the level of detail and select the grains; return the level, the packer and the text."""
        option = self.options.get("progressive_disclosure")
        chooses_level = option is not None and option.word is None
        if not chooses_level:
            level: Level = (
                _LEVEL_BY_WORD.get(option.word, "standard") if option is not None else "standard"
            )
        elif self.budget.unit == "tokens" and self.budget.amount < _TIGHT_TOKENS:
            level = "summary"
        else:
            # Print every grain in full detail if all of them fit (cal.md, *levels of disclosure*).
            printer = self._make_printer(format_name, renderer, "full")
            packer = Packer(
                self._build_selections(by_rank, printer, meter, "full", only_if_all_fit=True),
                printer,
                meter,
            )
            if len(packer.selections) == len(by_rank) and packer.may_fit_all():
                text = packer.pack()
                if not any(selection.truncated for selection in packer.selections):
                    return "full", packer, text
            self.unprintable.clear()
            level = "standard"
        printer = self._make_printer(format_name, renderer, level)

        def shorten(grain: PricedGrain) -> PricedGrain | None:
            return self._price_element(replace(grain.element, level="summary"), printer, meter)

        may_shorten = chooses_level and level != "summary" and self.budget.unit == "tokens"
        packer = Packer(
            self._build_selections(by_rank, printer, meter, level),
            printer,
            meter,
            shorten if may_shorten else None,
        )
        return level, packer, packer.pack()

    def _make_printer(
        self, format_name: str, renderer: TemplateRenderer | None, level: Level
    ) -> Printer:
        """Return the printer for a format or a template."""
        iso_times = "iso_timestamps" in self.options
        name, intent = self.statement.name, self.statement.intent
        if renderer is None:
            return FormatPrinter(
                format_name, name, intent, self.budget, self.counter, self.now, iso_times
            )
        positions = {
            self.sources[index].label: (index, rank)
            for rank, index in enumerate(self.order, start=1)
        }
        return TemplatePrinter(
            renderer, level, positions, name, intent, self.budget, self.counter, self.now, iso_times
        )

    def _build_selections(
        self,
        by_rank: Sequence[Sequence[ResultItem]],
        printer: Printer,
        meter: Meter,
        level: Level,
        *,
        only_if_all_fit: bool = False,
    ) -> list[SourceSelection]:
        """Return the priced grains of each source by rank.

        With `only_if_all_fit`, stop at the first source with which the budget is certainly exceeded.
        """
        selections: list[SourceSelection] = []
        least_cost = 0
        for index, items in zip(self.order, by_rank, strict=True):
            source = self.sources[index]
            label, shape = source.label, source.shape
            grains = [
                self._price_element(Element(item, level, label, shape), printer, meter)
                for item in items
            ]
            selections.append(
                SourceSelection(
                    label=label, candidates=[grain for grain in grains if grain is not None]
                )
            )
            # Costs are rounded up, so joined lines may cost up to one unit less per grain.
            least_cost += sum(grain.cost - 1 for grain in selections[-1].candidates)
            if only_if_all_fit and least_cost > self.budget.amount:
                break
        return selections

    def _price_element(
        self, element: Element, printer: Printer, meter: Meter
    ) -> PricedGrain | None:
        """Return a grain with its line and cost; record a warning and return None if it cannot be printed."""
        try:
            return meter.price(element, printer.print_line(element))
        except _UNPRINTABLE:
            message = f"The grain {element.item.hash} of {element.source} cannot be formatted."
            self.unprintable[element.source + element.item.address] = {
                "code": "CAL-E080",
                "message": message,
                "source": element.source,
            }
            return None

    def _build_reports(self, packer: Packer) -> tuple[SourceReport, ...]:
        """Return the report of each source, in the order of FROM."""
        reports: dict[int, SourceReport] = {}
        shares = weights(len(self.order))
        for rank, (index, selection) in enumerate(zip(self.order, packer.selections, strict=True)):
            reports[index] = SourceReport(
                result=self.sources[index],
                priority=rank + 1,
                weight=shares[rank],
                allocated=packer.allocations[rank],
                tokens_used=sum(grain.tokens for grain in selection.chosen.values()),
                demand=sum(grain.tokens for grain in selection.candidates),
                grain_count=len(selection.chosen),
                truncated=selection.truncated,
            )
        return tuple(reports[index] for index in sorted(reports))


def _in_output_order(
    selections: Sequence[SourceSelection], format_name: str
) -> tuple[PrintedGrain, ...]:
    """Return the selected grains in the order in which the format prints them."""
    grains = [grain for selection in selections for grain in selection.in_order()]
    if format_name == "toon":
        # One table for each type, where the type first occurs (cal.md, *tables of toon*).
        types = {grain.element.item.grain_type: None for grain in grains}
        ranks = {grain_type: rank for rank, grain_type in enumerate(types)}
        grains.sort(key=lambda grain: ranks[grain.element.item.grain_type])
    return tuple(
        PrintedGrain(
            item=grain.element.item,
            source=grain.element.source,
            level=grain.element.level,
            line=grain.line,
        )
        for grain in grains
    )


def should_use_toon(statement: Assemble) -> bool:
    """Return True if the format toon may be chosen without being requested (cal.md, *automatic toon*).

    That needs a tight budget in tokens, and sources of one declared type each.
    """
    if statement.budget is None or statement.budget.unit != "tokens":
        return False
    queries = [source.query for source in statement.sources]
    if not all(isinstance(query, Recall) and query.grain_type is not None for query in queries):
        return False
    expected = _TOKENS_PER_GRAIN * sum(
        _max_grains(query) for query in queries if isinstance(query, Recall)
    )
    return expected * 100 > statement.budget.amount * _PRESSURE_PERCENT


def _max_grains(query: Recall) -> int:
    """Return the most grains that a query can return."""
    counts = [stage.count for stage in query.stages if isinstance(stage, Limit)]
    if query.recent is not None:
        counts.append(query.recent)
    if any(isinstance(stage, Reduce) and stage.to == "first" for stage in query.stages):
        counts.append(1)
    return min((count for count in counts if isinstance(count, int)), default=limits.LIMIT_DEFAULT)
