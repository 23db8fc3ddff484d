"""Requests: what is read, what is refused, and that nothing else happens."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.ump.published import JSON_VALUES, NOW

from memoranda.errors import InvalidInput
from memoranda.standards.ump.requests import (
    FeedbackRequest,
    ForgetRequest,
    RecallRequest,
    RehydrateRequest,
    ReviseRequest,
    unwrap_draft,
)


def test_a_bare_recall_has_the_defaults() -> None:
    assert RecallRequest.parse({"query": "q"}) == RecallRequest(query="q")
    assert RecallRequest.parse({"query": "q"}).limit == 8
    assert RecallRequest.parse({"query": "q", "scope": None, "filter": None, "limit": None}).limit == 8


def test_a_full_recall_is_read() -> None:
    read = RecallRequest.parse(
        {
            "query": "package manager",
            "scope": {"owner": "o", "project": "p", "visibility": "shared", "agent": None},
            "filter": {
                "kind": ["semantic", "semantic", "working"],
                "status": "active",
                "valid_at": "2026-06-04T10:00:00Z",
                "known_at": "2026-06-04T10:00:00.000Z",
            },
            "limit": 3.0,
            "ranking_hints": {"prefer": ["recency"]},
            "actor": {"did": "did:key:zA", "kind": "agent"},
        }
    )
    assert read.query == "package manager"
    assert read.scope == {"owner": "o", "project": "p", "visibility": "shared"}
    assert (read.kinds, read.statuses) == (("semantic", "working"), ("active",))
    assert (read.valid_at, read.known_at) == (NOW, NOW)
    assert (read.limit, read.prefer, read.actor) == (3, ("recency",), ("did:key:zA", "agent"))


@pytest.mark.parametrize(("asked", "given_"), [(0, 0), (50, 50), (51, 50), (10**30, 50)])
def test_the_limit_is_clamped_to_what_the_server_advertises(asked: int, given_: int) -> None:
    assert RecallRequest.parse({"query": "q", "limit": asked}).limit == given_


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (None, "the request must be an object"),
        ([], "the request must be an object"),
        ({}, "query"),
        ({"query": "q", "limt": 3}, "the request has an unknown field 'limt'; the fields are query, scope"),
        ({"query": "q", "actor": {"did": "d", "name": "x"}}, "actor has an unknown field 'name'"),
        ({"query": "q", "ranking_hints": {"preferred": []}}, "ranking_hints has an unknown field"),
        ({"query": " \n"}, "query"),
        ({"query": 5}, "query"),
        ({"query": "é" * 4097}, "8192 bytes"),
        ({"query": "q", "scope": "o"}, "scope must be an object"),
        ({"query": "q", "scope": {"owner": 1}}, r"scope\.owner"),
        ({"query": "q", "scope": {"owner": ""}}, r"scope\.owner"),
        ({"query": "q", "scope": {"project": "a\0"}}, r"scope\.project"),
        ({"query": "q", "scope": {"tenant": "x"}}, "unknown field 'tenant'"),
        ({"query": "q", "scope": []}, "scope must be an object"),
        ({"query": "q", "filter": 0}, "filter must be an object"),
        ({"query": "q", "ranking_hints": ""}, "ranking_hints must be an object"),
        ({"query": "q", "scope": {"visibility": "all"}}, r"scope\.visibility"),
        ({"query": "q", "filter": []}, "filter must be an object"),
        ({"query": "q", "filter": [1]}, "filter must be an object"),
        ({"query": "q", "filter": {"kinds": []}}, "unknown field 'kinds'"),
        ({"query": "q", "filter": {"kind": ["fact"]}}, r"filter\.kind"),
        ({"query": "q", "filter": {"kind": {"a": 1}}}, r"filter\.kind"),
        ({"query": "q", "filter": {"status": [["active"]]}}, r"filter\.status"),
        ({"query": "q", "filter": {"valid_at": "yesterday"}}, r"filter\.valid_at"),
        ({"query": "q", "filter": {"known_at": 5}}, r"filter\.known_at"),
        ({"query": "q", "limit": -1}, "limit"),
        ({"query": "q", "limit": True}, "limit"),
        ({"query": "q", "limit": 1.5}, "limit"),
        ({"query": "q", "limit": "8"}, "limit"),
        ({"query": "q", "ranking_hints": 1}, "ranking_hints"),
        ({"query": "q", "ranking_hints": {"zone": "Europe/Atlantis"}}, "time zone"),
        ({"query": "q", "ranking_hints": {"zone": "../../etc/passwd"}}, "time zone"),
        ({"query": "q", "ranking_hints": {"asked_at": "yesterday"}}, "asked_at"),
        ({"query": "q", "ranking_hints": {"prefer": "recency"}}, "prefer"),
        ({"query": "q", "ranking_hints": {"prefer": [1]}}, "prefer"),
        ({"query": "q", "ranking_hints": {"prefer": ["recency"] * 17}}, "prefer"),
        ({"query": "q", "ranking_hints": {"prefer": ["nonsense"]}}, "prefer"),
        ({"query": "q", "actor": "did:key:zA"}, "actor must be an object"),
        ({"query": "q", "actor": {}}, r"actor\.did"),
        ({"query": "q", "actor": {"did": "d", "kind": "robot"}}, r"actor\.kind"),
    ],
)
def test_a_bad_recall_is_refused_by_name(request_: object, message: str | None) -> None:
    if message is None:
        assert RecallRequest.parse(request_).kinds is None
        return
    with pytest.raises(InvalidInput, match=message):
        RecallRequest.parse(request_)


def test_a_rehydration_is_a_recall_with_a_frame() -> None:
    read = RehydrateRequest.parse({"query": "q", "budget_chars": 900})
    assert read == RehydrateRequest(query="q", budget_chars=900)
    assert (read.limit, read.max_chars, read.max_visibility) == (12, 500, None)
    assert RehydrateRequest.parse({"query": "q", "limit": 99, "max_visibility": "public"}).limit == 50
    for bad in ({"max_visibility": "all"}, {"max_chars": 0}, {"max_chars": "x"}, {"budget_chars": -1}, {"limit": -1}):
        with pytest.raises(InvalidInput):
            RehydrateRequest.parse({"query": "q", **bad})


def test_a_revision_is_read() -> None:
    patch = {
        "body": {"text": "new"},
        "lifecycle": {"salience": 1},
        "relations": [],
        "time": {"valid_from": "2026-06-05T00:00:00Z", "valid_to": None},
    }
    read = ReviseRequest.parse({"id": "urn:ump:aaaa", "patch": patch, "actor": {"did": "d"}})
    assert (read.id, read.patch, read.actor) == ("urn:ump:aaaa", patch, ("d", "user"))


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "patch must be an object"),
        ({}, "at least one"),
        ({"scope": {}}, r"patch\.scope cannot be revised"),
        ({"kind": "semantic"}, r"patch\.kind cannot be revised"),
        ({"provenance": {}}, r"patch\.provenance cannot be revised"),
        ({"body": None}, r"patch\.body\.text is required"),
        ({"body": {"text": "\ud800"}}, "canonical"),
        ({"lifecycle": {"confidence": 2}}, r"patch\.lifecycle\.confidence"),
        ({"relations": "x"}, r"patch\.relations"),
        ({"time": {"created": "2026-06-05T00:00:00Z"}}, r"time\.created cannot be revised"),
        ({"time": {"valid_to": "later"}}, r"time\.valid_to"),
    ],
)
def test_a_bad_patch_is_refused_by_name(patch: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ReviseRequest.parse({"id": "urn:ump:aaaa", "patch": patch})


def test_forgetting_needs_only_an_id() -> None:
    assert ForgetRequest.parse({"id": "x", "reason": None}) == ForgetRequest(id="x", hard=False)
    assert ForgetRequest.parse({"id": "x", "reason": "gdpr", "hard": True}).hard
    for bad in (
        {},
        {"id": ""},
        {"id": 1},
        {"id": "x", "hard": 1},
        {"id": "x", "reason": 1},
        {"id": "x", "reason": "a\nb"},
    ):
        with pytest.raises(InvalidInput):
            ForgetRequest.parse(bad)


@pytest.mark.requirement("UMP-3.8-feedback")
def test_feedback_has_a_known_outcome() -> None:
    assert FeedbackRequest.parse({"id": "x", "outcome": "followed", "session": "s"}).session == "s"
    for bad in ({"id": "x"}, {"id": "x", "outcome": "liked"}, {"id": "x", "outcome": ["followed"]}):
        with pytest.raises(InvalidInput, match="outcome"):
            FeedbackRequest.parse(bad)


def test_a_draft_comes_bare_or_under_record() -> None:
    assert unwrap_draft({"kind": "semantic"}) == {"kind": "semantic"}
    assert unwrap_draft({"record": {"kind": "semantic"}}) == {"kind": "semantic"}
    assert unwrap_draft([1]) == [1]


KEYS = ["query", "scope", "filter", "limit", "ranking_hints", "actor", "id", "patch", "reason", "hard", "outcome"]
SHAPED = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(KEYS, JSON_VALUES),
        "query": st.text(max_size=5),
        "id": st.text(max_size=5),
        "patch": st.dictionaries(st.sampled_from(["body", "lifecycle", "relations", "time", "kind"]), JSON_VALUES),
        "filter": st.dictionaries(st.sampled_from(["kind", "status", "valid_at"]), JSON_VALUES),
    },
)


@given(JSON_VALUES | SHAPED)
def test_any_value_is_read_or_refused(value: Any) -> None:
    for request in (RecallRequest, RehydrateRequest, ReviseRequest, ForgetRequest, FeedbackRequest):
        with suppress(InvalidInput):
            request.parse(value)
