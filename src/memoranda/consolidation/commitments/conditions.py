"""Conditions that later text can meet: "the build is green", "Ann replies", "the price drops below 100". English.

`read_condition` turns a clause into an `EventPredicate`: its subject, the stems of all words for the event ("arrives",
"received", "is here"), further details, and a flag for negation. `is_met` looks for one later sentence that states all
of this as a fact. Questions, conditions, plans, hopes and denials do not count, nor does a sentence with "it" as its
subject.

A predicate describes the event that a commitment waits for, and `is_met` tells if a later text reports it. Stems,
numbers and details must agree; a text that denies the event or only plans it does not meet it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from memoranda.consolidation.text.sentences import split_sentences
from memoranda.encoding.short_cache import short_cache
from memoranda.retrieval.analysis import english_keywords
from memoranda.retrieval.languages import ENGLISH, stop_words

# Groups of words for the same event; a word may be in several groups.
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
# Verbs whose subject is named before them, or after "from" or "by": "I replied to Ann" is not Ann's reply.
_DONE_BY_SUBJECT: Final = (
    "reply respond answer write email message call phone ask agree confirm join leave send return"
)
_LIGHT: Final = frozenset(("come", "go", "get", "turn", "becom", "make"))
_AUXILIARIES: Final = frozenset(
    "is are am be has have gets get goes go comes come becomes become turns turn does do doesn't don't isn't aren't "
    "hasn't haven't gets will can cannot can't".split()
)
# Words that state an event only after a verb.
_PARTICLES: Final = frozenset("up down back out over here live".split())
_DETERMINERS: Final = frozenset(
    "the my our your his her their its this that these those a an any some".split()
)
_FUNCTION_WORDS: Final = stop_words(ENGLISH) | frozenset(
    "get gets go goes come comes finally actually already".split()
)
# Objects of a reply, which a later sentence need not repeat.
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
# Words of doubt. `may` is one, but not the month `May`.
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
# Subjects of a way of working ("if the user asks for prices"), for which nobody waits.
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
# Words of a subject or of the details, and characters of a clause; longer conditions are never met literally.
_WORDS_LIMIT: Final = 12
_CLAUSE_CHARS_LIMIT: Final = 160


class NumberBound(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold for a number."""

    way: Literal["below", "above"]
    number: float
    # A currency sign, a per cent sign, or nothing.
    unit: str = ""

    def holds(self, number: float, unit: str) -> bool:
        """Return True if a number is on the required side of the threshold; two different units never match."""
        if unit != self.unit and ((unit and self.unit) or "%" in (unit, self.unit)):
            return False
        return number < self.number if self.way == "below" else number >= self.number


class EventPredicate(msgspec.Struct, frozen=True, kw_only=True):
    """The statement that one sentence of a later text must make; all words are stems."""

    subject: tuple[str, ...] = ()
    # At least one of these stems must occur; empty if number or details alone identify the event.
    event: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    # True if the sentence must be a negation: "Ann has not replied".
    is_negated: bool = False
    # True if the subject must stand before the event, or after "from" or "by".
    subject_acts: bool = False
    bound: NumberBound | None = None
    # Only text written after this instant counts, in milliseconds since 1970.
    since: int


class StatedCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed condition, with the properties that decide whether a commitment waits for it."""

    predicate: EventPredicate
    # True if the subject is the writer or the reader.
    is_self: bool = False
    # True if the subject is one known thing: "the build", "Ann", but not "a build".
    is_definite: bool = False
    has_event: bool = False


def read_condition(clause: str, since: int) -> StatedCondition | None:
    """Parse a clause such as "the build is green"; return None if no later text could meet it.

    `since` is the instant at which the clause was written, in milliseconds since 1970.
    """
    clause = " ".join(clause.split()).strip(" ,.;:!")
    if not clause or len(clause) > _CLAUSE_CHARS_LIMIT or _PAST.search(clause):
        return None
    news = _HEAR_FROM.match(clause)
    if news:
        condition = _parse_condition(f"{news['who']} replies", since)
        return condition and replace(
            condition,
            predicate=replace(condition.predicate, is_negated=bool(news["not"])),
            is_definite=True,
        )
    return _parse_condition(clause, since)


def _parse_condition(clause: str, since: int) -> StatedCondition | None:
    """Return the condition of a clause; None without a subject or an event."""
    bound = _parse_bound(clause)
    words = [match[0] for match in _WORD.finditer(_BOUND.sub(" ", clause) if bound else clause)]
    first = words[0].lower() if words else ""
    parts = next(
        (index for index in range(1, len(words)) if _is_verb(words[index], words[index - 1])), None
    )
    if parts is None and bound:
        parts = len(words)
    if parts is None or _is_bare_reference(words[:parts]):
        return None
    is_self = first in _SELF
    event, other_words = _split_event(words[parts:], is_self=is_self)
    subject, details = () if is_self else _stem_words(words[:parts]), _stem_words(other_words)
    event = tuple(stem for stem in event if stem not in subject)
    if _stem("reply") in event:
        details = tuple(stem for stem in details if stem not in _ANSWERED)
    if not (subject or (is_self and details)) or not (event or details or bound):
        return None
    predicate = EventPredicate(
        subject=subject[:_WORDS_LIMIT],
        event=event,
        details=details[:_WORDS_LIMIT],
        is_negated=bool(_NOT.search(clause)),
        subject_acts=bool(set(event) & _subject_verbs()),
        bound=bound,
        since=since,
    )
    is_named = any(word[0].isupper() or word[-1].isdigit() for word in words[:parts])
    is_definite = (
        first in _DEFINITE or (first not in _INDEFINITE and is_named)
    ) and not _GENERIC.intersection(subject)
    return StatedCondition(
        predicate=predicate,
        is_self=is_self,
        is_definite=is_definite,
        has_event=bool(event or bound),
    )


def _is_bare_reference(subject: list[str]) -> bool:
    """Return True if a subject is only "it", "this" or an article."""
    return len(subject) == 1 and subject[0].lower() in _PRONOUNS | _DETERMINERS


def _is_verb(word: str, before: str) -> bool:
    """Return True if a word is the verb of a condition, given the word before it."""
    folded = word.lower().replace("’", "'")
    if folded in _AUXILIARIES:
        return True
    if _stem(folded) not in _event_table() or folded in _PARTICLES:
        return False
    # Many nouns look like the verb ("the call"), so it must agree with a subject, or be in the past.
    is_plural = before.lower().endswith("s") and not before.lower().endswith(("ss", "'s", "’s"))
    return folded.endswith(("s", "d")) or is_plural


def _split_event(predicate: list[str], *, is_self: bool) -> tuple[tuple[str, ...], list[str]]:
    """Return the stems of all words for the event, and the other words of the predicate."""
    keys = [_stem(word.lower()) for word in predicate]
    event_indices = [index for index, key in enumerate(keys) if key in _event_table()]
    default_index = event_indices[0] if event_indices else None
    event_index = next(
        (index for index in event_indices if keys[index] not in _LIGHT), default_index
    )
    other_words = [
        word
        for index, word in enumerate(predicate)
        if index != event_index
        and word.lower() not in _FUNCTION_WORDS
        and keys[index] not in _LIGHT
    ]
    # "I get home" has too many wordings; only the place is certain to be named.
    is_certain = event_index is not None and not (is_self and keys[event_index] in _LIGHT)
    return (
        _event_table()[keys[event_index]] if event_index is not None and is_certain else ()
    ), other_words


def _stem_words(words: list[str]) -> tuple[str, ...]:
    """Return the stems of the words that carry meaning, each once."""
    stems = (
        _stem(word.lower())
        for word in words
        if word.lower() not in stop_words(ENGLISH) and not _NOT.search(word)
    )
    return tuple(dict.fromkeys(stem for stem in stems if stem not in _AUXILIARIES))


@short_cache(8_192)
def _stem(word: str) -> str:
    """Return the stem of a word, irregular verbs resolved."""
    word = re.sub(r"['’]s$|s['’]$", "", word)
    word = _IRREGULAR.get(word, word)
    stems = english_keywords(word)
    return stems[0] if stems else word


@lru_cache(maxsize=1)
def _event_table() -> dict[str, tuple[str, ...]]:
    """Return for each stem of an event the stems of all its synonyms."""
    rows: dict[str, set[str]] = {}
    for row in _EVENTS:
        keys = {_stem(word) for word in row.split()}
        for key in keys:
            rows.setdefault(key, set()).update(keys)
    return {key: tuple(sorted(row)) for key, row in rows.items()}


@lru_cache(maxsize=1)
def _subject_verbs() -> frozenset[str]:
    return frozenset(_stem(word) for word in _DONE_BY_SUBJECT.split())


def _parse_bound(clause: str) -> NumberBound | None:
    """Return the threshold in a clause ("below 100"); None without one."""
    match = _BOUND.search(clause)
    if match is None:
        return None
    text = match["b_number"] or match["a_number"]
    figure = _FIGURE.search(text)
    if figure is None:
        return None
    return NumberBound(
        way="below" if match["below"] else "above",
        number=_parse_number(figure),
        unit=_currency_or_percent(figure),
    )


def _parse_number(figure: re.Match[str]) -> float:
    integer, _, fraction = figure["number"].replace(",", ".").partition(".")
    # "1,000" groups thousands; "1,5" and "1.25" do not.
    return (
        float(integer + fraction)
        if len(fraction) == 3 and "," in figure["number"]
        else float(f"{integer}.{fraction or 0}")
    )


def _currency_or_percent(figure: re.Match[str]) -> str:
    return figure["before"] or figure["after"] or ""


def is_met(predicate: EventPredicate, text: str, at: int) -> bool:
    """Return True if a text written at `at` (milliseconds since 1970) states the event of the predicate."""
    if at <= predicate.since:
        return False
    return any(
        _clause_states(predicate, unit)
        for sentence in split_sentences(text)
        for unit in _factual_clauses(sentence)
    )


def _factual_clauses(sentence: str) -> Iterator[str]:
    """Yield the sentence and each of its clauses, as far as they state facts."""
    if sentence.rstrip("\"'”’)]» ").endswith("?"):
        return
    if not _CONDITIONAL.search(sentence) and not _UNSURE.search(sentence):
        yield sentence
    for clause in _CLAUSE.split(sentence):
        if _CONDITIONAL.search(clause):
            return
        if not _UNSURE.search(clause):
            yield clause


def _clause_states(predicate: EventPredicate, unit: str) -> bool:
    """Return True if a clause states the event of a predicate."""
    keys = [_stem(match[0].lower()) for match in _WORD.finditer(unit)]
    stems = set(keys)
    if not stems.issuperset(predicate.subject) or not stems.issuperset(predicate.details):
        return False
    if predicate.event and predicate.bound is None and not stems.intersection(predicate.event):
        return False
    is_denied = bool(_NOT.search(unit)) or (
        "fail" not in predicate.event and bool(_FAILED_TO.search(unit))
    )
    if is_denied != predicate.is_negated:
        return False
    if predicate.bound is not None:
        bound = predicate.bound
        return any(
            bound.holds(_parse_number(figure), _currency_or_percent(figure))
            for figure in _FIGURE.finditer(unit)
        )
    return not (predicate.subject_acts and predicate.subject) or _subject_acts(predicate, keys)


def _subject_acts(predicate: EventPredicate, keys: list[str]) -> bool:
    """Return True if the subject stands before the event, or after "from" or "by"."""
    subject = min(keys.index(stem) for stem in predicate.subject)
    event = next(index for index, key in enumerate(keys) if key in predicate.event)
    return subject < event or any(
        word in ("from", "by") for word in keys[max(0, subject - 2) : subject]
    )
