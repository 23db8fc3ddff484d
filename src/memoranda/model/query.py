"""What can be asked of the store, without any standard's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memoranda.model.instant import Instant
from memoranda.model.memory import Kind, Status, Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which versions may come back at all. Every set field must match exactly.

    `at` is a point in valid time: what was true then. `known_at` is a point in transaction time: what the
    store knew then. Both together answer "what did we believe at known_at about at".
    """

    at: Instant
    known_at: Instant | None = None
    space: str | None = None
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    visibilities: tuple[Visibility, ...] | None = None
    kinds: tuple[Kind, ...] | None = None
    statuses: tuple[Status, ...] = ("active", "candidate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """A structural question: every part that is given must be equal. Also how plain lists are asked for."""

    subject: str | None = None
    relation: str | None = None
    object: str | None = None
    space: str | None = None
    user: str | None = None
    session: str | None = None
    # Only what nothing has superseded and nobody has forgotten.
    current: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A version found by search, with what ranking needs to know about the match."""

    version_id: int
    lexical: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """What a search found, and the weights it went by: rarer words of the tenant weigh more."""

    hits: tuple[Hit, ...]
    weights: Mapping[str, float]
    mean_terms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What there is now in a space, last updated first: a page, from where the one before it ended."""

    space: str
    visibilities: tuple[Visibility, ...] | None = None
    # All of these, in lower case.
    tags: tuple[str, ...] = ()
    since: Instant | None = None
    # The place of the last one seen: when it was updated, and its version_id.
    before: tuple[Instant, int] | None = None
