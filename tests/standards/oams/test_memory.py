"""A memory: what it must have, what it may have, its times, and how answers show it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.standards.oams.strategies import INSTANTS, JSON, TEXTS, memories, memory

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MalformedJson, TooLarge
from memoranda.model.instant import format_instant, parse_instant
from memoranda.standards.oams.memory import (
    MAX_DIMENSIONS,
    MAX_TAGS,
    MAX_VALUE_BYTES,
    STRATEGIES,
    assign_times,
    check,
    is_strategy,
    lower_tags,
    same_content,
    to_response,
)

REQUIRED = ("key", "namespace", "value", "created_at", "updated_at")


@pytest.mark.requirement("OAMS-2-required")
@pytest.mark.parametrize("name", REQUIRED)
def test_a_complete_memory_has_the_five_required_fields(name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^{name} is required$"):
        check(memory(**{name: None}), complete=True)


@pytest.mark.requirement("OAMS-2-required")
def test_a_memory_with_the_five_required_fields_is_valid() -> None:
    assert check(memory(), complete=True) == (memory(), ())


def test_a_draft_needs_no_times() -> None:
    draft = memory(created_at=None, updated_at=None)
    assert check(draft, complete=False) == (draft, ())


@given(memories())
def test_every_valid_memory_is_kept_as_it_is(value: Any) -> None:
    copy = json.loads(json.dumps(value))
    checked, _ = check(value, complete=True)
    assert checked is value
    assert checked == copy


@pytest.mark.requirement("OAMS-2-key", "OAMS-2-value", "OAMS-2-metadata-reserved", "OAMS-2-timestamps")
@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"key": ""}, "key must be"),
        ({"key": 7}, "key must be"),
        ({"key": "x" * 1025}, "1 to 1024"),
        ({"key": "a\nb"}, "no control character"),
        ({"key": "\ud800"}, "no lone surrogate"),
        ({"namespace": "user:a:b"}, "namespace must have no colon"),
        ({"value": 7}, "value must be a string"),
        ({"value": b"x"}, "value must be a string"),
        ({"value": "\udfff"}, "lone surrogate"),
        ({"tags": "x"}, "tags must be an array"),
        ({"tags": [1]}, r"tags\[0\] must be"),
        ({"tags": ["x"] * (MAX_TAGS + 1)}, "at most 256"),
        ({"tags": ["x" * 257]}, "at most 256"),
        ({"metadata": []}, "metadata must be an object"),
        ({"metadata": {"confidence": 1.01}}, "metadata.confidence must be a number from 0 to 1"),
        ({"metadata": {"confidence": True}}, "metadata.confidence must be"),
        ({"metadata": {"confidence": "0.5"}}, "metadata.confidence must be"),
        ({"metadata": {"pii": "yes"}}, "metadata.pii must be true or false"),
        ({"metadata": {"pii": 1}}, "metadata.pii must be"),
        ({"metadata": {"value_type": 7}}, "metadata.value_type must be a string"),
        ({"metadata": {"language": []}}, "metadata.language must be a string"),
        ({"metadata": {"decay_score": "slow"}}, "metadata.decay_score must be a number"),
        ({"metadata": {"last_used_at": "yesterday"}}, "metadata.last_used_at must be"),
        ({"metadata": {"x": math.nan}}, "finite numbers only"),
        ({"created_at": "2026-04-27"}, "created_at must be an RFC 3339 time"),
        ({"created_at": "2026-04-27T12:00:00"}, "created_at must be an RFC 3339 time"),
        ({"created_at": "2026-04-27T12:00:00+02:00"}, "created_at must be in UTC"),
        ({"updated_at": "2026-02-30T12:00:00Z"}, "updated_at must be"),
        ({"updated_at": 1777291200}, "updated_at must be"),
        ({"updated_at": "9" * 1000}, "updated_at must be"),
        ({"embedding": [0.1]}, "embedding_model is required"),
        ({"embedding_model": ""}, "embedding_model must be"),
        ({"embedding_model": 3}, "embedding_model must be"),
        ({"parent_id": 7}, "parent_id must be null or a string"),
        ({"source_id": ["x"]}, "source_id must be null or a string"),
        ({"source_id": "\ud800"}, "cannot be written as JSON"),
    ],
)
def test_what_is_wrong_is_refused_by_name(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        check(memory(**fields), complete=True)


@pytest.mark.parametrize("value", [None, [], "x", 7, True])
def test_what_is_no_object_is_no_memory(value: object) -> None:
    with pytest.raises(InvalidInput, match="a memory must be an object"):
        check(value, complete=True)


@pytest.mark.requirement("OAMS-2-timestamps")
@pytest.mark.parametrize(
    "text", ["2026-04-27T12:00:00Z", "2026-04-27T12:00:00.123456789+00:00", "2026-04-27T12:00:00z"]
)
def test_times_in_utc_are_accepted_as_they_are_written(text: str) -> None:
    checked, _ = check(memory(created_at=text, updated_at=text), complete=True)
    assert checked["created_at"] == text


@pytest.mark.requirement("OAMS-2-embedding-model")
@pytest.mark.parametrize(
    "vector",
    [[], [True], ["1"], [None], [1e39], [-1e39], [10**400], [math.inf], [math.nan], [0.5] * (MAX_DIMENSIONS + 1), "x"],
)
def test_an_embedding_is_an_array_of_numbers_that_fit_float32(vector: object) -> None:
    with pytest.raises(InvalidInput, match=r"^embedding"):
        check(memory(embedding=vector, embedding_model="m"), complete=True)


@pytest.mark.requirement("OAMS-2-embedding-absent")
def test_a_memory_without_an_embedding_or_with_the_longest_is_fine() -> None:
    assert check(memory(embedding_model="m"), complete=True)[1] == ()
    check(
        memory(embedding=[0.0123, -1, 3.4028234663852886e38] + [0.1] * (MAX_DIMENSIONS - 3), embedding_model="m"),
        complete=True,
    )


@pytest.mark.requirement("OAMS-2-value")
def test_a_value_may_be_empty_or_have_a_mebibyte() -> None:
    check(memory(value=""), complete=True)
    check(memory(value="x" * MAX_VALUE_BYTES), complete=True)
    check(memory(value="é" * (MAX_VALUE_BYTES // 2)), complete=True)
    with pytest.raises(TooLarge, match="value has"):
        check(memory(value="é" * (MAX_VALUE_BYTES // 2) + "x"), complete=True)


def test_a_memory_is_bounded_as_a_whole() -> None:
    with pytest.raises(TooLarge, match="over the limit"):
        check(memory(metadata={"x": "y" * 2_200_000}), complete=True)


@pytest.mark.requirement("OAMS-8-unknown-fields")
def test_unknown_fields_are_kept_with_a_warning() -> None:
    value = memory(mood="sunny")
    checked, warnings = check(value, complete=True)
    assert checked == value
    assert warnings == ("the field 'mood' is not in OAMS 0.1; it is stored unchanged",)


@pytest.mark.requirement("OAMS-6-vendor-strategies", "OAMS-8-unknown-enum-values")
def test_an_unknown_strategy_is_kept_with_a_warning_and_a_vendors_without() -> None:
    value = memory(parent_id="p", metadata={"dream_strategy": "hallucinate"})
    checked, warnings = check(value, complete=True)
    assert checked == value
    assert "hallucinate" in warnings[0]
    for known in (*STRATEGIES, "vendor:own"):
        assert check(memory(parent_id="p", metadata={"dream_strategy": known}), complete=True)[1] == ()
    assert not is_strategy("vendor:")
    assert not is_strategy(7)


@pytest.mark.requirement("OAMS-6-strategies")
def test_there_are_nine_strategies() -> None:
    assert len(STRATEGIES) == 9


@pytest.mark.requirement("OAMS-6-dream-fields")
@pytest.mark.parametrize(
    ("metadata", "warning"),
    [
        ({"dream_strategy": "compress"}, "should have a parent_id"),
        ({"dream_inputs": "x"}, "dream_inputs should be"),
        ({"dream_inputs": [["only-one"]]}, "dream_inputs should be"),
        ({"dream_run_id": "run-1"}, "dream_run_id should be a UUID"),
    ],
)
def test_odd_consolidations_are_taken_with_a_warning(metadata: dict[str, Any], warning: str) -> None:
    _, warnings = check(memory(metadata=metadata), complete=True)
    assert [warning in each for each in warnings] == [True]


def test_an_update_before_the_creation_is_odd_but_no_error() -> None:
    _, warnings = check(memory(updated_at="2020-01-01T00:00:00Z"), complete=True)
    assert warnings == ("updated_at is before created_at",)


def test_null_is_as_good_as_nothing_where_a_client_writes_all_its_fields() -> None:
    value = {**memory(), "tags": None, "metadata": None, "embedding": None, "embedding_model": None, "parent_id": None}
    checked, warnings = check(value, complete=True)
    assert checked == value
    assert len(warnings) == 4
    assert to_response(checked) == value


@pytest.mark.requirement("OAMS-5-source-kept")
@pytest.mark.parametrize(
    "source",
    [
        "https://example.com/article",
        "HTTPS://EXAMPLE.com/%7e",
        "sha256:abc123",
        "imap:msgid:<x@y>",
        "slack:CH123:1700000000.123456",
        "transcript:call:12",
        "dream:compress:run",
        "no scheme at all \u202e",
        "",
    ],
)
def test_a_source_of_any_form_is_kept_as_it_is(source: str) -> None:
    checked, warnings = check(memory(source_id=source), complete=True)
    assert (checked["source_id"], warnings) == (source, ())


def test_a_key_that_is_there_twice_is_no_json() -> None:
    with pytest.raises(MalformedJson, match="duplicate key"):
        json_text.parse(b'{"key":"a","key":"b"}')


@given(JSON)
def test_no_json_value_does_more_than_be_refused(value: Any) -> None:
    for given_value in (value, memory(metadata=value), memory(tags=value), {**memory(), "embedding": value}):
        try:
            check(given_value, complete=True)
        except InvalidInput as error:
            assert error.message  # noqa: PT017


# --- tags and answers --------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-2-tags-lowercase")
def test_tags_are_shown_in_lower_case_with_their_spelling_beside_them() -> None:
    value = memory(tags=["Research", "memory", "MEMORY"])
    assert to_response(value)["tags"] == ["research", "memory"]
    assert to_response(value)["metadata"] == {"memoranda:tags": ["Research", "memory", "MEMORY"]}
    assert value == memory(tags=["Research", "memory", "MEMORY"])
    plain = memory(tags=["research"])
    assert to_response(plain) is plain


@given(st.lists(TEXTS))
def test_lowering_twice_is_lowering_once(tags: list[str]) -> None:
    assert lower_tags(lower_tags(tags)) == lower_tags(tags)


@pytest.mark.requirement("OAMS-3-score")
@given(memories(), st.none() | st.floats(0, 1))
def test_storing_an_answer_again_stores_what_was_stored(value: Any, score: float | None) -> None:
    answered = to_response(value, score=score)
    if score is not None:
        assert answered["metadata"]["score"] == score
    again, _ = check(answered, complete=True)
    assert same_content(again, value)
    assert again.get("tags") == value.get("tags")
    assert "score" not in (again.get("metadata") or {})


# --- times -------------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-3-store-times")
@given(memories(complete=False), INSTANTS)
def test_a_first_version_has_both_times(value: Any, now: int) -> None:
    stored = assign_times(value, now, None)
    check(stored, complete=True)
    for name in ("created_at", "updated_at"):
        assert value.get(name) in (None, stored[name])
    if "updated_at" not in value:
        # Section 2: equal to created_at if never updated.
        assert stored["updated_at"] == stored["created_at"]
    assert same_content(stored, value)


@pytest.mark.requirement("OAMS-3-store-times")
def test_times_that_are_not_given_are_now() -> None:
    stored = assign_times(memory(created_at=None, updated_at=None), 1_777_291_200_000, None)
    assert stored["created_at"] == stored["updated_at"] == "2026-04-27T12:00:00.000Z"


@pytest.mark.requirement("OAMS-3-store-times")
@given(memories(complete=False), memories(), INSTANTS)
def test_a_further_version_keeps_its_creation_and_moves_its_update(value: Any, previous: Any, now: int) -> None:
    stored = assign_times(value, now, previous)
    assert stored["created_at"] == previous["created_at"]
    last, moved = parse_instant(previous["updated_at"]), parse_instant(stored["updated_at"])
    assert moved > last
    given_text = value.get("updated_at")
    if given_text is not None and parse_instant(given_text) > last:
        assert stored["updated_at"] == given_text
    elif now > last:
        assert stored["updated_at"] == format_instant(now)


# --- content -----------------------------------------------------------------------------------------


@given(memories(), INSTANTS)
def test_content_does_not_depend_on_time_order_or_score(value: Any, moment: int) -> None:
    other: Any = dict(reversed(value.items())) | {
        "created_at": format_instant(moment),
        "updated_at": format_instant(moment),
    }
    other["metadata"] = {**(value.get("metadata") or {}), "score": 0.5}
    assert same_content(value, other)


@settings(max_examples=50)
@given(memories(), st.sampled_from(["key", "namespace", "value", "tags", "metadata", "source_id", "x-vendor"]))
def test_content_depends_on_everything_else(value: Any, name: str) -> None:
    other: Any = {**value, name: {"changed": [value.get(name)]}}
    assert not same_content(value, other)


def test_content_knows_json_types_apart() -> None:
    assert not same_content(memory(metadata={"a": 1}), memory(metadata={"a": True}))
    assert not same_content(memory(metadata={"a": 2**63}), memory(metadata={"a": 2**63 + 1}))
    assert same_content(memory(metadata={"a": 1}), memory(metadata={"a": 1.0}))
    assert not same_content(memory(tags=["a", "b"]), memory(tags=["b", "a"]))


@pytest.mark.parametrize("name", ["memoranda:expire_at", "memoranda:Kind", "memoranda:", "memoranda:state"])
def test_a_name_of_ours_that_means_nothing_is_refused(name: str) -> None:
    given = {"key": "k", "namespace": "user-x123ab:personal", "value": "v"}
    with pytest.raises(InvalidInput, match="is not a known name"):
        check({**given, "metadata": {name: "2026-01-01T00:00:00Z"}}, complete=False)
    check({**given, "metadata": {"memorandum": 1, "memoranda": 2}}, complete=False)
