"""The JSON form of a query, `application/json+cal` (section 15.2): written here, read by wire_reader.

Every query has exactly one JSON form. Shortcuts are kept; a member that is absent was not given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from memoranda.standards.cal import fields
from memoranda.standards.cal.language.syntax import (
    Add,
    Assemble,
    Assignment,
    Batch,
    Coalesce,
    Condition,
    DefineTemplate,
    Describe,
    Exists,
    Explain,
    GroupBy,
    Hash,
    History,
    Limit,
    Namespace,
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
    Source,
    Stage,
    Statement,
    Subquery,
    Supersede,
    Template,
    Thread,
    Value,
)

Json = dict[str, Any]
CAL_VERSION: Final = 1


def statement_json(statement: Statement) -> Json:
    """One statement, with its name first."""
    name, members = _STATEMENTS[type(statement)]
    return {"statement": name, **members(statement)}


def _given(**members: Any) -> Json:
    """The members that were given."""
    return {name: value for name, value in members.items() if value is not None and value != [] and value is not False}


def value_json(value: Value) -> Any:
    """A literal: itself, `{"param": …}` or `{"hash": …}`."""
    if isinstance(value, Param):
        return {"param": value.name}
    if isinstance(value, Hash):
        return {"hash": value.text}
    if isinstance(value, tuple):
        return [value_json(each) for each in value]
    return value


def _optional(value: Value | None) -> Any:
    return None if value is None else value_json(value)


def _hash(value: Hash | Param | None) -> Any:
    """A plain string where only a hash may stand."""
    return value.text if isinstance(value, Hash) else _optional(value)


# --- RECALL ----------------------------------------------------------------------------------------------


def _recall(recall: Recall) -> Json:
    plain = _given(
        my=recall.my,
        grain_type=None if recall.grain_type is None else fields.PLURAL_OF[recall.grain_type],
        about=_optional(recall.about),
        like=_optional(recall.like),
        since=_optional(recall.since),
        between=None if recall.between is None else [value_json(recall.between.low), value_json(recall.between.high)],
        thread=None if recall.thread is None else _thread(recall.thread),
        where=[_condition(each) for each in recall.where],
        pipeline=[_STAGES[type(each)](each) for each in recall.stages],
        recent=_optional(recall.recent),
        contradictions=recall.contradictions,
    )
    # Three names that are words of Python.
    words = {
        "in": None if recall.namespace is None else _namespace(recall.namespace),
        "with": _options(recall.options),
        "as": recall.format,
    }
    found = plain | _given(**words)
    return {name: found[name] for name in RECALL_MEMBERS if name in found}


RECALL_MEMBERS: Final = tuple(
    "my grain_type in about like since between thread where with pipeline recent contradictions as".split()
)


def _namespace(namespace: Namespace) -> Any:
    return {"scope": namespace.name} if namespace.scoped else namespace.name


def _thread(thread: Thread) -> Any:
    return _optional(thread.session) if thread.message is None else {"from": _hash(thread.message)}


def _condition(condition: Condition) -> Json:
    value = condition.value
    if isinstance(value, Subquery):
        form: Any = {"subquery": statement_json(value.query)}
    elif isinstance(value, Hash) and condition.field == "hash":
        form = value.text
    else:
        form = value_json(value)
    return {"field": condition.field, "op": condition.operator, "value": form}


# How the word and the value of each option are called.
OPTION_WORD: Final = {
    "progressive_disclosure": "level",
    "diversity": "method",
    "consistency": "level",
    "dedup": "field",
}
OPTION_VALUE: Final = {"locale": "value", "cache": "ttl", "consistency": "value"}


def _options(options: tuple[Option, ...]) -> list[Any]:
    return [_option(each) for each in options]


def _option(option: Option) -> Any:
    form: Json = {"option": option.name}
    if option.word is not None:
        form[OPTION_WORD[option.name]] = option.word
    if option.value is not None:
        form[option_value_name(option)] = value_json(option.value)
    if option.arguments:
        form["args"] = [value_json(each) for each in option.arguments]
    return option.name if len(form) == 1 else form


def option_value_name(option: Option) -> str:
    """The member that holds an option's value."""
    if option.name == "diversity":
        return "lambda" if option.word == "mmr" else "value"
    return OPTION_VALUE[option.name]


