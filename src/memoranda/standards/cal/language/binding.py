"""Binding of parameters: `$name` is replaced by its value, which is checked as a literal would be (sections 3.4, 20.1).

Values are put into the parsed query and never become query text, so no value can change what a query does.

A list as a value is allowed only where the grammar has a list. Numbers keep their type, and texts of the form
`sha256:…` become hashes where a hash is expected.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from memoranda.standards.cal import fields
from memoranda.standards.cal.fields import Field, FieldKind
from memoranda.standards.cal.language import lexer, rules, words
from memoranda.standards.cal.language.cursor import error_at
from memoranda.standards.cal.language.lexer import Span
from memoranda.standards.cal.language.rules import RuleViolation
from memoranda.standards.cal.language.syntax import (
    Add,
    Assemble,
    Assignment,
    BatchEntry,
    BatchQuery,
    Between,
    Coalesce,
    Count,
    Exists,
    Explain,
    Hash,
    HashOrParam,
    History,
    Limit,
    Offset,
    Option,
    Param,
    ParsedQuery,
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
    WhereCondition,
)

_StatementT = TypeVar("_StatementT", bound=Statement)


def bind(
    query: ParsedQuery,
    params: Mapping[str, object],
    *,
    text: str = "",
    current_user: str | None = None,
) -> ParsedQuery:
    """Return the query with every parameter replaced by its value; `original` keeps the unbound query.

    The executor gives the value of `$current_user_id` as `current_user`; without one the parameter stays. `text`, the
    query as it was sent, serves only to locate errors.

    Raises QueryError for a missing, superfluous or unsuitable value, at the first place where the parameter stands.
    """
    binder = _Binder(query, params, text)
    if current_user is not None:
        binder.values[words.CURRENT_USER] = current_user
    lets = tuple(replace(let, query=binder.bind_recall(let.query)) for let in query.lets)
    return ParsedQuery(
        statement=binder.bind_statement(query.statement),
        lets=lets,
        original=query.original or query,
    )


class _Binder:
    """The values of one query's parameters, and one `bind_…` method per part of a query."""

    def __init__(self, query: ParsedQuery, params: Mapping[str, object], text: str) -> None:
        self.text = text
        self.lets = {let.name for let in query.lets}
        for name in params:
            if name in self.lets or name == words.CURRENT_USER:
                binder_name = "a LET" if name in self.lets else "the server"
                message = f"${name} is bound already by {binder_name}."
                raise self.error_for(
                    name,
                    RuleViolation("CAL-E009", message, "Leave it out, or give it another name."),
                )
        self.params = params
        self.values: dict[str, Value] = {}

    def error_for(self, name: str, problem: RuleViolation) -> Exception:
        """Return the error for a parameter, at its first position in the text."""
        tokens = lexer.split_tokens(self.text)
        token = f"${name}"
        span = Span(0, 0)
        if token in tokens:
            span = lexer.find_spans(self.text)[tokens.index(token)]
        return error_at(self.text, span, problem)

    def raise_if_problem(self, param: Param, problem: RuleViolation | None) -> None:
        """Raise the error for a parameter unless the problem is None."""
        if problem is not None:
            raise self.error_for(
                param.name, problem._replace(message=f"${param.name}: {problem.message}")
            )

    def stays_unbound(self, param: Param) -> bool:
        """Return True for a LET, and for `$current_user_id` while the executor has not given it."""
        return param.name in self.lets or (
            param.name == words.CURRENT_USER and param.name not in self.values
        )

    def value_of(self, param: Param) -> Value:
        """Return the value of a parameter. Raise QueryError if the caller gave none."""
        name = param.name
        if name not in self.values:
            if name not in self.params:
                hint = f"Pass it with the query: {{{name!r}: …}}."
                raise self.error_for(
                    name, RuleViolation("CAL-E008", f"${name} has no value.", hint)
                )
            self.values[name] = self.convert_value(name, self.params[name], 0)
        return self.values[name]

    def convert_value(self, name: str, raw_value: object, depth: int) -> Value:
        """Convert a Python value to a value of the language. Lists may nest at most two levels."""
        if isinstance(raw_value, Hash | bool):
            return raw_value
        if isinstance(raw_value, str):
            if flaw := lexer.find_text_flaw(raw_value, max_bytes=1 << 30):
                raise self.error_for(
                    name, RuleViolation(flaw.code, f"${name}: {flaw.message}", flaw.suggestion)
                )
            return unicodedata.normalize("NFC", raw_value)
        if isinstance(raw_value, int | float):
            number = lexer.normalize_number(raw_value)
            if number is not None:
                return number
        if isinstance(raw_value, list | tuple) and depth < 2:
            return tuple(self.convert_value(name, member, depth + 1) for member in raw_value)
        message = f"${name} is neither text, number, boolean nor a list of these."
        raise self.error_for(name, RuleViolation("CAL-E020", message, "Give one of these."))

    # --- by kind of value --------------------------------------------------------------------------------

    def bind_value(self, value: Value) -> Value:
        """Return a value of any kind with its parameters replaced."""
        if isinstance(value, tuple):
            return tuple(self.bind_value(member) for member in value)
        if not isinstance(value, Param) or self.stays_unbound(value):
            return value
        return self.value_of(value)

    def bind_text(self, text: Text | None, *, is_time: bool = False) -> Text | None:
        """Return a text with its parameter replaced; refuse a value that is no string, or no time if `is_time`."""
        if not isinstance(text, Param) or self.stays_unbound(text):
            return text
        value = self.value_of(text)
        if not isinstance(value, str):
            self.raise_if_problem(text, RuleViolation("CAL-E020", "not a string.", "Give text."))
        elif is_time:
            self.raise_if_problem(text, rules.check_time(value))
        assert isinstance(value, str)
        return value

    def bind_hash(self, reference: HashOrParam | None) -> HashOrParam | None:
        """Return a hash with its parameter replaced."""
        if not isinstance(reference, Param) or self.stays_unbound(reference):
            return reference
        return self.hash_of(reference)

    def hash_of(self, param: Param) -> Hash:
        """Return the value of a parameter as a hash; strings of the form `sha256:…` are converted."""
        value = self.value_of(param)
        if isinstance(value, str) and lexer.HASH.fullmatch(value.lower()):
            return Hash(text=value.lower())
        if not isinstance(value, Hash):
            code = "CAL-E015" if isinstance(value, str) else "CAL-E020"
            self.raise_if_problem(
                param,
                RuleViolation(code, "not a hash.", "Give sha256: and 8 to 64 hexadecimal digits."),
            )
        assert isinstance(value, Hash)
        return value

    def bind_count(self, count: Count | None, word: str) -> Count | None:
        """Return a count with its parameter replaced; refuse a value that the clause `word` does not allow."""
        if not isinstance(count, Param) or self.stays_unbound(count):
            return count
        value = self.value_of(count)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.raise_if_problem(
                count, RuleViolation("CAL-E020", "not a number.", "Give a whole number.")
            )
        elif isinstance(value, float) or value < (word != "OFFSET"):
            self.raise_if_problem(
                count,
                RuleViolation(
                    "CAL-E006", f"{value} is not a whole number above 0.", "Give a whole number."
                ),
            )
        assert isinstance(value, int)
        if word != "OFFSET":
            self.raise_if_problem(count, rules.check_count(value, word))
        return value

    # --- by statement ------------------------------------------------------------------------------------

    def bind_condition(self, condition: WhereCondition, grain_type: str | None) -> WhereCondition:
        """Return a condition with its parameters replaced."""
        value = condition.value
        if isinstance(value, Subquery):
            return replace(condition, value=Subquery(query=self.bind_recall(value.query)))
        field = fields.fields_of(grain_type).get(condition.field, fields.DOMAIN_FIELD)
        if condition.operator == "IN":
            assert isinstance(value, tuple)
            return replace(condition, value=self.bind_members(field, value))
        if condition.operator == "BETWEEN":
            assert isinstance(value, tuple)
            return replace(
                condition, value=tuple(self.bind_operand(field, "BETWEEN", end) for end in value)
            )
        return replace(condition, value=self.bind_operand(field, condition.operator, value))

    def bind_members(self, field: Field, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the values of IN with their parameters replaced; an array as a value is spliced in."""
        bound: list[Value] = []
        for value in values:
            if not isinstance(value, Param) or self.stays_unbound(value):
                bound.append(value)
                continue
            bound_value = self.value_of(value)
            spliced = bound_value if isinstance(bound_value, tuple) else (bound_value,)
            self.raise_if_problem(value, rules.check_value(field, "IN", spliced))
            bound.extend(spliced)
        return tuple(bound)

    def bind_operand(self, field: Field, operator: str, value: Value) -> Value:
        """Return the operand of an operator with its parameters replaced; refuse values that do not fit the field."""
        if isinstance(value, tuple):
            bound = self.bind_value(value)
            parameter = next((member for member in value if isinstance(member, Param)), None)
            if parameter is not None:
                self.raise_if_problem(parameter, rules.check_value(field, operator, bound))
            return bound
        if not isinstance(value, Param) or self.stays_unbound(value):
            return value
        if field.kind is FieldKind.HASH:
            return self.hash_of(value)
        bound_value = self.value_of(value)
        operand = (bound_value,) if operator == "BETWEEN" else bound_value
        self.raise_if_problem(value, rules.check_value(field, operator, operand))
        return bound_value

    def bind_recall(self, recall: Recall) -> Recall:
        """Return a RECALL with its parameters replaced."""
        bound = replace(
            recall,
            about=self.bind_text(recall.about),
            like=self.bind_text(recall.like),
            since=self.bind_text(recall.since, is_time=True),
            between=self.bind_between(recall.between),
            thread=self.bind_thread(recall.thread),
            where=tuple(
                self.bind_condition(condition, recall.grain_type) for condition in recall.where
            ),
            options=self.bind_options(recall.options),
            stages=tuple(self.bind_stage(stage) for stage in recall.stages),
            recent=self.bind_count(recall.recent, "RECENT"),
        )
        extracts = any(
            isinstance(stage, Reduce) and stage.to in ("subjects", "objects")
            for stage in recall.stages
        )
        declared_type = rules.type_in_where(recall)
        if extracts and isinstance(declared_type, Param):
            self.raise_if_problem(
                declared_type, rules.check_extractor(bound.grain_type, rules.type_in_where(bound))
            )
        return bound

    def bind_between(self, between: Between | None) -> Between | None:
        """Return a BETWEEN clause with its parameters replaced."""
        if between is None:
            return None
        time = fields.COMMON_FIELDS["time"]
        return Between(
            low=self.bind_operand(time, "BETWEEN", between.low),
            high=self.bind_operand(time, "BETWEEN", between.high),
        )

    def bind_thread(self, thread: Thread | None) -> Thread | None:
        """Return a THREAD clause with its parameter replaced."""
        if thread is None:
            return None
        return Thread(
            session=self.bind_text(thread.session), message=self.bind_hash(thread.message)
        )

    def bind_options(self, options: tuple[Option, ...]) -> tuple[Option, ...]:
        """Return the options with the parameters in their arguments replaced."""
        return tuple(
            replace(option, arguments=tuple(map(self.bind_value, option.arguments)))
            for option in options
        )

    def bind_stage(self, stage: Stage) -> Stage:
        """Return a stage with its parameter replaced; only LIMIT and OFFSET can have one."""
        if isinstance(stage, Limit):
            count = self.bind_count(stage.count, "LIMIT")
            assert count is not None
            return Limit(count=count)
        if isinstance(stage, Offset):
            count = self.bind_count(stage.count, "OFFSET")
            assert count is not None
            return Offset(count=count)
        return stage

    def bind_assignments(
        self, assignments: tuple[Assignment, ...], required: tuple[str, ...]
    ) -> tuple[Assignment, ...]:
        """Return the assignments of SET with their parameters replaced; `required` fields must not be empty."""
        bound: list[Assignment] = []
        for assignment in assignments:
            value = self.bind_value(assignment.value)
            params = (
                assignment.value if isinstance(assignment.value, tuple) else (assignment.value,)
            )
            parameter = next((param for param in params if isinstance(param, Param)), None)
            if parameter is not None:
                self.raise_if_problem(
                    parameter, rules.check_assignment(fields.SETTABLE[assignment.field], value)
                )
                if value == "" and assignment.field in required:
                    self.raise_if_problem(
                        parameter,
                        RuleViolation("CAL-E050", f"ADD needs {assignment.field}.", "Give text."),
                    )
            bound.append(Assignment(field=assignment.field, value=value))
        return tuple(bound)

    def bind_statement(self, statement: _StatementT) -> _StatementT:
        """Return the statement with its parameters replaced."""
        bound: Any = statement
        if isinstance(statement, Recall):
            bound = self.bind_recall(statement)
        elif isinstance(statement, Explain):
            bound = Explain(query=self.bind_statement(statement.query))
        elif isinstance(statement, SetOp):
            bound = replace(
                statement,
                left_operand=self.bind_statement(statement.left_operand),
                right_operand=self.bind_statement(statement.right_operand),
            )
        elif isinstance(statement, Coalesce):
            bound = Coalesce(branches=tuple(map(self.bind_recall, statement.branches)))
        elif isinstance(statement, BatchQuery):
            entries = (
                BatchEntry(label=entry.label, query=self.bind_statement(entry.query))
                for entry in statement.entries
            )
            bound = BatchQuery(entries=tuple(entries))
        elif isinstance(statement, Assemble):
            bound = self.bind_assemble(statement)
        elif isinstance(statement, Exists | History | Revert | Supersede | Add):
            bound = self.bind_simple_statement(statement)
        return bound  # type: ignore[no-any-return]

    def bind_assemble(self, statement: Assemble) -> Assemble:
        """Return an ASSEMBLE with the parameters of its sources and options replaced."""
        sources = []
        for source in statement.sources:
            # A parameter as a source is the name of a LET, which is bound on its own.
            if isinstance(source.query, Recall):
                source = replace(source, query=self.bind_recall(source.query))
            sources.append(source)
        return replace(
            statement, sources=tuple(sources), options=self.bind_options(statement.options)
        )

    def bind_simple_statement(
        self, statement: Exists | History | Revert | Supersede | Add
    ) -> Statement:
        """Return a statement without RECALL with its parameters replaced."""
        if isinstance(statement, Add):
            return replace(
                statement,
                assignments=self.bind_assignments(statement.assignments, fields.ADD_REQUIRED),
            )
        if isinstance(statement, History):
            return replace(
                statement,
                hash=self.bind_hash(statement.hash),
                diff=self.bind_hash(statement.diff),
                subject=self.bind_text(statement.subject),
                relation=self.bind_text(statement.relation),
                as_of=self.bind_text(statement.as_of, is_time=True),
            )
        bound = self.bind_hash(statement.hash)
        assert bound is not None
        if isinstance(statement, Supersede):
            return replace(
                statement, hash=bound, assignments=self.bind_assignments(statement.assignments, ())
            )
        return replace(statement, hash=bound)
