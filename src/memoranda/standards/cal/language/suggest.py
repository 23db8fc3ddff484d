"""Suggestions for mistakes: similar words, current names for old ones, and an example of each statement.

A suggestion is only text for the author of the query; no query is changed by it. Candidates are tried in the order
given, and a word is suggested only if at most two edits separate it, because a far guess misleads more than it helps.
Words of other query languages and former names have tables of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from memoranda.standards.cal import fields
from memoranda.standards.cal.language import words

# Edits (letters added, removed, replaced or swapped); beyond it a suggestion is a guess.
MAX_DISTANCE: Final = 2

# Grain types that OMS renamed in 1.2 → their current names.
OLD_TYPES: Final = {
    "fact": "belief",
    "episode": "event",
    "checkpoint": "state",
    "tool": "action",
    "tool_call": "action",
}

# Field names of other languages and older versions → the names of CAL.
OLD_FIELDS: Final = {
    "user": "user_id",
    "predicate": "relation",
    "value": "object",
    "entity": "subject",
    "text": "query",
    "search": "query",
    "tag": "tags",
    "created_at": "time",
    "timestamp": "time",
    "date": "time",
    "tool": "tool_name",
    "state": "goal_state",
    "phase": "action_phase",
}

EXAMPLES: Final = {
    "RECALL": 'RECALL beliefs ABOUT "alice" WHERE confidence >= 0.8 | LIMIT 10 AS markdown',
    "ASSEMBLE": 'ASSEMBLE name FOR "intent" FROM label: (RECALL beliefs ABOUT "alice") BUDGET 2000 tokens FORMAT sml',
    "EXISTS": "EXISTS sha256:…",
    "HISTORY": 'HISTORY sha256:… or HISTORY WHERE subject = "alice" AND relation = "prefers"',
    "EXPLAIN": "EXPLAIN RECALL beliefs",
    "DESCRIBE": "DESCRIBE grain_types, fields, capabilities, server, templates or grammar",
    "BATCH": "BATCH { first: RECALL beliefs, second: RECALL goals }",
    "COALESCE": 'COALESCE(RECALL beliefs ABOUT "alice", RECALL events ABOUT "alice")',
    "LET": "LET $people = RECALL beliefs | SUBJECTS;",
    "DEFINE": "DEFINE TEMPLATE name EXTENDS readable ELEMENT { {{grain.content}} }",
    "ADD": 'ADD belief SET subject = "alice" SET relation = "prefers" SET object = "tea" REASON "she said so"',
    "SUPERSEDE": 'SUPERSEDE sha256:… SET object = "coffee" REASON "she changed her mind"',
    "REVERT": 'REVERT sha256:… REASON "it was a misunderstanding"',
    "(": "(RECALL beliefs) UNION (RECALL goals)",
}
KEYWORDS: Final = tuple(sorted(words.KEYWORDS))
STATEMENTS: Final = tuple(word for word in EXAMPLES if word not in ("LET", "("))


# Words of other query languages → how to express them in CAL.
_REPLACEMENTS: Final = {
    **dict.fromkeys(
        sorted(words.REFUSED_WORDS),
        "CAL reads and appends; nothing in it removes. SUPERSEDE and REVERT keep all versions.",
    ),
    "OR": "Conditions are joined by AND; for alternatives use IN (…), COALESCE or UNION.",
    "NOT": "There is no NOT; use !=, EXCLUDE or EXCEPT.",
    "NULL": "There is no NULL; a missing field never matches.",
    "LIKE": 'LIKE is a clause of its own: RECALL LIKE "text".',
    "SELECT": "A query begins with RECALL; SELECT is a stage: RECALL beliefs | SELECT subject.",
}


def suggest_replacement(token: str) -> str | None:
    """Return how to express a word of another query language in CAL, or None."""
    return _REPLACEMENTS.get(token.upper())


def find_nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate with the fewest edits to the word, at most two; the first of equals."""
    best, best_distance = None, MAX_DISTANCE + 1
    lower_word = word.lower()
    letters = set(lower_word)
    for candidate in candidates:
        if abs(len(candidate) - len(lower_word)) >= best_distance or len(lower_word) < 2:
            continue
        # One edit changes at most two of the letters in which the words differ, so most candidates need no comparison.
        if len(letters ^ set(candidate.lower())) < 2 * best_distance:
            distance = _edit_distance(lower_word, candidate.lower(), best_distance)
            # Two edits turn any short word into any other, so short words need a closer match.
            if 0 < distance < min(best_distance, max(len(lower_word), 3) - 1):
                best, best_distance = candidate, distance
    return best


def _edit_distance(word: str, other: str, max_distance: int) -> int:
    """Return the number of edits between two words, where a swap of neighbours is one edit.

    Stop and return `max_distance` as soon as the distance is known to reach it. The table of partial distances is
    built row
    by row, and only its last three rows are kept.
    """
    row_before_last: list[int] = []
    last_row = list(range(len(other) + 1))
    for row_number, letter in enumerate(word, 1):
        next_row = [row_number]
        for column, other_letter in enumerate(other, 1):
            cost = min(
                last_row[column] + 1,
                next_row[column - 1] + 1,
                last_row[column - 1] + (letter != other_letter),
            )
            if (
                row_number > 1
                and column > 1
                and letter == other[column - 2]
                and word[row_number - 2] == other_letter
            ):
                cost = min(cost, row_before_last[column - 2] + 1)
            next_row.append(cost)
        if min(next_row) >= max_distance:
            return max_distance
        row_before_last, last_row = last_row, next_row
    return last_row[-1]


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """Return the question "Did you mean …?", or None if no candidate is near."""
    candidate = find_nearest(word, candidates)
    return None if candidate is None else f'Did you mean "{candidate}"?'


def suggest_grain_type(word: str, *, plural: bool) -> str:
    """Return a suggestion for a word that is no grain type."""
    lower_word = word.lower()
    names = fields.PLURALS if plural else fields.SINGULARS
    for old_name, new_name in OLD_TYPES.items():
        if lower_word in (old_name, f"{old_name}s"):
            name = new_name if lower_word == old_name else fields.PLURAL_OF[new_name]
            return f'Did you mean "{name}"? (OMS renamed {old_name.title()} -> {new_name.title()} in v1.2)'
    if plural and lower_word in fields.PLURAL_OF:
        return f'Did you mean "{fields.PLURAL_OF[lower_word]}"?'
    if not plural and lower_word in fields.PLURALS:
        return f'Did you mean "{fields.PLURALS[lower_word]}"?'
    return did_you_mean(word, names) or f"The grain types are {', '.join(names)}."


def suggest_field(word: str, candidates: Iterable[str]) -> str:
    """Return a suggestion for a word that is no field."""
    names = tuple(candidates)
    old_name = OLD_FIELDS.get(word.lower())
    if old_name in names:
        return f'Did you mean "{old_name}"?'
    return did_you_mean(word, names) or f"The fields here are {', '.join(names)}."
