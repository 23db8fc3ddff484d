"""What DESCRIBE answers, and what is declared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.describe import EXTENDED_FEATURES, capabilities, describe
from memoranda.standards.cal.grammar import ebnf
from memoranda.standards.cal.language import words
from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import DefineTemplate, Describe

SERVER = {"name": "memoranda", "version": "0.1.0", "cal_version": "1.0", "oms_version": "1.3"}
DECLARED = capabilities(
    tier1_enabled=True,
    streaming=True,
    templates=True,
    auto_toon=False,
    token_counter="bytes/4",
    embedding_model=None,
    languages=["de", "en"],
)


def defined(text: str) -> DefineTemplate:
    statement = parse(text).statement
    assert isinstance(statement, DefineTemplate)
    return statement


def answer_to(text: str, *templates: DefineTemplate) -> Any:
    statement = parse(text).statement
    assert isinstance(statement, Describe)
    answer = describe(statement, capabilities=DECLARED, server=SERVER, templates=templates)
    assert json.loads(json.dumps(answer)) == answer
    return answer


@pytest.mark.requirement("CAL-8.6-describe")
def test_the_ten_types_are_described_with_what_may_be_added_and_superseded() -> None:
    answer = answer_to("DESCRIBE grain_types")
    assert answer[0] == {
        "type": "belief", "plural": "beliefs", "code": "0x01", "addable": True, "supersedable": True
    }  # fmt: skip
    assert answer[-1] == {
        "type": "consent", "plural": "consents", "code": "0x0A", "addable": False, "supersedable": False
    }  # fmt: skip
    assert [each["type"] for each in answer] == list(fields.SINGULARS)
    assert [each["type"] for each in answer if each["addable"]] == ["belief", "observation", "goal", "reasoning"]
    assert [each["type"] for each in answer if each["supersedable"]] == ["belief"]


@pytest.mark.requirement("CAL-8.6-describe")
def test_a_field_is_described_by_its_row() -> None:
    rows = answer_to("DESCRIBE fields goal")
    by_name = {row["field"]: row for row in rows}
    assert by_name["confidence"] == {
        "field": "confidence",
        "type": "Number",
        "operators": ["=", "!=", ">=", "<=", ">", "<"],
        "sortable": True,
        "projectable": True,
        "groupable": False,
        "grain_type": None,
    }
    assert by_name["deadline"] == {
        "field": "deadline",
        "type": "Temporal",
        "operators": ["=", "BETWEEN"],
        "sortable": True,
        "projectable": True,
        "groupable": False,
        "grain_type": "goal",
    }
    assert by_name["goal_state"]["values"] == list(fields.GOAL_STATES)
    assert "role" not in by_name


# Section 6.5, with session_id of actions and goal_state of workflows (C11, C12).
COUNTS = {"belief": 18, "event": 23, "state": 20, "workflow": 21, "action": 23, "observation": 20, "goal": 22,
          "reasoning": 21, "consensus": 21, "consent": 24}  # fmt: skip


@pytest.mark.parametrize(("grain_type", "count"), COUNTS.items())
def test_a_type_is_described_with_all_its_fields(grain_type: str, count: int) -> None:
    rows = answer_to(f"DESCRIBE fields {grain_type}")
    assert len(rows) == count
    assert {row["grain_type"] for row in rows} <= {None, grain_type}


def test_without_a_type_the_fields_of_every_type_are_described() -> None:
    rows = answer_to("DESCRIBE fields")
    assert len(rows) == 18 + sum(count - 18 for count in COUNTS.values())
    assert [row["grain_type"] for row in rows if row["field"] == "goal_state"] == ["workflow", "goal"]
    assert {operator for row in rows for operator in row["operators"]} == words.OPERATORS


@pytest.mark.requirement("CAL-8.6-describe")
def test_templates_are_described_without_their_text() -> None:
    plain = defined("DEFINE TEMPLATE plain ELEMENT { {{grain.content}} }")
    long = defined("DEFINE TEMPLATE long EXTENDS compact HEADER { é } ELEMENT { x } FOOTER { }")
    assert answer_to("DESCRIBE templates", plain, long) == [
        {"name": "plain", "extends": "readable", "sections": ["element"], "bytes": 29},
        {"name": "long", "extends": "compact", "sections": ["header", "element", "footer"], "bytes": 39},
    ]
    assert "ELEMENT { {{grain.content}} }" in canonical(parse("DEFINE TEMPLATE plain ELEMENT { {{grain.content}} }"))
    assert len(b"ELEMENT { {{grain.content}} }") == 29


@pytest.mark.requirement("CAL-8.6-describe")
def test_the_host_is_described_as_it_says_and_the_grammar_as_it_is() -> None:
    assert answer_to("DESCRIBE server") == SERVER
    assert answer_to("DESCRIBE capabilities") == DECLARED
    assert answer_to("DESCRIBE grammar") == {"ebnf": ebnf()}


@pytest.mark.requirement("CAL-24-declaration")
def test_core_is_declared_with_the_features_beyond_it() -> None:
    assert (DECLARED["cal_conformance"], DECLARED["cal_version"]) == ("core", "1.0")
    # Section 16: these three are declared in any case.
    assert DECLARED["cross_lingual_search"] is False
    assert DECLARED["embedding_model"] is None
    assert DECLARED["supported_languages"] == ["de", "en"]
    assert {*EXTENDED_FEATURES, "evolve", "streaming", "templates"} <= set(DECLARED["features"])
    assert set(DECLARED["formats"]) == words.FORMAT_NAMES
    assert (DECLARED["token_counter"], DECLARED["search"]) == ("bytes/4", "lexical")
    stated = DECLARED["limits"]
    assert stated["query_bytes"] == 8192
    assert (stated["limit_default"], stated["limit_max"]) == (limits.LIMIT_DEFAULT, 1000)
    assert stated["budget"] == {"tokens": 16_000, "grains": 200}
    assert len(set(DECLARED["features"])) == len(DECLARED["features"])


@pytest.mark.requirement("CAL-24-declaration")
def test_what_is_switched_off_is_not_declared() -> None:
    declared = capabilities(
        tier1_enabled=False,
        streaming=False,
        templates=False,
        auto_toon=True,
        token_counter="x",
        embedding_model=None,
        languages=["en"],
    )
    assert not {"evolve", "two_phase", "streaming", "templates"} & set(declared["features"])
    switches = ("tier1_enabled", "streaming", "templates", "auto_toon_enabled")
    assert [dict(declared)[name] for name in switches] == [False, False, False, True]
