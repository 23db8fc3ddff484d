"""Commitments found in memory text: what is to be done later, and the time or the event that triggers it. English.

    remind me to call Ann tomorrow at 5pm         at an instant
    every Monday send the report                  repeatedly
    when the build is green, deploy               once later text says so
    if Ann does not reply by Friday, call her     at an instant, unless later text says that she did

The module uses rules, not a model, and a rule that is not sure finds nothing. Text that was done, asked, quoted,
denied, supposed or ticked off is no commitment. Neither is a way of working ("when writing Python, use type hints").
Times are resolved by `time.moments`, from the instant at which the text was written, in UTC by default.

Each sentence is processed in these steps:

1. `_locate_sentences` finds the sentences and the position of each character in the text.
2. `_match_rules` matches the rules of `intents` at the beginning of each clause.
3. `_find_trigger` finds the time or the condition, before or after the words of the rule.
4. `_extract_intention` removes time and condition; the rest is the intention.

A false commitment interrupts a person, a missed one is only not found; the rules are made accordingly. Positions are
kept through every cleaning step, because the commitment names the characters of the text that it was found in
(`source_span`).

To support a new wording, add a rule to `intents.py` or `conditions.py`, then sentences that must and must not match to
`tests/consolidation`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, tzinfo
from itertools import islice
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from memoranda.consolidation.commitments import intents
from memoranda.consolidation.commitments.conditions import (
    EventPredicate,
    StatedCondition,
    is_met,
    read_condition,
)
from memoranda.consolidation.commitments.intents import Kind
from memoranda.consolidation.text.note import clean, shorten
from memoranda.consolidation.text.sentences import split_sentences
from memoranda.time_words.dates import find_days
from memoranda.time_words.moments import (
    DEFAULT_MINUTE,
    NamedMoment,
    find_clocks,
    find_moments,
    with_clock,
)
from memoranda.time_words.recurrence import NamedRecurrence, Recurrence, at_clock, read_recurrence

__all__ = ["EventPredicate", "Recurrence", "StatedCommitment", "find_commitments", "is_met"]

# Characters of a sentence; a longer one is rarely a single intention, and the rules misread it.
SENTENCE_CHARS_LIMIT: Final = 400
# Characters of an intention; the rest is cut off, because a reminder is one line.
INTENTION_CHARS_LIMIT: Final = 300
# Commitments of one text; a text with more is a task list, which belongs in another tool.
COMMITMENTS_LIMIT: Final = 200
# Clause starts tried in a sentence, and commas tried as the end of a condition. Real sentences have fewer; the limits
# bound the time that a hostile text can take.
_STARTS_LIMIT: Final = 12
_COMMAS_LIMIT: Final = 3

_FENCE = re.compile(r"```|~~~")
_NOT_READ = re.compile(r">|(?:(?:[-*+•]|\d{1,3}[.)])\s{1,4})?\[[xX]\]\s")
_GLUE = re.compile(r"[\s,:–]*(?:please\b|then\b|also\b)?[\s,]*", re.IGNORECASE)
_JOINTS = re.compile(
    r"^(?:[\s,:–-]|(?:to|about|of|that|please)\b)+"
    r"|(?:[\s,:;.!?–-]|@|\b(?:and|by|on|at|please|for|then|before|to)$)+$",
    re.IGNORECASE,
)
_COMMA = re.compile(r", (?:then |please )?|\sthen\s", re.IGNORECASE)
_THEY = re.compile(r"(?:he|she|they)\b", re.IGNORECASE)
_LIMITS: Final = frozenset(("by", "before", "no later than", "not later than"))


class StatedCommitment(msgspec.Struct, frozen=True, kw_only=True):
    """A commitment as a text states it."""

    # The action in the words of the text, without the time and the condition.
    intention: str
    # The kind of trigger: an instant, or a later text that states an event.
    condition: Literal["time", "predicate"]
    # Milliseconds since 1970. None for a predicate, and for a reminder without a time, which cannot be scheduled.
    due: int | None = None
    predicate: EventPredicate | None = None
    # The event that cancels a time commitment: "unless Ann pays", "if Ann does not reply by Friday".
    unless: EventPredicate | None = None
    # The rule of "every Monday"; `due` is then its first instant.
    recurrence: Recurrence | None = None
    # True with a recurrence, or with "whenever".
    repeats: bool = False
    # The position in the text: index of the first character, and index after the last.
    source_span: tuple[int, int]
    # From 0 to 1.
    confidence: float
    # The words of the text at `source_span`, on one line.
    source: str
    # True if the text names a time zone that does not exist; the zone of the caller is used then.
    is_zone_unknown: bool = False

    @property
    def key(self) -> str:
        """A fingerprint of the words and the time, independent of the position in the text and of the rules.

        Used to recognise a commitment when its text is edited elsewhere.
        """
        # Excludes `due` of a recurrence, which moves on with each occurrence.
        due_text = "" if self.recurrence else str(self.due)
        words = self.source.casefold().strip(" .,;:!?")
        return hashlib.sha256(f"{words}\x00{due_text}".encode("utf-8", "replace")).hexdigest()


class _Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """The time or condition that triggers a commitment: at most one of the first three fields is set."""

    moment: NamedMoment | None = None
    recurring: NamedRecurrence | None = None
    condition: StatedCondition | None = None
    unless: EventPredicate | None = None
    repeats: bool = False


class _RuleMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A match of one rule in a sentence."""

    kind: Kind
    # Character indices: start of the clause, start of the words of the rule, and their end.
    start: int
    opening: int
    body: int
    before: _Trigger


