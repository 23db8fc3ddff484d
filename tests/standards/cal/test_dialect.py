"""The dialect of areev: its spellings become those of CAL 1.0, and nothing else changes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.cal.published import VALID

from memoranda.errors import QueryError
from memoranda.standards.cal.language import saved_query
from memoranda.standards.cal.language.dialect import translate
from memoranda.standards.cal.language.parser import parse

HERE = "caller"
WHY = 'REASON "t"'


@pytest.mark.requirement("CAL-OURS-dialect")
@pytest.mark.parametrize(
    ("query", "standard"),
    [
        ('RECALL facts WHERE subject = "facts"', 'RECALL beliefs WHERE subject = "facts"'),
        ("recall TOOLS LIMIT 3", "recall actions LIMIT 3"),
        (
            f'ADD fact SET subject = "a" SET relation = "r" SET object = "o" SET namespace = "caller" {WHY}',
            f'ADD belief SET subject = "a" SET relation = "r" SET object = "o" {WHY}',
        ),
        (
            f'ADD observation SET observer_id = "x" SET observer_type = "llm" SET content = "c" {WHY}',
            (
                'ADD observation SET observer_id = "x" SET observer_type = "llm" SET subject = "x"'
                f' SET relation = "mg:perceives" SET object = "c" {WHY}'
            ),
        ),
        (
            f'ADD observation SET subject = "john" SET relation = "r" SET content = "c" {WHY}',
            f'ADD observation SET subject = "john" SET relation = "r" SET object = "c" {WHY}',
        ),
    ],
)
def test_a_spelling_of_the_dialect_becomes_that_of_the_standard(query: str, standard: str) -> None:
    assert parse(translate(query, HERE)) == parse(standard)


@pytest.mark.requirement("CAL-OURS-dialect")
@pytest.mark.parametrize("query", VALID)
def test_every_query_of_the_standard_stays_as_it_is(query: str) -> None:
    assert translate(query, HERE) == query


@pytest.mark.requirement("CAL-OURS-dialect")
@pytest.mark.parametrize(
    "query",
    [
        # Another namespace than that of the session.
        f'ADD fact SET subject = "a" SET relation = "r" SET object = "o" SET namespace = "other" {WHY}',
        f'ADD fact SET subject = "a" SET relation = "r" SET object = "o" SET content = "c" {WHY}',
        'DELETE facts WHERE subject = "a"',
        'FORGET fact "a"',
        "ADD",
        'SET namespace = "caller"',
    ],
)
def test_what_the_dialect_may_not_say_is_refused_as_before(query: str) -> None:
    with pytest.raises(QueryError):
        parse(translate(query, HERE))


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from('ADD RECALL fact SET namespace content = "caller" REASON'.split())).map(" ".join)
)
def test_any_text_is_translated_without_an_error(text: str) -> None:
    translate(text, HERE)


@pytest.mark.requirement("CAL-OURS-dialect-saved", "CAL-OURS-dialect-formats")
@given(
    st.text(max_size=100)
    | st.lists(
        st.sampled_from('DEFINE QUERY RUN "name" ( $a = : 1 "x" , ) DESCRIPTION AS { } [ ] FORMAT json RECALL'.split())
    ).map(" ".join)
)
def test_any_text_is_a_saved_query_a_list_of_formats_or_refused(text: str) -> None:
    for read in (saved_query.parse_definition, saved_query.parse_call, saved_query.split_formats):
        with suppress(QueryError):
            read(text)
