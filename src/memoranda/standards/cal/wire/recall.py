"""Reader of the JSON form of a RECALL, from untrusted JSON. `wire.reader` has the parser check the words in it.

Nothing that arrives here can be trusted: each function checks the type of its value with `wire.shapes` before it uses
it, and nesting was limited before the first call. Stages are read by the table of readers for their names. What a value
means, such as whether an operator fits a field, is not decided here but by the parser and `language.rules`, so that
text and JSON are refused for the same reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, cast

from memoranda.standards.cal import fields
from memoranda.standards.cal.language import lexer, parser, words
from memoranda.standards.cal.language.syntax import (
    Between,
    GroupBy,
    Limit,
    NamespaceFilter,
    Offset,
    Option,
    OrderBy,
    Project,
    Recall,
    Reduce,
    Select,
    Stage,
    Subquery,
    Thread,
    Value,
    WhereCondition,
)
from memoranda.standards.cal.wire.shapes import (
    read_count,
    read_flag,
    read_hash,
    read_hash_or_param,
    read_optional,
    read_text_or_param,
    read_value,
    refuse,
    require_list,
    require_members,
    require_object,
    require_text,
    require_word,
    require_words,
)
from memoranda.standards.cal.wire.writer import (
    OPTION_VALUE_MEMBERS,
    OPTION_WORD_MEMBERS,
    RECALL_MEMBERS,
)

Reducer: TypeAlias = Literal["count", "first", "subjects", "objects", "hashes"]
_REDUCERS: Final[tuple[Reducer, ...]] = ("count", "first", "subjects", "objects", "hashes")


def read_nested_recall(value: object) -> Recall:
    """Read a RECALL where no other statement is allowed."""
    form = require_object(value, "a query")
    if form.get("statement", "recall") != "recall":
        refuse("only a recall is allowed here")
    return read_recall({name: member for name, member in form.items() if name != "statement"})


def read_recall(value: object) -> Recall:
    """Read a RECALL from the members of its JSON form."""
    form = require_members(value, "a recall", RECALL_MEMBERS)
    between = require_list(form["between"], "between") if "between" in form else []
    if "between" in form and len(between) != 2:
        refuse("between needs two values")
    ends = tuple(read_value(item, "between") for item in between)
    return Recall(
        my=read_flag(form, "my"),
        grain_type=read_optional(form, "grain_type", _read_plural),
        namespace=read_optional(form, "in", read_namespace),
        about=read_optional(form, "about", read_text_or_param),
        like=read_optional(form, "like", read_text_or_param),
        since=read_optional(form, "since", read_text_or_param),
        between=Between(low=ends[0], high=ends[1]) if ends else None,
        thread=read_optional(form, "thread", _read_thread),
        where=tuple(_read_condition(item) for item in require_list(form.get("where", []), "where")),
        options=read_options(form),
        stages=tuple(
            _read_stage(item) for item in require_list(form.get("pipeline", []), "pipeline")
        ),
        recent=read_optional(form, "recent", read_count),
        contradictions=read_flag(form, "contradictions"),
        format=read_optional(form, "as", require_word),
    )


def _read_plural(value: object, label: str) -> str:
    """Return the singular of a grain type that is given in the plural."""
    # The parser raises a better error, with a suggestion.
    word = require_word(value, label)
    singular = fields.PLURALS.get(word.lower())
    if singular is None:
        parser.parse_text(f"RECALL {word}")
        refuse(f"{label} is not a grain type")
    return singular


def read_namespace(value: object, label: str) -> NamespaceFilter:
    """Read `in`: the name of a namespace, or of a scope."""
    if isinstance(value, dict):
        form = require_members(value, label, ("scope",), ("scope",))
        return NamespaceFilter(name=require_text(form["scope"], label), scoped=True)
    return NamespaceFilter(name=require_text(value, label))


def _read_thread(value: object, label: str) -> Thread:
    """Read the id of a session, or `{"from": hash}`."""
    if isinstance(value, dict) and "from" in value:
        form = require_members(value, label, ("from",))
        return Thread(message=read_hash_or_param(form["from"], label))
    return Thread(session=read_text_or_param(value, label))


def _read_condition(value: object) -> WhereCondition:
    """Read `{"field": …, "op": …, "value": …}`."""
    form = require_members(value, "a condition", ("field", "op", "value"), ("field", "op", "value"))
    field = require_word(form["field"], "the field of a condition").lower()
    operator = require_text(form["op"], "op").upper()
    if operator not in words.OPERATORS:
        refuse(f"{lexer.quote_token(operator)} is not an operator")
    return WhereCondition(
        field=field, operator=operator, value=_read_operand(field, operator, form["value"])
    )


def _read_operand(field: str, operator: str, value: object) -> Value | Subquery:
    """Read the value of a condition; its form depends on the operator."""
    if operator == "IN":
        if isinstance(value, dict):
            form = require_members(value, "the value of IN", ("subquery",), ("subquery",))
            return Subquery(query=read_nested_recall(form["subquery"]))
        return tuple(
            read_value(member, "a value of IN") for member in require_list(value, "the value of IN")
        )
    if operator == "BETWEEN":
        ends = require_list(value, "the value of BETWEEN")
        if len(ends) != 2:
            refuse("BETWEEN needs two values")
        return tuple(read_value(member, "an end of BETWEEN") for member in ends)
    if operator == "IS":
        return require_word(value, "the category").upper()
    if field == "hash" and isinstance(value, str):
        return read_hash(value, "hash")
    return read_value(value, f"the value of {field}")


def read_options(form: Mapping[str, object]) -> tuple[Option, ...]:
    """Read `with`: the options."""
    return tuple(_read_option(option) for option in require_list(form.get("with", []), "with"))


def _read_option(value: object) -> Option:
    """Read an option: its name, or an object with its word, value or arguments."""
    if isinstance(value, str):
        return Option(name=_fold_case(require_word(value, "an option")))
    form = require_object(value, "an option")
    name = _fold_case(require_word(form.get("option"), "the name of an option"))
    if name.startswith(words.EXTENSION_PREFIX):
        require_members(form, name, ("option", "args"), ("args",))
        arguments = tuple(read_value(member, name) for member in require_list(form["args"], "args"))
        return Option(name=name, arguments=arguments)
    word_name = OPTION_WORD_MEMBERS.get(name)
    word = None if word_name is None else require_word(form.get(word_name), word_name).lower()
    if name == "diversity":
        value_name: str | None = "lambda" if word == "mmr" else "value"
    else:
        value_name = (
            OPTION_VALUE_MEMBERS.get(name) if name != "consistency" or word == "bounded" else None
        )
    allowed = tuple(member for member in ("option", word_name, value_name) if member is not None)
    require_members(form, name, allowed)
    option_value = None if value_name is None else read_optional(form, value_name, read_value)
    _check_option(name, word, option_value)
    return Option(name=name, word=word, value=option_value)


def _check_option(name: str, word: str | None, value: Value | None) -> None:
    """Refuse an option whose method is unknown, or whose value is missing or of the wrong kind.

    Its canonical text would not show these mistakes.
    """
    if name == "diversity" and word not in ("mmr", "threshold"):
        refuse("the method of diversity must be mmr or threshold")
    needed = name in ("locale", "cache") or word in ("threshold", "bounded")
    if name == "locale":
        fits = isinstance(value, str)
    else:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    if (value is None and needed) or (value is not None and not fits):
        refuse(f"{name} does not take this value")


def _fold_case(name: str) -> str:
    """Return the name in lower case, unless it is an extension, whose case matters."""
    return name if name.startswith(words.EXTENSION_PREFIX) else name.lower()


def _read_stage(value: object) -> Stage:
    """Read a stage of the pipeline by the reader for its name."""
    form = require_object(value, "a stage")
    name = require_text(form.get("stage"), "stage")
    reader = _STAGE_READERS.get(name)
    if reader is None:
        refuse(f"{lexer.quote_token(name)} is not a stage")
    return reader(form)


def _read_reduce(form: object) -> Stage:
    """Read a stage without arguments."""
    name = require_members(form, "the stage", ("stage",))["stage"]
    return Reduce(to=cast(Reducer, name))


def _read_select(form: object) -> Stage:
    """Read `{"stage": "select", "fields": […]}`."""
    members = require_members(form, "select", ("stage", "fields"), ("fields",))
    return Select(fields=tuple(name.lower() for name in require_words(members["fields"], "fields")))


def _read_order_by(form: object) -> Stage:
    """Read `{"stage": "order_by", "field": …, "dir": "asc" | "desc"}`."""
    members = require_members(form, "order_by", ("stage", "field", "dir"), ("field",))
    direction = members.get("dir", "asc")
    if direction not in ("asc", "desc"):
        refuse("dir must be asc or desc")
    return OrderBy(
        field=require_word(members["field"], "field").lower(), descending=direction == "desc"
    )


def _read_limit(form: object) -> Stage:
    """Read `{"stage": "limit", "n": …}`."""
    return Limit(count=read_count(require_members(form, "limit", ("stage", "n"), ("n",))["n"], "n"))


def _read_offset(form: object) -> Stage:
    """Read `{"stage": "offset", "n": …}`."""
    return Offset(
        count=read_count(require_members(form, "offset", ("stage", "n"), ("n",))["n"], "n")
    )


def _read_group_by(form: object) -> Stage:
    """Read `{"stage": "group_by", "field": …}`."""
    members = require_members(form, "group_by", ("stage", "field"), ("field",))
    return GroupBy(field=require_word(members["field"], "field").lower())


def _read_projected_names(value: object, label: str) -> tuple[str, ...]:
    """Read the field names of PROJECT."""
    return tuple(map(_fold_case, require_words(value, label)))


def _read_project(form: object) -> Stage:
    """Read `{"stage": "project", "content": […], "attr": […]}`."""
    members = require_members(form, "project", ("stage", "content", "attr"))
    if len(members) == 1:
        refuse("project needs content or attr")
    content = read_optional(members, "content", _read_projected_names)
    return Project(
        content=content, attributes=read_optional(members, "attr", _read_projected_names)
    )


_STAGE_READERS: Final[Mapping[str, Callable[[object], Stage]]] = {
    "select": _read_select,
    "order_by": _read_order_by,
    "limit": _read_limit,
    "offset": _read_offset,
    "group_by": _read_group_by,
    "project": _read_project,
    **dict.fromkeys(_REDUCERS, _read_reduce),
}
