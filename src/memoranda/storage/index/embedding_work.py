"""What is to have vectors, and what was made of it: the seam between a store and whatever embeds texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from memoranda.model.instant import Instant

# More versions than there will ever be.
NO_LIMIT: Final = 1 << 62


class ToEmbed(NamedTuple):
    """A version that is to have a vector, and the one before it in its session, or 0."""

    tenant: str
    version_id: int
    context_id: int


class EmbeddingBatch(NamedTuple):
    """Some of what is to have vectors; when it is done, everything up to `upto` is."""

    after: int
    upto: int
    versions: list[ToEmbed]


class NewVector(NamedTuple):
    """A vector that was made, as it is stored."""

    tenant: str
    version_id: int
    context_id: int
    data: bytes
    context_data: bytes | None


class EmbeddingProgress(NamedTuple):
    """Up to which version a model has come, and the last one there is; between them there may be fewer than that."""

    done: int
    last: int

    @property
    def is_behind(self) -> bool:
        return self.done < self.last


class EmbeddingFailure(NamedTuple):
    """A model that makes no vectors: since when, when it was last tried, and the error of that time."""

    since: Instant
    last_try: Instant
    error: str


class ClearCopies(NamedTuple):
    """What a database has to compare itself, in clear; `is_wanted`: by the settings of this process."""

    copies: int
    # What they are copies of; and copies of what is not there any more.
    vectors: int
    orphans: int
    # Of pgvector.
    version: str
    is_wanted: bool


class Vectors(Protocol):
    """What is to have vectors by a model, in the order in which it was written, whoever's it is."""

    def progress(self, model: str) -> EmbeddingProgress: ...

    def waiting(self, model: str, most: int = NO_LIMIT) -> int:
        """How many versions it has not come to yet, counted up to so many."""
        ...

    def models(self) -> dict[str, int]:
        """Up to which version each model that was ever used has come."""
        ...

    def claim(self, model: str, holder: str, now: Instant) -> bool:
        """Make vectors from here on, unless another process does."""
        ...

    def release(self, model: str, holder: str) -> None:
        """Let another process go on at once."""
        ...

    def next_batch(self, model: str, limit: int) -> EmbeddingBatch: ...

    def put(
        self,
        model: str,
        holder: str,
        batch: EmbeddingBatch,
        vectors: Sequence[NewVector],
        now: Instant,
    ) -> bool:
        """Put down what was made of a batch; False if another process has done that meanwhile."""
        ...

    def failure(self, model: str) -> EmbeddingFailure | None:
        """Return what keeps a model from making vectors; None if it makes them, or was not tried yet."""
        ...

    def note_failure(self, model: str, error: str, now: Instant) -> None:
        """Remember for every process that no vectors are made, until some are put."""
        ...

    def next_single(self, model: str) -> EmbeddingBatch:
        """Return a batch of the one version that comes next, without what was said before it."""
        ...

    def retry_batch(self, version_id: int) -> EmbeddingBatch:
        """Return a batch of one version that was set aside."""
        ...

    def skip_batch(self, model: str, holder: str, batch: EmbeddingBatch, now: Instant) -> bool:
        """Go on without the versions of a batch; False if another process has gone on meanwhile."""
        ...

    def skipped(self, model: str, limit: int = NO_LIMIT) -> list[int]:
        """Return the versions that were set aside, the first ones."""
        ...

    def put_skipped(
        self, model: str, holder: str, version_id: int, vectors: Sequence[NewVector], now: Instant
    ) -> bool:
        """Put the vectors of a version that was set aside; False if another process makes vectors."""
        ...

    def copy_in_clear(self, model: str) -> bool:
        """Copy some vectors for a database that compares them itself; False: there are none to copy."""
        ...

    def clear_copies(self) -> ClearCopies | None:
        """What the database has to compare itself, in clear; None: nothing."""
        ...

    def delete_model(self, model: str, limit: int) -> bool:
        """Delete some vectors of a model that is not used any more; whether there may be more."""
        ...
