"""RECALL: types, fields and operators, shortcuts and their combinations, options, stages."""

from __future__ import annotations

import pytest
from tests.standards.cal.verdicts import code_of, place_of

from memoranda.errors import QueryError
from memoranda.standards.cal import fields
from memoranda.standards.cal.fields import FieldKind
from memoranda.standards.cal.language import words
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import Limit, OrderBy, Recall, Reduce

SAMPLES = {
    FieldKind.STRING: '"v"',
    FieldKind.ADDRESS: "sha256:aaaaaaaa",
    FieldKind.FRACTION: "0.5",
    FieldKind.NUMBER: "3",
    FieldKind.BOOLEAN: "true",
    FieldKind.ARRAY: '["a", "b"]',
    FieldKind.TYPE: '"belief"',
    FieldKind.SINCE: '"last week"',
    FieldKind.INSTANT: '"2026-03-15"',
    FieldKind.HASH: "sha256:aaaaaaaa",
}
EVERY_FIELD = [(grain_type, name) for grain_type in (None, *fields.SINGULARS) for name in fields.fields_of(grain_type)]


def recall_text(grain_type: str | None, rest: str) -> str:
    return f"RECALL {fields.PLURAL_OF[grain_type] if grain_type else ''} {rest}"


def operand(grain_type: str | None, name: str, operator: str) -> str:
    field = fields.fields_of(grain_type)[name]
    sample = f'"{field.words[0]}"' if field.words else SAMPLES[field.kind]
    return {
        "IN": f"({sample}, $p)",
        "BETWEEN": '"2026-01-01" AND 1709337600',
        "IS": "AGENCY",
        "INCLUDE": SAMPLES[FieldKind.ARRAY],
        "EXCLUDE": SAMPLES[FieldKind.ARRAY],
    }.get(operator, sample)


@pytest.mark.requirement("CAL-6-operators")
@pytest.mark.parametrize(("grain_type", "name"), EVERY_FIELD)
def test_a_field_takes_its_operators_and_no_others(grain_type: str | None, name: str) -> None:
    field = fields.fields_of(grain_type)[name]
    for operator in words.OPERATORS:
        text = recall_text(grain_type, f"WHERE {name} {operator} {operand(grain_type, name, operator)}")
        assert code_of(text) == (None if operator in field.operators else "CAL-E020")


@pytest.mark.requirement("CAL-6.5-field-counts")
def test_each_type_has_as_many_fields_as_the_specification_counts() -> None:
    counts = {name: len(fields.fields_of(name, strict=True)) for name in fields.SINGULARS}
    assert counts == {
        "belief": 18, "event": 23, "state": 20, "workflow": 20, "action": 22, "observation": 20, "goal": 22,
        "reasoning": 21, "consensus": 21, "consent": 24,
    }  # fmt: skip
    assert len(fields.fields_of(None)) == 18
    assert len(fields.fields_of("action")) == 23
    assert len(fields.fields_of("workflow")) == 21


@pytest.mark.requirement("CAL-6-type-fields")
@pytest.mark.parametrize("name", fields.TYPES_WITH)
def test_a_type_field_needs_its_type(name: str) -> None:
    uses = (
        f'WHERE {name} = "x"',
        f"| ORDER BY {name}",
        f"| SELECT {name}",
        f"| GROUP BY {name}",
        f"WITH dedup({name})",
    )
    for use in uses:
        assert code_of(recall_text(None, use)) == "CAL-E061"
        assert code_of(recall_text("belief", use)) == "CAL-E060"
    with pytest.raises(QueryError) as raised:
        parse(recall_text("belief", f'WHERE {name} = "x"'))
    assert raised.value.reason == "field_not_on_grain_type"


