"""Parser of the options of WITH (sections 8.1, 8.2, 25.2).

An option is parsed by its name; those with arguments have a method each. Unknown names are refused with a suggestion,
except names that begin with `x_`, which the grammar reserves for extensions. An option that this implementation accepts
and ignores gets a warning in `check`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from memoranda.standards.cal import fields
from memoranda.standards.cal.language import lexer, rules, words
from memoranda.standards.cal.language.conditions import ConditionParser
from memoranda.standards.cal.language.draft import PartialRecall
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
# "headlines" is the grammar's word for the level that the tables and SML 1.0 call "standard".
_LEVELS: Final = ("summary", "standard", "headlines", "full")
_CONSISTENCIES: Final = ("eventual", "bounded", "linearizable")
_FRACTION: Final = fields.COMMON_FIELDS["score"]


class OptionParser(ConditionParser):
    """Parser of the options of a RECALL or an ASSEMBLE."""

    __slots__ = ()

    def parse_options(self, draft: PartialRecall | None) -> tuple[Option, ...]:
        """Parse `with = WITH option { ',' option } ;`. The draft is None for an ASSEMBLE.

        Raises CAL-E002 for an option that occurs twice.
        """
        self.expect_keyword("WITH")
        options: list[Option] = []
        while True:
            start = self.position
            option = self.parse_option(draft)
            if any(option.name == earlier_option.name for earlier_option in options):
                raise self.new_error(
                    "CAL-E002",
                    f"{option.name} occurs twice.",
                    "Use each option once.",
                    position=start,
                )
            options.append(option)
            if not self.accept_comma():
                return tuple(options)

    def parse_option(self, draft: PartialRecall | None) -> Option:
        """Parse `option = 'superseded' | … | 'iso_timestamps' (*C18*) | x_ID [ '(' value { ',' value } ')' ] ;`."""
        token = self.tokens[self.position]
        name = token.lower()
        if name in _BARE_OPTIONS:
            self.position += 1
            return Option(name=name)
        if (
            token.startswith(words.EXTENSION_PREFIX)
            and lexer.classify_token(token) is lexer.TokenKind.WORD
        ):
            self.position += 1
            return Option(name=token, arguments=self.parse_arguments())
        if name == "progressive_disclosure":
            self.position += 1
            return Option(name=name, word=self.parse_level())
        parser = _OPTION_PARSERS.get(name)
        if parser is None:
            self.raise_unexpected(*OPTION_NAMES, "an x_ option")
        self.position += 1
        self.expect("(")
        word, value = parser(self, draft)
        self.expect(")")
        return Option(name=name, word=word, value=value)

    def parse_arguments(self) -> tuple[Value, ...]:
        """Parse `[ '(' value { ',' value } ')' ]`, the arguments of an x_ option."""
        if self.tokens[self.position] != "(":
            return ()
        self.position += 1
        arguments = [self.parse_value()]
        while self.tokens[self.position] == ",":
            self.position += 1
            arguments.append(self.parse_value())
        self.expect(")")
        return tuple(arguments)

    def parse_level(self) -> str | None:
        """Parse the argument of progressive_disclosure: `[ '(' level ')' ]`."""
        if self.tokens[self.position] != "(":
            return None
        self.position += 1
        level = self.parse_choice(_LEVELS)
        self.expect(")")
        return level

    def _parse_diversity(self) -> tuple[str, Value | None]:
        """Parse the arguments of diversity: `'mmr' [ ',' 'lambda' '=' NUM ] | 'threshold' ',' NUM`."""
        method = self.parse_choice(("mmr", "threshold"))
        if method == "mmr" and self.tokens[self.position] != ",":
            return method, None
        self.expect(",")
        if method == "mmr":
            self.parse_choice(("lambda",))
            self.expect("=")
        start = self.position
        number = self.parse_number()
        if rules.check_scalar(_FRACTION, number):
            raise self.new_error(
                "CAL-E020",
                f"{number} is not between 0 and 1.",
                "Write a number from 0 to 1.",
                position=start,
            )
        return method, number

    def _parse_consistency(self) -> tuple[str, Value | None]:
        """Parse the arguments of consistency: `'eventual' | 'bounded' '(' NUM ')' | 'linearizable'`."""
        level = self.parse_choice(_CONSISTENCIES)
        if level != "bounded":
            return level, None
        self.expect("(")
        number = self.parse_number()
        self.expect(")")
        return level, number

    def _parse_dedup(self, draft: PartialRecall | None) -> tuple[str, None]:
        """Parse the argument of dedup: `common_field | type_field`."""
        name = self.tokens[self.position].lower()
        # The sources of an ASSEMBLE can have different types, so any field of any type is accepted.
        if draft is not None or (
            name not in fields.COMMON_FIELDS and name not in fields.TYPES_WITH
        ):
            self.parse_stage_field(draft)
            return name, None
        self.position += 1
        return name, None

    def _parse_locale(self) -> tuple[None, str]:
        """Parse the argument of locale: `STR`."""
        return None, self.parse_string()

    def _parse_cache(self) -> tuple[None, int]:
        """Parse the argument of cache: `'ttl' '=' INT`; the time to live is in seconds."""
        self.parse_choice(("ttl",))
        self.expect("=")
        return None, self.parse_integer()


_OPTION_PARSERS: Final[
    Mapping[str, Callable[[OptionParser, PartialRecall | None], tuple[str | None, Value | None]]]
] = {
    "diversity": lambda parser, _: parser._parse_diversity(),
    "consistency": lambda parser, _: parser._parse_consistency(),
    "dedup": OptionParser._parse_dedup,
    "locale": lambda parser, _: parser._parse_locale(),
    "cache": lambda parser, _: parser._parse_cache(),
}
