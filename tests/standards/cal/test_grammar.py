"""The printed grammar is the one that the parser reads, and the card for models is made of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest
from tests.standards.cal import published
from tests.standards.cal.published import examples_on_the_card

from memoranda.errors import QueryError
from memoranda.service.cal.cal import Cal
from memoranda.standards.cal import fields
from memoranda.standards.cal.grammar import RULES, TOKENS, ebnf, prompt_card
from memoranda.standards.cal.language import lexer, options, words
from memoranda.standards.cal.language.parser import Parser, parse

# --- reading the notation --------------------------------------------------------------------------------

_SYMBOL: Final = re.compile(r'"[^"]*"|\w+|[()|?*+]')


@dataclass(eq=False)
class Node:
    """A piece of a rule: a word, a rule or token by name, or pieces in a row, to choose from, or repeated."""

    kind: str
    name: str = ""
    parts: list[Node] = field(default_factory=list)


def read(rule: str) -> Node:
    symbols = _SYMBOL.findall(rule)
    assert "".join(symbols) == rule.replace(" ", "")
    found, rest = _choice(symbols)
    assert rest == []
    return found


def _choice(symbols: list[str]) -> tuple[Node, list[str]]:
    branches = []
    while True:
        parts: list[Node] = []
        while symbols and symbols[0] not in (")", "|"):
            symbol, *symbols = symbols
            if symbol == "(":
                part, symbols = _choice(symbols)
                assert symbols.pop(0) == ")"
            else:
                part = Node("word", symbol[1:-1]) if symbol[0] == '"' else Node("name", symbol)
            if symbols and symbols[0] in ("?", "*", "+"):
                part = Node(symbols.pop(0), parts=[part])
            parts.append(part)
        branches.append(Node("row", parts=parts))
        if not symbols or symbols[0] == ")":
            return Node("choice", parts=branches), symbols
        symbols = symbols[1:]


GRAMMAR: Final = {name: read(rule) for name, rule in RULES.items()}


def leaves(node: Node) -> Iterator[Node]:
    if node.kind in ("word", "name"):
        yield node
    for part in node.parts:
        yield from leaves(part)


def terminals(rule: str) -> set[str]:
    return {leaf.name for leaf in leaves(GRAMMAR[rule]) if leaf.kind == "word"}


def names(rule: str) -> set[str]:
    return {leaf.name for leaf in leaves(GRAMMAR[rule]) if leaf.kind == "name"}


# --- recognising by it -----------------------------------------------------------------------------------

ENTRY_WORDS: Final = ("RECALL", "EXISTS", "HISTORY", "DESCRIBE", "COALESCE")


def _is_word(token: str) -> bool:
    return lexer.classify_token(token) is lexer.TokenKind.WORD and token.upper() not in words.REFUSED_WORDS


MATCHES: Final[dict[str, Callable[[str], bool]]] = {
    "STR": lambda token: lexer.classify_token(token) is lexer.TokenKind.STRING,
    "NUM": lambda token: lexer.classify_token(token) is lexer.TokenKind.NUMBER,
    "INT": str.isdigit,
    "HASH": lambda token: lexer.classify_token(token) is lexer.TokenKind.HASH,
    "PARAM": lambda token: lexer.classify_token(token) is lexer.TokenKind.PARAMETER,
    "WORD": _is_word,
    "ID": lambda token: _is_word(token) and token.upper() not in words.RESERVED_WORDS and len(token) <= 64,
    "X_ID": lambda token: _is_word(token) and token.startswith("x_"),
    "DOMAIN_FIELD": lambda token: lexer.classify_token(token) is lexer.TokenKind.DOMAIN_FIELD,
    "EOF": lambda token: token == "",
}


class Recogniser:
    """Whether tokens are a sentence of the grammar: every end at which a piece that begins here may stop."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        for token in lexer.split_tokens(text):
            # `a:RECALL` is a label and a word where an entry begins.
            label, colon, rest = token.partition(":")
            self.tokens += [label, colon, rest] if rest.upper() in ENTRY_WORDS else [token]
            if not token:
                break
        self.known: dict[tuple[Node, int], frozenset[int]] = {}

    def accepts(self) -> bool:
        return len(self.tokens) in self.ends(GRAMMAR["query"], 0)

    def ends(self, node: Node, at: int) -> frozenset[int]:
        if (node, at) not in self.known:
            self.known[node, at] = frozenset(self._ends(node, at))
        return self.known[node, at]

    def _ends(self, node: Node, at: int) -> set[int]:
        if node.kind == "word":
            return {at + 1} if at < len(self.tokens) and self.tokens[at].upper() == node.name.upper() else set()
        if node.kind == "name" and node.name in GRAMMAR:
            return set(self.ends(GRAMMAR[node.name], at))
        if node.kind == "name":
            if node.name == "TEXT":
                return set(range(at, len(self.tokens)))
            return {at + 1} if at < len(self.tokens) and MATCHES[node.name](self.tokens[at]) else set()
        if node.kind == "choice":
            return {end for part in node.parts for end in self.ends(part, at)}
        if node.kind == "row":
            found = {at}
            for part in node.parts:
                found = {end for place in found for end in self.ends(part, place)}
            return found
        return self._repeated(node, at)

    def _repeated(self, node: Node, at: int) -> set[int]:
        (part,) = node.parts
        found = set() if node.kind == "+" else {at}
        new = set(self.ends(part, at))
        while new - found:
            found |= new
            if node.kind != "?":
                new = {end for place in new for end in self.ends(part, place)}
        return found


