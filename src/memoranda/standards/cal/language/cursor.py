"""The base of the parser: a position in the token list, literals, and errors with their place in the text.

Each `parse_…` method reads one construct at the current position, moves past it and returns its value. It raises
QueryError for the first token that does not fit; the parser never moves back over a token to try another rule.

Because nothing is read twice, the time is linear in the text, and the first error is the first mistake. Positions are
computed only for errors, since most queries have none.
"""

from __future__ import annotations

from typing import Final, NoReturn

from memoranda.errors import QueryError
from memoranda.standards.cal import limits
from memoranda.standards.cal.language import lexer, suggest, words
from memoranda.standards.cal.language.lexer import Flaw, Span
from memoranda.standards.cal.language.rules import RuleViolation
from memoranda.standards.cal.language.syntax import Count, Hash, HashOrParam, Param, Text, Value

# Digits. Every whole number with up to 18 digits fits into 63 bits.
_DIGITS_OF_INTEGERS: Final = 18
_BEGINS_NUMBER: Final = "0123456789-"
_BOOLEANS: Final = {"TRUE": True, "FALSE": False}


def error_from_flaw(text: str, flaw: Flaw) -> QueryError:
    """Return the error for a fault of the text as a whole."""
    return error_at(text, flaw.span, RuleViolation(flaw.code, flaw.message, flaw.suggestion))


def error_at(text: str, span: Span, problem: RuleViolation) -> QueryError:
    """Return the error for a broken rule, with its position in the text."""
    line, column = lexer.line_and_column(text, span.start)
    return QueryError(
        problem.message,
        cal_code=problem.code,
        line=line,
        column=column,
        start=span.start,
        end=span.end,
        suggestion=problem.suggestion,
        reason=problem.reason,
    )


