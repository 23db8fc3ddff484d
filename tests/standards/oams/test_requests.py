"""The parameters of the five operations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from tests.standards.oams.strategies import JSON, memory

from memoranda.errors import InvalidInput, TooLarge
from memoranda.model.instant import Instant
from memoranda.standards.oams.namespace import Namespace
from memoranda.standards.oams.requests import (
    MAX_BATCH,
    MAX_K,
    MAX_LIMIT,
    BatchRequest,
    ForgetRequest,
    ListRequest,
    RecallRequest,
    StoreRequest,
)

PERSONAL = Namespace("user-x123ab", "personal")


@pytest.mark.requirement("OAMS-3-recall-parameters")
def test_a_recall_with_everything() -> None:
    request = RecallRequest.parse(
        {
            "namespace": "user-x123ab:personal",
            "query": "tea?",
            "k": 3.0,
            "tags": ["Tea", "tea"],
            "since": "2026-04-27T12:00:00Z",
            "until": "2026-04-27T14:00:00.001+02:00",
        }
    )
    assert (request.query, request.namespaces, request.k, request.tags) == ("tea?", (PERSONAL,), 3, ("tea",))
    assert (request.since, request.until) == (Instant(1777291200000), Instant(1777291200001))


@pytest.mark.requirement("OAMS-3-recall-parameters")
def test_a_recall_needs_a_query_alone_and_wants_eight() -> None:
    request = RecallRequest.parse({"query": "tea"})
    assert (request.k, request.namespaces, request.tags) == (8, (), ())
    assert RecallRequest.parse({"query": "tea", "k": 10_000}).k == MAX_K


@pytest.mark.requirement("OAMS-4-cross-namespace-opt-in")
def test_several_namespaces_are_asked_for_by_name() -> None:
    request = RecallRequest.parse(
        {"query": "x", "namespaces": ["user-x123ab:personal", "user-x123ab:p", "user-x123ab:personal"]}
    )
    assert request.namespaces == (PERSONAL, Namespace("user-x123ab", "p"))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"query": None}, "query must be a string"),
        ({"query": 7}, "query must be a string"),
        ({"query": "x" * 9000}, "query must be a string of at most"),
        ({"query": "é" * 5000}, "query must be at most"),
        ({"k": 0}, "k must be a whole number"),
        ({"k": -1}, "k must be a whole number"),
        ({"k": 1.5}, "k must be a whole number"),
        ({"k": "8"}, "k must be a whole number"),
        ({"k": True}, "k must be a whole number"),
        ({"namespace": "x:"}, "namespace must"),
        ({"namespace": ["a:b"]}, "namespace must"),
        ({"namespaces": []}, "namespaces must be an array"),
        ({"namespaces": "a:b"}, "namespaces must be an array"),
        ({"namespaces": ["a:b"] * 65}, "namespaces must be an array"),
        ({"namespaces": ["a:b"], "namespace": "a:b"}, "not both"),
        ({"tags": "x"}, "tags must be an array"),
        ({"tags": [7]}, r"tags\[0\]"),
        ({"since": "yesterday"}, "since must be"),
        ({"until": 7}, "until must be"),
        ({"untill": "2026-04-27T12:00:00Z"}, "unknown field 'untill'"),
    ],
)
def test_what_a_recall_must_not_say(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        RecallRequest.parse({"query": "x", **fields})


@pytest.mark.requirement("OAMS-3-list-parameters")
def test_a_list_reads_the_same_from_json_and_from_a_query_string() -> None:
    fields = {
        "namespace": "user-x123ab:personal",
        "cursor": "c",
        "limit": 7,
        "since": "2026-04-27T12:00:00Z",
        "tags": ["Tea", "a,b"],
    }
    pairs = [("cursor", "c"), ("limit", "7"), ("since", "2026-04-27T12:00:00Z"), ("tags", "Tea"), ("tags", '["a,b"]')]
    request = ListRequest.parse_query("user-x123ab:personal", pairs)
    assert request == ListRequest.parse(fields)
    assert request.tags == ("tea", "a,b")
    assert ListRequest.parse_query("a:b", [("tags", "x,y"), ("limit", "99999")]).tags == ("x", "y")
    assert ListRequest.parse_query("a:b", [("limit", "99999")]).limit == MAX_LIMIT


@pytest.mark.requirement("OAMS-3-list-parameters")
def test_an_empty_parameter_in_a_query_string_is_as_good_as_none() -> None:
    # Section 3 writes the address as ?cursor=&limit=&since=&tags=
    pairs = [("cursor", ""), ("limit", ""), ("since", ""), ("tags", "")]
    assert ListRequest.parse_query("a:b", pairs) == ListRequest.parse({"namespace": "a:b"})


@pytest.mark.parametrize(
    "pairs",
    [
        [("limit", "x")],
        [("limit", "-1")],
        [("limit", "0")],
        [("limit", "٣")],
        [("limit", "9" * 5000)],
        [("limit", "1"), ("limit", "2")],
        [("namespace", "c:d")],
        [("since", "2026-04-27T12:00:00 00:00")],
        [("colour", "red")],
        [("colour", "")],
        [("tags", "[1]")],
        [("tags", "[")],
        [("tags", '[{"a":1}]')],
        [("cursor", "c" * 2000)],
    ],
)
def test_a_query_string_that_makes_no_sense_is_refused(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidInput):
        ListRequest.parse_query("a:b", pairs)


@pytest.mark.requirement("OAMS-3-store-parameters")
def test_a_store_takes_namespace_and_key_from_the_path_or_from_the_body() -> None:
    whole = memory()
    bare = {name: member for name, member in whole.items() if name not in ("key", "namespace")}
    for body in (whole, bare):
        request = StoreRequest.parse_body("user-x123ab:personal", "01HX", body, if_match='"3"')
        assert (request.memory, request.if_match) == (whole, '"3"')
    assert StoreRequest.parse({"memory": whole}).memory is whole


@pytest.mark.parametrize(
    ("namespace", "key", "body", "complaint"),
    [
        ("a:b", "01HX", memory(), "namespace in the body differs"),
        ("user-x123ab:personal", "k", memory(), "key in the body differs"),
        ("user-x123ab:personal", "01HX", [], "must be an object"),
        ("ab:", "k", {"value": "x"}, "namespace must"),
        ("a:b", "k", {}, "value is required"),
        ("a:b", "k", {"value": "x", "key": None}, "key in the body differs"),
    ],
)
def test_a_store_that_contradicts_itself_is_refused(namespace: str, key: str, body: object, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        StoreRequest.parse_body(namespace, key, body)


@pytest.mark.requirement("OAMS-3-batch-parameters")
def test_a_batch_names_what_is_wrong_by_its_index() -> None:
    with pytest.raises(InvalidInput, match=r"^memories\[1\]: value is required$"):
        BatchRequest.parse({"memories": [memory(), memory(key="b", value=None)]})
    with pytest.raises(TooLarge, match=r"^memories\[0\]: value has"):
        BatchRequest.parse({"memories": [memory(value="x" * 1_100_000)]})
    with pytest.raises(InvalidInput, match=r"memories\[2\] has the namespace and key of memories\[0\]"):
        BatchRequest.parse({"memories": [memory(), memory(key="b"), memory()]})


@pytest.mark.requirement("OAMS-3-batch-parameters")
def test_a_batch_has_one_to_ten_thousand() -> None:
    many = [memory(key=str(number)) for number in range(MAX_BATCH)]
    assert len(BatchRequest.parse({"memories": many}).memories) == 10_000
    refused: tuple[object, ...] = ([], [*many, memory()], None, {}, "x")
    for wrong in refused:
        with pytest.raises(InvalidInput, match="memories"):
            BatchRequest.parse({"memories": wrong})


@pytest.mark.requirement("OAMS-3-forget-parameters")
def test_a_forget_names_one_memory() -> None:
    request = ForgetRequest.parse({"namespace": "user-x123ab:personal", "key": "a/b", "if_match": "*"})
    assert request == ForgetRequest(namespace=PERSONAL, key="a/b", if_match="*")
    for wrong in (
        {},
        {"namespace": "a:b"},
        {"key": "x"},
        {"namespace": "a:b", "key": ""},
        {"namespace": "a:b", "key": 7},
    ):
        with pytest.raises(InvalidInput):
            ForgetRequest.parse(wrong)


@given(JSON)
def test_no_json_value_does_more_than_be_refused(value: Any) -> None:
    for request in (RecallRequest, ListRequest, StoreRequest, BatchRequest, ForgetRequest):
        with pytest.raises(InvalidInput):
            request.parse(value)
