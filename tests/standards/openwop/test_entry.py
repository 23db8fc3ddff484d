"""MemoryEntry, drafts, and the options of list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.openwop.strategies import ids, instants, tags, texts

from memoranda.errors import InvalidInput, TooLarge
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.standards.openwop.entry import (
    DEFAULT_LIMIT,
    MAX_CONTENT_BYTES,
    MAX_LIMIT,
    Draft,
    Entry,
    ListOptions,
    build_entry,
    check_entry,
    fit_budget,
)

NOW = parse_instant("2026-06-04T10:00:00.000Z")
COMPLETE: Entry = {
    "id": "tenant-a:mem-1",
    "content": "Prefers email.",
    "tags": ["preference", ""],
    "createdAt": "2026-06-04T12:00:00+02:00",
    "expiresAt": "2026-07-01T00:00:00Z",
}


@pytest.mark.requirement("WOP-1.1-entry")
def test_an_entry_is_kept_as_it_was_given() -> None:
    assert check_entry(COMPLETE) is COMPLETE
    assert check_entry({name: COMPLETE[name] for name in ("id", "content", "tags", "createdAt")})


@pytest.mark.requirement("WOP-1.1-entry")
@pytest.mark.parametrize("name", ["id", "content", "tags", "createdAt"])
def test_four_fields_are_required(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"entry.{name} is required"):
        check_entry({key: value for key, value in COMPLETE.items() if key != name})


@pytest.mark.requirement("WOP-1.1-closed")
def test_another_field_is_refused() -> None:
    with pytest.raises(InvalidInput, match="memoranda:native"):
        check_entry({**COMPLETE, "memoranda:native": {}})


@pytest.mark.requirement("WOP-1.1-entry")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("id", "x" * 1501),
        ("id", 7),
        ("id", "a\x00b"),
        ("id", "\ud800"),
        ("content", None),
        ("content", "\udfff"),
        ("tags", "preference"),
        ("tags", ["x" * 257]),
        ("tags", [1]),
        ("tags", ["x"] * 257),
        ("createdAt", "2026-06-04"),
        ("createdAt", "2026-06-04T10:00:00"),
        ("createdAt", "2026-13-04T10:00:00Z"),
        ("createdAt", 1780567200000),
        ("expiresAt", None),
        ("expiresAt", "soon"),
    ],
)
def test_a_field_that_breaks_the_schema_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"entry.{field}"):
        check_entry({**COMPLETE, field: value})


@pytest.mark.requirement("WOP-2-size")
def test_content_above_the_advertised_size_is_refused_and_below_it_is_not() -> None:
    assert check_entry({**COMPLETE, "content": "x" * MAX_CONTENT_BYTES})
    for content in ("x" * (MAX_CONTENT_BYTES + 1), "é" * (MAX_CONTENT_BYTES // 2 + 1)):
        with pytest.raises(TooLarge):
            check_entry({**COMPLETE, "content": content})


@pytest.mark.requirement("WOP-1.1-tags")
def test_empty_tags_are_tolerated_but_never_written() -> None:
    assert check_entry({**COMPLETE, "tags": ["", "a", ""]})["tags"] == ["", "a", ""]
    assert build_entry(id="m", content="", tags=["", "a", ""], created=NOW)["tags"] == ["a"]
    assert Draft.parse({"content": "x", "tags": ["", "a"]}).tags == ("a",)


@given(name=ids, content=texts, tag_list=tags, created=instants, expires=st.none() | instants)
def test_whatever_is_built_checks(
    name: str, content: str, tag_list: list[str], created: Instant, expires: Instant | None
) -> None:
    made = build_entry(id=name, content=content, tags=tag_list, created=created, expires=expires)
    assert check_entry(made) == made
    assert parse_instant(made["createdAt"]) == created
    assert ("expiresAt" in made) == (expires is not None)


# --- drafts ------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-2-put")
def test_a_host_sends_no_id_and_no_time() -> None:
    draft = Draft.parse({"content": "x", "tags": ["a"], "expiresAt": "2026-06-04T10:00:00.001Z"}, now=NOW)
    assert (draft.content, draft.tags, draft.expires) == ("x", ("a",), NOW + 1)
    for field in ("id", "createdAt"):
        with pytest.raises(InvalidInput, match=field):
            Draft.parse({"content": "x", field: COMPLETE[field]})


@pytest.mark.requirement("WOP-2-past-expiry")
def test_an_expiry_that_is_past_is_refused_on_the_public_path_only() -> None:
    past = {"content": "x", "expiresAt": format_instant(NOW)}
    with pytest.raises(InvalidInput, match="already past"):
        Draft.parse(past, now=NOW)
    assert Draft.parse(past).expires == NOW


# --- options -----------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-1.2-options")
def test_options_of_list_are_read() -> None:
    assert ListOptions.parse(None) == ListOptions.parse({}) == ListOptions()
    asked = {"limit": 7, "tag": "a", "tokenBudget": 100, "rank": "relevance", "query": "email"}
    expected = ListOptions(limit=7, tag="a", token_budget=100, rank="relevance", query="email")
    assert ListOptions.parse(asked) == expected
    assert ListOptions.parse_texts({name: str(value) for name, value in asked.items()}) == expected


@pytest.mark.requirement("WOP-1.2-limit")
@pytest.mark.parametrize(
    ("asked", "answered"), [(0, DEFAULT_LIMIT), (1, 1), (3.0, 3), (MAX_LIMIT, MAX_LIMIT), (10**9, MAX_LIMIT)]
)
def test_a_limit_of_zero_is_none_and_a_huge_one_is_bounded(asked: float, answered: int) -> None:
    assert ListOptions.parse({"limit": asked}).limit == answered


@pytest.mark.requirement("WOP-1.2-options")
@pytest.mark.parametrize(
    "value",
    [
        [],
        {"limit": -1},
        {"limit": "3"},
        {"limit": True},
        {"limit": 1.5},
        {"tag": ""},
        {"tag": "x" * 257},
        {"tag": None},
        {"tokenBudget": 0},
        {"rank": "best"},
        {"rank": "relevance"},
        {"query": "x" * 4097},
        {"query": ""},
        {"offset": 3},
    ],
)
def test_options_that_break_the_schema_are_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="options"):
        ListOptions.parse(value)


@pytest.mark.parametrize("text", ["-1", "1.5", "", "١", "9" * 400, "0x1"])
def test_numbers_of_a_query_string_are_whole_numbers(text: str) -> None:
    with pytest.raises(InvalidInput, match="limit must be an integer"):
        ListOptions.parse_texts({"limit": text})


@pytest.mark.requirement("WOP-1.2-budget")
@given(sizes=st.lists(st.integers(0, 30), max_size=12), budget=st.integers(1, 40))
def test_a_budget_takes_a_prefix_and_leaves_out_what_alone_is_too_large(sizes: list[int], budget: int) -> None:
    entries: list[Any] = [build_entry(id=str(n), content="x" * size, created=NOW) for n, size in enumerate(sizes)]
    kept = fit_budget(entries, budget, len)
    bearable = [each for each in entries if len(each["content"]) <= budget]
    assert kept == bearable[: len(kept)]
    assert sum(len(each["content"]) for each in kept) <= budget
    if len(kept) < len(bearable):
        assert sum(len(each["content"]) for each in bearable[: len(kept) + 1]) > budget
