"""The storage contract: what the service may ask of a store. It knows no standard and no binding.

A snapshot or a unit of work is bound to one tenant when it is opened, so no single call can name another.
`System` (system_contract.py) holds the few things that are not a tenant's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
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
from memoranda.retrieval.entry import Indexed
from memoranda.storage.engine.database import PendingWrite, StoreHealth
from memoranda.storage.index.embedding_work import Vectors

T = TypeVar("T")

# What is read of many documents at once.
SLICE_VERSIONS: Final = 500
SLICE_BYTES: Final = 2 * 1_048_576

# Puts an entry into its place in the chain: (entry, seq, previous hash) -> (bytes to keep, hash).
Seal = Callable[[AuditEntry, int, str | None], tuple[bytes, str]]


# When a run began, and its id: its place in the list of runs, of which many may begin in one millisecond.
RunPosition = tuple[Instant, str]


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """What a run sees of the store: what was there when it began, and what it wrote itself."""

    run_id: str
    started: Instant
    # Its place in the change feed, and the last version there was, when it began.
    change_seq: int
    version_seq: int


class WaitingCommitment(NamedTuple):
    """A commitment that waits for something to be said in a space; fresh while nothing was looked at for it yet."""

    document: bytes
    space: str
    is_fresh: bool


class Snapshot(Protocol):
    """Consistent reads for one tenant."""

    @property
    def tenant(self) -> str: ...

    @property
    def rules(self) -> bytes:
        """What the owner asks for, as it was set; empty: nothing."""
        ...

    def find_by_name(self, standard: str, name: str) -> Version | None:
        """The version a standard's name stands for."""
        ...

    def load_versions(self, version_ids: Sequence[int]) -> list[Version]:
        """The given versions, in the given order; unknown ids are left out."""
        ...

    def fit_into_bytes(self, version_ids: Sequence[int], max_bytes: int) -> list[int]:
        """The first of these versions whose documents have so many bytes together; at least one. None is read."""
        ...

    def iterate_versions(self, version_ids: Sequence[int]) -> Iterator[Version]:
        """Versions by their ids, read a few at a time where they are large: whoever stops in between holds no more."""
        ...

    def list_history_ids(self, memory_id: int) -> list[int]:
        """All versions of a memory, oldest first. None is read."""
        ...

    def iterate_history(self, memory_id: int, *, newest_first: bool = False) -> Iterator[Version]:
        """All versions of a memory, oldest first, read a few at a time: whoever keeps none holds few."""
        ...

    def iterate_protecting(self, memory_id: int) -> Iterator[Version]:
        """The versions of a memory that are held, or whose documents may protect those after them, oldest first."""
        ...

    def load_newest(self, memory_id: int) -> Version:
        """The last version of a memory."""
        ...

    def find_duplicate(self, sameness: str, now: Instant) -> Version | None:
        """The open version that already says this."""
        ...

    def find_duplicate_or_named(
        self, sameness: str, name: tuple[str, str], now: Instant
    ) -> tuple[Version | None, Version | None]:
        """The open version that already says this, and the version that a standard's name stands for."""
        ...

    def filter_known_facts(self, samenesses: Sequence[str]) -> set[str]:
        """Which of these an open version may say already."""
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
        """A page of what is selected, in that order: after a place where a page ended, or so many further on."""
        ...

    def count(self, selection: Selection, *, now: Instant) -> int:
        """How many versions are selected."""
        ...

    def load_counted_page(
        self, selection: Selection, order: Order, *, limit: int, now: Instant, offset: int = 0
    ) -> SelectionPage:
        """A page with what it shows of all that there is."""
        ...

    def count_groups(self, selection: Selection, by: str, *, now: Instant) -> list[VersionGroup]:
        """How many are selected of each subject, relation, session, form or verification, in any order."""
        ...

    def warm_index(self) -> None:
        """Read what every search needs of the word index: the first in a process has to wait for it."""
        ...

    def match(
        self,
        selection: Selection,
        legs: Sequence[RetrieverQuery],
        *,
        limit: int,
        now: Instant,
        count_all: bool = False,
        count_if_cheap: bool = True,
    ) -> Matches:
        """What is selected and answers, best first; `whole`: count them all; not `counted`: not even if it is cheap."""
        ...

    def load_documents(self, version_ids: Sequence[int]) -> list[QueriedDocument]:
        """The documents of these versions, in the given order; unknown and erased ones are left out."""
        ...

    def has_space(self, space: str) -> bool:
        """Whether anything was ever written there."""
        ...

    def list_spaces(self) -> list[str]:
        """Where anything was ever written."""
        ...

    def count_by_space_and_kind(self, *, now: Instant) -> dict[tuple[str, str], int]:
        """How many versions are true now, by space and kind: those that `Selection(at=now)` selects."""
        ...

    def measure_usage(self) -> tuple[int, int]:
        """How many versions are live, and how many bytes all documents, items, runs and logs have."""
        ...

    def filter_known_names(self, names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which of these (standard, name) stand for anything."""
        ...

    def find_names_by_prefix(self, standard: str, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Names of a standard that begin so, with the versions they stand for."""
        ...

    def load_run(self, run_id: str) -> bytes | None:
        """What is known of a run."""
        ...

    def list_runs(self, *, before: RunPosition | None, limit: int) -> list[bytes]:
        """Runs, the last started first; those that come after a place in this order."""
        ...

    def list_run_events(self, run_id: str, *, after: int, limit: int) -> list[bytes]:
        """The events of a run with a sequence above `after`, in order; -1 for all."""
        ...

    def list_runs_after(
        self, place: RunPosition, *, before: Instant, limit: int
    ) -> list[RunPosition]:
        """Where runs stand that began before an instant, the first started first; those after a place."""
        ...

    def list_run_events_after(self, place: int, limit: int) -> list[tuple[int, bytes]]:
        """The events of all runs after a place among them, each with its own."""
        ...

    def find_last_run_event(self) -> int:
        """The place of the last event of all runs; 0 if there is none."""
        ...

    def count_run_events(self, run_id: str) -> int:
        """How many events a run has: the sequence of the next."""
        ...

    def list_run_writes(self, run_id: str) -> frozenset[int]:
        """The version_ids of what a run wrote itself."""
        ...

    def has_lost_writes(self, run_id: str) -> bool:
        """Whether something that a run wrote was erased since."""
        ...

    def list_ended_since(self, view: RunView, space: str) -> list[tuple[int, Instant]]:
        """What a run sees and has ended since it began: version_id and last update, the last updated first."""
        ...

    def load_items(self, kind: str) -> dict[str, bytes]:
        """What was kept under a kind, by name."""
        ...

    def load_item(self, kind: str, name: str) -> bytes | None:
        """What was kept under a kind and a name."""
        ...

    def list_changed_memories(self, after: int) -> frozenset[int]:
        """The memory_ids of what the change feed names after a place: without reading any of it."""
        ...

    def list_changed_in_space(self, space: str, after: int) -> list[int]:
        """The version_ids in a space that the change feed names after a place."""
        ...

    def load_commitment(self, commitment_id: str) -> bytes | None:
        """What is known of a commitment."""
        ...

    def list_commitments(self, space: str | None = None) -> list[bytes]:
        """The commitments of a space, or all."""
        ...

    def list_due_commitments(self, now: Instant, limit: int) -> list[bytes]:
        """Commitments whose instant has come, the first due first."""
        ...

    def list_waiting_commitments(
        self, now: Instant, *, fresh_only: bool
    ) -> list[WaitingCommitment]:
        """Commitments that wait for something to be said, and are not put off."""
        ...

    def has_closed_commitments(self, before: Instant) -> bool:
        """Whether any commitment was over before an instant."""
        ...

    def list_linked(self, link: LinkReason, name: str, *, after: int, limit: int) -> list[Version]:
        """What names something as its source, as the consent it rests on, or as the one it withdraws; none erased."""
        ...

    def find_version_ids(self, standard: str, names: Sequence[str]) -> dict[str, int]:
        """The versions that these names stand for, those that are known."""
        ...

    def count_live(self, version_ids: Sequence[int]) -> int:
        """How many of these versions are live."""
        ...

    def count_deletable(self, version_ids: Sequence[int]) -> int:
        """How many of these versions are live and not on hold."""
        ...

    def load_names(self, version_id: int) -> dict[str, str]:
        """The names of one version, by standard."""
        ...

    def list_earlier_names(self, version: Version, limit: int) -> list[tuple[str, str]]:
        """(standard, name) of the earlier versions of its memory as records and grains, the latest first."""
        ...

    def list_changes(self, after: int, limit: int, max_bytes: int | None = None) -> list[Change]:
        """Feed entries with seq > after, oldest first; `max_bytes` of documents, or one."""
        ...

    def find_last_change(self) -> int:
        """The seq of the newest feed entry, or 0."""
        ...

    def find_last_version(self) -> int:
        """The version_id of what was written last, or 0."""
        ...

    def list_audit_after(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Audit entries with seq > after, oldest first."""
        ...

    def list_audit_before(self, before: int | None, limit: int) -> list[tuple[int, bytes]]:
        """Audit entries with seq < before, newest first."""
        ...

    def read_audit_head(self) -> tuple[int, str | None]:
        """How many audit entries there are, and the hash of the last."""
        ...


class Unit(Snapshot, Protocol):
    """One unit of work: all of it happens, or none."""

    def append(
        self,
        document: Document,
        projection: Projection,
        *,
        now: Instant,
        follows: Version | None = None,
        cause: bytes | None = None,
        field_index: FieldIndex | None = None,
        view_names: Sequence[tuple[str, str]] = (),
        follow_head: bool = False,
        indexed: Indexed | None = None,
    ) -> Version:
        """Write a version: of a new memory, or of the memory of another version, after all that it has.

        `view_names` are the names (standard, name) of its views in other standards, `field_index` what it says field
        by field. `follow_head` lets its own name stand for whatever is the head of the memory. `indexed` is what
        its text is found by, where somebody has read it already: a unit of work holds up every other writer.
        """
        ...

    def add_view_name(self, version: Version, standard: str, name: str) -> None:
        """Let a name stand for the view of a version, unless it stands for something that is still there."""
        ...

    def consume_rate(
        self, name: str, *, now: Instant, window_ms: int, limit: int, count: int = 1
    ) -> bool:
        """Record uses of a name, unless the window that ends now has no room for them; whether there was."""
        ...

    def find_rate_reset(self, name: str, *, now: Instant, window_ms: int, limit: int) -> Instant:
        """When the window of a name has room for one more use again."""
        ...

    def put_run(self, run_id: str, document: bytes, *, started: Instant) -> None:
        """Write what is known of a run, or what is now."""
        ...

    def add_run_events(self, run_id: str, first: int, events: Sequence[bytes]) -> None:
        """Append events to the log of a run; `first` is the sequence of the first of them."""
        ...

    def delete_runs(self, run_ids: Collection[str]) -> None:
        """Delete runs with their logs; the one that the last event of all is in stays."""
        ...

    def add_run_write(self, run_id: str, version_id: int) -> None:
        """Say that a run wrote a version itself."""
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
        """Write what is known of a commitment; `over` is when it was done with."""
        ...

    def mark_commitments_checked(self, commitments: Sequence[tuple[str, bytes]]) -> None:
        """Let commitments that are still as given (id, document) be fresh no longer."""
        ...

    def prune_commitments(self, before: Instant, limit: int) -> None:
        """Delete commitments that were over before an instant."""
        ...

    def delete_item(self, kind: str, name: str) -> None:
        """Keep something no longer."""
        ...

    def put_item(self, kind: str, name: str, value: bytes) -> None:
        """Keep something small beside the memories."""
        ...

    def claim_once(self, name: str, *, now: Instant) -> bool:
        """Whether this is the first time that the name is claimed."""
        ...

    def close_version(
        self, version: Version, *, successor: Version | None, valid_to: Instant | None, now: Instant
    ) -> None:
        """Mark a version as superseded, by None if its successor is not here; it stays true for the time before."""
        ...

    def supersede(self, pairs: Sequence[tuple[int, int]], *, now: Instant) -> None:
        """Close and announce many versions: (version_id, version_id of its successor)."""
        ...

    def reopen_superseded(self, pairs: Sequence[tuple[int, int]], *, now: Instant) -> int:
        """Undo `supersede`, where the successor is still that one; how many there were."""
        ...

    def retire(self, version: Version, *, now: Instant) -> None:
        """Mark a document as replaced by a fuller one of the same fact."""
        ...

    def tombstone(self, version: Version, *, valid_to: Instant | None, now: Instant) -> None:
        """Forget softly: out of every recall, kept for the record."""
        ...

    def erase(self, version: Version, *, tombstone: bytes, now: Instant) -> None:
        """Forget hard: content, words and subject go; the tombstone stays. Call `Engine.scrub` afterwards."""
        ...

    def set_hold(self, version: Version, *, on_hold: bool) -> None:
        """Put a legal hold on a version, or lift it."""
        ...

    def flag_for_review(self, version: Version, *, needs_review: bool) -> None:
        """Say whether someone is to look at how a version was superseded."""
        ...

    def set_verification(self, version: Version, verification: str, *, now: Instant) -> None:
        """Say what is known of a version's truth: unverified, verified, contested or retracted."""
        ...

    def add_feedback(self, version: Version, outcome: str, session: str, *, now: Instant) -> None:
        """Record what became of a memory that was used."""
        ...

    def set_rules(self, rules: bytes) -> None:
        """Keep what the owner asks for."""
        ...

    def announce(self, type: ChangeType, version: Version, *, now: Instant) -> None:  # noqa: A002
        """Put an entry into the change feed."""
        ...

    def record_audit(self, entry: AuditEntry) -> None:
        """Put an entry into the audit chain."""
        ...

    def prune_audit(self, last: int) -> None:
        """Take the first entries out of the audit chain, up to a number; the chain goes on counting."""
        ...


class Engine(StoreHealth, Protocol):
    """A durable store."""

    @property
    def system(self) -> System: ...

    @property
    def vectors(self) -> Vectors: ...

    def read(self, tenant: str) -> AbstractContextManager[Snapshot]: ...

    def write(self, tenant: str, work: Callable[[Unit], T]) -> T:
        """Run `work` as one durable unit. An exception undoes it and is raised here."""
        ...

    def start_write(self, tenant: str, work: Callable[[Unit], T]) -> PendingWrite[T]:
        """The same, and whoever hands it in waits later."""
        ...

    def record_audit_later(self, tenant: str, entry: AuditEntry) -> None:
        """Audit a read without making it wait for the disk."""
        ...

    def index_text(self, tenant: str, projection: Projection) -> Indexed:
        """What the text of a version is found by; made before the writer's turn."""
        ...

    def fingerprint(self, tenant: str, text: str) -> str:
        """A keyed fingerprint that stands for a text where the text itself must not be kept."""
        ...

    def destroy_user_key(self, tenant: str, user: str) -> bool:
        """Crypto-erasure: make every encrypted document of a user unreadable, in every copy of the database."""
        ...

    def rotate_master_key(self) -> int:
        """Wrap all data keys under a new master key; how many there were."""
        ...

    def reload_keys(self) -> None:
        """Take up what other processes have done to the keys."""
        ...

    def flush(self) -> None: ...

    def merge_large_segments(self) -> None:
        """Merge what is large in the word index of those who wrote much here, outside the writer's turn."""
        ...

    def scrub(self, *, patient: bool = True) -> None:
        """Make erased bytes unreadable in every file, if any are left to. A reader that stands in the way is waited for
        a moment, or not at all; then it is to be tried again later.
        """
        ...

    def reindex(
        self,
        tenant: str,
        reads: Callable[[Version], Projection | None],
        *,
        progress: Callable[[int], None] | None = None,
        outdated: bool = False,
    ) -> int:
        """Make the word index of a tenant anew, or what of it is outdated; how many versions. What `reads` cannot read
        is found by none of its words.
        """
        ...

    def find_index_problems(
        self,
        tenant: str,
        reads: Callable[[Version], Projection | None],
        tells: Callable[[Version], DocumentReading | None],
    ) -> list[str]:
        """Where an index of a tenant is not what its documents say."""
        ...

    def read_change_token(self) -> int:
        """Changes whenever any process has written."""
        ...

    def watch_changes(self) -> Generator[int]:
        """The change token again and again: soon after it has become another, and in between now and then.

        Raises StoreUnavailable, after which it is to be asked for anew. Close it when nobody waits for it any more.
        """
        ...

    def is_elected(self, job: str) -> bool:
        """Whether this process is the one of all to do some work, now.

        It spares the others the work. That nothing is done twice is for the unit of work to see to.
        """
        ...

    def resign(self, job: str) -> None:
        """Let another process do some work that this one was to do, and cannot."""
        ...

    def find_damage(self, tenants: Sequence[str] = ()) -> list[str]:
        """What is wrong with the database, and which rows of these tenants have lost their other half."""
        ...

    def close(self) -> None: ...


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as stored: the secret itself is not."""

    key_id: str
    key_hash: bytes
    name: str
    tenant: str
    scopes: tuple[str, ...]
    created: Instant
    revoked: Instant | None = None


class ProgramGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What a person let a program do, with which API key."""

    grant_id: str
    key_id: str
    verbs: tuple[str, ...]
    expires: Instant


class System(Protocol):
    """What belongs to the installation, not to a tenant."""

    def measure_size(self) -> int:
        """How large the database is."""
        ...

    def list_tenants(self) -> list[str]: ...

    def has_key(self, tenant: str) -> bool:
        """Whether an owner has an API key that is not revoked."""
        ...

    def find_tenants_with_name(self, standard: str, name: str) -> list[str]:
        """Which tenants hold this name. Only for the operator."""
        ...

    def find_tenants_with_public_name(self, standard: str, name: str) -> list[str]:
        """Which tenants have, or once had, something public of this name."""
        ...

    def list_tenants_with_items(self, kinds: Sequence[str]) -> list[str]:
        """Which tenants keep notes of these kinds. For background work only."""
        ...

    def list_tenants_with_commitments(self, now: Instant) -> list[str]:
        """Which tenants have commitments that are due, or wait for something. For background work only."""
        ...

    def find_next_due(self) -> Instant | None:
        """When the next commitment of anybody is due."""
        ...

    def list_expired(self, now: Instant, limit: int) -> list[tuple[str, int]]:
        """(tenant, version_id) of what is past its retention and not yet forgotten."""
        ...

    def find_next_expiry(self) -> Instant | None: ...

    def add_key(self, key: ApiKey) -> None: ...

    def load_key(self, key_id: str) -> ApiKey | None: ...

    def list_keys(self) -> list[ApiKey]: ...

    def revoke_key(self, key_id: str, now: Instant) -> bool: ...

    def revoke_token(self, issuer: str, jti: str, now: Instant) -> None: ...

    def is_token_revoked(self, issuer: str, jti: str) -> bool: ...

    def add_grant(self, grant: ProgramGrant, *, now: Instant, limit: int) -> None:
        """Keep a new grant; of the same key at most `limit`, those used last."""
        ...

    def load_grant(self, grant_id: str, now: Instant) -> ProgramGrant | None: ...

    def use_grant(
        self, grant_id: str, generation: int, *, now: Instant, expires: Instant
    ) -> ProgramGrant | None:
        """The grant, if this is its turn; then the next is. Whoever comes with another turn ends it."""
        ...

    def extend_grant(self, grant_id: str, expires: Instant) -> None:
        """Let it last longer."""
        ...

    def list_grants(self, now: Instant) -> list[ProgramGrant]:
        """All that have not ended."""
        ...

    def delete_grant(self, grant_id: str) -> None: ...
