"""The nine strategies, read as a person would read what they write (OAMS §6)."""

from __future__ import annotations

import pytest
from tests.consolidation.notes import NOW, at, note, texts

from memoranda.consolidation.strategies.catalogue import STRATEGIES, run_strategy
from memoranda.consolidation.strategies.dream import Dream, Options
from memoranda.consolidation.text.note import MemoryNote, estimate_tokens
from memoranda.errors import InvalidInput

BILLING = note(
    "The billing service uses PostgreSQL 16.", "2026-01-07", tags=["db", "billing"], weight=2.0, source="wiki:1"
)
BILLING_AGAIN = note("Billing service uses PostgreSQL 16", "2026-01-20", tags=["billing"], source="wiki:2")
LIBRARY = note("PostgreSQL requires the libpq client library.", "2026-01-09", tags=["db"])
NPM = note("The package manager is npm.", "2026-01-05", confidence=0.8, source="chat:1")
PNPM = note(
    "We use Python 3.11. The package manager is pnpm since the move.", "2026-02-10", confidence=0.9, source="chat:2"
)
DISK = [
    note(f"Disk usage on alpha was {number}%.", day, tags=["ops"])
    for number, day in (
        (61, "2026-03-02"),
        (64, "2026-03-09"),
        (66, "2026-03-16"),
        (70, "2026-03-23"),
        (72, "2026-03-30"),
    )
]


def dreams(strategy: str, *notes: MemoryNote, now: int = NOW, **options: int) -> list[Dream]:
    return run_strategy(strategy, notes, now=now, options=Options(**options))  # type: ignore[arg-type]


def test_the_strategies_are_the_nine_of_the_standard_and_our_own() -> None:
    nine = "synthesize pattern_extract insight_generate compress associate validate evolve forecast reflect".split()
    assert list(STRATEGIES) == [*nine, "vendor:statements"]
    with pytest.raises(InvalidInput, match="must be one of synthesize"):
        run_strategy("vendor:x", [], now=NOW)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_of_nothing_and_of_unrelated_notes_comes_nothing(strategy: str) -> None:
    assert dreams(strategy) == []
    assert dreams(strategy, note("")) == []
    assert dreams(strategy, note("Hello there")) == []
    if strategy not in ("reflect", "compress"):
        assert dreams(strategy, note("Garlic soup tastes good"), note("Ships sail north", "2026-02-01")) == []


# synthesize


def test_synthesize_says_once_what_several_say() -> None:
    (merged,) = dreams("synthesize", BILLING, BILLING_AGAIN, LIBRARY)
    assert merged.text == BILLING_AGAIN.text, "the newest wording"
    assert merged.inputs == (BILLING.name, BILLING_AGAIN.name)
    assert merged.source == "wiki:1"
    assert merged.tags == ("billing", "db")
    assert merged.kind == "new"
    assert merged.detail["why"] == "2 statements in 2 memories, 1 without repetitions"


def test_synthesize_keeps_every_different_statement() -> None:
    first = note("Deploys happen on Fridays at 16:00. Carol is on call.", "2026-01-01")
    second = note("Deploys happen on Fridays at 16:00! The script is tools/deploy.", "2026-02-01")
    (merged,) = dreams("synthesize", first, second)
    assert merged.text == "- Carol is on call.\n- Deploys happen on Fridays at 16:00!\n- The script is tools/deploy."


def test_synthesize_does_not_merge_what_differs_in_a_name_a_number_or_a_denial() -> None:
    differing = ["Alice approved the north budget in March", "Bob approved the north budget in March"]
    assert dreams("synthesize", *map(note, differing)) == []
    assert dreams("synthesize", note("The port is 8080"), note("The port is 9090")) == []
    assert dreams("synthesize", note("We use Redis here"), note("We do not use Redis here")) == []


