"""The five operations of OAMS: what each of them promises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.encoding.bases import base64url_decode, base64url_encode
from memoranda.errors import (
    CrossNamespace,
    ForbiddenScope,
    InvalidInput,
    MemoryNotFound,
    NamespaceNotFound,
    QuotaExceeded,
    TooLarge,
    VersionMismatch,
)
from memoranda.model.instant import format_instant, parse_instant
from memoranda.service.core.limits import Quotas
from memoranda.standards.oams.memory import MAX_VALUE_BYTES
from memoranda.standards.oams.requests import RecallRequest
from tests.service.oams_verbs import Memory, Oams, namespace
from tests.service.world import START, World

MINUTE = 60_000


@pytest.fixture
def oams(world: World) -> Oams:
    return Oams(world)


def limited(**quotas: int) -> Iterator[Oams]:
    world = World(quotas=Quotas(**quotas))
    yield Oams(world)
    world.service.close()


# --- STORE -----------------------------------------------------------------------------------------------


def test_what_is_stored_comes_back_with_both_times(oams: Oams) -> None:
    stored = oams.store("k", "tea", tags=["drink"], metadata={"confidence": 0.5}, source_id="x:1")
    assert stored.result == "created"
    assert stored.memory == {
        "key": "k",
        "namespace": oams.namespace,
        "value": "tea",
        "tags": ["drink"],
        "metadata": {"confidence": 0.5},
        "source_id": "x:1",
        "created_at": START,
        "updated_at": START,
    }
    assert oams.get("k") == stored.memory


@pytest.mark.requirement("OAMS-OURS-versions")
def test_the_same_content_again_changes_nothing(oams: Oams) -> None:
    first = oams.store("k", "tea", tags=["a", "B"], metadata={"n": 1})
    events = oams.world.events()
    oams.world.advance(MINUTE)
    for again in (oams.memory("k", "tea", tags=["a", "B"], metadata={"n": 1}), first.memory, oams.recall("tea")[0]):
        stored = oams.put(again)
        assert (stored.result, stored.etag, stored.memory) == ("unchanged", first.etag, first.memory)
    assert oams.world.events() == events
    assert len(history(oams, "k")) == 1


@pytest.mark.requirement("OAMS-OURS-versions")
def test_other_content_is_a_new_version_and_both_times_tell(oams: Oams) -> None:
    first = oams.store("k", "tea")
    oams.world.advance(MINUTE)
    second = oams.store("k", "coffee")
    assert second.result == "updated"
    assert second.etag != first.etag
    assert (second.memory["created_at"], second.memory["updated_at"]) == (START, format_instant(oams.world.now))
    # Without the clock moving, updated_at moves all the same.
    third = oams.store("k", "milk", created_at="2020-01-01T00:00:00Z")
    assert third.memory["created_at"] == START
    assert third.memory["updated_at"] > second.memory["updated_at"]
    assert [memory["value"] for memory in oams.listed()] == ["milk"]
    assert [text for text, _ in history(oams, "k")] == ["tea", "coffee", "milk"]


def history(oams: Oams, key: str) -> list[tuple[str, bool]]:
    """All versions of the memory, and whether each is current, through UMP."""
    world = oams.world
    texts = [record["id"] for record in world.service.list_records(oams.access, limit=200)[0]
             if record["body"]["text"] == oams.get(key)["value"]]  # fmt: skip
    found = world.service.history(oams.access, texts[0])
    return [(item["record"]["body"]["text"], not item["record"]["superseded_by"]) for item in found]  # type: ignore[index]


def test_times_that_are_given_are_kept_as_they_are_written(oams: Oams) -> None:
    stored = oams.store("k", "tea", created_at="2019-05-06T07:08:09.123456Z", updated_at="2020-05-06T07:08:09+00:00")
    assert stored.memory["created_at"] == "2019-05-06T07:08:09.123456Z"
    assert stored.memory["updated_at"] == "2020-05-06T07:08:09+00:00"
    # Older than what is there: the new version still comes after it.
    stored = oams.store("k", "coffee", updated_at="2019-12-31T00:00:00Z")
    assert stored.memory["updated_at"] == START
    assert oams.store("k", "milk", updated_at="2027-01-01T00:00:00Z").memory["updated_at"] == "2027-01-01T00:00:00Z"


def test_a_memory_of_a_client_whose_clock_is_ahead_is_there_at_once(oams: Oams) -> None:
    oams.store("k", "tea from the future", created_at="2026-06-04T10:05:00Z")
    assert oams.listed_keys() == oams.keys("tea") == ["k"]
    assert oams.world.texts("tea") == ["tea from the future"]
    oams.store("k", "coffee from the future", updated_at="2026-06-04T11:05:00Z")
    assert oams.world.texts("future") == ["coffee from the future"]


def test_if_match_lets_only_the_one_through_who_saw_the_last_version(oams: Oams) -> None:
    first = oams.store("k", "one")
    second = oams.store("k", "two", if_match=f'"{first.etag}"')
    for stale in (first.etag, f'"{first.etag}"', "something else", ""):
        with pytest.raises(VersionMismatch):
            oams.store("k", "three", if_match=stale)
    assert oams.get("k")["value"] == "two"
    assert oams.shown("k").etag == second.etag
    oams.store("k", "three", if_match=f'W/"x", "{second.etag}"')
    oams.store("k", "four", if_match="*")
    for tag in ("*", second.etag):
        with pytest.raises(VersionMismatch):
            oams.store("nothing here", "x", if_match=tag)
    assert [text for text, _ in history(oams, "k")] == ["one", "two", "three", "four"]


def test_if_absent_refuses_what_is_there(oams: Oams) -> None:
    assert oams.store("k", "one", if_absent=True).result == "created"
    for value in ("one", "two"):
        with pytest.raises(VersionMismatch):
            oams.store("k", value, if_absent=True)
    oams.forget("k")
    assert oams.store("k", "two", if_absent=True).result == "created"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"key": ""}, "key"),
        ({"key": None}, "key"),
        ({"key": "a\x00b"}, "key"),
        ({"namespace": ":no owner"}, "namespace"),
        ({"namespace": "owner:a/b"}, "slash"),
        ({"namespace": "owner:a:b"}, "colon"),
        ({"namespace": 7}, "namespace"),
        ({"value": None}, "value"),
        ({"value": 3}, "value"),
        ({"tags": "x"}, "tags"),
        ({"created_at": "yesterday"}, "created_at"),
        ({"updated_at": "2026-01-01T00:00:00+02:00"}, "UTC"),
        ({"metadata": {"confidence": 2}}, "confidence"),
        ({"metadata": {"pii": "yes"}}, "pii"),
        ({"embedding": [0.5]}, "embedding_model"),
    ],
)
def test_what_is_not_a_memory_is_refused_and_leaves_nothing(oams: Oams, changes: dict[str, Any], expected: str) -> None:
    for act in (lambda m: oams.put(m), lambda m: oams.batch([oams.memory("good"), m])):
        with pytest.raises(InvalidInput, match=expected):
            act({**oams.memory("k"), **changes})
    with pytest.raises(NamespaceNotFound):
        oams.page()


def test_a_value_may_be_a_mebibyte_and_not_a_byte_more(oams: Oams) -> None:
    value = "é" * (MAX_VALUE_BYTES // 2)
    oams.store("k", value)
    assert oams.get("k")["value"] == value
    with pytest.raises(TooLarge):
        oams.store("k", value + "x")


def test_unknown_fields_are_kept_and_warned_about(oams: Oams) -> None:
    stored = oams.store("k", "tea", mood={"deep": [1, None]}, metadata={"dream_strategy": "sleepwalk"})
    assert len(stored.warnings) == 3
    kept = oams.get("k")
    assert (kept["mood"], kept["metadata"]) == ({"deep": [1, None]}, {"dream_strategy": "sleepwalk"})


def test_tags_are_lower_case_and_their_spelling_is_kept(oams: Oams) -> None:
    stored = oams.store("k", "tea", tags=["Drink", "HOT", "hot"])
    assert stored.memory["tags"] == ["drink", "hot"]
    assert stored.memory["metadata"]["memoranda:tags"] == ["Drink", "HOT", "hot"]
    assert oams.listed_keys(tags=["HOT"]) == oams.listed_keys(tags=["drink", "hot"]) == ["k"]
    assert oams.listed_keys(tags=["drink", "cold"]) == []


# --- RECALL ----------------------------------------------------------------------------------------------


def test_recall_gives_k_memories_best_first_each_with_its_score(oams: Oams) -> None:
    oams.store("both", "green tea in the garden")
    for number in range(12):
        oams.store(f"tea {number}", f"tea number {number}")
    oams.store("other", "nothing of the kind")
    found = oams.recall("green tea")
    assert len(found) == 8
    assert found[0]["key"] == "both"
    scores = [memory["metadata"]["score"] for memory in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert len(oams.recall("tea", k=3)) == 3
    assert len(oams.recall("tea", k=50)) == 13
    assert oams.recall("zeppelin") == []


def test_a_score_is_never_stored(oams: Oams) -> None:
    oams.store("k", "tea", metadata={"score": 0.9, "n": 1})
    (found,) = oams.recall("tea")
    assert found["metadata"]["score"] != 0.9
    oams.put({**found, "value": "coffee"})
    assert oams.get("k")["metadata"] == oams.listed()[0]["metadata"] == {"n": 1}
    assert all(b"score" not in raw for raw in oams.exported())


def test_recall_filters_by_tags_and_by_the_last_update(oams: Oams) -> None:
    times = []
    for number in range(5):
        times.append(format_instant(oams.world.now))
        oams.store(f"k{number}", "tea", tags=["even" if number % 2 == 0 else "Odd", "all"])
        oams.world.advance(MINUTE)
    assert set(oams.keys("tea", tags=["ODD"])) == {"k1", "k3"}
    assert oams.keys("tea", tags=["odd", "even"]) == []
    assert set(oams.keys("tea", since=times[2])) == {"k2", "k3", "k4"}
    assert set(oams.keys("tea", until=times[2])) == {"k0", "k1"}
    assert set(oams.keys("tea", since=times[1], until=times[3], tags=["all"])) == {"k1", "k2"}
    oams.store("k0", "tea again", tags=["all"])
    assert "k0" in oams.keys("tea", since=times[4])


def test_of_equal_matches_the_newer_comes_first(oams: Oams) -> None:
    for number in range(4):
        oams.store(f"k{number}", "tea")
        oams.world.advance(30 * 24 * 60 * MINUTE)
    assert oams.keys("tea") == ["k3", "k2", "k1", "k0"]


@pytest.mark.requirement("OAMS-2-cross-namespace-lookup")
def test_several_namespaces_of_one_owner_are_asked_together(world: World) -> None:
    tenant = world.owner.default_tenant
    home, work = Oams(world, namespace(tenant, "home")), Oams(world, namespace(tenant, "work"))
    home.store("exact", "green tea in the garden")
    home.store("k", "tea at home")
    work.store("k", "tea at work")
    names = [home.namespace, work.namespace]
    found = home.recall("green garden tea", namespaces=names)
    assert (found[0]["namespace"], found[0]["key"]) == (home.namespace, "exact")
    assert {memory["value"] for memory in found} == {"green tea in the garden", "tea at home", "tea at work"}
    # The poor match of one namespace is not as good as the best of another.
    scores = {memory["value"]: memory["metadata"]["score"] for memory in found}
    assert scores["tea at work"] < scores["green tea in the garden"] - 0.2
    assert home.keys("tea") == ["k", "exact"]
    with pytest.raises(NamespaceNotFound):
        home.recall("tea", namespaces=[*names, namespace(tenant, "nowhere")])


@pytest.mark.requirement("OAMS-4-recall-single")
def test_without_a_namespace_the_callers_own_is_meant(world: World) -> None:
    Oams(world).store("k", "tea")
    for name in (namespace(world.owner.default_tenant, "other"), "user-x123ab:personal"):
        Oams(world, name).store("elsewhere", "tea")
    assert [m["key"] for m in world.service.oams.recall(world.owner, RecallRequest.parse({"query": "tea"}))] == ["k"]


# --- LIST ------------------------------------------------------------------------------------------------


def test_a_list_is_newest_update_first_and_pages_join(oams: Oams) -> None:
    for number in range(7):
        oams.store(f"k{number}")
        oams.world.advance(number % 2)
    oams.store("k2", "changed")
    listed = oams.listed()
    assert [m["updated_at"] for m in listed] == sorted((m["updated_at"] for m in listed), reverse=True)
    assert listed[0]["key"] == "k2"
    assert len(listed) == 7
    for limit in (1, 2, 3, 6, 7, 8):
        assert oams.listed(limit=limit) == listed
    assert oams.page(limit=7).next_cursor is None
    assert [len(oams.page(limit=3).memories), oams.page(limit=3).next_cursor is not None] == [3, True]


def test_a_list_goes_by_what_memories_say_of_their_last_update(oams: Oams) -> None:
    oams.store("odd", created_at="2026-01-01T00:00:00Z", updated_at="2020-01-01T00:00:00Z")
    oams.store("old", created_at="2021-01-01T00:00:00Z", updated_at="2022-01-01T00:00:00Z")
    oams.world.remember("observed before it was recorded", time={"observed": "2019-01-01T00:00:00.000Z"})
    listed = oams.listed()
    assert [memory["updated_at"][:4] for memory in listed] == ["2026", "2022", "2020"]
    assert oams.listed(since="2021-06-01T00:00:00Z") == listed[:2]
    assert oams.listed(since=listed[0]["updated_at"]) == listed[:1]


def test_a_list_can_be_narrowed_by_time_and_tags(oams: Oams) -> None:
    for number in range(6):
        oams.store(f"k{number}", tags=[f"t{number % 2}", "all"])
        oams.world.advance(MINUTE)
    since = format_instant(parse_instant(START) + 2 * MINUTE)
    assert oams.listed_keys(since=since, limit=2) == ["k5", "k4", "k3", "k2"]
    assert oams.listed_keys(since=since, tags=["t1"], limit=1) == ["k5", "k3"]
    assert oams.listed_keys(tags=["all", "t0"], limit=2) == ["k4", "k2", "k0"]
    assert oams.listed_keys(tags=["", "t0"]) == oams.listed_keys(tags=["no such"]) == []


@pytest.mark.requirement("OAMS-OURS-cursors")
def test_a_cursor_is_of_one_namespace_of_one_owner_and_cannot_be_made_up(world: World) -> None:
    mine, other = Oams(world), Oams(world, namespace(world.owner.default_tenant, "other"))
    stranger = Oams(world, access=world.key("did:example:stranger"))
    for each in (mine, other, stranger):
        for number in range(3):
            each.store(f"k{number}")
    cursor = mine.page(limit=1).next_cursor
    assert cursor is not None
    for each in (other, stranger):
        with pytest.raises(InvalidInput, match="cursor"):
            each.page(cursor=cursor)
    raw = bytearray(base64url_decode(cursor))
    for place in range(len(raw)):
        raw[place] ^= 1
        with pytest.raises(InvalidInput, match="cursor"):
            mine.page(cursor=base64url_encode(bytes(raw)))
        raw[place] ^= 1
    for nonsense in ("x", "=", "💥", cursor[:-1], cursor + "AAAA", "A" * 1024):
        with pytest.raises(InvalidInput, match="cursor"):
            mine.page(cursor=nonsense)
    assert mine.page(cursor=cursor).memories == mine.listed()[1:]


def test_a_cursor_does_not_tell_how_much_others_write(world: World) -> None:
    oams, other = Oams(world), Oams(world, access=world.key("did:example:stranger"))
    for number in range(3):
        oams.store(f"k{number}")
    before = oams.page(limit=1).next_cursor
    for number in range(5):
        other.store(f"k{number}")
    assert oams.page(limit=1).next_cursor == before


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["page", "page", "insert", "update", "forget"]), st.integers(0, 11), st.sampled_from([0, 0, 1])
    ),
    max_size=25,
)


@pytest.mark.requirement("OAMS-OURS-cursors")
@settings(max_examples=40)
@given(acts=ACTS, limit=st.integers(1, 4), tagged=st.booleans())
def test_paging_while_others_write_repeats_nothing_and_misses_nothing_untouched(
    acts: list[tuple[str, int, int]], limit: int, tagged: bool
) -> None:
    world = World()
    try:
        oams = Oams(world)
        for number in range(10):
            oams.store(f"k{number}", tags=["t"])
            world.advance(number % 2)
        asked: dict[str, Any] = {"limit": limit, **({"tags": ["t"]} if tagged else {})}
        page = oams.page(**asked)
        seen: list[Memory] = page.memories
        touched: set[str] = set()
        for number, (act, which, pause) in enumerate(acts):
            world.advance(pause)
            if act == "page" and page.next_cursor is not None:
                page = oams.page(cursor=page.next_cursor, **asked)
                seen += page.memories
            elif act in ("insert", "update"):
                key = f"k{which}" if act == "update" else f"new {number}"
                oams.store(key, f"changed {number}", tags=["t"])
                touched.add(key)
            elif act == "forget" and f"k{which}" in oams.listed_keys():
                oams.forget(f"k{which}")
                touched.add(f"k{which}")
        while page.next_cursor is not None:
            page = oams.page(cursor=page.next_cursor, **asked)
            seen += page.memories
        keys = [memory["key"] for memory in seen]
        assert len(keys) == len(set(keys))
        assert {f"k{number}" for number in range(10)} - touched <= set(keys)
        assert all(one["updated_at"] >= other["updated_at"] for one, other in pairwise(seen))
    finally:
        world.service.close()


# --- FORGET ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-3-forget-soft")
def test_a_forgotten_memory_is_gone_from_every_answer_and_stays_so(oams: Oams) -> None:
    world = oams.world
    oams.store("kept", "tea kept")
    oams.store("k", "tea one")
    world.advance(MINUTE)
    oams.store("k", "tea two")
    view = next(each for each in world.grains() if each.grain.fields["object"] == "tea two")
    name = world.as_record(view.address)["id"]
    world.advance(MINUTE)
    oams.forget("k")
    assert oams.keys("tea") == oams.listed_keys() == ["kept"]
    assert world.texts("tea") == ["tea kept"]
    # Neither what was true before, nor what was known before.
    for filter_ in ({"valid_at": START}, {"known_at": START}):
        assert world.texts("tea", filter=filter_) in (["tea kept"], [])
    assert [each.grain.fields["object"] for each in world.grains()] == ["tea kept"]
    assert world.get(name)["lifecycle"]["status"] == "tombstoned"
    answer = world.service.cal.run(world.owner, 'RECALL beliefs WHERE query = "tea"')
    assert "tea kept" in repr(answer)
    assert not re.search("tea (one|two)", repr(answer))
    assert len(oams.exported()) == 1
    for act in (lambda: oams.forget("k"), lambda: oams.get("k")):
        with pytest.raises(MemoryNotFound):
            act()
    assert world.service.verify(world.owner).ok


def test_stored_again_after_it_was_forgotten_it_is_a_new_memory(oams: Oams) -> None:
    oams.store("k", "tea", source_id="old")
    oams.forget("k")
    oams.world.advance(MINUTE)
    stored = oams.store("k", "tea")
    assert stored.result == "created"
    assert stored.memory["created_at"] == format_instant(oams.world.now)
    assert "source_id" not in stored.memory
    assert oams.listed_keys() == oams.keys("tea") == ["k"]
    assert history(oams, "k") == [("tea", True)]


def test_forgetting_can_depend_on_the_version(oams: Oams) -> None:
    first = oams.store("k", "one")
    second = oams.store("k", "two")
    with pytest.raises(VersionMismatch):
        oams.forget("k", if_match=first.etag)
    assert oams.get("k")["value"] == "two"
    oams.forget("k", if_match=second.etag)
    assert oams.listed() == []


def test_what_was_never_there_cannot_be_forgotten(oams: Oams) -> None:
    with pytest.raises(NamespaceNotFound):
        oams.forget("k")
    oams.store("other")
    with pytest.raises(MemoryNotFound):
        oams.forget("k")


# --- BATCH_STORE -----------------------------------------------------------------------------------------


def test_a_batch_creates_updates_and_leaves_alone(oams: Oams) -> None:
    oams.store("same", "one")
    oams.store("other", "one")
    stored = oams.batch([oams.memory("same", "one"), oams.memory("other", "two"), oams.memory("new", "one")])
    assert [each.result for each in stored] == ["unchanged", "updated", "created"]
    assert [each.memory["key"] for each in stored] == ["same", "other", "new"]
    assert {m["key"]: m["value"] for m in oams.listed()} == {"same": "one", "other": "two", "new": "one"}


def test_a_batch_may_span_namespaces_of_the_caller(world: World) -> None:
    tenant = world.owner.default_tenant
    home, work = Oams(world, namespace(tenant, "home")), Oams(world, namespace(tenant, "work"))
    home.batch([home.memory("k"), work.memory("k")])
    assert home.listed_keys() == work.listed_keys() == ["k"]


def test_ten_thousand_memories_are_one_batch_and_one_more_is_too_many(oams: Oams) -> None:
    stored = oams.batch([oams.memory(f"k{number}", f"tea {number}") for number in range(10_000)])
    assert [each.result for each in stored] == ["created"] * 10_000
    assert oams.get("k9999")["value"] == "tea 9999"
    for count in (0, 10_001):
        with pytest.raises(InvalidInput, match="batch"):
            oams.batch([oams.memory("k")] * count)


@pytest.mark.requirement("OAMS-3-batch-atomic")
@pytest.mark.parametrize(
    "bad", [{"value": 3}, {"key": ""}, {"namespace": "x:"}, {"metadata": {"confidence": "high"}}], ids=str
)
def test_one_bad_memory_in_a_batch_leaves_nothing(oams: Oams, bad: dict[str, Any]) -> None:
    oams.store("first")
    memories = [oams.memory(f"k{number}") for number in range(50)]
    memories[25] = {**memories[25], **bad}
    with pytest.raises(InvalidInput, match=r"memories\[25\]"):
        oams.batch(memories)
    assert oams.listed_keys() == ["first"]
    assert len(oams.world.events()) == 1


# --- quotas ----------------------------------------------------------------------------------------------


@pytest.fixture
def few() -> Iterator[Oams]:
    yield from limited(memories=3)


@pytest.fixture
def small() -> Iterator[Oams]:
    yield from limited(bytes=2_000)


@pytest.fixture
def slow() -> Iterator[Oams]:
    yield from limited(writes_per_minute=3)


@pytest.mark.requirement("OAMS-OURS-quotas")
def test_more_memories_than_allowed_are_refused_and_forgetting_makes_room(few: Oams) -> None:
    for number in range(3):
        few.store(f"k{number}")
    with pytest.raises(QuotaExceeded, match="3"):
        few.store("k3")
    assert few.store("k0", "another version is no new memory").result == "updated"
    few.forget("k1")
    few.store("k3")
    with pytest.raises(QuotaExceeded):
        few.store("k4")
    # Memories of other standards count, too: it is one store.
    few.forget("k0")
    few.world.remember("through another standard")
    with pytest.raises(QuotaExceeded):
        few.store("k4")
    # Another tenant has a quota of its own.
    Oams(few.world, access=few.world.key("did:example:other")).store("k")


@pytest.mark.requirement("OAMS-3-batch-atomic")
def test_a_batch_over_the_quota_leaves_nothing(few: Oams) -> None:
    few.store("k0")
    with pytest.raises(QuotaExceeded):
        few.batch([few.memory(f"n{number}") for number in range(3)])
    assert few.listed_keys() == ["k0"]
    assert few.batch([few.memory(f"n{number}") for number in range(2)])[1].result == "created"


@pytest.mark.requirement("OAMS-OURS-quotas")
def test_more_bytes_than_allowed_are_refused_and_erasing_makes_room(small: Oams) -> None:
    small.store("k0", "x" * 1_500)
    with pytest.raises(QuotaExceeded, match="2000"):
        small.store("k1", "x" * 800)
    with pytest.raises(QuotaExceeded):
        small.store("k0", "y" * 1_500)
    name = small.world.service.list_records(small.access, limit=1)[0][0]["id"]
    small.world.forget(name, hard=True, reason="room")
    small.store("k1", "x" * 800)


@pytest.mark.requirement("OAMS-OURS-quotas")
def test_more_writes_a_minute_than_allowed_are_refused_until_the_window_has_moved(slow: Oams) -> None:
    world = slow.world
    slow.store("k0")
    world.advance(20_000)
    slow.batch([slow.memory("k1"), slow.memory("k2")])
    for act in (lambda: slow.store("k3"), lambda: slow.batch([slow.memory("k3")])):
        with pytest.raises(QuotaExceeded, match="3 writes"):
            act()
    world.advance(39_999)
    with pytest.raises(QuotaExceeded):
        slow.store("k3")
    world.advance(1)
    slow.store("k3")
    # The two at 20 seconds are still within the window.
    with pytest.raises(QuotaExceeded):
        slow.store("k4")
    world.advance(20_000)
    with pytest.raises(QuotaExceeded):
        slow.batch([slow.memory(f"n{number}") for number in range(3)])
    slow.batch([slow.memory(f"n{number}") for number in range(2)])
    assert set(slow.listed_keys()) == {"k0", "k1", "k2", "k3", "n0", "n1"}


def test_a_large_batch_under_a_quota_of_writes_is_one_question() -> None:
    for oams in limited(writes_per_minute=3_999):
        memories = [oams.memory(f"k{number}") for number in range(1_500)]
        for start in range(0, 3_000, 1_500):
            oams.batch([{**memory, "key": f"{start} {memory['key']}"} for memory in memories])
        with pytest.raises(QuotaExceeded):
            oams.batch(memories[:1_000])
        oams.batch(memories[:999])


# --- namespaces ------------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-2-cross-namespace-lookup")
@pytest.mark.parametrize(
    "scope", ["default", "home", "ünïcode 日本", "%41", "%2F", "a%b", "x" * 900, "-._~!$&'()*+,;=@"]
)
def test_every_legal_namespace_is_a_place_of_its_own(world: World, scope: str) -> None:
    owner = Oams(world).namespace.partition(":")[0]
    names = [f"{owner}:{scope}", f"user-x123ab:{scope}", f"{owner}:other"]
    for number, name in enumerate(names):
        Oams(world, name).store("k", f"tea {number}")
    for number, name in enumerate(names):
        assert [m["value"] for m in Oams(world, name).listed()] == [f"tea {number}"]
        assert Oams(world, name).get("k")["namespace"] == name
    assert sorted(names) == world.service.oams.namespaces(world.owner)


@pytest.mark.requirement("OAMS-2-key-unique")
@pytest.mark.parametrize(
    "key", ["a/b", "a:b", "..", " ", "%2F", "日本語", "e\u0301", "x" * 1024, "urn:ump:none", "ab" * 32]
)
def test_every_legal_key_is_a_memory_of_its_own(oams: Oams, key: str) -> None:
    oams.store("other", "tea")
    oams.store(key, "coffee")
    assert oams.get(key)["value"] == "coffee"
    assert set(oams.listed_keys()) == {"other", key}
    oams.forget(key)
    assert oams.listed_keys() == ["other"]


@pytest.mark.requirement("OAMS-4-envelope")
def test_nothing_is_written_under_the_hash_of_another_owner(world: World) -> None:
    mine, stranger = Oams(world), Oams(world, access=world.key("did:example:stranger"))
    mine.store("secret", "treasure")
    claimed = Oams(world, mine.namespace, access=stranger.access)
    for act in (claimed.listed, lambda: claimed.get("secret"), lambda: claimed.recall("treasure")):
        with pytest.raises(NamespaceNotFound):
            act()
    nobody = Oams(world, namespace("did:example:nobody"), access=stranger.access)
    for each in (claimed, nobody):
        with pytest.raises(CrossNamespace, match="another tenant"):
            each.store("secret", "planted")
        with pytest.raises(CrossNamespace, match="another tenant"):
            each.batch([each.memory("secret", "planted")])
        assert each.take_in([(None, each.complete("secret", "planted"))]).refusals[0].code == "forbidden_scope"
    assert [m["value"] for m in mine.listed()] == ["treasure"]
    assert world.service.oams.namespaces(stranger.access) == []


def test_a_credential_needs_the_verb(world: World) -> None:
    Oams(world, access=world.key("did:example:a")).store("k", "tea")
    reader = Oams(world, access=world.key("did:example:a", "read"))
    writer = Oams(world, access=world.key("did:example:a", "write"))
    for act in (
        lambda: reader.store("k"),
        lambda: reader.batch([reader.memory("k")]),
        lambda: reader.forget("k"),
        lambda: reader.take_in([]),
        lambda: reader.exported(),
        lambda: writer.get("k"),
        lambda: writer.page(),
        lambda: writer.recall("tea"),
        lambda: writer.exported(),
    ):
        with pytest.raises(ForbiddenScope):
            act()
    assert reader.keys("tea") == ["k"]
    assert len(Oams(world, access=world.key("did:example:a", "export")).exported()) == 1


def test_everything_is_on_record_and_nothing_of_it_says_what(world: World) -> None:
    oams = Oams(world)
    oams.store("a-key-that-tells", "a value that tells")
    oams.batch([oams.memory("b", "a value that tells")])
    oams.get("b")
    oams.recall("a value that tells")
    oams.page()
    list(oams.exported())
    oams.take_in([(None, oams.complete("c"))])
    oams.forget("b")
    world.engine.flush()
    entries = world.service.audit(world.owner, {"limit": 100})
    assert [entry["op"] for entry in entries] == [
        f"oams.{op}" for op in ("store", "batch_store", "get", "recall", "list", "export", "import", "forget")
    ]
    assert "tells" not in repr(entries)
    assert world.service.audit_verify(world.owner).ok
