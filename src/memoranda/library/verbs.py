"""What stands behind the verbs of `Memoranda`: a store of this process, or a server.

Each offers the tables of verbs of every standard, with the same requests, results and errors; what is asked of them is
the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from memoranda.model.instant import Instant

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.core.access import Access
    from memoranda.service.oams.oams import Oams
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.ump.ump import Ump


class Standards(Protocol):
    """One person's memory through every standard."""

    @property
    def owner(self) -> str:
        """Whose memory it is."""

    @property
    def ump(self) -> Ump[Access]:
        """UMP's own verbs."""

    @property
    def oams(self) -> Oams[Access]:
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
