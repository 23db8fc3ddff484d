"""Parser of the statements, and of the query around them (sections 3, 8, 10.6).

A recursive-descent parser: one method per grammar rule, and its docstring quotes the rule. RECALL has its own module.
`Parser` reads the token list once, from left to right, and never backtracks.

To change the grammar: change the rule in the docstring and the method together, add the word to `words`, and cases to
the vectors of `tests/standards/cal`. An error must point at the first token that cannot continue the query, and its
message lists what could.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, cast

from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.language import binding, lexer, suggest, words
from memoranda.standards.cal.language.cursor import error_from_flaw
from memoranda.standards.cal.language.evolve import EvolveParser
from memoranda.standards.cal.language.recall import CLAUSE_WORDS
from memoranda.standards.cal.language.syntax import (
    BatchEntry,
    BatchQuery,
    Coalesce,
    Describe,
    Exists,
    Explain,
    Explainable,
    History,
    Let,
    ParsedQuery,
    Recall,
    SetOp,
    Statement,
    Text,
)

_ENTRY_WORDS: Final = ("RECALL", "EXISTS", "HISTORY", "DESCRIBE", "COALESCE")


def parse(
    text: str | bytes, *, strict: bool = False, params: Mapping[str, object] | None = None
) -> ParsedQuery:
    """Parse one query. Raise QueryError with the code of the first mistake, and nothing else.

    With `params` (even an empty mapping), every parameter must have a value and is replaced by it. `strict` follows the
    printed specification where we follow the examples of its README otherwise.

    `params` None leaves parameters unbound.
    """
    if isinstance(text, bytes):
        text = _decode(text)
    query = parse_text(text, strict=strict)
    return query if params is None else binding.bind(query, params, text=text)


def _decode(data: bytes) -> str:
    """Decode UTF-8, or raise the CAL error for bytes that are not."""
    # The length is checked first, so that CAL-E001 takes precedence over CAL-E070.
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        flaw = lexer.find_text_flaw(" " * len(data)) or lexer.utf8_flaw(error.start)
        raise error_from_flaw("", flaw) from None


def parse_text(
    text: str, *, strict: bool = False, max_bytes: int = limits.QUERY_BYTES
) -> ParsedQuery:
    """Parse one query. Raise QueryError, and nothing else."""
    if flaw := lexer.find_text_flaw(text, max_bytes):
        raise error_from_flaw(text, flaw)
    return Parser(text, strict=strict).parse_query()


class Parser(EvolveParser):
    """Parser of one query."""

    __slots__ = ("_let_depths", "_let_uses")

    def __init__(self, text: str, *, strict: bool) -> None:
        super().__init__(text, strict=strict)
        # Uses of a LET inside a LET, as (token index, name); only ASSEMBLE allows them.
        self._let_uses: list[tuple[int, str]] = []
        # Name of each LET → levels of LETs that it builds on, itself included.
        self._let_depths: dict[str, int] = {}

    def parse_query(self) -> ParsedQuery:
        """Parse `query = [ CAL '/' '1' ] , { let_binding } , statement , EOF ;`.

        Raises CAL-E014 for an empty query.
        """
        if not self.tokens[0]:
            raise self.new_error("CAL-E014", "The query is empty.")
        self.parse_version()
        lets = []
        while self.peek_keyword() == "LET":
            lets.append(self.parse_let_binding())
        statement = self.parse_statement()
        if self.tokens[self.position]:
            clauses = CLAUSE_WORDS if isinstance(statement, Recall) else ()
            self.raise_unexpected("the end of the query", *clauses)
        return ParsedQuery(statement=statement, lets=tuple(lets))

    def parse_version(self) -> None:
        """Parse `[ CAL '/' '1' ]`.

        Raises CAL-E100 for another version than 1.
        """
        if self.peek_keyword() != "CAL":
            return
        self.position += 1
        self.expect("/")
        number = self.tokens[self.position]
        if number != "1":
            if not lexer.NUMBER.fullmatch(number):
                self.raise_unexpected("1")
            raise self.new_error(
                "CAL-E100", f"CAL/{number[:20]} is not a supported version.", "Write CAL/1."
            )
        self.position += 1

    # --- LET ---------------------------------------------------------------------------------------------

    def parse_let_binding(self) -> Let:
        """Parse `let_binding = LET PARAM '=' recall ';' ;`.

        Raises CAL-E002 for too many bindings, and CAL-E009 for a name that is bound already. A name must be bound
        before it is used.
        """
        self.statement_word = "LET"
        if len(self.let_kinds) == limits.LETS:
            raise self.new_error(
                "CAL-E002", f"A query has at most {limits.LETS} LET bindings.", "Leave one out."
            )
        self.position += 1
        start = self.position
        token = self.tokens[start]
        name = token[1:]
        if token[:1] != "$" or not lexer.IDENTIFIER.fullmatch(name):
            self.raise_unexpected("a parameter such as $name")
        if name in self.let_kinds or name == words.CURRENT_USER:
            raise self.new_error("CAL-E009", f"${name} is bound already.", "Choose another name.")
        if name in self.parameter_positions:
            raise self._not_visible_error(name, self.parameter_positions[name])
        self.position += 1
        self.expect("=")
        query_start = self.position
        query = self.parse_recall()
        self._let_depths[name] = 1 + self._measure_let_depth(query_start, name)
        self.expect(";")
        self.let_kinds[name] = self.result_kind
        return Let(name=name, query=query)

    def _measure_let_depth(self, query_start: int, name: str) -> int:
        """Return the depth of the LETs used since a token, and record their uses in `_let_uses`."""
        depth = 0
        for position in range(query_start, self.position):
            token = self.tokens[position]
            if token[:1] != "$":
                continue
            if token[1:] == name:
                raise self._not_visible_error(name, position)
            used_depth = self._let_depths.get(token[1:], 0)
            if used_depth:
                self._let_uses.append((position, token[1:]))
            if used_depth == limits.LET_DEPTH:
                raise self.new_error(
                    "CAL-E007",
                    f"LET bindings can use one another at most {used_depth} levels deep.",
                    "Join two of them.",
                    position=position,
                )
            depth = max(depth, used_depth)
        return depth

    def _not_visible_error(self, name: str, position: int) -> Exception:
        """Return the error for a LET that is used where it is not visible."""
        message = f"${name} is not visible here."
        return self.new_error(
            "CAL-E008", message, "Only ASSEMBLE lets a LET use those before it.", position=position
        )

    # --- statements --------------------------------------------------------------------------------------

    def parse_statement(self) -> Statement:
        """Parse `statement = explain | recall | assemble | set | exists | history | describe | batch | coalesce
        | define_template | add | supersede | revert ;`.
        """
        word = self.peek_keyword()
        if self._let_uses:
            kind = self.tokens[self.position + 1].upper() if word == "EXPLAIN" else word
            if kind != "ASSEMBLE":
                position, name = self._let_uses[0]
                raise self._not_visible_error(name, position)
        if word == "EXPLAIN":
            return self.parse_explain()
        return self.parse_explainable()

    def parse_explain(self) -> Explain:
        """Parse `explain = EXPLAIN ( … (*C14: every statement but EXPLAIN*) ) ;`."""
        self.statement_word = "EXPLAIN"
        self.position += 1
        return Explain(query=self.parse_explainable())

    def parse_explainable(self) -> Explainable:
        """Parse every statement but EXPLAIN."""
        word = self.peek_keyword()
        parser = _STATEMENT_PARSERS.get(word)
        if parser is None:
            self.raise_unexpected(
                *(
                    keyword
                    for keyword in suggest.STATEMENTS
                    if self.statement_word != "EXPLAIN" or keyword != "EXPLAIN"
                )
            )
        self.statement_word = word
        return parser(self)

    # --- set operations, COALESCE, BATCH -----------------------------------------------------------------

    def parse_set(self) -> SetOp:
        """Parse `set = operand , set_op , operand , { set_op , operand (*C15*) } ;`."""
        operation, _ = self._parse_set_chain(0, 0)
        return operation

    def _parse_set_chain(self, count: int, depth: int) -> tuple[SetOp, int]:
        """Parse a chain of set operations; `count` operands were parsed before.

        Return the chain and the number of operands parsed so far.
        """
        operation, count = self.parse_operand(count, depth)
        if self.peek_keyword() not in words.SET_OPERATORS:
            self.raise_unexpected(*words.SET_OPERATORS)
        while (word := self.peek_keyword()) in words.SET_OPERATORS:
            self.position += 1
            right_operand, count = self.parse_operand(count, depth)
            operator = cast(Literal["union", "intersect", "except"], word.lower())
            operation = SetOp(
                operator=operator, left_operand=operation, right_operand=right_operand
            )
        assert isinstance(operation, SetOp)
        return operation, count

    def parse_operand(self, count: int, depth: int) -> tuple[Recall | Coalesce | SetOp, int]:
        """Parse `operand = '(' query without EOF ')' ;`. The query must return grains.

        It is a RECALL, a COALESCE or a set. Return the operand and the number of operands parsed so far.
        """
        # A nested set has at least two operands, so a set with five operands cannot nest deeper than this.
        if count == limits.SET_OPERANDS or depth == limits.SET_OPERANDS:
            raise self.new_error(
                "CAL-E013",
                f"A set operation has at most {limits.SET_OPERANDS} operands.",
                "Leave one out.",
            )
        self.expect("(")
        self.parse_version()
        start = self.position
        word = self.peek_keyword()
        if word == "(":
            operation, count = self._parse_set_chain(count, depth + 1)
            self.expect(")")
            return operation, count
        if word == "COALESCE":
            operand: Recall | Coalesce = self.parse_coalesce(grains_only=True)
        elif word == "RECALL":
            operand = self.parse_recall()
            self.require_grains("A set operation", start)
        else:
            self.raise_unexpected("RECALL", "COALESCE", "(")
        self.expect(")")
        return operand, count + 1

    def parse_coalesce(self, *, grains_only: bool = False) -> Coalesce:
        """Parse `coalesce = COALESCE '(' recall ',' recall { ',' recall } ')' ;` (*C8: ABOUT with LIKE is legal
        here*).
        """
        self.expect_keyword("COALESCE")
        self.expect("(")
        outer_list_kind, self.list_kind = self.list_kind, "coalesce"
        branches: list[Recall] = []
        while True:
            start = self.position
            if len(branches) == limits.COALESCE_BRANCHES:
                raise self.new_error(
                    "CAL-E002",
                    f"COALESCE has at most {limits.COALESCE_BRANCHES} branches.",
                    "Leave one out.",
                )
            branches.append(self.parse_recall(in_coalesce=True))
            if grains_only:
                self.require_grains("A set operation", start)
            if self.tokens[self.position] != ",":
                break
            self.position += 1
        if len(branches) < 2:
            self.expect(",")
        self.list_kind = outer_list_kind
        self.expect(")")
        return Coalesce(branches=tuple(branches))

    def parse_batch(self) -> BatchQuery:
        """Parse `batch = BATCH '{' entry { ',' entry } '}' ;`.

        Raises CAL-E002 for too many entries and for a label that occurs twice.
        """
        self.expect_keyword("BATCH")
        self.expect("{")
        self.list_kind = "batch"
        entries: dict[str, BatchEntry] = {}
        while True:
            if len(entries) == limits.BATCH_ENTRIES:
                raise self.new_error(
                    "CAL-E002",
                    f"BATCH has at most {limits.BATCH_ENTRIES} entries.",
                    "Split it in two.",
                )
            start = self.position
            entry = self.parse_entry()
            if entry.label in entries:
                raise self.new_error(
                    "CAL-E002",
                    f"The label {entry.label} occurs twice.",
                    "Rename one.",
                    position=start,
                )
            entries[entry.label] = entry
            if self.tokens[self.position] != ",":
                break
            self.position += 1
        self.list_kind = ""
        if self.tokens[self.position] != "}":
            self.raise_unexpected("}", ",", *CLAUSE_WORDS)
        self.position += 1
        return BatchQuery(entries=tuple(entries.values()))

    def parse_entry(self) -> BatchEntry:
        """Parse `entry = label ':' ( recall | exists | history | describe | coalesce ) ;`."""
        label = self.parse_label()
        word = self.peek_keyword()
        if word not in _ENTRY_WORDS:
            self.raise_unexpected(*_ENTRY_WORDS)
        query = _STATEMENT_PARSERS[word](self)
        return BatchEntry(
            label=label, query=cast(Recall | Exists | History | Describe | Coalesce, query)
        )

    # --- small reads -------------------------------------------------------------------------------------

    def parse_exists(self) -> Exists:
        """Parse `exists = EXISTS hashp ;`."""
        self.expect_keyword("EXISTS")
        return Exists(hash=self.parse_hash_or_parameter())

    def parse_history(self) -> History:
        """Parse `history = HISTORY hashp [ DIFF hashp ]
        | HISTORY [ in_clause ] WHERE 'subject' '=' value AND 'relation' '=' value [ AS OF text ] ;`.
        """
        self.expect_keyword("HISTORY")
        if self.peek_keyword() not in ("IN", "WHERE"):
            reference = self.parse_hash_or_parameter()
            if self.peek_keyword() != "DIFF":
                return History(hash=reference)
            self.position += 1
            return History(hash=reference, diff=self.parse_hash_or_parameter())
        namespace = self.parse_in_clause() if self.peek_keyword() == "IN" else None
        self.expect_keyword("WHERE")
        subject = self.parse_equality("subject")
        self.expect_keyword("AND")
        relation = self.parse_equality("relation")
        as_of: Text | None = None
        if self.peek_keyword() == "AS":
            self.position += 1
            self.expect_keyword("OF")
            as_of = self.parse_time()
        return History(namespace=namespace, subject=subject, relation=relation, as_of=as_of)

    def parse_equality(self, name: str) -> Text:
        """Parse `name '=' value`, where the name is a common field."""
        self.parse_choice((name,))
        self.expect("=")
        return cast(Text, self.parse_checked_value(fields.COMMON_FIELDS[name]))

    def parse_describe(self) -> Describe:
        """Parse `describe = DESCRIBE ( 'grain_types' | 'fields' [ type_singular ] | 'capabilities' | … ) ;`."""
        self.expect_keyword("DESCRIBE")
        target = self.parse_choice(words.DESCRIBE_TARGETS)
        if target != "fields" or not self.tokens[self.position][:1].isalpha():
            return Describe(target=target)
        return Describe(target=target, grain_type=self.parse_type_singular())


_STATEMENT_PARSERS: Final[Mapping[str, Callable[[Parser], Explainable]]] = {
    "RECALL": Parser.parse_recall,
    "ASSEMBLE": Parser.parse_assemble,
    "(": Parser.parse_set,
    "EXISTS": Parser.parse_exists,
    "HISTORY": Parser.parse_history,
    "DESCRIBE": Parser.parse_describe,
    "BATCH": Parser.parse_batch,
    "COALESCE": Parser.parse_coalesce,
    "ADD": Parser.parse_add,
    "SUPERSEDE": Parser.parse_supersede,
    "REVERT": Parser.parse_revert,
    "DEFINE": Parser.parse_define_template,
}
