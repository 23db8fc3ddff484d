"""Statements read by rules: who or what, which verb, which value; and where two of them do not fit together.

English verbs (predicates.py), and labels such as "Port: 8080" in any language. A rule that is not sure reads nothing:
questions, conditions, reports of what somebody said and subjects such as "it" make no claim.

Two claims differ when they give one subject two values where only one can hold, or when one denies the other. Past,
planned and hedged statements never contradict a present one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from memoranda.consolidation.text import predicates
from memoranda.consolidation.text.gaps import NUMBER, Filling, disputes, read_fillings
from memoranda.consolidation.text.note import Note, one_line
from memoranda.consolidation.text.predicates import (
    ATTRIBUTES,
    IS,
    OPPOSITES,
    QUALITIES,
    REPLACE,
    ROLES,
    SWITCH,
    VERB,
    Predicate,
    denial_first,
)
from memoranda.consolidation.text.reading import Reading, content_words, numbers, once
from memoranda.consolidation.text.sentences import is_code

Mood = Literal["fact", "past", "plan", "hedged"]

_SENTENCE_CHARS_LIMIT: Final = 300
_SUBJECT_WORDS_LIMIT: Final = 7
_VALUE_WORDS_LIMIT: Final = 12
_LABEL_WORDS_LIMIT: Final = 5
_MEMBER_WORDS_LIMIT: Final = 3
# A plain subject is shorter than this.
_VERB_WITHIN_CHARS: Final = 100
_LABEL_VALUE_WORDS_LIMIT: Final = 8
_NAMED_VALUE_WORDS_LIMIT: Final = 4
_BARE_VALUE_WORDS_LIMIT: Final = 2

_EMPHASIS = re.compile(r"(?<!\w)[*_`~]{1,3}|[*_`~]{1,3}(?!\w)")
_LEAD = re.compile(
    r"^(?:(?:note|update|updated|correction|reminder|fact|decision|remember|fyi|important|edit)\s*:\s*"
    r"|(?:currently|now|today|actually|also|and|but|so|then|finally|as of [^,]{1,30}|since [^,]{1,30}),?\s+"
    r"|remember that\s+)+",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"^(?P<subject>[^:=：]{1,60}?)\s*(?:[:=]\s+|：\s*|\s=\s)(?P<value>\S[^:=：]{0,120})$"
)
# A clause that follows the value and says why, when or what else.
_TAIL = re.compile(
    # Spaces are read from where they begin: from every one of them, a long run would take its square.
    r"(?:(?<!\s)\s++)?+[;,—–(]|(?<!\s)\s++-\s"
    r"|\s(?:because|since|so|but|although|though|which|who|where|while|as of|due to"
    r"|and (?:it|he|she|they|we)"
    r"|any ?more|these days|again|at the moment|right now|now|currently|instead|yesterday|recently|today"
    r"|(?:last|this) (?:week|month|year|spring|summer|autumn|fall|winter))\b",
    re.IGNORECASE,
)
# Words that open what a value holds for: "8080 in staging".
_SCOPE = re.compile(
    r"\s(?=(?:in|on|at|for|during|with|by|from|under|when|as|within|inside|outside|via|through|until|after|before)\s)",
    re.IGNORECASE,
)
_CONDITIONS = re.compile(
    r"\b(?:if|unless|whether|when|whenever|once|suppose|in case|otherwise)\b", re.IGNORECASE
)
# A subject with one of these is not a plain name: a report, a clause, a reference to something said before.
_NOT_A_SUBJECT = re.compile(
    r"\b(?:it|this|that|these|those|there|here|he|she|they|him|them|his|her|hers|its|their|who|which|what|why|how|where"
    r"|says?|said|thinks?|thought|believes?|claims?|claimed|asks?|asked|told|because|although|but|or|not|never|nobody"
    r"|is|are|was|were|am|be|been|nothing|none|neither|everything|something|someone|anyone|one|another|other|some|most|many|few)\b|[,;:!?\"“”()\[\]{}<>|]",
    re.IGNORECASE,
)
_TRAILING = re.compile(
    r"\s(?P<word>will|would|should|could|can|may|might|must|shall|used to|plans? to|intends? to|wants? to|is going to"
    r"|are going to|has to|have to|needs? to|ought to|usually|sometimes|often|mostly|probably|possibly|rarely|maybe"
    r"|also|currently|now|still|always|only|already|mainly|really|generally|just|all|both|officially|actually)$",
    re.IGNORECASE,
)
_PLANS: Final = frozenset(
    (
        "will",
        "shall",
        "plans to",
        "plan to",
        "intends to",
        "intend to",
        "is going to",
        "are going to",
    )
)
_HEDGES: Final = frozenset(
    "would should could can may might must usually sometimes often mostly probably possibly rarely maybe".split()
) | {"wants to", "want to", "has to", "have to", "needs to", "need to", "ought to"}
_VAGUE = re.compile(
    r"\b(?:about|around|roughly|approximately|nearly|almost|maybe|probably|perhaps|some|between|up to"
    r"|at (?:least|most))\b",
    re.IGNORECASE,
)
# "The new port" is the port; but New York is not York.
_DETERMINER = re.compile(r"^(?:(?i:the|an?)\s+)?(?:[Nn]ew|[Cc]urrent)\s+(?=[a-z])|^(?i:the|an?)\s+")
_OF = re.compile(r"^(?P<what>.{1,60}?) of (?P<whose>.{1,60})$", re.IGNORECASE)
_POSSESSIVE = re.compile(r"^(?P<whose>.{1,60}?)['’]s? (?P<what>.{1,60})$")
_OVER = re.compile(
    r"^(?P<more>.{1,50}?) (?:over|to|rather than|instead of) (?P<less>.{1,50})$", re.IGNORECASE
)
_LIST = re.compile(r",\s*+(?:and\s++)?|(?<!\s)\s++and\s++|(?:(?<!\s)\s++)?+&\s*+")
_SPEAKERS = re.compile(r"(?:we|i|the team|our team)\b", re.IGNORECASE)
_LABELS_OF_NOTHING: Final = frozenset(
    "todo bug issue example warning summary title question answer idea topic http https error caution tip".split()
)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What one sentence of a note says."""

    note: Note
    place: int
    sentence: str
    subject: str
    predicate: Predicate
    value: str
    mood: Mood
    is_denied: bool
    # What is spoken of: equal in two claims about the same.
    subject_key: str
    value_key: str
    # What it holds for, such as "in staging".
    scope_key: str = ""
    # Set when only one value can hold: equal in two claims that compete.
    slot: tuple[str, ...] | None = None
    # Of "switched from A to B": the key of A.
    left: str = ""

    @property
    def statement(self) -> tuple[str, ...]:
        """Equal in two claims that say the same, or of which one denies the other."""
        return (self.subject_key, self.predicate.name, self.value_key, self.scope_key)


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """Two claims that cannot both hold now; the earlier first."""

    earlier: Claim | Filling
    later: Claim | Filling
    reason: Literal["values", "denial"]


