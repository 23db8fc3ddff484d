"""Each encoding reads exactly what it writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.encoding import bases

PAIRS = [
    (bases.base58_encode, bases.base58_decode),
    (bases.base64_encode, bases.base64_decode),
    (bases.base64url_encode, bases.base64url_decode),
]
DECODERS = [decode for _, decode in PAIRS]


@pytest.mark.parametrize(("encode", "decode"), PAIRS)
@given(data=st.binary(max_size=64))
def test_what_is_written_is_read_back(
    encode: Callable[[bytes], str], decode: Callable[[str], bytes], data: bytes
) -> None:
    assert decode(encode(data)) == data


@pytest.mark.parametrize(("encode", "decode"), PAIRS)
@given(text=st.text(max_size=40) | st.text(alphabet="ABCDabcd0123+/-_=", max_size=12))
def test_a_text_has_one_reading_or_none(
    encode: Callable[[bytes], str], decode: Callable[[str], bytes], text: str
) -> None:
    try:
        data = decode(text)
    except ValueError:
        return
    assert encode(data) == text


@pytest.mark.parametrize(
    ("decode", "text"),
    [
        (bases.base58_decode, "0OIl"),
        (bases.base58_decode, "2" * 257),
        (bases.base64_decode, "YQ"),
        (bases.base64_decode, "YQ==\n"),
        (bases.base64_decode, "YR=="),
        (bases.base64_decode, "é"),
        (bases.base64url_decode, "YQ=="),
        (bases.base64url_decode, "YR"),
        (bases.base64url_decode, "Y Q"),
        (bases.base64url_decode, "+/"),
        (bases.base64url_decode, "A"),
    ],
)
def test_other_spellings_are_refused(decode: Callable[[str], bytes], text: str) -> None:
    with pytest.raises(ValueError):
        decode(text)


def test_known_answers() -> None:
    # RFC 4648 section 10, and the Bitcoin alphabet's leading zeros.
    assert bases.base32_encode(b"foobar") == "mzxw6ytboi"
    assert bases.base64_encode(b"fooba") == "Zm9vYmE="
    assert bases.base64url_encode(b"\xfb\xff") == "-_8"
    assert bases.base58_encode(b"\0\0Hello World!") == "112NEpo7TZRRrLZSi2U"