class Cursor:
    """A token list with the current position.

    Tokens are checked from the left, each when it is next, so the error reported is always the first one in the text.
    """

    __slots__ = (
        "_base_offset", "_split_labels", "let_kinds", "list_kind", "parameter_positions", "position", "result_kind",
        "statement_word", "strict", "text", "tokens",
    )  # fmt: skip

    def __init__(self, text: str, *, strict: bool) -> None:
        self.text = text
        self.strict = strict
        self.tokens: list[str] = lexer.split_tokens(text)
        self.position = 0
        # Offset in the text at which the token list begins.
        self._base_offset = 0
        # Indexes of `label:word` tokens that were split in three.
        self._split_labels: list[int] = []
        # Name of each parameter → index of its first token; name of each LET → kind of its result.
        self.parameter_positions: dict[str, int] = {}
        self.let_kinds: dict[str, str] = {}
        # The enclosing list, which decides how a comma is read: "batch", "coalesce" or "" for neither.
        self.list_kind = ""
        # Kind of result of the RECALL parsed last: grains, rows, values, groups, a count, or one of these.
        self.result_kind = "grains"
        # The keyword of the statement being parsed, for suggestions.
        self.statement_word = "RECALL"

    # --- errors ------------------------------------------------------------------------------------------

    def span_at(self, position: int) -> Span:
        """Return the position of a token in the text."""
        spans = lexer.find_spans(self.text, self._base_offset)
        for label_index in self._split_labels:
            start, end = spans[label_index]
            colon = self.text.index(":", start)
            spans[label_index : label_index + 1] = [
                Span(start, colon),
                Span(colon, colon + 1),
                Span(colon + 1, end),
            ]
        return spans[min(position, len(spans) - 1)]

    def error_from(self, problem: RuleViolation, position: int | None = None) -> QueryError:
        """Return the error for a broken rule at a token; by default at the next one."""
        span = self.span_at(self.position if position is None else position)
        return error_at(self.text, span, problem)

    def new_error(
        self, code: str, message: str, suggestion: str | None = None, *, position: int | None = None
    ) -> QueryError:
        """Return an error with a message; without a suggestion, it gets an example of the statement."""
        problem = RuleViolation(code, message, suggestion or self.example_hint())
        return self.error_from(problem, position)

    def example_hint(self) -> str:
        """Return an example of the kind of statement being parsed."""
        return f"Example: {suggest.EXAMPLES[self.statement_word]}"

    def raise_unexpected(self, *expected: str, position: int | None = None) -> NoReturn:
        """Raise the error that the next token is none of the expected ones.

        The text of the message is read by `problem.expected_of`, so both must change together.
        """
        position = self.position if position is None else position
        token = self.tokens[position]
        if flaw := lexer.describe_bad_token(token):
            raise self.error_from(RuleViolation(flaw.code, flaw.message, flaw.suggestion), position)
        alternatives = _join_alternatives(expected)
        if not token:
            raise self.new_error(
                "CAL-E002", f"The query ends where {alternatives} is expected.", position=position
            )
        # Phrases such as "a string in quotes" are no candidates for a misspelt word.
        candidates = [alternative for alternative in expected if " " not in alternative]
        hint = (
            suggest.suggest_replacement(token)
            or suggest.did_you_mean(token, candidates)
            or suggest.did_you_mean(token, suggest.KEYWORDS)
        )
        raise self.new_error(
            "CAL-E002",
            f"Unexpected {lexer.quote_token(token)}; expected {alternatives}.",
            hint,
            position=position,
        )

    # --- tokens ------------------------------------------------------------------------------------------

    def peek_keyword(self) -> str:
        """Return the next token in upper case, as a keyword is written, without moving past it."""
        return self.tokens[self.position].upper()

    def expect(self, token: str) -> None:
        """Move past a punctuation token that must stand here."""
        if self.tokens[self.position] != token:
            self.raise_unexpected(token)
        self.position += 1

    def expect_keyword(self, word: str) -> None:
        """Move past a keyword that must stand here."""
        if self.tokens[self.position].upper() != word:
            self.raise_unexpected(word)
        self.position += 1

    def parse_choice(self, options: tuple[str, ...]) -> str:
        """Parse one of some words that are not keywords; return it in lower case."""
        option = self.tokens[self.position].lower()
        if option not in options:
            self.raise_unexpected(*options)
        self.position += 1
        return option

    def parse_name(self, purpose: str) -> str:
        """Parse the name of a context or template: no reserved word, at most 64 characters.

        Raises CAL-E002 for a reserved word and for a name that is too long.
        """
        token = self.tokens[self.position]
        if (
            lexer.classify_token(token) is not lexer.TokenKind.WORD
            or token.upper() in words.REFUSED_WORDS
        ):
            self.raise_unexpected(purpose)
        if token.upper() in words.RESERVED_WORDS:
            raise self.new_error(
                "CAL-E002",
                f"{token} is a reserved word and cannot be {purpose}.",
                "Choose another name.",
            )
        if len(token) > limits.NAME_CHARS:
            raise self.new_error(
                "CAL-E002", f"A name has at most {limits.NAME_CHARS} characters.", "Shorten it."
            )
        self.position += 1
        return token

    def is_at_label(self) -> bool:
        """Return True if a label and its colon are next."""
        token = self.tokens[self.position]
        if ":" in token:
            return token[0].isalpha()
        return token[:1].isalpha() and self.tokens[self.position + 1] == ":"

    def parse_label(self) -> str:
        """Parse a label and its colon: `label ':'` with `label = any word (*C5*) ;`."""
        token = self.tokens[self.position]
        if ":" in token and lexer.classify_token(token) is lexer.TokenKind.DOMAIN_FIELD:
            # The lexer reads `a:RECALL` as a domain field. Where a label is expected, split it into three tokens.
            self._split_labels.append(self.position)
            label, _, field = token.partition(":")
            self.tokens[self.position : self.position + 1] = [label, ":", field]
        label = self.parse_label_word()
        self.expect(":")
        return label

    def parse_label_word(self) -> str:
        """Parse a label without its colon."""
        token = self.tokens[self.position]
        if (
            lexer.classify_token(token) is not lexer.TokenKind.WORD
            or token.upper() in words.REFUSED_WORDS
        ):
            self.raise_unexpected("a label")
        self.position += 1
        return token

    def accept_comma(self) -> bool:
        """Move past a comma and return True if it continues a list of options or fields.

        Return False, and stay, if there is no comma, or if it begins the next entry of BATCH or branch of COALESCE.
        """
        if self.tokens[self.position] != ",":
            return False
        self.position += 1
        begins_entry = self.list_kind == "batch" and self.is_at_label()
        begins_branch = self.list_kind == "coalesce" and self.peek_keyword() == "RECALL"
        if begins_entry or begins_branch:
            self.position -= 1
            return False
        return True

    def restart_at(self, offset: int) -> None:
        """Continue at an offset in the text, after a template section, which is not made of tokens."""
        self.tokens = lexer.split_tokens(self.text, offset)
        self.position = 0
        self._base_offset = offset
        self._split_labels = []

    # --- literals ----------------------------------------------------------------------------------------

    def parse_string(self) -> str:
        """Parse `STR`."""
        token = self.tokens[self.position]
        if token[:1] != '"' or len(token) == 1:
            self.raise_unexpected("a string in quotes")
        self.position += 1
        return lexer.unquote(token)

    def parse_string_or_parameter(self) -> Text:
        """Parse `text = STR | PARAM (*C16*) ;`."""
        token = self.tokens[self.position]
        if token[:1] == "$":
            return self.parse_value_parameter()
        if token[:1] != '"' or len(token) == 1:
            self.raise_unexpected("a string in quotes", "a parameter")
        self.position += 1
        return lexer.unquote(token)

    def parse_parameter(self) -> Param:
        """Parse `PARAM`.

        Raises CAL-E002 beyond the number of parameters that a query may have.
        """
        token = self.tokens[self.position]
        name = token[1:]
        # A name that occurred before is known to be well formed.
        if token[:1] != "$" or (
            name not in self.parameter_positions and not lexer.IDENTIFIER.fullmatch(name)
        ):
            self.raise_unexpected("a parameter such as $name")
        if name not in self.parameter_positions and name not in self.let_kinds:
            if len(self.parameter_positions) == limits.PARAMETERS:
                raise self.new_error(
                    "CAL-E002",
                    f"A query has at most {limits.PARAMETERS} parameters.",
                    "Split the query.",
                )
            self.parameter_positions[name] = self.position
        self.position += 1
        return Param(name=name)

    def parse_value_parameter(self) -> Param:
        """Parse a parameter that stands for one value; refuse the name of a LET, which is a list.

        Raises CAL-E020 for the name of a LET, which stands for a list.
        """
        start = self.position
        parameter = self.parse_parameter()
        if parameter.name in self.let_kinds:
            raise self.new_error(
                "CAL-E020",
                f"${parameter.name} is a LET, which is a list of values; here one value is needed.",
                f"Use it as IN (${parameter.name}), or as a source of ASSEMBLE.",
                position=start,
            )
        return parameter

    def parse_hash_or_parameter(self) -> HashOrParam:
        """Parse `hashp = HASH | PARAM ;`.

        Raises CAL-E015 for a hash in quotes.
        """
        token = self.tokens[self.position]
        if token[:1] == "$":
            return self.parse_value_parameter()
        if token[:1] == '"' and len(token) > 1:
            raise self.new_error(
                "CAL-E015",
                "A hash is not written in quotes.",
                "Remove the quotes: sha256:a1b2c3d4…",
            )
        lower_token = token.lower()
        if not lexer.HASH.fullmatch(lower_token):
            self.raise_unexpected("a hash such as sha256:a1b2c3d4", "a parameter")
        self.position += 1
        return Hash(text=lower_token)

    def parse_integer(self, *, allows_zero: bool = False) -> int:
        """Parse `INT`: digits, above 0 unless `allows_zero`.

        Raises CAL-E006 for a fraction, a sign, and a 0 where none is allowed.
        """
        token = self.tokens[self.position]
        if not (token.isascii() and token.isdigit()):
            if lexer.NUMBER.fullmatch(token):
                raise self.new_error(
                    "CAL-E006", f"{token} is not a whole number above 0.", "Write digits only."
                )
            self.raise_unexpected("a whole number")
        number = int(token) if len(token) <= _DIGITS_OF_INTEGERS else limits.INTEGER_MAX
        if number == 0 and not allows_zero:
            raise self.new_error(
                "CAL-E006", "0 is not allowed here.", "Write a whole number above 0."
            )
        self.position += 1
        return number

    def parse_integer_or_parameter(self, *, allows_zero: bool = False) -> Count:
        """Parse `INT | PARAM`."""
        if self.tokens[self.position][:1] == "$":
            return self.parse_value_parameter()
        return self.parse_integer(allows_zero=allows_zero)

    def parse_number(self) -> int | float:
        """Parse `NUM`.

        Raises CAL-E006 for a number that is too large.
        """
        number = lexer.parse_number(self.tokens[self.position])
        if number is None:
            if not lexer.NUMBER.fullmatch(self.tokens[self.position]):
                self.raise_unexpected("a number")
            raise self.new_error(
                "CAL-E006", "The number is too large.", "Write at most 300 digits."
            )
        self.position += 1
        return number

    def parse_value(self, depth: int = 0) -> Value:
        """Parse `value = STR | NUM | true | false | PARAM | HASH | array ;`."""
        token = self.tokens[self.position]
        first = token[:1]
        if first == '"' and len(token) > 1:
            self.position += 1
            return lexer.unquote(token)
        if first in _BEGINS_NUMBER and first:
            return self.parse_number()
        if first == "$":
            return self.parse_value_parameter()
        if first == "[":
            return self.parse_array(depth)
        boolean = _BOOLEANS.get(token.upper())
        if boolean is not None:
            self.position += 1
            return boolean
        if token[:7].lower() != "sha256:":
            self.raise_unexpected("a value")
        return self.parse_hash_or_parameter()

    def parse_array(self, depth: int = 0) -> tuple[Value, ...]:
        """Parse `array = '[' [ value { ',' value } ] ']' ;`.

        Raises CAL-E002 for arrays that nest too deep.
        """
        if depth == limits.ARRAY_DEPTH:
            raise self.new_error(
                "CAL-E002", f"Arrays nest at most {limits.ARRAY_DEPTH} deep.", "Flatten the array."
            )
        self.position += 1
        if self.tokens[self.position] == "]":
            self.position += 1
            return ()
        values: list[Value] = []
        # Equal tokens have equal values. An array of thousands of elements often has few different ones.
        values_by_token: dict[str, Value] = {}
        while True:
            start, token = self.position, self.tokens[self.position]
            if token in values_by_token:
                values.append(values_by_token[token])
                self.position += 1
            else:
                values.append(self.parse_value(depth + 1))
                if self.position == start + 1:
                    values_by_token[token] = values[-1]
            if self.tokens[self.position] != ",":
                break
            self.position += 1
        if self.tokens[self.position] != "]":
            self.raise_unexpected("]", ",")
        self.position += 1
        return tuple(values)


def _join_alternatives(expected: tuple[str, ...]) -> str:
    """Return the alternatives as one phrase: "a, b or c"."""
    if len(expected) == 1:
        return expected[0]
    return f"{', '.join(expected[:-1])} or {expected[-1]}"
