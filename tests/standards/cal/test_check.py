"""Verdicts as documents, suggestions, warnings, weight, speed."""

from __future__ import annotations

import gc
import time

import pytest
from tests.standards.cal.published import README_ASSEMBLE, RUNTIME_ONLY

from memoranda.service.cal.cal import Cal
from memoranda.standards.cal import codes
from memoranda.standards.cal.language import suggest
from memoranda.standards.cal.language.check import find_warnings, measure_complexity
from memoranda.standards.cal.language.parser import parse


@pytest.mark.requirement("CAL-22-error-object")
def test_a_verdict_is_a_document() -> None:
    assert Cal.check("RECALL beliefs") == {"valid": True, "error": None}
    assert Cal.check('RECALL beliefs\nWHERE sbject = "alice"') == {
        "valid": False,
        "error": {
            "code": "CAL-E004",
            "line": 2,
            "column": 7,
            "suggestion": 'Did you mean "subject"?',
            "message": 'Unknown field "sbject".',
        },
    }


@pytest.mark.requirement("CAL-22-suggestions")
@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("RECALL fact", 'Did you mean "belief"? (OMS renamed Fact -> Belief in v1.2)'),
        ("RECALL episodes", 'Did you mean "events"? (OMS renamed Episode -> Event in v1.2)'),
        ("RECALL tool_calls", 'Did you mean "actions"? (OMS renamed Tool_Call -> Action in v1.2)'),
        ("RECALL belief", 'Did you mean "beliefs"?'),
        ("RECALL belifes", 'Did you mean "beliefs"?'),
        ("DESCRIBE fields goals", 'Did you mean "goal"?'),
        ('RECALL WHERE user = "a"', 'Did you mean "user_id"?'),
        ('RECALL WHERE predicate = "a"', 'Did you mean "relation"?'),
        ("RECAL beliefs", 'Did you mean "RECALL"?'),
        ('RECALL beliefs WEHRE subject = "a"', 'Did you mean "WHERE"?'),
        ("RECALL AS markdwon", 'Did you mean "markdown"?'),
        ("RECALL WITH superseeded", 'Did you mean "superseded"?'),
        ("RECALL WHERE relation IS PREFERENCES", 'Did you mean "PREFERENCE"?'),
        ('RECALL goals WHERE goal_state = "activ"', 'Did you mean "active"?'),
        ("ASSEMBLE FROM (RECALL) STREAM { chunk }", 'Did you mean "chunks"?'),
        ("DEFINE TEMPLATE t ELEMENT { {{grain.contents}} }", 'Did you mean "grain.content"?'),
        ('ADD belief SET subjct = "a" REASON "r"', 'Did you mean "subject"?'),
        ('RECALL WHERE subject = "a" OR subject = "b"',
         "Conditions are joined by AND; for alternatives use IN (…), COALESCE or UNION."),
        ('RECALL WHERE subject LIKE "a"', 'LIKE is a clause of its own: RECALL LIKE "text".'),
        ("DELETE beliefs", "CAL reads and appends; nothing in it removes. SUPERSEDE and REVERT keep all versions."),
        ("BATCH", f"Example: {suggest.EXAMPLES['BATCH']}"),
    ],
)  # fmt: skip
def test_a_mistake_comes_with_what_to_write_instead(text: str, suggestion: str) -> None:
    error = Cal.check(text)["error"]
    assert error is not None
    assert error["suggestion"] == suggestion


def test_the_shapes_that_are_suggested_are_valid() -> None:
    for word, shape in suggest.EXAMPLES.items():
        text = shape.replace("sha256:…", "sha256:aaaaaaaa")
        for each in text.split(" or ") if word == "HISTORY" else [text.split(",")[0]] if word == "DESCRIBE" else [text]:
            assert Cal.check(each + (" RECALL" if word == "LET" else ""))["valid"], each


