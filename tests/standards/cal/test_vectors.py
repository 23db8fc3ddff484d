"""Every published and derived query has the verdict that is written beside it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.standards.cal import published
from tests.standards.cal.json_form import to_json
from tests.standards.cal.published import EXAMPLES, README_ADD, README_ASSEMBLE, README_RECALL, STATIC, text_of
from tests.standards.cal.verdicts import code_of

from memoranda.errors import QueryError
from memoranda.standards.cal import codes
from memoranda.standards.cal.language.canonical import canonical, query_hash
from memoranda.standards.cal.language.check import find_warnings
from memoranda.standards.cal.language.desugar import desugar
from memoranda.standards.cal.language.parser import parse, parse_text
from memoranda.standards.cal.language.syntax import Add, Assemble, Recall
from memoranda.standards.cal.wire.reader import from_json

RUNTIME = [each for each in EXAMPLES if each["phase"] == "runtime" and not each["query"].startswith("(")]
README = [README_ASSEMBLE, README_ADD, README_RECALL]


def test_there_are_396_examples() -> None:
    assert len(EXAMPLES) == 396


@pytest.mark.requirement("CAL-3-grammar")
@pytest.mark.parametrize("example", STATIC, ids=lambda example: example["query"][:40])
def test_every_example_has_its_verdict_and_code(example: dict[str, Any]) -> None:
    assert code_of(text_of(example), params=example.get("params")) == example.get("expected_error")


@pytest.mark.parametrize("example", RUNTIME, ids=lambda example: example["note"])
def test_what_only_running_can_refuse_is_well_formed(example: dict[str, Any]) -> None:
    assert code_of(text_of(example)) is None


def test_values_of_parameters_are_refused_like_literals() -> None:
    bound = {"n bound to 5000": 5000, 'n bound to "ten"': "ten"}
    for example in RUNTIME:
        if example["note"] in bound:
            given = {"n": bound[example["note"]]}
            assert code_of(text_of(example), params=given) == example["expected_error"]


@pytest.mark.requirement("CAL-readme-queries")
@pytest.mark.parametrize("text", README, ids=["assemble", "add", "recall"])
def test_the_queries_of_the_readme_work_to_the_letter(text: str) -> None:
    query = parse(text)
    assert parse(canonical(query)) == query
    assert from_json(to_json(query)) == query
    assert text in README
    verbatim = [example for example in EXAMPLES if example["source"] == "readme"]
    assert query in [parse(example["query"]) for example in verbatim]


def test_the_readme_queries_mean_what_they_say() -> None:
    assemble = parse(README_ASSEMBLE).statement
    assert isinstance(assemble, Assemble)
    assert [source.label for source in assemble.sources] == ["profile", "history", "tickets", "policy", "session"]
    assert assemble.priority == ("profile", "history", "tickets", "policy", "session")
    assert assemble.intent == "resolving billing dispute for customer:priya"
    assert assemble.format == "sml"
    add = parse(README_ADD).statement
    assert isinstance(add, Add)
    assert [each.field for each in add.assignments] == "subject relation object content confidence tags".split()
    recall = parse(README_RECALL).statement
    assert isinstance(recall, Recall)
    assert recall.grain_type == "workflow"
    assert recall.format == "markdown"


@pytest.mark.requirement("CAL-2-strict")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (README_ASSEMBLE, "CAL-E060"),
        (README_ADD, "CAL-E051"),
        (README_RECALL, "CAL-E060"),
        ("RECALL beliefs AS structured", "CAL-E002"),
        ("ASSEMBLE c FROM (RECALL beliefs) FORMAT sml BUDGET 20 grains", "CAL-E002"),
        ("RECALL actions THREAD \"s\"", "CAL-E060"),
        ("ASSEMBLE c FROM (RECALL beliefs) BUDGET 20 grains FORMAT structured WITH superseded", None),
    ],
)  # fmt: skip
def test_strict_holds_to_the_letter(text: str, code: str | None) -> None:
    assert code_of(text) is None
    assert code_of(text, strict=True) == code


@pytest.mark.requirement("CAL-9-shortcuts")
@pytest.mark.parametrize("example", [e for e in STATIC if "desugars_to" in e], ids=lambda example: example["query"])
def test_shortcuts_are_written_out_as_printed(example: dict[str, Any]) -> None:
    assert desugar(parse(text_of(example))) == parse(example["desugars_to"])


@pytest.mark.requirement("CAL-22-warnings")
@pytest.mark.parametrize("example", [e for e in STATIC if e["valid"]], ids=lambda example: example["query"][:40])
def test_every_example_has_its_warnings(example: dict[str, Any]) -> None:
    assert [each.code for each in find_warnings(parse(text_of(example)))] == example.get("warnings", [])


def test_the_json_form_of_the_specification_is_ours() -> None:
    (example,) = [each for each in EXAMPLES if "json_form" in each]
    assert to_json(parse(example["query"])) == example["json_form"]
    assert from_json(example["json_form"]) == parse(example["query"])


@pytest.mark.requirement("CAL-22-position")
def test_the_worked_error_of_the_specification_is_ours() -> None:
    (example,) = [each for each in EXAMPLES if "expected_position" in each]
    with pytest.raises(QueryError) as raised:
        parse(example["query"])
    error = raised.value
    place = {"start": error.start, "end": error.end, "line": error.line, "col": error.column}
    assert place == example["expected_position"]
    assert error.message == 'Unknown grain type "fact".'
    assert error.suggestion == 'Did you mean "belief"? (OMS renamed Fact -> Belief in v1.2)'


@pytest.mark.parametrize("text", published.VALID, ids=lambda text: text[:40])
def test_every_valid_example_keeps_its_meaning_as_text_and_as_json(text: str) -> None:
    query = parse(text)
    spelled = canonical(query)
    assert parse_text(spelled) == query
    assert canonical(parse_text(spelled)) == spelled
    assert from_json(to_json(query)) == query
    assert query_hash(parse(spelled)) == query_hash(query)


def test_every_code_is_named_in_the_examples_or_in_our_tests() -> None:
    assert len(codes.ERRORS) == 64
    assert {each["expected_error"] for each in EXAMPLES if "expected_error" in each} <= set(codes.ERRORS)
