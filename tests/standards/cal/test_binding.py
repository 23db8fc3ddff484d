"""Parameters: bound, checked like literals, never part of the text."""

from __future__ import annotations

from typing import Any

import pytest
from tests.standards.cal.json_form import to_json
from tests.standards.cal.verdicts import code_of

from memoranda.errors import QueryError
from memoranda.standards.cal.language.binding import bind
from memoranda.standards.cal.language.canonical import canonical, query_hash
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import Exists, Hash, Recall

H = "sha256:aaaaaaaa"


@pytest.mark.requirement("CAL-3.4-binding")
@pytest.mark.parametrize(
    ("text", "params", "code"),
    [
        ("RECALL WHERE subject = $s", {"s": "alice", "unused": 5}, None),
        ("RECALL WHERE subject = $s", {}, "CAL-E008"),
        ("RECALL WHERE subject = $s", {"S": "alice"}, "CAL-E008"),
        ("RECALL WHERE subject = $s", {"s": 5}, "CAL-E020"),
        ("RECALL WHERE subject = $s", {"s": None}, "CAL-E020"),
        ("RECALL WHERE subject = $s", {"s": {}}, "CAL-E020"),
        ("RECALL WHERE subject = $s", {"s": ["a"]}, "CAL-E020"),
        ("RECALL WHERE subject = $s", {"s": "\u202e"}, "CAL-E071"),
        ("RECALL WHERE subject = $s", {"s": "\ud800"}, "CAL-E070"),
        ("RECALL WHERE subject IN ($s)", {"s": ["a"] * 500}, None),
        ("RECALL WHERE subject IN ($s)", {"s": ["a", 5]}, "CAL-E020"),
        ("RECALL WHERE confidence >= $c", {"c": 0.5}, None),
        ("RECALL WHERE confidence >= $c", {"c": 1.5}, "CAL-E020"),
        ("RECALL WHERE confidence >= $c", {"c": True}, "CAL-E020"),
        ("RECALL WHERE confidence >= $c", {"c": float("nan")}, "CAL-E020"),
        ("RECALL WHERE tags INCLUDE $t", {"t": ["a"]}, None),
        ("RECALL WHERE tags INCLUDE $t", {"t": "a"}, "CAL-E020"),
        ("RECALL WHERE tags INCLUDE [$t]", {"t": "a"}, None),
        ("RECALL WHERE tags INCLUDE [$t]", {"t": 5}, "CAL-E020"),
        ("RECALL WHERE hash = $h", {"h": H}, None),
        ("RECALL WHERE hash = $h", {"h": "nonsense"}, "CAL-E015"),
        ("RECALL WHERE hash = $h", {"h": 5}, "CAL-E020"),
        ("EXISTS $h", {"h": H.upper()}, None),
        ("EXISTS $h", {"h": "sha256:xyz"}, "CAL-E015"),
        ("HISTORY $h DIFF $h", {"h": Hash(text=H)}, None),
        ("RECALL WHERE type = $t", {"t": "beliefs"}, "CAL-E003"),
        ("RECALL WHERE type = $t | SUBJECTS", {"t": "belief"}, None),
        ("RECALL WHERE type = $t | SUBJECTS", {"t": "goal"}, "CAL-E022"),
        ("RECALL WHERE time = $t", {"t": "soon"}, "CAL-E020"),
        ("RECALL WHERE time BETWEEN $t AND $u", {"t": "last week", "u": 1709251200}, None),
        ("RECALL WHERE time BETWEEN $t AND 5", {"t": True}, "CAL-E020"),
        ("RECALL BETWEEN $t AND 5", {"t": "soon"}, "CAL-E020"),
        ("RECALL goals WHERE goal_state = $g", {"g": "open"}, "CAL-E063"),
        ("RECALL actions WHERE action_phase = $g", {"g": "open"}, "CAL-E062"),
        ("RECALL consents WHERE consent_action = $g", {"g": "open"}, "CAL-E064"),
        ("RECALL WHERE recall_priority = $g", {"g": "open"}, "CAL-E065"),
        ("RECALL WHERE epistemic_status = $g", {"g": "open"}, "CAL-E066"),
        ("RECALL ABOUT $a LIKE $b", {"a": "x", "b": "y"}, "CAL-E060"),
        ("RECALL ABOUT $a", {"a": 5}, "CAL-E020"),
        ("RECALL SINCE $a", {"a": "soon"}, "CAL-E020"),
        ("RECALL events THREAD $a", {"a": "s"}, None),
        ("RECALL events THREAD FROM $a", {"a": "s"}, "CAL-E015"),
        ("RECALL LIMIT $n", {"n": 1000}, None),
        ("RECALL LIMIT $n", {"n": 5.0}, None),
        ("RECALL LIMIT $n", {"n": 1001}, "CAL-E010"),
        ("RECALL RECENT $n", {"n": 1001}, "CAL-E010"),
        ("RECALL LIMIT $n", {"n": 0}, "CAL-E006"),
        ("RECALL LIMIT $n", {"n": 5.5}, "CAL-E006"),
        ("RECALL LIMIT $n", {"n": "5"}, "CAL-E020"),
        ("RECALL OFFSET $n", {"n": 0}, None),
        ("RECALL OFFSET $n", {"n": 5000}, None),
        ("RECALL OFFSET $n", {"n": -1}, "CAL-E006"),
        ("RECALL MY", {"current_user_id": "eve"}, "CAL-E009"),
        ("RECALL WHERE user_id = $current_user_id", {}, None),
        ("LET $x = RECALL; ASSEMBLE FROM $x", {"x": 5}, "CAL-E009"),
        ("LET $x = RECALL WHERE subject = $s; ASSEMBLE FROM $x, (RECALL LIKE $q)", {"s": "a", "q": "b"}, None),
        ("LET $x = RECALL WHERE subject = $s; ASSEMBLE FROM $x, (RECALL LIKE $q)", {"q": "b"}, "CAL-E008"),
        ("BATCH { a: RECALL ABOUT $a, b: EXISTS $h }", {"a": "x", "h": H}, None),
        ("BATCH { a: RECALL ABOUT $a, b: EXISTS $h }", {"a": "x"}, "CAL-E008"),
        ("COALESCE(RECALL ABOUT $a, RECALL ABOUT $b)", {"a": "x"}, "CAL-E008"),
        ("(RECALL ABOUT $a) UNION (RECALL ABOUT $b)", {"a": "x"}, "CAL-E008"),
        ("EXPLAIN RECALL ABOUT $a", {}, "CAL-E008"),
        ("RECALL WHERE subject IN (RECALL beliefs ABOUT $a | SUBJECTS)", {}, "CAL-E008"),
        ("RECALL WITH x_a($p)", {"p": [1, "b"]}, None),
        ('HISTORY WHERE subject = $s AND relation = "r" AS OF $t', {"s": "x", "t": "2025"}, None),
        ('HISTORY WHERE subject = $s AND relation = "r" AS OF $t', {"s": "x", "t": "soon"}, "CAL-E020"),
        ('ADD belief SET subject = $s SET relation = "r" SET object = $o REASON "r"', {"s": "a", "o": ""}, "CAL-E050"),
        ('ADD belief SET subject = $s SET relation = "r" SET object = $o REASON "r"', {"s": "a", "o": 5}, "CAL-E020"),
        ('SUPERSEDE $h SET confidence = $c REASON "r"', {"h": H, "c": 2}, "CAL-E020"),
        ('SUPERSEDE $h SET tags = [$c] REASON "r"', {"h": H, "c": "t"}, None),
        ('REVERT $h REASON "r"', {"h": "no"}, "CAL-E015"),
        ("RECALL WHERE hc:x = $x", {"x": [[[1]]]}, "CAL-E020"),
        ("RECALL WHERE hc:x = $x", {"x": 10**400}, "CAL-E020"),
    ],
)  # fmt: skip
def test_a_value_is_checked_as_if_it_had_been_written(text: str, params: dict[str, Any], code: str | None) -> None:
    assert code_of(text, params=params) == code


