"""A bridge from ordinary functions to an event loop, so that the library over HTTP needs no thread for each call.

`run` calls a function in a greenlet of the event loop's thread. Wherever the function waits for a server, `wait` hands
the awaitable to the loop, and the function goes on with its result. Without greenlet (`memoranda[async]`), calls run in
threads (`aio.py`).

Why greenlets: the library over HTTP is written once, as ordinary functions. With greenlets these functions can be
called from the event loop without a thread and without a second version of every method. The price is that such a
function must not block in another way.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def is_available() -> bool:
    """Return True if greenlet is installed."""
    return find_spec("greenlet") is not None


def is_active() -> bool:
    """Return True if the caller runs inside `run`."""
    # Without this module nobody runs inside `run`; it is not loaded for programs without an event loop.
    greenlets = sys.modules.get("greenlet")
    return greenlets is not None and getattr(greenlets.getcurrent(), "is_bridged", False)


def wait(awaitable: Coroutine[Any, Any, R]) -> R:
    """Return the result of an awaitable, while other tasks run. Only inside `run`."""
    import greenlet

    result: R = greenlet.getcurrent().parent.switch(awaitable)
    return result


async def run(function: Callable[P, R], /, *args: P.args, **keywords: P.kwargs) -> R:
    """Call a function in the thread of the event loop, and await what it waits for.

    The function and everything that it calls run in the caller's thread; only `wait` switches to the loop.
    """
    import greenlet

    task = greenlet.greenlet(function)
    task.is_bridged = True
    # The function sees the context variables of the caller, such as the current span.
    task.gr_context = greenlet.getcurrent().gr_context
    result: Any = task.switch(*args, **keywords)
    while not task.dead:
        awaitable: Awaitable[Any] = result
        try:
            value = await awaitable
        except BaseException:  # noqa: BLE001 - cancellation, too, is passed to the function
            result = task.throw(*sys.exc_info())
        else:
            result = task.switch(value)
    return result  # type: ignore[no-any-return]
