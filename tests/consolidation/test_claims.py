"""Claims, and where they do not fit together."""

from __future__ import annotations

import pytest
from tests.consolidation.notes import note

from memoranda.consolidation.text.claims import (
    current_claims,
    find_agreements,
    find_conflicts,
    parse_claims,
    read_claims,
)
from memoranda.consolidation.text.corpus import Corpus


def read(text: str) -> list[tuple[str, str, str]]:
    """Subject, verb and value; a denied verb begins with "not"."""
    return [
        (claim.subject, ("not " if claim.is_denied else "") + claim.predicate.name, claim.value)
        for claim in parse_claims(note(text), 0, text)
        if claim.mood == "fact"
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The package manager is pnpm.", [("The package manager", "is", "pnpm")]),
        ("**Editor**: Vim", [("Editor", "is", "Vim")]),
        ("数据库：PostgreSQL", [("数据库", "is", "PostgreSQL")]),
        ("The cache supports TLS, HTTP/2 and gRPC.", [("The cache", "supports", v) for v in ("TLS", "HTTP/2", "gRPC")]),
        ("The API no longer uses JWT.", [("The API", "not uses", "JWT")]),
        ("The office isn't in Paris.", [("The office", "not is in", "Paris")]),
        ("Dave avoids sugar", [("Dave", "not uses", "sugar")]),
        ("Dave dislikes tea", [("Dave", "not prefers", "tea")]),
        ("Redis is used by the cart service.", [("the cart service", "uses", "Redis")]),
        ("The user stopped using Vim.", [("The user", "not uses", "Vim")]),
        ("Update: as of 2026-03-01, the limit is 5 MB.", [("the limit", "is", "5 MB")]),
        ("The team switched from npm to pnpm.", [("The team", "uses", "pnpm"), ("The team", "not uses", "npm")]),
        ("The API uses JWT because sessions did not scale.", [("The API", "uses", "JWT")]),
    ],
)
def test_a_plain_statement_is_read(text: str, found: list[tuple[str, str, str]]) -> None:
    assert read(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "It is broken.", "Is the port 8080?", "If it rains, the port is 5.", "Bob says the port is 7070.", "Uses npm",
        "The API will use OAuth.", "The API should use OAuth.", "The server was in Paris.",
        "Alice used to live in Rome.",
        "The price is about 2000 USD.", "TODO: the port is 1", "https://a.example/x = y", "She works at Acme.", "",
        "x" * 400 + " is y", "is is is", "a : b : c", "The team has been using Slack.",
    ],
)  # fmt: skip
@pytest.mark.requirement("WOP-OURS-commitment-todo")
def test_what_is_not_plainly_claimed_now_is_not_read(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The package manager is npm.", "The package manager is pnpm since March."),
        ("Port: 8080", "The port is 9090."),
        ("The billing service uses PostgreSQL 15.", "Billing service uses PostgreSQL 16"),
        ("The billing service does not use Redis.", "The billing service uses Redis."),
        ("Alice lives in Paris.", "Alice moved from Paris to Berlin."),
        ("Alice lives in Paris.", "Alice moved to Rome last year."),
        ("The team uses npm.", "The team switched from npm to pnpm."),
        ("The user prefers tabs over spaces.", "User prefers spaces to tabs."),
        ("User prefers dark mode.", "User prefers light mode."),
        ("The team uses npm for builds.", "The team uses pnpm for builds."),
        ("Two-factor login is enabled.", "Two-factor login is disabled."),
        ("Carol has 3 cats.", "Carol has 5 cats."),
        ("The latency of search is 30 ms.", "Search's latency is 45 ms."),
        ("Standup is at 10:00.", "Standup is at 11:00."),
        ("The deadline is 2026-09-01.", "Deadline: 2026-10-01"),
        ("The archive runs PostgreSQL 14.", "The archive runs PostgreSQL 16."),
        ("The office is in Lisbon.", "The office is now in Porto."),
        ("The retro is every second Wednesday.", "The retro moved to Thursdays."),
        ("The offsite is on 14 November.", "The offsite was postponed to 21 November."),
        ("The fair is on 3 March.", "The fair is on 10 March."),
        ("The team is led by Marek.", "Aisha leads the team."),
        ("Our vet is Dr. Hoffmann.", "Our vet is Dr. Brandt."),
        ("Package manager: npm", "We switched from npm to pnpm."),
        ("The car is parked on level 2.", "The car is parked on level 4."),
        ("The choir meets in the hall.", "The choir meets in the gym now."),
        ("Archive was slow.\nThe archive is kept for 30 days.", "The archive is kept for 14 days."),
    ],
)
def test_two_claims_that_cannot_both_hold_are_found(earlier: str, later: str) -> None:
    notes = [note(earlier, "2026-01-01"), note(later, "2026-02-01")]
    (conflict,) = find_conflicts(Corpus(notes))
    assert (conflict.earlier.sentence, conflict.later.sentence) == (earlier.split("\n")[-1], later)
    assert earlier not in {claim.sentence for claim in current_claims(Corpus(notes))}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The server is fast.", "The server is old."),
        ("The port is 8080 in staging.", "The port is 9090 in production."),
        ("Alice uses Vim.", "Alice uses Emacs."),
        ("User prefers tea.", "User prefers quiet rooms."),
        ("The server was in Paris.", "The server is in Rome."),
        ("The API uses JWT.", "The API will not use JWT."),
        ("Bug: login fails", "Bug: export fails"),
        ("My color is blue.", "Your color is green."),
        ("His birthday is 1 May.", "Her birthday is 2 May."),
        ("The cache supports HTTP/2", "The cache supports HTTP/3"),
        ("The port of billing is 1.", "The port of search is 2."),
        ("TLS is required.", "TLS is required."),
        ("Cow 114 limps on the left leg.", "Cow 141 limps on the left leg."),
        ("Samples from site 3 arrive on Mondays.", "Samples from site 4 arrive on Mondays."),
        ("Yoga is on Mondays at 18:00.", "Yoga is on Thursdays at 19:30."),
        ("The fair is on 3 January.", "The fair is on 10 February."),
        ("We use Redis.", "We use Kafka."),
        ("The choir meets in the hall.", "The choir meets in the gym."),
        ("The late shift starts at 14:00.", "The early shift starts at 6:00."),
    ],
)
def test_claims_that_can_both_hold_are_left_alone(first: str, second: str) -> None:
    notes = [note(first, "2026-01-01", name="a"), note(second, "2026-02-01", name="b")]
    assert find_conflicts(Corpus(notes)) == []


def test_of_many_values_each_is_held_against_the_latest() -> None:
    notes = [note(f"Port: {8000 + day}", f"2026-01-{day:02}") for day in (1, 2, 3)]
    found = find_conflicts(Corpus(notes))
    assert [(each.earlier.value, each.later.value) for each in found] == [("8001", "8003"), ("8002", "8003")]


def test_readings_of_one_amount_are_a_series_and_no_dispute() -> None:
    notes = [note(f"Disk usage is {60 + day}%", f"2026-01-{day:02}") for day in (1, 2, 3)]
    assert find_conflicts(Corpus(notes)) == []


def test_claims_made_alike_agree_whatever_their_wording() -> None:
    notes = [note("The user likes dark mode.", "2026-01-01"), note("User likes dark mode", "2026-01-02")]
    ((first, second),) = find_agreements(read_claims(Corpus(notes)))
    assert (first.note, second.note) == tuple(notes)


def test_where_no_side_is_later_neither_is_reasoned_with() -> None:
    notes = [note("Port: 1", name="a"), note("Port: 2", name="b")]
    assert current_claims(Corpus(notes)) == []