class _SentenceInput(msgspec.Struct, frozen=True):
    """A sentence, a copy of equal length with its quotations masked, and the instants that it names."""

    text: str
    plain: str
    at: int
    zone: tzinfo
    moments: list[NamedMoment]


def find_commitments(
    text: str, *, at: int, now: int | None = None, zone: tzinfo = UTC
) -> list[StatedCommitment]:
    """Return the commitments in a text, in order and without duplicates.

    `at` is the instant at which the text was written, in milliseconds since 1970. With `now`, commitments due until
    then are left out, and a recurrence is due at its first instant after `now`.

    `zone` is the time zone of the person, if it is known; otherwise UTC is used and `is_zone_unknown` is set.
    """
    commitments: dict[tuple[object, ...], StatedCommitment] = {}
    for sentence, positions in _locate_sentences(text):
        for commitment in _read_commitments(sentence, at, zone):
            current = _update_due(commitment, at if now is None else max(at, now), zone)
            if current is not None:
                start, end = current.source_span
                current = replace(current, source_span=(positions[start], positions[end - 1] + 1))
                # Keep the smaller key of two wordings of one commitment, so that the order of the text is irrelevant.
                previous = commitments.setdefault(_identity_key(current), current)
                if current.key < previous.key:
                    commitments[_identity_key(current)] = current
        if len(commitments) >= COMMITMENTS_LIMIT:
            break
    return list(commitments.values())[:COMMITMENTS_LIMIT]


def _identity_key(commitment: StatedCommitment) -> tuple[object, ...]:
    return (
        commitment.intention.casefold(),
        commitment.due,
        commitment.predicate,
        commitment.unless,
        commitment.recurrence,
        commitment.repeats,
    )


def _update_due(commitment: StatedCommitment, now: int, zone: tzinfo) -> StatedCommitment | None:
    """Return the commitment due after `now`; None if it has passed."""
    if commitment.recurrence is not None:
        due_at = commitment.recurrence.next_after(now, zone)
        return None if due_at is None else replace(commitment, due=due_at)
    return commitment if commitment.due is None or commitment.due > now else None


