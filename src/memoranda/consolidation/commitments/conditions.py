"""Conditions that later text can meet: "the build is green", "Ann replies", "the price drops below 100". English.

A condition becomes a `Predicate`: whom or what it is about, the event in any of its usual words ("arrives", "received",
"is here"), what else has to be said, and whether it is denied. `is_met` looks for one sentence, written later, that
states all of it as a fact. Questions, conditions, plans, hopes and denials meet nothing; neither does a sentence that
says "it" or leaves the subject to the sentence before. What is not found is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from memoranda.consolidation.text.sentences import sentences
from memoranda.encoding.short_cache import short_cache
from memoranda.retrieval.analysis import plain_words
from memoranda.retrieval.languages import ENGLISH, LITTLE_WORDS

# Events in the words that state them; a word may stand in several rows.
_EVENTS: Final = (
    "arrive receive deliver come get land here",
    "reply respond response answer",
    "green pass succeed success successful",
    "fail failure red break crash",
    "finish complete done end conclude over",
    "release ship publish launch live deploy out",
    "clear pay settle",
    "approve approval accept", "sign signature", "confirm confirmation", "agree agreement",
    "reject decline refuse deny",
    "merge",
    "up online back available reachable recover running",
    "down offline unavailable unreachable outage crash",
    "open reopen", "close", "start begin", "ready", "cancel", "return back", "update", "change", "expire", "renew",
    "resolve fix solve", "drop fall decrease", "rise increase exceed", "write email message", "call phone ring",
    "send forward", "ask", "join", "leave", "sell", "win", "lose", "stop", "ship dispatch", "upload", "install",
    "land merge", "book", "decide decision", "announce announcement", "restart reboot", "stabilize stable",
)  # fmt: skip
_IRREGULAR: Final = dict(
    pair.split("/")
    for pair in (
        "came/come got/get gotten/get sent/send paid/pay went/go gone/go goes/go broke/break broken/break fell/fall "
        "fallen/fall rose/rise risen/rise began/begin begun/begin wrote/write written/write did/do made/make "
        "built/build left/leave sold/sell won/win lost/lose rang/ring rung/ring ran/run heard/hear said/say met/meet "
        "became/become took/take taken/take gave/give given/give found/find held/hold told/tell bought/buy "
        "brought/bring replies/reply replied/reply lands/land shipped/ship"
    ).split()
)
# Who does these is named first, or after "from" or "by": "I replied to Ann" is not Ann's reply.
_DONE_BY_SUBJECT: Final = (
    "reply respond answer write email message call phone ask agree confirm join leave send return"
)
_LIGHT: Final = frozenset(("come", "go", "get", "turn", "becom", "make"))
_AUXILIARIES: Final = frozenset(
    "is are am be has have gets get goes go comes come becomes become turns turn does do doesn't don't isn't aren't "
    "hasn't haven't gets will can cannot can't".split()
)
# Only after a verb do these say that something happened.
_PARTICLES: Final = frozenset("up down back out over here live".split())
_DETERMINERS: Final = frozenset(
    "the my our your his her their its this that these those a an any some".split()
)
_FUNCTION_WORDS: Final = LITTLE_WORDS[ENGLISH] | frozenset(
    "get gets go goes come comes finally actually already".split()
)
# A reply answers something; that it does need not be said again.
_ANSWERED: Final = frozenset(
    ("email", "messag", "mail", "question", "request", "letter", "note", "text")
)

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NOT = re.compile(
    r"\b(?:not|never|no|without|nobody|none|neither|nor|hardly|barely|cannot|unable|yet to|nothing)\b|n['’]t\b",
    re.IGNORECASE,
)
_FAILED_TO = re.compile(r"\bfail(?:s|ed)? to\b", re.IGNORECASE)
_CONDITIONAL = re.compile(
    r"\b(?:if|when|whenever|once|unless|until|till|as soon as|in case|whether|after|before|every time)\b",
    re.IGNORECASE,
)
# `May` the month is no doubt; `may` is.
_UNSURE = re.compile(
    r"\b(?i:will|would|should|could|might|must|shall|maybe|perhaps|probably|possibly|hope|hopes|hoping|hopefully"
    r"|expects?|expected|expecting|waiting|awaiting|wait|plans?|planned|going to|about to|wants?|needs?|remind|pending"
    r"|almost|nearly|tomorrow|thinks?|guess|believe|supposed|scheduled|suppose|imagine|soon|likely|can|try|trying|unclear|wonder|asked"
    r"(?: (?:if|whether))|due|wish|ought)\b|\bmay\b|['’]ll\b|['’]d\b"
)
_CLAUSE = re.compile(
    r"[,;:]\s|\s?[—–]\s?|\s-\s|\s(?:and|but|so|because|while|although)\s", re.IGNORECASE
)
_PAST = re.compile(
    r"\b(?:was|were|had|did|would|could|might|used to)\b|n['’]t have\b", re.IGNORECASE
)
_PRONOUNS: Final = frozenset(
    "it this that they he she them these those there everything something anything".split()
)
_SELF: Final = frozenset(
    "i we you i'm i've we're we've you're you've i’m we’re you’re i'll you'll".split()
)
_INDEFINITE: Final = frozenset(
    "a an any some every each no one someone somebody anyone anybody nobody people users somewhere all".split()
)
_DEFINITE: Final = frozenset("the my our your his her their this that these those its".split())
# "If the user asks for prices" is a way of working, not something to wait for.
_GENERIC: Final = frozenset(("user", "reader", "visitor", "caller"))
_HEAR_FROM = re.compile(
    r"^(?:i|we)\s(?P<not>(?:do|have|did)(?:n['’]t| not)\s|never\s)?(?:have\s)?(?:hear|heard|get|got|receive|received)\s"
    r"(?:back\s|anything\s|something\s)?(?:(?:a|an|any|the|no)\s(?:reply|response|answer|word|news)\s)?from\s(?P<who>.{1,60})$",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"\b(?P<below>below|under|less than|lower than|at most)\s"
    r"(?P<b_number>[$€£¥]?\d{1,12}(?:[.,]\d{1,6})?\s?(?:%|[$€£¥])?)"
    r"|\b(?P<above>above|over|more than|higher than|at least|exceeds?|reach(?:es|ed)?|hits?)\s"
    r"(?P<a_number>[$€£¥]?\d{1,12}(?:[.,]\d{1,6})?\s?(?:%|[$€£¥])?)",
    re.IGNORECASE,
)
_FIGURE = re.compile(
    r"(?<![\w.])(?P<before>[$€£¥])?(?P<number>\d{1,12}(?:[.,]\d{1,6})?)\s?(?P<after>%|[$€£¥])?(?![\w])"
)
_WORDS_LIMIT: Final = 12
_CLAUSE_CHARS_LIMIT: Final = 160


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that is to be passed."""

    way: Literal["below", "above"]
    number: float
    # A currency sign, a per cent sign, or nothing.
    unit: str = ""

    def holds(self, number: float, unit: str) -> bool:
        """Whether a figure lies on the wanted side, in the same unit as far as both say it."""
        if unit != self.unit and ((unit and self.unit) or "%" in (unit, self.unit)):
            return False
        return number < self.number if self.way == "below" else number >= self.number