def _project(stage: Project) -> Json:
    names = {"content": stage.content, "attr": stage.attributes}
    return {"stage": "project", **{name: list(given) for name, given in names.items() if given is not None}}


_STAGES: Final[Mapping[type[Stage], Callable[[Any], Json]]] = {
    Select: lambda stage: {"stage": "select", "fields": list(stage.fields)},
    OrderBy: lambda stage: {"stage": "order_by", "field": stage.field, "dir": "desc" if stage.descending else "asc"},
    Limit: lambda stage: {"stage": "limit", "n": value_json(stage.count)},
    Offset: lambda stage: {"stage": "offset", "n": value_json(stage.count)},
    GroupBy: lambda stage: {"stage": "group_by", "field": stage.field},
    Project: _project,
    Reduce: lambda stage: {"stage": stage.to},
}


# --- the other statements --------------------------------------------------------------------------------


def _assemble(statement: Assemble) -> Json:
    budget, stream = statement.budget, statement.stream
    form = {
        "name": statement.name,
        "for": statement.intent,
        "from": [_source(each) for each in statement.sources],
        "budget": None if budget is None else {"amount": budget.amount, "unit": budget.unit},
        "priority": list(statement.priority),
        "format": _template(statement.format) if isinstance(statement.format, Template) else statement.format,
        "stream": None if stream is None else _given(options=list(stream.options), chunk_size=stream.chunk_size),
        "with": _options(statement.options),
    }
    return _given(**form)


def _source(source: Source) -> Json:
    query = source.query
    form = {"ref": query.name} if isinstance(query, Param) else {"query": statement_json(query)}
    return form if source.label is None else {"label": source.label, **form}


def _template(template: Template) -> Json:
    return {"template": template.name if template.sections is None else _sections(template.sections)}


def _sections(sections: Sections) -> Json:
    texts = {name: getattr(sections, name) for name in Sections.__struct_fields__}
    return {name: text for name, text in texts.items() if text is not None}


def _history(statement: History) -> Json:
    form = {
        "hash": _hash(statement.hash),
        "diff": _hash(statement.diff),
        "in": None if statement.namespace is None else _namespace(statement.namespace),
        "subject": _optional(statement.subject),
        "relation": _optional(statement.relation),
        "as_of": _optional(statement.as_of),
    }
    return _given(**form)


def _set(assignments: tuple[Assignment, ...]) -> Json:
    return {each.field: value_json(each.value) for each in assignments}


def _add(statement: Add) -> Json:
    return {"grain_type": statement.grain_type, "set": _set(statement.assignments), "reason": statement.reason}


def _supersede(statement: Supersede) -> Json:
    return {"hash": _hash(statement.hash), "set": _set(statement.assignments), "reason": statement.reason}


def _set_operation(statement: SetOp) -> Json:
    operands = [statement_json(statement.left), statement_json(statement.right)]
    return {"op": statement.operator, "operands": operands}


def _batch(statement: Batch) -> Json:
    return {"entries": [{"label": each.label, "query": statement_json(each.query)} for each in statement.entries]}


def _define(statement: DefineTemplate) -> Json:
    return {**_given(name=statement.name, extends=statement.extends), "sections": _sections(statement.sections)}


_STATEMENTS: Final[Mapping[type[Statement], tuple[str, Callable[[Any], Json]]]] = {
    Recall: ("recall", _recall),
    Assemble: ("assemble", _assemble),
    SetOp: ("set", _set_operation),
    Exists: ("exists", lambda statement: {"hash": _hash(statement.hash)}),
    History: ("history", _history),
    Explain: ("explain", lambda statement: {"query": statement_json(statement.query)}),
    Describe: ("describe", lambda statement: _given(target=statement.target, grain_type=statement.grain_type)),
    Batch: ("batch", _batch),
    Coalesce: ("coalesce", lambda statement: {"branches": [statement_json(each) for each in statement.branches]}),
    Add: ("add", _add),
    Supersede: ("supersede", _supersede),
    Revert: ("revert", lambda statement: {"hash": _hash(statement.hash), "reason": statement.reason}),
    DefineTemplate: ("define_template", _define),
}
