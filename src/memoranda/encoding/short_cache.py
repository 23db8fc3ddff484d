"""A cache for functions of short texts: only if every entry is short, a limit of entries is also a limit of memory."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def short_cache(limit: int, *, length: int = 256) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Cache the results of a function whose last argument is a text or bytes of at most `length`.

    Results of longer arguments are not cached: clients choose the length of their texts, up to a mebibyte, and their
    number.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        cached = lru_cache(maxsize=limit)(function)

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            # Called a dozen times for every memory, so it does nothing else.
            return (
                cached(*args)
                if len(cast("Sized", args[-1])) <= length
                else function(*args, **options)
            )

        return call

    return decorate