def test_nothing_near_is_not_suggested() -> None:
    assert suggest.find_nearest("xyzzy", ["subject", "object"]) is None
    assert suggest.find_nearest("a", ["b"]) is None
    assert suggest.find_nearest("OR", ["OR", "BY"]) is None
    assert suggest.find_nearest("sujbect", ["object", "subject"]) == "subject"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('RECALL WHERE relation IN ("mg:likes", "mg:prefers", "custom")', ["CAL-W001"]),
        ('RECALL WHERE relation = "mg:likes" AND relation != "mg:likes"', ["CAL-W001"]),
        ('ADD belief SET subject = "s" SET relation = "mg:likes" SET object = "o" REASON "r"', ["CAL-W001"]),
        ("RECALL WHERE relation IS AGENCY", []),
        ('RECALL WHERE hc:x = "1"', ["CAL-W002"]),
        ('RECALL WHERE hc:x = "1" AND tags INCLUDE ["profile:healthcare"]', []),
        ('RECALL WHERE fin:x = "1" AND tags INCLUDE ["profile:healthcare"]', ["CAL-W002"]),
        ('RECALL WHERE xx:x = "1"', ["CAL-W003"]),
        ("RECALL WITH summarize, x_a, cache(ttl=5)", ["CAL-W004", "CAL-W004"]),
        ("ASSEMBLE FROM (RECALL WITH x_a) WITH x_b", ["CAL-W004", "CAL-W004"]),
        ("EXPLAIN ASSEMBLE FROM (RECALL) WITH x_b", ["CAL-W004"]),
        ('LET $l = RECALL WHERE xx:x = 1; BATCH { a: RECALL WHERE yy:x = 1, b: EXISTS sha256:aaaaaaaa }',
         ["CAL-W003", "CAL-W003"]),
        ('(RECALL WHERE xx:x = 1) UNION (COALESCE(RECALL, RECALL WHERE object IN (RECALL beliefs WITH x_a | HASHES)))',
         ["CAL-W003", "CAL-W004"]),
    ],
)  # fmt: skip
def test_what_has_no_effect_or_looks_wrong_is_said(text: str, expected: list[str]) -> None:
    found = find_warnings(parse(text))
    assert [warning.code for warning in found] == expected
    assert set(expected) <= {f"CAL-W00{number}" for number in range(1, 6)}
    assert all(warning.message.endswith(".") for warning in found)


def test_a_query_has_a_weight() -> None:
    assert measure_complexity(parse("RECALL")) == 0
    assert measure_complexity(parse('RECALL LIKE "x" WHERE confidence > 0')) == 11
    assert measure_complexity(parse("RECALL WHERE subject IN (RECALL beliefs | SUBJECTS)")) == 6
    assert measure_complexity(parse(README_ASSEMBLE)) == 31


# What plain work in Python takes where the figures were stated; here and now it may take longer, and so may a parse.
STATED_SECONDS = 80e-6


def plain_work() -> None:
    found = {}
    for number in range(500):
        found[str(number)] = [number]


def seconds_to_parse(text: str, rounds: int) -> float:
    """At best, as it would be where the figures were stated."""
    best = {"parse": float("inf"), "plain": float("inf")}
    gc.disable()
    try:
        for _ in range(rounds):
            start = time.thread_time()
            parse(text)
            between = time.thread_time()
            plain_work()
            best["parse"] = min(best["parse"], between - start)
            best["plain"] = min(best["plain"], time.thread_time() - between)
    finally:
        gc.enable()
    return best["parse"] / max(1.0, best["plain"] / STATED_SECONDS)


@pytest.mark.requirement("CAL-17.3-typical-parse-time")
def test_four_kilobytes_of_batch_or_lists_parse_within_a_millisecond_and_a_line_in_60_microseconds() -> None:
    line = (
        'RECALL beliefs ABOUT "alice" WHERE confidence >= 0.8 AND tags INCLUDE ["a", "b"] | ORDER BY time DESC LIMIT 9'
    )
    assert seconds_to_parse(line, 500) < 60e-6
    conditions = (
        'user_id = "customer:priya" AND role = "user" AND confidence >= 0.5 AND model_id != "m" AND score > 0.25'
    )
    recall = (
        f'RECALL events ABOUT "alice" WHERE {conditions} AND {conditions} AND {conditions} SINCE "last 90 days" LIMIT 5'
    )
    batch = f"CAL/1 BATCH {{ {', '.join(f'entry_{number}: {recall}' for number in range(10))} }}"
    values = ", ".join(f'"v{n:03}"' for n in range(100))
    lists = "RECALL WHERE " + " AND ".join([f"subject IN ({values})"] * 5)
    for text in (batch, lists):
        assert 3900 < len(text) < 4200
        assert seconds_to_parse(text, 200) < 1e-3


