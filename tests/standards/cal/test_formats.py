"""The seven formats: the printed examples exactly, and hostile text in every one."""

from __future__ import annotations

import json
import re
from io import StringIO
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from tests.standards.cal.published import EXAMPLES
from tests.standards.cal.samples import (
    ANYTHING,
    DAY,
    ELEMENTS,
    MARCH_15,
    NOW,
    TEN,
    TEN_SML,
    TEXTS,
    belief,
    event,
    item,
)

from memoranda.errors import QueryError
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language import words
from memoranda.standards.cal.language.syntax import Project
from memoranda.standards.cal.printing.formats import (
    ContextFrame,
    Element,
    assembled_text,
    canonical_format,
    line_of,
    recall_text,
    values_text,
)
from memoranda.standards.cal.printing.toon import format_cell
from memoranda.standards.cal.printing.values import plain_value, yaml_text
from memoranda.standards.sml.render import TAGS

REVIEW = "helping alice prepare her Q1 engineering review"
PROJECT = ContextFrame(None, "helping alice with project", 100, 4000, "tokens")
SMALL = [
    Element(belief("mg:prefers", "dark mode", 0.92)),
    Element(belief("requires", "keyboard shortcuts", 0.88)),
    Element(item("goal", subject="alice", description="complete Q1 review", goal_state="active")),
]
METRICS = [
    event("user", 10, "Can you help me pull together the Q1 metrics?"),
    event("assistant", 10, "Sure — retrieving deployment counts and incident data."),
    event("user", 8, "Focus on the reliability numbers first."),
]
VIM = [
    belief("mg:prefers", "dark mode", 0.95),
    belief("mg:prefers", "vim", 0.90),
    belief("works_best_in", "deep-focus blocks of 90 minutes", 0.82),
]


def patient(content: str, **fields: Any) -> ResultItem:
    return item("observation", observer_id="dr-smith", object=content, **fields)


PATIENTS = [
    patient("elevated heart rate detected", **{"hc:patient_id": "P-1234", "hc:encounter_id": "E-567"}),
    patient("blood pressure within normal range", context={"hc:patient_id": "P-1235", "hc:encounter_id": "E-568"}),
]


def elements(items: list[ResultItem], shape: Project | None = None, source: str = "") -> list[Element]:
    return [Element(each, "standard", source, shape) for each in items]


# --- printed examples ---------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-10.4-sml", "SML-3-all-types")
def test_the_example_of_all_ten_types_is_printed_exactly() -> None:
    assert assembled_text("sml", elements(TEN), ContextFrame("c", REVIEW, 1, 2, "tokens"), NOW) == TEN_SML


@pytest.mark.requirement("CAL-10.4-sml", "CAL-14.2-markdown", "CAL-14.2-text")
def test_the_small_example_is_printed_in_three_formats() -> None:
    assert assembled_text("sml", SMALL, PROJECT, NOW) == (
        """<context intent="helping alice with project">

  <belief subject="alice" confidence="0.92">prefers dark mode</belief>
  <belief subject="alice" confidence="0.88">requires keyboard shortcuts</belief>

  <goal subject="alice" state="active">complete Q1 review</goal>

</context>"""
    )
    assert assembled_text("markdown", SMALL, PROJECT, NOW) == (
        """## Context: helping alice with project

**Beliefs**
- alice prefers dark mode (confidence: 0.92)
- alice requires keyboard shortcuts (confidence: 0.88)

**Goals**
- alice: complete Q1 review (active)"""
    )
    assert assembled_text("text", SMALL, PROJECT, NOW) == (
        """[belief] alice prefers dark mode (0.92)
[belief] alice requires keyboard shortcuts (0.88)
[goal] alice: complete Q1 review (active)"""
    )


