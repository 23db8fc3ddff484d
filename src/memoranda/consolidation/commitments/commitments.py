"""Standing commitments in memory text: what somebody means to be done later, when, or after what. English.

    remind me to call Ann tomorrow at 5pm         at an instant
    every Monday send the report                  again and again
    when the build is green, deploy               once later text says so
    if Ann does not reply by Friday, call her     at an instant, unless later text says that she did

Rules, not a model: a rule that is not sure reads nothing. What was done, asked, quoted, denied, supposed or ticked off
is no commitment, and neither is a way of working ("when writing Python, use type hints"). Times are read as `moments`
says: from when the text was written, in UTC unless another zone is given. Other languages are not read.
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
    Condition,
    Predicate,
    is_met,
    read_condition,
)
from memoranda.consolidation.commitments.intents import Kind
from memoranda.consolidation.text.note import clean, shorten
from memoranda.consolidation.text.sentences import sentences
from memoranda.consolidation.time.dates import named_days
from memoranda.consolidation.time.moments import NINE, Moment, at_time, clocks, moments
from memoranda.consolidation.time.recurrence import Recurrence, Recurring, read_recurrence

__all__ = ["Commitment", "Predicate", "Recurrence", "find_commitments", "is_met"]

# A longer sentence is hardly one person's intention, and the rules lose their hold on it.
SENTENCE_CHARS_LIMIT: Final = 400
INTENTION_CHARS_LIMIT: Final = 300
# A memory with more of them is a task list that belongs elsewhere.
COMMITMENTS_LIMIT: Final = 200
# So many places of a sentence are tried, and so many ends of a condition: people need fewer, attackers want more.
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


class Commitment(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be done later, as a text states it."""

    # What is to be done, in the text's own words, without the time and the condition.
    intention: str
    # What fires it: an instant, or later text.
    condition: Literal["time", "predicate"]
    # Milliseconds since 1970. None for a predicate, and for a reminder that names no time: that one cannot be armed.
    due: int | None = None
    predicate: Predicate | None = None
    # What is met first lets a time commitment lapse: "unless Ann pays", "if Ann does not reply by Friday".
    unless: Predicate | None = None
    # For "every Monday": `due` is its first instant.
    recurrence: Recurrence | None = None
    # Comes again: has a recurrence, or says "whenever".
    repeats: bool = False
    # Where the text says it: first character, and the one after the last.
    source_span: tuple[int, int]
    # From 0 to 1.
    confidence: float
    # The words of the text at that place, on one line.
    source: str

    @property
    def key(self) -> str:
        """The same for the same words and time, wherever in a text they stand; better rules do not change it."""
        # A rule is the same whichever of its instants is next.
        due = "" if self.recurrence else str(self.due)
        words = self.source.casefold().strip(" .,;:!?")
        return hashlib.sha256(f"{words}\x00{due}".encode("utf-8", "replace")).hexdigest()


class _When(msgspec.Struct, frozen=True, kw_only=True):
    """What decides when: at most one of the first three."""

    moment: Moment | None = None
    recurring: Recurring | None = None
    condition: Condition | None = None
    unless: Predicate | None = None
    repeats: bool = False


