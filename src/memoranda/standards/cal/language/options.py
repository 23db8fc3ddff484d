"""The options of WITH (sections 8.1, 8.2, 25.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from memoranda.standards.cal import fields
from memoranda.standards.cal.language import lexer, rules, words
from memoranda.standards.cal.language.conditions import ConditionParser
from memoranda.standards.cal.language.draft import Draft
from memoranda.standards.cal.language.syntax import Option, Value

_BARE_OPTIONS: Final = frozenset(
    """superseded score_breakdown explanation provenance contradiction_detection summarize iso_timestamps""".split()
)
OPTION_NAMES: Final = (
    *sorted(_BARE_OPTIONS),
    "progressive_disclosure",
    "diversity",
    "consistency",
    "dedup",
    "locale",
    "cache",
)
_LEVELS: Final = ("summary", "headlines", "full")
_CONSISTENCIES: Final = ("eventual", "bounded", "linearizable")
_FRACTION: Final = fields.COMMON["score"]


class OptionParser(ConditionParser):
    """Reads the options of a RECALL or an ASSEMBLE."""

    __slots__ = ()

    def options(self, draft: Draft | None) -> tuple[Option, ...]:
        """with = WITH option { ',' option } ;  without a draft: of ASSEMBLE"""
        self.keyword("WITH")
        found: list[Option] = []
        while True:
            place = self.at
            option = self.option(draft)
            if any(option.name == other.name for other in found):
                raise self.problem("CAL-E002", f"{option.name} is given twice.", "Give each option once.", at=place)
            found.append(option)
            if not self.more():
                return tuple(found)

    def option(self, draft: Draft | None) -> Option:
        """option = 'superseded' | … | 'iso_timestamps' (*C18*) | x_ID [ '(' value { ',' value } ')' ] ;"""
        token = self.tokens[self.at]
        name = token.lower()
        if name in _BARE_OPTIONS:
            self.at += 1
            return Option(name=name)
        if token.startswith(words.EXTENSION_PREFIX) and lexer.kind_of(token) is lexer.Kind.WORD:
            self.at += 1
            return Option(name=token, arguments=self.arguments())
        if name == "progressive_disclosure":
            self.at += 1
            return Option(name=name, word=self.level())
        reader = _OPTIONS.get(name)
        if reader is None:
            self.unexpected(*OPTION_NAMES, "an x_ option")
        self.at += 1
        self.take("(")
        word, value = reader(self, draft)
        self.take(")")
        return Option(name=name, word=word, value=value)

    def arguments(self) -> tuple[Value, ...]:
        """[ '(' value { ',' value } ')' ]"""
        if self.tokens[self.at] != "(":
            return ()
        self.at += 1
        found = [self.value()]
        while self.tokens[self.at] == ",":
            self.at += 1
            found.append(self.value())
        self.take(")")
        return tuple(found)

    def level(self) -> str | None:
        """[ '(' ( 'summary' | 'headlines' | 'full' ) ')' ]"""
        if self.tokens[self.at] != "(":
            return None
        self.at += 1
        found = self.choice(_LEVELS)
        self.take(")")
        return found

    def _diversity(self) -> tuple[str, Value | None]:
        """'diversity' '(' ( 'mmr' [ ',' 'lambda' '=' NUM ] | 'threshold' ',' NUM ) ')'"""
        method = self.choice(("mmr", "threshold"))
        if method == "mmr" and self.tokens[self.at] != ",":
            return method, None
        self.take(",")
        if method == "mmr":
            self.choice(("lambda",))
            self.take("=")
        place = self.at
        number = self.number()
        if rules.scalar_problem(_FRACTION, number):
            raise self.problem("CAL-E020", f"{number} is not between 0 and 1.", "Write a number from 0 to 1.", at=place)
        return method, number

    def _consistency(self) -> tuple[str, Value | None]:
        """'consistency' '(' ( 'eventual' | 'bounded' '(' NUM ')' | 'linearizable' ) ')'"""
        level = self.choice(_CONSISTENCIES)
        if level != "bounded":
            return level, None
        self.take("(")
        number = self.number()
        self.take(")")
        return level, number

    def _dedup(self, draft: Draft | None) -> tuple[str, None]:
        """'dedup' '(' ( common_field | type_field ) ')'"""
        name = self.tokens[self.at].lower()
        # The sources of an ASSEMBLE are of many types: any field of any of them may be meant.
        if draft is not None or (name not in fields.COMMON and name not in fields.TYPES_WITH):
            self.stage_field(draft)
            return name, None
        self.at += 1
        return name, None

    def _locale(self) -> tuple[None, str]:
        """'locale' '(' STR ')'"""
        return None, self.string()

    def _cache(self) -> tuple[None, int]:
        """'cache' '(' 'ttl' '=' INT ')'"""
        self.choice(("ttl",))
        self.take("=")
        return None, self.integer()


_OPTIONS: Final[Mapping[str, Callable[[OptionParser, Draft | None], tuple[str | None, Value | None]]]] = {
    "diversity": lambda parser, _: parser._diversity(),
    "consistency": lambda parser, _: parser._consistency(),
    "dedup": OptionParser._dedup,
    "locale": lambda parser, _: parser._locale(),
    "cache": lambda parser, _: parser._cache(),
}