def _locate_sentences(text: str) -> Iterator[tuple[str, list[int]]]:
    """Yield the readable sentences, each with the index in the text of each of its characters."""
    # Replaced by a string of equal length, so that indices stay valid.
    text = clean(text.replace("\r\n", " \n"))
    readable = _blank_unread_lines(text)
    cursor, is_cut = 0, False
    for sentence in split_sentences(readable):
        positions = _find_positions(readable, sentence, cursor)
        if positions is None:
            continue
        cursor = positions[-1] + 1
        was_cut, is_cut = (
            is_cut,
            len(sentence) > SENTENCE_CHARS_LIMIT // 2 and sentence[-1].isalnum(),
        )
        if not was_cut and len(sentence) <= SENTENCE_CHARS_LIMIT:
            yield sentence, positions


def _blank_unread_lines(text: str) -> str:
    """Return the text with code, quoted lines and ticked items replaced by spaces."""
    lines, is_code = [], False
    for line in text.split("\n"):
        body = line.lstrip()
        is_fence = bool(_FENCE.match(body))
        lines.append(" " * len(line) if is_code or is_fence or _NOT_READ.match(body) else line)
        is_code ^= is_fence
    return "\n".join(lines)


def _find_positions(text: str, sentence: str, cursor: int) -> list[int] | None:
    """Return the index in the text of each character of a sentence; None if it is not found."""
    tokens = sentence.split(" ")
    start = text.find(tokens[0], cursor)
    # Retry, because a list marker may look like the first word.
    for _ in range(20):
        if start < 0:
            return None
        positions = _match_tokens(text, tokens, start)
        if positions is not None:
            return positions
        start = text.find(tokens[0], start + 1)
    return None


def _match_tokens(text: str, tokens: list[str], start: int) -> list[int] | None:
    """Return the indices of the characters if the tokens follow each other from `start`; None otherwise."""
    positions: list[int] = []
    for token in tokens:
        if positions:
            positions.append(start)
            while start < len(text) and text[start].isspace():
                start += 1
        if not text.startswith(token, start):
            return None
        positions.extend(range(start, start + len(token)))
        start += len(token)
    return positions


def _read_commitments(text: str, at: int, zone: tzinfo) -> Iterator[StatedCommitment]:
    """Yield the commitments of one sentence."""
    plain_text = intents.QUOTED.sub(lambda match: "Q" * len(match[0]), text)
    if not intents.ANY.search(plain_text) or intents.WITHDRAWN.search(plain_text):
        return
    sentence = _SentenceInput(text, plain_text, at, zone, find_moments(plain_text, at, zone))
    hits = list(_match_rules(sentence))
    for index, hit in enumerate(hits):
        end = hits[index + 1].start if index + 1 < len(hits) else len(plain_text)
        if _is_intended(sentence, hit):
            commitment = _make_commitment(sentence, hit, end)
            if commitment is not None:
                yield commitment


def _match_rules(sentence: _SentenceInput) -> Iterator[_RuleMatch]:
    """Yield the matches of rules at the clause beginnings of a sentence."""
    plain_text = sentence.plain
    lead = intents.LEAD.match(plain_text)
    starts = {0: True, (lead.end() if lead else 0): True}
    for match in islice(intents.STARTS.finditer(plain_text), _STARTS_LIMIT):
        starts.setdefault(match.end(), bool(match["strong"]))
    end_of_last = -1
    for start, is_strong in sorted(starts.items()):
        hit = _match_rule_at(sentence, start, is_strong) if start > end_of_last else None
        if hit is not None:
            end_of_last = hit.body
            yield hit


def _match_rule_at(sentence: _SentenceInput, start: int, is_strong: bool) -> _RuleMatch | None:
    """Return the first rule that matches at a clause beginning; None if none does."""
    for opening, before in _find_openings(sentence, start):
        for kind, rule in intents.RULES:
            if kind in intents.WEAK and not (is_strong or before != _Trigger()):
                continue
            match = rule.match(sentence.plain, opening)
            if match:
                return _RuleMatch(
                    kind=kind, start=start, opening=opening, body=match.end(), before=before
                )
    return None


