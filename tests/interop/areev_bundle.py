"""The bundle files in which areev hands grains over, as far as can be seen from outside.

    "MGB1", then for each operation: kind u8, clock u64, address 32 B, length u32, grain; numbers little-endian

Kinds: 1 add, 2 supersede, 3 forget. areev writes and reads no `.mg` files, so this is how bytes pass both ways.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator

_MAGIC = b"MGB1"
_ENTRY = struct.Struct("<BQ32sI")
_ADD = 1
# Some moment of its hybrid clock, which counts milliseconds above 16 bits of order.
_CLOCK = 1768471200000 << 16


def read(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Address and bytes of every grain that was added."""
    assert data[:4] == _MAGIC
    at = 4
    while at < len(data):
        kind, _, address, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if kind == _ADD:
            yield address.hex(), data[at : at + size]
        at += size
    assert at == len(data)


def written(blobs: Iterable[bytes]) -> bytes:
    """A bundle that adds these grains."""
    entries = (
        _ENTRY.pack(_ADD, _CLOCK + number, hashlib.sha256(blob).digest(), len(blob)) + blob
        for number, blob in enumerate(blobs)
    )
    return _MAGIC + b"".join(entries)
