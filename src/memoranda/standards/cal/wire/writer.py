"""Writer of the JSON form of a query, `application/json+cal` (section 15.2). Its reader is `wire.reader`.

Every query has exactly one JSON form. Shortcuts stay shortcuts; clauses that the query does not have are absent.

Writer and reader are kept symmetric: a query that is read from its text, written as JSON and read again must give the
same tree (`tests/standards/cal` has both ways). So a new clause needs a function here and one in the reader, in the
order in which the specification lists the members. Absent clauses are left out and are never written as null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from memoranda.standards.cal import fields
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
    Project,
    Recall,
    Reduce,
    Revert,
    Sections,
    Select,
    SetOp,
    Stage,
    Statement,
    Subquery,
    Supersede,
    TemplateFormat,
    Thread,
    Value,
    WhereCondition,
)

Json = dict[str, object]
CAL_VERSION: Final = 1


def statement_json(statement: Statement) -> Json:
    """Return the JSON form of a statement, its name first."""
    name, members = _STATEMENT_WRITERS[type(statement)]
    return {"statement": name, **members(statement)}


def _without_absent(**members: object) -> Json:
    """Return the members without those that are None, False or an empty list."""
    return {
        name: value
        for name, value in members.items()
        if value is not None and value != [] and value is not False
    }


def value_json(value: Value) -> object:
    """Return a literal: itself, `{"param": …}` or `{"hash": …}`."""
    if isinstance(value, Param):
        return {"param": value.name}
    if isinstance(value, Hash):
        return {"hash": value.text}
    if isinstance(value, tuple):
        return [value_json(member) for member in value]
    return value


def _optional_json(value: Value | None) -> object:
    """Return a literal, or None for a clause that is absent."""
    return None if value is None else value_json(value)


def _hash_json(value: Hash | Param | None) -> object:
    """Return a hash as a plain string, where the grammar allows only a hash; a parameter as an object."""
    return value.text if isinstance(value, Hash) else _optional_json(value)


# --- RECALL ----------------------------------------------------------------------------------------------


def _recall_json(recall: Recall) -> Json:
    """Return the clauses of a RECALL, in the order of `RECALL_MEMBERS`."""
    clauses = _without_absent(
        my=recall.my,
        grain_type=None if recall.grain_type is None else fields.PLURAL_OF[recall.grain_type],
        about=_optional_json(recall.about),
        like=_optional_json(recall.like),
        since=_optional_json(recall.since),
        between=None
        if recall.between is None
        else [value_json(recall.between.low), value_json(recall.between.high)],
        thread=None if recall.thread is None else _thread_json(recall.thread),
        where=[_condition_json(item) for item in recall.where],
        pipeline=[_STAGE_WRITERS[type(item)](item) for item in recall.stages],
        recent=_optional_json(recall.recent),
        contradictions=recall.contradictions,
    )
    # Three members are named like keywords of Python.
    keyword_clauses = {
        "in": None if recall.namespace is None else _namespace_json(recall.namespace),
        "with": _options_json(recall.options),
        "as": recall.format,
    }
    members = clauses | _without_absent(**keyword_clauses)
    return {name: members[name] for name in RECALL_MEMBERS if name in members}


RECALL_MEMBERS: Final = tuple(
    "my grain_type in about like since between thread where with pipeline recent contradictions as".split()
)


def _namespace_json(namespace: NamespaceFilter) -> object:
    """Return the name of a namespace, or `{"scope": name}`."""
    return {"scope": namespace.name} if namespace.scoped else namespace.name


def _thread_json(thread: Thread) -> object:
    """Return the id of a session, or `{"from": hash}`."""
    return (
        _optional_json(thread.session)
        if thread.message is None
        else {"from": _hash_json(thread.message)}
    )


def _condition_json(condition: WhereCondition) -> Json:
    """Return `{"field": …, "op": …, "value": …}`."""
    value = condition.value
    if isinstance(value, Subquery):
        form: object = {"subquery": statement_json(value.query)}
    elif isinstance(value, Hash) and condition.field == "hash":
        form = value.text
    else:
        form = value_json(value)
    return {"field": condition.field, "op": condition.operator, "value": form}


# Option → the members that hold its word and its value.
OPTION_WORD_MEMBERS: Final = {
    "progressive_disclosure": "level",
    "diversity": "method",
    "consistency": "level",
    "dedup": "field",
}
OPTION_VALUE_MEMBERS: Final = {"locale": "value", "cache": "ttl", "consistency": "value"}


def _options_json(options: tuple[Option, ...]) -> list[object]:
    """Return the list of options."""
    return [_option_json(option) for option in options]


def _option_json(option: Option) -> object:
    """Return the name of an option, or an object if it has a word, a value or arguments."""
    form: Json = {"option": option.name}
    if option.word is not None:
        form[OPTION_WORD_MEMBERS[option.name]] = option.word
    if option.value is not None:
        form[option_value_name(option)] = value_json(option.value)
    if option.arguments:
        form["args"] = [value_json(argument) for argument in option.arguments]
    return option.name if len(form) == 1 else form


def option_value_name(option: Option) -> str:
    """Return the name of the member that holds an option's value."""
    if option.name == "diversity":
        return "lambda" if option.word == "mmr" else "value"
    return OPTION_VALUE_MEMBERS[option.name]


