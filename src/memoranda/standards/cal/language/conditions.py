"""Conditions and the fields they name (sections 6, 7, 8.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, Literal

from memoranda.errors import QueryError
from memoranda.standards.cal import codes, fields, limits
from memoranda.standards.cal.fields import Field, Kind
from memoranda.standards.cal.language import lexer, rules, words
from memoranda.standards.cal.language.cursor import Cursor
from memoranda.standards.cal.language.draft import CONFLICTS, Draft
from memoranda.standards.cal.language.rules import Problem
from memoranda.standards.cal.language.syntax import Condition, Param, Recall, Subquery, Value

_COMPARATORS: Final = words.COMPARATORS


class ConditionParser(Cursor, ABC):
    """Reads the conditions of a RECALL."""

    __slots__ = ()

    @abstractmethod
    def recall(self, depth: int = 0, *, in_coalesce: bool = False) -> Recall:
        """The whole RECALL; a condition may hold one."""

    def alone(self, draft: Draft, name: str, at: int | None = None) -> None:
        """Section 9.8: two shortcuts for the same thing are ambiguous."""
        for other in CONFLICTS.get(name, ()):
            # C8: section 8.13 prints ABOUT with LIKE in a branch of COALESCE.
            if other in draft.seen and not (draft.in_coalesce and {name, other} == {"ABOUT", "LIKE"}):
                message = (
                    f"{name} cannot stand beside {other}: both say the same."
                    if name != other
                    else (f"{name} can be asked once.")
                )
                problem = Problem("CAL-E060", message, f"Keep {name} or {other}, not both.", codes.AMBIGUOUS_SHORTCUT)
                raise self.error(problem, at)
        draft.seen.add(name)

    def condition(self, draft: Draft) -> Condition:
        """condition = field cmp value | field IN … | field BETWEEN … | field ( INCLUDE | EXCLUDE ) array
        | 'relation' IS category ;"""
        place = self.at
        tokens = self.tokens
        name = tokens[place].lower()
        field = draft.fields.get(name)
        if field is None:
            field = self.domain_field(draft, name)
        self.at = place + 1
        operator = tokens[place + 1].upper()
        if operator not in field.operators:
            if operator in words.OPERATORS:
                raise self.error(rules.operator_problem(field, name, operator))
            self.unexpected(*sorted(field.operators), "an operator")
        if name in CONFLICTS:
            self.alone(draft, name, place)
        self.at = place + 2
        if operator in _COMPARATORS:
            return Condition(field=name, operator=operator, value=self.checked_value(field))
        return Condition(field=name, operator=operator, value=_OPERANDS[operator](self, field, draft))

    def domain_field(self, draft: Draft, name: str) -> Field:
        """field = … | domain_prefix ':' ID ;  (*C19: an unknown prefix is a warning*)"""
        # `sha256:` begins a hash, good or bad, and never a field.
        is_domain = lexer.DOMAIN_FIELD.fullmatch(name) and not name.startswith("sha256:")
        if is_domain and name.partition(":")[0].upper() not in words.REFUSED:
            return fields.DOMAIN
        raise self.no_field(draft.grain_type)

    def no_field(self, grain_type: str | None, extra: frozenset[str] = frozenset()) -> QueryError:
        """The next token is no field: a name that is unknown here, or no name at all."""
        token = self.tokens[self.at]
        upper = token.upper()
        known = token.lower() in fields.TYPES_WITH or upper not in words.KEYWORDS
        if lexer.kind_of(token) is not lexer.Kind.WORD or upper in words.REFUSED or not known:
            self.unexpected("a field")
        return self.error(rules.unknown_field(token.lower(), grain_type, strict=self.strict, extra=extra))

    def stage_field(self, draft: Draft | None) -> Field:
        """sfield = common_field | type_field ;"""
        name = self.tokens[self.at].lower()
        grain_type = draft.grain_type if draft else None
        found = fields.fields_of(grain_type, strict=self.strict).get(name)
        if found is None:
            raise self.no_field(grain_type)
        self.at += 1
        return found

    def used_field(self, draft: Draft, use: Literal["sortable", "projectable", "groupable"]) -> str:
        """C4: which fields may stand in a stage is in the field tables."""
        place = self.at
        found = self.stage_field(draft)
        if not getattr(found, use):
            raise self.problem("CAL-E021", f"{found.name} is not {use}.", f"Choose one that is {use}.", at=place)
        return found.name

    def checked_value(self, field: Field) -> Value:
        """A value that fits the field."""
        place = self.at
        value = self.value()
        if type(value) is str and field.kind is Kind.STRING:
            return value
        if problem := rules.scalar_problem(field, value):
            raise self.error(problem, place)
        return value

    def range(self, field: Field) -> tuple[Value, Value]:
        """value AND value"""
        place = self.at
        low = self.value()
        if problem := rules.value_problem(field, "BETWEEN", (low,)):
            raise self.error(problem, place)
        self.keyword("AND")
        place = self.at
        high = self.value()
        if problem := rules.value_problem(field, "BETWEEN", (high,)):
            raise self.error(problem, place)
        return low, high

    def members(self, field: Field) -> Value:
        """( INCLUDE | EXCLUDE ) array"""
        place = self.at
        value = self.value()
        if problem := rules.value_problem(field, "INCLUDE", value):
            raise self.error(problem, place)
        return value

    def category(self) -> Value:
        """category = PREFERENCE | KNOWLEDGE | PERMISSION | INTERACTION | AGENCY | LIFECYCLE | OBSERVATION ;"""
        category = self.word()
        if category not in words.CATEGORIES:
            self.unexpected(*words.CATEGORIES)
        self.at += 1
        return category

    def _in(self, field: Field, draft: Draft) -> Value | Subquery:
        """field IN '(' ( value { ',' value } | recall ) ')'"""
        self.take("(")
        if self.word() == "RECALL":
            return self.subquery(draft)
        values: list[Value] = []
        strings = field.kind is Kind.STRING or field.kind is Kind.ANY
        while True:
            token = self.tokens[self.at]
            if len(values) == limits.IN_VALUES and token:
                raise self.problem(
                    "CAL-E011", f"IN takes at most {limits.IN_VALUES} values.", "Pass them as one array parameter."
                )
            if strings and token[:1] == '"' and len(token) > 1:
                self.at += 1
                values.append(lexer.string_of(token))
            elif token[:1] == "$":
                values.append(self.member_parameter())
            else:
                values.append(self.checked_value(field))
            if self.tokens[self.at] != ",":
                break
            self.at += 1
        if self.tokens[self.at] != ")":
            self.unexpected(")", ",")
        self.at += 1
        return tuple(values)

    def member_parameter(self) -> Param:
        """A parameter in IN: a value, an array, or the values of a LET."""
        place = self.at
        found = self.parameter()
        if self.lets.get(found.name, "values") != "values":
            raise self.problem(
                "CAL-E021",
                f"${found.name} holds grains, and IN takes values.",
                "End the LET with | SUBJECTS, | OBJECTS or | HASHES.",
                at=place,
            )
        return found

    def subquery(self, draft: Draft) -> Subquery:
        """recall inside IN: it must end in an extractor; at most three levels."""
        place = self.at
        if draft.depth == limits.SUBQUERY_DEPTH:
            raise self.problem(
                "CAL-E007", f"Subqueries nest at most {limits.SUBQUERY_DEPTH} deep.", "Use LET for the inner ones."
            )
        mode, yields, self.mode = self.mode, self.yields, ""
        query = self.recall(draft.depth + 1)
        if self.yields != "values":
            raise self.problem(
                "CAL-E021",
                f"The subquery yields {self.yields}, and IN takes values.",
                "End it with | SUBJECTS, | OBJECTS or | HASHES.",
                at=place,
            )
        self.mode, self.yields = mode, yields
        self.take(")")
        return Subquery(query=query)


_OPERANDS: Final[Mapping[str, Callable[[ConditionParser, Field, Draft], Value | Subquery]]] = {
    "IN": ConditionParser._in,
    "BETWEEN": lambda parser, field, _: parser.range(field),
    "INCLUDE": lambda parser, field, _: parser.members(field),
    "EXCLUDE": lambda parser, field, _: parser.members(field),
    "IS": lambda parser, *_: parser.category(),
}
