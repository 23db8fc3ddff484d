"""The compressed grain region of an `.mg` file: one zstd frame (OMS section 11.3), whose stated size is not trusted.

The codec is that of Python 3.14, or its backport before. It is loaded with the first compressed file.

A small frame can stand for an enormous text, so the output is counted as it comes and each step returns only a part; it
stops at `max_bytes`, whatever the frame states. Input goes in small steps as well, so that of a damaged file everything
before the damage is still read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, Final

from memoranda.errors import GrainError, TooLarge

# Section 11.3: zstd, level 3 by default.
LEVEL: Final = 3
# The base-2 logarithm of the bytes of memory that a decompressor may use, 128 MiB. Level 19, the strongest ordinary
# one, needs 8 MiB.
MAX_WINDOW_LOG: Final = 27
# Bytes of input per step, so that damage takes away little of what stands before it.
_INPUT_BYTES: Final = 512
# Bytes that one step may return: a few bytes of input can stand for many mebibytes.
_STEP_BYTES: Final = 1_048_576


def compress(chunks: Iterable[bytes], total_bytes: int) -> Iterator[bytes]:
    """Yield one frame that contains the chunks and states their size, `total_bytes`."""
    codec = _load_codec()
    option = codec.CompressionParameter
    compressor = codec.ZstdCompressor(
        options={option.compression_level: LEVEL, option.checksum_flag: 1}
    )
    compressor.set_pledged_input_size(total_bytes)
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
        codec = _load_codec()
        limit = {codec.DecompressionParameter.window_log_max: MAX_WINDOW_LOG}
        decompressor = codec.ZstdDecompressor(options=limit)
        produced = 0
        try:
            for piece in self._decompress(decompressor):
                produced += len(piece)
                if produced > self._max_bytes:
                    raise TooLarge(
                        f"the decompressed grains have more than {self._max_bytes} bytes"
                    )
                if piece:
                    yield piece
        except codec.ZstdError:
            raise GrainError("the compressed grains are damaged", oms_code="ERR_CORRUPT") from None
        if not decompressor.eof:
            raise GrainError("the compressed grains end early", oms_code="ERR_CORRUPT")

    def _decompress(self, decompressor: Any) -> Iterator[bytes]:
        """Yield the result of each step until the frame or the input ends."""
        for part in self._split_input():
            self.size_bytes += len(part)
            yield decompressor.decompress(part, max_length=_STEP_BYTES)
            while not (decompressor.needs_input or decompressor.eof):
                yield decompressor.decompress(b"", max_length=_STEP_BYTES)
            if decompressor.eof:
                self.size_bytes -= len(decompressor.unused_data)
                return

    def _split_input(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            for start in range(0, len(chunk), _INPUT_BYTES):
                yield chunk[start : start + _INPUT_BYTES]


def _load_codec() -> ModuleType:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