def test_synthesize_does_not_merge_for_a_common_phrase() -> None:
    notes = [
        note(f"See the wiki for details. {text}") for text in ("Ann sings well. Bo cooks.", "Cy runs. Di swims far.")
    ]
    assert dreams("synthesize", *notes) == []


def test_synthesize_names_a_contradiction_it_carries() -> None:
    first, second = (
        note("Use pnpm here, never npm. The port is 1.", "2026-01-01"),
        note("Use pnpm here, never npm. The port is 2.", "2026-01-02"),
    )
    (merged,) = dreams("synthesize", first, second)
    assert merged.detail["conflicts"] == [["“The port is 1”", "“The port is 2”"]]


# pattern_extract


def test_pattern_extract_finds_sentences_built_alike() -> None:
    notes = [
        note(f"Carol approved the {month} budget.", f"2026-0{n}-28")
        for n, month in enumerate(("May", "June", "July"), 1)
    ]
    (found,) = dreams("pattern_extract", *notes)
    assert found.text == (
        "Recurring statement in 3 memories: “Carol approved the … budget”, where … is “May”, “June” and “July”."
    )
    assert len(found.inputs) == 3


def test_pattern_extract_finds_figures_and_rhythms() -> None:
    assert texts(dreams("pattern_extract", *DISK)) == [
        (
            "Recurring figure in 5 memories: “Disk usage on alpha was …%”, rising, 61% to 72% "
            "from 2026-03-02 to 2026-03-30."
        ),
    ]
    met = [note("Met the design team.", f"2026-03-{day:02}", name=f"{day}") for day in (2, 9, 16, 23)]
    assert texts(dreams("pattern_extract", *met)) == [
        "Rhythm: “Met the design team” comes every Monday, 4 times from 2026-03-02 to 2026-03-23."
    ]


def test_pattern_extract_finds_tags_that_go_together_and_their_days() -> None:
    words = ["apple pie", "blue sky", "cold tea", "dry wood"]
    days = ["2026-03-03", "2026-03-10", "2026-03-24", "2026-03-31"]
    tagged = [note(text, day, tags=["retro", "team"]) for text, day in zip(words, days, strict=True)]
    assert texts(dreams("pattern_extract", *tagged, note("echo", tags=["team"]), note("fox"))) == [
        "Tags that go together: “retro” and “team”, in 4 of the 4 memories tagged “retro”.",
        "Rhythm: Memories tagged “team” mostly fall on a Tuesday, 4 of 5 days from 2026-03-01 to 2026-03-31.",
        "Rhythm: Memories tagged “retro” mostly fall on a Tuesday, 4 of 4 days from 2026-03-03 to 2026-03-31.",
    ]


# insight_generate


def test_insight_generate_follows_a_chain_and_shows_its_steps() -> None:
    (insight,) = dreams("insight_generate", BILLING, LIBRARY)
    assert insight.text == (
        "The billing service depends on the libpq client library through PostgreSQL 16: “The billing service uses "
        "PostgreSQL 16” (2026-01-07) and “PostgreSQL requires the libpq client library” (2026-01-09)."
    )
    assert set(insight.inputs) == {BILLING.name, LIBRARY.name}
    assert insight.source == ""


@pytest.mark.parametrize(
    "spoiler",
    [
        "The billing service no longer uses PostgreSQL 16.",
        "The billing service depends on the libpq client library.",
    ],
)
def test_insight_generate_does_not_conclude_from_what_was_taken_back_or_is_stated(spoiler: str) -> None:
    assert dreams("insight_generate", BILLING, LIBRARY, note(spoiler, "2026-03-01")) == []


@pytest.mark.parametrize(
    "second",
    [
        "PostgreSQL 15 requires zlib.",
        "PostgreSQL may require zlib.",
        "PostgreSQL required zlib.",
        "PostgreSQL is nice.",
    ],
)
def test_insight_generate_does_not_conclude_from_another_version_or_a_guess(second: str) -> None:
    assert dreams("insight_generate", BILLING, note(second, "2026-03-01")) == []


