"""The same statement, the same topic."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.consolidation.notes import NOTES, note

from memoranda.consolidation.strategies.reflection import cluster_pairs
from memoranda.consolidation.text.corpus import Corpus, content_words, read_sentence
from memoranda.consolidation.text.note import MemoryNote, order_notes, sort_by_strength
from memoranda.consolidation.text.similar import TfidfVectors, fold_duplicates, group_duplicates, jaccard_similarity


def same(first: str, second: str) -> bool:
    one, other = (read_sentence(note(text), 0, text).key for text in (first, second))
    return one == other


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The deploy day is Friday.", "Deploy day: Friday"),
        ("User likes dark mode in the editor", "The user likes dark mode in editor."),
        ("Please don't force-push", "Do not force-push!"),
        ("Das Büro liegt in der Nähe vom Bahnhof", "das Büro liegt in der Nähe vom Bahnhof!"),
        ("データベースはPostgreSQLです。", "データベースはPostgreSQLです"),
        ("To be or not to be.", "To be or not to be."),
    ],
)
def test_statements_that_differ_in_marks_case_or_an_article_are_the_same(first: str, second: str) -> None:
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
        ("Plan A is cheaper", "Plan B is cheaper"),
        ("It goes from X to Y", "It goes from Y to X"),
        ("Use C# here", "Use C here"),
        ("He likes tea", "She likes tea"),
        ("The user likes tea", "The user prefers tea"),
        ("The backup runs at 3", "The backup ran at 3"),
        ("We deploy on Fridays at 16:00", "We deploy on Fridays at 16:00 sharp"),
    ],
)
def test_another_number_denial_time_or_order_is_another_statement(first: str, second: str) -> None:
    assert not same(first, second)


def test_the_newest_stands_for_the_others_however_strong_they_are() -> None:
    old = note("The deploy day is Friday", "2026-01-01", weight=3.0)
    new = note("Deploy day: Friday", "2026-02-01")
    other = note("The deploy day is always Friday", "2026-03-15")
    corpus = Corpus([old, new, other])
    assert [corpus.sentences[root].note for root in fold_duplicates(corpus.sentences)] == [new, new, other]


def test_what_only_its_surroundings_explain_is_the_same_only_in_the_same_surroundings() -> None:
    bob, tom = note("Bob is the lead. He likes tea.", "2026-01-01"), note("Tom is new. He likes tea.", "2026-01-02")
    assert not group_duplicates(Corpus([bob, tom]))
    paid = [note("Paid the rent.", f"2026-0{month}-01", name=f"{month}") for month in (1, 2)]
    assert not group_duplicates(Corpus(paid))
    again = note("Paid the rent.", "2026-01-01", name="again")
    assert group_duplicates(Corpus([*paid, again])) == [(paid[0], again)]


def test_notes_are_duplicates_when_all_their_statements_are_the_same() -> None:
    first = note("Use pnpm here. The port is 8080.", "2026-01-01")
    second = note("- the port is 8080\n- use pnpm, here", "2026-01-02")
    other = note("Use pnpm here. The port is 8081.", "2026-01-03")
    assert group_duplicates(Corpus([other, second, first])) == [(first, second)]


def test_notes_about_the_same_are_more_alike_than_others() -> None:
    all_texts = [
        "postgres backup every night",
        "nightly postgres backup restored",
        "guitar lessons start",
        "garlic soup",
    ]
    vectors = TfidfVectors([content_words(text) for text in all_texts])
    assert [(pair.first, pair.second) for pair in vectors.similar_pairs(0.1)] == [(0, 1)]
    assert vectors.cosine(0, 0) == pytest.approx(1.0)
    assert vectors.cosine(0, 2) == 0.0
    assert set(vectors.shared_words(0, 1)) == {"postgr", "backup", "night"}
    assert jaccard_similarity({"a", "b"}, {"b", "c"}) == pytest.approx(1 / 3)


def test_groups_are_joined_strongest_first_up_to_a_size() -> None:
    pairs = [(0, 1), (1, 2), (3, 4), (2, 3)]
    assert cluster_pairs(6, pairs) == [(0, 1, 2, 3, 4)]
    assert cluster_pairs(6, pairs, largest=3) == [(0, 1, 2), (3, 4)]


def test_of_two_notes_with_one_name_the_newer_counts() -> None:
    notes = [MemoryNote("a", "new", 2), MemoryNote("a", "old", 1), MemoryNote("b", "x", 0)]
    assert order_notes(notes) == order_notes(reversed(notes)) == [MemoryNote("b", "x", 0), MemoryNote("a", "new", 2)]


def test_strange_weights_do_not_decide() -> None:
    strange = [MemoryNote("a", "", 0, (), float("nan"), float("nan")), MemoryNote("b", "", 0, (), 2.0, float("inf"))]
    sure = MemoryNote("c", "", 0, (), 0.9, 1.0)
    assert sort_by_strength([*strange, sure])[0] == sure


@given(notes=NOTES)
@settings(max_examples=60)
def test_what_stands_for_a_sentence_stands_for_itself(notes: list[MemoryNote]) -> None:
    stands_for = fold_duplicates(Corpus(notes).sentences)
    assert all(stands_for[root] == root for root in stands_for)
