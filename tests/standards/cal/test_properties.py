"""Any query the grammar can make, and any text that is almost one."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.standards.cal import mutants, published, strategies
from tests.standards.cal.json_form import to_json

from memoranda.errors import QueryError
from memoranda.standards.cal import codes, limits
from memoranda.standards.cal.language import lexer
from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.desugar import desugar
from memoranda.standards.cal.language.parser import parse, parse_text
from memoranda.standards.cal.language.syntax import ParsedQuery
from memoranda.standards.cal.wire.reader import from_json

MANY = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
LONG = limits.QUERY_BYTES * limits.CANONICAL_GROWTH


@pytest.mark.requirement("CAL-15.2-one-text-form")
@pytest.mark.requirement("CAL-15.2-one-json-form")
@given(query=strategies.QUERIES, seed=st.integers(0, 2**32))
@MANY
def test_any_query_is_the_same_in_every_form_that_it_is_written_in(query: ParsedQuery, seed: int) -> None:
    # In one: to make up a query takes longer than to write and read it in all of them.
    text = canonical(query)
    read = parse_text(text, max_bytes=LONG)
    assert read == query
    assert canonical(read) == text
    form = to_json(query)
    assert from_json(form) == query
    assert to_json(from_json(form)) == form
    plain = desugar(query)
    assert parse_text(canonical(plain), max_bytes=LONG) == plain
    assert desugar(plain) == plain
    # The text of templates is kept as it is.
    if "{" not in text and len(text) <= LONG // 4:
        assert parse_text(respelt(text, random.Random(seed)), max_bytes=LONG * 10) == query


def respelt(text: str, rng: random.Random) -> str:
    """The same query with words in another case, other white space and comments."""
    gaps = [" ", "\n", "\t  ", ' -- a "comment" { \n']
    assert lexer.TokenKind.BAD not in {token.kind for token in lexer.tokenize(text)}
    spelled = [
        token.text.lower() if token.text.isupper() and token.text in ("RECALL", "WHERE", "AND", "LIMIT") and
        not _is_label(text, token) else token.text
        for token in lexer.tokenize(text)
    ]  # fmt: skip
    return "".join(word + rng.choice(gaps) for word in spelled)


def _is_label(text: str, token: lexer.Token) -> bool:
    before = text[: token.span.start].rstrip()
    return text[token.span.end : token.span.end + 1] == ":" or before.endswith((">", "PRIORITY"))


def verdict_on(read: Callable[[], ParsedQuery]) -> ParsedQuery | QueryError:
    try:
        return read()
    except QueryError as error:
        return error


@pytest.mark.requirement("CAL-22-always-a-code")
def test_mutated_queries_are_read_or_refused_with_a_code_a_place_and_a_suggestion() -> None:
    rng = random.Random(20260303)
    for _ in range(4000):
        text = mutants.mutated(rng, rng.choice(published.QUERIES), rng.choice(published.QUERIES))
        verdict = verdict_on(partial(parse, text))
        if isinstance(verdict, ParsedQuery):
            mutants.check_accepted(verdict)
        else:
            mutants.check_refused(verdict, text)


DEEP_OR_LONG = [
    "(" * 8000,
    "RECALL WHERE a:b = " + "[" * 8000,
    "{{" * 4000,
    "-" * 8192,
    '"' * 8191,
    "EXPLAIN " * 1000,
    "RECALL WHERE subject IN (" * 300,
    "$" * 8000,
    "a:" * 4000,
    "RECALL " + "| FIRST " * 1000,
    "9" * 8192,
    "LET $a = " * 900,
]


@pytest.mark.parametrize("text", DEEP_OR_LONG, ids=lambda text: text[:20])
def test_deep_and_long_texts_are_refused_at_once(text: str) -> None:
    with pytest.raises(QueryError):
        parse(text)


MEMBERS = st.sampled_from("statement where field op value query with hash in from set between".split())
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just("recall"))
ANY_JSON = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(MEMBERS, inner, max_size=4))
)


@given(value=ANY_JSON)
@MANY
def test_any_json_is_read_or_refused(value: object) -> None:
    verdict = verdict_on(partial(from_json, value))
    assert isinstance(verdict, ParsedQuery) or verdict.cal_code in codes.ERRORS
