"""One order: whoever asks the same of the same memories gets them in the same order, through every standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoranda.model.instant import format_instant
from memoranda.standards.oms.mapping import text_of
from memoranda.standards.oms.requests import FindRequest
from tests.service.test_retrieve import DAY, through_oams, through_openwop
from tests.service.world import World

TALK = (
    "Ada: I went down to the harbour to paint",
    "Bob: which colours do you paint with?",
    "Ada: mostly green and a little grey",
    "Bob: the harbour is grey in winter",
)
NOTES = (
    "Bob: colours of the logo are settled",
    "Ada: paint the fence before winter, in green",
    "Ada: the harbour office opens at nine",
    "Bob: grey paint is sold out",
)
QUESTIONS = (
    "which colours does Ada paint the harbour with",
    "grey in winter",
    "what did Ada say of the harbour in March",
    "paint",
)


def through_ump(world: World, question: str) -> list[str]:
    return [each.record["body"]["text"] for each in world.recall(question, limit=50)]


def through_oms(world: World, question: str) -> list[str]:
    page = world.service.grains.find(world.owner, FindRequest.parse({"text": question, "limit": 50}))
    return [text_of(each.stored.grain) for each in page.results]


def through_cal(world: World, question: str) -> list[str]:
    answer = world.service.cal.run(world.owner, f'RECALL LIKE "{question}" | LIMIT 50')
    return [_text(each["grain"]) for each in answer["results"]]


def _text(grain: dict[str, Any]) -> str:
    return str(grain.get("content") or grain.get("object"))


Door = Callable[[World, str], list[str]]
OTHERS: dict[str, Door] = {
    "oms": through_oms,
    "cal": through_cal,
    "oams": lambda world, question: [text for text, _ in through_oams(world, world.owner, question)],
    "openwop": lambda world, question: [text for text, _ in through_openwop(world, world.owner, question)],
}


@pytest.fixture
def told(world: World) -> World:
    for session, texts in (("talk", TALK), ("notes", NOTES)):
        for text in texts:
            world.advance(DAY)
            at = format_instant(world.now)
            world.remember(text, kind="episodic", scope={"session": session}, time={"observed": at, "valid_from": at})
    return world


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("door", OTHERS)
def test_the_order_is_the_same_through_every_door(told: World, door: str, question: str) -> None:
    expected = through_ump(told, question)
    assert len(expected) > 2
    assert [_whole(text) for text in OTHERS[door](told, question)] == expected


REPEATS = ("Ada drinks green tea.", "ada drinks  green tea", "Ada drinks green tea!", '"Ada drinks green tea"')
ALIKE = ("Ada drinks green tea, never black", "Ada drinks green tea #2", "does Ada drink tea?")


@pytest.mark.parametrize("door", ["ump", *OTHERS])
def test_what_says_the_same_again_comes_last(world: World, door: str) -> None:
    """Copies do not take the room of other answers; what differs in a word or a sign is no copy."""
    for text in (*REPEATS[:2], *ALIKE, *REPEATS[2:]):
        world.advance(DAY)
        world.remember(text, kind="episodic")
    found = {"ump": through_ump, **OTHERS}[door](world, "Ada drinks green tea")
    shown = [next(text for text in (*ALIKE, *REPEATS) if text in each) for each in found]
    # The last that was written stands for the others.
    assert shown[0] == REPEATS[-1]
    assert set(shown[1:4]) == set(ALIKE)
    assert set(shown[4:]) == set(REPEATS[:-1])


def _whole(shown: str) -> str:
    """The text that something shows, whatever it puts before or behind it."""
    return next(text for text in (*TALK, *NOTES) if text in shown)
