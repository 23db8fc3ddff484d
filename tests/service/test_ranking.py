"""What ranks above what, and why: each signal alone decides between two memories that are else alike."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.model.instant import format_instant
from memoranda.model.selection import KeywordQuery, Selection
from memoranda.retrieval.weights import COVERAGE_GATE
from memoranda.service.core.ranking import HALF_LIFE_MS, RELEVANCE, WEIGHTS
from memoranda.standards.oms.mapping import text_of
from memoranda.standards.oms.requests import FindRequest
from tests.embedders import fill_garden, letters, lined
from tests.service.oams_verbs import Oams
from tests.service.world import World

DAY = 86_400_000


def crowd(world: World) -> None:
    """Enough that "common" is common, and a word each that is not."""
    for number in range(40):
        world.remember(f"common number {number} filler{number}", kind="episodic")


def signals(world: World, query: str, **asked: Any) -> dict[str, dict[str, float]]:
    found = world.recall(query, **{"limit": 50, **asked})
    return {each.record["body"]["text"]: {**each.signals, "score": each.score} for each in found}


def test_a_rare_word_weighs_more_than_a_common_one(world: World) -> None:
    crowd(world)
    world.remember("common ground here")
    world.remember("zebra ground there")
    rated = signals(world, "common zebra")
    assert rated["zebra ground there"]["similarity"] > 3 * rated["common ground here"]["similarity"] > 0
    assert world.texts("common zebra")[0] == "zebra ground there"


def test_a_rare_word_weighs_more_in_every_standard(world: World) -> None:
    crowd(world)
    for text in ("zebra ground there", "common ground here"):
        world.remember(text)
        world.put(object=text)
    # What is written last would come first if every word weighed the same.
    page = world.service.grains.find(world.owner, FindRequest.parse({"text": "common zebra", "limit": 5}))
    assert "zebra" in text_of(page.results[0].stored.grain)
    common = [each.score for each in page.results if "common" in text_of(each.stored.grain)]
    assert common
    assert all(0 < score < 0.5 for score in common)
    answer = world.service.cal.run(world.owner, 'RECALL beliefs LIKE "common zebra"')
    assert "zebra" in answer["results"][0]["grain"]["object"]
    scores = [each["score"] for each in answer["results"] if "common" in each["grain"]["object"]]
    assert all(0 < score < 0.5 for score in scores)
    found = Oams(world).recall("common zebra")
    assert "zebra" in found[0]["value"]
    assert found[0]["metadata"]["score"] > 1.5 * found[-1]["metadata"]["score"]


def test_more_of_the_question_is_better_than_less(world: World) -> None:
    crowd(world)
    for text in ("zebra crossing", "zebra alone", "crossing alone"):
        world.remember(text)
    assert world.texts("zebra crossing")[0] == "zebra crossing"
    rated = signals(world, "zebra crossing")
    assert rated["zebra alone"]["similarity"] == pytest.approx(rated["crossing alone"]["similarity"])
    assert rated["zebra crossing"]["similarity"] == pytest.approx(2 * rated["zebra alone"]["similarity"], rel=0.2)


def test_a_word_in_a_short_text_weighs_more_than_in_a_long_one(world: World) -> None:
    crowd(world)
    short, long = "zebra again", "zebra " + " ".join(f"word{number}" for number in range(60))
    world.remember(long)
    world.remember(short)
    rated = signals(world, "zebra")
    assert rated[short]["similarity"] > 1.5 * rated[long]["similarity"] > 0


def test_recency_halves_with_every_half_life(world: World) -> None:
    start = world.now
    for lives in (0, 1, 2, 4):
        observed = format_instant(start - lives * HALF_LIFE_MS)
        world.remember(f"apple {lives}", time={"observed": observed})
    rated = signals(world, "apple")
    assert HALF_LIFE_MS == 90 * DAY
    assert {text: each["recency"] for text, each in rated.items()} == pytest.approx(
        {"apple 0": 1.0, "apple 1": 0.5, "apple 2": 0.25, "apple 4": 0.0625}
    )
    assert world.texts("apple") == ["apple 0", "apple 1", "apple 2", "apple 4"]
    world.advance(HALF_LIFE_MS)
    assert signals(world, "apple")["apple 0"]["recency"] == pytest.approx(0.5)


def test_recency_halves_in_oams_too(world: World) -> None:
    oams = Oams(world)
    oams.store("old", "green tea 1")
    world.advance(90 * DAY)
    oams.store("new", "green tea 2")
    (new, old) = oams.recall("green tea")
    assert [new["key"], old["key"]] == ["new", "old"]
    # Both match alike; the age decides, and is worth no more than that.
    assert new["metadata"]["score"] - old["metadata"]["score"] == pytest.approx(0.002 * 0.5)
    assert new["metadata"]["score"] == pytest.approx(1.0)


def test_an_old_exact_match_ranks_above_a_new_vague_one(world: World) -> None:
    crowd(world)
    world.remember("the zebra is fed at noon", time={"observed": format_instant(world.now - 2 * HALF_LIFE_MS)})
    world.remember("lunch is at noon")
    assert world.texts("zebra noon")[0] == "the zebra is fed at noon"


def test_an_old_answer_ranks_above_a_new_one_that_is_a_little_worse(world: World) -> None:
    crowd(world)
    world.remember("zebra crossing fed", time={"observed": format_instant(world.now - 20 * HALF_LIFE_MS)})
    world.remember("zebra crossing fed among others while lunch was cooked", lifecycle={"salience": 1.0})
    assert world.texts("zebra crossing fed")[0] == "zebra crossing fed"


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.2), (0.5, 1.0)])
def test_salience_decides_between_equals(world: World, low: float, high: float) -> None:
    world.remember("apple one", lifecycle={"salience": high})
    world.remember("apple two", lifecycle={"salience": low})
    assert world.texts("apple") == ["apple one", "apple two"]
    rated = signals(world, "apple")
    assert rated["apple one"]["score"] - rated["apple two"]["score"] == pytest.approx(
        WEIGHTS["salience"] * (high - low)
    )


def test_what_was_followed_ranks_above_what_was_overridden(world: World) -> None:
    names = [world.remember(f"apple {number}") for number in range(3)]
    world.feedback(names[0], "followed")
    world.feedback(names[2], "overridden")
    assert world.texts("apple") == ["apple 0", "apple 1", "apple 2"]


def test_the_scope_that_was_named_ranks_above_a_narrower_one(world: World) -> None:
    world.remember("apple wide", scope={"project": "p"})
    world.remember("apple narrow", scope={"project": "p", "session": "s", "user": "u"})
    asked: dict[str, Any] = {"scope": {"project": "p"}}
    assert world.texts("apple", **asked) == ["apple wide", "apple narrow"]
    rated = signals(world, "apple", **asked)
    assert rated["apple wide"]["scope_match"] == 1.0
    assert rated["apple narrow"]["scope_match"] == 0.5
    assert rated["apple wide"]["score"] - rated["apple narrow"]["score"] == pytest.approx(WEIGHTS["scope_match"] * 0.5)


def test_evidence_decides_for_who_prefers_it(world: World) -> None:
    for count in (1, 3, 2):
        evidence = [{"ref": f"source {number}"} for number in range(count)]
        provenance = {"actor": "a", "actor_kind": "user", "method": "m", "evidence": evidence}
        world.remember(f"apple {count}", provenance=provenance)
    prefer: dict[str, Any] = {"ranking_hints": {"prefer": ["provenance_depth"]}}
    assert world.texts("apple", **prefer) == ["apple 3", "apple 2", "apple 1"]


def test_the_score_is_the_weighted_sum_of_what_is_told(world: World) -> None:
    crowd(world)
    world.remember("zebra", lifecycle={"salience": 0.7}, scope={"project": "p"})
    rated = signals(world, "zebra common")["zebra"]
    # It answers best, so its relevance is 1.
    expected = RELEVANCE + sum(weight * rated[name] for name, weight in WEIGHTS.items())
    assert rated["score"] == pytest.approx(expected)
    assert sum(WEIGHTS.values()) + RELEVANCE == pytest.approx(1.0)


def test_of_equals_the_newest_comes_first_and_always_in_the_same_order(world: World) -> None:
    for number in range(6):
        world.remember(f"apple {number}", time={"observed": format_instant(world.now)})
    first = world.texts("apple")
    assert first == world.texts("apple")
    created = [each.record["time"]["created"] for each in world.recall("apple")]
    assert created == sorted(created, reverse=True)
    world.advance(5)
    world.remember("apple last", time={"observed": format_instant(world.now - 5)})
    assert world.texts("apple")[0] == "apple last"


def test_a_day_that_no_text_names_takes_nothing_from_the_words_around_it(world: World) -> None:
    crowd(world)
    world.remember("the boiler was repaired by Ines")

    def similarity(query: str) -> dict[str, float]:
        return {text: each["similarity"] for text, each in signals(world, query).items()}

    plain = similarity("who repaired the boiler")
    assert similarity("who repaired the boiler in May 2031") == plain
    assert similarity("who repaired the boiler in October 2031") == plain
    # Where one does, it tells.
    world.remember("the lease of the flat ends on 3 May 2031")
    assert world.texts("which lease ends on 3 May 2031")[0] == "the lease of the flat ends on 3 May 2031"
    assert similarity("who repaired the boiler in May 2031") != similarity("who repaired the boiler")


# --- dates, and questions that nothing answers -----------------------------------------------------------------


@pytest.mark.parametrize("has_meaning", [False, True])
def test_what_is_of_the_day_that_a_question_names_comes_first(has_meaning: bool) -> None:
    world = World(meaning=letters()) if has_meaning else World()
    try:
        at_lake, with_soup = "lunch with Ada at the lake", "lunch with Ada, a soup and bread"
        for day, text in (("2023-05-08", at_lake), ("2024-11-20", with_soup)):
            at = f"{day}T12:00:00Z"
            world.remember(text, time={"created": at, "observed": at, "valid_from": at})
        crowd(world)
        while has_meaning and world.service.embedding.step():
            pass
        # By their words alone the other one is better.
        assert world.texts("lunch with Ada, soup")[0] == with_soup
        found = world.recall("lunch with Ada, soup, on 8 May 2023", ranking_hints={"explain": True})
        assert found[0].record["body"]["text"] == at_lake
        assert found[0].reasons is not None
        assert found[0].reasons["date"].part > 0.5
        dateless: dict[str, Any] = {"ranking_hints": {"weights": {"date": 0}}}
        assert world.texts("lunch with Ada, soup, on 8 May 2023", **dateless)[0] == with_soup
    finally:
        world.service.close()


def test_a_stray_word_answers_no_question_that_nothing_is_near_to() -> None:
    """The best covers a tenth of the words or so: less than three tenths tell nothing (weights.GATE)."""
    world = World(meaning=lined())
    try:
        fill_garden(world.service, world.owner)
        world.remember("the trellis of bed 77 was painted green")
        while world.service.embedding.step():
            pass
        stray = "trellis winners olympic hockey championship medals awarded stockholm"
        assert 0.01 < covered_by(world, stray) < COVERAGE_GATE
        assert world.texts(stray) == []
        # What covers more of the words does answer.
        assert world.texts("who painted the trellis green")[0] == "the trellis of bed 77 was painted green"
    finally:
        world.service.close()


def covered_by(world: World, question: str) -> float:
    """Return how much of a question the best memory covers, by words."""
    with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
        return snapshot.match(Selection(at=world.now), (KeywordQuery(text=question),), limit=1, now=world.now).coverage