def key_of(text: str) -> str:
    """A name as it is compared: folded, stemmed, without articles."""
    plain = _DETERMINER.sub("", text.strip())
    speaker = re.match(r"(?:i|my|me|we|our|us|you|your)\b", plain, re.IGNORECASE)
    lead = speaker[0].lower() if speaker else ""
    found = " ".join(content_words(plain))
    return f"{lead} {found}".strip() or plain.casefold()


@once
def read_claims(reading: Reading) -> list[Claim]:
    """The claims of all notes, in order."""
    return [
        claim
        for sentence in reading.sentences
        for claim in claims_of(sentence.note, sentence.place, sentence.text)
    ]


def claims_of(note: Note, place: int, text: str) -> list[Claim]:
    """What one sentence says: usually nothing or one thing, more for a list of values."""
    if len(text) > _SENTENCE_CHARS_LIMIT or text.rstrip().endswith(("?", "？")) or is_code(text):
        return []
    plain = denial_first(_LEAD.sub("", _EMPHASIS.sub("", one_line(text))).strip().rstrip(".!。！;"))
    base = Claim(
        note=note, place=place, sentence=text, subject="", predicate=IS, value="", mood="fact", is_denied=False,
        subject_key="", value_key="",
    )  # fmt: skip
    if _CONDITIONS.search(plain):
        return []
    return [
        _completed(claim)
        for claim in _parsed(base, plain)
        if _is_plain_subject(claim.subject) and claim.value
    ]


