"""A plain file as a store."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.oams.strategies import memories, memory

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemoryNotFound, NamespaceNotFound, StoreCorrupt
from memoranda.standards.oams.jsonl_store import JsonlStore
from memoranda.standards.oams.memory import to_response
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.standards.oams.requests import ListRequest, RecallRequest

PERSONAL = parse_namespace("user-x123ab:personal")


def store(*values: Any, end: bytes = b"\n") -> JsonlStore:
    return JsonlStore(io.BytesIO(b"".join(json_text.dump(value) + end for value in values)))


def keys(found: list[Any]) -> list[str]:
    return [each["key"] for each in found]


THREE = (
    memory(key="a", tags=["Tea"], updated_at="2026-01-01T00:00:00Z"),
    memory(key="b", tags=["tea", "x"], updated_at="2026-03-01T00:00:00Z"),
    memory(key="c", namespace="org-acme:legal", updated_at="2026-02-01T00:00:00Z"),
)


@pytest.mark.requirement("OAMS-1-file-as-store")
@given(st.lists(memories(), max_size=5, unique_by=lambda value: (value["namespace"], value["key"])))
def test_every_memory_of_a_file_can_be_had(values: list[Any]) -> None:
    opened = store(*values, end=b"\r\n")
    assert opened.count == len(values)
    for value in values:
        assert opened.get(parse_namespace(value["namespace"]), value["key"]) == to_response(value)


@pytest.mark.requirement("OAMS-1-file-as-store")
def test_a_file_is_listed_newest_first_in_pages() -> None:
    opened = store(*THREE)
    assert opened.namespaces == ["org-acme:legal", "user-x123ab:personal"]
    first = opened.list_page(ListRequest(namespace=PERSONAL, requested_limit=1))
    assert keys(first.memories) == ["b"]
    assert first.next_cursor is not None
    second = opened.list_page(ListRequest(namespace=PERSONAL, requested_limit=1, cursor=first.next_cursor))
    assert (keys(second.memories), second.next_cursor) == (["a"], None)
    assert second.memories[0]["tags"] == ["tea"]


def test_a_file_is_filtered_by_tags_and_times() -> None:
    opened = store(*THREE)
    listed = ListRequest.parse({"namespace": str(PERSONAL), "tags": ["TEA"], "since": "2026-02-01T00:00:00Z"})
    assert keys(opened.list_page(listed).memories) == ["b"]
    everything = RecallRequest(query="tea")
    assert sorted(keys(list(opened.find_candidates(everything)))) == ["a", "b", "c"]
    some = RecallRequest.parse({"query": "tea", "namespaces": [str(PERSONAL), "a:b"], "until": "2026-03-01T00:00:00Z"})
    assert keys(list(opened.find_candidates(some))) == ["a"]


def test_the_last_line_of_a_key_counts() -> None:
    opened = store(memory(value="old"), memory(value="new"))
    assert opened.count == 1
    assert opened.get(PERSONAL, "01HX")["value"] == "new"


def test_bad_lines_are_told_and_left_out() -> None:
    opened = JsonlStore(io.BytesIO(b"{}\n" * 300 + json_text.dump(memory()) + b"\n"))
    assert (opened.count, opened.refused, len(opened.problems)) == (1, 300, 100)


def test_what_is_not_there_is_not_found() -> None:
    opened = store(*THREE)
    with pytest.raises(NamespaceNotFound):
        opened.get(parse_namespace("a:b"), "a")
    with pytest.raises(MemoryNotFound):
        opened.get(PERSONAL, "c")
    with pytest.raises(InvalidInput, match="cursor"):
        opened.list_page(ListRequest(namespace=PERSONAL, cursor="x"))


def test_a_file_that_changes_under_the_reader_is_noticed() -> None:
    file = io.BytesIO(json_text.dump(memory()) + b"\n")
    opened = JsonlStore(file)
    file.seek(0)
    file.write(b"x")
    with pytest.raises(StoreCorrupt, match="line 1"):
        opened.get(PERSONAL, "01HX")