def _find_openings(sentence: _SentenceInput, start: int) -> Iterator[tuple[int, _Trigger]]:
    """Yield the indices at which the main clause may begin: at once, after a time, or after a condition."""
    plain_text = sentence.plain
    yield start, _Trigger()
    time_clause = intents.WHEN.match(plain_text, start)
    if time_clause:
        for comma in islice(_COMMA.finditer(plain_text[time_clause.end() :]), _COMMAS_LIMIT):
            before = _read_waiting(
                sentence, time_clause, (time_clause.end(), time_clause.end() + comma.start())
            )
            if before is not None:
                yield time_clause.end() + comma.end(), before
        return
    recurring = read_recurrence(plain_text[start:], sentence.at)
    if recurring is not None and recurring.start == 0:
        glue = _GLUE.match(plain_text, start + recurring.end)
        yield (
            (glue.end() if glue else start + recurring.end),
            _Trigger(recurring=recurring, repeats=True),
        )
        return
    for moment in sentence.moments:
        if moment.start == start:
            glue = _GLUE.match(plain_text, moment.end)
            yield (glue.end() if glue else moment.end), _Trigger(moment=moment)


def _read_waiting(
    sentence: _SentenceInput, when: re.Match[str], span: tuple[int, int], name: str = ""
) -> _Trigger | None:
    """Return the trigger that a condition states, or None.

    A negated condition with a time ("if Ann does not reply by Friday") is triggered by the time, unless the event
    happens first. `name` replaces a pronoun at the start of the clause.
    """
    start, end = span
    clause = sentence.plain[start:end]
    moment = next(
        (moment for moment in sentence.moments if start <= moment.start and moment.end <= end), None
    )
    if moment is not None:
        clause = clause[: moment.start - start] + clause[moment.end - start :]
    condition = read_condition(
        _THEY.sub(name, clause, 1) if name and _THEY.match(clause) else clause, sentence.at
    )
    if condition is None or ((when["once"] or "").lower() == "after" and not condition.has_event):
        return None
    if moment is not None:
        if not condition.predicate.is_negated or not condition.has_event:
            return None
        return _Trigger(moment=moment, unless=replace(condition.predicate, is_negated=False))
    return _Trigger(condition=condition, repeats=bool(when["often"]))


def _is_intended(sentence: _SentenceInput, hit: _RuleMatch) -> bool:
    """Return True unless the words before the rule, or the end of the sentence, make it no intention."""
    plain_text = sentence.plain
    is_request = (
        re.match(rf"(?:please )?{intents.ASKING}", plain_text[hit.opening :], re.IGNORECASE)
        is not None
    )
    if plain_text.rstrip("\"'”’)]» ").endswith("?") and not is_request:
        return False
    before = plain_text[: hit.start]
    if intents.SUPPOSED.search(plain_text[: hit.body]) or intents.REPORTED.search(before):
        return False
    ending = before.rstrip().lower()
    is_free = (
        hit.kind == "remind" or ending.endswith((";", ".", " but", " so", "—", "–")) or not ending
    )
    if intents.DENIED.search(before) and (not is_free or ending.endswith(" or")):
        return False
    # "If I want to go, I need to book by Friday" supposes something.
    return not (intents.WHEN.search(before) and hit.before == _Trigger() and hit.kind != "remind")


