"""Parser of conditions and of the fields they name (sections 6, 7, 8.1).

The parser decides between fields while it reads: a declared grain type limits which fields may follow, so a
PartialRecall collects what is known so far. Checks that need only one value are in `rules`, which also checks
parameters when they are bound later; a check that is written here alone would be missing for parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, Literal

from memoranda.errors import QueryError
from memoranda.standards.cal import codes, fields, limits
from memoranda.standards.cal.fields import Field, FieldKind
from memoranda.standards.cal.language import lexer, rules, words
from memoranda.standards.cal.language.cursor import Cursor
from memoranda.standards.cal.language.draft import CONFLICTS, PartialRecall
from memoranda.standards.cal.language.rules import RuleViolation
from memoranda.standards.cal.language.syntax import Param, Recall, Subquery, Value, WhereCondition

_COMPARATORS: Final = words.COMPARATORS


class ConditionParser(Cursor, ABC):
    """Parser of the conditions of a RECALL."""

    __slots__ = ()

    @abstractmethod
    def parse_recall(self, depth: int = 0, *, in_coalesce: bool = False) -> Recall:
        """Parse a complete RECALL; conditions need it for subqueries, a subclass implements it."""

    def register_clause(self, draft: PartialRecall, name: str, position: int | None = None) -> None:
        """Record a clause or a condition, and refuse it beside one that means the same (section 9.8)."""
        for other in CONFLICTS.get(name, ()):
            # C8: section 8.13 prints ABOUT with LIKE in a branch of COALESCE.
            if other in draft.seen_clauses and not (
                draft.in_coalesce and {name, other} == {"ABOUT", "LIKE"}
            ):
                if name == other:
                    message = f"{name} can be used only once."
                else:
                    message = f"{name} cannot be combined with {other}: both set the same thing."
                problem = RuleViolation(
                    "CAL-E060",
                    message,
                    f"Keep {name} or {other}, not both.",
                    codes.AMBIGUOUS_SHORTCUT,
                )
                raise self.error_from(problem, position)
        draft.seen_clauses.add(name)

    def parse_condition(self, draft: PartialRecall) -> WhereCondition:
        """Parse `condition = field cmp value | field IN … | field BETWEEN …
        | field ( INCLUDE | EXCLUDE ) array | 'relation' IS category ;`.
        """
        start = self.position
        tokens = self.tokens
        name = tokens[start].lower()
        field = draft.fields.get(name)
        if field is None:
            field = self.require_domain_field(draft, name)
        self.position = start + 1
        operator = tokens[start + 1].upper()
        if operator not in field.operators:
            if operator in words.OPERATORS:
                raise self.error_from(rules.operator_problem(field, name, operator))
            self.raise_unexpected(*sorted(field.operators), "an operator")
        if name in CONFLICTS:
            self.register_clause(draft, name, start)
        self.position = start + 2
        if operator in _COMPARATORS:
            return WhereCondition(
                field=name, operator=operator, value=self.parse_checked_value(field)
            )
        return WhereCondition(
            field=name, operator=operator, value=_OPERAND_PARSERS[operator](self, field, draft)
        )

    def require_domain_field(self, draft: PartialRecall, name: str) -> Field:
        """Return the field of a domain prefix, or raise if the name is no such field.

        Grammar: `field = … | domain_prefix ':' ID ;` (*C19: an unknown prefix is a warning*)
        """
        # `sha256:` always begins a hash, well formed or not, and never a field.
        is_domain = lexer.DOMAIN_FIELD.fullmatch(name) and not name.startswith("sha256:")
        if is_domain and name.partition(":")[0].upper() not in words.REFUSED_WORDS:
            return fields.DOMAIN_FIELD
        raise self.unknown_field_error(draft.grain_type)

    def unknown_field_error(
        self, grain_type: str | None, extra: frozenset[str] = frozenset()
    ) -> QueryError:
        """Return the error for the next token: an unknown field; raise if it is no name at all."""
        token = self.tokens[self.position]
        keyword = token.upper()
        may_be_field = token.lower() in fields.TYPES_WITH or keyword not in words.KEYWORDS
        if (
            lexer.classify_token(token) is not lexer.TokenKind.WORD
            or keyword in words.REFUSED_WORDS
            or not may_be_field
        ):
            self.raise_unexpected("a field")
        return self.error_from(
            rules.unknown_field_problem(token.lower(), grain_type, strict=self.strict, extra=extra)
        )

    def parse_stage_field(self, draft: PartialRecall | None) -> Field:
        """Parse `sfield = common_field | type_field ;`."""
        name = self.tokens[self.position].lower()
        grain_type = draft.grain_type if draft else None
        field = fields.fields_of(grain_type, strict=self.strict).get(name)
        if field is None:
            raise self.unknown_field_error(grain_type)
        self.position += 1
        return field

    def parse_field_for(
        self, draft: PartialRecall, use: Literal["sortable", "projectable", "groupable"]
    ) -> str:
        """Parse a field that a stage can use; the field tables list which can (*C4*).

        Raises CAL-E021 for a field that this stage cannot use.
        """
        start = self.position
        field = self.parse_stage_field(draft)
        if not getattr(field, use):
            raise self.new_error(
                "CAL-E021",
                f"{field.name} is not {use}.",
                f"Choose one that is {use}.",
                position=start,
            )
        return field.name

    def parse_checked_value(self, field: Field) -> Value:
        """Parse a value that fits the field."""
        start = self.position
        value = self.parse_value()
        if type(value) is str and field.kind is FieldKind.STRING:
            return value
        if problem := rules.check_scalar(field, value):
            raise self.error_from(problem, start)
        return value

    def parse_range(self, field: Field) -> tuple[Value, Value]:
        """Parse `value AND value`, the operands of BETWEEN."""
        start = self.position
        low = self.parse_value()
        if problem := rules.check_value(field, "BETWEEN", (low,)):
            raise self.error_from(problem, start)
        self.expect_keyword("AND")
        start = self.position
        high = self.parse_value()
        if problem := rules.check_value(field, "BETWEEN", (high,)):
            raise self.error_from(problem, start)
        return low, high

    def parse_members(self, field: Field) -> Value:
        """Parse the array of INCLUDE or EXCLUDE."""
        start = self.position
        value = self.parse_value()
        if problem := rules.check_value(field, "INCLUDE", value):
            raise self.error_from(problem, start)
        return value

    def parse_category(self) -> Value:
        """Parse `category = PREFERENCE | KNOWLEDGE | PERMISSION | INTERACTION | AGENCY | LIFECYCLE | OBSERVATION ;`."""
        category = self.peek_keyword()
        if category not in words.CATEGORIES:
            self.raise_unexpected(*words.CATEGORIES)
        self.position += 1
        return category

    def _parse_in(self, field: Field, draft: PartialRecall) -> Value | Subquery:
        """Parse `'(' ( value { ',' value } | recall ) ')'`, the operand of IN."""
        self.expect("(")
        if self.peek_keyword() == "RECALL":
            return self.parse_subquery(draft)
        values: list[Value] = []
        takes_strings = field.kind is FieldKind.STRING or field.kind is FieldKind.ANY
        while True:
            token = self.tokens[self.position]
            if len(values) == limits.IN_VALUES and token:
                raise self.new_error(
                    "CAL-E011",
                    f"IN takes at most {limits.IN_VALUES} values.",
                    "Pass them as one array parameter.",
                )
            if takes_strings and token[:1] == '"' and len(token) > 1:
                self.position += 1
                values.append(lexer.unquote(token))
            elif token[:1] == "$":
                values.append(self.parse_member_parameter())
            else:
                values.append(self.parse_checked_value(field))
            if self.tokens[self.position] != ",":
                break
            self.position += 1
        if self.tokens[self.position] != ")":
            self.raise_unexpected(")", ",")
        self.position += 1
        return tuple(values)

    def parse_member_parameter(self) -> Param:
        """Parse a parameter inside IN: a value, an array, or the values of a LET.

        Raises CAL-E021 for a LET that returns grains.
        """
        start = self.position
        parameter = self.parse_parameter()
        if self.let_kinds.get(parameter.name, "values") != "values":
            raise self.new_error(
                "CAL-E021",
                f"${parameter.name} holds grains, and IN takes values.",
                "End the LET with | SUBJECTS, | OBJECTS or | HASHES.",
                position=start,
            )
        return parameter

    def parse_subquery(self, draft: PartialRecall) -> Subquery:
        """Parse a RECALL inside IN; it must end in SUBJECTS, OBJECTS or HASHES, and nests at most three levels.

        Raises CAL-E007 for deeper nesting, and CAL-E021 if it returns no values.
        """
        start = self.position
        if draft.depth == limits.SUBQUERY_DEPTH:
            raise self.new_error(
                "CAL-E007",
                f"Subqueries nest at most {limits.SUBQUERY_DEPTH} deep.",
                "Use LET for the inner ones.",
            )
        outer_list_kind, outer_result_kind, self.list_kind = self.list_kind, self.result_kind, ""
        query = self.parse_recall(draft.depth + 1)
        if self.result_kind != "values":
            raise self.new_error(
                "CAL-E021",
                f"The subquery yields {self.result_kind}, and IN takes values.",
                "End it with | SUBJECTS, | OBJECTS or | HASHES.",
                position=start,
            )
        self.list_kind, self.result_kind = outer_list_kind, outer_result_kind
        self.expect(")")
        return Subquery(query=query)


_OPERAND_PARSERS: Final[
    Mapping[str, Callable[[ConditionParser, Field, PartialRecall], Value | Subquery]]
] = {
    "IN": ConditionParser._parse_in,
    "BETWEEN": lambda parser, field, _: parser.parse_range(field),
    "INCLUDE": lambda parser, field, _: parser.parse_members(field),
    "EXCLUDE": lambda parser, field, _: parser.parse_members(field),
    "IS": lambda parser, *_: parser.parse_category(),
}
