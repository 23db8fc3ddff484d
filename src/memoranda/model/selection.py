"""Queries to the store, independent of any standard: a selection, an order, and the results.

A `Selection` filters versions; all of its conditions must hold, and they are applied before the results are limited. A
`RetrieverQuery` scores versions: by keywords (`KeywordQuery`) or by embeddings (`VectorQuery`).

A test that no index of the store can answer does not belong here: callers check it on the documents. When a test is
added, translate it in `storage/engine/selection.py`, and say in `storage/index/search.py` if segments can decide it.
Selections are compared and copied often; they are values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import msgspec

from memoranda.model.instant import Instant
from memoranda.model.memory import Kind, Standard, Status, Version, Visibility

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The status filter, from the present to everything on record. Expired versions are only in the last two.
# live         not superseded, retracted, forgotten, replaced by a fuller document, or erased
# current      live, and retracted versions
# unforgotten  current, and superseded versions
# recorded     unforgotten, and forgotten versions
# unerased     recorded, and versions replaced by a fuller document
# all          every version that was not replaced, with the tombstones of erased ones
StatusFilter = Literal["live", "current", "unforgotten", "recorded", "unerased", "all"]


# Milliseconds of a month, on average: the width of the groups by time.
MONTH_MS: Final = 2_629_746_000


class IsOneOf(msgspec.Struct, frozen=True, kw_only=True):
    """A test that a field has one of several texts."""

    name: str
    texts: tuple[str, ...]
    # True if a version without the field passes.
    or_missing: bool = False


class IsNoneOf(msgspec.Struct, frozen=True, kw_only=True):
    """A test that a field has a text that is none of several."""

    name: str
    texts: tuple[str, ...]
    # True if a version without the field passes.
    or_missing: bool = False


class Compares(msgspec.Struct, frozen=True, kw_only=True):
    """A test that compares a numeric field with a number."""

    name: str
    operator: Literal["=", "!=", ">=", "<=", ">", "<"]
    number: float


class Lacks(msgspec.Struct, frozen=True, kw_only=True):
    """A test that a version has no confidence, or no importance."""

    name: Literal["confidence", "importance"]


# The key of a group of versions: a fingerprint, a constant name, or the number of a month.
GroupKey: TypeAlias = bytes | str | int | None


class InGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A test that a version belongs to a group that the store has counted."""

    name: str
    key: GroupKey


class VersionGroup(msgspec.Struct, frozen=True):
    """A group of versions with equal content: their number, and one of them."""

    key: GroupKey
    count: int
    version_id: int


class IsAmong(msgspec.Struct, frozen=True, kw_only=True):
    """A test that a version is one of several, or has a certain verification."""

    version_ids: tuple[int, ...]
    or_verification: str | None = None
    negated: bool = False


class VisibleToRun(msgspec.Struct, frozen=True, kw_only=True):
    """A test that a version existed when a run began (up to `version_seq`), or was written by the run."""

    run_id: str
    version_seq: int


Test: TypeAlias = IsOneOf | IsNoneOf | Compares | Lacks | InGroup | IsAmong | VisibleToRun


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of versions. Every field that is set must match.

    `at` is a point in valid time: the versions that were true then, superseded since or not; it replaces
    `status_filter`. `known_at` is a point in transaction time: the versions that the store knew then. Both together
    answer "what did we believe at `known_at` about `at`".

    None means "any". `or_no_space` adds what belongs to no project. `sees_all` is False as soon as the caller may not
    see everything, so that shortcuts for owners are not taken.
    """

    status_filter: StatusFilter = "live"
    at: Instant | None = None
    # With a status filter: only versions whose valid time has begun and not ended.
    in_force: bool = False
    known_at: Instant | None = None
    # The number of a version: what was selected when it was the last one. Versions written later are not selected, and
    # those that they replaced count as current; `Snapshot.rewind` returns these in their former state.
    as_of: int | None = None
    statuses: tuple[Status, ...] | None = None
    kinds: tuple[Kind, ...] | None = None
    visibilities: tuple[Visibility, ...] | None = None
    space: str | None = None
    # Also the versions without a space.
    or_no_space: bool = False
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    # The standard of the document.
    standard: Standard | None = None
    # Tags in lower case, all of which the version must have.
    tags: tuple[str, ...] = ()
    # Bounds of the last write of its memory: from `since`, and before `until`.
    since: Instant | None = None
    until: Instant | None = None
    # Only exportable versions.
    exportable: bool = False
    # True for only redacted versions, False for only versions without redaction.
    redacted: bool | None = None
    # Fields of the field index; versions without an index do not match.
    subject: str | None = None
    relation: str | None = None
    object: str | None = None
    form: str | None = None
    has_fields: bool = False
    tests: Sequence[Test] = ()
    # False if the caller sees only a part of the tenant. Then word weights are computed from the visible part alone.
    sees_all: bool = True

    def all_tests(self) -> list[Test]:
        """Return all conditions on single fields as tests."""
        field_texts = {"subject": self.subject, "relation": self.relation, "object": self.object}
        tests: list[Test] = [
            IsOneOf(name=name, texts=(text,))
            for name, text in field_texts.items()
            if text is not None
        ]
        tests += [IsOneOf(name="label", texts=(tag,)) for tag in self.tags]
        if self.since is not None:
            tests.append(Compares(name="updated", operator=">=", number=self.since))
        if self.until is not None:
            tests.append(Compares(name="updated", operator="<", number=self.until))
        return [*tests, *self.tests]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The order of results. `written`: oldest first. `updated`: last updated first.

    The others sort by a number of the field index, missing values last, or by address; ties always by address.
    """

    by: Literal["written", "updated", "address", "at", "confidence", "importance"] = "written"
    descending: bool = False