@pytest.mark.requirement("CAL-8.6-grammar")
@pytest.mark.parametrize("text", published.VALID, ids=range(len(published.VALID)))
def test_every_valid_query_is_a_sentence_of_the_printed_grammar(text: str) -> None:
    assert Recogniser(text).accepts()


@pytest.mark.parametrize(
    "text",
    ["", "RECALL OR", "RECALL beliefs;", "EXPLAIN EXPLAIN RECALL", "DELETE beliefs", "ASSEMBLE FROM RECALL",
     "BATCH { a: ASSEMBLE FROM (RECALL) }", "COALESCE(RECALL)", "(RECALL)", "RECALL WHERE NOT subject = 1",
     "UNDEFINE TEMPLATE t", 'REVERT sha256:aaaaaaaa', "RECALL WHERE subject IS PREFERENCE"],
)  # fmt: skip
def test_what_the_parser_refuses_as_a_sentence_the_printed_grammar_refuses(text: str) -> None:
    assert not Recogniser(text).accepts()
    with pytest.raises(QueryError):
        parse(text)


# --- writing by it ---------------------------------------------------------------------------------------

SPELLED: Final = {
    "STR": ['"alice"', '"last 7 days"', '"a \\"b\\" \\\\"'],
    "NUM": ["0.5", "1", "-2"],
    "INT": ["5", "100"],
    "HASH": [published.HASH, "sha256:a1b2c3d4"],
    "PARAM": ["$p", "$team"],
    "WORD": ["a", "history", "recent", "Policy", "source_1"],
    "ID": ["briefing", "t1"],
    "X_ID": ["x_boost"],
    "DOMAIN_FIELD": ["hc:patient_id", "own:name"],
    "TEXT": ["plain", "{{grain.content}}", ""],
    "EOF": [""],
}
# Words of the grammar where only some types have the field; the parser takes them for keywords elsewhere.
ALSO_KEYWORDS: Final = {"count"}
DEEP: Final = 24


def sentence(rng: random.Random, node: Node, depth: int = 0) -> Iterator[str]:
    """A sentence by chance; deep down the first choice, which is never recursive for long."""
    if node.kind == "word":
        yield node.name if rng.random() < 0.8 else node.name.lower()
    elif node.kind == "name":
        if node.name in GRAMMAR:
            yield from sentence(rng, GRAMMAR[node.name], depth + 1)
        else:
            yield rng.choice(SPELLED[node.name])
    elif node.kind == "choice":
        parts = [part for part in node.parts if not ALSO_KEYWORDS & {leaf.name for leaf in part.parts}]
        yield from sentence(rng, parts[0] if depth > DEEP else rng.choice(parts), depth + 1)
    elif node.kind == "row":
        for part in node.parts:
            yield from sentence(rng, part, depth + 1)
    else:
        low, high = {"?": (0, 1), "*": (0, 2), "+": (1, 2)}[node.kind]
        for _ in range(low if depth > DEEP else rng.randint(low, high)):
            yield from sentence(rng, node.parts[0], depth + 1)


@pytest.mark.requirement("CAL-8.6-grammar")
def test_the_parser_never_meets_an_unexpected_word_in_a_sentence_of_the_printed_grammar() -> None:
    rng = random.Random(1)
    accepted = 0
    for _ in range(4000):
        text = " ".join(sentence(rng, GRAMMAR["query"]))
        error = Cal.check(text)["error"]
        accepted += error is None
        # It may be refused for what no grammar of this kind can say: types, limits, clauses given twice.
        message = "" if error is None else error["message"]
        assert not message.startswith("Unexpected"), (message, text)
        assert "is expected" not in message, (message, text)
    assert accepted > 400


# --- its words -------------------------------------------------------------------------------------------

# Reserved, and in no rule (section 2.1).
UNUSED: Final = {"OR", "NOT", "NULL", "UNDEFINE"}
PUNCTUATION: Final = set("()[]{},:;|/=><") | {"!=", ">=", "<="}
PROJECTED: Final = fields.PROJECTED_ALWAYS | fields.PROJECTED_ANYWHERE
SMALL_WORDS: Final = {"mmr", "threshold", "lambda", "ttl", "content", "attr", "chunk_size", "1"}


