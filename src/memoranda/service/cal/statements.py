"""Statements that read (CAL section 8). Each returns the members of its answer; `cal.py` adds the rest of the envelope.

A `Runner` runs one query on one reader. RECALL and its sets run in `recall.py`; ASSEMBLE runs its sources one after
the other and passes their grains to `standards/cal/assembly`. HISTORY and DESCRIBE run here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from memoranda import __version__
from memoranda.errors import QueryError
from memoranda.model.memory import Version, is_over
from memoranda.model.selection import IsOneOf
from memoranda.retrieval.analysis import LANGUAGES
from memoranda.service.cal.answer import format_result, recall_document, result_document
from memoranda.service.cal.paging import RecallResult
from memoranda.service.cal.recall import GrainReader
from memoranda.service.cal.recall_query import SCAN_LIMIT
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
    Option,
    Param,
    ParsedQuery,
    Recall,
    Reduce,
    SetOp,
    Statement,
)
from memoranda.standards.cal.pages import encode_cursor
from memoranda.standards.cal.problem import error_envelope

CAL_VERSION: Final = "1.0"
OMS_VERSION: Final = "1.3"
# Versions that HISTORY returns, the newest first.
HISTORY_LIMIT: Final = 100
# Stored templates of a namespace; every ASSEMBLE parses their texts.
TEMPLATES_LIMIT: Final = 50
_TEMPLATE_KIND_PREFIX: Final = "cal template "
# Options that an ASSEMBLE passes on to its sources.
_SOURCE_OPTIONS: Final = frozenset(("superseded", "diversity", "contradiction_detection"))

Body = dict[str, object]


class Runner(msgspec.Struct):
    """Runs the statement of one query on one reader."""

    reader: GrainReader
    query: ParsedQuery
    query_hash: str
    # The offset of the page, from a cursor.
    offset: int = 0
    tier1_enabled: bool = False
    warnings: list[CalWarning] = msgspec.field(default_factory=list)
    # Tokens in formatted answers, and the number of results.
    tokens_used: int = 0
    returned: int = 0
    failed_sources: tuple[str, ...] = ()
    # Each query of a BATCH, with its number of results, and its error code if it failed.
    batch_results: list[tuple[ParsedQuery, int, str | None]] = msgspec.field(default_factory=list)

    def run(self) -> Body:
        """Run the query and return the members of its answer."""
        self.begin()
        return self.run_statement(self.query.statement)

    def begin(self) -> None:
        """Collect the warnings, and run the queries of LET, unless the statement is EXPLAIN."""
        self.warnings += [
            *find_warnings(self.query),
            *find_ineffective(self.query, self.reader.session.namespace),
        ]
        if not isinstance(self.query.statement, Explain):
            for let in self.query.lets:
                # A set of members gets no default LIMIT: it would give wrong answers (cal.md, *default limit*).
                self.reader.lets[let.name] = self.reader.recall(
                    let.query, is_uncapped=_extracts_values(let.query)
                )

    def run_statement(self, statement: Statement) -> Body:
        """Run one statement and return the members of its answer."""
        if isinstance(statement, Recall):
            result = self.reader.recall(statement, offset=self.offset, is_answer=True)
            return self._page_body(result, statement)
        if isinstance(statement, Assemble):
            return _assembly_body(self.run_assembly(statement))
        if isinstance(statement, SetOp):
            return self._set_body(self._run_operand(statement))
        if isinstance(statement, Exists):
            return {"exists": bool(self.reader.resolve(_require_hash(statement.hash)))}
        if isinstance(statement, History):
            return self._run_history(statement)
        if isinstance(statement, Explain):
            return {"plan": plan.explain(self.query, now=self.reader.session.now)}
        if isinstance(statement, Describe):
            return {"description": self._describe(statement)}
        if isinstance(statement, BatchQuery):
            entries = statement.entries
            return {"batch": {entry.label: self._run_batch_query(entry.query) for entry in entries}}
        assert isinstance(statement, Coalesce)
        result, recall, branch = self._run_coalesce(statement)
        return {**self._page_body(result, recall), "branch": branch}

    # --- recall ------------------------------------------------------------------------------------------

    def _page_body(self, result: RecallResult, recall: Recall) -> Body:
        """Return the members of a page, and count its results and tokens."""
        body = recall_document(result, recall, self.reader.session.now)
        outcome = result.outcome
        self.returned += outcome.count if isinstance(outcome, Total) else len(outcome.items)
        formatted = str(body.get("formatted", ""))
        self.tokens_used += self.reader.context.cal.counter.count(formatted)
        next_offset = result.next_offset
        cursor = None if next_offset is None else encode_cursor(self.query_hash, next_offset)
        return {**body, "next_cursor": cursor}

    def _set_body(self, items: list[ResultItem]) -> Body:
        """Return the members of a set of grains, and count them."""
        self.returned += len(items)
        return {
            "results": [result_document(item) for item in items],
            "total": len(items),
            "next_cursor": None,
        }

    def _run_operand(self, operand: Recall | Coalesce | SetOp) -> list[ResultItem]:
        """Run an operand of a set operation."""
        if isinstance(operand, Recall):
            return _require_grains(self.reader.recall(operand))
        if isinstance(operand, Coalesce):
            return _require_grains(self._run_coalesce(operand)[0])
        return pipeline.combine_sets(
            operand.operator,
            self._run_operand(operand.left_operand),
            self._run_operand(operand.right_operand),
        )

    def _run_coalesce(self, statement: Coalesce) -> tuple[RecallResult, Recall, int | None]:
        """Run the branches until one has results; return it with its index, or the last one with None."""
        for index, branch in enumerate(statement.branches):
            result = self.reader.recall(branch, offset=self.offset)
            outcome = result.outcome
            if outcome.count if isinstance(outcome, Total) else outcome.items:
                return result, branch, index
        return result, branch, None

    def _run_batch_query(self, query: Recall | Exists | History | Describe | Coalesce) -> Body:
        """Run one query of a BATCH; return its answer, or its error, which does not fail the others."""
        count_before, code = self.returned, None
        try:
            return self.run_statement(query)
        except QueryError as error:
            code = error.cal_code
            return dict(error_envelope(error))
        finally:
            count = self.returned - count_before
            self.batch_results.append((ParsedQuery(statement=query), count, code))

    # --- assemble ----------------------------------------------------------------------------------------

    def run_assembly(self, statement: Assemble) -> Assembly:
        """Run every source of an ASSEMBLE, and assemble their grains."""
        sources = [self._run_source(statement, index) for index in range(len(statement.sources))]
        return self._finish_assembly(statement, sources)

    def _finish_assembly(self, statement: Assemble, sources: list[SourceResult]) -> Assembly:
        """Assemble the grains of all sources, and count the results and tokens."""
        assembly = self._assemble(statement, sources)
        self.reader.check_time()
        self.failed_sources = assembly.failed
        self.warnings += [
            CalWarning(warning["code"], warning["message"]) for warning in assembly.warnings
        ]
        self.tokens_used += assembly.tokens_used
        self.returned += len(assembly.items)
        return assembly

    def _assemble(self, statement: Assemble, sources: list[SourceResult]) -> Assembly:
        host = self.reader.context.cal
        return assemble(
            statement,
            sources,
            now=self.reader.session.now,
            counter=host.counter,
            templates=self._load_templates() if host.templates else {},
            auto_toon=host.auto_toon,
        )

    def _run_source(self, statement: Assemble, index: int) -> SourceResult:
        """Run one source of an ASSEMBLE. Its error is part of the result, except when the time is up."""
        source, label = statement.sources[index], label_of(statement.sources[index], index)
        started_at = time.monotonic()
        try:
            formatted = None
            if isinstance(source.query, Param):
                result = self.reader.let_result(source.query)
                items = _require_grains(result)
            else:
                recall = _add_source_options(source.query, statement.options)
                result = self.reader.recall(recall, is_source=True)
                items = _require_grains(result)
                if recall.format:
                    formatted = format_result(result, recall, self.reader.session.now)
        except QueryError as error:
            if error.cal_code == self.reader.timeout_code:
                raise
            return SourceResult(
                label=label, items=(), total=0, error=error, duration_ms=_duration_ms(started_at)
            )
        return SourceResult(
            label=label,
            items=tuple(items),
            total=result.total,
            shape=result.shape,
            formatted=formatted,
            duration_ms=_duration_ms(started_at),
        )

    def stream(self, statement: Assemble, assembly_id: str) -> Iterator[stream.Event]:
        """Run an ASSEMBLE and yield its events as they happen."""
        feed = stream.Feed(statement.stream, assembly_id)
        yield from feed(stream.assembly_started(statement))
        sources: list[SourceResult] = []
        for index, source in enumerate(statement.sources):
            yield from feed(stream.source_started(label_of(source, index), index))
            result = self._run_source(statement, index)
            sources.append(result)
            yield from feed(*stream.source_ended(result, self._measure_demand(statement, result)))
        query_warnings = [warning._asdict() for warning in dict.fromkeys(self.warnings)]
        assembly = self._finish_assembly(statement, sources)
        chunk_size = stream.chunk_size_of(statement.stream)
        for event in stream.outcome_events(assembly, chunk_size, query_warnings):
            yield from feed(event)

    def _measure_demand(self, statement: Assemble, source: SourceResult) -> int:
        """Return the tokens that one source would take if it had the whole budget."""
        if source.error is not None:
            return 0
        return self._assemble(statement, [source]).sources[0].demand

    def _load_templates(self) -> dict[str, DefineTemplate]:
        """Return the templates of this namespace by name."""
        items = self.reader.snapshot.load_items(template_kind(self.reader.session.namespace))
        statements = (parse(text).statement for text in items.values())
        return {
            statement.name: statement
            for statement in statements
            if isinstance(statement, DefineTemplate)
        }

    # --- history -----------------------------------------------------------------------------------------

    def _run_history(self, statement: History) -> Body:
        if statement.hash is None:
            return self._history_body(self._load_triple_versions(statement), statement)
        if statement.diff is None:
            snapshot = self.reader.snapshot
            heads = snapshot.load_versions(self.reader.resolve_one(_require_hash(statement.hash)))
            chain = snapshot.iterate_history(heads[0].memory_id) if heads else ()
            return self._history_body(chain, statement)
        before, after = (
            as_grain(self.reader.context, self._load_version(_require_hash(grain_hash)))[0]
            for grain_hash in (statement.hash, statement.diff)
        )
        self.returned += 1
        return {
            "from": f"sha256:{before.address}",
            "to": f"sha256:{after.address}",
            "changes": find_differences(before.fields, after.fields),
        }

    def _load_version(self, grain_hash: Hash) -> Version:
        """Return the version with a hash. Raises CAL-E046 if there is none."""
        versions = self.reader.snapshot.load_versions(self.reader.resolve_one(grain_hash))
        if not versions:
            raise QueryError(
                f"No grain here has the hash {grain_hash.text}.",
                cal_code="CAL-E046",
                suggestion="Find its hash with RECALL … | HASHES.",
            )
        return versions[0]

    def _load_triple_versions(self, statement: History) -> Iterable[Version]:
        """Return all versions that have the subject and the relation of a HISTORY."""
        tests = (
            IsOneOf(name="subject", texts=(str(statement.subject),)),
            IsOneOf(name="relation", texts=(str(statement.relation),)),
        )
        hits = self.reader.snapshot.load_page(
            self.reader.select(None, tests, status_filter="unforgotten"),
            limit=SCAN_LIMIT,
            now=self.reader.session.now,
        )
        return self.reader.snapshot.iterate_versions(sorted(hit.version_id for hit in hits))

    def _history_body(self, versions: Iterable[Version], statement: History) -> Body:
        """Return the members of a HISTORY: the versions that the caller may see, newest first."""
        context, session = self.reader.context, self.reader.session
        rows = []
        for version in versions:
            self.reader.count_bytes(len(version.document.native))
            is_present = version.state.retired is None and not is_over(version.state, session.now)
            if is_present and is_visible(context, session.access, self.reader.snapshot, version):
                rows.append(self._version_row(version))
        if statement.hash is None:
            # Versions of several memories are ordered by their creation.
            rows.sort(key=_created_at)
        for number, row in enumerate(rows, start=1):
            row["version"] = number
        if statement.as_of is not None:
            instant = times.last_ms(str(statement.as_of), session.now)
            rows = [row for row in rows if instant is not None and _was_current(row, instant)]
        rows = rows[::-1][:HISTORY_LIMIT]
        self.returned += len(rows)
        return {"versions": rows, "total": len(rows)}

    def _version_row(self, version: Version) -> Body:
        grain = as_grain(self.reader.context, version)[0]
        state, fields = version.state, grain.fields
        grain_context = fields.get("context")
        reason = fields.get("supersession_justification")
        if not reason and isinstance(grain_context, Mapping):
            reason = grain_context.get("reason")
        return {
            "content_address": grain.address,
            "version": 0,
            "created_at": fields["created_at"],
            "superseded_by": state.successor_names.get("oms"),
            "system_valid_to": state.closed if state.superseded_by else None,
            "current": not state.superseded_by,
            "reason": reason,
            "grain": to_json_value(fields),
        }

    # --- describe ----------------------------------------------------------------------------------------

    def _describe(self, statement: Describe) -> object:
        host, semantic_search = self.reader.context.cal, self.reader.context.semantic_search
        return describe.describe(
            statement,
            capabilities=describe.capabilities(
                tier1_enabled=self.tier1_enabled,
                streaming=True,
                templates=host.templates,
                auto_toon=host.auto_toon,
                token_counter=host.counter.name,
                embedding_model=semantic_search.model if semantic_search.is_enabled else None,
                languages=LANGUAGES,
            ),
            server={
                "name": "memoranda",
                "version": __version__,
                "cal_version": CAL_VERSION,
                "oms_version": OMS_VERSION,
            },
            templates=list(self._load_templates().values()),
        )


def encode_template(statement: DefineTemplate) -> bytes:
    """Encode a template for the store: the canonical text of its definition."""
    return canonical(ParsedQuery(statement=statement)).encode()


def template_kind(namespace: str) -> str:
    """Return the kind of stored items that holds the templates of a namespace."""
    return _TEMPLATE_KIND_PREFIX + namespace


# --- warnings --------------------------------------------------------------------------------------------


def find_ineffective(query: ParsedQuery, namespace: str) -> Iterator[CalWarning]:
    """Yield a warning for each part of a query that has no effect here."""
    statement = query.statement.query if isinstance(query.statement, Explain) else query.statement
    for recall in _walk_answers(statement):
        names = {option.name for option in recall.options}
        if recall.format is None:
            for name in sorted(names & {"progressive_disclosure", "iso_timestamps"}):
                yield CalWarning("CAL-W004", f"{name} has no effect without AS.")
    for recall in walk_recalls(query):
        yield from _find_ineffective_options(recall.options)
        yield from _find_ineffective_namespaces(recall, namespace)
    if isinstance(statement, Assemble):
        yield from _find_ineffective_options(statement.options)
    for history in _walk_histories(statement):
        if history.namespace is not None:
            yield from _find_ineffective_namespace("IN", history.namespace.name, namespace)


def _walk_answers(statement: Statement) -> Iterator[Recall]:
    """Yield the RECALLs whose results are part of the answer, in their own format."""
    if isinstance(statement, Recall):
        yield statement
    elif isinstance(statement, Coalesce):
        yield from statement.branches
    elif isinstance(statement, BatchQuery):
        for entry in statement.entries:
            yield from _walk_answers(entry.query)


def _find_ineffective_options(options: tuple[Option, ...]) -> Iterator[CalWarning]:
    reasons = {
        "consistency": "the store always answers with the newest state",
        "cache": "answers are not cached",
        "locale": "texts are sorted by code point",
    }
    for option in options:
        if option.name in reasons:
            yield CalWarning("CAL-W004", f"{option.name} has no effect: {reasons[option.name]}.")


def _walk_histories(statement: Statement) -> Iterator[History]:
    """Yield every HISTORY of a statement."""
    if isinstance(statement, History):
        yield statement
    elif isinstance(statement, BatchQuery):
        for entry in statement.entries:
            yield from _walk_histories(entry.query)


def _find_ineffective_namespaces(recall: Recall, namespace: str) -> Iterator[CalWarning]:
    """Yield a warning for each namespace of a RECALL, by IN or by a condition, other than the session's."""
    if recall.namespace is not None:
        yield from _find_ineffective_namespace("IN", recall.namespace.name, namespace)
    for condition in recall.where:
        if condition.field == "namespace":
            clause = "The condition on namespace"
            yield from _find_ineffective_namespace(clause, condition.value, namespace)


