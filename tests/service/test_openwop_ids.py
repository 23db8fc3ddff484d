"""Entries under ids that a host chooses: written again, ended, seen by runs; and what a host must not rank by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from memoranda.errors import InvalidInput, MemorandaError, WorkflowError
from memoranda.model.instant import Instant
from memoranda.service.openwop.openwop import Openwop
from memoranda.standards.openwop.entry import Draft, Entry, ListOptions
from memoranda.standards.openwop.problem import problem_of
from tests.embedders import letters
from tests.service.wop import REF, Wop


@pytest.fixture
def wop() -> Iterator[Wop]:
    wop = Wop()
    yield wop
    wop.close()


def put_under(wop: Wop, name: str, content: str, *tags: str, expires: int | None = None, **how: Any) -> Entry:
    draft = Draft(content=content, tags=tags, expires=None if expires is None else Instant(expires))
    return wop.wop.put_entry(how.pop("access", wop.owner), how.pop("ref", REF), draft, entry_id=name, **how)


@pytest.mark.requirement("WOP-RFC4-id")
def test_a_host_may_choose_an_id_and_what_it_puts_under_it_again_takes_its_place(wop: Wop) -> None:
    first = put_under(wop, "profile/Ann", "Ann likes tea.", "Likes")
    assert first == {
        "id": "profile/Ann",
        "content": "Ann likes tea.",
        "tags": ["Likes"],
        "createdAt": first["createdAt"],
    }
    wop.advance(1000)
    second = put_under(wop, "profile/Ann", "Ann likes coffee.", "Likes", "drinks")
    assert second == {**first, "content": "Ann likes coffee.", "tags": ["Likes", "drinks"]}
    assert wop.entries() == [wop.read("profile/Ann")] == [second]
    assert wop.texts("Ann likes") == ["Ann likes coffee."]
    elsewhere = put_under(wop, "profile/Ann", "Another Ann.", ref="another")
    assert wop.entries() == [second]
    assert wop.entries(ref="another") == [elsewhere]
    wop.wop.delete_entry(wop.owner, REF, "profile/Ann")
    assert wop.entries() == []
    assert wop.entries(ref="another") == [elsewhere]
    wop.advance(1000)
    put_under(wop, "profile/Ann", "Ann is back.")
    assert wop.contents() == ["Ann is back."]


def test_an_id_that_we_gave_can_be_written_again(wop: Wop) -> None:
    made = wop.write("Ann likes tea.", "drinks")
    wop.advance(1000)
    again = put_under(wop, made["id"], "Ann likes coffee.")
    assert again == {**made, "content": "Ann likes coffee.", "tags": []}
    assert wop.entries() == [again]


@pytest.mark.requirement("WOP-RFC4-expiry-never-extended")
def test_what_is_put_under_an_id_again_ends_no_later_than_it_would_have(wop: Wop) -> None:
    put_under(wop, "k", "one", expires=wop.now + 1000)
    ends = wop.entries()[0]["expiresAt"]
    assert put_under(wop, "k", "two")["expiresAt"] == ends
    assert put_under(wop, "k", "three", expires=wop.now + 9000)["expiresAt"] == ends
    assert put_under(wop, "k", "four", expires=wop.now + 500)["expiresAt"] < ends
    wop.advance(500)
    assert wop.entries() == []
    with pytest.raises(InvalidInput):
        put_under(wop, "k", "five", expires=wop.now)


def test_a_run_sees_what_was_under_an_id_when_it_began_and_what_it_puts_there(wop: Wop) -> None:
    put_under(wop, "k", "before")
    wop.advance(1)
    reader, writer = wop.begin(), wop.begin()
    wop.advance(1)
    put_under(wop, "k", "between")
    assert wop.contents(run=reader) == ["before"]
    put_under(wop, "k", "mine", run_id=writer.run_id, node_id="n1")
    assert [wop.contents(run=run) for run in (reader, writer, None)] == [["before"], ["mine"], ["mine"]]
    assert wop.read("k", run=reader) == {**(wop.read("k") or {}), "content": "before"}
    (fact,) = wop.facts("memory.written")
    assert fact == {"memoryRef": REF, "memoryId": "k", "nodeId": "n1"}


def test_an_archive_is_not_written_over_and_no_id_hides_a_secret(wop: Wop) -> None:
    wop.write("Ann likes tea.")
    archive = wop.wop.distill(wop.owner, REF).entry
    with pytest.raises(MemorandaError, match="archive"):
        put_under(wop, archive["id"], "something else")
    run = wop.begin()
    wop.wop.register_secret(wop.owner, run.run_id, "token", "hunter2hunter2")
    with pytest.raises(InvalidInput):
        put_under(wop, "my-hunter2hunter2", "x", run_id=run.run_id)
    made = put_under(wop, "k", "it is hunter2hunter2", "hunter2hunter2", run_id=run.run_id)
    assert "hunter2hunter2" not in str(made)
    for name in ("", "a\nb", "x" * 1025, "\ud800"):
        with pytest.raises(InvalidInput):
            put_under(wop, name, "x")


@pytest.mark.requirement("WOP-1.2-relevance")
def test_a_host_without_semantic_search_refuses_to_rank_by_relevance(wop: Wop) -> None:
    wop.write("Deployments go out on Tuesdays.")
    with pytest.raises(WorkflowError) as raised:
        wop.entries(rank="relevance", query="deployments")
    assert problem_of(raised.value)[0] == 422
    assert raised.value.openwop_code == "capability_required"
    modes = wop.wop.discovery(is_attended=True)["memory"]["search"]["modes"]
    assert modes == ["filter"]
    with_search = Openwop(replace(wop.context, semantic_search=letters()), None)
    assert with_search.discovery(is_attended=True)["memory"]["search"]["modes"] == ["semantic", "filter"]
    options = ListOptions.parse({"rank": "relevance", "query": "deployments"})
    assert len(with_search.list_entries(wop.owner, REF, options)) == 1
