"""Verbs as tables: each standard's class lists its functions, and what a caller must be granted to call them.

This is the one place where a verb is authorised. The functions themselves take `(context, access, …)`, call one
another freely, and ask only what depends on the request: whose memory it is about, and which part of it.

A table is used in two ways. `Grains(context, None)` is for a server of many callers, and every call names its access
first; `Grains(context, access)` is one caller's, and no call does. Both have the signatures of the functions. A third,
`Grains[Awaited]`, exists for type checkers only: the library for event loops shows its tables so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, overload

from memoranda.errors import MemorandaError
from memoranda.measures import VERB_FAILURES, VERB_SECONDS
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.tracing import span

# What the others call by their class.
_STANDARDS: Final = {"Grains": "oms"}
P = ParamSpec("P")
R = TypeVar("R", covariant=True)
T = TypeVar("T")


class Awaited:
    """The caller of verbs that are awaited; results that come one by one come as a list."""


# Access: the verbs are one caller's. None: every call names its caller.
Caller = TypeVar("Caller", bound=Access | Awaited | None)


class Verbs(Generic[Caller]):
    """What one standard can do with an open store."""

    def __init__(self, context: Context, access: Caller) -> None:
        self._context: Final = context
        self._access: Final = access


class Verb(Generic[P, R]):
    """One function of a table.

    `scopes` are what its caller must be granted, all of them. `whole` is for what belongs to an owner as a whole and
    cannot be granted in part, such as the logs of runs.
    """

    # The leading parameters of the function that callers do not give.
    bound_count: ClassVar = 2

    def __init__(
        self,
        function: Callable[Concatenate[Context, Access, P], R],
        *scopes: str,
        owner_wide: bool = False,
    ) -> None:
        self.function: Final = function
        self.scopes: Final = scopes
        self.owner_wide: Final = owner_wide
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._labels = (_STANDARDS.get(owner.__name__, owner.__name__.lower()), name)
        self._span = f"verb {self._labels[0]}.{name}"

    @overload
    def __get__(self, verbs: None, owner: type) -> Self: ...
    @overload
    def __get__(self, verbs: Verbs[None], owner: type) -> Callable[Concatenate[Access, P], R]: ...
    @overload
    def __get__(self, verbs: Verbs[Access], owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(
        self: Verb[P, Iterator[T]], verbs: Verbs[Awaited], owner: type
    ) -> Callable[P, Awaitable[list[T]]]: ...
    @overload
    def __get__(self, verbs: Verbs[Awaited], owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, verbs: Any, owner: type) -> Any:
        if verbs is None:
            return self
        context, bearer = verbs._context, verbs._access

        def for_caller(access: Access, /, *given: P.args, **named: P.kwargs) -> R:
            began = perf_counter()
            try:
                with span(self._span, may_begin=True):
                    self.authorise(access)
                    return self.function(context, access, *given, **named)
            except MemorandaError as error:
                VERB_FAILURES.add(*self._labels, error.code)
                raise
            finally:
                VERB_SECONDS.observe(perf_counter() - began, *self._labels)

        def for_bearer(*given: P.args, **named: P.kwargs) -> R:
            return for_caller(bearer, *given, **named)

        bound: Any = for_caller if bearer is None else for_bearer
        bound.__name__, bound.__doc__, bound.__wrapped__ = self._name, self.__doc__, self.function
        # Found there from now on: a verb is bound once for each object.
        vars(verbs)[self._name] = bound
        return bound

    def authorise(self, access: Access) -> None:
        """Raise ForbiddenScope unless the caller may call this at all."""
        for scope in self.scopes:
            access.require(scope)
        if self.owner_wide:
            access.require_whole_owner()


class PublicVerb(Generic[P, R]):
    """One function of a table that touches no memory, so that no caller needs a grant."""

    bound_count: ClassVar = 1

    def __init__(self, function: Callable[Concatenate[Context, P], R]) -> None:
        self.function: Final = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, verbs: None, owner: type) -> Self: ...
    @overload
    def __get__(self, verbs: Verbs[None] | Verbs[Access], owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, verbs: Verbs[Awaited], owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, verbs: Any, owner: type) -> Any:
        if verbs is None:
            return self
        bound: Any = partial(self.function, verbs._context)
        bound.__doc__ = self.__doc__
        return bound


class FreeVerb(Generic[P, R]):
    """One function of a table that needs no store either; it can be called on the class."""

    bound_count: ClassVar = 0

    def __init__(self, function: Callable[P, R]) -> None:
        self.function: Final = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, verbs: Verbs[Awaited], owner: type) -> Callable[P, Awaitable[R]]: ...
    @overload
    def __get__(self, verbs: Verbs[Any] | None, owner: type) -> Callable[P, R]: ...
    def __get__(self, verbs: Any, owner: type) -> Any:
        return self.function
