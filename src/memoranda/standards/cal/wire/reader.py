"""Reader of the JSON form of a query, from untrusted JSON.

The JSON is checked for its shape and made into a query. That query is written as canonical text and parsed, so that
the parser applies all other rules. It is accepted only if the parsed query equals the one built: a string in the JSON
can become nothing but that string.

The JSON form is turned into the same values as the text, and passes the same rules, so both forms accept and refuse the
same queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from memoranda.errors import QueryError
from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.language import parser, words
from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.syntax import (
    Add,
    Assemble,
    AssembleSource,
    Assignment,
    BatchEntry,
    BatchQuery,
    Budget,
    Coalesce,
    DefineTemplate,
    Describe,
    Exists,
    Explain,
    History,
    Let,
    Param,
    ParsedQuery,
    Recall,
    Revert,
    Sections,
    SetOp,
    Statement,
    StreamOptions,
    Supersede,
    TemplateFormat,
)
from memoranda.standards.cal.wire.recall import (
    read_namespace,
    read_nested_recall,
    read_options,
    read_recall,
)
from memoranda.standards.cal.wire.shapes import (
    is_deeper_than,
    read_count,
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
from memoranda.standards.cal.wire.writer import CAL_VERSION

# Levels of nesting. No valid query has more; the limit prevents a stack overflow by hostile input.
MAX_DEPTH: Final = 48


def from_json(value: object, *, strict: bool = False) -> ParsedQuery:
    """Read a query from its JSON form. Raise QueryError, and nothing else.

    Positions in errors are those in the canonical text.
    """
    if is_deeper_than(value, MAX_DEPTH):
        refuse(f"the JSON is nested deeper than {MAX_DEPTH} levels")
    form = require_object(value, "the query")
    if form.get("cal_version", CAL_VERSION) is not CAL_VERSION:
        raise QueryError(
            "This is not version 1 of CAL.",
            cal_code="CAL-E100",
            suggestion='Write "cal_version": 1.',
        )
    lets = tuple(_read_let(member) for member in require_list(form.get("let", []), "let"))
    members = {name: member for name, member in form.items() if name not in ("cal_version", "let")}
    query = ParsedQuery(statement=_read_statement(members), lets=lets)
    text = canonical(query)
    # The limit of bytes applies to queries as people write them; canonical text is longer.
    statement = parser.parse_text(
        text, strict=strict, max_bytes=limits.QUERY_BYTES * limits.CANONICAL_GROWTH
    )
    if statement != query:
        refuse("a name is not a single word")
    return statement


def _read_let(value: object) -> Let:
    """Read `{"name": …, "query": {…}}`."""
    form = require_members(value, "a LET", ("name", "query"), ("name", "query"))
    return Let(
        name=require_word(form["name"], "the name of a LET"),
        query=read_nested_recall(form["query"]),
    )


def _read_statement(value: object) -> Statement:
    """Read a statement by the reader for its name."""
    form = require_object(value, "a statement")
    name = form.get("statement")
    reader = _STATEMENT_READERS.get(name) if isinstance(name, str) else None
    if reader is None:
        refuse(f"statement must be one of {', '.join(_STATEMENT_READERS)}")
    return reader(
        {member: member_value for member, member_value in form.items() if member != "statement"}
    )


def _read_assemble(value: object) -> Assemble:
    """Read an ASSEMBLE."""
    form = require_members(
        value,
        "assemble",
        tuple("name for from budget priority format stream with".split()),
        ("from",),
    )
    sources = tuple(_read_source(source) for source in require_list(form["from"], "from"))
    if not sources:
        refuse("from is empty")
    return Assemble(
        sources=sources,
        name=read_optional(form, "name", require_word),
        intent=read_optional(form, "for", require_text),
        budget=read_optional(form, "budget", _read_budget),
        priority=read_optional(form, "priority", require_words) or (),
        format=read_optional(form, "format", _read_format),
        stream=read_optional(form, "stream", _read_stream),
        options=read_options(form),
    )


def _read_source(value: object) -> AssembleSource:
    """Read `{"label": …, "query": {…}}`, or with `"ref"`, the name of a LET, for the query."""
    form = require_members(value, "a source", ("label", "query", "ref"))
    if ("query" in form) == ("ref" in form):
        refuse("a source needs either query or ref")
    query = (
        read_nested_recall(form["query"])
        if "query" in form
        else Param(name=require_word(form["ref"], "ref"))
    )
    return AssembleSource(label=read_optional(form, "label", require_word), query=query)


def _read_budget(value: object, label: str) -> Budget:
    """Read `{"amount": n, "unit": "tokens" | "grains"}`."""
    form = require_members(value, label, ("amount", "unit"), ("amount", "unit"))
    unit = form["unit"]
    if unit not in words.BUDGET_UNITS:
        refuse("the unit of a budget must be tokens or grains")
    return Budget(amount=_read_positive_integer(form["amount"], "amount"), unit=unit)


def _read_positive_integer(value: object, label: str) -> int:
    """Return a whole number above 0."""
    count = read_count(value, label)
    if not isinstance(count, int) or count < 1:
        raise QueryError(
            f"{label} is not a whole number above 0.", cal_code="CAL-E006", suggestion="Write 100."
        )
    return count


def _read_format(value: object, label: str) -> str | TemplateFormat:
    """Read the name of a format, or `{"template": …}` with a name or sections."""
    if not isinstance(value, dict):
        return require_word(value, label).lower()
    template = require_members(value, label, ("template",), ("template",))["template"]
    if isinstance(template, dict):
        return TemplateFormat(sections=_read_sections(template))
    return TemplateFormat(name=require_word(template, "template"))


def _read_sections(value: object) -> Sections:
    """Read the sections of a template."""
    form = require_members(value, "a template", Sections.__struct_fields__)
    if not form:
        refuse("a template needs at least one section")
    # Checked only, not normalised to NFC: template text is no string literal.
    for name, text in form.items():
        require_text(text, name)
    return Sections(**cast("dict[str, str]", form))


def _read_stream(value: object, label: str) -> StreamOptions:
    """Read `{"options": […], "chunk_size": n}`."""
    form = require_members(value, label, ("options", "chunk_size"))
    options = require_words(form["options"], "options") if "options" in form else ("all",)
    size = (
        _read_positive_integer(form["chunk_size"], "chunk_size") if "chunk_size" in form else None
    )
    return StreamOptions(options=tuple(dict.fromkeys(options)), chunk_size=size)


def _read_set(value: object) -> SetOp:
    """Read `{"op": …, "operands": [a, b]}`."""
    form = require_members(value, "set", ("op", "operands"), ("op", "operands"))
    operands = require_list(form["operands"], "operands")
    if form["op"] not in ("union", "intersect", "except") or len(operands) != 2:
        refuse("set takes union, intersect or except, and two operands")
    left_operand, right_operand = (_read_statement(operand) for operand in operands)
    if not isinstance(left_operand, Recall | Coalesce | SetOp) or not isinstance(
        right_operand, Recall | Coalesce | SetOp
    ):
        refuse("an operand must be a recall, a coalesce or a set")
    return SetOp(operator=form["op"], left_operand=left_operand, right_operand=right_operand)


def _read_exists(value: object) -> Exists:
    """Read `{"hash": …}`."""
    return Exists(
        hash=read_hash_or_param(
            require_members(value, "exists", ("hash",), ("hash",))["hash"], "hash"
        )
    )


def _read_history(value: object) -> History:
    """Read the history of a hash, or of a subject and relation."""
    form = require_object(value, "history")
    if "hash" in form:
        require_members(form, "the history of a hash", ("hash", "diff"))
        return History(
            hash=read_hash_or_param(form["hash"], "hash"),
            diff=read_optional(form, "diff", read_hash_or_param),
        )
    members = ("in", "subject", "relation", "as_of")
    require_members(form, "the history of a subject", members, ("subject", "relation"))
    return History(
        namespace=read_optional(form, "in", read_namespace),
        subject=read_text_or_param(form["subject"], "subject"),
        relation=read_text_or_param(form["relation"], "relation"),
        as_of=read_optional(form, "as_of", read_text_or_param),
    )


def _read_explain(value: object) -> Explain:
    """Read `{"query": {…}}`."""
    query = _read_statement(require_members(value, "explain", ("query",), ("query",))["query"])
    if isinstance(query, Explain):
        refuse("explain cannot contain another explain")
    return Explain(query=query)


def _read_describe(value: object) -> Describe:
    """Read `{"target": …, "grain_type": …}`."""
    form = require_members(value, "describe", ("target", "grain_type"), ("target",))
    grain_type = read_optional(form, "grain_type", require_word)
    target = require_word(form["target"], "target").lower()
    return Describe(target=target, grain_type=None if grain_type is None else grain_type.lower())


def _read_batch(value: object) -> BatchQuery:
    """Read `{"entries": […]}`."""
    entries = require_list(
        require_members(value, "batch", ("entries",), ("entries",))["entries"], "entries"
    )
    if not entries:
        refuse("entries is empty")
    return BatchQuery(entries=tuple(_read_entry(entry) for entry in entries))


def _read_entry(value: object) -> BatchEntry:
    """Read `{"label": …, "query": {…}}`."""
    form = require_members(value, "an entry", ("label", "query"), ("label", "query"))
    query = _read_statement(form["query"])
    if not isinstance(query, Recall | Exists | History | Describe | Coalesce):
        refuse("an entry must be a recall, exists, history, describe or coalesce")
    return BatchEntry(label=require_word(form["label"], "label"), query=query)


def _read_coalesce(value: object) -> Coalesce:
    """Read `{"branches": […]}`."""
    branches = require_list(
        require_members(value, "coalesce", ("branches",), ("branches",))["branches"], "branches"
    )
    if len(branches) < 2:
        refuse("coalesce needs at least two branches")
    return Coalesce(branches=tuple(read_nested_recall(branch) for branch in branches))


def _read_assignments(value: object) -> tuple[Assignment, ...]:
    """Return the assignments of `set`, known fields first and in canonical order."""
    form = require_object(value, "set")
    values = {
        require_word(name, "a field of set").lower(): read_value(member, str(name))
        for name, member in form.items()
    }
    settable = [name for name in fields.SETTABLE if name in values]
    # Unknown fields are kept, so that the parser reports them.
    unknown = [name for name in values if name not in fields.SETTABLE]
    return tuple(Assignment(field=name, value=values[name]) for name in (*settable, *unknown))


def _read_reason(form: Mapping[str, object]) -> str:
    """Return the reason of a change. Raise QueryError if it is missing."""
    if "reason" not in form:
        raise QueryError(
            "A change needs a REASON.", cal_code="CAL-E018", suggestion='Add "reason": "why".'
        )
    return require_text(form["reason"], "reason")


def _read_add(value: object) -> Add:
    """Read `{"grain_type": …, "set": {…}, "reason": …}`."""
    form = require_members(value, "add", ("grain_type", "set", "reason"), ("grain_type",))
    grain_type = require_word(form["grain_type"], "grain_type").lower()
    assignments = _read_assignments(form.get("set", {}))
    return Add(grain_type=grain_type, assignments=assignments, reason=_read_reason(form))


def _read_supersede(value: object) -> Supersede:
    """Read `{"hash": …, "set": {…}, "reason": …}`."""
    form = require_members(value, "supersede", ("hash", "set", "reason"), ("hash",))
    target = read_hash_or_param(form["hash"], "hash")
    return Supersede(
        hash=target, assignments=_read_assignments(form.get("set", {})), reason=_read_reason(form)
    )


def _read_revert(value: object) -> Revert:
    """Read `{"hash": …, "reason": …}`."""
    form = require_members(value, "revert", ("hash", "reason"), ("hash",))
    return Revert(hash=read_hash_or_param(form["hash"], "hash"), reason=_read_reason(form))


def _read_define_template(value: object) -> DefineTemplate:
    """Read `{"name": …, "extends": …, "sections": {…}}`."""
    form = require_members(
        value, "define_template", ("name", "extends", "sections"), ("name", "sections")
    )
    extends = read_optional(form, "extends", require_word)
    return DefineTemplate(
        name=require_word(form["name"], "name"),
        extends=None if extends is None else extends.lower(),
        sections=_read_sections(form["sections"]),
    )


_STATEMENT_READERS: Final[Mapping[str, Callable[[object], Statement]]] = {
    "recall": read_recall,
    "assemble": _read_assemble,
    "set": _read_set,
    "exists": _read_exists,
    "history": _read_history,
    "explain": _read_explain,
    "describe": _read_describe,
    "batch": _read_batch,
    "coalesce": _read_coalesce,
    "add": _read_add,
    "supersede": _read_supersede,
    "revert": _read_revert,
    "define_template": _read_define_template,
}