@pytest.mark.requirement("CAL-10.9-toon", "CAL-10.3.5-project")
def test_the_outputs_printed_beside_the_queries_are_what_we_print() -> None:
    named = ("hc:patient_id", "hc:encounter_id")
    ours = {
        "attr(observer": recall_text(
            "sml",
            elements(PATIENTS[:1], Project(content=("object",), attributes=("observer", *named))),
            NOW,
        ),
        "LIMIT 3 AS toon": recall_text("toon", elements(VIM), NOW),
        "RECENT 3 AS toon": recall_text("toon", elements(METRICS), NOW),
        "attr(hc:": recall_text("toon", elements(PATIENTS, Project(content=("object",), attributes=named)), NOW),
    }
    printed = [each for each in EXAMPLES if "expected_output" in each]
    assert len(printed) == len(ours)
    for each in printed:
        assert [text for part, text in ours.items() if part in each["query"]] == [each["expected_output"]]


@pytest.mark.requirement("CAL-10.9-toon")
def test_the_toon_example_of_assemble_is_printed_exactly() -> None:
    goals = [
        item("goal", subject="alice", object="complete Q1 engineering review", goal_state="active", deadline=MARCH_15),
        item("goal", subject="alice", object="reduce P0 incident rate by 20% in Q2", goal_state="active"),
    ]
    frame = ContextFrame("agent_context", REVIEW, 1847, 2000, "tokens")
    sources = [*elements(VIM, source="a"), *elements(goals, source="b"), *elements(METRICS, source="c")]
    assert assembled_text("toon", sources, frame, NOW) == (
        """context: agent_context
intent: helping alice prepare her Q1 engineering review
tokens: 1847/2000
beliefs[3]{subject,content,confidence}:
  alice,prefers dark mode,0.95
  alice,prefers vim,0.9
  alice,works best in deep-focus blocks of 90 minutes,0.82
goals[2]{subject,content,state,deadline}:
  alice,complete Q1 engineering review,active,2026-03-15
  alice,reduce P0 incident rate by 20% in Q2,active,-
events[3]{role,time,content}:
  user,10m ago,Can you help me pull together the Q1 metrics?
  assistant,10m ago,Sure — retrieving deployment counts and incident data.
  user,8m ago,Focus on the reliability numbers first."""
    )


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-10.1-names")
def test_presets_are_other_names_of_four_formats() -> None:
    assert {name: canonical_format(name) for name in words.PRESETS} == {
        "structured": "sml",
        "readable": "markdown",
        "compact": "text",
        "data": "json",
    }
    for name in words.FORMATS:
        assert canonical_format(name) == name
    for preset in words.PRESETS:
        assert recall_text(preset, SMALL, NOW) == recall_text(canonical_format(preset), SMALL, NOW)
    with pytest.raises(QueryError) as caught:
        canonical_format("xml")
    assert caught.value.cal_code == "CAL-E002"


# --- sml ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SML-4-disclosure")
def test_levels_change_attributes_and_nothing_else() -> None:
    grain = belief("mg:prefers", "dark mode", 0.92, source_type="explicit", timestamp_ms=NOW - 2 * DAY)
    printed = [recall_text("sml", [Element(grain, level)], NOW) for level in ("summary", "standard", "full")]
    assert printed == [
        '<belief subject="alice">prefers dark mode</belief>',
        '<belief subject="alice" confidence="0.92">prefers dark mode</belief>',
        '<belief subject="alice" confidence="0.92" source="explicit" observed="2d ago">prefers dark mode</belief>',
    ]


@pytest.mark.requirement("CAL-10.4-sml")
def test_a_new_group_starts_with_another_source_or_type() -> None:
    same, other = belief("is", "a"), belief("is", "b")
    found = recall_text("sml", [Element(same, source="x"), Element(same, source="x"), Element(other, source="y")], NOW)
    assert [len(group.splitlines()) for group in found.split("\n\n")] == [2, 1]
    assert recall_text("sml", [], NOW) == ""
    assert assembled_text("sml", [], ContextFrame("name", None, 0, 10, "grains"), NOW) == "<context>\n\n</context>"


