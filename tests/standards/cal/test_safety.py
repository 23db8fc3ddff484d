"""The language has no word that destroys: not in its tables, not in its grammar, not in its values."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator

import msgspec
import pytest
from tests.standards.cal.verdicts import code_of, code_of_json

from memoranda.standards.cal import fields
from memoranda.standards.cal.language import (
    assemble,
    conditions,
    cursor,
    evolve,
    options,
    parser,
    recall,
    stages,
    suggest,
    syntax,
    template_parser,
    words,
)
from memoranda.standards.cal.language import canonical as canonical_module
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.wire import writer
from memoranda.standards.cal.wire.reader import from_json

# Section 2.4, as the specification lists them.
DESTRUCTIVE = "DELETE DROP FORGET ERASE DESTROY PURGE TRUNCATE".split()
CREATION = "INSERT CREATE WRITE STORE".split()
KEYS = "KEY ENCRYPT DECRYPT ROTATE MASTER DEK SECRET".split()
POLICY = "POLICY SEAL UNSEAL GRANT REVOKE CONSENT RESTRICT".split()
SCHEMA = "SCHEMA PARTITION INDEX MIGRATION".split()
EXCLUDED = [*DESTRUCTIVE, *CREATION, *KEYS, *POLICY, *SCHEMA]
# What also destroys in other languages.
ALSO = "REMOVE CLEAR RESET WIPE KILL UPDATE ALTER EXPIRE SHRED DISCARD OVERWRITE REPLACE".split()


def token_tables() -> Iterator[str]:
    """Every word that any rule of the grammar asks for."""
    yield from words.KEYWORDS
    yield from words.CATEGORIES
    yield from words.FUTURE_KEYWORDS
    yield from (*words.FORMATS, *words.PRESETS, *words.SECTIONS, *words.DESCRIBE_TARGETS, *words.BUDGET_UNITS)
    yield from (*words.STREAM_OPTIONS, *words.SET_OPERATORS, *words.OPERATORS)
    yield from (*parser._STATEMENT_PARSERS, *assemble.TRAILING_CLAUSES, *parser._ENTRY_WORDS)
    yield from (
        *recall._CLAUSE_PARSERS,
        *stages.STAGE_PARSERS,
        *options.OPTION_NAMES,
        *options._OPTION_PARSERS,
        *conditions._OPERAND_PARSERS,
    )
    yield from suggest.EXAMPLES
    yield from (name for name, _ in writer._STATEMENT_WRITERS.values())


@pytest.mark.requirement("CAL-2.4-no-destructive-token")
@pytest.mark.parametrize("word", [*EXCLUDED, *ALSO])
def test_no_token_table_holds_a_word_that_destroys(word: str) -> None:
    assert word not in {token.upper() for token in token_tables()}


def test_every_word_that_the_parser_compares_with_is_in_a_table() -> None:
    """So that the tables are all there is: no keyword hides in the code."""
    known = {token.upper() for token in token_tables()}
    for module in (parser, recall, conditions, options, stages, assemble, evolve, template_parser, cursor):
        source = inspect.getsource(module)
        for call in ('self.expect_keyword("', 'self.peek_keyword() == "', 'self.peek_keyword() != "'):
            for rest in source.split(call)[1:]:
                assert rest.split('"')[0] in known | {"MY", "", "("}


@pytest.mark.requirement("CAL-2.4-excluded-words")
@pytest.mark.parametrize("word", EXCLUDED)
def test_an_excluded_word_is_no_statement_clause_or_stage(word: str) -> None:
    for text in (
        f'{word} beliefs WHERE subject = "alice"',
        f"RECALL beliefs {word}",
        f"RECALL beliefs | {word}",
        f"RECALL beliefs WITH {word}",
        f"EXPLAIN {word} beliefs",
        f"BATCH {{ a: {word} beliefs }}",
        f"RECALL beliefs; {word} beliefs",
        f"{word.lower()} beliefs",
    ):
        assert code_of(text) == "CAL-E002"


@pytest.mark.parametrize("word", [*DESTRUCTIVE, *CREATION])
def test_the_eleven_are_refused_wherever_a_word_may_stand(word: str) -> None:
    for text in (
        f"ASSEMBLE c FROM {word}: (RECALL beliefs)",
        f"ASSEMBLE {word} FROM (RECALL beliefs)",
        f"BATCH {{ {word.lower()}: RECALL beliefs }}",
        f"RECALL {word}",
        f'RECALL WHERE {word} = "x"',
        f'RECALL WHERE {word}:x = "x"',
        f"RECALL beliefs | SELECT {word}",
        f"RECALL beliefs | PROJECT content({word})",
        f"ADD {word}",
        f'ADD belief SET {word} = "x" REASON "r"',
        f"ASSEMBLE c FROM (RECALL beliefs) STREAM {{ {word} }}",
        f"DEFINE TEMPLATE {word} ELEMENT {{ x }}",
        f"DEFINE TEMPLATE t EXTENDS {word} ELEMENT {{ x }}",
        f"DESCRIBE {word}",
        f"DESCRIBE fields {word}",
        f"ASSEMBLE c FROM (RECALL beliefs) FORMAT TEMPLATE {word}",
        f"ASSEMBLE c FROM a: (RECALL beliefs) PRIORITY {word}",
    ):
        assert code_of(text) == "CAL-E002", text


@pytest.mark.parametrize("word", EXCLUDED)
def test_excluded_words_are_harmless_in_strings_comments_and_templates(word: str) -> None:
    assert code_of(f'RECALL beliefs ABOUT "{word}" -- {word}') is None
    assert code_of(f"DEFINE TEMPLATE t ELEMENT {{ {word} }}") is None


@pytest.mark.parametrize("word", [*KEYS, *POLICY, *SCHEMA])
def test_the_other_eighteen_are_ordinary_names(word: str) -> None:
    assert code_of(f"ASSEMBLE {word} FROM {word}: (RECALL beliefs) PRIORITY {word}") is None


@pytest.mark.requirement("CAL-8-twelve-statements")
def test_a_statement_is_one_of_exactly_twelve() -> None:
    names = sorted(each.__name__ for each in typing.get_args(syntax.CalStatement))
    assert names == sorted(
        "Recall Assemble SetOp Exists History Explain Describe BatchQuery Add Supersede Revert Coalesce".split()
    )
    assert set(typing.get_args(syntax.Statement)) - set(typing.get_args(syntax.CalStatement)) == {syntax.DefineTemplate}
    assert set(canonical_module._STATEMENT_WRITERS) == set(typing.get_args(syntax.Statement))


def test_no_value_of_the_language_names_or_does_a_removal() -> None:
    bad = {word.lower() for word in (*DESTRUCTIVE, *CREATION, *KEYS, *SCHEMA, *ALSO)}
    classes = [
        each
        for _, each in inspect.getmembers(syntax, inspect.isclass)
        if issubclass(each, msgspec.Struct) and each is not msgspec.Struct
    ]
    assert len(classes) > 30
    for each in classes:
        assert each.__name__.lower() not in bad
        assert not set(each.__struct_fields__) & bad
        assert each.__struct_config__.frozen
        assert "__dict__" not in dir(each)


def test_only_three_statements_append_and_none_does_more() -> None:
    tiers = {
        type(parse(text).statement): syntax.tier_of(parse(text).statement)
        for text in (
            "RECALL",
            'ADD belief SET subject = "s" SET relation = "r" SET object = "o" REASON "x"',
            'SUPERSEDE sha256:aaaaaaaa SET object = "o" REASON "x"',
            'REVERT sha256:aaaaaaaa REASON "x"',
            'EXPLAIN REVERT sha256:aaaaaaaa REASON "x"',
        )
    }
    assert {each for each, tier in tiers.items() if tier} == {syntax.Add, syntax.Supersede, syntax.Revert}
    assert set(fields.EVOLVABLE) == {"object", "confidence", "importance", "tags"}


@pytest.mark.requirement("CAL-20.1-injection")
@pytest.mark.parametrize(
    "value", ['" | COUNT', 'x" OR "1" = "1', "'; DELETE", "\\", '\\"', "$other", "sha256:aaaaaaaa", "--"]
)
def test_a_value_cannot_change_what_a_query_does(value: str) -> None:
    query = parse("RECALL beliefs WHERE subject = $s LIMIT 5", params={"s": value})
    plain = parse('RECALL beliefs WHERE subject = "x" LIMIT 5')
    assert isinstance(query.statement, syntax.Recall)
    assert isinstance(plain.statement, syntax.Recall)
    assert query.statement.where[0].value == value
    assert msgspec.structs.replace(query.statement, where=()) == msgspec.structs.replace(plain.statement, where=())
    form = {"statement": "recall", "about": value}
    assert from_json(form).statement == syntax.Recall(about=value)


@pytest.mark.parametrize("member", ["grain_type", "as"])
def test_a_word_of_the_json_form_cannot_smuggle_text_in(member: str) -> None:
    for value in ('beliefs ABOUT "x"', "json LIMIT 5", "beliefs--", "beliefs | COUNT", "", " ", "a b"):
        assert code_of_json({"statement": "recall", member: value}) == "CAL-E002"
    assert (
        code_of_json({"statement": "define_template", "name": "t", "sections": {"element": "x } FOOTER { y"}})
        == "CAL-E002"
    )
    assert code_of_json({"statement": "define_template", "name": "t", "sections": {"element": "x }"}}) == "CAL-E002"
