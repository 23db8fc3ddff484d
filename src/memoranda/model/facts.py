"""What a version can be asked for field by field, and such questions; without any standard's words.

The field index of a version is read from the one form in which every memory can be shown. It is written with the
version, or, for memories of other standards, when somebody first asks. Texts are compared for equality alone, numbers
also by order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from memoranda.model.instant import Instant
from memoranda.model.memory import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldIndex:
    """What one version says, field by field. A version that cannot be asked for has no form."""

    address: str = ""
    form: str = ""
    at: Instant
    confidence: float | None = None
    importance: float | None = None
    subject: str = ""
    relation: str = ""
    object: str = ""
    # Further fields by name; a name may stand several times.
    texts: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IsOneOf:
    """The field has one of these texts."""

    name: str
    texts: tuple[str, ...]
    # A version without the field is taken to have one of them.
    or_missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNoneOf:
    """The field has a text, and it is none of these."""

    name: str
    texts: tuple[str, ...]
    # Also a version without the field.
    or_missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compares:
    """The field is a number that compares so."""

    name: str
    operator: Literal["=", "!=", ">=", "<=", ">", "<"]
    number: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IsAmong:
    """The version is one of these, or its verification is this."""

    version_ids: tuple[int, ...]
    or_verification: str | None = None
    negated: bool = False


Test: TypeAlias = IsOneOf | IsNoneOf | Compares | IsAmong


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """By a number of the field index, missing ones last, or by address; equal ones always by address."""

    by: Literal["address", "at", "confidence", "importance"] = "address"
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """All tests must pass. Forgotten, erased and expired versions never do."""

    space: str | None = None
    form: str | None = None
    tests: Sequence[Test] = ()
    # Without what was superseded or retracted.
    current: bool = True
    visibilities: tuple[Visibility, ...] | None = None
    # Only what has a field index. Without one, tests on labels (tags in lower case) and on the last update still work.
    field_indexes: bool = True


class Selected(NamedTuple):
    """A version that was selected; with how well its words match, if words were asked for."""

    version_id: int
    address: str
    lexical: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WordMatches:
    """The best of a search, best first, and how many there are in all; None: not counted, but more than these."""

    found: tuple[Selected, ...]
    total: int | None


class Kept(NamedTuple):
    """A document with the little of its state that a query shows: what there is to a version when many are read."""

    version_id: int
    standard: str
    name: str
    native: bytes
    is_sealed: bool
    address: str
    verification: str
    is_superseded: bool
    closed: Instant | None
