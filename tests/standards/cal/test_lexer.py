"""Tokens, literals and the checks before any grammar."""

from __future__ import annotations

import pytest
from tests.standards.cal.verdicts import code_of, place_of

from memoranda.errors import QueryError
from memoranda.standards.cal.language import lexer
from memoranda.standards.cal.language.lexer import TokenKind, tokenize
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import Hash, Recall


def about(text: str) -> object:
    statement = parse(f"RECALL ABOUT {text}").statement
    assert isinstance(statement, Recall)
    return statement.about


def asked(text: str) -> object:
    statement = parse(f"RECALL WHERE hc:x = {text}").statement
    assert isinstance(statement, Recall)
    return statement.where[0].value


@pytest.mark.requirement("CAL-2-tokens")
def test_every_kind_of_token_is_told_apart_and_placed() -> None:
    text = 'RECALL $p "a\\"b" -1.5 sha256:ABCDEF12 hc:x >= | -- no token\n  ] x_1 "'
    found = [(token.kind, token.text, token.span.start) for token in tokenize(text)]
    assert found == [
        (TokenKind.WORD, "RECALL", 0),
        (TokenKind.PARAMETER, "$p", 7),
        (TokenKind.STRING, '"a\\"b"', 10),
        (TokenKind.NUMBER, "-1.5", 17),
        (TokenKind.HASH, "sha256:ABCDEF12", 22),
        (TokenKind.DOMAIN_FIELD, "hc:x", 38),
        (TokenKind.PUNCTUATION, ">=", 43),
        (TokenKind.PUNCTUATION, "|", 46),
        (TokenKind.PUNCTUATION, "]", 62),
        (TokenKind.WORD, "x_1", 64),
        (TokenKind.BAD, '"', 68),
    ]


@pytest.mark.parametrize("text", ["", "a", 'RECALL "x', "RECALL -- c", "é \0 \ud800", "a\r\nb", " \n"])
def test_tokens_and_places_agree(text: str) -> None:
    assert [text[start:end] for start, end in lexer.find_spans(text)] == lexer.split_tokens(text)
    assert lexer.split_tokens(text)[-1] == ""


@pytest.mark.requirement("CAL-2-length")
def test_8192_bytes_are_read_and_one_more_is_refused() -> None:
    longest = f'RECALL LIKE "{"a" * 8178}"'
    assert len(longest) == 8192
    assert code_of(longest) is None
    assert code_of(longest + " ") == "CAL-E001"
    # Bytes, not characters.
    assert code_of(f'RECALL LIKE "{"é" * 4089}"') is None
    assert code_of(f'RECALL LIKE "{"é" * 4090}"') == "CAL-E001"
    assert code_of(b"\xff" * 8193) == "CAL-E001"


@pytest.mark.requirement("CAL-16.6-text")
def test_the_text_is_checked_for_length_then_encoding_then_direction_then_emptiness() -> None:
    assert code_of(b'RECALL LIKE "\xff\xe2\x80\xae"') == "CAL-E070"
    assert code_of('RECALL LIKE "\ud800\u202e"') == "CAL-E070"
    assert code_of("-- \u202e") == "CAL-E071"
    assert code_of("RECALL nonsense -- \u2069") == "CAL-E071"
    assert code_of(b" \n\t -- RECALL") == "CAL-E014"
    assert code_of("") == "CAL-E014"
    for control in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069":
        assert place_of(f'RECALL\nLIKE "{control}"') == ("CAL-E071", 2, 7)


@pytest.mark.requirement("CAL-2-strings")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('""', ""),
        ('"a\\"b"', 'a"b'),
        ('"a\\\\"', "a\\"),
        ('"a\\n\\t"', "a\\n\\t"),
        ('"two\nlines"', "two\nlines"),
        ('"-- no comment"', "-- no comment"),
        ('"A\u030a"', "\u00c5"),
        ('"\u212b"', "\u00c5"),
        ('"it\'s"', "it's"),
    ],
)
def test_strings_know_two_escapes_and_are_normalised(written: str, meant: str) -> None:
    assert about(written) == meant


