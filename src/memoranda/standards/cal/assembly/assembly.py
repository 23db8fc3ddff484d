"""ASSEMBLE, after its sources have run (section 8.2): duplicates out, budget shared, detail chosen, text printed.

Values in, values out: the same statement, results and `now` give the same text. The text never has more tokens than
the budget, counted as printed; see `packing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import msgspec

from memoranda.errors import InvalidInput, QueryError
from memoranda.standards.cal import limits
from memoranda.standards.cal.assembly import budget
from memoranda.standards.cal.assembly.dedup import remove_duplicates
from memoranda.standards.cal.assembly.packing import Meter, Packer, PricedGrain, Printer, SourceSelection
from memoranda.standards.cal.item import Item
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
    Template,
)
from memoranda.standards.cal.printing.counter import BYTES_OVER_FOUR
from memoranda.standards.cal.printing.counter import BytesOverFour as BytesOverFour
from memoranda.standards.cal.printing.counter import TokenCounter as TokenCounter
from memoranda.standards.cal.printing.elements import Element
from memoranda.standards.cal.printing.formats import canonical_format
from memoranda.standards.cal.printing.printers import FormatPrinter, TemplatePrinter
from memoranda.standards.cal.printing.projection import Level
from memoranda.standards.cal.printing.template_render import TemplateRenderer, utilization

_NO_TEMPLATES: Final[Mapping[str, DefineTemplate]] = MappingProxyType({})
_DEFAULT_FORMAT: Final = "sml"
# The grammar's word for standard is headlines (cal.md, *headlines*).
_LEVELS: Final[Mapping[str | None, Level]] = {"summary": "summary", "headlines": "standard", "full": "full"}
# Section 14.3: with a smaller budget, the summary of more grains is worth more than the detail of fewer.
_TIGHT_TOKENS: Final = 1000
# What a grain costs before anything is known of it (cal.md, *toon by itself*).
_TOKENS_PER_GRAIN: Final = 40
_PRESSURE_PERCENT: Final = 85
_AUTO_TOON: Final = (
    "FORMAT auto-selected as toon due to budget pressure (>85% utilization estimate). "
    "Specify FORMAT explicitly to suppress this warning."
)
# What printing a grain can run into when its fields hold what no grain of its type does.
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
    """What one source found: one for each, in the order of FROM."""

    label: str
    items: tuple[Item, ...]
    # Matches before LIMIT; None: more than these, and not counted.
    total: int | None
    shape: Project | None = None
    error: QueryError | None = None
    # Its own AS.
    formatted: str | None = None
    duration_ms: int = 0


class PrintedGrain(msgspec.Struct, frozen=True, kw_only=True):
    """A grain in the text."""

    item: Item
    source: str
    level: Level
    # As it stands there, with its line break.
    line: str


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one source."""

    result: SourceResult
    # From 1.
    priority: int
    weight: float
    allocated: int
    tokens_used: int
    # What all of it would have cost, after duplicates.
    demand: int
    grain_count: int
    truncated: bool

    @property
    def label(self) -> str:
        """What it is called."""
        return self.result.label

    def document(self) -> dict[str, Any]:
        """As it stands in the answer."""
        document: dict[str, Any] = {
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
    # A format, or the name of a template, or `template`.
    format: str
    # In the order in which the text has them.
    items: tuple[PrintedGrain, ...]
    # In the order of FROM.
    sources: tuple[SourceReport, ...]
    budget: Budget
    counter: TokenCounter
    tokens_used: int
    level: Level
    # Grains that the text does not have, duplicates aside.
    omitted: int
    # Duplicates.
    removed: int
    warnings: tuple[dict[str, str], ...] = ()

    @property
    def used(self) -> int:
        """Of the budget, in its unit."""
        return self.tokens_used if self.budget.unit == "tokens" else len(self.items)

    @property
    def failed(self) -> tuple[str, ...]:
        """The sources that gave nothing because they failed."""
        return tuple(source.label for source in self.sources if source.result.error is not None)

    def disclosure(self) -> dict[str, Any]:
        """How much detail how many grains have (cal.md, *disclosure report*)."""
        report: dict[str, Any] = {"level": self.level, "full": 0, "standard": 0, "summary": 0, "omitted": self.omitted}
        for grain in self.items:
            report[grain.level] += 1
        return report

    def document(self) -> dict[str, Any]:
        """What the answer has beside its results (cal.md, *answer of ASSEMBLE*)."""
        total, used = self.budget.amount, self.used
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
                    "used": used,
                    "remaining": total - used,
                    "utilization": utilization(used, total),
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
    templates: Mapping[str, DefineTemplate] = _NO_TEMPLATES,
    auto_toon: bool = False,
) -> Assembly:
    """The text of what the sources found, and a report on it."""
    if sources and all(source.error is not None for source in sources):
        reason = sources[0].error.message if sources[0].error else ""
        raise QueryError(f"Every source failed; the first: {reason}", cal_code="CAL-E076", suggestion="Try again.")
    return _Assembler(statement, sources, now, counter, templates, auto_toon).run()