def _parsed(base: Claim, plain: str) -> Iterator[Claim]:
    label = _LABEL.match(plain)
    if label is not None:
        yield from _label(base, label)
        return
    switch = SWITCH.match(plain) or REPLACE.match(plain)
    if switch is not None:
        yield from _switch(base, switch)
        return
    verb = VERB.search(plain, 1, _VERB_WITHIN_CHARS)
    if verb is not None:
        yield from _verb(base, plain, verb)


def _label(base: Claim, match: re.Match[str]) -> Iterator[Claim]:
    subject, value = match["subject"].strip(), match["value"].strip()
    if len(subject.split()) > _LABEL_WORDS_LIMIT or len(value.split()) > _LABEL_VALUE_WORDS_LIMIT:
        return
    if subject.casefold() not in _LABELS_OF_NOTHING and VERB.search(f" {subject} ") is None:
        yield replace(base, subject=subject, value=_without_tail(value))


def _switch(base: Claim, match: re.Match[str]) -> Iterator[Claim]:
    moves = match.groupdict().get("how", "").lower() in ("moved", "relocated")
    predicate = predicates.BY_NAME["lives in" if moves else "uses"]
    subject, mood = _without_trailing(match["subject"])
    if mood != "fact":
        return
    old = _without_tail(match["old"])
    new = _without_tail(match["new"])
    yield replace(base, subject=subject, predicate=predicate, value=new, left=_value_key(old))
    denied = ("lives in", "uses") if moves else ("uses",)
    for name in denied:
        yield replace(
            base, subject=subject, predicate=predicates.BY_NAME[name], value=old, is_denied=True
        )


def _verb(base: Claim, plain: str, match: re.Match[str]) -> Iterator[Claim]:
    if match["ing"] and not match["not"]:
        return
    predicate, is_past = predicates.predicate_of(match)
    subject, mood = _without_trailing(plain[: match.start()].strip())
    value = plain[match.end() :].strip()
    denied = bool(match["not"])
    if match["not"] and re.match(
        r"(?:did|had|could|will|would|should|won)\b", match["not"], re.IGNORECASE
    ):
        is_past = True
    if is_past:
        mood = "past"
    if predicate is IS and value[:3].lower() == "no ":
        denied, value = not denied, value[3:].strip()
    if predicate.denies:
        predicate, denied = predicates.BY_NAME[predicate.denies], not denied
    made = replace(base, subject=subject, predicate=predicate, mood=mood, is_denied=denied)
    if predicate.inverse_of:
        by = predicates.BY_NAME[predicate.inverse_of]
        yield replace(made, subject=_without_tail(value), value=subject, predicate=by)
        return
    values = [_without_tail(value)] if predicate.is_single or predicate is IS else _listed(value)
    yield from (replace(made, value=part) for part in values)


def _listed(value: str) -> list[str]:
    """The members of "A, B and C"; what goes on as a clause is none of them."""
    parts = [part.strip() for part in _LIST.split(value)]
    found = [_without_tail(parts[0])]
    for part in parts[1:]:
        if (
            len(part.split()) > _MEMBER_WORDS_LIMIT
            or VERB.search(f" {part} ")
            or _TAIL.match(f" {part}")
        ):
            break
        found.append(_without_tail(part))
    return found


