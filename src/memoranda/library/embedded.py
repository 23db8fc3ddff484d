"""One person's memory behind the verbs of `Memoranda`, and the store of this process as one.

A backend has one table of verbs for each standard. `Embedded` calls the services of a store that this process opened;
`Remote`, in `remote.py`, calls a server. Both offer the same requests, results and errors.

The tables import their standard when they are first used: a command that needs UMP alone starts faster without the
others.

`Backend` is the seam between `Memoranda` and what is behind it. A new table of verbs is added to the protocol, to
`Embedded`, to `Remote` and to the async class. Tables are made at each access and are cheap.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from memoranda.model.instant import Instant
from memoranda.service.core.access import Access
from memoranda.service.core.verbs import load_table
from memoranda.service.service import Service
from memoranda.service.ump.ump import Ump

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.oams.oams import Oams
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop


class Backend(Protocol):
    """One person's memory through every standard."""

    @property
    def owner(self) -> str:
        """The owner of the memory."""

    @property
    def ump(self) -> Ump[Access]:
        """The verbs of UMP."""

    @property
    def oams(self) -> Oams[Access]:
        """The verbs of OAMS on the same memory."""

    @property
    def cal(self) -> Cal[Access]:
        """The verbs of CAL on the same memory."""

    @property
    def grains(self) -> Grains[Access]:
        """The verbs of OMS on the same memory."""

    @property
    def openwop(self) -> Openwop[Access]:
        """The verbs of openwop on the same memory."""

    def now(self) -> Instant:
        """Return the time of the clock by which memories are dated."""

    def close(self) -> None:
        """Close the store, or the connections to the server."""


class Embedded:
    """One person's memory in a store that this process opened."""

    def __init__(self, service: Service, access: Access) -> None:
        self.service = service
        self.access = access

    @property
    def owner(self) -> str:
        """The owner of the memory."""
        return self.access.default_tenant

    @cached_property
    def ump(self) -> Ump[Access]:
        """The verbs of UMP."""
        return Ump(self.service.context, self.access)

    @cached_property
    def oams(self) -> Oams[Access]:
        """The verbs of OAMS on the same memory."""
        table: Oams[Access] = load_table("memoranda.service.oams.oams:Oams")(
            self.service.context, self.access
        )
        return table

    @cached_property
    def cal(self) -> Cal[Access]:
        """The verbs of CAL on the same memory."""
        table: Cal[Access] = load_table("memoranda.service.cal.cal:Cal")(
            self.service.context, self.access
        )
        return table

    @cached_property
    def grains(self) -> Grains[Access]:
        """The verbs of OMS on the same memory."""
        table: Grains[Access] = load_table("memoranda.service.oms.oms:Grains")(
            self.service.context, self.access
        )
        return table

    @cached_property
    def openwop(self) -> Openwop[Access]:
        """The verbs of openwop on the same memory."""
        table: Openwop[Access] = load_table("memoranda.service.openwop.openwop:Openwop")(
            self.service.context, self.access
        )
        return table

    def now(self) -> Instant:
        """Return the time of the store's clock."""
        return self.service.context.clock()

    def close(self) -> None:
        """Close the store."""
        self.service.close()
