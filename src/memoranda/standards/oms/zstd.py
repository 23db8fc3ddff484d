"""The compressed grain region of an `.mg` file: one zstd frame (OMS section 11.3), whose stated size is not trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from memoranda.errors import GrainError, TooLarge

# Section 11.3: zstd, level 3 by default.
LEVEL: Final = 3
# Bytes of memory that a decompressor may use. The strongest ordinary level (19) needs 8 MiB.
MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024
# Bytes of input per step. A block of 128 KiB can be encoded in four bytes; this limits the output of a step to 16 MiB.
_INPUT_BYTES = 512


def compress(chunks: Iterable[bytes], total_bytes: int) -> Iterator[bytes]:
    """Yield one frame that contains the chunks and states their size, `total_bytes`."""
    import zstandard

    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compressobj(
        size=total_bytes
    )
    for chunk in chunks:
        piece = compressor.compress(chunk)
        if piece:
            yield piece
    yield compressor.flush()


class FrameDecompressor:
    """A decompressor of the one frame at the front of a stream of chunks.

    Iterate over it for the decompressed pieces. Afterwards `size_bytes` is the size of the compressed frame.
    """

    def __init__(self, chunks: Iterable[bytes], *, max_bytes: int) -> None:
        self._chunks = chunks
        self._max_bytes = max_bytes
        self.size_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        import zstandard

        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
        produced = 0
        for part in self._split_input():
            try:
                piece = decompressor.decompress(part)
            except zstandard.ZstdError:
                raise GrainError(
                    "the compressed grains are damaged", oms_code="ERR_CORRUPT"
                ) from None
            self.size_bytes += len(part) - len(decompressor.unused_data)
            produced += len(piece)
            if produced > self._max_bytes:
                raise TooLarge(f"the decompressed grains have more than {self._max_bytes} bytes")
            if piece:
                yield piece
            if decompressor.eof:
                return
        raise GrainError("the compressed grains end early", oms_code="ERR_CORRUPT")

    def _split_input(self) -> Iterator[bytes]:
        """Yield the chunks in small parts, which limit the output of a step."""
        for chunk in self._chunks:
            for start in range(0, len(chunk), _INPUT_BYTES):
                yield chunk[start : start + _INPUT_BYTES]
