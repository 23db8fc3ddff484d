"""Parameters: values put where `$name` stands, each checked as if it had been written there (sections 3.4, 20.1).

Values never become text that is read again, so no value can change what a query does.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from memoranda.standards.cal import fields
from memoranda.standards.cal.fields import Field, Kind
from memoranda.standards.cal.language import lexer, rules, words
from memoranda.standards.cal.language.cursor import error_at
from memoranda.standards.cal.language.lexer import Span
from memoranda.standards.cal.language.rules import Problem
from memoranda.standards.cal.language.syntax import (
    Add,
    Assemble,
    Assignment,
    Batch,
    Between,
    Coalesce,
    Condition,
    Count,
    Entry,
    Exists,
    Explain,
    Hash,
    HashOrParam,
    History,
    Limit,
    Offset,
    Option,
    Param,
    Query,
    Recall,
    Reduce,
    Revert,
    SetOp,
    Stage,
    Statement,
    Subquery,
    Supersede,
    Text,
    Thread,
    Value,
)

_S = TypeVar("_S", bound=Statement)


def bind(query: Query, params: Mapping[str, object], *, text: str = "", current_user: str | None = None) -> Query:
    """The query with every parameter replaced by its value; `written` keeps it as it was.

    `$current_user_id` is the executor's to give, as `current_user`; without one it stays. `text`, the query as it
    was sent, is only for the place of errors.
    """
    binder = _Binder(query, params, text)
    if current_user is not None:
        binder.values[words.CURRENT_USER] = current_user
    lets = tuple(replace(each, query=binder.recall(each.query)) for each in query.lets)
    return Query(statement=binder.statement(query.statement), lets=lets, written=query.written or query)


class _Binder:
    def __init__(self, query: Query, params: Mapping[str, object], text: str) -> None:
        self.text = text
        self.lets = {each.name for each in query.lets}
        for name in params:
            if name in self.lets or name == words.CURRENT_USER:
                message = f"${name} is bound already{' by a LET' if name in self.lets else ''}."
                raise self.error(name, Problem("CAL-E009", message, "Leave it out, or give it another name."))
        self.given = params
        self.values: dict[str, Value] = {}

    def error(self, name: str, problem: Problem) -> Exception:
        tokens = lexer.split(self.text)
        place = lexer.spans(self.text)[tokens.index(f"${name}")] if f"${name}" in tokens else Span(0, 0)
        return error_at(self.text, place, problem)

    def check(self, param: Param, problem: Problem | None) -> None:
        if problem is not None:
            raise self.error(param.name, problem._replace(message=f"${param.name}: {problem.message}"))

    def stays(self, param: Param) -> bool:
        """Whether it is not the caller's to bind."""
        return param.name in self.lets or (param.name == words.CURRENT_USER and param.name not in self.values)

    def value(self, param: Param) -> Value:
        """The value given for a parameter."""
        name = param.name
        if name not in self.values:
            if name not in self.given:
                hint = f"Give it beside the query: {{{name!r}: …}}."
                raise self.error(name, Problem("CAL-E008", f"${name} has no value.", hint))
            self.values[name] = self.plain(name, self.given[name], 0)
        return self.values[name]

    def plain(self, name: str, given: object, depth: int) -> Value:
        """A value of Python as one of the language."""
        if isinstance(given, Hash | bool):
            return given
        if isinstance(given, str):
            if flaw := lexer.flaw_in(given, max_bytes=1 << 30):
                raise self.error(name, Problem(flaw.code, f"${name}: {flaw.message}", flaw.suggestion))
            return unicodedata.normalize("NFC", given)
        if isinstance(given, int | float):
            number = lexer.plain_number(given)
            if number is not None:
                return number
        if isinstance(given, list | tuple) and depth < 2:
            return tuple(self.plain(name, each, depth + 1) for each in given)
        message = f"${name} is neither text, number, boolean nor a list of these."
        raise self.error(name, Problem("CAL-E020", message, "Give one of these."))

    # --- by what may stand there -------------------------------------------------------------------------

    def any(self, value: Value) -> Value:
        """Anything goes."""
        if isinstance(value, tuple):
            return tuple(self.any(each) for each in value)
        return value if not isinstance(value, Param) or self.stays(value) else self.value(value)

    def text_value(self, text: Text | None, *, time: bool = False) -> Text | None:
        if not isinstance(text, Param) or self.stays(text):
            return text
        value = self.value(text)
        if not isinstance(value, str):
            self.check(text, Problem("CAL-E020", "not a string.", "Give text."))
        elif time:
            self.check(text, rules.time_problem(value))
        assert isinstance(value, str)
        return value

    def hash_value(self, given: HashOrParam | None) -> HashOrParam | None:
        return given if not isinstance(given, Param) or self.stays(given) else self.as_hash(given)

    def as_hash(self, param: Param) -> Hash:
        value = self.value(param)
        if isinstance(value, str) and lexer.HASH.fullmatch(value.lower()):
            return Hash(text=value.lower())
        if not isinstance(value, Hash):
            code = "CAL-E015" if isinstance(value, str) else "CAL-E020"
            self.check(param, Problem(code, "not a hash.", "Give sha256: and 8 to 64 hexadecimal digits."))
        assert isinstance(value, Hash)
        return value

    def count(self, count: Count | None, word: str) -> Count | None:
        if not isinstance(count, Param) or self.stays(count):
            return count
        value = self.value(count)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.check(count, Problem("CAL-E020", "not a number.", "Give a whole number."))
        elif isinstance(value, float) or value < (word != "OFFSET"):
            self.check(count, Problem("CAL-E006", f"{value} is not a whole number above 0.", "Give a whole number."))
        assert isinstance(value, int)
        if word != "OFFSET":
            self.check(count, rules.count_problem(value, word))
        return value

    # --- by statement ------------------------------------------------------------------------------------

    def condition(self, condition: Condition, grain_type: str | None) -> Condition:
        value = condition.value
        if isinstance(value, Subquery):
            return replace(condition, value=Subquery(query=self.recall(value.query)))
        field = fields.fields_of(grain_type).get(condition.field, fields.DOMAIN)
        if condition.operator == "IN":
            assert isinstance(value, tuple)
            return replace(condition, value=self.members(field, value))
        if condition.operator == "BETWEEN":
            assert isinstance(value, tuple)
            return replace(condition, value=tuple(self.fitting(field, "BETWEEN", each) for each in value))
        return replace(condition, value=self.fitting(field, condition.operator, value))

    def members(self, field: Field, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """The values of IN; an array given for one parameter is spliced in."""
        bound: list[Value] = []
        for each in values:
            if not isinstance(each, Param) or self.stays(each):
                bound.append(each)
                continue
            given = self.value(each)
            spliced = given if isinstance(given, tuple) else (given,)
            self.check(each, rules.value_problem(field, "IN", spliced))
            bound.extend(spliced)
        return tuple(bound)

    def fitting(self, field: Field, operator: str, value: Value) -> Value:
        """A value that fits the field under the operator."""
        if isinstance(value, tuple):
            bound = self.any(value)
            blamed = next((each for each in value if isinstance(each, Param)), None)
            if blamed is not None:
                self.check(blamed, rules.value_problem(field, operator, bound))
            return bound
        if not isinstance(value, Param) or self.stays(value):
            return value
        if field.kind is Kind.HASH:
            return self.as_hash(value)
        given = self.value(value)
        operand = (given,) if operator == "BETWEEN" else given
        self.check(value, rules.value_problem(field, operator, operand))
        return given

    def recall(self, recall: Recall) -> Recall:
        bound = replace(
            recall,
            about=self.text_value(recall.about),
            like=self.text_value(recall.like),
            since=self.text_value(recall.since, time=True),
            between=self.between(recall.between),
            thread=self.thread(recall.thread),
            where=tuple(self.condition(each, recall.grain_type) for each in recall.where),
            options=self.options(recall.options),
            stages=tuple(self.stage(each) for each in recall.stages),
            recent=self.count(recall.recent, "RECENT"),
        )
        extracts = any(isinstance(stage, Reduce) and stage.to in ("subjects", "objects") for stage in recall.stages)
        asked = rules.type_asked(recall)
        if extracts and isinstance(asked, Param):
            self.check(asked, rules.extractor_problem(bound.grain_type, rules.type_asked(bound)))
        return bound

    def between(self, between: Between | None) -> Between | None:
        if between is None:
            return None
        time = fields.COMMON["time"]
        return Between(low=self.fitting(time, "BETWEEN", between.low), high=self.fitting(time, "BETWEEN", between.high))

    def thread(self, thread: Thread | None) -> Thread | None:
        if thread is None:
            return None
        return Thread(session=self.text_value(thread.session), message=self.hash_value(thread.message))

    def options(self, options: tuple[Option, ...]) -> tuple[Option, ...]:
        return tuple(replace(each, arguments=tuple(map(self.any, each.arguments))) for each in options)

    def stage(self, stage: Stage) -> Stage:
        if isinstance(stage, Limit):
            count = self.count(stage.count, "LIMIT")
            assert count is not None
            return Limit(count=count)
        if isinstance(stage, Offset):
            count = self.count(stage.count, "OFFSET")
            assert count is not None
            return Offset(count=count)
        return stage

    def assignments(self, assignments: tuple[Assignment, ...], required: tuple[str, ...]) -> tuple[Assignment, ...]:
        bound: list[Assignment] = []
        for each in assignments:
            value = self.any(each.value)
            params = each.value if isinstance(each.value, tuple) else (each.value,)
            blamed = next((param for param in params if isinstance(param, Param)), None)
            if blamed is not None:
                self.check(blamed, rules.assignment_problem(fields.SETTABLE[each.field], value))
                if value == "" and each.field in required:
                    self.check(blamed, Problem("CAL-E050", f"ADD needs {each.field}.", "Give text."))
            bound.append(Assignment(field=each.field, value=value))
        return tuple(bound)

    def statement(self, statement: _S) -> _S:
        """The same statement with its parameters bound."""
        bound: Any = statement
        if isinstance(statement, Recall):
            bound = self.recall(statement)
        elif isinstance(statement, Explain):
            bound = Explain(query=self.statement(statement.query))
        elif isinstance(statement, SetOp):
            bound = replace(statement, left=self.statement(statement.left), right=self.statement(statement.right))
        elif isinstance(statement, Coalesce):
            bound = Coalesce(branches=tuple(map(self.recall, statement.branches)))
        elif isinstance(statement, Batch):
            entries = (Entry(label=each.label, query=self.statement(each.query)) for each in statement.entries)
            bound = Batch(entries=tuple(entries))
        elif isinstance(statement, Assemble):
            bound = self.assemble(statement)
        elif isinstance(statement, Exists | History | Revert | Supersede | Add):
            bound = self.small(statement)
        return bound  # type: ignore[no-any-return]

    def assemble(self, statement: Assemble) -> Assemble:
        sources = tuple(
            each if isinstance(each.query, Param) else replace(each, query=self.recall(each.query))
            for each in statement.sources
        )
        return replace(statement, sources=sources, options=self.options(statement.options))

    def small(self, statement: Exists | History | Revert | Supersede | Add) -> Statement:
        if isinstance(statement, Add):
            return replace(statement, assignments=self.assignments(statement.assignments, fields.ADD_REQUIRED))
        if isinstance(statement, History):
            return replace(
                statement,
                hash=self.hash_value(statement.hash),
                diff=self.hash_value(statement.diff),
                subject=self.text_value(statement.subject),
                relation=self.text_value(statement.relation),
                as_of=self.text_value(statement.as_of, time=True),
            )
        bound = self.hash_value(statement.hash)
        assert bound is not None
        if isinstance(statement, Supersede):
            return replace(statement, hash=bound, assignments=self.assignments(statement.assignments, ()))
        return replace(statement, hash=bound)
