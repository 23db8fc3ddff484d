"""Which format a file has, and reading and writing it piece by piece."""

from __future__ import annotations

import io
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.bindings.files import formats
from memoranda.bindings.files.formats import Format
from memoranda.encoding.json_text import dump_pretty
from memoranda.errors import InvalidInput, MemorandaError, TooLarge
from memoranda.standards.ump.record import MAX_RECORD_BYTES, Record

FORMATS: tuple[Format, ...] = get_args(Format)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


def record_of(text: str) -> Any:
    return {"ump": "0.1", "id": "urn:ump:aa", "kind": "semantic", "body": {"text": text}, "scope": {}}


def written(records: list[Record], known: Format) -> bytes:
    file = io.BytesIO()
    formats.write_records(file, iter(records), known)
    return file.getvalue()


def read(data: bytes, known: Format | None = None) -> list[Any]:
    return [found for _, found in formats.read_records(io.BytesIO(data), known)]


@pytest.mark.parametrize("known", FORMATS)
@settings(max_examples=50)
@given(texts=st.lists(TEXTS, max_size=4))
@pytest.mark.requirement("UMP-4.3-json-files")
def test_every_format_round_trips_named_or_guessed(known: Format, texts: list[str]) -> None:
    records = [record_of(text) for text in texts]
    data = written(records, known)
    assert read(data, known) == records
    assert read(data) == records


def test_an_array_written_in_pieces_is_the_array_written_at_once() -> None:
    records = [record_of("one"), record_of("two\nlines"), record_of('"quoted"')]
    assert written(records, "json").decode() == dump_pretty(records) + "\n"
    assert written([], "json") == b"[]\n"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("notes.ump.md", "markdown"),
        ("NOTES.UMP.MD", "markdown"),
        ("a.ump.json", "json"),
        ("a.json", "json"),
        ("a.ump.ndjson", "ndjson"),
        ("a.jsonl", "ndjson"),
        ("a.txt", None),
        ("json", None),
    ],
)
def test_the_name_tells_the_format(name: str, known: Format | None) -> None:
    assert formats.format_by_name(name) == known


def test_a_name_that_tells_nothing_is_refused_with_what_would() -> None:
    with pytest.raises(InvalidInput, match=r"a\.txt: cannot tell the format"):
        formats.require_format("a.txt")


def test_one_indented_object_is_one_record() -> None:
    assert read(b'\xef\xbb\xbf{\n  "kind": "semantic"\n}\n') == [{"kind": "semantic"}]


def test_what_is_no_format_at_all_is_refused() -> None:
    with pytest.raises(InvalidInput, match="neither JSON nor Markdown"):
        read(b"hello\n")


def test_a_bad_line_is_placed_and_the_others_are_read() -> None:
    found = list(formats.read_records(io.BytesIO(b'{"a": 1}\n\n{"a": \n[1]\n{"b": 2}\n'), "ndjson"))
    assert [number for number, _ in found] == [1, 3, 4, 5]
    assert [isinstance(each, MemorandaError) for _, each in found] == [False, True, True, False]


def test_a_line_over_the_limit_is_refused_without_being_held() -> None:
    long = b'{"a": "' + b"x" * (3 * MAX_RECORD_BYTES) + b'"}\n'
    first, second = read(long + b'{"b": 2}\n', "ndjson")
    assert isinstance(first, TooLarge)
    assert second == {"b": 2}


def test_reading_lines_takes_no_more_of_the_file_than_asked_for() -> None:
    class Endless(io.RawIOBase):
        """A file that never ends."""

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            line = b'{"a": 1}\n'
            buffer[: len(line)] = line
            return len(line)

    with io.BufferedReader(Endless()) as file:
        records = formats.read_records(file, "ndjson")
        assert [next(records) for _ in range(3)] == [(1, {"a": 1}), (2, {"a": 1}), (3, {"a": 1})]


def test_an_array_that_is_cut_off_is_one_error() -> None:
    (error,) = read(b'[{"a": 1},', "json")
    assert isinstance(error, InvalidInput)
