"""Search by words and by meaning, among what a selection lets through.

Ranking is done on the segments of the word index (`retrieval`): they tell where, whose and how visible each version is,
so every number of a ranking comes from what passes. What only the database tells (kinds, fields, times) is asked of
those that hold a word of the question, before anything is cut to the best; of what merely expires in time, of the best,
where its segment does not tell that it never does. Whatever is shown the database is asked about.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

import msgspec
from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.model.memory import VISIBILITIES, Version
from memoranda.model.selection import (
    IsAmong,
    IsOneOf,
    KeywordQuery,
    Matches,
    Reason,
    RetrieverQuery,
    Selected,
    Selection,
    VectorQuery,
)
from memoranda.retrieval.analysis import (
    Exact,
    Word,
    asked,
    beginning,
    exact_in,
    has_beginning,
    has_phrase,
    names_in,
    plain,
)
from memoranda.retrieval.entry import LASTING_BIT, VISIBILITY_BITS
from memoranda.retrieval.languages import CODES
from memoranda.retrieval.weights import LEG_LIMIT
from memoranda.storage.crypto.cipher import Cipher
from memoranda.storage.crypto.fingerprints import Fingerprints
from memoranda.storage.engine.database import Connection, Row
from memoranda.storage.engine.document_cache import Age
from memoranda.storage.engine.selection import FOREVER_MS, SelectionSql
from memoranda.storage.index.vectors import Matrices
from memoranda.storage.index.word_index import OpenSegment, SegmentCache, WordIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # Rows of version_id and the end of its valid time; 0 of what is not there at any time.
    Closed: TypeAlias = NDArray[np.int64]

    from memoranda.retrieval.ranking import Question, Ranking, Scope
    from memoranda.retrieval.retrievers import Searched
    from memoranda.retrieval.segment import Facts, Flags, Postings
    from memoranda.retrieval.vectors import Matrix, Standing
    from memoranda.storage.postgres.pgvector import ClearMatrix, ClearVectors

# What a word weighs that nobody knows, where there is nothing.
_UNKNOWN: Final = 1.0
# As many are looked up in the database at once.
_CHUNK: Final = 2_000
# So many are counted though nobody needs them all.
_CHEAP: Final = 1_000
# Fewer than this are read from an index of the database, and nothing else is ranked.
_NARROW: Final = 4_096


# Where more than one in so many of the best do not pass, a filter leaves few: it is asked of more at once.
_MANY_FAIL: Final = 4
# So exact is how near something is, whoever adds it up and in whichever order.
_DIGITS: Final = 6
# What is neither forgotten nor erased has one of these.
_USUAL: Final = ("active", "candidate")


class Memory:
    """What a process keeps between searches: segments of words, vectors, and which versions are not live."""

    def __init__(self, clear: ClearVectors | None = None) -> None:
        self.segments = SegmentCache()
        self.matrices = Matrices(clear)
        self._lock = threading.Lock()
        self._closed: dict[int, tuple[int, Closed]] = {}

    def closed(self, connection: Connection, tenant_id: int, closing_seq: int) -> Closed:
        """The versions that are not live, in order, each with the end of its valid time."""
        import numpy as np

        with self._lock:
            kept = self._closed.get(tenant_id)
        if kept is not None and kept[0] == closing_seq:
            return kept[1]
        asked = {"tenant_id": tenant_id, "forever_ms": FOREVER_MS}
        if kept is not None and kept[0] < closing_seq:
            found = _closed_since(
                kept[1], connection.query("closings_after", {**asked, "after": kept[0]})
            )
        else:
            rows = connection.query("closed_versions", asked)
            found = np.array(rows, np.int64).reshape(len(rows), 2)
        with self._lock:
            if len(self._closed) > _TENANTS:
                self._closed.clear()
            self._closed[tenant_id] = closing_seq, found
        return found


def _closed_since(known: Closed, rows: list[Row]) -> Closed:
    """What is not live, by what was known and what was closed or opened again since."""
    import numpy as np

    changed = np.array(sorted(rows), np.int64).reshape(len(rows), 3)
    kept = known[~np.isin(known[:, 0], changed[:, 0])]
    whole = np.concatenate((kept, changed[changed[:, 2] == 0, :2]))
    found: Closed = whole[np.argsort(whole[:, 0], kind="stable")]
    return found


# Tenants of which it is known which versions are not live.
_TENANTS: Final = 1_024


class _Place(msgspec.Struct, frozen=True):
    """A segment, and what may be seen of it."""

    segment: OpenSegment
    mask: NDArray[np.bool_]

    @property
    def spoken(self) -> frozenset[str]:
        """The languages of what may be seen."""
        return self.segment.facts.spoken_by(self.mask)


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """One search. `selected` makes the SQL of the selection anew, as often as it is asked."""

    connection: Connection
    tenant: str
    tenant_id: int
    prints: Fingerprints
    memory: Memory
    cipher: Cipher
    age: Age
    closing_seq: int
    now: Instant
    selection: Selection
    selected: Callable[[], SelectionSql]
    # Versions by their numbers, as they are.
    versions: Callable[[list[int]], list[Version]]
    # What passes, whatever its words, if that is less than a number.
    few: Callable[[int], list[Selected] | None]

    def run(
        self, legs: Sequence[RetrieverQuery], *, limit: int, whole: bool, counted: bool
    ) -> Matches:
        """The best, best first; `whole`: count them all; `counted`: do, if that is cheap."""
        from memoranda.retrieval import ranking as retrieval

        leg = next(leg for leg in legs if isinstance(leg, KeywordQuery))
        meaning = next((leg for leg in legs if isinstance(leg, VectorQuery)), None)
        places = self._places()
        distinct = self._asked(leg.text, places)
        if distinct is None:
            return Matches(hits=(), total=0)
        segments = self._segments(distinct, places)
        exact = exact_in(leg.text) if leg.reads is not None else Exact()
        segments, held = self._exactly(exact, leg, places, segments) if exact else (segments, 0)
        segments = self._compared(segments, meaning)
        question = self._question(leg, distinct, held)
        # What each part's place among all is, only all of it tells.
        rank = partial(
            retrieval.rank, question, changed=dict(leg.weights), is_whole=leg.is_explained
        )
        ranking = rank(segments) if segments else None
        if ranking is None or not len(ranking):
            return Matches(hits=(), total=0, weights={word.terms: _UNKNOWN for word in distinct})
        size = len(ranking)
        is_filtered = self._asks_more
        narrow = None
        if (is_filtered or whole) and (size > _NARROW or meaning is not None):
            narrow = self._narrow()
        if (
            whole
            or narrow is not None
            or (is_filtered and size <= _NARROW)
            or (counted and size <= _CHEAP)
        ):
            # What passes is known before anything is weighed.
            known = self._passing_all(ranking.everything) if narrow is None else narrow
            if narrow is not None or len(known) < size:
                known.update(self._passing_nearest(segments, known) if narrow is None else {})
                segments = self._compared(_only(segments, known), meaning)
                ranking = rank(segments)
            matches = self._matches(ranking, distinct, known, limit, len(ranking))
        else:
            segments, ranking, known = self._decided(rank, segments, ranking, meaning, limit + 1)
            matches = self._matches(ranking, distinct, known, limit + 1, None)
            is_all = len(matches.hits) <= limit
            matches = replace(
                matches, hits=matches.hits[:limit], total=len(matches.hits) if is_all else None
            )
        if not (ranking.is_answered or held):
            # The weights stay: what is shown in part is compared by them.
            return replace(matches, hits=(), total=0)
        return _with_reasons(matches, ranking, segments, is_explained=leg.is_explained)

    def _narrow(self) -> dict[int, str] | None:
        """Everything that passes, whatever its words, with its address; None if there is no index for it, or much."""
        found = self.few(_NARROW)
        return None if found is None else {each.version_id: each.address for each in found}

    def _decided(
        self,
        rank: Callable[[list[Searched]], Ranking],
        segments: list[Searched],
        ranking: Ranking,
        meaning: VectorQuery | None,
        first: int,
    ) -> tuple[list[Searched], Ranking, dict[int, str]]:
        """The ranking by what passes, and what is known to: of those by which scores are made it is asked, and of the
        first ones, which are shown.
        """
        import numpy as np

        known: dict[int, str] = {}
        while True:
            doubtful, sure = self._in_doubt(ranking)
            asked = {version_id for version_id in doubtful if version_id not in known}
            shown = {
                version_id for version_id in ranking.best(0, first)[0] if version_id not in known
            }
            passing = self._passing(sorted(asked | shown))
            known.update(passing)
            failing = asked - passing.keys()
            if not failing:
                return segments, ranking, known
            is_filter = len(failing) * _MANY_FAIL > len(asked) + sure
            if is_filter:
                failing |= self._failing_ahead(segments, ranking, known, failing)
            gone = np.array(sorted(failing), np.int64)
            segments = [replace(s, allowed=s.allowed & s.facts.without(gone)) for s in segments]
            if is_filter:
                segments = self._compared(segments, meaning)
            ranking = rank(segments)

    def _failing_ahead(
        self, segments: list[Searched], ranking: Ranking, known: dict[int, str], failing: set[int]
    ) -> set[int]:
        """What does not pass of the best of each leg, so far down that enough of it pass; what does becomes known."""
        import numpy as np

        legs = list(ranking.by_words())
        for near, segment in ((each.near, each) for each in segments if each.near is not None):
            is_allowed = segment.allowed[near.places]
            versions = segment.facts.versions[near.places[is_allowed]]
            legs += [(versions, column[is_allowed]) for column in (near.own, near.context)]
        found: set[int] = set()
        for versions, scores in legs:
            best_first = versions[np.argsort(-scores, kind="stable")]
            passing, start = 0, 0
            while start < len(best_first) and passing < LEG_LIMIT:
                some = best_first[start : start + _CHUNK].tolist()
                start += _CHUNK
                asked = [
                    each
                    for each in some
                    if each not in known and each not in found and each not in failing
                ]
                known.update(self._passing(asked))
                found.update(each for each in asked if each not in known)
                passing += sum(each in known for each in some)
        return found

    # --- meaning -----------------------------------------------------------------------------------------

    def _compared(self, segments: list[Searched], meaning: VectorQuery | None) -> list[Searched]:
        """The same with how near each version is to what the question means; as they are where nothing tells."""
        if meaning is None or not segments:
            return segments
        size = len(meaning.vector)
        matrix = self.memory.matrices.of(
            self.connection, self.tenant, self.tenant_id, meaning.model, size, self.age, self.cipher
        )
        return segments if matrix is None else _near(segments, matrix, meaning)

    def _passing_nearest(self, segments: list[Searched], known: dict[int, str]) -> dict[int, str]:
        """Those that pass of the nearest by meaning, until there are enough: a filter may leave few of the first."""
        import numpy as np

        compared = [
            (each, each.near, each.allowed[each.near.places])
            for each in segments
            if each.near is not None
        ]
        if not compared:
            return {}
        versions = np.concatenate(
            [each.facts.versions[near.places[some]] for each, near, some in compared]
        )
        order = np.argsort(
            -np.concatenate([near.own[some] for _, near, some in compared]), kind="stable"
        )
        passing: dict[int, str] = {}
        for start in range(0, len(order), _CHUNK):
            asked = versions[order[start : start + _CHUNK]].tolist()
            passing.update({each: known[each] for each in asked if each in known})
            passing.update(self._passing([each for each in asked if each not in known]))
            if len(passing) >= LEG_LIMIT:
                break
        return passing

    # --- the question ------------------------------------------------------------------------------------

    def _asked(self, text: str, places: list[_Place]) -> list[Word] | None:
        """The words of a question as what may be seen spells them; names as a whole only where there are such.

        None if there are no words in it.
        """
        from memoranda.time_words.spans import remove_dates

        spoken = frozenset[str]().union(*(place.spoken for place in places))
        found = asked(text, spoken)
        if not found:
            return None
        # A day that no text names is not missing from one: when a memory is of is compared by itself.
        undated = remove_dates(text)
        needed = found if undated == text else asked(undated, spoken)
        return [
            word
            for word in found
            if (word in needed and not word.is_optional)
            or any(self._find(word, place) for place in places)
        ]

    def _exactly(
        self, exact: Exact, leg: KeywordQuery, places: list[_Place], segments: list[Searched]
    ) -> tuple[list[Searched], int]:
        """Segments in which phrases and beginnings are words too, and how many; of a question of nothing else, what
        does not hold them all does not come back.
        """
        import numpy as np

        held = 0
        wanted = [(partial(has_phrase, phrase=each), asked(each, CODES)) for each in exact.phrases]
        begun = [
            (partial(has_beginning, beginning=each), [Word((beginning(each),))])
            for each in exact.beginnings
        ]
        for holds, terms in (*wanted, *begun):
            found = self._holding(
                leg, holds, [word for word in terms if not word.is_optional], places
            )
            if not exact.is_all and not any(map(len, found)):
                continue
            held += 1
            for number, (segment, some) in enumerate(zip(segments, found, strict=True)):
                allowed = segment.allowed
                if exact.is_all:
                    allowed = np.zeros_like(allowed)
                    allowed[some] = segment.allowed[some]
                postings = (some, np.ones(len(some), np.uint8)) if len(some) else None
                segments[number] = replace(
                    segment, allowed=allowed, postings=[*segment.postings, postings]
                )
        return segments, held

    def _holding(
        self,
        leg: KeywordQuery,
        holds: Callable[[str], bool],
        terms: list[Word],
        places: list[_Place],
    ) -> list[NDArray[np.int32]]:
        """In each segment what holds something letter by letter: of what has all its words, the last written."""
        import numpy as np

        found: list[NDArray[np.int32]] = []
        for place in places:
            some = np.flatnonzero(place.mask).astype(np.int32) if terms else np.zeros(0, np.int32)
            for word in terms:
                held = self._find(word, place)
                some = (
                    np.intersect1d(some, held[0], assume_unique=True)
                    if held is not None
                    else some[:0]
                )
            found.append(some)
        assert leg.reads is not None
        most = np.concatenate(
            [place.segment.facts.versions[some] for place, some in zip(places, found, strict=True)]
        )
        read = self.versions(np.sort(most)[-_CHUNK:].tolist())
        right = np.array(
            [each.version_id for each in read if holds(plain(leg.reads(each)))], np.int64
        )
        right.sort()
        return [
            np.intersect1d(some, place.segment.facts.places_of(right), assume_unique=True).astype(
                np.int32
            )
            for place, some in zip(places, found, strict=True)
        ]

    def _question(self, leg: KeywordQuery, distinct: list[Word], held: int) -> Question:
        from zoneinfo import ZoneInfo

        from memoranda.retrieval.ranking import Question
        from memoranda.time_words.spans import find_spans

        asked_at = self.now if leg.asked_at is None else leg.asked_at
        return Question(
            words=(
                *(self.prints.term(self.tenant, word.terms[0]) for word in distinct),
                *range(held),
            ),
            names=tuple(self.prints.name(self.tenant, name) for name in names_in(leg.text)),
            spans=find_spans(leg.text, asked_at, None if leg.zone is None else ZoneInfo(leg.zone)),
        )

    def _scope(self, selection: Selection) -> Scope:
        from memoranda.retrieval.ranking import Scope

        seen, number = selection.visibilities, self._number
        marks = (
            None
            if seen is None or set(seen) == set(VISIBILITIES)
            else sum(VISIBILITY_BITS[each] for each in seen)
        )
        return Scope(
            space=number(selection.space),
            user=number(selection.user),
            agent=number(selection.agent),
            session=number(selection.session),
            marks=marks,
            redacted=selection.redacted,
            users=self._users(selection),
        )

    def _users(self, selection: Selection) -> tuple[int, ...] | None:
        """Those that every test of the user lets through."""
        named = [set(each.texts) for each in selection.tests if _is_by_user(each)]
        return tuple(map(self._print, set.intersection(*named))) if named else None

    def _number(self, text: str | None) -> int | None:
        return None if text is None else self._print(text)

    def _print(self, text: str) -> int:
        return self.prints.number(self.tenant_id, text)

    def _places(self) -> list[_Place]:
        """Every segment in which there is anything to see."""
        import numpy as np

        selection = self.selection
        if any(
            isinstance(test, IsAmong) and not test.version_ids and not test.negated
            for test in selection.tests
        ):
            return []
        scope = self._scope(selection)
        scopes = (
            (scope, replace(scope, space=self._print(""))) if selection.or_no_space else (scope,)
        )
        closed = self._closed(selection)
        # One instant is like another as long as the same has ended.
        ended = (
            None
            if closed is None or selection.at is None
            else int(np.count_nonzero(closed[:, 1] <= selection.at))
        )
        found = []
        for segment in WordIndex(self.connection, self.tenant_id, self.memory.segments).segments():
            mask = segment.facts.view(
                (scopes, ended), closed, partial(_mask, scopes, closed, selection.at)
            )
            if np.any(mask):
                found.append(_Place(segment, mask))
        return found

    def _segments(self, distinct: list[Word], places: list[_Place]) -> list[Searched]:
        from memoranda.retrieval.retrievers import Searched

        names = [word.terms for word in distinct]
        return [
            Searched(
                facts=place.segment.facts,
                mask=place.mask,
                allowed=place.mask,
                postings=[self._find(word, place) for word in distinct],
                names=names,
            )
            for place in places
        ]

    def _find(self, word: Word, place: _Place) -> Postings | None:
        """Where a word stands, however it is spelt."""
        from memoranda.retrieval.segment import together

        terms = (self.prints.term(self.tenant, term) for term in word.terms)
        return together(
            [found for term in terms if (found := place.segment.find(term)) is not None]
        )

    def _closed(self, selection: Selection) -> Closed | None:
        """Versions that cannot pass any more, or not at every time."""
        if selection.known_at is not None or (
            selection.at is None and selection.status_filter != "live"
        ):
            return None
        return self.memory.closed(self.connection, self.tenant_id, self.closing_seq)

    # --- what passes -------------------------------------------------------------------------------------

    @property
    def _asks_more(self) -> bool:
        """Whether the selection asks for anything that a segment does not tell, but for an end in time."""
        selection = self.selection
        tests = [each for each in selection.all_tests() if not _is_by_user(each)]
        filters = (selection.kinds, selection.form, selection.known_at)
        is_now = selection.status_filter == "live" and (
            selection.statuses is None or set(_USUAL) <= set(selection.statuses)
        )
        return (
            bool(tests)
            or any(each is not None for each in filters)
            or not is_now
            or selection.exportable
        )

    def _in_doubt(self, ranking: Ranking) -> tuple[list[int], int]:
        """Of those by which scores are made, the ones of which only the database tells whether they pass, and how many
        others there are: what is live, had begun by then and never ends passes, if nothing but a scope is asked for.
        """
        selection, decisive = self.selection, ranking.decisive
        if self._asks_more or selection.has_fields or selection.standard is not None:
            return [
                each for facts, places in decisive for each in facts.versions.take(places).tolist()
            ], 0
        closed, moment = self._closed(selection), self.now if selection.at is None else selection.at
        doubtful, sure = list[int](), 0
        for facts, places in decisive:
            is_sure = facts.view("lasting", closed, partial(_lasting, closed)).take(places)
            is_sure &= facts.times.take(places) <= moment
            rest = places[~is_sure]
            doubtful += facts.versions.take(rest).tolist()
            sure += len(places) - len(rest)
        return doubtful, sure

    def _passing_all(self, versions: NDArray[np.int64]) -> dict[int, str]:
        """Everything that holds a word and passes, with its address."""
        passing: dict[int, str] = {}
        for start in range(0, len(versions), _CHUNK):
            passing.update(self._passing(versions[start : start + _CHUNK].tolist()))
        return passing

    def _passing(self, version_ids: list[int]) -> dict[int, str]:
        if not version_ids:
            return {}
        sql = self.selected()
        return dict(self.connection.select(sql.build_filter(version_ids), sql.params))

    def _matches(
        self,
        ranking: Ranking,
        distinct: list[Word],
        known: dict[int, str],
        limit: int,
        total: int | None,
    ) -> Matches:
        """The best that pass; of equal ones first the lower address, where there are addresses."""
        taken: list[Selected] = []
        start, size = 0, min(limit, _CHUNK)
        while start < len(ranking):
            if (
                len(taken) >= limit
                and [taken[limit - 1].lexical] != ranking.best(start, start + 1)[1]
            ):
                break
            versions, scores = ranking.best(start, start + size)
            if total is None:
                known = {**known, **self._passing([each for each in versions if each not in known])}
            pairs = zip(versions, scores, strict=True)
            taken += [Selected(each, known[each], score) for each, score in pairs if each in known]
            start, size = start + size, min(2 * size, _CHUNK)
        if self.selection.has_fields:
            taken.sort(key=lambda each: (-each.lexical, each.address))
        return Matches(
            hits=tuple(taken[:limit]),
            total=total,
            weights={
                word.terms: weight
                for word, weight in zip(distinct, ranking.weights.tolist(), strict=False)
            },
            mean_terms=ranking.mean_length,
            covered=ranking.covered,
        )


def _mask(
    scopes: Sequence[Scope], closed: Closed | None, at: Instant | None, facts: Facts
) -> NDArray[np.bool_]:
    """What of a segment is in one of some scopes, and not closed, or not at a time."""
    found = scopes[0].mask(facts)
    for scope in scopes[1:]:
        found |= scope.mask(facts)
    if closed is not None and len(closed):
        found &= facts.without(closed[:, 0] if at is None else closed[closed[:, 1] <= at, 0])
    return found


def _lasting(closed: Closed | None, facts: Facts) -> NDArray[np.bool_]:
    """What of a segment is live and never ends by itself."""
    found: NDArray[np.bool_] = (facts.marks & LASTING_BIT) != 0
    return found if closed is None or not len(closed) else found & facts.without(closed[:, 0])


def _with_reasons(
    matches: Matches, ranking: Ranking, segments: list[Searched], *, is_explained: bool
) -> Matches:
    """The same with how near each is, and what its score is made of if that was asked for."""
    import numpy as np

    found = [each.version_id for each in matches.hits]
    nearness: dict[int, float] = {}
    for segment in segments:
        if segment.near is not None:
            versions = segment.facts.versions[segment.near.places]
            is_here = np.flatnonzero(np.isin(versions, found))
            pairs = zip(versions[is_here].tolist(), segment.near.own[is_here].tolist(), strict=True)
            nearness |= {
                version_id: cosine for version_id, cosine in pairs if cosine >= segment.near.floor
            }
    if not is_explained:
        return replace(matches, nearness=nearness)
    reasons: dict[int, dict[str, Reason]] = {version_id: {} for version_id in found}
    for name, column in ranking.signals.items():
        for version_id in found:
            if part := column.at(ranking.row_of(version_id)):
                reasons[version_id][name] = Reason(part=part, rank=column.rank(part, len(ranking)))
    return replace(matches, nearness=nearness, reasons=reasons)


def _near(
    segments: list[Searched], matrix: Matrix | ClearMatrix, meaning: VectorQuery
) -> list[Searched]:
    """Segments with the cosines of what has a vector: of all of it, or of the nearest where there is much."""
    import numpy as np

    from memoranda.retrieval.retrievers import Near, line_of
    from memoranda.retrieval.vectors import EXACT_LIMIT

    standing = [matrix.standing(each.facts.versions, each.mask) for each in segments]
    docs = sum(each.seen.docs for each in segments)
    is_all = sum(len(each.places) for each in standing) == docs
    if sum(len(each.places) for each in standing) > EXACT_LIMIT:
        standing = [matrix.standing(each.facts.versions, each.allowed) for each in segments]
    if sum(len(each.places) for each in standing) > EXACT_LIMIT:
        standing = matrix.nearest(meaning.vector, standing)
    questions, second = (
        _questions(meaning),
        None if meaning.second is None else _questions(meaning.second),
    )
    share = matrix.share_alone(standing)
    # What has no vector yet may be the answer.
    line = line_of(docs, meaning.floor, meaning.line, share) if is_all and meaning.line else 0.0
    rows = np.concatenate([each.rows for each in standing])
    is_seen = np.concatenate(
        [_in_context(*each, matrix) for each in zip(segments, standing, strict=True)]
    )
    own, context = (
        np.round(each, _DIGITS) for each in matrix.cosines(questions, rows, is_seen, second, share)
    )
    found, start = [], 0
    for segment, each in zip(segments, standing, strict=True):
        part = slice(start, start := start + len(each.rows))
        near = Near(
            each.places,
            own[0, part],
            context[0, part],
            own[1, part],
            context[1, part],
            meaning.floor,
            line,
        )
        found.append(replace(segment, near=near))
    return found


def _in_context(segment: Searched, standing: Standing, matrix: Matrix | ClearMatrix) -> Flags:
    """Of what in a segment has a vector what is compared with what was said before: where whoever asks may see that."""
    import numpy as np

    facts, contexts = segment.facts, matrix.contexts(standing.rows)
    at = np.minimum(np.searchsorted(facts.versions, contexts), len(facts) - 1)
    is_seen: Flags = (facts.versions[at] == contexts) & segment.mask[at] & (contexts != 0)
    return is_seen


def _questions(meaning: VectorQuery) -> NDArray[np.float32]:
    """A question and a typical one."""
    import numpy as np

    return np.stack(
        (meaning.vector, meaning.vector * 0 if meaning.typical is None else meaning.typical)
    )


def _only(segments: list[Searched], known: dict[int, str]) -> list[Searched]:
    """Segments of which nothing else comes back."""
    import numpy as np

    wanted = np.sort(np.fromiter(known, np.int64, len(known)))
    return [replace(each, allowed=each.mask & ~each.facts.without(wanted)) for each in segments]


def _is_by_user(test: object) -> TypeGuard[IsOneOf]:
    return isinstance(test, IsOneOf) and test.name == "user" and test.or_missing
