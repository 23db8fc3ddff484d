"""Search by words, among what a selection lets through.

A tenant's words are fingerprints of their own, so posting lists, document frequencies and mean lengths are the tenant's
alone and no score tells of anyone else. Candidates come from the rarest words first until their posting lists add up to
POSTINGS_LIMIT; commoner words cannot change the order much and would cost the most. A query of common words only takes
the newest matches.

Whoever sees only a part of a tenant must not learn of the rest from a score. For such a selection the weights are
learned from what passes it, up to PART_LIMIT versions, and from nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from memoranda.model.selection import Leg, Matches, Selected
from memoranda.storage.database import Connection
from memoranda.storage.dialect import Dialect
from memoranda.storage.selection import FOREVER_MS, SelectionSql
from memoranda.storage.words import words

# Half a microsecond each: about a millisecond a search.
POSTINGS_LIMIT: Final = 2_000
# What is so rare in a tenant that its list shortens every other; a long list costs more than rows.
SMALL_SCOPE_LIMIT: Final = 2_000
# A part of a tenant is known well enough from so many of its versions.
PART_LIMIT: Final = 2 * POSTINGS_LIMIT
# A question has few words; a pasted page is cut, rarest words first.
QUERY_WORDS_LIMIT: Final = 32
# BM25's usual constants.
K1: Final = 1.2
B: Final = 0.75


@dataclass(frozen=True, slots=True)
class _Statistics:
    """How often the words of a question occur, and how much there is altogether."""

    counts: dict[str, int]
    versions: int
    mean_terms: float

    def weight(self, word: str) -> float:
        count = self.counts[word]
        return math.log(1.0 + (max(self.versions, count) - count + 0.5) / (count + 0.5))


@dataclass(frozen=True, slots=True)
class Population:
    """All versions of a tenant, and all their words."""

    versions: int
    terms: int


class WordSearch:
    """One search by words. `selected` makes the SQL of the selection anew, as often as it is asked."""

    def __init__(
        self,
        connection: Connection,
        dialect: Dialect,
        print_of: Callable[[str], str],
        selected: Callable[[], SelectionSql],
        population: Population,
    ) -> None:
        self._connection, self._dialect = connection, dialect
        self._print_of, self._selected = print_of, selected
        self._population = population

    def run(self, leg: Leg, *, limit: int, whole: bool, counted: bool) -> Matches:
        """The best, best first; `whole`: count them all; `counted`: do, if that is cheap."""
        distinct = list(dict.fromkeys(words(leg.text)))[: QUERY_WORDS_LIMIT * 4]
        sql = self._selected()
        within = sql.scope_words() if not sql.selection.sees_all else self._narrowing(sql.scope_words())
        known = self._of_all(distinct, within) if sql.selection.sees_all else self._of_part(distinct, within)
        weights = {word: known.weight(word) for word in distinct}
        present = {word: count for word, count in known.counts.items() if count}
        scoring = _rarest(present)
        others = [word for word in present if word not in scoring]
        found = self._scored(sql, scoring, weights, known.mean_terms, within, limit + 1) if scoring else []
        for expression in self._unscored(scoring, others):
            if len(found) <= limit:
                found += self._newest(expression, within, limit + 1 - len(found))
        total: int | None = len(found)
        if len(found) > limit:
            counts_all = whole or (counted and not others)
            total = self._count([*scoring, *others], within) if counts_all else None
        return Matches(found=tuple(found[:limit]), total=total, weights=weights, mean_terms=known.mean_terms)

    # --- statistics --------------------------------------------------------------------------------------

    def _narrowing(self, scope: list[str]) -> list[str]:
        """The words of a scope whose lists are short."""
        if not scope:
            return []
        counts = self._frequencies(scope, SMALL_SCOPE_LIMIT)
        return [word for word, count in zip(scope, counts, strict=True) if count < SMALL_SCOPE_LIMIT]

    def _of_all(self, distinct: list[str], within: list[str]) -> _Statistics:
        """How many of the tenant's versions hold each word, counted up to the limit."""
        expressions = [self._expression(word, within) for word in distinct]
        counts = self._frequencies(expressions, POSTINGS_LIMIT + 1)
        versions, terms = self._population.versions, self._population.terms
        return _Statistics(dict(zip(distinct, counts, strict=True)), versions, _mean(terms, versions))

    def _of_part(self, distinct: list[str], within: list[str]) -> _Statistics:
        counts = {word: self._passing(self._expression(word, within), POSTINGS_LIMIT + 1)[0] for word in distinct}
        versions, terms = self._passing(self._dialect.both(within) if within else None, PART_LIMIT)
        return _Statistics(counts, versions, _mean(terms, versions))

    def _passing(self, expression: str | None, cap: int) -> tuple[int, int]:
        """How many pass the selection and hold an expression, up to a cap, and the number of their words."""
        sql = self._selected()
        query = sql.counted(expression, "count(*), coalesce(sum(term_count), 0)")
        ((count, terms),) = self._connection.select(query, {**sql.params, "cap": cap})
        return int(count), int(terms)

    def _frequencies(self, expressions: list[str], cap: int) -> list[int]:
        params = {"expressions": orjson.dumps(expressions).decode(), "cap": cap}
        return [count for (count,) in self._connection.rows("term_frequencies", params)]

    # --- finding -----------------------------------------------------------------------------------------

    def _scored(
        self,
        sql: SelectionSql,
        scoring: list[str],
        weights: dict[str, float],
        mean_terms: float,
        within: list[str],
        limit: int,
    ) -> list[Selected]:
        query = sql.scored(orjson.dumps([[self._expression(word, within), weights[word]] for word in scoring]).decode())
        params: dict[str, Any] = {**sql.params, "k1": K1, "b": B, "mean_terms": mean_terms, "limit": limit}
        return [Selected(*row) for row in self._connection.select(query, params)]

    def _unscored(self, scoring: list[str], others: list[str]) -> list[str]:
        """What else matches, and comes last: first what has all of the commoner words, then what has any."""
        if not others:
            return []
        dialect = self._dialect
        printed = [self._expression(word, []) for word in others]
        every, either = f"({dialect.both(printed)})", dialect.either(printed)
        but = f"{dialect.but_not}{self._either(scoring)}" if scoring else ""
        if len(others) == 1:
            return [f"{either}{but}"]
        return [f"{every}{but}", f"({either}{dialect.but_not}{every}){but}"]

    def _newest(self, expression: str, within: list[str], limit: int) -> list[Selected]:
        sql = self._selected()
        # Walked from the end, so that only what is taken is looked at.
        query = sql.newest(self._dialect.both([*within, f"({expression})"]))
        return [Selected(*row) for row in self._connection.select(query, {**sql.params, "limit": limit})]

    def _count(self, either: list[str], within: list[str]) -> int:
        sql = self._selected()
        query = sql.counted(self._dialect.both([*within, self._either(either)]))
        ((found,),) = self._connection.select(query, {**sql.params, "cap": FOREVER_MS})
        return int(found)

    def _either(self, of: Sequence[str]) -> str:
        return self._dialect.either([self._expression(word, []) for word in of])

    def _expression(self, word: str, within: list[str]) -> str:
        return self._dialect.both([*within, self._dialect.word.format(self._print_of(word))])


def _rarest(frequencies: dict[str, int]) -> list[str]:
    """The rarest words whose posting lists together stay under the limit."""
    chosen, postings = [], 0
    for word, count in sorted(frequencies.items(), key=lambda item: item[1])[:QUERY_WORDS_LIMIT]:
        if postings + count > POSTINGS_LIMIT:
            break
        chosen.append(word)
        postings += count
    return chosen


def _mean(terms: int, versions: int) -> float:
    return max(1.0, terms / max(1, versions))
