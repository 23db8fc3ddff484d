# ruff: noqa: E501 - a row of a table reads best on one line
"""Commitments found in memory text. Every text below was written on Wednesday, 6 May 2026, at 10:30 UTC."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processor import at_most

from memoranda.consolidation.commitments.commitments import StatedCommitment, find_commitments, is_met
from memoranda.consolidation.commitments.conditions import read_condition
from memoranda.model.instant import format_instant, parse_instant

AT = parse_instant("2026-05-06T10:30:00Z")

TIMED = [
    ("Remind me to call Ann tomorrow at 5pm.", "call Ann", "2026-05-07T17:00"),
    ("remind me tomorrow to book the flight on 3 June 2026", "book the flight on 3 June 2026", "2026-05-07T09:00"),
    ("Please remind me about the dentist on Friday", "the dentist", "2026-05-08T09:00"),
    ("Remind me in 2 hours to take the bread out of the oven.", "take the bread out of the oven", "2026-05-06T12:30"),
    ("Remind me in half an hour.", "Remind me", "2026-05-06T11:00"),
    ("Can you remind me to water the plants tonight?", "water the plants", "2026-05-06T20:00"),
    ("Could you please remind us to submit the form by noon tomorrow?", "submit the form", "2026-05-07T12:00"),
    ("I'd like you to remind me to stretch at 3pm.", "stretch", "2026-05-06T15:00"),
    ("Set a reminder for Friday to pay the rent.", "pay the rent", "2026-05-08T09:00"),
    ("Tomorrow morning, remind me to pack the charger.", "pack the charger", "2026-05-07T09:00"),
    ("I'm flying to Rome next week, so remind me to pack on Sunday.", "pack", "2026-05-10T09:00"),
    ("I can't talk now, remind me to call back at 16:00.", "call back", "2026-05-06T16:00"),
    ("User: remind me to renew the passport on 2026-06-01", "renew the passport", "2026-06-01T09:00"),
    ("The user asked to be reminded about the standup tomorrow at 9:45.", "the standup", "2026-05-07T09:45"),
    ("User wants a reminder on Friday to send the slides.", "send the slides", "2026-05-08T09:00"),
    ("Assistant: I'll remind you to check the oven in 20 minutes.", "check the oven", "2026-05-06T10:50"),
    ("Don't forget to send Bob the keys by Thursday.", "send Bob the keys", "2026-05-07T09:00"),
    ("Do not forget about the parents' evening next Tuesday at 7pm!", "the parents' evening", "2026-05-12T19:00"),
    ("We mustn't forget to renew the certificate before 1 June 2026.", "renew the certificate", "2026-05-31T09:00"),
    ("Follow up with Ann next Tuesday", "Follow up with Ann", "2026-05-12T09:00"),
    ("- Follow up with ACME about the invoice in two weeks", "Follow up with ACME about the invoice", "2026-05-20T09:00"),
    ("Next Tuesday follow up with Ann about the launch.", "follow up with Ann about the launch", "2026-05-12T09:00"),
    ("Check back in 2 weeks.", "Check back", "2026-05-20T09:00"),
    ("The contract is signed; follow up with legal on Monday.", "follow up with legal", "2026-05-11T09:00"),
    ("Please circle back with the design team in a few days.", "circle back with the design team", "2026-05-09T09:00"),
    ("Touch base with Maria at the end of the month", "Touch base with Maria", "2026-05-31T17:00"),
    ("Get back to Tom by EOD.", "Get back to Tom", "2026-05-06T17:00"),
    ("Revisit the pricing decision next quarter.", "Revisit the pricing decision", "2026-07-01T09:00"),
    ("I need to file the taxes by Friday.", "file the taxes", "2026-05-08T09:00"),
    ("I still need to finish the deck by Friday at noon because Ann presents it.", "finish the deck", "2026-05-08T12:00"),
    ("On Friday I have to pick up the car.", "pick up the car", "2026-05-08T09:00"),
    ("We must ship the fix today", "ship the fix", "2026-05-06T17:00"),
    ("I've got to call the bank tomorrow", "call the bank", "2026-05-07T09:00"),
    ("Need to renew the domain by May 12", "renew the domain", "2026-05-12T09:00"),
    ("The user needs to renew their visa by 15 July 2026.", "renew their visa", "2026-07-15T09:00"),
    ("I promised to send Ann the photos this weekend.", "send Ann the photos", "2026-05-09T09:00"),
    ("I need to remember to cancel the trial before Monday.", "cancel the trial", "2026-05-10T09:00"),
    ("I should call mum tonight.", "call mum", "2026-05-06T20:00"),
    ("Make sure to submit the report by end of day.", "submit the report", "2026-05-06T17:00"),
    ("Remember to take out the bins tomorrow evening.", "take out the bins", "2026-05-07T18:00"),
    ("I'll send the minutes tomorrow.", "send the minutes", "2026-05-07T09:00"),
    ("We're going to deploy the new version on Thursday at 14:00.", "deploy the new version", "2026-05-07T14:00"),
    ("I will reply to Bob by Friday.", "reply to Bob", "2026-05-08T09:00"),
    ("Let's review the draft next Monday.", "review the draft", "2026-05-11T09:00"),
    ("TODO: fix the flaky test by Friday", "fix the flaky test", "2026-05-08T09:00"),
    ("Action item: pay the hosting bill in 3 days", "pay the hosting bill", "2026-05-09T09:00"),
    ("Note to self: birthday card for Eva by the 15th", "birthday card for Eva", "2026-05-15T09:00"),
    ("Call Bob tomorrow at 11:00 CET", "Call Bob", "2026-05-07T10:00"),
    ("Send the invoice to ACME on 2026-05-20T15:00+02:00.", "Send the invoice to ACME", "2026-05-20T13:00"),
    ("Pay the electricity bill by the 5th.", "Pay the electricity bill", "2026-06-05T09:00"),
    ("Please email the whole team tomorrow afternoon.", "email the whole team", "2026-05-07T14:00"),
    ("Submit the expense report a week from Friday.", "Submit the expense report", "2026-05-15T09:00"),
    ("Ping me tomorrow about the release.", "the release", "2026-05-07T09:00"),
    ("Tell me in an hour how the migration went.", "how the migration went", "2026-05-06T11:30"),
    ("Buy flowers the day after tomorrow", "Buy flowers", "2026-05-08T09:00"),
    ("1. Order the cake by Friday", "Order the cake", "2026-05-08T09:00"),
    ("[ ] Renew the TLS certificate in 5 business days", "Renew the TLS certificate", "2026-05-13T09:00"),
    ("Tomorrow remind me to call Ann at 5pm.", "call Ann", "2026-05-07T17:00"),
    ("Don't forget: dentist tomorrow at 3pm", "dentist", "2026-05-07T15:00"),
    ("Wake me up tomorrow at 6:30.", "Wake me up", "2026-05-07T06:30"),
    ("Sent the report; will check back in 2 weeks.", "check back", "2026-05-20T09:00"),
    ("We have to decide by Friday whether to ship.", "decide whether to ship", "2026-05-08T09:00"),
    ("call mom tomorrow", "call mom", "2026-05-07T09:00"),
    ("remind me in 2027 to renew the lease", "renew the lease", "2027-01-01T09:00"),
    ("Hey Claude, remind me to buy milk at 6pm.", "buy milk", "2026-05-06T18:00"),
]  # fmt: skip
RECURRING = [
    ("Every Monday send the status report.", "send the status report", ["2026-05-11T09:00", "2026-05-18T09:00"]),
    ("Remind me every day at 8am to take my pills.", "take my pills", ["2026-05-07T08:00", "2026-05-08T08:00"]),
    ("Remind me to stretch every two hours", "stretch", ["2026-05-06T12:30", "2026-05-06T14:30"]),
    ("I need to water the plants every other Tuesday.", "water the plants", ["2026-05-19T09:00", "2026-06-02T09:00"]),
    ("Check the backups daily at 7:00.", "Check the backups", ["2026-05-07T07:00", "2026-05-08T07:00"]),
    ("On the 1st of every month, pay the rent.", "pay the rent", ["2026-06-01T09:00", "2026-07-01T09:00"]),
    ("Please remind me on the first Monday of every month to rotate the keys.", "rotate the keys", ["2026-06-01T09:00", "2026-07-06T09:00"]),
    ("Every weekday at 17:30, remind me to log my hours", "log my hours", ["2026-05-06T17:30", "2026-05-07T17:30", "2026-05-08T17:30", "2026-05-11T17:30"]),
    ("Don't forget to back up the laptop every Friday evening", "back up the laptop", ["2026-05-08T18:00", "2026-05-15T18:00"]),
    ("Review the budget every quarter.", "Review the budget", ["2026-08-06T09:00", "2026-11-06T09:00"]),
    ("Every morning I need to take my pills at 8am.", "take my pills", ["2026-05-07T08:00", "2026-05-08T08:00"]),
    ("Check in with Ann every Monday and Thursday", "Check in with Ann", ["2026-05-07T09:00", "2026-05-11T09:00"]),
    ("Remind me every year on 3 March to call grandma", "call grandma", ["2027-03-03T09:00", "2028-03-03T09:00"]),
]  # fmt: skip
# The condition, a text that meets it, and one that does not.
WAITING = [
    ("When the build is green, deploy to staging.", "deploy to staging", "The build is green now.", "The build is not green."),
    ("Once the invoice arrives, pay it.", "pay it", "Received the invoice from ACME.", "The invoice will arrive tomorrow."),
    ("If Ann replies, forward it to legal.", "forward it to legal", "Got a reply from Ann.", "I replied to Ann."),
    ("As soon as the PR is merged, publish the package.", "publish the package", "We merged the PR.", "Is the PR merged?"),
    ("Remind me to invoice ACME when the contract is signed.", "invoice ACME", "The contract was signed.", "The contract is not signed."),
    ("Remind me when the invoice clears", "Remind me", "The invoice was paid.", "The invoice is still open."),
    ("Remind me, when Ann is back, to return her book.", "return her book", "Ann is back from Rome.", "Bob is back."),
    ("Let me know when the migration finishes.", "Let me know", "The migration is done.", "The migration will be done soon."),
    ("Ping me if the server goes down.", "Ping me", "The server is offline.", "The server is up."),
    ("Tell me as soon as the package is delivered", "Tell me", "The package has arrived.", "The package has not arrived."),
    ("Please notify me once the tests pass", "notify me", "All the tests passed.", "The tests fail."),
    ("Alert me if the price drops below $100.", "Alert me", "The price is $95 now.", "The price is $105 now."),
    ("Notify us when disk usage exceeds 90%", "Notify us", "Disk usage is at 93%.", "Disk usage is at 88%."),
    ("Whenever the nightly build fails, notify me.", "notify me", "The nightly build failed again.", "The nightly build passed."),
    ("Follow up with Bob once the budget is approved.", "Follow up with Bob", "They approved the budget.", "The budget might be approved."),
    ("I need to book the hotel as soon as the visa is approved.", "book the hotel", "Visa approved!", "When the visa is approved, book."),
    ("After the release ships, announce it on the blog.", "announce it on the blog", "The release is live.", "The release is late."),
    ("If I hear back from the bank, tell Ann.", "tell Ann", "The bank answered.", "I wrote to the bank."),
    ("Remind me to feed the cat when I get home.", "feed the cat", "I am home now.", "I am at work."),
    ("TODO: delete the old cluster once the migration is complete", "delete the old cluster", "The migration is complete.", "The migration is not complete."),
    ("Once QA signs off, deploy.", "deploy", "QA signed off on it.", "QA has not signed off."),
    ("If Bob is not available, call Ann.", "call Ann", "Bob is not available today.", "Bob is available."),
    ("I'll deploy the fix once Ann confirms.", "deploy the fix", "Ann confirmed it.", "Ann has not confirmed it."),
]  # fmt: skip
UNDATED = [
    ("Remind me to ask Bob about the keys.", "ask Bob about the keys"),
    ("Please don't forget to cancel the trial!", "cancel the trial"),
    ("Follow up with Ann about the contract.", "Follow up with Ann about the contract"),
]
NOT_COMMITMENTS = [
    # Over, or told.
    "I reminded Ann to call Bob yesterday.",
    "I followed up with Ann last Tuesday.",
    "I needed to finish the deck by Friday.",
    "We had to deploy on Monday.",
    "I forgot to send the invoice by Friday.",
    "Ann will follow up next Tuesday.",
    "Bob has to leave by Friday.",
    "He said remind me to call him tomorrow.",
    "Ann told me to send the slides by Friday.",
    "She wrote: remind me to call the bank tomorrow",
    "Bob: remind me to buy milk tomorrow",
    "I should have called Ann on Monday.",
    "I must have left it at the office on Monday.",
    "Remind me to call Ann on 3 May 2020.",
    "I have to say Friday was great.",
    "When the build was green, we deployed.",
    "Every Monday I send the status report.",
    "Every Monday the team meets at 9am.",
    "The report is due on Friday.",
    "The meeting is on Friday at 3pm.",
    "Call with Bob tomorrow at 5pm.",
    "Release notes are due tomorrow.",
    "Order arrives tomorrow.",
    "Book club on Friday.",
    "Email from Ann is expected tomorrow.",
    "I'll be in Paris tomorrow.",
    "We will have lunch on Friday.",
    "The app reminds me to drink water every hour.",
    "A tool that can remind me to stand up every hour would be nice.",
    "Remind me to call Ann tomorrow, never mind.",
    "Remind me to call Ann tomorrow (done)",
    "Done: send the invoice by Friday",
    "✅ Pay the rent by Friday",
    "- [x] Pay the rent by Friday",
    "~~Remind me to call Ann tomorrow~~",
    "> Remind me to call Ann tomorrow",
    "```\nremind me to call Ann tomorrow\n```",
    "Employees must submit receipts by Friday.",
    "I was going to call Ann tomorrow.",
    "I used to send the report every Monday.",
    "The cron job runs every Monday at 9am.",
    "I usually check in with Ann every Monday.",
    "Pay day is Friday.",
    "Fix for the bug ships on Friday.",
    "Return flight on Friday at 5pm.",
    "Complete chaos on Friday.",
    "Follow-up with Ann scheduled for Friday.",
    "Must be Friday today.",
    "On Monday, Ann called and said to pay by Friday.",
    "Ann said she will send the contract once legal approves it.",
    "Her last words were: don't forget to feed the cat tomorrow.",
    # Questions.
    "Should I remind Ann to call tomorrow?",
    "Do I need to send the report by Friday?",
    "Did you remind me to call Ann tomorrow?",
    "When the build is green, do we deploy?",
    "Why do I have to file the taxes by Friday?",
    "Follow up with Ann next Tuesday?",
    "Can you remind me what we decided on Monday?",
    "Remind me why we are deploying on Friday.",
    "Tell me about the meeting on Friday.",
    "How do I send a report every Monday?",
    # Quotations and examples.
    'He answered "remind me to call Ann tomorrow" and left.',
    "The command is `remind me to call Ann tomorrow`.",
    "You can say “remind me to buy milk tomorrow”.",
    "For example: remind me to pay the rent tomorrow.",
    "Say 'remind me to call Ann tomorrow' to set a reminder.",
    # Denied.
    "No need to remind me to call Ann tomorrow.",
    "Don't remind me to call Ann tomorrow.",
    "You don't have to follow up with Ann next Tuesday.",
    "I don't need to finish the deck by Friday.",
    "There is no need to check back in 2 weeks.",
    "Stop reminding me to drink water every hour.",
    "Never remind me about birthdays on Mondays.",
    "There's no need to call, follow up with Ann, or check back in 2 weeks.",
    "I no longer need to renew the visa by Friday.",
    "We must not deploy on Friday.",
    "I won't send the report tomorrow.",
    "I need not send the report by Friday.",
    "Nobody needs to send the report by Friday.",
    "I never forget to call Ann on Mondays.",
    "Don't deploy until the build is green.",
    # Supposed.
    "Maybe I should call Ann tomorrow.",
    "If I had to send it by Friday, I would need help.",
    "If I want to go, I need to book by Friday.",
    "Perhaps follow up with Ann next week.",
    "Suppose you remind me to call Ann tomorrow.",
    "I wish I could call Ann tomorrow.",
    "What if we deploy on Friday",
    "I might need to renew the passport by June.",
    "I wonder whether I need to renew my visa by June.",
    "It would be nice to follow up with Ann next week.",
    "If it rains tomorrow, cancel the picnic.",
    "If needed, follow up with Ann on Friday.",
    # Ways of working, not promises.
    "When writing Python, use type hints.",
    "If a test fails, rerun it.",
    "When I ask for code, give me TypeScript.",
    "If you have questions, ask me.",
    "Let me know if you need anything.",
    "Let me know if this is wrong.",
    "Use tabs when editing Makefiles.",
    "If tests fail, fix them.",
    "When it arrives, pay it.",
    "Once done, deploy.",
    "Deploys happen when the build is green.",
    "If the cache is cold, requests are slow.",
    "I need to sleep more.",
    "Keep the server running until Friday.",
    "Prepare Monday's report.",
    "The code needs to be refactored.",
    "Ann prefers tea.",
    "Pay attention to detail.",
    "Run the linter every time you change a file.",
    "Whenever I mention Python, use version 3.12.",
    "If the user asks about pricing, tell them to call sales.",
    "Deploy only if the build is green.",
    "Send the report as soon as possible.",
    "Remind me later.",
]
NOT_COMMITMENTS_WITH_A_REASON = [
    # 3 April or 4 March: a date that two readers read differently is none.
    "Pay the rent on 03/04/2026.",
]


def found(text: str) -> list[StatedCommitment]:
    return find_commitments(text, at=AT)


def only(text: str) -> StatedCommitment:
    (one,) = found(text)
    return one


def shown(instant: int | None) -> str | None:
    return None if instant is None else format_instant(instant)[:16]


@pytest.mark.parametrize(("text", "intention", "due"), TIMED)
@pytest.mark.requirement("WOP-OURS-commitment-todo")
def test_a_commitment_with_a_time_is_found(text: str, intention: str, due: str) -> None:
    one = only(text)
    assert (one.intention, shown(one.due)) == (intention, due)
    assert (one.condition, one.predicate, one.recurrence, one.repeats) == ("time", None, None, False)


@pytest.mark.parametrize(("text", "intention", "dues"), RECURRING)
def test_a_commitment_that_comes_again_is_found_with_its_rule(text: str, intention: str, dues: list[str]) -> None:
    one = only(text)
    assert one.intention == intention
    assert (one.condition, one.repeats) == ("time", True)
    assert one.recurrence is not None
    assert one.due is not None
    came = [one.due]
    while len(came) < len(dues):
        following = one.recurrence.next_after(came[-1])
        assert following is not None
        came.append(following)
    assert list(map(shown, came)) == dues


@pytest.mark.parametrize(("text", "intention", "met", "unmet"), WAITING)
@pytest.mark.requirement("WOP-OURS-commitment-todo")
def test_a_commitment_with_a_condition_is_found(text: str, intention: str, met: str, unmet: str) -> None:
    one = only(text)
    assert (one.intention, one.condition, one.due) == (intention, "predicate", None)
    assert one.predicate is not None
    assert is_met(one.predicate, met, AT + 1)
    assert not is_met(one.predicate, unmet, AT + 1)
    assert not is_met(one.predicate, text, AT + 1)
    assert not is_met(one.predicate, met, AT)
    assert one.repeats == text.startswith("Whenever")


@pytest.mark.parametrize(("text", "intention"), UNDATED)
def test_a_plain_reminder_without_a_time_is_found_and_cannot_be_armed(text: str, intention: str) -> None:
    one = only(text)
    assert (one.intention, one.condition, one.due, one.predicate) == (intention, "time", None, None)
    assert one.confidence <= 0.5


@pytest.mark.parametrize("text", NOT_COMMITMENTS + NOT_COMMITMENTS_WITH_A_REASON)
def test_what_is_no_commitment_is_not_read_as_one(text: str) -> None:
    assert found(text) == []


def test_there_are_enough_sentences_of_both_kinds() -> None:
    assert len({row[0] for row in (*TIMED, *RECURRING, *WAITING, *UNDATED)}) >= 60
    assert len(set(NOT_COMMITMENTS)) >= 60


@pytest.mark.parametrize(
    ("text", "intention", "due", "lapses", "stands"),
    [
        ("If Ann doesn't reply by Friday, call her.", "call her", "2026-05-08T09:00", "Ann replied.", "I replied to Ann."),
        ("If I don't hear back from the bank by next Tuesday, follow up with them.", "follow up with them", "2026-05-12T09:00", "Got an answer from the bank.", "No answer from the bank."),
        ("Ping Bob on Thursday if he hasn't replied.", "Ping Bob", "2026-05-07T09:00", "Bob replied.", "Bob has not replied."),
        ("Remind me on Friday to pay the rent unless Ann pays.", "pay the rent", "2026-05-08T09:00", "Ann paid the rent.", "Ann will pay."),
    ],
)  # fmt: skip
def test_a_time_can_lapse_when_something_happens_first(
    text: str, intention: str, due: str, lapses: str, stands: str
) -> None:
    one = only(text)
    assert (one.intention, one.condition, shown(one.due), one.predicate) == (intention, "time", due, None)
    assert one.unless is not None
    assert is_met(one.unless, lapses, AT + 1)
    assert not is_met(one.unless, stands, AT + 1)


def test_one_sentence_may_hold_two() -> None:
    first, second = found("Remind me to call Bob tomorrow and follow up with Ann on Friday.")
    assert (first.intention, shown(first.due)) == ("call Bob", "2026-05-07T09:00")
    assert (second.intention, shown(second.due)) == ("follow up with Ann", "2026-05-08T09:00")


def test_the_span_shows_where_the_text_says_it() -> None:
    text = "\ufeff# Notes\r\n\r\n1. Ann likes tea\r\n2. Bob is out;  remind me\r\n   to call him on Friday.\r\n> remind me to call him on Friday."
    one = only(text)
    start, end = one.source_span
    assert " ".join(text[start:end].split()) == one.source == "remind me to call him on Friday."
    assert one.intention == "call him"


def test_what_is_said_twice_is_found_once() -> None:
    text = "Remind me to call Ann tomorrow.\n\nNote: Remind me to call Ann tomorrow!"
    assert only(text).key == only("remind me to call ann tomorrow").key


def test_times_are_utc_unless_a_zone_is_given() -> None:
    text = "Remind me to call Ann tomorrow at 5pm."
    berlin, offset = ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=-7))
    assert [shown(one.due) for one in find_commitments(text, at=AT, zone=berlin)] == ["2026-05-07T15:00"]
    assert [shown(one.due) for one in find_commitments(text, at=AT, zone=offset)] == ["2026-05-08T00:00"]
    # Late in the evening it is already tomorrow in UTC, but not there.
    late = parse_instant("2026-05-07T01:00:00Z")
    assert [shown(one.due) for one in find_commitments(text, at=late, zone=offset)] == ["2026-05-08T00:00"]


# Paris is two hours ahead of UTC in May, New York four behind, and Kathmandu 5:45 ahead.
ZONED = [
    ("Remind me to call Ann tomorrow at 17:30 Europe/Paris.", "call Ann", "2026-05-07T15:30"),
    ("Remind me to call Ann at 17:30 Europe/Paris tomorrow.", "call Ann", "2026-05-07T15:30"),
    ("Remind me tomorrow to call Ann at 17:30 Europe/Paris", "call Ann", "2026-05-07T15:30"),
    ("Tomorrow at 17:30 Europe/Paris remind me to call Ann", "call Ann", "2026-05-07T15:30"),
    ("Remind me to call Ann tomorrow at 5:30pm (America/New_York).", "call Ann", "2026-05-07T21:30"),
    ("Remind me to call Ann tomorrow at 17:30 in Asia/Kathmandu.", "call Ann", "2026-05-07T11:45"),
    ("Remind me to call Ann tomorrow at 17:30, america/new_york", "call Ann", "2026-05-07T21:30"),
    ("Remind me to meet at 17:30 America/Argentina/Buenos_Aires", "meet", "2026-05-06T20:30"),
    ("Remind me to call Ann at 17:30 on Friday (Europe/Paris)", "call Ann", "2026-05-08T15:30"),
    ("Remind me to call Ann on 2026-05-07T17:30[Europe/Paris].", "call Ann", "2026-05-07T15:30"),
    ("Remind me to call Ann on 2026-05-07T17:30+09:00[Europe/Paris].", "call Ann", "2026-05-07T08:30"),
    ("Don't forget to send Bob the keys by Thursday (Europe/Paris).", "send Bob the keys", "2026-05-07T07:00"),
    # Already past in Tokyo.
    ("Remind me to call Ann at 17:30 Asia/Tokyo.", "call Ann", "2026-05-07T08:30"),
    # The clocks go from 02:00 to 03:00, and in autumn 02:30 occurs twice: the first counts.
    ("Remind me to call Ann on 28 March 2027 at 02:30 Europe/Paris", "call Ann", "2027-03-28T01:30"),
    ("Remind me to call Ann on 28 March 2027 at 01:59 Europe/Paris", "call Ann", "2027-03-28T00:59"),
    ("Remind me to call Ann on 28 March 2027 at 03:00 Europe/Paris", "call Ann", "2027-03-28T01:00"),
    ("Remind me to call Ann on 25 October 2026 at 02:30 Europe/Paris", "call Ann", "2026-10-25T00:30"),
    ("Remind me to call Ann on 25 October 2026 at 03:00 Europe/Paris", "call Ann", "2026-10-25T02:00"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "intention", "due"), ZONED)
def test_a_named_zone_is_used(text: str, intention: str, due: str) -> None:
    for zone in (UTC, ZoneInfo("Asia/Tokyo")):
        (one,) = find_commitments(text, at=AT, zone=zone)
        assert (one.intention, shown(one.due), one.is_zone_unknown) == (intention, due, False)


@pytest.mark.parametrize(
    "text",
    [
        "Remind me every day at 2:30 am Europe/Paris to take my pills.",
        "Every day at 2:30 am (Europe/Paris), remind me to take my pills.",
        "Every day (Europe/Paris) remind me to take my pills at 2:30 am Europe/Paris.",
        "Remind me to take my pills at 2:30 am every day, Europe/Paris.",
    ],
)
def test_a_rule_in_a_named_zone_follows_its_clocks(text: str) -> None:
    (one,) = find_commitments(text, at=parse_instant("2026-10-24T12:00:00Z"))
    assert (one.intention, one.recurrence is not None) == ("take my pills", True)
    assert one.recurrence is not None
    # Once on the day with two, and after the gap on the day without one.
    assert shown(one.due) == "2026-10-25T00:30"
    assert shown(one.recurrence.next_after(one.due or 0)) == "2026-10-26T01:30"
    spring = parse_instant("2027-03-27T12:00:00Z")
    assert shown(due := one.recurrence.next_after(spring)) == "2027-03-28T01:30"
    assert shown(one.recurrence.next_after(due or 0)) == "2027-03-29T00:30"


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("Remind me to call Ann tomorrow at 17:30 Europe/Pariss.", "2026-05-07T17:30"),
        ("Remind me to call Ann tomorrow at 17:30 (Europe/..)", "2026-05-07T17:30"),
        ("Remind me to call Ann on 2026-05-07T17:30[Asia/Nowhere].", "2026-05-07T17:30"),
        ("Remind me to call Ann at 17:30 on Friday, America/New_Yorkshire", "2026-05-08T17:30"),
        ("Remind me every day at 17:30 Europe/Pariss to call Ann", "2026-05-06T17:30"),
        ("Remind me tomorrow to call Ann at 17:30 Europe/Pariss", "2026-05-07T17:30"),
    ],
)
def test_an_unknown_zone_is_reported_and_the_time_is_that_of_the_caller(text: str, due: str) -> None:
    (one,) = find_commitments(text, at=AT)
    assert shown(one.due) == due
    # "Europe/.." has not even the form of a name.
    assert one.is_zone_unknown is (".." not in text)


def test_words_with_a_slash_are_no_zone() -> None:
    for text in ("Remind me to call Ann and/or Bob at 17:30.", "Remind me at 17:30 and/or later to call Ann"):
        (one,) = find_commitments(text, at=AT)
        assert (shown(one.due), one.is_zone_unknown) == ("2026-05-06T17:30", False)


def test_named_zones_need_no_files_of_the_machine() -> None:
    code = (
        "from memoranda.consolidation.commitments.commitments import find_commitments\n"
        f"(one,) = find_commitments('Remind me to eat tomorrow at 17:30 Europe/Paris', at={AT})\n"
        "print(one.due)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONTZPATH": ""}, capture_output=True, text=True, check=True
    )
    assert shown(int(done.stdout)) == "2026-05-07T15:30"


def test_a_rule_keeps_its_local_time_over_a_change_of_clocks() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    (one,) = find_commitments(
        "Remind me every day at 8am to take my pills.", at=parse_instant("2026-10-23T12:00:00Z"), zone=berlin
    )
    assert one.recurrence is not None
    assert shown(one.due) == "2026-10-24T06:00"
    assert shown(one.recurrence.next_after(one.due or 0, berlin)) == "2026-10-25T07:00"


def test_what_was_due_before_now_is_left_out_and_a_rule_goes_on() -> None:
    text = "Remind me to call Ann tomorrow. Every Monday send the report. Remind me to pay when the invoice arrives."
    later = parse_instant("2026-06-01T12:00:00Z")
    rule, waiting = find_commitments(text, at=AT, now=later)
    assert shown(rule.due) == "2026-06-08T09:00"
    assert rule.key == found(text)[1].key
    assert waiting.condition == "predicate"


@pytest.mark.parametrize(
    ("clause", "texts", "others"),
    [
        (
            "Ann replies",
            ["Ann replied today.", "Ann's answer came in", "Heard from Bob, and Ann has responded.", "Got a reply from Ann, so we can go on."],
            ["Ann hasn't replied", "Bob replied", "When Ann replies, call Bob", "Waiting for Ann to reply", "Ann should reply soon.", "Did Ann reply?", "Joanne replied."],
        ),
        (
            "the invoice arrives",
            ["The invoice came in this morning.", "invoice is here", "Received the March invoice."],
            ["We sent the invoice.", "The invoice will arrive in May.", "The invoice never arrived.", "If the invoice arrived, pay it."],
        ),
        (
            "the price drops below 1,000",
            ["The price is 950.", "price fell to 999.50 yesterday"],
            ["The price is 1,000.", "The price dropped 5%.", "The price is high.", "The cost is 950."],
        ),
        (
            "Ann doesn't reply",
            ["Ann did not reply.", "No reply from Ann so far."],
            ["Ann replied.", "Bob did not reply."],
        ),
        (
            "Ann sends the contract",
            ["Ann sent us the contract.", "The contract was sent by Ann"],
            ["Ann sent flowers.", "We sent Ann the contract."],
        ),
    ],
)  # fmt: skip
def test_a_condition_is_met_by_statements_of_fact(clause: str, texts: list[str], others: list[str]) -> None:
    condition = read_condition(clause, AT)
    assert condition is not None
    assert [text for text in texts if not is_met(condition.predicate, text, AT + 1)] == []
    assert [text for text in others if is_met(condition.predicate, text, AT + 1)] == []


WORDS = (
    "remind me to|call Ann|tomorrow|at 5pm|every Monday|when|the build|is green|if|not|don't|forget|follow up with|Bob|by|Friday|"
    'in 2 weeks|I need to|,|.|;|?|and|or|\n|- [x]|> |```|“|”|"|by the 31st|Feb 30|on 9999-12-31|in 999 years|every 999 years|'
    "unless|whenever|a week before|below $100|\u202e|\ud800|٣|İ|ſ|every other|at 24:00|midnight|EOD"
).split("|")
texts = st.text(max_size=200) | st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)
instants = st.integers(-(10**17), 10**17) | st.integers(0, 4 * 10**12)


@settings(max_examples=400)
@given(texts, instants)
def test_any_text_is_read_and_always_in_the_same_way(text: str, at: int) -> None:
    made = find_commitments(text, at=at)
    assert made == find_commitments(text, at=at)
    for one in made:
        start, end = one.source_span
        assert 0 <= start < end <= len(text)
        assert one.source
        assert len(one.key) == 64
        assert one.intention.strip() == one.intention != ""
        assert one.due is None or one.due > at
        assert 0 < one.confidence < 1
        assert (one.condition == "predicate") == (one.predicate is not None)
        for predicate in (one.predicate, one.unless):
            assert predicate is None or not is_met(predicate, text, at)


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from([row[0] for row in (*TIMED, *RECURRING, *WAITING)] + NOT_COMMITMENTS[:25]), max_size=6),
)
def test_the_order_of_paragraphs_does_not_matter(paragraphs: list[str]) -> None:
    together = {one.key for one in found("\n\n".join(paragraphs))}
    assert together == {one.key for one in found("\n\n".join(reversed(paragraphs)))}
    alone = [one for paragraph in paragraphs for one in found(paragraph)]
    assert together <= {one.key for one in alone}
    # Two wordings of the same are one commitment; nothing else is lost.
    assert {meaning(one) for one in found("\n\n".join(paragraphs))} == {meaning(one) for one in alone}
    assert len(together) == len(found("\n\n".join(paragraphs)))


def meaning(one: StatedCommitment) -> tuple[object, ...]:
    return (one.intention.casefold(), one.due, one.predicate, one.unless, one.recurrence, one.repeats)


@settings(max_examples=200)
@given(texts, texts)
def test_any_text_can_be_held_against_any_condition(clause: str, text: str) -> None:
    condition = read_condition(clause, 0)
    if condition is not None:
        assert is_met(condition.predicate, text, 1) == is_met(condition.predicate, text, 1)


HOSTILE = ["remind me, ", "if a, ", "at 5, ", "when the a is b then ", "every mon, ", "“", "'a ", "1:", ", and ", "follow up with A ",
           "I need to remember to ", "the end of the ", "x", " ", "- [x] ", "e.g. "]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
def test_a_hostile_text_takes_no_more_than_its_length_allows(unit: str) -> None:
    sentence = (unit * 400)[:398]
    # Rules that are more than linear would take minutes for these, not a moment.
    with at_most(10):
        find_commitments(f"{sentence}.\n\n" * 100, at=AT)
        find_commitments(unit * (200_000 // len(unit)), at=AT)
