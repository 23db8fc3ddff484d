"""embeddings.bin: packed float32 vectors, keyed by line offset (section 7).

The specification says no more. Our file is a sequence of records without header, little-endian, in the order of the
lines:

    8 bytes   the offset of the line in memories.jsonl, in bytes
    4 bytes   n, the count of numbers
    4n bytes  the numbers, float32

Both files are read in parallel, so reading and writing hold one vector at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from memoranda.errors import InvalidInput
from memoranda.standards.oams.lines import ReadableLines, WritableLines
from memoranda.standards.oams.memory import MAX_DIMENSIONS

# The name of this layout in a manifest.
LAYOUT: Final = "u64 line offset, u32 count, float32[count]; little-endian"

_HEAD: Final = struct.Struct("<QI")
# Bytes of a float32.
_FLOAT_BYTES: Final = 4


def write_vector(file: WritableLines, offset: int, packed: bytes) -> int:
    """Append the vector of the line at an offset; return the number of bytes written."""
    file.write(_HEAD.pack(offset, len(packed) // _FLOAT_BYTES) + packed)
    return _HEAD.size + len(packed)


def read_vectors(file: ReadableLines) -> Iterator[tuple[int, bytes]]:
    """Yield line offsets and packed vectors from the start. Raises InvalidInput for another layout."""
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


def unpack_vector(packed: bytes) -> list[float]:
    """Return the numbers of a packed vector."""
    return list(struct.unpack(f"<{len(packed) // _FLOAT_BYTES}f", packed))
