"""JSONL: reading it from anybody, sorting it with little memory."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.standards.oams.strategies import memories, memory

from memoranda.encoding import json_text
from memoranda.model.instant import parse_instant
from memoranda.standards.oams import lines
from memoranda.standards.oams.lines import Line, Packed, Sorter, sort_key_of


def read(data: bytes) -> list[Line]:
    return list(lines.read_lines(io.BytesIO(data)))


def line(**fields: Any) -> bytes:
    return json_text.dump(memory(**fields)) + b"\n"


@pytest.mark.requirement("OAMS-7-jsonl")
@given(st.lists(memories(), max_size=4))
def test_every_memory_comes_back_from_its_line(values: list[dict[str, Any]]) -> None:
    data = b"".join(json_text.dump(value) + b"\n" for value in values)
    found = read(data)
    assert [each.memory for each in found] == values
    assert b"".join(each.raw + b"\n" for each in found) == data
    assert all(each.is_verbatim and each.error is None for each in found)
    assert [data[each.offset : each.offset + len(each.raw)] for each in found] == [each.raw for each in found]


def test_a_line_keeps_the_spelling_of_its_writer() -> None:
    raw = json.dumps(memory(value="é"), indent=None, separators=(", ", " : ")).encode()
    assert read(raw + b"\n")[0].raw == raw


def test_line_ends_of_windows_and_a_byte_order_mark_are_read_with_a_warning() -> None:
    found = read(b"\xef\xbb\xbf" + line()[:-1] + b"\r\n\r\n" + line(key="b"))
    assert [each.memory for each in found] == [memory(), memory(key="b")]
    assert [each.number for each in found] == [1, 3]
    assert len(found[0].warnings) == 2
    assert found[0].raw == line()[:-1]
    assert found[1].warnings == ()


def test_a_last_line_without_its_end_is_read_if_it_is_whole() -> None:
    assert read(line()[:-1])[0].warnings == ("the line has no line feed at its end",)
    error = read(line() + line()[:-20])[1].error
    assert error is not None
    assert "line 2" in error.message
    assert "cut off" in error.message


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"{\n", "not JSON"),
        (b"\xff\xfe\n", "not UTF-8"),
        (b"[]\n", "must be an object"),
        (b'{"key":"a","key":"b"}\n', "duplicate key"),
        (b'{"key":"a"}\n', "is required"),
        (b'{"value":NaN}\n', "NaN"),
        (b"[" * 100_000 + b"\n", "nested"),
        (line(value=None), "value is required"),
        (b'"' + b"x" * lines.MAX_LINE_BYTES + b'"\n', "at most 8388608 bytes"),
    ],
    ids=range(9),
)
def test_a_bad_line_is_named_and_the_others_are_read(bad: bytes, reason: str) -> None:
    found = read(line() + bad + line(key="b"))
    assert [each.number for each in found] == [1, 2, 3]
    error = found[1].error
    assert error is not None
    assert error.message.startswith("line 2: ")
    assert reason in error.message
    assert found[2].memory == memory(key="b")
    assert found[2].offset == len(line() + bad)


def test_a_score_in_a_file_is_taken_out_and_the_line_is_not_verbatim() -> None:
    found = read(line(metadata={"score": 0.5, "x": 1}))[0]
    assert found.memory == memory(metadata={"x": 1})
    assert not found.is_verbatim


def test_a_value_of_a_mebibyte_written_in_escapes_is_one_line() -> None:
    value = memory(value="\u00e9" * 500_000)
    found = read(json.dumps(value).encode() + b"\n")
    assert found[0].memory == value


# --- sorting -----------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-7-sorted")
@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=300)), max_size=60), st.integers(1, 5000))
def test_runs_on_disk_come_out_as_if_sorted_in_memory(items: list[tuple[int, bytes]], run_bytes: int) -> None:
    scratch = io.BytesIO()
    sorter = Sorter(scratch, run_bytes=run_bytes)
    packed = [
        Packed(sort_key_of(memory(created_at=f"2026-01-0{day + 1}T00:00:00Z"), number), data, data[:8])
        for number, (day, data) in enumerate(items)
    ]
    for each in packed:
        sorter.add(each)
    assert list(sorter.merge()) == sorted(packed, key=lambda each: each.order)


@given(st.lists(memories(), max_size=6))
def test_the_order_is_that_of_time_and_then_of_arrival(values: list[dict[str, Any]]) -> None:
    ordered = sorted(enumerate(values), key=lambda item: sort_key_of(item[1], item[0]))
    moments = [parse_instant(value["created_at"]) for _, value in ordered]
    assert moments == sorted(moments)


@pytest.mark.requirement("OAMS-7-sorted")
def test_times_within_a_millisecond_and_before_1970_are_in_order() -> None:
    times = [
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999Z",
        "1970-01-01T00:00:00Z",
        "2026-04-27T12:00:00.0000001Z",
        "2026-04-27T12:00:00.0000002+00:00",
        "2026-04-27T12:00:00.000999999Z",
        "2026-04-27T12:00:00.001Z",
        "9999-12-31T23:59:59.999999999Z",
    ]
    keys = [sort_key_of(memory(created_at=text), 99 - index) for index, text in enumerate(times)]
    assert keys == sorted(keys)


def test_lines_larger_than_what_is_read_ahead_are_merged_whole() -> None:
    sorter = Sorter(io.BytesIO(), run_bytes=1)
    big = [Packed(sort_key_of(memory(), number), bytes([number]) * 300_000) for number in (2, 1, 3)]
    for each in big:
        sorter.add(each)
    assert [each.line[0] for each in sorter.merge()] == [1, 2, 3]