# One query for each code that can be told without running.
REFUSED = {
    "E001": f'RECALL LIKE "{"a" * 8179}"',
    "E002": "RECALL beliefs;",
    "E003": "RECALL facts",
    "E004": "RECALL beliefs | SELECT foo",
    "E005": 'RECALL ABOUT "a',
    "E006": "RECALL LIMIT 0",
    "E007": "RECALL WHERE subject IN (" + "RECALL beliefs WHERE subject IN (" * 3 + "RECALL beliefs | SUBJECTS",
    "E008": "ASSEMBLE FROM $x",
    "E009": "LET $a = RECALL; LET $a = RECALL; RECALL",
    "E010": "RECALL LIMIT 1001",
    "E011": f"RECALL WHERE subject IN ({', '.join(['$p'] * 101)})",
    "E012": "RECALL RECENT 5 | OFFSET 1 | OFFSET 1 | OFFSET 1 | COUNT",
    "E013": " UNION ".join(["(RECALL)"] * 6),
    "E014": "-- nothing",
    "E015": "EXISTS sha256:nope",
    "E016": f'REVERT sha256:aaaaaaaa REASON "{"x" * 501}"',
    "E017": 'SUPERSEDE sha256:aaaaaaaa SET subject = "x" REASON "r"',
    "E018": "REVERT sha256:aaaaaaaa",
    "E019": 'SUPERSEDE sha256:aaaaaaaa REASON "r"',
    "E020": "RECALL WHERE subject = 5",
    "E021": "RECALL | COUNT | COUNT",
    "E022": "RECALL goals | SUBJECTS",
    "E030": "ASSEMBLE FROM (RECALL) BUDGET 201 grains",
    "E050": 'ADD belief REASON "r"',
    "E051": 'ADD event REASON "r"',
    "E060": 'RECALL ABOUT "a" LIKE "b"',
    "E061": 'RECALL WHERE role = "user"',
    "E062": 'RECALL actions WHERE action_phase = "x"',
    "E063": 'RECALL goals WHERE goal_state = "x"',
    "E064": 'RECALL consents WHERE consent_action = "x"',
    "E065": 'RECALL WHERE recall_priority = "x"',
    "E066": 'RECALL WHERE epistemic_status = "x"',
    "E070": "RECALL \udc80",
    "E071": "RECALL \u202e",
    "E077": "ASSEMBLE FROM (RECALL) STREAM { x }",
    "E078": "ASSEMBLE FROM (RECALL) STREAM { chunk_size = 5 }",
    "E086": "DEFINE TEMPLATE t EXTENDS data ELEMENT { x }",
    "E087": "DEFINE TEMPLATE t EXTENDS t ELEMENT { x }",
    "E088": "DEFINE TEMPLATE sml ELEMENT { x }",
    "E090": "DEFINE TEMPLATE t ELEMENT { {{x}} }",
    "E091": "DEFINE TEMPLATE t ELEMENT { x",
    "E092": f"DEFINE TEMPLATE t ELEMENT {{ {'x' * 4096} }}",
    "E093": f"DEFINE TEMPLATE t ELEMENT {{ {'{{#grain.type}}' * 6}{'{{/grain.type}}' * 6} }}",
    "E094": "DEFINE TEMPLATE t ELEMENT { {{&x}} }",
    "E095": "DEFINE TEMPLATE t ELEMENT { x } ELEMENT { x }",
    "E096": "DEFINE TEMPLATE t ELEMENT_OMIT { x }",
    "E100": "CAL/2 RECALL",
}


@pytest.mark.requirement("CAL-22-every-code")
def test_every_code_that_needs_no_store_can_be_reached() -> None:
    for code, text in REFUSED.items():
        error = Cal.check(text)["error"]
        assert error is not None
        assert error["code"] == f"CAL-{code}"
        assert error["suggestion"]
        assert error["message"].endswith(".")
    assert {f"CAL-{code}" for code in REFUSED} == set(codes.ERRORS) - RUNTIME_ONLY
