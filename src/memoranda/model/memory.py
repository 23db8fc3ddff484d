"""The values to which every standard maps its documents, and which the store keeps.

A memory has one identity through all its versions. A version is an immutable native document. Its state is kept by the
store, and may change. A projection is the reading of a document independent of its standard.

Entries of the change feed and of the audit log are here, too, and the field index of a version.

Most are msgspec structs, which are created and copied (`msgspec.structs.replace`) in native code, because each request
creates dozens. With `gc=False` the garbage collector ignores them, so they must not refer to each other in cycles.

Two rules hold for everything here: no input or output, and no knowledge of a standard. A new field of `Projection`
changes what is stored, searched and compared, so it needs a place in the mappings of all standards
(`standards/*/mapping.py`), in the store's rows, and in `verify`. Values are immutable; `replace` makes a changed copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import msgspec

from memoranda.encoding.bases import base64_decode, base64_encode
from memoranda.model.instant import Instant

# The names of the standards, as the store keeps them with each document.
UMP: Final = "ump"
OMS: Final = "oms"
OAMS: Final = "oams"
OPENWOP: Final = "openwop"

Standard = Literal["ump", "oms", "oams", "openwop"]
Kind = Literal["semantic", "episodic", "procedural", "working", "identity"]
Visibility = Literal["private", "shared", "public"]
Status = Literal["active", "candidate", "tombstoned"]
ChangeType = Literal["created", "merged", "revised", "tombstoned"]
# Why one memory refers to another: derived from it, based on it (a consent), or withdrawing it (a consent).
LinkReason = Literal["source", "basis", "withdraws"]

# The relation of a memory to its sources, in every standard.
DERIVED_FROM = "derived_from"

KINDS: tuple[Kind, ...] = ("semantic", "episodic", "procedural", "working", "identity")
VISIBILITIES: tuple[Visibility, ...] = ("private", "shared", "public")


class Scope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The owner of a memory, and where it applies. An empty string means that a dimension is not set."""

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
    """The restrictions that a version inherits from earlier ones (see `bounds`). Empty fields restrict nothing."""

    user: str = ""
    agent: str = ""
    session: str = ""
    # The widest visibility allowed.
    visibility: Visibility = "public"
    exportable: bool = True
    # Fields hidden from others, as UMP names them.
    redact: tuple[str, ...] = ()
    expires: Instant | None = None
    # Tags that flag personal data or a domain; and other fields for the rules of a domain or preset.
    tags: tuple[str, ...] = ()
    policy_fields: Mapping[str, str | bool] = msgspec.field(default_factory=dict, name="said")
    # The actual writer, if the document names another author without proof; not inherited by later versions.
    writer: str = ""


