"""The neutral values every standard maps to and the store keeps.

A memory has one identity through all its versions. A version is an immutable native document. State is what
the store knows about a version and may change. A projection is the standard-free reading of a document.

Most are structs of msgspec: every write and every answer makes dozens, and they are made, and changed, in native code.
They are copied with a change by `msgspec.structs.replace`, and hold nothing that could hold them: the collector of
garbage need not look at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec

from memoranda.model.instant import Instant

Kind = Literal["semantic", "episodic", "procedural", "working", "identity"]
Visibility = Literal["private", "shared", "public"]
Status = Literal["active", "candidate", "tombstoned"]
# Why one memory names another: it was made from it, rests on it (a consent), or withdraws it (a consent, too).
Link = Literal["source", "basis", "withdraws"]

# The relation of a memory to what it was made from, in every standard.
DERIVED_FROM = "derived_from"

KINDS: tuple[Kind, ...] = ("semantic", "episodic", "procedural", "working", "identity")
VISIBILITIES: tuple[Visibility, ...] = ("private", "shared", "public")


class Scope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Whose memory it is and where it applies. An empty string means that the dimension is not set."""

    tenant: str
    space: str = ""
    user: str = ""
    agent: str = ""
    session: str = ""
    visibility: Visibility = "private"


class Relation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A typed link to another memory or to an entity."""

    type: str
    target: str


class Bounds(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a version is bound to by those before it (see `bounds`); of what is empty there is none."""

    user: str = ""
    agent: str = ""
    session: str = ""
    # Seen by no more than this.
    visibility: Visibility = "public"
    exportable: bool = True
    # What others are not shown, in the words of UMP.
    redact: tuple[str, ...] = ()
    expires: Instant | None = None
    # Marks of personal data and of a domain, and what else the rules of a domain or a preset look at.
    tags: tuple[str, ...] = ()
    said: Mapping[str, str | bool] = msgspec.field(default_factory=dict)
    # Who wrote it, where its document names another author and nothing proves that; no later version inherits it.
    writer: str = ""


