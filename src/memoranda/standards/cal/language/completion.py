"""Completions of an unfinished query, and a test whether it is finished. Both ask the parser itself.

Each known word is appended to the text; those that the parser accepts are offered. So completions cannot drift from
the grammar, and take into account the declared type, the clauses present and the closed values of fields. Each
candidate costs one parse of the text.
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
# The word, parameter or open string at the end. The look-behind keeps the search linear for long words.
_LAST_WORD = re.compile(r'(?:["$]|(?<!\w))\w*\Z')
# A word and a text that no table holds. Where the parser accepts them, it accepts any word or any text.
_NO_WORD, _NO_TEXT = "zzzz", '"zzzz"'
# A token that no grammar rule accepts.
_NO_TOKEN = "@"  # noqa: S105 - a token of the language
# A RECALL inside IN must return values, otherwise it is refused at its first word.
_RECALL, _RECALL_IN = "RECALL", "RECALL | HASHES"
# Error codes of an open string and of an open template section.
_UNCLOSED = ("CAL-E005", "CAL-E091")


def is_unfinished(text: str) -> bool:
    """Return True if a query fails only because it ends too early. An empty last line marks the end."""
    if not text.rpartition("\n")[2].strip():
        return False
    inner = _open_subquery(text)
    error = _parse_error(inner)
    if error is None:
        return inner != text
    return error.start >= len(inner) or error.cal_code in _UNCLOSED


def find_completions(text: str, parameters: Iterable[str] = ()) -> tuple[str, list[str]]:
    """Return the last word of the text, which may be empty, and the words that may replace it."""
    match = _LAST_WORD.search(text)
    word = match[0] if match else ""
    before = text[: len(text) - len(word)]
    names = [*_names_in(before), *(f"${name}" for name in parameters)]
    before = _open_subquery(before)
    expected = _expected_after(before)
    if not expected:
        return word, []
    expected_words = [term for term in expected if term.isidentifier()]
    # The first spelling of a word wins, and the order is kept.
    known_words = reversed((*_vocabulary(), *expected_words, *names))
    by_lower_case = {candidate.lower(): candidate for candidate in known_words}
    prefix = word.lower()
    candidates = [
        candidate
        for key, candidate in reversed(by_lower_case.items())
        if key.startswith(prefix) and candidate != word
    ]
    filtered = _filter_candidates(before, expected, candidates)
    return word, [candidate for candidate in filtered if _accepts(before, candidate)]


def _expected_after(before: str) -> tuple[str, ...]:
    """Return what the parser expects after the text.

    Empty if the text has an error before its end, or if it ends inside a string or comment.
    """
    error = _parse_error(before + _NO_TOKEN)
    return expected_of(error) if error is not None and error.start == len(before) else ()


def _open_subquery(before: str) -> str:
    """Return the text from the innermost open `IN (RECALL` on, or the whole text if there is none.

    An unfinished subquery is refused as a whole until it returns values, so it is completed as a query of its own.
    """
    tokens = lexer.tokenize(before)
    open_parentheses: list[int] = []
    for index, token in enumerate(tokens):
        if token.text == "(":
            open_parentheses.append(index)
        elif token.text == ")" and open_parentheses:
            open_parentheses.pop()
    for index in reversed(open_parentheses):
        around = [token.text.upper() for token in tokens[index - 1 : index + 2]]
        if around == ["IN", "(", _RECALL]:
            return before[tokens[index].span.end :]
    return before


def _filter_candidates(
    before: str, expected: tuple[str, ...], candidates: list[str]
) -> Iterator[str]:
    """Drop candidates that the parser would accept only because it accepts any word there."""
    takes_any_word, takes_any_text = _accepts(before, _NO_WORD), _accepts(before, _NO_TEXT)
    may_be_keyword = "a label" not in expected
    for candidate in candidates:
        if candidate.startswith('"'):
            if not takes_any_text:
                yield candidate
        elif (
            candidate.startswith("$")
            or not takes_any_word
            or (may_be_keyword and candidate in words.KEYWORDS)
        ):
            yield candidate


def _accepts(before: str, word: str) -> bool:
    """Return True if the parser gets past this word."""
    error = _parse_error(before + word)
    if error is not None and error.start == len(before) and word == _RECALL:
        error = _parse_error(before + _RECALL_IN)
    return error is None or error.start > len(before)


def _parse_error(text: str) -> QueryError | None:
    """Return the error that the parser raises for the text, or None."""
    try:
        parse(text)
    except QueryError as error:
        return error
    return None


def _names_in(before: str) -> list[str]:
    """Return the labels and parameters that occur in the text."""
    tokens = [token for token in lexer.split_tokens(before) if token]
    labels = [first for first, second in pairwise(tokens) if second == ":"]
    return [*labels, *(token for token in tokens if token.startswith("$"))]


@cache
def _vocabulary() -> tuple[str, ...]:
    """Return every word, field name, grain type and closed value of the language."""
    tables = (fields.COMMON_FIELDS, *(fields.fields_of(name) for name in fields.SINGULARS))
    names = [name for table in tables for name in table]
    closed_values = [
        f'"{word}"' for table in tables for field in table.values() for word in field.words
    ]
    projected = sorted(fields.PROJECTED_ALWAYS | fields.PROJECTED_ANYWHERE)
    return (
        *fields.PLURALS,
        *fields.SINGULARS,
        *names,
        *closed_values,
        *sorted(words.KEYWORDS),
        *projected,
    )