def _make_commitment(
    sentence: _SentenceInput, hit: _RuleMatch, end: int
) -> StatedCommitment | None:
    """Return the commitment of a match; None if it lacks a trigger or an intention."""
    tail = intents.TAIL.search(sentence.plain[:end], hit.body)
    end = tail.start() if tail else end
    when, cuts = _find_trigger(sentence, hit, end)
    if when is None or (
        when.condition is not None and not _is_worth_waiting(hit.kind, when.condition)
    ):
        return None
    timed, waiting, undated = intents.CONFIDENCE[hit.kind]
    has_time = when.moment is not None or when.recurring is not None
    if has_time:
        confidence = timed
    elif when.condition:
        confidence = waiting
    else:
        confidence = undated
    if not has_time and when.condition is None and not _may_be_undated(sentence, hit, end):
        return None
    intention = _extract_intention(sentence, hit, end, cuts)
    if (
        confidence == 0.0
        or not any(map(str.isalnum, intention))
        or _is_statement_subject(hit.kind, intention)
    ):
        return None
    certainty = min(
        reading.certainty
        for reading in (when.moment, when.recurring, _CERTAIN)
        if reading is not None
    )
    return StatedCommitment(
        intention=intention,
        condition="predicate" if when.condition else "time",
        due=when.moment.due if when.moment else None,
        predicate=when.condition.predicate if when.condition else None,
        unless=when.unless,
        recurrence=when.recurring.rule if when.recurring else None,
        repeats=when.repeats,
        source_span=(hit.start, len(sentence.plain[:end].rstrip())),
        source=sentence.text[hit.start : end].rstrip(),
        confidence=round(confidence * certainty, 2),
        is_zone_unknown=any(
            reading is not None and reading.is_zone_unknown
            for reading in (when.moment, when.recurring)
        ),
    )


_CERTAIN: Final = NamedMoment(due=0, start=0, end=0)


def _find_trigger(
    sentence: _SentenceInput, hit: _RuleMatch, end: int
) -> tuple[_Trigger | None, list[tuple[int, int]]]:
    """Return the trigger from before or after the words of the rule, and the spans of the text that state it."""
    plain_text = sentence.plain
    later_match = intents.LATER_WHEN.search(plain_text, hit.body - 1, end)
    if later_match is None:
        return _find_time(sentence, hit, end)
    if later_match["unless"]:
        met = read_condition(plain_text[later_match.end() : end], sentence.at)
        timed, cuts = _find_time(sentence, hit, later_match.start())
        return (
            (replace(timed, unless=met.predicate), [*cuts, (later_match.start(), end)])
            if met
            else (None, [])
        )
    if hit.before != _Trigger():
        return _find_time(sentence, hit, end)
    if plain_text[hit.body : later_match.start()].lower().endswith("only"):
        return None, []  # a policy, not a task: "deploy only if the build is green"
    comma = plain_text.find(", ", later_match.end(), end)
    # "Remind me, when Ann is back, to return her book": the condition ends at its own comma.
    clause_end = comma if later_match.start() <= hit.body and comma > 0 else end
    addressed = intents.ADDRESSED.match(plain_text, hit.body)
    waiting = _read_waiting(
        sentence,
        later_match,
        (later_match.end(), clause_end),
        addressed["name"] if addressed else "",
    )
    if waiting is None and (later_match["once"] or "").lower() == "after":
        return _find_time(sentence, hit, end)
    if waiting is not None and waiting.condition and waiting.condition.predicate.is_negated:
        timed, cuts = _find_time(sentence, hit, later_match.start())
        if timed.moment is not None:
            unless = replace(waiting.condition.predicate, is_negated=False)
            return replace(timed, unless=unless), [*cuts, (later_match.start(), clause_end)]
    return waiting, [(later_match.start(), clause_end)]


def _find_time(
    sentence: _SentenceInput, hit: _RuleMatch, end: int
) -> tuple[_Trigger, list[tuple[int, int]]]:
    """Return the trigger by a time or a recurrence after the rule, and its spans."""
    if hit.before != _Trigger():
        return _add_clock(sentence, hit.before, (hit.body, end))
    recurring = read_recurrence(sentence.plain[hit.body : end], sentence.at)
    if recurring is not None:
        return _Trigger(recurring=recurring, repeats=True), [
            (hit.body + recurring.start, hit.body + recurring.end)
        ]
    inside = [
        moment for moment in sentence.moments if hit.body <= moment.start and moment.end <= end
    ]
    # "Book a table for Friday" is not due on Friday, but "set a reminder for Friday" is.
    inside = [moment for moment in inside if moment.lead != "for" or hit.kind == "remind"]
    if hit.kind == "tell":
        inside = [
            moment for moment in inside if moment.start <= hit.body + 1 or moment.lead in _LIMITS
        ]
    if not inside:
        return _Trigger(), []
    # "Remind me tomorrow to book the flight on 3 May": the time next to the words of the rule, else a limit ("by
    # Friday"), else the first time.
    limits = [moment for moment in inside if moment.lead in _LIMITS]
    chosen_moment = inside[0] if inside[0].start <= hit.body + 1 or not limits else limits[0]
    when, cuts = _add_clock(sentence, _Trigger(moment=chosen_moment), (chosen_moment.end, end))
    return when, [(chosen_moment.start, chosen_moment.end), *cuts]


