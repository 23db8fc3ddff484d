"""Every standard over a server: the same verbs, the same values, the same errors."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, cast

from memoranda.library.connection import Connection
from memoranda.library.remote_ump import RemoteUmp
from memoranda.model.instant import Instant

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.core.access import Access
    from memoranda.service.oams.oams import Oams
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.ump.ump import Ump


class Remote:
    """One person's memory on a server; the key decides whose.

    Each table of verbs is shown as the one of a store, so that callers are checked against the verbs' own signatures.
    `tests/test_library_parity.py` compares the two. All but UMP's are loaded when they are first used.
    """

    def __init__(self, url: str, key: str | None) -> None:
        self._server = Connection(url, key)

    @cached_property
    def owner(self) -> str:
        """The owner of the memory."""
        return str(self._server.get("/ump/stats")["owner"])

    @cached_property
    def ump(self) -> Ump[Access]:
        """UMP's own verbs."""
        return cast("Ump[Access]", RemoteUmp(self._server))

    @cached_property
    def oams(self) -> Oams[Access]:
        """The memory through OAMS."""
        from memoranda.library.remote_oams import RemoteOams

        return cast("Oams[Access]", RemoteOams(self._server))

    @cached_property
    def cal(self) -> Cal[Access]:
        """The memory through CAL."""
        from memoranda.library.remote_cal import RemoteCal

        return cast("Cal[Access]", RemoteCal(self._server))

    @cached_property
    def grains(self) -> Grains[Access]:
        """The memory through OMS."""
        from memoranda.library.remote_grains import RemoteGrains

        return cast("Grains[Access]", RemoteGrains(self._server))

    @cached_property
    def openwop(self) -> Openwop[Access]:
        """The memory through openwop."""
        from memoranda.library.remote_openwop import RemoteOpenwop

        return cast("Openwop[Access]", RemoteOpenwop(self._server))

    def now(self) -> Instant:
        """Return this machine's clock."""
        return Instant(time.time_ns() // 1_000_000)

    def close(self) -> None:
        """Close all connections."""
        self._server.close()
