"""ADD, SUPERSEDE and REVERT: what appends, and nothing else does (sections 8.8 to 8.10)."""

from __future__ import annotations

from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.language import lexer, rules, suggest, words
from memoranda.standards.cal.language.assemble import AssembleParser
from memoranda.standards.cal.language.syntax import Add, Assignment, Revert, Supersede


class EvolveParser(AssembleParser):
    """Reads the statements of tier 1."""

    __slots__ = ()

    def type_singular(self) -> str:
        """type_singular = 'belief' | … ;"""
        token = self.tokens[self.at]
        if lexer.kind_of(token) is not lexer.Kind.WORD or token.upper() in words.REFUSED:
            self.unexpected("a grain type")
        if token.lower() not in fields.SINGULARS:
            raise self.error(rules.unknown_type(token, plural=False))
        self.at += 1
        return token.lower()

    def add(self) -> Add:
        """add = ADD type_singular { SET add_field '=' value } REASON STR ;"""
        self.keyword("ADD")
        place = self.at
        grain_type = self.type_singular()
        # C13: the README adds a reasoning.
        if grain_type not in fields.ADDABLE or (self.strict and grain_type == "reasoning"):
            message = f"CAL does not add {fields.PLURAL_OF[grain_type]}: the system records them."
            raise self.problem("CAL-E051", message, f"It adds {', '.join(fields.ADDABLE)}.", at=place)
        assignments = self.assignments(fields.ADDABLE[grain_type])
        reason = self.reason()
        given = {each.field: each.value for each in assignments}
        missing = [name for name in fields.ADD_REQUIRED if given.get(name, "") == ""]
        if missing:
            raise self.problem("CAL-E050", f"ADD needs {' and '.join(missing)}.", at=place)
        return Add(grain_type=grain_type, assignments=assignments, reason=reason)

    def supersede(self) -> Supersede:
        """supersede = SUPERSEDE hashp SET evolve_field '=' value { SET evolve_field '=' value } REASON STR ;"""
        self.keyword("SUPERSEDE")
        target = self.hash_or_parameter()
        if self.word() in ("REASON", ""):
            raise self.problem("CAL-E019", "SUPERSEDE needs at least one SET.")
        if self.word() != "SET":
            self.unexpected("SET")
        assignments = self.assignments(fields.EVOLVABLE)
        return Supersede(hash=target, assignments=assignments, reason=self.reason())

    def revert(self) -> Revert:
        """revert = REVERT hashp REASON STR ;"""
        self.keyword("REVERT")
        return Revert(hash=self.hash_or_parameter(), reason=self.reason())

    def assignments(self, allowed: frozenset[str]) -> tuple[Assignment, ...]:
        """{ SET field '=' value }  in canonical order"""
        found: dict[str, Assignment] = {}
        while self.word() == "SET":
            self.at += 1
            place = self.at
            token = self.tokens[place]
            name = token.lower()
            if name not in allowed:
                if lexer.kind_of(token) is not lexer.Kind.WORD or token.upper() in words.REFUSED:
                    self.unexpected("a field")
                known = [each for each in fields.SETTABLE if each in allowed]
                hint = suggest.did_you_mean(name, known) or f"The fields here are {', '.join(known)}."
                raise self.problem("CAL-E017", f"{lexer.shown(name)} cannot be set here.", hint)
            if name in found:
                raise self.problem("CAL-E002", f"{name} is set twice.", "Set each field once.")
            self.at += 1
            self.take("=")
            place = self.at
            value = self.value()
            if problem := rules.assignment_problem(fields.SETTABLE[name], value):
                raise self.error(problem, place)
            found[name] = Assignment(field=name, value=value)
        return tuple(found[name] for name in fields.SETTABLE if name in found)

    def reason(self) -> str:
        """REASON STR"""
        if not self.tokens[self.at]:
            raise self.problem("CAL-E018", "A change needs a REASON.", 'End with REASON "why".')
        if self.word() != "REASON":
            self.unexpected("SET", "REASON")
        self.at += 1
        place = self.at
        found = self.string()
        if not found.strip():
            raise self.problem("CAL-E018", "The REASON is empty.", 'End with REASON "why".', at=place)
        if len(found) > limits.REASON_CHARS:
            message = f"A REASON has at most {limits.REASON_CHARS} characters."
            raise self.problem("CAL-E016", message, "Shorten it.", at=place)
        return found
