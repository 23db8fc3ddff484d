"""The library's front door for programs with an event loop: the same verbs, awaited.

A verb over a server waits in the event loop (`library/bridge.py`); a verb of a store of this machine runs in a thread,
because it waits for files and locks.

Type checkers see the verbs of a standard as `Ump[Awaited]` and so on: each with its own signature, and awaited. At run
time `AsyncVerbs` calls whatever table is behind it, of a store or of a server.

Each method does what its namesake of `Memoranda` does. Over a store of this process a call runs in a thread, since the
store blocks; over HTTP it runs in the event loop if greenlet is installed (`library/bridge.py`). A store is opened when
the context is entered, not when the object is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    overload,
)

from memoranda.app import Memoranda
from memoranda.embedding.embedder import EmbedTexts
from memoranda.library import bridge
from memoranda.library.memories import OamsMemories
from memoranda.library.results import Memory
from memoranda.service.exchange.report import Report
from memoranda.standards.ump.record import Record

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.core.verbs import Awaited
    from memoranda.service.oams.oams import Oams
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.ump.ump import Ump

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", contravariant=True)
V = TypeVar("V", covariant=True)
Run = Callable[..., Awaitable[Any]]
_FILE_VERBS = frozenset((Memoranda.import_files,))
# Memories read at once while iterating; a page of a server is no larger.
_PAGE = 100


class Front(Protocol[V]):
    """An object whose methods are called in threads."""

    @property
    def _target(self) -> V:
        """The object that has the methods."""

    def _run(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Awaitable[Any]:
        """Call a function in the event loop or in a thread."""


class _Verb(Generic[T, P, R]):
    """A method that is awaited; its signature is the same."""

    def __init__(self, function: Callable[Concatenate[T, P], R]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, front: None, owner: type) -> Self: ...
    @overload
    def __get__(self, front: Front[T], owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, front: Any, owner: type) -> Any:
        if front is None:
            return self

        def call(*args: P.args, **keywords: P.kwargs) -> Awaitable[R]:
            returned: Awaitable[R] = front._run(self._function, front._target, *args, **keywords)
            return returned

        call.__name__, call.__doc__ = self._function.__name__, self.__doc__
        return call


def _run_in_loop(function: Callable[..., R], *args: Any, **keywords: Any) -> Awaitable[R]:
    """Call a function in the event loop; those that read files of this machine run in a thread."""
    if function in _FILE_VERBS:
        return asyncio.to_thread(function, *args, **keywords)
    return bridge.run(function, *args, **keywords)


class AsyncVerbs:
    """The verbs of one standard, each awaited, with their own signatures. Results that come one by one come as a list.

    Examples:
        >>> async def main():
        ...     async with AsyncMemoranda.open(":memory:") as m:
        ...         stored = await m.oams.store("tea", "green, no sugar")
        ...         return (await m.oams.get("tea")).memory["value"], len(await m.oams.namespaces)
        >>> asyncio.run(main())
        ('green, no sugar', 1)
    """

    def __init__(self, verbs: Any, run: Run = asyncio.to_thread) -> None:
        self._verbs, self._run = verbs, run

    def __call__(self, *args: Any, **keywords: Any) -> Awaitable[Any]:
        return self._run(_complete, self._verbs, *args, **keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        verb = getattr(self._verbs, name)

        def call(*args: Any, **keywords: Any) -> Awaitable[Any]:
            return self._run(_complete, verb, *args, **keywords)

        call.__name__, call.__doc__ = name, verb.__doc__
        return call

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._verbs) if not name.startswith("_")]


def _complete(verb: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Return a verb's result. An iterator is read to its end here, in the thread, because reading it waits, too."""
    result = verb(*args, **keywords)
    return list(result) if isinstance(result, Iterator) else result


class AsyncOams:
    """One person's memory as OAMS memories; `OamsMemories`, awaited."""

    def __init__(self, memories: OamsMemories, run: Run) -> None:
        self._target, self._run = memories, run

    namespace = _Verb(OamsMemories.namespace)
    store = _Verb(OamsMemories.store)
    batch_store = _Verb(OamsMemories.batch_store)
    recall = _Verb(OamsMemories.recall)
    get = _Verb(OamsMemories.get)
    forget = _Verb(OamsMemories.forget)
    list = _Verb(OamsMemories.list)

    @property
    def namespaces(self) -> Awaitable[Sequence[str]]:
        """The namespaces that hold anything: `await m.oams.namespaces`."""
        return self._run(lambda: self._target.namespaces)

    @property
    def verbs(self) -> Oams[Awaited]:
        """OAMS's own verbs, with its own requests."""
        return cast("Oams[Awaited]", AsyncVerbs(self._target.verbs, self._run))