class _Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that fits at a place of a sentence."""

    kind: Kind
    # Where the clause begins, where the rule's own words do, and where they end.
    start: int
    opening: int
    body: int
    before: _When


class _Sentence(msgspec.Struct, frozen=True):
    """A sentence, the same with quotations made unreadable, and the times it names."""

    text: str
    plain: str
    at: int
    zone: tzinfo
    moments: list[Moment]


def find_commitments(
    text: str, *, at: int, now: int | None = None, zone: tzinfo = UTC
) -> list[Commitment]:
    """The commitments in a text written at that instant, in the order of the text, each once.

    With `now`, what was due by then is left out, and what comes again is due at its first instant after it.
    """
    found: dict[tuple[object, ...], Commitment] = {}
    for sentence, places in _located(text):
        for made in _read(sentence, at, zone):
            current = _current(made, at if now is None else max(at, now), zone)
            if current is not None:
                start, end = current.source_span
                current = replace(current, source_span=(places[start], places[end - 1] + 1))
                # Of two wordings of the same, one and the same is kept in whichever order they come.
                known = found.setdefault(_meaning(current), current)
                if current.key < known.key:
                    found[_meaning(current)] = current
        if len(found) >= COMMITMENTS_LIMIT:
            break
    return list(found.values())[:COMMITMENTS_LIMIT]


def _meaning(made: Commitment) -> tuple[object, ...]:
    return (
        made.intention.casefold(),
        made.due,
        made.predicate,
        made.unless,
        made.recurrence,
        made.repeats,
    )


def _current(made: Commitment, now: int, zone: tzinfo) -> Commitment | None:
    if made.recurrence is not None:
        due = made.recurrence.next_after(now, zone)
        return None if due is None else replace(made, due=due)
    return made if made.due is None or made.due > now else None


def _located(text: str) -> Iterator[tuple[str, list[int]]]:
    """Sentences that may be read, each with the place in the text of each of its characters."""
    # One character for one, so that places stay what they are.
    text = clean(text.replace("\r\n", " \n"))
    readable = _readable(text)
    cursor, is_cut = 0, False
    for sentence in sentences(readable):
        places = _places(readable, sentence, cursor)
        if places is None:
            continue
        cursor = places[-1] + 1
        was_cut, is_cut = (
            is_cut,
            len(sentence) > SENTENCE_CHARS_LIMIT // 2 and sentence[-1].isalnum(),
        )
        if not was_cut and len(sentence) <= SENTENCE_CHARS_LIMIT:
            yield sentence, places


def _readable(text: str) -> str:
    """The text with code, quoted lines and ticked items blanked out."""
    lines, is_code = [], False
    for line in text.split("\n"):
        body = line.lstrip()
        is_fence = bool(_FENCE.match(body))
        lines.append(" " * len(line) if is_code or is_fence or _NOT_READ.match(body) else line)
        is_code ^= is_fence
    return "\n".join(lines)


def _places(text: str, sentence: str, cursor: int) -> list[int] | None:
    tokens = sentence.split(" ")
    start = text.find(tokens[0], cursor)
    # The first find is right unless a list marker or a stray sign looks like the first word.
    for _ in range(20):
        if start < 0:
            return None
        places = _walk(text, tokens, start)
        if places is not None:
            return places
        start = text.find(tokens[0], start + 1)
    return None


def _walk(text: str, tokens: list[str], start: int) -> list[int] | None:
    places: list[int] = []
    for token in tokens:
        if places:
            places.append(start)
            while start < len(text) and text[start].isspace():
                start += 1
        if not text.startswith(token, start):
            return None
        places.extend(range(start, start + len(token)))
        start += len(token)
    return places


def _read(text: str, at: int, zone: tzinfo) -> Iterator[Commitment]:
    plain = intents.QUOTED.sub(lambda match: "Q" * len(match[0]), text)
    if not intents.ANY.search(plain) or intents.OVER.search(plain):
        return
    sentence = _Sentence(text, plain, at, zone, moments(plain, at, zone))
    hits = list(_hits(sentence))
    for place, hit in enumerate(hits):
        end = hits[place + 1].start if place + 1 < len(hits) else len(plain)
        if _is_meant(sentence, hit):
            made = _commitment(sentence, hit, end)
            if made is not None:
                yield made


def _hits(sentence: _Sentence) -> Iterator[_Hit]:
    plain = sentence.plain
    lead = intents.LEAD.match(plain)
    starts = {0: True, (lead.end() if lead else 0): True}
    for match in islice(intents.STARTS.finditer(plain), _STARTS_LIMIT):
        starts.setdefault(match.end(), bool(match["strong"]))
    done = -1
    for start, is_strong in sorted(starts.items()):
        hit = _hit_at(sentence, start, is_strong) if start > done else None
        if hit is not None:
            done = hit.body
            yield hit


def _hit_at(sentence: _Sentence, start: int, is_strong: bool) -> _Hit | None:
    for opening, before in _openings(sentence, start):
        for kind, rule in intents.RULES:
            if kind in intents.WEAK and not (is_strong or before != _When()):
                continue
            match = rule.match(sentence.plain, opening)
            if match:
                return _Hit(
                    kind=kind, start=start, opening=opening, body=match.end(), before=before
                )
    return None


def _openings(sentence: _Sentence, start: int) -> Iterator[tuple[int, _When]]:
    """Where the main clause may begin: at once, after a time, or after a condition."""
    plain = sentence.plain
    yield start, _When()
    when = intents.WHEN.match(plain, start)
    if when:
        for comma in islice(_COMMA.finditer(plain[when.end() :]), _COMMAS_LIMIT):
            before = _waiting(sentence, when, (when.end(), when.end() + comma.start()))
            if before is not None:
                yield when.end() + comma.end(), before
        return
    recurring = read_recurrence(plain[start:], sentence.at)
    if recurring is not None and recurring.start == 0:
        glue = _GLUE.match(plain, start + recurring.end)
        yield (
            (glue.end() if glue else start + recurring.end),
            _When(recurring=recurring, repeats=True),
        )
        return
    for moment in sentence.moments:
        if moment.start == start:
            glue = _GLUE.match(plain, moment.end)
            yield (glue.end() if glue else moment.end), _When(moment=moment)


def _waiting(
    sentence: _Sentence, when: re.Match[str], span: tuple[int, int], name: str = ""
) -> _When | None:
    """What a condition waits for; a denied one with a time waits for the time, unless it is met first."""
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
        return _When(moment=moment, unless=replace(condition.predicate, is_negated=False))
    return _When(condition=condition, repeats=bool(when["often"]))


def _is_meant(sentence: _Sentence, hit: _Hit) -> bool:
    """Whether what stands before the rule's words, and how the sentence ends, leave the intention standing."""
    plain = sentence.plain
    is_request = (
        re.match(rf"(?:please )?{intents.ASKING}", plain[hit.opening :], re.IGNORECASE) is not None
    )
    if plain.rstrip("\"'”’)]» ").endswith("?") and not is_request:
        return False
    before = plain[: hit.start]
    if intents.SUPPOSED.search(plain[: hit.body]) or intents.SAID.search(before):
        return False
    ending = before.rstrip().lower()
    is_free = (
        hit.kind == "remind" or ending.endswith((";", ".", " but", " so", "—", "–")) or not ending
    )
    if intents.DENIED.search(before) and (not is_free or ending.endswith(" or")):
        return False
    # "If I want to go, I need to book by Friday" supposes something.
    return not (intents.WHEN.search(before) and hit.before == _When() and hit.kind != "remind")


