"""What HISTORY … DIFF says of two versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.standards.cal.history import BOOKKEEPING, find_differences

PAYLOADS = st.dictionaries(
    st.sampled_from(["subject", "object", "confidence", "structural_tags", "context", *BOOKKEEPING]),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.binary(max_size=4)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
        max_leaves=6,
    ),
)


@pytest.mark.requirement("CAL-8.4-diff")
def test_what_changed_is_listed_by_name_without_the_bookkeeping() -> None:
    before = {"subject": "alice", "object": "tea", "confidence": 0.8, "created_at": 1, "structural_tags": ["a"]}
    after = {"subject": "alice", "object": {"drink": "coffee"}, "confidence": 0.9, "created_at": 2,
             "timestamp_ms": 2, "derived_from": ["0" * 64], "supersession_justification": "she said so"}  # fmt: skip
    assert find_differences(before, after) == [
        {"field": "confidence", "from": 0.8, "to": 0.9},
        {"field": "object", "from": "tea", "to": {"drink": "coffee"}},
        {"field": "structural_tags", "from": ["a"], "to": None},
    ]


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), (0, False), ([1], [True]), ("1", 1)])
def test_values_that_python_holds_equal_and_a_payload_does_not_are_a_change(before: Any, after: Any) -> None:
    assert [each["field"] for each in find_differences({"x": before}, {"x": after})] == ["x"]


def test_bytes_are_shown_as_base64() -> None:
    assert find_differences({}, {"seal": b"\xff\x00"}) == [{"field": "seal", "from": None, "to": "/wA="}]


@given(before=PAYLOADS, after=PAYLOADS)
def test_a_difference_is_json_in_order_and_the_reverse_of_its_reverse(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    found = find_differences(before, after)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    names = [each["field"] for each in found]
    assert names == sorted(names)
    assert not BOOKKEEPING & set(names)
    assert find_differences(after, before) == [{"field": c["field"], "from": c["to"], "to": c["from"]} for c in found]
    assert find_differences(before, before) == []