class AsyncMemoranda:
    """One person's memory, for a program with an event loop.

    Examples:
        >>> async def main():
        ...     async with AsyncMemoranda.open(":memory:") as m:
        ...         await m.remember("use pnpm, never npm", kind="procedural", project="shop")
        ...         hit, = await m.recall("pnpm", project="shop")
        ...         return hit.text, [memory.text async for memory in m]
        >>> asyncio.run(main())
        ('use pnpm, never npm', ['use pnpm, never npm'])
    """

    def __init__(self, opens: Callable[[], Memoranda]) -> None:
        self._opens = opens
        self._memory: Memoranda | None = None
        # Chosen when the memory is open.
        self._run: Run = asyncio.to_thread

    @classmethod
    def open(
        cls,
        path_or_url: str | Path | None = None,
        *,
        owner: str | None = None,
        key: str | None = None,
        embedder: tuple[str, EmbedTexts] | None = None,
    ) -> Self:
        """Return a memory that `async with` opens; the arguments are those of `Memoranda.open`."""
        return cls(lambda: Memoranda.open(path_or_url, owner=owner, key=key, embedder=embedder))

    @property
    def memoranda(self) -> Memoranda:
        """The object that is not awaited, for code in a thread of its own."""
        if self._memory is None:
            raise RuntimeError("not open; write: async with AsyncMemoranda.open(…) as m")
        return self._memory

    remember = _Verb(Memoranda.remember)
    recall = _Verb(Memoranda.recall)
    for_prompt = _Verb(Memoranda.for_prompt)
    list = _Verb(Memoranda.list)
    stats = _Verb(Memoranda.stats)
    get = _Verb(Memoranda.get)
    history = _Verb(Memoranda.history)
    similar = _Verb(Memoranda.similar)
    revise = _Verb(Memoranda.revise)
    forget = _Verb(Memoranda.forget)
    feedback = _Verb(Memoranda.feedback)
    suspects = _Verb(Memoranda.suspects)
    orders = _Verb(Memoranda.orders)
    allow_orders = _Verb(Memoranda.allow_orders)
    redact = _Verb(Memoranda.redact)
    import_records = _Verb(Memoranda.import_records)
    import_files = _Verb(Memoranda.import_files)
    undo_import = _Verb(Memoranda.undo_import)
    verify = _Verb(Memoranda.verify)
    consolidate = _Verb(Memoranda.consolidate)
    undo = _Verb(Memoranda.undo)

    @property
    def _target(self) -> Memoranda:
        """The object whose verbs are called."""
        return self.memoranda

    @property
    def owner(self) -> Awaitable[str]:
        """The owner of the memory: `await m.owner`."""
        return self._run(lambda: self.memoranda.owner)

    @property
    def ump(self) -> Ump[Awaited]:
        """UMP's own verbs, with its own requests."""
        return cast("Ump[Awaited]", AsyncVerbs(self.memoranda.ump, self._run))

    @property
    def oams(self) -> AsyncOams:
        """The memory through OAMS."""
        return AsyncOams(self.memoranda.oams, self._run)

    @property
    def grains(self) -> Grains[Awaited]:
        """The memory through OMS."""
        return cast("Grains[Awaited]", AsyncVerbs(self.memoranda.grains, self._run))

    @property
    def openwop(self) -> Openwop[Awaited]:
        """The memory through openwop."""
        return cast("Openwop[Awaited]", AsyncVerbs(self.memoranda.openwop, self._run))

    @property
    def cal(self) -> Cal[Awaited]:
        """The query language: `await m.cal("RECALL beliefs")`, and its verbs."""
        return cast("Cal[Awaited]", AsyncVerbs(self.memoranda.cal, self._run))

    async def export(
        self, *, project: str | None = None, history: bool = True, report: Report | None = None
    ) -> tuple[Record, ...]:
        """Return every record that may leave; `report` counts those that stay, with the reasons."""
        exported = self.memoranda.export
        records: tuple[Record, ...] = await self._run(
            lambda: tuple(exported(project=project, history=history, report=report))
        )
        return records

    async def __aiter__(self) -> AsyncIterator[Memory]:
        """Yield all memories, last updated first."""
        after: int | None = 0
        while after is not None:
            # A page that is full of large memories is shorter, and says where the next begins.
            page, after = await self._run(self.memoranda._page, _PAGE, after, {})
            for memory in page:
                yield memory

    async def __aenter__(self) -> Self:
        self._memory = await asyncio.to_thread(self._opens)
        if self._memory._is_remote and bridge.is_available():
            self._run = _run_in_loop
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._run(self.memoranda.close)
        self._memory = None

    def __repr__(self) -> str:
        return "AsyncMemoranda(not open)" if self._memory is None else f"Async{self._memory!r}"
