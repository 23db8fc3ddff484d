"""What was made of short texts, kept: a cache that counts entries is bounded in bytes only if each entry is."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def short_cache(limit: int, *, length: int = 256) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Keep the results of a function for so many arguments, the last of which is a text or bytes; of a longer one none.

    Others choose how long their texts are, up to a mebibyte, and how many of them they send.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kept = lru_cache(maxsize=limit)(function)

        @wraps(function)
        def call(*args: P.args, **named: P.kwargs) -> T:
            # Asked a dozen times for every memory.
            return kept(*args) if len(cast("Sized", args[-1])) <= length else function(*args, **named)

        return call

    return decorate
