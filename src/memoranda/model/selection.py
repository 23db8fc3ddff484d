"""What can be asked of the store, without any standard's words: one selection, one order, one answer.

A selection says which versions may come back at all; every part of it must hold, and all of it holds before anything is
cut to a page or to the best. Legs say how well a version answers: by its words, and by what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from memoranda.model.instant import Instant
from memoranda.model.memory import Kind, Status, Version, Visibility
from memoranda.model.standard import Standard

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# How far a selection reaches, from the present to everything on record; the expired only in the last two:
# live         neither superseded nor retracted, forgotten, replaced by a fuller document or erased
# current      the same, with what was retracted
# unforgotten  also what was superseded
# recorded     also what was forgotten
# unerased     also what was replaced by a fuller document
# all          what was not replaced, with the tombstones of what was erased
Standing = Literal["live", "current", "unforgotten", "recorded", "unerased", "all"]


class IsOneOf(msgspec.Struct, frozen=True, kw_only=True):
    """The field has one of these texts."""

    name: str
    texts: tuple[str, ...]
    # A version without the field is taken to have one of them.
    or_missing: bool = False


class IsNoneOf(msgspec.Struct, frozen=True, kw_only=True):
    """The field has a text, and it is none of these."""

    name: str
    texts: tuple[str, ...]
    # Also a version without the field.
    or_missing: bool = False


class Compares(msgspec.Struct, frozen=True, kw_only=True):
    """The field is a number that compares so."""

    name: str
    operator: Literal["=", "!=", ">=", "<=", ">", "<"]
    number: float


class Lacks(msgspec.Struct, frozen=True, kw_only=True):
    """The version has no confidence, or no importance."""

    name: Literal["confidence", "importance"]


# Under which key the store has a group: a fingerprint, or a word of ours.
GroupKey: TypeAlias = bytes | str | None


class InGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The version is in a group that the store has counted."""

    name: str
    key: GroupKey


class Group(msgspec.Struct, frozen=True):
    """How many versions say the same, and one of them."""

    key: GroupKey
    count: int
    version_id: int


class IsAmong(msgspec.Struct, frozen=True, kw_only=True):
    """The version is one of these, or its verification is this."""

    version_ids: tuple[int, ...]
    or_verification: str | None = None
    negated: bool = False


class WasThere(msgspec.Struct, frozen=True, kw_only=True):
    """The version was there when a run began, which saw none after `version_seq`, or the run wrote it itself."""

    run_id: str
    version_seq: int


Test: TypeAlias = IsOneOf | IsNoneOf | Compares | Lacks | InGroup | IsAmong | WasThere


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which versions may come back. Every part that is set must hold.

    `at` is a point in valid time: what was true then, superseded since or not; it takes the place of `standing`.
    `known_at` is a point in transaction time: what the store knew then. Both together answer "what did we believe at
    `known_at` about `at`".
    """

    standing: Standing = "live"
    at: Instant | None = None
    # With a standing: only what is true now; its valid time has begun and not ended.
    in_force: bool = False
    known_at: Instant | None = None
    statuses: tuple[Status, ...] | None = None
    kinds: tuple[Kind, ...] | None = None
    visibilities: tuple[Visibility, ...] | None = None
    space: str | None = None
    # Besides those of the space, those of none.
    or_no_space: bool = False
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    # Written in these words.
    standard: Standard | None = None
    # All of these, in lower case.
    tags: tuple[str, ...] = ()
    # When its memory was last written: not before, and before.
    since: Instant | None = None
    until: Instant | None = None
    # Only what may leave the store.
    exportable: bool = False
    # Only what others are shown less of, or only what they are shown whole.
    redacted: bool | None = None
    # What a version says, which is known of those that have a field index.
    subject: str | None = None
    relation: str | None = None
    object: str | None = None
    form: str | None = None
    has_fields: bool = False
    tests: Sequence[Test] = ()
    # The caller sees a part of the tenant: then how much a word weighs is learned from what passes, and nothing else.
    sees_all: bool = True

    def questions(self) -> list[Test]:
        """Everything that is asked of single fields, as tests."""
        said = {"subject": self.subject, "relation": self.relation, "object": self.object}
        found: list[Test] = [
            IsOneOf(name=name, texts=(text,)) for name, text in said.items() if text is not None
        ]
        found += [IsOneOf(name="label", texts=(tag,)) for tag in self.tags]
        if self.since is not None:
            found.append(Compares(name="updated", operator=">=", number=self.since))
        if self.until is not None:
            found.append(Compares(name="updated", operator="<", number=self.until))
        return [*found, *self.tests]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """`written`: oldest first. `updated`: last updated first.

    The others are by a number of the field index, missing ones last, or by address; equal ones always by address.
    """

    by: Literal["written", "updated", "address", "at", "confidence", "importance"] = "written"
    descending: bool = False


WRITTEN = Order()
UPDATED = Order(by="updated", descending=True)

# Where a page ended, for the orders `written` and `updated`: what it is ordered by, and the version_id.
Place = tuple[int, int]


class Selected(NamedTuple):
    """A version that was selected; with how well its words match, if words were asked for."""

    version_id: int
    # Of what was selected by its fields.
    address: str = ""
    lexical: float = 0.0
    # What it is ordered by, where that is a place to go on from.
    at: int = 0

    @property
    def place(self) -> Place:
        return self.at, self.version_id


class Page(NamedTuple):
    """Some of what is selected, how many there are in all if that was seen, and whether these are the last."""

    found: list[Selected]
    total: int | None
    is_last: bool


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """A leg of a search: by the words of a text. The rarer a word is, the more it weighs."""

    text: str
    # When and where it is asked, for "yesterday" and "last May": by default now, in the time zone of this machine.
    asked_at: Instant | None = None
    zone: str | None = None
    # The text of a version, to look for phrases in; without it there are none.
    reads: Callable[[Version], str] | None = None
    # Weights of ranking that are to be others than usual, by their names.
    weights: tuple[tuple[str, float], ...] = ()
    # Whether it is to be said what each score is made of.
    is_explained: bool = False


class Meaning(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A leg of a search: by what a text means, as a model tells."""

    model: str
    vector: NDArray[np.float32]
    # What a question is like that asks for nothing in particular; some texts are near to any.
    typical: NDArray[np.float32] | None = None
    # The same of another model, whose opinion counts where a text stands alone.
    second: Meaning | None = None
    # What is further away than this is no answer.
    floor: float = 0.0
    # Where the nearest is further away than this, and its words add too little, there is none; 0: that is not known.
    line: float = 0.0


# Ways to find what answers a question, fused in `Snapshot.match`.
Leg: TypeAlias = Words | Meaning


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a score: how much of it, and at which place among all that part puts what was found."""

    part: float
    rank: int


class Matches(msgspec.Struct, frozen=True, kw_only=True):
    """The best of a search, best first, how many there are in all, and the weights it went by."""

    found: tuple[Selected, ...]
    # None: not counted, but more than these.
    total: int | None
    # Of each word of the question, by all that it may be spelt like.
    weights: Mapping[tuple[str, ...], float] = msgspec.field(default_factory=dict)
    mean_terms: float = 1.0
    # How much of the question the best one covers, from 0 to 1: comparable between searches, as no score is.
    covered: float = 0.0
    # How near those that were found are to what the question means, where something tells.
    nearness: Mapping[int, float] = msgspec.field(default_factory=dict)
    # What their scores are made of, if that was asked for.
    reasons: Mapping[int, Mapping[str, Reason]] = msgspec.field(default_factory=dict)