def _project_json(stage: Project) -> Json:
    """Return `{"stage": "project", "content": […], "attr": […]}`."""
    form: Json = {"stage": "project"}
    if stage.content is not None:
        form["content"] = list(stage.content)
    if stage.attributes is not None:
        form["attr"] = list(stage.attributes)
    return form


_STAGE_WRITERS: Final[Mapping[type[Stage], Callable[[Any], Json]]] = {
    Select: lambda stage: {"stage": "select", "fields": list(stage.fields)},
    OrderBy: lambda stage: {
        "stage": "order_by",
        "field": stage.field,
        "dir": "desc" if stage.descending else "asc",
    },
    Limit: lambda stage: {"stage": "limit", "n": value_json(stage.count)},
    Offset: lambda stage: {"stage": "offset", "n": value_json(stage.count)},
    GroupBy: lambda stage: {"stage": "group_by", "field": stage.field},
    Project: _project_json,
    Reduce: lambda stage: {"stage": stage.to},
}


# --- the other statements --------------------------------------------------------------------------------


def _assemble_json(statement: Assemble) -> Json:
    """Return the clauses of an ASSEMBLE."""
    budget, stream = statement.budget, statement.stream
    form = {
        "name": statement.name,
        "for": statement.intent,
        "from": [_source_json(source) for source in statement.sources],
        "budget": None if budget is None else {"amount": budget.amount, "unit": budget.unit},
        "priority": list(statement.priority),
        "format": _template_json(statement.format)
        if isinstance(statement.format, TemplateFormat)
        else statement.format,
        "stream": None
        if stream is None
        else _without_absent(options=list(stream.options), chunk_size=stream.chunk_size),
        "with": _options_json(statement.options),
    }
    return _without_absent(**form)


def _source_json(source: AssembleSource) -> Json:
    """Return `{"label": …, "query": {…}}`, or with `"ref"`, the name of a LET, for the query."""
    query = source.query
    form: Json = (
        {"ref": query.name} if isinstance(query, Param) else {"query": statement_json(query)}
    )
    return form if source.label is None else {"label": source.label, **form}


def _template_json(template: TemplateFormat) -> Json:
    """Return `{"template": …}` with a name or sections."""
    return {
        "template": template.name
        if template.sections is None
        else _sections_json(template.sections)
    }


def _sections_json(sections: Sections) -> Json:
    """Return the sections of a template that are present."""
    texts = {name: getattr(sections, name) for name in Sections.__struct_fields__}
    return {name: text for name, text in texts.items() if text is not None}


def _history_json(statement: History) -> Json:
    """Return the clauses of a HISTORY."""
    form = {
        "hash": _hash_json(statement.hash),
        "diff": _hash_json(statement.diff),
        "in": None if statement.namespace is None else _namespace_json(statement.namespace),
        "subject": _optional_json(statement.subject),
        "relation": _optional_json(statement.relation),
        "as_of": _optional_json(statement.as_of),
    }
    return _without_absent(**form)


def _assignments_json(assignments: tuple[Assignment, ...]) -> Json:
    """Return the assigned values by field."""
    return {assignment.field: value_json(assignment.value) for assignment in assignments}


def _add_json(statement: Add) -> Json:
    """Return `{"grain_type": …, "set": {…}, "reason": …}`."""
    return {
        "grain_type": statement.grain_type,
        "set": _assignments_json(statement.assignments),
        "reason": statement.reason,
    }


def _supersede_json(statement: Supersede) -> Json:
    """Return `{"hash": …, "set": {…}, "reason": …}`."""
    return {
        "hash": _hash_json(statement.hash),
        "set": _assignments_json(statement.assignments),
        "reason": statement.reason,
    }


def _set_json(statement: SetOp) -> Json:
    """Return `{"op": …, "operands": [a, b]}`."""
    operands = [statement_json(statement.left_operand), statement_json(statement.right_operand)]
    return {"op": statement.operator, "operands": operands}


def _coalesce_json(statement: Coalesce) -> Json:
    """Return `{"branches": […]}`."""
    return {"branches": [statement_json(branch) for branch in statement.branches]}


def _batch_json(statement: BatchQuery) -> Json:
    """Return `{"entries": [{"label": …, "query": {…}}, …]}`."""
    return {
        "entries": [
            {"label": entry.label, "query": statement_json(entry.query)}
            for entry in statement.entries
        ]
    }


def _define_template_json(statement: DefineTemplate) -> Json:
    """Return `{"name": …, "extends": …, "sections": {…}}`."""
    return {
        **_without_absent(name=statement.name, extends=statement.extends),
        "sections": _sections_json(statement.sections),
    }


_STATEMENT_WRITERS: Final[Mapping[type[Statement], tuple[str, Callable[[Any], Json]]]] = {
    Recall: ("recall", _recall_json),
    Assemble: ("assemble", _assemble_json),
    SetOp: ("set", _set_json),
    Exists: ("exists", lambda statement: {"hash": _hash_json(statement.hash)}),
    History: ("history", _history_json),
    Explain: ("explain", lambda statement: {"query": statement_json(statement.query)}),
    Describe: (
        "describe",
        lambda statement: _without_absent(target=statement.target, grain_type=statement.grain_type),
    ),
    BatchQuery: ("batch", _batch_json),
    Coalesce: ("coalesce", _coalesce_json),
    Add: ("add", _add_json),
    Supersede: ("supersede", _supersede_json),
    Revert: (
        "revert",
        lambda statement: {"hash": _hash_json(statement.hash), "reason": statement.reason},
    ),
    DefineTemplate: ("define_template", _define_template_json),
}
