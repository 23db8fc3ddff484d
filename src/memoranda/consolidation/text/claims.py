"""Claims parsed from sentences by rules (subject, verb, value), and the contradictions between them.

The rules cover English verbs (`predicates`), and labels such as "Port: 8080" in any language. A rule that is not sure
finds nothing: questions, conditions, reported speech and subjects such as "it" make no claim.

Two claims conflict if they give one subject two values where only one can hold, or if one denies the other. Past,
planned and hedged statements never contradict a present one. To find conflicts without comparing all pairs, each claim
gets keys: equal `statement` means the same statement, equal `slot` means that the values compete.

A wrong claim is worse than a missing one, because it shows a person a contradiction that does not exist. Before you
change a rule, add the sentence that was misread to `tests/consolidation`.
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
from memoranda.consolidation.text.corpus import Corpus, cached_per_corpus, content_words, numbers
from memoranda.consolidation.text.frame_values import (
    NUMBER,
    FrameValue,
    find_disputes,
    read_frame_values,
)
from memoranda.consolidation.text.note import MemoryNote, to_one_line
from memoranda.consolidation.text.predicates import (
    ATTRIBUTES,
    IS,
    OPPOSITES,
    QUALITIES,
    REPLACE,
    ROLES,
    SWITCH,
    VERB,
    ClaimPredicate,
    move_denial_first,
)
from memoranda.consolidation.text.sentences import is_code

Mood = Literal["fact", "past", "plan", "hedged"]

# Characters of a sentence; a longer one makes no simple claim.
_SENTENCE_CHARS_LIMIT: Final = 300
# Words of a subject, a competing value, a label, a list item …: phrases with more are clauses, not names.
_SUBJECT_WORDS_LIMIT: Final = 7
_VALUE_WORDS_LIMIT: Final = 12
_LABEL_WORDS_LIMIT: Final = 5
_MEMBER_WORDS_LIMIT: Final = 3
# Characters in which the verb must begin; a plain subject is shorter.
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
# A clause after the value, which states a reason, a time or something else.
_TAIL = re.compile(
    # Matches only at the first of several spaces; otherwise a long run would take quadratic time.
    r"(?:(?<!\s)\s++)?+[;,—–(]|(?<!\s)\s++-\s"
    r"|\s(?:because|since|so|but|although|though|which|who|where|while|as of|due to"
    r"|and (?:it|he|she|they|we)"
    r"|any ?more|these days|again|at the moment|right now|now|currently|instead|yesterday|recently|today"
    r"|(?:last|this) (?:week|month|year|spring|summer|autumn|fall|winter))\b",
    re.IGNORECASE,
)
# Words that begin the scope of a value: "8080 in staging".
_SCOPE = re.compile(
    r"\s(?=(?:in|on|at|for|during|with|by|from|under|when|as|within|inside|outside|via|through|until|after|before)\s)",
    re.IGNORECASE,
)
_CONDITIONS = re.compile(
    r"\b(?:if|unless|whether|when|whenever|once|suppose|in case|otherwise)\b", re.IGNORECASE
)
# Words that show that a subject is not a plain name, but a report, a clause or a reference to an earlier sentence.
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
    "todo bug issue example warning summary title question answer idea topic http https error caution tip "
    "user assistant human ai bot agent system model chatgpt claude gemini codex copilot".split()
)
# Words with which people speak, and values do not begin.
_SPEECH: Final = re.compile(
    r"(?:i|i'm|i've|i'll|we|we're|you|you're|he|she|they|it's|let's|let me|thanks|thank you|hello|hi|hey|yes|yeah|no|ok"
    r"|okay|sure|great|wow|sorry|please|what|how|why|when|where|who)\b",
    re.IGNORECASE,
)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that one sentence of a note makes."""

    note: MemoryNote
    sentence_index: int
    sentence: str
    subject: str
    predicate: ClaimPredicate
    value: str
    mood: Mood
    is_denied: bool
    # Normalised subject; equal in two claims about the same thing.
    subject_key: str
    value_key: str
    # Normalised scope, such as "in staging".
    scope_key: str = ""
    # Set if only one value can hold; equal in two claims that compete.
    slot: tuple[str, ...] | None = None
    # The key of A in "switched from A to B".
    replaced_key: str = ""

    @property
    def statement(self) -> tuple[str, ...]:
        """A key that is equal in two claims of the same statement, denied or not."""
        return (self.subject_key, self.predicate.name, self.value_key, self.scope_key)


class ClaimConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Two claims that cannot both hold now; the earlier first."""

    earlier: Claim | FrameValue
    later: Claim | FrameValue
    reason: Literal["values", "denial"]


def name_key(text: str) -> str:
    """Return the form in which names are compared: case-folded, stemmed, without articles."""
    plain_text = _DETERMINER.sub("", text.strip())
    speaker = re.match(r"(?:i|my|me|we|our|us|you|your)\b", plain_text, re.IGNORECASE)
    lead = speaker[0].lower() if speaker else ""
    words = " ".join(content_words(plain_text))
    return f"{lead} {words}".strip() or plain_text.casefold()


@cached_per_corpus
def read_claims(corpus: Corpus) -> list[Claim]:
    """Return the claims of all notes, in order."""
    return [
        claim
        for sentence in corpus.sentences
        for claim in parse_claims(sentence.note, sentence.index, sentence.text)
    ]


def parse_claims(note: MemoryNote, index: int, text: str) -> list[Claim]:
    """Return the claims of one sentence: usually none or one, more for a list of values."""
    if len(text) > _SENTENCE_CHARS_LIMIT or text.rstrip().endswith(("?", "？")) or is_code(text):
        return []
    plain_text = move_denial_first(
        _LEAD.sub("", _EMPHASIS.sub("", to_one_line(text))).strip().rstrip(".!。！;")
    )
    base = Claim(
        note=note, sentence_index=index, sentence=text, subject="", predicate=IS, value="", mood="fact",
        is_denied=False, subject_key="", value_key="",
    )  # fmt: skip
    if _CONDITIONS.search(plain_text):
        return []
    return [
        _add_keys(claim)
        for claim in _parse_claims(base, plain_text)
        if _is_plain_subject(claim.subject) and claim.value
    ]


def _parse_claims(base: Claim, plain_text: str) -> Iterator[Claim]:
    """Yield the claims of a cleaned sentence, as copies of `base` without keys."""
    label = _LABEL.match(plain_text)
    if label is not None:
        yield from _parse_label(base, label)
        return
    switch = SWITCH.match(plain_text) or REPLACE.match(plain_text)
    if switch is not None:
        yield from _parse_switch(base, switch)
        return
    verb = VERB.search(plain_text, 1, _VERB_WITHIN_CHARS)
    if verb is not None:
        yield from _parse_verb(base, plain_text, verb)


def _parse_label(base: Claim, match: re.Match[str]) -> Iterator[Claim]:
    """Yield the claim of a label such as "Port: 8080"."""
    subject, value = match["subject"].strip(), match["value"].strip()
    if len(subject.split()) > _LABEL_WORDS_LIMIT or len(value.split()) > _LABEL_VALUE_WORDS_LIMIT:
        return
    if base.sentence.rstrip().endswith(("!", "！")) or _SPEECH.match(value):
        # A speaker and an exclamation, or an answer: nothing that the speaker is.
        return
    if subject.casefold() not in _LABELS_OF_NOTHING and VERB.search(f" {subject} ") is None:
        yield replace(base, subject=subject, value=_without_tail(value))


def _parse_switch(base: Claim, match: re.Match[str]) -> Iterator[Claim]:
    """Yield the claims of "switched from A to B": the new value, and the denied old one."""
    moves = match.groupdict().get("how", "").lower() in ("moved", "relocated")
    predicate = predicates.BY_NAME["lives in" if moves else "uses"]
    subject, mood = _without_trailing(match["subject"])
    if mood != "fact":
        return
    old_value = _without_tail(match["old"])
    new_value = _without_tail(match["new"])
    yield replace(
        base,
        subject=subject,
        predicate=predicate,
        value=new_value,
        replaced_key=_value_key(old_value),
    )
    denied = ("lives in", "uses") if moves else ("uses",)
    for name in denied:
        yield replace(
            base,
            subject=subject,
            predicate=predicates.BY_NAME[name],
            value=old_value,
            is_denied=True,
        )


def _parse_verb(base: Claim, plain_text: str, match: re.Match[str]) -> Iterator[Claim]:
    """Yield the claims of a sentence with a verb of the table."""
    if match["ing"] and not match["not"]:
        return
    predicate, is_past = predicates.find_predicate(match)
    subject, mood = _without_trailing(plain_text[: match.start()].strip())
    value = plain_text[match.end() :].strip()
    is_denied = bool(match["not"])
    if match["not"] and re.match(
        r"(?:did|had|could|will|would|should|won)\b", match["not"], re.IGNORECASE
    ):
        is_past = True
    if is_past:
        mood = "past"
    if predicate is IS and value[:3].lower() == "no ":
        is_denied, value = not is_denied, value[3:].strip()
    if predicate.denies:
        predicate, is_denied = predicates.BY_NAME[predicate.denies], not is_denied
    claim = replace(base, subject=subject, predicate=predicate, mood=mood, is_denied=is_denied)
    if predicate.inverse_of:
        active = predicates.BY_NAME[predicate.inverse_of]
        yield replace(claim, subject=_without_tail(value), value=subject, predicate=active)
        return
    values = (
        [_without_tail(value)] if predicate.is_single or predicate is IS else _split_list(value)
    )
    yield from (replace(claim, value=part) for part in values)


def _split_list(value: str) -> list[str]:
    """Return the items of "A, B and C", up to the first that is a clause."""
    parts = [part.strip() for part in _LIST.split(value)]
    items = [_without_tail(parts[0])]
    for part in parts[1:]:
        if (
            len(part.split()) > _MEMBER_WORDS_LIMIT
            or VERB.search(f" {part} ")
            or _TAIL.match(f" {part}")
        ):
            break
        items.append(_without_tail(part))
    return items


def _without_trailing(subject: str) -> tuple[str, Mood]:
    """Return the subject without trailing adverbs and modal verbs, and the mood that these give."""
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
    """Return a value without a clause that follows it."""
    tail = _TAIL.search(value)
    return value[: tail.start()].strip() if tail else value.strip()


def _is_plain_subject(subject: str) -> bool:
    """Return True if a subject is a short name, without pronouns, verbs or punctuation."""
    count = len(subject.split())
    return 0 < count <= _SUBJECT_WORDS_LIMIT and _NOT_A_SUBJECT.search(subject) is None


def _add_keys(claim: Claim) -> Claim:
    """Return the claim with its keys filled in."""
    full_value = claim.value
    value, scope = full_value, ""
    parts = _SCOPE.split(full_value, maxsplit=1)
    if len(parts) == 2:
        value, scope = parts[0].strip(), parts[1].strip()
    subject_key = _subject_key(claim.subject)
    claim_with_keys = replace(
        claim,
        value=value,
        subject_key=subject_key,
        value_key=_value_key(value),
        scope_key=name_key(scope) if scope else "",
    )
    if _VAGUE.search(value) and claim_with_keys.mood == "fact":
        claim_with_keys = replace(claim_with_keys, mood="hedged")
    if claim.mood != "fact" or len(full_value.split()) > _VALUE_WORDS_LIMIT or not value:
        return claim_with_keys
    return replace(claim_with_keys, slot=_find_slot(claim_with_keys, scope))


def _value_key(value: str) -> str:
    """Return the normalised words and numbers of a value."""
    words = " ".join(content_words(_DETERMINER.sub("", value)))
    digits = " ".join(sorted(numbers(value)))
    return f"{words} | {digits}" if digits else words or value.casefold()


def _subject_key(subject: str) -> str:
    """Return the normalised subject, with the owner first."""
    owner, attribute = split_possessive(subject)
    return f"{name_key(owner)} / {name_key(attribute)}" if owner else name_key(subject)


def split_possessive(subject: str) -> tuple[str, str]:
    """Split "the port of billing" or "billing's port" into owner and attribute; the owner may be empty."""
    match = _POSSESSIVE.match(subject) or _OF.match(subject)
    if match is None:
        return "", subject
    return match["whose"].strip(), _DETERMINER.sub("", match["what"].strip())


def _find_slot(claim: Claim, scope: str) -> tuple[str, ...] | None:
    """Return the slot for which values compete; None if several values can hold at once."""
    name, value = claim.predicate.name, claim.value
    base = (claim.subject_key, name, claim.scope_key)
    if name == "prefers" and (over := _OVER.match(f"{value} {scope}".strip())) is not None:
        return (claim.subject_key, name, *sorted((name_key(over["more"]), name_key(over["less"]))))
    if (pair := _opposites().get(value.casefold())) is not None:
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
    """Return True if the subject is an attribute that has one value, and the value is a plain one."""
    owner, attribute = split_possessive(subject)
    attribute_words = _DETERMINER.sub("", attribute).casefold().split()
    value_words = value.casefold().split()
    # Numbers, times and dates are compared in `frame_values`.
    if (
        not attribute_words
        or NUMBER.search(value)
        or QUALITIES.issuperset(value_words)
        or any(word.endswith(("ing", "ed")) for word in value_words)
    ):
        return False
    # A bare "status" or "id" may belong to anything, so only a short value is accepted.
    is_bare = len(attribute_words) == 1 and not owner
    if len(value_words) > (_BARE_VALUE_WORDS_LIMIT if is_bare else _NAMED_VALUE_WORDS_LIMIT):
        return False
    if is_bare and _DETERMINER.match(value):
        return False
    is_name = any(character.isupper() or character.isdecimal() for character in value)
    return attribute_words[-1] in ATTRIBUTES or (
        attribute_words[-1] in ROLES and (is_name or not is_bare)
    )


@lru_cache(maxsize=1)
def _opposites() -> dict[str, str]:
    return {word: pair for pair in OPPOSITES for word in pair.split("/")}


@cached_per_corpus
def find_conflicts(corpus: Corpus) -> list[ClaimConflict]:
    """Return the conflicts between statements of different notes, each of an earlier one with the latest."""
    facts = [claim for claim in read_claims(corpus) if claim.mood == "fact"]
    disputed = (
        ClaimConflict(earlier=one, later=other, reason="values")
        for one, other in find_disputes(read_frame_values(corpus))
    )
    by_pair: dict[tuple[str, int, str, int], ClaimConflict] = {}
    for conflict in (
        *_find_different_values(facts),
        *_find_denials(facts),
        *_find_replaced(facts),
        *disputed,
    ):
        first_claim, second_claim = conflict.earlier, conflict.later
        by_pair.setdefault(
            (
                first_claim.note.name,
                first_claim.sentence_index,
                second_claim.note.name,
                second_claim.sentence_index,
            ),
            conflict,
        )
    return sorted(
        by_pair.values(), key=lambda pair: (*_sort_key(pair.earlier), *_sort_key(pair.later))
    )


def _sort_key(claim: Claim | FrameValue) -> tuple[int, str, int]:
    return (claim.note.at, claim.note.name, claim.sentence_index)


def _find_different_values(facts: Sequence[Claim]) -> Iterator[ClaimConflict]:
    """Yield conflicts between values of one slot."""
    competing: dict[tuple[str, ...], list[Claim]] = defaultdict(list)
    for claim in facts:
        if claim.slot is not None and not claim.is_denied:
            competing[claim.slot].append(claim)
    for group in competing.values():
        latest = max(group, key=_sort_key)
        for claim in group:
            if claim.value_key != latest.value_key and claim.note.name != latest.note.name:
                yield ClaimConflict(earlier=claim, later=latest, reason="values")


def _find_denials(facts: Sequence[Claim]) -> Iterator[ClaimConflict]:
    """Yield conflicts between a statement and its denial."""
    by_statement: dict[tuple[str, ...], list[Claim]] = defaultdict(list)
    for claim in facts:
        by_statement[claim.statement].append(claim)
    for group in by_statement.values():
        latest = max(group, key=_sort_key)
        for claim in group:
            if claim.is_denied != latest.is_denied and claim.note.name != latest.note.name:
                yield ClaimConflict(earlier=claim, later=latest, reason="denial")


def _find_replaced(facts: Sequence[Claim]) -> Iterator[ClaimConflict]:
    """Yield claims overtaken by a switch: "the package manager is npm", and later "we switched from npm"."""
    by_value: dict[str, list[Claim]] = defaultdict(list)
    for claim in facts:
        if not claim.is_denied and not claim.replaced_key:
            by_value[claim.value_key].append(claim)
    for switch in facts:
        for claim in by_value.get(switch.replaced_key, ()) if switch.replaced_key else ():
            is_same = claim.subject_key == switch.subject_key or _SPEAKERS.match(switch.subject)
            if is_same and claim.note.at < switch.note.at:
                yield ClaimConflict(earlier=claim, later=switch, reason="values")


def current_claims(corpus: Corpus) -> list[Claim]:
    """Return the present facts without contradicted ones; without both sides if neither side is later."""
    contradicted: set[tuple[str, int]] = set()
    for conflict in find_conflicts(corpus):
        contradicted.add((conflict.earlier.note.name, conflict.earlier.sentence_index))
        if conflict.earlier.note.at == conflict.later.note.at:
            contradicted.add((conflict.later.note.name, conflict.later.sentence_index))
    facts = (claim for claim in read_claims(corpus) if claim.mood == "fact")
    return [claim for claim in facts if (claim.note.name, claim.sentence_index) not in contradicted]


def find_agreements(claims: Iterable[Claim]) -> list[tuple[Claim, ...]]:
    """Return groups of equal claims made by at least two notes, one claim of each note, the earliest first."""
    by_statement: dict[tuple[object, ...], dict[str, Claim]] = defaultdict(dict)
    for claim in claims:
        if claim.mood == "fact":
            by_statement[(*claim.statement, claim.is_denied)].setdefault(claim.note.name, claim)
    return [tuple(group.values()) for group in by_statement.values() if len(group) > 1]