@pytest.mark.requirement("CAL-6-values")
@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("subject = 42", "CAL-E020"),
        ("subject = true", "CAL-E020"),
        ('subject = ["a"]', "CAL-E020"),
        ("subject = sha256:aaaaaaaa", "CAL-E020"),
        ("confidence = 1.01", "CAL-E020"),
        ("confidence = -0.1", "CAL-E020"),
        ("score >= 2", "CAL-E020"),
        ('confidence = "0.5"', "CAL-E020"),
        ('contradicted = "true"', "CAL-E020"),
        ("time = 1709251200", "CAL-E020"),
        ('time = "whenever"', "CAL-E020"),
        ("time BETWEEN true AND 5", "CAL-E020"),
        ("tags INCLUDE [1]", "CAL-E020"),
        ('tags INCLUDE "a"', "CAL-E020"),
        ("hash = 5", "CAL-E020"),
        ('hash = "sha256:aaaaaaaa"', "CAL-E015"),
        ('type = "beliefs"', "CAL-E003"),
        ('type = "fact"', "CAL-E003"),
        ("type = 5", "CAL-E020"),
        ('recall_priority = "lukewarm"', "CAL-E065"),
        ('epistemic_status = "sure"', "CAL-E066"),
        ('recall_priority = "hot"', None),
        ('source_type = "anything"', None),
        ('verification_status = "anything"', None),
        ("subject = $p", None),
        ("hc:x INCLUDE [1, true]", None),
        ('hc:x BETWEEN 1 AND "b"', None),
        ("hc:x IS AGENCY", "CAL-E020"),
        ("relation IS NULL", "CAL-E002"),
        ("relation is preference", None),
        ("object IS NULL", "CAL-E020"),
        ("nonsense = 1", "CAL-E004"),
        ("key = 1", "CAL-E004"),
        ("WHERE = 1", "CAL-E002"),
        ("NOT subject = 1", "CAL-E002"),
        ("(subject = 1)", "CAL-E002"),
        ("subject", "CAL-E002"),
        ("subject LIKE 5", "CAL-E002"),
        ("hc : x = 5", "CAL-E004"),
    ],
)
def test_a_condition_has_its_verdict(condition: str, code: str | None) -> None:
    assert code_of(f"RECALL WHERE {condition}") == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('RECALL actions WHERE action_phase = "complete"', None),
        ('RECALL actions WHERE action_phase = "completed"', "CAL-E062"),
        ('RECALL goals WHERE goal_state != "open"', "CAL-E063"),
        ('RECALL goals WHERE goal_state = "satisfied"', None),
        ('RECALL workflows WHERE goal_state = "open"', None),
        ('RECALL consents WHERE consent_action = "granted"', "CAL-E064"),
        ('RECALL goals WHERE deadline = "last week"', "CAL-E020"),
        ("RECALL goals WHERE deadline = 1709251200", None),
        ('RECALL goals WHERE deadline BETWEEN "last week" AND "now"', None),
        ("RECALL consensuses WHERE threshold >= 40", None),
        ("RECALL events WHERE parent_message_id = sha256:aaaaaaaa", None),
    ],
)
def test_values_of_type_fields_are_checked(text: str, code: str | None) -> None:
    assert code_of(text) == code


@pytest.mark.requirement("CAL-9.8-combinations")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('RECALL ABOUT "a" LIKE "b"', "LIKE"),
        ('RECALL LIKE "b" ABOUT "a"', "ABOUT"),
        ("RECALL RECENT 5 LIMIT 3", "LIMIT"),
        ("RECALL LIMIT 3 RECENT 5", "RECENT"),
        ("RECALL RECENT 5 | ORDER BY time", "ORDER"),
        ('RECALL SINCE "now" WHERE time = "today"', "time"),
        ('RECALL WHERE time = "today" SINCE "now"', "SINCE"),
        ('RECALL SINCE "now" BETWEEN 1 AND 2', "BETWEEN"),
        ("RECALL BETWEEN 1 AND 2 WHERE time BETWEEN 1 AND 2", "time"),
        ('RECALL MY WHERE user_id != "a"', "user_id"),
        ('RECALL LIKE "a" WHERE query = "b"', "query"),
        ('RECALL WHERE query = "a" AND query = "b"', "query"),
        ('COALESCE(RECALL LIKE "a" WHERE query = "b", RECALL)', "query"),
    ],
)
def test_two_ways_to_say_the_same_are_ambiguous(text: str, place: str) -> None:
    with pytest.raises(QueryError) as raised:
        parse(text)
    assert raised.value.cal_code == "CAL-E060"
    assert raised.value.reason == "ambiguous_shortcut"
    assert raised.value.start == text.rindex(place)


