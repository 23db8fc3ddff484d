"""Many numbers as one value of PostgreSQL: its binary form of an array, made and read by numpy at once."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memoranda.retrieval.segment import Floats

# One dimension, nothing missing, the type of the elements; then how many there are, counted from 1.
_HEAD: Final = struct.Struct("!iiIii")
_INT8: Final = 20
_FLOAT4: Final = 700


class WholeNumbers(bytes):
    """An array of bigint."""

    __slots__ = ()


class Reals(bytes):
    """An array of real."""

    __slots__ = ()


def whole_numbers(numbers: NDArray[np.int64]) -> WholeNumbers:
    """Numbers as a parameter."""
    return WholeNumbers(_packed(numbers, ">i8", _INT8))


def reals(numbers: Floats) -> Reals:
    """Numbers as a parameter."""
    return Reals(_packed(numbers, ">f4", _FLOAT4))


def _packed(numbers: NDArray[np.int64] | Floats, kind: str, element: int) -> bytes:
    import numpy as np

    made = np.empty(len(numbers), [("length", ">i4"), ("value", kind)])
    made["length"], made["value"] = np.dtype(kind).itemsize, numbers
    return _HEAD.pack(1, 0, element, len(numbers), 1) + made.tobytes()


def read_whole_numbers(data: bytes | None) -> NDArray[np.int64]:
    """Numbers that came; of nothing there are none."""
    import numpy as np

    return _values(data, ">i8").astype(np.int64)


def read_reals(data: bytes | None) -> Floats:
    """Numbers that came; of nothing there are none."""
    import numpy as np

    return _values(data, ">f4").astype(np.float32)


def _values(data: bytes | None, kind: str) -> NDArray[np.generic]:
    import numpy as np

    element = np.dtype([("length", ">i4"), ("value", kind)])
    # An array of nothing has no dimension, and its head ends before that.
    rest = b"" if data is None else memoryview(data)[_HEAD.size :]
    values: NDArray[np.generic] = np.frombuffer(rest, element)["value"]
    return values