def test_without_values_parameters_stay_open() -> None:
    assert code_of("RECALL ABOUT $a LIMIT $n") is None


def test_values_stand_where_their_parameters_stood() -> None:
    params = {"s": "A\u030a", "tags": ["a", "b"], "n": 3, "h": H}
    query = parse("RECALL WHERE subject IN ($s, $tags) AND hash = $h LIMIT $n", params=params)
    assert query.statement == parse(f'RECALL WHERE subject IN ("\u00c5", "a", "b") AND hash = {H} LIMIT 3').statement
    assert parse("EXISTS $h", params=params).statement == Exists(hash=Hash(text=H))


@pytest.mark.requirement("CAL-15-hash-without-values")
def test_values_are_no_part_of_canonical_text_hash_or_json() -> None:
    written = parse("RECALL ABOUT $a LIMIT $n")
    bound = bind(written, {"a": "alice", "n": 5})
    assert bound.statement == parse('RECALL ABOUT "alice" LIMIT 5').statement
    assert canonical(bound) == canonical(written)
    assert query_hash(bound) == query_hash(written)
    assert to_json(bound) == to_json(written)
    assert bind(bound, {}).original == written


def test_the_current_user_is_given_by_the_executor() -> None:
    query = parse("RECALL WHERE user_id = $current_user_id")
    bound = bind(query, {}, current_user="alice").statement
    assert isinstance(bound, Recall)
    assert bound.where[0].value == "alice"


def test_an_error_points_at_the_parameter() -> None:
    with pytest.raises(QueryError) as raised:
        parse('RECALL ABOUT "$n"\n  LIMIT $n', params={"n": "ten"})
    assert (raised.value.line, raised.value.column) == (2, 9)
    assert raised.value.message == "$n: not a number."
