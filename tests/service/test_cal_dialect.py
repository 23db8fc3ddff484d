"""Queries as areev publishes them, on a store with its dialect switched on, and refused on one without."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda import Memoranda
from memoranda.errors import QueryError

ADD = 'ADD fact SET subject = "john" SET relation = "likes" SET object = "rust" SET namespace = "caller" REASON "t"'
LOG = (
    'ADD observation SET observer_id = "executor" SET observer_type = "llm" SET content = "attempt 1 failed"'
    ' SET namespace = "caller" REASON "log"'
)


@pytest.mark.requirement("CAL-OURS-dialect")
def test_published_queries_of_areev_run_with_the_setting_and_not_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memoranda.open(tmp_path / "plain.db") as plain:
        for query in (ADD, LOG, "RECALL facts"):
            with pytest.raises(QueryError):
                plain.cal(query, namespace="caller", approve=True)
    monkeypatch.setenv("MEMORANDA_CAL_DIALECT", "areev")
    with Memoranda.open(tmp_path / "areev.db") as m:
        for query in (ADD, LOG):
            m.cal(query, namespace="caller", approve=True)
        (fact,) = m.cal('RECALL facts WHERE subject = "john"', namespace="caller")["results"]
        assert fact["grain"]["object"] == "rust"
        (seen,) = m.cal('RECALL observations WHERE observer_id = "executor" RECENT 10', namespace="caller")["results"]
        assert seen["grain"]["object"] == "attempt 1 failed"
        count = m.cal('RECALL facts WHERE subject = "john" | COUNT', namespace="caller")
        assert count["count"] == 1
        with pytest.raises(QueryError):
            m.cal(ADD, namespace="elsewhere", approve=True)
