"""The JSON form of a query, read from untrusted JSON.

Its shape is checked here and made into a query; that is then written as canonical text and read by the parser, which
is the judge of everything else. Only if the parser reads the very same query is it one: whatever a string may hold, it
cannot become anything but that string.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from memoranda.errors import QueryError
from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.language import parser, words
from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.syntax import (
    Add,
    Assemble,
    Assignment,
    Batch,
    Budget,
    Coalesce,
    DefineTemplate,
    Describe,
    Entry,
    Exists,
    Explain,
    History,
    Let,
    Param,
    Query,
    Recall,
    Revert,
    Sections,
    SetOp,
    Source,
    Statement,
    Stream,
    Supersede,
    Template,
)
from memoranda.standards.cal.wire.recall import namespace_of, nested_recall, options_of, recall_of
from memoranda.standards.cal.wire.shapes import (
    a_count,
    a_list,
    a_text,
    a_value,
    a_word,
    an_object,
    depth_over,
    hash_or_param,
    members_of,
    optional,
    refuse,
    some_words,
    text_or_param,
)
from memoranda.standards.cal.wire.writer import CAL_VERSION

# Nothing the grammar allows is nested deeper; this keeps hostile input off the stack.
MAX_DEPTH: Final = 48


def from_json(value: object, *, strict: bool = False) -> Query:
    """Read a query from its JSON form. Raises QueryError, and nothing else; places are those of the canonical text."""
    if depth_over(value, MAX_DEPTH):
        refuse(f"the JSON is nested deeper than {MAX_DEPTH} levels")
    form = an_object(value, "the query")
    if form.get("cal_version", CAL_VERSION) is not CAL_VERSION:
        raise QueryError("This is not version 1 of CAL.", cal_code="CAL-E100", suggestion='Write "cal_version": 1.')
    lets = tuple(_let(each) for each in a_list(form.get("let", []), "let"))
    members = {name: each for name, each in form.items() if name not in ("cal_version", "let")}
    built = Query(statement=_statement(members), lets=lets)
    text = canonical(built)
    # The limit is on what people write; canonical text is longer.
    read = parser.parse_text(text, strict=strict, max_bytes=limits.QUERY_BYTES * limits.CANONICAL_GROWTH)
    if read != built:
        refuse("a name in it is not one word")
    return read


def _let(value: object) -> Let:
    form = members_of(value, "a LET", ("name", "query"), ("name", "query"))
    return Let(name=a_word(form["name"], "the name of a LET"), query=nested_recall(form["query"]))


def _statement(value: object) -> Statement:
    form = an_object(value, "a statement")
    name = form.get("statement")
    reader = _STATEMENTS.get(name) if isinstance(name, str) else None
    if reader is None:
        refuse(f"statement is one of {', '.join(_STATEMENTS)}")
    return reader({member: each for member, each in form.items() if member != "statement"})


def _assemble(value: object) -> Assemble:
    form = members_of(value, "assemble", tuple("name for from budget priority format stream with".split()), ("from",))
    sources = tuple(_source(each) for each in a_list(form["from"], "from"))
    if not sources:
        refuse("from is empty")
    return Assemble(
        sources=sources,
        name=optional(form, "name", a_word),
        intent=optional(form, "for", a_text),
        budget=optional(form, "budget", _budget),
        priority=optional(form, "priority", some_words) or (),
        format=optional(form, "format", _format),
        stream=optional(form, "stream", _stream),
        options=options_of(form),
    )


def _source(value: object) -> Source:
    form = members_of(value, "a source", ("label", "query", "ref"))
    if ("query" in form) == ("ref" in form):
        refuse("a source has a query or a ref")
    query = nested_recall(form["query"]) if "query" in form else Param(name=a_word(form["ref"], "ref"))
    return Source(label=optional(form, "label", a_word), query=query)


def _budget(value: object, what: str) -> Budget:
    form = members_of(value, what, ("amount", "unit"), ("amount", "unit"))
    unit = form["unit"]
    if unit not in words.BUDGET_UNITS:
        refuse("the unit of a budget is tokens or grains")
    return Budget(amount=_plain_count(form["amount"], "amount"), unit=unit)


def _plain_count(value: object, what: str) -> int:
    found = a_count(value, what)
    if not isinstance(found, int) or found < 1:
        raise QueryError(f"{what} is not a whole number above 0.", cal_code="CAL-E006", suggestion="Write 100.")
    return found


def _format(value: object, what: str) -> str | Template:
    if not isinstance(value, dict):
        return a_word(value, what).lower()
    template = members_of(value, what, ("template",), ("template",))["template"]
    if isinstance(template, dict):
        return Template(sections=_sections(template))
    return Template(name=a_word(template, "template"))


def _sections(value: object) -> Sections:
    form = members_of(value, "a template", Sections.__struct_fields__)
    if not form:
        refuse("a template has at least one section")
    # Not normalised: template text is not a string literal.
    for name, text in form.items():
        a_text(text, name)
    return Sections(**form)


def _stream(value: object, what: str) -> Stream:
    form = members_of(value, what, ("options", "chunk_size"))
    options = some_words(form["options"], "options") if "options" in form else ("all",)
    size = _plain_count(form["chunk_size"], "chunk_size") if "chunk_size" in form else None
    return Stream(options=tuple(dict.fromkeys(options)), chunk_size=size)


def _set(value: object) -> SetOp:
    form = members_of(value, "set", ("op", "operands"), ("op", "operands"))
    operands = a_list(form["operands"], "operands")
    if form["op"] not in ("union", "intersect", "except") or len(operands) != 2:
        refuse("set takes union, intersect or except, and two operands")
    left, right = (_statement(each) for each in operands)
    if not isinstance(left, Recall | Coalesce | SetOp) or not isinstance(right, Recall | Coalesce | SetOp):
        refuse("an operand is a recall, a coalesce or a set")
    return SetOp(operator=form["op"], left=left, right=right)


def _exists(value: object) -> Exists:
    return Exists(hash=hash_or_param(members_of(value, "exists", ("hash",), ("hash",))["hash"], "hash"))


def _history(value: object) -> History:
    form = an_object(value, "history")
    if "hash" in form:
        members_of(form, "the history of a hash", ("hash", "diff"))
        return History(hash=hash_or_param(form["hash"], "hash"), diff=optional(form, "diff", hash_or_param))
    members = ("in", "subject", "relation", "as_of")
    members_of(form, "the history of a subject", members, ("subject", "relation"))
    return History(
        namespace=optional(form, "in", namespace_of),
        subject=text_or_param(form["subject"], "subject"),
        relation=text_or_param(form["relation"], "relation"),
        as_of=optional(form, "as_of", text_or_param),
    )


def _explain(value: object) -> Explain:
    query = _statement(members_of(value, "explain", ("query",), ("query",))["query"])
    if isinstance(query, Explain):
        refuse("explain does not explain itself")
    return Explain(query=query)


def _describe(value: object) -> Describe:
    form = members_of(value, "describe", ("target", "grain_type"), ("target",))
    grain_type = optional(form, "grain_type", a_word)
    target = a_word(form["target"], "target").lower()
    return Describe(target=target, grain_type=None if grain_type is None else grain_type.lower())


def _batch(value: object) -> Batch:
    entries = a_list(members_of(value, "batch", ("entries",), ("entries",))["entries"], "entries")
    if not entries:
        refuse("entries is empty")
    return Batch(entries=tuple(_entry(each) for each in entries))


def _entry(value: object) -> Entry:
    form = members_of(value, "an entry", ("label", "query"), ("label", "query"))
    query = _statement(form["query"])
    if not isinstance(query, Recall | Exists | History | Describe | Coalesce):
        refuse("an entry is a recall, exists, history, describe or coalesce")
    return Entry(label=a_word(form["label"], "label"), query=query)


def _coalesce(value: object) -> Coalesce:
    branches = a_list(members_of(value, "coalesce", ("branches",), ("branches",))["branches"], "branches")
    if len(branches) < 2:
        refuse("coalesce has at least two branches")
    return Coalesce(branches=tuple(nested_recall(each) for each in branches))


def _assignments(value: object) -> tuple[Assignment, ...]:
    form = an_object(value, "set")
    given = {a_word(name, "a field of set").lower(): a_value(each, str(name)) for name, each in form.items()}
    ordered = [*(name for name in fields.SETTABLE if name in given), *(n for n in given if n not in fields.SETTABLE)]
    return tuple(Assignment(field=name, value=given[name]) for name in ordered)


def _reason(form: Mapping[str, Any]) -> str:
    if "reason" not in form:
        raise QueryError("A change needs a REASON.", cal_code="CAL-E018", suggestion='Add "reason": "why".')
    return a_text(form["reason"], "reason")


def _add(value: object) -> Add:
    form = members_of(value, "add", ("grain_type", "set", "reason"), ("grain_type",))
    grain_type = a_word(form["grain_type"], "grain_type").lower()
    assignments = _assignments(form.get("set", {}))
    return Add(grain_type=grain_type, assignments=assignments, reason=_reason(form))


def _supersede(value: object) -> Supersede:
    form = members_of(value, "supersede", ("hash", "set", "reason"), ("hash",))
    target = hash_or_param(form["hash"], "hash")
    return Supersede(hash=target, assignments=_assignments(form.get("set", {})), reason=_reason(form))


def _revert(value: object) -> Revert:
    form = members_of(value, "revert", ("hash", "reason"), ("hash",))
    return Revert(hash=hash_or_param(form["hash"], "hash"), reason=_reason(form))


def _define(value: object) -> DefineTemplate:
    form = members_of(value, "define_template", ("name", "extends", "sections"), ("name", "sections"))
    extends = optional(form, "extends", a_word)
    return DefineTemplate(
        name=a_word(form["name"], "name"),
        extends=None if extends is None else extends.lower(),
        sections=_sections(form["sections"]),
    )


_STATEMENTS: Final[Mapping[str, Callable[[object], Statement]]] = {
    "recall": recall_of,
    "assemble": _assemble,
    "set": _set,
    "exists": _exists,
    "history": _history,
    "explain": _explain,
    "describe": _describe,
    "batch": _batch,
    "coalesce": _coalesce,
    "add": _add,
    "supersede": _supersede,
    "revert": _revert,
    "define_template": _define,
}
