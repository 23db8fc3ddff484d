"""The canonical text of a query, and its hash. The specification leaves both open; docs/standards/cal.md defines ours.

Keywords are in capitals, separated by single spaces, clauses in the order of the grammar, every stage with its pipe.
Parsing the canonical text gives the same query again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from memoranda.standards.cal import fields
from memoranda.standards.cal.language import template
from memoranda.standards.cal.language.syntax import (
    Add,
    Assemble,
    AssembleSource,
    Assignment,
    BatchQuery,
    Coalesce,
    DefineTemplate,
    Describe,
    Exists,
    Explain,
    GroupBy,
    Hash,
    History,
    Limit,
    NamespaceFilter,
    Offset,
    Option,
    OrderBy,
    Param,
    ParsedQuery,
    Project,
    Recall,
    Reduce,
    Revert,
    Sections,
    Select,
    SetOp,
    Stage,
    Statement,
    StreamOptions,
    Subquery,
    Supersede,
    TemplateFormat,
    Thread,
    Value,
    WhereCondition,
)


def canonical(query: ParsedQuery) -> str:
    """Return the canonical text; for a query with bound parameters, that of the query before binding."""
    query = query.original or query
    lets = [f"LET ${let.name} = {_recall_text(let.query)} ;" for let in query.lets]
    return " ".join(("CAL/1", *lets, statement_text(query.statement)))


def query_hash(query: ParsedQuery) -> str:
    """Return `sha256:` and the hash of the canonical text. Values of parameters do not change it."""
    return f"sha256:{hashlib.sha256(canonical(query).encode()).hexdigest()}"


def statement_text(statement: Statement) -> str:
    """Return the canonical text of one statement."""
    return _STATEMENT_WRITERS[type(statement)](statement)


# --- values ----------------------------------------------------------------------------------------------


def value_text(value: Value) -> str:
    """Return the canonical text of a literal."""
    if isinstance(value, str):
        return _quote_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # The shortest digits that parse to the same float, without an exponent.
        return format(Decimal(repr(value)), "f")
    if isinstance(value, Param):
        return f"${value.name}"
    if isinstance(value, Hash):
        return value.text
    return f"[{_join_values(value)}]"


def _quote_text(text: str) -> str:
    """Return a string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _join_values(values: tuple[Value, ...]) -> str:
    """Return the texts of values, separated by commas."""
    return ", ".join(value_text(value) for value in values)


# --- RECALL ----------------------------------------------------------------------------------------------


def _recall_text(recall: Recall) -> str:
    """Return `RECALL [MY] [type] clause … | stage …`."""
    parts = ["RECALL"]
    if recall.my:
        parts.append("MY")
    if recall.grain_type is not None:
        parts.append(fields.PLURAL_OF[recall.grain_type])
    if recall.namespace is not None:
        parts.append(_namespace_text(recall.namespace))
    for word, text in (("ABOUT", recall.about), ("LIKE", recall.like), ("SINCE", recall.since)):
        if text is not None:
            parts.append(f"{word} {value_text(text)}")
    if recall.between is not None:
        parts.append(
            f"BETWEEN {value_text(recall.between.low)} AND {value_text(recall.between.high)}"
        )
    if recall.thread is not None:
        parts.append(_thread_text(recall.thread))
    if recall.where:
        parts.append(
            "WHERE " + " AND ".join(condition_text(condition) for condition in recall.where)
        )
    parts += _options_text(recall.options)
    parts += [f"| {_STAGE_WRITERS[type(stage)](stage)}" for stage in recall.stages]
    if recall.recent is not None:
        parts.append(f"RECENT {value_text(recall.recent)}")
    if recall.contradictions:
        parts.append("CONTRADICTIONS")
    if recall.format is not None:
        parts.append(f"AS {recall.format}")
    return " ".join(parts)


def _namespace_text(namespace: NamespaceFilter) -> str:
    """Return `IN "name"` or `IN SCOPE "name"`."""
    name = _quote_text(namespace.name)
    return f"IN SCOPE {name}" if namespace.scoped else f"IN {name}"


def _thread_text(thread: Thread) -> str:
    """Return `THREAD "session"` or `THREAD FROM hash`."""
    if thread.message is not None:
        return f"THREAD FROM {value_text(thread.message)}"
    assert thread.session is not None
    return f"THREAD {value_text(thread.session)}"


