"""Every standard over a store of this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from memoranda.library.verbs import Asked
from memoranda.model.instant import Instant
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.service.ump.ump import Ump

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.consolidation.dreams import DreamRun
    from memoranda.service.consolidation.runs import Undone
    from memoranda.service.oams.memories import Stored
    from memoranda.service.oams.recall import Page
    from memoranda.service.oams.views import Shown
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.standards.oams import memory as oams
    from memoranda.standards.oams.namespace import Namespace


class Embedded:
    """One person's memory in a store that is open here."""

    def __init__(self, service: Service, access: Access) -> None:
        self.service = service
        self.access = access

    @cached_property
    def ump(self) -> Ump[Access]:
        """UMP's verbs as they are."""
        return Ump(self.service.context, self.access)

    @cached_property
    def oams(self) -> EmbeddedOams:
        return EmbeddedOams(self.service, self.access)

    @property
    def owner(self) -> str:
        return self.access.default_tenant

    def now(self) -> Instant:
        return self.service.context.clock()

    @cached_property
    def cal(self) -> Cal[Access]:
        from memoranda.service.cal.cal import Cal

        return Cal(self.service.context, self.access)

    @cached_property
    def grains(self) -> Grains[Access]:
        from memoranda.service.oms.oms import Grains

        return Grains(self.service.context, self.access)

    @cached_property
    def openwop(self) -> Openwop[Access]:
        from memoranda.service.openwop.openwop import Openwop

        return Openwop(self.service.context, self.access)

    def close(self) -> None:
        self.service.close()


class EmbeddedOams:
    """The operations of OAMS over a store that is open here."""

    def __init__(self, service: Service, access: Access) -> None:
        from memoranda.service.oams.oams import Oams

        self.own = Oams(service.context, access)

    def namespace(self, name: str | None = None) -> Namespace:
        return self.own.namespace(name)

    def namespaces(self) -> Sequence[str]:
        return self.own.namespaces()

    def store(self, memory: Asked, *, if_match: str | None, if_absent: bool) -> Stored:
        return self.own.store(memory, if_match=if_match, if_absent=if_absent)

    def batch_store(self, memories: Sequence[Asked]) -> Sequence[Stored]:
        return self.own.batch_store(memories)

    def recall(self, asked: Asked) -> Sequence[oams.Memory]:
        from memoranda.standards.oams.requests import RecallRequest as OamsRecall

        return self.own.recall(OamsRecall.parse(asked))

    def get(self, namespace: Namespace, key: str) -> Shown:
        return self.own.get(namespace, key)

    def forget(self, namespace: Namespace, key: str, *, if_match: str | None) -> None:
        self.own.forget(namespace, key, if_match=if_match)

    def list(self, asked: Asked) -> Page:
        from memoranda.standards.oams.requests import ListRequest as OamsList

        return self.own.list_memories(OamsList.parse(asked))

    def consolidate(self, namespace: Namespace, strategy: str, is_dry: bool, options: Asked) -> DreamRun:
        from memoranda.consolidation.strategies.dream import Options
        from memoranda.standards.oams.requests import DreamRequest

        # In the words in which a server refuses it.
        DreamRequest.parse({"strategy": strategy})
        return self.own.consolidate(namespace, strategy, is_dry=is_dry, options=Options(**options))

    def undo(self, run_id: str) -> Undone:
        return self.own.undo(run_id)
