"""Paths of `consent.redact`: every form that is read hides what it names; what cannot be read is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.ump.published import full_record

from memoranda.standards.ump import rules
from memoranda.standards.ump.paths import is_impossible_path, parse_path
from memoranda.standards.ump.record import find_problems

STRUCTURED: dict[str, Any] = {
    "token": "s3cret",
    "plain": "open",
    "keys": ["s3cret", "open", "s3cret"],
    "deep": {"token": "s3cret", "a b": "s3cret", "it's": "s3cret", "a.b": "s3cret", "x/y": "s3cret", "0": "s3cret"},
}


def record(*paths: str) -> Any:
    return {**full_record(), "body": {"text": "open", "structured": STRUCTURED}, "consent": {"redact": list(paths)}}


def left(*paths: str) -> Any:
    return rules.redact(record(*paths))[0]["body"]["structured"]


TOKEN = [
    "body.structured.token",
    "$.body.structured.token",
    "$['body']['structured']['token']",
    '$["body"]["structured"]["token"]',
    "$.body['structured'].token",
    "$[ 'body' ].structured[ 'token' , 'nothing' ]",
    r"$.body.structured['\u0074oken']",
    "body.structured['token']",
    "/body/structured/token",
    "body/structured/token",
]


@pytest.mark.requirement("OURS-redact-fails-closed")
@pytest.mark.parametrize("path", TOKEN)
def test_every_form_of_a_path_hides_what_it_names(path: str) -> None:
    assert find_problems(record(path)) == []
    assert left(path) == {name: value for name, value in STRUCTURED.items() if name != "token"}


@pytest.mark.requirement("OURS-redact-fails-closed")
@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("body.structured.keys[0]", [None, "open", "s3cret"]),
        ("body.structured.keys.0", [None, "open", "s3cret"]),
        ("$.body.structured.keys[-1]", ["s3cret", "open", None]),
        ("$.body.structured.keys[0,2]", [None, "open", None]),
        ("$.body.structured.keys[::2]", [None, "open", None]),
        ("$.body.structured.keys[*]", [None, None, None]),
        ("body.structured.keys.*", [None, None, None]),
        ("/body/structured/keys/2", ["s3cret", "open", None]),
    ],
)
def test_elements_of_a_list(path: str, keys: list[str | None]) -> None:
    assert find_problems(record(path)) == []
    assert left(path)["keys"] == keys


@pytest.mark.requirement("OURS-redact-fails-closed")
def test_wildcards_and_descendants() -> None:
    assert left("$.body.structured.*") == left("body.structured.*") == {}
    assert "token" not in left("$..token")
    assert "token" not in left("$..token")["deep"]
    assert left("$..token")["plain"] == "open"
    assert "s3cret" not in repr(rules.redact(record("$..*"))[0])


@pytest.mark.requirement("OURS-redact-fails-closed")
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("body.structured.deep['a b']", "a b"),
        (r"$.body.structured.deep['it\'s']", "it's"),
        ('$.body.structured.deep["it\'s"]', "it's"),
        ("$.body.structured.deep['a.b']", "a.b"),
        ("/body/structured/deep/x~1y", "x/y"),
        ("body.structured.deep.0", "0"),
        ("$.body.structured.deep[0]", "0"),
    ],
)
def test_names_that_need_quotes(path: str, name: str) -> None:
    assert left(path)["deep"] == {each: "s3cret" for each in STRUCTURED["deep"] if each != name}


UNREADABLE = [
    *("$", "..", "$.body.structured[?@.a]", "$.body.structured[token]", "$.body.structured[", "$.body.structured]"),
    *("$body", "$.body.structured['a", "$.body.structured[0:1:0]", "body.structured..", "/body//token", "/body/~2"),
    *("$.body.structured[0 1]", "body.", ".body", "$.body.structured[]", r"$.body['\x']"),
]


@pytest.mark.requirement("OURS-redact-fails-closed")
@pytest.mark.parametrize("path", UNREADABLE)
def test_what_cannot_be_read_is_refused_and_hides_all_that_was_said(path: str) -> None:
    assert parse_path(path) is None
    assert any("consent.redact.0" in each for each in find_problems(record(path)))
    assert rules.redact(record(path))[0]["body"] == {"text": "[redacted]"}


@pytest.mark.requirement("OURS-redact-fails-closed")
@pytest.mark.parametrize(
    "path", ["token", "structured.token", "body.token", "$.bdoy.text", "/bdoy/text", "relations.0.to"]
)
def test_a_path_that_no_record_has_is_refused(path: str) -> None:
    read = parse_path(path)
    assert read is not None
    assert is_impossible_path(read)
    assert any("consent.redact.0" in each for each in find_problems(record(path)))


@pytest.mark.requirement("OURS-redact-fails-closed")
def test_an_original_that_is_carried_along_goes_with_what_was_taken_out() -> None:
    carrying = record("body.text")
    carrying["body"] = {"text": "open", "structured": {"plain": 1, "memoranda:native": {"data": "s3cret"}}}
    assert rules.redact(carrying)[0]["body"] == {"text": "[redacted]", "structured": {"plain": 1}}


@given(st.lists(st.text(alphabet="$.[]*'\"/0:,- body~?@\\", max_size=20), max_size=3))
def test_no_path_breaks_anything(paths: list[str]) -> None:
    source = record(*paths)
    before = copy.deepcopy(source)
    shown, changed = rules.redact(source)
    assert source == before
    assert changed is (shown != source)
    assert rules.redact(shown)[0] == shown
