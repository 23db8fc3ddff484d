"""The embedding queue: makes the vectors of memories in the background, the newest first, then the others in order.

Writing a memory costs nothing extra. Versions are numbered, so the progress of a model is one number, which is stored
with the vectors in one unit of work; a process that dies in between repeats that work. Until a version has its vector,
it is found by keywords. Of all processes, the one that holds the lease works (`_claim`).

A memory may be searched for right after it was written. So the newest versions come first (`_embed_latest`), a batch of
older ones ends early when a newer version is written, and a search waits a moment for the last writes of its own owner
(`settle_latest`).

A vector costs at least as much processor time as a write. So the queue yields while any process writes a lot, until
there is less to write or a search waits for vectors (`settle`). If the writing goes on and on, the queue takes a tenth
of the time of one processor.

Failures. If the embedder fails with any text, nothing is skipped: the failure is noted in the store, for `doctor`,
`/readyz` and `/metrics`, and the queue tries again later. If the embedder works and a batch fails, the batch is halved
until one version is left, and that version is set aside: keywords still find it. The next idle process tries the
versions that were set aside before it started once more.

Threads: `start` begins one background thread per process; tests call `step` directly. All shared state is in the store
(`storage/index/vector_queue.py`); what is in this object is only about speed, so losing it does no harm. Three things
must stay true: a write never waits for a vector, a text that cannot be embedded never stops others, and two processes
never store vectors of the same batch.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from memoranda.embedding.texts import embedded_passages, embedded_text, prepend_context
from memoranda.errors import MemorandaError, StoreUnavailable, describe_error
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.retrieval.entry import join_vectors
from memoranda.service.core.context import CLOSE_SECONDS, Context
from memoranda.service.core.views import project, run_unless_damaged
from memoranda.standards.port import port_of
from memoranda.storage.index.vector_queue import (
    NO_LIMIT,
    EmbeddingBatch,
    EmbeddingFailure,
    EmbeddingProgress,
    NewVector,
    ToEmbed,
)

if TYPE_CHECKING:
    from memoranda.embedding.embedder import Vector

# Versions embedded between two writes: about half a second of work.
BATCH_LIMIT: Final = 16
# Seconds between two looks for new versions, which another process may have written.
_IDLE_SECONDS: Final = 0.2
# Seconds between two looks soon after a batch, when more writes are likely.
_ALERT_SECONDS: Final = 0.03
_ALERT_FOR_SECONDS: Final = 5.0
# Versions of a batch of the newest ones: a twentieth of a second of work. They are looked for among this many versions.
_LATEST_LIMIT: Final = 2
_NEWEST_WINDOW: Final = 256
# Versions without vectors that are simply embedded in order: a tenth of a second of work.
_FEW_VERSIONS: Final = 5
# The last writes of an owner that a search waits for, and the seconds between two looks.
_AWAITED_LIMIT: Final = 8
_LOOK_SECONDS: Final = 0.01
# Versions written in a second from which on the queue yields to writers. It yields for a limited time, so a steady
# writer cannot leave it behind for ever.
_BUSY_VERSIONS_PER_SECOND: Final = 200.0
# Seconds between two checks whether writers are still busy. The queue yields for _YIELD_SECONDS at first, then for
# _YIELD_RATIO times the seconds it has just worked.
_YIELD_CHECK_SECONDS: Final = 0.05
_YIELD_SECONDS: Final = 5.0
_YIELD_RATIO: Final = 9.0
# Seconds until the next try after a failure, of an endpoint say; doubled after each failure up to the limit.
_RETRY_SECONDS: Final = 5.0
_RETRY_LIMIT_SECONDS: Final = 60.0
# Milliseconds for which a noted failure counts without another try: three times the longest wait between two tries.
_FAILURE_TTL_MS: Final = 180_000
# Tries in a row after which a version is set aside.
_TRIES_LIMIT: Final = 3
# Versions set aside; with more of them the fault is the embedder's.
_SET_ASIDE_LIMIT: Final = 1_000
# Versions without vectors that a search waits for. Of a larger import the rest is found by keywords meanwhile.
_SETTLE_LIMIT: Final = 5_000

_ANY_TEXT: Final = "memory"

_log = logging.getLogger(__name__)


class EmbeddingQueue:
    """The versions without vectors, and the thread that embeds them. One process works at a time."""

    def __init__(self, context: Context, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._seconds = seconds
        # The newest version number at the last look, and the second of that look; the version that a search waits for;
        # the second until which writers go first.
        self._last_version, self._measured_at = 0, seconds()
        self._awaited_version = 0
        # Versions after this one are new and come first; None: not known yet.
        self._newest_known: int | None = None
        # The second until which a search waits, and that of the last batch.
        self._urgent_until, self._worked_at = 0.0, 0.0
        self._yield_until = self._measured_at + _YIELD_SECONDS
        # Versions in a batch, halved while a failing version is searched; and how often that version has failed.
        self._batch_limit, self._failed_tries = BATCH_LIMIT, 0
        # Versions set aside that are to be tried once more; None: not read from the store yet.
        self._retries: list[int] | None = None
        self._model = context.semantic_search.model
        self._job = f"vectors {self._model}"
        self._holder = secrets.token_hex(8)
        self._starting = threading.Lock()
        # Held during a batch: the thread and callers of `step` take turns.
        self._working = threading.Lock()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._progressed = threading.Condition()
        self._thread: threading.Thread | None = None
        context.semantic_search.queue = self

    def progress(self) -> EmbeddingProgress:
        """Return the version number up to which vectors are made, and the newest one."""
        return self._context.engine.vectors.progress(self._model)

    def count_waiting(self, limit: int = NO_LIMIT) -> int:
        """Return the number of versions that wait for vectors, counted up to `limit`."""
        return self._context.engine.vectors.waiting(self._model, limit)

    def failure(self) -> EmbeddingFailure | None:
        """Return the failure that prevents vectors, of any process; None if there is none."""
        return self._context.engine.vectors.failure(self._model)

    def failing_since(self) -> Instant | None:
        """Return the instant since which the embedder fails; None if it works, or if there is none."""
        failure = self.failure() if self._context.semantic_search.is_enabled else None
        return None if failure is None else failure.since

    def count_set_aside(self) -> int:
        """Return the number of versions that could not be embedded and are found by keywords alone."""
        return len(self._context.engine.vectors.skipped(self._model))

    def settle(self, seconds: float) -> None:
        """Wait up to `seconds` until everything written before this call has vectors.

        Returns at once if the embedder fails, or if too much is waiting.

        Used by tests and by commands that promise complete results. A server uses `settle_latest`.
        """
        current = self.progress()
        if (
            not current.is_behind
            or self._is_failing()
            or self.count_waiting(_SETTLE_LIMIT + 1) > _SETTLE_LIMIT
        ):
            return
        self._awaited_version = max(self._awaited_version, current.last)
        self.start()
        self._wake.set()
        ends = time.monotonic() + seconds
        with self._progressed:
            while (
                self.progress().done < current.last and (remaining := ends - time.monotonic()) > 0
            ):
                self._progressed.wait(min(remaining, _IDLE_SECONDS))
                if self._is_failing():
                    return

    def settle_latest(self, tenant: str, seconds: float) -> None:
        """Wait up to `seconds` until the last writes of a tenant have vectors, older ones or not.

        Returns at once if the embedder fails.
        """
        queue, ends = self._context.engine.vectors, self._seconds() + seconds
        if not queue.latest_waiting(self._model, tenant, _AWAITED_LIMIT) or self._is_failing():
            return
        self._urgent_until = max(self._urgent_until, ends)
        self.start()
        self._wake.set()
        with self._progressed:
            while (remaining := ends - self._seconds()) > 0:
                self._progressed.wait(min(remaining, _LOOK_SECONDS))
                if not queue.latest_waiting(self._model, tenant, _AWAITED_LIMIT):
                    return

    def _is_failing(self) -> bool:
        failure = self.failure()
        return failure is not None and self._context.clock() - failure.last_try < _FAILURE_TTL_MS

    def start(self) -> None:
        """Start the background thread, unless it runs, there is no model, or the queue is closed."""
        with self._starting:
            if (
                self._thread is None
                and self._context.semantic_search.is_enabled
                and not self._stop.is_set()
            ):
                self._thread = threading.Thread(
                    target=self._work_until_closed, name="memoranda-embedding", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _work_until_closed(self) -> None:
        wait, retry = 0.0, _RETRY_SECONDS
        while not self._stop.is_set():
            self._wake.wait(wait)
            self._wake.clear()
            try:
                wait, retry = self.run_once(), _RETRY_SECONDS
            except Exception as error:  # noqa: BLE001 - an embedder may be anybody's; the queue goes on
                _log.warning("vectors wait: %s", describe_error(error))
                # Another process may succeed.
                self._release()
                wait, retry = retry, min(2 * retry, _RETRY_LIMIT_SECONDS)
        self._release()

    def _release(self) -> None:
        """Give up the lease, so that another process can work."""
        try:
            self._context.engine.vectors.release(self._model, self._holder)
            self._context.engine.resign(self._job)
        except MemorandaError as error:
            _log.debug("another process has to wait for its turn: %s", error)

    def run_once(self) -> float:
        """Embed the next batch, or yield to writers. Return the seconds to wait before the next call.

        The thread's loop in one call, for tests with their own clock.
        """
        if self._must_yield():
            return _YIELD_CHECK_SECONDS
        started_at = self._seconds()
        is_more = self.step()
        now = self._seconds()
        self._yield_until = now + (_YIELD_RATIO * (now - started_at) if is_more else _YIELD_SECONDS)
        if is_more:
            self._worked_at = now
            return 0.0
        return _ALERT_SECONDS if now - self._worked_at < _ALERT_FOR_SECONDS else _IDLE_SECONDS

    def _must_yield(self) -> bool:
        """Return True if writers are busy and their time to go first is not over."""
        progress, now = self.progress(), self._seconds()
        is_busy = progress.last - self._last_version > _BUSY_VERSIONS_PER_SECOND * max(
            now - self._measured_at, _YIELD_CHECK_SECONDS
        )
        self._last_version, self._measured_at = progress.last, now
        is_awaited = progress.done < self._awaited_version or now < self._urgent_until
        return is_busy and not is_awaited and now < self._yield_until

    def step(self) -> bool:
        """Embed the next batch; return False if there is nothing to do, or another process does it."""
        try:
            with self._working:
                is_more = self._embed_next()
        except Exception as error:
            self._note_failure(error)
            raise
        finally:
            # Searches that wait for vectors look again: there are new ones, or none can be made.
            with self._progressed:
                self._progressed.notify_all()
        return is_more

    def _embed_next(self) -> bool:
        """Embed the next batch; return False if there was none, or this process may not work."""
        queue = self._context.engine.vectors
        progress = self.progress()
        if not progress.is_behind:
            # Nothing to embed: copy older vectors to the unencrypted table that the database searches (pgvector).
            return self._retry_set_aside() or queue.copy_in_clear(self._model)
        if not self._claim():
            return False
        if self._batch_limit == BATCH_LIMIT and self._embed_latest(progress):
            return True
        try:
            batch = queue.next_batch(self._model, self._batch_limit)
            jobs = self._create_jobs(batch)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not keep the other versions
            return self._isolate_failure(error)
        try:
            vectors = self._embed_jobs(jobs, progress.last)
        except Exception as error:  # noqa: BLE001 - an embedder may be anybody's
            return self._isolate_failure(error)
        if self._stop.is_set():
            return False
        if len(vectors) < len(jobs):
            batch = batch._replace(upto=jobs[len(vectors)].version.version_id - 1)
        is_put = queue.put(self._model, self._holder, batch, vectors, self._context.clock())
        self._batch_limit, self._failed_tries = min(2 * self._batch_limit, BATCH_LIMIT), 0
        return is_put

    def _embed_latest(self, progress: EmbeddingProgress) -> bool:
        """Embed some of the newest versions before older ones; return False if there are none, or one fails.

        A version that fails is left to the batches in order, which set it aside.
        """
        if self._newest_known is None:
            self._newest_known = progress.last
        if progress.last - progress.done <= _FEW_VERSIONS or progress.last <= self._newest_known:
            return False
        queue = self._context.engine.vectors
        try:
            batch = queue.latest_batch(
                self._model, self._newest_known, _NEWEST_WINDOW, _LATEST_LIMIT
            )
            vectors = self._embed_jobs(self._create_jobs(batch), progress.last)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - an embedder may be anybody's
            _log.debug("the newest versions wait: %s", describe_error(error))
            vectors = []
        if not vectors:
            self._newest_known = progress.last
            return False
        return queue.put_latest(self._model, self._holder, vectors, self._context.clock())

    def _embed_jobs(self, jobs: Sequence[_Job], last_version: int) -> list[NewVector]:
        """Return the vectors of the first jobs: at least of one, and until a version after `last_version` appears."""
        vectors: list[NewVector] = []
        for job in jobs:
            is_overtaken = bool(vectors) and self.progress().last > last_version
            if is_overtaken or self._stop.is_set():
                break
            vectors.append(self._embed(job))
        return vectors

    def _claim(self) -> bool:
        """Return True if this process holds the lease to make vectors."""
        engine = self._context.engine
        return engine.is_elected(self._job) and engine.vectors.claim(
            self._model, self._holder, self._context.clock()
        )

    def _isolate_failure(self, error: Exception) -> bool:
        """Reduce the batch by half to find the version that fails, or set that one aside.

        Raises the embedder's own error if it fails with any text.

        The embedder is first asked for a harmless text: if that fails too, the fault is not in a version, and nothing
        is set aside.
        """
        self._context.semantic_search.embedder.of_memory(_ANY_TEXT)
        queue = self._context.engine.vectors
        if self._batch_limit > 1:
            self._batch_limit //= 2
            return True
        self._failed_tries += 1
        if self._failed_tries < _TRIES_LIMIT:
            return True
        if len(queue.skipped(self._model, _SET_ASIDE_LIMIT)) == _SET_ASIDE_LIMIT:
            raise error
        batch, self._failed_tries = queue.next_single(self._model), 0
        for version in batch.versions:
            _log.warning("version %d has no vector: %s", version.version_id, describe_error(error))
        return queue.skip_batch(self._model, self._holder, batch, self._context.clock())

    def _retry_set_aside(self) -> bool:
        """Embed one of the versions that were set aside before this process started; return False if there is none."""
        queue = self._context.engine.vectors
        if self._retries is None:
            self._retries = queue.skipped(self._model)
        if not self._retries or not self._claim():
            return False
        version_id = self._retries.pop()
        try:
            vectors = [
                self._embed(job)
                for job in self._create_jobs(queue.retry_batch(self._model, version_id))
            ]
        except Exception as error:  # noqa: BLE001 - it stays aside
            _log.info("version %d still has no vector: %s", version_id, describe_error(error))
            return True
        queue.put_skipped(self._model, self._holder, version_id, vectors, self._context.clock())
        return True

    def _note_failure(self, error: Exception) -> None:
        """Note in the store that no vectors are made, for all processes."""
        try:
            self._context.engine.vectors.note_failure(
                self._model, describe_error(error), self._context.clock()
            )
        except MemorandaError as unavailable:
            _log.debug("the failure could not be noted: %s", unavailable)

    def _create_jobs(self, batch: EmbeddingBatch) -> list[_Job]:
        """Return the texts of a batch to embed; versions without text are left out."""
        jobs: list[_Job] = []
        for tenant in dict.fromkeys(version.tenant for version in batch.versions):
            tenant_versions = [version for version in batch.versions if version.tenant == tenant]
            texts = self._load_texts(
                tenant,
                sorted(
                    {
                        n
                        for version in tenant_versions
                        for n in (version.version_id, version.context_id)
                        if n
                    }
                ),
            )
            for version in tenant_versions:
                memory = texts.get(version.version_id)
                if memory is not None and memory.text.strip():
                    jobs.append(_Job(version, memory, texts.get(version.context_id)))
        return jobs

    def _embed(self, job: _Job) -> NewVector:
        """Return the vectors of a version: of its text, and a second one with context, if the model has a second
        encoder.

        The second vector is either of the text with the text before it in the conversation, or by the second model of a
        pair. Passages of a long text get vectors of their own.
        """
        from memoranda.retrieval.vectors import encode

        embedder = self._context.semantic_search.embedder
        version, memory, before = job
        own_vector = encode(
            embedder.of_memory(memory.text) if memory.vector is None else memory.vector
        )
        passages = [encode(embedder.of_memory(passage)) for passage in memory.passages]
        context_id, second = 0, None
        if before is not None and before.text.strip():
            context_id, second = (
                version.context_id,
                embedder.of_memory(prepend_context(before.text, memory.text)),
            )
        elif embedder.second is not None:
            second = embedder.second.of_memory(memory.text)
        data = None if second is None else encode(second)
        vectors = join_vectors(own_vector, passages)
        return NewVector(version.tenant, version.version_id, context_id, vectors, data)

    def _load_texts(self, tenant: str, version_ids: Sequence[int]) -> dict[int, _EmbeddedText]:
        """Return the texts of versions to embed, by version; damaged and erased versions are left out."""
        texts: dict[int, _EmbeddedText] = {}
        with self._context.engine.open_snapshot(tenant) as snapshot:
            versions = snapshot.load_versions(version_ids)
        for version in versions:
            if version.state.erased:
                continue
            projection = run_unless_damaged(version, partial(project, self._context, version))
            if projection is not None:
                texts[version.version_id] = _EmbeddedText(
                    embedded_text(projection.text, projection.subject, projection.titles),
                    embedded_passages(projection.text, projection.titles),
                    self._supplied_vector(version),
                )
        return texts

    def _supplied_vector(self, version: Version) -> Vector | None:
        """Return the vector that came with an OAMS memory, if it is from our model and usable.

        A vector of the wrong model or length is ignored, and the text is embedded as usual.
        """
        embedding = port_of(version.document.standard).embedding(version.document)
        if embedding is None:
            return None
        import numpy as np

        from memoranda.embedding.embedder import normalize_vector

        embedder = self._context.semantic_search.embedder
        if embedding.model not in (embedder.model, *embedder.other_names):
            return None
        numbers = np.frombuffer(embedding.packed, "<f4")
        is_fit = (
            len(numbers) == self._dimensions
            and bool(np.isfinite(numbers).all())
            and bool(numbers.any())
        )
        return normalize_vector(numbers) if is_fit else None

    @cached_property
    def _dimensions(self) -> int:
        """The number of elements in a vector; if the model does not state it, a text is embedded to find out."""
        embedder = self._context.semantic_search.embedder
        return embedder.dimensions or len(embedder.of_memory(_ANY_TEXT))


class _EmbeddedText(NamedTuple):
    """The text of a memory and its passages as they are embedded, and the vector that came with the memory."""

    text: str
    passages: list[str]
    vector: Vector | None


class _Job(NamedTuple):
    """A version to embed, its text, and the text of the memory before it in its session."""

    version: ToEmbed
    memory: _EmbeddedText
    context: _EmbeddedText | None
