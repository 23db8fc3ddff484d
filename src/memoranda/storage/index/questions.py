"""A question as the index sees it: its words, exact strings, names and times, among the texts that the caller may see.

1. Times are read from the text: dates, relative times, and events ("before the move") that a visible text tells of.
2. A word that no visible text has is replaced by one that differs by one typing error, if a visible text has that.
3. The words are looked up in each visible segment; phrases, prefixes and exact strings become further words.

Everything is decided by visible texts alone, so hidden ones change no result.

Why the texts take part in reading a question: a name of an event, a typing error or a language can only be recognised
by comparing with what was written. The steps run in this order because a removed time changes the words, and a
corrected word changes what is looked up. Each limit above bounds the work of one question. When a limit is exceeded,
the step is left out, not the question.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
from msgspec.structs import replace

from memoranda.model.calendar import days_after, instant_of, local_day
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.model.selection import KeywordQuery, VectorQuery
from memoranda.retrieval.analysis import (
    PREFIX_CHARS,
    WORD,
    ExactTerms,
    QueryWord,
    exact_terms,
    has_phrase,
    has_prefix,
    names_in,
    prefix_term,
    query_words,
    searchable_text,
    stem,
)
from memoranda.retrieval.languages import ENGLISH, LANGUAGE_CODES, detect_language, fold, stop_words
from memoranda.retrieval.ranking import RetrievalQuery
from memoranda.retrieval.retrievers import SearchedSegment, is_in_sorted
from memoranda.retrieval.segment import Flags, Postings, RowNumbers, merge_spellings
from memoranda.retrieval.spelling import can_have_error, doubled_or_swapped, near_words
from memoranda.retrieval.weights import EVENT_WEIGHT, TimeSpan
from memoranda.storage.crypto.fingerprints import Fingerprints
from memoranda.storage.index.segment_reader import ReadableSegment
from memoranda.time_words.vocabulary import EVENT_WORDS, may_name_time

if TYPE_CHECKING:
    from memoranda.time_words.spans import EventReference

# Versions that are read to compare their texts with a phrase, and with an exact string of the question.
_PHRASE_VERSIONS: Final = 2_000
_STRING_VERSIONS: Final = 200
# Rows of a word that are looked at before all others.
_FIRST_ROWS: Final = 256
# Words of a question whose spelling is corrected.
_CORRECTIONS: Final = 2
# Marks around a word that belong to the sentence.
_PUNCTUATION: Final = ".,:;!?\"'“”‘’()"
# Versions that may tell of an event; if more do, it is not clear which one is meant.
_EVENT_VERSIONS: Final = 200


class VisibleSegment(NamedTuple):
    """A segment, and a flag for each row that the caller may see."""

    segment: ReadableSegment
    visible: Flags


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question, looked up in the visible segments."""

    words: list[QueryWord]
    ranking_query: RetrievalQuery
    segments: list[SearchedSegment]
    # The number of its phrases, prefixes and exact strings that visible texts have.
    exact_count: int
    # The query by embedding: of the changed text, if the text was changed.
    vector_query: VectorQuery | None


