"""Bending inputs: bytes that begin as good ones, and values that begin as good fields."""

from __future__ import annotations

import copy
import random
from typing import Any, Final

# Lead bytes of MessagePack and CBOR that announce lengths, numbers and nesting, and the limits of a byte.
_LEADS: Final = bytes.fromhex(
    "00 01 7f 80 81 8f 90 9f a0 a1 bf c0 c1 c4 c6 ca cb cf d2 d3 d9 db dc dd de df e0 f6 f9 ff"
)
_NUMBERS: Final = tuple(
    number.to_bytes(size, "big")
    for size in (2, 4, 8)
    for number in (0, 1, 0x7F, 0xFF, 2 ** (8 * size - 1), 2 ** (8 * size) - 1)
)
_TEXTS: Final = ("", "x", "\ufeff", "e\u0301", "\u0000", "phi:a", "pii:", "0" * 64, "did:key:z", "type", "a" * 70_000)
_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    -(2**63),
    2**64 - 1,
    0.0,
    -0.0,
    0.5,
    1e308,
    b"",
    b"\x01",
    [],
    {},
)
_MAX_INPUT_BYTES: Final = 200_000


def bent(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """The bytes after one to eight small accidents; `other` is where foreign pieces come from."""
    bent = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        _accident(rng, bent, other)
    return bytes(bent[:_MAX_INPUT_BYTES])


def _accident(rng: random.Random, data: bytearray, other: bytes) -> None:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((1, 1, 2, 4, 8, 32)))
    kind = rng.randrange(9)
    if kind == 0 and at < len(data):
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1 and at < len(data):
        data[at] = rng.choice(_LEADS)
    elif kind == 2 and at < len(data):
        data[at] = rng.randrange(256)
    elif kind == 3:
        data[at:at] = rng.choice(_NUMBERS) if rng.random() < 0.5 else bytes((rng.choice(_LEADS),))
    elif kind == 4:
        del data[at:end]
    elif kind == 5:
        data[at:at] = data[at:end] * rng.choice((1, 2, 50))
    elif kind == 6:
        number = rng.choice(_NUMBERS)
        data[at : at + len(number)] = number
    elif kind == 7:
        start = rng.randrange(len(other) + 1)
        data[at:end] = other[start : start + rng.choice((1, 4, 16, 64))]
    else:
        del data[at:]


def bent_value(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """A copy of a value in which one place, somewhere, became something else."""
    if depth < 6 and value and isinstance(value, dict | list) and rng.random() < 0.8:
        changed: Any = copy.copy(value)
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        if isinstance(value, dict) and rng.random() < 0.15:
            changed[_text(rng)] = changed.pop(key)
        else:
            changed[key] = bent_value(rng, value[key], depth + 1)
        return changed
    return any_value(rng)


def any_value(rng: random.Random, depth: int = 0) -> Any:
    """Anything that a payload may try to hold."""
    kind = rng.randrange(10)
    if kind < 4:
        return rng.choice(_VALUES)
    if kind < 6 or depth > 5:
        return _text(rng)
    if kind == 6:
        return rng.getrandbits(rng.choice((3, 8, 16, 32, 48, 63))) * rng.choice((1, -1))
    if kind == 7:
        nested: Any = rng.choice(_VALUES)
        for _ in range(rng.choice((2, 31, 32, 33, 60))):
            nested = [nested] if rng.random() < 0.5 else {"k": nested}
        return nested
    if kind == 8:
        return [any_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {_text(rng): any_value(rng, depth + 1) for _ in range(rng.randrange(4))}


def _text(rng: random.Random) -> str:
    return rng.choice(_TEXTS) if rng.random() < 0.7 else "".join(rng.choices("aé\u0301漢z:/ 0", k=rng.randrange(12)))
