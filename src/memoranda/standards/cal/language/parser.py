"""The statements, and the query around them (sections 3, 8, 10.6).

One function for each rule of the grammar, with the rule as its comment; RECALL has its own module. `Parser` reads the
token list once, from the left, and never looks back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, cast

from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.language import binding, lexer, suggest, words
from memoranda.standards.cal.language.cursor import flaw_error
from memoranda.standards.cal.language.evolve import EvolveParser
from memoranda.standards.cal.language.recall import CLAUSE_WORDS
from memoranda.standards.cal.language.syntax import (
    Batch,
    Coalesce,
    Describe,
    Entry,
    Exists,
    Explain,
    Explainable,
    History,
    Let,
    Query,
    Recall,
    SetOp,
    Statement,
    Text,
)

_ENTRIES: Final = ("RECALL", "EXISTS", "HISTORY", "DESCRIBE", "COALESCE")


def parse(text: str | bytes, *, strict: bool = False, params: Mapping[str, object] | None = None) -> Query:
    """Read one query. Raises QueryError with the code of the first mistake, and nothing else.

    With `params` (an empty mapping is one, too) every parameter must have a value, and is replaced by it. `strict`
    holds to the letter of the specification where we follow its README instead.
    """
    if isinstance(text, bytes):
        text = _decoded(text)
    query = parse_text(text, strict=strict)
    return query if params is None else binding.bind(query, params, text=text)


def _decoded(data: bytes) -> str:
    # Length first: CAL-E001 before CAL-E070.
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        flaw = lexer.flaw_in(" " * len(data)) or lexer.not_utf8(error.start)
        raise flaw_error("", flaw) from None


def parse_text(text: str, *, strict: bool = False, max_bytes: int = limits.QUERY_BYTES) -> Query:
    """Read one query. Raises QueryError, and nothing else."""
    if flaw := lexer.flaw_in(text, max_bytes):
        raise flaw_error(text, flaw)
    return Parser(text, strict=strict).query()


class Parser(EvolveParser):
    """Reads one query."""

    __slots__ = ("_let_depths", "_let_uses")

    def __init__(self, text: str, *, strict: bool) -> None:
        super().__init__(text, strict=strict)
        # Uses of a LET inside a LET, which only ASSEMBLE allows; and how deep each LET builds on others.
        self._let_uses: list[tuple[int, str]] = []
        self._let_depths: dict[str, int] = {}

    def query(self) -> Query:
        """query = [ CAL '/' '1' ] , { let_binding } , statement , EOF ;"""
        if not self.tokens[0]:
            raise self.problem("CAL-E014", "The query is empty.")
        self.version()
        lets = []
        while self.word() == "LET":
            lets.append(self.let_binding())
        statement = self.statement()
        if self.tokens[self.at]:
            self.unexpected("the end of the query", *(CLAUSE_WORDS if isinstance(statement, Recall) else ()))
        return Query(statement=statement, lets=tuple(lets))

    def version(self) -> None:
        """[ CAL '/' '1' ]"""
        if self.word() != "CAL":
            return
        self.at += 1
        self.take("/")
        number = self.tokens[self.at]
        if number != "1":
            if not lexer.NUMBER.fullmatch(number):
                self.unexpected("1")
            raise self.problem("CAL-E100", f"CAL/{number[:20]} is not a version spoken here.", "Write CAL/1.")
        self.at += 1

    # --- LET ---------------------------------------------------------------------------------------------

    def let_binding(self) -> Let:
        """let_binding = LET PARAM '=' recall ';' ;"""
        self.shape = "LET"
        if len(self.lets) == limits.LETS:
            raise self.problem("CAL-E002", f"A query has at most {limits.LETS} LET bindings.", "Leave one out.")
        self.at += 1
        place = self.at
        token = self.tokens[place]
        name = token[1:]
        if token[:1] != "$" or not lexer.IDENTIFIER.fullmatch(name):
            self.unexpected("a parameter such as $name")
        if name in self.lets or name == words.CURRENT_USER:
            raise self.problem("CAL-E009", f"${name} is bound already.", "Choose another name.")
        if name in self.parameters:
            raise self._not_visible(name, self.parameters[name])
        self.at += 1
        self.take("=")
        first = self.at
        query = self.recall()
        self._let_depths[name] = 1 + self._uses(first, name)
        self.take(";")
        self.lets[name] = self.yields
        return Let(name=name, query=query)

    def _uses(self, first: int, name: str) -> int:
        """The depth of the LETs used between a token and the next one; also notes where."""
        depth = 0
        for place in range(first, self.at):
            token = self.tokens[place]
            if token[:1] != "$":
                continue
            if token[1:] == name:
                raise self._not_visible(name, place)
            used = self._let_depths.get(token[1:], 0)
            if used:
                self._let_uses.append((place, token[1:]))
            if used == limits.LET_DEPTH:
                raise self.problem(
                    "CAL-E007", f"LET bindings build on one another at most {used} deep.", "Join two of them.", at=place
                )
            depth = max(depth, used)
        return depth

    def _not_visible(self, name: str, at: int) -> Exception:
        message = f"${name} cannot be seen here."
        return self.problem("CAL-E008", message, "Only ASSEMBLE lets a LET use those before it.", at=at)

    # --- statements --------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """statement = explain | recall | assemble | set | exists | history | describe | batch | coalesce
        | define_template | add | supersede | revert ;"""
        word = self.word()
        if self._let_uses:
            kind = self.tokens[self.at + 1].upper() if word == "EXPLAIN" else word
            if kind != "ASSEMBLE":
                place, name = self._let_uses[0]
                raise self._not_visible(name, place)
        if word == "EXPLAIN":
            return self.explain()
        return self.explainable()

    def explain(self) -> Explain:
        """explain = EXPLAIN ( … (*C14: every statement but EXPLAIN*) ) ;"""
        self.shape = "EXPLAIN"
        self.at += 1
        return Explain(query=self.explainable())

    def explainable(self) -> Explainable:
        """Every statement but EXPLAIN."""
        word = self.word()
        reader = _STATEMENTS.get(word)
        if reader is None:
            self.unexpected(*(each for each in suggest.STATEMENTS if self.shape != "EXPLAIN" or each != "EXPLAIN"))
        self.shape = word
        return reader(self)

    # --- set operations, COALESCE, BATCH -----------------------------------------------------------------

    def set_operation(self) -> SetOp:
        """set = operand , set_op , operand , { set_op , operand (*C15*) } ;"""
        found, _ = self._set(0, 0)
        return found

    def _set(self, count: int, depth: int) -> tuple[SetOp, int]:
        """A chain, given the operands read so far; answers with the chain and their number."""
        left, count = self.operand(count, depth)
        if self.word() not in words.SET_OPERATORS:
            self.unexpected(*words.SET_OPERATORS)
        while (word := self.word()) in words.SET_OPERATORS:
            self.at += 1
            right, count = self.operand(count, depth)
            operator = cast(Literal["union", "intersect", "except"], word.lower())
            left = SetOp(operator=operator, left=left, right=right)
        assert isinstance(left, SetOp)
        return left, count

    def operand(self, count: int, depth: int) -> tuple[Recall | Coalesce | SetOp, int]:
        """operand = '(' query without EOF ')' ;  a RECALL, COALESCE or set that yields grains"""
        # A set inside a set has two operands of its own: five operands cannot nest deeper.
        if count == limits.SET_OPERANDS or depth == limits.SET_OPERANDS:
            raise self.problem(
                "CAL-E013", f"A set operation has at most {limits.SET_OPERANDS} operands.", "Leave one out."
            )
        self.take("(")
        self.version()
        place = self.at
        word = self.word()
        if word == "(":
            found, count = self._set(count, depth + 1)
            self.take(")")
            return found, count
        if word == "COALESCE":
            operand: Recall | Coalesce = self.coalesce(grains_only=True)
        elif word == "RECALL":
            operand = self.recall()
            self.must_yield_grains("A set operation", place)
        else:
            self.unexpected("RECALL", "COALESCE", "(")
        self.take(")")
        return operand, count + 1

    def coalesce(self, *, grains_only: bool = False) -> Coalesce:
        """coalesce = COALESCE '(' recall ',' recall { ',' recall } ')' ;  (*C8: ABOUT with LIKE is legal here*)"""
        self.keyword("COALESCE")
        self.take("(")
        mode, self.mode = self.mode, "coalesce"
        branches: list[Recall] = []
        while True:
            place = self.at
            if len(branches) == limits.COALESCE_BRANCHES:
                raise self.problem(
                    "CAL-E002", f"COALESCE has at most {limits.COALESCE_BRANCHES} branches.", "Leave one out."
                )
            branches.append(self.recall(in_coalesce=True))
            if grains_only:
                self.must_yield_grains("A set operation", place)
            if self.tokens[self.at] != ",":
                break
            self.at += 1
        if len(branches) < 2:
            self.take(",")
        self.mode = mode
        self.take(")")
        return Coalesce(branches=tuple(branches))

    def batch(self) -> Batch:
        """batch = BATCH '{' entry { ',' entry } '}' ;"""
        self.keyword("BATCH")
        self.take("{")
        self.mode = "batch"
        entries: dict[str, Entry] = {}
        while True:
            if len(entries) == limits.BATCH_ENTRIES:
                raise self.problem("CAL-E002", f"BATCH has at most {limits.BATCH_ENTRIES} entries.", "Split it in two.")
            place = self.at
            entry = self.entry()
            if entry.label in entries:
                raise self.problem("CAL-E002", f"The label {entry.label} is given twice.", "Rename one.", at=place)
            entries[entry.label] = entry
            if self.tokens[self.at] != ",":
                break
            self.at += 1
        self.mode = ""
        if self.tokens[self.at] != "}":
            self.unexpected("}", ",", *CLAUSE_WORDS)
        self.at += 1
        return Batch(entries=tuple(entries.values()))

    def entry(self) -> Entry:
        """entry = label ':' ( recall | exists | history | describe | coalesce ) ;"""
        label = self.label()
        word = self.word()
        if word not in _ENTRIES:
            self.unexpected(*_ENTRIES)
        query = _STATEMENTS[word](self)
        return Entry(label=label, query=cast(Recall | Exists | History | Describe | Coalesce, query))

    # --- small reads -------------------------------------------------------------------------------------

    def exists(self) -> Exists:
        """exists = EXISTS hashp ;"""
        self.keyword("EXISTS")
        return Exists(hash=self.hash_or_parameter())

    def history(self) -> History:
        """history = HISTORY hashp [ DIFF hashp ]
        | HISTORY [ in_clause ] WHERE 'subject' '=' value AND 'relation' '=' value [ AS OF text ] ;"""
        self.keyword("HISTORY")
        if self.word() not in ("IN", "WHERE"):
            first = self.hash_or_parameter()
            if self.word() != "DIFF":
                return History(hash=first)
            self.at += 1
            return History(hash=first, diff=self.hash_or_parameter())
        namespace = self.in_clause() if self.word() == "IN" else None
        self.keyword("WHERE")
        subject = self.equal("subject")
        self.keyword("AND")
        relation = self.equal("relation")
        as_of: Text | None = None
        if self.word() == "AS":
            self.at += 1
            self.keyword("OF")
            as_of = self.time()
        return History(namespace=namespace, subject=subject, relation=relation, as_of=as_of)

    def equal(self, name: str) -> Text:
        """'subject' '=' value"""
        self.choice((name,))
        self.take("=")
        return cast(Text, self.checked_value(fields.COMMON[name]))

    def describe(self) -> Describe:
        """describe = DESCRIBE ( 'grain_types' | 'fields' [ type_singular ] | 'capabilities' | … ) ;"""
        self.keyword("DESCRIBE")
        target = self.choice(words.DESCRIBE_TARGETS)
        if target != "fields" or not self.tokens[self.at][:1].isalpha():
            return Describe(target=target)
        return Describe(target=target, grain_type=self.type_singular())


_STATEMENTS: Final[Mapping[str, Callable[[Parser], Explainable]]] = {
    "RECALL": Parser.recall,
    "ASSEMBLE": Parser.assemble,
    "(": Parser.set_operation,
    "EXISTS": Parser.exists,
    "HISTORY": Parser.history,
    "DESCRIBE": Parser.describe,
    "BATCH": Parser.batch,
    "COALESCE": Parser.coalesce,
    "ADD": Parser.add,
    "SUPERSEDE": Parser.supersede,
    "REVERT": Parser.revert,
    "DEFINE": Parser.define_template,
}
