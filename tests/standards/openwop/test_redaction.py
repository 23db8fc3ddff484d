"""SR-1: values of a run's secrets go, wherever they stand, and nothing else does."""

from __future__ import annotations

import copy
import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.processor import at_most

from memoranda.errors import InvalidInput
from memoranda.standards.openwop.redaction import (
    MAX_SECRET_CHARS,
    MAX_SECRETS,
    Secrets,
    convert_markers,
    format_marker,
)

VALUE = "hunter2-hunter2"
# As the conformance suite looks for it.
MARKER = re.compile(r"\[REDACTED:[^\]]+\]")
values = st.text("abc", min_size=8, max_size=14)
words = st.text("abc ", max_size=60)


def secrets_of(**known: str) -> Secrets:
    secrets = Secrets()
    for name, value in known.items():
        assert secrets.register(name, value)
    return secrets


@pytest.mark.requirement("WOP-3-sr1")
def test_a_value_is_replaced_by_its_marker_wherever_it_stands() -> None:
    found = secrets_of(db=VALUE).redact(f"use {VALUE}, not x{VALUE}{VALUE}y")
    assert found.text == "use [REDACTED:db], not x[REDACTED:db][REDACTED:db]y"
    assert found.ids == ("db",)
    assert secrets_of(db=VALUE).redact("nothing here") == ("nothing here", ())


@pytest.mark.requirement("WOP-3-sr1-longest")
def test_a_longer_secret_that_contains_a_shorter_one_goes_whole() -> None:
    for order in (("short", "long"), ("long", "short")):
        secrets = Secrets()
        for name in order:
            secrets.register(name, {"short": "password", "long": "my-password-is-long"}[name])
        assert secrets.redact("my-password-is-long, password").text == "[REDACTED:long], [REDACTED:short]"


@pytest.mark.requirement("WOP-3-sr1-longest")
def test_where_secrets_overlap_no_piece_of_either_is_left() -> None:
    secrets = secrets_of(one="abcdefgh", two="efghijkl")
    assert secrets.redact("abcdefghijkl") == ("[REDACTED:one][REDACTED:two]", ("one", "two"))


@pytest.mark.requirement("WOP-3-sr1-floor")
def test_a_value_below_eight_characters_is_not_redacted() -> None:
    secrets = Secrets()
    assert not secrets.register("pin", "1234567")
    assert not secrets.register("pin", "  123456  ")
    assert secrets.register("pin", "12345678")
    assert secrets.redact("1234567 12345678").text == "1234567 [REDACTED:pin]"


@pytest.mark.requirement("WOP-3-sr1-substring")
def test_a_value_is_a_string_and_never_a_pattern() -> None:
    odd = r"a.*[b-z]+(?:x)$\1{3}"
    assert secrets_of(odd=odd).redact(f"<{odd}> aaaa").text == "<[REDACTED:odd]> aaaa"


@pytest.mark.requirement("WOP-3-sr1")
def test_a_value_is_found_inside_json_and_inside_a_url() -> None:
    value = 'line one\n"quoted" ü'
    secrets = secrets_of(key=value)
    for text in (json.dumps({"k": value}), json.dumps({"k": value}, ensure_ascii=False), f"x {value} y"):
        assert "quoted" not in secrets.redact(text).text
    assert secrets_of(key="p@ss/word!").redact("https://u:p%40ss%2Fword%21@h/").text == "https://u:[REDACTED:key]@h/"


@pytest.mark.requirement("WOP-3-sr1")
def test_space_around_a_value_does_not_hide_it() -> None:
    assert secrets_of(key=f" {VALUE}\n").redact(f"({VALUE})").text == "([REDACTED:key])"


@pytest.mark.requirement("WOP-3-sr1")
@given(st.dictionaries(st.text("01", min_size=1, max_size=3), values, max_size=4), words)
def test_no_value_is_left_and_all_other_text_is(known: dict[str, str], text: str) -> None:
    secrets = Secrets()
    for name, value in known.items():
        secrets.register(name, value)
    redacted, ids = secrets.redact(text)
    assert not any(value in redacted for value in known.values())
    assert not secrets.occurs_in(redacted)
    assert secrets.redact(redacted).text == redacted
    assert set(ids) <= set(known)
    assert secrets.occurs_in(text) == bool(ids)
    if not ids:
        assert redacted == text
    # What is left, in order, was there before.
    rest = iter(text)
    assert all(character in rest for character in MARKER.sub("", redacted))