# --- markdown and text --------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-14.2-markdown")
def test_every_type_has_its_line_in_markdown() -> None:
    lines = recall_text("markdown", elements(TEN), NOW).splitlines()
    assert lines[:5] == [
        "**Beliefs**",
        "- alice prefers dark mode in all tools (confidence: 0.95)",
        "- alice requires keyboard shortcuts for productivity (confidence: 0.88)",
        "- alice works best in deep-focus blocks of 90 minutes (confidence: 0.82)",
        "",
    ]
    assert [line for line in lines if line.startswith("**")] == [
        f"**{name}**"
        for name in "Beliefs Goals Events Actions Observations Reasonings States Workflows Consensuses Consents".split()
    ]
    for line in (
        "- alice: complete Q1 engineering review presentation (active, deadline: 2026-03-15)",
        "- user: Focus on the reliability numbers first. (8m ago)",
        "- query_metrics: retrieved 47 deployments and 3 P0 incidents for Q1 2026 (completed)",
        "- system: alice opened incident-dashboard at 09:14 UTC",
        "- low velocity in week 8 likely caused by the infra migration; flag as contextual outlier (abductive)",
        "- Q1 deployment frequency improved 18% over Q4 2025 (threshold: 3, count: 4)",
        "- alice granted agent: access engineering metrics dashboards for review preparation",
    ):
        assert line in lines
    assert any(line.startswith("- q1_review_prep: outlining slides: 1. headline") for line in lines)
    assert any(line.startswith("- review_prep_requested: 1. retrieve Q1 metrics  2. identify") for line in lines)


@pytest.mark.requirement("CAL-14.2-markdown")
def test_the_heading_is_the_intent_or_else_the_name() -> None:
    heads = [
        assembled_text("markdown", SMALL[:1], ContextFrame(name, intent, 1, 2, "tokens"), NOW).splitlines()[0]
        for name, intent in (("name", "the\nintent"), ("name", None), (None, None))
    ]
    assert heads == ["## Context: the intent", "## Context: name", "**Beliefs**"]
    assert assembled_text("markdown", [], PROJECT, NOW) == "## Context: helping alice with project"
    assert recall_text("markdown", [], NOW) == ""


@pytest.mark.requirement("CAL-14.2-markdown", "CAL-14.2-text")
def test_optional_parts_vanish_at_summary_and_full_names_what_it_adds() -> None:
    grain = belief("mg:prefers", "x", 0.9, source_type="imported", importance=1.0, structural_tags=["a", "b"])
    summary, full = Element(grain, "summary"), Element(grain, "full")
    assert recall_text("text", [summary], NOW) == "[belief] alice prefers x"
    more = "source: imported, observed: 0m ago, importance: 1.0, tags: a,b"
    assert recall_text("text", [full], NOW) == f"[belief] alice prefers x (0.9, {more})"
    assert line_of("markdown", full, NOW) == f"- alice prefers x (confidence: 0.9, {more})\n"
    shaped = Element(PATIENTS[0], shape=Project(attributes=("observer", "hc:patient_id")))
    assert recall_text("text", [shaped], NOW) == (
        "[observation] dr-smith: elevated heart rate detected (hc:patient_id: P-1234)"
    )


# --- triples ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-10.1-triples")
def test_a_grain_without_a_triple_is_one_by_its_type() -> None:
    items = [
        belief("mg:prefers", "dark mode"),
        item("event", role="user", content="hello"),
        item("action", tool_name="search", content="found"),
        item("observation", observer_id="cam", content="open"),
        item("goal", subject="alice", description="review"),
        item("goal", description="review", assigned_agent="did:web:a"),
        item("reasoning", conclusion="so", author_did="did:web:b"),
        item("state", plan=["a"]),
        item("workflow", steps=["a", "b"]),
        item("consensus", agreed_content="yes"),
        item("consent", subject_did="alice", purpose="read", is_withdrawal=True),
    ]
    assert recall_text("triples", elements(items), NOW).splitlines() == [
        "(alice, prefers, dark mode)",
        "(user, said, hello)",
        "(search, did, found)",
        "(cam, perceives, open)",
        "(alice, intends, review)",
        "(did:web:a, intends, review)",
        "(did:web:b, infers, so)",
        "(state, state at, 1. a)",
        "(workflow, requires steps, 1. a  2. b)",
        "(consensus, agrees with, yes)",
        "(alice, revokes, read)",
    ]
    shaped = Element(items[0], shape=Project(content=("object", "confidence")))
    assert line_of("triples", shaped, NOW) == "(alice, prefers, dark mode 0.9)\n"


