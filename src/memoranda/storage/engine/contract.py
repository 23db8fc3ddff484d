"""The storage contract: the reads and writes that a store offers to the service.

Theory of operation. An `Engine` opens a `Snapshot` (consistent reads of one tenant) or runs a function with a `Unit`
(the same reads, and writes: one durable transaction). Both are bound to one tenant when they are opened, so no call can
name another tenant. `System` holds the few things that belong to the installation: credentials, grants, and searches
over all tenants.

Words. A *memory* is a list of *versions*, each with one document of one standard; the newest is its head. A version is
*live* if it is not superseded, replaced, forgotten or erased. A *name* is the id of a document in its standard, or of
its view in another. A *space* is the namespace a version belongs to. Items, runs and commitments are documents of the
service that the store does not read; only what they are searched by has a column. Instants are milliseconds since 1970.

The contract knows no standard and no interface. `sql_engine.py` implements it once, over any `Database` (database.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from memoranda.model.instant import Instant
from memoranda.model.memory import (
    AuditEntry,
    Change,
    ChangeType,
    Document,
    DocumentReading,
    FieldIndex,
    LinkReason,
    Projection,
    QueriedDocument,
    Version,
)
from memoranda.model.selection import (
    WRITTEN,
    Matches,
    Order,
    PageCursor,
    RetrieverQuery,
    Selected,
    Selection,
    SelectionPage,
    VersionGroup,
)
from memoranda.retrieval.entry import IndexedText
from memoranda.storage.engine.database import PendingWrite, StoreHealth
from memoranda.storage.index.vector_queue import VectorQueue

T = TypeVar("T")

# Versions, and bytes of documents, that are read at once where many are: this bounds the memory of a long read.
SLICE_VERSIONS: Final = 500
SLICE_BYTES: Final = 2 * 1_048_576

# Items of this kind hold the changes of a unit of work, by the position of the last: the first, the last change of the
# unit that it continues or 0, and the first version that it appended or 0. A unit with one new version has none.
ACTION: Final = "action"
# Number of the latest feed changes whose actions can still be undone; items of older changes are deleted.
ACTIONS_KEPT: Final = 20_000

# Encodes an audit entry as a link of its chain: (entry, seq, previous hash) -> (bytes to store, hash).
Seal = Callable[[AuditEntry, int, str | None], tuple[bytes, str]]

# The position of a run in the list of runs: its start, and its id, because many may start in one millisecond.
RunPosition = tuple[Instant, str]

# The sentence of `find_index_problems` for a word index of an older text analysis, in which nothing is wrong.
OUTDATED_INDEX: Final = "the search index is outdated: a server or `memoranda reindex` rebuilds it"


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the store that a run sees: what was there when it began, and what it wrote itself."""

    run_id: str
    started: Instant
    # The newest entry of the change feed and the newest version when it began.
    change_seq: int
    version_seq: int


class WaitingCommitment(NamedTuple):
    """A commitment that waits for a memory about its event; fresh until the existing memories of its space were checked
    once.
    """

    document: bytes
    space: str
    is_fresh: bool


class VersionIndex(NamedTuple):
    """The index entries of a new version that its caller has prepared, besides those of its projection."""

    # The content field by field.
    fields: FieldIndex | None = None
    # The entries of the word index. A unit of work delays every other writer, so they are best computed before it.
    text: IndexedText | None = None
    # The (standard, name) of the views in other standards.
    view_names: Sequence[tuple[str, str]] = ()


NO_INDEX: Final = VersionIndex()


