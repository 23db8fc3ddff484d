"""What may come next in a query, and whether it has come to its end: both are asked of the parser itself.

Every word there is gets put where the next one would stand; those that the parser passes are offered. So what is
offered cannot drift from the grammar, and knows of declared types, of clauses given already, and of closed values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise

from memoranda.errors import QueryError
from memoranda.standards.cal import fields
from memoranda.standards.cal.language import lexer, words
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.problem import expected_of

FORMATS = (*words.FORMATS, *words.PRESETS)
# It begins where a word does, so that a long one is read once.
_LAST_WORD = re.compile(r'(?:["$]|(?<!\w))\w*\Z')
# Where these pass, anything does: a name to be made up, or a text.
_NO_WORD, _NO_TEXT = "zzzz", '"zzzz"'
# No rule begins with it.
_NO_TOKEN = "@"  # noqa: S105 - a token of the language
# A RECALL inside IN yields values, or is refused at its first word.
_RECALL, _RECALL_IN = "RECALL", "RECALL | HASHES"
# An open string, or an open section of a template.
_UNCLOSED = ("CAL-E005", "CAL-E091")


def is_unfinished(text: str) -> bool:
    """Whether a query fails only because it ends too early; an empty last line says that it does end."""
    if not text.rpartition("\n")[2].strip():
        return False
    inner = _open_subquery(text)
    error = _parse_error(inner)
    if error is None:
        return inner != text
    return error.start >= len(inner) or error.cal_code in _UNCLOSED


def find_completions(text: str, parameters: Iterable[str] = ()) -> tuple[str, list[str]]:
    """The word that ends the text, perhaps empty, and what it may become."""
    match = _LAST_WORD.search(text)
    word = match[0] if match else ""
    before = text[: len(text) - len(word)]
    names = [*_names_in(before), *(f"${name}" for name in parameters)]
    before = _open_subquery(before)
    expected = _expected_after(before)
    if not expected:
        return word, []
    expected_words = (each for each in expected if each.isidentifier())
    pool = {each.lower(): each for each in reversed((*_vocabulary(), *expected_words, *names))}
    likely = [each for each in reversed(pool.values()) if each.lower().startswith(word.lower()) and each != word]
    return word, [each for each in _filter_candidates(before, expected, likely) if _accepts(before, each)]


def _expected_after(before: str) -> tuple[str, ...]:
    """What the parser says may stand here; nothing if the text before is wrong, or inside a string or comment."""
    error = _parse_error(before + _NO_TOKEN)
    return expected_of(error) if error is not None and error.start == len(before) else ()


def _open_subquery(before: str) -> str:
    """The RECALL that is open in `IN (`, if there is one: until it yields values, it is refused as a whole."""
    tokens = lexer.tokenize(before)
    open_parentheses: list[int] = []
    for index, token in enumerate(tokens):
        if token.text == "(":
            open_parentheses.append(index)
        elif token.text == ")" and open_parentheses:
            open_parentheses.pop()
    for index in reversed(open_parentheses):
        if [each.text.upper() for each in tokens[index - 1 : index + 2]] == ["IN", "(", _RECALL]:
            return before[tokens[index].span.end :]
    return before


def _filter_candidates(before: str, expected: tuple[str, ...], likely: list[str]) -> Iterator[str]:
    """Without words that would pass only because any word does."""
    takes_any_word, takes_any_text = _accepts(before, _NO_WORD), _accepts(before, _NO_TEXT)
    for each in likely:
        if each.startswith('"'):
            if not takes_any_text:
                yield each
        elif each.startswith("$") or not takes_any_word or (each in words.KEYWORDS and "a label" not in expected):
            yield each


def _accepts(before: str, word: str) -> bool:
    """Whether the parser gets beyond this word."""
    error = _parse_error(before + word)
    if error is not None and error.start == len(before) and word == _RECALL:
        error = _parse_error(before + _RECALL_IN)
    return error is None or error.start > len(before)


def _parse_error(text: str) -> QueryError | None:
    try:
        parse(text)
    except QueryError as error:
        return error
    return None


def _names_in(before: str) -> list[str]:
    """The labels and parameters that the text has so far."""
    tokens = [token for token in lexer.split_tokens(before) if token]
    labels = [first for first, second in pairwise(tokens) if second == ":"]
    return [*labels, *(token for token in tokens if token.startswith("$"))]


@cache
def _vocabulary() -> tuple[str, ...]:
    tables = (fields.COMMON, *(fields.fields_of(name) for name in fields.SINGULARS))
    names = [name for table in tables for name in table]
    closed = [f'"{word}"' for table in tables for field in table.values() for word in field.words]
    projected = sorted(fields.PROJECTED_ALWAYS | fields.PROJECTED_ANYWHERE)
    return (*fields.PLURALS, *fields.SINGULARS, *names, *closed, *sorted(words.KEYWORDS), *projected)
