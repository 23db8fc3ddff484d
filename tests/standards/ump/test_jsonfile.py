"""*.ump.json in its three forms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.ump.published import JSON_OBJECTS, VECTORS, full_record

from memoranda.encoding.json_text import canonical, dump, dump_pretty
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.standards.ump import jsonfile

SMALL = {
    "ump": "0.1",
    "id": "urn:ump:aaaa",
    "kind": "procedural",
    "body": {"text": "x"},
    "scope": {"owner": "o", "visibility": "private"},
    "time": {"created": "2026-06-04T10:00:00Z"},
}


@pytest.mark.requirement("UMP-4.3-json-files")
def test_the_array_of_the_vector_is_read() -> None:
    assert jsonfile.parse_file(VECTORS["json_array"].encode()) == [SMALL]


@given(st.lists(JSON_OBJECTS, max_size=4))
def test_every_form_is_read_back(records: list[Any]) -> None:
    array = (dump_pretty(records) + "\n").encode()
    lines = b"".join(jsonfile.render_ndjson(records))
    assert canonical(jsonfile.parse_file(array)) == canonical(records)
    assert canonical(jsonfile.parse_file(lines)) == canonical(records)


def test_a_single_object_is_one_record() -> None:
    pretty = dump_pretty([full_record()]).strip()[1:-1].encode()
    assert jsonfile.parse_file(pretty) == [full_record()]
    assert jsonfile.parse_file(b"\xef\xbb\xbf" + dump(SMALL)) == [SMALL]


def test_blank_lines_and_carriage_returns_between_lines_do_not_matter() -> None:
    assert jsonfile.parse_file(dump(SMALL) + b"\r\n\r\n" + dump(SMALL) + b"\r\n") == [SMALL, SMALL]
    assert jsonfile.parse_file(b" \n") == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[{}, 5]", "record 2: "),
        (b'{"a":1}\n5\n', "line 2: "),
        (b'{"a":1}\n{"a":1,"a":2}\n', "line 2: .*duplicate"),
        (b'{"a":1\n{"b":2}\n', "line 1: "),
        (b"nonsense", "neither"),
        (b"[1", "line 1"),
        (b"\xff", "neither"),
    ],
)
def test_an_error_says_where(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        jsonfile.parse_file(data)


@given(st.binary(max_size=80) | st.text(alphabet='{}[]":,a1\n ', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        assert isinstance(jsonfile.parse_file(data), list)
    except MemorandaError:
        return