class Snapshot(Protocol):
    """Consistent reads of one tenant."""

    @property
    def tenant(self) -> str:
        """The tenant that all calls refer to."""
        ...

    @property
    def rules(self) -> bytes:
        """The rules set by the owner, encoded as they were set; empty if none are."""
        ...

    def find_by_name(self, standard: str, name: str) -> Version | None:
        """Return the version that a name of a standard stands for."""
        ...

    def load_versions(self, version_ids: Sequence[int]) -> list[Version]:
        """Return the given versions in the given order, without unknown ids."""
        ...

    def fit_into_bytes(self, version_ids: Sequence[int], max_bytes: int) -> list[int]:
        """Return the first of these versions whose documents together fit into `max_bytes`, at least one. Reads no
        document.
        """
        ...

    def iterate_versions(self, version_ids: Sequence[int]) -> Iterator[Version]:
        """Yield versions by their ids. Reads them in slices, so a caller who stops early has read no more than one
        slice too many.
        """
        ...

    def list_history_ids(self, memory_id: int) -> list[int]:
        """Return the ids of all versions of a memory, oldest first. Reads no document."""
        ...

    def iterate_history(self, memory_id: int, *, newest_first: bool = False) -> Iterator[Version]:
        """Yield all versions of a memory, oldest first, in slices: a caller who keeps none holds few in memory."""
        ...

    def iterate_protecting(self, memory_id: int) -> Iterator[Version]:
        """Yield, oldest first, the versions of a memory that are on hold or may protect later versions."""
        ...

    def load_newest(self, memory_id: int) -> Version:
        """Return the last version of a memory."""
        ...

    def find_duplicate(self, sameness: str, now: Instant) -> Version | None:
        """Return the open version with the same content (`sameness` is its key), or None."""
        ...

    def find_duplicate_or_named(
        self, sameness: str, name: tuple[str, str], now: Instant
    ) -> tuple[Version | None, Version | None]:
        """Return the open version with the same content, and the version that a name stands for, in one query."""
        ...

    def filter_known_facts(self, samenesses: Sequence[str]) -> set[str]:
        """Return those contents (keys of sameness) that an open version may already have."""
        ...

    def load_page(
        self,
        selection: Selection,
        order: Order = WRITTEN,
        *,
        limit: int,
        now: Instant,
        after: PageCursor | None = None,
        offset: int = 0,
    ) -> list[Selected]:
        """Return a page of the selection in an order: after the cursor of an earlier page, or from an offset."""
        ...

    def count(self, selection: Selection, *, now: Instant) -> int:
        """Return the number of versions that a selection has."""
        ...

    def load_counted_page(
        self, selection: Selection, order: Order, *, limit: int, now: Instant, offset: int = 0
    ) -> SelectionPage:
        """Return a page of the selection with the total number of versions."""
        ...

    def count_groups(self, selection: Selection, by: str, *, now: Instant) -> list[VersionGroup]:
        """Return the number of versions for each group, unordered.

        `by` is space, kind, month (of the last update), user, agent, subject, relation, session, form or verification.
        """
        ...

    def warm_index(self) -> None:
        """Read the parts of the word index that every search needs, so that the first search need not wait."""
        ...

    def match(
        self,
        selection: Selection,
        queries: Sequence[RetrieverQuery],
        *,
        limit: int,
        now: Instant,
        count_all: bool = False,
        count_if_cheap: bool = True,
    ) -> Matches:
        """Return the best versions of a selection for these queries, best first.

        `count_all`: count all matches exactly. `count_if_cheap` False: do not count them even where that costs nothing.
        """
        ...

    def load_documents(self, version_ids: Sequence[int]) -> list[QueriedDocument]:
        """Return the documents of these versions in the given order, without unknown and erased ones."""
        ...

    def has_space(self, space: str) -> bool:
        """Return True if anything was ever written to this space."""
        ...

    def list_spaces(self) -> list[str]:
        """Return the spaces to which anything was ever written."""
        ...

    def count_by_space_and_kind(self, *, now: Instant) -> dict[tuple[str, str], int]:
        """Return the number of versions true now, by space and kind: those that `Selection(at=now)` selects."""
        ...

    def measure_usage(self) -> tuple[int, int]:
        """Return the number of live versions, and the bytes of all documents, items, runs and logs."""
        ...

    def filter_known_names(self, names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return those of these (standard, name) that stand for a version."""
        ...

    def find_names_by_prefix(self, standard: str, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Return the names of a standard that begin with a prefix, with their version ids."""
        ...

    def load_run(self, run_id: str) -> bytes | None:
        """Return the document of a run, or None."""
        ...

    def list_runs(self, *, before: RunPosition | None, limit: int) -> list[bytes]:
        """Return the documents of runs, the last started first, from behind a position in this order."""
        ...

    def list_run_events(self, run_id: str, *, after: int, limit: int) -> list[bytes]:
        """Return the events of a run with a sequence above `after`, in order; -1 for all."""
        ...

    def list_runs_after(
        self, after: RunPosition, *, before: Instant, limit: int
    ) -> list[RunPosition]:
        """Return the positions of runs that began before an instant, first started first, from behind a position."""
        ...

    def list_run_events_after(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return the events of all runs after a position in their common order, each with its position."""
        ...

    def find_last_run_event(self) -> int:
        """Return the position of the last event of all runs, or 0."""
        ...

    def count_run_events(self, run_id: str) -> int:
        """Return the number of events of a run, which is the sequence of the next."""
        ...

    def list_run_writes(self, run_id: str) -> frozenset[int]:
        """Return the ids of the versions that a run wrote itself."""
        ...

    def has_lost_writes(self, run_id: str) -> bool:
        """Return True if a version that a run wrote was erased since."""
        ...

    def list_ended_since(self, view: RunView, space: str) -> list[tuple[int, Instant]]:
        """Return (version id, last update) of what a run sees but has ended since it began, newest first."""
        ...

    def load_items(self, kind: str) -> dict[str, bytes]:
        """Return all items of a kind by their names."""
        ...

    def list_items(self, *, offset: int, limit: int) -> list[tuple[str, str, bytes]]:
        """Return items of all kinds: kind, name, and value, in this order."""
        ...

    def load_item(self, kind: str, name: str) -> bytes | None:
        """Return the item of a kind with this name, or None."""
        ...

    def list_changed_memories(self, after: int) -> frozenset[int]:
        """Return the ids of memories that the change feed names after a position. Reads no document."""
        ...

    def list_changed_in_space(self, space: str, after: int) -> list[int]:
        """Return the ids of versions in a space that the change feed names after a position."""
        ...

    def load_commitment(self, commitment_id: str) -> bytes | None:
        """Return the document of a commitment, or None."""
        ...

    def list_commitments(self, space: str | None = None) -> list[bytes]:
        """Return the documents of the commitments of a space, or of all."""
        ...

    def list_due_commitments(self, now: Instant, limit: int) -> list[bytes]:
        """Return the documents of commitments whose instant has come, the first due first."""
        ...

    def list_waiting_commitments(
        self, now: Instant, *, fresh_only: bool
    ) -> list[WaitingCommitment]:
        """Return the commitments that wait for a memory and are not postponed."""
        ...

    def has_closed_commitments(self, before: Instant) -> bool:
        """Return True if any commitment was closed before an instant."""
        ...

    def list_linked(self, link: LinkReason, name: str, *, after: int, limit: int) -> list[Version]:
        """Return versions that name something as their source, as the consent they rest on, or as the consent they
        withdraw. Leaves out erased ones.
        """
        ...

    def find_version_ids(self, standard: str, names: Sequence[str]) -> dict[str, int]:
        """Return the version ids that these names stand for, without unknown names."""
        ...

    def count_live(self, version_ids: Sequence[int]) -> int:
        """Return the number of these versions that are live."""
        ...

    def count_deletable(self, version_ids: Sequence[int]) -> int:
        """Return the number of these versions that are live and not on hold."""
        ...

    def load_names(self, version_id: int) -> dict[str, str]:
        """Return the names of one version, by standard."""
        ...

    def list_earlier_names(self, version: Version, limit: int) -> list[tuple[str, str]]:
        """Return (standard, name) of the earlier versions of the same memory, latest first, as records and grains."""
        ...

    def list_changes(self, after: int, limit: int, max_bytes: int | None = None) -> list[Change]:
        """Return entries of the change feed with seq > after, oldest first: at most `max_bytes` of documents, but at
        least one.
        """
        ...

    def find_last_change(self) -> int:
        """Return the seq of the newest entry of the change feed, or 0."""
        ...

    def rewind(self, versions: Sequence[Version], as_of: int) -> list[Version]:
        """Return versions in the state that they had when a version was the last one: what later versions superseded or
        replaced is open.
        """
        ...

    def find_last_version(self) -> int:
        """Return the id of the version that was written last, or 0."""
        ...

    def list_audit_after(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return (seq, entry) of audit entries with seq > after, oldest first."""
        ...

    def list_audit_before(self, before: int | None, limit: int) -> list[tuple[int, bytes]]:
        """Return (seq, entry) of audit entries with seq < before, newest first."""
        ...

    def read_audit_head(self) -> tuple[int, str | None]:
        """Return the number of audit entries, and the hash of the last."""
        ...


class Unit(Snapshot, Protocol):
    """One unit of work: reads, and writes that happen together or not at all."""

    def append(
        self,
        document: Document,
        projection: Projection,
        *,
        now: Instant,
        follows: Version | None = None,
        cause: bytes | None = None,
        index: VersionIndex = NO_INDEX,
        follow_head: bool = False,
    ) -> Version:
        """Write a version: the first of a new memory, or the next of the memory that `follows` belongs to.

        `follow_head` makes its own name stand for the head of the memory, now and later.
        """
        ...

    def add_view_name(self, version: Version, standard: str, name: str) -> None:
        """Let a name stand for the view of a version, unless it stands for something that is still there."""
        ...

    def consume_rate(
        self, name: str, *, now: Instant, window_ms: int, limit: int, count: int = 1
    ) -> bool:
        """Record uses of a name if the window that ends now has room for them. Return False, and record nothing, if it
        has not.
        """
        ...

    def find_rate_reset(self, name: str, *, now: Instant, window_ms: int, limit: int) -> Instant:
        """Return the instant at which the window of a name has room for one more use."""
        ...

    def put_run(self, run_id: str, document: bytes, *, started: Instant) -> None:
        """Write the document of a run, new or changed."""
        ...

    def add_run_events(self, run_id: str, first: int, events: Sequence[bytes]) -> None:
        """Append events to the log of a run; `first` is the sequence of the first of them."""
        ...

    def delete_runs(self, run_ids: Collection[str]) -> None:
        """Delete runs with their logs, but not the run of the last event of all: positions are counted from it."""
        ...

    def add_run_write(self, run_id: str, version_id: int) -> None:
        """Record that a run wrote a version itself."""
        ...

    def copy_run_writes(self, run_id: str, to_run: str) -> None:
        """Let another run see what a run wrote itself."""
        ...

    def put_commitment(
        self,
        commitment_id: str,
        document: bytes,
        *,
        space: str,
        due: Instant | None,
        is_waiting: bool,
        is_fresh: bool,
        over: Instant | None,
    ) -> None:
        """Write the document of a commitment, new or changed; `over` is the instant at which it was closed."""
        ...

    def mark_commitments_checked(self, commitments: Sequence[tuple[str, bytes]]) -> None:
        """Mark commitments as checked: pairs of id and document. A commitment with another document stays unchecked."""
        ...

    def prune_commitments(self, before: Instant, limit: int) -> None:
        """Delete commitments that were closed before an instant, at most `limit`."""
        ...

    def delete_item(self, kind: str, name: str) -> None:
        """Delete an item."""
        ...

    def put_item(self, kind: str, name: str, value: bytes) -> None:
        """Write an item: a small document of the service, outside of the memories."""
        ...

    def claim_once(self, name: str, *, now: Instant) -> bool:
        """Return True if this is the first time that the name is claimed."""
        ...

    def close_version(
        self, version: Version, *, successor: Version | None, valid_to: Instant | None, now: Instant
    ) -> None:
        """Mark a version as superseded; the successor is None if it is not in this store. It stays true for the time
        before.
        """
        ...

    def supersede(self, pairs: Sequence[tuple[int, int]], *, now: Instant) -> None:
        """Close many versions and announce each: (version id, version id of its successor)."""
        ...

    def reopen_superseded(self, pairs: Sequence[tuple[int, int]], *, now: Instant) -> int:
        """Undo `supersede` where the successor is still the given one; return the number of reopened versions."""
        ...

    def retire(self, version: Version, *, now: Instant) -> None:
        """Mark a document as replaced by a fuller document of the same fact."""
        ...

    def tombstone(self, version: Version, *, valid_to: Instant | None, now: Instant) -> None:
        """Forget a version softly: no recall returns it, and it is kept for the record."""
        ...

    def erase(self, version: Version, *, tombstone: bytes, now: Instant) -> None:
        """Destroy a version: its content, index entries and subject; the tombstone remains. Call `Engine.scrub`
        afterwards.
        """
        ...

    def restore(self, version: Version, *, status: str, follow_head: bool) -> None:
        """Remove the tombstone of a version: it has its status, validity and name again. `follow_head`: as for
        `append`.
        """
        ...

    def continue_action(self, last: int) -> None:
        """Let this unit belong to the action of an earlier one, whose last change is given."""
        ...

    def first_appended(self) -> int:
        """Return the number of the first version that this unit appended, or 0."""
        ...

    def set_hold(self, version: Version, *, on_hold: bool) -> None:
        """Put a version on legal hold, or lift the hold."""
        ...

    def flag_for_review(self, version: Version, *, needs_review: bool) -> None:
        """Set or clear the flag that someone should review how a version was superseded."""
        ...

    def set_verification(self, version: Version, verification: str, *, now: Instant) -> None:
        """Set the verification of a version: unverified, verified, contested or retracted."""
        ...

    def add_feedback(self, version: Version, outcome: str, session: str, *, now: Instant) -> None:
        """Record the outcome of a memory that was used in a session."""
        ...

    def set_rules(self, rules: bytes) -> None:
        """Write the rules set by the owner."""
        ...

    def announce(self, type: ChangeType, version: Version, *, now: Instant) -> None:  # noqa: A002
        """Append an entry to the change feed."""
        ...

    def record_audit(self, entry: AuditEntry) -> None:
        """Append an entry to the audit chain."""
        ...

    def prune_audit(self, last: int) -> None:
        """Delete the first entries of the audit chain, up to a seq; later entries keep their numbers."""
        ...


class Engine(StoreHealth, Protocol):
    """A durable store of many tenants."""

    @property
    def system(self) -> System:
        """The things that belong to the installation, not to a tenant."""
        ...

    @property
    def vectors(self) -> VectorQueue:
        """The embeddings of versions, and the work that is left to make them."""
        ...

    def open_snapshot(self, tenant: str) -> AbstractContextManager[Snapshot]:
        """Open a consistent snapshot of a tenant."""
        ...

    def write(self, tenant: str, work: Callable[[Unit], T]) -> T:
        """Run `work` as one durable unit and return its result. An exception undoes the unit and is raised here."""
        ...

    def start_write(self, tenant: str, work: Callable[[Unit], T]) -> PendingWrite[T]:
        """Begin a write as `write` does, without waiting for it: the caller waits for the returned handle later."""
        ...

    def record_audit_later(self, tenant: str, entry: AuditEntry) -> None:
        """Audit a read without making it wait for the disk."""
        ...

    def index_text(self, tenant: str, projection: Projection) -> IndexedText:
        """Compute the index entries of a version's text, before the unit of work that appends it."""
        ...

    def fingerprint(self, tenant: str, text: str) -> str:
        """Return a keyed fingerprint, which stands for a text that must not be stored."""
        ...

    def destroy_user_key(self, tenant: str, user: str) -> bool:
        """Make every encrypted document of a user unreadable in every copy of the database (crypto-erasure). Return
        True if there was a key.
        """
        ...

    def delete_tenant(self, tenant: str) -> bool:
        """Delete a tenant with its rows, credentials and data keys; return False if there is no such tenant.

        Call `scrub` afterwards. Nobody can reach the tenant from the beginning, even if the deletion is interrupted.
        """
        ...

    def finish_deletions(self) -> None:
        """Continue the deletions of tenants that were interrupted."""
        ...

    def rotate_master_key(self) -> int:
        """Wrap all data keys under a new master key; return the number of keys."""
        ...

    def reload_keys(self) -> None:
        """Read the changes that other processes made to the keys."""
        ...

    def flush(self) -> None:
        """Wait until all recorded audit entries are durable."""
        ...

    def merge_large_segments(self) -> None:
        """Merge large segments of the word indexes of tenants who wrote much in this process, outside the writer's
        slot.
        """
        ...

    def scrub(self, *, patient: bool = True) -> None:
        """Make erased bytes unreadable in every file.

        An open reader prevents it: `patient` waits a moment for it. If it stays, the duty to scrub stays recorded, and
        a later call does it.
        """
        ...

    def reindex(
        self,
        tenant: str,
        load_projection: Callable[[Version], Projection | None],
        *,
        progress: Callable[[int], None] | None = None,
        outdated: bool = False,
    ) -> int:
        """Rebuild the word index of a tenant, or only its `outdated` parts; return the number of versions.

        `load_projection` returns the projection of a version. A version that it cannot read is found by none of its
        words.
        """
        ...

    def find_index_problems(
        self,
        tenant: str,
        load_projection: Callable[[Version], Projection | None],
        load_reading: Callable[[Version], DocumentReading | None],
    ) -> list[str]:
        """Return the differences between the indexes of a tenant and its documents, as sentences.

        OUTDATED_INDEX is one of them if an older version built the word index.
        """
        ...

    def read_change_token(self) -> int:
        """Return a number that is different whenever any process has written."""
        ...

    def watch_changes(self) -> Generator[int]:
        """Yield the change token: soon after every change, and now and then in between.

        Raises StoreUnavailable; the caller then starts a new generator. Close it when nobody waits for it any more.
        """
        ...

    def is_elected(self, job: str) -> bool:
        """Return True if this process is the one of all that does a job now.

        An election only spares the others the work; the unit of work itself must make sure that nothing is done twice.
        """
        ...

    def resign(self, job: str) -> None:
        """Let another process be elected for a job that this one cannot do."""
        ...

    def continue_upgrade(self) -> bool:
        """Run one step of an upgrade that is left for the background; return True if another can follow now."""
        ...

    def seal_names(self) -> bool:
        """Encrypt the names of spaces in some rows of earlier versions; return True if there are more."""
        ...

    def find_damage(self, tenants: Sequence[str] = ()) -> list[str]:
        """Return the problems of the database, and the number of rows of these tenants whose other half is missing."""
        ...

    def close(self) -> None:
        """Finish what waits and close the database and the key ring."""
        ...


class KeyLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of one API key, besides those of its owner; 0 means no limit."""

    requests_per_minute: int = 0
    writes_per_day: int = 0


NO_KEY_LIMITS: Final = KeyLimits()


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as stored, without its secret."""

    key_id: str
    key_hash: bytes
    name: str
    tenant: str
    scopes: tuple[str, ...]
    created: Instant
    revoked: Instant | None = None
    # None: it never expires.
    expires: Instant | None = None
    # The last use, up to a minute late; None: it was never used.
    last_use: Instant | None = None
    # The id of the key that this one replaces.
    replaces: str | None = None
    limits: KeyLimits = NO_KEY_LIMITS

    def is_open(self, now: Instant) -> bool:
        """Return True if the key is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or self.expires > now)


class ProgramGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The rights that a person gave to a program, with the API key they belong to."""

    grant_id: str
    key_id: str
    verbs: tuple[str, ...]
    expires: Instant


class TenantUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts that a tenant stores: current memories, versions ever written, and bytes of documents."""

    tenant: str
    memories: int
    versions: int
    bytes: int


class System(Protocol):
    """The reads and writes that belong to the installation, not to a tenant."""

    def measure_size(self) -> int:
        """Return the size of the database in bytes."""
        ...

    def list_tenants(self) -> list[str]:
        """Return all tenants."""
        ...

    def measure_tenants(self) -> list[TenantUsage]:
        """Return what each tenant stores, oldest tenant first."""
        ...

    def count_holds(self, tenant: str) -> int:
        """Return the number of versions of a tenant that are on legal hold."""
        ...

    def has_key(self, tenant: str, now: Instant) -> bool:
        """Return True if an owner has an API key that is neither revoked nor expired."""
        ...

    def find_tenants_with_name(self, standard: str, name: str) -> list[str]:
        """Return the tenants that hold this name. Only for the operator."""
        ...

    def find_tenants_with_public_name(self, standard: str, name: str) -> list[str]:
        """Return the tenants that have, or once had, a public version with this name."""
        ...

    def list_tenants_with_items(self, kinds: Sequence[str]) -> list[str]:
        """Return the tenants that have items of these kinds. Only for background work."""
        ...

    def list_tenants_with_commitments(self, now: Instant) -> list[str]:
        """Return the tenants with commitments that are due or wait for a memory. Only for background work."""
        ...

    def find_next_due(self) -> Instant | None:
        """Return the instant at which the next commitment of any tenant is due."""
        ...

    def list_expired(self, now: Instant, limit: int) -> list[tuple[str, int]]:
        """Return (tenant, version id) of versions that are past their retention and not yet forgotten."""
        ...

    def load_clock_evidence(self) -> bytes | None:
        """Return what the retention clock stored; None if it stored nothing yet."""
        ...

    def store_clock_evidence(self, evidence: bytes) -> None:
        """Store the evidence of the retention clock for all processes."""
        ...

    def find_next_expiry(self) -> Instant | None:
        """Return the instant at which the next retention period ends."""
        ...

    def add_key(self, key: ApiKey) -> None:
        """Store a new API key."""
        ...

    def load_key(self, key_id: str) -> ApiKey | None:
        """Return the API key with this id, also a revoked one, or None."""
        ...

    def list_keys(self) -> list[ApiKey]:
        """Return all API keys."""
        ...

    def revoke_key(self, key_id: str, now: Instant) -> bool:
        """Revoke an API key; return True if it was not revoked before."""
        ...

    def change_key(self, key_id: str, expires: Instant | None, limits: KeyLimits) -> bool:
        """Set the expiry and the limits of an API key; return True unless it is unknown or revoked."""
        ...

    def replace_key(self, key: ApiKey, *, ends: Instant) -> None:
        """Store a key in place of the one that it replaces, which expires at `ends` unless it does so earlier.

        Programs and sessions of the earlier key continue with the new one.
        """
        ...

    def record_key_uses(self, uses: Mapping[str, Instant]) -> None:
        """Record when API keys were last used, by id. An earlier use than the recorded one changes nothing."""
        ...

    def revoke_token(self, issuer: str, jti: str, now: Instant) -> None:
        """Record that a token of an issuer is revoked."""
        ...

    def is_token_revoked(self, issuer: str, jti: str) -> bool:
        """Return True if a token of an issuer was revoked."""
        ...

    def add_grant(self, grant: ProgramGrant, *, now: Instant, limit: int) -> None:
        """Store a new grant, and delete all grants of the same key but the `limit` used last."""
        ...

    def load_grant(self, grant_id: str, now: Instant) -> ProgramGrant | None:
        """Return a grant that has not expired, or None."""
        ...

    def use_grant(
        self, grant_id: str, generation: int, *, now: Instant, expires: Instant
    ) -> ProgramGrant | None:
        """Return the grant and move it to its next generation. A call with any other generation deletes the grant: its
        token was copied.
        """
        ...

    def extend_grant(self, grant_id: str, expires: Instant) -> None:
        """Set a later expiry of a grant."""
        ...

    def list_grants(self, now: Instant) -> list[ProgramGrant]:
        """Return all grants that have not expired."""
        ...

    def delete_grant(self, grant_id: str) -> None:
        """Delete a grant."""
        ...
