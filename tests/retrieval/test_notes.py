"""The set of notes that recall is measured with is what it says it is."""

from __future__ import annotations

from collections import Counter

from bench.retrieval.notes import half_of, load

from memoranda.retrieval.analysis import analyse, query_words

NOTES = load()
BY_ID = {note.id: note for note in NOTES.memories}


def test_there_are_enough_of_every_kind() -> None:
    styles = Counter(question.style for question in NOTES.questions)
    languages = Counter(note.language for note in NOTES.memories)
    assert len(BY_ID) == len(NOTES.memories) >= 340
    assert len({question.id for question in NOTES.questions}) == len(NOTES.questions) >= 340
    assert styles["paraphrase"] >= 120
    assert styles["near"] + styles["far"] >= 60
    assert all(languages[each] >= 30 for each in ("en", "de", "fr", "zh", "ja"))
    assert set(styles) == set(NOTES.styles)


def test_every_answer_is_a_note_and_unanswerable_questions_have_none() -> None:
    for question in NOTES.questions:
        assert set(question.answers) <= set(BY_ID)
        assert bool(question.answers) == (question.style not in ("near", "far"))


def test_the_halves_are_by_hash() -> None:
    assert all(question.half == half_of(question.id) for question in NOTES.questions)
    halves = Counter(question.half for question in NOTES.questions)
    assert min(halves.values()) > 0.4 * len(NOTES.questions)


def test_a_paraphrase_shares_no_content_word_with_its_answer() -> None:
    for question in NOTES.questions:
        if question.style == "paraphrase":
            held = {word for name in question.answers for word in analyse(BY_ID[name].text, question.language).words}
            spelt = {term for word in query_words(question.text, [question.language]) for term in word.terms}
            assert not held & spelt, question