# --- json and yaml ------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-10.1-json")
def test_json_has_the_projection_as_members_in_its_order() -> None:
    items = [
        belief("works_at", {"b": 1, "a": 2}, 1.0),
        item("reasoning", conclusion="so", inference_method="inductive"),
    ]
    assert recall_text("json", elements(items), NOW) == (
        '[{"type":"belief","subject":"alice","confidence":1.0,"relation":"works at","object":{"b":1,"a":2},'
        '"content":"works at {\\"a\\":2,\\"b\\":1}"},'
        '{"type":"reasoning","reasoning_type":"inductive","content":"so"}]'
    )
    shaped = Element(items[0], shape=Project(content=("subject",), attributes=("type", "tags")))
    assert recall_text("json", [shaped], NOW) == '[{"type":"belief","content":"alice"}]'
    assert recall_text("json", [], NOW) == "[]"


@pytest.mark.requirement("CAL-10.1-json", "CAL-10.1-yaml")
@pytest.mark.parametrize("unit", ["tokens", "grains"])
def test_an_assembled_context_has_its_name_intent_and_budget(unit: Any) -> None:
    frame = ContextFrame("ctx", None, 3, 10, unit)
    budget: dict[str, Any] = {"tokens": {"used": 3, "total": 10}}
    if unit == "grains":
        budget = {"budget": {"used": 3, "total": 10, "unit": "grains"}}
    grains = json.loads(recall_text("json", SMALL, NOW))
    for found, several in ((SMALL, grains), ([], [])):
        expected = {"context": "ctx", "intent": None, **budget, "grains": several}
        assert json.loads(assembled_text("json", found, frame, NOW)) == expected
        assert YAML(typ="safe", pure=True).load(assembled_text("yaml", found, frame, NOW)) == expected


@pytest.mark.requirement("CAL-10.1-yaml")
def test_yaml_is_the_same_in_block_style() -> None:
    assert assembled_text("yaml", SMALL[:1], ContextFrame("c", "a: b", 1, 2, "tokens"), NOW) == (
        """context: c
intent: "a: b"
tokens:
  used: 1
  total: 2
grains:
  - type: belief
    subject: alice
    confidence: 0.92
    relation: prefers
    object: dark mode
    content: prefers dark mode"""
    )
    assert recall_text("yaml", SMALL[1:2], NOW).startswith("- type: belief\n  subject: alice\n")
    assert recall_text("yaml", [], NOW) == "[]"


@pytest.mark.requirement("CAL-10.1-yaml", "CAL-10.1-json")
@given(ANYTHING)
def test_any_value_is_read_back_from_json_and_yaml(value: Any) -> None:
    read = plain_value([value], is_read=True)
    assert json.loads(values_text("json", [value])) == read
    assert YAML(typ="safe", pure=True).load(StringIO(values_text("yaml", [value]))) == read


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("a\x00\x1b\x7f\x85\x9fb")
@example("\u2028\u2029\ufeff\ufffe\uffff")
@example("a\U0001fffe")
def test_any_text_is_read_back_from_yaml(text: str) -> None:
    assert YAML(typ="safe", pure=True).load(StringIO(yaml_text({text: [text]}))) == {text: [text]}