@pytest.mark.parametrize(
    "text",
    [
        'RECALL ABOUT "a" WHERE subject = "b"',
        'RECALL ABOUT "a" WHERE query = "b"',
        "RECALL CONTRADICTIONS WITH contradiction_detection",
        "RECALL RECENT 5 | OFFSET 5",
        'RECALL events THREAD "s" RECENT 5',
        'RECALL events THREAD "s" | ORDER BY time DESC',
        'RECALL WHERE time = "today" AND time BETWEEN 1 AND 2',
        'COALESCE(RECALL ABOUT "a" LIKE "b", RECALL)',
        'RECALL MY SINCE "now" ABOUT "a" CONTRADICTIONS RECENT 3',
    ],
)
def test_every_other_combination_is_legal(text: str) -> None:
    assert code_of(text) is None


def test_clauses_come_in_any_order_and_each_once() -> None:
    assert parse('RECALL beliefs AS json RECENT 5 WHERE confidence > 0 WITH superseded ABOUT "a" IN "ns"') == parse(
        'RECALL beliefs IN "ns" ABOUT "a" WHERE confidence > 0 WITH superseded RECENT 5 AS json'
    )
    for clause in ('ABOUT "a"', 'LIKE "a"', 'SINCE "now"', "WHERE score > 0", "WITH superseded", "RECENT 5", 'IN "n"',
                   "BETWEEN 1 AND 2", "CONTRADICTIONS", "AS json", 'THREAD "s"'):  # fmt: skip
        assert code_of(f"RECALL events {clause} {clause}") == "CAL-E002"
    assert code_of("RECALL AS json FORMAT json") == "CAL-E002"


@pytest.mark.requirement("CAL-4-types")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("RECALL BELIEFS", None),
        ("RECALL my Goals", None),
        ("RECALL belief", "CAL-E003"),
        ("RECALL observation", "CAL-E003"),
        ("RECALL find", "CAL-E003"),
        ("RECALL policy", "CAL-E003"),
        ("RECALL MY stuff", "CAL-E003"),
        ("RECALL or", "CAL-E002"),
        ("RECALL set", "CAL-E002"),
        ("RECALL beliefs goals", "CAL-E002"),
        ("RECALL beliefs MY", "CAL-E002"),
        ("RECALL *", "CAL-E002"),
        ('RECALL "beliefs"', "CAL-E002"),
    ],
)
def test_only_a_plural_declares_a_type(text: str, code: str | None) -> None:
    assert code_of(text) == code


@pytest.mark.requirement("CAL-17.3-recall-limits")
def test_each_limit_of_a_recall_holds_at_its_last_value() -> None:
    assert code_of("RECALL LIMIT 1000") is None
    assert code_of("RECALL LIMIT 1001") == "CAL-E010"
    assert code_of("RECALL RECENT 1000") is None
    assert code_of(f"RECALL RECENT {'9' * 30}") == "CAL-E010"
    values = ", ".join(f'"{number}"' for number in range(100))
    assert code_of(f"RECALL WHERE subject IN ({values})") is None
    assert code_of(f'RECALL WHERE subject IN ({values}, "x")') == "CAL-E011"
    assert code_of("RECALL WHERE subject IN ()") == "CAL-E002"
    assert code_of("RECALL | LIMIT 5 | LIMIT 4 | LIMIT 3 | LIMIT 2 | LIMIT 1") is None
    assert code_of("RECALL | LIMIT 5 | LIMIT 4 | LIMIT 3 | LIMIT 2 | LIMIT 1 | COUNT") == "CAL-E012"
    assert code_of('RECALL events THREAD "s" RECENT 1 | OFFSET 1 | COUNT') is None
    assert code_of('RECALL events | OFFSET 1 | OFFSET 2 | COUNT RECENT 1 THREAD "s"') == "CAL-E012"


def nested(levels: int) -> str:
    query = "RECALL beliefs | SUBJECTS"
    for _ in range(levels):
        query = f"RECALL beliefs WHERE subject IN ({query}) | SUBJECTS"
    return query


