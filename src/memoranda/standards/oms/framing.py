"""Grains on a stream: u32 length and grain, again and again, and a zero at the end (OMS section 11.6).

For sockets, queues and pipes, never for files. A grain travels bare or in its envelope, as in `signature`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from memoranda.errors import GrainError, TooLarge
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.scan import MAX_ITEM_BYTES, Scanner
from memoranda.standards.oms.signature import SignedGrain, delivery_of

_LENGTH_BYTES: Final = 4
_END: Final = bytes(_LENGTH_BYTES)


def frame(grains: Iterable[Grain | SignedGrain]) -> Iterator[bytes]:
    """The frames of a stream, the last of which ends it."""
    for grain in grains:
        delivery = delivery_of(grain)
        if len(delivery) > MAX_ITEM_BYTES:
            raise TooLarge(f"a frame holds at most {MAX_ITEM_BYTES} bytes")
        yield len(delivery).to_bytes(_LENGTH_BYTES, "big") + delivery
    yield _END


def unframe(chunks: Iterable[bytes], *, max_frame_bytes: int = MAX_ITEM_BYTES) -> Iterator[bytes]:
    """The deliveries of a stream that arrives in any chunks; `signature.open_delivery` opens them.

    Raises GrainError when the stream breaks off or goes on after its end, TooLarge for a frame over the limit.
    """
    stream = Scanner(chunks, max_item_bytes=max(max_frame_bytes, _LENGTH_BYTES))
    while True:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "big")
        if length == 0:
            break
        if length > max_frame_bytes:
            raise TooLarge(f"a frame of {length} bytes, where at most {max_frame_bytes} are allowed")
        yield stream.read(length)
    if not stream.is_at_end():
        raise GrainError("the stream goes on after its end", oms_code="ERR_CORRUPT")