# --- toon ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-10.9-quoting")
@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("plain words", "plain words"),
        ("a,b", '"a,b"'),
        (" a", '" a"'),
        ("a ", '"a "'),
        ("a\u00a0", '"a\u00a0"'),
        ("", '""'),
        ("true", '"true"'),
        ("false", '"false"'),
        ("null", '"null"'),
        ("truely", "truely"),
        ("42", '"42"'),
        ("0.90", '"0.90"'),
        ("1e5", '"1e5"'),
        ("007", '"007"'),
        ("-3", '"-3"'),
        ("-", '"-"'),
        ("-x", '"-x"'),
        ("3 apples", "3 apples"),
        ("a:b", '"a:b"'),
        ('say "x"', '"say \\"x\\""'),
        ("a\\b", '"a\\\\b"'),
        ("[a]", '"[a]"'),
        ("{a}", '"{a}"'),
        ("a\nb\r\tc", '"a\\nb\\r\\tc"'),
        ("a\x00b", "a b"),
        ("a\u2028\x85b", '"a b"'),
        ("höchst 素晴らしい ✓", "höchst 素晴らしい ✓"),
        (0.90, "0.9"),
        (1.5000, "1.5"),
        (1.0, "1"),
        (-0.0, "0"),
        (1e21, "1000000000000000000000"),
        (1e-7, "0.0000001"),
        (12, "12"),
        (True, "true"),
        (float("nan"), "null"),
        (float("-inf"), "null"),
        (None, "-"),
        ({"a": [1]}, '"{\\"a\\":[1]}"'),
    ],
)
def test_a_cell_is_quoted_only_where_it_must_be(value: Any, printed: str) -> None:
    assert format_cell(value) == printed


@pytest.mark.requirement("CAL-10.9-columns")
def test_every_type_has_its_columns_at_every_level() -> None:
    heads = {
        level: [
            line
            for line in recall_text("toon", [Element(each, level) for each in TEN], NOW).splitlines()
            if line.endswith("}:")
        ]
        for level in ("summary", "standard", "full")
    }
    assert heads["standard"] == [
        "beliefs[3]{subject,content,confidence}:",
        "goals[2]{subject,content,state,deadline}:",
        "events[3]{role,time,content}:",
        "actions[2]{tool,phase,content}:",
        "observations[2]{observer,content}:",
        "reasonings[2]{type,content}:",
        "states[1]{context,content}:",
        "workflows[1]{trigger,content}:",
        "consensuses[1]{threshold,count,content}:",
        "consents[1]{grantor,grantee,action,content}:",
    ]
    assert heads["summary"] == [
        "beliefs[3]{subject,content}:",
        "goals[2]{subject,content}:",
        "events[3]{role,time,content}:",
        "actions[2]{tool,content}:",
        "observations[2]{observer,content}:",
        "reasonings[2]{content}:",
        *heads["standard"][6:],
    ]
    assert heads["full"] == [
        line.replace("}", ",source}" if line.startswith("events") else ",source,observed}")
        for line in heads["standard"]
    ]


@pytest.mark.requirement("CAL-10.9-columns")
def test_sources_and_levels_of_one_type_share_a_table() -> None:
    mixed = [
        Element(belief("is", "a", 0.5), "summary", "one"),
        Element(METRICS[2], "standard", "two"),
        Element(belief("is", "b", 0.6), "full", "three"),
        Element(belief("is", "c", 0.7), "summary", "four", Project(attributes=("hc:code", "subject"))),
    ]
    assert assembled_text("toon", mixed, ContextFrame(None, None, 4, 10, "grains"), NOW) == (
        """grains: 4/10
beliefs[3]{subject,content,confidence,source,observed,hc:code}:
  alice,is a,-,-,-,-
  alice,is b,0.6,-,0m ago,-
  alice,is c,-,-,-,-
events[1]{role,time,content}:
  user,8m ago,Focus on the reliability numbers first."""
    )
    shaped = [Element(belief("is", "a"), shape=Project(attributes=("content", "hash", "tags")))]
    assert recall_text("toon", shaped, NOW) == "beliefs[1]{content,tags}:\nis a,-"
    assert recall_text("toon", [], NOW) == ""


@pytest.mark.requirement("CAL-10.9-toon")
def test_name_and_intent_follow_the_quoting_rules() -> None:
    frame = ContextFrame("ctx", "a: b\nbeliefs[1]{x}:", 0, 10, "tokens")
    assert assembled_text("toon", [], frame, NOW) == ('context: ctx\nintent: "a: b\\nbeliefs[1]{x}:"\ntokens: 0/10')