def _commitment(sentence: _Sentence, hit: _Hit, end: int) -> Commitment | None:
    tail = intents.TAIL.search(sentence.plain[:end], hit.body)
    end = tail.start() if tail else end
    when, cuts = _decided(sentence, hit, end)
    if when is None or (
        when.condition is not None and not _is_worth_waiting(hit.kind, when.condition)
    ):
        return None
    timed, waiting, undated = intents.CONFIDENCE[hit.kind]
    has_time = when.moment is not None or when.recurring is not None
    confidence = timed if has_time else waiting if when.condition else undated
    if not has_time and when.condition is None and not _may_be_undated(sentence, hit, end):
        return None
    intention = _intention(sentence, hit, end, cuts)
    if confidence == 0.0 or not any(map(str.isalnum, intention)) or _is_noun(hit.kind, intention):
        return None
    certainty = min(
        what.certainty for what in (when.moment, when.recurring, _CERTAIN) if what is not None
    )
    return Commitment(
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
    )


_CERTAIN: Final = Moment(due=0, start=0, end=0)


def _decided(
    sentence: _Sentence, hit: _Hit, end: int
) -> tuple[_When | None, list[tuple[int, int]]]:
    """What decides when, from before the rule's words or after them, and the places of the text that say it."""
    plain = sentence.plain
    later = intents.LATER_WHEN.search(plain, hit.body - 1, end)
    if later is None:
        return _timed(sentence, hit, end)
    if later["unless"]:
        met = read_condition(plain[later.end() : end], sentence.at)
        timed, cuts = _timed(sentence, hit, later.start())
        return (
            (replace(timed, unless=met.predicate), [*cuts, (later.start(), end)])
            if met
            else (None, [])
        )
    if hit.before != _When():
        return _timed(sentence, hit, end)
    if plain[hit.body : later.start()].lower().endswith("only"):
        return None, []  # a rule, not an order: "deploy only if the build is green"
    comma = plain.find(", ", later.end(), end)
    # "Remind me, when Ann is back, to return her book": the condition ends at its own comma.
    clause_end = comma if later.start() <= hit.body and comma > 0 else end
    addressed = intents.ADDRESSED.match(plain, hit.body)
    waiting = _waiting(
        sentence, later, (later.end(), clause_end), addressed["name"] if addressed else ""
    )
    if waiting is None and (later["once"] or "").lower() == "after":
        return _timed(sentence, hit, end)
    if waiting is not None and waiting.condition and waiting.condition.predicate.is_negated:
        timed, cuts = _timed(sentence, hit, later.start())
        if timed.moment is not None:
            unless = replace(waiting.condition.predicate, is_negated=False)
            return replace(timed, unless=unless), [*cuts, (later.start(), clause_end)]
    return waiting, [(later.start(), clause_end)]


