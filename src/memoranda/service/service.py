"""The verbs. Every binding, the command line and the library call these, and only these.

Each takes the caller's `Access` first. Requests are the typed values of `standards.ump.requests`, results are
plain values; errors are those drawn in `errors.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from memoranda import __version__
from memoranda.consolidation.strategies.catalogue import DEFAULT_OPTIONS
from memoranda.consolidation.strategies.dream import Options, Writer
from memoranda.model.query import Structure
from memoranda.service import exchange
from memoranda.service.cal.cal import Cal
from memoranda.service.consolidation import dreams, runs
from memoranda.service.consolidation.runs import Undone
from memoranda.service.core import audit, consent, feed, find, upkeep
from memoranda.service.core.access import Access, Gate
from memoranda.service.core.context import Context
from memoranda.service.core.feed import ChangeNotifier, FeedPage
from memoranda.service.core.ranking import Ranked
from memoranda.service.exchange import ImportReport, VerifyReport
from memoranda.service.oams import exchange as oams_exchange
from memoranda.service.oams import memories as oams
from memoranda.service.oms import exchange as grain_exchange
from memoranda.service.oms import grains, query
from memoranda.service.oms.grains import Given, Stored, StoredGrain, UserErasure
from memoranda.service.oms.query import GrainPage
from memoranda.service.openwop.openwop import Openwop
from memoranda.service.ump import recall, remember, revise
from memoranda.service.ump.remember import Remembered
from memoranda.service.ump.revise import Forgotten, Revised
from memoranda.standards.oams.namespace import Namespace
from memoranda.standards.oams.requests import ListRequest as OamsList
from memoranda.standards.oams.requests import RecallRequest as OamsRecall
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.ump import capability
from memoranda.standards.ump.audit import ChainReport
from memoranda.standards.ump.record import Record
from memoranda.standards.ump.rehydrate import Rehydrated
from memoranda.standards.ump.requests import (
    FeedbackRequest,
    ForgetRequest,
    RecallRequest,
    RehydrateRequest,
    ReviseRequest,
)


class Grains:
    """The store protocol of OMS §28.4."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def put(self, access: Access, given: Given, *, owner: str | None = None) -> Stored:
        """Add a grain, given as fields or as bytes; the same grain again is no news."""
        return grains.put(self._context, access, given, owner=owner)

    def get(self, access: Access, address: str) -> StoredGrain:
        """One grain by its address. Raises NotFound."""
        return grains.get(self._context, access, address)

    def release(self, access: Access, address: str) -> StoredGrain:
        """One grain that is about to leave the store. Raises ConsentViolation if it has to stay."""
        return grains.release(self._context, access, address)

    def exists(self, access: Access, address: str) -> bool:
        """Whether there is such a grain that the caller may see."""
        return grains.exists(self._context, access, address)

    def listing(
        self,
        access: Access,
        structure: Structure,
        *,
        owner: str | None = None,
        type_byte: int | None = None,
        after: int = 0,
        limit: int = 50,
    ) -> tuple[list[StoredGrain], int | None]:
        """Grains by subject, relation, object, namespace, user; in the order written, and where to go on."""
        return grains.listing(
            self._context, access, structure, owner=owner, type_byte=type_byte, after=after, limit=limit
        )

    def search(
        self, access: Access, text: str, *, where: Structure, owner: str | None = None, limit: int = 20
    ) -> list[tuple[StoredGrain, float]]:
        """Grains of any type by their words, best first, each with a score from 0 to 1."""
        return grains.search(self._context, access, text, owner=owner, where=where, limit=limit)

    def find(self, access: Access, request: FindRequest, *, owner: str | None = None) -> GrainPage:
        """Grains by structure, by words, or both, in OMS's envelope (§28), a page at a time."""
        return query.find(self._context, access, request, owner=owner)

    def with_defaults(self, access: Access, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Fill in when and where, which a local agent need not say."""
        return grains.with_defaults(self._context, access, fields)

    def supersede(self, access: Access, old: str, given: Given, *, justification: str | None = None) -> Stored:
        """Replace a grain under its policy, in one atomic step."""
        return grains.supersede(self._context, access, old, given, justification=justification)

    def set_verification(
        self, access: Access, address: str, status: str, *, reason: str = "", by: str | None = None
    ) -> str:
        """Say what is known of a grain's truth; contesting asks its policy."""
        return grains.set_verification(self._context, access, address, status, reason=reason, by=by)

    def set_hold(self, access: Access, address: str, *, held: bool, reason: str = "") -> bool:
        """Put a legal hold on a grain, or lift it."""
        return grains.set_hold(self._context, access, address, held=held, reason=reason)

    def erase(self, access: Access, address: str, *, reason: str) -> None:
        """Erase one grain for compliance; holds are honoured."""
        grains.erase(self._context, access, address, reason=reason)

    def erase_user(self, access: Access, user: str, *, reason: str, owner: str | None = None) -> UserErasure:
        """Erase everything of a user and destroy the user's key."""
        return grains.erase_user(self._context, access, user, reason=reason, owner=owner)

    def consent(self, access: Access, *, subject: str, grantee: str, scope: str = "retrieve") -> str | None:
        """The address of the consent under which `grantee` may act on what is `subject`'s, now."""
        access.require("read")
        return consent.authorising(self._context, access.default_tenant, subject, grantee, scope)

    def export(
        self, access: Access, *, owner: str | None = None, namespace: str | None = None
    ) -> Iterator[tuple[bytes, IndexState]]:
        """Every grain that may leave, as it travels, with what the index knows."""
        return grain_exchange.export(self._context, access, owner=owner, namespace=namespace)

    def import_grains(
        self,
        access: Access,
        items: Iterable[tuple[bytes, IndexState]],
        *,
        owner: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport:
        """Take grains in, with their index, reporting what was refused."""
        return grain_exchange.import_grains(self._context, access, items, owner=owner, progress=progress)

    def rotate_master_key(self) -> int:
        """Wrap every user's key under a new master key; how many there were."""
        return self._context.engine.rotate_master_key()


class Oams:
    """The five operations of OAMS, and moving bundles in and out."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def store(
        self, access: Access, memory: object, *, if_match: str | None = None, if_absent: bool = False
    ) -> oams.Stored:
        """Write one memory; the same content again is no news (STORE)."""
        return oams.store(self._context, access, memory, if_match=if_match, if_absent=if_absent)

    def batch_store(self, access: Access, memories: Sequence[object]) -> list[oams.Stored]:
        """Write many memories, all or none (BATCH_STORE)."""
        return oams.batch_store(self._context, access, memories)

    def recall(self, access: Access, request: OamsRecall, *, consents: Sequence[Access] = ()) -> list[dict[str, Any]]:
        """The best memories for a query, with scores (RECALL). `consents`: of every owner, when it spans owners."""
        return oams.recall(self._context, access, request, consents=consents)

    def list_memories(self, access: Access, request: OamsList) -> oams.Page:
        """A page of a namespace, last updated first (LIST)."""
        return oams.list_memories(self._context, access, request)

    def get(self, access: Access, namespace: Namespace, key: str) -> oams.Shown:
        """One memory by its key. Raises MemoryNotFound."""
        return oams.get(self._context, access, namespace, key)

    def forget(self, access: Access, namespace: Namespace, key: str, *, if_match: str | None = None) -> None:
        """Take a memory out of every answer (FORGET)."""
        oams.forget(self._context, access, namespace, key, if_match=if_match)

    def default_namespace(self, access: Access) -> Namespace:
        """Where a caller is who names no namespace."""
        return oams.default_namespace(access)

    def namespaces(self, access: Access) -> list[str]:
        """Where the caller's tenant has anything."""
        return oams_exchange.namespaces(self._context, access)

    def export(
        self, access: Access, *, namespaces: Sequence[Namespace] | None = None
    ) -> Iterator[tuple[bytes, dict[str, Any]]]:
        """Every memory that may leave: the bytes of its line, and what they say."""
        return oams_exchange.export(self._context, access, chosen=namespaces)

    def consolidate(
        self,
        access: Access,
        namespace: Namespace,
        strategy: str,
        *,
        is_dry: bool = False,
        options: Options = DEFAULT_OPTIONS,
        writer: Writer | None = None,
    ) -> dreams.DreamRun:
        """Run one strategy over a namespace: dry, or written down (section 6)."""
        return dreams.consolidate(
            self._context, access, namespace, strategy, is_dry=is_dry, options=options, writer=writer
        )

    def dream_runs(self, access: Access) -> list[dict[str, Any]]:
        """The passes that changed something and were not undone, the last first."""
        return runs.runs(self._context, access)

    def undo(self, access: Access, run_id: str) -> Undone:
        """Take back what a pass made, and bring again what it took back."""
        return runs.undo(self._context, access, run_id)

    def import_lines(
        self,
        access: Access,
        lines: Iterable[oams_exchange.Line],
        *,
        is_dry: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> oams_exchange.ImportReport:
        """Take memories in, or only say what would become of them; what is refused is reported."""
        return oams_exchange.import_lines(self._context, access, lines, is_dry=is_dry, progress=progress)


class Service:
    """One open store and everything that can be done with it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.gate = Gate(context.engine.system, context.operator, context.clock, context.ump_version)
        self.notifier = ChangeNotifier(context.engine)
        self.upkeep = upkeep.Upkeep(context)
        self.grains = Grains(context)
        self.cal = Cal(context)
        self.oams = Oams(context)
        self.openwop = Openwop(context)

    @property
    def operator_did(self) -> str:
        return self._context.operator.did

    def capabilities(self) -> dict[str, Any]:
        """What this server speaks (UMP §3.1). No memory is touched."""
        return capability.capabilities(
            server_name="memoranda", server_version=__version__, version=self._context.ump_version
        )

    def manifest(self, endpoint: str | None = None) -> dict[str, Any]:
        """`/.well-known/ump.json` (UMP §4.3)."""
        return capability.manifest(version=self._context.ump_version, conformance="L3", endpoint=endpoint)

    def remember(self, access: Access, draft: object) -> Remembered:
        """Write one memory from a complete draft (UMP §3.3)."""
        return remember.remember(self._context, access, draft)

    def with_defaults(self, access: Access, draft: object, *, method: str) -> object:
        """Fill in the owner and the provenance that a local agent or person need not say."""
        return remember.with_defaults(access, draft, method=method)

    def recall(self, access: Access, request: RecallRequest) -> list[Ranked]:
        """The best memories for a query, with their signals (UMP §3.2)."""
        return recall.recall(self._context, access, request)

    def for_prompt(self, access: Access, request: RehydrateRequest) -> Rehydrated:
        """Recalled memories as one framed block for a model's context (UMP §5.3)."""
        return recall.for_prompt(self._context, access, request)

    def get(self, access: Access, name: str) -> Record:
        """One record by its id (UMP §3.4)."""
        return find.get(self._context, access, name)

    def history(self, access: Access, name: str) -> list[dict[str, object]]:
        """All versions of a memory, oldest first: {record, recorded, replaced, verified}."""
        return find.history(self._context, access, name)

    def list_records(
        self, access: Access, *, project: str | None = None, after: int = 0, limit: int = 50
    ) -> tuple[list[Record], int | None]:
        """A page of what is current, newest first, and where the next page starts; project "" means none."""
        return find.list_records(self._context, access, project=project, after=after, limit=limit)

    def revise(self, access: Access, request: ReviseRequest) -> Revised:
        """Write a successor (UMP §3.5)."""
        return revise.revise(self._context, access, request)

    def forget(self, access: Access, request: ForgetRequest) -> Forgotten:
        """Tombstone or erase (UMP §3.6)."""
        return revise.forget(self._context, access, request)

    def feedback(self, access: Access, request: FeedbackRequest) -> None:
        """Say what became of a recalled memory (UMP §3.8)."""
        revise.feedback(self._context, access, request)

    def feed_end(self, access: Access, scope: Mapping[str, str]) -> int:
        """Check a subscription and say where it starts (UMP §3.8)."""
        return feed.feed_end(self._context, access, scope)

    def changes(self, access: Access, scope: Mapping[str, str], after: int) -> FeedPage:
        """What changed in a scope since `after`."""
        return feed.changes(self._context, access, scope, after)

    def audit(self, access: Access, asked: object) -> list[dict[str, Any]]:
        """Audit events that match, oldest first."""
        return audit.query(self._context, access, asked)

    def audit_verify(self, access: Access, owner: str | None = None) -> ChainReport:
        """Whether the audit chain is whole."""
        return audit.verify(self._context, access, owner)

    def export(
        self,
        access: Access,
        *,
        owner: str | None = None,
        project: str | None = None,
        history: bool = True,
        names: Sequence[str] | None = None,
    ) -> Iterator[Record]:
        """Every record that may leave, redacted, in the order written; or those of the given ids."""
        return exchange.export_records(
            self._context, access, owner=owner, project=project, history=history, names=names
        )

    def import_records(
        self,
        access: Access,
        drafts: Iterable[object],
        *,
        owner: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport:
        """Take records in, reporting what was refused."""
        return exchange.import_records(self._context, access, drafts, owner=owner, progress=progress)

    def verify(
        self, access: Access, *, owner: str | None = None, progress: Callable[[int], None] | None = None
    ) -> VerifyReport:
        """Check every signature, the audit chain and the database."""
        return exchange.verify_all(self._context, access, owner=owner, progress=progress)

    def check_ready(self) -> None:
        """Raise StoreUnavailable or StoreCorrupt unless the store answers."""
        self._context.engine.system.is_token_revoked("", "")

    def sweep(self) -> int:
        """Tombstone what is past its retention, now."""
        return upkeep.sweep(self._context)

    def close(self) -> None:
        self.upkeep.close()
        self.notifier.close()
        self._context.engine.close()
