"""Several records in one Markdown file, read back exactly."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.bindings.files import markdown_book
from memoranda.errors import InvalidInput, TooLarge
from memoranda.standards.ump import markdown

# Texts made of what could be taken for the format itself, between ordinary characters.
PIECES = st.sampled_from(
    [
        markdown_book.MARK,
        "<!-- memoranda:\\memory -->",
        "<!-- memoranda:\\\\memory -->",
        "---",
        "\n",
        "\r\n",
        "\r",
        " ",
        "\t",
        "\ufeff",
        "\u2028",
        "{}",
        "word",
    ]
)
CHARACTERS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
TEXTS = st.lists(PIECES | CHARACTERS, min_size=1, max_size=8).map("".join)


def record_of(text: str, **fields: Any) -> Any:
    return {"ump": "0.1", "id": "urn:ump:aa", "kind": "semantic", "body": {"text": text}, "scope": {}, **fields}


def read(data: bytes) -> list[Any]:
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return [found for _, found in markdown_book.parse(line for line in lines if line)]


@settings(max_examples=200)
@given(st.lists(TEXTS, max_size=4))
def test_a_book_round_trips_whatever_the_texts_look_like(texts: list[str]) -> None:
    records = [record_of(text) for text in texts]
    assert read("".join(markdown_book.render(records)).encode()) == records


@settings(max_examples=100)
@given(st.lists(TEXTS.filter(lambda text: "\r" not in text), min_size=2, max_size=3))
def test_a_book_survives_a_checkout_with_other_line_ends(texts: list[str]) -> None:
    records = [record_of(text) for text in texts]
    data = "".join(markdown_book.render(records)).encode().replace(b"\n", b"\r\n")
    assert read(data) == records


def test_a_book_of_one_record_is_exactly_the_standard_form() -> None:
    record = record_of(f"first\n{markdown_book.MARK}\nlast")
    assert "".join(markdown_book.render([record])) == markdown.render(record)
    assert read(markdown.render(record).encode()) == [record]


def test_a_book_of_nothing_is_empty_and_so_is_what_it_holds() -> None:
    assert "".join(markdown_book.render([])) == ""
    assert read(b"") == []


def test_a_byte_order_mark_before_the_first_mark_is_passed_over() -> None:
    records = [record_of("one"), record_of("two")]
    assert read(b"\xef\xbb\xbf" + "".join(markdown_book.render(records)).encode()) == records


def test_a_bad_record_in_a_book_does_not_hide_the_others() -> None:
    good = record_of("good")
    field_index = markdown.render(good)
    book = f"{markdown_book.MARK}\nno front matter\n{markdown_book.MARK}\n{field_index}".encode()
    bad, read_back = read(book)
    assert isinstance(bad, InvalidInput)
    assert read_back == good
    assert [number for number, _ in markdown_book.parse(book.splitlines(keepends=True))] == [2, 4]


def test_a_record_that_is_too_long_is_refused_and_the_next_one_read() -> None:
    good = record_of("good")
    filler = b"x" * 1_000_000 + b"\n"
    mark = markdown_book.MARK.encode() + b"\n"
    lines = [mark, b"---\n", *[filler] * 3, mark, *markdown.render(good).encode().splitlines(keepends=True)]
    found = [each for _, each in markdown_book.parse(lines)]
    assert isinstance(found[0], TooLarge)
    assert found[1] == good


def test_bytes_that_are_not_utf_8_are_placed() -> None:
    ((_, error),) = markdown_book.parse([b"---\n", b"{}\n", b"---\n", b"\xff\n"])
    assert isinstance(error, InvalidInput)
    assert "line 4" in error.message
