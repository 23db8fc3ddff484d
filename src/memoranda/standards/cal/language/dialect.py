"""Queries in the dialect of areev, another implementation, translated into CAL 1.0 before they are parsed.

    ADD fact, RECALL facts, tool, tools     belief, beliefs, action, actions, which OMS 1.3 calls them
    SET namespace = "…"                     left out if it is the namespace of the session; no query can choose another
    ADD observation SET content = "…"       the object of an observation, about its observer unless it has a subject

Only spellings change: the parser of CAL 1.0 still decides what is a query, so this adds nothing to the language.
Positions in errors are those of the translated text.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from memoranda.standards.cal.language.lexer import Token, TokenKind, tokenize, unquote

_TYPES: Final = {"fact": "belief", "facts": "beliefs", "tool": "action", "tools": "actions"}
# Words before a type.
_BEFORE_TYPES: Final = frozenset({"ADD", "RECALL"})
_OBSERVED: Final = '"mg:perceives"'


def translate(text: str, namespace: str) -> str:
    """Return a query in CAL 1.0; one without words of the dialect is returned unchanged."""
    tokens = tokenize(text)
    edits: list[tuple[int, int, str]] = []
    for before, token in pairwise(tokens):
        name = token.text.lower()
        if before.text.upper() in _BEFORE_TYPES and _is_word(token) and name in _TYPES:
            edits.append((*token.span, _TYPES[name]))
    edits += _edit_assignments(tokens, namespace)
    for start, end, spelling in sorted(edits, reverse=True):
        text = text[:start] + spelling + text[end:]
    return text


def _edit_assignments(tokens: list[Token], namespace: str) -> list[tuple[int, int, str]]:
    """Return the edits of the assignments of an ADD."""
    words = [token.text.upper() if _is_word(token) else "" for token in tokens]
    # SET name = value
    starts = [
        at
        for at in range(len(tokens) - 3)
        if words[at] == "SET" and tokens[at + 2].text == "=" and words[at + 1]
    ]
    values = {words[at + 1]: tokens[at + 3] for at in starts}
    is_observation = "ADD" in words and "OBSERVATION" in words
    edits: list[tuple[int, int, str]] = []
    for at in starts:
        name, value = words[at + 1], tokens[at + 3]
        if name == "NAMESPACE" and _is_text(value, namespace):
            edits.append((tokens[at].span.start, value.span.end, ""))
        elif name == "CONTENT" and is_observation and "OBJECT" not in values:
            observer = values.get("OBSERVER_ID")
            subject = [] if observer is None or "SUBJECT" in values else [observer.text]
            parts = [f"SET subject = {text}" for text in subject]
            if "RELATION" not in values:
                parts.append(f"SET relation = {_OBSERVED}")
            parts.append("SET object")
            edits.append((tokens[at].span.start, tokens[at + 1].span.end, " ".join(parts)))
    return edits


def _is_word(token: Token) -> bool:
    return token.kind is TokenKind.WORD


def _is_text(token: Token, text: str) -> bool:
    return token.kind is TokenKind.STRING and unquote(token.text) == text
