"""Saved queries and lists of formats: parts of areev's dialect, available if the setting `cal_dialect` names it.

A saved query is stored as text with names of parameters. A RUN is replaced by that text before anything is parsed, so a
saved query has exactly the rights of the person who runs it and is checked like a typed one. Values are bound as
parameters and never pasted into the text. Without the dialect in the setting, all functions leave a query as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeGuard

from memoranda.errors import QueryError
from memoranda.service.cal.execution import Execution, Outcome, QueryInput, parse_query
from memoranda.service.cal.session import CalSession
from memoranda.service.core.context import Context
from memoranda.standards.cal.language import saved_query
from memoranda.standards.cal.language.dialect import translate
from memoranda.standards.cal.language.saved_query import SavedQuery
from memoranda.standards.cal.language.syntax import DefineTemplate, tier_of
from memoranda.storage.engine.contract import Unit

# Saved queries of a namespace.
QUERIES_LIMIT: Final = 100
_KIND_PREFIX: Final = "cal query "


def query_kind(namespace: str) -> str:
    """Return the kind of stored items that holds the saved queries of a namespace."""
    return _KIND_PREFIX + namespace


def is_dialect(query: QueryInput, context: Context) -> TypeGuard[str]:
    """Return True if a query may be in the dialect."""
    return isinstance(query, str) and context.cal.dialect == "areev"


def expand(
    context: Context, session: CalSession, query: QueryInput, params: Mapping[str, object] | None
) -> tuple[QueryInput, Mapping[str, object] | None]:
    """Replace a RUN by the text of its saved query, with its values. Other queries are returned unchanged.

    Raises QueryError (CAL-E085) if the namespace has no saved query of this name.
    """
    if not is_dialect(query, context):
        return query, params
    call = saved_query.parse_call(query)
    if call is None:
        return query, params
    with context.engine.open_snapshot(session.tenant) as snapshot:
        data = snapshot.load_item(query_kind(session.namespace), call.name)
    if data is None:
        raise QueryError(
            f"There is no saved query named {call.name}.",
            cal_code="CAL-E085",
            suggestion="DESCRIBE QUERIES names those of this namespace.",
        )
    text, values = saved_query.expand_call(saved_query.decode(data), call)
    return text, {**(params or {}), **values}


def define(context: Context, execution: Execution, definition: SavedQuery) -> dict[str, Any]:
    """Store a saved query for this namespace, or replace it. Raises QueryError unless it is a query that reads."""
    session = execution.session
    for query in (saved_query.split_formats(definition.text) or {"": definition.text}).values():
        statement = parse_query(translate(query, session.namespace), strict=False).statement
        if tier_of(statement) or isinstance(statement, DefineTemplate):
            raise QueryError(
                "A saved query can only read.",
                cal_code="CAL-E044",
                suggestion="Save a RECALL or an ASSEMBLE.",
            )
    execution.name_statement("define_query")
    kind = query_kind(session.namespace)

    def work(unit: Unit) -> None:
        items = unit.load_items(kind)
        if len({*items, definition.name}) > QUERIES_LIMIT:
            raise QueryError(
                f"This namespace already has {QUERIES_LIMIT} saved queries, the maximum.",
                cal_code="CAL-E089",
                suggestion="Define one of these names again.",
            )
        unit.put_item(kind, definition.name, saved_query.encode(definition))
        context.quotas_of(unit).check_bytes(unit)
        unit.record_audit(execution.create_entry(Outcome(result_count=1)))

    context.engine.write(session.tenant, work)
    return {
        "_cal": execution.build_header(1),
        "defined": definition.name,
        "warnings": [],
    }


def describe(context: Context, execution: Execution) -> dict[str, Any]:
    """Return the saved queries of this namespace: name, description and parameters."""
    session = execution.session
    execution.name_statement("describe")
    with context.engine.open_snapshot(session.tenant) as snapshot:
        items = snapshot.load_items(query_kind(session.namespace))
    rows = [
        {
            "name": query.name,
            "description": query.description,
            "parameters": list(query.parameters),
        }
        for query in map(saved_query.decode, items.values())
    ]
    execution.record(Outcome(result_count=len(rows)))
    return {"_cal": execution.build_header(len(rows)), "description": rows, "warnings": []}


def split_formats(context: Context, query: QueryInput) -> dict[str, str]:
    """Return one query per format of a list, by name. Empty without a list, or outside of the dialect."""
    return saved_query.split_formats(query) if is_dialect(query, context) else {}


def join_formats(names: Iterable[str], answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join the answers of one query in several formats: the members of the first, and the text of each by name."""
    texts = {
        name: answer["formatted_context"]["text"]
        if "formatted_context" in answer
        else answer.get("formatted", "")
        for name, answer in zip(names, answers, strict=True)
    }
    single = ("format", "formatted", "formatted_context")
    shared = {name: value for name, value in answers[0].items() if name not in single}
    return {**shared, "formats": texts}
