"""Running what reads (CAL section 8): each statement gives the members of its answer; `cal.py` adds the envelope."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memoranda import __version__
from memoranda.errors import QueryError
from memoranda.model.memory import Version, is_over
from memoranda.model.selection import IsOneOf
from memoranda.retrieval.languages import LANGUAGES
from memoranda.service.cal.answer import recalled, result_of, text_of
from memoranda.service.cal.recall import SCAN_LIMIT, GrainReader
from memoranda.service.cal.window import Found
from memoranda.service.core.indexing import as_grain
from memoranda.service.oms.views import is_visible, to_json_value
from memoranda.standards.cal import describe, plan
from memoranda.standards.cal.assembly import pipeline, stream
from memoranda.standards.cal.assembly.assembly import Assembly, SourceResult, assemble
from memoranda.standards.cal.assembly.pipeline import GrainList, Total
from memoranda.standards.cal.history import find_differences
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language import times
from memoranda.standards.cal.language.assemble import label_of
from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.check import Warning as CalWarning
from memoranda.standards.cal.language.check import find_warnings, walk_recalls
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import (
    Assemble,
    BatchQuery,
    Coalesce,
    DefineTemplate,
    Describe,
    Exists,
    Explain,
    Hash,
    History,
    Let,
    Option,
    Param,
    ParsedQuery,
    Recall,
    SetOp,
    Statement,
)
from memoranda.standards.cal.pages import encode_cursor
from memoranda.standards.cal.problem import error_envelope

CAL_VERSION: Final = "1.0"
OMS_VERSION: Final = "1.3"
HISTORY_LIMIT: Final = 100
TEMPLATES_LIMIT: Final = 50
_TEMPLATES: Final = "cal template "
# What an ASSEMBLE says for all its sources.
_RETRIEVAL_OPTIONS: Final = frozenset(("superseded", "diversity", "contradiction_detection"))

Body = dict[str, Any]


class Runner(msgspec.Struct):
    """Runs the statement of one query on one reader."""

    reader: GrainReader
    query: ParsedQuery
    query_hash: str
    offset: int = 0
    tier1_enabled: bool = False
    warnings: list[CalWarning] = msgspec.field(default_factory=list)
    # How many tokens a formatted answer has, and how many results.
    tokens_used: int = 0
    returned: int = 0
    failed_sources: tuple[str, ...] = ()
    # What each entry of a BATCH came to: (its query, how many results, its error).
    entries: list[tuple[ParsedQuery, int, str | None]] = msgspec.field(default_factory=list)

    def run(self) -> Body:
        """The members of the answer."""
        self.begin()
        return self.statement(self.query.statement)

    def begin(self) -> None:
        """What comes before the statement: warnings, and what LET binds, unless nothing is to be run."""
        self.warnings += [
            *find_warnings(self.query),
            *idle(self.query, self.reader.session.namespace),
        ]
        if not isinstance(self.query.statement, Explain):
            for let in self.query.lets:
                self._bind(let)

    def statement(self, statement: Statement) -> Body:
        if isinstance(statement, Recall):
            return self._recall(statement)
        if isinstance(statement, Assemble):
            return self._assembled(self.assembly(statement))
        if isinstance(statement, SetOp):
            return self._results(self._operand(statement))
        if isinstance(statement, Exists):
            return {"exists": bool(self.reader.resolve(_hash(statement.hash)))}
        if isinstance(statement, History):
            return self._history(statement)
        if isinstance(statement, Explain):
            return {"plan": plan.explain(self.query, now=self.reader.session.now)}
        if isinstance(statement, Describe):
            return {"description": self._describe(statement)}
        if isinstance(statement, BatchQuery):
            return {"batch": {entry.label: self._slot(entry.query) for entry in statement.entries}}
        assert isinstance(statement, Coalesce)
        return self._coalesce(statement)

    # --- recall ------------------------------------------------------------------------------------------

    def _recall(self, recall: Recall) -> Body:
        return self._page(self.reader.recall(recall, offset=self.offset, is_answer=True), recall)

    def _page(self, found: Found, recall: Recall) -> Body:
        body = recalled(found, recall, self.reader.session.now)
        counted = next(
            (body[name] for name in ("results", "values", "groups") if name in body), None
        )
        self.returned += body.get("count", 0) if counted is None else len(counted)
        self.tokens_used += self.reader.context.cal.counter.count(body.get("formatted", ""))
        following = found.next_offset
        return {
            **body,
            "next_cursor": None if following is None else encode_cursor(self.query_hash, following),
        }

    def _results(self, items: list[ResultItem]) -> Body:
        self.returned += len(items)
        return {
            "results": [result_of(item) for item in items],
            "total": len(items),
            "next_cursor": None,
        }

    def _operand(self, operand: Recall | Coalesce | SetOp) -> list[ResultItem]:
        if isinstance(operand, Recall):
            return self._grains(self.reader.recall(operand))
        if isinstance(operand, Coalesce):
            return self._grains(self._winner(operand)[0])
        return pipeline.combine_sets(
            operand.operator,
            self._operand(operand.left_operand),
            self._operand(operand.right_operand),
        )

    def _grains(self, found: Found) -> list[ResultItem]:
        if not isinstance(found.outcome, GrainList):
            raise QueryError(
                "A set is made of grains.",
                cal_code="CAL-E021",
                suggestion="Leave out the stage that makes values.",
            )
        return list(found.outcome.items)

    def _coalesce(self, statement: Coalesce) -> Body:
        found, recall, branch = self._winner(statement)
        return {**self._page(found, recall), "branch": branch}

    def _winner(self, statement: Coalesce) -> tuple[Found, Recall, int | None]:
        """The first branch that yields anything, or the last."""
        for place, branch in enumerate(statement.branches):
            found = self.reader.recall(branch, offset=self.offset)
            is_something = (
                found.outcome.count
                if isinstance(found.outcome, Total)
                else len(found.outcome.items)
            )
            if is_something:
                return found, branch, place
        return found, branch, None

    def _bind(self, let: Let) -> None:
        # A set of members is not cut at the default, or it would give wrong answers (cal.md, *default limit*).
        self.reader.lets[let.name] = self.reader.recall(let.query, uncapped=_extracts(let.query))

    def _slot(self, query: Recall | Exists | History | Describe | Coalesce) -> Body:
        """One entry of a BATCH: its answer, or its error; the others run all the same."""
        before, code = self.returned, None
        try:
            return self.statement(query)
        except QueryError as error:
            code = error.cal_code
            return error_envelope(error)
        finally:
            self.entries.append((ParsedQuery(statement=query), self.returned - before, code))

    # --- assemble ----------------------------------------------------------------------------------------

    def assembly(self, statement: Assemble) -> Assembly:
        """Run every source, and assemble what they found."""
        return self.assembled_from(
            statement, [self.gather(statement, place) for place in range(len(statement.sources))]
        )

    def assembled_from(self, statement: Assemble, gathered: list[SourceResult]) -> Assembly:
        """The context made of what the sources found."""
        assembly = self._assemble(statement, gathered)
        self.reader.check_time()
        self.failed_sources = assembly.failed
        self.warnings += [CalWarning(each["code"], each["message"]) for each in assembly.warnings]
        self.tokens_used += assembly.tokens_used
        self.returned += len(assembly.items)
        return assembly

    def _assemble(self, statement: Assemble, gathered: list[SourceResult]) -> Assembly:
        host = self.reader.context.cal
        return assemble(
            statement,
            gathered,
            now=self.reader.session.now,
            counter=host.counter,
            templates=self.templates() if host.templates else {},
            auto_toon=host.auto_toon,
        )

    def gather(self, statement: Assemble, place: int) -> SourceResult:
        """Run one source."""
        source, label = statement.sources[place], label_of(statement.sources[place], place)
        begun = time.monotonic()
        try:
            if isinstance(source.query, Param):
                found, recall = self._let(source.query), None
            else:
                recall = _with_options(source.query, statement.options)
                found = self.reader.recall(recall)
            items = self._grains(found)
            formatted = (
                text_of(found, recall, self.reader.session.now)
                if recall and recall.format
                else None
            )
        except QueryError as error:
            if error.cal_code == self.reader.timeout_code:
                raise
            return SourceResult(
                label=label, items=(), total=0, error=error, duration_ms=_since(begun)
            )
        return SourceResult(
            label=label,
            items=tuple(items),
            total=found.total,
            shape=found.shape,
            formatted=formatted,
            duration_ms=_since(begun),
        )

    def _let(self, param: Param) -> Found:
        if param.name not in self.reader.lets:
            raise QueryError(
                f"${param.name} has no value.", cal_code="CAL-E008", suggestion="Bind it with LET."
            )
        return self.reader.lets[param.name]

    def _assembled(self, assembly: Assembly) -> Body:
        results = [{**result_of(shown.item), "source": shown.source} for shown in assembly.items]
        totals = [source.result.total for source in assembly.sources]
        counted = [total for total in totals if total is not None]
        total = sum(counted) if len(counted) == len(totals) else None
        return {"results": results, "total": total, "next_cursor": None, **assembly.document()}

    def stream(self, statement: Assemble, assembly_id: str) -> Iterator[stream.Event]:
        """The same as events, as they happen."""
        feed = stream.Feed(statement.stream, assembly_id)
        yield from feed(stream.assembly_started(statement))
        gathered: list[SourceResult] = []
        for place in range(len(statement.sources)):
            yield from feed(stream.source_started(label_of(statement.sources[place], place), place))
            gathered.append(self.gather(statement, place))
            yield from feed(
                *stream.source_ended(gathered[-1], self._demand(statement, gathered[-1]))
            )
        query_warnings = [warning._asdict() for warning in dict.fromkeys(self.warnings)]
        for event in stream.outcome_events(
            self.assembled_from(statement, gathered),
            stream.chunk_size_of(statement.stream),
            query_warnings,
        ):
            yield from feed(event)

    def _demand(self, statement: Assemble, gathered: SourceResult) -> int:
        """How many tokens one source would take if it had the budget for itself."""
        if gathered.error is not None:
            return 0
        return self._assemble(statement, [gathered]).sources[0].demand

    def templates(self) -> dict[str, DefineTemplate]:
        """The templates defined in this namespace."""
        kept = self.reader.snapshot.load_items(_TEMPLATES + self.reader.session.namespace)
        found = (parse(text).statement for text in kept.values())
        return {each.name: each for each in found if isinstance(each, DefineTemplate)}

    # --- history -----------------------------------------------------------------------------------------

    def _history(self, statement: History) -> Body:
        if statement.hash is None:
            return self._versions(self._of_triple(statement), statement)
        chain = self._chain(_hash(statement.hash))
        if statement.diff is None:
            return self._versions(chain, statement)
        ends = [self._single(_hash(each)) for each in (statement.hash, statement.diff)]
        before, after = (as_grain(self.reader.context, version)[0] for version in ends)
        self.returned += 1
        return {
            "from": f"sha256:{before.address}",
            "to": f"sha256:{after.address}",
            "changes": find_differences(before.fields, after.fields),
        }

    def _single(self, given: Hash) -> Version:
        found = self.reader.snapshot.load_versions(self.reader.only(given))
        if not found:
            raise QueryError(
                f"There is no grain {given.text} here.",
                cal_code="CAL-E046",
                suggestion="Look its hash up with RECALL … | HASHES.",
            )
        return found[0]

    def _chain(self, given: Hash) -> Iterable[Version]:
        found = self.reader.snapshot.load_versions(self.reader.only(given))
        return self.reader.snapshot.iterate_history(found[0].memory_id) if found else ()

    def _of_triple(self, statement: History) -> Iterable[Version]:
        tests = (
            IsOneOf(name="subject", texts=(str(statement.subject),)),
            IsOneOf(name="relation", texts=(str(statement.relation),)),
        )
        selection = self.reader.selection(None, tests, standing="unforgotten")
        found = self.reader.snapshot.load_page(
            selection, limit=SCAN_LIMIT, now=self.reader.session.now
        )
        return self.reader.snapshot.iterate_versions(sorted(each.version_id for each in found))

    def _versions(self, versions: Iterable[Version], statement: History) -> Body:
        """Versions, newest first."""
        context, session = self.reader.context, self.reader.session
        shown = []
        for version in versions:
            self.reader.count_bytes(len(version.document.native))
            is_there = version.state.retired is None and not is_over(version.state, session.now)
            if is_there and is_visible(context, session.access, self.reader.snapshot, version):
                shown.append(self._version(version))
        if statement.hash is None:
            # Versions of several memories: by when each was made, not by what it is about.
            shown.sort(key=lambda each: int(each["created_at"]))
        for number, each in enumerate(shown, start=1):
            each["version"] = number
        if statement.as_of is not None:
            at = times.last_ms(str(statement.as_of), session.now)
            shown = [each for each in shown if at is not None and _was_current(each, at)]
        shown = shown[::-1][:HISTORY_LIMIT]
        self.returned += len(shown)
        return {"versions": shown, "total": len(shown)}

    def _version(self, version: Version) -> Body:
        grain = as_grain(self.reader.context, version)[0]
        state, fields = version.state, grain.fields
        inner = fields.get("context")
        said = fields.get("supersession_justification") or (
            inner.get("reason") if isinstance(inner, Mapping) else None
        )
        successor = state.successor_names.get("oms")
        return {
            "content_address": grain.address,
            "version": 0,
            "created_at": fields["created_at"],
            "superseded_by": successor,
            "system_valid_to": state.closed if state.superseded_by else None,
            "current": not state.superseded_by,
            "reason": said,
            "grain": to_json_value(fields),
        }

    # --- about itself ------------------------------------------------------------------------------------

    def _describe(self, statement: Describe) -> Any:
        host, meaning = self.reader.context.cal, self.reader.context.semantic_search
        declared = describe.capabilities(
            tier1_enabled=self.tier1_enabled,
            streaming=True,
            templates=host.templates,
            auto_toon=host.auto_toon,
            token_counter=host.counter.name,
            embedding_model=meaning.model if meaning.is_enabled else None,
            languages=LANGUAGES,
        )
        server = {
            "name": "memoranda",
            "version": __version__,
            "cal_version": CAL_VERSION,
            "oms_version": OMS_VERSION,
        }
        return describe.describe(
            statement,
            capabilities=declared,
            server=server,
            templates=list(self.templates().values()),
        )


def kept_template(statement: DefineTemplate) -> bytes:
    """A definition as it is kept: its canonical text."""
    return canonical(ParsedQuery(statement=statement)).encode()


def template_kind(namespace: str) -> str:
    """Under which kind of note the templates of a namespace are kept."""
    return _TEMPLATES + namespace


def idle(query: ParsedQuery, namespace: str) -> Iterator[CalWarning]:
    """What was asked for and has no effect: never in silence."""
    statement = query.statement.query if isinstance(query.statement, Explain) else query.statement
    for recall in _formatted_parts(statement):
        names = {option.name for option in recall.options}
        if recall.format is None:
            for name in sorted(names & {"progressive_disclosure", "iso_timestamps"}):
                yield CalWarning("CAL-W004", f"{name} has no effect without AS.")
    for recall in walk_recalls(query):
        yield from _idle_options(recall.options)
        yield from _idle_namespaces(recall, namespace)
    if isinstance(statement, Assemble):
        yield from _idle_options(statement.options)
    for history in _histories(statement):
        if history.namespace is not None:
            yield from _idle_namespace("IN", history.namespace.name, namespace)


def _formatted_parts(statement: Statement) -> Iterator[Recall]:
    """The RECALLs whose own words decide how their result is shown."""
    if isinstance(statement, Recall):
        yield statement
    elif isinstance(statement, Coalesce):
        yield from statement.branches
    elif isinstance(statement, BatchQuery):
        for entry in statement.entries:
            yield from _formatted_parts(entry.query)


def _idle_options(options: tuple[Option, ...]) -> Iterator[CalWarning]:
    reasons = {
        "consistency": "one store answers, and always with what is newest",
        "cache": "nothing is cached",
        "locale": "texts are sorted by code point",
    }
    for option in options:
        if option.name in reasons:
            yield CalWarning("CAL-W004", f"{option.name} has no effect: {reasons[option.name]}.")


def _histories(statement: Statement) -> Iterator[History]:
    """Yield every HISTORY of a statement."""
    if isinstance(statement, History):
        yield statement
    elif isinstance(statement, BatchQuery):
        for entry in statement.entries:
            yield from _histories(entry.query)


def _idle_namespaces(recall: Recall, namespace: str) -> Iterator[CalWarning]:
    """Yield a warning for each namespace of a RECALL, by IN or by a condition, other than the session's."""
    if recall.namespace is not None:
        yield from _idle_namespace("IN", recall.namespace.name, namespace)
    for condition in recall.where:
        if condition.field == "namespace":
            yield from _idle_namespace("The condition on namespace", condition.value, namespace)


def _idle_namespace(clause: str, requested: object, namespace: str) -> Iterator[CalWarning]:
    # Section 18.3: the namespace is always the session's; one in the query has no effect.
    if requested != namespace:
        yield CalWarning(
            "CAL-W004", f"{clause} has no effect: the session's namespace is {namespace}."
        )


def _with_options(recall: Recall, options: tuple[Option, ...]) -> Recall:
    """With what the ASSEMBLE says for all sources, where the source does not say it itself."""
    own = {option.name for option in recall.options}
    more = tuple(
        each for each in options if each.name in _RETRIEVAL_OPTIONS and each.name not in own
    )
    return replace(recall, options=(*recall.options, *more)) if more else recall


def _extracts(recall: Recall) -> bool:
    names = ("subjects", "objects", "hashes")
    return any(getattr(stage, "to", None) in names for stage in recall.stages)


def _hash(given: object) -> Hash:
    assert isinstance(given, Hash)
    return given


def _was_current(shown: Body, at: int) -> bool:
    ended = shown["system_valid_to"]
    return shown["created_at"] <= at and (ended is None or ended > at)


def _since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
