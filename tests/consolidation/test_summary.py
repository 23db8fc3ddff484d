"""The extractive summary."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.consolidation.notes import NOTES, NOW, note

from memoranda.consolidation.text.corpus import Corpus
from memoranda.consolidation.text.note import MemoryNote, estimate_tokens
from memoranda.consolidation.text.sentences import split_sentences
from memoranda.consolidation.text.summary import summarize

COUNTERS = {"bytes/4": estimate_tokens, "words": lambda text: len(text.split()), "characters": len}


def test_chosen_sentences_are_unchanged_in_order_and_not_repeated() -> None:
    notes = [
        note("The billing service uses PostgreSQL 16. It was a sunny day.", "2026-01-01"),
        note("Billing service uses PostgreSQL 16", "2026-01-05"),
        note("Decisions:\n- The package manager is npm.", "2026-01-10"),
        note("The package manager is pnpm.", "2026-03-20"),
        note("Backups of the billing database run every night at 02:00.", "2026-03-25"),
    ]
    summary = summarize(Corpus(notes), budget_tokens=34, now=NOW)
    assert summary.text == (
        "- Billing service uses PostgreSQL 16\n- The package manager is pnpm.\n"
        "- Backups of the billing database run every night at 02:00."
    )
    assert notes[0] in summary.notes, "a note that says the same is cited too"
    assert summary.tokens == 32


def test_below_its_cheapest_sentence_a_summary_is_empty_and_says_what_it_needs() -> None:
    corpus = Corpus([note("One two three four five."), note("A considerably longer sentence than the other one.")])
    short = summarize(corpus, budget_tokens=5, now=NOW)
    assert (short.text, short.tokens, short.smallest_tokens, short.notes) == ("", 0, 6, ())
    assert summarize(corpus, budget_tokens=6, now=NOW).text == "One two three four five."
    assert summarize(Corpus([]), budget_tokens=6, now=NOW).smallest_tokens == 0


def test_room_that_is_left_is_used() -> None:
    notes = [note(f"{who} lives in {where}.") for who in ("Ann", "Bob", "Cid") for where in ("Rome", "Oslo", "Bonn")]
    summary = summarize(Corpus(notes), budget_tokens=1_000, now=NOW)
    assert summary.left_out == 0


@given(notes=NOTES, budget=st.integers(1, 80), counter=st.sampled_from(sorted(COUNTERS)))
@settings(max_examples=120)
def test_no_budget_is_ever_exceeded_whoever_counts(notes: list[MemoryNote], budget: int, counter: str) -> None:
    count = COUNTERS[counter]
    summary = summarize(Corpus(notes), budget_tokens=budget, now=NOW, count=count)
    assert count(summary.text) <= budget
    assert summary.tokens == (count(summary.text) if summary.text else 0)
    assert {sentence.note for sentence in summary.sentences} <= set(summary.notes)
    assert all(sentence.text in split_sentences(sentence.note.text) for sentence in summary.sentences)