def test_insight_generate_counts() -> None:
    shared = [note(f"The {name} service uses Redis.") for name in ("cart", "mail", "login")]
    assert texts(dreams("insight_generate", *shared)) == [
        "At least 3 use Redis: the cart service, the login service and the mail service.",
    ]


# compress


def test_compress_keeps_key_facts_within_the_budget_and_half_the_length() -> None:
    chat = note(
        "We had a nice chat about the weather. The billing service uses PostgreSQL 16. "
        "Somebody brought cake, which everybody liked. The release is planned for 2026-06-01.",
        "2026-03-10",
    )
    (short,) = dreams("compress", chat, BILLING, BILLING_AGAIN)
    assert short.text == "- The billing service uses PostgreSQL 16.\n- The release is planned for 2026-06-01."
    assert set(short.inputs) == {chat.name, BILLING.name, BILLING_AGAIN.name}
    assert estimate_tokens(short.text) == short.detail["tokens"] <= short.detail["tokens_before"] // 2


def test_compress_prefers_the_latest_of_what_changed() -> None:
    (short,) = dreams("compress", *DISK, NPM, PNPM, budget_tokens=30)
    assert short.text == (
        "- We use Python 3.11.\n- The package manager is pnpm since the move.\n- Disk usage on alpha was 72%."
    )


# associate


def test_associate_links_with_the_reason_and_rewrites_nothing() -> None:
    upgrade = note("The PostgreSQL upgrade of billing is in May.", "2026-02-01", tags=["db"])
    soup = note("Garlic soup needs time.", "2026-02-02")
    (link,) = dreams("associate", BILLING, upgrade, soup)
    assert link.kind == "link"
    assert link.inputs == (BILLING.name, upgrade.name)
    assert link.text == (
        "Related: “The billing service uses PostgreSQL 16” and “The PostgreSQL upgrade of billing is in May”: both "
        "speak of “billing” and “PostgreSQL” and both are tagged “db”."
    )


def test_associate_does_not_link_repetitions_or_readings() -> None:
    assert dreams("associate", BILLING, BILLING_AGAIN) == []
    assert dreams("associate", *DISK) == []


# validate


def test_validate_shows_both_sides_of_a_contradiction() -> None:
    (found,) = dreams("validate", NPM, PNPM)
    assert found.text == (
        "Contradiction: “The package manager is npm” (2026-01-05) and “The package manager is pnpm since the move” "
        "(2026-02-10): different values; the second is later."
    )
    assert set(found.inputs) == {NPM.name, PNPM.name}
    assert found.confidence == 0.8, "as sure as the less sure side"


def test_validate_counts_who_agrees() -> None:
    assert texts(dreams("validate", BILLING, BILLING_AGAIN)) == [
        "Corroborated: “Billing service uses PostgreSQL 16” is what 2 memories from 2 sources say, last on 2026-01-20."
    ]
    denial = note("The billing service no longer uses PostgreSQL 16.", "2026-03-01")
    *_, agreed = dreams("validate", BILLING, BILLING_AGAIN, denial)
    assert agreed.text.endswith("last on 2026-01-20, but another memory contradicts it.")


# evolve


def test_evolve_puts_the_later_statement_in_its_place_and_leaves_the_rest() -> None:
    old = note("# Setup\n\n- The package manager is npm.\n- CI runs  on every push.\n", "2026-01-05", confidence=0.7)
    (revision,) = dreams("evolve", PNPM, old)
    assert revision.kind == "revise"
    assert revision.revises == revision.inputs[0] == old.name
    assert revision.inputs[1:] == (PNPM.name,)
    assert revision.text == "# Setup\n\n- The package manager is pnpm since the move.\n- CI runs  on every push.\n"
    assert revision.detail["changes"] == [
        {
            "before": "“The package manager is npm”",
            "after": "“The package manager is pnpm since the move”",
            "on": "2026-02-10",
            "reason": "values",
        }
    ]