def _timed(sentence: _Sentence, hit: _Hit, end: int) -> tuple[_When, list[tuple[int, int]]]:
    if hit.before != _When():
        return _with_time(sentence, hit.before, (hit.body, end))
    recurring = read_recurrence(sentence.plain[hit.body : end], sentence.at)
    if recurring is not None:
        return _When(recurring=recurring, repeats=True), [
            (hit.body + recurring.start, hit.body + recurring.end)
        ]
    inside = [
        moment for moment in sentence.moments if hit.body <= moment.start and moment.end <= end
    ]
    # A table is booked for Friday; a reminder set for Friday comes then.
    inside = [moment for moment in inside if moment.lead != "for" or hit.kind == "remind"]
    if hit.kind == "tell":
        inside = [
            moment for moment in inside if moment.start <= hit.body + 1 or moment.lead in _LIMITS
        ]
    if not inside:
        return _When(), []
    # "Remind me tomorrow to book the flight on 3 May": the time beside the rule's words, else a limit, else the first.
    limits = [moment for moment in inside if moment.lead in _LIMITS]
    chosen = inside[0] if inside[0].start <= hit.body + 1 or not limits else limits[0]
    when, cuts = _with_time(sentence, _When(moment=chosen), (chosen.end, end))
    return when, [(chosen.start, chosen.end), *cuts]


def _with_time(
    sentence: _Sentence, when: _When, span: tuple[int, int]
) -> tuple[_When, list[tuple[int, int]]]:
    """With the only time of day in a part of the sentence, where only a day was named: "tomorrow call Ann at 5pm"."""
    start, end = span
    inside = [moment for moment in sentence.moments if start <= moment.start and moment.end <= end]
    times = [clock for clock in clocks(sentence.plain) if start <= clock.start and clock.end <= end]
    if len(times) != 1 or len(inside) > 1 or any(moment.day is not None for moment in inside):
        return when, []
    (clock,) = times
    if when.moment is not None and when.moment.day is not None:
        timed = at_time(when.moment, clock, sentence.zone)
        return (
            (replace(when, moment=timed), [(clock.start, clock.end)])
            if timed.due > sentence.at
            else (when, [])
        )
    if when.recurring is not None and when.recurring.rule.minute == NINE:
        rule = replace(
            when.recurring.rule, minute=clock.minute, offset_minutes=clock.offset_minutes
        )
        return replace(when, recurring=replace(when.recurring, rule=rule)), [
            (clock.start, clock.end)
        ]
    return when, []


def _is_worth_waiting(kind: Kind, condition: Condition) -> bool:
    if kind == "remind":
        return not condition.is_self or bool(condition.predicate.details)
    if condition.is_self:
        return False
    return kind in intents.TELLING or (condition.has_event and condition.is_definite)


def _may_be_undated(sentence: _Sentence, hit: _Hit, end: int) -> bool:
    body = sentence.plain[hit.body : end]
    if named_days(body, sentence.at) or any(
        hit.body <= moment.start < end for moment in sentence.moments
    ):
        return False  # a day that is over, or that is not when to act
    if hit.kind == "follow":
        return re.match(intents.FOLLOW + r"\s(?:with|on|about)\s", body, re.IGNORECASE) is not None
    return re.match(r"\s?(?:to|about|that)\s", body, re.IGNORECASE) is not None


def _is_noun(kind: Kind, intention: str) -> bool:
    """Whether the word that looked like an order is the subject of a statement."""
    if kind not in ("act", "follow"):
        return False
    verb = intents.FINITE.search(intention)
    return verb is not None and not verb["clause"]


def _intention(sentence: _Sentence, hit: _Hit, end: int, cuts: list[tuple[int, int]]) -> str:
    text, start = [], hit.body
    for cut_start, cut_end in sorted(cuts):
        text.append(sentence.text[start : max(start, cut_start)])
        start = max(start, cut_end)
    text.append(sentence.text[start:end])
    joined = " ".join(" ".join(text).split()).replace(" ,", ",")
    # "Remind me in two hours": the request itself is all there is.
    trimmed = _JOINTS.sub("", joined) or _JOINTS.sub("", sentence.text[hit.opening : hit.body])
    return shorten(trimmed, INTENTION_CHARS_LIMIT)