@pytest.mark.requirement("CAL-8.1-subqueries")
def test_subqueries_nest_three_deep_and_end_in_an_extractor() -> None:
    assert code_of(nested(3)) is None
    assert code_of(nested(4)) == "CAL-E007"
    assert code_of("RECALL WHERE subject IN (RECALL beliefs)") == "CAL-E021"
    assert code_of("RECALL WHERE subject IN (RECALL beliefs | COUNT)") == "CAL-E021"
    assert code_of("RECALL WHERE subject IN (RECALL beliefs | SUBJECTS | LIMIT 5)") is None
    assert code_of('RECALL WHERE subject IN (RECALL beliefs | SUBJECTS, "a")') == "CAL-E002"


@pytest.mark.requirement("CAL-8.1-stages")
@pytest.mark.parametrize(
    ("stages", "code"),
    [
        ("SELECT subject | ORDER BY subject | LIMIT 5 | COUNT", None),
        ("SELECT subject | ORDER BY object", "CAL-E021"),
        ("SELECT subject | SELECT subject", "CAL-E021"),
        ("SELECT subject | SUBJECTS", "CAL-E021"),
        ("SELECT subject | GROUP BY subject", "CAL-E021"),
        ("COUNT | LIMIT 5", "CAL-E021"),
        ("COUNT | COUNT", "CAL-E021"),
        ("FIRST | SELECT subject", None),
        ("FIRST | PROJECT content(object) | SELECT subject", None),
        ("FIRST | SELECT subject | SELECT subject", "CAL-E021"),
        ("FIRST | LIMIT 5", "CAL-E021"),
        ("FIRST | COUNT", "CAL-E021"),
        ("SUBJECTS | LIMIT 5 | OFFSET 1 | FIRST", None),
        ("SUBJECTS | ORDER BY subject", "CAL-E021"),
        ("HASHES | HASHES", "CAL-E021"),
        ("GROUP BY subject | LIMIT 5 | COUNT", None),
        ("GROUP BY subject | SELECT subject", "CAL-E021"),
        ("ORDER BY tags", "CAL-E021"),
        ("ORDER BY user_id", "CAL-E021"),
        ("SELECT query", "CAL-E021"),
        ("GROUP BY confidence", "CAL-E021"),
        ("PROJECT content(namespace)", "CAL-E021"),
        ("ORDER BY nonsense", "CAL-E004"),
        ("SELECT subject, nonsense", "CAL-E004"),
        ("SELECT hc:x", "CAL-E002"),
        ("SELECT", "CAL-E002"),
        ("ORDER subject", "CAL-E002"),
        ("ORDER BY", "CAL-E002"),
        ("LIMIT", "CAL-E002"),
        ("LIMIT 0", "CAL-E006"),
        ("LIMIT -5", "CAL-E006"),
        ("LIMIT 5.5", "CAL-E006"),
        ("OFFSET 0", None),
        ("OFFSET -1", "CAL-E006"),
        ("PROJECT content(relation, object), attr(x_Dept, hc:a, source)", None),
        ("PROJECT attr(observer)", "CAL-E060"),
        ("PROJECT content(object), content(object)", "CAL-E002"),
        ("PROJECT title(object)", "CAL-E002"),
        ("PROJECT content()", "CAL-E002"),
        ("WHERE subject = 1", "CAL-E002"),
        ("", "CAL-E002"),
    ],
)
def test_stages_work_on_what_they_are_given(stages: str, code: str | None) -> None:
    assert code_of(f"RECALL beliefs | {stages}") == code


def test_the_pipe_before_a_stage_is_optional() -> None:
    assert parse("RECALL beliefs ORDER BY time DESC LIMIT 5 COUNT").statement == Recall(
        grain_type="belief",
        stages=(OrderBy(field="time", descending=True), Limit(count=5), Reduce(to="count")),
    )


@pytest.mark.requirement("CAL-8.1-extractors")
def test_subjects_and_objects_need_beliefs() -> None:
    assert code_of("RECALL beliefs | SUBJECTS") is None
    assert code_of('RECALL | OBJECTS WHERE type = "belief"') is None
    assert code_of("RECALL WHERE type = $t | OBJECTS") is None
    assert code_of("RECALL | SUBJECTS") == "CAL-E022"
    assert place_of("RECALL goals | OBJECTS WHERE confidence > 0") == ("CAL-E022", 1, 16)
    assert code_of("RECALL goals | HASHES") is None