@pytest.mark.requirement("CAL-8.6-grammar-words")
def test_the_printed_grammar_has_every_word_of_the_language_and_no_other() -> None:
    used = {word for rule in RULES for word in terminals(rule)}
    assert words.KEYWORDS - {word.upper() for word in used} == UNUSED
    tables = (
        words.CATEGORIES, words.FORMAT_NAMES, words.SECTIONS, words.DESCRIBE_TARGETS, words.BUDGET_UNITS,
        words.STREAM_OPTIONS, words.SET_OPERATORS, words.OPERATORS, options.OPTION_NAMES, options._LEVELS,
        options._CONSISTENCIES, fields.COMMON_FIELDS, fields.TYPES_WITH, fields.SETTABLE, fields.PLURALS,
        fields.SINGULARS,
    )  # fmt: skip
    for table in tables:
        assert set(table) <= used
    known = set().union(*tables) | PROJECTED | words.KEYWORDS | {"true", "false"} | PUNCTUATION | SMALL_WORDS
    assert used <= known
    assert not {word.upper() for word in used} & words.REFUSED_WORDS


def test_every_rule_is_defined_and_reached_and_printed() -> None:
    reached, new = set[str](), {"query"}
    while new:
        reached |= new
        new = {name for rule in new & RULES.keys() for name in names(rule)} - reached
    assert reached - RULES.keys() == TOKENS.keys() == SPELLED.keys() == MATCHES.keys() | {"TEXT"}
    assert RULES.keys() <= reached
    printed = ebnf()
    for name, rule in RULES.items():
        assert re.sub(r"\s+", " ", f"{name} ::= {rule}") in re.sub(r"\s+", " ", printed)
    assert max(map(len, printed.splitlines())) <= 120


# --- the rules in the parser's own comments --------------------------------------------------------------

_COMMENT: Final = re.compile(r"\(\*.*?\*\)")
_RULE: Final = re.compile(r"`(\w+) = ([^`]*?) ;`")


def commented_rules() -> dict[str, str]:
    """The rule that each function of the parser says it reads."""
    found = {}
    for kind in Parser.__mro__:
        for function in vars(kind).values():
            text = _COMMENT.sub("", getattr(function, "__doc__", None) or "")
            if callable(function) and (match := _RULE.search(text)):
                found[match[1]] = match[2]
    return found


@pytest.mark.requirement("CAL-8.6-grammar-words")
def test_the_printed_grammar_agrees_with_the_rules_in_the_comments_of_the_parser() -> None:
    commented = commented_rules()
    assert len(commented) >= 30
    assert commented.keys() <= RULES.keys()
    for name, rule in commented.items():
        quoted = set(re.findall(r"'([^']*)'", rule))
        bare = set(re.findall(r"\b[A-Z]{2,}\b", re.sub(r"'[^']*'", "", rule))) - TOKENS.keys()
        said = quoted | bare
        near = terminals(name).union(*(terminals(inner) for inner in names(name) & RULES.keys()))
        # A domain field is one token here.
        near |= {":"} if "DOMAIN_FIELD" in names(name) else set()
        assert said <= near, name
        if "…" in rule:
            continue
        inner_names = set(re.findall(r"\b[a-z_]+\b", re.sub(r"'[^']*'", "", rule)))
        allowed = said.union(*(terminals(inner) for inner in inner_names & RULES.keys()))
        allowed |= set(words.PRESETS) if "preset" in inner_names else set()
        allowed |= PROJECTED if "projection" in inner_names else set()
        assert terminals(name) <= allowed | {"true", "false"}, name


# --- the card --------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-27-card")
def test_every_example_on_the_card_is_a_query() -> None:
    for line in examples_on_the_card():
        assert Recogniser(line).accepts()
        parse(line)


@pytest.mark.requirement("CAL-27-card")
def test_the_card_shows_every_statement_type_field_and_format_in_about_1200_tokens() -> None:
    card = prompt_card()
    assert 1000 <= len(card.encode()) / 4 <= 1400
    for word in (*fields.PLURALS, *fields.COMMON_FIELDS, *fields.TYPES_WITH, *words.FORMATS, *words.CATEGORIES,
                 *options.OPTION_NAMES, *fields.ADDABLE):  # fmt: skip
        assert re.search(rf"\b{word}\b", card), word
    shown = {line.partition(" ")[0].partition("(")[0] for line in examples_on_the_card()}
    assert shown >= {"RECALL", "ASSEMBLE", "HISTORY", "EXPLAIN", "DESCRIBE", "BATCH", "COALESCE", "LET", "ADD",
                     "SUPERSEDE", "REVERT", ""}  # fmt: skip
    assert "EXISTS" in card
    # The rules that section 27 wants said.
    for rule in ("LIMIT is always", "Nothing can be deleted", "REASON is mandatory", "HISTORY before SUPERSEDE"):
        assert rule in card
