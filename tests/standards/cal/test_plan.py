"""Plans: what EXPLAIN answers, and what a caller reviews before a change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.standards.cal import published, strategies

from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.desugar import desugar
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import Explain, Explainable, ParsedQuery
from memoranda.standards.cal.plan import explain, side_effects

# 2026-03-03T12:00:00Z, a Tuesday.
NOW = 1_772_539_200_000
WEEK_MS = 7 * 86_400_000
MEMBERS = ["statement", "tier", "canonical", "desugared", "steps", "store_ops", "bounds", "budget", "side_effects",
           "warnings"]  # fmt: skip
H = published.HASH


def plan_of(text: str, **params: object) -> dict[str, Any]:
    return explain(parse(text, params=params or None), now=NOW)


@pytest.mark.requirement("CAL-8.5-plan")
def test_a_recall_is_explained_step_by_step() -> None:
    assert plan_of('EXPLAIN RECALL beliefs ABOUT "alice" SINCE "last week" RECENT 5') == {
        "statement": "recall",
        "tier": 0,
        "canonical": 'CAL/1 RECALL beliefs ABOUT "alice" SINCE "last week" RECENT 5',
        "desugared": 'CAL/1 RECALL beliefs WHERE subject = "alice" AND time = "last week"'
        " | ORDER BY time DESC | LIMIT 5",
        "steps": [
            {
                "op": "query",
                "filters": [
                    {"field": "type", "op": "=", "value": "belief"},
                    {"field": "subject", "op": "=", "value": "alice"},
                    {"field": "time", "op": "=", "value": "last week", "from": NOW - WEEK_MS},
                ],
                "sort": [{"field": "time", "dir": "desc"}, {"field": "hash", "dir": "asc"}],
                "limit": 5,
            },
            {
                "op": "search",
                "filters": [
                    {"field": "type", "op": "=", "value": "belief"},
                    {"field": "query", "op": "=", "value": "alice"},
                    {"field": "time", "op": "=", "value": "last week", "from": NOW - WEEK_MS},
                ],
                "sort": [{"field": "time", "dir": "desc"}, {"field": "hash", "dir": "asc"}],
                "limit": 5,
                "when": "no grain has this subject",
            },
        ],
        "store_ops": {"min": 1, "max": 2},
        "bounds": {"max_grains": 5, "max_tokens": None, "estimated_tokens": 200},
        "budget": None,
        "side_effects": [],
        "warnings": [],
    }


@pytest.mark.requirement("CAL-13-store-operations")
@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("RECALL beliefs", 1, 1),
        ("RECALL | COUNT", 1, 1),
        ('RECALL LIKE "a"', 1, 1),
        ('RECALL ABOUT "a"', 1, 2),
        # With a search text of its own, ABOUT does not fall back.
        ('RECALL ABOUT "a" WHERE query = "b"', 1, 1),
        ('COALESCE(RECALL ABOUT "a" LIKE "b", RECALL)', 1, 2),
        ('RECALL events ABOUT "a" WHERE content = "b"', 1, 2),
        ('RECALL reasonings WHERE conclusion = "c"', 1, 2),
        ('RECALL reasonings WHERE conclusion != "c"', 1, 1),
        ('RECALL events THREAD "s"', 1, 1),
        (f"RECALL events THREAD FROM {H}", 1, 2),
        ("RECALL WHERE subject IN (RECALL beliefs | SUBJECTS)", 2, 2),
        ("LET $a = RECALL beliefs | SUBJECTS; RECALL WHERE subject IN ($a)", 2, 2),
        ("LET $a = RECALL beliefs; ASSEMBLE FROM $a, x: (RECALL goals)", 2, 2),
        (f"EXISTS {H}", 1, 1),
        (f"HISTORY {H}", 1, 101),
        (f"HISTORY {H} DIFF {H}", 2, 2),
        ('HISTORY WHERE subject = "a" AND relation = "b"', 1, 1),
        ("DESCRIBE grain_types", 0, 0),
        ("DEFINE TEMPLATE t ELEMENT { x }", 0, 0),
        ("(RECALL) UNION (RECALL)", 2, 2),
        ("(RECALL) UNION (RECALL) EXCEPT (RECALL)", 3, 3),
        ('(RECALL ABOUT "a") INTERSECT (COALESCE(RECALL, RECALL))', 2, 4),
        ("COALESCE(RECALL beliefs, RECALL goals, RECALL)", 1, 3),
        ('ASSEMBLE FROM (RECALL), (RECALL ABOUT "a")', 2, 3),
        (f"BATCH {{ a: RECALL, b: EXISTS {H}, c: DESCRIBE server, d: HISTORY {H} }}", 3, 103),
        (published.README_ADD, 1, 1),
        (f'SUPERSEDE {H} SET object = "x" REASON "r"', 2, 3),
        (f'REVERT {H} REASON "r"', 3, 4),
    ],
)
def test_the_calls_of_the_store_are_bounded_before_it_is_asked(text: str, least: int, most: int) -> None:
    assert plan_of(text)["store_ops"] == {"min": least, "max": most}
    assert plan_of(f"EXPLAIN {text}" if not text.startswith(("LET", "CAL")) else text)["store_ops"]["max"] == most


@pytest.mark.requirement("CAL-8.5-plan")
@pytest.mark.parametrize(
    ("text", "ops"),
    [
        ("RECALL beliefs", ["query"]),
        ('RECALL events WHERE content = "x"', ["search"]),
        ('RECALL WHERE query = "x"', ["search"]),
        (f"RECALL events THREAD FROM {H}", ["get", "query"]),
        (f"EXISTS {H}", ["exists"]),
        (f"HISTORY {H} DIFF {H}", ["get", "get"]),
        (published.README_ADD, ["put"]),
        (f'SUPERSEDE {H} SET object = "x" REASON "r"', ["get", "supersede"]),
        (f'REVERT {H} REASON "r"', ["get", "get", "supersede"]),
        ("DESCRIBE server", []),
    ],
)
def test_each_step_is_one_operation_of_the_store(text: str, ops: list[str]) -> None:
    assert [step["op"] for step in plan_of(text)["steps"]] == ops


@pytest.mark.parametrize(
    ("text", "limit", "grains"),
    [
        ("RECALL", 20, 20),
        ("RECALL LIMIT 7", 7, 7),
        ("RECALL LIMIT 7 | LIMIT 3", 3, 3),
        ("RECALL RECENT 4", 4, 4),
        ("RECALL | FIRST", 1, 1),
        ("RECALL | COUNT", None, 0),
        ("RECALL LIMIT 5 | COUNT", 5, 0),
        ("RECALL | GROUP BY type", 20, 100),
        ("RECALL LIMIT $n", {"param": "n"}, 1000),
    ],
)
def test_a_recall_is_bounded_by_its_limit_or_the_default(text: str, limit: Any, grains: int) -> None:
    plan = plan_of(text)
    assert plan["steps"][-1]["limit"] == limit
    assert plan["bounds"]["max_grains"] == grains


def test_what_a_membership_is_tested_against_is_not_cut_short() -> None:
    steps = plan_of("LET $a = RECALL beliefs | SUBJECTS; RECALL WHERE subject IN ($a)")["steps"]
    assert [(step["limit"], step.get("source")) for step in steps] == [(1000, "$a"), (20, None)]
    inner, outer = plan_of("RECALL WHERE subject IN (RECALL beliefs | OBJECTS)")["steps"]
    assert (inner["limit"], inner["feeds"]) == (1000, "subject")
    assert outer["filters"][0]["value"] == {"subquery": "RECALL beliefs | OBJECTS"}


@pytest.mark.parametrize(
    ("text", "grains"),
    [
        ("(RECALL LIMIT 3) UNION (RECALL LIMIT 9)", 12),
        ("(RECALL LIMIT 3) INTERSECT (RECALL LIMIT 9)", 3),
        ("(RECALL LIMIT 3) EXCEPT (RECALL LIMIT 9)", 3),
        ("COALESCE(RECALL LIMIT 3, RECALL LIMIT 9)", 9),
        ("BATCH { a: RECALL LIMIT 3, b: RECALL }", 23),
        (f"HISTORY {H}", 100),
        ("ASSEMBLE FROM (RECALL LIMIT 3), (RECALL) BUDGET 10 grains", 10),
        ("LET $a = RECALL LIMIT 7; ASSEMBLE FROM $a, x: (RECALL LIMIT 2)", 9),
    ],
)
def test_the_grains_of_an_answer_are_bounded(text: str, grains: int) -> None:
    assert plan_of(text)["bounds"]["max_grains"] == grains


@pytest.mark.requirement("CAL-8.5-budget")
def test_assemble_is_explained_with_its_weights_in_order_of_priority() -> None:
    plan = plan_of(published.README_ASSEMBLE)
    assert plan["budget"] == {
        "amount": 4000,
        "unit": "tokens",
        "weights": {"profile": 0.3606, "history": 0.2524, "tickets": 0.1767, "policy": 0.1237, "session": 0.0866},
    }
    assert plan["bounds"] == {"max_grains": 50, "max_tokens": 4000, "estimated_tokens": 2000}
    assert [step["source"] for step in plan["steps"]] == [
        "profile", "profile", "history", "tickets", "policy", "session"
    ]  # fmt: skip
    unlisted = plan_of("ASSEMBLE FROM a: (RECALL), (RECALL), c: (RECALL LIMIT 100) PRIORITY c BUDGET 90 grains")
    assert list(unlisted["budget"]["weights"].items()) == [("c", 0.5), ("a", 0.3), ("source_2", 0.2)]
    assert unlisted["bounds"] == {"max_grains": 90, "max_tokens": None, "estimated_tokens": 3600}
    # Without a BUDGET there is one all the same.
    assert plan_of("ASSEMBLE FROM (RECALL LIMIT 200)")["bounds"]["estimated_tokens"] == 4000
    assert plan_of("ASSEMBLE FROM (RECALL) WITH superseded")["steps"][0]["superseded"] is True


@pytest.mark.requirement("CAL-18-side-effects")
def test_a_change_is_shown_before_it_is_made() -> None:
    added = plan_of(
        'EXPLAIN ADD goal SET subject = "a" SET relation = "r" SET object = $o SET tags = ["t"] REASON "why"'
    )
    assert added["tier"] == 1
    assert added["side_effects"] == [
        {
            "operation": "add",
            "grain": {"type": "goal", "subject": "a", "relation": "r", "object": {"param": "o"}, "tags": ["t"]},
            "reason": "why",
        }
    ]
    bound = plan_of(f'SUPERSEDE {H} SET object = $o SET confidence = 0.5 REASON "why"', o="tea")
    assert bound["side_effects"] == [
        {"operation": "supersede", "target_hash": H, "grain": {"object": "tea", "confidence": 0.5}, "reason": "why"}
    ]
    assert plan_of('REVERT $h REASON "why"')["side_effects"] == [
        {"operation": "revert", "target_hash": {"param": "h"}, "grain": {}, "reason": "why"}
    ]
    assert plan_of("RECALL beliefs")["side_effects"] == []
    assert side_effects(parse(f'EXPLAIN REVERT {H} REASON "why"').statement)[0]["target_hash"] == H


def test_text_is_as_it_was_written_and_steps_as_it_is_bound() -> None:
    plan = plan_of("EXPLAIN RECALL beliefs ABOUT $who LIMIT $n", who="alice", n=3)
    assert plan["canonical"] == "CAL/1 RECALL beliefs ABOUT $who | LIMIT $n"
    assert plan["desugared"] == "CAL/1 RECALL beliefs WHERE subject = $who | LIMIT $n"
    assert plan["steps"][0]["filters"][1] == {"field": "subject", "op": "=", "value": "alice"}
    assert plan["steps"][0]["limit"] == 3


def test_what_has_no_other_spelling_stays() -> None:
    plan = plan_of(f"RECALL events THREAD FROM {H} RECENT 5")
    assert plan["desugared"] == f"CAL/1 RECALL events THREAD FROM {H} | ORDER BY time DESC | LIMIT 5"
    assert plan["steps"][1]["filters"][1] == {"field": "thread", "op": "=", "value": H}
    assert plan_of(f"RECALL events THREAD FROM {H}")["steps"][1]["sort"][0] == {"field": "time", "dir": "asc"}


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ('RECALL WHERE time = "2026-03-01"', {"from": NOW - 2 * 86_400_000 - 43_200_000}),
        ('RECALL BETWEEN "2026-03-02" AND "2026-03-02"',
         {"from": NOW - 86_400_000 - 43_200_000, "to": NOW - 43_200_001}),
        ("RECALL BETWEEN 1709251200 AND 1709251200000", {"from": 1_709_251_200_000, "to": 1_709_251_200_000}),
        ("RECALL SINCE $t", {}),
        ('RECALL BETWEEN $t AND "now"', {"to": NOW}),
    ],
)  # fmt: skip
def test_times_are_resolved_against_the_one_now(text: str, ends: dict[str, int]) -> None:
    (found,) = plan_of(text)["steps"][0]["filters"]
    assert {name: found[name] for name in ("from", "to") if name in found} == ends


def test_a_history_by_triple_is_one_query_over_all_versions() -> None:
    plan = plan_of('HISTORY WHERE subject = "a" AND relation = $r AS OF "2026-03-02"')
    assert plan["steps"] == [
        {
            "op": "query",
            "filters": [
                {"field": "subject", "op": "=", "value": "a"},
                {"field": "relation", "op": "=", "value": {"param": "r"}},
                {"field": "as_of", "op": "=", "value": "2026-03-02", "to": NOW - 43_200_001},
            ],
            "sort": [{"field": "created_at", "dir": "desc"}],
            "limit": 100,
            "superseded": True,
        }
    ]


def test_the_second_of_two_conditions_on_a_conclusion_may_be_the_one_searched() -> None:
    _, second = plan_of('RECALL reasonings WHERE conclusion != "a" AND conclusion = "b"')["steps"]
    assert second["op"] == "search"
    assert second["when"] == "no grain has exactly this conclusion"


def test_warnings_are_part_of_the_plan() -> None:
    assert plan_of('EXPLAIN RECALL WHERE relation = "mg:likes" WITH x_fast')["warnings"] == [
        {"code": "CAL-W001", "message": "mg:likes is not one of the mg: relations."},
        {"code": "CAL-W004", "message": "x_fast has no effect here."},
    ]


def test_branches_offsets_and_options_are_in_the_steps() -> None:
    steps = plan_of("COALESCE(RECALL OFFSET 5 LIMIT 2, RECALL OFFSET $o WITH superseded)")["steps"]
    assert [step["branch"] for step in steps] == [0, 1]
    assert [step["offset"] for step in steps] == [5, {"param": "o"}]
    assert [step.get("superseded") for step in steps] == [None, True]


@pytest.mark.requirement("CAL-8.5-plan")
@pytest.mark.parametrize("text", published.VALID, ids=range(len(published.VALID)))
def test_every_valid_query_has_a_plan(text: str) -> None:
    query = parse(text)
    plan = explain(query, now=NOW)
    assert list(plan) == MEMBERS
    assert json.loads(json.dumps(plan)) == plan
    assert parse(plan["canonical"]) == (
        query
        if not isinstance(query.statement, Explain)
        else ParsedQuery(statement=query.statement.query, lets=query.lets)
    )


@given(statement=strategies.EXPLAINABLE)
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_explaining_a_query_and_its_explain_is_the_same_plan(statement: Explainable) -> None:
    query = ParsedQuery(statement=statement)
    plan = explain(query, now=NOW)
    assert explain(ParsedQuery(statement=Explain(query=statement)), now=NOW) == plan
    assert plan["canonical"] == canonical(query)
    assert plan["desugared"] == canonical(desugar(query))
    assert plan["store_ops"]["min"] <= plan["store_ops"]["max"]
    assert bool(plan["side_effects"]) == (plan["tier"] == 1)
    json.dumps(plan)
