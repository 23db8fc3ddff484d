"""embeddings.bin: packed float32 vectors, keyed by line offset (section 7).

The specification says no more than that. Ours is a sequence of records, without header, little-endian, in the order of
the lines:

    8 bytes   where the line begins in memories.jsonl, in bytes
    4 bytes   n, how many numbers
    4n bytes  the numbers, float32

Both files are read side by side, so neither writing nor reading keeps more than one vector.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from memoranda.errors import InvalidInput
from memoranda.standards.oams.lines import Readable, Writable
from memoranda.standards.oams.memory import MAX_DIMENSIONS

# What a manifest calls this layout.
LAYOUT: Final = "u64 line offset, u32 count, float32[count]; little-endian"

_HEAD: Final = struct.Struct("<QI")
_FLOAT_BYTES: Final = 4


def write_vector(file: Writable, offset: int, packed: bytes) -> int:
    """Add the vector of the line at an offset; how many bytes that took."""
    file.write(_HEAD.pack(offset, len(packed) // _FLOAT_BYTES) + packed)
    return _HEAD.size + len(packed)


def read_vectors(file: Readable) -> Iterator[tuple[int, bytes]]:
    """Line offsets and packed vectors, from the start. Raises InvalidInput for what has not this layout."""
    file.seek(0)
    last = -1
    while head := file.read(_HEAD.size):
        if len(head) < _HEAD.size:
            raise InvalidInput("embeddings.bin is cut off")
        offset, count = _HEAD.unpack(head)
        if offset <= last or not 0 < count <= MAX_DIMENSIONS:
            raise InvalidInput("embeddings.bin does not have the layout that the manifest names")
        packed = file.read(count * _FLOAT_BYTES)
        if len(packed) < count * _FLOAT_BYTES:
            raise InvalidInput("embeddings.bin is cut off")
        last = offset
        yield offset, packed


def unpacked(packed: bytes) -> list[float]:
    """The numbers of a packed vector."""
    return list(struct.unpack(f"<{len(packed) // _FLOAT_BYTES}f", packed))
