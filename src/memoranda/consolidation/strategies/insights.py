"""insight_generate: what follows from several notes and stands in none of them.

Only present, unhedged and undisputed claims are reasoned with, and every result shows the sentences it follows from.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from memoranda.consolidation.strategies.dream import Dream, Options, day_text, dream, listed
from memoranda.consolidation.text.claims import Claim, current, key_of
from memoranda.consolidation.text.note import quote
from memoranda.consolidation.text.predicates import IS
from memoranda.consolidation.text.reading import Reading, content_words, numbers

# Names that can stand in a sentence of ours as they are; everything else is only ever quoted.
_TERM = re.compile(r"[\w][\w .+#/&'’-]{0,59}")
_TERM_WORDS_LIMIT: Final = 5
_SHOWN: Final = 5
_EVIDENCE_CHARS: Final = 120
# What is said of one thing and can go on a chain; more would be a catalogue.
_FAN_LIMIT: Final = 50
# Places lie in places and people report to people, as things depend on things.
_CHAINS: Final = {"is in": "is in", "reports to": "reports to"}


def insight_generate(reading: Reading, now: int, options: Options) -> list[Dream]:
    """Chains over two claims, and what several subjects have in common."""
    del now
    claims = [claim for claim in current(reading) if not claim.is_denied]
    terms = [
        claim
        for claim in claims
        if _is_term(claim.subject) and _is_term(claim.value) and not claim.scope_key
    ]
    return [*islice(_chains(terms), options.limit), *_common(terms, options.least)]


def _is_term(text: str) -> bool:
    return _TERM.fullmatch(text) is not None and len(text.split()) <= _TERM_WORDS_LIMIT


def _entity(text: str) -> str:
    """A name without its version: what is true of PostgreSQL is meant of PostgreSQL 16 too."""
    words = [word for word in content_words(text) if not word.isdecimal()]
    return " ".join(words) or key_of(text)


def _chains(claims: Sequence[Claim]) -> Iterator[Dream]:
    by_subject: dict[str, list[Claim]] = defaultdict(list)
    stated = set()
    for claim in claims:
        by_subject[_entity(claim.subject)].append(claim)
        stated.add((_entity(claim.subject), _entity(claim.value)))
    shown = set()
    for first in claims:
        for second in by_subject.get(_entity(first.value), ())[:_FAN_LIMIT]:
            verb = _chained(first, second)
            ends = (_entity(first.subject), _entity(second.value))
            if (
                verb is None
                or ends in stated
                or ends in shown
                or ends[0] == ends[1]
                or second.note == first.note
            ):
                continue
            shown.add(ends)
            evidence = _evidence((first, second))
            text = f"{_capital(first.subject)} {verb} {second.value} through {first.value}: {evidence}."
            yield dream(
                text,
                (first.note, second.note),
                why="two claims of which the second speaks of what the first names",
                insight="chain",
                steps=[quote(first.sentence), quote(second.sentence)],
            )


def _chained(first: Claim, second: Claim) -> str | None:
    """How the two ends of two claims belong together; None when nothing follows."""
    # "Uses Python 3.11" and "Python 3.12 requires X" do not meet.
    versions = numbers(second.subject)
    if versions and versions != numbers(first.value):
        return None
    if first.predicate.is_dependency and second.predicate.is_dependency:
        return "depends on"
    name = first.predicate.name
    return _CHAINS.get(name) if name == second.predicate.name else None


def _common(claims: Sequence[Claim], least: int) -> Iterator[Dream]:
    sharing: dict[tuple[str, str], dict[str, Claim]] = defaultdict(dict)
    for claim in claims:
        if claim.predicate is not IS and not numbers(claim.value):
            sharing[(claim.predicate.name, claim.value_key)].setdefault(claim.subject_key, claim)
    for _, group in sorted(sharing.items(), key=lambda item: (-len(item[1]), item[0])):
        found = list(group.values())
        if len(found) < least or len({claim.note.name for claim in found}) < 2:
            continue
        subjects = [_lower_article(claim.subject) for claim in found]
        more = [f"{len(subjects) - _SHOWN} more"] if len(subjects) > _SHOWN else []
        shown = listed([*subjects[:_SHOWN], *more])
        yield dream(
            f"At least {len(found)} {found[0].predicate.plural} {found[-1].value}: {shown}.",
            [claim.note for claim in found],
            why="claims with the same verb and value about different subjects",
            insight="common",
            count=len(found),
        )


def _evidence(claims: Sequence[Claim]) -> str:
    return listed(
        [
            f"{quote(claim.sentence, _EVIDENCE_CHARS)} ({day_text(claim.note.at)})"
            for claim in claims
        ]
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if text.lower().startswith(("the ", "a ", "an ")) else text


def _lower_article(text: str) -> str:
    return text[:1].lower() + text[1:] if text.startswith(("The ", "A ", "An ")) else text
