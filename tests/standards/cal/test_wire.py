"""The JSON form: one for each query, and every other is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.standards.cal.json_form import to_json
from tests.standards.cal.verdicts import code_of_json

from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.wire.reader import from_json

H = "sha256:aaaaaaaa"
RECALL = {"statement": "recall"}
ASSEMBLE = {"statement": "assemble", "from": [{"query": RECALL}]}
BELIEFS = {"statement": "recall", "grain_type": "beliefs"}


def where(field: str, op: str, value: object) -> dict[str, Any]:
    return {**RECALL, "where": [{"field": field, "op": op, "value": value}]}


@pytest.mark.requirement("CAL-15.2-json-members")
@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("RECALL", RECALL),
        ('RECALL MY events IN SCOPE "n"', {**RECALL, "my": True, "grain_type": "events", "in": {"scope": "n"}}),
        ("RECALL LIKE $q BETWEEN 1 AND $b", {**RECALL, "like": {"param": "q"}, "between": [1, {"param": "b"}]}),
        (f"RECALL events THREAD FROM {H}", {**RECALL, "grain_type": "events", "thread": {"from": H}}),
        ('RECALL events THREAD "s"', {**RECALL, "grain_type": "events", "thread": "s"}),
        ("RECALL CONTRADICTIONS", {**RECALL, "contradictions": True}),
        (f"RECALL WHERE hash = {H}", {**RECALL, "where": [{"field": "hash", "op": "=", "value": H}]}),
        (
            f"RECALL WHERE hc:x = {H} AND relation IS AGENCY AND time BETWEEN 1 AND 2",
            {**RECALL, "where": [
                {"field": "hc:x", "op": "=", "value": {"hash": H}},
                {"field": "relation", "op": "IS", "value": "AGENCY"},
                {"field": "time", "op": "BETWEEN", "value": [1, 2]},
            ]},
        ),
        (
            "RECALL WHERE subject IN (RECALL beliefs | SUBJECTS)",
            where("subject", "IN", {"subquery": {**BELIEFS, "pipeline": [{"stage": "subjects"}]}}),
        ),
        (
            "RECALL WITH superseded, diversity(mmr, lambda=0.3), x_t(1)",
            {**RECALL, "with": [
                "superseded", {"option": "diversity", "method": "mmr", "lambda": 0.3}, {"option": "x_t", "args": [1]}
            ]},
        ),
        (
            'RECALL WITH consistency(bounded(5)), dedup(type), locale("d"), cache(ttl=6), progressive_disclosure(full)',
            {**RECALL, "with": [
                {"option": "consistency", "level": "bounded", "value": 5},
                {"option": "dedup", "field": "type"},
                {"option": "locale", "value": "d"},
                {"option": "cache", "ttl": 6},
                {"option": "progressive_disclosure", "level": "full"},
            ]},
        ),
        (
            "RECALL SELECT subject ORDER BY subject DESC LIMIT 5 OFFSET $o COUNT",
            {**RECALL, "pipeline": [
                {"stage": "select", "fields": ["subject"]},
                {"stage": "order_by", "field": "subject", "dir": "desc"},
                {"stage": "limit", "n": 5},
                {"stage": "offset", "n": {"param": "o"}},
                {"stage": "count"},
            ]},
        ),
        (
            "RECALL PROJECT attr(type, x_A) GROUP BY subject",
            {**RECALL, "pipeline": [
                {"stage": "project", "attr": ["type", "x_A"]}, {"stage": "group_by", "field": "subject"}
            ]},
        ),
        (
            'LET $l = RECALL; ASSEMBLE c FOR "i" FROM a: (RECALL), $l BUDGET 5 grains PRIORITY a FORMAT sml STREAM',
            {
                "let": [{"name": "l", "query": RECALL}],
                "statement": "assemble", "name": "c", "for": "i",
                "from": [{"label": "a", "query": RECALL}, {"ref": "l"}],
                "budget": {"amount": 5, "unit": "grains"}, "priority": ["a"], "format": "sml",
                "stream": {"options": ["all"]},
            },
        ),
        (
            "ASSEMBLE FROM (RECALL) FORMAT TEMPLATE t STREAM { chunks, chunk_size = 50 }",
            {"statement": "assemble", "from": [{"query": RECALL}], "format": {"template": "t"},
             "stream": {"options": ["chunks"], "chunk_size": 50}},
        ),
        (
            "ASSEMBLE FROM (RECALL) FORMAT TEMPLATE { ELEMENT { x } }",
            {"statement": "assemble", "from": [{"query": RECALL}], "format": {"template": {"element": "x"}}},
        ),
        ("(RECALL) UNION (RECALL)", {"statement": "set", "op": "union", "operands": [RECALL, RECALL]}),
        (f"EXISTS {H}", {"statement": "exists", "hash": H}),
        (f"HISTORY {H} DIFF $d", {"statement": "history", "hash": H, "diff": {"param": "d"}}),
        ('HISTORY IN "n" WHERE subject = "s" AND relation = "r" AS OF "now"',
         {"statement": "history", "in": "n", "subject": "s", "relation": "r", "as_of": "now"}),
        ("DESCRIBE fields belief", {"statement": "describe", "target": "fields", "grain_type": "belief"}),
        ("BATCH { a: RECALL }", {"statement": "batch", "entries": [{"label": "a", "query": RECALL}]}),
        ("COALESCE(RECALL, RECALL)", {"statement": "coalesce", "branches": [RECALL, RECALL]}),
        ("EXPLAIN RECALL", {"statement": "explain", "query": RECALL}),
        ('ADD belief SET subject = "s" SET relation = "r" SET object = $o REASON "w"',
         {"statement": "add", "grain_type": "belief", "reason": "w",
          "set": {"subject": "s", "relation": "r", "object": {"param": "o"}}}),
        (f'SUPERSEDE {H} SET tags = ["a"] REASON "w"',
         {"statement": "supersede", "hash": H, "set": {"tags": ["a"]}, "reason": "w"}),
        (f'REVERT {H} REASON "w"', {"statement": "revert", "hash": H, "reason": "w"}),
        ("DEFINE TEMPLATE t EXTENDS readable HEADER { h }",
         {"statement": "define_template", "name": "t", "extends": "readable", "sections": {"header": "h"}}),
    ],
)  # fmt: skip
def test_a_query_has_one_json_form(text: str, form: dict[str, Any]) -> None:
    query = parse(text)
    assert to_json(query) == {"cal_version": 1, **form}
    assert from_json(form) == query


@pytest.mark.requirement("CAL-15.2-json-checked")
@pytest.mark.parametrize(
    ("form", "code"),
    [
        (None, "CAL-E002"),
        ([], "CAL-E002"),
        ("RECALL", "CAL-E002"),
        ({}, "CAL-E002"),
        ({"statement": "DELETE"}, "CAL-E002"),
        ({"statement": ["recall"]}, "CAL-E002"),
        ({"cal_version": 2, **RECALL}, "CAL-E100"),
        ({"cal_version": True, **RECALL}, "CAL-E100"),
        ({"cal_version": "1", **RECALL}, "CAL-E100"),
        ({**RECALL, "unknown": 1}, "CAL-E002"),
        ({**RECALL, "my": False}, "CAL-E002"),
        ({**RECALL, "my": 1}, "CAL-E002"),
        ({**RECALL, "grain_type": "fact"}, "CAL-E003"),
        ({**RECALL, "grain_type": "belief"}, "CAL-E003"),
        ({**RECALL, "grain_type": "limit"}, "CAL-E002"),
        ({**RECALL, "grain_type": None}, "CAL-E002"),
        ({**RECALL, "about": 5}, "CAL-E002"),
        ({**RECALL, "about": "\u202e"}, "CAL-E071"),
        ({**RECALL, "about": "\ud800"}, "CAL-E070"),
        ({**RECALL, "about": "x" * 40000}, "CAL-E001"),
        ({**RECALL, "about": "a", "like": "b"}, "CAL-E060"),
        ({**RECALL, "since": "soon"}, "CAL-E020"),
        ({**RECALL, "between": [1]}, "CAL-E002"),
        ({**RECALL, "between": []}, "CAL-E002"),
        ({**RECALL, "recent": 0}, "CAL-E006"),
        ({**RECALL, "recent": 2.5}, "CAL-E006"),
        ({**RECALL, "recent": "5"}, "CAL-E002"),
        ({**RECALL, "recent": True}, "CAL-E002"),
        ({**RECALL, "recent": 10**30}, "CAL-E010"),
        ({**RECALL, "recent": 1001}, "CAL-E010"),
        ({**RECALL, "thread": "s"}, "CAL-E061"),
        ({**RECALL, "thread": {"from": "x"}}, "CAL-E015"),
        ({**RECALL, "as": "html"}, "CAL-E002"),
        (where("nonsense", "=", 1), "CAL-E004"),
        (where("subject", "=", 1), "CAL-E020"),
        (where("subject", "=", None), "CAL-E002"),
        (where("subject", "=", {"param": "a b"}), "CAL-E002"),
        (where("subject", "=", {"param": "a", "hash": H}), "CAL-E002"),
        (where("subject", "~", "x"), "CAL-E002"),
        (where("subject", "IN", []), "CAL-E002"),
        (where("subject", "IN", "x"), "CAL-E002"),
        (where("subject", "IN", ["x"] * 101), "CAL-E011"),
        (where("subject", "IN", {"subquery": BELIEFS}), "CAL-E021"),
        (where("subject", "IN", {"subquery": {"statement": "exists", "hash": H}}), "CAL-E002"),
        (where("relation", "IS", "NULL"), "CAL-E002"),
        (where("confidence", "=", float("inf")), "CAL-E006"),
        (where("hash", "=", "nonsense"), "CAL-E015"),
        ({**RECALL, "where": [{"field": "subject", "op": "="}]}, "CAL-E002"),
        ({**RECALL, "where": {}}, "CAL-E002"),
        ({**RECALL, "with": ["turbo"]}, "CAL-E002"),
        ({**RECALL, "with": ["diversity"]}, "CAL-E002"),
        ({**RECALL, "with": ["superseded", "superseded"]}, "CAL-E002"),
        ({**RECALL, "with": [{"option": "diversity", "method": "threshold"}]}, "CAL-E002"),
        ({**RECALL, "with": [{"option": "diversity", "method": "other", "value": 0.5}]}, "CAL-E002"),
        ({**RECALL, "with": [{"option": "diversity", "method": "mmr", "lambda": "x"}]}, "CAL-E002"),
        ({**RECALL, "with": [{"option": "diversity", "method": "mmr", "lambda": 2}]}, "CAL-E020"),
        ({**RECALL, "with": [{"option": "superseded", "level": "full"}]}, "CAL-E002"),
        ({**RECALL, "with": [{"option": "cache", "ttl": 0}]}, "CAL-E006"),
        ({**RECALL, "pipeline": [{"stage": "delete"}]}, "CAL-E002"),
        ({**RECALL, "pipeline": [{"stage": "limit"}]}, "CAL-E002"),
        ({**RECALL, "pipeline": [{"stage": "limit", "n": 5, "m": 5}]}, "CAL-E002"),
        ({**RECALL, "pipeline": [{"stage": "select", "fields": []}]}, "CAL-E002"),
        ({**RECALL, "pipeline": [{"stage": "project"}]}, "CAL-E002"),
        ({**RECALL, "pipeline": [{"stage": "order_by", "field": "time", "dir": "up"}]}, "CAL-E002"),
        ({**RECALL, "pipeline": [{"stage": "count"}, {"stage": "count"}]}, "CAL-E021"),
        ({"statement": "assemble"}, "CAL-E002"),
        ({"statement": "assemble", "from": []}, "CAL-E002"),
        ({"statement": "assemble", "from": [{"query": RECALL, "ref": "x"}]}, "CAL-E002"),
        ({"statement": "assemble", "from": [{"ref": "x"}]}, "CAL-E008"),
        ({**ASSEMBLE, "budget": {"amount": 5, "unit": "words"}}, "CAL-E002"),
        ({**ASSEMBLE, "budget": {"amount": 201, "unit": "grains"}}, "CAL-E030"),
        ({**ASSEMBLE, "stream": {"options": ["x"]}}, "CAL-E077"),
        ({**ASSEMBLE, "format": {"template": {}}}, "CAL-E002"),
        ({**ASSEMBLE, "format": {"template": {"element": 5}}}, "CAL-E002"),
        ({"statement": "set", "op": "union", "operands": [RECALL]}, "CAL-E002"),
        ({"statement": "set", "op": "union", "operands": [RECALL, {"statement": "exists", "hash": H}]}, "CAL-E002"),
        ({"statement": "exists", "hash": "x"}, "CAL-E015"),
        ({"statement": "exists"}, "CAL-E002"),
        ({"statement": "history", "hash": H, "as_of": "now"}, "CAL-E002"),
        ({"statement": "history", "subject": "s"}, "CAL-E002"),
        ({"statement": "explain", "query": {"statement": "explain", "query": RECALL}}, "CAL-E002"),
        ({"statement": "batch", "entries": []}, "CAL-E002"),
        ({"statement": "batch", "entries": [{"label": "delete", "query": RECALL}]}, "CAL-E002"),
        ({"statement": "batch", "entries": [{"label": "a", "query": {"statement": "assemble"}}]}, "CAL-E002"),
        ({"statement": "coalesce", "branches": [RECALL]}, "CAL-E002"),
        ({"statement": "add", "grain_type": "event", "set": {}, "reason": "w"}, "CAL-E051"),
        ({"statement": "add", "grain_type": "belief", "set": {}, "reason": "w"}, "CAL-E050"),
        ({"statement": "add", "grain_type": "belief", "set": {"namespace": "n"}, "reason": "w"}, "CAL-E017"),
        ({"statement": "add", "grain_type": "belief"}, "CAL-E018"),
        ({"statement": "supersede", "hash": H, "reason": "w"}, "CAL-E019"),
        ({"statement": "revert", "hash": H}, "CAL-E018"),
        ({"statement": "define_template", "name": "t", "extends": "data", "sections": {"element": "x"}}, "CAL-E086"),
        ({"let": [{"name": "x", "query": RECALL}] * 2, **RECALL}, "CAL-E009"),
        ({"let": [{"name": "$x", "query": RECALL}], **RECALL}, "CAL-E002"),
    ],
)  # fmt: skip
def test_everything_the_parser_would_refuse_is_refused(form: object, code: str) -> None:
    assert code_of_json(form) == code


def test_reading_is_lenient_about_what_says_nothing() -> None:
    assert from_json({**RECALL, "where": [], "with": [], "pipeline": []}) == parse("RECALL")
    assert from_json({**RECALL, "with": [{"option": "x_a", "args": []}]}) == parse("RECALL WITH x_a")
    assert from_json({"let": [{"name": "l", "query": {}}], **ASSEMBLE}) == parse(
        "LET $l = RECALL; ASSEMBLE FROM (RECALL)"
    )


def test_deeply_nested_json_is_refused_without_a_stack() -> None:
    form: Any = RECALL
    for _ in range(100_000):
        form = {"statement": "explain", "query": form}
    assert code_of_json(form) == "CAL-E002"
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    assert code_of_json(where("hc:x", "=", value)) == "CAL-E002"
    # Taken apart by hand: a chain this long would exhaust the stack when Python lets it go.
    while isinstance(value, list):
        value = value.pop()


def test_the_longest_query_has_a_json_form_that_reads_back() -> None:
    longest = parse(f'RECALL LIKE "{"a" * 8178}"')
    assert from_json(to_json(longest)) == longest
    escaped = parse(f'RECALL LIKE "{chr(92) * 8178}"')
    assert from_json(to_json(escaped)) == escaped
