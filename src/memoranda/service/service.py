"""The service: one open store, the verbs of every standard over it, access control, and the background threads.

Every interface (HTTP, MCP, the command line, files, the library) calls these verbs, and nothing below them. Each verb
takes the caller's `Access` first; requests and results are typed values; errors are those of `errors.py`. The verbs of
UMP are methods of `Service` itself; `grains` (OMS), `cal`, `oams` and `openwop` are tables of their own, imported when
they are first used, so that a command loads only the standard that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from memoranda.encoding.lazy import LazyModule
from memoranda.errors import MemorandaError
from memoranda.service.core.access import Gate
from memoranda.service.core.context import Context
from memoranda.service.core.embedding_queue import EmbeddingQueue
from memoranda.service.core.feed import ChangeNotifier
from memoranda.service.core.upkeep import Upkeep, purge
from memoranda.service.core.verbs import load_table
from memoranda.service.ump.ump import Ump

if TYPE_CHECKING:
    from memoranda.service import verify
    from memoranda.service.cal.cal import Cal
    from memoranda.service.core import sign_in
    from memoranda.service.core.sign_in import Grants, Sessions
    from memoranda.service.oams.oams import Oams
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.verify import VerifyReport
else:
    sign_in = LazyModule("memoranda.service.core.sign_in")
    verify = LazyModule("memoranda.service.verify")


class Service(Ump[None]):
    """One open store with the verbs of every standard: UMP's directly, the others' by name."""

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
        self.upkeep = Upkeep(context, self.gate)
        self.embedding = EmbeddingQueue(context)

    # A standard is imported on first use: a recall need not wait for all of them.

    @cached_property
    def grants(self) -> Grants:
        """The OAuth programs that people let in."""
        return sign_in.Grants(
            self.gate, self._context.engine.system, self._context.operator, self._context.clock
        )

    @cached_property
    def sessions(self) -> Sessions:
        """The browser sessions of the console."""
        return sign_in.Sessions(
            self.gate,
            self._context.engine.system,
            self._context.operator,
            self._context.clock,
            self._context.people,
        )

    @cached_property
    def grains(self) -> Grains[None]:
        """The verbs of OMS."""
        table: Grains[None] = load_table("memoranda.service.oms.oms:Grains")(self._context, None)
        return table

    @cached_property
    def cal(self) -> Cal[None]:
        """The verbs of CAL."""
        table: Cal[None] = load_table("memoranda.service.cal.cal:Cal")(self._context, None)
        return table

    @cached_property
    def oams(self) -> Oams[None]:
        """The verbs of OAMS."""
        table: Oams[None] = load_table("memoranda.service.oams.oams:Oams")(self._context, None)
        return table

    @cached_property
    def openwop(self) -> Openwop[None]:
        """The verbs of openwop memory."""
        table: Openwop[None] = load_table("memoranda.service.openwop.openwop:Openwop")(
            self._context, None
        )
        return table

    @property
    def context(self) -> Context:
        """The context that every verb takes."""
        return self._context

    @property
    def operator_did(self) -> str:
        """The DID of the operator's key."""
        return self._context.operator.did

    def start_background(self) -> None:
        """Start the threads for upkeep and embedding, in a process that keeps running."""
        self.upkeep.start()
        self.embedding.start()

    def check_ready(self) -> None:
        """Raise StoreUnavailable or StoreCorrupt unless the store answers and can record reads."""
        self._context.engine.check_recording()
        self._context.engine.system.is_token_revoked("", "")

    def count_versions(self, owner: str | None = None) -> int:
        """Return the number of versions ever written, of one owner or of all."""
        return sum(
            usage.versions
            for usage in self._context.engine.system.measure_tenants()
            if owner in (None, usage.tenant)
        )

    def count_due(self) -> int:
        """Return the number of versions past their retention period that are not erased yet, counted up to 1,000."""
        return len(self._context.engine.system.list_expired(self._context.clock(), 1_000))

    def purge(self) -> int:
        """Erase everything that is past its retention period; return the number of versions."""
        return purge(self._context)

    def verify_store(self, *, progress: Callable[[int], None] | None = None) -> VerifyReport:
        """Verify the memories of all owners, their audit chains and the database, for the owner of the files."""
        return verify.verify_store(self._context, progress=progress)

    def reindex(self, *, progress: Callable[[int], None] | None = None) -> int:
        """Rebuild the search index of every owner from the documents; return the number of versions."""
        return verify.reindex(self._context, progress=progress)

    def close(self) -> None:
        """Stop the background threads and close the store."""
        self.upkeep.close()
        self.embedding.close()
        self.notifier.close()
        # If the store cannot be written, only the times of the last uses of keys are lost.
        with suppress(MemorandaError):
            self.gate.key_uses.record(is_closing=True)
        self._context.engine.close()
