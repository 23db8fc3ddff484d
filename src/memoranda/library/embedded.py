"""Every standard over a store of this process."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from memoranda.model.instant import Instant
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.service.ump.ump import Ump

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.oams.oams import Oams
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop


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
    def oams(self) -> Oams[Access]:
        from memoranda.service.oams.oams import Oams

        return Oams(self.service.context, self.access)

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
