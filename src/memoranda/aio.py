"""The library's front door for programs with an event loop: the same verbs, each in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from inspect import getattr_static
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from memoranda.app import Memoranda
from memoranda.embedding.embedder import EmbedTexts
from memoranda.library.results import Memory
from memoranda.service.report import Report
from memoranda.standards.ump.record import Record

P = ParamSpec("P")
R = TypeVar("R")
# As many are read at once while iterating.
_PAGE = 100


class _Verb(Generic[P, R]):
    """A verb of `Memoranda` that is awaited; its signature is the same."""

    def __init__(self, function: Callable[Concatenate[Memoranda, P], R]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, memoranda: None, owner: type) -> Self: ...
    @overload
    def __get__(self, memoranda: AsyncMemoranda, owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, memoranda: Any, owner: type) -> Any:
        if memoranda is None:
            return self

        def called(*given: P.args, **named: P.kwargs) -> Awaitable[R]:
            return asyncio.to_thread(self._function, memoranda.memoranda, *given, **named)

        called.__name__, called.__doc__ = self._function.__name__, self.__doc__
        return called


class AsyncVerbs:
    """The verbs of one standard, each awaited, with the signatures that they have without; those of `m.grains` are in
    `Grains`, and so on. What comes one after the other comes as a list.

    >>> async def main():
    ...     async with AsyncMemoranda.open(":memory:") as m:
    ...         stored = await m.oams.store("tea", "green, no sugar")
    ...         return (await m.oams.get("tea")).memory["value"], len(await m.oams.namespaces)
    >>> asyncio.run(main())
    ('green, no sugar', 1)
    """

    def __init__(self, verbs: Any) -> None:
        self._verbs = verbs

    def __call__(self, *given: Any, **named: Any) -> Awaitable[Any]:
        return asyncio.to_thread(_whole, self._verbs, *given, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if isinstance(getattr_static(type(self._verbs), name, None), property):
            # Over a server it is asked for, too.
            return asyncio.to_thread(getattr, self._verbs, name)
        verb = getattr(self._verbs, name)
        if name == "verbs":
            return AsyncVerbs(verb)

        def called(*given: Any, **named: Any) -> Awaitable[Any]:
            return asyncio.to_thread(_whole, verb, *given, **named)

        called.__name__, called.__doc__ = name, verb.__doc__
        return called

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._verbs) if not name.startswith("_")]


def _whole(verb: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What a verb gives; what would be read while somebody else waits is read here."""
    found = verb(*given, **named)
    return list(found) if isinstance(found, Iterator) else found


class AsyncMemoranda:
    """One person's memory, for a program with an event loop.

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
        self._opened: Memoranda | None = None

    @classmethod
    def open(
        cls,
        path_or_url: str | Path | None = None,
        *,
        owner: str | None = None,
        key: str | None = None,
        embedder: tuple[str, EmbedTexts] | None = None,
    ) -> Self:
        """As `Memoranda.open`; it is opened by `async with`."""
        return cls(lambda: Memoranda.open(path_or_url, owner=owner, key=key, embedder=embedder))

    @property
    def memoranda(self) -> Memoranda:
        """The same without awaiting: for whatever has no verb here."""
        if self._opened is None:
            raise RuntimeError("not open; write: async with AsyncMemoranda.open(…) as m")
        return self._opened

    remember = _Verb(Memoranda.remember)
    recall = _Verb(Memoranda.recall)
    for_prompt = _Verb(Memoranda.for_prompt)
    list = _Verb(Memoranda.list)
    stats = _Verb(Memoranda.stats)
    get = _Verb(Memoranda.get)
    history = _Verb(Memoranda.history)
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
    def owner(self) -> Awaitable[str]:
        """Whose memory it is: `await m.owner`."""
        return asyncio.to_thread(lambda: self.memoranda.owner)

    @property
    def ump(self) -> AsyncVerbs:
        """UMP's verbs as they are, with its own requests."""
        return AsyncVerbs(self.memoranda.ump)

    @property
    def oams(self) -> AsyncVerbs:
        """The same memory through OAMS."""
        return AsyncVerbs(self.memoranda.oams)

    @property
    def grains(self) -> AsyncVerbs:
        """The same memory through OMS."""
        return AsyncVerbs(self.memoranda.grains)

    @property
    def openwop(self) -> AsyncVerbs:
        """The same memory through openwop."""
        return AsyncVerbs(self.memoranda.openwop)

    @property
    def cal(self) -> AsyncVerbs:
        """The query language: `await m.cal("RECALL beliefs")`, and its verbs."""
        return AsyncVerbs(self.memoranda.cal)

    async def export(
        self, *, project: str | None = None, history: bool = True, report: Report | None = None
    ) -> tuple[Record, ...]:
        """Every record that may leave; `report` is told what stays behind, and why."""
        exported = self.memoranda.export
        return await asyncio.to_thread(lambda: tuple(exported(project=project, history=history, report=report)))

    async def __aiter__(self) -> AsyncIterator[Memory]:
        """All memories, last updated first."""
        after: int | None = 0
        while after is not None:
            # A page that is full of large memories is shorter, and says where the next begins.
            page, after = await asyncio.to_thread(self.memoranda._page, _PAGE, after, {})
            for memory in page:
                yield memory

    async def __aenter__(self) -> Self:
        self._opened = await asyncio.to_thread(self._opens)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.memoranda.close)
        self._opened = None

    def __repr__(self) -> str:
        return "AsyncMemoranda(not open)" if self._opened is None else f"Async{self._opened!r}"