# --- values -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-9-values")
@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (
            {"count": 3},
            {"json": '{"count":3}', "yaml": "count: 3", "toon": "count: 3", "text": "3", "markdown": "- 3"},
        ),
        (
            {"values": ["alice", "a,\n<belief>"]},
            {
                "json": '{"values":["alice","a,\\n&lt;belief>"]}',
                "yaml": 'values:\n  - alice\n  - "a,\\n&lt;belief>"',
                "toon": 'values[2]{value}:\nalice\n"a,\\n&lt;belief>"',
                "text": "alice\na, &lt;belief>",
                "sml": "alice\na, &lt;belief>",
                "markdown": "- alice\n- a, &lt;belief>",
            },
        ),
        (
            {"groups": [{"key": "alice", "count": 2, "grains": [{"content_address": "x"}]}, {"key": None, "count": 1}]},
            {
                "json": '{"groups":[{"key":"alice","count":2},{"key":null,"count":1}]}',
                "toon": "groups[2]{key,count}:\nalice,2\n-,1",
                "text": "alice: 2\n: 1",
            },
        ),
        (
            [{"subject": "alice", "confidence": 0.9}, {"subject": "bob", "confidence": None}],
            {
                "json": '[{"subject":"alice","confidence":0.9},{"subject":"bob","confidence":null}]',
                "yaml": "- subject: alice\n  confidence: 0.9\n- subject: bob\n  confidence: null",
                "toon": "rows[2]{subject,confidence}:\nalice,0.9\nbob,-",
                "text": "subject: alice, confidence: 0.9\nsubject: bob",
                "triples": "subject: alice, confidence: 0.9\nsubject: bob",
            },
        ),
        ([], {"json": "[]", "yaml": "[]", "toon": "rows[0]{}:", "text": "", "sml": ""}),
    ],
    ids=["count", "values", "groups", "rows", "nothing"],
)
def test_what_is_not_grains_is_printed_as_structure_table_or_lines(value: Any, printed: dict[str, str]) -> None:
    assert {name: values_text(name, value) for name in printed} == printed


@given(st.sampled_from(words.FORMATS), ANYTHING)
def test_any_values_are_printed(name: str, value: Any) -> None:
    values_text(name, {"values": [value]})
    values_text(name, [{"subject": value}])
    values_text(name, {"groups": [{"key": value, "count": 1}]})
    values_text(name, {"count": 1})
    if name not in ("json", "yaml", "toon"):
        assert len(values_text(name, [{"subject": value}, {"subject": value}]).split("\n")) == 2


# --- hostile text -------------------------------------------------------------------------------------------

FRAMES = st.builds(ContextFrame, st.none() | TEXTS, st.none() | TEXTS, st.just(1), st.just(2), st.just("tokens"))
ANY_TAG = re.compile(rf"</?(?:{'|'.join((*TAGS, 'context'))})", re.IGNORECASE)
CELL = re.compile(r'"(?:[^"\\]|\\[\\"nrt])*"|[^",]+')


@pytest.mark.requirement("CAL-10.4-forging")
@given(ELEMENTS, FRAMES, st.booleans())
def test_no_stored_text_forges_a_tag_or_a_line_of_sml(found: list[Element], frame: ContextFrame, iso: bool) -> None:
    lines = assembled_text("sml", found, frame, NOW, iso_times=iso).splitlines()
    assert ANY_TAG.findall(lines[0]) == ["<context"]
    assert lines[-1] == "</context>"
    body = [line for line in lines[1:-1] if line]
    assert len(body) == len(found)
    for line, element in zip(body, found, strict=True):
        tag = element.item.grain_type
        assert ANY_TAG.findall(line) == [f"<{tag}", f"</{tag}"]
        assert line.startswith(f"  <{tag}")
        assert line.endswith(f"</{tag}>")
    bare = recall_text("sml", found, NOW, iso_times=iso).splitlines()
    assert [line for line in bare if line] == [line.removeprefix("  ") for line in body]