def _without_trailing(subject: str) -> tuple[str, Mood]:
    """The subject without adverbs and modal verbs behind it, and the mood those give."""
    mood: Mood = "fact"
    while (match := _TRAILING.search(subject)) is not None:
        word = match["word"].lower()
        if word in _PLANS:
            mood = "plan"
        elif word in _HEDGES:
            mood = "hedged"
        elif word == "used to":
            mood = "past"
        subject = subject[: match.start()].strip()
    return subject, mood


def _without_tail(value: str) -> str:
    tail = _TAIL.search(value)
    return value[: tail.start()].strip() if tail else value.strip()


def _is_plain_subject(subject: str) -> bool:
    count = len(subject.split())
    return 0 < count <= _SUBJECT_WORDS_LIMIT and _NOT_A_SUBJECT.search(subject) is None


def _completed(claim: Claim) -> Claim:
    """The claim with its keys: what it is about, and with what it competes."""
    whole = claim.value
    value, scope = whole, ""
    parts = _SCOPE.split(whole, maxsplit=1)
    if len(parts) == 2:
        value, scope = parts[0].strip(), parts[1].strip()
    subject_key = _subject_key(claim.subject)
    made = replace(
        claim,
        value=value,
        subject_key=subject_key,
        value_key=_value_key(value),
        scope_key=key_of(scope) if scope else "",
    )
    if _VAGUE.search(value) and made.mood == "fact":
        made = replace(made, mood="hedged")
    if claim.mood != "fact" or len(whole.split()) > _VALUE_WORDS_LIMIT or not value:
        return made
    return replace(made, slot=_slot(made, scope))


def _value_key(value: str) -> str:
    found = " ".join(content_words(_DETERMINER.sub("", value)))
    stated = " ".join(sorted(numbers(value)))
    return f"{found} | {stated}" if stated else found or value.casefold()


def _subject_key(subject: str) -> str:
    whose, what = owner_and_attribute(subject)
    return f"{key_of(whose)} / {key_of(what)}" if whose else key_of(subject)


def owner_and_attribute(subject: str) -> tuple[str, str]:
    """ "The port of billing" and "billing's port" are the port of billing; other subjects have no owner."""
    match = _POSSESSIVE.match(subject) or _OF.match(subject)
    if match is None:
        return "", subject
    return match["whose"].strip(), _DETERMINER.sub("", match["what"].strip())


def _slot(claim: Claim, scope: str) -> tuple[str, ...] | None:
    """What competes for one place; None when several values can hold side by side."""
    name, value = claim.predicate.name, claim.value
    base = (claim.subject_key, name, claim.scope_key)
    if name == "prefers" and (over := _OVER.match(f"{value} {scope}".strip())) is not None:
        return (claim.subject_key, name, *sorted((key_of(over["more"]), key_of(over["less"]))))
    if (pair := _opposite(value)) is not None:
        return (*base, pair)
    if claim.predicate.is_single:
        return base
    if claim.predicate is IS:
        return (*base, "value") if _is_attribute(claim.subject, value) else None
    # "Uses npm for builds": for one purpose, one thing.
    return (
        base if name in ("uses", "prefers") and scope.lower().startswith(("for ", "as ")) else None
    )


def _is_attribute(subject: str, value: str) -> bool:
    """Whether the subject is something that has one value, and the value names one."""
    owner, what = owner_and_attribute(subject)
    named = _DETERMINER.sub("", what).casefold().split()
    said = value.casefold().split()
    # Numbers, times and dates are compared by their frames.
    if (
        not named
        or NUMBER.search(value)
        or QUALITIES.issuperset(said)
        or any(word.endswith(("ing", "ed")) for word in said)
    ):
        return False
    # A bare "status" or "id" may be that of anything: only a plain value says that it is the same one.
    is_bare = len(named) == 1 and not owner
    if len(said) > (_BARE_VALUE_WORDS_LIMIT if is_bare else _NAMED_VALUE_WORDS_LIMIT):
        return False
    if is_bare and _DETERMINER.match(value):
        return False
    is_name = any(character.isupper() or character.isdecimal() for character in value)
    return named[-1] in ATTRIBUTES or (named[-1] in ROLES and (is_name or not is_bare))


