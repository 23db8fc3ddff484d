"""The strict reader, the writers and the canonical form."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processor import at_most

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MalformedJson, MemorandaError, TooLarge

SAFE = 2**53 - 1
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 1.0, 1e-7, 1e-6, 1.5e-5, 9.9e-5, 1e-4, 1e15, 1e16, 1e20, 1e21, 1.5e300, 5e-324, 0.1 + 0.2]
)
LEAVES = st.none() | st.booleans() | st.integers(-SAFE, SAFE) | FLOATS | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


@given(VALUES)
def test_what_is_dumped_is_parsed_back(value: Any) -> None:
    assert json_text.parse(json_text.dump(value)) == value


def outcome(data: bytes | str) -> str:
    try:
        return repr(json_text.parse(data))
    except MemorandaError as error:
        return f"{type(error).__name__}: {error}"


@given(VALUES, st.sampled_from([json_text.dump, lambda value: json.dumps(value).encode()]))
def test_bytes_are_read_as_their_text_is(value: Any, spell: Any) -> None:
    data: bytes = spell(value)
    assert outcome(data) == outcome(data.decode())


@pytest.mark.parametrize(
    "text",
    [
        *('{"a":1,"a":1}', '{"a": 1, "a": 1}', '[{"b":{"a":1,"a":2}}]', "-0", "[-0]", "1e400", "[1E2]", "1.10", "NaN"),
        *("123456789012345678901234567890", "18446744073709551616", "-9223372036854775809", "0.1e1", "[1.0,10.0]"),
        *(
            '"\\ud800"',
            '"\\ud83d\\ude00"',
            '"\\u00e9"',
            '{"a": "\\ud83d"}',
            "[" * 65 + "]" * 65,
            " 1",
            "nul",
            "",
            "\ufeff1",
        ),
    ],
)
def test_what_is_spelt_as_usual_and_what_is_not_is_read_the_same(text: str) -> None:
    assert outcome(text.encode()) == outcome(text)


@given(st.integers(-(10**300), 10**300))
def test_integers_of_any_accepted_size_are_kept(number: int) -> None:
    assert json_text.parse(json_text.dump([number])) == [number]


@given(VALUES)
@settings(max_examples=400)
def test_the_canonical_form_is_that_of_rfc_8785(value: Any) -> None:
    assert json_text.canonical(value) == rfc8785.dumps(value)


@given(VALUES)
def test_the_pretty_form_has_the_same_meaning(value: Any) -> None:
    # As doubles: ECMAScript writes 5.099165288166686e16 as 50991652881666860, for Python an integer.
    read = json_text.parse(json_text.dump_pretty(value))
    assert json_text.canonical(read) == json_text.canonical(value)


@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_parsing_raises_only_our_errors(data: bytes) -> None:
    with suppress(MemorandaError):
        json_text.parse(data)


@given(st.text(alphabet='[]{}":,\\u0dDe1.-nulfasr \n', max_size=60))
def test_whatever_is_accepted_python_accepts_too(text: str) -> None:
    try:
        value = json_text.parse(text)
    except MalformedJson:
        return
    assert value == json.loads(text)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xef\xbb\xbf{}",
        "\ufeff{}",
        b"\xff",
        b"\xed\xa0\x80",
        b'{"a":1,"a":1}',
        b'{"a":{"b":1,"b":2}}',
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e400",
        b"[-1e999]",
        b"1" * 400,
        b"9" * 309,
        b"-" + b"9" * 5000,
        b'"\\ud800"',
        b'"\\uDC00\\ud800"',
        b'{"\\ud800":1}',
        "\ud800",
        '"\ud800"',
        b"[" * 65 + b"]" * 65,
        b"[" * 100_000,
        b'"\x01"',
        b"[1,]",
        b"01",
        b"'a'",
        b"{} {}",
    ],
)
def test_ambiguous_or_broken_json_is_refused(data: bytes | str) -> None:
    with pytest.raises(MalformedJson):
        json_text.parse(data)


def test_a_refusal_says_where() -> None:
    with pytest.raises(MalformedJson, match="line 2 column 3"):
        json_text.parse(b"[1,\n  x]")
    with pytest.raises(MalformedJson, match='duplicate key "a"'):
        json_text.parse(b'{"a":1,"a":2}')


@pytest.mark.parametrize(("data", "max_bytes"), [(b"[1,2,3]", 6), ("[1,2,3]", 6), ('"éé"', 5)])
def test_size_is_counted_in_bytes(data: bytes | str, max_bytes: int) -> None:
    with pytest.raises(TooLarge):
        json_text.parse(data, max_bytes=max_bytes)


def test_brackets_inside_strings_do_not_count_as_depth() -> None:
    text = json.dumps(["[" * 500, 'a\\"[{' * 50])
    assert json_text.parse(text) == json.loads(text)
    assert json_text.parse(b"[" * 64 + b"]" * 64) is not None
    assert json_text.parse(b'{"a":' * 3 + b"1" + b"}" * 3, max_depth=3)


def test_a_surrogate_pair_is_one_character() -> None:
    assert json_text.parse(b'"\\ud83d\\ude00"') == "😀"


@pytest.mark.parametrize("evil", ['"' + '\\"' * 400_000, '"\\' * 400_000, "[]" * 400_000, "{" * 900_000])
def test_hostile_input_is_refused_in_linear_time(evil: str) -> None:
    # Quadratic behaviour would take minutes.
    with at_most(5), pytest.raises(MalformedJson):
        json_text.parse(evil)


def test_pretty_is_what_javascript_writes() -> None:
    value = {
        "e": {},
        "l": [],
        "n": [1.0, 1e21, 1e-7, 0.5, -0.0, None, True],
        "s": "é\n\u2028\x7f\x1f",
        "o": {"k": 1},
    }
    expected = (
        '{\n  "e": {},\n  "l": [],\n  "n": [\n    1,\n    1e+21,\n    1e-7,\n    0.5,\n    0,\n'
        "    null,\n    true\n  ],\n"
        '  "s": "é\\n\u2028\x7f\\u001f",\n  "o": {\n    "k": 1\n  }\n}'
    )
    assert json_text.dump_pretty(value) == expected
    assert json_text.dump_pretty({"a": [1, {}], "b": []}) == '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": []\n}'
    assert json_text.dump_pretty(2**70) == str(2**70)


def test_integers_beyond_doubles_are_rounded_before_they_are_canonical() -> None:
    assert json_text.canonical([2**53, 2**53 + 1, 10**20, 10**21]) == (
        b"[9007199254740992,9007199254740992,100000000000000000000,1e+21]"
    )


@pytest.mark.parametrize(
    "value",
    ["\ud800", {"\ud800": 1}, {"😀\ud800": 1}, float("nan"), float("inf"), 10**400, {1: 2}, {"a": object()}],
)
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        json_text.canonical(value)


@pytest.mark.parametrize("value", ["\ud800", {"a": object()}, [2**70, "\ud800"]])
def test_what_is_not_json_is_not_written(value: Any) -> None:
    with pytest.raises(InvalidInput):
        json_text.dump(value)
    with pytest.raises(InvalidInput):
        json_text.dump_pretty(value)
