"""Vectors of memories, made in the background in the order in which memories were written.

A write costs nothing: versions are numbered, so how far a model has come is one number, which moves with the vectors in
one unit of work. Whatever is killed in between is done again. Until a memory has its vector its words stand for it.

A vector takes as much of a processor as a write or more. So while much is written, in whichever process, this waits
until there is less or somebody waits for it, and where it goes on and on it takes a tenth of the time of one processor.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from memoranda.embedding.texts import embedded_text, prepend_context
from memoranda.errors import MemorandaError
from memoranda.model.memory import Version
from memoranda.service.core.context import CLOSE_SECONDS, Context
from memoranda.service.core.views import project, unless_damaged
from memoranda.standards.port import port_of
from memoranda.storage.embedded import ANY_NUMBER, Batch, NewVector, Progress

if TYPE_CHECKING:
    from memoranda.embedding.embedder import Vector

# What is embedded between two writes: about half a second's work.
BATCH_LIMIT: Final = 16
# Nothing to do: another process may have written something.
_IDLE_SECONDS: Final = 0.2
# What is written in a second where it gives way: a few leave room for both, and whoever keeps on is never left behind.
_BUSY_PER_SECOND: Final = 200.0
# So soon it is looked whether that is still so; it gives way so long at first, and then so many times as long as it
# worked.
_LOOK_SECONDS: Final = 0.05
_GIVE_WAY_SECONDS: Final = 5.0
_GIVE_WAY: Final = 9.0
# After a failure, of an endpoint say.
_RETRY_SECONDS: Final = 5.0
# Whoever asks waits for no more than this to be embedded: the rest of a large import is found by its words meanwhile.
_SETTLE_LIMIT: Final = 5_000

_ANY_TEXT: Final = "memory"

_log = logging.getLogger(__name__)


class EmbeddingQueue:
    """Works on what has no vectors yet: one process at a time, whichever comes first."""

    def __init__(self, context: Context, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._seconds = seconds
        # The last version, and when that was looked; what somebody waits for; and until when others go first.
        self._last, self._looked = 0, seconds()
        self._asked = 0
        self._yields_until = self._looked + _GIVE_WAY_SECONDS
        self._model = context.meaning.model
        self._job = f"vectors {self._model}"
        self._holder = secrets.token_hex(8)
        self._starting = threading.Lock()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._moved = threading.Condition()
        self._thread: threading.Thread | None = None
        context.meaning.queue = self

    def progress(self) -> Progress:
        """How far the model has come."""
        return self._context.engine.vectors.progress(self._model)

    def waiting(self, most: int = ANY_NUMBER) -> int:
        """How many versions it has not come to yet, counted up to so many."""
        return self._context.engine.vectors.waiting(self._model, most)

    def settle(self, seconds: float) -> None:
        asked = self.progress()
        if not asked.is_behind or self.waiting(_SETTLE_LIMIT + 1) > _SETTLE_LIMIT:
            return
        self._asked = max(self._asked, asked.last)
        self.start()
        self._wake.set()
        ends = time.monotonic() + seconds
        with self._moved:
            while self.progress().done < asked.last and (left := ends - time.monotonic()) > 0:
                self._moved.wait(min(left, _IDLE_SECONDS))

    def start(self) -> None:
        """Work from here on, in the background."""
        with self._starting:
            if self._thread is None and self._context.meaning.is_on and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="memoranda-embedding", daemon=True)
                self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        wait = 0.0
        while not self._stop.is_set():
            self._wake.wait(wait)
            self._wake.clear()
            try:
                wait = self.turn()
            except Exception as error:  # noqa: BLE001 - an embedder may be anybody's; the queue goes on
                _log.warning("vectors wait: %s", error)
                # Another process may be luckier with it.
                self._let_go()
                wait = _RETRY_SECONDS
        self._let_go()

    def _let_go(self) -> None:
        try:
            self._context.engine.vectors.release(self._model, self._holder)
            self._context.engine.let_go(self._job)
        except MemorandaError as error:
            _log.debug("another process has to wait for its turn: %s", error)

    def turn(self) -> float:
        """Embed what comes next, or give way to who writes; how long there is nothing to do."""
        if self._gives_way():
            return _LOOK_SECONDS
        began = self._seconds()
        is_more = self.step()
        now = self._seconds()
        self._yields_until = now + (_GIVE_WAY * (now - began) if is_more else _GIVE_WAY_SECONDS)
        return 0.0 if is_more else _IDLE_SECONDS

    def _gives_way(self) -> bool:
        seen, now = self.progress(), self._seconds()
        is_busy = seen.last - self._last > _BUSY_PER_SECOND * max(now - self._looked, _LOOK_SECONDS)
        self._last, self._looked = seen.last, now
        return is_busy and seen.done >= self._asked and now < self._yields_until

    def step(self) -> bool:
        """Embed what comes next; False: there is nothing, or another process does it."""
        queue, clock = self._context.engine.vectors, self._context.clock
        if not self.progress().is_behind:
            # Those that were made before are copied, where the database is to compare them itself.
            return queue.copy(self._model)
        if not self._context.engine.is_elected(self._job):
            return False
        if not queue.claim(self._model, self._holder, clock()):
            return False
        batch = queue.next(self._model, BATCH_LIMIT)
        made = self._embedded(batch)
        if self._stop.is_set():
            return False
        is_put = queue.put(self._model, self._holder, batch, made, clock())
        with self._moved:
            self._moved.notify_all()
        return is_put

    def _embedded(self, batch: Batch) -> list[NewVector]:
        from memoranda.retrieval.vectors import encode

        embedder = self._context.meaning.embedder
        made: list[NewVector] = []
        for tenant in dict.fromkeys(each.tenant for each in batch.found):
            wanted = [each for each in batch.found if each.tenant == tenant]
            read = self._read(tenant, sorted({n for each in wanted for n in (each.version_id, each.context_id) if n}))
            for each in wanted:
                memory, before = read.get(each.version_id), read.get(each.context_id)
                if self._stop.is_set() or memory is None or not memory.text.strip():
                    continue
                own = encode(embedder.of_memory(memory.text) if memory.vector is None else memory.vector)
                context_id, beside = 0, None
                if before is not None and before.text.strip():
                    context_id, beside = each.context_id, embedder.of_memory(prepend_context(before.text, memory.text))
                elif embedder.second is not None:
                    beside = embedder.second.of_memory(memory.text)
                data = None if beside is None else encode(beside)
                made.append(NewVector(tenant, each.version_id, context_id, own, data))
        return made

    def _read(self, tenant: str, version_ids: Sequence[int]) -> dict[int, _Read]:
        """What of some versions is embedded; nothing of what cannot be read."""
        found: dict[int, _Read] = {}
        with self._context.engine.read(tenant) as snapshot:
            versions = snapshot.versions(version_ids)
        for version in versions:
            if version.state.erased:
                continue
            read = unless_damaged(version, lambda version=version: project(self._context, version))  # type: ignore[misc]
            if read is not None:
                found[version.version_id] = _Read(embedded_text(read.text, read.subject), self._brought(version))
        return found

    def _brought(self, version: Version) -> Vector | None:
        """The vector that an OAMS memory brought, if it is by the model that is used here."""
        brought = port_of(version.document.standard).embedding(version.document)
        if brought is None:
            return None
        import numpy as np

        from memoranda.embedding.embedder import normalize_vector

        embedder = self._context.meaning.embedder
        if brought.model not in (embedder.model, *embedder.other_names):
            return None
        numbers = np.frombuffer(brought.packed, "<f4")
        is_fit = len(numbers) == self._dimensions and bool(np.isfinite(numbers).all()) and bool(numbers.any())
        return normalize_vector(numbers) if is_fit else None

    @cached_property
    def _dimensions(self) -> int:
        """How many numbers a vector of the model has; one that does not say it is asked for a vector."""
        embedder = self._context.meaning.embedder
        return embedder.dimensions or len(embedder.of_memory(_ANY_TEXT))


class _Read(NamedTuple):
    """A memory as it is embedded, and the vector that it brought itself."""

    text: str
    vector: Vector | None
