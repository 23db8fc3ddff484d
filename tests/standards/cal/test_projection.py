"""What of a grain is printed, before any format."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.cal.samples import ADDRESS, DAY, HOUR, ITEMS, MARCH_15, MINUTE, NOW, SHAPES, belief, item

from memoranda.model.memory import NATIVE_KEY
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language.syntax import Project
from memoranda.standards.cal.printing.projection import Level, humanize, iso_time, project, relative_time

LEVELS: tuple[Level, ...] = ("summary", "standard", "full")
EVERYWHERE: dict[str, Any] = {
    "source_type": "user_explicit",
    "importance": 0.7,
    "structural_tags": ["work", "q1"],
    "timestamp_ms": NOW - 2 * DAY,
}
MORE = {"source": "user_explicit", "observed": "2d ago", "importance": 0.7, "tags": "work,q1"}
# type, fields, text, attributes of the summary, attributes that standard adds
TYPES: list[tuple[str, dict[str, Any], str, dict[str, Any], dict[str, Any]]] = [
    (
        "belief",
        {"subject": "alice", "relation": "mg:prefers", "object": "dark mode", "confidence": 0.92},
        "prefers dark mode",
        {"subject": "alice"},
        {"confidence": 0.92},
    ),
    ("event", {"role": "user", "content": "hello"}, "hello", {"role": "user"}, {"time": "2d ago"}),
    (
        "goal",
        {"subject": "alice", "description": "review", "goal_state": "satisfied", "deadline": MARCH_15},
        "review",
        {"subject": "alice"},
        {"state": "satisfied", "deadline": "2026-03-15"},
    ),
    (
        "action",
        {"tool_name": "search", "content": "found 3", "action_phase": "result"},
        "found 3",
        {"tool": "search"},
        {"phase": "result"},
    ),
    ("observation", {"observer_id": "cam-1", "object": "door open"}, "door open", {}, {"observer": "cam-1"}),
    ("reasoning", {"inference_method": "deductive", "conclusion": "so"}, "so", {}, {"type": "deductive"}),
    ("state", {"context": {"label": "prep"}, "plan": ["a", "b"]}, "1. a  2. b", {}, {"context": "prep"}),
    (
        "workflow",
        {"trigger": "opened", "steps": ["a", "b"], "goal_state": "open"},
        "1. a  2. b",
        {},
        {"trigger": "opened", "state": "open"},
    ),
    (
        "consensus",
        {"threshold": 3, "agreement_count": 4, "agreed_content": "yes"},
        "yes",
        {},
        {"threshold": 3, "count": 4},
    ),
    (
        "consent",
        {"subject_did": "alice", "grantee_did": "agent", "is_withdrawal": True, "scope": ["read", "write"]},
        "read, write",
        {"action": "withdrawn", "grantor": "alice", "grantee": "agent"},
        {},
    ),
]


@pytest.mark.requirement("CAL-10.3-projection", "SML-2-prose")
@pytest.mark.parametrize(
    ("grain_type", "fields", "text", "summary", "standard"), TYPES, ids=lambda each: str(each)[:12]
)
def test_every_type_has_its_text_and_attributes_at_every_level(
    grain_type: str, fields: dict[str, Any], text: str, summary: dict[str, Any], standard: dict[str, Any]
) -> None:
    grain = item(grain_type, verification="contested", **fields, **EVERYWHERE)
    more = {name: value for name, value in MORE.items() if (grain_type, name) != ("event", "observed")}
    expected = [summary, summary | standard, summary | standard | more | {"verification_status": "contested"}]
    for level, attributes in zip(LEVELS, expected, strict=True):
        projected = project(grain, level, NOW)
        assert projected.grain_type == grain_type
        assert projected.text == text
        # In this order, too.
        assert projected.attributes == tuple(attributes.items())


@pytest.mark.requirement("CAL-10.3-projection")
@pytest.mark.parametrize(
    ("grain", "text"),
    [
        (item("event", content_blocks=[{"text": "a"}, {"type": "image"}, {"text": "b"}]), "a b"),
        (item("event", subject="alice", relation="mg:said", object="hi"), "alice said hi"),
        (item("event", content={"b": 1, "a": [True]}), '{"a":[true],"b":1}'),
        (item("goal", object="o", description="d"), "o"),
        (item("action", content={"rows": 2}, error="e"), '{"rows":2}'),
        (item("action", error="e", stdout="s"), "e"),
        (item("action", stdout="s"), "s"),
        (item("action", action_phase="call", input={"q": "x"}), '{"q":"x"}'),
        (item("action", action_phase="definition", tool_description="finds"), "finds"),
        (item("observation", content="c"), "c"),
        (item("reasoning", object="o"), "o"),
        (item("reasoning", content="c"), "c"),
        (item("state", plan="as it is", context="label"), "as it is"),
        (item("workflow", steps=[{"do": 1}, "b"]), '1. {"do":1}  2. b'),
        (item("consensus", object="o", agreed_content="a"), "o"),
        (item("consent", purpose="p", scope=["s"]), "p"),
        (belief("mg:knows", {"b": 2, "a": 1}), '{"a":1,"b":2}'),
        (belief("mg:knows", {"id": 2**60}), f'{{"id":{2**60}}}'),
        (belief("mg:knows", 1.0), "1.0"),
        # The reserved relation between an entity and a fact; a word of one's own is a relation.
        (belief("mg:knows", "account tier is Professional"), "account tier is Professional"),
        (belief("knows", "bob"), "knows bob"),
        (belief("", "x"), "x"),
    ],
)
def test_the_text_falls_back_to_what_there_is(grain: ResultItem, text: str) -> None:
    assert project(grain, "standard", NOW).text == text


@pytest.mark.requirement("CAL-10.3-projection")
def test_what_is_missing_or_says_nothing_is_left_out() -> None:
    assert project(item("belief"), "full", NOW).attributes == (("observed", "0m ago"),)
    assert project(item("action"), "standard", NOW).attributes == (("phase", "completed"),)
    assert "verification_status" not in dict(project(item("goal"), "full", NOW).attributes)
    assert project(item("goal", structural_tags=[], subject=""), "full", NOW).attributes == (("observed", "0m ago"),)


@pytest.mark.requirement("CAL-10.3-humanize")
@pytest.mark.parametrize(
    ("relation", "said"),
    [
        ("mg:prefers", "prefers"),
        ("works_at", "works at"),
        ("acme:similar_to", "similar to"),
        ("a:b:c_d", "b:c d"),
        ("", ""),
        (None, ""),
        (7, "7"),
    ],
)
def test_relations_lose_their_prefix_and_underscores(relation: Any, said: str) -> None:
    assert humanize(relation) == said


@pytest.mark.requirement("CAL-10.3-times", "SML-times")
@pytest.mark.parametrize(
    ("age", "said"),
    [
        (0, "0m ago"),
        (59_999, "0m ago"),
        (23 * MINUTE, "23m ago"),
        (HOUR - 1, "59m ago"),
        (HOUR, "1h ago"),
        (23 * HOUR + 59 * MINUTE, "23h ago"),
        (24 * HOUR, "yesterday"),
        (2 * DAY - 1, "yesterday"),
        (2 * DAY, "2d ago"),
        (5 * DAY, "5d ago"),
        (7 * DAY, "1w ago"),
        (14 * DAY, "2w ago"),
        (29 * DAY, "4w ago"),
        (30 * DAY, "Feb 1"),
        (47 * DAY, "Jan 15"),
        (364 * DAY, "Mar 4"),
        (365 * DAY, "Mar 2025"),
        (729 * DAY, "Mar 2024"),
        (730 * DAY, "2024"),
        (-1, "2026-03-03"),
        (-DAY, "2026-03-04"),
    ],
)
def test_times_are_told_as_people_tell_them(age: int, said: str) -> None:
    assert relative_time(NOW - age, NOW) == said


@pytest.mark.requirement("CAL-10.3-times")
def test_iso_timestamps_switch_every_time_but_the_deadline() -> None:
    goal = item("goal", timestamp_ms=NOW - DAY, deadline=MARCH_15)
    attributes = dict(project(goal, "full", NOW, iso_times=True).attributes)
    assert attributes == {"deadline": "2026-03-15", "observed": "2026-03-02T12:00:00Z"}
    assert iso_time(NOW + 1) == "2026-03-03T12:00:00Z"


@given(st.integers(), st.integers(0, 2**60))
def test_any_number_is_a_time(then: int, now: int) -> None:
    assert relative_time(then, now)
    assert len(iso_time(then)) == 20


@pytest.mark.requirement("CAL-10.3.5-project")
@pytest.mark.parametrize(
    ("grain", "content", "attributes", "text", "found"),
    [
        (belief("mg:prefers", "x"), ("subject", "relation", "object"), None, "alice prefers x", {}),
        (
            belief("mg:prefers", "x"),
            None,
            ("relation", "confidence"),
            "prefers x",
            {"relation": "prefers", "confidence": 0.9},
        ),
        (belief("mg:prefers", "x"), ("confidence",), ("content",), "0.9", {"content": "prefers x"}),
        (item("observation", content="c", observer_id="o"), ("object",), ("observer", "tags"), "c", {"observer": "o"}),
        (
            item("goal", description="d", goal_state="active"),
            ("object",),
            ("state", "goal_state"),
            "d",
            {"state": "active", "goal_state": "active"},
        ),
        (item("workflow", steps=["a", "b"]), ("steps", "trigger"), ("steps",), "1. a  2. b", {"steps": "1. a  2. b"}),
        (
            item("consent", is_withdrawal=False, valid_to=MARCH_15),
            None,
            ("relation", "action", "expires_at"),
            "",
            {"relation": "permits", "action": "granted", "expires_at": "2026-03-15"},
        ),
        (
            item("action", content="c", tool_name="t"),
            ("object",),
            ("phase", "tool", "phase"),
            "c",
            {"phase": "completed", "tool": "t"},
        ),
        (item("reasoning", conclusion="c", inference_method="inductive"), None, ("type",), "c", {"type": "inductive"}),
        (
            item("observation", content="c", context={"hc:code": "I10", "x_note": ["a", "b"]}),
            None,
            ("hc:code", "x_note"),
            "c",
            {"hc:code": "I10", "x_note": "a,b"},
        ),
        (
            item("event", content="c", timestamp_ms=NOW - DAY),
            None,
            ("time", "contradicted"),
            "c",
            {"time": "yesterday", "contradicted": False},
        ),
    ],
    ids=lambda each: each.grain_type if isinstance(each, ResultItem) else None,
)
def test_project_chooses_text_and_attributes(
    grain: ResultItem,
    content: tuple[str, ...] | None,
    attributes: tuple[str, ...] | None,
    text: str,
    found: dict[str, Any],
) -> None:
    for level in LEVELS:
        projected = project(grain, level, NOW, shape=Project(content=content, attributes=attributes))
        assert projected.text == text
        assert projected.attributes == tuple(found.items())


@pytest.mark.requirement("CAL-10.3-no-internals", "SML-2-no-internals")
def test_no_hash_and_no_namespace_is_projected_whoever_asks() -> None:
    grain = item(
        "event",
        content="c",
        parent_message_id=ADDRESS,
        derived_from=[ADDRESS],
        x_where=f"sha256:{ADDRESS.upper()}",
        x_several=[ADDRESS, "kept"],
    )
    names = ("hash", "namespace", "parent_message_id", "x_where", "x_several")
    projected = project(grain, "full", NOW, shape=Project(content=names, attributes=names))
    assert projected.text == "kept"
    assert projected.attributes == (("x_several", "kept"),)
    for level in LEVELS:
        printed = str(project(grain, level, NOW))
        assert ADDRESS not in printed
        assert "secret-ns" not in printed


@pytest.mark.requirement("CAL-10.3-no-internals", "SML-2-no-internals")
def test_the_original_of_a_foreign_memory_is_never_projected() -> None:
    native = {"standard": "ump", "data": "bm90IGZvciB5b3U="}
    state = item("state", context={"text": "half-way", NATIVE_KEY: native})
    assert project(state, "full", NOW).text == "half-way"
    other = item("state", context={"step": 3, NATIVE_KEY: native})
    assert project(other, "full", NOW).text == '{"step":3}'
    assert project(item("state", context={NATIVE_KEY: native}), "full", NOW).text == ""
    shape = Project(content=(NATIVE_KEY,), attributes=(NATIVE_KEY, "context"))
    assert project(state, "full", NOW, shape=shape).text == ""
    assert project(state, "full", NOW, shape=shape).attributes == ()


@given(ITEMS, st.sampled_from(LEVELS), st.none() | SHAPES, st.booleans())
def test_any_grain_is_projected_whatever_its_fields_hold(
    grain: ResultItem, level: Level, shape: Project | None, iso: bool
) -> None:
    projected = project(grain, level, NOW, iso_times=iso, shape=shape)
    assert isinstance(projected.text, str)
    names = [name for name, _ in projected.attributes]
    assert len(names) == len(set(names))
    assert all(type(value) in (str, int, float, bool) and value != "" for _, value in projected.attributes)
    assert project(grain, level, NOW, iso_times=iso, shape=shape) == projected


@pytest.mark.parametrize("original", [{"context": {"memoranda:native": {"standard": "ump"}}}, {}])
def test_a_memory_of_another_standard_is_shown_as_the_text_it_is(original: dict[str, Any]) -> None:
    """A grain that evolved from such a view does not carry its original any more."""
    text = {"subject": "did:key:z6Mk", "created_at": 0, **original}
    belief = {**text, "relation": "semantic", "object": "tea helps"}
    recipe = {**text, "relation": "procedural", "trigger": "procedural", "steps": ["use pnpm"]}
    shown = project(ResultItem(address="a", grain_type="belief", fields=belief), "standard", 0)
    assert (shown.text, dict(shown.attributes)["subject"]) == ("tea helps", "user")
    assert project(ResultItem(address="b", grain_type="workflow", fields=recipe), "standard", 0).text == "use pnpm"
