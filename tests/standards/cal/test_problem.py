"""Errors as documents, and the status they have over HTTP."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.cal import published
from tests.standards.cal.published import RUNTIME_ONLY

from memoranda.errors import QueryError
from memoranda.standards.cal import codes, fields
from memoranda.standards.cal.language import suggest, words
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.problem import (
    _EXAMPLES_BY_CODE,
    _EXAMPLES_BY_HINT,
    error_envelope,
    expected_of,
    http_status,
)


def error_of(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse(text, params={})
    return caught.value


@pytest.mark.requirement("CAL-22-envelope")
def test_the_worked_error_of_the_specification_is_ours_to_the_letter() -> None:
    assert error_envelope(error_of('RECALL fact WHERE subject = "alice"')) == {
        "error": {
            "code": "CAL-E003",
            "message": 'Unknown grain type "fact".',
            "position": {"start": 7, "end": 11, "line": 1, "col": 8},
            "suggestion": 'Did you mean "belief"? (OMS renamed Fact -> Belief in v1.2)',
            "example": 'RECALL beliefs WHERE subject = "alice"',
            "valid_values": [
                "belief", "event", "state", "workflow", "action", "observation", "goal", "reasoning", "consensus",
                "consent",
            ],
        }
    }  # fmt: skip


@pytest.mark.requirement("CAL-22-valid-values")
@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("RECALL AS pdf", [*words.FORMATS, *words.PRESETS]),
        ("DESCRIBE everything", list(words.DESCRIBE_TARGETS)),
        ("RECALL WHERE relation IS WISH", list(words.CATEGORIES)),
        ('RECALL WHERE colour = "red"', list(fields.COMMON_FIELDS)),
        ('RECALL goals WHERE goal_state = "lost"', list(fields.GOAL_STATES)),
        ('RECALL actions WHERE action_phase = "x"', ["definition", "call", "result", "complete"]),
        ('RECALL consents WHERE consent_action = "x"', ["grant", "withdraw"]),
        ('RECALL WHERE recall_priority = "x"', ["hot", "warm", "cold"]),
        ('RECALL WHERE epistemic_status = "x"', ["certain", "probable", "uncertain", "estimated", "derived"]),
        ('ADD event SET subject = "a" REASON "r"', ["belief", "observation", "goal", "reasoning"]),
        ('ADD belief SET subject = "a" REASON "r"', ["subject", "relation", "object"]),
        ('SUPERSEDE sha256:aaaaaaaa SET subject = "a" REASON "r"', ["object", "confidence", "importance", "tags"]),
        ("ASSEMBLE FROM (RECALL) STREAM { fast }", [*words.STREAM_OPTIONS, "chunk_size"]),
        ("DEFINE TEMPLATE t EXTENDS mine ELEMENT { x }", ["structured", "readable", "compact"]),
        ("CAL/2 RECALL", ["CAL/1"]),
        # What is expected is no closed set.
        ("RECALL ABOUT 5", None),
        ("RECALL beliefs LIMIT 5000", None),
    ],
)
def test_what_could_have_stood_there_is_listed_where_it_is_known(text: str, valid: list[str] | None) -> None:
    assert error_envelope(error_of(text))["error"].get("valid_values") == valid


@pytest.mark.requirement("CAL-22-expected")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RECALL ABOUT 5", ("a string in quotes", "a parameter")),
        ("EXISTS", ("a hash such as sha256:a1b2c3d4", "a parameter")),
        ("RECALL WHERE subject IN (5", None),
        ('RECALL WHERE subject IN ("a" "b")', (")", ",")),
        ("BATCH { a: RECALL beliefs b }", ("}", ",", "IN", "ABOUT")),
        # What was found says nothing about what was expected.
        ('RECALL WITH "; expected nothing."', ("contradiction_detection",)),
        ("RECALL beliefs ABOUT $who", None),
    ],
)
def test_what_was_expected_is_read_from_the_message(text: str, expected: tuple[str, ...] | None) -> None:
    found = error_envelope(error_of(text))["error"].get("expected", [])
    assert tuple(found[: len(expected or ())]) == (expected or ())
    assert (expected is None) == (found == [])


def test_every_refused_example_is_a_whole_document() -> None:
    for example in published.STATIC:
        if example["valid"]:
            continue
        with pytest.raises(QueryError) as caught:
            parse(published.text_of(example).encode("utf-8", "surrogatepass"), params=example.get("params", {}))
        error = caught.value
        document = error_envelope(error)["error"]
        assert json.loads(json.dumps(document)) == document
        assert document["code"] == error.cal_code
        assert document["suggestion"]
        if error.message.startswith("Unexpected") and "; expected" in error.message:
            assert expected_of(error)
        assert all(document.get("expected", ["x"])), error.message


def test_every_code_of_a_mistake_comes_with_an_example_that_is_a_query() -> None:
    for text in (*_EXAMPLES_BY_CODE.values(), *_EXAMPLES_BY_HINT.values()):
        parse(text)
    # Of a text that is too long, no text, or turned round, no example helps.
    assert codes.ERRORS.keys() - RUNTIME_ONLY - _EXAMPLES_BY_CODE.keys() == {
        f"CAL-E{number}" for number in ("001", "002", "070", "071")
    }
    assert set(_EXAMPLES_BY_HINT) == {f"Example: {shape}" for shape in suggest.EXAMPLES.values()}
    assert error_envelope(error_of("DESCRIBE"))["error"]["example"] == "DESCRIBE grain_types"


@pytest.mark.requirement("CAL-22-envelope")
@given(
    error=st.builds(
        QueryError,
        st.one_of(st.none(), st.text(max_size=30), st.just("Unexpected ; expected "), st.just("The query ends where ")),
        cal_code=st.one_of(st.sampled_from(sorted(codes.ERRORS)), st.sampled_from(["CAL-E000", ""])),
        suggestion=st.one_of(st.none(), st.text(max_size=9), st.just("Example: ")),
        reason=st.one_of(st.none(), st.text(max_size=9)),
    )
)
def test_describing_an_error_never_fails(error: QueryError) -> None:
    document = error_envelope(error)["error"]
    assert {"code", "message", "position", "suggestion"} <= set(document)
    assert document["suggestion"]
    json.dumps(document)
    assert 400 <= http_status(error.cal_code) < 600


STATUS = {
    403: "E044 E045",
    404: "E046 E085",
    409: "E040 E041 E042 E088",
    410: "E081",
    429: "E043 E052 E089",
    499: "E082",
    500: "E080",
    501: "E079",
    502: "E076",
    503: "E000",
    504: "E031 E075",
}  # fmt: skip


@pytest.mark.requirement("CAL-26-http-status")
def test_every_code_has_its_status() -> None:
    listed = {f"CAL-{code}": status for status, names in STATUS.items() for code in names.split()}
    assert {code: http_status(code) for code in codes.ERRORS} == {code: listed.get(code, 400) for code in codes.ERRORS}
    assert http_status("CAL-E000") == 503
    # What a writer of queries can mend is 400, and only that.
    mistakes = codes.ERRORS.keys() - RUNTIME_ONLY - {"CAL-E088"}
    assert {http_status(code) for code in mistakes} == {400}
    assert {code for code in codes.ERRORS if http_status(code) == 400} == mistakes


def test_what_a_refusal_is_for_and_what_stands_behind_it_are_said() -> None:
    error = QueryError(
        "No.", cal_code="CAL-E042", suggestion="x", reason="why", oms_error="ERR_INVALIDATION_DENIED"
    )  # fmt: skip
    document = error_envelope(error)["error"]
    assert (document["reason"], document["oms_error"]) == ("why", "ERR_INVALIDATION_DENIED")
    assert document["valid_values"] == ["belief"]
    assert error_envelope(error_of('RECALL ABOUT "a" LIKE "b"'))["error"]["reason"] == "ambiguous_shortcut"