def test_projection_names_follow_the_type() -> None:
    assert code_of("RECALL observations PROJECT attr(observer)") is None
    assert code_of("RECALL actions PROJECT attr(tool, phase)") is None
    assert code_of("RECALL PROJECT attr(tool)") == "CAL-E061"
    assert code_of("RECALL goals PROJECT attr(tool)") == "CAL-E060"
    assert code_of("RECALL PROJECT attr(nonsense)") == "CAL-E004"


@pytest.mark.requirement("CAL-9-options")
@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("superseded, score_breakdown, explanation, provenance, contradiction_detection, summarize", None),
        ("Superseded", None),
        ("progressive_disclosure", None),
        ("progressive_disclosure(headlines)", None),
        ("progressive_disclosure(standard)", None),
        ("progressive_disclosure(brief)", "CAL-E002"),
        ("diversity(mmr, lambda=1)", None),
        ("diversity(mmr, lambda=1.1)", "CAL-E020"),
        ("diversity(threshold, 0.5)", None),
        ("diversity(threshold, -1)", "CAL-E020"),
        ("diversity(threshold)", "CAL-E002"),
        ("diversity", "CAL-E002"),
        ("consistency(bounded(500))", None),
        ("consistency(bounded)", "CAL-E002"),
        ("consistency(strong)", "CAL-E002"),
        ("dedup(subject)", None),
        ("dedup(nonsense)", "CAL-E004"),
        ("dedup(hc:x)", "CAL-E002"),
        ('locale("de")', None),
        ("locale(de)", "CAL-E002"),
        ("cache(ttl=60)", None),
        ("cache(ttl=0)", "CAL-E006"),
        ("x_anything", None),
        ('x_Anything(1, "a", $p, [true])', None),
        ("x_anything()", "CAL-E002"),
        ("turbo", "CAL-E002"),
        ("superseded, superseded", "CAL-E002"),
        ("superseded,", "CAL-E002"),
    ],
)
def test_options_have_their_shapes(option: str, code: str | None) -> None:
    assert code_of(f"RECALL beliefs WITH {option}") == code
    assert code_of(f"ASSEMBLE c FROM (RECALL beliefs) WITH {option}") == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('RECALL THREAD "s"', "CAL-E061"),
        ('RECALL goals THREAD "s"', "CAL-E060"),
        ('RECALL events THREAD "s"', None),
        ('RECALL actions THREAD "s"', None),
        ("RECALL events THREAD FROM sha256:aaaaaaaa", None),
        ("RECALL events THREAD FROM $h", None),
        ('RECALL events THREAD FROM "s"', "CAL-E015"),
        ("RECALL events THREAD sha256:aaaaaaaa", "CAL-E002"),
        ('RECALL SINCE "soon"', "CAL-E020"),
        ("RECALL SINCE 5", "CAL-E002"),
        ('RECALL BETWEEN "soon" AND 5', "CAL-E020"),
        ("RECALL BETWEEN 5", "CAL-E002"),
        ('RECALL IN "ns"', None),
        ('RECALL IN SCOPE "ns"', None),
        ("RECALL IN ns", "CAL-E002"),
        ("RECALL AS html", "CAL-E002"),
        ("RECALL AS OF", "CAL-E002"),
        ("RECALL FORMAT TOON", None),
        ('RECALL FORMAT TEMPLATE t', "CAL-E002"),
        ("RECALL beliefs;", "CAL-E002"),
    ],
)  # fmt: skip
def test_clauses_have_their_shapes(text: str, code: str | None) -> None:
    assert code_of(text) == code


def test_case_is_folded_where_it_does_not_matter_and_kept_where_it_does() -> None:
    assert parse('recall BELIEFS where SUBJECT = "A" order by TIME desc as JSON') == parse(
        'RECALL beliefs WHERE subject = "A" ORDER BY time DESC AS json'
    )
    assert parse("RECALL WHERE HC:Patient = $P").statement == parse("RECALL WHERE hc:patient = $P").statement
    assert parse("RECALL WITH x_A") != parse("RECALL WITH x_a")
    assert parse("RECALL ABOUT $P") != parse("RECALL ABOUT $p")
