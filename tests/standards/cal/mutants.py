"""Queries with accidents in them, and what must hold of whatever becomes of them."""

from __future__ import annotations

import random
from typing import Final

from tests.standards.cal import published
from tests.standards.cal.json_form import to_json
from tests.standards.cal.published import RUNTIME_ONLY

from memoranda.errors import QueryError
from memoranda.standards.cal import codes, limits
from memoranda.standards.cal.language import lexer
from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.parser import parse_text
from memoranda.standards.cal.language.syntax import ParsedQuery
from memoranda.standards.cal.wire.reader import from_json

JUNK: Final = [
    *'"\\()[]{}|,:;$=<>!-.\u202e\u0430 \n\t\0é', "\ud800", "{{", "}}", "sha256:", "--", "1e5", "9" * 400, "DELETE"
]  # fmt: skip
TOKENS: Final = sorted({token for text in published.QUERIES for token in lexer.split_tokens(text) if token})

_OF_KIND: Final = {
    kind: [token for token in TOKENS if lexer.classify_token(token) is kind and token not in "()[]{};"]
    for kind in lexer.TokenKind
}


def respelled(rng: random.Random, text: str) -> str:
    """The text with one to three tokens replaced by others of their kind: often still a query."""
    words = lexer.split_tokens(text)
    # A word says what the query is; another one is rarely right there.
    literals = [at for at, word in enumerate(words) if word[:1] in '"$' or word[:1].isdigit()]
    for _ in range(rng.randint(1, 3)):
        at = rng.choice(literals) if literals and rng.random() < 0.7 else rng.randrange(len(words))
        words[at] = rng.choice(_OF_KIND[lexer.classify_token(words[at])] or [words[at]])
    return " ".join(words)


def mutated(rng: random.Random, text: str, other: str) -> str:
    """The text after one to four accidents; `other` is what it may run into."""
    for _ in range(rng.randint(1, 4)):
        kind, place = rng.random(), rng.randint(0, len(text))
        if kind < 0.35:
            text = text[:place] + rng.choice(JUNK) + text[place:]
        elif kind < 0.5:
            text = text[:place] + text[place + rng.randint(1, 6) :]
        elif kind < 0.8:
            words = lexer.split_tokens(text)
            at = rng.randint(0, len(words))
            words[at : at + rng.randint(0, 2)] = rng.choices(TOKENS, k=rng.randint(0, 2))
            text = " ".join(words)
        else:
            text = text[:place] + other[rng.randint(0, len(other)) :]
    return text


def check_accepted(query: ParsedQuery) -> None:
    """What is accepted has one spelling, which reads back as itself, and one JSON form."""
    text = canonical(query)
    try:
        read = parse_text(text, max_bytes=limits.QUERY_BYTES * limits.CANONICAL_GROWTH)
        read_json = from_json(to_json(query))
    except QueryError as error:
        raise AssertionError(f"it was accepted, and its own form is refused: {error.message}") from error
    assert read == query, "its canonical text is another query"
    assert canonical(read) == text, "its canonical text is not canonical"
    assert read_json == query, "its JSON form is another query"


def check_refused(error: QueryError, text: str) -> None:
    """What is refused has a code that needs no store, a place in the text, and a suggestion."""
    assert error.cal_code in codes.ERRORS
    assert error.cal_code not in RUNTIME_ONLY
    assert error.suggestion
    assert 0 <= error.start <= error.end <= max(len(text), 1)
    assert (error.line, error.column) >= (1, 1)