def _find_ineffective_namespace(
    clause: str, requested: object, namespace: str
) -> Iterator[CalWarning]:
    # Section 18.3: the namespace is always the session's; one in the query has no effect.
    if requested != namespace:
        yield CalWarning(
            "CAL-W004", f"{clause} has no effect: the session's namespace is {namespace}."
        )


# --- helpers ---------------------------------------------------------------------------------------------


def _assembly_body(assembly: Assembly) -> Body:
    """Return the members of the answer to an ASSEMBLE."""
    results = [{**result_document(entry.item), "source": entry.source} for entry in assembly.items]
    totals = [source.result.total for source in assembly.sources]
    known_totals = [total for total in totals if total is not None]
    total = sum(known_totals) if len(known_totals) == len(totals) else None
    return {"results": results, "total": total, "next_cursor": None, **assembly.document()}


def _add_source_options(recall: Recall, options: tuple[Option, ...]) -> Recall:
    """Add options of the ASSEMBLE that a source does not set itself."""
    own_options = {option.name for option in recall.options}
    added = tuple(
        option
        for option in options
        if option.name in _SOURCE_OPTIONS and option.name not in own_options
    )
    return replace(recall, options=(*recall.options, *added)) if added else recall


def _extracts_values(recall: Recall) -> bool:
    """Return True if a pipeline ends with a set of values."""
    return any(
        isinstance(stage, Reduce) and stage.to in ("subjects", "objects", "hashes")
        for stage in recall.stages
    )


def _require_grains(result: RecallResult) -> list[ResultItem]:
    """Return the grains of a result. Raises CAL-E021 if it has rows, values, groups or a count."""
    if not isinstance(result.outcome, GrainList):
        raise QueryError(
            "A set operation and a source need grains.",
            cal_code="CAL-E021",
            suggestion="Remove the stage that makes values.",
        )
    return list(result.outcome.items)


def _require_hash(grain_hash: object) -> Hash:
    assert isinstance(grain_hash, Hash)
    return grain_hash


def _created_at(row: Body) -> int:
    return int(cast("int", row["created_at"]))


def _was_current(row: Body, instant: int) -> bool:
    """Return True if a version existed at an instant and was not superseded yet."""
    ended_at = cast("int | None", row["system_valid_to"])
    return _created_at(row) <= instant and (ended_at is None or ended_at > instant)


def _duration_ms(started_at: float) -> int:
    return round((time.monotonic() - started_at) * 1000)