class Projection(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The reading of a document independent of its standard, for search, filters, ranking and other standards.

    Standards give it from a document alone; the store adds nothing. `sameness` is equal for documents that state the
    same fact, `text` is never empty, `titles` are further names by which the memory is found.
    """

    kind: Kind
    text: str
    # Names of the memory beside its text, the title first: aliases, tags, the name of its file.
    titles: tuple[str, ...] = ()
    # The language of the text, as a tag such as "de"; empty if the document does not state one.
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
    # True if some fields are hidden from everyone but the owner.
    redacted: bool = False
    tags: tuple[str, ...] = ()
    relations: tuple[Relation, ...] = ()
    source: str = ""
    actor: str = ""
    # The person or thing that the memory is about; empty if the document names none.
    subject: str = ""
    # Equal in duplicates within a tenant; empty for versions that are never duplicates.
    sameness: str = ""

    @property
    def indexed_parts(self) -> tuple[str, str, tuple[str, ...], str]:
        """The parts from which the entry of the word index is made: equal parts give equal entries."""
        return self.text, self.language, self.titles, self.subject

    @property
    def is_lasting(self) -> bool:
        """True if it is valid since it was observed, without an end."""
        return self.expires is None and self.valid_to is None and self.valid_from <= self.observed

    # The names of the consent that it is based on, and of the consent that it withdraws; empty without one.
    basis: str = ""
    withdraws: str = ""
    # Inherited restrictions that its document does not state itself.
    bounds: Bounds | None = None
    # True if its document, or one inside it, may have a policy that protects later versions.
    may_protect: bool = False


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A native document, byte for byte as accepted, with the name in its standard."""

    standard: str
    media_type: str
    name: str
    native: bytes

    def __repr__(self) -> str:
        return f"Document({self.standard} {self.name}, {len(self.native)} bytes)"


class State(NamedTuple):
    """The mutable state of a version in the store.

    A named tuple, because each recall creates dozens, and a class would set each field separately.

    Read fields by name. The order matters only where rows are turned into states in bulk
    (`storage/engine/snapshot.py`).
    """

    status: Status
    valid_from: Instant
    valid_to: Instant | None
    declared_valid_to: Instant | None
    observed: Instant
    # The time of the last write of any version of this memory.
    updated: Instant
    recorded: Instant
    space: str = ""
    closed: Instant | None = None
    retired: Instant | None = None
    tombstoned: Instant | None = None
    expires: Instant | None = None
    erased: bool = False
    superseded_by: str = ""
    # The names of the successor, by standard.
    successor_names: Mapping[str, str] = MappingProxyType({})
    # True under a legal hold, which forbids erasure.
    has_legal_hold: bool = False
    # True if a person should review why this version was superseded.
    needs_review: bool = False
    verification: str = "unverified"
    followed: int = 0
    overridden: int = 0
    ignored: int = 0
    contradicted: int = 0
    # The name of the version before it as a record; empty for the first.
    predecessor: str = ""

    @property
    def is_head(self) -> bool:
        """True if nothing has replaced this version."""
        return not self.superseded_by and self.retired is None

    @property
    def is_forgotten(self) -> bool:
        """True if it was tombstoned or erased, so that a new memory may use its name again."""
        return self.erased or self.tombstoned is not None


def has_ended(state: State, now: Instant) -> bool:
    """Return True if a version was erased or has expired, so that its content must not be read by anyone."""
    return state.erased or (state.expires is not None and state.expires <= now)


def is_over(state: State, now: Instant) -> bool:
    """Return True if a version was forgotten, erased or has expired, and so must not be shown."""
    return has_ended(state, now) or state.tombstoned is not None or state.status == "tombstoned"


def is_true_at(state: State, moment: Instant) -> bool:
    """Return True if an instant is in the validity period of a version, whether or not it was superseded since."""
    ends = state.declared_valid_to
    return state.valid_from <= moment and (ends is None or moment < ends)


class OpenedDocument:
    """A decrypted, immutable document, with a cache of values computed from it.

    Threads share it. What is cached on it must follow from the document alone.
    """

    __slots__ = (
        "decoded",
        "field_words",
        "grain",
        "is_sealed",
        "name",
        "native",
        "searched_text",
        "standard",
        "stored",
        "words",
    )

    def __init__(self, standard: str, name: str, native: bytes, *, is_sealed: bool) -> None:
        self.standard, self.name, self.native, self.is_sealed = standard, name, native, is_sealed
        # The stored row; while it is unchanged, the document need not be decrypted again.
        self.stored: tuple[Any, ...] | None = None
        # The parsed document; it must not depend on the caller.
        self.decoded: Any = None
        # The grain into which it is translated, with its bytes.
        self.grain: Any = None
        # The text and the titles that questions are compared with, and the version of UMP that they were read in.
        self.searched_text: tuple[str, str] | None = None
        # The last text for which search words were computed, and these words. Ranking computes them once per text.
        self.words: tuple[str, list[str]] | None = None
        # The search words of each field of the grain that a query was matched with.
        self.field_words: dict[str, frozenset[str]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpenedDocument) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, str, bytes, bool]:
        return self.standard, self.name, self.native, self.is_sealed


