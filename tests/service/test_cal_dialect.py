"""Queries as areev publishes them, on a store with its dialect switched on, and refused on one without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture
def areev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memoranda]:
    """A store with the dialect, and one memory."""
    monkeypatch.setenv("MEMORANDA_CAL_DIALECT", "areev")
    with Memoranda.open(tmp_path / "areev.db") as m:
        m.cal(ADD, namespace="caller", approve=True)
        yield m


def in_caller(m: Memoranda, query: str, **options: Any) -> dict[str, Any]:
    return m.cal(query, namespace="caller", **options)


@pytest.mark.requirement("CAL-OURS-dialect-formats")
def test_a_list_of_formats_answers_once_with_the_text_of_each(areev: Memoranda) -> None:
    query = 'RECALL facts WHERE subject = "john" FORMAT [json AS data, markdown AS readable, sml]'
    answer = in_caller(areev, query)
    assert (answer["total"], list(answer["formats"])) == (1, ["data", "readable", "sml"])
    assert "format" not in answer
    for name, format_name in (("data", "json"), ("readable", "markdown"), ("sml", "sml")):
        alone = in_caller(areev, f'RECALL facts WHERE subject = "john" FORMAT {format_name}')
        assert answer["formats"][name] == alone["formatted"]
    context = in_caller(areev, "ASSEMBLE FROM f: (RECALL facts) FORMAT [markdown, json AS raw]")
    assert list(context["formats"]) == ["markdown", "raw"]
    assert "rust" in context["formats"]["raw"]
    assert list(in_caller(areev, "RECALL facts FORMAT [json, json]")["formats"]) == ["json"]


@pytest.mark.requirement("CAL-OURS-dialect-formats")
@pytest.mark.parametrize(
    "formats",
    [
        "[]",
        "[json",
        "[json AS a, markdown AS a]",
        "[pdf]",
        "[json,]",
        "[,json]",
        "[json, markdown, yaml, text, sml, toon]",
    ],
)
def test_a_list_of_formats_that_cannot_be_is_refused(areev: Memoranda, formats: str) -> None:
    with pytest.raises(QueryError):
        in_caller(areev, f"RECALL facts FORMAT {formats}")


@pytest.mark.requirement("CAL-OURS-dialect-formats", "CAL-OURS-dialect-saved")
def test_without_the_setting_lists_and_saved_queries_are_refused(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path / "plain.db") as plain:
        for query in ("RECALL beliefs FORMAT [json AS a]", 'DEFINE QUERY "q" AS { RECALL beliefs }', 'RUN "q"'):
            with pytest.raises(QueryError):
                plain.cal(query)


@pytest.mark.requirement("CAL-OURS-dialect-saved")
def test_a_saved_query_runs_by_its_name_also_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_CAL_DIALECT", "areev")
    with Memoranda.open(tmp_path / "areev.db") as m:
        in_caller(m, ADD, approve=True)
        in_caller(m, 'DEFINE QUERY "john brief" DESCRIPTION "what we know" AS { RECALL facts WHERE subject = "john" }')
        about = 'DEFINE QUERY "about" ($who, $count = 5) AS { RECALL facts WHERE subject = $who LIMIT $count }'
        assert in_caller(m, about)["defined"] == "about"
    with Memoranda.open(tmp_path / "areev.db") as m:
        assert in_caller(m, 'RUN "john brief"')["total"] == 1
        assert in_caller(m, 'RUN "about"($who = "john")')["total"] == 1
        assert in_caller(m, 'RUN "about"($who: "amy", $count: 1)')["total"] == 0
        texts = in_caller(m, 'RUN "about"($who = "john") FORMAT [json AS a, markdown]')["formats"]
        assert ("rust" in texts["a"], "rust" in texts["markdown"]) == (True, True)
        described = in_caller(m, "DESCRIBE QUERIES")["description"]
        assert described == [
            {"name": "about", "description": "", "parameters": ["who", "count"]},
            {"name": "john brief", "description": "what we know", "parameters": []},
        ]
        prepared = m.cal.prepare('RUN "john brief"', namespace="caller")
        assert m.cal.execute(prepared["token"])["total"] == 1
        # Defined again it is replaced; elsewhere it does not exist; it can be removed, but by no query.
        in_caller(m, 'DEFINE QUERY "about" AS { RECALL facts | COUNT }')
        assert in_caller(m, 'RUN "about"')["count"] == 1
        with pytest.raises(QueryError, match="no saved query"):
            m.cal('RUN "about"', namespace="elsewhere")
        assert m.cal.remove_template("about", namespace="caller")
        for query in ('RUN "about"', 'DROP QUERY "john brief"'):
            with pytest.raises(QueryError):
                in_caller(m, query)


@pytest.mark.requirement("CAL-OURS-dialect-saved")
@pytest.mark.parametrize(
    "query",
    [
        'DEFINE QUERY "x" AS { ADD fact SET subject = "a" SET relation = "r" SET object = "o" REASON "t" }',
        'DEFINE QUERY "x" AS { DEFINE TEMPLATE t ELEMENT { x } }',
        'DEFINE QUERY "x" AS { RUN "y" }',
        'DEFINE QUERY "x" AS { FORGET fact "a" }',
        'DEFINE QUERY "x" AS { RECALL facts THIS IS GARBAGE }',
        'DEFINE QUERY "x" AS { RECALL facts } LIMIT 3',
        'DEFINE QUERY "x" AS RECALL facts',
        'DEFINE QUERY "x" ($a AS { RECALL facts }',
        'DEFINE QUERY "x" ($a = $b) AS { RECALL facts }',
        'DEFINE QUERY "../x" AS { RECALL facts }',
        "DEFINE QUERY x AS { RECALL facts }",
        'DEFINE QUERY "x"',
        "DEFINE QUERY",
        'RUN "nothing"',
        "RUN",
        'RUN "q"',
        'RUN "q"($who)',
        'RUN "q"($who = "john", $other = 1)',
        'RUN "q"($who = "john") | DROP',
        'RUN "q"($who = "john" ',
    ],
)
def test_a_saved_query_that_changes_anything_or_makes_no_sense_is_refused(areev: Memoranda, query: str) -> None:
    in_caller(areev, 'DEFINE QUERY "q" ($who) AS { RECALL facts WHERE subject = $who }')
    with pytest.raises(QueryError):
        in_caller(areev, query, approve=True)
    # A value never becomes query text.
    assert in_caller(areev, 'RUN "q"($who = "john\\" OR subject = \\"john")')["total"] == 0


@pytest.mark.requirement("CAL-OURS-dialect-saved")
def test_only_the_owner_saves_a_query_and_no_limit_of_a_token_is_widened(areev: Memoranda) -> None:
    in_caller(areev, 'DEFINE QUERY "q" AS { RECALL facts }')
    token = areev.cal.issue(namespace="caller", operations=("Recall",), grain_types=("event",))
    with pytest.raises(QueryError):
        in_caller(areev, 'RUN "q"', token=token)
    once = areev.cal.issue(namespace="caller", operations=("Recall",), uses=1)
    assert len(in_caller(areev, "RECALL facts FORMAT [json, text]", token=once)["formats"]) == 2
    with pytest.raises(QueryError):
        in_caller(areev, 'RUN "q"', token=once)