@lru_cache(maxsize=1)
def _opposites() -> dict[str, str]:
    return {word: pair for pair in OPPOSITES for word in pair.split("/")}


def _opposite(value: str) -> str | None:
    return _opposites().get(value.casefold())


@once
def conflicts(reading: Reading) -> list[Conflict]:
    """Statements of different notes that cannot both hold; of many for one place, each against the latest."""
    facts = [claim for claim in read_claims(reading) if claim.mood == "fact"]
    filled = (
        Conflict(earlier=one, later=other, reason="values")
        for one, other in disputes(read_fillings(reading))
    )
    found: dict[tuple[str, int, str, int], Conflict] = {}
    for conflict in (*_different_values(facts), *_denials(facts), *_left_behind(facts), *filled):
        earlier, later = conflict.earlier, conflict.later
        found.setdefault((earlier.note.name, earlier.place, later.note.name, later.place), conflict)
    return sorted(found.values(), key=lambda each: (*_when(each.earlier), *_when(each.later)))


def _when(claim: Claim | Filling) -> tuple[int, str, int]:
    return (claim.note.at, claim.note.name, claim.place)


def _different_values(facts: Sequence[Claim]) -> Iterator[Conflict]:
    competing: dict[tuple[str, ...], list[Claim]] = defaultdict(list)
    for claim in facts:
        if claim.slot is not None and not claim.is_denied:
            competing[claim.slot].append(claim)
    for group in competing.values():
        latest = max(group, key=_when)
        for claim in group:
            if claim.value_key != latest.value_key and claim.note.name != latest.note.name:
                yield Conflict(earlier=claim, later=latest, reason="values")


def _denials(facts: Sequence[Claim]) -> Iterator[Conflict]:
    said: dict[tuple[str, ...], list[Claim]] = defaultdict(list)
    for claim in facts:
        said[claim.statement].append(claim)
    for group in said.values():
        latest = max(group, key=_when)
        for claim in group:
            if claim.is_denied != latest.is_denied and claim.note.name != latest.note.name:
                yield Conflict(earlier=claim, later=latest, reason="denial")


def _left_behind(facts: Sequence[Claim]) -> Iterator[Conflict]:
    """What names the thing that was switched from: "the package manager is npm", and later "we switched from npm"."""
    saying: dict[str, list[Claim]] = defaultdict(list)
    for claim in facts:
        if not claim.is_denied and not claim.left:
            saying[claim.value_key].append(claim)
    for switch in facts:
        for claim in saying.get(switch.left, ()) if switch.left else ():
            is_same = claim.subject_key == switch.subject_key or _SPEAKERS.match(switch.subject)
            if is_same and claim.note.at < switch.note.at:
                yield Conflict(earlier=claim, later=switch, reason="values")


def current(reading: Reading) -> list[Claim]:
    """Present facts without those that a later claim took back, and without both sides where no side is later."""
    gone: set[tuple[str, int]] = set()
    for conflict in conflicts(reading):
        gone.add((conflict.earlier.note.name, conflict.earlier.place))
        if conflict.earlier.note.at == conflict.later.note.at:
            gone.add((conflict.later.note.name, conflict.later.place))
    facts = (claim for claim in read_claims(reading) if claim.mood == "fact")
    return [claim for claim in facts if (claim.note.name, claim.place) not in gone]


def agreements(claims: Iterable[Claim]) -> list[tuple[Claim, ...]]:
    """Claims that two and more notes make alike, one of each note, the earliest first."""
    said: dict[tuple[object, ...], dict[str, Claim]] = defaultdict(dict)
    for claim in claims:
        if claim.mood == "fact":
            said[(*claim.statement, claim.is_denied)].setdefault(claim.note.name, claim)
    return [tuple(group.values()) for group in said.values() if len(group) > 1]
