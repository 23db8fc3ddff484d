"""What stands behind the verbs of `Memoranda`: a store of this process, or a server.

Both take what UMP and OAMS say as plain values, and give the same results and errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from memoranda.library.results import Hits, Memories, Versions
from memoranda.model.instant import Instant
from memoranda.standards.ump.shapes import Record

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.consolidation.dreams import DreamRun
    from memoranda.service.consolidation.runs import Undone
    from memoranda.service.core.access import Access
    from memoranda.service.exchange import Report
    from memoranda.service.imports import UndoneImport
    from memoranda.service.oams.memories import Stored
    from memoranda.service.oams.recall import Page
    from memoranda.service.oams.views import Shown
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.ump.overview import Stats
    from memoranda.service.ump.redact import Suspect
    from memoranda.service.ump.remember import Remembered
    from memoranda.service.ump.revise import Forgotten, Revised
    from memoranda.service.verify import VerifyReport
    from memoranda.standards.oams.memory import Memory
    from memoranda.standards.oams.namespace import Namespace
    from memoranda.standards.ump.rehydrate import Rehydrated

Asked = Mapping[str, Any]


class MemoryVerbs(Protocol):
    """UMP's verbs over one person's memory."""

    @property
    def owner(self) -> str:
        """Whose memory it is."""

    @property
    def oams(self) -> OamsVerbs:
        """The same memory through OAMS."""

    @property
    def cal(self) -> Cal[Access]:
        """The same memory through CAL."""

    @property
    def grains(self) -> Grains[Access]:
        """The same memory through OMS."""

    @property
    def openwop(self) -> Openwop[Access]:
        """The same memory through openwop."""

    def now(self) -> Instant:
        """The clock by which memories are dated."""

    def remember(self, draft: dict[str, Any]) -> Remembered: ...
    def recall(self, asked: Asked) -> Hits: ...
    def for_prompt(self, asked: Asked) -> Rehydrated: ...
    def page(self, asked: Asked, limit: int, after: int) -> tuple[Memories, int | None]: ...
    def stats(self) -> Stats: ...
    def get(self, name: str) -> Record: ...
    def history(self, name: str) -> Versions: ...
    def change(
        self, name: str, text: str | None, structured: Mapping[str, Any] | None, patch: Mapping[str, Any]
    ) -> Revised: ...
    def forget(self, asked: Asked) -> Forgotten: ...
    def feedback(self, asked: Asked) -> None: ...
    def suspects(self) -> Sequence[Suspect]: ...
    def redact(self, name: str) -> str: ...
    def export(self, project: str | None, history: bool, report: Report | None) -> Iterator[Record]: ...
    def import_records(self, records: Iterable[object], restore: bool) -> Report: ...
    def undo_import(self, name: str | None) -> UndoneImport: ...
    def verify(self) -> VerifyReport: ...
    def close(self) -> None: ...


class OamsVerbs(Protocol):
    """The five operations of OAMS."""

    def namespace(self, name: str | None = None) -> Namespace: ...
    def namespaces(self) -> Sequence[str]: ...
    def store(self, memory: Asked, *, if_match: str | None, if_absent: bool) -> Stored: ...
    def batch_store(self, memories: Sequence[Asked]) -> Sequence[Stored]: ...
    def recall(self, asked: Asked) -> Sequence[Memory]: ...
    def get(self, namespace: Namespace, key: str) -> Shown: ...
    def forget(self, namespace: Namespace, key: str, *, if_match: str | None) -> None: ...
    def list(self, asked: Asked) -> Page: ...
    def consolidate(self, namespace: Namespace, strategy: str, is_dry: bool, options: Asked) -> DreamRun: ...
    def undo(self, run_id: str) -> Undone: ...