class Projection(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document read without its standard: what is searched, filtered, ranked and shown through others."""

    kind: Kind
    text: str
    # The language of the text, as a tag such as "de"; empty where the document does not say.
    language: str = ""
    scope: Scope
    created: Instant
    observed: Instant
    valid_from: Instant
    valid_to: Instant | None = None
    expires: Instant | None = None
    status: Status = "active"
    confidence: float | None = None
    salience: float | None = None
    evidence_count: int = 0
    exportable: bool = True
    # Others are shown less of it than its owner is.
    redacted: bool = False
    tags: tuple[str, ...] = ()
    relations: tuple[Relation, ...] = ()
    source: str = ""
    actor: str = ""
    # The person or thing that it is about; empty where the document names none.
    subject: str = ""
    # Two open versions of one tenant with equal sameness say the same thing; empty means "never a duplicate".
    sameness: str = ""

    @property
    def is_lasting(self) -> bool:
        """Whether it is true from when it was observed on, and nothing says until when."""
        return self.expires is None and self.valid_to is None and self.valid_from <= self.observed

    # The consent that it rests on, and the consent that it withdraws, by name; empty: none.
    basis: str = ""
    withdraws: str = ""
    # What earlier versions bind it to, beyond what its document says.
    bounds: Bounds | None = None
    # Whether its document, or one that it carries, may have a policy that protects the versions after it.
    may_protect: bool = False


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A native document, exactly as accepted, under the name its standard gives it."""

    standard: str
    media_type: str
    name: str
    native: bytes

    def __repr__(self) -> str:
        return f"Document({self.standard} {self.name}, {len(self.native)} bytes)"


class State(NamedTuple):
    """What the store knows about a version. Everything here may change; the document never does.

    A named tuple, because every recall makes dozens of them, and of a class each field is set by itself.
    """

    status: Status
    valid_from: Instant
    valid_to: Instant | None
    declared_valid_to: Instant | None
    observed: Instant
    # When its memory was last written; every version of a memory has a later one.
    updated: Instant
    recorded: Instant
    space: str = ""
    closed: Instant | None = None
    retired: Instant | None = None
    tombstoned: Instant | None = None
    expires: Instant | None = None
    erased: bool = False
    superseded_by: str = ""
    # The same successor under the names it has in each standard.
    successor_names: Mapping[str, str] = MappingProxyType({})
    # A legal hold: nothing may be erased.
    held: bool = False
    # Someone is to look at how this came to be superseded.
    needs_review: bool = False
    verification: str = "unverified"
    followed: int = 0
    overridden: int = 0
    ignored: int = 0
    contradicted: int = 0

    @property
    def is_head(self) -> bool:
        """Nothing has replaced this version."""
        return not self.superseded_by and self.retired is None

    @property
    def is_forgotten(self) -> bool:
        """It was tombstoned or erased: its name may be taken again by what says it anew."""
        return self.erased or self.tombstoned is not None


def has_ended(state: State, now: Instant) -> bool:
    """Return True if a version was erased, or its retention period is over: nobody may read its content."""
    return state.erased or (state.expires is not None and state.expires <= now)


def is_over(state: State, now: Instant) -> bool:
    """Return True if a version was forgotten or erased, or its retention period is over: it is not shown any more."""
    return has_ended(state, now) or state.tombstoned is not None or state.status == "tombstoned"


def is_true_at(state: State, moment: Instant) -> bool:
    """Return True if a moment is in the time in which a version says that it is true, superseded since or not."""
    ends = state.declared_valid_to
    return state.valid_from <= moment and (ends is None or moment < ends)


class Opened:
    """A document in the clear, which never changes, and what was read in it."""

    __slots__ = ("decoded", "grain", "is_sealed", "name", "native", "standard", "stored", "words")

    def __init__(self, standard: str, name: str, native: bytes, *, is_sealed: bool) -> None:
        self.standard, self.name, self.native, self.is_sealed = standard, name, native, is_sealed
        # What the store has of it: as long as that is the same, it need not be opened again.
        self.stored: tuple[Any, ...] | None = None
        # What whoever asked first made of it: nothing that depends on who asked.
        self.decoded: Any = None
        # The grain that it is shown as, and the bytes in which that travels.
        self.grain: Any = None
        # A text that was shown of it, and the search words of that.
        self.words: tuple[str, list[str]] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opened) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash(self._said())

    def _said(self) -> tuple[str, str, bytes, bool]:
        return self.standard, self.name, self.native, self.is_sealed


class Version(msgspec.Struct, frozen=True, kw_only=True, gc=False, eq=False):
    """One stored version: its document and its state. Ids are internal and never leave the store."""

    tenant: str
    memory_id: int
    version_id: int
    document: Document
    state: State
    # Why this version exists when the document alone does not say it: for a merge, the draft that was merged.
    cause: bytes | None = None
    # What earlier versions bind it to, beyond what its document says.
    bounds: Bounds | None = None
    # The store vouches that the document is, byte for byte, what it accepted.
    is_sealed: bool = False
    # What was made of the document before, where this process keeps it.
    opened: Opened | None = None

    def __eq__(self, other: object) -> bool:
        """Whether both are the same as stored; what a process made of it besides does not count."""
        return isinstance(other, Version) and all(
            getattr(self, name) == getattr(other, name) for name in _STORED
        )

    def __ne__(self, other: object) -> bool:
        # A struct has one of its own, which would ask whether they are one object.
        return not self == other

    def __hash__(self) -> int:
        return hash((self.tenant, self.version_id))

    def __repr__(self) -> str:
        return f"Version({self.memory_id}.{self.version_id}, {self.document!r}, {self.state!r})"


_STORED = tuple(name for name in Version.__struct_fields__ if name != "opened")