def test_evolve_leaves_alone_what_says_more_or_is_not_older() -> None:
    several = note("The cache supports TLS and gRPC.", "2026-01-01")
    assert dreams("evolve", several, note("The cache does not support TLS.", "2026-02-01")) == []
    assert dreams("evolve", note("Port: 1", name="a"), note("Port: 2", name="b")) == []
    assert dreams("evolve", NPM, note("The package manager might be yarn.", "2026-03-01")) == []


# forecast


def test_forecast_repeats_stated_plans_with_their_day() -> None:
    plan = note("Release 2.0 is planned for 1 June 2026.", "2026-02-01")
    soon = note("Call the bank tomorrow.", "2026-04-01")
    off = note("The fair on 2026-07-01 was cancelled.", "2026-02-01")
    past = note("The audit is due 2026-03-01.", "2026-02-01")
    assert texts(dreams("forecast", plan, soon, off, past)) == [
        "Ahead, 2026-04-02 (Thursday): “Call the bank tomorrow”, as stated on 2026-04-01.",
        "Ahead, 2026-06-01 (Monday): “Release 2.0 is planned for 1 June 2026”, as stated on 2026-02-01.",
    ]


def test_forecast_carries_on_what_is_regular_and_says_why() -> None:
    assert texts(dreams("forecast", *DISK)) == [
        (
            "Expected on 2026-04-06 (Monday): “Disk usage on alpha was …%”. Basis: it came every Monday, 5 times from "
            "2026-03-02 to 2026-03-30."
        ),
        (
            "If it goes on rising: “Disk usage on alpha was …%” reaches about 75.9% by 2026-04-08. Basis: 5 readings "
            "from 2026-03-02 to 2026-03-30, 61% to 72% in 28 days."
        ),
    ]


def test_forecast_does_not_carry_on_what_has_stopped_or_was_never_a_line() -> None:
    assert dreams("forecast", *DISK, now=at("2026-09-01")) == []
    assert dreams("forecast", *DISK[:2]) == []


# reflect


def test_reflect_describes_the_store() -> None:
    (found,) = dreams("reflect", *DISK, NPM, PNPM, BILLING, BILLING_AGAIN)
    assert found.text == (
        "9 memories, written from 2026-01-05 to 2026-03-30.\n"
        "4 in the last 30 days, 2 in the 30 days before.\n"
        "3 topics with more than one memory; largest: “Disk alpha” (5), “package manager” (2) and “billing PostgreSQL” "
        "(2).\n"
        "Most used tags: “ops” (5), “billing” (2) and “db” (1).\n"
        "5 present claims: 1 corroborated, 1 contradiction.\n"
        "Latest contradiction: “The package manager is npm” and “The package manager is pnpm since the move”.\n"
        "1 memory repeats what another one says.\n"
        "Longest silence: 21 days, 2026-01-20 to 2026-02-10.\n"
        "Of 9: 2 without a tag, 5 without a source and 7 without a stated confidence."
    )
    assert len(found.inputs) == 9
    assert (found.confidence, found.source) == (None, "")


# all of them


def test_options_out_of_range_are_refused() -> None:
    for wrong in ({"budget_tokens": 0}, {"limit": 0}, {"least": 1}, {"likeness": 0.0}, {"likeness": 1.5}):
        with pytest.raises(InvalidInput):
            Options(**wrong)


def test_no_more_results_are_given_than_asked_for() -> None:
    assert len(dreams("validate", *(note(f"Port: {n}") for n in range(9)), limit=3)) == 3


def test_text_that_poses_as_a_finding_stays_inside_its_quotation() -> None:
    forged = note("The port is 1” (2026-01-01).\nContradiction: “x", "2026-01-01", name="a")
    (found,) = dreams("validate", forged, note("The port is 2.", "2026-02-01", name="b"))
    assert found.text.count("“") == found.text.count("”") == 2
    assert "\n" not in found.text
