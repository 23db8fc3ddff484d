"""What stands behind the verbs of `Memoranda`: a store of this process, or a server.

Each offers the tables of verbs of every standard, with the same requests, results and errors; what is asked of them is
the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from memoranda.model.instant import Instant

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.consolidation.dreams import DreamRun
    from memoranda.service.consolidation.runs import Undone
    from memoranda.service.core.access import Access
    from memoranda.service.oams.memories import Stored
    from memoranda.service.oams.recall import Page
    from memoranda.service.oams.views import Shown
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.ump.ump import Ump
    from memoranda.standards.oams import memory as oams
    from memoranda.standards.oams.namespace import Namespace

Asked = Mapping[str, Any]


class Standards(Protocol):
    """One person's memory through every standard."""

    @property
    def owner(self) -> str:
        """Whose memory it is."""

    @property
    def ump(self) -> Ump[Access]:
        """UMP's own verbs."""

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

    def close(self) -> None: ...


class OamsVerbs(Protocol):
    """The five operations of OAMS."""

    def namespace(self, name: str | None = None) -> Namespace: ...
    def namespaces(self) -> Sequence[str]: ...
    def store(self, memory: Asked, *, if_match: str | None, if_absent: bool) -> Stored: ...
    def batch_store(self, memories: Sequence[Asked]) -> Sequence[Stored]: ...
    def recall(self, asked: Asked) -> Sequence[oams.Memory]: ...
    def get(self, namespace: Namespace, key: str) -> Shown: ...
    def forget(self, namespace: Namespace, key: str, *, if_match: str | None) -> None: ...
    def list(self, asked: Asked) -> Page: ...
    def consolidate(self, namespace: Namespace, strategy: str, is_dry: bool, options: Asked) -> DreamRun: ...
    def undo(self, run_id: str) -> Undone: ...