class Version(msgspec.Struct, frozen=True, kw_only=True, gc=False, eq=False):
    """A stored version: its document and its state. Ids are internal and never leave the store.

    `version_id` grows with every write of the store, over all tenants; `memory_id` is the id of the first version.
    Neither may be shown to a client, because both reveal how much others write.
    """

    tenant: str
    memory_id: int
    version_id: int
    document: Document
    state: State
    # The cause of this version, if its document does not state it: for a merge, the merged draft.
    cause: bytes | None = None
    # Inherited restrictions that its document does not state itself.
    bounds: Bounds | None = None
    # True if the store has verified that the document is byte for byte as accepted.
    is_sealed: bool = False
    # The head of its memory if this is an earlier version; its restrictions bind this one, too.
    head_id: int | None = None
    # The cached decrypted document, if this process has it.
    opened: OpenedDocument | None = None

    def __eq__(self, other: object) -> bool:
        """Return True if both are stored equally; the cache `opened` does not count."""
        return isinstance(other, Version) and all(
            getattr(self, name) == getattr(other, name) for name in _STORED
        )

    def __ne__(self, other: object) -> bool:
        # The inherited `__ne__` of a struct compares by identity.
        return not self == other

    def __hash__(self) -> int:
        return hash((self.tenant, self.version_id))

    def __repr__(self) -> str:
        return f"Version({self.memory_id}.{self.version_id}, {self.document!r}, {self.state!r})"


_STORED = tuple(name for name in Version.__struct_fields__ if name != "opened")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a tenant's change feed. `seq` counts per tenant, so that it reveals nothing about others."""

    seq: int
    type: ChangeType
    at: Instant
    version: Version


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One operation for the tenant's audit chain. It never contains content of memories."""

    at: Instant
    op: str
    actor: str = ""
    actor_kind: str = ""
    targets: tuple[str, ...] = ()
    scope: tuple[tuple[str, str], ...] = ()
    result: str = ""
    meta: dict[str, Any] = msgspec.field(default_factory=dict)


class FieldIndex(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of one version, independent of its standard, for structured queries.

    They are computed from the grain of the version (the form into which every document can be translated), and stored
    with it. Texts are compared only for equality, numbers also by order. `form` is empty if the version cannot be
    queried by fields.
    """

    address: str = ""
    form: str = ""
    at: Instant
    confidence: float | None = None
    importance: float | None = None
    subject: str = ""
    relation: str = ""
    object: str = ""
    # Further fields as (name, value); a name may occur several times.
    texts: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, float], ...] = ()


class DocumentReading(NamedTuple):
    """All that is computed from a document when it is written: projection, field index and names."""

    projection: Projection
    field_index: FieldIndex
    # (standard, name)
    names: tuple[tuple[str, str], ...]


class QueriedDocument(NamedTuple):
    """A document with the part of its state that queries need; cheaper than `Version` when many are read."""

    version_id: int
    document: OpenedDocument
    address: str
    verification: str
    is_superseded: bool
    closed: Instant | None


# --- an original document inside a document of another standard ------------------------------------------------

# The reserved key of the original. Unwrapping it restores the document byte for byte (DESIGN, decision 6).
NATIVE_KEY: Final = "memoranda:native"
# In exported records: state of the document for which a record has no field.
STATE_KEY: Final = "memoranda:state"
# Next to it in a view that is shorter than the original: the path of each part that is cut, and the limit it exceeded.
CUT_KEY: Final = "memoranda:cut"
# In a body, or the metadata of a memory: the author named by the writer, without verification.
CLAIMED_KEY: Final = "memoranda:claimed"
_WRAPPED_FIELDS: Final = ("standard", "name", "media_type", "data")


def wrap_document(document: Document) -> dict[str, str]:
    """Return the value to store under NATIVE_KEY.

    The data is base64, so that a document of any standard survives in JSON unchanged.
    """
    return {
        "standard": document.standard,
        "name": document.name,
        "media_type": document.media_type,
        "data": base64_encode(document.native),
    }


def unwrap_document(holder: object) -> Document | None:
    """Return the original that a map contains under NATIVE_KEY, unchecked; None if there is none.

    The author of the outer document chose the result: treat it as hostile until the port of its standard has
    checked it.
    """
    # Most are plain dicts, for which this test is faster than `isinstance` with an abstract class.
    native = holder.get(NATIVE_KEY) if type(holder) is dict or isinstance(holder, Mapping) else None
    if native is None or not isinstance(native, Mapping):
        return None
    if not all(isinstance(native.get(name), str) for name in _WRAPPED_FIELDS):
        return None
    try:
        data = base64_decode(native["data"])
    except ValueError:
        return None
    return Document(
        standard=native["standard"],
        name=native["name"],
        media_type=native["media_type"],
        native=data,
    )