def _add_clock(
    sentence: _SentenceInput, when: _Trigger, span: tuple[int, int]
) -> tuple[_Trigger, list[tuple[int, int]]]:
    """Add the time of day to a trigger that names only a day: "tomorrow call Ann at 5pm".

    The part of the sentence in `span` must name exactly one time of day and no other day. Return the trigger and the
    spans that were used.
    """
    start, end = span
    inside = [moment for moment in sentence.moments if start <= moment.start and moment.end <= end]
    times = [
        clock for clock in find_clocks(sentence.plain) if start <= clock.start and clock.end <= end
    ]
    if len(times) != 1 or len(inside) > 1 or any(moment.day is not None for moment in inside):
        return when, []
    (clock,) = times
    if when.moment is not None and when.moment.day is not None:
        timed = with_clock(when.moment, clock, sentence.zone)
        return (
            (replace(when, moment=timed), [(clock.start, clock.end)])
            if timed.due > sentence.at
            else (when, [])
        )
    if when.recurring is not None and when.recurring.rule.minute == DEFAULT_MINUTE:
        recurring = replace(
            when.recurring,
            rule=at_clock(when.recurring.rule, clock),
            is_zone_unknown=when.recurring.is_zone_unknown or clock.is_zone_unknown,
        )
        return replace(when, recurring=recurring), [(clock.start, clock.end)]
    return when, []


def _is_worth_waiting(kind: Kind, condition: StatedCondition) -> bool:
    """Return True if a condition is definite enough for this kind of rule."""
    if kind == "remind":
        return not condition.is_self or bool(condition.predicate.details)
    if condition.is_self:
        return False
    return kind in intents.TELLING or (condition.has_event and condition.is_definite)


def _may_be_undated(sentence: _SentenceInput, hit: _RuleMatch, end: int) -> bool:
    """Return True if a match without a time or condition is still a reminder."""
    body = sentence.plain[hit.body : end]
    if find_days(body, sentence.at) or any(
        hit.body <= moment.start < end for moment in sentence.moments
    ):
        return False  # a day that has passed, or that is not the day to act
    if hit.kind == "follow":
        return re.match(intents.FOLLOW + r"\s(?:with|on|about)\s", body, re.IGNORECASE) is not None
    return re.match(r"\s?(?:to|about|that)\s", body, re.IGNORECASE) is not None


def _is_statement_subject(kind: Kind, intention: str) -> bool:
    """Return True if the word that looked like an imperative is the subject of a statement."""
    if kind not in ("act", "follow"):
        return False
    verb = intents.FINITE.search(intention)
    return verb is not None and not verb["clause"]


def _extract_intention(
    sentence: _SentenceInput, hit: _RuleMatch, end: int, cuts: list[tuple[int, int]]
) -> str:
    """Return the words after the rule without the spans in `cuts`."""
    text, start = [], hit.body
    for cut_start, cut_end in sorted(cuts):
        text.append(sentence.text[start : max(start, cut_start)])
        start = max(start, cut_end)
    text.append(sentence.text[start:end])
    joined_text = " ".join(" ".join(text).split()).replace(" ,", ",")
    # "Remind me in two hours" has no other words than the request itself.
    trimmed = _JOINTS.sub("", joined_text) or _JOINTS.sub("", sentence.text[hit.opening : hit.body])
    return shorten(trimmed, INTENTION_CHARS_LIMIT)