class QuestionReader(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Reader of one question among the visible segments of a tenant."""

    query: KeywordQuery
    vector_query: VectorQuery | None
    visible: list[VisibleSegment]
    tenant: str
    fingerprints: Fingerprints
    now: Instant
    # Reads versions by their ids.
    versions: Callable[[list[int]], list[Version]]
    # The postings of the words that were looked up, for each segment.
    _postings: dict[tuple[str, ...], list[Postings | None]] = msgspec.field(default_factory=dict)
    # The words of texts that were analysed.
    _words: dict[str, list[QueryWord]] = msgspec.field(default_factory=dict)

    def read(self) -> Question | None:
        """Return the question; None if it has neither words nor a time.

        If the text was changed, the vector is computed again from the new text. A question that only asks for a time
        ("what happened last week?") uses no vector, because its words mean nothing.
        """
        vector_query = self.vector_query
        spans, text, remaining_text = self._read_times(self.query.text)
        corrected = self._correct_spelling(text)
        is_changed, text = corrected != self.query.text, corrected
        words = self._find_words(text, remaining_text if spans else text)
        if not (words or spans or query_words(text)):
            return None
        is_only_time = bool(spans) and _asks_only_when(remaining_text)
        if is_only_time:
            vector_query = None
        elif is_changed and vector_query is not None and vector_query.embed is not None:
            limits = {"floor": vector_query.floor, "line": vector_query.line}
            vector_query = replace(vector_query.embed(text), **limits)
        segments, prefix_count = self._look_up(words, remaining_text)
        hashes = (self.fingerprints.term(self.tenant, word.terms[0]) for word in words)
        first_exact = len(words)
        end = len(segments[0].postings) if segments else first_exact
        return Question(
            words=words,
            ranking_query=RetrievalQuery(
                # Phrases, prefixes and exact strings have no hash.
                words=(*hashes, *range(end - first_exact)),
                names=tuple(self.fingerprints.name(self.tenant, name) for name in names_in(text)),
                spans=spans,
                exact_words=tuple(range(first_exact + prefix_count, end)),
                is_only_time=is_only_time,
                trust=1.0 if vector_query is None else vector_query.question_trust,
            ),
            segments=segments,
            exact_count=end - first_exact,
            vector_query=vector_query,
        )

    @property
    def _asked_at(self) -> Instant:
        return self.now if self.query.asked_at is None else self.query.asked_at

    @property
    def _zone(self) -> ZoneInfo | None:
        return None if self.query.zone is None else ZoneInfo(self.query.zone)

    def _read_times(self, text: str) -> tuple[tuple[TimeSpan, ...], str, str]:
        """Return the times of a question, its text without an event that names a time, and without any time."""
        if not may_name_time(text):
            return (), text, text
        # Imported here: most questions name no time, and the patterns take longer to compile than the search.
        from memoranda.time_words.spans import find_event, read_times

        spans, remaining_text = read_times(text, self._asked_at, self._zone)
        event = None if spans else find_event(text)
        event_span = None if event is None else self._resolve(event)
        if event is None or event_span is None:
            return spans, text, remaining_text
        return (event_span,), event.remaining_text, event.remaining_text

    # --- words ---------------------------------------------------------------------------------------------

    def _find_words(self, text: str, untimed_text: str) -> list[QueryWord]:
        """Return the words of a text in the languages of the visible texts.

        Optional words, and words that only tell the time, are returned only if a visible text has them: a date that no
        text mentions is compared with the times of the texts instead.

        The languages of the visible texts decide how words are stemmed: a question in Turkish among English notes is
        looked up in both.
        """
        words = self._words_of(text)
        untimed = words if untimed_text == text else self._words_of(untimed_text)
        return [
            word
            for word in words
            if (word in untimed and not word.is_optional) or self._is_known(word)
        ]

    @cached_property
    def _languages(self) -> frozenset[str]:
        by_segment = (part.segment.columns.languages_of(part.visible) for part in self.visible)
        return frozenset[str]().union(*by_segment)

    def _words_of(self, text: str) -> list[QueryWord]:
        """Return the words of a text, each with its spellings in the languages of the visible texts."""
        words = self._words.get(text)
        if words is None:
            words = self._words[text] = query_words(text, self._languages)
        return words

    def _is_known(self, word: QueryWord) -> bool:
        """Return True if a visible text has the word."""
        return any(
            _has_visible_row(part, postings)
            for part, postings in zip(self.visible, self._find(word), strict=True)
        )

    def _find(self, word: QueryWord) -> list[Postings | None]:
        """Return the postings of a word in all its spellings, for each segment."""
        by_segment = self._postings.get(word.terms)
        if by_segment is None:
            hashes = [self.fingerprints.term(self.tenant, term) for term in word.terms]
            by_segment = [
                merge_spellings(
                    [
                        postings
                        for term_hash in hashes
                        if (postings := part.segment.find(term_hash)) is not None
                    ]
                )
                for part in self.visible
            ]
            self._postings[word.terms] = by_segment
        return by_segment

    # --- spelling ------------------------------------------------------------------------------------------

    def _correct_spelling(self, text: str) -> str:
        """Return the text with unknown words replaced by known ones that differ by one typing error.

        At most _CORRECTIONS words are corrected. Words in quotes, prefixes (`deploy*`) and exact strings such as codes
        stay as they are.
        """
        words = self._words_of(text)
        if all(word.is_optional or self._is_known(word) for word in words):
            return text
        corrections = 0
        exact = exact_terms(text)
        literal = " ".join((*exact.phrases, *exact.prefixes, *literal_strings(text)))
        literal_words = {fold(word) for word in WORD.findall(literal)}
        language = detect_language(map(fold, WORD.findall(text)), text, minimum=1)
        for match in WORD.finditer(text):
            token = fold(match[0])
            if corrections == _CORRECTIONS or token in literal_words or not can_have_error(token):
                continue
            if self._is_right(token):
                continue
            words = self._words_of(token)
            if len(words) != 1 or words[0].is_optional or self._is_known(words[0]):
                continue
            corrected = self._known_neighbour(token, language)
            if corrected is not None:
                corrections += 1
                text = text.replace(match[0], corrected)
        return text

    def _is_right(self, word: str) -> bool:
        """Return True if the model knows the word: then no text has it, but it is written as it should be."""
        is_word = None if self.vector_query is None else self.vector_query.is_word
        return is_word is not None and is_word(word)

    def _known_neighbour(self, token: str, language: str) -> str | None:
        """Return the first word with one error less that a visible text has, or else that the model knows.

        The model tells typing errors from rare words in English only. In other languages only the clearest are
        corrected.
        """
        is_english = language == ENGLISH
        candidates = list(near_words(token) if is_english else doubled_or_swapped(token))
        # Most candidates have a beginning that no text has.
        beginnings = {candidate[:PREFIX_CHARS]: None for candidate in candidates}
        prefixes = self._possible_terms([prefix_term(beginning) for beginning in beginnings])
        excluded = {beginning for beginning in beginnings if prefix_term(beginning) not in prefixes}
        spellings = {
            candidate: _spellings_of(candidate, language)
            for candidate in candidates
            if candidate[:PREFIX_CHARS] not in excluded
        }
        terms = self._possible_terms({term for terms in spellings.values() for term in terms})
        for candidate, own_terms in spellings.items():
            if terms.isdisjoint(own_terms):
                continue
            prefix = QueryWord((prefix_term(candidate),))
            if self._is_known(prefix) and self._is_known(QueryWord(own_terms)):
                return candidate
        sure_candidates = near_words(token, is_sure=True) if is_english else ()
        return next(filter(self._is_right, sure_candidates), None)

    def _possible_terms(self, terms: Collection[str]) -> set[str]:
        """Return the terms that a text may have, visible or not. This is much faster than to look up each of them."""
        hashes = np.frombuffer(self.fingerprints.hash_terms(self.tenant, terms), "<u8")
        flags = np.zeros(len(terms), np.bool_)
        for part in self.visible:
            flags |= part.segment.may_have(hashes)
        return {
            term for term, is_possible in zip(terms, flags.tolist(), strict=True) if is_possible
        }

    # --- events --------------------------------------------------------------------------------------------

    def _resolve(self, event: EventReference) -> TimeSpan | None:
        """Return the time before or after an event; None unless a visible note has all words that name it.

        Turns of a conversation mention an event many times, and their words are needed to find the answer near them.

        The first mention counts as the time of the event. If more than _EVENT_VERSIONS versions mention it, the
        reference is not used.
        """
        words = [word for word in self._words_of(event.phrase) if not word.is_optional]
        rows_by_segment = self._rows_with(words)
        columns = [
            (part.segment.columns.times.take(rows), part.segment.columns.sessions.take(rows))
            for part, rows in zip(self.visible, rows_by_segment, strict=True)
        ]
        if not words or not 0 < sum(map(len, rows_by_segment)) <= _EVENT_VERSIONS:
            return None
        times, sessions = (np.concatenate(column) for column in zip(*columns, strict=True))
        # People mention an event again; they tell of it first when it happens.
        first = int(times.argmin())
        day = local_day(int(times[first]), self._zone)
        start, end = Instant(0), instant_of(day, 0, self._zone)
        if event.relation == "after":
            start = instant_of(days_after(day, 1), 0, self._zone)
            end = Instant(self._asked_at + 1)
        if start >= end or sessions[first]:
            return None
        return TimeSpan(start=start, end=end, inside=EVENT_WEIGHT, after=0.0, later=0.0, tail=1)

    def _rows_with(self, words: Sequence[QueryWord]) -> list[RowNumbers]:
        """Return the visible rows that have all words, for each segment."""
        by_word = [self._find(word) for word in words]
        rows_by_segment: list[RowNumbers] = []
        for number, part in enumerate(self.visible):
            in_segment = [postings[number] for postings in by_word]
            lists = [postings[0] for postings in in_segment if postings is not None]
            if len(lists) < max(1, len(words)):
                rows_by_segment.append(np.zeros(0, np.int32))
                continue
            rows, *longer_lists = sorted(lists, key=len)
            rows = rows[part.visible.take(rows)]
            for with_word in longer_lists:
                rows = rows[is_in_sorted(rows, with_word)]
            rows_by_segment.append(rows)
        return rows_by_segment

    # --- phrases, prefixes and exact strings ---------------------------------------------------------------

    def _look_up(
        self, words: list[QueryWord], untimed_text: str
    ) -> tuple[list[SearchedSegment], int]:
        """Return segments with the postings of words, prefixes, phrases and exact strings; count the prefixes."""
        word_keys = [word.terms for word in words]
        by_word = [self._find(word) for word in words]
        segments = [
            SearchedSegment(
                columns=part.segment.columns,
                visible=part.visible,
                allowed=part.visible,
                postings=[postings[number] for postings in by_word],
                word_keys=word_keys,
            )
            for number, part in enumerate(self.visible)
        ]
        if self.query.load_text is None or not segments:
            return segments, 0
        exact = exact_terms(self.query.text)
        for prefix in exact.prefixes:
            words = [QueryWord((prefix_term(prefix),))]
            segments = self._add_exact(partial(has_prefix, prefix=prefix), words, exact, segments)
        prefix_count = len(segments[0].postings) - len(word_keys)
        for phrase in exact.phrases:
            words = query_words(phrase, LANGUAGE_CODES)
            segments = self._add_exact(partial(has_phrase, phrase=phrase), words, exact, segments)
        if not exact.is_exclusive:
            segments = self._add_strings(literal_strings(untimed_text), segments)
        return segments, prefix_count

    def _add_exact(
        self,
        is_match: Callable[[str], bool],
        words: Sequence[QueryWord],
        exact: ExactTerms,
        segments: list[SearchedSegment],
    ) -> list[SearchedSegment]:
        """Add a phrase or prefix, which consists of words, as a further word, unless no text has it.

        If the query has nothing else, only versions with all of them are allowed.
        """
        required = [word for word in words if not word.is_optional]
        rows_by_segment = self._matching_rows(
            is_match, self._rows_with(required), limit=_PHRASE_VERSIONS
        )
        if not exact.is_exclusive and not any(map(len, rows_by_segment)):
            return segments
        return [
            _with_exact_rows(segment, rows, is_exclusive=exact.is_exclusive)
            for segment, rows in zip(segments, rows_by_segment, strict=True)
        ]

    def _add_strings(
        self, strings: Sequence[str], segments: list[SearchedSegment]
    ) -> list[SearchedSegment]:
        """Add the exact strings that visible texts contain as further words."""
        for string in strings:
            phrase = searchable_text(string)
            words = query_words(string, LANGUAGE_CODES)
            rows_by_segment = self._rows_with([word for word in words if not word.is_optional])
            if not phrase or not any(map(len, rows_by_segment)):
                continue
            if sum(map(len, rows_by_segment)) <= _STRING_VERSIONS:
                is_match = partial(has_phrase, phrase=phrase)
                rows_by_segment = self._matching_rows(
                    is_match, rows_by_segment, limit=_STRING_VERSIONS
                )
            else:
                # Too many texts to read: those that have the string as one identifier are enough.
                rows_by_segment = self._rows_with([word for word in words if word.is_optional])
            if any(map(len, rows_by_segment)):
                segments = [
                    _with_exact_rows(segment, rows, is_exclusive=False)
                    for segment, rows in zip(segments, rows_by_segment, strict=True)
                ]
        return segments

    def _matching_rows(
        self,
        is_match: Callable[[str], bool],
        rows_by_segment: Sequence[RowNumbers],
        *,
        limit: int,
    ) -> list[RowNumbers]:
        """Return the rows whose text matches, for each segment.

        The index holds no positions, so the texts with all words are read: the latest ones, up to `limit`.
        """
        assert self.query.load_text is not None
        candidates = np.concatenate(
            [
                part.segment.columns.versions[rows]
                for part, rows in zip(self.visible, rows_by_segment, strict=True)
            ]
        )
        matching = np.array(
            [
                version.version_id
                for version in self.versions(np.sort(candidates)[-limit:].tolist())
                if is_match(searchable_text(self.query.load_text(version)))
            ],
            np.int64,
        )
        matching.sort()
        return [
            np.intersect1d(rows, part.segment.columns.rows_of(matching), assume_unique=True).astype(
                np.int32
            )
            for part, rows in zip(self.visible, rows_by_segment, strict=True)
        ]


def literal_strings(text: str) -> tuple[str, ...]:
    """Return the strings of a question that texts must contain literally; none if it has only ordinary words."""
    if all(map(_is_ordinary, text.split())):
        return ()
    # Imported here: most questions have none, and the patterns take longer to compile than the search.
    from memoranda.retrieval.exact_strings import find_exact_strings

    return find_exact_strings(text)


def _is_ordinary(chunk: str) -> bool:
    """Return True for letters with punctuation around them, without a capital inside."""
    word = chunk.strip(_PUNCTUATION)
    return word.isalpha() and word[1:] == word[1:].lower()


def _has_visible_row(part: VisibleSegment, postings: Postings | None) -> bool:
    """Return True if the caller may see a row of the postings; the first ones mostly decide."""
    if postings is None:
        return False
    rows = postings[0]
    return bool(part.visible.take(rows[:_FIRST_ROWS]).any()) or bool(part.visible.take(rows).any())


def _asks_only_when(untimed_text: str) -> bool:
    """Return True if nothing but words like "what happened" is left of a question without its times."""
    words = [fold(word) for word in WORD.findall(untimed_text)]
    excluded = stop_words(detect_language(words, untimed_text, minimum=1))
    return EVENT_WORDS.issuperset(word for word in words if word not in excluded)


def _with_exact_rows(
    segment: SearchedSegment, rows: RowNumbers, *, is_exclusive: bool
) -> SearchedSegment:
    """Add the rows of a phrase or prefix as postings; if exclusive, allow only these rows."""
    allowed = segment.allowed
    if is_exclusive:
        allowed = np.zeros_like(allowed)
        allowed[rows] = segment.allowed[rows]
    postings = (rows, np.ones(len(rows), np.uint8)) if len(rows) else None
    return replace(segment, allowed=allowed, postings=[*segment.postings, postings])


def _spellings_of(candidate: str, language: str) -> tuple[str, ...]:
    """Return the terms of a possible spelling of a word; empty if it is a stop word or several words."""
    if candidate.isascii() and candidate.isalpha():
        # This is much faster than analysing a text, and a word has hundreds of possible spellings.
        if candidate in stop_words(language):
            return ()
        term = stem(candidate, ENGLISH)
        return (
            tuple({term: None, stem(candidate, language): None}) if language != ENGLISH else (term,)
        )
    words = query_words(candidate, (language,))
    return words[0].terms if len(words) == 1 else ()
