"""The compressed grain region of a `.mg` file: one zstd frame (OMS section 11.3), never trusted with its size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from memoranda.errors import GrainError, TooLarge

# Section 11.3: zstd, level 3 by default.
LEVEL: Final = 3
# What a decompressor must hold while it runs; what the strongest ordinary level (19) asks for is 8 MiB.
MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024
# One block of 128 KiB can hide in four bytes: feeding this much at a time bounds what comes out at once to 16 MiB.
_FED_BYTES = 512


def compressed(chunks: Iterable[bytes], total_bytes: int) -> Iterator[bytes]:
    """One frame that holds the chunks, which have `total_bytes` together, and states that size."""
    import zstandard

    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compressobj(size=total_bytes)
    for chunk in chunks:
        piece = compressor.compress(chunk)
        if piece:
            yield piece
    yield compressor.flush()


class Frame:
    """Reads one frame from the front of a run of chunks; after the iteration `size_bytes` says where it ended."""

    def __init__(self, chunks: Iterable[bytes], *, max_bytes: int) -> None:
        self._chunks = chunks
        self._max_bytes = max_bytes
        self.size_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        import zstandard

        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
        produced = 0
        for fed in self._fed():
            try:
                piece = decompressor.decompress(fed)
            except zstandard.ZstdError:
                raise GrainError("the compressed grains are damaged", oms_code="ERR_CORRUPT") from None
            self.size_bytes += len(fed) - len(decompressor.unused_data)
            produced += len(piece)
            if produced > self._max_bytes:
                raise TooLarge(f"the compressed grains unfold to more than {self._max_bytes} bytes")
            if piece:
                yield piece
            if decompressor.eof:
                return
        raise GrainError("the compressed grains end early", oms_code="ERR_CORRUPT")

    def _fed(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            for start in range(0, len(chunk), _FED_BYTES):
                yield chunk[start : start + _FED_BYTES]