def condition_text(condition: WhereCondition) -> str:
    """Return the canonical text of one condition."""
    value = condition.value
    if isinstance(value, Subquery):
        operand = f"({_recall_text(value.query)})"
    elif condition.operator == "IN":
        assert isinstance(value, tuple)
        operand = f"({_join_values(value)})"
    elif condition.operator == "BETWEEN":
        assert isinstance(value, tuple)
        operand = f"{value_text(value[0])} AND {value_text(value[1])}"
    elif condition.operator == "IS":
        operand = str(value)
    else:
        operand = value_text(value)
    return f"{condition.field} {condition.operator} {operand}"


def _options_text(options: tuple[Option, ...]) -> list[str]:
    """Return `WITH option, …` as the only member of a list, or an empty list without options."""
    if not options:
        return []
    return ["WITH " + ", ".join(map(_option_text, options))]


def _option_text(option: Option) -> str:
    """Return one option with its word, value or arguments."""
    if option.arguments:
        return f"{option.name}({_join_values(option.arguments)})"
    if option.word is None and option.value is None:
        return option.name
    value = "" if option.value is None else value_text(option.value)
    if option.word is None:
        prefix = "ttl = " if option.name == "cache" else ""
        return f"{option.name}({prefix}{value})"
    if not value:
        return f"{option.name}({option.word})"
    suffix = {"mmr": f", lambda = {value}", "threshold": f", {value}", "bounded": f"({value})"}[
        option.word
    ]
    return f"{option.name}({option.word}{suffix})"


def _project_text(stage: Project) -> str:
    """Return `PROJECT content(field, …), attr(field, …)`."""
    specs = (("content", stage.content), ("attr", stage.attributes))
    parts = []
    for name, fields_of_part in specs:
        if fields_of_part is not None:
            parts.append(f"{name}({', '.join(fields_of_part)})")
    return "PROJECT " + ", ".join(parts)


_STAGE_WRITERS: Final[Mapping[type[Stage], Callable[[Any], str]]] = {
    Select: lambda stage: f"SELECT {', '.join(stage.fields)}",
    OrderBy: lambda stage: f"ORDER BY {stage.field} " + ("DESC" if stage.descending else "ASC"),
    Limit: lambda stage: f"LIMIT {value_text(stage.count)}",
    Offset: lambda stage: f"OFFSET {value_text(stage.count)}",
    GroupBy: lambda stage: f"GROUP BY {stage.field}",
    Project: _project_text,
    Reduce: lambda stage: stage.to.upper(),
}


# --- the other statements --------------------------------------------------------------------------------


def _assemble_text(statement: Assemble) -> str:
    """Return `ASSEMBLE [name] [FOR "intent"] FROM source, … clause …`."""
    parts = ["ASSEMBLE"]
    if statement.name is not None:
        parts.append(statement.name)
    if statement.intent is not None:
        parts.append(f"FOR {_quote_text(statement.intent)}")
    parts.append("FROM " + ", ".join(map(_source_text, statement.sources)))
    if statement.budget is not None:
        parts.append(f"BUDGET {statement.budget.amount} {statement.budget.unit}")
    if statement.priority:
        parts.append(f"PRIORITY {' > '.join(statement.priority)}")
    if isinstance(statement.format, TemplateFormat):
        parts.append(f"FORMAT TEMPLATE {_template_text(statement.format)}")
    elif statement.format is not None:
        parts.append(f"FORMAT {statement.format}")
    if statement.stream is not None:
        parts.append(_stream_text(statement.stream))
    parts += _options_text(statement.options)
    return " ".join(parts)


def _source_text(source: AssembleSource) -> str:
    """Return `[label: ](RECALL …)` or `[label: ]$name`."""
    label = "" if source.label is None else f"{source.label}: "
    query = (
        f"${source.query.name}"
        if isinstance(source.query, Param)
        else f"({_recall_text(source.query)})"
    )
    return label + query


def _template_text(spec: TemplateFormat) -> str:
    """Return the name of a template, or its sections in braces."""
    if spec.name is not None:
        return spec.name
    assert spec.sections is not None
    return f"{{ {sections_text(spec.sections)} }}"


def sections_text(sections: Sections) -> str:
    """Return the sections of a template, each in braces that `trim_section` removes again."""
    names = Sections.__struct_fields__
    texts = ((name, getattr(sections, name)) for name in names)
    return " ".join(
        f"{name.upper()} {template.wrap_in_braces(text)}"
        for name, text in texts
        if text is not None
    )