def rank_sources(statement: Assemble, labels: Sequence[str]) -> list[int]:
    """The places of the sources, the highest priority first; those that PRIORITY does not name follow as in FROM."""
    ranks = {label: rank for rank, label in enumerate(statement.priority)}
    return sorted(range(len(labels)), key=lambda index: (ranks.get(labels[index], len(ranks)), index))


def budget_of(statement: Assemble) -> Budget:
    """What it asks for, or 4000 tokens."""
    return statement.budget or Budget(amount=budget.DEFAULT_TOKENS, unit="tokens")


@cache
def weights(count: int) -> tuple[float, ...]:
    """The shares of so many sources, as the answer writes them."""
    return tuple(round(float(weight_share), 4) for weight_share in budget.weights(count))


@dataclass(slots=True)
class _Assembler:
    """One ASSEMBLE on its way; sources by rank of priority."""

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
        by_rank = self._deduplicated_by_rank()
        format_name, rendering = self._choose_format()
        meter = Meter(
            amount=self.budget.amount,
            unit=self.budget.unit,
            counter=self.counter,
            is_template=rendering is not None,
        )
        level, packer, text = self._pack(by_rank, format_name, rendering, meter)
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
            omitted=remaining - sum(len(lane.chosen) for lane in packer.selections),
            removed=sum(len(source.items) for source in self.sources if source.error is None) - remaining,
            warnings=(*self.warnings, *self.unprintable.values()),
        )

    def _deduplicated_by_rank(self) -> list[Sequence[Item]]:
        """The grains of each source, without copies if that is asked for."""
        by_rank: list[Sequence[Item]] = [
            () if self.sources[index].error is not None else self.sources[index].items for index in self.order
        ]
        dedup = self.options.get("dedup")
        return by_rank if dedup is None or dedup.word is None else remove_duplicates(by_rank, dedup.word)

    def _choose_format(self) -> tuple[str, TemplateRenderer | None]:
        wanted = self.statement.format
        if isinstance(wanted, Template):
            return self._find_template(wanted)
        if wanted is None and self.auto_toon and should_use_toon(self.statement):
            self.warnings.append({"code": "CAL-W005", "message": _AUTO_TOON})
            return "toon", None
        return canonical_format(wanted or _DEFAULT_FORMAT), None

    def _find_template(self, wanted: Template) -> tuple[str, TemplateRenderer]:
        if wanted.sections is not None:
            return "template", TemplateRenderer(wanted.sections)
        name = wanted.name or ""
        definition = self.templates.get(name)
        if definition is None:
            hint = suggest.did_you_mean(name, sorted(self.templates)) or "Define it first: DEFINE TEMPLATE …"
            raise QueryError(f'There is no template "{name[:80]}".', cal_code="CAL-E085", suggestion=hint)
        return name, TemplateRenderer(definition.sections, definition.extends)

    def _pack(
        self, by_rank: Sequence[Sequence[Item]], format_name: str, rendering: TemplateRenderer | None, meter: Meter
    ) -> tuple[Level, Packer, str]:
        option = self.options.get("progressive_disclosure")
        is_open = option is not None and option.word is None
        if not is_open:
            level: Level = _LEVELS.get(option.word, "standard") if option is not None else "standard"
        elif self.budget.unit == "tokens" and self.budget.amount < _TIGHT_TOKENS:
            level = "summary"
        else:
            # Everything in full, if it all fits so (cal.md, *levels of disclosure*).
            printer = self._make_printer(format_name, rendering, "full")
            packer = Packer(
                self._build_selections(by_rank, printer, meter, "full", only_if_all_fit=True), printer, meter
            )
            if len(packer.selections) == len(by_rank) and packer.may_fit_all():
                text = packer.pack()
                if not any(lane.truncated for lane in packer.selections):
                    return "full", packer, text
            self.unprintable.clear()
            level = "standard"
        printer = self._make_printer(format_name, rendering, level)

        def shorten(cut: PricedGrain) -> PricedGrain | None:
            return self._price_element(replace(cut.element, level="summary"), printer, meter)

        may_shorten = is_open and level != "summary" and self.budget.unit == "tokens"
        packer = Packer(
            self._build_selections(by_rank, printer, meter, level), printer, meter, shorten if may_shorten else None
        )
        return level, packer, packer.pack()

    def _make_printer(self, format_name: str, rendering: TemplateRenderer | None, level: Level) -> Printer:
        iso = "iso_timestamps" in self.options
        name, intent = self.statement.name, self.statement.intent
        if rendering is None:
            return FormatPrinter(format_name, name, intent, self.budget, self.counter, self.now, iso)
        positions = {self.sources[index].label: (index, rank) for rank, index in enumerate(self.order, start=1)}
        return TemplatePrinter(rendering, level, positions, name, intent, self.budget, self.counter, self.now, iso)

    def _build_selections(
        self,
        by_rank: Sequence[Sequence[Item]],
        printer: Printer,
        meter: Meter,
        level: Level,
        *,
        only_if_all_fit: bool = False,
    ) -> list[SourceSelection]:
        """What each source offers; if all is wanted or nothing, only until it is certain that it is too much."""
        lanes: list[SourceSelection] = []
        least_cost = 0
        for index, items in zip(self.order, by_rank, strict=True):
            source = self.sources[index]
            label, shape = source.label, source.shape
            cuts = [self._price_element(Element(item, level, label, shape), printer, meter) for item in items]
            lanes.append(SourceSelection(label=label, candidates=[cut for cut in cuts if cut is not None]))
            # Together they may cost up to one less each.
            least_cost += sum(cut.cost - 1 for cut in lanes[-1].candidates)
            if only_if_all_fit and least_cost > self.budget.amount:
                break
        return lanes

    def _price_element(self, element: Element, printer: Printer, meter: Meter) -> PricedGrain | None:
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
        reports: dict[int, SourceReport] = {}
        shares = weights(len(self.order))
        for rank, (index, lane) in enumerate(zip(self.order, packer.selections, strict=True)):
            reports[index] = SourceReport(
                result=self.sources[index],
                priority=rank + 1,
                weight=shares[rank],
                allocated=packer.allocations[rank],
                tokens_used=sum(cut.tokens for cut in lane.chosen.values()),
                demand=sum(cut.tokens for cut in lane.candidates),
                grain_count=len(lane.chosen),
                truncated=lane.truncated,
            )
        return tuple(reports[index] for index in sorted(reports))