@pytest.mark.requirement("CAL-10.4-forging")
@given(ELEMENTS, FRAMES)
def test_one_grain_is_one_line_in_every_format_of_lines(found: list[Element], frame: ContextFrame) -> None:
    for name, start in (("text", "["), ("triples", "(")):
        lines = assembled_text(name, found, frame, NOW).splitlines()
        assert len(lines) == len(found)
        assert all(line.startswith(start) for line in lines)
    for text in (assembled_text("markdown", found, frame, NOW), recall_text("markdown", found, NOW)):
        lines = [line for line in text.splitlines() if line]
        grains = [line for line in lines if line.startswith("- ")]
        assert len(grains) == len(found)
        assert all(line.startswith(("**", "## Context: ")) for line in lines if line not in grains)


@pytest.mark.requirement("CAL-10.4-forging", "CAL-10.9-toon")
@given(ELEMENTS, FRAMES)
def test_every_toon_row_has_as_many_cells_as_its_table_has_columns(found: list[Element], frame: ContextFrame) -> None:
    lines = assembled_text("toon", found, frame, NOW).splitlines()
    metadata = 1 + (frame.name is not None) + (frame.intent is not None)
    rows, columns, expected = 0, 0, 0
    for line in lines[metadata:]:
        if not line.startswith("  "):
            assert rows == expected
            head = re.fullmatch(r"[a-z]+\[(\d+)\]\{([^{}]+)\}:", line)
            assert head is not None
            rows, expected, columns = 0, int(head[1]), len(head[2].split(","))
            continue
        rows += 1
        cells = CELL.findall(line[2:])
        assert ",".join(cells) == line[2:]
        assert len(cells) == columns
    assert rows == expected
    assert sum(line.startswith("  ") for line in lines) == len(found)


@given(ELEMENTS, FRAMES)
def test_json_and_yaml_of_any_grains_are_read_back_the_same(found: list[Element], frame: ContextFrame) -> None:
    for as_json, as_yaml in (
        (recall_text("json", found, NOW), recall_text("yaml", found, NOW)),
        (assembled_text("json", found, frame, NOW), assembled_text("yaml", found, frame, NOW)),
    ):
        assert YAML(typ="safe", pure=True).load(StringIO(as_yaml)) == json.loads(as_json)


# --- cost ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-8.2-cost")
@given(ELEMENTS, st.booleans())
def test_the_lines_of_the_elements_are_what_is_printed_of_them(found: list[Element], iso: bool) -> None:
    frame = ContextFrame(None, None, 0, 10, "tokens")
    for name in words.FORMATS:
        printed = assembled_text(name, found, frame, NOW, iso_times=iso)
        lines = [line_of(name, each, NOW, iso_times=iso) for each in found]
        assert lines == [line_of(name, Element(e.item, e.level, e.source, e.shape), NOW, iso_times=iso) for e in found]
        if name == "json":
            assert json.loads(printed)["grains"] == json.loads(f"[{''.join(lines)[:-1]}]")
        elif name != "toon" or len(found) == 1:
            assert all(line in f"{printed}\n" for line in lines)


def test_an_element_printed_later_is_told_anew() -> None:
    element = Element(METRICS[0])
    for now, iso, said in (
        (NOW, False, "10m ago"),
        (NOW + DAY, False, "yesterday"),
        (NOW, True, "2026-03-03T11:50:00Z"),
    ):
        for name in ("sml", "markdown", "text", "json", "yaml", "toon"):
            assert said in line_of(name, element, now, iso_times=iso)


@given(ELEMENTS)
def test_the_time_and_its_style_are_never_those_of_an_earlier_print(found: list[Element]) -> None:
    fresh = [Element(each.item, each.level, each.source, each.shape) for each in found]
    for name in words.FORMATS:
        for now, iso in ((NOW, False), (NOW + DAY, False), (NOW, True), (NOW, False)):
            first = recall_text(name, found, now, iso_times=iso)
            assert first == recall_text(
                name, [Element(e.item, e.level, e.source, e.shape) for e in fresh], now, iso_times=iso
            )
