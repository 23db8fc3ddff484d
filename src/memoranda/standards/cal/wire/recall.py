"""The JSON form of a RECALL, read from untrusted JSON. The parser is the judge of the words in it: see wire_reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from memoranda.standards.cal import fields
from memoranda.standards.cal.language import lexer, parser, words
from memoranda.standards.cal.language.syntax import (
    Between,
    Condition,
    GroupBy,
    Limit,
    Namespace,
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
)
from memoranda.standards.cal.wire.shapes import (
    a_count,
    a_flag,
    a_hash,
    a_list,
    a_text,
    a_value,
    a_word,
    an_object,
    hash_or_param,
    members_of,
    optional,
    refuse,
    some_words,
    text_or_param,
)
from memoranda.standards.cal.wire.writer import OPTION_VALUE, OPTION_WORD, RECALL_MEMBERS

_REDUCERS: Final = ("count", "first", "subjects", "objects", "hashes")


def nested_recall(value: object) -> Recall:
    """A RECALL where nothing else may stand."""
    form = an_object(value, "a query")
    if form.get("statement", "recall") != "recall":
        refuse("only a recall can stand here")
    return recall_of({name: each for name, each in form.items() if name != "statement"})


def recall_of(value: object) -> Recall:
    """A RECALL."""
    form = members_of(value, "a recall", RECALL_MEMBERS)
    between = a_list(form["between"], "between") if "between" in form else []
    if "between" in form and len(between) != 2:
        refuse("between has two ends")
    ends = tuple(a_value(each, "between") for each in between)
    return Recall(
        my=a_flag(form, "my"),
        grain_type=optional(form, "grain_type", _plural),
        namespace=optional(form, "in", namespace_of),
        about=optional(form, "about", text_or_param),
        like=optional(form, "like", text_or_param),
        since=optional(form, "since", text_or_param),
        between=Between(low=ends[0], high=ends[1]) if ends else None,
        thread=optional(form, "thread", _thread),
        where=tuple(_condition(each) for each in a_list(form.get("where", []), "where")),
        options=options_of(form),
        stages=tuple(_stage(each) for each in a_list(form.get("pipeline", []), "pipeline")),
        recent=optional(form, "recent", a_count),
        contradictions=a_flag(form, "contradictions"),
        format=optional(form, "as", a_word),
    )


def _plural(value: object, what: str) -> str:
    # The parser says what is wrong with a word that is none; it has to see it for that.
    word = a_word(value, what)
    found = fields.PLURALS.get(word.lower())
    if found is None:
        parser.parse_text(f"RECALL {word}")
        refuse(f"{what} is not a grain type")
    return found


def namespace_of(value: object, what: str) -> Namespace:
    """`in`: a name, or a scope."""
    if isinstance(value, dict):
        form = members_of(value, what, ("scope",), ("scope",))
        return Namespace(name=a_text(form["scope"], what), scoped=True)
    return Namespace(name=a_text(value, what))


def _thread(value: object, what: str) -> Thread:
    if isinstance(value, dict) and "from" in value:
        form = members_of(value, what, ("from",))
        return Thread(message=hash_or_param(form["from"], what))
    return Thread(session=text_or_param(value, what))


def _condition(value: object) -> Condition:
    form = members_of(value, "a condition", ("field", "op", "value"), ("field", "op", "value"))
    field = a_word(form["field"], "the field of a condition").lower()
    operator = a_text(form["op"], "op").upper()
    if operator not in words.OPERATORS:
        refuse(f"{lexer.shown(operator)} is not an operator")
    return Condition(field=field, operator=operator, value=_operand(field, operator, form["value"]))


def _operand(field: str, operator: str, value: object) -> Value | Subquery:
    if operator == "IN":
        if isinstance(value, dict):
            form = members_of(value, "the value of IN", ("subquery",), ("subquery",))
            return Subquery(query=nested_recall(form["subquery"]))
        return tuple(a_value(each, "a value of IN") for each in a_list(value, "the value of IN"))
    if operator == "BETWEEN":
        ends = a_list(value, "the value of BETWEEN")
        if len(ends) != 2:
            refuse("BETWEEN has two ends")
        return tuple(a_value(each, "an end of BETWEEN") for each in ends)
    if operator == "IS":
        return a_word(value, "the category").upper()
    if field == "hash" and isinstance(value, str):
        return a_hash(value, "hash")
    return a_value(value, f"the value of {field}")


def options_of(form: Mapping[str, Any]) -> tuple[Option, ...]:
    """`with`: the options."""
    return tuple(_option(each) for each in a_list(form.get("with", []), "with"))


def _option(value: object) -> Option:
    if isinstance(value, str):
        return Option(name=_folded(a_word(value, "an option")))
    form = an_object(value, "an option")
    name = _folded(a_word(form.get("option"), "the name of an option"))
    if name.startswith(words.EXTENSION_PREFIX):
        members_of(form, name, ("option", "args"), ("args",))
        arguments = tuple(a_value(each, name) for each in a_list(form["args"], "args"))
        return Option(name=name, arguments=arguments)
    word_name = OPTION_WORD.get(name)
    word = None if word_name is None else a_word(form.get(word_name), word_name).lower()
    if name == "diversity":
        value_name: str | None = "lambda" if word == "mmr" else "value"
    else:
        value_name = OPTION_VALUE.get(name) if name != "consistency" or word == "bounded" else None
    allowed = tuple(each for each in ("option", word_name, value_name) if each is not None)
    members_of(form, name, allowed)
    given = a_value(form[value_name], value_name) if value_name is not None and value_name in form else None
    _check_option(name, word, given)
    return Option(name=name, word=word, value=given)


def _check_option(name: str, word: str | None, value: Value | None) -> None:
    """What canonical text could not show: an unknown method, a value of another kind, or one that is missing."""
    if name == "diversity" and word not in ("mmr", "threshold"):
        refuse("the method of diversity is mmr or threshold")
    needed = name in ("locale", "cache") or word in ("threshold", "bounded")
    if name == "locale":
        fits = isinstance(value, str)
    else:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    if (value is None and needed) or (value is not None and not fits):
        refuse(f"{name} does not take that")


def _folded(name: str) -> str:
    return name if name.startswith(words.EXTENSION_PREFIX) else name.lower()


def _stage(value: object) -> Stage:
    form = an_object(value, "a stage")
    name = a_text(form.get("stage"), "stage")
    reader = _STAGES.get(name)
    if reader is None:
        refuse(f"{lexer.shown(name)} is not a stage")
    return reader(form)


def _reduce(form: object) -> Stage:
    return Reduce(to=members_of(form, "the stage", ("stage",))["stage"])


def _select(form: object) -> Stage:
    given = members_of(form, "select", ("stage", "fields"), ("fields",))
    return Select(fields=tuple(name.lower() for name in some_words(given["fields"], "fields")))


def _order_by(form: object) -> Stage:
    given = members_of(form, "order_by", ("stage", "field", "dir"), ("field",))
    direction = given.get("dir", "asc")
    if direction not in ("asc", "desc"):
        refuse("dir is asc or desc")
    return OrderBy(field=a_word(given["field"], "field").lower(), descending=direction == "desc")


def _limit(form: object) -> Stage:
    return Limit(count=a_count(members_of(form, "limit", ("stage", "n"), ("n",))["n"], "n"))


def _offset(form: object) -> Stage:
    return Offset(count=a_count(members_of(form, "offset", ("stage", "n"), ("n",))["n"], "n"))


def _group_by(form: object) -> Stage:
    given = members_of(form, "group_by", ("stage", "field"), ("field",))
    return GroupBy(field=a_word(given["field"], "field").lower())


def _project(form: object) -> Stage:
    given = members_of(form, "project", ("stage", "content", "attr"))
    if len(given) == 1:
        refuse("project needs content or attr")
    names = {
        name: tuple(_folded(each) for each in some_words(given[name], name))
        for name in ("content", "attr")
        if name in given
    }
    return Project(content=names.get("content"), attributes=names.get("attr"))


_STAGES: Final[Mapping[str, Callable[[object], Stage]]] = {
    "select": _select,
    "order_by": _order_by,
    "limit": _limit,
    "offset": _offset,
    "group_by": _group_by,
    "project": _project,
    **dict.fromkeys(_REDUCERS, _reduce),
}
