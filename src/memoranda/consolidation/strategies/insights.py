"""The strategies `insight_generate` and `vendor:statements`, both based on the claims of `text.claims`.

`insight_generate` derives statements that follow from several notes and are in none of them. It uses only present
claims without hedging or dispute. Each result quotes the sentences that it follows from.

`vendor:statements` collects claims that people made in conversations, in their words, with the speaker. Notes of
conversations begin with the name of the speaker and a colon, as the importers write them. Turns of assistants are
skipped. A sentence becomes a result only if it makes a present claim. Like all results, statements are shown for review
and not taken as true.

Conclusions are made from two claims at most, because errors multiply. A chain needs the same entity in the middle: the
value of one claim is the subject of the other. Nothing is concluded from denied, hedged or disputed claims.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from memoranda.consolidation.strategies.dream import (
    Dream,
    Options,
    day_text,
    join_phrases,
    make_dream,
    memories_text,
)
from memoranda.consolidation.text.claims import Claim, current_claims, name_key
from memoranda.consolidation.text.corpus import Corpus, content_words, numbers
from memoranda.consolidation.text.note import MemoryNote, quote, to_one_line
from memoranda.consolidation.text.predicates import IS

# Names that are plain enough to be used in a generated sentence without quotation marks.
_TERM = re.compile(r"[\w][\w .+#/&'’-]{0,59}")
# Most words of a name; longer texts count as phrases.
_TERM_WORDS_LIMIT: Final = 5
_SHOWN: Final = 5
# Characters of a quoted sentence.
_EVIDENCE_CHARS: Final = 120
# Claims (statements) of one subject that may continue a chain; a subject with more is a catalogue.
_FAN_LIMIT: Final = 50
# Transitive predicates besides dependencies: a place in a place, a person who reports to a person.
_CHAINS: Final = {"is in": "is in", "reports to": "reports to"}


def insight_generate(corpus: Corpus, now: int, options: Options) -> list[Dream]:
    """Return chains of two claims, and values that several subjects share.

    Chains come first, then shared values.
    """
    del now
    claims = [claim for claim in current_claims(corpus) if not claim.is_denied]
    terms = [
        claim
        for claim in claims
        if _is_term(claim.subject) and _is_term(claim.value) and not claim.scope_key
    ]
    return [
        *islice(_chain_dreams(terms), options.limit),
        *_shared_value_dreams(terms, options.least),
    ]


def _is_term(text: str) -> bool:
    """Return True if a text can be used in a generated sentence without quotation marks."""
    return _TERM.fullmatch(text) is not None and len(text.split()) <= _TERM_WORDS_LIMIT


def _entity_key(text: str) -> str:
    """Return the key of a name without its version, so that PostgreSQL equals PostgreSQL 16."""
    words = [word for word in content_words(text) if not word.isdecimal()]
    return " ".join(words) or name_key(text)


def _chain_dreams(claims: Sequence[Claim]) -> Iterator[Dream]:
    """Yield a dream for each pair of claims in which the second continues the first."""
    by_subject: dict[str, list[Claim]] = defaultdict(list)
    stated_pairs = set()
    for claim in claims:
        by_subject[_entity_key(claim.subject)].append(claim)
        stated_pairs.add((_entity_key(claim.subject), _entity_key(claim.value)))
    reported = set()
    for first in claims:
        for second in by_subject.get(_entity_key(first.value), ())[:_FAN_LIMIT]:
            verb = _chain_verb(first, second)
            ends = (_entity_key(first.subject), _entity_key(second.value))
            if (
                verb is None
                or ends in stated_pairs
                or ends in reported
                or ends[0] == ends[1]
                or second.note == first.note
            ):
                continue
            reported.add(ends)
            evidence = _quote_evidence((first, second))
            text = f"{_capitalize_article(first.subject)} {verb} {second.value} through {first.value}: {evidence}."
            yield make_dream(
                text,
                (first.note, second.note),
                why="the second claim is about the value of the first",
                insight="chain",
                steps=[quote(first.sentence), quote(second.sentence)],
            )


def _chain_verb(first: Claim, second: Claim) -> str | None:
    """Return the verb between the ends of two claims; None if no conclusion is valid."""
    # "Uses Python 3.11" and "Python 3.12 requires X" form no chain.
    versions = numbers(second.subject)
    if versions and versions != numbers(first.value):
        return None
    if first.predicate.is_dependency and second.predicate.is_dependency:
        return "depends on"
    name = first.predicate.name
    return _CHAINS.get(name) if name == second.predicate.name else None


def _shared_value_dreams(claims: Sequence[Claim], least: int) -> Iterator[Dream]:
    """Yield a dream for each value that at least `least` subjects share."""
    sharing: dict[tuple[str, str], dict[str, Claim]] = defaultdict(dict)
    for claim in claims:
        if claim.predicate is not IS and not numbers(claim.value):
            sharing[(claim.predicate.name, claim.value_key)].setdefault(claim.subject_key, claim)
    for _, group in sorted(sharing.items(), key=lambda item: (-len(item[1]), item[0])):
        members = list(group.values())
        if len(members) < least or len({claim.note.name for claim in members}) < 2:
            continue
        subjects = [_lower_article(claim.subject) for claim in members]
        remainder = [f"{len(subjects) - _SHOWN} more"] if len(subjects) > _SHOWN else []
        names = join_phrases([*subjects[:_SHOWN], *remainder])
        yield make_dream(
            f"At least {len(members)} {members[0].predicate.plural} {members[-1].value}: {names}.",
            [claim.note for claim in members],
            why="claims with the same verb and value about different subjects",
            insight="common",
            count=len(members),
        )


def _quote_evidence(claims: Sequence[Claim]) -> str:
    """Return the sentences of the claims as quotations with their days."""
    return join_phrases(
        [
            f"{quote(claim.sentence, _EVIDENCE_CHARS)} ({day_text(claim.note.at)})"
            for claim in claims
        ]
    )


def _capitalize_article(text: str) -> str:
    """Return a text with an upper-case first letter if it begins with an article."""
    return text[:1].upper() + text[1:] if text.lower().startswith(("the ", "a ", "an ")) else text


def _lower_article(text: str) -> str:
    """Return a text with a lower-case first letter if it begins with an article."""
    return text[:1].lower() + text[1:] if text.startswith(("The ", "A ", "An ")) else text


_SPOKEN: Final = re.compile(r"([^\W\d_][^:\n]{0,59}): (?=\S)")
_ASSISTANTS: Final = frozenset(
    "ai assistant agent bot chatgpt claude model system tool function".split()
)


def statements(corpus: Corpus, now: int, options: Options) -> list[Dream]:
    """Return one result for each claim of a speaker, with all notes that contain it, the latest first."""
    del now, options
    speakers: dict[str, str] = {}
    spoken: list[MemoryNote] = []
    for note in corpus.notes:
        match = _SPOKEN.match(note.text)
        if match is not None and match[1].casefold() not in _ASSISTANTS:
            speakers[note.name] = match[1]
            spoken.append(replace(note, text=note.text[match.end() :]))
    claims_by_statement: dict[tuple[object, ...], list[Claim]] = {}
    for claim in current_claims(Corpus(spoken)):
        claims_by_statement.setdefault(
            (speakers[claim.note.name], *claim.statement, claim.is_denied), []
        ).append(claim)
    groups = sorted(
        claims_by_statement.values(),
        key=lambda group: (-group[-1].note.at, group[-1].note.name, group[-1].sentence_index),
    )
    return [_statement_dream(group, speakers[group[-1].note.name]) for group in groups]


def _statement_dream(group: list[Claim], speaker: str) -> Dream:
    """Return the dream of the equal claims of one speaker, in the words of the latest."""
    last = group[-1]
    turns = {claim.note.name: claim.note for claim in group}
    why = f"said by {speaker} on {day_text(last.note.at)}, in {memories_text(len(turns))}; not confirmed"
    return make_dream(
        f"{speaker}: {to_one_line(last.sentence)}", turns.values(), why=why, is_shared=True
    )
