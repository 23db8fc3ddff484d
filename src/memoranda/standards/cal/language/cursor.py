"""A place in the tokens of a query: what stands here, what was expected, and the error that says so."""

from __future__ import annotations

from typing import Final, NoReturn

from memoranda.errors import QueryError
from memoranda.standards.cal import limits
from memoranda.standards.cal.language import lexer, suggest, words
from memoranda.standards.cal.language.lexer import Flaw, Span
from memoranda.standards.cal.language.rules import Problem
from memoranda.standards.cal.language.syntax import Count, Hash, HashOrParam, Param, Text, Value

_DIGITS_OF_INTEGERS: Final = 18
_BEGINS_NUMBER: Final = "0123456789-"
_BOOLEANS: Final = {"TRUE": True, "FALSE": False}


def flaw_error(text: str, flaw: Flaw) -> QueryError:
    """The error for something wrong with the text as a whole."""
    return error_at(text, flaw.span, Problem(flaw.code, flaw.message, flaw.suggestion))


def error_at(text: str, span: Span, problem: Problem) -> QueryError:
    """The problem, with its place in the text."""
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
    """Reads tokens from the left, each only once it is next: so the first mistake in the text is the one reported."""

    __slots__ = ("_base", "_splits", "at", "lets", "mode", "parameters", "shape", "strict", "text", "tokens", "yields")

    def __init__(self, text: str, *, strict: bool) -> None:
        self.text = text
        self.strict = strict
        self.tokens: list[str] = lexer.split(text)
        self.at = 0
        # Where the tokens begin in the text, and which of them were split in three.
        self._base = 0
        self._splits: list[int] = []
        # Each parameter and its first token; each LET and what it yields.
        self.parameters: dict[str, int] = {}
        self.lets: dict[str, str] = {}
        # What may follow a comma here: "batch" a labelled entry, "coalesce" a branch, "" neither.
        self.mode = ""
        # What the RECALL just read yields: grains, rows, values, groups or one of these.
        self.yields = "grains"
        # The statement being read, for suggestions.
        self.shape = "RECALL"

    # --- errors ------------------------------------------------------------------------------------------

    def span(self, at: int) -> Span:
        """Where a token stands in the text."""
        found = lexer.spans(self.text, self._base)
        for split in self._splits:
            start, end = found[split]
            colon = self.text.index(":", start)
            found[split : split + 1] = [Span(start, colon), Span(colon, colon + 1), Span(colon + 1, end)]
        return found[min(at, len(found) - 1)]

    def error(self, problem: Problem, at: int | None = None) -> QueryError:
        """The problem, at a token (the next one if none is named)."""
        return error_at(self.text, self.span(self.at if at is None else at), problem)

    def problem(self, code: str, message: str, suggestion: str | None = None, *, at: int | None = None) -> QueryError:
        """An error in words; without a suggestion, the shape of the statement is one."""
        return self.error(Problem(code, message, suggestion or self.example()), at)

    def example(self) -> str:
        """A statement of the kind being read."""
        return f"Example: {suggest.SHAPES[self.shape]}"

    def unexpected(self, *expected: str, at: int | None = None) -> NoReturn:
        """The next token is not one that may stand here."""
        place = self.at if at is None else at
        token = self.tokens[place]
        if flaw := lexer.flaw_of(token):
            raise self.error(Problem(flaw.code, flaw.message, flaw.suggestion), place)
        wanted = _listed(expected)
        if not token:
            raise self.problem("CAL-E002", f"The query ends where {wanted} is expected.", at=place)
        hint = suggest.instead_of(token) or suggest.did_you_mean(token, [each for each in expected if " " not in each])
        hint = hint or suggest.did_you_mean(token, suggest.KEYWORDS)
        raise self.problem("CAL-E002", f"Unexpected {lexer.shown(token)}; expected {wanted}.", hint, at=place)

    # --- tokens ------------------------------------------------------------------------------------------

    def word(self) -> str:
        """The next token as a keyword would be written."""
        return self.tokens[self.at].upper()

    def take(self, token: str) -> None:
        """Pass punctuation that must stand here."""
        if self.tokens[self.at] != token:
            self.unexpected(token)
        self.at += 1

    def keyword(self, word: str) -> None:
        """Pass a keyword that must stand here."""
        if self.tokens[self.at].upper() != word:
            self.unexpected(word)
        self.at += 1

    def choice(self, options: tuple[str, ...]) -> str:
        """One of some words that are not keywords, in lower case."""
        found = self.tokens[self.at].lower()
        if found not in options:
            self.unexpected(*options)
        self.at += 1
        return found

    def name(self, what: str) -> str:
        """The name of a context or template: no reserved word, at most 64 characters."""
        token = self.tokens[self.at]
        if lexer.kind_of(token) is not lexer.Kind.WORD or token.upper() in words.REFUSED:
            self.unexpected(what)
        if token.upper() in words.RESERVED:
            raise self.problem("CAL-E002", f"{token} is a reserved word and cannot be {what}.", "Choose another name.")
        if len(token) > limits.NAME_CHARS:
            raise self.problem("CAL-E002", f"A name has at most {limits.NAME_CHARS} characters.", "Shorten it.")
        self.at += 1
        return token

    def is_label(self) -> bool:
        """Whether a label and its colon are next."""
        token = self.tokens[self.at]
        if ":" in token:
            return token[0].isalpha()
        return token[:1].isalpha() and self.tokens[self.at + 1] == ":"

    def label(self) -> str:
        """label = any word (*C5*) ;  followed by its colon."""
        token = self.tokens[self.at]
        if ":" in token and lexer.kind_of(token) is lexer.Kind.DOMAIN_FIELD:
            # Labels are recognised by position: `a:RECALL` is a label here, and a field elsewhere.
            self._splits.append(self.at)
            label, _, rest = token.partition(":")
            self.tokens[self.at : self.at + 1] = [label, ":", rest]
        label = self.label_word()
        self.take(":")
        return label

    def label_word(self) -> str:
        """A label without its colon."""
        token = self.tokens[self.at]
        if lexer.kind_of(token) is not lexer.Kind.WORD or token.upper() in words.REFUSED:
            self.unexpected("a label")
        self.at += 1
        return token

    def more(self) -> bool:
        """Pass a comma that continues a list of options or fields; leave one that begins the next entry or branch."""
        if self.tokens[self.at] != ",":
            return False
        self.at += 1
        if (self.mode == "batch" and self.is_label()) or (self.mode == "coalesce" and self.word() == "RECALL"):
            self.at -= 1
            return False
        return True

    def restart(self, offset: int) -> None:
        """Go on reading at an offset in the text, after something that is not made of tokens."""
        self.tokens = lexer.split(self.text, offset)
        self.at = 0
        self._base = offset
        self._splits = []

    # --- literals ----------------------------------------------------------------------------------------

    def string(self) -> str:
        """STR"""
        token = self.tokens[self.at]
        if token[:1] != '"' or len(token) == 1:
            self.unexpected("a string in quotes")
        self.at += 1
        return lexer.string_of(token)

    def string_or_parameter(self) -> Text:
        """text = STR | PARAM (*C16*) ;"""
        token = self.tokens[self.at]
        if token[:1] == "$":
            return self.value_parameter()
        if token[:1] != '"' or len(token) == 1:
            self.unexpected("a string in quotes", "a parameter")
        self.at += 1
        return lexer.string_of(token)

    def parameter(self) -> Param:
        """PARAM"""
        token = self.tokens[self.at]
        name = token[1:]
        # One that was read before is known to be well formed.
        if token[:1] != "$" or (name not in self.parameters and not lexer.IDENTIFIER.fullmatch(name)):
            self.unexpected("a parameter such as $name")
        if name not in self.parameters and name not in self.lets:
            if len(self.parameters) == limits.PARAMETERS:
                raise self.problem(
                    "CAL-E002", f"A query has at most {limits.PARAMETERS} parameters.", "Split the query."
                )
            self.parameters[name] = self.at
        self.at += 1
        return Param(name=name)

    def value_parameter(self) -> Param:
        """A parameter where one value is meant, not the values of a LET."""
        place = self.at
        found = self.parameter()
        if found.name in self.lets:
            raise self.problem(
                "CAL-E020",
                f"${found.name} is a LET, a list of values, and cannot stand for one.",
                f"Use it as IN (${found.name}), or as a source of ASSEMBLE.",
                at=place,
            )
        return found

    def hash_or_parameter(self) -> HashOrParam:
        """hashp = HASH | PARAM ;"""
        token = self.tokens[self.at]
        if token[:1] == "$":
            return self.value_parameter()
        if token[:1] == '"' and len(token) > 1:
            raise self.problem("CAL-E015", "A hash is not written in quotes.", "Remove the quotes: sha256:a1b2c3d4…")
        low = token.lower()
        if not lexer.HASH.fullmatch(low):
            self.unexpected("a hash such as sha256:a1b2c3d4", "a parameter")
        self.at += 1
        return Hash(text=low)

    def integer(self, *, zero: bool = False) -> int:
        """INT: digits, and not 0 unless it is allowed."""
        token = self.tokens[self.at]
        if not (token.isascii() and token.isdigit()):
            if lexer.NUMBER.fullmatch(token):
                raise self.problem("CAL-E006", f"{token} is not a whole number above 0.", "Write digits only.")
            self.unexpected("a whole number")
        number = int(token) if len(token) <= _DIGITS_OF_INTEGERS else limits.INTEGER_MAX
        if number == 0 and not zero:
            raise self.problem("CAL-E006", "0 cannot stand here.", "Write a whole number above 0.")
        self.at += 1
        return number

    def integer_or_parameter(self, *, zero: bool = False) -> Count:
        """INT | PARAM"""
        if self.tokens[self.at][:1] == "$":
            return self.value_parameter()
        return self.integer(zero=zero)

    def number(self) -> int | float:
        """NUM"""
        found = lexer.number_of(self.tokens[self.at])
        if found is None:
            if not lexer.NUMBER.fullmatch(self.tokens[self.at]):
                self.unexpected("a number")
            raise self.problem("CAL-E006", "The number is too large.", "Write at most 300 digits.")
        self.at += 1
        return found

    def value(self, depth: int = 0) -> Value:
        """value = STR | NUM | true | false | PARAM | HASH | array ;"""
        token = self.tokens[self.at]
        first = token[:1]
        if first == '"' and len(token) > 1:
            self.at += 1
            return lexer.string_of(token)
        if first in _BEGINS_NUMBER and first:
            return self.number()
        if first == "$":
            return self.value_parameter()
        if first == "[":
            return self.array(depth)
        boolean = _BOOLEANS.get(token.upper())
        if boolean is not None:
            self.at += 1
            return boolean
        if token[:7].lower() != "sha256:":
            self.unexpected("a value")
        return self.hash_or_parameter()

    def array(self, depth: int = 0) -> tuple[Value, ...]:
        """array = '[' [ value { ',' value } ] ']' ;"""
        if depth == limits.ARRAY_DEPTH:
            raise self.problem("CAL-E002", f"Arrays nest at most {limits.ARRAY_DEPTH} deep.", "Flatten the array.")
        self.at += 1
        if self.tokens[self.at] == "]":
            self.at += 1
            return ()
        found: list[Value] = []
        # What a token says it says again: a short text can hold thousands, and only few different ones.
        known: dict[str, Value] = {}
        while True:
            place, token = self.at, self.tokens[self.at]
            if token in known:
                found.append(known[token])
                self.at += 1
            else:
                found.append(self.value(depth + 1))
                if self.at == place + 1:
                    known[token] = found[-1]
            if self.tokens[self.at] != ",":
                break
            self.at += 1
        if self.tokens[self.at] != "]":
            self.unexpected("]", ",")
        self.at += 1
        return tuple(found)


def _listed(expected: tuple[str, ...]) -> str:
    if len(expected) == 1:
        return expected[0]
    return f"{', '.join(expected[:-1])} or {expected[-1]}"