@pytest.mark.requirement("WOP-3-sr1-marker")
@given(st.text(max_size=200))
def test_no_id_can_close_its_marker_or_break_the_line(name: str) -> None:
    made = format_marker(name)
    assert MARKER.fullmatch(made)
    assert made.isascii()
    assert made.isprintable()
    assert len(made) <= 140


@pytest.mark.requirement("WOP-3-sr1-marker")
def test_an_id_that_tells_the_value_is_not_shown() -> None:
    assert secrets_of(**{VALUE: VALUE}).redact(VALUE).text == "[REDACTED:secret]"
    secrets = secrets_of(**{f"of-{VALUE}": "other-value"}, db=VALUE)
    assert secrets.redact(f"other-value {VALUE}").text == "[REDACTED:secret] [REDACTED:db]"


@pytest.mark.requirement("WOP-3-sr1-registry")
def test_a_registry_ends_with_its_run_and_never_leaves_it() -> None:
    secrets = secrets_of(db=VALUE)
    assert VALUE not in repr(secrets)
    assert len(secrets) == 1
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leave(secrets)
    secrets.clear()
    assert len(secrets) == 0
    assert secrets.redact(VALUE).text == VALUE


def test_a_registry_has_limits() -> None:
    secrets = Secrets()
    with pytest.raises(InvalidInput, match="at most"):
        secrets.register("huge", "x" * (MAX_SECRET_CHARS + 1))
    for number in range(MAX_SECRETS):
        assert secrets.register(f"s{number}", f"value-{number:04}")
    assert secrets.register("again", "value-0000")
    with pytest.raises(InvalidInput, match="at most"):
        secrets.register("more", "one value more")


def test_many_secrets_in_a_long_text_take_no_time_to_speak_of() -> None:
    secrets = secrets_of(**{f"s{number}": "a" * (8 + number) for number in range(50)})
    with at_most(10):
        assert secrets.redact("a" * 500_000 + "b").text.endswith("]b")


# --- markers of other hosts --------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-sr1-carry-forward")
@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        ("[BYOK:hk_live_canary_42]", "[REDACTED:hk_live_canary_42]"),
        ("<REDACTED:db-prod-creds>", "[REDACTED:db-prod-creds]"),
        ("a [BYOK:x] b <REDACTED:y> c", "a [REDACTED:x] b [REDACTED:y] c"),
        ("[byok:x]<redacted:y>", "[REDACTED:x][REDACTED:y]"),
        ("[BYOK:]<REDACTED:>", "[REDACTED:secret][REDACTED:secret]"),
        ("<REDACTED:a]b>", "[REDACTED:a_b]"),
        ("[BYOK:[REDACTED:db]] <REDACTED:[REDACTED:db]>", "[REDACTED:db] [REDACTED:db]"),
        ("[REDACTED:x]", "[REDACTED:x]"),
        ("[BYOK:x", "[BYOK:x"),
        ("<REDACTED:x\n>", "<REDACTED:x\n>"),
        ("[BYOK:[BYOK:x]", "[BYOK:[REDACTED:x]"),
        ("", ""),
    ],
)
def test_a_foreign_marker_becomes_ours_and_none_is_dropped(foreign: str, ours: str) -> None:
    assert convert_markers(foreign) == ours
    assert convert_markers(ours) == ours


@pytest.mark.requirement("WOP-3-sr1-carry-forward")
def test_a_marker_that_holds_the_secret_itself_does_not_keep_it() -> None:
    key = "ghp_" + "a1B2" * 9
    assert convert_markers(f"[BYOK:{key}]") == "[REDACTED:secret]"


@given(st.text("[<BYOKREDACTD:x]> \n", max_size=60))
def test_converting_twice_changes_nothing_more_and_loses_no_other_text(text: str) -> None:
    once = convert_markers(text)
    assert convert_markers(convert_markers(once)) == convert_markers(once)
    assert not re.search(r"\[BYOK:[^\[\]\r\n]*\]|<REDACTED:[^<>\r\n\[\]]*>", once)
