"""Plain values in a pickle, read without running anything of it.

A pickle is a program: it may call any function, and a few bytes may allocate any amount of memory. So its instructions
are checked first, and then an inert object takes the place of everything that is imported by name.
"""

from __future__ import annotations

import io
import pickle
import re
from typing import Any, Final, Self

from memoranda.errors import InvalidInput

# Values that one pickle may expand to: they can be shared, so a few bytes may hold very many.
_MAX_VALUES: Final = 10_000
_MAX_DEPTH: Final = 32
_DAMAGED: Final = (
    *(
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        LookupError,
        AttributeError,
        TypeError,
        OverflowError,
    ),
    *(MemoryError, RecursionError),
)
# Instructions of a fixed length that make at most one small object. Python writes these from protocol 2 on; older
# ones, persistent ids, extension codes, and buffers outside the pickle are left out.
_FIXED: Final = re.compile(
    rb"(?:[(.012N)\]}ltdaesuRb\x81\x85-\x89\x8f-\x94]|\x80.|[Khq].|M..|[Jj].{4}|[G\x95].{8})+",
    re.DOTALL,
)
# Instructions with data: the number of bytes in which its length stands before it.
_COUNTED: Final = {
    **dict.fromkeys(b"\x8cCU\x8a", 1),
    **dict.fromkeys(b"XBT\x8b", 4),
    **dict.fromkeys(b"\x8d\x8e", 8),
}
# A module and a name, one a line.
_GLOBAL: Final = ord("c")
# Stores the last object at a position of the memo, an array that is allocated up to that position.
_LONG_PUT: Final = ord("r")


class OpaqueObject:
    """An inert object in the place of anything that a pickle imports by name: it keeps its state and runs nothing."""

    state: object = None

    def __new__(cls, *_: object, **__: object) -> Self:
        return super().__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Reads a pickle without importing anything."""

    def find_class(self, module: str, name: str, /) -> type[OpaqueObject]:  # noqa: ARG002
        return OpaqueObject


def load(data: bytes) -> object:
    """Return the value of a pickle, with `Named` for everything that is not plain. Raises InvalidInput."""
    try:
        _check_instructions(data)
        return _Unpickler(io.BytesIO(data)).load()
    except _DAMAGED:
        raise InvalidInput("it is damaged") from None


def _check_instructions(data: bytes) -> None:
    """Raise ValueError if reading a pickle might take much more memory than it has bytes."""
    position, size = 0, len(data)
    while position < size:
        if fixed := _FIXED.match(data, position):
            position = fixed.end()
            continue
        instruction, start = data[position], position + 1
        if instruction == _GLOBAL:
            position = data.index(b"\n", data.index(b"\n", start) + 1) + 1
        elif instruction == _LONG_PUT:
            position = start + 4
            # Each position of the memo is filled once, by an instruction of its own, so it is below the size.
            if int.from_bytes(data[start:position], "little") > size:
                raise ValueError("the memo index is too large for a pickle of this size")
        elif instruction in _COUNTED:
            begins = start + _COUNTED[instruction]
            position = begins + int.from_bytes(data[start:begins], "little")
            if position > size:
                raise ValueError("data that ends after the pickle")
        else:
            raise ValueError("an instruction that no plain value needs")


def plain_copy(value: object) -> Any:
    """Return a copy of a value in the types of JSON, with null for other objects. Raises InvalidInput."""
    return _Copier().copy(value)


class _Copier:
    """Copies a limited number of values."""

    def __init__(self) -> None:
        self._remaining = _MAX_VALUES

    def copy(self, value: object, depth: int = 0) -> object:
        self._remaining -= 1
        if self._remaining < 0 or depth > _MAX_DEPTH:
            raise InvalidInput(
                f"a payload of more than {_MAX_VALUES} values, or nested deeper than {_MAX_DEPTH} levels"
            )
        if isinstance(value, dict):
            return {
                str(name): self.copy(item, depth + 1)
                for name, item in value.items()
                if isinstance(name, str)
            }
        if isinstance(value, list | tuple):
            return [self.copy(item, depth + 1) for item in value]
        if type(value) is int and not -(2**63) <= value < 2**64:
            raise InvalidInput("a payload with a number that JSON has no room for")
        return value if isinstance(value, str | int | float | bool) else None