def _in_output_order(lanes: Sequence[SourceSelection], format_name: str) -> tuple[PrintedGrain, ...]:
    cuts = [cut for lane in lanes for cut in lane.in_order()]
    if format_name == "toon":
        # One table for each type, where the type first occurs (cal.md, *tables of toon*).
        types = {cut.element.item.grain_type: None for cut in cuts}
        ranks = {grain_type: rank for rank, grain_type in enumerate(types)}
        cuts.sort(key=lambda cut: ranks[cut.element.item.grain_type])
    return tuple(
        PrintedGrain(item=cut.element.item, source=cut.element.source, level=cut.element.level, line=cut.line)
        for cut in cuts
    )


def should_use_toon(statement: Assemble) -> bool:
    """Whether toon may be chosen: a short budget, and sources of one type each (cal.md, *toon by itself*)."""
    if statement.budget is None or statement.budget.unit != "tokens":
        return False
    queries = [source.query for source in statement.sources]
    if not all(isinstance(query, Recall) and query.grain_type is not None for query in queries):
        return False
    expected = _TOKENS_PER_GRAIN * sum(_max_grains(query) for query in queries if isinstance(query, Recall))
    return expected * 100 > statement.budget.amount * _PRESSURE_PERCENT


def _max_grains(query: Recall) -> int:
    """How many grains a query may yield."""
    counts = [stage.count for stage in query.stages if isinstance(stage, Limit)]
    if query.recent is not None:
        counts.append(query.recent)
    if any(isinstance(stage, Reduce) and stage.to == "first" for stage in query.stages):
        counts.append(1)
    return min((count for count in counts if isinstance(count, int)), default=limits.LIMIT_DEFAULT)
