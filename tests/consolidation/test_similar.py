"""The same statement, the same topic."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.consolidation.notes import NOTES, note

from memoranda.consolidation.text.cluster import clusters
from memoranda.consolidation.text.note import Note, ordered, strongest_first
from memoranda.consolidation.text.reading import Reading, content_words, read_sentence
from memoranda.consolidation.text.similar import Vectors, fold, jaccard, same_statement_groups, say_the_same


def same(first: str, second: str) -> bool:
    pair = [read_sentence(note(text), 0, text) for text in (first, second)]
    assert say_the_same(*pair) == say_the_same(*reversed(pair))
    return say_the_same(*pair)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The deploy day is Friday.", "Deploy day: Friday"),
        ("User likes dark mode in the editor", "The user prefers dark mode in the editor."),
        ("Deploys happen on Fridays at 16:00.", "We deploy on Fridays at 16:00."),
        ("Das Büro liegt in der Nähe vom Bahnhof", "das büro liegt in der nähe vom bahnhof!"),
        ("データベースはPostgreSQLです。", "データベースはPostgreSQLです"),
        ("To be or not to be.", "To be or not to be."),
    ],
)
def test_statements_in_other_words_order_or_case_are_the_same(first: str, second: str) -> None:
    assert same(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The port is 8080", "The port is 9090"),
        ("The plan costs $30", "The plan costs €30"),
        ("The API uses JWT", "The API does not use JWT"),
        ("The API uses JWT", "The API will use JWT"),
        ("The API uses JWT", "The staging API uses JWT"),
        ("Alice pays Bob", "Bob pays Alice"),
        (
            "The north office contract was signed by the legal team",
            "The south office contract was signed by the legal team",
        ),
        ("Der Server ist schnell genug für die volle Last", "Der Server ist nicht schnell genug für die volle Last"),
        ("猫が好きです", "猫が好きではない"),
        ("", "something"),
    ],
)
def test_another_number_denial_time_or_order_is_another_statement(first: str, second: str) -> None:
    assert not same(first, second)


def test_the_stronger_and_later_wording_stands_for_the_others() -> None:
    old = note("The deploy day is Friday", "2026-01-01")
    new = note("Deploy day: Friday", "2026-02-01")
    strong = note("The deploy day is always Friday", "2026-01-15", weight=3.0)
    reading = Reading([old, new])
    assert [reading.sentences[root].note for root in fold(reading.sentences)] == [new, new]
    reading = Reading([old, new, strong])
    assert {reading.sentences[root].text for root in fold(reading.sentences)} == {"Deploy day: Friday", strong.text}


def test_notes_are_duplicates_when_all_their_statements_are_the_same() -> None:
    first = note("Use pnpm here. The port is 8080.", "2026-01-01")
    second = note("- the port is 8080\n- use pnpm, here", "2026-01-02")
    other = note("Use pnpm here. The port is 8081.", "2026-01-03")
    assert same_statement_groups(Reading([other, second, first])) == [(first, second)]


def test_notes_about_the_same_are_more_alike_than_others() -> None:
    all_texts = [
        "postgres backup every night",
        "nightly postgres backup restored",
        "guitar lessons start",
        "garlic soup",
    ]
    vectors = Vectors([content_words(text) for text in all_texts])
    assert [(pair.first, pair.second) for pair in vectors.pairs(0.1)] == [(0, 1)]
    assert vectors.cosine(0, 0) == pytest.approx(1.0)
    assert vectors.cosine(0, 2) == 0.0
    assert set(vectors.shared(0, 1)) == {"postgr", "backup", "night"}
    assert jaccard({"a", "b"}, {"b", "c"}) == pytest.approx(1 / 3)


def test_groups_are_joined_strongest_first_up_to_a_size() -> None:
    pairs = [(0, 1), (1, 2), (3, 4), (2, 3)]
    assert clusters(6, pairs) == [(0, 1, 2, 3, 4)]
    assert clusters(6, pairs, largest=3) == [(0, 1, 2), (3, 4)]


def test_of_two_notes_with_one_name_the_newer_counts() -> None:
    notes = [Note("a", "new", 2), Note("a", "old", 1), Note("b", "x", 0)]
    assert ordered(notes) == ordered(reversed(notes)) == [Note("b", "x", 0), Note("a", "new", 2)]


def test_strange_weights_do_not_decide() -> None:
    strange = [Note("a", "", 0, (), float("nan"), float("nan")), Note("b", "", 0, (), 2.0, float("inf"))]
    sure = Note("c", "", 0, (), 0.9, 1.0)
    assert strongest_first([*strange, sure])[0] == sure


@given(notes=NOTES)
@settings(max_examples=60)
def test_what_stands_for_a_sentence_stands_for_itself(notes: list[Note]) -> None:
    stands_for = fold(Reading(notes).sentences)
    assert all(stands_for[root] == root for root in stands_for)
