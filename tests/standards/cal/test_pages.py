"""Cursors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import QueryError
from memoranda.standards.cal.language.canonical import query_hash
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.pages import decode_cursor, encode_cursor

HASH = query_hash(parse("RECALL beliefs LIMIT 5"))
SECOND = (
    "cursor:eyJoIjoic2hhMjU2OjYwN2RjMDUyMmQxODA3NTcyYzM2MjNlNWM3NThiZDQ4NzEyY2M4NzhkNjg5ZTE5NTE5NmZlMjc4YWQ3"
    "NTlmMjEiLCJvIjo1LCJ2IjoxfQ"
)


@pytest.mark.requirement("CAL-15-cursor")
def test_the_worked_cursor_is_ours() -> None:
    assert encode_cursor(HASH, 5) == SECOND
    assert decode_cursor(SECOND, HASH) == 5


@given(offset=st.integers(0, 2**63 - 1))
def test_a_cursor_reads_back(offset: int) -> None:
    assert decode_cursor(encode_cursor(HASH, offset), HASH) == offset


@pytest.mark.parametrize(
    "cursor",
    ["", "cursor:", "cursor:!", "cursor:e30", "cursor:W10", SECOND[:-1], SECOND + "=", SECOND.removeprefix("cursor:"),
     "cursor:" + "A" * 10_000, encode_cursor(query_hash(parse("RECALL")), 5), encode_cursor(HASH, -1), "cursor:é"],
)  # fmt: skip
def test_any_other_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(QueryError) as raised:
        decode_cursor(cursor, HASH)
    assert raised.value.cal_code == "CAL-E002"
