"""One retrieval: filters hold before the cut, and nothing shows of what a caller may not see, in every standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from memoranda.service.core.access import Access
from memoranda.service.openwop.openwop import Openwop
from memoranda.standards.oams.namespace import namespace_of
from memoranda.standards.oms.mapping import text_of
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.openwop.entry import ListOptions
from tests.embedders import letters
from tests.service.oams_verbs import Oams
from tests.service.world import OPERATOR, PEER, World

DAY = 86_400_000
# What a caller is told: the words of each memory, and whatever numbers come with it.
Told = list[tuple[str, Any]]
Door = Callable[[World, Access, str], Told]


def through_ump(world: World, access: Access, query: str) -> Told:
    scope = {name: value for name, value in access.limits.items() if name != "owner"}
    found = world.recall(query, access=access, limit=50, scope={"owner": OPERATOR.did, **scope})
    return [(each.record["body"]["text"], (each.score, dict(each.signals))) for each in found]


def through_oms(world: World, access: Access, query: str) -> Told:
    page = world.service.grains.find(access, FindRequest.parse({"text": query}), owner=OPERATOR.did)
    return [(text_of(each.stored.grain), (each.score, each.matched_fields, page.total)) for each in page.results]


def through_cal(world: World, access: Access, query: str) -> Told:
    answer = world.service.cal.run(access, f'RECALL beliefs LIKE "{query}"')
    return [(str(each["grain"]["object"]), (each["score"], answer["total"])) for each in answer["results"]]


def through_oams(world: World, access: Access, query: str) -> Told:
    found = Oams(world, namespace_of("", OPERATOR.did), access=access).recall(query)
    return [(each["value"], each["metadata"]["score"]) for each in found]


def by_relevance(world: World) -> Openwop[None]:
    """openwop on a host that finds by meaning: others refuse to rank by relevance."""
    context = world.context
    return Openwop(context if context.has_semantic_search else replace(context, semantic_search=letters()), None)


def through_openwop(world: World, access: Access, query: str) -> Told:
    options = ListOptions.parse({"query": query, "rank": "relevance", "limit": 50})
    found = by_relevance(world).list_entries(access, "default", options)
    return [(each["content"], place) for place, each in enumerate(found)]


DOORS: dict[str, Door] = {
    "ump": through_ump,
    "oms": through_oms,
    "cal": through_cal,
    "oams": through_oams,
    "openwop": through_openwop,
}


def token(world: World, scope: dict[str, str], audience: str | None = None) -> Access:
    gate = world.service.gate
    text = gate.mint_token(verbs=("read",), scope={"owner": OPERATOR.did, **scope}, ttl_ms=DAY, audience=audience)
    return gate.authenticate(text)


def only(told: Told, word: str) -> Told:
    return [(text, rest) for text, rest in told if word in text]


# --- what the caller may not see -----------------------------------------------------------------------------

# A caller who sees a part; the scope of what it sees, and of what it does not.
PARTS: dict[str, tuple[dict[str, str], str | None, dict[str, str], dict[str, str]]] = {
    "agent": ({"agent": "a"}, None, {"agent": "a"}, {"agent": "b"}),
    "visibility": ({"visibility": "shared"}, None, {"visibility": "shared"}, {}),
    "private": ({"visibility": "private"}, None, {}, {"visibility": "public"}),
    "peer": ({}, PEER.did, {"visibility": "shared"}, {}),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("door", DOORS)
def test_no_score_order_or_count_tells_of_what_the_caller_may_not_see(world: World, door: str, part: str) -> None:
    limits, audience, seen, unseen = PARTS[part]
    for text in ("green tea from Uji", "green apples and pears are in the cellar", "tea at noon"):
        world.remember(text, scope=seen)
        world.advance(1)
    access = token(world, limits, audience)
    before = DOORS[door](world, access, "green tea")
    assert before
    for number in range(30):
        world.remember(f"green tea of somebody else {number} " + "and more words " * (number % 5), scope=unseen)
    assert DOORS[door](world, access, "green tea") == before


@pytest.mark.parametrize("door", DOORS)
def test_the_owner_sees_what_the_part_does_not(world: World, door: str) -> None:
    # Or the test above could not fail.
    world.remember("green tea from Uji", scope={"visibility": "shared"})
    world.remember("green tea of somebody else")
    assert len(DOORS[door](world, world.owner, "green tea")) == 2


@pytest.mark.parametrize("door", DOORS)
def test_a_redacted_text_cannot_be_guessed(world: World, door: str) -> None:
    peer = token(world, {}, PEER.did)
    for text in ("the password is swordfish", "the weather is fine"):
        redact = {"redact": ["body.text"]} if "password" in text else {}
        world.remember(text, scope={"visibility": "shared"}, consent=redact)
    right, wrong = (DOORS[door](world, peer, word) for word in ("swordfish", "trombone"))
    assert right == wrong
    assert only(DOORS[door](world, world.owner, "swordfish"), "swordfish")


def test_a_redacted_text_is_recalled_by_what_is_shown_of_it(world: World) -> None:
    peer = token(world, {}, PEER.did)
    hidden = {"redact": ["scope.project", "body.structured"]}
    world.remember("the kettle is blue", scope={"visibility": "shared", "project": "secret"}, consent=hidden)
    ((text, (_, right)),) = through_ump(world, peer, "kettle")
    assert text == "the kettle is blue"
    assert right["similarity"] > 0.5
    assert list(through_ump(world, peer, "secret")) == list(through_ump(world, peer, "nonsense")) == []


@pytest.mark.parametrize("field", ["project", "user", "agent", "session"])
def test_a_redacted_scope_cannot_be_guessed_by_a_filter(world: World, field: str) -> None:
    peer = token(world, {}, PEER.did)
    scope = {"visibility": "shared", field: "right"}
    world.remember("apple", scope=scope, consent={"redact": [f"scope.{field}"]})

    def asked(value: str, **options: Any) -> list[str]:
        return world.texts("apple", access=peer, scope={"owner": OPERATOR.did, field: value}, **options)

    # What is taken out is not there, so it names neither.
    assert asked("right") == asked("wrong") == ["apple"]
    strict = {"filter": {"scope": "strict"}}
    assert asked("right", **strict) == asked("wrong", **strict) == []
    assert world.texts("apple", access=peer, scope={"owner": OPERATOR.did}) == ["apple"]
    assert world.texts("apple", scope={field: "right"}) == ["apple"]


def test_a_redacted_project_cannot_be_guessed_from_a_list(world: World) -> None:
    peer = token(world, {}, PEER.did)
    scope = {"visibility": "shared", "project": "right"}
    name = world.remember("apple", scope=scope, consent={"redact": ["scope.project"]})
    for project in ("right", "wrong"):
        assert world.service.list_records(peer, project=project)[0] == []
    ((record,), _) = world.service.list_records(peer)
    assert record["id"] == name
    assert "project" not in record["scope"]


@pytest.mark.parametrize("instant", ["2026-06-03T00:00:00Z", "2026-06-05T00:00:00Z"])
def test_a_redacted_end_cannot_be_guessed_by_asking_for_a_time(world: World, instant: str) -> None:
    peer = token(world, {}, PEER.did)
    time = {"valid_from": "2026-06-01T00:00:00Z", "valid_to": "2026-06-04T12:00:00Z"}
    world.remember("apple", time=time, scope={"visibility": "shared"}, consent={"redact": ["time.valid_to"]})
    asked = {"scope": {"owner": OPERATOR.did}, "filter": {"valid_at": instant}}
    assert world.texts("apple", access=peer, **asked) == ["apple"]


@pytest.mark.parametrize("text", ["apple", "apple [hidden]"])
def test_what_is_shown_in_part_answers_from_its_beginning_on(world: World, text: str) -> None:
    peer = token(world, {}, PEER.did)
    # As it is seen whole, and with something taken out of it.
    consent: dict[str, Any] = {"consent": {"redact": ["body.structured"]}} if "hidden" in text else {}
    body = {"text": text, "structured": {"token": "s3cret"}}
    begins = "2026-06-05T00:00:00Z"
    world.remember("", body=body, time={"valid_from": begins}, scope={"visibility": "shared"}, **consent)

    def asked(**options: Any) -> list[str]:
        return world.texts("apple", access=peer, scope={"owner": OPERATOR.did}, **options)

    assert asked() == asked(filter={"valid_at": "2026-06-04T23:59:59.999Z"}) == []
    assert asked(filter={"valid_at": begins}) == [text]
    world.advance(86_400_000)
    assert asked() == [text]


def test_personal_memories_without_consent_show_in_no_score() -> None:
    world = World(presets=["gdpr"])
    try:
        peer = token(world, {}, PEER.did)
        for text in ("green tea from Uji", "green apples and pears are in the cellar", "tea at noon"):
            world.remember(text, scope={"visibility": "shared"})
        before = [door(world, peer, "green tea") for door in DOORS.values()]
        personal: dict[str, Any] = {
            "user_id": "bob",
            "processing_basis": "contract",
            "structural_tags": ["visibility:shared"],
        }
        for number in range(9):
            world.put(object=f"green thing of bob {number}", **personal)
        assert [len(told) for told in before] == [3] * len(DOORS)
        assert [door(world, peer, "green tea") for door in DOORS.values()] == before
    finally:
        world.service.close()


# --- filters before the cut ----------------------------------------------------------------------------------

OTHERS = 700


def test_a_subject_is_found_among_hundreds_that_match_the_words_better(world: World) -> None:
    world.put(subject="alice", relation="drinks", object="green tea, and so much else that it matches badly")
    for number in range(OTHERS):
        world.put(subject=f"other {number}", relation="drinks", object="green tea")
    request = {"text": "green tea", "subject": "alice"}
    page = world.service.grains.find(world.owner, FindRequest.parse(request))
    assert [each.stored.grain.fields["subject"] for each in page.results] == ["alice"]
    assert (page.results[0].score, page.total) == (1.0, 1)
    answer = world.service.cal.run(world.owner, 'RECALL beliefs WHERE subject = "alice" LIKE "green tea"')
    assert [each["grain"]["subject"] for each in answer["results"]] == ["alice"]
    for narrower in ({"relation": "drinks"}, {"type": "belief"}, {"namespace": "shared"}):
        found = world.service.grains.find(world.owner, FindRequest.parse({**request, **narrower}))
        assert len(found.results) == 1


def test_a_person_a_tag_and_a_project_are_found_among_hundreds(world: World) -> None:
    oams = Oams(world)
    oams.store("mine", "green tea, and so much else that it matches badly", tags=["Rare"])
    oams.batch([oams.memory(f"k{number}", "green tea") for number in range(99)])
    assert oams.keys("green tea", tags=["rare"]) == ["mine"]
    options = ListOptions.parse({"query": "green tea", "rank": "relevance", "tag": "Rare"})
    assert len(by_relevance(world).list_entries(world.owner, "default", options)) == 1
    for scope in ({"user": "u"}, {"agent": "a"}, {"session": "s"}, {"project": "p"}):
        world.remember("green tea, and so much else that it matches badly", scope=scope)
        assert len(world.texts("green tea", scope=scope, filter={"scope": "strict"})) == 1


def test_what_is_hidden_does_not_use_up_the_places_of_what_is_not(world: World) -> None:
    for number in range(120):
        redact = {"redact": ["body.text"]}
        world.remember(f"green tea {number}", scope={"visibility": "shared"}, consent=redact)
    world.remember("green tea, and so much else that it matches badly", scope={"visibility": "shared"})
    peer = token(world, {}, PEER.did)
    for door in ("oms", "cal", "oams", "openwop"):
        assert len(DOORS[door](world, peer, "green tea")) == 1, door


# --- phrases and beginnings ----------------------------------------------------------------------------------


def bare(text: str) -> str:
    """A text without what a grain puts before it."""
    return text.rpartition(" semantic ")[2]


@pytest.mark.parametrize("door", DOORS)
def test_a_phrase_and_a_beginning_are_asked_for_through_every_door(world: World, door: str) -> None:
    locked = "the importer says database is locked"
    for text in (locked, "the database was locked by the importer", "use pnpm and never npm", "pnpx runs it"):
        world.remember(text)
        world.advance(1)

    def found(query: str) -> list[str]:
        written = query.replace('"', '\\"') if door == "cal" else query
        return [bare(text) for text, _ in DOORS[door](world, world.owner, written)]

    assert found('"database is locked"') == [locked]
    assert found('"locked is database"') == []
    assert sorted(found("pnp*")) == ["pnpx runs it", "use pnpm and never npm"]
    assert found("pnpm*") == ["use pnpm and never npm"]
    assert found('pnp* "never npm"') == ["use pnpm and never npm"]
    # In a longer question they come first, and others may follow.
    asked = found('which importer said "database is locked"?')
    assert asked[0] == locked
    assert len(asked) == 2
    # What nobody said does not make a question unanswerable.
    assert found('which importer said "database is gone"?')


@pytest.mark.parametrize("door", DOORS)
def test_a_phrase_tells_nothing_of_what_the_caller_may_not_see(world: World, door: str) -> None:
    world.remember("green tea from Uji", scope={"visibility": "shared"})
    world.remember("the secret word is swordfish")
    peer = token(world, {}, PEER.did)
    assert DOORS[door](world, peer, "swordfish*") == DOORS[door](world, peer, "trombones*") == []
    owned = [bare(text) for text, _ in DOORS[door](world, world.owner, "swordf*")]
    assert owned == ["the secret word is swordfish"]


@pytest.mark.parametrize("meaning", [None, letters()], ids=["words", "meaning"])
def test_a_filter_that_leaves_few_of_many_finds_what_asking_all_of_them_finds(
    meaning: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very many that hold a word only those are asked that can come first: the answer is the same."""
    world = World(meaning=meaning)
    for number in range(160):
        words = " ".join(["tea"] * (1 + number % 7) + [f"word{number % step}" for step in (3, 5, 11, 13)])
        world.remember(f"{words} {number}", kind="procedural" if number % 9 == 4 else "semantic")
    if meaning is not None:
        while world.service.embedding.step():
            pass

    def found() -> list[str]:
        return world.texts("tea word2 word7", limit=5, filter={"kind": ["procedural"]})

    for place in ("retrieval.retrievers", "storage.index.search"):
        monkeypatch.setattr(f"memoranda.{place}.CANDIDATE_LIMIT", 12)
    expected = found()
    monkeypatch.setattr("memoranda.storage.index.search._SMALL_SELECTION", 2)
    monkeypatch.setattr("memoranda.storage.index.search._PAGE_VERSIONS", 16)
    assert len(expected) == 5
    assert found() == expected
    world.service.close()
