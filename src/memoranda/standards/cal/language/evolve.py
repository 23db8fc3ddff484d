"""Parser of ADD, SUPERSEDE and REVERT, the only statements that append (sections 8.8 to 8.10).

These statements write, so they are stricter than those that read: each needs a REASON, only listed fields can be set,
and a grain is never changed in place: SUPERSEDE and REVERT append a new one. Whether a caller may write is decided when
the query runs, not here.
"""

from __future__ import annotations

from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.language import lexer, rules, suggest, words
from memoranda.standards.cal.language.assemble import AssembleParser
from memoranda.standards.cal.language.syntax import Add, Assignment, Revert, Supersede


class EvolveParser(AssembleParser):
    """Parser of the statements of tier 1."""

    __slots__ = ()

    def parse_type_singular(self) -> str:
        """Parse `type_singular = 'belief' | … ;`."""
        token = self.tokens[self.position]
        if (
            lexer.classify_token(token) is not lexer.TokenKind.WORD
            or token.upper() in words.REFUSED_WORDS
        ):
            self.raise_unexpected("a grain type")
        if token.lower() not in fields.SINGULARS:
            raise self.error_from(rules.unknown_type_problem(token, plural=False))
        self.position += 1
        return token.lower()

    def parse_add(self) -> Add:
        """Parse `add = ADD type_singular { SET add_field '=' value } REASON STR ;`.

        Raises CAL-E051 for a type that cannot be added, and CAL-E050 if a required field is missing.
        """
        self.expect_keyword("ADD")
        start = self.position
        grain_type = self.parse_type_singular()
        # C13: the README of the specification adds a reasoning.
        if grain_type not in fields.ADDABLE or (self.strict and grain_type == "reasoning"):
            message = f"CAL does not add {fields.PLURAL_OF[grain_type]}: the system records them."
            raise self.new_error(
                "CAL-E051", message, f"It adds {', '.join(fields.ADDABLE)}.", position=start
            )
        assignments = self.parse_assignments(fields.ADDABLE[grain_type])
        reason = self.parse_reason()
        values = {assignment.field: assignment.value for assignment in assignments}
        missing_fields = [name for name in fields.ADD_REQUIRED if values.get(name, "") == ""]
        if missing_fields:
            raise self.new_error(
                "CAL-E050", f"ADD needs {' and '.join(missing_fields)}.", position=start
            )
        return Add(grain_type=grain_type, assignments=assignments, reason=reason)

    def parse_supersede(self) -> Supersede:
        """Parse `supersede = SUPERSEDE hashp SET evolve_field '=' value { SET evolve_field '=' value }
        REASON STR ;`.
        """
        self.expect_keyword("SUPERSEDE")
        target = self.parse_hash_or_parameter()
        if self.peek_keyword() in ("REASON", ""):
            raise self.new_error("CAL-E019", "SUPERSEDE needs at least one SET.")
        if self.peek_keyword() != "SET":
            self.raise_unexpected("SET")
        assignments = self.parse_assignments(fields.EVOLVABLE)
        return Supersede(hash=target, assignments=assignments, reason=self.parse_reason())

    def parse_revert(self) -> Revert:
        """Parse `revert = REVERT hashp REASON STR ;`."""
        self.expect_keyword("REVERT")
        return Revert(hash=self.parse_hash_or_parameter(), reason=self.parse_reason())

    def parse_assignments(self, allowed: frozenset[str]) -> tuple[Assignment, ...]:
        """Parse `{ SET field '=' value }`; return the assignments in canonical order.

        Raises CAL-E017 for a field that cannot be set here, and CAL-E002 for one that is set twice.
        """
        assignments: dict[str, Assignment] = {}
        while self.peek_keyword() == "SET":
            self.position += 1
            start = self.position
            token = self.tokens[start]
            name = token.lower()
            if name not in allowed:
                if (
                    lexer.classify_token(token) is not lexer.TokenKind.WORD
                    or token.upper() in words.REFUSED_WORDS
                ):
                    self.raise_unexpected("a field")
                names = [field for field in fields.SETTABLE if field in allowed]
                hint = (
                    suggest.did_you_mean(name, names) or f"The fields here are {', '.join(names)}."
                )
                raise self.new_error(
                    "CAL-E017", f"{lexer.quote_token(name)} cannot be set here.", hint
                )
            if name in assignments:
                raise self.new_error("CAL-E002", f"{name} is set twice.", "Set each field once.")
            self.position += 1
            self.expect("=")
            start = self.position
            value = self.parse_value()
            if problem := rules.check_assignment(fields.SETTABLE[name], value):
                raise self.error_from(problem, start)
            assignments[name] = Assignment(field=name, value=value)
        return tuple(assignments[name] for name in fields.SETTABLE if name in assignments)

    def parse_reason(self) -> str:
        """Parse `REASON STR`.

        Raises CAL-E018 for a missing or empty reason, and CAL-E016 for one that is too long.
        """
        if not self.tokens[self.position]:
            raise self.new_error("CAL-E018", "A change needs a REASON.", 'End with REASON "why".')
        if self.peek_keyword() != "REASON":
            self.raise_unexpected("SET", "REASON")
        self.position += 1
        start = self.position
        reason = self.parse_string()
        if not reason.strip():
            raise self.new_error(
                "CAL-E018", "The REASON is empty.", 'End with REASON "why".', position=start
            )
        if len(reason) > limits.REASON_CHARS:
            message = f"A REASON has at most {limits.REASON_CHARS} characters."
            raise self.new_error("CAL-E016", message, "Shorten it.", position=start)
        return reason
