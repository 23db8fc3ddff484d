"""Saved queries and lists of formats, which the dialect of areev has and CAL 1.0 has not.

    DEFINE QUERY "name"($user = "amy", $tag) DESCRIPTION "text" AS { RECALL … }     a saved query
    RUN "name"($tag = "x") FORMAT markdown                                        its text, with values
    DESCRIBE QUERIES                                                              those of the namespace
    … FORMAT [json AS data, markdown]                                             the query once for each format

Each of them becomes queries of CAL 1.0, whose parser decides what they may do. A saved query only reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from memoranda.encoding.json_text import dump, parse
from memoranda.errors import QueryError
from memoranda.standards.cal.language.lexer import Token, TokenKind, parse_number, tokenize, unquote

# Queries that one list of formats becomes.
MAX_FORMATS: Final = 5
# Parameters of a saved query.
MAX_PARAMETERS: Final = 10
# Bytes of the text of a saved query.
MAX_TEXT_BYTES: Final = 8192
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9 _-]{0,63}")
_CONSTANTS: Final[Mapping[str, object]] = {"TRUE": True, "FALSE": False}
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")


class SavedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query with a name. `defaults` has the parameters that may be omitted, with their values."""

    name: str
    text: str
    description: str = ""
    parameters: tuple[str, ...] = ()
    defaults: dict[str, Any] = {}


class SavedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A RUN: the name of a saved query, the values of its parameters, and the clauses that follow."""

    name: str
    values: dict[str, Any]
    clauses: str


def parse_definition(text: str) -> SavedQuery | None:
    """Parse a DEFINE QUERY; None for any other text. Raises QueryError."""
    tokens = tokenize(text)
    if _words(tokens[:2]) != ["DEFINE", "QUERY"]:
        return None
    name, position = _parse_name(tokens, 2)
    values, position = _parse_parameters(tokens, position)
    description = ""
    if _words(tokens[position : position + 1]) == ["DESCRIPTION"]:
        description, position = _parse_text(tokens, position + 1), position + 2
    if _words(tokens[position : position + 1]) != ["AS"]:
        raise _unexpected(tokens, position, "AS { a query }")
    opening = tokens[position + 1 : position + 2]
    if not opening or opening[0].text != "{" or tokens[-1].text != "}":
        raise _unexpected(tokens, position + 1, "{ a query }")
    body = text[opening[0].span.end : tokens[-1].span.start].strip()
    if len(body.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        raise _refusal(f"The saved query is longer than {MAX_TEXT_BYTES} bytes.", "Shorten it.")
    return SavedQuery(
        name=name,
        text=body,
        description=description,
        parameters=tuple(values),
        defaults={key: value for key, value in values.items() if value is not None},
    )


def parse_call(text: str) -> SavedCall | None:
    """Parse a RUN; None for any other text. Raises QueryError."""
    tokens = tokenize(text)
    if _words(tokens[:1]) != ["RUN"]:
        return None
    name, position = _parse_name(tokens, 1)
    values, position = _parse_parameters(tokens, position)
    if missing := [key for key, value in values.items() if value is None]:
        raise _refusal(f"${missing[0]} has no value.", 'Write ($name = "value").')
    clauses = text[tokens[position].span.start :] if position < len(tokens) else ""
    return SavedCall(name=name, values=values, clauses=clauses)


def is_describe_queries(text: str) -> bool:
    """Return True for DESCRIBE QUERIES."""
    return _words(tokenize(text)) == ["DESCRIBE", "QUERIES"]


def expand_call(query: SavedQuery, call: SavedCall) -> tuple[str, dict[str, Any]]:
    """Return the text of a saved query with the clauses of a RUN, and the values of its parameters.

    Raises QueryError for a parameter that the saved query does not have, and for one that has no value.
    """
    if unknown := [key for key in call.values if key not in query.parameters]:
        raise _refusal(
            f"The saved query {query.name} has no parameter ${unknown[0]}.",
            "DESCRIBE QUERIES names them.",
        )
    values = {**query.defaults, **call.values}
    if missing := [key for key in query.parameters if key not in values]:
        raise _refusal(f"${missing[0]} has no value.", 'Write ($name = "value").')
    occurring = {
        token.text[1:] for token in tokenize(query.text) if token.kind is TokenKind.PARAMETER
    }
    return f"{query.text} {call.clauses}".rstrip(), {
        key: value for key, value in values.items() if key in occurring
    }


def split_formats(text: str) -> dict[str, str]:
    """Return one query per format of a list, by the name of the format or its alias. Empty without a list."""
    tokens = tokenize(text)
    depth = 0
    for position, token in enumerate(tokens[:-1]):
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        is_clause = _words([token]) in (["FORMAT"], ["AS"]) and not depth
        if is_clause and tokens[position + 1].text == "[":
            return _split_list(text, tokens, position + 1)
    return {}


def encode(query: SavedQuery) -> bytes:
    """Encode a saved query for the store."""
    return dump(msgspec.to_builtins(query))


def decode(data: bytes) -> SavedQuery:
    """Decode a saved query of the store."""
    return msgspec.convert(parse(data), SavedQuery)


def _split_list(text: str, tokens: list[Token], opening: int) -> dict[str, str]:
    """Return one query per item of the list that opens at a token."""
    closing = next(
        (at for at in range(opening, len(tokens)) if tokens[at].text == "]"), len(tokens)
    )
    if closing == len(tokens):
        raise _unexpected(tokens, closing, "]")
    queries: dict[str, str] = {}
    begin = opening + 1
    for at in range(begin, closing + 1):
        if at != closing and tokens[at].text != ",":
            continue
        item = tokens[begin:at]
        begin = at + 1
        has_alias = len(item) > 2 and _words(item[-2:-1]) == ["AS"]
        spec = item[:-2] if has_alias else item
        if not spec:
            raise _unexpected(tokens, at, "a format")
        source = text[spec[0].span.start : spec[-1].span.end]
        name = item[-1].text if has_alias else source.lower()
        if name in queries and has_alias:
            raise _refusal(f"The name {name} occurs twice in the list of formats.", "Rename one.")
        start, end = tokens[opening].span.start, tokens[closing].span.end
        queries.setdefault(name, f"{text[:start]}{source}{text[end:]}")
    if len(queries) > MAX_FORMATS:
        raise _refusal(f"A query has at most {MAX_FORMATS} formats.", "Run it a second time.")
    return queries


def _parse_name(tokens: list[Token], position: int) -> tuple[str, int]:
    """Parse the name of a saved query; return it with the next position."""
    name = _parse_text(tokens, position)
    if not _NAME.fullmatch(name):
        raise _refusal(
            "The name of a saved query has a letter first, then letters, digits, blanks, - and _.",
            "Use another name.",
        )
    return name, position + 1


def _parse_text(tokens: list[Token], position: int) -> str:
    """Parse a string."""
    if position >= len(tokens) or tokens[position].kind is not TokenKind.STRING:
        raise _unexpected(tokens, position, "a string in quotes")
    return unquote(tokens[position].text)


def _parse_parameters(tokens: list[Token], position: int) -> tuple[dict[str, Any], int]:
    """Parse `($name, $name = value)`, if it is there; return the values, None for none, with the next position."""
    values: dict[str, Any] = {}
    if position >= len(tokens) or tokens[position].text != "(":
        return values, position
    position += 1
    while position < len(tokens) and tokens[position].text != ")":
        token = tokens[position]
        if token.kind is not TokenKind.PARAMETER:
            raise _unexpected(tokens, position, "a parameter such as $user")
        position += 1
        value = None
        if position < len(tokens) and tokens[position].text in ("=", ":"):
            value = _parse_value(tokens, position + 1)
            position += 2
        values[token.text[1:]] = value
        if position < len(tokens) and tokens[position].text == ",":
            position += 1
    if position >= len(tokens):
        raise _unexpected(tokens, position, ")")
    if len(values) > MAX_PARAMETERS:
        raise _refusal(f"A saved query has at most {MAX_PARAMETERS} parameters.", "Use fewer.")
    return values, position + 1


def _parse_value(tokens: list[Token], position: int) -> object:
    """Parse a string, a number, TRUE or FALSE."""
    token = tokens[position] if position < len(tokens) else None
    if token is not None and token.kind is TokenKind.STRING:
        return unquote(token.text)
    if token is not None and token.kind is TokenKind.NUMBER:
        return parse_number(token.text)
    if token is not None and token.text.upper() in _CONSTANTS:
        return _CONSTANTS[token.text.upper()]
    raise _unexpected(tokens, position, "a string, a number, TRUE or FALSE")


def _words(tokens: list[Token]) -> list[str]:
    """Return the words among tokens in capitals; an empty text for any other token."""
    return [token.text.upper() if token.kind is TokenKind.WORD else "" for token in tokens]


def _unexpected(tokens: list[Token], position: int, expected: str) -> QueryError:
    name = f'"{tokens[position].text[:40]}"' if position < len(tokens) else "the end of the query"
    return _refusal(f"Unexpected {name}; expected {expected}.", f"Write {expected} there.")


def _refusal(message: str, suggestion: str) -> QueryError:
    return QueryError(message, cal_code="CAL-E002", suggestion=suggestion)