def _stream_text(stream: StreamOptions) -> str:
    """Return `STREAM { option, … }`."""
    options = [*stream.options]
    if stream.chunk_size is not None:
        options.append(f"chunk_size = {stream.chunk_size}")
    return f"STREAM {{ {', '.join(options)} }}"


def _set_text(statement: SetOp) -> str:
    """Return `(a) UNION (b) …`. A chain associates to the left, so its left operand needs no parentheses."""
    left_text = (
        _set_text(statement.left_operand)
        if isinstance(statement.left_operand, SetOp)
        else f"({statement_text(statement.left_operand)})"
    )
    return f"{left_text} {statement.operator.upper()} ({statement_text(statement.right_operand)})"


def _history_text(statement: History) -> str:
    """Return `HISTORY hash [DIFF hash]` or `HISTORY [IN …] WHERE subject = … AND relation = … [AS OF …]`."""
    if statement.hash is not None:
        diff = "" if statement.diff is None else f" DIFF {value_text(statement.diff)}"
        return f"HISTORY {value_text(statement.hash)}{diff}"
    assert statement.subject is not None
    assert statement.relation is not None
    namespace = "" if statement.namespace is None else f" {_namespace_text(statement.namespace)}"
    as_of = "" if statement.as_of is None else f" AS OF {value_text(statement.as_of)}"
    subject, relation = value_text(statement.subject), value_text(statement.relation)
    return f"HISTORY{namespace} WHERE subject = {subject} AND relation = {relation}{as_of}"


def _describe_text(statement: Describe) -> str:
    """Return `DESCRIBE target [type]`."""
    grain_type = f" {statement.grain_type}" if statement.grain_type else ""
    return f"DESCRIBE {statement.target}{grain_type}"


def _batch_text(statement: BatchQuery) -> str:
    """Return `BATCH { label: query, … }`."""
    entries = ", ".join(
        f"{entry.label}: {statement_text(entry.query)}" for entry in statement.entries
    )
    return f"BATCH {{ {entries} }}"


def _coalesce_text(statement: Coalesce) -> str:
    """Return `COALESCE(RECALL …, RECALL …)`."""
    branches = ", ".join(map(_recall_text, statement.branches))
    return f"COALESCE({branches})"


def _assignments_text(assignments: tuple[Assignment, ...]) -> str:
    """Return `SET field = value` for each assignment, with a space after each."""
    return "".join(
        f"SET {assignment.field} = {value_text(assignment.value)} " for assignment in assignments
    )


def _add_text(statement: Add) -> str:
    """Return `ADD type SET … REASON "…"`."""
    assignments = _assignments_text(statement.assignments)
    return f"ADD {statement.grain_type} {assignments}REASON {_quote_text(statement.reason)}"


def _supersede_text(statement: Supersede) -> str:
    """Return `SUPERSEDE hash SET … REASON "…"`."""
    target, changes = value_text(statement.hash), _assignments_text(statement.assignments)
    return f"SUPERSEDE {target} {changes}REASON {_quote_text(statement.reason)}"


def _revert_text(statement: Revert) -> str:
    """Return `REVERT hash REASON "…"`."""
    return f"REVERT {value_text(statement.hash)} REASON {_quote_text(statement.reason)}"


def _define_text(statement: DefineTemplate) -> str:
    """Return `DEFINE TEMPLATE name [EXTENDS parent] section …`."""
    extends = "" if statement.extends is None else f" EXTENDS {statement.extends}"
    return f"DEFINE TEMPLATE {statement.name}{extends} {sections_text(statement.sections)}"


_STATEMENT_WRITERS: Final[Mapping[type[Statement], Callable[[Any], str]]] = {
    Recall: _recall_text,
    Assemble: _assemble_text,
    SetOp: _set_text,
    Exists: lambda statement: f"EXISTS {value_text(statement.hash)}",
    History: _history_text,
    Explain: lambda statement: f"EXPLAIN {statement_text(statement.query)}",
    Describe: _describe_text,
    BatchQuery: _batch_text,
    Coalesce: _coalesce_text,
    Add: _add_text,
    Supersede: _supersede_text,
    Revert: _revert_text,
    DefineTemplate: _define_text,
}