class Predicate(msgspec.Struct, frozen=True, kw_only=True):
    """What one sentence of a later text has to state; all words as stems."""

    subject: tuple[str, ...] = ()
    # One of these must be there; none when the event is only told by its figure or its details.
    event: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    # The sentence must deny it: "Ann has not replied".
    is_negated: bool = False
    # The subject does it, and so is named before it, or after "from" or "by".
    subject_acts: bool = False
    bound: Bound | None = None
    # Only what was written later than this can meet it, in milliseconds since 1970.
    since: int


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A clause read as a predicate, and what decides whether it is worth waiting for."""

    predicate: Predicate
    # Its subject is the writer or the reader.
    is_self: bool = False
    # It speaks of one thing that both know: "the build", "Ann", not "a build".
    is_definite: bool = False
    has_event: bool = False


def read_condition(clause: str, since: int) -> Condition | None:
    """The condition a clause states ("the build is green"); None when it states none that text can meet."""
    clause = " ".join(clause.split()).strip(" ,.;:!")
    if not clause or len(clause) > _CLAUSE_CHARS_LIMIT or _PAST.search(clause):
        return None
    heard = _HEAR_FROM.match(clause)
    if heard:
        made = _read(f"{heard['who']} replies", since)
        return made and replace(
            made, predicate=replace(made.predicate, is_negated=bool(heard["not"])), is_definite=True
        )
    return _read(clause, since)


def _read(clause: str, since: int) -> Condition | None:
    bound = _bound(clause)
    written = [match[0] for match in _WORD.finditer(_BOUND.sub(" ", clause) if bound else clause)]
    first = written[0].lower() if written else ""
    split = next(
        (place for place in range(1, len(written)) if _is_verb(written[place], written[place - 1])),
        None,
    )
    if split is None and bound:
        split = len(written)
    if split is None or _is_bare_reference(written[:split]):
        return None
    is_self = first in _SELF
    event, rest = _event(written[split:], is_self=is_self)
    subject, details = () if is_self else _stems(written[:split]), _stems(rest)
    event = tuple(stem for stem in event if stem not in subject)
    if _key("reply") in event:
        details = tuple(stem for stem in details if stem not in _ANSWERED)
    if not (subject or (is_self and details)) or not (event or details or bound):
        return None
    predicate = Predicate(
        subject=subject[:_WORDS_LIMIT],
        event=event,
        details=details[:_WORDS_LIMIT],
        is_negated=bool(_NOT.search(clause)),
        subject_acts=bool(set(event) & _subject_verbs()),
        bound=bound,
        since=since,
    )
    is_named = any(word[0].isupper() or word[-1].isdigit() for word in written[:split])
    is_definite = (
        first in _DEFINITE or (first not in _INDEFINITE and is_named)
    ) and not _GENERIC.intersection(subject)
    return Condition(
        predicate=predicate,
        is_self=is_self,
        is_definite=is_definite,
        has_event=bool(event or bound),
    )


def _is_bare_reference(subject: list[str]) -> bool:
    """Whether a subject is "it", "this" or an article alone."""
    return len(subject) == 1 and subject[0].lower() in _PRONOUNS | _DETERMINERS


def _is_verb(word: str, before: str) -> bool:
    folded = word.lower().replace("’", "'")
    if folded in _AUXILIARIES:
        return True
    if _key(folded) not in _events() or folded in _PARTICLES:
        return False
    # Many nouns have the form of the verb ("the call"): it must agree with a subject, or stand in the past.
    is_plural = before.lower().endswith("s") and not before.lower().endswith(("ss", "'s", "’s"))
    return folded.endswith(("s", "d")) or is_plural


def _event(predicate: list[str], *, is_self: bool) -> tuple[tuple[str, ...], list[str]]:
    """The words the event may be told in, and the other words."""
    keys = [_key(word.lower()) for word in predicate]
    known = [place for place, key in enumerate(keys) if key in _events()]
    telling = next(
        (place for place in known if keys[place] not in _LIGHT), known[0] if known else None
    )
    rest = [
        word
        for place, word in enumerate(predicate)
        if place != telling and word.lower() not in _FUNCTION_WORDS and keys[place] not in _LIGHT
    ]
    # "I get home" happens in many words; only the place is sure to be said.
    is_told = telling is not None and not (is_self and keys[telling] in _LIGHT)
    return (_events()[keys[telling]] if telling is not None and is_told else ()), rest


def _stems(written: list[str]) -> tuple[str, ...]:
    found = (
        _key(word.lower())
        for word in written
        if word.lower() not in LITTLE_WORDS[ENGLISH] and not _NOT.search(word)
    )
    return tuple(dict.fromkeys(stem for stem in found if stem not in _AUXILIARIES))


@short_cache(8_192)
def _key(word: str) -> str:
    word = re.sub(r"['’]s$|s['’]$", "", word)
    word = _IRREGULAR.get(word, word)
    found = plain_words(word)
    return found[0] if found else word


@lru_cache(maxsize=1)
def _events() -> dict[str, tuple[str, ...]]:
    rows: dict[str, set[str]] = {}
    for row in _EVENTS:
        keys = {_key(word) for word in row.split()}
        for key in keys:
            rows.setdefault(key, set()).update(keys)
    return {key: tuple(sorted(row)) for key, row in rows.items()}


@lru_cache(maxsize=1)
def _subject_verbs() -> frozenset[str]:
    return frozenset(_key(word) for word in _DONE_BY_SUBJECT.split())


def _bound(clause: str) -> Bound | None:
    match = _BOUND.search(clause)
    if match is None:
        return None
    text = match["b_number"] or match["a_number"]
    figure = _FIGURE.search(text)
    if figure is None:
        return None
    return Bound(
        way="below" if match["below"] else "above", number=_number(figure), unit=_unit(figure)
    )


def _number(figure: re.Match[str]) -> float:
    whole, _, part = figure["number"].replace(",", ".").partition(".")
    # "1,000" groups thousands; "1,5" and "1.25" do not.
    return (
        float(whole + part)
        if len(part) == 3 and "," in figure["number"]
        else float(f"{whole}.{part or 0}")
    )


def _unit(figure: re.Match[str]) -> str:
    return figure["before"] or figure["after"] or ""


def is_met(predicate: Predicate, text: str, at: int) -> bool:
    """Whether a text written at that instant states what the predicate waits for."""
    if at <= predicate.since:
        return False
    return any(
        _states(predicate, unit) for sentence in sentences(text) for unit in _units(sentence)
    )


def _units(sentence: str) -> Iterator[str]:
    """The sentence, and each of its clauses, as far as they state facts."""
    if sentence.rstrip("\"'”’)]» ").endswith("?"):
        return
    if not _CONDITIONAL.search(sentence) and not _UNSURE.search(sentence):
        yield sentence
    for clause in _CLAUSE.split(sentence):
        if _CONDITIONAL.search(clause):
            return
        if not _UNSURE.search(clause):
            yield clause


def _states(predicate: Predicate, unit: str) -> bool:
    keys = [_key(match[0].lower()) for match in _WORD.finditer(unit)]
    found = set(keys)
    if not found.issuperset(predicate.subject) or not found.issuperset(predicate.details):
        return False
    if predicate.event and predicate.bound is None and not found.intersection(predicate.event):
        return False
    is_denied = bool(_NOT.search(unit)) or (
        "fail" not in predicate.event and bool(_FAILED_TO.search(unit))
    )
    if is_denied != predicate.is_negated:
        return False
    if predicate.bound is not None:
        bound = predicate.bound
        return any(bound.holds(_number(figure), _unit(figure)) for figure in _FIGURE.finditer(unit))
    return not (predicate.subject_acts and predicate.subject) or _acts(predicate, keys)


def _acts(predicate: Predicate, keys: list[str]) -> bool:
    subject = min(keys.index(stem) for stem in predicate.subject)
    event = next(place for place, key in enumerate(keys) if key in predicate.event)
    return subject < event or any(
        word in ("from", "by") for word in keys[max(0, subject - 2) : subject]
    )
