"""Small `.mg` files for tests."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, Final

from tests.standards.oms.published import CREATED_AT, belief, of_type

from memoranda.encoding.didkey import SigningKey
from memoranda.standards.oms import grains
from memoranda.standards.oms.container import ContainerWriter
from memoranda.standards.oms.container_reader import ContainerReader
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.oms.signature import SignedGrain, open_envelope, sign

KEY: Final = SigningKey(bytes(range(32)))
VERIFIED: Final = IndexState(verification_status="verified")


def some_grains(count: int = 3, **options: Any) -> list[Grain]:
    """Different grains, created a second apart."""
    return [grains.encode(belief(object=f"tea {n}", created_at=CREATED_AT + 1000 * n), **options) for n in range(count)]


def signed_grain() -> SignedGrain:
    return open_envelope(sign(of_type("event"), KEY, issued_at=CREATED_AT // 1000))


def written(items: Iterable[Grain | SignedGrain | bytes], states: Iterable[IndexState] = (), **options: Any) -> bytes:
    """The bytes of a file with these grains; the first of them have these states."""
    out, remaining = io.BytesIO(), iter(states)
    writer = ContainerWriter(out, io.BytesIO(), **options)
    for item in items:
        writer.append(item, next(remaining, DEFAULT))
    writer.finish()
    return out.getvalue()


def reader(data: bytes, **options: Any) -> ContainerReader:
    return ContainerReader(io.BytesIO(data), **options)