@pytest.mark.parametrize("text", ['RECALL ABOUT "abc', 'RECALL ABOUT "abc\\"', 'RECALL ABOUT "a" LIKE "\n\n'])
def test_a_string_must_be_closed(text: str) -> None:
    assert code_of(text) in ("CAL-E005", "CAL-E060")
    assert code_of('RECALL ABOUT "') == "CAL-E005"


@pytest.mark.requirement("CAL-2-numbers")
def test_numbers_are_plain_decimals() -> None:
    assert [asked(text) for text in ("5", "-2", "0.50", "-0", "007", "1.0")] == [5, -2, 0.5, 0, 7, 1]
    assert type(asked("1.0")) is int
    assert asked("9223372036854775807") == 2**63 - 1
    assert type(asked("9223372036854775808")) is float


@pytest.mark.parametrize("text", ["1.", ".5", "1e5", "+1", "12ab", "1.2.3", "-.5", "1_0", "9" * 400, "٣", "1é"])
def test_anything_else_that_starts_like_a_number_is_none(text: str) -> None:
    assert code_of(f"RECALL WHERE hc:x = {text}") == "CAL-E006"


@pytest.mark.requirement("CAL-2-hashes")
def test_hashes_have_8_to_64_digits_in_either_case() -> None:
    assert asked("SHA256:ABCDEF12") == Hash(text="sha256:abcdef12")
    for good in ("a" * 8, "0" * 64):
        assert code_of(f"EXISTS sha256:{good}") is None
    for bad in ("", "a" * 7, "a" * 65, "abcdefgh", "target_hash", "abcdef12é"):
        assert code_of(f"EXISTS sha256:{bad}") == "CAL-E015"
    assert code_of('EXISTS "sha256:aaaaaaaa"') == "CAL-E015"
    assert code_of("EXISTS alice") == "CAL-E002"


@pytest.mark.parametrize(
    "text", ["RECALL b\u0435liefs", "R\u0415CALL", "RECALL beliefs\u0430", "RECALL #", "RECALL ?", "_x", "$", "$1"]
)
def test_characters_outside_the_language_are_refused_and_placed(text: str) -> None:
    assert code_of(text) == "CAL-E002"


@pytest.mark.requirement("CAL-22-places")
def test_lines_and_columns_are_counted_in_characters() -> None:
    assert place_of('RECALL ABOUT "é漢"\r\n  FOO') == ("CAL-E002", 2, 3)
    assert place_of("RECALL beliefs\n\n\tWHERE subject") == ("CAL-E002", 3, 15)
    with pytest.raises(QueryError) as raised:
        parse('RECALL ABOUT "é漢" FOO')
    assert (raised.value.start, raised.value.end) == (18, 21)
    assert (raised.value.line, raised.value.column) == (1, 19)


def test_the_place_is_right_after_labels_and_templates() -> None:
    text = "BATCH { a:RECALL beliefs, b:RECALL goals FOO }"
    assert place_of(text) == ("CAL-E002", 1, text.index("FOO") + 1)
    text = 'ASSEMBLE c FROM a:(RECALL) FORMAT TEMPLATE { ELEMENT { " { x } } } BUDGET 1 token'
    assert place_of(text) == ("CAL-E002", 1, text.index("token") + 1)


@pytest.mark.requirement("CAL-2-version")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CAL/1 RECALL", None),
        ("cal / 1 RECALL", None),
        ("CAL/2 RECALL", "CAL-E100"),
        ("CAL/0 RECALL", "CAL-E100"),
        ("CAL/1.0 RECALL", "CAL-E100"),
        ("CAL/01 RECALL", "CAL-E100"),
        ("CAL RECALL", "CAL-E002"),
        ("CAL/ RECALL", "CAL-E002"),
        ("CAL/x RECALL", "CAL-E002"),
        ("CAL/1", "CAL-E002"),
        ("CAL/1 CAL/1 RECALL", "CAL-E002"),
    ],
)
def test_only_version_1_is_spoken(text: str, code: str | None) -> None:
    assert code_of(text) == code
