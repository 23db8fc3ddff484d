"""Duplicates and stale facts among the current memories: found by what they say, and dismissed for good."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from memoranda.errors import ForbiddenScope
from memoranda.service.ump.findings import CurrentFindings, dismiss_finding, find_in_current
from tests.matrix.doors import WRITES, House

DAY = 86_400_000


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.service.close()


def find(house: House) -> CurrentFindings:
    return find_in_current(house.service.context, house.owner)


def write(house: House, text: str, *, kind: str = "semantic", **scope: str) -> str:
    house.advance(1000)
    return str(house.service.remember(house.owner, house.draft(text, kind=kind, scope={"project": "lab", **scope})).id)


def texts(house: House) -> list[list[str]]:
    return [[memory.text for memory in group.memories] for group in find(house).duplicates]


def test_memories_that_say_the_same_in_one_project_are_a_group_the_newest_first(house: House) -> None:
    write(house, "The parser is in the core.")
    write(house, "the parser is in core")
    write(house, "Parser in the CORE, not in the shell.")
    write(house, "The parser is in the core", project="other")
    write(house, "The parser is in the core!", user="ada")
    assert texts(house) == [["the parser is in core", "The parser is in the core."]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Trains go from Bern to Basel.", "Trains go from Basel to Bern."),
        ("The gate is open.", "The gate is not open."),
        ("Plan A is cheaper.", "Plan B is cheaper."),
        ("The port is 8080.", "The port is 8081."),
    ],
)
def test_what_differs_in_a_word_or_in_the_order_is_no_duplicate(house: House, first: str, second: str) -> None:
    write(house, first)
    write(house, second)
    assert texts(house) == []


def test_memories_of_other_standards_are_compared_too_and_what_was_forgotten_is_not(house: House) -> None:
    WRITES["oams store"](house, "The kiln is fired on Mondays.")
    house.advance(1000)
    name = write(house, "The kiln is fired on Mondays")
    assert len(texts(house)) == 1
    house.forget(name)
    assert texts(house) == []


@pytest.mark.parametrize(
    ("text", "is_stale"),
    [
        ("Ana is on leave until {after}.", True),
        ("The meeting is tomorrow.", True),
        ("The review is in 2 weeks.", True),
        ("The release was on {before}.", False),
        ("The conference is on {far}.", False),
        ("Standup is on Monday.", False),
        ("Nothing here has a date.", False),
    ],
)
def test_a_fact_about_a_day_that_has_passed_is_stale(house: House, text: str, is_stale: bool) -> None:
    from memoranda.model.instant import Instant, format_instant

    days = {"before": -10, "after": 20, "far": 400}
    named = {name: format_instant(Instant(house.now + count * DAY))[:10] for name, count in days.items()}
    write(house, text.format(**named))
    write(house, f"Seen: {text.format(**named)}", kind="episodic")
    write(house, f"Write dates so: {text.format(**named)}", kind="procedural")
    assert find(house).stale == []
    house.advance(60 * DAY)
    assert [fact.memory.text for fact in find(house).stale] == ([text.format(**named)] if is_stale else [])


def test_a_dismissed_finding_returns_only_when_its_memory_changes(house: House) -> None:
    name = write(house, "The fair is tomorrow.")
    write(house, "The oven is new.")
    write(house, "The oven is new")
    house.advance(5 * DAY)
    found = find(house)
    for key in (found.duplicates[0].key, found.stale[0].key):
        dismiss_finding(house.service.context, house.owner, key)
    assert find(house) == CurrentFindings(duplicates=[], stale=[])
    house.service.change(house.owner, name, "The big fair is tomorrow.")
    house.advance(5 * DAY)
    assert [fact.memory.text for fact in find(house).stale] == ["The big fair is tomorrow."]
    narrowed = replace(house.owner, limits={"project": "lab"})
    for call in (
        lambda: find_in_current(house.service.context, narrowed),
        lambda: dismiss_finding(house.service.context, narrowed, "x"),
    ):
        with pytest.raises(ForbiddenScope):
            call()
