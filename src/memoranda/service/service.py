"""One open store: the verbs of every standard over it, who may call them, and what runs in the background.

Every binding, the command line and the library call these verbs, and only these. Each takes the caller's `Access`
first; requests and results are typed values; errors are those drawn in `errors.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from memoranda.service.core.access import Gate
from memoranda.service.core.context import Context
from memoranda.service.core.embedding_queue import EmbeddingQueue
from memoranda.service.core.feed import ChangeNotifier
from memoranda.service.core.upkeep import Upkeep, purge
from memoranda.service.core.verbs import load_table
from memoranda.service.ump.ump import Ump
from memoranda.service.verify import VerifyReport, reindex, verify_store

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.core.sign_in import Grants, Sessions
    from memoranda.service.oams.oams import Oams
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop


class Service(Ump[None]):
    """One open store and everything that can be done with it: UMP's verbs, and the other standards by their names."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, None)
        self.gate = Gate(
            context.engine.system,
            context.operator,
            context.clock,
            context.ump_version,
            open_registration=context.open_registration,
            allowed_owners=context.allowed_owners,
        )
        self.notifier = ChangeNotifier(context.engine)
        self.upkeep = Upkeep(context)
        self.embedding = EmbeddingQueue(context)

    # A standard is loaded when it is first asked for: whoever recalls one memory need not wait for all of them.

    @cached_property
    def grants(self) -> Grants:
        """Programs that a person lets in."""
        from memoranda.service.core.sign_in import Grants

        return Grants(
            self.gate, self._context.engine.system, self._context.operator, self._context.clock
        )

    @cached_property
    def sessions(self) -> Sessions:
        """People who look at their memory in a browser."""
        from memoranda.service.core.sign_in import Sessions

        return Sessions(
            self.gate, self._context.engine.system, self._context.operator, self._context.clock
        )

    @cached_property
    def grains(self) -> Grains[None]:
        """OMS."""
        table: Grains[None] = load_table("memoranda.service.oms.oms:Grains")(self._context, None)
        return table

    @cached_property
    def cal(self) -> Cal[None]:
        """CAL."""
        table: Cal[None] = load_table("memoranda.service.cal.cal:Cal")(self._context, None)
        return table

    @cached_property
    def oams(self) -> Oams[None]:
        """OAMS."""
        table: Oams[None] = load_table("memoranda.service.oams.oams:Oams")(self._context, None)
        return table

    @cached_property
    def openwop(self) -> Openwop[None]:
        """openwop."""
        table: Openwop[None] = load_table("memoranda.service.openwop.openwop:Openwop")(
            self._context, None
        )
        return table

    @property
    def context(self) -> Context:
        """What every verb needs."""
        return self._context

    @property
    def operator_did(self) -> str:
        return self._context.operator.did

    def start_background(self) -> None:
        """Do what falls due and make vectors, from here on: for whoever stays."""
        self.upkeep.start()
        self.embedding.start()

    def check_ready(self) -> None:
        """Raise StoreUnavailable or StoreCorrupt unless the store answers, and reads can be put on record."""
        self._context.engine.check_recording()
        self._context.engine.system.is_token_revoked("", "")

    def due(self) -> int:
        """How many versions are past their retention and not erased yet, counted up to 1,000."""
        return len(self._context.engine.system.list_expired(self._context.clock(), 1_000))

    def purge(self) -> int:
        """Erase what is past its retention, now; how many versions."""
        return purge(self._context)

    def verify_store(self, *, progress: Callable[[int], None] | None = None) -> VerifyReport:
        """Check the memory of every owner, their audit chains and the database: for whoever has the files."""
        return verify_store(self._context, progress=progress)

    def reindex(self, *, progress: Callable[[int], None] | None = None) -> int:
        """Make the word index of every owner anew from the documents; how many versions."""
        return reindex(self._context, progress=progress)

    def close(self) -> None:
        self.upkeep.close()
        self.embedding.close()
        self.notifier.close()
        self._context.engine.close()
