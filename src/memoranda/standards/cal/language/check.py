"""Checks that need no store: walking a query, warnings, and complexity.

Everything here follows from the parsed query alone, so it can be shown while a person types. Errors are raised by the
parser, one at a time; warnings are collected over the whole query and never stop it. The complexity is an estimate of
the work before a query runs, by the weights of section 20.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypedDict

from memoranda.errors import QueryError
from memoranda.standards.cal import fields
from memoranda.standards.cal.language import times, words
from memoranda.standards.cal.language.syntax import (
    Add,
    Assemble,
    BatchQuery,
    Coalesce,
    Explain,
    Option,
    Param,
    ParsedQuery,
    Recall,
    SetOp,
    Statement,
    Subquery,
    Supersede,
)
from memoranda.standards.oms.registry import MG_RELATIONS


class ErrorDocument(TypedDict):
    """An error as `cal --check` and `/cal/check` return it."""

    code: str
    line: int
    column: int
    suggestion: str | None
    message: str


class CheckResult(TypedDict):
    """The result of a check: valid, or the first error."""

    valid: bool
    error: ErrorDocument | None


class Warning(NamedTuple):  # noqa: A001 - the specification's word
    """A note that is returned with an answer and does not fail the query."""

    code: str
    message: str


def error_document(error: QueryError) -> ErrorDocument:
    """Return an error as a document."""
    return {
        "code": error.cal_code,
        "line": error.line,
        "column": error.column,
        "suggestion": error.suggestion,
        "message": error.message,
    }


# --- walking ---------------------------------------------------------------------------------------------


def walk_recalls(query: ParsedQuery) -> Iterator[Recall]:
    """Yield every RECALL of a query, subqueries and LETs included."""
    for let in query.lets:
        yield from _walk_recall(let.query)
    yield from _walk_statement(query.statement)


def _walk_statement(statement: Statement) -> Iterator[Recall]:
    """Yield every RECALL of a statement."""
    if isinstance(statement, Recall):
        yield from _walk_recall(statement)
    elif isinstance(statement, Explain):
        yield from _walk_statement(statement.query)
    elif isinstance(statement, SetOp):
        yield from _walk_statement(statement.left_operand)
        yield from _walk_statement(statement.right_operand)
    elif isinstance(statement, Coalesce):
        for branch in statement.branches:
            yield from _walk_recall(branch)
    elif isinstance(statement, BatchQuery):
        for entry in statement.entries:
            yield from _walk_statement(entry.query)
    elif isinstance(statement, Assemble):
        for source in statement.sources:
            if not isinstance(source.query, Param):
                yield from _walk_recall(source.query)


def _walk_recall(recall: Recall) -> Iterator[Recall]:
    """Yield a RECALL, then those in its subqueries."""
    yield recall
    for condition in recall.where:
        if isinstance(condition.value, Subquery):
            yield from _walk_recall(condition.value.query)


# --- warnings --------------------------------------------------------------------------------------------

_IGNORED_OPTIONS: Final = frozenset(("summarize",))
_OWN_OPTIONS: Final = (times.VALID_AT, times.KNOWN_AT)


def find_warnings(query: ParsedQuery) -> tuple[Warning, ...]:
    """Return the warnings that follow from the query alone, each once.

    They concern unknown relations, domain fields without their profile, and options without effect.
    """
    unique_warnings: dict[Warning, None] = {}
    for recall in walk_recalls(query):
        unique_warnings |= dict.fromkeys(_check_recall(recall))
    statement = query.statement.query if isinstance(query.statement, Explain) else query.statement
    if isinstance(statement, Assemble):
        unique_warnings |= dict.fromkeys(_check_options(statement.options))
    elif isinstance(statement, Add | Supersede):
        relations = (
            assignment.value
            for assignment in statement.assignments
            if assignment.field == "relation"
        )
        unique_warnings |= dict.fromkeys(_check_relations(relations))
    return tuple(unique_warnings)


def _check_recall(recall: Recall) -> Iterator[Warning]:
    """Yield the warnings of one RECALL."""
    tags: set[object] = set()
    for condition in recall.where:
        if (
            condition.field == "tags"
            and condition.operator == "INCLUDE"
            and isinstance(condition.value, tuple)
        ):
            tags |= {tag for tag in condition.value if isinstance(tag, str)}
    for condition in recall.where:
        if condition.field == "relation" and condition.operator != "IS":
            value = condition.value
            yield from _check_relations(value if isinstance(value, tuple) else (value,))
        prefix, colon, _ = condition.field.partition(":")
        if not colon:
            continue
        profile = fields.PROFILES.get(prefix)
        if profile is None:
            yield Warning("CAL-W003", f"{prefix}: is not the prefix of a known domain profile.")
        elif f"profile:{profile}" not in tags:
            yield Warning(
                "CAL-W002",
                f'{condition.field} is used without the condition tags INCLUDE ["profile:{profile}"].',
            )
    yield from _check_options(recall.options)


def _check_relations(values: object) -> Iterator[Warning]:
    """Yield a warning for each `mg:` relation that the registry does not have."""
    assert hasattr(values, "__iter__")
    for value in values:
        if isinstance(value, str) and value.startswith("mg:") and value not in MG_RELATIONS:
            yield Warning("CAL-W001", f"{value[:80]} is not one of the mg: relations.")


def _check_options(options: tuple[Option, ...]) -> Iterator[Warning]:
    """Yield a warning for each option that has no effect."""
    for option in options:
        is_unknown = (
            option.name.startswith(words.EXTENSION_PREFIX) and option.name not in _OWN_OPTIONS
        )
        if option.name in _IGNORED_OPTIONS or is_unknown:
            yield Warning("CAL-W004", f"{option.name} has no effect here.")


# --- weight ----------------------------------------------------------------------------------------------


def has_text_search(recall: Recall) -> bool:
    """Return True if a RECALL searches for a text, by LIKE or by the condition on `query` that it stands for."""
    return recall.like is not None or any(condition.field == "query" for condition in recall.where)


def measure_complexity(query: ParsedQuery) -> int:
    """Return the complexity of a query (section 20).

    A condition counts 1, a subquery 5, a source of ASSEMBLE 5, and a search text 10.
    """
    complexity = 0
    for recall in walk_recalls(query):
        complexity += len(recall.where)
        complexity += 5 * sum(isinstance(condition.value, Subquery) for condition in recall.where)
        complexity += 10 * (recall.like is not None) + 10 * sum(
            condition.field == "query" for condition in recall.where
        )
    statement = query.statement.query if isinstance(query.statement, Explain) else query.statement
    return complexity + (5 * len(statement.sources) if isinstance(statement, Assemble) else 0)


# Section 20: points of `measure_complexity`; queries with more are refused before they run (one condition = 1 point).
MAX_COMPLEXITY: Final = 200