WRITTEN = Order()
UPDATED = Order(by="updated", descending=True)

# The end of a page in the orders `written` and `updated`: the sort key and the version_id.
PageCursor = tuple[int, int]


class Selected(NamedTuple):
    """A selected version, with its keyword score if keywords were searched."""

    version_id: int
    # Set for versions selected by fields.
    address: str = ""
    lexical: float = 0.0
    # The sort key, for orders with a cursor.
    at: int = 0

    @property
    def cursor(self) -> PageCursor:
        return self.at, self.version_id


class SelectionPage(NamedTuple):
    """A page of selected versions, the total number if known, and True if it is the last page."""

    hits: list[Selected]
    total: int | None
    is_last: bool


class KeywordQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query of the keyword retriever. Rare words weigh more."""

    text: str
    # Instant and time zone of the query, for "yesterday" and "last May"; by default now, in the zone of this machine.
    asked_at: Instant | None = None
    zone: str | None = None
    # Returns the text of a version for phrase matching; None turns phrase matching off.
    load_text: Callable[[Version], str] | None = None
    # Ranking weights that differ from the defaults, as (name, weight).
    weights: tuple[tuple[str, float], ...] = ()
    # True to return the parts of each score.
    is_explained: bool = False


class VectorQuery(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A query of the vector retriever: an embedding and the model that made it."""

    model: str
    vector: NDArray[np.float32]
    # The embedding of an average query, to correct for texts that are close to every query.
    typical: NDArray[np.float32] | None = None
    # The query for a second model, which is used for texts without close neighbours.
    second: VectorQuery | None = None
    # The relevance threshold: less similar versions are no results.
    floor: float = 0.0
    # If the best similarity is below this, and keywords add too little, there is no result at all; 0 if unknown.
    line: float = 0.0
    # Trust in the embedding model for texts in each language, from 0 to 1, by language number; empty: 1 for all.
    trust: tuple[float, ...] = ()
    # Trust in the embedding model for the language of the query, from 0 to 1.
    question_trust: float = 1.0
    # True if it is known how similar the answers are that the model finds.
    is_calibrated: bool = False
    # Returns the query for a changed text, for example without a typing error; None if the model cannot be asked again.
    embed: Callable[[str], VectorQuery] | None = None
    # Returns True for a word of the model's vocabulary; None if the vocabulary is unknown.
    is_word: Callable[[str], bool] | None = None


# The queries of the retrievers, whose scores are fused in `Snapshot.match`.
RetrieverQuery: TypeAlias = KeywordQuery | VectorQuery


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a score: its value, and the rank of the version by this part alone."""

    part: float
    rank: int


class Matches(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a search, best first, their total number, and the word weights.

    `total` is None if it was not counted. `relevance`, `nearness` and `reasons` have entries for the hits only.
    """

    hits: tuple[Selected, ...]
    # None if not counted; then there are more than these.
    total: int | None
    # Weights of the query words, by all spellings of a word.
    weights: Mapping[tuple[str, ...], float] = msgspec.field(default_factory=dict)
    mean_terms: float = 1.0
    # Share of the query that the best result covers, from 0 to 1; unlike scores, comparable between searches.
    coverage: float = 0.0
    # Similarity of the results to the query by embedding, if known.
    nearness: Mapping[int, float] = msgspec.field(default_factory=dict)
    # Similarity of the query to each passage of the long texts among the results.
    passages: Mapping[int, Sequence[float]] = msgspec.field(default_factory=dict)
    # The estimated probability of each result that it answers the query (`retrieval.relevance`).
    relevance: Mapping[int, float] = msgspec.field(default_factory=dict)
    # The parts of the scores, if requested.
    reasons: Mapping[int, Mapping[str, Reason]] = msgspec.field(default_factory=dict)
