"""Workspace files: paths, versions, ETags."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import InvalidInput, WorkflowError
from memoranda.model.instant import Instant
from memoranda.standards.openwop.problem import problem_of
from memoranda.standards.openwop.workspace import (
    MAX_FILE_BYTES,
    WorkspaceDraft,
    WriteCondition,
    build_file,
    check_file,
    check_path,
    etag_of,
    is_path,
    is_prefix,
    next_version,
)


@pytest.mark.requirement("WOP-1.8-path")
@pytest.mark.parametrize("path", ["IDENTITY.md", "notes/2026/june.md", "a", "0", "x" * 256, "a..b/c.-_d"])
def test_a_path_is_a_flat_name_with_slashes(path: str) -> None:
    assert is_path(path)
    assert check_path(path) == path
    assert is_prefix(path[: len(path) // 2])


@pytest.mark.requirement("WOP-1.8-path")
@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../b", "a/..", "a/./b", "a//b", "a/", ".x", "a b", "a\\b", "é", "a\n", "x" * 257, 3],
)
def test_what_climbs_or_is_not_in_the_schema_is_no_path(path: object) -> None:
    assert not is_path(path)
    with pytest.raises(InvalidInput, match="path"):
        check_path(path)


@pytest.mark.requirement("WOP-1.8-file")
def test_a_file_has_the_shape_of_the_schema() -> None:
    made = build_file(path="a.md", content="x", version=3, updated=Instant(0))
    assert made == {
        "path": "a.md",
        "content": "x",
        "contentType": "text/markdown",
        "version": 3,
        "etag": '"v3"',
        "updatedAt": "1970-01-01T00:00:00.000Z",
    }
    for changes in ({"version": 0}, {"owner": "x"}, {"content": None}, {"updatedAt": ""}, {"etag": ""}):
        with pytest.raises(InvalidInput):
            check_file({**made, **changes})


@pytest.mark.requirement("WOP-1.8-put")
def test_a_put_says_content_and_type_and_nothing_else() -> None:
    assert WorkspaceDraft.parse({"content": ""}) == WorkspaceDraft(content="", content_type="text/markdown")
    assert WorkspaceDraft.parse({"content": "{}", "contentType": "application/json"}).content_type == "application/json"
    for wrong in ({}, None, {"content": 1}, {"content": "x", "version": 3}, {"content": "x", "contentType": "x\r\ny"}):
        with pytest.raises(InvalidInput):
            WorkspaceDraft.parse(wrong)


@pytest.mark.requirement("WOP-5-workspace-too-large")
def test_a_file_that_is_too_large_has_its_own_code() -> None:
    WorkspaceDraft.parse({"content": "x" * MAX_FILE_BYTES})
    with pytest.raises(WorkflowError) as refused:
        WorkspaceDraft.parse({"content": "é" * MAX_FILE_BYTES})
    status, problem = problem_of(refused.value)
    assert (status, problem["error"]) == (413, "workspace_too_large")
    with pytest.raises(InvalidInput, match="surrogate"):
        WorkspaceDraft.parse({"content": "\ud800"})


@pytest.mark.requirement("WOP-1.8-version")
@given(st.integers(1, 50), st.integers(0, 5))
def test_each_write_makes_the_next_version_also_after_a_deletion(current: int, gap: int) -> None:
    assert next_version(current, current + gap) == current + gap + 1
    assert next_version(None, current) == current + 1
    assert next_version(None, 0) == 1


@pytest.mark.requirement("WOP-5-workspace-conflict")
@pytest.mark.parametrize("header", ['"v3"', 'W/"v3"', '"3"', "3", '"v2", "v3"', "*"])
def test_a_write_that_expects_what_is_there_goes_through(header: str) -> None:
    assert next_version(3, 3, WriteCondition(if_match=header)) == 4


@pytest.mark.requirement("WOP-5-workspace-conflict")
@pytest.mark.parametrize("header", ['"v2"', "", "v", '"v33"', '"3', "x" * 5000, '"v3"garbage'])
def test_a_write_that_expects_something_else_is_a_conflict(header: str) -> None:
    with pytest.raises(WorkflowError) as refused:
        next_version(3, 3, WriteCondition(if_match=header))
    status, problem = problem_of(refused.value)
    assert (status, problem["error"], problem["details"]) == (409, "workspace_conflict", {"currentVersion": 3})


def test_a_write_may_expect_that_there_is_nothing_yet() -> None:
    assert next_version(None, 7, WriteCondition(if_none_match="*")) == 8
    with pytest.raises(WorkflowError):
        next_version(7, 7, WriteCondition(if_none_match="*"))
    with pytest.raises(WorkflowError) as refused:
        next_version(None, 7, WriteCondition(if_match="*"))
    assert refused.value.details == {"currentVersion": 0}


@given(st.text(max_size=40), st.integers(1, 99))
def test_no_header_makes_a_write_fall_over(header: str, version: int) -> None:
    assert next_version(version, version, WriteCondition(if_match=etag_of(version))) == version + 1
    with contextlib.suppress(WorkflowError):
        assert next_version(version, version, WriteCondition(if_match=header)) == version + 1
